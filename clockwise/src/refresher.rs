//! [`Refresher`]: a thread that compares with the kernel, so that no reader has to.

use crate::clock::Clock;
use crate::worker::Worker;
use clockwise_core::kernel::ClockId;
use std::io;
use std::time::Duration;

/// A line is refreshed ahead from its half on, and by its readers in its last quarter: a millisecond between.
const PERIOD: Duration = Duration::from_micros(500);

/// A thread that refreshes clocks ahead of their readers, until it is dropped.
///
/// Without it the first reader in the last quarter of a line takes the sample: some hundred nanoseconds, once in 4 ms.
/// With it readers pay for almost none, as long as the thread gets a processor once in a millisecond; where it does not,
/// they help themselves as always. It wakes two thousand times a second.
///
/// A child of `fork` does not have the thread, and goes on without.
///
/// ```
/// use clockwise::{ClockId, Instant, Refresher};
/// let refresher = Refresher::start(&[ClockId::MONOTONIC, ClockId::REALTIME])?;
/// let now = Instant::now();
/// # let _ = now;
/// drop(refresher); // joins the thread
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "the thread ends when this is dropped: keep it in a variable"]
pub struct Refresher {
    worker: Worker,
}

impl Refresher {
    /// Starts the thread, for these clocks of the process.
    ///
    /// # Errors
    /// `InvalidInput` for a clock that is not followed (see [`Clock`]); the system gives no thread.
    pub fn start(clocks: &[ClockId]) -> io::Result<Self> {
        if let Some(&id) = clocks.iter().find(|&&id| Clock::new(id).status().is_none()) {
            let words =
                format!("{} is not followed, so there is nothing to refresh", Clock::new(id));
            return Err(io::Error::new(io::ErrorKind::InvalidInput, words));
        }
        let clocks: Vec<_> = clocks.iter().map(|&id| Clock::new(id)).collect();
        let work = move || {
            for clock in &clocks {
                // Errors show to the clock's readers.
                let _ = clock.refresh();
            }
        };
        Worker::start("clockwise-sync", PERIOD, work).map(|worker| Self { worker })
    }

    /// Whether the thread runs in this process: `false` in a forked child.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.worker.is_here()
    }
}
