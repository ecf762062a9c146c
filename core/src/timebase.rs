//! [`Timebase`]: what is known of one kernel clock as a function of ticks, and the [`Line`]s that answer reads
//! from it.
//!
//! ```text
//!  ns                      .-- kernel            A line is never altered once it is out, and the next begins where
//!   |           line n+1 .'                      it ends: all threads see one function of ticks, that never falls,
//!   |          _________/ <- deadline of n+1     whatever the moment at which each of them sees the next line.
//!   |  line n /.'                                It aims at the kernel's time at its own deadline.
//!   |      __/  <- deadline of n
//!   +----------------------------- ticks
//! ```
//!
//! Pure arithmetic on values: no atomics, no reads. Every estimate is an interval (a value, and how far off it may
//! be); must never be narrower than what the samples prove, except where a field says on which assumption.

use crate::sample::Sample;
use crate::scale::{Scale, Slope};
use crate::units::{NANOS_PER_SEC, Ticks};

/// How long a line holds, in nanoseconds, where a refresh costs no more than a thousandth of that.
pub const PERIOD_NS: u64 = 4_000_000;
/// The longest period, for kernels that are slow to read.
pub const PERIOD_MAX_NS: u64 = 250_000_000;
/// From the first sample to the second, and the shortest period.
pub const START_NS: u64 = 1_000_000;
/// From the second sample to the third, which confirms the rate: a rate that is off by more than a slew shows.
const CONFIRM_NS: u64 = 200_000;
/// By how much a confirmed rate may be off.
const CONFIRM_PPM: u64 = 1_000;
/// A rate that is known as well as this was not just taken anew.
const NARROW_PPM: u64 = 100;
/// The rate is taken over one to two of these.
const WINDOW_NS: u64 = 4_000_000_000;
/// By how much the kernel's rate may change from one sample to the next without being a slew: time daemons
/// steer by less.
const WANDER_PPM: u64 = 1;
/// By how much a slew may change the kernel's rate: from one end of adjtimex's range (500 ppm) to the other.
pub const SLEW_PPM: u64 = 1_000;
/// Up to this much ahead of a kernel clock that must not go back, a first line goes slower until both meet.
pub const AHEAD_MAX_NS: u64 = 1_000_000;
/// The kernel is not known better than that from a sample that was disturbed as a whole: such a one tells nothing.
pub const ERROR_MAX_NS: u64 = 100_000;
/// By how much slower, at most: then an early hand-over costs less than the gap between two reads.
const SLOWER_PPM: u64 = 10_000;

/// The kernel's time at a tick, and how far off it may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// The tick.
    pub ticks: Ticks,
    /// Nanoseconds of the clock.
    pub nanos: i64,
    /// The distance that is possible, in nanoseconds; in ticks while there is no scale yet.
    pub error: u64,
}

/// What a new sample says about the estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// As predicted.
    Kept,
    /// Off by what a new rate of the kernel explains (up to 1000 ppm): the rate is taken anew.
    Slewed,
    /// Ours is ahead by up to a millisecond, and the clock may not go back: begin anew, with this sample as the first.
    Ahead,
    /// Off by more: begin anew, with this sample as the first.
    Stepped,
    /// Nothing: the sample (or the one before it, with which it would give the first rate) is too far off itself.
    Unusable,
}

/// Samples condensed: where the kernel's clock is, how fast it goes, how sure that is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timebase {
    /// From the newest sample and what was predicted for it.
    pub newest: Mark,
    /// The next `oldest`.
    pub middle: Mark,
    /// The rate is that from here to the newest.
    pub oldest: Mark,
    /// The rate; zero while there is one sample only.
    pub scale: Scale,
    /// Whether a third sample has agreed with the rate of the first two: a step or a sleep between two samples makes
    /// a rate too, and the line of such a rate would be wrong for as long as it says.
    pub is_sure: bool,
    /// How far off the rate may be.
    pub scale_error: Scale,
    /// What the kernel said in the newest sample, and how far off the tick of that is, in nanoseconds: proven,
    /// where the estimate also relies on a steady rate.
    pub said: Mark,
}

