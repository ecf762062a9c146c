//! [`Board`]: what processes that run the image count, in a file that all of them map.
//!
//! A slot for each process, claimed by one addition; a child that forks claims its own. Nothing here waits or makes a
//! system call: processes that find no slot are counted and no more. Made by the launcher ([`header`]), read by it
//! afterwards ([`read`]): what a process counted is there however it ended. Must never trust what stands in the file.

use crate::clock::{STATUS_WORDS, Status};
use crate::word::Word;
use core::sync::atomic::Ordering::Relaxed;

/// How many processes find a slot.
pub const SLOTS: usize = 256;

/// What reads are counted by: the five clocks that are followed, in the order of [`FOLLOWED`](crate::clock::FOLLOWED);
/// the coarse clocks and `time()`; all other clocks.
pub const KINDS: usize = 7;
/// The kind of the coarse clocks.
pub const COARSE: usize = 5;
/// The kind of all other clocks.
pub const OTHER: usize = 6;

const MARK: u64 = u64::from_le_bytes(*b"cwboard\x01");

/// The file, as it is mapped.
#[derive(Debug)]
#[repr(C)]
pub struct Board {
    mark: Word,
    /// How many processes have asked for a slot.
    claimed: Word,
    slots: [Slot; SLOTS],
}

/// What one process counts.
#[derive(Debug)]
#[repr(C)]
pub struct Slot {
    /// 0 while nobody has it; 1: claimed.
    claimed: Word,
    /// The process, if it told; a child that never asked the kernel did not.
    process: Word,
    /// The number of its parent's slot, from 1 on; 0: it came by exec.
    parent: Word,
    name: [Word; 2],
    reads: [Word; KINDS],
    /// Answers of the kernel while the counter was unfit, which no status counts.
    unfit: [Word; 5],
    status: [[Word; STATUS_WORDS]; 5],
}

/// The size of the file.
pub const SIZE: usize = size_of::<Board>();
const SLOT_WORDS: usize = size_of::<Slot>() / 8;

impl Board {
    /// Whether it was made by a launcher of this version.
    #[must_use]
    pub fn is_one(&self) -> bool {
        self.mark.load(Relaxed) == MARK
    }

    /// A slot for the calling process; `None` if all are taken.
    #[must_use]
    pub fn claim(&self) -> Option<usize> {
        let index = usize::try_from(self.claimed.fetch_add(1, Relaxed)).ok()?;
        self.slots.get(index)?.claimed.store(1, Relaxed);
        Some(index)
    }

    /// The slot of that number.
    #[inline]
    #[must_use]
    pub fn slot(&self, index: usize) -> Option<&Slot> {
        self.slots.get(index)
    }
}

impl Slot {
    /// Says who counts here.
    pub fn tell(&self, process: u64, parent: u64, name: [u8; 16]) {
        self.process.store(process, Relaxed);
        self.parent.store(parent, Relaxed);
        let name = u128::from_le_bytes(name);
        self.name[0].store(name as u64, Relaxed);
        self.name[1].store((name >> 64) as u64, Relaxed);
    }

    /// Counts a read.
    #[inline]
    pub fn count(&self, kind: usize) {
        if let Some(reads) = self.reads.get(kind) {
            reads.fetch_add(1, Relaxed);
        }
    }

    /// Counts an answer of the kernel while the counter was unfit; whether it is the first that is counted.
    pub fn count_unfit(&self, index: usize) -> bool {
        self.unfit.get(index).is_some_and(|answers| answers.fetch_add(1, Relaxed) == 0)
    }

    /// Notes what has become of the clock of that index.
    pub fn note(&self, index: usize, status: &Status) {
        if let Some(words) = self.status.get(index) {
            for (word, value) in words.iter().zip(status.to_words()) {
                word.store(value, Relaxed);
            }
        }
    }
}

/// What a process has counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number; 0: it was forked and did not tell.
    pub process: u64,
    /// The place in the file of the process that forked it; `None`: it came by exec.
    pub parent: Option<usize>,
    /// Its name, ended by zeros.
    pub name: [u8; 16],
    /// Reads by kind.
    pub reads: [u64; KINDS],
    /// What became of each clock that is followed; of one that was never read, a status without refreshes.
    pub status: [Status; 5],
}

/// What stands in a board.
#[derive(Clone, Copy, Debug)]
pub struct Contents<'a> {
    bytes: &'a [u8],
    /// Processes that found no slot.
    pub missed: u64,
}

/// The first bytes of a new board's file; the rest of its [`SIZE`] is zeros.
#[must_use]
pub const fn header() -> [u8; 8] {
    MARK.to_ne_bytes()
}

/// Reads the bytes of a board's file; `None` if they are none.
#[must_use]
pub fn read(bytes: &[u8]) -> Option<Contents<'_>> {
    if bytes.len() != SIZE || word(bytes, 0) != MARK {
        return None;
    }
    Some(Contents { bytes, missed: word(bytes, 1).saturating_sub(SLOTS as u64) })
}

fn word(bytes: &[u8], index: usize) -> u64 {
    let eight = bytes.get(index * 8..index * 8 + 8).and_then(|eight| eight.try_into().ok());
    eight.map_or(0, u64::from_ne_bytes)
}

