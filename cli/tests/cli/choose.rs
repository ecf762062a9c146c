//! `clockwise choose`: the answers on the computed machine to the last character, useful ones on this one, figures from files,
//! questions on a terminal, and what is refused. The rules themselves are tested in `cli/src/choose`.

use crate::common::process::{
    Limit, Verdict, allow_cpus, allowed_cpus, filter, hear, is_root, limit, send,
};
use crate::common::terminal::{Session, run_on_terminals};
use crate::common::{Ran, SNAPSHOT_ARCH, clockwise, folder, not_tried, run, tool, wait_until};
use serde_json::Value;
use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

/// On the computed machine of seed 7, twice; both runs must be the same.
fn simulated(flags: &str) -> Ran {
    let args: Vec<&str> =
        ["choose", "--simulate", "7"].into_iter().chain(flags.split_whitespace()).collect();
    let (first, second) = (clockwise(&args), clockwise(&args));
    assert_eq!(first.stdout, second.stdout, "two runs of one seed differ");
    assert_eq!(first.stderr, "");
    let fits = |line: &str| line.chars().count() <= 100;
    assert!(flags.contains("json") || first.stdout.lines().all(fits), "{}", first.stdout);
    first
}

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
fn a_time_of_ten_milliseconds_is_the_coarse_clock() {
    let ran = simulated("--for elapsed --precision 10ms").exits(0);
    assert!(ran.stdout.starts_with("choice     CLOCK_MONOTONIC_COARSE: 4.9"), "{}", ran.stdout);
    matches_snapshot!("choose_coarse", ran.stdout);
}

#[test]
fn where_the_image_gains_the_program_is_started_by_it_and_the_line_stays() {
    let ran = simulated("--for deadline --counts-suspend").exits(0);
    matches_snapshot!("choose_run", ran.stdout);
}

#[test]
fn rust_gets_our_line_beside_std_s() {
    let ran = simulated("--for elapsed --causal --language rust").exits(0);
    matches_snapshot!("choose_rust", ran.stdout);
}

#[test]
fn a_kept_time_comes_with_its_thread() {
    let ran = simulated("--for elapsed --precision 10ms --allow-thread --language rust").exits(0);
    matches_snapshot!("choose_kept", ran.stdout);
}

#[test]
fn a_need_that_no_clock_meets_names_what_each_fails_and_what_would_do() {
    let ran = simulated("--for wall --follows-ntp no --counts-suspend").exits(1);
    matches_snapshot!("choose_none", ran.stdout);
    // Two needs too many: neither alone helps.
    let ran = simulated("--for cpu-process --counts-suspend --across-processes").exits(1);
    assert!(!ran.stdout.contains("would do"), "{}", ran.stdout);
    let ran = simulated("--for wall --precision 5ns").exits(1);
    assert!(
        ran.stdout.contains("would do   with --precision 11ns: CLOCK_REALTIME (run"),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.contains("are 23 ns apart: nothing finer shows"), "{}", ran.stdout);
    // Unordered reads were not measured, as they do not meet --causal: nobody knows that they are finer.
    let ran = simulated("--for wall --causal --precision 1ns").exits(1);
    let proposals = ran.stdout.lines().filter(|line| line.starts_with("would do"));
    let proposals: Vec<_> = proposals.collect();
    assert!(proposals.iter().any(|line| line.contains("with --precision ")), "{}", ran.stdout);
    assert!(!proposals.iter().any(|line| line.contains("not measured")), "{}", ran.stdout);
}

#[test]
fn every_language_has_an_answer_for_every_purpose_that_it_has_a_call_for() {
    for language in ["c", "rust", "python", "go", "java", "node"] {
        for purpose in ["wall", "elapsed", "cpu-thread", "cpu-process", "deadline", "log"] {
            let ran = simulated(&format!("--for {purpose} --language {language} --format json"));
            let choice = ran.json();
            // Node.js has no finer time of day than a millisecond, and none of a thread's CPU time.
            let none = language == "node" && ["wall", "cpu-thread"].contains(&purpose);
            assert_eq!(ran.code, Some(i32::from(none)), "{language} {purpose}: {}", ran.stdout);
            assert_eq!(choice["choice"].is_null(), none);
            let first = &choice["candidates"][0];
            assert_eq!(first["fails"].as_array().unwrap().is_empty(), !none);
            assert!(none || first["code"].is_string() && first["cost_ns"].is_number(), "{first}");
        }
    }
}

#[test]
fn the_json_is_that_of_the_snapshot() {
    let ran = simulated("--for deadline --counts-suspend --language python --format json").exits(0);
    matches_snapshot!("choose_json", ran.stdout);
}

