//! Whether the counter may stand in for the kernel: [`Unfit`] says why not.
//!
//! The kernel's own verdict is followed: it checks its clocksource all the time, on every processor, with means
//! that no program has. [`judge`] is that rule on values; [`assess`] reads the facts. Must never read the counter,
//! and must not be asked on a path that reads time: it opens files, and on some machines asks CPUID.

use crate::arch;
use crate::kernel::{self, Errno};
use core::fmt;

/// Why there is no counter to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoCounter {
    /// This crate knows none on this target.
    NotThisProcessor,
    /// The process may not read it: `PR_SET_TSC` says `PR_TSC_SIGSEGV`.
    Forbidden,
}

impl fmt::Display for NoCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotThisProcessor => "Clockwise knows no counter on this target",
            Self::Forbidden => {
                "the counter is forbidden in this process (PR_SET_TSC is PR_TSC_SIGSEGV): \
                 whoever started it must allow it with prctl(PR_SET_TSC, PR_TSC_ENABLE)"
            }
        })
    }
}

impl core::error::Error for NoCounter {}

/// Why time comes from the kernel and not from the counter: what was seen, and what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unfit {
    /// There is no counter, or it is forbidden.
    NoCounter(NoCounter),
    /// The kernel's verdict could not be read.
    Unreadable(Errno),
    /// The kernel has rejected the counter: it is not among the available clocksources.
    Rejected,
    /// The kernel counts its own ticks: its time stands still for milliseconds, and there is nothing finer to follow.
    Coarse,
    /// The kernel runs on another clocksource, and the processor does not say that its counter keeps its rate.
    NotInvariant,
    /// Readings of the kernel kept contradicting the counter. Tried again after 10 s, then 20 s, and so on.
    Unsteady,
    /// Reading the kernel takes four times as long as at the start: as when it stops using the counter. Tried again
    /// as above.
    KernelSlow,
    /// This is a clock set by hand: it has no counter.
    Manual,
    /// Twice a reader that was refreshing was stopped for over a second in the middle of publishing (a thread that
    /// was killed or suspended, or jumped out of a signal handler).
    Abandoned,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoCounter(reason) => return reason.fmt(f),
            Self::Unreadable(errno) => {
                return write!(
                    f,
                    "the kernel's clocksource cannot be read from /sys ({errno}), so nothing vouches for the \
                     counter: mount /sys, or allow reading it"
                );
            }
            Self::Rejected => {
                "the kernel has rejected the counter (it is not in available_clocksource): see the kernel's log \
                 for the reason, often unsynchronised cores or firmware"
            }
            Self::Coarse => {
                "the kernel keeps time by its own ticks (clocksource jiffies), in steps of milliseconds: boot without \
                 clocksource=jiffies, or write another one to current_clocksource"
            }
            Self::NotInvariant => {
                "the kernel keeps time by another clocksource, and the processor does not promise a constant counter: \
                 in a guest, ask the host to pass the invariant TSC flag on"
            }
            Self::Unsteady => {
                "the kernel's readings kept contradicting the counter (migration between hosts, unsynchronised \
                 cores, or a clock that is stepped all the time); it will be tried again"
            }
            Self::KernelSlow => {
                "reading the kernel has become four times slower, as when it stops using the counter (see \
                 current_clocksource and the kernel's log); it will be tried again"
            }
            Self::Manual => "this clock is set by hand",
            Self::Abandoned => {
                "two threads were stopped for over a second while they published the time (killed, suspended, or by a \
                 jump out of a signal handler): restart the program"
            }
        })
    }
}

impl core::error::Error for Unfit {}

impl Unfit {
    /// As a number from 2 on, to be shared between threads.
    pub(crate) const fn code(self) -> u64 {
        match self {
            Self::NoCounter(NoCounter::NotThisProcessor) => 2,
            Self::NoCounter(NoCounter::Forbidden) => 3,
            Self::Rejected => 4,
            Self::Coarse => 5,
            Self::NotInvariant => 6,
            Self::Unsteady => 7,
            Self::Manual => 8,
            Self::Abandoned => 9,
            Self::KernelSlow => 10,
            Self::Unreadable(errno) => 16 + (errno.0.unsigned_abs() as u64),
        }
    }

    /// The reason with that number.
    pub(crate) const fn from_code(code: u64) -> Option<Self> {
        Some(match code {
            2 => Self::NoCounter(NoCounter::NotThisProcessor),
            3 => Self::NoCounter(NoCounter::Forbidden),
            4 => Self::Rejected,
            5 => Self::Coarse,
            6 => Self::NotInvariant,
            7 => Self::Unsteady,
            8 => Self::Manual,
            9 => Self::Abandoned,
            10 => Self::KernelSlow,
            16..=4111 => Self::Unreadable(Errno((code - 16) as i32)),
            _ => return None,
        })
    }
}

