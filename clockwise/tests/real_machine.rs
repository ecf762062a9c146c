//! This machine: what the crate promises, against the kernel and between threads. Relations only; how much was
//! judged is said on standard error.

#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

mod common;

use clockwise::{
    Clock, ClockId, Engine, Errno, Instant, Kernel, Origin, Refresher, SystemTime, Ticker,
    TickerError, Timespec, coarse,
};
use clockwise_core::counter::SharedHardware;
use clockwise_core::kernel::{Linux, SharedLinux, System};
use clockwise_core::laws::Monotonic;
use common::process::{allowed_cpus, pin, thread_id};
use common::{ByCall, CLOCKS, bracket, judge, not_tried, say, steps, stretch, unfit};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Brackets of all five clocks in one thread for so long, on the processors that `place` chooses.
fn look(milliseconds: i64, mut place: impl FnMut(u64)) -> (u64, u64, Vec<String>) {
    let goes_on = stretch(milliseconds);
    let vdso = Linux::find();
    let (mut rounds, mut from_counter, mut wrong) = (0, 0, Vec::new());
    let mut laws = [Monotonic::new(); 5];
    while goes_on() {
        place(rounds);
        for _ in 0..20 {
            for (id, law) in CLOCKS.into_iter().zip(&mut laws) {
                let clock = Clock::new(id);
                let told =
                    if rounds % 2 == 0 { bracket(clock, &ByCall) } else { bracket(clock, &vdso) };
                let reading = match told {
                    Ok(reading) => reading,
                    Err(words) => {
                        wrong.push(words);
                        continue;
                    }
                };
                from_counter += u64::from(reading.origin == Origin::Counter);
                if let Err(violation) = law.see(reading.nanos) {
                    wrong.push(format!("{clock}: {violation}"));
                }
            }
            rounds += 1;
        }
    }
    (rounds * 5, from_counter, wrong)
}

