//! [`Status`]: what became of one clock so far, for people, and as words for other processes.
//!
//! Values only: read from the counts of a track by [`clock`](crate::clock).

use crate::track::STEPS_KEPT;
use crate::trust::Unfit;
use core::fmt;

/// A step of the kernel's clock, or of the counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Step {
    /// The clock's time after it, in nanoseconds.
    pub at_ns: i64,
    /// How far it went, in nanoseconds; 0 where the counter began anew, so that nobody can tell.
    pub by_ns: i64,
}

/// What became of one clock so far; shown as one sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// Why readings come from the kernel for good or for long; `None` where the counter is used or will be soon.
    pub unfit: Option<Unfit>,
    /// Whether a read would be answered from the counter now.
    pub fast: bool,
    /// Counter ticks per second by the current line; 0 if there is none.
    pub frequency_hz: u64,
    /// For how long the current line holds, in nanoseconds; 0 if there is none.
    pub period_ns: u64,
    /// Samples taken in.
    pub refreshes: u64,
    /// Reads that the kernel answered while the counter was fit: at the start, after pauses, in distrust.
    pub kernel_answers: u64,
    /// Changes of the kernel's rate that were noticed.
    pub slews: u64,
    /// Times that the line was ahead of a clock that may not go back.
    pub aheads: u64,
    /// Steps of the kernel's clock, or of the counter.
    pub steps: u64,
    /// Times that the counter was distrusted.
    pub distrusts: u64,
    /// Kernel minus prediction at the last refresh, in nanoseconds, steps excepted.
    pub residual_ns: i64,
    /// The largest of those either way.
    pub residual_max_ns: u64,
    /// The last steps, the newest first.
    pub last_steps: [Option<Step>; STEPS_KEPT],
}

/// How many words a [`Status`] has.
pub const STATUS_WORDS: usize = 12 + 2 * STEPS_KEPT;

impl Status {
    /// As words, to be handed from a process to another.
    #[must_use]
    pub fn to_words(&self) -> [u64; STATUS_WORDS] {
        let mut words = [0; STATUS_WORDS];
        let unfit = self.unfit.map_or(0, Unfit::code);
        let (first, steps) = words.split_at_mut(12);
        first.copy_from_slice(&[
            unfit,
            u64::from(self.fast),
            self.frequency_hz,
            self.period_ns,
            self.refreshes,
            self.kernel_answers,
            self.slews,
            self.aheads,
            self.steps,
            self.distrusts,
            self.residual_ns as u64,
            self.residual_max_ns,
        ]);
        for (words, step) in steps.chunks_exact_mut(2).zip(self.last_steps.iter().flatten()) {
            words.copy_from_slice(&[step.at_ns as u64, step.by_ns as u64]);
        }
        words
    }

    /// From such words; whatever they are.
    #[must_use]
    pub fn from_words(words: &[u64; STATUS_WORDS]) -> Self {
        let step = |age: usize| {
            let is_kept = (age as u64) < words[8];
            let [at, by] = [words[12 + 2 * age], words[13 + 2 * age]];
            is_kept.then_some(Step { at_ns: at as i64, by_ns: by as i64 })
        };
        Self {
            unfit: Unfit::from_code(words[0]),
            fast: words[1] != 0,
            frequency_hz: words[2],
            period_ns: words[3],
            refreshes: words[4],
            kernel_answers: words[5],
            slews: words[6],
            aheads: words[7],
            steps: words[8],
            distrusts: words[9],
            residual_ns: words[10] as i64,
            residual_max_ns: words[11],
            last_steps: core::array::from_fn(step),
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(reason) = self.unfit {
            return write!(f, "from the kernel: {reason}");
        }
        if !self.fast {
            let why = match self.refreshes {
                0 => "not read yet",
                1..3 => "starting (the first 1.2 ms)",
                _ => "between two lines (after a pause or a step)",
            };
            return write!(f, "from the kernel: {why}");
        }
        write!(
            f,
            "from the counter at {}.{:03} MHz, compared with the kernel every {}.{} ms, {} times so far, off its \
             prediction by at most {} ns; {} slews, {} steps",
            self.frequency_hz / 1_000_000,
            self.frequency_hz / 1_000 % 1_000,
            (self.period_ns + 50_000) / 1_000_000,
            (self.period_ns + 50_000) / 100_000 % 10,
            self.refreshes,
            self.residual_max_ns,
            self.slews,
            self.steps,
        )
    }
}