/// Judges by what the kernel writes in `current_clocksource` and `available_clocksource`. `invariant` is asked
/// only where the answer depends on it (CPUID is a trap in a guest).
///
/// # Errors
/// Why the counter may not be used.
pub fn judge(
    current: &[u8],
    available: &[u8],
    invariant: impl FnOnce() -> bool,
) -> Result<(), Unfit> {
    let current = words(current).next().unwrap_or_default();
    if is_counter(current) {
        return Ok(());
    }
    if current.is_empty() || !words(available).any(is_counter) {
        return Err(Unfit::Rejected);
    }
    if [&b"jiffies"[..], b"refined-jiffies"].contains(&current) {
        return Err(Unfit::Coarse);
    }
    // Somebody chose another clocksource, or the host offers a paravirtual one. The kernel goes on to watch the counter, and
    // takes it off the list if it finds it wrong.
    if invariant() { Ok(()) } else { Err(Unfit::NotInvariant) }
}

fn is_counter(source: &[u8]) -> bool {
    // `tsc-early` is the same counter in the first second after boot.
    [&b"tsc"[..], b"tsc-early", b"arch_sys_counter"].contains(&source)
}

fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

/// Judges this machine and this process: whether the counter may be read, and what the kernel thinks of it.
///
/// Four system calls as a rule, some microseconds; on a paravirtual clock CPUID besides. Where the counter is forbidden,
/// [`SharedLinux`](kernel::SharedLinux) no longer calls the vDSO, which reads it too.
///
/// # Errors
/// Why the counter may not be used.
pub fn assess() -> Result<(), Unfit> {
    if !arch::HAS_COUNTER {
        return Err(Unfit::NoCounter(NoCounter::NotThisProcessor));
    }
    if kernel::counter_forbidden() {
        kernel::leave_shared_vdso();
        return Err(Unfit::NoCounter(NoCounter::Forbidden));
    }
    let (mut current, mut available) = ([0; 64], [0; 512]);
    let current = kernel::read_file(
        c"/sys/devices/system/clocksource/clocksource0/current_clocksource",
        &mut current,
    );
    let current = current.map_err(Unfit::Unreadable)?;
    // The usual case needs no second file.
    if words(current).next().is_some_and(is_counter) {
        return Ok(());
    }
    let available = kernel::read_file(
        c"/sys/devices/system/clocksource/clocksource0/available_clocksource",
        &mut available,
    );
    let available = available.map_err(Unfit::Unreadable)?;
    judge(current, available, arch::counter_is_invariant)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_decides() {
        let no = || panic!("not asked");
        assert_eq!(judge(b"tsc\n", b"tsc hpet acpi_pm \n", no), Ok(()));
        assert_eq!(judge(b"tsc-early\n", b"", no), Ok(()));
        assert_eq!(judge(b"arch_sys_counter\n", b"arch_sys_counter \n", no), Ok(()));
        assert_eq!(judge(b"hpet\n", b"hpet acpi_pm \n", no), Err(Unfit::Rejected));
        assert_eq!(judge(b"kvm-clock\n", b"kvm-clock acpi_pm \n", no), Err(Unfit::Rejected));
        for source in ["kvm-clock", "hyperv_clocksource_tsc_page", "xen", "hpet", "acpi_pm"] {
            let available = format_args(source);
            assert_eq!(judge(source.as_bytes(), &available, || true), Ok(()));
            assert_eq!(judge(source.as_bytes(), &available, || false), Err(Unfit::NotInvariant));
        }
        for source in ["jiffies", "refined-jiffies"] {
            let available = format_args(source);
            assert_eq!(judge(source.as_bytes(), &available, no), Err(Unfit::Coarse));
            assert_eq!(judge(source.as_bytes(), b"hpet", no), Err(Unfit::Rejected));
        }
    }

    fn format_args(source: &str) -> [u8; 64] {
        let mut text = [b' '; 64];
        text[..source.len()].copy_from_slice(source.as_bytes());
        text[60..63].copy_from_slice(b"tsc");
        text
    }

    #[test]
    fn names_are_whole_words_and_nonsense_is_unfit() {
        let yes = || true;
        assert_eq!(judge(b"tsc2", b"notsc tsc3", yes), Err(Unfit::Rejected));
        assert_eq!(judge(b"", b"", yes), Err(Unfit::Rejected));
        assert_eq!(judge(b"\0\xff", b"\n\n", yes), Err(Unfit::Rejected));
        assert_eq!(judge(b"", b"tsc", yes), Err(Unfit::Rejected));
    }

    #[test]
    fn every_reason_survives_as_a_number() {
        let all = [
            Unfit::NoCounter(NoCounter::NotThisProcessor),
            Unfit::NoCounter(NoCounter::Forbidden),
            Unfit::Rejected,
            Unfit::Coarse,
            Unfit::NotInvariant,
            Unfit::Unsteady,
            Unfit::Manual,
            Unfit::Abandoned,
            Unfit::KernelSlow,
            Unfit::Unreadable(Errno(13)),
            Unfit::Unreadable(Errno(4095)),
        ];
        for reason in all {
            assert!(reason.code() >= 2);
            assert_eq!(Unfit::from_code(reason.code()), Some(reason));
        }
        assert_eq!(Unfit::from_code(0), None);
        assert_eq!(Unfit::from_code(1), None);
    }
}
