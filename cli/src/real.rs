//! The real machine: the world that runs the loops, times them, and starts the threads.
//!
//! Must never decide which samples count, nor keep any.

use crate::availability::{THREAD_STACK, Tried, try_out, try_start};
use crate::exchange::{Exchange, HandOver};
use crate::instruments::Instruments;
use crate::machine::{Machine, Root, cache_bytes, cpu_list};
use crate::memory;
use crate::os;
use crate::pair::Pair;
use crate::reads::{Loops, Mode};
use crate::sources::{self, Source};
use crate::world::{Batch, Cold, LONG_NS, Long, Singles, Stand, World};
use anyhow::{Result, bail};
use clockwise_core::counter::Hardware;
use clockwise_core::kernel::{ClockId, Vdso};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicIsize, Ordering};

/// The machine that the tool runs on.
pub struct Real {
    stand: Stand,
    cpus: Vec<usize>,
    threads: Result<(), String>,
    resolutions: BTreeMap<ClockId, u64>,
    instruments: Instruments,
    timing: Timing,
    start_ns: u64,
    anchor: Option<Pair>,
    /// The counter's frequency in hertz, and how long after the start it was measured.
    hz: Option<(f64, u64)>,
    evictor: Option<(Vec<u64>, Caches)>,
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
        Self::with(cpus, Vec::new())
    }

    /// The same with more rows in its table.
    ///
    /// # Errors
    /// As above.
    pub fn with(cpus: Option<&[usize]>, more: Vec<Source>) -> Result<Self> {
        try_start()?;
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
        let mut sources = sources::table(&vdso);
        sources.extend(more);
        let machine =
            Machine::read(&Root::real(), vdso.as_ref().map(|_| ()).map_err(String::as_str), &cpus);
        let Tried { instruments, threads, resolutions, available } =
            try_out(&sources, counter.ok(), &machine, &cpus)?;

        let mut real = Self {
            stand: Stand { sources, available, machine },
            cpus,
            threads,
            resolutions,
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
            single: least(&mut (0..256).map(|_| self.time_one(nothing))).unwrap_or(0.0),
        };
    }

    /// The source that does nothing.
    fn nothing(&self) -> usize {
        self.stand.sources.iter().position(|source| source.name == "base/empty").unwrap_or(0)
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
        let cpu_ns =
            instruments.cpu_ns().zip(cpu_ns).map(|(after, before)| after.saturating_sub(before));
        Batch {
            calls,
            wall_ns: (ns as f64 - self.timing.wall_ns).max(0.0),
            ticks: self.instruments.counter.map(|_| (ticks as f64 - self.timing.ticks).max(0.0)),
            cpu_ns: cpu_ns.map(|ns| (ns as f64 - self.timing.cpu_ns).max(0.0)),
            preempted: instruments.preemptions() != preempted,
            migrated: os::current_cpu() != cpu,
        }
    }

    /// Times one call: ticks where there is a counter, else nanoseconds. Reads nothing else: after an
    /// eviction the vDSO would be warm if it were read for any other purpose.
    #[inline(never)]
    fn time_one(&self, source: usize) -> f64 {
        let Ok(loops) = &self.stand.sources[source].loops else { return 0.0 };
        let instruments = &self.instruments;
        let taken = if instruments.counter.is_some() {
            let before = instruments.ticks();
            loops.one();
            instruments.ticks().saturating_sub(before)
        } else {
            let before = instruments.now_ns();
            loops.one();
            instruments.now_ns().saturating_sub(before)
        };
        taken as f64
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
        if cold == Cold::Warm {
            return Ok(());
        }
        let evictor = match &mut self.evictor {
            Some(evictor) => evictor,
            none => {
                let root = Root::real();
                let caches = Caches::of(&root)?;
                none.insert((memory::taken(&root, caches.walk())?, caches))
            }
        };
        let (memory, caches) = evictor;
        let words = match cold {
            Cold::LastLevel => memory.len(),
            _ => memory.len().min(4 * caches.level2 as usize / 8),
        };
        let mut sum = 0u64;
        for line in memory[..words].chunks(8) {
            sum = sum.wrapping_add(line[0]);
        }
        std::hint::black_box(sum);
        Ok(())
    }

    fn loops(&self, source: usize) -> Result<&dyn Loops, String> {
        self.stand.sources[source].loops.as_ref().map(AsRef::as_ref).map_err(Clone::clone)
    }

    /// One thread on each of `cpus` does `work`, which is told which of them it is; `meanwhile` is done
    /// here. Their results. Where not all can be started, `cancel` must make the others end.
    fn on_processors<T: Send>(
        &self,
        cpus: &[usize],
        work: &(impl Fn(usize) -> T + Sync),
        meanwhile: impl FnOnce(),
        cancel: impl Fn(),
    ) -> Result<Vec<T>, String> {
        self.threads.clone()?;
        // Signed: where not all can start, those that come after it was set to 0 take it below.
        let waiting = AtomicIsize::new(isize::try_from(cpus.len()).unwrap_or(isize::MAX));
        std::thread::scope(|scope| {
            let mut threads = Vec::with_capacity(cpus.len());
            let mut failed = None;
            for (side, &cpu) in cpus.iter().enumerate() {
                let waiting = &waiting;
                let thread = std::thread::Builder::new().stack_size(THREAD_STACK);
                let spawned = thread.spawn_scoped(scope, move || {
                    let pinned = os::pin(&[cpu]);
                    waiting.fetch_sub(1, Ordering::AcqRel);
                    while waiting.load(Ordering::Acquire) > 0 {
                        std::thread::yield_now();
                    }
                    let result = work(side);
                    pinned.map(|()| result).map_err(|errno| {
                        format!("a thread cannot be kept on processor {cpu}: {errno}")
                    })
                });
                match spawned {
                    Ok(thread) => threads.push(thread),
                    Err(error) => {
                        waiting.store(0, Ordering::Release);
                        cancel();
                        failed = Some(format!("a measuring thread cannot start: {error}"));
                        break;
                    }
                }
            }
            meanwhile();
            let join = |thread: std::thread::ScopedJoinHandle<'_, Result<T, String>>| {
                thread.join().unwrap_or_else(|_| Err("a measuring thread panicked".to_owned()))
            };
            let results: Result<Vec<T>, String> = threads.into_iter().map(join).collect();
            failed.map_or(results, Err)
        })
    }

    /// Waits for `ns` by the reference clock.
    fn wait(&self, ns: u64) {
        let until_ns = self.instruments.now_ns() + ns;
        loop {
            match until_ns.saturating_sub(self.instruments.now_ns()) {
                0 => return,
                left_ns => os::pause(left_ns),
            }
        }
    }
}

