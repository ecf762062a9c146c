//! Our own clocks as rows beside those of `sources.rs`, so that they are measured with them, in turns.
//!
//! `clockwise/...` is the library, `run/...` the image's code called as C calls it. Must never be read but by the loops.

use crate::reads::{Imaged, Loops, counted};
use crate::sources::{Promises, Scope, Source, Unit, Via};
use clockwise::{Clock, Instant, SystemTime, coarse, recent, recent_system_time};
use clockwise_core::kernel::{ClockId, Errno};

/// All of them.
pub fn rows() -> Vec<Source> {
    let mut rows = vec![
        instant("Instant::now", true, Instant::now),
        instant("Instant::now_relaxed", false, Instant::now_relaxed),
        instant("coarse::monotonic", true, coarse::monotonic),
        instant("recent", true, recent),
        wall("SystemTime::now", SystemTime::now),
        wall("SystemTime::now_relaxed", SystemTime::now_relaxed),
        wall("coarse::realtime", coarse::realtime),
        wall("recent_system_time", recent_system_time),
    ];
    for (name, clock) in
        [("boottime", Clock::boottime()), ("monotonic_raw", Clock::monotonic_raw())]
    {
        let name = format!("clockwise/Clock::{name}");
        rows.push(row(name.clone(), ELAPSED, nanos(move || clock.now())));
        rows.push(row(format!("{name}_relaxed"), RELAXED, nanos(move || clock.now_relaxed())));
    }
    for (name, clock) in [
        ("monotonic", ClockId::MONOTONIC),
        ("realtime", ClockId::REALTIME),
        ("boottime", ClockId::BOOTTIME),
        ("monotonic_raw", ClockId::MONOTONIC_RAW),
    ] {
        let [ordered, relaxed] = match clock {
            ClockId::REALTIME => [NO_PROMISE; 2],
            _ => [ELAPSED, RELAXED],
        };
        let imaged = |relaxed| Box::new(Imaged::new(clock, relaxed));
        rows.push(row(format!("run/{name}"), ordered, imaged(false)));
        rows.push(row(format!("run/{name}_relaxed"), relaxed, imaged(true)));
    }
    rows
}

const NO_PROMISE: Promises = Promises { monotonic: false, causal: false };
const RELAXED: Promises = Promises { monotonic: true, causal: false };
const ELAPSED: Promises = Promises { monotonic: true, causal: true };

fn instant(
    name: &str,
    causal: bool,
    read: impl Fn() -> Instant + Copy + Send + Sync + 'static,
) -> Source {
    let promises = if causal { ELAPSED } else { RELAXED };
    row(format!("clockwise/{name}"), promises, nanos(move || Ok(read().as_nanos() as i64)))
}

fn wall(name: &str, read: impl Fn() -> SystemTime + Copy + Send + Sync + 'static) -> Source {
    row(format!("clockwise/{name}"), NO_PROMISE, nanos(move || Ok(read().as_nanos() as i64)))
}

/// What a read costs when calls may overlap is all that is asked of it.
fn nanos(read: impl Fn() -> Result<i64, Errno> + Copy + Send + Sync + 'static) -> Box<dyn Loops> {
    Box::new(counted::<false>(1, read))
}

fn row(name: String, promises: Promises, loops: Box<dyn Loops>) -> Source {
    Source {
        clock: name.split_once('/').map_or("", |(_, clock)| clock).to_owned(),
        via: Via::Clockwise,
        // The kernel's own word for its step: ours are its clocks.
        clock_id: match name.as_str() {
            "clockwise/coarse::monotonic" => Some(ClockId::MONOTONIC_COARSE),
            "clockwise/coarse::realtime" => Some(ClockId::REALTIME_COARSE),
            _ => None,
        },
        how: name.replace("clockwise/", "clockwise::"),
        guarantee: "the kernel's clock, through the counter",
        caveat: "",
        unit: Unit::Nanoseconds,
        scope: Scope::Machine,
        promises,
        steps_by_second: false,
        loops: Ok(loops),
        name,
    }
}
