//! Facts about the machine, each with the place where it was read.
//!
//! A fact that cannot be read says why. Must never guess: no frequency from a brand string or from
//! /proc/cpuinfo, no hypervisor from a file name.

use crate::os::{self, Discipline};
use clockwise_core::counter::{CpuFacts, Hardware};
use serde::Serialize;
use std::fs;
use std::path::PathBuf;

/// A value, or why there is none, and where it comes from.
#[derive(Clone, Debug, Serialize)]
pub struct Fact {
    /// `None` if it could not be read.
    pub value: Option<String>,
    /// The path, call or instruction that was asked.
    pub source: String,
    /// Why there is no value.
    pub reason: Option<String>,
}

impl Fact {
    /// A known value.
    pub fn new(value: impl Into<String>, source: impl Into<String>) -> Self {
        Self { value: Some(value.into()), source: source.into(), reason: None }
    }

    /// A missing one.
    pub fn missing(source: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { value: None, source: source.into(), reason: Some(reason.into()) }
    }

    /// The value, or the reason in brackets.
    pub fn text(&self) -> String {
        match (&self.value, &self.reason) {
            (Some(value), _) => value.clone(),
            (None, Some(reason)) => format!("({reason})"),
            (None, None) => "(not known)".to_owned(),
        }
    }
}

/// Everything that a result must be read with.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// The processor's brand string.
    pub cpu: Fact,
    /// Name and release of the kernel.
    pub kernel: Fact,
    /// The hypervisor's signature.
    pub hypervisor: Fact,
    /// The counter that the kernel reads.
    pub clocksource: Fact,
    /// Those that it could read.
    pub clocksource_available: Fact,
    /// Whether this process may read the counter.
    pub counter: Fact,
    /// What processor or firmware claim of the counter's rate.
    pub frequency_claimed: Fact,
    /// Whether the process has a vDSO.
    pub vdso: Fact,
    /// The policy that sets the cores' speed.
    pub governor: Fact,
    /// Load averages.
    pub load: Fact,
    /// Processors this process may use.
    pub cpus: Fact,
    /// Synchronisation to an outside clock.
    pub ntp: Fact,
    /// Whether a seccomp filter is in force.
    pub seccomp: Fact,
    /// The claimed rate as a number.
    #[serde(skip)]
    pub claimed_hz: Option<u64>,
    /// The counter runs at one rate in all power states, and the kernel itself trusts it.
    #[serde(skip)]
    pub counter_trusted: bool,
}

/// The files below which facts are looked for; `/` but in tests.
pub struct Root(PathBuf);

impl Root {
    /// The machine's own.
    pub fn real() -> Self {
        Self(PathBuf::from("/"))
    }

    /// A copy of one, for tests.
    #[cfg(test)]
    pub fn at(path: &std::path::Path) -> Self {
        Self(path.to_owned())
    }

    /// The trimmed text of a small file, with the path for the reader.
    pub fn read(&self, path: &str) -> Fact {
        match fs::read(self.0.join(path.trim_start_matches('/'))) {
            Ok(bytes) => Fact::new(String::from_utf8_lossy(&bytes).trim(), path),
            Err(error) => Fact::missing(path, words(&error)),
        }
    }
}

/// An input/output error without its number.
pub fn words(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "not there".to_owned(),
        std::io::ErrorKind::PermissionDenied => "no permission".to_owned(),
        _ => error.to_string(),
    }
}

const CLOCKSOURCE: &str = "/sys/devices/system/clocksource/clocksource0";

