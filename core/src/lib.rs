//! How a counter becomes time.
//!
//! ```text
//!  CPU counter --ticks-->  counter  --+
//!       arch/                         +-->  the tool (what does each clock cost and tell?)
//!  kernel      --time-->   kernel   --+
//!       vDSO (found by elf), else system call
//! ```
//!
//! Two doors lead outside, both traits: [`counter::Counter`] (ticks) and [`kernel::Kernel`] (the
//! reference time). The real machine and the simulated one are two sets of implementations.
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
//!
//! # Example
//!
//! ```
//! use clockwise_core::counter::{Counter, Hardware};
//! use clockwise_core::kernel::{ClockId, Kernel, Linux};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let kernel = Linux::find();
//! # if clockwise_core::kernel::System::AVAILABLE {
//! println!("{} s since boot", kernel.now(ClockId::MONOTONIC)?);
//! # }
//! if let Ok(counter) = Hardware::find() {
//!     let begin = counter.ticks();
//!     let taken = counter.ticks().since(begin);
//!     println!("{taken:?} ticks between two reads");
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The crate does not calibrate: to turn ticks into nanoseconds, measure the counter's
//! [`Frequency`](units::Frequency) against a [`Kernel`](kernel::Kernel) clock.
//!
//! # What this crate must never do
//!
//! Allocate, lock, use thread-local data, start a thread, call into libc, or depend on a crate: it
//! will run inside other people's processes, in signal handlers and before `main`.

#![no_std]

// Each module uses only modules above it; tests/tidy.rs sees to it.
pub mod units;

mod word;

mod processor;

mod arch;

pub mod elf;

pub mod kernel;

pub mod page;

pub mod trust;

pub mod counter;

pub mod sample;

pub mod scale;

pub mod timebase;

mod latch;

// Under loom the atomics are loom's, which have no constant constructors: the latch is explored alone.
#[cfg(not(loom))]
mod keeper;

#[cfg(not(loom))]
mod bank;

#[cfg(not(loom))]
mod track;

#[cfg(not(loom))]
pub mod clock;

pub mod laws;
