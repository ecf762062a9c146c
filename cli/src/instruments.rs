//! What the measurement itself reads: a reference clock, the counter, and what the kernel knows of
//! the thread. One that does not work here is done without.
//!
//! Must never be read without having been tried (`availability.rs`): a forbidden counter kills.

use crate::os;
use clockwise_core::counter::{Counter, Hardware};
use clockwise_core::kernel::{ClockId, Kernel, Linux, System};

/// What works here.
#[derive(Clone, Copy)]
pub struct Instruments {
    /// The kernel's clocks, by a way that works.
    pub reference: Linux,
    /// The counter, if it can be read.
    pub counter: Option<Hardware>,
    /// Whether the thread's CPU time can be read.
    pub cpu_time: bool,
    /// Whether the count of involuntary context switches can be read.
    pub preemptions: bool,
}

/// One bracketed pair of the counter and the raw clock.
#[derive(Clone, Copy)]
pub struct Anchor {
    /// The middle of the bracket.
    pub ticks: u64,
    /// The clock.
    pub ns: u64,
    /// The whole bracket.
    pub width_ticks: u64,
}

impl Instruments {
    /// MONOTONIC.
    pub fn now_ns(&self) -> u64 {
        self.now(ClockId::MONOTONIC).unwrap_or(0)
    }

    fn now(&self, clock: ClockId) -> Option<u64> {
        self.reference.now(clock).ok().and_then(|time| u64::try_from(time.nanos()).ok())
    }

    /// The counter, ordered; 0 if there is none.
    pub fn ticks(&self) -> u64 {
        self.counter.map_or(0, |counter| counter.ticks().0)
    }

    /// CPU time of this thread.
    pub fn cpu_ns(&self) -> Option<u64> {
        let time = self.cpu_time.then(|| System.clock_gettime(ClockId::THREAD_CPUTIME));
        time?.ok().and_then(|time| u64::try_from(time.nanos()).ok())
    }

    /// How often the processor was taken away from this thread.
    pub fn preemptions(&self) -> Option<i64> {
        if self.preemptions { os::preemptions().ok() } else { None }
    }

    /// The narrowest of many pairs.
    pub fn anchor(&self) -> Option<Anchor> {
        self.counter?;
        let pairs = (0..200).filter_map(|_| {
            let before = self.ticks();
            let ns = self.now(ClockId::MONOTONIC_RAW).or_else(|| self.now(ClockId::MONOTONIC))?;
            let width_ticks = self.ticks().checked_sub(before)?;
            Some(Anchor { ticks: before + width_ticks / 2, ns, width_ticks })
        });
        pairs.min_by_key(|anchor| anchor.width_ticks)
    }
}
