//! What the tests share: brackets by the kernel, children, and how to say what is not tried.

#![allow(dead_code, reason = "each test program uses its part")]

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
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
    let goes_on = stretch(milliseconds);
    let mut rounds = 0;
    while goes_on() {
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

/// Whether the kernel's monotonic clock has not yet gone on for so long.
pub fn stretch(milliseconds: i64) -> impl Fn() -> bool {
    let end = kernel(ClockId::MONOTONIC) + milliseconds * 1_000_000;
    move || kernel(ClockId::MONOTONIC) < end
}

/// How often the wall clocks were stepped: a bound does not hold over a step.
pub fn steps() -> u64 {
    let steps = |id| Clock::new(id).status().map_or(0, |status| status.steps);
    steps(ClockId::REALTIME) + steps(ClockId::TAI)
}

/// Asserts that nothing is `wrong`, but for the wall clocks where they were stepped meanwhile.
#[track_caller]
pub fn judge(wrong: &[String], steps_before: u64) {
    let stepped = steps() != steps_before;
    let wall = |words: &str| words.contains("CLOCK_REALTIME") || words.contains("CLOCK_TAI");
    let wrong: Vec<_> = wrong.iter().filter(|words| !(stepped && wall(words))).collect();
    let some = &wrong[..wrong.len().min(5)];
    assert!(wrong.is_empty(), "{} readings, such as {some:?}", wrong.len());
    if stepped {
        not_tried("the wall clocks in one test", "they were stepped meanwhile");
    }
}
