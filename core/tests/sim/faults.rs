//! What can go wrong with a machine, and what it does to the [`World`].

use crate::random::Random;
use crate::world::{CLOCKS, PS, World};
use clockwise_core::kernel::ClockId;

/// A kind of fault; each seed draws some of those that its scenario allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The kernel's rate is set anew, by up to 500 ppm either way, also from one end to the other.
    Slew,
    /// The length of the kernel's tick is set anew (`ADJ_TICK`): its rate by up to 10 % either way.
    TickLength,
    /// The kernel's rate moves by less than 1 ppm.
    Wander,
    /// REALTIME is set, by microseconds to years, either way.
    SetTime,
    /// REALTIME goes a second back, or forward.
    LeapSecond,
    /// Someone tells the kernel the distance of TAI.
    TaiOffset,
    /// The machine sleeps; the counter stops, begins anew or runs on.
    Suspend,
    /// The guest goes on elsewhere: another counter at another rate.
    Migration,
    /// The guest stands still, and its kernel does not count that time while the counter does.
    Pause,
    /// A thread stops for microseconds to a second at a door.
    Preemption,
    /// While a thread is stopped at a door, others (or a signal handler in it) read the same clock.
    Nesting,
    /// A thread stops for good at a door.
    Death,
    /// Some readings of the kernel take 50 us.
    Outliers,
    /// Reading the kernel takes 1-3 us.
    SlowKernel,
    /// Reading the kernel takes eight times longer from some moment on.
    Slower,
    /// The kernel refuses to answer for a while.
    Refusal,
    /// The process moves into another time namespace, or back.
    Namespace,
    /// A child goes on, with a clock of zeros.
    Fork,
    /// Nobody reads for seconds to days.
    Idle,
    /// The cores' counters disagree by 2 us to 1.6 s.
    Cores,
    /// The counter may not be used.
    Unfit,
    /// A thread refreshes the clocks, so that no reader has to.
    Refresher,
}

/// What the faults leave behind, for the laws.
#[derive(Clone, Debug, Default)]
pub struct Aftermath {
    /// Per clock: until when its relation to the counter is not what the last samples said.
    pub excused_ps: [u64; 5],
    /// Per clock: each time that the kernel's own went back, and since when ours has followed.
    pub back: [Vec<Option<u64>>; 5],
    pub refused_until_ps: u64,
    /// How long ours may take to notice an event: a period, and what a sample takes.
    pub allowance_ns: u64,
    pub forks: bool,
}

impl Aftermath {
    fn breaks(&mut self, world: &World, clocks: &[ClockId]) {
        for (at, clock) in CLOCKS.iter().enumerate() {
            if clocks.contains(clock) {
                self.excused_ps[at] = world.now_ps + self.allowance_ns * PS;
            }
        }
    }

    /// Another period.
    fn breaks_longer(&mut self, clocks: &[ClockId]) {
        for (at, clock) in CLOCKS.iter().enumerate() {
            if clocks.contains(clock) {
                self.excused_ps[at] += self.allowance_ns * PS;
            }
        }
    }

    fn wavers(&mut self, world: &World, clocks: &[ClockId]) {
        for (at, clock) in CLOCKS.iter().enumerate() {
            if clocks.contains(clock) {
                self.back[at].push(Some(world.now_ps));
            }
        }
    }

    fn goes_back(&mut self, clocks: &[ClockId]) {
        for (at, clock) in CLOCKS.iter().enumerate() {
            if clocks.contains(clock) {
                self.back[at].push(None);
            }
        }
    }
}

const STEERED: [ClockId; 4] =
    [ClockId::MONOTONIC, ClockId::REALTIME, ClockId::BOOTTIME, ClockId::TAI];
const WALL: [ClockId; 2] = [ClockId::REALTIME, ClockId::TAI];
const SECOND: i64 = 1_000_000_000;

impl Fault {
    /// Whether it happens at a moment, and is not a property of the whole run.
    pub fn is_event(self) -> bool {
        use Fault::*;
        !matches!(
            self,
            Preemption | Nesting | Death | Outliers | SlowKernel | Cores | Unfit | Refresher | Idle
        )
    }

    /// Whether it can happen while a thread is stopped at a door. Only a process of one thread may move into a time
    /// namespace.
    pub fn can_interrupt(self) -> bool {
        self.is_event() && !matches!(self, Self::Fork | Self::Namespace)
    }

    /// Before the first reading.
    pub fn prepare(self, world: &mut World, random: &mut Random) {
        match self {
            Self::SlowKernel => world.kernel_cost_ps = (1_000 * PS, 3_000 * PS),
            Self::Cores => {
                let off = world.ticks_of_nanos(random.magnitude(2_000, 1_600_000_000));
                for core in &mut world.core_ticks[1..] {
                    *core = random.signed(off);
                }
                world.core_ticks[2] = off as i64;
            }
            _ => {}
        }
    }

