//! `clockwise verify`: a clock against the kernel's, reading by reading, for as long as asked.
//!
//! ```text
//!  Subject (ours) ---+--> reader, one a processor --> judge (laws, steps) --> tally --+--> summary --> text, JSON
//!  Reference (kernel)+      bursts between brackets        | findings                |
//!                                                          +--> events --> lines, log +
//! ```
//!
//! Must never keep what grows with time.

mod desk;
mod judge;
mod log;
pub mod preload;
mod reader;
mod record;
pub mod subject;
mod summary;
mod tally;
#[cfg(test)]
mod tests;
pub mod text;
mod watch;

use crate::live::Live;
use crate::machine::Machine;
use crate::os;
use anyhow::{Result, bail};
use clockwise::{ClockId, Status};
use clockwise_core::kernel::sharpen_timers;
use desk::Desk;
use judge::{Count, Judge, Rules};
pub use log::Log;
use reader::{Places, Reader, Shared};
pub use record::start;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};

use subject::{Reference, Subject};
pub use summary::Summary;
use summary::{At, Distance, Kernels, Row, Settings, Trend, VERSION, Verdict};
use tally::Tally;
use watch::{Event, Watch};

/// Readers wake together, once in so much of the kernel's time: often enough that lines stay alive, and together so that
/// they have something to hand over.
const PACE_NS: i64 = 1_000_000;
/// Readings a burst: 2 us of each millisecond.
const BURST: usize = 32;
/// Events that may wait for the one thread that writes.
const EVENTS_MAX: usize = 4_096;
/// More bursts at the end, until nothing is in dispute.
const LAST_BURSTS: u32 = 600;

/// What is to be done.
pub struct Plan {
    /// Which clock.
    pub clock: ClockId,
    /// For how long.
    pub for_ns: i64,
    /// From line to line.
    pub every_ns: i64,
    /// The user's limit.
    pub max_error_ns: Option<u64>,
    /// A reader on each; `None`: one that runs anywhere.
    pub cpus: Vec<Option<usize>>,
    /// Log each refresh.
    pub refreshes: bool,
    /// Nanoseconds in the lines.
    pub nanoseconds: bool,
    /// Print lines.
    pub lines: bool,
    /// Columns of the terminal.
    pub width: usize,
}

impl Plan {
    fn is_settable(&self) -> bool {
        matches!(self.clock, ClockId::REALTIME | ClockId::TAI)
    }

    fn rules(&self) -> Rules {
        Rules { settable: self.is_settable(), max_error_ns: self.max_error_ns }
    }

    /// What the result says of it.
    fn settings(&self, subject: &str) -> Settings {
        Settings {
            clock: format!("CLOCK_{}", self.clock.name().unwrap_or("?")),
            settable: self.is_settable(),
            subject: subject.to_owned(),
            for_ns: self.for_ns.unsigned_abs(),
            every_ns: self.every_ns.unsigned_abs(),
            max_error_ns: self.max_error_ns,
        }
    }
}

/// What all threads look at.
#[derive(Default)]
struct Control {
    stop: AtomicBool,
    readings: AtomicU64,
    worst_ns: AtomicI64,
    lost: AtomicU64,
}

/// Runs it to its end, or until `interrupted`.
///
/// # Errors
/// If nothing can be read, in a sentence.
pub fn run(
    plan: &Plan,
    subject: &impl Subject,
    reference: &impl Reference,
    machine: Machine,
    live: &mut Live<'_>,
    log: Option<Log>,
    interrupted: &AtomicBool,
) -> Result<Summary> {
    let name = plan.clock.name().unwrap_or("?");
    if let Err(errno) = reference.now(plan.clock) {
        bail!("the kernel does not tell CLOCK_{name} here: {errno}; choose another with --clock");
    }
    let start_ns = reference.now(ClockId::MONOTONIC)?;
    let shared = Shared {
        subject,
        reference,
        clock: plan.clock,
        rules: plan.rules(),
        places: Places::new(plan.cpus.len() + 1),
        start_ns,
    };
    let control = Control::default();
    let (events, happened) = sync_channel(EVENTS_MAX);
    let mut desk = Desk::new(plan, live, log, happened, reference.has_vdso());
    let (rows, interrupted, elapsed_ns) = std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (own, &cpu) in plan.cpus.iter().enumerate() {
            let (shared, control, events) = (&shared, &control, events.clone());
            let thread = std::thread::Builder::new().name(format!("reader {own}"));
            match thread.spawn_scoped(scope, move || read_on(shared, own, cpu, control, &events)) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    desk.failed = Some(format!("a reader cannot start: {error}"));
                    break;
                }
            }
        }
        let mut own = Reader::new(&shared, plan.cpus.len());
        let (interrupted, elapsed_ns) = desk.sit(&shared, &mut own, &control, interrupted);
        control.stop.store(true, Ordering::Relaxed);
        let mut rows: Vec<Done> = Vec::new();
        for thread in threads {
            while !thread.is_finished() {
                // The channel must not fill up, nor the machine be kept busy.
                desk.hear();
                reference.pause(PACE_NS.unsigned_abs());
            }
            match thread.join() {
                Ok(done) => rows.push(done),
                Err(_) => desk.failed = Some("a reader panicked".to_owned()),
            }
        }
        desk.hear();
        rows.push(Done { cpu: None, judge: own.judge, moved: None });
        (rows, interrupted, elapsed_ns)
    });
    if let Some(reason) = desk.failed {
        bail!("the verification ended early: {reason}");
    }
    let settings = plan.settings(subject.name());
    let status = subject.status();
    let ends = Ends { interrupted, elapsed_ns, status, lost: control.lost.into_inner() };
    let mut summary = sum(settings, machine, &rows, desk.kernel, &ends);
    if let Some(log) = &mut desk.log {
        let told = log.line(&record::end(&summary));
        told.into_iter().for_each(|text| desk.live.warn(&text));
        log.sync();
        summary.log_incomplete = log.is_incomplete();
    }
    Ok(summary)
}

