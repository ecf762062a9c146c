//! The doctor's measurements, all of them short: what calls cost, how the counter goes, whether processors agree.
//!
//! Must never read the counter where it is forbidden, nor libc's clocks, which read it too; the caller knows.

use super::measured::{Prices, Rates, Share, Steps, Sync};
use crate::availability::THREAD_STACK;
use crate::exchange::{Exchange, HandOver};
use crate::os;
use crate::pair::{Pair, Rate};
use crate::reads::{self, CounterBy, CounterForm, Loops, Mode, SystemClock, VdsoClock};
use crate::stats;
use clockwise_core::counter::{self, Counter, Form, FormVisitor, Hardware, SharedHardware};
use clockwise_core::kernel::{ClockId, Errno, Kernel, Linux, System, Vdso};

/// What may be used here: each was tried before.
#[derive(Clone, Copy)]
pub struct Tools {
    /// A clock that works.
    pub reference: Linux,
    /// The counter, if it may be read.
    pub counter: Option<Hardware>,
    /// The vDSO, if there is one and it may be called.
    pub vdso: Option<Vdso>,
    /// Whether libc's clock may be read.
    pub libc: bool,
    /// Whether the system call works.
    pub syscall: bool,
}

impl Tools {
    fn now_ns(&self) -> i64 {
        self.reference.now(ClockId::MONOTONIC).map_or(0, |time| time.nanos_i64())
    }
}

const WANTED_NS: f64 = 50_000.0;
const ROUNDS: usize = 31;
const CALLS_MAX: f64 = 4_096.0;

/// What each way costs, the medians of batches; the ways take turns. Some ten milliseconds.
pub fn prices(tools: &Tools) -> Result<Prices, String> {
    if !tools.libc {
        return Err("libc's clock cannot be read here".to_owned());
    }
    // A batch is some ten microseconds.
    let step = os::clock_getres(ClockId::MONOTONIC).map_or(0, |step| step.nanos());
    if step > 1_000 {
        return Err(format!("the clock moves in steps of {step} ns, too coarse to time calls by"));
    }
    let libc = reads::unread(ClockId::MONOTONIC);
    let syscall = SystemClock(ClockId::MONOTONIC);
    let vdso = tools.vdso.map(|vdso| VdsoClock(vdso, ClockId::MONOTONIC));
    let counter = tools.counter.map(|_| CounterBy { form: SharedHardware.form(), relaxed: false });
    let cpuid = tools.counter.and_then(|_| cpuid());
    let ways: [Option<&dyn Loops>; 5] = [
        Some(&libc),
        (tools.syscall && System::AVAILABLE).then_some(&syscall as &dyn Loops),
        vdso.as_ref().map(|vdso| vdso as &dyn Loops),
        counter.as_ref().map(|counter| counter as &dyn Loops),
        cpuid.as_deref(),
    ];
    let [libc_ns, syscall_ns, vdso_ns, counter_ns, cpuid_ns] = costs(tools, ways);
    let libc_ns = libc_ns.ok_or("the reference clock stands still")?;
    Ok(Prices { libc_ns, syscall_ns, vdso_ns, counter_ns, cpuid_ns })
}

fn costs<const N: usize>(tools: &Tools, ways: [Option<&dyn Loops>; N]) -> [Option<f64>; N] {
    let batch = |way: &dyn Loops, calls: u64| {
        let before = tools.now_ns();
        way.batch(Mode::Throughput, calls);
        tools.now_ns().saturating_sub(before) as f64 / calls as f64
    };
    // The first calls warm up, and tell how many make a batch.
    let calls = ways.map(|way| {
        way.map_or(0, |way| {
            batch(way, 8);
            (WANTED_NS / batch(way, 8).max(1.0)).clamp(4.0, CALLS_MAX) as u64
        })
    });
    let mut seen = [const { Vec::new() }; N];
    for _ in 0..ROUNDS {
        for ((way, &calls), seen) in ways.iter().zip(&calls).zip(&mut seen) {
            if let Some(way) = way {
                seen.push(batch(*way, calls));
            }
        }
    }
    seen.map(|seen| stats::median(&seen).filter(|&ns| ns > 0.0))
}

/// The loops over CPUID, where the processor has it.
fn cpuid() -> Option<Box<dyn Loops>> {
    struct Find(Option<Box<dyn Loops>>);
    impl FormVisitor for Find {
        fn form<F: Form>(&mut self, form: F) {
            if F::NAME == "cpuid" {
                self.0 = Some(Box::new(CounterForm(form)));
            }
        }
    }
    let mut find = Find(None);
    counter::visit_forms(&mut find);
    find.0
}

