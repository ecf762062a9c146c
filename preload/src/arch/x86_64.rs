//! x86-64: see `mod.rs`.

use core::arch::global_asm;

macro_rules! weak {
    ($name:literal) => {{
        let address: usize;
        // SAFETY: reads a word of the table that the loader has filled.
        unsafe {
            core::arch::asm!(
                concat!(".weak ", $name),
                concat!("mov {}, qword ptr [rip + ", $name, "@GOTPCREL]"),
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
    ".type \\name, @function",
    "\\name:",
    ".endm",
    "hidden clockwise_start",
    "jmp {start}",
    "hidden memcpy",
    "mov rax, rdi",
    "mov rcx, rdx",
    "rep movsb",
    "ret",
    "hidden memset",
    "mov r8, rdi",
    "mov eax, esi",
    "mov rcx, rdx",
    "rep stosb",
    "mov rax, r8",
    "ret",
    // Only equality is asked for, so that the sign of a difference means nothing.
    "hidden bcmp",
    "hidden memcmp",
    "mov rcx, rdx",
    "xor eax, eax",
    "repe cmpsb",
    "setne al",
    "ret",
    // _URC_CONTINUE_UNWIND
    "hidden rust_eh_personality",
    "mov eax, 8",
    "ret",
    ".purgem hidden",
    start = sym crate::process::start,
);

// What is optimised for size begins anywhere. Where the first instructions of these lie across two cache lines, each
// call costs a cycle more: 7 % of a coarse clock.
global_asm!(
    ".pushsection .text.clock_gettime, \"ax\", @progbits",
    ".p2align 6",
    ".popsection",
    ".pushsection .text.passed, \"ax\", @progbits",
    ".p2align 6",
    ".popsection",
    ".pushsection .text.time, \"ax\", @progbits",
    ".p2align 6",
    ".popsection",
);
