//! Finds out what can be read here, by trying it, and says in words why the rest cannot.

use crate::instruments::Instruments;
use crate::machine::{Machine, Root};
use crate::os;
use crate::sources::{Source, Unit, Via};
use crate::trial::{self, Outcome, Task};
use crate::world::Unavailable;
use anyhow::{Result, bail};
use clockwise_core::counter::{Counter, Hardware};
use clockwise_core::kernel::{ClockId, Errno, Kernel, Linux, System, Vdso};
use std::collections::BTreeMap;

/// Tries in a child what the tool must ask before it can try anything else.
///
/// # Errors
/// If a filter kills the process for it: better a sentence than to die of it.
pub fn try_start() -> Result<()> {
    let tasks: [(&str, Task<'_>); 4] = [
        ("which processors it may use (sched_getaffinity)", &|| os::allowed_cpus().map(drop)),
        ("whether it may read the counter (prctl)", &|| {
            let _ = Hardware::find();
            Ok(())
        }),
        ("where the vDSO is (prctl, /proc/self/auxv)", &|| {
            let _ = Vdso::find();
            Ok(())
        }),
        ("what machine this is (uname, adjtimex, files of /proc and /sys)", &|| {
            let _ = Machine::read(&Root::real(), Ok(()), &[]);
            Ok(())
        }),
    ];
    let outcomes = trial::outcomes(&tasks.map(|(_, task)| task));
    match tasks.iter().zip(outcomes).find(|(_, outcome)| matches!(outcome, Outcome::Killed(_))) {
        Some(((what, _), Outcome::Killed(signal))) => bail!(
            "the process is killed (signal {signal}) for asking {what}; run outside the sandbox"
        ),
        _ => Ok(()),
    }
}

/// A task with what it needs.
type Owned<'a> = Box<dyn Fn() -> Result<(), Errno> + 'a>;

/// Tries every source and instrument in a child.
pub fn try_out(
    sources: &[Source],
    counter: Option<Hardware>,
    machine: &Machine,
    cpus: &[usize],
) -> Result<Tried> {
    let straight = Linux::find();
    let system = Linux::system_calls_only();
    let thread = || in_a_thread(cpus.first().copied());
    let instruments: [Task<'_>; 6] = [
        &|| straight.now(ClockId::MONOTONIC).map(drop),
        &|| system.now(ClockId::MONOTONIC).map(drop),
        &|| counter.map(|counter| counter.ticks()).map(drop).ok_or(Errno::NOSYS),
        &|| System.clock_gettime(ClockId::THREAD_CPUTIME).map(drop),
        &|| os::preemptions().map(drop),
        &thread,
    ];
    let reads: Vec<Owned<'_>> = sources
        .iter()
        .map(|source| -> Owned<'_> {
            match &source.loops {
                Ok(loops) if source.unit == Unit::Nothing => Box::new(|| {
                    loops.one();
                    Ok(())
                }),
                Ok(loops) => Box::new(|| loops.value().map(drop)),
                Err(_) => Box::new(|| Ok(())),
            }
        })
        .collect();
    let getres: Vec<Owned<'_>> = ClockId::ALL
        .into_iter()
        .map(|clock| -> Owned<'_> { Box::new(move || os::clock_getres(clock).map(drop)) })
        .collect();
    let others = getres.iter().chain(&reads).map(|task| &**task as Task<'_>);
    let tasks: Vec<Task<'_>> = instruments.into_iter().chain(others).collect();
    let outcomes = trial::outcomes(&tasks);
    let (tried, outcomes) = outcomes.split_at(instruments.len());
    let (getres, reads) = outcomes.split_at(getres.len());
    let works = |i: usize| tried[i] == Outcome::Worked;

    let reference = match (works(0), works(1)) {
        (true, _) => straight,
        (false, true) => system,
        (false, false) => bail!(
            "there is no clock to measure against: clock_gettime(CLOCK_MONOTONIC) {}; \
             run where a sandbox does not deny it",
            outcome_words(tried[1], machine)
        ),
    };
    let available = sources.iter().zip(reads).map(|(source, &outcome)| match &source.loops {
        Err(reason) => Err(Unavailable { errno: None, reason: reason.clone() }),
        Ok(_) if outcome == Outcome::Worked => Ok(()),
        Ok(_) => Err(unavailable(source, outcome, machine)),
    });
    let instruments = Instruments {
        reference,
        counter: counter.filter(|_| works(2)),
        cpu_time: works(3),
        preemptions: works(4),
    };
    let threads = match tried[5] {
        // A thread that does not come back in time is one of a busy machine: it was started.
        Outcome::Worked | Outcome::Hung => Ok(()),
        outcome => {
            Err(format!("starting and pinning a thread {}", outcome_words(outcome, machine)))
        }
    };
    let resolution = |(clock, _): (ClockId, &Outcome)| {
        let told = os::clock_getres(clock).ok()?.nanos();
        Some((clock, u64::try_from(told).ok()?))
    };
    let known = ClockId::ALL.into_iter().zip(getres).filter(|(_, o)| **o == Outcome::Worked);
    let resolutions = known.filter_map(resolution).collect();
    Ok(Tried { instruments, threads, resolutions, available: available.collect() })
}

/// All that a measuring thread does beside measuring: it starts, is pinned, yields, waits, ends.
pub fn in_a_thread(cpu: Option<usize>) -> Result<(), Errno> {
    let work = move || {
        os::pin(&Vec::from_iter(cpu))?;
        std::thread::yield_now();
        os::pause(1_000);
        Ok(())
    };
    let thread = std::thread::Builder::new().stack_size(THREAD_STACK).spawn(work);
    let number = |error: std::io::Error| Errno(error.raw_os_error().unwrap_or(libc::EAGAIN));
    thread.map_err(number)?.join().unwrap_or(Err(Errno(libc::EAGAIN)))
}

/// The stack of a measuring thread: its loops need little, and the measured code has run on it before.
pub const THREAD_STACK: usize = 128 << 10;

/// What trying gave.
pub struct Tried {
    /// The instruments that work.
    pub instruments: Instruments,
    /// Whether measuring threads can be started and pinned.
    pub threads: Result<(), String>,
    /// What `clock_getres` says of the clocks for which it can be asked.
    pub resolutions: BTreeMap<ClockId, u64>,
    /// By source: whether it can be read.
    pub available: Vec<Result<(), Unavailable>>,
}

fn outcome_words(outcome: Outcome, machine: &Machine) -> String {
    match outcome {
        Outcome::Worked => "works".to_owned(),
        Outcome::Failed(errno) if is_refusal(errno, machine) => {
            format!("is refused with {errno}, probably by the seccomp filter in force")
        }
        Outcome::Failed(errno) => format!("fails with {errno}"),
        Outcome::Panicked => "panics".to_owned(),
        Outcome::Killed(libc::SIGSYS) => "is killed by a seccomp filter (SIGSYS)".to_owned(),
        Outcome::Killed(libc::SIGILL) => "is no instruction of this processor (SIGILL)".to_owned(),
        Outcome::Killed(libc::SIGSEGV) => match &machine.counter.reason {
            Some(reason) => reason.clone(),
            None => "faults (SIGSEGV)".to_owned(),
        },
        Outcome::Killed(signal) => format!("is killed by signal {signal}"),
        Outcome::Lost => "ends the process that tries it".to_owned(),
        Outcome::Hung => "does not return within 5 s".to_owned(),
    }
}

/// What sandboxes answer: not allowed, or as if there were no such call; where there is one.
fn is_refusal(errno: Errno, machine: &Machine) -> bool {
    machine.seccomp.value.as_deref() == Some("filter")
        && matches!(errno, Errno::PERM | Errno(libc::EACCES) | Errno::NOSYS)
}

fn unavailable(source: &Source, outcome: Outcome, machine: &Machine) -> Unavailable {
    let errno = match outcome {
        Outcome::Failed(errno) => Some((errno.0, errno.to_string())),
        _ => None,
    };
    let kernel = machine.kernel.value.as_deref().unwrap_or("this kernel");
    // A vDSO without the function: that answer is no sandbox's.
    let is_ours = |errno| source.via == Via::Vdso && errno == Errno::NOSYS;
    let reason = match (outcome, source.clock_id) {
        (Outcome::Failed(errno), _) if is_refusal(errno, machine) && !is_ours(errno) => {
            outcome_words(outcome, machine)
        }
        (
            Outcome::Failed(Errno::INVAL),
            Some(ClockId::REALTIME_ALARM | ClockId::BOOTTIME_ALARM),
        ) => "this machine has no real-time clock that can wake it".to_owned(),
        (Outcome::Failed(Errno::INVAL | Errno(libc::ENODEV)), Some(clock)) if clock.0 >= 16 => {
            "needs Linux 6.17 with CONFIG_POSIX_AUX_CLOCKS, and enabling in /sys/kernel/time"
                .to_owned()
        }
        (Outcome::Failed(Errno::INVAL), _) => format!("{kernel} does not know this clock"),
        (Outcome::Failed(Errno::NOSYS), _) => {
            format!("{kernel} does not offer it on this processor")
        }
        _ => outcome_words(outcome, machine),
    };
    Unavailable { errno, reason }
}
