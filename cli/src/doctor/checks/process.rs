//! What stands between this process and the kernel's clocks.

use super::price;
use crate::doctor::facts::Facts;
use crate::doctor::finding::Finding;
use crate::doctor::parse::process::{Auxv, Maps, status_field, timens_offsets};
use crate::doctor::tree::shown;
use crate::machine::{Fact, words};

const STATUS: &str = "/proc/self/status";
const OFFSETS: &str = "/proc/self/timens_offsets";
const LD_SO_PRELOAD: &str = "/etc/ld.so.preload";

fn field(facts: &Facts, key: &str) -> Fact {
    match facts.tree.text(STATUS) {
        Ok(text) => match status_field(&text, key) {
            Some(value) => Fact::new(format!("{key}: {}", shown(value)), STATUS),
            None => Fact::missing(STATUS, format!("no {key} in it")),
        },
        Err(error) => Fact::missing(STATUS, words(&error)),
    }
}

/// Whether a filter refuses calls that tell time.
pub fn seccomp(facts: &Facts) -> Finding {
    let mode = field(facts, "Seccomp");
    let value = mode.value.clone().unwrap_or_default();
    let calls = facts.measured.calls.get();
    // A clock that the kernel does not have is no refusal.
    let is_refusal = |failure: &str| !failure.ends_with("EINVAL") && !failure.ends_with("ENODEV");
    let refused: Vec<String> = calls
        .map(|calls| {
            let of = |call: &crate::doctor::measured::Call| {
                let failure = call.failure.as_deref().filter(|failure| is_refusal(failure))?;
                Some(format!("{} {failure}", call.name))
            };
            calls.iter().filter_map(of).collect()
        })
        .unwrap_or_default();
    let kills = refused.iter().any(|call| call.contains("kills"));
    let finding = match value.as_str() {
        _ if !refused.is_empty() => {
            let count = refused.len();
            let says =
                format!("{count} calls that tell time are refused; the first: {}", refused[0]);
            let by_libc = refused.iter().any(|call| call.contains("of libc"));
            let finding =
                if kills || by_libc { Finding::bad(says) } else { Finding::warning(says) };
            let forbidden = facts.measured.counter_allowed.get() == Ok(&false);
            finding.with(refused.iter().map(|call| Fact::new(call.clone(), "tried"))).remedy(if forbidden {
                "see tsc/allowed: the vDSO reads the counter, which is forbidden"
            } else {
                "allow clock_gettime, clock_getres, gettimeofday and time in the sandbox's filter: without a vDSO \
                 there is no other way to the time"
            })
        }
        "Seccomp: 0" => {
            Finding::good("no filter is in force, and no call that tells time is refused")
        }
        "Seccomp: 1" => {
            Finding::warning("strict mode: nothing but read, write and exit is allowed")
                .remedy("read the clock through the vDSO only")
        }
        "Seccomp: 2" if calls.is_ok() => {
            Finding::good("a filter is in force, and lets all calls pass that tell time")
        }
        "Seccomp: 2" => {
            Finding::unknown("a filter is in force; which calls it refuses was not tried")
        }
        _ if calls.is_ok() => Finding::good("no call that tells time is refused"),
        _ => Finding::unknown("whether a filter is in force is not told").remedy("mount /proc"),
    };
    finding.from(mode)
}

/// Whether a debugger stops at every call.
pub fn tracer(facts: &Facts) -> Finding {
    let tracer = field(facts, "TracerPid");
    let finding = match tracer.value.as_deref().map(|value| value.trim_start_matches("TracerPid: "))
    {
        Some("0") => Finding::good("nobody traces this process"),
        Some(pid) => Finding::warning(format!(
            "process {pid} traces this one: each system call may stop twice, and costs microseconds"
        ))
        .remedy("measure without strace, gdb or the like"),
        None => {
            Finding::unknown("whether this process is traced is not told").remedy("mount /proc")
        }
    };
    finding.from(tracer)
}

/// Libraries that make time up, by the beginning of their names.
const FAKERS: [&str; 5] = ["libfaketime", "faketime", "libtimefaker", "libdatefudge", "datefudge"];

/// The file's name.
fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// Whether it is a C library, or a program that has one linked in.
pub fn is_libc(path: &str) -> bool {
    let name = name(path);
    name.starts_with("libc.")
        || name.starts_with("libc-")
        || name.contains("musl")
        || !name.contains(".so")
}

