//! `--stats`: what was read is counted, told, and nothing is left behind.

use super::{compiled, forced, launch, places, text};
use crate::common::process::{hear, send};
use crate::common::terminal::run_on_terminals;
use crate::common::{Ran, names_in, run, wait_until};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

/// Reads MONOTONIC as often as its first argument says and REALTIME as often as the second, and forks so often.
const READER: &str = "#include <stdlib.h>\n#include <time.h>\n#include <sys/time.h>\n#include <sys/wait.h>\n\
    #include <unistd.h>\n\
    int main(int n, char **v) { struct timespec t; struct timeval z; int children = atoi(v[3]);\n\
    for (int i = 0; i < children; i++) if (!fork()) break; else wait(0);\n\
    for (int i = 0; i < atoi(v[1]); i++) clock_gettime(CLOCK_MONOTONIC, &t);\n\
    for (int i = 0; i < atoi(v[2]); i++) gettimeofday(&z, 0);\n\
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t); clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);\n\
    return 0; }";

/// Runs it with statistics as data.
fn counted(cache: &Path, command: &[&str]) -> Value {
    let file = cache.with_extension("json");
    let flags = ["--stats", "--format", "json", "--stats-file", text(&file)];
    let ran = run(&mut forced(cache, &[&flags, command].concat())).exits(0);
    assert_eq!(ran.stderr, "", "all of it is in the file");
    serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}

fn of_clock<'a>(counts: &'a Value, clock: &str) -> &'a Value {
    let clocks = counts["clocks"].as_array().unwrap();
    clocks.iter().find(|row| row["clock"] == format!("CLOCK_{clock}")).unwrap()
}

#[test]
fn reads_are_counted_by_clock() {
    let (folder, cache) = places("counted");
    std::fs::create_dir_all(&cache).unwrap();
    let program = compiled(&folder, "reader", READER, &[]);
    let told = counted(&cache, &[text(&program), "3000", "50", "0"]);
    assert_eq!((&told["schema"], &told["version"]), (&"clockwise.run.stats".into(), &1.into()));
    let total = &told["total"];
    assert_eq!(of_clock(total, "MONOTONIC")["reads"], 3000);
    assert_eq!(of_clock(total, "REALTIME")["reads"], 50);
    assert_eq!(of_clock(total, "BOOTTIME")["reads"], 0);
    assert_eq!((&total["coarse_reads"], &total["other_reads"]), (&1.into(), &1.into()));
    assert_eq!(total["reads"], 3052);
    for key in ["plain", "nothing"] {
        assert!(told[key].is_null(), "{told}");
    }
    let processes = told["processes"].as_array().unwrap();
    assert_eq!(processes.len(), 1, "{told:#}");
    assert_eq!(processes[0]["name"], "reader");
    assert!(processes[0]["process"].is_u64() && processes[0]["parent"].is_null(), "{told:#}");
}

#[test]
fn each_process_is_told_and_their_sum() {
    let (folder, cache) = places("several");
    std::fs::create_dir_all(&cache).unwrap();
    let program = compiled(&folder, "reader", READER, &[]);
    let told = counted(&cache, &[text(&program), "100", "7", "3"]);
    let processes = told["processes"].as_array().unwrap();
    assert_eq!(processes.len(), 4, "{told:#}");
    for process in processes {
        assert_eq!(process["name"], "reader");
        assert_eq!(of_clock(process, "MONOTONIC")["reads"], 100);
    }
    assert_eq!(processes.iter().filter(|process| process["parent"] == 0).count(), 3);
    assert_eq!(of_clock(&told["total"], "MONOTONIC")["reads"], 400);
    assert_eq!(told["total"]["reads"], 4 * 109);
    let table = run(&mut forced(&cache, &["--stats", text(&program), "100", "7", "3"])).exits(0);
    assert_eq!(table.stdout, "");
    for part in [
        "CLOCK_MONOTONIC",
        "400",
        "reader",
        "forked",
        "farthest the kernel was from our",
        "coarse, time()",
        "other clocks",
    ] {
        assert!(table.stderr.contains(part), "no {part} in {}", table.stderr);
    }
}

#[test]
fn statistics_are_for_the_terminal_that_they_go_to_and_plain_in_a_file() {
    let (_, cache) = places("terminals");
    let ran = run_on_terminals(forced(&cache, &["--stats", "bash", "-c", "echo"]), 60).exits(0);
    assert_eq!(ran.stdout, "\n");
    assert!(ran.stderr.contains("CLOCK_") && ran.stderr.contains('\u{1b}'), "{}", ran.stderr);
    let plain = console::strip_ansi_codes(&ran.stderr);
    assert!(plain.lines().all(|line| line.chars().count() <= 60), "{plain}");
    let file = cache.with_extension("txt");
    let flags = ["--stats", "--stats-file", text(&file), "bash", "-c", ":"];
    assert_eq!(run_on_terminals(forced(&cache, &flags), 60).exits(0).stderr, "");
    let told = std::fs::read_to_string(file).unwrap();
    assert!(told.contains("CLOCK_") && !told.contains('\u{1b}'), "{told}");
}

#[test]
fn processes_beyond_the_board_s_places_are_counted() {
    let (folder, cache) = places("crowd");
    std::fs::create_dir_all(&cache).unwrap();
    let program = compiled(&folder, "reader", READER, &[]);
    let told = counted(&cache, &[text(&program), "2", "0", "300"]);
    let places = told["processes"].as_array().unwrap().len() as u64;
    assert_eq!(places + told["processes_missed"].as_u64().unwrap(), 301, "{places}");
    let ran = run(&mut forced(&cache, &["--stats", text(&program), "2", "0", "300"])).exits(0);
    ran.says(&["more processes found no place to count", "more that read less"]);
}

