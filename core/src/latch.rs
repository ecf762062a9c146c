//! [`Slot`]: one line, shared with every thread, and the [`Lock`] of whoever makes the next.
//!
//! A slot is a sequence lock whose sequence number is the line's own anchor: no two lines share one. The writer
//! puts a mark there (half a turn of the counter away, so that no tick is near it), then the new line, then its
//! anchor; a reader that finds the mark, or another anchor at its end than at its beginning, has no line and goes
//! on elsewhere: it never waits. Two slots (the current line, the next) are so handled that one of them is whole at
//! every moment, also for a signal handler that interrupted the writer.
//!
//! Everything is made of atomic words, so that a race is a wrong value and never undefined; fences stand in pairs
//! that name each other. Must never loop.

use crate::scale::Slope;
use crate::timebase::Line;
use crate::units::{NANOS_PER_SEC, Ticks, Timespec};
use crate::word::{Word, fence};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Room for one [`Line`]: one cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Slot {
    /// 0 while there is no line, [`CLOSED`] or [`FORBIDDEN`] while none may come, [`COMING`] while one does; else by which
    /// instructions the counter is read.
    form: Word,
    /// The line's first tick; half a turn away from it while the line is being put.
    anchor: Word,
    soft: Word,
    slope: Word,
    nanos: Word,
    /// The same as seconds (34 bits, above) and nanoseconds (30 bits), so that C's `timespec` needs no division.
    split: Word,
    /// `hard` below; above, how long before the anchor the sample was taken.
    spans: Word,
    /// `steady_ns` below, `proven_ns` above.
    errors: Word,
}

// A read touches this line and no other.
#[cfg(not(loom))]
const _: () = assert!(size_of::<Slot>() == 64 && align_of::<Slot>() == 64);

macro_rules! zeros {
    ($($field:ident),*) => { Slot { $($field: Word::new(0)),* } };
}

/// No line may come out of the writing that is going on: a reader has gone on without it. Not above 0 as a signed number,
/// like the 0 that says there is no line.
const CLOSED: u64 = u64::MAX;

/// No line may come out any more, ever: the counter is forbidden.
const FORBIDDEN: u64 = u64::MAX - 1;

/// The line is there but for its anchor: whoever comes too late to close the slot must reckon with it.
const COMING: u64 = u64::MAX - 2;

const fn is_line(form: u64) -> bool {
    form as i64 > 0
}

const NSEC_BITS: u32 = 30;
const NSEC_MASK: u64 = (1 << NSEC_BITS) - 1;

/// A time as seconds and nanoseconds. These may be more than a second has, by one second that the line has risen by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    sec: u64,
    nsec: u64,
}

impl Split {
    /// The time, where nothing is to be carried: mostly. A branch that is foreseen costs less than a choice, which has to
    /// wait for the counter.
    #[inline(always)]
    #[must_use]
    pub fn at_once(self) -> Option<Timespec> {
        let is_whole = self.nsec < u64::from(NANOS_PER_SEC);
        is_whole.then_some(Timespec { sec: self.sec as i64, nsec: self.nsec as i64 })
    }

    /// The time; `None` if it is below zero, where the kernel's clocks never are.
    #[must_use]
    pub fn carried(self) -> Option<Timespec> {
        let second = u64::from(NANOS_PER_SEC);
        let is_below = self.sec == 0 && self.nsec >= NSEC_MASK;
        let (sec, nsec) = (self.sec + self.nsec / second, self.nsec % second);
        (!is_below).then_some(Timespec { sec: sec as i64, nsec: nsec as i64 })
    }
}

/// More nanoseconds than a second has, and none of its seconds.
const BELOW_ZERO: u64 = NSEC_MASK;

fn split(nanos: i64) -> u64 {
    let time = Timespec::from_nanos(nanos);
    if nanos < 0 { BELOW_ZERO } else { (time.sec as u64) << NSEC_BITS | time.nsec as u64 }
}

/// Half the range of the counter: from there on a tick is before the anchor and not after it.
const HALF: u64 = 1 << 63;

impl Slot {
    /// Without a line, as zeroed memory is.
    #[cfg(not(all(test, loom)))]
    pub(crate) const fn new() -> Self {
        zeros!(form, anchor, soft, slope, nanos, split, spans, errors)
    }

    #[cfg(all(test, loom))]
    pub(crate) fn new() -> Self {
        zeros!(form, anchor, soft, slope, nanos, split, spans, errors)
    }

