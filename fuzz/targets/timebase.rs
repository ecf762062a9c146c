//! Any samples: no panic, and lines that never fall, one after the other. Samples of a kernel clock that keeps its
//! rate: lines that are no further from it than they say.
#![no_main]

use clockwise_core::sample::Sample;
use clockwise_core::timebase::{Change, ERROR_MAX_NS, Line, PERIOD_MAX_NS, Timebase};
use clockwise_core::units::Ticks;
use libfuzzer_sys::fuzz_target;

/// Numbers from the input; zeros after its end.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    /// Of any magnitude: the first byte says how many bits.
    fn number(&mut self) -> u64 {
        let bits = u32::from(self.byte() % 65);
        let bytes = [(); 8].map(|()| self.byte());
        u64::from_le_bytes(bytes).checked_shr(64 - bits).unwrap_or(0)
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input(bytes);
    if input.byte() & 1 == 0 { any_samples(&mut input) } else { steady_samples(&mut input) }
});

fn any_samples(input: &mut Input) {
    let sample = |input: &mut Input| Sample {
        ticks: Ticks(input.number()),
        nanos: input.number() as i64,
        half_width: Ticks(input.number() >> 1),
    };
    let mut last = sample(input);
    let mut timebase = Timebase::start(&last);
    let mut current: Option<Line> = None;
    while !input.0.is_empty() {
        let kind = input.byte();
        let mut next = sample(input);
        if kind & 1 == 0 {
            next.ticks.0 = next.ticks.0.wrapping_add(last.ticks.0);
            next.nanos = next.nanos.wrapping_add(last.nanos);
        }
        last = next;
        let (change, _) = timebase.next(&next, kind & 2 != 0);
        if change == Change::Unusable {
            continue;
        }
        assert_eq!(timebase.newest.ticks, next.ticks);
        if change == Change::Stepped {
            current = None;
        }
        let period_ns = timebase.period_ns(input.number().min(PERIOD_MAX_NS));
        if !timebase.has_rate() {
            continue;
        }
        let line = match current.filter(|_| kind & 4 == 0) {
            Some(current) => {
                let line = timebase.line_after(&current, period_ns);
                if let Some(line) = line {
                    assert_eq!(line.anchor, current.end_ticks());
                    assert!(line.nanos >= current.end(), "{line:?} after {current:?}");
                }
                line
            }
            None => {
                let floor = input.number() as i64;
                let now = Ticks(next.ticks.0.wrapping_add(input.number()));
                let line = timebase.line_anew(floor, now, period_ns, ERROR_MAX_NS);
                if let Some(line) = line {
                    assert!(line.nanos >= floor && line.nanos >= next.nanos, "{line:?}");
                }
                line
            }
        };
        if let Some(line) = line {
            check(&line, Ticks(input.number()));
        }
        current = line.or(current);
    }
}

/// What holds for every line.
fn check(line: &Line, passed: Ticks) {
    assert!(line.soft <= line.hard && line.hard.0 <= 1 << 31, "{line:?}");
    let at = |passed: u64| line.at(Ticks(line.anchor.0.wrapping_add(passed)));
    assert_eq!(at(0), Some(line.nanos));
    assert_eq!(at(line.hard.0), Some(line.end()));
    assert_eq!(at(line.hard.0 + 1), None);
    let passed = passed.0 % (line.hard.0 + 1);
    let next = (passed + 1).min(line.hard.0);
    assert!(line.end() >= line.nanos, "{line:?}");
    assert!(at(passed) >= Some(line.nanos) && at(passed) <= at(next), "{line:?} at {passed}");
    assert!(at(next) <= Some(line.end()), "{line:?} at {next}");
    let _ = line.error_ns(Ticks(passed));
}

/// A kernel clock at a steady rate, sampled by brackets that hold the truth somewhere.
fn steady_samples(input: &mut Input) {
    const ORIGIN: i64 = 1 << 60;
    // 1 MHz to 64 GHz, in nanoseconds a tick with 32 places, and a little inside of that.
    let rate = (input.number() % (900 << 32)).max(1 << 27);
    let truth = |ticks: u64| ORIGIN + ((u128::from(ticks) * u128::from(rate)) >> 32) as i64;
    let first = input.number() >> 2;
    let mut ticks: u64 = 0;
    let mut timebase: Option<Timebase> = None;
    let mut current: Option<Line> = None;
    for _ in 0..64 {
        if input.0.is_empty() {
            break;
        }
        // Up to an hour, by brackets of up to a millisecond.
        let hour = ((3_600_000_000_000 << 32) / u128::from(rate)) as u64;
        let millisecond = ((1_000_000_u128 << 32) / u128::from(rate)) as u64;
        ticks += 1 + input.number() % hour;
        let half_width = input.number() % (millisecond + 1);
        let off = input.number() % (2 * half_width + 1);
        let nanos = truth(ticks + off);
        let middle = ticks + half_width;
        let sample = Sample {
            ticks: Ticks(middle.wrapping_add(first)),
            nanos,
            half_width: Ticks(half_width),
        };
        ticks = middle + half_width;
        let Some(timebase) = &mut timebase else {
            timebase = Some(Timebase::start(&sample));
            continue;
        };
        let (change, residual) = timebase.next(&sample, false);
        if !timebase.has_rate() {
            current = None;
            continue;
        }
        // A first rate from two samples close together may be none at all; then it begins anew.
        if change == Change::Unusable {
            continue;
        }
        assert!(change == Change::Kept, "{change:?} by {residual} of a steady clock, {timebase:?}");
        let period_ns = timebase.period_ns(input.number().min(PERIOD_MAX_NS));
        let now = Ticks(ticks.wrapping_add(first));
        let line = match current.filter(|line| line.covers(now)) {
            Some(current) => timebase.line_after(&current, period_ns),
            None => timebase.line_anew(0, now, period_ns, ERROR_MAX_NS),
        };
        if let Some(line) = line {
            check(&line, Ticks(input.number()));
            for passed in [0, line.hard.0 / 2, line.hard.0] {
                let at = Ticks(line.anchor.0.wrapping_add(passed));
                let off = line.at(at).unwrap().abs_diff(truth(at.0.wrapping_sub(first)));
                let steady_ns = u64::from(line.steady_ns);
                assert!(off <= steady_ns || line.steady_ns == u32::MAX, "{off} off, {line:?}");
                assert!(
                    off <= line.error_ns(at) || line.proven_ns == u32::MAX,
                    "{off} off, {line:?}"
                );
            }
        }
        current = line;
    }
}
