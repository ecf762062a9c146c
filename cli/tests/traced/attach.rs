//! Running processes: what they ask is counted exactly, and nothing of them is changed.

use crate::common::process::send;
use crate::common::{run, tool, wait_until};
use crate::support::{Counted, by_function, compiled, go, lines, lost, program, temporary};
use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

// As in load.c.
const RUN: u64 = 0;
const IDLE: u64 = 1;
const FAULT: u64 = 2;
const ORDER: u64 = 3;
const DONE: u64 = 4;
const FIRST: u64 = 8;
const PER_THREAD: u64 = 8;
const WORDS: u64 = 512;
const CHILD: u64 = 1;
const THREADS: u64 = 2;
const EXEC: u64 = 3;
const EXIT: u64 = 4;

/// `load.c`, running.
pub struct Load {
    child: Child,
    words: File,
    threads: u64,
    orders: u64,
}

impl Load {
    pub fn start(test: &str, threads: u64) -> Self {
        Self::start_with(test, threads, &[])
    }

    fn start_with(test: &str, threads: u64, more: &[&str]) -> Self {
        let path = temporary(test).join("words");
        let _ = fs::remove_file(&path);
        let words = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        words.set_len(WORDS * 8).unwrap();
        let mut command = Command::new(program("load"));
        let command = command.arg(&path).arg(threads.to_string()).args(more);
        let child = command.stdin(Stdio::null()).spawn().unwrap();
        let load = Self { child, words, threads, orders: 0 };
        wait_until(|| load.word(IDLE) == threads);
        load
    }

    pub fn pid(&self) -> String {
        self.child.id().to_string()
    }

    fn word(&self, index: u64) -> u64 {
        let mut word = [0; 8];
        self.words.read_exact_at(&mut word, index * 8).unwrap();
        u64::from_ne_bytes(word)
    }

    fn set(&self, index: u64, word: u64) {
        self.words.write_all_at(&word.to_ne_bytes(), index * 8).unwrap();
    }

    pub fn run(&self) {
        self.set(RUN, 1);
        wait_until(|| self.word(IDLE) == 0);
    }

    /// From then on nothing is asked, and the counts are exact.
    fn pause(&self) {
        self.set(RUN, 0);
        wait_until(|| self.word(IDLE) == self.threads);
    }

    /// How often each function has asked, of all threads.
    fn counts(&self) -> [u64; 6] {
        let of = |index| -> u64 {
            (0..self.threads).map(|thread| self.word(FIRST + PER_THREAD * thread + index)).sum()
        };
        std::array::from_fn(|index| of(index as u64))
    }

    /// Lets them ask until each has done so at least so often.
    fn ask(&self, least: u64) {
        let until: Vec<_> = (0..self.threads)
            .map(|thread| FIRST + PER_THREAD * thread + 5)
            .map(|at| (at, self.word(at) + least))
            .collect();
        self.run();
        wait_until(|| until.iter().all(|&(at, least)| self.word(at) >= least));
        self.pause();
    }

    fn order(&mut self, what: u64, is_last: bool) {
        self.orders += 1;
        let order = self.orders << 8 | what;
        self.set(ORDER, order);
        if !is_last {
            wait_until(|| self.word(DONE) == order);
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if !std::thread::panicking() {
            assert_eq!(self.word(FAULT), 0, "no clock went back, and nobody was woken up");
        }
    }
}

/// The tool, counting what a process asks.
struct Attached {
    tool: Child,
    file: PathBuf,
}

impl Attached {
    fn to(test: &str, pid: &str) -> Self {
        let folder = temporary(test);
        let (file, began) = (folder.join("counted.json"), folder.join("began"));
        let _ = fs::remove_file(&began);
        let mut tool = tool(&["count-calls", "--pid", pid, "--save"]);
        let tool = tool.arg(&file).arg("--began").arg(&began).spawn().unwrap();
        let mut attached = Self { tool, file };
        wait_until(|| began.exists() || attached.tool.try_wait().unwrap().is_some());
        assert!(began.exists(), "it counts");
        attached
    }

    fn end(self) -> Counted {
        send(&self.tool, libc::SIGINT);
        self.wait()
    }

