//! [`Scale`]: how long a tick lasts, so that ticks become nanoseconds by a multiplication.
//!
//! Pure arithmetic. Must never round up, and never use floating point: 2^53 nanoseconds are 104 days.

use crate::units::Ticks;

/// Nanoseconds per tick, with 32 binary places after the point: what reads multiply by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slope(pub u64);

impl Slope {
    /// How long `ticks` last, rounded down. Right while that is below 2^32 ns (4 s); whoever asks has bounded the
    /// ticks before.
    #[inline(always)]
    #[must_use]
    pub const fn nanos(self, ticks: Ticks) -> u64 {
        ticks.0.wrapping_mul(self.0) >> 32
    }

    /// The same slope with 64 places.
    #[must_use]
    pub const fn scale(self) -> Scale {
        Scale::from_bits((self.0 as u128) << 32)
    }
}

/// Nanoseconds per tick, with 64 binary places after the point.
///
/// One place is 5 x 10^-20 ns: over a day of a 3 GHz counter all of them together are off by less than 10^-4 ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Scale {
    /// Whole nanoseconds: 0 for a counter faster than 1 GHz.
    whole: u64,
    /// 2^-64 ns.
    fraction: u64,
}

impl Scale {
    /// The slowest counter that is told from a broken one: 1 MHz.
    pub const MAX: Self = Self { whole: 1_000, fraction: 0 };
    /// The fastest: 64 GHz.
    pub const MIN: Self = Self { whole: 0, fraction: 1 << 58 };

    /// The scale at which `ticks` last `nanos`, rounded down; `None` if that is not a counter's:
    /// slower than 1 MHz or faster than 64 GHz.
    ///
    /// ```
    /// use clockwise_core::{scale::Scale, units::Ticks};
    /// let arm = Scale::from_ratio(1_000_000_000, Ticks(24_000_000)).unwrap();
    /// assert_eq!(arm.nanos(Ticks(24)), 999); // 1000 less a rounding; 24 MHz has no exact scale
    /// ```
    #[must_use]
    pub const fn from_ratio(nanos: u64, ticks: Ticks) -> Option<Self> {
        if ticks.0 == 0 {
            return None;
        }
        let scale = Self::from_bits(((nanos as u128) << 64) / ticks.0 as u128);
        let bits = scale.bits();
        if bits < Self::MIN.bits() || bits > Self::MAX.bits() { None } else { Some(scale) }
    }

    pub(crate) const fn from_parts(whole: u64, fraction: u64) -> Self {
        Self { whole, fraction }
    }

    /// The scale of `bits` times 2^-64 ns a tick.
    #[must_use]
    pub const fn from_bits(bits: u128) -> Self {
        Self { whole: (bits >> 64) as u64, fraction: bits as u64 }
    }

    /// The scale in units of 2^-64 ns a tick.
    #[must_use]
    pub const fn bits(self) -> u128 {
        (self.whole as u128) << 64 | self.fraction as u128
    }

    /// The scale rounded down to 32 binary places: one multiplication and a shift turn up to 0.5 s of ticks into
    /// nanoseconds, less than a nanosecond short.
    pub(crate) const fn slope(self) -> Slope {
        let bits = self.bits() >> 32;
        Slope(if bits > u64::MAX as u128 { u64::MAX } else { bits as u64 })
    }

    pub(crate) const fn parts(self) -> (u64, u64) {
        (self.whole, self.fraction)
    }

    /// How long `ticks` last: exactly `floor(ticks * scale)` nanoseconds.
    ///
    /// Exact while that is below 2^64 ns (584 years); beyond, the result wraps, and whoever asks has
    /// bounded the ticks before.
    #[inline(always)]
    #[must_use]
    pub const fn nanos(self, ticks: Ticks) -> u64 {
        // `as` because `From` is not const. The whole part has no places after the point, so the floor of the sum
        // is the sum of the floors.
        let fraction = (ticks.0 as u128 * self.fraction as u128) >> 64;
        ticks.0.wrapping_mul(self.whole).wrapping_add(fraction as u64)
    }

    /// As [`nanos`](Self::nanos), but `u64::MAX` where that would wrap.
    #[must_use]
    pub const fn nanos_saturating(self, ticks: Ticks) -> u64 {
        let fraction = (ticks.0 as u128 * self.fraction as u128) >> 64;
        ticks.0.saturating_mul(self.whole).saturating_add(fraction as u64)
    }

    /// How many whole ticks `nanos` last: `floor(nanos / scale)`, saturating; 0 for a scale of 0.
    #[must_use]
    #[inline(never)]
    pub const fn ticks(self, nanos: u64) -> Ticks {
        let bits = self.bits();
        if bits == 0 {
            return Ticks(0);
        }
        let ticks = ((nanos as u128) << 64) / bits;
        Ticks(if ticks > u64::MAX as u128 { u64::MAX } else { ticks as u64 })
    }

    /// The share of `parts_per_million` of this scale.
    #[must_use]
    #[inline(never)]
    pub const fn share_ppm(self, parts_per_million: u64) -> Self {
        // At most 10^3 * 2^64 before: no overflow.
        Self::from_bits(self.bits() / 1_000_000 * parts_per_million as u128)
    }

    /// The sum; saturating.
    #[must_use]
    pub const fn plus(self, more: Self) -> Self {
        Self::from_bits(self.bits().saturating_add(more.bits()))
    }

    /// The difference; zero if `less` is more.
    #[must_use]
    pub const fn minus(self, less: Self) -> Self {
        Self::from_bits(self.bits().saturating_sub(less.bits()))
    }
}
