//! The overlapping Allan deviation of the counter against a clock.
//!
//! The phase is how far the counter, at a constant rate, is from the clock; one in a slot, as often as asked. What a
//! constant rate adds cancels in the second difference, so that the rate need not be known. Bounded memory: a full
//! store keeps every second slot. Must never make up a sample: a slot that was missed stays empty.

use crate::pair::Pair;
use serde::Serialize;

/// Slots kept: half a megabyte a clock.
const SLOTS_MAX: usize = 65_536;
/// A row of fewer terms would be a guess.
const TERMS_MIN: usize = 3;

/// The phases of one clock.
pub struct Phase {
    slot_s: f64,
    /// So many slots were asked for as one that is kept.
    stride: u64,
    first: Option<Pair>,
    /// Ticks and nanoseconds since the first pair, and half the width of the bracket in ticks.
    kept: Vec<Option<Sample>>,
}

#[derive(Clone, Copy)]
struct Sample {
    ticks: f64,
    ns: f64,
    half: f64,
}

impl Phase {
    /// A slot lasts so many seconds.
    pub fn new(slot_s: f64) -> Self {
        Self { slot_s, stride: 1, first: None, kept: Vec::new() }
    }

    /// The pair of a slot.
    pub fn see(&mut self, slot: u64, pair: &Pair) {
        let first = *self.first.get_or_insert(*pair);
        if !slot.is_multiple_of(self.stride) {
            return;
        }
        let at = usize::try_from(slot / self.stride).unwrap_or(usize::MAX);
        if at >= SLOTS_MAX {
            self.halve();
            return self.see(slot, pair);
        }
        // A pause of hours is many empty slots.
        self.kept.resize(self.kept.len().max(at + 1), None);
        self.kept[at] = Some(Sample {
            ticks: pair.ticks().wrapping_sub(first.ticks()).cast_signed() as f64,
            ns: (pair.nanos - first.nanos) as f64,
            half: pair.width() as f64 / 2.0,
        });
    }

    fn halve(&mut self) {
        self.stride *= 2;
        self.kept = self.kept.iter().step_by(2).copied().collect();
    }

    /// The phases in seconds, and what a bracket leaves open on average.
    fn phases(&self) -> Option<(Vec<Option<f64>>, f64)> {
        let last = self.kept.iter().rev().flatten().next()?;
        let ns_a_tick = (last.ticks > 0.0).then(|| last.ns / last.ticks)?;
        // Ticks and nanoseconds are whole numbers far below 2^53, so that the difference is good to a nanosecond's
        // fraction for weeks.
        let phase = |sample: &Sample| (sample.ticks * ns_a_tick - sample.ns) * 1e-9;
        let halves: Vec<f64> = self.kept.iter().flatten().map(|sample| sample.half).collect();
        let half_s = halves.iter().sum::<f64>() / halves.len() as f64 * ns_a_tick * 1e-9;
        Some((self.kept.iter().map(|sample| sample.as_ref().map(phase)).collect(), half_s))
    }
}

/// A row of the table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The averaging time.
    pub tau_s: f64,
    /// Against MONOTONIC_RAW.
    pub raw_adev: Option<f64>,
    /// Against MONOTONIC.
    pub monotonic_adev: Option<f64>,
    /// What the brackets alone may make of it.
    pub method_adev: Option<f64>,
    /// Second differences in the row.
    pub terms: usize,
}

/// The table: averaging times of 1, 2, 4, ... slots, as long as there are enough terms.
pub fn table([raw, monotonic]: [&Phase; 2]) -> Vec<Row> {
    let [a, b] = [raw, monotonic].map(Phase::phases);
    let longest = [&a, &b].into_iter().flatten().map(|(phases, _)| phases.len()).max();
    let slot_s = raw.slot_s * raw.stride as f64;
    let mut rows = Vec::new();
    let mut slots = 1;
    while 2 * slots < longest.unwrap_or(0) {
        let tau_s = slots as f64 * slot_s;
        let of = |told: &Option<(Vec<Option<f64>>, f64)>| {
            told.as_ref().and_then(|(phases, _)| deviation(phases, slots, tau_s))
        };
        let (raw, monotonic) = (of(&a), of(&b));
        if let Some((_, terms)) = raw.or(monotonic) {
            // A half width is as far as a reading may be off; a third of its square is the variance of one that lies
            // anywhere in its bracket, and a second difference has six of these.
            let method_adev = a.as_ref().or(b.as_ref()).map(|(_, half_s)| half_s / tau_s);
            let [raw_adev, monotonic_adev] =
                [raw, monotonic].map(|told| told.map(|(deviation, _)| deviation));
            rows.push(Row { tau_s, raw_adev, monotonic_adev, method_adev, terms });
        }
        slots *= 2;
    }
    rows
}

