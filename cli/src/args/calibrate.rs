//! `clockwise calibrate`.

use super::{Form, span};
use anyhow::Result;
use clap::Args;
use std::time::Duration;

/// `clockwise calibrate`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  clockwise calibrate                          ten seconds, some parts in a billion
  clockwise calibrate --for 1h --every 1s      stability up to twenty minutes
  clockwise calibrate --format json            for a program

Pairs of counter and kernel clock are taken in brackets, the narrowest of some hundred each time.
The rate is that between the first and the last of them, and its uncertainty what their brackets
leave open: it covers the truth also on a busy machine, and is wider there. The truth is the
kernel's: where the counter is its clocksource, MONOTONIC_RAW is computed from the counter, and the
rate against it is the one that the kernel believes in; MONOTONIC is the same, steered by NTP.

Nothing needs to be calibrated for the library or for `clockwise run`: this is for people.

Exit status: 0 calibrated; 2 wrong usage, no counter, or too short a run. The first Ctrl-C ends with
what there is.")]
pub struct Calibrate {
    /// For how long
    #[arg(long = "for", value_name = "TIME", value_parser = duration, default_value = "10s")]
    pub time: Duration,
    /// From sample to sample [default: 100ms]
    #[arg(long, value_name = "TIME", value_parser = every)]
    pub every: Option<Duration>,
    /// The processor to read on [default: any]
    #[arg(long, value_name = "N")]
    pub cpu: Option<usize>,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Form::Text)]
    pub format: Form,
}

impl Calibrate {
    /// From sample to sample.
    ///
    /// # Errors
    /// If that is longer than the whole.
    pub fn step(&self) -> Result<Duration> {
        span::step(self.every, Duration::from_millis(100), self.time)
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    span::within(text, Duration::from_millis(1), "10s, 5m or 2d")
}

fn every(text: &str) -> Result<Duration, String> {
    span::within(text, Duration::from_millis(2), "1s or 100ms")
}
