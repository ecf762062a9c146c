//! Long lives: time is counted in instructions, and idle time is jumped over, so that hours pass in minutes.

use crate::common::{CLOCKS, COUNTED, ON_TSC, WAYS, guest, judge};

#[test]
fn a_day_passes_without_drift_or_overflow() {
    let Some(guest) = guest() else { return };
    let guest = guest.boots_with(ON_TSC).options(&COUNTED).seconds(600);
    // A burst of readings every ten minutes, and reading all the time before and after.
    let told = judge(&guest, &["read=200", "rest=86400000", "read=300", "note=end"]);
    told.holds("a day");
    assert!(told.passed_s("MONOTONIC_RAW", "start", "end") >= 86_400.0, "{told:?}");
    for way in WAYS {
        for clock in CLOCKS {
            let status = told.note("end", way, clock);
            assert!(status["unfit"].is_null(), "{way}, {clock}: {told:?}");
            for what in ["steps", "distrusts"] {
                assert_eq!(status[what], 0, "{what}: {way}, {clock}: {told:?}");
            }
            // One in each burst at least.
            assert!(status["refreshes"].as_u64() > Some(144), "{way}, {clock}: {told:?}");
        }
    }
}
