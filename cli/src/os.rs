//! libc, as the tool needs it: the clock calls that are measured, and what the operating system
//! knows of the calling thread. With `os/` the only files of the tool with unsafe code.
//!
//! Must never interpret: each function makes one call and hands on its result or errno. The clock
//! calls are inlined into the measuring loops, so nothing is added to them.
//!
//! # Safety
//!
//! Calls into libc with pointers to local variables of the type that the call fills, and `fork`
//! under the rule stated at [`in_child`].

#![expect(unsafe_code, reason = "the C calls whose cost is measured have no other door")]
#![expect(clippy::unnecessary_cast, reason = "C's types are narrower on 32-bit processors")]

pub mod facts;
pub mod launch;
pub mod trace;

use clockwise_core::clock::STATUS_WORDS;
use clockwise_core::kernel::{ClockId, Errno};
use clockwise_core::units::Timespec;
use std::ffi::c_int;
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr::null_mut;

fn errno() -> Errno {
    Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
}

fn zeroed<T: Plain>() -> T {
    // SAFETY: `Plain` is implemented only for C structures for which all zeros is a value.
    unsafe { std::mem::zeroed() }
}

/// C structures that consist of integers, integer arrays and nullable function pointers.
trait Plain {}
impl Plain for libc::sigaction {}
impl Plain for libc::rusage {}
impl Plain for libc::tms {}
impl Plain for libc::timex {}
impl Plain for libc::utsname {}
impl Plain for libc::rlimit {}
impl Plain for libc::timespec {}
impl Plain for libc::timeval {}
impl Plain for libc::Dl_info {}

fn timespec(time: libc::timespec) -> Timespec {
    Timespec { sec: time.tv_sec as i64, nsec: time.tv_nsec as i64 }
}

fn timeval(time: libc::timeval) -> Timespec {
    Timespec { sec: time.tv_sec as i64, nsec: time.tv_usec as i64 * 1000 }
}

/// `clock_gettime(3)`.
#[inline(always)]
pub fn clock_gettime(clock: ClockId) -> Result<Timespec, Errno> {
    let mut time: libc::timespec = zeroed();
    // SAFETY: fills one timespec; any clock number is allowed.
    let result = unsafe { libc::clock_gettime(clock.0, &raw mut time) };
    if result == 0 { Ok(timespec(time)) } else { Err(errno()) }
}

/// `clock_getres(3)`.
pub fn clock_getres(clock: ClockId) -> Result<Timespec, Errno> {
    let mut time: libc::timespec = zeroed();
    // SAFETY: fills one timespec; any clock number is allowed.
    let result = unsafe { libc::clock_getres(clock.0, &raw mut time) };
    if result == 0 { Ok(timespec(time)) } else { Err(errno()) }
}

/// `gettimeofday(3)` without a time zone.
#[inline(always)]
pub fn gettimeofday() -> Result<Timespec, Errno> {
    let mut time: libc::timeval = zeroed();
    // SAFETY: fills one timeval; the zone may be null.
    let result = unsafe { libc::gettimeofday(&raw mut time, null_mut()) };
    if result == 0 { Ok(timeval(time)) } else { Err(errno()) }
}

/// `time(3)`.
#[inline(always)]
pub fn time() -> i64 {
    // SAFETY: with a null argument nothing is written.
    let second = unsafe { libc::time(null_mut()) };
    second as i64
}

unsafe extern "C" {
    /// C11; not declared by the libc crate for Linux.
    #[link_name = "timespec_get"]
    fn c_timespec_get(time: *mut libc::timespec, base: c_int) -> c_int;
}

/// `timespec_get(TIME_UTC)` of C11.
#[inline(always)]
pub fn timespec_get() -> Result<Timespec, Errno> {
    const TIME_UTC: c_int = 1;
    let mut time: libc::timespec = zeroed();
    // SAFETY: fills one timespec.
    let result = unsafe { c_timespec_get(&raw mut time, TIME_UTC) };
    if result == TIME_UTC { Ok(timespec(time)) } else { Err(errno()) }
}

