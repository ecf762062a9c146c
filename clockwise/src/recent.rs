//! [`recent()`]: a time that a [`Ticker`] thread keeps, at the price of a load.

use crate::worker::Worker;
use crate::{Instant, SystemTime};
use clockwise_core::page::Page;
use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

/// What the ticker keeps; zeros where there is none, also in a forked child.
static KEPT: Page = Page::new();
const MONOTONIC: usize = 0;
const REALTIME: usize = 1;
/// Not 0 while there is a ticker.
const RUNNING: usize = 2;

/// The time that the [`Ticker`] has kept last: at most its period old, and as much more as its thread has waited for a
/// processor. Without a ticker, in a child forked from a process that has one, and on targets without 64-bit atomics:
/// [`Instant::now`].
///
/// Never goes back while the ticker runs, and is never ahead of [`Instant::now`].
///
/// ```
/// use std::time::Duration;
/// let ticker = clockwise::Ticker::start(Duration::from_micros(500))?;
/// let start = clockwise::recent();
/// assert!(clockwise::recent() >= start);
/// drop(ticker); // joins the thread
/// # Ok::<(), clockwise::TickerError>(())
/// ```
#[inline]
#[must_use]
pub fn recent() -> Instant {
    match KEPT.load(MONOTONIC) {
        0 => Instant::now(),
        nanos => Instant::from_nanos(nanos as i64),
    }
}

/// As [`recent`], the wall clock. A step shows within the ticker's period more than in [`SystemTime::now`].
#[inline]
#[must_use]
pub fn recent_system_time() -> SystemTime {
    match KEPT.load(REALTIME) {
        0 => SystemTime::now(),
        nanos => SystemTime::from_nanos(nanos as i64),
    }
}

/// A thread that keeps [`recent()`] up to date, from [`start`](Self::start) until it is dropped. One in a process: it
/// belongs to the program, not to a library.
///
/// A child of `fork` does not have the thread: there [`is_running`](Self::is_running) is false, [`recent()`] reads
/// the clock, and another ticker can be started.
///
/// ```
/// use clockwise::{Ticker, TickerError};
/// use std::time::Duration;
/// let ticker = Ticker::start(Duration::from_millis(1))?;
/// assert!(ticker.is_running());
/// let second = Ticker::start(Duration::from_millis(1));
/// assert!(matches!(second, Err(TickerError::Running)));
/// # Ok::<(), TickerError>(())
/// ```
#[derive(Debug)]
#[must_use = "the thread ends when this is dropped: keep it in a variable"]
pub struct Ticker {
    worker: Worker,
}

impl Ticker {
    /// The shortest and the longest period.
    pub const PERIOD: std::ops::RangeInclusive<Duration> =
        Duration::from_micros(10)..=Duration::from_secs(1);

    /// Starts the thread. [`recent()`] is up to date when this returns.
    ///
    /// # Errors
    /// There is one already, the period is outside [`PERIOD`](Self::PERIOD), or the system gives no thread.
    pub fn start(period: Duration) -> Result<Self, TickerError> {
        if !Self::PERIOD.contains(&period) {
            return Err(TickerError::Period);
        }
        // Before anything is there to be wiped: a fork may come at any time. Where the kernel cannot (before 4.14,
        // other systems), a child finds its parent's last times.
        let _ = KEPT.wipe_on_fork();
        if !KEPT.replace(RUNNING, 0, 1) {
            return Err(TickerError::Running);
        }
        keep();
        match Worker::start("clockwise-tick", period, keep) {
            Ok(worker) => Ok(Self { worker }),
            Err(error) => {
                clear();
                Err(TickerError::Thread(error))
            }
        }
    }

    /// Whether the thread runs in this process: `false` in a forked child.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.worker.is_here()
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        // In a child, where nothing is kept, a ticker of its own may run by now.
        if self.worker.is_here() {
            self.worker.stop();
            clear();
        }
    }
}

fn keep() {
    // Half of one time and half of another is no time: there `recent` reads the clock.
    if !Page::ATOMIC {
        return;
    }
    // The clocks' zeros are no times of a machine that runs: 0 means that nothing is kept.
    KEPT.store(MONOTONIC, Instant::now().as_nanos() as u64);
    KEPT.store(REALTIME, SystemTime::now().as_nanos() as u64);
}

fn clear() {
    KEPT.store(MONOTONIC, 0);
    KEPT.store(REALTIME, 0);
    KEPT.store(RUNNING, 0);
}

/// Why there is no ticker.
#[derive(Debug)]
#[non_exhaustive]
pub enum TickerError {
    /// There is one already in this process.
    Running,
    /// The period is shorter than 10 us or longer than 1 s.
    Period,
    /// The system gives no thread.
    Thread(io::Error),
}

impl fmt::Display for TickerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running => f.write_str("another ticker runs in this process: keep one, in the program and not in a library"),
            Self::Period => f.write_str("a ticker's period is from 10 us to 1 s"),
            Self::Thread(_) => f.write_str("the ticker's thread could not be started"),
        }
    }
}

impl Error for TickerError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Thread(error) => Some(error),
            Self::Running | Self::Period => None,
        }
    }
}
