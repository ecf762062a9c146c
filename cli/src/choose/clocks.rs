//! THE table of what clocks are: one row a clock, each cell with where that is stated.
//!
//! Rows are facts about the interfaces, the same on every machine; whether a clock is there and what it costs is measured.
//! Must never hold a cell without a source that a reader can open: a manual page, a file of the kernel, an API's own words.

use serde::Serialize;

/// A value and where it is stated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Cell<T> {
    /// The value.
    pub value: T,
    /// A manual page with its section, a file of the kernel's, a document.
    pub source: &'static str,
}

const fn cell<T: Copy>(value: T, source: &'static str) -> Cell<T> {
    Cell { value, source }
}

/// What a clock counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tells {
    /// Time of day: since 1970, UTC.
    Wall,
    /// Time that has passed since some moment.
    Elapsed,
    /// CPU time of the calling thread.
    ThreadCpu,
    /// CPU time of all threads of the process.
    ProcessCpu,
    /// International Atomic Time.
    Tai,
    /// What whoever steers it makes it tell.
    Own,
    /// Ticks of the processor's counter.
    Ticks,
}

/// Whether a clock's rate is steered by NTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Steered {
    /// As adjtimex(2) steers the system's time.
    ByNtp,
    /// By nobody.
    No,
    /// By somebody else.
    OnItsOwn,
}

/// Whether a clock counts while the machine is suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Suspend {
    /// It does.
    Counted,
    /// It stands still, or loses it.
    Lost,
    /// Nobody says.
    Untold,
}

/// Who can compare their readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Shared {
    /// The thread alone.
    Thread,
    /// Threads of one process.
    Process,
    /// Processes in one time namespace.
    Namespace,
    /// All processes of the machine.
    Machine,
}

/// In what a clock steps, as it is documented.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Grain {
    /// A few nanoseconds: those of a hardware counter.
    Counter,
    /// 1 us.
    Microsecond,
    /// 1 ms.
    Millisecond,
    /// The kernel's timer tick: 1 to 10 ms.
    Tick,
    /// 1 s.
    Second,
    /// The period of a thread that keeps it.
    Kept,
}

impl Grain {
    /// The coarsest that the documentation leaves open, where a step is documented.
    pub const fn coarsest_ns(self) -> Option<u64> {
        match self {
            Self::Counter | Self::Kept => None,
            Self::Microsecond => Some(1_000),
            Self::Millisecond => Some(1_000_000),
            Self::Tick => Some(10_000_000),
            Self::Second => Some(1_000_000_000),
        }
    }

    /// The finest that the documentation leaves open.
    pub const fn finest_ns(self) -> u64 {
        match self {
            Self::Counter => 1,
            Self::Microsecond => 1_000,
            Self::Millisecond | Self::Tick => 1_000_000,
            Self::Second => 1_000_000_000,
            // A thread that wakes more often than this takes more than it saves.
            Self::Kept => KEPT_NS_MIN,
        }
    }
}

/// The shortest age of a kept time that is offered: two thousand wake-ups a second.
pub const KEPT_NS_MIN: u64 = 1_000_000;

/// One row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Clock {
    /// As the system names it.
    pub name: &'static str,
    /// What it counts.
    pub tells: Cell<Tells>,
    /// Whether it can jump: it is set, or leap seconds are.
    pub steps: Cell<bool>,
    /// Who steers its rate.
    pub steered: Cell<Steered>,
    /// Whether it counts in suspend.
    pub suspend: Cell<Suspend>,
    /// A reading is never before one that the thread has seen of another, unless the clock was set.
    pub causal: Cell<bool>,
    /// Who can compare their readings.
    pub shared: Cell<Shared>,
    /// Whether the kernel's timers take its readings as absolute deadlines.
    pub timers: Cell<bool>,
    /// In what it steps.
    pub grain: Cell<Grain>,
    /// Whether a thread of the program has to keep it.
    pub thread: Cell<bool>,
}

const GETTIME: &str = "clock_gettime(2)";
const TIMENS: &str = "time_namespaces(7)";
const TIMERS: &str = "clock_nanosleep(2), timerfd_create(2)";
const NOT_IN_LIST: &str = "clock_nanosleep(2): not in its list (EOPNOTSUPP)";
const VDSO: &str = "kernel: lib/vdso/gettimeofday.c reads the counter ordered";
const COARSE: &str = "kernel: lib/vdso/gettimeofday.c, do_coarse()";
const ACCESSORS: &str = "kernel: Documentation/core-api/timekeeping.rst";
const AUX: &str = "kernel: kernel/time/timekeeping.c, include/uapi/linux/time.h (Linux 6.17)";
const SCHED_CLOCK: &str = "kernel: Documentation/timers/timekeeping.rst, sched_clock()";
const CPU_SUM: &str = "kernel: kernel/sched/cputime.c, thread_group_cputime()";
const SDM: &str = "Intel SDM vol. 2B, RDTSC; Arm ARM, CNTVCT_EL0";
const SDM_STATES: &str = "Intel SDM vol. 3B, Time-Stamp Counter; Arm ARM, CNTVCT_EL0";
const TSC_SYNC: &str = "kernel: arch/x86/kernel/tsc_sync.c; Arm ARM, system counter";
const NO_THREAD: &str = "clock_gettime(2): a call of its own suffices";

