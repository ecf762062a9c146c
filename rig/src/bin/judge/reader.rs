//! A thread that reads all clocks between readings of the kernel, and keeps what breaks a law.
//!
//! What happened to the kernel's clock meanwhile is not known here: a reading outside its bound is a suspect until the
//! end, when [`Window`]s say where the kernel's own time was moved. Must never excuse anything by itself.

use crate::subject::{Subject, Told};
use clockwise::{ClockId, Errno};
use clockwise_core::clock::FOLLOWED;
use clockwise_core::kernel::System;
use clockwise_core::laws::{self, Law, Monotonic, Violation};
use clockwise_core::timebase::ERROR_MAX_NS;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;
use std::time::Duration;

/// So many are kept; one more is a suspect that nothing excuses.
const SUSPECTS_MAX: usize = 50_000;

/// What a line may be off when it is made, and what a slew makes of two periods.
const LINE_ERROR_MAX_NS: u64 = ERROR_MAX_NS + 10_000;

/// How long a reader that rests sleeps between two bursts.
const NAP: Duration = Duration::from_secs(600);
/// And how many rounds it reads then.
const BURST: u32 = 500;

/// What the threads share.
pub struct Shared {
    pub subjects: Vec<Judged>,
    pub is_over: AtomicBool,
    /// The kernel's answer may be older than the call. On HPET a processor that finds another one reading it is given what
    /// that one has read (arch/x86/kernel/hpet.c), be it before the call: long before, where the host stopped that one.
    pub is_stale_at_times: bool,
    /// The readers sleep between bursts.
    pub rests: AtomicBool,
}

/// A subject, and the latest reading that any thread has taken of each of its clocks.
pub struct Judged {
    pub subject: Subject,
    pub latest: [AtomicI64; FOLLOWED.len()],
}

/// A reading that broke a law, unless the kernel's clock was moved just then.
#[derive(Clone, Copy, Debug)]
pub struct Suspect {
    pub clock: usize,
    pub violation: Violation,
    /// Between these two of the kernel's MONOTONIC.
    pub from_ns: i64,
    pub to_ns: i64,
    pub before: i64,
    pub told: Told,
    pub after: i64,
}

/// When the kernel's time was moved: its rate by more than a bound covers, or a clock stepped.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    pub from_ns: i64,
    pub to_ns: i64,
    pub moved: Moved,
    /// How long it may take until it is followed.
    pub within_ns: i64,
}

/// Which clocks were moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// Those that people set.
    Set,
    /// All that are steered.
    Steered,
    /// All.
    All,
}

impl Window {
    pub const fn new(from_ns: i64, to_ns: i64, moved: Moved, within_ns: i64) -> Self {
        Self { from_ns, to_ns, moved, within_ns }
    }

    /// Whether the suspect was read before it had to be followed, and if so how long after it.
    pub fn excuses(&self, suspect: &Suspect) -> Option<i64> {
        let clock = FOLLOWED[suspect.clock];
        let is_of_it = match self.moved {
            Moved::Set => may_be_set(clock),
            Moved::Steered => clock != ClockId::MONOTONIC_RAW,
            Moved::All => true,
        };
        let is_bound = suspect.violation.law == Law::Bounded;
        let late_ns = suspect.from_ns - self.to_ns;
        (is_of_it && is_bound && suspect.to_ns >= self.from_ns && late_ns <= self.within_ns)
            .then_some(late_ns.max(0))
    }
}

/// Whether people may set it: it goes back where they do.
pub const fn may_be_set(clock: ClockId) -> bool {
    matches!(clock, ClockId::REALTIME | ClockId::TAI)
}

/// What one thread has found about one subject.
#[derive(Default)]
pub struct Found {
    pub readings: [u64; FOLLOWED.len()],
    pub from_counter: [u64; FOLLOWED.len()],
    pub error_max_ns: [u64; FOLLOWED.len()],
    /// Readings that the bound of a steady rate does not cover.
    pub unsteady: [u64; FOLLOWED.len()],
    /// Times that a clock of the kernel's went back that nobody can set: then ours may, and no law can be judged.
    pub kernel_went_back: u64,
    /// Times that the kernel was asked again, because its answer may have been stale.
    pub asked_again: u64,
    /// The longest time of the kernel's between two readings: for how long the machine did not run, if it was long.
    pub gap_max_ns: i64,
    last_ns: Option<i64>,
    pub suspects: Vec<Suspect>,
    pub suspects_dropped: u64,
}

