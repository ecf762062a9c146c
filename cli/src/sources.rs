//! THE table: every clock source, one row (name, how it is read, what it guarantees, caveat).
//!
//! Rows are facts about the interfaces, the same on every machine of one processor family; whether a
//! row can be read *here*, and what it costs, is found out by `real.rs` and `measure.rs`. A row that
//! cannot be read stays in the table with its reason.
//!
//! Facts are from `clock_gettime(2)`, `vdso(7)`, `time(7)`, `getrusage(2)`, the kernel's
//! `Documentation/core-api/timekeeping.rst` and `lib/vdso/gettimeofday.c`, and the processors' manuals.

use crate::os;
use crate::reads::{
    AtomicLoad, CounterForm, Empty, LibcClock, Loops, Read, SystemClock, VdsoClock, counted,
    std_instant, std_system_time, timed,
};
use clockwise_core::counter::{self, Form, FormVisitor, Order};
use clockwise_core::kernel::{ClockId, System, Vdso};

/// How a source is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Via {
    /// No clock at all: what the measurement itself costs.
    Base,
    /// An instruction sequence that reads the counter.
    Counter,
    /// A function of libc, as programs call it.
    Libc,
    /// The kernel's code in the process, called straight.
    Vdso,
    /// The real system call.
    Syscall,
    /// Rust's standard library.
    Std,
    /// Our library, or the code of our image.
    Clockwise,
}

impl Via {
    /// The first half of a source's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Counter => "counter",
            Self::Libc => "libc",
            Self::Vdso => "vdso",
            Self::Syscall => "syscall",
            Self::Std => "std",
            Self::Clockwise => "clockwise",
        }
    }
}

/// In what the values of a source are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// It tells no time.
    Nothing,
    /// Ticks of the counter.
    Ticks,
    /// Nanoseconds.
    Nanoseconds,
}

/// Who shares the time that a source tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Everybody on the machine.
    Machine,
    /// The process.
    Process,
    /// The thread alone: nothing to compare across threads.
    Thread,
    /// It tells no time.
    Nothing,
}

/// What a source promises that a measurement can refute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promises {
    /// It never goes back in one thread.
    pub monotonic: bool,
    /// A reading is never smaller than one that another thread took and handed over before.
    pub causal: bool,
}

/// One row.
pub struct Source {
    /// `via/clock`, the name that `--only` matches.
    pub name: String,
    /// The clock's usual name.
    pub clock: String,
    /// How it is reached.
    pub via: Via,
    /// The clock's number, where it has one.
    pub clock_id: Option<ClockId>,
    /// What is executed or called.
    pub how: String,
    /// What it guarantees.
    pub guarantee: &'static str,
    /// What to know before using it; empty where nothing.
    pub caveat: &'static str,
    /// In what its values are given.
    pub unit: Unit,
    /// Who shares its time.
    pub scope: Scope,
    /// What a measurement can refute.
    pub promises: Promises,
    /// It steps once a second: its step is looked for over the whole run.
    pub steps_by_second: bool,
    /// The calls, or why there are none on this processor or in this process.
    pub loops: Result<Box<dyn Loops>, String>,
}

/// What does not depend on the way a clock is reached.
struct Facts {
    guarantee: &'static str,
    caveat: &'static str,
    scope: Scope,
    promises: Promises,
}

const NO_PROMISE: Promises = Promises { monotonic: false, causal: false };
const CAUSAL: Promises = Promises { monotonic: true, causal: true };

const fn facts(clock: ClockId) -> Facts {
    let wall = Facts {
        guarantee: "wall time; steps when it is set, at leap seconds",
        caveat: "can go back",
        scope: Scope::Machine,
        promises: NO_PROMISE,
    };
    let elapsed = Facts {
        guarantee: "never goes back, in any order of threads; without suspend",
        caveat: "",
        scope: Scope::Machine,
        promises: CAUSAL,
    };
    match clock {
        ClockId::REALTIME | ClockId::TAI => wall,
        ClockId::MONOTONIC => elapsed,
        ClockId::MONOTONIC_RAW => Facts {
            guarantee: "as MONOTONIC at the clocksource's own rate: not steered",
            caveat: "a system call before Linux 5.3; drifts from MONOTONIC",
            ..elapsed
        },
        ClockId::MONOTONIC_COARSE => Facts {
            guarantee: "MONOTONIC as of the last tick",
            caveat: "1 to 10 ms old",
            ..elapsed
        },
        ClockId::REALTIME_COARSE => {
            Facts { guarantee: "REALTIME as of the last tick", caveat: "1 to 10 ms old", ..wall }
        }
        ClockId::BOOTTIME => Facts {
            guarantee: "as MONOTONIC, counting suspend",
            caveat: "a system call before Linux 5.3",
            ..elapsed
        },
        ClockId::PROCESS_CPUTIME => Facts {
            guarantee: "CPU time of all threads of the process",
            caveat: "always a system call",
            scope: Scope::Process,
            promises: NO_PROMISE,
        },
        ClockId::THREAD_CPUTIME => Facts {
            guarantee: "CPU time of the calling thread",
            caveat: "always a system call",
            scope: Scope::Thread,
            promises: Promises { monotonic: true, causal: false },
        },
        ClockId::REALTIME_ALARM => {
            Facts { caveat: "needs a real-time clock that can wake the machine", ..wall }
        }
        ClockId::BOOTTIME_ALARM => Facts {
            guarantee: "as MONOTONIC, counting suspend",
            caveat: "needs a real-time clock that can wake the machine",
            ..elapsed
        },
        _ => Facts {
            guarantee: "an auxiliary clock: steered on its own, by PTP as a rule",
            caveat: "Linux 6.17 and later; off until an administrator enables it",
            scope: Scope::Machine,
            promises: NO_PROMISE,
        },
    }
}

