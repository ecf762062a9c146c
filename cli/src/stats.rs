//! Order statistics of a set of figures, nothing more.
//!
//! Distributions here have one long tail (interrupts, neighbours), so nothing is averaged and no
//! shape is assumed. Must never give a figure that the samples do not support: then it is `None`.

/// A summary of samples. All figures are in the samples' unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// How many samples.
    pub count: usize,
    /// The smallest.
    pub min: f64,
    /// The middle one; the mean of the two middle ones for an even count.
    pub median: f64,
    /// A 95 % interval of the true median, by order statistics; `None` below 6 samples.
    pub median_interval: Option<(f64, f64)>,
    /// The smallest sample that is not below 99 % of them; `None` below 100 samples.
    pub p99: Option<f64>,
    /// The largest.
    pub max: f64,
    /// The median of the distances from the median.
    pub mad: f64,
}

/// Samples of any number in bounded memory: a uniform choice of them, and the extremes of all.
#[derive(Clone, Debug, Default)]
pub struct Reservoir {
    kept: Vec<f64>,
    seen: u64,
    extremes: Option<(f64, f64)>,
}

/// How many samples a [`Reservoir`] keeps.
const KEPT_MAX: usize = 2_048;

#[cfg(test)]
impl FromIterator<f64> for Reservoir {
    fn from_iter<T: IntoIterator<Item = f64>>(samples: T) -> Self {
        let mut reservoir = Self::default();
        samples.into_iter().for_each(|sample| reservoir.add(sample));
        reservoir
    }
}

impl Reservoir {
    /// Adds one.
    pub fn add(&mut self, sample: f64) {
        self.seen += 1;
        let (min, max) = self.extremes.unwrap_or((sample, sample));
        self.extremes = Some((min.min(sample), max.max(sample)));
        if self.kept.len() < KEPT_MAX {
            self.kept.push(sample);
            return;
        }
        // The n-th sample takes a random place of n, if that is one of those kept. The places follow
        // from n alone, so that the same samples give the same choice.
        let place = fastrand::Rng::with_seed(self.seen).u64(0..self.seen) as usize;
        if let Some(slot) = self.kept.get_mut(place) {
            *slot = sample;
        }
    }

    /// How many were added.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Those kept.
    pub fn kept(&self) -> &[f64] {
        &self.kept
    }

    /// The summary: of those kept, but the count and the extremes of all.
    pub fn summary(&self) -> Option<Summary> {
        let (min, max) = self.extremes?;
        Some(Summary { count: self.seen as usize, min, max, ..summary(&self.kept)? })
    }
}

/// Summarises `samples`, in any order; `None` if there are none. Not for NaN.
pub fn summary(samples: &[f64]) -> Option<Summary> {
    let sorted = sorted(samples);
    let (&min, &max) = (sorted.first()?, sorted.last()?);
    let median = median_of_sorted(&sorted);
    let distances: Vec<f64> = sorted.iter().map(|sample| (sample - median).abs()).collect();
    Some(Summary {
        count: sorted.len(),
        min,
        median,
        median_interval: median_ranks(sorted.len()).map(|(low, high)| (sorted[low], sorted[high])),
        p99: quantile(&sorted, 0.99).filter(|_| sorted.len() >= 100),
        max,
        mad: median_of_sorted(&self::sorted(&distances)),
    })
}

/// The median of `samples`; `None` if there are none.
pub fn median(samples: &[f64]) -> Option<f64> {
    (!samples.is_empty()).then(|| median_of_sorted(&sorted(samples)))
}

/// The samples, ascending.
pub fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

/// The smallest of the ascending samples that is not below a share `q` of them (nearest rank).
pub fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let rank = (q * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied()
}

fn median_of_sorted(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[half] } else { f64::midpoint(sorted[half - 1], sorted[half]) }
}

