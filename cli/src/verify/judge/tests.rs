//! A subject that says of itself that it was stepped.

use super::{Broken, Evidence, Finding, Judge, Rules, Taken};
use clockwise_core::laws::Law;

const BURST_NS: i64 = 1_000_000;

/// So many bursts a millisecond apart, off by what `off` says, with so many steps noticed as `steps` says.
fn judged(
    bursts: i64,
    limit: Option<u64>,
    off: impl Fn(i64) -> i64,
    steps: impl Fn(i64) -> u64,
) -> Judge {
    let mut judge = Judge::new(Rules { settable: false, max_error_ns: limit });
    let mut ignore = |_: Finding| ();
    for burst in 0..bursts {
        let at = burst * BURST_NS;
        let readings = [0, 100, 200].map(|later| {
            let before_ns = at + later;
            let nanos = before_ns + 20 + off(burst);
            let (after_ns, error_ns) = (before_ns + 40, Some(1_000));
            Taken { before_ns, nanos, after_ns, error_ns, ..Taken::default() }
        });
        let evidence =
            Evidence { steps: steps(burst), period_ns: 4_000_000, kernel_stepped: false };
        judge.burst(at, &readings, &evidence, &mut ignore);
    }
    judge.end(bursts * BURST_NS, &mut ignore);
    judge
}

fn times(judge: &Judge, broken: Broken) -> u64 {
    judge.counts[broken.index()].times
}

#[test]
fn a_step_that_it_notices_excuses_readings_beyond_their_bound_and_nothing_else() {
    // For three milliseconds 50 us ahead of the kernel; then it has noticed.
    let off = |burst| if (500..503).contains(&burst) { 50_000 } else { 0 };
    let judge = judged(1_000, Some(10_000), off, |burst| u64::from(burst >= 503));
    assert_eq!(times(&judge, Broken::Law(Law::Bounded)), 0);
    assert_eq!(judge.excused, 9);
    assert_eq!(times(&judge, Broken::Limit), 9, "the user's limit knows no excuse");
    let judge = judged(1_000, None, off, |_| 0);
    assert_eq!(times(&judge, Broken::Law(Law::Bounded)), 9, "without notice");
}

#[test]
fn who_is_always_wrong_and_always_says_so_is_caught() {
    let judge = judged(5_000, None, |burst| burst * 5_000, |burst| burst as u64);
    assert!(times(&judge, Broken::Law(Law::Bounded)) > 10_000);
    assert!(times(&judge, Broken::Law(Law::Steady)) > 0);
}
