//! A profile of calls for the time, for people.

use crate::profile::report::{Caller, Clock, Figures, Outlook, Report, Thread, Told, Way};
use crate::render::Style;
use crate::render::table::{Column, DASH, digits, render, wrapped};
use std::fmt::Write;

/// Columns that a function may take, and a place in a source file.
const FUNCTION_MAX: usize = 32;
const PLACE_MAX: usize = 22;

/// The whole: the sum, clocks, callers, threads and processes if there are several, the outlook, and what to know.
pub fn text(report: &Report, top: usize, style: Style) -> String {
    let mut out = sum(report, style);
    if report.total.calls > 0 {
        out += &format!("\n{}\n{}", clocks(&report.clocks, style), callers(report, top, style));
        let several = several(&report.threads);
        if !several.is_empty() {
            out += &format!("\n{}", threads(&several, top, style));
        }
        let askers: Vec<&Told> =
            report.processes.iter().filter(|process| process.figures.calls > 0).collect();
        if askers.len() > 1 {
            out += &format!("\n{}", processes(askers, top, style));
        }
        out += &format!("\n{}", outlook(&report.outlook, style));
    }
    let mut say = |mark: char, text: &str| {
        for (i, line) in wrapped(&printable(text), style.width - 2).into_iter().enumerate() {
            let _ = writeln!(out, "{} {line}", if i == 0 { mark } else { ' ' });
        }
    };
    if let Some(nothing) = &report.nothing {
        say('!', &format!("no call was counted: {nothing}"));
    }
    if report.lost > 0 {
        say('!', &format!("{} more calls found no room to be told apart", grouped(report.lost)));
    }
    report.advice.iter().for_each(|advice| say('>', advice));
    report.notes.iter().for_each(|note| say('!', note));
    out
}

fn sum(report: &Report, style: Style) -> String {
    let time = |ns: u64| match ns as f64 / 1e9 {
        seconds if seconds < 0.1 => format!("{} ms", digits(seconds * 1e3)),
        seconds => format!("{} s", digits(seconds)),
    };
    let mut text = format!(
        "{}: {} call{} for the time in {}",
        printable(&report.command),
        grouped(report.total.calls),
        if report.total.calls == 1 { "" } else { "s" },
        time(report.wall_ns)
    );
    if let Some(rate) = report.total.calls_per_second.filter(|_| report.total.calls > 0) {
        let _ = write!(text, ", {} a second", grouped(rate as u64));
    }
    if let Some(cpu_ns) = report.cpu_ns {
        let _ = match report.total.cpu_percent {
            Some(_) => {
                let share = percent(report.total.cpu_percent);
                write!(text, "; {share} % of its {} of CPU time", time(cpu_ns))
            }
            None => write!(text, "; {} of CPU time", time(cpu_ns)),
        };
    }
    wrapped(&text, style.width).join("\n") + "\n"
}

/// The threads of processes that have more than one.
fn several(threads: &[Thread]) -> Vec<&Thread> {
    let has_others = |thread: &&Thread| {
        let same = threads.iter().filter(|other| other.place == thread.place);
        same.take(2).count() > 1
    };
    threads.iter().filter(has_others).collect()
}

/// A share that is read at a glance.
fn percent(share: Option<f64>) -> String {
    match share {
        None => DASH.to_owned(),
        Some(share) if share > 0.0 && share < 0.005 => "<0.01".to_owned(),
        Some(share) if share < 10.0 => format!("{share:.2}"),
        Some(share) => format!("{share:.1}"),
    }
}

/// A number with its thousands apart.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Calls, their rate, and their share of the CPU time.
fn figures<'a>(all: impl Iterator<Item = &'a Figures> + Clone) -> [Column; 3] {
    let rate = |figures: &Figures| {
        figures.calls_per_second.map_or(DASH.to_owned(), |rate| grouped(rate.round() as u64))
    };
    [
        Column::right("calls", 0, all.clone().map(|figures| grouped(figures.calls))),
        Column::right("a second", 2, all.clone().map(rate)),
        Column::right("CPU %", 0, all.map(|figures| percent(figures.cpu_percent))),
    ]
}

fn asked(call: &str, clock: Option<&str>) -> String {
    match (call, clock) {
        // What nearly all calls are.
        ("clock_gettime", Some(clock)) => clock.to_owned(),
        (call, Some(clock)) => format!("{call} {clock}"),
        (call, None) => format!("{call}()"),
    }
}

fn clocks(clocks: &[Clock], style: Style) -> String {
    let names = clocks.iter().map(|clock| asked(clock.call, clock.clock.as_deref()));
    let [calls, rate, share] = figures(clocks.iter().map(|clock| &clock.figures));
    let each = Column::figures("ns each", 1, clocks.iter().map(|clock| clock.each_ns));
    render(vec![Column::words("clock", names), calls, rate, each, share], &[], style)
}

fn callers(report: &Report, top: usize, style: Style) -> String {
    let (shown, more) = report.callers.split_at(report.callers.len().min(top));
    let place = |caller: &Caller| {
        let line = caller.place.line();
        let place = line.or_else(|| caller.place.module_name().map(str::to_owned));
        cut(&place.unwrap_or_else(|| DASH.to_owned()), PLACE_MAX)
    };
    let functions = shown.iter().map(|caller| cut(&caller.place.function(), FUNCTION_MAX));
    let names = shown.iter().map(|caller| asked(caller.call, caller.clock.as_deref()));
    let [calls, rate, share] = figures(shown.iter().map(|caller| &caller.figures));
    let columns = vec![
        Column::words("caller", functions),
        Column::words("at", shown.iter().map(place)),
        Column::words("clock", names),
        calls,
        rate,
        share,
    ];
    render(columns, &[], style) + &rest(more.len())
}

