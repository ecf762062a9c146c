//! The record for a reader at a terminal, in at most 100 columns.

use crate::accuracy::Windowed;
use crate::cost::Costs;
use crate::histogram::Quantiles;
use crate::provenance::Provenance;
use crate::startup::{Spread, Startup};
use comfy_table::{CellAlignment, Table, presets};

fn table<const N: usize>(header: [&str; N], rows: impl Iterator<Item = [String; N]>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header);
    rows.for_each(|row| {
        table.add_row(row);
    });
    for column in table.column_iter_mut() {
        column.set_padding((0, 1));
        if column.index > 0 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n")
}

fn title(of: &str, name: &str) -> String {
    if of.is_empty() { name.to_owned() } else { format!("{of} {name}") }
}

/// What the machine is.
pub fn provenance(provenance: &Provenance) -> String {
    let known = |fact: &Option<String>| fact.clone().unwrap_or_else(|| "(not known)".to_owned());
    let crates: Vec<String> =
        provenance.crates.iter().map(|(name, version)| format!("{name} {version}")).collect();
    let mut text = format!(
        "commit      {}\ncompiler    {}\nCPU         {}, {} usable\nkernel      {}\nhypervisor  {}\n\
         clocksource {}\nload        {}\ncrates      {}\n",
        known(&provenance.commit),
        provenance.rustc,
        known(&provenance.cpu),
        provenance.cpus,
        provenance.kernel,
        known(&provenance.hypervisor),
        known(&provenance.clocksource),
        known(&provenance.load_before),
        crates.join(", "),
    );
    for (name, reason) in &provenance.missing {
        text += &format!("missing     {name}: {reason}\n");
    }
    if let Some(unfit) = &provenance.unfit {
        text += &format!("The counter is not used: {unfit}\n");
    }
    text
}

/// What reads cost.
pub fn costs(costs: &Costs) -> String {
    let header =
        ["read", "min ns", "median ns", "mean ns", "x rdtsc", "x ordered", "copies, min ns"];
    let rows = costs.reads.iter().map(|cost| {
        let copies: Vec<String> =
            cost.copies.iter().map(|copy| format!("{:.2}", copy.min_ns)).collect();
        [
            title(cost.of, cost.name),
            format!("{:.2}", cost.best.min_ns),
            format!("{:.2}", cost.best.median_ns),
            format!("{:.2}", cost.best.mean_ns),
            format!("{:.3}", cost.x_rdtsc),
            format!("{:.3}", cost.x_ordered),
            copies.join(" "),
        ]
    });
    format!(
        "What a read costs, {} thread(s) at once\n{}\n\
         min, median, mean: of batches of 0.1 ms, each the best of the copies of a loop, which differ in place.\n\
         x ordered: by the cheaper of rdtscp and lfence;rdtsc. Both ratios are of minima.\n",
        costs.threads,
        table(header, rows),
    )
}

fn whole(value: Option<u64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

fn share(part: u64, of: u64) -> String {
    if part == 0 {
        "0".to_owned()
    } else {
        format!("{:.2}%", part as f64 * 100.0 / of.max(1) as f64)
    }
}

/// How far from the kernel.
pub fn accuracy(window: &Windowed) -> String {
    let header = [
        "clock",
        "p50",
        "p99",
        "max",
        "outside",
        "most",
        "steady p99",
        "max",
        "most",
        "mean",
        "+-",
    ];
    let rows = window.clocks.iter().map(|clock| {
        let distance = &clock.distance_ns;
        [
            title(clock.of, clock.name),
            whole(distance.p50),
            whole(distance.p99),
            whole(distance.max),
            share(clock.outside_ns.count, clock.readings),
            whole(clock.outside_ns.max),
            whole(clock.distance_steady_ns.p99),
            whole(clock.distance_steady_ns.max),
            whole(clock.outside_steady_ns.max),
            format!("{:.0}", clock.mean_ns),
            format!("{:.0}", clock.resolution_ns),
        ]
    });
    let mut text = format!(
        "How far from the kernel, ns; {:.0} s from second {:.0} on, {} busy thread(s), {} pauses of up to {:.0} ms\n{}\n\
         p50, p99, max: distance from the middle between two readings of the kernel, of {} readings each;\n\
         outside, most: readings outside of their brackets, and by how much at most: so far off for certain;\n\
         steady: of those not within 20 ms of a pause (1 ms or more without a reading); mean: with its sign;\n\
         +-: the narrowest half of a bracket: what the distance from the middle may be off by.\n",
        window.seconds,
        window.after_s,
        window.load_threads,
        window.pauses,
        window.pause_max_ns as f64 / 1e6,
        table(header, rows),
        window.clocks.first().map_or(0, |clock| clock.readings),
    );
    for clock in &window.clocks {
        let Some(bound) = &clock.bound else { continue };
        let figures = |q: &Quantiles| {
            format!("p50 {}, p99 {}, max {}", whole(q.p50), whole(q.p99), whole(q.max))
        };
        text += &format!(
            "{}:\n  bounds broken {} (steady ones {}); {} readings by the kernel\n  \
             bound {}; steady bound {}\n",
            title(clock.of, clock.name),
            bound.broken,
            bound.steady_broken,
            bound.from_kernel,
            figures(&bound.error_ns),
            figures(&bound.steady_error_ns),
        );
    }
    for clock in window.clocks.iter().filter(|clock| clock.went_back > 0) {
        text += &format!("{}: went back {} times\n", title(clock.of, clock.name), clock.went_back);
    }
    text
}

/// How it starts.
pub fn startup(starts: &[Startup]) -> String {
    let header = ["crate", "before main us", "first read us: min", "median", "max"];
    let us = |ns: i64| format!("{:.1}", ns as f64 / 1e3);
    let rows = starts.iter().map(|start| {
        let Spread { min_ns, median_ns, max_ns } = start.first_read;
        [start.of.to_owned(), us(start.before_main_ns), us(min_ns), us(median_ns), us(max_ns)]
    });
    let mut text = format!(
        "The first read of a process\n{}\nbefore main: what starting the process takes more than that of std.\n",
        table(header, rows)
    );
    for ours in starts.iter().filter_map(|start| start.ours.as_ref()) {
        text += &format!(
            "clockwise: the counter answers after {} us (median; at most {} us), until then the kernel; the first\n\
             read asks the kernel for the time {} times; never fast: {} processes{}\n",
            us(ours.until_fast.median_ns),
            us(ours.until_fast.max_ns),
            ours.kernel_reads_of_first_max,
            ours.never_fast,
            ours.unfit.as_ref().map_or(String::new(), |reason| format!(" ({reason})")),
        );
    }
    text
}
