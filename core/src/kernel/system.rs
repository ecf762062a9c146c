//! System calls: the kernel's clocks without the vDSO, and the few facts that trust rests on.
//!
//! # Safety
//!
//! Touches the local variables that the kernel is told to fill, and, to have it wiped on fork, a page of its
//! caller's. Relies on the layouts of `timespec`, `timeval` and `timex` on 64-bit Linux.

#![expect(unsafe_code, reason = "system calls")]

use super::{ClockId, Errno};
use crate::arch;
use crate::maps::{Mapping, Maps};
use crate::units::Timespec;
use core::ffi::CStr;

pub(super) fn checked(result: isize) -> Result<usize, Errno> {
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
            unsafe { arch::syscall(nr.gettimeofday, [&raw mut time as usize, 0, 0, 0, 0, 0]) };
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
        checked(unsafe { arch::syscall(nr, [0; 6]) }).map(|second| second as i64)
    }
}

#[inline(always)]
fn fill(number: usize, clock: ClockId) -> Result<Timespec, Errno> {
    let mut time = Timespec::default();
    // SAFETY: both calls that come here take a clock and fill one timespec.
    let result =
        unsafe { arch::syscall(number, [clock.0 as usize, &raw mut time as usize, 0, 0, 0, 0]) };
    checked(result).map(|_| time)
}

#[inline(always)]
pub(super) fn from_micros(time: Timespec) -> Timespec {
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
    let result =
        unsafe { arch::syscall(nr.prctl, [PR_GET_TSC, &raw mut state as usize, 0, 0, 0, 0]) };
    result == 0 && state == PR_TSC_SIGSEGV
}

const AT_FDCWD: usize = -100isize as usize;
const O_CLOEXEC: usize = 0o2_000_000;

/// What the file says, as far as `room` reaches: three system calls.
pub(crate) fn read_file<'a>(path: &CStr, room: &'a mut [u8]) -> Result<&'a [u8], Errno> {
    read(path, room, |_| true)
}

/// The same for a file that the kernel itself makes up; empty where it does not: a file of that name in a chroot, on a
/// disk, may say anything.
pub(super) fn read_proc_file<'a>(path: &CStr, room: &'a mut [u8]) -> Result<&'a [u8], Errno> {
    const PROC_SUPER_MAGIC: usize = 0x9fa0;
    let is_made_up = |file: usize| {
        // A `struct statfs` of 120 bytes, of which the first word is the kind of file system.
        let mut statfs = [0usize; 32];
        let at = statfs.as_mut_ptr() as usize;
        let Some(nr) = arch::NR else { return false };
        // SAFETY: writes one statfs.
        let result = unsafe { arch::syscall(nr.fstatfs, [file, at, 0, 0, 0, 0]) };
        result == 0 && statfs[0] == PROC_SUPER_MAGIC
    };
    read(path, room, is_made_up)
}

