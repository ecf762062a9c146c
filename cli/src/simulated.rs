//! A computed machine: every answer follows from a seed, none from a clock.
//!
//! The hidden `--simulate` runs the whole tool on it, so that every format can be tested to the last
//! character. The costs are plausible figures of a two-processor guest, with noise, pre-empted
//! batches and an auxiliary clock that is missing. Must never be mistaken for a measurement: the
//! machine says that it is simulated wherever its name is printed.

use crate::exchange::HandOver;
use crate::machine::{Fact, Machine};
use crate::reads::Mode;
use crate::sources::{self, Source, Unit, Via};
use crate::world::{Batch, Cold, Long, Singles, Stand, Unavailable, World};
use clockwise_core::kernel::{ClockId, Vdso};

/// Ticks a nanosecond of the simulated counter.
const TICKS_PER_NS: f64 = 2.5;
/// Time of the first reading: 2026-01-01 00:00:00 UTC.
const EPOCH_NS: i64 = 1_767_225_600_000_000_000;
const TICK_NS: u64 = 4_000_000;

/// The computed machine.
pub struct Simulated {
    stand: Stand,
    random: fastrand::Rng,
    /// Its one true time.
    now_ns: f64,
    processors: usize,
    /// The pairs of processors, or why there are none.
    pairs: Result<Vec<(usize, usize)>, String>,
}

impl Simulated {
    /// The machine of this seed.
    pub fn new(seed: u32) -> Self {
        Self::with(seed, Vec::new())
    }

    /// The same with more rows in its table.
    pub fn with(seed: u32, more: Vec<Source>) -> Self {
        let mut sources = sources::table(&Ok(Vdso::NONE));
        sources.extend(more);
        let missing = |source: &Source| match source.clock_id {
            Some(clock) if clock.0 >= 16 => Err(Unavailable {
                errno: Some((22, "EINVAL".to_owned())),
                reason: "needs Linux 6.17 with CONFIG_POSIX_AUX_CLOCKS".to_owned(),
            }),
            Some(ClockId::REALTIME_ALARM | ClockId::BOOTTIME_ALARM) => Err(Unavailable {
                errno: Some((22, "EINVAL".to_owned())),
                reason: "this machine has no real-time clock that can wake it".to_owned(),
            }),
            _ => Ok(()),
        };
        Self {
            stand: Stand {
                available: sources.iter().map(missing).collect(),
                sources,
                machine: machine(),
            },
            random: fastrand::Rng::with_seed(u64::from(seed)),
            now_ns: 0.0,
            processors: 2,
            pairs: Ok(vec![(0, 1)]),
        }
    }

    /// Its description, for tests that need another machine.
    #[cfg(test)]
    pub fn machine_mut(&mut self) -> &mut Machine {
        &mut self.stand.machine
    }

    /// Takes its pairs of processors away, for tests that need another machine.
    #[cfg(test)]
    pub fn without_pairs(&mut self, processors: usize, reason: &str) {
        self.processors = processors;
        self.pairs = Err(reason.to_owned());
    }