    /// The hot path: the time at the tick that `read` gives, if the line is there and not yet due. The counter is
    /// not read where there is no line (it might be forbidden).
    #[inline(always)]
    pub(crate) fn time(&self, read: impl FnOnce(u64) -> Ticks) -> Option<i64> {
        self.with(read, |slot, risen| slot.nanos.load(Relaxed).wrapping_add(risen) as i64)
    }

    /// The same, split into seconds and nanoseconds.
    #[inline(always)]
    pub(crate) fn split(&self, read: impl FnOnce(u64) -> Ticks) -> Option<Split> {
        self.with(read, |slot, risen| {
            let split = slot.split.load(Relaxed);
            Split { sec: split >> NSEC_BITS, nsec: (split & NSEC_MASK) + risen }
        })
    }

    /// Gives `take` the slot, and by how many nanoseconds its line has risen at the tick that `read` gives.
    #[inline(always)]
    fn with<T>(
        &self,
        read: impl FnOnce(u64) -> Ticks,
        take: impl FnOnce(&Self, u64) -> T,
    ) -> Option<T> {
        let form = self.form.load(Relaxed);
        if !is_line(form) {
            return None;
        }
        let ticks = read(form);
        // Pairs with the store-release in `put`: whoever sees the anchor sees the line.
        let anchor = self.anchor.load(Acquire);
        let passed = ticks.0.wrapping_sub(anchor);
        // A tick before the anchor wraps to a huge distance, and so does every tick while a line is being put.
        if passed > self.soft.load(Relaxed) {
            return None;
        }
        // The low half of the distance is all of it, and known two cycles before the whole: loaded again, so that
        // the compiler does not wait for the whole after all.
        let low = (ticks.0 as u32).wrapping_sub(self.anchor.load(Relaxed) as u32);
        let slope = Slope(self.slope.load(Relaxed));
        let taken = take(self, slope.nanos(Ticks(u64::from(low))));
        // Pairs with the release fence in `put`: if a word above came from a later line, the mark that was put
        // before it is seen here, or what came after.
        fence(Acquire);
        if self.anchor.load(Relaxed) == anchor { Some(taken) } else { None }
    }

    /// As `time`, with all that the line tells: the line, the tick, the time.
    #[inline]
    pub(crate) fn told(&self, read: impl FnOnce(u64) -> Ticks) -> Option<(Line, Ticks, i64)> {
        let form = self.form.load(Relaxed);
        if !is_line(form) {
            return None;
        }
        let ticks = read(form);
        let line = self.line()?;
        let is_due = ticks.since(line.anchor).is_none_or(|passed| passed > line.soft);
        if is_due { None } else { line.at(ticks).map(|nanos| (line, ticks, nanos)) }
    }

    /// The whole line; `None` where there is none, or another is being put.
    pub(crate) fn line(&self) -> Option<Line> {
        // The pairs are those of `time`.
        let anchor = self.anchor.load(Acquire);
        let errors = self.errors.load(Relaxed);
        let spans = self.spans.load(Relaxed);
        let line = Line {
            anchor: Ticks(anchor),
            nanos: self.nanos.load(Relaxed) as i64,
            slope: Slope(self.slope.load(Relaxed)),
            soft: Ticks(self.soft.load(Relaxed)),
            hard: Ticks(spans & u64::from(u32::MAX)),
            steady_ns: errors as u32,
            proven_ns: (errors >> 32) as u32,
            sampled: Ticks(anchor.wrapping_sub(spans >> 32)),
        };
        fence(Acquire);
        // If the anchor above was the mark, the 0 that was put before it is seen here, or what came after; acquire,
        // so that then the anchor is seen to be another. The same for the first line of a slot.
        let there = is_line(self.form.load(Acquire));
        (there && self.anchor.load(Relaxed) == anchor).then_some(line)
    }

