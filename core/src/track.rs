//! [`Track`]: one kernel clock followed: who samples when, what is published, and what a read gets that finds no
//! line.
//!
//! Must never wait, and never make a system call of its own: what the kernel's vDSO does is all there is.

use crate::bank::{Answer, Bank, LAPSED, NEVER};
use crate::counter::Counter;
use crate::keeper::Keeper;
use crate::kernel::{ClockId, Errno, Kernel};
use crate::latch::{Busy, Phase};
use crate::sample::{self, Taken};
use crate::timebase::{AHEAD_MAX_NS, Change, Line, START_NS, Timebase};
use crate::trust::Unfit;
use crate::units::{NANOS_PER_SEC, Ticks};
use crate::word::Word;
use core::sync::atomic::Ordering::Relaxed;

/// Contradictions weigh so much, and fade by one with each sample that agrees.
const STRIKES_SLEW: u64 = 8;
const STRIKES_STEP: u64 = 16;
/// The first time of distrust; each next one is twice as long, up to the last.
const DISTRUST_NS: u64 = 10_000_000_000;
const DISTRUST_MAX_NS: u64 = 3_600_000_000_000;
/// How often a read that finds neither a line nor peace tries again.
const TRIES: u32 = 3;

/// Where the answers come from, and what may be done with this clock.
pub(crate) struct Source<'a, C, K> {
    pub(crate) counter: &'a C,
    pub(crate) kernel: &'a K,
    pub(crate) clock: ClockId,
    /// Whether people may set it.
    pub(crate) may_step: bool,
}

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
    /// Ours was ahead, and goes slower until both meet.
    Ahead,
    /// The kernel's clock was stepped, or the counter was: the kernel answers until there is a new line.
    Stepped,
    /// Only the kernel answers, for the time being or for good.
    Distrusted(Unfit),
}

/// Counts since the start of the process; each may be read at any time and lags by at most one.
#[derive(Debug)]
pub(crate) struct Counts {
    pub(crate) refreshes: Word,
    pub(crate) kernel_answers: Word,
    pub(crate) slews: Word,
    pub(crate) steps: Word,
    pub(crate) aheads: Word,
    pub(crate) distrusts: Word,
    pub(crate) residual_ns: Word,
    pub(crate) residual_max_ns: Word,
}

/// How many steps the table of steps keeps: that of number `n` (from 0) at `n % STEPS_KEPT`.
pub(crate) const STEPS_KEPT: usize = 8;

/// One clock, followed.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Track {
    /// The second takes over if a holder of the first one's lock stops for good while it writes: its words may
    /// still change, so nothing of the first is used any more but what is published.
    banks: [Bank; 2],
    bank: Word,
    pub(crate) counts: Counts,
    /// (nanoseconds of the clock, how far it stepped) each.
    pub(crate) steps: [[Word; 2]; STEPS_KEPT],
}

impl Track {
    pub(crate) const fn new() -> Self {
        Self {
            banks: [Bank::new(), Bank::new()],
            bank: Word::new(0),
            counts: Counts {
                refreshes: Word::new(0),
                kernel_answers: Word::new(0),
                slews: Word::new(0),
                steps: Word::new(0),
                aheads: Word::new(0),
                distrusts: Word::new(0),
                residual_ns: Word::new(0),
                residual_max_ns: Word::new(0),
            },
            steps: [const { [Word::new(0), Word::new(0)] }; STEPS_KEPT],
        }
    }

    /// The hot path: one cache line.
    #[inline(always)]
    pub(crate) fn time(&self, read: impl FnOnce(u64) -> Ticks) -> Option<i64> {
        self.banks[0].front.time(read)
    }

    /// The same, with all that the line tells.
    #[inline]
    pub(crate) fn told(&self, read: impl FnOnce(u64) -> Ticks) -> Option<Answer> {
        let (line, ticks, nanos) = self.banks[0].front.told(read)?;
        Some(Answer::Line(line, ticks, nanos))
    }

    fn bank(&self) -> Option<&Bank> {
        self.banks.get(self.bank.load(Relaxed) as usize)
    }

