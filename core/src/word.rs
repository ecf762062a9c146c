//! [`Word`]: 64 bits that threads share, the only way in which this crate shares anything.
//!
//! An `AtomicU64` where there is one; loom's in the test that explores interleavings. Some targets have no 64-bit
//! atomics: those have no counter that this crate knows either, so that what is shared there is the verdict (one
//! half) and statistics, which may lose an increment. Must never lock.

// Only in this crate's own test: other people's crates are tested with `--cfg loom` too, and it is theirs then.
#[cfg(all(test, loom))]
pub(crate) mod explored;

#[cfg(all(test, loom))]
pub(crate) use explored::{Word, fence};

#[cfg(not(all(test, loom)))]
pub(crate) use core::sync::atomic::fence;

#[cfg(not(any(clockwise_halves, all(test, loom), not(target_has_atomic = "64"))))]
pub(crate) use core::sync::atomic::AtomicU64 as Word;

#[cfg(all(any(clockwise_halves, not(target_has_atomic = "64")), not(all(test, loom))))]
pub(crate) use halves::Word;

#[cfg(any(test, clockwise_halves, not(target_has_atomic = "64")))]
mod halves {
    use core::sync::atomic::{AtomicU32, Ordering, Ordering::Relaxed};

    /// Two halves, each atomic, the whole not. The methods are those of `AtomicU64`.
    #[derive(Debug)]
    #[repr(C, align(8))]
    pub(crate) struct Word([AtomicU32; 2]);

    impl Word {
        pub(crate) const fn new(value: u64) -> Self {
            Self([AtomicU32::new(value as u32), AtomicU32::new((value >> 32) as u32)])
        }

        pub(crate) fn load(&self, order: Ordering) -> u64 {
            let low = self.0[0].load(order);
            u64::from(self.0[1].load(Relaxed)) << 32 | u64::from(low)
        }

        pub(crate) fn store(&self, value: u64, order: Ordering) {
            self.0[1].store((value >> 32) as u32, Relaxed);
            self.0[0].store(value as u32, order);
        }

        /// The half that differs decides; exact for the values that are exchanged where there is no counter.
        pub(crate) fn compare_exchange(
            &self,
            old: u64,
            new: u64,
            order: Ordering,
            failed: Ordering,
        ) -> Result<u64, u64> {
            match self.0[0].compare_exchange(old as u32, new as u32, order, failed) {
                Ok(_) => {
                    self.0[1].store((new >> 32) as u32, Relaxed);
                    Ok(old)
                }
                Err(_) => Err(self.load(failed)),
            }
        }

        pub(crate) fn fetch_add(&self, more: u64, order: Ordering) -> u64 {
            let old = self.load(order);
            self.store(old.wrapping_add(more), order);
            old
        }

        pub(crate) fn fetch_max(&self, value: u64, order: Ordering) -> u64 {
            let old = self.load(order);
            self.store(old.max(value), order);
            old
        }
    }
}

#[cfg(test)]
mod tests {
    use super::halves;
    use core::sync::atomic::Ordering::Relaxed;

    #[test]
    fn two_halves_are_one_word_to_a_single_thread() {
        let word = halves::Word::new(1);
        assert_eq!(word.fetch_add(u64::from(u32::MAX), Relaxed), 1);
        assert_eq!(word.load(Relaxed), 1 << 32);
        assert_eq!(word.fetch_max(5 << 32, Relaxed), 1 << 32);
        assert_eq!(word.compare_exchange(5 << 32, 7, Relaxed, Relaxed), Ok(5 << 32));
        assert_eq!(word.compare_exchange(6, 8, Relaxed, Relaxed), Err(7));
        word.store(u64::MAX, Relaxed);
        assert_eq!(word.load(Relaxed), u64::MAX);
    }
}
