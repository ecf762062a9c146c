//! What many readings come to, in constant memory: counts, a histogram, a regression.
//!
//! Each thread keeps one; they add up. Must never keep a reading.

use hdrhistogram::Histogram;

/// Nanoseconds: an hour. What is further off counts as an hour in the percentiles.
const FARTHEST_NS: u64 = 3_600_000_000_000;
/// Readings of one such stretch share what is wrong with them (a line holds for 4 ms, a rate for seconds), so that only
/// their mean counts as one observation of the drift.
const STRETCH_NS: i64 = 250_000_000;
/// A drift from fewer stretches would be a guess.
pub const STRETCHES_MIN: u64 = 4;

/// How far a reading was from the kernel, provably, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Worst {
    /// Nanoseconds beyond the bracket: ours later than the kernel if positive.
    pub by_ns: i64,
    /// Since the beginning.
    pub elapsed_ns: i64,
}

impl Worst {
    fn and(self, other: Self) -> Self {
        if other.by_ns.unsigned_abs() > self.by_ns.unsigned_abs() { other } else { self }
    }
}

/// Sums over readings.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Readings.
    pub readings: u64,
    /// Of these, with their bound.
    pub told: u64,
    /// Of those, computed from the counter.
    pub from_counter: u64,
    /// Times of other threads that were seen just before a reading.
    pub handed_over: u64,
    /// Farthest beyond its bracket.
    pub worst: Worst,
    /// Distances from the middle of narrow brackets.
    distances: Histogram<u64>,
    /// The same, signed: the least and the most.
    extremes: Option<(i64, i64)>,
    /// Half their widths, in all.
    halves_ns: f64,
    drift: Drift,
}

impl Tally {
    /// Of nothing.
    pub fn new() -> Self {
        let distances = Histogram::new_with_bounds(1, FARTHEST_NS, 2);
        Self {
            readings: 0,
            told: 0,
            from_counter: 0,
            handed_over: 0,
            worst: Worst::default(),
            distances: distances.expect("the bounds are in order and two digits can be kept"),
            extremes: None,
            halves_ns: 0.0,
            drift: Drift::default(),
        }
    }

    /// A reading that was `difference_ns` from the middle of a narrow bracket, `width_ns` wide.
    pub fn narrow(&mut self, elapsed_ns: i64, difference_ns: i64, width_ns: u64) {
        self.halves_ns += width_ns as f64 / 2.0;
        self.distances.saturating_record(difference_ns.unsigned_abs());
        let (least, most) = self.extremes.unwrap_or((difference_ns, difference_ns));
        self.extremes = Some((least.min(difference_ns), most.max(difference_ns)));
        self.drift.see(elapsed_ns, difference_ns as f64);
    }

    /// A reading that was `by_ns` beyond its bracket, 0 within it.
    pub fn provable(&mut self, elapsed_ns: i64, by_ns: i64) {
        self.worst = self.worst.and(Worst { by_ns, elapsed_ns });
    }

    /// Adds what another has.
    pub fn add(&mut self, other: &Self) {
        self.readings += other.readings;
        self.told += other.told;
        self.from_counter += other.from_counter;
        self.handed_over += other.handed_over;
        self.worst = self.worst.and(other.worst);
        // Same bounds: nothing that could not be added.
        let _ = self.distances.add(&other.distances);
        self.extremes = match (self.extremes, other.extremes) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (ours, theirs) => ours.or(theirs),
        };
        self.halves_ns += other.halves_ns;
        self.drift.add(&other.drift);
    }

    /// How many readings in narrow brackets there are.
    pub fn narrow_count(&self) -> u64 {
        self.distances.len()
    }

    /// The distance that a share of the readings does not exceed; `None` where fewer than ten lie beyond it.
    pub fn distance_at(&self, quantile: f64) -> Option<u64> {
        let beyond = self.distances.len() as f64 * (1.0 - quantile);
        // A tenth of a hundred is not exact in binary.
        (beyond >= 9.999_999).then(|| self.distances.value_at_quantile(quantile))
    }

    /// The least and the most difference.
    pub fn extremes(&self) -> Option<(i64, i64)> {
        self.extremes
    }

    /// Parts per million, and how sure that is: twice the standard error of the regression, and what the brackets leave
    /// open. Where in its bracket a reading lies is not known, and may change over the run (another processor, a busy
    /// neighbour) by half of its width.
    pub fn drift_ppm(&self) -> Option<(f64, f64)> {
        let regression = self.drift.finished();
        let (slope, error) = regression.slope()?;
        let half_ns = self.halves_ns / self.distances.len() as f64;
        // Nanoseconds a second are parts per billion.
        Some((slope / 1e3, (error + half_ns / regression.span()) / 1e3))
    }
}

