//! What happens to the machine itself while its programs read the time: it is stopped, frozen, saved and brought back, put
//! to sleep, and its counter is found wanting.

use crate::common::{CLOCKS, Told, WAYS, each, guest, judge, say};
use clockwise_rig::Act;

const SOURCES: [&str; 3] = [
    "clocksource=tsc tsc=reliable",
    "clocksource=hpet tsc=reliable",
    "clocksource=acpi_pm tsc=reliable",
];

fn pairs() -> impl Iterator<Item = (&'static str, &'static str)> {
    WAYS.into_iter().flat_map(|way| CLOCKS.map(|clock| (way, clock)))
}

fn monitor(command: &str) -> Act {
    Act::Monitor(command.to_owned())
}

/// Reads, lets it happen, reads on; the same on each of the clocksources.
fn survives(what: &str, sources: &[&str], happens: &[Act]) -> Vec<Told> {
    survives_until(what, sources, happens, "read=3000")
}

/// The same, where the guest itself tells when it is over.
fn survives_until(what: &str, sources: &[&str], happens: &[Act], over: &str) -> Vec<Told> {
    let Some(guest) = guest() else { return vec![] };
    let script = [Act::Wait("ready".to_owned()), Act::Sleep(300)];
    let guest = guest.seconds(90).script(script.into_iter().chain(happens.to_vec()));
    each(sources, |words| {
        let guest = guest.clone().boots_with(words);
        let acts =
            ["read=200", "note=before", "say=ready", over, "read=300", "note=after", "read=300"];
        let told = judge(&guest, &acts);
        // Linux 7.3, from its 24-bit counter after longer than that holds.
        if what == "freeze" && words.contains("acpi_pm") && told.kernel_went_back() {
            say(
                "not judged: frozen on acpi_pm, this kernel's own MONOTONIC went back, and ours with it",
            );
        } else {
            told.holds(&format!("{what}, {words}"));
        }
        told
    })
}

/// By how many seconds the kernel's clock was behind the counter at the last step.
fn step_s(told: &Told, note: &str, way: &str, clock: &str) -> f64 {
    let steps = &told.note(note, way, clock)["last_steps_ns"];
    steps[0].as_i64().map_or(0.0, |step_ns| -step_ns as f64 / 1e9)
}

/// By how many seconds the clock on the board, which goes on, was ahead of the kernel's at that note.
pub fn behind_board_s(told: &Told, note: &str) -> i64 {
    let machine = told.machine(note);
    let [board_s, wall_ns] = [&machine["board_s"], &machine["times_ns"]["REALTIME"]]
        .map(|number| number.as_i64().expect("a time"));
    board_s - wall_ns / 1_000_000_000
}

#[test]
fn a_machine_that_is_stopped_and_goes_on_notices_nothing() {
    for told in survives("stop", &SOURCES, &[monitor("stop"), Act::Sleep(5_000), monitor("cont")]) {
        let lost_s = behind_board_s(&told, "after") - behind_board_s(&told, "before");
        assert!((4..=6).contains(&lost_s), "it was not stopped: {lost_s} s: {told:?}");
        for (way, clock) in pairs() {
            let status = told.note("after", way, clock);
            for what in ["steps", "distrusts"] {
                assert_eq!(status[what], 0, "{what}: {way}, {clock}: {told:?}");
            }
            assert!(status["unfit"].is_null(), "{way}, {clock}: {told:?}");
        }
    }
}

/// On acpi_pm the kernel's clock loses what its counter of 24 bits does not hold (4.7 s); the counter goes on.
#[test]
fn a_machine_that_is_frozen_for_ten_seconds_jumps_with_the_kernel() {
    let all = survives("freeze", &SOURCES, &[Act::Freeze(10_000)]);
    for (told, steps) in all.iter().zip([0, 0, 1]) {
        assert!(told.gap_max_s() > 9.0 || steps > 0, "the kernel's clocks jump: {told:?}");
        if told.kernel_went_back() {
            continue;
        }
        for (way, clock) in pairs() {
            let status = told.note("after", way, clock);
            assert_eq!(status["steps"], steps, "{way}, {clock}: {told:?}");
            let wraps = step_s(told, "after", way, clock) * 3_579_545.0 / f64::from(1 << 24);
            // Two, where the host lets it go on in time.
            let is_whole = (wraps - wraps.round()).abs() < 0.02;
            assert!(is_whole && (wraps > 1.9) == (steps > 0), "{way}, {clock}: {wraps}: {told:?}");
            assert_eq!(status["distrusts"], 0, "{way}, {clock}: {told:?}");
            assert!(status["unfit"].is_null(), "{way}, {clock}: {told:?}");
        }
    }
}

