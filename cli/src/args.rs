//! The command line: names, help and checks. The man page and the completions come from it too.
//!
//! Must never do anything: what a flag means is up to `cmd/`.

mod calibrate;
mod choose;
mod count;
mod doctor;
mod profile;
mod run;
mod span;
mod verify;

pub use calibrate::Calibrate;
pub use choose::{Choose, precision};
use clap::builder::styling::{AnsiColor, Styles};
use clap::{Args, Parser, Subcommand, ValueEnum};
pub use count::Count;
pub use doctor::Doctor;
pub use profile::{Profile, ProfileForm};
pub use run::{Form, Order, Run};
use std::path::PathBuf;
use std::time::Duration;
pub use verify::Verify;

/// The colours of the help.
const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// What every clock of this machine costs and is worth, and the kernel's time at the price of reading a counter
#[derive(Debug, Parser)]
#[command(name = "clockwise", version, styles = STYLES, max_term_width = 100, after_help = "\
Exit status: 0 yes, 1 a fault was found or something failed, 2 wrong usage or it cannot be told.")]
pub struct Cli {
    /// What to do
    #[command(subcommand)]
    pub command: Command,
    /// Colours in the output
    // After a command's own, before --help, which has 999.
    #[arg(
        long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN", display_order = 998
    )]
    pub color: Color,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless `NO_COLOR` is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measure what every clock of this machine costs and is worth
    Bench(Box<Bench>),
    /// Start a program whose clocks are read from the counter
    Run(Box<Run>),
    /// Count how often a program asks for the time, from where, and what that costs
    Profile(Box<Profile>),
    /// Verify our clock against the kernel's, reading by reading
    Verify(Box<Verify>),
    /// Measure the counter's frequency and its stability
    Calibrate(Calibrate),
    /// Say which clock meets a need here, and how to read it
    Choose(Choose),
    /// Find out whether time here is slow, wrong or unsafe, why, and what to do
    Doctor(Doctor),
    /// Count what a program asks of the clocks, without an image
    #[command(hide = true)]
    CountCalls(Count),
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page of a command, or of the whole tool
    Man {
        /// The command
        command: Option<String>,
    },
}

/// `clockwise bench`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  clockwise bench                              all of it, in five seconds
  clockwise bench --quick --only '*/monotonic' one clock, three ways, in a second
  clockwise bench --only 'vdso/*' --threads 1,2 --rate 1M
  clockwise bench --cold                       the first call after the caches were evicted
  clockwise bench --format json --save a.json  for a program to read
  clockwise bench --format bench_time -n 1000000
  clockwise bench --format repnop              the table of gettimeofday benchmarks since 2007
  clockwise bench --list --only 'std/*'        what these are and guarantee, nothing measured

Names of sources are WAY/CLOCK: base, counter, libc, vdso, syscall or std, then the clock; --list
shows them.

Exit status: 0 measured; 1 the machine breaks a promise of its own, or the result could not be
written; 2 wrong usage, interrupted, or nothing could be measured.")]
pub struct Bench {
    /// All of it within a second, but for --threads and --cold
    #[arg(long, conflicts_with = "time")]
    pub quick: bool,
    /// Time for all of it, as in 500ms or 2m [default: 4.3s, 1.1s more for each of --threads, 12.9s for
    /// --cold]
    #[arg(long, value_name = "BUDGET", value_parser = budget)]
    pub time: Option<Duration>,
    /// Only the sources whose name matches; may be given more than once
    #[arg(long, value_name = "GLOB", value_parser = pattern)]
    pub only: Vec<glob::Pattern>,
    /// Only say what the sources are and guarantee
    #[arg(long)]
    pub list: bool,
    /// Seed of the order in which batches are run
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u32,
    /// Also the cost with so many threads calling at once
    #[arg(long, value_name = "1,2,...", value_delimiter = ',', value_parser = at_least_one())]
    pub threads: Vec<u16>,
    /// Also the cost of a first call after the caches were evicted
    #[arg(long)]
    pub cold: bool,
    /// Processors to use, as in 0,2-3 [default: all that are allowed]
    #[arg(long, value_name = "LIST", value_parser = cpus)]
    pub cpus: Option<Cpus>,
    /// Also the share of a processor that so many reads a second take, as in 50000 or 1M
    #[arg(long, value_name = "N", value_parser = rate)]
    pub rate: Option<f64>,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Calls of each source, for bench_time (default 9079882) and timetest (default 10000)
    #[arg(short = 'n', long, value_name = "N", value_parser = calls)]
    pub calls: Option<u64>,
    /// Also write the result as JSON to a file
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Measure as if the counter were forbidden to this process (sets PR_TSC_SIGSEGV)
    #[arg(long)]
    pub forbid_counter: bool,
    /// Run on a computed machine instead of this one
    #[arg(long, value_name = "SEED", hide = true)]
    pub simulate: Option<u32>,
}

