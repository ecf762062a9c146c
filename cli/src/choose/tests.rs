//! The parts of `choose`: figures from files, rows to measure, questions, the answer to the last character.

use super::ask::Asking;
use super::calls::{By, Language, calls};
use super::figures::Figures;
use super::needs::{Needs, Purpose, exactly, span};
use super::oracle::{all_needs, figures, usual};
use super::rows::rows;
use super::{Choice, rows_needed, text};
use crate::args::{Choose, Cli, Command};
use crate::render::Style;
use crate::simulated::Simulated;
use crate::world::World;
use clap::Parser;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The names of the rows that a machine measures.
fn names() -> BTreeSet<String> {
    Simulated::with(1, rows()).sources().iter().map(|source| source.name.clone()).collect()
}

#[test]
fn the_price_of_every_line_is_that_of_a_row_that_is_measured() {
    let names = names();
    for language in Language::ALL {
        for call in calls(language).iter().filter(|call| !call.code.is_empty()) {
            assert!(!call.rows.is_empty(), "{}", call.label());
            for row in call.rows {
                assert!(names.contains(*row), "{}: {row}", call.label());
            }
        }
    }
}

#[test]
fn lines_of_code_fit_beside_their_margin() {
    for language in Language::ALL {
        for call in calls(language) {
            for line in call.code.lines().chain(call.import.lines()) {
                assert!(line.len() <= 100 - 13, "{line}");
            }
        }
    }
}

#[test]
fn each_of_our_rows_is_the_price_of_some_line() {
    let used: BTreeSet<&str> =
        Language::ALL.into_iter().flat_map(calls).flat_map(|call| call.rows).copied().collect();
    for row in rows() {
        assert!(used.contains(row.name.as_str()), "{} is measured for nobody", row.name);
    }
}

#[test]
fn what_could_meet_the_needs_is_measured_and_little_else() {
    for needs in all_needs() {
        let rows = rows_needed(&needs);
        assert!(rows.len() <= 24, "{needs:?}: {rows:?}");
    }
    let needs = Needs::only(Purpose::CpuThread, Language::C);
    assert_eq!(rows_needed(&needs), ["libc/thread_cputime"]);
    let needs = Needs::only(Purpose::Deadline, Language::Go);
    let rows = rows_needed(&needs);
    let go = ["syscall/boottime", "syscall/boottime_alarm", "syscall/monotonic"];
    assert_eq!(rows, [&go[..], &["vdso/monotonic", "vdso/realtime"]].concat());
    // Where nothing could, what would be told instead.
    let none = Needs { follows_ntp: Some(false), ..Needs::only(Purpose::Wall, Language::C) };
    assert!(rows_needed(&none).contains(&"libc/realtime"));
}

#[test]
fn every_answer_fits_and_tells_of_every_clock_of_the_system() {
    let figures = figures(usual);
    for needs in all_needs().into_iter().step_by(17) {
        let choice = Choice::of(&needs, &figures);
        for width in [60, 100] {
            let text = text::text(&choice, Style { colored: false, width });
            // Code is not broken, and two spaces beyond the margin tell it.
            let is_code = |line: &str| line.starts_with("             ");
            let fits = |line: &str| line.chars().count() <= if is_code(line) { 100 } else { width };
            assert!(text.lines().all(fits), "{needs:?}: {text}");
            let aux = "CLOCK_AUX0 to CLOCK_AUX7";
            for candidate in choice.candidates.iter().filter(|c| c.by == By::System) {
                let name = if candidate.name.contains("AUX") { aux } else { &candidate.name };
                assert!(text.contains(name), "{needs:?}: no {name} in {text}");
            }
        }
    }
}

/// A result of two rows.
fn result() -> Value {
    json!({
        "schema": "clockwise.bench", "version": 1,
        "machine": {"cpu": {"value": "A Processor"}, "kernel": {"value": null}},
        "sources": [
            {"name": "libc/monotonic", "status": "measured", "reason": null,
             "throughput": {"median_ns": 22.5},
             "quality": {"step_median_ns": 23.0, "is_coarse": false,
                         "causality": {"violations_per_million": 0.0}}},
            {"name": "libc/boottime", "status": "unavailable", "reason": "is refused (EPERM)"},
        ],
    })
}

#[test]
fn a_clock_that_was_not_measured_is_not_believed_to_be_finer_than_those_that_were() {
    let figures = Figures::read(&result(), Some("a.json".to_owned())).unwrap();
    // MONOTONIC was seen to be read every 23 ns, and nothing is known of the others.
    let needs = Needs { precision_ns: 20, ..Needs::only(Purpose::Elapsed, Language::C) };
    let choice = Choice::of(&needs, &figures);
    assert_eq!((choice.choice.as_deref(), choice.status()), (None, 1));
    let raw = choice.candidate("CLOCK_MONOTONIC_RAW").unwrap();
    assert_eq!(raw.fails[0].reason, "how finely it steps was not measured");
    // What would do is what was seen.
    assert_eq!(choice.less[0].change, "with --precision 23ns");
    assert_eq!(choice.less[0].name, "CLOCK_MONOTONIC");
}

