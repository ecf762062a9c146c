//! The image: C's clock functions, answered by [`clockwise_core`], for programs that are not compiled with it.
//!
//! Loaded by `LD_PRELOAD` into any program of this processor, whatever its libc. Each exported function asks core and
//! writes the answer; what core does not follow goes to the kernel as it came. Runs in other people's processes: at
//! any time, in any thread, before and after `main`, in signal handlers, between `fork` and `exec`.
//!
//! Must never allocate, lock, wait, panic, use thread-local data, call `dlsym` or any function of libc that is not
//! listed in `symbols.txt`, touch errno on success, or start a thread.
//!
//! # Safety
//!
//! The exported functions are C's: a pointer may be written to, or is null where C allows it. A pointer that is neither
//! is the caller's fault, and is answered as libc does: by SIGSEGV or EFAULT. They are declared safe, since no Rust
//! code calls them.

#![no_std]
#![expect(clippy::not_unsafe_ptr_arg_deref, reason = "C's signatures; no Rust code calls them")]

mod arch;
mod libc;
mod process;
mod stats;

use clockwise_core::clock::{Hot, STATUS_WORDS, Split};
use clockwise_core::kernel::{ClockId, Errno, pass};
use clockwise_core::settings::Settings;
use clockwise_core::units::Timespec;
use process::{CAUSAL, CLOCK, ProcessCounter, mode, read};

/// What C's functions give where they fail.
const FAILED: i32 = -1;

#[cfg(not(test))]
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    // Never reached: an image that can panic imports `abort`, which symbols.txt does not list.
    libc::abort()
}

/// The time of a clock that is followed, if it can be had at once.
#[inline(always)]
fn at_once(clock: Hot<'_, ProcessCounter>) -> Option<Split> {
    match mode() {
        CAUSAL => clock.at_once(false),
        Settings::RELAXED => clock.at_once(true),
        _ => None,
    }
}

