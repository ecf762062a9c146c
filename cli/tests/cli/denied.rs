//! A counter that is forbidden, and sandboxes that deny the clocks: the rest is measured, and the
//! reason is told.

use crate::common::process::{Verdict, filter, forbid_counter, ignore};
use crate::common::terminal::run_on_terminals;
use crate::common::{Ran, not_tried, program, run, tool};
use serde_json::Value;
use std::env::consts::ARCH;
use std::path::Path;
use std::process::Command;

const SHORT: [&str; 5] = ["bench", "--time", "300ms", "--format", "json"];

/// Whether a row could be read; a loaded machine may not have come to a sample of it.
#[track_caller]
fn check_read(report: &Value, name: &str) {
    let row = row(report, name);
    assert_ne!(row["status"], "unavailable", "{row:#}");
}

/// The rows of a result whose name begins so.
fn rows<'a>(report: &'a Value, prefix: &str) -> Vec<&'a Value> {
    let rows = report["sources"].as_array().unwrap().iter();
    let rows: Vec<&Value> =
        rows.filter(|row| row["name"].as_str().unwrap().starts_with(prefix)).collect();
    assert!(!rows.is_empty(), "no {prefix}");
    rows
}

fn row<'a>(report: &'a Value, name: &str) -> &'a Value {
    let rows = rows(report, name);
    rows.into_iter().find(|row| row["name"] == name).expect(name)
}

fn filtered(args: &[&str], calls: &[libc::c_long], verdict: Verdict) -> Ran {
    let mut command = tool(args);
    filter(&mut command, calls, verdict);
    run(&mut command)
}

/// What must hold where the counter is forbidden.
fn check_without_counter(ran: &Ran) {
    let report = ran.json();
    crate::json::check(&report);
    assert!(report["machine"]["counter"]["value"].is_null());
    let reason = report["machine"]["counter"]["reason"].as_str().unwrap();
    assert!(reason.contains("PR_TSC_SIGSEGV"), "{reason}");
    for row in rows(&report, "counter/") {
        // cpuid alone reads no counter.
        if row["name"] != "counter/cpuid" {
            assert_eq!(row["status"], "unavailable", "{row}");
            assert_eq!(row["reason"], reason, "{row}");
        }
    }
    // Read from memory, or by the kernel: neither needs the counter here.
    let measured = "libc/monotonic_coarse libc/realtime_coarse libc/time syscall/monotonic syscall/realtime \
         syscall/gettimeofday libc/getrusage libc/times base/empty";
    for name in measured.split_whitespace() {
        check_read(&report, name);
    }
    assert!(ran.stderr.contains(&format!("clockwise: {reason}; the rest was measured")));
    assert!(report["counter"]["frequency_hz"].is_null());
}

#[test]
fn a_counter_that_the_tool_is_asked_to_forbid_leaves_the_rest_measured() {
    if ARCH != "x86_64" {
        return not_tried("a forbidden counter", "only x86 processors have PR_SET_TSC");
    }
    let args = [&SHORT[..], &["--forbid-counter"]].concat();
    check_without_counter(&run(&mut tool(&args)).exits(0));
}

#[test]
fn with_a_forbidden_counter_the_text_says_so_and_no_progress_is_drawn() {
    if ARCH != "x86_64" {
        return not_tried("a forbidden counter", "only x86 processors have PR_SET_TSC");
    }
    let args = ["bench", "--time", "300ms", "--forbid-counter", "--threads", "1"];
    // What draws progress reads a clock, which would kill the tool.
    let ran = run_on_terminals(tool(&args), 100).exits(0);
    assert_eq!(ran.stderr, "");
    assert!(ran.stdout.contains("PR_TSC_SIGSEGV"), "{}", ran.stdout);
    assert!(ran.stdout.contains("libc/realtime_coarse"), "{}", ran.stdout);
}

