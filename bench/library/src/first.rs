//! What the processes of `bin/first-*` do: time their very first read, and tell it as JSON.
//!
//! One program for each crate, because some measure before `main`: a program that has them linked pays even if it
//! never reads them. Included by each; must not name any of the crates.

use std::time::Duration;

/// Nanoseconds of `CLOCK_MONOTONIC`, by libc.
#[expect(unsafe_code, reason = "the kernel's clock without any of the crates")]
pub fn monotonic() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills one timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// Times `read`, called once, and then `more`, which returns further fields.
pub fn tell<T>(read: impl FnOnce() -> T, more: impl FnOnce(i64) -> String) {
    let main = monotonic();
    // The kernel's clock is warm: its own first call is not the crate's.
    let begin = monotonic();
    std::hint::black_box(read());
    let end = monotonic();
    let more = more(begin);
    println!(r#"{{"main": {main}, "first_ns": {}{more}}}"#, end - begin);
    std::thread::sleep(Duration::ZERO);
}
