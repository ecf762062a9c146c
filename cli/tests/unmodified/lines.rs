//! The lines of code that `clockwise choose` offers: each is compiled and run in its language, without the image and, where it
//! is offered, with it, and what it tells lies between two readings of the clock that it is said to read. And the properties
//! that the kernel can be asked for: which clocks its timers take, and which a time namespace shifts.

use crate::runner::{
    BOUND_NS, Image, Program, can_unshare, compiled, installed, not_tried, temporary,
};
use clockwise_core::kernel::{ClockId, Kernel, Linux};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// What the tool says of a way to read a clock.
struct Line {
    /// The clock, as the system names it.
    clock: String,
    call: String,
    by: String,
    import: String,
    code: String,
    shared: String,
}

fn tool(args: &[&str]) -> Value {
    let mut tool = Command::new(env!("CARGO_BIN_EXE_clockwise"));
    let output = tool.args(args).args(["--format", "json"]).output().expect("the tool starts");
    assert!(output.status.success(), "{tool:?}: {output:?}");
    serde_json::from_slice(&output.stdout).expect("it prints JSON")
}

/// All lines of a language, but for those that are another's under the image.
fn lines(language: &str) -> Vec<Line> {
    let all = tool(&["choose", "--explain"]);
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let of_language =
        all["calls"].as_array().unwrap().iter().filter(|call| call["language"] == language);
    let line = |call: &Value| Line {
        clock: text(&call["name"]),
        call: text(&call["call"]),
        by: text(&call["by"]),
        import: text(&call["import"]),
        code: text(&call["code"]),
        shared: text(&call["shared"]["value"]),
    };
    let lines: Vec<Line> = of_language.map(line).collect();
    assert!(lines.len() >= 4, "{language} has lines");
    lines
}

/// Those that the system answers, or the library; every line that is under the image is one of them.
fn own(language: &str) -> Vec<Line> {
    let (by_image, own): (Vec<Line>, Vec<Line>) =
        lines(language).into_iter().partition(|line| line.by.starts_with("run"));
    for line in &by_image {
        assert!(own.iter().any(|other| other.code == line.code), "{}", line.code);
    }
    own
}

/// The imports of the lines, each once, and one's own.
fn imports(lines: &[Line], more: &[&str]) -> String {
    let mut all: Vec<&str> = more.to_vec();
    all.extend(lines.iter().map(|line| line.import.as_str()).filter(|line| !line.is_empty()));
    all.sort_unstable();
    all.dedup();
    all.join("\n")
}

/// The clock below a line, and how far behind it a reading may be.
fn below(line: &Line) -> Option<(ClockId, i64)> {
    let by_name = ClockId::ALL
        .into_iter()
        .find(|id| id.name().is_some_and(|name| line.clock.strip_prefix("CLOCK_") == Some(name)));
    match line.clock.as_str() {
        "time()" => Some((ClockId::REALTIME, 1_000_000_000)),
        "gettimeofday()" => Some((ClockId::REALTIME, 1_000)),
        name if name.ends_with("_COARSE") => by_name.map(|id| (id, 0)),
        // Whole milliseconds, in some languages.
        _ => by_name.map(|id| (id, 1_000_000)),
    }
}

fn now(clock: ClockId) -> Option<i64> {
    Linux::find().now(clock).ok().map(|time| time.nanos_i64())
}

