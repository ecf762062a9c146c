//! A verification for people: the lines of 2002, what happened, the summary. At most 100 columns.

use super::judge::{Finding, Taken};
use super::summary::{LawRow, Row, Summary, Verdict, grouped, span};
use super::watch::Event;
use crate::render::Style;
use crate::render::table::{Column, DASH, digits, render, wrapped};
use clockwise::Timespec;
use console::Color;
use std::fmt::Write;
use std::time::Duration;

/// What stands above the lines.
pub fn heading(clock: &str, subject: &str, vdso: bool) -> String {
    let by = if vdso { "through the vDSO" } else { "by system calls" };
    format!(
        "sys: {clock} as the kernel tells it, {by}\nusr: the same by {subject} (difference in seconds)\n\n"
    )
}

/// The two lines of seed 003. The difference is that of what is printed; where that hides the nanoseconds they stand beside.
pub fn line(taken: &Taken, nanoseconds: bool) -> String {
    let (unit, places) = if nanoseconds { (1, 9) } else { (1_000, 6) };
    let [sys, usr] = [taken.kernel_ns(), taken.nanos].map(|ns| ns.div_euclid(unit));
    let time = |count: i64| seconds(count, places);
    let difference = usr.saturating_sub(sys);
    let sign = if difference < 0 { '-' } else { '+' };
    let difference = time(difference.saturating_abs());
    let fine =
        if nanoseconds { String::new() } else { format!(", {:+} ns", taken.difference_ns()) };
    format!("sys: {}\nusr: {} ({sign}{difference}{fine})\n", time(sys), time(usr))
}

/// A count of decimal fractions of a second.
fn seconds(count: i64, places: usize) -> String {
    let second = 10i64.pow(places as u32);
    if places == 9 {
        return Timespec::from_nanos(count).to_string();
    }
    let sign = if count < 0 { "-" } else { "" };
    let (whole, rest) =
        (count.unsigned_abs() / second as u64, count.unsigned_abs() % second as u64);
    format!("{sign}{whole}.{rest:0places$}")
}

/// Beside the bar.
pub fn progress(left_ns: i64, readings: u64, worst_ns: i64, violations: u64) -> String {
    let left = left_ns.max(0).unsigned_abs().div_ceil(1_000_000_000);
    // Hours do not need seconds, nor days minutes: there is little room.
    let left = match left {
        0..3_600 => left,
        3_600..86_400 => left.next_multiple_of(60),
        _ => left.next_multiple_of(3_600),
    };
    let left = humantime::format_duration(Duration::from_secs(left));
    let violations = match violations {
        0 => "no violation".to_owned(),
        1 => "1 VIOLATION".to_owned(),
        more => format!("{} VIOLATIONS", grouped(more)),
    };
    let readings = match readings {
        0..1_000_000 => grouped(readings),
        1_000_000..1_000_000_000 => format!("{} M", digits(readings as f64 / 1e6)),
        _ => format!("{} G", digits(readings as f64 / 1e9)),
    };
    format!("{left} left, {readings} readings, {violations}, worst {worst_ns} ns")
}

/// Something that happened, nothing for what happens all the time; a violation with the readings around it, if there is
/// room.
pub fn event(elapsed_ns: i64, event: &Event, with_window: bool, width: usize) -> Option<String> {
    let at = format!("{:.3} s", elapsed_ns as f64 / 1e9);
    let times = |times: u64| if times == 1 { String::new() } else { format!(" {times} times") };
    let text = match event {
        Event::Refreshed { .. } => return None,
        Event::Broken(finding) if with_window => return Some(window(&at, finding)),
        Event::Broken(finding) => finding.broken.words(finding.by_ns),
        Event::KernelStepped { by_ns } => {
            format!("the kernel's clock was set by {} s", signed(*by_ns))
        }
        Event::Stepped { by_ns: None | Some(0), times: count, .. } => {
            format!("a step was noticed and followed{}", times(*count))
        }
        Event::Stepped { by_ns: Some(by_ns), times: count, .. } => {
            format!("a step of {} s was noticed and followed{}", signed(*by_ns), times(*count))
        }
        Event::Slewed { times: count, residual_ns } => {
            let off = format!("{residual_ns} ns off the prediction");
            format!("the kernel has changed its rate{}: {off}", times(*count))
        }
        Event::Ahead { times: count, residual_ns } => {
            format!(
                "ours was ahead{} ({residual_ns} ns): from the kernel until there is a new line",
                times(*count)
            )
        }
        Event::Distrusted { reason } => format!("from the kernel: {reason}"),
        Event::Trusted => "the counter is trusted again".to_owned(),
        Event::KernelDisagrees { before_ns, vdso_ns, after_ns } => {
            let [before, vdso, after] =
                [before_ns, vdso_ns, after_ns].map(|&ns| Timespec::from_nanos(ns));
            format!(
                "the kernel contradicts itself: {before} by system call, then {vdso} by the vDSO, then \
                 {after} by system call"
            )
        }
        Event::Paused { ns } => format!("this tool did not run for {:.3} s", *ns as f64 / 1e9),
        Event::Moved { reason, .. } | Event::Failed { reason } => reason.clone(),
    };
    let lines = wrapped(&format!("{at}: {text}"), width.saturating_sub(2));
    let mut out = String::new();
    for (index, line) in lines.iter().enumerate() {
        let _ = writeln!(out, "{} {line}", if index == 0 { "*" } else { " " });
    }
    Some(out)
}

