//! Starts a program in which every question for the time is a system call that stops, and counts them.
//!
//! The vDSO is struck from the auxiliary vector of each program that is started, where C's libraries, Go and static
//! programs look for it. What finds it otherwise (in /proc, as the preloaded image does) is not seen.
//!
//! Must never change what a process gets, sends, or ends with: every signal is handed on, every stop stays one.

use super::family::{Family, registers};
use super::memory::Memory;
use super::{Asked, Counted, Refusal, Remarks, proc};
use crate::arch;
use crate::launch::{End, Launch};
use crate::os::launch::{self as os, Signals};
use crate::os::trace::{self, Happened};
use crate::os::{in_child, keep_children, pipe};
use clockwise_core::kernel::Errno;
use std::fs::File;
use std::io::{Read, Write};

/// Counts what the program asks, and all that it starts, until the last of them has ended. A program that still runs after
/// so many nanoseconds, if a limit is given, is told to end (SIGTERM), and 5 s later has to.
///
/// # Errors
/// [`Refusal`], where the system lets no program be watched, or not this one be executed.
pub fn launch(program: &Launch, limit_ns: Option<u64>) -> Result<Counted, Refusal> {
    if arch::CALLS.is_empty() {
        return Err(told(
            "programs cannot be watched on this processor: it is not known to Clockwise",
        ));
    }
    let unable = |errno| told(&format!("no process can be started: {errno}"));
    keep_children();
    let signals = Signals::hold();
    let (go, goes) = pipe().map_err(unable)?;
    let (refusal, refused) = pipe().map_err(unable)?;
    let (mut go, mut refused) = (File::from(go), Some(File::from(refused)));
    let mut goes = Some(File::from(goes));
    let calls: Vec<u32> = arch::CALLS.iter().map(|&(_, number)| number).collect();
    let child = in_child(|| {
        goes = None;
        // Until it is watched.
        if go.read_exact(&mut [0]).is_err() {
            return;
        }
        let Some(mut refused) = refused.take() else { return };
        let mut tell = |what: u8, errno: i32| {
            let _ = refused.write_all(&[&[what][..], &errno.to_le_bytes()].concat());
        };
        match trace::stop_at(&calls, arch::AUDIT) {
            Ok(false) => {}
            Ok(true) => tell(RENOUNCED, 0),
            Err(errno) => return tell(NO_FILTER, errno.0),
        }
        tell(NO_EXEC, program.replace().0);
    });
    let child = child.map_err(unable)?;
    drop((go, refused));
    if let Err(errno) = trace::seize_child(child) {
        crate::os::kill(child);
        let _ = crate::os::wait(child);
        return Err(forbidden(errno));
    }
    let mut tracer = Tracer::new(child, limit_ns);
    // It cannot fail: the child waits for it.
    let _ = goes.iter_mut().try_for_each(|goes| goes.write_all(&[0]));
    drop(goes);
    tracer.follow(&signals);
    tracer.counted(File::from(refusal))
}

/// What the child tells before it is a program.
const RENOUNCED: u8 = 0;
const NO_FILTER: u8 = 1;
const NO_EXEC: u8 = 2;

fn told(why: &str) -> Refusal {
    Refusal::Told(why.to_owned())
}

fn forbidden(errno: Errno) -> Refusal {
    told(&format!(
        "this process may not watch another ({errno}): it is watched itself (strace, a debugger), or a sandbox forbids \
         ptrace (docker run --cap-add SYS_PTRACE), or kernel.yama.ptrace_scope is 3"
    ))
}

/// What ends a program that has arranged for nothing else.
const ENDING: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// How long a program has to end after it was told to.
const GRACE_NS: u64 = 5_000_000_000;

struct Tracer {
    /// The program itself, until it has ended.
    main: i32,
    end: Option<End>,
    family: Family,
    remarks: Remarks,
    /// When counting ends.
    until_ns: Option<u64>,
    limit_ns: Option<u64>,
    /// It was told to end.
    is_stopped: bool,
    /// The program has begun; before that this process's own code runs in the child.
    begun: bool,
    /// How many filters of system calls it began with, the one that stops it included.
    filters: Option<u64>,
    /// A program that has set another.
    filtered: Option<String>,
}

