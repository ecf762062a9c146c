//! Subjects that misbehave in each way, on a computed machine: each is caught, and a healthy one never.

use super::judge::{Broken, Evidence, Finding, Judge, Rules, Taken};
use super::subject::{Reference, Subject, Told};
use super::summary::{Kernels, Summary, Verdict};
use super::{Done, Ends, Plan, run, sum, text};
use crate::live::Live;
use crate::machine::Machine;
use crate::render::Style;
use crate::simulated::Simulated;
use crate::world::World;
use clockwise::{Clock, ClockId, Errno, Status};
use clockwise_core::trust::Unfit;
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::thread::{self, ThreadId};

const SECOND: i64 = 1_000_000_000;
const EPOCH: i64 = 1_796_000_000 * SECOND;
const READ_NS: i64 = 20;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Nothing,
    /// One reading of each thread is smaller than the one before it, by so much.
    Back(i64),
    /// Gains a millionth, and says that it might be off by anything.
    Drift,
    /// Off by so much, beyond its bound.
    Off(i64),
    /// Off by so much, within its bound.
    Bounded(i64),
    /// One thread is 2 ms behind the others.
    Lagging,
    /// The kernel's wall clock is set; followed after so long.
    Step(i64),
    /// Readings are off for some milliseconds; then the subject says that the counter was stepped.
    CounterStep,
    /// The vDSO and the system call differ.
    TwoKernels,
    /// The counter is not used: the kernel has rejected it.
    Kernel,
    /// The counter is not used yet.
    Starting,
    /// The counter is used and then distrusted, for the time being.
    Unsteady,
    /// The counter is used and then rejected.
    RejectedLater,
    /// The clock is refused after a while.
    Refused,
}

/// A computed machine: time passes with each read, and by a millisecond with each pause of a reader.
struct Fake {
    fault: Fault,
    time: AtomicI64,
    steps: AtomicU64,
    /// By thread: how many readings, and the last.
    threads: Mutex<HashMap<ThreadId, (usize, u64, i64)>>,
    desk: ThreadId,
}

/// When the kernel's clock is set, and by how much.
const STEP_AT: i64 = SECOND / 2;
const STEP_NS: i64 = -2 * SECOND;

impl Fake {
    fn new(fault: Fault) -> Self {
        Self {
            fault,
            time: AtomicI64::new(SECOND / 4),
            steps: AtomicU64::new(0),
            threads: Mutex::default(),
            desk: thread::current().id(),
        }
    }

    fn pass(&self, ns: i64) -> i64 {
        self.time.fetch_add(ns, Ordering::SeqCst) + ns
    }

    /// Where the wall clock is, after the step if the kernel or the subject knows of it.
    fn wall(&self, now: i64, late_ns: Option<i64>) -> i64 {
        let is_set = late_ns.is_some_and(|late_ns| now >= STEP_AT + late_ns);
        EPOCH + now + if is_set { STEP_NS } else { 0 }
    }

    fn read(&self) -> Result<i64, Errno> {
        let now = self.pass(READ_NS);
        let mut threads = self.threads.lock().unwrap();
        let count = threads.len();
        let (index, readings, last) =
            threads.entry(thread::current().id()).or_insert((count, 0, i64::MIN));
        *readings += 1;
        let late = if let Fault::Step(late_ns) = self.fault { Some(late_ns) } else { None };
        let true_ns = self.wall(now, late);
        let is_off = (STEP_AT..STEP_AT + 3_000_000).contains(&now);
        let nanos = match self.fault {
            Fault::Back(ns) if *readings == 500 => *last - ns,
            Fault::Drift => true_ns + (now - SECOND / 4) / 1_000_000,
            Fault::Off(ns) | Fault::Bounded(ns) => true_ns + ns,
            Fault::Lagging if *index == 1 => true_ns - 2_000_000,
            Fault::CounterStep if is_off => true_ns + 10_000_000,
            Fault::Refused if now > STEP_AT => return Err(Errno::PERM),
            _ => true_ns,
        };
        let follows = match self.fault {
            Fault::Step(late_ns) => now >= STEP_AT + late_ns,
            Fault::CounterStep => now >= STEP_AT + 3_000_000,
            _ => false,
        };
        self.steps.store(u64::from(follows), Ordering::SeqCst);
        *last = nanos;
        Ok(nanos)
    }
}

