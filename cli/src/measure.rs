//! The measurement: which batches are run in which order, which of them count, when it ends.
//!
//! Rounds are interleaved: every source takes its turn in each round, in a new shuffled order, so
//! that a disturbance of the machine falls on all of them alike and their ratios hold. A batch is
//! about 0.1 ms: short enough that most escape the kernel's tick and a pre-emption, long enough that
//! reading the timer does not show.
//!
//! Everything here is asked of a `World`; must never read a clock or print.

use crate::exchange::HandOver;
use crate::quality::Ledger;
use crate::reads::Mode;
use crate::samples::Samples;
use crate::sources::{Scope, Unit};
use crate::ticks::Ticks;
use crate::world::{Cold, Long, World};

/// How long a batch should take.
pub const BATCH_NS: f64 = 100_000.0;
/// Readings taken of a source that steps as often as it is read.
const READINGS_MAX: u64 = 40_000;
/// How long sources that stand still are watched for a step: three periods of a 100 Hz tick.
const WATCH_NS: u64 = 32_000_000;
const SECOND_NS: u64 = 1_000_000_000;
/// Calls timed one by one, at most.
const SINGLES_MAX: usize = 20_000;

/// What stands where there was no time for a figure.
pub const OVER: &str = "no sample: the time budget ended before its turn";

/// What to measure.
pub struct Plan {
    /// Time for all of it.
    pub budget_ns: u64,
    /// Seed of the order.
    pub seed: u32,
    /// The sources to report.
    pub selected: Vec<usize>,
    /// Further ones whose cost is needed for ratios.
    pub references: Vec<usize>,
    /// Numbers of threads that call at once.
    pub threads: Vec<usize>,
    /// Also the first call after eviction from the caches.
    pub cold: bool,
}

/// Who watches, and may end it early.
pub trait Watch {
    /// A stage begins.
    fn stage(&mut self, name: &'static str);
    /// The share of the whole that is done.
    fn done(&mut self, share: f64);
    /// Whether to stop with what there is.
    fn interrupted(&self) -> bool;
}

/// All that was found out about one source.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// By [`Mode`].
    pub modes: [Samples; 3],
    /// Calls timed one by one.
    pub singles: Vec<f64>,
    /// Those that the kernel's tick made long; `None` if ticks cannot be told.
    pub at_tick: Option<Vec<f64>>,
    /// Long calls, before they are told apart.
    pub long: Vec<Long>,
    /// The longest calls of blocks in which the processor was taken away.
    pub preempted: Vec<f64>,
    /// Readings in one thread.
    pub ledger: Ledger,
    /// Readings handed between two threads, or why not.
    pub hand_over: Option<Result<HandOver, String>>,
    /// On which pairs of processors.
    pub pairs: Vec<(usize, usize)>,
    /// Per number of threads: nanoseconds a call of each, or why not.
    pub together: Vec<(usize, Result<Vec<f64>, String>)>,
    /// Warm, out of L2, out of all caches: nanoseconds; and why one is missing.
    pub cold: [Vec<f64>; 3],
    /// Why there is no figure after eviction.
    pub cold_reason: Option<String>,
}

impl Findings {
    /// Calls timed one by one so far.
    fn timed(&self) -> usize {
        self.singles.len() + self.long.len() + self.preempted.len()
    }
}

/// The whole.
pub struct Outcome {
    /// By source, of those asked for.
    pub findings: Vec<Findings>,
    /// Complete rounds of the cost.
    pub rounds: u64,
    /// The share of the time of these rounds in which the thread had a processor.
    pub cpu_share: Option<f64>,
    /// It was ended early.
    pub interrupted: bool,
    /// How long it took.
    pub elapsed_ns: u64,
}