#[test]
fn a_machine_that_is_brought_back_to_a_saved_state_goes_on_from_there() {
    let happens = [monitor("savevm s"), Act::Sleep(2_000), monitor("loadvm s")];
    // The counter goes on as if nothing had been saved; of the kernel's clocks only those that rest on it.
    for (told, steps) in survives("snapshot", &SOURCES[..2], &happens).iter().zip([0u32, 1]) {
        assert!(told.gap_max_s() > 1.5 || steps > 0, "the kernel's clocks jump: {told:?}");
        let mut stepped = 0;
        for (way, clock) in pairs() {
            let status = told.note("after", way, clock);
            let found = status["steps"].as_u64().expect("a count") as u32;
            assert!(found <= steps, "{way}, {clock}: {told:?}");
            stepped += found;
            // As long as the state had been saved.
            let (step_s, lost_s) = (step_s(told, "after", way, clock), 2.0 * f64::from(found));
            assert!((step_s - lost_s).abs() < 0.5, "{way}, {clock}: {step_s} s: {told:?}");
            assert_eq!(status["distrusts"], 0, "{way}, {clock}: {told:?}");
            assert!(status["unfit"].is_null(), "{way}, {clock}: {told:?}");
        }
        // A clock that was saved while it had no rate begins with one: that is no step.
        assert!(stepped >= 7 * steps, "{stepped} of ten: {told:?}");
    }
}

#[test]
fn a_counter_that_the_kernel_gives_up_while_the_program_runs_is_given_up() {
    // Without the word that the counter is reliable, the jump of a state that is brought back at once is held against it.
    let happens = [Act::Sleep(700), monitor("savevm s"), Act::Sleep(300), monitor("loadvm s")];
    // The change to hpet is the kernel's own, which loses a tenth of a millisecond of its time in it.
    for told in survives_until("unstable", &["clocksource=tsc"], &happens, "await=hpet") {
        let (current, available) = told.sources("after");
        assert!(current != "tsc" && !available.contains(&"tsc"), "the kernel trusts it: {told:?}");
        for (way, clock) in pairs() {
            let unfit = told.note("after", way, clock)["unfit"].as_str();
            assert_eq!(unfit, Some("KernelSlow"), "{way}, {clock}: {told:?}");
            let distrusts = told.note("after", way, clock)["distrusts"].as_u64();
            assert!(distrusts >= Some(1), "{way}, {clock}: {told:?}");
        }
    }
}

#[test]
fn a_machine_that_slept_goes_on_where_the_kernel_does() {
    let Some(guest) = guest() else { return };
    each(SOURCES, |words| {
        let guest = guest.clone().boots_with(words).seconds(90);
        let acts = ["read=200", "note=before", "suspend=4", "read=300", "note=after"];
        let told = judge(&guest, &acts);
        told.holds(&format!("sleep, {words}"));
        let [awake_s, all_s] =
            ["MONOTONIC", "BOOTTIME"].map(|clock| told.passed_s(clock, "before", "after"));
        assert!(awake_s < 2.0 && all_s > awake_s + 2.0, "{awake_s} of {all_s} s: {told:?}");
        for way in WAYS {
            // The counter went on through the sleep, and these stood still.
            for clock in ["MONOTONIC", "MONOTONIC_RAW"] {
                assert_eq!(told.note("after", way, clock)["steps"], 1, "{way}, {clock}: {told:?}");
                let step_s = step_s(&told, "after", way, clock);
                assert!(step_s > 2.0, "{way}, {clock}: {step_s} s: {told:?}");
            }
            assert!(told.note("after", way, "BOOTTIME")["unfit"].is_null(), "{way}: {told:?}");
        }
    });
}
