//! Asks this machine what no file tells, and measures.
//!
//! Each question is first asked in a child: a sandbox that kills for it then tells so, and the tool lives. Must never
//! change anything but the processors that its own threads run on.

use super::checks::Need;
use super::measure::{self, Tools};
use super::measured::{Call, Clocks, Discipline, Libc, Measured, Processor, Told};
use crate::availability::in_a_thread;
use crate::live::Live;
use crate::os;
use crate::trial::{self, Outcome, Task};
use clockwise_core::counter::{CpuFacts, Hardware};
use clockwise_core::kernel::{ClockId, Errno, Kernel, Linux, System, Vdso};

/// How long libc's clock is read and read.
const SHARE_NS: i64 = 500_000_000;
/// How often all clocks are read one after the other.
const CLOCKS_TRIES: usize = 8;
/// How long the coarse clock is watched.
const STEPS_NS: i64 = 60_000_000;
/// How long processors hand each other readings, all pairs together.
const SYNC_NS: u64 = 1_200_000_000;
/// The kernel's log is read so far.
const LOG_MAX: usize = 4 << 20;

/// The clocks of which the system call is tried.
const CLOCKS: [ClockId; 9] = [
    ClockId::REALTIME,
    ClockId::MONOTONIC,
    ClockId::MONOTONIC_RAW,
    ClockId::BOOTTIME,
    ClockId::TAI,
    ClockId::REALTIME_COARSE,
    ClockId::MONOTONIC_COARSE,
    ClockId::PROCESS_CPUTIME,
    ClockId::THREAD_CPUTIME,
];

/// Asks and measures what `needs` name.
pub fn probe(needs: &[Need], live: &mut Live<'_>) -> (Measured, Result<String, String>) {
    let tried = Tried::now();
    let mut measured = Measured { calls: tried.calls(), ..Measured::default() };
    let log = tried.may(Ask::Log).and_then(|()| {
        let text = os::facts::kernel_log(LOG_MAX).map_err(refused)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    });
    measured.counter_allowed =
        tried.may(Ask::Counter).and_then(|()| os::facts::counter_allowed().map_err(said)).into();
    measured.counter_is_deadly = tried.may(Ask::Counter).err();
    measured.timer_slack_ns =
        tried.may(Ask::Slack).and_then(|()| os::facts::timer_slack_ns().map_err(said)).into();
    measured.discipline = tried.may(Ask::Discipline).and_then(|()| discipline()).into();
    let tools = tried.tools();
    if needs.contains(&Need::Processor) {
        let facts = CpuFacts::ask();
        measured.processor = Told::Is(Processor {
            hypervisor: facts.hypervisor().map(str::to_owned),
            invariant: facts.constant_rate(),
            claimed_hz: facts.claimed_frequency().map(|frequency| frequency.hz()),
        });
    }
    measured.libc = Told::Is(Libc {
        version: os::facts::libc_version(),
        clock_from: os::facts::clock_from(),
        image: os::image().is_some(),
    });
    measure(&tried, &tools, needs, live, &mut measured);
    // Last: what the files say of time (the hardware's clock) is read right after, whoever stopped us in between.
    measured.clocks = clocks(&tools.reference).into();
    (measured, log)
}

fn measure(
    tried: &Tried,
    tools: &Tools,
    needs: &[Need],
    live: &mut Live<'_>,
    measured: &mut Measured,
) {
    let has = |need| needs.contains(&need);
    if has(Need::Prices) {
        measured.prices = measure::prices(tools).into();
    }
    if has(Need::Steps) {
        measured.steps = measure::steps(tools, STEPS_NS).into();
    }
    let all = if has(Need::Sync) { 3.0 } else { 1.0 };
    if has(Need::Share) || has(Need::Rate) || has(Need::Sync) {
        let begun = measure::begin_rates(tools);
        let share = tried.may(Ask::Usage).and_then(|()| {
            measure::share(tools, SHARE_NS, &mut |done| {
                live.progress(done / all, || "what a read costs".to_owned());
            })
        });
        if share.is_err() {
            // The rates need their time all the same.
            os::pause(SHARE_NS.unsigned_abs());
        }
        measured.share = share.into();
        measured.rate = measure::end_rates(tools, begun).into();
    }
    if has(Need::Sync) {
        let hz = measured.rate.get().ok().map(|rate| rate.counter_hz);
        let synced = match (tools.counter, os::allowed_cpus()) {
            (None, _) => Err("there is no counter that may be read".to_owned()),
            (_, Err(errno)) => Err(format!("sched_getaffinity(2): {errno}")),
            (Some(_), Ok(cpus)) => tried.may(Ask::Thread).and_then(|()| {
                measure::sync(&cpus, SYNC_NS, hz, &mut |done| {
                    live.progress((1.0 + 2.0 * done) / 3.0, || {
                        "whether processors agree".to_owned()
                    });
                })
            }),
        };
        measured.sync = synced.into();
    }
}

fn said(errno: Errno) -> String {
    errno.to_string()
}

/// The kernel's log: by whom it is kept shut.
fn refused(errno: Errno) -> String {
    match errno {
        Errno::PERM => {
            "only root may read it (kernel.dmesg_restrict), or a sandbox forbids it".to_owned()
        }
        errno => errno.to_string(),
    }
}

fn discipline() -> Result<Discipline, String> {
    let told = os::discipline().map_err(said)?;
    Ok(Discipline {
        state: told.state,
        status: told.status,
        max_error_us: told.max_error_us,
        frequency_ppm: told.frequency_ppm,
        tai_offset_s: told.tai_offset_s,
    })
}

