//! The outputs of two old benchmarks, line by line: bench_time (2008) and timetest (2005).

use crate::exact::{Exact, ExactRow};
use std::fmt::Write;

const SECOND_NS: i64 = 1_000_000_000;

/// bench_time: a heading, a line a call from the dearest on, then the last value of each.
pub fn bench_time(result: &Exact) -> String {
    let mut out = format!(
        "Timing micro-benchmark.  {} syscall iterations.\nAvg. us/call    Elapsed     Name\n",
        result.calls
    );
    let mut rows: Vec<&ExactRow> =
        result.rows.iter().filter(|row| row.elapsed_ns.is_some()).collect();
    let cost = |row: &ExactRow| row.per_call_us.unwrap_or(0.0);
    rows.sort_by(|a, b| cost(b).total_cmp(&cost(a)));
    for row in rows {
        let per_call_us = format!("{:.6}", cost(row));
        let elapsed_s = format!("{:.6}", row.elapsed_ns.unwrap_or(0.0) / 1e9);
        let _ = write!(out, "{per_call_us:12}{elapsed_s:16}{}", row.name);
        if let Some(freebsd) = &row.freebsd_name {
            let _ = write!(out, "  [FreeBSD: {freebsd}]");
        }
        if row.calls < result.calls {
            let _ = write!(out, "  ({} calls)", row.calls);
        }
        out.push('\n');
    }
    for row in &result.rows {
        if let Some(value) = row.last_value {
            let _ =
                writeln!(out, "Last value from {}: {}", row.name, last_value(&row.source, value));
        }
    }
    out
}

/// As C prints each kind: a timeval in microseconds, a time_t in seconds, a timespec in nanoseconds.
fn last_value(source: &str, ns: i64) -> String {
    // As a timespec has it: the fraction counts up, also before the epoch.
    let (seconds, rest) = (ns.div_euclid(SECOND_NS), ns.rem_euclid(SECOND_NS));
    match source {
        "libc/gettimeofday" | "libc/getrusage" => format!("{seconds}.{:06}", rest / 1_000),
        "libc/time" | "vdso/time" => seconds.to_string(),
        _ => format!("{seconds}.{rest:09}"),
    }
}

/// timetest: a line for the counter, a line for gettimeofday, and their ratio.
pub fn timetest(result: &Exact) -> String {
    let mut out = String::new();
    for row in &result.rows {
        if let Some(ns) = row.elapsed_ns {
            let _ = writeln!(out, "{}: {} calls in {:.0} usecs", row.name, row.calls, ns / 1e3);
        }
    }
    let per_call = |is_counter: bool| {
        let mut rows =
            result.rows.iter().filter(|row| row.source.starts_with("counter/") == is_counter);
        rows.next().and_then(|row| Some((row.name.as_str(), row.per_call_us?)))
    };
    if let (Some((counter, counter_us)), Some((clock, clock_us))) =
        (per_call(true), per_call(false))
        && counter_us > 0.0
    {
        let _ = writeln!(out, "{clock} costs {:.2} times {counter}", clock_us / counter_us);
    }
    out
}
