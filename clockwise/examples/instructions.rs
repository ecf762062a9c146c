//! Reads one clock so many times, in a function that `bench/instructions` counts by valgrind.
//!
//! usage: instructions READ COUNT. Ends with 3 if a read left the hot path (a refresh fell into the loop): then the
//! count says nothing and is to be taken again.

#![expect(clippy::print_stdout, reason = "a program for a script")]

use clockwise::{Clock, ClockId, Instant, SystemTime, Ticker};
use std::hint::black_box;
use std::process::ExitCode;
use std::time::Duration;

/// The least period of a clock that has settled (4 ms, less a rounding).
const PERIOD_NS: u64 = 3_900_000;

/// Each read, its loop in a module of its own: valgrind counts within the functions called `counted`.
macro_rules! reads {
    ($($module:ident, $name:literal, $read:expr;)*) => {
        $(mod $module {
            use super::*;
            #[inline(never)]
            pub fn counted(count: u64) -> u64 {
                let mut sum = 0u64;
                for _ in 0..count {
                    sum = sum.wrapping_add($read);
                }
                black_box(sum)
            }
        })*
        const READS: &[(&str, fn(u64) -> u64)] = &[$(($name, $module::counted)),*];
    };
}

reads! {
    instant, "Instant::now", Instant::now().as_nanos() as u64;
    instant_relaxed, "Instant::now_relaxed", Instant::now_relaxed().as_nanos() as u64;
    system_time, "SystemTime::now", SystemTime::now().as_nanos() as u64;
    system_time_relaxed, "SystemTime::now_relaxed", SystemTime::now_relaxed().as_nanos() as u64;
    boottime, "Clock::boottime().now", Clock::boottime().now().unwrap_or_default() as u64;
    recent, "recent", clockwise::recent().as_nanos() as u64;
    bound, "Instant::now_with_bound", {
        let reading = Instant::now_with_bound();
        (reading.time().as_nanos() as u64).wrapping_add(reading.error_ns())
    };
}

/// Refreshes, and answers of the kernel, of all clocks that are read here: the hot path makes none.
fn slow() -> u64 {
    let clocks = [ClockId::MONOTONIC, ClockId::REALTIME, ClockId::BOOTTIME].map(Clock::new);
    let status = clocks.iter().filter_map(Clock::status);
    status.map(|status| status.refreshes + status.kernel_answers).sum()
}

/// Reads until the lines have their full length and one of them has just begun, which leaves the most room; `false` if
/// that does not come to pass.
fn settle(clock: &Clock) -> bool {
    let (start, patience) = (std::time::Instant::now(), Duration::from_secs(5));
    let told = || clock.status().map_or((0, 0), |status| (status.period_ns, status.refreshes));
    while told().0 < PERIOD_NS {
        let _ = black_box(clock.now());
        if start.elapsed() > patience {
            return false;
        }
    }
    let (period_ns, refreshes) = told();
    while told().1 == refreshes {
        let _ = black_box(clock.now());
    }
    // The next line is ready an eighth of a period before it is used; the step from one to the other is no hot path.
    let ready = std::time::Instant::now();
    while ready.elapsed() < Duration::from_nanos(period_ns / 4) {
        let _ = black_box(clock.now());
    }
    true
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (name, count) = (arguments.next(), arguments.next().and_then(|count| count.parse().ok()));
    let read = READS.iter().find(|(read, _)| Some(*read) == name.as_deref());
    let (Some((name, read)), Some(count)) = (read, count) else {
        for (name, _) in READS {
            println!("{name}");
        }
        return ExitCode::from(2);
    };
    // Its thread would refresh the clocks that it reads: its longest period leaves a second between two.
    let ticker = (*name == "recent").then(|| Ticker::start(Duration::from_secs(1)));
    let clocks = match *name {
        "recent" => vec![],
        name if name.starts_with("SystemTime") => vec![Clock::realtime()],
        name if name.starts_with("Clock") => vec![Clock::boottime()],
        _ => vec![Clock::monotonic()],
    };
    for clock in &clocks {
        if !settle(clock) {
            println!("{name}: the counter is not used: {:?}", clock.status().and_then(|s| s.unfit));
            return ExitCode::FAILURE;
        }
    }
    let before = slow();
    black_box(read(black_box(count)));
    let left = slow() != before;
    drop(ticker);
    if left { ExitCode::from(3) } else { ExitCode::SUCCESS }
}