    fn wait(mut self) -> Counted {
        assert_eq!(self.tool.wait().unwrap().code(), Some(0));
        Counted::read(&self.file)
    }
}

/// What was counted of the load, beside what it has counted itself.
fn is_exact(process: &Value, before: [u64; 6], after: [u64; 6]) {
    let names = [
        "monotonic: clock_gettime 1",
        "cpu: clock_gettime 2",
        "microseconds: gettimeofday",
        "seconds: time",
        "resolution: clock_getres 1",
    ];
    let differences = after.into_iter().zip(before).map(|(after, before)| after - before);
    let asked = names.iter().zip(differences).filter(|&(_, count)| count > 0);
    let mut expected: Vec<_> = asked.map(|(name, count)| format!("{name}: {count}")).collect();
    expected.sort();
    assert_eq!(lines(process), expected);
    assert_eq!(lost(process), 0, "{process:#}");
}

#[test]
fn a_running_program_is_counted_exactly_on_all_its_threads() {
    let load = Load::start("exact", 6);
    load.ask(5);
    let before = load.counts();
    let attached = Attached::to("exact", &load.pid());
    load.ask(50);
    let after = load.counts();
    let counted = attached.end();
    // Nobody is there any more who would count that.
    load.ask(5);
    let [process] = counted.processes() else { panic!("{counted:#?}") };
    is_exact(process, before, after);
    assert!(process["threads"].as_array().unwrap().len() == 6, "{process:#}");
    assert!(counted.remarks().contains("past the vDSO, are not counted"), "{counted:#?}");
}

/// The bytes of a process's vDSO, and whether anybody traces it.
fn state(pid: &str) -> (Vec<u8>, String) {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let line = maps.lines().find(|line| line.ends_with("[vdso]")).unwrap();
    let (start, end) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
    let [start, end] = [start, end].map(|word| u64::from_str_radix(word, 16).unwrap());
    let mut bytes = vec![0; (end - start) as usize];
    File::open(format!("/proc/{pid}/mem")).unwrap().read_exact_at(&mut bytes, start).unwrap();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let tracer = status.lines().find(|line| line.starts_with("TracerPid")).unwrap().to_owned();
    (bytes, tracer)
}

/// As soon as nobody traces it.
fn state_when_left(pid: &str) -> (Vec<u8>, String) {
    wait_until(|| state(pid).1 == "TracerPid:\t0");
    state(pid)
}

#[test]
fn it_is_left_as_it_was_also_by_a_tool_that_is_killed() {
    let load = Load::start("left", 3);
    let before = state(&load.pid());
    let mut attached = Attached::to("left", &load.pid());
    load.run();
    let meanwhile = state(&load.pid());
    assert!(meanwhile.0 != before.0 && meanwhile.1 != before.1, "while it is counted");
    send(&attached.tool, libc::SIGKILL);
    attached.tool.wait().unwrap();
    assert!(state_when_left(&load.pid()) == before, "after the tool was killed");
    load.pause();
    // And it can be watched anew.
    let counts = load.counts();
    let attached = Attached::to("left", &load.pid());
    load.ask(20);
    let counted = attached.end();
    is_exact(&counted.processes()[0], counts, load.counts());
    assert!(state_when_left(&load.pid()) == before, "in the end");
    load.ask(20);
}

#[test]
fn threads_and_children_that_begin_meanwhile_are_counted() {
    let mut load = Load::start("begin", 1);
    let attached = Attached::to("begin", &load.pid());
    load.order(THREADS, false);
    load.order(CHILD, false);
    let counted = attached.end();
    let [parent, child] = counted.processes() else { panic!("{counted:#?}") };
    assert_eq!(lines(parent), ["monotonic: clock_gettime 1: 200"], "{parent:#}");
    let threads = parent["threads"].as_array().unwrap();
    assert!(
        threads.len() == 20 && threads.iter().all(|thread| thread["calls"] == 10),
        "{parent:#}"
    );
    assert_eq!(lines(child), ["monotonic: clock_gettime 1: 50"], "{child:#}");
    assert_eq!(lost(parent) + lost(child), 0);
    assert_eq!(child["program"], parent["program"]);
}

#[test]
fn counting_ends_where_the_program_does_or_becomes_another() {
    let mut load = Load::start("ended", 1);
    let attached = Attached::to("ended", &load.pid());
    load.ask(10);
    let counts = load.counts();
    load.order(EXIT, true);
    is_exact(&attached.wait().processes()[0], [0; 6], counts);

    let mut load = Load::start("ended", 1);
    let attached = Attached::to("ended", &load.pid());
    load.order(EXEC, true);
    let counted = attached.wait();
    assert!(counted.remarks().contains("became another program"), "{counted:#?}");
}

#[test]
fn a_program_under_load_is_attached_to_and_left_a_hundred_times() {
    let load = Load::start("hundred", 4);
    let before = state(&load.pid());
    load.run();
    let file = temporary("hundred").join("counted.json");
    let flags = ["count-calls", "--for", "5ms", "--pid", &load.pid(), "--save"].map(str::to_owned);
    let mut asked = 0;
    for _ in 0..100 {
        let flags: Vec<_> = flags.iter().map(String::as_str).collect();
        run(tool(&flags).arg(&file)).exits(0);
        let counted = Counted::read(&file);
        asked += counted.processes()[0]["sites"].as_array().unwrap().len();
    }
    assert!(asked > 100, "{asked} places in a hundred times");
    let counts = load.counts();
    wait_until(|| (0..6).all(|index| load.counts()[index] > counts[index]));
    load.pause();
    assert!(state_when_left(&load.pid()) == before);
}

#[test]
fn a_static_program_and_go_are_counted_while_they_run() {
    let own = compiled("own", "gcc", &["-static"]);
    running("own", &own, &["10", "for-ever"], &["asks: clock_gettime 1"]);
    if let Some(path) = go("asks") {
        running(
            "go",
            &path,
            &["for-ever"],
            &["main.asks: clock_gettime 0", "main.asks: clock_gettime 1"],
        );
    }
}

/// These lines are found.
fn running(test: &str, path: &Path, arguments: &[&str], expected: &[&str]) {
    let mut process = Command::new(path).args(arguments).stdout(Stdio::null()).spawn().unwrap();
    let attached = Attached::to(test, &process.id().to_string());
    std::thread::sleep(std::time::Duration::from_millis(300));
    let counted = attached.end();
    process.kill().unwrap();
    process.wait().unwrap();
    let found = by_function(&counted.processes()[0]);
    for line in expected {
        let is_there =
            |(function, call, _): &(String, String, u64)| format!("{function}: {call}") == *line;
        assert!(found.iter().any(is_there), "no {line} in {found:#?}");
    }
}

#[test]
fn signals_stops_and_interrupted_calls_are_as_without_it() {
    // It is over in less than a second: attached to at its beginning, again and again until it ends.
    let told = temporary("signals-attached").join("told");
    let out = File::create(&told).unwrap();
    let mut process = Command::new(program("signals")).stdout(out).spawn().unwrap();
    let pid = process.id().to_string();
    let file = temporary("signals-attached").join("counted.json");
    let mut asked = 0;
    while process.try_wait().unwrap().is_none() {
        let mut tool = tool(&["count-calls", "--for", "30ms", "--pid", &pid, "--save"]);
        let ran = run(tool.arg(&file));
        if ran.code == Some(0) {
            asked += Counted::read(&file).processes()[0]["sites"].as_array().unwrap().len();
        }
    }
    assert_eq!(process.wait().unwrap().code(), Some(0));
    assert_eq!(fs::read_to_string(&told).unwrap(), "held\n");
    assert!(asked > 0, "it was watched");
}

#[test]
fn a_program_that_would_be_killed_for_the_system_calls_is_answered_in_the_kernels_place() {
    let load = Load::start_with("filtered", 3, &["filtered"]);
    load.ask(5);
    let before = load.counts();
    let attached = Attached::to("filtered", &load.pid());
    load.ask(50);
    let after = load.counts();
    let counted = attached.end();
    load.ask(5);
    is_exact(&counted.processes()[0], before, after);
}

#[test]
fn a_stopped_program_stays_stopped_and_goes_on_when_it_is_let() {
    let load = Load::start("stopped", 2);
    let stop = |signal| send(&load.child, signal);
    let is = |state: &str| {
        let status = fs::read_to_string(format!("/proc/{}/status", load.pid())).unwrap();
        status.lines().any(|line| line.starts_with("State:") && line.contains(state))
    };
    load.run();
    // Stopped before it is attached to, and let go on meanwhile.
    stop(libc::SIGSTOP);
    wait_until(|| is("T (stopped)"));
    let attached = Attached::to("stopped", &load.pid());
    stop(libc::SIGCONT);
    let counts = load.counts();
    wait_until(|| (0..6).all(|index| load.counts()[index] > counts[index]));
    // Stopped meanwhile, and left so.
    stop(libc::SIGSTOP);
    wait_until(|| is("(tracing stop)") || is("T (stopped)"));
    let counted = attached.end();
    assert!(!lines(&counted.processes()[0]).is_empty());
    wait_until(|| is("T (stopped)"));
    let counts = load.counts();
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert_eq!(load.counts(), counts, "it stands still");
    stop(libc::SIGCONT);
    load.pause();
    load.ask(10);
    // A stop wakes up who waits for events, also by itself: signal(7).
    load.set(FAULT, 0);
}
