//! The measurement on the computed machine, whose every answer follows from a seed.

use super::*;
use crate::simulated::Simulated;
use crate::world::{Batch, Singles, Stand};

const SECOND_NS: u64 = 1_000_000_000;

/// What a world was asked for, in order.
type Asked = Vec<(usize, Mode, u64)>;

/// The computed machine, with a record of its batches and one source made dearer.
struct Recorded {
    world: Simulated,
    asked: Asked,
    /// A source and how many times as long its batches take.
    dear: Option<(usize, f64)>,
    /// Time by which the batches made the world's clock late.
    added_ns: f64,
    /// How far the clock moves whenever it is asked.
    moves_ns: f64,
    /// How often the processor is taken away between two questions for it, and has been.
    loses_processor: i64,
    preemptions: i64,
}

impl Recorded {
    fn new(seed: u32) -> Self {
        Self {
            world: Simulated::new(seed),
            asked: Vec::new(),
            dear: None,
            added_ns: 0.0,
            moves_ns: 0.0,
            loses_processor: 0,
            preemptions: 0,
        }
    }

    fn find(&self, name: &str) -> usize {
        self.world.sources().iter().position(|source| source.name == name).expect(name)
    }
}

impl World for Recorded {
    fn stand(&self) -> &Stand {
        self.world.stand()
    }

    fn elapsed_ns(&mut self) -> u64 {
        self.added_ns += self.moves_ns;
        self.world.elapsed_ns() + self.added_ns as u64
    }

    fn batch(&mut self, source: usize, mode: Mode, calls: u64) -> Batch {
        self.asked.push((source, mode, calls));
        let mut batch = self.world.batch(source, mode, calls);
        if let Some((dear, times)) = self.dear
            && dear == source
        {
            let more_ns = batch.cpu_ns.unwrap_or(0.0) * (times - 1.0);
            self.added_ns += more_ns;
            batch.wall_ns += more_ns;
            batch.cpu_ns = batch.cpu_ns.map(|ns| ns + more_ns);
        }
        batch
    }

    fn exactly(&mut self, source: usize, calls: u64) -> (Batch, Option<i64>) {
        self.world.exactly(source, calls)
    }

    fn singles(&mut self, source: usize, count: usize) -> Singles {
        self.world.singles(source, count)
    }

    fn values(&mut self, source: usize, out: &mut [i64]) -> usize {
        self.world.values(source, out)
    }

    fn advertised_ns(&self, source: usize) -> Option<u64> {
        self.world.advertised_ns(source)
    }

    fn tick_period_ns(&self) -> Option<u64> {
        self.world.tick_period_ns()
    }

    fn preemptions(&mut self) -> Option<i64> {
        self.preemptions += self.loses_processor;
        Some(self.preemptions)
    }

    fn cpu_ns(&mut self) -> Option<u64> {
        self.world.cpu_ns()
    }

    fn processors(&self) -> usize {
        self.world.processors()
    }

    fn can_thread(&self) -> Result<(), String> {
        self.world.can_thread()
    }

    fn pairs(&self) -> Result<Vec<(usize, usize)>, String> {
        self.world.pairs()
    }

    fn hand_over(
        &mut self,
        source: usize,
        pair: (usize, usize),
        ns: u64,
    ) -> Result<HandOver, String> {
        self.world.hand_over(source, pair, ns)
    }

    fn together(
        &mut self,
        source: usize,
        threads: usize,
        calls: u64,
        batches: usize,
    ) -> Result<Vec<f64>, String> {
        self.world.together(source, threads, calls, batches)
    }

    fn can_evict(&self) -> Result<(), String> {
        self.world.can_evict()
    }

    fn cold(&mut self, source: usize, cold: Cold) -> Result<f64, String> {
        self.world.cold(source, cold)
    }

    fn frequency(&mut self) -> Option<(f64, f64)> {
        self.world.frequency()
    }
}

/// Interrupts after so many questions.
struct Patience {
    left: std::cell::Cell<u64>,
    stages: Vec<&'static str>,
}

impl Patience {
    fn of(questions: u64) -> Self {
        Self { left: questions.into(), stages: Vec::new() }
    }

    fn endless() -> Self {
        Self::of(u64::MAX)
    }
}

impl Watch for Patience {
    fn stage(&mut self, name: &'static str) {
        self.stages.push(name);
    }

