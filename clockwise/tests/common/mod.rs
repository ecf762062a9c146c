//! What the tests share: brackets by the kernel, children, and how to say what is not tried.

#![allow(dead_code, reason = "each test program uses its part")]

#[cfg(target_os = "linux")]
pub mod process;

use clockwise::{Clock, ClockId, Kernel, Reading};
use clockwise_core::kernel::System;
use clockwise_core::laws;
use std::io::Write;

/// The clocks that are followed.
pub const CLOCKS: [ClockId; 5] = [
    ClockId::MONOTONIC,
    ClockId::REALTIME,
    ClockId::BOOTTIME,
    ClockId::TAI,
    ClockId::MONOTONIC_RAW,
];

/// Says on standard error, which the test runner does not hide, what was counted.
pub fn say(words: &str) {
    let _ = writeln!(std::io::stderr(), "{words}");
}

/// Says why something is not tried, or not judged, here.
pub fn not_tried(what: &str, why: &str) {
    say(&format!("not tried here: {what}: {why}"));
}

/// Why the counter is not used on this machine, if it is not: reads of the clock are the kernel's then.
pub fn unfit() -> Option<String> {
    let clock = Clock::monotonic();
    let _ = clock.now();
    clock.status().and_then(|status| status.unfit).map(|reason| reason.to_string())
}

/// Nanoseconds of the kernel's `clock`, by system call.
pub fn kernel(clock: ClockId) -> i64 {
    match System.clock_gettime(clock) {
        Ok(time) => time.nanos_i64(),
        Err(errno) => panic!("clock_gettime({}): {errno}", clock.0),
    }
}

/// Reads `clock` between two reads of `kernel`.
///
/// # Errors
/// It is further from the kernel than it says, in words. A bracket that is upside down (the wall clock was set back)
/// tells nothing.
pub fn bracket(clock: Clock<'_>, kernel: &impl Kernel) -> Result<Reading, String> {
    let told = |what| move |errno| format!("{clock}: {what}: {errno}");
    let before = kernel.now(clock.id()).map_err(told("kernel"))?.nanos_i64();
    let reading = clock.now_with_bound().map_err(told("ours"))?;
    let after = kernel.now(clock.id()).map_err(told("kernel"))?.nanos_i64();
    if before <= after {
        laws::bounded(before, reading.nanos, reading.error_ns, after)
            .map_err(|violation| format!("{clock}: {violation}: {reading:?}"))?;
    }
    Ok(reading)
}

/// Reads all five clocks between two system calls each.
///
/// # Errors
/// As [`bracket`].
pub fn brackets() -> Result<(), String> {
    CLOCKS.into_iter().try_for_each(|id| bracket(Clock::new(id), &ByCall).map(|_| ()))
}

/// As [`brackets`], again and again for so long.
///
/// # Errors
/// As [`bracket`].
pub fn brackets_for(milliseconds: i64) -> Result<u32, String> {
    let end = kernel(ClockId::MONOTONIC) + milliseconds * 1_000_000;
    let mut rounds = 0;
    while kernel(ClockId::MONOTONIC) < end {
        brackets()?;
        rounds += 1;
    }
    Ok(rounds)
}

/// The kernel by system calls alone.
#[derive(Clone, Copy, Debug)]
pub struct ByCall;

impl Kernel for ByCall {
    fn now(&self, clock: ClockId) -> Result<clockwise::Timespec, clockwise::Errno> {
        System.clock_gettime(clock)
    }
}
