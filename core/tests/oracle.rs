//! Scale, line and timebase against slow exact arithmetic: a kernel whose time is an exact fraction of the ticks.

use clockwise_core::sample::Sample;
use clockwise_core::scale::{Scale, Slope};
use clockwise_core::timebase::{Change, ERROR_MAX_NS, Line, PERIOD_NS, Timebase};
use clockwise_core::units::Ticks;

/// A fixed sequence of numbers (xorshift): the same failures on every machine.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// The product as (high, low) 128-bit halves, digit by digit.
fn product(a: u128, b: u128) -> (u128, u128) {
    let half = |value: u128| (value >> 64, value & u128::from(u64::MAX));
    let ((a1, a0), (b1, b0)) = (half(a), half(b));
    let (low, carry) = (a0 * b0, a1 * b1);
    let (middle, over) = (a1 * b0).overflowing_add(a0 * b1);
    let (low, over_low) = low.overflowing_add(middle << 64);
    (carry + (middle >> 64) + (u128::from(over) << 64) + u128::from(over_low), low)
}

/// Counters of the world: 24 MHz to 5 GHz, and the two ends.
const HZ: [u64; 9] = [
    1_000_000,
    24_000_000,
    62_500_000,
    999_999_999,
    1_000_000_000,
    2_299_998_027,
    2_596_132_173,
    5_000_000_001,
    63_999_999_999,
];

/// Ticks of counters that ran for a moment, for 208 days (2^54 ns), for ten years, and to the end.
const TICKS: [u64; 9] = [
    0,
    1,
    26,
    (1 << 32) - 1,
    1 << 53,
    46_655_610_507_429_945,
    818_716_242_077_280_007,
    i64::MAX as u64,
    u64::MAX,
];

#[test]
fn a_scale_is_the_largest_that_does_not_exceed_the_ratio() {
    let mut numbers = Numbers(1);
    for round in 0..20_000 {
        let hz = HZ[round % HZ.len()];
        let ticks = numbers.next() >> numbers.below(40) | 1;
        let nanos = u128::from(ticks) * 1_000_000_000 / u128::from(hz);
        let Ok(nanos) = u64::try_from(nanos) else { continue };
        let Some(scale) = Scale::from_ratio(nanos, Ticks(ticks)) else {
            // Too few ticks to tell; or the ratio of the rounded nanoseconds is out of range.
            assert!(ticks < 1 << 32 || hz == HZ[8] || hz == HZ[0], "{nanos} ns, {ticks} ticks");
            continue;
        };
        let exact = (u128::from(nanos >> 32) >> 32, u128::from(nanos) << 64);
        assert!(product(scale.bits(), ticks.into()) <= exact, "{nanos} / {ticks}");
        assert!(product(scale.bits() + 1, ticks.into()) > exact, "{nanos} / {ticks}");
    }
}

#[test]
fn ticks_become_nanoseconds_as_in_exact_arithmetic() {
    for hz in HZ {
        let scale = Scale::from_ratio(1_000_000_000_000_000, Ticks(hz * 1_000_000));
        let Some(scale) = scale else { continue };
        for ticks in TICKS {
            let (high, low) = product(scale.bits(), ticks.into());
            let exact = high << 64 | low >> 64;
            let saturated = u64::try_from(exact).unwrap_or(u64::MAX);
            assert_eq!(scale.nanos_saturating(Ticks(ticks)), saturated, "{ticks} at {hz} Hz");
            if exact <= u128::from(u64::MAX) {
                assert_eq!(u128::from(scale.nanos(Ticks(ticks))), exact, "{ticks} at {hz} Hz");
                // There and back loses less than a tick's nanoseconds, and never gains.
                let back = scale.ticks(scale.nanos(Ticks(ticks)));
                assert!(back.0 <= ticks, "{ticks} at {hz} Hz");
                assert!(
                    scale.nanos(Ticks(ticks)) - scale.nanos(back) <= 1_000,
                    "{ticks} at {hz} Hz"
                );
            }
        }
    }
}

#[test]
fn what_is_no_counter_has_no_scale() {
    assert_eq!(Scale::from_ratio(1, Ticks(0)), None);
    assert_eq!(Scale::from_ratio(0, Ticks(1_000)), None);
    assert_eq!(Scale::from_ratio(u64::MAX, Ticks(1)), None);
    assert_eq!(Scale::from_ratio(1, Ticks(u64::MAX)), None);
    assert_eq!(Scale::from_ratio(1_001, Ticks(1)), None, "slower than 1 MHz");
    assert_eq!(Scale::from_ratio(1, Ticks(65)), None, "faster than 64 GHz");
    assert!(Scale::from_ratio(1_000, Ticks(1)).is_some());
    assert!(Scale::from_ratio(1, Ticks(64)).is_some());
}

/// The kernel of the oracle: `zero_ns + (ticks - zero_ticks) * 10^9 / hz`, exactly.
#[derive(Clone, Copy)]
struct Truth {
    hz: u64,
    zero_ticks: u64,
    zero_ns: i64,
}

