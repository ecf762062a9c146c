//! A figure that was not found is missing beside its reason, whatever was found.

use super::*;
use crate::exchange::HandOver;
use crate::quality::Ledger;
use crate::simulated::Simulated;

/// The row of one source of the computed machine, of which this was found.
fn row_of(name: &str, findings: Findings) -> Row {
    row_with(name, findings, &[], false)
}

fn row_with(name: &str, findings: Findings, threads: &[usize], cold: bool) -> Row {
    let mut world = Simulated::new(1);
    let source = world.sources().iter().position(|source| source.name == name).expect(name);
    let mut all = vec![Findings::default(); world.sources().len()];
    all[source] = findings;
    let plan = Plan {
        budget_ns: 1,
        seed: 1,
        selected: vec![source],
        references: vec![],
        threads: threads.to_vec(),
        cold,
    };
    let outcome =
        Outcome { findings: all, rounds: 0, cpu_share: None, interrupted: false, elapsed_ns: 0 };
    evaluate(&mut world, &plan, &outcome, Some(1e6)).sources.remove(0)
}

/// Findings with these wall times a call, in the plain mode.
fn walls(wall_ns: &[f64]) -> Findings {
    let mut findings = Findings::default();
    findings.modes[0].wall_ns = wall_ns.iter().copied().collect();
    findings
}

fn ledger(values: &[i64]) -> Ledger {
    let mut ledger = Ledger::default();
    values.iter().for_each(|&value| ledger.add(value));
    ledger
}

#[test]
fn nothing_found_gives_no_figure_and_reasons_in_words() {
    let row = row_with("libc/monotonic", Findings::default(), &[1, 2], true);
    assert_eq!((row.status, row.share_percent, row.errno), ("no sample", None, None));
    let reasons = [
        &row.reason,
        &row.throughput.reason,
        &row.latency.reason,
        &row.serialised.reason,
        &row.tail.reason,
        &row.quality.reason,
        &row.quality.causality.reason,
        &row.threads[0].reason,
        &row.threads[1].reason,
        &row.cold.as_ref().unwrap().reason,
    ];
    for reason in reasons {
        assert_eq!(reason.as_deref(), Some(OVER));
    }
    // Every figure of the row is null: what is left are counts of nothing and the clock's own facts.
    let json = serde_json::to_value(&row).unwrap();
    let tail = json["tail"].as_object().unwrap();
    assert!(tail.iter().all(|(name, value)| name == "reason" || value.is_null() || value == 0));
    let quality = &json["quality"];
    for name in ["step_min_ns", "step_median_ns", "is_coarse", "repeated_percent", "backward"] {
        assert!(quality[name].is_null(), "{name}");
    }
}

#[test]
fn a_source_that_is_not_there_has_its_errno_and_reason_in_every_group() {
    let row = row_with("vdso/aux0", Findings::default(), &[2], true);
    assert_eq!(
        (row.status, row.errno, row.errno_name.as_deref()),
        ("unavailable", Some(22), Some("EINVAL"))
    );
    let reason = row.reason.as_deref().unwrap();
    assert!(reason.contains("6.17"), "{reason}");
    for other in [
        &row.throughput.reason,
        &row.latency.reason,
        &row.tail.reason,
        &row.quality.reason,
        &row.quality.causality.reason,
    ] {
        assert_eq!(other.as_deref(), Some(reason));
    }
    assert!(row.threads.is_empty() && row.cold.is_none());
}

#[test]
fn batches_that_were_all_disturbed_are_told_apart_from_none() {
    let mut findings = Findings::default();
    findings.modes[0].preempted = 2;
    findings.modes[0].stolen = 1;
    findings.modes[0].cpu_ns = [20.0, 22.0, 24.0].into_iter().collect();
    let row = row_of("libc/monotonic", findings);
    assert_eq!(row.status, "no sample");
    let reason = row.throughput.reason.unwrap();
    assert!(reason.starts_with("no sample: all 3 batches were disturbed"), "{reason}");
    // CPU time does not run while another thread does.
    assert_eq!(row.throughput.cpu_median_ns, Some(22.0));
    assert_eq!(row.throughput.median_ns, None);
}

#[test]
fn one_sample_has_a_median_but_no_interval() {
    let row = row_of("libc/monotonic", walls(&[21.0]));
    let cost = &row.throughput;
    assert_eq!((row.status, cost.batches, cost.median_ns), ("measured", 1, Some(21.0)));
    assert_eq!((cost.median_low_ns, cost.median_high_ns, cost.mad_ns), (None, None, Some(0.0)));
    assert_eq!((&row.reason, &cost.reason), (&None, &None));
    assert_eq!((cost.min_ticks, cost.ratio_bare_counter), (None, None));
    // 21 ns a million times a second are 2.1 % of a processor.
    assert!((row.share_percent.unwrap() - 2.1).abs() < 1e-9);
}

