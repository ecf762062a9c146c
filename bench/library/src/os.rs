//! libc, as the benchmark needs it: the kernel's clocks, processors, priority. The file with the C calls.
//!
//! Must never interpret: each function makes one call.
//!
//! # Safety
//!
//! Calls into libc with pointers to local variables of the type that the call fills.

#![expect(unsafe_code, reason = "the kernel's clocks are the reference, and have no other door")]

use std::mem::{MaybeUninit, zeroed};

/// What the kernel's `clock` says, by libc.
#[inline(always)]
pub fn timespec(clock: libc::clockid_t) -> libc::timespec {
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: fills one timespec; the clocks that are asked here exist on every Linux.
    unsafe { libc::clock_gettime(clock, time.as_mut_ptr()) };
    // SAFETY: it was filled.
    unsafe { time.assume_init() }
}

/// As nanoseconds.
#[inline(always)]
pub fn nanos(time: libc::timespec) -> i64 {
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// Nanoseconds of `CLOCK_MONOTONIC`.
#[inline(always)]
pub fn monotonic() -> i64 {
    nanos(timespec(libc::CLOCK_MONOTONIC))
}

/// The processors on which this thread may run.
pub fn processors() -> Vec<usize> {
    // SAFETY: a set of processors is an array of integers.
    let mut set: libc::cpu_set_t = unsafe { zeroed() };
    // SAFETY: fills one set.
    unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) };
    // SAFETY: within the set's size.
    let holds = |cpu: &usize| unsafe { libc::CPU_ISSET(*cpu, &set) };
    (0..libc::CPU_SETSIZE as usize).filter(holds).collect()
}

/// Binds this thread to these processors; best effort.
pub fn bind(processors: &[usize]) {
    // SAFETY: a set of processors is an array of integers.
    let mut set: libc::cpu_set_t = unsafe { zeroed() };
    for &cpu in processors {
        // SAFETY: the numbers came from such a set.
        unsafe { libc::CPU_SET(cpu, &mut set) };
    }
    // SAFETY: reads one set.
    unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) };
}

/// Puts this thread behind all others.
pub fn lowest_priority() {
    // SAFETY: changes this thread's priority. On Linux 0 is the calling thread.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) };
}

/// Name and release of the kernel.
pub fn kernel_name() -> String {
    // SAFETY: arrays of characters.
    let mut names: libc::utsname = unsafe { zeroed() };
    // SAFETY: fills one utsname.
    unsafe { libc::uname(&raw mut names) };
    let text = |field: &[libc::c_char]| -> String {
        field.iter().take_while(|&&c| c != 0).map(|&c| c as u8 as char).collect()
    };
    format!("{} {}", text(&names.sysname), text(&names.release))
}