    /// What a call costs in nanoseconds: throughput, and what each other mode adds.
    fn cost(&self, source: usize) -> (f64, f64, f64) {
        let source = &self.stand.sources[source];
        let coarse = source.clock.ends_with("_COARSE") || source.clock == "time";
        let cpu = source.clock.contains("CPUTIME");
        match (source.via, source.clock.as_str()) {
            (Via::Base, "empty") => (0.3, 0.9, 3.1),
            (Via::Base, _) => (0.35, 1.4, 3.2),
            (Via::Counter, "rdtsc" | "cntvct") => (9.6, 0.0, 4.0),
            (Via::Counter, "cpuid") => (24_000.0, 2.0, 3.0),
            (Via::Counter, "cpuid;rdtsc") => (24_010.0, 2.0, 3.0),
            (Via::Counter, clock) => (13.0 + 0.5 * clock.len() as f64, 0.5, 2.0),
            (Via::Vdso, _) if cpu => (245.0, 6.0, 4.0),
            (Via::Vdso, _) if coarse => (4.3, 3.0, 4.0),
            (Via::Vdso, _) => (21.0, 1.0, 3.5),
            (Via::Libc, _) if cpu => (247.0, 6.0, 4.0),
            (Via::Libc, _) if coarse => (4.9, 3.0, 4.0),
            (Via::Libc, "getrusage" | "times" | "clock") => (260.0, 3.0, 4.0),
            (Via::Libc, _) => (22.0, 1.0, 3.5),
            (Via::Syscall, _) if cpu => (240.0, 6.0, 4.0),
            (Via::Syscall, _) => (168.0, 4.0, 4.0),
            (Via::Std, _) => (23.0, 1.0, 3.5),
            (Via::Clockwise, clock) if clock.starts_with("recent") => (0.3, 1.0, 3.5),
            (Via::Clockwise, clock) if clock.starts_with("coarse") => (3.7, 3.0, 4.0),
            (Via::Clockwise, clock) if clock.ends_with("relaxed") => (10.4, 1.0, 3.5),
            (Via::Clockwise, _) => (17.5, 1.0, 3.5),
        }
    }

    /// A call's cost in this mode, with a little noise that is never below it.
    fn noisy(&mut self, source: usize, mode: Mode) -> f64 {
        let (throughput, latency, serialised) = self.cost(source);
        let plain = throughput
            + match mode {
                Mode::Throughput => 0.0,
                Mode::Latency => latency,
                Mode::Serialised => serialised,
            };
        plain * (1.0 + 0.02 * self.random.f64().powi(4))
    }

    /// How far apart the values of a source lie.
    fn step_ns(&self, source: usize) -> u64 {
        let clock = self.stand.sources[source].clock.as_str();
        match clock {
            "time" => 1_000_000_000,
            "times" => 10_000_000,
            "gettimeofday" | "getrusage" | "clock" => 1_000,
            _ if clock.ends_with("_COARSE") || clock.starts_with("coarse::") => TICK_NS,
            _ => 1,
        }
    }
}

fn machine() -> Machine {
    let fact = |value: &str| Fact::new(value, "simulated");
    Machine {
        cpu: fact("Simulated Processor"),
        kernel: fact("Linux 6.1.0-sim"),
        hypervisor: fact("KVMKVMKVM"),
        clocksource: fact("tsc"),
        clocksource_available: fact("tsc kvm-clock hpet"),
        counter: fact("readable"),
        frequency_claimed: Fact::missing("simulated", "not told"),
        vdso: fact("present"),
        governor: Fact::missing("simulated", "not there"),
        load: fact("0.10 0.05 0.01"),
        cpus: fact("0-1"),
        ntp: fact("not synchronised, frequency +0.000 ppm, TAI offset not set"),
        seccomp: fact("off"),
        claimed_hz: None,
        counter_trusted: true,
    }
}

impl World for Simulated {
    fn stand(&self) -> &Stand {
        &self.stand
    }

    fn elapsed_ns(&mut self) -> u64 {
        self.now_ns as u64
    }

    fn batch(&mut self, source: usize, mode: Mode, calls: u64) -> Batch {
        let cpu_ns = self.noisy(source, mode) * calls as f64;
        let preempted = self.random.u32(0..60) == 0;
        let stolen = self.random.u32(0..80) == 0;
        let lost_ns = if preempted { 3e6 } else { 0.0 } + if stolen { 40_000.0 } else { 0.0 };
        let wall_ns = cpu_ns + lost_ns;
        self.now_ns += wall_ns + 1_000.0;
        let ticks = Some(wall_ns * TICKS_PER_NS);
        let migrated = self.random.u32(0..500) == 0;
        Batch { calls, wall_ns, ticks, cpu_ns: Some(cpu_ns), preempted, migrated }
    }

    fn exactly(&mut self, source: usize, calls: u64) -> (Batch, Option<i64>) {
        let wall_ns = self.noisy(source, Mode::Throughput) * calls as f64;
        self.now_ns += wall_ns;
        let (ticks, cpu_ns) = (Some(wall_ns * TICKS_PER_NS), Some(wall_ns));
        let batch = Batch { calls, wall_ns, ticks, cpu_ns, preempted: false, migrated: false };
        let mut last = [0];
        self.values(source, &mut last);
        (batch, Some(last[0]))
    }