#[test]
fn figures_without_a_cost_are_kept_and_have_no_reason() {
    let mut findings = Findings { ledger: ledger(&[5, 5, 9, 13]), ..Findings::default() };
    findings.singles = vec![30.0];
    findings.hand_over = Some(Ok(HandOver { count: 1_000, violations: 0, worst: 0 }));
    let row = row_of("libc/monotonic", findings);
    assert_eq!(row.status, "no sample");
    assert_eq!((row.quality.step_median_ns, &row.quality.reason), (Some(4.0), &None));
    assert_eq!((row.tail.worst_ns, &row.tail.reason), (Some(30.0), &None));
    let causality = &row.quality.causality;
    assert_eq!(
        (causality.violations, causality.worst_ns, &causality.reason),
        (Some(0), None, &None)
    );
}

#[test]
fn a_clock_that_stood_still_has_no_step_and_says_so() {
    let row = row_of("libc/time", Findings { ledger: ledger(&[7; 50]), ..Findings::default() });
    let quality = row.quality;
    assert_eq!((quality.step_min_ns, quality.is_coarse), (None, None));
    assert_eq!((quality.repeated_percent, quality.backward), (Some(100.0), Some(0)));
    assert!(quality.reason.unwrap().starts_with("no step seen in 50 readings"));
}

#[test]
fn calls_at_the_tick_are_told_apart_and_few_calls_have_no_99_9th_percentile() {
    let tail = |count: u32| {
        let singles = (1..=count).map(f64::from).filter(|&ns| ns != 500.0).collect();
        let at_tick = Some(vec![500.0]);
        row_of("libc/monotonic", Findings { singles, at_tick, ..Findings::default() }).tail
    };
    let few = tail(900);
    assert_eq!((few.calls, few.at_tick_calls, few.at_tick_worst_ns), (899, Some(1), Some(500.0)));
    assert_eq!((few.p999_ns, few.worst_ns), (None, Some(900.0)));
    assert_eq!(tail(1_001).p999_ns, Some(1_000.0));
    assert_eq!((tail(900).p99_ns.is_some(), tail(99).p99_ns), (true, None));
}

#[test]
fn what_tells_no_time_says_so_instead_of_steps() {
    let row = row_of("base/empty", walls(&[0.3]));
    assert_eq!(row.quality.reason.as_deref(), Some("tells no time"));
    assert_eq!(row.quality.causality.reason.as_deref(), Some("tells no time"));
}

#[test]
fn the_time_of_one_thread_is_compared_with_nobodys() {
    let row = row_of("libc/thread_cputime", walls(&[245.0]));
    assert!(row.quality.causality.reason.unwrap().contains("one thread"));
}

#[test]
fn violations_are_counted_for_a_million_hand_overs_in_nanoseconds() {
    let hand_over = Some(Ok(HandOver { count: 2_000_000, violations: 3, worst: 250 }));
    let of = |name| {
        let findings = Findings { hand_over: hand_over.clone(), ..Findings::default() };
        let causality = row_of(name, findings).quality.causality;
        (causality.violations_per_million, causality.worst_ns)
    };
    assert_eq!(of("libc/monotonic"), (Some(1.5), Some(250.0)));
    if std::env::consts::ARCH == "x86_64" {
        // The computed counter has 2.5 ticks a nanosecond.
        assert_eq!(of("counter/rdtsc"), (Some(1.5), Some(100.0)));
    }
}

#[test]
fn too_few_hand_overs_say_nothing_unless_they_show_a_violation() {
    let of = |count, violations| {
        let hand_over = Some(Ok(HandOver { count, violations, worst: violations }));
        let findings = Findings { hand_over, ..Findings::default() };
        row_of("libc/monotonic", findings).quality.causality
    };
    let few = of(999, 0);
    assert_eq!((few.violations, few.hand_overs), (None, None));
    assert!(few.reason.unwrap().starts_with("only 999 hand-overs"));
    assert_eq!(of(999, 1).violations, Some(1));
    assert_eq!(of(1_000, 0).violations, Some(0));
}

#[test]
fn threads_and_evictions_that_failed_have_their_own_reason() {
    let findings = Findings {
        together: vec![(1, Ok(vec![20.0, 30.0, 22.0])), (2, Err("no thread".to_owned()))],
        cold: [vec![20.0], vec![], vec![]],
        cold_reason: Some("no memory".to_owned()),
        ..Findings::default()
    };
    let row = row_with("libc/monotonic", findings, &[1, 2, 4], true);
    let crowd = |i: usize| (row.threads[i].median_ns, row.threads[i].reason.as_deref());
    assert_eq!(crowd(0), (Some(22.0), None));
    assert_eq!(crowd(1), (None, Some("no thread")));
    assert_eq!(crowd(2), (None, Some(OVER)));
    assert_eq!(row.threads[0].max_ns, Some(30.0));
    let cold = row.cold.unwrap();
    assert_eq!((cold.warm_ns, cold.after_llc_ns), (Some(20.0), None));
    assert_eq!((cold.samples, cold.reason.as_deref()), (0, Some("no memory")));
}
