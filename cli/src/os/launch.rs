//! What stands between this process and the program that it starts: how it was started itself, `exec`, signals,
//! the end of a child.
//!
//! Must never decide: each function makes the calls that its name says.
//!
//! # Safety
//!
//! Calls into libc with pointers to local variables of the type that the call reads or fills, with strings that end in
//! a zero, and with lists of them that end in a null. One function runs before `main`: it makes two kinds of system
//! calls and stores integers.

#![expect(unsafe_code, reason = "std resets what a started program should find as it was")]

use super::{Plain, errno, zeroed};
use clockwise_core::kernel::Errno;
use std::ffi::{CStr, CString, c_char, c_int};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};

impl Plain for libc::sigset_t {}
impl Plain for libc::siginfo_t {}
impl Plain for libc::statvfs {}

/// Bit N: descriptor N was closed.
static CLOSED: AtomicU8 = AtomicU8::new(0);
static PIPE_IGNORED: AtomicBool = AtomicBool::new(false);

/// Before `main`, std has SIGPIPE ignored and opens /dev/null for closed descriptors: this comes before that.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_STD: extern "C" fn() = {
    extern "C" fn look() {
        let is_closed = |fd: &c_int| {
            // SAFETY: takes and gives integers.
            unsafe { libc::fcntl(*fd, libc::F_GETFD) == -1 }
        };
        let closed = (0..3).filter(is_closed).map(|fd| 1 << fd).sum();
        CLOSED.store(closed, Relaxed);
        PIPE_IGNORED.store(super::is_ignored(libc::SIGPIPE), Relaxed);
    }
    look
};

/// What the start of this process and its work change, as it was found.
#[derive(Clone, Copy)]
pub struct Started {
    mask: libc::sigset_t,
    child_ignored: bool,
    size_ignored: bool,
}

impl Started {
    /// To be asked before anything is changed.
    pub fn look() -> Self {
        let mut mask: libc::sigset_t = zeroed();
        // SAFETY: with a null new set it only fills the old one.
        unsafe { libc::sigprocmask(libc::SIG_BLOCK, null(), &raw mut mask) };
        let [child_ignored, size_ignored] = [libc::SIGCHLD, libc::SIGXFSZ].map(super::is_ignored);
        Self { mask, child_ignored, size_ignored }
    }

    /// Puts all of it back, for the program that comes next in this process.
    pub fn restore(&self) {
        dispose(libc::SIGPIPE, PIPE_IGNORED.load(Relaxed));
        dispose(libc::SIGCHLD, self.child_ignored);
        dispose(libc::SIGXFSZ, self.size_ignored);
        for fd in (0..3).filter(|fd| CLOSED.load(Relaxed) >> fd & 1 == 1) {
            // SAFETY: what std opened in the place of a closed descriptor; nobody owns it.
            unsafe { libc::close(fd) };
        }
        // SAFETY: reads one set.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const self.mask, null_mut()) };
    }
}

fn dispose(signal: c_int, ignored: bool) {
    let how = if ignored { libc::SIG_IGN } else { libc::SIG_DFL };
    // SAFETY: no handler is installed.
    unsafe { libc::signal(signal, how) };
}

/// Has a write beyond `RLIMIT_FSIZE` fail, instead of killing the process.
pub fn refuse_sizes() {
    dispose(libc::SIGXFSZ, true);
}

/// The environment as it is, entries without `=` included.
pub fn environment() -> Vec<CString> {
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    let mut entries = Vec::new();
    // SAFETY: libc's own list; this process has one thread and does not change it.
    let mut at = unsafe { environ };
    while !at.is_null() {
        // SAFETY: the list goes on up to a null, at which the loop ends.
        let entry = unsafe { *at };
        if entry.is_null() {
            break;
        }
        // SAFETY: an entry of the list is a string.
        let entry = unsafe { CStr::from_ptr(entry) };
        entries.push(entry.to_owned());
        // SAFETY: the entry was not the last.
        at = unsafe { at.add(1) };
    }
    entries
}

