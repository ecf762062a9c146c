//! That the clock gets somewhere: it recovers from refreshers that died, tries again what it distrusted, and says what
//! the kernel did.
//!
//! The laws of the simulation (`sim`) hold as well for a clock that asks the kernel for ever. Here the machine is simple
//! and deterministic, so that what must happen can be said with its moment. Nothing here is random.

use clockwise_core::clock::{Clock, Origin, Status};
use clockwise_core::counter::Counter;
use clockwise_core::kernel::{ClockId, Errno, Kernel};
use clockwise_core::trust::Unfit;
use clockwise_core::units::{Ticks, Timespec};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
/// Between two readings.
const GAP: u64 = 10 * US;
const COUNTER_COST: u64 = 10;
const KERNEL_COST: u64 = 40;

/// Where the thread dies that passes there next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Death {
    /// In the kernel.
    Sampling,
    /// Between a sample and what is published after it.
    Writing,
}

/// A counter of 1 GHz, and a kernel that makes time of it.
struct World {
    /// The true time, and the counter.
    now_ns: Cell<u64>,
    /// The kernel's clock goes from (ticks, nanoseconds) on by so many parts per 10^9 more.
    anchor: Cell<(u64, i64)>,
    rate_ppb: Cell<i64>,
    kernel_cost_ns: Cell<u64>,
    /// Reading the kernel costs as much more for a while after a pause, and since when it has been read without one.
    cold_cost_ns: Cell<u64>,
    warm_since_ns: Cell<u64>,
    /// When the kernel was read last.
    asked_ns: Cell<u64>,
    /// By how much the kernel's clock steps whenever it is read after a pause.
    unrest_ns: Cell<i64>,
    death: Cell<Option<Death>>,
}

impl World {
    fn new() -> Self {
        let start = 1_000 * SECOND;
        Self {
            now_ns: Cell::new(start),
            anchor: Cell::new((start, 5_000 * SECOND as i64)),
            rate_ppb: Cell::new(37_000),
            kernel_cost_ns: Cell::new(KERNEL_COST),
            cold_cost_ns: Cell::new(0),
            warm_since_ns: Cell::new(start),
            asked_ns: Cell::new(start),
            unrest_ns: Cell::new(0),
            death: Cell::new(None),
        }
    }

    fn pass(&self, nanos: u64) {
        self.now_ns.set(self.now_ns.get() + nanos);
    }

    /// The kernel's clock.
    fn kernel_ns(&self) -> i64 {
        let (ticks, nanos) = self.anchor.get();
        let passed = i128::from(self.now_ns.get() - ticks);
        nanos + (passed * i128::from(1_000_000_000 + self.rate_ppb.get()) / 1_000_000_000) as i64
    }

    /// The kernel's clock is set by so much, and goes on at that rate.
    fn steer(&self, step_ns: i64, rate_ppb: i64) {
        self.anchor.set((self.now_ns.get(), self.kernel_ns() + step_ns));
        self.rate_ppb.set(rate_ppb);
    }

    fn die(&self, at: Death) {
        if self.death.get() == Some(at) {
            self.death.set(None);
            // Not a panic, which would be reported.
            resume_unwind(Box::new(at));
        }
    }
}

#[derive(Clone, Copy)]
struct Door<'a>(&'a World);

impl Counter for Door<'_> {
    fn ticks(&self) -> Ticks {
        self.0.pass(COUNTER_COST / 2);
        let ticks = self.0.now_ns.get();
        self.0.pass(COUNTER_COST / 2);
        Ticks(ticks)
    }

    fn ticks_unordered(&self) -> Ticks {
        self.ticks()
    }

    fn form(&self) -> u64 {
        // A reader that finds the next line passes here too, long after the kernel was read, and holds nothing.
        if self.0.now_ns.get() - self.0.asked_ns.get() < US {
            self.0.die(Death::Writing);
        }
        1
    }
}

impl Kernel for Door<'_> {
    fn now(&self, _: ClockId) -> Result<Timespec, Errno> {
        let world = self.0;
        if world.now_ns.get() - world.asked_ns.get() > 500 * US {
            world.steer(world.unrest_ns.get(), world.rate_ppb.get());
            world.warm_since_ns.set(world.now_ns.get());
        }
        let is_cold = world.now_ns.get() - world.warm_since_ns.get() < 5 * US;
        let cold_ns = if is_cold { world.cold_cost_ns.get() } else { 0 };
        // Sooner or later within the call, so that brackets differ.
        let cost = world.kernel_cost_ns.get() + cold_ns;
        let before = cost * (world.now_ns.get() / 10 * 7 % 11) / 10;
        world.pass(before);
        world.die(Death::Sampling);
        let nanos = world.kernel_ns();
        world.pass(cost - before);
        world.asked_ns.set(world.now_ns.get());
        Ok(Timespec::from_nanos(nanos))
    }
}

