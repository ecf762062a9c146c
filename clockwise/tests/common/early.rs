//! Reads the clock before `main`, when the program's own initialisation has not run.
//!
//! # Safety
//!
//! The loader calls the function below once, in the only thread; it reads clocks and stores numbers.

#![expect(unsafe_code, reason = "a section of its own, which the loader reads")]

use clockwise::{Instant, SystemTime};
use clockwise_core::kernel::{ClockId, System};
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

/// Kernel, ours, kernel: MONOTONIC, then REALTIME. Zeros if nothing ran before `main`.
pub static READ: [[AtomicI64; 3]; 2] = [const { [const { AtomicI64::new(0) }; 3] }; 2];

extern "C" fn read() {
    let kernel = |clock| System.clock_gettime(clock).map_or(0, |time| time.nanos_i64());
    let keep = |places: &[AtomicI64; 3], values: [i64; 3]| {
        places.iter().zip(values).for_each(|(place, value)| place.store(value, Relaxed));
    };
    let monotonic = || Instant::now().as_nanos() as i64;
    let wall = || SystemTime::now().as_nanos() as i64;
    let (id, wall_id) = (ClockId::MONOTONIC, ClockId::REALTIME);
    keep(&READ[0], [kernel(id), monotonic(), kernel(id)]);
    keep(&READ[1], [kernel(wall_id), wall(), kernel(wall_id)]);
}

// The section holds pointers to functions that may ignore what they are given.
#[used]
#[unsafe(link_section = ".init_array")]
static EARLY: extern "C" fn() = read;
