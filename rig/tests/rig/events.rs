//! What happens to the kernel's clock while four threads read it: it is set, steered, and put on another clocksource. What can
//! happen in any guest is a function of one.

use crate::common::{CLOCKS, ON_TSC, Told, WAYS, guest, judge, judge_these};
use clockwise_rig::Guest;

/// Those that a time daemon steers.
const STEERED: [&str; 4] = ["MONOTONIC", "REALTIME", "BOOTTIME", "TAI"];

/// Those that people set.
const SET: [&str; 2] = ["REALTIME", "TAI"];

/// The last steps of a clock, the newest first, to the millisecond.
fn steps_ms(told: &Told, way: &str, clock: &str) -> Vec<i64> {
    let status = &told.end(way, clock)["status"];
    let steps = status["last_steps_ns"].as_array().expect("a list");
    steps
        .iter()
        .map(|step| (step.as_i64().expect("a number") + 500_000).div_euclid(1_000_000))
        .collect()
}

/// So many of these it has had.
#[track_caller]
fn count(told: &Told, way: &str, clock: &str, what: &str) -> u64 {
    told.end(way, clock)["status"][what].as_u64().expect("a count")
}

#[test]
fn a_clock_that_breaks_a_law_is_caught() {
    let Some(guest) = guest() else { return };
    faults(&guest.boots_with(ON_TSC));
}

/// A subject that is wrong at times, and the laws that this breaks.
pub fn faults(guest: &Guest) {
    let told = judge_these(guest, &["wrong"], &["read=300", "step=1000000", "read=300"]);
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
    steps(&guest.processors(2).boots_with(ON_TSC));
}

pub fn steps(guest: &Guest) {
    // A millisecond, an hour, a billion seconds, back and forth; by the call that takes an offset, which is exact, and by
    // the one that takes a time, before which the thread that calls may wait.
    let steps = [
        ("setoffset=1000000", 1),
        ("setoffset=-1000000", -1),
        ("step=3600000000000", 3_600_000),
        ("step=-3600000000000", -3_600_000),
        ("step=1000000000000000000", 1_000_000_000_000),
        ("step=-1000000000000000000", -1_000_000_000_000),
        ("setoffset=250000000", 250),
        ("setoffset=-250000000", -250),
    ];
    let mut acts = vec!["read=200"];
    for act in steps.map(|(act, _)| act).into_iter().chain(["tai=37"]) {
        // On a busy machine a step is told of late: until then the kernel answers.
        acts.extend([act, "read=200"]);
    }
    let told = judge(guest, &acts);
    told.holds("steps");
    let mut expected = steps;
    expected.reverse();
    let are_steps = |found: &[i64], expected: &[(&str, i64)]| {
        let may_wait_ms = |act: &str| if act.starts_with("setoffset") { 0 } else { 200 };
        found.len() == expected.len()
            && (found.iter().zip(expected))
                .all(|(found, (act, step_ms))| (found - step_ms).abs() <= may_wait_ms(act))
    };
    for way in WAYS {
        let found = steps_ms(&told, way, "REALTIME");
        assert!(are_steps(&found, &expected), "{way}: {found:?}: {told:?}");
        // TAI was moved with it, and once more by itself; eight are kept.
        let found = steps_ms(&told, way, "TAI");
        assert_eq!(found[0], 37_000, "{way}: {told:?}");
        assert!(are_steps(&found[1..], &expected[..7]), "{way}: {found:?}: {told:?}");
        for clock in CLOCKS {
            let steps = if SET.contains(&clock) { expected.len() } else { 0 };
            let steps = steps as u64 + u64::from(clock == "TAI");
            assert_eq!(count(&told, way, clock, "steps"), steps, "{way}, {clock}: {told:?}");
            assert_eq!(count(&told, way, clock, "distrusts"), 0, "{way}, {clock}: {told:?}");
        }
    }
}

#[test]
fn a_clock_that_is_slewed_stays_within_its_bound() {
    let Some(guest) = guest() else { return };
    slews(&guest.processors(2).boots_with(ON_TSC));
}

