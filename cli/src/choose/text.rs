//! The answer for people.

use super::calls::By;
use super::clocks::{Grain, Shared};
use super::needs::{Fault, Known, Need, Purpose, span};
use super::{Candidate, Choice, EQUAL};
use crate::render::Style;
use crate::render::table::{Column, DASH, digits, dim, render, wrapped};
use std::fmt::Write;

/// Before a line of its own.
const INDENT: usize = 11;

/// The whole: the choice with its lines of code, the others, and what would not do.
pub fn text(choice: &Choice, style: Style) -> String {
    let mut out = String::new();
    match choice.choice.as_deref().and_then(|name| choice.candidate(name)) {
        Some(best) => {
            let head = format!("{}: {}", best.name, worth(best));
            say_strongly(&mut out, "choice", &head, style);
            code(&mut out, choice, best, style);
            for remark in remarks(choice, best) {
                say(&mut out, "note", &remark, style);
            }
        }
        None => say_strongly(&mut out, "choice", "no clock meets all of this", style),
    }
    say(&mut out, "needs", &needs(choice), style);
    say(&mut out, "figures", &figures(choice), style);
    for less in &choice.less {
        let cost =
            less.cost_ns.map_or("not measured".to_owned(), |ns| format!("{} ns", digits(ns)));
        say(&mut out, "would do", &format!("{}: {}, {cost}", less.change, less.name), style);
    }
    let others: Vec<&Candidate> = choice.candidates.iter().filter(|c| c.meets()).skip(1).collect();
    if !others.is_empty() {
        out.push('\n');
        out.push_str(&runners_up(choice, &others, style));
    }
    out.push('\n');
    out.push_str(&failed(choice, style));
    out
}

fn bold(text: &str, style: Style) -> String {
    console::Style::new().force_styling(style.colored).bold().apply_to(text).to_string()
}

fn say(out: &mut String, head: &str, body: &str, style: Style) {
    say_as(out, head, body, style, str::to_owned);
}

fn say_strongly(out: &mut String, head: &str, body: &str, style: Style) {
    say_as(out, head, body, style, |line| bold(line, style));
}

/// A head and lines beside it, each painted: colours take no room.
fn say_as(out: &mut String, head: &str, body: &str, style: Style, paint: impl Fn(&str) -> String) {
    for (i, line) in wrapped(body, style.width.saturating_sub(INDENT)).iter().enumerate() {
        let head = if i == 0 { head } else { "" };
        let _ = writeln!(out, "{head:<INDENT$}{}", paint(line));
    }
}

/// What a read costs and how fine it is.
fn worth(candidate: &Candidate) -> String {
    let cost = match candidate.cost_ns {
        Some(ns) => format!("{} ns a read", digits(ns)),
        None => candidate.cost_reason.unwrap_or("not measured").to_owned(),
    };
    format!("{cost}, {}", steps(candidate))
}

fn steps(candidate: &Candidate) -> String {
    let Some(ns) = candidate.resolution_ns else {
        return "its steps were not looked at".to_owned();
    };
    let ns = span(ns as u64);
    let is_exact = !matches!(candidate.call.clock.grain.value, Grain::Tick | Grain::Kept);
    match candidate.resolution_known {
        _ if !candidate.is_coarse => format!("steps finer than two reads are apart ({ns})"),
        Known::Seen => format!("in steps of {ns}, as seen"),
        Known::ClockGetres => format!("in steps of {ns} by clock_getres"),
        Known::Documented if is_exact => format!("in steps of {ns}"),
        Known::Documented => format!("in steps of up to {ns}"),
    }
}

/// The lines: the system's and ours, the choice first; a line that they share once.
fn code(out: &mut String, choice: &Choice, best: &Candidate, style: Style) {
    let head = format!("in {}", choice.needs.language.name());
    let found = |name: &Option<String>| name.as_deref().and_then(|name| choice.candidate(name));
    let (system, ours) = (found(&choice.system), found(&choice.ours));
    let mut all = [("the system's", system), ("Clockwise's", ours)];
    if best.by.is_ours() {
        all.reverse();
    }
    for (whose, candidate) in all {
        let Some(candidate) = candidate else { continue };
        if let Some(nothing) = gains_nothing(choice, candidate, system) {
            say(out, &head, &nothing, style);
            continue;
        }
        let is_best = candidate.name == best.name;
        let is_same = !is_best && candidate.code == best.code;
        let mut about = whose.to_owned();
        if !is_best {
            let _ = write!(about, ", {}: {}", candidate.name, price(candidate, best));
        }
        if is_same {
            let start = candidate.launcher.map_or("plainly".to_owned(), |by| format!("by {by}"));
            let _ = write!(about, "; the same line, started {start}");
        }
        say(out, &head, &about, style);
        if is_same {
            continue;
        }
        // Code is not broken: it is to be copied.
        let lines = [candidate.import, candidate.setup.as_deref(), candidate.code.as_deref()];
        for line in lines.into_iter().flatten().flat_map(str::lines) {
            let _ = writeln!(out, "{:INDENT$}  {line}", "");
        }
        if let Some(launcher) = candidate.launcher {
            let _ = writeln!(out, "{:INDENT$}  started by: {launcher}", "");
        }
    }
}