/// Runs a program that prints `NUMBER NANOSECONDS` for each of the lines, and compares with the kernel. A line that prints
/// `NUMBER refused` reads a clock that is not here. `shift_ns`: how much later namespaced clocks are in the program.
#[track_caller]
fn check(lines: &[Line], program: &Program, image: &Image, shift_ns: i64) {
    let at = |line: &Line| below(line).and_then(|(clock, _)| now(clock));
    let before: Vec<Option<i64>> = lines.iter().map(at).collect();
    let told = program.run(image).holds().stdout;
    let after: Vec<Option<i64>> = lines.iter().map(at).collect();
    let mut numbers = Vec::new();
    for answer in told.lines() {
        let (number, value) = answer.split_once(' ').expect("two words");
        let number: usize = number.parse().expect("a number");
        numbers.push(number);
        let line = &lines[number];
        let what = format!("{} ({}) with {image:?}: {answer}", line.call, line.code);
        if value == "refused" {
            assert!(line.clock.ends_with("_ALARM") && before[number].is_none(), "{what}");
            continue;
        }
        let value: i64 = value.parse().unwrap_or_else(|_| panic!("{what}"));
        match line.shared.as_str() {
            "process" | "thread" => {
                // Its own, or the process's: no more than a day from its zero, wherever that is.
                let relative = line.clock.contains("CPUTIME") || line.clock == "clock()";
                assert!(!relative || (0..60_000_000_000).contains(&value), "{what}");
            }
            shared => {
                let Some((_, behind_ns)) = below(line) else { panic!("{what}") };
                let shift_ns = if shared == "namespace" { shift_ns } else { 0 };
                let (Some(before), Some(after)) = (before[number], after[number]) else { continue };
                let earliest = before + shift_ns - behind_ns - BOUND_NS;
                let latest = after + shift_ns + BOUND_NS;
                assert!((earliest..=latest).contains(&value), "{what}, not {earliest} to {latest}");
            }
        }
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (0..lines.len()).collect::<Vec<_>>(), "{told}");
}

/// Writes a program's text.
fn written(folder: &str, name: &str, text: &str) -> PathBuf {
    let path = temporary(folder).join(name);
    std::fs::create_dir_all(path.parent().unwrap()).expect("a folder");
    std::fs::write(&path, text).expect("a file can be written");
    path
}

/// What makes nanoseconds of `t`, by what the line says that it is.
fn conversion<'a>(line: &Line, conversions: &[(&str, &'a str)]) -> &'a str {
    let found = conversions.iter().find(|(part, _)| line.code.contains(part));
    found.unwrap_or_else(|| panic!("what is {}?", line.code)).1
}

/// Runs a program by a command.
fn by(command: impl AsRef<Path>, file: &Path) -> Program {
    Program::new(command.as_ref()).args([file])
}

/// The lines of C and a program of them, compiled once.
fn c_program() -> (&'static [Line], Program) {
    static BUILT: LazyLock<(Vec<Line>, PathBuf)> = LazyLock::new(|| {
        let lines = own("c");
        let program = compiled_c(&lines);
        (lines, program)
    });
    (&BUILT.0, Program::new(&BUILT.1))
}

fn compiled_c(lines: &[Line]) -> PathBuf {
    let mut text = imports(lines, &["#include <stdio.h>"]) + "\nint main(void) {\n";
    for (number, line) in lines.iter().enumerate() {
        let ns = conversion(
            line,
            &[
                ("struct timespec", "t.tv_sec * 1000000000LL + t.tv_nsec"),
                ("struct timeval", "(t.tv_sec * 1000000LL + t.tv_usec) * 1000"),
                ("time_t t", "t * 1000000000LL"),
                ("clock_t t", "t * (1000000000LL / CLOCKS_PER_SEC)"),
            ],
        );
        // A clock that is not here leaves `t` as it was: its own call says so.
        let id = line.clock.strip_suffix("_ALARM").map(|_| line.clock.as_str());
        let refused = id.map_or("0".to_owned(), |id| format!("clock_getres({id}, NULL)"));
        text += &format!(
            "if ({refused}) puts(\"{number} refused\"); else {{ {} printf(\"{number} %lld\\n\", (long long) ({ns})); }}\n",
            line.code
        );
    }
    text += "return 0; }\n";
    let (source, program) = (written("lines", "lines.c", &text), temporary("lines").join("lines"));
    let compiler = Program::new("gcc").args(["-Wall", "-Wextra", "-Werror", "-o"]);
    compiler.args([&program, &source]).run(&Image::None).holds();
    program
}

#[test]
fn the_lines_of_c_read_what_they_are_said_to_read() {
    let (lines, program) = c_program();
    for image in Image::ALL {
        check(lines, &program, &image, 0);
    }
}

