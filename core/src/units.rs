//! The quantities: [`Ticks`] of a counter, the [`Frequency`] that turns them into nanoseconds, and
//! the [`Timespec`] in which the kernel answers.
//!
//! Pure arithmetic on values. Must never round up, wrap silently or use floating point: a
//! conversion is exact (floor) or it is refused.

use core::fmt;

/// Nanoseconds in a second.
pub const NANOS_PER_SEC: u32 = 1_000_000_000;

/// A reading of a counter, or a distance between two readings. Wraps at 2^64 by its nature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticks(pub u64);

impl Ticks {
    /// The distance from `earlier` to `self`, or `None` if `self` lies before it.
    ///
    /// The counter may wrap between the two; a distance of 2^63 or more is taken to be negative
    /// (a counter that restarted, or another core that lags), never a huge positive number.
    ///
    /// ```
    /// use clockwise_core::units::Ticks;
    /// assert_eq!(Ticks(12).since(Ticks(5)), Some(Ticks(7)));
    /// assert_eq!(Ticks(3).since(Ticks(u64::MAX)), Some(Ticks(4)));
    /// assert_eq!(Ticks(5).since(Ticks(12)), None);
    /// ```
    #[inline]
    #[must_use]
    pub const fn since(self, earlier: Self) -> Option<Self> {
        let distance = self.0.wrapping_sub(earlier.0);
        if distance < 1 << 63 { Some(Self(distance)) } else { None }
    }
}

/// Ticks per second: a whole number of hertz, never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frequency(u64);

impl Frequency {
    /// A frequency of `hz` ticks per second; `None` for zero, which is how processors and
    /// hypervisors say "not told".
    #[inline]
    #[must_use]
    pub const fn new(hz: u64) -> Option<Self> {
        if hz == 0 { None } else { Some(Self(hz)) }
    }

    /// Ticks per second.
    #[inline]
    #[must_use]
    pub const fn hz(self) -> u64 {
        self.0
    }

    /// How many whole nanoseconds `ticks` last: exactly `floor(ticks * 10^9 / hz)`.
    ///
    /// The result needs more than 64 bits for slow counters, hence `u128`; it cannot overflow.
    ///
    /// ```
    /// use clockwise_core::units::{Frequency, Ticks};
    /// let arm = Frequency::new(24_000_000).unwrap();
    /// assert_eq!(arm.nanos(Ticks(1)), 41);
    /// ```
    #[inline]
    #[must_use]
    pub const fn nanos(self, ticks: Ticks) -> u128 {
        // `as` because `From` is not const; u64 to u128 loses nothing.
        ticks.0 as u128 * NANOS_PER_SEC as u128 / self.0 as u128
    }

    /// How many whole ticks fit into `nanos`: exactly `floor(nanos * hz / 10^9)`, or `None` if that
    /// does not fit in 64 bits. `nanos -> ticks -> nanos` never grows.
    #[inline]
    #[must_use]
    pub const fn ticks(self, nanos: u64) -> Option<Ticks> {
        let ticks = nanos as u128 * self.0 as u128 / NANOS_PER_SEC as u128;
        if ticks <= u64::MAX as u128 { Some(Ticks(ticks as u64)) } else { None }
    }

    /// The distance of `self` from `reference` in parts per million, rounded towards zero.
    ///
    /// A claim (of CPUID, of a firmware register) is believed only if it is near a measurement.
    #[must_use]
    pub const fn distance_ppm(self, reference: Self) -> u64 {
        let distance = self.0.abs_diff(reference.0) as u128 * 1_000_000 / reference.0 as u128;
        if distance > u64::MAX as u128 { u64::MAX } else { distance as u64 }
    }
}

/// A time as the kernel gives it: seconds and nanoseconds, laid out as C's `struct timespec` of
/// 64-bit Linux.
///
/// The seconds count from the clock's own zero (the Unix epoch for wall clocks, boot for the others)
/// and may be negative; the nanoseconds are below 10^9 in every answer of the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub struct Timespec {
    /// Whole seconds.
    pub sec: i64,
    /// Nanoseconds after the second.
    pub nsec: i64,
}

impl Timespec {
    /// The whole as nanoseconds from the clock's zero. Exact for every value.
    #[inline]
    #[must_use]
    pub const fn nanos(self) -> i128 {
        self.sec as i128 * NANOS_PER_SEC as i128 + self.nsec as i128
    }

    /// The whole as nanoseconds, clamped to what 64 bits hold: 292 years before and after the clock's zero,
    /// which is also the most that the kernel's own clocks hold.
    #[inline]
    #[must_use]
    pub const fn nanos_i64(self) -> i64 {
        // The usual case without 128-bit arithmetic: clock reads pass through here.
        match self.sec.checked_mul(NANOS_PER_SEC as i64) {
            Some(nanos) => nanos.saturating_add(self.nsec),
            None if self.sec < 0 => i64::MIN,
            None => i64::MAX,
        }
    }