/// The deviation over `slots`, and of how many terms; those with an empty slot are left out.
fn deviation(phases: &[Option<f64>], slots: usize, tau_s: f64) -> Option<(f64, usize)> {
    let (mut sum, mut terms) = (0.0, 0);
    for begin in 0..phases.len().saturating_sub(2 * slots) {
        let three = [phases[begin], phases[begin + slots], phases[begin + 2 * slots]];
        if let [Some(a), Some(b), Some(c)] = three {
            sum += (c - 2.0 * b + a).powi(2);
            terms += 1;
        }
    }
    let variance = sum / (2.0 * tau_s * tau_s * terms as f64);
    (terms >= TERMS_MIN).then(|| (variance.sqrt(), terms))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(state: &mut u64) -> f64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (*state >> 33) as f64 / f64::from(1u32 << 31)
    }

    /// By its definition: half the mean square of the change from one average frequency to the next.
    fn slow(phases: &[f64], slots: usize, tau_s: f64) -> f64 {
        let frequency = |begin: usize| (phases[begin + slots] - phases[begin]) / tau_s;
        let terms = phases.len() - 2 * slots;
        let squares = (0..terms).map(|i| (frequency(i + slots) - frequency(i)).powi(2));
        (squares.sum::<f64>() / terms as f64 / 2.0).sqrt()
    }

    #[test]
    fn the_deviation_is_that_of_its_definition() {
        let mut state = 3;
        for count in [5, 6, 17, 100, 999] {
            let mut phase = 0.0;
            let phases: Vec<f64> = (0..count)
                .map(|_| {
                    phase += next(&mut state) * 1e-9;
                    phase + next(&mut state) * 1e-8
                })
                .collect();
            let told: Vec<Option<f64>> = phases.iter().copied().map(Some).collect();
            for slots in [1, 2, 4, 8].into_iter().filter(|slots| 2 * slots + 3 <= count) {
                let tau_s = slots as f64 * 0.1;
                let (given, terms) = deviation(&told, slots, tau_s).unwrap();
                let expected = slow(&phases, slots, tau_s);
                assert!((given - expected).abs() <= 1e-9 * expected, "{given} {expected}");
                assert_eq!(terms, count - 2 * slots);
            }
        }
    }

    #[test]
    fn a_constant_rate_and_offset_have_no_deviation_and_empty_slots_are_left_out() {
        let line: Vec<Option<f64>> = (0..50).map(|i| Some(3.0 + 0.25 * f64::from(i))).collect();
        assert_eq!(deviation(&line, 1, 0.1), Some((0.0, 48)));
        let mut holes = line.clone();
        holes[10] = None;
        holes[30] = None;
        assert_eq!(deviation(&holes, 1, 0.1), Some((0.0, 42)));
        assert_eq!(deviation(&line[..4], 1, 0.1), None, "two terms are too few");
        assert_eq!(deviation(&[], 1, 0.1), None);
    }

    #[test]
    fn the_table_tells_a_known_noise() {
        // White phase noise of variance s^2 has a deviation of sqrt(3) s / tau.
        let (mut raw, mut steered) = (Phase::new(0.1), Phase::new(0.1));
        let mut state = 9;
        for slot in 0..20_000u64 {
            let ns = slot as i64 * 100_000_000;
            let off = ((next(&mut state) - 0.5) * 2_000.0).round() as i64;
            let ticks = (ns + 1_000_000).cast_unsigned();
            let pair = Pair { before: ticks - 50, nanos: ns + off, after: ticks + 50 };
            raw.see(slot, &pair);
            steered.see(slot, &Pair { nanos: ns, ..pair });
        }
        let rows = table([&raw, &steered]);
        assert!(rows.len() > 10);
        for row in rows.iter().filter(|row| row.terms > 10_000) {
            let expected = 3f64.sqrt() * (2_000.0 / 12f64.sqrt()) * 1e-9 / row.tau_s;
            let given = row.raw_adev.unwrap();
            assert!((given / expected - 1.0).abs() < 0.05, "{row:?} {expected}");
            let method = row.method_adev.unwrap() * row.tau_s;
            assert!((method - 50e-9).abs() < 1e-15, "{row:?}");
        }
        assert!(rows.iter().all(|row| row.monotonic_adev.unwrap() < 1e-12), "{rows:?}");
    }

    #[test]
    fn a_store_that_is_full_keeps_every_second_slot() {
        let mut phase = Phase::new(1.0);
        for slot in 0..3 * SLOTS_MAX as u64 {
            let ticks = slot * 1_000;
            phase.see(slot, &Pair { before: ticks, nanos: ticks as i64, after: ticks + 1 });
        }
        assert_eq!((phase.stride, phase.kept.len()), (4, 3 * SLOTS_MAX / 4));
        assert!(
            phase.kept.iter().enumerate().all(|(at, kept)| kept.unwrap().ns as usize == at * 4_000)
        );
        // A pause of years takes no memory.
        phase.see(1 << 40, &Pair { before: 9, nanos: 9, after: 10 });
        assert!(phase.kept.len() <= SLOTS_MAX);
    }
}
