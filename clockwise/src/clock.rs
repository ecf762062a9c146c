//! [`Clock`]: one of the kernel's clocks, by its id.

use crate::Instant;
use crate::global::{PROCESS, ProcessCounter, ProcessKernel};
use clockwise_core::clock::{Clock as Engine, Outcome, Reading, Status};
use clockwise_core::counter::Counter;
use clockwise_core::kernel::{ClockId, Errno, Kernel};
use clockwise_core::units::Timespec;
use std::fmt;

/// One clock of the kernel, read through the counter where it is one of the five that are followed: REALTIME,
/// MONOTONIC, BOOTTIME, TAI, MONOTONIC_RAW. All others are asked of the kernel.
///
/// Code that is generic over `C` and `K`, or takes a `Clock<'_, C, K>`, can be tested with a clock that is set by
/// hand: see [`Manual`](crate::Manual).
///
/// ```
/// use clockwise::Clock;
/// let clock = Clock::boottime();
/// match clock.now() {
///     Ok(nanos) => println!("{nanos} ns since boot, suspends included; fast: {}", clock.is_fast()),
///     Err(errno) => println!("no such clock here: {errno}"),
/// }
/// ```
pub struct Clock<'a, C = ProcessCounter, K = ProcessKernel> {
    engine: &'a Engine<C, K>,
    id: ClockId,
}

impl<C, K> Clone for Clock<'_, C, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C, K> Copy for Clock<'_, C, K> {}

impl Clock<'static> {
    /// The process's clock `id`. Whether the kernel has it shows at the first read.
    #[must_use]
    pub const fn new(id: ClockId) -> Self {
        Self { engine: &PROCESS, id }
    }

    /// The wall clock: goes back where it is set back.
    #[must_use]
    pub const fn realtime() -> Self {
        Self::new(ClockId::REALTIME)
    }

    /// Never goes back, steered but not stepped, stands still in suspend.
    #[must_use]
    pub const fn monotonic() -> Self {
        Self::new(ClockId::MONOTONIC)
    }

    /// MONOTONIC that counts in suspend.
    #[must_use]
    pub const fn boottime() -> Self {
        Self::new(ClockId::BOOTTIME)
    }

    /// The wall clock without leap seconds, once somebody has told the kernel how many there were.
    #[must_use]
    pub const fn tai() -> Self {
        Self::new(ClockId::TAI)
    }

    /// MONOTONIC that is not steered.
    #[must_use]
    pub const fn monotonic_raw() -> Self {
        Self::new(ClockId::MONOTONIC_RAW)
    }
}

impl<'a, C: Counter, K: Kernel> Clock<'a, C, K> {
    /// The clock `id` of an [`Engine`] of one's own.
    #[must_use]
    pub const fn of(engine: &'a Engine<C, K>, id: ClockId) -> Self {
        Self { engine, id }
    }

    /// Nanoseconds from the clock's zero, ordered: not less than any reading that this thread has seen, unless the
    /// clock was set back.
    ///
    /// # Errors
    /// The kernel's: `EINVAL` for a clock it does not have.
    #[inline]
    pub fn now(&self) -> Result<i64, Errno> {
        self.engine.now(self.id)
    }

    /// Nanoseconds from the clock's zero, unordered; see [`Instant::now_relaxed`](crate::Instant::now_relaxed).
    ///
    /// # Errors
    /// As [`now`](Self::now).
    #[inline]
    pub fn now_relaxed(&self) -> Result<i64, Errno> {
        self.engine.now_relaxed(self.id)
    }

    /// As [`now`](Self::now), as an [`Instant`]: for code that takes MONOTONIC from a clock of its
    /// caller's, so that a test can give it one that is set by hand.
    ///
    /// # Errors
    /// As [`now`](Self::now).
    #[inline]
    pub fn instant(&self) -> Result<Instant, Errno> {
        self.now().map(Instant::from_nanos)
    }

    /// As [`now`](Self::now), as the `timespec` that system calls take.
    ///
    /// # Errors
    /// As [`now`](Self::now).
    pub fn timespec(&self) -> Result<Timespec, Errno> {
        self.now().map(Timespec::from_nanos)
    }

    /// As [`now`](Self::now), with how far from the kernel's clock it may be.
    ///
    /// # Errors
    /// As [`now`](Self::now).
    pub fn now_with_bound(&self) -> Result<Reading, Errno> {
        self.engine.reading(self.id)
    }

    /// What became of this clock so far: refreshes, steps, distrust and why. `None` for a clock that is not
    /// followed, which the kernel always answers.
    #[must_use]
    pub fn status(&self) -> Option<Status> {
        self.engine.status(self.id)
    }

    /// Whether a read would be answered from the counter now, as far as anyone can say.
    #[must_use]
    pub fn is_fast(&self) -> bool {
        self.status().is_some_and(|status| status.fast)
    }

    /// Compares with the kernel ahead of time, if half of the period is over: see
    /// [`Refresher`](crate::Refresher), which does this in a thread.
    ///
    /// # Errors
    /// As [`now`](Self::now), and `EINVAL` for a clock that is not followed.
    pub fn refresh(&self) -> Result<Outcome, Errno> {
        self.engine.refresh(self.id)
    }

    /// Which clock it is.
    #[must_use]
    pub const fn id(&self) -> ClockId {
        self.id
    }
}

impl<C, K> fmt::Debug for Clock<'_, C, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clock").field(&self.id).finish()
    }
}

/// The kernel's name of it.
impl<C, K> fmt::Display for Clock<'_, C, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.id.name() {
            Some(name) => write!(f, "CLOCK_{name}"),
            None => write!(f, "clock {}", self.id.0),
        }
    }
}

/// What the standard library does where the kernel refuses a clock that every kernel has.
#[cold]
#[inline(never)]
pub(crate) fn unanswered(clock: ClockId, errno: Errno) -> ! {
    panic!("the kernel refuses {}: {errno}", Clock::new(clock))
}
