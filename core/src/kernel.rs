//! The second door: the kernel's clocks.
//!
//! [`Kernel`] is all that the code above knows of the kernel; [`Linux`] is the real one: through the
//! vDSO where it can be found, by the system call otherwise. [`Vdso`] and [`System`] are the two
//! ways taken alone, for those who compare them.
//!
//! Must never call libc (another library may have replaced its functions, ourselves included),
//! allocate, or keep state: an image that is looked up twice gives the same answer twice.
//!
//! # Safety
//!
//! Touches: the auxiliary vector (read by a system call), the vDSO's mapping (read as bytes, then
//! called), and the local variables that the kernel is told to fill. Relies on the kernel mapping
//! the vDSO whole and readable at the address that the auxiliary vector names and nobody unmapping
//! it (libc relies on the same), and on its functions having the signatures of `vdso(7)`.

#![expect(
    unsafe_code,
    reason = "system calls, and functions that the kernel maps into the process"
)]

use crate::arch;
use crate::elf::{self, ElfError, Image};
use crate::units::Timespec;
use core::fmt;
use core::mem::MaybeUninit;

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

fn checked(result: isize) -> Result<usize, Errno> {
    // The kernel gives errors as -1..=-4095.
    if (-4095..0).contains(&result) { Err(Errno((-result) as i32)) } else { Ok(result as usize) }
}

/// The kernel by real system calls.
///
/// `ENOSYS` for everything on processors for which this crate has no system call instruction.
#[derive(Clone, Copy, Debug)]
pub struct System;

impl System {
    /// Whether this crate can make system calls on this processor.
    pub const AVAILABLE: bool = arch::NR.is_some();

    /// `clock_gettime(2)`.
    ///
    /// # Errors
    /// The kernel's.
    #[inline]
    pub fn clock_gettime(&self, clock: ClockId) -> Result<Timespec, Errno> {
        match arch::NR {
            Some(nr) => fill(nr.clock_gettime, clock),
            None => Err(Errno::NOSYS),
        }
    }

    /// `clock_getres(2)`: the resolution that the kernel advertises.
    ///
    /// # Errors
    /// The kernel's.
    #[inline]
    pub fn clock_getres(&self, clock: ClockId) -> Result<Timespec, Errno> {
        match arch::NR {
            Some(nr) => fill(nr.clock_getres, clock),
            None => Err(Errno::NOSYS),
        }
    }

    /// `gettimeofday(2)` without a time zone. Microseconds, given as a [`Timespec`].
    ///
    /// # Errors
    /// The kernel's.
    #[inline]
    pub fn gettimeofday(&self) -> Result<Timespec, Errno> {
        let Some(nr) = arch::NR else { return Err(Errno::NOSYS) };
        let mut time = Timespec::default();
        // SAFETY: a timeval has the layout of a timespec; the kernel writes no more than one.
        let result =
            unsafe { arch::syscall(nr.gettimeofday, [&raw mut time as usize, 0, 0, 0, 0]) };
        checked(result).map(|_| from_micros(time))
    }

    /// `time(2)`: the second, as of the last tick.
    ///
    /// # Errors
    /// The kernel's; `ENOSYS` on processors whose table has no such call.
    #[inline]
    pub fn time(&self) -> Result<i64, Errno> {
        let Some(nr) = arch::NR.and_then(|nr| nr.time) else { return Err(Errno::NOSYS) };
        // SAFETY: with a null argument the call writes nothing.
        checked(unsafe { arch::syscall(nr, [0; 5]) }).map(|second| second as i64)
    }
}

#[inline(always)]
fn fill(number: usize, clock: ClockId) -> Result<Timespec, Errno> {
    let mut time = Timespec::default();
    // SAFETY: both calls that come here take a clock and fill one timespec.
    let result =
        unsafe { arch::syscall(number, [clock.0 as usize, &raw mut time as usize, 0, 0, 0]) };
    checked(result).map(|_| time)
}

#[inline(always)]
fn from_micros(time: Timespec) -> Timespec {
    Timespec { sec: time.sec, nsec: time.nsec * 1000 }
}

/// Whether this thread may not read the counter (`prctl(PR_GET_TSC)`).
///
/// `false` where the kernel knows no such switch.
pub(crate) fn counter_forbidden() -> bool {
    const PR_GET_TSC: usize = 25;
    const PR_TSC_SIGSEGV: i32 = 2;
    let Some(nr) = arch::NR else { return false };
    let mut state = 0i32;
    // SAFETY: PR_GET_TSC writes one int.
    let result = unsafe { arch::syscall(nr.prctl, [PR_GET_TSC, &raw mut state as usize, 0, 0, 0]) };
    result == 0 && state == PR_TSC_SIGSEGV
}

