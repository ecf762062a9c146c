//! What the kernel and the C library tell of this process: the doctor's questions.
//!
//! Must never change anything, and must not interpret.
//!
//! # Safety
//!
//! Calls into libc with pointers to local variables of the type and size that the call fills.

#![expect(unsafe_code, reason = "std has no door to these calls")]

use super::{Plain, c_int, errno, timeval, zeroed};
use clockwise_core::kernel::Errno;
use std::ffi::{CStr, c_char};

impl Plain for i32 {}

/// Whether this thread may read the counter (`PR_GET_TSC`).
pub fn counter_allowed() -> Result<bool, Errno> {
    let mut state: c_int = zeroed();
    // SAFETY: fills one int.
    let result = unsafe { libc::prctl(libc::PR_GET_TSC, &raw mut state, 0, 0, 0) };
    if result == 0 { Ok(state != libc::PR_TSC_SIGSEGV) } else { Err(errno()) }
}

/// How much later than asked this thread's timers may fire.
pub fn timer_slack_ns() -> Result<u64, Errno> {
    // SAFETY: takes and gives integers.
    let result = unsafe { libc::prctl(libc::PR_GET_TIMERSLACK, 0, 0, 0, 0) };
    u64::try_from(result).map_err(|_| errno())
}

/// CPU time of this process in nanoseconds: of its own code, and of the kernel for it.
pub fn cpu_times_ns() -> Result<(i64, i64), Errno> {
    let mut usage: libc::rusage = zeroed();
    // SAFETY: fills one rusage.
    if unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) } != 0 {
        return Err(errno());
    }
    let ns = |time| {
        let time = timeval(time);
        time.sec.saturating_mul(1_000_000_000).saturating_add(time.nsec)
    };
    Ok((ns(usage.ru_utime), ns(usage.ru_stime)))
}

/// The kernel's log, its last part if it is longer than `bytes_max`.
pub fn kernel_log(bytes_max: usize) -> Result<Vec<u8>, Errno> {
    const READ_ALL: c_int = 3;
    const SIZE: c_int = 10;
    // SAFETY: takes and gives integers; the buffer is not used.
    let size = unsafe { libc::klogctl(SIZE, std::ptr::null_mut(), 0) };
    let size = usize::try_from(size).map_err(|_| errno())?.min(bytes_max);
    let mut text = vec![0u8; size];
    let room = c_int::try_from(size).map_err(|_| Errno::INVAL)?;
    // SAFETY: writes at most so many bytes.
    let read = unsafe { libc::klogctl(READ_ALL, text.as_mut_ptr().cast(), room) };
    text.truncate(usize::try_from(read).map_err(|_| errno())?);
    Ok(text)
}

/// The version of glibc; `None` of another library.
pub fn libc_version() -> Option<String> {
    // SAFETY: looks a name up in the libraries of this process.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"gnu_get_libc_version".as_ptr()) };
    if found.is_null() {
        return None;
    }
    // SAFETY: a function of that name is glibc's, and has this signature.
    let version = unsafe {
        std::mem::transmute::<*mut libc::c_void, extern "C" fn() -> *const c_char>(found)
    };
    // SAFETY: glibc gives a constant string.
    let text = unsafe { CStr::from_ptr(version()) };
    Some(text.to_string_lossy().into_owned())
}

/// The file that the `clock_gettime` lies in which this program calls.
pub fn clock_from() -> Option<String> {
    // SAFETY: looks a name up in the libraries of this process.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"clock_gettime".as_ptr()) };
    if found.is_null() {
        return None;
    }
    let mut info: libc::Dl_info = zeroed();
    // SAFETY: fills one structure.
    let is_found = unsafe { libc::dladdr(found, &raw mut info) } != 0;
    if !is_found || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader's name of the file, which stays as long as the file is loaded.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Some(name.to_string_lossy().into_owned())
}
