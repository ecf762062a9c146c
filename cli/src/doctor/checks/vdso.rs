//! Whether programs read clocks without entering the kernel.

use super::{price, process};
use crate::doctor::facts::{CURRENT, Facts};
use crate::doctor::finding::Finding;
use crate::doctor::measured::{Prices, Share};
use crate::doctor::parse::process::{Auxv, Maps};
use crate::machine::{Fact, words};

const AUXV: &str = "/proc/self/auxv";
const MAPS: &str = "/proc/self/maps";

/// Whether the kernel has given the process a vDSO.
pub fn mapped(facts: &Facts) -> Finding {
    let auxv = match facts.tree.bytes(AUXV) {
        Ok(bytes) => Auxv::parse(&bytes).ok_or_else(|| "it is not understood".to_owned()),
        Err(error) => Err(words(&error)),
    };
    let maps = facts.tree.text(MAPS).ok().map(|text| Maps::parse(&text));
    let is_mapped = maps.as_ref().and_then(|maps| maps.vdso);
    let named = match &auxv {
        Ok(auxv) => Fact::new(
            auxv.vdso.map_or_else(
                || "AT_SYSINFO_EHDR absent".to_owned(),
                |at| format!("AT_SYSINFO_EHDR {at:#x}"),
            ),
            AUXV,
        ),
        Err(reason) => Fact::missing(AUXV, reason.clone()),
    };
    let seen = match is_mapped {
        Some((from, to)) => Fact::new(format!("{from:x}-{to:x} [vdso]"), MAPS),
        None if maps.is_some() => Fact::new("no [vdso]", MAPS),
        None => Fact::missing(MAPS, "not there"),
    };
    let bits = auxv.as_ref().map_or(0, |auxv| auxv.bits);
    let finding = match (auxv.as_ref().map(|auxv| auxv.vdso), is_mapped) {
        (Ok(Some(_)), _) if bits == 32 => Finding::warning(
            "a process of 32 bits: many of its C libraries know no vDSO, so that each read of a clock is a system call",
        )
        .remedy("use a build for 64 bits"),
        (Ok(Some(_)), _) => Finding::good("the kernel has given this process its vDSO"),
        (Ok(None), _) | (Err(_), None) if facts.boot.no_vdso => {
            Finding::bad("there is no vDSO: each read of a clock is a system call. Reason: the kernel was told so at the boot (vdso=0)")
                .from(facts.asked_for("vdso=0"))
                .remedy("boot without vdso=0")
        }
        (Ok(None), Some(_)) => Finding::bad(
            "the vDSO is mapped but hidden: somebody has taken its address out of the auxiliary vector, so that each read of a clock is a system call",
        )
        .remedy("start the program without the tracer or sandbox that does so (PRoot, rr, a debugger)"),
        (Ok(None), None) => Finding::bad(
            "there is no vDSO: each read of a clock is a system call. The kernel has none, or a tracer or sandbox takes it away",
        )
        .remedy("start the program without the tracer or sandbox; else `clockwise run`, which needs no vDSO"),
        (Err(_), Some(_)) => Finding::good("the vDSO is mapped into this process"),
        (Err(reason), None) => Finding::unknown(format!("whether there is a vDSO cannot be read: {reason}"))
            .remedy("mount /proc"),
    };
    finding.from(named).from(seen)
}

/// No counter and no vDSO take so long by themselves.
const DEAR_NS: f64 = 400.0;

/// Whether a read enters the kernel, by its price and by whose time it takes.
pub fn cost(facts: &Facts) -> Finding {
    let prices = match facts.measured.prices.get() {
        Ok(prices) => prices,
        Err(reason) => {
            return Finding::unknown(format!("what a read costs was not measured: {reason}"))
                .from(Fact::missing("measured", reason))
                .remedy(if facts.tree.is_live() {
                    "see tsc/allowed and process/seccomp"
                } else {
                    "record with `clockwise doctor --record DIR` on that machine"
                });
        }
    };
    let share = facts.measured.share.get();
    let libc = price(prices.libc_ns);
    let Some(syscall_ns) = prices.syscall_ns else {
        return Finding::unknown(format!(
            "a read costs {libc}; what a system call costs cannot be told"
        ))
        .from(Facts::measurement(format!("libc {libc}")));
    };
    let ratio = prices.libc_ns / syscall_ns;
    // A read that enters the kernel has the kernel's share of the time, and the price of the system call. Where system
    // calls are cheap, a fast read may cost half of one.
    let is_slow = match share {
        Ok(share) => ratio > 0.6 && share.system_percent > 15.0,
        Err(_) => ratio > 0.7,
    };
    let is_dear = ratio > 0.7 || prices.libc_ns > DEAR_NS;
    let syscall = price(syscall_ns);
    let finding = if is_slow {
        Finding::bad(format!(
            "a read of the clock enters the kernel: {libc}, and {syscall} by system call"
        ))
        .with(facts.current().map(|name| Fact::new(name, CURRENT)))
        .remedy(remedy(facts, prices))
    } else if is_dear {
        Finding::warning(format!(
            "a read of the clock is dear: {libc}, and {syscall} by system call"
        ))
        .remedy(remedy(facts, prices))
    } else {
        let times = match syscall_ns / prices.libc_ns {
            times @ ..10.0 => format!("{times:.1}"),
            times => format!("{times:.0}"),
        };
        Finding::good(format!(
            "{libc} a read, {times} times faster than by system call ({syscall})"
        ))
    };
    finding.from(Facts::measurement(measured(prices))).from(match share {
        Ok(share) => Facts::measurement(shares(share)),
        Err(reason) => Fact::missing("getrusage(2)", reason),
    })
}

