//! The result for people: the machine, what a read costs, what a clock is worth, what to know.

use crate::render::Style;
use crate::render::table::{Column, DASH, TimeUnit, digits, dim, render, wrapped};
use crate::report::{Cost, Report, Row, dropped_percent};
use crate::sources::Via;
use console::Color;
use std::fmt::Write;

/// The whole.
pub fn text(report: &Report, style: Style) -> String {
    let mut out = machine(report, style);
    let measured: Vec<&Row> =
        report.sources.iter().filter(|row| row.status == "measured").collect();
    if !measured.is_empty() {
        let unit = TimeUnit::of(measured.iter().map(|row| row.throughput.median_ns));
        let title = format!("What a read costs, {}", unit.name);
        section(&mut out, style, &title, &cost(report, &measured, unit, style));
        section(&mut out, style, "What a clock is worth", &worth(&measured, style));
        if measured.iter().any(|row| !row.threads.is_empty()) {
            section(&mut out, style, "Several threads at once", &threads(&measured, style));
        }
        if measured.iter().any(|row| row.cold.is_some()) {
            section(&mut out, style, "A first call", &cold(&measured, style));
        }
    }
    let missing: Vec<&Row> = report.sources.iter().filter(|row| row.status != "measured").collect();
    if !missing.is_empty() {
        section(&mut out, style, "Not measured", &unmeasured(&missing, style));
    }
    if !report.notes.is_empty() {
        let mut notes = String::new();
        for note in &report.notes {
            let color = if note.is_fault { Color::Red } else { Color::Yellow };
            for (i, line) in wrapped(&note.text, style.width - 2).into_iter().enumerate() {
                let bullet = if i == 0 { paint("!", color, style) } else { " ".to_owned() };
                let _ = writeln!(notes, "{bullet} {line}");
            }
        }
        section(&mut out, style, "Notes", &notes);
    }
    // Last, where the reader of a terminal is when the run is over.
    if let Some(short) = in_short(report) {
        section(&mut out, style, "In short", &(wrapped(&short, style.width).join("\n") + "\n"));
    }
    out
}

/// The figures that most readers came for, in a sentence.
fn in_short(report: &Report) -> Option<String> {
    let median = |name: &str| {
        let row = report.sources.iter().find(|row| row.name == name)?;
        row.throughput.median_ns.map(digits)
    };
    let (libc, system) = (median("libc/monotonic")?, median("syscall/monotonic")?);
    let mut text = format!(
        "The kernel's time costs {libc} ns through libc and {system} ns by system call; as of the last \
         tick {} ns",
        median("libc/monotonic_coarse")?
    );
    let ordered = median("counter/lfence;rdtsc").or_else(|| median("counter/isb;cntvct;isb"));
    if let (Some(bare), Some(ordered)) =
        (median("counter/rdtsc").or_else(|| median("counter/cntvct")), ordered)
    {
        let _ = write!(text, "; the counter {bare} ns, or {ordered} ns if threads are to agree");
    }
    Some(text + ".")
}

fn paint(text: &str, color: Color, style: Style) -> String {
    console::Style::new().force_styling(style.colored).fg(color).apply_to(text).to_string()
}

fn section(out: &mut String, style: Style, title: &str, body: &str) {
    let title = console::Style::new().force_styling(style.colored).bold().green().apply_to(title);
    let _ = write!(out, "\n{title}\n{body}");
}

fn machine(report: &Report, style: Style) -> String {
    let machine = &report.machine;
    let available = &machine.clocksource_available;
    let clocksource = format!("{} (available: {})", machine.clocksource.text(), available.text());
    let frequency = match (report.counter.frequency_hz, report.counter.uncertainty_ppm) {
        (Some(hz), Some(ppm)) => format!(
            "{:.6} MHz by the kernel's raw clock, ±{} ppm; claimed: {}",
            hz / 1e6,
            digits(ppm),
            machine.frequency_claimed.text()
        ),
        _ => machine.counter.text(),
    };
    let lines = [
        ("CPU", machine.cpu.text()),
        ("kernel", machine.kernel.text()),
        ("hypervisor", machine.hypervisor.text()),
        ("clocksource", clocksource),
        ("counter", frequency),
        ("vDSO", machine.vdso.text()),
        ("governor", machine.governor.text()),
        ("processors", machine.cpus.text()),
        ("load", machine.load.text()),
        ("NTP", machine.ntp.text()),
        ("seccomp", machine.seccomp.text()),
    ];
    let mut out = String::new();
    for (name, value) in lines {
        let name = paint(&format!("{name:12}"), Color::Cyan, style);
        let mut rest = wrapped(&value, style.width.saturating_sub(12)).into_iter();
        let _ = writeln!(out, "{name}{}", rest.next().unwrap_or_default());
        rest.for_each(|line| out.push_str(&format!("{:12}{line}\n", "")));
    }
    out
}