impl Tracer {
    fn new(main: i32, limit_ns: Option<u64>) -> Self {
        Self {
            main,
            end: None,
            family: Family::new(main, [main]),
            remarks: Remarks::default(),
            until_ns: None,
            limit_ns,
            is_stopped: false,
            begun: false,
            filters: None,
            filtered: None,
        }
    }

    /// Until the last has ended.
    fn follow(&mut self, signals: &Signals) {
        loop {
            // Asked before waiting: it may have happened already.
            loop {
                match trace::happened() {
                    Ok(Some((thread, what))) => self.happened(thread, what),
                    Ok(None) => break,
                    Err(_) => return,
                }
            }
            let arrived = signals.next();
            if arrived.by_kernel && arrived.signal == libc::SIGALRM {
                self.press();
                continue;
            }
            match self.end {
                // What a terminal sends, the program has got too: it is in the same group.
                None if arrived.by_kernel || arrived.signal == libc::SIGCHLD => {}
                None => os::send(self.main, arrived.signal),
                // Descendants that have outlived it end with this process: their calls would fail without it.
                Some(_) if ENDING.contains(&arrived.signal) => {
                    self.kill();
                }
                Some(_) => {}
            }
        }
    }

    /// The time is over.
    fn press(&mut self) {
        if self.is_stopped || self.end.is_some() {
            self.kill();
        } else {
            os::send(self.main, libc::SIGTERM);
            trace::alarm(GRACE_NS);
        }
        self.is_stopped = true;
    }

    fn kill(&self) {
        self.family.threads().for_each(|thread| os::send(thread, libc::SIGKILL));
    }

    fn happened(&mut self, thread: i32, what: Happened) {
        let mut deliver = 0;
        match what {
            Happened::Exited(status) => return self.ended(thread, End::Exited(status)),
            Happened::Killed(signal) => return self.ended(thread, End::Killed(signal)),
            Happened::Signal(signal) => deliver = signal,
            Happened::Call => self.call(thread),
            Happened::Exec => self.exec(thread),
            Happened::Birth => {
                self.family.birth(thread);
            }
            Happened::Exit => {
                self.note_filters(thread);
                self.family.rename(thread);
            }
            Happened::Stopped(signal) => return self.stopped(thread, signal),
            Happened::Begun => {
                self.family.belongs(thread);
            }
        }
        // It fails where the thread was killed meanwhile, which will be heard of.
        let _ = trace::go_on(thread, deliver);
    }

    fn exec(&mut self, thread: i32) {
        if self.begun {
            self.family.exec(thread);
        } else {
            // The program itself.
            self.begun = true;
            self.filters = filters(thread);
            self.family.begin(thread);
            if let Some(limit_ns) = self.limit_ns {
                self.until_ns = Some(self.family.watch.now_ns().saturating_add(limit_ns));
                trace::alarm(limit_ns);
            }
        }
        if let Err(Unhidden::Narrow) = hide_vdso(thread) {
            let program = proc::program(thread);
            self.remarks
                .add(format!("{program} is a 32-bit program, and what it asks is not counted"));
        }
    }

    /// Notes whether a thread that ends has filters of its own: what those refuse does not stop it.
    fn note_filters(&mut self, thread: i32) {
        let has_more = filters(thread).zip(self.filters).is_some_and(|(now, began)| now > began);
        if has_more && self.begun && self.filtered.is_none() {
            self.filtered = Some(proc::program(thread));
        }
    }

