//! [`Keeper`]: what a track knows besides its lines, of which only the holder of the lock reads and writes.
//!
//! Kept in atomic words all the same: a holder that was overruled may still be reading. Must never publish.

use crate::sample::{self, Sample, Taken};
use crate::scale::Scale;
use crate::timebase::{Change, Line, Mark, PERIOD_MAX_NS, PERIOD_NS, START_NS, Timebase};
use crate::trust::Unfit;
use crate::units::Ticks;

/// Samples this much wider than the narrowest so far, many in a row, are a sign that the kernel has left the counter.
const WIDER: u64 = 4;
const WIDER_MAX: u64 = 8;
/// At this sum of contradictions the counter is distrusted.
const STRIKES_MAX: u64 = 64;

/// By how much a line that a stopped writer puts out may lie below what the kernel says meanwhile: half for the line's
/// error, half for what a slew makes of two periods of 4 ms. See `bank`.
pub(crate) const MARGIN_NS: u64 = 25_000;
/// What may come on top of the width of a sample: its age, and rounding.
const LATE_NS: u64 = 20;
/// Contradictions weigh so much, and fade by one with each sample that agrees.
const STRIKES_SLEW: u64 = 8;
const STRIKES_STEP: u64 = 16;
/// The first time of distrust; each next one is twice as long, up to the last.
const DISTRUST_NS: u64 = 10_000_000_000;
const DISTRUST_MAX_NS: u64 = 3_600_000_000_000;

/// What a refresh has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The current line is good for a while.
    NotDue,
    /// Another thread is at it.
    Busy,
    /// There is a sample; a line needs three.
    Started,
    /// As predicted; the next line is ready.
    Kept,
    /// All readings of the sample were disturbed: the next reader tries again.
    Disturbed,
    /// The kernel has changed its rate, and the next line follows it.
    Slewed,
    /// Ours was ahead of a clock that must not go back, by up to a millisecond: the line runs to its end, and the kernel
    /// answers no less until there is a new one.
    Ahead,
    /// The kernel's clock was stepped, or the counter was: the kernel answers until there is a new line.
    Stepped,
    /// Only the kernel answers, for the time being or for good.
    Distrusted(Unfit),
}

/// What a sample has told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    pub(crate) outcome: Outcome,
    pub(crate) change: Option<Change>,
    /// Kernel minus prediction, where there was one and nothing stepped.
    pub(crate) residual_ns: Option<i64>,
    /// What the kernel said, and how far it stepped if it did.
    pub(crate) nanos: i64,
    pub(crate) step_ns: i64,
}

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
    /// For how long the next line holds: `max_age_ns`, if that is not 0; else so long that refreshing costs a thousandth
    /// of the time.
    pub(crate) fn period_ns(&self, max_age_ns: u64) -> u64 {
        if max_age_ns != 0 {
            return self.timebase.period_ns(max_age_ns);
        }
        let wanted_ns = self.sample_ns().saturating_mul(1_000).clamp(PERIOD_NS, PERIOD_MAX_NS);
        self.timebase.period_ns(wanted_ns)
    }

    /// What an undisturbed sample costs.
    fn sample_ns(&self) -> u64 {
        let sample = Ticks(self.narrowest.saturating_mul(2 * u64::from(sample::READINGS)));
        self.timebase.scale.nanos_saturating(sample)
    }

    /// When to try again after a sample that was too wide for a first line: its readers may come in bursts, of which the
    /// first reading is always a slow one.
    pub(crate) fn retry_ns(&self) -> u64 {
        self.sample_ns().saturating_mul(32).clamp(1, START_NS)
    }

    /// How late a first line may begin: meanwhile the kernel's answers are held below it. Four times what an undisturbed
    /// sample leaves open; on a machine that was busy at that moment the next reader tries again.
    pub(crate) fn late_max_ns(&self) -> u64 {
        let narrowest = Ticks(self.narrowest.saturating_mul(4));
        self.timebase.scale.nanos_saturating(narrowest).saturating_add(LATE_NS)
    }

    /// Takes a sample in: the first if it `began` with it.
    pub(crate) fn take_in(&mut self, taken: &Taken, began: bool, may_step: bool) -> Told {
        let sample = &taken.sample;
        // The first samples may all have been disturbed; nothing makes one narrower than undisturbed.
        let width = sample.half_width.0.max(1);
        self.narrowest = if self.narrowest == 0 { width } else { self.narrowest.min(width) };
        let mut told = Told {
            outcome: Outcome::Started,
            change: None,
            residual_ns: None,
            nanos: sample.nanos,
            step_ns: 0,
        };
        if began {
            self.timebase.begin_anew(sample);
            self.wider = 0;
        } else {
            self.compare(sample, may_step, &mut told);
        }
        if let Some(reason) = self.distrusts(taken) {
            self.distrust_ns = (self.distrust_ns * 2).clamp(DISTRUST_NS, DISTRUST_MAX_NS);
            self.strikes = 0;
            told.outcome = Outcome::Distrusted(reason);
        }
        told
    }

    /// What the sample says about the prediction.
    fn compare(&mut self, sample: &Sample, may_step: bool, told: &mut Told) {
        let was_sure = self.timebase.is_sure;
        let last_heard = self.timebase.said.nanos;
        let (change, residual_ns) = self.timebase.next(sample, may_step);
        told.change = Some(change);
        let (outcome, strikes) = match change {
            Change::Kept => (Outcome::Kept, 0),
            Change::Unusable => (Outcome::Disturbed, 0),
            Change::Slewed => (Outcome::Slewed, STRIKES_SLEW),
            Change::Ahead => (Outcome::Ahead, STRIKES_STEP),
            Change::Stepped => (Outcome::Stepped, STRIKES_STEP),
        };
        told.outcome = outcome;
        match change {
            Change::Stepped => {
                told.step_ns = residual_ns;
                self.went_back = sample.nanos < last_heard;
            }
            Change::Unusable => {}
            _ if was_sure => told.residual_ns = Some(residual_ns),
            _ => {}
        }
        let faded =
            if change == Change::Kept { self.strikes.saturating_sub(1) } else { self.strikes };
        self.strikes = faded + strikes;
    }

    /// The line to follow `line`, if it may be published while that one answers: one that may be further below the
    /// kernel than the margin may not; see `bank`.
    pub(crate) fn line_after(&self, line: &Line, max_age_ns: u64) -> Option<Line> {
        let next = self.timebase.line_after(line, self.period_ns(max_age_ns));
        next.filter(|next| self.timebase.error_at(next.end_ticks()) < MARGIN_NS / 2)
    }

    /// Whether the next reader should try again: the first reading of a burst may be a slow one, which is no sign that the
    /// kernel is slow.
    pub(crate) const fn wants_another(&self) -> bool {
        self.wider % 2 == 1
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
