//! The machine around the clocks: its kind, its tick, its sleeps, its processors.

use crate::doctor::facts::Facts;
use crate::doctor::finding::Finding;
use crate::doctor::parse::log::Event;
use crate::doctor::parse::process::{cgroup_files, cpu_max, share, status_field, timens_offsets};
use crate::machine::{Fact, parse_cpu_list, words};
use crate::render::table::digits;

/// What hypervisors write into CPUID, and their names.
const SIGNATURES: [(&str, &str); 7] = [
    ("KVMKVMKVM", "KVM"),
    ("Microsoft Hv", "Hyper-V"),
    ("XenVMMXenVMM", "Xen"),
    ("VMwareVMware", "VMware"),
    ("TCGTCGTCGTCG", "QEMU without hardware support"),
    ("VBoxVBoxVBox", "VirtualBox"),
    ("bhyve bhyve", "bhyve"),
];

/// What kind of machine it is.
pub fn hypervisor(facts: &Facts) -> Finding {
    let release = "/proc/sys/kernel/osrelease";
    let vendor = "/sys/class/dmi/id/sys_vendor";
    let product = "/sys/class/dmi/id/product_name";
    let word = |path: &str| facts.tree.word(path);
    let by_cpuid = facts.measured.processor.get().ok().and_then(|cpu| cpu.hypervisor.clone());
    let by_log = facts.last(|event| matches!(event, Event::Hypervisor(_)));
    let by_sys = word("/sys/hypervisor/type");
    let evidence = [
        by_cpuid.clone().map(|name| Fact::new(name, "CPUID leaf 0x40000000")),
        by_sys.clone().map(|name| Fact::new(name, "/sys/hypervisor/type")),
        by_log.map(|(_, line)| facts.logged(line)),
        word(vendor).map(|name| Fact::new(name, vendor)),
        word(product).map(|name| Fact::new(name, product)),
        word(release).map(|name| Fact::new(name, release)),
    ];
    if facts.is_gvisor() {
        return Finding::good(
            "gVisor: a kernel in user space; reads that its vDSO does not answer are dear",
        )
        .with(word("/proc/version").map(|text| Fact::new(text, "/proc/version")))
        .with(evidence.into_iter().flatten());
    }
    let logged = match by_log {
        Some((Event::Hypervisor(name), _)) => Some(name.clone()),
        _ => None,
    };
    let is_wsl =
        word(release).is_some_and(|name| name.to_lowercase().contains("microsoft-standard"));
    let name = by_cpuid.or(by_sys).or(logged).map(|name| {
        let known = SIGNATURES.iter().find(|(signature, _)| *signature == name);
        known.map_or(name, |(_, name)| (*name).to_owned())
    });
    let host = match (word(vendor), word(product)) {
        (Some(vendor), _) if vendor.starts_with("Amazon") => Some("an Amazon EC2 instance"),
        (_, Some(product)) if product.starts_with("Google Compute") => {
            Some("a Google Compute Engine instance")
        }
        (Some(vendor), Some(product))
            if vendor.starts_with("Microsoft") && product.starts_with("Virtual") =>
        {
            Some("a Hyper-V or Azure guest")
        }
        _ if is_wsl => Some("WSL 2"),
        _ => None,
    };
    let says = match (name, host) {
        (Some(name), Some(host)) => format!("{host} ({name})"),
        (Some(name), None) => format!("a guest of {name}"),
        (None, Some(host)) => host.to_owned(),
        (None, None) if facts.is_guest() => "a guest of a hypervisor that gives no name".to_owned(),
        (None, None) if facts.cpu == Default::default() => {
            return Finding::unknown("what kind of machine this is cannot be read")
                .with(evidence.into_iter().flatten())
                .remedy("mount /proc and /sys");
        }
        (None, None) => "no hypervisor that shows itself".to_owned(),
    };
    Finding::good(says).with(evidence.into_iter().flatten())
}

/// How fine coarse clocks and timers are.
pub fn tick(facts: &Facts) -> Finding {
    let steps = match facts.measured.steps.get() {
        Ok(steps) => steps,
        Err(reason) => return Finding::unknown(format!("the tick was not measured: {reason}")),
    };
    let ms = |ns: u64| (ns as f64 / 1e3).round() / 1e3;
    let told = Fact::new(
        format!("MONOTONIC_COARSE {} ns, MONOTONIC {} ns", steps.tick_ns, steps.fine_ns),
        "clock_getres(2)",
    );
    let seen = match steps.seen_ns {
        Some(ns) => Facts::measurement(format!("coarse clocks step by {} ms", ms(ns))),
        None => Fact::missing("measured", "no step of the coarse clock was seen"),
    };
    let evidence = |finding: Finding| finding.from(told.clone()).from(seen.clone());
    if steps.fine_ns > 1_000_000 {
        let words = facts.boot.low_resolution.as_deref();
        let remedy = match words {
            Some(word) => format!("boot without {word}"),
            None => "see clocksource/current: the kernel needs a finer clocksource".to_owned(),
        };
        return evidence(Finding::bad(format!(
            "clocks and timers go in steps of {} ms: there are no high-resolution timers",
            ms(steps.fine_ns)
        )))
        .with(words.map(|word| facts.asked_for(word)))
        .remedy(remedy);
    }
    let hertz = 1_000_000_000u64.checked_div(steps.tick_ns).unwrap_or(0);
    if steps.seen_ns.is_some_and(|ns| ns > steps.tick_ns.max(1).saturating_mul(3)) {
        return evidence(Finding::warning(format!("{hertz} ticks a second are configured, but coarse clocks step by {} ms: ticks are lost", ms(steps.seen_ns.unwrap_or(0)))))
            .remedy("the host is overloaded, or gives the guest's timers too late: measure again when it is idle");
    }
    evidence(Finding::good(format!(
        "{hertz} ticks a second: coarse clocks step by {} ms, others by the nanosecond",
        ms(steps.tick_ns)
    )))
}

