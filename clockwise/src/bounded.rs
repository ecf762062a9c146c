//! [`Bounded`]: a reading with how far off it may be.

use crate::{Instant, SystemTime};
use clockwise_core::clock::{Origin, Reading};
use clockwise_core::kernel;
use std::time::Duration;

/// A time, and how far from the kernel's clock it may be.
///
/// The bound holds whatever a time daemon makes adjtimex do to the kernel's frequency (500 ppm either way), and for each
/// reading but those in the period (4 ms as a rule) in which a clock or the counter is stepped, or in the two periods in
/// which the length of the kernel's tick is set (`ADJ_TICK`: up to a tenth of the rate; chrony does so to catch up).
///
/// ```
/// use clockwise::SystemTime;
/// let reading = SystemTime::now_with_bound();
/// assert!(reading.earliest() <= reading.time() && reading.time() <= reading.latest());
/// match reading.utc() {
///     Some((earliest, latest)) => println!("UTC lies between {earliest:?} and {latest:?}"),
///     None => println!("nobody disciplines this machine's clock"),
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounded<T> {
    time: T,
    reading: Reading,
}

impl<T: Copy> Bounded<T> {
    pub(crate) const fn new(time: T, reading: Reading) -> Self {
        Self { time, reading }
    }

    /// The reading.
    #[must_use]
    pub const fn time(&self) -> T {
        self.time
    }

    /// How far from the kernel's clock it may be either way, in nanoseconds. Grows by a microsecond for each
    /// millisecond since the last comparison with the kernel, for the kernel may have begun to slew since.
    #[must_use]
    pub const fn error_ns(&self) -> u64 {
        self.reading.error_ns
    }

    /// The same if the kernel has kept its rate since the last comparison: tens of nanoseconds.
    #[must_use]
    pub const fn steady_error_ns(&self) -> u64 {
        self.reading.steady_error_ns
    }

    /// Whether it was computed from the counter, or asked of the kernel.
    #[must_use]
    pub const fn origin(&self) -> Origin {
        self.reading.origin
    }

    /// All that is known about it.
    #[must_use]
    pub const fn reading(&self) -> &Reading {
        &self.reading
    }

    fn error(&self) -> Duration {
        Duration::from_nanos(self.reading.error_ns)
    }
}

impl Bounded<Instant> {
    /// The kernel's clock was not earlier.
    #[must_use]
    pub fn earliest(&self) -> Instant {
        self.time - self.error()
    }

    /// The kernel's clock was not later.
    #[must_use]
    pub fn latest(&self) -> Instant {
        self.time + self.error()
    }
}

impl Bounded<SystemTime> {
    /// The kernel's clock was not earlier.
    #[must_use]
    pub fn earliest(&self) -> SystemTime {
        self.time - self.error()
    }

    /// The kernel's clock was not later.
    #[must_use]
    pub fn latest(&self) -> SystemTime {
        self.time + self.error()
    }

    /// Between which two times UTC was, if the kernel knows how far off its clock may be (a time daemon tells it);
    /// `None` where nobody disciplines the clock. Asks the kernel: a system call (`adjtimex`, nothing is set).
    #[must_use]
    pub fn utc(&self) -> Option<(SystemTime, SystemTime)> {
        self.within(kernel::utc_error()?.error_ns)
    }

    /// The interval, where the kernel's clock may be off by `error_ns`.
    fn within(&self, error_ns: u64) -> Option<(SystemTime, SystemTime)> {
        let error = self.error() + Duration::from_nanos(error_ns);
        Some((self.time.checked_sub(error)?, self.time.checked_add(error)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_errors_of_the_reading_and_of_the_kernel_add_up() {
        let mut reading = *SystemTime::now_with_bound().reading();
        (reading.nanos, reading.error_ns) = (1_000_000, 300);
        let bounded = Bounded::new(SystemTime::from_nanos(1_000_000), reading);
        let expected = (SystemTime::from_nanos(499_700), SystemTime::from_nanos(1_500_300));
        assert_eq!(bounded.within(500_000), Some(expected));
        assert_eq!(bounded.earliest(), SystemTime::from_nanos(999_700));
        assert_eq!(bounded.latest(), SystemTime::from_nanos(1_000_300));
    }
}