/// The ranks (from 0) of two of `count` ordered samples between which the true median lies with a
/// probability of at least 95 %: the narrowest symmetric pair.
///
/// The number of samples below the true median is binomial with p = 1/2, so the pair `k` from either
/// end misses it with probability 2 * P(X <= k).
fn median_ranks(count: usize) -> Option<(usize, usize)> {
    // P(X = k) = P(X = k - 1) * (n - k + 1) / k, in logarithms: 2^-n underflows early.
    let mut log_probability = -(count as f64) * std::f64::consts::LN_2;
    let mut missed = 0.0;
    let mut lowest = None;
    for k in 0..count / 2 {
        if k > 0 {
            log_probability += ((count - k + 1) as f64).ln() - (k as f64).ln();
        }
        missed += 2.0 * log_probability.exp();
        if missed > 0.05 {
            break;
        }
        lowest = Some(k);
    }
    lowest.map(|low| (low, count - 1 - low))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A generator of integers that is good enough to try things.
    fn next(state: &mut u64) -> u64 {
        *state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *state >> 33
    }

    #[test]
    fn the_summary_agrees_with_counting() {
        let mut state = 7;
        for count in 1..200 {
            let samples: Vec<f64> = (0..count).map(|_| (next(&mut state) % 50) as f64).collect();
            let summary = summary(&samples).unwrap();
            let below = |x: f64| samples.iter().filter(|&&s| s < x).count();
            let above = |x: f64| samples.iter().filter(|&&s| s > x).count();
            assert_eq!(summary.count, count);
            assert_eq!((below(summary.min), above(summary.max)), (0, 0));
            assert!(below(summary.median) <= count / 2 && above(summary.median) <= count / 2);
            // Exactly the definition: 99 % are not above it, and it is the smallest such sample.
            assert_eq!(summary.p99.is_some(), count >= 100);
            let p99 = quantile(&sorted(&samples), 0.99).unwrap();
            assert!((count - above(p99)) * 100 >= count * 99);
            assert!(below(p99) * 100 < count * 99);
            let distance = |s: &f64| (s - summary.median).abs();
            let nearer = samples.iter().filter(|s| distance(s) < summary.mad).count();
            let farther = samples.iter().filter(|s| distance(s) > summary.mad).count();
            assert!(nearer <= count / 2 && farther <= count / 2);
        }
    }

    /// P(X <= k) for X binomial(n, 1/2), by exact integers.
    fn exactly_at_most(n: u32, k: u32) -> f64 {
        let choose = |k: u32| (0..k).fold(1u128, |c, i| c * u128::from(n - i) / u128::from(i + 1));
        (0..=k).map(choose).sum::<u128>() as f64 / 2f64.powi(n as i32)
    }

    #[test]
    fn the_interval_of_the_median_is_the_narrowest_that_covers_95_percent() {
        for n in 1..=100u32 {
            match median_ranks(n as usize) {
                None => assert!(2.0 * exactly_at_most(n, 0) > 0.05, "{n}"),
                Some((low, high)) => {
                    assert_eq!(low + high, n as usize - 1);
                    assert!(2.0 * exactly_at_most(n, low as u32) <= 0.05, "{n}");
                    let next = low as u32 + 1;
                    assert!(next >= n / 2 || 2.0 * exactly_at_most(n, next) > 0.05, "{n}");
                }
            }
        }
    }

    #[test]
    fn fewer_than_six_samples_have_no_interval() {
        assert_eq!(median_ranks(5), None);
        assert_eq!(median_ranks(6), Some((0, 5)));
        assert_eq!(median_ranks(0), None);
    }

    #[test]
    fn the_interval_of_many_samples_is_that_of_the_normal_approximation() {
        let (low, high) = median_ranks(100_000).unwrap();
        assert_eq!(low + high, 99_999);
        // 50,000 - 1.96 * sqrt(100,000) / 2
        assert!((49_685..=49_695).contains(&low), "{low}");
    }

    #[test]
    fn a_reservoir_holds_all_of_few_samples_and_a_fair_choice_of_many() {
        assert_eq!(Reservoir::default().summary(), None);
        let mut reservoir: Reservoir = (0..100).map(f64::from).collect();
        assert_eq!(reservoir.summary(), summary(&sorted(reservoir.kept())));
        (100..100_000).for_each(|sample| reservoir.add(f64::from(sample)));
        let summary = reservoir.summary().unwrap();
        assert_eq!((summary.count, summary.min, summary.max), (100_000, 0.0, 99_999.0));
        assert_eq!(reservoir.kept().len(), KEPT_MAX);
        // Four standard errors of the median of 2,048 uniform samples.
        assert!((summary.median - 50_000.0).abs() < 4_500.0, "{}", summary.median);
    }

    #[test]
    fn no_samples_have_no_summary() {
        assert_eq!(summary(&[]), None);
        assert_eq!(median(&[]), None);
        assert_eq!(quantile(&[], 0.5), None);
    }

    #[test]
    fn one_sample_is_all_of_its_figures_but_has_no_interval() {
        let summary = summary(&[3.5]).unwrap();
        assert_eq!((summary.min, summary.median, summary.max, summary.mad), (3.5, 3.5, 3.5, 0.0));
        assert_eq!((summary.median_interval, summary.p99), (None, None));
    }
}