fn measured(prices: &Prices) -> String {
    let of = |name: &str, ns: Option<f64>| ns.map(|ns| format!("{name} {}", price(ns)));
    let parts = [
        of("libc", Some(prices.libc_ns)),
        of("vDSO", prices.vdso_ns),
        of("system call", prices.syscall_ns),
        of("counter", prices.counter_ns),
    ];
    format!("MONOTONIC: {}", parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
}

fn shares(share: &Share) -> String {
    let (user, system) = (share.user_percent, share.system_percent);
    let seconds = share.window_ns as f64 / 1e9;
    format!("{user:.0} % user, {system:.0} % system in {seconds:.1} s of reads")
}

/// By what is in the way.
fn remedy(facts: &Facts, prices: &Prices) -> String {
    let current = facts.current().unwrap_or_default();
    let is_counter = ["tsc", "arch_sys_counter"].contains(&current.as_str());
    let fast_vdso = prices.vdso_ns.is_some_and(|ns| ns < 0.4 * prices.libc_ns);
    let what = if facts.is_gvisor() {
        "this is gVisor: its vDSO answers REALTIME, MONOTONIC and BOOTTIME only; with its KVM platform calls are cheaper"
    } else if facts.boot.no_vdso {
        "boot without vdso=0"
    } else if fast_vdso {
        "the vDSO is fast and libc does not use it: see vdso/libc and process/preload"
    } else if !is_counter && !current.is_empty() {
        "have the kernel use the TSC: see clocksource/current"
    } else if prices.vdso_ns.is_none() {
        "see vdso/mapped"
    } else {
        "see process/seccomp and process/tracer: something makes the kernel's code slow here"
    };
    let run = "`clockwise run` reads the counter without the kernel, where clockwise/fit is good";
    format!("{what}; {run}")
}

/// Whether the C library uses the vDSO.
pub fn libc(facts: &Facts) -> Finding {
    let known = facts.measured.libc.get();
    let libraries =
        facts.tree.text(MAPS).map(|text| Maps::parse(&text).libraries).unwrap_or_default();
    let file = libraries.iter().find(|path| {
        let name = path.rsplit('/').next().unwrap_or_default();
        ["libc.so", "libc-2", "libc.musl", "ld-musl"]
            .iter()
            .any(|beginning| name.starts_with(beginning))
    });
    let version = known.ok().and_then(|libc| libc.version.clone());
    let name = match (&version, file) {
        (Some(version), _) => format!("glibc {version}"),
        (None, Some(file)) if file.contains("musl") => "musl".to_owned(),
        (None, Some(file)) => file.clone(),
        (None, None) => "a C library that is linked in".to_owned(),
    };
    let evidence = |finding: Finding| {
        let from = known.ok().and_then(|libc| libc.clock_from.clone());
        finding
            .with(file.map(|file| Fact::new(file.clone(), MAPS)))
            .with(from.map(|from| Fact::new(from, "dladdr(clock_gettime)")))
    };
    let prices = match facts.measured.prices.get() {
        Ok(prices) => prices,
        Err(reason) => {
            return evidence(Finding::unknown(format!(
                "{name}; whether it uses the vDSO was not measured: {reason}"
            )));
        }
    };
    let Some(vdso_ns) = prices.vdso_ns else {
        return evidence(Finding::good(format!("{name}; there is no vDSO that it could use")));
    };
    let (libc, vdso) = (price(prices.libc_ns), price(vdso_ns));
    if known.is_ok_and(|libc| libc.image) {
        return evidence(Finding::good(format!(
            "Clockwise's image answers in {name}'s place: {libc}"
        )));
    }
    let other =
        known.ok().and_then(|libc| libc.clock_from.clone()).filter(|path| !process::is_libc(path));
    if let Some(other) = other {
        let other = other.rsplit('/').next().unwrap_or_default();
        return evidence(
            Finding::warning(format!(
                "{other} answers in {name}'s place: {libc}, and {vdso} straight"
            ))
            .from(Facts::measurement(measured(prices)))
            .remedy("see process/preload"),
        );
    }
    let is_used = prices.libc_ns < 1.6 * vdso_ns + 10.0;
    let finding = if is_used {
        Finding::good(format!("{name} uses the vDSO: {libc}, and {vdso} straight"))
    } else {
        Finding::bad(format!("{name} does not use the vDSO: {libc}, and {vdso} straight")).remedy(
            "use a newer C library (static programs: glibc 2.31 or newer), or `clockwise run`",
        )
    };
    evidence(finding.from(Facts::measurement(measured(prices))))
}