/// CLOCK_MONOTONIC.
pub const MONOTONIC: Clock = Clock {
    name: "CLOCK_MONOTONIC",
    tells: cell(Tells::Elapsed, GETTIME),
    steps: cell(false, GETTIME),
    steered: cell(Steered::ByNtp, GETTIME),
    suspend: cell(Suspend::Lost, GETTIME),
    causal: cell(true, VDSO),
    shared: cell(Shared::Namespace, TIMENS),
    timers: cell(true, TIMERS),
    grain: cell(Grain::Counter, "time(7): high-resolution timers"),
    thread: cell(false, NO_THREAD),
};

/// CLOCK_REALTIME.
pub const REALTIME: Clock = Clock {
    name: "CLOCK_REALTIME",
    tells: cell(Tells::Wall, GETTIME),
    steps: cell(true, GETTIME),
    suspend: cell(Suspend::Counted, "kernel: kernel/time/timekeeping.c, timekeeping_resume()"),
    shared: cell(Shared::Machine, "time_namespaces(7), NOTES"),
    ..MONOTONIC
};

/// CLOCK_MONOTONIC_RAW.
pub const MONOTONIC_RAW: Clock = Clock {
    name: "CLOCK_MONOTONIC_RAW",
    steered: cell(Steered::No, GETTIME),
    timers: cell(false, NOT_IN_LIST),
    ..MONOTONIC
};

/// CLOCK_MONOTONIC_COARSE.
pub const MONOTONIC_COARSE: Clock = Clock {
    name: "CLOCK_MONOTONIC_COARSE",
    causal: cell(true, COARSE),
    timers: cell(false, NOT_IN_LIST),
    grain: cell(Grain::Tick, ACCESSORS),
    ..MONOTONIC
};

/// CLOCK_REALTIME_COARSE.
pub const REALTIME_COARSE: Clock = Clock {
    name: "CLOCK_REALTIME_COARSE",
    causal: cell(true, COARSE),
    timers: cell(false, NOT_IN_LIST),
    grain: cell(Grain::Tick, ACCESSORS),
    ..REALTIME
};

/// CLOCK_BOOTTIME.
pub const BOOTTIME: Clock =
    Clock { name: "CLOCK_BOOTTIME", suspend: cell(Suspend::Counted, GETTIME), ..MONOTONIC };

/// CLOCK_REALTIME_ALARM.
pub const REALTIME_ALARM: Clock =
    Clock { name: "CLOCK_REALTIME_ALARM", timers: cell(true, "timerfd_create(2)"), ..REALTIME };

/// CLOCK_BOOTTIME_ALARM.
pub const BOOTTIME_ALARM: Clock =
    Clock { name: "CLOCK_BOOTTIME_ALARM", timers: cell(true, "timerfd_create(2)"), ..BOOTTIME };

/// CLOCK_TAI.
pub const TAI: Clock = Clock {
    name: "CLOCK_TAI",
    tells: cell(Tells::Tai, GETTIME),
    steps: cell(true, "kernel: kernel/time/timekeeping.c, tk_set_wall_to_mono()"),
    timers: cell(true, "clock_nanosleep(2)"),
    ..REALTIME
};

/// CLOCK_PROCESS_CPUTIME_ID.
pub const PROCESS_CPUTIME: Clock = Clock {
    name: "CLOCK_PROCESS_CPUTIME_ID",
    tells: cell(Tells::ProcessCpu, GETTIME),
    steps: cell(false, "clock_gettime(2): not settable"),
    steered: cell(Steered::No, SCHED_CLOCK),
    suspend: cell(Suspend::Lost, "clock_gettime(2): CPU time consumed"),
    causal: cell(false, CPU_SUM),
    shared: cell(Shared::Process, GETTIME),
    timers: cell(true, "clock_nanosleep(2)"),
    grain: cell(Grain::Counter, SCHED_CLOCK),
    ..MONOTONIC
};

/// CLOCK_THREAD_CPUTIME_ID.
pub const THREAD_CPUTIME: Clock = Clock {
    name: "CLOCK_THREAD_CPUTIME_ID",
    tells: cell(Tells::ThreadCpu, GETTIME),
    causal: cell(false, "clock_gettime(2): the time of one thread"),
    shared: cell(Shared::Thread, GETTIME),
    timers: cell(false, "clock_nanosleep(2), ERRORS"),
    ..PROCESS_CPUTIME
};

/// An auxiliary clock; each is steered on its own.
pub const fn aux(name: &'static str) -> Clock {
    Clock {
        name,
        tells: cell(Tells::Own, AUX),
        steps: cell(true, AUX),
        steered: cell(Steered::OnItsOwn, AUX),
        suspend: cell(Suspend::Untold, "no document says"),
        shared: cell(Shared::Machine, TIMENS),
        timers: cell(false, NOT_IN_LIST),
        grain: cell(Grain::Counter, AUX),
        ..MONOTONIC
    }
}

