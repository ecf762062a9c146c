//! The first door: the processor's counter.
//!
//! [`Counter`] is all that the code above knows of hardware; [`Hardware`] is the real one. The
//! [`Form`]s are the different instruction sequences that read it, for those who measure them.
//! Sits on `arch/`, and on `kernel` for one question: whether this process may read the counter.
//!
//! Must never read the counter before it is known to be allowed: a forbidden read kills the process.

use crate::arch;
use crate::kernel;
pub use crate::processor::{CpuFacts, Form, FormVisitor, Order};
pub use crate::trust::NoCounter;
use crate::trust::{self, Unfit};
use crate::units::Ticks;

/// A counter that all threads of the process can read.
///
/// Across threads an ordered reading is never smaller than one whose value was seen before it,
/// *if* the machine's cores are synchronised; an unordered reading promises nothing. Whether the
/// counter stops in suspend, and what a migration to another host does to it, is up to the machine.
pub trait Counter {
    /// An ordered reading: it happens after everything before it in program order.
    fn ticks(&self) -> Ticks;
    /// An unordered reading: cheaper, and early by what the processor has in flight: tens of nanoseconds as a
    /// rule, microseconds where a load before it misses the caches.
    fn ticks_unordered(&self) -> Ticks;
    /// An ordered reading by one of the instruction sequences that [`form`](Self::form) names.
    #[doc(hidden)]
    #[inline(always)]
    fn ticks_by(&self, form: u64) -> Ticks {
        let _ = form;
        self.ticks()
    }
    /// The ordered sequence that is the cheapest here; any number but 0.
    #[doc(hidden)]
    fn form(&self) -> u64 {
        1
    }
    /// Whether the counter may be read, and may stand in for the kernel's own. A
    /// [`Clock`](crate::clock::Clock) asks once, before its first reading.
    ///
    /// # Errors
    /// Why not.
    fn fit(&self) -> Result<(), Unfit> {
        Ok(())
    }
}

/// The processor's own counter: the TSC on x86-64, `CNTVCT_EL0` on aarch64.
///
/// ```
/// use clockwise_core::counter::{Counter, Hardware};
/// if let Ok(counter) = Hardware::find() {
///     let earlier = counter.ticks();
///     let later = counter.ticks();
///     assert!(later.since(earlier).is_some());
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Hardware(());

impl Hardware {
    /// The processor's counter, if there is one and this process may read it now.
    ///
    /// # Errors
    /// [`NoCounter`]. The permission can be taken away later by `prctl(PR_SET_TSC)` in any thread
    /// for that thread; then a read is SIGSEGV.
    pub fn find() -> Result<Self, NoCounter> {
        if !arch::HAS_COUNTER {
            return Err(NoCounter::NotThisProcessor);
        }
        if kernel::counter_forbidden() { Err(NoCounter::Forbidden) } else { Ok(Self(())) }
    }
}

impl Counter for Hardware {
    #[inline(always)]
    fn ticks(&self) -> Ticks {
        Ticks(arch::ticks_ordered())
    }

    #[inline(always)]
    fn ticks_unordered(&self) -> Ticks {
        Ticks(arch::ticks_unordered())
    }
}

/// [`Hardware`] for clocks in static memory: judged at the first use, by [`fit`](Counter::fit).
///
/// Whoever reads it without having asked risks SIGSEGV where the counter is forbidden, and zeros where there is none;
/// a [`Clock`](crate::clock::Clock) asks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SharedHardware;

impl Counter for SharedHardware {
    #[inline(always)]
    fn ticks(&self) -> Ticks {
        Hardware(()).ticks()
    }

    #[inline(always)]
    fn ticks_unordered(&self) -> Ticks {
        Hardware(()).ticks_unordered()
    }

    #[inline(always)]
    fn ticks_by(&self, form: u64) -> Ticks {
        Ticks(arch::ticks_by(form))
    }

    fn form(&self) -> u64 {
        arch::form()
    }

    /// On x86-64 this also tries which ordered sequence is the cheapest: CPUID twice, and a microsecond.
    fn fit(&self) -> Result<(), Unfit> {
        trust::assess()?;
        arch::choose_form();
        Ok(())
    }
}

/// Shows every form of this processor to `visitor`, from the barest on.
pub fn visit_forms(visitor: &mut impl FormVisitor) {
    arch::visit_forms(visitor);
}

/// A fence: nothing after it begins before everything before it has been executed. On x86-64 that
/// includes loads; on aarch64 a load may still be on its way.
#[inline(always)]
pub fn fence() {
    arch::fence();
}

/// Lets no ordered reading begin before `value` is known. On x86-64 the ordered read itself waits for
/// every load; on aarch64 its barrier waits for branches, so here is one that depends on the value.
#[inline(always)]
pub fn after(value: u64) {
    arch::after(value);
}

/// No instruction, but one that the compiler must not remove: keeps an empty loop a loop.
#[inline(always)]
pub fn nothing() {
    arch::nothing();
}

/// Zero, but known to the processor only once `value` is: makes one computation wait for another.
#[inline(always)]
#[must_use]
pub fn zero_from(value: u64) -> u64 {
    arch::zero_from(value)
}

impl CpuFacts {
    /// Asks the processor. On x86-64 this executes CPUID about ten times, and in a guest each one
    /// is a trap to the hypervisor (5-12 us, sometimes far more): ask once.
    #[must_use]
    pub fn ask() -> Self {
        arch::facts()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zero_that_depends_on_a_value_is_zero() {
        for value in [0, 1, u64::MAX, 1 << 63] {
            assert_eq!(zero_from(value), 0);
        }
    }

    #[test]
    fn every_form_of_the_counter_advances() {
        struct Check;
        impl FormVisitor for Check {
            fn form<F: Form>(&mut self, form: F) {
                if F::available().is_err() || F::NAME == "cpuid" {
                    return;
                }
                let earlier = Ticks(form.read(0));
                fence();
                let later = Ticks(form.read(0));
                assert!(later.since(earlier).is_some(), "{}: {earlier:?} {later:?}", F::NAME);
            }
        }
        if Hardware::find().is_ok() {
            visit_forms(&mut Check);
        }
    }
}
