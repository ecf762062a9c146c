//! This machine's clocks and counter against each other. Only relations: no duration is measured,
//! so a loaded or an emulated machine gives the same answers. What a machine cannot show is said.

use clockwise_core::counter::{Counter, Hardware, after};
use clockwise_core::kernel::{ClockId, Errno, Kernel, Linux, NoVdso, System, Vdso};
use clockwise_core::units::Timespec;
use std::env::consts::ARCH;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

/// Says on standard error, which the test runner does not hide, what could not be judged here.
macro_rules! not_judged {
    ($($words:tt)*) => {{
        use std::io::Write;
        drop(writeln!(std::io::stderr(), "not judged: {}", format_args!($($words)*)));
    }};
}

const ROUNDS: usize = 50_000;

/// The vDSO, or `None` after saying why there is none, which is normal for some processes.
fn vdso() -> Option<Vdso> {
    match Vdso::find() {
        Ok(vdso) => Some(vdso),
        Err(why @ (NoVdso::NotThisProcessor | NoVdso::NotMapped)) => {
            assert_eq!(why == NoVdso::NotThisProcessor, !System::AVAILABLE);
            not_judged!("{why}");
            None
        }
        Err(why) => panic!("{why}"),
    }
}

/// Why the kernel would not vouch for the counter's being the same on every core.
fn distrust() -> Option<String> {
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| error.to_string());
    let clocksource = text.trim();
    let trusted =
        matches!((ARCH, clocksource), ("x86_64", "tsc") | ("aarch64", "arch_sys_counter"));
    (!trusted).then(|| format!("the clocksource of this {ARCH} is {clocksource}"))
}

/// Asserts `before <= middle <= after` for many readings. A wall clock may be set back meanwhile:
/// a bracket that is itself upside down tells nothing, unless all of them are.
fn bracketed<T: PartialOrd + std::fmt::Debug>(what: &str, mut read: impl FnMut() -> [T; 3]) {
    let mut judged = 0;
    for round in 0..ROUNDS {
        let [before, middle, after] = read();
        if before <= after {
            let inside = before <= middle && middle <= after;
            assert!(inside, "{what}, round {round}: {before:?} <= {middle:?} <= {after:?}");
            judged += 1;
        }
    }
    assert!(judged > ROUNDS / 2, "{what}: only {judged} brackets of {ROUNDS} are not upside down");
}

#[test]
fn a_reading_through_the_vdso_lies_between_two_system_calls() {
    let Some(vdso) = vdso() else { return };
    for clock in [ClockId::MONOTONIC, ClockId::MONOTONIC_RAW, ClockId::BOOTTIME] {
        let mut last = Timespec::default();
        bracketed(clock.name().unwrap(), || {
            let told = [
                System.clock_gettime(clock).unwrap(),
                vdso.clock_gettime(clock).unwrap(),
                System.clock_gettime(clock).unwrap(),
            ];
            // These clocks have no excuse for an upside-down bracket.
            assert!(last <= told[0] && told[0] <= told[2], "{clock:?}: {last} then {told:?}");
            last = told[2];
            told
        });
    }
    for clock in [ClockId::REALTIME, ClockId::TAI] {
        bracketed(clock.name().unwrap(), || {
            [
                System.clock_gettime(clock).unwrap(),
                vdso.clock_gettime(clock).unwrap(),
                System.clock_gettime(clock).unwrap(),
            ]
        });
    }
}

#[test]
fn the_vdso_and_the_system_call_know_the_same_clocks() {
    let Some(vdso) = vdso() else { return };
    let odd = [-1, 10, 12, 24, i32::MIN, i32::MAX].map(ClockId);
    for clock in ClockId::ALL.into_iter().chain(odd) {
        let (mapped, called) = (vdso.clock_gettime(clock), System.clock_gettime(clock));
        assert_eq!(mapped.err(), called.err(), "clock_gettime({})", clock.0);
        // Linux 6.18's vDSO gives a resolution for auxiliary clocks (16..24) that are switched off.
        if (16..24).contains(&clock.0) {
            continue;
        }
        let called = System.clock_getres(clock);
        match vdso.clock_getres(clock) {
            Err(Errno::NOSYS) => not_judged!("the vDSO has no clock_getres"),
            mapped => assert_eq!(mapped, called, "clock_getres({})", clock.0),
        }
    }
}

#[test]
fn every_answer_of_the_kernel_has_nanoseconds_below_a_second() {
    for kernel in [Linux::find(), Linux::system_calls_only()] {
        for time in ClockId::ALL.into_iter().filter_map(|clock| kernel.now(clock).ok()) {
            assert!((0..1_000_000_000).contains(&time.nsec), "{time:?}");
        }
    }
}

