//! What the tool says where a machine was booted with a slow clock, with next to nothing mounted.
//!
//! Prices in a guest are those of the emulation: of what is measured, only what differs by a factor is looked at.

use crate::common::Said;
use serde_json::Value;

/// What it found of that name.
pub fn finding<'a>(report: &'a Value, name: &str) -> &'a Value {
    let mut checks = report["checks"].as_array().expect("there are checks").iter();
    let found = checks.find(|check| check["check"] == name);
    found.unwrap_or_else(|| panic!("no {name}: {report:#}"))
}

/// The cause is named, and what to do: `booted` begins with the word that the kernel was booted with.
pub fn doctor_is_right((report, status): Said, booted: &str, is_slow: bool) {
    let word = booted.split_once(' ').map_or(booted, |(word, _)| word);
    let source = finding(&report, "clocksource/current");
    if !is_slow {
        let names = ["clocksource/current", "clocksource/log", "vdso/mapped", "clockwise/fit"];
        for name in names.into_iter().filter(|&name| name != "clocksource/log" || word != "nohpet")
        {
            let found = finding(&report, name);
            assert_eq!(found["verdict"], "good", "{booted}: {found:#}");
        }
        // A fresh machine knows no time daemon, and no leap seconds.
        for name in ["ntp/sync", "ntp/tai"] {
            assert_eq!(finding(&report, name)["verdict"], "warning", "{booted}: {report:#}");
        }
        return;
    }
    assert_eq!(status, 1, "{booted}: {report:#}");
    let (found, instead) = match word {
        "vdso=0" => (finding(&report, "vdso/mapped"), "there is no vDSO"),
        "clocksource=acpi_pm" | "nohpet" => (source, "acpi_pm instead of the TSC"),
        "clocksource=jiffies" => (source, "jiffies instead of the TSC"),
        _ => (source, "hpet instead of the TSC"),
    };
    assert_eq!(found["verdict"], "bad", "{booted}: {found:#}");
    let [says, remedy] =
        ["says", "remedy"].map(|field| found[field].as_str().unwrap_or_default().to_owned());
    assert!(says.contains(instead), "{booted}: {found:#}");
    // Without one of its timers to measure the counter by, the kernel may have left the counter of its own accord.
    let is_told = word != "nohpet";
    let cause = format!("the kernel was told so at the boot ({word})");
    assert!(!is_told || says.contains(&cause), "{booted}: {found:#}");
    let begins = if is_told { format!("boot without {word}") } else { String::new() };
    assert!(!remedy.is_empty() && remedy.starts_with(&begins), "{booted}: {found:#}");
}

/// An answer for a stretch of time to 0.1 ms: ours where that is many times cheaper, the system's where ours asks it.
pub fn choice_is_right((report, status): &Said, booted: &str, current: &str, is_ours: bool) {
    let candidates = report["candidates"].as_array().expect("there are candidates");
    if current == "jiffies" {
        assert_eq!((*status, &report["choice"]), (1, &Value::Null), "{booted}: {report:#}");
        let monotonic = candidates.iter().find(|one| one["name"] == "CLOCK_MONOTONIC");
        let fails = monotonic.expect("it is one of them")["fails"].to_string();
        assert!(fails.contains("4 ms"), "{booted}: {fails}");
        return;
    }
    assert_eq!(*status, 0, "{booted}: {report:#}");
    let choice = candidates.iter().find(|one| one["name"] == report["choice"]);
    let by = choice.expect("it is one of them")["by"].as_str().unwrap_or_default();
    match by {
        "system" => assert!(!is_ours, "{booted}: {choice:#?}"),
        _ => assert!(is_ours || current == "tsc", "{booted}: {choice:#?}"),
    }
}
