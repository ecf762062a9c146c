//! Runs the built tool in the circumstances that a test asks for.

pub mod process;
pub mod terminal;

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// The processor on which the snapshots were taken: the counter's rows differ on others.
pub const SNAPSHOT_ARCH: &str = "x86_64";

/// How a run of the tool ended.
#[derive(Debug)]
pub struct Ran {
    /// The exit status, unless a signal ended it.
    pub code: Option<i32>,
    /// That signal.
    pub signal: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            signal: output.status.signal(),
            stdout: String::from_utf8(output.stdout).expect("standard output is UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("standard error is UTF-8"),
        }
    }
}

impl Ran {
    /// Checks the exit status.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    /// Checks that nothing went to standard output and one line with all of `parts` to standard
    /// error.
    #[track_caller]
    pub fn says_only(self, parts: &[&str]) -> Self {
        assert_eq!(self.stdout, "", "standard output");
        let lines = self.stderr.lines().filter(|line| !line.is_empty()).count();
        assert_eq!(lines, 1, "{}", self.stderr);
        assert!(self.stderr.starts_with("clockwise: "), "{}", self.stderr);
        self.says(parts)
    }

    /// Checks that standard error holds all of `parts`.
    #[track_caller]
    pub fn says(self, parts: &[&str]) -> Self {
        for part in parts {
            assert!(self.stderr.contains(part), "no `{part}` in: {}", self.stderr);
        }
        self
    }

    /// Standard output with its lines joined: where a text is broken depends on what stands in it, as the
    /// length of a path, and on the terminal.
    pub fn unbroken(&self) -> String {
        self.stdout.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Standard output as strict JSON.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }
}

/// The tool with these arguments, undisturbed by the environment of the tests.
pub fn tool(args: &[&str]) -> Command {
    program(Path::new(env!("CARGO_BIN_EXE_clockwise")), args)
}

/// Another build of the tool.
pub fn program(path: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(path);
    command.args(args).stdin(Stdio::null()).env_remove("NO_COLOR");
    command
}

/// Runs a command to its end.
#[track_caller]
pub fn run(command: &mut Command) -> Ran {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}")).into()
}

/// Runs the tool with these arguments.
#[track_caller]
pub fn clockwise(args: &[&str]) -> Ran {
    run(&mut tool(args))
}

/// Says on the tests' own standard error why something is not tried here.
pub fn not_tried(what: &str, why: &str) {
    // Not captured, unlike what is printed: it should be seen.
    let _ = writeln!(std::io::stderr(), "not tried here: {what}: {why}");
}

/// A fresh folder of this test alone.
pub fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("the folder for temporary files can be written");
    folder
}

/// The names in a folder, in order.
pub fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Waits until `condition` holds. For ever if it never does: a duration is nothing to assert.
pub fn wait_until(mut condition: impl FnMut() -> bool) {
    // A minute, after which it will not come true: a test that hangs tells nothing.
    for _ in 0..30_000 {
        if condition() {
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    panic!("what was waited for did not come");
}
