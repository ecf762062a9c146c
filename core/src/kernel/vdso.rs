//! The vDSO: found through the auxiliary vector, read as an ELF image, called.
//!
//! # Safety
//!
//! Touches: the auxiliary vector (read by a system call), and the vDSO's mapping (read as bytes, then
//! called). Relies on the kernel mapping the vDSO whole and readable at the address that the auxiliary vector
//! names and nobody unmapping it (libc relies on the same), and on its functions having the signatures of
//! `vdso(7)`.

#![expect(unsafe_code, reason = "functions that the kernel maps into the process")]

use super::system::{checked, counter_forbidden, from_micros, read_proc_file};
use super::{ClockId, Errno};
use crate::arch;
use crate::elf::{self, ElfError, Image};
use crate::units::Timespec;
use core::fmt;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicUsize, Ordering};

pub(super) type Gettime = unsafe extern "C" fn(i32, *mut Timespec) -> i32;
pub(super) type Gettimeofday = unsafe extern "C" fn(*mut Timespec, *mut u8) -> i32;
pub(super) type Time = unsafe extern "C" fn(*mut i64) -> i64;

/// The functions that the kernel maps into every process.
///
/// They answer for the clocks they know from memory and the counter, and make the system call
/// themselves for the others. Faults where the counter is forbidden and the clocksource needs it.
#[derive(Clone, Copy, Debug)]
pub struct Vdso {
    pub(super) clock_gettime: Option<Gettime>,
    clock_getres: Option<Gettime>,
    gettimeofday: Option<Gettimeofday>,
    time: Option<Time>,
}

/// No vDSO is near this size; a header that says more is not one.
const EXTENT_MAX: usize = 1 << 20;

/// Why there is no vDSO to call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoVdso {
    /// The names of its functions on this processor are not known to this crate.
    NotThisProcessor,
    /// The auxiliary vector could not be read.
    Unreadable(Errno),
    /// The kernel gave the process none (`vdso=0`, or a tracer took it away).
    NotMapped,
    /// It could not be understood.
    Malformed(ElfError),
}

impl fmt::Display for NoVdso {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotThisProcessor => {
                f.write_str("the vDSO of this processor is not known to Clockwise")
            }
            Self::Unreadable(errno) => write!(f, "/proc/self/auxv cannot be read ({errno})"),
            Self::NotMapped => f.write_str("the kernel mapped no vDSO into this process"),
            Self::Malformed(error) => write!(f, "the vDSO cannot be read: {error}"),
        }
    }
}

impl core::error::Error for NoVdso {}

impl Vdso {
    /// One without any function: every call is `ENOSYS`.
    pub const NONE: Self =
        Self { clock_gettime: None, clock_getres: None, gettimeofday: None, time: None };

    /// Finds the vDSO of this process through the auxiliary vector.
    ///
    /// A few system calls and a walk over some twenty symbols: tens of microseconds.
    ///
    /// # Errors
    /// [`NoVdso`].
    pub fn find() -> Result<Self, NoVdso> {
        let names = arch::VDSO.ok_or(NoVdso::NotThisProcessor)?;
        let base = sysinfo_ehdr()? as *const u8;
        // SAFETY: the kernel maps at least a page there, for the life of the process.
        let head = unsafe { core::slice::from_raw_parts(base, 4096) };
        let size = elf::native_extent(head).map_err(NoVdso::Malformed)?;
        if size > EXTENT_MAX {
            return Err(NoVdso::Malformed(ElfError::Truncated));
        }
        // SAFETY: the loadable segment of that size is mapped whole and never written.
        let bytes = unsafe { core::slice::from_raw_parts(base, size) };
        let image = Image::parse_native(bytes).map_err(NoVdso::Malformed)?;
        let address = |name| {
            image.symbol(name, names.version).and_then(|at| bytes.get(at)).map(core::ptr::from_ref)
        };
        Ok(Self {
            // SAFETY: a function of that name has this signature by the vDSO's binary interface.
            clock_gettime: address(names.clock_gettime)
                .map(|at| unsafe { core::mem::transmute::<*const u8, Gettime>(at) }),
            // SAFETY: as above.
            clock_getres: address(names.clock_getres)
                .map(|at| unsafe { core::mem::transmute::<*const u8, Gettime>(at) }),
            // SAFETY: as above.
            gettimeofday: address(names.gettimeofday)
                .map(|at| unsafe { core::mem::transmute::<*const u8, Gettimeofday>(at) }),
            // SAFETY: as above.
            time: address(names.time)
                .map(|at| unsafe { core::mem::transmute::<*const u8, Time>(at) }),
        })
    }

    /// The vDSO's `clock_gettime`.
    ///
    /// # Errors
    /// The kernel's; `ENOSYS` if the vDSO has no such function.
    #[inline]
    pub fn clock_gettime(&self, clock: ClockId) -> Result<Timespec, Errno> {
        ask(self.clock_gettime, clock)
    }

