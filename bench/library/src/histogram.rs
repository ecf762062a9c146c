//! [`Histogram`]: millions of distances in little room: exact below 4096 ns, to 1.6 % above; the maximum exact.

use serde::Serialize;

const EXACT: usize = 4096;
/// Parts of each power of two above.
const PARTS: usize = 64;
const EXACT_BITS: u32 = EXACT.trailing_zeros();
const PARTS_BITS: u32 = PARTS.trailing_zeros();

/// Counts of values.
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    max: u64,
}

/// Order statistics in nanoseconds; absent where there was no value.
#[derive(Clone, Debug, Serialize)]
pub struct Quantiles {
    /// How many values.
    pub count: u64,
    /// The middle one.
    pub p50: Option<u64>,
    /// 99 % are no larger.
    pub p99: Option<u64>,
    /// 99.9 % are no larger.
    pub p999: Option<u64>,
    /// The largest.
    pub max: Option<u64>,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// Without values.
    pub fn new() -> Self {
        let powers = (u64::BITS - EXACT_BITS) as usize;
        Self { counts: vec![0; EXACT + powers * PARTS], total: 0, max: 0 }
    }

    fn index(value: u64) -> usize {
        if value < EXACT as u64 {
            return value as usize;
        }
        let bits = value.ilog2();
        let part = (value >> (bits - PARTS_BITS)) as usize - PARTS;
        EXACT + (bits - EXACT_BITS) as usize * PARTS + part
    }

    /// The largest value of a bucket.
    fn top(index: usize) -> u64 {
        let Some(above) = index.checked_sub(EXACT) else { return index as u64 };
        let bits = EXACT_BITS + (above / PARTS) as u32;
        let part = (above % PARTS + PARTS) as u128;
        (((part + 1) << (bits - PARTS_BITS)) - 1) as u64
    }

    /// One more value.
    pub fn add(&mut self, value: u64) {
        self.counts[Self::index(value)] += 1;
        self.total += 1;
        self.max = self.max.max(value);
    }

    /// Both together.
    pub fn with(&self, other: &Self) -> Self {
        let counts = self.counts.iter().zip(&other.counts).map(|(a, b)| a + b).collect();
        Self { counts, total: self.total + other.total, max: self.max.max(other.max) }
    }

    /// The value that a share of all do not exceed.
    fn quantile(&self, share: f64) -> Option<u64> {
        let rank = ((self.total as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        let at = self.counts.iter().position(|&count| {
            seen += count;
            seen >= rank
        });
        at.map(|index| Self::top(index).min(self.max)).filter(|_| self.total > 0)
    }

    /// What is told of them.
    pub fn quantiles(&self) -> Quantiles {
        Quantiles {
            count: self.total,
            p50: self.quantile(0.5),
            p99: self.quantile(0.99),
            p999: self.quantile(0.999),
            max: (self.total > 0).then_some(self.max),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_sorted_values() {
        let mut histogram = Histogram::new();
        let mut values: Vec<u64> = (0..10_000).map(|i| i * i % 3_989).collect();
        values.iter().for_each(|&value| histogram.add(value));
        values.sort_unstable();
        let quantiles = histogram.quantiles();
        assert_eq!(quantiles.p50, Some(values[4_999]));
        assert_eq!(quantiles.p99, Some(values[9_899]));
        assert_eq!(quantiles.max, values.last().copied());
        assert_eq!(Histogram::new().quantiles().p50, None);
    }

    #[test]
    fn every_value_lies_in_a_bucket_that_is_at_most_one_64th_wider() {
        for value in (0..64).flat_map(|bit| [1u64 << bit, (1 << bit) + 1, u64::MAX >> (63 - bit)]) {
            let top = Histogram::top(Histogram::index(value));
            assert!(top >= value && top - value <= value / 64, "{value} {top}");
        }
    }
}
