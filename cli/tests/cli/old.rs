//! The three old formats laid beside the old outputs, line by line.

use crate::common::clockwise;
use std::env::consts::ARCH;

fn simulated(args: &[&str]) -> String {
    clockwise(&[&["bench", "--simulate", "7", "--format"], args].concat()).exits(0).stdout
}

/// The clocks of the old bench_time in the order of its last values, as Linux has them.
const LAST_VALUES: [&str; 9] = [
    "gettimeofday(2)",
    "time(3)",
    "getrusage(2/RUSAGE_SELF)",
    "time(2/vDSO)",
    "clock_gettime(2/CLOCK_REALTIME_COARSE)",
    "clock_gettime(2/CLOCK_REALTIME)",
    "clock_gettime(2/CLOCK_PROCESS_CPUTIME_ID)",
    "clock_gettime(2/CLOCK_MONOTONIC_COARSE)",
    "clock_gettime(2/CLOCK_MONOTONIC)",
];

#[test]
fn bench_time_opens_with_the_old_heading() {
    let text = simulated(&["bench_time", "-n", "12345"]);
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("Timing micro-benchmark.  12345 syscall iterations."));
    assert_eq!(lines.next(), Some("Avg. us/call    Elapsed     Name"));
}

#[test]
fn bench_time_has_the_old_columns_dearest_first() {
    let calls = 12_345.0;
    let text = simulated(&["bench_time", "-n", "12345"]);
    let rows: Vec<&str> =
        text.lines().skip(2).take_while(|line| !line.starts_with("Last")).collect();
    assert_eq!(rows.len(), LAST_VALUES.len());
    let mut names = Vec::new();
    let mut costs = Vec::new();
    for row in rows {
        // As in the old table: the figures begin in columns 0 and 12, the name in column 28.
        let (per_call, rest) = row.split_at(12);
        let (elapsed, name) = rest.split_at(16);
        for figure in [per_call, elapsed] {
            assert!(figure.ends_with("  ") && figure.starts_with(|c: char| c.is_ascii_digit()));
            let (_, decimals) = figure.trim_end().split_once('.').expect(row);
            assert_eq!(decimals.len(), 6, "{row}");
        }
        let per_call_us: f64 = per_call.trim_end().parse().unwrap();
        let elapsed_s: f64 = elapsed.trim_end().parse().unwrap();
        // Both are rounded to six decimals.
        assert!((per_call_us * calls / 1e6 - elapsed_s).abs() < 1e-6 + 5e-13 * calls, "{row}");
        names.push(name.split("  ").next().unwrap());
        costs.push(per_call_us);
    }
    assert!(costs.is_sorted_by(|a, b| a >= b), "{costs:?}");
    names.sort_unstable();
    let mut expected = LAST_VALUES;
    expected.sort_unstable();
    assert_eq!(names, expected);
}

#[test]
fn bench_time_says_which_freebsd_clock_a_row_stands_for() {
    let text = simulated(&["bench_time", "-n", "10"]);
    for (name, freebsd) in [
        ("getrusage(2/RUSAGE_SELF)", "CLOCK_VIRTUAL"),
        ("time(2/vDSO)", "CLOCK_SECOND"),
        ("clock_gettime(2/CLOCK_REALTIME_COARSE)", "CLOCK_REALTIME_FAST"),
        ("clock_gettime(2/CLOCK_PROCESS_CPUTIME_ID)", "CLOCK_PROF"),
        ("clock_gettime(2/CLOCK_MONOTONIC_COARSE)", "CLOCK_MONOTONIC_FAST"),
    ] {
        let row = format!("{name}  [FreeBSD: {freebsd}]\n");
        assert!(text.contains(&row), "no {row} in {text}");
    }
}