    /// The vDSO's `clock_getres`.
    ///
    /// # Errors
    /// The kernel's; `ENOSYS` if the vDSO has no such function.
    #[inline]
    pub fn clock_getres(&self, clock: ClockId) -> Result<Timespec, Errno> {
        ask(self.clock_getres, clock)
    }

    /// The vDSO's `gettimeofday` without a time zone. Microseconds, given as a [`Timespec`].
    ///
    /// # Errors
    /// The kernel's; `ENOSYS` if the vDSO has no such function.
    #[inline]
    pub fn gettimeofday(&self) -> Result<Timespec, Errno> {
        let function = self.gettimeofday.ok_or(Errno::NOSYS)?;
        let mut time = Timespec::default();
        // SAFETY: it fills one timeval, which has the layout of a timespec; the zone may be null.
        let result = unsafe { function(&raw mut time, core::ptr::null_mut()) };
        checked(result as isize).map(|_| from_micros(time))
    }

    /// The vDSO's `time`: the second, as of the last tick.
    ///
    /// # Errors
    /// `ENOSYS` if the vDSO has no such function (as on aarch64).
    #[inline]
    pub fn time(&self) -> Result<i64, Errno> {
        let function = self.time.ok_or(Errno::NOSYS)?;
        // SAFETY: with a null argument it writes nothing.
        Ok(unsafe { function(core::ptr::null_mut()) })
    }
}

#[inline(always)]
fn ask(function: Option<Gettime>, clock: ClockId) -> Result<Timespec, Errno> {
    let function = function.ok_or(Errno::NOSYS)?;
    let mut time = MaybeUninit::uninit();
    // SAFETY: it fills one timespec; any clock number is allowed.
    let result = unsafe { function(clock.0, time.as_mut_ptr()) };
    checked(result as isize)?;
    // SAFETY: it did not fail, so it has filled the timespec.
    Ok(unsafe { time.assume_init() })
}

/// The address of the vDSO from the auxiliary vector: read from /proc, else asked of the kernel (Linux 6.4).
///
/// In this order: valgrind unmaps the vDSO and shows a file of its own in /proc, but lets the kernel tell its own vector. A
/// file that is not the kernel's names no vDSO: then it is system calls.
fn sysinfo_ehdr() -> Result<usize, NoVdso> {
    const PR_GET_AUXV: usize = 0x4155_5856;
    let Some(nr) = arch::NR else { return Err(NoVdso::NotThisProcessor) };
    // Some twenty pairs. One buffer for both: this may run on a signal's small stack.
    let mut bytes = [0u8; 1024];
    let length = match read_proc_file(c"/proc/self/auxv", &mut bytes) {
        Ok(read) => read.len(),
        Err(errno) => {
            let (at, room) = (bytes.as_mut_ptr() as usize, bytes.len());
            // SAFETY: writes at most `room` bytes.
            let told = unsafe { arch::syscall(nr.prctl, [PR_GET_AUXV, at, room, 0, 0, 0]) };
            let told = usize::try_from(told).ok().filter(|&told| told > 0);
            told.ok_or(NoVdso::Unreadable(errno))?.min(room)
        }
    };
    find_ehdr(bytes.get(..length).unwrap_or_default())
}

/// The vector is pairs of words, ended by a pair whose first word is zero.
fn find_ehdr(bytes: &[u8]) -> Result<usize, NoVdso> {
    const AT_SYSINFO_EHDR: usize = 33;
    const WORD: usize = size_of::<usize>();
    let word = |bytes: &[u8]| usize::from_ne_bytes(bytes.try_into().unwrap_or_default());
    let pairs = bytes.chunks_exact(2 * WORD).map(|pair| (word(&pair[..WORD]), word(&pair[WORD..])));
    let mut values = pairs.take_while(|&(name, _)| name != 0);
    let found = values.find(|&(name, _)| name == AT_SYSINFO_EHDR).map(|(_, value)| value);
    found.filter(|&address| address != 0).ok_or(NoVdso::NotMapped)
}

/// The addresses of the vDSO's functions, once somebody has looked.
struct Shared {
    /// `clock_gettime` for any clock; left where the counter is forbidden, which it reads.
    gettime: AtomicUsize,
    /// The same, for the coarse clocks, which need no counter.
    coarse: AtomicUsize,
    getres: AtomicUsize,
    gettimeofday: AtomicUsize,
    time: AtomicUsize,
}

static SHARED: Shared = Shared {
    gettime: AtomicUsize::new(UNKNOWN),
    coarse: AtomicUsize::new(UNKNOWN),
    getres: AtomicUsize::new(UNKNOWN),
    gettimeofday: AtomicUsize::new(UNKNOWN),
    time: AtomicUsize::new(UNKNOWN),
};
const UNKNOWN: usize = 0;
const NONE: usize = 1;

/// The address that is kept in one of the words of [`SHARED`]; `None` if there is no such function.
#[inline(always)]
fn known(word: &AtomicUsize) -> Option<usize> {
    match word.load(Ordering::Relaxed) {
        UNKNOWN => look_for(word),
        NONE => None,
        address => Some(address),
    }
}

