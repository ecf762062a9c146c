//! The JSON is strict, complete and honest: what is not known is `null` beside a reason.

use crate::common::process::{allowed_cpus, be_nice};
use crate::common::{clockwise, folder, not_tried, run, tool};
use serde_json::Value;
use std::env::consts::ARCH;
use std::sync::atomic::{AtomicBool, Ordering};

const CLOCKS: [&str; 19] = [
    "realtime",
    "monotonic",
    "process_cputime",
    "thread_cputime",
    "monotonic_raw",
    "realtime_coarse",
    "monotonic_coarse",
    "boottime",
    "realtime_alarm",
    "boottime_alarm",
    "tai",
    "aux0",
    "aux1",
    "aux2",
    "aux3",
    "aux4",
    "aux5",
    "aux6",
    "aux7",
];

/// Every source that the table must have on this processor.
fn expected() -> Vec<String> {
    let mut names: Vec<String> = CLOCKS
        .iter()
        .chain(&["gettimeofday", "time"])
        .flat_map(|clock| ["libc", "vdso", "syscall"].map(|way| format!("{way}/{clock}")))
        .collect();
    let counter: &[&str] = match ARCH {
        "x86_64" => &["rdtsc", "lfence;rdtsc", "rdtscp", "rdtscp;lfence", "cpuid", "cpuid;rdtsc"],
        "aarch64" => &["cntvct", "isb;cntvct;isb"],
        _ => &[],
    };
    names.extend(counter.iter().map(|form| format!("counter/{form}")));
    let others = "base/empty base/atomic_load libc/getrusage libc/times libc/clock \
                  libc/timespec_get std/Instant std/SystemTime";
    names.extend(others.split_whitespace().map(str::to_owned));
    names.sort();
    names
}

/// Checks every value below `value`: what no reader could use, and what no measurement gives.
fn walk(value: &Value, path: &str) {
    match value {
        Value::Null | Value::Bool(_) => {}
        Value::String(text) => {
            let text = text.trim().trim_start_matches('-').to_lowercase();
            assert!(!["nan", "inf", "infinity"].contains(&text.as_str()), "{path} is {text}");
        }
        Value::Number(number) => {
            let number = number.as_f64().unwrap_or_else(|| panic!("{path} is {number}"));
            assert!(number.is_finite() && number.abs() <= 1e18, "{path} is {number}");
            assert!(number >= 0.0, "{path} is negative: {number}");
        }
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| walk(value, &format!("{path}.{name}")));
        }
        Value::Array(entries) => {
            entries.iter().enumerate().for_each(|(i, value)| walk(value, &format!("{path}[{i}]")));
        }
    }
}

/// A figure is there, or a reason is, and not both.
#[track_caller]
fn figure_or_reason(group: &Value, figure: &str, path: &str) {
    let (has_figure, has_reason) = (!group[figure].is_null(), group["reason"].is_string());
    assert!(has_figure != has_reason, "{path}.{figure} and reason: {group:#}");
}

/// Numbers that are fractions name their unit last.
fn units(value: &Value, name: &str) {
    const UNITS: [&str; 8] =
        ["_ns", "_us", "_ticks", "_hz", "_ppm", "_percent", "_million", "_counter"];
    match value {
        Value::Number(number) if number.is_f64() => {
            let named = UNITS.iter().any(|unit| name.ends_with(unit)) || name.starts_with("ratio_");
            assert!(named, "{name} has no unit");
        }
        Value::Object(fields) => fields.iter().for_each(|(name, value)| units(value, name)),
        Value::Array(entries) => entries.iter().for_each(|value| units(value, name)),
        _ => {}
    }
}