impl Subject for Fake {
    fn name(&self) -> &'static str {
        "a computed clock"
    }

    fn now(&self) -> Result<i64, Errno> {
        self.read()
    }

    fn told(&self) -> Result<Told, Errno> {
        let error_ns = match self.fault {
            Fault::Drift | Fault::Lagging => 5_000_000,
            Fault::Back(_) | Fault::Bounded(_) => 1_000,
            _ => 50,
        };
        let from_counter = !matches!(self.fault, Fault::Kernel | Fault::Starting);
        Ok(Told { nanos: self.read()?, error_ns, from_counter })
    }

    fn status(&self) -> Option<Status> {
        // Only the library can make one.
        let mut status = Clock::boottime().status()?;
        (status.steps, status.period_ns) = (self.steps.load(Ordering::SeqCst), 4_000_000);
        let is_late = self.time.load(Ordering::SeqCst) > STEP_AT;
        (status.unfit, status.refreshes) = match self.fault {
            Fault::Kernel => (Some(Unfit::Rejected), 0),
            Fault::Unsteady => (is_late.then_some(Unfit::Unsteady), 0),
            Fault::RejectedLater => (is_late.then_some(Unfit::Rejected), u64::from(is_late)),
            _ => (None, 0),
        };
        Some(status)
    }
}

impl Reference for Fake {
    fn now(&self, clock: ClockId) -> Result<i64, Errno> {
        let now = self.pass(READ_NS);
        let late = matches!(self.fault, Fault::Step(_)).then_some(0);
        Ok(if clock == ClockId::REALTIME { self.wall(now, late) } else { EPOCH + now })
    }

    fn by_system_call(&self, clock: ClockId) -> Result<i64, Errno> {
        let ns = Reference::now(self, clock)?;
        Ok(if self.fault == Fault::TwoKernels { ns + 1_000 } else { ns })
    }

    fn has_vdso(&self) -> bool {
        true
    }

    fn pause(&self, ns: u64) {
        // The readers drive the time, or the desk alone would let it pass.
        let is_desk = thread::current().id() == self.desk;
        self.pass(if is_desk { READ_NS } else { ns as i64 });
        thread::yield_now();
    }
}

fn machine() -> Machine {
    Simulated::new(7).machine().clone()
}

/// Verifies the fake for so long.
fn verify(fault: Fault, clock: ClockId, seconds: i64, limit: Option<u64>) -> (Summary, String) {
    let plan = Plan {
        clock,
        for_ns: seconds * SECOND,
        every_ns: SECOND / 10,
        max_error_ns: limit,
        cpus: vec![None, None],
        refreshes: true,
        nanoseconds: true,
        lines: true,
        width: 100,
    };
    let fake = Fake::new(fault);
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut live = Live::new(&mut out, &mut err, false);
    let never = AtomicBool::new(false);
    let summary = run(&plan, &fake, &fake, machine(), &mut live, None, &never).unwrap();
    (summary, String::from_utf8(out).unwrap())
}

#[track_caller]
fn breaks(fault: Fault, clock: ClockId, seconds: i64, limit: Option<u64>, law: &str) {
    let (summary, lines) = verify(fault, clock, seconds, limit);
    assert_eq!(summary.status(), 1, "{fault:?}: {summary:#?}");
    let row = summary.laws.iter().find(|row| row.name == law).unwrap();
    assert!(row.violations > 0 && row.worst_ns.is_some(), "{fault:?}: {summary:#?}");
    assert!(lines.contains("\n! ") && lines.contains("\n> "), "the window is printed: {lines}");
    assert!(summary.verdict_text.starts_with("Broken: "), "{}", summary.verdict_text);
}

const BOTH: [ClockId; 2] = [ClockId::MONOTONIC, ClockId::REALTIME];

