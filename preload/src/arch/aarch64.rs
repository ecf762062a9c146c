//! aarch64: see `mod.rs`.

use core::arch::global_asm;

macro_rules! weak {
    ($name:literal) => {{
        let address: usize;
        // SAFETY: reads a word of the table that the loader has filled.
        unsafe {
            core::arch::asm!(
                concat!(".weak ", $name),
                concat!("adrp {0}, :got:", $name),
                concat!("ldr {0}, [{0}, :got_lo12:", $name, "]"),
                out(reg) address, options(pure, readonly, nostack, preserves_flags)
            );
        }
        address
    }};
}
pub(crate) use weak;

global_asm!(
    ".macro hidden name",
    ".globl \\name",
    ".hidden \\name",
    ".type \\name, %function",
    "\\name:",
    ".endm",
    "hidden clockwise_start",
    "b {start}",
    "hidden memcpy",
    "cbz x2, 2f",
    "1: sub x2, x2, 1",
    "ldrb w3, [x1, x2]",
    "strb w3, [x0, x2]",
    "cbnz x2, 1b",
    "2: ret",
    "hidden memset",
    "cbz x2, 2f",
    "1: sub x2, x2, 1",
    "strb w1, [x0, x2]",
    "cbnz x2, 1b",
    "2: ret",
    // Only equality is asked for, so that the sign of a difference means nothing.
    "hidden bcmp",
    "hidden memcmp",
    "mov w4, 0",
    "cbz x2, 2f",
    "1: sub x2, x2, 1",
    "ldrb w3, [x1, x2]",
    "ldrb w4, [x0, x2]",
    "subs w4, w4, w3",
    "b.ne 2f",
    "cbnz x2, 1b",
    "2: mov w0, w4",
    "ret",
    // _URC_CONTINUE_UNWIND
    "hidden rust_eh_personality",
    "mov w0, 8",
    "ret",
    ".purgem hidden",
    start = sym crate::process::start,
);
