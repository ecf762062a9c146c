//! The clock that is set by hand: what a program's own tests rely on.

use clockwise::{Clock, ClockId, Counter, Engine, Errno, Kernel, Manual, NoCounter, Origin, Unfit};
use std::time::Duration;

const SECOND: i64 = 1_000_000_000;
const FOLLOWED: [ClockId; 5] = [
    ClockId::MONOTONIC,
    ClockId::REALTIME,
    ClockId::BOOTTIME,
    ClockId::TAI,
    ClockId::MONOTONIC_RAW,
];

/// Counts how often `period_ns` is over: what a program would write, generic over its clock.
struct Every<'a, C, K> {
    clock: Clock<'a, C, K>,
    period_ns: i64,
    last: i64,
}

impl<'a, C: Counter, K: Kernel> Every<'a, C, K> {
    fn new(clock: Clock<'a, C, K>, period_ns: i64) -> Result<Self, Errno> {
        Ok(Self { last: clock.now()?, clock, period_ns })
    }

    fn is_over(&mut self) -> Result<bool, Errno> {
        let now = self.clock.now()?;
        let over = now - self.last >= self.period_ns;
        if over {
            self.last = now;
        }
        Ok(over)
    }
}

#[test]
fn code_that_is_generic_over_the_clock_runs_on_both() -> Result<(), Errno> {
    let time = Manual::new();
    let engine = time.engine();
    let mut every = Every::new(Clock::of(&engine, ClockId::MONOTONIC), SECOND)?;
    assert!(!every.is_over()?);
    time.advance(Duration::from_nanos(999_999_999));
    assert!(!every.is_over()?, "a nanosecond is missing");
    time.advance(Duration::from_nanos(1));
    assert!(every.is_over()?);
    assert!(!every.is_over()?);

    let mut every = Every::new(Clock::monotonic(), 0)?;
    assert!(every.is_over()?, "no time is over at once, on the real clock too");
    Ok(())
}

#[test]
fn every_read_shows_what_was_set_to_the_nanosecond() -> Result<(), Errno> {
    let time = Manual::new();
    let engine = time.engine();
    time.advance(Duration::from_nanos(1_234_567_891));
    for id in FOLLOWED {
        let clock = Clock::of(&engine, id);
        assert_eq!(clock.now()?, 1_234_567_891, "{clock}");
        assert_eq!(clock.now_relaxed()?, 1_234_567_891, "{clock}");
        assert_eq!(clock.timespec()?.to_string(), "1.234567891", "{clock}");
        let reading = clock.now_with_bound()?;
        assert_eq!((reading.nanos, reading.error_ns), (1_234_567_891, 0), "{clock}");
        assert_eq!(reading.origin, Origin::Kernel, "{clock}");
        assert_eq!(clock.status().unwrap().unfit, Some(Unfit::Manual), "{clock}");
        assert!(!clock.is_fast(), "{clock}");
    }
    Ok(())
}

#[test]
fn the_wall_clock_is_set_forwards_and_back_and_the_others_stay() -> Result<(), Errno> {
    let time = Manual::new();
    let engine = time.engine();
    let clock = |id| Clock::of(&engine, id);
    time.set_realtime(1_700_000_000 * SECOND);
    assert_eq!(clock(ClockId::REALTIME).now()?, 1_700_000_000 * SECOND);
    assert_eq!(clock(ClockId::TAI).now()?, 1_700_000_000 * SECOND, "TAI is the wall clock's");
    time.advance(Duration::from_secs(1));
    assert_eq!(clock(ClockId::REALTIME).now()?, 1_700_000_001 * SECOND);
    assert_eq!(clock(ClockId::MONOTONIC).now()?, SECOND);
    // By an hour, by a nanosecond, and to before the epoch.
    for nanos in [1_699_996_400 * SECOND, 1_699_996_400 * SECOND - 1, -1, i64::MIN] {
        time.set_realtime(nanos);
        assert_eq!(clock(ClockId::REALTIME).now()?, nanos);
        assert_eq!(clock(ClockId::REALTIME).now_relaxed()?, nanos);
        for id in [ClockId::MONOTONIC, ClockId::BOOTTIME, ClockId::MONOTONIC_RAW] {
            assert_eq!(clock(id).now()?, SECOND, "{id:?}");
        }
    }
    Ok(())
}

