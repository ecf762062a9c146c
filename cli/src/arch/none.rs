//! Any other processor: nothing is known of it, and nobody watched. See `mod.rs`.

use super::{Function, Names, Registers, Stub};
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use std::sync::Arc;

pub type Unwinder = UnwinderX86_64<Arc<[u8]>>;
pub type Cache = CacheX86_64;

pub const CALLS: &[(Function, u32)] = &[];

pub const AUDIT: u32 = 0;

pub const VDSO: Names = Names { version: b"", functions: &[] };

pub fn registers(_words: &[u64]) -> Option<Registers> {
    None
}

pub const IP: usize = 0;
pub const SP: usize = 1;
pub const RESULT: usize = 2;
pub const BREAK: &[u8] = &[];
pub const AFTER_BREAK: u64 = 0;

pub fn stub(_number: u32) -> Stub {
    Stub { code: Vec::new(), ret: 0 }
}

pub fn returned(_at: Registers, _read: impl FnOnce(u64) -> Option<u64>) -> Option<Registers> {
    None
}

pub fn called(_code: [u8; 8], _address: u64) -> Option<u64> {
    None
}

pub fn unwound(at: Registers) -> UnwindRegsX86_64 {
    UnwindRegsX86_64::new(at.ip, at.sp, at.fp)
}

pub fn frame_pointer(registers: &UnwindRegsX86_64) -> u64 {
    registers.bp()
}
