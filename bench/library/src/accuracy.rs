//! How far each clock is from the kernel's, for as long as the run lasts.
//!
//! A reading stands between two of the kernel: kernel, subject, kernel. Two quantities come of it:
//!
//! * the distance from the bracket's middle, which is off by half of the bracket at most: that half is the
//!   resolution, and is told; and
//! * how far outside of the bracket the reading lies: so far off it is for certain.
//!
//! In a bracket wider than four times the narrowest something came between (an interrupt, a load from memory): it says
//! nothing about the middle and is left out there, and counted. Nothing is left out of the second quantity.
//!
//! The first subject is the kernel's own clock, between two readings of itself: what it shows is the method's.
//!
//! All subjects take turns. The gap between two turns is random, up to 20 us, so that readings fall everywhere in a
//! period; one gap in 40,000 (about twice a second) is a sleep of up to 10 ms. Readings within 20 ms of a gap of more
//! than 1 ms, whether it was slept or the processor was taken away, are counted for themselves too: ours then come
//! from a line that has just begun.

use crate::histogram::{Histogram, Quantiles};
use crate::os;
use clockwise::{Clock, Instant, Origin, SystemTime};
use serde::Serialize;
use std::thread;
use std::time::Duration;

/// Brackets this many times as wide as the narrowest say nothing of the middle.
const WIDE: u64 = 4;
/// Brackets from which the narrowest, and a clock's own zero, are taken.
const WARM_UP: u32 = 20_000;
const GAP_MAX_NS: i64 = 20_000;
const SLEEP_ONE_IN: u32 = 40_000;
const SLEEP_MAX_NS: u64 = 10_000_000;
/// A gap between two turns that counts as a pause, and for how long readings stand after it.
const PAUSE_NS: i64 = 1_000_000;
const AFTER_PAUSE_NS: i64 = 20_000_000;

/// One clock that is compared.
trait Subject {
    const NAME: &'static str;
    const CRATE: &'static str;
    /// The kernel's clock that it shows.
    const CLOCK: libc::clockid_t = libc::CLOCK_MONOTONIC;
    /// It counts from a zero of its own: what it is off by at the start is subtracted.
    const OWN_ZERO: bool = false;
    type Raw: Copy;
    fn read() -> Self::Raw;
    /// In nanoseconds; since `zero` for a clock with its own.
    fn nanos(raw: Self::Raw, zero: Self::Raw) -> i64;
    /// What it says of its own error: any rate of the kernel, a steady rate, whether from the counter.
    fn bound(_raw: Self::Raw) -> Option<(u64, u64, bool)> {
        None
    }
}

macro_rules! subjects {
    ($($type:ident, $name:literal, $crate_name:literal, $clock:ident, $own_zero:literal, $raw:ty, $read:expr,
       |$value:ident, $zero:ident| $nanos:expr;)*) => {
        $(struct $type;
        impl Subject for $type {
            const NAME: &'static str = $name;
            const CRATE: &'static str = $crate_name;
            const CLOCK: libc::clockid_t = libc::$clock;
            const OWN_ZERO: bool = $own_zero;
            type Raw = $raw;
            #[inline(always)]
            fn read() -> $raw { $read }
            fn nanos($value: $raw, $zero: $raw) -> i64 { $nanos }
        })*
    };
}