#[cold]
fn look_for(word: &AtomicUsize) -> Option<usize> {
    look();
    Some(word.load(Ordering::Relaxed)).filter(|&address| address != NONE)
}

/// The answer of the process's vDSO, looked for once; `None` if there is none.
#[inline]
pub(super) fn shared_clock_gettime(clock: ClockId) -> Option<Result<Timespec, Errno>> {
    known(&SHARED.gettime).map(|address| ask(Some(gettime_at(address)), clock))
}

/// `address` is one of those that [`look`] has stored.
#[inline(always)]
fn gettime_at(address: usize) -> Gettime {
    // SAFETY: it was a function of this signature before it became a number, in `look`.
    unsafe { core::mem::transmute::<usize, Gettime>(address) }
}

/// The process's `clock_gettime`, for a clock that needs the counter or may need it.
#[inline(always)]
pub(super) fn shared_gettime() -> Option<Gettime> {
    known(&SHARED.gettime).map(gettime_at)
}

/// The process's `clock_gettime`, for a coarse clock.
#[inline(always)]
pub(super) fn shared_coarse() -> Option<Gettime> {
    known(&SHARED.coarse).map(gettime_at)
}

/// The same, if somebody has looked.
#[inline(always)]
pub(super) fn known_coarse() -> Option<Gettime> {
    let address = SHARED.coarse.load(Ordering::Relaxed);
    if address > NONE { Some(gettime_at(address)) } else { None }
}

/// The process's `time`, if somebody has looked.
#[inline(always)]
pub(super) fn known_time() -> Option<Time> {
    let address = SHARED.time.load(Ordering::Relaxed);
    // SAFETY: as in `gettime_at`.
    (address > NONE).then(|| unsafe { core::mem::transmute::<usize, Time>(address) })
}

/// The process's `clock_getres`.
#[inline(always)]
pub(super) fn shared_getres() -> Option<Gettime> {
    known(&SHARED.getres).map(gettime_at)
}

/// The process's `gettimeofday`.
#[inline(always)]
pub(super) fn shared_gettimeofday() -> Option<Gettimeofday> {
    // SAFETY: as in `gettime_at`.
    known(&SHARED.gettimeofday)
        .map(|address| unsafe { core::mem::transmute::<usize, Gettimeofday>(address) })
}

/// The process's `time`.
#[inline(always)]
pub(super) fn shared_time() -> Option<Time> {
    // SAFETY: as in `gettime_at`.
    known(&SHARED.time).map(|address| unsafe { core::mem::transmute::<usize, Time>(address) })
}

/// Finds the functions, so that nobody has to later; reads no clock. Whoever comes at the same time finds the same.
#[cold]
#[inline(never)]
pub(super) fn look() {
    let vdso = Vdso::find().unwrap_or(Vdso::NONE);
    let put = |word: &AtomicUsize, address: Option<usize>| {
        // What was left since stays left.
        let new = address.unwrap_or(NONE);
        let _ = word.compare_exchange(UNKNOWN, new, Ordering::Relaxed, Ordering::Relaxed);
    };
    let gettime = vdso.clock_gettime.map(|function| function as usize);
    put(&SHARED.gettime, gettime.filter(|_| !counter_forbidden()));
    put(&SHARED.coarse, gettime);
    put(&SHARED.getres, vdso.clock_getres.map(|function| function as usize));
    put(&SHARED.gettimeofday, vdso.gettimeofday.map(|function| function as usize));
    put(&SHARED.time, vdso.time.map(|function| function as usize));
}

/// From now on nobody calls what reads the counter: the child of a fork may be forbidden what its parent was not.
pub(super) fn leave_shared() {
    SHARED.gettime.store(NONE, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_without_the_entry_or_with_a_null_one_means_no_vdso() {
        let find = |words: &[usize]| {
            let mut bytes = [0; 64];
            for (bytes, word) in bytes.chunks_exact_mut(size_of::<usize>()).zip(words) {
                bytes.copy_from_slice(&word.to_ne_bytes());
            }
            find_ehdr(&bytes[..size_of_val(words)])
        };
        assert_eq!(find(&[6, 4096, 33, 0x7000, 0, 0]), Ok(0x7000));
        assert_eq!(find(&[6, 4096, 0, 0, 33, 0x7000]), Err(NoVdso::NotMapped));
        assert_eq!(find(&[33, 0, 0, 0]), Err(NoVdso::NotMapped));
        assert_eq!(find(&[33]), Err(NoVdso::NotMapped), "half a pair");
        assert_eq!(find(&[]), Err(NoVdso::NotMapped));
    }

    #[test]
    fn only_the_last_page_of_results_are_errors() {
        assert_eq!(checked(-22), Err(Errno::INVAL));
        assert_eq!(checked(-4095), Err(Errno(4095)));
        assert_eq!(checked(0), Ok(0));
        assert!(checked(-4096).is_ok());
    }
}
