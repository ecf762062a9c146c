//! The clock of this process: one static, shared by everything in this crate.
//!
//! Must never start a thread, run before it is asked, or keep anything that a fork would make wrong.

use clockwise_core::clock::Clock;
use clockwise_core::counter::{Counter, SharedHardware};
use clockwise_core::kernel::{ClockId, Errno, Kernel, SharedLinux, System};
use clockwise_core::trust::Unfit;
use clockwise_core::units::{Ticks, Timespec};
use std::sync::OnceLock;

/// The clock that [`Instant`](crate::Instant) and [`SystemTime`](crate::SystemTime) read.
pub(crate) static PROCESS: Clock<ProcessCounter, ProcessKernel> =
    Clock::new(ProcessCounter(()), ProcessKernel::HERE);

/// The processor's counter, as this process may use it.
#[derive(Clone, Copy, Debug)]
pub struct ProcessCounter(());

impl Counter for ProcessCounter {
    #[inline(always)]
    fn ticks(&self) -> Ticks {
        SharedHardware.ticks()
    }

    #[inline(always)]
    fn ticks_unordered(&self) -> Ticks {
        SharedHardware.ticks_unordered()
    }

    #[inline(always)]
    fn ticks_by(&self, form: u64) -> Ticks {
        SharedHardware.ticks_by(form)
    }

    fn form(&self) -> u64 {
        SharedHardware.form()
    }

    /// Asked at the first read of the process; children that it forks keep the verdict.
    fn fit(&self) -> Result<(), Unfit> {
        SharedHardware.fit()?;
        // Where the kernel cannot, a child overrules what it inherits after a second at most.
        let _ = PROCESS.wipe_on_fork();
        Ok(())
    }
}

/// The operating system's clocks: Linux's own where this crate can ask for them, the standard library's elsewhere.
#[derive(Clone, Copy, Debug)]
pub struct ProcessKernel(());

impl ProcessKernel {
    pub(crate) const HERE: Self = Self(());
}

impl Kernel for ProcessKernel {
    #[inline]
    fn now(&self, clock: ClockId) -> Result<Timespec, Errno> {
        if System::AVAILABLE { SharedLinux.now(clock) } else { standard(clock) }
    }
}

/// The two clocks that the standard library has. Its monotonic one tells differences only, so it counts from the
/// first read.
fn standard(clock: ClockId) -> Result<Timespec, Errno> {
    static START: OnceLock<std::time::Instant> = OnceLock::new();
    let (sign, time) = match clock {
        ClockId::MONOTONIC => {
            let now = std::time::Instant::now();
            (1, now.duration_since(*START.get_or_init(|| now)))
        }
        ClockId::REALTIME => {
            match std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH) {
                Ok(after) => (1, after),
                Err(before) => (-1, before.duration()),
            }
        }
        _ => return Err(Errno::INVAL),
    };
    let nanos = i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
    Ok(Timespec::from_nanos(sign * nanos))
}
