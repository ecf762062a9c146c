//! What a time is needed for, and what each clock fails of it.
//!
//! Pure. Must never call a clock unfit without a reason that is true of it and names the requirement.

use super::calls::{Call, Language};
use super::clocks::{Grain, KEPT_NS_MIN, Shared, Steered, Suspend, Tells};
use super::figures::Figure;
use clap::ValueEnum;
use serde::Serialize;

/// What for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// Time of day, for people and other machines
    Wall,
    /// How long something takes
    Elapsed,
    /// CPU time of a thread
    CpuThread,
    /// CPU time of a process
    CpuProcess,
    /// The moment until which to wait, given to the kernel's timers
    Deadline,
    /// Time of day in the lines of a log
    Log,
}

impl Purpose {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Wall, Self::Elapsed, Self::CpuThread, Self::CpuProcess, Self::Deadline, Self::Log];

    /// As the command line has it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Wall => "wall",
            Self::Elapsed => "elapsed",
            Self::CpuThread => "cpu-thread",
            Self::CpuProcess => "cpu-process",
            Self::Deadline => "deadline",
            Self::Log => "log",
        }
    }

    /// As a question has it.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Wall => "the time of day",
            Self::Elapsed => "how long something takes",
            Self::CpuThread => "CPU time of a thread",
            Self::CpuProcess => "CPU time of a process",
            Self::Deadline => "a deadline to wait for",
            Self::Log => "the time of day in a log",
        }
    }

    /// How fine, if nobody says.
    pub const fn precision_ns(self) -> u64 {
        match self {
            // What log lines print.
            Self::Log => 1_000_000,
            _ => 1_000,
        }
    }

    /// What kind of time that is.
    const fn tells(self) -> Tells {
        match self {
            Self::Wall | Self::Log => Tells::Wall,
            Self::Elapsed | Self::Deadline => Tells::Elapsed,
            Self::CpuThread => Tells::ThreadCpu,
            Self::CpuProcess => Tells::ProcessCpu,
        }
    }
}

/// Everything that is asked of a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Needs {
    /// What for.
    #[serde(rename = "for")]
    pub purpose: Purpose,
    /// It must step at least as finely as this.
    pub precision_ns: u64,
    /// It must count while the machine is suspended.
    pub counts_suspend: bool,
    /// Threads must be able to rely on its order.
    pub causal: bool,
    /// Whether its rate must, or must not, be steered by NTP.
    pub follows_ntp: Option<bool>,
    /// Who else must be able to compare: processes in one time namespace, or all of the machine.
    pub across_processes: Option<Shared>,
    /// A thread of the program may keep the time.
    pub allow_thread: bool,
    /// To be read in.
    pub language: Language,
}

impl Needs {
    /// What nobody says.
    pub const fn only(purpose: Purpose, language: Language) -> Self {
        Self {
            purpose,
            precision_ns: purpose.precision_ns(),
            counts_suspend: false,
            causal: false,
            follows_ntp: None,
            across_processes: None,
            allow_thread: false,
            language,
        }
    }

    /// The age of a time that a thread keeps: half of what is asked, since the thread comes late itself.
    pub fn period_ns(&self) -> u64 {
        (self.precision_ns / 2).clamp(KEPT_NS_MIN / 2, 1_000_000_000)
    }

    /// As flags, but for those that have their defaults.
    pub fn flags(&self) -> Vec<String> {
        let mut flags = vec![format!("--for {}", self.purpose.word())];
        if self.precision_ns != self.purpose.precision_ns() {
            flags.push(format!("--precision {}", exactly(self.precision_ns)));
        }
        flags.extend(self.counts_suspend.then(|| "--counts-suspend".to_owned()));
        flags.extend(self.causal.then(|| "--causal".to_owned()));
        let word = |yes| if yes { "yes" } else { "no" };
        flags.extend(self.follows_ntp.map(|yes| format!("--follows-ntp {}", word(yes))));
        flags.extend(self.across_processes.map(|shared| match shared {
            Shared::Machine => "--across-processes=machine".to_owned(),
            _ => "--across-processes".to_owned(),
        }));
        flags.extend(self.allow_thread.then(|| "--allow-thread".to_owned()));
        if self.language != Language::C {
            flags.push(format!("--language {}", self.language.word()));
        }
        flags
    }

