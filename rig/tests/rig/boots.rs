//! Every clocksource that a kernel can be booted with, on one, two and four processors: whether the counter is fit is
//! the kernel's verdict, and readings are right whoever answers.

use crate::common::{CLOCKS, WAYS, each, guest, judge};
use clockwise_rig::Guest;

/// Words for the kernel, and the clocksource that it must then use; `None` where it may do as it finds.
const BOOTS: [(&str, Option<&str>); 8] = [
    ("clocksource=tsc", Some("tsc")),
    ("clocksource=hpet", Some("hpet")),
    ("clocksource=acpi_pm", Some("acpi_pm")),
    ("clocksource=jiffies", Some("jiffies")),
    ("tsc=unstable", Some("hpet")),
    ("notsc", Some("hpet")),
    ("vdso=0", None),
    ("nohpet", None),
];

/// Boots it, and checks what is said against what the kernel says.
fn check(guest: &Guest, is_invariant: bool, source: Option<&str>, what: &str) {
    let told = judge(guest, &["read=300", "note=end"]);
    told.holds(what);
    let (current, available) = told.sources("start");
    assert!(source.is_none_or(|source| source == current), "{what}: {current}");
    let unfit = match current {
        "tsc" => None,
        _ if !available.contains(&"tsc") => Some("Rejected"),
        "jiffies" => Some("Coarse"),
        _ if is_invariant => None,
        _ => Some("NotInvariant"),
    };
    for way in WAYS {
        for clock in CLOCKS {
            let status = told.note("end", way, clock);
            assert_eq!(status["unfit"].as_str(), unfit, "{what}: {way}, {clock}: {told:?}");
            let from_counter = told.end(way, clock)["from_counter"].as_u64();
            assert_eq!(from_counter > Some(0), unfit.is_none(), "{what}: {way}, {clock}: {told:?}");
        }
    }
}

fn check_all(processors: u32) {
    let Some(guest) = guest() else { return };
    each(BOOTS, |(words, source)| {
        let guest = guest.clone().processors(processors).boots_with(words);
        check(&guest, true, source, &format!("{words} on {processors}"));
    });
}

#[test]
fn the_kernels_verdict_is_followed_on_one_processor() {
    check_all(1);
}

#[test]
fn the_kernels_verdict_is_followed_on_two_processors() {
    check_all(2);
}

#[test]
fn the_kernels_verdict_is_followed_on_four_processors() {
    check_all(4);
}

#[test]
fn a_counter_that_promises_no_constant_rate_is_used_only_where_the_kernel_uses_it() {
    let Some(guest) = guest() else { return };
    each(["tsc", "hpet", "acpi_pm"], |source| {
        let guest = guest.clone().not_invariant().boots_with(&format!("clocksource={source}"));
        check(&guest, false, Some(source), &format!("{source}, no promise"));
    });
}