/// The trend of the differences: means over stretches, and a line through them.
#[derive(Clone, Copy, Debug, Default)]
struct Drift {
    regression: Regression,
    stretch: i64,
    count: u64,
    mean_s: f64,
    mean_ns: f64,
}

impl Drift {
    fn see(&mut self, elapsed_ns: i64, difference_ns: f64) {
        let stretch = elapsed_ns.div_euclid(STRETCH_NS);
        if stretch != self.stretch {
            *self = Self { regression: self.finished(), stretch, ..Self::default() };
        }
        self.count += 1;
        let share = 1.0 / self.count as f64;
        self.mean_s += (elapsed_ns as f64 / 1e9 - self.mean_s) * share;
        self.mean_ns += (difference_ns - self.mean_ns) * share;
    }

    /// With the stretch that is not over.
    fn finished(&self) -> Regression {
        let mut regression = self.regression;
        if self.count > 0 {
            regression.see(self.mean_s, self.mean_ns);
        }
        regression
    }

    /// The other thread's stretches are observations of their own; what was not over is, too.
    fn add(&mut self, other: &Self) {
        self.regression = self.finished();
        self.count = 0;
        self.regression.add(&other.finished());
    }
}

/// Least squares, one point at a time (Welford), so that nothing cancels after hours.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Regression {
    count: u64,
    least_x: f64,
    most_x: f64,
    mean_x: f64,
    mean_y: f64,
    xx: f64,
    xy: f64,
    yy: f64,
}

impl Regression {
    /// A point.
    pub fn see(&mut self, x: f64, y: f64) {
        let one = Self { count: 1, least_x: x, most_x: x, mean_x: x, mean_y: y, ..Self::default() };
        self.add(&one);
    }

    /// All points of another (Chan's formula).
    pub fn add(&mut self, other: &Self) {
        if self.count == 0 || other.count == 0 {
            *self = if self.count == 0 { *other } else { *self };
            return;
        }
        let count = self.count + other.count;
        self.least_x = self.least_x.min(other.least_x);
        self.most_x = self.most_x.max(other.most_x);
        let share = other.count as f64 / count as f64;
        let weight = self.count as f64 * share;
        let (dx, dy) = (other.mean_x - self.mean_x, other.mean_y - self.mean_y);
        self.xx += other.xx + dx * dx * weight;
        self.xy += other.xy + dx * dy * weight;
        self.yy += other.yy + dy * dy * weight;
        self.mean_x += dx * share;
        self.mean_y += dy * share;
        self.count = count;
    }

    /// From the first point to the last.
    pub fn span(&self) -> f64 {
        self.most_x - self.least_x
    }

