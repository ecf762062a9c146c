//! What a call costs on this machine, as it is and as it would be otherwise.
//!
//! Measured in this process, after the program has ended. Must never be taken for what the program itself paid: its
//! caches and its processor were its own.

use crate::prices;
use crate::profile::calls::Call;
use crate::reads::{counted, timed};
use clockwise_core::clock::FOLLOWED;
use clockwise_core::kernel::{ClockId, System};
use std::collections::BTreeMap;

/// What one call costs, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// The kernel's answer through libc, as it is.
    pub kernel_ns: Option<f64>,
    /// Through `clockwise run`.
    pub ordered_ns: Option<f64>,
    /// Through `clockwise run --order relaxed`.
    pub relaxed_ns: Option<f64>,
    /// Were a coarse clock asked instead; the call as it is, where there is none for it.
    pub coarse_ns: Option<f64>,
}

/// The clock that a call asks, where it asks one that has a number.
pub const fn clock(call: Call) -> Option<ClockId> {
    Some(match call {
        Call::ClockGettime(id) => ClockId(id),
        Call::Gettimeofday | Call::TimespecGet(1) => ClockId::REALTIME,
        Call::TimespecGet(2) => ClockId::MONOTONIC,
        Call::TimespecGet(3) => ClockId::PROCESS_CPUTIME,
        Call::TimespecGet(4) => ClockId::THREAD_CPUTIME,
        Call::Time => ClockId::REALTIME_COARSE,
        Call::TimespecGet(_) | Call::ClockGetres(_) => return None,
    })
}

/// The coarse clock that tells the same time.
const fn coarse(clock: ClockId) -> Option<ClockId> {
    match clock {
        ClockId::REALTIME => Some(ClockId::REALTIME_COARSE),
        ClockId::MONOTONIC => Some(ClockId::MONOTONIC_COARSE),
        _ => None,
    }
}

/// How far apart the times of a coarse clock are, in nanoseconds.
pub fn coarse_step_ns() -> Option<u64> {
    let step = System.clock_getres(ClockId::MONOTONIC_COARSE).ok()?;
    u64::try_from(step.nanos()).ok()
}

/// Measures each of these calls: some milliseconds a clock.
pub fn measure(calls: impl Iterator<Item = Call>) -> BTreeMap<Call, Cost> {
    let calls: std::collections::BTreeSet<Call> = calls.collect();
    calls.into_iter().map(|call| (call, cost(call))).collect()
}

fn cost(call: Call) -> Cost {
    const SECOND_NS: i64 = 1_000_000_000;
    let kernel_ns = match (call, clock(call)) {
        (Call::Gettimeofday, _) => prices::one(&timed(crate::os::gettimeofday)),
        (Call::Time, _) => prices::one(&counted::<false>(SECOND_NS, || Ok(crate::os::time()))),
        (Call::ClockGetres(id), _) => {
            prices::one(&timed(move || crate::os::clock_getres(ClockId(id))))
        }
        // A number beyond those is a process's or a thread's own, which is gone; it costs what the like of it costs.
        (_, Some(ClockId(id))) if id < 0 => prices::kernel_ns(ClockId::THREAD_CPUTIME),
        (_, Some(clock)) => prices::kernel_ns(clock),
        (_, None) => None,
    };
    let asked = clock(call).filter(|_| call != Call::Time);
    let followed = asked.filter(|clock| FOLLOWED.contains(clock)).map(prices::of);
    let ours = |figure: fn(&prices::Price) -> Option<f64>| match &followed {
        // What is not followed is handed on; so is all where the counter may not stand in for the kernel.
        None => kernel_ns,
        Some(price) => figure(price).or(kernel_ns),
    };
    Cost {
        kernel_ns,
        ordered_ns: ours(|price| price.ordered_ns),
        relaxed_ns: ours(|price| price.relaxed_ns),
        coarse_ns: asked.and_then(coarse).map_or(kernel_ns, prices::kernel_ns),
    }
}
