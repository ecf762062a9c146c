//! The same on aarch64: counters of the rates that there are, whatever happens to the kernel's clock and to the machine, and
//! a long life.
//!
//! QEMU counts in whole nanoseconds, so that what calls itself 24 MHz is 24.39 (a tick in 41 ns). All clocks of a guest rest
//! on it alike; only one outside would show it, and there is none here.

use crate::common::{CLOCKS, Told, WAYS, arm_guest, each, judge};
use crate::outside::behind_board_s;
use crate::{events, long};
use clockwise_rig::{Act, Guest};

/// In the order of age: of telephones, of computers with Apple's processors, of QEMU, and by Armv8.6 of all.
const RATES_HZ: [u64; 4] = [19_200_000, 24_000_000, 62_500_000, 1_000_000_000];

/// A kernel that does not guard against its processor: in an emulator the guards make a system call ten times dearer, and
/// what a reading is compared with as much wider.
const UNGUARDED: &str = "kpti=off mitigations=off";

/// A guest with such a counter.
#[track_caller]
fn guest(hertz: u64, processors: u32) -> Option<Guest> {
    let guest = arm_guest()?.counts(hertz).processors(processors);
    Some(guest.boots_with(UNGUARDED))
}

fn pairs() -> impl Iterator<Item = (&'static str, &'static str)> {
    WAYS.into_iter().flat_map(|way| CLOCKS.map(|clock| (way, clock)))
}

/// Whether there is time for all combinations (`rig/matrix`).
fn is_thorough() -> bool {
    std::env::var_os("CLOCKWISE_RIG_THOROUGH").is_some()
}

/// At that note each clock is trusted, and it is read from the counter; which goes as fast as it says.
#[track_caller]
fn check_fit(told: &Told, note: &str, hertz: u64) {
    let mut rates_hz = vec![];
    for (way, clock) in pairs() {
        let status = told.note(note, way, clock);
        assert!(status["unfit"].is_null(), "{note}: {way}, {clock}: {told:?}");
        let from_counter = told.end(way, clock)["from_counter"].as_u64();
        assert!(from_counter > Some(0), "{note}: {way}, {clock}: {told:?}");
        // None while there is no line.
        rates_hz.extend(status["frequency_hz"].as_u64().filter(|rate_hz| *rate_hz > 0));
    }
    rates_hz.sort_unstable();
    let rate_hz = rates_hz[rates_hz.len() / 2];
    assert!(rate_hz.abs_diff(hertz) < hertz / 1_000, "{note}: {rate_hz} for {hertz}: {told:?}");
}

#[test]
fn a_counter_of_any_rate_is_fit_on_any_number_of_processors() {
    let each_number = |hertz| [1, 2, 4].map(|processors| (hertz, processors));
    each(RATES_HZ.into_iter().flat_map(each_number), |(hertz, processors)| {
        let Some(guest) = guest(hertz, processors) else { return };
        let told = judge(&guest, &["read=300", "note=end"]);
        told.holds(&format!("{hertz} Hz on {processors}"));
        assert_eq!(told.sources("start").0, "arch_sys_counter", "{told:?}");
        check_fit(&told, "end", hertz);
    });
}

#[test]
fn a_kernel_that_guards_against_its_processor_is_followed_too() {
    let Some(guest) = arm_guest() else { return };
    let told = judge(&guest.processors(2), &["read=1500", "note=end"]);
    told.holds("guarded");
    check_fit(&told, "end", 62_500_000);
}

#[test]
fn a_kernel_on_arm_that_counts_its_own_ticks_answers_itself() {
    let Some(guest) = guest(19_200_000, 1) else { return };
    let told = judge(&guest.boots_with("clocksource=jiffies"), &["read=300", "note=end"]);
    told.holds("jiffies");
    for (way, clock) in pairs() {
        assert_eq!(told.note("end", way, clock)["unfit"], "Coarse", "{way}, {clock}: {told:?}");
        assert_eq!(told.end(way, clock)["from_counter"], 0, "{way}, {clock}: {told:?}");
    }
}

