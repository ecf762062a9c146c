//! Each note is raised by its cause, and by nothing else.

use super::*;
use crate::evaluate::evaluate;
use crate::machine::Fact;
use crate::measure::{self, Watch};
use crate::report::Report;
use crate::simulated::Simulated;

struct Blind;

impl Watch for Blind {
    fn stage(&mut self, _: &'static str) {}

    fn done(&mut self, _: f64) {}

    fn interrupted(&self) -> bool {
        false
    }
}

/// A run of the computed machine that gives no reason for a note.
struct Quiet {
    world: Simulated,
    plan: Plan,
    report: Report,
    cpuid_ns: Option<f64>,
}

impl Quiet {
    fn new() -> Self {
        let mut world = Simulated::new(3);
        let named = |name: &str| ["monotonic", "monotonic_raw"].iter().any(|c| name.ends_with(c));
        let sources = world.sources();
        let selected = (0..sources.len())
            .filter(|&at| named(&sources[at].name) || sources[at].name == "counter/lfence;rdtsc");
        let plan = Plan {
            budget_ns: 500_000_000,
            seed: 1,
            selected: selected.collect(),
            references: vec![],
            threads: vec![],
            cold: false,
        };
        let outcome = measure::run(&mut world, &plan, &mut Blind);
        let report = evaluate(&mut world, &plan, &outcome, None);
        Self { world, plan, report, cpuid_ns: None }
    }

    fn row(&mut self, name: &str) -> &mut Row {
        self.report.sources.iter_mut().find(|row| row.name == name).expect(name)
    }

