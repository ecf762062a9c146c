//! [`Sites`]: from which places processes ask for the time, and how often, in a file that all of them map.
//!
//! The file is words, given out in blocks of a page, by one addition each: a table of places for a process, an array of
//! counts for a thread. So threads share no word that they write to; a count costs an instruction and loses nothing to a
//! signal handler. Nothing here waits or makes a system call, and what finds no room is counted as lost. Read by the
//! launcher afterwards ([`read()`]): what was counted is there however a process ended.
//!
//! Must never trust what stands in the file, nor walk a stack: whoever counts brings the addresses.

mod modules;
mod read;
#[cfg(test)]
mod tests;

use crate::arch;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
pub use read::{Chain, Contents, Module, Process, Site, Thread, header, read};

const MARK: u64 = u64::from_le_bytes(*b"cwsites\x01");

/// Words in a block: 4 KiB.
const BLOCK: usize = 512;
/// Blocks in a file, beside its head.
const BLOCKS: usize = 4096;
/// The head: the mark, how many blocks are taken, calls of processes that found no room; then a word a block, which says
/// whose it is.
const HEAD: usize = BLOCK + BLOCKS;
const TAKEN: usize = 1;
const MISSED: usize = 2;
const OWNERS: usize = BLOCK;

/// The size of the file in bytes.
pub const SIZE: usize = (HEAD + BLOCKS * BLOCK) * 8;

/// What a block is for; its owner's word is this above the process's number.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
enum Kind {
    Process = 1,
    Thread = 2,
    Chains = 3,
    Modules = 4,
}

/// Places that a process can tell apart.
pub const SITES: usize = 504;
const SITE_WORDS: usize = 4;
/// Threads that a process can tell apart at a time.
const THREADS: usize = 496;
/// How far from its place an entry is looked for.
const PROBES: usize = 24;

// A process: its head, and its places from `PLACES` on: address, call, samples of the chain, nothing.
const PROCESS_BLOCKS: usize = 5;
const NUMBER: usize = 0;
const PARENT: usize = 1;
const NAME: usize = 2;
const LOST: usize = 4;
const CHAINS_AT: usize = 5;
const SHARED_AT: usize = 6;
const MODULES_AT: usize = 7;
const MODULES_LOST: usize = 8;
const LOOKS: usize = 9;
const THREADS_AT: usize = 16;
const PLACES: usize = BLOCK;

// A thread: what it is known by, and a count for each place.
const KEY: usize = 0;
const EXPECTED: usize = 1;
const TID: usize = 2;
const THREAD_NAME: usize = 3;
const COUNTS: usize = 8;

// Chains: key, place and depth, samples, outer addresses.
const CHAIN_BLOCKS: usize = 16;
const CHAIN_WORDS: usize = 32;
const CHAINS: usize = CHAIN_BLOCKS * BLOCK / CHAIN_WORDS;
/// How many callers beyond the innermost are kept.
pub const DEPTH: usize = CHAIN_WORDS - 3;
/// The key of an entry that is being written.
const BUSY: u64 = 1;

// Modules: words used, the block before; then entries of length, start, end, offset, bytes of the path, the path.
const MODULE_BLOCKS: usize = 2;
const MODULE_WORDS: usize = MODULE_BLOCKS * BLOCK;
const MODULE_HEAD: usize = 2;
const ENTRY_HEAD: usize = 5;
/// Bytes of a path that are kept.
pub const PATH_MAX: usize = 512;
/// How often a process looks for new modules, at most.
const LOOKS_MAX: u64 = 64;

/// One in so many calls, about, has its chain looked at; the first of each thread and place always.
pub const SAMPLED: u64 = 512;

/// What was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Call {
    /// `clock_gettime` of that clock id.
    ClockGettime(i32),
    /// `gettimeofday`.
    Gettimeofday,
    /// `time`.
    Time,
    /// `timespec_get` of that base.
    TimespecGet(i32),
    /// `clock_getres` of that clock id.
    ClockGetres(i32),
}

