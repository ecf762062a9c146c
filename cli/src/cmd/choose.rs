//! `clockwise choose`: which clock for this need, on this machine.

use crate::args::{Choose, Form};
use crate::choose::ask::Asking;
use crate::choose::explain::{self, Explained};
use crate::choose::figures::Figures;
use crate::choose::needs::Needs;
use crate::choose::{self, Choice, rows::rows, text};
use crate::cmd::Answer;
use crate::evaluate::evaluate;
use crate::measure::{self, Plan, Watch};
use crate::os;
use crate::real::Real;
use crate::render::{self, Style};
use crate::simulated::Simulated;
use crate::world::World;
use anyhow::{Result, bail};
use clockwise::Ticker;
use std::time::Duration;

/// Time for measuring; setting out takes some tenths of a second more.
const BUDGET_NS: u64 = 600_000_000;

/// What is needed: as flags say, or as somebody answers. `None` where only an explanation is wanted.
///
/// # Errors
/// If neither says what for.
pub fn needs(args: &Choose, asking: Option<Asking<'_>>) -> Result<Option<Needs>> {
    match (args.needs(), asking) {
        _ if args.explain => Ok(None),
        (Some(needs), _) => Ok(Some(needs)),
        (None, Some(mut asking)) => asking.needs(args).map(Some),
        (None, None) => bail!(
            "say what the time is for, as in `clockwise choose --for elapsed --precision 10ms`; \
             questions are put on a terminal only"
        ),
    }
}

/// Runs it. `needs`: `None` for the explanation.
///
/// # Errors
/// If nothing can be measured here, or the file of `--from` is none.
pub fn run(
    args: &Choose,
    needs: Option<&Needs>,
    style: Style,
    watch: &mut dyn Watch,
) -> Result<Answer> {
    let answered = |text, warnings, status| Answer { text, warnings, status };
    let Some(needs) = needs else {
        return Ok(answered(
            match args.format {
                Form::Json => render::json(&Explained::all()),
                Form::Text => explain::text(style),
            },
            Vec::new(),
            0,
        ));
    };
    let figures = match &args.from {
        Some(file) => Figures::from_file(file)?,
        None => measured(args, needs, watch)?,
    };
    let choice = Choice::of(needs, &figures);
    let text = match args.format {
        Form::Json => render::json(&choice),
        Form::Text => text::text(&choice, style),
    };
    // Under `clockwise run` the system's own prices are the image's.
    let is_measured = args.from.is_none() && args.simulate.is_none();
    let warning = (is_measured && os::image().is_some()).then(|| {
        "an image answers here in libc's place (LD_PRELOAD): what is called the system's costs what \
         that does; run `clockwise choose` alone"
            .to_owned()
    });
    Ok(answered(text, warning.into_iter().collect(), choice.status()))
}

/// Measures the rows that matter, and no others.
fn measured(args: &Choose, needs: &Needs, watch: &mut dyn Watch) -> Result<Figures> {
    let mut world: Box<dyn World> = match args.simulate {
        Some(seed) => Box::new(Simulated::with(seed, rows())),
        None => Box::new(Real::with(None, rows())?),
    };
    let mut wanted = choose::rows_needed(needs);
    // Only now: the world tries its rows in a child of a process without threads.
    let is_kept = args.simulate.is_none() && choose::is_kept(&wanted);
    let ticker = is_kept.then(|| Ticker::start(Duration::from_nanos(needs.period_ns())).ok());
    if let Some(None) = ticker {
        // Without a thread the time is not kept, and what would be measured is another read.
        wanted.retain(|&row| !choose::is_kept(&[row]));
    }
    let is_wanted = |&at: &usize| wanted.contains(&world.sources()[at].name.as_str());
    let selected = (0..world.sources().len()).filter(is_wanted).collect();
    let plan = Plan {
        budget_ns: BUDGET_NS,
        seed: 1,
        selected,
        references: Vec::new(),
        threads: Vec::new(),
        cold: false,
    };
    let outcome = measure::run(&mut *world, &plan, watch);
    drop(ticker);
    if outcome.interrupted {
        bail!("interrupted before it was measured; --from takes the figures of `clockwise bench`");
    }
    Figures::measured(&evaluate(&mut *world, &plan, &outcome, None))
}
