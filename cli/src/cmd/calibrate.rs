//! `clockwise calibrate`: how fast the counter runs, how surely that is known, and how steady it is.

use crate::args::{Calibrate, Form};
use crate::calibrate::{self, Plan, text};
use crate::cmd::Answer;
use crate::live::Live;
use crate::machine::{Machine, Root, cpu_list};
use crate::os;
use crate::render::{self, Style};
use anyhow::{Context, Result, bail};
use clockwise_core::counter::Hardware;
use clockwise_core::kernel::{Linux, Vdso, sharpen_timers};
use std::sync::atomic::AtomicBool;

/// Runs it; a bar goes to `live` while it lasts.
pub fn run(
    args: &Calibrate,
    style: Style,
    live: &mut Live<'_>,
    interrupted: &AtomicBool,
) -> Result<Answer> {
    let every = args.step()?;
    let counter = Hardware::find().context("there is nothing to calibrate")?;
    let allowed = os::allowed_cpus().unwrap_or_else(|_| vec![0]);
    if let Some(cpu) = args.cpu {
        if !allowed.contains(&cpu) {
            bail!("processor {cpu} is not allowed here; --cpu takes one of {}", cpu_list(&allowed));
        }
        if let Err(errno) = os::pin(&[cpu]) {
            bail!("the kernel refused --cpu {cpu}: {errno}");
        }
    }
    sharpen_timers();
    let vdso = Vdso::find().map(|_| ()).map_err(|reason| reason.to_string());
    let cpus = args.cpu.map_or(allowed, |cpu| vec![cpu]);
    let root = Root::real();
    let machine = Machine::read(&root, vdso.as_ref().map(|&()| ()).map_err(String::as_str), &cpus);
    let plan = Plan {
        for_ns: i64::try_from(args.time.as_nanos())?,
        every_ns: i64::try_from(every.as_nanos())?,
        cpu: args.cpu,
    };
    let report = calibrate::run(&plan, &counter, &Linux::find(), &root, machine, live, interrupted);
    let text = match args.format {
        Form::Json => render::json(&report),
        Form::Text => text::text(&report, style),
    };
    Ok(Answer { text, warnings: report.warnings(), status: report.status() })
}