/// Who spends the time while libc's clock is read and read, for so long; meanwhile `tick` is told how far it is.
pub fn share(tools: &Tools, window_ns: i64, tick: &mut dyn FnMut(f64)) -> Result<Share, String> {
    if !tools.libc {
        return Err("libc's clock cannot be read here".to_owned());
    }
    let libc = reads::unread(ClockId::MONOTONIC);
    if tools.now_ns() == 0 {
        return Err("there is no clock to measure with".to_owned());
    }
    let refused = |errno: Errno| format!("getrusage(2): {errno}");
    let (start, before) = (tools.now_ns(), os::facts::cpu_times_ns().map_err(refused)?);
    let mut shown = 0;
    loop {
        libc.batch(Mode::Throughput, 2_000);
        let elapsed = tools.now_ns().saturating_sub(start);
        if elapsed >= window_ns || elapsed < 0 {
            break;
        }
        // To draw costs what is measured here.
        if elapsed - shown > window_ns / 8 {
            shown = elapsed;
            tick(elapsed as f64 / window_ns as f64);
        }
    }
    let (window, after) =
        (tools.now_ns().saturating_sub(start), os::facts::cpu_times_ns().map_err(refused)?);
    let (user, system) =
        (after.0.saturating_sub(before.0).max(0), after.1.saturating_sub(before.1).max(0));
    // By its ticks or by its switches: either way the kernel tells the parts to some milliseconds.
    let percent = |part: i64| part as f64 / (user + system).max(1) as f64 * 100.0;
    if user + system == 0 {
        return Err("getrusage(2) counts no CPU time".to_owned());
    }
    Ok(Share {
        window_ns: window.unsigned_abs(),
        user_percent: percent(user),
        system_percent: percent(system),
    })
}

/// The first half of a measurement of rates.
pub struct Begun([Option<Pair>; 2]);

const BRACKETS: u32 = 2_000;

/// Takes the first pairs.
pub fn begin_rates(tools: &Tools) -> Begun {
    Begun([ClockId::MONOTONIC_RAW, ClockId::MONOTONIC].map(|clock| pair(tools, clock)))
}

fn pair(tools: &Tools, clock: ClockId) -> Option<Pair> {
    Pair::take(&tools.counter?, &tools.reference, clock, BRACKETS)
}

/// Takes the last pairs: the rates between.
pub fn end_rates(tools: &Tools, Begun(first): Begun) -> Result<Rates, String> {
    if tools.counter.is_none() {
        return Err("there is no counter that may be read".to_owned());
    }
    let last = begin_rates(tools).0;
    let rate = |at: usize| Rate::between(first[at].as_ref()?, last[at].as_ref()?);
    let (raw, monotonic) =
        rate(0).zip(rate(1)).ok_or("the clocks or the counter did not advance")?;
    Ok(Rates {
        counter_hz: raw.hz(),
        uncertainty_ppm: raw.uncertainty_ppm(),
        steering_ppm: (raw.hz() / monotonic.hz() - 1.0) * 1e6,
        steering_uncertainty_ppm: raw.uncertainty_ppm() + monotonic.uncertainty_ppm(),
    })
}

/// The steps of the coarse clock, watched for so long at most.
pub fn steps(tools: &Tools, window_ns: i64) -> Result<Steps, String> {
    let resolution = |clock| {
        let told = os::clock_getres(clock).map_err(|errno| format!("clock_getres(3): {errno}"))?;
        u64::try_from(told.nanos()).map_err(|_| "clock_getres(3) tells nonsense".to_owned())
    };
    let (tick_ns, fine_ns) =
        (resolution(ClockId::MONOTONIC_COARSE)?, resolution(ClockId::MONOTONIC)?);
    let coarse = || tools.reference.now(ClockId::MONOTONIC_COARSE).map(|time| time.nanos_i64());
    let (start, mut last, mut seen) = (tools.now_ns(), coarse(), None::<u64>);
    while let Ok(before) = last {
        last = coarse();
        if let Ok(after) = last
            && after != before
        {
            let step = after.abs_diff(before);
            seen = Some(seen.map_or(step, |seen| seen.min(step)));
        }
        if !(0..window_ns).contains(&tools.now_ns().saturating_sub(start)) {
            break;
        }
    }
    Ok(Steps { tick_ns, seen_ns: seen, fine_ns })
}

/// Two processors are given this long at a time, and again until they have handed enough over, or their share of the time
/// is used up: on a busy machine they seldom run at once.
const WINDOW_NS: u64 = 12_000_000;
/// More than that says no more.
const PLENTY: u64 = 200_000;