    /// Each of them given up in turn, in words; but for the precision, of which one has to know how much.
    pub fn relaxed(&self) -> Vec<(String, Self)> {
        let mut all = Vec::new();
        if self.counts_suspend {
            all.push((
                "without --counts-suspend".to_owned(),
                Self { counts_suspend: false, ..*self },
            ));
        }
        if self.causal {
            all.push(("without --causal".to_owned(), Self { causal: false, ..*self }));
        }
        if let Some(yes) = self.follows_ntp {
            let flag = format!("without --follows-ntp {}", if yes { "yes" } else { "no" });
            all.push((flag, Self { follows_ntp: None, ..*self }));
        }
        if self.across_processes == Some(Shared::Machine) {
            let namespace = Self { across_processes: Some(Shared::Namespace), ..*self };
            all.push(("with --across-processes=namespace".to_owned(), namespace));
        }
        if self.across_processes.is_some() {
            all.push((
                "without --across-processes".to_owned(),
                Self { across_processes: None, ..*self },
            ));
        }
        if !self.allow_thread {
            all.push(("with --allow-thread".to_owned(), Self { allow_thread: true, ..*self }));
        }
        all
    }
}

/// A requirement that a clock fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Need {
    /// It is not there.
    Here,
    /// `--language`.
    Language,
    /// `--for`.
    For,
    /// `--precision`.
    Precision,
    /// `--counts-suspend`.
    CountsSuspend,
    /// `--causal`.
    Causal,
    /// `--follows-ntp`.
    FollowsNtp,
    /// `--across-processes`.
    AcrossProcesses,
    /// `--allow-thread`.
    AllowThread,
}

/// What a clock fails, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// The requirement.
    pub need: Need,
    /// What the clock is instead.
    pub reason: String,
}

/// How much coarser than asked a step may be: NTP stretches a tick by up to 500 ppm.
const TOLERANCE: f64 = 1.001;

/// Finer than this a clock is believed to step only where it was seen: of the counters that kernels keep time by the coarsest
/// (acpi_pm) goes by 279 ns.
const UNSEEN_NS: u64 = 1_000;

/// Everything that a call fails of what is needed.
pub fn faults(call: &Call, needs: &Needs, figure: &Figure) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut fault = |need, reason: String| faults.push(Fault { need, reason });
    let clock = &call.clock;
    if let Some(reason) = &figure.missing {
        fault(Need::Here, format!("not here: {reason}"));
    }
    if !call.is_reachable(needs.language) {
        fault(Need::Language, format!("{} has no call for it", needs.language.name()));
    }
    if clock.tells.value != needs.purpose.tells() {
        fault(Need::For, told(clock.tells.value, needs.purpose).to_owned());
    } else if needs.purpose == Purpose::Deadline && !clock.timers.value {
        fault(Need::For, not_for_timers(call).to_owned());
    }
    let (step_ns, known) = resolution(call, needs, figure);
    if step_ns > needs.precision_ns as f64 * TOLERANCE {
        fault(Need::Precision, coarser(clock.grain.value, step_ns, known));
    } else if clock.grain.value == Grain::Counter
        && figure.step_ns.is_none()
        && needs.precision_ns < UNSEEN_NS
    {
        fault(Need::Precision, "how finely it steps was not measured".to_owned());
    }
    if needs.counts_suspend && clock.suspend.value != Suspend::Counted {
        let reason = match clock.suspend.value {
            Suspend::Untold => "nobody says whether it counts in suspend",
            _ => "stands still in suspend",
        };
        fault(Need::CountsSuspend, reason.to_owned());
    }
    if needs.causal && !clock.causal.value {
        fault(Need::Causal, not_causal(clock.tells.value).to_owned());
    } else if let Some(per_million) = figure.acausal_per_million.filter(|_| needs.causal) {
        let reason =
            format!("was behind what another thread had seen, {per_million:.0} in a million");
        fault(Need::Causal, reason);
    }
    let reason = match (needs.follows_ntp, clock.steered.value) {
        (Some(true), Steered::No) => Some("is not steered by NTP"),
        (Some(true), Steered::OnItsOwn) => Some("is steered on its own, not by NTP"),
        (Some(false), Steered::ByNtp) => Some("is steered by NTP"),
        (Some(false), Steered::OnItsOwn) => Some("is steered, on its own"),
        _ => None,
    };
    if let Some(reason) = reason {
        fault(Need::FollowsNtp, reason.to_owned());
    }
    if needs.across_processes.is_some_and(|wanted| clock.shared.value < wanted) {
        let reason = match clock.shared.value {
            Shared::Thread => "is of one thread",
            Shared::Process => "has no meaning outside its process",
            _ => "is another in another time namespace",
        };
        fault(Need::AcrossProcesses, reason.to_owned());
    }
    if clock.thread.value && !needs.allow_thread {
        fault(Need::AllowThread, "needs a thread that keeps it (--allow-thread)".to_owned());
    }
    faults
}

