//! The scenarios: which faults are always there, which a seed may draw, and what must hold beyond the laws.

use crate::faults::Fault::{self, *};
use crate::world::World;

#[derive(Debug)]
pub struct Scenario {
    pub name: &'static str,
    pub always: &'static [Fault],
    pub perhaps: &'static [Fault],
    /// The gaps between readings, in nanoseconds: never longer.
    pub gap_most_ns: u64,
    /// How far from the kernel a reading may ever be.
    pub limit_ns: Option<u64>,
    /// The share of readings that the counter answers at least, once started.
    pub counter_percent: u64,
    /// For canaries: an undisclosed fault of the counter.
    pub broken: Option<fn(u64, &World) -> u64>,
}

const ANY: Scenario = Scenario {
    name: "",
    always: &[],
    perhaps: &[],
    gap_most_ns: u64::MAX,
    limit_ns: None,
    counter_percent: 0,
    broken: None,
};

/// Gaps that leave no period without a reading in its last quarter.
const DENSE: u64 = 200_000;

pub static QUIET: Scenario = Scenario {
    name: "a_quiet_machine_is_read_from_its_counter_and_never_drifts",
    gap_most_ns: DENSE,
    limit_ns: Some(400),
    counter_percent: 90,
    ..ANY
};

pub static RARELY_READ: Scenario = Scenario {
    name: "a_process_that_sleeps_for_days_is_never_told_a_stale_time",
    always: &[Idle],
    perhaps: &[Wander, Slew, Refresher],
    ..ANY
};

pub static STEERED: Scenario = Scenario {
    name: "a_kernel_that_is_steered_is_followed_within_the_bound",
    always: &[Slew],
    perhaps: &[Wander, Refresher],
    gap_most_ns: DENSE,
    // 1000 ppm of the 8 ms that a line lies ahead of its sample at most, and the noise.
    limit_ns: Some(9_000),
    counter_percent: 85,
    ..ANY
};

pub static TICK: Scenario = Scenario {
    name: "a_kernel_whose_tick_is_set_anew_is_followed_within_two_periods",
    always: &[TickLength],
    perhaps: &[Wander, Refresher],
    gap_most_ns: DENSE,
    ..ANY
};

pub static SET: Scenario = Scenario {
    name: "a_wall_clock_that_is_set_is_followed_within_5_ms",
    perhaps: &[SetTime, LeapSecond, TaiOffset, Slew, Wander, Refresher],
    gap_most_ns: 800_000,
    ..ANY
};

pub static ASLEEP: Scenario = Scenario {
    name: "a_machine_that_sleeps_migrates_or_pauses_goes_on_within_5_ms",
    perhaps: &[Suspend, Migration, Pause, Slew, Wander, Idle, Refresher],
    ..ANY
};

pub static STOPPED: Scenario = Scenario {
    name: "threads_that_are_stopped_anywhere_harm_nobody",
    always: &[Preemption],
    perhaps: &[Nesting, Outliers, Slew, Wander, Idle, Refresher],
    ..ANY
};

pub static NESTED: Scenario = Scenario {
    name: "readings_in_the_midst_of_a_refresh_are_right",
    always: &[Preemption, Nesting],
    perhaps: &[Slew, SetTime, LeapSecond, TaiOffset, Refresher],
    gap_most_ns: 1_000_000,
    ..ANY
};

pub static KILLED: Scenario = Scenario {
    name: "refreshers_that_die_are_overruled_after_a_second",
    always: &[Preemption, Death],
    perhaps: &[Nesting, Slew, SetTime, Fork, Idle, Refresher],
    ..ANY
};

pub static MOVED: Scenario = Scenario {
    name: "a_process_that_forks_or_moves_into_a_namespace_goes_on",
    perhaps: &[Namespace, Fork, Preemption, Nesting, Idle, Refresher],
    ..ANY
};

pub static REFUSED: Scenario = Scenario {
    name: "a_kernel_that_refuses_to_answer_is_an_error_and_no_panic",
    always: &[Refusal],
    perhaps: &[Preemption, Nesting, Slew, SetTime, Idle, Refresher],
    ..ANY
};

pub static SLOW: Scenario = Scenario {
    name: "a_kernel_that_is_slow_to_read_has_longer_periods",
    always: &[SlowKernel],
    perhaps: &[Outliers, Slew, Wander, SetTime, Suspend, Preemption, Nesting, Refresher],
    ..ANY
};

pub static SLOWER: Scenario = Scenario {
    name: "a_kernel_that_becomes_slow_is_found_out",
    always: &[Slower],
    gap_most_ns: 3_000_000,
    ..ANY
};

pub static CORES: Scenario = Scenario {
    name: "cores_that_disagree_end_in_no_panic_and_no_wait",
    always: &[Cores],
    perhaps: &[Preemption, Nesting, SetTime, Idle, Refresher],
    ..ANY
};

pub static UNFIT: Scenario = Scenario {
    name: "a_counter_that_is_unfit_is_never_read",
    always: &[Unfit],
    perhaps: &[Preemption, Nesting, Death, SetTime, Slew, Suspend, Fork, Refresher],
    ..ANY
};

pub static EVERYTHING: Scenario = Scenario {
    name: "everything_at_once",
    perhaps: &[
        Slew, Wander, SetTime, LeapSecond, TaiOffset, Suspend, Migration, Pause, Preemption,
        Nesting, Death, Outliers, Refusal, Namespace, Fork, Idle, Refresher,
    ],
    ..ANY
};

/// A counter that goes 20 us back for a millisecond, every 16 ms.
pub static CANARY_BACK: Scenario = Scenario {
    name: "a_counter_that_goes_back_is_caught",
    gap_most_ns: DENSE,
    broken: Some(|ticks, world| {
        let back = world.now_ns() >> 20 & 15 == 15;
        ticks.wrapping_sub(if back { world.ticks_of_nanos(20_000) } else { 0 })
    }),
    ..ANY
};

/// A counter that runs 1 % fast for a millisecond out of four: more than any slew.
pub static CANARY_FAST: Scenario = Scenario {
    name: "a_counter_that_does_not_keep_its_rate_is_caught",
    gap_most_ns: DENSE,
    broken: Some(|ticks, world| {
        let ahead = (world.now_ns() & 0x3F_FFFF).min(0x10_0000) / 100;
        ticks.wrapping_add(world.ticks_of_nanos(ahead))
    }),
    ..ANY
};
