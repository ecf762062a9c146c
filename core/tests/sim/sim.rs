//! One run: threads that read one clock, the doors at which they are stopped, the faults, and the laws.
//!
//! Everything happens on one real thread. A simulated thread is stopped only inside a door (a call of the library
//! to its `Counter` or `Kernel`); what others do meanwhile are calls of the same clock from inside that door.

use crate::checks::{Checks, Read};
use crate::faults::{Aftermath, Fault};
use crate::random::Random;
use crate::scenarios::Scenario;
use crate::world::{CLOCKS, PS, World};
use clockwise_core::clock::{Clock, Origin};
use clockwise_core::counter::Counter;
use clockwise_core::kernel::{ClockId, Errno, Kernel};
use clockwise_core::trust::Unfit;
use clockwise_core::units::{Ticks, Timespec};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::{Rc, Weak};

/// Readings, nested ones included.
pub const READS: u32 = 400;
const THREADS: usize = 4;
/// So many threads are stopped at once, at most.
const DEPTH: usize = 3;
/// Doors that one reading may pass: three tries, each with one sample of up to eight readings of the kernel.
const DOORS: u32 = 3 * (2 * 8 + 6) + 2;

/// A thread that stops for good is unwound to its reading with this.
struct Death;

pub struct Sim {
    state: RefCell<State>,
}

pub struct State {
    pub scenario: &'static Scenario,
    pub kinds: Vec<Fault>,
    pub random: Random,
    pub world: World,
    pub after: Aftermath,
    pub checks: Checks,
    threads: [Thread; THREADS],
    clock: Option<Rc<SimClock>>,
    /// The threads in the midst of a reading, the innermost last, and the doors that each has passed.
    stack: Vec<(usize, u32)>,
    reads: u32,
    events: u32,
    deaths: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    core: usize,
    /// An unordered reading is not older than the thread's last, nor than its last stop.
    last_ps: u64,
}

type SimClock = Clock<Door, Door>;

/// Both doors of the library.
pub struct Door(Weak<Sim>);

impl Door {
    fn sim(&self) -> Rc<Sim> {
        self.0.upgrade().expect("the simulation outlives its clock")
    }
}

impl Counter for Door {
    fn ticks(&self) -> Ticks {
        self.sim().ticks(0)
    }

    fn ticks_unordered(&self) -> Ticks {
        let sim = self.sim();
        let early_ps = sim.with(|state| state.random.between(0, 50) * PS);
        sim.ticks(early_ps)
    }

    /// Passed between what a refresh decides and what it publishes: threads are stopped here too.
    fn form(&self) -> u64 {
        self.sim().interrupt(true);
        1
    }

    fn fit(&self) -> Result<(), Unfit> {
        let unfit = self.sim().with(|state| state.has(Fault::Unfit));
        if unfit { Err(Unfit::Rejected) } else { Ok(()) }
    }
}

impl Kernel for Door {
    fn now(&self, clock: ClockId) -> Result<Timespec, Errno> {
        let sim = self.sim();
        sim.interrupt(true);
        let (before, after) = sim.with(State::kernel_cost);
        sim.pass(before);
        // Also between entering the kernel and its reading, and on the way back.
        let told = sim.with(|state| match state.world.now_ps < state.after.refused_until_ps {
            true => Err(Errno::PERM),
            false => Ok(Timespec::from_nanos(state.world.kernel(clock))),
        });
        sim.pass(after);
        sim.interrupt(false);
        told
    }
}

impl State {
    pub fn has(&self, fault: Fault) -> bool {
        self.kinds.contains(&fault)
    }

    fn kernel_cost(&mut self) -> (u64, u64) {
        let (low, high) = self.world.kernel_cost_ps;
        let outlier = self.has(Fault::Outliers) && self.random.per_mille(40);
        let cost = if outlier { 50_000 * PS } else { self.random.between(low, high) };
        let before = self.random.between(0, cost);
        (before, cost - before)
    }

    fn event(&mut self, interrupting: bool) {
        let kinds: Vec<_> = (self.kinds.iter().copied())
            .filter(|kind| if interrupting { kind.can_interrupt() } else { kind.is_event() })
            .collect();
        if kinds.is_empty() || self.events == 0 {
            return;
        }
        self.events -= 1;
        let kind = self.random.pick(&kinds);
        let told = kind.happen(&mut self.world, &mut self.after, &mut self.random);
        self.checks.note(self.world.now_ps, told);
    }
}

