//! The laws, applied to every reading of a run, and what is shown of one that broke them.

use crate::faults::Aftermath;
use crate::scenarios::Scenario;
use crate::world::{CLOCKS, PS, World};
use clockwise_core::clock::Status;
use clockwise_core::kernel::ClockId;
use clockwise_core::laws::{self, Monotonic, Steady, Violation};
use std::collections::VecDeque;
use std::fmt;

/// What is kept for the report of a violation.
const WINDOW: usize = 30;
/// The library takes the rate over a window of 4 to 12 s. For so long, from the first sample after a change on, the
/// kernel has not "kept its rate": a small change is within the noise of one sample, and one that happened while
/// nobody read is in the average over that pause. (A small step in a pause looks like a change of the rate.)
/// `error_ns` is not excused for either.
const RATE_WINDOW_PS: u64 = 13_000_000_000 * PS;
/// No line that was made before it is used for so long after a change.
const LINE_PS: u64 = 10_000_000 * PS;
/// The start: three samples, and what may come between.
const START_PS: u64 = 20_000_000 * PS;

/// The largest reading so far, and when it began.
#[derive(Clone, Copy, Debug)]
struct Seen {
    nanos: i64,
    begin_ps: u64,
}

/// One reading.
#[derive(Clone, Copy, Debug)]
pub struct Read {
    thread: usize,
    pub clock: ClockId,
    index: usize,
    begin_ps: u64,
    /// The kernel's clock at the beginning.
    kernel: i64,
    /// The largest of those that had ended when this one began: of all threads' ordered ones, and of the thread's.
    seen: Option<Seen>,
    own: Option<Seen>,
    pub is_ordered: bool,
    pub nanos: i64,
    /// The bound, and that for a steady kernel.
    pub errors: Option<(u64, u64)>,
    /// Whether it is known to come from the counter.
    pub is_counted: bool,
}

/// What the report of a violation shows of a moment.
#[derive(Clone)]
struct Line {
    end_ps: u64,
    what: What,
}

#[derive(Clone)]
enum What {
    Event(String),
    /// And the kernel's clock at its end.
    Reading(Read, i64),
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>16} ns  ", self.end_ps / PS)?;
        match &self.what {
            What::Event(text) => f.write_str(text),
            What::Reading(read, kernel) => {
                let took = (self.end_ps - read.begin_ps) / PS;
                let name = read.clock.name().unwrap_or("?");
                let (low, high) = (read.kernel - read.nanos, kernel - read.nanos);
                write!(f, "thread {} {name} {} took {took} ns, ", read.thread, read.nanos)?;
                write!(f, "the kernel {low:+} to {high:+}")?;
                if let Some((error, steady)) = read.errors {
                    write!(f, ", bounds {error} and {steady}")?;
                }
                let counter = if read.is_counted { ", from the counter" } else { "" };
                write!(f, "{counter}{}", if read.is_ordered { "" } else { ", unordered" })
            }
        }
    }
}

#[derive(Clone)]
pub struct Checks {
    scenario: &'static Scenario,
    seed: u64,
    about: String,
    seen: [Option<Seen>; 5],
    own: [[Option<Seen>; 5]; 4],
    steady: [Option<Steady>; 5],
    /// Per clock: the last change of its rate or its relation that was taken note of, and from when on the kernel
    /// counts as one that keeps its rate.
    changed_ps: [u64; 5],
    steady_from_ps: [u64; 5],
    window: VecDeque<Line>,
    counted: u64,
    told: u64,
    pub doors_most: u32,
    /// The largest distance from the kernel, in nanoseconds.
    pub worst_ns: u64,
    /// How often the counter was distrusted, over all clocks.
    pub distrusts: u64,
    over_limit: Option<String>,
    pub failure: Option<String>,
}

impl Checks {
    pub fn new(scenario: &'static Scenario, seed: u64, about: String) -> Self {
        let steady = scenario.limit_ns.map(|limit| Steady::new(2 * limit));
        Self {
            scenario,
            seed,
            about,
            seen: [None; 5],
            own: [[None; 5]; 4],
            steady: [steady; 5],
            changed_ps: [0; 5],
            steady_from_ps: [0; 5],
            window: VecDeque::new(),
            counted: 0,
            told: 0,
            doors_most: 0,
            worst_ns: 0,
            distrusts: 0,
            over_limit: None,
            failure: None,
        }
    }

    pub fn failed(&self) -> bool {
        self.failure.is_some()
    }

    pub fn note(&mut self, now_ps: u64, what: String) {
        self.keep(Line { end_ps: now_ps, what: What::Event(what) });
    }

    fn keep(&mut self, line: Line) {
        if self.window.len() == WINDOW {
            self.window.pop_front();
        }
        self.window.push_back(line);
    }

    pub fn fail(&mut self, what: &str) {
        if self.failure.is_none() {
            self.failure = Some(self.report(what));
        }
    }

    fn report(&self, what: &str) -> String {
        let lines: Vec<_> = self.window.iter().map(ToString::to_string).collect();
        let window = lines.join("\n");
        let (seed, about, name) = (self.seed, &self.about, self.scenario.name);
        format!(
            "{what}\nscenario: {name}\nseed: {seed}\nfaults: {about}\n{window}\nagain: \
             CLOCKWISE_SIM_SEED={seed} cargo test -p clockwise-core --test sim {name}"
        )
    }