#[test]
fn a_clock_that_breaks_a_law_is_caught_on_arm() {
    let Some(guest) = guest(24_000_000, 2) else { return };
    events::faults(&guest);
}

#[test]
fn a_wall_clock_that_is_stepped_is_followed_on_arm() {
    let Some(guest) = guest(19_200_000, 4) else { return };
    events::steps(&guest);
}

#[test]
fn a_clock_that_is_steered_is_followed_on_arm() {
    let Some(guest) = guest(24_000_000, 1) else { return };
    each([events::slews, events::ticks], |steered| steered(&guest));
}

#[test]
fn leap_seconds_and_late_dates_are_followed_on_arm() {
    let Some(guest) = guest(62_500_000, 1) else { return };
    each([("leap=1", -1_000), ("leap=-1", 1_000)], |(act, step_ms)| {
        events::leap(&guest, act, step_ms);
    });
    events::dates(&guest);
}

#[test]
fn hours_pass_on_arm_without_drift_or_overflow() {
    let (rates_hz, hours) = if is_thorough() { (&RATES_HZ[..], 24) } else { (&RATES_HZ[3..], 6) };
    each(rates_hz, |hertz| {
        let Some(guest) = guest(*hertz, 1) else { return };
        long::life(&guest, hours);
    });
}

/// The counter and all clocks rest on one time of QEMU's. It stands still while the machine is stopped, goes on while QEMU is
/// frozen and while the guest sleeps (idle: there is no deeper sleep here), and comes back with a saved state, as all memory
/// does: nothing is to be noticed of any of it.
#[test]
fn a_machine_on_arm_that_is_stopped_frozen_brought_back_and_put_to_sleep_goes_on() {
    let word = |word: &str| Act::Wait(format!("\"{word}\""));
    let monitor = |command: &str| Act::Monitor(command.to_owned());
    let script = [
        word("first"),
        Act::Sleep(300),
        monitor("stop"),
        Act::Sleep(3_000),
        monitor("cont"),
        word("second"),
        Act::Sleep(300),
        Act::Freeze(10_000),
        word("third"),
        Act::Sleep(300),
        monitor("savevm s"),
        Act::Sleep(2_000),
        monitor("loadvm s"),
    ];
    // Each is read for much longer than it takes: on a busy machine the script is late.
    let acts = [
        "read=200",
        "note=before",
        "say=first",
        "read=2000",
        "note=stopped",
        "say=second",
        "read=2000",
        "note=frozen",
        "say=third",
        "read=5000",
        "note=restored",
        "suspend=3",
        "read=300",
        "note=slept",
    ];
    let machines: Vec<_> = if is_thorough() {
        RATES_HZ.into_iter().flat_map(|hertz| [1, 2, 4].map(|number| (hertz, number))).collect()
    } else {
        vec![(19_200_000, 1)]
    };
    each(machines, |(hertz, processors)| {
        let Some(guest) = guest(hertz, processors) else { return };
        let told = judge(&guest.seconds(90).script(script.clone()), &acts);
        told.holds(&format!("{hertz} Hz on {processors}"));
        // All of it has happened.
        let lost_s = |from, to| behind_board_s(&told, to) - behind_board_s(&told, from);
        let [stopped_s, restored_s] = [lost_s("before", "stopped"), lost_s("frozen", "restored")];
        assert!(stopped_s >= 2, "it was not stopped: {stopped_s} s: {told:?}");
        assert!(restored_s >= 1, "it did not go back: {restored_s} s: {told:?}");
        assert!(told.gap_max_s() > 9.0, "the clocks do not jump: {told:?}");
        let slept_s = told.passed_s("MONOTONIC", "restored", "slept");
        assert!(slept_s > 1.5, "it slept for {slept_s} s: {told:?}");
        for note in ["stopped", "frozen", "restored", "slept"] {
            check_fit(&told, note, hertz);
            for (way, clock) in pairs() {
                let status = told.note(note, way, clock);
                for what in ["steps", "distrusts"] {
                    assert_eq!(status[what], 0, "{note}: {what}: {way}, {clock}: {told:?}");
                }
            }
        }
    });
}
