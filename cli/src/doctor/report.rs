//! What the checks have found, as data, and the exit status that follows.

use super::checks::TABLE;
use super::facts::Facts;
use super::finding::{Finding, Verdict};
use serde::Serialize;
use std::path::Path;

/// Version of the schema.
pub const VERSION: u32 = 1;

/// The whole.
#[derive(Debug, Serialize)]
pub struct Report {
    /// `clockwise.doctor`.
    pub schema: &'static str,
    /// [`VERSION`].
    pub version: u32,
    /// Version of the tool.
    pub tool_version: &'static str,
    /// The recording, if it is one.
    pub root: Option<String>,
    /// In a line.
    pub machine: String,
    /// Of the whole, as the exit status.
    pub verdict: Verdict,
    /// In a sentence.
    pub summary: String,
    /// Findings of each kind.
    pub counts: Counts,
    /// In the table's order.
    pub checks: Vec<Finding>,
}

/// Findings of each kind.
#[derive(Debug, Serialize)]
pub struct Counts {
    /// Something is wrong.
    pub bad: usize,
    /// To be known.
    pub warning: usize,
    /// Not found out.
    pub cannot_tell: usize,
    /// As it should be.
    pub good: usize,
}

impl Report {
    /// Runs the checks at those places of the table. `chosen`: they were asked for by name, so that each matters.
    pub fn new(facts: &Facts, selected: &[usize], chosen: bool, root: Option<&Path>) -> Self {
        let checks: Vec<Finding> = selected.iter().map(|&at| TABLE[at].run(facts)).collect();
        let count = |verdict| checks.iter().filter(|finding| finding.verdict == verdict).count();
        let counts = Counts {
            bad: count(Verdict::Bad),
            warning: count(Verdict::Warning),
            cannot_tell: count(Verdict::Unknown),
            good: count(Verdict::Good),
        };
        let untold = |finding: &&Finding| {
            finding.verdict == Verdict::Unknown && (chosen || finding.essential)
        };
        let verdict = if counts.bad > 0 {
            Verdict::Bad
        } else if checks.iter().any(|finding| untold(&finding)) {
            Verdict::Unknown
        } else if counts.warning > 0 {
            Verdict::Warning
        } else {
            Verdict::Good
        };
        let names = |is_of: &dyn Fn(&&Finding) -> bool| {
            checks.iter().filter(is_of).map(|finding| finding.check).collect::<Vec<_>>().join(", ")
        };
        let summary = match verdict {
            Verdict::Bad => {
                format!(
                    "something is wrong with time here: {}",
                    names(&|one| one.verdict == Verdict::Bad)
                )
            }
            Verdict::Unknown => {
                format!("not everything that matters can be told: {}", names(&untold))
            }
            Verdict::Warning => {
                format!(
                    "nothing is bad; warned of: {}",
                    names(&|one| one.verdict == Verdict::Warning)
                )
            }
            Verdict::Good => "all is well".to_owned(),
        };
        Self {
            schema: "clockwise.doctor",
            version: VERSION,
            tool_version: env!("CARGO_PKG_VERSION"),
            root: root.map(|root| root.display().to_string()),
            machine: machine(facts),
            verdict,
            summary,
            counts,
            checks,
        }
    }

    /// The exit status.
    pub fn status(&self) -> u8 {
        match self.verdict {
            Verdict::Good | Verdict::Warning => 0,
            Verdict::Bad => 1,
            Verdict::Unknown => 2,
        }
    }
}

/// The machine in a line.
fn machine(facts: &Facts) -> String {
    let release = facts.tree.word("/proc/sys/kernel/osrelease");
    let processors = match facts.cpu.processors {
        0 => None,
        1 => Some("1 processor".to_owned()),
        count => Some(format!("{count} processors")),
    };
    let parts = [
        release.map(|release| format!("Linux {release}")),
        facts.cpu.model.clone(),
        processors,
        facts.current().map(|name| format!("clocksource {name}")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() {
        "a machine that tells nothing of itself".to_owned()
    } else {
        parts.join(", ").replace(char::is_control, " ")
    }
}
