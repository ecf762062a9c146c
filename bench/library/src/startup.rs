//! What a process pays before it has its first time: before `main`, and in the first read.
//!
//! Each in a fresh process, a program of its own (`bin/first-*`), many times, in turns. That of `std`, which has
//! nothing to prepare, tells what starting a process takes: what others take more before `main` they do there.

use crate::os;
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::process::Command;

const CRATES: [&str; 6] = ["std", "clockwise", "quanta", "minstant", "fastant", "coarsetime"];

/// What a process has told.
#[derive(Debug, Deserialize)]
struct Told {
    main: i64,
    first_ns: u64,
    fast: Option<bool>,
    fast_ns: Option<u64>,
    fast_reads: Option<u64>,
    kernel_answers: Option<u64>,
    kernel_reads: Option<u64>,
    unfit: Option<String>,
}

/// Nanoseconds, over all processes.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Spread {
    /// The least.
    pub min_ns: i64,
    /// The middle.
    pub median_ns: i64,
    /// The most.
    pub max_ns: i64,
}

/// The start of one crate.
#[derive(Clone, Debug, Serialize)]
pub struct Startup {
    /// Whose; `std` for the standard library.
    #[serde(rename = "crate")]
    pub of: &'static str,
    /// From the request to start the process until `main`.
    pub until_main: Spread,
    /// How much more that is than for `std`, by the medians: what it does before `main`.
    pub before_main_ns: i64,
    /// The first read.
    pub first_read: Spread,
    /// Ours alone.
    pub ours: Option<Ours>,
}

/// What else is known of our start.
#[derive(Clone, Debug, Serialize)]
pub struct Ours {
    /// From the beginning of the first read until the counter answers, with reads without a pause.
    pub until_fast: Spread,
    /// How many reads that were, at most.
    pub reads_until_fast_max: u64,
    /// How many of them the kernel answered, at most.
    pub kernel_answers_max: u64,
    /// How often the first read of a clock asks the kernel for the time, at most.
    pub kernel_reads_of_first_max: u64,
    /// Processes in which the counter never answered.
    pub never_fast: usize,
    /// Why not.
    pub unfit: Option<String>,
}

fn spread(values: impl Iterator<Item = i64>) -> Spread {
    let mut values: Vec<i64> = values.collect();
    values.sort_unstable();
    let at = |index: usize| values.get(index).copied().unwrap_or_default();
    let last = values.len().saturating_sub(1);
    Spread { min_ns: at(0), median_ns: at(values.len() / 2), max_ns: at(last) }
}

/// Starts each crate's program so many times.
pub fn measure(processes: usize, seed: u64, watch: &dyn Fn(f64)) -> Result<Vec<Startup>> {
    let folder = std::env::current_exe()?.parent().map(ToOwned::to_owned).unwrap_or_default();
    let mut told: [Vec<(i64, Told)>; CRATES.len()] = Default::default();
    let mut order: Vec<usize> = (0..CRATES.len()).collect();
    let mut random = fastrand::Rng::with_seed(seed);
    for round in 0..processes {
        random.shuffle(&mut order);
        for &at in &order {
            let program = folder.join(format!("first-{}", CRATES[at]));
            let begin = os::monotonic();
            let output = Command::new(&program).output();
            let output = output.with_context(|| {
                format!(
                    "{} cannot be started: build all programs of the package",
                    program.display()
                )
            })?;
            ensure!(output.status.success(), "{}: {}", program.display(), output.status);
            let parsed: Told = serde_json::from_slice(&output.stdout)
                .with_context(|| format!("{} told no JSON", program.display()))?;
            told[at].push((begin, parsed));
        }
        watch((round + 1) as f64 / processes as f64);
    }
    let until_main = |at: usize| spread(told[at].iter().map(|(begin, told)| told.main - begin));
    let plain = until_main(0).median_ns;
    let startup = |(at, of): (usize, &'static str)| {
        let told: Vec<&Told> = told[at].iter().map(|(_, told)| told).collect();
        let until_main = until_main(at);
        Startup {
            of,
            until_main,
            before_main_ns: until_main.median_ns - plain,
            first_read: spread(told.iter().map(|told| told.first_ns as i64)),
            ours: told.iter().any(|told| told.fast.is_some()).then(|| ours(&told)),
        }
    };
    Ok(CRATES.into_iter().enumerate().map(startup).collect())
}

fn ours(told: &[&Told]) -> Ours {
    let most = |field: fn(&Told) -> Option<u64>| told.iter().filter_map(|told| field(told)).max();
    let fast = told.iter().filter(|told| told.fast == Some(true));
    Ours {
        until_fast: spread(fast.clone().filter_map(|told| told.fast_ns).map(|ns| ns as i64)),
        reads_until_fast_max: most(|told| told.fast_reads).unwrap_or_default(),
        kernel_answers_max: most(|told| told.kernel_answers).unwrap_or_default(),
        kernel_reads_of_first_max: most(|told| told.kernel_reads).unwrap_or_default(),
        never_fast: told.len() - fast.count(),
        unfit: told.iter().find_map(|told| told.unfit.clone()),
    }
}