/// Yellow for reads that enter the kernel, grey for those that tell no time.
fn marks(rows: &[&Row]) -> Vec<Option<Color>> {
    let color = |row: &&Row| match row.via {
        Via::Syscall => Some(Color::Yellow),
        Via::Base => Some(Color::Color256(8)),
        _ => None,
    };
    rows.iter().map(color).collect()
}

fn names(rows: &[&Row]) -> Column {
    Column::words("source", rows.iter().map(|row| row.name.clone()))
}

fn cost(report: &Report, rows: &[&Row], unit: TimeUnit, style: Style) -> String {
    let of = |get: fn(&Cost) -> Option<f64>| rows.iter().map(move |row| get(&row.throughput));
    let percent = |cost: &Cost| {
        let (low, high) = (cost.median_low_ns?, cost.median_high_ns?);
        cost.median_ns.filter(|&ns| ns > 0.0).map(|ns| 50.0 * (high - low) / ns)
    };
    let dropped = |row: &&Row| format!("{:.0}", dropped_percent(row.costs()));
    let mut columns = vec![
        names(rows),
        Column::times_bare("min", 0, unit, of(|cost| cost.min_ns))
            .about("the best batch of calls that may overlap"),
        Column::times_bare("median", 0, unit, of(|cost| cost.median_ns)).about("the middle one"),
        Column::right(
            "±%",
            5,
            rows.iter().map(|row| {
                percent(&row.throughput).map_or(DASH.into(), |percent| format!("{percent:.1}"))
            }),
        )
        .about("95 % interval of the median in this run"),
        Column::times_bare("p99", 2, unit, of(|cost| cost.p99_ns)).about("99 % of batches"),
        Column::times_bare("cpu", 7, unit, of(|cost| cost.cpu_median_ns))
            .about("median CPU time, of disturbed batches too"),
        Column::figures("ticks", 4, of(|cost| cost.median_ticks)).about("the median in ticks"),
        Column::figures("x bare", 3, of(|cost| cost.ratio_bare_counter))
            .about("against the counter alone"),
        Column::figures("x cpuid", 8, of(|cost| cost.ratio_cpuid_rdtsc))
            .about("against cpuid; rdtsc"),
        Column::times_bare("latency", 1, unit, rows.iter().map(|row| row.latency.median_ns)).about(
            "each call waits for the result of the last, through its argument or its own fence",
        ),
        Column::times_bare("serial", 1, unit, rows.iter().map(|row| row.serialised.median_ns))
            .about("a fence after each call"),
        Column::right("lost%", 6, rows.iter().map(dropped)).about("batches that were disturbed"),
    ];
    if report.settings.rate_hz.is_some() {
        columns.push(
            Column::figures("share%", 0, rows.iter().map(|row| row.share_percent))
                .about("of one processor, at the rate asked for"),
        );
    }
    render(columns, &marks(rows), style)
}

fn worth(rows: &[&Row], style: Style) -> String {
    // One row of the table is one clock in one way, those included that tell no time: they have
    // a tail too.
    let us = TimeUnit { name: "us", ns: 1e3 };
    let ns = TimeUnit { name: "ns", ns: 1.0 };
    let step = |row: &&Row| match (row.quality.step_median_ns, row.quality.is_coarse) {
        (Some(step_ns), Some(true)) => digits(step_ns / us.ns),
        // The clock moved between any two readings: its own step is this or less.
        (Some(step_ns), _) => format!("<{}", digits(step_ns / us.ns)),
        (None, _) if row.quality.readings > 0 => "not seen".to_owned(),
        (None, _) => DASH.to_owned(),
    };
    let back = |row: &&Row| row.quality.backward.map_or(DASH.to_owned(), |back| back.to_string());
    let of = |get: fn(&Row) -> Option<f64>| rows.iter().map(move |row| get(row));
    let columns = vec![
        names(rows),
        Column::times(
            "getres",
            5,
            us,
            of(|row| {
                row.quality.advertised_resolution_ns.map(|resolution_ns| resolution_ns as f64)
            }),
        )
        .about("the advertised resolution"),
        Column::right("step us", 0, rows.iter().map(step)).about(
            "seen between readings that differ, < where it is the reader's pace and not the clock's",
        ),
        Column::figures("same%", 6, of(|row| row.quality.repeated_percent))
            .about("readings equal to the one before"),
        Column::right("back", 1, rows.iter().map(back)).about("steps back in one thread"),
        Column::figures("acausal", 0, of(|row| row.quality.causality.violations_per_million)).about(
            "after how many of a million hand-overs from another thread a reading was older than what \
             had been handed over",
        ),
        Column::times("by", 1, ns, of(|row| row.quality.causality.worst_ns))
            .about("by how much at most"),
        Column::times("p99", 4, ns, of(|row| row.tail.p99_ns)).about("of calls timed one by one"),
        Column::times("p99.9", 2, ns, of(|row| row.tail.p999_ns)),
        Column::times("worst", 1, ns, of(|row| row.tail.worst_ns)).about("the worst of them"),
        Column::times("tick", 3, ns, of(|row| row.tail.at_tick_worst_ns))
            .about("apart from that, the worst at the phase of the kernel's tick"),
        Column::times("taken", 7, ns, of(|row| row.tail.preempted_worst_ns))
            .about("and with the processor taken away"),
    ];
    let color = |row: &&Row| match (row.quality.backward, row.quality.causality.violations) {
        (None | Some(0), None | Some(0)) => None,
        _ => Some(Color::Red),
    };
    render(columns, &rows.iter().map(color).collect::<Vec<_>>(), style)
}

