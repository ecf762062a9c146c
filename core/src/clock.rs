//! [`Clock`]: the kernel's clocks at the price of reading the counter.
//!
//! ```text
//!  read --> line there and not due? --> counter, one multiplication        (hot: one cache line)
//!                 | no
//!                 v
//!           next line? --> use it;  due? --> sample the kernel, publish;  neither? --> what the kernel says
//! ```
//!
//! Nothing is calibrated, no thread runs: whoever reads in a line's last quarter makes the next. A read never waits,
//! never allocates, and may run in a signal handler, before `main`, and in the child of a fork.

use crate::bank::Answer;
use crate::counter::Counter;
use crate::kernel::{self, ClockId, Errno, Kernel};
pub use crate::latch::Split;
pub use crate::status::{STATUS_WORDS, Status, Step};
use crate::timebase::{Line, PERIOD_MAX_NS, START_NS};
pub use crate::track::Outcome;
use crate::track::{STEPS_KEPT, Source, Track};
use crate::trust::{NoCounter, Unfit};
use crate::units::Ticks;
use crate::word::Word;
use core::sync::atomic::Ordering::Relaxed;

/// Follows five of the kernel's clocks: REALTIME, MONOTONIC, BOOTTIME, TAI and MONOTONIC_RAW, each on its own and
/// from its first read on. All others are asked of the kernel.
///
/// Laws, for each reading, across threads and cores, refreshes, loss of trust, suspend and fork:
///
/// * The clocks that nobody can set never go back (unless the kernel's own did: another time namespace).
/// * Ordered readings are causal: if a thread has seen one, its next is not smaller.
/// * A reading is at most its [`error_ns`](Reading::error_ns) from the kernel's clock, unless the kernel or the
///   counter was stepped since the last refresh (one period ago at most, 4 ms as a rule).
///
/// The whole state is zeros at first, so that a static needs no initialisation and a page that the kernel wipes on
/// fork begins anew.
///
/// ```
/// use clockwise_core::{clock::Clock, counter::Hardware, kernel::{ClockId, Linux}};
/// # if let Ok(counter) = Hardware::find() {
/// let clock = Clock::new(counter, Linux::find());
/// let earlier = clock.now(ClockId::MONOTONIC)?;
/// let later = clock.now(ClockId::MONOTONIC)?;
/// assert!(later >= earlier);
/// # }
/// # Ok::<(), clockwise_core::kernel::Errno>(())
/// ```
#[derive(Debug)]
#[repr(C)]
pub struct Clock<C, K> {
    state: State,
    /// 0: not asked yet; 1: the counter may be used; else the code of the reason why not. Outlives a fork: a child
    /// behind a filter that kills cannot ask again.
    verdict: Word,
    /// For how long a line holds, in nanoseconds; 0: as the keeper thinks best.
    max_age_ns: Word,
    counter: C,
    kernel: K,
}

/// Whole pages of their own, so that they can be wiped on fork without their neighbours.
#[derive(Debug)]
#[repr(C, align(4096))]
struct State {
    tracks: [Track; 5],
}

const FIT: u64 = 1;

/// The clocks that are followed, in the order in which they are counted and noted.
pub const FOLLOWED: [ClockId; 5] = [
    ClockId::MONOTONIC,
    ClockId::REALTIME,
    ClockId::BOOTTIME,
    ClockId::TAI,
    ClockId::MONOTONIC_RAW,
];

/// The place of a clock in [`FOLLOWED`]; `None` for one that is not followed.
#[inline(always)]
#[must_use]
pub const fn followed(clock: ClockId) -> Option<usize> {
    // A comparison and a load: what becomes of a `match` takes a nanosecond more of a C call.
    let number = clock.0 as usize;
    if number >= PLACES.len() || PLACES[number] >= NOWHERE {
        return None;
    }
    Some(PLACES[number] as usize)
}

