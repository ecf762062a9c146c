//! x86-64. Data alone; see `mod.rs`.

use super::{Function, Names, Registers, Stub};
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use std::sync::Arc;

pub type Unwinder = UnwinderX86_64<Arc<[u8]>>;
pub type Cache = CacheX86_64;

pub const CALLS: &[(Function, u32)] = &[
    (Function::ClockGettime, 228),
    (Function::Gettimeofday, 96),
    (Function::Time, 201),
    (Function::ClockGetres, 229),
];

/// `AUDIT_ARCH_X86_64`.
pub const AUDIT: u32 = 0xc000_003e;

pub const VDSO: Names = Names {
    version: b"LINUX_2.6",
    functions: &[
        (Function::ClockGettime, b"__vdso_clock_gettime"),
        (Function::Gettimeofday, b"__vdso_gettimeofday"),
        (Function::Time, b"__vdso_time"),
        (Function::ClockGetres, b"__vdso_clock_getres"),
    ],
};

/// `struct user_regs_struct`: 27 words.
pub fn registers(words: &[u64]) -> Option<Registers> {
    const CODE_SEGMENT: usize = 17;
    const USER64: u64 = 0x33;
    if words.len() != 27 || words[CODE_SEGMENT] != USER64 {
        return None;
    }
    let (ip, sp, fp) = (words[16], words[19], words[4]);
    let (argument, second) = (words[14], words[13]);
    Some(Registers { ip, sp, fp, link: 0, number: words[15], argument, second })
}

/// The words of the instruction and the stack pointer, and of what a function gives back.
pub const IP: usize = 16;
pub const SP: usize = 19;
pub const RESULT: usize = 10;

/// `int3`, of one byte: whoever runs there meanwhile sees the old instruction or this.
pub const BREAK: &[u8] = &[0xcc];
/// Where the program is when it has run into one.
pub const AFTER_BREAK: u64 = 1;

/// `mov eax, number; syscall; ret`.
pub fn stub(number: u32) -> Stub {
    let number = number.to_le_bytes();
    let code = [&[0xb8][..], &number, &[0x0f, 0x05, 0xc3]].concat();
    Stub { code, ret: 7 }
}

/// The caller has pushed the return address.
pub fn returned(at: Registers, read: impl FnOnce(u64) -> Option<u64>) -> Option<Registers> {
    Some(Registers { ip: read(at.sp)?, sp: at.sp.wrapping_add(8), ..at })
}

/// `call` and how far.
pub fn called(code: [u8; 8], address: u64) -> Option<u64> {
    let [_, _, _, 0xe8, distance @ ..] = code else { return None };
    Some(address.wrapping_add_signed(i32::from_le_bytes(distance).into()))
}

pub fn unwound(at: Registers) -> UnwindRegsX86_64 {
    UnwindRegsX86_64::new(at.ip, at.sp, at.fp)
}

pub fn frame_pointer(registers: &UnwindRegsX86_64) -> u64 {
    registers.bp()
}
