//! Machines that lack something: processors, /sys, memory, the time for a sample.

use crate::common::process::{Limit, allow_cpus, allowed_cpus, is_root, limit};
use crate::common::{clockwise, not_tried, run, tool};
use std::process::Command;

const SHORT: [&str; 7] = ["bench", "--time", "1s", "--only", "libc/*", "--format", "json"];

#[test]
fn on_one_processor_causality_is_not_tried_and_the_reason_told() {
    for cpu in allowed_cpus() {
        let mut command = tool(&SHORT);
        allow_cpus(&mut command, &[cpu]);
        let ran = run(&mut command).exits(0);
        let report = ran.json();
        crate::json::check(&report);
        assert_eq!(report["machine"]["cpus"]["value"], cpu.to_string());
        let rows = report["sources"].as_array().unwrap();
        let row = rows.iter().find(|row| row["name"] == "libc/monotonic").unwrap();
        assert_ne!(row["status"], "unavailable", "{row:#}");
        let reason = row["quality"]["causality"]["reason"].as_str().unwrap();
        assert!(reason.contains("needs two processors"), "{reason}");
        ran.says(&["causality was not tried", "--cpus"]);
    }
}

#[test]
fn each_processor_can_be_asked_for_alone() {
    for cpu in allowed_cpus() {
        let cpu = cpu.to_string();
        let ran = clockwise(&[&SHORT[..], &["--cpus", &cpu, "--threads", "1"]].concat()).exits(0);
        assert_eq!(ran.json()["machine"]["cpus"]["value"], *cpu);
        let more = clockwise(&["bench", "--cpus", &cpu, "--threads", "1,2"]).exits(2);
        more.says_only(&["--threads 2 is more than the 1 processors", "wait for each other"]);
    }
}

#[test]
fn a_processor_outside_the_mask_is_refused() {
    let cpus = allowed_cpus();
    let [first, second, ..] = cpus[..] else {
        return not_tried("a processor outside the mask", "this process may use one");
    };
    let mut command = tool(&[&SHORT[..], &["--cpus", &second.to_string()]].concat());
    allow_cpus(&mut command, &[first]);
    let parts = [&format!("processor {second} is not allowed"), &format!("some of {first}")];
    run(&mut command).exits(2).says_only(&parts.map(String::as_str));
}

#[test]
fn a_mask_with_holes_is_measured_and_told_as_it_is() {
    let cpus = allowed_cpus();
    let [first, _, third, ..] = cpus[..] else {
        return not_tried("a mask with holes", "this process may use fewer than three processors");
    };
    let mut command = tool(&SHORT);
    allow_cpus(&mut command, &[first, third]);
    let report = run(&mut command).exits(0).json();
    assert_eq!(report["machine"]["cpus"]["value"], format!("{first},{third}"));
}

#[test]
fn without_sys_the_facts_are_missing_and_the_clocks_measured() {
    let covered = |script: &str| {
        let mut command = Command::new("unshare");
        let script = format!("mount -t tmpfs none /sys && {script}");
        command.args(["-m", "sh", "-c", &script, env!("CARGO_BIN_EXE_clockwise")]);
        command
    };
    if !is_root() {
        return not_tried("an empty /sys", "only root may mount over it");
    }
    match covered("ls /sys").output() {
        Ok(output) if output.status.success() && output.stdout.is_empty() => {}
        Ok(output) => {
            let why = String::from_utf8_lossy(&output.stderr);
            return not_tried("an empty /sys", why.trim());
        }
        Err(error) => return not_tried("an empty /sys", &error.to_string()),
    }
    let script = "exec \"$0\" bench --time 300ms --only 'libc/*' --cold --format json";
    let ran = run(&mut covered(script)).exits(0);
    let report = ran.json();
    crate::json::check(&report);
    for fact in ["clocksource", "clocksource_available", "governor"] {
        let fact = &report["machine"][fact];
        assert!(fact["value"].is_null(), "{fact}");
        assert_eq!(fact["reason"], "not there");
    }
    let rows = report["sources"].as_array().unwrap();
    let row = rows.iter().find(|row| row["name"] == "libc/monotonic").unwrap();
    assert_ne!(row["status"], "unavailable", "{row:#}");
    let reason = row["cold"]["reason"].as_str().unwrap();
    assert!(reason.contains("the sizes of the caches are not told in /sys"), "{reason}");
}

#[test]
fn threads_that_may_not_start_are_told_and_the_run_ends() {
    let as_nobody = |args: &[&str]| {
        let mut command = tool(args);
        // A user without any other process: the tool and the child that tries things are allowed.
        limit(&mut command, Limit::Processes(2));
        std::os::unix::process::CommandExt::uid(&mut command, 60_111);
        command
    };
    if !is_root() {
        return not_tried("threads beyond a limit", "only root may become another user");
    }
    if let Err(error) = as_nobody(&["--version"]).output() {
        return not_tried("threads beyond a limit", &format!("as another user: {error}"));
    }
    let args = ["bench", "--time", "1s", "--only", "libc/monotonic", "--format", "json"];
    let ran = run(&mut as_nobody(&[&args[..], &["--threads", "1"]].concat())).exits(0);
    let report = ran.json();
    crate::json::check(&report);
    let row = &report["sources"][0];
    assert_ne!(row["status"], "unavailable", "{row:#}");
    for reason in [&row["threads"][0]["reason"], &row["quality"]["causality"]["reason"]] {
        let reason = reason.as_str().unwrap();
        assert!(reason.starts_with("starting and pinning a thread fails"), "{row:#}");
    }
}

#[test]
fn a_choice_of_which_nothing_can_be_measured_exits_2_with_the_reason() {
    for format in ["text", "json", "csv"] {
        let args = ["bench", "--simulate", "1", "--only", "*/aux0", "--format", format];
        let ran = clockwise(&args).exits(2);
        assert!(ran.stdout.contains("needs Linux 6.17"), "{}", ran.stdout);
        ran.says(&["nothing was measured", "needs Linux 6.17", "--only"]);
    }
}
