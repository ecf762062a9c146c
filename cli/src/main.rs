//! The command line of Clockwise: parse, run, print, exit.
//!
//! The only file that prints or exits.

mod arch;
mod args;
mod availability;
mod cache;
mod calibrate;
mod choose;
mod cmd;
mod doctor;
mod evaluate;
mod exact;
mod exchange;
mod image;
mod instruments;
mod launch;
mod live;
mod machine;
mod manual;
mod measure;
mod memory;
mod notes;
mod os;
mod outlook;
mod pair;
mod prices;
mod profile;
mod program;
mod progress;
mod quality;
mod reads;
mod real;
mod render;
mod report;
mod samples;
mod save;
mod simulated;
mod sources;
mod stats;
mod tally;
mod ticks;
mod trial;
mod verify;
mod world;

use anyhow::Result;
use args::{Choose, Cli, Color, Command};
use choose::ask::Asking;
use clap::{CommandFactory, Parser};
use clockwise_core::counter::Hardware;
use cmd::Answer;
use cmd::run::{Aside, Ran};
use live::Live;
use measure::Watch;
use render::Style;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let interrupted = Arc::new(AtomicBool::new(false));
    match answer(&cli, &interrupted).and_then(|answer| print(&answer)) {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            warn(&format!("{error:#}"));
            ExitCode::from(2)
        }
    }
}

fn answer(cli: &Cli, interrupted: &Arc<AtomicBool>) -> Result<Answer> {
    match &cli.command {
        Command::Bench(bench) => {
            hear(interrupted)?;
            let draw = io::stderr().is_terminal();
            cmd::bench::run(bench, style(cli.color), |counter| {
                Box::new(progress::Progress::new(draw && counter, Arc::clone(interrupted)))
            })
        }
        Command::Run(run) => {
            ended(cmd::run::run(run, style(cli.color), aside(cli.color, &mut io::stderr()))?)
        }
        Command::Profile(profile) if profile.pid.is_some() => {
            attached(profile, style(cli.color), interrupted)
        }
        Command::Profile(profile) => {
            ended(cmd::profile::run(profile, aside(cli.color, &mut io::stderr()))?)
        }
        Command::Verify(verify) => {
            hear(interrupted)?;
            live(|live| cmd::verify::run(verify, style(cli.color), live, interrupted))
        }
        Command::Calibrate(calibrate) => {
            hear(interrupted)?;
            live(|live| cmd::calibrate::run(calibrate, style(cli.color), live, interrupted))
        }
        Command::Choose(choose) => choice(choose, style(cli.color), interrupted),
        Command::Doctor(doctor) => live(|live| cmd::doctor::run(doctor, style(cli.color), live)),
        Command::CountCalls(count) => {
            let is_apart = count.pid.is_some();
            let count = || match cmd::count::run(count) {
                Ok((answer, end)) => (print(&answer).unwrap_or(1), end),
                Err(error) => {
                    warn(&format!("{error:#}"));
                    (2, None)
                }
            };
            let end = if is_apart {
                profile::traced::apart(|| std::process::exit(count().0.into()))?
            } else {
                let (status, end) = count();
                end.unwrap_or(launch::End::Exited(status.into()))
            };
            std::process::exit(launch::end_as(end))
        }
        Command::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "clockwise", &mut text);
            plain(text)
        }
        Command::Man { command } => plain(manual::page(command.as_deref())?),
    }
}

/// Asks, where nobody says what for and there is a terminal to ask on; then measures.
fn choice(args: &Choose, style: Style, interrupted: &Arc<AtomicBool>) -> Result<Answer> {
    let (mut input, mut output) = (io::stdin().lock(), io::stderr());
    let terminal = io::stdin().is_terminal() && output.is_terminal();
    let asking = terminal.then_some(Asking { input: &mut input, output: &mut output });
    // A signal ends the questions at once, and a measurement with a word. What comes from a file is not measured, and the
    // file may be a pipe into which nobody writes: there it ends at once too.
    let needs = cmd::choose::needs(args, asking)?;
    if args.from.is_none() {
        hear(interrupted)?;
    }
    let mut watch = progress::Progress::new(false, Arc::clone(interrupted));
    cmd::choose::run(args, needs.as_ref(), style, &mut watch)
}