impl Timebase {
    /// With the first sample: no rate yet, so no line.
    #[must_use]
    pub const fn start(sample: &Sample) -> Self {
        let mark = Mark { ticks: sample.ticks, nanos: sample.nanos, error: sample.half_width.0 };
        let none = Scale::from_bits(0);
        let (newest, middle, oldest, said) = (mark, mark, mark, mark);
        Self { newest, middle, oldest, scale: none, is_sure: false, scale_error: none, said }
    }

    /// With another first sample.
    #[cold]
    #[inline(never)]
    pub(crate) fn begin_anew(&mut self, sample: &Sample) {
        *self = Self::start(sample);
    }

    /// Whether there is a rate, if one that nothing has confirmed.
    #[must_use]
    pub const fn has_rate(&self) -> bool {
        self.scale.bits() != 0
    }

    /// Takes in a sample, and returns what it changes and by how many nanoseconds the kernel was off the
    /// prediction. `may_step` is for clocks that people set: what puts them back is a step.
    ///
    /// On [`Change::Ahead`] and [`Change::Stepped`] the timebase has begun anew with this sample: whether the rate has
    /// changed (by `ADJ_TICK`, up to a tenth) or the counter has jumped only the next one can tell.
    pub fn next(&mut self, sample: &Sample, may_step: bool) -> (Change, i64) {
        let Some(passed) = sample.ticks.since(self.newest.ticks).filter(|passed| passed.0 > 0)
        else {
            self.begin_anew(sample);
            return (Change::Stepped, 0);
        };
        if !self.has_rate() {
            return self.second(sample, passed);
        }
        let passed_ns = self.scale.nanos_saturating(passed);
        let predicted = self.newest.nanos.saturating_add_unsigned(passed_ns);
        let wander_ns = share_ppm(passed_ns, WANDER_PPM);
        let predicted_error = (self.newest.error)
            .saturating_add(self.scale_error.nanos_saturating(passed))
            // Both products above are rounded down.
            .saturating_add(wander_ns + 2);
        let longest = self.scale.plus(self.rate_error());
        let error = longest.nanos_saturating(sample.half_width).saturating_add(1);
        if error > ERROR_MAX_NS {
            return (Change::Unusable, 0);
        }
        let residual = sample.nanos.saturating_sub(predicted);
        let distance = residual.unsigned_abs();
        let explained = predicted_error.saturating_add(error);
        let slewed = explained.saturating_add(share_ppm(passed_ns, SLEW_PPM));
        let heard = Mark { ticks: sample.ticks, nanos: sample.nanos, error };
        let is_sure;
        let change = if distance <= explained {
            let was_narrow = self.scale_error < self.scale.share_ppm(NARROW_PPM);
            self.keep(&heard, predicted, predicted_error, passed_ns);
            // A rate is confirmed by what it could have failed: where the errors leave a thousandth open, a step passes.
            // That is so too where the rate had been uncertain and much time has passed.
            is_sure = self.is_sure && (was_narrow || passed_ns <= 2 * PERIOD_NS)
                || explained <= share_ppm(passed_ns, CONFIRM_PPM);
            Change::Kept
        } else if distance <= slewed && passed_ns >= WINDOW_NS {
            // Over a long pause a thousandth explains seconds, also those of a sleep or a migration: the rate is not
            // known any more.
            self.begin_anew(sample);
            return (Change::Slewed, residual);
        } else if distance <= slewed && self.turn(&heard) {
            // A first rate is not confirmed by another one. The next sample decides.
            is_sure = self.is_sure;
            Change::Slewed
        } else if !self.is_sure {
            self.begin_anew(sample);
            return (Change::Stepped, 0);
        } else {
            self.begin_anew(sample);
            let is_ahead = residual < 0 && distance <= AHEAD_MAX_NS && !may_step;
            return (if is_ahead { Change::Ahead } else { Change::Stepped }, residual);
        };
        (self.said, self.is_sure) = (heard, is_sure);
        (change, residual)
    }

