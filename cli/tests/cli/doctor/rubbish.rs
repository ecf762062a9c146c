//! Recordings from anywhere: absent files, rubbish, huge files, pipes, links that lead out. Nothing hangs or panics.

use super::{check, finding};
use crate::common::{Ran, clockwise, folder, not_tried};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

const CURRENT: &str = "sys/devices/system/clocksource/clocksource0/current_clocksource";
const AVAILABLE: &str = "sys/devices/system/clocksource/clocksource0/available_clocksource";
/// All that a recording may hold.
const FILES: [&str; 15] = [
    CURRENT,
    AVAILABLE,
    "dmesg",
    "proc/cmdline",
    "proc/cpuinfo",
    "proc/version",
    "proc/sys/kernel/osrelease",
    "proc/self/status",
    "proc/self/maps",
    "proc/self/auxv",
    "proc/self/timens_offsets",
    "proc/self/cgroup",
    "proc/self/mountinfo",
    "sys/class/rtc/rtc0/since_epoch",
    "sys/devices/system/cpu/online",
];

fn put(root: &Path, path: &str, bytes: &[u8]) {
    let place = root.join(path);
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    fs::write(place, bytes).unwrap();
}

fn doctor(root: &Path) -> Ran {
    let root = root.to_str().unwrap();
    let text = clockwise(&["doctor", "--root", root]);
    assert_eq!((text.signal, text.stderr.as_str()), (None, ""), "{text:#?}");
    // Whatever a recording says, it does not steer a terminal.
    assert!(text.stdout.chars().all(|c| c == '\n' || !c.is_control()), "{}", text.stdout);
    let is_wide = |line: &&str| line.chars().count() > 100;
    assert_eq!(text.stdout.lines().find(is_wide), None);
    let ran = clockwise(&["doctor", "--root", root, "--format", "json"]);
    assert_eq!(ran.code, text.code);
    check(&ran.json());
    ran
}

#[test]
fn an_empty_recording_tells_nothing_and_says_so() {
    let root = folder("doctor-empty");
    let report = doctor(&root).exits(2).json();
    assert_eq!(report["counts"]["bad"], 0);
    assert_eq!(finding(&report, "clocksource/current")["verdict"], "cannot tell");
}

#[test]
fn no_recording_at_all_is_refused_in_a_sentence() {
    clockwise(&["doctor", "--root", "/nonexistent"])
        .exits(2)
        .says_only(&["/nonexistent", "--root"]);
    clockwise(&["doctor", "--root", "/proc/self/status"]).exits(2).says_only(&["no recording"]);
    let root = folder("doctor-no-json");
    for text in ["", "{", "7", "{\"prices\": {\"libc_ns\": \"x\"}}", "\0\u{ff}"] {
        put(&root, "measured.json", text.as_bytes());
        let ran = clockwise(&["doctor", "--root", root.to_str().unwrap()]).exits(2);
        ran.says_only(&["measured.json", "--record"]);
    }
}

#[test]
fn rubbish_in_every_file_is_no_reason_to_panic() {
    let root = folder("doctor-rubbish");
    let mut state = 1u64;
    let mut noise = |length: usize| -> Vec<u8> {
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as u8
        };
        (0..length).map(|_| next()).collect()
    };
    let escapes = b"\x1b[31m\x1b]0;title\x07 tsc \x9b2J\r\n".repeat(30);
    let numbers = b"99999999999999999999999 -1 0x7f nan inf 1e999 : = ;,-- [ ] < >\n".repeat(50);
    let (zeros, noise) = (vec![0; 5_000], noise(5_000));
    for bytes in [&b""[..], b"\n", &noise, &escapes, &numbers, &zeros] {
        for path in FILES {
            put(&root, path, bytes);
        }
        doctor(&root);
    }
}

