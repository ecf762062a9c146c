//! Circumstances that std cannot give to a process: a seccomp filter, a mask of processors, limits,
//! closed descriptors, signals.
//!
//! # Safety
//!
//! The hooks run in the child between `fork` and `exec`. They make system calls with what was
//! prepared before, and do not allocate or lock.

#![expect(unsafe_code, reason = "std has no door to these calls")]

use std::io::{Error, Result};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// `Ok` unless the call failed.
fn checked(result: libc::c_int) -> Result<()> {
    if result == -1 { Err(Error::last_os_error()) } else { Ok(()) }
}

/// Lets the child do `hook` before it becomes the tool. The hooks below keep the rule of this file.
fn before(command: &mut Command, hook: impl FnMut() -> Result<()> + Send + Sync + 'static) {
    // SAFETY: the hooks of this file make system calls only.
    unsafe { command.pre_exec(hook) };
}

fn zeroed_set() -> libc::cpu_set_t {
    // SAFETY: an array of integers, for which zero is a value.
    unsafe { std::mem::zeroed() }
}

/// The processors that this process may use.
pub fn allowed_cpus() -> Vec<usize> {
    let mut set = zeroed_set();
    // SAFETY: fills one set of the given size.
    let result = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) };
    checked(result).expect("the kernel tells the allowed processors");
    // SAFETY: the number is below the size of the set.
    let is_set = |&cpu: &usize| unsafe { libc::CPU_ISSET(cpu, &set) };
    (0..libc::CPU_SETSIZE as usize).filter(is_set).collect()
}

/// Allows these processors only.
pub fn allow_cpus(command: &mut Command, cpus: &[usize]) {
    let mut set = zeroed_set();
    for &cpu in cpus {
        assert!(cpu < libc::CPU_SETSIZE as usize);
        // SAFETY: the number is below the size of the set.
        unsafe { libc::CPU_SET(cpu, &mut set) };
    }
    before(command, move || {
        // SAFETY: reads one set of the given size.
        checked(unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) })
    });
}

/// What a filter answers.
#[derive(Clone, Copy)]
pub enum Verdict {
    /// The call fails with this error.
    Errno(i32),
    /// The process is killed.
    Kill,
}

/// Installs a seccomp filter that answers `verdict` to these system calls.
pub fn filter(command: &mut Command, calls: &[libc::c_long], verdict: Verdict) {
    let answer = match verdict {
        Verdict::Errno(errno) => libc::SECCOMP_RET_ERRNO | errno.cast_unsigned(),
        Verdict::Kill => libc::SECCOMP_RET_KILL_PROCESS,
    };
    let step = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    // Load the number of the call; compare it with each in turn.
    let mut steps = vec![step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0)];
    for &call in calls {
        let number = u32::try_from(call).expect("numbers of system calls are small");
        steps.push(step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, number));
        steps.push(step(libc::BPF_RET | libc::BPF_K, 0, 0, answer));
    }
    steps.push(step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW));
    before(command, move || {
        // SAFETY: takes and gives integers.
        checked(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })?;
        let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
        let mode = libc::SECCOMP_MODE_FILTER;
        // SAFETY: the program points to as many steps as it says; the kernel copies them.
        checked(unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program) })
    });
}

/// Forbids the counter; the state survives `exec`.
pub fn forbid_counter(command: &mut Command) {
    before(command, || {
        // SAFETY: takes and gives integers.
        checked(unsafe { libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_SIGSEGV, 0, 0, 0) })
    });
}

/// Makes the process yield to every other.
pub fn be_nice(command: &mut Command) {
    before(command, || {
        // SAFETY: takes and gives integers.
        checked(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) })
    });
}

/// Closes a descriptor.
pub fn close(command: &mut Command, descriptor: i32) {
    before(command, move || {
        // SAFETY: the child's copy of a descriptor; what it becomes by `exec` owns nothing yet.
        checked(unsafe { libc::close(descriptor) })
    });
}

/// Has a signal ignored, which survives `exec`.
pub fn ignore(command: &mut Command, signal: i32) {
    dispose(command, signal, libc::SIG_IGN);
}

/// Has a signal heard: a parent in the background may have it ignored.
pub fn hear(command: &mut Command, signal: i32) {
    dispose(command, signal, libc::SIG_DFL);
}

fn dispose(command: &mut Command, signal: i32, how: libc::sighandler_t) {
    before(command, move || {
        // SAFETY: no handler is installed.
        let old = unsafe { libc::signal(signal, how) };
        if old == libc::SIG_ERR { Err(Error::last_os_error()) } else { Ok(()) }
    });
}

/// A limit on what a process may use.
#[derive(Clone, Copy)]
pub enum Limit {
    /// Bytes of a file that it writes.
    FileSize(u64),
    /// Processes and threads of its user.
    Processes(u64),
}

/// Limits what the process may use.
pub fn limit(command: &mut Command, limit: Limit) {
    let (resource, most) = match limit {
        Limit::FileSize(bytes) => (libc::RLIMIT_FSIZE, bytes),
        Limit::Processes(number) => (libc::RLIMIT_NPROC, number),
    };
    let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
    before(command, move || {
        // SAFETY: reads one structure.
        checked(unsafe { libc::setrlimit(resource, &raw const limit) })
    });
}

/// Sends a signal to a child that was not waited for yet.
pub fn send(child: &Child, signal: i32) {
    let id = i32::try_from(child.id()).expect("process numbers are small");
    // SAFETY: takes integers; the number is that of our own child.
    checked(unsafe { libc::kill(id, signal) }).expect("the child is there");
}

/// Whether this process may do what only root may.
pub fn is_root() -> bool {
    // SAFETY: takes nothing and gives an integer.
    unsafe { libc::geteuid() == 0 }
}

/// Has a signal held back, which survives `exec`.
pub fn block(command: &mut Command, signal: i32) {
    before(command, move || {
        // SAFETY: an array of integers, for which zero is a value.
        let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: changes one set.
        checked(unsafe { libc::sigaddset(&raw mut set, signal) })?;
        // SAFETY: reads one set.
        checked(unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) })
    });
}
