//! What loom explores, once more on the real processor: threads that write and read as fast as they can.
//!
//! Every word of a line follows from its anchor, so that a mixture of two shows.

extern crate std;

use super::{HALF, Lock, Phase, Slot};
use crate::scale::Slope;
use crate::timebase::Line;
use crate::units::Ticks;
use crate::word::Word;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::{sync::Barrier, thread};

/// Lines that are written; under emulation that takes a second too.
const LINES: u64 = 200_000;
const READERS: usize = 2;

/// A different bit pattern for every number and place, in `bits` bits.
const fn scrambled(number: u64, place: u64, bits: u32) -> u64 {
    let mixed = (number << 3 | place).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> (64 - bits)
}

/// The line number `number`; it begins where the one before it ends.
fn line(number: u64) -> Line {
    Line {
        anchor: Ticks(number << 16),
        nanos: scrambled(number, 1, 62) as i64,
        slope: Slope(scrambled(number, 2, 40)),
        soft: Ticks((1 << 16) - 1 - scrambled(number, 3, 8)),
        hard: Ticks(1 << 16),
        steady_ns: scrambled(number, 4, 32) as u32,
        proven_ns: scrambled(number, 5, 32) as u32,
        sampled: Ticks((number << 16).wrapping_sub(scrambled(number, 6, 32))),
    }
}

#[test]
fn threads_that_read_while_another_writes_get_whole_lines() {
    let (slot, written) = (&Slot::new(), &Word::new(0));
    let start = &Barrier::new(READERS + 1);
    thread::scope(|scope| {
        let read = move || {
            let (mut lines, mut times, mut last) = (0_u64, 0_u64, 0);
            start.wait();
            loop {
                let number = written.load(Acquire);
                // A tick of the newest line that is known here. By its own number: a time that is a mixture of
                // that line and the next is not the former's at this tick.
                let ticks = Ticks((number << 16) + 1_000);
                if let Some(nanos) = slot.time(|_| ticks) {
                    assert_eq!(Some(nanos), line(number).at(ticks), "time of line {number}");
                    times += 1;
                }
                if let Some(mut found) = slot.line() {
                    let number = found.anchor.0 >> 16;
                    if found.soft == found.hard {
                        found.soft = line(number).soft;
                    }
                    assert_eq!(found, line(number), "anchor {:#x}, mark {HALF:#x}", found.anchor.0);
                    assert!(number >= last, "line {number} after line {last}");
                    (last, lines) = (number, lines + 1);
                }
                if number == LINES {
                    return (lines, times);
                }
            }
        };
        let readers: [_; READERS] = core::array::from_fn(|_| scope.spawn(read));
        start.wait();
        for number in 1..=LINES {
            assert!(slot.put(&line(number), 1));
            written.store(number, Release);
            if number % 3 == 0 {
                slot.extend();
            }
            if number % 7 == 0 {
                slot.clear();
            }
            if number % 1_024 == 0 {
                // Where there are fewer processors than threads.
                thread::yield_now();
            }
        }
        for reader in readers {
            let (lines, times) = reader.join().unwrap();
            assert!(lines > 0 && times > 0, "{lines} lines and {times} times were read");
        }
    });
}

#[test]
fn threads_that_take_the_lock_never_hold_it_together() {
    const TAKES: u64 = 20_000;
    let (lock, words) = (&Lock::new(), &[Word::new(0), Word::new(0)]);
    let work = move || {
        let mut taken = 0;
        while taken < TAKES {
            let Ok(mut held) = lock.take(|| Ticks(4), Phase::Sampling) else {
                thread::yield_now();
                continue;
            };
            assert!(lock.advance(&mut held, Ticks(8), Phase::Following));
            let [first, second] = [0, 1].map(|at: usize| words[at].load(Relaxed));
            assert_eq!(first, second);
            words[0].store(first + 1, Relaxed);
            words[1].store(second + 1, Relaxed);
            lock.release(held);
            taken += 1;
        }
    };
    thread::scope(|scope| {
        for _ in 0..=READERS {
            scope.spawn(work);
        }
    });
    assert_eq!(words[0].load(Relaxed), TAKES * (READERS as u64 + 1));
}
