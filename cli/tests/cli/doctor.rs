//! `clockwise doctor`: the verdict on recordings of machines that nobody here has, and on this one whatever it hides.

mod rubbish;
mod trees;

use crate::common::process::{Verdict, filter, forbid_counter, is_root};
use crate::common::terminal::run_on_terminals;
use crate::common::{clockwise, folder, names_in, not_tried, program, run, tool};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// The findings, by check.
fn findings(report: &Value) -> Vec<(&str, &Value)> {
    let checks = report["checks"].as_array().expect("there are checks");
    checks.iter().map(|check| (check["check"].as_str().unwrap(), check)).collect()
}

fn finding<'a>(report: &'a Value, name: &str) -> &'a Value {
    let found = findings(report).into_iter().find(|(check, _)| *check == name);
    found.unwrap_or_else(|| panic!("no {name} in {report:#}")).1
}

/// Whatever the machine, a report holds together.
#[track_caller]
fn check(report: &Value) {
    assert_eq!((&report["schema"], &report["version"]), (&"clockwise.doctor".into(), &1.into()));
    let mut counts = [0; 4];
    let verdicts = ["bad", "warning", "cannot tell", "good"];
    for (name, finding) in findings(report) {
        let verdict = finding["verdict"].as_str().unwrap();
        counts[verdicts.iter().position(|known| *known == verdict).unwrap()] += 1;
        assert!(!finding["says"].as_str().unwrap().is_empty(), "{name}");
        // What is wrong rests on something, and comes with what to do.
        if ["bad", "warning"].contains(&verdict) {
            assert!(finding["remedy"].is_string(), "{finding:#}");
            assert!(!finding["evidence"].as_array().unwrap().is_empty(), "{finding:#}");
        }
        for fact in finding["evidence"].as_array().unwrap() {
            assert!(!fact["source"].as_str().unwrap().is_empty(), "{finding:#}");
            assert_ne!(fact["value"].is_null(), fact["reason"].is_null(), "{finding:#}");
        }
    }
    let told = ["bad", "warning", "cannot_tell", "good"]
        .map(|kind| report["counts"][kind].as_u64().unwrap());
    assert_eq!(told, counts);
}

#[test]
fn this_machine_gets_a_verdict_on_everything() {
    let ran = clockwise(&["doctor", "--format", "json"]);
    let report = ran.json();
    check(&report);
    let expected = match report["verdict"].as_str().unwrap() {
        "bad" => 1,
        "cannot tell" => 2,
        _ => 0,
    };
    assert_eq!(ran.code, Some(expected), "{}", ran.stderr);
    assert_eq!(ran.stderr, "");
    assert!(report["root"].is_null());
    let list = clockwise(&["doctor", "--list", "--format", "json"]).exits(0).json();
    let listed: Vec<&str> =
        list.as_array().unwrap().iter().map(|row| row["check"].as_str().unwrap()).collect();
    let found: Vec<&str> = findings(&report).into_iter().map(|(name, _)| name).collect();
    assert_eq!(found, listed);
}

#[test]
fn only_the_chosen_checks_are_made_and_each_must_then_be_told() {
    let args = ["doctor", "--only", "process/*", "--only", "ntp/leap", "--format", "json"];
    let report = clockwise(&args).json();
    let names: Vec<&str> = findings(&report).into_iter().map(|(name, _)| name).collect();
    assert!(names.contains(&"process/slack") && names.contains(&"ntp/leap"), "{names:?}");
    assert!(
        names.iter().all(|name| name.starts_with("process/") || *name == "ntp/leap"),
        "{names:?}"
    );
    clockwise(&["doctor", "--only", "no/such"]).exits(2).says_only(&["no/such", "--list"]);
    // The clock of the hardware decides nothing, unless it was asked for.
    let tree = trees::path("arm-server");
    clockwise(&["doctor", "--root", &tree]).exits(0);
    clockwise(&["doctor", "--root", &tree, "--only", "ntp/rtc"]).exits(2);
}