    fn call(&mut self, thread: i32) {
        let is_over = |until_ns| self.family.watch.now_ns() > until_ns;
        if !self.begun || self.until_ns.is_some_and(is_over) {
            return;
        }
        let Some(registers) = registers(thread) else { return };
        let called = arch::CALLS.iter().find(|&&(_, number)| u64::from(number) == registers.number);
        let Some(&(function, _)) = called else { return };
        let asked = Asked { function, is_system_call: true };
        self.family.count(thread, asked, registers, registers.argument);
    }

    fn ended(&mut self, thread: i32, end: End) {
        if thread == self.main && self.end.is_none() {
            self.end = Some(end);
        }
        self.family.ended(thread);
    }

    fn stopped(&self, thread: i32, signal: i32) {
        let _ = trace::leave_stopped(thread);
        // A terminal stops all of its foreground. A program that is stopped otherwise is let go on by whoever did it, and
        // this process must be there then.
        if thread == self.main && self.end.is_none() && signal != libc::SIGSTOP {
            os::stop_by(signal);
            // Whoever let this process go on meant the program.
            os::send(self.main, libc::SIGCONT);
        }
    }

    fn counted(mut self, mut words: File) -> Result<Counted, Refusal> {
        let mut word = [0; 5];
        while words.read_exact(&mut word).is_ok() {
            let errno = Errno(i32::from_le_bytes([word[1], word[2], word[3], word[4]]));
            match word[0] {
                RENOUNCED => self.remarks.add(
                    "set-user programs that it starts run without their privileges, as whatever is watched does: only root \
                     can count them with"
                        .into(),
                ),
                NO_FILTER => {
                    return Err(told(&format!(
                        "system calls cannot be watched ({errno}): the kernel, or a sandbox, has no seccomp filters"
                    )));
                }
                _ => return Err(Refusal::Exec(errno)),
            }
        }
        if self.end == Some(End::Killed(libc::SIGSYS)) {
            self.remarks.add(
                "it was killed for a system call that it forbids itself (SIGSYS), as it may need one where there is no \
                 vDSO: start it by itself, and count it with --pid"
                    .into(),
            );
        } else if let Some(program) = self.filtered.take() {
            self.remarks.add(format!(
                "{program} has a filter of system calls of its own (seccomp): had that refused to tell the time, it would \
                 have failed here alone, where there is no vDSO, and not be counted; start it by itself, and count it with \
                 --pid, to be sure"
            ));
        }
        let now_ns = self.family.watch.now_ns();
        let now_ns = self.until_ns.map_or(now_ns, |until_ns| until_ns.min(now_ns));
        let processes = self.family.close(now_ns);
        self.remarks.add(
            "each call was a system call that stopped the program, so CPU time and rates are not those of an \
             undisturbed run; counts are exact"
                .into(),
        );
        Ok(Counted {
            processes,
            remarks: self.remarks.0,
            end: self.end,
            is_stopped: self.is_stopped,
        })
    }
}

/// How many filters of system calls a thread has.
fn filters(thread: i32) -> Option<u64> {
    proc::field(thread, "Seccomp_filters")?.parse().ok()
}

/// Why a program's vDSO could not be hidden.
enum Unhidden {
    /// It has 32 bits.
    Narrow,
    /// It is gone, or has no stack that could be read.
    Gone,
}

/// Makes the entry that names the vDSO, in the auxiliary vector of a program that has just been loaded, one that is
/// ignored.
fn hide_vdso(thread: i32) -> Result<(), Unhidden> {
    let mut memory = Memory::of(thread);
    let mut at = registers(thread).ok_or(Unhidden::Narrow)?.sp;
    let mut word = |at: u64| memory.word(at).ok_or(Unhidden::Gone);
    // The number of arguments, the arguments, a null, the environment, a null, the vector.
    at += 8 * (word(at)? + 2);
    while word(at)? != 0 {
        at += 8;
    }
    loop {
        at += 8;
        match word(at)? {
            libc::AT_NULL => return Ok(()),
            libc::AT_SYSINFO_EHDR => {
                return trace::write(thread, at, libc::AT_IGNORE).map_err(|_| Unhidden::Gone);
            }
            _ => at += 8,
        }
    }
}
