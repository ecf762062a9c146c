//! Where the result goes: pipes that close, full devices, terminals, files.

use crate::common::process::{self, Limit, close, is_root, limit};
use crate::common::terminal::run_on_terminals;
use crate::common::{Ran, clockwise, folder, names_in, not_tried, run, tool};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::process::Stdio;

const SIMULATED: [&str; 3] = ["bench", "--simulate", "7"];

#[test]
fn a_reader_that_has_seen_enough_is_a_success() {
    for args in [&["bench", "--simulate", "7", "--format", "json"][..], &["bench", "--help"]] {
        let mut command = tool(args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // Nobody reads: the pipe is closed before anything is written.
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    }
}

#[test]
fn the_first_line_alone_can_be_read() {
    let mut command = tool(&["bench", "--simulate", "7", "--format", "json"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    lines.read_line(&mut line).unwrap();
    drop(lines);
    assert_eq!(line, "{\n");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_full_device_is_a_failure_with_a_sentence() {
    for args in [&SIMULATED[..], &["completions", "bash"], &["man"]] {
        let full = File::create("/dev/full").expect("every Linux has /dev/full");
        let ran = run(tool(args).stdout(full));
        ran.exits(1).says_only(&["the result cannot be printed", "No space left"]);
    }
}

#[test]
fn closed_descriptors_do_no_harm() {
    for descriptor in 0..3 {
        let mut command = tool(&[&SIMULATED[..], &["--format", "csv"]].concat());
        close(&mut command, descriptor);
        let ran = run(&mut command).exits(0);
        assert_eq!(ran.stdout.is_empty(), descriptor == 1);
        assert_eq!(ran.stderr.is_empty(), descriptor == 2);
    }
    // All at once, on the real machine: what is opened first must not be taken for one of them.
    let file = folder("closed").join("a.json");
    let mut command = tool(&["bench", "--time", "20ms", "--only", "libc/*", "--save"]);
    command.arg(&file);
    (0..3).for_each(|descriptor| close(&mut command, descriptor));
    // So short a run may come to no sample.
    let ran = run(&mut command);
    assert!(matches!(ran.code, Some(0 | 2)), "{ran:#?}");
    serde_json::from_slice::<serde_json::Value>(&fs::read(&file).unwrap()).unwrap();
}

#[test]
fn a_closed_standard_error_does_not_hide_the_exit_status() {
    let mut command = tool(&["bench", "--only", "nothing"]);
    close(&mut command, 2);
    run(&mut command).exits(2);
}

#[test]
fn what_is_not_a_terminal_gets_no_escape_sequences() {
    for format in ["text", "json", "csv", "repnop"] {
        let ran = clockwise(&[&SIMULATED[..], &["--format", format]].concat());
        assert!(!ran.stdout.contains('\u{1b}') && !ran.stderr.contains('\u{1b}'), "{format}");
    }
    let ran = clockwise(&["bench", "--quick"]);
    assert!(!ran.stdout.contains('\u{1b}') && !ran.stderr.contains('\u{1b}'));
}

#[test]
fn a_terminal_gets_colours_unless_told_not_to() {
    let few = [&SIMULATED[..], &["--only", "*/monotonic"]].concat();
    let colored = run_on_terminals(tool(&few), 100);
    assert!(colored.stdout.contains("\u{1b}["), "{}", colored.stdout);
    let mut command = tool(&few);
    command.env("NO_COLOR", "1");
    let plain = run_on_terminals(command, 100);
    assert!(!plain.stdout.contains('\u{1b}'), "{}", plain.stdout);
    let never = run_on_terminals(tool(&[&few[..], &["--color", "never"]].concat()), 100);
    assert_eq!(never.stdout, plain.stdout);
}

#[test]
fn progress_is_drawn_on_a_terminal_and_goes_again() {
    let ran = run_on_terminals(tool(&["bench", "--time", "300ms", "--format", "json"]), 100);
    assert!(ran.stderr.contains("cost"), "{:?}", ran.stderr);
    assert!(!ran.stdout.contains('\u{1b}'), "{}", ran.stdout);
    ran.json();
}

/// Places that cannot be written to, each with a word that tells why.
fn unwritable(folder: &std::path::Path) -> Vec<(String, &'static str)> {
    let at = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    vec![
        (at("missing/a.json"), "not there"),
        (folder.to_str().unwrap().to_owned(), "is a folder"),
        ("/proc/clockwise.json".to_owned(), "cannot be written"),
        ("/dev/null".to_owned(), "is not a plain file"),
        ("/".to_owned(), "give --save a file"),
    ]
}

#[test]
fn a_place_without_permission_is_refused_before_measuring() {
    let of_root = folder("of_root").join("a.json");
    fs::write(&of_root, "old").unwrap();
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o444);
    fs::set_permissions(&of_root, permissions).unwrap();
    for place in ["/a.json", of_root.to_str().unwrap()] {
        let mut command = tool(&["bench", "--simulate", "1", "--save", place]);
        if is_root() {
            // Root may write everywhere.
            std::os::unix::process::CommandExt::uid(&mut command, 60_112);
        }
        match command.output() {
            Err(error) => not_tried("a place without permission", &format!("as a user: {error}")),
            Ok(output) => {
                Ran::from(output).exits(2).says_only(&["no permission", "give --save a file"]);
            }
        }
    }
    assert_eq!(fs::read_to_string(&of_root).unwrap(), "old");
}

#[test]
fn a_place_that_cannot_be_written_to_is_refused_before_measuring() {
    let folder = folder("unwritable");
    for (place, part) in unwritable(&folder) {
        for format in ["json", "bench_time"] {
            let ran =
                clockwise(&["bench", "--simulate", "1", "--format", format, "--save", &place]);
            ran.exits(2).says_only(&[part, "give --save a file"]);
        }
    }
    assert_eq!(names_in(&folder), [""; 0]);
}

#[test]
fn a_run_that_fails_leaves_the_old_file_and_nothing_beside_it() {
    let folder = folder("failed_run");
    let file = folder.join("a.json");
    fs::write(&file, "old").unwrap();
    let file = file.to_str().unwrap();
    for args in [
        &["bench", "--only", "nothing", "--save", file][..],
        &["bench", "--cpus", "1023", "--save", file],
        &["bench", "--simulate", "1", "-n", "5", "--save", file],
    ] {
        clockwise(args).exits(2);
        assert_eq!(fs::read_to_string(file).unwrap(), "old", "{args:?}");
        assert_eq!(names_in(&folder), ["a.json"], "{args:?}");
    }
    clockwise(&[&SIMULATED[..], &["--save", file]].concat()).exits(0);
    assert!(fs::read_to_string(file).unwrap().starts_with('{'));
    assert_eq!(names_in(&folder), ["a.json"]);
}

#[test]
fn a_disk_that_fills_up_costs_the_file_and_not_the_result() {
    let folder = folder("full_disk");
    let file = folder.join("a.json");
    fs::write(&file, "old").unwrap();
    for format in ["text", "bench_time"] {
        let mut command = tool(&[&SIMULATED[..], &["--format", format, "--save"]].concat());
        command.arg(&file);
        // Told by an error then, as a full disk is, and not by a signal.
        process::ignore(&mut command, libc::SIGXFSZ);
        limit(&mut command, Limit::FileSize(100));
        let ran = run(&mut command).exits(1).says(&["a.json was not written"]);
        let whole = clockwise(&[&SIMULATED[..], &["--format", format]].concat());
        assert_eq!(ran.stdout, whole.stdout);
        assert_eq!(fs::read_to_string(&file).unwrap(), "old");
        assert_eq!(names_in(&folder), ["a.json"]);
    }
}

#[test]
fn a_link_stays_a_link_and_what_it_names_is_written() {
    let folder = folder("link");
    let (file, link) = (folder.join("a.json"), folder.join("link"));
    fs::write(&file, "old").unwrap();
    std::os::unix::fs::symlink("a.json", &link).unwrap();
    run(tool(&SIMULATED).arg("--save").arg(&link)).exits(0);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(fs::read_to_string(&file).unwrap().starts_with('{'));
    assert_eq!(names_in(&folder), ["a.json", "link"]);
}
