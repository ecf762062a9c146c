//! What no file tells: answers of the kernel to this process, and measurements. As data, so that a recording can hold it
//! (`measured.json`); what is left out there is not known.

use serde::{Deserialize, Serialize};

/// A value, or why there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Told<T> {
    /// There is none.
    Not {
        /// Why.
        reason: String,
    },
    /// The value.
    Is(T),
}

impl<T> Default for Told<T> {
    fn default() -> Self {
        Self::not("the recording does not say")
    }
}

impl<T> Told<T> {
    /// There is none, for this reason.
    pub fn not(reason: impl Into<String>) -> Self {
        Self::Not { reason: reason.into() }
    }

    /// The value, or the reason.
    pub fn get(&self) -> Result<&T, &str> {
        match self {
            Self::Is(value) => Ok(value),
            Self::Not { reason } => Err(reason),
        }
    }
}

impl<T, E: ToString> From<Result<T, E>> for Told<T> {
    fn from(result: Result<T, E>) -> Self {
        result.map_or_else(|error| Self::not(error.to_string()), Self::Is)
    }
}

/// Everything that is not read from a file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Measured {
    /// The calls that tell time, each tried once.
    pub calls: Told<Vec<Call>>,
    /// Whether this process may read the counter (`PR_GET_TSC`).
    pub counter_allowed: Told<bool>,
    /// Why that may not even be asked here; a recording does not hold it.
    #[serde(skip)]
    pub counter_is_deadly: Option<String>,
    /// `PR_GET_TIMERSLACK`.
    pub timer_slack_ns: Told<u64>,
    /// CPUID.
    pub processor: Told<Processor>,
    /// `adjtimex(2)`.
    pub discipline: Told<Discipline>,
    /// All clocks at one moment.
    pub clocks: Told<Clocks>,
    /// The C library.
    pub libc: Told<Libc>,
    /// What calls cost.
    pub prices: Told<Prices>,
    /// Who spent the time while a clock was read and read.
    pub share: Told<Share>,
    /// The counter against the kernel.
    pub rate: Told<Rates>,
    /// The processors' counters against each other.
    pub sync: Told<Sync>,
    /// The steps of clocks.
    pub steps: Told<Steps>,
}

/// A call that tells time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// As in `syscall clock_gettime(MONOTONIC)`.
    pub name: String,
    /// What went wrong.
    pub failure: Option<String>,
}

/// What CPUID says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Processor {
    /// The hypervisor's signature.
    pub hypervisor: Option<String>,
    /// Whether the counter keeps its rate.
    pub invariant: Option<bool>,
    /// The counter's rate as it is claimed.
    pub claimed_hz: Option<u64>,
}

/// What `adjtimex(2)` says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Discipline {
    /// `TIME_OK` (0) .. `TIME_ERROR` (5).
    pub state: i32,
    /// `STA_*`.
    pub status: i32,
    /// How far the clock may be off.
    pub max_error_us: i64,
    /// By how much the kernel corrects the rate.
    pub frequency_ppm: f64,
    /// TAI minus UTC.
    pub tai_offset_s: i32,
}

/// All clocks at one moment, in nanoseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Clocks {
    /// The wall clock.
    pub realtime_ns: i64,
    /// Without suspend.
    pub monotonic_ns: i64,
    /// Not steered.
    pub monotonic_raw_ns: i64,
    /// With suspend.
    pub boottime_ns: i64,
}

/// The C library of this process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Libc {
    /// Its version, if it tells one.
    pub version: Option<String>,
    /// The file whose `clock_gettime` is called.
    pub clock_from: Option<String>,
    /// Clockwise's image answers in its place.
    pub image: bool,
}

/// What calls cost, in nanoseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Prices {
    /// `clock_gettime(MONOTONIC)` of libc.
    pub libc_ns: f64,
    /// The system call.
    pub syscall_ns: Option<f64>,
    /// The vDSO's function.
    pub vdso_ns: Option<f64>,
    /// The counter, ordered.
    pub counter_ns: Option<f64>,
    /// CPUID.
    pub cpuid_ns: Option<f64>,
}

/// Who spent the time while MONOTONIC was read through libc.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Share {
    /// For how long.
    pub window_ns: u64,
    /// The program and its libraries, the vDSO among them.
    pub user_percent: f64,
    /// The kernel.
    pub system_percent: f64,
}

/// The counter against the kernel.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Rates {
    /// Ticks a second of MONOTONIC_RAW.
    pub counter_hz: f64,
    /// Either way.
    pub uncertainty_ppm: f64,
    /// How much faster MONOTONIC goes than MONOTONIC_RAW.
    pub steering_ppm: f64,
    /// Either way.
    pub steering_uncertainty_ppm: f64,
}

/// The processors' counters against each other.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Sync {
    /// Processors that this process may use.
    pub processors: usize,
    /// Pairs of them.
    pub pairs: usize,
    /// Those that were tried.
    pub tried: usize,
    /// Readings that were handed over.
    pub handed_over: u64,
    /// Of those, how many were followed by an older one.
    pub violations: u64,
    /// By how much at most, in ticks.
    pub worst_ticks: u64,
    /// The largest difference between two processors, in nanoseconds.
    pub offset_ns: Option<f64>,
    /// Either way.
    pub offset_error_ns: Option<f64>,
}

/// The steps of clocks, in nanoseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Steps {
    /// What `clock_getres` says of MONOTONIC_COARSE: the tick.
    pub tick_ns: u64,
    /// The least step of MONOTONIC_COARSE that was seen.
    pub seen_ns: Option<u64>,
    /// What `clock_getres` says of MONOTONIC.
    pub fine_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_may_leave_out_anything_and_survives_the_round_trip() {
        let empty: Measured = serde_json::from_str("{}").unwrap();
        assert_eq!(empty.prices.get().unwrap_err(), "the recording does not say");
        let text = r#"{"timer_slack_ns": 50000, "counter_allowed": {"reason": "x"}, "unknown": 1,
            "share": {"window_ns": 1, "user_percent": 99.5, "system_percent": 0.5}}"#;
        let some: Measured = serde_json::from_str(text).unwrap();
        let again: Measured = serde_json::from_str(&serde_json::to_string(&some).unwrap()).unwrap();
        for measured in [&some, &again] {
            assert_eq!(measured.timer_slack_ns.get(), Ok(&50_000));
            assert_eq!(measured.counter_allowed.get(), Err("x"));
            assert_eq!(measured.share.get().unwrap().user_percent, 99.5);
        }
    }
}
