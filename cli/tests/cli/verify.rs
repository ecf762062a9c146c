//! `clockwise verify` on this machine: what it prints, logs, refuses and survives. That each kind of fault is caught is
//! tested on computed clocks (`cli/src/verify/tests.rs`).

use crate::common::process::{
    Limit, allow_cpus, allowed_cpus, be_nice, hear, ignore, is_root, limit, send,
};
use crate::common::terminal::run_on_terminals;
use crate::common::{Ran, clockwise, folder, not_tried, run, tool, wait_until};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};

/// Whether the counter is used here; where it is not, the tool says why and exits 2.
#[track_caller]
fn verified(ran: &Ran) -> bool {
    if ran.code == Some(2) && ran.json()["verdict"] == "not_verified" {
        not_tried("a verification", ran.json()["verdict_text"].as_str().unwrap());
        return false;
    }
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    true
}

/// Whether a long verification lasts here: where the counter is not used it ends at once.
#[track_caller]
fn lasts() -> bool {
    verified(&clock("monotonic", &["--format", "json"]))
}

fn clock(name: &str, more: &[&str]) -> Ran {
    let args = ["verify", "--for", "1s", "--every", "200ms", "--clock", name];
    clockwise(&[&args[..], more].concat())
}

/// What holds of every summary that comes to a verdict.
#[track_caller]
fn check(summary: &Value) {
    assert_eq!(summary["schema"], "clockwise.verify");
    let sum = |name: &str| -> u64 {
        summary["readers"].as_array().unwrap().iter().map(|row| row[name].as_u64().unwrap()).sum()
    };
    assert_eq!(summary["readings"], sum("readings"));
    let violations = summary["laws"].as_array().unwrap().iter();
    let violations: u64 = violations.map(|law| law["violations"].as_u64().unwrap()).sum();
    assert_eq!(violations, sum("violations"));
    assert_eq!(summary["verdict"] == "broken", violations > 0);
    let distance = &summary["distance"];
    let percentiles = ["p50_ns", "p90_ns", "p99_ns", "p99_9_ns", "p99_99_ns"];
    let told: Vec<u64> = percentiles.iter().filter_map(|name| distance[name].as_u64()).collect();
    assert!(told.is_sorted(), "{distance}");
    assert!(distance["count"].as_u64() <= summary["readings"].as_u64());
    assert_eq!(summary["drift"]["ppm"].is_null(), summary["drift"]["reason"].is_string());
}

#[test]
fn every_clock_of_the_library_obeys_its_laws() {
    for name in ["realtime", "monotonic", "boottime", "tai", "raw"] {
        let ran = clock(name, &["--format", "json"]);
        check(&ran.json());
        if !verified(&ran) {
            continue;
        }
        let summary = ran.json();
        let settable = matches!(name, "realtime" | "tai");
        assert_eq!(summary["handed_over"].as_u64().unwrap() > 0, !settable, "{summary:#}");
        assert!(summary["subject"]["refreshes"].as_u64().unwrap() > 0);
        assert_eq!(summary["kernel"]["compared"].as_u64().unwrap() > 0, !settable);
        let cpus = summary["readers"].as_array().unwrap().iter();
        let cpus: Vec<u64> = cpus.filter_map(|row| row["cpu"].as_u64()).collect();
        assert_eq!(cpus.len(), allowed_cpus().len().min(16));
    }
}

#[test]
fn the_preloaded_image_obeys_them_too() {
    for name in ["realtime", "monotonic"] {
        let mut command =
            tool(&["verify", "--for", "1s", "--clock", name, "--preload", "--format", "json"]);
        let ran = run(command.env("XDG_CACHE_HOME", folder("verify_preload")));
        if ran.stdout.is_empty() {
            let ran = ran.exits(2).says(&["give --in-process"]);
            not_tried("the image", &ran.stderr);
            continue;
        }
        check(&ran.json());
        if verified(&ran) {
            let summary = ran.json();
            assert!(summary["settings"]["subject"].as_str().unwrap().contains("preloaded"));
            assert!(summary["subject"]["refreshes"].as_u64().unwrap() > 0);
        }
    }
}

