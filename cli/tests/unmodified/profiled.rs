//! The image that counts, in programs that were not built for it: they survive it as they do the image, and real ones are
//! counted to the call.

use crate::places::SANDBOXES;
use crate::runner::{Image, Program, installed, source, temporary};
use crate::survival::{allocator, early, judge};
use serde_json::Value;
use std::path::PathBuf;

/// A program by `clockwise profile`, and where what was counted will be.
fn profiled(program: Program, test: &str) -> (Program, PathBuf) {
    let file = temporary("profiled").join(format!("{test}.json"));
    let tool = env!("CARGO_BIN_EXE_clockwise");
    let words = [tool, "profile", "--format", "json", "--save", file.to_str().unwrap(), "--"];
    (program.by(words).variable("XDG_CACHE_HOME", temporary("cache")), file)
}

fn told(file: &PathBuf) -> Value {
    serde_json::from_str(&std::fs::read_to_string(file).expect("the file")).expect("JSON")
}

/// Runs it; it must end well, and tell what it tells without. Gives what was counted.
#[track_caller]
fn survives(program: Program, test: &str) -> Value {
    let alone = program.run(&Image::None).holds().stdout;
    let (program, file) = profiled(program, test);
    assert_eq!(program.run(&Image::None).holds().stdout, alone, "{test}");
    told(&file)
}

#[test]
fn programs_that_try_an_image_survive_being_counted() {
    for name in ["storm", "family", "threads", "ids", "contract", "waits"] {
        let told = survives(judge(name), name);
        assert!(told["total"]["calls"].as_u64().unwrap() > 0, "{name}: {told:#}");
    }
    if let Some(valgrind) = installed("valgrind") {
        let by = [valgrind.to_str().expect("a path in words"), "-q", "--error-exitcode=9"];
        survives(judge("clocks").args(["fork"]).by(by), "valgrind");
    }
    survives(early(), "early");
    survives(judge("clocks").args(["tell", "fork"]), "clocks");
    survives(judge("allocating").before_image(&allocator()), "allocating");
}

/// A filter that kills for any call that the program does not make itself: none is made in its name.
#[test]
fn programs_that_filter_system_calls_survive_being_counted() {
    for sandbox in &SANDBOXES {
        let test = sandbox.join("-");
        let told = survives(judge("sandbox").args(sandbox), &test);
        assert!(told["total"]["calls"].as_u64().unwrap() > 0, "{test}: {told:#}");
    }
}

#[test]
fn programs_under_limits_survive_being_counted() {
    for limit in ["no-descriptors", "no-memory", "no-file-size"] {
        survives(judge("clocks").args([limit]), limit);
    }
}

#[test]
fn python_is_counted_to_the_call() {
    let Some(python) = installed("python3") else { return };
    let script = "import time\nfor i in range(12345): time.time()\nfor i in range(777): time.monotonic()\n\
                  for i in range(55): time.clock_gettime(time.CLOCK_BOOTTIME)";
    let of = |n: &str| {
        let (program, file) = profiled(Program::new(&python).args(["-c", n]), "python");
        program.run(&Image::None).holds();
        told(&file)
    };
    let count = |told: &Value, clock: &str| -> u64 {
        let clocks = told["clocks"].as_array().unwrap().iter();
        clocks.filter(|row| row["clock"] == clock).map(|row| row["calls"].as_u64().unwrap()).sum()
    };
    // The interpreter's start asks a few times itself.
    let (alone, asking) = (of("import time"), of(script));
    for (clock, calls) in [("REALTIME", 12_345), ("MONOTONIC", 777), ("BOOTTIME", 55)] {
        let clock = format!("CLOCK_{clock}");
        assert_eq!(count(&asking, &clock), count(&alone, &clock) + calls, "{asking:#}");
    }
    let notes = asking["notes"].as_array().unwrap();
    assert!(notes.iter().any(|note| note.as_str().unwrap().contains("interpreter")), "{asking:#}");
}

/// By one client that sends one request after the other, so that each is read and answered on its own.
#[test]
fn redis_asks_as_often_for_each_request() {
    let names = ["redis-server", "redis-cli", "python3"];
    let tools: Vec<_> = names.into_iter().filter_map(installed).collect();
    if tools.len() < names.len() {
        return;
    }
    let of = |requests: &str| {
        let words = [source("requests.sh"), temporary("redis-counted")];
        let program = Program::new("sh").args(words).args([env!("CARGO_BIN_EXE_clockwise")]);
        let program = program.args(&tools).args([source("requests.py")]).args([requests]);
        let program = program.variable("XDG_CACHE_HOME", temporary("cache"));
        assert_eq!(program.run(&Image::None).holds().stdout, "answered\n");
        told(&temporary("redis-counted").join("told.json"))["total"]["calls"].as_u64().unwrap()
    };
    let (few, many, more) = (of("1000"), of("11000"), of("21000"));
    let each = [many - few, more - many].map(|calls| calls as f64 / 10_000.0);
    // Beside the requests the server asks ten times a second or so, for as long as it takes.
    assert!(each[0] >= 1.0, "{each:?}");
    assert!((each[0] - each[1]).abs() < 0.1 * each[0], "{each:?}");
}
