//! The real machine: the world that runs the loops, times them, and starts the threads.
//!
//! Must never decide which samples count, nor keep any.

use crate::availability::try_out;
use crate::instruments::{Anchor, Instruments};
use crate::machine::{Machine, Root, cache_bytes, cpu_list};
use crate::os;
use crate::reads::{HandOver, Loops, Mode};
use crate::sources::{self, Source};
use crate::world::{Batch, Cold, Single, Singles, Unavailable, World};
use anyhow::{Result, bail};
use clockwise_core::counter::Hardware;
use clockwise_core::kernel::Vdso;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicU64, Ordering};

/// The machine that the tool runs on.
pub struct Real {
    sources: Vec<Source>,
    available: Vec<Result<(), Unavailable>>,
    machine: Machine,
    cpus: Vec<usize>,
    instruments: Instruments,
    timing: Timing,
    start_ns: u64,
    anchor: Option<Anchor>,
    /// The counter's frequency in hertz, and how long after the start it was measured.
    hz: Option<(f64, u64)>,
    evictor: Option<Vec<u64>>,
}

/// What the timing itself costs, taken off every result.
#[derive(Clone, Copy, Default)]
struct Timing {
    wall_ns: f64,
    ticks: f64,
    cpu_ns: f64,
    /// Of one call: nanoseconds or ticks, as `time_one` gives them.
    single: f64,
}

impl Real {
    /// Finds out what can be read here. `cpus`: those to use, all that are allowed if `None`.
    ///
    /// Must be called before any thread is started.
    ///
    /// # Errors
    /// If the processors are not allowed, or no clock works to measure against.
    pub fn new(cpus: Option<&[usize]>) -> Result<Self> {
        let allowed = os::allowed_cpus().unwrap_or_else(|_| vec![0]);
        let cpus = match cpus {
            None => allowed,
            Some(wanted) => {
                if let Some(missing) = wanted.iter().find(|cpu| !allowed.contains(cpu)) {
                    bail!(
                        "processor {missing} is not allowed here; --cpus takes some of {}",
                        cpu_list(&allowed)
                    );
                }
                if let Err(errno) = os::pin(wanted) {
                    bail!("the kernel refused --cpus {}: {errno}", cpu_list(wanted));
                }
                wanted.to_vec()
            }
        };
        let vdso = Vdso::find().map_err(|reason| reason.to_string());
        let counter = Hardware::find();
        let sources = sources::table(&vdso);
        let machine =
            Machine::read(&Root::real(), vdso.as_ref().map(|_| ()).map_err(String::as_str), &cpus);
        let (instruments, available) = try_out(&sources, counter.ok(), &machine)?;

        let mut real = Self {
            sources,
            available,
            machine,
            cpus,
            instruments,
            timing: Timing::default(),
            start_ns: instruments.now_ns(),
            anchor: instruments.anchor(),
            hz: None,
            evictor: None,
        };
        real.calibrate();
        Ok(real)
    }

    /// What the timing itself costs: the least that empty brackets give.
    fn calibrate(&mut self) {
        let empty: Vec<Batch> = (0..64).map(|_| self.bracket(0, || {})).collect();
        let least = |values: &mut dyn Iterator<Item = f64>| {
            Some(values.fold(f64::INFINITY, f64::min)).filter(|least| least.is_finite())
        };
        let nothing = self.nothing();
        self.timing = Timing {
            wall_ns: least(&mut empty.iter().map(|batch| batch.wall_ns)).unwrap_or(0.0),
            ticks: least(&mut empty.iter().filter_map(|batch| batch.ticks)).unwrap_or(0.0),
            cpu_ns: least(&mut empty.iter().filter_map(|batch| batch.cpu_ns)).unwrap_or(0.0),
            single: least(&mut (0..256).map(|_| self.time_one(nothing).0)).unwrap_or(0.0),
        };
    }

    /// The source that does nothing.
    fn nothing(&self) -> usize {
        self.sources.iter().position(|source| source.name == "base/empty").unwrap_or(0)
    }

    /// Runs `work` between readings of all instruments, the finest innermost.
    fn bracket(&self, calls: u64, work: impl FnOnce()) -> Batch {
        let instruments = &self.instruments;
        let (preempted, cpu, cpu_ns) =
            (instruments.preemptions(), os::current_cpu(), instruments.cpu_ns());
        let ns = instruments.now_ns();
        let ticks = instruments.ticks();
        work();
        let ticks = instruments.ticks().saturating_sub(ticks);
        let ns = instruments.now_ns().saturating_sub(ns);
        let cpu_ns = instruments.cpu_ns().zip(cpu_ns).map(|(after, before)| after - before);
        Batch {
            calls,
            wall_ns: (ns as f64 - self.timing.wall_ns).max(0.0),
            ticks: self.instruments.counter.map(|_| (ticks as f64 - self.timing.ticks).max(0.0)),
            cpu_ns: cpu_ns.map(|ns| (ns as f64 - self.timing.cpu_ns).max(0.0)),
            preempted: instruments.preemptions() != preempted,
            migrated: os::current_cpu() != cpu,
        }
    }