#[test]
fn time_stops_at_the_end_of_its_range() -> Result<(), Errno> {
    let time = Manual::new();
    let engine = time.engine();
    time.set_realtime(-SECOND);
    for longest in [Duration::from_nanos(i64::MAX as u64), Duration::from_secs(1), Duration::MAX] {
        time.advance(longest);
        assert_eq!(Clock::of(&engine, ClockId::MONOTONIC).now()?, i64::MAX, "{longest:?}");
    }
    assert_eq!(Clock::of(&engine, ClockId::REALTIME).now()?, i64::MAX);
    Ok(())
}

#[test]
fn clones_share_a_time_and_others_do_not_also_across_threads() -> Result<(), Errno> {
    let (time, other) = (Manual::new(), Manual::new());
    let (engine, second, apart) = (time.engine(), time.clone().engine(), other.engine());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..1_000).for_each(|_| time.advance(Duration::from_nanos(1))));
        }
    });
    assert_eq!(Clock::of(&engine, ClockId::MONOTONIC).now()?, 4_000);
    assert_eq!(Clock::of(&second, ClockId::BOOTTIME).now()?, 4_000);
    assert_eq!(Clock::of(&apart, ClockId::MONOTONIC).now()?, 0);
    Ok(())
}

/// A kernel whose clock 7 is missing, and a counter that is not there.
struct Broken;

impl Kernel for Broken {
    fn now(&self, clock: ClockId) -> Result<clockwise::Timespec, Errno> {
        if clock == ClockId::BOOTTIME { Err(Errno::PERM) } else { Manual::new().now(clock) }
    }
}

impl Counter for Broken {
    fn ticks(&self) -> clockwise::Ticks {
        unreachable!("a counter that is not fit must not be read")
    }

    fn ticks_unordered(&self) -> clockwise::Ticks {
        self.ticks()
    }

    fn fit(&self) -> Result<(), Unfit> {
        Err(Unfit::NoCounter(NoCounter::Forbidden))
    }
}

#[test]
fn errors_of_a_kernel_of_ones_own_come_through_and_its_unfit_counter_is_not_read() {
    let engine = Engine::new(Broken, Broken);
    let clock = |id| Clock::of(&engine, id);
    assert_eq!(clock(ClockId::BOOTTIME).now(), Err(Errno::PERM));
    assert_eq!(clock(ClockId::BOOTTIME).now_with_bound().err(), Some(Errno::PERM));
    assert_eq!(clock(ClockId::MONOTONIC).now(), Ok(0));
    assert_eq!(clock(ClockId::MONOTONIC).now_relaxed(), Ok(0));
    let forbidden = Some(Unfit::NoCounter(NoCounter::Forbidden));
    assert_eq!(clock(ClockId::MONOTONIC).status().unwrap().unfit, forbidden);
    assert_eq!(clock(ClockId(3)).refresh(), Err(Errno::INVAL), "a clock that is not followed");
    assert_eq!(clock(ClockId(3)).status(), None);
}

/// A counter of nanoseconds, and a kernel whose clocks began `self.1` after it.
struct Shifted<'a>(&'a std::cell::Cell<i64>, i64);

impl Counter for Shifted<'_> {
    fn ticks(&self) -> clockwise::Ticks {
        self.0.set(self.0.get() + 20);
        clockwise::Ticks(self.0.get() as u64)
    }

    fn ticks_unordered(&self) -> clockwise::Ticks {
        self.ticks()
    }
}

impl Kernel for Shifted<'_> {
    fn now(&self, _: ClockId) -> Result<clockwise::Timespec, Errno> {
        self.0.set(self.0.get() + 20);
        Ok(clockwise::Timespec::from_nanos(self.0.get() - self.1))
    }
}

#[test]
fn a_wall_clock_before_its_zero_is_followed_within_the_bound() -> Result<(), Errno> {
    for shift in [5_000 * SECOND, 1_000_000_000 * SECOND] {
        let time = std::cell::Cell::new(1_000);
        let engine = Engine::new(Shifted(&time, shift), Shifted(&time, shift));
        let clock = Clock::of(&engine, ClockId::REALTIME);
        let mut counted = 0;
        for _ in 0..20_000 {
            time.set(time.get() + 1_000);
            let earliest = time.get() - shift;
            let reading = clock.now_with_bound()?;
            let latest = time.get() - shift;
            let off = (earliest - reading.nanos).max(reading.nanos - latest);
            assert!(off <= reading.error_ns as i64, "off by {off}: {reading:?}");
            counted += u32::from(reading.origin == Origin::Counter);
        }
        assert!(counted > 10_000, "{counted}");
    }
    Ok(())
}
