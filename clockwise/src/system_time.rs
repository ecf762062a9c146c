//! [`SystemTime`]: `CLOCK_REALTIME`.

use crate::bounded::Bounded;
use crate::clock::unanswered;
use crate::global::PROCESS;
use crate::wide;
use clockwise_core::kernel::ClockId;
use clockwise_core::units::Timespec;
use std::error::Error;
use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::time::Duration;

/// A time of the wall clock, `CLOCK_REALTIME`, to the nanosecond; reads like [`std::time::SystemTime`].
///
/// Goes back where the wall clock is set back, or at a leap second; a step is followed within one
/// period (4 ms as a rule) while somebody reads. Between steps it does not go back from one read of a thread to the next. Counts while the machine is
/// suspended.
///
/// ```
/// use clockwise::{SystemTime, UNIX_EPOCH};
///
/// let now = SystemTime::now();
/// println!("{} s since 1970", now.duration_since(UNIX_EPOCH)?.as_secs());
/// let standard: std::time::SystemTime = now.try_into()?;
/// assert_eq!(SystemTime::from(standard), now);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
// As the standard library's: 16 bytes, aligned to 8.
#[repr(Rust, packed(8))]
pub struct SystemTime {
    nanos: i128,
}

/// 1970-01-01 00:00:00 UTC.
pub const UNIX_EPOCH: SystemTime = SystemTime { nanos: 0 };

impl SystemTime {
    /// 1970-01-01 00:00:00 UTC.
    pub const UNIX_EPOCH: Self = UNIX_EPOCH;

    /// Now, ordered: between steps, not earlier than any time that this thread has seen, whoever took it.
    ///
    /// # Panics
    /// As the standard library, if the kernel refuses the clock (a sandbox that forbids it and has no vDSO).
    #[inline]
    #[must_use]
    pub fn now() -> Self {
        match PROCESS.now(ClockId::REALTIME) {
            Ok(nanos) => Self { nanos: i128::from(nanos) },
            Err(errno) => unanswered(ClockId::REALTIME, errno),
        }
    }

    /// Now, unordered; see [`Instant::now_relaxed`](crate::Instant::now_relaxed).
    ///
    /// # Panics
    /// As [`now`](Self::now).
    #[inline]
    #[must_use]
    pub fn now_relaxed() -> Self {
        match PROCESS.now_relaxed(ClockId::REALTIME) {
            Ok(nanos) => Self { nanos: i128::from(nanos) },
            Err(errno) => unanswered(ClockId::REALTIME, errno),
        }
    }

    /// As [`now`](Self::now), with how far from the kernel's clock it may be, and, on demand, from UTC.
    ///
    /// # Panics
    /// As [`now`](Self::now).
    #[must_use]
    pub fn now_with_bound() -> Bounded<Self> {
        match PROCESS.reading(ClockId::REALTIME) {
            Ok(reading) => Bounded::new(Self::from_nanos(reading.nanos), reading),
            Err(errno) => unanswered(ClockId::REALTIME, errno),
        }
    }

    /// From `earlier` to this.
    ///
    /// # Errors
    /// How much later `earlier` lies.
    pub fn duration_since(&self, earlier: Self) -> Result<Duration, SystemTimeError> {
        wide::distance(self.nanos, earlier.nanos).map_err(SystemTimeError)
    }

    /// From this to now.
    ///
    /// # Errors
    /// How far this lies in the future: the wall clock may have been set back.
    pub fn elapsed(&self) -> Result<Duration, SystemTimeError> {
        Self::now().duration_since(*self)
    }

    /// This much later, or `None` where no time is that late.
    #[must_use]
    pub fn checked_add(&self, duration: Duration) -> Option<Self> {
        wide::checked_add(self.nanos, duration).map(|nanos| Self { nanos })
    }

    /// This much earlier, or `None` where no time is that early.
    #[must_use]
    pub fn checked_sub(&self, duration: Duration) -> Option<Self> {
        wide::checked_sub(self.nanos, duration).map(|nanos| Self { nanos })
    }

    /// The time `nanos` nanoseconds after the Unix epoch.
    #[inline]
    #[must_use]
    pub const fn from_nanos(nanos: i64) -> Self {
        Self { nanos: nanos as i128 }
    }

    /// Nanoseconds since the Unix epoch. Those of a reading fit in 63 bits until 2262.
    #[inline]
    #[must_use]
    pub const fn as_nanos(self) -> i128 {
        self.nanos
    }

    /// As the `timespec` that system calls take.
    #[must_use]
    pub const fn to_timespec(self) -> Timespec {
        wide::to_timespec(self.nanos)
    }

    /// From the `timespec` that system calls give; `None` if its nanoseconds are not below 10^9.
    #[must_use]
    pub const fn from_timespec(time: Timespec) -> Option<Self> {
        match wide::from_timespec(time) {
            Some(nanos) => Some(Self { nanos }),
            None => None,
        }
    }
}

/// How much later the other time lies, as [`std::time::SystemTimeError`].
///
/// ```
/// use clockwise::SystemTime;
/// let (earlier, later) = (SystemTime::from_nanos(5), SystemTime::from_nanos(7));
/// assert_eq!(earlier.duration_since(later).unwrap_err().duration().as_nanos(), 2);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemTimeError(Duration);

impl SystemTimeError {
    /// How much later.
    #[must_use]
    pub const fn duration(&self) -> Duration {
        self.0
    }
}

impl fmt::Display for SystemTimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("second time provided was later than self")
    }
}

impl Error for SystemTimeError {}

/// Exact.
impl From<std::time::SystemTime> for SystemTime {
    fn from(time: std::time::SystemTime) -> Self {
        let nanos = match time.duration_since(std::time::UNIX_EPOCH) {
            Ok(after) => wide::checked_add(0, after),
            Err(before) => wide::checked_sub(0, before.duration()),
        };
        // The standard library's range is that of this type on 64-bit Linux, and smaller elsewhere.
        Self { nanos: nanos.unwrap_or(wide::MAX) }
    }
}

/// Exact, or refused where the standard library's type has no such time.
impl TryFrom<SystemTime> for std::time::SystemTime {
    type Error = OutOfRange;

    fn try_from(time: SystemTime) -> Result<Self, OutOfRange> {
        let standard = match wide::distance(time.nanos, 0) {
            Ok(after) => std::time::UNIX_EPOCH.checked_add(after),
            Err(before) => std::time::UNIX_EPOCH.checked_sub(before),
        };
        standard.ok_or(OutOfRange)
    }
}

/// The standard library's type of this target has no such time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfRange;

impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("std::time::SystemTime has no such time on this target")
    }
}

impl Error for OutOfRange {}

impl Add<Duration> for SystemTime {
    type Output = Self;

    /// # Panics
    /// If no time is that late. See [`SystemTime::checked_add`].
    fn add(self, duration: Duration) -> Self {
        self.checked_add(duration).expect("overflow when adding duration to instant")
    }
}

impl AddAssign<Duration> for SystemTime {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub<Duration> for SystemTime {
    type Output = Self;

    /// # Panics
    /// If no time is that early. See [`SystemTime::checked_sub`].
    fn sub(self, duration: Duration) -> Self {
        self.checked_sub(duration).expect("overflow when subtracting duration from instant")
    }
}

impl SubAssign<Duration> for SystemTime {
    fn sub_assign(&mut self, duration: Duration) {
        *self = *self - duration;
    }
}

/// Seconds since the Unix epoch.
impl fmt::Debug for SystemTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SystemTime({})", self.to_timespec())
    }
}
