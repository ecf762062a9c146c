//! The ways to read a clock, each as a type of its own, and the loops over them.
//!
//! [`Read`] is one call. [`Loops`] are the measuring loops, written once and compiled for each type,
//! so that the call inlines into them as it does into a C loop; the rest of the tool sees them as
//! trait objects. Must never do anything in a loop but call: no timing, no conversion, no check.

use crate::exchange::{Exchange, HandOver};
use crate::os;
use clockwise_core::clock::{Clock, Split};
use clockwise_core::counter::{self, Counter, Form, Order, SharedHardware};
use clockwise_core::kernel::{ClockId, Errno, Kernel, Linux, SharedLinux, System, Vdso};
use clockwise_core::units::Timespec;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

/// How the calls of a loop follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// As fast as the processor can overlap them.
    Throughput,
    /// Each call waits for the result of the last one.
    Latency,
    /// A fence after each call.
    Serialised,
}

impl Mode {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 3] = [Self::Throughput, Self::Latency, Self::Serialised];
}

/// One way to read one clock.
pub trait Read: Copy + Send + Sync + 'static {
    /// Whether a call can be made to wait for an earlier result: through an argument, or because
    /// the instructions themselves wait for what precedes them.
    const WAITS: bool = true;

    /// One call, its result reduced to a word. `dep` is zero; an argument is made from it.
    fn call(self, dep: u64) -> u64;

    /// One reading: nanoseconds, or ticks of the counter.
    fn value(self) -> Result<i64, Errno>;
}

/// The loops over one source.
pub trait Loops: Send + Sync {
    /// Whether [`Mode::Latency`] means anything here.
    fn waits(&self) -> bool;
    /// `calls` calls.
    fn batch(&self, mode: Mode, calls: u64);
    /// One call, not inlined.
    fn one(&self) -> u64;
    /// One reading.
    fn value(&self) -> Result<i64, Errno>;
    /// Readings one after the other, until `out` is full or one fails; how many.
    fn values(&self, out: &mut [i64]) -> usize;
    /// Takes readings and exchanges them with another thread until told to stop. `side` is 0 in one
    /// of the threads and 1 in the other.
    fn exchange(&self, exchange: &Exchange, side: usize) -> HandOver;
}

impl<R: Read> Loops for R {
    fn waits(&self) -> bool {
        R::WAITS
    }

    #[inline(never)]
    fn batch(&self, mode: Mode, calls: u64) {
        let read = *self;
        let mut sum = 0u64;
        match mode {
            Mode::Throughput => {
                for _ in 0..calls {
                    sum = sum.wrapping_add(read.call(0));
                }
            }
            Mode::Latency => {
                let mut dep = 0;
                for _ in 0..calls {
                    let result = read.call(dep);
                    dep = counter::zero_from(result);
                    sum = sum.wrapping_add(result);
                }
            }
            Mode::Serialised => {
                for _ in 0..calls {
                    sum = sum.wrapping_add(read.call(0));
                    counter::fence();
                }
            }
        }
        black_box(sum);
    }

    #[inline(never)]
    fn one(&self) -> u64 {
        self.call(0)
    }

    fn value(&self) -> Result<i64, Errno> {
        Read::value(*self)
    }

    #[inline(never)]
    fn values(&self, out: &mut [i64]) -> usize {
        let read = *self;
        for (i, slot) in out.iter_mut().enumerate() {
            match Read::value(read) {
                Ok(value) => *slot = value,
                Err(_) => return i,
            }
        }
        out.len()
    }

    #[inline(never)]
    fn exchange(&self, exchange: &Exchange, side: usize) -> HandOver {
        let read = *self;
        exchange.run(side, || Read::value(read))
    }
}

/// Nanoseconds since the clock's zero, negative before it.
#[inline(always)]
fn nanos(time: Timespec) -> i64 {
    time.sec.wrapping_mul(1_000_000_000).wrapping_add(time.nsec)
}