#[test]
fn a_time_namespace_shifts_the_clocks_that_are_said_to_be_of_one_and_no_others() {
    if !can_unshare("clocks in a time namespace") {
        return;
    }
    let day = "86400";
    let (lines, program) = c_program();
    let program = program.by(["unshare", "-T", "--monotonic", day, "--boottime", day]);
    check(lines, &program, &Image::None, 86_400_000_000_000);
}

#[test]
fn the_kernel_s_timers_take_the_clocks_that_are_said_to_be_taken_and_no_others() {
    let all = tool(&["choose", "--explain"]);
    let ids = ClockId::ALL.map(|id| (id.0.to_string(), format!("CLOCK_{}", id.name().unwrap())));
    let program = Program::new(compiled("timers", &[])).args(ids.iter().map(|(id, _)| id));
    let told = program.run(&Image::None).holds().stdout;
    let clocks = all["clocks"].as_array().unwrap();
    let said = ids.map(|(id, name)| {
        let clock = clocks.iter().find(|clock| clock["name"] == name);
        let taken =
            clock.expect("every clock of the kernel is in the table")["timers"]["value"] == true;
        format!("{id} {}\n", if taken { "yes" } else { "no" })
    });
    assert_eq!(told, said.concat());
}

#[test]
fn the_lines_of_python_read_what_they_are_said_to_read() {
    let lines = own("python");
    let Some(python) = installed("python3") else { return };
    let mut text = imports(&lines, &[]) + "\n";
    for (number, line) in lines.iter().enumerate() {
        let code = &line.code;
        text += &format!(
            "try:\n    {code}\n    print({number}, t)\nexcept OSError:\n    print({number}, 'refused')\n"
        );
    }
    let program = by(python, &written("lines", "lines.py", &text));
    for image in Image::ALL {
        check(&lines, &program, &image, 0);
    }
}

#[test]
fn the_lines_of_node_read_what_they_are_said_to_read() {
    let lines = own("node");
    let Some(node) = installed("node") else { return };
    let mut text = imports(&lines, &[]);
    for (number, line) in lines.iter().enumerate() {
        let ns = conversion(
            line,
            &[
                ("hrtime", "t"),
                ("performance", "Math.round(t * 1e6)"),
                ("Date.now", "BigInt(t) * 1000000n"),
                ("cpuUsage", "(t.user + t.system) * 1000"),
            ],
        );
        text += &format!("{{ {} console.log(`{number} ${{{ns}}}`); }}\n", line.code);
    }
    let program = by(node, &written("lines", "lines.js", &text));
    for image in Image::ALL {
        check(&lines, &program, &image, 0);
    }
}

#[test]
fn the_lines_of_java_read_what_they_are_said_to_read() {
    let lines = own("java");
    let (Some(java), Some(javac)) = (installed("java"), installed("javac")) else { return };
    let mut text =
        imports(&lines, &[]) + "\nclass Lines { public static void main(String[] words) {\n";
    for (number, line) in lines.iter().enumerate() {
        let ns = conversion(
            line,
            &[
                ("Instant", "t.getEpochSecond() * 1000000000L + t.getNano()"),
                ("Millis", "t * 1000000L"),
                ("long t", "t"),
            ],
        );
        text += &format!("{{ {} System.out.println(\"{number} \" + ({ns})); }}\n", line.code);
    }
    text += "} }\n";
    let (folder, source) = (temporary("lines"), written("lines", "Lines.java", &text));
    let compiler = Program::new(javac).args(["-Werror".as_ref(), "-d".as_ref(), folder.as_path()]);
    compiler.args([source]).run(&Image::None).holds();
    let program = Program::new(java).args(["-cp".as_ref(), folder.as_path(), "Lines".as_ref()]);
    for image in Image::ALL {
        check(&lines, &program, &image, 0);
    }
}

