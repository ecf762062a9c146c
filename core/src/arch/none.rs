//! Every other target: there is no counter that this crate knows, and no system call of its own.
//!
//! `HAS_COUNTER` is false and `NR` is `None`, so nothing here is ever reached for an answer.

use super::{Numbers, VdsoNames};
use crate::processor::{CpuFacts, FormVisitor};

pub(crate) const HAS_COUNTER: bool = false;
pub(crate) const NR: Option<Numbers> = None;
pub(crate) const VDSO: Option<VdsoNames> = None;

pub(crate) fn ticks_unordered() -> u64 {
    0
}

pub(crate) fn ticks_ordered() -> u64 {
    0
}

pub(crate) fn fence() {
    core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
}

pub(crate) fn after(_value: u64) {
    core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
}

pub(crate) fn nothing() {
    core::hint::black_box(());
}

pub(crate) fn zero_from(value: u64) -> u64 {
    core::hint::black_box(value) & core::hint::black_box(0)
}

#[cfg(target_has_atomic = "64")]
pub(crate) fn increment(word: &core::sync::atomic::AtomicU64) {
    word.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
}

/// # Safety
/// None needed: it makes no call. `unsafe` to have the shape of the others.
#[expect(unsafe_code, reason = "the same signature as on processors that do make the call")]
pub(crate) unsafe fn syscall(_number: usize, _arguments: [usize; 6]) -> isize {
    const ENOSYS: isize = 38;
    -ENOSYS
}

pub(crate) fn visit_forms(_visitor: &mut impl FormVisitor) {}

pub(crate) fn facts() -> CpuFacts {
    CpuFacts::NONE
}

pub(crate) fn counter_is_invariant() -> bool {
    false
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
