//! The lines of the log. Each has its `kind`, the wall clock's time at which it was written, and when it happened.

use super::Plan;
use super::judge::{Finding, Taken};
use super::summary::Summary;
use super::summary::VERSION;
use super::watch::Event;
use crate::machine::Machine;
use clockwise_core::kernel::{ClockId, System};
use serde_json::{Map, Value, json};
use std::time::{Duration, UNIX_EPOCH};

/// The wall clock, by system call: never by what is verified.
fn wall() -> Option<String> {
    let time = System.clock_gettime(ClockId::REALTIME).ok()?;
    let time = UNIX_EPOCH.checked_add(Duration::from_nanos(time.nanos().try_into().ok()?))?;
    Some(humantime::format_rfc3339_millis(time).to_string())
}

fn with(kind: &str, elapsed_ns: i64, rest: Value) -> Value {
    let mut record = Map::new();
    record.insert("kind".into(), kind.into());
    record.insert("at".into(), json!(wall()));
    record.insert("elapsed_ns".into(), elapsed_ns.into());
    if let Value::Object(rest) = rest {
        record.extend(rest);
    }
    Value::Object(record)
}

/// The first line: what is verified, on what machine.
pub fn start(plan: &Plan, subject: &str, machine: &Machine) -> Value {
    let rest = json!({
        "schema": "clockwise.verify.log",
        "version": VERSION,
        "tool_version": env!("CARGO_PKG_VERSION"),
        "settings": plan.settings(subject),
        "machine": machine,
    });
    with("start", 0, rest)
}

/// A line as it is printed.
pub fn line(elapsed_ns: i64, taken: &Taken, refreshes: u64, residual_ns: i64) -> Value {
    let rest = json!({
        "sys_ns": taken.kernel_ns(),
        "usr_ns": taken.nanos,
        "difference_ns": taken.difference_ns(),
        "bracket_ns": taken.width_ns(),
        "provable_ns": taken.provable_ns(),
        "error_ns": taken.error_ns,
        "refreshes": refreshes,
        "residual_worst_ns": residual_ns,
    });
    with("line", elapsed_ns, rest)
}

/// Something that happened.
pub fn event(elapsed_ns: i64, event: &Event) -> Value {
    let (kind, rest) = match event {
        Event::KernelStepped { by_ns } => ("kernel_step", json!({ "by_ns": by_ns })),
        Event::Stepped { at_ns, by_ns, times } => {
            ("step", json!({ "clock_ns": at_ns, "by_ns": by_ns, "times": times }))
        }
        Event::Slewed { times, residual_ns } => {
            ("slew", json!({ "times": times, "residual_ns": residual_ns }))
        }
        Event::Ahead { times, residual_ns } => {
            ("ahead", json!({ "times": times, "residual_ns": residual_ns }))
        }
        Event::Distrusted { reason } => ("distrust", json!({ "reason": reason.to_string() })),
        Event::Trusted => ("trust", json!({})),
        Event::Refreshed { times, residual_ns } => {
            ("refresh", json!({ "times": times, "residual_ns": residual_ns }))
        }
        Event::KernelDisagrees { before_ns, vdso_ns, after_ns } => {
            let rest = json!({ "before_ns": before_ns, "vdso_ns": vdso_ns, "after_ns": after_ns });
            ("kernel_disagrees", rest)
        }
        Event::Paused { ns } => ("pause", json!({ "ns": ns })),
        Event::Moved { cpu, reason } => ("moved", json!({ "cpu": cpu, "reason": reason })),
        Event::Failed { reason } => ("failed", json!({ "reason": reason })),
        Event::Broken(finding) => ("violation", violation(finding)),
    };
    with(kind, elapsed_ns, rest)
}

fn violation(finding: &Finding) -> Value {
    json!({
        "law": finding.broken.name(),
        "by_ns": finding.by_ns,
        "text": finding.broken.words(finding.by_ns),
        "window": finding.window,
        "window_at": finding.at,
    })
}

/// The last line: the whole summary.
pub fn end(summary: &Summary) -> Value {
    with("end", summary.elapsed_ns as i64, json!({ "summary": summary }))
}
