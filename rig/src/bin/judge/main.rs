//! The program that runs in a guest: threads read our clocks between readings of the kernel's while the kernel's clock is
//! set, steered and taken away; every reading is judged by core's laws.
//!
//! `judge read SUBJECT,... THREADS ACT...` prints one JSON object a line: what was said, the status at each note, the first
//! broken laws, and for each clock what became of it. Exit status 0: no law was broken; 1: some were; 2: it could not
//! be tried. `judge price SUBJECT,... BATCHES` prints what readings cost.

mod acts;
mod price;
mod reader;
mod subject;
mod system;

use acts::Act;
use clockwise::{ClockId, Status};
use clockwise_core::clock::FOLLOWED;
use reader::{Found, Judged, Shared, Suspect, Window, kernel};
use serde_json::{Value, json};
use std::io::Write;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;
use subject::Subject;

/// So many readings are shown that broke a law, of each law.
const SHOWN: u32 = 8;
/// So often the kernel's times are read, to have them once in a few microseconds.
const TRIES: u32 = 20;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match judge(&args) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(1),
        Err(why) => {
            let _ = writeln!(std::io::stderr(), "{why}");
            ExitCode::from(2)
        }
    }
}

/// How many laws were broken.
fn judge(args: &[String]) -> Result<u64, String> {
    let [what, subjects, count, acts @ ..] = args else {
        return Err("usage: judge read|price SUBJECT,... THREADS|BATCHES ACT...".to_owned());
    };
    let subjects = subjects.split(',').map(Subject::find).collect::<Result<Vec<_>, _>>()?;
    let count: usize = count.parse().map_err(|_| format!("{count:?} is not a number"))?;
    let acts: Vec<Act> = acts.iter().map(|word| word.parse()).collect::<Result<_, _>>()?;
    match &**what {
        "read" => read(subjects, count, &acts),
        "price" => price(&subjects, count).map(|()| 0),
        _ => Err(format!("judge {what:?}: read or price")),
    }
}

fn price(subjects: &[Subject], batches: usize) -> Result<(), String> {
    for subject in subjects {
        for clock in FOLLOWED {
            let told = price::prices(subject, clock, batches);
            tell(&told.map_err(|errno| format!("{clock:?}: {errno}"))?);
            note(subject, clock, "end");
        }
    }
    Ok(())
}

fn read(subjects: Vec<Subject>, threads: usize, acts: &[Act]) -> Result<u64, String> {
    let machine = machine("start");
    tell(&machine);
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let is_stale_at_times = machine["current"] == "hpet" && processors > 1;
    let none = || [const { i64::MIN }; FOLLOWED.len()].map(Into::into);
    let judged = subjects.into_iter().map(|subject| Judged { subject, latest: none() });
    let shared = Shared {
        subjects: judged.collect(),
        is_over: false.into(),
        rests: false.into(),
        is_stale_at_times,
    };
    let (windows, found) = thread::scope(|scope| {
        let readers: Vec<_> = (0..threads).map(|_| scope.spawn(|| reader::run(&shared))).collect();
        let windows = act(&shared, acts);
        shared.is_over.store(true, Ordering::Relaxed);
        let found = readers.into_iter().map(|reader| match reader.join() {
            Ok(found) => found.map_err(|errno| format!("a clock refuses: {errno}")),
            Err(_) => Err("a reader panics".to_owned()),
        });
        (windows, found.collect::<Result<Vec<_>, String>>())
    });
    let (windows, found) = (windows?, found?);
    tell(&json!({ "events": acts.iter().filter(|act| act.is_event()).count() }));
    let mut broken = 0;
    for (index, judged) in shared.subjects.iter().enumerate() {
        let of_it: Vec<_> = found.iter().map(|found| &found[index]).collect();
        broken += conclude(&judged.subject, &windows, &of_it);
    }
    Ok(broken)
}

/// What the kernel says: which one it is, of its clocksources, of the time, of the clock on the board; and whether it has a vDSO.
fn machine(name: &str) -> Value {
    let text = |path: &str| std::fs::read_to_string(path).map(|text| text.trim().to_owned()).ok();
    let source =
        |name| text(&format!("/sys/devices/system/clocksource/clocksource0/{name}_clocksource"));
    let times = FOLLOWED
        .into_iter()
        .zip(times())
        .map(|(clock, time)| (clock.name().unwrap_or_default().to_owned(), json!(time)));
    let board = text("/sys/class/rtc/rtc0/since_epoch").and_then(|text| text.parse::<i64>().ok());
    json!({
        "note": name,
        "release": text("/proc/sys/kernel/osrelease"),
        "current": source("current"),
        "available": source("available"),
        "times_ns": Value::Object(times.collect()),
        "board_s": board,
        "has_vdso": system::has_vdso(),
    })
}

/// The kernel's times, as nearly at once as a busy machine lets them be read.
fn times() -> [Option<i64>; FOLLOWED.len()] {
    let all = || FOLLOWED.map(|clock| kernel(clock).ok());
    let timed = (0..TRIES).map(|_| {
        let (begin, times, end) = (kernel(ClockId::MONOTONIC), all(), kernel(ClockId::MONOTONIC));
        (end.unwrap_or(i64::MAX).saturating_sub(begin.unwrap_or(0)), times)
    });
    timed.min_by_key(|(spent_ns, _)| *spent_ns).map_or([None; FOLLOWED.len()], |(_, times)| times)
}

