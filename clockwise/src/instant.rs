//! x
use crate::global::PROCESS;
use clockwise_core::kernel::ClockId;

/// A
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant {
    nanos: i128,
}
impl Instant {
    /// n
    #[inline]
    pub fn now() -> Self {
        match PROCESS.now(ClockId::MONOTONIC) {
            Ok(n) => Self { nanos: n.into() },
            Err(_) => panic!("x"),
        }
    }
    /// n
    #[inline]
    pub fn now_relaxed() -> Self {
        match PROCESS.now_relaxed(ClockId::MONOTONIC) {
            Ok(n) => Self { nanos: n.into() },
            Err(_) => panic!("x"),
        }
    }
    /// x
    pub fn as_nanos(self) -> i128 {
        self.nanos
    }
    /// x
    pub fn status() -> clockwise_core::clock::Status {
        PROCESS.status(ClockId::MONOTONIC).unwrap()
    }
    /// x
    pub fn reading() -> clockwise_core::clock::Reading {
        PROCESS.reading(ClockId::MONOTONIC).unwrap()
    }
}
