//! The clock of this process, and the record that says how it is to be read.

use clockwise_core::clock::Clock;
use clockwise_core::counter::{Counter, SharedHardware};
use clockwise_core::kernel::{ClockId, Errno, Kernel, SharedLinux};
use clockwise_core::settings::{PATH_MAX, Settings};
use clockwise_core::trust::Unfit;
use clockwise_core::units::{Ticks, Timespec};

/// The clock of this process.
pub static CLOCK: Clock<ProcessCounter, ProcessKernel> = Clock::new(ProcessCounter, ProcessKernel);

/// The record; whoever lays the image out for a program writes into the file.
#[used]
static SETTINGS: Settings = Settings::as_built();

/// The mode of an image as it was built: ordered reads, nothing counted.
pub const CAUSAL: u64 = 0;

/// How clocks are read in this process: the record's word.
#[inline(always)]
pub fn mode() -> u64 {
    // SAFETY: a static's field. Volatile: the file may say otherwise than the compiler saw.
    unsafe { (&raw const SETTINGS.mode).read_volatile() }
}

/// The time of a clock, whether or not reads are counted.
pub fn read(clock: ClockId) -> Result<i64, Errno> {
    if mode() & Settings::RELAXED != 0 { CLOCK.now_relaxed(clock) } else { CLOCK.now(clock) }
}

/// The path of the board, ended by a zero.
pub fn board_path() -> &'static [u8; PATH_MAX] {
    // The compiler must not take what it sees for what the file says.
    &core::hint::black_box(&SETTINGS).board
}

/// Run by the loader (DT_INIT): all system calls that a read would ever need are made now, since a program may forbid
/// them to itself. Reads no clock; whoever read one before has made them.
pub extern "C" fn start() {
    SharedLinux::find();
    CLOCK.judge_now();
    crate::stats::start();
}

/// The kernel's clocks, as this process may ask for them.
#[derive(Debug)]
pub struct ProcessKernel;

impl Kernel for ProcessKernel {
    // Only the cold path asks; once is enough in the image.
    #[inline(never)]
    fn now(&self, clock: ClockId) -> Result<Timespec, Errno> {
        SharedLinux.now(clock)
    }
}

/// The processor's counter, as this process may use it.
#[derive(Debug)]
pub struct ProcessCounter;

impl Counter for ProcessCounter {
    #[inline(always)]
    fn ticks(&self) -> Ticks {
        SharedHardware.ticks()
    }

    #[inline(always)]
    fn ticks_unordered(&self) -> Ticks {
        SharedHardware.ticks_unordered()
    }

    #[inline(always)]
    fn ticks_by(&self, form: u64) -> Ticks {
        SharedHardware.ticks_by(form)
    }

    fn form(&self) -> u64 {
        SharedHardware.form()
    }

    /// Asked once; children that are forked keep the verdict.
    fn fit(&self) -> Result<(), Unfit> {
        // SAFETY: as in `mode`.
        CLOCK.set_max_age_ns(unsafe { (&raw const SETTINGS.max_age_ns).read_volatile() });
        SharedHardware.fit()?;
        // Where the kernel cannot, a child overrules what it inherits after a second at most.
        let _ = CLOCK.wipe_on_fork();
        Ok(())
    }
}
