//! Whether readings obey the laws, for one thread.
//!
//! A clock that people set may lag a step of the kernel's by one period, as `clockwise_core::clock` documents. A step shows
//! only afterwards, so what a step would explain is kept for a while before it is called a violation. Pure: must never
//! read a clock.

use super::tally::Tally;
use clockwise_core::laws::{self, Law, Monotonic, Steady, Violation};
use std::collections::VecDeque;

/// Readings shown before and after the one in question.
const SHOWN_BEFORE: usize = 8;
const SHOWN_AFTER: usize = 4;
/// Findings of one kind that are shown, by thread; all are counted.
const SHOWN_MAX: u64 = 4;
/// A step is followed within a period and so much more: a millisecond for the reader's own pace, and one for what it takes
/// until there is a new line.
const GRACE_NS: u64 = 2_000_000;
/// Of so much time the nearest reading tells whether the clock drifts.
const STRETCH_NS: i64 = 250_000_000;
/// A step that only the subject has noticed (a counter that was stepped by a migration) explains readings beyond their
/// bound, once in so much time: else whoever is always wrong would only have to say so.
const CLAIMS_APART_NS: i64 = 60_000_000_000;
/// Nothing is decided before the subject has been read in so many bursts: after a pause it has not noticed anything yet.
const GRACE_BURSTS: u32 = 8;

/// A reading between two of the kernel's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Taken {
    /// What the kernel said before.
    pub before_ns: i64,
    /// The reading.
    pub nanos: i64,
    /// What the kernel said after.
    pub after_ns: i64,
    /// How far off the reading may be, if it was taken with its bound.
    pub error_ns: Option<u64>,
    /// Whether it came from the counter, if that was told.
    pub from_counter: Option<bool>,
    /// The greatest reading of another thread that was seen just before.
    pub seen_ns: Option<i64>,
}

impl Taken {
    /// How long the kernel's readings are apart.
    pub fn width_ns(&self) -> u64 {
        u64::try_from(self.after_ns.saturating_sub(self.before_ns)).unwrap_or(0)
    }

    /// The kernel's time next to the reading: the middle of the bracket.
    pub fn kernel_ns(&self) -> i64 {
        self.before_ns.saturating_add_unsigned(self.width_ns() / 2)
    }

    /// Ours minus the kernel's.
    pub fn difference_ns(&self) -> i64 {
        self.nanos.saturating_sub(self.kernel_ns())
    }

    /// How far it lies beyond its bracket: surely later than the kernel if positive, surely earlier if negative.
    pub fn provable_ns(&self) -> i64 {
        let late = self.nanos.saturating_sub(self.after_ns).max(0);
        let early = self.before_ns.saturating_sub(self.nanos).max(0);
        if late > 0 { late } else { -early }
    }
}

/// What was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// A law of the clock.
    Law(Law),
    /// The user's own limit.
    Limit,
}

impl Broken {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Law(Law::Monotonic),
        Self::Law(Law::Causal),
        Self::Law(Law::Bounded),
        Self::Law(Law::Steady),
        Self::Limit,
    ];

    /// A stable name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Law(Law::Monotonic) => "monotonic",
            Self::Law(Law::Causal) => "causal",
            Self::Law(Law::Bounded) => "bounded",
            Self::Law(Law::Steady) => "steady",
            Self::Limit => "max_error",
        }
    }

    /// Whether a counter that was stepped explains it, until that is noticed: the distance does not stay another.
    fn is_of_a_moment(self) -> bool {
        !matches!(self, Self::Law(Law::Steady) | Self::Limit)
    }

    fn index(self) -> usize {
        Self::ALL.iter().position(|&one| one == self).unwrap_or(0)
    }

    /// What happened, in words.
    pub fn words(self, by_ns: u64) -> String {
        match self {
            Self::Law(law) => Violation { law, by_ns }.to_string(),
            Self::Limit => {
                format!("the clock was {by_ns} ns from the kernel, more than --max-error")
            }
        }
    }
}

/// Something that was broken, with the readings around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What.
    pub broken: Broken,
    /// By how much.
    pub by_ns: u64,
    /// When, since the beginning.
    pub elapsed_ns: i64,
    /// The readings around it.
    pub window: Vec<Taken>,
    /// Which of them it is.
    pub at: usize,
}

