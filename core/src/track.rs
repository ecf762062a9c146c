//! [`Track`]: one kernel clock followed: who samples when, what is published, and what a read gets that finds no
//! line.
//!
//! Must never wait, and never make a system call of its own: what the kernel's vDSO does is all there is.

use crate::bank::{Answer, Bank, LAPSED, NEVER};
use crate::counter::Counter;
pub use crate::keeper::Outcome;
use crate::keeper::{Keeper, MARGIN_NS, Told};
use crate::kernel::{ClockId, Errno, Kernel};
use crate::latch::{Busy, Phase, Split};
use crate::sample;
use crate::timebase::{AHEAD_MAX_NS, Change, Line, START_NS};
use crate::trust::Unfit;
use crate::units::{NANOS_PER_SEC, Ticks};
use crate::word::Word;
use core::sync::atomic::Ordering::Relaxed;

/// How often a read that finds neither a line nor peace tries again.
const TRIES: u32 = 3;

/// Where the answers come from, and what may be done with this clock.
pub(crate) struct Source<'a, C, K> {
    pub(crate) counter: &'a C,
    pub(crate) kernel: &'a K,
    pub(crate) clock: ClockId,
    /// Whether people may set it.
    pub(crate) may_step: bool,
    /// For how long a line is to hold; 0: as the keeper thinks best.
    pub(crate) max_age_ns: u64,
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

    /// The same, split into seconds and nanoseconds.
    #[inline(always)]
    pub(crate) fn split(&self, read: impl FnOnce(u64) -> Ticks) -> Option<Split> {
        self.banks[0].front.split(read)
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

    fn is_current(&self, bank: &Bank) -> bool {
        self.bank().is_some_and(|current| core::ptr::eq(current, bank))
    }

    /// Why only the kernel answers, if that is so.
    pub(crate) fn distrust(&self) -> Option<Unfit> {
        match self.bank() {
            Some(bank) => Unfit::from_code(bank.distrust.load(Relaxed)),
            None => Some(Unfit::Abandoned),
        }
    }

    /// Takes all lines out for good, whoever holds the lock, and remembers what they have given out.
    pub(crate) fn forbid(&self, ticks: Ticks) {
        // Others may read for some nanoseconds more.
        const SPARE_NS: i64 = 1_000;
        for bank in &self.banks {
            let given = bank.out().given_by(ticks);
            if given > 0 {
                bank.floor.fetch_max(given.saturating_add(SPARE_NS) as u64, Relaxed);
            }
            bank.front.forbid();
            bank.next.forbid();
        }
    }

    /// The least that may be answered where there will be no line any more.
    pub(crate) fn floor(&self, may_step: bool) -> i64 {
        let floors = self.banks.iter().map(|bank| bank.floor.load(Relaxed) as i64);
        if may_step { i64::MIN } else { floors.max().unwrap_or(i64::MIN) }
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
        // The hot path knows the first bank only.
        if self.bank.load(Relaxed) == 1 {
            let read = |form| source.counter.ticks_by(form);
            if let Some((line, ticks, nanos)) = self.banks[1].front.told(read) {
                return Ok(Answer::Line(line, ticks, nanos));
            }
        }
        let mut given = None;
        for _ in 0..TRIES {
            let Some(bank) = self.bank() else { break };
            // Before the tick: what is published after it has not been seen by whoever this reading must not precede.
            let out = bank.out();
            let ticks = source.counter.ticks();
            let given = *given.insert(out.given_by(ticks));
            if let Some((line, is_next)) = bank.line_at(ticks) {
                if is_next {
                    bank.promote(source.counter);
                } else if ticks.since(line.anchor).is_some_and(|passed| passed > line.soft) {
                    // An error of the kernel is none of a reader's that has a line.
                    let refreshed = self.refresh(bank, source).map(|(outcome, _)| outcome);
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
                heard = self.refresh(bank, source)?.1.or(heard);
            }
            let nanos = match heard {
                Some(nanos) => nanos,
                None => source.kernel.now(source.clock)?.nanos_i64(),
            };
            // The kernel was read before this, and a line that is out by now may lie below what it said.
            let after = source.counter.ticks();
            // Before the line: a writer that is done by now has published what is looked for next.
            let writing = bank.lock.phase(after);
            let soon = bank.begins_soon(after);
            // Nor what is said in the name of a bank that was given up: the other one would not know of it.
            let is_kernels = bank.line_at(after).is_none() && self.is_current(bank);
            let margin_ns = if is_kernels { bank.margin_ns(writing) } else { None };
            if let Some(margin_ns) = margin_ns {
                self.counts.kernel_answers.fetch_add(1, Relaxed);
                return Ok(bank.as_kernel_says(nanos, given, margin_ns, soon, source.may_step));
            }
        }
        let Some(bank) = self.bank() else {
            // Nobody publishes any more: the kernel's answers are in order, and above what was given out.
            let given = if source.may_step { i64::MIN } else { self.banks[1].given() };
            let nanos = source.kernel.now(source.clock)?.nanos_i64();
            return Ok(Answer::Kernel(nanos.max(given), nanos.max(given).abs_diff(nanos)));
        };
        let given = given.unwrap_or_else(|| bank.given());
        let nanos = source.kernel.now(source.clock)?.nanos_i64();
        let after = source.counter.ticks();
        let (writing, soon) = (bank.lock.phase(after), bank.begins_soon(after));
        if let Some((line, _)) = bank.line_at(after) {
            return Ok(Answer::Line(line, after, line.at(after).unwrap_or_else(|| line.end())));
        }
        self.counts.kernel_answers.fetch_add(1, Relaxed);
        let margin_ns = bank.margin_ns(writing).unwrap_or(MARGIN_NS);
        Ok(bank.as_kernel_says(nanos, given, margin_ns, soon, source.may_step))
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
                    bank.promote(source.counter);
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
        Ok(self.refresh(bank, source)?.0)
    }

    /// Samples and publishes, if nobody else does; also returns what the kernel said last.
    fn refresh(
        &self,
        bank: &Bank,
        source: &Source<impl Counter, impl Kernel>,
    ) -> Result<(Outcome, Option<i64>), Errno> {
        let mut held = match bank.lock.take(|| source.counter.ticks(), Phase::Sampling) {
            Ok(held) => held,
            Err(Busy::Held) => return Ok((Outcome::Busy, None)),
            Err(Busy::Dead) => {
                self.abandon(bank);
                return Ok((Outcome::Busy, None));
            }
        };
        // Whoever came too late for this bank must not publish in it what the other one does not know of.
        if !self.is_current(bank) {
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
        // All that takes long comes before anything is written: a writer that is stopped is a nuisance to the readers.
        let heard = Some(taken.newest_nanos);
        let mut keeper = bank.keeper();
        let began = bank.wait.load(Relaxed) == NEVER || bank.distrust.load(Relaxed) != 0;
        let told = keeper.take_in(&taken, began, source.may_step);
        let front = bank.front.line().filter(|line| line.covers(taken.end));
        let next = front.and_then(|front| keeper.line_after(&front, source.max_age_ns));
        let phase = if front.is_some() { Phase::Following } else { Phase::Beginning };
        if !bank.lock.advance(&mut held, taken.end, phase) {
            return Ok((Outcome::Busy, heard));
        }
        // What has ended, or is the current line once more: out at once, so that the slot can be closed.
        if phase == Phase::Following {
            bank.next.clear();
        } else if !source.may_step {
            bank.take_out(false);
        }
        // Read after the phase was set: if the line still answers now, whoever comes after its end sees the phase.
        let now = source.counter.ticks();
        let current = front.filter(|line| line.covers(now));
        let line = match (current, phase) {
            (Some(line), _) => Current::Line(line, next),
            (None, Phase::Beginning) => Current::None,
            // It ended meanwhile. Whoever has found no line since has closed the next one's slot only.
            (None, _) => Current::Ended,
        };
        publish(bank, source, &mut keeper, &told, line, now);
        bank.keep(&keeper);
        bank.release(held);
        self.count(&told);
        Ok((told.outcome, heard))
    }

    /// The holder of `bank`'s lock has stopped for good: everything begins anew in the other bank.
    fn abandon(&self, bank: &Bank) {
        let index = u64::from(!core::ptr::eq(bank, &raw const self.banks[0]));
        if let Some(other) = self.banks.get(index as usize + 1) {
            other.floor.fetch_max(bank.given().max(0) as u64, Relaxed);
        }
        let _ = self.bank.compare_exchange(index, index + 1, Relaxed, Relaxed);
    }

    /// Counts what a sample has told.
    fn count(&self, told: &Told) {
        let counts = &self.counts;
        counts.refreshes.fetch_add(1, Relaxed);
        if let Some(residual_ns) = told.residual_ns {
            counts.residual_ns.store(residual_ns as u64, Relaxed);
            counts.residual_max_ns.fetch_max(residual_ns.unsigned_abs(), Relaxed);
        }
        let of_its_kind = match told.change {
            Some(Change::Slewed) => Some(&counts.slews),
            Some(Change::Ahead) => Some(&counts.aheads),
            Some(Change::Stepped) => Some(&counts.steps),
            _ => None,
        };
        let number = of_its_kind.map_or(0, |count| count.fetch_add(1, Relaxed));
        if told.change == Some(Change::Stepped) {
            let step = &self.steps[number as usize % STEPS_KEPT];
            step[0].store(told.nanos as u64, Relaxed);
            step[1].store(told.step_ns as u64, Relaxed);
        }
        if matches!(told.outcome, Outcome::Distrusted(_)) {
            counts.distrusts.fetch_add(1, Relaxed);
        }
    }
}

/// The line that answers while the next one is made.
#[derive(Clone, Copy)]
enum Current {
    /// This one, and what may follow it.
    Line(Line, Option<Line>),
    /// It ended since the sample was taken.
    Ended,
    None,
}

/// Publishes what follows from a sample. The caller holds the lock.
fn publish(
    bank: &Bank,
    source: &Source<impl Counter, impl Kernel>,
    keeper: &mut Keeper,
    told: &Told,
    current: Current,
    now: Ticks,
) {
    let has_rate = keeper.timebase.has_rate();
    match told.outcome {
        Outcome::Distrusted(reason) => {
            bank.take_out(source.may_step);
            bank.distrust.store(reason.code(), Relaxed);
            bank.wait(told.nanos, keeper.distrust_ns);
        }
        // Nothing was learnt. Whoever reads next tries again.
        Outcome::Disturbed if has_rate => {}
        _ if keeper.timebase.is_sure => match current {
            // Not due: whoever sampled had looked before this line began. The next would rest on a sample that is two
            // periods old at its end.
            Current::Line(line, _) if !line.is_half_over(now) => {}
            Current::Line(..) if keeper.wants_another() => {}
            Current::Line(_, next) => bank.follow(next.as_ref(), source.counter.form()),
            Current::Ended => {}
            Current::None => begin(bank, source, keeper, told.nanos, now),
        },
        _ => {
            match current {
                Current::Line(line, _) => bank.give_up(&line, told.nanos, source.may_step),
                Current::Ended | Current::None => bank.take_out(source.may_step),
            }
            bank.distrust.store(0, Relaxed);
            // The third sample only confirms what the first two gave.
            let wait_ns = if has_rate { keeper.timebase.confirm_ns() } else { START_NS };
            bank.wait(told.nanos, wait_ns);
        }
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
    let period_ns = keeper.period_ns(source.max_age_ns);
    let line = keeper.timebase.line_anew(floor, now, period_ns, keeper.late_max_ns());
    let form = source.counter.form();
    // Nor one that lies below what others were given meanwhile (the machine slept while this thread was stopped).
    let floor_now = if source.may_step || floor == 0 { i64::MIN } else { bank.given() };
    let Some(line) = line.filter(|line| line.nanos >= floor_now) else {
        bank.wait(heard, keeper.retry_ns());
        return;
    };
    bank.take_out(source.may_step);
    if floor == 0 {
        bank.floor.store(0, Relaxed);
    }
    bank.lock.set_lease(keeper.timebase.scale.ticks(u64::from(NANOS_PER_SEC)));
    if bank.front.put(&line, form) {
        bank.wait.store(LAPSED, Relaxed);
    }
}
