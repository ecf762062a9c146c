//! `clockwise doctor`: is time here slow, wrong or unsafe, why, and what to do?

use crate::args::{Doctor, Form};
use crate::cmd::Answer;
use crate::doctor::checks::{Check, Need, TABLE};
use crate::doctor::{Facts, Recording, Report, text};
use crate::live::Live;
use crate::render::{self, Style};
use anyhow::{Result, bail};
use serde::Serialize;

/// Runs it; a bar goes to `live` while it lasts.
///
/// # Errors
/// In one sentence, with the remedy.
pub fn run(args: &Doctor, style: Style, live: &mut Live<'_>) -> Result<Answer> {
    let selected = matching(args)?;
    if args.list {
        return Ok(list(args, &selected, style));
    }
    // A recording holds everything, whatever is asked of it later.
    let needs = |check: &Check| check.needs.to_vec();
    let needs: Vec<Need> = if args.record.is_some() {
        TABLE.iter().flat_map(needs).collect()
    } else {
        selected.iter().flat_map(|&at| needs(&TABLE[at])).collect()
    };
    let recording = args.record.as_deref().map(Recording::promise).transpose()?;
    let facts = match &args.root {
        Some(root) => Facts::recorded(root)?,
        None => Facts::live(&needs, live),
    };
    let report = Report::new(&facts, &selected, !args.only.is_empty(), args.root.as_deref());
    let text = match args.format {
        Form::Json => render::json(&report),
        Form::Text => text::text(&report, style),
    };
    let mut answer = Answer { text, warnings: Vec::new(), status: report.status() };
    if let (Some(recording), Some(place)) = (recording, &args.record) {
        match recording.finish(&facts) {
            Ok(files) => answer.warnings.push(format!(
                "{} holds what the checks read, in {files} files; look through them before you hand them on",
                place.display()
            )),
            Err(error) => {
                answer.warnings.push(format!("{error:#}"));
                answer.status = 1;
            }
        }
    }
    Ok(answer)
}

/// The places in the table of the checks that are chosen.
fn matching(args: &Doctor) -> Result<Vec<usize>> {
    for pattern in &args.only {
        if !TABLE.iter().any(|check| pattern.matches(check.name)) {
            bail!("no check is called `{pattern}`; clockwise doctor --list names them");
        }
    }
    let is_chosen = |at: &usize| {
        args.only.is_empty() || args.only.iter().any(|pattern| pattern.matches(TABLE[*at].name))
    };
    Ok((0..TABLE.len()).filter(is_chosen).collect())
}

/// A row of the table.
#[derive(Serialize)]
struct Listed {
    check: &'static str,
    about: &'static str,
    essential: bool,
}

fn list(args: &Doctor, selected: &[usize], style: Style) -> Answer {
    let checks: Vec<&Check> = selected.iter().map(|&at| &TABLE[at]).collect();
    let text = match args.format {
        Form::Text => text::list(&checks, style),
        Form::Json => render::json(
            &checks
                .iter()
                .map(|check| Listed {
                    check: check.name,
                    about: check.about,
                    essential: check.essential,
                })
                .collect::<Vec<_>>(),
        ),
    };
    Answer { text, warnings: Vec::new(), status: 0 }
}
