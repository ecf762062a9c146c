//! `clockwise bench`: what every clock of this machine costs and is worth.

use crate::args::{Bench, Format};
use crate::cmd::Answer;
use crate::evaluate::evaluate;
use crate::exact::{self, BENCH_TIME, Entry, Exact, TIMETEST};
use crate::measure::{self, Plan, Watch};
use crate::notes::Note;
use crate::os;
use crate::real::Real;
use crate::render::{self, Style};
use crate::report::Report;
use crate::save::Save;
use crate::simulated::Simulated;
use crate::sources::{self, Source};
use crate::world::World;
use anyhow::{Context, Result, bail};
use clockwise_core::kernel::Vdso;
use serde::Serialize;

const DEFAULT_NS: f64 = 4.3e9;
const QUICK_NS: f64 = 0.75e9;

/// Runs it. `watch` is made once the machine is known to bear it: it is told whether the counter may
/// be read, since what draws progress reads a clock.
pub fn run(
    args: &Bench,
    style: Style,
    watch: impl FnOnce(bool) -> Box<dyn Watch>,
) -> Result<Answer> {
    check(args)?;
    if args.list {
        return list(args, style);
    }
    // Made before measuring: minutes of work should not end at a folder that is not there.
    let save = args.save.as_deref().map(|place| Save::promise(place, "--save")).transpose()?;
    if args.forbid_counter {
        os::forbid_counter().context("the kernel does not let the counter be forbidden")?;
    }
    let mut world: Box<dyn World> = match args.simulate {
        Some(seed) => Box::new(Simulated::new(seed)),
        None => Box::new(Real::new(args.cpus.as_ref().map(|cpus| cpus.0.as_slice()))?),
    };
    let counter = world.machine().counter.value.is_some();
    let mut watch = watch(counter);
    if args.format.is_exact() {
        return exact(args, &mut *world, &mut *watch, save);
    }
    check_threads(args, &*world)?;
    let selected = matching(args, world.sources())?;
    let plan = plan(args, &*world, selected);
    let outcome = measure::run(&mut *world, &plan, &mut *watch);
    drop(watch);
    let report = evaluate(&mut *world, &plan, &outcome, args.rate);
    let unsaved = keep(save, &report);
    let text = match args.format {
        Format::Json => render::json(&report),
        Format::Csv => render::csv::csv(&report)?,
        Format::Repnop => render::repnop::repnop(&report)?,
        _ => render::text::text(&report, style),
    };
    let in_text = args.format == Format::Text;
    let answer = Answer { text, warnings: warnings(&report, in_text), status: status(&report) };
    Ok(with_failure(answer, unsaved))
}

/// Writes the file that was asked for; why not, if that fails: what was measured is printed still.
fn keep(save: Option<Save>, result: &impl Serialize) -> Option<String> {
    save.and_then(|save| save.finish(&render::json(result)).err()).map(|error| format!("{error:#}"))
}

/// The answer, and that something else failed.
fn with_failure(mut answer: Answer, failure: Option<String>) -> Answer {
    if let Some(failure) = failure {
        answer.warnings.push(failure);
        answer.status = 1;
    }
    answer
}

/// What the sources are, without measuring.
fn list(args: &Bench, style: Style) -> Result<Answer> {
    let vdso = Vdso::find().map_err(|reason| reason.to_string());
    let sources = sources::table(&vdso);
    let selected = matching(args, &sources)?;
    let listed: Vec<&Source> = selected.iter().map(|&at| &sources[at]).collect();
    let text = match args.format {
        Format::Json => render::json(&render::list::entries(&listed)),
        Format::Text => render::list::text(&listed, style),
        _ => bail!("--list is for people (text) or programs (--format json)"),
    };
    Ok(Answer { text, warnings: Vec::new(), status: 0 })
}