/// User CPU time of the process by `getrusage(2)`.
#[inline(always)]
pub fn user_time() -> Result<Timespec, Errno> {
    let mut usage: libc::rusage = zeroed();
    // SAFETY: fills one rusage.
    let result = unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    if result == 0 { Ok(timeval(usage.ru_utime)) } else { Err(errno()) }
}

/// `times(2)`: clock ticks (1/`ticks_per_second`) since an arbitrary point, wrapping.
#[inline(always)]
pub fn times() -> i64 {
    let mut times: libc::tms = zeroed();
    // SAFETY: fills one tms.
    let ticks = unsafe { libc::times(&raw mut times) };
    ticks as i64
}

/// The unit of `times`.
pub fn ticks_per_second() -> i64 {
    // SAFETY: takes and gives an integer.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    if ticks > 0 { ticks as i64 } else { 100 }
}

unsafe extern "C" {
    /// C89; not declared by the libc crate for every Linux.
    #[link_name = "clock"]
    fn c_clock() -> libc::c_long;
}

/// `clock(3)`: CPU time of the process in microseconds.
#[inline(always)]
pub fn clock() -> Result<i64, Errno> {
    // SAFETY: takes nothing and gives an integer.
    let time = unsafe { c_clock() };
    if time == -1 { Err(errno()) } else { Ok(time as i64) }
}

/// How often the kernel took the processor away from this thread (involuntary context switches).
pub fn preemptions() -> Result<i64, Errno> {
    let mut usage: libc::rusage = zeroed();
    // SAFETY: fills one rusage.
    let result = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    if result == 0 { Ok(usage.ru_nivcsw as i64) } else { Err(errno()) }
}

/// The processor that this thread runs on.
pub fn current_cpu() -> Result<usize, Errno> {
    // SAFETY: takes nothing and gives an integer.
    usize::try_from(unsafe { libc::sched_getcpu() }).map_err(|_| errno())
}

/// A set of processors of any size, as the kernel has it: one bit each.
const WORD: usize = libc::c_ulong::BITS as usize;

/// The processors that this thread may run on, ascending.
pub fn allowed_cpus() -> Result<Vec<usize>, Errno> {
    // The kernel refuses a set that is smaller than its own, which a machine may have at any size.
    for words in [16, 128, 1024] {
        let mut set: Vec<libc::c_ulong> = vec![0; words];
        // SAFETY: fills at most the bytes of the set.
        let result =
            unsafe { libc::sched_getaffinity(0, size_of_val(&set[..]), set.as_mut_ptr().cast()) };
        if result == 0 {
            let is_set = |&cpu: &usize| set[cpu / WORD] >> (cpu % WORD) & 1 == 1;
            return Ok((0..words * WORD).filter(is_set).collect());
        }
        if errno() != Errno::INVAL {
            break;
        }
    }
    Err(errno())
}

/// Lets this thread run on `cpus` only.
pub fn pin(cpus: &[usize]) -> Result<(), Errno> {
    let words = cpus.iter().max().map_or(0, |cpu| cpu / WORD) + 1;
    let mut set: Vec<libc::c_ulong> = vec![0; words];
    for cpu in cpus {
        set[cpu / WORD] |= 1 << (cpu % WORD);
    }
    // SAFETY: reads the bytes of the set.
    let result = unsafe { libc::sched_setaffinity(0, size_of_val(&set[..]), set.as_ptr().cast()) };
    if result == 0 { Ok(()) } else { Err(errno()) }
}

/// How much memory this process may still take by its own limit (`RLIMIT_AS`), in bytes.
pub fn address_space_limit() -> Option<u64> {
    let mut limit: libc::rlimit = zeroed();
    // SAFETY: fills one rlimit.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) };
    (result == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur as u64)
}

