//! The arithmetic that both time types share: nanoseconds in 128 bits, within the range of the standard library's.
//!
//! There a time is 64-bit seconds and nanoseconds below 10^9; a sum is refused exactly where the seconds overflow.

use clockwise_core::units::Timespec;
use std::time::Duration;

const SECOND: i128 = 1_000_000_000;

/// The earliest and the latest time.
pub(crate) const MIN: i128 = i64::MIN as i128 * SECOND;
pub(crate) const MAX: i128 = i64::MAX as i128 * SECOND + SECOND - 1;

pub(crate) const fn checked_add(nanos: i128, duration: Duration) -> Option<i128> {
    // A duration is below 2^94 ns and a time below 2^93: no overflow.
    within(nanos + duration.as_nanos() as i128)
}

pub(crate) const fn checked_sub(nanos: i128, duration: Duration) -> Option<i128> {
    within(nanos - duration.as_nanos() as i128)
}

const fn within(nanos: i128) -> Option<i128> {
    if nanos >= MIN && nanos <= MAX { Some(nanos) } else { None }
}

/// From `earlier` to `later`, or how much `later` lies before it.
#[inline]
pub(crate) const fn distance(later: i128, earlier: i128) -> Result<Duration, Duration> {
    let nanos = later - earlier;
    if nanos >= 0 { Ok(duration(nanos as u128)) } else { Err(duration(nanos.unsigned_abs())) }
}

#[inline]
const fn duration(nanos: u128) -> Duration {
    // The usual case with the cheaper division. The most, MAX - MIN, has fewer than 2^64 seconds.
    if nanos <= u64::MAX as u128 {
        Duration::from_nanos(nanos as u64)
    } else {
        let second = SECOND as u128;
        Duration::new((nanos / second) as u64, (nanos % second) as u32)
    }
}

pub(crate) const fn to_timespec(nanos: i128) -> Timespec {
    Timespec { sec: nanos.div_euclid(SECOND) as i64, nsec: nanos.rem_euclid(SECOND) as i64 }
}

/// `None` where the nanoseconds are not below 10^9.
pub(crate) const fn from_timespec(time: Timespec) -> Option<i128> {
    if time.nsec >= 0 && time.nsec < SECOND as i64 { Some(time.nanos()) } else { None }
}
