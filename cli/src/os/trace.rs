//! Another process's system calls, registers and memory: ptrace, the filter that has a call stop, `process_vm_readv`.
//!
//! Must never decide: each function makes the call that its name says. Not the crate `nix`: its `waitpid` loses the stops
//! at signals that it has no name for (the real-time ones, which libc itself uses), and it has no `PTRACE_LISTEN`.
//!
//! # Safety
//!
//! Calls into libc with pointers to local variables of the type that the call reads or fills, and with addresses of
//! another process, which only the kernel follows, there.

#![expect(unsafe_code, reason = "std has no door to another process")]

use super::errno;
use clockwise_core::kernel::Errno;
use std::ffi::{c_int, c_long, c_uint};
use std::ptr::null_mut;

/// What happens to a process that is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened {
    /// It, or a thread of it, ended with this status.
    Exited(i32),
    /// This signal ended it.
    Killed(i32),
    /// This signal is about to be delivered.
    Signal(i32),
    /// It makes a system call that the filter names.
    Call,
    /// It has become another program.
    Exec,
    /// It has made another thread or process.
    Birth,
    /// It is about to end.
    Exit,
    /// It is stopped by this signal, with all its threads.
    Stopped(i32),
    /// It has begun, or goes on after it was stopped.
    Begun,
}

/// The request as libc's declaration wants it, which differs between the C libraries.
macro_rules! request {
    ($name:ident) => {
        libc::$name as _
    };
}

fn asked(result: c_long) -> Result<(), Errno> {
    if result == -1 { Err(errno()) } else { Ok(()) }
}

/// Begins to watch a child and all that it will start. Whoever watches takes them along when it is killed: a call that
/// its filter wants to stop would fail.
pub fn seize_child(child: i32) -> Result<(), Errno> {
    seize(child, libc::PTRACE_O_TRACESECCOMP | libc::PTRACE_O_TRACEEXIT | libc::PTRACE_O_EXITKILL)
}

/// Begins to watch a thread of another process, and all that it will start, until the thread that does so ends.
pub fn seize_other(thread: i32) -> Result<(), Errno> {
    seize(thread, 0)
}

fn seize(thread: i32, options: c_int) -> Result<(), Errno> {
    let options = options
        | libc::PTRACE_O_TRACEEXEC
        | libc::PTRACE_O_TRACEFORK
        | libc::PTRACE_O_TRACEVFORK
        | libc::PTRACE_O_TRACECLONE;
    let none = null_mut::<u8>();
    // SAFETY: takes integers.
    asked(unsafe { libc::ptrace(request!(PTRACE_SEIZE), thread, none, options as usize) })
}

/// Stops a thread that is watched, without a signal.
pub fn interrupt(thread: i32) -> Result<(), Errno> {
    let none = null_mut::<u8>();
    // SAFETY: takes integers.
    asked(unsafe { libc::ptrace(request!(PTRACE_INTERRUPT), thread, none, 0usize) })
}

/// Lets a stopped thread go on, and watches it no longer.
pub fn release(thread: i32) -> Result<(), Errno> {
    let none = null_mut::<u8>();
    // SAFETY: takes integers.
    asked(unsafe { libc::ptrace(request!(PTRACE_DETACH), thread, none, 0usize) })
}

/// Has this process be sent a signal when its parent ends; whether that is still there.
pub fn end_with(parent: i32, signal: i32) -> bool {
    // SAFETY: takes and gives integers.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal, 0, 0, 0) };
    // SAFETY: takes nothing and gives an integer.
    unsafe { libc::getppid() == parent }
}

/// Lets a stopped thread go on, and has it get this signal if it is not 0.
pub fn go_on(thread: i32, signal: i32) -> Result<(), Errno> {
    let none = null_mut::<u8>();
    // SAFETY: takes integers.
    asked(unsafe { libc::ptrace(request!(PTRACE_CONT), thread, none, signal as usize) })
}

/// Leaves a thread stopped by a signal, until another lets it go on.
pub fn leave_stopped(thread: i32) -> Result<(), Errno> {
    let none = null_mut::<u8>();
    // SAFETY: takes integers.
    asked(unsafe { libc::ptrace(request!(PTRACE_LISTEN), thread, none, 0usize) })
}

/// The number of the thread or process that a stopped thread has made.
pub fn born(thread: i32) -> Result<i32, Errno> {
    let mut number: libc::c_ulong = 0;
    let none = null_mut::<u8>();
    // SAFETY: fills one long.
    asked(unsafe { libc::ptrace(request!(PTRACE_GETEVENTMSG), thread, none, &raw mut number) })?;
    i32::try_from(number).map_err(|_| Errno::INVAL)
}

/// The general registers of a stopped thread, as many as there are.
pub fn registers(thread: i32, words: &mut [u64; 64]) -> Result<&[u64], Errno> {
    let mut room = libc::iovec { iov_base: words.as_mut_ptr().cast(), iov_len: size_of_val(words) };
    let kind = libc::NT_PRSTATUS as usize;
    // SAFETY: fills at most the bytes that the structure says, and there how many it were.
    asked(unsafe { libc::ptrace(request!(PTRACE_GETREGSET), thread, kind, &raw mut room) })?;
    Ok(&words[..room.iov_len / size_of::<u64>()])
}

