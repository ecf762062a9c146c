//! [`Refresher`]: a thread that compares with the kernel, so that no reader has to.

use crate::clock::Clock;
use crate::worker::Worker;
use clockwise_core::kernel::ClockId;
use std::io;
use std::time::Duration;

/// Half of the shortest half-period: between two turns there is always one that comes in time.
const PERIOD: Duration = Duration::from_millis(1);

/// A thread that refreshes clocks ahead of their readers, until it is dropped.
///
/// Without it the first reader past a period's end takes the sample: some hundred nanoseconds, once in 4 ms. With it
/// readers pay for none, as long as the thread gets a processor once in 2 ms; where it does not, they
/// help themselves as always. It wakes a thousand times a second.
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
pub struct Refresher {
    worker: Worker,
}

impl Refresher {
    /// Starts the thread, for these clocks of the process.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(clocks: &[ClockId]) -> io::Result<Self> {
        let clocks: Vec<_> = clocks.iter().map(|&id| Clock::new(id)).collect();
        let work = move || {
            for clock in &clocks {
                // What is wrong with a clock its readers hear.
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
