//! Why the kernel does not use the counter, and what to do about it.

use crate::doctor::facts::Facts;
use crate::doctor::parse::log::Event;
use crate::machine::Fact;

/// A reason, its evidence, and the remedy.
pub struct Cause {
    /// In a clause.
    pub why: String,
    /// Where that was read.
    pub evidence: Vec<Fact>,
    /// What to do.
    pub remedy: String,
    /// What root would add.
    pub as_root: Option<&'static str>,
}

impl Cause {
    fn new(why: impl Into<String>, evidence: Fact, remedy: impl Into<String>) -> Self {
        Self { why: why.into(), evidence: vec![evidence], remedy: remedy.into(), as_root: None }
    }
}

/// What has the kernel use the counter again, where it is on the list.
pub const SWITCH: &str = "as root: echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource; for good: boot with \
     clocksource=tsc";

/// Why `current` is used and the TSC is not.
pub fn of(facts: &Facts, current: &str) -> Cause {
    let boot = &facts.boot;
    let is_listed = facts.available().iter().any(|name| name == "tsc");
    if let Some(word) = boot.against_tsc() {
        let remedy = format!(
            "boot without {word}, unless it was given because the counter is known to be wrong here"
        );
        return Cause::new(
            format!("the kernel was told so at the boot ({word})"),
            facts.asked_for(word),
            remedy,
        );
    }
    if is_listed && boot.clocksource.as_deref() == Some(current) {
        let word = format!("clocksource={current}");
        return Cause::new(
            format!("the kernel was told so at the boot ({word})"),
            facts.asked_for(&word),
            format!("boot without {word}; until then, {SWITCH}"),
        );
    }
    if let Some(cause) = logged(facts) {
        return cause;
    }
    if is_listed {
        return Cause {
            why: "the TSC could be used, but another was chosen after the boot, or is preferred by this kernel".to_owned(),
            evidence: Vec::new(),
            remedy: SWITCH.to_owned(),
            as_root: None,
        };
    }
    unlogged(facts)
}

/// What the log says.
fn logged(facts: &Facts) -> Option<Cause> {
    let is_guest = facts.is_guest();
    let unstable = facts.last(|event| matches!(event, Event::Unstable(_)));
    let reason = match unstable {
        Some((Event::Unstable(reason), _)) => reason.as_str(),
        _ => "",
    };
    let line = |kind: fn(&Event) -> bool| facts.last(kind).map(|(_, line)| facts.logged(line));
    let skewed = line(|event| matches!(event, Event::Skewed(name) if name.starts_with("tsc")));
    let delayed = line(|event| *event == Event::ReadBack);
    let warped = line(|event| *event == Event::Warp);
    let cause = if reason.contains("watchdog") || skewed.is_some() || delayed.is_some() {
        let (why, remedy) = match (skewed.is_none() && delayed.is_some(), is_guest) {
            (true, _) => (
                "the kernel's watchdog gave the TSC up because comparing it took too long: an overloaded or a nested host",
                "if the counter is sound (tsc/flags, tsc/sync), boot with tsc=reliable, or with another watchdog: nohpet",
            ),
            (false, true) => (
                "the kernel's watchdog found the TSC to go differently from the other clock: in a guest often the other \
                 clock's fault, or a host that was overloaded or moved the guest",
                "if the host's own clocksource is tsc and it passes the invariant TSC on, boot with tsc=reliable",
            ),
            (false, false) => (
                "the kernel's watchdog found the TSC to go differently from the other clock",
                "update the firmware; if both clocks agree with the network over hours (ntp/rate), the watchdog was \
                 wrong: boot with tsc=nowatchdog",
            ),
        };
        Cause {
            why: why.to_owned(),
            evidence: Vec::new(),
            remedy: remedy.to_owned(),
            as_root: None,
        }
    } else if warped.is_some() || reason.contains("check_tsc_sync") {
        Cause {
            why: "the processors' counters disagreed at the boot".to_owned(),
            evidence: Vec::new(),
            remedy: "update the firmware, which has to start all counters at once".to_owned(),
            as_root: None,
        }
    } else if reason.starts_with("running on Hyper-V") {
        Cause {
            why: "this kernel leaves the TSC to the host on Hyper-V, which may change its rate".to_owned(),
            evidence: Vec::new(),
            remedy: "none needed: the host's clock is fast too; a newer kernel (5.15) on a newer host (Windows Server \
                     2022) uses the TSC"
                .to_owned(),
            as_root: None,
        }
    } else if reason.contains("unsynchronized") {
        let remedy = if is_guest {
            "ask the host to pass the invariant TSC on (QEMU: -cpu host,migratable=no,+invtsc)"
        } else {
            "nothing: counters of several sockets, or of this processor, are not one counter"
        };
        Cause {
            why: "nothing promises the kernel that the processors' counters are one".to_owned(),
            evidence: Vec::new(),
            remedy: remedy.to_owned(),
            as_root: None,
        }
    } else if reason.contains("halts in") {
        Cause {
            why: "the counter stops when a processor sleeps".to_owned(),
            evidence: Vec::new(),
            remedy:
                "forbid deep sleep (processor.max_cstate=1), or live with it: the processor is old"
                    .to_owned(),
            as_root: None,
        }
    } else if !reason.is_empty() {
        Cause {
            why: format!("the kernel gave the TSC up: {reason}"),
            evidence: Vec::new(),
            remedy: "see the kernel's log around that line".to_owned(),
            as_root: None,
        }
    } else {
        return None;
    };
    let unstable = unstable.map(|(_, line)| facts.logged(line));
    let evidence: Vec<Fact> = [skewed, delayed, warped, unstable].into_iter().flatten().collect();
    Some(Cause { evidence, ..cause })
}

/// What is likely, where the log says nothing.
fn unlogged(facts: &Facts) -> Cause {
    let (is_guest, state) = (facts.is_guest(), facts.log_state());
    let (why, remedy) = match (facts.cpu.is_invariant(), is_guest) {
        (Some(false), true) => (
            "the processor, as the host shows it, does not promise a constant counter",
            "ask the host to pass the invariant TSC on (QEMU: -cpu host,migratable=no,+invtsc)",
        ),
        (Some(false), false) => {
            ("the processor does not promise a constant counter", "nothing: it is too old for that")
        }
        _ => (
            "the kernel does not offer the TSC, and the reason is not in what can be read of its log",
            "look for `tsc` and `clocksource` in the log of the boot (journalctl -k -b)",
        ),
    };
    let flags = match facts.cpu.flags.join(" ") {
        flags if flags.is_empty() => Fact::missing("/proc/cpuinfo", "no flags of the counter"),
        flags => Fact::new(flags, "/proc/cpuinfo"),
    };
    Cause {
        why: why.to_owned(),
        evidence: vec![flags, state],
        remedy: remedy.to_owned(),
        as_root: facts.log_as_root(),
    }
}
