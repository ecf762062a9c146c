//! `clockwise calibrate` on this machine.

use crate::common::process::{allow_cpus, allowed_cpus, be_nice, hear, is_root, send};
use crate::common::terminal::run_on_terminals;
use crate::common::{Ran, clockwise, folder, not_tried, run, tool, wait_until};
use serde_json::Value;
use std::process::{Child, Command, Stdio};

/// Whether there is a counter here; where there is none, the tool says so in a sentence.
fn has_counter(ran: &Ran) -> bool {
    if ran.stdout.is_empty() {
        assert_eq!(ran.code, Some(2), "{ran:#?}");
        not_tried("a calibration", &ran.stderr);
        return false;
    }
    true
}

fn calibrated(more: &[&str]) -> Ran {
    clockwise(&[&["calibrate", "--for", "1s", "--format", "json"], more].concat())
}

/// What holds of every report.
#[track_caller]
fn check(report: &Value) {
    assert_eq!(report["schema"], "clockwise.calibrate");
    for against in [&report["raw"], &report["monotonic"]] {
        let is_told = against["frequency_hz"].is_number();
        assert_eq!(is_told, against["uncertainty_ppm"].is_number(), "{against}");
        assert_eq!(is_told, against["reason"].is_null(), "{against}");
    }
    for claim in report["claims"].as_array().unwrap() {
        assert_eq!(claim["hz"].is_number(), claim["reason"].is_null(), "{claim}");
        if let Some(off) = claim["off_ppm"].as_f64() {
            assert_eq!(claim["refused"], off.abs() > 1_000.0, "{claim}");
        }
    }
    assert_eq!(
        report["stability"].as_array().unwrap().is_empty(),
        report["stability_reason"].is_string()
    );
}

/// The interval that contains the rate against the raw clock for sure.
fn interval(report: &Value) -> (f64, f64) {
    let raw = &report["raw"];
    let hz = raw["frequency_hz"].as_f64().unwrap();
    let error = hz * raw["uncertainty_ppm"].as_f64().unwrap() / 1e6;
    (hz - error, hz + error)
}

#[test]
fn every_run_tells_an_interval_that_all_others_meet() {
    if !has_counter(&calibrated(&[])) {
        return;
    }
    let long = clockwise(&["calibrate", "--for", "3s", "--format", "json"]).exits(0).json();
    check(&long);
    let (least, most) = interval(&long);
    for _ in 0..4 {
        let short = calibrated(&[]).exits(0).json();
        check(&short);
        let (low, high) = interval(&short);
        assert!(low <= most && high >= least, "{low} {high} {least} {most}");
    }
}

