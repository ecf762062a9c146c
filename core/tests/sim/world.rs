//! The machine: ONE true time, from which the counters and the kernel's clocks follow.
//!
//! As on a real machine the kernel's clocks are functions of the counter, which the kernel steers. All in integers;
//! nothing here knows the library's rules.

use crate::random::Random;
use clockwise_core::kernel::ClockId;

/// Picoseconds in a nanosecond. True time is in picoseconds: 213 days before it overflows.
pub const PS: u64 = 1_000;

pub const CLOCKS: [ClockId; 5] = [
    ClockId::MONOTONIC,
    ClockId::REALTIME,
    ClockId::BOOTTIME,
    ClockId::TAI,
    ClockId::MONOTONIC_RAW,
];

/// A clock that accumulates: `nanos` (32 binary places) at `ticks`, from there on `scale` (64 places) each tick.
#[derive(Clone, Copy, Debug)]
struct Steered {
    ticks: u64,
    nanos: i128,
    scale: u128,
}

impl Steered {
    fn at(&self, ticks: u64) -> i128 {
        let passed = u128::from(ticks.wrapping_sub(self.ticks));
        self.nanos + ((passed * self.scale) >> 32) as i128
    }

    /// From `ticks` on it goes by `scale`.
    fn turn(&mut self, ticks: u64, scale: u128) {
        *self = Self { ticks, nanos: self.at(ticks), scale };
    }
}

#[derive(Clone, Debug)]
pub struct World {
    /// The true time.
    pub now_ps: u64,
    counter_ps: u64,
    /// At `counter_ps`, with 64 binary places.
    counter_ticks: u128,
    /// Ticks a picosecond, with 64 places.
    counter_rate: u128,
    pub hz: u64,
    /// The counter moves in steps of so many ticks.
    pub quantum: u64,
    /// By how much each core's counter is off.
    pub core_ticks: [i64; 4],
    monotonic: Steered,
    raw: Steered,
    /// The kernel's rate beside the nominal one, in parts per 10^9: what the daemon set, and its small wander.
    slew_ppb: i64,
    wander_ppb: i64,
    /// Since when the rate has been the same but for the wander.
    pub rate_since_ps: u64,
    /// REALTIME, BOOTTIME and TAI beside MONOTONIC.
    pub wall_ns: i64,
    pub boot_ns: i64,
    pub tai_ns: i64,
    /// The time namespace of the process.
    pub namespace_ns: i64,
    /// What reading costs.
    pub counter_cost_ps: u64,
    pub kernel_cost_ps: (u64, u64),
}

impl World {
    pub fn new(random: &mut Random) -> Self {
        let hz = match random.between(0, 5) {
            0 => random.pick(&[24_000_000, 19_200_000, 62_500_000, 1_000_000_000]),
            1 => 2_596_132_173,
            _ => random.between(1_000_000_000, 5_000_000_000),
        };
        let year_ns = 31_557_600_000_000_000;
        let uptime_ns = match random.between(0, 3) {
            0 => random.between(0, 1_000_000_000),
            // 200 years: still below 2^63 nanoseconds with the epoch's 56 on top.
            1 => random.between(year_ns, 200 * year_ns),
            _ => random.magnitude(1_000_000_000, year_ns),
        };
        // Also close to 2^63 and to where it wraps.
        let ticks = match random.between(0, 4) {
            0 => u64::MAX - random.between(0, hz),
            1 => (1 << 63) - random.between(0, hz),
            _ => random.next() >> random.between(0, 40),
        };
        let fast = random.between(20, 60) * PS;
        let mut world = Self {
            now_ps: 0,
            counter_ps: 0,
            counter_ticks: u128::from(ticks) << 64,
            counter_rate: rate(hz),
            hz,
            quantum: if hz > 2_000_000_000 { random.pick(&[1, 1, 26]) } else { 1 },
            core_ticks: [0; 4],
            monotonic: Steered { ticks: 0, nanos: i128::from(uptime_ns) << 32, scale: 0 },
            raw: Steered { ticks: 0, nanos: i128::from(uptime_ns) << 32, scale: 0 },
            slew_ppb: random.signed(100_000),
            wander_ppb: 0,
            rate_since_ps: 0,
            wall_ns: 1_750_000_000_000_000_000,
            boot_ns: if random.percent(50) { 0 } else { random.magnitude(1_000, year_ns) as i64 },
            tai_ns: random.pick(&[0, 37_000_000_000]),
            namespace_ns: 0,
            counter_cost_ps: random.between(6, 25) * PS,
            kernel_cost_ps: (fast, fast + 10 * PS),
        };
        let ticks = world.ticks();
        (world.monotonic.ticks, world.raw.ticks) = (ticks, ticks);
        world.steer();
        world
    }