    /// Why only the kernel answers, if that is so.
    pub(crate) fn distrust(&self) -> Option<Unfit> {
        match self.bank() {
            Some(bank) => Unfit::from_code(bank.distrust.load(Relaxed)),
            None => Some(Unfit::Abandoned),
        }
    }

    /// The line that answers now, as far as anyone can say.
    pub(crate) fn line(&self) -> Option<Line> {
        let bank = self.bank()?;
        bank.front.line().or_else(|| bank.next.line())
    }

    /// The read that the hot path could not answer.
    pub(crate) fn answer(
        &self,
        source: &Source<impl Counter, impl Kernel>,
    ) -> Result<Answer, Errno> {
        let mut given = None;
        for _ in 0..TRIES {
            let Some(bank) = self.bank() else { break };
            // Before the tick: what is published after it has not been seen by whoever this reading must not precede.
            let out = bank.out();
            let ticks = source.counter.ticks();
            let given = *given.insert(out.given_by(ticks));
            if let Some((line, is_next)) = bank.line_at(ticks) {
                if is_next {
                    bank.promote(ticks, source.counter.form());
                } else if ticks.since(line.anchor).is_some_and(|passed| passed > line.soft) {
                    // An error of the kernel is none of a reader's that has a line.
                    let refreshed = self.refresh(bank, source, ticks).map(|(outcome, _)| outcome);
                    if matches!(refreshed, Ok(Outcome::Stepped | Outcome::Distrusted(_))) {
                        continue;
                    }
                }
                let nanos = line.at(ticks).unwrap_or_else(|| line.end());
                return Ok(Answer::Line(line, ticks, nanos));
            }
            let mut heard = None;
            if bank.wait.load(Relaxed) != NEVER {
                let nanos = source.kernel.now(source.clock)?.nanos_i64();
                heard = Some(nanos);
            }
            if heard.is_none_or(|nanos| bank.is_due(nanos)) || bank.is_before(ticks) {
                heard = self.refresh(bank, source, ticks)?.1.or(heard);
            }
            let nanos = match heard {
                Some(nanos) => nanos,
                None => source.kernel.now(source.clock)?.nanos_i64(),
            };
            // The kernel was read before this, and a line that is out by now may lie below what it said.
            let after = source.counter.ticks();
            // Before the line: a writer that is done by now has published what is looked for next.
            let is_writing = bank.lock.is_writing();
            let soon = bank.begins_soon(after);
            if bank.line_at(after).is_none() {
                self.counts.kernel_answers.fetch_add(1, Relaxed);
                return Ok(bank.as_kernel_says(nanos, given, is_writing, soon, source.may_step));
            }
        }
        self.counts.kernel_answers.fetch_add(1, Relaxed);
        let bank = self.bank().unwrap_or(&self.banks[1]);
        let given = given.unwrap_or_else(|| bank.given());
        let nanos = source.kernel.now(source.clock)?.nanos_i64();
        let after = source.counter.ticks();
        let (is_writing, soon) = (bank.lock.is_writing(), bank.begins_soon(after));
        Ok(bank.as_kernel_says(nanos, given, is_writing, soon, source.may_step))
    }

    /// Makes the next line if less than half of the current one is left.
    pub(crate) fn refresh_ahead(
        &self,
        source: &Source<impl Counter, impl Kernel>,
    ) -> Result<Outcome, Errno> {
        let Some(bank) = self.bank() else { return Ok(Outcome::Distrusted(Unfit::Abandoned)) };
        let ticks = source.counter.ticks();
        match bank.line_at(ticks) {
            Some((line, is_next)) => {
                if is_next {
                    bank.promote(ticks, source.counter.form());
                }
                if !line.is_half_over(ticks) || line.soft == line.hard {
                    return Ok(Outcome::NotDue);
                }
            }
            None if matches!(bank.wait.load(Relaxed), NEVER | LAPSED) => {}
            None => {
                let nanos = source.kernel.now(source.clock)?.nanos_i64();
                if !bank.is_due(nanos) {
                    return Ok(match self.distrust() {
                        Some(reason) => Outcome::Distrusted(reason),
                        None => Outcome::NotDue,
                    });
                }
            }
        }
        Ok(self.refresh(bank, source, ticks)?.0)
    }

