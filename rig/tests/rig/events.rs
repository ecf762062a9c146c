//! What happens to the kernel's clock while four threads read it: it is set, steered, and put on another clocksource.

use crate::common::{CLOCKS, ON_TSC, Told, WAYS, guest, judge, judge_these};

/// The last steps of a clock, the newest first, to the millisecond.
fn steps_ms(told: &Told, way: &str, clock: &str) -> Vec<i64> {
    let status = &told.end(way, clock)["status"];
    let steps = status["last_steps_ns"].as_array().expect("a list");
    steps
        .iter()
        .map(|step| (step.as_i64().expect("a number") + 500_000).div_euclid(1_000_000))
        .collect()
}

#[track_caller]
fn count(told: &Told, way: &str, clock: &str, what: &str) -> u64 {
    told.end(way, clock)["status"][what].as_u64().expect("a count")
}

#[test]
fn a_clock_that_breaks_a_law_is_caught() {
    let Some(guest) = guest() else { return };
    let told = judge_these(
        &guest.boots_with(ON_TSC),
        &["wrong"],
        &["read=300", "step=1000000", "read=300"],
    );
    for law in [
        "went back in a thread",
        "older than a reading that had been seen",
        "further from the kernel",
    ] {
        assert!(told.broken().any(|words| words.contains(law)), "{law}: {told:?}");
    }
}

#[test]
fn a_wall_clock_that_is_stepped_is_followed_and_no_other_clock_moves() {
    let Some(guest) = guest() else { return };
    // A millisecond, an hour, a billion seconds, back and forth; by both calls.
    let steps_ms = [1, -1, 3_600_000, -3_600_000, 1_000_000_000_000, -1_000_000_000_000];
    let mut acts = vec!["read=200".to_owned()];
    for step_ms in steps_ms {
        acts.extend([format!("step={}", i128::from(step_ms) * 1_000_000), "read=60".to_owned()]);
    }
    for act in
        ["setoffset=250000000", "read=60", "setoffset=-250000000", "read=60", "tai=37", "read=60"]
    {
        acts.push(act.to_owned());
    }
    let acts: Vec<_> = acts.iter().map(String::as_str).collect();
    let told = judge(&guest.boots_with(ON_TSC), &acts);
    told.holds("steps");
    let mut expected: Vec<i64> = steps_ms.into_iter().chain([250, -250]).collect();
    expected.reverse();
    for way in WAYS {
        assert_eq!(self::steps_ms(&told, way, "REALTIME"), expected, "{way}: {told:?}");
        // TAI was moved with it, and once more by itself; eight are kept.
        let moved: Vec<_> = [37_000].into_iter().chain(expected.iter().copied()).take(8).collect();
        assert_eq!(self::steps_ms(&told, way, "TAI"), moved, "{way}: {told:?}");
        for clock in ["MONOTONIC", "BOOTTIME", "MONOTONIC_RAW"] {
            assert_eq!(count(&told, way, clock, "steps"), 0, "{way}, {clock}: {told:?}");
        }
    }
}

#[test]
fn a_clock_that_is_slewed_stays_within_its_bound() {
    let Some(guest) = guest() else { return };
    let acts = [
        "read=200",
        "frequency=500",
        "read=200",
        "frequency=-500",
        "read=200",
        "frequency=0",
        "read=200",
        "adjtime=1000",
        "read=2500",
        "offset=1000",
        "read=2500",
    ];
    let told = judge(&guest.boots_with(ON_TSC), &acts);
    told.holds("slews");
    for way in WAYS {
        for clock in ["MONOTONIC", "REALTIME", "BOOTTIME", "TAI"] {
            assert!(count(&told, way, clock, "slews") >= 3, "{way}, {clock}: {told:?}");
            assert_eq!(count(&told, way, clock, "distrusts"), 0, "{way}, {clock}: {told:?}");
        }
        assert_eq!(
            count(&told, way, "MONOTONIC_RAW", "slews"),
            0,
            "{way}: nobody steers it: {told:?}"
        );
    }
}

fn leap(act: &str, step_ms: i64) {
    let Some(guest) = guest() else { return };
    // Three seconds before the end of a day.
    let acts = ["read=200", "tai=37", "read=60", "set=1727999997", "read=200", act, "read=60"];
    let told = judge(&guest.boots_with(ON_TSC), &acts);
    told.holds(act);
    for way in WAYS {
        assert_eq!(steps_ms(&told, way, "REALTIME")[0], step_ms, "{way}: {told:?}");
        // International atomic time knows no leap seconds.
        assert_eq!(count(&told, way, "TAI", "steps"), 2, "{way}: {told:?}");
        assert_eq!(count(&told, way, "REALTIME", "steps"), 2, "{way}: {told:?}");
        assert_eq!(count(&told, way, "MONOTONIC", "steps"), 0, "{way}: {told:?}");
    }
}

#[test]
fn a_leap_second_that_is_inserted_is_a_step_back() {
    leap("leap=1", -1_000);
}

#[test]
fn a_leap_second_that_is_deleted_is_a_step_forth() {
    leap("leap=-1", 1_000);
}

#[test]
fn the_ends_of_31_and_32_bits_pass_unnoticed() {
    let Some(guest) = guest() else { return };
    // In January 2038, in February 2106, and as late as the kernel lets the clock be set.
    let acts = [
        "read=200",
        "set=2147483646",
        "read=3000",
        "set=4294967294",
        "read=3000",
        "set=8200000000",
        "read=500",
    ];
    let told = judge(&guest.boots_with(ON_TSC), &acts);
    told.holds("late dates");
    for way in WAYS {
        assert_eq!(count(&told, way, "REALTIME", "steps"), 3, "{way}: {told:?}");
    }
}

#[test]
fn another_clocksource_costs_trust_for_a_while_and_none_breaks_a_law() {
    let Some(guest) = guest() else { return };
    let acts = [
        "read=200",
        "source=hpet",
        "read=500",
        "note=hpet",
        "source=acpi_pm",
        "read=500",
        "source=tsc",
        "read=11000",
        "note=tsc",
    ];
    let told = judge(&guest.boots_with(ON_TSC), &acts);
    told.holds("clocksources");
    let mut back = 0;
    for way in WAYS {
        for clock in CLOCKS {
            // The kernel became several times slower to read, which is all that can be seen of it without asking.
            let unfit = |note| told.note(note, way, clock)["unfit"].as_str();
            assert_eq!(unfit("hpet"), Some("KernelSlow"), "{way}, {clock}: {told:?}");
            assert!(matches!(unfit("tsc"), None | Some("KernelSlow")), "{way}, {clock}: {told:?}");
            back += u32::from(unfit("tsc").is_none());
        }
    }
    // What reading the kernel costs is known by the cheapest reading so far, from which an emulator's vary by up to the
    // factor that tells a slow kernel: one clock in ten waits for 20 s more.
    assert!(back >= 7, "{back} of ten are trusted again: {told:?}");
}