impl Machine {
    /// Reads everything once. `vdso` and `cpus` are known to the caller.
    pub fn read(root: &Root, vdso: Result<(), &str>, cpus: &[usize]) -> Self {
        let facts = CpuFacts::ask();
        let clocksource = root.read(&format!("{CLOCKSOURCE}/current_clocksource"));
        let counter = Hardware::find();
        let trusted = matches!(clocksource.value.as_deref(), Some("tsc" | "arch_sys_counter"));
        let claimed = facts.claimed_frequency();
        let claim_source = "CPUID leaf 0x15, or CNTFRQ_EL0";
        Self {
            cpu: facts.brand().map_or_else(
                || cpu_name(root),
                |brand| Fact::new(brand, "CPUID leaves 0x80000002-4"),
            ),
            kernel: match os::kernel_name() {
                Ok((name, release)) => Fact::new(format!("{name} {release}"), "uname(2)"),
                Err(errno) => Fact::missing("uname(2)", errno.to_string()),
            },
            hypervisor: match facts.hypervisor() {
                Some(name) => Fact::new(name, "CPUID leaf 0x40000000"),
                None => hypervisor(root),
            },
            clocksource_available: root.read(&format!("{CLOCKSOURCE}/available_clocksource")),
            clocksource,
            counter: match counter {
                Ok(_) => Fact::new("readable", "prctl(PR_GET_TSC)"),
                Err(error) => Fact::missing("prctl(PR_GET_TSC)", error.to_string()),
            },
            frequency_claimed: match claimed {
                Some(claimed) => {
                    Fact::new(format!("{:.6} MHz", claimed.hz() as f64 / 1e6), claim_source)
                }
                None => Fact::missing(claim_source, "not told"),
            },
            claimed_hz: claimed.map(|claimed| claimed.hz()),
            vdso: match vdso {
                Ok(()) => Fact::new("present", "AT_SYSINFO_EHDR"),
                Err(reason) => Fact::missing("AT_SYSINFO_EHDR", reason),
            },
            governor: root.read(&format!(
                "/sys/devices/system/cpu/cpu{}/cpufreq/scaling_governor",
                cpus.first().unwrap_or(&0)
            )),
            load: load(root),
            cpus: Fact::new(cpu_list(cpus), "sched_getaffinity(2)"),
            ntp: ntp(os::discipline()),
            seccomp: seccomp(root),
            counter_trusted: trusted && facts.constant_rate() != Some(false),
        }
    }
}

/// The name in /proc/cpuinfo, where the processor has no brand string to ask for.
fn cpu_name(root: &Root) -> Fact {
    let path = "/proc/cpuinfo";
    let fact = root.read(path);
    let Some(text) = &fact.value else { return fact };
    let field = |key: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(k, _)| k.trim() == key).map(|(_, value)| value.trim().to_owned())
    };
    if let Some(name) = field("model name").or_else(|| field("Model")) {
        return Fact::new(name, path);
    }
    match field("CPU implementer").zip(field("CPU part")) {
        Some((implementer, part)) => {
            Fact::new(format!("implementer {implementer}, part {part}"), path)
        }
        None => Fact::missing(path, "no model name"),
    }
}

/// Without CPUID's word for it, what the firmware tables say.
fn hypervisor(root: &Root) -> Fact {
    let xen = root.read("/sys/hypervisor/type");
    if xen.value.is_some() {
        return xen;
    }
    Fact::missing("CPUID leaf 0x40000000, /sys/hypervisor/type", "none told")
}

fn load(root: &Root) -> Fact {
    let mut fact = root.read("/proc/loadavg");
    if let Some(text) = &fact.value {
        let averages: Vec<&str> = text.split_whitespace().take(3).collect();
        fact.value = Some(averages.join(" "));
    }
    fact
}

fn seccomp(root: &Root) -> Fact {
    let path = "/proc/self/status";
    let fact = root.read(path);
    let Some(text) = &fact.value else { return fact };
    let mode = text.lines().find_map(|line| line.strip_prefix("Seccomp:")).map(str::trim);
    match mode {
        Some("0") => Fact::new("off", path),
        Some("1") => Fact::new("strict", path),
        Some("2") => Fact::new("filter", path),
        _ => Fact::missing(path, "not told"),
    }
}

