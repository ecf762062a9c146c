//! [`Keeper`]: what a track knows besides its lines, of which only the holder of the lock reads and writes.
//!
//! Kept in atomic words all the same: a holder that was overruled may still be reading. Must never publish.

use crate::sample::{self, Taken};
use crate::scale::Scale;
use crate::timebase::{Mark, PERIOD_MAX_NS, PERIOD_NS, Timebase};
use crate::trust::Unfit;
use crate::units::Ticks;

/// Undisturbed samples this much wider than at the start are a sign that the kernel has left the counter.
const WIDER: u64 = 4;
const WIDER_MAX: u64 = 8;
/// At this sum of contradictions the counter is distrusted.
const STRIKES_MAX: u64 = 64;

/// What only the holder of the lock touches.
#[derive(Clone, Copy, Default)]
pub(crate) struct Keeper {
    pub(crate) timebase: Timebase,
    /// Half-width of undisturbed samples: the least so far.
    pub(crate) narrowest: u64,
    pub(crate) wider: u64,
    pub(crate) strikes: u64,
    pub(crate) distrust_ns: u64,
    /// The kernel's own clock went back at the last step.
    pub(crate) went_back: bool,
}

pub(crate) const KEEPER_WORDS: usize = 22;

impl Keeper {
    pub(crate) fn words(&self) -> [u64; KEEPER_WORDS] {
        let base = &self.timebase;
        let mut words = [0; KEEPER_WORDS];
        let marks = [base.newest, base.middle, base.oldest, base.said];
        for (words, mark) in words.chunks_exact_mut(3).zip(marks) {
            words.copy_from_slice(&[mark.ticks.0, mark.nanos as u64, mark.error]);
        }
        (words[12], words[13]) = base.scale.parts();
        (words[14], words[15]) = base.scale_error.parts();
        words[16..].copy_from_slice(&[
            self.narrowest,
            self.wider,
            self.strikes,
            self.distrust_ns,
            u64::from(self.went_back),
            u64::from(base.is_sure),
        ]);
        words
    }

    pub(crate) fn from_words(words: &[u64; KEEPER_WORDS]) -> Self {
        let mark = |at: usize| Mark {
            ticks: Ticks(words[at]),
            nanos: words[at + 1] as i64,
            error: words[at + 2],
        };
        Self {
            timebase: Timebase {
                newest: mark(0),
                middle: mark(3),
                oldest: mark(6),
                said: mark(9),
                scale: Scale::from_parts(words[12], words[13]),
                is_sure: words[21] != 0,
                scale_error: Scale::from_parts(words[14], words[15]),
            },
            narrowest: words[16],
            wider: words[17],
            strikes: words[18],
            distrust_ns: words[19],
            went_back: words[20] != 0,
        }
    }
}

impl Keeper {
    /// For how long the next line holds: so long that refreshing costs a thousandth of the time.
    pub(crate) fn period_ns(&self) -> u64 {
        let sample = Ticks(self.narrowest.saturating_mul(2 * u64::from(sample::READINGS)));
        let sample_ns = self.timebase.scale.nanos_saturating(sample);
        let wanted_ns = sample_ns.saturating_mul(1_000).clamp(PERIOD_NS, PERIOD_MAX_NS);
        self.timebase.period_ns(wanted_ns)
    }

    /// Whether the sample and those before it are reason to leave the counter alone.
    pub(crate) fn distrusts(&mut self, taken: &Taken) -> Option<Unfit> {
        let wide = taken.sample.half_width.0 > self.narrowest.saturating_mul(WIDER);
        self.wider = if wide { self.wider + 1 } else { 0 };
        if self.strikes >= STRIKES_MAX {
            Some(Unfit::Unsteady)
        } else if self.wider >= WIDER_MAX {
            Some(Unfit::KernelSlow)
        } else {
            None
        }
    }
}
