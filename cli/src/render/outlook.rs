//! What `clockwise run` would gain, for people.

use crate::outlook::{Outlook, Program};
use crate::prices::Price;
use crate::render::Style;
use crate::render::table::{Column, TimeUnit, render, wrapped};
use std::fmt::Write;

/// The whole: prices, the program, where the image lies, the verdict.
pub fn text(outlook: &Outlook, style: Style) -> String {
    let mut out = prices(outlook, style);
    out.push('\n');
    let mut say = |head: &str, body: &str| {
        for (i, line) in wrapped(body, style.width.saturating_sub(11)).into_iter().enumerate() {
            let head = if i == 0 { head } else { "" };
            let _ = writeln!(out, "{head:<11}{line}");
        }
    };
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
        "missing" => reason.to_owned(),
        _ => format!("{path} can be reached as far as it can be told: {reason}"),
    }
}

fn prices(outlook: &Outlook, style: Style) -> String {
    let rows = &outlook.prices;
    let column = |figure: fn(&Price) -> Option<f64>| rows.iter().map(figure);
    let unit = TimeUnit::of(column(|row| row.kernel_ns));
    let columns = vec![
        Column::words("clock", rows.iter().map(|row| row.clock.clone())),
        Column::times("kernel", 0, unit, column(|row| row.kernel_ns)).about("what it costs now"),
        Column::times("ordered", 0, unit, column(|row| row.ordered_ns)).about(
            "predicted: the library's read in this process; a call from C adds a nanosecond or two",
        ),
        Column::figures("gain", 0, column(|row| row.ordered_ratio)),
        Column::times("relaxed", 0, unit, column(|row| row.relaxed_ns)),
        Column::figures("gain ", 0, column(|row| row.relaxed_ratio)),
    ];
    render(columns, &vec![None; rows.len()], style)
}
