//! Guests, and what the judge tells, taken apart.

#[path = "built.rs"]
mod built;

use built::{built, missing};
use clockwise_rig::{Guest, Kernel, Machine, Program, Ran, installed};
use serde_json::{Value, json};
use std::io::Write;
use std::panic::resume_unwind;
use std::sync::LazyLock;

/// The clocks that are followed.
pub const CLOCKS: [&str; 5] = ["MONOTONIC", "REALTIME", "BOOTTIME", "TAI", "MONOTONIC_RAW"];

/// How our clocks come into a program: the library, and the image preloaded. Another way of loading the image is one
/// more row.
pub const WAYS: [&str; 2] = ["library", "image"];

/// Threads that read meanwhile.
const THREADS: &str = "4";

/// On the counter, which nothing but the test may take away.
pub const ON_TSC: &str = "clocksource=tsc tsc=reliable";

/// Time is counted in instructions, one a nanosecond, and idle time is jumped over: the same in each run.
pub const COUNTED: [&str; 4] =
    ["-icount", "shift=0,sleep=off", "-rtc", "base=2026-01-01T00:00:00,clock=vm"];

/// A guest; `None` where QEMU or the kernel is missing, which is said once. Where nothing may be left out
/// (`CLOCKWISE_ALL_PROGRAMS`), that is a failure.
#[track_caller]
pub fn guest() -> Option<Guest> {
    static KERNEL: LazyLock<Result<Kernel, String>> =
        LazyLock::new(|| kernel("CLOCKWISE_KERNEL", "6.1"));
    boots(&KERNEL)
}

/// The same of aarch64; there has to be a compiler for it too.
#[track_caller]
pub fn arm_guest() -> Option<Guest> {
    static KERNEL: LazyLock<Result<Kernel, String>> =
        LazyLock::new(|| kernel("CLOCKWISE_ARM_KERNEL", "6.1-arm64"));
    boots(&KERNEL)
}

/// The kernel that the variable names, or this one; what is missing is said.
fn kernel(variable: &str, version: &str) -> Result<Kernel, String> {
    let version = std::env::var(variable).unwrap_or_else(|_| version.to_owned());
    let kernel = installed(&version).and_then(|kernel| match kernel.machine {
        Machine::Arm => missing().map_or(Ok(kernel), Err),
        Machine::Pc => Ok(kernel),
    });
    if let Err(missing) = &kernel {
        say(&format!("not tried here, what happens in virtual machines: {missing}"));
    }
    kernel
}

#[track_caller]
fn boots(kernel: &Result<Kernel, String>) -> Option<Guest> {
    match kernel {
        Ok(kernel) => Some(Guest::new(kernel, &built(kernel.machine).init)),
        Err(missing) => {
            assert!(std::env::var_os("CLOCKWISE_ALL_PROGRAMS").is_none(), "{missing}");
            None
        }
    }
}

/// Does it for each at once; the guests wait for one another as long as the host's processors are taken.
#[track_caller]
pub fn each<T: Send, R: Send>(
    cases: impl IntoIterator<Item = T>,
    does: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let does = &does;
    std::thread::scope(|scope| {
        let name = std::thread::current().name().unwrap_or_default().to_owned();
        let named = || std::thread::Builder::new().name(name.clone());
        let spawn = |case| named().spawn_scoped(scope, move || does(case));
        let threads: Vec<_> =
            cases.into_iter().map(|case| spawn(case).expect("a thread")).collect();
        let ended = threads.into_iter().map(|thread| thread.join());
        ended.map(|end| end.unwrap_or_else(|panic| resume_unwind(panic))).collect()
    })
}

/// Not captured, unlike what is printed, for it should be seen.
pub fn say(words: &str) {
    let _ = writeln!(std::io::stderr(), "{words}");
}

/// What the judge told.
pub struct Told {
    lines: Vec<Value>,
    ran: Ran,
}

/// Runs the judge, with threads that read while the acts are done; it must come to its end, whatever it finds.
#[track_caller]
pub fn judge(guest: &Guest, acts: &[&str]) -> Told {
    judge_these(guest, &WAYS, acts)
}

/// The same for these ways.
#[track_caller]
pub fn judge_these(guest: &Guest, ways: &[&str], acts: &[&str]) -> Told {
    let ways = ways.join(",");
    let words = ["read", &*ways, THREADS].into_iter().chain(acts.iter().copied());
    run_judge(guest, &words.collect::<Vec<_>>())
}

/// Lets the judge compare prices, the cheapest of so many batches.
#[track_caller]
pub fn prices(guest: &Guest, batches: &str) -> Told {
    run_judge(guest, &["price", &WAYS.join(","), batches])
}

/// What a command of the tool says, as JSON, and its exit status.
pub type Said = (Value, i32);