impl Call {
    /// Not zero.
    #[inline(always)]
    const fn to_word(self) -> u64 {
        let (kind, id) = match self {
            Self::ClockGettime(id) => (1, id),
            Self::Gettimeofday => (2, 0),
            Self::Time => (3, 0),
            Self::TimespecGet(base) => (4, base),
            Self::ClockGetres(id) => (5, id),
        };
        kind << 32 | id as u32 as u64
    }

    const fn from_word(word: u64) -> Option<Self> {
        let id = word as u32 as i32;
        Some(match word >> 32 {
            1 => Self::ClockGettime(id),
            2 => Self::Gettimeofday,
            3 => Self::Time,
            4 => Self::TimespecGet(id),
            5 => Self::ClockGetres(id),
            _ => return None,
        })
    }
}

/// What makes a number look random: a multiple of the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// A place below `size`, which is 256 to 512, for a value. By the upper bits of one product, which depend on all bits of
/// the value: each call waits for it.
#[inline(always)]
const fn reduce(value: u64, size: usize) -> usize {
    let at = (value.wrapping_mul(GOLDEN) >> 55) as usize;
    if at >= size { at - size } else { at }
}

#[inline(always)]
const fn next(at: usize, size: usize) -> usize {
    if at + 1 == size { 0 } else { at + 1 }
}

/// The words of the file.
#[derive(Clone, Copy, Debug)]
pub struct Sites<'a>(&'a [AtomicU64]);

/// What one process counts.
#[derive(Clone, Copy, Debug)]
pub struct Counting<'a> {
    sites: Sites<'a>,
    number: u64,
    words: &'a [AtomicU64; PROCESS_BLOCKS * BLOCK],
}

/// A thread that is seen for the first time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Who {
    /// Its number; 0: not known.
    pub tid: u64,
    /// What it will be told from a later thread of the same key by; 0: by nothing.
    pub expected: u64,
    /// Its name, ended by zeros.
    pub name: [u8; 16],
}

/// The counts of one thread.
#[derive(Clone, Copy, Debug)]
pub struct Counts<'a>(&'a [AtomicU64; BLOCK]);

impl<'a> Sites<'a> {
    /// The words of a file that a launcher of this version has made; `None` if they are none. Fewer of them than
    /// [`SIZE`] give less room.
    #[must_use]
    pub fn new(words: &'a [AtomicU64]) -> Option<Self> {
        (words.first()?.load(Relaxed) == MARK && words.len() >= HEAD).then_some(Self(words))
    }

    /// The same words once more.
    #[inline(always)]
    #[must_use]
    pub const fn again(words: &'a [AtomicU64]) -> Self {
        Self(words)
    }

    /// The blocks that begin with that word: by its place in the file, so that nothing is to be computed on the way. Never 0;
    /// a number that anybody may have written.
    #[inline(always)]
    fn blocks<const WORDS: usize>(self, first: u64) -> Option<&'a [AtomicU64; WORDS]> {
        self.0.get(usize::try_from(first).ok()?..)?.first_chunk()
    }

    /// So many blocks, for the process of that number or for a new one; `None` if there are no more.
    fn take(self, count: usize, kind: Kind, process: Option<u64>) -> Option<u64> {
        let taken = self.0.get(TAKEN)?;
        // Once they have run out the counter stays near: it must not come round.
        let left = self.0.len().saturating_sub(HEAD) / BLOCK;
        if (taken.load(Relaxed) as usize).saturating_add(count) > left {
            return None;
        }
        let block = taken.fetch_add(count as u64, Relaxed) as usize;
        if block.saturating_add(count) > left {
            return None;
        }
        let first = (HEAD + block * BLOCK) as u64;
        let owner = process.unwrap_or(first);
        self.0.get(OWNERS + block)?.store((kind as u64) << 32 | owner, Release);
        Some(first)
    }

    /// Room for a process; its number, which is not 0.
    #[must_use]
    pub fn take_process(self) -> Option<u64> {
        self.take(PROCESS_BLOCKS, Kind::Process, None)
    }

    /// The process of that number.
    #[inline(always)]
    #[must_use]
    pub fn process(self, number: u64) -> Option<Counting<'a>> {
        Some(Counting { sites: self, number, words: self.blocks(number)? })
    }

    /// Counts a call of a process that found no room.
    pub fn miss(self) {
        if let Some(missed) = self.0.get(MISSED) {
            missed.fetch_add(1, Relaxed);
        }
    }
}

