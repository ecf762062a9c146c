//! The calls that std has no door to: setting the kernel's clock, and the image's own functions.
//!
//! # Safety
//!
//! Structures of libc's, filled here; functions found by name, with the signatures that `preload/src/lib.rs` gives them.

#![expect(unsafe_code, reason = "std sets no clock, and finds no symbol")]

use clockwise::{ClockId, Errno, Timespec};
use clockwise_core::clock::STATUS_WORDS;
use std::ffi::{CStr, c_void};
use std::io::Error;

/// What the kernel says of its clock, and takes.
pub use libc::timex as Timex;

/// Whether the kernel gives programs a vDSO.
pub fn has_vdso() -> bool {
    // SAFETY: takes an integer.
    (unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) }) != 0
}

/// `Err` with errno if the call failed.
fn checked(result: i32) -> Result<i32, Error> {
    if result == -1 { Err(Error::last_os_error()) } else { Ok(result) }
}

/// No change.
pub fn timex() -> Timex {
    // SAFETY: a structure of integers.
    unsafe { std::mem::zeroed() }
}

/// `adjtimex(2)`: the state of the clock (leap seconds), and all it has to tell in `timex`.
pub fn adjtimex(timex: &mut Timex) -> Result<i32, Error> {
    // SAFETY: reads and fills one structure.
    checked(unsafe { libc::adjtimex(timex) })
}

/// Sets the wall clock.
pub fn set_realtime(nanos: i64) -> Result<(), Error> {
    let time = libc::timespec {
        tv_sec: nanos.div_euclid(1_000_000_000),
        tv_nsec: nanos.rem_euclid(1_000_000_000),
    };
    // SAFETY: reads one structure.
    checked(unsafe { libc::clock_settime(libc::CLOCK_REALTIME, &raw const time) }).map(drop)
}

/// `clock_gettime(3)` as any program calls it.
#[inline]
pub fn clock_gettime(clock: ClockId) -> Result<i64, Errno> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills one structure.
    let result = unsafe { libc::clock_gettime(clock.0, &raw mut time) };
    match checked(result) {
        Ok(_) => Ok(Timespec { sec: time.tv_sec, nsec: time.tv_nsec }.nanos_i64()),
        Err(error) => Err(Errno(error.raw_os_error().unwrap_or_default())),
    }
}

/// libc's own function, whatever was loaded before it.
#[derive(Clone, Copy)]
pub struct Libc(extern "C" fn(i32, *mut libc::timespec) -> i32);

impl Libc {
    /// `None` if libc is another one than glibc.
    pub fn find() -> Option<Self> {
        // SAFETY: a string that ends with zero; what is loaded already.
        let libc =
            unsafe { libc::dlopen(c"libc.so.6".as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_NOW) };
        if libc.is_null() {
            return None;
        }
        // SAFETY: a handle that was just given, a string that ends with zero.
        let found = unsafe { libc::dlsym(libc, c"clock_gettime".as_ptr()) };
        // SAFETY: libc's function of that name, with its signature; a null becomes `None`.
        let function = unsafe {
            std::mem::transmute::<*mut c_void, Option<extern "C" fn(i32, *mut libc::timespec) -> i32>>(
                found,
            )
        };
        function.map(Self)
    }

    /// Its answer, as it gives it.
    #[inline]
    pub fn read(self, clock: ClockId) -> (i32, libc::timespec) {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        ((self.0)(clock.0, &raw mut time), time)
    }
}

/// The same of whoever answers first: of the image, where it is loaded.
#[inline]
pub fn read(clock: ClockId) -> (i32, libc::timespec) {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills one structure.
    (unsafe { libc::clock_gettime(clock.0, &raw mut time) }, time)
}

/// The image that is loaded into this process.
#[derive(Clone, Copy)]
pub struct Image {
    reading: extern "C" fn(i32, *mut [u64; 4]) -> i32,
    status: extern "C" fn(i32, *mut [u64; STATUS_WORDS]) -> i32,
}

impl Image {
    /// `None` if there is none, or if libc's own clock comes before it.
    pub fn find() -> Option<Self> {
        let [clock, reading, status] =
            [c"clock_gettime", c"clockwise_reading", c"clockwise_status"].map(symbol);
        let [clock, reading, status] = [clock?, reading?, status?];
        if object(clock)? != object(reading)? {
            return None;
        }
        // SAFETY: the image's function of that name, with its signature.
        let reading = unsafe {
            std::mem::transmute::<*mut c_void, extern "C" fn(i32, *mut [u64; 4]) -> i32>(reading)
        };
        // SAFETY: as before.
        let status = unsafe {
            std::mem::transmute::<*mut c_void, extern "C" fn(i32, *mut [u64; STATUS_WORDS]) -> i32>(
                status,
            )
        };
        Some(Self { reading, status })
    }

    /// A reading as four words.
    pub fn reading(&self, clock: ClockId) -> Result<[u64; 4], Errno> {
        let mut told = [0; 4];
        match (self.reading)(clock.0, &raw mut told) {
            0 => Ok(told),
            negative => Err(Errno(-negative)),
        }
    }

    /// The status as words.
    pub fn status(&self, clock: ClockId) -> Option<[u64; STATUS_WORDS]> {
        let mut told = [0; STATUS_WORDS];
        ((self.status)(clock.0, &raw mut told) == 0).then_some(told)
    }
}

fn symbol(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: a string that ends with zero.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

/// Where the file lies that `symbol` is from.
fn object(symbol: *mut c_void) -> Option<usize> {
    let mut found = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: fills one structure.
    let is_found = unsafe { libc::dladdr(symbol, found.as_mut_ptr()) } != 0;
    // SAFETY: all zeros, or filled: integers and pointers either way.
    let found = unsafe { found.assume_init() };
    is_found.then_some(found.dli_fbase as usize)
}