/// Runs the plan.
pub fn run(world: &mut dyn World, plan: &Plan, watch: &mut dyn Watch) -> Outcome {
    let start_ns = world.elapsed_ns();
    let sources = world.sources().len();
    let readable = |list: &[usize]| -> Vec<usize> {
        list.iter().copied().filter(|&source| world.available(source).is_ok()).collect()
    };
    let selected = readable(&plan.selected);
    let mut costed = readable(&plan.references);
    costed.retain(|source| !selected.contains(source));
    costed.extend(&selected);
    let mut run = Run {
        world,
        watch,
        random: fastrand::Rng::with_seed(u64::from(plan.seed)),
        findings: vec![Findings::default(); sources],
        start_ns,
        budget_ns: plan.budget_ns,
        interrupted: false,
    };
    let total = 1.0 + extra_weight(plan.threads.len(), plan.cold);
    let mut until = 0.0;
    let mut deadline = |weight: f64| {
        until += weight / total;
        start_ns + (until * plan.budget_ns as f64) as u64
    };

    let cpu_start_ns = run.world.cpu_ns();
    let rounds = run.cost(&costed, deadline(0.55));
    let cost_ns = run.world.elapsed_ns().saturating_sub(start_ns);
    let cpu_ns = run.world.cpu_ns().zip(cpu_start_ns).map(|(now, start)| now.saturating_sub(start));
    let cpu_share = cpu_ns.map(|cpu_ns| cpu_ns as f64 / cost_ns.max(1) as f64);
    run.singles(&selected, deadline(0.1));
    run.readings(&selected, deadline(0.15));
    run.hand_overs(&selected, deadline(0.2));
    for &threads in &plan.threads {
        run.together(&selected, threads, deadline(THREADS_WEIGHT));
    }
    if plan.cold {
        run.cold(&selected, deadline(COLD_WEIGHT));
    }
    let elapsed_ns = run.world.elapsed_ns().saturating_sub(start_ns);
    Outcome { findings: run.findings, rounds, cpu_share, interrupted: run.interrupted, elapsed_ns }
}

/// What each number of threads takes, beside 1 for the ordinary run.
const THREADS_WEIGHT: f64 = 0.25;
/// What the first calls after eviction take.
const COLD_WEIGHT: f64 = 3.0;

/// How much longer a run takes for what is asked beyond the ordinary, as a share of it.
pub fn extra_weight(threads: usize, cold: bool) -> f64 {
    THREADS_WEIGHT * threads as f64 + if cold { COLD_WEIGHT } else { 0.0 }
}

struct Run<'a> {
    world: &'a mut dyn World,
    watch: &'a mut dyn Watch,
    random: fastrand::Rng,
    findings: Vec<Findings>,
    start_ns: u64,
    budget_ns: u64,
    interrupted: bool,
}