#[test]
fn without_a_place_for_the_image_there_is_a_sentence() {
    let mut command = tool(&["verify", "--preload"]);
    let ran = run(command.env("XDG_CACHE_HOME", "/proc/nowhere"));
    ran.exits(2).says_only(&["the image cannot be preloaded", "give --in-process"]);
}

#[test]
fn a_process_without_the_image_says_so_whatever_the_environment_says() {
    let mut command = tool(&["verify", "--preload", "--preloaded"]);
    // The loader warns of a library that is not there, and goes on.
    let ran = run(command.env("LD_PRELOAD", "/nonexistent/clockwise.so")).exits(2);
    assert_eq!(ran.stdout, "");
    ran.says(&["clockwise: the image is not active in this process", "give --in-process"]);
}

#[test]
fn the_text_has_the_lines_of_2002_and_ends_with_a_verdict() {
    for (flags, places) in [(&[][..], 6), (&["--ns"][..], 9)] {
        let ran = clock("monotonic", flags);
        assert!(matches!(ran.code, Some(0 | 2)), "{ran:#?}");
        assert_eq!(ran.stderr, "");
        let (mut systems, mut users) = (0, 0);
        for line in ran.stdout.lines() {
            assert!(line.chars().count() <= 100, "{line}");
            let digits = |time: &str| time.split_once('.').map(|(_, digits)| digits.len());
            if let Some(time) = line.strip_prefix("sys: ").filter(|time| !time.contains("CLOCK")) {
                systems += 1;
                assert_eq!(digits(time), Some(places), "{line}");
            }
            if let Some((time, difference)) =
                line.strip_prefix("usr: ").and_then(|rest| rest.split_once(" ("))
                && let Some(difference) = difference.strip_suffix(')')
                && difference.starts_with(['+', '-'])
            {
                users += 1;
                let (difference, fine) = match difference.split_once(", ") {
                    Some((difference, fine)) => (difference, fine),
                    None => (difference, ""),
                };
                assert_eq!((digits(time), digits(difference)), (Some(places), Some(places)));
                let ns = fine.strip_suffix(" ns").map(|ns| ns.parse::<i64>().is_ok());
                assert_eq!(ns, (places == 6).then_some(true), "{line}");
            }
        }
        let is_used = !ran.stdout.contains("Nothing was verified");
        assert!((systems >= 1 || !is_used) && systems == users, "{}", ran.stdout);
        let last = ran.stdout.rsplit("\n\n").next().unwrap();
        assert!(last.starts_with("Held: ") || last.starts_with("Nothing was"), "{last}");
    }
}

/// The lines of a log, each of them strict JSON.
#[track_caller]
fn lines(log: &Path) -> Vec<Value> {
    let text = fs::read_to_string(log).unwrap();
    assert!(text.ends_with('\n'));
    let line = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    text.lines().map(line).collect()
}

fn of_kind<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["kind"] == kind).collect()
}

#[test]
fn a_log_is_appended_to_and_holds_what_is_printed() {
    let log = folder("verify_log").join("a.log");
    let path = log.to_str().unwrap();
    let first = clock("monotonic", &["--log", path, "--format", "json"]);
    check(&first.json());
    let once = lines(&log);
    clock("monotonic", &["--log", path, "--refreshes"]);
    let twice = lines(&log);
    assert_eq!(twice[..once.len()], once);
    assert_eq!((of_kind(&twice, "start").len(), of_kind(&twice, "end").len()), (2, 2));
    for line in &twice {
        assert!(line["at"].as_str().unwrap().ends_with('Z'), "{line}");
        assert!(line["elapsed_ns"].is_i64(), "{line}");
    }
    let start = of_kind(&once, "start")[0];
    for fact in ["machine", "settings", "tool_version"] {
        assert!(!start[fact].is_null(), "{start}");
    }
    assert!(!of_kind(&once, "line").is_empty() || first.json()["from_counter"] == 0);
    for line in of_kind(&once, "line") {
        let [sys, usr, difference] =
            ["sys_ns", "usr_ns", "difference_ns"].map(|name| line[name].as_i64().unwrap());
        assert_eq!(usr - sys, difference);
    }
    assert!(of_kind(&once, "refresh").is_empty());
    let mut summary = of_kind(&once, "end")[0]["summary"].clone();
    let mut printed = first.json();
    // Told by the log itself, so not yet known when it is written.
    for value in [&mut summary, &mut printed] {
        value["log_incomplete"].take();
    }
    assert_eq!(summary, printed);
    if verified(&first) {
        assert!(!of_kind(&twice, "refresh").is_empty());
    }
}