/// Changes the general registers of a stopped thread.
pub fn set_registers(thread: i32, words: &[u64]) -> Result<(), Errno> {
    let room =
        libc::iovec { iov_base: words.as_ptr().cast_mut().cast(), iov_len: size_of_val(words) };
    let kind = libc::NT_PRSTATUS as usize;
    // SAFETY: reads the bytes that the structure says.
    asked(unsafe { libc::ptrace(request!(PTRACE_SETREGSET), thread, kind, &raw const room) })
}

/// Writes a word into the memory of a stopped thread.
pub fn write(thread: i32, address: u64, word: u64) -> Result<(), Errno> {
    let (address, word) = (address as usize, word as usize);
    // SAFETY: takes integers; the address is the other process's.
    asked(unsafe { libc::ptrace(request!(PTRACE_POKEDATA), thread, address, word) })
}

/// Reads the memory of a process: so much of it as is there from the address on.
pub fn read(process: i32, address: u64, bytes: &mut [u8]) -> Result<usize, Errno> {
    let here = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let there = libc::iovec { iov_base: address as *mut _, iov_len: bytes.len() };
    // SAFETY: fills at most the bytes; the other address is the other process's.
    let read =
        unsafe { libc::process_vm_readv(process, &raw const here, 1, &raw const there, 1, 0) };
    usize::try_from(read).map_err(|_| errno())
}

/// Whether two processes have one memory, as a child of `vfork` has its parent's; `None` where the kernel does not say.
pub fn share_memory(one: i32, other: i32) -> Option<bool> {
    /// `linux/kcmp.h`; the crate does not have it.
    const KCMP_VM: c_int = 1;
    // SAFETY: takes integers.
    match unsafe { libc::syscall(libc::SYS_kcmp, one, other, KCMP_VM, 0usize, 0usize) } {
        -1 => None,
        order => Some(order == 0),
    }
}

/// Has this process get a SIGALRM after so many nanoseconds, in whole microseconds, at least one.
pub fn alarm(ns: u64) {
    let us = (ns / 1_000).max(1);
    let value = libc::timeval { tv_sec: (us / 1_000_000) as _, tv_usec: (us % 1_000_000) as _ };
    let never = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let timer = libc::itimerval { it_interval: never, it_value: value };
    // SAFETY: reads one structure.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, null_mut()) };
}

/// What has happened to any that is watched since that was asked last, if anything has. `ECHILD` if none is left.
pub fn happened() -> Result<Option<(i32, Happened)>, Errno> {
    let mut status = 0;
    // SAFETY: fills one int.
    let thread = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG | libc::__WALL) };
    match thread {
        0 => Ok(None),
        -1 => Err(errno()),
        _ => Ok(Some((thread, meaning(status)))),
    }
}

fn meaning(status: c_int) -> Happened {
    /// `linux/ptrace.h`; the crate has it for some C libraries only.
    const PTRACE_EVENT_STOP: c_int = 128;
    const STOPS: [c_int; 4] = [libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
    if libc::WIFEXITED(status) {
        return Happened::Exited(libc::WEXITSTATUS(status));
    }
    if libc::WIFSIGNALED(status) {
        return Happened::Killed(libc::WTERMSIG(status));
    }
    let signal = libc::WSTOPSIG(status);
    match status >> 16 {
        libc::PTRACE_EVENT_SECCOMP => Happened::Call,
        libc::PTRACE_EVENT_EXEC => Happened::Exec,
        libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE => {
            Happened::Birth
        }
        libc::PTRACE_EVENT_EXIT => Happened::Exit,
        PTRACE_EVENT_STOP if STOPS.contains(&signal) => Happened::Stopped(signal),
        PTRACE_EVENT_STOP => Happened::Begun,
        _ => Happened::Signal(signal),
    }
}

/// Has these system calls of this process stop for whoever watches it, and those of all that it starts, for good. Whether
/// that took giving up new privileges (set-user programs, capabilities of files).
pub fn stop_at(calls: &[u32], audit: u32) -> Result<bool, Errno> {
    const OF_CALLS: c_uint = 4;
    const NUMBER: c_uint = 0;
    let step = |code: c_uint, jt: usize, jf, k| libc::sock_filter {
        code: code as u16,
        jt: jt as u8,
        jf,
        k,
    };
    let load = |from| step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, from);
    let equal = |yes, no, value| step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, yes, no, value);
    let answer = |what| step(libc::BPF_RET | libc::BPF_K, 0, 0, what);
    let mut steps = vec![load(OF_CALLS), equal(1, 0, audit), answer(libc::SECCOMP_RET_ALLOW)];
    steps.push(load(NUMBER));
    // Each jumps over those behind it, and over the answer to all others.
    steps.extend(
        calls.iter().rev().enumerate().rev().map(|(after, &call)| equal(after + 1, 0, call)),
    );
    steps.extend([answer(libc::SECCOMP_RET_ALLOW), answer(libc::SECCOMP_RET_TRACE)]);
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    let install = || {
        let mode = libc::SECCOMP_SET_MODE_FILTER;
        // Without this flag some kernels slow the whole program down.
        let flags = libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW;
        // SAFETY: the program points to as many steps as it says; the kernel copies them.
        asked(unsafe { libc::syscall(libc::SYS_seccomp, mode, flags, &raw const program) })
    };
    match install() {
        Err(Errno(libc::EACCES)) => {
            // SAFETY: takes and gives integers.
            let kept = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
            asked(kept.into())?;
            install().map(|()| true)
        }
        installed => installed.map(|()| false),
    }
}
