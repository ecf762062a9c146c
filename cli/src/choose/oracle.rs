//! The rules a second time, without the table: every combination of needs is decided by an independent statement of what the
//! clocks are, and the choice must be the same; and what a choice says is checked for truth.

use super::calls::{By, Call, Language, calls};
use super::clocks::Shared;
use super::figures::Figures;
use super::needs::{Need, Needs, Purpose};
use super::{Choice, EQUAL};
use serde_json::json;
use std::collections::BTreeSet;

/// What is known of a clock by its name, as a person would say it: not read from the table.
struct Known {
    wall: bool,
    elapsed: bool,
    thread_cpu: bool,
    process_cpu: bool,
    ntp: Option<bool>,
    suspend: bool,
    ordered: bool,
    machine: bool,
    processes: bool,
    timers: bool,
    kept: bool,
    step_ns: f64,
}

const NS: f64 = 1.0;
const TICK_NS: f64 = 4e6;

/// From the words in its name alone.
fn known(call: &Call) -> Known {
    let name = call.clock.name;
    let has = |word: &str| name.contains(word);
    let cpu = has("CPUTIME") || name == "clock()";
    let counter = has("rdtsc");
    let aux = has("AUX");
    let tai = has("TAI");
    let wall = has("REALTIME") || has("gettimeofday") || name == "time()";
    let elapsed = has("MONOTONIC") || has("BOOTTIME");
    let kept = call.name.starts_with("recent");
    let coarse = has("COARSE") || name == "time()";
    let relaxed = call.by == By::RunRelaxed || call.name.contains("relaxed");
    // Values that their own documentation gives no meaning outside the process.
    let hidden = [
        "std Instant",
        "time.Now (Sub)",
        "System.nanoTime",
        "process.hrtime.bigint",
        "performance.now",
    ]
    .contains(&call.name);
    let cut_ms = ["Date.now", "System.currentTimeMillis"].contains(&call.name);
    let cut_us = has("gettimeofday")
        || name == "clock()"
        || ["process.cpuUsage", "java.time.Instant.now"].contains(&call.name);
    Known {
        wall,
        elapsed,
        thread_cpu: has("THREAD_CPUTIME"),
        process_cpu: has("PROCESS_CPUTIME") || name == "clock()",
        ntp: if aux { None } else { Some(!(has("RAW") || cpu || counter)) },
        suspend: wall || tai || has("BOOTTIME"),
        ordered: !(cpu || relaxed || name == "rdtsc or cntvct_el0"),
        machine: wall || tai || aux || counter,
        processes: !cpu && !hidden,
        timers: (elapsed || wall || tai || has("PROCESS_CPUTIME"))
            && !(has("RAW") || coarse || kept),
        kept,
        step_ns: match () {
            () if name == "time()" => 1e9,
            () if cut_ms => 1e6,
            () if cut_us => 1e3,
            () if coarse => TICK_NS,
            () => NS,
        },
    }
}

/// Whether a call does, decided by the sentences of the manual pages and nothing else.
fn does(known: &Known, needs: &Needs, seen_ns: f64) -> bool {
    let kind = match needs.purpose {
        Purpose::Wall | Purpose::Log => known.wall,
        Purpose::Elapsed => known.elapsed,
        Purpose::Deadline => known.elapsed && known.timers,
        Purpose::CpuThread => known.thread_cpu,
        Purpose::CpuProcess => known.process_cpu,
    };
    let step_ns = if known.kept {
        // Half of what is asked, and never below half a millisecond; twice that as it comes late.
        (needs.precision_ns as f64).clamp(1e6, 2e9)
    } else {
        known.step_ns.max(seen_ns)
    };
    kind && step_ns <= needs.precision_ns as f64 * 1.001
        && (!needs.counts_suspend || known.suspend)
        && (!needs.causal || known.ordered)
        && needs.follows_ntp.is_none_or(|yes| known.ntp == Some(yes))
        && match needs.across_processes {
            None => true,
            Some(Shared::Machine) => known.machine && known.processes,
            Some(_) => known.processes,
        }
        && (needs.allow_thread || !known.kept)
}