    /// The second sample gives the first rate.
    fn second(&mut self, sample: &Sample, passed: Ticks) -> (Change, i64) {
        let first = self.newest;
        let nanos = u64::try_from(sample.nanos.saturating_sub(first.nanos)).unwrap_or(0);
        // The longest that a tick may last: the brackets may have been read at their ends that face each other, and
        // the kernel rounds down.
        let least = passed.0.checked_sub(first.error.saturating_add(sample.half_width.0));
        let longest =
            least.and_then(|least| Scale::from_ratio(nanos.saturating_add(1), Ticks(least)));
        let Some((scale, longest)) = Scale::from_ratio(nanos, passed).zip(longest) else {
            self.begin_anew(sample);
            return (Change::Stepped, 0);
        };
        let error = |ticks| longest.nanos_saturating(Ticks(ticks)).saturating_add(1);
        let oldest = Mark { error: error(first.error), ..first };
        let newest =
            Mark { ticks: sample.ticks, nanos: sample.nanos, error: error(sample.half_width.0) };
        if oldest.error.max(newest.error) > ERROR_MAX_NS {
            self.begin_anew(sample);
            return (Change::Unusable, 0);
        }
        *self = Self { newest, middle: oldest, oldest, scale, said: newest, ..*self };
        self.scale_error = error_between(&oldest, &newest);
        (Change::Kept, 0)
    }

    /// The prediction and the sample agree: the truth lies in both intervals.
    fn keep(&mut self, heard: &Mark, predicted: i64, predicted_error: u64, passed_ns: u64) {
        let low = (predicted.saturating_sub_unsigned(predicted_error))
            .max(heard.nanos.saturating_sub_unsigned(heard.error));
        let high = (predicted.saturating_add_unsigned(predicted_error))
            .min(heard.nanos.saturating_add_unsigned(heard.error));
        let width = high.saturating_sub(low).unsigned_abs();
        let middle = low.saturating_add_unsigned(width / 2);
        self.newest = Mark { ticks: heard.ticks, nanos: middle, error: width.div_ceil(2) };
        let baseline = self.newest.ticks.since(self.oldest.ticks).unwrap_or_default();
        let gained = u64::try_from(self.newest.nanos.saturating_sub(self.oldest.nanos));
        let scale = gained.ok().and_then(|gained| Scale::from_ratio(gained, baseline));
        let error = error_between(&self.oldest, &self.newest);
        match scale {
            Some(scale) if error <= self.rate_error() => {
                (self.scale, self.scale_error) = (scale, error);
            }
            // A window that has just begun knows less than the last one did.
            _ => self.scale_error = self.rate_error(),
        }
        let since_middle = self.newest.ticks.since(self.middle.ticks).unwrap_or_default();
        // After a pause as long as the window, the rate within it is an average over it and of no use later.
        if passed_ns >= WINDOW_NS {
            (self.oldest, self.middle) = (self.newest, self.newest);
            self.scale_error = self.scale_error.plus(self.scale.share_ppm(WANDER_PPM));
        } else if self.scale.nanos_saturating(since_middle) >= WINDOW_NS {
            (self.oldest, self.middle) = (self.middle, self.newest);
        }
    }

    /// The kernel goes at another rate since the last sample; `false` if that would be no rate.
    fn turn(&mut self, heard: &Mark) -> bool {
        let last = self.said;
        let passed = heard.ticks.since(last.ticks).unwrap_or_default();
        let nanos = u64::try_from(heard.nanos.saturating_sub(last.nanos)).unwrap_or(0);
        let Some(scale) = Scale::from_ratio(nanos, passed) else { return false };
        // When in between it turned is not known, so this is an average of the old rate and the new one.
        (self.oldest, self.middle, self.newest, self.scale) = (*heard, *heard, *heard, scale);
        self.scale_error = scale.share_ppm(SLEW_PPM);
        true
    }