#[test]
fn the_explanation_is_that_of_the_snapshot_and_every_cell_has_its_source() {
    let text = clockwise(&["choose", "--explain"]).exits(0).stdout;
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    matches_snapshot!("choose_explain", text);
    let json = clockwise(&["choose", "--explain", "--format", "json"]).exits(0).json();
    assert_eq!(json["schema"], "clockwise.choose.explain");
    let rows = json["clocks"].as_array().unwrap().iter().chain(json["calls"].as_array().unwrap());
    let properties =
        ["tells", "steps", "steered", "suspend", "causal", "shared", "timers", "grain", "thread"];
    for row in rows {
        for property in properties {
            let source = row[property]["source"].as_str().unwrap_or_default();
            let stated = ["(2)", "(3)", "(7)", "kernel: ", "SDM", "clockwise", ": ", "no document"];
            assert!(stated.iter().any(|part| source.contains(part)), "{property} of {row}");
            assert!(!row[property]["value"].is_null(), "{property} of {row}");
        }
    }
}

#[test]
fn a_narrow_terminal_and_colours_change_nothing_but_the_form() {
    let args = ["choose", "--simulate", "7", "--for", "log", "--color", "always"];
    let ran = run_on_terminals(tool(&args), 60).exits(0);
    assert!(ran.stdout.contains("\u{1b}["));
    let uncoloured = console::strip_ansi_codes(&ran.stdout);
    let plain = run_on_terminals(tool(&[&args[..5], &["--color", "never"]].concat()), 60).exits(0);
    // Code is not broken: it is to be copied.
    for line in plain.stdout.lines().filter(|line| !line.starts_with("             ")) {
        assert!(line.chars().count() <= 60, "{line}");
    }
    let lines =
        |text: &str| text.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>();
    assert_eq!(lines(&uncoloured), lines(&plain.stdout), "colours take no room");
    // What the table of the others has no room for, it says.
    let answer = |ran: &Ran| ran.unbroken().split("would do too").next().unwrap().to_owned();
    assert_eq!(answer(&plain), answer(&simulated("--for log")));
}

#[test]
fn this_machine_gets_a_useful_answer() {
    for (flags, language) in [
        ("--for elapsed --causal", "c"),
        ("--for wall", "rust"),
        ("--for elapsed --precision 20ms --allow-thread", "rust"),
        ("--for deadline --counts-suspend", "python"),
        ("--for cpu-thread", "go"),
        ("--for log", "java"),
    ] {
        let words = flags.split(' ').chain(["--language", language, "--format", "json"]);
        let ran = clockwise(&["choose"].into_iter().chain(words).collect::<Vec<_>>()).exits(0);
        let choice = ran.json();
        assert_eq!(choice["schema"], "clockwise.choose");
        assert!(choice["origin"]["file"].is_null() && choice["origin"]["kernel"].is_string());
        let candidates = choice["candidates"].as_array().unwrap();
        let met = |candidate: &&Value| candidate["fails"].as_array().unwrap().is_empty();
        let costs: Vec<f64> =
            candidates.iter().filter(met).filter_map(|c| c["cost_ns"].as_f64()).collect();
        if costs.is_empty() {
            not_tried(flags, "the machine was too loaded for a sample");
            continue;
        }
        assert!(costs.iter().all(|&ns| ns > 0.0), "{candidates:#?}");
        let least = costs.iter().copied().fold(f64::INFINITY, f64::min);
        assert!(costs[0] <= least * 1.05, "{costs:?}");
        assert!(costs[1..].is_sorted(), "{costs:?}");
    }
}

#[test]
fn on_one_processor_there_is_an_answer() {
    let mut command = tool(&["choose", "--for", "elapsed", "--causal", "--language", "rust"]);
    allow_cpus(&mut command, &allowed_cpus()[..1]);
    let ran = run(&mut command).exits(0);
    assert!(ran.stdout.starts_with("choice     "), "{}", ran.stdout);
}

#[test]
fn a_clock_that_a_sandbox_denies_is_not_here() {
    let mut command = tool(&["choose", "--for", "cpu-thread"]);
    filter(&mut command, &[libc::SYS_clock_gettime], Verdict::Errno(libc::EPERM));
    let text = run(&mut command).exits(1).unbroken();
    assert!(text.contains("CLOCK_THREAD_CPUTIME_ID not here: is refused with EPERM"), "{text}");
    let mut command = tool(&["choose", "--for", "elapsed", "--precision", "10ms"]);
    filter(&mut command, &[libc::SYS_clock_gettime], Verdict::Kill);
    let ran = run(&mut command);
    if ran.code == Some(2) {
        return not_tried("a sandbox that kills", "every read is a system call here");
    }
    assert!(ran.exits(0).stdout.starts_with("choice     CLOCK_MONOTONIC"));
}

