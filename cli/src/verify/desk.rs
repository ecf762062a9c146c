//! The one who writes: takes the lines, hears what happened, says both.
//!
//! Must never keep the readers waiting.

use super::judge::Finding;
use super::log::Log;
use super::reader::{Reader, Shared};
use super::subject::{Reference, Subject};
use super::summary::Kernels;
use super::watch::Event;
use super::{Control, LAST_BURSTS, PACE_NS, Plan, record, text};
use crate::live::Live;
use clockwise::{ClockId, Status};
use clockwise_core::trust::Unfit;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;

/// Readings from which a line is chosen.
const LINE: usize = 8;
/// From look to look at signals and events.
const LOOK_NS: i64 = 20_000_000;
/// The tool itself did not run.
const PAUSE_NS: i64 = 1_000_000_000;
/// The kernel disagreeing with itself is shown so often.
const DISAGREEMENTS_SHOWN: u64 = 4;

/// Violations shown with the readings around them; the log has more.
const WINDOWS_SHOWN: u64 = 8;

/// Whether the counter was refused before anything came from it: that stays so, and every reading is the kernel's. A
/// clock that is only distrusted tries again, and one that was followed before is worth watching.
fn is_never_used(status: &Status) -> bool {
    use Unfit::{Abandoned, KernelSlow, Unsteady};
    let is_for_good = |unfit: Unfit| !matches!(unfit, Unsteady | KernelSlow | Abandoned);
    status.refreshes == 0 && status.unfit.is_some_and(is_for_good)
}

/// Its state.
pub(super) struct Desk<'a, 'b> {
    plan: &'a Plan,
    pub(super) live: &'a mut Live<'b>,
    pub(super) log: Option<Log>,
    happened: Receiver<(i64, Event)>,
    refreshes: u64,
    residual_ns: i64,
    /// What the kernel did.
    pub(super) kernel: Kernels,
    /// Why it ended early.
    pub(super) failed: Option<String>,
    violations: u64,
}

impl<'a, 'b> Desk<'a, 'b> {
    /// Before anything has happened.
    pub(super) fn new(
        plan: &'a Plan,
        live: &'a mut Live<'b>,
        log: Option<Log>,
        happened: Receiver<(i64, Event)>,
        vdso: bool,
    ) -> Self {
        let kernel = Kernels { vdso, ..Kernels::default() };
        let (refreshes, residual_ns, violations) = (0, 0, 0);
        Self { plan, live, log, happened, refreshes, residual_ns, kernel, failed: None, violations }
    }

    /// Until the time is over; whether it was ended early, and how long it was.
    pub(super) fn sit<S: Subject, R: Reference>(
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
            if !early && shared.subject.status().as_ref().is_some_and(is_never_used) {
                self.settle(shared, own);
                return (false, now_ns);
            }
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
    pub(super) fn hear(&mut self) {
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
            && let Some(text) =
                text::event(elapsed_ns, event, self.violations <= WINDOWS_SHOWN, self.plan.width)
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
