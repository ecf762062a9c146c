//! Programs to be watched, and what was counted of them.

use crate::common::{not_tried, run, tool};
use object::{Object, ObjectSegment, ObjectSymbol};
use serde_json::Value;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{LazyLock, Mutex};

/// A folder of the tests' own; it stays.
pub fn temporary(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("traced").join(name);
    fs::create_dir_all(&folder).expect("the folder for temporary files can be written");
    folder
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traced/programs").join(name)
}

/// `programs/NAME.c` as a program, compiled once for each set of options.
pub fn compiled(name: &str, compiler: &str, options: &[&str]) -> PathBuf {
    let label = format!("{name} {compiler} {}", options.join(" "));
    let mut command = Command::new(compiler);
    command.args(["-O2", "-g", "-Wall", "-Wextra", "-Werror", "-pthread"]).args(options);
    command.arg(source(&format!("{name}.c"))).arg("-o");
    built(&label, command)
}

/// By gcc, as programs are compiled usually.
pub fn program(name: &str) -> PathBuf {
    compiled(name, "gcc", &[])
}

/// `programs/NAME.go`, if there is a compiler.
pub fn go(name: &str) -> Option<PathBuf> {
    if !is_installed("go") {
        return None;
    }
    let mut command = Command::new("go");
    command.args(["build", "-o"]).env("GOCACHE", temporary("go")).env("GO111MODULE", "off");
    let path = temporary("built").join(format!("{name}-go"));
    let output = command.arg(&path).arg(source(&format!("{name}.go"))).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(path)
}

/// Whether a compiler is there; said, or a failure, if it is not.
pub fn is_installed(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
    if !is_there {
        assert!(std::env::var_os("CLOCKWISE_ALL_PROGRAMS").is_none(), "{name} is not installed");
        not_tried(name, "it is not installed");
    }
    is_there
}

fn built(label: &str, mut command: Command) -> PathBuf {
    static DONE: LazyLock<Mutex<HashMap<String, PathBuf>>> = LazyLock::new(Mutex::default);
    let mut done = DONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let path = done.entry(label.to_owned()).or_insert_with(|| {
        let name: String =
            label.chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
        let path = temporary("built").join(name);
        // Another run of the tests may be using the one that is there.
        let fresh = path.with_extension(std::process::id().to_string());
        let output = command.arg(&fresh).output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {said}");
        fs::rename(&fresh, &path).expect("a file can be renamed in its folder");
        path
    });
    path.clone()
}

/// What was counted.
#[derive(Debug)]
pub struct Counted(pub Value);

impl Counted {
    /// As it was saved.
    pub fn read(file: &Path) -> Self {
        let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{file:?}: {error}"));
        Self(serde_json::from_str(&text).unwrap())
    }

    /// Of a program that the tool starts. Its exit status, too.
    #[track_caller]
    pub fn of(test: &str, command: &[impl AsRef<OsStr>]) -> (Self, i32) {
        let file = temporary(test).join("counted.json");
        let mut tool = tool(&["count-calls", "--save"]);
        let ran = run(tool.arg(&file).arg("--").args(command));
        let status = ran.code.unwrap_or_else(|| panic!("{ran:#?}"));
        (Self::read(&file), status)
    }

    pub fn processes(&self) -> &[Value] {
        self.0["processes"].as_array().unwrap()
    }

    pub fn remarks(&self) -> String {
        self.0["remarks"].to_string()
    }
}

/// Calls whose place is not known.
pub fn lost(process: &Value) -> u64 {
    process["lost"].as_u64().unwrap()
}

/// How often was asked by each function, and for which clock, in the order of their names.
pub fn by_function(process: &Value) -> Vec<(String, String, u64)> {
    let mut symbols = HashMap::new();
    let mut found: HashMap<(String, String), u64> = HashMap::new();
    for site in process["sites"].as_array().unwrap() {
        let function = symbol(process, site["chain"][0].as_u64().unwrap(), &mut symbols);
        let clock = site["clock"].as_i64().map_or(String::new(), |clock| format!(" {clock}"));
        let call = format!("{}{clock}", site["call"].as_str().unwrap());
        *found.entry((function, call)).or_default() += site["count"].as_u64().unwrap();
    }
    let mut found: Vec<_> =
        found.into_iter().map(|((function, call), count)| (function, call, count)).collect();
    found.sort();
    found
}

/// The same, as lines.
pub fn lines(process: &Value) -> Vec<String> {
    let line =
        |(function, call, count): (String, String, u64)| format!("{function}: {call}: {count}");
    by_function(process).into_iter().map(line).collect()
}

/// The names in a chain, the innermost first.
pub fn names(process: &Value, chain: &Value) -> Vec<String> {
    let mut symbols = HashMap::new();
    let chain = chain.as_array().unwrap().iter().map(|address| address.as_u64().unwrap());
    chain.map(|address| symbol(process, address, &mut symbols)).collect()
}

/// The functions of a file: where they begin and end, and their names.
type Symbols = Vec<(u64, u64, String)>;

/// The name of the function that the call before a return address is in.
fn symbol(process: &Value, address: u64, files: &mut HashMap<String, Symbols>) -> String {
    let number = |value: &Value| value.as_u64().unwrap();
    let call = address - 1;
    let within =
        |module: &&Value| (number(&module["start"])..number(&module["end"])).contains(&call);
    let Some(module) = process["modules"].as_array().unwrap().iter().rfind(within) else {
        return format!("{address:#x}");
    };
    let path = module["path"].as_str().unwrap();
    let offset = call - number(&module["start"]) + number(&module["offset"]);
    let symbols = files.entry(path.to_owned()).or_insert_with(|| symbols(Path::new(path)));
    let found = symbols.iter().find(|(start, end, _)| (*start..*end).contains(&offset));
    found.map_or_else(|| format!("{path}+{offset:#x}"), |(_, _, name)| name.clone())
}

/// By their offsets in the file.
fn symbols(path: &Path) -> Symbols {
    let Ok(bytes) = fs::read(path) else { return Symbols::new() };
    let Ok(file) = object::File::parse(&*bytes) else { return Symbols::new() };
    let offset = |address: u64| {
        file.segments().find_map(|segment| {
            let within = (segment.address()..segment.address() + segment.size()).contains(&address);
            within.then(|| address - segment.address() + segment.file_range().0)
        })
    };
    let symbols = file.symbols().chain(file.dynamic_symbols());
    let function = |symbol: object::Symbol<'_, '_>| {
        let start = offset(symbol.address())?;
        Some((start, start + symbol.size(), symbol.name().ok()?.to_owned()))
    };
    symbols.filter(|symbol| symbol.is_definition()).filter_map(function).collect()
}