/// All that must hold of any result of `bench`.
#[track_caller]
pub fn check(report: &Value) {
    assert_eq!(report["schema"], "clockwise.bench");
    assert_eq!(report["version"], 1);
    walk(report, "");
    units(report, "");
    for (name, fact) in report["machine"].as_object().unwrap() {
        figure_or_reason(fact, "value", name);
        assert!(!fact["source"].as_str().unwrap().is_empty(), "{name}");
    }
    for row in report["sources"].as_array().unwrap() {
        let name = row["name"].as_str().unwrap();
        for mode in ["throughput", "latency", "serialised"] {
            figure_or_reason(&row[mode], "median_ns", &format!("{name}.{mode}"));
        }
        figure_or_reason(&row["quality"]["causality"], "hand_overs", name);
        figure_or_reason(&row["quality"], "step_median_ns", name);
        figure_or_reason(&row["tail"], "median_ns", name);
        let status = row["status"].as_str().unwrap();
        assert_eq!(row["reason"].is_null(), status == "measured", "{name}");
        assert_eq!(row["errno"].is_null(), row["errno_name"].is_null(), "{name}");
        assert!(status == "unavailable" || row["errno"].is_null(), "{name}");
        for crowd in row["threads"].as_array().unwrap() {
            figure_or_reason(crowd, "median_ns", name);
        }
        if !row["cold"].is_null() {
            figure_or_reason(&row["cold"], "after_llc_ns", name);
        }
        for text in ["how", "guarantee"] {
            assert!(!row[text].as_str().unwrap().is_empty(), "{name}.{text}");
        }
    }
    let medians: Vec<f64> = report["sources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["throughput"]["median_ns"].as_f64().unwrap_or(f64::INFINITY))
        .collect();
    assert!(medians.is_sorted(), "cheapest first, those without a figure last");
}

fn names(report: &Value) -> Vec<String> {
    let rows = report["sources"].as_array().unwrap().iter();
    let mut names: Vec<String> = rows.map(|row| row["name"].as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

#[test]
fn the_computed_machine_gives_every_source_and_a_sound_result() {
    let report = clockwise(&["bench", "--simulate", "7", "--format", "json"]).exits(0).json();
    check(&report);
    assert_eq!(names(&report), expected());
    let measured = |row: &&Value| row["status"] == "measured";
    assert!(report["sources"].as_array().unwrap().iter().filter(measured).count() > 40);
}

#[test]
fn the_computed_machine_gives_threads_eviction_and_shares_when_asked() {
    let args = ["--threads", "1,2", "--cold", "--rate", "1M", "--format", "json"];
    let args = [&["bench", "--simulate", "3"], &args[..]].concat();
    let report = clockwise(&args).exits(0).json();
    check(&report);
    for row in report["sources"].as_array().unwrap() {
        let is_measured = row["status"] == "measured";
        let threads: Vec<&Value> =
            row["threads"].as_array().unwrap().iter().map(|crowd| &crowd["threads"]).collect();
        assert_eq!(threads.len(), if is_measured { 2 } else { 0 }, "{row}");
        assert_eq!(row["cold"].is_object(), is_measured);
        assert_eq!(row["share_percent"].is_number(), is_measured);
    }
}

#[test]
fn this_machine_gives_every_source_with_figures_or_a_reason() {
    let report = clockwise(&["bench", "--quick", "--format", "json"]).json();
    check(&report);
    assert_eq!(names(&report), expected());
}

#[test]
fn two_threads_at_once_give_an_entry_for_each_number() {
    if allowed_cpus().len() < 2 {
        return not_tried("two threads", "this process may use one processor");
    }
    let args = ["--time", "300ms", "--only", "libc/*", "--threads", "1,2", "--format", "json"];
    let report = clockwise(&[&["bench"], &args[..]].concat()).json();
    check(&report);
    for row in report["sources"].as_array().unwrap() {
        if row["status"] == "unavailable" {
            continue;
        }
        let threads = row["threads"].as_array().unwrap().iter();
        assert!(threads.map(|crowd| crowd["threads"].as_u64().unwrap()).eq([1, 2]), "{row:#}");
    }
}

#[test]
fn what_is_saved_is_what_is_printed() {
    let folder = folder("saved_is_printed");
    for (format, n) in [("json", ""), ("bench_time", "-n5"), ("timetest", "-n5")] {
        let file = folder.join(format);
        let args = ["bench", "--simulate", "2", "--format", format, "--save"];
        let mut command = tool(&args);
        command.arg(&file).args((!n.is_empty()).then_some(n));
        let ran = run(&mut command).exits(0);
        let saved = std::fs::read_to_string(&file).unwrap();
        let result: Value = serde_json::from_str(&saved).unwrap();
        walk(&result, "");
        if format == "json" {
            assert_eq!(saved, ran.stdout);
        } else {
            assert_eq!(result["schema"], "clockwise.exact");
            assert_eq!(result["calls"], 5);
        }
    }
}

#[test]
fn on_the_real_machine_too_what_is_saved_is_what_is_printed() {
    let file = folder("saved_is_printed_here").join("a.json");
    let mut command = tool(&["bench", "--time", "20ms", "--format", "json", "--save"]);
    let ran = run(command.arg(&file));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), ran.stdout);
    check(&ran.json());
}

#[test]
fn the_shortest_budgets_say_no_sample_in_words() {
    for time in ["1ms", "2ms"] {
        let ran = clockwise(&["bench", "--time", time, "--format", "json"]);
        assert!(matches!(ran.code, Some(0 | 2)), "{ran:#?}");
        let report = ran.json();
        check(&report);
        let rows = report["sources"].as_array().unwrap();
        let without: Vec<&Value> = rows.iter().filter(|row| row["status"] == "no sample").collect();
        for row in &without {
            assert!(row["reason"].as_str().unwrap().starts_with("no sample: "), "{row}");
        }
        if !without.is_empty() {
            ran.says(&["the time was too short; give more with --time"]);
        }
    }
    // The text too: words, and no figure that is none.
    let text = clockwise(&["bench", "--time", "1ms"]);
    assert!(matches!(text.code, Some(0 | 2)), "{text:#?}");
    for word in ["NaN", "inf ", "-inf", "nan "] {
        assert!(!text.stdout.contains(word), "{word} in {}", text.stdout);
    }
}

#[test]
fn the_shortest_run_of_the_coarse_clocks_alone_is_sound() {
    let args = ["--time", "1ms", "--only", "*/*_coarse", "--only", "*/time", "--format", "json"];
    let ran = clockwise(&[&["bench"], &args[..]].concat());
    assert!(matches!(ran.code, Some(0 | 2)), "{ran:#?}");
    check(&ran.json());
}

#[test]
fn a_nice_run_beside_busy_loops_is_sound() {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let args = ["--time", "50ms", "--only", "libc/*", "--format", "json"];
        let mut command = tool(&[&["bench"], &args[..]].concat());
        be_nice(&mut command);
        let ran = run(&mut command);
        stop.store(true, Ordering::Relaxed);
        assert!(matches!(ran.code, Some(0 | 2)), "{ran:#?}");
        check(&ran.json());
    });
}

#[test]
fn another_language_changes_no_figure() {
    let in_german = |args: &[&str]| run(tool(args).env("LC_ALL", "de_DE.UTF-8"));
    let args = ["bench", "--simulate", "7", "--format", "json"];
    assert_eq!(in_german(&args).stdout, clockwise(&args).stdout);
    check(&in_german(&["bench", "--time", "20ms", "--format", "json"]).json());
}