/// The kernel's answer by a real system call.
pub fn kernel(clock: ClockId) -> Result<i64, Errno> {
    System.clock_gettime(clock).map(|time| time.nanos_i64())
}

/// Reads until it is over; what was found about each subject.
pub fn run(shared: &Shared) -> Result<Vec<Found>, Errno> {
    let mut all: Vec<_> = shared.subjects.iter().map(|_| Found::default()).collect();
    let mut laws = vec![[Monotonic::new(); FOLLOWED.len()]; shared.subjects.len()];
    while !shared.is_over.load(Ordering::Relaxed) {
        let rests = shared.rests.load(Ordering::Relaxed);
        if rests {
            thread::sleep(NAP);
        }
        // A burst after each rest, long enough for lines.
        for _ in 0..if rests { BURST } else { 1 } {
            for index in 0..FOLLOWED.len() {
                for ((judged, laws), found) in shared.subjects.iter().zip(&mut laws).zip(&mut all) {
                    look(shared, judged, index, &mut laws[index], found)?;
                }
            }
        }
    }
    Ok(all)
}

fn look(
    shared: &Shared,
    judged: &Judged,
    index: usize,
    law: &mut Monotonic,
    found: &mut Found,
) -> Result<(), Errno> {
    let (subject, clock) = (&judged.subject, FOLLOWED[index]);
    let from_ns = kernel(ClockId::MONOTONIC)?;
    let gap_ns = from_ns - found.last_ns.replace(from_ns).unwrap_or(from_ns);
    found.gap_max_ns = found.gap_max_ns.max(gap_ns);
    let before = kernel(clock)?;
    let told = subject.told(clock)?;
    let after = kernel(clock)?;
    let seen = judged.latest[index].load(Ordering::Acquire);
    let plain = subject.now(clock)?;
    let last = kernel(clock)?;
    let again = subject.told(clock)?;
    found.readings[index] += 3;
    found.from_counter[index] += u64::from(told.is_from_counter) + u64::from(again.is_from_counter);
    found.error_max_ns[index] = found.error_max_ns[index].max(told.error_ns);
    let is_steady = laws::bounded(before, told.nanos, told.steady_error_ns, after).is_ok();
    found.unsteady[index] += u64::from(!is_steady);
    let mut judge = |broken: Result<(), Violation>, told: Told, before: i64, after: i64| {
        if let Err(violation) = broken {
            let to_ns = kernel(ClockId::MONOTONIC)?;
            let suspect = Suspect { clock: index, violation, from_ns, to_ns, before, told, after };
            if found.suspects.len() < SUSPECTS_MAX {
                found.suspects.push(suspect);
            } else {
                found.suspects_dropped += 1;
            }
        }
        Ok(())
    };
    let mut asked_again = 0;
    let mut bounded = |before: i64, nanos: i64, error_ns: u64, after: i64| {
        let first = laws::bounded(before, nanos, error_ns, after);
        Ok(if first.is_err() && nanos > after && shared.is_stale_at_times {
            asked_again += 1;
            laws::bounded(before, nanos, error_ns, kernel(clock)?)
        } else {
            first
        })
    };
    judge(bounded(before, told.nanos, told.error_ns, after)?, told, before, after)?;
    // A plain reading tells no bound. Those around it do, unless its line was another one; and where an answer is held until
    // the kernel has caught up, the distance shrinks by what passes.
    let spent_ns = last.saturating_sub(before).unsigned_abs();
    let around_ns = told.error_ns.max(again.error_ns).saturating_add(spent_ns);
    let error_ns = around_ns.saturating_add(LINE_ERROR_MAX_NS);
    let later = Told { nanos: plain, error_ns, ..told };
    judge(bounded(after, plain, error_ns, last)?, later, after, last)?;
    found.asked_again += asked_again;
    if !may_be_set(clock) {
        found.kernel_went_back += u64::from(after < before) + u64::from(last < after);
        judge(law.see(told.nanos), told, before, after)?;
        judge(law.see(plain), later, after, last)?;
        judge(law.see(again.nanos), again, last, last)?;
        if subject.is_ordered() {
            judge(laws::causal(seen, plain), later, after, last)?;
        }
        judged.latest[index].fetch_max(plain, Ordering::AcqRel);
    }
    Ok(())
}
