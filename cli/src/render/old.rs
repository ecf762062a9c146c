//! The outputs of two old benchmarks, line by line: bench_time (2008) and timetest (2005).

use crate::exact::{Exact, ExactRow};
use std::fmt::Write;

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
        if let Some(value) = &row.last_value_s {
            let _ = writeln!(out, "Last value from {}: {value}", row.name);
        }
    }
    out
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
