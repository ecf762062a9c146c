//! The command line of `clockwise run`.
//!
//! Must never do anything: what a flag means is up to `cmd/run.rs`.

use clap::{Args, ValueEnum};
use clockwise_core::timebase::{PERIOD_MAX_NS, START_NS};
use std::ffi::OsString;
use std::path::PathBuf;

/// `clockwise run`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  clockwise run -- date +%N                    the program reads the counter, not the kernel
  clockwise run --order relaxed -- pg_test_timing
  clockwise run --stats -- python3 work.py     what it read, and how well it was followed
  clockwise run --dry-run                      what a read costs here, and would cost
  clockwise run --dry-run -- ./server          and whether that program can be reached
  clockwise run --print-image                  for Environment=LD_PRELOAD=... of a unit

The program replaces this one: its process, its exit status and its terminal are as if it had been
started alone. With --stats this one waits for it, and ends as it ends.

Exit status: that of CMD; 127 there is no CMD; 126 it cannot be executed; 2 wrong usage, or what
lies in the cache is not ours. With --dry-run: 0 CMD would read the counter, 1 it would not,
2 that cannot be told.")]
pub struct Run {
    /// Whether a read may be early: causal is as the kernel's clock, relaxed is cheaper
    #[arg(long, value_enum, default_value_t = Order::Causal)]
    pub order: Order,
    /// How often the kernel is asked while time is read, 1ms to 250ms [default: 4ms]
    #[arg(long, value_name = "TIME", value_parser = max_age)]
    pub max_age: Option<u64>,
    /// Count what CMD and its descendants read; printed on standard error when CMD has ended
    #[arg(long)]
    pub stats: bool,
    /// Write what --stats tells to a file
    #[arg(long, value_name = "FILE", requires = "stats")]
    pub stats_file: Option<PathBuf>,
    /// Preload even where nothing is gained; fail if the image cannot be laid
    #[arg(long)]
    pub force: bool,
    /// Start nothing: measure, and say what would be gained
    #[arg(long, conflicts_with_all = ["stats", "print_image"])]
    pub dry_run: bool,
    /// Start nothing: print where the image is that would be preloaded
    #[arg(long, conflicts_with_all = ["stats", "command"])]
    pub print_image: bool,
    /// How to print what --stats, --dry-run or --print-image tells
    #[arg(long, value_enum, default_value_t = Form::Text)]
    pub format: Form,
    /// The program and its arguments
    #[arg(
        value_name = "CMD",
        // From CMD on all words are CMD's; one with a hyphen in CMD's place is a flag, unless -- is before it.
        trailing_var_arg = true,
        required_unless_present_any = ["dry_run", "print_image"]
    )]
    pub command: Vec<OsString>,
}

/// What reads promise each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Order {
    /// Never earlier than what the thread has seen of other threads
    Causal,
    /// May be earlier by what the processor has in flight, tens of nanoseconds
    Relaxed,
}

impl Order {
    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Causal => "causal",
            Self::Relaxed => "relaxed",
        }
    }
}

/// For people or for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// Sentences and tables
    Text,
    /// Everything, for programs
    Json,
}

/// Nanoseconds.
fn max_age(text: &str) -> Result<u64, String> {
    let duration = humantime::parse_duration(text)
        .map_err(|_| "not a duration; write it as in 4ms".to_owned())?;
    match u64::try_from(duration.as_nanos()) {
        Ok(ns) if (START_NS..=PERIOD_MAX_NS).contains(&ns) => Ok(ns),
        _ => Err("give a time from 1ms to 250ms".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_between_the_shortest_and_the_longest_period() {
        assert_eq!(max_age("1ms"), Ok(START_NS));
        assert_eq!(max_age("4ms"), Ok(4_000_000));
        assert_eq!(max_age("250ms"), Ok(PERIOD_MAX_NS));
        for wrong in ["999us", "0s", "251ms", "100years", "4", "-4ms", ""] {
            assert!(max_age(wrong).is_err(), "{wrong}");
        }
        assert!(max_age("1s").unwrap_err().contains("from 1ms to 250ms"));
    }
}
