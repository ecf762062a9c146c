//! Every format, to the last character, of the computed machine.

use crate::common::terminal::run_on_terminals;
use crate::common::{Ran, SNAPSHOT_ARCH, clockwise, not_tried, tool};

/// Few sources of every kind, for the formats that say much of each.
const FEW: [&str; 8] = [
    "--only",
    "base/empty",
    "--only",
    "counter/rdtsc",
    "--only",
    "*/monotonic_coarse",
    "--only",
    "vdso/aux0",
];

/// Runs the tool on the computed machine of seed 7, twice; both runs must be the same.
fn simulated(args: &[&str]) -> Ran {
    let args = [&["bench", "--simulate", "7"], args].concat();
    let (first, second) = (clockwise(&args), clockwise(&args));
    assert_eq!(first.stdout, second.stdout, "two runs of one seed differ");
    assert_eq!(first.stderr, second.stderr, "two runs of one seed differ");
    first.exits(0)
}

/// Compares with the snapshot, on the processor on which it was taken.
macro_rules! matches_snapshot {
    ($name:literal, $text:expr) => {
        if std::env::consts::ARCH == SNAPSHOT_ARCH {
            insta::assert_snapshot!($name, $text);
        } else {
            not_tried($name, "the snapshot is of another processor's counter");
        }
    };
}

#[test]
fn the_text_is_that_of_the_snapshot() {
    let ran = simulated(&[]);
    // The notes stand in the text; nothing needs to be said twice.
    assert_eq!(ran.stderr, "");
    matches_snapshot!("text", ran.stdout);
}

#[test]
fn the_text_with_threads_eviction_and_a_rate_is_that_of_the_snapshot() {
    let ran = simulated(&["--threads", "1,2", "--cold", "--rate", "1M"]);
    matches_snapshot!("text_with_all", ran.stdout);
}

#[test]
fn the_text_in_colours_is_that_of_the_snapshot_and_without_them_the_plain_one() {
    let colored = simulated(&["--color", "always", FEW[0], FEW[1], FEW[2], FEW[3]]);
    let plain = simulated(&["--color", "never", FEW[0], FEW[1], FEW[2], FEW[3]]);
    assert!(colored.stdout.contains("\u{1b}["));
    let stripped = without_escapes(&colored.stdout);
    let lines = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.trim_end().to_owned()).collect()
    };
    assert_eq!(lines(&stripped), lines(&plain.stdout));
    matches_snapshot!("text_in_colours", colored.stdout.replace('\u{1b}', "ESC"));
}

#[test]
fn the_text_on_a_narrow_terminal_is_that_of_the_snapshot_and_fits() {
    let ran = run_on_terminals(tool(&["bench", "--simulate", "7", "--color", "never"]), 60);
    let ran = ran.exits(0);
    for line in ran.stdout.lines() {
        assert!(line.chars().count() <= 60, "{line}");
    }
    matches_snapshot!("text_narrow", ran.stdout);
}

#[test]
fn the_json_is_that_of_the_snapshot() {
    let ran = simulated(&[&["--format", "json"], &FEW[..]].concat());
    matches_snapshot!("json", ran.stdout);
}

#[test]
fn the_csv_is_that_of_the_snapshot() {
    let ran = simulated(&[&["--format", "csv", "--threads", "2"], &FEW[..]].concat());
    matches_snapshot!("csv", ran.stdout);
}

#[test]
fn the_whole_csv_has_a_line_a_source_and_as_many_cells_on_each() {
    let ran = simulated(&["--format", "csv"]);
    let json = simulated(&["--format", "json"]).json();
    let sources = json["sources"].as_array().unwrap();
    let mut reader = csv::Reader::from_reader(ran.stdout.as_bytes());
    let names: Vec<String> = reader.headers().unwrap().iter().map(str::to_owned).collect();
    let column = |name: &str| names.iter().position(|other| other == name).expect(name);
    let (name, median) = (column("name"), column("throughput_median_ns"));
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), sources.len());
    for (row, source) in rows.iter().zip(sources) {
        assert_eq!(row[name], source["name"].as_str().unwrap()[..]);
        match source["throughput"]["median_ns"].as_f64() {
            None => assert_eq!(&row[median], "", "{}", &row[name]),
            Some(ns) => {
                // The last digit is lost when the JSON is read.
                let ratio = row[median].parse::<f64>().unwrap() / ns;
                assert!((ratio - 1.0).abs() < 1e-12, "{}", &row[name]);
            }
        }
    }
}

#[test]
fn the_repnop_table_is_that_of_the_snapshot() {
    let ran = simulated(&["--format", "repnop"]);
    matches_snapshot!("repnop", ran.stdout);
}

#[test]
fn the_bench_time_table_is_that_of_the_snapshot() {
    let ran = simulated(&["--format", "bench_time", "-n", "1000"]);
    matches_snapshot!("bench_time", ran.stdout);
}

#[test]
fn the_timetest_lines_are_those_of_the_snapshot() {
    let ran = simulated(&["--format", "timetest", "-n", "1000"]);
    matches_snapshot!("timetest", ran.stdout);
}

#[test]
fn another_seed_of_the_machine_or_of_the_order_gives_other_figures() {
    let text = |args: &[&str]| clockwise(&[&["bench", "--format", "json"], args].concat()).stdout;
    let seven = text(&["--simulate", "7"]);
    assert_ne!(seven, text(&["--simulate", "8"]));
    assert_ne!(seven, text(&["--simulate", "7", "--seed", "2"]));
}

#[test]
fn notes_go_to_standard_error_where_the_format_has_no_place_for_them() {
    let csv = simulated(&["--format", "csv"]);
    assert!(csv.stderr.contains("clockwise: cpuid costs"), "{}", csv.stderr);
}

/// The text without what colours it.
fn without_escapes(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |plain, part| plain + part.split_once('m').map_or(part, |(_, rest)| rest))
}
