//! The result of a run as data: what every format is made from, and what `--save` writes.
//!
//! Field names carry their unit last. A figure that does not exist is `null` beside a reason, never
//! zero and never a start value. A change that would mislead a reader of old files raises [`VERSION`].

use crate::machine::Machine;
use crate::notes::Note;
use crate::sources::Via;
use serde::Serialize;

/// Version of the schema.
pub const VERSION: u32 = 1;

/// A whole run.
#[derive(Debug, Serialize)]
pub struct Report {
    /// `clockwise.bench`.
    pub schema: &'static str,
    /// [`VERSION`].
    pub version: u32,
    /// Version of the tool.
    pub tool_version: &'static str,
    /// Everything that a figure must be read with.
    pub machine: Machine,
    /// The counter's measured rate.
    pub counter: CounterRate,
    /// How it was measured.
    pub settings: Settings,
    /// What to know beside the figures.
    pub notes: Vec<NoteText>,
    /// One entry a source, cheapest first, those without a figure last.
    pub sources: Vec<Row>,
    #[serde(skip)]
    /// The notes as data.
    pub raised: Vec<Note>,
}

/// The counter's rate.
#[derive(Debug, Serialize)]
pub struct CounterRate {
    /// Ticks per second of the kernel's raw clock, measured over the run. Where the counter is the
    /// clocksource that clock is computed from it: then this is the rate the kernel believes in, and
    /// says nothing of how true that is.
    pub frequency_hz: Option<f64>,
    /// Half the width of the brackets at both ends: how well the rate is known, not how true it is.
    pub uncertainty_ppm: Option<f64>,
    /// What processor or firmware claim.
    pub claimed_hz: Option<u64>,
    /// Whether that agrees with the measurement; `null` where nothing is claimed.
    pub claim_agrees: Option<bool>,
}

/// How a run was made.
#[derive(Debug, Serialize)]
pub struct Settings {
    /// Seed of the order.
    pub seed: u32,
    /// Time allowed.
    pub budget_ns: u64,
    /// Time taken.
    pub elapsed_ns: u64,
    /// How long a batch should take.
    pub batch_target_ns: u64,
    /// Complete rounds of the cost.
    pub rounds: u64,
    /// The share of the time of these rounds in which the measuring thread had a processor.
    pub cpu_share_percent: Option<f64>,
    /// It was ended early by a signal.
    pub interrupted: bool,
    /// Reads per second for which shares were computed.
    pub rate_hz: Option<f64>,
}

/// A note as text.
#[derive(Debug, Serialize)]
pub struct NoteText {
    /// A stable name.
    pub name: &'static str,
    /// In words, with the remedy.
    pub text: String,
    /// The machine breaks a promise: exit 1.
    pub is_fault: bool,
}

/// One source.
#[derive(Debug, Serialize)]
pub struct Row {
    /// `via/clock`.
    pub name: String,
    /// The clock's usual name.
    pub clock: String,
    /// The number `clock_gettime` takes.
    pub clock_id: Option<i32>,
    /// How it is reached.
    pub via: Via,
    /// What is executed or called.
    pub how: String,
    /// What it guarantees.
    pub guarantee: &'static str,
    /// What to know before using it.
    pub caveat: &'static str,
    /// `measured`, `unavailable` or `no sample`.
    pub status: &'static str,
    /// The error number, where the kernel gave one.
    pub errno: Option<i32>,
    /// Its name.
    pub errno_name: Option<String>,
    /// Why there is no figure.
    pub reason: Option<String>,
    /// As fast as the processor can overlap calls.
    pub throughput: Cost,
    /// Each call waits for the result of the last: through its argument, or because its own fence (or
    /// entry into the kernel) waits for everything before it.
    pub latency: Cost,
    /// A fence after each call.
    pub serialised: Cost,
    /// Share of one processor at the asked rate.
    pub share_percent: Option<f64>,
    /// Calls timed one by one.
    pub tail: Tail,
    /// What the clock is worth.
    pub quality: Quality,
    /// Several threads at once.
    pub threads: Vec<Crowd>,
    /// A first call after eviction.
    pub cold: Option<ColdCost>,
}

/// What a call costs. Wall-clock figures are of undisturbed batches, per call.
#[derive(Debug, Default, Serialize)]
pub struct Cost {
    /// Batches that count.
    pub batches: u64,
    /// Calls in a batch.
    pub calls_per_batch: u64,
    /// The best batch.
    pub min_ns: Option<f64>,
    /// The middle one.
    pub median_ns: Option<f64>,
    /// 95 % interval of the median.
    pub median_low_ns: Option<f64>,
    /// 95 % interval of the median.
    pub median_high_ns: Option<f64>,
    /// 99 % of batches are no dearer.
    pub p99_ns: Option<f64>,
    /// The worst batch.
    pub max_ns: Option<f64>,
    /// Median absolute deviation.
    pub mad_ns: Option<f64>,
    /// The best batch in ticks of the counter.
    pub min_ticks: Option<f64>,
    /// The middle one in ticks.
    pub median_ticks: Option<f64>,
    /// 95 % interval of the median, in ticks.
    pub median_low_ticks: Option<f64>,
    /// 95 % interval of the median, in ticks.
    pub median_high_ticks: Option<f64>,
    /// 99 % of batches, in ticks.
    pub p99_ticks: Option<f64>,
    /// The worst batch, in ticks.
    pub max_ticks: Option<f64>,
    /// Median absolute deviation, in ticks.
    pub mad_ticks: Option<f64>,
    /// CPU time of the thread: the median over all batches, disturbed ones included.
    pub cpu_median_ns: Option<f64>,
    /// Against the barest read of the counter.
    pub ratio_bare_counter: Option<f64>,
    /// Against the ordered read of the counter.
    pub ratio_ordered_counter: Option<f64>,
    /// Against `cpuid; rdtsc`.
    pub ratio_cpuid_rdtsc: Option<f64>,
    /// Batches in which the kernel took the processor away.
    pub dropped_preempted: u64,
    /// Batches that ended on another processor.
    pub dropped_migrated: u64,
    /// Batches that took more time than the thread used.
    pub dropped_stolen: u64,
    /// Why there is no figure.
    pub reason: Option<String>,
}

