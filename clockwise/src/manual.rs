//! [`Manual`]: a clock that is set by hand, for the tests of those who use this crate.

use clockwise_core::clock::Clock as Engine;
use clockwise_core::counter::Counter;
use clockwise_core::kernel::{ClockId, Errno, Kernel};
use clockwise_core::trust::Unfit;
use clockwise_core::units::{Ticks, Timespec};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Time that stands still until it is moved: a counter and a kernel for an [`Engine`] of one's own.
///
/// Clones share the time. The wall clock (REALTIME, TAI) can be set on its own; all other clocks are one. Nothing is
/// global: a test has as many of them as it likes.
///
/// ```
/// use clockwise::{Clock, ClockId, Counter, Kernel, Manual};
/// use std::time::Duration;
///
/// /// What is to be tested: generic over the clock.
/// fn is_late<C: Counter, K: Kernel>(clock: &Clock<'_, C, K>, deadline: i64) -> bool {
///     clock.now().is_ok_and(|now| now > deadline)
/// }
///
/// let time = Manual::new();
/// let engine = time.engine();
/// let clock = Clock::of(&engine, ClockId::MONOTONIC);
/// assert!(!is_late(&clock, 1_000_000_000));
/// time.advance(Duration::from_secs(2));
/// assert!(is_late(&clock, 1_000_000_000));
/// // In the program: is_late(&Clock::monotonic(), deadline)
/// ```
#[derive(Clone, Debug, Default)]
pub struct Manual {
    times: Arc<Mutex<Times>>,
}

#[derive(Debug, Default)]
struct Times {
    monotonic_nanos: i64,
    realtime_nanos: i64,
}

impl Manual {
    /// Both clocks at zero.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A clock that shows this time.
    #[must_use]
    pub fn engine(&self) -> Engine<Self, Self> {
        Engine::new(self.clone(), self.clone())
    }

    /// Moves all clocks on; they stop at 2^63 ns.
    pub fn advance(&self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.change(|times| {
            times.monotonic_nanos = times.monotonic_nanos.saturating_add_unsigned(nanos);
            times.realtime_nanos = times.realtime_nanos.saturating_add_unsigned(nanos);
        });
    }

    /// Sets the wall clock, in nanoseconds since the Unix epoch, forwards or back.
    pub fn set_realtime(&self, nanos: i64) {
        self.change(|times| times.realtime_nanos = nanos);
    }

    fn change<T>(&self, change: impl FnOnce(&mut Times) -> T) -> T {
        // A test that panicked elsewhere has left two whole numbers.
        change(&mut self.times.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// It has no ticks of its own: the clock asks the [`Kernel`], and so shows what was set, to the nanosecond.
impl Counter for Manual {
    fn ticks(&self) -> Ticks {
        Ticks(self.change(|times| times.monotonic_nanos) as u64)
    }

    fn ticks_unordered(&self) -> Ticks {
        self.ticks()
    }

    fn fit(&self) -> Result<(), Unfit> {
        Err(Unfit::Manual)
    }
}

impl Kernel for Manual {
    fn now(&self, clock: ClockId) -> Result<Timespec, Errno> {
        let nanos = self.change(|times| match clock {
            ClockId::REALTIME | ClockId::TAI | ClockId::REALTIME_COARSE => times.realtime_nanos,
            _ => times.monotonic_nanos,
        });
        Ok(Timespec::from_nanos(nanos))
    }
}
