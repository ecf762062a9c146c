//! Every clocksource that a kernel can be booted with, on one, two and four processors: whether the counter is fit is
//! the kernel's verdict, readings are right whoever answers, and the tool gives the advice that it should.

use crate::advice;
use crate::common::{CLOCKS, COUNTED, WAYS, each, guest, judge, judge_and_advise};
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
    let (told, doctor, choose) = judge_and_advise(guest, &["read=300", "note=end"]);
    told.holds(what);
    let (current, available) = told.sources("start");
    assert!(source.is_none_or(|source| source == current), "{what}: {current}");
    // The words were understood.
    assert_eq!(told.machine("start")["has_vdso"] == false, what.starts_with("vdso=0"), "{told:?}");
    assert_eq!(!available.contains(&"hpet"), what.starts_with("nohpet"), "{what}: {told:?}");
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
    let is_slow = current != "tsc" || what.starts_with("vdso=0");
    advice::doctor_is_right(doctor, what, is_slow);
    advice::choice_is_right(&choose, what, current, unfit.is_none() && is_slow);
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
        check(&guest, false, Some(source), &format!("clocksource={source} without a promise"));
    });
}

#[test]
fn processors_whose_counters_nobody_vouches_for_are_the_cause_where_they_are() {
    let Some(guest) = guest() else { return };
    let (told, (report, status), _) =
        judge_and_advise(&guest.not_invariant().processors(2), &["read=300"]);
    told.holds("two processors without a promise");
    // From Linux 6.12 on the kernel keeps it all the same, if its processors agree.
    if told.sources("start").0 == "tsc" {
        let found = advice::finding(&report, "clocksource/current");
        return assert_eq!(found["verdict"], "good", "{found:#}");
    }
    assert_eq!(status, 1, "{report:#}");
    let found = advice::finding(&report, "clocksource/current");
    let says = found["says"].as_str().unwrap_or_default();
    assert!(says.contains("nothing promises the kernel"), "{found:#}");
    assert!(found["evidence"].to_string().contains("TSCs unsynchronized"), "{found:#}");
    assert!(found["remedy"].as_str().unwrap_or_default().contains("+invtsc"), "{found:#}");
    assert_eq!(advice::finding(&report, "tsc/flags")["verdict"], "warning", "{report:#}");
}

/// The kernel reads its counter at a rate of its first guess for a second or two, then changes to one that it has measured, and
/// forgets what it was told until then. Time is counted here: a machine that is slow to boot would be past it.
#[test]
fn a_program_that_starts_before_the_kernel_knows_its_counter_is_not_disturbed() {
    let Some(guest) = guest() else { return };
    let guest = guest.boots_with("tsc=reliable").options(&COUNTED).unsettled();
    let told = judge(&guest, &["read=100", "note=early", "await=tsc", "read=300", "note=end"]);
    told.holds("early");
    let sources = ["start", "early", "end"].map(|note| told.sources(note).0);
    assert_eq!(sources, ["tsc-early", "tsc-early", "tsc"], "{told:?}");
    for (way, clock) in WAYS.into_iter().flat_map(|way| CLOCKS.map(|clock| (way, clock))) {
        for note in ["early", "end"] {
            let status = told.note(note, way, clock);
            assert!(status["unfit"].is_null(), "{note}: {way}, {clock}: {told:?}");
            assert_eq!(status["distrusts"], 0, "{note}: {way}, {clock}: {told:?}");
        }
        // The rate was taken anew, also of the clock that nobody steers.
        let slews = told.note("end", way, clock)["slews"].as_u64();
        assert!(slews >= Some(1), "{way}, {clock}: {told:?}");
        let from_counter = told.end(way, clock)["from_counter"].as_u64();
        assert!(from_counter > Some(0), "{way}, {clock}: {told:?}");
    }
}