    /// The line to follow `line`, published before its deadline: it begins where that one ends, or above, and aims
    /// at the kernel's time at its own deadline. `None` if the clock ends before (in the year 2262), or the rate is
    /// next to unknown.
    #[must_use]
    pub fn line_after(&self, line: &Line, period_ns: u64) -> Option<Line> {
        let start = line.end_ticks();
        let middle = self.at(start)?;
        self.line(start, middle, line.end(), period_ns)
    }

    /// The first line after the kernel itself has answered. It begins as long after `now`, a tick after the sample, as
    /// the estimate may be late: so nobody who was given the kernel's time by `now` is given less. Not below `floor`,
    /// which others were given. `None` as above, and if it would be more than `late_max_ns`, or the sample is over a
    /// millisecond old.
    #[must_use]
    pub fn line_anew(
        &self,
        floor: i64,
        now: Ticks,
        period_ns: u64,
        late_max_ns: u64,
    ) -> Option<Line> {
        let age = now.since(self.newest.ticks)?;
        // As far as the sample proves, and what a slew may have done since.
        let proven = self.newest.nanos.abs_diff(self.said.nanos).saturating_add(self.said.error);
        let slew = self.scale.share_ppm(SLEW_PPM).nanos_saturating(age);
        let late_ns = self.error_at(now).max(proven).saturating_add(slew).saturating_add(2);
        // An old sample does not know what has happened since.
        if late_ns > late_max_ns.min(ERROR_MAX_NS) || self.scale.nanos_saturating(age) > START_NS {
            return None;
        }
        // A hundredth more, for the rate, and for the slew during the delay.
        let delay = self.scale.ticks(late_ns + late_ns / 100 + 1);
        let start = Ticks(now.0.wrapping_add(delay.0 + 1));
        let line = self.line(start, self.at(start)?, floor, period_ns);
        // Nor one that begins later than `Bank::begins_soon` looks: nobody would be held below it.
        line.filter(|line| self.error_at(line.end_ticks()) <= ERROR_MAX_NS)
            .filter(|line| delay.0 < line.hard.0 / 32)
    }

    /// A line from `start` on: at `aim` there, or above it at `least`, and then slower until it meets what had
    /// begun at `aim`.
    fn line(&self, start: Ticks, aim: i64, least: i64, period_ns: u64) -> Option<Line> {
        // What reads multiply is half a word.
        let period = Ticks(self.scale.ticks(period_ns).0.min(1 << 31));
        let nanos = aim.max(least);
        let ahead_ns = nanos.saturating_sub(aim).unsigned_abs();
        let slower = if ahead_ns == 0 {
            Scale::default()
        } else {
            // Limited before it is divided: 2^64 times a distance of years is no 128-bit number.
            let slower = u128::from(ahead_ns.min(PERIOD_MAX_NS)) << 64;
            let slower = Scale::from_bits(slower / u128::from(period.0.max(1)));
            slower.min(self.scale.share_ppm(SLOWER_PPM))
        };
        let horizon = Ticks((start.since(self.newest.ticks)?.0).saturating_add(period.0));
        let drift = self.rate_error().nanos_saturating(horizon);
        let off = ahead_ns.saturating_add(3).saturating_add(drift.saturating_mul(2));
        let steady = off.saturating_add(self.newest.error);
        // Against what the kernel was heard to say; what it has done since grows with the time since then.
        let estimate_off = self.said.nanos.abs_diff(self.newest.nanos);
        let proven = steady.max(off.saturating_add(estimate_off).saturating_add(self.said.error));
        let line = Line {
            anchor: start,
            nanos,
            slope: self.scale.minus(slower).slope(),
            soft: Ticks(period.0 - period.0 / 4),
            hard: period,
            steady_ns: u32::try_from(steady).unwrap_or(u32::MAX),
            proven_ns: u32::try_from(proven).unwrap_or(u32::MAX),
            sampled: self.newest.ticks,
        };
        // A rate that is known so badly that the line could rise by a second: readers carry one at most.
        let risen = line.slope.0.checked_mul(period.0)? >> 32;
        if risen >= u64::from(NANOS_PER_SEC) {
            return None;
        }
        nanos.checked_add_unsigned(line.slope.nanos(period)).map(|_| line)
    }

