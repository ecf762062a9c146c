//! [`Pair`]: the counter and a clock at the same moment; [`Rate`]: what two of them prove.
//!
//! Intervals, not estimates: whatever came between two readings widens a bracket and falsifies nothing, so the rate's
//! uncertainty covers the truth on a busy machine too.

use clockwise_core::counter::Counter;
use clockwise_core::kernel::{ClockId, Kernel};

/// A reading of the clock between two of the counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The counter before.
    pub before: u64,
    /// What the clock said.
    pub nanos: i64,
    /// The counter after.
    pub after: u64,
}

impl Pair {
    /// The narrowest of `brackets`; `None` if the clock or the counter does not answer soundly.
    pub fn take(
        counter: &impl Counter,
        kernel: &impl Kernel,
        clock: ClockId,
        brackets: u32,
    ) -> Option<Self> {
        let mut before = counter.ticks().0;
        let mut best: Option<Self> = None;
        for _ in 0..brackets {
            let nanos = kernel.now(clock).ok()?.nanos_i64();
            let after = counter.ticks().0;
            let pair = Self { before, nanos, after };
            // A counter that went back (another core, a restart) brackets nothing.
            if after > before && best.is_none_or(|best| pair.width() < best.width()) {
                best = Some(pair);
            }
            before = after;
        }
        best
    }

    /// Ticks from before to after.
    pub fn width(&self) -> u64 {
        self.after.saturating_sub(self.before)
    }

    /// The middle.
    pub fn ticks(&self) -> u64 {
        self.before + self.width() / 2
    }
}

/// Ticks per second of a clock: somewhere between two figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Not less.
    pub least_hz: f64,
    /// Not more.
    pub most_hz: f64,
}

impl Rate {
    /// What two pairs prove; `None` if that is nothing.
    pub fn between(first: &Pair, last: &Pair) -> Option<Self> {
        // A clock tells whole nanoseconds, so that up to one more has passed, or less.
        let ns = last.nanos.checked_sub(first.nanos).filter(|&ns| ns > 1)?;
        let least = last.before.checked_sub(first.after).filter(|&ticks| ticks > 0)?;
        let most = last.after.checked_sub(first.before)?;
        let hz = |ticks: u64, ns: i64| ticks as f64 * 1e9 / ns as f64;
        Some(Self { least_hz: hz(least, ns + 1), most_hz: hz(most, ns - 1) })
    }

    /// The middle.
    pub fn hz(&self) -> f64 {
        f64::midpoint(self.least_hz, self.most_hz)
    }

    /// From the middle to either end.
    pub fn uncertainty_ppm(&self) -> f64 {
        (self.most_hz - self.least_hz) / 2.0 / self.hz() * 1e6
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clockwise_core::kernel::Errno;
    use clockwise_core::units::{Ticks, Timespec};
    use std::cell::Cell;

    /// A counter and a clock of 1 GHz in one: each reading of the clock takes what the script says, half of it before.
    struct Script<'a> {
        ticks: Cell<u64>,
        read: Cell<usize>,
        costs: &'a [i64],
    }

    impl Counter for Script<'_> {
        fn ticks(&self) -> Ticks {
            Ticks(self.ticks.get())
        }

        fn ticks_unordered(&self) -> Ticks {
            self.ticks()
        }
    }

    impl Kernel for Script<'_> {
        fn now(&self, _: ClockId) -> Result<Timespec, Errno> {
            let cost = *self.costs.get(self.read.get()).ok_or(Errno::PERM)?;
            self.read.set(self.read.get() + 1);
            let half_way = self.ticks.get().wrapping_add_signed(cost / 2);
            self.ticks.set(self.ticks.get().wrapping_add_signed(cost));
            Ok(Timespec::from_nanos(half_way.cast_signed()))
        }
    }

    fn taken(costs: &[i64], brackets: u32) -> Option<Pair> {
        let script = Script { ticks: Cell::new(1_000), read: Cell::new(0), costs };
        Pair::take(&script, &script, ClockId::MONOTONIC, brackets)
    }

    #[test]
    fn the_narrowest_bracket_is_taken_and_one_that_goes_back_never() {
        let pair = Pair { before: 10_000, nanos: 10_020, after: 10_040 };
        assert_eq!(taken(&[9_000, 40, 9_000], 3), Some(pair));
        assert_eq!((pair.ticks(), pair.width()), (10_020, 40));
        assert_eq!(taken(&[-50, 80, -50], 3), Some(Pair { before: 950, nanos: 990, after: 1_030 }));
        assert_eq!(taken(&[-50, 0], 2), None);
        assert_eq!(taken(&[40], 2), None, "a clock that fails");
    }

    #[test]
    fn the_rate_lies_in_the_interval_wherever_in_their_brackets_the_readings_were() {
        let mut state = 1u64;
        let mut next = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for _ in 0..100_000 {
            let hz = 1_000_000 + next(5_000_000_000);
            let tick =
                |ns: u64| u64::try_from(u128::from(ns) * u128::from(hz) / 1_000_000_000).unwrap();
            let mut pair = |ns: u64| {
                let at = tick(ns);
                let pair = Pair {
                    before: at.saturating_sub(next(5_000)),
                    nanos: ns.cast_signed(),
                    // The tick in which the clock was read had not ended.
                    after: at + 1 + next(5_000),
                };
                (pair, ns)
            };
            let (first, start) = pair(1_000_000_000);
            let (last, _) = pair(start + 1_000 + 1_000_000_000);
            let rate = Rate::between(&first, &last).unwrap();
            let hz = hz as f64;
            assert!(rate.least_hz <= hz && hz <= rate.most_hz, "{rate:?} {hz}");
            assert!(rate.uncertainty_ppm() >= 0.0 && rate.least_hz <= rate.hz());
        }
    }

    #[test]
    fn pairs_that_prove_nothing_give_no_rate() {
        let pair = |before, nanos, after| Pair { before, nanos, after };
        let first = pair(1_000, 1_000, 1_040);
        for last in [
            first,
            pair(1_000, 5_000, 1_040),
            pair(1_041, 1_001, 1_050),
            pair(500, 5_000, 540),
            pair(9_000, 900, 9_040),
            pair(9_000, i64::MIN, 9_040),
        ] {
            assert_eq!(Rate::between(&first, &last), None, "{last:?}");
        }
    }
}
