//! What a reading costs beside the kernel's, counted in instructions, which are the same in each run: ratios within one guest.
//!
//! An instruction that reads a device counts as one here, and is hundreds on a machine: the kernel's side is told too cheap.
//! `cargo bench -p clockwise-rig` measures the same by the emulator's own time.

use crate::common::{CLOCKS, COUNTED, WAYS, each, guest, prices};

/// The system call, at least, in hundredths of a reading. What the library is for is ten times, which it comes to with all
/// kernels but 5.10, whose call is the shortest (354 instructions; 405 with 6.1). The image has C's calls to answer, and
/// comes to six.
const GAIN_MIN: [(&str, u64); 2] = [("library", 980), ("image", 580)];

/// A reading, at most, with the loop around it: in thousandths of an instruction.
const PRICE_MAX: [(&str, u64); 2] = [("library", 36_500), ("image", 60_500)];

/// By how much it may be dearer than libc's own where the kernel answers: in thousandths of an instruction, of the 437 to
/// 543 that libc's own takes. The aim is a tenth, which is kept by time.
const LOSS_MAX: [(&str, u64); 2] = [("library", 72_000), ("image", 56_000)];

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
    check(&words, true, |way, [ours, _, call]| {
        ours <= of(PRICE_MAX, way) && call * 100 >= ours * of(GAIN_MIN, way)
    });
}

#[test]
fn where_the_kernel_has_rejected_the_counter_asking_us_adds_little() {
    let words = ["tsc=unstable", "notsc", "nohpet notsc"];
    check(&words, false, |way, [ours, libcs, _]| ours <= libcs + of(LOSS_MAX, way));
}