    /// Samples and publishes, if nobody else does; also returns what the kernel said last.
    fn refresh(
        &self,
        bank: &Bank,
        source: &Source<impl Counter, impl Kernel>,
        ticks: Ticks,
    ) -> Result<(Outcome, Option<i64>), Errno> {
        let mut held = match bank.lock.take(ticks, Phase::Sampling) {
            Ok(held) => held,
            Err(Busy::Held) => return Ok((Outcome::Busy, None)),
            Err(Busy::Dead) => {
                self.abandon(bank);
                return Ok((Outcome::Busy, None));
            }
        };
        // Whoever came too late for this bank must not publish in it what the other one does not know of.
        if !self.bank().is_some_and(|current| core::ptr::eq(current, bank)) {
            bank.lock.release(held);
            return Ok((Outcome::Busy, None));
        }
        // Whoever held it before has perhaps done the work: a line that others may use by now must stay.
        if bank.is_ahead(source.counter.ticks()) {
            bank.lock.release(held);
            return Ok((Outcome::NotDue, None));
        }
        let narrowest = Ticks(bank.keeper().narrowest);
        let taken = match sample::take(source.counter, source.kernel, source.clock, narrowest) {
            Ok(taken) => taken,
            Err(errno) => {
                bank.lock.release(held);
                return Err(errno);
            }
        };
        let heard = Some(taken.newest_nanos);
        let early = bank.front.line().is_some_and(|line| line.covers(taken.end));
        let phase = if early { Phase::Early } else { Phase::Late };
        if !bank.lock.advance(&mut held, taken.end, phase) {
            return Ok((Outcome::Busy, heard));
        }
        // Read after the phase was set: if the line still answers now, whoever comes after its end sees the phase.
        let now = source.counter.ticks();
        let current = bank.front.line().filter(|line| early && line.covers(now));
        let outcome = self.publish(bank, source, &taken, current.as_ref(), now);
        self.counts.refreshes.fetch_add(1, Relaxed);
        bank.lock.release(held);
        Ok((outcome, heard))
    }

    /// The holder of `bank`'s lock has stopped for good: everything begins anew in the other bank.
    fn abandon(&self, bank: &Bank) {
        let index = u64::from(!core::ptr::eq(bank, &raw const self.banks[0]));
        if let Some(other) = self.banks.get(index as usize + 1) {
            other.floor.fetch_max(bank.given().max(0) as u64, Relaxed);
        }
        let _ = self.bank.compare_exchange(index, index + 1, Relaxed, Relaxed);
    }

    /// Takes the sample in and publishes what follows from it. The caller holds the lock.
    fn publish(
        &self,
        bank: &Bank,
        source: &Source<impl Counter, impl Kernel>,
        taken: &Taken,
        current: Option<&Line>,
        now: Ticks,
    ) -> Outcome {
        let may_step = source.may_step;
        let mut keeper = bank.keeper();
        // The first samples may all have been disturbed; nothing makes one narrower than undisturbed.
        let width = taken.sample.half_width.0.max(1);
        keeper.narrowest = if keeper.narrowest == 0 { width } else { keeper.narrowest.min(width) };
        let began = bank.wait.load(Relaxed) == NEVER || bank.distrust.load(Relaxed) != 0;
        let heard = taken.sample.nanos;
        let outcome = if began {
            keeper.timebase = Timebase::start(&taken.sample);
            keeper.wider = 0;
            bank.distrust.store(0, Relaxed);
            Outcome::Started
        } else {
            self.compare(&mut keeper, may_step, taken)
        };
        if let Some(reason) = keeper.distrusts(taken) {
            bank.take_out(may_step);
            keeper.distrust_ns = (keeper.distrust_ns * 2).clamp(DISTRUST_NS, DISTRUST_MAX_NS);
            keeper.strikes = 0;
            bank.distrust.store(reason.code(), Relaxed);
            bank.wait(heard, keeper.distrust_ns);
            self.counts.distrusts.fetch_add(1, Relaxed);
            bank.keep(&keeper);
            return Outcome::Distrusted(reason);
        }
        if outcome == Outcome::Disturbed && keeper.timebase.has_rate() {
            // Nothing was learnt. Whoever reads next tries again.
        } else if keeper.timebase.is_sure {
            match current {
                // Not due: whoever sampled had looked before this line began. The next would rest on a sample that is
                // two periods old at its end.
                Some(current) if !current.is_half_over(now) => {}
                Some(current) => bank.follow(&keeper, current, source.counter.form()),
                None => begin(bank, source, &mut keeper, heard, now),
            }
        } else {
            bank.take_out(may_step);
            // The third sample only confirms what the first two gave.
            let rate = keeper.timebase.has_rate();
            let wait_ns = if rate { keeper.timebase.confirm_ns() } else { START_NS };
            bank.wait(heard, wait_ns);
        }
        bank.keep(&keeper);
        outcome
    }

