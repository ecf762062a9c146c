//! x86-64: see `mod.rs`.

macro_rules! with_caller {
    (1, $function:path) => {
        core::arch::naked_asm!("mov rsi, [rsp]", "mov rdx, rbp", "jmp {}", sym $function)
    };
    (2, $function:path) => {
        core::arch::naked_asm!("mov rdx, [rsp]", "mov rcx, rbp", "jmp {}", sym $function)
    };
}
pub(crate) use with_caller;

/// glibc's record begins there; musl's too.
pub(crate) const NEAR: (isize, isize) = (0, 1024);

/// The first word of the thread's control block is its address: the processor's convention for thread-local data, which
/// every loader sets up before it runs a library's first function.
#[inline(always)]
pub(crate) fn thread_pointer() -> u64 {
    let pointer;
    // SAFETY: reads that word.
    unsafe {
        core::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, preserves_flags, readonly));
    }
    pointer
}

// Beside those of the image, for the same reason: the compiler calls it of its own accord.
core::arch::global_asm!(
    ".globl memmove",
    ".hidden memmove",
    ".type memmove, @function",
    "memmove:",
    "mov rax, rdi",
    "mov rcx, rdx",
    "cmp rdi, rsi",
    "ja 2f",
    "rep movsb",
    "ret",
    "2: lea rdi, [rdi + rdx - 1]",
    "lea rsi, [rsi + rdx - 1]",
    "std",
    "rep movsb",
    "cld",
    "ret",
);