/// Counts what a running process asks, in a process of its own: see [`profile::traced`].
fn attached(args: &args::Profile, style: Style, interrupted: &Arc<AtomicBool>) -> Result<Answer> {
    let end = profile::traced::apart(|| {
        let draw = args.time.is_some() && io::stderr().is_terminal() && Hardware::find().is_ok();
        let mut bar = progress::Progress::new(draw, Arc::clone(interrupted));
        let answer = cmd::profile::attached(args, style, &mut |share| bar.done(share));
        drop(bar);
        let status = answer.and_then(|answer| print(&answer)).unwrap_or_else(|error| {
            warn(&format!("{error:#}"));
            2
        });
        std::process::exit(status.into())
    })?;
    std::process::exit(launch::end_as(end))
}

/// Standard error, beside the output of a program.
fn aside(color: Color, err: &mut io::Stderr) -> Aside<'_> {
    let style = style_of(color, &console::Term::stderr());
    Aside { err, columns: columns_of_errors(), style }
}

/// Ends as the program did, if there was one.
fn ended(ran: Ran) -> Result<Answer> {
    match ran {
        Ran::Answer(answer) => Ok(answer),
        Ran::Ended(end) => std::process::exit(launch::end_as(end)),
    }
}

/// Lets the first signal ask for what there is, and the second end the tool at once.
fn hear(interrupted: &Arc<AtomicBool>) -> Result<()> {
    let signals =
        [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP];
    // Whoever started the tool may have arranged that it outlives one of them (nohup).
    for signal in signals.into_iter().filter(|&signal| !os::is_ignored(signal)) {
        signal_hook::flag::register_conditional_default(signal, Arc::clone(interrupted))?;
        signal_hook::flag::register(signal, Arc::clone(interrupted))?;
    }
    Ok(())
}

/// Runs what shows itself while it lasts. The bar reads a clock to draw, and that the counter, if it may be read.
fn live(run: impl FnOnce(&mut Live<'_>) -> Result<Answer>) -> Result<Answer> {
    let draw = io::stderr().is_terminal() && Hardware::find().is_ok();
    let (mut out, mut err) = (io::stdout(), io::stderr());
    let mut live = Live::new(&mut out, &mut err, draw);
    let answer = run(&mut live);
    match (answer, live.end()) {
        (Ok(mut answer), Some(failure)) => {
            // What else there is to say cannot be printed either.
            (answer.text, answer.warnings, answer.status) = (String::new(), vec![failure], 1);
            Ok(answer)
        }
        (answer, _) => answer,
    }
}

fn plain(text: Vec<u8>) -> Result<Answer> {
    Ok(Answer { text: String::from_utf8(text)?, warnings: Vec::new(), status: 0 })
}

/// Colours and width as standard output has them.
fn style(color: Color) -> Style {
    style_of(color, &console::Term::stdout())
}

fn style_of(color: Color, terminal: &console::Term) -> Style {
    let colored = match color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => {
            terminal.is_term() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
        }
    };
    let width = terminal.size_checked().map_or(100, |(_, columns)| usize::from(columns));
    Style { colored, width: width.clamp(40, 100) }
}

/// The columns of standard error, if it is a terminal: elsewhere a sentence is a line, to be searched for.
fn columns_of_errors() -> Option<usize> {
    let terminal = console::Term::stderr();
    terminal.is_term().then(|| style_of(Color::Never, &terminal).width)
}

/// Prints the answer; a reader that has seen enough (`| head`) is a success.
fn print(answer: &Answer) -> Result<u8> {
    let mut out = io::stdout().lock();
    let written = out.write_all(answer.text.as_bytes()).and_then(|()| out.flush());
    for warning in &answer.warnings {
        warn(warning);
    }
    match written {
        Ok(()) => Ok(answer.status),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(answer.status),
        Err(error) => {
            warn(&format!("the result cannot be printed: {}", machine::words(&error)));
            Ok(1)
        }
    }
}

/// A sentence on standard error; there is nobody to tell if that is closed.
fn warn(text: &str) {
    let _ = io::stderr().write_all(render::remark(text, "", columns_of_errors()).as_bytes());
}