/// What it costs, and beside the choice.
fn price(candidate: &Candidate, best: &Candidate) -> String {
    let Some(ns) = candidate.cost_ns else { return "not measured".to_owned() };
    let times = best.cost_ns.filter(|&least| least > 0.0).map(|least| ratio(ns / least));
    let times = times.map_or(String::new(), |times| format!(", {times} times as much"));
    format!("{} ns{times}", digits(ns))
}

/// That to start the program otherwise gains nothing, if that is so.
fn gains_nothing(choice: &Choice, ours: &Candidate, system: Option<&Candidate>) -> Option<String> {
    let launcher = ours.launcher.filter(|_| choice.choice.as_ref() != Some(&ours.name))?;
    let (ns, least) = ours.cost_ns.zip(system?.cost_ns)?;
    let hardly = match ns {
        _ if ns >= least => "gains nothing",
        _ if ns * EQUAL >= least => "hardly gains",
        _ => return None,
    };
    let [ns, least] = [ns, least].map(digits);
    Some(format!("`{launcher}` {hardly}: {ns} ns against {least}"))
}

fn ratio(ratio: f64) -> String {
    if ratio < 9.95 { format!("{ratio:.1}") } else { format!("{ratio:.0}") }
}

/// What to know before it is used.
fn remarks(choice: &Choice, best: &Candidate) -> Vec<String> {
    let needs = &choice.needs;
    let clock = &best.call.clock;
    let mut remarks = Vec::new();
    if !clock.causal.value
        && matches!(needs.purpose, Purpose::Elapsed | Purpose::Wall | Purpose::Log)
    {
        remarks
            .push("not ordered: where threads compare their times, ask with --causal".to_owned());
    }
    if needs.across_processes.is_some() && clock.shared.value == Shared::Namespace {
        remarks.push(
            "a container may have a time namespace with another zero (time_namespaces(7)); \
             --across-processes=machine asks for a clock without"
                .to_owned(),
        );
    }
    if clock.grain.value == Grain::Tick {
        remarks.push(
            "it is as old as the last tick, which on a busy machine may come late".to_owned(),
        );
    }
    if needs.purpose == Purpose::Deadline {
        let by_kernel = needs.language.is_bare() && clock.shared.value != Shared::Process;
        remarks.push(waiting(clock.name, by_kernel));
    }
    if clock.grain.value == Grain::Kept {
        let age = span(needs.period_ns());
        remarks.push(format!(
            "the thread wakes every {age}; if it waits for a processor, the time is as much older"
        ));
    }
    if matches!(needs.purpose, Purpose::Wall | Purpose::Log) {
        remarks.push("it jumps when it is set: measure with another clock".to_owned());
    }
    if matches!(best.by, By::Run | By::RunRelaxed) {
        remarks.push(
            "`clockwise run --dry-run -- CMD` tells whether the program can be reached".to_owned(),
        );
    }
    if !needs.language.is_bare() {
        let language = needs.language.name();
        remarks.push(format!("the cost is that of the call below; {language} adds its own"));
    }
    remarks
}

/// What waits for a deadline of this clock: the kernel, or the language by what is left.
fn waiting(clock: &str, by_kernel: bool) -> String {
    match clock {
        _ if !by_kernel => "waits take what is left until then: subtract a new reading".to_owned(),
        "CLOCK_MONOTONIC" => format!(
            "wait with clock_nanosleep or a timerfd by {clock}, TIMER_ABSTIME, or on a condition variable by \
             pthread_condattr_setclock"
        ),
        _ if clock.ends_with("_ALARM") => {
            format!("wait with a timerfd by {clock}, TFD_TIMER_ABSTIME; it wakes the machine")
        }
        _ => format!(
            "wait with clock_nanosleep or a timerfd by {clock}, TIMER_ABSTIME; condition variables do not take it"
        ),
    }
}

fn needs(choice: &Choice) -> String {
    let needs = &choice.needs;
    let mut words = vec![
        needs.purpose.words().to_owned(),
        format!("in steps of at most {}", span(needs.precision_ns)),
    ];
    words.extend(needs.counts_suspend.then(|| "counting in suspend".to_owned()));
    words.extend(needs.causal.then(|| "ordered across threads".to_owned()));
    words.extend(needs.follows_ntp.map(|yes| {
        if yes { "steered by NTP".to_owned() } else { "not steered by NTP".to_owned() }
    }));
    words.extend(needs.across_processes.map(|shared| match shared {
        Shared::Machine => "shared by the whole machine".to_owned(),
        _ => "shared by processes".to_owned(),
    }));
    words.extend(needs.allow_thread.then(|| "a thread may keep it".to_owned()));
    format!("{}; in {}", words.join(", "), needs.language.name())
}

