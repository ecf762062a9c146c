//! From what was found to what is reported: summaries, ratios, units, reasons.
//!
//! Pure. Must never give a figure that was not found: it stays empty beside its reason.

use crate::measure::{BATCH_NS, Findings, OVER, Outcome, Plan};
use crate::notes;
use crate::quality::Ledger;
use crate::reads::Mode;
use crate::report::{
    self, Causality, ColdCost, Cost, CounterRate, Crowd, NoteText, Quality, Report, Row, Settings,
    Step, Tail,
};
use crate::samples::Samples;
use crate::sources::{Scope, Source, Unit, Via};
use crate::stats::{self, Summary};
use crate::world::World;

/// Makes the report of a run.
pub fn evaluate(
    world: &mut dyn World,
    plan: &Plan,
    outcome: &Outcome,
    rate_hz: Option<f64>,
) -> Report {
    let frequency = world.frequency();
    let claimed_hz = world.machine().claimed_hz;
    let basis = Basis::of(world, outcome);
    let tick_ns = frequency.map(|(hz, _)| 1e9 / hz);
    let mut sources: Vec<Row> = plan
        .selected
        .iter()
        .map(|&source| row(world, plan, source, outcome, &basis, tick_ns, rate_hz))
        .collect();
    let key = |row: &Row| row.throughput.median_ns.unwrap_or(f64::INFINITY);
    sources.sort_by(|a, b| key(a).total_cmp(&key(b)));
    let counter = CounterRate {
        frequency_hz: frequency.map(|(hz, _)| hz),
        uncertainty_ppm: frequency.map(|(_, ppm)| ppm),
        claimed_hz,
        claim_agrees: claimed_hz
            .zip(frequency)
            .map(|(claimed, (hz, ppm))| (claimed as f64 - hz).abs() / hz * 1e6 <= 1_000.0 + ppm),
    };
    let settings = Settings {
        seed: plan.seed,
        budget_ns: plan.budget_ns,
        elapsed_ns: outcome.elapsed_ns,
        batch_target_ns: BATCH_NS as u64,
        rounds: outcome.rounds,
        cpu_share_percent: outcome.cpu_share.map(|share| 100.0 * share),
        interrupted: outcome.interrupted,
        rate_hz,
    };
    let machine = world.machine().clone();
    let raised = notes::raise(world, plan, &sources, &counter, &settings, basis.cpuid);
    Report {
        schema: "clockwise.bench",
        version: report::VERSION,
        tool_version: env!("CARGO_PKG_VERSION"),
        machine,
        counter,
        settings,
        notes: raised.iter().map(NoteText::from).collect(),
        sources,
        raised,
    }
}

/// Medians of the reads that others are compared with.
struct Basis {
    bare: Option<f64>,
    ordered: Option<f64>,
    protected: Option<f64>,
    cpuid: Option<f64>,
}

impl Basis {
    fn of(world: &dyn World, outcome: &Outcome) -> Self {
        let median = |clocks: &[&str]| {
            let is_it = |s: &Source| s.via == Via::Counter && clocks.contains(&s.clock.as_str());
            let source = world.sources().iter().position(is_it)?;
            let samples = &outcome.findings[source].modes[Mode::Throughput as usize];
            stats::median(samples.wall_ns.kept())
        };
        Self {
            bare: median(&["rdtsc", "cntvct"]),
            ordered: median(&["lfence;rdtsc", "isb;cntvct;isb"]),
            protected: median(&["cpuid;rdtsc"]),
            cpuid: median(&["cpuid"]),
        }
    }
}