impl Cost {
    /// Batches that do not count, for whatever reason.
    pub fn dropped(&self) -> u64 {
        self.dropped_preempted + self.dropped_migrated + self.dropped_stolen
    }
}

impl Row {
    /// What a call costs, in each mode.
    pub fn costs(&self) -> [&Cost; 3] {
        [&self.throughput, &self.latency, &self.serialised]
    }
}

/// The share of all batches that do not count.
pub fn dropped_percent<'a>(costs: impl IntoIterator<Item = &'a Cost>) -> f64 {
    let (dropped, counted) = costs.into_iter().fold((0, 0), |(dropped, counted), cost| {
        (dropped + cost.dropped(), counted + cost.batches)
    });
    100.0 * dropped as f64 / (dropped + counted).max(1) as f64
}

/// The tail of single calls, the cost of timing them taken off.
#[derive(Debug, Default, Serialize)]
pub struct Tail {
    /// Calls timed, those at a tick or a pre-emption apart.
    pub calls: u64,
    /// Half of them.
    pub median_ns: Option<f64>,
    /// 99 % of them.
    pub p99_ns: Option<f64>,
    /// 99.9 % of them; `null` below 1,000 calls.
    pub p999_ns: Option<f64>,
    /// The worst of them.
    pub worst_ns: Option<f64>,
    /// Long calls that ended at the phase of the kernel's tick; `null` if that cannot be told.
    pub at_tick_calls: Option<u64>,
    /// The worst of those.
    pub at_tick_worst_ns: Option<f64>,
    /// Calls in which the processor was taken away.
    pub preempted_calls: u64,
    /// The worst of those.
    pub preempted_worst_ns: Option<f64>,
    /// Why there is no figure.
    pub reason: Option<String>,
}

/// What a clock is worth.
#[derive(Debug, Default, Serialize)]
pub struct Quality {
    /// By `clock_getres`.
    pub advertised_resolution_ns: Option<u64>,
    /// Readings taken in one thread.
    pub readings: u64,
    /// The smallest step seen.
    pub step_min_ns: Option<f64>,
    /// The middle one.
    pub step_median_ns: Option<f64>,
    /// The commonest.
    pub steps: Vec<Step>,
    /// It stood still for most readings: a step seen is the clock's own. If `false` the clock steps
    /// at least as often as it is read, and its resolution is no worse than the step.
    pub is_coarse: Option<bool>,
    /// Readings equal to the one before.
    pub repeated_percent: Option<f64>,
    /// Readings below the one before.
    pub backward: Option<u64>,
    /// The largest step back.
    pub backward_worst_ns: Option<f64>,
    /// Two threads.
    pub causality: Causality,
    /// Why there is no figure.
    pub reason: Option<String>,
}

/// A step and how often it was seen.
#[derive(Debug, Serialize)]
pub struct Step {
    /// The step.
    pub step_ns: f64,
    /// In ticks, for the counter.
    pub step_ticks: Option<u64>,
    /// How often.
    pub count: u64,
}

/// Readings handed from thread to thread.
#[derive(Debug, Default, Serialize)]
pub struct Causality {
    /// Readings that one thread left and the other met.
    pub hand_overs: Option<u64>,
    /// Of those, how often the other's own next reading was smaller.
    pub violations: Option<u64>,
    /// The same for a million.
    pub violations_per_million: Option<f64>,
    /// By how much at most.
    pub worst_ns: Option<f64>,
    /// The pairs of processors that were compared.
    pub processors: Vec<[usize; 2]>,
    /// Why there is no figure.
    pub reason: Option<String>,
}

/// Several threads at once.
#[derive(Debug, Serialize)]
pub struct Crowd {
    /// How many.
    pub threads: usize,
    /// The median of the threads' medians, per call.
    pub median_ns: Option<f64>,
    /// The slowest thread's.
    pub max_ns: Option<f64>,
    /// Why there is no figure.
    pub reason: Option<String>,
}

/// Medians of first calls.
#[derive(Debug, Serialize)]
pub struct ColdCost {
    /// Everything in the caches.
    pub warm_ns: Option<f64>,
    /// After the core's own caches were overwritten.
    pub after_l2_ns: Option<f64>,
    /// After the last-level cache was overwritten.
    pub after_llc_ns: Option<f64>,
    /// First calls after the last.
    pub samples: u64,
    /// Why one is missing.
    pub reason: Option<String>,
}