subjects! {
    Kernel, "libc MONOTONIC (the method)", "", CLOCK_MONOTONIC, false, libc::timespec,
        os::timespec(libc::CLOCK_MONOTONIC), |raw, _zero| os::nanos(raw);
    OurInstant, "Instant::now", "clockwise", CLOCK_MONOTONIC, false, Instant,
        Instant::now(), |raw, _zero| raw.as_nanos() as i64;
    OurRelaxed, "Instant::now_relaxed", "clockwise", CLOCK_MONOTONIC, false, Instant,
        Instant::now_relaxed(), |raw, _zero| raw.as_nanos() as i64;
    OurSystemTime, "SystemTime::now", "clockwise", CLOCK_REALTIME, false, SystemTime,
        SystemTime::now(), |raw, _zero| raw.as_nanos() as i64;
    OurBoottime, "Clock::boottime().now", "clockwise", CLOCK_BOOTTIME, false, i64,
        Clock::boottime().now().unwrap_or_default(), |raw, _zero| raw;
    OurCoarse, "coarse::monotonic", "clockwise", CLOCK_MONOTONIC, false, Instant,
        clockwise::coarse::monotonic(), |raw, _zero| raw.as_nanos() as i64;
    Quanta, "Instant::now", "quanta", CLOCK_MONOTONIC, true, quanta::Instant,
        quanta::Instant::now(), |raw, zero| raw.duration_since(zero).as_nanos() as i64;
    Minstant, "Instant::now", "minstant", CLOCK_MONOTONIC, true, minstant::Instant,
        minstant::Instant::now(), |raw, zero| raw.duration_since(zero).as_nanos() as i64;
    Fastant, "Instant::now", "fastant", CLOCK_MONOTONIC, true, fastant::Instant,
        fastant::Instant::now(), |raw, zero| raw.duration_since(zero).as_nanos() as i64;
    Coarsetime, "Instant::now", "coarsetime", CLOCK_MONOTONIC, false, coarsetime::Instant,
        coarsetime::Instant::now(), |raw, _zero| ((u128::from(raw.as_ticks()) * 1_000_000_000) >> 32) as i64;
}

struct OurBound;

impl Subject for OurBound {
    const NAME: &'static str = "Instant::now_with_bound";
    const CRATE: &'static str = "clockwise";
    type Raw = clockwise::Bounded<Instant>;

    #[inline(always)]
    fn read() -> Self::Raw {
        Instant::now_with_bound()
    }

    fn nanos(raw: Self::Raw, _zero: Self::Raw) -> i64 {
        raw.time().as_nanos() as i64
    }

    fn bound(raw: Self::Raw) -> Option<(u64, u64, bool)> {
        Some((raw.error_ns(), raw.steady_error_ns(), raw.origin() == Origin::Counter))
    }
}

/// What one window has told about one subject.
#[derive(Clone, Debug, Serialize)]
pub struct Accuracy {
    /// The call.
    pub name: &'static str,
    /// Whose it is; empty for the machine's own.
    #[serde(rename = "crate")]
    pub of: &'static str,
    /// What was subtracted: the clock has a zero of its own.
    pub own_zero: bool,
    /// Readings, wide brackets included.
    pub readings: u64,
    /// Half of the narrowest bracket, in nanoseconds.
    pub resolution_ns: f64,
    /// Half of each bracket that is not wide.
    pub half_bracket_ns: Quantiles,
    /// Brackets that are.
    pub wide: u64,
    /// Distance from the middle, wide brackets left out.
    pub distance_ns: Quantiles,
    /// The same of readings that do not follow a pause.
    pub distance_steady_ns: Quantiles,
    /// The same of those that do.
    pub distance_after_pause_ns: Quantiles,
    /// The mean of the same with its sign: ours minus the kernel's.
    pub mean_ns: f64,
    /// Distance outside of the bracket, over those outside.
    pub outside_ns: Quantiles,
    /// The same of readings that do not follow a pause.
    pub outside_steady_ns: Quantiles,
    /// Of those outside, in wide brackets.
    pub outside_wide: u64,
    /// Readings smaller than the one before.
    pub went_back: u64,
    /// What it says of its own error, and whether that was true.
    pub bound: Option<Bound>,
}

/// Reported bounds.
#[derive(Clone, Debug, Serialize)]
pub struct Bound {
    /// Readings outside of the bracket by more than their bound: must be none.
    pub broken: u64,
    /// The same by the bound that holds while the kernel keeps its rate.
    pub steady_broken: u64,
    /// `error_ns`.
    pub error_ns: Quantiles,
    /// `steady_error_ns`.
    pub steady_error_ns: Quantiles,
    /// Readings that the kernel answered.
    pub from_kernel: u64,
}

struct Bracket<R> {
    before: i64,
    raw: R,
    after: i64,
}