/// What is judged, and by what.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// The clock can be set, and may go back then.
    pub settable: bool,
    /// The user's limit.
    pub max_error_ns: Option<u64>,
}

/// What is known besides the readings of a burst.
#[derive(Clone, Copy, Debug, Default)]
pub struct Evidence {
    /// The kernel's own clock was set.
    pub kernel_stepped: bool,
    /// How many steps the subject has noticed.
    pub steps: u64,
    /// For how long its lines hold.
    pub period_ns: u64,
}

/// How often something was broken, and by how much at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Times.
    pub times: u64,
    /// The most.
    pub worst_ns: u64,
}

/// What is suspected, until it is known whether a step explains it.
struct Suspect {
    finding: Finding,
    count: Count,
    excusable: bool,
    missing: usize,
    until_ns: i64,
    bursts: u32,
}

/// When a burst was read.
struct Moment {
    elapsed_ns: i64,
    /// Until then a step may show.
    until_ns: i64,
    /// A step is being followed.
    is_excused: bool,
    /// A step that only the subject has noticed is being followed.
    is_claimed: bool,
}

/// The judge of one thread's readings.
pub struct Judge {
    rules: Rules,
    monotonic: Monotonic,
    steady: Option<(u64, Steady)>,
    /// The stretch of time, and the reading in it that is nearest to the kernel.
    nearest: Option<(i64, Taken)>,
    narrowest_ns: Option<u64>,
    steps: Option<u64>,
    excused_until_ns: i64,
    claimed_at_ns: Option<i64>,
    claimed_until_ns: i64,
    suspects: [Option<Suspect>; 5],
    shown: [u64; 5],
    last: VecDeque<Taken>,
    /// What is in dispute: counts if no step explains it.
    disputed: Tally,
    /// What counts.
    pub tally: Tally,
    /// Times by kind, in the order of [`Broken::ALL`].
    pub counts: [Count; 5],
    /// Readings that a step explains.
    pub excused: u64,
}