/// The executable mappings of this process; whether it could be asked. As many system calls as it takes to read a file
/// in pieces of a kilobyte.
pub fn each_executable_mapping(mut tell: impl FnMut(Mapping<'_>)) -> bool {
    let Some(nr) = arch::NR else { return false };
    let path = c"/proc/self/maps".as_ptr() as usize;
    // SAFETY: the path is a C string.
    let opened = unsafe { arch::syscall(nr.openat, [AT_FDCWD, path, O_CLOEXEC, 0, 0, 0]) };
    let Ok(file) = checked(opened) else { return false };
    let mut maps = Maps::<1024>::default();
    loop {
        let room = maps.room();
        let (at, length) = (room.as_mut_ptr() as usize, room.len());
        // SAFETY: writes at most `length` bytes.
        match checked(unsafe { arch::syscall(nr.read, [file, at, length, 0, 0, 0]) }) {
            Ok(bytes) if bytes > 0 => maps.put(bytes, &mut tell),
            _ => break,
        }
    }
    // SAFETY: the descriptor was opened above and is used by nobody else.
    unsafe { arch::syscall(nr.close, [file, 0, 0, 0, 0, 0]) };
    true
}

/// Copies words of this process, whose number it is, from an address that may be no one's: how many of them could be
/// read. The kernel looks, so that nothing faults; 0 where it may not be asked.
pub fn copy_own(process: u64, address: u64, words: &mut [u64]) -> usize {
    const PAGE: usize = 4096;
    let Some(nr) = arch::NR else { return 0 };
    let (from, bytes) = (address as usize, size_of_val(words));
    // In two pieces, since one is copied as a whole or not at all.
    let first = bytes.min(PAGE - from % PAGE);
    let remote = [[from, first], [from.wrapping_add(first), bytes - first]];
    let local = [words.as_mut_ptr() as usize, bytes];
    let arguments =
        [process as usize, &raw const local as usize, 1, &raw const remote as usize, 2, 0];
    // SAFETY: writes at most so many bytes to `words`, and reads the two lists.
    let copied = checked(unsafe { arch::syscall(nr.process_vm_readv, arguments) });
    copied.unwrap_or(0) / 8
}

/// The number of this thread; 0 where that cannot be asked.
#[must_use]
pub fn thread_number() -> u64 {
    let Some(nr) = arch::NR else { return 0 };
    // SAFETY: touches no memory.
    checked(unsafe { arch::syscall(nr.gettid, [0; 6]) }).unwrap_or(0) as u64
}

/// Whether system calls of this thread are filtered (seccomp).
#[must_use]
pub fn is_filtered() -> bool {
    const PR_GET_SECCOMP: usize = 21;
    let Some(nr) = arch::NR else { return true };
    // SAFETY: touches no memory. A kernel without seccomp refuses, and filters nothing.
    unsafe { arch::syscall(nr.prctl, [PR_GET_SECCOMP, 0, 0, 0, 0, 0]) > 0 }
}

fn read<'a>(
    path: &CStr,
    room: &'a mut [u8],
    is_right: impl FnOnce(usize) -> bool,
) -> Result<&'a [u8], Errno> {
    let Some(nr) = arch::NR else { return Err(Errno::NOSYS) };
    let path = path.as_ptr() as usize;
    // SAFETY: the path is a C string.
    let opened = checked(unsafe { arch::syscall(nr.openat, [AT_FDCWD, path, O_CLOEXEC, 0, 0, 0]) });
    let file = opened?;
    let read = if is_right(file) {
        let (at, length) = (room.as_mut_ptr() as usize, room.len());
        // SAFETY: writes at most `length` bytes.
        checked(unsafe { arch::syscall(nr.read, [file, at, length, 0, 0, 0]) })
    } else {
        Ok(0)
    };
    // SAFETY: the descriptor was opened above and is used by nobody else.
    unsafe { arch::syscall(nr.close, [file, 0, 0, 0, 0, 0]) };
    let read = read?;
    // No more than there is room for.
    Ok(room.get(..read).unwrap_or_default())
}

/// Lets children of `fork` find zeros where `state` is, instead of a copy (Linux 4.14).
///
/// `T` is made of atomics, for which zeros are a value; it fills whole pages of its own.
pub(crate) fn wipe_on_fork<T>(state: &'static T) -> Result<(), Errno> {
    const MADV_WIPEONFORK: usize = 18;
    const PAGE_MAX: usize = 0x1_0000;
    let Some(nr) = arch::NR else { return Err(Errno::NOSYS) };
    let (start, length) = (&raw const *state as usize, size_of::<T>());
    debug_assert!(start % 4096 == 0 && length % 4096 == 0 && length <= PAGE_MAX);
    // The kernel rounds the length up to its own pages: where those are larger (16 or 64 KiB on some aarch64) a child
    // would lose its neighbours' memory too. An odd multiple of 4096 is no page's start there, and that it refuses.
    // SAFETY: a length of zero changes nothing.
    checked(unsafe { arch::syscall(nr.madvise, [start | 4096, 0, MADV_WIPEONFORK, 0, 0, 0]) })?;
    // SAFETY: changes nothing in this process. The kernel refuses what is not private memory.
    checked(unsafe { arch::syscall(nr.madvise, [start, length, MADV_WIPEONFORK, 0, 0, 0]) })
        .map(|_| ())
}