/// Sizes in bytes.
struct Caches {
    level2: u64,
    last: u64,
}

impl Caches {
    fn of(root: &Root) -> Result<Self, String> {
        let last = cache_bytes(root, None).ok_or("the sizes of the caches are not told in /sys")?;
        Ok(Self { level2: cache_bytes(root, Some(2)).unwrap_or(2 << 20), last })
    }

    /// How much is walked over to evict all of it.
    fn walk(&self) -> u64 {
        (2 * self.last).max(4 * self.level2)
    }
}

impl World for Real {
    fn stand(&self) -> &Stand {
        &self.stand
    }

    fn elapsed_ns(&mut self) -> u64 {
        self.instruments.now_ns().saturating_sub(self.start_ns)
    }

    fn batch(&mut self, source: usize, mode: Mode, calls: u64) -> Batch {
        let Ok(loops) = self.loops(source) else { return self.bracket(calls, || {}) };
        self.bracket(calls, || loops.batch(mode, calls))
    }

    fn exactly(&mut self, source: usize, calls: u64) -> (Batch, Option<i64>) {
        let Ok(loops) = self.loops(source) else { return (self.bracket(calls, || {}), None) };
        let mut last = None;
        let batch = self.bracket(calls, || {
            loops.batch(Mode::Throughput, calls.saturating_sub(1));
            last = loops.value().ok();
        });
        (batch, last)
    }

    fn singles(&mut self, source: usize, count: usize) -> Singles {
        let preemptions = self.instruments.preemptions();
        let hz = self.hz();
        let long = hz.map_or(LONG_NS, |hz| LONG_NS * hz / 1e9);
        let mut least = f64::INFINITY;
        let mut taken: Vec<(f64, Option<u64>)> = Vec::with_capacity(count);
        for _ in 0..count {
            let one = self.time_one(source);
            least = least.min(one);
            // Only then, and outside the time: the end of a long call is wanted at once.
            taken.push((one, (one > least + long).then(|| self.instruments.now_ns())));
        }
        let cpu = os::current_cpu().unwrap_or(0);
        let times = self.instruments.preemptions().zip(preemptions).map(|(now, then)| now - then);
        let preempted = usize::try_from(times.unwrap_or(0)).unwrap_or(0);
        let mut singles = Singles { preempted, ..Singles::default() };
        for (taken, end) in taken {
            let ns = self.single_ns(taken);
            match end.filter(|_| taken > least + long) {
                Some(end_ns) => singles.long.push(Long { ns, end_ns, cpu }),
                None => singles.calls.push(ns),
            }
        }
        singles
    }

    fn values(&mut self, source: usize, out: &mut [i64]) -> usize {
        self.loops(source).map_or(0, |loops| loops.values(out))
    }

    fn advertised_ns(&self, source: usize) -> Option<u64> {
        self.available(source).ok()?;
        self.resolutions.get(&self.stand.sources[source].clock_id?).copied()
    }

