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