    /// The time that lies `nanos` nanoseconds from the clock's zero; the nanoseconds after the second are 0..10^9.
    #[inline]
    #[must_use]
    pub const fn from_nanos(nanos: i64) -> Self {
        let second = NANOS_PER_SEC as i64;
        Self { sec: nanos.div_euclid(second), nsec: nanos.rem_euclid(second) }
    }
}

impl fmt::Display for Timespec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A negative time counts down to its second: -1 s and 999,999,999 ns are -0.000000001 s.
        let nanos = self.nanos();
        let (sign, second) = (if nanos < 0 { "-" } else { "" }, u128::from(NANOS_PER_SEC));
        let nanos = nanos.unsigned_abs();
        write!(f, "{sign}{}.{:09}", nanos / second, nanos % second)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;

    /// Frequency, ticks, exact floor(ticks * 1e9 / hz): computed with arbitrary precision.
    const EXACT: &[(u64, u64, u128)] = &[
        (2_596_132_173, 15_576_793_039, 6_000_000_000),
        (2_596_132_173, 224_305_819_747_200, 86_400_000_000_000),
        (2_596_132_173, 46_655_610_507_429_945, 17_971_200_000_004_755),
        (2_596_132_173, 818_716_242_077_280_007, 315_360_000_000_000_002),
        (2_596_132_173, u64::MAX, 7_105_471_849_837_728_433),
        (3_000_000_000, 53_913_600_000_012_345, 17_971_200_000_004_115),
        (3_000_000_000, 9_007_199_254_740_993, 3_002_399_751_580_331),
        (1_000_000_000, u64::MAX, 18_446_744_073_709_551_615),
        (24_000_000, 1, 41),
        (24_000_000, 7_568_640_000_000_007, 315_360_000_000_000_291),
        (24_000_000, i64::MAX as u64, 384_307_168_202_282_325_291),
        (19_200_000, 345_047_040_012_345, 17_971_200_000_642_968),
        (3_695_718_000, 1_165_481_628_480_000_007, 315_360_000_000_000_001),
    ];

    #[test]
    fn ticks_become_nanoseconds_exactly_over_the_whole_range() {
        for &(hz, ticks, nanos) in EXACT {
            assert_eq!(Frequency::new(hz).unwrap().nanos(Ticks(ticks)), nanos, "{ticks} at {hz}");
        }
    }

    #[test]
    fn nanoseconds_to_ticks_and_back_never_grow() {
        let mut state = 1u64;
        for _ in 0..100_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let frequency = Frequency::new((state >> 30) | 1).unwrap();
            let nanos = state.rotate_left(17) >> (state % 60);
            if let Some(ticks) = frequency.ticks(nanos) {
                assert!(frequency.nanos(ticks) <= u128::from(nanos));
            }
        }
    }

    #[test]
    fn more_ticks_are_never_fewer_nanoseconds() {
        let frequency = Frequency::new(2_596_132_173).unwrap();
        let mut last = 0;
        for ticks in (u64::MAX - 1_000_000)..u64::MAX {
            let nanos = frequency.nanos(Ticks(ticks));
            assert!(nanos >= last);
            last = nanos;
        }
    }

    #[test]
    fn a_frequency_of_zero_is_not_a_frequency() {
        assert_eq!(Frequency::new(0), None);
    }

    #[test]
    fn nonsense_claims_are_far_from_a_measurement() {
        let measured = Frequency::new(62_500_000).unwrap();
        for claim in [1, u64::from(u32::MAX), u64::MAX, 62_500_000 * 875] {
            assert!(Frequency::new(claim).unwrap().distance_ppm(measured) > 1_000, "{claim}");
        }
        assert_eq!(Frequency::new(62_500_050).unwrap().distance_ppm(measured), 0);
    }

    #[test]
    fn a_counter_that_went_back_has_no_distance() {
        assert_eq!(Ticks(0).since(Ticks(10)), None);
        assert_eq!(Ticks(0).since(Ticks(1 << 62)), None);
        assert_eq!(Ticks(0).since(Ticks(0)), Some(Ticks(0)));
    }

    #[test]
    fn a_time_before_the_epoch_is_negative_nanoseconds() {
        assert_eq!(Timespec { sec: -1, nsec: 999_999_999 }.nanos(), -1);
        assert_eq!(
            Timespec { sec: i64::MAX, nsec: 999_999_999 }.nanos(),
            9_223_372_036_854_775_807_999_999_999
        );
    }

    #[test]
    fn a_time_before_the_epoch_is_shown_as_far_from_it_as_it_is() {
        let shown = |sec, nsec| std::format!("{}", Timespec { sec, nsec });
        assert_eq!(shown(-1, 999_999_999), "-0.000000001");
        assert_eq!(shown(-2, 500_000_000), "-1.500000000");
        assert_eq!(shown(-1, 0), "-1.000000000");
        assert_eq!(shown(1, 5), "1.000000005");
        assert_eq!(shown(i64::MIN, 0), "-9223372036854775808.000000000");
    }
}