fn signed(ns: i64) -> String {
    let sign = if ns < 0 { '-' } else { '+' };
    format!("{sign}{}", Timespec::from_nanos(ns.saturating_abs()))
}

/// The readings around what was broken, the one in question marked.
fn window(at: &str, finding: &Finding) -> String {
    let mut out = format!("! {at}: {}\n", finding.broken.words(finding.by_ns));
    let _ = writeln!(
        out,
        "  {:>20} {:>20} {:>20} {:>8} {:>9} {:>8}",
        "kernel before", "reading", "kernel after", "seen", "off ns", "bound"
    );
    for (index, taken) in finding.window.iter().enumerate() {
        let [before, reading, after] = [taken.before_ns, taken.nanos, taken.after_ns]
            .map(|ns| Timespec::from_nanos(ns).to_string());
        let bound = taken.error_ns.map_or("-".to_owned(), |ns| ns.to_string());
        // As much as is needed to compare it with the reading.
        let seen =
            taken.seen_ns.map_or("-".to_owned(), |seen| match taken.nanos.checked_sub(seen) {
                Some(ns) if ns.unsigned_abs() < 10_000_000 => format!("{:+}", -ns),
                _ => "far".to_owned(),
            });
        let mark = if index == finding.at { '>' } else { ' ' };
        let _ = writeln!(
            out,
            "{mark} {before:>20} {reading:>20} {after:>20} {seen:>8} {:>9} {bound:>8}",
            taken.difference_ns()
        );
    }
    out
}

/// The end.
pub fn summary(summary: &Summary, style: Style) -> String {
    let mut out = String::from("\n");
    let paint = |text: &str, color: Color| {
        console::Style::new().force_styling(style.colored).fg(color).apply_to(text).to_string()
    };
    for (name, value) in facts(summary) {
        let mut rest = wrapped(&value, style.width.saturating_sub(12)).into_iter();
        let name = paint(&format!("{name:12}"), Color::Cyan);
        let _ = writeln!(out, "{name}{}", rest.next().unwrap_or_default());
        rest.for_each(|line| out.push_str(&format!("{:12}{line}\n", "")));
    }
    if !summary.verified_nothing() {
        out.push('\n');
        out.push_str(&readers(summary, style));
    }
    out.push('\n');
    let color = match summary.verdict {
        Verdict::Held => Color::Green,
        Verdict::Broken => Color::Red,
        Verdict::NotVerified => Color::Yellow,
    };
    for line in wrapped(&summary.verdict_text, style.width) {
        out.push_str(&paint(&line, color));
        out.push('\n');
    }
    out
}

fn facts(summary: &Summary) -> Vec<(&'static str, String)> {
    let machine = &summary.machine;
    let settings = &summary.settings;
    let share = summary.from_counter as f64 / summary.readings_with_bound.max(1) as f64;
    let early = if summary.interrupted { ", then ended early" } else { "" };
    let early = if summary.verified_nothing() && summary.elapsed_ns < settings.for_ns {
        ", then ended: there is nothing to verify"
    } else {
        early
    };
    let time = span(summary.elapsed_ns);
    let mut facts = vec![
        ("machine", format!("{}, {}", machine.cpu.text(), machine.kernel.text())),
        ("clocksource", machine.clocksource.text()),
        ("verified", format!("{} by {}, for {time}{early}", settings.clock, settings.subject)),
        (
            "readings",
            format!(
                "{}; {} with their bound, {:.2} % of these from the counter",
                grouped(summary.readings),
                grouped(summary.readings_with_bound),
                100.0 * share
            ),
        ),
        ("laws", laws(summary)),
    ];
    if summary.verified_nothing() {
        return facts;
    }
    facts.push(("drift", drift(summary)));
    facts.push(("distance", distance(summary)));
    facts.push(("provably", provable(summary)));
    if let Some(own) = &summary.subject {
        let unfit = own.unfit.as_ref().map_or(String::new(), |why| format!("; now {why}"));
        facts.push((
            "followed",
            format!(
                "{} refreshes, off the prediction by {} ns at most; {} kernel answers, {} slews, ours was \
                 ahead {} times, {} steps, {} distrusts{unfit}",
                grouped(own.refreshes),
                own.residual_max_ns,
                grouped(own.kernel_answers),
                own.slews,
                own.aheads,
                own.steps,
                own.distrusts
            ),
        ));
    }
    facts.push(("kernel", kernel(summary)));
    if summary.log_incomplete || summary.events_lost > 0 {
        let lost = summary.events_lost;
        facts
            .push(("log", format!("lines are missing; {lost} events came too fast to be written")));
    }
    facts
}

