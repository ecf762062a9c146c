//! The processor's counter: what is promised of it, and what is true.

use super::price;
use crate::doctor::facts::Facts;
use crate::doctor::finding::Finding;
use crate::doctor::parse::log::Event;
use crate::machine::Fact;
use crate::render::table::digits;

const CPUINFO: &str = "/proc/cpuinfo";

/// What the processor promises.
pub fn flags(facts: &Facts) -> Finding {
    let cpu = &facts.cpu;
    let told = cpu.flags.join(" ");
    let by_cpuid = facts.measured.processor.get().ok().and_then(|cpu| cpu.invariant);
    let evidence = |finding: Finding| {
        let fact = if told.is_empty() {
            Fact::missing(CPUINFO, "no flags of the counter")
        } else {
            Fact::new(told.clone(), CPUINFO)
        };
        finding.from(fact)
    };
    if cpu.is_arm {
        return Finding::good("ARM's counter is constant by the architecture")
            .from(Fact::new(cpu.model.clone().unwrap_or_else(|| "ARM".to_owned()), CPUINFO));
    }
    if let Some(flag) = cpu.uneven.iter().find(|flag| **flag != "hypervisor") {
        return evidence(Finding::warning(format!("the processors differ: only some have {flag}")))
            .from(Fact::new(cpu.uneven.join(" "), CPUINFO))
            .remedy(
                "update the firmware or its microcode; in a guest, give it processors of one kind",
            );
    }
    match cpu.is_invariant().or(by_cpuid) {
        Some(true) => {
            let known = if cpu.has("tsc_known_freq") { ", and its rate is told" } else { "" };
            evidence(Finding::good(format!(
                "the counter runs at one rate and does not stop{known}"
            )))
        }
        Some(false) => {
            let missing: Vec<&str> =
                ["constant_tsc", "nonstop_tsc"].into_iter().filter(|flag| !cpu.has(flag)).collect();
            let remedy = if facts.is_guest() {
                "ask the host to pass the invariant TSC on (QEMU: -cpu host,migratable=no,+invtsc)"
            } else {
                "nothing: the processor is too old; Clockwise's clocks follow the kernel's then"
            };
            let missing = missing.join(" or ");
            evidence(Finding::warning(format!(
                "the counter is not promised to be constant: no {missing}"
            )))
            .remedy(remedy)
        }
        None => {
            evidence(Finding::unknown("what the processor promises of its counter is not told"))
                .remedy("mount /proc")
        }
    }
}

/// The rate as it is claimed, and as measured.
pub fn frequency(facts: &Facts) -> Finding {
    let claims = claims(facts);
    let evidence = |finding: Finding| {
        finding.with(claims.iter().map(|(source, hz)| Fact::new(megahertz(*hz), *source)))
    };
    let rate = match facts.measured.rate.get() {
        Ok(rate) => rate,
        Err(reason) => {
            return evidence(Finding::unknown(format!(
                "the counter's rate was not measured: {reason}"
            )));
        }
    };
    let measured = megahertz(rate.counter_hz);
    let off = |hz: f64| (hz / rate.counter_hz - 1.0) * 1e6;
    let worst = claims.iter().max_by(|a, b| off(a.1).abs().total_cmp(&off(b.1).abs()));
    let finding = match worst {
        Some(&(source, hz)) if off(hz).abs() > 1_000.0 + rate.uncertainty_ppm => Finding::warning(format!(
            "the counter runs at {measured}; {source} claims {}, {:+.0} ppm off",
            megahertz(hz),
            off(hz)
        ))
        .remedy("believe the measurement; a program that takes the claim for the rate is wrong by that much"),
        Some(&(source, hz)) => Finding::good(format!(
            "{measured} against MONOTONIC_RAW, within {:.0} ppm of what {source} says",
            off(hz).abs().ceil()
        )),
        None => Finding::good(format!("{measured} against MONOTONIC_RAW; nobody claims another rate")),
    };
    let uncertainty = rate.uncertainty_ppm;
    evidence(finding.from(Facts::measurement(format!("{measured} ±{uncertainty:.2} ppm"))))
}

/// Who claims what, in hertz.
fn claims(facts: &Facts) -> Vec<(&'static str, f64)> {
    let mut claims = Vec::new();
    if let Some(hz) = facts.measured.processor.get().ok().and_then(|cpu| cpu.claimed_hz) {
        claims.push(("CPUID", hz as f64));
    }
    let path = "/sys/devices/system/cpu/cpu0/tsc_freq_khz";
    let khz = facts.tree.word(path).and_then(|text| text.parse::<u64>().ok());
    if let Some(khz) = khz.filter(|&khz| khz > 0) {
        claims.push((path, khz as f64 * 1e3));
    }
    let refined = facts.last(|event| matches!(event, Event::Refined(_)));
    let logged = refined.or_else(|| facts.last(|event| matches!(event, Event::Detected(_))));
    if let Some((Event::Refined(mhz) | Event::Detected(mhz), _)) = logged {
        claims.push((facts.log_source(), mhz * 1e6));
    }
    claims
}

fn megahertz(hz: f64) -> String {
    format!("{:.3} MHz", hz / 1e6)
}