/// The same in any case.
fn now(clock: ClockId) -> Result<i64, Errno> {
    if mode() & Settings::COUNTED == 0 { read(clock) } else { stats::now(clock) }
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
#[unsafe(no_mangle)]
pub extern "C" fn clock_gettime(clock: i32, time: *mut Timespec) -> i32 {
    let Some(hot) = CLOCK.hot(ClockId(clock)) else { return passed(clock, time) };
    let Some(split) = at_once(hot) else { return clock_gettime_later(clock, time) };
    match split.at_once() {
        Some(told) => {
            // SAFETY: the caller's, as C demands.
            unsafe { time.write(told) };
            0
        }
        None => clock_gettime_carried(clock, time, split),
    }
}

#[cold]
#[inline(never)]
fn clock_gettime_carried(clock: i32, time: *mut Timespec, split: Split) -> i32 {
    match split.carried() {
        Some(told) => {
            // SAFETY: the caller's, as C demands.
            unsafe { time.write(told) };
            0
        }
        None => clock_gettime_later(clock, time),
    }
}

// Of its own, so that what comes before needs no room on the stack.
#[cold]
#[inline(never)]
extern "C" fn clock_gettime_later(clock: i32, time: *mut Timespec) -> i32 {
    // Never used, so that no line has ever said more than the kernel does.
    if CLOCK.is_never_fit() && mode() & Settings::COUNTED == 0 {
        return passed_on(clock, time);
    }
    match now(ClockId(clock)) {
        Ok(nanos) => {
            // SAFETY: the caller's, as C demands.
            unsafe { time.write(Timespec::from_nanos(nanos)) };
            0
        }
        Err(errno) => failed(errno),
    }
}

/// Another clock: the kernel's answer as it is. Not inlined, so that the clocks that are followed need no stack; of a
/// section that has its place in a cache line.
#[inline(never)]
#[unsafe(link_section = ".text.passed")]
extern "C" fn passed(clock: i32, time: *mut Timespec) -> i32 {
    match pass::coarse() {
        Some(function) if pass::is_coarse(clock) && mode() & Settings::COUNTED == 0 => {
            // SAFETY: the caller's, as C demands.
            unsafe { function(clock, time) }
        }
        _ => passed_on(clock, time),
    }
}

#[inline(never)]
extern "C" fn passed_on(clock: i32, time: *mut Timespec) -> i32 {
    count_other(ClockId(clock));
    // SAFETY: the caller's, as C demands.
    result(unsafe { pass::clock_gettime(clock, time) })
}

#[inline(always)]
fn count_other(clock: ClockId) {
    if mode() & Settings::COUNTED != 0 {
        stats::count_other(clock);
    }
}

/// glibc's own name for `clock_gettime`.
#[unsafe(no_mangle)]
pub extern "C" fn __clock_gettime(clock: i32, time: *mut Timespec) -> i32 {
    clock_gettime(clock, time)
}

/// `clock_getres(3)`: the kernel's answer, for what a program reads is the kernel's time. By the way that libc takes:
/// glibc's is the vDSO, musl's is not.
#[unsafe(no_mangle)]
pub extern "C" fn clock_getres(clock: i32, resolution: *mut Timespec) -> i32 {
    // SAFETY: the caller's, as C demands.
    result(unsafe { pass::clock_getres(clock, resolution, libc::is_glibc()) })
}

/// `gettimeofday(2)`: `zone` gets what the kernel has, which is zeros as a rule.
#[unsafe(no_mangle)]
pub extern "C" fn gettimeofday(time: *mut [i64; 2], zone: *mut [i32; 2]) -> i32 {
    if !zone.is_null() {
        // SAFETY: not null, so that C demands room for two ints.
        let told = unsafe { pass::time_zone(zone) };
        if told < 0 {
            return result(told);
        }
    }
    if time.is_null() {
        return 0;
    }
    let whole = CLOCK.hot(ClockId::REALTIME).and_then(at_once).and_then(Split::at_once);
    let Some(told) = whole else { return gettimeofday_later(time) };
    let told = [told.sec, (told.nsec as u64 / 1_000) as i64];
    // SAFETY: the caller's, as C demands.
    unsafe { time.write(told) };
    0
}

#[cold]
#[inline(never)]
extern "C" fn gettimeofday_later(time: *mut [i64; 2]) -> i32 {
    match now(ClockId::REALTIME) {
        Ok(nanos) => {
            let told = Timespec::from_nanos(nanos);
            // SAFETY: the caller's, as C demands.
            unsafe { time.write([told.sec, told.nsec / 1_000]) };
            0
        }
        Err(errno) => failed(errno),
    }
}

/// glibc's own name for `gettimeofday`.
#[unsafe(no_mangle)]
pub extern "C" fn __gettimeofday(time: *mut [i64; 2], zone: *mut [i32; 2]) -> i32 {
    gettimeofday(time, zone)
}

/// `time(2)`: the kernel's second as of the last tick. Files get their times by that: a second of the fine clock would be
/// newer than a file that is made after it was read.
#[unsafe(no_mangle)]
pub extern "C" fn time(second: *mut i64) -> i64 {
    match pass::found_time() {
        // SAFETY: null, or the caller's, as C demands.
        Some(function) if mode() & Settings::COUNTED == 0 => unsafe { function(second) },
        _ => time_later(second),
    }
}

#[cold]
#[inline(never)]
extern "C" fn time_later(second: *mut i64) -> i64 {
    count_other(ClockId::REALTIME_COARSE);
    // SAFETY: null, or the caller's, as C demands.
    let told = unsafe { pass::time(second) };
    // A second before 1970 is no error: only the last page of numbers are.
    if (-4095..0).contains(&told) { i64::from(failed(Errno(-told as i32))) } else { told }
}

/// `timespec_get(3)`: the bases that this libc knows, by asking it for their resolution.
#[unsafe(no_mangle)]
pub extern "C" fn timespec_get(time: *mut Timespec, base: i32) -> i32 {
    let clock = match base {
        1 => ClockId::REALTIME,
        _ if libc::timespec_getres(base) == 0 => return 0,
        2 => ClockId::MONOTONIC,
        3 => ClockId::PROCESS_CPUTIME,
        4 => ClockId::THREAD_CPUTIME,
        _ => return 0,
    };
    if clock_gettime(clock.0, time) == 0 { base } else { 0 }
}

/// `prctl(2)`: the kernel's, seen in passing. A thread that forbids itself the counter (`PR_SET_TSC`) would die of the
/// next line it reads.
#[unsafe(no_mangle)]
pub extern "C" fn prctl(option: i32, b: usize, c: usize, d: usize, e: usize) -> i32 {
    const PR_SET_TSC: i32 = 26;
    const PR_TSC_SIGSEGV: usize = 2;
    if option == PR_SET_TSC && b == PR_TSC_SIGSEGV {
        CLOCK.forbid();
    }
    // SAFETY: the caller's, as C demands.
    result(unsafe { pass::prctl([option as usize, b, c, d, e, 0]) } as i32)
}

/// For verification: the reading of a clock that is followed as `nanos, error_ns, steady_error_ns, is_from_counter`. 0,
/// or the error negative.
#[unsafe(no_mangle)]
pub extern "C" fn clockwise_reading(clock: i32, told: *mut [u64; 4]) -> i32 {
    match CLOCK.reading(ClockId(clock)) {
        Ok(reading) => {
            let is_from_counter = reading.origin == clockwise_core::clock::Origin::Counter;
            let words = [
                reading.nanos as u64,
                reading.error_ns,
                reading.steady_error_ns,
                u64::from(is_from_counter),
            ];
            // SAFETY: the caller's: room for four words.
            unsafe { told.write(words) };
            0
        }
        Err(errno) => -errno.0,
    }
}

/// For verification: what became of a clock that is followed, as `Status::to_words`. 0, or `-EINVAL`.
#[unsafe(no_mangle)]
pub extern "C" fn clockwise_status(clock: i32, told: *mut [u64; STATUS_WORDS]) -> i32 {
    match CLOCK.status(ClockId(clock)) {
        Some(status) => {
            // SAFETY: the caller's: room for so many words.
            unsafe { told.write(status.to_words()) };
            0
        }
        None => -Errno::INVAL.0,
    }
}
