//! THE table of checks: its name, what it asks, what it needs, whether the whole depends on it.
//!
//! A check is a function from facts to a finding. It must never read or measure anything by itself.

mod cause;
mod clocksource;
mod clockwise;
mod machine;
mod ntp;
mod process;
mod tsc;
mod vdso;

use super::facts::Facts;
use super::finding::Finding;

/// What has to be asked or measured before, beyond the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// CPUID, which traps in a guest.
    Processor,
    /// What calls cost.
    Prices,
    /// Who spends the time of reading.
    Share,
    /// The rates of the counter and of the clocks.
    Rate,
    /// Whether processors agree.
    Sync,
    /// The steps of the coarse clock.
    Steps,
}

/// A row of the table.
pub struct Check {
    /// As `--only` takes it.
    pub name: &'static str,
    /// What it asks.
    pub about: &'static str,
    /// What it needs.
    pub needs: &'static [Need],
    /// Whether the whole cannot be told where this cannot.
    pub essential: bool,
    run: fn(&Facts) -> Finding,
}

impl Check {
    /// Asks.
    pub fn run(&self, facts: &Facts) -> Finding {
        let found = (self.run)(facts);
        Finding { check: self.name, essential: self.essential, ..found }.printable()
    }
}

const fn row(
    name: &'static str,
    about: &'static str,
    needs: &'static [Need],
    run: fn(&Facts) -> Finding,
) -> Check {
    Check { name, about, needs, essential: false, run }
}

/// The whole cannot be told without it.
const fn essential(mut check: Check) -> Check {
    check.essential = true;
    check
}

use Need::{Prices, Processor, Rate, Share, Steps, Sync};

/// A price: as many digits as mean something.
fn price(ns: f64) -> String {
    match ns {
        ..100.0 => format!("{ns:.1} ns"),
        100.0..2_000.0 => format!("{ns:.0} ns"),
        2_000.0..2e6 => format!("{:.1} us", ns / 1e3),
        _ => format!("{:.1} ms", ns / 1e6),
    }
}

/// All of them, in the order in which they are shown.
pub const TABLE: [Check; 27] = [
    essential(row(
        "clocksource/current",
        "which counter the kernel reads, and why not a better one",
        &[Processor],
        clocksource::current,
    )),
    row("clocksource/log", "what the kernel has complained of", &[], clocksource::log),
    row(
        "vdso/mapped",
        "whether programs have the kernel's code that reads clocks",
        &[],
        vdso::mapped,
    ),
    essential(row(
        "vdso/cost",
        "whether a read of the clock enters the kernel",
        &[Prices, Share],
        vdso::cost,
    )),
    row("vdso/libc", "whether the C library uses it", &[Prices], vdso::libc),
    row("tsc/flags", "what the processor promises of its counter", &[Processor], tsc::flags),
    row(
        "tsc/frequency",
        "the counter's rate as it is claimed, and as measured",
        &[Processor, Rate],
        tsc::frequency,
    ),
    row("tsc/adjust", "whether the firmware has tampered with the counters", &[], tsc::adjust),
    row("tsc/sync", "whether the processors' counters agree", &[Sync], tsc::sync),
    row("tsc/allowed", "whether this process may read the counter", &[], tsc::allowed),
    row(
        "tsc/traps",
        "whether reading the counter or CPUID goes to the hypervisor",
        &[Prices, Processor],
        tsc::traps,
    ),
    row("process/seccomp", "whether a filter refuses calls that tell time", &[], process::seccomp),
    row("process/tracer", "whether a debugger stops at every call", &[], process::tracer),
    row(
        "process/preload",
        "whether a library or another vDSO makes time up",
        &[],
        process::preload,
    ),
    row("process/timens", "whether clocks since boot are shifted", &[], process::timens),
    row("process/slack", "how late timers may fire", &[], process::slack),
    essential(row("ntp/sync", "whether somebody keeps the wall clock right", &[], ntp::sync)),
    row("ntp/leap", "whether a leap second is to come", &[], ntp::leap),
    row("ntp/tai", "whether CLOCK_TAI tells TAI", &[], ntp::tai),
    row("ntp/rate", "how much the clock's rate is corrected", &[Rate], ntp::rate),
    row("ntp/rtc", "how far the wall clock is from the hardware's", &[], ntp::rtc),
    row("machine/hypervisor", "what kind of machine it is", &[Processor], machine::hypervisor),
    row("machine/tick", "how fine coarse clocks and timers are", &[Steps], machine::tick),
    row(
        "machine/suspend",
        "whether it was suspended or moved since the boot",
        &[],
        machine::suspend,
    ),
    row("machine/cpus", "which processors may be used", &[], machine::cpus),
    row("machine/cgroup", "whether CPU time is rationed", &[], machine::cgroup),
    essential(row(
        "clockwise/fit",
        "whether Clockwise's clocks read the counter here",
        &[Processor],
        clockwise::fit,
    )),
];