const NOWHERE: u8 = FOLLOWED.len() as u8;
/// By clock number the place in [`FOLLOWED`].
const PLACES: [u8; 12] = {
    let mut places = [NOWHERE; 12];
    let mut place = 0;
    while place < FOLLOWED.len() {
        places[FOLLOWED[place].0 as usize] = place as u8;
        place += 1;
    }
    places
};

/// Where a reading came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// Computed from the counter.
    Counter,
    /// Asked of the kernel.
    Kernel,
}

/// A reading, with what is known about it.
///
/// ```
/// use clockwise_core::clock::Clock;
/// use clockwise_core::counter::SharedHardware;
/// use clockwise_core::kernel::{ClockId, SharedLinux};
///
/// # if clockwise_core::kernel::System::AVAILABLE {
/// static CLOCK: Clock<SharedHardware, SharedLinux> = Clock::new(SharedHardware, SharedLinux);
/// let reading = CLOCK.reading(ClockId::BOOTTIME)?;
/// assert!(reading.steady_error_ns <= reading.error_ns);
/// println!("{} ns, by the {:?}", reading.nanos, reading.origin);
/// if let Some(status) = CLOCK.status(ClockId::BOOTTIME) {
///     println!("{status}");
/// }
/// # }
/// # Ok::<(), clockwise_core::kernel::Errno>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reading {
    /// Nanoseconds from the clock's zero.
    pub nanos: i64,
    /// How far from the kernel's clock that may be, whatever adjtimex has done to its frequency (from one end of its
    /// range to the other: 1000 ppm) since the last sample: a microsecond for each millisecond since then. A step, or a new
    /// length of the kernel's tick (`ADJ_TICK`), may exceed it until the next sample or two have shown it.
    pub error_ns: u64,
    /// The same if the kernel has kept its rate: tens of nanoseconds.
    pub steady_error_ns: u64,
    /// Where it came from.
    pub origin: Origin,
}

/// Whether people may set it.
const fn may_step(clock: ClockId) -> bool {
    matches!(clock, ClockId::REALTIME | ClockId::TAI)
}

/// One clock's hot path: see [`Clock::hot`].
#[derive(Clone, Copy, Debug)]
pub struct Hot<'a, C> {
    track: &'a Track,
    counter: &'a C,
}

impl<C: Counter> Hot<'_, C> {
    /// What [`Clock::now`] says, or with `relaxed` [`Clock::now_relaxed`]; `None` where these would go on.
    #[inline(always)]
    pub fn at_once(self, relaxed: bool) -> Option<Split> {
        self.track.split(|form| {
            if relaxed { self.counter.ticks_unordered() } else { self.counter.ticks_by(form) }
        })
    }
}

impl<C: Counter, K: Kernel> Clock<C, K> {
    /// A clock that nobody has read yet. Costs nothing: the counter is judged, and the kernel asked, at the first
    /// read.
    pub const fn new(counter: C, kernel: K) -> Self {
        let state = State { tracks: [const { Track::new() }; 5] };
        Self { state, verdict: Word::new(0), max_age_ns: Word::new(0), counter, kernel }
    }

    /// What `clock` says, in nanoseconds: ordered, so that it is not older than anything the thread has seen.
    ///
    /// # Errors
    /// The kernel's, where it is the kernel that answers: `EINVAL` for a clock it does not have.
    #[inline(always)]
    pub fn now(&self, clock: ClockId) -> Result<i64, Errno> {
        match self.track(clock).and_then(|track| track.time(|form| self.counter.ticks_by(form))) {
            Some(nanos) => Ok(nanos),
            None => self.ask(clock),
        }
    }

    /// As [`now`](Self::now), cheaper and unordered: may be older than what the thread has seen in memory by what
    /// the processor has in flight. Still never goes back within a thread.
    ///
    /// # Errors
    /// As for [`now`](Self::now).
    #[inline(always)]
    pub fn now_relaxed(&self, clock: ClockId) -> Result<i64, Errno> {
        match self.track(clock).and_then(|track| track.time(|_| self.counter.ticks_unordered())) {
            Some(nanos) => Ok(nanos),
            None => self.ask(clock),
        }
    }