    fn notes(&self) -> Vec<Note> {
        let Report { sources, counter, settings, .. } = &self.report;
        raise(&self.world, &self.plan, sources, counter, settings, self.cpuid_ns)
    }
}

/// The only note that `cause` raises; its text is a sentence with all of `parts`.
#[track_caller]
fn only(name: &str, parts: &[&str], cause: impl FnOnce(&mut Quiet)) -> Note {
    let mut quiet = Quiet::new();
    cause(&mut quiet);
    let mut notes = quiet.notes();
    assert_eq!(notes.iter().map(Note::name).collect::<Vec<_>>(), [name], "{notes:?}");
    let note = notes.remove(0);
    let text = NoteText::from(&note);
    assert_eq!((text.name, text.is_fault), (name, note.is_fault()));
    for part in parts {
        assert!(text.text.contains(part), "no `{part}` in: {}", text.text);
    }
    assert!(!text.text.contains('\n') && !text.text.contains("  "), "{}", text.text);
    note
}

#[test]
fn a_quiet_run_raises_nothing() {
    assert_eq!(Quiet::new().notes(), []);
}

#[test]
fn a_forbidden_counter_is_told_with_its_reason() {
    only("counter_forbidden", &["it is forbidden", "the rest was measured"], |quiet| {
        quiet.world.machine_mut().counter = Fact::missing("here", "it is forbidden");
    });
}

#[test]
fn a_cpuid_that_traps_is_told_and_one_that_does_not_is_not() {
    // Who did not ask for a cpuid row is not told.
    let shown = |quiet: &mut Quiet| quiet.row("libc/monotonic").name = "counter/cpuid".to_owned();
    only("cpuid_traps", &["24000 ns", "ordered counter"], |quiet| {
        quiet.cpuid_ns = Some(24_000.0);
        shown(quiet);
    });
    for (ns, is_shown) in [(60.0, true), (24_000.0, false)] {
        let mut quiet = Quiet::new();
        quiet.cpuid_ns = Some(ns);
        if is_shown {
            shown(&mut quiet);
        }
        assert_eq!(quiet.notes(), []);
    }
}

#[test]
fn reads_that_are_system_calls_are_told_with_the_clocksource() {
    only("reads_are_system_calls", &["160 ns", "clocksource hpet"], |quiet| {
        quiet.world.machine_mut().clocksource = Fact::new("hpet", "here");
        quiet.row("libc/monotonic").throughput.median_ns = Some(160.0);
    });
}

#[test]
fn a_slow_raw_clock_is_told_with_the_way_out() {
    only("raw_is_slow", &["10.0 times", "5.3"], |quiet| {
        quiet.row("libc/monotonic").throughput.median_ns = Some(20.0);
        quiet.row("libc/monotonic_raw").throughput.median_ns = Some(200.0);
    });
}

#[test]
fn rows_that_a_filter_denies_are_counted_with_an_example() {
    let parts = ["2 rows are denied", "is refused with EPERM", "outside the sandbox"];
    only("denied", &parts, |quiet| {
        for name in ["syscall/monotonic", "syscall/monotonic_raw"] {
            let row = quiet.row(name);
            row.status = "unavailable";
            row.reason = Some("is refused with EPERM by the seccomp filter".to_owned());
        }
    });
}

#[test]
fn one_processor_is_told_with_the_ways_to_more() {
    only("one_processor", &["two processors", "taskset", "--cpus"], |quiet| {
        quiet.world.without_pairs(1, "needs two processors, and this process may use one");
    });
}

#[test]
fn threads_that_cannot_be_had_are_told_with_the_reason() {
    only("no_threads", &["not tried: starting a thread fails", "allow threads"], |quiet| {
        quiet.world.without_pairs(2, "starting a thread fails");
    });
}

#[test]
fn a_clocksource_that_cannot_be_read_is_not_called_another_one() {
    only("clocksource_unknown", &["cannot be read (no permission)", "/sys"], |quiet| {
        let machine = quiet.world.machine_mut();
        machine.clocksource = Fact::missing("here", "no permission");
        machine.counter_trusted = false;
    });
}

#[test]
fn many_disturbed_batches_are_told_and_few_are_not() {
    only("disturbed", &["% of the batches", "idle"], |quiet| {
        quiet.row("libc/monotonic").latency.dropped_stolen = 10_000;
    });
}

#[test]
fn a_thread_without_its_processor_is_told() {
    only("starved", &["for 40 % of the time", "idle"], |quiet| {
        quiet.report.settings.cpu_share_percent = Some(40.0);
    });
}

#[test]
fn medians_of_few_batches_are_told() {
    only("few_batches", &["1 rows rest on fewer than 6 batches", "--time"], |quiet| {
        quiet.row("libc/monotonic").throughput.batches = 5;
    });
}

#[test]
fn what_was_not_looked_at_is_told_with_the_flag_that_gives_more_time() {
    only("skipped", &["of 2 rows", "--time"], |quiet| {
        quiet.row("libc/monotonic").quality.reason = Some(OVER.to_owned());
        quiet.row("vdso/monotonic").quality.causality.reason = Some(OVER.to_owned());
    });
}

#[test]
fn rows_without_a_sample_are_told_with_the_flag_that_gives_more_time() {
    only("too_short", &["1 rows have no figure", "--time"], |quiet| {
        quiet.row("libc/monotonic").status = "no sample";
    });
}

#[test]
fn a_run_without_any_figure_is_unanswered() {
    let note = only("nothing_measured", &["not there", "--only"], |quiet| {
        for row in &mut quiet.report.sources {
            row.status = "unavailable";
            row.reason = Some("it is not there".to_owned());
        }
    });
    assert!(note.is_unanswered() && !note.is_fault());
}

#[test]
fn an_interrupted_run_is_unanswered() {
    let note = only("interrupted", &["7 complete rounds"], |quiet| {
        quiet.report.settings.interrupted = true;
        quiet.report.settings.rounds = 7;
    });
    assert!(note.is_unanswered() && !note.is_fault());
}

#[test]
fn a_counter_that_the_kernel_does_not_use_is_told() {
    only("counter_not_trusted", &["the kernel uses hpet"], |quiet| {
        if !quiet.report.sources.iter().any(|row| row.name.starts_with("counter/")) {
            // Another processor's table: a row that reads ticks stands in.
            let step = crate::report::Step { step_ns: 10.0, step_ticks: Some(26), count: 1 };
            quiet.row("libc/monotonic").quality.steps.push(step);
        }
        let machine = quiet.world.machine_mut();
        machine.clocksource = Fact::new("hpet", "here");
        machine.counter_trusted = false;
    });
}

#[test]
fn a_claimed_frequency_that_is_wrong_is_told_with_both() {
    only("claim_refused", &["3000.000 MHz", "2500.000 MHz", "not used"], |quiet| {
        quiet.report.counter.claimed_hz = Some(3_000_000_000);
        quiet.report.counter.claim_agrees = Some(false);
    });
}

#[test]
fn a_clock_that_goes_back_against_its_promise_is_a_fault() {
    let parts = ["libc/monotonic went back 3 times", "by 40 ns", "kernel's log"];
    let note = only("went_back", &parts, |quiet| {
        let quality = &mut quiet.row("libc/monotonic").quality;
        quality.backward = Some(3);
        quality.backward_worst_ns = Some(40.0);
    });
    assert!(note.is_fault() && !note.is_unanswered());
}

#[test]
fn readings_out_of_order_across_threads_are_a_fault_where_order_is_promised() {
    let disorder = |name: &'static str| {
        move |quiet: &mut Quiet| {
            let causality = &mut quiet.row(name).quality.causality;
            causality.violations_per_million = Some(250.0);
            causality.worst_ns = Some(119.6);
        }
    };
    let parts =
        ["after 250 of a million hand-overs", "by up to 120 ns", "must not", "kernel's log"];
    let note = only("not_causal", &parts, disorder("libc/monotonic"));
    assert!(note.is_fault());
    if std::env::consts::ARCH == "x86_64" {
        let note = only("not_causal", &["must not"], disorder("counter/lfence;rdtsc"));
        assert!(note.is_fault());
        // The machine's counter is not one that the kernel trusts: nothing is promised.
        let mut quiet = Quiet::new();
        disorder("counter/lfence;rdtsc")(&mut quiet);
        quiet.world.machine_mut().counter_trusted = false;
        let notes = quiet.notes();
        assert!(notes.iter().any(|note| note.name() == "not_causal"), "{notes:?}");
        assert!(!notes.iter().any(Note::is_fault), "{notes:?}");
    }
}