/// Whether the firmware has written to the counters.
pub fn adjust(facts: &Facts) -> Finding {
    let remedy = "update the firmware: it must leave the counters alone, also when it resumes";
    if let Some((_, line)) = facts.last(|event| *event == Event::Warp) {
        return Finding::warning("processors' counters disagreed when they were started")
            .from(facts.logged(line))
            .remedy(remedy);
    }
    if let Some((_, line)) = facts.last(|event| *event == Event::Adjusted) {
        let count = facts.count(|event| *event == Event::Adjusted);
        return Finding::warning(format!(
            "the firmware has changed the counters; the kernel put it right ({count} times)"
        ))
        .from(facts.logged(line))
        .remedy(remedy);
    }
    if facts.cpu.is_arm {
        return Finding::good("ARM's counters cannot be set apart");
    }
    match &facts.log {
        Ok(log) if log.from_boot => {
            let flag = match facts.cpu.has("tsc_adjust") {
                true => "the kernel watches for it (tsc_adjust)",
                false => "though the processor would not show it (no tsc_adjust)",
            };
            Finding::good(format!("no sign that the firmware has changed the counters; {flag}"))
                .from(facts.log_state())
        }
        Ok(_) => Finding::unknown("the log of the boot, which would tell, is overwritten")
            .from(facts.log_state())
            .remedy("look for TSC ADJUST in journalctl -k -b; tsc/sync is the proof"),
        Err(_) => Finding::unknown("the kernel's log, which would tell, cannot be read")
            .from(facts.log_state())
            .remedy("tsc/sync is the proof")
            .root_adds(facts.log_as_root()),
    }
}

/// Readings that must be handed over before anything is said.
const ENOUGH: u64 = 1_000;

/// Whether the processors' counters agree.
pub fn sync(facts: &Facts) -> Finding {
    let sync = match facts.measured.sync.get() {
        Ok(sync) => sync,
        Err(reason) => {
            return Finding::unknown(format!(
                "whether the counters agree was not measured: {reason}"
            ));
        }
    };
    if sync.processors < 2 {
        return Finding::good(
            "this process may use one processor only: there is nothing to agree with",
        );
    }
    let of = if sync.pairs == 1 {
        "the pair of processors".to_owned()
    } else if sync.tried == sync.pairs {
        format!("all {} pairs of {} processors", sync.pairs, sync.processors)
    } else {
        format!("{} of {} pairs of {} processors", sync.tried, sync.pairs, sync.processors)
    };
    let fact = Facts::measurement(format!(
        "{of}: {} readings handed over, {} followed by an older one",
        sync.handed_over, sync.violations
    ));
    if sync.violations > 0 {
        let hz = facts.measured.rate.get().ok().map(|rate| rate.counter_hz);
        let by = match hz {
            Some(hz) => format!("{} ns", digits(sync.worst_ticks as f64 / hz * 1e9)),
            None => format!("{} ticks", sync.worst_ticks),
        };
        return Finding::bad(format!("the processors' counters disagree, by up to {by}: time can go back between threads"))
            .from(fact)
            .remedy("have the kernel use another clocksource (hpet), and update the firmware or move the guest");
    }
    if sync.handed_over < ENOUGH {
        return Finding::unknown("too few readings were handed over to say whether the counters agree: the machine is busy")
            .from(fact)
            .remedy("run it again when the machine is idle");
    }
    let pairs = if sync.pairs == 1 { "the pair of processors".to_owned() } else { of };
    let offset = match sync.offset_ns.zip(sync.offset_error_ns) {
        Some((ns, error)) => format!("; they differ by {ns:.0} ns at most (±{error:.0})"),
        None => String::new(),
    };
    Finding::good(format!(
        "no reading was older than one handed over before it, on {pairs}{offset}"
    ))
    .from(fact)
}

/// Whether this process may read the counter.
pub fn allowed(facts: &Facts) -> Finding {
    let source = "prctl(PR_GET_TSC)";
    match facts.measured.counter_allowed.get() {
        Ok(true) => Finding::good("this process may read the counter").from(Fact::new("PR_TSC_ENABLE", source)),
        Ok(false) => Finding::bad(
            "the counter is forbidden in this process: a program that reads it is killed, and so is one that reads the \
             clock through the vDSO where the clocksource is the counter",
        )
        .from(Fact::new("PR_TSC_SIGSEGV", source))
        .remedy("whoever started it must allow it: prctl(PR_SET_TSC, PR_TSC_ENABLE)"),
        Err(reason) if facts.cpu.is_arm || reason == "EINVAL" => {
            Finding::good("this processor or kernel has no switch that forbids the counter").from(Fact::missing(source, reason))
        }
        Err(reason) => Finding::unknown(format!("whether the counter may be read is not told: {reason}"))
            .from(Fact::missing(source, reason)),
    }
}

/// A counter that takes longer is not read by the processor.
const TRAP_NS: f64 = 300.0;

/// Whether reading the counter or CPUID goes to the hypervisor.
pub fn traps(facts: &Facts) -> Finding {
    let prices = match facts.measured.prices.get() {
        Ok(prices) => prices,
        Err(reason) => {
            return Finding::unknown(format!("what instructions cost was not measured: {reason}"));
        }
    };
    let Some(counter_ns) = prices.counter_ns else {
        return Finding::unknown("there is no counter that may be read: see tsc/allowed");
    };
    let counter = price(counter_ns);
    let cpuid = prices.cpuid_ns.map(|ns| format!("; cpuid {}", price(ns))).unwrap_or_default();
    let fact = Facts::measurement(format!("counter {counter}{cpuid}"));
    if counter_ns > TRAP_NS {
        return Finding::bad(format!("reading the counter takes {counter}: it goes to the hypervisor"))
            .from(fact)
            .remedy("ask the host not to intercept rdtsc (TSC scaling or offsetting), or to run the guest where the rate is its own");
    }
    match prices.cpuid_ns {
        Some(ns) if ns > TRAP_NS => Finding::good(format!(
            "reading the counter costs {counter}; cpuid goes to the hypervisor ({}), as in any guest: nothing to measure with",
            price(ns)
        ))
        .from(fact),
        _ => Finding::good(format!("reading the counter costs {counter}, without the hypervisor")).from(fact),
    }
}
