//! What `clockwise run` would gain, for people.

use crate::outlook::{Outlook, Program};
use crate::prices::Price;
use crate::render::Style;
use crate::render::table::{Column, TimeUnit, dim, render, wrapped};
use std::fmt::Write;

/// What the figures are, a line each.
const LEGEND: [&str; 2] = [
    "kernel: clock_gettime of libc, as programs call it, measured now.",
    "ordered, relaxed: the image's code, called likewise in this process; a prediction for CMD.",
];

/// The whole: prices, the program, where the image lies, the verdict. Of a program that is not there, only that.
pub fn text(outlook: &Outlook, style: Style) -> String {
    let is_missing = outlook.program.as_ref().is_some_and(Program::is_missing);
    let mut out = if is_missing { String::new() } else { prices(outlook, style) + "\n" };
    let mut say = |head: &str, body: &str| {
        for (i, line) in wrapped(body, style.width.saturating_sub(11)).into_iter().enumerate() {
            let head = if i == 0 { head } else { "" };
            let _ = writeln!(out, "{head:<11}{line}");
        }
    };
    if is_missing {
        say("verdict", &outlook.verdict);
        return out;
    }
    if let Some(unfit) = &outlook.unfit {
        say("counter", &format!("unfit: {unfit}"));
    }
    if let Some(program) = &outlook.program {
        say("program", &about(program));
    }
    say(
        "image",
        &match (&outlook.image, &outlook.image_refused) {
            (Some(path), _) if outlook.image_is_there => path.clone(),
            (Some(path), _) => format!("{path} (not laid yet)"),
            (None, refused) => format!("none: {}", refused.as_deref().unwrap_or("no reason")),
        },
    );
    let max_age = humantime::format_duration(std::time::Duration::from_nanos(outlook.max_age_ns));
    say("settings", &format!("order {}, compared with the kernel every {max_age}", outlook.order));
    say("passed on", "coarse clocks, time() and CPU-time clocks: the kernel answers as ever");
    say("verdict", &outlook.verdict);
    out
}

fn about(program: &Program) -> String {
    let path = program.path.as_deref().unwrap_or(&program.name);
    let reason = program.reason.as_deref().unwrap_or("no reason");
    match program.reach {
        "whole" => format!("{path} can be reached"),
        "part" => format!("{path} can be reached in part: {reason}"),
        "not" => format!("{path} cannot be reached: {reason}"),
        _ => format!("{path} can be reached as far as it can be told: {reason}"),
    }
}

fn prices(outlook: &Outlook, style: Style) -> String {
    let rows = &outlook.prices;
    let column = |figure: fn(&Price) -> Option<f64>| rows.iter().map(figure);
    let unit = TimeUnit::of(column(|row| row.kernel_ns));
    let columns = vec![
        Column::words("clock", rows.iter().map(|row| row.clock.clone())),
        Column::times("kernel", 0, unit, column(|row| row.kernel_ns)),
        Column::times("ordered", 0, unit, column(|row| row.ordered_ns)),
        Column::figures("gain", 0, column(|row| row.ordered_ratio)),
        Column::times("relaxed", 0, unit, column(|row| row.relaxed_ns)),
        Column::figures("gain ", 0, column(|row| row.relaxed_ratio)),
    ];
    let mut out = render(columns, &vec![None; rows.len()], style);
    for line in LEGEND.iter().flat_map(|line| wrapped(line, style.width)) {
        out.push_str(&dim(&line, style));
        out.push('\n');
    }
    out
}
