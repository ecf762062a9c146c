//! Counts what a running process asks: where its vDSO's functions begin it stops for a moment, is counted, and makes the
//! system call instead. No thread is stopped when this begins; when it ends those that wait in the kernel are left alone.
//!
//! Not by breakpoints of the processor (`perf_event_open`), which would write nothing into the process: under a hypervisor
//! they have killed it (ARCHITECTURE.md).
//!
//! Must never leave a thread or a byte other than it would be without this.

use super::family::{Family, registers};
use super::memory::Memory;
use super::plant::{Place, Plant};
use super::target::{self, Target};
use super::{Asked, Counted, Refusal, Remarks, answer, proc};
use crate::arch;
use crate::launch::{End, shadow};
use crate::os::launch::Signals;
use crate::os::trace::{self, Happened};
use crate::os::{in_child, keep_children};
use clockwise_core::kernel::Errno;
use std::collections::{HashMap, HashSet};

/// What ends the counting.
const ENDING: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];
/// How often the time is looked at.
const ROUND_NS: u64 = 20_000_000;
/// The same, while threads are waited for in the end.
const LEAVING_NS: u64 = 1_000_000;

/// Does work in a child, and as the child does: so that the process which watches another is not the one that a user, or
/// a service manager, kills. Where this process is killed the child is told to end, and puts back what it has changed.
///
/// # Errors
/// Why there can be no child.
pub fn apart(work: impl FnOnce()) -> Result<End, Errno> {
    keep_children();
    let signals = Signals::hold();
    let parent = std::process::id().cast_signed();
    let child = in_child(|| {
        if trace::end_with(parent, libc::SIGTERM) {
            work();
        }
    })?;
    shadow(child, &signals, None)
}