type Gettime = unsafe extern "C" fn(i32, *mut Timespec) -> i32;
type Gettimeofday = unsafe extern "C" fn(*mut Timespec, *mut u8) -> i32;
type Time = unsafe extern "C" fn(*mut i64) -> i64;

/// The functions that the kernel maps into every process.
///
/// They answer for the clocks they know from memory and the counter, and make the system call
/// themselves for the others. Faults where the counter is forbidden and the clocksource needs it.
#[derive(Clone, Copy, Debug)]
pub struct Vdso {
    clock_gettime: Option<Gettime>,
    clock_getres: Option<Gettime>,
    gettimeofday: Option<Gettimeofday>,
    time: Option<Time>,
}

/// No vDSO is near this size; a header that says more is not one.
const EXTENT_MAX: usize = 1 << 20;

/// Why there is no vDSO to call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoVdso {
    /// The names of its functions on this processor are not known to this crate.
    NotThisProcessor,
    /// The auxiliary vector could not be read.
    Unreadable(Errno),
    /// The kernel gave the process none (`vdso=0`, or a tracer took it away).
    NotMapped,
    /// It could not be understood.
    Malformed(ElfError),
}

impl fmt::Display for NoVdso {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotThisProcessor => {
                f.write_str("the vDSO of this processor is not known to Clockwise")
            }
            Self::Unreadable(errno) => write!(f, "/proc/self/auxv cannot be read ({errno})"),
            Self::NotMapped => f.write_str("the kernel mapped no vDSO into this process"),
            Self::Malformed(error) => write!(f, "the vDSO cannot be read: {error}"),
        }
    }
}

impl core::error::Error for NoVdso {}

impl Vdso {
    /// One without any function: every call is `ENOSYS`.
    pub const NONE: Self =
        Self { clock_gettime: None, clock_getres: None, gettimeofday: None, time: None };

    /// Finds the vDSO of this process through the auxiliary vector.
    ///
    /// A few system calls and a walk over some twenty symbols: tens of microseconds.
    ///
    /// # Errors
    /// [`NoVdso`].
    pub fn find() -> Result<Self, NoVdso> {
        let names = arch::VDSO.ok_or(NoVdso::NotThisProcessor)?;
        let base = sysinfo_ehdr()? as *const u8;
        // SAFETY: the kernel maps at least a page there, for the life of the process.
        let head = unsafe { core::slice::from_raw_parts(base, 4096) };
        let size = elf::extent(head).map_err(NoVdso::Malformed)?;
        if size > EXTENT_MAX {
            return Err(NoVdso::Malformed(ElfError::Truncated));
        }
        // SAFETY: the loadable segment of that size is mapped whole and never written.
        let bytes = unsafe { core::slice::from_raw_parts(base, size) };
        let image = Image::parse(bytes).map_err(NoVdso::Malformed)?;
        let address =
            |name| image.symbol(name, names.version).map(|offset| &raw const bytes[offset]);
        Ok(Self {
            // SAFETY: a function of that name has this signature by the vDSO's binary interface.
            clock_gettime: address(names.clock_gettime)
                .map(|at| unsafe { core::mem::transmute::<*const u8, Gettime>(at) }),
            // SAFETY: as above.
            clock_getres: address(names.clock_getres)
                .map(|at| unsafe { core::mem::transmute::<*const u8, Gettime>(at) }),
            // SAFETY: as above.
            gettimeofday: address(names.gettimeofday)
                .map(|at| unsafe { core::mem::transmute::<*const u8, Gettimeofday>(at) }),
            // SAFETY: as above.
            time: address(names.time)
                .map(|at| unsafe { core::mem::transmute::<*const u8, Time>(at) }),
        })
    }

    /// The vDSO's `clock_gettime`.
    ///
    /// # Errors
    /// The kernel's; `ENOSYS` if the vDSO has no such function.
    #[inline]
    pub fn clock_gettime(&self, clock: ClockId) -> Result<Timespec, Errno> {
        ask(self.clock_gettime, clock)
    }

    /// The vDSO's `clock_getres`.
    ///
    /// # Errors
    /// The kernel's; `ENOSYS` if the vDSO has no such function.
    #[inline]
    pub fn clock_getres(&self, clock: ClockId) -> Result<Timespec, Errno> {
        ask(self.clock_getres, clock)
    }