/// gettimeofday().
pub const GETTIMEOFDAY: Clock = Clock {
    name: "gettimeofday()",
    tells: cell(Tells::Wall, "gettimeofday(2)"),
    steps: cell(true, "gettimeofday(2)"),
    grain: cell(Grain::Microsecond, "gettimeofday(2)"),
    ..REALTIME
};

/// time().
pub const TIME: Clock = Clock {
    name: "time()",
    tells: cell(Tells::Wall, "time(2)"),
    timers: cell(false, "time(2): whole seconds that are over"),
    grain: cell(Grain::Second, "time(2)"),
    ..REALTIME_COARSE
};

/// clock().
pub const CLOCK: Clock = Clock {
    name: "clock()",
    tells: cell(Tells::ProcessCpu, "clock(3)"),
    grain: cell(Grain::Microsecond, "clock(3): CLOCKS_PER_SEC"),
    timers: cell(false, "clock(3): no clock id"),
    ..PROCESS_CPUTIME
};

/// The counter, as it comes.
pub const COUNTER: Clock = Clock {
    name: "rdtsc or cntvct_el0",
    tells: cell(Tells::Ticks, SDM),
    steps: cell(false, SDM_STATES),
    steered: cell(Steered::No, SDM_STATES),
    suspend: cell(
        Suspend::Untold,
        "processors differ: Intel SDM vol. 3B, Time-Stamp Counter; Arm ARM",
    ),
    causal: cell(false, "Intel SDM vol. 2B, RDTSC: not serialising; Arm ARM, CNTVCT_EL0"),
    shared: cell(Shared::Machine, TSC_SYNC),
    timers: cell(false, "clock_nanosleep(2): takes a clock"),
    grain: cell(Grain::Counter, SDM_STATES),
    thread: cell(false, SDM),
};

/// The counter between fences.
pub const ORDERED_COUNTER: Clock = Clock {
    name: "rdtsc or cntvct_el0 (ordered)",
    causal: cell(true, "Intel SDM vol. 2B, RDTSC: after LFENCE; Arm ARM, ISB"),
    ..COUNTER
};

/// Every clock that the system offers, the preferred first: of those that cost the same the first is taken.
pub const SYSTEM: [Clock; 24] = [
    MONOTONIC,
    REALTIME,
    MONOTONIC_RAW,
    BOOTTIME,
    MONOTONIC_COARSE,
    REALTIME_COARSE,
    THREAD_CPUTIME,
    PROCESS_CPUTIME,
    TAI,
    BOOTTIME_ALARM,
    REALTIME_ALARM,
    GETTIMEOFDAY,
    TIME,
    CLOCK,
    COUNTER,
    ORDERED_COUNTER,
    aux("CLOCK_AUX0"),
    aux("CLOCK_AUX1"),
    aux("CLOCK_AUX2"),
    aux("CLOCK_AUX3"),
    aux("CLOCK_AUX4"),
    aux("CLOCK_AUX5"),
    aux("CLOCK_AUX6"),
    aux("CLOCK_AUX7"),
];

/// A clock of the kernel's that Clockwise reads through the counter, ordered.
pub const fn ours(clock: Clock) -> Clock {
    Clock {
        causal: cell(true, "clockwise::Instant::now; clockwise verify checks it"),
        // Its nanoseconds are the kernel's own.
        timers: cell(clock.timers.value, "clockwise::Instant; as the kernel's clock"),
        grain: cell(Grain::Counter, "clockwise::Instant"),
        thread: cell(false, "clockwise: no thread"),
        ..clock
    }
}

/// The same by a read that is not ordered.
pub const fn relaxed(clock: Clock) -> Clock {
    Clock { causal: cell(false, "clockwise::Instant::now_relaxed"), ..ours(clock) }
}

/// The same as a thread has kept it.
pub const fn kept(clock: Clock) -> Clock {
    Clock {
        causal: cell(true, "clockwise::recent: one word, never older than one seen"),
        timers: cell(false, "clockwise::recent: behind the clock, so a deadline comes early"),
        grain: cell(Grain::Kept, "clockwise::Ticker"),
        thread: cell(true, "clockwise::Ticker"),
        ..ours(clock)
    }
}

/// The kernel's coarse clock by our library.
pub const fn coarse(clock: Clock) -> Clock {
    Clock { thread: cell(false, "clockwise::coarse"), ..clock }
}

impl Clock {
    /// Readings that nobody outside the process can compare, and no timer of the kernel's can be given: the language's own
    /// waits go by the clock below.
    pub const fn opaque(self, source: &'static str) -> Self {
        let timers = cell(self.timers.value, "clock_nanosleep(2), by the language's own waits");
        Self { shared: cell(Shared::Process, source), timers, ..self }
    }

    /// Readings that are the same in all processes, though the language keeps them for its own waits.
    pub const fn system_wide(self, source: &'static str) -> Self {
        let shared = cell(self.shared.value, source);
        Self { shared, ..self.opaque(source) }
    }

    /// Readings cut to this.
    pub const fn cut(self, grain: Grain, source: &'static str) -> Self {
        Self { grain: cell(grain, source), ..self }
    }
}