#[inline(always)]
fn bracket<S: Subject>() -> Bracket<S::Raw> {
    let before = os::timespec(S::CLOCK);
    let raw = S::read();
    let after = os::timespec(S::CLOCK);
    Bracket { before: os::nanos(before), raw, after: os::nanos(after) }
}

/// One subject over windows: its zero stays, so that its drift shows.
struct Judge<S: Subject> {
    zero: S::Raw,
    offset: i64,
    narrowest: u64,
    window: Window,
}

#[derive(Default)]
struct Window {
    readings: u64,
    wide: u64,
    outside_wide: u64,
    went_back: u64,
    sum_ns: f64,
    last: Option<i64>,
    steady: Histogram,
    after_pause: Histogram,
    halves: Histogram,
    outside_steady: Histogram,
    outside_after_pause: Histogram,
    broken: u64,
    steady_broken: u64,
    errors: Histogram,
    steady_errors: Histogram,
    from_kernel: u64,
}

trait Judged {
    fn sample(&mut self, after_pause: bool);
    /// Ends the window and begins the next.
    fn end(&mut self) -> Accuracy;
}

fn judge<S: Subject + 'static>() -> Box<dyn Judged> {
    let narrowest = |best: Bracket<S::Raw>, next: Bracket<S::Raw>| {
        if next.after - next.before < best.after - best.before { next } else { best }
    };
    let zero = S::read();
    let best = (0..WARM_UP).map(|_| bracket::<S>()).fold(bracket::<S>(), narrowest);
    let middle = best.before + (best.after - best.before) / 2;
    let offset = if S::OWN_ZERO { middle - S::nanos(best.raw, zero) } else { 0 };
    let narrowest = best.after.abs_diff(best.before).max(1);
    Box::new(Judge::<S> { zero, offset, narrowest, window: Window::default() })
}

impl<S: Subject> Judged for Judge<S> {
    #[inline(never)]
    fn sample(&mut self, after_pause: bool) {
        let Bracket { before, raw, after } = bracket::<S>();
        let window = &mut self.window;
        let nanos = S::nanos(raw, self.zero) + self.offset;
        let width = after.abs_diff(before);
        let outside = (before - nanos).max(nanos - after).max(0) as u64;
        let wide = width > WIDE * self.narrowest;
        window.readings += 1;
        if outside > 0 {
            let outsides = if after_pause {
                &mut window.outside_after_pause
            } else {
                &mut window.outside_steady
            };
            outsides.add(outside);
            window.outside_wide += u64::from(wide);
        }
        if wide {
            window.wide += 1;
        } else {
            self.narrowest = self.narrowest.min(width.max(1));
            // Twice the distance is whole; half a nanosecond more is no matter.
            let twice = 2 * nanos - before - after;
            let distances = if after_pause { &mut window.after_pause } else { &mut window.steady };
            distances.add(twice.unsigned_abs().div_ceil(2));
            window.halves.add(width.div_ceil(2));
            window.sum_ns += twice as f64 / 2.0;
        }
        window.went_back += u64::from(window.last.replace(nanos).is_some_and(|last| nanos < last));
        if let Some((error, steady, counter)) = S::bound(raw) {
            window.errors.add(error);
            window.steady_errors.add(steady);
            window.broken += u64::from(outside > error);
            window.steady_broken += u64::from(outside > steady);
            window.from_kernel += u64::from(!counter);
        }
    }

    fn end(&mut self) -> Accuracy {
        let window = std::mem::take(&mut self.window);
        let bound = Bound {
            broken: window.broken,
            steady_broken: window.steady_broken,
            error_ns: window.errors.quantiles(),
            steady_error_ns: window.steady_errors.quantiles(),
            from_kernel: window.from_kernel,
        };
        let counted = (window.readings - window.wide).max(1);
        Accuracy {
            name: S::NAME,
            of: S::CRATE,
            own_zero: S::OWN_ZERO,
            readings: window.readings,
            resolution_ns: self.narrowest as f64 / 2.0,
            half_bracket_ns: window.halves.quantiles(),
            wide: window.wide,
            distance_ns: window.steady.with(&window.after_pause).quantiles(),
            distance_steady_ns: window.steady.quantiles(),
            distance_after_pause_ns: window.after_pause.quantiles(),
            mean_ns: window.sum_ns / counted as f64,
            outside_ns: window.outside_steady.with(&window.outside_after_pause).quantiles(),
            outside_steady_ns: window.outside_steady.quantiles(),
            outside_wide: window.outside_wide,
            went_back: window.went_back,
            bound: (bound.error_ns.count > 0).then_some(bound),
        }
    }
}