/// Every combination; precisions on both sides of every step there is.
pub fn all_needs() -> Vec<Needs> {
    const PRECISIONS_NS: [u64; 6] = [1, 25, 1_000, 1_000_000, 10_000_000, 60_000_000_000];
    let mut all = Vec::new();
    for language in Language::ALL {
        for purpose in Purpose::ALL {
            for precision_ns in PRECISIONS_NS {
                for bits in 0..8u8 {
                    for follows_ntp in [None, Some(true), Some(false)] {
                        for across_processes in
                            [None, Some(Shared::Namespace), Some(Shared::Machine)]
                        {
                            all.push(Needs {
                                purpose,
                                precision_ns,
                                counts_suspend: bits & 1 != 0,
                                causal: bits & 2 != 0,
                                follows_ntp,
                                across_processes,
                                allow_thread: bits & 4 != 0,
                                language,
                            });
                        }
                    }
                }
            }
        }
    }
    all
}

/// What a made-up machine shows of a row: cost and step; `None` where it lacks the clock.
pub type Shows = fn(&str) -> Option<(f64, f64)>;

/// A usual machine, without an alarm clock.
pub fn usual(row: &str) -> Option<(f64, f64)> {
    Some(match row {
        _ if row.ends_with("_alarm") => return None,
        _ if row.contains("coarse") => (5.0, TICK_NS),
        "libc/time" => (2.7, 1e9),
        _ if row.contains("recent") => (0.3, 1.0),
        _ if row.contains("cputime") => (245.0, 246.0),
        "libc/clock" | "libc/getrusage" => (250.0, 1_000.0),
        "libc/gettimeofday" => (22.0, 1_000.0),
        _ if row.starts_with("syscall") => (160.0, 161.0),
        _ if row.ends_with("relaxed") => (11.0, 12.0),
        _ if row.starts_with("run/") || row.starts_with("clockwise/") => (20.0, 21.0),
        _ => (22.0, 23.0),
    })
}

/// One whose alarm clocks are there, and whose vDSO enters the kernel; BOOTTIME is dearer.
fn slow(row: &str) -> Option<(f64, f64)> {
    Some(match row {
        _ if row.ends_with("_alarm") => (170.0, 171.0),
        "libc/boottime" => (400.0, 401.0),
        _ if row.starts_with("libc/") || row.starts_with("vdso/") || row.starts_with("std/") => {
            let (_, step_ns) = usual(row)?;
            (165.0, f64::max(step_ns, 166.0))
        }
        _ => return usual(row),
    })
}

pub fn figures(shows: Shows) -> Figures {
    let mut rows = BTreeSet::new();
    for language in Language::ALL {
        rows.extend(calls(language).iter().flat_map(|call| call.rows.iter().copied()));
    }
    let source = |row: &&str| match shows(row) {
        Some((cost_ns, step_ns)) => json!({
            "name": row, "status": "measured", "throughput": {"median_ns": cost_ns},
            "quality": {
                "step_min_ns": step_ns, "step_median_ns": step_ns, "is_coarse": step_ns >= 1_000.0,
            },
        }),
        None => json!({"name": row, "status": "unavailable", "reason": "no such clock"}),
    };
    let sources: Vec<_> = rows.iter().map(source).collect();
    let result = json!({"schema": "clockwise.bench", "version": 1, "sources": sources});
    Figures::read(&result, None).unwrap()
}

#[test]
fn every_combination_of_needs_is_decided_as_the_manual_pages_would() {
    let all = all_needs();
    assert_eq!(all.len(), 6 * 6 * 6 * 8 * 3 * 3);
    for shows in [usual as Shows, slow as Shows] {
        let figures = figures(shows);
        let mut chosen = BTreeSet::new();
        // What can be read there: the call, what is known of it, the sum of its costs, the coarsest of its steps.
        let readable = |language| -> Vec<(Call, Known, f64, f64)> {
            let coded = calls(language).into_iter().filter(|call| !call.code.is_empty());
            let read = coded.filter_map(|call| {
                let rows: Option<Vec<_>> = call.rows.iter().map(|row| shows(row)).collect();
                let (costs, steps): (Vec<f64>, Vec<f64>) = rows?.into_iter().unzip();
                let step_ns = steps.into_iter().fold(0.0, f64::max);
                Some((call, known(&call), costs.iter().sum(), step_ns))
            });
            read.collect()
        };
        let readable = Language::ALL.map(readable);
        for needs in &all {
            let choice = Choice::of(needs, &figures);
            let language = Language::ALL.iter().position(|&language| language == needs.language);
            let met: Vec<_> = readable[language.unwrap()]
                .iter()
                .filter(|(_, known, _, step_ns)| does(known, needs, *step_ns))
                .collect();
            // The same calls, no more and no fewer.
            let names: BTreeSet<String> = met.iter().map(|(call, ..)| call.label()).collect();
            let said = choice.candidates.iter().filter(|c| c.meets()).map(|c| c.name.clone());
            assert_eq!(said.collect::<BTreeSet<_>>(), names, "{needs:?}");
            // The first of those that are as cheap as the cheapest: of all, of the system's, of ours.
            let best = |is_it: fn(By) -> bool| {
                let them = || met.iter().filter(|(call, ..)| is_it(call.by));
                let least = them().map(|(_, _, ns, _)| *ns).fold(f64::INFINITY, f64::min);
                them().find(|(_, _, ns, _)| *ns <= least * EQUAL).map(|(call, ..)| call.label())
            };
            assert_eq!(choice.choice, best(|_| true), "{needs:?}");
            assert_eq!(choice.system, best(|by| by == By::System), "{needs:?}");
            assert_eq!(choice.ours, best(|by| by != By::System), "{needs:?}");
            let best = choice.choice.as_ref();
            chosen.extend(best.cloned());
        }
        // The needs tell clocks apart: many are chosen by some of them.
        assert!(chosen.len() >= 30, "{chosen:?}");
    }
}

