//! Handlers that read all clocks, at a high rate, on a stack of their own, while what they interrupt reads and
//! refreshes them too.

#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

mod common;

use clockwise::{Clock, ClockId, Instant, SystemTime, coarse};
use common::process::{beat, fork, handle, own_stack, send, this_thread};
use common::{ByCall, CLOCKS, bracket, say};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use std::thread;

/// Aimed at one thread each.
const AIMED: i32 = libc::SIGUSR1;
/// By a timer, for whichever thread it finds.
const TIMED: i32 = libc::SIGUSR2;
const SIGNALS: u64 = 150_000;
/// Ten thousand a second.
const PERIOD_US: i64 = 100;

thread_local! {
    /// The thread's last reading that was whole before a handler began.
    static READ: AtomicI64 = const { AtomicI64::new(0) };
    /// The latest reading of its handlers.
    static HANDLED: AtomicI64 = const { AtomicI64::new(0) };
    /// How many handlers it is in.
    static DEPTH: AtomicU64 = const { AtomicU64::new(0) };
}

static HANDLERS: AtomicU64 = AtomicU64::new(0);
static NESTED: AtomicU64 = AtomicU64::new(0);
static READS: AtomicU64 = AtomicU64::new(0);
static WENT_BACK: AtomicU64 = AtomicU64::new(0);
static OUT_OF_BOUND: AtomicU64 = AtomicU64::new(0);
static STOP: AtomicBool = AtomicBool::new(false);

/// One reading of MONOTONIC, by one way or another.
fn read(round: u64) -> i64 {
    let time = match round % 4 {
        0 | 1 => Instant::now(),
        2 => Instant::now_relaxed(),
        _ => Instant::now_with_bound().time(),
    };
    time.as_nanos() as i64
}

extern "C" fn on_signal(_: i32) {
    let round = HANDLERS.fetch_add(1, Relaxed);
    let depth = DEPTH.with(|depth| depth.fetch_add(1, Relaxed));
    NESTED.fetch_add(u64::from(depth > 0), Relaxed);
    // Whole before this handler, be it of the thread or of a handler that this one interrupted.
    let floor = READ.with(|read| read.load(Relaxed)).max(HANDLED.with(|time| time.load(Relaxed)));
    let now = read(round);
    WENT_BACK.fetch_add(u64::from(now < floor), Relaxed);
    HANDLED.with(|time| time.fetch_max(now, Relaxed));
    let id = CLOCKS[round as usize % CLOCKS.len()];
    let stays = bracket(Clock::new(id), &ByCall).is_ok();
    OUT_OF_BOUND.fetch_add(u64::from(!stays), Relaxed);
    std::hint::black_box((SystemTime::now(), coarse::monotonic(), clockwise::recent()));
    DEPTH.with(|depth| depth.fetch_sub(1, Relaxed));
}

/// Reads and refreshes until told to stop.
fn work() {
    let mut round = 0;
    while !STOP.load(Relaxed) {
        let floor =
            HANDLED.with(|time| time.load(Relaxed)).max(READ.with(|read| read.load(Relaxed)));
        let now = read(round);
        WENT_BACK.fetch_add(u64::from(now < floor), Relaxed);
        READ.with(|read| read.store(now, Relaxed));
        // As often as can be: a handler is to meet one at it.
        let _ = Clock::new(CLOCKS[round as usize % CLOCKS.len()]).refresh();
        let stays = bracket(Clock::new(ClockId::REALTIME), &ByCall).is_ok();
        OUT_OF_BOUND.fetch_add(u64::from(!stays), Relaxed);
        round += 1;
    }
    READS.fetch_add(round, Relaxed);
}

fn storm() -> Result<(), String> {
    own_stack();
    handle(AIMED, on_signal);
    handle(TIMED, on_signal);
    let threads = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                own_stack();
                threads.lock().unwrap().push(this_thread());
                work();
            });
        }
        let all = || threads.lock().unwrap().clone();
        while all().len() < 3 {
            thread::yield_now();
        }
        let all = all();
        beat(TIMED, PERIOD_US);
        for number in 0..SIGNALS {
            send(all[number as usize % 3], AIMED);
        }
        STOP.store(true, Relaxed);
    });
    let count = |counter: &AtomicU64| counter.load(Relaxed);
    say(&format!(
        "{} handlers read the clocks, {} of them inside another, beside {} rounds of reads",
        count(&HANDLERS),
        count(&NESTED),
        count(&READS)
    ));
    let wrong = (count(&WENT_BACK), count(&OUT_OF_BOUND));
    if wrong == (0, 0) && count(&HANDLERS) > 0 && count(&READS) > 0 {
        return Ok(());
    }
    Err(format!(
        "(went back, out of bound): {wrong:?}; {:?}",
        CLOCKS.map(|id| Clock::new(id).status())
    ))
}

#[test]
fn handlers_read_the_clock_while_threads_read_it() {
    fork(storm).wait().unwrap();
}
