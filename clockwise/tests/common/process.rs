//! What std cannot do to a process: fork, filters, signals and timers, the counter forbidden, processors, what runs at
//! its exit.
//!
//! # Safety
//!
//! The child of [`fork`] has one thread; what it runs may allocate (glibc sees to its allocator across forks), and
//! leaves by `_exit`. Handlers read clocks and touch atomics.

#![expect(unsafe_code, reason = "std has no door to these calls")]

use std::io::{Error, Result};

/// `Ok` unless the call failed.
fn checked(result: libc::c_int) -> Result<()> {
    if result == -1 { Err(Error::last_os_error()) } else { Ok(()) }
}

/// After so many seconds a child is taken to hang, and dies of SIGALRM.
const HANGS: u32 = 60;

/// A forked child that was not waited for yet.
#[must_use]
pub struct Forked(libc::pid_t);

/// Runs `work` in a child of this process.
pub fn fork(work: impl FnOnce() -> std::result::Result<(), String>) -> Forked {
    // SAFETY: the child runs `work` in its only thread and ends by `_exit`.
    let id = unsafe { libc::fork() };
    checked(id).expect("a process can be had");
    if id != 0 {
        return Forked(id);
    }
    // SAFETY: takes and gives integers.
    unsafe { libc::alarm(HANGS) };
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)) {
        Ok(Ok(())) => leave(0),
        Ok(Err(words)) => tell(&words),
        Err(panic) => match panic.downcast::<String>() {
            Ok(words) => tell(&words),
            Err(_) => tell("a panic"),
        },
    }
    leave(1)
}

impl Forked {
    /// # Errors
    /// How the child ended, if not well.
    pub fn wait(self) -> std::result::Result<(), String> {
        let mut status = 0;
        // SAFETY: fills one integer; the child is ours, and was not waited for.
        checked(unsafe { libc::waitpid(self.0, &raw mut status, 0) }).expect("it is our child");
        match status {
            0 => Ok(()),
            _ if libc::WIFSIGNALED(status) => match libc::WTERMSIG(status) {
                libc::SIGALRM => Err("the child hangs".into()),
                signal => Err(format!("the child was ended by signal {signal}")),
            },
            _ => Err(format!("the child exits with {}", libc::WEXITSTATUS(status))),
        }
    }
}

/// Ends the process at once: nothing else of it runs.
pub fn leave(code: i32) -> ! {
    // SAFETY: takes an integer and does not return.
    unsafe { libc::_exit(code) }
}

/// Words on standard error, without std's lock, which another thread may have held at the fork.
pub fn tell(words: &str) {
    for part in [words, "\n"] {
        // SAFETY: reads as many bytes as there are.
        unsafe { libc::write(2, part.as_ptr().cast(), part.len()) };
    }
}

/// Has `work` done at the normal exit of the process.
pub fn at_exit(work: extern "C" fn()) {
    // SAFETY: a function of this program, which is never unloaded.
    assert_eq!(unsafe { libc::atexit(work) }, 0);
}

/// Forbids the counter to this thread, and to those that it starts.
///
/// # Errors
/// The system cannot.
pub fn forbid_counter() -> Result<()> {
    // SAFETY: takes and gives integers.
    checked(unsafe { libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_SIGSEGV, 0, 0, 0) })
}

/// What becomes of a system call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Allow,
    /// It fails with this error.
    Errno(i32),
    /// The process dies of SIGSYS.
    Kill,
}

impl Verdict {
    fn code(self) -> u32 {
        match self {
            Self::Allow => libc::SECCOMP_RET_ALLOW,
            Self::Errno(errno) => libc::SECCOMP_RET_ERRNO | errno as u32,
            Self::Kill => libc::SECCOMP_RET_KILL_PROCESS,
        }
    }
}

/// Installs a filter for this thread: `verdict` for these system calls, `otherwise` for all others.
///
/// # Errors
/// The system has no filters.
pub fn filter(calls: &[libc::c_long], verdict: Verdict, otherwise: Verdict) -> Result<()> {
    let step = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    // Load the number of the call; compare it with each in turn.
    let mut steps = vec![step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0)];
    for &call in calls {
        let number = u32::try_from(call).expect("numbers of system calls are small");
        steps.push(step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, number));
        steps.push(step(libc::BPF_RET | libc::BPF_K, 0, 0, verdict.code()));
    }
    steps.push(step(libc::BPF_RET | libc::BPF_K, 0, 0, otherwise.code()));
    // SAFETY: takes and gives integers.
    checked(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })?;
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    let mode = libc::SECCOMP_MODE_FILTER;
    // SAFETY: the program points to as many steps as it says; the kernel copies them.
    checked(unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program) })
}