#[test]
fn where_no_thread_can_be_had_no_time_is_kept() {
    if is_root() {
        return not_tried("a ticker without threads", "root is not limited in number");
    }
    let args = ["choose", "--for", "elapsed", "--precision", "10ms", "--allow-thread"];
    let mut command = tool(&[&args[..], &["--language", "rust", "--format", "json"]].concat());
    limit(&mut command, Limit::Processes(0));
    let choice = run(&mut command).exits(0).json();
    let all = choice["candidates"].as_array().unwrap();
    let kept = all.iter().find(|candidate| candidate["name"] == "clockwise recent").unwrap();
    assert_eq!(kept["cost_reason"], "not measured");
}

#[test]
fn under_the_image_it_says_whose_prices_those_are() {
    let cache = folder("choose_image");
    let mut command = tool(&["run", "--force", "--", env!("CARGO_BIN_EXE_clockwise")]);
    command.args(["choose", "--for", "elapsed"]).env("XDG_CACHE_HOME", &cache);
    let ran = run(&mut command);
    if ran.code == Some(2) {
        return not_tried("choose with the image", ran.stderr.trim());
    }
    ran.exits(0).says(&["an image answers here in libc's place", "run `clockwise choose` alone"]);
}

#[test]
fn figures_come_from_a_file_of_bench_and_what_it_lacks_stays_without() {
    let file = folder("choose_from").join("results.json");
    let path = file.to_str().unwrap();
    let bench = ["bench", "--simulate", "7", "--only", "libc/mono*", "--format", "csv", "--save"];
    clockwise(&[&bench[..], &[path]].concat()).exits(0);
    let args = ["choose", "--for", "elapsed", "--from", path];
    let ran = clockwise(&args).exits(0);
    for part in [
        "choice     CLOCK_MONOTONIC: 22.0",
        &format!("figures    of {path}: Simulated Processor"),
        "CLOCK_BOOTTIME not measured - -",
        "CLOCK_MONOTONIC_COARSE steps by 4 ms here",
    ] {
        assert!(
            ran.unbroken().contains(&part.split_whitespace().collect::<Vec<_>>().join(" ")),
            "no {part} in {}",
            ran.stdout
        );
    }
    // It measures nothing: the same to the last digit.
    assert_eq!(clockwise(&args).stdout, ran.stdout);
    let json = clockwise(&[&args[..], &["--format", "json"]].concat()).exits(0).json();
    let of = |name: &str| {
        let all = json["candidates"].as_array().unwrap();
        all.iter().find(|candidate| candidate["name"] == name).unwrap_or_else(|| panic!("{name}"))
    };
    assert_eq!(of("CLOCK_BOOTTIME")["cost_reason"], "not measured");
    assert!(of("CLOCK_BOOTTIME")["cost_ns"].is_null());
    assert!(of("CLOCK_MONOTONIC")["cost_ns"].is_number());
}

#[test]
fn a_signal_ends_it_while_it_waits_for_a_file_that_never_comes() {
    let pipe = folder("choose_from_pipe").join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    if !made.is_ok_and(|status| status.success()) {
        return not_tried("a pipe for --from", "there is no mkfifo");
    }
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let mut command = tool(&["choose", "--for", "wall", "--from", pipe.to_str().unwrap()]);
        hear(&mut command, signal);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // Asleep: as far as it comes.
        let stat = format!("/proc/{}/stat", child.id());
        wait_until(|| fs::read_to_string(&stat).is_ok_and(|stat| stat.contains("(clockwise) S ")));
        send(&child, signal);
        let is_over = |_| {
            std::thread::sleep(Duration::from_millis(50));
            child.try_wait().unwrap().is_some()
        };
        let ended = (0..200).any(is_over);
        // Whatever happens, nothing stays behind.
        let _ = child.kill();
        let ran = Ran::from(child.wait_with_output().unwrap());
        assert!(ended && ran.signal == Some(signal) && ran.stdout.is_empty(), "{ran:#?}");
    }
}

#[test]
fn files_that_are_no_result_are_refused_in_a_sentence() {
    let folder = folder("choose_from_none");
    let file = folder.join("results.json");
    let path = file.to_str().unwrap();
    let refused = |parts: &[&str]| {
        let ran = clockwise(&["choose", "--for", "wall", "--from", path]).exits(2);
        ran.says_only(&[&["clockwise bench --save FILE"], parts].concat());
    };
    refused(&["cannot be read: not there"]);
    clockwise(&["bench", "--simulate", "7", "--format", "csv", "--save", path]).exits(0);
    let whole = fs::read_to_string(&file).unwrap();
    let wrote = |text: &str| fs::write(&file, text).unwrap();
    wrote(&whole[..whole.len() / 2]);
    refused(&["is not JSON, or damaged"]);
    wrote("name,median\nlibc/time,3\n");
    refused(&["is not JSON, or damaged"]);
    wrote(&whole.replacen("\"version\": 1", "\"version\": 0", 1));
    refused(&["has version 0 of its schema, and this tool reads 1"]);
    wrote(&whole.replacen("clockwise.bench", "clockwise.verify", 1));
    refused(&["is `clockwise.verify` and not a result"]);
    wrote(&whole.replacen("\"median_ns\": ", "\"median_ns\": -", 1));
    refused(&["is damaged: /throughput/median_ns of"]);
    wrote("");
    refused(&["is not JSON, or damaged"]);
    fs::write(&file, [0xff; 64]).unwrap();
    refused(&["is not JSON, or damaged"]);
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    refused(&["cannot be read"]);
}

