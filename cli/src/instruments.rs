//! What the measurement itself reads: a reference clock, the counter, and what the kernel knows of
//! the thread. One that does not work here is done without.
//!
//! Must never be read without having been tried (`availability.rs`): a forbidden counter kills.

use crate::os;
use crate::pair::Pair;
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
    pub fn anchor(&self) -> Option<Pair> {
        const BRACKETS: u32 = 200;
        let counter = self.counter?;
        let pair = |clock| Pair::take(&counter, &self.reference, clock, BRACKETS);
        pair(ClockId::MONOTONIC_RAW).or_else(|| pair(ClockId::MONOTONIC))
    }
}