/// Runs the judge, and after it the tool: what `doctor` says, and `choose` for a stretch of time to 0.1 ms.
#[track_caller]
pub fn judge_and_advise(guest: &Guest, acts: &[&str]) -> (Told, Said, Said) {
    let words = ["read", &*WAYS.join(","), THREADS];
    let words: Vec<_> = words.into_iter().chain(acts.iter().copied()).collect();
    let tool = built(guest.machine()).tool.as_ref().expect("a compiler that builds the tool");
    let tool = |args: &[&'static str]| Program::new(tool).args(args.iter().copied());
    let doctor = tool(&["doctor", "--format", "json"]);
    let choose = tool(&["choose", "--for", "elapsed", "--precision", "100us", "--format", "json"]);
    let (guest, judge) = judge_of(guest, &words);
    let ran = guest.run(&[judge, doctor, choose]).unwrap_or_else(|why| panic!("{words:?}: {why}"));
    let [judged, doctor, choose] = ran;
    let said = |ran: Ran| {
        let report = serde_json::from_str(&ran.stdout);
        (report.unwrap_or_else(|error| panic!("{error}: {ran:#?}")), ran.status)
    };
    (told(&guest, &words, judged), said(doctor), said(choose))
}

#[track_caller]
fn run_judge(guest: &Guest, words: &[&str]) -> Told {
    let (guest, judge) = judge_of(guest, words);
    let [ran] = guest.run(&[judge]).unwrap_or_else(|why| panic!("{words:?}: {why}"));
    told(&guest, words, ran)
}

/// The judge, and a guest with the image that is preloaded into it.
fn judge_of(guest: &Guest, words: &[&str]) -> (Guest, Program) {
    let built = built(guest.machine());
    let judge = Program::new(&built.judge).args(words.iter().copied());
    let judge = judge.variable("LD_PRELOAD", "/image.so");
    (guest.clone().file(&built.image, "image.so"), judge)
}

#[track_caller]
fn told(guest: &Guest, words: &[&str], ran: Ran) -> Told {
    assert!(ran.status <= 1, "{words:?}: {ran:#?}");
    let line = |line: &str| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}"));
    let told = Told { lines: ran.stdout.lines().map(line).collect(), ran };
    if std::env::var_os("CLOCKWISE_RIG_SHOW").is_some() {
        say(&format!("== {guest}\n== {words:?}\n{}", told.ran.stdout));
    }
    if let Some(path) = std::env::var_os("CLOCKWISE_RIG_RECORD") {
        let line = json!({
            "test": std::thread::current().name(),
            "guest": guest.to_string(),
            "words": words,
            "told": told.lines,
        });
        let file = std::fs::File::options().create(true).append(true).open(path);
        // One call: other tests write there too.
        file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()))
            .expect("the record can be written to");
    }
    told
}

impl Told {
    /// No law was broken, and all clocks were read in all ways.
    #[track_caller]
    pub fn holds(&self, what: &str) -> &Self {
        assert_eq!(self.ran.status, 0, "{what}: laws are broken:\n{}", self.ran.stdout);
        for way in WAYS {
            for clock in CLOCKS {
                assert!(self.end(way, clock)["readings"].as_u64() > Some(500), "{what}: {self:?}");
            }
        }
        self
    }

    /// Whether a clock of the kernel's went back that nobody can set.
    #[track_caller]
    pub fn kernel_went_back(&self) -> bool {
        let line = self.line(|line| line.get("kernel_went_back").is_some());
        line["kernel_went_back"].as_u64().expect("a count") > 0
    }

    /// The words for the broken laws that are shown.
    pub fn broken(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().filter_map(|line| line["law"].as_str())
    }

    #[track_caller]
    fn line(&self, is_it: impl Fn(&Value) -> bool) -> &Value {
        let found = self.lines.iter().find(|line| is_it(line));
        found.unwrap_or_else(|| panic!("no such line: {self:?}"))
    }

    /// What the kernel said about its clocksources at that note, or at the `start`: the current one, and all.
    #[track_caller]
    pub fn sources(&self, name: &str) -> (&str, Vec<&str>) {
        let line = self.machine(name);
        let [current, available] = ["current", "available"].map(|name| line[name].as_str());
        (current.unwrap_or_default(), available.unwrap_or_default().split_whitespace().collect())
    }

    /// What the kernel said at that note, or at the `start`.
    #[track_caller]
    pub fn machine(&self, name: &str) -> &Value {
        self.line(|line| line["note"] == name && line.get("available").is_some())
    }

    /// By how many seconds one of the kernel's clocks went on between two notes.
    #[track_caller]
    pub fn passed_s(&self, clock: &str, from: &str, to: &str) -> f64 {
        let time = |note| self.machine(note)["times_ns"][clock].as_i64().expect("a time");
        (time(to) - time(from)) as f64 / 1e9
    }

    /// The longest time of the kernel's in which a thread read nothing, in seconds.
    #[track_caller]
    pub fn gap_max_s(&self) -> f64 {
        let line = self.line(|line| line.get("gap_max_ns").is_some());
        line["gap_max_ns"].as_i64().expect("a time") as f64 / 1e9
    }

    /// What became of a clock.
    #[track_caller]
    pub fn end(&self, way: &str, clock: &str) -> &Value {
        self.line(|line| {
            line["subject"] == way && line["clock"] == clock && line.get("readings").is_some()
        })
    }

    /// What a reading of ours, of libc's own and by the system call cost, in picoseconds.
    #[track_caller]
    pub fn price(&self, way: &str, clock: &str) -> [u64; 3] {
        let line = self.line(|line| line["price"] == clock && line["subject"] == way);
        ["ours_ps", "libcs_ps", "call_ps"].map(|name| line[name].as_u64().expect("a price"))
    }

    /// The status of a clock at that note.
    #[track_caller]
    pub fn note(&self, name: &str, way: &str, clock: &str) -> &Value {
        let line = self
            .line(|line| line["note"] == name && line["subject"] == way && line["clock"] == clock);
        &line["status"]
    }
}

/// All that was told.
impl std::fmt::Debug for Told {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}\n{}", self.ran.stdout, self.ran.stderr)
    }
}