#[test]
fn bench_time_ends_with_the_last_values_in_the_old_order_and_shape() {
    // Of this machine: seconds since 1970, or since the start.
    let ran = clockwise(&["bench", "--format", "bench_time", "-n", "3"]).exits(0);
    let lines: Vec<&str> =
        ran.stdout.lines().skip_while(|line| !line.starts_with("Last")).collect();
    assert_eq!(lines.len(), LAST_VALUES.len(), "{}", ran.stdout);
    let mut seconds = Vec::new();
    for (line, name) in lines.iter().zip(LAST_VALUES) {
        let value = line.strip_prefix(&format!("Last value from {name}: ")).expect(line);
        let decimals = match name {
            "gettimeofday(2)" | "getrusage(2/RUSAGE_SELF)" => 6,
            "time(3)" | "time(2/vDSO)" => 0,
            _ => 9,
        };
        let (whole, fraction) = value.split_once('.').unwrap_or((value, ""));
        assert_eq!(fraction.len(), decimals, "{line}");
        assert!(fraction.chars().all(|c| c.is_ascii_digit()), "{line}");
        seconds.push(whole.parse::<u64>().expect(line));
    }
    // The wall clocks are of one moment, and the coarse second is never ahead of the fine one.
    let [gettimeofday, time, _, _, coarse, realtime, ..] = seconds[..] else { unreachable!() };
    assert!(gettimeofday <= realtime && coarse <= realtime && time <= realtime, "{seconds:?}");
    assert!(time > 1_500_000_000, "{seconds:?}");
}

#[test]
fn bench_time_makes_exactly_so_many_calls_of_each() {
    let folder = crate::common::folder("exactly");
    for calls in [1u64, 2, 7, 4_096, 100_003] {
        let file = folder.join(calls.to_string());
        let calls_text = calls.to_string();
        let mut command = crate::common::tool(&["bench", "--format", "bench_time"]);
        command.args(["-n", &calls_text, "--save"]).arg(&file);
        let ran = crate::common::run(&mut command).exits(0);
        assert!(ran.stdout.contains(&format!(".  {calls} syscall iterations.")));
        // A row of fewer calls would say so.
        assert!(!ran.stdout.contains(" calls)"), "{}", ran.stdout);
        let result: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        assert_eq!(result["interrupted"], false);
        let rows = result["rows"].as_array().unwrap();
        assert_eq!(rows.len(), LAST_VALUES.len());
        for row in rows {
            assert_eq!(row["calls"], calls, "{row}");
            let elapsed_ns = row["elapsed_ns"].as_f64().unwrap();
            let per_call_us = row["per_call_us"].as_f64().unwrap();
            assert!((per_call_us * 1e3 * calls as f64 - elapsed_ns).abs() <= 1e-9 * elapsed_ns);
        }
    }
}

#[test]
fn the_old_formats_have_their_own_numbers_of_calls_when_none_is_given() {
    let text = simulated(&["bench_time"]);
    assert!(text.starts_with("Timing micro-benchmark.  9079882 syscall iterations.\n"));
    assert!(simulated(&["timetest"]).contains(": 10000 calls in "));
}

#[test]
fn timetest_has_the_two_old_lines_and_their_ratio() {
    let counter = match ARCH {
        "x86_64" => "rdtsc",
        "aarch64" => "cntvct",
        _ => return crate::common::not_tried("timetest", "this processor has no counter"),
    };
    for (text, calls) in [
        (simulated(&["timetest", "-n", "10000"]), 10_000u64),
        (clockwise(&["bench", "--format", "timetest", "-n", "50001"]).exits(0).stdout, 50_001),
    ] {
        let lines: Vec<&str> = text.lines().collect();
        let [first, second, ratio] = lines[..] else { panic!("{text}") };
        let usecs = |line: &str, name: &str| -> f64 {
            let rest = line.strip_prefix(&format!("{name}: {calls} calls in ")).expect(line);
            rest.strip_suffix(" usecs").expect(line).parse::<u64>().expect(line) as f64
        };
        let (counter_us, clock_us) = (usecs(first, counter), usecs(second, "gettimeofday"));
        let factor = ratio.strip_prefix("gettimeofday costs ").expect(ratio);
        let factor = factor.strip_suffix(&format!(" times {counter}")).expect(ratio);
        let factor: f64 = factor.parse().unwrap();
        // The lines are rounded to a microsecond, the ratio to two decimals.
        let low = (clock_us - 1.0) / (counter_us + 1.0) - 0.01;
        let high = (clock_us + 1.0) / (counter_us - 1.0) + 0.01;
        assert!((low..=high).contains(&factor), "{text}");
    }
}

