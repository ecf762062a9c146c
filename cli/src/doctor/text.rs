//! The findings for people: what is wrong first, with what to do; what is good in a line each.

use super::checks::Check;
use super::finding::{Finding, Verdict};
use super::report::Report;
use crate::machine::Fact;
use crate::render::Style;
use crate::render::table::{Column, dim, render, wrapped};
use console::Color;
use std::fmt::Write;

const NAME: usize = 21;

/// The whole.
pub fn text(report: &Report, style: Style) -> String {
    let mut out = String::new();
    for line in wrapped(&report.machine, style.width) {
        let _ = writeln!(out, "{line}");
    }
    for verdict in [Verdict::Bad, Verdict::Warning, Verdict::Unknown, Verdict::Good] {
        let mut findings = report.checks.iter().filter(|one| one.verdict == verdict).peekable();
        if findings.peek().is_some() {
            let _ = writeln!(out, "\n{}", painted(verdict.name(), verdict, style));
        }
        for finding in findings {
            one(&mut out, finding, style);
        }
    }
    let counts = &report.counts;
    // In the words of the headings.
    let plural = if counts.warning == 1 { "" } else { "s" };
    let _ = writeln!(
        out,
        "\n{} bad, {} warning{plural}, {} cannot be told, {} good",
        counts.bad, counts.warning, counts.cannot_tell, counts.good
    );
    for line in wrapped(&report.summary, style.width) {
        let _ = writeln!(out, "{}", painted(&line, report.verdict, style));
    }
    out
}

fn one(out: &mut String, finding: &Finding, style: Style) {
    let room = style.width.saturating_sub(NAME + 2);
    let mut head = finding.check;
    for line in wrapped(&finding.says, room) {
        let _ = writeln!(out, "  {head:<NAME$}{line}");
        head = "";
    }
    let mut more = |label: &str, body: &str, is_dim: bool| {
        let room = room.saturating_sub(label.len());
        let mut label = label.to_owned();
        for line in wrapped(body, room) {
            let text = format!("{label}{line}");
            let text = if is_dim { dim(&text, style) } else { text };
            let _ = writeln!(out, "  {:<NAME$}{text}", "");
            label = " ".repeat(label.len());
        }
    };
    let is_good = finding.verdict == Verdict::Good;
    if is_good {
        let seen: Vec<String> = finding.evidence.iter().map(briefly).collect();
        if !seen.is_empty() {
            more("", &one_line(&format!("[{}]", seen.join("; ")), room), true);
        }
    } else {
        for fact in &finding.evidence {
            more("seen: ", &seen(fact), true);
        }
    }
    if let Some(remedy) = &finding.remedy {
        more("do:   ", remedy, false);
    }
    if let Some(adds) = &finding.as_root {
        more("root: ", adds, false);
    }
}

fn seen(fact: &Fact) -> String {
    format!("{}: {}", fact.source, fact.text())
}

/// Where nobody needs to look again: the file's name alone, and what it says.
fn briefly(fact: &Fact) -> String {
    let source = if fact.source.starts_with('/') && !fact.source.contains(' ') {
        fact.source.rsplit('/').next().unwrap_or_default()
    } else {
        &fact.source
    };
    format!("{source}: {}", fact.text())
}

/// As much as a line holds; --format json has the rest.
fn one_line(text: &str, room: usize) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    let cut: String = text.chars().take(room.saturating_sub(4)).collect();
    format!("{cut}...]")
}

fn painted(text: &str, verdict: Verdict, style: Style) -> String {
    let color = match verdict {
        Verdict::Bad => Color::Red,
        Verdict::Warning | Verdict::Unknown => Color::Yellow,
        Verdict::Good => Color::Green,
    };
    console::Style::new().force_styling(style.colored).fg(color).bold().apply_to(text).to_string()
}

/// The table of checks.
pub fn list(checks: &[&Check], style: Style) -> String {
    let mark = |check: &&Check| if check.essential { "exit status 2" } else { "" }.to_owned();
    let columns = vec![
        Column::words("check", checks.iter().map(|check| check.name.to_owned())),
        Column::words("what it asks", checks.iter().map(|check| check.about.to_owned())),
        Column::words("if not told", checks.iter().map(mark)),
    ];
    render(columns, &vec![None; checks.len()], style)
}