    /// Times one call: ticks where there is a counter, else nanoseconds; and whether the tick came.
    #[inline(never)]
    fn time_one(&self, source: usize) -> (f64, bool) {
        let Ok(loops) = &self.sources[source].loops else { return (0.0, false) };
        let instruments = &self.instruments;
        let tick = instruments.tick();
        let taken = if instruments.counter.is_some() {
            let before = instruments.ticks();
            loops.one();
            instruments.ticks().saturating_sub(before)
        } else {
            let before = instruments.now_ns();
            loops.one();
            instruments.now_ns().saturating_sub(before)
        };
        let at_tick = instruments.tick() != tick || self.follows_tick(taken);
        (taken as f64, at_tick)
    }

    /// Whether a call that took long ended shortly after a tick. The coarse clock is moved by one
    /// processor; the interrupt on this one may come a little later, when it has moved already.
    fn follows_tick(&self, taken: u64) -> bool {
        const LONG_NS: f64 = 2_000.0;
        const LATE_NS: f64 = 50_000.0;
        let taken_ns = match self.hz {
            Some((hz, _)) => taken as f64 * 1e9 / hz,
            None => taken as f64,
        };
        let age = || self.instruments.since_tick_ns();
        taken_ns > LONG_NS && age().is_some_and(|age_ns| (age_ns as f64) < LATE_NS + taken_ns)
    }

    fn single_ns(&mut self, taken: f64) -> f64 {
        let net = (taken - self.timing.single).max(0.0);
        self.hz().map_or(net, |hz| net * 1e9 / hz)
    }

    /// The counter's frequency, measured anew whenever the base of the estimate has doubled.
    fn hz(&mut self) -> Option<f64> {
        let elapsed = self.elapsed_ns();
        match self.hz {
            Some((hz, at)) if elapsed < 2 * at => Some(hz),
            _ => {
                let (hz, _) = self.frequency()?;
                self.hz = Some((hz, elapsed));
                Some(hz)
            }
        }
    }

    /// Walks over more memory than the caches hold.
    fn evict(&mut self, cold: Cold) -> Result<(), String> {
        let root = Root::real();
        let level2 = cache_bytes(&root, Some(2)).unwrap_or(2 << 20);
        let last =
            cache_bytes(&root, None).ok_or("the sizes of the caches are not told in /sys")?;
        let evictor = match &mut self.evictor {
            Some(evictor) => evictor,
            none => {
                let bytes = (2 * last).max(4 * level2);
                let room = memory_available(&root);
                if bytes > room / 2 {
                    let (needs, has) = (bytes >> 20, room >> 20);
                    return Err(format!(
                        "evicting the caches takes {needs} MB, and {has} are free"
                    ));
                }
                // Written, not just reserved: untouched pages would all be the one page of zeros.
                none.insert((0..bytes / 8).collect())
            }
        };
        let words = match cold {
            Cold::Warm => 0,
            Cold::Level2 => 4 * level2 / 8,
            Cold::LastLevel => evictor.len() as u64,
        };
        let mut sum = 0u64;
        for line in evictor.chunks(8).take(words as usize / 8) {
            sum = sum.wrapping_add(line[0]);
        }
        std::hint::black_box(sum);
        Ok(())
    }

    fn loops(&self, source: usize) -> Result<&dyn Loops, String> {
        self.sources[source].loops.as_ref().map(AsRef::as_ref).map_err(Clone::clone)
    }

    /// One thread on each of the first `count` processors (again from the first if there are fewer)
    /// does `work`; their results.
    fn on_processors<T: Send>(
        &self,
        count: usize,
        work: &(impl Fn() -> T + Sync),
        meanwhile: impl FnOnce(),
    ) -> Result<Vec<T>, String> {
        // Signed: where not all can start, those that come after it was set to 0 take it below.
        let waiting = AtomicIsize::new(isize::try_from(count).unwrap_or(isize::MAX));
        std::thread::scope(|scope| {
            let mut threads = Vec::with_capacity(count);
            let mut failed = None;
            for i in 0..count {
                let (cpu, waiting) = (self.cpus[i % self.cpus.len()], &waiting);
                let thread = std::thread::Builder::new().stack_size(128 << 10);
                let spawned = thread.spawn_scoped(scope, move || {
                    // Where it cannot be pinned it runs wherever the kernel lets it.
                    let _ = os::pin(&[cpu]);
                    waiting.fetch_sub(1, Ordering::AcqRel);
                    while waiting.load(Ordering::Acquire) > 0 {
                        std::thread::yield_now();
                    }
                    work()
                });
                match spawned {
                    Ok(thread) => threads.push(thread),
                    Err(error) => {
                        waiting.store(0, Ordering::Release);
                        failed = Some(format!("thread {} of {count} cannot start: {error}", i + 1));
                        break;
                    }
                }
            }
            meanwhile();
            let results = threads.into_iter().map(|thread| thread.join());
            let results = results.collect::<Result<Vec<T>, _>>();
            match failed {
                Some(reason) => Err(reason),
                None => results.map_err(|_| "a measuring thread panicked".to_owned()),
            }
        })
    }
}

