//! `clockwise verify`: a clock against the kernel's, reading by reading, for as long as asked.
//!
//! ```text
//!  Subject (ours) ---+--> reader, one a processor --> judge (laws, steps) --> tally --+--> summary --> text, JSON
//!  Reference (kernel)+      bursts between brackets        | findings                |
//!                                                          +--> events --> lines, log +
//! ```
//!
//! Must never keep what grows with time.

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
use judge::{Count, Finding, Judge, Rules};
pub use log::Log;
use reader::{Places, Reader, Shared};
pub use record::start;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
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
/// Readings from which a line is chosen.
const LINE: usize = 8;
/// From look to look at signals and events.
const LOOK_NS: i64 = 20_000_000;
/// The tool itself did not run.
const PAUSE_NS: i64 = 1_000_000_000;
/// Events that may wait for the one thread that writes.
const EVENTS_MAX: usize = 4_096;
/// More bursts at the end, until nothing is in dispute.
const LAST_BURSTS: u32 = 600;
/// The kernel disagreeing with itself is shown so often.
const DISAGREEMENTS_SHOWN: u64 = 4;

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
}

impl Plan {
    fn rules(&self) -> Rules {
        let settable = matches!(self.clock, ClockId::REALTIME | ClockId::TAI);
        Rules { settable, max_error_ns: self.max_error_ns }
    }