#[test]
fn nothing_that_would_do_is_cheaper_and_all_that_would_not_is_named_with_a_need_that_was_asked() {
    let figures = figures(usual);
    for needs in all_needs() {
        let choice = Choice::of(&needs, &figures);
        let told: Vec<_> = choice.candidates.iter().map(|candidate| &candidate.name).collect();
        let calls = calls(needs.language);
        assert_eq!(told.len(), calls.len());
        assert_eq!(told.iter().collect::<BTreeSet<_>>().len(), calls.len(), "names are one's own");
        let best = choice.choice.as_ref().map(|name| choice.candidate(name).unwrap());
        assert_eq!(best.map(|best| &best.name), told.first().copied().filter(|_| best.is_some()));
        for candidate in &choice.candidates {
            match best {
                Some(best) if candidate.meets() => {
                    let (ns, least) = (candidate.cost_ns.unwrap(), best.cost_ns.unwrap());
                    assert!(ns * EQUAL >= least, "{needs:?}: {} at {ns} ns", candidate.name);
                    assert!(candidate.code.is_some(), "{needs:?}: {}", candidate.name);
                }
                _ => assert!(!candidate.fails.is_empty(), "{needs:?}: {}", candidate.name),
            }
            for fault in &candidate.fails {
                let asked = match fault.need {
                    Need::Here | Need::Language | Need::For | Need::Precision => true,
                    Need::CountsSuspend => needs.counts_suspend,
                    Need::Causal => needs.causal,
                    Need::FollowsNtp => needs.follows_ntp.is_some(),
                    Need::AcrossProcesses => needs.across_processes.is_some(),
                    Need::AllowThread => !needs.allow_thread,
                };
                assert!(asked && !fault.reason.is_empty(), "{needs:?}: {fault:?}");
            }
        }
        // What is proposed where nothing does, does.
        for less in &choice.less {
            assert!(best.is_none() && choice.candidate(&less.name).is_some(), "{less:?}");
        }
    }
}

#[test]
fn each_fault_goes_away_with_the_need_that_it_names() {
    let figures = figures(usual);
    for needs in all_needs().into_iter().step_by(11) {
        let choice = Choice::of(&needs, &figures);
        let without = |need: Need| match need {
            Need::CountsSuspend => Some(Needs { counts_suspend: false, ..needs }),
            Need::Causal => Some(Needs { causal: false, ..needs }),
            Need::FollowsNtp => Some(Needs { follows_ntp: None, ..needs }),
            Need::AcrossProcesses => Some(Needs { across_processes: None, ..needs }),
            Need::AllowThread => Some(Needs { allow_thread: true, ..needs }),
            Need::Precision => Some(Needs { precision_ns: super::PRECISION_NS_MAX, ..needs }),
            Need::Here | Need::Language | Need::For => None,
        };
        let failed: BTreeSet<Need> =
            choice.candidates.iter().flat_map(|c| c.fails.iter().map(|fault| fault.need)).collect();
        for need in failed {
            let Some(less) = without(need) else { continue };
            let again = Choice::of(&less, &figures);
            for candidate in &choice.candidates {
                let fails = &again.candidate(&candidate.name).unwrap().fails;
                let others = candidate.fails.iter().filter(|fault| fault.need != need);
                assert!(fails.iter().eq(others), "{needs:?} without {need:?}: {candidate:?}");
            }
        }
    }
}
