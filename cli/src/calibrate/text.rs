//! A calibration for people. At most 100 columns.

use super::report::{Against, Report};
use crate::pair::Rate;
use crate::render::Style;
use crate::render::table::{Column, DASH, digits, render, wrapped};
use std::fmt::Write;

/// Remarks in the table are not made narrower than this.
const REMARK_MIN: usize = 16;

/// Beside the bar.
pub fn progress(rate: Option<Rate>, elapsed_ns: i64) -> String {
    let after = elapsed_ns as f64 / 1e9;
    match rate {
        Some(rate) => format!(
            "{:.6} MHz ± {} ppm after {after:.1} s",
            rate.hz() / 1e6,
            digits(rate.uncertainty_ppm())
        ),
        None => format!("no figure after {after:.1} s"),
    }
}

/// The whole.
pub fn text(report: &Report, style: Style) -> String {
    let mut out = String::new();
    let machine = &report.machine;
    let early = if report.settings.interrupted { ", then ended early" } else { "" };
    let seconds = report.settings.elapsed_ns as f64 / 1e9;
    let facts = [
        ("CPU", machine.cpu.text()),
        ("kernel", machine.kernel.text()),
        ("hypervisor", machine.hypervisor.text()),
        ("clocksource", machine.clocksource.text()),
        ("load", machine.load.text()),
        ("NTP", machine.ntp.text()),
        ("measured", format!("for {seconds:.1} s{early}")),
    ];
    for (name, value) in facts {
        fact(&mut out, style, name, &value);
    }
    section(&mut out, style, "The counter's frequency");
    out.push_str(&frequencies(report, style));
    for line in wrapped(&meaning(report), style.width) {
        let _ = writeln!(out, "{line}");
    }
    section(&mut out, style, "Stability: the overlapping Allan deviation");
    match report.stability_reason {
        Some(reason) => {
            let _ = writeln!(out, "({reason})");
        }
        None => out.push_str(&stability(report, style)),
    }
    out
}

fn section(out: &mut String, style: Style, title: &str) {
    let title = console::Style::new().force_styling(style.colored).bold().green().apply_to(title);
    let _ = write!(out, "\n{title}\n");
}

fn fact(out: &mut String, style: Style, name: &str, value: &str) {
    let paint = console::Style::new().force_styling(style.colored).cyan();
    let name = paint.apply_to(format!("{name:12}")).to_string();
    let mut rest = wrapped(value, style.width.saturating_sub(12)).into_iter();
    let _ = writeln!(out, "{name}{}", rest.next().unwrap_or_default());
    rest.for_each(|line| out.push_str(&format!("{:12}{line}\n", "")));
}

/// Measured first, then what others say.
fn frequencies(report: &Report, style: Style) -> String {
    let mut rows: Vec<[String; 4]> = Vec::new();
    for against in [&report.raw, &report.monotonic] {
        rows.push(measured(against));
    }
    for claim in &report.claims {
        // The name of the file will do; the JSON has its path.
        let source = claim.source.rsplit('/').next().unwrap_or_default();
        let verdict = match (claim.refused, &claim.reason) {
            (Some(true), _) => "REFUSED: more than 1000 ppm off".to_owned(),
            (None, Some(reason)) => format!("{source}: {reason}"),
            _ => source.to_owned(),
        };
        let off = claim.off_ppm.map_or(DASH.to_owned(), |off| format!("{off:+.3}"));
        rows.push([format!("claimed by {}", claim.who), megahertz(claim.hz), off, verdict]);
    }
    // The remarks take what the figures leave, and are broken at spaces.
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0) + 1;
    let left = style.width.saturating_sub(width(0) + width(1) + width(2)).max(REMARK_MIN);
    let rows: Vec<[String; 4]> = rows.iter().flat_map(|row| broken(row, left)).collect();
    let column = |at: usize| rows.iter().map(move |row| row[at].clone()).collect::<Vec<_>>();
    let columns = vec![
        Column::words("", column(0)),
        Column::right("MHz", 0, column(1)),
        Column::right("ppm", 0, column(2)),
        Column::words("", column(3)),
    ];
    render(columns, &[], style)
}

/// The row with its remark on lines of at most `width`, further ones below it.
fn broken([name, mhz, ppm, remark]: &[String; 4], width: usize) -> Vec<[String; 4]> {
    let mut lines = wrapped(remark, width).into_iter();
    let first = [name.clone(), mhz.clone(), ppm.clone(), lines.next().unwrap_or_default()];
    let more = lines.map(|line| [String::new(), String::new(), String::new(), line]);
    std::iter::once(first).chain(more).collect()
}

fn measured(against: &Against) -> [String; 4] {
    let name = format!("measured by {}", against.clock);
    let ppm = against.uncertainty_ppm.map_or(DASH.to_owned(), |ppm| format!("±{}", digits(ppm)));
    let note = match (against.certain, against.reason) {
        (Some(true), _) => "",
        (Some(false), _) => "less certain than 1 ppm: busy, or short",
        (None, reason) => reason.unwrap_or_default(),
    };
    [name, megahertz(against.frequency_hz), ppm, note.to_owned()]
}

fn megahertz(hz: Option<f64>) -> String {
    hz.map_or(DASH.to_owned(), |hz| format!("{:.6}", hz / 1e6))
}

/// What the figures are worth.
fn meaning(report: &Report) -> String {
    let steering = &report.steering;
    let mut text = match (steering.measured_ppm, steering.uncertainty_ppm) {
        (Some(ppm), Some(error)) if ppm.abs() <= error => {
            format!(
                "MONOTONIC goes as fast as MONOTONIC_RAW, the same within ±{} ppm",
                digits(error)
            )
        }
        (Some(ppm), Some(error)) => {
            let way = if ppm < 0.0 { "slower" } else { "faster" };
            let (ppm, error) = (ppm.abs(), digits(error));
            format!("MONOTONIC goes {ppm:.4} ppm {way} than MONOTONIC_RAW (±{error})")
        }
        _ => "How MONOTONIC is steered cannot be told".to_owned(),
    };
    if let Some(ppm) = steering.kernel_ppm {
        let by = format!("{ppm:+.4} ppm");
        let by = if by[1..] == *"0.0000 ppm" { "nothing" } else { &by };
        let _ = write!(text, "; the kernel says that it corrects by {by}");
    }
    let from_counter = report.machine.counter_trusted;
    let _ = write!(
        text,
        ". {}",
        if from_counter {
            "Both clocks are computed from the counter itself: the first rate is what the kernel believes of it, not \
             how true that is."
        } else {
            "The kernel keeps time by another clocksource, so this is one against the other."
        }
    );
    text
}

fn stability(report: &Report, style: Style) -> String {
    let rows = &report.stability;
    let power = |value: Option<f64>| value.map_or(DASH.to_owned(), |value| format!("{value:.1e}"));
    let columns = vec![
        Column::right("tau s", 0, rows.iter().map(|row| row.tau_s.to_string())),
        Column::right("by MONOTONIC_RAW", 0, rows.iter().map(|row| power(row.raw_adev))),
        Column::right("by MONOTONIC", 0, rows.iter().map(|row| power(row.monotonic_adev))),
        Column::right("method", 0, rows.iter().map(|row| power(row.method_adev)))
            .about("what the width of the brackets alone may make of it"),
        Column::right("terms", 0, rows.iter().map(|row| row.terms.to_string())),
    ];
    render(columns, &[], style)
}