/// Whether a library or another vDSO makes time up.
pub fn preload(facts: &Facts) -> Finding {
    let maps = facts.tree.text("/proc/self/maps").map(|text| Maps::parse(&text));
    let libraries = maps.as_ref().map(|maps| maps.libraries.clone()).unwrap_or_default();
    let for_all = facts.tree.word(LD_SO_PRELOAD);
    let for_all_fact = for_all.clone().map(|text| Fact::new(text, LD_SO_PRELOAD));
    let is_faker = |path: &&String| FAKERS.iter().any(|faker| name(path).starts_with(faker));
    if let Some(faker) = libraries.iter().find(is_faker) {
        return Finding::bad(format!(
            "{} is loaded: the times that this process is told are made up",
            name(faker)
        ))
        .from(Fact::new(faker.clone(), "/proc/self/maps"))
        .with(for_all_fact)
        .remedy("unset LD_PRELOAD, unless that is wanted");
    }
    let (image, clock_from) = facts
        .measured
        .libc
        .get()
        .map_or((false, None), |libc| (libc.image, libc.clock_from.clone()));
    let from = clock_from.clone().map(|from| Fact::new(from, "dladdr(clock_gettime)"));
    if image {
        return Finding::good("Clockwise's image answers in libc's place")
            .with(from)
            .with(for_all_fact);
    }
    let auxv = facts.tree.bytes("/proc/self/auxv").ok().and_then(|bytes| Auxv::parse(&bytes));
    let (named, mapped) =
        (auxv.and_then(|auxv| auxv.vdso), maps.as_ref().ok().and_then(|maps| maps.vdso));
    if let Some((named, (start, end))) = named.zip(mapped)
        && !(start..end).contains(&named)
    {
        return Finding::warning(
            "the vDSO is not the kernel's own: somebody has put another one in its place",
        )
        .from(Fact::new(format!("AT_SYSINFO_EHDR {named:#x}"), "/proc/self/auxv"))
        .from(Fact::new(format!("{start:x}-{end:x} [vdso]"), "/proc/self/maps"))
        .remedy("find out who starts this program, and what its vDSO does");
    }
    if let Some(other) = clock_from.filter(|path| !is_libc(path)) {
        return Finding::warning(format!("{} answers in libc's place", name(&other)))
            .with(from)
            .with(for_all_fact)
            .remedy("find out what it does: unset LD_PRELOAD to be without it");
    }
    match maps {
        Ok(_) => Finding::good("nothing stands between programs and the C library's clocks")
            .with(from)
            .with(for_all_fact),
        Err(error) => Finding::unknown(format!("what is loaded cannot be read: {}", words(&error)))
            .from(Fact::missing("/proc/self/maps", words(&error)))
            .remedy("mount /proc"),
    }
}

/// Whether clocks since boot are shifted.
pub fn timens(facts: &Facts) -> Finding {
    let text = match facts.tree.text(OFFSETS) {
        Ok(text) => text,
        Err(error) => {
            let fact = Fact::missing(OFFSETS, words(&error));
            return if error.kind() == std::io::ErrorKind::NotFound {
                Finding::good("this kernel has no time namespaces").from(fact)
            } else {
                Finding::unknown("the time namespace cannot be read").from(fact)
            };
        }
    };
    let fact = Fact::new(shown(&text), OFFSETS);
    match timens_offsets(&text) {
        Some((0, 0)) => Finding::good("clocks since boot are the machine's own").from(fact),
        Some((monotonic, boottime)) => {
            let seconds = |ns: i128| format!("{:+.3} s", ns as f64 / 1e9);
            Finding::warning(format!(
                "a time namespace: MONOTONIC is shifted by {}, BOOTTIME by {}; their times mean nothing outside it",
                seconds(monotonic),
                seconds(boottime)
            ))
            .from(fact)
            .remedy("compare such times within the namespace only; between them, use REALTIME")
        }
        None => Finding::unknown("the time namespace's offsets are not understood").from(fact),
    }
}

/// As the kernel sets it, and what is more than that.
const SLACK_NS: u64 = 50_000;

/// How late timers may fire.
pub fn slack(facts: &Facts) -> Finding {
    let source = "prctl(PR_GET_TIMERSLACK)";
    match facts.measured.timer_slack_ns.get() {
        Ok(&ns) => {
            let fact = Fact::new(format!("{ns} ns"), source);
            if ns <= SLACK_NS {
                Finding::good(format!(
                    "timers may fire {} us late, as everywhere",
                    ns.div_ceil(1_000)
                ))
                .from(fact)
            } else {
                Finding::warning(format!(
                    "timers may fire {} late: somebody has asked for that",
                    price(ns as f64)
                ))
                .from(fact)
                .remedy("prctl(PR_SET_TIMERSLACK, 50000), or TimerSlackNSec= of the unit")
            }
        }
        Err(reason) => Finding::unknown(format!("the timer slack is not told: {reason}"))
            .from(Fact::missing(source, reason)),
    }
}
