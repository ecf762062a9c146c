//! The memory of a stopped process, read by pages.
//!
//! Must never be kept while the process runs: what was read may have changed.

use crate::os::trace;

const PAGE: u64 = 4096;

/// What was read of it.
pub struct Memory {
    process: i32,
    pages: Vec<(u64, Box<[u8; PAGE as usize]>)>,
}

impl Memory {
    /// Of that process.
    pub const fn of(process: i32) -> Self {
        Self { process, pages: Vec::new() }
    }

    /// The word at an address; nothing where nothing is mapped.
    pub fn word(&mut self, address: u64) -> Option<u64> {
        let offset = (address % PAGE) as usize;
        if offset > PAGE as usize - 8 {
            let mut word = [0; 8];
            let read = trace::read(self.process, address, &mut word).ok()?;
            return (read == 8).then(|| u64::from_ne_bytes(word));
        }
        let start = address - offset as u64;
        let index = self.pages.iter().position(|&(page, _)| page == start);
        let index = match index {
            Some(index) => index,
            None => {
                let mut bytes = Box::new([0; PAGE as usize]);
                let read = trace::read(self.process, start, &mut *bytes).ok()?;
                if read < PAGE as usize {
                    return None;
                }
                self.pages.push((start, bytes));
                self.pages.len() - 1
            }
        };
        self.pages[index].1.get(offset..)?.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes))
    }
}