fn figures(choice: &Choice) -> String {
    let origin = &choice.origin;
    let whose = match &origin.file {
        Some(file) => format!("of {file}"),
        None => "measured now".to_owned(),
    };
    let clocksource = origin.clocksource.as_ref().map(|name| format!("clocksource {name}"));
    let known: Vec<String> =
        [origin.cpu.clone(), origin.kernel.clone(), clocksource].into_iter().flatten().collect();
    if known.is_empty() { whose } else { format!("{whose}: {}", known.join(", ")) }
}

/// What else would do.
fn runners_up(choice: &Choice, others: &[&Candidate], style: Style) -> String {
    let least = choice.candidates.first().and_then(|best| best.cost_ns).filter(|&ns| ns > 0.0);
    let cost = |other: &&Candidate| other.cost_ns.map_or("not measured".to_owned(), digits);
    let step = |other: &&Candidate| match other.resolution_ns {
        None => DASH.to_owned(),
        Some(ns) if other.is_coarse => span(ns as u64),
        Some(ns) => format!("< {}", span(ns as u64)),
    };
    let times = |other: &&Candidate| {
        other.cost_ns.zip(least).map_or(DASH.to_owned(), |(ns, least)| ratio(ns / least))
    };
    let columns = vec![
        Column::words("would do too", others.iter().map(|other| other.name.clone())),
        Column::right("cost ns", 0, others.iter().map(cost)),
        Column::right("times", 2, others.iter().map(times)),
        Column::right("step", 1, others.iter().map(step)),
    ];
    render(columns, &vec![None; others.len()], style)
}

/// What would not, by reason; what is nearest first.
fn failed(choice: &Choice, style: Style) -> String {
    let mut groups: Vec<(Vec<&Fault>, Vec<&Candidate>)> = Vec::new();
    for candidate in choice.candidates.iter().filter(|candidate| !candidate.meets()) {
        let told = told(&candidate.fails);
        match groups.iter_mut().find(|(other, _)| *other == told) {
            Some((_, group)) => group.push(candidate),
            None => groups.push((told, vec![candidate])),
        }
    }
    groups.sort_by_key(|(told, _)| (told.iter().any(|fault| is_of_kind(fault)), told.len()));
    let mut out = if groups.is_empty() { String::new() } else { bold("would not", style) + "\n" };
    for (told, group) in groups {
        for line in listed(&names(&group), style.width) {
            let _ = writeln!(out, "{line}");
        }
        let reasons: Vec<&str> = told.iter().map(|fault| fault.reason.as_str()).collect();
        for line in wrapped(&reasons.join("; "), style.width.saturating_sub(4)) {
            let _ = writeln!(out, "    {}", dim(&line, style));
        }
    }
    out
}

/// What is told of the faults: of a clock that tells another time, or cannot be read, only that.
fn told(faults: &[Fault]) -> Vec<&Fault> {
    match faults.iter().find(|fault| is_of_kind(fault)) {
        Some(kind) => vec![kind],
        None => faults.iter().collect(),
    }
}

fn is_of_kind(fault: &Fault) -> bool {
    matches!(fault.need, Need::For | Need::Here | Need::Language)
}

/// The names of a group: those that differ only in who answers once, and the eight auxiliary clocks as one.
fn names<'a>(group: &[&'a Candidate]) -> Vec<&'a str> {
    let is_by_system =
        |name: &str| group.iter().any(|other| other.by == By::System && other.call.name == name);
    let listed = group.iter().filter(|candidate| {
        !matches!(candidate.by, By::Run | By::RunRelaxed) || !is_by_system(candidate.call.name)
    });
    let mut names: Vec<&str> = listed.map(|candidate| candidate.name.as_str()).collect();
    if names.iter().filter(|name| name.starts_with("CLOCK_AUX")).count() == 8 {
        names.retain(|name| !name.starts_with("CLOCK_AUX"));
        names.push("CLOCK_AUX0 to CLOCK_AUX7");
    }
    names
}

/// A list of names on lines of at most `width`; a name stays whole.
pub fn listed(names: &[&str], width: usize) -> Vec<String> {
    const GLUE: char = '\u{2060}';
    let glued = names.join(",\n").replace(' ', &GLUE.to_string()).replace('\n', " ");
    wrapped(&glued, width).into_iter().map(|line| line.replace(GLUE, " ")).collect()
}
