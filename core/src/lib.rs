//! How a counter becomes time.
//!
//! ```text
//!  CPU counter --ticks-->  counter --+--> sample --> timebase --> latch --> clock --> programs
//!       arch/                        |                 (lines)
//!  kernel      --time-->   kernel  --+
//!       vDSO (found by elf), else system call
//! ```
//!
//! Two doors lead outside, both traits: [`counter::Counter`] (ticks) and [`kernel::Kernel`] (the
//! reference time). The real machine and the simulated one are two sets of implementations; everything between them
//! is arithmetic on values. [`clock::Clock`] is the product: the kernel's clocks at the price of reading the counter.
//!
//! # Vocabulary
//!
//! * **counter**: a register that every core can read and that advances at a constant rate (the TSC
//!   on x86-64, `CNTVCT_EL0` on aarch64). Its unit is the **tick**.
//! * **clock**: something that tells time in nanoseconds; the kernel's are named by a
//!   [`ClockId`](kernel::ClockId).
//! * **clocksource**: the counter that the kernel itself reads for its clocks.
//! * **vDSO**: the kernel's code that is mapped into every process and answers without a system call
//!   where the clocksource can be read there.
//! * **ordered** read: one that happens after everything before it in program order, loads included. An
//!   **unordered** one may be executed early by the processor, and so can be older than a value
//!   that the thread has already seen.
//! * **sample**: what the kernel said, and between which two ticks.
//! * **line**: time as a function of ticks, from an anchor to a deadline; reads multiply by its slope. The next one is
//!   made by a **refresh**, once in a **period**.
//! * **bound**, **error**: how far from the kernel's clock a reading may be. **residual**: how far the kernel was
//!   from what was predicted for a sample.
//! * **slew**: the kernel goes at another rate; **step**: it was set. **drift**: a distance that grows with time.
//!
//! # Example
//!
//! ```
//! use clockwise_core::clock::Clock;
//! use clockwise_core::counter::SharedHardware;
//! use clockwise_core::kernel::{ClockId, SharedLinux};
//!
//! static CLOCK: Clock<SharedHardware, SharedLinux> = Clock::new(SharedHardware, SharedLinux);
//!
//! # if clockwise_core::kernel::System::AVAILABLE {
//! let earlier = CLOCK.now(ClockId::MONOTONIC)?;
//! let reading = CLOCK.reading(ClockId::MONOTONIC)?;
//! assert!(reading.nanos >= earlier);
//! println!("{} ns since boot, off by {} ns at most", reading.nanos, reading.error_ns);
//! # }
//! # Ok::<(), clockwise_core::kernel::Errno>(())
//! ```
//!
//! # What this crate must never do
//!
//! Allocate, lock, use thread-local data, start a thread, call into libc, or depend on a crate: it
//! will run inside other people's processes, in signal handlers and before `main`.

#![no_std]
// Most of what uses the rest is left out where loom explores; see below.
#![cfg_attr(all(test, loom), allow(dead_code, unused_imports))]

// Each module uses only modules above it; tests/tidy.rs sees to it.
pub mod units;

mod word;

mod processor;

mod arch;

pub mod elf;

pub mod maps;

pub mod kernel;

pub mod page;

pub mod trust;

pub mod counter;

pub mod sample;

pub mod scale;

pub mod timebase;

mod latch;

// Where loom explores, the atomics are its own, which have no constant constructors: the latch is explored alone.
#[cfg(not(all(test, loom)))]
mod keeper;

#[cfg(not(all(test, loom)))]
mod bank;

#[cfg(not(all(test, loom)))]
mod track;

#[cfg(not(all(test, loom)))]
mod status;

#[cfg(not(all(test, loom)))]
pub mod clock;

#[cfg(not(all(test, loom)))]
pub mod board;

#[cfg(all(target_has_atomic = "64", not(all(test, loom))))]
pub mod sites;

pub mod settings;

pub mod laws;