    fn tick_period_ns(&self) -> Option<u64> {
        self.resolutions.get(&ClockId::MONOTONIC_COARSE).copied().filter(|&period_ns| period_ns > 1)
    }

    fn preemptions(&mut self) -> Option<i64> {
        self.instruments.preemptions()
    }

    fn cpu_ns(&mut self) -> Option<u64> {
        self.instruments.cpu_ns()
    }

    fn processors(&self) -> usize {
        self.cpus.len()
    }

    fn can_thread(&self) -> Result<(), String> {
        self.threads.clone()
    }

    fn pairs(&self) -> Result<Vec<(usize, usize)>, String> {
        self.threads.clone()?;
        // Far apart in number is far apart in the machine, as a rule: first and last, halves, and
        // neighbours, which may share a core.
        let (cpus, count) = (&self.cpus, self.cpus.len());
        if count < 2 {
            return Err("needs two processors, and this process may use one".to_owned());
        }
        let mut pairs =
            vec![(cpus[0], cpus[count - 1]), (cpus[0], cpus[count / 2]), (cpus[0], cpus[1])];
        pairs.dedup();
        Ok(pairs)
    }

    fn hand_over(
        &mut self,
        source: usize,
        pair: (usize, usize),
        ns: u64,
    ) -> Result<HandOver, String> {
        let loops = self.loops(source)?;
        let exchange = Exchange::default();
        let work = |side: usize| {
            let seen = loops.exchange(&exchange, side);
            // One that could not go on must not leave the other alone.
            exchange.stop();
            seen
        };
        let wait = || {
            self.wait(ns);
            exchange.stop();
        };
        let seen = self.on_processors(&[pair.0, pair.1], &work, wait, || exchange.stop())?;
        Ok(seen.into_iter().fold(HandOver::default(), HandOver::and))
    }

    fn together(
        &mut self,
        source: usize,
        threads: usize,
        calls: u64,
        batches: usize,
    ) -> Result<Vec<f64>, String> {
        let loops = self.loops(source)?;
        let cpus = self.cpus.get(..threads).ok_or("there are fewer processors than threads")?;
        // Signed: a thread that is done takes it below what a cancelling one set.
        let busy = AtomicIsize::new(isize::try_from(threads).unwrap_or(isize::MAX));
        let work = |_| {
            let mut samples = Vec::with_capacity(batches);
            let mut disturbed = 0;
            // Those that are done go on until all are: nobody must measure alone.
            while busy.load(Ordering::Acquire) > 0 {
                let batch = self.bracket(calls, || loops.batch(Mode::Throughput, calls));
                // A batch without its processor does not count, unless nearly all are such.
                if batch.preempted && disturbed < batches {
                    disturbed += 1;
                } else if samples.len() < batches {
                    samples.push(batch.wall_ns / calls as f64);
                    if samples.len() == batches {
                        busy.fetch_sub(1, Ordering::AcqRel);
                    }
                }
            }
            crate::stats::median(&samples).unwrap_or(0.0)
        };
        self.on_processors(cpus, &work, || {}, || busy.store(0, Ordering::Release))
    }

    fn can_evict(&self) -> Result<(), String> {
        if self.instruments.counter.is_none() {
            return Err("needs the counter: any other clock would be cold itself".to_owned());
        }
        let root = Root::real();
        memory::can_be_taken(&root, Caches::of(&root)?.walk())
    }

    fn cold(&mut self, source: usize, cold: Cold) -> Result<f64, String> {
        const TRIES: usize = 3;
        let nothing = self.nothing();
        let mut taken = 0.0;
        for _ in 0..TRIES {
            // Some calls first, so that only what the eviction takes is missing afterwards.
            for _ in 0..16 {
                self.time_one(source);
            }
            self.evict(cold)?;
            // The timing's own code and data come back by timing nothing, the table's row by looking
            // into it: what is left cold is what the call itself touches.
            for _ in 0..2 {
                self.time_one(nothing);
                std::hint::black_box(self.loops(source)?.waits());
            }
            let preemptions = self.instruments.preemptions();
            taken = self.time_one(source);
            if self.instruments.preemptions() == preemptions {
                break;
            }
        }
        Ok(self.single_ns(taken))
    }

    fn frequency(&mut self) -> Option<(f64, f64)> {
        let (first, last) = (self.anchor?, self.instruments.anchor()?);
        let ticks = last.ticks().checked_sub(first.ticks())? as f64;
        let ns = last.nanos.checked_sub(first.nanos).filter(|&ns| ns > 0)? as f64;
        // Each reading lies somewhere in its bracket, half its width either way; and a tick is the least
        // that a bracket can tell.
        let error = (first.width() + last.width() + 2) as f64 / 2.0;
        (ticks > 0.0).then(|| (ticks * 1e9 / ns, error / ticks * 1e6))
    }
}