#[test]
fn a_log_that_cannot_be_written_is_refused_before_the_start() {
    let folder = folder("verify_unwritable");
    let missing = folder.join("missing/a.log");
    for (place, part) in [
        ("/dev/full", "No space left"),
        (folder.to_str().unwrap(), "not a plain file"),
        (missing.to_str().unwrap(), "not there"),
    ] {
        let ran = clockwise(&["verify", "--log", place]);
        ran.exits(2).says_only(&[place, part, "give --log a file"]);
    }
}

#[test]
fn a_disk_that_fills_on_the_way_is_told_once_and_the_verification_goes_on() {
    if !lasts() {
        return;
    }
    let log = folder("verify_full").join("a.log");
    let args = ["verify", "--for", "1s", "--every", "5ms", "--format", "json", "--log"];
    let mut command = tool(&args);
    command.arg(&log);
    // Told by an error then, as a full disk is, and not by a signal.
    ignore(&mut command, libc::SIGXFSZ);
    limit(&mut command, Limit::FileSize(8_000));
    let ran = run(&mut command);
    check(&ran.json());
    assert_eq!(ran.json()["log_incomplete"], true);
    let told = ran.stderr.lines().filter(|line| line.contains("was not written")).count();
    assert_eq!(told, 1, "{}", ran.stderr);
    verified(&ran);
}

#[test]
fn spans_of_nothing_and_nonsense_are_refused_in_a_sentence() {
    for (flag, value, part) in [
        ("--for", "0", "no time at all; write it as in 30s, 18h or 2d"),
        ("--for", "5", "write a unit, as in 5s"),
        ("--every", "1.5", "write a unit, as in 1.5s"),
        ("--for", "0s", "no time at all"),
        ("--for", "soon", "as in 30s, 18h or 2d"),
        ("--for", "1ms", "at least 10ms"),
        ("--for", "9000d", "more than a year"),
        ("--every", "0s", "no time at all"),
        ("--every", "1us", "at least 1ms"),
        ("--max-error", "0ns", "no time at all"),
        ("--max-error", "50", "write a unit, as in 50ns"),
        ("--clock", "sundial", "realtime, monotonic, boottime, tai, raw"),
        ("--cpus", "x", "as in 0,2-3"),
    ] {
        let ran = clockwise(&["verify", flag, value]).exits(2);
        assert_eq!(ran.stdout, "");
        ran.says(&[flag, part]);
    }
    let ran = clockwise(&["verify", "--for", "1s", "--every", "10s"]);
    ran.exits(2).says_only(&["--every 10s is longer than --for 1s", "give less"]);
    clockwise(&["verify", "--preload", "--in-process"]).exits(2).says(&["cannot be used with"]);
    clockwise(&["verify", "--refreshes"]).exits(2).says(&["--log"]);
    let ran = clockwise(&["verify", "--cpus", "1023"]).exits(2);
    ran.says_only(&["processor 1023 is not allowed here", "--cpus takes some of"]);
    // Long ones are accepted: the log is what stops them here.
    for time in ["18h", "2d", "30m", "1h30m"] {
        let ran = clockwise(&["verify", "--for", time, "--log", "/dev/full"]).exits(2);
        ran.says_only(&["/dev/full cannot be written"]);
    }
}