    /// The estimate for a later tick.
    #[inline(never)]
    fn at(&self, ticks: Ticks) -> Option<i64> {
        let passed = ticks.since(self.newest.ticks)?;
        self.newest.nanos.checked_add_unsigned(self.scale.nanos_saturating(passed))
    }

    /// How far off the estimate may be at a later tick.
    #[must_use]
    pub fn error_at(&self, ticks: Ticks) -> u64 {
        let passed = ticks.since(self.newest.ticks).unwrap_or_default();
        self.newest.error.saturating_add(self.rate_error().nanos_saturating(passed))
    }

    /// How far off the rate may be soon.
    fn rate_error(&self) -> Scale {
        self.scale_error.plus(self.scale.share_ppm(WANDER_PPM))
    }

    /// After how long another sample can confirm the rate.
    #[must_use]
    pub fn confirm_ns(&self) -> u64 {
        // The next sample may be as wide as the last one was.
        let error = self.newest.error.max(self.said.error);
        CONFIRM_NS.max(error.saturating_mul(3 * 1_000_000 / CONFIRM_PPM))
    }

    /// For how long a line may hold: its own baseline at the start and after a slew, then `wanted_ns`.
    #[must_use]
    pub fn period_ns(&self, wanted_ns: u64) -> u64 {
        let baseline = self.newest.ticks.since(self.oldest.ticks).unwrap_or_default();
        // A window that begins anew has a rate that is little more than a guess.
        wanted_ns.min(self.scale.nanos_saturating(baseline).max(START_NS))
    }
}

/// How far off a rate from one mark to the other may be.
fn error_between(older: &Mark, newer: &Mark) -> Scale {
    let Some(passed) = newer.ticks.since(older.ticks) else { return Scale::MAX };
    let error = older.error.saturating_add(newer.error);
    let bits = (u128::from(error) << 64) / u128::from(passed.0.max(1));
    Scale::from_bits(bits).min(Scale::MAX)
}

const fn share_ppm(nanos: u64, parts_per_million: u64) -> u64 {
    (nanos / 1_000_000).saturating_mul(parts_per_million)
        + nanos % 1_000_000 * parts_per_million / 1_000_000
}

/// Time as a function of ticks, from an anchor to a deadline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// The first tick.
    pub anchor: Ticks,
    /// The time there.
    pub nanos: i64,
    /// Nanoseconds per tick.
    pub slope: Slope,
    /// After so many ticks the next line is due.
    pub soft: Ticks,
    /// After so many ticks this one ends.
    pub hard: Ticks,
    /// How far it is from the kernel at most, if the kernel keeps its rate.
    pub steady_ns: u32,
    /// The same at the tick `sampled`, proven; since then the kernel may have begun to slew.
    pub proven_ns: u32,
    /// The tick of the sample behind it.
    pub sampled: Ticks,
}

impl Line {
    /// Whether it answers for `ticks`.
    #[must_use]
    pub fn covers(&self, ticks: Ticks) -> bool {
        ticks.since(self.anchor).is_some_and(|passed| passed <= self.hard)
    }

    /// Whether half of it is over at `ticks`: no next line is made before.
    #[must_use]
    pub fn is_half_over(&self, ticks: Ticks) -> bool {
        ticks.since(self.anchor).is_some_and(|passed| passed.0 >= self.hard.0 / 2)
    }

