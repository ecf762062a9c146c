//! `clockwise calibrate`: how fast the counter runs, how surely that is known, and how steady it is.
//!
//! ```text
//!  Counter, Kernel --> pair (narrowest of many brackets) --> rate (first to last) --+--> report --> text, JSON
//!                                                       +--> phase --> stability ---+
//!                                       kernel's log, CPUID, sysfs --> claims ------+
//! ```
//!
//! Must never believe a claim: each is compared with the measurement.

mod claims;
mod report;
mod stability;
#[cfg(test)]
mod tests;
pub mod text;

use crate::live::Live;
use crate::machine::{Machine, Root};
use crate::os;
use crate::pair::{Pair, Rate};
use clockwise_core::counter::Counter;
use clockwise_core::kernel::{ClockId, Kernel};
pub use report::Report;
use report::{Against, Settings, Steering};
use stability::Phase;
use std::sync::atomic::{AtomicBool, Ordering};

/// Brackets for the first pair and the last, on which the rate rests.
const MANY: u32 = 4_000;
/// Brackets for those between.
const SOME: u32 = 400;
/// From look to look at signals.
const LOOK_NS: i64 = 20_000_000;

/// The clocks that the counter is compared with.
const CLOCKS: [ClockId; 2] = [ClockId::MONOTONIC_RAW, ClockId::MONOTONIC];

/// What is to be done.
pub struct Plan {
    /// For how long.
    pub for_ns: i64,
    /// From sample to sample.
    pub every_ns: i64,
    /// Where.
    pub cpu: Option<usize>,
}

/// One clock beside the counter.
struct Track {
    clock: ClockId,
    first: Option<Pair>,
    last: Option<Pair>,
    phase: Phase,
}

impl Track {
    fn rate(&self) -> Option<Rate> {
        Rate::between(&self.first?, &self.last?)
    }

    /// Takes a pair; whether the clock answered.
    fn see(&mut self, counter: &impl Counter, kernel: &impl Kernel, slot: u64, brackets: u32) {
        let Some(pair) = Pair::take(counter, kernel, self.clock, brackets) else { return };
        self.first = self.first.or(Some(pair));
        self.last = Some(pair);
        self.phase.see(slot, &pair);
    }
}

/// Runs it to its end, or until `interrupted`.
pub fn run(
    plan: &Plan,
    counter: &impl Counter,
    kernel: &impl Kernel,
    root: &Root,
    machine: Machine,
    live: &mut Live<'_>,
    interrupted: &AtomicBool,
) -> Report {
    let now = || kernel.now(ClockId::MONOTONIC).map_or(i64::MAX, |time| time.nanos_i64());
    let mut tracks = CLOCKS.map(|clock| Track {
        clock,
        first: None,
        last: None,
        phase: Phase::new(plan.every_ns as f64 / 1e9),
    });
    let start_ns = now();
    let (mut slot, mut early) = (0u64, false);
    for track in &mut tracks {
        track.see(counter, kernel, 0, MANY);
    }
    let elapsed_ns = loop {
        let elapsed_ns = now().saturating_sub(start_ns);
        early = early || interrupted.load(Ordering::Relaxed);
        if early || elapsed_ns >= plan.for_ns {
            break elapsed_ns;
        }
        let due = (elapsed_ns / plan.every_ns).unsigned_abs();
        if due > slot {
            slot = due;
            for track in &mut tracks {
                track.see(counter, kernel, slot, SOME);
            }
            let rate = tracks[0].rate();
            live.progress(elapsed_ns as f64 / plan.for_ns as f64, || {
                text::progress(rate, elapsed_ns)
            });
        }
        let next_ns = (slot as i64 + 1).saturating_mul(plan.every_ns).min(plan.for_ns);
        os::pause((next_ns - elapsed_ns).clamp(1, LOOK_NS).unsigned_abs());
    };
    for track in &mut tracks {
        track.last = Pair::take(counter, kernel, track.clock, MANY).or(track.last);
    }
    let steering = Steering::of(os::discipline().ok().map(|state| state.frequency_ppm), &tracks);
    let against = tracks.each_ref().map(Against::of);
    let claims = claims::all(root, &machine, tracks[0].rate());
    let stability = stability::table(tracks.each_ref().map(|track| &track.phase));
    let settings = Settings {
        for_ns: plan.for_ns.unsigned_abs(),
        every_ns: plan.every_ns.unsigned_abs(),
        cpu: plan.cpu,
        elapsed_ns: elapsed_ns.unsigned_abs(),
        interrupted: early,
    };
    Report::new(settings, machine, against, steering, claims, stability)
}
