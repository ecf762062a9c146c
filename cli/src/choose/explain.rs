//! The table of the clocks for readers: `clockwise choose --explain`.
//!
//! Must never hold a property of its own: everything comes from `clocks.rs` and `lines.rs`.

use super::calls::{By, Call, Language};
use super::clocks::{Cell, Clock, Grain, SYSTEM, Shared, Steered, Suspend, Tells};
use super::text::listed;
use super::{VERSION, everything};
use crate::render::Style;
use crate::render::table::{Column, dim, render, wrapped};
use serde::Serialize;
use std::fmt::Write;

/// The table for programs.
#[derive(Serialize)]
pub struct Explained {
    schema: &'static str,
    version: u32,
    /// The system's clocks.
    clocks: Vec<Clock>,
    /// How each language reads them, with what it makes of them, and ours.
    calls: Vec<Line>,
}

#[derive(Serialize)]
struct Line {
    language: Language,
    #[serde(flatten)]
    call: Call,
}

impl Explained {
    /// All of it.
    pub fn all() -> Self {
        let lines = everything().filter(|(_, call)| !call.code.is_empty());
        Self {
            schema: "clockwise.choose.explain",
            version: VERSION,
            clocks: SYSTEM.to_vec(),
            calls: lines.map(|(language, call)| Line { language, call }).collect(),
        }
    }
}

/// A cell of a clock as a word with its source.
type Property = fn(&Clock) -> Cell<&'static str>;

/// The properties: the head of a column, and the cell.
const PROPERTIES: [(&str, Property); 9] = [
    ("tells", |clock| word(clock.tells, tells)),
    ("jumps", |clock| word(clock.steps, yes)),
    ("steered", |clock| word(clock.steered, steered)),
    ("suspend", |clock| word(clock.suspend, suspend)),
    ("causal", |clock| word(clock.causal, yes)),
    ("shared by", |clock| word(clock.shared, shared)),
    ("timers", |clock| word(clock.timers, yes)),
    ("step", |clock| word(clock.grain, grain)),
    ("needs a thread", |clock| word(clock.thread, yes)),
];

fn word<T: Copy>(cell: Cell<T>, words: fn(T) -> &'static str) -> Cell<&'static str> {
    Cell { value: words(cell.value), source: cell.source }
}

const fn yes(value: bool) -> &'static str {
    if value { "yes" } else { "no" }
}

const fn tells(value: Tells) -> &'static str {
    match value {
        Tells::Wall => "time of day",
        Tells::Elapsed => "elapsed",
        Tells::ThreadCpu => "thread CPU",
        Tells::ProcessCpu => "process CPU",
        Tells::Tai => "TAI",
        Tells::Own => "its own",
        Tells::Ticks => "ticks",
    }
}

const fn steered(value: Steered) -> &'static str {
    match value {
        Steered::ByNtp => "NTP",
        Steered::No => "no",
        Steered::OnItsOwn => "its own",
    }
}

const fn suspend(value: Suspend) -> &'static str {
    match value {
        Suspend::Counted => "counts",
        Suspend::Lost => "stands",
        Suspend::Untold => "untold",
    }
}

const fn shared(value: Shared) -> &'static str {
    match value {
        Shared::Thread => "thread",
        Shared::Process => "process",
        Shared::Namespace => "namespace",
        Shared::Machine => "machine",
    }
}

const fn grain(value: Grain) -> &'static str {
    match value {
        Grain::Counter => "ns",
        Grain::Microsecond => "1 us",
        Grain::Millisecond => "1 ms",
        Grain::Tick => "tick",
        Grain::Second => "1 s",
        Grain::Kept => "kept",
    }
}

/// What the heads of the columns mean.
const LEGEND: &str = "jumps: when it is set or a leap second comes; steered: who adjusts its rate; suspend: whether it \
    counts while the machine sleeps; causal: never older than what the thread has seen of another, unless it was set; \
    shared by: who can compare readings, a namespace being that of time_namespaces(7); timers: taken as a deadline by \
    clock_nanosleep or timerfd; step: as documented, the tick being 1 to 10 ms, kept as finely as a thread is told to. \
    Under clockwise run a call is as ours: as now, or with --order relaxed as now_relaxed.";

/// The table for people: first what each clock is, then where that is stated.
pub fn text(style: Style) -> String {
    // What a language shows as the system does is told once; the eight auxiliary clocks are alike.
    let mut rows: Vec<(String, Clock)> = Vec::new();
    let of_system = SYSTEM.iter().filter(|clock| !is_later_aux(clock.name));
    rows.extend(of_system.map(|clock| (clock.name.to_owned(), *clock)));
    for (language, call) in everything().filter(|(_, call)| !call.code.is_empty()) {
        let same = rows.iter().any(|(_, clock)| cells(clock) == cells(&call.clock));
        // What the image answers is as the library's reads are.
        let of_run = matches!(call.by, By::Run | By::RunRelaxed);
        if !of_run && (!same || call.by == By::Library) {
            let language = if call.by == By::Library { "" } else { language.name() };
            rows.push((format!("{language} {}", call.label()).trim().to_owned(), call.clock));
        }
    }
    let names = || rows.iter().map(|(name, _)| name.clone());
    let mut columns = vec![Column::words("clock", names())];
    // That a thread is needed shows in the step, which is as it keeps it.
    for &(head, of) in &PROPERTIES[..8] {
        columns.push(Column::words(head, rows.iter().map(|(_, clock)| of(clock).value.to_owned())));
    }
    let mut out = render(columns, &vec![None; rows.len()], style);
    for line in wrapped(LEGEND, style.width) {
        out.push_str(&(dim(&line, style) + "\n"));
    }
    for (head, of) in PROPERTIES {
        out.push_str(&stated(head, &rows, of, style));
    }
    out
}

fn is_later_aux(name: &str) -> bool {
    name.starts_with("CLOCK_AUX") && name != "CLOCK_AUX0"
}

fn cells(clock: &Clock) -> [Cell<&'static str>; 9] {
    PROPERTIES.map(|(_, of)| of(clock))
}

/// Where a property is stated: each source, with the clocks that it is the source of.
fn stated(head: &str, rows: &[(String, Clock)], of: Property, style: Style) -> String {
    let mut sources: Vec<(&str, Vec<&str>)> = Vec::new();
    for (name, clock) in rows {
        let source = of(clock).source;
        match sources.iter_mut().find(|(other, _)| *other == source) {
            Some((_, names)) => names.push(name),
            None => sources.push((source, vec![name])),
        }
    }
    let mut out = format!("\n{head}, by\n");
    for (source, names) in sources {
        let _ = writeln!(out, "  {source}");
        for line in listed(&names, style.width.saturating_sub(6)) {
            let _ = writeln!(out, "      {}", dim(&line, style));
        }
    }
    out
}