/// Becomes another program, or says why not.
pub fn exec(path: &CStr, args: &[CString], environment: &[CString]) -> Errno {
    let list = |strings: &[CString]| -> Vec<*const c_char> {
        strings.iter().map(|string| string.as_ptr()).chain([null()]).collect()
    };
    let (args, environment) = (list(args), list(environment));
    // SAFETY: strings, and lists of strings that end in a null; they live until the call returns, if it does.
    unsafe { libc::execve(path.as_ptr(), args.as_ptr(), environment.as_ptr()) };
    errno()
}

/// Whether this process may execute the file, by its mode and its mount.
pub fn may_execute(path: &CStr) -> Result<(), Errno> {
    // SAFETY: reads a string.
    let result =
        unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), libc::X_OK, libc::AT_EACCESS) };
    if result == 0 { Ok(()) } else { Err(errno()) }
}

/// The user and the group that this process really is, and the user as which it acts.
pub fn user() -> (u32, u32, u32) {
    // SAFETY: takes nothing and gives an integer.
    let real = unsafe { libc::getuid() };
    // SAFETY: as above.
    let group = unsafe { libc::getgid() };
    // SAFETY: as above.
    let effective = unsafe { libc::geteuid() };
    (real, group, effective)
}

/// Whether the file grants capabilities to whoever executes it.
pub fn has_capabilities(path: &CStr) -> bool {
    // SAFETY: reads two strings; with the size 0 nothing is filled.
    let size =
        unsafe { libc::getxattr(path.as_ptr(), c"security.capability".as_ptr(), null_mut(), 0) };
    size > 0
}

/// How the place of a file is mounted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mount {
    /// Nothing there may be executed, or mapped to be.
    pub noexec: bool,
    /// Nothing there changes its user when it is executed.
    pub nosuid: bool,
}

/// Asks for it.
pub fn mount(path: &CStr) -> Result<Mount, Errno> {
    let mut stat: libc::statvfs = zeroed();
    // SAFETY: reads a string and fills one structure.
    if unsafe { libc::statvfs(path.as_ptr(), &raw mut stat) } != 0 {
        return Err(errno());
    }
    let has = |flag| stat.f_flag & flag != 0;
    Ok(Mount { noexec: has(libc::ST_NOEXEC), nosuid: has(libc::ST_NOSUID) })
}

/// Takes the lock of an open file, unless somebody holds it.
pub fn lock(file: &File) -> bool {
    // SAFETY: takes integers; the descriptor is open.
    unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) == 0 }
}

/// Gives an open file this size, with room on its disk for all of it; whether the file system can.
pub fn reserve(file: &File, size: usize) -> bool {
    let Ok(size) = libc::off_t::try_from(size) else { return false };
    // SAFETY: takes integers; the descriptor is open.
    unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, size) == 0 }
}

/// Signals that are held back, to be asked for.
pub struct Signals(libc::sigset_t);

/// One that came.
#[derive(Clone, Copy, Debug)]
pub struct Arrived {
    /// Its number.
    pub signal: c_int,
    /// From the kernel, as what a terminal sends to all of its foreground, and not from a process.
    pub by_kernel: bool,
}

