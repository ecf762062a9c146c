//! What a reading costs beside libc's and beside the system call, by the time of an emulated machine: ratios within one guest.
//!
//! Prints a table; fails where the counter is not used though the kernel trusts it. Must never be taken for a machine's
//! prices: what an emulator makes of an instruction is its own, and a loop that happens to cross a page costs it 20 ns more.

#[expect(dead_code, reason = "the tests need more of it")]
#[path = "../tests/rig/common.rs"]
mod common;

use common::{CLOCKS, WAYS, guest, prices};
use std::io::Write;

const BOOTS: [&str; 6] = [
    "clocksource=hpet tsc=reliable",
    "clocksource=acpi_pm tsc=reliable",
    "vdso=0 clocksource=tsc tsc=reliable",
    "tsc=unstable",
    "notsc",
    "nohpet notsc",
];

fn main() {
    let Some(guest) = guest() else { return };
    let mut out = std::io::stdout().lock();
    let head = ["ours ns", "libc ns", "call ns", "call/ours", "ours/libc"];
    let head: String = head.iter().map(|word| format!("{word:>10}")).collect();
    let _ = writeln!(out, "{:37}{:9}{:14}{head}", "boot", "way", "clock");
    for words in BOOTS {
        let told = prices(&guest.clone().boots_with(words), "60");
        for (way, clock) in WAYS.into_iter().flat_map(|way| CLOCKS.map(|clock| (way, clock))) {
            let [ours, libcs, call] = told.price(way, clock).map(|picos| picos as f64 / 1_000.0);
            let unfit = told.note("end", way, clock)["unfit"].as_str().unwrap_or_default();
            let _ = writeln!(
                out,
                "{words:37}{way:9}{clock:14}{ours:10.1}{libcs:10.1}{call:10.1}{:10.2}{:10.3} {unfit}",
                call / ours,
                ours / libcs,
            );
        }
    }
}
