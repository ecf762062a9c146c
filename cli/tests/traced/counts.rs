//! Programs that are started: what they ask is counted, each call at its place.

use crate::support::{
    Counted, by_function, compiled, go, is_installed, lines, lost, names, program,
};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// What `known.c` asks by itself; its threads included.
const KNOWN: [&str; 6] = [
    "cpu: clock_gettime 2: 20",
    "microseconds: gettimeofday: 310",
    "monotonic: clock_gettime 1: 1300",
    "raw: clock_gettime 7: 11",
    "resolution: clock_getres 0: 5",
    "seconds: time: 7",
];

/// The system call is made for `raw` by libc's `syscall`.
fn without_libc(process: &Value) -> Vec<String> {
    let mut lines = lines(process);
    for line in &mut lines {
        *line = line.replace("syscall: clock_gettime 7", "raw: clock_gettime 7");
    }
    lines.sort();
    lines
}

fn is_known(name: &str, path: &Path) {
    let (counted, status) = Counted::of(name, &[path.as_os_str(), "again".as_ref()]);
    assert_eq!(status, 3, "{counted:#?}");
    // Itself and its child; the same as what it has become.
    let [first, child, second, grandchild] = counted.processes() else { panic!("{counted:#?}") };
    for process in [first, second] {
        assert_eq!(without_libc(process), KNOWN, "{process:#}");
    }
    for process in [child, grandchild] {
        assert_eq!(lines(process), ["microseconds: gettimeofday: 50"], "{process:#}");
    }
    assert!(counted.processes().iter().all(|process| lost(process) == 0), "{counted:#?}");
    assert_eq!(first["pid"], second["pid"]);
    assert_ne!(first["pid"], child["pid"]);
    assert_eq!(first["program"], path.to_str().unwrap());
    let mut threads: Vec<_> = first["threads"]
        .as_array()
        .unwrap()
        .iter()
        .map(|thread| thread["calls"].as_u64())
        .collect();
    threads.sort();
    assert_eq!(threads, [Some(100), Some(100), Some(100), Some(1353)]);
}

#[test]
fn a_dynamic_program_is_counted_by_function() {
    is_known("dynamic", &program("known"));
}

#[test]
fn a_static_program_is_counted_by_function() {
    is_known("static", &compiled("known", "gcc", &["-static"]));
}

#[test]
fn a_program_without_frame_pointers_or_tables_in_its_libc_is_counted() {
    if !is_installed("musl-gcc") {
        return;
    }
    let path = compiled("known", "musl-gcc", &["-static"]);
    let (counted, status) = Counted::of("musl", &[&path]);
    assert_eq!(status, 3, "{counted:#?}");
    let [first, child] = counted.processes() else { panic!("{counted:#?}") };
    // There gettimeofday and time ask clock_gettime.
    let mut expected = KNOWN.map(str::to_owned);
    expected[1] = "microseconds: clock_gettime 0: 310".into();
    expected[5] = "seconds: clock_gettime 0: 7".into();
    assert_eq!(without_libc(first), expected, "{first:#}");
    assert_eq!(lines(child), ["microseconds: clock_gettime 0: 50"]);
}

#[test]
fn chains_lead_from_the_asking_function_to_main() {
    let (counted, _) = Counted::of("chains", &[program("known")]);
    let [first, child] = counted.processes() else { panic!("{counted:#?}") };
    let chain = |process: &Value, count: u64| {
        let sites = process["sites"].as_array().unwrap();
        let site = sites.iter().find(|site| site["count"] == count).unwrap();
        names(process, &site["chain"])
    };
    assert_eq!(chain(first, 1000)[..2], ["monotonic", "main"]);
    assert_eq!(chain(first, 310)[..2], ["microseconds", "main"]);
    assert_eq!(chain(child, 50)[..3], ["microseconds", "in_a_child", "main"]);
}

#[test]
fn a_static_program_that_finds_the_vdso_itself_finds_none_and_is_counted() {
    let path = compiled("own", "gcc", &["-static"]);
    let alone = Command::new(&path).arg("500").output().unwrap();
    assert_eq!(alone.stdout, b"v", "by itself it finds the vDSO");
    let (counted, status) = Counted::of("own", &[path.as_os_str(), "500".as_ref()]);
    assert_eq!(status, 0);
    let [process] = counted.processes() else { panic!("{counted:#?}") };
    assert_eq!(lines(process), ["asks: clock_gettime 1: 500"]);
}

#[test]
fn go_is_counted_by_function_on_all_its_threads() {
    let Some(path) = go("asks") else { return };
    let (counted, status) = Counted::of("go", &[path]);
    assert_eq!(status, 0);
    let [process] = counted.processes() else { panic!("{counted:#?}") };
    let asked = by_function(process).into_iter().filter(|(function, _, _)| function == "main.asks");
    let asked: Vec<_> = asked.map(|(_, call, count)| format!("{call}: {count}")).collect();
    // time.Now asks for both clocks, time.Since for one. The runtime asks for itself, too.
    assert_eq!(asked, ["clock_gettime 0: 1000", "clock_gettime 1: 2000"], "{process:#}");
    assert_eq!(lost(process), 0);
}

#[test]
fn programs_that_a_shell_starts_are_counted_and_those_that_ask_nothing_are_left_out() {
    let own = compiled("own", "gcc", &["-static"]);
    let script = format!("true; {0} 7; (true; {0} 8) & wait; exec {0} 9", own.display());
    let (counted, status) = Counted::of("shell", &["/bin/sh", "-c", &script]);
    assert_eq!(status, 0, "{counted:#?}");
    let asking =
        counted.processes().iter().filter(|process| process["program"] == own.to_str().unwrap());
    let mut asked: Vec<_> = asking.flat_map(lines).collect();
    asked.sort();
    assert_eq!(asked, [7, 8, 9].map(|n| format!("asks: clock_gettime 1: {n}")), "{counted:#?}");
    let idle = counted.processes().iter().skip(1).filter(|process| lines(process).is_empty());
    assert_eq!(idle.count(), 0, "{counted:#?}");
}