impl Judge {
    /// Nothing was read yet.
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            monotonic: Monotonic::new(),
            steady: None,
            nearest: None,
            narrowest_ns: None,
            steps: None,
            excused_until_ns: i64::MIN,
            claimed_at_ns: None,
            claimed_until_ns: i64::MIN,
            suspects: [const { None }; 5],
            shown: [0; 5],
            last: VecDeque::with_capacity(SHOWN_BEFORE + 1),
            disputed: Tally::new(),
            tally: Tally::new(),
            counts: [Count::default(); 5],
            excused: 0,
        }
    }

    /// Judges the readings of a burst; hands out what is certain by now.
    pub fn burst(
        &mut self,
        elapsed_ns: i64,
        readings: &[Taken],
        evidence: &Evidence,
        report: &mut impl FnMut(Finding),
    ) {
        let grace_ns = evidence.period_ns.max(4_000_000) + GRACE_NS;
        let noticed = self.steps.replace(evidence.steps).is_some_and(|last| evidence.steps > last);
        if evidence.kernel_stepped {
            self.excuse(elapsed_ns, grace_ns);
        } else if noticed {
            self.claim(elapsed_ns, grace_ns);
        }
        let moment = Moment {
            elapsed_ns,
            until_ns: elapsed_ns.saturating_add_unsigned(grace_ns),
            is_excused: elapsed_ns < self.excused_until_ns,
            is_claimed: elapsed_ns < self.claimed_until_ns,
        };
        let narrowest = readings.iter().map(Taken::width_ns).filter(|&width| width > 0).min();
        self.narrowest_ns = self.narrowest_ns.into_iter().chain(narrowest).min();
        self.steady(&moment, evidence.period_ns);
        for taken in readings {
            if !moment.is_excused && self.is_narrow(taken) {
                self.near(taken, &moment);
            }
            self.last.push_back(*taken);
            if self.last.len() > SHOWN_BEFORE + 1 {
                self.last.pop_front();
            }
            for suspect in self.suspects.iter_mut().flatten().filter(|suspect| suspect.missing > 0)
            {
                suspect.missing -= 1;
                suspect.finding.window.push(*taken);
            }
            self.judge(taken, &moment);
        }
        for suspect in self.suspects.iter_mut().flatten() {
            suspect.bursts += 1;
        }
        self.count(elapsed_ns, readings, moment.is_excused);
        self.decide(elapsed_ns, false, report);
    }

    /// Whether something is suspected that more readings could explain.
    pub fn is_waiting(&self) -> bool {
        self.suspects.iter().any(Option::is_some)
    }

    /// Nothing will be read any more: what is suspected now will not be explained.
    pub fn end(&mut self, elapsed_ns: i64, report: &mut impl FnMut(Finding)) {
        self.decide(elapsed_ns, true, report);
    }

    /// A step: what went before it says nothing about what comes after.
    fn excuse(&mut self, elapsed_ns: i64, grace_ns: u64) {
        self.excused_until_ns = elapsed_ns.saturating_add_unsigned(grace_ns);
        for suspect in &mut self.suspects {
            if let Some(excused) = suspect.take_if(|suspect| suspect.excusable) {
                self.excused += excused.count.times;
            }
        }
        self.disputed = Tally::new();
        (self.steady, self.nearest) = (None, None);
        if self.rules.settable {
            self.monotonic = Monotonic::new();
        }
    }

    /// A step that the kernel's clocks do not show: readings may have been beyond their bound. It excuses nothing else: the
    /// clock must be where it was, and the user's own limit knows no excuse.
    fn claim(&mut self, elapsed_ns: i64, grace_ns: u64) {
        if self.claimed_at_ns.is_some_and(|last| elapsed_ns - last < CLAIMS_APART_NS) {
            return;
        }
        self.claimed_at_ns = Some(elapsed_ns);
        self.claimed_until_ns = elapsed_ns.saturating_add_unsigned(grace_ns);
        for suspect in &mut self.suspects {
            let is_explained = |suspect: &mut Suspect| {
                suspect.excusable && suspect.finding.broken.is_of_a_moment()
            };
            if let Some(excused) = suspect.take_if(is_explained) {
                self.excused += excused.count.times;
            }
        }
    }

    /// The law of steadiness is asked of the nearest reading of each stretch: single ones may be as far off as their
    /// bound says (tens of microseconds in the first milliseconds of a busy machine), but all of them only in a drift.
    fn steady(&mut self, moment: &Moment, period_ns: u64) {
        let stretch = moment.elapsed_ns.div_euclid(STRETCH_NS);
        let Some((last, nearest)) = self.nearest.filter(|&(last, _)| last != stretch) else {
            return;
        };
        self.nearest = None;
        // The kernel may slew by a thousandth either way for the length of a line; two microseconds for the sample.
        let limit_ns = 2 * period_ns.max(4_000_000) / 1_000 + 2_000;
        if self.steady.as_ref().is_none_or(|(limit, _)| *limit < limit_ns) {
            self.steady = Some((limit_ns, Steady::new(limit_ns)));
        }
        let Some((_, steady)) = &mut self.steady else { return };
        if let Err(violation) = steady.see(nearest.before_ns, nearest.nanos, nearest.after_ns) {
            let window = vec![nearest];
            let elapsed_ns = last * STRETCH_NS;
            let broken = Broken::Law(violation.law);
            let by_ns = violation.by_ns;
            self.keep(Finding { broken, by_ns, elapsed_ns, window, at: 0 }, true, 0, moment);
        }
    }

    /// Remembers the nearest reading of the stretch.
    fn near(&mut self, taken: &Taken, moment: &Moment) {
        let distance = |taken: &Taken| taken.difference_ns().unsigned_abs();
        if self.nearest.is_none_or(|(_, nearest)| distance(taken) < distance(&nearest)) {
            self.nearest = Some((moment.elapsed_ns.div_euclid(STRETCH_NS), *taken));
        }
    }

    fn is_narrow(&self, taken: &Taken) -> bool {
        let width_ns = taken.width_ns();
        width_ns > 0 && self.narrowest_ns.is_some_and(|narrowest| width_ns <= 2 * narrowest)
    }

    fn judge(&mut self, taken: &Taken, moment: &Moment) {
        let Taken { before_ns, nanos, after_ns, .. } = *taken;
        let settable = self.rules.settable;
        let monotonic = self.monotonic.see(nanos);
        self.law(monotonic, settable, moment);
        if let Some(seen_ns) = taken.seen_ns {
            self.law(laws::causal(seen_ns, nanos), settable, moment);
        }
        if let Some(error_ns) = taken.error_ns {
            self.law(laws::bounded(before_ns, nanos, error_ns, after_ns), true, moment);
        }
        let provable_ns = taken.provable_ns().unsigned_abs();
        if self.rules.max_error_ns.is_some_and(|limit_ns| provable_ns > limit_ns) {
            self.suspect(Broken::Limit, provable_ns, true, moment);
        }
    }

    fn law(&mut self, told: Result<(), Violation>, excusable: bool, moment: &Moment) {
        if let Err(Violation { law, by_ns }) = told {
            self.suspect(Broken::Law(law), by_ns, excusable, moment);
        }
    }

    fn suspect(&mut self, broken: Broken, by_ns: u64, excusable: bool, moment: &Moment) {
        let is_claimed = moment.is_claimed && broken.is_of_a_moment();
        if excusable && (moment.is_excused || is_claimed) {
            self.excused += 1;
            return;
        }
        let window: Vec<Taken> = self.last.iter().copied().collect();
        let at = window.len().saturating_sub(1);
        let elapsed_ns = moment.elapsed_ns;
        let finding = Finding { broken, by_ns, elapsed_ns, window, at };
        self.keep(finding, excusable, SHOWN_AFTER, moment);
    }

    /// Keeps what is suspected until it is due; more of its kind meanwhile is counted.
    fn keep(&mut self, finding: Finding, excusable: bool, missing: usize, moment: &Moment) {
        let by_ns = finding.by_ns;
        let index = finding.broken.index();
        if let Some(suspect) = &mut self.suspects[index] {
            suspect.count.times += 1;
            suspect.count.worst_ns = suspect.count.worst_ns.max(by_ns);
            return;
        }
        self.suspects[index] = Some(Suspect {
            finding,
            count: Count { times: 1, worst_ns: by_ns },
            excusable,
            missing,
            until_ns: if excusable { moment.until_ns } else { moment.elapsed_ns },
            bursts: if excusable { 0 } else { GRACE_BURSTS },
        });
    }

    /// Into the sums: those that count, those that may, or neither while a step is being followed.
    fn count(&mut self, elapsed_ns: i64, readings: &[Taken], is_excused: bool) {
        for taken in readings {
            self.tally.readings += 1;
            self.tally.told += u64::from(taken.error_ns.is_some());
            self.tally.from_counter += u64::from(taken.from_counter == Some(true));
        }
        if is_excused {
            return;
        }
        let in_dispute = self.suspects.iter().flatten().any(|suspect| suspect.excusable);
        for taken in readings {
            let narrow = self.is_narrow(taken);
            let tally = if in_dispute { &mut self.disputed } else { &mut self.tally };
            tally.provable(elapsed_ns, taken.provable_ns());
            if narrow {
                tally.narrow(elapsed_ns, taken.difference_ns(), taken.width_ns());
            }
        }
    }

    /// Calls a violation what no step has explained in time.
    fn decide(&mut self, elapsed_ns: i64, ends: bool, report: &mut impl FnMut(Finding)) {
        let is_due = |suspect: &mut Suspect| {
            let waited = suspect.bursts >= GRACE_BURSTS && elapsed_ns >= suspect.until_ns;
            ends || waited && suspect.missing == 0
        };
        let mut proven = false;
        for index in 0..self.suspects.len() {
            let Some(suspect) = self.suspects[index].take_if(is_due) else { continue };
            let count = &mut self.counts[index];
            count.times += suspect.count.times;
            count.worst_ns = count.worst_ns.max(suspect.count.worst_ns);
            proven |= suspect.excusable;
            self.shown[index] += 1;
            if self.shown[index] <= SHOWN_MAX {
                report(suspect.finding);
            }
        }
        if proven {
            self.tally.add(&self.disputed);
            self.disputed = Tally::new();
        }
    }
}

#[cfg(test)]
mod tests;