#[test]
fn a_healthy_clock_holds() {
    for clock in [BOTH[0], BOTH[1], ClockId::BOOTTIME, ClockId::TAI, ClockId::MONOTONIC_RAW] {
        let (summary, lines) = verify(Fault::Nothing, clock, 2, Some(1));
        assert_eq!((summary.status(), summary.verdict), (0, Verdict::Held), "{summary:#?}");
        assert!(lines.contains("sys: ") && !lines.contains('!'), "{lines}");
        assert_eq!(summary.handed_over > 0, clock != BOTH[1] && clock != ClockId::TAI);
        assert_eq!(summary.kernel.steps + summary.kernel.disagreed, 0);
        assert!(summary.drift.ppm.unwrap().abs() < 0.05, "{:?}", summary.drift);
    }
}

#[test]
fn a_nanosecond_backwards_is_caught() {
    for clock in BOTH {
        breaks(Fault::Back(1), clock, 2, None, "monotonic");
    }
}

#[test]
fn a_drift_of_a_millionth_is_caught_whatever_bound_is_claimed() {
    for clock in BOTH {
        breaks(Fault::Drift, clock, 20, None, "steady");
        let (summary, _) = verify(Fault::Drift, clock, 20, None);
        let (ppm, error) = (summary.drift.ppm.unwrap(), summary.drift.uncertainty_ppm.unwrap());
        assert!((ppm - 1.0).abs() <= 0.001 + error, "{ppm} {error}");
    }
}

#[test]
fn a_reading_beyond_its_bound_is_caught_either_way() {
    for ns in [300, -300] {
        for clock in BOTH {
            breaks(Fault::Off(ns), clock, 2, None, "bounded");
        }
    }
}

#[test]
fn a_reading_beyond_the_limit_is_caught_and_breaks_no_law() {
    breaks(Fault::Bounded(300), BOTH[0], 2, Some(100), "max_error");
    let (summary, _) = verify(Fault::Bounded(300), BOTH[0], 2, None);
    assert_eq!((summary.status(), summary.provable.by_ns > 200), (0, true), "{summary:#?}");
    assert_eq!(verify(Fault::Bounded(300), BOTH[0], 2, Some(1_000)).0.status(), 0);
}

#[test]
fn a_thread_that_lags_behind_what_it_has_seen_is_caught() {
    breaks(Fault::Lagging, BOTH[0], 2, None, "causal");
}

#[test]
fn a_step_of_the_kernel_that_is_followed_is_no_violation_and_is_told() {
    for late_ns in [0, 1_000_000, 3_900_000] {
        let (summary, lines) = verify(Fault::Step(late_ns), BOTH[1], 2, Some(100));
        assert_eq!(summary.status(), 0, "{late_ns}: {summary:#?}");
        assert_eq!(summary.kernel.steps, 1);
        // To what the other threads let pass between the kernel's two clocks.
        let by = ["-2.0", "-1.9"].map(|by| format!("the kernel's clock was set by {by}"));
        assert!(by.iter().any(|by| lines.contains(by)), "{lines}");
        assert!(lines.contains("was noticed and followed"), "{lines}");
        // What lagged counts nowhere.
        assert!(summary.distance.least_ns.unwrap() > -1_000 && summary.provable.by_ns == 0);
    }
}

#[test]
fn a_step_of_the_kernel_that_is_never_followed_is_caught() {
    breaks(Fault::Step(SECOND), BOTH[1], 2, None, "bounded");
}

#[test]
fn a_step_of_the_counter_that_the_subject_notices_is_no_violation() {
    let (summary, lines) = verify(Fault::CounterStep, BOTH[1], 2, None);
    assert_eq!((summary.status(), summary.kernel.steps), (0, 0), "{summary:#?}");
    assert!(summary.excused > 0 && lines.contains("was noticed and followed"), "{lines}");
    assert!(summary.verdict_text.contains("a step of the counter"), "{}", summary.verdict_text);
    // A clock that nobody can set goes back when it returns: that no step excuses.
    breaks(Fault::CounterStep, BOTH[0], 2, None, "monotonic");
}

#[test]
fn a_kernel_that_contradicts_itself_is_told() {
    let (summary, lines) = verify(Fault::TwoKernels, BOTH[0], 2, None);
    assert_eq!(summary.status(), 1);
    // The threads share one computed time: one that passes another's comparison may widen it beyond what is wrong.
    assert!(summary.kernel.disagreed > 0 && summary.kernel.compared > 0);
    assert!(lines.contains("the kernel contradicts itself"), "{lines}");
    assert!(summary.verdict_text.contains("vDSO contradicts"), "{}", summary.verdict_text);
}