    /// What the sample says about the prediction; counted.
    fn compare(&self, keeper: &mut Keeper, may_step: bool, taken: &Taken) -> Outcome {
        let was_sure = keeper.timebase.is_sure;
        let last_heard = keeper.timebase.said.nanos;
        let (change, residual_ns) = keeper.timebase.next(&taken.sample, may_step);
        if was_sure && !matches!(change, Change::Stepped | Change::Unusable) {
            let distance = residual_ns.unsigned_abs();
            self.counts.residual_ns.store(residual_ns as u64, Relaxed);
            self.counts.residual_max_ns.fetch_max(distance, Relaxed);
        }
        let (outcome, count, strikes) = match change {
            Change::Kept => {
                keeper.strikes = keeper.strikes.saturating_sub(1);
                return Outcome::Kept;
            }
            Change::Unusable => return Outcome::Disturbed,
            Change::Slewed => (Outcome::Slewed, &self.counts.slews, STRIKES_SLEW),
            Change::Ahead => (Outcome::Ahead, &self.counts.aheads, STRIKES_STEP),
            Change::Stepped => (Outcome::Stepped, &self.counts.steps, STRIKES_STEP),
        };
        keeper.strikes += strikes;
        if change == Change::Stepped {
            keeper.went_back = taken.sample.nanos < last_heard;
            let step = &self.steps[count.load(Relaxed) as usize % STEPS_KEPT];
            step[0].store(taken.sample.nanos as u64, Relaxed);
            step[1].store(residual_ns as u64, Relaxed);
        }
        count.fetch_add(1, Relaxed);
        outcome
    }
}

/// Publishes the first line after the kernel has answered.
fn begin(
    bank: &Bank,
    source: &Source<impl Counter, impl Kernel>,
    keeper: &mut Keeper,
    heard: i64,
    now: Ticks,
) {
    let given = bank.given();
    let ahead_ns = given.saturating_sub(heard);
    let floor = if source.may_step {
        bank.given_near(heard).unwrap_or(i64::MIN)
    } else if ahead_ns <= AHEAD_MAX_NS as i64 {
        given
    } else if keeper.went_back {
        // The second sample in a row from a kernel whose own clock went back (another time namespace).
        0
    } else {
        // Ours was wrong, not the kernel's: it catches up while its answers are held.
        bank.wait(heard, START_NS);
        return;
    };
    keeper.went_back = false;
    let line = keeper.timebase.line_anew(floor, now, keeper.period_ns());
    let form = source.counter.form();
    // Nor one that lies below what others were given meanwhile (the machine slept while this thread was stopped).
    let floor_now = if source.may_step || floor == 0 { i64::MIN } else { bank.given() };
    let Some(line) = line.filter(|line| line.nanos >= floor_now) else {
        bank.wait(heard, START_NS);
        return;
    };
    bank.take_out(source.may_step);
    if floor == 0 {
        bank.floor.store(0, Relaxed);
    }
    bank.lock.set_lease(keeper.timebase.scale.ticks(u64::from(NANOS_PER_SEC)));
    bank.front.put(&line, form);
    bank.wait.store(LAPSED, Relaxed);
}
