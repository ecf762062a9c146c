//! The report of made-up counts and prices.

use super::Observed;
use super::calls::{Call, Process, Site, Thread};
use super::costs::Cost;
use super::report::Report;
use super::resolve::{Files, Resolver};
use std::collections::BTreeMap;

const MONO: Call = Call::ClockGettime(1);

/// A process that asked so often in a second, and took so much CPU time.
fn observed(calls: u64, cpu_ns: Option<u64>) -> Observed {
    let process = Process {
        pid: 7,
        program: "server".to_owned(),
        modules: Vec::new(),
        threads: vec![Thread { tid: 7, name: None, calls }],
        sites: vec![
            Site { call: MONO, chain: vec![0x10, 0x20], count: calls - calls / 4 },
            Site { call: MONO, chain: vec![0x10, 0x30], count: calls / 4 },
        ],
        lost: 3,
        cpu_ns,
        wall_ns: 1_000_000_000,
    };
    Observed {
        processes: vec![process],
        cpu_ns,
        wall_ns: 1_000_000_000,
        missed: 4,
        counted_by: "image",
        is_reached: true,
        ..Observed::default()
    }
}

fn report(observed: &Observed, prices: [f64; 4]) -> Report {
    let [kernel_ns, ordered_ns, relaxed_ns, coarse_ns] = prices.map(Some);
    let cost = Cost { kernel_ns, ordered_ns, relaxed_ns, coarse_ns };
    let files = Files::default();
    Report::new(
        "server".to_owned(),
        observed,
        &Resolver::new(&files),
        &BTreeMap::from([(MONO, cost)]),
    )
}

#[test]
fn calls_of_one_place_are_one_caller_and_shares_are_of_the_cpu_time() {
    let report = report(&observed(10_000, Some(1_000_000)), [20.0, 10.0, 10.0, 5.0]);
    assert_eq!((report.callers.len(), report.callers[0].figures.calls), (1, 10_000));
    assert_eq!(report.callers[0].place.address, Some(0x10));
    assert_eq!(report.total.calls_per_second, Some(10_000.0));
    assert_eq!(report.total.cost_ns, Some(200_000.0));
    assert_eq!(report.total.cpu_percent, Some(20.0));
    assert_eq!(report.lost, 7);
    // What is saved is missing from the whole too: 0.1 ms of 0.9.
    let relaxed = report.outlook.relaxed.cpu_percent.unwrap();
    assert!((relaxed - 100.0 / 9.0).abs() < 1e-9, "{relaxed}");
    assert_eq!(report.outlook.now.cpu_percent, Some(20.0));
    let observed = Observed { is_reached: false, ..observed(10_000, Some(1_000_000)) };
    let report = self::report(&observed, [20.0, 10.0, 10.0, 5.0]);
    assert_eq!((report.outlook.run.cost_ns, report.outlook.relaxed.cost_ns), (None, None));
    assert!(!report.advice.join("\n").contains("clockwise run"), "{:?}", report.advice);
}

#[test]
fn advice_is_given_where_something_can_be_known() {
    let advice = |calls, cpu_ns, prices| report(&observed(calls, cpu_ns), prices).advice;
    let little = advice(1_000, Some(1_000_000_000), [20.0, 10.0, 5.0, 5.0]);
    assert!(little.len() == 1 && little[0].contains("no other clock would be felt"), "{little:?}");
    let much = advice(10_000, Some(1_000_000), [20.0, 10.0, 5.0, 5.0]).join("\n");
    for part in ["clockwise run would take it from 20.0 %", "from 0x10", "coarse clocks would take"]
    {
        assert!(much.contains(part), "no {part} in {much}");
    }
    let relaxed = advice(10_000, Some(1_000_000), [20.0, 20.0, 10.0, 19.0]).join("\n");
    assert!(relaxed.contains("run --order relaxed would take it from 20.0 %"), "{relaxed}");
    assert!(!relaxed.contains("coarse"), "{relaxed}");
    let nothing = advice(10_000, Some(1_000_000), [20.0, 21.0, 20.0, 20.0]).join("\n");
    assert!(!nothing.contains("clockwise run"), "{nothing}");
    assert!(advice(10_000, None, [20.0, 10.0, 5.0, 5.0]).is_empty(), "no share is known");
    assert!(advice(0, Some(5), [20.0, 10.0, 5.0, 5.0]).is_empty());
}

#[test]
fn advice_is_of_the_calls_that_found_no_room_too() {
    let advice = |lost| {
        let mut observed = observed(1_000, Some(10_000_000));
        observed.missed = lost;
        report(&observed, [20.0, 10.0, 5.0, 5.0]).advice.join("\n")
    };
    assert!(advice(0).contains("takes 0.20 % of its CPU time: no other"), "{}", advice(0));
    assert!(advice(997).contains("takes 0.40 % of its CPU time: no other"), "{}", advice(997));
    let most = advice(99_997);
    assert!(!most.contains("felt"), "{most}");
    assert!(most.contains("the 100000 calls that found no room"), "{most}");
    assert!(most.contains("takes some 20.2 %"), "{most}");
}
