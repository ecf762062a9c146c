//! What `clockwise doctor` says where a machine was booted with a slow clock, with next to nothing mounted.
//!
//! Prices in a guest are those of the emulation: nothing is asked of what is measured.

use crate::common::{ON_TSC, doctor, each, guest};
use serde_json::Value;

fn finding<'a>(report: &'a Value, name: &str) -> &'a Value {
    let mut checks = report["checks"].as_array().expect("there are checks").iter();
    let found = checks.find(|check| check["check"] == name);
    found.unwrap_or_else(|| panic!("no {name}: {report:#}"))
}

#[test]
fn a_slow_clock_is_found_with_its_cause_and_its_remedy() {
    let Some(guest) = guest() else { return };
    let boots = [
        ("clocksource=hpet", "clocksource/current", "hpet instead of the TSC"),
        ("clocksource=acpi_pm", "clocksource/current", "acpi_pm instead of the TSC"),
        ("clocksource=jiffies", "clocksource/current", "jiffies instead of the TSC"),
        ("tsc=unstable", "clocksource/current", "hpet instead of the TSC"),
        ("notsc", "clocksource/current", "hpet instead of the TSC"),
        ("vdso=0", "vdso/mapped", "there is no vDSO"),
    ];
    for processors in [1, 2] {
        each(boots, |(words, check, part)| {
            let (report, status) = doctor(&guest.clone().processors(processors).boots_with(words));
            assert_eq!(status, 1, "{words}: {report:#}");
            let found = finding(&report, check);
            assert_eq!(found["verdict"], "bad", "{words}: {found:#}");
            let says = found["says"].as_str().unwrap_or_default();
            let cause = format!("the kernel was told so at the boot ({words})");
            assert!(says.contains(part) && says.contains(&cause), "{words}: {found:#}");
            let remedy = found["remedy"].as_str().unwrap_or_default();
            assert!(remedy.starts_with(&format!("boot without {words}")), "{words}: {found:#}");
        });
    }
}

#[test]
fn processors_whose_counters_nobody_vouches_for_are_the_cause_where_they_are() {
    let Some(guest) = guest() else { return };
    let (report, status) = doctor(&guest.not_invariant().processors(2));
    assert_eq!(status, 1, "{report:#}");
    let found = finding(&report, "clocksource/current");
    let says = found["says"].as_str().unwrap_or_default();
    assert!(says.contains("nothing promises the kernel"), "{found:#}");
    assert!(found["evidence"].to_string().contains("TSCs unsynchronized"), "{found:#}");
    assert!(found["remedy"].as_str().unwrap_or_default().contains("+invtsc"), "{found:#}");
    assert_eq!(finding(&report, "tsc/flags")["verdict"], "warning", "{report:#}");
}

#[test]
fn a_clock_that_is_fast_is_called_so() {
    let Some(guest) = guest() else { return };
    for processors in [1, 2] {
        let (report, _) = doctor(&guest.clone().processors(processors).boots_with(ON_TSC));
        for name in [
            "clocksource/current",
            "clocksource/log",
            "vdso/mapped",
            "tsc/flags",
            "tsc/allowed",
            "clockwise/fit",
        ] {
            let found = finding(&report, name);
            assert_eq!(found["verdict"], "good", "{found:#}");
        }
        // A fresh machine knows no time daemon, and no leap seconds.
        assert_eq!(finding(&report, "ntp/sync")["verdict"], "warning", "{report:#}");
        assert_eq!(finding(&report, "ntp/tai")["verdict"], "warning", "{report:#}");
    }
}