impl Run<'_> {
    /// Whether there is time left; tells the watcher.
    fn goes_on(&mut self, deadline_ns: u64) -> bool {
        let now = self.world.elapsed_ns();
        self.watch.done(now.saturating_sub(self.start_ns) as f64 / self.budget_ns.max(1) as f64);
        self.interrupted |= self.watch.interrupted();
        !self.interrupted && now < deadline_ns
    }

    /// The sources in a new order.
    fn shuffled(&mut self, sources: &[usize]) -> Vec<usize> {
        let mut order = sources.to_vec();
        self.random.shuffle(&mut order);
        order
    }

    /// Rounds of batches, every source in every mode.
    fn cost(&mut self, sources: &[usize], deadline_ns: u64) -> u64 {
        self.watch.stage("cost");
        let mut turns: Vec<(usize, Mode)> = Vec::new();
        for &source in sources {
            let waits = self.world.sources()[source].loops.as_ref().is_ok_and(|l| l.waits());
            let modes = Mode::ALL.into_iter().filter(|&mode| waits || mode != Mode::Latency);
            turns.extend(modes.map(|mode| (source, mode)));
        }
        let begin_ns = self.world.elapsed_ns();
        let fair_ns = deadline_ns.saturating_sub(begin_ns) as f64 / turns.len().max(1) as f64;
        let seconds: Vec<usize> =
            sources.iter().copied().filter(|&s| self.steps_by_second(s)).collect();
        let (mut rounds, mut read_ns) = (0, begin_ns);
        while !turns.is_empty() {
            self.random.shuffle(&mut turns);
            for &(source, mode) in &turns {
                if !self.goes_on(deadline_ns) {
                    return rounds;
                }
                let samples = &self.findings[source].modes[mode as usize];
                // A source so dear that it would eat the others' time sits out, but not before it
                // has a median.
                if samples.total_ns > 3.0 * fair_ns && samples.wall_ns.seen() >= 6 {
                    continue;
                }
                self.batch(source, mode, deadline_ns);
            }
            // A clock of whole seconds is read once a round: some round sees it step, unless rounds are
            // so far apart that it may have stepped twice.
            let now = self.world.elapsed_ns();
            for &source in &seconds {
                if now.saturating_sub(read_ns) > SECOND_NS / 2 {
                    self.findings[source].ledger.pause();
                }
                self.read(source, &mut [0]);
            }
            read_ns = now;
            rounds += 1;
        }
        rounds
    }

    fn steps_by_second(&self, source: usize) -> bool {
        self.world.sources()[source].steps_by_second
    }

    fn batch(&mut self, source: usize, mode: Mode, deadline_ns: u64) {
        let mut calls = self.findings[source].modes[mode as usize].calls_per_batch;
        if calls == 0 {
            calls = self.calls_for(source, mode, deadline_ns);
        }
        let batch = self.world.batch(source, mode, calls);
        self.findings[source].modes[mode as usize].add(&batch);
    }

    /// How many calls take about as long as a batch should.
    fn calls_for(&mut self, source: usize, mode: Mode, deadline_ns: u64) -> u64 {
        let mut calls = 1;
        // Each step is at most tenfold: a first call may be hundreds of times dearer than the rest.
        for _ in 0..12 {
            // The shorter of two: one may have been interrupted.
            let first = self.world.batch(source, mode, calls).wall_ns;
            let wall_ns = first.min(self.world.batch(source, mode, calls).wall_ns).max(1.0);
            let factor = BATCH_NS / wall_ns;
            if factor < 2.0 {
                return ((calls as f64 * factor).round() as u64).max(1);
            }
            calls = ((calls as f64 * factor.min(10.0)) as u64).max(calls + 1);
            if !self.goes_on(deadline_ns) {
                break;
            }
        }
        calls
    }

    /// The share of the time up to the deadline for the next of `left` sources: how long it is, and
    /// when it is over.
    fn share(&mut self, deadline_ns: u64, left: usize) -> (u64, u64) {
        let now = self.world.elapsed_ns();
        let share_ns = deadline_ns.saturating_sub(now) / left.max(1) as u64;
        (share_ns, now + share_ns)
    }

    /// Calls timed one by one, for the tail.
    fn singles(&mut self, sources: &[usize], deadline_ns: u64) {
        const BLOCK: usize = 256;
        self.watch.stage("tail");
        for (i, source) in self.shuffled(sources).into_iter().enumerate() {
            let (_, until) = self.share(deadline_ns, sources.len() - i);
            // A call that takes long is not timed in blocks that would outlast its turn.
            let mut block = 1;
            while self.findings[source].timed() < SINGLES_MAX && self.goes_on(until) {
                let mut singles = self.world.singles(source, block);
                let findings = &mut self.findings[source];
                // As many of the longest as the processor was taken away are not the source's.
                singles.long.sort_by(|a, b| b.ns.total_cmp(&a.ns));
                let taken = singles.preempted.min(singles.long.len());
                findings.preempted.extend(singles.long.drain(..taken).map(|call| call.ns));
                findings.singles.extend(singles.calls);
                findings.long.extend(singles.long);
                block = (block * 2).min(BLOCK);
            }
        }
        self.tell_ticks_apart(sources);
    }

    /// Sorts the long calls: those that ended at the phase of the kernel's tick on their processor
    /// are the tick's doing, the others may be the source's.
    fn tell_ticks_apart(&mut self, sources: &[usize]) {
        let period_ns = self.world.tick_period_ns();
        let all: Vec<Long> =
            sources.iter().flat_map(|&source| self.findings[source].long.iter().copied()).collect();
        let told = period_ns.map(|period_ns| Ticks::of(&all, period_ns));
        for &source in sources {
            let findings = &mut self.findings[source];
            let long = std::mem::take(&mut findings.long);
            let (ticks, others): (Vec<Long>, Vec<Long>) =
                long.into_iter().partition(|call| told.as_ref().is_some_and(|told| told.has(call)));
            findings.singles.extend(others.iter().map(|call| call.ns));
            findings.at_tick = period_ns.map(|_| ticks.iter().map(|call| call.ns).collect());
        }
    }

    /// Readings one after the other in this thread: steps, repeats, steps back. Sources that stood
    /// still are then watched together, until each has stepped or three slow ticks are over.
    fn readings(&mut self, sources: &[usize], deadline_ns: u64) {
        self.watch.stage("resolution");
        let sources: Vec<usize> = sources.iter().copied().filter(|&s| self.tells_time(s)).collect();
        let mut values = vec![0; 512];
        let together_ns = deadline_ns.saturating_sub(self.world.elapsed_ns()).min(2 * WATCH_NS) / 2;
        let alone = deadline_ns.saturating_sub(together_ns);
        for (i, source) in self.shuffled(&sources).into_iter().enumerate() {
            let (_, until) = self.share(alone, sources.len() - i);
            if !self.steps_by_second(source) {
                self.findings[source].ledger.pause();
            }
            while self.goes_on(until) && self.findings[source].ledger.readings < READINGS_MAX {
                if self.read(source, &mut values) == 0 {
                    break;
                }
            }
        }
        let mut standing: Vec<usize> =
            sources.into_iter().filter(|&source| !self.steps_by_second(source)).collect();
        // What passed while others were read is not a step.
        standing.iter().for_each(|&source| self.findings[source].ledger.pause());
        let until = self.world.elapsed_ns() + WATCH_NS;
        let mut preemptions = self.world.preemptions();
        loop {
            // A clock moves on while its reader does not run: that is no step of its own either.
            let now = self.world.preemptions();
            if std::mem::replace(&mut preemptions, now) != now {
                standing.iter().for_each(|&source| self.findings[source].ledger.pause());
            }
            standing.retain(|&source| self.findings[source].ledger.forward() < 3);
            if standing.is_empty() || !self.goes_on(until) {
                return;
            }
            // Few readings at a time: all must come round many times within a tick.
            standing.retain(|&source| self.read(source, &mut values[..16]) > 0);
        }
    }

    /// Reads a source until `values` is full and enters that in its ledger, unless the processor was
    /// taken away meanwhile; how many readings.
    fn read(&mut self, source: usize, values: &mut [i64]) -> usize {
        let preemptions = self.world.preemptions();
        let count = self.world.values(source, values);
        let ledger = &mut self.findings[source].ledger;
        if self.world.preemptions() == preemptions {
            values[..count].iter().for_each(|&value| ledger.add(value));
        } else {
            ledger.pause();
        }
        count
    }

    fn tells_time(&self, source: usize) -> bool {
        self.world.sources()[source].unit != Unit::Nothing
    }

    /// Threads on two processors hand each other readings, for each pair of processors in turn.
    fn hand_overs(&mut self, sources: &[usize], deadline_ns: u64) {
        self.watch.stage("causality");
        let shared = |&source: &usize| {
            matches!(self.world.sources()[source].scope, Scope::Machine | Scope::Process)
        };
        let sources: Vec<usize> = sources.iter().copied().filter(shared).collect();
        let pairs = match self.world.pairs() {
            Ok(pairs) => pairs,
            Err(reason) => {
                let not_tried = |&source: &usize| {
                    self.findings[source].hand_over = Some(Err(reason.clone()));
                };
                return sources.iter().for_each(not_tried);
            }
        };
        for (i, &source) in self.shuffled(&sources).iter().enumerate() {
            if !self.goes_on(deadline_ns) {
                return;
            }
            let (left, _) = self.share(deadline_ns, sources.len() - i);
            let ns = left / pairs.len().max(1) as u64;
            let results: Vec<Result<HandOver, String>> =
                pairs.iter().map(|&pair| self.world.hand_over(source, pair, ns)).collect();
            let sum = results.into_iter().reduce(|sum, one| Ok(sum?.and(one?)));
            self.findings[source].hand_over = sum;
            self.findings[source].pairs.clone_from(&pairs);
        }
    }

    /// The cost with several threads calling at once.
    fn together(&mut self, sources: &[usize], threads: usize, deadline_ns: u64) {
        self.watch.stage("threads");
        if let Err(reason) = self.world.can_thread() {
            for &source in sources {
                self.findings[source].together.push((threads, Err(reason.clone())));
            }
            return;
        }
        for (i, &source) in self.shuffled(sources).iter().enumerate() {
            if !self.goes_on(deadline_ns) {
                self.findings[source].together.push((threads, Err(OVER.to_owned())));
                continue;
            }
            let (ns, _) = self.share(deadline_ns, sources.len() - i);
            let calls = self.findings[source].modes[0].calls_per_batch.max(1);
            let batches = (ns as f64 / BATCH_NS).clamp(5.0, 100.0) as usize;
            let result = self.world.together(source, threads, calls, batches);
            self.findings[source].together.push((threads, result));
        }
    }

    /// First calls after eviction, in rounds: each source once before any a second time.
    fn cold(&mut self, sources: &[usize], deadline_ns: u64) {
        const SAMPLES_MAX: usize = 15;
        self.watch.stage("cold");
        if let Err(reason) = self.world.can_evict() {
            for &source in sources {
                self.findings[source].cold_reason = Some(reason.clone());
            }
            return;
        }
        // One level after the other: a walk over all caches would leave the next one to memory too.
        let begin_ns = self.world.elapsed_ns();
        let time_ns = deadline_ns.saturating_sub(begin_ns) as f64;
        'levels: for (level, share) in
            [(Cold::Warm, 0.05), (Cold::Level2, 0.25), (Cold::LastLevel, 1.0)]
        {
            let until = begin_ns + (share * time_ns) as u64;
            for _ in 0..SAMPLES_MAX {
                for source in self.shuffled(sources) {
                    if !self.goes_on(until) {
                        continue 'levels;
                    }
                    match self.world.cold(source, level) {
                        Ok(ns) => self.findings[source].cold[level as usize].push(ns),
                        Err(reason) => self.findings[source].cold_reason = Some(reason),
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