/// The state of the kernel's clock discipline, in words.
fn ntp(discipline: Result<Discipline, clockwise_core::kernel::Errno>) -> Fact {
    let source = "adjtimex(2)";
    let state = match discipline {
        Ok(state) => state,
        Err(errno) => return Fact::missing(source, format!("refused: {errno}")),
    };
    const STA_UNSYNC: i32 = 0x40;
    let leap = match state.state {
        1 => ", leap second to be inserted today",
        2 => ", leap second to be deleted today",
        3 | 4 => ", leap second in progress",
        _ => "",
    };
    let tai = match state.tai_offset_s {
        0 => "TAI offset not set".to_owned(),
        offset => format!("TAI offset {offset} s"),
    };
    let frequency = state.frequency_ppm;
    let text = if state.status & STA_UNSYNC != 0 || state.state == 5 {
        format!("not synchronised, frequency {frequency:+.3} ppm, {tai}{leap}")
    } else {
        let error_us = state.max_error_us;
        format!("synchronised within {error_us} us, frequency {frequency:+.3} ppm, {tai}{leap}")
    };
    Fact::new(text, source)
}

/// Ascending processor numbers as the kernel writes them: `0,2-3`.
pub fn cpu_list(cpus: &[usize]) -> String {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for &cpu in cpus {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => parts.push((cpu, cpu)),
        }
    }
    let part = |&(first, last): &(usize, usize)| match last - first {
        0 => first.to_string(),
        _ => format!("{first}-{last}"),
    };
    parts.iter().map(part).collect::<Vec<_>>().join(",")
}

/// Reads a list of processors as the kernel and taskset write them: `0,2-3`, in any order.
pub fn parse_cpu_list(text: &str) -> Result<Vec<usize>, String> {
    let wrong = || format!("`{text}` is not a list of processors; write it as in 0,2-3");
    let number = |text: &str| text.trim().parse::<usize>().map_err(|_| wrong());
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = match part.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(part)?, number(part)?),
        };
        if last < first || last > 65_535 {
            return Err(wrong());
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

/// The size in bytes of a cache of the first processor: the largest of `level`, or of any level.
pub fn cache_bytes(root: &Root, level: Option<u32>) -> Option<u64> {
    let caches = (0..8).filter_map(|index| {
        let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}");
        let of = |name: &str| root.read(&format!("{path}/{name}")).value;
        let is_wanted = level.is_none_or(|level| of("level") == Some(level.to_string()));
        let size = of("size")?;
        let (number, factor) = match size.strip_suffix('K') {
            Some(number) => (number, 1024),
            None => (size.strip_suffix('M')?, 1024 * 1024),
        };
        is_wanted.then(|| number.parse::<u64>().ok().map(|n| n * factor))?
    });
    caches.max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_with_holes_survive_the_round_trip() {
        for text in ["0", "0-1", "0,2-3", "1,3,5-7,63-64"] {
            assert_eq!(cpu_list(&parse_cpu_list(text).unwrap()), text);
        }
        assert_eq!(parse_cpu_list("3,1-2,2").unwrap(), [1, 2, 3]);
        assert_eq!(cpu_list(&[]), "");
    }

    #[test]
    fn what_is_not_a_list_of_processors_is_refused_in_words() {
        for text in ["", "a", "1-", "-1", "3-1", "0-99999999", "1,,2", "0x1"] {
            assert!(parse_cpu_list(text).unwrap_err().contains("0,2-3"), "{text}");
        }
    }

    #[test]
    fn a_machine_without_files_gives_reasons_not_values() {
        let root = Root::at(std::path::Path::new("/nonexistent"));
        assert_eq!(root.read("/proc/loadavg").text(), "(not there)");
        assert!(cpu_name(&root).value.is_none());
        assert!(seccomp(&root).value.is_none());
        assert_eq!(cache_bytes(&root, None), None);
    }

    #[test]
    fn an_unsynchronised_kernel_is_called_so() {
        let discipline = |state, status, tai_offset_s| {
            Ok(Discipline { state, status, max_error_us: 250, frequency_ppm: -1.5, tai_offset_s })
        };
        assert_eq!(
            ntp(discipline(5, 0x40, 0)).text(),
            "not synchronised, frequency -1.500 ppm, TAI offset not set"
        );
        assert_eq!(
            ntp(discipline(1, 0x2001, 37)).text(),
            "synchronised within 250 us, frequency -1.500 ppm, TAI offset 37 s, \
             leap second to be inserted today"
        );
    }
}
