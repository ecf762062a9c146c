//! What a reading costs beside the kernel's, in one process: for ratios only, since the emulator's nanoseconds are no
//! machine's.

use crate::subject::Subject;
use clockwise::{ClockId, Errno, Kernel};
use clockwise_core::kernel::{Linux, System};
use serde_json::{Value, json};
use std::hint::black_box;

const BATCH: i64 = 2_000;
const BATCHES: usize = 15;

/// The cheapest batch of each, in picoseconds a reading.
pub fn prices(subject: &Subject, clock: ClockId) -> Result<Value, Errno> {
    let (vdso, mut best) = (Linux::find(), [i64::MAX; 3]);
    for _ in 0..BATCHES {
        let spent = [
            batch(|| subject.now(clock).map(drop))?,
            batch(|| vdso.now(clock).map(|time| _ = black_box(time)))?,
            batch(|| System.clock_gettime(clock).map(|time| _ = black_box(time)))?,
        ];
        for (best, spent) in best.iter_mut().zip(spent) {
            *best = spent.min(*best);
        }
    }
    let [ours, plain, call] = best.map(|spent| spent * 1_000 / BATCH);
    let (subject, clock) = (subject.name(), clock.name());
    Ok(
        json!({ "price": clock, "subject": subject, "ours_ps": ours, "plain_ps": plain, "call_ps": call }),
    )
}

/// By a clock that nobody steers.
fn batch(mut read: impl FnMut() -> Result<(), Errno>) -> Result<i64, Errno> {
    let raw = || System.clock_gettime(ClockId::MONOTONIC_RAW).map(|time| time.nanos_i64());
    let begin = raw()?;
    for _ in 0..BATCH {
        read()?;
    }
    Ok(raw()? - begin)
}
