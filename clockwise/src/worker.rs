//! A thread that does something again and again until it is dropped: for the ticker and the refresher.
//!
//! Must never be joined in a forked child, where it does not exist.

use crate::Instant;
use crate::global::PROCESS;
use clockwise_core::kernel;
use clockwise_core::page::Page;
use clockwise_core::trust::{NoCounter, Unfit};
use std::io;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Names the process, where the kernel wipes it on fork: a child in a process namespace of its own may have the same
/// number as its parent (1).
static NAME: Page = Page::new();

/// Not 0, and not that of any process this one was forked from: the time at which it was asked for first.
fn name_of_process() -> u64 {
    let _ = NAME.wipe_on_fork();
    let now = Instant::now().as_nanos() as u64;
    NAME.replace(0, 0, now.max(1));
    NAME.load(0)
}

#[derive(Debug)]
pub(crate) struct Worker {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// The process that has the thread.
    process: u32,
    name: u64,
}

impl Worker {
    /// Calls `work` every `period` from now on.
    pub(crate) fn start(
        name: &str,
        period: Duration,
        mut work: impl FnMut() + Send + 'static,
    ) -> io::Result<Self> {
        let name_here = name_of_process();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let run = move || {
            kernel::sharpen_timers();
            while !stopped.load(Ordering::Acquire) {
                work();
                wait(period);
            }
        };
        let thread = thread::Builder::new().name(name.into()).spawn(run)?;
        Ok(Self { stop, thread: Some(thread), process: std::process::id(), name: name_here })
    }

    /// Whether the thread exists: not in a forked child.
    pub(crate) fn is_here(&self) -> bool {
        self.process == std::process::id() && self.name == NAME.load(0)
    }

    /// Ends the thread and waits for it: for a period at most.
    pub(crate) fn stop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        if !self.is_here() {
            // A handle that is dropped detaches its thread: by a number which a thread of the child may have by now.
            mem::forget(thread);
            return;
        }
        self.stop.store(true, Ordering::Release);
        thread.thread().unpark();
        // A panic (the kernel refuses a clock) has been shown by the thread; there is nothing to add.
        let _ = thread.join();
    }
}

/// Until the period is over, or the thread is to end.
fn wait(period: Duration) {
    if PROCESS.unfit() == Some(Unfit::NoCounter(NoCounter::Forbidden)) {
        // `park_timeout` reads the C library's clock, and that the counter: SIGSEGV.
        thread::sleep(period);
    } else {
        thread::park_timeout(period);
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop();
    }
}