fn started(args: &[&str]) -> Child {
    let mut command = tool(args);
    hear(&mut command, libc::SIGINT);
    hear(&mut command, libc::SIGTERM);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn ended(child: Child) -> Ran {
    child.wait_with_output().unwrap().into()
}

#[test]
fn a_signal_ends_it_with_the_summary_of_what_there_is() {
    if !lasts() {
        return;
    }
    for (name, signal) in [("int", libc::SIGINT), ("term", libc::SIGTERM)] {
        let log = folder(&format!("verify_signal_{name}")).join("a.log");
        let args = ["verify", "--for", "18h", "--every", "20ms", "--format", "json", "--log"];
        let child = started(&[&args[..], &[log.to_str().unwrap()]].concat());
        wait_until(|| fs::read_to_string(&log).is_ok_and(|text| text.lines().count() > 20));
        send(&child, signal);
        let ran = ended(child);
        let summary = ran.json();
        check(&summary);
        assert_eq!(summary["interrupted"], true);
        assert!(verified(&ran) || ran.code == Some(2));
        assert!(ran.stderr.contains("interrupted: the verification was ended early"));
        assert_eq!(of_kind(&lines(&log), "end").len(), 1);
    }
}

#[test]
fn a_log_survives_a_kill_but_for_its_last_line() {
    if !lasts() {
        return;
    }
    let log = folder("verify_kill").join("a.log");
    let path = log.to_str().unwrap();
    let child = started(&["verify", "--for", "18h", "--every", "5ms", "--log", path]);
    wait_until(|| fs::read_to_string(&log).is_ok_and(|text| text.lines().count() > 50));
    send(&child, libc::SIGKILL);
    assert_eq!(ended(child).signal, Some(libc::SIGKILL));
    let lines = lines(&log);
    assert!(of_kind(&lines, "line").len() >= 49 && of_kind(&lines, "end").is_empty());
}

#[test]
fn a_tool_that_was_stopped_goes_on_and_says_so() {
    if !lasts() {
        return;
    }
    let log = folder("verify_stop").join("a.log");
    let path = log.to_str().unwrap();
    let args = ["verify", "--for", "18h", "--every", "20ms", "--format", "json", "--log", path];
    let child = started(&args);
    let count = || fs::read_to_string(&log).map_or(0, |text| text.lines().count());
    wait_until(|| count() > 10);
    send(&child, libc::SIGSTOP);
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    let stopped = count();
    send(&child, libc::SIGCONT);
    wait_until(|| count() > stopped + 10);
    send(&child, libc::SIGINT);
    let ran = ended(child);
    check(&ran.json());
    assert!(verified(&ran) || ran.code == Some(2));
    let lines = lines(&log);
    let pauses = of_kind(&lines, "pause");
    assert!(pauses.iter().any(|pause| pause["ns"].as_u64().unwrap() > 1_000_000_000), "{pauses:?}");
}

#[test]
fn one_processor_a_low_priority_and_busy_neighbours_are_no_violation() {
    let one = &allowed_cpus()[..1];
    let mut busy: Vec<Child> = (0..2)
        .map(|_| {
            let mut command = std::process::Command::new("sh");
            command.args(["-c", "while :; do :; done"]);
            allow_cpus(&mut command, one);
            command.spawn().unwrap()
        })
        .collect();
    let mut command = tool(&["verify", "--for", "2s", "--clock", "monotonic", "--format", "json"]);
    allow_cpus(&mut command, one);
    be_nice(&mut command);
    let ran = run(&mut command);
    for child in &mut busy {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    check(&ran.json());
    verified(&ran);
}

#[test]
fn a_limit_is_asked_only_where_one_is_given() {
    let ran = clock("monotonic", &["--max-error", "1h"]);
    assert!(matches!(ran.code, Some(0 | 2)), "{ran:#?}");
    let ran = clock("monotonic", &["--max-error", "1h", "--format", "json"]);
    let laws = ran.json()["laws"].clone();
    let limit = laws.as_array().unwrap().iter().find(|law| law["name"] == "max_error").unwrap();
    assert_eq!((&limit["asked"], &limit["violations"]), (&true.into(), &0.into()));
    let without = clock("monotonic", &["--format", "json"]).json();
    let limits =
        without["laws"].as_array().unwrap().iter().filter(|law| law["name"] == "max_error");
    assert!(limits.map(|law| &law["asked"]).eq([false]), "{without:#}");
}

#[test]
fn a_reader_that_has_seen_enough_ends_it() {
    let mut command = tool(&["verify", "--for", "18h", "--every", "5ms"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 2)), "{output:?}");
    let full = fs::File::create("/dev/full").unwrap();
    let ran = run(tool(&["verify", "--for", "18h"]).stdout(full)).exits(1);
    ran.says_only(&["the result cannot be printed", "No space left"]);
}

#[test]
fn on_a_terminal_lines_and_bar_do_not_garble_each_other() {
    let widest = |text: &str| {
        let text = console::strip_ansi_codes(text).into_owned();
        text.split(['\n', '\r']).map(|line| line.chars().count()).max()
    };
    for columns in [80, 100] {
        let args = ["verify", "--for", "1s", "--every", "100ms"];
        let ran = run_on_terminals(tool(&args), columns);
        let bar = console::strip_ansi_codes(&ran.stderr).into_owned();
        assert!(bar.contains(" readings, no violation, worst ") || !lasts(), "{bar:?}");
        for worst in bar.split("worst ").skip(1) {
            assert!(
                worst.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with(" ns"),
                "{bar:?}"
            );
        }
        let columns = Some(usize::from(columns));
        assert!(widest(&ran.stderr) <= columns, "{}", ran.stderr);
        assert!(widest(&ran.stdout) <= columns, "{}", ran.stdout);
    }
    // Not on a terminal: no bar.
    assert_eq!(clock("raw", &[]).stderr, "");
}

#[test]
fn where_the_kernel_has_rejected_the_counter_it_ends_at_once_and_says_why() {
    if !is_root() {
        return not_tried("a rejected counter", "only root may mount");
    }
    let lies = folder("verify_rejected");
    let place = "/sys/devices/system/clocksource/clocksource0";
    let mut script = String::new();
    for (name, text) in
        [("current_clocksource", "hpet\n"), ("available_clocksource", "hpet acpi_pm\n")]
    {
        fs::write(lies.join(name), text).unwrap();
        script += &format!("mount --bind \"$0/{name}\" {place}/{name} && ");
    }
    script += "exec \"$@\"";
    let verify = |more: &[&str]| -> Ran {
        let mut command = std::process::Command::new("unshare");
        command.args(["-m", "--propagation", "private", "sh", "-c", &script]).arg(&lies);
        command.arg(env!("CARGO_BIN_EXE_clockwise")).args(["verify", "--for", "1m"]).args(more);
        command.env("XDG_CACHE_HOME", &lies).output().unwrap().into()
    };
    for way in ["--in-process", "--preload"] {
        let ran = verify(&[way, "--format", "json"]);
        if ran.stdout.is_empty() {
            not_tried("a rejected counter", &ran.stderr);
            continue;
        }
        let summary = ran.exits(2).json();
        check(&summary);
        // At the first look, not at the end.
        assert!(summary["elapsed_ns"].as_u64() < summary["settings"]["for_ns"].as_u64());
        assert_eq!(
            (&summary["verdict"], &summary["from_counter"]),
            (&"not_verified".into(), &0.into())
        );
        assert!(summary["laws"].as_array().unwrap().iter().all(|law| law["asked"] == false));
        let ran = verify(&[way]).exits(2);
        for part in ["laws        not asked\n", "has rejected the counter", "Nothing was verified"]
        {
            assert!(ran.stdout.contains(part), "no `{part}` in {}", ran.stdout);
        }
        assert!(!ran.stdout.contains("held"), "{}", ran.stdout);
    }
}