    /// Puts `line` in, for a counter to be read by `form`; `false`, and there is none, if the slot was closed. The caller
    /// holds the [`Lock`].
    pub(crate) fn put(&self, line: &Line, form: u64) -> bool {
        self.clear();
        // Release, for `line`: whoever sees the mark sees the 0.
        self.anchor.store(line.anchor.0 ^ HALF, Release);
        // Pairs with the acquire fences of the readers: no word of the new line is seen by one that does not also
        // see the mark (or what follows it) at its end.
        fence(Release);
        self.soft.store(line.soft.0, Relaxed);
        self.slope.store(line.slope.0, Relaxed);
        self.nanos.store(line.nanos as u64, Relaxed);
        self.split.store(split(line.nanos), Relaxed);
        // A line is shorter than 2^32 ticks, and its sample a few periods old at most: an older one is told as younger.
        let age = line.anchor.0.wrapping_sub(line.sampled.0).min(u64::from(u32::MAX));
        self.spans.store(age << 32 | line.hard.0, Relaxed);
        self.errors.store(u64::from(line.proven_ns) << 32 | u64::from(line.steady_ns), Relaxed);
        // Before the anchor: a reader that was stopped after it had seen an earlier line would take one that was closed.
        if self.form.compare_exchange(0, COMING, Relaxed, Relaxed).is_err() {
            return false;
        }
        // Pairs with the load-acquire of the readers.
        self.anchor.store(line.anchor.0, Release);
        // Release, for `line`: whoever sees that there is a line sees its anchor, or a later mark.
        self.form.compare_exchange(COMING, form, Release, Relaxed).is_ok()
    }

    /// Sees to it that no line comes out of a writing that is going on; `false` if there is a line already, perhaps that
    /// very one.
    pub(crate) fn close(&self) -> bool {
        match self.form.compare_exchange(0, CLOSED, Relaxed, Relaxed) {
            Ok(_) => true,
            Err(form) => !is_line(form) && form != COMING,
        }
    }

    /// Lines may come again. The caller holds the [`Lock`], and puts no more.
    pub(crate) fn open(&self) {
        let _ = self.form.compare_exchange(CLOSED, 0, Relaxed, Relaxed);
    }

    /// The line is no longer due before its end: the next one is ready. The caller holds the [`Lock`].
    pub(crate) fn extend(&self) {
        // One word, either value of which is right: no reader need see it at a certain time.
        self.soft.store(self.spans.load(Relaxed) & u64::from(u32::MAX), Relaxed);
    }

    /// Takes the line out. The caller holds the [`Lock`].
    pub(crate) fn clear(&self) {
        // A slot without a line stays as it is: closed, or forbidden.
        let form = self.form.load(Relaxed);
        if is_line(form) {
            let _ = self.form.compare_exchange(form, 0, Relaxed, Relaxed);
        }
    }

    /// Takes the line out for good, whoever holds the [`Lock`].
    pub(crate) fn forbid(&self) {
        self.form.store(FORBIDDEN, Relaxed);
    }
}

/// What the holder of a [`Lock`] is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Reads the kernel, and has written nothing: another may take over from it.
    Sampling = 1,
    /// Writes the line that follows the current one: nobody may take over.
    Following = 2,
    /// Writes a first line, or that there is none: nobody may take over.
    Beginning = 3,
    /// Copies a line that is out already: nobody may take over.
    Promoting = 4,
}

/// The right to make the next line: taken by one compare-and-swap or not at all, never waited for.
///
/// The word holds the tick at which it was taken, so that a holder that died is told from a slow one.
#[derive(Debug)]
pub(crate) struct Lock {
    word: Word,
    /// After so many ticks (a second) a holder is taken for dead; 0: not known yet.
    lease: Word,
}

/// The proof of holding a [`Lock`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held(u64);

/// Why the lock was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Busy {
    /// Another holds it.
    Held,
    /// Another stopped in the middle of writing, over a second ago.
    Dead,
}

/// A second, where the counter's rate is not known: 0.8 s at 5 GHz.
const LEASE_UNKNOWN: u64 = 1 << 32;
const PHASE: u64 = 7;

impl Lock {
    /// Free, as zeroed memory is.
    #[cfg(not(all(test, loom)))]
    pub(crate) const fn new() -> Self {
        Self { word: Word::new(0), lease: Word::new(0) }
    }

    #[cfg(all(test, loom))]
    pub(crate) fn new() -> Self {
        Self { word: Word::new(0), lease: Word::new(0) }
    }

