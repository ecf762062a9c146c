//! [`Bank`]: what a track shares with its readers, and what a read gets from it.
//!
//! The rules for handing over between line and kernel stand here and in `track`, because mixing two sources is where
//! a monotonic clock breaks:
//!
//! * line to line: the next line is published before the current one ends, begins where that ends, and is used from
//!   there on; when anybody sees it changes nothing.
//! * line to kernel: what the kernel says, but not less than the line's end.
//! * kernel to line: the first line begins a moment after it is out, as long as it may be late: so it is not below what
//!   the kernel had said by then, nor below what is known to have been given out. Until it begins, the kernel's
//!   answers do not exceed its first time.
//! * a writer that is stopped before its line is out: whoever finds no line closes the slot that it would come out of,
//!   and the kernel answers. A first line that is being written is not closed at once (else many readers would never let
//!   one come out): the kernel's answers are given less a margin, so that they lie below it.
//!
//! Must never wait.

use crate::counter::Counter;
use crate::keeper::{KEEPER_WORDS, Keeper, MARGIN_NS};
use crate::latch::{Held, Lock, Phase, Slot};
use crate::timebase::{ERROR_MAX_NS, Line};
use crate::units::Ticks;
use crate::word::Word;
use core::sync::atomic::Ordering::Relaxed;

/// Two reads of the kernel further apart than this are no reason to make a line.
const DENSE_NS: u64 = 1_000_000;

/// What a read got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// From a line, at a tick.
    Line(Line, Ticks, i64),
    /// From the kernel, and how far it was moved so as not to go back.
    Kernel(i64, u64),
}

/// The state of one track. All zeros is a track that nobody has read.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Bank {
    pub(crate) front: Slot,
    pub(crate) next: Slot,
    pub(crate) lock: Lock,
    /// Nobody was given more by the kernel, nor by a line that was taken out.
    pub(crate) floor: Word,
    /// When the kernel answers: since when a sample has been waited for, and how long to wait, in nanoseconds of the
    /// clock. [`NEVER`]: there is none yet. [`LAPSED`]: the line ended because nobody read.
    pub(crate) wait_from: Word,
    pub(crate) wait: Word,
    /// The kernel's last answer.
    pub(crate) asked: Word,
    /// The code of the reason for distrust, or 0.
    pub(crate) distrust: Word,
    /// How late first lines may begin, in nanoseconds; 0: not known yet.
    late_max_ns: Word,
    keeper: [Word; KEEPER_WORDS],
}

/// What a first line may be below the kernel by besides its lateness, while its writer is young.
const YOUNG_NS: u64 = 40;

pub(crate) const NEVER: u64 = 0;
pub(crate) const LAPSED: u64 = u64::MAX;

/// The floor and the lines of a bank at one moment.
pub(crate) struct Out {
    floor: i64,
    lines: [Option<Line>; 2],
}

impl Out {
    /// The most that was given out by the tick `ticks`, which was read after the moment: of a line that has not ended
    /// or begun, no more than that.
    pub(crate) fn given_by(&self, ticks: Ticks) -> i64 {
        let given = |line: &Option<Line>| match line {
            Some(line) => match line.anchor.since(ticks) {
                // The next line. Longer before: the counter began anew, and the line may have been used to its end.
                Some(before) if before.0 > 0 && before.0 <= 2 * line.hard.0 => 0,
                _ => line.at(ticks).unwrap_or_else(|| line.end()),
            },
            None => 0,
        };
        self.lines.iter().map(given).fold(self.floor, i64::max)
    }
}

impl Bank {
    pub(crate) const fn new() -> Self {
        Self {
            front: Slot::new(),
            next: Slot::new(),
            lock: Lock::new(),
            floor: Word::new(0),
            wait_from: Word::new(0),
            wait: Word::new(0),
            asked: Word::new(0),
            distrust: Word::new(0),
            late_max_ns: Word::new(0),
            keeper: [const { Word::new(0) }; KEEPER_WORDS],
        }
    }