fn row(
    world: &dyn World,
    plan: &Plan,
    source: usize,
    outcome: &Outcome,
    basis: &Basis,
    tick_ns: Option<f64>,
    rate_hz: Option<f64>,
) -> Row {
    let (about, findings) = (&world.sources()[source], &outcome.findings[source]);
    let missing = world.available(source).err();
    let waits = about.loops.as_ref().is_ok_and(|loops| loops.waits());
    let cost = |mode: Mode| match missing {
        Some(missing) => Cost { reason: Some(missing.reason.clone()), ..Cost::default() },
        None if mode == Mode::Latency && !waits => Cost {
            reason: Some("takes no input that could be made to wait for the last result".into()),
            ..Cost::default()
        },
        None => cost(&findings.modes[mode as usize], basis),
    };
    let throughput = cost(Mode::Throughput);
    let status = match (missing, throughput.median_ns) {
        (Some(_), _) => "unavailable",
        (None, None) => "no sample",
        (None, Some(_)) => "measured",
    };
    let errno = missing.and_then(|missing| missing.errno.clone());
    let missing = missing.map(|missing| missing.reason.as_str());
    let reason = missing.map(str::to_owned).or_else(|| throughput.reason.clone());
    let asked = |threads: &usize| {
        let found = findings.together.iter().find(|(number, _)| number == threads);
        crowd(*threads, found.map(|(_, result)| result))
    };
    let share = |rate_hz: f64| throughput.median_ns.map(|ns| ns * rate_hz / 1e7);
    Row {
        name: about.name.clone(),
        clock: about.clock.clone(),
        clock_id: about.clock_id.map(|clock| clock.0),
        via: about.via,
        how: about.how.clone(),
        guarantee: about.guarantee,
        caveat: about.caveat,
        status,
        errno: errno.as_ref().map(|(number, _)| *number),
        errno_name: errno.map(|(_, name)| name),
        latency: cost(Mode::Latency),
        serialised: cost(Mode::Serialised),
        share_percent: rate_hz.and_then(share),
        tail: tail(findings, missing),
        quality: quality(about, findings, world.advertised_ns(source), tick_ns, missing),
        threads: plan.threads.iter().filter(|_| missing.is_none()).map(asked).collect(),
        cold: (plan.cold && missing.is_none()).then(|| cold(findings)),
        throughput,
        reason,
    }
}

fn cost(samples: &Samples, basis: &Basis) -> Cost {
    let Samples { preempted, migrated, stolen, .. } = *samples;
    let dropped = Cost {
        calls_per_batch: samples.calls_per_batch,
        cpu_median_ns: stats::median(samples.cpu_ns.kept()),
        dropped_preempted: preempted,
        dropped_migrated: migrated,
        dropped_stolen: stolen,
        ..Cost::default()
    };
    let Some(wall) = samples.wall_ns.summary() else {
        let disturbed = preempted + migrated + stolen;
        let reason = match disturbed {
            0 => OVER.to_owned(),
            _ => {
                format!("no sample: all {disturbed} batches were disturbed; the machine is loaded")
            }
        };
        return Cost { reason: Some(reason), ..dropped };
    };
    let ticks = samples.ticks.summary();
    let tick = |of: fn(&Summary) -> f64| ticks.as_ref().map(of);
    let ratio = |basis: Option<f64>| basis.filter(|&ns| ns > 0.0).map(|ns| wall.median / ns);
    Cost {
        batches: wall.count as u64,
        min_ns: Some(wall.min),
        median_ns: Some(wall.median),
        median_low_ns: wall.median_interval.map(|(low, _)| low),
        median_high_ns: wall.median_interval.map(|(_, high)| high),
        p99_ns: wall.p99,
        max_ns: Some(wall.max),
        mad_ns: Some(wall.mad),
        min_ticks: tick(|ticks| ticks.min),
        median_ticks: tick(|ticks| ticks.median),
        median_low_ticks: ticks.as_ref().and_then(|ticks| Some(ticks.median_interval?.0)),
        median_high_ticks: ticks.as_ref().and_then(|ticks| Some(ticks.median_interval?.1)),
        max_ticks: tick(|ticks| ticks.max),
        mad_ticks: tick(|ticks| ticks.mad),
        p99_ticks: ticks.as_ref().and_then(|ticks| ticks.p99),
        ratio_bare_counter: ratio(basis.bare),
        ratio_ordered_counter: ratio(basis.ordered),
        ratio_cpuid_rdtsc: ratio(basis.protected),
        ..dropped
    }
}

fn tail(findings: &Findings, missing: Option<&str>) -> Tail {
    let own = stats::sorted(&findings.singles);
    let at_tick = findings.at_tick.as_deref();
    let worst = |calls: &[f64]| calls.iter().copied().max_by(f64::total_cmp);
    Tail {
        calls: own.len() as u64,
        median_ns: stats::quantile(&own, 0.5),
        p99_ns: stats::quantile(&own, 0.99).filter(|_| own.len() >= 100),
        p999_ns: stats::quantile(&own, 0.999).filter(|_| own.len() >= 1_000),
        worst_ns: own.last().copied(),
        at_tick_calls: at_tick.map(|calls| calls.len() as u64),
        at_tick_worst_ns: at_tick.and_then(worst),
        preempted_calls: findings.preempted.len() as u64,
        preempted_worst_ns: worst(&findings.preempted),
        reason: own.is_empty().then(|| missing.unwrap_or(OVER).to_owned()),
    }
}

