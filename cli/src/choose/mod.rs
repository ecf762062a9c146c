//! Which clock: the cheapest that meets every need, what else there is, and what each lacks.
//!
//! Pure: figures come in, a choice comes out, as data. Must never pass over a clock without saying what it fails.

pub mod ask;
pub mod calls;
pub mod clocks;
pub mod explain;
pub mod figures;
mod lines;
pub mod needs;
pub mod rows;
pub mod text;

use calls::{By, Call, Language, calls};
use clocks::Grain;
use figures::{Figure, Figures, Origin};
use needs::{Fault, Known, Need, Needs, faults, resolution};
use serde::Serialize;

/// Version of the schema.
pub const VERSION: u32 = 1;

/// Costs that are no farther apart count as equal: the next run may turn them round.
pub const EQUAL: f64 = 1.05;

/// A way to read a clock, and what became of it.
#[derive(Clone, Debug, Serialize)]
pub struct Candidate {
    /// Call, and who answers.
    pub name: String,
    /// The clock below, as the system names it.
    pub clock: &'static str,
    /// Who answers.
    pub by: By,
    /// What has to be at the top of the file.
    pub import: Option<&'static str>,
    /// The line.
    pub code: Option<String>,
    /// What else the program has to have: the thread that keeps the time.
    pub setup: Option<String>,
    /// What to start the program by.
    pub launcher: Option<&'static str>,
    /// What a call costs.
    pub cost_ns: Option<f64>,
    /// Why that is not known.
    pub cost_reason: Option<&'static str>,
    /// In what steps its clock goes, as far as can be told.
    pub resolution_ns: Option<f64>,
    /// Whether that is the clock's own step: where it is not, it steps at least as finely.
    pub is_coarse: bool,
    /// How that is known.
    pub resolution_known: Known,
    /// Everything that it fails.
    pub fails: Vec<Fault>,
    #[serde(skip)]
    call: Call,
    /// Its place in the order of preference.
    #[serde(skip)]
    rank: usize,
}

impl Candidate {
    fn new(rank: usize, call: Call, needs: &Needs, figure: &Figure) -> Self {
        let fails = faults(&call, needs, figure);
        let text = |text: &'static str| Some(text).filter(|text| !text.is_empty());
        let period_us = needs.period_ns() / 1_000;
        let is_kept = call.clock.grain.value == Grain::Kept;
        let cost_reason = match (figure.cost_ns, fails.first()) {
            (Some(_), _) => None,
            (None, Some(_)) => Some("not measured: it fails a need all the same"),
            (None, None) => Some("not measured"),
        };
        let (resolution_ns, resolution_known) = resolution(&call, needs, figure);
        Self {
            name: call.label(),
            clock: call.clock.name,
            by: call.by,
            import: text(call.import),
            code: text(call.code).map(str::to_owned),
            setup: is_kept.then(|| lines::TICKER.replace("PERIOD", &period_us.to_string())),
            launcher: call.by.launcher(),
            cost_ns: figure.cost_ns,
            cost_reason,
            // What is only documented to be that of a counter is none.
            resolution_ns: (resolution_ns > 1.0).then_some(resolution_ns),
            is_coarse: figure.is_coarse || !matches!(call.clock.grain.value, Grain::Counter),
            resolution_known,
            fails,
            call,
            rank,
        }
    }

    /// Whether it fails nothing.
    pub fn meets(&self) -> bool {
        self.fails.is_empty()
    }

    fn cost(&self) -> f64 {
        self.cost_ns.unwrap_or(f64::INFINITY)
    }
}

/// What would do if less were asked.
#[derive(Clone, Debug, Serialize)]
pub struct Less {
    /// What would be asked otherwise.
    pub change: String,
    /// What would be chosen.
    pub name: String,
    /// What it costs.
    pub cost_ns: Option<f64>,
}

/// The answer.
#[derive(Clone, Debug, Serialize)]
pub struct Choice {
    /// `clockwise.choose`.
    pub schema: &'static str,
    /// [`VERSION`].
    pub version: u32,
    /// What is needed.
    pub needs: Needs,
    /// The command that asks the same.
    pub command: String,
    /// Whose figures these are.
    pub origin: Origin,
    /// The name of the candidate that is cheapest, or as cheap and preferred.
    pub choice: Option<String>,
    /// The best of the system's own.
    pub system: Option<String>,
    /// The best of ours.
    pub ours: Option<String>,
    /// What would do if less were asked; only where nothing meets all.
    pub less: Vec<Less>,
    /// All, the choice first, then the others that meet the needs by cost, then those that fail.
    pub candidates: Vec<Candidate>,
}

impl Choice {
    /// Chooses.
    pub fn of(needs: &Needs, figures: &Figures) -> Self {
        let candidates = ranked(needs, figures);
        let best = |is_it: fn(&Candidate) -> bool| {
            let met: Vec<&Candidate> =
                candidates.iter().filter(|c| c.meets() && is_it(c)).collect();
            best(&met).map(|best| best.name.clone())
        };
        let choice = best(|_| true);
        let less = if choice.is_none() { less(needs, figures, &candidates) } else { Vec::new() };
        Self {
            schema: "clockwise.choose",
            version: VERSION,
            needs: *needs,
            command: format!("clockwise choose {}", needs.flags().join(" ")),
            origin: figures.origin.clone(),
            system: best(|candidate| !candidate.by.is_ours()),
            ours: best(|candidate| candidate.by.is_ours()),
            choice,
            less,
            candidates,
        }
    }

