//! What a reading costs beside the kernel's, counted in instructions, which are the same in each run: ratios within one guest.
//!
//! An instruction that reads a device counts as one here, and is hundreds on a machine: the kernel's side is told too cheap.
//! `cargo bench -p clockwise-rig` measures the same by the emulator's own time.

use crate::common::{CLOCKS, COUNTED, WAYS, each, guest, prices};

/// The system call, at least, in hundredths of a reading. What the library is for is ten times; the image has C's calls to
/// answer (60 instructions, with those of the loop around it) and comes to seven.
const GAIN_MIN: [(&str, u64); 2] = [("library", 1_000), ("image", 650)];

/// A reading, at most, in hundredths of libc's own. The aim is 110, which is kept by time.
const LOSS_MAX: [(&str, u64); 2] = [("library", 115), ("image", 113)];

/// Prices for each way and clock: ours, libc's, the system call's. Whether the counter is used is checked.
fn check(words: &[&str], is_fit: bool, limit: impl Fn(&str, [u64; 3]) -> bool + Sync) {
    let Some(guest) = guest() else { return };
    each(words, |words| {
        let told = prices(&guest.clone().boots_with(words).options(&COUNTED), "5");
        for (way, clock) in WAYS.into_iter().flat_map(|way| CLOCKS.map(|clock| (way, clock))) {
            let unfit = &told.note("end", way, clock)["unfit"];
            assert_eq!(unfit.is_null(), is_fit, "{words}: {way}, {clock}: {unfit}");
            let prices = told.price(way, clock);
            assert!(limit(way, prices), "{words}: {way}, {clock}: {prices:?} ps");
        }
    });
}

fn of(limits: [(&str, u64); 2], way: &str) -> u64 {
    limits.into_iter().find(|(name, _)| *name == way).expect("a limit for each way").1
}

#[test]
fn where_the_kernel_does_not_use_a_sound_counter_a_reading_costs_a_fraction_of_the_call() {
    let words = [
        "clocksource=hpet tsc=reliable",
        "clocksource=acpi_pm tsc=reliable",
        "vdso=0 clocksource=tsc tsc=reliable",
    ];
    check(&words, true, |way, [ours, _, call]| call * 100 >= ours * of(GAIN_MIN, way));
}

#[test]
fn where_the_kernel_has_rejected_the_counter_asking_us_adds_little() {
    let words = ["tsc=unstable", "notsc", "nohpet notsc"];
    check(&words, false, |way, [ours, libcs, _]| ours * 100 <= libcs * of(LOSS_MAX, way));
}