/// Puts future children of this process in a time namespace of their own; a user namespace too where that is
/// needed. Of a process with one thread only.
///
/// # Errors
/// Not permitted, or not known to the kernel.
pub fn unshare_time() -> Result<()> {
    const CLONE_NEWTIME: libc::c_int = 0x80;
    // SAFETY: takes and gives integers.
    checked(unsafe { libc::unshare(CLONE_NEWTIME) })
        // SAFETY: as above.
        .or_else(|_| checked(unsafe { libc::unshare(CLONE_NEWTIME | libc::CLONE_NEWUSER) }))
}

/// Moves this process into the time namespace of its future children.
///
/// # Errors
/// Not permitted, or more than one thread.
pub fn enter_time() -> Result<()> {
    const CLONE_NEWTIME: libc::c_int = 0x80;
    let there = std::fs::File::open("/proc/self/ns/time_for_children")?;
    // SAFETY: takes integers, one of them an open file's.
    checked(unsafe { libc::setns(std::os::fd::AsRawFd::as_raw_fd(&there), CLONE_NEWTIME) })
}

/// Has `handler` run at `signal`, on the stack of [`own_stack`] in threads that have one.
pub fn handle(signal: i32, handler: extern "C" fn(i32)) {
    // SAFETY: a structure of integers, for which zeros are values.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_ONSTACK | libc::SA_RESTART;
    // SAFETY: the handlers of the tests read clocks and touch atomics.
    let result = unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
    checked(result).expect("a handler can be set");
}

/// Gives this thread's handlers a stack of 32 KiB, with a page below it that nobody may touch.
pub fn own_stack() {
    const SIZE: usize = 32 * 1024;
    const GUARD: usize = 64 * 1024;
    let (access, kind) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a fresh mapping.
    let start =
        unsafe { libc::mmap(std::ptr::null_mut(), GUARD + SIZE, access, kind, -1, 0) }.cast::<u8>();
    assert_ne!(start, libc::MAP_FAILED.cast(), "memory can be had");
    // SAFETY: the first part of the mapping, which nobody has used.
    checked(unsafe { libc::mprotect(start.cast(), GUARD, libc::PROT_NONE) }).expect("a guard");
    let stack = start.wrapping_add(GUARD).cast();
    let stack = libc::stack_t { ss_sp: stack, ss_flags: 0, ss_size: SIZE };
    // SAFETY: the second part of the mapping, which is never unmapped.
    checked(unsafe { libc::sigaltstack(&raw const stack, std::ptr::null_mut()) }).expect("a stack");
}

/// Sends `signal` to the process every so many microseconds, as long as it lives.
pub fn beat(signal: i32, period_us: i64) {
    // SAFETY: a structure of integers, for which zeros are values.
    let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
    event.sigev_notify = libc::SIGEV_SIGNAL;
    event.sigev_signo = signal;
    let mut timer = std::ptr::null_mut();
    // SAFETY: reads one structure and fills one number.
    checked(unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) })
        .expect("a timer can be had");
    let period = libc::timespec { tv_sec: 0, tv_nsec: period_us * 1_000 };
    let times = libc::itimerspec { it_interval: period, it_value: period };
    // SAFETY: the timer was made above; reads one structure.
    checked(unsafe { libc::timer_settime(timer, 0, &raw const times, std::ptr::null_mut()) })
        .expect("a timer can be set");
}

/// A thread, for [`send`].
#[derive(Clone, Copy)]
pub struct Thread(libc::pthread_t);

/// The calling one.
pub fn this_thread() -> Thread {
    // SAFETY: takes nothing and gives a number.
    Thread(unsafe { libc::pthread_self() })
}

/// Sends `signal` to a thread that has not ended: the caller joins it later.
pub fn send(thread: Thread, signal: i32) {
    // SAFETY: the thread has not been joined.
    assert_eq!(unsafe { libc::pthread_kill(thread.0, signal) }, 0);
}

/// The number by which the kernel knows the calling thread.
pub fn thread_id() -> i32 {
    // SAFETY: takes nothing and gives an integer.
    unsafe { libc::gettid() }
}

fn zeroed_set() -> libc::cpu_set_t {
    // SAFETY: an array of integers, for which zero is a value.
    unsafe { std::mem::zeroed() }
}

/// The processors that the calling thread may use.
pub fn allowed_cpus() -> Vec<usize> {
    let mut set = zeroed_set();
    // SAFETY: fills one set of the given size.
    let result = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) };
    checked(result).expect("the kernel tells the allowed processors");
    // SAFETY: the number is below the size of the set.
    let is_set = |&cpu: &usize| unsafe { libc::CPU_ISSET(cpu, &set) };
    (0..libc::CPU_SETSIZE as usize).filter(is_set).collect()
}

/// Allows the calling thread this processor only: it is there when this returns.
pub fn pin(cpu: usize) {
    let mut set = zeroed_set();
    assert!(cpu < libc::CPU_SETSIZE as usize);
    // SAFETY: the number is below the size of the set.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: reads one set of the given size.
    checked(unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) })
        .expect("an allowed processor can be had");
}