impl Truth {
    /// Floor, and whether there is a remainder.
    fn at(&self, ticks: u64) -> i64 {
        let passed = u128::from(ticks.wrapping_sub(self.zero_ticks));
        let nanos = passed * 1_000_000_000 / u128::from(self.hz);
        self.zero_ns + i64::try_from(nanos).unwrap()
    }

    fn ticks(&self, nanos: u64) -> u64 {
        let ticks = u128::from(nanos) * u128::from(self.hz) / 1_000_000_000;
        self.zero_ticks.wrapping_add(u64::try_from(ticks).unwrap())
    }

    /// A sample at about `nanos`, whose kernel read came anywhere within its bracket.
    fn sample(&self, nanos: u64, half_width: u64, numbers: &mut Numbers) -> Sample {
        let middle = self.ticks(nanos);
        let read = middle.wrapping_add(numbers.below(2 * half_width + 1)).wrapping_sub(half_width);
        Sample { ticks: Ticks(middle), nanos: self.at(read), half_width: Ticks(half_width) }
    }
}

/// Every line is as near to the truth as it says, at its start, its end and between.
fn check(line: &Line, truth: &Truth, last: &mut i64, what: &str) {
    for part in 0..=16 {
        let ticks = Ticks(line.anchor.0.wrapping_add(line.hard.0 / 16 * part));
        let (ours, exact) = (line.at(ticks).unwrap(), truth.at(ticks.0));
        let distance = ours.abs_diff(exact);
        assert!(distance <= line.steady_ns.into(), "{what}: {distance} of {} ns", line.steady_ns);
        assert!(distance <= line.error_ns(ticks), "{what}: {distance} ns");
        assert!(ours >= *last, "{what}: back by {} ns", *last - ours);
        *last = ours;
    }
    assert_eq!(line.at(line.end_ticks()), Some(line.end()));
    assert_eq!(line.at(Ticks(line.end_ticks().0.wrapping_add(1))), None);
    assert_eq!(line.at(Ticks(line.anchor.0.wrapping_sub(1))), None);
}

/// Follows `truth` from its zero on, with brackets up to `width_ns` wide, and checks every line.
fn follow(truth: Truth, width_ns: u64, numbers: &mut Numbers) {
    let ticks_of = |nanos: u64| truth.ticks(nanos).wrapping_sub(truth.zero_ticks);
    let sample = |at_ns: u64, numbers: &mut Numbers| {
        let half_width = ticks_of(numbers.below(width_ns / 2) + 1) + 1;
        truth.sample(at_ns, half_width, numbers)
    };
    let mut at_ns = 1_000_000;
    let mut base = Timebase::start(&sample(at_ns, numbers));
    at_ns += 1_000_000;
    assert_eq!(base.next(&sample(at_ns, numbers), false).0, Change::Kept);
    let now = Ticks(truth.ticks(at_ns + 1_000));
    let mut line = base.line_anew(0, now, base.period_ns(PERIOD_NS), ERROR_MAX_NS).unwrap();
    let mut last = i64::MIN;
    assert!(line.nanos >= truth.at(now.0), "below what the kernel may have said before");
    check(&line, &truth, &mut last, "first");
    for round in 0..2_000 {
        // Somewhere in the last quarter of the current line.
        let soft = line.anchor.0.wrapping_add(line.soft.0).wrapping_sub(truth.zero_ticks);
        let soft_ns = truth.at(truth.zero_ticks.wrapping_add(soft)) - truth.zero_ns;
        at_ns = soft_ns as u64 + numbers.below(100_000);
        let (change, residual) = base.next(&sample(at_ns, numbers), false);
        assert_eq!(change, Change::Kept, "round {round} of {} Hz: {residual} ns", truth.hz);
        let truth_now = truth.at(base.newest.ticks.0);
        let off = base.newest.nanos.abs_diff(truth_now);
        assert!(off <= base.newest.error + 1, "estimate: {off} of {} ns", base.newest.error);
        line = base.line_after(&line, base.period_ns(PERIOD_NS)).unwrap();
        check(&line, &truth, &mut last, "next");
    }
    // After eight seconds of samples the lines are as good as their brackets.
    assert!(u64::from(line.steady_ns) <= 2 * width_ns + 60, "{} ns", line.steady_ns);
}

#[test]
fn the_estimate_contains_the_truth_and_the_lines_keep_their_bounds() {
    let mut numbers = Numbers(7);
    for hz in &HZ[1..8] {
        for (zero_ticks, zero_ns) in [
            (0, 0),
            (u64::MAX - 3 * hz, 17),
            ((1 << 63) - 2 * hz, 1_800_000_000_000_000_000),
            (hz * 86_400 * 365, 315_360_000_000_000_000),
            (hz * 3, i64::MAX - 60_000_000_000),
        ] {
            for width_ns in [36, 400, 4_000] {
                follow(Truth { hz: *hz, zero_ticks, zero_ns }, width_ns, &mut numbers);
            }
        }
    }
}