impl Contents<'_> {
    /// The processes that counted, in the order in which they came.
    pub fn processes(&self) -> impl Iterator<Item = Process> + '_ {
        (0..SLOTS).filter_map(|index| self.process(index))
    }

    fn process(&self, index: usize) -> Option<Process> {
        let first = 2 + index * SLOT_WORDS;
        let word = |at: usize| word(self.bytes, first + at);
        if word(0) == 0 {
            return None;
        }
        let mut name = [0; 16];
        name[..8].copy_from_slice(&word(3).to_le_bytes());
        name[8..].copy_from_slice(&word(4).to_le_bytes());
        let status = |clock: usize| {
            let first = 10 + KINDS + clock * STATUS_WORDS;
            let mut status = Status::from_words(&core::array::from_fn(|at| word(first + at)));
            status.kernel_answers = status.kernel_answers.saturating_add(word(5 + KINDS + clock));
            status
        };
        let parent = usize::try_from(word(2)).ok().and_then(|parent| parent.checked_sub(1));
        Some(Process {
            process: word(1),
            parent: parent.filter(|&parent| parent < SLOTS),
            name,
            reads: core::array::from_fn(|kind| word(5 + kind)),
            status: core::array::from_fn(status),
        })
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use crate::clock::Step;
    use std::boxed::Box;
    use std::vec::Vec;

    fn zeros<const N: usize>() -> [Word; N] {
        [const { Word::new(0) }; N]
    }

    fn board() -> Box<Board> {
        let slot = || Slot {
            claimed: Word::new(0),
            process: Word::new(0),
            parent: Word::new(0),
            name: zeros(),
            reads: zeros(),
            unfit: zeros(),
            status: [const { [const { Word::new(0) }; STATUS_WORDS] }; 5],
        };
        let slots = core::array::from_fn(|_| slot());
        Box::new(Board { mark: Word::new(MARK), claimed: Word::new(0), slots })
    }

    /// The words in the order in which the C layout has them.
    fn bytes(board: &Board) -> Vec<u8> {
        let mut words = Vec::from([&board.mark, &board.claimed]);
        for slot in &board.slots {
            words.extend([&slot.claimed, &slot.process, &slot.parent]);
            words.extend(slot.name.iter().chain(&slot.reads).chain(&slot.unfit));
            words.extend(slot.status.iter().flatten());
        }
        words.iter().flat_map(|word| word.load(Relaxed).to_ne_bytes()).collect()
    }

    #[test]
    fn what_processes_count_can_be_read_afterwards() {
        let board = board();
        assert!(board.is_one());
        assert_eq!((board.claim(), board.claim()), (Some(0), Some(1)));
        let mut status = Status::from_words(&[0; STATUS_WORDS]);
        (status.refreshes, status.steps, status.residual_ns) = (7, 1, -3);
        status.last_steps[0] = Some(Step { at_ns: 5, by_ns: -6 });
        let slot = board.slot(0).unwrap();
        slot.tell(321, 0, *b"redis-server\0\0\0\0");
        slot.count(1);
        slot.count(1);
        slot.count(OTHER);
        slot.count(KINDS);
        assert!(slot.count_unfit(1));
        assert!(!slot.count_unfit(1));
        slot.note(1, &status);
        slot.note(5, &status);
        board.slot(1).unwrap().tell(0, 1, [0; 16]);
        let bytes = bytes(&board);
        assert_eq!(bytes.len(), SIZE);
        assert_eq!(bytes[..8], header());
        let contents = read(&bytes).unwrap();
        let processes: Vec<_> = contents.processes().collect();
        assert_eq!(processes.len(), 2);
        assert_eq!(processes[0].process, 321);
        assert_eq!(processes[0].parent, None);
        assert_eq!(&processes[0].name, b"redis-server\0\0\0\0");
        assert_eq!(processes[0].reads, [0, 2, 0, 0, 0, 0, 1]);
        assert_eq!(processes[0].status[1], Status { kernel_answers: 2, ..status });
        assert_eq!(processes[0].status[0].refreshes, 0);
        assert_eq!((processes[1].process, processes[1].parent), (0, Some(0)));
        assert_eq!(contents.missed, 0);
    }

    #[test]
    fn processes_that_find_no_slot_are_counted() {
        let board = board();
        assert_eq!((0..SLOTS).filter_map(|_| board.claim()).count(), SLOTS);
        assert_eq!((board.claim(), board.claim()), (None, None));
        assert_eq!(read(&bytes(&board)).unwrap().missed, 2);
    }

    #[test]
    fn bytes_that_are_no_board_are_none_and_rubbish_in_one_is_harmless() {
        assert!(read(&[]).is_none());
        let mut bytes = Vec::from([0xa5; SIZE]);
        assert!(read(&bytes).is_none());
        bytes[..8].copy_from_slice(&header());
        let contents = read(&bytes).unwrap();
        assert_eq!(contents.processes().count(), SLOTS);
        assert!(contents.processes().all(|process| process.parent.is_none()));
        assert!(read(&bytes[..SIZE - 1]).is_none());
    }
}