/// How to print a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Tables for people
    Text,
    /// Everything, for programs
    Json,
    /// A line a source
    Csv,
    /// Relative and absolute cost in ticks, after the repnop.org benchmark
    Repnop,
    /// Time per call and last values, after Sean Chittenden's bench_time; exactly N calls each
    #[value(name = "bench_time")]
    BenchTime,
    /// rdtsc against gettimeofday, after Lee Revell's timetest; exactly N calls each
    Timetest,
}

impl Format {
    /// Whether it makes exactly N calls of each source.
    pub const fn is_exact(self) -> bool {
        matches!(self, Self::BenchTime | Self::Timetest)
    }
}

/// A list of processors.
#[derive(Clone, Debug)]
pub struct Cpus(pub Vec<usize>);

fn at_least_one() -> clap::builder::RangedI64ValueParser<u16> {
    clap::value_parser!(u16).range(1..)
}

fn cpus(text: &str) -> Result<Cpus, String> {
    crate::machine::parse_cpu_list(text).map(Cpus)
}

fn budget(text: &str) -> Result<Duration, String> {
    let duration = humantime::parse_duration(text)
        .map_err(|_| "not a duration; write it as in 500ms, 5s or 2m".to_owned())?;
    if duration < Duration::from_millis(1) {
        return Err("too short to measure anything; give at least 1ms".to_owned());
    }
    if duration > Duration::from_secs(86_400) {
        return Err("more than a day; give less".to_owned());
    }
    Ok(duration)
}

fn pattern(text: &str) -> Result<glob::Pattern, String> {
    glob::Pattern::new(text).map_err(|error| format!("not a pattern: {error}; as in 'vdso/*'"))
}

fn calls(text: &str) -> Result<u64, String> {
    match text.parse::<u64>() {
        Ok(0) => Err("no call would be made; give 1 or more".to_owned()),
        Ok(calls) if calls > 1 << 63 => Err("more than 2^63; give less".to_owned()),
        Ok(calls) => Ok(calls),
        Err(_) => Err("not a number of calls between 1 and 2^63".to_owned()),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    let wrong = || "not a rate; write it as in 50000, 50k or 1M".to_owned();
    let (number, factor) = match text.strip_suffix(['k', 'K']) {
        Some(number) => (number, 1e3),
        None => text.strip_suffix('M').map_or((text, 1.0), |number| (number, 1e6)),
    };
    let rate = number.parse::<f64>().map_err(|_| wrong())? * factor;
    if rate.is_finite() && rate > 0.0 && rate <= 1e12 { Ok(rate) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_of_the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn numbers_of_calls_are_between_1_and_2_to_the_63() {
        assert_eq!(calls("1"), Ok(1));
        assert_eq!(calls("9223372036854775808"), Ok(1 << 63));
        for wrong in ["0", "9223372036854775809", "18446744073709551616", "-1", "1e6", ""] {
            assert!(calls(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn rates_have_suffixes_and_are_finite() {
        assert_eq!(rate("50k"), Ok(50_000.0));
        assert_eq!(rate("1.5M"), Ok(1_500_000.0));
        for wrong in ["0", "-1", "nan", "inf", "M", "", "1G"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn budgets_of_nothing_are_refused() {
        for wrong in ["0", "0s", "5", "-1s", "2d", ""] {
            assert!(budget(wrong).is_err(), "{wrong}");
        }
        assert_eq!(budget("1.5s").is_ok(), humantime::parse_duration("1.5s").is_ok());
        assert!(budget("1ms").is_ok());
    }
}
