//! C's calls handed on as they are: to the vDSO, else to the kernel itself.
//!
//! What these do with a clock number, a null or a bad pointer is what the kernel does. Must never look at what is passed
//! but to choose the way, nor touch it.
//!
//! # Safety
//!
//! Each function passes its caller's pointers on: as for the system call of its name.

#![expect(unsafe_code, reason = "pointers of C programs, handed on")]

use super::ClockId;
use super::vdso::{
    known_coarse, known_time, shared_coarse, shared_getres, shared_gettime, shared_gettimeofday,
    shared_time,
};
use crate::arch::{self, Numbers};
use crate::units::Timespec;

const NOSYS: isize = -38;

/// The system call itself; `-ENOSYS` where this crate cannot make it on this processor.
///
/// # Safety
/// As for that system call.
unsafe fn call(number: impl FnOnce(&Numbers) -> Option<usize>, arguments: [usize; 6]) -> isize {
    match arch::NR.as_ref().and_then(number) {
        // SAFETY: the caller vouches for it.
        Some(number) => unsafe { arch::syscall(number, arguments) },
        None => NOSYS,
    }
}

/// The vDSO's `clock_gettime` for the coarse clocks, if it was found: they are 5 ns, of which a fifth would be lost by
/// looking at a result that cannot be an error.
#[inline(always)]
pub fn coarse() -> Option<unsafe extern "C" fn(i32, *mut Timespec) -> i32> {
    known_coarse()
}

/// Whether [`coarse`] is for it.
#[inline(always)]
#[must_use]
pub const fn is_coarse(clock: i32) -> bool {
    matches!(ClockId(clock), ClockId::REALTIME_COARSE | ClockId::MONOTONIC_COARSE)
}

/// `clock_gettime`: 0, or the error negative.
///
/// # Safety
/// As for the system call: `time` may be written to.
#[inline(always)]
pub unsafe fn clock_gettime(clock: i32, time: *mut Timespec) -> i32 {
    match if is_coarse(clock) { shared_coarse() } else { shared_gettime() } {
        // SAFETY: the caller vouches for the pointer.
        Some(function) => unsafe { function(clock, time) },
        // SAFETY: as above.
        None => unsafe {
            call(|nr| Some(nr.clock_gettime), [clock as usize, time as usize, 0, 0, 0, 0]) as i32
        },
    }
}

/// `clock_getres`: 0, or the error negative; through the vDSO or not, which know different clocks (Linux 6.18: the vDSO
/// answers for auxiliary clocks that there are none of).
///
/// # Safety
/// As for the system call: `resolution` is null or may be written to.
#[inline(always)]
pub unsafe fn clock_getres(clock: i32, resolution: *mut Timespec, through_vdso: bool) -> i32 {
    match if through_vdso { shared_getres() } else { None } {
        // SAFETY: the caller vouches for the pointer.
        Some(function) => unsafe { function(clock, resolution) },
        // SAFETY: as above.
        None => unsafe {
            call(|nr| Some(nr.clock_getres), [clock as usize, resolution as usize, 0, 0, 0, 0])
                as i32
        },
    }
}

/// `gettimeofday` for the kernel's time zone alone: 0, or the error negative. Reads no clock.
///
/// # Safety
/// `zone` may be written to: two ints.
#[cold]
pub unsafe fn time_zone(zone: *mut [i32; 2]) -> i32 {
    match shared_gettimeofday() {
        // SAFETY: the caller vouches for the pointer; no time is asked for.
        Some(function) => unsafe { function(core::ptr::null_mut(), zone.cast()) },
        // SAFETY: as above.
        None => unsafe { call(|nr| Some(nr.gettimeofday), [0, zone as usize, 0, 0, 0, 0]) as i32 },
    }
}

/// `gettimeofday`: 0, or the error negative.
///
/// # Safety
/// As for the system call: both are null or may be written to.
pub unsafe fn gettimeofday(time: *mut [i64; 2], zone: *mut [i32; 2]) -> i32 {
    match shared_gettimeofday() {
        // SAFETY: the caller vouches for the pointers.
        Some(function) => unsafe { function(time.cast(), zone.cast()) },
        // SAFETY: as above.
        None => unsafe {
            call(|nr| Some(nr.gettimeofday), [time as usize, zone as usize, 0, 0, 0, 0]) as i32
        },
    }
}

/// The vDSO's `time`, if it was found: 3 ns, to whose result nothing needs to be done.
#[inline(always)]
pub fn found_time() -> Option<unsafe extern "C" fn(*mut i64) -> i64> {
    known_time()
}

/// `time`: the second as of the last tick, or the error negative. Where neither the vDSO nor the kernel has such a
/// function (aarch64) it is the coarse clock's.
///
/// # Safety
/// `second` is null or may be written to.
#[inline(always)]
pub unsafe fn time(second: *mut i64) -> i64 {
    match shared_time() {
        // SAFETY: the caller vouches for the pointer.
        Some(function) => unsafe { function(second) },
        // SAFETY: as above.
        None => unsafe { time_without(second) },
    }
}

/// # Safety
/// As for [`time`].
#[cold]
unsafe fn time_without(second: *mut i64) -> i64 {
    // SAFETY: the caller vouches for the pointer.
    let told = unsafe { call(|nr| nr.time, [second as usize, 0, 0, 0, 0, 0]) };
    if told != NOSYS {
        return told as i64;
    }
    let mut time = Timespec::default();
    // SAFETY: a local variable of the type.
    let result = unsafe { clock_gettime(ClockId::REALTIME_COARSE.0, &raw mut time) };
    if result != 0 {
        return i64::from(result);
    }
    if !second.is_null() {
        // SAFETY: the caller vouches for a pointer that is not null.
        unsafe { second.write(time.sec) };
    }
    time.sec
}

/// `prctl`: its result, or the error negative.
///
/// # Safety
/// As for the system call.
pub unsafe fn prctl(arguments: [usize; 6]) -> isize {
    // SAFETY: the caller vouches for it.
    unsafe { call(|nr| Some(nr.prctl), arguments) }
}