/// Flags that clap cannot weigh against each other.
fn check(args: &Bench) -> Result<()> {
    if args.calls.is_some() && !args.format.is_exact() {
        bail!("-n goes with --format bench_time or --format timetest; --time limits the others");
    }
    let others = [
        ("--only", !args.only.is_empty()),
        ("--threads", !args.threads.is_empty()),
        ("--cold", args.cold),
        ("--quick", args.quick),
        ("--time", args.time.is_some()),
        ("--rate", args.rate.is_some()),
    ];
    if let Some((flag, _)) = others.iter().find(|(_, given)| *given && args.format.is_exact()) {
        bail!("{flag} does not go with this format, which makes exactly N calls; give -n N");
    }
    Ok(())
}

/// More threads than processors would only wait for each other.
fn check_threads(args: &Bench, world: &dyn World) -> Result<()> {
    let processors = world.processors();
    match args.threads.iter().find(|&&threads| usize::from(threads) > processors) {
        Some(threads) => bail!(
            "--threads {threads} is more than the {processors} processors that this process may use; \
             more threads than processors only wait for each other"
        ),
        None => Ok(()),
    }
}

/// The sources that the patterns name.
fn matching(args: &Bench, sources: &[Source]) -> Result<Vec<usize>> {
    let wanted = |name: &str| match args.format {
        Format::Repnop if args.only.is_empty() => render::repnop::is_listed(name),
        _ => args.only.is_empty() || args.only.iter().any(|pattern| pattern.matches(name)),
    };
    for pattern in &args.only {
        if !sources.iter().any(|source| pattern.matches(&source.name)) {
            bail!(
                "no source matches `{pattern}`; names are as in libc/monotonic, vdso/realtime_coarse \
                 or counter/rdtsc, and `*/monotonic` matches one clock in all ways; --list shows them"
            );
        }
    }
    Ok((0..sources.len()).filter(|&at| wanted(&sources[at].name)).collect())
}

fn plan(args: &Bench, world: &dyn World, selected: Vec<usize>) -> Plan {
    let is_reference = |name: &str| name.starts_with("counter/") || matches!(name, "base/empty");
    let references =
        (0..world.sources().len()).filter(|&at| is_reference(&world.sources()[at].name)).collect();
    let threads: Vec<usize> = args.threads.iter().map(|&threads| usize::from(threads)).collect();
    let base_ns = if args.quick { QUICK_NS } else { DEFAULT_NS };
    let extra = measure::extra_weight(threads.len(), args.cold);
    let budget_ns = match args.time {
        Some(time) => time.as_nanos() as u64,
        None => (base_ns * (1.0 + extra)) as u64,
    };
    Plan { budget_ns, seed: args.seed, selected, references, threads, cold: args.cold }
}

fn warnings(report: &Report, in_text: bool) -> Vec<String> {
    // The text has them all below its tables.
    let all = report.raised.iter().filter(|note| !in_text || note.is_unanswered());
    all.map(Note::text).collect()
}

fn status(report: &Report) -> u8 {
    if report.raised.iter().any(Note::is_fault) {
        1
    } else if report.sources.iter().all(|row| row.status != "measured")
        || report.raised.iter().any(Note::is_unanswered)
    {
        2
    } else {
        0
    }
}

fn exact(
    args: &Bench,
    world: &mut dyn World,
    watch: &mut dyn Watch,
    save: Option<Save>,
) -> Result<Answer> {
    let (entries, default): (&[Entry], u64) = match args.format {
        Format::BenchTime => (&BENCH_TIME, 9_079_882),
        _ => (&TIMETEST, 10_000),
    };
    let result: Exact = exact::run(world, entries, args.calls.unwrap_or(default), watch);
    let unsaved = keep(save, &result);
    let text = match args.format {
        Format::BenchTime => render::old::bench_time(&result),
        _ => render::old::timetest(&result),
    };
    let missing = result.rows.iter().filter_map(|row| {
        row.reason.as_ref().map(|reason| format!("{} was not read: {reason}", row.name))
    });
    let mut warnings: Vec<String> = missing.collect();
    if result.interrupted {
        warnings.push("interrupted: the last clock was read fewer times than asked".to_owned());
    }
    let told_nothing = result.rows.iter().all(|row| row.elapsed_ns.is_none());
    let status = if result.interrupted || told_nothing { 2 } else { 0 };
    Ok(with_failure(Answer { text, warnings, status }, unsaved))
}
