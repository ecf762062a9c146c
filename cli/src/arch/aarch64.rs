//! aarch64. Data alone; see `mod.rs`.

use super::{Function, Names, Registers, Stub};
use framehop::aarch64::{CacheAarch64, UnwindRegsAarch64, UnwinderAarch64};
use std::sync::Arc;

pub type Unwinder = UnwinderAarch64<Arc<[u8]>>;
pub type Cache = CacheAarch64;

pub const CALLS: &[(Function, u32)] =
    &[(Function::ClockGettime, 113), (Function::Gettimeofday, 169), (Function::ClockGetres, 114)];

/// `AUDIT_ARCH_AARCH64`.
pub const AUDIT: u32 = 0xc000_00b7;

pub const VDSO: Names = Names {
    version: b"LINUX_2.6.39",
    functions: &[
        (Function::ClockGettime, b"__kernel_clock_gettime"),
        (Function::Gettimeofday, b"__kernel_gettimeofday"),
        (Function::ClockGetres, b"__kernel_clock_getres"),
    ],
};

/// `struct user_pt_regs`: x0 to x30, the stack pointer, the program counter, the state.
pub fn registers(words: &[u64]) -> Option<Registers> {
    if words.len() != 34 {
        return None;
    }
    let (ip, sp, fp, link) = (words[32], words[31], words[29], words[30]);
    let (number, argument, second) = (words[8], words[0], words[1]);
    Some(Registers { ip, sp, fp, link, number, argument, second })
}

/// The words of the instruction and the stack pointer, and of what a function gives back.
pub const IP: usize = 32;
pub const SP: usize = 31;
pub const RESULT: usize = 0;

/// `brk 0`, of one aligned word: whoever runs there meanwhile sees the old instruction or this.
pub const BREAK: &[u8] = &0xd420_0000u32.to_le_bytes();
/// Where the program is when it has run into one.
pub const AFTER_BREAK: u64 = 0;

/// `mov x8, number; svc 0; ret`.
pub fn stub(number: u32) -> Stub {
    let code = [0xd280_0008 | number << 5, 0xd400_0001, 0xd65f_03c0u32];
    Stub { code: code.map(u32::to_le_bytes).concat(), ret: 8 }
}

/// The return address is in its register.
pub fn returned(at: Registers, _read: impl FnOnce(u64) -> Option<u64>) -> Option<Registers> {
    Some(Registers { ip: at.link, ..at })
}

/// `bl` and how far, in instructions.
pub fn called(code: [u8; 8], address: u64) -> Option<u64> {
    let [_, _, _, _, instruction @ ..] = code;
    let instruction = u32::from_le_bytes(instruction);
    let distance = (instruction << 6).cast_signed() >> 6;
    let from = address.wrapping_sub(4);
    (instruction >> 26 == 0b10_0101).then_some(from.wrapping_add_signed(i64::from(distance) * 4))
}

pub fn unwound(at: Registers) -> UnwindRegsAarch64 {
    UnwindRegsAarch64::new(at.link, at.sp, at.fp)
}

pub fn frame_pointer(registers: &UnwindRegsAarch64) -> u64 {
    registers.fp()
}