#[test]
fn absurd_figures_are_printed_and_not_believed_blindly() {
    let root = folder("doctor-absurd");
    let most = i64::MAX;
    let text = format!(
        r#"{{"clocks": {{"realtime_ns": {most}, "monotonic_ns": {min}, "monotonic_raw_ns": 0, "boottime_ns": {most}}},
            "prices": {{"libc_ns": 0.0, "syscall_ns": 1e308, "vdso_ns": -5.0, "counter_ns": 1e-300, "cpuid_ns": 0}},
            "share": {{"window_ns": 0, "user_percent": -1e9, "system_percent": 1e300}},
            "rate": {{"counter_hz": 0.0, "uncertainty_ppm": 0, "steering_ppm": -1e300, "steering_uncertainty_ppm": 0}},
            "sync": {{"processors": 2, "pairs": 0, "tried": 9, "handed_over": 5, "violations": 1, "worst_ticks": {umost},
                      "offset_ns": null, "offset_error_ns": 3}},
            "steps": {{"tick_ns": 0, "seen_ns": 0, "fine_ns": {umost}}},
            "discipline": {{"state": -7, "status": -1, "max_error_us": {min}, "frequency_ppm": 1e300, "tai_offset_s": -2147483648}},
            "processor": {{"hypervisor": "", "invariant": null, "claimed_hz": 0}}}}"#,
        min = i64::MIN,
        umost = u64::MAX
    );
    put(&root, "measured.json", text.as_bytes());
    put(&root, "sys/class/rtc/rtc0/since_epoch", b"-9223372036854775808\n");
    put(
        &root,
        "proc/self/timens_offsets",
        b"monotonic -9223372036854775808 -9223372036854775808\nboottime 0 0\n",
    );
    doctor(&root);
    let text = format!(
        r#"{{"steps": {{"tick_ns": {umost}, "seen_ns": {umost}, "fine_ns": 1}}}}"#,
        umost = u64::MAX
    );
    put(&root, "measured.json", text.as_bytes());
    doctor(&root);
    let text = format!(
        r#"{{"libc": {{"version": "{}", "clock_from": null, "image": false}}}}"#,
        "é".repeat(3_000)
    );
    put(&root, "measured.json", text.as_bytes());
    doctor(&root);
}

#[test]
fn measurements_that_are_there_and_cannot_be_read_are_not_taken_for_none() {
    let root = folder("doctor-measured-folder");
    fs::create_dir(root.join("measured.json")).unwrap();
    let ran = clockwise(&["doctor", "--root", root.to_str().unwrap()]).exits(2);
    ran.says_only(&["measured.json", "cannot be read: not a plain file"]);
}

#[test]
fn huge_files_are_read_as_far_as_there_is_room() {
    let root = folder("doctor-huge");
    for path in ["dmesg", "proc/cpuinfo", CURRENT] {
        let place = root.join(path);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        // A hole: nothing on the disk, and a terabyte to whoever reads all of it.
        fs::File::create(place).unwrap().set_len(1 << 40).unwrap_or_else(|error| {
            not_tried("a file of a terabyte", &error.to_string());
        });
    }
    doctor(&root);
    fs::remove_dir_all(&root).unwrap();
}

#[test]
fn pipes_folders_and_links_that_lead_out_are_not_read() {
    let root = folder("doctor-traps");
    for path in FILES {
        let place = root.join(path);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        let made = Command::new("mkfifo").arg(&place).status();
        if !made.is_ok_and(|status| status.success()) {
            return not_tried("pipes in a recording", "there is no mkfifo");
        }
    }
    let report = doctor(&root).exits(2).json();
    let source = &finding(&report, "clocksource/current")["evidence"][0];
    assert_eq!(source["reason"], "not a plain file", "{source}");
    let root = folder("doctor-links");
    put(&root, "secret", b"tsc");
    fs::create_dir_all(root.join(CURRENT).parent().unwrap()).unwrap();
    symlink("/etc/passwd", root.join(CURRENT)).unwrap();
    symlink("../../../../../secret", root.join(AVAILABLE)).unwrap();
    symlink("loop", root.join("loop")).unwrap();
    fs::create_dir_all(root.join("proc/cpuinfo")).unwrap();
    symlink("../loop", root.join("proc/cmdline")).unwrap();
    let report = doctor(&root).json();
    let evidence = &finding(&report, "clocksource/current")["evidence"];
    assert_eq!(evidence[0]["reason"], "a link that leads out of the recording", "{evidence}");
    assert_eq!(evidence[1]["value"], "tsc", "a link within it is followed: {evidence}");
}

#[test]
fn files_that_may_not_be_read_are_told() {
    let root = folder("doctor-shut");
    put(&root, CURRENT, b"tsc\n");
    fs::set_permissions(root.join(CURRENT), fs::Permissions::from_mode(0o0)).unwrap();
    if fs::read(root.join(CURRENT)).is_ok() {
        return not_tried("files that may not be read", "root reads everything");
    }
    let report = doctor(&root).exits(2).json();
    let source = &finding(&report, "clocksource/current")["evidence"][0];
    assert_eq!(source["reason"], "no permission", "{source}");
}