#[test]
fn a_clock_at_its_end_has_no_line() {
    let sample = |ticks, nanos| Sample { ticks: Ticks(ticks), nanos, half_width: Ticks(10) };
    let end = i64::MAX - 3_000_000;
    let mut base = Timebase::start(&sample(0, end - 2_000_000));
    assert_eq!(base.next(&sample(2_000_000, end), false).0, Change::Kept);
    assert_eq!(
        base.line_anew(0, Ticks(2_000_000), PERIOD_NS, ERROR_MAX_NS),
        None,
        "it would pass 2^63"
    );
    assert!(base.line_anew(0, Ticks(2_000_000), 1_000_000, ERROR_MAX_NS).is_some());
}

#[test]
fn a_counter_that_goes_back_or_stands_begins_anew() {
    let sample = |ticks, nanos| Sample { ticks: Ticks(ticks), nanos, half_width: Ticks(10) };
    for second in [sample(5_000, 1_000_000), sample(4_000, 1_000_000), sample(0, 2_000_000)] {
        let mut base = Timebase::start(&sample(5_000, 0));
        assert_eq!(base.next(&second, false), (Change::Stepped, 0));
        assert!(!base.has_rate());
        assert_eq!(base.newest.ticks, second.ticks);
    }
    // A kernel that goes back or stands while the counter runs.
    for nanos in [0, -1, i64::MIN] {
        let mut base = Timebase::start(&sample(0, 0));
        assert_eq!(base.next(&sample(1_000_000, nanos), false).0, Change::Stepped);
    }
}

#[test]
fn what_the_kernel_does_is_told_apart() {
    let sample = |ticks, nanos| Sample { ticks: Ticks(ticks), nanos, half_width: Ticks(10) };
    let base = || {
        let mut base = Timebase::start(&sample(0, 0));
        base.next(&sample(4_000_000, 4_000_000), false);
        base.next(&sample(8_000_000, 8_000_000), false);
        base
    };
    let next = |off: i64, may_step| base().next(&sample(12_000_000, 12_000_000 + off), may_step);
    assert_eq!(next(15, false), (Change::Kept, 15));
    assert_eq!(next(-15, true), (Change::Kept, -15));
    assert_eq!(next(2_000, false), (Change::Slewed, 2_000), "500 ppm");
    assert_eq!(next(-4_000, false), (Change::Slewed, -4_000), "1000 ppm");
    assert_eq!(next(5_000, false), (Change::Stepped, 5_000));
    assert_eq!(next(-5_000, false), (Change::Ahead, -5_000));
    assert_eq!(next(-5_000, true), (Change::Stepped, -5_000));
    assert_eq!(next(-1_000_001, false), (Change::Stepped, -1_000_001));
    assert_eq!(next(1_000_000_000, true), (Change::Stepped, 1_000_000_000));
}

#[test]
fn a_line_that_is_ahead_goes_slower_by_a_hundredth_at_most_and_meets_the_kernel() {
    let truth = Truth { hz: 1_000_000_000, zero_ticks: 0, zero_ns: 0 };
    let mut numbers = Numbers(3);
    let mut base = Timebase::start(&truth.sample(1_000_000, 10, &mut numbers));
    base.next(&truth.sample(5_000_000, 10, &mut numbers), false);
    let floor = truth.at(5_000_000) + 900_000;
    let mut line = base.line_anew(floor, Ticks(5_000_100), PERIOD_NS, ERROR_MAX_NS).unwrap();
    assert_eq!(line.nanos, floor);
    let mut rounds = 0;
    while line.end() > truth.at(line.end_ticks().0) + 100 {
        let gained = line.end() - line.nanos;
        assert!(gained >= (line.hard.0 as i64) / 100 * 99 - 1, "{gained} ns in {:?}", line.hard);
        let at = line.anchor.0 + line.soft.0;
        assert_eq!(base.next(&truth.sample(at, 10, &mut numbers), false).0, Change::Kept);
        line = base.line_after(&line, PERIOD_NS).unwrap();
        rounds += 1;
        assert!(rounds <= 24, "0.9 ms at a hundredth are 90 ms");
    }
}

#[test]
fn a_slope_loses_less_than_a_nanosecond_in_a_line() {
    for hz in HZ {
        let Some(scale) = Scale::from_ratio(1_000_000_000_000_000, Ticks(hz * 1_000_000)) else {
            continue;
        };
        let slope = Slope((scale.bits() >> 32) as u64);
        for nanos in [1, 1_000, 4_000_000, 250_000_000] {
            let ticks = Ticks(scale.ticks(nanos).0.min(1 << 31));
            let exact = scale.nanos(ticks);
            assert!(exact - slope.nanos(ticks) <= 1, "{nanos} ns at {hz} Hz");
        }
    }
}
