//! Answers in the kernel's place, for a program whose own filter (seccomp) may kill it for the system call that the vDSO
//! spares it.
//!
//! Must never answer what the vDSO would have asked the kernel for: then the filter has its say as ever.

use crate::arch::{Function, Registers};
use clockwise_core::kernel::{ClockId, Errno, System};
use clockwise_core::units::Timespec;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

/// The clocks that a vDSO answers for.
const ANSWERED: [ClockId; 7] = [
    ClockId::REALTIME,
    ClockId::MONOTONIC,
    ClockId::MONOTONIC_RAW,
    ClockId::REALTIME_COARSE,
    ClockId::MONOTONIC_COARSE,
    ClockId::BOOTTIME,
    ClockId::TAI,
];

/// Whether a thread of the process has a filter.
pub fn is_filtered(process: i32) -> bool {
    let has_filter = |thread| super::proc::field(thread, "Seccomp").is_some_and(|mode| mode != "0");
    super::proc::threads(process).into_iter().any(has_filter)
}

/// Whether its clocks are this process's: it is in the same time namespace, or there are none.
pub fn has_our_clocks(process: i32) -> bool {
    let own = fs::read_link("/proc/self/ns/time").ok();
    own == fs::read_link(format!("/proc/{process}/ns/time")).ok()
}

/// Answers a call of the vDSO, in the memory of the process; what the function gives back. `None` if that is the kernel's.
pub fn answer(process: i32, function: Function, at: Registers) -> Option<u64> {
    let (first, second) = (at.argument, at.second);
    let clock = ClockId(first as u32 as i32);
    let pair = |time: Timespec, per_unit| [time.sec, time.nsec / per_unit];
    let now = |clock| -> Result<Timespec, Errno> { System.clock_gettime(clock) };
    match function {
        Function::ClockGettime if ANSWERED.contains(&clock) => {
            fill(process, second, &pair(now(clock).ok()?, 1))?;
        }
        Function::ClockGetres if ANSWERED.contains(&clock) => {
            let resolution = System.clock_getres(clock).ok()?;
            if second != 0 {
                fill(process, second, &pair(resolution, 1))?;
            }
        }
        Function::Gettimeofday => {
            if first != 0 {
                fill(process, first, &pair(now(ClockId::REALTIME).ok()?, 1000))?;
            }
            if second != 0 {
                // Nobody has set the kernel's time zone for decades.
                fill(process, second, &[0])?;
            }
        }
        Function::Time => {
            let time = now(ClockId::REALTIME_COARSE).ok()?;
            if first != 0 {
                fill(process, first, &[time.sec])?;
            }
            return Some(time.sec.cast_unsigned());
        }
        Function::ClockGettime | Function::ClockGetres => return None,
    }
    Some(0)
}

fn fill(process: i32, address: u64, words: &[i64]) -> Option<()> {
    let memory = File::options().write(true).open(format!("/proc/{process}/mem")).ok()?;
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    memory.write_all_at(&bytes, address).ok()
}