/// The sections of the repnop table and the rows of each that are this machine's or a record's.
fn sections(table: &str) -> Vec<(&str, Vec<&str>)> {
    let mut sections: Vec<(&str, Vec<&str>)> = Vec::new();
    let lines: Vec<&str> = table.lines().collect();
    for at in 2..lines.len() {
        if lines[at].starts_with("Processor Brand") {
            let rows = lines[at + 1..].iter().take_while(|line| !line.is_empty()).copied();
            // The heading stands above, with an empty line between as in the old page.
            assert_eq!((lines[at - 1], lines[at - 3]), ("", ""), "{}", lines[at]);
            sections.push((lines[at - 2], rows.collect()));
        }
    }
    sections
}

#[test]
fn repnop_has_a_section_a_clock_and_costs_as_a_over_b() {
    if ARCH != "x86_64" {
        return crate::common::not_tried("repnop", "the old basis is an x86 instruction");
    }
    let text = simulated(&["repnop"]);
    let (protected, ordered) = text.split_once("Basis: ordered read of the counter").unwrap();
    assert!(protected.starts_with("Basis: cpuid-protected rdtsc\n"));
    assert!(protected.contains("Warning: cpuid costs "), "a trapped cpuid is not warned of");
    let headings = |part| -> Vec<String> {
        let sections = sections(part);
        sections.iter().map(|(heading, _)| heading.replace(" (FreeBSD:", "").to_owned()).collect()
    };
    let expected = [
        "gettimeofday",
        "CLOCK_REALTIME",
        "CLOCK_REALTIME_COARSE CLOCK_REALTIME_FAST)",
        "CLOCK_MONOTONIC",
        "CLOCK_MONOTONIC_COARSE CLOCK_MONOTONIC_FAST)",
        "CLOCK_MONOTONIC_RAW",
        "CLOCK_BOOTTIME",
    ];
    assert_eq!(headings(protected), expected);
    assert_eq!(headings(ordered), expected);
    for (heading, rows) in sections(protected).into_iter().chain(sections(ordered)) {
        assert!(rows[0].starts_with("Simulated Processor  "), "{heading}");
        for row in rows {
            // Brand, kernel, relative cost, absolute cost.
            let cells: Vec<&str> =
                row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
            let [_, _, relative, absolute] = cells[..] else { panic!("{row}") };
            let (a, b) = absolute.split_once(" / ").expect(row);
            let ratio = a.parse::<u64>().unwrap() as f64 / b.parse::<u64>().unwrap() as f64;
            let relative: f64 = relative.parse().expect(row);
            // One record of the old page has the costs of another section.
            if heading != "CLOCK_REALTIME" || !row.starts_with("Intel Pentium 4") {
                assert!((ratio / relative - 1.0).abs() < 0.03, "{heading}: {row}");
            }
        }
    }
}

#[test]
fn repnop_keeps_the_lines_of_the_old_page() {
    if ARCH != "x86_64" {
        return crate::common::not_tried("repnop", "the old basis is an x86 instruction");
    }
    let text = simulated(&["repnop"]);
    let sections = sections(&text);
    let rows = |heading: &str| sections.iter().find(|(h, _)| h.starts_with(heading)).unwrap();
    assert_eq!(rows("gettimeofday").1.len(), 1 + 11);
    assert_eq!(rows("CLOCK_REALTIME").1.len(), 1 + 10);
    assert_eq!(rows("CLOCK_REALTIME_COARSE").1.len(), 1 + 4);
    let line = |words: [&str; 4]| {
        let has_all = |line: &str| words.iter().all(|word| line.contains(word));
        assert!(text.lines().any(has_all), "{words:?}");
    };
    line(["AMD Athlon 64 X2 3800+", "FreeBSD 6.2-RELEASE", "54.551581", "13153 / 241"]);
    line(["Intel Core i3 CPU 3.07GHz", "Darwin 10.5.0", "0.648218", "259 / 399"]);
    line(["Intel Xeon E5504 2GHz", "FreeBSD 8.1-RELEASE", "3.039519", "2403 / 790"]);
}

#[test]
fn repnop_of_this_machine_is_in_its_own_ticks() {
    if !["x86_64", "aarch64"].contains(&ARCH) {
        return crate::common::not_tried("repnop", "this processor has no counter");
    }
    let text = clockwise(&["bench", "--time", "300ms", "--format", "repnop"]).exits(0).stdout;
    assert!(text.contains("Basis: ordered read of the counter"), "{text}");
    assert!(sections(&text).len() >= 7, "{text}");
}