pub fn slews(guest: &Guest) {
    // What is done, for how long, and by how many microseconds at least it puts the steered clocks ahead of the raw one
    // (or behind).
    let slews = [
        ("frequency=500", "read=400", 50),
        ("frequency=-500", "read=400", -50),
        ("frequency=0", "read=400", 0),
        ("adjtime=1000", "read=2500", 400),
        ("offset=1000", "read=2500", 60),
    ];
    let mut acts = vec!["read=200".to_owned(), "note=0".to_owned()];
    for (number, (act, read, _)) in slews.iter().enumerate() {
        acts.extend([(*act).to_owned(), (*read).to_owned(), format!("note={}", number + 1)]);
    }
    let acts: Vec<_> = acts.iter().map(String::as_str).collect();
    let told = judge(guest, &acts);
    told.holds("slews");
    for (number, (act, _, least_us)) in slews.into_iter().enumerate() {
        let [from, to] = [number, number + 1].map(|number| number.to_string());
        let [steered, raw] =
            ["MONOTONIC", "MONOTONIC_RAW"].map(|clock| told.passed_s(clock, &from, &to));
        let by_us = ((steered - raw) * 1e6) as i64;
        assert!(by_us * i64::signum(least_us) >= least_us.abs(), "{act}: {by_us} us: {told:?}");
        for (way, clock) in WAYS.into_iter().flat_map(|way| STEERED.map(|clock| (way, clock))) {
            // From one end of the range to the other, ours is too far ahead for a slew.
            let changes = |note| {
                let status = told.note(note, way, clock);
                let counts = ["slews", "aheads", "steps"].map(|what| status[what].as_u64());
                counts.into_iter().flatten().sum::<u64>()
            };
            assert!(changes(&to) > changes(&from), "{act}: {way}, {clock}: {told:?}");
        }
    }
    for way in WAYS {
        for clock in CLOCKS {
            assert_eq!(count(&told, way, clock, "distrusts"), 0, "{way}, {clock}: {told:?}");
        }
        for what in ["slews", "aheads", "steps"] {
            let changes = count(&told, way, "MONOTONIC_RAW", what);
            assert_eq!(changes, 0, "{what}: {way}: nobody steers it: {told:?}");
        }
    }
}

#[test]
fn another_length_of_the_kernels_tick_is_followed_without_distrust() {
    let Some(guest) = guest() else { return };
    ticks(&guest.processors(2).boots_with(ON_TSC));
}

/// A percent is ten times what a slew may be.
pub fn ticks(guest: &Guest) {
    let ticks = [10_000, 10_100, 10_000, 9_900, 11_000, 9_000, 10_000];
    let acts =
        ticks.map(|tick| [format!("tick={tick}"), "read=300".into(), format!("note={tick}")]);
    let acts: Vec<_> = acts.iter().flatten().map(String::as_str).collect();
    let told = judge(guest, &acts);
    told.holds("ticks");
    let mut are_told = 0;
    for (way, clock) in WAYS.into_iter().flat_map(|way| CLOCKS.map(|clock| (way, clock))) {
        let hz = |tick: i32| {
            let hz = &told.note(&tick.to_string(), way, clock)["frequency_hz"];
            hz.as_f64().expect("a frequency")
        };
        // None is told while there is no line.
        let told_of = ticks.into_iter().filter(|tick| hz(*tick) > 0.0 && hz(10_000) > 0.0);
        for tick in told_of {
            are_told += 1;
            // What the kernel makes of a second, against what it is as a rule, in ppm.
            let ppm = (hz(10_000) / hz(tick) - 1.0) * 1e6;
            let is_steered = STEERED.contains(&clock);
            let expected = if is_steered { f64::from(tick - 10_000) * 100.0 } else { 0.0 };
            assert!((ppm - expected).abs() < 700.0, "{tick}: {way}, {clock}: {ppm} ppm: {told:?}");
        }
        assert_eq!(count(&told, way, clock, "distrusts"), 0, "{way}, {clock}: {told:?}");
    }
    let all = WAYS.len() * CLOCKS.len() * ticks.len();
    assert!(2 * are_told > all, "{are_told} of {all}: {told:?}");
}