#[test]
fn with_a_forbidden_counter_the_old_formats_answer_or_say_why_not() {
    if ARCH != "x86_64" {
        return not_tried("a forbidden counter", "only x86 processors have PR_SET_TSC");
    }
    let with = |args: &[&str]| run(&mut tool(&[&["bench", "--forbid-counter"], args].concat()));
    with(&["--time", "100ms", "--format", "repnop"])
        .exits(2)
        .says_only(&["PR_TSC_SIGSEGV", "use another --format"]);
    let ran = with(&["--format", "bench_time", "-n", "100"]).exits(0);
    ran.says(&["gettimeofday(2) was not read", "clock_gettime(2/CLOCK_MONOTONIC) was not read"]);
    let ran = with(&["--format", "timetest", "-n", "100"]).exits(2);
    assert_eq!(ran.stdout, "");
    ran.says(&["rdtsc was not read", "gettimeofday was not read"]);
}

/// The tool without a dynamic loader, which itself reads the counter and would die of it.
fn static_tool() -> std::path::PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("static");
    let platform = "x86_64-unknown-linux-gnu";
    let mut build = Command::new(env!("CARGO"));
    build
        .args([
            "build",
            "--offline",
            "-p",
            "clockwise-cli",
            "--bin",
            "clockwise",
            "--target",
            platform,
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env("RUSTFLAGS", "-C target-feature=+crt-static")
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .env("CARGO_TARGET_DIR", &target);
    run(&mut build).exits(0);
    target.join(platform).join("debug/clockwise")
}

#[test]
fn a_counter_that_was_forbidden_before_the_start_leaves_the_rest_measured() {
    if ARCH != "x86_64" {
        return not_tried("a forbidden counter", "only x86 processors have PR_SET_TSC");
    }
    let path = static_tool();
    let mut command = program(&path, &SHORT);
    forbid_counter(&mut command);
    check_without_counter(&run(&mut command).exits(0));
    // The same build where nothing is forbidden.
    let report = run(&mut program(&path, &SHORT)).exits(0).json();
    crate::json::check(&report);
    check_read(&report, "counter/rdtsc");
    // And a parent that lets its children end unseen does not change that.
    let mut command = program(&path, &SHORT);
    forbid_counter(&mut command);
    ignore(&mut command, libc::SIGCHLD);
    check_without_counter(&run(&mut command).exits(0));
    // Nor is there anything to verify or to calibrate.
    let forbidden = |args: &[&str]| {
        let mut command = program(&path, args);
        forbid_counter(&mut command);
        run_on_terminals(command, 100).exits(2)
    };
    let ran = forbidden(&["calibrate"]);
    assert_eq!(ran.stdout, "");
    ran.says(&["there is nothing to calibrate", "PR_TSC_SIGSEGV"]);
    let ran = forbidden(&["verify", "--for", "100ms"]);
    assert_eq!(ran.stderr, "");
    let words = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("the readings are the kernel's own: the counter is forbidden"),
        "{words}"
    );
    assert!(words.contains("as the kernel tells it, by system calls"), "{words}");
    crate::doctor::check_without_counter(&path);
    // No loader, so nothing that it could preload.
    let ran = run(&mut program(&path, &["verify", "--preload", "--for", "1s"])).exits(2);
    ran.says_only(&["the image is not active in this process", "static"]);
}

/// The system calls of the clocks that a program reads.
fn clock_calls() -> Vec<libc::c_long> {
    let mut calls = vec![libc::SYS_clock_gettime, libc::SYS_gettimeofday];
    #[cfg(target_arch = "x86_64")]
    calls.push(libc::SYS_time);
    calls.shrink_to_fit();
    calls
}

#[test]
fn a_filter_that_refuses_the_clock_calls_leaves_the_vdso_measured() {
    let ran = filtered(&SHORT, &clock_calls(), Verdict::Errno(libc::EPERM));
    let report = ran.json();
    crate::json::check(&report);
    for name in ["syscall/monotonic", "syscall/gettimeofday", "libc/thread_cputime"] {
        let row = row(&report, name);
        assert_eq!((&row["status"], &row["errno_name"]), (&"unavailable".into(), &"EPERM".into()));
        assert!(row["reason"].as_str().unwrap().contains("seccomp"), "{row}");
    }
    if report["machine"]["vdso"]["value"].is_null() {
        not_tried("the vDSO under a filter", "this process has none");
        return;
    }
    check_read(&report, "vdso/monotonic");
    check_read(&report, "libc/realtime");
    ran.exits(0).says(&["rows are denied here", "run outside the sandbox"]);
}

