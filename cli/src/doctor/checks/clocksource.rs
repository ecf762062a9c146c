//! Which counter the kernel reads, and what it says of that.

use super::cause::{self, SWITCH};
use crate::doctor::facts::{AVAILABLE, CURRENT, Facts};
use crate::doctor::finding::Finding;
use crate::doctor::parse::log::Event;

/// How the kernel's vDSO stands to a clocksource.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// The processor's own counter: programs read it themselves.
    Counter,
    /// The host's, computed from the counter in the vDSO.
    Paravirtual,
    /// Xen's, which older kernels do not give to the vDSO, nor newer ones where the host does not vouch for it.
    Xen,
    /// A device: each read of a clock enters the kernel, and waits for it.
    Device,
    /// The kernel's own ticks.
    Ticks,
}

/// The clocksources that are known, from the kernel's drivers.
const KNOWN: [(&str, Kind); 15] = [
    ("tsc", Kind::Counter),
    ("tsc-early", Kind::Counter),
    ("arch_sys_counter", Kind::Counter),
    ("timebase", Kind::Counter),
    ("tod", Kind::Counter),
    ("riscv_clocksource", Kind::Counter),
    ("kvm-clock", Kind::Paravirtual),
    ("hyperv_clocksource_tsc_page", Kind::Paravirtual),
    ("xen", Kind::Xen),
    ("hpet", Kind::Device),
    ("acpi_pm", Kind::Device),
    ("hyperv_clocksource_msr", Kind::Device),
    ("pit", Kind::Device),
    ("jiffies", Kind::Ticks),
    ("refined-jiffies", Kind::Ticks),
];

/// Which counter the kernel reads.
pub fn current(facts: &Facts) -> Finding {
    let evidence = [CURRENT, AVAILABLE].map(|path| facts.tree.fact(path));
    let Some(current) = facts.current() else {
        let why = evidence[0].reason.clone().unwrap_or_else(|| "it is empty".to_owned());
        let remedy = if facts.is_gvisor() {
            "none: gVisor has no clocksource to show; vdso/cost tells whether clocks are fast"
        } else {
            "mount /sys; vdso/cost tells whether clocks are fast all the same"
        };
        return Finding::unknown(format!("the kernel's clocksource cannot be read: {why}"))
            .with(evidence)
            .remedy(remedy);
    };
    let is_listed = facts.available().iter().any(|name| name == "tsc");
    let known = KNOWN.iter().find(|(name, _)| *name == current);
    let finding = match known.map(|(_, kind)| *kind) {
        Some(Kind::Counter) if current == "tsc-early" => {
            Finding::good("tsc-early: the processor's counter, in the first second after the boot")
        }
        Some(Kind::Counter) => {
            Finding::good(format!("{current}: the processor's counter, which programs read themselves"))
        }
        Some(Kind::Paravirtual) if is_listed && facts.cpu.is_invariant() == Some(true) => {
            Finding::good(format!("{current}: the host's clock, which programs read themselves; the TSC would cost less"))
                .remedy(format!("to gain some nanoseconds a read: {SWITCH}"))
        }
        Some(Kind::Paravirtual) => {
            Finding::good(format!("{current}: the host's clock, which programs read themselves"))
        }
        Some(Kind::Xen) => {
            let cause = cause::of(facts, &current);
            Finding::warning(format!(
                "xen: the host's clock; where the kernel does not give it to the vDSO, each read is a system call (vdso/cost \
                 tells). Reason: {}",
                cause.why
            ))
            .with(cause.evidence)
            .remedy(cause.remedy)
        }
        Some(kind @ (Kind::Device | Kind::Ticks)) => slow(facts, &current, kind),
        None => Finding::warning(format!("{current}: not known here; vdso/cost tells whether it is fast"))
            .remedy("if it is not, see whether available_clocksource has a better one"),
    };
    // What was read comes first, then what explains it.
    let mut finding = finding;
    finding.evidence.splice(..0, evidence);
    finding
}

fn slow(facts: &Facts, current: &str, kind: Kind) -> Finding {
    let cause = cause::of(facts, current);
    let what = match kind {
        Kind::Ticks => "time moves in steps of milliseconds",
        _ => "each read of a clock enters the kernel and waits for a device",
    };
    Finding::bad(format!("{current} instead of the TSC: {what}. Reason: {}", cause.why))
        .with(cause.evidence)
        .remedy(cause.remedy)
        .root_adds(cause.as_root)
}

/// What the kernel has complained of.
pub fn log(facts: &Facts) -> Finding {
    // What was asked for at the boot, or is so by design, is no complaint.
    let is_meant =
        |reason: &str| reason.contains("boot parameter") || reason.starts_with("running on");
    let is_complaint = |event: &Event| match event {
        Event::Skewed(_) | Event::ReadBack | Event::Refused => true,
        Event::Unstable(reason) => !is_meant(reason),
        _ => false,
    };
    if let Some((_, line)) = facts.last(is_complaint) {
        let times = match facts.count(is_complaint) {
            1 => "once".to_owned(),
            count => format!("{count} times; the last time"),
        };
        let switched = facts.last(|event| matches!(event, Event::Switched(_)));
        let is_used = facts.current().is_some_and(|name| name.starts_with("tsc"));
        return Finding::warning(format!(
            "the kernel has complained of a clocksource {times}: {line}"
        ))
        .from(facts.logged(line))
        .with(switched.map(|(_, line)| facts.logged(line)))
        .remedy(if is_used {
            "the TSC is in use all the same: watch whether it is given up later"
        } else {
            "see clocksource/current"
        });
    }
    match &facts.log {
        Ok(log) if log.from_boot => {
            Finding::good("no complaint of a clocksource since the boot").from(facts.log_state())
        }
        Ok(_) => Finding::good("no complaint of a clocksource in what is left of the log")
            .from(facts.log_state()),
        Err(_) => Finding::unknown("the kernel's log cannot be read")
            .from(facts.log_state())
            .remedy(facts.log_remedy())
            .root_adds(
                (facts.is_root == Some(false)).then_some("what the kernel has complained of"),
            ),
    }
}