/// Counts what the process and those that it forks ask, for so many nanoseconds, or until it ends or becomes another
/// program, or until this process is told to end. `passed` is told how many have passed. To be called in [`apart`]: all
/// signals are held from then on.
///
/// # Errors
/// [`Refusal`], for what is no process to be watched, or where the kernel refuses it.
pub fn attach(
    process: i32,
    limit_ns: Option<u64>,
    passed: &mut (dyn FnMut(u64) + Send),
) -> Result<Counted, Refusal> {
    let signals = Signals::hold();
    let target = target::find(process)?;
    // The kernel lets go what a thread has watched when that thread ends, without stopping it.
    let watch = || watch(&target, limit_ns, &signals, passed);
    std::thread::scope(|scope| scope.spawn(watch).join())
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn watch(
    target: &Target,
    limit_ns: Option<u64>,
    signals: &Signals,
    passed: &mut (dyn FnMut(u64) + Send),
) -> Result<Counted, Refusal> {
    let process = target.process;
    let plant = Plant::prepare(target).ok_or_else(|| {
        Refusal::Told(format!(
            "the vDSO of process {process} has no room; start the program anew under `clockwise profile`"
        ))
    })?;
    let threads = target::seize(process)?;
    let sharers = target::seize_sharers(process)?;
    let mut remarks = Remarks::default();
    if target.has_image {
        remarks.add(
            "it has the image of `clockwise run`, and what that answers without the kernel is not counted".into(),
        );
    }
    let is_filtered = answer::is_filtered(process);
    if is_filtered && !answer::has_our_clocks(process) {
        return Err(Refusal::Told(format!(
            "process {process} has a filter of system calls and clocks of its own (a time namespace): it could be killed \
             for being watched from here; do it from within its namespace (nsenter -T -t {process})"
        )));
    }
    plant.plant().map_err(|error| target::unwritable(process, &error))?;
    let mut attached = Attached {
        process,
        family: Family::new(process, threads),
        plant,
        remarks,
        again: HashMap::new(),
        listening: HashSet::new(),
        is_over: false,
        is_filtered,
        leaving: None,
    };
    for sharer in sharers {
        for thread in [sharer].into_iter().chain(proc::threads(sharer)) {
            attached.family.belongs(thread);
        }
        attached.plant.inherited_by(sharer);
    }
    let began_ns = attached.family.watch.now_ns();
    loop {
        attached.drain();
        let passed_ns = attached.family.watch.now_ns().saturating_sub(began_ns);
        passed(passed_ns);
        let is_late = limit_ns.is_some_and(|limit_ns| passed_ns >= limit_ns);
        if attached.is_over || is_late || !attached.family.has(process) {
            break;
        }
        let left_ns = limit_ns.map_or(u64::MAX, |limit_ns| limit_ns - passed_ns);
        trace::alarm(left_ns.min(ROUND_NS));
        if ENDING.contains(&signals.next().signal) {
            break;
        }
    }
    let ended_ns = attached.family.watch.now_ns();
    attached.leave(signals);
    Ok(attached.counted(ended_ns))
}

struct Attached {
    process: i32,
    family: Family,
    plant: Plant,
    remarks: Remarks,
    /// Threads that will ask again what was counted already, each with its stack pointer there.
    again: HashMap<i32, u64>,
    /// Threads that a signal has stopped.
    listening: HashSet<i32>,
    is_over: bool,
    /// It may be killed for a system call that the vDSO spares it.
    is_filtered: bool,
    /// In the end: the threads of which it is not known yet that they are where they would be.
    leaving: Option<HashSet<i32>>,
}

impl Attached {
    fn drain(&mut self) {
        loop {
            match trace::happened() {
                Ok(Some((thread, what))) => self.happened(thread, what),
                Ok(None) => return,
                // Nobody is left.
                Err(_) => {
                    self.is_over = true;
                    return;
                }
            }
        }
    }

    fn happened(&mut self, thread: i32, what: Happened) {
        self.listening.remove(&thread);
        let mut deliver = 0;
        match what {
            Happened::Exited(_) | Happened::Killed(_) => return self.ended(thread),
            Happened::Signal(libc::SIGTRAP) if self.asks(thread) => {}
            Happened::Signal(signal) => {
                // A handler must not return into a stub: that may be gone by then.
                self.out_of_stub(thread);
                deliver = signal;
            }
            Happened::Exec => return self.exec(thread),
            Happened::Birth => {
                if let Some(forked) = self.family.birth(thread) {
                    self.inherit(forked);
                }
            }
            Happened::Begun => {
                let (process, _) = self.family.belongs(thread);
                self.inherit(process);
                self.out_of_stub(thread);
                if self.may_leave(thread) {
                    let _ = trace::release(thread);
                    self.family.ended(thread);
                    return;
                }
            }
            Happened::Stopped(_) => {
                self.out_of_stub(thread);
                self.listening.insert(thread);
                let _ = trace::leave_stopped(thread);
                return;
            }
            Happened::Call | Happened::Exit => {}
        }
        // It fails where the thread was killed meanwhile, which will be heard of.
        let _ = trace::go_on(thread, deliver);
    }

    fn ended(&mut self, thread: i32) {
        self.again.remove(&thread);
        let (process, _) = self.family.belongs(thread);
        self.family.ended(thread);
        if !self.family.has(process) {
            self.plant.lost_by(process);
        }
        if let Some(unknown) = &mut self.leaving {
            unknown.remove(&thread);
        }
    }

    /// A process has become another program: its vDSO is a new one.
    fn exec(&mut self, thread: i32) {
        let (process, _) = self.family.belongs(thread);
        self.plant.lost_by(process);
        self.family.forget_all_but(process, thread);
        let _ = trace::release(thread);
        self.ended(thread);
        if process == self.process {
            self.is_over = true;
            self.remarks.add(format!(
                "process {process} became another program, which was the end of counting"
            ));
        } else {
            self.remarks.add(
                "it started other programs, and what they ask is not counted: see them under \
                 `clockwise profile -- CMD`"
                    .into(),
            );
        }
    }

    /// A process that was forked has what is planted, unless that is put back already.
    fn inherit(&mut self, process: i32) {
        self.plant.inherited_by(process);
        if self.leaving.is_some() {
            self.plant.open();
        }
    }

    /// Whether a thread has run into what is planted; it is counted then, and goes on in a stub.
    fn asks(&mut self, thread: i32) -> bool {
        let mut room = [0; 64];
        let Ok(words) = trace::registers(thread, &mut room) else { return false };
        let Some(at) = arch::registers(words) else { return false };
        let Some(Place::Stopped(point)) = self.plant.place(at.ip) else { return false };
        let length = words.len();
        if self.leaving.is_some() {
            // What was there is there again.
            room[arch::IP] = point.entry;
            return trace::set_registers(thread, &room[..length]).is_ok();
        }
        let (process, _) = self.family.belongs(thread);
        let mut memory = Memory::of(process);
        let caller = arch::returned(at, |address| memory.word(address));
        if let Some(from) = caller.filter(|_| self.again.remove(&thread) != Some(at.sp)) {
            let asked = Asked { function: point.function, is_system_call: false };
            self.family.count(thread, asked, from, at.argument);
        }
        let answer = || answer::answer(process, point.function, at);
        match caller.filter(|_| self.is_filtered).zip(self.is_filtered.then(answer).flatten()) {
            Some((caller, result)) => {
                room[arch::RESULT] = result;
                (room[arch::IP], room[arch::SP]) = (caller.ip, caller.sp);
            }
            None => room[arch::IP] = point.stub,
        }
        trace::set_registers(thread, &room[..length]).is_ok()
    }

    /// Takes a stopped thread out of a stub: to where it will ask anew, or, where the kernel has answered, to its caller.
    fn out_of_stub(&mut self, thread: i32) {
        let mut room = [0; 64];
        let Ok(words) = trace::registers(thread, &mut room) else { return };
        let Some(at) = arch::registers(words) else { return };
        let Some(Place::Stub(point)) = self.plant.place(at.ip) else { return };
        let length = words.len();
        if at.ip == point.ret {
            let (process, _) = self.family.belongs(thread);
            let mut memory = Memory::of(process);
            let Some(returned) = arch::returned(at, |address| memory.word(address)) else { return };
            (room[arch::IP], room[arch::SP]) = (returned.ip, returned.sp);
        } else {
            room[arch::IP] = point.entry;
            self.again.insert(thread, at.sp);
        }
        let _ = trace::set_registers(thread, &room[..length]);
    }

    /// Whether a stopped thread is where it would be, and nothing of ours is about to happen to it.
    fn may_leave(&mut self, thread: i32) -> bool {
        let Some(unknown) = &mut self.leaving else { return false };
        let place = registers(thread).and_then(|at| self.plant.place(at.ip));
        // It has run into what was planted, and will be stopped for it.
        let is_about_to_stop = matches!(place, Some(Place::Stopped(_))) && is_trapped(thread);
        if !is_about_to_stop {
            unknown.remove(&thread);
        }
        !is_about_to_stop
    }

    /// Puts back what was there, sees each thread out of it, and is gone.
    fn leave(&mut self, signals: &Signals) {
        self.plant.open();
        self.leaving = Some(self.family.threads().collect());
        let mut interrupted = HashSet::new();
        loop {
            self.drain();
            let unknown = self.leaving.iter().flatten().copied().collect::<Vec<_>>();
            for thread in unknown {
                let is_known = self.listening.contains(&thread)
                    || match proc::state(thread) {
                        // It waits in the kernel, for something else than the time.
                        Some('S') | None => true,
                        // What has stopped it is still to be heard of.
                        Some('t' | 'T') => false,
                        // It waits for a child of vfork, for example, which may last.
                        Some('D') if self.waits_elsewhere(thread) => true,
                        // One that runs is in no call that could be interrupted.
                        Some(_) => {
                            if interrupted.insert(thread) {
                                let _ = trace::interrupt(thread);
                            }
                            false
                        }
                    };
                if let Some(unknown) = self.leaving.as_mut().filter(|_| is_known) {
                    unknown.remove(&thread);
                }
            }
            if self.leaving.iter().all(HashSet::is_empty) {
                break;
            }
            trace::alarm(LEAVING_NS);
            signals.next();
        }
        // A thread that was interrupted and waits now will be stopped for it, once it is heard of.
        self.drain();
        self.plant.clear();
    }

    /// Whether a thread that waits in the kernel has come there from elsewhere than what is planted.
    fn waits_elsewhere(&self, thread: i32) -> bool {
        proc::waits_from(thread).is_some_and(|ip| self.plant.place(ip).is_none())
    }

    fn counted(mut self, now_ns: u64) -> Counted {
        self.remarks.add(
            "each counted call stopped the thread for a moment, so CPU time and rates are not those of an undisturbed \
             run; questions by system calls of its own, past the vDSO, are not counted"
                .into(),
        );
        Counted {
            processes: self.family.close(now_ns),
            remarks: self.remarks.0,
            end: None,
            is_stopped: false,
        }
    }
}

/// Whether a thread has a SIGTRAP still to be delivered.
fn is_trapped(thread: i32) -> bool {
    let pending = proc::field(thread, "SigPnd");
    let pending = pending.and_then(|pending| u64::from_str_radix(&pending, 16).ok());
    pending.is_some_and(|pending| pending >> (libc::SIGTRAP - 1) & 1 == 1)
}