    fn done(&mut self, share: f64) {
        assert!(share >= 0.0 && share.is_finite());
    }

    fn interrupted(&self) -> bool {
        self.left.set(self.left.get().saturating_sub(1));
        self.left.get() == 0
    }
}

fn plan(selected: &[usize], budget_ns: u64) -> Plan {
    let selected = selected.to_vec();
    Plan { budget_ns, seed: 1, selected, references: vec![], threads: vec![], cold: false }
}

/// The clocks that are there, three ways.
fn some(world: &Recorded) -> Vec<usize> {
    ["libc/monotonic", "vdso/monotonic", "syscall/monotonic", "libc/time"]
        .map(|name| world.find(name))
        .to_vec()
}

#[test]
fn one_seed_is_one_run() {
    let run_with = |seed| {
        let mut world = Recorded::new(5);
        let selected = some(&world);
        let plan = Plan { seed, threads: vec![2], cold: true, ..plan(&selected, SECOND_NS) };
        let outcome = run(&mut world, &plan, &mut Patience::endless());
        let medians = format!("{:?}", outcome.findings);
        (world.asked, medians, outcome.rounds, outcome.elapsed_ns)
    };
    assert!(run_with(1) == run_with(1));
    assert_ne!(run_with(1).0, run_with(2).0);
}

#[test]
fn every_source_has_its_turn_in_each_round_and_the_order_changes() {
    let mut world = Recorded::new(5);
    let selected = some(&world);
    let outcome = run(&mut world, &plan(&selected, SECOND_NS), &mut Patience::endless());
    assert!(outcome.rounds > 20 && !outcome.interrupted, "{}", outcome.rounds);
    // libc/time takes no input to wait for.
    let turns = 4 * 3 - 1;
    // Sizing the batches asks for more at first; each later round asks for every turn once.
    let later = (outcome.rounds as usize - 2) * turns;
    let batches = &world.asked[world.asked.len() - later..];
    let mut orders = std::collections::BTreeSet::new();
    for source in &selected {
        for mode in Mode::ALL {
            let samples = &outcome.findings[*source].modes[mode as usize];
            let waits = *source != world.find("libc/time") || mode != Mode::Latency;
            let all = samples.cpu_ns.seen();
            let expected = if waits { outcome.rounds..=outcome.rounds + 1 } else { 0..=0 };
            assert!(expected.contains(&all), "{source} {mode:?}: {all}");
        }
    }
    for window in batches.chunks(turns) {
        orders.insert(window.iter().map(|&(source, mode, _)| (source, mode)).collect::<Vec<_>>());
    }
    assert!(orders.len() > 10, "the order hardly changes");
}

#[test]
fn a_dear_source_sits_out_when_it_has_a_median() {
    let mut world = Recorded::new(5);
    let selected = some(&world);
    let dear = world.find("libc/monotonic");
    world.dear = Some((dear, 1_000_000.0));
    let outcome = run(&mut world, &plan(&selected, 5 * SECOND_NS), &mut Patience::endless());
    // 22 ms a call, and three shares of 250 ms for each mode: 34 calls and the one beyond.
    for samples in &outcome.findings[dear].modes {
        assert_eq!(samples.calls_per_batch, 1);
        assert!((6..=36).contains(&samples.cpu_ns.seen()), "{}", samples.cpu_ns.seen());
        assert!(samples.wall_ns.seen() >= 6);
    }
    assert!(outcome.rounds > 100, "{}", outcome.rounds);
    let cheap = &outcome.findings[world.find("vdso/monotonic")].modes[0];
    assert!(cheap.cpu_ns.seen() >= outcome.rounds);

    // Dearer than all the time there is: it has what a median takes, if the time allows.
    let mut world = Recorded::new(5);
    world.dear = Some((dear, 2_000_000.0));
    let outcome = run(&mut world, &plan(&selected, 2 * SECOND_NS), &mut Patience::endless());
    assert!(outcome.findings[dear].modes.iter().all(|samples| samples.wall_ns.seen() >= 5));
}

#[test]
fn a_source_that_is_not_there_is_never_asked() {
    let mut world = Recorded::new(5);
    let missing = world.find("libc/aux0");
    let selected = [missing, world.find("libc/monotonic")];
    let outcome = run(&mut world, &plan(&selected, SECOND_NS / 10), &mut Patience::endless());
    assert!(world.asked.iter().all(|&(source, ..)| source != missing));
    let findings = &outcome.findings[missing];
    assert!(findings.singles.is_empty() && findings.hand_over.is_none());
    assert_eq!(findings.ledger.readings, 0);
}