    pub(crate) fn keeper(&self) -> Keeper {
        let mut words = [0; KEEPER_WORDS];
        for (word, shared) in words.iter_mut().zip(&self.keeper) {
            *word = shared.load(Relaxed);
        }
        Keeper::from_words(&words)
    }

    pub(crate) fn keep(&self, keeper: &Keeper) {
        for (&word, shared) in keeper.words().iter().zip(&self.keeper) {
            shared.store(word, Relaxed);
        }
        self.late_max_ns.store(keeper.late_max_ns(), Relaxed);
    }

    /// The line that answers for `ticks`, and whether it is the next one, still in its waiting place.
    pub(crate) fn line_at(&self, ticks: Ticks) -> Option<(Line, bool)> {
        let look = |slot: &Slot, is_next| {
            slot.line().filter(|line| line.covers(ticks)).map(|line| (line, is_next))
        };
        let front = || look(&self.front, false);
        // The current one once more: the next may have become it meanwhile, and have left its waiting place.
        front().or_else(|| look(&self.next, true)).or_else(front)
    }

    /// The most that was given out, where no line answers.
    pub(crate) fn given(&self) -> i64 {
        let end = |slot: &Slot| slot.line().map_or(0, |line| line.end());
        (self.floor.load(Relaxed) as i64).max(end(&self.front)).max(end(&self.next))
    }

    /// The end of a line that is no further above the kernel's answer `nanos` than lines may be: the clock was not
    /// set back, and so must not go back.
    pub(crate) fn given_near(&self, nanos: i64) -> Option<i64> {
        let near = |slot: &Slot| {
            let line = slot.line()?;
            let ahead_ns = u64::try_from(line.end().saturating_sub(nanos)).ok()?;
            (ahead_ns <= line.error_ns(line.end_ticks())).then(|| line.end())
        };
        near(&self.front).max(near(&self.next))
    }

    /// What may have been given out.
    pub(crate) fn out(&self) -> Out {
        Out {
            floor: self.floor.load(Relaxed) as i64,
            lines: [&self.front, &self.next].map(Slot::line),
        }
    }

    /// Whether the kernel's answer `nanos` says that it is time for a sample.
    pub(crate) fn is_due(&self, nanos: i64) -> bool {
        let since = |word: &Word| nanos.wrapping_sub(word.load(Relaxed) as i64) as u64;
        match self.wait.load(Relaxed) {
            NEVER => true,
            LAPSED => since(&self.asked) <= DENSE_NS,
            wait => since(&self.wait_from) >= wait,
        }
    }

    /// By how much the current line begins after `ticks`.
    fn begins_in(&self, ticks: Ticks) -> Option<(Ticks, Line)> {
        let line = self.front.line()?;
        ticks
            .since(line.anchor)
            .is_none()
            .then(|| (Ticks(line.anchor.0.wrapping_sub(ticks.0)), line))
    }

    /// The current line if it begins soon: it is out, and the kernel's answers must not exceed its first time.
    pub(crate) fn begins_soon(&self, ticks: Ticks) -> Option<Line> {
        self.begins_in(ticks)
            .filter(|(wait, line)| wait.0 <= line.hard.0 / 32)
            .map(|(_, line)| line)
    }

    /// Whether it begins long after: the counter began anew, and must not come upon that line again.
    pub(crate) fn is_before(&self, ticks: Ticks) -> bool {
        self.begins_in(ticks).is_some_and(|(wait, line)| wait.0 > line.hard.0 / 32)
    }

    pub(crate) fn wait(&self, from: i64, wait_ns: u64) {
        self.wait_from.store(from as u64, Relaxed);
        self.wait.store(wait_ns, Relaxed);
    }

    /// By how much the kernel's answers must lie below what it says, since a line may come out of a writing that was
    /// going on: of one that was stopped none will. `None` if one is out by now.
    pub(crate) fn margin_ns(&self, writing: Option<(Phase, bool)>) -> Option<u64> {
        let slot = match writing {
            None | Some((Phase::Sampling | Phase::Promoting, _)) => return Some(0),
            Some((Phase::Following, _)) => &self.next,
            Some((Phase::Beginning, true)) => &self.front,
            Some((Phase::Beginning, false)) => match self.late_max_ns.load(Relaxed) {
                0 => return Some(MARGIN_NS),
                late_max_ns => return Some(late_max_ns.saturating_add(YOUNG_NS)),
            },
        };
        slot.close().then_some(0)
    }

