//! `doctor --record`: what the checks read of this machine, as a folder that `--root` takes.
//!
//! Only what the checks read is written. Must never touch a folder that is there already: it is made beside its place,
//! and renamed.

use super::facts::{AVAILABLE, CURRENT, DMESG, Facts, MEASURED};
use super::parse::{boot, cpu, log, process};
use crate::machine::words;
use crate::render;
use anyhow::{Context, Result, anyhow, bail};
use std::fs;
use std::path::{Path, PathBuf};

/// Which lines of a file are kept; all of them if there is no rule.
type Keep = Option<fn(&str) -> bool>;

/// The files, and what is kept of them: nobody needs to see the rest.
const FILES: [(&str, Keep); 24] = [
    (CURRENT, None),
    (AVAILABLE, None),
    ("/proc/cpuinfo", Some(cpu::is_of_interest)),
    ("/proc/version", None),
    ("/proc/sys/kernel/osrelease", None),
    ("/proc/self/status", Some(process::is_of_interest)),
    ("/proc/self/maps", Some(process::is_mapped_library)),
    ("/proc/self/auxv", None),
    ("/proc/self/timens_offsets", None),
    ("/proc/self/cgroup", None),
    ("/proc/self/mountinfo", Some(is_of_cgroups)),
    ("/etc/ld.so.preload", None),
    ("/sys/hypervisor/type", None),
    ("/sys/class/dmi/id/sys_vendor", None),
    ("/sys/class/dmi/id/product_name", None),
    ("/sys/class/rtc/rtc0/since_epoch", None),
    ("/sys/devices/system/cpu/online", None),
    ("/sys/devices/system/cpu/isolated", None),
    ("/sys/devices/system/cpu/cpu0/tsc_freq_khz", None),
    ("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", None),
    ("/sys/fs/cgroup/cpu.max", None),
    ("/sys/fs/cgroup/cpu.stat", None),
    ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", None),
    ("/sys/fs/cgroup/cpu/cpu.cfs_period_us", None),
];

fn is_of_cgroups(line: &str) -> bool {
    line.contains(" - cgroup")
}

/// A folder that can be made.
pub struct Recording {
    beside: PathBuf,
    place: PathBuf,
}

impl Recording {
    /// Tells at once whether it can be made: nothing is left behind while it is only promised.
    ///
    /// # Errors
    /// In a sentence, with the remedy.
    pub fn promise(place: &Path) -> Result<Self> {
        let shown = place.display();
        if place.symlink_metadata().is_ok() {
            bail!("{shown} is there already; give --record a folder that is not");
        }
        let name = place.file_name().with_context(|| {
            format!("`{shown}` names no folder; give --record one that is not there yet")
        })?;
        let mut beside = name.to_owned();
        beside.push(format!(".{}.part", std::process::id()));
        let recording = Self { beside: place.with_file_name(beside), place: place.to_owned() };
        let tried =
            fs::create_dir(&recording.beside).and_then(|()| fs::remove_dir(&recording.beside));
        tried.map_err(|error| {
            anyhow!(
                "{shown} cannot be made: {}; give --record a folder where you may write",
                words(&error)
            )
        })?;
        Ok(recording)
    }

    /// Writes the facts, and puts the folder in its place. How many files.
    ///
    /// # Errors
    /// In a sentence.
    pub fn finish(self, facts: &Facts) -> Result<usize> {
        let made = fs::create_dir(&self.beside);
        let written = made
            .map_err(anyhow::Error::from)
            .and_then(|()| self.write(facts))
            .with_context(|| format!("{} was not written", self.place.display()))?;
        if self.place.symlink_metadata().is_ok() {
            bail!("{} is there by now; give --record another folder", self.place.display());
        }
        fs::rename(&self.beside, &self.place)
            .with_context(|| format!("{} was not written", self.place.display()))?;
        Ok(written)
    }

    fn write(&self, facts: &Facts) -> Result<usize> {
        let mut count = 0;
        let mut put = |path: &str, bytes: &[u8]| -> Result<()> {
            let place = self.beside.join(path.trim_start_matches('/'));
            if let Some(folder) = place.parent() {
                fs::create_dir_all(folder)?;
            }
            fs::write(place, bytes)?;
            count += 1;
            Ok(())
        };
        for (path, keep) in FILES {
            // What is not there is not there in the recording either.
            let Ok(bytes) = facts.tree.bytes(path) else { continue };
            let bytes = match keep {
                None => bytes,
                Some(keep) => kept(&String::from_utf8_lossy(&bytes), keep),
            };
            put(path, &bytes)?;
        }
        let line = facts.tree.text("/proc/cmdline").unwrap_or_default();
        put("/proc/cmdline", (boot::words(&line).collect::<Vec<_>>().join(" ") + "\n").as_bytes())?;
        if facts.log.is_ok() {
            // The first line tells whether the log reaches back to the boot.
            let first = facts.log_text.lines().next().unwrap_or_default();
            let first = if log::is_of_interest(first) { String::new() } else { stamp(first) };
            put(DMESG, &[first.into_bytes(), kept(&facts.log_text, log::is_of_interest)].concat())?;
        }
        put(MEASURED, render::json(&facts.measured).as_bytes())?;
        Ok(count)
    }
}

fn kept(text: &str, keep: fn(&str) -> bool) -> Vec<u8> {
    let lines = text.lines().filter(|line| keep(line));
    lines.flat_map(|line| [line, "\n"]).collect::<String>().into_bytes()
}

/// The time of a line alone.
fn stamp(line: &str) -> String {
    match line.split_once(']') {
        Some((time, _)) => format!("{time}] (the log begins here)\n"),
        None => String::new(),
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        // Renamed, there is nothing to be removed; else nothing can be done about what cannot be removed.
        let _ = fs::remove_dir_all(&self.beside);
    }
}