/// Does all acts; gives when the kernel's time was moved.
fn act(shared: &Shared, acts: &[Act]) -> Result<Vec<Window>, String> {
    let mut windows = Vec::new();
    for act in acts {
        windows.extend(act.perform()?);
        match act {
            Act::Rest(milliseconds) => rest(shared, *milliseconds),
            Act::Say(word) => tell(&json!({ "said": word })),
            Act::Note(name) => {
                tell(&machine(name));
                for judged in &shared.subjects {
                    FOLLOWED.into_iter().for_each(|clock| note(&judged.subject, clock, name));
                }
            }
            _ => {}
        }
    }
    Ok(windows)
}

/// So many milliseconds in which the readers sleep, but for a moment now and then.
fn rest(shared: &Shared, milliseconds: u64) {
    shared.rests.store(true, Ordering::Relaxed);
    thread::sleep(Duration::from_millis(milliseconds));
    shared.rests.store(false, Ordering::Relaxed);
}

fn note(subject: &Subject, clock: ClockId, name: &str) {
    let status = subject.status(clock).map(|status| told(&status));
    let clock = clock.name();
    tell(&json!({ "note": name, "subject": subject.name(), "clock": clock, "status": status }));
}

fn told(status: &Status) -> Value {
    let steps = status.last_steps.iter().flatten().map(|step| step.by_ns);
    json!({
        "unfit": status.unfit.map(|reason| format!("{reason:?}")),
        "fast": status.fast,
        "frequency_hz": status.frequency_hz,
        "period_ns": status.period_ns,
        "refreshes": status.refreshes,
        "kernel_answers": status.kernel_answers,
        "slews": status.slews,
        "aheads": status.aheads,
        "steps": status.steps,
        "distrusts": status.distrusts,
        "residual_max_ns": status.residual_max_ns,
        "last_steps_ns": steps.collect::<Vec<_>>(),
        "words": status.to_string(),
    })
}

/// Tells what was found; gives how many laws were broken.
fn conclude(subject: &Subject, windows: &[Window], found: &[&Found]) -> u64 {
    let dropped: u64 = found.iter().map(|found| found.suspects_dropped).sum();
    let mut broken = [0; FOLLOWED.len()];
    let mut excused = [0; FOLLOWED.len()];
    let mut late_max_ns = [0; FOLLOWED.len()];
    let mut shown = [0; 4];
    for suspect in found.iter().flat_map(|found| &found.suspects) {
        let late_ns = windows.iter().filter_map(|window| window.excuses(suspect)).min();
        match late_ns {
            Some(late_ns) => {
                excused[suspect.clock] += 1;
                late_max_ns[suspect.clock] = late_ns.max(late_max_ns[suspect.clock]);
            }
            None => {
                broken[suspect.clock] += 1;
                let shown = &mut shown[suspect.violation.law as usize];
                *shown += 1;
                if *shown <= SHOWN {
                    tell(&shown_as(subject, suspect, windows));
                }
            }
        }
    }
    for (index, clock) in FOLLOWED.into_iter().enumerate() {
        let sum = |of: fn(&Found) -> &[u64; FOLLOWED.len()]| -> u64 {
            found.iter().map(|found| of(found)[index]).sum()
        };
        let error_max_ns = found.iter().map(|found| found.error_max_ns[index]).max();
        tell(&json!({
            "subject": subject.name(),
            "clock": clock.name(),
            "readings": sum(|found| &found.readings),
            "from_counter": sum(|found| &found.from_counter),
            "unsteady": sum(|found| &found.unsteady),
            "error_max_ns": error_max_ns,
            "excused": excused[index],
            "late_max_ns": late_max_ns[index],
            "broken": broken[index],
            "status": subject.status(clock).map(|status| told(&status)),
        }));
    }
    let gap_max_ns = found.iter().map(|found| found.gap_max_ns).max();
    let asked_again: u64 = found.iter().map(|found| found.asked_again).sum();
    let kernel_went_back: u64 = found.iter().map(|found| found.kernel_went_back).sum();
    let broken = broken.iter().sum::<u64>() + dropped;
    tell(&json!({
        "subject": subject.name(),
        "broken": broken,
        "suspects_dropped": dropped,
        "asked_again": asked_again,
        "kernel_went_back": kernel_went_back,
        "gap_max_ns": gap_max_ns,
    }));
    broken
}

fn shown_as(subject: &Subject, suspect: &Suspect, windows: &[Window]) -> Value {
    let since_ns = windows.iter().map(|window| suspect.from_ns - window.to_ns);
    json!({
        "law": suspect.violation.to_string(),
        "subject": subject.name(),
        "clock": FOLLOWED[suspect.clock].name(),
        "from_ns": suspect.from_ns,
        "to_ns": suspect.to_ns,
        "before": suspect.before,
        "nanos": suspect.told.nanos,
        "after": suspect.after,
        "error_ns": suspect.told.error_ns,
        "is_from_counter": suspect.told.is_from_counter,
        "since_moved_ns": since_ns.filter(|since_ns| *since_ns >= 0).min(),
    })
}

/// One line; whole, so that whoever waits for it sees all of it.
fn tell(value: &Value) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{value}");
    let _ = out.flush();
}
