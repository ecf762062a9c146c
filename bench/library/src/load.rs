//! [`Load`]: what else goes on while accuracy is measured: threads of the lowest priority that walk through memory.
//!
//! They are bound to the processors that the measuring thread leaves free.

use crate::os;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// More than the second-level cache holds.
const MEMORY: usize = 16 << 20;

/// Busy threads, until it is dropped.
pub struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    /// Starts so many, from the last of the processors on; the measuring thread keeps the first.
    pub fn start(count: usize, processors: &[usize]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let busy = |index: usize| {
            let (stop, processors) = (Arc::clone(&stop), processors.to_vec());
            thread::spawn(move || {
                os::lowest_priority();
                os::bind(&[processors[processors.len() - 1 - index % processors.len()]]);
                let mut memory = vec![0u64; MEMORY / 8];
                let mut at = 0usize;
                while !stop.load(Ordering::Relaxed) {
                    memory[at] = memory[at].wrapping_add(1);
                    at = (at + 8 * 127) % memory.len();
                }
                black_box(&memory);
            })
        };
        let threads = (0..count).map(busy).collect();
        Self { stop, threads }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A thread that only counts has nothing to tell.
            let _ = thread.join();
        }
    }
}