    /// What the result says of it.
    fn settings(&self, subject: &str) -> Settings {
        Settings {
            clock: format!("CLOCK_{}", self.clock.name().unwrap_or("?")),
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
    let mut desk = Desk {
        plan,
        live,
        log,
        happened,
        refreshes: 0,
        residual_ns: 0,
        kernel: Kernels { vdso: reference.has_vdso(), ..Kernels::default() },
        failed: None,
        violations: 0,
    };
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
        laws: summary::laws(&counts, tally.handed_over, settings.max_error_ns.is_some()),
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

/// The one who writes: takes the lines, hears what happened, says both.
struct Desk<'a, 'b> {
    plan: &'a Plan,
    live: &'a mut Live<'b>,
    log: Option<Log>,
    happened: Receiver<(i64, Event)>,
    refreshes: u64,
    residual_ns: i64,
    kernel: Kernels,
    failed: Option<String>,
    violations: u64,
}

impl Desk<'_, '_> {
    /// Until the time is over; whether it was ended early, and how long it was.
    fn sit<S: Subject, R: Reference>(
        &mut self,
        shared: &Shared<'_, S, R>,
        own: &mut Reader<'_, S, R>,
        control: &Control,
        interrupted: &AtomicBool,
    ) -> (bool, i64) {
        let (start_ns, reference) = (shared.start_ns, shared.reference);
        let mut next_ns = self.plan.every_ns;
        let mut last_ns = 0;
        let elapsed = || reference.now(ClockId::MONOTONIC).map_or(i64::MAX, |now| now - start_ns);
        loop {
            let now_ns = elapsed();
            self.hear();
            if now_ns.saturating_sub(last_ns) > PAUSE_NS + LOOK_NS {
                self.happen(now_ns, &Event::Paused { ns: now_ns - last_ns });
            }
            last_ns = now_ns;
            if now_ns >= next_ns {
                self.line(shared, own);
                next_ns += self.plan.every_ns;
                // Lines that were missed are not made up for.
                next_ns = if next_ns <= now_ns { now_ns + self.plan.every_ns } else { next_ns };
            }
            let early = interrupted.load(Ordering::Relaxed) || self.live.is_deaf();
            if early || now_ns >= self.plan.for_ns || self.failed.is_some() {
                self.settle(shared, own);
                return (early && now_ns < self.plan.for_ns, now_ns);
            }
            let share = now_ns as f64 / self.plan.for_ns.max(1) as f64;
            let violations = self.violations;
            self.live.progress(share, || {
                let readings = control.readings.load(Ordering::Relaxed);
                let worst_ns = control.worst_ns.load(Ordering::Relaxed);
                text::progress(self.plan.for_ns - now_ns, readings, worst_ns, violations)
            });
            let left_ns = next_ns.min(self.plan.for_ns) - now_ns;
            reference.pause(left_ns.clamp(1, LOOK_NS).unsigned_abs());
        }
    }

    /// A line: the narrowest of some brackets.
    fn line<S: Subject, R: Reference>(
        &mut self,
        shared: &Shared<'_, S, R>,
        own: &mut Reader<'_, S, R>,
    ) {
        let elapsed_ns = self.read(shared, own, LINE);
        let Some(taken) = own.readings.iter().min_by_key(|taken| taken.width_ns()).copied() else {
            return;
        };
        self.compare(shared, elapsed_ns);
        if self.plan.lines {
            self.live.print(&text::line(&taken, self.plan.nanoseconds));
        }
        let (refreshes, residual_ns) = (self.refreshes, self.residual_ns);
        (self.refreshes, self.residual_ns) = (0, 0);
        self.note(|| record::line(elapsed_ns, &taken, refreshes, residual_ns));
    }

    /// A burst of the desk's own.
    fn read<S: Subject, R: Reference>(
        &mut self,
        shared: &Shared<'_, S, R>,
        own: &mut Reader<'_, S, R>,
        count: usize,
    ) -> i64 {
        let mut found = Vec::new();
        match own.burst(count, &mut |finding| found.push(finding)) {
            Ok(burst) => {
                for finding in found {
                    self.happen(finding.elapsed_ns, &Event::Broken(finding.clone()));
                }
                burst.elapsed_ns
            }
            Err(errno) => {
                self.failed = Some(format!("a clock refuses: {errno}"));
                shared.start_ns
            }
        }
    }

    /// Reads until nothing of the desk's own is in dispute.
    fn settle<S: Subject, R: Reference>(
        &mut self,
        shared: &Shared<'_, S, R>,
        own: &mut Reader<'_, S, R>,
    ) {
        let mut elapsed_ns = 0;
        for _ in 0..LAST_BURSTS {
            if !own.judge.is_waiting() || self.failed.is_some() {
                break;
            }
            shared.reference.pause(PACE_NS.unsigned_abs());
            elapsed_ns = self.read(shared, own, LINE);
        }
        let mut found: Vec<Finding> = Vec::new();
        own.judge.end(elapsed_ns, &mut |finding| found.push(finding));
        for finding in found {
            self.happen(finding.elapsed_ns, &Event::Broken(finding.clone()));
        }
    }

    /// The kernel's own two ways, for clocks that nobody can set in between.
    fn compare<S: Subject, R: Reference>(&mut self, shared: &Shared<'_, S, R>, elapsed_ns: i64) {
        if shared.rules.settable || !shared.reference.has_vdso() {
            return;
        }
        let before = shared.reference.by_system_call(shared.clock);
        let vdso = shared.reference.now(shared.clock);
        let after = shared.reference.by_system_call(shared.clock);
        let (Ok(before_ns), Ok(vdso_ns), Ok(after_ns)) = (before, vdso, after) else { return };
        self.kernel.compared += 1;
        if !(before_ns..=after_ns).contains(&vdso_ns) {
            self.kernel.disagreed += 1;
            if self.kernel.disagreed <= DISAGREEMENTS_SHOWN {
                self.happen(elapsed_ns, &Event::KernelDisagrees { before_ns, vdso_ns, after_ns });
            }
        }
    }

    /// Hears what the readers have to say.
    fn hear(&mut self) {
        while let Ok((elapsed_ns, event)) = self.happened.try_recv() {
            self.happen(elapsed_ns, &event);
        }
    }

    fn happen(&mut self, elapsed_ns: i64, event: &Event) {
        match event {
            Event::Refreshed { times, residual_ns } => {
                self.refreshes += times;
                if residual_ns.unsigned_abs() > self.residual_ns.unsigned_abs() {
                    self.residual_ns = *residual_ns;
                }
                if !self.plan.refreshes {
                    return;
                }
            }
            Event::Broken(_) => self.violations += 1,
            Event::KernelStepped { .. } => self.kernel.steps += 1,
            Event::Failed { reason } => self.failed = Some(reason.clone()),
            _ => {}
        }
        self.note(|| record::event(elapsed_ns, event));
        if matches!(event, Event::Broken(_) | Event::Stepped { .. })
            && let Some(log) = &mut self.log
        {
            log.sync();
        }
        if self.plan.lines
            && let Some(text) = text::event(elapsed_ns, event)
        {
            self.live.print(&text);
        }
    }

    fn note(&mut self, record: impl FnOnce() -> serde_json::Value) {
        if let Some(log) = &mut self.log
            && let Some(text) = log.line(&record())
        {
            self.live.warn(&text);
        }
    }
}