#[test]
fn every_reading_is_within_its_bound_of_the_kernel_pinned_and_migrating() {
    const THREADS: usize = 4;
    let cpus = &allowed_cpus();
    let steps_before = steps();
    let look_in_threads = |milliseconds, place: &(dyn Fn(usize, u64) + Sync)| {
        let seen: Vec<_> = thread::scope(|scope| {
            let look = |index| scope.spawn(move || look(milliseconds, |round| place(index, round)));
            let threads: Vec<_> = (0..THREADS).map(look).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let wrong: Vec<_> = seen.iter().flat_map(|(_, _, wrong)| wrong.clone()).collect();
        judge(&wrong, steps_before);
        let sum = |part: fn(&(u64, u64, Vec<String>)) -> u64| seen.iter().map(part).sum::<u64>();
        (sum(|seen| seen.0), sum(|seen| seen.1))
    };
    // Each processor in turn, five seconds in all, and then migrating for as long; a machine with a thousand of them is sampled.
    let turns = cpus.iter().step_by(cpus.len().div_ceil(32));
    let share = (5_000 / turns.len() as i64).max(30);
    let (mut brackets, mut from_counter) = (0, 0);
    for &cpu in turns {
        let place = move |_, round: u64| {
            if round == 0 {
                pin(cpu);
            }
        };
        let (more, counter) = look_in_threads(share, &place);
        (brackets, from_counter) = (brackets + more, from_counter + counter);
    }
    let migrating = move |index: usize, round: u64| {
        if round % 100 == 0 {
            pin(cpus[(round as usize / 100 + index) % cpus.len()]);
        }
    };
    let (more, counter) = look_in_threads(5_000, &migrating);
    (brackets, from_counter) = (brackets + more, from_counter + counter);
    say(&format!(
        "{brackets} brackets of the kernel on {} processors, {from_counter} answered from the counter",
        cpus.len()
    ));
    assert!(brackets > 0);
    assert!(unfit().is_some() || from_counter > brackets / 2, "{from_counter} of {brackets}");
}

#[test]
fn no_thread_sees_a_clock_go_back_whatever_the_read() {
    let steps_before = steps();
    let work = || {
        let goes_on = stretch(1_000);
        let (mut law, mut wall, mut reads) = (Monotonic::new(), Monotonic::new(), 0u64);
        let mut wrong = Vec::new();
        while goes_on() {
            for round in 0..100 {
                let times = [Instant::now_relaxed, Instant::now, Instant::now_relaxed];
                let time = times[round % 3]();
                if let Err(violation) = law.see(time.as_nanos() as i64) {
                    wrong.push(format!("CLOCK_MONOTONIC: {violation}"));
                }
                let walls = [SystemTime::now, SystemTime::now_relaxed];
                if let Err(violation) = wall.see(walls[round % 2]().as_nanos() as i64) {
                    wrong.push(format!("CLOCK_REALTIME: {violation}"));
                }
                reads += 2;
            }
        }
        (reads, wrong)
    };
    let seen: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    judge(&seen.iter().flat_map(|(_, wrong)| wrong.clone()).collect::<Vec<_>>(), steps_before);
    say(&format!(
        "{} reads in four threads, none before its thread's last",
        seen.iter().map(|s| s.0).sum::<u64>()
    ));
}

#[test]
fn recent_and_coarse_times_are_never_ahead() {
    let goes_on = stretch(400);
    let not_ahead = |what: &str, rounds: &mut u64| {
        let steps_before = steps();
        let mut last = clockwise::recent();
        for _ in 0..50 {
            let recent = clockwise::recent();
            let now = Instant::now();
            assert!(last <= recent && recent <= now, "{what}: {last:?} {recent:?} {now:?}");
            last = recent;
            let recent = clockwise::recent_system_time();
            let wall = SystemTime::now();
            assert!(recent <= wall || steps() != steps_before, "{what}: {recent:?} {wall:?}");
            // The kernel's own, to which ours may be as near as the bound says.
            let coarse = coarse::monotonic();
            let latest = Instant::now_with_bound().latest();
            assert!(coarse <= latest, "{coarse:?} {latest:?}");
            let coarse = coarse::realtime();
            let latest = SystemTime::now_with_bound().latest();
            assert!(coarse <= latest || steps() != steps_before, "{coarse:?} {latest:?}");
            *rounds += 1;
        }
    };
    let mut rounds = 0;
    not_ahead("without a ticker", &mut rounds);
    for period in [0, 9].map(Duration::from_micros) {
        assert!(matches!(Ticker::start(period), Err(TickerError::Period)), "{period:?}");
    }
    assert!(matches!(Ticker::start(Duration::from_millis(1001)), Err(TickerError::Period)));
    while goes_on() {
        for period in [10, 300] {
            let ticker = Ticker::start(Duration::from_micros(period)).unwrap();
            assert!(ticker.is_running());
            assert!(matches!(Ticker::start(Duration::from_millis(1)), Err(TickerError::Running)));
            not_ahead("with a ticker", &mut rounds);
            drop(ticker);
        }
    }
    // A ticker of a second keeps its time: what `recent` gives is a load, and no read.
    let ticker = Ticker::start(Duration::from_secs(1)).unwrap();
    let kept = clockwise::recent();
    let seconds = stretch(1_000);
    while seconds() {
        if clockwise::recent() == kept && Instant::now() > kept {
            break;
        }
    }
    drop(ticker);
    let now = Instant::now();
    assert!(clockwise::recent() >= now, "without its ticker it is the clock");
    say(&format!("{rounds} rounds of recent and coarse times"));
}

#[test]
fn every_clock_id_gets_the_kernels_answer() {
    let (process, thread) = (std::process::id() as i32, thread_id());
    // clock_getcpuclockid(3): the number inverted, then the kind: 2 of a process, 6 of a thread, 3 of a device.
    let dynamic = [!process << 3 | 2, !thread << 3 | 6, !1 << 3 | 2, !99 << 3 | 3, -2, -6];
    let odd = [-1, -8, 10, 12, 13, 15, 24, 25, 63, 64, 1 << 16, i32::MIN, i32::MAX];
    let ids = (0..24).chain(dynamic).chain(odd).map(ClockId);
    let (mut known, mut refused) = (0, 0);
    for id in ids {
        let clock = Clock::new(id);
        for read in [Clock::now, Clock::now_relaxed] {
            let (before, ours, after) =
                (System.clock_gettime(id), read(&clock), System.clock_gettime(id));
            assert_eq!(ours.err(), before.err(), "{clock}");
            let (Ok(before), Ok(ours), Ok(after)) = (before, ours, after) else {
                refused += 1;
                continue;
            };
            known += 1;
            // Exact where it is handed through; the five that are followed have tests of their own.
            if !CLOCKS.contains(&id) && id != ClockId::REALTIME_COARSE {
                let inside = before.nanos_i64() <= ours && ours <= after.nanos_i64();
                assert!(inside, "{clock}: {before} {ours} {after}");
            }
        }
        assert_eq!(clock.timespec().err(), System.clock_gettime(id).err(), "{clock}");
        assert_eq!(clock.now_with_bound().err(), System.clock_gettime(id).err(), "{clock}");
        assert_eq!(clock.status().is_some(), CLOCKS.contains(&id), "{clock}");
        assert_eq!(clock.refresh().is_ok(), CLOCKS.contains(&id), "{clock}");
        assert_eq!(clock.id(), id);
    }
    say(&format!("clock ids: {} answered, {} refused, as by the kernel", known / 2, refused / 2));
    assert!(known >= 2 * 9, "Linux has more clocks than {known} / 2");
}

#[test]
fn the_status_tells_what_happened() {
    let clock = Clock::boottime();
    let goes_on = stretch(300);
    let mut reads = 0u64;
    while goes_on() {
        clock.now().unwrap();
        reads += 1;
    }
    let status = clock.status().unwrap();
    if let Some(reason) = status.unfit {
        not_tried("what the status says of a counter in use", &reason.to_string());
        assert!(!status.fast && status.refreshes == 0, "{status:?}");
        return;
    }
    assert!(status.refreshes >= 2, "a line needs two samples: {status:?}");
    // A line may end between a read and the question, where the processor is taken away.
    let is_fast = (0..100).any(|_| clock.now().is_ok() && clock.is_fast());
    assert!(is_fast, "{status:?}");
    assert!(status.period_ns >= 1_000_000 && status.frequency_hz > 1_000_000, "{status:?}");
    assert!(status.residual_ns.unsigned_abs() <= status.residual_max_ns, "{status:?}");
    // Other tests read this clock too; they do not make its refreshes more than reads could be.
    assert!(status.refreshes < reads, "most reads take no sample: {reads} {status:?}");
    assert_eq!(
        status.last_steps.iter().flatten().count() as u64,
        status.steps.min(8),
        "{status:?}"
    );
    say(&format!("{reads} reads: {status:?}"));
}

/// The kernel, which counts who asks it.
#[derive(Default)]
struct Counted {
    here: AtomicU64,
    elsewhere: AtomicU64,
    /// The thread that is `here`.
    thread: AtomicI64,
}

impl Kernel for &Counted {
    fn now(&self, clock: ClockId) -> Result<Timespec, Errno> {
        let is_here = i64::from(thread_id()) == self.thread.load(Ordering::Relaxed);
        let count = if is_here { &self.here } else { &self.elsewhere };
        count.fetch_add(1, Ordering::Relaxed);
        SharedLinux.now(clock)
    }
}

impl Counted {
    fn by_this_thread() -> Self {
        Self { thread: i64::from(thread_id()).into(), ..Self::default() }
    }

    fn here(&self) -> u64 {
        self.here.load(Ordering::Relaxed)
    }
}

#[test]
fn the_first_read_asks_the_kernel_thrice_at_most_and_soon_it_is_fast() {
    if let Some(reason) = unfit() {
        not_tried("how soon the counter answers", &reason);
        return;
    }
    const TRIES: u32 = 40;
    let (mut most, mut samples, mut soonest) = (0, u64::MAX, i64::MAX);
    for _ in 0..TRIES {
        let kernel = Counted::by_this_thread();
        let engine = Engine::new(SharedHardware, &kernel);
        let clock = Clock::of(&engine, ClockId::MONOTONIC);
        assert_eq!(kernel.here(), 0, "nothing is asked before it is read");
        let first = clock.now().unwrap();
        assert!((1..=3).contains(&kernel.here()), "{}", kernel.here());
        most = most.max(kernel.here());
        // Without the count, which makes the kernel ten times slower to read.
        let engine = Engine::new(SharedHardware, SharedLinux);
        let clock = Clock::of(&engine, ClockId::MONOTONIC);
        let first = clock.now().unwrap().max(first);
        thread::sleep(Duration::from_millis(2));
        // The second sample, and then as many as it takes: one, undisturbed, 0.2 ms later.
        let second = clock.now().unwrap();
        assert!(second >= first);
        let mut last = second;
        while !clock.is_fast() && last < second + 2_000_000_000 {
            last = clock.now().unwrap();
        }
        assert!(clock.is_fast(), "{}", clock.status().unwrap());
        samples = samples.min(clock.status().unwrap().refreshes);
        soonest = soonest.min(last - second);
    }
    say(&format!(
        "fast {} us after the second read at best; {most} reads of the kernel for the first at most",
        soonest / 1_000
    ));
    assert_eq!(samples, 3, "a first, a second for the rate, a third to confirm it");
}

#[test]
fn readers_take_no_samples_while_somebody_refreshes() {
    if let Some(reason) = unfit() {
        not_tried("a refresher", &reason);
        return;
    }
    // The work of a `Refresher`, on a kernel that counts.
    let kernel = Counted::by_this_thread();
    let engine = Engine::new(SharedHardware, &kernel);
    let clock = Clock::of(&engine, ClockId::MONOTONIC);
    let done = AtomicBool::new(false);
    let free = thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                clock.refresh().unwrap();
                thread::sleep(Duration::from_millis(1));
            }
        });
        // On a busy machine the thread does not come in time, and readers help themselves.
        let free = (0..20).find(|_| {
            let (asked, goes_on) = (kernel.here(), stretch(100));
            while goes_on() {
                clock.now().unwrap();
            }
            kernel.here() == asked
        });
        done.store(true, Ordering::Relaxed);
        free
    });
    let elsewhere = kernel.elsewhere.load(Ordering::Relaxed);
    assert!(elsewhere > 0, "the refreshes are taken");
    match free {
        Some(_) => say(&format!("100 ms of reads without a sample, {elsewhere} by the refresher")),
        None => not_tried(
            "readers beside a refresher",
            "the machine is too busy to have it run in time",
        ),
    }
}

