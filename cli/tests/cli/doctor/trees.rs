//! Recorded machines, each with the verdict and the remedy that it must get.
//!
//! `cli/tests/trees/README.md` says where they are from.

use super::{check, finding, findings};
use crate::common::clockwise;
use std::path::Path;

const BAD: &str = "bad";
const WARNING: &str = "warning";

/// A recording, the exit status, what is not good with what the remedy must say, and what cannot be told; all else is good.
type Expected =
    (&'static str, i32, &'static [(&'static str, &'static str, &'static str)], &'static str);

#[rustfmt::skip]
const EXPECTED: [Expected; 28] = [
    // an arm64 server: the counter is the clocksource.
    ("arm-server", 0, &[

    ], "ntp/rtc"),
    // an Azure guest: the host's clock, and a kernel that leaves the TSC alone.
    ("azure", 0, &[
        ("tsc/flags", WARNING, "+invtsc"),
        ("ntp/tai", WARNING, "leapsectz"),
        ("clockwise/fit", WARNING, "none needed: the host's clock is fast too"),
    ], "ntp/rtc"),
    // a server where all is well.
    ("bare-metal", 0, &[

    ], ""),
    // firmware that writes to the counters on resume.
    ("firmware", 1, &[
        ("tsc/sync", BAD, "have the kernel use another clocksource"),
        ("tsc/adjust", WARNING, "update the firmware: it must leave the counters alone, also when it re"),
    ], "ntp/rtc"),
    // PR_SET_TSC, and a clock that was never set.
    ("forbidden", 1, &[
        ("tsc/allowed", BAD, "whoever started it must allow it: prctl(PR_SET_TSC, PR_TSC_ENABLE)"),
        ("process/seccomp", BAD, "see tsc/allowed: the vDSO reads the counter, which is forbidden"),
        ("ntp/sync", BAD, "run chrony"),
        ("clockwise/fit", WARNING, "whoever started it must allow it with prctl(PR_SET_TSC, PR_TSC_ENABLE)"),
    ], "clocksource/log vdso/cost vdso/libc tsc/frequency tsc/adjust tsc/sync tsc/traps ntp/rtc machine/tick"),
    // a Compute Engine guest with the TSC.
    ("gcp", 0, &[
        ("ntp/tai", WARNING, "leapsectz"),
    ], ""),
    // gVisor: no /sys, and few system calls.
    ("gvisor", 2, &[
        ("clockwise/fit", WARNING, "mount /sys, or allow reading it"),
    ], "clocksource/current tsc/frequency tsc/sync process/slack ntp/sync ntp/leap ntp/tai ntp/rate ntp/rtc machine/tick"),
    // a tracer that hides the vDSO, clocks that contradict each other.
    ("hidden-vdso", 1, &[
        ("vdso/mapped", BAD, "start the program without the tracer or sandbox that does so"),
        ("vdso/cost", BAD, "see vdso/mapped"),
        ("ntp/rtc", WARNING, "if ntp/sync is good, the hardware's is: hwclock --systohc"),
        ("machine/suspend", WARNING, "see process/timens and process/preload"),
    ], "clocksource/log tsc/adjust"),
    // a desktop booted with clocksource=hpet, its hardware's clock in local time.
    ("hpet-asked", 1, &[
        ("clocksource/current", BAD, "boot without clocksource=hpet"),
        ("vdso/cost", BAD, "have the kernel use the TSC: see clocksource/current"),
        ("ntp/rtc", WARNING, "timedatectl set-local-rtc 0, or live with it beside another system"),
    ], ""),
    // a KVM guest whose host does not pass the invariant TSC on.
    ("kvm-clock", 0, &[
        ("clocksource/log", WARNING, "see clocksource/current"),
        ("tsc/flags", WARNING, "+invtsc"),
        ("ntp/tai", WARNING, "leapsectz"),
        ("clockwise/fit", WARNING, "ask the host to pass the invariant TSC on"),
    ], "ntp/rtc"),
    // a nested guest whose watchdog took too long, and whose rdtsc traps.
    ("nested", 1, &[
        ("clocksource/current", BAD, "if the counter is sound"),
        ("vdso/cost", BAD, "have the kernel use the TSC: see clocksource/current"),
        ("tsc/traps", BAD, "ask the host not to intercept rdtsc"),
        ("clocksource/log", WARNING, "see clocksource/current"),
        ("ntp/sync", WARNING, "run chrony"),
        ("ntp/tai", WARNING, "leapsectz"),
        ("clockwise/fit", WARNING, "if the counter is sound"),
    ], "tsc/adjust ntp/rtc"),
    // an EC2 guest of Nitro: kvm-clock, though the TSC is there.
    ("nitro", 0, &[
        ("ntp/tai", WARNING, "leapsectz"),
    ], ""),
    // a container without /sys, and its log shut.
    ("no-sys", 2, &[
        ("ntp/tai", WARNING, "leapsectz"),
        ("clockwise/fit", WARNING, "mount /sys, or allow reading it"),
    ], "clocksource/current clocksource/log tsc/adjust ntp/rtc"),
    // a server booted with notsc, recorded by hand: nothing measured.
    ("notsc", 1, &[
        ("clocksource/current", BAD, "boot without notsc"),
        ("clockwise/fit", WARNING, "boot without notsc"),
    ], "vdso/cost vdso/libc tsc/frequency tsc/sync tsc/allowed tsc/traps process/slack ntp/sync ntp/leap ntp/tai ntp/rate ntp/rtc machine/tick machine/suspend"),
    // a process of 32 bits, processors that differ, counters that warp.
    ("old-32-bit", 1, &[
        ("clocksource/current", BAD, "update the firmware, which has to start all counters at once"),
        ("vdso/cost", BAD, "the vDSO is fast and libc does not use it: see vdso/libc and process/p"),
        ("vdso/libc", BAD, "use a newer C library"),
        ("clocksource/log", WARNING, "see clocksource/current"),
        ("vdso/mapped", WARNING, "use a build for 64 bits"),
        ("tsc/flags", WARNING, "update the firmware or its microcode"),
        ("tsc/frequency", WARNING, "believe the measurement"),
        ("tsc/adjust", WARNING, "update the firmware: it must leave the counters alone, also when it re"),
        ("ntp/sync", WARNING, "see what the time daemon follows: chronyc sources, ntpq -p, timedatect"),
        ("clockwise/fit", WARNING, "update the firmware, which has to start all counters at once"),
    ], "ntp/rtc"),
    // a process whose vDSO was replaced, recorded by hand.
    ("other-vdso", 2, &[
        ("process/preload", WARNING, "find out who starts this program, and what its vDSO does"),
    ], "clocksource/log vdso/cost vdso/libc tsc/frequency tsc/adjust tsc/sync tsc/allowed tsc/traps process/slack ntp/sync ntp/leap ntp/tai ntp/rate ntp/rtc machine/tick machine/suspend"),
    // clocksource=acpi_pm in a throw-away guest.
    ("qemu-acpi-pm", 1, &[
        ("clocksource/current", BAD, "boot without clocksource=acpi_pm"),
        ("vdso/cost", BAD, "have the kernel use the TSC: see clocksource/current"),
        ("tsc/flags", WARNING, "+invtsc"),
        ("ntp/sync", WARNING, "run chrony"),
        ("ntp/tai", WARNING, "leapsectz"),
        ("clockwise/fit", WARNING, "in a guest, ask the host to pass the invariant TSC flag on"),
    ], ""),
    // clocksource=hpet in a throw-away guest.
    ("qemu-hpet", 1, &[
        ("clocksource/current", BAD, "boot without clocksource=hpet"),
        ("vdso/cost", BAD, "have the kernel use the TSC: see clocksource/current"),
        ("tsc/flags", WARNING, "+invtsc"),
        ("ntp/sync", WARNING, "run chrony"),
        ("ntp/tai", WARNING, "leapsectz"),
        ("clockwise/fit", WARNING, "in a guest, ask the host to pass the invariant TSC flag on"),
    ], ""),
    // clocksource=jiffies in a throw-away guest.
    ("qemu-jiffies", 1, &[
        ("clocksource/current", BAD, "boot without clocksource=jiffies"),
        ("vdso/cost", BAD, "have the kernel use the TSC: see clocksource/current"),
        ("machine/tick", BAD, "see clocksource/current: the kernel needs a finer clocksource"),
        ("tsc/flags", WARNING, "+invtsc"),
        ("tsc/frequency", WARNING, "believe the measurement"),
        ("ntp/sync", WARNING, "run chrony"),
        ("ntp/tai", WARNING, "leapsectz"),
        ("ntp/rate", WARNING, "if it stays so: reboot, so that the kernel measures the counter anew, "),
        ("clockwise/fit", WARNING, "boot without clocksource=jiffies, or write another one to current_cloc"),
    ], "tsc/traps"),
    // vdso=0 in a throw-away guest.
    ("qemu-no-vdso", 1, &[
        ("vdso/mapped", BAD, "boot without vdso=0"),
        ("vdso/cost", BAD, "boot without vdso=0"),
        ("tsc/flags", WARNING, "+invtsc"),
        ("ntp/sync", WARNING, "run chrony"),
        ("ntp/tai", WARNING, "leapsectz"),
    ], ""),
    // nohpet in a throw-away guest: the TSC is used.
    ("qemu-nohpet", 0, &[
        ("tsc/flags", WARNING, "+invtsc"),
        ("ntp/sync", WARNING, "run chrony"),
        ("ntp/tai", WARNING, "leapsectz"),
    ], ""),
    // notsc in a throw-away guest.
    ("qemu-notsc", 1, &[
        ("clocksource/current", BAD, "boot without notsc"),
        ("vdso/cost", BAD, "have the kernel use the TSC: see clocksource/current"),
        ("tsc/flags", WARNING, "+invtsc"),
        ("tsc/frequency", WARNING, "believe the measurement"),
        ("ntp/sync", WARNING, "run chrony"),
        ("ntp/tai", WARNING, "leapsectz"),
        ("clockwise/fit", WARNING, "boot without notsc"),
    ], ""),
    // tsc=unstable in a throw-away guest.
    ("qemu-tsc-unstable", 1, &[
        ("clocksource/current", BAD, "boot without tsc=unstable"),
        ("vdso/cost", BAD, "have the kernel use the TSC: see clocksource/current"),
        ("tsc/flags", WARNING, "+invtsc"),
        ("tsc/frequency", WARNING, "believe the measurement"),
        ("ntp/sync", WARNING, "run chrony"),
        ("ntp/tai", WARNING, "leapsectz"),
        ("clockwise/fit", WARNING, "boot without tsc=unstable"),
    ], ""),
    // two processors without an invariant TSC in a throw-away guest.
    ("qemu-two-processors", 1, &[
        ("clocksource/current", BAD, "ask the host to pass the invariant TSC on"),
        ("vdso/cost", BAD, "have the kernel use the TSC: see clocksource/current"),
        ("clocksource/log", WARNING, "see clocksource/current"),
        ("tsc/flags", WARNING, "+invtsc"),
        ("ntp/sync", WARNING, "run chrony"),
        ("ntp/tai", WARNING, "leapsectz"),
        ("clockwise/fit", WARNING, "ask the host to pass the invariant TSC on"),
    ], ""),
    // a filter, a tracer, libfaketime, a time namespace, a quota, a leap second.
    ("sandbox", 1, &[
        ("process/preload", BAD, "unset LD_PRELOAD"),
        ("vdso/libc", WARNING, "see process/preload"),
        ("process/seccomp", WARNING, "allow clock_gettime, clock_getres, gettimeofday and time in the sandbo"),
        ("process/tracer", WARNING, "measure without strace, gdb or the like"),
        ("process/timens", WARNING, "compare such times within the namespace only"),
        ("process/slack", WARNING, "prctl(PR_SET_TIMERSLACK, 50000), or TimerSlackNSec= of the unit"),
        ("ntp/leap", WARNING, "measure intervals with MONOTONIC, or have the daemon smear the second"),
        ("machine/tick", WARNING, "the host is overloaded, or gives the guest's timers too late: measure "),
        ("machine/cgroup", WARNING, "measure without the limit"),
    ], "clocksource/log vdso/cost tsc/adjust tsc/sync ntp/rtc"),
    // a desktop whose watchdog gave the TSC up.
    ("watchdog", 1, &[
        ("clocksource/current", BAD, "update the firmware"),
        ("vdso/cost", BAD, "have the kernel use the TSC: see clocksource/current"),
        ("clocksource/log", WARNING, "see clocksource/current"),
        ("clockwise/fit", WARNING, "update the firmware"),
    ], ""),
    // WSL 2: the host's clock, slewed at the limit.
    ("wsl2", 0, &[
        ("ntp/sync", WARNING, "run chrony"),
        ("ntp/tai", WARNING, "leapsectz"),
        ("ntp/rate", WARNING, "if it stays so: reboot, so that the kernel measures the counter anew, "),
        ("clockwise/fit", WARNING, "none needed: the host's clock is fast too"),
    ], "ntp/rtc"),
    // an EC2 guest of Xen: each read is a system call.
    ("xen-ec2", 1, &[
        ("vdso/cost", BAD, "have the kernel use the TSC: see clocksource/current"),
        ("clocksource/current", WARNING, "as root: echo tsc > /sys/devices/system/clocksource/clocksource0/curre"),
        ("tsc/flags", WARNING, "+invtsc"),
        ("ntp/tai", WARNING, "leapsectz"),
        ("clockwise/fit", WARNING, "in a guest, ask the host to pass the invariant TSC flag on"),
    ], "ntp/rtc"),
];

/// Where a recording is.
pub fn path(name: &str) -> String {
    let trees = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/trees");
    trees.join(name).into_os_string().into_string().expect("the path is UTF-8")
}

#[test]
fn every_recorded_machine_gets_the_verdict_and_the_remedy_that_it_must_get() {
    for (name, status, expected, unknown) in EXPECTED {
        let ran = clockwise(&["doctor", "--root", &path(name), "--format", "json"]).exits(status);
        let report = ran.json();
        check(&report);
        for (check, verdict, remedy) in expected {
            let finding = finding(&report, check);
            assert_eq!(finding["verdict"], *verdict, "{name}: {finding:#}");
            let told = finding["remedy"].as_str().unwrap();
            assert!(told.contains(remedy), "{name}: {check}: no `{remedy}` in `{told}`");
        }
        let unknown: Vec<&str> = unknown.split_whitespace().collect();
        for (check, finding) in findings(&report) {
            let expected =
                expected.iter().find(|(other, ..)| *other == check).map(|(_, verdict, _)| *verdict);
            let other = if unknown.contains(&check) { "cannot tell" } else { "good" };
            assert_eq!(finding["verdict"], expected.unwrap_or(other), "{name}: {finding:#}");
        }
    }
}

#[test]
fn every_recording_is_expected_to_be_something() {
    let trees = crate::common::names_in(Path::new(&path("")));
    let trees: Vec<&str> =
        trees.iter().map(String::as_str).filter(|name| *name != "README.md").collect();
    assert_eq!(trees, EXPECTED.map(|(name, ..)| name));
}

#[test]
fn the_cause_is_named_beside_the_clocksource() {
    for (name, parts) in [
        ("watchdog", &["watchdog", "CPU10", "hpet instead of the TSC"][..]),
        ("nested", &["comparing it took too long", "read-back delay"]),
        ("hpet-asked", &["told so at the boot (clocksource=hpet)", "/proc/cmdline"]),
        ("notsc", &["told so at the boot (notsc)"]),
        ("qemu-tsc-unstable", &["told so at the boot (tsc=unstable)"]),
        ("qemu-two-processors", &["TSCs unsynchronized"]),
        ("qemu-jiffies", &["time moves in steps of milliseconds"]),
        ("xen-ec2", &["xen: the host's clock", "system call"]),
        ("nitro", &["kvm-clock: the host's clock", "the TSC would cost less", "echo tsc"]),
        (
            "azure",
            &["hyperv_clocksource_tsc_page: the host's clock, which programs read themselves"],
        ),
    ] {
        let args =
            ["doctor", "--root", &path(name), "--only", "clocksource/current", "--format", "json"];
        let report = clockwise(&args).json();
        let text = finding(&report, "clocksource/current").to_string();
        for part in parts {
            assert!(text.contains(part), "{name}: no `{part}` in {text}");
        }
    }
}

#[test]
fn the_kind_of_machine_is_told() {
    for (name, part) in [
        ("xen-ec2", "a guest of Xen"),
        ("nitro", "an Amazon EC2 instance (KVM)"),
        ("azure", "a Hyper-V or Azure guest"),
        ("gcp", "a Google Compute Engine instance (KVM)"),
        ("wsl2", "WSL 2"),
        ("gvisor", "gVisor"),
        ("arm-server", "an Amazon EC2 instance"),
        ("watchdog", "no hypervisor that shows itself"),
        ("qemu-hpet", "QEMU"),
    ] {
        let args =
            ["doctor", "--root", &path(name), "--only", "machine/hypervisor", "--format", "json"];
        let report = clockwise(&args).exits(0).json();
        let says = finding(&report, "machine/hypervisor")["says"].as_str().unwrap();
        assert!(says.contains(part), "{name}: {says}");
    }
}

#[test]
fn the_text_is_that_of_the_snapshots() {
    for name in ["watchdog", "nitro", "qemu-no-vdso"] {
        let ran = clockwise(&["doctor", "--root", &path(name)]);
        assert_eq!(ran.stderr, "");
        assert!(ran.stdout.lines().all(|line| line.chars().count() <= 100), "{}", ran.stdout);
        insta::assert_snapshot!(format!("doctor_{name}"), ran.stdout);
    }
}