/// One clock of the world, and who reads it.
struct Machine<'a> {
    world: &'a World,
    clock: Clock<Door<'a>, Door<'a>>,
    id: ClockId,
}

impl<'a> Machine<'a> {
    fn new(world: &'a World, id: ClockId) -> Self {
        Self { world, clock: Clock::new(Door(world), Door(world)), id }
    }

    fn status(&self) -> Status {
        self.clock.status(self.id).unwrap()
    }

    /// One reading: where it came from, and how far it is from the kernel's clock.
    fn read(&self) -> (Origin, u64) {
        self.world.pass(GAP);
        let before = self.world.kernel_ns();
        let reading = self.clock.reading(self.id).unwrap();
        let after = self.world.kernel_ns();
        let off = before.saturating_sub(reading.nanos).max(reading.nanos.saturating_sub(after));
        (reading.origin, off.max(0) as u64)
    }

    /// Reads densely for `nanos`. Returns how many of a thousand readings came from the counter.
    fn run(&self, nanos: u64) -> u64 {
        let end = self.world.now_ns.get() + nanos;
        let (mut fast, mut all) = (0, 0);
        while self.world.now_ns.get() < end {
            fast += u64::from(self.read().0 == Origin::Counter);
            all += 1;
        }
        fast * 1_000 / all
    }

    /// Reads densely until that is so, for `most_ns` at most. Returns how long it took.
    fn until(&self, most_ns: u64, what: impl Fn(&Status) -> bool) -> u64 {
        let begin = self.world.now_ns.get();
        loop {
            let passed = self.world.now_ns.get() - begin;
            let status = self.status();
            if what(&status) {
                return passed;
            }
            assert!(passed <= most_ns, "still not after {passed} ns: {status:?}");
            self.read();
        }
    }

    /// Reads every 100 us until the counter is tried again. Returns how long it took.
    fn until_tried_again(&self, most_ns: u64) -> u64 {
        self.until(most_ns, |status| {
            self.world.pass(9 * GAP);
            status.unfit.is_none()
        })
    }

    /// A thread that reads dies there. Returns when it began to.
    fn kill(&self, at: Death) {
        self.world.death.set(Some(at));
        let most = 20 * MS / GAP;
        let died = (0..most).any(|_| catch_unwind(AssertUnwindSafe(|| self.read())).is_err());
        assert!(died, "nobody came by {at:?} in {most} readings");
    }

    /// The kernel answers for most of a second, and nobody refreshes, and the clock is right.
    fn waits_out_the_lease(&self) {
        let refreshes = self.status().refreshes;
        // The line that was out goes on to its end.
        self.run(10 * MS);
        assert_eq!(self.run(900 * MS), 0);
        assert_eq!(self.status().refreshes, refreshes);
        assert!(self.read().1 <= 25_000);
        self.world.pass(200 * MS);
    }

    fn is_fast_again(&self) {
        let refreshes = self.status().refreshes;
        self.run(10 * MS);
        assert!(self.run(100 * MS) >= 990, "{:?}", self.status());
        assert!(self.read().1 <= 100);
        // One each 4 ms.
        let made = self.status().refreshes - refreshes;
        assert!((25..50).contains(&made), "{made} refreshes");
        assert_eq!(self.status().unfit, None);
    }
}

/// A machine that has read its clock for a second.
fn started(world: &World, id: ClockId) -> Machine<'_> {
    let machine = Machine::new(world, id);
    machine.run(SECOND);
    assert!(machine.status().fast);
    machine
}

#[test]
fn a_refresher_that_died_while_it_sampled_is_replaced_each_time() {
    let world = World::new();
    let machine = started(&world, ClockId::MONOTONIC);
    for _ in 0..5 {
        machine.kill(Death::Sampling);
        machine.waits_out_the_lease();
        machine.is_fast_again();
    }
}

/// `lapse_ns` before each death: after a pause there is no line, and the writer dies before it is out.
fn two_writers_die(lapse_ns: u64) {
    let world = World::new();
    let machine = started(&world, ClockId::MONOTONIC);
    world.pass(lapse_ns);
    machine.kill(Death::Writing);
    machine.waits_out_the_lease();
    // In the second bank.
    machine.is_fast_again();
    machine.run(SECOND);
    world.pass(lapse_ns);
    machine.kill(Death::Writing);
    machine.waits_out_the_lease();
    let refreshes = machine.status().refreshes;
    assert_eq!(machine.run(100 * MS), 0);
    let status = machine.status();
    assert_eq!((status.unfit, status.refreshes), (Some(Unfit::Abandoned), refreshes));
    assert!(machine.read().1 <= 100);
}

