//! The door between measuring and the machine: what `measure.rs` asks of it.
//!
//! Two worlds implement it: `real.rs`, and `simulated.rs`, which computes every answer from a seed
//! so that the whole tool can be tested to the last character. Everything that decides, counts or
//! prints is on this side of the door. Must never hold policy: a world answers, it does not choose.

use crate::exchange::HandOver;
use crate::machine::Machine;
use crate::reads::Mode;
use crate::sources::Source;

/// A batch of calls and what happened to the thread meanwhile.
#[derive(Clone, Copy, Debug)]
pub struct Batch {
    /// How many calls.
    pub calls: u64,
    /// Elapsed time.
    pub wall_ns: f64,
    /// Elapsed ticks of the counter, if it can be read.
    pub ticks: Option<f64>,
    /// CPU time of the thread, if it can be read.
    pub cpu_ns: Option<f64>,
    /// The kernel took the processor away meanwhile.
    pub preempted: bool,
    /// The thread ended on another processor than it began on.
    pub migrated: bool,
}

/// Calls timed one by one, the cost of timing them taken off.
#[derive(Clone, Debug, Default)]
pub struct Singles {
    /// What each took, in nanoseconds.
    pub calls: Vec<f64>,
    /// Those that took far longer than the shortest.
    pub long: Vec<Long>,
    /// How often the kernel took the processor away meanwhile: so many of the longest are not the
    /// source's.
    pub preempted: usize,
}

/// A call that took far longer than others: something came between.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Long {
    /// How long it took.
    pub ns: f64,
    /// When it ended, on a clock that the kernel's ticks are regular on.
    pub end_ns: u64,
    /// The processor it ran on.
    pub cpu: usize,
}

/// Beyond the shortest of a block of calls, from here on a call is called long.
pub const LONG_NS: f64 = 2_000.0;

/// How far out of the caches a source is driven before a first call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cold {
    /// Everything in place.
    Warm,
    /// Out of the core's own caches (L2).
    Level2,
    /// Out of all caches.
    LastLevel,
}

/// Why a source cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable {
    /// The error number and its name, where the kernel gave one.
    pub errno: Option<(i32, String)>,
    /// In words.
    pub reason: String,
}

/// What is known of a machine before anything is measured.
pub struct Stand {
    /// The table, in its own order.
    pub sources: Vec<Source>,
    /// By source: whether it can be read here.
    pub available: Vec<Result<(), Unavailable>>,
    /// What machine this is.
    pub machine: Machine,
}

/// A machine to measure.
pub trait World {
    /// What is known before.
    fn stand(&self) -> &Stand;
    /// The table, in its own order.
    fn sources(&self) -> &[Source] {
        &self.stand().sources
    }
    /// Whether a source can be read here.
    fn available(&self, source: usize) -> Result<(), &Unavailable> {
        self.stand().available[source].as_ref().copied()
    }
    /// What machine this is.
    fn machine(&self) -> &Machine {
        &self.stand().machine
    }
    /// Time since the world began, for budgets and progress.
    fn elapsed_ns(&mut self) -> u64;
    /// Runs one batch.
    fn batch(&mut self, source: usize, mode: Mode, calls: u64) -> Batch;
    /// Runs exactly `calls` calls, at least one, and gives the value of the last of them.
    fn exactly(&mut self, source: usize, calls: u64) -> (Batch, Option<i64>);
    /// Times `count` calls one by one.
    fn singles(&mut self, source: usize, count: usize) -> Singles;
    /// Reads the source until `out` is full; how many readings there are.
    fn values(&mut self, source: usize, out: &mut [i64]) -> usize;
    /// The resolution that the kernel advertises for the source's clock.
    fn advertised_ns(&self, source: usize) -> Option<u64>;
    /// The period of the kernel's tick, if it has one that can be told.
    fn tick_period_ns(&self) -> Option<u64>;
    /// How often the processor was taken away from the measuring thread, if that can be told.
    fn preemptions(&mut self) -> Option<i64>;
    /// CPU time of the measuring thread so far.
    fn cpu_ns(&mut self) -> Option<u64>;
    /// How many processors there are to use.
    fn processors(&self) -> usize;
    /// Whether measuring threads can be started and kept on a processor.
    fn can_thread(&self) -> Result<(), String>;
    /// Pairs of processors to compare, the farthest apart first; or why there is none.
    fn pairs(&self) -> Result<Vec<(usize, usize)>, String>;
    /// Threads on two processors hand each other readings for `ns`; or why that cannot be done.
    fn hand_over(
        &mut self,
        source: usize,
        pair: (usize, usize),
        ns: u64,
    ) -> Result<HandOver, String>;
    /// `threads` threads run `batches` batches of `calls` calls at once: the median nanoseconds a
    /// call of each.
    fn together(
        &mut self,
        source: usize,
        threads: usize,
        calls: u64,
        batches: usize,
    ) -> Result<Vec<f64>, String>;
    /// Whether first calls after eviction can be measured at all, found out without doing it.
    fn can_evict(&self) -> Result<(), String>;
    /// A first call after eviction; or why that cannot be done.
    fn cold(&mut self, source: usize, cold: Cold) -> Result<f64, String>;
    /// Ticks per second, measured since the world began, and the uncertainty in ppm.
    fn frequency(&mut self) -> Option<(f64, f64)>;
}
