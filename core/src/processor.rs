//! The answers that a processor owes: the [`Form`]s in which its counter can be read, and
//! [`CpuFacts`]. Each file of `arch/` gives them; `counter` passes them on to the world.
//!
//! Types alone: must never execute an instruction of its own, nor name a processor.

use crate::units::Frequency;

/// How a reading is ordered against the instructions around it in its own thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Not at all.
    None,
    /// After everything before it.
    After,
    /// After everything before it, and before everything after it.
    Both,
}

/// One instruction sequence that reads the counter.
pub trait Form: Copy + Send + Sync + 'static {
    /// The instructions, as in `lfence;rdtsc`.
    const NAME: &'static str;
    /// How the reading is ordered.
    const ORDER: Order;
    /// The same in words.
    const GUARANTEE: &'static str;
    /// Whether the instructions have an input that can be made to depend on an earlier result.
    const TAKES_INPUT: bool;

    /// # Errors
    /// Why this processor cannot execute it.
    fn available() -> Result<(), &'static str> {
        Ok(())
    }

    /// Executes it. `dep` must be zero; where the form takes an input, it is `dep`.
    ///
    /// Faults where [`Hardware::find`](crate::counter::Hardware::find) says that the counter is
    /// forbidden.
    fn read(self, dep: u64) -> u64;
}

/// Is shown every [`Form`] of this processor, each with its own type, so that loops over it inline.
pub trait FormVisitor {
    /// Receives one form.
    fn form<F: Form>(&mut self, form: F);
}

/// What the processor says of itself and of its counter. Claims, not measurements.
#[derive(Clone, Copy, Debug)]
pub struct CpuFacts {
    pub(crate) brand: [u8; 48],
    pub(crate) hypervisor: [u8; 12],
    pub(crate) constant_rate: Option<bool>,
    pub(crate) claimed_hz: u64,
}

impl CpuFacts {
    /// Nothing told.
    pub(crate) const NONE: Self =
        Self { brand: [0; 48], hypervisor: [0; 12], constant_rate: None, claimed_hz: 0 };

    /// The brand string, if the processor has one. The frequency in it is not the counter's.
    #[must_use]
    pub fn brand(&self) -> Option<&str> {
        text(&self.brand)
    }

    /// The hypervisor's signature (`KVMKVMKVM`, `Microsoft Hv`, ...), if the processor admits one.
    #[must_use]
    pub fn hypervisor(&self) -> Option<&str> {
        text(&self.hypervisor)
    }

    /// Whether the counter's rate is constant in all power states; `None` if not told.
    #[must_use]
    pub fn constant_rate(&self) -> Option<bool> {
        self.constant_rate
    }

    /// The rate that the processor or firmware claims; `None` if not told. To be believed only if a
    /// measurement agrees.
    #[must_use]
    pub fn claimed_frequency(&self) -> Option<Frequency> {
        Frequency::new(self.claimed_hz)
    }
}

fn text(bytes: &[u8]) -> Option<&str> {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    core::str::from_utf8(&bytes[..end]).ok().map(str::trim).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_the_processor_ends_at_the_first_zero() {
        assert_eq!(text(b"KVMKVMKVM\0\0\0"), Some("KVMKVMKVM"));
        assert_eq!(text(b"  Some CPU \0junk"), Some("Some CPU"));
        assert_eq!(text(&[0; 12]), None);
        assert_eq!(text(&[0xff; 12]), None);
    }
}