#[test]
fn readings_that_are_the_kernels_own_verify_nothing() {
    for fault in [Fault::Kernel, Fault::Starting] {
        let (summary, _) = verify(fault, BOTH[0], 1, Some(1));
        assert_eq!((summary.status(), summary.verdict), (2, Verdict::NotVerified));
        assert!(summary.verdict_text.starts_with("Nothing was verified: "));
        assert!(summary.laws.iter().all(|law| !law.asked), "{:?}", summary.laws);
        let shown = text::summary(&summary, PLAIN);
        assert!(shown.contains("laws        not asked\n") && !shown.contains("held"), "{shown}");
    }
}

#[test]
fn a_counter_that_is_refused_from_the_start_ends_the_run_at_once() {
    let (summary, lines) = verify(Fault::Kernel, BOTH[0], 3_600, None);
    assert!(summary.elapsed_ns < SECOND.unsigned_abs() && !summary.interrupted, "{summary:#?}");
    assert!(lines.contains("the kernel has rejected the counter"), "{lines}");
    let shown = text::summary(&summary, PLAIN);
    assert!(shown.contains(", then ended: there is nothing to verify\n"), "{shown}");
}

#[test]
fn a_clock_that_only_starts_or_is_distrusted_later_is_watched_to_the_end() {
    for fault in [Fault::Starting, Fault::Unsteady, Fault::RejectedLater] {
        let (summary, _) = verify(fault, BOTH[0], 2, None);
        assert!(summary.elapsed_ns >= 2 * SECOND.unsigned_abs(), "{fault:?}: {summary:#?}");
    }
}

#[test]
fn a_clock_that_is_refused_on_the_way_ends_the_run_with_a_sentence() {
    let plan = Plan {
        clock: BOTH[0],
        for_ns: i64::MAX,
        every_ns: SECOND,
        max_error_ns: None,
        cpus: vec![None],
        refreshes: false,
        nanoseconds: false,
        lines: false,
        width: 100,
    };
    let fake = Fake::new(Fault::Refused);
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut live = Live::new(&mut out, &mut err, false);
    let never = AtomicBool::new(false);
    let ended = run(&plan, &fake, &fake, machine(), &mut live, None, &never);
    let error = ended.unwrap_err().to_string();
    assert!(error.contains("ended early") && error.contains("EPERM"), "{error}");
}

/// A bracket of 40 ns round a reading that is off by `off_ns`.
fn taken(at: i64, off_ns: i64, error_ns: Option<u64>) -> Taken {
    let from_counter = error_ns.map(|_| true);
    let (before_ns, nanos, after_ns) = (at, at + 20 + off_ns, at + 40);
    Taken { before_ns, nanos, after_ns, error_ns, from_counter, seen_ns: None }
}

/// A judge that has seen so many bursts of four readings, all off by what `off` says.
fn judged(bursts: i64, off: impl Fn(i64) -> i64, found: &mut Vec<Finding>) -> Judge {
    let mut judge = Judge::new(Rules { settable: false, max_error_ns: None });
    for burst in 0..bursts {
        let at = burst * 1_000_000;
        let readings: Vec<Taken> =
            (0..4).map(|i| taken(at + 50 * i, off(burst), (i % 2 == 1).then_some(60))).collect();
        let evidence = Evidence { period_ns: 4_000_000, ..Evidence::default() };
        judge.burst(at, &readings, &evidence, &mut |finding| found.push(finding));
    }
    judge
}

#[test]
fn the_window_shows_what_was_read_before_and_after() {
    let mut found = Vec::new();
    let judge = judged(40, |burst| if burst == 20 { 500 } else { 0 }, &mut found);
    let finding = found.iter().find(|finding| finding.broken.name() == "bounded").unwrap();
    assert_eq!((finding.by_ns, finding.at, finding.window.len()), (420, 8, 13));
    assert_eq!(finding.window[finding.at], taken(20_000_050, 500, Some(60)));
    assert!(finding.window.windows(2).all(|pair| pair[0].before_ns < pair[1].before_ns));
    assert_eq!(judge.counts[2].times, 2, "both readings with their bound");
    assert_eq!(judge.tally.worst.by_ns, 480);
    assert_eq!(Broken::ALL[2].name(), "bounded");
}

