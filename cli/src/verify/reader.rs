//! Readings in bursts, each between two of the kernel's, handed to the other threads as programs do.
//!
//! Must never let a thread take its own readings for another's: each has a place of its own (see `exchange.rs`).

use super::judge::{Evidence, Finding, Judge, Rules, Taken};
use super::subject::{Reference, Subject};
use clockwise::{ClockId, Errno, Status};
use clockwise_core::counter;
use std::sync::atomic::{AtomicI64, Ordering};

/// Where threads leave their last readings for each other.
pub struct Places(Vec<Place>);

/// On cache lines of its own.
#[repr(align(128))]
struct Place(AtomicI64);

impl Places {
    /// For so many threads.
    pub fn new(threads: usize) -> Self {
        Self((0..threads).map(|_| Place(AtomicI64::new(i64::MIN))).collect())
    }

    /// The greatest that the others have left; `i64::MIN` if none has.
    #[inline]
    fn newest_of_others(&self, own: usize) -> i64 {
        let others = self.0.iter().enumerate().filter(|&(index, _)| index != own);
        others.map(|(_, place)| place.0.load(Ordering::Acquire)).max().unwrap_or(i64::MIN)
    }

    #[inline]
    fn leave(&self, own: usize, nanos: i64) {
        self.0[own].0.store(nanos, Ordering::Release);
    }
}

/// What all readers share.
pub struct Shared<'a, S, R> {
    /// What is read.
    pub subject: &'a S,
    /// What it is compared with.
    pub reference: &'a R,
    /// Which clock.
    pub clock: ClockId,
    /// What is judged.
    pub rules: Rules,
    /// For the law of causality.
    pub places: Places,
    /// The kernel's MONOTONIC at the beginning.
    pub start_ns: i64,
}

/// Where a settable clock is, seen from MONOTONIC: the distance is constant until somebody sets it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Offset {
    known: Option<(i64, i64)>,
}

impl Offset {
    /// MONOTONIC said `before`, then the clock `nanos`, then MONOTONIC `after`. How far it was set, if it was.
    pub fn see(&mut self, before_ns: i64, nanos: i64, after_ns: i64) -> Option<i64> {
        // Both clocks are cut to whole nanoseconds.
        let low = nanos.saturating_sub(after_ns).saturating_sub(1);
        let high = nanos.saturating_sub(before_ns).saturating_add(1);
        let Some((known_low, known_high)) = self.known else {
            self.known = Some((low, high));
            return None;
        };
        let both = (low.max(known_low), high.min(known_high));
        if both.0 <= both.1 {
            self.known = Some(both);
            return None;
        }
        self.known = Some((low, high));
        let middle = |low: i64, high: i64| low.saturating_add_unsigned(high.abs_diff(low) / 2);
        Some(middle(low, high).saturating_sub(middle(known_low, known_high)))
    }
}

/// One thread's readings.
pub struct Reader<'a, S, R> {
    shared: &'a Shared<'a, S, R>,
    own: usize,
    offset: Offset,
    last_seen: i64,
    /// Its judge.
    pub judge: Judge,
    /// The readings of the last burst.
    pub readings: Vec<Taken>,
}

/// What a burst tells besides.
pub struct Burst {
    /// When it ended.
    pub elapsed_ns: i64,
    /// The kernel's clock was set by so much.
    pub kernel_stepped: Option<i64>,
    /// What the subject says of itself.
    pub status: Option<Status>,
}

impl<'a, S: Subject, R: Reference> Reader<'a, S, R> {
    /// The thread with that place.
    pub fn new(shared: &'a Shared<'a, S, R>, own: usize) -> Self {
        let judge = Judge::new(shared.rules);
        let (offset, last_seen) = (Offset::default(), i64::MIN);
        Self { shared, own, offset, last_seen, judge, readings: Vec::new() }
    }

    /// Takes `count` readings, every second one with its bound, and judges them.
    pub fn burst(
        &mut self,
        count: usize,
        report: &mut impl FnMut(Finding),
    ) -> Result<Burst, Errno> {
        let Shared { subject, reference, clock, rules, places, start_ns } = self.shared;
        self.readings.clear();
        let mut before_ns = reference.now(*clock)?;
        for index in 0..count {
            let mut seen_ns = i64::MIN;
            if !rules.settable {
                seen_ns = places.newest_of_others(self.own);
                // The other's reading is known before ours begins, as to any program that it was handed to. The bracket
                // begins after the look, to be as narrow as without.
                counter::after(seen_ns as u64);
                before_ns = reference.now(*clock)?;
            }
            let (nanos, error_ns, from_counter) = if index % 2 == 0 {
                (subject.now()?, None, None)
            } else {
                let told = subject.told()?;
                (told.nanos, Some(told.error_ns), Some(told.from_counter))
            };
            let after_ns = reference.now(*clock)?;
            if !rules.settable {
                places.leave(self.own, nanos);
            }
            if seen_ns > self.last_seen {
                self.last_seen = seen_ns;
                self.judge.tally.handed_over += 1;
            }
            let seen_ns = Some(seen_ns).filter(|&seen| seen > i64::MIN);
            self.readings.push(Taken {
                before_ns,
                nanos,
                after_ns,
                error_ns,
                from_counter,
                seen_ns,
            });
            before_ns = after_ns;
        }
        let monotonic_ns = reference.now(ClockId::MONOTONIC)?;
        let kernel_stepped = if rules.settable {
            let nanos = reference.now(*clock)?;
            self.offset.see(monotonic_ns, nanos, reference.now(ClockId::MONOTONIC)?)
        } else {
            None
        };
        let status = subject.status();
        let elapsed_ns = monotonic_ns - start_ns;
        let evidence = Evidence {
            kernel_stepped: kernel_stepped.is_some(),
            steps: status.map_or(0, |status| status.steps),
            period_ns: status.map_or(0, |status| status.period_ns),
        };
        self.judge.burst(elapsed_ns, &self.readings, &evidence, report);
        Ok(Burst { elapsed_ns, kernel_stepped, status })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clock_that_was_set_has_another_offset() {
        let mut offset = Offset::default();
        for second in 0..1_000i64 {
            let at = second * 1_000_000_000;
            // Brackets of every width; the clock is read somewhere in them.
            let width = second * 7_919 % 100_000;
            assert_eq!(offset.see(at, at + 5_000 + width / 3, at + width), None, "{second}");
        }
        assert_eq!(offset.see(0, 5_000, 0), None);
        assert_eq!(offset.see(10, 4_910, 10), Some(-100));
        assert_eq!(offset.see(20, 4_920, 20), None, "told once");
        assert_eq!(offset.see(i64::MIN, i64::MAX, i64::MAX), None);
    }

    #[test]
    fn a_thread_sees_the_greatest_of_the_others_and_never_its_own() {
        let places = Places::new(3);
        assert_eq!(places.newest_of_others(0), i64::MIN);
        places.leave(0, 9);
        places.leave(1, 5);
        places.leave(2, 7);
        assert_eq!(places.newest_of_others(0), 7);
        assert_eq!(places.newest_of_others(2), 9);
        assert_eq!(Places::new(1).newest_of_others(0), i64::MIN);
    }
}