/// A result reduced to a word, without the multiplication of [`nanos`].
#[inline(always)]
fn word(result: Result<Timespec, Errno>) -> u64 {
    match result {
        Ok(time) => (time.sec as u64).wrapping_add(time.nsec as u64),
        Err(errno) => errno.0 as u64,
    }
}

#[inline(always)]
fn shifted(clock: ClockId, dep: u64) -> ClockId {
    ClockId(clock.0.wrapping_add(dep as i32))
}

/// Nothing: what the loop itself costs.
#[derive(Clone, Copy)]
pub struct Empty;

impl Read for Empty {
    #[inline(always)]
    fn call(self, dep: u64) -> u64 {
        counter::nothing();
        dep
    }

    fn value(self) -> Result<i64, Errno> {
        Err(Errno::NOSYS)
    }
}

/// A load from memory that is always in the nearest cache.
#[derive(Clone, Copy)]
pub struct AtomicLoad(());

/// Two, so that the address is computed from the index and waits for it.
static CELLS: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

impl AtomicLoad {
    /// Stores once what the compiler cannot know: a cell never stored to would be a constant.
    pub fn new() -> Self {
        CELLS.iter().for_each(|cell| cell.store(black_box(0), Ordering::Relaxed));
        Self(())
    }
}

impl Read for AtomicLoad {
    #[inline(always)]
    fn call(self, dep: u64) -> u64 {
        // As in the empty loop: unrolled, a load would cost less than nothing.
        counter::nothing();
        CELLS.get(dep as usize).map_or(0, |cell| cell.load(Ordering::Relaxed))
    }

    fn value(self) -> Result<i64, Errno> {
        Err(Errno::NOSYS)
    }
}

/// The counter, by one of its instruction sequences.
#[derive(Clone, Copy)]
pub struct CounterForm<F>(pub F);

impl<F: Form> Read for CounterForm<F> {
    const WAITS: bool = F::TAKES_INPUT || !matches!(F::ORDER, Order::None);

    #[inline(always)]
    fn call(self, dep: u64) -> u64 {
        self.0.read(dep)
    }

    #[inline(always)]
    fn value(self) -> Result<i64, Errno> {
        Ok(self.0.read(0) as i64)
    }
}

/// `clock_gettime` through libc.
#[derive(Clone, Copy)]
pub struct LibcClock(pub ClockId);

impl Read for LibcClock {
    #[inline(always)]
    fn call(self, dep: u64) -> u64 {
        word(os::clock_gettime(shifted(self.0, dep)))
    }

    #[inline(always)]
    fn value(self) -> Result<i64, Errno> {
        os::clock_gettime(self.0).map(nanos)
    }
}

/// The kernel's clock, whoever answers in libc's place: by the vDSO, else by system call.
#[derive(Clone, Copy)]
pub struct KernelClock(pub Linux, pub ClockId);

impl Read for KernelClock {
    #[inline(always)]
    fn call(self, dep: u64) -> u64 {
        word(self.0.now(shifted(self.1, dep)))
    }

    #[inline(always)]
    fn value(self) -> Result<i64, Errno> {
        self.0.now(self.1).map(nanos)
    }
}

/// `clock_gettime` through libc with the time left where it was written, as in a loop in C: looking at it would delay the
/// next ordered read.
pub fn unread(clock: ClockId) -> impl Read {
    Call::<false, _, _> {
        call: move |_| u64::from(os::clock_gettime(clock).is_ok()),
        value: move || os::clock_gettime(clock).map(nanos),
    }
}

/// Our clock behind C's `clock_gettime`, as [`unread`]: the call that programs make where the image is preloaded, code and all.
#[derive(Clone, Copy)]
pub struct Imaged {
    clock: ClockId,
    /// Known at run time only, as what the loader has bound a program to.
    function: extern "C" fn(i32, &mut Timespec) -> i32,
}

impl Imaged {
    /// What is read.
    pub const CLOCK: &Clock<SharedHardware, SharedLinux> = {
        static CLOCK: Clock<SharedHardware, SharedLinux> = Clock::new(SharedHardware, SharedLinux);
        &CLOCK
    };