/// All subjects, from the first window to the last.
pub struct Judges {
    judges: Vec<Box<dyn Judged>>,
    began: i64,
    random: fastrand::Rng,
}

/// One window.
#[derive(Clone, Debug, Serialize)]
pub struct Windowed {
    /// When it began, in seconds since the peers' zeros were compared with the kernel.
    pub after_s: f64,
    /// How long it lasted.
    pub seconds: f64,
    /// Gaps between two turns of more than 1 ms.
    pub pauses: u64,
    /// The longest of them, in nanoseconds.
    pub pause_max_ns: i64,
    /// Busy threads of the lowest priority meanwhile, bound to the other processors.
    pub load_threads: usize,
    /// The subjects.
    pub clocks: Vec<Accuracy>,
}

impl Judges {
    /// Compares all zeros.
    pub fn begin(seed: u64) -> Self {
        let judges = vec![
            judge::<Kernel>(),
            judge::<OurInstant>(),
            judge::<OurRelaxed>(),
            judge::<OurSystemTime>(),
            judge::<OurBoottime>(),
            judge::<OurBound>(),
            judge::<OurCoarse>(),
            judge::<Quanta>(),
            judge::<Minstant>(),
            judge::<Fastant>(),
            judge::<Coarsetime>(),
        ];
        Self { judges, began: os::monotonic(), random: fastrand::Rng::with_seed(seed) }
    }

    /// Compares for so long.
    pub fn window(&mut self, seconds: u64, load_threads: usize, watch: &dyn Fn(f64)) -> Windowed {
        let begin = os::monotonic();
        let length = (seconds * 1_000_000_000) as i64;
        let mut order: Vec<usize> = (0..self.judges.len()).collect();
        let mut turns = 0u32;
        let (mut last, mut paused, mut pauses, mut pause_max_ns) = (begin, begin, 0, 0);
        loop {
            let now = os::monotonic();
            let passed = now - begin;
            pause_max_ns = pause_max_ns.max(now - last);
            if now - last > PAUSE_NS {
                paused = now;
                pauses += 1;
            }
            last = now;
            if passed >= length {
                break;
            }
            turns = turns.wrapping_add(1);
            if turns.is_multiple_of(10_000) {
                watch(passed as f64 / length as f64);
            }
            self.random.shuffle(&mut order);
            for &at in &order {
                self.judges[at].sample(now - paused < AFTER_PAUSE_NS);
            }
            if self.random.u32(..SLEEP_ONE_IN) == 0 {
                thread::sleep(Duration::from_nanos(self.random.u64(..SLEEP_MAX_NS)));
            } else {
                let until = os::monotonic() + self.random.i64(..GAP_MAX_NS);
                while os::monotonic() < until {
                    std::hint::spin_loop();
                }
            }
        }
        Windowed {
            after_s: (begin - self.began) as f64 / 1e9,
            seconds: (os::monotonic() - begin) as f64 / 1e9,
            pauses,
            pause_max_ns,
            load_threads,
            clocks: self.judges.iter_mut().map(|judge| judge.end()).collect(),
        }
    }

    /// Lets time pass, with one reading of each a second, until `after` seconds have passed since the beginning.
    pub fn wait(&mut self, after: u64, watch: &dyn Fn(f64)) {
        let length = (after * 1_000_000_000) as i64;
        while os::monotonic() - self.began < length {
            watch((os::monotonic() - self.began) as f64 / length as f64);
            self.judges.iter_mut().for_each(|judge| judge.sample(true));
            thread::sleep(Duration::from_secs(1));
        }
        // What was read meanwhile belongs to no window.
        for judge in &mut self.judges {
            judge.end();
        }
    }
}
