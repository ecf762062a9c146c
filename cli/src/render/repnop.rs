//! The table of the repnop.org gettimeofday benchmark (2007-2012): a section a clock, and in it the
//! processor's brand, the kernel, the relative cost, and the absolute cost as `A / B` in ticks.
//!
//! B is the cost of a cpuid-protected rdtsc. In a guest cpuid is caught by the hypervisor, which
//! makes B meaningless; so the same table stands below on the basis of the ordered rdtsc. The old
//! site's own results ship as a record: its CLOCK_* sections give both figures for two calls, and so
//! do ours. Figures of different machines must not be compared, as that site said itself.

use crate::report::{Report, Row};
use anyhow::{Result, bail};
use comfy_table::{CellAlignment, Table as Comfy};
use std::fmt::Write;

/// The sections: the heading, the source that is measured here, and the heading of the old records
/// that go with it.
const SECTIONS: [(&str, &str, &str); 7] = [
    ("gettimeofday", "libc/gettimeofday", "gettimeofday"),
    ("CLOCK_REALTIME", "libc/realtime", "CLOCK_REALTIME"),
    (
        "CLOCK_REALTIME_COARSE (FreeBSD: CLOCK_REALTIME_FAST)",
        "libc/realtime_coarse",
        "CLOCK_REALTIME_FAST",
    ),
    ("CLOCK_MONOTONIC", "libc/monotonic", ""),
    ("CLOCK_MONOTONIC_COARSE (FreeBSD: CLOCK_MONOTONIC_FAST)", "libc/monotonic_coarse", ""),
    ("CLOCK_MONOTONIC_RAW", "libc/monotonic_raw", ""),
    ("CLOCK_BOOTTIME", "libc/boottime", ""),
];

/// `section TAB brand TAB kernel TAB relative cost TAB A TAB B`.
const RECORDS: &str = include_str!("../../data/repnop.tsv");

/// Whether the table needs this source.
pub fn is_listed(name: &str) -> bool {
    name.starts_with("counter/") || SECTIONS.iter().any(|(_, source, _)| *source == name)
}

/// What the costs are related to.
struct Basis {
    title: &'static str,
    ticks: f64,
    with_records: bool,
}

/// The tables on both bases.
pub fn repnop(report: &Report) -> Result<String> {
    let find = |names: &[&str]| {
        let found = report.sources.iter().find(|row| names.contains(&row.name.as_str()));
        found.and_then(|row| row.throughput.median_ticks)
    };
    let protected = find(&["counter/cpuid;rdtsc"]);
    let ordered = find(&["counter/lfence;rdtsc", "counter/isb;cntvct;isb"]);
    if ordered.is_none() {
        let reason = report.machine.counter.reason.as_deref();
        bail!(
            "this table is in ticks of the counter, and there are none: {}; use another --format",
            reason.unwrap_or("no sample of the ordered counter (see --time, --only)")
        );
    }
    let mut out = String::new();
    let traps = report.notes.iter().find(|note| note.name == "cpuid_traps");
    if let Some(ticks) = protected {
        let title = "Basis: cpuid-protected rdtsc";
        tables(&mut out, report, &Basis { title, ticks, with_records: true });
        if let Some(note) = traps {
            let _ = writeln!(out, "Warning: {}.\n", note.text);
        }
    }
    if let Some(ticks) = ordered {
        let title = "Basis: ordered read of the counter";
        tables(&mut out, report, &Basis { title, ticks, with_records: false });
    }
    out.push_str(
        "Costs of the CLOCK_* sections are of two calls, as in the old tables. Do not compare across\n\
         machines: the timer behind the call decides.\n",
    );
    Ok(out)
}

fn tables(out: &mut String, report: &Report, basis: &Basis) {
    let _ = writeln!(out, "{}\n", basis.title);
    for (heading, source, old) in SECTIONS {
        let Some(row) = report.sources.iter().find(|row| row.name == source) else { continue };
        let mut table = Comfy::new();
        table.load_style(comfy_table::presets::NOTHING);
        table.set_header(["Processor Brand", "Kernel", "Relative Cost", "Absolute Cost"]);
        table.add_row(here(report, row, source, basis.ticks));
        if basis.with_records && !old.is_empty() {
            RECORDS.lines().filter_map(|line| record(line, old)).for_each(|cells| {
                table.add_row(cells);
            });
        }
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        if let Some(column) = table.column_mut(2) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        let _ = writeln!(out, "{heading}\n");
        for line in table.lines() {
            let _ = writeln!(out, "{}", line.trim_end());
        }
        out.push('\n');
    }
}

/// This machine's line.
fn here(report: &Report, row: &Row, source: &str, basis_ticks: f64) -> [String; 4] {
    let machine = &report.machine;
    let calls = if source.ends_with("gettimeofday") { 1.0 } else { 2.0 };
    let (relative, absolute) = match row.throughput.median_ticks {
        Some(ticks) if basis_ticks > 0.0 => (
            format!("{:.6}", ticks / basis_ticks),
            format!("{:.0} / {:.0}", calls * ticks, calls * basis_ticks),
        ),
        _ => ("-".to_owned(), row.reason.clone().unwrap_or_else(|| "no sample".to_owned())),
    };
    [machine.cpu.text(), machine.kernel.text(), relative, absolute]
}

/// A line of the records, if it is of this section.
fn record(line: &str, section: &str) -> Option<[String; 4]> {
    let fields: Vec<&str> = line.split('\t').collect();
    match fields[..] {
        [of, brand, kernel, relative, a, b] if of == section => {
            Some([brand.into(), kernel.into(), relative.into(), format!("{a} / {b}")])
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_is_of_a_section_and_its_costs_agree() {
        let mut count = 0;
        for line in RECORDS.lines() {
            let section = line.split('\t').next().unwrap();
            assert!(SECTIONS.iter().any(|(.., old)| *old == section), "{line}");
            let [_, _, relative, absolute] = record(line, section).expect(line);
            let (a, b) = absolute.split_once(" / ").unwrap();
            let ratio = a.parse::<f64>().unwrap() / b.parse::<f64>().unwrap();
            let relative: f64 = relative.parse().unwrap();
            // The site gave this one ratio to costs that are those of its REALTIME_FAST.
            if line.starts_with("CLOCK_REALTIME\tIntel Pentium 4") {
                continue;
            }
            // Ticks are whole numbers, so the ratio is only that exact.
            assert!((ratio / relative - 1.0).abs() < 0.01, "{line}");
            count += 1;
        }
        assert_eq!(count, 24);
    }
}