/// How a resolution is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Known {
    /// Readings stepped so.
    Seen,
    /// The kernel says so here.
    ClockGetres,
    /// So it is documented.
    Documented,
}

/// In what steps a call's clock goes, and how that is known. Never finer than the call gives it; and of a tick the kernel's own
/// word counts where readings were coarser: on a busy machine ticks come late.
pub fn resolution(call: &Call, needs: &Needs, figure: &Figure) -> (f64, Known) {
    let grain = call.clock.grain.value;
    if grain == Grain::Kept {
        return ((2 * needs.period_ns()) as f64, Known::Documented);
    }
    let documented_ns = grain.coarsest_ns().unwrap_or(1) as f64;
    match (grain, figure.step_ns, figure.advertised_ns) {
        (Grain::Tick, Some(seen_ns), Some(told_ns)) if told_ns < seen_ns => {
            (told_ns, Known::ClockGetres)
        }
        (Grain::Tick, None, Some(told_ns)) => (told_ns, Known::ClockGetres),
        (Grain::Tick | Grain::Second, Some(seen_ns), _) => (seen_ns, Known::Seen),
        (_, Some(seen_ns), _) if seen_ns >= grain.finest_ns() as f64 => (seen_ns, Known::Seen),
        (_, Some(_), _) => (grain.finest_ns() as f64, Known::Documented),
        (_, None, _) => (documented_ns, Known::Documented),
    }
}

/// What a clock tells that is not what it is needed for.
const fn told(tells: Tells, purpose: Purpose) -> &'static str {
    match (tells, purpose.tells()) {
        (Tells::Wall, Tells::Elapsed) => "tells the time of day: it jumps when it is set",
        (Tells::Wall, _) => "tells the time of day, not CPU time",
        (Tells::Elapsed, Tells::Wall) => "does not tell the time of day",
        (Tells::Elapsed, _) => "tells elapsed time, not CPU time",
        (Tells::ThreadCpu, Tells::ProcessCpu) => "tells CPU time of one thread only",
        (Tells::ProcessCpu, Tells::ThreadCpu) => "tells CPU time of all threads together",
        (Tells::ThreadCpu | Tells::ProcessCpu, _) => "tells CPU time: it stands still in waits",
        (Tells::Tai, Tells::Wall) => "tells TAI: ahead of UTC by the leap seconds",
        (Tells::Tai, Tells::Elapsed) => "tells TAI: it jumps when the time of day is set",
        (Tells::Tai, _) => "tells TAI, not CPU time",
        (Tells::Own, _) => "tells a time of its own, as whoever steers it sets it",
        (Tells::Ticks, _) => "counts ticks, not nanoseconds",
    }
}

/// Why the kernel's timers do not take its readings.
const fn not_for_timers(call: &Call) -> &'static str {
    match call.clock.grain.value {
        Grain::Kept => "is behind the clock of the timers: a deadline comes early",
        _ => "no timer of the kernel's takes it",
    }
}

const fn not_causal(tells: Tells) -> &'static str {
    match tells {
        Tells::ThreadCpu => "is of one thread: nothing to compare across threads",
        Tells::ProcessCpu => "other threads' share is as of their last tick",
        _ => "can be older than what the thread has seen of another",
    }
}

fn coarser(grain: Grain, step_ns: f64, known: Known) -> String {
    let step = span(step_ns as u64);
    match (grain, known) {
        (Grain::Kept, _) => format!("is kept at most as finely as {step}"),
        (Grain::Counter, _) => format!("two readings are {step} apart: nothing finer shows"),
        (_, Known::Seen | Known::ClockGetres) => format!("steps by {step} here"),
        (Grain::Tick, Known::Documented) => format!("steps by up to {step}"),
        _ => format!("steps by {step}"),
    }
}

/// A span as the command line takes it, to the nanosecond.
pub fn exactly(ns: u64) -> String {
    humantime::format_duration(std::time::Duration::from_nanos(ns)).to_string().replace(' ', "")
}

/// A span as people write it: with three digits, and without zeros behind the point.
pub fn span(ns: u64) -> String {
    let ns = ns as f64;
    let (value, unit) = match ns {
        _ if ns < 999.5 => (ns, "ns"),
        _ if ns < 999.5e3 => (ns / 1e3, "us"),
        _ if ns < 999.5e6 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    let decimals = match value {
        _ if value < 9.995 => 2,
        _ if value < 99.95 => 1,
        _ => 0,
    };
    let text = format!("{value:.decimals$}");
    let text = if decimals > 0 { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text} {unit}")
}