    /// Takes the lock, at the tick that `read` gives, if it is free or its holder died while sampling.
    pub(crate) fn take(&self, read: impl FnOnce() -> Ticks, phase: Phase) -> Result<Held, Busy> {
        let word = self.word.load(Relaxed);
        // Read after the word: whoever was stopped between the two must not take a holder that came since for dead.
        let now = read();
        if word != 0 {
            let age = now.0.wrapping_sub(word & !PHASE) as i64;
            // A stamp far ahead is one from before the counter began anew.
            if age.unsigned_abs() <= self.lease() {
                return Err(Busy::Held);
            }
            if word & PHASE != Phase::Sampling as u64 {
                // Unless it is done by now.
                let same = self.word.load(Relaxed) == word;
                return Err(if same { Busy::Dead } else { Busy::Held });
            }
        }
        self.exchange(word, now, phase).map_err(|_| Busy::Held)
    }

    /// Goes from sampling to writing; `false` if another has taken over meanwhile.
    pub(crate) fn advance(&self, held: &mut Held, now: Ticks, phase: Phase) -> bool {
        match self.exchange(held.0, now, phase) {
            Ok(new) => {
                *held = new;
                true
            }
            Err(_) => false,
        }
    }

    fn exchange(&self, old: u64, now: Ticks, phase: Phase) -> Result<Held, u64> {
        let new = now.0 & !PHASE | phase as u64;
        // Acquire pairs with the release in `release`: what the last holder left is seen. Release, so that the
        // phase is not seen before what was written under the last one.
        self.word.compare_exchange(old, new, core::sync::atomic::Ordering::AcqRel, Relaxed)?;
        Ok(Held(new))
    }

    /// Gives it back, if another has not taken over.
    pub(crate) fn release(&self, held: Held) {
        let _ = self.word.compare_exchange(held.0, 0, Release, Relaxed);
    }

    /// What the holder is doing, and whether it has been at it for long: twenty microseconds.
    pub(crate) fn phase(&self, now: Ticks) -> Option<(Phase, bool)> {
        let word = self.word.load(Acquire);
        let phases = [Phase::Sampling, Phase::Following, Phase::Beginning, Phase::Promoting];
        let phase = phases.into_iter().find(|&phase| phase as u64 == word & PHASE)?;
        let age = now.0.wrapping_sub(word & !PHASE) as i64;
        Some((phase, age.unsigned_abs() > self.lease() / 50_000))
    }

    fn lease(&self) -> u64 {
        match self.lease.load(Relaxed) {
            0 => LEASE_UNKNOWN,
            lease => lease,
        }
    }

    /// Says how many ticks a second has.
    pub(crate) fn set_lease(&self, second: Ticks) {
        self.lease.store(second.0.max(1), Relaxed);
    }
}

#[cfg(all(test, loom))]
mod loom;

#[cfg(all(test, not(any(loom, clockwise_halves)), target_has_atomic = "64"))]
mod stress;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_timespec_is_the_time_of_the_line_split() {
        let slot = Slot::new();
        for nanos in
            [0, 1, 999_999_999, 1_700_000_000_999_999_990, i64::MAX - 100, -1, -1_000_000_000]
        {
            let line = Line {
                anchor: Ticks(1_000),
                nanos,
                slope: Slope(1 << 32),
                soft: Ticks(90),
                hard: Ticks(100),
                ..Line::default()
            };
            assert!(slot.put(&line, 1));
            for passed in [0, 9, 10, 90] {
                let read = |_| Ticks(1_000 + passed);
                let time = slot.time(read).map(Timespec::from_nanos);
                assert_eq!(time, Some(Timespec::from_nanos(nanos + passed as i64)));
                let whole = time.filter(|_| nanos >= 0);
                let split = slot.split(read).unwrap();
                assert_eq!(split.carried(), whole, "{nanos} + {passed}");
                assert!(
                    split.at_once().is_none_or(|time| Some(time) == whole),
                    "{nanos} + {passed}"
                );
            }
            assert_eq!(slot.split(|_| Ticks(1_091)), None, "due");
        }
    }

    #[test]
    fn a_sample_of_long_ago_is_told_as_younger_and_one_of_now_as_it_is() {
        let slot = Slot::new();
        let told = |sampled| {
            let line = Line { anchor: Ticks(1 << 40), sampled: Ticks(sampled), ..Line::default() };
            assert!(slot.put(&line, 1));
            slot.line().map(|line| line.sampled)
        };
        assert_eq!(told((1 << 40) - 5), Some(Ticks((1 << 40) - 5)));
        assert_eq!(told(1 << 40), Some(Ticks(1 << 40)));
        assert_eq!(told(3), Some(Ticks((1 << 40) - u64::from(u32::MAX))));
    }
}