#[test]
fn a_writer_that_died_beside_its_line_is_overruled_and_two_are_the_end() {
    two_writers_die(0);
}

#[test]
fn a_writer_that_died_before_its_line_is_overruled_and_two_are_the_end() {
    two_writers_die(50 * MS);
}

#[test]
fn a_writer_that_died_before_the_first_line_is_overruled_after_4_s() {
    let world = World::new();
    let machine = Machine::new(&world, ClockId::MONOTONIC);
    machine.kill(Death::Writing);
    // No line has said how many ticks a second has: 2^32 of them at 1 GHz.
    assert_eq!(machine.run(4_200 * MS), 0);
    machine.run(100 * MS);
    machine.is_fast_again();
}

#[test]
fn a_clock_that_was_not_read_for_a_while_starts_again_when_it_is_read_densely() {
    let world = World::new();
    let machine = started(&world, ClockId::MONOTONIC);
    for pause in [5 * MS, 100 * MS, SECOND, 100 * SECOND] {
        world.pass(pause);
        let refreshes = machine.status().refreshes;
        // Two readings far apart are no reason for a line.
        machine.read();
        world.pass(2 * MS);
        machine.read();
        assert_eq!((machine.status().refreshes, machine.status().fast), (refreshes, false));
        let took = machine.until(3 * MS, |status| status.fast);
        // At once, or after a rate that is to be confirmed.
        assert!(took < if pause < SECOND { 100 * US } else { 3 * MS }, "{pause}: {took}");
        machine.is_fast_again();
    }
}

#[test]
fn a_kernel_that_steps_at_each_refresh_is_distrusted_for_10_s_then_for_20() {
    let world = World::new();
    let machine = started(&world, ClockId::REALTIME);
    world.unrest_ns.set(MS as i64);
    for (distrusts, seconds) in [(1, 10), (2, 20), (3, 40)] {
        machine.until(200 * MS, |status| status.unfit == Some(Unfit::Unsteady));
        assert_eq!(machine.status().distrusts, distrusts);
        let lasted = machine.until_tried_again(2 * seconds * SECOND);
        assert!(lasted.abs_diff(seconds * SECOND) < 3 * MS, "{seconds} s: {lasted}");
    }
    // It is steady from now on.
    world.unrest_ns.set(0);
    machine.is_fast_again();
}

#[test]
fn a_kernel_that_becomes_slow_to_read_is_left_alone_and_tried_again() {
    let world = World::new();
    let machine = started(&world, ClockId::MONOTONIC);
    world.kernel_cost_ns.set(10 * KERNEL_COST);
    machine.until(100 * MS, |status| status.unfit == Some(Unfit::KernelSlow));
    assert_eq!(machine.run(SECOND), 0);
    // Still so when it is tried again, which takes eight samples to tell.
    machine.until_tried_again(10 * SECOND);
    machine.until(100 * MS, |status| status.unfit == Some(Unfit::KernelSlow));
    world.kernel_cost_ns.set(KERNEL_COST);
    machine.until_tried_again(21 * SECOND);
    machine.is_fast_again();
}

#[test]
fn readings_in_bursts_come_from_the_counter_though_each_first_sample_is_a_wide_one() {
    for cost in [KERNEL_COST, 300] {
        let world = World::new();
        world.kernel_cost_ns.set(cost);
        world.cold_cost_ns.set(5 * cost);
        let machine = Machine::new(&world, ClockId::MONOTONIC);
        let mut fast = 0;
        for burst in 0..200 {
            world.pass(850 * US);
            let counted = machine.run(500 * US);
            fast += if burst < 20 { 0 } else { counted };
        }
        assert!(fast / 180 >= 800, "{} of a thousand: {:?}", fast / 180, machine.status());
    }
}

#[test]
fn a_refresh_costs_a_thousandth_of_the_time_of_a_kernel_that_is_slow() {
    let world = World::new();
    world.kernel_cost_ns.set(5 * US);
    let machine = started(&world, ClockId::MONOTONIC);
    let period = machine.status().period_ns;
    assert!((1_000 * 3 * 5 * US..16 * MS).contains(&period), "{period}");
    let refreshes = machine.status().refreshes;
    machine.run(SECOND);
    // One each 15 ms.
    let made = machine.status().refreshes - refreshes;
    assert!((60..75).contains(&made), "{made} refreshes");
}