    /// The time at `ticks`, if the line answers for it.
    #[must_use]
    pub fn at(&self, ticks: Ticks) -> Option<i64> {
        let passed = ticks.since(self.anchor).filter(|&passed| passed <= self.hard)?;
        // Whoever made the line saw to it that its end is a time.
        Some(self.nanos.wrapping_add_unsigned(self.slope.nanos(passed)))
    }

    /// The last tick.
    #[must_use]
    pub const fn end_ticks(&self) -> Ticks {
        Ticks(self.anchor.0.wrapping_add(self.hard.0))
    }

    /// The time at the last tick: nobody is given more.
    #[must_use]
    pub const fn end(&self) -> i64 {
        self.nanos.wrapping_add_unsigned(self.slope.nanos(self.hard))
    }

    /// How far from the kernel the line may be at `ticks`, whatever a slew of up to [`SLEW_PPM`] has done since
    /// the sample.
    #[must_use]
    pub fn error_ns(&self, ticks: Ticks) -> u64 {
        let age = ticks.since(self.sampled).unwrap_or_default();
        let slew = self.slope.scale().share_ppm(SLEW_PPM).nanos_saturating(age);
        u64::from(self.proven_ns).saturating_add(slew).saturating_add(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(ticks: u64, nanos: i64, half_width: u64) -> Sample {
        Sample { ticks: Ticks(ticks), nanos, half_width: Ticks(half_width) }
    }

    #[test]
    fn a_first_rate_from_wide_brackets_is_as_far_off_as_they_allow() {
        // A tick is a nanosecond; each bracket was read at the end that faces the other.
        let mut timebase = Timebase::start(&sample(1_000, 1_400, 400));
        assert_eq!(timebase.next(&sample(2_000, 1_600, 400), false), (Change::Kept, 0));
        let fastest = timebase.scale.plus(timebase.scale_error);
        assert!(fastest >= Scale::from_bits(1 << 64), "{timebase:?}");
        assert!(timebase.newest.error >= 400 && timebase.oldest.error >= 400, "{timebase:?}");
    }

    #[test]
    fn brackets_that_overlap_give_no_rate() {
        let mut timebase = Timebase::start(&sample(1_000, 1_400, 500));
        assert_eq!(timebase.next(&sample(2_000, 1_600, 500), false), (Change::Stepped, 0));
        assert!(!timebase.has_rate());
    }

    #[test]
    fn a_rate_that_is_next_to_unknown_gives_no_line() {
        let mut timebase = Timebase::start(&sample(0, 0, 1));
        timebase.next(&sample(1_000_000, 1_000_000, 1), false);
        assert!(timebase.line_anew(0, Ticks(1_000_000), PERIOD_MAX_NS, ERROR_MAX_NS).is_some());
        timebase.scale_error = Scale::MAX;
        assert_eq!(timebase.line_anew(0, Ticks(1_000_000), PERIOD_MAX_NS, ERROR_MAX_NS), None);
    }

    #[test]
    fn a_first_line_begins_no_later_than_readers_are_held_below_it() {
        let scale = Scale::from_bits(1 << 64);
        for error in [10_000, 30_000, 60_000, 95_000] {
            for baseline in [0, 300_000, 1_000_000, 4_000_000] {
                let newest = Mark { ticks: Ticks(1_000_000_000), nanos: 1_000_000_000, error };
                let ticks = Ticks(newest.ticks.0 - baseline);
                let oldest = Mark { ticks, nanos: ticks.0 as i64, error };
                let (scale_error, is_sure) = (scale.share_ppm(SLEW_PPM), true);
                let (middle, said) = (newest, newest);
                let timebase =
                    Timebase { newest, middle, oldest, scale, is_sure, scale_error, said };
                let now = Ticks(newest.ticks.0 + 200);
                if let Some(line) =
                    timebase.line_anew(0, now, timebase.period_ns(PERIOD_NS), ERROR_MAX_NS)
                {
                    let delay = line.anchor.since(now).unwrap();
                    assert!(delay.0 <= line.hard.0 / 32, "{error} {baseline}: {line:?}");
                }
            }
        }
    }
}