    pub fn now_ns(&self) -> u64 {
        self.now_ps / PS
    }

    pub fn nanos_of_ticks(&self, ticks: u64) -> u64 {
        (u128::from(ticks) * 1_000_000_000 / u128::from(self.hz)) as u64
    }

    pub fn ticks_of_nanos(&self, nanos: u64) -> u64 {
        (u128::from(nanos) * u128::from(self.hz) / 1_000_000_000) as u64
    }

    /// The counter that the kernel reads, at the true time `ps`.
    fn ticks_at(&self, ps: u64) -> u64 {
        let passed = u128::from(ps.saturating_sub(self.counter_ps));
        let ticks = (self.counter_ticks.wrapping_add(passed * self.counter_rate) >> 64) as u64;
        ticks - ticks % self.quantum
    }

    pub fn ticks(&self) -> u64 {
        self.ticks_at(self.now_ps)
    }

    /// The counter as a thread on `core` reads it, `ago_ps` ago.
    pub fn ticks_on(&self, core: usize, ago_ps: u64) -> u64 {
        let ps = self.now_ps.saturating_sub(ago_ps);
        self.ticks_at(ps).wrapping_add_signed(self.core_ticks[core])
    }

    /// The kernel's clock, exactly.
    pub fn kernel(&self, clock: ClockId) -> i64 {
        let ticks = self.ticks();
        if clock == ClockId::MONOTONIC_RAW {
            return (self.raw.at(ticks) >> 32) as i64;
        }
        let monotonic = (self.monotonic.at(ticks) >> 32) as i64;
        monotonic
            + match clock {
                ClockId::REALTIME => self.wall_ns,
                ClockId::TAI => self.wall_ns + self.tai_ns,
                ClockId::BOOTTIME => self.boot_ns + self.namespace_ns,
                _ => self.namespace_ns,
            }
    }

    /// The kernel's rate is set anew, in parts per 10^9.
    pub fn slew(&mut self, ppb: i64) {
        self.slew_ppb = ppb;
        self.rate_since_ps = self.now_ps;
        self.steer();
    }

    pub fn wander(&mut self, ppb: i64) {
        self.wander_ppb = ppb;
        self.steer();
    }

    fn steer(&mut self) {
        let nominal = (1_000_000_000 << 64) / u128::from(self.hz);
        let part = nominal / 1_000_000_000;
        let more = part as i128 * i128::from(self.slew_ppb + self.wander_ppb);
        let ticks = self.ticks();
        self.monotonic.turn(ticks, nominal.wrapping_add_signed(more));
        self.raw.turn(ticks, nominal);
    }

    /// True time passes, and this is what the counter and the kernel's MONOTONIC make of it: the counter gets the
    /// value `ticks` (if that is given) and the rate `hz`; MONOTONIC advances by `monotonic_ns`.
    pub fn leap(&mut self, passed_ns: u64, ticks: Option<u64>, hz: u64, monotonic_ns: u64) {
        let before = self.ticks();
        let (monotonic, raw) = (self.monotonic.at(before), self.raw.at(before));
        self.now_ps += passed_ns * PS;
        let passed = u128::from(self.now_ps - self.counter_ps);
        self.counter_ticks = match ticks {
            Some(ticks) => u128::from(ticks) << 64,
            None => self.counter_ticks.wrapping_add(passed * self.counter_rate),
        };
        (self.counter_ps, self.counter_rate, self.hz) = (self.now_ps, rate(hz), hz);
        let more = i128::from(monotonic_ns) << 32;
        let ticks = self.ticks();
        (self.monotonic.ticks, self.monotonic.nanos) = (ticks, monotonic + more);
        (self.raw.ticks, self.raw.nanos) = (ticks, raw + more);
        self.steer();
    }
}

fn rate(hz: u64) -> u128 {
    (u128::from(hz) << 64) / 1_000_000_000_000
}
