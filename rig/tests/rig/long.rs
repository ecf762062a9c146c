//! Long lives: time is counted in instructions, and idle time is jumped over, so that hours pass in minutes.

use crate::common::{CLOCKS, COUNTED, ON_TSC, WAYS, guest, judge};
use clockwise_rig::Guest;

#[test]
fn a_day_passes_without_drift_or_overflow() {
    let Some(guest) = guest() else { return };
    life(&guest.boots_with(ON_TSC), 24);
}

/// A burst of readings every ten minutes for so many hours, and reading all the time before and after.
pub fn life(guest: &Guest, hours: u32) {
    let guest = guest.clone().options(&COUNTED).seconds(600);
    let rest = format!("rest={}", hours * 3_600_000);
    let told = judge(&guest, &["read=200", &rest, "read=300", "note=end"]);
    told.holds(&format!("{hours} hours"));
    let passed_s = told.passed_s("MONOTONIC_RAW", "start", "end");
    assert!(passed_s >= f64::from(hours) * 3_600.0, "{passed_s} s: {told:?}");
    for way in WAYS {
        for clock in CLOCKS {
            let status = told.note("end", way, clock);
            assert!(status["unfit"].is_null(), "{way}, {clock}: {told:?}");
            for what in ["steps", "distrusts"] {
                assert_eq!(status[what], 0, "{what}: {way}, {clock}: {told:?}");
            }
            // One in each burst at least.
            let refreshes = status["refreshes"].as_u64();
            assert!(refreshes > Some(u64::from(hours) * 6), "{way}, {clock}: {told:?}");
        }
    }
}
