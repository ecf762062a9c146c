//! The second door: the kernel's clocks.
//!
//! [`Kernel`] is all that the code above knows of the kernel; [`Linux`] is the real one: through the
//! vDSO where it can be found, by the system call otherwise; [`SharedLinux`] the same, found at its first use.
//! [`Vdso`] and [`System`] are the two ways taken alone, for those who compare them.
//!
//! Must never call libc (another library may have replaced its functions, ourselves included) or allocate.

pub mod pass;
mod system;
mod vdso;

use crate::units::Timespec;
use core::fmt;
pub use system::{
    System, UtcError, copy_own, each_executable_mapping, is_filtered, map_shared, sharpen_timers,
    thread_number, utc_error, who,
};
pub(crate) use system::{counter_forbidden, read_file, wipe_on_fork};
pub use vdso::{NoVdso, Vdso};

/// An error number of the kernel, positive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

impl Errno {
    /// Operation not permitted.
    pub const PERM: Self = Self(1);
    /// Invalid argument: the kernel does not know the clock.
    pub const INVAL: Self = Self(22);
    /// No such function.
    pub const NOSYS: Self = Self(38);

    /// The symbolic name, for the numbers that clock calls and sandboxes give.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        Some(match self.0 {
            1 => "EPERM",
            2 => "ENOENT",
            3 => "ESRCH",
            9 => "EBADF",
            11 => "EAGAIN",
            12 => "ENOMEM",
            13 => "EACCES",
            14 => "EFAULT",
            19 => "ENODEV",
            22 => "EINVAL",
            24 => "EMFILE",
            38 => "ENOSYS",
            95 => "EOPNOTSUPP",
            _ => return None,
        })
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "errno {}", self.0),
        }
    }
}

impl core::error::Error for Errno {}

/// A clock of the kernel, by the number that `clock_gettime` takes.
///
/// What each one counts is stated in `clock_gettime(2)` and `Documentation/core-api/timekeeping.rst`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClockId(pub i32);

impl ClockId {
    /// Wall time since the Unix epoch; steps when it is set.
    pub const REALTIME: Self = Self(0);
    /// Time since boot without suspend; its rate is steered, it never steps.
    pub const MONOTONIC: Self = Self(1);
    /// CPU time of all threads of the process.
    pub const PROCESS_CPUTIME: Self = Self(2);
    /// CPU time of the calling thread.
    pub const THREAD_CPUTIME: Self = Self(3);
    /// As MONOTONIC, at the clocksource's own rate: not steered.
    pub const MONOTONIC_RAW: Self = Self(4);
    /// REALTIME as of the last tick.
    pub const REALTIME_COARSE: Self = Self(5);
    /// MONOTONIC as of the last tick.
    pub const MONOTONIC_COARSE: Self = Self(6);
    /// MONOTONIC plus the time spent suspended.
    pub const BOOTTIME: Self = Self(7);
    /// REALTIME, for timers that wake the machine; needs a real-time clock with an alarm.
    pub const REALTIME_ALARM: Self = Self(8);
    /// BOOTTIME, for timers that wake the machine; needs a real-time clock with an alarm.
    pub const BOOTTIME_ALARM: Self = Self(9);
    /// International Atomic Time: REALTIME without leap seconds, once someone has told the kernel
    /// the difference.
    pub const TAI: Self = Self(11);

    /// The `index`-th auxiliary clock (0..8), Linux 6.17 and later: steered on its own by PTP.
    #[must_use]
    pub const fn aux(index: u8) -> Self {
        Self(16 + index as i32)
    }

    /// Every clock that Linux names, the obsolete SGI cycle counter (10) excepted.
    pub const ALL: [Self; 19] = [
        Self::REALTIME,
        Self::MONOTONIC,
        Self::PROCESS_CPUTIME,
        Self::THREAD_CPUTIME,
        Self::MONOTONIC_RAW,
        Self::REALTIME_COARSE,
        Self::MONOTONIC_COARSE,
        Self::BOOTTIME,
        Self::REALTIME_ALARM,
        Self::BOOTTIME_ALARM,
        Self::TAI,
        Self::aux(0),
        Self::aux(1),
        Self::aux(2),
        Self::aux(3),
        Self::aux(4),
        Self::aux(5),
        Self::aux(6),
        Self::aux(7),
    ];

    /// The name in C without `CLOCK_`; `None` for a number that Linux does not name.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        Some(match self.0 {
            0 => "REALTIME",
            1 => "MONOTONIC",
            2 => "PROCESS_CPUTIME_ID",
            3 => "THREAD_CPUTIME_ID",
            4 => "MONOTONIC_RAW",
            5 => "REALTIME_COARSE",
            6 => "MONOTONIC_COARSE",
            7 => "BOOTTIME",
            8 => "REALTIME_ALARM",
            9 => "BOOTTIME_ALARM",
            11 => "TAI",
            16 => "AUX0",
            17 => "AUX1",
            18 => "AUX2",
            19 => "AUX3",
            20 => "AUX4",
            21 => "AUX5",
            22 => "AUX6",
            23 => "AUX7",
            _ => return None,
        })
    }
}

/// Reference time.
pub trait Kernel {
    /// What `clock` says now.
    ///
    /// # Errors
    /// The kernel's [`Errno`]: `EINVAL` for a clock it does not have, `EPERM` from a sandbox, ...
    fn now(&self, clock: ClockId) -> Result<Timespec, Errno>;
}

/// The kernel of this machine: through the vDSO, and by the system call where the vDSO has no answer.
#[derive(Clone, Copy, Debug)]
pub struct Linux {
    vdso: Option<Vdso>,
}

impl Linux {
    /// Looks for the vDSO; a process without one is a normal state, then every read is a system
    /// call.
    #[must_use]
    pub fn find() -> Self {
        Self { vdso: Vdso::find().ok() }
    }

    /// Asks by system call alone, as where the counter behind the vDSO is forbidden.
    #[must_use]
    pub const fn system_calls_only() -> Self {
        Self { vdso: None }
    }
}

impl Kernel for Linux {
    #[inline]
    fn now(&self, clock: ClockId) -> Result<Timespec, Errno> {
        match &self.vdso {
            Some(vdso) if vdso.clock_gettime.is_some() => vdso.clock_gettime(clock),
            _ => System.clock_gettime(clock),
        }
    }
}

/// [`Linux`] for clocks in static memory: the vDSO is looked for at the first read, and its address is kept for the
/// life of the process (a fork changes nothing about it).
///
/// Threads that come at once each look, and all find the same. Where the counter is forbidden (in the thread that
/// looks) it is system calls for all.
#[derive(Clone, Copy, Debug, Default)]
pub struct SharedLinux;

impl SharedLinux {
    /// Looks for the vDSO now, so that no read has to: for whoever may be forbidden to make system calls later. Reads no
    /// clock.
    pub fn find() {
        vdso::look();
    }
}

/// The counter is forbidden: [`SharedLinux`] asks by system calls, whatever was found before a fork.
pub(crate) fn leave_shared_vdso() {
    vdso::leave_shared();
}

impl Kernel for SharedLinux {
    #[inline]
    fn now(&self, clock: ClockId) -> Result<Timespec, Errno> {
        vdso::shared_clock_gettime(clock).unwrap_or_else(|| System.clock_gettime(clock))
    }
}