#[test]
fn each_check_alone_is_given_what_it_needs() {
    let list = clockwise(&["doctor", "--list", "--format", "json"]).json();
    for row in list.as_array().unwrap() {
        let name = row["check"].as_str().unwrap();
        let report = clockwise(&["doctor", "--only", name, "--format", "json"]).json();
        check(&report);
        // What was not asked for was not measured, and reads as in a recording without it.
        assert!(!report.to_string().contains("the recording does not say"), "{report:#}");
    }
}

#[test]
fn what_is_recorded_here_is_judged_as_here() {
    let place = folder("doctor-record").join("here");
    let place = place.to_str().unwrap();
    let ran = clockwise(&["doctor", "--record", place, "--format", "json"])
        .says(&["holds what the checks read"]);
    let live = ran.json();
    let recorded = clockwise(&["doctor", "--root", place, "--format", "json"]).json();
    check(&recorded);
    let verdicts = |report: &Value| -> Vec<(String, String)> {
        let of = |(name, finding): (&str, &Value)| {
            (name.to_owned(), finding["verdict"].as_str().unwrap().to_owned())
        };
        findings(report).into_iter().map(of).collect()
    };
    assert_eq!(verdicts(&live), verdicts(&recorded));
    assert_eq!(recorded["root"], place);
    // Nothing is left beside it, and what is there is not touched.
    assert_eq!(names_in(Path::new(place).parent().unwrap()), ["here"]);
    let again = clockwise(&["doctor", "--record", place]).exits(2);
    again.says_only(&["is there already", "--record"]);
    clockwise(&["doctor", "--record", "/nonexistent/x"]).exits(2).says_only(&["cannot be made"]);
}

#[test]
fn a_recording_holds_no_more_of_the_command_line_and_of_this_process_than_is_asked() {
    let place = folder("doctor-private").join("here");
    clockwise(&["doctor", "--record", place.to_str().unwrap()]);
    let read = |path: &str| std::fs::read_to_string(place.join(path)).unwrap();
    let known = [
        "clocksource=",
        "tsc",
        "notsc",
        "vdso",
        "nohpet",
        "hpet=",
        "highres=",
        "nohz",
        "isolcpus=",
        "no-kvmclock",
    ];
    for word in read("proc/cmdline").split_whitespace() {
        assert!(known.iter().any(|known| word.starts_with(known)), "{word}");
    }
    let status = read("proc/self/status");
    assert!(status.contains("Seccomp:") && !status.contains("Uid:"), "{status}");
    assert!(!read("proc/self/maps").contains("[heap]"));
}

#[test]
fn a_filter_that_refuses_the_clock_is_named() {
    let mut command = tool(&["doctor", "--only", "process/seccomp", "--format", "json"]);
    filter(&mut command, &[libc::SYS_clock_gettime], Verdict::Errno(libc::EPERM));
    let report = run(&mut command).json();
    let seccomp = finding(&report, "process/seccomp");
    assert_ne!(seccomp["verdict"], "good", "{seccomp:#}");
    let text = seccomp.to_string();
    assert!(text.contains("clock_gettime(MONOTONIC) fails with EPERM"), "{text}");
    assert!(text.contains("Seccomp: 2"), "{text}");
}

#[test]
fn a_filter_that_kills_for_the_clock_does_not_kill_the_doctor() {
    for calls in [
        &[libc::SYS_clock_gettime][..],
        &[libc::SYS_adjtimex, libc::SYS_syslog, libc::SYS_clock_getres],
        &[libc::SYS_getrusage],
        &[libc::SYS_prctl],
    ] {
        let mut command = tool(&["doctor", "--format", "json"]);
        filter(&mut command, calls, Verdict::Kill);
        let ran = run(&mut command);
        assert_eq!(ran.signal, None, "{ran:#?}");
        let report = ran.json();
        check(&report);
        assert!(report.to_string().contains("signal 31"), "{report:#}");
    }
}