    /// By ordered or by unordered reads.
    pub fn new(clock: ClockId, relaxed: bool) -> Self {
        Self { clock, function: if relaxed { imaged::<true> } else { imaged::<false> } }
    }

    #[inline(always)]
    fn told(self, clock: ClockId) -> Result<Timespec, Errno> {
        let mut time = Timespec { sec: 0, nsec: 0 };
        let result = (self.function)(clock.0, &mut time);
        if result == 0 { Ok(time) } else { Err(Errno(-result)) }
    }
}

/// As the image has it: what is rare has a function of its own.
extern "C" fn imaged<const RELAXED: bool>(clock: i32, time: &mut Timespec) -> i32 {
    let hot = Imaged::CLOCK.hot(ClockId(clock));
    match hot.and_then(|hot| hot.at_once(RELAXED)).and_then(Split::at_once) {
        Some(told) => {
            *time = told;
            0
        }
        None => imaged_later::<RELAXED>(clock, time),
    }
}

#[cold]
#[inline(never)]
extern "C" fn imaged_later<const RELAXED: bool>(clock: i32, time: &mut Timespec) -> i32 {
    let (ours, clock) = (Imaged::CLOCK, ClockId(clock));
    match if RELAXED { ours.now_relaxed(clock) } else { ours.now(clock) } {
        Ok(nanos) => {
            *time = Timespec::from_nanos(nanos);
            0
        }
        Err(errno) => -errno.0,
    }
}

impl Read for Imaged {
    const WAITS: bool = false;

    #[inline(always)]
    fn call(self, _: u64) -> u64 {
        u64::from(self.told(self.clock).is_ok())
    }

    #[inline(always)]
    fn value(self) -> Result<i64, Errno> {
        self.told(self.clock).map(nanos)
    }
}

/// The bare counter, by the sequence that the clocks use here; it must be allowed.
#[derive(Clone, Copy)]
pub struct CounterBy {
    /// The ordered sequence.
    pub form: u64,
    /// By the unordered one instead.
    pub relaxed: bool,
}

impl Read for CounterBy {
    const WAITS: bool = false;

    #[inline(always)]
    fn call(self, _: u64) -> u64 {
        let Self { form, relaxed } = self;
        let ticks =
            if relaxed { SharedHardware.ticks_unordered() } else { SharedHardware.ticks_by(form) };
        ticks.0
    }

    #[inline(always)]
    fn value(self) -> Result<i64, Errno> {
        Ok(self.call(0) as i64)
    }
}

/// `clock_gettime` straight through the vDSO.
#[derive(Clone, Copy)]
pub struct VdsoClock(pub Vdso, pub ClockId);

impl Read for VdsoClock {
    #[inline(always)]
    fn call(self, dep: u64) -> u64 {
        word(self.0.clock_gettime(shifted(self.1, dep)))
    }

    #[inline(always)]
    fn value(self) -> Result<i64, Errno> {
        self.0.clock_gettime(self.1).map(nanos)
    }
}

/// `clock_gettime` by the real system call.
#[derive(Clone, Copy)]
pub struct SystemClock(pub ClockId);

impl Read for SystemClock {
    #[inline(always)]
    fn call(self, dep: u64) -> u64 {
        word(System.clock_gettime(shifted(self.0, dep)))
    }

    #[inline(always)]
    fn value(self) -> Result<i64, Errno> {
        System.clock_gettime(self.0).map(nanos)
    }
}

/// Any other call: `call` makes it and reduces its result, `value` turns it into nanoseconds.
///
/// The calls have no argument to make dependent. Most wait for what precedes them all the same, by a
/// fence in the vDSO or by entering the kernel; those that do neither are not `WAITS`.
#[derive(Clone, Copy)]
pub struct Call<const WAITS: bool, C, V> {
    /// Makes the call.
    pub call: C,
    /// Makes the call and converts.
    pub value: V,
}