#[test]
fn a_nice_run_beside_busy_loops_tells_an_interval_that_holds_too() {
    if !has_counter(&calibrated(&[])) {
        return;
    }
    let (least, most) = interval(&calibrated(&[]).exits(0).json());
    let one = &allowed_cpus()[..1];
    let mut busy: Vec<Child> = (0..2)
        .map(|_| {
            let mut command = Command::new("sh");
            command.args(["-c", "while :; do :; done"]);
            allow_cpus(&mut command, one);
            command.spawn().unwrap()
        })
        .collect();
    let mut reports = Vec::new();
    for _ in 0..3 {
        let args = ["calibrate", "--for", "500ms", "--every", "50ms", "--format", "json"];
        let mut command = tool(&args);
        allow_cpus(&mut command, one);
        be_nice(&mut command);
        reports.push(run(&mut command));
    }
    for child in &mut busy {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    for ran in reports {
        let report = ran.json();
        check(&report);
        if report["raw"]["frequency_hz"].is_null() {
            ran.exits(2).says(&["no frequency against CLOCK_MONOTONIC_RAW"]);
            continue;
        }
        let (low, high) = interval(&report);
        assert!(low <= most && high >= least, "{low} {high} {least} {most}");
    }
}

#[test]
fn a_lying_cpuinfo_changes_nothing() {
    if !is_root() {
        return not_tried("a lying /proc/cpuinfo", "only root may mount");
    }
    let lie = folder("lying_cpuinfo").join("cpuinfo");
    let text = "processor\t: 0\nmodel name\t: Made-up CPU @ 1.00GHz\ncpu MHz\t\t: 1000.000\n";
    std::fs::write(&lie, text).unwrap();
    let honest = calibrated(&[]);
    if !has_counter(&honest) {
        return;
    }
    let mut command = Command::new("unshare");
    let script = "mount --bind \"$1\" /proc/cpuinfo && shift && exec \"$@\"";
    command.args(["-m", "--propagation", "private", "sh", "-c", script, "sh"]).arg(&lie);
    command.arg(env!("CARGO_BIN_EXE_clockwise"));
    command.args(["calibrate", "--for", "1s", "--format", "json"]);
    let ran: Ran = match command.output() {
        Ok(output) => output.into(),
        Err(error) => return not_tried("a lying /proc/cpuinfo", &error.to_string()),
    };
    if ran.stdout.is_empty() {
        return not_tried("a lying /proc/cpuinfo", &ran.stderr);
    }
    let (honest, lied) = (honest.json(), ran.exits(0).json());
    check(&lied);
    assert_eq!(
        honest["claims"].as_array().unwrap().len(),
        lied["claims"].as_array().unwrap().len()
    );
    let ((least, most), (low, high)) = (interval(&honest), interval(&lied));
    assert!(low <= most && high >= least, "{low} {high} {least} {most}");
}

#[test]
fn the_text_shows_rate_claims_and_stability() {
    let ran = clockwise(&["calibrate", "--for", "1s"]);
    if !has_counter(&ran) {
        return;
    }
    let ran = ran.exits(0);
    for part in [
        "measured by CLOCK_MONOTONIC_RAW",
        "measured by CLOCK_MONOTONIC ",
        "claimed by the processor",
        "tsc_freq_khz",
        "kmsg",
        "MONOTONIC goes",
        "tau s",
    ] {
        assert!(ran.unbroken().contains(part), "no `{part}` in {}", ran.stdout);
    }
    assert!(ran.stdout.lines().all(|line| line.chars().count() <= 100), "{}", ran.stdout);
}

#[test]
fn the_shortest_run_has_no_figures_but_reasons() {
    let ran = clockwise(&["calibrate", "--for", "1ms", "--format", "json"]);
    if !has_counter(&ran) {
        return;
    }
    let report = ran.json();
    check(&report);
    assert_eq!(report["stability"].as_array().unwrap().len(), 0);
    // So short a run may know the rate to a thousandth, or not.
    let is_told = report["raw"]["frequency_hz"].is_number();
    assert_eq!(ran.code, Some(if is_told { 0 } else { 2 }), "{ran:#?}");
}

#[test]
fn a_signal_ends_it_with_what_there_is() {
    let mut command = tool(&["calibrate", "--for", "18h", "--every", "20ms", "--format", "json"]);
    hear(&mut command, libc::SIGINT);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let hears = || {
        let status = std::fs::read_to_string(&status).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0");
        u64::from_str_radix(caught.trim(), 16).unwrap() >> (libc::SIGINT - 1) & 1 == 1
    };
    wait_until(hears);
    // Enough for some samples on most machines; nothing depends on how many.
    std::thread::sleep(std::time::Duration::from_millis(500));
    send(&child, libc::SIGINT);
    let ran: Ran = child.wait_with_output().unwrap().into();
    if has_counter(&ran) {
        check(&ran.json());
        assert_eq!(ran.json()["settings"]["interrupted"], true);
        ran.says(&["interrupted: the figures are of a shorter run"]);
    }
}

#[test]
fn what_makes_no_sense_is_refused_in_a_sentence() {
    for (flag, value, part) in [
        ("--for", "0", "no time at all; write it as in 10s, 5m or 2d"),
        ("--for", "5", "write a unit, as in 5s"),
        ("--for", "0s", "no time at all"),
        ("--for", "1us", "at least 1ms"),
        ("--every", "1ms", "at least 2ms"),
        ("--every", "often", "as in 1s or 100ms"),
        ("--cpu", "x", "invalid"),
        ("--format", "csv", "text, json"),
    ] {
        let ran = clockwise(&["calibrate", flag, value]).exits(2);
        assert_eq!(ran.stdout, "");
        ran.says(&[flag, part]);
    }
    let ran = clockwise(&["calibrate", "--for", "1s", "--every", "10s"]);
    ran.exits(2).says_only(&["--every 10s is longer than --for 1s", "give less"]);
    let ran = clockwise(&["calibrate", "--cpu", "1023"]);
    ran.exits(2).says_only(&["processor 1023 is not allowed here", "--cpu takes one of"]);
}

#[test]
fn a_processor_can_be_chosen() {
    let cpu = allowed_cpus().pop().unwrap().to_string();
    let ran = calibrated(&["--cpu", &cpu]);
    if has_counter(&ran) {
        assert_eq!(ran.exits(0).json()["settings"]["cpu"].to_string(), cpu);
    }
}

#[test]
fn a_bar_shows_the_rate_on_a_terminal() {
    let args = ["calibrate", "--for", "1s", "--format", "json"];
    let ran = run_on_terminals(tool(&args), 100);
    if has_counter(&ran) {
        assert!(ran.stderr.contains("MHz ± "), "{:?}", ran.stderr);
        assert!(!ran.stdout.contains('\u{1b}'));
        check(&ran.json());
    }
}
