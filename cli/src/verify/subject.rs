//! The two doors of a verification: [`Subject`], the clock that is verified, and [`Reference`], the kernel that it is
//! verified against.
//!
//! The library in this process, the preloaded image and the tests' liars are subjects alike. Must never judge.

use crate::os;
use clockwise::{Clock, ClockId, Errno, Kernel, Origin, Status};
use clockwise_core::counter::{Hardware, NoCounter};
use clockwise_core::kernel::{Linux, System, Vdso};

/// A reading, and what the subject says about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// Nanoseconds from the clock's zero.
    pub nanos: i64,
    /// How far from the kernel's clock that may be.
    pub error_ns: u64,
    /// Computed from the counter, not asked of the kernel.
    pub from_counter: bool,
}

/// A clock that is verified.
pub trait Subject: Sync {
    /// In words.
    fn name(&self) -> &'static str;
    /// A plain reading, as programs take it.
    fn now(&self) -> Result<i64, Errno>;
    /// A reading with its bound.
    fn told(&self) -> Result<Told, Errno>;
    /// What became of the clock so far.
    fn status(&self) -> Option<Status>;
}

/// The kernel.
pub trait Reference: Sync {
    /// What the kernel's clock says, by the cheapest way that works.
    fn now(&self, clock: ClockId) -> Result<i64, Errno>;
    /// The same by a real system call.
    fn by_system_call(&self, clock: ClockId) -> Result<i64, Errno>;
    /// Whether these are two ways.
    fn has_vdso(&self) -> bool;
    /// Lets `ns` pass, or less.
    fn pause(&self, ns: u64);
}

/// The library, in this process.
pub struct InProcess(pub Clock<'static>);

impl Subject for InProcess {
    fn name(&self) -> &'static str {
        "the library in this process"
    }

    fn now(&self) -> Result<i64, Errno> {
        self.0.now()
    }

    fn told(&self) -> Result<Told, Errno> {
        let reading = self.0.now_with_bound()?;
        Ok(Told {
            nanos: reading.nanos,
            error_ns: reading.error_ns,
            from_counter: reading.origin == Origin::Counter,
        })
    }

    fn status(&self) -> Option<Status> {
        self.0.status()
    }
}

/// The kernel of this machine. No libc: that may be the subject.
pub struct Machine {
    kernel: Linux,
    vdso: bool,
}

impl Machine {
    /// Looks for the vDSO; where the counter is forbidden there is none that could be called, for it reads it.
    pub fn find() -> Self {
        if matches!(Hardware::find(), Err(NoCounter::Forbidden)) {
            return Self { kernel: Linux::system_calls_only(), vdso: false };
        }
        Self { kernel: Linux::find(), vdso: Vdso::find().is_ok() }
    }
}

impl Reference for Machine {
    #[inline]
    fn now(&self, clock: ClockId) -> Result<i64, Errno> {
        self.kernel.now(clock).map(|time| time.nanos_i64())
    }

    fn by_system_call(&self, clock: ClockId) -> Result<i64, Errno> {
        System.clock_gettime(clock).map(|time| time.nanos_i64())
    }

    fn has_vdso(&self) -> bool {
        self.vdso
    }

    fn pause(&self, ns: u64) {
        os::pause(ns);
    }
}