#[test]
fn what_is_broken_again_and_again_is_counted_and_not_shown_for_ever() {
    let mut found = Vec::new();
    let judge = judged(2_000, |_| 500, &mut found);
    assert!(found.len() <= 5, "{}", found.len());
    assert!(judge.counts[2].times > 3_900, "{:?}", judge.counts);
}

/// A summary that is the same each time.
fn fixed() -> Summary {
    let mut found = Vec::new();
    let rows: Vec<Done> = (0..3)
        .map(|index| Done {
            cpu: (index < 2).then_some(index),
            judge: judged(2_000, |burst| (burst * 7 + index as i64) % 23 - 11, &mut found),
            moved: None,
        })
        .collect();
    assert_eq!(found, []);
    let settings = Plan {
        clock: ClockId::MONOTONIC,
        for_ns: 2 * SECOND,
        every_ns: SECOND / 2,
        max_error_ns: Some(50),
        cpus: Vec::new(),
        refreshes: false,
        nanoseconds: false,
        lines: false,
        width: 100,
    }
    .settings("the library in this process");
    let kernel = Kernels { vdso: true, compared: 4, ..Kernels::default() };
    let mut status = Clock::boottime().status().unwrap();
    (status.unfit, status.frequency_hz, status.period_ns) = (None, 2_299_997_512, 4_000_000);
    (status.refreshes, status.kernel_answers, status.residual_max_ns) = (1_503, 12, 31);
    let ends = Ends { interrupted: false, elapsed_ns: 2 * SECOND, status: Some(status), lost: 0 };
    sum(settings, machine(), &rows, kernel, &ends)
}

const PLAIN: Style = Style { colored: false, width: 100 };

#[test]
fn the_summary_is_that_of_the_snapshot() {
    let summary = fixed();
    insta::assert_snapshot!("verify_text", text::summary(&summary, PLAIN));
    insta::assert_snapshot!("verify_json", crate::render::json(&summary));
}

#[test]
fn the_lines_are_those_of_2002() {
    let near = taken(1_015_885_532_519_444_990, 5, Some(60));
    assert_eq!(
        text::line(&near, false),
        "sys: 1015885532.519445\nusr: 1015885532.519445 (+0.000000, +5 ns)\n"
    );
    let early = taken(1_015_885_532_519_445_000, -1_000, None);
    assert_eq!(
        text::line(&early, false),
        "sys: 1015885532.519445\nusr: 1015885532.519444 (-0.000001, -1000 ns)\n"
    );
    assert_eq!(
        text::line(&early, true),
        "sys: 1015885532.519445020\nusr: 1015885532.519444020 (-0.000001000)\n"
    );
}

#[test]
fn beside_the_bar_there_is_room_for_all_of_it() {
    let told = |left_s: i64, readings| text::progress(left_s * SECOND, readings, 123_456, 1_234);
    assert_eq!(told(59, 960), "59s left, 960 readings, 1,234 VIOLATIONS, worst 123456 ns");
    for (left_s, left) in [(64_799, "18h "), (64_740, "17h 59m "), (90_001, "1day 2h ")] {
        let told = told(left_s, 123_456_789_012);
        assert!(told.starts_with(left) && told.contains("123.5 G readings"), "{told}");
        // With the bar, that is 80 columns.
        assert!(told.len() <= 66, "{told}");
    }
}

#[test]
fn what_happened_is_shown_within_a_hundred_columns() {
    let mut found = Vec::new();
    judged(40, |burst| if burst == 20 { -1_234_567 } else { 0 }, &mut found);
    let mut shown = String::new();
    for finding in found {
        shown +=
            &text::event(finding.elapsed_ns, &super::Event::Broken(finding), true, 100).unwrap();
    }
    shown += &text::event(
        12_345_678_901,
        &super::Event::Stepped { at_ns: Some(5), by_ns: Some(-2_000_000_123), times: 1 },
        true,
        100,
    )
    .unwrap();
    shown += &text::event(
        12_345_678_901,
        &super::Event::Distrusted { reason: Unfit::Unsteady },
        true,
        100,
    )
    .unwrap();
    insta::assert_snapshot!("verify_events", shown);
    assert!(shown.lines().all(|line| line.chars().count() <= 100));
}