#[test]
fn a_reference_is_costed_and_nothing_more() {
    let mut world = Recorded::new(5);
    let (clock, counter) = (world.find("libc/monotonic"), world.find("base/empty"));
    let plan = Plan { references: vec![counter, clock], ..plan(&[clock], SECOND_NS / 10) };
    let outcome = run(&mut world, &plan, &mut Patience::endless());
    let reference = &outcome.findings[counter];
    assert!(reference.modes[0].wall_ns.seen() > 0 && reference.singles.is_empty());
    // Named twice, and measured once a round all the same.
    let samples = &outcome.findings[clock].modes[0];
    assert!(samples.cpu_ns.seen() <= outcome.rounds + 1);
}

#[test]
fn an_interrupted_run_stops_with_what_there_is() {
    let mut world = Recorded::new(5);
    let selected = some(&world);
    let mut patience = Patience::of(100);
    let outcome = run(&mut world, &plan(&selected, 3600 * SECOND_NS), &mut patience);
    assert!(outcome.interrupted);
    assert!(outcome.rounds >= 5, "{}", outcome.rounds);
    assert!(outcome.elapsed_ns < SECOND_NS);
    assert!(outcome.findings[selected[0]].modes[0].wall_ns.seen() > 0);
    assert!(outcome.findings[selected[0]].hand_over.is_none());
}

#[test]
fn a_run_has_all_stages_and_keeps_to_its_time() {
    let mut world = Recorded::new(5);
    let selected = some(&world);
    let mut watch = Patience::endless();
    let plan = Plan { threads: vec![1, 2], cold: true, ..plan(&selected, SECOND_NS) };
    let outcome = run(&mut world, &plan, &mut watch);
    let stages = ["cost", "tail", "resolution", "causality", "threads", "threads", "cold"];
    assert_eq!(watch.stages, stages);
    // The world's own time: no clock is read. What is over is one step at the end of a stage.
    assert!(outcome.elapsed_ns < SECOND_NS + SECOND_NS / 10, "{}", outcome.elapsed_ns);
    for &source in &selected {
        let findings = &outcome.findings[source];
        assert!(!findings.singles.is_empty() && findings.ledger.readings > 0);
        assert!(findings.hand_over.is_some());
        assert_eq!(findings.together.len(), 2);
        assert!(findings.cold.iter().all(|samples| !samples.is_empty()));
    }
}

#[test]
fn a_budget_of_nothing_ends_at_once_without_a_sample() {
    let mut world = Recorded::new(5);
    let selected = some(&world);
    let outcome = run(&mut world, &plan(&selected, 0), &mut Patience::endless());
    assert_eq!((outcome.rounds, outcome.interrupted), (0, false));
    assert!(world.asked.is_empty());
    let nothing = run(&mut world, &plan(&[], SECOND_NS), &mut Patience::endless());
    assert_eq!(nothing.rounds, 0);
}

#[test]
fn a_clock_that_moves_while_it_is_asked_makes_no_share_negative() {
    // Each question takes longer than the shares of the sources are.
    for moves_ns in [1e3, 1e6, 1e8] {
        let mut world = Recorded::new(5);
        world.moves_ns = moves_ns;
        let selected = some(&world);
        let plan = Plan { threads: vec![2], cold: true, ..plan(&selected, SECOND_NS) };
        let outcome = run(&mut world, &plan, &mut Patience::endless());
        // What the simulated world is told to wait shows in its time: never more than was there.
        assert!(world.world.elapsed_ns() <= 2 * SECOND_NS, "{moves_ns}");
        assert!(!outcome.interrupted);
    }
}

#[test]
fn what_a_clock_did_while_its_reader_did_not_run_is_no_step() {
    let mut world = Recorded::new(5);
    world.loses_processor = 1;
    let clock = world.find("libc/monotonic_coarse");
    let outcome = run(&mut world, &plan(&[clock], SECOND_NS), &mut Patience::endless());
    let ledger = &outcome.findings[clock].ledger;
    assert_eq!((ledger.readings, ledger.smallest()), (0, None));
}