    /// What a read gets where the kernel has said `nanos`, and by how much that was moved. `given` is what had been
    /// given out before the read found no line, `margin_ns` what is to be kept below the kernel for a line that is still
    /// to come; `soon` the line that was about to begin.
    pub(crate) fn as_kernel_says(
        &self,
        nanos: i64,
        given: i64,
        margin_ns: u64,
        soon: Option<Line>,
        may_step: bool,
    ) -> Answer {
        self.asked.store(nanos as u64, Relaxed);
        let first = soon.map_or(nanos, |line| nanos.min(line.nanos));
        let answer = if may_step {
            // Near it, or else it was set since.
            let first = if nanos.abs_diff(first) <= ERROR_MAX_NS { first } else { nanos };
            self.given_near(first).unwrap_or(first)
        } else {
            let answer = first.saturating_sub_unsigned(margin_ns);
            // The kernel's alone: a floor that was lowered meanwhile must not rise again.
            self.floor.fetch_max(answer.max(0) as u64, Relaxed);
            answer.max(given)
        };
        Answer::Kernel(answer, answer.abs_diff(nanos))
    }

    /// Whether there is nothing to do at `now`: the current line is young, or about to begin, or the one that follows it
    /// is out and not over.
    pub(crate) fn is_ahead(&self, now: Ticks) -> bool {
        let Some(front) = self.front.line() else { return false };
        if self.begins_soon(now).is_some() || front.covers(now) && !front.is_half_over(now) {
            return true;
        }
        let follows = |next: &Line| next.anchor == front.end_ticks();
        let next = self.next.line().filter(follows);
        next.is_some_and(|next| front.covers(now) || next.covers(now))
    }

    /// Makes the next line the current one, if it has begun. Best effort: while nobody does, it answers from where it is.
    pub(crate) fn promote(&self, counter: &impl Counter) {
        let form = counter.form();
        let Ok(held) = self.lock.take(|| counter.ticks(), Phase::Promoting) else { return };
        // Looked at under the lock: another may have promoted it meanwhile, and made the one after.
        if let Some(line) = self.next.line().filter(|line| line.covers(counter.ticks())) {
            let is_newer =
                |front: Line| line.anchor.since(front.anchor).is_some_and(|passed| passed.0 > 0);
            if self.front.line().is_none_or(is_newer) {
                // Whoever closed it has seen the end of that line.
                self.front.put(&line, form);
            }
        }
        self.release(held);
    }

    /// Gives the lock back. What was closed meanwhile is open to the next holder.
    pub(crate) fn release(&self, held: Held) {
        self.next.open();
        self.front.open();
        self.lock.release(held);
    }

    /// Publishes the line that takes over where the current one ends, if there is one. The caller holds the lock.
    pub(crate) fn follow(&self, line: Option<&Line>, form: u64) {
        if let Some(line) = line {
            self.next.put(line, form);
        }
        self.front.extend();
    }

    /// There is no line to follow the `current` one, which is wrong: the kernel said `heard`. It is taken out, unless a
    /// clock that must not go back would then stand still until the kernel has come to where that line ends: a quarter of a
    /// period, at most, in which it does less harm.
    pub(crate) fn give_up(&self, current: &Line, heard: i64, may_step: bool) {
        if may_step || heard >= current.end() {
            self.take_out(may_step);
        } else {
            self.follow(None, 0);
        }
    }

    /// Takes both lines out, and remembers up to where they may have been used.
    pub(crate) fn take_out(&self, may_step: bool) {
        if !may_step {
            self.floor.fetch_max(self.given().max(0) as u64, Relaxed);
        }
        self.next.clear();
        self.front.clear();
    }
}