#[test]
fn a_program_that_reads_nothing_or_is_not_reached_is_told_why() {
    let (folder, cache) = places("nothing");
    let silent = compiled(&folder, "silent", "int main(void) { return 0; }", &[]);
    let fixed = compiled(&folder, "fixed", "int main(void) { return 0; }", &["-static"]);
    let ran = run(&mut forced(&cache, &["--stats", text(&silent)])).exits(0);
    ran.says(&["no read was counted", "no clock read through it", "a library before"]);
    let ran = run(&mut launch(&cache, &["--stats", text(&fixed)])).exits(0);
    ran.says(&["linked statically", "no read was counted", "kernel's clock"]);
    let ran = run(&mut forced(&cache, &["--stats", text(&fixed)])).exits(0);
    ran.says(&["no read was counted", "no process loaded the image"]);
    let cleared = ["--stats", "env", "-u", "LD_PRELOAD", text(&silent)];
    run(&mut forced(&cache, &cleared)).exits(0).says(&["no read was counted"]);
}

#[test]
fn nothing_is_left_in_the_cache_however_the_program_ends() {
    let (folder, cache) = places("left");
    let own = cache.join("clockwise");
    for end in ["exit 0", "exit 7", "kill -TERM $$", "kill -KILL $$", "kill -SEGV $$"] {
        run(&mut forced(&cache, &["--stats", "sh", "-c", end]));
        assert_eq!(names_in(&own), [""; 0], "{end}");
    }
    let missing = folder.join("no").join("such");
    let file = ["--stats", "--stats-file", text(&missing), "true"];
    run(&mut forced(&cache, &file)).exits(2).says_only(&["--stats-file", "folder"]);
    script_without_interpreter(&folder);
    let script = folder.join("script");
    run(&mut forced(&cache, &["--stats", text(&script)])).exits(127);
    assert_eq!(names_in(&own), [""; 0]);
    for signal in [libc::SIGTERM, libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGALRM] {
        let ran = ended_by(&cache, signal);
        assert_eq!(ran.signal, Some(signal), "{ran:?}");
        assert_eq!(names_in(&own), [""; 0], "signal {signal}");
    }
    // Nobody can tidy up after this: the next run does.
    let ran = ended_by(&cache, libc::SIGKILL);
    assert_eq!(ran.signal, Some(libc::SIGKILL), "{ran:?}");
    assert_eq!(names_in(&own).len(), 2, "the board and the image");
    run(&mut forced(&cache, &["--stats", "true"])).exits(0);
    assert_eq!(names_in(&own), [""; 0]);
}

fn script_without_interpreter(folder: &Path) {
    super::script(&folder.join("script"), b"#!/no/such/interpreter\n");
}

/// A watched program that waits, and a signal to the tool alone.
fn ended_by(cache: &Path, signal: i32) -> Ran {
    let mut command = forced(cache, &["--stats", "sh", "-c", "echo up; exec sleep 60"]);
    if signal != libc::SIGKILL {
        hear(&mut command, signal);
    }
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut up = [0; 3];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut up).unwrap();
    let sleeper = children_of(child.id());
    send(&child, signal);
    let status = child.wait().unwrap();
    if signal == libc::SIGKILL {
        for process in sleeper {
            Command::new("kill").arg(process.to_string()).status().unwrap();
        }
    }
    let output = std::process::Output { status, stdout: Vec::new(), stderr: Vec::new() };
    output.into()
}

fn children_of(process: u32) -> Vec<u32> {
    let list = format!("/proc/{process}/task/{process}/children");
    let list = std::fs::read_to_string(list).unwrap();
    list.split_whitespace().map(|number| number.parse().unwrap()).collect()
}

#[test]
fn signals_to_the_tool_alone_reach_the_program() {
    let (_, cache) = places("forwarded");
    let signals = ["HUP", "USR1", "USR2", "WINCH", "TERM", "INT", "QUIT", "ALRM", "CONT", "PIPE"];
    let traps: String = signals.map(|name| format!("trap 'echo {name}' {name}; ")).concat();
    let script = format!("{traps} echo up; while :; do sleep 0.01; done");
    let mut command = forced(&cache, &["--stats", "sh", "-c", &script]);
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGPIPE] {
        hear(&mut command, signal);
    }
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    assert_eq!(lines.next().unwrap().unwrap(), "up");
    for name in signals {
        let number = child.id().to_string();
        assert!(
            Command::new("kill").args([&format!("-{name}"), &number]).status().unwrap().success()
        );
        assert_eq!(lines.next().unwrap().unwrap(), name);
    }
    send_to(children_of(child.id())[0], "KILL");
    assert_eq!(Ran::from(child.wait_with_output().unwrap()).signal, Some(libc::SIGKILL));
}

fn send_to(process: u32, name: &str) {
    assert!(
        Command::new("kill")
            .args([&format!("-{name}"), &process.to_string()])
            .status()
            .unwrap()
            .success()
    );
}

#[test]
fn a_program_that_stops_and_goes_on_takes_the_tool_with_it() {
    let (_, cache) = places("stopped");
    let state = |process: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
        stat.rsplit(") ").next().unwrap().chars().next().unwrap()
    };
    let mut command = forced(&cache, &["--stats", "sh", "-c", "echo up; read line; exit 9"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0; 3]).unwrap();
    let program = children_of(child.id())[0];
    // By a process and to the program alone; what a key does to both is tried at a terminal.
    send_to(program, "STOP");
    wait_until(|| state(child.id()) == 'T' && state(program) == 'T');
    send_to(child.id(), "CONT");
    wait_until(|| state(child.id()) != 'T' && state(program) != 'T');
    drop(child.stdin.take());
    assert_eq!(child.wait().unwrap().code(), Some(9));
}