    pub fn begin(&self, thread: usize, clock: ClockId, world: &World) -> Read {
        let index = CLOCKS.iter().position(|&other| other == clock).unwrap();
        Read {
            thread,
            clock,
            index,
            begin_ps: world.now_ps,
            kernel: world.kernel(clock),
            seen: self.seen[index],
            own: self.own[thread][index],
            is_ordered: true,
            nanos: 0,
            errors: None,
            is_counted: false,
        }
    }

    /// The reading has ended.
    pub fn judge(&mut self, read: &Read, world: &World, after: &mut Aftermath, cores: bool) {
        let kernel = world.kernel(read.clock);
        self.keep(Line { end_ps: world.now_ps, what: What::Reading(*read, kernel) });
        // Nothing holds across cores that disagree, but that nobody panics or waits.
        if cores {
            return;
        }
        if let Err(violation) = self.order(read, world, after) {
            self.fail(&violation.to_string());
        }
        let is_excused = read.begin_ps < after.excused_ps[read.index];
        let slewed = if read.clock == ClockId::MONOTONIC_RAW { 0 } else { world.rate_since_ps };
        let changed = slewed.max(after.excused_ps[read.index]);
        let steady_from_ps = &mut self.steady_from_ps[read.index];
        if changed > self.changed_ps[read.index] {
            self.changed_ps[read.index] = changed;
            *steady_from_ps = u64::MAX;
        }
        // From a sample after the change: no line lives for so long.
        let is_new = read.is_counted && read.begin_ps > changed + LINE_PS;
        if is_new && *steady_from_ps == u64::MAX {
            *steady_from_ps = world.now_ps + RATE_WINDOW_PS;
        }
        if !is_excused {
            if let Err(violation) = self.distance(read, kernel, world) {
                self.fail(&violation.to_string());
            }
        } else if let Some(steady) = &mut self.steady[read.index] {
            *steady = Steady::new(2 * self.scenario.limit_ns.unwrap_or_default());
        }
        if read.index == 0 && read.errors.is_some() && read.begin_ps > START_PS {
            self.told += 1;
            self.counted += u64::from(read.is_counted);
        }
    }

    /// Monotonic in a thread, causal across threads. A clock whose kernel went back may follow it, once.
    fn order(
        &mut self,
        read: &Read,
        world: &World,
        after: &mut Aftermath,
    ) -> Result<(), Violation> {
        let allowance_ps = after.allowance_ns * PS;
        let back = &mut after.back[read.index];
        let mut follows = |seen: Seen, verdict: Result<(), Violation>| {
            let Err(violation) = verdict else { return Ok(false) };
            // Followed by the first that falls; for one period then, others may still begin on a line from before.
            let step = back
                .iter_mut()
                .find(|fell| fell.is_none_or(|fell| seen.begin_ps <= fell + allowance_ps));
            step.ok_or(violation)?.get_or_insert(world.now_ps);
            Ok(true)
        };
        let new = Seen { nanos: read.nanos, begin_ps: read.begin_ps };
        let (mut fell, mut own_fell) = (false, false);
        if let Some(own) = read.own {
            let mut law = Monotonic::new();
            let _ = law.see(own.nanos);
            own_fell = follows(own, law.see(read.nanos))?;
        }
        if let Some(seen) = read.seen.filter(|_| read.is_ordered) {
            fell = follows(seen, laws::causal(seen.nanos, read.nanos))?;
        }
        let own = &mut self.own[read.thread][read.index];
        if own_fell || own.is_none_or(|own| own.nanos < new.nanos) {
            *own = Some(new);
        }
        let seen = &mut self.seen[read.index];
        // An unordered one is seen too: what comes after it is not smaller.
        if fell || seen.is_none_or(|seen| seen.nanos < new.nanos) {
            *seen = Some(new);
        }
        Ok(())
    }

    fn distance(&mut self, read: &Read, kernel: i64, world: &World) -> Result<(), Violation> {
        let out = (read.kernel.saturating_sub(read.nanos)).max(read.nanos.saturating_sub(kernel));
        // An unordered reading is from before it began.
        let out = if read.is_ordered { out.max(0) as u64 } else { 0 };
        self.worst_ns = self.worst_ns.max(out);
        if let Some((error, steady)) = read.errors {
            laws::bounded(read.kernel, read.nanos, error, kernel)?;
            if read.begin_ps >= self.steady_from_ps[read.index] {
                laws::bounded(read.kernel, read.nanos, steady, kernel)?;
            }
        }
        if let Some(limit) = self.scenario.limit_ns.filter(|_| read.is_ordered) {
            // A slow counter is known to a few of its ticks.
            let limit = limit + 4 * world.nanos_of_ticks(1);
            let mut verdict = laws::bounded(read.kernel, read.nanos, limit, kernel);
            if let Some(steady) = &mut self.steady[read.index] {
                verdict = verdict.and(steady.see(read.kernel, read.nanos, kernel));
            }
            if let (Err(violation), None) = (verdict, &self.over_limit) {
                self.over_limit = Some(self.report(&format!("over the limit: {violation}")));
            }
        }
        Ok(())
    }

    /// All readings are done.
    pub fn end(&mut self, statuses: [Option<Status>; 5]) {
        self.distrusts = statuses.iter().flatten().map(|status| status.distrusts).sum();
        // Where the counter is distrusted, readings are held at the end of the line that was taken out, which their
        // bounds say.
        if self.distrusts == 0 && !self.failed() {
            self.failure = self.over_limit.take();
        }
        let (counted, told, share) = (self.counted, self.told, self.scenario.counter_percent);
        if self.distrusts == 0 && told > 50 && counted * 100 < told * share {
            self.fail(&format!("the counter answered {counted} of {told}, less than {share} %"));
        }
    }
}
