//! What the image takes from the program's libc: its errno, and which bases of time it knows.
//!
//! By weak symbols, so that any libc will do, and none. Must never take what is not in `symbols.txt`.

use crate::arch::weak;
use core::mem::transmute;

/// Sets the calling thread's errno, if there is a libc to have one.
pub fn set_errno(errno: i32) {
    let address = weak!("__errno_location");
    if address != 0 {
        // SAFETY: glibc's and musl's function of this name has this signature.
        let location = unsafe { transmute::<usize, extern "C" fn() -> *mut i32>(address) };
        // SAFETY: it gives the address of the calling thread's errno.
        unsafe { location().write(errno) };
    }
}

/// Whether it is the GNU libc.
pub fn is_glibc() -> bool {
    weak!("gnu_get_libc_version") != 0
}

/// `timespec_getres` without a place for the result: `base` if libc knows it, else 0. It came with glibc 2.34.
pub fn timespec_getres(base: i32) -> i32 {
    let address = weak!("timespec_getres");
    if address == 0 {
        return 0;
    }
    // SAFETY: a function of this name has this signature by C23.
    let getres = unsafe { transmute::<usize, extern "C" fn(*mut u8, i32) -> i32>(address) };
    getres(core::ptr::null_mut(), base)
}

unsafe extern "C" {
    /// Not called: see the panic handler.
    pub safe fn abort() -> !;
}