fn tell_name(words: &[AtomicU64], at: usize, name: [u8; 16]) {
    let name = u128::from_le_bytes(name);
    for (word, value) in words.iter().skip(at).zip([name as u64, (name >> 64) as u64]) {
        word.store(value, Relaxed);
    }
}

impl<'a> Counting<'a> {
    /// Says who counts here; the parent by its number, or 0.
    pub fn tell(&self, process: u64, parent: u64, name: [u8; 16]) {
        self.words[NUMBER].store(process, Relaxed);
        self.words[PARENT].store(parent, Relaxed);
        tell_name(self.words, NAME, name);
    }

    /// The kernel's number of this process, as it was told; 0: it was not.
    #[must_use]
    pub fn process(&self) -> u64 {
        self.words[NUMBER].load(Relaxed)
    }

    /// Counts a call whose place or thread found no room.
    pub fn lose(&self) {
        self.words[LOST].fetch_add(1, Relaxed);
    }

    /// The counts of the thread that is known by `key`, unless it is another one of the same key: by `number`, which is
    /// asked for only where it was told what to expect.
    #[inline(always)]
    pub fn thread(&self, key: u64, number: impl Fn() -> u64) -> Option<Counts<'a>> {
        let mut at = reduce(key, THREADS);
        for _ in 0..PROBES {
            let first = self.words.get(THREADS_AT + at)?.load(Acquire);
            if first == 0 {
                return None;
            }
            let words: &[AtomicU64; BLOCK] = self.sites.blocks(first)?;
            if words[KEY].load(Relaxed) == key {
                let expected = words[EXPECTED].load(Relaxed);
                let is_it = expected == 0 || number() == expected;
                return is_it.then_some(Counts(words));
            }
            at = next(at, THREADS);
        }
        None
    }

    /// Counts for a thread that is seen for the first time; those that all threads without room share, if there is no
    /// more. Who it is, is asked only where there is room.
    pub fn add_thread(&self, key: u64, who: impl FnOnce() -> Who) -> Option<Counts<'a>> {
        let shared = self.shared();
        if shared.is_some() {
            return shared;
        }
        let first = self.sites.take(1, Kind::Thread, Some(self.number))?;
        let words: &[AtomicU64; BLOCK] = self.sites.blocks(first)?;
        let who = who();
        words[EXPECTED].store(who.expected, Relaxed);
        words[TID].store(who.tid, Relaxed);
        tell_name(words, THREAD_NAME, who.name);
        words[KEY].store(key, Relaxed);
        let mut at = reduce(key, THREADS);
        for _ in 0..PROBES {
            let entry = self.words.get(THREADS_AT + at)?;
            let there = entry.load(Acquire);
            let is_same = |first: u64| {
                let words = self.sites.blocks::<BLOCK>(first);
                words.is_some_and(|words| words[KEY].load(Relaxed) == key)
            };
            // The thread that had this key has ended: nobody else writes to its entry.
            if (there == 0 || is_same(there))
                && entry.compare_exchange(there, first, AcqRel, Relaxed).is_ok()
            {
                return Some(Counts(words));
            }
            at = next(at, THREADS);
        }
        // No entry is left: the block is for all threads that come now.
        words[KEY].store(0, Relaxed);
        words[TID].store(0, Relaxed);
        tell_name(words, THREAD_NAME, [0; 16]);
        let _ = self.words[SHARED_AT].compare_exchange(0, first, AcqRel, Relaxed);
        self.shared()
    }

    fn shared(&self) -> Option<Counts<'a>> {
        let first = self.words[SHARED_AT].load(Acquire);
        if first == 0 {
            return None;
        }
        Some(Counts(self.sites.blocks(first)?))
    }

    /// The place from which `call` is made with this return address; `None` if there is no room for it.
    #[inline(always)]
    pub fn site(&self, call: Call, address: u64) -> Option<usize> {
        let call = call.to_word();
        let mut at = reduce(address ^ call.rotate_left(40), SITES);
        for _ in 0..PROBES {
            let [place, called] = self.place(at)?;
            let there = place.load(Relaxed);
            if there == address && called.load(Relaxed) == call {
                return Some(at);
            }
            if there == 0 {
                if place.compare_exchange(0, address, Relaxed, Relaxed).is_ok() {
                    called.store(call, Relaxed);
                    return Some(at);
                }
                // Somebody came first. What is not finished is passed by: a place may stand here twice, and is then
                // added up.
                if place.load(Relaxed) == address && called.load(Relaxed) == call {
                    return Some(at);
                }
            }
            at = next(at, SITES);
        }
        None
    }

    #[inline(always)]
    fn place(&self, site: usize) -> Option<&'a [AtomicU64; 2]> {
        self.words.get(PLACES + site * SITE_WORDS..)?.first_chunk()
    }

    /// Notes which callers were beyond the innermost at a call; whether they were not seen before.
    pub fn sample(&self, site: usize, outer: &[u64]) -> bool {
        if let Some(samples) = self.words.get(PLACES + site * SITE_WORDS + 2) {
            samples.fetch_add(1, Relaxed);
        }
        let outer = outer.get(..DEPTH).unwrap_or(outer);
        !outer.is_empty() && self.chain(site, outer).unwrap_or(false)
    }

    fn chain(&self, site: usize, outer: &[u64]) -> Option<bool> {
        let words = self.chains()?;
        let mix = |key: u64, &address: &u64| (key.rotate_left(23) ^ address).wrapping_mul(GOLDEN);
        let key = outer.iter().fold(site as u64, mix) | 2;
        let mut at = reduce(key, CHAINS);
        for _ in 0..PROBES {
            let entry: &[AtomicU64; CHAIN_WORDS] = words.get(at * CHAIN_WORDS..)?.first_chunk()?;
            let [state, place, samples, ..] = entry;
            if state.load(Acquire) == key {
                samples.fetch_add(1, Relaxed);
                return Some(false);
            }
            if state.compare_exchange(0, BUSY, AcqRel, Relaxed).is_ok() {
                place.store((outer.len() as u64) << 32 | site as u64, Relaxed);
                samples.store(1, Relaxed);
                for (word, &address) in entry.iter().skip(3).zip(outer) {
                    word.store(address, Relaxed);
                }
                state.store(key, Release);
                return Some(true);
            }
            at = next(at, CHAINS);
        }
        None
    }

    fn chains(&self) -> Option<&'a [AtomicU64; CHAIN_BLOCKS * BLOCK]> {
        let at = &self.words[CHAINS_AT];
        if at.load(Acquire) == 0 {
            let first = self.sites.take(CHAIN_BLOCKS, Kind::Chains, Some(self.number))?;
            // Of two threads at once one wins; what the other took is not used.
            let _ = at.compare_exchange(0, first, AcqRel, Relaxed);
        }
        self.sites.blocks(at.load(Acquire))
    }
}

impl Counts<'_> {
    /// Counts a call from a place; whether its chain is to be looked at.
    #[inline(always)]
    #[must_use]
    pub fn count(&self, site: usize) -> bool {
        let Some(count) = self.0.get(COUNTS + site) else { return false };
        // Where one thread alone writes, an instruction suffices, which a signal cannot divide.
        let before = if self.0[KEY].load(Relaxed) == 0 {
            count.fetch_add(1, Relaxed)
        } else {
            let before = count.load(Relaxed);
            arch::increment(count);
            before
        };
        // By the golden ratio: no period of a program's goes with it.
        before.wrapping_mul(GOLDEN) < u64::MAX / SAMPLED
    }
}
