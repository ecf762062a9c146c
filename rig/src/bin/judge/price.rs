//! What a reading costs beside libc's and beside the system call, in one process, by turns: for ratios only, since the
//! emulator's nanoseconds are no machine's.

use crate::subject::Subject;
use crate::system::{self, Libc};
use clockwise::{Clock, ClockId, Errno, Timespec};
use clockwise_core::kernel::System;
use serde_json::{Value, json};
use std::hint::black_box;

const BATCH: i64 = 500;

/// Until then a clock that is read all the time has long been read from the counter.
const WARM_UP_NS: i64 = 10_000_000;

/// The cheapest batch of each, in picoseconds a reading: what a program would write, and nothing beside it.
pub fn prices(subject: &Subject, clock: ClockId, batches: usize) -> Result<Value, Errno> {
    let libc = Libc::find().ok_or(Errno::NOSYS)?;
    warm_up(subject, clock)?;
    let mut best = [i64::MAX; 3];
    for _ in 0..batches {
        let spent = [ours(subject, clock)?, batch(|| libc.read(clock))?, batch(|| call(clock))?];
        for (best, spent) in best.iter_mut().zip(spent) {
            *best = spent.min(*best);
        }
    }
    let [ours, libcs, call] = best.map(|spent| spent * 1_000 / BATCH);
    Ok(json!({
        "price": clock.name(),
        "subject": subject.name(),
        "ours_ps": ours,
        "libcs_ps": libcs,
        "call_ps": call,
    }))
}

#[inline(never)]
fn warm_up(subject: &Subject, clock: ClockId) -> Result<(), Errno> {
    let begin = raw()?;
    while raw()? < begin + WARM_UP_NS {
        black_box(subject.now(clock)?);
    }
    Ok(())
}

fn ours(subject: &Subject, clock: ClockId) -> Result<i64, Errno> {
    match (subject, clock) {
        (Subject::Image(_), _) => batch(|| system::read(clock)),
        // A program names its clock when it is written.
        (_, ClockId::REALTIME) => batch(|| Clock::realtime().now()),
        (_, ClockId::BOOTTIME) => batch(|| Clock::boottime().now()),
        (_, ClockId::TAI) => batch(|| Clock::new(ClockId::TAI).now()),
        (_, ClockId::MONOTONIC_RAW) => batch(|| Clock::monotonic_raw().now()),
        _ => batch(|| Clock::monotonic().now()),
    }
}

#[inline]
fn call(clock: ClockId) -> Result<Timespec, Errno> {
    System.clock_gettime(clock)
}

/// By a clock that nobody steers.
fn batch<T>(mut read: impl FnMut() -> T) -> Result<i64, Errno> {
    let begin = raw()?;
    for _ in 0..BATCH {
        black_box(read());
    }
    Ok(raw()? - begin)
}

fn raw() -> Result<i64, Errno> {
    System.clock_gettime(ClockId::MONOTONIC_RAW).map(|time| time.nanos_i64())
}