    /// The slope, and twice its standard error (95 % where the points are independent); `None` for fewer than four
    /// points, or all at one place.
    pub fn slope(&self) -> Option<(f64, f64)> {
        if self.count < STRETCHES_MIN || self.xx <= 0.0 {
            return None;
        }
        let slope = self.xy / self.xx;
        let left = (self.yy - slope * self.xy).max(0.0);
        Some((slope, 2.0 * (left / (self.count - 2) as f64 / self.xx).sqrt()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(state: &mut u64) -> f64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (*state >> 33) as f64 / f64::from(1u32 << 31)
    }

    /// By the textbook, from all points at once.
    fn slow(points: &[(f64, f64)]) -> (f64, f64) {
        let n = points.len() as f64;
        let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
        let (mx, my) = (mean(|p| p.0), mean(|p| p.1));
        let xx: f64 = points.iter().map(|p| (p.0 - mx).powi(2)).sum();
        let slope = points.iter().map(|p| (p.0 - mx) * (p.1 - my)).sum::<f64>() / xx;
        let left: f64 = points.iter().map(|p| (p.1 - my - slope * (p.0 - mx)).powi(2)).sum();
        (slope, 2.0 * (left / (n - 2.0) / xx).sqrt())
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1e-9)
    }

    #[test]
    fn one_point_at_a_time_or_in_parts_gives_the_regression_of_all() {
        let mut state = 1;
        let points: Vec<(f64, f64)> = (0..1_000)
            .map(|i| (64_000.0 + f64::from(i) / 4.0, 3.0 - 0.02 * f64::from(i) + next(&mut state)))
            .collect();
        let (slope, error) = slow(&points);
        let mut parts = [Regression::default(); 3];
        for (i, &(x, y)) in points.iter().enumerate() {
            parts[i * i % 3].see(x, y);
        }
        let mut whole = Regression::default();
        parts.iter().for_each(|part| whole.add(part));
        let (a, b) = whole.slope().unwrap();
        assert!(near(a, slope) && near(b, error), "{a} {b} {slope} {error}");
        assert!((slope + 0.08).abs() < 1e-3 && error < 1e-3);
    }

    #[test]
    fn too_few_points_or_points_at_one_place_have_no_slope() {
        let mut regression = Regression::default();
        assert_eq!(regression.slope(), None);
        for i in 0..3 {
            regression.see(f64::from(i), 1.0);
        }
        assert_eq!(regression.slope(), None);
        regression.see(3.0, 1.0);
        assert_eq!(regression.slope(), Some((0.0, 0.0)));
        let mut upright = Regression::default();
        (0..9).for_each(|i| upright.see(5.0, f64::from(i)));
        assert_eq!(upright.slope(), None);
    }

    #[test]
    fn a_drift_of_a_thousandth_ppm_is_told_in_a_minute_and_covered_by_its_uncertainty() {
        for seed in 1..50 {
            let (mut state, mut tallies) = (seed, [Tally::new(), Tally::new()]);
            for ms in 0..60_000i64 {
                let noise = (next(&mut state) - 0.5) * 40.0;
                let difference = ms as f64 * 1e-3 + noise;
                let ns = difference.round() as i64;
                tallies[ms as usize % 2].narrow(ms * 1_000_000, ns, 10);
            }
            let mut sum = Tally::new();
            tallies.iter().for_each(|tally| sum.add(tally));
            let (ppm, error) = sum.drift_ppm().unwrap();
            assert!((ppm - 1e-3).abs() < error && error < 2e-4, "{seed}: {ppm} +- {error}");
        }
    }

    #[test]
    fn percentiles_have_something_beyond_them_or_are_none() {
        let mut tally = Tally::new();
        assert_eq!((tally.distance_at(0.5), tally.extremes()), (None, None));
        for ns in 0..100 {
            tally.narrow(0, if ns % 2 == 0 { ns } else { -ns }, 40);
        }
        assert_eq!(tally.distance_at(0.5), Some(49));
        assert_eq!(tally.distance_at(0.9), Some(89));
        assert_eq!(tally.distance_at(0.99), None);
        assert_eq!(tally.extremes(), Some((-99, 98)));
        tally.narrow(0, i64::MIN, 40);
        assert_eq!(tally.narrow_count(), 101);
    }

    #[test]
    fn the_worst_is_the_farthest_either_way_of_all_threads() {
        let (mut a, mut b) = (Tally::new(), Tally::new());
        a.provable(1, 5);
        a.provable(2, -5);
        b.provable(3, -7);
        b.provable(4, 0);
        a.add(&b);
        assert_eq!(a.worst, Worst { by_ns: -7, elapsed_ns: 3 });
    }
}
