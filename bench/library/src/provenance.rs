//! [`Provenance`]: what a record must be read with. A fact that cannot be had is absent.

use crate::os;
use clockwise_core::counter::CpuFacts;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

/// Where and of what the figures are.
#[derive(Clone, Debug, Serialize)]
pub struct Provenance {
    /// The commit of the sources, with `-dirty` where they differ from it.
    pub commit: Option<String>,
    /// UTC.
    pub date: Option<String>,
    /// The compiler.
    pub rustc: &'static str,
    /// How it was called.
    pub command: String,
    /// The processor's brand string.
    pub cpu: Option<String>,
    /// Processors that the process may use.
    pub cpus: usize,
    /// Name and release.
    pub kernel: String,
    /// The hypervisor's signature.
    pub hypervisor: Option<String>,
    /// The counter that the kernel reads.
    pub clocksource: Option<String>,
    /// Load averages before the run.
    pub load_before: Option<String>,
    /// What our clock says of itself, where it does not use the counter.
    pub unfit: Option<String>,
    /// The crates that are compared, by name.
    pub crates: BTreeMap<String, String>,
    /// What was looked for and is not there.
    pub missing: BTreeMap<&'static str, &'static str>,
}

const PEERS: [&str; 5] = ["clockwise", "quanta", "minstant", "fastant", "coarsetime"];
const TSCNS: &str = "no crate of this name: the C++ library has no port that is published";

fn output(command: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(command).args(arguments).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

/// The commit; of changes since then only those of what is compiled count.
fn commit() -> Option<String> {
    let git = |arguments: &[&str]| {
        output("git", &[&["-C", concat!(env!("CARGO_MANIFEST_DIR"), "/../..")], arguments].concat())
    };
    let changed = git(&["status", "--porcelain", "--", "core", "clockwise", "bench/library"]);
    let dirty = if changed.is_some() { "-dirty" } else { "" };
    git(&["rev-parse", "HEAD"]).map(|commit| commit + dirty)
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// The versions in the lock file that this was compiled with.
fn versions() -> BTreeMap<String, String> {
    let lock = include_str!("../Cargo.lock");
    let packages = lock.split("[[package]]").filter_map(|package| {
        let field = |key: &str| {
            let line = package.lines().find_map(|line| line.strip_prefix(key))?;
            Some(line.trim_matches(|c| c == ' ' || c == '=' || c == '"').to_owned())
        };
        Some((field("name")?, field("version")?))
    });
    packages.filter(|(name, _)| PEERS.contains(&name.as_str())).collect()
}

impl Provenance {
    /// Asks all of it.
    pub fn ask() -> Self {
        let facts = CpuFacts::ask();
        let load = read("/proc/loadavg")
            .map(|text| text.split_whitespace().take(3).collect::<Vec<_>>().join(" "));
        // The clock has judged the counter once it was read.
        let _ = clockwise::Instant::now();
        let status = clockwise::Clock::monotonic().status();
        Self {
            commit: commit(),
            date: output("date", &["-u", "+%FT%TZ"]),
            rustc: env!("RUSTC_VERSION"),
            command: std::env::args().skip(1).collect::<Vec<_>>().join(" "),
            cpu: facts.brand().map(ToOwned::to_owned),
            cpus: os::processors().len(),
            kernel: os::kernel_name(),
            hypervisor: facts.hypervisor().map(ToOwned::to_owned),
            clocksource: read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            load_before: load,
            unfit: status.and_then(|status| status.unfit).map(|unfit| unfit.to_string()),
            crates: versions(),
            missing: BTreeMap::from([("tscns", TSCNS)]),
        }
    }
}