fn threads(threads: &[&Thread], top: usize, style: Style) -> String {
    let (shown, more) = threads.split_at(threads.len().min(top));
    let number = |number: Option<u64>| number.map_or(DASH.to_owned(), |number| number.to_string());
    let rate = |thread: &&Thread| {
        thread.calls_per_second.map_or(DASH.to_owned(), |rate| grouped(rate.round() as u64))
    };
    let columns = vec![
        Column::right("thread", 0, shown.iter().map(|thread| number(thread.thread))),
        Column::words(
            "name",
            shown.iter().map(|thread| printable(thread.name.as_deref().unwrap_or_default())),
        ),
        Column::right("process", 0, shown.iter().map(|thread| number(thread.process))),
        Column::right("calls", 0, shown.iter().map(|thread| grouped(thread.calls))),
        Column::right("a second", 1, shown.iter().map(rate)),
    ];
    render(columns, &[], style) + &rest(more.len())
}

fn processes(mut askers: Vec<&Told>, top: usize, style: Style) -> String {
    askers.sort_by_key(|process| std::cmp::Reverse(process.figures.calls));
    let more = askers.split_off(askers.len().min(top)).len();
    let number = |process: &&Told| {
        process.process.map_or_else(|| "forked".to_owned(), |number| number.to_string())
    };
    let [calls, rate, share] = figures(askers.iter().map(|process| &process.figures));
    let columns = vec![
        Column::right("process", 0, askers.iter().map(number)),
        Column::words("program", askers.iter().map(|process| printable(process.name()))),
        calls,
        rate,
        share,
    ];
    render(columns, &[], style) + &rest(more)
}

/// A cost in milliseconds; what was paid is not shown as nothing.
fn ms(cost_ns: Option<f64>) -> String {
    match cost_ns {
        None => DASH.to_owned(),
        Some(ns) if ns > 0.0 && digits(ns / 1e6) == "0" => "<0.0001".to_owned(),
        Some(ns) => digits(ns / 1e6),
    }
}

fn outlook(outlook: &Outlook, style: Style) -> String {
    let ways: [(&str, &Way); 4] = [
        ("as it is", &outlook.now),
        ("under clockwise run", &outlook.run),
        ("with --order relaxed", &outlook.relaxed),
        ("were coarse clocks enough", &outlook.coarse),
    ];
    let ways = ways.into_iter().filter(|(_, way)| way.cost_ns.is_some()).collect::<Vec<_>>();
    let columns = vec![
        Column::words("all calls", ways.iter().map(|(name, _)| (*name).to_owned())),
        Column::right("ms", 0, ways.iter().map(|(_, way)| ms(way.cost_ns))),
        Column::right("CPU %", 0, ways.iter().map(|(_, way)| percent(way.cpu_percent))),
    ];
    render(columns, &[], style)
}

fn rest(more: usize) -> String {
    if more == 0 {
        return String::new();
    }
    format!("and {more} more that asked less (--top {}, --format json)\n", "N")
}

/// A name that others gave, without what a terminal would obey.
fn printable(name: &str) -> String {
    name.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

/// A name that fits, its middle left out.
fn cut(name: &str, most: usize) -> String {
    let name = printable(name);
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= most {
        return name;
    }
    let keep = most - 2;
    let (begin, end) = (keep / 2, letters.len() - (keep - keep / 2));
    let begin: String = letters[..begin].iter().collect();
    let end: String = letters[end..].iter().collect();
    format!("{begin}..{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_thousands_apart_and_long_names_lose_their_middle() {
        let cases = [(0, "0"), (999, "999"), (1_000, "1,000"), (12_345_678, "12,345,678")];
        for (number, text) in cases {
            assert_eq!(grouped(number), text);
        }
        assert_eq!(cut("short", 5), "short");
        assert_eq!(cut("abcdefghij", 6), "ab..ij");
    }

    #[test]
    fn what_was_paid_is_not_shown_as_nothing() {
        let cases =
            [(None, DASH), (Some(0.0), "0"), (Some(22.0), "<0.0001"), (Some(2.2e6), "2.200")];
        for (cost_ns, text) in cases {
            assert_eq!(ms(cost_ns), text, "{cost_ns:?}");
        }
    }

    #[test]
    fn a_name_does_not_command_the_terminal() {
        use crate::profile::calls::{Call, Module, Process, Site, Thread};
        use crate::profile::resolve::{Files, Resolver};
        use crate::profile::{Observed, folded};
        use std::collections::BTreeMap;
        let evil = "a\u{1b}]0;b\u{7}\n\u{9b}c";
        let thread = |tid| Thread { tid, name: Some(evil.to_owned()), calls: 1 };
        let process = Process {
            pid: 1,
            program: evil.to_owned(),
            modules: vec![Module { start: 16, end: 64, offset: 0, path: evil.to_owned() }],
            threads: vec![thread(1), thread(2)],
            sites: vec![Site { call: Call::Time, chain: vec![0x20], count: 2 }],
            lost: 0,
            cpu_ns: None,
            wall_ns: 1,
        };
        let (processes, notes) = (vec![process.clone(), process], vec![evil.to_owned()]);
        let observed = Observed { processes, notes, ..Observed::default() };
        let files = Files::default();
        let resolver = Resolver::new(&files);
        let report = Report::new(evil.to_owned(), &observed, &resolver, &BTreeMap::new());
        for text in [text(&report, 20, Style::FILE), folded::lines(&observed, &resolver)] {
            assert!(text.contains("a?]0"), "{text:?}");
            let is_obeyed = |letter: char| letter.is_control() && letter != '\n';
            assert!(!text.contains(is_obeyed), "{text:?}");
        }
    }
}
