//! The door: everything that the checks may know, of this machine or of a recording of another.
//!
//! Must never decide what a fact means.

use super::checks::Need;
use super::measured::Measured;
use super::parse::boot::CommandLine;
use super::parse::cpu::Cpuinfo;
use super::parse::log::{Event, Log};
use super::probe;
use super::tree::{Tree, shown};
use crate::live::Live;
use crate::machine::{Fact, words};
use crate::os;
use anyhow::{Context, Result, bail};
use std::io::ErrorKind;
use std::path::Path;

/// Where a recording holds what no file tells.
pub const MEASURED: &str = "measured.json";
/// Where it holds the kernel's log.
pub const DMESG: &str = "dmesg";
/// Where the kernel's clocksource stands.
pub const CURRENT: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
/// And those that it could use.
pub const AVAILABLE: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";

/// Everything that the checks may know.
pub struct Facts {
    /// The files.
    pub tree: Tree,
    /// What no file tells.
    pub measured: Measured,
    /// The kernel's log, or why there is none.
    pub log: Result<Log, String>,
    /// The kernel's log as it was read.
    pub log_text: String,
    /// The processors.
    pub cpu: Cpuinfo,
    /// The kernel's command line.
    pub boot: CommandLine,
    /// Whether this is run by root; not told of a recording.
    pub is_root: Option<bool>,
}

impl Facts {
    /// Of this machine.
    pub fn live(needs: &[Need], live: &mut Live<'_>) -> Self {
        let (measured, log) = probe::probe(needs, live);
        Self::new(Tree::live(), measured, log, Some(os::launch::user().2 == 0))
    }

    /// Of a recording.
    ///
    /// # Errors
    /// If there is no such folder, or it says nonsense.
    pub fn recorded(folder: &Path) -> Result<Self> {
        let name = folder.display();
        let tree = Tree::at(folder).with_context(|| {
            format!("{name} is no recording: give --root a folder with copies of /proc and /sys")
        })?;
        let measured = match tree.text(MEASURED) {
            Ok(text) => serde_json::from_str(&text)
                .with_context(|| format!("{name}/{MEASURED} is not what --record writes"))?,
            Err(error) if error.kind() == ErrorKind::NotFound => Measured::default(),
            Err(error) => bail!("{name}/{MEASURED} cannot be read: {}", words(&error)),
        };
        let log = tree.text(DMESG).map_err(|error| format!("{DMESG}: {}", words(&error)));
        Ok(Self::new(tree, measured, log, None))
    }

    fn new(
        tree: Tree,
        measured: Measured,
        log: Result<String, String>,
        is_root: Option<bool>,
    ) -> Self {
        let text = |path: &str| tree.text(path).unwrap_or_default();
        let (cpu, boot) =
            (Cpuinfo::parse(&text("/proc/cpuinfo")), CommandLine::parse(&text("/proc/cmdline")));
        let (log, log_text) = match log {
            Ok(text) => (Ok(Log::parse(&text)), text),
            Err(reason) => (Err(reason), String::new()),
        };
        Self { tree, measured, log, log_text, cpu, boot, is_root }
    }

    /// The kernel's clocksource.
    pub fn current(&self) -> Option<String> {
        let text = self.tree.word(CURRENT)?;
        text.split_whitespace().next().map(str::to_owned)
    }

    /// Those that it could use.
    pub fn available(&self) -> Vec<String> {
        let text = self.tree.word(AVAILABLE).unwrap_or_default();
        text.split_whitespace().map(str::to_owned).collect()
    }

    /// A line of the log as evidence.
    pub fn logged(&self, line: &str) -> Fact {
        Fact::new(shown(line), self.log_source())
    }

    /// The last event of a kind, with its line.
    pub fn last(&self, is_kind: impl Fn(&Event) -> bool) -> Option<&(Event, String)> {
        self.log.as_ref().ok()?.last(is_kind)
    }

    /// How many events of a kind there are.
    pub fn count(&self, is_kind: impl Fn(&Event) -> bool) -> usize {
        self.log.as_ref().map_or(0, |log| log.count(is_kind))
    }

    /// Where the log is read.
    pub fn log_source(&self) -> &'static str {
        if self.tree.is_live() { "the kernel's log" } else { DMESG }
    }

    /// The state of the log as evidence, where nothing was found in it.
    pub fn log_state(&self) -> Fact {
        match &self.log {
            Ok(log) if log.from_boot => {
                Fact::new(format!("{} lines, none of it", log.lines), self.log_source())
            }
            Ok(log) => Fact::new(
                format!("{} lines, none of it; the boot's are overwritten", log.lines),
                self.log_source(),
            ),
            Err(reason) => Fact::missing(self.log_source(), reason.clone()),
        }
    }

    /// What root would add, where the log may not be read.
    pub fn log_as_root(&self) -> Option<&'static str> {
        (self.log.is_err() && self.is_root == Some(false))
            .then_some("the kernel's log would give the reason")
    }

    /// What to do where the log may not be read.
    pub fn log_remedy(&self) -> &'static str {
        match self.is_root {
            None => "record as root: then the log is recorded too",
            Some(false) => "run as root, or look with journalctl -k -b",
            Some(true) => {
                "run outside the sandbox, or with CAP_SYSLOG; or look with journalctl -k -b"
            }
        }
    }

    /// A word of the command line as evidence.
    pub fn asked_for(&self, word: &str) -> Fact {
        Fact::new(word, "/proc/cmdline")
    }

    /// Whether this is a guest, as far as that is told.
    pub fn is_guest(&self) -> bool {
        let by_cpuid = self.measured.processor.get().is_ok_and(|cpu| cpu.hypervisor.is_some());
        let by_log = self.last(|event| matches!(event, Event::Hypervisor(_))).is_some();
        by_cpuid || by_log || self.cpu.has("hypervisor")
    }

    /// Whether the kernel is gVisor's.
    pub fn is_gvisor(&self) -> bool {
        let version = self.tree.word("/proc/version").unwrap_or_default();
        // Older ones call themselves 4.4.0, built at a moment that is in their source.
        let is_named =
            version.contains("gvisor") || version.contains("Sun Jan 10 15:06:54 PST 2016");
        is_named || self.last(|event| *event == Event::GVisor).is_some()
    }

    /// What was measured as evidence, or why it was not.
    pub fn measurement(value: impl Into<String>) -> Fact {
        Fact::new(value, "measured")
    }
}