/// The clock's half of a name: `monotonic_coarse`, `process_cputime`.
fn short_name(clock: ClockId) -> String {
    let name = clock.name().unwrap_or("unknown").to_lowercase();
    name.strip_suffix("_id").map_or(name.clone(), str::to_owned)
}

fn boxed(read: impl Read) -> Result<Box<dyn Loops>, String> {
    Ok(Box::new(read))
}

/// The whole table for this processor. `vdso`: the vDSO, or why there is none.
pub fn table(vdso: &Result<Vdso, String>) -> Vec<Source> {
    let mut rows = vec![
        base("base/empty", "empty loop", "nothing: what a loop itself costs", boxed(Empty)),
        base(
            "base/atomic_load",
            "a relaxed load of a cached word",
            "nothing",
            boxed(AtomicLoad::new()),
        ),
    ];
    counter::visit_forms(&mut Forms(&mut rows));
    for via in [Via::Libc, Via::Vdso, Via::Syscall] {
        rows.push(gettimeofday(via, vdso));
        rows.push(time(via, vdso));
    }
    for clock in ClockId::ALL {
        for via in [Via::Libc, Via::Vdso, Via::Syscall] {
            rows.push(clock_row(clock, via, vdso));
        }
    }
    rows.extend(other_calls());
    rows
}

fn base(name: &str, how: &str, guarantee: &'static str, loops: Loop) -> Source {
    Source {
        name: name.to_owned(),
        clock: name.split_once('/').map_or(name, |(_, clock)| clock).to_owned(),
        via: Via::Base,
        clock_id: None,
        how: how.to_owned(),
        guarantee,
        caveat: "tells no time",
        unit: Unit::Nothing,
        scope: Scope::Nothing,
        promises: NO_PROMISE,
        steps_by_second: false,
        loops,
    }
}

type Loop = Result<Box<dyn Loops>, String>;

/// Collects a row for every form of the counter.
struct Forms<'a>(&'a mut Vec<Source>);

impl FormVisitor for Forms<'_> {
    fn form<F: Form>(&mut self, form: F) {
        let tells_time = F::NAME != "cpuid";
        self.0.push(Source {
            name: format!("counter/{}", F::NAME),
            clock: F::NAME.to_owned(),
            via: Via::Counter,
            clock_id: None,
            how: F::NAME.replace(';', "; "),
            guarantee: F::GUARANTEE,
            caveat: match F::ORDER {
                _ if !tells_time => "tells no time; a trap in a guest: 4 to 100 us",
                _ if F::NAME.starts_with("cpuid") => {
                    "ticks, not time; a trap in a guest: 4 to 100 us"
                }
                Order::None => "can be older than what the thread has already seen",
                Order::After | Order::Both => "ticks, not time; only as synchronised as the cores",
            },
            unit: if tells_time { Unit::Ticks } else { Unit::Nothing },
            scope: if tells_time { Scope::Machine } else { Scope::Nothing },
            // Whether the cores agree is the machine's business: `machine.rs` may withdraw this.
            promises: Promises {
                monotonic: tells_time && F::ORDER != Order::None,
                causal: tells_time && F::ORDER != Order::None,
            },
            steps_by_second: false,
            loops: F::available().map_err(str::to_owned).and_then(|()| boxed(CounterForm(form))),
        });
    }
}

/// A call that the kernel offers three ways.
fn three_ways(
    via: Via,
    vdso: &Result<Vdso, String>,
    libc: impl FnOnce() -> Loop,
    straight: impl FnOnce(Vdso) -> Loop,
    system: impl FnOnce() -> Loop,
) -> Loop {
    match via {
        Via::Vdso => vdso.clone().and_then(straight),
        Via::Syscall if !System::AVAILABLE => {
            Err("Clockwise makes no system calls of its own on this processor".to_owned())
        }
        Via::Syscall => system(),
        _ => libc(),
    }
}