#[test]
fn a_clock_without_figures_stays_and_one_that_is_not_there_does_not() {
    let figures = Figures::read(&result(), Some("a.json".to_owned())).unwrap();
    assert_eq!(figures.origin.cpu.as_deref(), Some("A Processor"));
    assert_eq!(figures.origin.kernel, None);
    let needs = Needs::only(Purpose::Elapsed, Language::C);
    let choice = Choice::of(&needs, &figures);
    assert_eq!(choice.choice.as_deref(), Some("CLOCK_MONOTONIC"));
    let raw = choice.candidate("CLOCK_MONOTONIC_RAW").unwrap();
    assert!(raw.meets() && raw.cost_ns.is_none() && raw.cost_reason == Some("not measured"));
    assert_eq!(raw.resolution_ns, None);
    let boottime = choice.candidate("CLOCK_BOOTTIME").unwrap();
    assert_eq!(boottime.fails[0].reason, "not here: is refused (EPERM)");
    // A tick of which nothing was seen is as coarse as it may be.
    let coarse = |precision_ns| {
        let choice = Choice::of(&Needs { precision_ns, ..needs }, &figures);
        choice.candidate("CLOCK_MONOTONIC_COARSE").unwrap().meets()
    };
    assert!(!coarse(9_000_000) && coarse(10_000_000));
    let empty = json!({"schema": "clockwise.bench", "version": 1, "sources": []});
    let choice = Choice::of(&needs, &Figures::read(&empty, None).unwrap());
    assert_eq!(choice.choice.as_deref(), Some("CLOCK_MONOTONIC"), "by preference alone");
}

#[test]
fn a_coarse_clock_steps_as_finely_as_it_was_seen_to_or_as_the_kernel_says() {
    let chosen = |quality: Value, precision_ns| {
        let coarse = json!({
            "name": "libc/monotonic_coarse", "status": "measured",
            "throughput": {"median_ns": 5.0}, "quality": quality,
        });
        let result = json!({"schema": "clockwise.bench", "version": 1, "sources": [coarse]});
        let figures = Figures::read(&result, None).unwrap();
        let needs = Needs { precision_ns, ..Needs::only(Purpose::Elapsed, Language::C) };
        Choice::of(&needs, &figures).choice
    };
    let (coarse, fine) = (Some("CLOCK_MONOTONIC_COARSE"), Some("CLOCK_MONOTONIC"));
    let late = || json!({"step_min_ns": 4e6, "step_median_ns": 8e6, "is_coarse": true});
    // Within what NTP may stretch a tick by, and no more.
    assert_eq!(chosen(late(), 3_999_000).as_deref(), coarse);
    assert_eq!(chosen(late(), 3_990_000).as_deref(), fine);
    // All ticks that were seen were late; none was seen.
    let all_late = json!({
        "step_min_ns": 12e6, "step_median_ns": 16e6, "is_coarse": true,
        "advertised_resolution_ns": 4_000_000,
    });
    assert_eq!(chosen(all_late, 4_000_000).as_deref(), coarse);
    let told = || json!({"step_min_ns": null, "advertised_resolution_ns": 4_000_000});
    assert_eq!(chosen(told(), 4_000_000).as_deref(), coarse);
    assert_eq!(chosen(told(), 3_000_000).as_deref(), fine);
    // What the kernel says of its fine clocks, one nanosecond, says nothing.
    assert_eq!(chosen(json!({"advertised_resolution_ns": 1}), 9_000_000).as_deref(), fine);
}

#[test]
fn a_clock_that_was_seen_out_of_order_is_not_called_causal() {
    let mut result = result();
    result["sources"][0]["quality"]["causality"]["violations_per_million"] = json!(12.0);
    let figures = Figures::read(&result, None).unwrap();
    let needs = Needs { causal: true, ..Needs::only(Purpose::Elapsed, Language::C) };
    let choice = Choice::of(&needs, &figures);
    let fails = &choice.candidate("CLOCK_MONOTONIC").unwrap().fails;
    assert!(fails.len() == 1 && fails[0].reason.contains("12 in a million"), "{fails:?}");
}