/// What a thread leaves.
struct Done {
    cpu: Option<usize>,
    judge: Judge,
    moved: Option<String>,
}

/// How it ended.
struct Ends {
    interrupted: bool,
    elapsed_ns: i64,
    status: Option<Status>,
    lost: u64,
}

fn sum(
    settings: Settings,
    machine: Machine,
    rows: &[Done],
    kernel: Kernels,
    ends: &Ends,
) -> Summary {
    let (mut tally, mut counts, mut excused) = (Tally::new(), [Count::default(); 5], 0);
    for Done { judge, .. } in rows {
        tally.add(&judge.tally);
        excused += judge.excused;
        for (sum, count) in counts.iter_mut().zip(&judge.counts) {
            sum.times += count.times;
            sum.worst_ns = sum.worst_ns.max(count.worst_ns);
        }
    }
    let reader = |done: &Done| Row {
        cpu: done.cpu,
        readings: done.judge.tally.readings,
        distance: Distance::of(&done.judge.tally),
        provable_ns: done.judge.tally.worst.by_ns,
        violations: done.judge.counts.iter().map(|count| count.times).sum(),
        moved: done.moved.clone(),
    };
    let mut summary = Summary {
        schema: "clockwise.verify",
        version: VERSION,
        tool_version: env!("CARGO_PKG_VERSION"),
        laws: summary::laws(
            &counts,
            tally.from_counter,
            tally.handed_over,
            settings.max_error_ns.is_some(),
        ),
        settings,
        machine,
        verdict: Verdict::NotVerified,
        verdict_text: String::new(),
        elapsed_ns: ends.elapsed_ns.unsigned_abs(),
        interrupted: ends.interrupted,
        readings: tally.readings,
        readings_with_bound: tally.told,
        from_counter: tally.from_counter,
        handed_over: tally.handed_over,
        drift: Trend::of(&tally),
        distance: Distance::of(&tally),
        provable: At { by_ns: tally.worst.by_ns, elapsed_ns: tally.worst.elapsed_ns },
        excused,
        subject: ends.status.as_ref().map(Into::into),
        kernel,
        readers: rows.iter().map(reader).collect(),
        events_lost: ends.lost,
        log_incomplete: false,
    };
    summary.judge();
    summary
}

/// The part of a reader's thread. The first also watches the subject's status.
fn read_on<S: Subject, R: Reference>(
    shared: &Shared<'_, S, R>,
    own: usize,
    cpu: Option<usize>,
    control: &Control,
    events: &SyncSender<(i64, Event)>,
) -> Done {
    let mut elapsed_ns = 0;
    let tell = |elapsed_ns: i64, event: Event| {
        // Whoever writes may be waiting for a disk; readers do not wait for it.
        if events.try_send((elapsed_ns, event)).is_err() {
            control.lost.fetch_add(1, Ordering::Relaxed);
        }
    };
    let mut moved = None;
    let mut stay = |elapsed_ns: i64| {
        let Some(cpu) = cpu else { return };
        if os::current_cpu() != Ok(cpu)
            && let Err(errno) = os::pin(&[cpu])
            && moved.is_none()
        {
            let reason = format!("processor {cpu} cannot be used: {errno}");
            moved = Some(reason.clone());
            tell(elapsed_ns, Event::Moved { cpu, reason });
        }
    };
    sharpen_timers();
    let mut reader = Reader::new(shared, own);
    let mut watch = Watch::default();
    let (mut bursts, mut last) = (0u64, 0);
    loop {
        // A processor that went offline takes its readers to others; one that came back gets them again.
        if bursts.is_multiple_of(1_024) {
            stay(elapsed_ns);
        }
        bursts += 1;
        let told = reader.burst(BURST, &mut |finding| {
            let at_ns = finding.elapsed_ns;
            tell(at_ns, Event::Broken(finding));
        });
        match told {
            Err(errno) => {
                tell(elapsed_ns, Event::Failed { reason: format!("a clock refuses: {errno}") });
                break;
            }
            Ok(burst) => {
                elapsed_ns = burst.elapsed_ns;
                if own == 0 {
                    if let Some(by_ns) = burst.kernel_stepped {
                        tell(elapsed_ns, Event::KernelStepped { by_ns });
                    }
                    if let Some(status) = &burst.status {
                        watch.look(status, &mut |event| tell(elapsed_ns, event));
                    }
                }
            }
        }
        control.readings.fetch_add(BURST as u64, Ordering::Relaxed);
        let worst_ns = reader.judge.tally.worst.by_ns.unsigned_abs();
        control.worst_ns.fetch_max(worst_ns as i64, Ordering::Relaxed);
        if control.stop.load(Ordering::Relaxed) {
            last += 1;
            if last > LAST_BURSTS || !reader.judge.is_waiting() {
                break;
            }
        }
        let now_ns = shared.reference.now(ClockId::MONOTONIC).unwrap_or(0);
        shared.reference.pause((PACE_NS - now_ns.rem_euclid(PACE_NS)).unsigned_abs());
    }
    reader.judge.end(elapsed_ns, &mut |finding| tell(elapsed_ns, Event::Broken(finding)));
    Done { cpu, judge: reader.judge, moved }
}