    /// A candidate by its name.
    pub fn candidate(&self, name: &str) -> Option<&Candidate> {
        self.candidates.iter().find(|candidate| candidate.name == name)
    }

    /// 0 there is one, 1 there is none.
    pub fn status(&self) -> u8 {
        u8::from(self.choice.is_none())
    }
}

/// The preferred of those that cost no more than the cheapest, as near as that can be told.
fn best<'a>(met: &[&'a Candidate]) -> Option<&'a Candidate> {
    let least = met.iter().map(|candidate| candidate.cost()).min_by(f64::total_cmp)?;
    let equal = met.iter().filter(|candidate| candidate.cost() <= least * EQUAL);
    equal.min_by_key(|candidate| candidate.rank).copied()
}

/// All candidates in the order of [`Choice::candidates`]. What costs the same stays in the order of preference.
fn ranked(needs: &Needs, figures: &Figures) -> Vec<Candidate> {
    let all = calls(needs.language);
    let candidate = |(rank, call)| Candidate::new(rank, call, needs, &figures.of(&call));
    let all = all.into_iter().enumerate().map(candidate);
    let (mut met, failed): (Vec<_>, Vec<_>) = all.partition(Candidate::meets);
    let first = best(&met.iter().collect::<Vec<_>>()).map(|best| best.name.clone());
    met.sort_by(|a, b| {
        let is_first = |candidate: &Candidate| Some(&candidate.name) == first.as_ref();
        is_first(b).cmp(&is_first(a)).then(a.cost().total_cmp(&b.cost()))
    });
    met.extend(failed);
    met
}

/// What would do if one thing less were asked.
fn less(needs: &Needs, figures: &Figures, candidates: &[Candidate]) -> Vec<Less> {
    let mut less: Vec<(String, Needs)> = needs.relaxed();
    let only_coarse = candidates.iter().filter(|candidate| {
        !candidate.meets() && candidate.fails.iter().all(|fault| fault.need == Need::Precision)
    });
    let finest_ns =
        only_coarse.filter_map(|candidate| candidate.resolution_ns).min_by(f64::total_cmp);
    if let Some(finest_ns) = finest_ns {
        let precision_ns = finest_ns.ceil() as u64;
        let change = format!("--precision {}", needs::exactly(precision_ns));
        less.push((format!("with {change}"), Needs { precision_ns, ..*needs }));
    }
    let mut chosen: Vec<Less> = Vec::new();
    for (change, needs) in less {
        let first = ranked(&needs, figures).into_iter().next().filter(Candidate::meets);
        // What could have been measured now and was not may fail as the others do.
        let first = first.filter(|first| first.cost_ns.is_some() || figures.origin.file.is_some());
        // The same clock for giving up more is not worth a line.
        if let Some(first) = first.filter(|first| chosen.iter().all(|c| c.name != first.name)) {
            chosen.push(Less { change, name: first.name, cost_ns: first.cost_ns });
        }
    }
    chosen
}

/// The rows whose figures matter: of what could meet the needs, for all that is documented; where nothing could, of what
/// could meet a little less.
pub fn rows_needed(needs: &Needs) -> Vec<&'static str> {
    let mut rows = of_what_could(needs);
    if rows.is_empty() {
        let mut less: Vec<Needs> = needs.relaxed().into_iter().map(|(_, needs)| needs).collect();
        less.push(Needs { precision_ns: PRECISION_NS_MAX, ..*needs });
        rows = less.iter().flat_map(of_what_could).collect();
    }
    rows.sort_unstable();
    rows.dedup();
    rows
}

/// The coarsest that can be asked.
pub const PRECISION_NS_MAX: u64 = 3_600_000_000_000;

fn of_what_could(needs: &Needs) -> Vec<&'static str> {
    let could = |call: &Call| {
        // As fine as the documentation lets it be.
        let step_ns = Some(call.clock.grain.value.finest_ns() as f64);
        faults(call, needs, &Figure { step_ns, ..Figure::default() }).is_empty()
    };
    calls(needs.language)
        .iter()
        .filter(|call| could(call))
        .flat_map(|call| call.rows)
        .copied()
        .collect()
}

/// Whether a thread has to keep a time while it is measured.
pub fn is_kept(rows: &[&str]) -> bool {
    rows.iter().any(|row| row.starts_with("clockwise/recent"))
}

/// A way to read in any language, for the explanation.
pub fn everything() -> impl Iterator<Item = (Language, Call)> {
    Language::ALL
        .into_iter()
        .flat_map(|language| calls(language).into_iter().map(move |call| (language, call)))
}

#[cfg(test)]
mod oracle;
#[cfg(test)]
mod tests;