    /// It happens now. Returns what to say about it.
    pub fn happen(self, world: &mut World, after: &mut Aftermath, random: &mut Random) -> String {
        let mut told = 0;
        match self {
            Self::Slew => {
                let any = random.signed(500_000);
                told = random.pick(&[-500_000, 500_000, 0, any]);
                world.slew(told);
            }
            Self::TickLength => {
                let most = random.pick(&[10_000_000, 100_000_000]);
                let any = random.signed(most as u64);
                told = random.pick(&[-most, most, 0, any]);
                world.slew(told);
                // What changed a moment before a sample passes for a slew: it shows in the next one.
                after.breaks(world, &STEERED);
                after.breaks_longer(&STEERED);
                // Ours may have run ahead, and a clock that can be set is set right at once.
                after.wavers(world, &WALL);
            }
            // Around the same rate: no sum of them is more.
            Self::Wander => {
                told = random.signed(450);
                world.wander(told);
            }
            Self::SetTime => {
                told = random.magnitude(1_000, 300_000_000_000_000_000) as i64;
                told = if random.percent(50) { told } else { -told };
                set(world, after, told, &WALL);
            }
            Self::LeapSecond => {
                told = random.pick(&[-SECOND, SECOND]);
                // TAI does not see it.
                world.tai_ns -= told;
                set(world, after, told, &[ClockId::REALTIME]);
            }
            Self::TaiOffset => {
                let new = random.pick(&[0, 36 * SECOND, 37 * SECOND, 38 * SECOND]);
                told = new - world.tai_ns;
                world.tai_ns = new;
                after.breaks(world, &[ClockId::TAI]);
                if told < 0 {
                    after.goes_back(&[ClockId::TAI]);
                } else {
                    after.wavers(world, &[ClockId::TAI]);
                }
            }
            Self::Suspend => told = suspend(world, random),
            Self::Migration => {
                // No counter is set back by less than was just read: the kernel's own clock would go back too.
                let hz = world.hz / 1_000 * random.between(700, 1_400);
                let second = world.ticks_of_nanos(1_000_000_000);
                let far =
                    second.saturating_mul(random.magnitude(1, 1_000_000)) + random.next() % second;
                let back = random.percent(50);
                let there = world.ticks();
                let there = if back { there.wrapping_sub(far) } else { there.wrapping_add(far) };
                let downtime = random.magnitude(1_000_000, 10_000_000_000);
                told = downtime as i64;
                world.leap(downtime, Some(there), hz, downtime);
            }
            Self::Pause => {
                let pause = random.magnitude(1_000, 100_000_000_000);
                told = pause as i64;
                world.leap(pause, None, world.hz, 0);
            }
            Self::Slower => {
                let (low, high) = world.kernel_cost_ps;
                if low < 5_000 * PS {
                    world.kernel_cost_ps = (low * 8, high * 8);
                }
            }
            Self::Refusal => {
                told = random.magnitude(1_000, 10_000_000_000) as i64;
                after.refused_until_ps = world.now_ps + told as u64 * PS;
            }
            Self::Namespace => {
                let old = world.namespace_ns;
                // A namespace's clock is never negative.
                let most = (world.kernel(ClockId::MONOTONIC) - old).min(1 << 55) as u64;
                world.namespace_ns = if random.percent(40) { 0 } else { random.signed(most) };
                told = world.namespace_ns - old;
                let clocks = [ClockId::MONOTONIC, ClockId::BOOTTIME];
                after.breaks(world, &clocks);
                if told < 0 {
                    after.goes_back(&clocks);
                }
            }
            // A child knows nothing of an event before it was born, nor that its parent was held ahead of the kernel
            // for that. The few milliseconds are the price of a state that is wiped.
            Self::Fork => {
                after.forks = true;
                for (back, &excused) in after.back.iter_mut().zip(&after.excused_ps) {
                    if world.now_ps < excused {
                        back.push(None);
                    }
                }
            }
            _ => {}
        }
        if matches!(self, Self::Suspend | Self::Migration | Self::Pause) {
            after.breaks(world, &CLOCKS);
            // Ours may have run ahead, and a clock that can be set is set right at once.
            after.goes_back(&WALL);
        }
        format!("{self:?} {told}")
    }
}

fn set(world: &mut World, after: &mut Aftermath, by: i64, clocks: &[ClockId]) {
    world.wall_ns = world.wall_ns.saturating_add(by);
    // The kernel refuses years before 1970, and those that 64 bits of nanoseconds do not hold.
    let now = world.kernel(ClockId::MONOTONIC) + world.tai_ns.abs();
    if !(0..8_900_000_000 * SECOND - now).contains(&world.wall_ns) {
        world.wall_ns = SECOND;
        after.goes_back(clocks);
    }
    after.breaks(world, clocks);
    if by < 0 {
        after.goes_back(clocks);
    } else {
        // Once the kernel has told the new time, a line from a sample before it may still come out.
        after.wavers(world, clocks);
    }
}

/// MONOTONIC and RAW exclude the time asleep, the others include it.
fn suspend(world: &mut World, random: &mut Random) -> i64 {
    let asleep = random.magnitude(10_000_000, 100_000_000_000_000);
    let ticks = match random.between(0, 2) {
        0 => Some(world.ticks()),
        // Anywhere, so that it comes upon an old line with a chance of 4 ms in hours: only who asks the kernel each
        // time would notice that.
        1 => Some(random.next() >> random.between(0, 20)),
        _ => None,
    };
    world.leap(asleep, ticks, world.hz, 0);
    world.wall_ns += asleep as i64;
    world.boot_ns += asleep as i64;
    asleep as i64
}