    fn singles(&mut self, source: usize, count: usize) -> Singles {
        let mut singles = Singles::default();
        for _ in 0..count {
            let mut ns = self.noisy(source, Mode::Serialised);
            ns += if self.random.u32(0..2_000) == 0 { 150.0 } else { 0.0 };
            let tick = self.now_ns as u64 / TICK_NS;
            self.now_ns += ns + 40.0;
            if self.now_ns as u64 / TICK_NS == tick {
                singles.calls.push(ns);
            } else {
                self.now_ns += 3_000.0;
                singles.long.push(Long { ns: ns + 3_000.0, end_ns: self.now_ns as u64, cpu: 0 });
            }
        }
        singles
    }

    fn values(&mut self, source: usize, out: &mut [i64]) -> usize {
        let (throughput, _, _) = self.cost(source);
        let step = self.step_ns(source) as i64;
        let ticks = self.stand.sources[source].unit == Unit::Ticks;
        for value in out.iter_mut() {
            self.now_ns += throughput * (1.0 + 0.05 * self.random.f64());
            *value = if ticks {
                // The counter moves in steps of 26.
                (self.now_ns * TICKS_PER_NS) as i64 / 26 * 26
            } else {
                (EPOCH_NS + self.now_ns as i64) / step * step
            };
        }
        out.len()
    }

    fn advertised_ns(&self, source: usize) -> Option<u64> {
        self.stand.sources[source].clock_id.map(|_| match self.step_ns(source) {
            TICK_NS => TICK_NS,
            _ => 1,
        })
    }

    fn tick_period_ns(&self) -> Option<u64> {
        Some(TICK_NS)
    }

    fn preemptions(&mut self) -> Option<i64> {
        Some(0)
    }

    fn cpu_ns(&mut self) -> Option<u64> {
        Some(self.now_ns as u64)
    }

    fn processors(&self) -> usize {
        self.processors
    }

    fn can_thread(&self) -> Result<(), String> {
        Ok(())
    }

    fn pairs(&self) -> Result<Vec<(usize, usize)>, String> {
        self.pairs.clone()
    }

    fn hand_over(
        &mut self,
        source: usize,
        _pair: (usize, usize),
        ns: u64,
    ) -> Result<HandOver, String> {
        self.now_ns += ns as f64;
        let count = (2.0 * ns as f64 / (self.cost(source).0 + 150.0)) as u64;
        let clock = self.stand.sources[source].clock.as_str();
        let unordered = matches!(clock, "rdtsc" | "cntvct") || clock.ends_with("_relaxed");
        let violations = if unordered { count / 2 } else { 0 };
        Ok(HandOver { count, violations, worst: if violations > 0 { 298 } else { 0 } })
    }

    fn together(
        &mut self,
        source: usize,
        threads: usize,
        calls: u64,
        batches: usize,
    ) -> Result<Vec<f64>, String> {
        let crowd = (threads as f64 / 2.0).max(1.0);
        let one = self.noisy(source, Mode::Throughput) * crowd;
        self.now_ns += one * calls as f64 * batches as f64;
        Ok((0..threads).map(|_| self.noisy(source, Mode::Throughput) * crowd).collect())
    }

    fn can_evict(&self) -> Result<(), String> {
        Ok(())
    }

    fn cold(&mut self, source: usize, cold: Cold) -> Result<f64, String> {
        let warm = self.noisy(source, Mode::Serialised);
        let (extra, walk_ns) = match cold {
            Cold::Warm => (0.0, 1e3),
            Cold::Level2 => (60.0, 1e5),
            Cold::LastLevel => (1_100.0, 1e6),
        };
        self.now_ns += warm + walk_ns;
        Ok(warm + extra * (1.0 + 0.1 * self.random.f64()))
    }

    fn frequency(&mut self) -> Option<(f64, f64)> {
        Some((TICKS_PER_NS * 1e9, 0.5))
    }
}
