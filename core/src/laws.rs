//! The laws that readings obey, as checkers: the simulation and the tests on real machines use the same ones.
//!
//! Each takes what was read and says what is wrong with it. Must never read a clock itself.

use core::fmt;

/// The law that was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    /// A clock that nobody can set never goes back in a thread.
    Monotonic,
    /// A thread that has seen a reading takes none that is smaller.
    Causal,
    /// A reading is at most its bound from the kernel's clock.
    Bounded,
    /// The distance from the kernel's clock does not grow with time.
    Steady,
}

/// A broken law.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub law: Law,
    /// By how many nanoseconds.
    pub by_ns: u64,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.law {
            Law::Monotonic => "went back in a thread",
            Law::Causal => "was older than a reading that had been seen",
            Law::Bounded => "was further from the kernel than its bound",
            Law::Steady => "drifted from the kernel",
        };
        write!(f, "the clock {what}, by {} ns", self.by_ns)
    }
}

impl core::error::Error for Violation {}

const fn at_least(law: Law, value: i64, least: i64) -> Result<(), Violation> {
    if value >= least {
        Ok(())
    } else {
        Err(Violation { law, by_ns: least.saturating_sub(value).unsigned_abs() })
    }
}

/// [`Law::Monotonic`], for the readings of one thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Monotonic {
    last: Option<i64>,
}

impl Monotonic {
    /// No reading yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { last: None }
    }

    /// The next reading of the thread, in nanoseconds.
    ///
    /// # Errors
    /// It is smaller than the last one.
    pub const fn see(&mut self, nanos: i64) -> Result<(), Violation> {
        let last = self.last.replace(nanos);
        match last {
            Some(last) => at_least(Law::Monotonic, nanos, last),
            None => Ok(()),
        }
    }
}

/// [`Law::Causal`]: `own` was read after `seen` had been seen.
///
/// # Errors
/// It is smaller.
pub const fn causal(seen: i64, own: i64) -> Result<(), Violation> {
    at_least(Law::Causal, own, seen)
}

/// [`Law::Bounded`]: the kernel said `before`, then `nanos` was read with its bound, then the kernel said `after`.
///
/// Proves a violation, never its absence: the true distance may be larger by the width of the bracket.
///
/// # Errors
/// The reading lies outside the bracket by more than its bound.
pub const fn bounded(before: i64, nanos: i64, error_ns: u64, after: i64) -> Result<(), Violation> {
    match at_least(Law::Bounded, nanos.saturating_add_unsigned(error_ns), before) {
        Ok(()) => at_least(Law::Bounded, after, nanos.saturating_sub_unsigned(error_ns)),
        Err(violation) => Err(violation),
    }
}

/// [`Law::Steady`]: brackets far apart in time.
#[derive(Clone, Copy, Debug)]
pub struct Steady {
    limit_ns: u64,
    first: Option<(i64, i64)>,
}

impl Steady {
    /// The distance may change by `limit_ns` in all, however long it takes.
    #[must_use]
    pub const fn new(limit_ns: u64) -> Self {
        Self { limit_ns, first: None }
    }

    /// The kernel said `before`, then `nanos` was read, then the kernel said `after`.
    ///
    /// # Errors
    /// The distance has changed since the first bracket by more than the limit, whatever the brackets leave open.
    pub const fn see(&mut self, before: i64, nanos: i64, after: i64) -> Result<(), Violation> {
        let (low, high) = (nanos.saturating_sub(after), nanos.saturating_sub(before));
        let Some((first_low, first_high)) = self.first else {
            self.first = Some((low, high));
            return Ok(());
        };
        let limit = first_high.saturating_add_unsigned(self.limit_ns);
        match at_least(Law::Steady, limit, low) {
            Ok(()) => at_least(Law::Steady, high, first_low.saturating_sub_unsigned(self.limit_ns)),
            Err(violation) => Err(violation),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_readings_are_no_step_back_and_smaller_ones_are() {
        let mut law = Monotonic::new();
        assert_eq!(law.see(5), Ok(()));
        assert_eq!(law.see(5), Ok(()));
        assert_eq!(law.see(2), Err(Violation { law: Law::Monotonic, by_ns: 3 }));
        assert_eq!(law.see(3), Ok(()), "judged against the reading before it");
        assert_eq!(causal(7, 7), Ok(()));
        assert_eq!(causal(7, 6), Err(Violation { law: Law::Causal, by_ns: 1 }));
    }

    #[test]
    fn a_reading_may_leave_the_bracket_by_its_bound() {
        assert_eq!(bounded(100, 98, 2, 110), Ok(()));
        assert_eq!(bounded(100, 112, 2, 110), Ok(()));
        assert_eq!(bounded(100, 97, 2, 110).unwrap_err().by_ns, 1);
        assert_eq!(bounded(100, 115, 2, 110).unwrap_err().by_ns, 3);
        assert!(bounded(i64::MAX, i64::MIN, u64::MAX, i64::MIN).is_ok());
    }

    #[test]
    fn a_constant_distance_is_steady_and_a_growing_one_is_not() {
        let mut law = Steady::new(10);
        for second in 0..100 {
            let kernel = second * 1_000_000_000;
            assert_eq!(law.see(kernel, kernel + 40, kernel + 50), Ok(()), "{second}");
        }
        let mut law = Steady::new(10);
        let drifting = |law: &mut Steady, second: i64| {
            law.see(second * 1_000, second * 1_001, second * 1_000 + 5)
        };
        assert_eq!(drifting(&mut law, 0), Ok(()));
        assert_eq!(drifting(&mut law, 15), Ok(()));
        assert_eq!(drifting(&mut law, 30).unwrap_err().by_ns, 15);
    }
}