#[test]
fn results_that_are_none_are_refused_in_a_sentence() {
    let changed = |change: fn(&mut Value)| {
        let mut result = result();
        change(&mut result);
        Figures::read(&result, None).unwrap_err()
    };
    for (told, change) in [
        (
            "`clockwise.verify` and not a result",
            (|r| r["schema"] = json!("clockwise.verify")) as fn(&mut Value),
        ),
        ("not a result of", |r| r["schema"] = json!(7)),
        ("version 2 of its schema, and this tool reads 1", |r| r["version"] = json!(2)),
        ("no version of its schema", |r| r["version"] = Value::Null),
        ("no list of sources", |r| r["sources"] = json!({})),
        ("a source has no name", |r| r["sources"][0]["name"] = Value::Null),
        ("/throughput/median_ns of libc/monotonic is -1.0", |r| {
            r["sources"][0]["throughput"]["median_ns"] = json!(-1.0);
        }),
        ("/quality/step_median_ns of libc/monotonic is \"x\"", |r| {
            r["sources"][0]["quality"]["step_median_ns"] = json!("x");
        }),
    ] {
        let error = changed(change);
        assert!(error.contains(told), "{error}");
    }
    for wrong in [json!(null), json!([]), json!("clockwise.bench"), json!({})] {
        assert!(Figures::read(&wrong, None).is_err(), "{wrong}");
    }
}

#[test]
fn spans_are_written_as_people_and_as_flags_have_them() {
    for (ns, people, flag) in [
        (1, "1 ns", "1ns"),
        (22, "22 ns", "22ns"),
        (999, "999 ns", "999ns"),
        (1_000, "1 us", "1us"),
        (1_500, "1.5 us", "1us500ns"),
        (4_000_000, "4 ms", "4ms"),
        (999_999, "1 ms", "999us999ns"),
        (10_000_000, "10 ms", "10ms"),
        (1_000_000_000, "1 s", "1s"),
        (3_600_000_000_000, "3600 s", "1h"),
    ] {
        assert_eq!((span(ns), exactly(ns)), (people.to_owned(), flag.to_owned()));
        assert_eq!(crate::args::precision(flag), Ok(ns));
    }
}

fn args(flags: &str) -> Choose {
    let words = ["clockwise", "choose"].into_iter().chain(flags.split_whitespace());
    match Cli::parse_from(words).command {
        Command::Choose(choose) => choose,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_flags_that_are_told_ask_for_the_same() {
    for needs in all_needs() {
        let flags = needs.flags().join(" ");
        assert_eq!(args(&flags).needs(), Some(needs), "{flags}");
    }
}

/// What is asked and what comes of it.
fn asked(flags: &str, answers: &str) -> (String, Result<Needs, String>) {
    let mut output = Vec::new();
    let mut asking = Asking { input: &mut answers.as_bytes(), output: &mut output };
    let needs = asking.needs(&args(flags)).map_err(|error| error.to_string());
    (String::from_utf8(output).unwrap(), needs)
}

#[test]
fn return_takes_what_is_in_brackets() {
    let (text, needs) = asked("", &"\n".repeat(6));
    let expected = Needs { causal: true, ..Needs::only(Purpose::Elapsed, Language::C) };
    assert_eq!(needs, Ok(expected));
    assert_eq!(text.matches("] ").count(), 6, "{text}");
    assert!(
        text.contains("The same by flags: clockwise choose --for elapsed --causal\n"),
        "{text}"
    );
}

#[test]
fn answers_are_numbers_or_words_and_nonsense_is_asked_again() {
    let (text, needs) = asked("", "7\nlog\n0\n2ms\nmaybe\nno\nYES\npascal\nPython\n");
    let needs = needs.unwrap();
    assert_eq!((needs.purpose, needs.precision_ns), (Purpose::Log, 2_000_000));
    assert!(!needs.causal && needs.across_processes.is_some() && !needs.counts_suspend);
    assert_eq!(needs.language, Language::Python);
    for told in [
        "`7` is none: say a number from 1 to 6",
        "no time at all",
        "`maybe` is none: say y or n",
        "`pascal` is none: say one of c, rust",
    ] {
        assert!(text.contains(told), "no `{told}` in {text}");
    }
}

#[test]
fn what_flags_say_is_not_asked() {
    let (text, needs) = asked(
        "--precision 5ms --counts-suspend --causal --across-processes=machine --language go",
        "deadline\n",
    );
    assert!(needs.is_ok_and(|needs| needs.purpose == Purpose::Deadline), "{text}");
    assert_eq!(text.matches("] ").count(), 1, "{text}");
    let (text, needs) = asked("", "cpu-thread\n\n\n");
    assert!(needs.is_ok(), "CPU time is asked about no order and no suspend: {text}");
}

#[test]
fn answers_that_end_too_early_are_no_answer() {
    for answers in ["", "2\n", "2\n1us\n", "nonsense\n"] {
        let (_, needs) = asked("", answers);
        assert!(needs.unwrap_err().contains("say it by flags"), "{answers:?}");
    }
}