#[test]
fn without_a_purpose_and_without_a_terminal_the_remedy_is_told() {
    for args in [&["choose"][..], &["choose", "--precision", "10ms", "--causal"]] {
        let ran = clockwise(args).exits(2);
        ran.says_only(&["clockwise choose --for elapsed --precision 10ms", "on a terminal only"]);
    }
    // A terminal to read on alone is none to ask on.
    let ran = run(tool(&["choose"]).stdin(Stdio::piped())).exits(2);
    ran.says_only(&["on a terminal only"]);
}

#[test]
fn flags_that_contradict_each_other_or_are_none_are_refused() {
    for (flags, parts) in [
        ("--precision 0", &["--precision <TIME>", "no time at all"][..]),
        ("--precision 10", &["write a unit, as in 10ms"]),
        ("--precision=-1ms", &["not a duration; write it as in 10ms"]),
        ("--precision 2h", &["any clock will do; give less"]),
        ("--precision soon", &["not a duration"]),
        ("--for lunch", &["wall, elapsed, cpu-thread, cpu-process, deadline, log"]),
        ("--language pascal", &["c, rust, python, go, java, node"]),
        ("--follows-ntp maybe", &["yes, no"]),
        ("--follows-ntp yes --follows-ntp no", &["--follows-ntp", "cannot be used multiple times"]),
        ("--for wall --for log", &["--for", "cannot be used multiple times"]),
        ("--across-processes=galaxy", &["namespace, machine"]),
        ("--explain --causal", &["--explain", "--causal"]),
        ("--explain --for wall", &["--explain", "--for"]),
        ("--explain --from a.json", &["--explain", "--from"]),
        ("--for wall --from a.json --simulate 1", &["--from", "--simulate"]),
    ] {
        let args: Vec<&str> = ["choose"].into_iter().chain(flags.split_whitespace()).collect();
        let ran = clockwise(&args).exits(2);
        assert_eq!(ran.stdout, "", "{flags}");
        assert!(ran.stderr.starts_with("error: "), "{}", ran.stderr);
        ran.says(parts);
    }
}

/// A session at a terminal.
fn asked(flags: &[&str]) -> Session {
    Session::start(tool(&[&["choose", "--simulate", "7", "--color", "never"], flags].concat()))
}

#[test]
fn on_a_terminal_it_asks_and_the_answer_is_that_of_the_flags_it_tells() {
    let mut session = asked(&[]);
    session.expect("What is the time for? [2] ");
    session.write("elapsed\n");
    session.expect("How fine, as in 10ms? [1us] ");
    session.write("fine\n");
    session.expect("`fine` is none: not a duration");
    session.expect("How fine, as in 10ms? [1us] ");
    session.write("10ms\n");
    session.expect("while the machine is suspended? y/n [n] ");
    session.write("\n");
    session.expect("Do threads compare their times? y/n [y] ");
    session.write("n\n");
    session.expect("Do processes compare theirs? y/n [n] ");
    session.write("\n");
    session.expect("In which language: c, rust, python, go, java, node? [c] ");
    session.write("\n");
    session.expect("The same by flags: clockwise choose --for elapsed --precision 10ms\r\n");
    // The end of the text: what comes before it is the answer.
    let answer = session.expect("CLOCK_AUX7").replace("\r\n", "\n");
    let by_flags = simulated("--for elapsed --precision 10ms").stdout;
    assert!(by_flags.starts_with(answer.trim_start()), "{answer}");
    assert_eq!(session.end().code(), Some(0));
}

#[test]
fn questions_are_ended_by_the_end_of_the_answers_and_by_an_interrupt() {
    let mut session = asked(&[]);
    session.expect("[2] ");
    session.write("\x04");
    session.expect("the answers ended before the questions; say it by flags");
    assert_eq!(session.end().code(), Some(2));

    let mut session = asked(&["--language", "rust"]);
    session.expect("[2] ");
    session.write("\x03");
    let status = session.end();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(libc::SIGINT));
}
