//! Tells the kernel's tick from other causes of long calls, by its regularity.
//!
//! The tick interrupts a processor once a period, always at the same phase of it; each processor has a
//! phase of its own. Long calls that end at a phase far more often than chance would have it are the
//! doing of the tick, or of another interrupt as regular (a hypervisor's), and not the source's. Pure
//! arithmetic on when calls ended; must never decide by how long they took.

use crate::world::Long;

/// How wide a window of the period the tick and its delay may take, as a share of the period.
const WINDOW_SHARE: f64 = 0.03;
/// So many calls beyond what chance puts into a window, and so many times its standard deviation, make
/// it a tick: there are some thirty windows, so the limit must be passed by none of them by chance.
const BEYOND: f64 = 2.0;
const DEVIATIONS: f64 = 4.0;

/// Whether the call ended where the tick of its processor is, judging by all long calls.
pub fn is_at_tick(call: &Long, all: &[Long], period_ns: u64) -> bool {
    if period_ns == 0 {
        return false;
    }
    let window_ns = (WINDOW_SHARE * period_ns as f64) as u64;
    let on_this: Vec<u64> = all
        .iter()
        .filter(|other| other.cpu == call.cpu)
        .map(|other| other.end_ns % period_ns)
        .collect();
    let phase = call.end_ns % period_ns;
    // A window of the period that holds this call: it begins at some call not after it.
    let begins =
        on_this.iter().copied().filter(|&begin| after(begin, phase, period_ns) < window_ns);
    let fullest = begins.map(|begin| {
        on_this.iter().filter(|&&other| after(begin, other, period_ns) < window_ns).count()
    });
    let chance = on_this.len() as f64 * WINDOW_SHARE;
    let limit = chance + BEYOND + DEVIATIONS * chance.sqrt();
    fullest.max().is_some_and(|count| count as f64 > limit)
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
        assert!(ticks.iter().all(|call| is_at_tick(call, &all, PERIOD_NS)));
        let taken = others.iter().filter(|call| is_at_tick(call, &all, PERIOD_NS)).count();
        assert!(taken <= 3, "{taken}");
    }

    #[test]
    fn each_processor_has_a_phase_of_its_own() {
        let all: Vec<Long> = (0..10)
            .flat_map(|i| [at(0, i * PERIOD_NS + 100_000), at(1, i * PERIOD_NS + 2_100_000)])
            .collect();
        assert!(all.iter().all(|call| is_at_tick(call, &all, PERIOD_NS)));
        assert!(!is_at_tick(&at(1, 100_000), &all, PERIOD_NS));
    }

    #[test]
    fn few_calls_or_calls_anywhere_show_no_tick() {
        let few: Vec<Long> = (0..3).map(|i| at(0, i * PERIOD_NS)).collect();
        assert!(!few.iter().any(|call| is_at_tick(call, &few, PERIOD_NS)));
        let anywhere: Vec<Long> = (0..100).map(|i| at(0, i * 40_000)).collect();
        assert!(!anywhere.iter().any(|call| is_at_tick(call, &anywhere, PERIOD_NS)));
        assert!(!is_at_tick(&few[0], &few, 0));
    }
}
