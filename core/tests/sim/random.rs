//! Randomness from a seed: the same seed, the same numbers, on every processor.

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5DEE_CE66_D1CE_4E5B)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// From `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    /// From `low` to `high`, each order of magnitude as likely as the next; `low` is not 0.
    pub fn magnitude(&mut self, low: u64, high: u64) -> u64 {
        let mut steps = 0;
        while low << (2 * steps) < high >> 2 {
            steps += 1;
        }
        let from = low << (2 * self.between(0, steps));
        self.between(from, (from << 2).min(high))
    }

    /// From `-most` to `most`.
    pub fn signed(&mut self, most: u64) -> i64 {
        self.between(0, 2 * most) as i64 - most as i64
    }

    pub fn percent(&mut self, share: u64) -> bool {
        self.next() % 100 < share
    }

    pub fn per_mille(&mut self, share: u64) -> bool {
        self.next() % 1_000 < share
    }

    pub fn pick<T: Copy>(&mut self, among: &[T]) -> T {
        among[self.next() as usize % among.len()]
    }
}
