//! The two old benchmarks that make exactly N calls: what they list, and the runs.
//!
//! Rows carry the name that the old table had beside Linux's. Must never make a call more or less
//! than asked, nor leave a row out: one that cannot be read here has its reason.

use crate::machine::Machine;
use crate::measure::Watch;
use crate::sources::Unit;
use crate::world::World;
use serde::Serialize;

/// How long the calls of one piece take, so that progress shows and a signal is heard.
const PIECE_NS: f64 = 20e6;

const SECOND_NS: i64 = 1_000_000_000;

/// A row of an old table.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The source that is read.
    pub source: &'static str,
    /// Its name in the old table's manner.
    pub name: &'static str,
    /// What FreeBSD has instead, where that is another clock.
    pub freebsd: Option<&'static str>,
}

const fn entry(source: &'static str, name: &'static str, freebsd: Option<&'static str>) -> Entry {
    Entry { source, name, freebsd }
}

/// The rows of bench_time, in the order of its "Last value" lines.
pub const BENCH_TIME: [Entry; 9] = [
    entry("libc/gettimeofday", "gettimeofday(2)", None),
    entry("libc/time", "time(3)", None),
    entry("libc/getrusage", "getrusage(2/RUSAGE_SELF)", Some("CLOCK_VIRTUAL")),
    entry("vdso/time", "time(2/vDSO)", Some("CLOCK_SECOND")),
    entry(
        "libc/realtime_coarse",
        "clock_gettime(2/CLOCK_REALTIME_COARSE)",
        Some("CLOCK_REALTIME_FAST"),
    ),
    entry("libc/realtime", "clock_gettime(2/CLOCK_REALTIME)", None),
    entry("libc/process_cputime", "clock_gettime(2/CLOCK_PROCESS_CPUTIME_ID)", Some("CLOCK_PROF")),
    entry(
        "libc/monotonic_coarse",
        "clock_gettime(2/CLOCK_MONOTONIC_COARSE)",
        Some("CLOCK_MONOTONIC_FAST"),
    ),
    entry("libc/monotonic", "clock_gettime(2/CLOCK_MONOTONIC)", None),
];

/// The rows of timetest: the barest read of the counter, whatever this processor calls it, and
/// gettimeofday.
pub const TIMETEST: [Entry; 3] = [
    entry("counter/rdtsc", "rdtsc", None),
    entry("counter/cntvct", "cntvct", None),
    entry("libc/gettimeofday", "gettimeofday", None),
];

/// The result of a run.
#[derive(Debug, Serialize)]
pub struct Exact {
    /// `clockwise.exact`.
    pub schema: &'static str,
    /// Version of the schema.
    pub version: u32,
    /// Everything that a figure must be read with.
    pub machine: Machine,
    /// Calls asked for.
    pub calls: u64,
    /// It was ended early.
    pub interrupted: bool,
    /// One a clock.
    pub rows: Vec<ExactRow>,
}

/// One clock.
#[derive(Debug, Serialize)]
pub struct ExactRow {
    /// The source that was read.
    pub source: String,
    /// Its name in the old table.
    pub name: String,
    /// What FreeBSD has instead.
    pub freebsd_name: Option<String>,
    /// Calls made: as many as asked, unless interrupted.
    pub calls: u64,
    /// What they took together.
    pub elapsed_ns: Option<f64>,
    /// One of them.
    pub per_call_us: Option<f64>,
    /// The value of the last one, for a clock: seconds as decimal text, since a number would lose
    /// the nanoseconds in most readers.
    pub last_value_s: Option<String>,
    /// The value of the last one, for the counter.
    pub last_value_ticks: Option<u64>,
    /// Why there is none.
    pub reason: Option<String>,
}

/// As C prints each kind: a timeval in microseconds, a time_t in seconds, a timespec in nanoseconds.
fn seconds(source: &str, ns: i64) -> String {
    // As a timespec has it: the fraction counts up, also before the epoch.
    let (seconds, rest) = (ns.div_euclid(SECOND_NS), ns.rem_euclid(SECOND_NS));
    match source {
        "libc/gettimeofday" | "libc/getrusage" => format!("{seconds}.{:06}", rest / 1_000),
        "libc/time" | "vdso/time" => seconds.to_string(),
        _ => format!("{seconds}.{rest:09}"),
    }
}

/// Makes `calls` calls of each entry that this processor has.
pub fn run(world: &mut dyn World, entries: &[Entry], calls: u64, watch: &mut dyn Watch) -> Exact {
    let sources = world.sources();
    let found: Vec<(Entry, usize)> = entries
        .iter()
        .filter_map(|&entry| {
            sources.iter().position(|source| source.name == entry.source).map(|at| (entry, at))
        })
        .collect();
    let mut rows = Vec::new();
    let mut interrupted = false;
    for (i, &(entry, source)) in found.iter().enumerate() {
        watch.stage(entry.name);
        let mut row = ExactRow {
            source: entry.source.to_owned(),
            name: entry.name.to_owned(),
            freebsd_name: entry.freebsd.map(str::to_owned),
            calls: 0,
            elapsed_ns: None,
            per_call_us: None,
            last_value_s: None,
            last_value_ticks: None,
            reason: world.available(source).err().map(|missing| missing.reason.clone()),
        };
        let mut last_value = None;
        let mut piece = 1;
        while row.reason.is_none() && row.calls < calls {
            if watch.interrupted() {
                interrupted = true;
                if row.calls == 0 {
                    row.reason = Some("interrupted before its turn".to_owned());
                }
                break;
            }
            let now = piece.min(calls - row.calls);
            let (batch, last) = world.exactly(source, now);
            row.calls += now;
            *row.elapsed_ns.get_or_insert(0.0) += batch.wall_ns;
            last_value = last;
            // At most tenfold at a time: the first calls may be much dearer than the rest.
            let factor = (PIECE_NS / batch.wall_ns.max(1.0)).min(10.0);
            piece = ((now as f64 * factor) as u64).max(1);
            watch.done((i as f64 + row.calls as f64 / calls as f64) / found.len() as f64);
        }
        match world.sources()[source].unit {
            Unit::Ticks => row.last_value_ticks = last_value.map(i64::cast_unsigned),
            _ => row.last_value_s = last_value.map(|ns| seconds(entry.source, ns)),
        }
        row.per_call_us = row.elapsed_ns.map(|ns| ns / row.calls.max(1) as f64 / 1e3);
        rows.push(row);
    }
    let machine = world.machine().clone();
    Exact { schema: "clockwise.exact", version: 1, machine, calls, interrupted, rows }
}
