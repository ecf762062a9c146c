//! The command line of `clockwise choose`.
//!
//! Must never do anything: what a flag means is up to `choose/`.

use super::{Form, span};
use crate::choose::calls::Language;
use crate::choose::clocks::Shared;
use crate::choose::needs::{Needs, Purpose};
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

/// `clockwise choose`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  clockwise choose                             asks what it has to know
  clockwise choose --for elapsed --precision 10ms
  clockwise choose --for elapsed --causal --language rust
  clockwise choose --for deadline --counts-suspend --language python
  clockwise choose --for log --from a.json     with the figures of `clockwise bench --save a.json`
  clockwise choose --explain                   what every clock is, and where that is stated

The answer is the cheapest clock that meets all needs, with its line of code; costs within 5 % of
each other count as equal, and the plainer clock is taken. Below it stand the others that would do,
with what they cost, and all that would not, each with what it fails. Only what could meet the
needs is measured, within a second.

Exit status: 0 there is such a clock; 1 there is none; 2 wrong usage, or it cannot be told.")]
pub struct Choose {
    /// What the time is for
    #[arg(long = "for", value_enum, value_name = "PURPOSE")]
    pub purpose: Option<Purpose>,
    /// How fine its steps must be, as in 10ms [default: 1us, for a log 1ms]
    #[arg(long, value_name = "TIME", value_parser = precision)]
    pub precision: Option<u64>,
    /// It must count while the machine is suspended
    #[arg(long)]
    pub counts_suspend: bool,
    /// A thread must never read an older time than it has seen of another
    #[arg(long)]
    pub causal: bool,
    /// Whether its rate must be steered by NTP, or must not [default: either]
    #[arg(long, value_enum, value_name = "YES/NO")]
    pub follows_ntp: Option<Yes>,
    /// Processes must be able to compare: those of a time namespace, or of the whole machine
    #[arg(
        long, value_enum, value_name = "WHERE", num_args = 0..=1, require_equals = true,
        default_missing_value = "namespace"
    )]
    pub across_processes: Option<Across>,
    /// A thread of the program may keep the time (clockwise::recent)
    #[arg(long)]
    pub allow_thread: bool,
    /// The language to read it in [default: c]
    #[arg(long, value_enum)]
    pub language: Option<Language>,
    /// Take the figures from a result of `clockwise bench`; measure nothing
    #[arg(long, value_name = "FILE", conflicts_with = "simulate")]
    pub from: Option<PathBuf>,
    /// How to print the answer
    #[arg(long, value_enum, default_value_t = Form::Text)]
    pub format: Form,
    /// Print what every clock is, and where each property is stated; measure nothing
    #[arg(long, conflicts_with_all = [
        "purpose", "precision", "counts_suspend", "causal", "follows_ntp", "across_processes",
        "allow_thread", "from", "simulate",
    ])]
    pub explain: bool,
    /// Run on a computed machine instead of this one
    #[arg(long, value_name = "SEED", hide = true)]
    pub simulate: Option<u32>,
}

/// Yes or no.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Yes {
    /// It must
    Yes,
    /// It must not
    No,
}

/// Which processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Across {
    /// Those in one time namespace: all, where no container has one of its own
    Namespace,
    /// All of the machine
    Machine,
}

impl Choose {
    /// The needs, if it is said what for.
    pub fn needs(&self) -> Option<Needs> {
        self.purpose.map(|purpose| self.needs_for(purpose))
    }

    /// What else is said of a time for this.
    pub fn needs_for(&self, purpose: Purpose) -> Needs {
        let plain = Needs::only(purpose, self.language.unwrap_or(Language::C));
        Needs {
            precision_ns: self.precision.unwrap_or(plain.precision_ns),
            counts_suspend: self.counts_suspend,
            causal: self.causal,
            follows_ntp: self.follows_ntp.map(|yes| yes == Yes::Yes),
            across_processes: self.across_processes.map(|across| match across {
                Across::Namespace => Shared::Namespace,
                Across::Machine => Shared::Machine,
            }),
            allow_thread: self.allow_thread,
            ..plain
        }
    }
}

/// Nanoseconds.
pub fn precision(text: &str) -> Result<u64, String> {
    let precision = span::within(text, Duration::from_nanos(1), "10ms or 1us")?;
    if precision > Duration::from_secs(3_600) {
        return Err("coarser than an hour: any clock will do; give less".to_owned());
    }
    u64::try_from(precision.as_nanos()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_precision_is_from_a_nanosecond_to_an_hour() {
        assert_eq!(precision("10ms"), Ok(10_000_000));
        assert_eq!(precision("1ns"), Ok(1));
        assert_eq!(precision("1h"), Ok(3_600_000_000_000));
        for (wrong, told) in [
            ("0", "no time at all"),
            ("0s", "no time at all"),
            ("0.1ns", "no time at all"),
            ("10", "write a unit, as in 10ms"),
            ("61m", "any clock will do"),
            ("-1ms", "not a duration; write it as in 10ms"),
            ("fine", "not a duration"),
            ("", "not a duration"),
        ] {
            assert!(precision(wrong).unwrap_err().contains(told), "{wrong}");
        }
    }
}
