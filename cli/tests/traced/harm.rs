//! What is watched goes on as it would otherwise: signals, stops, statuses.

use crate::common::process::send;
use crate::common::{run, tool, wait_until};
use crate::support::{Counted, compiled, lines, program, temporary};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

#[test]
fn signals_stops_and_interrupted_calls_are_as_without_a_tracer() {
    let path = program("signals");
    let alone = Command::new(&path).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&alone.stdout), "held\n");
    let file = temporary("signals").join("counted.json");
    let ran = run(tool(&["count-calls", "--save"]).arg(&file).arg(&path)).exits(0);
    assert_eq!(ran.stdout, "held\n");
    let counted = Counted::read(&file);
    assert!(!lines(&counted.processes()[0]).is_empty(), "it was watched: {counted:#?}");
}

#[test]
fn the_tool_ends_as_the_program_did() {
    let file = temporary("ends").join("counted.json");
    for (script, code, signal) in
        [("exit 0", Some(0), None), ("exit 41", Some(41), None), ("kill -TERM $$", None, Some(15))]
    {
        let ran = run(tool(&["count-calls", "--save"]).arg(&file).args(["--", "sh", "-c", script]));
        assert_eq!((ran.code, ran.signal), (code, signal), "{script}: {ran:#?}");
    }
}

#[test]
fn what_is_sent_to_the_tool_alone_reaches_the_program() {
    let folder = temporary("sent");
    let (file, ready) = (folder.join("counted.json"), folder.join("ready"));
    let _ = fs::remove_file(&ready);
    let script =
        format!("trap 'exit 7' TERM; : > {}; while :; do sleep 0.01; done", ready.display());
    let mut child = tool(&["count-calls", "--save"])
        .arg(&file)
        .args(["--", "sh", "-c", &script])
        .spawn()
        .unwrap();
    wait_until(|| ready.exists());
    send(&child, libc::SIGTERM);
    assert_eq!(child.wait().unwrap().code(), Some(7));
}

#[test]
fn a_tracer_that_is_killed_takes_the_program_along() {
    let folder = temporary("killed");
    let number = folder.join("number");
    let _ = fs::remove_file(&number);
    let script =
        format!("echo $$ > {0}.new; mv {0}.new {0}; while :; do :; done", number.display());
    let mut child =
        tool(&["count-calls", "--", "sh", "-c", &script]).stdout(Stdio::null()).spawn().unwrap();
    wait_until(|| number.exists());
    let number = fs::read_to_string(&number).unwrap();
    send(&child, libc::SIGKILL);
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
    let status = format!("/proc/{}/status", number.trim());
    wait_until(|| fs::read_to_string(&status).map_or(true, |status| status.contains("State:\tZ")));
}

#[test]
fn a_program_is_told_to_end_when_its_time_is_over_and_its_calls_are_told() {
    let own = compiled("own", "gcc", &["-static"]);
    let file = temporary("limit").join("counted.json");
    let ran = run(tool(&["count-calls", "--for", "200ms", "--save"]).arg(&file).args([
        "--",
        own.to_str().unwrap(),
        "10",
        "for-ever",
    ]));
    assert_eq!(ran.signal, Some(libc::SIGTERM), "{ran:#?}");
    let counted = Counted::read(&file);
    assert_eq!(counted.0["is_stopped"], true);
    assert_eq!(lines(&counted.processes()[0]).len(), 1, "{counted:#?}");
}

#[test]
fn what_outlives_the_program_is_followed_to_its_end() {
    let own = compiled("own", "gcc", &["-static"]);
    let script = format!("(sleep 0.3; {} 12) > /dev/null & exit 5", own.display());
    let (counted, status) = Counted::of("outlives", &["/bin/sh", "-c", &script]);
    assert_eq!(status, 5);
    let asked: Vec<_> = counted.processes().iter().flat_map(lines).collect();
    assert!(asked.contains(&"asks: clock_gettime 1: 12".to_owned()), "{counted:#?}");
}