/// Maps the file of that path and size for all who map it, readable and writable; `None` if that fails. It stays mapped.
///
/// Its bytes may change at any time: what is made of them must consist of atomics.
#[must_use]
pub fn map_shared(path: &CStr, size: usize) -> Option<*const u8> {
    const O_RDWR: usize = 2;
    const PROT_READ_WRITE: usize = 3;
    const MAP_SHARED: usize = 1;
    let nr = arch::NR?;
    let flags = O_RDWR | O_CLOEXEC;
    // SAFETY: the path is a C string.
    let opened =
        unsafe { arch::syscall(nr.openat, [AT_FDCWD, path.as_ptr() as usize, flags, 0, 0, 0]) };
    let file = checked(opened).ok()?;
    // SAFETY: a new mapping, where there is room.
    let mapped = unsafe { arch::syscall(nr.mmap, [0, size, PROT_READ_WRITE, MAP_SHARED, file, 0]) };
    // SAFETY: the descriptor was opened above and is used by nobody else.
    unsafe { arch::syscall(nr.close, [file, 0, 0, 0, 0, 0]) };
    checked(mapped).ok().map(|address| address as *const u8)
}

/// The number of this process and the name of this thread, ended by zeros.
#[must_use]
pub fn who() -> (u64, [u8; 16]) {
    const PR_GET_NAME: usize = 16;
    let mut name = [0; 16];
    let Some(nr) = arch::NR else { return (0, name) };
    // SAFETY: writes 16 bytes at most.
    unsafe { arch::syscall(nr.prctl, [PR_GET_NAME, name.as_mut_ptr() as usize, 0, 0, 0, 0]) };
    // SAFETY: touches no memory.
    let process = checked(unsafe { arch::syscall(nr.getpid, [0; 6]) });
    (process.unwrap_or(0) as u64, name)
}

/// Lets the timers of this thread end when they are due, and not up to 50 us later (`PR_SET_TIMERSLACK`).
pub fn sharpen_timers() {
    const PR_SET_TIMERSLACK: usize = 29;
    if let Some(nr) = arch::NR {
        // SAFETY: sets a property of this thread. Where it is refused, the timers stay as they are.
        unsafe { arch::syscall(nr.prctl, [PR_SET_TIMERSLACK, 1, 0, 0, 0, 0]) };
    }
}

/// How far the kernel's wall clock may be from UTC, by what its time daemon told it (`adjtimex(2)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UtcError {
    /// Nanoseconds either way.
    pub error_ns: u64,
}

/// Asks the kernel how far its wall clock may be from UTC; `None` where it does not know (nobody disciplines it), or
/// may not be asked. A system call.
#[must_use]
pub fn utc_error() -> Option<UtcError> {
    const STA_UNSYNC: i64 = 0x40;
    const TIME_ERROR: usize = 5;
    const MAX_ERROR_AT: usize = 3;
    const STATUS_AT: usize = 5;
    let nr = arch::NR?;
    // A `struct timex` of 208 bytes; no mode bits, so nothing is set.
    let mut timex = [0i64; 26];
    let at = timex.as_mut_ptr() as usize;
    // SAFETY: writes one timex.
    let state = checked(unsafe { arch::syscall(nr.adjtimex, [at, 0, 0, 0, 0, 0]) }).ok()?;
    let status = i64::from(timex[STATUS_AT] as i32);
    if state == TIME_ERROR || status & STA_UNSYNC != 0 {
        return None;
    }
    let micros = u64::try_from(timex[MAX_ERROR_AT]).ok()?;
    Some(UtcError { error_ns: micros.saturating_mul(1_000) })
}
