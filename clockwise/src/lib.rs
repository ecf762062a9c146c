//! The kernel's time at the price of reading a counter.
//!
//! [`Instant`] and [`SystemTime`] read like the standard library's, method by method, and follow the kernel's
//! `CLOCK_MONOTONIC` and `CLOCK_REALTIME` to within tens of nanoseconds, for as long as the process lives. Nothing
//! is calibrated at the start, no thread runs, nothing is allocated: one reader in each period of 4 ms compares the
//! processor's counter with the kernel's clock, all others only read the counter.
//!
//! ```
//! use clockwise::{Instant, SystemTime};
//!
//! let start = Instant::now();
//! let wall = SystemTime::now();
//! assert!(start.elapsed() < std::time::Duration::from_secs(60));
//! let reading = Instant::now_with_bound();
//! println!("{:?}, off by at most {} ns", reading.time(), reading.error_ns());
//! # let _ = wall;
//! ```
//!
//! # What holds
//!
//! * [`Instant`] never goes back: in a thread, across a refresh, a suspend, a migration to another processor, a fork.
//! * [`Instant::now`] and [`SystemTime::now`] are *ordered*: a thread that has seen a time of another thread
//!   takes none that is earlier. [`Instant::now_relaxed`] is cheaper and promises that within one thread only.
//! * Each reading can tell how far from the kernel it may be ([`Instant::now_with_bound`]).
//! * A read never waits and never allocates. It may run in a signal handler, before `main`, and in the child of a
//!   fork.
//! * Where the counter cannot be trusted (the kernel has rejected it, it is forbidden, the target has none) the kernel
//!   answers, and [`Clock::status`] says why.
//!
//! The very first read looks for the vDSO and asks /sys what the kernel thinks of the counter: some ten system calls.
//! A program that forbids itself system calls later (seccomp) reads the time once before; after that none is made on
//! x86-64 and aarch64 Linux, but those that the kernel's own vDSO makes. (Seccomp's strict mode forbids the counter too:
//! there every clock that reads it, the C library's included, ends the process.)
//! A child of `fork` begins anew, but keeps the verdict and the vDSO: it makes no such calls, also not at its first read.
//! For the same reason the counter must not be forbidden (`PR_SET_TSC`) after the first read of a process or its parents.
//!
//! # What does not hold
//!
//! * A step of the wall clock is followed within one period while somebody reads: 4 ms, and up to 250 ms where the kernel
//!   is slow to read ([`Status::period_ns`]).
//! * Where time is read less than a thousand times a second, the kernel answers: its clock is as good then.
//! * Time is the kernel's. If the kernel's clock is wrong, this one is wrong in the same way; see
//!   [`Bounded::utc`].
//! * On targets without system calls of our own (all but x86-64 and aarch64 Linux) [`Instant`] is the standard
//!   library's, counted from the first read, and the other clocks but the wall clock do not exist.
//!
//! # What there is
//!
//! | | clock | price |
//! |---|---|---|
//! | [`Instant::now`], [`SystemTime::now`] | ordered | an ordered read of the counter |
//! | [`Instant::now_relaxed`], [`SystemTime::now_relaxed`] | unordered | a bare read of the counter |
//! | [`recent()`] | kept by a [`Ticker`] thread | a load |
//! | [`coarse::monotonic`], [`coarse::realtime`] | the kernel's, as of its last tick | a call of the vDSO |
//! | [`Clock`] | BOOTTIME, TAI, MONOTONIC_RAW and the others by their ids | as `now` |
//! | [`Manual`] | set by hand, for tests | |
//!
//! The measured prices, with their caveats, are in the README.

#![deny(missing_docs)]

mod bounded;
mod clock;
pub mod coarse;
mod global;
mod instant;
mod manual;
mod recent;
mod refresher;
mod system_time;
mod wide;
mod worker;

pub use bounded::Bounded;
pub use clock::Clock;
pub use clockwise_core::clock::{Origin, Outcome, Reading, Status, Step};
pub use clockwise_core::counter::Counter;
pub use clockwise_core::kernel::{ClockId, Errno, Kernel};
pub use clockwise_core::trust::{NoCounter, Unfit};
pub use clockwise_core::units::{Ticks, Timespec};
pub use global::{ProcessCounter, ProcessKernel};
pub use instant::Instant;
pub use manual::Manual;
pub use recent::{Ticker, TickerError, recent, recent_system_time};
pub use refresher::Refresher;
pub use system_time::{OutOfRange, SystemTime, SystemTimeError, UNIX_EPOCH};

/// README's example is compiled and run with the documentation's.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

/// The machinery behind [`Clock`], generic over a counter and a kernel: [`Manual::engine`] makes one that is set by hand.
pub use clockwise_core::clock::Clock as Engine;
