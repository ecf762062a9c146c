//! The executable mappings of a process, noted when an address is seen that is in none: when somebody asks what was at an
//! address, the process is gone.
//!
//! Must never forget one: what is unmapped meanwhile was called from.

use super::{
    Counting, ENTRY_HEAD, Kind, LOOKS, LOOKS_MAX, MODULE_BLOCKS, MODULE_HEAD, MODULE_WORDS,
    MODULES_AT, MODULES_LOST, PATH_MAX,
};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

impl<'a> Counting<'a> {
    /// Whether a module is noted that has this address.
    pub fn knows(&self, address: u64) -> bool {
        let mut at = self.words[MODULES_AT].load(Acquire);
        while at != 0 {
            let Some(words) = self.sites.blocks::<MODULE_WORDS>(at) else {
                return false;
            };
            let mut entry = MODULE_HEAD;
            while let Some([length, start, end, ..]) =
                words.get(entry..).and_then(|words| words.first_chunk::<ENTRY_HEAD>())
            {
                let length = length.load(Acquire) as usize;
                if !(ENTRY_HEAD..MODULE_WORDS).contains(&length) {
                    break;
                }
                if (start.load(Relaxed)..end.load(Relaxed)).contains(&address) {
                    return true;
                }
                entry += length;
            }
            // Blocks are taken in order: no circle, whatever stands there.
            at = Some(words[1].load(Relaxed)).filter(|&before| before < at).unwrap_or(0);
        }
        false
    }

    /// Whether to look for modules once more; not if that was done so often.
    pub fn may_look(&self, most: u64) -> bool {
        let most = most.min(LOOKS_MAX);
        self.words[LOOKS].load(Relaxed) < most && self.words[LOOKS].fetch_add(1, Relaxed) < most
    }

    /// Notes an executable mapping, unless its first and last address are known.
    pub fn add_module(&self, start: u64, end: u64, offset: u64, path: &[u8]) {
        if self.knows(start) && self.knows(end.wrapping_sub(1)) {
            return;
        }
        let path = path.get(..PATH_MAX).unwrap_or(path);
        let length = ENTRY_HEAD + path.len().div_ceil(8);
        let Some((block, entry)) = self.module_room(length) else {
            self.words[MODULES_LOST].fetch_add(1, Relaxed);
            return;
        };
        let words = block.get(entry..).unwrap_or_default();
        for (word, value) in words.iter().skip(1).zip([start, end, offset, path.len() as u64]) {
            word.store(value, Relaxed);
        }
        for (word, eight) in words.iter().skip(ENTRY_HEAD).zip(path.chunks(8)) {
            let mut value = [0; 8];
            value.iter_mut().zip(eight).for_each(|(to, &from)| *to = from);
            word.store(u64::from_le_bytes(value), Relaxed);
        }
        // Last: what is not finished has no length.
        if let Some(word) = words.first() {
            word.store(length as u64, Release);
        }
    }

    fn module_room(&self, length: usize) -> Option<(&'a [AtomicU64; MODULE_WORDS], usize)> {
        let current = &self.words[MODULES_AT];
        for _ in 0..3 {
            let at = current.load(Acquire);
            if at != 0 {
                let words: &[AtomicU64; MODULE_WORDS] = self.sites.blocks(at)?;
                if (words[0].load(Relaxed) as usize).saturating_add(length) < MODULE_WORDS {
                    let entry = words[0].fetch_add(length as u64, Relaxed) as usize;
                    if entry.saturating_add(length) < MODULE_WORDS {
                        return Some((words, entry));
                    }
                }
            }
            let first = self.sites.take(MODULE_BLOCKS, Kind::Modules, Some(self.number))?;
            let words: &[AtomicU64; MODULE_WORDS] = self.sites.blocks(first)?;
            words[0].store(MODULE_HEAD as u64, Relaxed);
            words[1].store(at, Relaxed);
            let _ = current.compare_exchange(at, first, AcqRel, Relaxed);
        }
        None
    }
}
