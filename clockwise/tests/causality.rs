//! Two threads hand each other times, as programs do: neither reads one that is older than what it has been given.

#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

mod common;

use clockwise::{Instant, SystemTime};
use clockwise_core::{counter, laws};
use common::process::{allowed_cpus, pin};
use common::{judge, not_tried, say, steps, stretch};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Where a thread leaves its readings for another: a place of its own, on cache lines of its own, for with one place
/// for both a thread reads its own last store back and never meets the other's.
#[derive(Default)]
#[repr(align(128))]
struct Place(AtomicI64);

#[derive(Default)]
struct Exchange {
    places: [Place; 2],
    counts: [Count; 2],
    stop: Stop,
}

#[derive(Default)]
#[repr(align(128))]
struct Count(AtomicU64);

#[derive(Default)]
#[repr(align(128))]
struct Stop(AtomicBool);

impl Exchange {
    /// One thread's part: how often it met a new time of the other's, and then read an older one itself.
    fn run(&self, side: usize, read: impl Fn() -> i64) -> (u64, Vec<i64>) {
        let (mine, theirs) = (&self.places[side].0, &self.places[1 - side].0);
        // Readings are positive: 0 is that nobody was there.
        let (mut last, mut seen, mut wrong) = (0, 0, Vec::new());
        while !self.stop.0.load(Ordering::Relaxed) {
            for _ in 0..64 {
                let value = theirs.load(Ordering::Acquire);
                counter::after(value as u64);
                let ours = read();
                if value != last {
                    last = value;
                    seen += 1;
                    if let Err(violation) = laws::causal(value, ours) {
                        wrong.push(violation.by_ns as i64);
                    }
                }
                mine.store(ours, Ordering::Release);
            }
            self.counts[side].0.store(seen, Ordering::Relaxed);
        }
        (seen, wrong)
    }

    /// Two threads, until each has met the other so often, or for a few seconds.
    fn meet(least: u64, cpus: &[usize], read: impl Fn() -> i64 + Sync) -> (u64, Vec<i64>) {
        let (exchange, goes_on) = (&Self::default(), stretch(3_000));
        let read = &read;
        thread::scope(|scope| {
            let threads = [0, 1].map(|side| {
                scope.spawn(move || {
                    pin(cpus[side]);
                    exchange.run(side, read)
                })
            });
            let few = |count: &Count| count.0.load(Ordering::Relaxed) < least;
            while exchange.counts.iter().any(few) && goes_on() {
                thread::sleep(Duration::from_millis(5));
            }
            exchange.stop.0.store(true, Ordering::Relaxed);
            let [a, b] = threads.map(|thread| thread.join().unwrap());
            (a.0 + b.0, [a.1, b.1].concat())
        })
    }
}

#[test]
fn who_has_seen_a_time_reads_none_that_is_older() {
    const LEAST: u64 = 200_000;
    let cpus = &allowed_cpus();
    if cpus.len() < 2 {
        not_tried("two threads that hand each other times", "there is one processor");
        return;
    }
    let steps_before = steps();
    let read = || Instant::now().as_nanos() as i64;
    let (met, wrong) = Exchange::meet(LEAST, cpus, read);
    assert_eq!(wrong, [0; 0], "Instant::now, of {met} hand-overs");
    let wall = || SystemTime::now().as_nanos() as i64;
    let (met_wall, wrong) = Exchange::meet(LEAST, cpus, wall);
    let words: Vec<_> = wrong.iter().map(|by| format!("CLOCK_REALTIME: older by {by}")).collect();
    judge(&words, steps_before);
    // The relaxed read promises nothing here: how often shows what the order is for.
    let (met_relaxed, older) =
        Exchange::meet(LEAST, cpus, || Instant::now_relaxed().as_nanos() as i64);
    say(&format!(
        "hand-overs: {met} of Instant::now, {met_wall} of SystemTime::now, none older; of {met_relaxed} of \
         now_relaxed {} older",
        older.len()
    ));
    assert!(met > 0 && met_wall > 0, "no thread has met the other: {met} {met_wall}");
}
