//! What is read: the barest instructions, the system's clocks, ours, the peers'.
//!
//! A [`Read`] gives a number that stands for all of its result, so that the compiler computes all of it; it must add
//! nothing to the call.

#![expect(unsafe_code, reason = "instructions without a door of their own, and one opaque result")]

use crate::os;
use clockwise::{Clock, Instant, SystemTime};
use std::arch::asm;
use std::hint::black_box;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// One way to read the time.
pub trait Read {
    /// As the tables show it.
    const NAME: &'static str;
    /// The crate that it is of; empty for what the machine or the standard library has.
    const CRATE: &'static str = "";
    /// What is made once and passed to each read.
    type State: Copy;
    /// Makes that.
    fn prepare() -> Self::State;
    /// Reads.
    fn read(state: Self::State) -> u64;
}

macro_rules! reads {
    ($($type:ident, $name:literal, $crate_name:literal, $read:expr;)*) => {
        $(pub struct $type;
        impl Read for $type {
            const NAME: &'static str = $name;
            const CRATE: &'static str = $crate_name;
            type State = ();
            fn prepare() {}
            #[inline(always)]
            fn read((): ()) -> u64 { $read }
        })*
    };
}

/// An opaque time of 64 bits as a number.
#[inline(always)]
fn bits<T: Copy>(time: T) -> u64 {
    const { assert!(size_of::<T>() == size_of::<u64>()) };
    // SAFETY: of the size of a u64; the peers' times are structs of one u64, without padding.
    unsafe { std::mem::transmute_copy(&time) }
}

/// The instructions are those of clockwise-core, so that nothing but the instructions differs.
#[inline(always)]
fn rdtsc() -> u64 {
    let (low, high): (u64, u64);
    // SAFETY: writes edx:eax only.
    unsafe { asm!("rdtsc", out("rax") low, out("rdx") high, options(nostack)) };
    high << 32 | low
}

#[inline(always)]
fn rdtscp() -> u64 {
    let (low, high): (u64, u64);
    // SAFETY: writes edx:eax and ecx only. Every x86-64 of the last fifteen years has it.
    unsafe { asm!("rdtscp", out("rax") low, out("rdx") high, out("rcx") _, options(nostack)) };
    high << 32 | low
}

#[inline(always)]
fn lfence_rdtsc() -> u64 {
    let (low, high): (u64, u64);
    // SAFETY: writes edx:eax only.
    unsafe { asm!("lfence", "rdtsc", out("rax") low, out("rdx") high, options(nostack)) };
    high << 32 | low
}

#[inline(always)]
fn libc_clock(clock: libc::clockid_t) -> u64 {
    let time = os::timespec(clock);
    (time.tv_sec as u64).wrapping_add(time.tv_nsec as u64)
}

reads! {
    Rdtsc, "rdtsc", "", rdtsc();
    Rdtscp, "rdtscp", "", rdtscp();
    LfenceRdtsc, "lfence;rdtsc", "", lfence_rdtsc();
    // Its parts cannot be had without a computation: the whole goes to memory instead.
    StdInstant, "std Instant::now", "", { black_box(std::time::Instant::now()); 0 };
    StdSystemTime, "std SystemTime::now", "", { black_box(std::time::SystemTime::now()); 0 };
    LibcMonotonic, "libc MONOTONIC", "", libc_clock(libc::CLOCK_MONOTONIC);
    LibcRealtime, "libc REALTIME", "", libc_clock(libc::CLOCK_REALTIME);
    OurInstant, "Instant::now", "clockwise", Instant::now().as_nanos() as u64;
    OurRelaxed, "Instant::now_relaxed", "clockwise", Instant::now_relaxed().as_nanos() as u64;
    OurSystemTime, "SystemTime::now", "clockwise", SystemTime::now().as_nanos() as u64;
    OurSystemTimeRelaxed, "SystemTime::now_relaxed", "clockwise", SystemTime::now_relaxed().as_nanos() as u64;
    OurBoottime, "Clock::boottime().now", "clockwise", Clock::boottime().now().unwrap_or_default() as u64;
    OurBound, "Instant::now_with_bound", "clockwise", {
        let reading = Instant::now_with_bound();
        (reading.time().as_nanos() as u64).wrapping_add(reading.error_ns())
    };
    OurRecent, "recent", "clockwise", clockwise::recent().as_nanos() as u64;
    OurCoarse, "coarse::monotonic", "clockwise", clockwise::coarse::monotonic().as_nanos() as u64;
    QuantaInstant, "Instant::now", "quanta", bits(quanta::Instant::now());
    QuantaRecent, "Instant::recent", "quanta", bits(quanta::Instant::recent());
    Minstant, "Instant::now", "minstant", bits(minstant::Instant::now());
    Fastant, "Instant::now", "fastant", bits(fastant::Instant::now());
    Coarsetime, "Instant::now", "coarsetime", coarsetime::Instant::now().as_ticks();
    CoarsetimeRecent, "Instant::recent", "coarsetime", coarsetime::Instant::recent().as_ticks();
}

/// The least that a shared time can cost.
pub struct AtomicLoad;

impl Read for AtomicLoad {
    const NAME: &'static str = "an atomic load";
    type State = &'static AtomicU64;

    fn prepare() -> Self::State {
        static WORD: AtomicU64 = AtomicU64::new(1);
        // Where nobody can be seen to write it, the compiler knows what is in it.
        black_box(&WORD)
    }

    #[inline(always)]
    fn read(word: Self::State) -> u64 {
        word.load(Ordering::Acquire)
    }
}

/// A clock object, as its users keep one: looked up once.
pub struct QuantaClock;

static QUANTA: LazyLock<quanta::Clock> = LazyLock::new(quanta::Clock::new);

impl Read for QuantaClock {
    const NAME: &'static str = "Clock::now";
    const CRATE: &'static str = "quanta";
    type State = &'static quanta::Clock;

    fn prepare() -> Self::State {
        black_box(&QUANTA)
    }

    #[inline(always)]
    fn read(clock: Self::State) -> u64 {
        bits(clock.now())
    }
}

/// The threads that keep the recent times. With their longest period, for they would disturb everything else, and
/// what a read costs does not depend on it.
pub struct Keepers {
    _ours: clockwise::Ticker,
    _quanta: quanta::Handle,
    coarsetime: Option<coarsetime::Updater>,
}

impl Keepers {
    /// Starts them.
    pub fn start() -> anyhow::Result<Self> {
        let period = std::time::Duration::from_secs(1);
        let quanta = quanta::Upkeep::new_with_clock(period, QUANTA.clone()).start();
        Ok(Self {
            _ours: clockwise::Ticker::start(period)?,
            _quanta: quanta.map_err(|error| anyhow::anyhow!("quanta's upkeep: {error}"))?,
            coarsetime: Some(coarsetime::Updater::new(1_000).start()?),
        })
    }
}

impl Drop for Keepers {
    fn drop(&mut self) {
        if let Some(updater) = self.coarsetime.take() {
            // It has nothing to lose.
            let _ = updater.stop();
        }
    }
}
