//! The kernel's coarse clocks: as of the last timer interrupt that it has processed (usually 1 to 10 ms ago, more where
//! one comes late, as on a busy guest), read without the counter.
//!
//! They stay with the kernel: its vDSO answers in less than any read of the counter takes. On targets without
//! system calls of our own they are the fine clocks.

use crate::clock::unanswered;
use crate::global::ProcessKernel;
use crate::{Instant, SystemTime};
use clockwise_core::kernel::{ClockId, Kernel, System};

/// `CLOCK_MONOTONIC_COARSE`: at most a tick behind the kernel's fine clock, never ahead of it, never going back.
///
/// ```
/// use clockwise::{Instant, coarse};
/// let coarse = coarse::monotonic();
/// assert!(coarse <= Instant::now_with_bound().latest());
/// ```
///
/// # Panics
/// As [`Instant::now`].
#[must_use]
pub fn monotonic() -> Instant {
    Instant::from_nanos(read(ClockId::MONOTONIC_COARSE, ClockId::MONOTONIC))
}

/// `CLOCK_REALTIME_COARSE`, which goes back where the wall clock is set back: at most a tick behind the wall clock. File times of many file systems are taken from it.
///
/// # Panics
/// As [`SystemTime::now`].
#[must_use]
pub fn realtime() -> SystemTime {
    SystemTime::from_nanos(read(ClockId::REALTIME_COARSE, ClockId::REALTIME))
}

fn read(coarse: ClockId, fine: ClockId) -> i64 {
    let clock = if System::AVAILABLE { coarse } else { fine };
    match ProcessKernel::HERE.now(clock) {
        Ok(time) => time.nanos_i64(),
        Err(errno) => unanswered(clock, errno),
    }
}