impl Sim {
    pub fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state.borrow_mut())
    }

    fn pass(&self, ps: u64) {
        self.with(|state| state.world.now_ps += ps);
    }

    fn ticks(&self, early_ps: u64) -> Ticks {
        self.interrupt(true);
        let ticks = self.with(|state| {
            let cost = state.world.counter_cost_ps;
            state.world.now_ps += cost / 2;
            let thread = state.stack.last().map_or(0, |&(thread, _)| thread);
            let thread = &mut state.threads[thread];
            let at = state.world.now_ps.saturating_sub(early_ps).max(thread.last_ps);
            thread.last_ps = at;
            let ticks = state.world.ticks_on(thread.core, state.world.now_ps - at);
            state.world.now_ps += cost - cost / 2;
            if state.has(Fault::Unfit) {
                state.checks.fail("an unfit counter was read");
            }
            Ticks(state.scenario.broken.map_or(ticks, |broken| broken(ticks, &state.world)))
        });
        self.interrupt(false);
        ticks
    }

    /// The running thread is at a door: it may be stopped here, and others run.
    fn interrupt(&self, enters: bool) {
        let stop = self.with(|state| {
            let depth = state.stack.len();
            let (thread, doors) = state.stack.last_mut()?;
            *doors += u32::from(enters);
            let (thread, doors) = (*thread, *doors);
            // A reading that passes more than two doors is making a line: that is where it matters.
            let share = if doors > 3 { 60 } else { 12 };
            if !state.has(Fault::Preemption) || depth > DEPTH || !state.random.per_mille(share) {
                return None;
            }
            state.threads[thread].core = state.random.between(0, 3) as usize;
            if state.has(Fault::Death) && state.deaths < 3 && state.random.percent(8) {
                state.deaths += 1;
                state.checks.note(state.world.now_ps, format!("thread {thread} stops for good"));
                return Some((0, 0, true));
            }
            let long = state.random.percent(3);
            let stop_ns = state.random.magnitude(1_000, if long { 3 << 30 } else { 1 << 28 });
            let others = state.has(Fault::Nesting) && state.random.percent(70);
            let others = if others { state.random.between(1, 12) } else { 0 };
            Some((stop_ns, others, false))
        });
        let Some((stop_ns, others, dies)) = stop else { return };
        if dies {
            resume_unwind(Box::new(Death));
        }
        let end_ps = self.with(|state| state.world.now_ps + stop_ns * PS);
        for left in (1..=others).rev() {
            // The others come in a burst somewhere in the time that is left.
            self.with(|state| {
                let rest_ns = end_ps.saturating_sub(state.world.now_ps) / PS;
                let far = state.random.percent(25) || left == others;
                let most = if far { rest_ns } else { rest_ns.min(2_000) };
                state.world.now_ps += state.random.magnitude(1, most.max(1)) * PS;
                if state.random.percent(4) {
                    state.event(true);
                }
            });
            self.read();
        }
        self.with(|state| {
            state.world.now_ps = state.world.now_ps.max(end_ps);
            if others == 0 && state.random.percent(4) {
                state.event(true);
            }
            // To be stopped is a barrier: no unordered reading is executed before it.
            let now_ps = state.world.now_ps;
            if let Some(&(thread, _)) = state.stack.last() {
                state.threads[thread].last_ps = now_ps;
            }
        });
    }

    /// A thread reads a clock, and the laws look at what it got.
    fn read(&self) {
        let begun = self.with(|state| {
            if state.reads == 0 || state.checks.failed() {
                return None;
            }
            state.reads -= 1;
            let thread = state.random.between(0, THREADS as u64 - 1) as usize;
            if state.random.percent(5) {
                state.threads[thread].core = state.random.between(0, 3) as usize;
            }
            let one = state.random.percent(60);
            let clock = if one { CLOCKS[0] } else { state.random.pick(&CLOCKS) };
            let how = state.random.between(0, 9);
            state.stack.push((thread, 0));
            let read = state.checks.begin(thread, clock, &state.world);
            Some((read, how, state.clock.clone()?))
        });
        let Some((mut read, how, clock)) = begun else { return };
        let id = read.clock;
        let told = catch_unwind(AssertUnwindSafe(|| match how {
            0..=4 => clock.reading(id).map(|reading| {
                let errors = (reading.error_ns, reading.steady_error_ns);
                (reading.nanos, Some(errors), Some(reading.origin))
            }),
            5 | 6 => {
                read.is_ordered = false;
                clock.now_relaxed(id).map(|nanos| (nanos, None, None))
            }
            _ => clock.now(id).map(|nanos| (nanos, None, None)),
        }));
        self.with(|state| {
            let doors = state.stack.pop().map_or(0, |(_, doors)| doors);
            match told {
                Ok(Ok((nanos, errors, origin))) => {
                    (read.nanos, read.errors) = (nanos, errors);
                    read.is_counted = origin == Some(Origin::Counter);
                    state.judge(&read, doors);
                }
                Ok(Err(errno)) => {
                    if !state.has(Fault::Refusal) {
                        state.checks.fail(&format!("{errno} without a reason"));
                    }
                }
                Err(cause) if cause.is::<Death>() => {}
                Err(_) => state.checks.fail("a panic"),
            }
        });
    }

    /// Between two readings.
    fn between(self: &Rc<Self>, gap_ns: u64) {
        let forks = self.with(|state| {
            state.world.now_ps += gap_ns * PS;
            if state.random.per_mille(8) {
                state.event(false);
            }
            std::mem::take(&mut state.after.forks)
        });
        if forks {
            let clock = self.new_clock();
            // A fork takes longer than any line was ahead.
            self.with(|state| {
                state.world.now_ps += 1_000_000 * PS;
                state.clock = Some(clock);
            });
        }
    }

    fn new_clock(self: &Rc<Self>) -> Rc<SimClock> {
        let door = || Door(Rc::downgrade(self));
        Rc::new(Clock::new(door(), door()))
    }

    fn run(self: &Rc<Self>) {
        while self.with(|state| state.reads > 0 && !state.checks.failed()) {
            let (gap, times) = self.with(|state| {
                let random = &mut state.random;
                let gap = match random.between(0, 9) {
                    0..=2 => random.magnitude(20, 2_000),
                    3..=6 => random.magnitude(2_000, 500_000),
                    7 => random.between(900_000, 1_100_000),
                    8 => random.magnitude(500_000, 20_000_000),
                    _ if state.kinds.contains(&Fault::Idle) => {
                        random.magnitude(100_000_000, 100_000_000_000_000)
                    }
                    _ => random.magnitude(500_000, 20_000_000),
                };
                let gap = gap.min(state.scenario.gap_most_ns);
                let times = if gap > 20_000_000 { random.between(1, 3) } else { 100 };
                (gap, random.between(1, times))
            });
            for _ in 0..times {
                let gap = self.with(|state| state.random.between(gap / 2, gap + gap / 2));
                self.between(gap);
                self.read();
                self.refresh(gap);
                if self.with(|state| state.reads == 0 || state.checks.failed()) {
                    break;
                }
            }
        }
    }

    /// What a thread that refreshes does once in a while; also asks how things stand.
    fn refresh(&self, gap_ns: u64) {
        let clock = self.with(|state| {
            let due = state.has(Fault::Refresher) && (gap_ns > 10_000 || state.random.percent(5));
            if due { state.clock.clone() } else { None }
        });
        let Some(clock) = clock else { return };
        for id in CLOCKS {
            self.with(|state| state.stack.push((0, 0)));
            let told = catch_unwind(AssertUnwindSafe(|| {
                let _ = clock.refresh(id);
                clock.status(id)
            }));
            self.with(|state| {
                state.stack.pop();
                if !told.is_ok_and(|status| status.is_some()) {
                    state.deaths += 1;
                }
            });
        }
    }
}

