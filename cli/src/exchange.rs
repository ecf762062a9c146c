//! Two threads hand each other readings of a clock, as programs do: does the one that receives ever read
//! an older time itself?
//!
//! Must never let a thread take its own readings for the other's: see [`Exchange`].

use clockwise_core::counter;
use clockwise_core::kernel::Errno;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

/// Where two threads leave their readings for each other.
///
/// Each has a place of its own, on cache lines of its own: with one word for both, a thread would
/// nearly always read its own last store back from its store buffer and never meet the other's.
#[derive(Default)]
pub struct Exchange {
    places: [Place; 2],
    stop: Stop,
}

#[derive(Default)]
#[repr(align(128))]
struct Place {
    value: AtomicI64,
    /// How many readings were left here; with none there is no value.
    count: AtomicU64,
    /// The least that a reading of this thread was above the other's, known once the thread has ended.
    closest: AtomicI64,
}

#[derive(Default)]
#[repr(align(128))]
struct Stop(AtomicBool);

impl Exchange {
    /// One thread's part, until told to stop: takes readings with `read`, leaves each, looks at the
    /// other's. `side` is 0 in one of the threads and 1 in the other.
    #[inline(always)]
    pub fn run(&self, side: usize, read: impl Fn() -> Result<i64, Errno>) -> HandOver {
        let (mine, theirs) = (&self.places[side & 1], &self.places[!side & 1]);
        let (mut seen, mut last, mut given) = (HandOver::default(), None, 0);
        let mut closest = i64::MAX;
        while !self.stop.0.load(Ordering::Relaxed) {
            for _ in 0..64 {
                // The other's reading is known before ours begins, and ours is left after it ended:
                // acquire and release, as any program would hand it over. The value is loaded after
                // the count and so is at least as new.
                let count = theirs.count.load(Ordering::Acquire);
                let value = theirs.value.load(Ordering::Acquire);
                counter::after(value as u64);
                let Ok(ours) = read() else { return seen };
                // Only a time that is new can have been passed: a clock that stands still shows nothing.
                if count > 0 && last != Some(value) {
                    last = Some(value);
                    seen.count += 1;
                    closest = closest.min(ours.wrapping_sub(value));
                    if ours < value {
                        seen.violations += 1;
                        seen.worst = seen.worst.max(value.abs_diff(ours));
                    }
                }
                given += 1;
                mine.value.store(ours, Ordering::Release);
                mine.count.store(given, Ordering::Release);
            }
        }
        mine.closest.store(closest, Ordering::Release);
        seen
    }

    /// Between what the difference of the two clocks lies (that of side 0 minus that of side 1), in the source's unit, once
    /// both have ended. Handing a reading over takes time, so that each way gives a limit.
    pub fn difference(&self) -> Option<(i64, i64)> {
        let of = |side: usize| {
            let is_one = self.places[1 - side].count.load(Ordering::Acquire) > 0;
            let closest = self.places[side].closest.load(Ordering::Acquire);
            (is_one && closest < i64::MAX).then_some(closest)
        };
        Some((of(1)?.saturating_neg(), of(0)?))
    }

    /// Both threads end soon.
    pub fn stop(&self) {
        self.stop.0.store(true, Ordering::Relaxed);
    }
}

/// What threads saw of each other's readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandOver {
    /// Times of the other thread that were new to the one that looked.
    pub count: u64,
    /// Of those, how often the thread's own next reading was smaller.
    pub violations: u64,
    /// By how much at most, in the source's unit.
    pub worst: u64,
}

impl HandOver {
    /// Both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            count: self.count + other.count,
            violations: self.violations + other.violations,
            worst: self.worst.max(other.worst),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reads::{LibcClock, Loops, Read};
    use clockwise_core::kernel::ClockId;

    /// Lets `read` exchange readings with a thread that leaves `left` and nothing else.
    fn against(read: impl Read, left: i64) -> HandOver {
        let exchange = Exchange::default();
        exchange.places[1].value.store(left, Ordering::Relaxed);
        exchange.places[1].count.store(1, Ordering::Release);
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| read.exchange(&exchange, 0));
            while exchange.places[0].count.load(Ordering::Acquire) < 100 {
                std::thread::yield_now();
            }
            exchange.stop();
            thread.join().unwrap()
        })
    }

    /// A clock that always says 5.
    #[derive(Clone, Copy)]
    struct Stuck;

    impl Read for Stuck {
        fn call(self, _dep: u64) -> u64 {
            5
        }

        fn value(self) -> Result<i64, Errno> {
            Ok(5)
        }
    }

    #[test]
    fn a_reading_older_than_the_one_handed_over_is_a_violation_and_is_counted_once() {
        assert_eq!(against(Stuck, 12), HandOver { count: 1, violations: 1, worst: 7 });
        assert_eq!(against(Stuck, 5), HandOver { count: 1, violations: 0, worst: 0 });
        // Left a hundred times and more, and the same time: one is handed over.
        let from_before = HandOver { count: 1, violations: 0, worst: 0 };
        assert_eq!(against(LibcClock(ClockId::MONOTONIC), i64::MIN), from_before);
    }

    #[test]
    fn what_two_clocks_differ_by_lies_between_what_each_way_gives() {
        let exchange = Exchange::default();
        // The second clock is 5,000 s ahead of the first.
        let ahead = 5_000_000_000_000;
        let now = || LibcClock(ClockId::MONOTONIC).value();
        assert_eq!(exchange.difference(), None);
        std::thread::scope(|scope| {
            let exchange = &exchange;
            scope.spawn(move || exchange.run(0, now));
            scope.spawn(move || exchange.run(1, move || now().map(|ns| ns + ahead)));
            let given = |side: usize| exchange.places[side].count.load(Ordering::Relaxed);
            while given(0) < 10_000 || given(1) < 10_000 {
                std::thread::yield_now();
            }
            exchange.stop();
        });
        let (least, most) = exchange.difference().unwrap();
        assert!(least <= -ahead && -ahead <= most, "{least} {most}");
    }

    #[test]
    fn two_threads_meet_each_others_readings_and_not_their_own() {
        let exchange = Exchange::default();
        let read = LibcClock(ClockId::MONOTONIC);
        let seen = std::thread::scope(|scope| {
            let threads = [0, 1].map(|side| {
                let exchange = &exchange;
                scope.spawn(move || read.exchange(exchange, side))
            });
            let given = |side: usize| exchange.places[side].count.load(Ordering::Relaxed);
            while given(0) < 10_000 || given(1) < 10_000 {
                std::thread::yield_now();
            }
            exchange.stop();
            threads.map(|thread| thread.join().unwrap())
        });
        // Neither can have seen more than the other gave.
        let given = |side: usize| exchange.places[side].count.load(Ordering::Relaxed);
        assert!(seen[0].count <= given(1) && seen[1].count <= given(0));
        assert!(seen[0].count > 0 && seen[1].count > 0);
        assert_eq!(seen[0].violations + seen[1].violations, 0);
    }
}