impl Signals {
    /// Holds back all that can be, but for those by which a fault of this process would show.
    pub fn hold() -> Self {
        let mut set: libc::sigset_t = zeroed();
        // SAFETY: fills one set.
        unsafe { libc::sigfillset(&raw mut set) };
        let faults = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP];
        for fault in faults.into_iter().chain([libc::SIGSYS, libc::SIGABRT]) {
            // SAFETY: changes one set; the number is a signal's.
            unsafe { libc::sigdelset(&raw mut set, fault) };
        }
        // SAFETY: reads one set.
        unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const set, null_mut()) };
        Self(set)
    }

    /// The next that comes.
    pub fn next(&self) -> Arrived {
        loop {
            let mut info: libc::siginfo_t = zeroed();
            // SAFETY: reads one set and fills one structure.
            let signal = unsafe { libc::sigwaitinfo(&raw const self.0, &raw mut info) };
            // It is interrupted where the process was stopped meanwhile.
            if signal > 0 {
                return Arrived { signal, by_kernel: info.si_code > 0 };
            }
        }
    }

    /// The next that comes within so many nanoseconds; `None` if none did, or the process was stopped meanwhile.
    pub fn next_within(&self, ns: u64) -> Option<Arrived> {
        let mut info: libc::siginfo_t = zeroed();
        let mut time: libc::timespec = zeroed();
        time.tv_sec = (ns / 1_000_000_000) as _;
        time.tv_nsec = (ns % 1_000_000_000) as _;
        // SAFETY: reads one set and one timespec, and fills one structure.
        let signal =
            unsafe { libc::sigtimedwait(&raw const self.0, &raw mut info, &raw const time) };
        (signal > 0).then_some(Arrived { signal, by_kernel: info.si_code > 0 })
    }
}

/// Sends a signal to a child that was not waited for yet.
pub fn send(child: i32, signal: c_int) {
    // SAFETY: takes integers. The number is that of a child not yet waited for, so nobody else's.
    unsafe { libc::kill(child, signal) };
}

/// The CPU time of all children that were waited for, and of those that they waited for, in nanoseconds.
pub fn children_cpu_ns() -> Option<u64> {
    let mut usage: libc::rusage = zeroed();
    // SAFETY: fills one rusage.
    if unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) } != 0 {
        return None;
    }
    let ns = |time: libc::timeval| time.tv_sec * 1_000_000_000 + time.tv_usec * 1_000;
    u64::try_from(ns(usage.ru_utime) + ns(usage.ru_stime)).ok()
}

/// What became of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It ended with this status.
    Exited(i32),
    /// This signal ended it.
    Killed(i32),
    /// This signal stopped it.
    Stopped(i32),
}

/// What became of a child since that was asked last, if anything did.
pub fn change(child: i32) -> Result<Option<Change>, Errno> {
    let mut status = 0;
    // SAFETY: fills one int.
    match unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG | libc::WUNTRACED) } {
        0 => Ok(None),
        -1 => Err(errno()),
        _ if libc::WIFSTOPPED(status) => Ok(Some(Change::Stopped(libc::WSTOPSIG(status)))),
        _ if libc::WIFSIGNALED(status) => Ok(Some(Change::Killed(libc::WTERMSIG(status)))),
        _ => Ok(Some(Change::Exited(libc::WEXITSTATUS(status)))),
    }
}

/// Lets a signal do to this process what it does by default, whatever holds it back.
fn suffer(signal: c_int) {
    let mut set: libc::sigset_t = zeroed();
    // SAFETY: changes one set; a number that is no signal's is refused.
    unsafe { libc::sigaddset(&raw mut set, signal) };
    dispose(signal, false);
    let own = std::process::id().cast_signed();
    // SAFETY: takes integers; the number is our own.
    unsafe { libc::kill(own, signal) };
    // SAFETY: reads one set.
    unsafe { libc::sigprocmask(libc::SIG_UNBLOCK, &raw const set, null_mut()) };
}

/// Stops this process by the signal; returns when it goes on, or at once where nobody could let it go on.
pub fn stop_by(signal: c_int) {
    suffer(signal);
    let mut set: libc::sigset_t = zeroed();
    // SAFETY: changes one set.
    unsafe { libc::sigaddset(&raw mut set, signal) };
    // SAFETY: reads one set.
    unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const set, null_mut()) };
}

/// Ends this process by the signal, as its child ended; there is no second core file.
pub fn end_by(signal: c_int) -> ! {
    // SAFETY: takes integers.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) };
    suffer(signal);
    // Only a signal that does not end a process by default comes here: what a shell says of one.
    std::process::exit(128 + signal)
}

/// A path as the system takes it. A path that came from the system, or from the command line, has no zero in it.
pub fn c_path(path: &Path) -> Result<CString, Errno> {
    CString::new(path.as_os_str().as_encoded_bytes()).map_err(|_| Errno::INVAL)
}
