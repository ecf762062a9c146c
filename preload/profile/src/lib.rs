//! The counting image: C's clock functions, counted by who called them and answered by the kernel, for `clockwise
//! profile`.
//!
//! Programs get what they would get without it: the answer is the vDSO's, else the system call's. Each exported function
//! is a few instructions that take down who called, before anything is pushed; then `count.rs` counts and core hands the
//! call on. Runs in other people's processes, as the image does, and owes what it owes.
//!
//! Must never allocate, lock, wait, panic, use thread-local data, call any function of libc that is not listed in
//! `symbols.txt`, touch errno on success, start a thread, or follow a pointer that it was not given for that.
//!
//! # Safety
//!
//! The exported functions are C's: a pointer may be written to, or is null where C allows it. They are declared safe,
//! since no Rust code calls them.

#![no_std]

mod arch;
mod count;
#[path = "../../src/libc.rs"]
mod libc;
mod process;
mod stack;

use arch::with_caller;
use clockwise_core::kernel::{ClockId, Errno, pass};
use clockwise_core::sites::Call;
use clockwise_core::units::Timespec;
use count::count;

/// What C's functions give where they fail.
const FAILED: i32 = -1;

#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    // Never reached: an image that can panic imports `abort`, which symbols.txt does not list.
    libc::abort()
}

/// The result of a C function: 0, or -1 and errno.
#[inline(always)]
fn result(negative: i32) -> i32 {
    if negative >= 0 { negative } else { failed(Errno(-negative)) }
}

#[cold]
#[inline(never)]
fn failed(errno: Errno) -> i32 {
    libc::set_errno(errno.0);
    FAILED
}

/// `clock_gettime(3)`.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub extern "C" fn clock_gettime(clock: i32, time: *mut Timespec) -> i32 {
    with_caller!(2, counted_clock_gettime)
}

/// glibc's own name for `clock_gettime`.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub extern "C" fn __clock_gettime(clock: i32, time: *mut Timespec) -> i32 {
    with_caller!(2, counted_clock_gettime)
}

extern "C" fn counted_clock_gettime(
    clock: i32,
    time: *mut Timespec,
    address: u64,
    frame: u64,
) -> i32 {
    count(Call::ClockGettime(clock), address, frame);
    // SAFETY: the caller's, as C demands.
    result(unsafe { pass::clock_gettime(clock, time) })
}

/// `clock_getres(3)`, by the way that libc takes: glibc's is the vDSO, musl's is not.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub extern "C" fn clock_getres(clock: i32, resolution: *mut Timespec) -> i32 {
    with_caller!(2, counted_clock_getres)
}

extern "C" fn counted_clock_getres(
    clock: i32,
    resolution: *mut Timespec,
    address: u64,
    frame: u64,
) -> i32 {
    count(Call::ClockGetres(clock), address, frame);
    // SAFETY: the caller's, as C demands.
    result(unsafe { pass::clock_getres(clock, resolution, libc::is_glibc()) })
}

/// `gettimeofday(2)`.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub extern "C" fn gettimeofday(time: *mut [i64; 2], zone: *mut [i32; 2]) -> i32 {
    with_caller!(2, counted_gettimeofday)
}

/// glibc's own name for `gettimeofday`.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub extern "C" fn __gettimeofday(time: *mut [i64; 2], zone: *mut [i32; 2]) -> i32 {
    with_caller!(2, counted_gettimeofday)
}

extern "C" fn counted_gettimeofday(
    time: *mut [i64; 2],
    zone: *mut [i32; 2],
    address: u64,
    frame: u64,
) -> i32 {
    count(Call::Gettimeofday, address, frame);
    // SAFETY: the caller's, as C demands.
    result(unsafe { pass::gettimeofday(time, zone) })
}

/// `time(2)`.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub extern "C" fn time(second: *mut i64) -> i64 {
    with_caller!(1, counted_time)
}

extern "C" fn counted_time(second: *mut i64, address: u64, frame: u64) -> i64 {
    count(Call::Time, address, frame);
    // SAFETY: null, or the caller's, as C demands.
    let told = unsafe { pass::time(second) };
    // A second before 1970 is no error: only the last page of numbers are.
    if (-4095..0).contains(&told) { i64::from(failed(Errno(-told as i32))) } else { told }
}

/// `timespec_get(3)`: the bases that this libc knows, by asking it for their resolution.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub extern "C" fn timespec_get(time: *mut Timespec, base: i32) -> i32 {
    with_caller!(2, counted_timespec_get)
}

extern "C" fn counted_timespec_get(
    time: *mut Timespec,
    base: i32,
    address: u64,
    frame: u64,
) -> i32 {
    count(Call::TimespecGet(base), address, frame);
    let clock = match base {
        1 => ClockId::REALTIME,
        _ if libc::timespec_getres(base) == 0 => return 0,
        2 => ClockId::MONOTONIC,
        3 => ClockId::PROCESS_CPUTIME,
        4 => ClockId::THREAD_CPUTIME,
        _ => return 0,
    };
    // SAFETY: the caller's, as C demands.
    if result(unsafe { pass::clock_gettime(clock.0, time) }) == 0 { base } else { 0 }
}

/// `prctl(2)`: the kernel's, seen in passing. A process that has its system calls filtered, or gets ready to, may be
/// killed for one that it did not ask for.
#[unsafe(no_mangle)]
pub extern "C" fn prctl(option: i32, b: usize, c: usize, d: usize, e: usize) -> i32 {
    const PR_SET_SECCOMP: i32 = 22;
    const PR_SET_NO_NEW_PRIVS: i32 = 38;
    if matches!(option, PR_SET_SECCOMP | PR_SET_NO_NEW_PRIVS) {
        process::be_quiet();
    }
    // SAFETY: the caller's, as C demands.
    result(unsafe { pass::prctl([option as usize, b, c, d, e, 0]) } as i32)
}