impl<const WAITS: bool, C, V> Read for Call<WAITS, C, V>
where
    C: Fn(u64) -> u64 + Copy + Send + Sync + 'static,
    V: Fn() -> Result<i64, Errno> + Copy + Send + Sync + 'static,
{
    const WAITS: bool = WAITS;

    #[inline(always)]
    fn call(self, dep: u64) -> u64 {
        (self.call)(dep)
    }

    #[inline(always)]
    fn value(self) -> Result<i64, Errno> {
        (self.value)()
    }
}

/// A call that gives a [`Timespec`].
pub fn timed(
    read: impl Fn() -> Result<Timespec, Errno> + Copy + Send + Sync + 'static,
) -> impl Read {
    Call::<true, _, _> {
        call: move |dep| word(read()).wrapping_add(dep),
        value: move || read().map(nanos),
    }
}

/// A call that gives a count of `unit_ns`.
pub fn counted<const WAITS: bool>(
    unit_ns: i64,
    read: impl Fn() -> Result<i64, Errno> + Copy + Send + Sync + 'static,
) -> impl Read {
    Call::<WAITS, _, _> {
        call: move |dep| read().map_or(0, |count| count as u64).wrapping_add(dep),
        value: move || read().map(|count| count.wrapping_mul(unit_ns)),
    }
}

/// `std::time::Instant::now()`; its value is nanoseconds since the first use here.
#[expect(clippy::disallowed_methods, reason = "this is the call that is measured")]
pub fn std_instant() -> impl Read {
    // An instant cannot be turned into a number, only compared; the first one made is the zero.
    static ZERO: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    let call = |dep: u64| {
        black_box(std::time::Instant::now());
        dep
    };
    let value = || {
        let now = std::time::Instant::now();
        let zero = ZERO.get_or_init(|| now);
        // Signed, so that a step back shows: `duration_since` would hide it.
        Ok(match now.checked_duration_since(*zero) {
            Some(after) => after.as_nanos() as i64,
            None => -(zero.duration_since(now).as_nanos() as i64),
        })
    };
    Call::<true, _, _> { call, value }
}

/// `std::time::SystemTime::now()`, nanoseconds since the Unix epoch.
#[expect(clippy::disallowed_methods, reason = "this is the call that is measured")]
pub fn std_system_time() -> impl Read {
    let call = |dep: u64| {
        black_box(std::time::SystemTime::now());
        dep
    };
    let value = || {
        Ok(match std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH) {
            Ok(after) => after.as_nanos() as i64,
            Err(before) => -(before.duration().as_nanos() as i64),
        })
    };
    Call::<true, _, _> { call, value }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FINE: [ClockId; 5] = [
        ClockId::REALTIME,
        ClockId::MONOTONIC,
        ClockId::MONOTONIC_RAW,
        ClockId::BOOTTIME,
        ClockId::TAI,
    ];

    /// Readings taken one after the other in one thread, each by another way.
    fn in_turns(ways: &[&dyn Loops]) -> Vec<i64> {
        ways.iter().map(|way| way.value().unwrap()).collect()
    }

    #[test]
    fn readings_through_libc_the_vdso_and_the_system_call_are_of_one_clock() {
        if !System::AVAILABLE {
            // No system calls of our own on this processor: nothing to take turns with.
            return;
        }
        for clock in FINE {
            let (libc, system) = (LibcClock(clock), SystemClock(clock));
            // Where there is no vDSO its place is taken by the system call: then libc makes one too.
            let straight: Box<dyn Loops> = match Vdso::find() {
                Ok(vdso) => Box::new(VdsoClock(vdso, clock)),
                Err(_) => Box::new(system),
            };
            let ways: [&dyn Loops; 7] =
                [&system, &*straight, &libc, &system, &libc, &*straight, &system];
            // Somebody may set the wall clock meanwhile: a law of the clock is broken only if the
            // same way, taken at both ends, went forward.
            let broken = (0..20_000)
                .map(|_| in_turns(&ways))
                .find(|readings| readings.first() <= readings.last() && !readings.is_sorted());
            assert_eq!(broken, None, "{:?}", clock.name());
        }
    }
}
