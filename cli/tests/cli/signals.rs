//! A run that is ended early: what there is by then is printed.

use crate::common::process::{hear, ignore, send};
use crate::common::{Ran, folder, names_in, tool, wait_until};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Starts a run of minutes that saves to `folder`, and waits until it is under way.
fn started(folder: &Path, args: &[&str]) -> Child {
    let mut command = tool(args);
    command.arg("--save").arg(folder.join("a.json"));
    hear(&mut command, libc::SIGINT);
    hear(&mut command, libc::SIGTERM);
    under_way(command)
}

fn under_way(mut command: Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    wait_until(|| hears(&child, libc::SIGTERM));
    // Enough for some rounds on most machines; nothing depends on how many.
    std::thread::sleep(Duration::from_millis(700));
    child
}

/// Whether the process has a handler for the signal, as the kernel sees it.
fn hears(child: &Child, signal: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    u64::from_str_radix(caught.trim(), 16).unwrap() >> (signal - 1) & 1 == 1
}

fn ended(child: Child) -> Ran {
    child.wait_with_output().unwrap().into()
}

const LONG: [&str; 7] = ["bench", "--time", "10m", "--only", "libc/*", "--format", "json"];

#[test]
fn an_interrupted_run_prints_and_saves_what_there_is() {
    for (name, signal) in [("sigint", libc::SIGINT), ("sigterm", libc::SIGTERM)] {
        let folder = folder(name);
        let child = started(&folder, &LONG);
        send(&child, signal);
        let ran = ended(child).exits(2).says(&["clockwise: interrupted: the figures are of"]);
        let report = ran.json();
        crate::json::check(&report);
        assert_eq!(report["settings"]["interrupted"], true);
        let rows = report["sources"].as_array().unwrap();
        assert!(rows.iter().any(|row| row["status"] == "measured"), "{report:#}");
        assert_eq!(names_in(&folder), ["a.json"]);
        assert_eq!(std::fs::read_to_string(folder.join("a.json")).unwrap(), ran.stdout);
    }
}

#[test]
fn an_interrupted_text_ends_with_a_note_and_a_sentence() {
    let folder = folder("sigint_text");
    let child = started(&folder, &["bench", "--time", "10m", "--only", "libc/*"]);
    send(&child, libc::SIGINT);
    let ran = ended(child).exits(2).says_only_on_error(&["interrupted"]);
    assert!(ran.stdout.contains("! interrupted: the figures are of"), "{}", ran.stdout);
    assert!(ran.stdout.contains("libc/monotonic"), "{}", ran.stdout);
}

#[test]
fn an_interrupted_count_says_how_many_calls_were_made() {
    let folder = folder("sigint_count");
    let args = ["bench", "--format", "bench_time", "-n", "9223372036854775808"];
    let child = started(&folder, &args);
    send(&child, libc::SIGINT);
    let ran = ended(child).exits(2).says(&["interrupted", "read fewer times than asked"]);
    assert!(ran.stdout.contains("gettimeofday(2)  ("), "{}", ran.stdout);
    let saved = std::fs::read_to_string(folder.join("a.json")).unwrap();
    let result: serde_json::Value = serde_json::from_str(&saved).unwrap();
    let calls = result["rows"][0]["calls"].as_u64().unwrap();
    assert!(calls > 0 && calls < 1 << 63);
    assert!(ran.stdout.contains(&format!("({calls} calls)")), "{}", ran.stdout);
    for row in &result["rows"].as_array().unwrap()[1..] {
        assert!(row["reason"].is_string() && row["elapsed_ns"].is_null(), "{row}");
    }
}

#[test]
fn a_second_signal_ends_the_run_at_once() {
    let folder = folder("two_signals");
    let child = started(&folder, &LONG);
    // Both arrive together when the stopped process goes on: it has no time to answer the first.
    send(&child, libc::SIGSTOP);
    send(&child, libc::SIGINT);
    send(&child, libc::SIGTERM);
    send(&child, libc::SIGCONT);
    let ran = ended(child);
    assert!(matches!(ran.signal, Some(libc::SIGINT | libc::SIGTERM)), "{ran:#?}");
    assert_eq!(ran.stdout, "");
    // Neither the file nor a part of it.
    assert!(names_in(&folder).is_empty());
}

#[test]
fn a_signal_that_the_parent_has_ignored_stays_ignored() {
    let mut command = tool(&["bench", "--time", "2s", "--only", "base/*", "--format", "json"]);
    hear(&mut command, libc::SIGTERM);
    ignore(&mut command, libc::SIGINT);
    let child = under_way(command);
    assert!(!hears(&child, libc::SIGINT));
    send(&child, libc::SIGINT);
    let report = ended(child).exits(0).json();
    assert_eq!(report["settings"]["interrupted"], false);
}

impl Ran {
    /// Checks that standard error is one line with all of `parts`.
    #[track_caller]
    fn says_only_on_error(self, parts: &[&str]) -> Self {
        assert_eq!(self.stderr.lines().count(), 1, "{}", self.stderr);
        self.says(parts)
    }
}
