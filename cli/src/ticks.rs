//! Tells the kernel's tick from other causes of long calls, by its regularity.
//!
//! The tick interrupts a processor once a period, always at the same phase of it; each processor has a
//! phase of its own. Long calls that end at a phase far more often than chance would have it are the
//! doing of the tick, or of another interrupt as regular (a hypervisor's), and not the source's. Pure
//! arithmetic on when calls ended; must never decide by how long they took.

use crate::world::Long;
use std::collections::BTreeMap;

/// How wide a window of the period the tick and its delay may take, as a share of the period.
const WINDOW_SHARE: f64 = 0.03;
/// So many calls beyond what chance puts into a window, and so many times its standard deviation, make
/// it a tick: there are some thirty windows, so the limit must be passed by none of them by chance.
const BEYOND: f64 = 2.0;
const DEVIATIONS: f64 = 4.0;

/// Where the ticks are, by processor.
pub struct Ticks {
    period_ns: u64,
    window_ns: u64,
    /// By processor: the phases, ascending, at which a window begins that is fuller than by chance.
    full: BTreeMap<usize, Vec<u64>>,
}

impl Ticks {
    /// Judges by all long calls.
    pub fn of(all: &[Long], period_ns: u64) -> Self {
        let window_ns = (WINDOW_SHARE * period_ns as f64) as u64;
        let mut phases: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
        for call in all.iter().filter(|_| period_ns > 0) {
            phases.entry(call.cpu).or_default().push(call.end_ns % period_ns);
        }
        let full = phases.into_iter().map(|(cpu, mut phases)| {
            phases.sort_unstable();
            (cpu, full_windows(&phases, window_ns, period_ns))
        });
        Self { period_ns, window_ns, full: full.collect() }
    }

    /// Whether the call ended where a tick of its processor is.
    pub fn has(&self, call: &Long) -> bool {
        let Some(full) = self.full.get(&call.cpu).filter(|full| !full.is_empty()) else {
            return false;
        };
        let phase = call.end_ns % self.period_ns;
        // The last window that begins not after it; before the first, that is the last of all.
        let before = full.partition_point(|&begin| begin <= phase);
        let begin = full[if before == 0 { full.len() - 1 } else { before - 1 }];
        after(begin, phase, self.period_ns) < self.window_ns
    }
}

/// The phases, of those given in order, at which a window begins that is fuller than by chance.
fn full_windows(phases: &[u64], window_ns: u64, period_ns: u64) -> Vec<u64> {
    let count = phases.len();
    let chance = count as f64 * WINDOW_SHARE;
    let limit = chance + BEYOND + DEVIATIONS * chance.sqrt();
    let mut end = 0;
    let mut full = Vec::new();
    for (begin, &phase) in phases.iter().enumerate() {
        // The window's end only moves on, round the period at most once.
        end = end.max(begin);
        while end < begin + count && after(phase, phases[end % count], period_ns) < window_ns {
            end += 1;
        }
        if (end - begin) as f64 > limit {
            full.push(phase);
        }
    }
    full
}

/// How far `phase` lies after `begin`, going round the period.
fn after(begin: u64, phase: u64, period_ns: u64) -> u64 {
    (phase + period_ns - begin) % period_ns
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD_NS: u64 = 4_000_000;

    fn at(cpu: usize, end_ns: u64) -> Long {
        Long { ns: 20_000.0, end_ns, cpu }
    }

    #[test]
    fn calls_at_one_phase_are_the_ticks_and_the_others_are_not() {
        // Round the end of the period, with delays of up to 50 us.
        let ticks: Vec<Long> =
            (0..30).map(|i| at(0, i * PERIOD_NS + 3_980_000 + i * 1_500)).collect();
        let others: Vec<Long> = (0..30).map(|i| at(0, i * 3_217_411 + 500_000)).collect();
        let all: Vec<Long> = ticks.iter().chain(&others).copied().collect();
        let told = Ticks::of(&all, PERIOD_NS);
        assert!(ticks.iter().all(|call| told.has(call)));
        let taken = others.iter().filter(|call| told.has(call)).count();
        assert!(taken <= 3, "{taken}");
    }

    #[test]
    fn each_processor_has_a_phase_of_its_own() {
        let all: Vec<Long> = (0..10)
            .flat_map(|i| [at(0, i * PERIOD_NS + 100_000), at(1, i * PERIOD_NS + 2_100_000)])
            .collect();
        let told = Ticks::of(&all, PERIOD_NS);
        assert!(all.iter().all(|call| told.has(call)));
        assert!(!told.has(&at(1, 100_000)) && !told.has(&at(2, 100_000)));
    }

    #[test]
    fn few_calls_or_calls_anywhere_show_no_tick() {
        let few: Vec<Long> = (0..3).map(|i| at(0, i * PERIOD_NS)).collect();
        assert!(!few.iter().any(|call| Ticks::of(&few, PERIOD_NS).has(call)));
        let anywhere: Vec<Long> = (0..100).map(|i| at(0, i * 40_000)).collect();
        let told = Ticks::of(&anywhere, PERIOD_NS);
        assert!(!anywhere.iter().any(|call| told.has(call)));
        assert!(!Ticks::of(&few, 0).has(&few[0]));
    }

    #[test]
    fn the_windows_are_those_that_counting_gives() {
        let mut state = 5u64;
        for count in 0..200usize {
            let mut phases: Vec<u64> = (0..count)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    // Half of them crowd round the end of the period.
                    let spread = if state >> 63 == 0 { PERIOD_NS } else { 200_000 };
                    (PERIOD_NS - 100_000 + (state >> 20) % spread) % PERIOD_NS
                })
                .collect();
            phases.sort_unstable();
            let window_ns = 120_000;
            let chance = count as f64 * WINDOW_SHARE;
            let limit = chance + BEYOND + DEVIATIONS * chance.sqrt();
            let inside = |begin: u64| {
                phases.iter().filter(|&&p| after(begin, p, PERIOD_NS) < window_ns).count()
            };
            // Of equal phases the first window holds them all, and counting cannot tell them apart.
            let mut expected: Vec<u64> =
                phases.iter().copied().filter(|&begin| inside(begin) as f64 > limit).collect();
            let mut given = full_windows(&phases, window_ns, PERIOD_NS);
            expected.dedup();
            given.dedup();
            assert_eq!(given, expected, "{count}");
        }
    }
}
