//! aarch64: see `mod.rs`.

macro_rules! with_caller {
    (1, $function:path) => {
        core::arch::naked_asm!("mov x1, x30", "mov x2, x29", "b {}", sym $function)
    };
    (2, $function:path) => {
        core::arch::naked_asm!("mov x2, x30", "mov x3, x29", "b {}", sym $function)
    };
}
pub(crate) use with_caller;

/// The record lies before what the register points to.
pub(crate) const NEAR: (isize, isize) = (-2560, 0);

#[inline(always)]
pub(crate) fn thread_pointer() -> u64 {
    let pointer;
    // SAFETY: reads a register.
    unsafe {
        core::arch::asm!(
            "mrs {}, tpidr_el0", out(reg) pointer, options(nostack, preserves_flags, nomem, pure)
        );
    }
    pointer
}

// Beside those of the image, for the same reason: the compiler calls it of its own accord.
core::arch::global_asm!(
    ".globl memmove",
    ".hidden memmove",
    ".type memmove, %function",
    "memmove:",
    "cbz x2, 4f",
    "cmp x0, x1",
    "b.hi 3f",
    "mov x4, 0",
    "2: ldrb w3, [x1, x4]",
    "strb w3, [x0, x4]",
    "add x4, x4, 1",
    "cmp x4, x2",
    "b.ne 2b",
    "ret",
    "3: sub x2, x2, 1",
    "ldrb w3, [x1, x2]",
    "strb w3, [x0, x2]",
    "cbnz x2, 3b",
    "4: ret",
);