/// Whether a signal is ignored, as `nohup` or a shell's `trap ''` have arranged for this process.
pub fn is_ignored(signal: c_int) -> bool {
    let mut action: libc::sigaction = zeroed();
    // SAFETY: with a null new action it only fills the old one.
    let result = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    result == 0 && action.sa_sigaction == libc::SIG_IGN
}

/// Forbids or allows this process to read the counter (`PR_SET_TSC`).
pub fn forbid_counter() -> Result<(), Errno> {
    // SAFETY: takes and gives integers. Later reads of the counter are SIGSEGV, as documented.
    let result = unsafe { libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_SIGSEGV, 0, 0, 0) };
    if result == 0 { Ok(()) } else { Err(errno()) }
}

/// The kernel's name and release, as in `uname -sr`.
pub fn kernel_name() -> Result<(String, String), Errno> {
    let mut names: libc::utsname = zeroed();
    // SAFETY: fills one utsname.
    if unsafe { libc::uname(&raw mut names) } != 0 {
        return Err(errno());
    }
    let text = |field: &[libc::c_char]| -> String {
        field.iter().take_while(|&&c| c != 0).map(|&c| char::from(c as u8)).collect()
    };
    Ok((text(&names.sysname), text(&names.release)))
}

/// What the kernel says of its synchronisation to an outside clock.
pub struct Discipline {
    /// `TIME_OK` (0) .. `TIME_ERROR` (5).
    pub state: i32,
    /// `STA_*` bits.
    pub status: i32,
    /// Maximum error, microseconds.
    pub max_error_us: i64,
    /// Frequency correction, millionths of a ppm are dropped.
    pub frequency_ppm: f64,
    /// TAI minus UTC, seconds; 0 if nobody told the kernel.
    pub tai_offset_s: i32,
}

/// `adjtimex(2)`, reading only.
pub fn discipline() -> Result<Discipline, Errno> {
    let mut timex: libc::timex = zeroed();
    // SAFETY: with `modes` zero it only fills the structure.
    let state = unsafe { libc::adjtimex(&raw mut timex) };
    if state < 0 {
        return Err(errno());
    }
    Ok(Discipline {
        state,
        status: timex.status,
        max_error_us: timex.maxerror as i64,
        frequency_ppm: timex.freq as f64 / 65_536.0,
        tai_offset_s: timex.tai,
    })
}

/// How a child of [`in_child`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself.
    Exited,
    /// By this signal.
    Killed(i32),
}

/// Runs `work` in a forked child that then ends, without running destructors or exit handlers.
/// Gives the child's process number.
///
/// The caller must be the process's only thread: then the child may do whatever the parent could.
/// That is a matter of correctness (a lock that another thread holds stays held in the child), not
/// of memory safety.
pub fn in_child(work: impl FnOnce()) -> Result<i32, Errno> {
    // SAFETY: the child runs `work` and leaves by `_exit`; see above.
    match unsafe { libc::fork() } {
        -1 => Err(errno()),
        0 => {
            work();
            // SAFETY: ends the process.
            unsafe { libc::_exit(0) }
        }
        child => Ok(child),
    }
}

/// Has the kernel keep how children end until [`wait`] asks: a parent may have arranged otherwise.
pub fn keep_children() {
    // SAFETY: no handler is installed.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

/// Kills a child outright; it still has to be waited for.
pub fn kill(child: i32) {
    // SAFETY: takes integers. The number is that of a child not yet waited for, so nobody else's.
    unsafe { libc::kill(child, libc::SIGKILL) };
}

/// Waits for a child to end.
pub fn wait(child: i32) -> Result<End, Errno> {
    let mut status = 0;
    loop {
        // SAFETY: fills one int.
        let result = unsafe { libc::waitpid(child, &raw mut status, 0) };
        if result == child {
            break;
        }
        if errno() != Errno(libc::EINTR) {
            return Err(errno());
        }
    }
    let signalled = libc::WIFSIGNALED(status);
    Ok(if signalled { End::Killed(libc::WTERMSIG(status)) } else { End::Exited })
}

/// A pipe: reading end, writing end.
pub fn pipe() -> Result<(OwnedFd, OwnedFd), Errno> {
    let mut ends = [0; 2];
    // SAFETY: fills two ints.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(errno());
    }
    // SAFETY: fresh descriptors that nobody else owns.
    let reading = unsafe { OwnedFd::from_raw_fd(ends[0]) };
    // SAFETY: as above.
    let writing = unsafe { OwnedFd::from_raw_fd(ends[1]) };
    Ok((reading, writing))
}

