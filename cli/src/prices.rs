//! What a read of the kernel's clocks costs here, and what one through the image would.
//!
//! The image itself is not measured: its code is, called as C calls the image, in this process. So what is said of the
//! image is a prediction, and a near one.
//! Must never take long: a program waits to be started.

use crate::os;
use crate::reads::{self, CounterBy, Imaged, KernelClock, Loops, Mode};
use crate::stats;
use clockwise_core::clock::{FOLLOWED, Origin};
use clockwise_core::counter::{Counter, NoCounter, SharedHardware};
use clockwise_core::kernel::{ClockId, Kernel, Linux};
use clockwise_core::trust::Unfit;
use serde::Serialize;

/// What a call from C, the line of time and one multiplication take beside the counter.
const BESIDE_NS: f64 = 3.0;

/// The vDSO reads the counter too.
const FORBIDDEN: Unfit = Unfit::NoCounter(NoCounter::Forbidden);

/// Whether the counter may stand in for the kernel in this process.
pub fn fit() -> Result<(), Unfit> {
    SharedHardware.fit()
}

/// What a call costs in the kernel's clock and, as predicted from the bare counter, in ours, in nanoseconds. For a
/// decision: some tens of microseconds. The counter must be fit. `None` where nothing can be told.
pub fn at_a_glance(relaxed: bool) -> Option<(f64, f64)> {
    const CALLS: u64 = 32;
    const ROUNDS: usize = 7;
    let linux = Linux::find();
    let kernel = called(linux, ClockId::MONOTONIC);
    let counter = CounterBy { form: SharedHardware.form(), relaxed };
    let costs = batches(linux, [&*kernel, &counter], CALLS, ROUNDS)?;
    let [kernel_ns, counter_ns] =
        costs.map(|costs| costs.into_iter().fold(f64::INFINITY, f64::min));
    Some((kernel_ns, counter_ns + BESIDE_NS))
}

/// The kernel's clock as programs call it: by libc, which may know no vDSO where this tool finds one. Where libc must not
/// read the counter, or an image answers in its place already, by `linux`.
fn called(linux: Linux, clock: ClockId) -> Box<dyn Loops> {
    if fit() == Err(FORBIDDEN) || os::image().is_some() {
        Box::new(KernelClock(linux, clock))
    } else {
        Box::new(reads::unread(clock))
    }
}

/// What a call of each way costs, in nanoseconds, batch by batch; the ways take turns.
fn batches<const N: usize>(
    linux: Linux,
    ways: [&dyn Loops; N],
    calls: u64,
    rounds: usize,
) -> Option<[Vec<f64>; N]> {
    let now = || linux.now(ClockId::MONOTONIC).ok().map(|time| time.nanos_i64());
    let mut costs = [const { Vec::new() }; N];
    // The first round warms up.
    for round in 0..=rounds {
        for (way, costs) in ways.iter().zip(&mut costs) {
            let before = now()?;
            way.batch(Mode::Throughput, calls);
            let elapsed = now()?.checked_sub(before)?;
            if round > 0 {
                costs.push(elapsed as f64 / calls as f64);
            }
        }
    }
    Some(costs)
}

/// What a read of one clock costs, in nanoseconds: medians of batches.
#[derive(Clone, Debug, Serialize)]
pub struct Price {
    /// The kernel's name of the clock.
    pub clock: String,
    /// The kernel's answer through libc, as programs call it.
    pub kernel_ns: Option<f64>,
    /// Ours behind the same call, ordered.
    pub ordered_ns: Option<f64>,
    /// Ours, unordered.
    pub relaxed_ns: Option<f64>,
    /// The kernel's price by ours.
    pub ordered_ratio: Option<f64>,
    /// As above.
    pub relaxed_ratio: Option<f64>,
}

/// Measures them all, in some tens of milliseconds. Ours only where the counter is fit.
pub fn all(fit: Result<(), Unfit>) -> Vec<Price> {
    let linux = linux(fit);
    FOLLOWED.into_iter().map(|clock| price(linux, clock, fit.is_ok())).collect()
}

const CALLS: u64 = 2_000;
const ROUNDS: usize = 31;

fn linux(fit: Result<(), Unfit>) -> Linux {
    if fit == Err(FORBIDDEN) { Linux::system_calls_only() } else { Linux::find() }
}

/// What one way to read a clock costs, in nanoseconds; `None` where it does not work.
pub fn one(way: &dyn Loops) -> Option<f64> {
    let linux = linux(fit());
    way.value().ok()?;
    let [costs] = batches(linux, [way], CALLS, ROUNDS)?;
    stats::median(&costs)
}

/// What the kernel's answer for a clock costs, through libc, in nanoseconds.
pub fn kernel_ns(clock: ClockId) -> Option<f64> {
    one(&*called(linux(fit()), clock))
}

/// What a read of a clock that is followed costs, as [`all`] measures it.
pub fn of(clock: ClockId) -> Price {
    let fit = fit();
    price(linux(fit), clock, fit.is_ok())
}

fn price(linux: Linux, clock: ClockId, is_fit: bool) -> Price {
    let kernel = called(linux, clock);
    let (ordered, relaxed) = (Imaged::new(clock, false), Imaged::new(clock, true));
    // Where the kernel lacks the clock there is nothing to measure.
    let costs: [Option<f64>; 3] = if kernel.value().is_err() {
        [None; 3]
    } else if is_fit && begin(clock) {
        let costs = batches(linux, [&*kernel, &ordered, &relaxed], CALLS, ROUNDS);
        costs.map_or([None; 3], |costs| costs.map(|costs| stats::median(&costs)))
    } else {
        let costs = batches(linux, [&*kernel], CALLS, ROUNDS);
        [costs.and_then(|[costs]| stats::median(&costs)), None, None]
    };
    let [kernel_ns, ordered_ns, relaxed_ns] = costs;
    let ratio = |ours: Option<f64>| Some(kernel_ns? / ours?);
    Price {
        clock: clock.name().map_or_else(String::new, |name| format!("CLOCK_{name}")),
        kernel_ns,
        ordered_ns,
        relaxed_ns,
        ordered_ratio: ratio(ordered_ns),
        relaxed_ratio: ratio(relaxed_ns),
    }
}

/// Reads a clock until the counter answers; whether it does.
fn begin(clock: ClockId) -> bool {
    // 1.2 ms of reading as a rule; a machine on which it does not come needs not be waited for.
    (0..2_000_000).any(|_| {
        Imaged::CLOCK.reading(clock).is_ok_and(|reading| reading.origin == Origin::Counter)
    })
}