/// One seed of a scenario; the kinds of fault are drawn from it.
pub fn run(scenario: &'static Scenario, seed: u64) -> Checks {
    let mut random = Random::new(seed);
    let mut kinds: Vec<_> = scenario.always.to_vec();
    kinds.extend(scenario.perhaps.iter().filter(|_| random.percent(50)));
    let mut world = World::new(&mut random);
    for kind in &kinds {
        kind.prepare(&mut world, &mut random);
    }
    // One period and what it takes to notice; a kernel that is slow to read has longer ones.
    let slow = kinds.contains(&Fault::SlowKernel) || kinds.contains(&Fault::Slower);
    // A refresher samples when half of a line is over: what it makes may be used for one and a half periods.
    let refresher = kinds.contains(&Fault::Refresher);
    let allowance_ns = match (slow, refresher) {
        (true, _) => 400_000_000,
        (_, true) => 6_500_000,
        _ => 5_000_000,
    };
    // By the kernel's clock, which may go slower by a tenth.
    let allowance_ns = allowance_ns * if kinds.contains(&Fault::TickLength) { 10 } else { 9 } / 9;
    let checks = Checks::new(scenario, seed, format!("{kinds:?} at {} Hz", world.hz));
    let events = random.between(1, 12) as u32;
    let sim = Rc::new(Sim {
        state: RefCell::new(State {
            scenario,
            kinds,
            random,
            world,
            after: Aftermath { allowance_ns, ..Aftermath::default() },
            checks,
            threads: [Thread::default(); THREADS],
            clock: None,
            stack: Vec::new(),
            reads: READS,
            events,
            deaths: 0,
        }),
    });
    let clock = sim.new_clock();
    sim.with(|state| state.clock = Some(clock));
    sim.run();
    // Outside of `with`: the status reads the counter.
    let status =
        sim.with(|state| state.clock.take()).map(|clock| CLOCKS.map(|id| clock.status(id)));
    sim.with(|state| {
        if let Some(status) = status {
            state.checks.end(status);
        }
        state.checks.clone()
    })
}

impl State {
    fn judge(&mut self, read: &Read, doors: u32) {
        if doors > DOORS {
            self.checks.fail(&format!("{doors} doors passed by one reading"));
        }
        self.checks.doors_most = self.checks.doors_most.max(doors);
        let cores = self.has(Fault::Cores);
        self.checks.judge(read, &self.world, &mut self.after, cores);
    }
}