#[test]
fn a_filter_that_kills_for_a_clock_call_does_not_kill_the_tool() {
    for parents_ignore_children in [false, true] {
        let mut command = tool(&SHORT);
        filter(&mut command, &[libc::SYS_clock_gettime], Verdict::Kill);
        if parents_ignore_children {
            ignore(&mut command, libc::SIGCHLD);
        }
        let ran = run(&mut command);
        let report = ran.json();
        crate::json::check(&report);
        let row = row(&report, "syscall/monotonic");
        assert_eq!(row["status"], "unavailable");
        assert_eq!(row["reason"], "is killed by a seccomp filter (SIGSYS)");
        ran.exits(0).says(&["rows are denied here", "run outside the sandbox"]);
    }
}

#[test]
fn a_filter_that_hides_the_usage_of_the_thread_leaves_the_clocks_measured() {
    let ran = filtered(&SHORT, &[libc::SYS_getrusage], Verdict::Errno(libc::EPERM)).exits(0);
    let report = ran.json();
    crate::json::check(&report);
    assert_eq!(row(&report, "libc/getrusage")["errno_name"], "EPERM");
    check_read(&report, "libc/monotonic");
}

#[test]
fn a_filter_that_forbids_children_and_threads_leaves_the_clocks_measured() {
    let mut calls = vec![libc::SYS_clone, libc::SYS_clone3];
    #[cfg(target_arch = "x86_64")]
    calls.extend([libc::SYS_fork, libc::SYS_vfork]);
    let args = [&SHORT[..], &["--only", "libc/*", "--threads", "1"]].concat();
    let ran = filtered(&args, &calls, Verdict::Errno(libc::EPERM));
    let report = ran.json();
    crate::json::check(&report);
    let row = row(&report, "libc/monotonic");
    check_read(&report, "libc/monotonic");
    let reasons = [&row["quality"]["causality"]["reason"], &row["threads"][0]["reason"]];
    for reason in reasons {
        assert!(reason.as_str().unwrap().contains("starting and pinning a thread"), "{row:#}");
    }
    ran.exits(0);
}

#[test]
fn a_filter_that_hides_how_children_end_does_not_kill_the_tool() {
    let mut command = tool(&SHORT);
    filter(&mut command, &[libc::SYS_clock_gettime], Verdict::Kill);
    filter(&mut command, &[libc::SYS_wait4], Verdict::Errno(libc::EPERM));
    let report = run(&mut command).exits(0).json();
    crate::json::check(&report);
    assert_eq!(row(&report, "syscall/monotonic")["status"], "unavailable");
    check_read(&report, "libc/monotonic_coarse");
}

#[test]
fn a_filter_that_forbids_sleep_does_not_kill_the_tool() {
    let calls = [libc::SYS_nanosleep, libc::SYS_clock_nanosleep];
    let ran = filtered(&SHORT, &calls, Verdict::Errno(libc::EPERM)).exits(0);
    crate::json::check(&ran.json());
}

#[test]
fn without_any_clock_the_tool_says_so_and_what_to_do() {
    if ARCH != "x86_64" {
        return not_tried("no clock at all", "only x86 processors have PR_SET_TSC");
    }
    for (verdict, part) in [
        (Verdict::Errno(libc::EPERM), "refused with EPERM, probably by the seccomp filter"),
        (Verdict::Kill, "killed by a seccomp filter"),
    ] {
        let mut command = tool(&[&SHORT[..], &["--forbid-counter"]].concat());
        filter(&mut command, &clock_calls(), verdict);
        let ran = run(&mut command).exits(2);
        ran.says_only(&["there is no clock to measure against", part, "run where a sandbox"]);
    }
}

#[test]
fn a_filter_that_refuses_to_forbid_the_counter_is_named() {
    let args = [&SHORT[..], &["--forbid-counter"]].concat();
    let ran = filtered(&args, &[libc::SYS_prctl], Verdict::Errno(libc::EPERM));
    ran.exits(2).says_only(&["the kernel does not let the counter be forbidden", "EPERM"]);
}