#[test]
fn a_refresher_keeps_a_clock_that_nobody_reads() {
    if let Some(reason) = unfit() {
        not_tried("a refresher", &reason);
        return;
    }
    // TAI, which no other test reads for as long as that.
    let clock = Clock::tai();
    let refreshes = || clock.status().unwrap().refreshes;
    let refresher = Refresher::start(&[ClockId::TAI]).unwrap();
    assert!(refresher.is_running());
    let from_counter = (0..50).any(|_| {
        let before = refreshes();
        thread::sleep(Duration::from_millis(30));
        clock.now_with_bound().unwrap().origin == Origin::Counter && refreshes() > before
    });
    drop(refresher);
    assert!(from_counter, "{:?}", clock.status());
}

#[test]
fn the_coarse_clocks_step_with_the_kernels_timer_and_the_fine_ones_do_not() {
    if !System::AVAILABLE {
        not_tried("coarse clocks", "they are the fine ones here");
        return;
    }
    let (mut coarse_steps, mut fine_steps) = (0, 0);
    let (mut coarse_last, mut fine_last) = (coarse::monotonic(), Instant::now());
    for _ in 0..100_000 {
        let (coarse, fine) = (coarse::monotonic(), Instant::now());
        coarse_steps += u32::from(coarse != coarse_last);
        fine_steps += u32::from(fine != fine_last);
        (coarse_last, fine_last) = (coarse, fine);
    }
    assert!(coarse_steps < fine_steps / 100, "{coarse_steps} coarse, {fine_steps} fine");
}
