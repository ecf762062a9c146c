//! aarch64: the virtual counter between its barriers, its frequency register, the system call
//! instruction.
//!
//! # Safety
//!
//! Inline assembly only. Reads of the counter touch registers alone. Linux lets user space read
//! `CNTVCT_EL0` and `CNTFRQ_EL0` (it traps and emulates where an erratum forbids the former).

#![expect(unsafe_code, reason = "inline assembly: the instructions this crate exists to use")]

use super::{Numbers, VdsoNames};
use crate::processor::{CpuFacts, Form, FormVisitor, Order};
use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering};

pub(crate) const HAS_COUNTER: bool = true;

pub(crate) const NR: Option<Numbers> = Some(Numbers {
    clock_gettime: 113,
    clock_getres: 114,
    gettimeofday: 169,
    time: None,
    openat: 56,
    read: 63,
    close: 57,
    prctl: 167,
    fstatfs: 44,
    madvise: 233,
    adjtimex: 171,
    mmap: 222,
    getpid: 172,
    gettid: 178,
    process_vm_readv: 270,
});

pub(crate) const VDSO: Option<VdsoNames> = Some(VdsoNames {
    version: b"LINUX_2.6.39",
    clock_gettime: b"__kernel_clock_gettime",
    clock_getres: b"__kernel_clock_getres",
    gettimeofday: b"__kernel_gettimeofday",
    time: b"__kernel_time",
});

#[inline(always)]
pub(crate) fn ticks_unordered() -> u64 {
    let ticks;
    // SAFETY: reads a register that Linux opens to user space. No `nomem`: only the processor may move
    // it, not the compiler.
    unsafe { asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nostack, preserves_flags)) };
    ticks
}

/// The first barrier keeps the read from being speculated before earlier loads, the second keeps
/// later ones from starting before it.
#[inline(always)]
pub(crate) fn ticks_ordered() -> u64 {
    let ticks;
    // SAFETY: as above. No `nomem`: the compiler must not move loads across it either.
    unsafe {
        asm!("isb", "mrs {}, cntvct_el0", "isb", out(reg) ticks, options(nostack, preserves_flags));
    }
    ticks
}

#[inline(always)]
pub(crate) fn fence() {
    // SAFETY: a barrier; changes no register and no memory.
    unsafe { asm!("isb", options(nostack, preserves_flags)) };
}

/// A branch that cannot be decided before the value is there; `isb` waits for branches.
#[inline(always)]
pub(crate) fn after(value: u64) {
    // SAFETY: both ways lead to the next instruction. No `nomem`: loads stay before it.
    unsafe { asm!("cbnz {}, 2f", "2:", in(reg) value, options(nostack, preserves_flags)) };
}

#[inline(always)]
pub(crate) fn nothing() {
    // SAFETY: no instruction at all.
    unsafe { asm!("", options(nomem, nostack, preserves_flags)) };
}

#[inline(always)]
pub(crate) fn zero_from(value: u64) -> u64 {
    let zero;
    // SAFETY: registers only. `and` with the zero register still waits for its operand.
    unsafe {
        asm!("and {0}, {1}, xzr", out(reg) zero, in(reg) value, options(nomem, nostack, pure))
    };
    zero
}

/// There is no such instruction that does not concern other threads too.
#[inline(always)]
pub(crate) fn increment(word: &AtomicU64) {
    word.fetch_add(1, Ordering::Relaxed);
}

/// # Safety
/// As for the system call `number` with these arguments.
#[inline(always)]
pub(crate) unsafe fn syscall(number: usize, arguments: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = arguments;
    let result;
    // SAFETY: the kernel preserves all registers but x0; the caller vouches for the memory.
    unsafe {
        asm!("svc 0", in("x8") number, inlateout("x0") a as isize => result, in("x1") b,
            in("x2") c, in("x3") d, in("x4") e, in("x5") f, clobber_abi("C"),
            options(nostack));
    }
    result
}

/// The counter alone.
#[derive(Clone, Copy)]
struct Cntvct;

impl Form for Cntvct {
    const NAME: &'static str = "cntvct";
    const ORDER: Order = Order::None;
    const GUARANTEE: &'static str = "none: may be read before earlier loads";
    const TAKES_INPUT: bool = false;
    #[inline(always)]
    fn read(self, _dep: u64) -> u64 {
        ticks_unordered()
    }
}

/// The counter between two barriers, as the kernel's own vDSO reads it.
#[derive(Clone, Copy)]
struct IsbCntvctIsb;

impl Form for IsbCntvctIsb {
    const NAME: &'static str = "isb;cntvct;isb";
    const ORDER: Order = Order::Both;
    const GUARANTEE: &'static str = "not before earlier, not after later instructions";
    const TAKES_INPUT: bool = false;
    #[inline(always)]
    fn read(self, _dep: u64) -> u64 {
        ticks_ordered()
    }
}

pub(crate) fn visit_forms(visitor: &mut impl FormVisitor) {
    visitor.form(Cntvct);
    visitor.form(IsbCntvctIsb);
}

/// The rate that firmware wrote into `CNTFRQ_EL0`: a claim, sometimes nonsense in guests.
pub(crate) fn facts() -> CpuFacts {
    let claimed_hz: u64;
    // SAFETY: reads a register that Linux opens to user space.
    unsafe { asm!("mrs {}, cntfrq_el0", out(reg) claimed_hz, options(nomem, nostack, pure)) };
    // The architecture's generic timer runs at a constant rate by definition.
    CpuFacts { claimed_hz, constant_rate: Some(true), ..CpuFacts::NONE }
}

/// By the architecture the counter has one rate on all cores and runs while they sleep.
pub(crate) fn counter_is_invariant() -> bool {
    true
}

/// One ordered sequence, so there is no choice.
pub(crate) fn choose_form() {}

pub(crate) fn form() -> u64 {
    1
}

#[inline(always)]
pub(crate) fn ticks_by(_form: u64) -> u64 {
    ticks_ordered()
}