#[test]
fn the_period_doubles_from_a_millisecond_to_four() {
    let world = World::new();
    let machine = Machine::new(&world, ClockId::MONOTONIC);
    machine.until(2 * MS, |status| status.fast);
    let mut periods = vec![machine.status().period_ns];
    for _ in 0..10_000 {
        machine.read();
        let period = machine.status().period_ns;
        if period.abs_diff(*periods.last().unwrap()) > US {
            periods.push(period);
        }
    }
    assert!((MS..1_300 * US).contains(&periods[0]), "{periods:?}");
    assert!(periods.is_sorted(), "{periods:?}");
    assert!(periods.windows(2).all(|pair| pair[1] < pair[0] * 5 / 2), "{periods:?}");
    assert!(periods.last().unwrap().abs_diff(4 * MS) < US, "{periods:?}");
    // One each 4 ms, and those before.
    assert!(machine.status().refreshes < 40, "{:?}", machine.status());
}

#[test]
fn a_wall_clock_that_is_set_is_a_step_with_its_distance() {
    let world = World::new();
    let machine = started(&world, ClockId::REALTIME);
    assert_eq!(machine.status().steps, 0);
    for (steps, by_ns) in [(1, 2_000_000_000), (2, -500_000_000)] {
        world.steer(by_ns, world.rate_ppb.get());
        let now = world.kernel_ns();
        machine.until(5 * MS, |status| status.steps == steps);
        let step = machine.status().last_steps[0].unwrap();
        assert!(step.by_ns.abs_diff(by_ns) < 100, "{step:?}");
        assert!((0..5 * MS as i64).contains(&(step.at_ns - now)), "{step:?}");
        machine.is_fast_again();
    }
    let steps = machine.status().last_steps;
    assert!(steps[1].is_some_and(|step| step.by_ns > 0) && steps[2].is_none(), "{steps:?}");
}

#[test]
fn a_kernel_that_changes_its_rate_is_a_slew_with_its_residual() {
    let world = World::new();
    let machine = started(&world, ClockId::MONOTONIC);
    let before = machine.status();
    assert!(before.slews == 0 && before.residual_max_ns <= 50, "{before:?}");
    // Just after a sample, so that the next tells the new rate.
    machine.until(5 * MS, |status| status.refreshes > before.refreshes);
    world.steer(0, world.rate_ppb.get() - 300_000);
    machine.until(5 * MS, |status| status.slews == 1);
    let slewed = machine.status();
    assert!(slewed.residual_ns <= -500, "{slewed:?}");
    machine.until(9 * MS, |status| status.refreshes > slewed.refreshes);
    let next = machine.status();
    assert!(next.residual_ns.abs() <= 200, "{next:?}");
    machine.run(100 * MS);
    let status = machine.status();
    // 300 ppm of a part of 4 ms; the rate that is taken over that is an average, so that the next is one more.
    assert!((1..=3).contains(&status.slews), "{status:?}");
    assert!((100..=1_200).contains(&status.residual_max_ns), "{status:?}");
    assert!(status.steps == 0 && status.distrusts == 0, "{status:?}");
    machine.run(SECOND);
    let after = machine.status();
    assert!(after.residual_ns.abs() <= 50 && after.slews == status.slews, "{after:?}");
}

#[test]
fn a_minute_of_readings_stays_within_100_ns() {
    let world = World::new();
    let machine = Machine::new(&world, ClockId::MONOTONIC);
    let end = world.now_ns.get() + 60 * SECOND;
    let (mut worst, mut slow) = (0, 0);
    while world.now_ns.get() < end {
        let (origin, off) = machine.read();
        worst = worst.max(off);
        slow += u64::from(origin == Origin::Kernel);
    }
    assert!(worst <= 100, "{worst} ns");
    // The first 1.2 ms.
    assert!(slow <= 150, "{slow} readings from the kernel");
    let status = machine.status();
    assert!(status.slews + status.steps + status.aheads + status.distrusts == 0, "{status:?}");
    assert!((14_000..30_000).contains(&status.refreshes), "{status:?}");
}

#[test]
fn a_rate_that_wanders_is_followed_by_a_window_and_is_no_slew() {
    let world = World::new();
    let machine = started(&world, ClockId::MONOTONIC);
    // A quarter of a ppm a second: 1 to 2 are in the window, and 4 ms make less than 10 ns of that; of all 15, 30 ns.
    for _ in 0..600 {
        world.steer(0, world.rate_ppb.get() + 25);
        machine.run(100 * MS);
        assert!(machine.read().1 <= 100);
    }
    let status = machine.status();
    assert!(status.slews == 0 && status.residual_max_ns <= 60, "{status:?}");
}
