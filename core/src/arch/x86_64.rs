//! x86-64: the time-stamp counter, its fences, CPUID, the system call instruction.
//!
//! # Safety
//!
//! Inline assembly only. The counter reads touch registers alone; they fault (SIGSEGV) where the
//! process or a sandbox has forbidden the counter, so callers ask `counter::Hardware::find` first.
//! `rdtscp` is used only where CPUID lists it.

#![expect(unsafe_code, reason = "inline assembly: the instructions this crate exists to use")]

use super::{Numbers, VdsoNames};
use crate::processor::{CpuFacts, Form, FormVisitor, Order};
use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering};

pub(crate) const HAS_COUNTER: bool = true;

pub(crate) const NR: Option<Numbers> = Some(Numbers {
    clock_gettime: 228,
    clock_getres: 229,
    gettimeofday: 96,
    time: Some(201),
    openat: 257,
    read: 0,
    close: 3,
    prctl: 157,
    fstatfs: 138,
    madvise: 28,
    adjtimex: 159,
    mmap: 9,
    getpid: 39,
    gettid: 186,
    process_vm_readv: 310,
});

pub(crate) const VDSO: Option<VdsoNames> = Some(VdsoNames {
    version: b"LINUX_2.6",
    clock_gettime: b"__vdso_clock_gettime",
    clock_getres: b"__vdso_clock_getres",
    gettimeofday: b"__vdso_gettimeofday",
    time: b"__vdso_time",
});

#[inline(always)]
fn join(low: u64, high: u64) -> u64 {
    high << 32 | low
}

#[inline(always)]
pub(crate) fn ticks_unordered() -> u64 {
    let (low, high);
    // SAFETY: writes edx:eax only. No `nomem`: only the processor may move it, not the compiler.
    unsafe { asm!("rdtsc", out("rax") low, out("rdx") high, options(nostack)) };
    join(low, high)
}

/// `lfence` waits until every earlier instruction has completed, loads included; then the counter is
/// read. Without it the processor may read the counter before an earlier load that it waits for.
#[inline(always)]
pub(crate) fn ticks_ordered() -> u64 {
    let (low, high);
    // SAFETY: writes edx:eax only. No `nomem`: the compiler must not move loads across it either.
    unsafe { asm!("lfence", "rdtsc", out("rax") low, out("rdx") high, options(nostack)) };
    join(low, high)
}

/// `rdtscp` waits for earlier instructions by itself. Only where CPUID lists it.
#[inline(always)]
fn ticks_rdtscp() -> u64 {
    let (low, high);
    // SAFETY: writes edx:eax and ecx; whoever calls has seen that the instruction exists. No `nomem`, as above.
    unsafe { asm!("rdtscp", out("rax") low, out("rdx") high, out("rcx") _, options(nostack)) };
    join(low, high)
}

/// The ordered sequences: on a Sapphire Rapids `rdtscp` is 4 % cheaper than `lfence; rdtsc`, on a Zen 4 it was
/// seen at twice the price.
const LFENCE_RDTSC: u64 = 1;
const RDTSCP: u64 = 2;

static FORM: AtomicU64 = AtomicU64::new(LFENCE_RDTSC);

pub(crate) fn form() -> u64 {
    FORM.load(Ordering::Relaxed)
}

#[inline(always)]
pub(crate) fn ticks_by(form: u64) -> u64 {
    if form == RDTSCP { ticks_rdtscp() } else { ticks_ordered() }
}

/// Tries both, some 60 reads each: a microsecond or two.
pub(crate) fn choose_form() {
    if has_rdtscp().is_err() {
        return;
    }
    let cheaper = cost(ticks_rdtscp) < cost(ticks_ordered);
    FORM.store(if cheaper { RDTSCP } else { LFENCE_RDTSC }, Ordering::Relaxed);
}

/// What eight reads take: the least of eight tries.
fn cost(read: fn() -> u64) -> u64 {
    let mut least = u64::MAX;
    for _ in 0..8 {
        let begin = ticks_ordered();
        for _ in 0..8 {
            read();
        }
        least = least.min(ticks_ordered().wrapping_sub(begin));
    }
    least
}

#[inline(always)]
pub(crate) fn fence() {
    // SAFETY: changes no register and no memory.
    unsafe { asm!("lfence", options(nostack, preserves_flags)) };
}

/// `lfence` waits for loads by itself.
#[inline(always)]
pub(crate) fn after(_value: u64) {}

#[inline(always)]
pub(crate) fn nothing() {
    // SAFETY: no instruction at all.
    unsafe { asm!("", options(nomem, nostack, preserves_flags)) };
}

#[inline(always)]
pub(crate) fn zero_from(value: u64) -> u64 {
    let zero;
    // SAFETY: registers only. `and` with 0 is not a zeroing idiom: it waits for its operand.
    unsafe { asm!("and {0}, 0", inlateout(reg) value => zero, options(nomem, nostack, pure)) };
    zero
}

/// One instruction, which a signal comes before or after; without the lock that other threads would need.
#[inline(always)]
pub(crate) fn increment(word: &AtomicU64) {
    let word = word.as_ptr();
    // SAFETY: a word that is there and may be written to, as a reference to an atomic says.
    unsafe { asm!("inc qword ptr [{}]", in(reg) word, options(nostack)) };
}

