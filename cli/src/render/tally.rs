//! What the processes of one run have read, for people.

use crate::render::Style;
use crate::render::table::{Column, render, wrapped};
use crate::tally::{Counted, Counts, Followed, Tally};
use console::Color;
use std::collections::BTreeMap;
use std::fmt::Write;

/// So many processes are shown.
const SHOWN_MAX: usize = 12;

/// The whole: clocks, processes if there were several, and what to know.
pub fn text(tally: &Tally, style: Style) -> String {
    let mut out = String::new();
    if tally.total.reads > 0 {
        out += &clocks(&tally.total, style);
    }
    let mut readers: Vec<&Counted> =
        tally.processes.iter().filter(|process| process.counts.reads > 0).collect();
    // Who read most comes first; a build has hundreds that read three times each.
    readers.sort_by_key(|process| std::cmp::Reverse(process.counts.reads));
    let more = readers.split_off(readers.len().min(SHOWN_MAX)).len();
    if readers.len() > 1 {
        out.push('\n');
        out += &processes(&readers, style);
        if more > 0 {
            let _ = writeln!(out, "and {more} more that read less (--format json has them all)");
        }
    }
    let mut say = |text: &str| {
        for (i, line) in wrapped(text, style.width - 2).into_iter().enumerate() {
            let _ = writeln!(out, "{} {line}", if i == 0 { '!' } else { ' ' });
        }
    };
    if let Some(nothing) = &tally.nothing {
        say(&format!("no read was counted: {nothing}"));
    }
    for clock in &tally.total.clocks {
        if clock.distrusts > 0 {
            say(&format!("{}: the counter was distrusted {} times", clock.clock, clock.distrusts));
        }
    }
    for (unfit, clocks) in unfit(&tally.total) {
        say(&format!("the kernel answered for {}: {unfit}", clocks.join(", ")));
    }
    if tally.processes_missed > 0 {
        say(&format!("{} more processes found no place to count", tally.processes_missed));
    }
    out
}

fn clocks(counts: &Counts, style: Style) -> String {
    let rows: Vec<&Followed> = counts.clocks.iter().filter(|clock| clock.reads > 0).collect();
    let others = [("coarse, time()", counts.coarse_reads), ("other clocks", counts.other_reads)];
    let others: Vec<(&str, u64)> = others.into_iter().filter(|&(_, reads)| reads > 0).collect();
    let names = rows.iter().map(|row| row.clock.clone());
    let names = names.chain(others.iter().map(|&(name, _)| name.to_owned()));
    let reads = rows.iter().map(|row| row.reads).chain(others.iter().map(|&(_, reads)| reads));
    // What is not followed is answered by the kernel alone, and has no other figures.
    let figure = |figure: fn(&Followed) -> u64| {
        let dashes = others.iter().map(|_| "-".to_owned());
        rows.iter().map(move |row| figure(row).to_string()).chain(dashes)
    };
    let by_kernel = rows.iter().map(|row| by_kernel(row));
    let by_kernel = by_kernel.chain(others.iter().map(|&(_, reads)| reads.to_string()));
    let columns = vec![
        Column::words("clock", names),
        Column::right("reads", 0, reads.map(|reads| reads.to_string())),
        Column::right("by kernel", 0, by_kernel),
        Column::right("refreshes", 0, figure(|row| row.refreshes)),
        Column::right("slews", 1, figure(|row| row.slews)),
        Column::right("steps", 0, figure(|row| row.steps)),
        Column::right("worst ns", 0, figure(|row| row.residual_max_ns))
            .about("farthest the kernel was from our prediction at a comparison"),
    ];
    let marks = rows.iter().map(|row| row.unfit.as_ref().map(|_| Color::Yellow));
    let marks: Vec<_> = marks.chain(others.iter().map(|_| None)).collect();
    render(columns, &marks, style)
}

/// The reasons for which the kernel answered, each with its clocks.
fn unfit(counts: &Counts) -> BTreeMap<&str, Vec<&str>> {
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for clock in &counts.clocks {
        if let Some(unfit) = &clock.unfit {
            reasons.entry(unfit).or_default().push(&clock.clock);
        }
    }
    reasons
}

/// Reads that the kernel answered. Where the counter is unfit they are not counted apart: all, if it never was fit.
fn by_kernel(row: &Followed) -> String {
    match row.unfit {
        Some(_) if row.refreshes == 0 => row.reads.to_string(),
        Some(_) => format!("{}+", row.kernel_answers),
        None => row.kernel_answers.to_string(),
    }
}

fn processes(readers: &[&Counted], style: Style) -> String {
    let sum = |figure: fn(&Followed) -> u64| {
        readers.iter().map(move |process| {
            let figures = process.counts.clocks.iter().map(figure);
            figures.fold(0, u64::saturating_add).to_string()
        })
    };
    let number = |process: &&Counted| {
        process.process.map_or_else(|| "forked".to_owned(), |number| number.to_string())
    };
    let worst = readers.iter().map(|process| {
        let worst = process.counts.clocks.iter().map(|clock| clock.residual_max_ns).max();
        worst.unwrap_or(0).to_string()
    });
    let columns = vec![
        Column::right("process", 0, readers.iter().map(number)),
        Column::words("name", readers.iter().map(|process| process.name.clone())),
        Column::right("reads", 0, readers.iter().map(|process| process.counts.reads.to_string())),
        Column::right("refreshes", 0, sum(|clock| clock.refreshes)),
        Column::right("slews", 1, sum(|clock| clock.slews)),
        Column::right("steps", 0, sum(|clock| clock.steps)),
        Column::right("worst ns", 0, worst),
    ];
    render(columns, &vec![None; readers.len()], style)
}

#[cfg(test)]
mod tests {
    use super::{Style, text};
    use crate::tally;

    #[test]
    fn a_clock_that_the_kernel_answered_for_is_told_with_the_reason() {
        let mut tally = tally::of(Some(&tally::blank()), None);
        tally.nothing = None;
        tally.total.reads = 9_000;
        for (clock, refreshes) in tally.total.clocks.iter_mut().zip([0, 12, 12]) {
            (clock.reads, clock.kernel_answers, clock.refreshes) = (3_000, 7, refreshes);
        }
        let cells = |text: &str, clock: &str| {
            let line = text.lines().find(|line| line.starts_with(clock)).unwrap().to_owned();
            line.split_whitespace().nth(2).unwrap().to_owned()
        };
        let fit = text(&tally, Style::FILE);
        assert!(!fit.contains("answered for") && !fit.contains('+'), "{fit}");
        assert_eq!(cells(&fit, "CLOCK_MONOTONIC"), "7");
        for clock in &mut tally.total.clocks[..2] {
            clock.unfit = Some("nobody vouches for it".to_owned());
        }
        let unfit = text(&tally, Style::FILE);
        // All that was read, where it never was fit; what was counted and more, where it was for a time.
        assert_eq!(cells(&unfit, "CLOCK_MONOTONIC"), "3000");
        assert_eq!(cells(&unfit, "CLOCK_REALTIME"), "7+");
        assert_eq!(cells(&unfit, "CLOCK_BOOTTIME"), "7");
        let told =
            "! the kernel answered for CLOCK_MONOTONIC, CLOCK_REALTIME: nobody vouches for it\n";
        assert!(unfit.contains(told), "{unfit}");
    }
}
