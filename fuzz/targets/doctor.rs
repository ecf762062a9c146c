//! Any bytes as the files that the doctor reads: no panic, and nothing that is longer than what came in.
#![no_main]

#[path = "../../cli/src/doctor/parse/mod.rs"]
mod parse;

use libfuzzer_sys::fuzz_target;
use parse::boot::{self, CommandLine};
use parse::cpu::{self, Cpuinfo};
use parse::discipline::{Leap, Sync, Timex};
use parse::log::{self, Event, Log};
use parse::process::{self, Auxv, Maps};

fuzz_target!(|bytes: &[u8]| {
    // The first byte chooses the file: runs of one kind find more than runs of all.
    let Some((&kind, bytes)) = bytes.split_first() else { return };
    let lossy = String::from_utf8_lossy(bytes);
    let text = &*lossy;
    match kind % 8 {
        0 => kernel_log(text),
        1 => cpuinfo(text),
        2 => adjtimex(bytes),
        3 => maps(text),
        4 => auxv(bytes),
        5 => timens(text),
        6 => cgroup(text),
        _ => command_line(text),
    }
});

fn kernel_log(text: &str) {
    let log = Log::parse(text);
    assert!(log.events.len() <= log.lines && log.lines <= text.lines().count());
    assert!(log.events.iter().all(|(_, line)| line.len() <= text.len()));
    for (event, _) in &log.events {
        if let Event::Detected(mhz) | Event::Refined(mhz) = event {
            assert!(mhz.is_finite() && *mhz > 0.0);
        }
    }
    let found = log.last(|event| *event == Event::Suspended).is_some();
    assert_eq!(found, log.count(|event| *event == Event::Suspended) > 0);
    // What a recording keeps says the same of the kinds that a check asks for.
    let kept: Vec<&str> = text.lines().filter(|line| log::is_of_interest(line)).collect();
    assert!(Log::parse(&kept.join("\n")).lines <= log.lines);
}

fn cpuinfo(text: &str) {
    let found = Cpuinfo::parse(text);
    assert!(found.processors <= text.lines().count());
    assert!(found.flags.iter().all(|flag| found.has(flag) && !found.uneven.contains(flag)));
    assert!(found.is_invariant() != Some(true) || found.is_arm || found.has("nonstop_tsc"));
    // A recording of it is read alike.
    let kept: Vec<&str> = text.lines().filter(|line| cpu::is_of_interest(line)).collect();
    let kept = Cpuinfo::parse(&kept.join("\n"));
    assert_eq!((&kept.flags, &kept.uneven), (&found.flags, &found.uneven));
}

fn adjtimex(bytes: &[u8]) {
    let Some((fields, _)) = bytes.split_first_chunk::<16>() else { return };
    let int = |at: usize| i32::from_le_bytes(fields[at..at + 4].try_into().unwrap());
    let max_error_us = i64::from_le_bytes(fields[8..16].try_into().unwrap());
    let timex = Timex { state: int(0), status: int(4), max_error_us };
    if timex.state == 5 {
        assert_eq!(timex.sync(), Sync::Free);
    }
    assert!(timex.leap() != Leap::None || timex.state != 1);
    assert!(!timex.names().is_empty());
}

fn maps(text: &str) {
    let maps = Maps::parse(text);
    assert!(maps.libraries.iter().all(|path| path.starts_with('/') && path.len() <= text.len()));
    let kept: Vec<&str> = text.lines().filter(|line| process::is_mapped_library(line)).collect();
    assert!(Maps::parse(&kept.join("\n")).libraries.len() <= maps.libraries.len());
    let _ = process::status_field(text, "Seccomp");
    assert!(!text.lines().any(process::is_of_interest) || text.contains(':'));
}

fn auxv(bytes: &[u8]) {
    if let Some(auxv) = Auxv::parse(bytes) {
        assert!([32, 64].contains(&auxv.bits) && auxv.vdso != Some(0));
    }
}

fn timens(text: &str) {
    if process::timens_offsets(text).is_some() {
        assert!(text.lines().count() >= 2);
    }
    for share in [process::cpu_max(text), process::share(text, "100000")].into_iter().flatten() {
        assert!(share.is_finite() && share > 0.0);
    }
}

fn cgroup(text: &str) {
    let (own, mounts) = text.split_once('\0').unwrap_or((text, text));
    let files = process::cgroup_files(own, mounts, ["cpu.max", "cpu.cfs_quota_us"]);
    assert!(files.len() <= 8 && files.iter().all(|file| file.contains("/cpu.")));
    assert!(files.iter().all(|file| !file.contains("/../")), "{files:?}");
}

fn command_line(text: &str) {
    let line = CommandLine::parse(text);
    // A recording of it is read alike.
    let kept: Vec<&str> = boot::words(text).collect();
    assert_eq!(CommandLine::parse(&kept.join(" ")), line);
    let word = line.against_tsc();
    assert!(word.is_none_or(|word| text.contains(word)));
    assert!(!line.no_vdso || text.contains("vdso=0"));
    assert!(
        line.clocksource.is_none_or(|name| text.contains(&name))
            && line.low_resolution.is_none_or(|word| text.contains(&word))
    );
    assert!(!line.no_hpet || text.contains("hpet"));
}
