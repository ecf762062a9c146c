//! [`Page`]: words that a forked child finds zeroed.
//!
//! What one process knows of itself alone (a thread that keeps something up to date) is wrong in its children; here
//! it vanishes. Must never hold what a child needs.

use crate::kernel::{self, Errno};
use crate::word::Word;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

const WORDS: usize = 4096 / size_of::<Word>();

/// A page of shared words for a static, all zero at first and, once [asked for](Self::wipe_on_fork), in each child.
///
/// ```
/// use clockwise_core::page::Page;
/// static PAGE: Page = Page::new();
/// PAGE.store(0, 7);
/// assert_eq!(PAGE.load(0), 7);
/// ```
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct Page([Word; WORDS]);

impl Page {
    /// Whether a word is read and written as a whole; `false` on targets without 64-bit atomics.
    pub const ATOMIC: bool = cfg!(all(target_has_atomic = "64", not(clockwise_halves)));

    /// All zeros.
    #[cfg(not(all(test, loom)))]
    #[must_use]
    pub const fn new() -> Self {
        Self([const { Word::new(0) }; WORDS])
    }

    /// The word at `index` (0..512); sees all that was written before it was stored.
    ///
    /// # Panics
    /// If there is none.
    #[inline(always)]
    #[must_use]
    pub fn load(&self, index: usize) -> u64 {
        self.0[index].load(Acquire)
    }

    /// Stores a word.
    ///
    /// # Panics
    /// If there is none of that index.
    #[inline]
    pub fn store(&self, index: usize, value: u64) {
        self.0[index].store(value, Release);
    }

    /// Stores `new` if the word is `old`; whether it was.
    ///
    /// # Panics
    /// If there is none of that index.
    pub fn replace(&self, index: usize, old: u64, new: u64) -> bool {
        self.0[index].compare_exchange(old, new, AcqRel, Relaxed).is_ok()
    }

    /// Lets children of `fork` find zeros here (Linux 4.14).
    ///
    /// # Errors
    /// The kernel's; a child then inherits the words.
    pub fn wipe_on_fork(&'static self) -> Result<(), Errno> {
        kernel::wipe_on_fork(self)
    }
}

#[cfg(not(all(test, loom)))]
impl Default for Page {
    fn default() -> Self {
        Self::new()
    }
}