/// Whether the counters of `cpus` agree: a thread on each of two exchanges readings with the other, pair by pair, for
/// `budget_ns` in all at most; `hz` turns ticks into time. `tick` is told how far it is.
pub fn sync(
    cpus: &[usize],
    budget_ns: u64,
    hz: Option<f64>,
    tick: &mut dyn FnMut(f64),
) -> Result<Sync, String> {
    let all = pairs(cpus);
    let room = usize::try_from(budget_ns / WINDOW_NS).unwrap_or(1).max(1);
    let chosen = sampled(&all, room);
    let mut sync = Sync { processors: cpus.len(), pairs: all.len(), ..Sync::default() };
    let windows = (budget_ns / WINDOW_NS / chosen.len().max(1) as u64).max(1);
    for &(one, other) in &chosen {
        let (mut seen, mut difference) = hand_over([one, other], WINDOW_NS)?;
        for _ in 1..windows {
            if seen.count >= PLENTY {
                break;
            }
            let (more, between) = hand_over([one, other], WINDOW_NS)?;
            seen = seen.and(more);
            // Each window gives limits; all hold.
            difference = match difference.zip(between) {
                Some((a, b)) => Some((a.0.max(b.0), a.1.min(b.1))),
                None => difference.or(between),
            };
        }
        sync.tried += 1;
        sync.handed_over += seen.count;
        sync.violations += seen.violations;
        sync.worst_ticks = sync.worst_ticks.max(seen.worst);
        if let Some(((least, most), hz)) = difference.zip(hz) {
            let (least, most) = (least as f64 / hz * 1e9, most as f64 / hz * 1e9);
            let offset = f64::midpoint(least, most).abs();
            if sync.offset_ns.is_none_or(|largest| offset > largest) {
                sync.offset_ns = Some(offset);
                sync.offset_error_ns = Some(((most - least) / 2.0).max(0.0));
            }
        }
        tick(sync.tried as f64 / chosen.len() as f64);
    }
    Ok(sync)
}

/// All pairs; those of neighbours and those with the first processor come first.
fn pairs(cpus: &[usize]) -> Vec<(usize, usize)> {
    let mut pairs: Vec<(usize, usize, usize)> = Vec::new();
    for (i, &one) in cpus.iter().enumerate() {
        for (j, &other) in cpus.iter().enumerate().skip(i + 1) {
            let rank = if i == 0 { 0 } else { usize::from(j != i + 1) + 1 };
            pairs.push((rank, one, other));
        }
    }
    pairs.sort_by_key(|&(rank, ..)| rank);
    pairs.into_iter().map(|(_, one, other)| (one, other)).collect()
}

/// At most `room` of them, evenly.
fn sampled<T: Copy>(all: &[T], room: usize) -> Vec<T> {
    let step = all.len().div_ceil(room).max(1);
    all.iter().copied().step_by(step).collect()
}

/// What the threads saw, and between what the difference lies.
type Seen = (HandOver, Option<(i64, i64)>);

fn hand_over(cpus: [usize; 2], for_ns: u64) -> Result<Seen, String> {
    let exchange = Exchange::default();
    let read = CounterBy { form: SharedHardware.form(), relaxed: false };
    std::thread::scope(|scope| {
        let threads = [0, 1].map(|side| {
            let (exchange, cpu) = (&exchange, cpus[side]);
            let work = move || os::pin(&[cpu]).map(|()| read.exchange(exchange, side));
            std::thread::Builder::new().stack_size(THREAD_STACK).spawn_scoped(scope, work)
        });
        os::pause(for_ns);
        exchange.stop();
        let mut seen = HandOver::default();
        for thread in threads {
            let thread = thread.map_err(|error| format!("a thread cannot be started: {error}"))?;
            let handed = thread.join().map_err(|_| "a thread failed".to_owned())?;
            seen = seen.and(handed.map_err(|errno| format!("sched_setaffinity(2): {errno}"))?);
        }
        Ok((seen, exchange.difference()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_processors_each_still_meets_another() {
        assert!(pairs(&[3]).is_empty());
        assert_eq!(pairs(&[0, 2]), [(0, 2)]);
        assert_eq!(pairs(&[0, 1, 2, 3]).len(), 6);
        let many: Vec<usize> = (0..512).collect();
        let all = pairs(&many);
        assert_eq!(all.len(), 512 * 511 / 2);
        let some = sampled(&all, 100);
        assert!((90..=100).contains(&some.len()), "{}", some.len());
        assert_eq!(sampled(&[1, 2, 3], 100), [1, 2, 3]);
        assert!(sampled::<u8>(&[], 100).is_empty());
    }
}