fn clock_row(clock: ClockId, via: Via, vdso: &Result<Vdso, String>) -> Source {
    let Facts { guarantee, caveat, scope, promises } = facts(clock);
    let name = clock.name().unwrap_or("?");
    Source {
        name: format!("{}/{}", via.name(), short_name(clock)),
        clock: format!("CLOCK_{name}"),
        via,
        clock_id: Some(clock),
        how: format!("clock_gettime(CLOCK_{name}) {}", way(via)),
        guarantee,
        caveat,
        unit: Unit::Nanoseconds,
        scope,
        promises,
        steps_by_second: false,
        loops: three_ways(
            via,
            vdso,
            || boxed(LibcClock(clock)),
            |vdso| boxed(VdsoClock(vdso, clock)),
            || boxed(SystemClock(clock)),
        ),
    }
}

const fn way(via: Via) -> &'static str {
    match via {
        Via::Vdso => "straight through the vDSO",
        Via::Syscall => "by the real system call",
        _ => "through libc",
    }
}

fn named(via: Via, clock: &str, vdso: &Result<Vdso, String>, rows: [Loop; 3]) -> Source {
    let [libc, straight, system] = rows;
    Source {
        name: format!("{}/{clock}", via.name()),
        clock: clock.to_owned(),
        via,
        clock_id: None,
        how: format!("{clock}() {}", way(via)),
        guarantee: "wall time; steps when it is set, at leap seconds",
        caveat: "can go back",
        unit: Unit::Nanoseconds,
        scope: Scope::Machine,
        promises: NO_PROMISE,
        steps_by_second: false,
        loops: three_ways(via, vdso, || libc, |_| straight, || system),
    }
}

fn gettimeofday(via: Via, vdso: &Result<Vdso, String>) -> Source {
    let straight = vdso.clone().and_then(|vdso| boxed(timed(move || vdso.gettimeofday())));
    let rows = [boxed(timed(os::gettimeofday)), straight, boxed(timed(|| System.gettimeofday()))];
    Source { caveat: "can go back; microseconds", ..named(via, "gettimeofday", vdso, rows) }
}

fn time(via: Via, vdso: &Result<Vdso, String>) -> Source {
    const SECOND_NS: i64 = 1_000_000_000;
    let straight =
        vdso.clone().and_then(|vdso| boxed(counted::<false>(SECOND_NS, move || vdso.time())));
    let rows = [
        boxed(counted::<false>(SECOND_NS, || Ok(os::time()))),
        straight,
        boxed(counted::<true>(SECOND_NS, || System.time())),
    ];
    Source {
        guarantee: "the second of REALTIME_COARSE, as file times have it",
        caveat: "can go back; whole seconds",
        steps_by_second: true,
        ..named(via, "time", vdso, rows)
    }
}

/// The calls that exist one way only.
fn other_calls() -> [Source; 6] {
    let libc = |name: &str, guarantee, caveat, scope, loops| Source {
        name: format!("libc/{name}"),
        clock: name.to_owned(),
        via: Via::Libc,
        clock_id: None,
        how: format!("{name}() through libc"),
        guarantee,
        caveat,
        unit: Unit::Nanoseconds,
        scope,
        promises: NO_PROMISE,
        steps_by_second: false,
        loops,
    };
    let std = |name: &str, guarantee, promises, loops| Source {
        name: format!("std/{name}"),
        clock: name.to_owned(),
        via: Via::Std,
        how: format!("std::time::{name}::now()"),
        promises,
        ..libc(name, guarantee, "", Scope::Machine, loops)
    };
    let tick_ns = 1_000_000_000 / os::ticks_per_second();
    let cpu = "CPU time of all threads of the process";
    let process = Scope::Process;
    [
        libc(
            "getrusage",
            "user CPU time of all threads of the process",
            "microseconds; the kernel's estimate",
            process,
            boxed(timed(os::user_time)),
        ),
        libc(
            "times",
            "clock ticks since boot, roughly; fills CPU times",
            "counts in 1/sysconf(_SC_CLK_TCK) s",
            Scope::Machine,
            boxed(counted::<true>(tick_ns, || Ok(os::times()))),
        ),
        libc("clock", cpu, "microseconds", process, boxed(counted::<true>(1000, os::clock))),
        libc(
            "timespec_get",
            "wall time; steps when it is set, at leap seconds",
            "can go back",
            Scope::Machine,
            boxed(timed(os::timespec_get)),
        ),
        std("Instant", "MONOTONIC on Linux: never goes back", CAUSAL, boxed(std_instant())),
        std("SystemTime", "REALTIME on Linux: can go back", NO_PROMISE, boxed(std_system_time())),
    ]
}
