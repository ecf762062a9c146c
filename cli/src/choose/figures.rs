//! What reads cost and how finely their clocks step: measured here, or as a file of `clockwise bench` has it.
//!
//! Must never make up a figure: what is not there is absent with its reason, and a file that says nonsense is refused.

use super::calls::Call;
use crate::machine::words;
use crate::report;
use anyhow::{Context, Result, anyhow, bail};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// What is known of a way to read a clock.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figure {
    /// What a call costs.
    pub cost_ns: Option<f64>,
    /// In what steps the clock went.
    pub step_ns: Option<f64>,
    /// Whether that is the clock's own step, and not the pace of reading.
    pub is_coarse: bool,
    /// In what steps it goes by the kernel's word (clock_getres), where that is more than a nanosecond.
    pub advertised_ns: Option<f64>,
    /// Why the clock cannot be read.
    pub missing: Option<String>,
    /// After how many of a million hand-overs a thread read an older time than it had been given, if after any.
    pub acausal_per_million: Option<f64>,
}

impl Figure {
    /// Of two reads, one after the other.
    fn and(self, other: Self) -> Self {
        let greater = |a: Option<f64>, b: Option<f64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.max(b)),
            (a, b) => a.or(b),
        };
        Self {
            cost_ns: self.cost_ns.zip(other.cost_ns).map(|(a, b)| a + b),
            step_ns: greater(self.step_ns, other.step_ns),
            is_coarse: self.is_coarse || other.is_coarse,
            advertised_ns: greater(self.advertised_ns, other.advertised_ns),
            missing: self.missing.or(other.missing),
            acausal_per_million: greater(self.acausal_per_million, other.acausal_per_million),
        }
    }
}

/// Where figures come from.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Origin {
    /// The file, unless they were measured now.
    pub file: Option<String>,
    /// The processor.
    pub cpu: Option<String>,
    /// The kernel.
    pub kernel: Option<String>,
    /// What the kernel keeps time by.
    pub clocksource: Option<String>,
}

/// All of them, by the name of the row.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// Whose they are.
    pub origin: Origin,
    rows: BTreeMap<String, Figure>,
}

/// A file longer than this is none of ours.
const BYTES_MAX: u64 = 64 << 20;

impl Figures {
    /// What a call costs and shows; nothing where its rows are not there.
    pub fn of(&self, call: &Call) -> Figure {
        let rows = call.rows.iter().map(|&row| self.rows.get(row).cloned().unwrap_or_default());
        rows.reduce(Figure::and).unwrap_or_default()
    }

    /// What was measured now.
    ///
    /// # Errors
    /// None that a measurement gives reason for.
    pub fn measured(report: &report::Report) -> Result<Self> {
        Self::read(&serde_json::to_value(report)?, None).map_err(|wrong| anyhow!("{wrong}"))
    }

    /// What a file has.
    ///
    /// # Errors
    /// In a sentence: it cannot be read, is damaged, is of something else, or of another version.
    pub fn from_file(path: &Path) -> Result<Self> {
        let remedy = "make one with `clockwise bench --save FILE`";
        let name = path.display();
        let mut text = Vec::new();
        let file =
            File::open(path).and_then(|file| file.take(BYTES_MAX + 1).read_to_end(&mut text));
        if let Err(error) = file {
            bail!("--from {name} cannot be read: {}; {remedy}", words(&error));
        }
        if text.len() as u64 > BYTES_MAX {
            bail!("--from {name} is too long for a result of `clockwise bench`; {remedy}");
        }
        let value: Value = serde_json::from_slice(&text)
            .map_err(|error| anyhow!("{error}"))
            .with_context(|| format!("--from {name} is not JSON, or damaged; {remedy}"))?;
        Self::read(&value, Some(name.to_string()))
            .map_err(|wrong| anyhow!("--from {name} {wrong}; {remedy}"))
    }

    pub(super) fn read(value: &Value, file: Option<String>) -> Result<Self, String> {
        let schema = value.get("schema").and_then(Value::as_str);
        match schema {
            Some("clockwise.bench") => {}
            Some(other) => {
                return Err(format!("is `{other}` and not a result of `clockwise bench`"));
            }
            None => return Err("is not a result of `clockwise bench`".to_owned()),
        }
        let version = value.get("version").and_then(Value::as_u64);
        if version != Some(u64::from(report::VERSION)) {
            let version =
                version.map_or("no version".to_owned(), |version| format!("version {version}"));
            let ours = report::VERSION;
            return Err(format!("has {version} of its schema, and this tool reads {ours}"));
        }
        let rows = value.get("sources").and_then(Value::as_array);
        let rows = rows.ok_or("is damaged: it has no list of sources")?;
        let rows = rows.iter().map(row).collect::<Result<_, _>>()?;
        let fact = |name: &str| {
            Some(value.pointer(&format!("/machine/{name}/value"))?.as_str()?.to_owned())
        };
        let origin = Origin {
            file,
            cpu: fact("cpu"),
            kernel: fact("kernel"),
            clocksource: fact("clocksource"),
        };
        Ok(Self { origin, rows })
    }
}

/// A row of a result.
fn row(value: &Value) -> Result<(String, Figure), String> {
    let name = value.get("name").and_then(Value::as_str);
    let name = name.ok_or("is damaged: a source has no name")?;
    let figure = |path: &str| match value.pointer(path) {
        None | Some(Value::Null) => Ok(None),
        Some(figure) => match figure.as_f64() {
            Some(figure) if figure.is_finite() && figure >= 0.0 => Ok(Some(figure)),
            _ => Err(format!("is damaged: {path} of {name} is {figure}")),
        },
    };
    let words = |path: &str| value.pointer(path).and_then(Value::as_str);
    let is_missing = words("/status") == Some("unavailable");
    let reason = || words("/reason").unwrap_or("it cannot be read").to_owned();
    let is_coarse = value.pointer("/quality/is_coarse").and_then(Value::as_bool) == Some(true);
    // A tick that comes late makes a step longer, and is not the clock's own.
    let step = if is_coarse { "/quality/step_min_ns" } else { "/quality/step_median_ns" };
    Ok((
        name.to_owned(),
        Figure {
            cost_ns: figure("/throughput/median_ns")?,
            // Two readings that are equal tell nothing of the step.
            step_ns: figure(step)?.filter(|&step_ns| step_ns > 0.0),
            is_coarse,
            advertised_ns: figure("/quality/advertised_resolution_ns")?.filter(|&ns| ns > 1.0),
            missing: is_missing.then(reason),
            acausal_per_million: figure("/quality/causality/violations_per_million")?
                .filter(|&per_million| per_million > 0.0),
        },
    ))
}