#[test]
fn linux_answers_with_the_vdso_and_without_it() {
    for (name, kernel) in [("found", Linux::find()), ("calls", Linux::system_calls_only())] {
        for clock in [ClockId::MONOTONIC, ClockId::REALTIME, ClockId::THREAD_CPUTIME] {
            let told = kernel.now(clock);
            assert_eq!(told.is_ok(), System::AVAILABLE, "{name}: {clock:?}: {told:?}");
        }
        let unknown = if System::AVAILABLE { Errno::INVAL } else { Errno::NOSYS };
        assert_eq!(kernel.now(ClockId(i32::MAX)), Err(unknown), "{name}");
    }
}

#[test]
fn the_second_of_time_is_the_second_of_the_last_tick() {
    let coarse = || System.clock_gettime(ClockId::REALTIME_COARSE).unwrap().sec;
    if System.time().is_ok() {
        bracketed("time", || [coarse(), System.time().unwrap(), coarse()]);
    } else {
        not_judged!("the kernel of this {ARCH} has no time()");
    }
    match vdso().map(|vdso| (vdso, vdso.time())) {
        Some((vdso, Ok(_))) => {
            bracketed("time of the vDSO", || [coarse(), vdso.time().unwrap(), coarse()]);
        }
        _ => not_judged!("no vDSO of this {ARCH} with time()"),
    }
}

#[test]
fn gettimeofday_is_the_wall_clock_without_its_nanoseconds() {
    if !System::AVAILABLE {
        return not_judged!("no system calls on {ARCH}");
    }
    let micros = |time: Timespec| time.nanos() / 1000;
    let wall = || micros(System.clock_gettime(ClockId::REALTIME).unwrap());
    bracketed("gettimeofday", || [wall(), micros(System.gettimeofday().unwrap()), wall()]);
    match vdso().map(|vdso| (vdso, vdso.gettimeofday())) {
        Some((vdso, Ok(_))) => {
            let told = || micros(vdso.gettimeofday().unwrap());
            bracketed("gettimeofday of the vDSO", || [wall(), told(), wall()]);
        }
        _ => not_judged!("no vDSO of this {ARCH} with gettimeofday()"),
    }
}

#[test]
fn ordered_ticks_never_go_back_in_one_thread() {
    let counter = match Hardware::find() {
        Ok(counter) => counter,
        Err(why) => return not_judged!("{why}"),
    };
    // The architecture of aarch64 promises one counter for all; x86-64 leaves it to the machine.
    if let ("x86_64", Some(why)) = (ARCH, distrust()) {
        return not_judged!("{why}");
    }
    let mut last = counter.ticks();
    for _ in 0..1_000_000 {
        let now = counter.ticks();
        assert!(now.since(last).is_some(), "{last:?} then {now:?}");
        last = now;
    }
}

#[test]
fn ordered_ticks_never_go_back_from_one_thread_to_another() {
    let counter = match Hardware::find() {
        Ok(counter) => counter,
        Err(why) => return not_judged!("{why}"),
    };
    if let Some(why) = distrust() {
        return not_judged!("{why}");
    }
    // A place for each: with one for both, a thread would mostly meet its own last reading.
    let places = [Place(AtomicU64::new(0)), Place(AtomicU64::new(0))];
    let start = Barrier::new(2);
    let exchange = &|mine: usize| {
        let (mut last, mut met, mut violations) = (0, 0, 0);
        start.wait();
        for _ in 0..1_000_000u32 {
            // Acquire: the reading that was left there happened before the one below.
            let seen = places[1 - mine].0.load(Ordering::Acquire);
            after(seen);
            let now = counter.ticks().0;
            places[mine].0.store(now, Ordering::Release);
            met += u32::from(seen != last);
            violations += u32::from(now < seen);
            last = seen;
        }
        (met, violations)
    };
    let seen = std::thread::scope(|scope| {
        [0, 1].map(|mine| scope.spawn(move || exchange(mine))).map(|thread| thread.join().unwrap())
    });
    assert_eq!([seen[0].1, seen[1].1], [0, 0], "violations by each of the two threads");
    if seen[0].0 + seen[1].0 < 1_000 {
        not_judged!("the two threads hardly met: one processor, or a busy machine");
    }
}

/// A reading on cache lines of its own.
#[repr(align(128))]
struct Place(AtomicU64);

#[test]
fn a_processor_without_system_calls_here_says_so() {
    let known = matches!(ARCH, "x86_64" | "aarch64");
    assert_eq!(System::AVAILABLE, known, "{ARCH}");
    if known {
        return not_judged!("{ARCH} is known");
    }
    assert!(matches!(Vdso::find(), Err(NoVdso::NotThisProcessor)));
    assert!(Hardware::find().is_err());
    for clock in ClockId::ALL {
        assert_eq!(System.clock_gettime(clock), Err(Errno::NOSYS));
        assert_eq!(System.clock_getres(clock), Err(Errno::NOSYS));
    }
    assert_eq!(System.time(), Err(Errno::NOSYS));
    assert_eq!(System.gettimeofday(), Err(Errno::NOSYS));
}
