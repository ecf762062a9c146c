//! The command line of `clockwise profile`.
//!
//! Must never do anything: what a flag means is up to `cmd/profile.rs`.

use super::span;
use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// `clockwise profile`.
#[derive(Debug, Args)]
#[command(override_usage = "\
clockwise profile [OPTIONS] -- <CMD>...
       clockwise profile [OPTIONS] --pid <PID>")]
#[command(after_help = "\
Examples:
  clockwise profile -- redis-server --port 7000     until it ends (Ctrl-C)
  clockwise profile --for 10s -- ./server           ended (SIGTERM) after ten seconds
  clockwise profile --for 10s --pid 1234            a process that runs already
  clockwise profile --save clocks.txt -- make       the result goes to a file
  clockwise profile --format folded --save a -- ./p stacks: flamegraph.pl a > a.svg

The program asks the kernel, as ever; each call is counted on its way. Counts by clock, thread and
caller are exact. Who called the caller is looked at once in some 500 calls, by frame pointers: a
program that is compiled without them (most are) tells its innermost caller alone. What a call
costs is measured here when the program has ended; what the counting adds to the CPU time, some
nanoseconds a call, is not taken off.

Programs that no image reaches (static ones, Go) and those that run already (--pid) are watched as
by a debugger: each call stops them for microseconds, and callers of callers are seen at each.
When the tool ends, or is killed, a running process is left as it was. Only if the kernel or
somebody kills the child that watches it (`kill -9`), it dies at its next read of a clock.

Exit status: that of CMD, 0 if it was ended by --for; 127 there is no CMD; 126 it cannot be
executed; 2 wrong usage, or CMD cannot be counted.")]
pub struct Profile {
    /// So many callers, threads and processes are shown; --format json has them all
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..))]
    pub top: u16,
    /// For how long, as in 10s: then CMD is told to end (SIGTERM, five seconds later SIGKILL)
    #[arg(long = "for", value_name = "TIME", value_parser = window)]
    pub time: Option<Duration>,
    /// Count the calls of a process that runs already
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..=0x7fff_ffff), conflicts_with = "command")]
    pub pid: Option<u32>,
    /// How to print what was counted
    #[arg(long, value_enum, default_value_t = ProfileForm::Text)]
    pub format: ProfileForm,
    /// Write it to a file, not to standard error
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// The program and its arguments
    #[arg(value_name = "CMD", trailing_var_arg = true, required_unless_present = "pid")]
    pub command: Vec<OsString>,
}

/// How to print a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProfileForm {
    /// Tables for people
    Text,
    /// Everything, for programs
    Json,
    /// A line a stack, for flame graphs
    Folded,
}

fn window(text: &str) -> Result<Duration, String> {
    span::within(text, Duration::from_millis(10), "10s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_have_a_unit_and_are_long_enough() {
        assert_eq!(window("10s"), Ok(Duration::from_secs(10)));
        assert_eq!(window("100ms"), Ok(Duration::from_millis(100)));
        for wrong in ["0s", "1ms", "10", "-1s", "2000d", ""] {
            assert!(window(wrong).is_err(), "{wrong}");
        }
    }
}
