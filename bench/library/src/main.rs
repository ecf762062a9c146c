//! Clockwise beside its peers, in one interleaved run: what a read costs, how far it is from the kernel, how it
//! starts.
//!
//! Must never set a clock: how steps are followed is shown by the simulation. x86-64 Linux only: the bare instructions
//! that everything is compared with are that processor's.

mod accuracy;
mod cost;
mod histogram;
mod load;
mod os;
mod provenance;
mod startup;
mod subjects;
mod text;

use accuracy::{Judges, Windowed};
use anyhow::{Context, Result};
use clap::Parser;
use cost::Costs;
use indicatif::{ProgressBar, ProgressStyle};
use load::Load;
use provenance::Provenance;
use serde::Serialize;
use startup::Startup;
use std::fs;
use std::io::{IsTerminal, stderr};
use std::path::{Path, PathBuf};

/// Measures Clockwise and its peers on this machine.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Length of an accuracy window, in seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// A second window so many seconds after the first has begun; the process stays alive until then.
    #[arg(long, value_name = "SECONDS")]
    after: Option<u64>,
    /// Busy threads while accuracy is measured.
    #[arg(long, default_value_t = 1, value_name = "THREADS")]
    load: usize,
    /// How long the cost of reads is measured, for each number of threads.
    #[arg(long, default_value_t = 15.0, value_name = "SECONDS")]
    cost_seconds: f64,
    /// Processes that are started for the first read of each crate.
    #[arg(long, default_value_t = 21)]
    processes: usize,
    /// The order of things.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the record goes, as JSON; written after each part, whole each time.
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
}

/// What is saved.
#[derive(Serialize)]
struct Record {
    /// Grows when a field changes its meaning or goes.
    schema: u32,
    provenance: Provenance,
    startup: Vec<Startup>,
    cost: Vec<Costs>,
    accuracy: Vec<Windowed>,
}

/// A bar on standard error where that is a terminal.
struct Progress(Option<ProgressBar>);

const STEPS: u64 = 1_000;

impl Progress {
    fn new() -> Self {
        let bar = stderr().is_terminal().then(|| {
            let style =
                ProgressStyle::with_template("{msg:24} {bar:40.cyan} {percent:>3} %  {eta} left");
            let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::new(STEPS).with_style(style)
        });
        Self(bar)
    }

    fn stage(&self, name: &'static str) -> impl Fn(f64) + Sync {
        let bar = self.0.clone();
        if let Some(bar) = &bar {
            bar.set_message(name);
            bar.reset();
        }
        move |share| {
            if let Some(bar) = &bar {
                bar.set_position((share * STEPS as f64) as u64);
            }
        }
    }

    fn print(&self, text: &str) {
        match &self.0 {
            Some(bar) => bar.suspend(|| println!("{text}")),
            None => println!("{text}"),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

fn save(record: &Record, path: Option<&Path>) -> Result<()> {
    let Some(path) = path else { return Ok(()) };
    let beside = path.with_extension("json.part");
    let text = serde_json::to_string_pretty(record)? + "\n";
    fs::write(&beside, text)
        .and_then(|()| fs::rename(&beside, path))
        .with_context(|| format!("{} cannot be written", path.display()))
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let path = arguments.save.as_deref();
    let seed = arguments.seed;
    let mut record = Record {
        schema: 1,
        provenance: Provenance::ask(),
        startup: Vec::new(),
        cost: Vec::new(),
        accuracy: Vec::new(),
    };
    let progress = Progress::new();
    progress.print(&text::provenance(&record.provenance));
    save(&record, path)?;

    record.startup = startup::measure(arguments.processes, seed, &progress.stage("first reads"))?;
    progress.print(&text::startup(&record.startup));

    let keepers = subjects::Keepers::start()?;
    for (threads, stage) in [(1, "cost"), (2, "cost, two threads")] {
        let costs = cost::measure(threads, arguments.cost_seconds, seed, &progress.stage(stage));
        progress.print(&text::costs(&costs));
        record.cost.push(costs);
        save(&record, path)?;
    }
    drop(keepers);

    let processors = os::processors();
    os::bind(&processors[..1]);
    let mut judges = Judges::begin(seed);
    let mut window = |judges: &mut Judges, stage| {
        let load = Load::start(arguments.load, &processors);
        let window = judges.window(arguments.seconds, arguments.load, &progress.stage(stage));
        drop(load);
        progress.print(&text::accuracy(&window));
        record.accuracy.push(window);
        save(&record, path)
    };
    window(&mut judges, "accuracy")?;
    if let Some(after) = arguments.after {
        judges.wait(after, &progress.stage("waiting"));
        window(&mut judges, "accuracy again")?;
    }
    Ok(())
}