/// A leap second, by its act, and the step that it is.
pub fn leap(guest: &Guest, act: &str, step_ms: i64) {
    // Three seconds before the end of a day.
    let acts = ["read=200", "tai=37", "read=60", "set=1727999997", "read=200", act, "read=60"];
    let told = judge(guest, &acts);
    told.holds(act);
    for way in WAYS {
        assert_eq!(steps_ms(&told, way, "REALTIME")[0], step_ms, "{way}: {told:?}");
        assert_eq!(count(&told, way, "REALTIME", "distrusts"), 0, "{way}: {told:?}");
        // International atomic time knows no leap seconds.
        assert_eq!(count(&told, way, "TAI", "steps"), 2, "{way}: {told:?}");
        assert_eq!(count(&told, way, "REALTIME", "steps"), 2, "{way}: {told:?}");
        assert_eq!(count(&told, way, "MONOTONIC", "steps"), 0, "{way}: {told:?}");
    }
}

#[test]
fn a_leap_second_that_is_inserted_is_a_step_back() {
    let Some(guest) = guest() else { return };
    leap(&guest.processors(2).boots_with(ON_TSC), "leap=1", -1_000);
}

#[test]
fn a_leap_second_that_is_deleted_is_a_step_forth() {
    let Some(guest) = guest() else { return };
    leap(&guest.processors(2).boots_with(ON_TSC), "leap=-1", 1_000);
}

#[test]
fn the_ends_of_31_and_32_bits_pass_unnoticed() {
    let Some(guest) = guest() else { return };
    dates(&guest.processors(2).boots_with(ON_TSC));
}

pub fn dates(guest: &Guest) {
    // In January 2038, in February 2106, and as late as the kernel lets the clock be set.
    let acts = [
        "read=200",
        "set=2147483646",
        "read=3000",
        "note=2038",
        "set=4294967294",
        "read=3000",
        "note=2106",
        "set=8200000000",
        "read=500",
        "note=2229",
    ];
    let told = judge(guest, &acts);
    told.holds("late dates");
    for (note, second) in [("2038", 1i64 << 31), ("2106", 1 << 32), ("2229", 8_200_000_000)] {
        let time = told.machine(note)["times_ns"]["REALTIME"].as_i64();
        assert!(time >= Some(second * 1_000_000_000), "{note}: {told:?}");
    }
    for way in WAYS {
        assert_eq!(count(&told, way, "REALTIME", "steps"), 3, "{way}: {told:?}");
        assert_eq!(count(&told, way, "REALTIME", "distrusts"), 0, "{way}: {told:?}");
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
        "note=acpi_pm",
        "source=tsc",
        "read=11000",
        "note=tsc",
    ];
    let told = judge(&guest.boots_with(ON_TSC), &acts);
    told.holds("clocksources");
    for source in ["hpet", "acpi_pm", "tsc"] {
        assert_eq!(told.sources(source).0, source, "{told:?}");
    }
    let mut back = 0;
    for way in WAYS {
        for clock in CLOCKS {
            // The kernel became several times slower to read, which is all that can be seen of it without asking.
            let unfit = |note| told.note(note, way, clock)["unfit"].as_str();
            assert_eq!(unfit("hpet"), Some("KernelSlow"), "{way}, {clock}: {told:?}");
            assert!(count(&told, way, clock, "distrusts") >= 1, "{way}, {clock}: {told:?}");
            assert!(matches!(unfit("tsc"), None | Some("KernelSlow")), "{way}, {clock}: {told:?}");
            back += u32::from(unfit("tsc").is_none());
        }
    }
    // What reading the kernel costs is known by the cheapest reading so far, from which an emulator's vary by up to the
    // factor that tells a slow kernel: one clock in ten waits for 20 s more.
    assert!(back >= 7, "{back} of ten are trusted again: {told:?}");
}