#[test]
fn the_lines_of_go_read_what_they_are_said_to_read() {
    let lines = own("go");
    // As Debian's golang-golang-x-sys-dev has it.
    let path = std::env::var_os("GOPATH").unwrap_or_else(|| "/usr/share/gocode".into());
    let is_there = Command::new("go").arg("version").output().is_ok_and(|go| go.status.success());
    if !is_there || !Path::new(&path).join("src/golang.org/x/sys/unix").is_dir() {
        return not_tried("the lines of Go", "go or golang.org/x/sys is not installed");
    }
    let mut text = "package main\n".to_owned() + &imports(&lines, &["import \"fmt\""]);
    text += "\nfunc main() {\n";
    for (number, line) in lines.iter().enumerate() {
        let ns = conversion(line, &[("time.Now", "t.UnixNano()"), ("unix", "t.Nano()")]);
        let code = match line.code.split_once("; unix.") {
            // A clock that is not here is refused.
            Some((variable, call)) => format!(
                "{variable}; if unix.{call} != nil {{ fmt.Println(\"{number} refused\"); return }}"
            ),
            None => line.code.clone(),
        };
        text += &format!("func() {{ {code}; fmt.Println({number}, {ns}) }}()\n");
    }
    text += "}\n";
    let source = written("lines", "lines.go", &text);
    let program = temporary("lines").join("lines-go");
    let compiler = Program::new("go").args(["build", "-o"]).args([&program, &source]);
    let compiler = compiler.variable("GO111MODULE", "off").variable("GOPATH", path);
    compiler.variable("GOCACHE", temporary("go")).run(&Image::None).holds();
    check(&lines, &Program::new(program), &Image::None, 0);
}

#[test]
fn the_lines_of_rust_read_what_they_are_said_to_read() {
    let lines = own("rust");
    let ask = ["choose", "--for", "elapsed", "--precision", "10ms", "--allow-thread"];
    let kept = tool(&[&ask[..], &["--language", "rust", "--simulate", "1"]].concat());
    let mut setups =
        kept["candidates"].as_array().unwrap().iter().filter_map(|c| c["setup"].as_str());
    let mut text = format!("#![deny(warnings)]\n{}\nfn main() {{\n", imports(&lines, &[]));
    text += setups.next().expect("there is a time that a thread keeps");
    text += "\nlet unix = std::time::UNIX_EPOCH;\nlet _ = unix;\n";
    for (number, line) in lines.iter().enumerate() {
        let ns = conversion(
            line,
            &[
                ("std::time::Instant", "t.elapsed().as_nanos()"),
                ("std::time::SystemTime", "t.duration_since(unix).unwrap().as_nanos()"),
                ("clockwise::Clock", "t.unwrap()"),
                ("clockwise::", "t.as_nanos()"),
                ("libc::", "i128::from(t.tv_sec) * 1_000_000_000 + i128::from(t.tv_nsec)"),
            ],
        );
        let refused = line.clock.ends_with("_ALARM");
        let told = format!("println!(\"{number} {{}}\", {ns})");
        let told = match refused {
            true => {
                format!("if t.tv_sec == 0 {{ println!(\"{number} refused\") }} else {{ {told} }}")
            }
            false => told,
        };
        text += &format!("{{ {} {told}; }}\n", line.code);
    }
    text += "}\n";
    let library = Path::new(env!("CARGO_MANIFEST_DIR")).join("../clockwise");
    let manifest = format!(
        "[package]\nname = \"lines\"\nedition = \"2024\"\n[dependencies]\nlibc = \"0.2\"\n\
         clockwise = {{ path = {library:?} }}\n[workspace]\n"
    );
    written("lines-rust", "Cargo.toml", &manifest);
    written("lines-rust", "src/main.rs", &text);
    let folder = temporary("lines-rust");
    // The versions that the workspace has locked: they are there.
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.lock");
    std::fs::copy(lock, folder.join("Cargo.lock")).expect("the workspace has a lock file");
    let cargo = Program::new(env!("CARGO")).args(["build", "--offline", "--manifest-path"]);
    let target = folder.join("target");
    let cargo = cargo.args([folder.join("Cargo.toml").as_path(), "--target-dir".as_ref(), &target]);
    cargo.for_at_most(600).run(&Image::None).holds();
    check(&lines, &Program::new(target.join("debug/lines")), &Image::None, 0);
}