    /// The hot path of [`now`](Self::now) alone, for a clock that is followed.
    #[inline(always)]
    pub fn hot(&self, clock: ClockId) -> Option<Hot<'_, C>> {
        self.track(clock).map(|track| Hot { track, counter: &self.counter })
    }

    /// As [`now`](Self::now), with its bound.
    ///
    /// # Errors
    /// As for [`now`](Self::now).
    pub fn reading(&self, clock: ClockId) -> Result<Reading, Errno> {
        let told =
            self.track(clock).and_then(|track| track.told(|form| self.counter.ticks_by(form)));
        let answer = match told {
            Some(answer) => answer,
            None => self.answer(clock)?,
        };
        Ok(match answer {
            Answer::Line(line, ticks, nanos) => Reading {
                nanos,
                error_ns: line.error_ns(ticks),
                steady_error_ns: u64::from(line.steady_ns),
                origin: Origin::Counter,
            },
            Answer::Kernel(nanos, moved_ns) => Reading {
                nanos,
                error_ns: moved_ns,
                steady_error_ns: moved_ns,
                origin: Origin::Kernel,
            },
        })
    }

    #[cold]
    #[inline(never)]
    fn ask(&self, clock: ClockId) -> Result<i64, Errno> {
        match self.answer(clock)? {
            Answer::Line(_, _, nanos) | Answer::Kernel(nanos, _) => Ok(nanos),
        }
    }

    fn answer(&self, clock: ClockId) -> Result<Answer, Errno> {
        match self.track(clock) {
            Some(track) if self.is_fit() => track.answer(&self.source(clock)),
            track => {
                let nanos = self.kernel.now(clock)?.nanos_i64();
                // Lines may have answered before the counter was forbidden.
                let floor = track.map_or(i64::MIN, |track| track.floor(may_step(clock)));
                Ok(Answer::Kernel(nanos.max(floor), nanos.max(floor).abs_diff(nanos)))
            }
        }
    }

    /// Makes the next line of `clock` if half of the current one is over, so that no reader has to: for a thread
    /// that does this every millisecond.
    ///
    /// # Errors
    /// The kernel's.
    pub fn refresh(&self, clock: ClockId) -> Result<Outcome, Errno> {
        match self.track(clock) {
            Some(track) if self.is_fit() => track.refresh_ahead(&self.source(clock)),
            Some(_) => Ok(self.unfit().map_or(Outcome::NotDue, Outcome::Distrusted)),
            None => Err(Errno::INVAL),
        }
    }

    fn source(&self, clock: ClockId) -> Source<'_, C, K> {
        let max_age_ns = self.max_age_ns.load(Relaxed);
        let may_step = may_step(clock);
        Source { counter: &self.counter, kernel: &self.kernel, clock, may_step, max_age_ns }
    }

    /// The track of a clock that is followed.
    #[inline(always)]
    fn track(&self, clock: ClockId) -> Option<&Track> {
        // Nowhere is beyond the tracks: one check for both.
        self.state.tracks.get(usize::from(*PLACES.get(clock.0 as usize)?))
    }

    #[inline]
    fn is_fit(&self) -> bool {
        match self.verdict.load(Relaxed) {
            0 => self.judge(),
            verdict => verdict == FIT,
        }
    }

    /// Whoever comes at the same time comes to the same verdict.
    #[cold]
    #[inline(never)]
    fn judge(&self) -> bool {
        let verdict = self.counter.fit().map_or_else(Unfit::code, |()| FIT);
        self.verdict.store(verdict, Relaxed);
        verdict == FIT
    }

    /// Whether the counter was judged, and not fit from the first: what the kernel says is all that is ever said.
    #[inline]
    pub fn is_never_fit(&self) -> bool {
        let forbidden = Unfit::NoCounter(NoCounter::Forbidden).code();
        !matches!(self.verdict.load(Relaxed), 0 | FIT) && self.verdict.load(Relaxed) != forbidden
    }

    /// Why the counter may not be used in this process, if it was asked and may not.
    pub fn unfit(&self) -> Option<Unfit> {
        Unfit::from_code(self.verdict.load(Relaxed))
    }

    /// Judges the counter now, so that no later read has to: for whoever may be forbidden to make system calls later.
    /// Reads no clock.
    pub fn judge_now(&self) {
        self.is_fit();
    }

    /// The counter will be forbidden, to one thread at least: from now on the kernel answers, to all threads. No line comes
    /// out any more, also of a thread that is writing one.
    pub fn forbid(&self) {
        let was_fit = self.verdict.load(Relaxed) == FIT;
        self.verdict.store(Unfit::NoCounter(NoCounter::Forbidden).code(), Relaxed);
        kernel::leave_shared_vdso();
        if was_fit {
            let ticks = self.counter.ticks();
            self.state.tracks.iter().for_each(|track| track.forbid(ticks));
        }
    }

    /// Lets a line hold for so long, from 1 ms to 250 ms; 0: 4 ms, longer where the kernel is slow to read. An older line is
    /// further off after a change of the kernel's rate; a younger one costs more samples.
    pub fn set_max_age_ns(&self, max_age_ns: u64) {
        let range = START_NS..=PERIOD_MAX_NS;
        let max_age_ns =
            if max_age_ns == 0 { 0 } else { max_age_ns.clamp(*range.start(), *range.end()) };
        self.max_age_ns.store(max_age_ns, Relaxed);
    }

    /// A number that changes with each sample and each answer of the kernel, for the clock at `index` of [`FOLLOWED`].
    #[must_use]
    pub fn progress(&self, index: usize) -> u64 {
        let counts = self.state.tracks.get(index).map(|track| &track.counts);
        counts.map_or(0, |counts| {
            counts.refreshes.load(Relaxed).wrapping_add(counts.kernel_answers.load(Relaxed))
        })
    }

    /// What became of `clock`; `None` for one that is not followed.
    pub fn status(&self, clock: ClockId) -> Option<Status> {
        let track = self.track(clock)?;
        let counts = &track.counts;
        let line = track.line();
        let slope = line.map(|line: Line| line.slope).unwrap_or_default();
        let hard = line.map_or(Ticks(0), |line| line.hard);
        let steps = counts.steps.load(Relaxed);
        let last_steps = core::array::from_fn(|age| {
            let index = steps.checked_sub(age as u64 + 1)?;
            let step = &track.steps[index as usize % STEPS_KEPT];
            let [at, by] = [&step[0], &step[1]].map(|word| word.load(Relaxed) as i64);
            Some(Step { at_ns: at, by_ns: by })
        });
        Some(Status {
            unfit: self.unfit().or_else(|| track.distrust()),
            fast: line.is_some_and(|line| line.covers(self.counter.ticks())),
            frequency_hz: slope.scale().ticks(1_000_000_000).0,
            period_ns: slope.nanos(hard),
            refreshes: counts.refreshes.load(Relaxed),
            kernel_answers: counts.kernel_answers.load(Relaxed),
            slews: counts.slews.load(Relaxed),
            aheads: counts.aheads.load(Relaxed),
            steps,
            distrusts: counts.distrusts.load(Relaxed),
            residual_ns: counts.residual_ns.load(Relaxed) as i64,
            residual_max_ns: counts.residual_max_ns.load(Relaxed),
            last_steps,
        })
    }

    /// Lets a child of `fork` begin anew, with the kernel, instead of inheriting lines that were made for its
    /// parent (it may live in another time namespace) and a lock whose holder it does not have. Linux 4.14; costs
    /// nothing per read.
    ///
    /// # Errors
    /// The kernel's. Then a child goes on with its parent's lines, and a lock that was held at the fork is
    /// overruled after a second.
    pub fn wipe_on_fork(&'static self) -> Result<(), Errno> {
        kernel::wipe_on_fork(&self.state)
    }
}
