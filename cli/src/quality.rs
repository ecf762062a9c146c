//! What a series of readings tells of a clock: its steps, repeats and steps back.
//!
//! Pure bookkeeping in the source's own unit. The steps are kept as a histogram: a greatest common
//! divisor would be 1 for a counter that moves in steps of 26 and now and then of 27.

use std::collections::BTreeMap;

/// How many different steps are kept apart; further ones are counted together.
const DIFFERENT_MAX: usize = 4_096;

/// A record of one thread's readings.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    last: Option<i64>,
    steps: BTreeMap<u64, u64>,
    /// Steps that found no room in the histogram.
    pub uncounted: u64,
    /// Readings in all.
    pub readings: u64,
    /// Readings equal to the one before.
    pub repeated: u64,
    /// Readings below the one before.
    pub backward: u64,
    /// The largest step back.
    pub backward_worst: u64,
}

impl Ledger {
    /// Adds one reading.
    pub fn add(&mut self, value: i64) {
        self.readings += 1;
        match self.last.replace(value) {
            None => {}
            Some(last) if value > last => {
                let different = self.steps.len();
                let step = value.abs_diff(last);
                match self.steps.get_mut(&step) {
                    Some(count) => *count += 1,
                    None if different < DIFFERENT_MAX => {
                        self.steps.insert(step, 1);
                    }
                    None => self.uncounted += 1,
                }
            }
            Some(last) if value == last => self.repeated += 1,
            Some(last) => {
                self.backward += 1;
                self.backward_worst = self.backward_worst.max(last.abs_diff(value));
            }
        }
    }

    /// Begins a new series: the next reading is not compared with the last.
    pub fn pause(&mut self) {
        self.last = None;
    }

    /// Steps forward seen.
    pub fn forward(&self) -> u64 {
        self.steps.values().sum::<u64>() + self.uncounted
    }

    /// The smallest step; `None` if the clock was not seen to step.
    pub fn smallest(&self) -> Option<u64> {
        self.steps.keys().next().copied()
    }

    /// The step that half of the steps do not exceed.
    pub fn median(&self) -> Option<u64> {
        let half = self.steps.values().sum::<u64>().div_ceil(2);
        let mut seen = 0;
        let reached = self.steps.iter().find(|(_, count)| {
            seen += **count;
            seen >= half
        });
        reached.map(|(&step, _)| step)
    }

    /// The `most` commonest steps with their counts, commonest first.
    pub fn commonest(&self, most: usize) -> Vec<(u64, u64)> {
        let mut steps: Vec<(u64, u64)> = self.steps.iter().map(|(&s, &c)| (s, c)).collect();
        steps.sort_by_key(|&(step, count)| (std::cmp::Reverse(count), step));
        steps.truncate(most);
        steps
    }

    /// The clock stands still for more than half of the readings: it steps less often than it is
    /// read, so a step seen is a step of the clock and not of the reader.
    pub fn is_coarse(&self) -> bool {
        self.repeated > self.forward()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(values: &[i64]) -> Ledger {
        let mut ledger = Ledger::default();
        values.iter().for_each(|&value| ledger.add(value));
        ledger
    }

    #[test]
    fn steps_of_26_and_now_and_then_27_are_seen_as_such() {
        let mut value = 1_000;
        let mut ledger = Ledger::default();
        for i in 0..1_000 {
            ledger.add(value);
            value += if i % 10 == 0 { 27 } else { 26 };
        }
        assert_eq!(ledger.smallest(), Some(26));
        assert_eq!(ledger.median(), Some(26));
        assert_eq!(ledger.commonest(2), [(26, 899), (27, 100)]);
        assert!(!ledger.is_coarse());
    }

    #[test]
    fn repeats_and_steps_back_are_counted_apart() {
        let ledger = ledger(&[5, 5, 5, 9, 7, 7, 3, 100]);
        assert_eq!((ledger.readings, ledger.repeated, ledger.backward), (8, 3, 2));
        assert_eq!(ledger.backward_worst, 4);
        assert_eq!(ledger.smallest(), Some(4));
        assert!(ledger.is_coarse());
    }

    #[test]
    fn a_clock_that_was_not_seen_to_step_has_no_step() {
        let ledger = ledger(&[7, 7, 7]);
        assert_eq!((ledger.smallest(), ledger.median()), (None, None));
        assert!(ledger.commonest(8).is_empty());
        assert_eq!(Ledger::default().median(), None);
    }

    #[test]
    fn a_pause_hides_the_step_across_it() {
        let mut ledger = ledger(&[1, 2]);
        ledger.pause();
        ledger.add(1_000);
        ledger.add(1_001);
        assert_eq!(ledger.commonest(8), [(1, 2)]);
    }

    #[test]
    fn endlessly_different_steps_do_not_fill_the_memory() {
        let mut value = 0;
        let mut ledger = Ledger::default();
        for step in 1..10_000 {
            ledger.add(value);
            value += step;
        }
        assert_eq!(ledger.steps.len(), DIFFERENT_MAX);
        assert_eq!(ledger.forward(), 9_998);
    }
}