#[test]
fn without_sys_and_without_proc_the_rest_is_told() {
    let covered = |folder: &str, script: &str| {
        let mut command = Command::new("unshare");
        let script = format!("mount -t tmpfs none {folder} && {script}");
        command.args(["-m", "sh", "-c", &script, env!("CARGO_BIN_EXE_clockwise")]);
        command
    };
    if !is_root() {
        return not_tried("an empty /sys or /proc", "only root may mount over it");
    }
    for (folder, essential) in [("/sys", "clocksource/current"), ("/proc", "vdso/mapped")] {
        match covered(folder, &format!("ls {folder}")).output() {
            Ok(output) if output.status.success() && output.stdout.is_empty() => {}
            Ok(output) => {
                let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                return not_tried(&format!("an empty {folder}"), &why);
            }
            Err(error) => return not_tried("an empty folder", &error.to_string()),
        }
        let ran = run(&mut covered(folder, "exec \"$0\" doctor --format json"));
        let report = ran.json();
        check(&report);
        let told = finding(&report, essential);
        assert_ne!(told["verdict"], "bad", "{told:#}");
        let evidence = told["evidence"].to_string();
        assert!(evidence.contains("not there"), "{told:#}");
        if folder == "/sys" {
            assert_eq!(told["verdict"], "cannot tell");
            assert_ne!(ran.code, Some(0));
        }
    }
}

#[test]
fn without_root_it_says_what_root_would_add() {
    let report = if is_root() {
        let mut command = tool(&["doctor", "--only", "clocksource/log", "--format", "json"]);
        std::os::unix::process::CommandExt::uid(&mut command, 60_111);
        match command.output() {
            Ok(output) => crate::common::Ran::from(output).json(),
            Err(error) => return not_tried("another user", &error.to_string()),
        }
    } else {
        clockwise(&["doctor", "--only", "clocksource/log", "--format", "json"]).json()
    };
    let log = finding(&report, "clocksource/log");
    if log["verdict"] != "cannot tell" {
        return not_tried("a log that only root may read", "anybody may read it here");
    }
    assert!(
        log["as_root"].as_str().unwrap().contains("what the kernel has complained of"),
        "{log:#}"
    );
    assert!(log["remedy"].as_str().unwrap().contains("run as root"), "{log:#}");
}

/// The doctor of a build without a loader, which would die of a forbidden counter before it could say so.
pub fn check_without_counter(path: &Path) {
    let doctor = |format| {
        let mut command = program(path, &["doctor", "--format", format]);
        forbid_counter(&mut command);
        command
    };
    let report = run(&mut doctor("json")).exits(1).json();
    check(&report);
    for (name, verdict) in [
        ("tsc/allowed", "bad"),
        ("clockwise/fit", "warning"),
        ("tsc/sync", "cannot tell"),
        ("tsc/traps", "cannot tell"),
    ] {
        assert_eq!(finding(&report, name)["verdict"], verdict, "{name}");
    }
    // A terminal would have the bar read the clock.
    let ran = run_on_terminals(doctor("text"), 100).exits(1);
    assert!(ran.stdout.contains("the counter is forbidden in this process"), "{}", ran.stdout);
}

#[test]
fn the_help_and_the_manual_page_name_the_flags_and_say_what_the_status_means() {
    let help = clockwise(&["doctor", "--help"]).exits(0).stdout;
    let page = clockwise(&["man", "doctor"]).exits(0).stdout.replace("\\-", "-");
    for word in [
        "--only",
        "--list",
        "--root",
        "--record",
        "--format",
        "Examples:",
        "Exit status: 0",
        "measured.json",
    ] {
        assert!(help.contains(word), "no {word} in {help}");
        assert!(page.contains(word), "no {word} in {page}");
    }
    assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
    let list = clockwise(&["doctor", "--list"]).exits(0).stdout;
    assert!(list.contains("clocksource/current") && list.contains("exit status 2"), "{list}");
    assert!(list.lines().all(|line| line.chars().count() <= 100), "{list}");
}