/// Waits for about `ns`; less if a signal comes, not at all if a sandbox denies it. Unlike `sleep` it
/// does not panic then, and it reads no clock.
pub fn pause(ns: u64) {
    let mut time: libc::timespec = zeroed();
    time.tv_sec = (ns / 1_000_000_000) as _;
    time.tv_nsec = (ns % 1_000_000_000) as _;
    // SAFETY: waits for no descriptor and no signal; reads one timespec.
    unsafe { libc::ppoll(null_mut(), 0, &raw const time, std::ptr::null()) };
}

/// Whether `fd` has something to read, or its other end is closed, within `timeout_ms`. A signal
/// starts the waiting anew.
pub fn is_readable(fd: c_int, timeout_ms: c_int) -> bool {
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    loop {
        // SAFETY: one structure, as the count says.
        let result = unsafe { libc::poll(&raw mut poll, 1, timeout_ms) };
        if result >= 0 || errno() != Errno(libc::EINTR) {
            return result > 0;
        }
    }
}

/// How the image tells `N` words about a clock: 0, or the error negative.
type Tell<const N: usize> = unsafe extern "C" fn(c_int, *mut [u64; N]) -> c_int;

/// The functions by which the preloaded image answers to our own tools.
#[derive(Clone, Copy)]
pub struct Image {
    reading: Tell<4>,
    status: Tell<STATUS_WORDS>,
}

/// The image, if this process has one and its `clock_gettime` is the one that libc's callers reach.
pub fn image() -> Option<Image> {
    let address = |name: &std::ffi::CStr| {
        // SAFETY: looks a name up in the libraries of this process.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        (!found.is_null()).then_some(found.cast_const())
    };
    let (reading, status) = (address(c"clockwise_reading")?, address(c"clockwise_status")?);
    if object_of(reading)? != object_of(address(c"clock_gettime")?)? {
        return None;
    }
    // SAFETY: a function of that name has this signature: it is the image's, and we made that.
    let reading = unsafe { std::mem::transmute::<*const libc::c_void, Tell<4>>(reading) };
    // SAFETY: as above.
    let status = unsafe { std::mem::transmute::<*const libc::c_void, Tell<STATUS_WORDS>>(status) };
    Some(Image { reading, status })
}

/// The library that an address lies in, by where it is mapped.
fn object_of(address: *const libc::c_void) -> Option<usize> {
    let mut info: libc::Dl_info = zeroed();
    // SAFETY: fills one structure.
    let found = unsafe { libc::dladdr(address, &raw mut info) };
    (found != 0).then_some(info.dli_fbase as usize)
}

impl Image {
    /// Nanoseconds, their bound, the bound if the rate is steady, and 1 if they came from the counter.
    #[inline]
    pub fn reading(&self, clock: ClockId) -> Result<[u64; 4], Errno> {
        told(self.reading, clock)
    }

    /// The words of a `Status`.
    pub fn status(&self, clock: ClockId) -> Result<[u64; STATUS_WORDS], Errno> {
        told(self.status, clock)
    }
}

#[inline]
fn told<const N: usize>(tell: Tell<N>, clock: ClockId) -> Result<[u64; N], Errno> {
    let mut words = [0; N];
    // SAFETY: fills so many words; any clock number is allowed.
    let result = unsafe { tell(clock.0, &raw mut words) };
    if result == 0 { Ok(words) } else { Err(Errno(-result)) }
}
