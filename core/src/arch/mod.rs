//! What each processor owes the rest of the crate; selects the file for this target. To add one: a file with
//! these names, and the `cfg` of its target at the three places below.
//!
//! Every file below provides the same names:
//!
//! * `ticks_ordered()`, `ticks_unordered()`: read the counter ([`HAS_COUNTER`] says whether there is
//!   one);
//! * `choose_form()` finds the cheapest ordered sequence, `form()` names it, `ticks_by(form)` reads by it;
//! * `after(value)`: no ordered reading begins before the value is known;
//! * `fence()`: nothing after it begins before everything before it has been executed; `nothing()`: an
//!   empty instruction sequence that the compiler must not remove;
//! * `zero_from(value)`: a zero that the processor cannot know before it knows `value`;
//! * `visit_forms(visitor)`: every way to read the counter, for measuring them against each other;
//! * `facts()`: what the processor says of itself; `counter_is_invariant()`: whether it promises that the counter
//!   keeps its rate and never stops;
//! * `increment(word)`: adds one to a word that no other thread writes to, whatever signal comes;
//! * `syscall(number, arguments)` and its numbers ([`NR`]); [`VDSO`]: the names of the vDSO's
//!   functions. Both are `None` where this crate knows no way to make a system call.
//!
//! This is the only module that may contain `cfg(target_arch)`. It must never read a clock (a
//! counter is not one).

#[cfg(all(target_arch = "x86_64", target_os = "linux", target_pointer_width = "64"))]
#[path = "x86_64.rs"]
mod this;
#[cfg(all(target_arch = "aarch64", target_os = "linux", target_endian = "little"))]
#[path = "aarch64.rs"]
mod this;
#[cfg(not(any(
    all(target_arch = "x86_64", target_os = "linux", target_pointer_width = "64"),
    all(target_arch = "aarch64", target_os = "linux", target_endian = "little")
)))]
#[path = "none.rs"]
mod this;

pub(crate) use this::*;

/// System call numbers; `None` where the processor's table has no such call.
pub(crate) struct Numbers {
    pub(crate) clock_gettime: usize,
    pub(crate) clock_getres: usize,
    pub(crate) gettimeofday: usize,
    pub(crate) time: Option<usize>,
    pub(crate) openat: usize,
    pub(crate) read: usize,
    pub(crate) close: usize,
    pub(crate) prctl: usize,
    pub(crate) fstatfs: usize,
    pub(crate) madvise: usize,
    pub(crate) adjtimex: usize,
    pub(crate) mmap: usize,
    pub(crate) getpid: usize,
    pub(crate) gettid: usize,
    pub(crate) process_vm_readv: usize,
}

/// The names of the vDSO's functions and the symbol version they carry.
pub(crate) struct VdsoNames {
    pub(crate) version: &'static [u8],
    pub(crate) clock_gettime: &'static [u8],
    pub(crate) clock_getres: &'static [u8],
    pub(crate) gettimeofday: &'static [u8],
    pub(crate) time: &'static [u8],
}