fn laws(summary: &Summary) -> String {
    let row = |row: &LawRow| match (row.asked, row.violations, row.worst_ns) {
        (false, ..) => None,
        (true, 0, _) => Some(format!("{} held", row.name)),
        (true, times, worst) => {
            let worst_ns = worst.unwrap_or_default();
            Some(format!("{} BROKEN {} times, by {worst_ns} ns at most", row.name, grouped(times)))
        }
    };
    let told = summary.laws.iter().filter_map(row).collect::<Vec<_>>().join(", ");
    if told.is_empty() {
        return "not asked".to_owned();
    }
    let mut text = told;
    if summary.settings.settable {
        text.push_str("; three laws, for a clock that can be set: it may go back by a step");
    }
    if summary.handed_over > 0 {
        let _ = write!(text, "; {} times of other threads were seen", grouped(summary.handed_over));
    }
    if summary.excused > 0 {
        let _ = write!(text, "; {} readings lagged a step", grouped(summary.excused));
    }
    text
}

fn drift(summary: &Summary) -> String {
    match (summary.drift.ppm, summary.drift.uncertainty_ppm, &summary.drift.reason) {
        (Some(ppm), Some(error), _) => format!("{ppm:+.6} ppm ± {error:.6}"),
        (.., reason) => format!("({})", reason.as_deref().unwrap_or("not known")),
    }
}

fn distance(summary: &Summary) -> String {
    let distance = &summary.distance;
    let (Some(least), Some(most)) = (distance.least_ns, distance.most_ns) else {
        return "(no reading in a narrow bracket)".to_owned();
    };
    let percentiles = [
        ("median", distance.p50_ns),
        ("p90", distance.p90_ns),
        ("p99", distance.p99_ns),
        ("p99.9", distance.p99_9_ns),
        ("p99.99", distance.p99_99_ns),
    ];
    let told = percentiles.iter().filter_map(|(name, ns)| Some(format!("{name} {}", (*ns)?)));
    let told = told.collect::<Vec<_>>().join(", ");
    let comma = if told.is_empty() { "" } else { ", " };
    let count = grouped(distance.count);
    format!(
        "{told}{comma}from {least:+} to {most:+} ns from the middle, of the {count} readings in narrow brackets"
    )
}

fn provable(summary: &Summary) -> String {
    match summary.provable.by_ns {
        0 => "of all readings, in wide brackets too, none was outside its bracket".to_owned(),
        by_ns => {
            let side = if by_ns > 0 { "late" } else { "early" };
            let at = summary.provable.elapsed_ns as f64 / 1e9;
            let by_ns = by_ns.unsigned_abs();
            format!(
                "{by_ns} ns too {side} at most, after {at:.3} s; of all readings, in wide brackets too"
            )
        }
    }
}

fn kernel(summary: &Summary) -> String {
    let kernel = &summary.kernel;
    let mut text = if !kernel.vdso {
        "no vDSO: brackets are system calls".to_owned()
    } else if kernel.compared == 0 {
        "read through the vDSO".to_owned()
    } else {
        let compared = grouped(kernel.compared);
        match kernel.disagreed {
            0 => format!("vDSO and system call agreed each of {compared} times"),
            times => {
                format!("vDSO and system call CONTRADICTED each other {times} of {compared} times")
            }
        }
    };
    if kernel.steps > 0 {
        let _ = write!(text, "; set {} times meanwhile", kernel.steps);
    }
    text
}

fn readers(summary: &Summary, style: Style) -> String {
    let rows = &summary.readers;
    // Whole nanoseconds, and shown so.
    let whole = |of: fn(&Row) -> Option<i64>| {
        rows.iter().map(move |row| of(row).map_or(DASH.to_owned(), |ns| ns.to_string()))
    };
    let name = |row: &Row| row.cpu.map_or("lines".into(), |cpu| format!("cpu {cpu}"));
    let columns = vec![
        Column::words("reader", rows.iter().map(name))
            .about("a thread on each processor; `lines` is the one that reads for the lines above"),
        Column::right("readings", 0, rows.iter().map(|row| grouped(row.readings))),
        Column::right("median ns", 0, whole(|row| row.distance.p50_ns.map(u64::cast_signed))),
        Column::right("p99 ns", 0, whole(|row| row.distance.p99_ns.map(u64::cast_signed))),
        Column::right("least ns", 0, whole(|row| row.distance.least_ns)),
        Column::right("most ns", 0, whole(|row| row.distance.most_ns)),
        Column::right("provably ns", 0, rows.iter().map(|row| row.provable_ns.to_string())),
        Column::right("violations", 0, rows.iter().map(|row| grouped(row.violations))),
    ];
    let mut text = render(columns, &[], style);
    for moved in rows.iter().filter_map(|row| row.moved.as_ref()) {
        let _ = writeln!(text, "{moved}");
    }
    text
}
