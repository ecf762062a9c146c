//! `clockwise count-calls`: what was counted, as JSON and no more.

use crate::args::Count;
use crate::cmd::Answer;
use crate::launch::{End, Launch};
use crate::os::launch::Started;
use crate::profile::calls::{Call, Process};
use crate::profile::traced::{self, Counted};
use crate::program;
use anyhow::{Result, anyhow};
use serde_json::{Value, json};

/// Runs it; how the program ended, if one was started.
///
/// # Errors
/// In one sentence, with the remedy.
pub fn run(args: &Count) -> Result<(Answer, Option<End>)> {
    let started = Started::look();
    let limit_ns = args.limit.map(|limit| u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX));
    let counted = match args.pid {
        Some(pid) => {
            let mut began = args.began.as_deref();
            traced::attach(pid, limit_ns, &mut |_| {
                if let Some(file) = began.take() {
                    // Whoever waits for it would see that it is missing.
                    let _ = std::fs::write(file, "");
                }
            })?
        }
        None => {
            let name = args.command.first().ok_or_else(|| anyhow!("give a program to run"))?;
            let path = program::find(name, std::env::var_os("PATH").as_deref())
                .map_err(|missing| anyhow!(missing.sentence(name)))?;
            let launch =
                Launch::new(&path, &args.command, started).map_err(|errno| anyhow!("{errno}"))?;
            traced::launch(&launch, limit_ns)?
        }
    };
    let text = format!("{:#}\n", value(&counted));
    let text = match &args.save {
        Some(path) => {
            std::fs::write(path, text)?;
            String::new()
        }
        None => text,
    };
    Ok((Answer { text, warnings: Vec::new(), status: 0 }, counted.end))
}

fn value(counted: &Counted) -> Value {
    let processes: Vec<_> = counted.processes.iter().map(process).collect();
    json!({ "processes": processes, "remarks": counted.remarks, "is_stopped": counted.is_stopped })
}

fn process(process: &Process) -> Value {
    let threads: Vec<_> = process
        .threads
        .iter()
        .map(|thread| json!({ "tid": thread.tid, "name": thread.name, "calls": thread.calls }))
        .collect();
    let modules: Vec<_> = process.modules.iter().map(|module| {
        json!({ "start": module.start, "end": module.end, "offset": module.offset, "path": module.path })
    }).collect();
    let sites: Vec<_> = process
        .sites
        .iter()
        .map(|site| {
            let (call, clock) = match site.call {
                Call::ClockGettime(clock) => ("clock_gettime", Some(clock)),
                Call::Gettimeofday => ("gettimeofday", None),
                Call::Time => ("time", None),
                Call::TimespecGet(base) => ("timespec_get", Some(base)),
                Call::ClockGetres(clock) => ("clock_getres", Some(clock)),
            };
            json!({ "call": call, "clock": clock, "chain": site.chain, "count": site.count })
        })
        .collect();
    json!({
        "pid": process.pid,
        "program": process.program,
        "modules": modules,
        "threads": threads,
        "sites": sites,
        "lost": process.lost,
        "cpu_ns": process.cpu_ns,
        "wall_ns": process.wall_ns,
    })
}