fn memory_available(root: &Root) -> u64 {
    let text = root.read("/proc/meminfo").value.unwrap_or_default();
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("MemAvailable:"));
    let kilobytes =
        lines.next().and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

impl World for Real {
    fn sources(&self) -> &[Source] {
        &self.sources
    }

    fn available(&self, source: usize) -> Result<(), &Unavailable> {
        self.available[source].as_ref().copied()
    }

    fn machine(&self) -> &Machine {
        &self.machine
    }

    fn elapsed_ns(&mut self) -> u64 {
        self.instruments.now_ns().saturating_sub(self.start_ns)
    }

    fn batch(&mut self, source: usize, mode: Mode, calls: u64) -> Batch {
        let Ok(loops) = self.loops(source) else { return self.bracket(calls, || {}) };
        self.bracket(calls, || loops.batch(mode, calls))
    }

    fn exactly(&mut self, source: usize, calls: u64) -> (Batch, Option<u64>) {
        let Ok(loops) = self.loops(source) else { return (self.bracket(calls, || {}), None) };
        let mut last = None;
        let batch = self.bracket(calls, || {
            loops.batch(Mode::Throughput, calls.saturating_sub(1));
            last = loops.value().ok();
        });
        (batch, last)
    }

    fn singles(&mut self, source: usize, count: usize) -> Singles {
        let before = self.instruments.preemptions();
        let taken: Vec<(f64, bool)> = (0..count).map(|_| self.time_one(source)).collect();
        let preempted = self.instruments.preemptions() != before;
        self.hz();
        let single = |(taken, at_tick)| Single { ns: self.single_ns(taken), at_tick };
        Singles { calls: taken.into_iter().map(single).collect(), preempted }
    }

    fn values(&mut self, source: usize, out: &mut [u64]) -> usize {
        self.loops(source).map_or(0, |loops| loops.values(out))
    }

    fn advertised_ns(&self, source: usize) -> Option<u64> {
        let clock = self.sources[source].clock_id?;
        self.available(source).ok()?;
        u64::try_from(os::clock_getres(clock).ok()?.nanos()).ok()
    }

    fn hand_over(&mut self, source: usize, ns: u64) -> Result<HandOver, String> {
        if self.cpus.len() < 2 {
            return Err("needs two processors, and this process may use one".to_owned());
        }
        let loops = self.loops(source)?;
        let (shared, stop) = (AtomicU64::new(0), AtomicBool::new(false));
        let work = || {
            let seen = loops.hand_over(&shared, &stop);
            // One that could not go on must not leave the other alone.
            stop.store(true, Ordering::Relaxed);
            seen
        };
        let wait = || {
            let until_ns = self.instruments.now_ns() + ns;
            loop {
                match until_ns.saturating_sub(self.instruments.now_ns()) {
                    0 => break,
                    left_ns => os::pause(left_ns),
                }
            }
            stop.store(true, Ordering::Relaxed);
        };
        let seen = self.on_processors(2, &work, wait)?;
        Ok(seen.into_iter().fold(HandOver::default(), |sum, one| HandOver {
            reads: sum.reads + one.reads,
            violations: sum.violations + one.violations,
            worst: sum.worst.max(one.worst),
        }))
    }

    fn together(
        &mut self,
        source: usize,
        threads: usize,
        calls: u64,
        batches: usize,
    ) -> Result<Vec<f64>, String> {
        let loops = self.loops(source)?;
        let work = || {
            let one = |_| {
                let batch = self.bracket(calls, || loops.batch(Mode::Throughput, calls));
                batch.wall_ns / calls as f64
            };
            let samples: Vec<f64> = (0..batches).map(one).collect();
            crate::stats::median(&samples).unwrap_or(0.0)
        };
        self.on_processors(threads, &work, || {})
    }

    fn cold(&mut self, source: usize, cold: Cold) -> Result<f64, String> {
        let nothing = self.nothing();
        // A call or two first, so that only what the eviction takes is missing afterwards.
        self.time_one(source);
        self.evict(cold)?;
        // The timing's own code and data come back by timing nothing, the table's row by looking
        // into it: what is left cold is what the call itself touches.
        for _ in 0..2 {
            self.time_one(nothing);
            std::hint::black_box(self.loops(source)?.waits());
        }
        let (taken, _) = self.time_one(source);
        Ok(self.single_ns(taken))
    }

    fn frequency(&mut self) -> Option<(f64, f64)> {
        let (first, last) = (self.anchor?, self.instruments.anchor()?);
        let ticks = last.ticks.checked_sub(first.ticks)? as f64;
        let ns = last.ns.checked_sub(first.ns).filter(|&ns| ns > 0)? as f64;
        // Each reading lies somewhere in its bracket: half its width either way.
        let error = (first.width_ticks + last.width_ticks) as f64 / 2.0;
        (ticks > 0.0).then(|| (ticks * 1e9 / ns, error / ticks * 1e6))
    }
}