fn quality(
    about: &Source,
    findings: &Findings,
    advertised_ns: Option<u64>,
    tick_ns: Option<f64>,
    missing: Option<&str>,
) -> Quality {
    let unit_ns = match about.unit {
        Unit::Ticks => tick_ns,
        Unit::Nanoseconds => Some(1.0),
        Unit::Nothing => None,
    };
    let Ledger { readings, repeated, backward, backward_worst, .. } = findings.ledger;
    let ledger = &findings.ledger;
    let ns = |value: u64| unit_ns.map(|unit_ns| value as f64 * unit_ns);
    let reason = match missing {
        Some(reason) => Some(reason.to_owned()),
        None if about.unit == Unit::Nothing => Some("tells no time".to_owned()),
        None if readings < 2 => Some(OVER.to_owned()),
        None if ledger.forward() == 0 => Some(format!(
            "no step seen in {readings} readings: it steps less often than this run saw"
        )),
        None => None,
    };
    let some = |condition: bool, value: u64| (condition && readings >= 2).then_some(value);
    Quality {
        advertised_resolution_ns: advertised_ns,
        readings,
        step_min_ns: ledger.smallest().and_then(ns),
        step_median_ns: ledger.median().and_then(ns),
        steps: ledger
            .commonest(8)
            .into_iter()
            .filter_map(|(step, count)| {
                let step_ticks = (about.unit == Unit::Ticks).then_some(step);
                Some(Step { step_ns: ns(step)?, step_ticks, count })
            })
            .collect(),
        is_coarse: (ledger.forward() > 0).then(|| ledger.is_coarse()),
        repeated_percent: (readings >= 2).then(|| 100.0 * repeated as f64 / (readings - 1) as f64),
        backward: some(true, backward),
        backward_worst_ns: some(backward > 0, backward_worst).and_then(ns),
        causality: causality(about, findings, unit_ns, missing),
        reason,
    }
}

fn causality(
    about: &Source,
    findings: &Findings,
    unit_ns: Option<f64>,
    missing: Option<&str>,
) -> Causality {
    let without =
        |reason: &str| Causality { reason: Some(reason.to_owned()), ..Causality::default() };
    match (&findings.hand_over, about.scope, missing) {
        (_, Scope::Thread, _) => {
            without("the time of one thread: nothing to compare across threads")
        }
        (_, Scope::Nothing, _) => without("tells no time"),
        (_, _, Some(reason)) => without(reason),
        (None, ..) => without(OVER),
        (Some(Err(reason)), ..) => without(reason),
        (Some(Ok(seen)), ..) if seen.count < HAND_OVERS_MIN && seen.violations == 0 => {
            // More time would not help a clock that hardly ever steps.
            let coarse = findings.ledger.is_coarse() || about.steps_by_second;
            let help = if coarse { "steps meanwhile: too few to tell" } else { TOO_FEW };
            without(&format!("only {} {help}", seen.count))
        }
        (Some(Ok(seen)), ..) => Causality {
            hand_overs: Some(seen.count),
            violations: Some(seen.violations),
            violations_per_million: Some(1e6 * seen.violations as f64 / seen.count as f64),
            worst_ns: unit_ns.filter(|_| seen.violations > 0).map(|ns| ns * seen.worst as f64),
            processors: findings.pairs.iter().map(|&(a, b)| [a, b]).collect(),
            reason: None,
        },
    }
}

/// What is said of too few hand-overs, after their number.
pub const TOO_FEW: &str = "hand-overs: too few to tell; give more --time";

/// Below so many hand-overs without a violation nothing is said.
const HAND_OVERS_MIN: u64 = 1_000;

fn crowd(threads: usize, result: Option<&Result<Vec<f64>, String>>) -> Crowd {
    let without = |reason: &str| Crowd {
        threads,
        median_ns: None,
        max_ns: None,
        reason: Some(reason.to_owned()),
    };
    match result {
        Some(Ok(medians)) => Crowd {
            threads,
            median_ns: stats::median(medians),
            max_ns: medians.iter().copied().max_by(f64::total_cmp),
            reason: None,
        },
        Some(Err(reason)) => without(reason),
        None => without(OVER),
    }
}

fn cold(findings: &Findings) -> ColdCost {
    let [warm, level2, last] = &findings.cold;
    ColdCost {
        warm_ns: stats::median(warm),
        after_l2_ns: stats::median(level2),
        after_llc_ns: stats::median(last),
        samples: last.len() as u64,
        reason: findings
            .cold_reason
            .clone()
            .or_else(|| (level2.is_empty() || last.is_empty()).then(|| OVER.to_owned())),
    }
}

#[cfg(test)]
mod tests;