/// Whether it was suspended or moved since the boot.
pub fn suspend(facts: &Facts) -> Finding {
    let clocks = match facts.measured.clocks.get() {
        Ok(clocks) => clocks,
        Err(reason) => return Finding::unknown(format!("the clocks were not read: {reason}")),
    };
    let offsets = facts.tree.text("/proc/self/timens_offsets").ok();
    let (monotonic, boottime) = offsets.and_then(|text| timens_offsets(&text)).unwrap_or((0, 0));
    let apart_ns =
        i128::from(clocks.boottime_ns) - i128::from(clocks.monotonic_ns) - boottime + monotonic;
    let fact = Fact::new(format!("{:.3} s", apart_ns as f64 / 1e9), "BOOTTIME - MONOTONIC");
    let wakes = facts.count(|event| *event == Event::Suspended);
    let logged =
        (wakes > 0).then(|| Fact::new(format!("resumed {wakes} times"), facts.log_source()));
    let finding = if apart_ns.unsigned_abs() < 1_000_000 {
        Finding::good(
            "never suspended since the boot, as far as the clocks tell; a guest that its host stops or moves does not see it",
        )
    } else if apart_ns > 0 {
        Finding::good(format!(
            "suspended for {} s since the boot: MONOTONIC does not count that, BOOTTIME does",
            digits(apart_ns as f64 / 1e9)
        ))
        .remedy("for deadlines that are to count sleep, use BOOTTIME")
    } else {
        Finding::warning(
            "BOOTTIME is behind MONOTONIC, which cannot be: one of them is shifted or made up",
        )
        .remedy("see process/timens and process/preload")
    };
    finding.from(fact).with(logged)
}

/// Which processors may be used.
pub fn cpus(facts: &Facts) -> Finding {
    let status = facts.tree.text("/proc/self/status").unwrap_or_default();
    let list = |text: &str| parse_cpu_list(text.trim()).ok();
    let allowed = status_field(&status, "Cpus_allowed_list");
    let online = facts.tree.word("/sys/devices/system/cpu/online");
    let isolated = facts.tree.word("/sys/devices/system/cpu/isolated");
    let evidence = [
        allowed.map(|list| Fact::new(list, "/proc/self/status: Cpus_allowed_list")),
        online.clone().map(|list| Fact::new(list, "/sys/devices/system/cpu/online")),
        isolated.map(|list| Fact::new(list, "/sys/devices/system/cpu/isolated")),
        facts
            .tree
            .word("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
            .map(|word| Fact::new(word, "scaling_governor")),
    ];
    let Some(may) = allowed.and_then(list) else {
        return Finding::unknown("which processors this process may use is not told")
            .remedy("mount /proc");
    };
    let online = online.as_deref().and_then(list).map(|cpus| cpus.len()).filter(|&count| count > 0);
    let online = online.or(Some(facts.cpu.processors).filter(|&count| count > 0));
    let count =
        may.iter().filter(|&&cpu| online.is_none_or(|online| cpu < online.max(1) * 64)).count();
    // The mask may name processors that the machine does not have.
    let count = online.map_or(count, |online| count.min(online));
    let finding = match online {
        Some(online) if count < online => Finding::good(format!(
            "this process may use {count} of {online} processors: what is measured is of those"
        )),
        _ if count == 1 => Finding::good("one processor"),
        _ => Finding::good(format!("all {count} processors")),
    };
    finding.with(evidence.into_iter().flatten())
}

/// Whether CPU time is rationed.
pub fn cgroup(facts: &Facts) -> Finding {
    let text = |path: &str| facts.tree.text(path);
    let own = match text("/proc/self/cgroup") {
        Ok(own) => own,
        Err(error) => {
            return Finding::good("there are no control groups")
                .from(Fact::missing("/proc/self/cgroup", words(&error)));
        }
    };
    let mounts = text("/proc/self/mountinfo").unwrap_or_default();
    let files = cgroup_files(&own, &mounts, ["cpu.max", "cpu.cfs_quota_us"]);
    let read = files.iter().find_map(|path| Some((path, facts.tree.word(path)?)));
    let Some((path, value)) = read else {
        return Finding::good("no limit on CPU time is to be seen").from(Fact::missing(
            files.first().map_or("/proc/self/mountinfo", String::as_str),
            "no such limit",
        ));
    };
    let quota = match path.strip_suffix("cpu.cfs_quota_us") {
        Some(folder) => {
            let period = facts.tree.word(&format!("{folder}cpu.cfs_period_us"));
            period.and_then(|period| share(&value, &period))
        }
        None => cpu_max(&value),
    };
    let fact = Fact::new(value.clone(), path.as_str());
    match quota {
        None => Finding::good("no limit on CPU time").from(fact),
        Some(processors) => {
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            let stat = facts.tree.word(&format!("{folder}/cpu.stat")).unwrap_or_default();
            let throttled = stat.split_once("nr_throttled ").map(|(_, rest)| rest);
            let throttled = throttled.and_then(|rest| rest.split_whitespace().next());
            Finding::warning(format!(
                "CPU time is rationed to {} processors: when it is used up, all threads stop for up to 0.1 s",
                (processors * 100.0).round() / 100.0
            ))
            .from(fact)
            .with(throttled.map(|count| Fact::new(format!("nr_throttled {count}"), format!("{folder}/cpu.stat"))))
            .remedy("measure without the limit (docker run without --cpus, a pod without limits.cpu), or long enough")
        }
    }
}
