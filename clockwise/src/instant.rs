//! [`Instant`]: `CLOCK_MONOTONIC`.

use crate::SystemTime;
use crate::bounded::Bounded;
use crate::clock::unanswered;
use crate::global::PROCESS;
use crate::wide;
use clockwise_core::kernel::ClockId;
use clockwise_core::units::Timespec;
use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::time::Duration;

/// A time of `CLOCK_MONOTONIC`, to the nanosecond; reads like [`std::time::Instant`].
///
/// Never goes back within a thread, nor, from [`now`](Self::now), across threads. Steered as the kernel steers it
/// (NTP), not stepped; stands still while the machine is suspended. Its nanoseconds are the kernel's own (since boot,
/// as this process's time namespace sees it), so they may be handed to timerfd, to a futex, or to
/// another process (on Linux, x86-64 and aarch64; elsewhere they count from the first read).
///
/// Durations before the clock's zero can be subtracted: there is room for 292 billion years below it, as in the
/// standard library on Linux.
///
/// ```
/// use clockwise::Instant;
/// use std::time::Duration;
///
/// let start = Instant::now();
/// let deadline = start + Duration::from_millis(5);
/// while Instant::now_relaxed() < deadline {}
/// assert!(start.elapsed() >= Duration::from_millis(5));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
// As the standard library's: 16 bytes, aligned to 8.
#[repr(Rust, packed(8))]
pub struct Instant {
    nanos: i128,
}

impl Instant {
    /// Now, ordered: not earlier than any time that this thread has seen, whoever took it.
    ///
    /// # Panics
    /// As the standard library, if the kernel refuses the clock (a sandbox that forbids it and has no vDSO).
    #[inline]
    #[must_use]
    pub fn now() -> Self {
        match PROCESS.now(ClockId::MONOTONIC) {
            Ok(nanos) => Self { nanos: i128::from(nanos) },
            Err(errno) => unanswered(ClockId::MONOTONIC, errno),
        }
    }

    /// Now, unordered: never goes back within a thread, but may be earlier than what the thread has seen of others,
    /// by what the processor has in flight: tens of nanoseconds as a rule, microseconds where a load before it
    /// misses the caches.
    ///
    /// # Panics
    /// As [`now`](Self::now).
    #[inline]
    #[must_use]
    pub fn now_relaxed() -> Self {
        match PROCESS.now_relaxed(ClockId::MONOTONIC) {
            Ok(nanos) => Self { nanos: i128::from(nanos) },
            Err(errno) => unanswered(ClockId::MONOTONIC, errno),
        }
    }

    /// As [`now`](Self::now), with how far from the kernel's clock it may be.
    ///
    /// # Panics
    /// As [`now`](Self::now).
    #[must_use]
    pub fn now_with_bound() -> Bounded<Self> {
        match PROCESS.reading(ClockId::MONOTONIC) {
            Ok(reading) => Bounded::new(Self::from_nanos(reading.nanos), reading),
            Err(errno) => unanswered(ClockId::MONOTONIC, errno),
        }
    }

    /// From `earlier` to this; zero if that lies later.
    #[inline]
    #[must_use]
    pub fn duration_since(&self, earlier: Self) -> Duration {
        self.saturating_duration_since(earlier)
    }

    /// From `earlier` to this, or `None` if that lies later.
    #[inline]
    #[must_use]
    pub fn checked_duration_since(&self, earlier: Self) -> Option<Duration> {
        wide::distance(self.nanos, earlier.nanos).ok()
    }

    /// From `earlier` to this; zero if that lies later.
    #[inline]
    #[must_use]
    pub fn saturating_duration_since(&self, earlier: Self) -> Duration {
        self.checked_duration_since(earlier).unwrap_or_default()
    }

    /// From this to now.
    #[inline]
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        Self::now().saturating_duration_since(*self)
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

    /// The time that is `nanos` nanoseconds of `CLOCK_MONOTONIC`.
    #[inline]
    #[must_use]
    pub const fn from_nanos(nanos: i64) -> Self {
        Self { nanos: nanos as i128 }
    }

    /// Nanoseconds of `CLOCK_MONOTONIC`. Those of a reading fit in 63 bits.
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

    /// The wall clock's time when this was or will be, if it is not set in between: for logs. Off by the time between two
    /// reads (tens of nanoseconds); a step of the wall clock since then shows in full. `None` where it has no such time.
    ///
    /// ```
    /// use clockwise::Instant;
    /// let stamp = Instant::now();
    /// println!("{:?}", stamp.to_system_time());
    /// ```
    #[must_use]
    pub fn to_system_time(self) -> Option<SystemTime> {
        let (now, wall) = (Self::now(), SystemTime::now());
        match wide::distance(self.nanos, now.nanos) {
            Ok(ahead) => wall.checked_add(ahead),
            Err(ago) => wall.checked_sub(ago),
        }
    }

    /// The standard library's time that lies as far from its now as this lies from ours; off by the time between
    /// the two reads (tens of nanoseconds), which makes it later. `None` where that has no such time.
    #[must_use]
    pub fn to_std(self) -> Option<std::time::Instant> {
        let now = Self::now();
        let standard = std::time::Instant::now();
        match wide::distance(self.nanos, now.nanos) {
            Ok(ahead) => standard.checked_add(ahead),
            Err(ago) => standard.checked_sub(ago),
        }
    }
}

/// Off by the time between two reads (tens of nanoseconds): saturates at the ends of the range: the
/// standard library does not tell its nanoseconds.
impl From<std::time::Instant> for Instant {
    fn from(time: std::time::Instant) -> Self {
        let standard = std::time::Instant::now();
        let now = Self::now();
        match time.checked_duration_since(standard) {
            Some(ahead) => now.checked_add(ahead).unwrap_or(Self { nanos: wide::MAX }),
            None => {
                let ago = standard.duration_since(time);
                now.checked_sub(ago).unwrap_or(Self { nanos: wide::MIN })
            }
        }
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    /// # Panics
    /// If no time is that late. See [`Instant::checked_add`].
    fn add(self, duration: Duration) -> Self {
        self.checked_add(duration).expect("overflow when adding duration to instant")
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    /// # Panics
    /// If no time is that early. See [`Instant::checked_sub`].
    fn sub(self, duration: Duration) -> Self {
        self.checked_sub(duration).expect("overflow when subtracting duration from instant")
    }
}

impl SubAssign<Duration> for Instant {
    fn sub_assign(&mut self, duration: Duration) {
        *self = *self - duration;
    }
}

impl Sub for Instant {
    type Output = Duration;

    /// From `earlier` to this; zero if that lies later.
    fn sub(self, earlier: Self) -> Duration {
        self.duration_since(earlier)
    }
}

/// Seconds of `CLOCK_MONOTONIC`.
impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Instant({})", self.to_timespec())
    }
}