    /// The vDSO's `gettimeofday` without a time zone. Microseconds, given as a [`Timespec`].
    ///
    /// # Errors
    /// The kernel's; `ENOSYS` if the vDSO has no such function.
    #[inline]
    pub fn gettimeofday(&self) -> Result<Timespec, Errno> {
        let function = self.gettimeofday.ok_or(Errno::NOSYS)?;
        let mut time = Timespec::default();
        // SAFETY: it fills one timeval, which has the layout of a timespec; the zone may be null.
        let result = unsafe { function(&raw mut time, core::ptr::null_mut()) };
        checked(result as isize).map(|_| from_micros(time))
    }

    /// The vDSO's `time`: the second, as of the last tick.
    ///
    /// # Errors
    /// `ENOSYS` if the vDSO has no such function (as on aarch64).
    #[inline]
    pub fn time(&self) -> Result<i64, Errno> {
        let function = self.time.ok_or(Errno::NOSYS)?;
        // SAFETY: with a null argument it writes nothing.
        Ok(unsafe { function(core::ptr::null_mut()) })
    }
}

#[inline(always)]
fn ask(function: Option<Gettime>, clock: ClockId) -> Result<Timespec, Errno> {
    let function = function.ok_or(Errno::NOSYS)?;
    let mut time = MaybeUninit::uninit();
    // SAFETY: it fills one timespec; any clock number is allowed.
    let result = unsafe { function(clock.0, time.as_mut_ptr()) };
    checked(result as isize)?;
    // SAFETY: it did not fail, so it has filled the timespec.
    Ok(unsafe { time.assume_init() })
}

/// The address of the vDSO from the auxiliary vector: asked of the kernel where it can be (Linux
/// 6.4), else read from /proc.
fn sysinfo_ehdr() -> Result<usize, NoVdso> {
    const PR_GET_AUXV: usize = 0x4155_5856;
    const AT_FDCWD: usize = -100isize as usize;
    const O_CLOEXEC: usize = 0o2_000_000;
    let Some(nr) = arch::NR else { return Err(NoVdso::NotThisProcessor) };
    let mut words = [0usize; 128];
    let room = size_of_val(&words);
    // SAFETY: writes at most `room` bytes.
    let told =
        unsafe { arch::syscall(nr.prctl, [PR_GET_AUXV, words.as_mut_ptr() as usize, room, 0, 0]) };
    if told > 0 {
        return find_ehdr(&words);
    }
    let path = c"/proc/self/auxv".as_ptr() as usize;
    // SAFETY: the path is a C string.
    let opened = checked(unsafe { arch::syscall(nr.openat, [AT_FDCWD, path, O_CLOEXEC, 0, 0]) });
    let file = opened.map_err(NoVdso::Unreadable)?;
    // SAFETY: writes at most `room` bytes.
    let read = unsafe { arch::syscall(nr.read, [file, words.as_mut_ptr() as usize, room, 0, 0]) };
    // SAFETY: the descriptor was opened above and is used by nobody else.
    unsafe { arch::syscall(nr.close, [file, 0, 0, 0, 0]) };
    checked(read).map_err(NoVdso::Unreadable)?;
    find_ehdr(&words)
}

/// The vector is pairs of words, ended by a pair whose first word is zero.
fn find_ehdr(words: &[usize]) -> Result<usize, NoVdso> {
    const AT_SYSINFO_EHDR: usize = 33;
    let pairs = words.chunks_exact(2).take_while(|pair| pair[0] != 0);
    let mut values = pairs.filter(|pair| pair[0] == AT_SYSINFO_EHDR).map(|pair| pair[1]);
    values.next().filter(|&address| address != 0).ok_or(NoVdso::NotMapped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_without_the_entry_or_with_a_null_one_means_no_vdso() {
        assert_eq!(find_ehdr(&[6, 4096, 33, 0x7000, 0, 0]), Ok(0x7000));
        assert_eq!(find_ehdr(&[6, 4096, 0, 0, 33, 0x7000]), Err(NoVdso::NotMapped));
        assert_eq!(find_ehdr(&[33, 0, 0, 0]), Err(NoVdso::NotMapped));
        assert_eq!(find_ehdr(&[]), Err(NoVdso::NotMapped));
    }

    #[test]
    fn only_the_last_page_of_results_are_errors() {
        assert_eq!(checked(-22), Err(Errno::INVAL));
        assert_eq!(checked(-4095), Err(Errno(4095)));
        assert_eq!(checked(0), Ok(0));
        assert!(checked(-4096).is_ok());
    }
}
