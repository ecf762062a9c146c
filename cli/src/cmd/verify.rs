//! `clockwise verify`: our clock against the kernel's, reading by reading.

use crate::args::{Form, Verify};
use crate::cmd::Answer;
use crate::live::Live;
use crate::machine::{Machine, Root, cpu_list};
use crate::os;
use crate::render::{self, Style};
use crate::verify::subject::{self, InProcess, Reference, Subject};
use crate::verify::{self, Log, Plan, Summary, preload, text};
use anyhow::{Result, bail};
use clockwise::Clock;
use clockwise_core::kernel::Vdso;
use std::sync::atomic::AtomicBool;

/// More readers tell little more, and wake the machine up.
const READERS_MAX: usize = 16;

/// Runs it; lines go to `live` while it lasts.
pub fn run(
    args: &Verify,
    style: Style,
    live: &mut Live<'_>,
    interrupted: &AtomicBool,
) -> Result<Answer> {
    let (cpus, every) = (cpus(args)?, args.step()?);
    if args.preload && !args.preloaded {
        return Err(preload::restart());
    }
    let plan = Plan {
        clock: args.clock.id(),
        for_ns: i64::try_from(args.time.as_nanos())?,
        every_ns: i64::try_from(every.as_nanos())?,
        max_error_ns: args.max_error.map(|limit| limit.as_nanos() as u64),
        cpus: cpus.iter().copied().map(Some).collect(),
        refreshes: args.refreshes,
        nanoseconds: args.ns,
        lines: args.format == Form::Text,
        width: style.width,
    };
    let summary = if args.preload {
        let image = preload::Preloaded::find(plan.clock)?;
        verify(args, &plan, &cpus, &image, live, interrupted)?
    } else {
        verify(args, &plan, &cpus, &InProcess(Clock::new(plan.clock)), live, interrupted)?
    };
    let text = match args.format {
        Form::Json => render::json(&summary),
        Form::Text => text::summary(&summary, style),
    };
    Ok(Answer { text, warnings: warnings(&summary, args.format), status: summary.status() })
}

fn verify(
    args: &Verify,
    plan: &Plan,
    cpus: &[usize],
    subject: &impl Subject,
    live: &mut Live<'_>,
    interrupted: &AtomicBool,
) -> Result<Summary> {
    let reference = subject::Machine::find();
    let vdso = Vdso::find().map(|_| ()).map_err(|reason| reason.to_string());
    let machine =
        Machine::read(&Root::real(), vdso.as_ref().map(|&()| ()).map_err(String::as_str), cpus);
    let first = || verify::start(plan, subject.name(), &machine);
    let log = args.log.as_ref().map(|path| Log::begin(path, &first())).transpose()?;
    if plan.lines {
        let clock = plan.clock.name().unwrap_or("?");
        live.print(&text::heading(&format!("CLOCK_{clock}"), subject.name(), reference.has_vdso()));
    }
    verify::run(plan, subject, &reference, machine, live, log, interrupted)
}

/// The processors to read on.
fn cpus(args: &Verify) -> Result<Vec<usize>> {
    let allowed = os::allowed_cpus().unwrap_or_else(|_| vec![0]);
    let Some(wanted) = &args.cpus else {
        // As far apart as they can be.
        let count = allowed.len().min(READERS_MAX);
        return Ok((0..count).map(|index| allowed[index * allowed.len() / count]).collect());
    };
    if let Some(missing) = wanted.0.iter().find(|cpu| !allowed.contains(cpu)) {
        bail!(
            "processor {missing} is not allowed here; --cpus takes some of {}",
            cpu_list(&allowed)
        );
    }
    if wanted.0.len() > READERS_MAX {
        bail!("--cpus names more than {READERS_MAX} processors; give fewer");
    }
    Ok(wanted.0.clone())
}

/// What a reader of the JSON does not see; the text says it itself.
fn warnings(summary: &Summary, format: Form) -> Vec<String> {
    let mut warnings = Vec::new();
    if summary.interrupted {
        warnings.push("interrupted: the verification was ended early".to_owned());
    }
    if format == Form::Json && summary.status() != 0 {
        warnings.push(summary.verdict_text.clone());
    }
    warnings
}
