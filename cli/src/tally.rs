//! What the processes of one run have read, from the board that they counted on.
//!
//! Must never trust what stands there: any of them may have written anything.

use clockwise_core::board::{self, COARSE, OTHER, Process};
use clockwise_core::clock::{FOLLOWED, Status};
use serde::Serialize;

/// Version of the schema.
const VERSION: u32 = 1;

/// The whole.
#[derive(Debug, Serialize)]
pub struct Tally {
    /// `clockwise.run.stats`.
    pub schema: &'static str,
    /// Its version.
    pub version: u32,
    /// All processes together.
    pub total: Counts,
    /// Those that loaded the image, in the order in which they came.
    pub processes: Vec<Counted>,
    /// Those that found no place to count.
    pub processes_missed: u64,
    /// Why the program was not preloaded, if it was not.
    pub plain: Option<String>,
    /// Why nothing was counted, if nothing was.
    pub nothing: Option<String>,
}

/// One process.
#[derive(Debug, Serialize)]
pub struct Counted {
    /// Its number; `null` for one that was forked and did not tell.
    pub process: Option<u64>,
    /// The place in the list, from 0 on, of the process that forked it.
    pub parent: Option<usize>,
    /// Its name, or that of the one that forked it.
    pub name: String,
    /// What it read.
    #[serde(flatten)]
    pub counts: Counts,
}

/// Reads, and what became of the clocks.
#[derive(Clone, Debug, Serialize)]
pub struct Counts {
    /// Of all clocks.
    pub reads: u64,
    /// Of those that the image follows.
    pub clocks: Vec<Followed>,
    /// Of the coarse clocks and `time()`, which the kernel answers.
    pub coarse_reads: u64,
    /// Of all others, which the kernel answers.
    pub other_reads: u64,
}

/// One clock that is followed.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Followed {
    /// The kernel's name of it.
    pub clock: String,
    /// How often it was read.
    pub reads: u64,
    /// How often the kernel answered while the counter was fit: at the start, after pauses, in distrust.
    pub kernel_answers: u64,
    /// Samples taken of the kernel.
    pub refreshes: u64,
    /// Changes of the kernel's rate.
    pub slews: u64,
    /// Steps of the kernel's clock.
    pub steps: u64,
    /// How often the counter was distrusted.
    pub distrusts: u64,
    /// The largest difference between the kernel and what was predicted, in nanoseconds.
    pub residual_max_ns: u64,
    /// Why the kernel answers all reads, or did at the end; of several processes the last that tells.
    pub unfit: Option<String>,
}

impl Followed {
    fn add(&mut self, reads: u64, status: &Status) {
        let sum = |count: &mut u64, more| *count = count.saturating_add(more);
        sum(&mut self.reads, reads);
        sum(&mut self.kernel_answers, status.kernel_answers);
        sum(&mut self.refreshes, status.refreshes);
        sum(&mut self.slews, status.slews);
        sum(&mut self.steps, status.steps);
        sum(&mut self.distrusts, status.distrusts);
        self.residual_max_ns = self.residual_max_ns.max(status.residual_max_ns);
        if let Some(unfit) = status.unfit {
            self.unfit = Some(unfit.to_string());
        }
    }
}

impl Counts {
    fn of<'a>(processes: impl Iterator<Item = &'a Process>) -> Self {
        let name = |clock: clockwise_core::kernel::ClockId| {
            clock.name().map_or_else(String::new, |name| format!("CLOCK_{name}"))
        };
        let clocks = FOLLOWED.map(|clock| Followed { clock: name(clock), ..Followed::default() });
        let mut counts = Self { reads: 0, clocks: clocks.into(), coarse_reads: 0, other_reads: 0 };
        for process in processes {
            for (at, clock) in counts.clocks.iter_mut().enumerate() {
                clock.add(process.reads[at], &process.status[at]);
            }
            counts.coarse_reads = counts.coarse_reads.saturating_add(process.reads[COARSE]);
            counts.other_reads = counts.other_reads.saturating_add(process.reads[OTHER]);
        }
        let followed = counts.clocks.iter().map(|clock| clock.reads);
        let all = followed.chain([counts.coarse_reads, counts.other_reads]);
        counts.reads = all.fold(0, u64::saturating_add);
        counts
    }
}

#[cfg(test)]
/// The content of a new board's file.
pub fn blank() -> Vec<u8> {
    let mut bytes = vec![0; board::SIZE];
    bytes[..8].copy_from_slice(&board::header());
    bytes
}

/// What stands on a board; `plain` says why the program was started without an image.
pub fn of(board: Option<&[u8]>, plain: Option<String>) -> Tally {
    let contents = board.and_then(board::read);
    let processes: Vec<Process> = contents.iter().flat_map(board::Contents::processes).collect();
    let total = Counts::of(processes.iter());
    let nothing = match (&plain, board, &contents) {
        _ if total.reads > 0 => None,
        (Some(_), ..) => Some("the program was started with the kernel's clock".to_owned()),
        (None, None, _) => Some("there was no place to count".to_owned()),
        (None, Some(_), None) => Some("the board was written over by one of the processes".to_owned()),
        _ if processes.is_empty() => Some(
            "no process loaded the image, as where the program is linked statically, clears LD_PRELOAD, or runs \
             where the cache cannot be read (another user, a chroot)"
                .to_owned(),
        ),
        _ => Some(
            "the image was loaded and no clock read through it; the program never asks, asks the kernel past libc \
             (as programs in Go do), or was answered by a library before the image in LD_PRELOAD"
                .to_owned(),
        ),
    };
    let missed = contents.map_or(0, |contents| contents.missed);
    let counted = processes.iter().map(|process| Counted {
        process: Some(process.process).filter(|&number| number != 0),
        parent: process.parent,
        name: name(process, &processes),
        counts: Counts::of([process].into_iter()),
    });
    Tally {
        schema: "clockwise.run.stats",
        version: VERSION,
        total,
        processes: counted.collect(),
        processes_missed: missed,
        plain,
        nothing,
    }
}

/// A name that can be printed: whoever has it chose it.
fn name(process: &Process, processes: &[Process]) -> String {
    let mut of = process;
    // A board in which somebody scribbled may say that two have forked each other.
    for _ in 0..processes.len() {
        match of.parent.and_then(|parent| processes.get(parent)) {
            Some(parent) if of.process == 0 => of = parent,
            _ => break,
        }
    }
    let name = String::from_utf8_lossy(&of.name);
    let name = name.trim_end_matches('\0');
    name.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blank_board_is_one_and_says_that_nobody_came() {
        let tally = of(Some(&blank()), None);
        assert!(tally.processes.is_empty() && tally.total.reads == 0);
        assert!(tally.nothing.unwrap().contains("no process loaded the image"));
    }

    #[test]
    fn rubbish_on_a_board_is_added_up_without_harm() {
        let mut bytes = vec![0xff; board::SIZE];
        assert!(of(Some(&bytes), None).nothing.unwrap().contains("written over"));
        bytes[..8].copy_from_slice(&board::header());
        let tally = of(Some(&bytes), None);
        assert_eq!(tally.processes.len(), board::SLOTS);
        assert_eq!(tally.total.reads, u64::MAX);
        assert!(tally.processes.iter().all(|process| !process.name.contains('\u{1b}')));
        assert!(of(Some(&bytes[..9]), None).nothing.is_some());
    }

    #[test]
    fn what_was_not_counted_has_a_reason() {
        let plain = of(None, Some("it is linked statically".to_owned()));
        assert!(plain.nothing.unwrap().contains("kernel's clock"));
        assert!(of(None, None).nothing.unwrap().contains("no place"));
    }
}