/// The reason that all rows have instead of a figure, if it is one for all.
fn one_reason<'a>(reasons: impl IntoIterator<Item = Option<&'a str>>) -> Option<String> {
    let mut reasons = reasons.into_iter();
    let first = reasons.next()??;
    reasons.all(|reason| reason == Some(first)).then(|| format!("not measured: {first}\n"))
}

fn threads(rows: &[&Row], style: Style) -> String {
    let counts: Vec<usize> = rows
        .iter()
        .map(|row| &row.threads)
        .max_by_key(|t| t.len())
        .map_or(Vec::new(), |threads| threads.iter().map(|crowd| crowd.threads).collect());
    let reasons =
        rows.iter().flat_map(|row| row.threads.iter().map(|crowd| crowd.reason.as_deref()));
    if let Some(reason) = one_reason(reasons) {
        return reason;
    }
    let unit = TimeUnit::of(rows.iter().map(|row| row.throughput.median_ns));
    let mut columns = vec![names(rows)];
    for (i, count) in counts.iter().enumerate() {
        let crowd = move |row: &&Row| row.threads.get(i).and_then(|crowd| crowd.median_ns);
        let worst = move |row: &&Row| row.threads.get(i).and_then(|crowd| crowd.max_ns);
        let head = format!("{count} thr.");
        columns.push(Column::times(&head, 0, unit, rows.iter().map(crowd)).about(match i {
            0 => "with so many threads calling at once, the middle thread's median call",
            _ => "",
        }));
        let about = if i == 0 { "the slowest thread's" } else { "" };
        columns.push(Column::times("slowest", 1, unit, rows.iter().map(worst)).about(about));
    }
    render(columns, &marks(rows), style)
}

fn cold(rows: &[&Row], style: Style) -> String {
    let of = |get: fn(&crate::report::ColdCost) -> Option<f64>| {
        rows.iter().map(move |row| row.cold.as_ref().and_then(get))
    };
    let reasons = rows.iter().map(|row| row.cold.as_ref().and_then(|cold| cold.reason.as_deref()));
    if let Some(reason) = one_reason(reasons) {
        return reason;
    }
    let unit = TimeUnit::of(of(|cold| cold.after_l2_ns));
    let samples =
        |row: &&Row| row.cold.as_ref().map_or(DASH.to_owned(), |cold| cold.samples.to_string());
    let columns = vec![
        names(rows),
        Column::times("warm", 0, unit, of(|cold| cold.warm_ns)).about("the median of single calls"),
        Column::times("after L2", 0, unit, of(|cold| cold.after_l2_ns))
            .about("when the core's own caches were overwritten before each"),
        Column::times("after LLC", 0, unit, of(|cold| cold.after_llc_ns))
            .about("when all caches were; the timing around the call is not cold"),
        Column::right("samples", 1, rows.iter().map(samples)),
    ];
    render(columns, &marks(rows), style)
}

/// The rows without a figure, by reason.
fn unmeasured(rows: &[&Row], style: Style) -> String {
    let mut groups: Vec<(&str, &str, Vec<&str>)> = Vec::new();
    for row in rows {
        let errno = row.errno_name.as_deref().unwrap_or(DASH);
        let reason = row.reason.as_deref().unwrap_or("not known");
        match groups.iter_mut().find(|(e, r, _)| (*e, *r) == (errno, reason)) {
            Some((.., names)) => names.push(&row.name),
            None => groups.push((errno, reason, vec![&row.name])),
        }
    }
    let mut out = String::new();
    for (errno, reason, names) in groups {
        let mut reason = wrapped(reason, style.width - 8).into_iter();
        let first = reason.next().unwrap_or_default();
        let _ = writeln!(out, "{}{first}", paint(&format!("{errno:8}"), Color::Yellow, style));
        reason.for_each(|line| out.push_str(&format!("{:8}{line}\n", "")));
        for line in wrapped(&names.join(" "), style.width - 8) {
            let _ = writeln!(out, "{:8}{}", "", dim(&line, style));
        }
    }
    out
}
