//! `clockwise verify`.

use super::{Cpus, Form, span};
use anyhow::Result;
use clap::{Args, ValueEnum};
use clockwise::ClockId;
use std::path::PathBuf;
use std::time::Duration;

/// `clockwise verify`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  clockwise verify                             the library against the kernel, for a minute
  clockwise verify --for 18h --log a.log       as in 2002; the log survives a crash
  clockwise verify --clock monotonic --ns      all nine digits
  clockwise verify --preload --max-error 50us  the preloaded image, with a limit of one's own
  clockwise verify --for 5m --format json      the summary alone, for a program

On each processor a thread takes 32 readings in each millisecond, every second one with its bound,
each between two readings of the kernel. Four laws are checked on them: they never go back in a
thread (monotonic), are not older than what another thread has read (causal), are within their bound
of the kernel (bounded), and do not drift (steady). For a clock that can be set (realtime, tai) they
are three: causal is not asked, and it may go back by a step of the kernel's clock, by nothing else.
Readings follow a step within a period (4 ms as a rule) and lag until then, which is no violation.

A line shows the difference of what is printed, and in nanoseconds that from the middle of the two
readings of the kernel. Where the counter is unfit from the start, verify ends at once and says why.

There is no limit beyond these laws but --max-error: how far a reading may be beyond its bracket.
While the kernel changes its rate readings are microseconds off, as their bound says.

Exit status: 0 the laws held; 1 one was broken, or the limit was, or the kernel contradicts itself;
2 wrong usage, or nothing could be verified (then why). The first Ctrl-C ends with the summary.")]
pub struct Verify {
    /// For how long, as in 30s, 18h or 2d
    #[arg(long = "for", value_name = "TIME", value_parser = duration, default_value = "1m")]
    pub time: Duration,
    /// From line to line [default: 0.5s]
    #[arg(long, value_name = "TIME", value_parser = every)]
    pub every: Option<Duration>,
    /// Which clock
    #[arg(long, value_enum, default_value_t = Clock::Realtime, value_name = "CLOCK")]
    pub clock: Clock,
    /// Fail where a reading is provably further from the kernel, as in 50ns or 2us
    #[arg(long, value_name = "TIME", value_parser = limit)]
    pub max_error: Option<Duration>,
    /// Show the times with nanoseconds too
    #[arg(long)]
    pub ns: bool,
    /// Verify the library, in this process [default]
    #[arg(long, conflicts_with = "preload")]
    pub in_process: bool,
    /// Verify the preloaded image, as `clockwise run` gives it to programs
    #[arg(long)]
    pub preload: bool,
    /// Append what happens to a file, as JSON lines
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Also log each comparison with the kernel (250 a second)
    #[arg(long, requires = "log")]
    pub refreshes: bool,
    /// Processors to read on, as in 0,2-3 [default: all that are allowed, 16 at most]
    #[arg(long, value_name = "LIST", value_parser = super::cpus)]
    pub cpus: Option<Cpus>,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Form::Text)]
    pub format: Form,
    /// The image is preloaded in this process, as it should find
    #[arg(long, hide = true, requires = "preload")]
    pub preloaded: bool,
}

/// The clocks that are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Clock {
    /// The wall clock
    Realtime,
    /// Since boot, steered, without suspends
    Monotonic,
    /// The same with suspends
    Boottime,
    /// The wall clock without leap seconds
    Tai,
    /// Since boot, not steered
    Raw,
}

impl Clock {
    /// The kernel's number of it.
    pub const fn id(self) -> ClockId {
        match self {
            Self::Realtime => ClockId::REALTIME,
            Self::Monotonic => ClockId::MONOTONIC,
            Self::Boottime => ClockId::BOOTTIME,
            Self::Tai => ClockId::TAI,
            Self::Raw => ClockId::MONOTONIC_RAW,
        }
    }
}

impl Verify {
    /// From line to line.
    ///
    /// # Errors
    /// If that is longer than the whole.
    pub fn step(&self) -> Result<Duration> {
        span::step(self.every, Duration::from_millis(500), self.time)
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    span::within(text, Duration::from_millis(10), "30s, 18h or 2d")
}

fn every(text: &str) -> Result<Duration, String> {
    span::within(text, Duration::from_millis(1), "0.5s or 10s")
}

fn limit(text: &str) -> Result<Duration, String> {
    span::within(text, Duration::from_nanos(1), "50ns or 2us")
}