fn clocks(kernel: &Linux) -> Result<Clocks, String> {
    let ns = |clock: ClockId| match kernel.now(clock) {
        Ok(time) => Ok(time.nanos_i64()),
        Err(errno) => Err(format!("clock_gettime({}): {errno}", clock.name().unwrap_or("?"))),
    };
    // Whoever is stopped between two clocks sees them apart by that: the tightest of some tries is taken.
    let tried = (0..CLOCKS_TRIES).map(|_| {
        let told = Clocks {
            monotonic_ns: ns(ClockId::MONOTONIC)?,
            boottime_ns: ns(ClockId::BOOTTIME)?,
            monotonic_raw_ns: ns(ClockId::MONOTONIC_RAW)?,
            realtime_ns: ns(ClockId::REALTIME)?,
        };
        Ok((ns(ClockId::MONOTONIC)?.abs_diff(told.monotonic_ns), told))
    });
    let tried = tried.collect::<Result<Vec<_>, String>>()?;
    let tightest = tried.into_iter().min_by_key(|(apart_ns, _)| *apart_ns);
    tightest.map(|(_, told)| told).ok_or_else(|| "they were not asked".to_owned())
}

/// What is asked beside the clocks, in the order in which it is tried.
#[derive(Clone, Copy, PartialEq)]
enum Ask {
    Counter,
    Discipline,
    Log,
    Slack,
    Usage,
    Thread,
    Libc,
    Straight,
}

const ASKS: usize = 8;

/// What came of trying.
struct Tried {
    outcomes: Vec<Outcome>,
}

impl Tried {
    /// Before any thread is started.
    fn now() -> Self {
        let first = os::allowed_cpus().ok().and_then(|cpus| cpus.first().copied());
        let thread = || in_a_thread(first);
        let log = || os::facts::kernel_log(0).map(drop).or_else(not_refused);
        let asks: [Task<'_>; ASKS] = [
            &|| os::facts::counter_allowed().map(drop),
            &|| os::discipline().map(drop),
            &log,
            &|| os::facts::timer_slack_ns().map(drop),
            &|| os::facts::cpu_times_ns().map(drop),
            &thread,
            &|| os::clock_gettime(ClockId::MONOTONIC).map(drop),
            &|| Linux::find().now(ClockId::MONOTONIC).map(drop),
        ];
        let reads: Vec<_> =
            CLOCKS.map(|clock| move || System.clock_gettime(clock).map(drop)).into();
        let others: [Task<'_>; 3] = [
            &|| System.gettimeofday().map(drop),
            &|| System.clock_getres(ClockId::MONOTONIC).map(drop),
            &|| os::clock_gettime(ClockId::REALTIME).map(drop),
        ];
        let tasks: Vec<Task<'_>> = asks
            .into_iter()
            .chain(reads.iter().map(|read| read as Task<'_>))
            .chain(others)
            .collect();
        Self { outcomes: trial::outcomes(&tasks) }
    }

    /// Whether it may be asked: it does not kill.
    fn may(&self, ask: Ask) -> Result<(), String> {
        match self.outcomes[ask as usize] {
            Outcome::Killed(signal) => {
                Err(format!("a process that asks is killed (signal {signal}), as by a sandbox"))
            }
            Outcome::Hung | Outcome::Lost | Outcome::Panicked => {
                Err("a process that asks does not come back".to_owned())
            }
            Outcome::Worked | Outcome::Failed(_) => Ok(()),
        }
    }

    fn works(&self, ask: Ask) -> bool {
        self.outcomes[ask as usize] == Outcome::Worked
    }

    fn tools(&self) -> Tools {
        let counter = self.may(Ask::Counter).ok().and_then(|()| Hardware::find().ok());
        let vdso = self.works(Ask::Straight).then(|| Vdso::find().ok()).flatten();
        let reference = match vdso {
            Some(_) => Linux::find(),
            None => Linux::system_calls_only(),
        };
        let syscall = self.outcomes[ASKS + 1] == Outcome::Worked;
        Tools { reference, counter, vdso, libc: self.works(Ask::Libc), syscall }
    }

    /// The calls that tell time, each with what came of it.
    fn calls(&self) -> Told<Vec<Call>> {
        let clocks = CLOCKS.iter().filter_map(|clock| clock.name());
        let names = clocks
            .map(|name| format!("syscall clock_gettime({name})"))
            .chain(["syscall gettimeofday", "syscall clock_getres(MONOTONIC)"].map(str::to_owned))
            .chain(["clock_gettime(REALTIME) of libc".to_owned()]);
        let libc =
            ("clock_gettime(MONOTONIC) of libc".to_owned(), self.outcomes[Ask::Libc as usize]);
        let calls = names.zip(self.outcomes[ASKS..].iter().copied()).chain([libc]);
        // Where we can make no system calls of our own there is nothing to be refused.
        let calls = calls.filter(|(name, _)| System::AVAILABLE || !name.starts_with("syscall"));
        Told::Is(calls.map(|(name, outcome)| Call { name, failure: failure(outcome) }).collect())
    }
}

/// That the log may not be read is an answer; only being killed for it is none.
fn not_refused(errno: Errno) -> Result<(), Errno> {
    let _ = errno;
    Ok(())
}

fn failure(outcome: Outcome) -> Option<String> {
    Some(match outcome {
        Outcome::Worked => return None,
        Outcome::Failed(errno) => format!("fails with {errno}"),
        Outcome::Killed(signal) => format!("kills the process (signal {signal})"),
        Outcome::Panicked | Outcome::Lost => "ends the process".to_owned(),
        Outcome::Hung => "does not return".to_owned(),
    })
}