/// # Safety
/// As for the system call `number` with these arguments.
#[inline(always)]
pub(crate) unsafe fn syscall(number: usize, arguments: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = arguments;
    let result;
    // SAFETY: the kernel preserves all registers but rax, rcx and r11; the caller vouches for the
    // memory behind the arguments.
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => result, in("rdi") a, in("rsi") b,
            in("rdx") c, in("r10") d, in("r8") e, in("r9") f, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

#[inline(always)]
fn cpuid(leaf: u32, subleaf: u32) -> [u32; 4] {
    let (a, b, c, d): (u32, u64, u32, u32);
    // SAFETY: CPUID exists on every x86-64. rbx belongs to the compiler, so it is put back.
    unsafe {
        asm!("mov {b}, rbx", "cpuid", "xchg {b}, rbx", b = out(reg) b, inlateout("eax") leaf => a,
            inlateout("ecx") subleaf => c, lateout("edx") d, options(nomem, nostack));
    }
    [a, b as u32, c, d]
}

/// Declares the ways to read the counter: the asm, and what it promises.
macro_rules! forms {
    ($($(#[$doc:meta])* $type:ident, $name:literal, $order:expr, $guarantee:literal, $input:literal,
       $available:expr, |$dep:ident| $read:expr;)*) => {
        $($(#[$doc])* #[derive(Clone, Copy)] struct $type;
        impl Form for $type {
            const NAME: &'static str = $name;
            const ORDER: Order = $order;
            const GUARANTEE: &'static str = $guarantee;
            const TAKES_INPUT: bool = $input;
            fn available() -> Result<(), &'static str> { $available }
            #[inline(always)]
            fn read(self, $dep: u64) -> u64 { $read }
        })*
        pub(crate) fn visit_forms(visitor: &mut impl FormVisitor) { $(visitor.form($type);)* }
    };
}

forms! {
    Rdtsc, "rdtsc", Order::None, "none: may be read before earlier loads", false, Ok(()),
        |_dep| ticks_unordered();
    LfenceRdtsc, "lfence;rdtsc", Order::After, "not before earlier instructions", false, Ok(()),
        |_dep| ticks_ordered();
    Rdtscp, "rdtscp", Order::After, "not before earlier instructions", false, has_rdtscp(), |_dep| ticks_rdtscp();
    RdtscpLfence, "rdtscp;lfence", Order::Both, "not before earlier, not after later instructions",
        false, has_rdtscp(), |_dep| {
        let (low, high);
        // SAFETY: as above.
        unsafe {
            asm!("rdtscp", "lfence", out("rax") low, out("rdx") high, out("rcx") _, options(nostack));
        }
        join(low, high)
    };
    Cpuid, "cpuid", Order::Both, "serialises", true, Ok(()),
        |dep| u64::from(cpuid(dep as u32, 0)[0]);
    CpuidRdtsc, "cpuid;rdtsc", Order::After, "serialised before it", true, Ok(()),
        |dep| {
        let (low, high);
        // SAFETY: as for `cpuid` and `rdtsc`.
        unsafe {
            asm!("mov {b}, rbx", "cpuid", "rdtsc", "mov rbx, {b}", b = out(reg) _,
                inlateout("rax") dep => low, inlateout("rcx") 0u64 => _, lateout("rdx") high,
                options(nostack));
        }
        join(low, high)
    };
}

/// Whether CPUID sets `bit` of edx in this extended leaf: two calls, each of which may trap to a hypervisor.
fn is_listed(leaf: u32, bit: u32) -> bool {
    cpuid(0x8000_0000, 0)[0] >= leaf && cpuid(leaf, 0)[3] >> bit & 1 == 1
}

fn has_rdtscp() -> Result<(), &'static str> {
    if is_listed(0x8000_0001, 27) {
        Ok(())
    } else {
        Err("this processor (or its hypervisor) has no rdtscp")
    }
}

/// What CPUID promises.
pub(crate) fn counter_is_invariant() -> bool {
    is_listed(0x8000_0007, 8)
}

fn put(text: &mut [u8], registers: &[u32]) {
    for (bytes, register) in text.chunks_exact_mut(4).zip(registers) {
        bytes.copy_from_slice(&register.to_le_bytes());
    }
}

/// What CPUID tells. About ten calls, each of which may trap to a hypervisor (microseconds).
pub(crate) fn facts() -> CpuFacts {
    let mut facts = CpuFacts::NONE;
    let highest = cpuid(0, 0)[0];
    let extended = cpuid(0x8000_0000, 0)[0];
    if extended >= 0x8000_0004 {
        for (part, leaf) in facts.brand.chunks_exact_mut(16).zip(0x8000_0002..) {
            put(part, &cpuid(leaf, 0));
        }
    }
    if extended >= 0x8000_0007 {
        facts.constant_rate = Some(counter_is_invariant());
    }
    if cpuid(1, 0)[2] >> 31 & 1 == 1 {
        let [_, b, c, d] = cpuid(0x4000_0000, 0);
        put(&mut facts.hypervisor, &[b, c, d]);
    }
    if highest >= 0x15 {
        // Zero in any field means "not told".
        let [denominator, numerator, crystal_hz, _] = cpuid(0x15, 0);
        if denominator != 0 {
            facts.claimed_hz =
                u64::from(crystal_hz) * u64::from(numerator) / u64::from(denominator);
        }
    }
    facts
}
