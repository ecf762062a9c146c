//! Every interleaving of the latch's threads, and every stale value that the memory model lets them see, within
//! a bound on preemptions; and that each of its orderings is needed: without it, a mixture is found.

use super::{Busy, Lock, Phase, Slot};
use crate::scale::Slope;
use crate::timebase::Line;
use crate::units::Ticks;
use crate::word::Word;
use crate::word::explored::{Fault, set_fault};
use core::sync::atomic::Ordering::Relaxed;
use loom::{model::Builder, sync::Arc, thread};

/// A second of a counter.
const SECOND: u64 = 1 << 30;

/// Runs `model` in every interleaving with at most `preemptions` of them.
fn explore(preemptions: usize, fault: Option<Fault>, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || {
        set_fault(fault);
        model();
    });
}

/// The line number `number`: no two have a word in common, and all answer for [`NOW`] but for their `soft`.
fn line(number: u64) -> Line {
    Line {
        anchor: Ticks(1_000 + number),
        nanos: 1_000_000 * number as i64,
        slope: Slope(number << 32),
        soft: Ticks(100 + number),
        hard: Ticks(200 + number),
        steady_ns: 300 + number as u32,
        proven_ns: 400 + number as u32,
        sampled: Ticks(500 + number),
    }
}

const NOW: Ticks = Ticks(1_050);

/// The number of the line whose time this is.
fn number_of_time(nanos: i64) -> u64 {
    let is_of = |&number: &u64| line(number).at(NOW) == Some(nanos);
    (1..4).find(is_of).unwrap_or_else(|| panic!("a mixture of two lines: {nanos}"))
}

fn number_of(mut found: Line) -> u64 {
    let number = found.anchor.0.wrapping_sub(1_000);
    if found.soft == found.hard {
        // Extended.
        found.soft = line(number).soft;
    }
    assert!(found == line(number), "a mixture of two lines: {found:?}");
    number
}

/// A reader of lines that come in the order of their numbers sees them in that order, each whole.
fn read_twice<T>(read: impl Fn() -> Option<T>, number: impl Fn(T) -> u64) {
    let first = read().map(&number);
    if let (Some(first), Some(second)) = (first, read().map(&number)) {
        assert!(first <= second, "line {first} after line {second}");
    }
}

fn time_of(slot: &Slot) -> Option<i64> {
    slot.time(|form| {
        assert_eq!(form, 1);
        NOW
    })
}

/// One thread writes, another reads.
fn write_and_read(preemptions: usize, fault: Option<Fault>, write: fn(&Slot), read: fn(&Slot)) {
    explore(preemptions, fault, move || {
        let slot = Arc::new(Slot::new());
        assert!(slot.put(&line(1), 1));
        let shared = Arc::clone(&slot);
        let reader = thread::spawn(move || read(&shared));
        write(&slot);
        reader.join().unwrap();
    });
}

fn put_one(slot: &Slot) {
    assert!(slot.put(&line(2), 1));
}

fn put_two(slot: &Slot) {
    assert!(slot.put(&line(2), 1));
    slot.extend();
    slot.clear();
    assert!(slot.put(&line(3), 1));
}

fn read_time(slot: &Slot) {
    time_of(slot).map(number_of_time);
}

fn read_line(slot: &Slot) {
    slot.line().map(number_of);
}

#[test]
fn the_time_is_never_of_two_lines() {
    write_and_read(2, None, put_two, read_time);
    write_and_read(2, None, put_one, |slot| read_twice(|| time_of(slot), number_of_time));
}

#[test]
fn a_line_is_never_a_mixture_of_two() {
    write_and_read(1, None, put_two, read_line);
    write_and_read(2, None, put_one, read_line);
    write_and_read(1, None, put_one, |slot| read_twice(|| slot.line(), number_of));
}

#[test]
fn an_empty_slot_that_is_filled_gives_nothing_or_the_line() {
    explore(3, None, || {
        let slot = Arc::new(Slot::new());
        let shared = Arc::clone(&slot);
        let reader = thread::spawn(move || {
            read_time(&shared);
            read_line(&shared);
        });
        put_one(&slot);
        reader.join().unwrap();
        assert_eq!(slot.line(), Some(line(2)), "its writer sees it");
        assert_eq!(time_of(&slot), line(2).at(NOW));
    });
}

#[test]
fn a_slot_is_closed_or_its_line_comes_out_but_not_both() {
    explore(3, None, || {
        let slot = Arc::new(Slot::new());
        let shared = Arc::clone(&slot);
        let reader = thread::spawn(move || {
            let closed = shared.close();
            assert!(!closed || shared.line().is_none());
            closed
        });
        let out = slot.put(&line(2), 1);
        assert_eq!(out, !reader.join().unwrap());
        assert_eq!(slot.line(), out.then(|| line(2)));
        slot.open();
        assert_eq!(slot.line(), out.then(|| line(2)), "a line is none that was closed");
        assert!(slot.put(&line(3), 1), "and open again");
    });
}

#[test]
fn a_reader_that_has_seen_an_earlier_line_takes_none_that_was_closed() {
    explore(3, None, || {
        let slot = Arc::new(Slot::new());
        assert!(slot.put(&line(1), 1));
        let (seen, closed) = (Arc::clone(&slot), Arc::clone(&slot));
        let reader = thread::spawn(move || time_of(&seen).map(number_of_time));
        let closer = thread::spawn(move || closed.close());
        let out = slot.put(&line(2), 1);
        assert_eq!(out, !closer.join().unwrap());
        assert!(out || reader.join().unwrap() != Some(2));
    });
}

/// A front slot with line 1, the next slot with line 2, as when line 1 has ended.
struct Pair {
    front: Slot,
    next: Slot,
}

impl Pair {
    fn new() -> Arc<Self> {
        let pair = Self { front: Slot::new(), next: Slot::new() };
        assert!(pair.front.put(&line(1), 1));
        assert!(pair.next.put(&line(2), 1));
        Arc::new(pair)
    }

    fn promote(&self) {
        assert!(self.front.put(&self.next.line().unwrap(), 1));
    }

    /// The number of the line from `least` on that is found, as `Bank::line_at` looks for it.
    fn find(&self, least: u64) -> Option<u64> {
        let look = |slot: &Slot| slot.line().map(number_of).filter(|&number| number >= least);
        look(&self.front).or_else(|| look(&self.next))
    }
}

#[test]
fn while_the_next_line_becomes_the_current_one_it_is_always_found() {
    explore(3, None, || {
        let pair = Pair::new();
        let shared = Arc::clone(&pair);
        let reader = thread::spawn(move || assert_eq!(shared.find(2), Some(2)));
        pair.promote();
        reader.join().unwrap();
    });
}

#[test]
fn while_a_next_line_is_put_the_current_one_is_always_found() {
    explore(3, None, || {
        let pair = Pair::new();
        pair.promote();
        let shared = Arc::clone(&pair);
        let reader = thread::spawn(move || assert_eq!(shared.find(2), Some(2)));
        assert!(pair.next.put(&line(3), 1));
        pair.front.extend();
        reader.join().unwrap();
    });
}

#[test]
fn a_reader_that_is_overtaken_by_both_finds_a_whole_line_or_nothing() {
    explore(1, None, || {
        let pair = Pair::new();
        let shared = Arc::clone(&pair);
        let reader = thread::spawn(move || {
            let found = shared.find(2);
            assert!(matches!(found, None | Some(2 | 3)), "{found:?}");
        });
        pair.promote();
        assert!(pair.next.put(&line(3), 1));
        reader.join().unwrap();
    });
}

// Each variant must fail: then the tests above find what they are there for.

#[test]
#[should_panic(expected = "a mixture of two lines")]
fn a_time_without_the_readers_acquire_fence_is_a_mixture() {
    write_and_read(2, Some(Fault::AcquireFence), put_one, read_time);
}

#[test]
#[should_panic(expected = "a mixture of two lines")]
fn a_line_without_the_readers_acquire_fence_is_a_mixture() {
    write_and_read(2, Some(Fault::AcquireFence), put_one, read_line);
}

#[test]
#[should_panic(expected = "a mixture of two lines")]
fn a_time_without_the_writers_release_fence_is_a_mixture() {
    write_and_read(2, Some(Fault::ReleaseFence), put_one, read_time);
}

#[test]
#[should_panic(expected = "a mixture of two lines")]
fn a_line_without_the_writers_release_fence_is_a_mixture() {
    write_and_read(2, Some(Fault::ReleaseFence), put_one, read_line);
}

#[test]
#[should_panic(expected = "a mixture of two lines")]
fn a_time_without_the_readers_acquire_load_is_a_mixture() {
    write_and_read(2, Some(Fault::AcquireLoad), put_one, read_time);
}

#[test]
#[should_panic(expected = "a mixture of two lines")]
fn a_line_without_the_readers_acquire_loads_is_a_mixture() {
    write_and_read(2, Some(Fault::AcquireLoad), put_one, read_line);
}

#[test]
#[should_panic(expected = "a mixture of two lines")]
fn a_line_whose_mark_is_not_released_is_a_mixture() {
    write_and_read(2, Some(Fault::ReleaseStore(0)), put_one, read_line);
}

#[test]
#[should_panic(expected = "a mixture of two lines")]
fn a_time_whose_anchor_is_not_released_is_a_mixture() {
    write_and_read(2, Some(Fault::ReleaseStore(1)), put_one, read_time);
}

#[test]
#[should_panic(expected = "a mixture of two lines")]
fn a_line_whose_anchor_is_not_released_is_a_mixture() {
    write_and_read(2, Some(Fault::ReleaseStore(1)), put_one, read_line);
}

#[test]
#[should_panic(expected = "a mixture of two lines")]
fn a_line_whose_form_is_not_released_is_a_mixture() {
    write_and_read(2, Some(Fault::ReleaseExchange), put_one, read_line);
}

/// What a holder of the lock does with words that only holders touch.
struct Kept {
    lock: Lock,
    words: [Word; 2],
}

impl Kept {
    fn new() -> Arc<Self> {
        let lock = Lock::new();
        lock.set_lease(Ticks(SECOND));
        Arc::new(Self { lock, words: [Word::new(0), Word::new(0)] })
    }

    /// Takes the lock if it can and changes the words, which are seen as the last holder left them.
    fn use_once(&self, now: Ticks) -> bool {
        let Ok(mut held) = self.lock.take(|| now, Phase::Sampling) else { return false };
        if !self.lock.advance(&mut held, Ticks(now.0 + 8), Phase::Following) {
            return false;
        }
        let [first, second] = [0, 1].map(|at: usize| self.words[at].load(Relaxed));
        assert_eq!(first, second, "not what the last holder left");
        self.words[0].store(first + 1, Relaxed);
        self.words[1].store(second + 1, Relaxed);
        self.lock.release(held);
        true
    }
}

/// Two threads use the lock at the ticks that they are given, this one at the end; `dead`: at tick 4 a holder
/// began to sample and has not been heard of since.
fn contend(preemptions: usize, fault: Option<Fault>, now: [Ticks; 2], dead: bool) {
    explore(preemptions, fault, move || {
        let kept = Kept::new();
        let zombie = dead.then(|| kept.lock.take(|| Ticks(4), Phase::Sampling).unwrap());
        let [first, second] = now.map(|now| {
            let kept = Arc::clone(&kept);
            thread::spawn(move || kept.use_once(now))
        });
        let uses = u64::from(first.join().unwrap()) + u64::from(second.join().unwrap());
        assert!(uses >= 1, "nobody got the lock");
        assert_eq!(kept.words[0].load(Relaxed), uses, "not what the last holder left");
        if let Some(mut zombie) = zombie {
            assert!(!kept.lock.advance(&mut zombie, Ticks(12), Phase::Following));
            kept.lock.release(zombie);
        }
        assert!(kept.use_once(Ticks(5 * SECOND)), "it was given back");
    });
}

#[test]
fn two_never_hold_the_lock_and_each_sees_what_the_last_left() {
    contend(3, None, [Ticks(4), Ticks(8)], false);
    contend(3, None, [Ticks(4), Ticks(4)], false);
}

#[test]
fn two_that_overrule_a_dead_holder_never_both_hold_the_lock() {
    contend(3, None, [Ticks(4 + 2 * SECOND), Ticks(8 + 2 * SECOND)], true);
}

#[test]
#[should_panic(expected = "not what the last holder left")]
fn a_lock_taken_without_acquire_shows_what_an_earlier_holder_left() {
    contend(2, Some(Fault::AcquireExchange), [Ticks(4), Ticks(8)], false);
}

#[test]
#[should_panic(expected = "not what the last holder left")]
fn a_lock_given_back_without_release_shows_what_an_earlier_holder_left() {
    contend(2, Some(Fault::ReleaseExchange), [Ticks(4), Ticks(8)], false);
}

#[test]
fn a_holder_goes_on_to_write_or_is_overruled_but_not_both() {
    explore(3, None, || {
        let lock = Lock::new();
        lock.set_lease(Ticks(SECOND));
        let lock = Arc::new(lock);
        let mut slow = lock.take(|| Ticks(4), Phase::Sampling).unwrap();
        let shared = Arc::clone(&lock);
        let other = thread::spawn(move || shared.take(|| Ticks(8 + SECOND), Phase::Sampling));
        let went_on = lock.advance(&mut slow, Ticks(12 + SECOND), Phase::Following);
        let other = other.join().unwrap();
        assert_eq!(went_on, other.is_err());
        let writing =
            lock.phase(Ticks(12 + SECOND)).is_some_and(|(phase, _)| phase == Phase::Following);
        assert_eq!(writing, went_on);
        // What the overruled one does with its proof has no effect.
        if let Ok(mut other) = other {
            assert!(!lock.advance(&mut slow, Ticks(16 + SECOND), Phase::Following));
            lock.release(slow);
            assert!(lock.advance(&mut other, Ticks(16 + SECOND), Phase::Following), "still held");
        }
    });
}

#[test]
fn a_holder_that_stopped_while_it_wrote_is_reported_and_never_overruled() {
    explore(2, None, || {
        let lock = Arc::new(Lock::new());
        lock.set_lease(Ticks(SECOND));
        let mut held = lock.take(|| Ticks(4), Phase::Sampling).unwrap();
        assert!(lock.advance(&mut held, Ticks(8), Phase::Following));
        let shared = Arc::clone(&lock);
        let other =
            thread::spawn(move || shared.take(|| Ticks(16 + SECOND), Phase::Sampling).err());
        assert_eq!(lock.take(|| Ticks(12), Phase::Sampling).err(), Some(Busy::Held));
        assert_eq!(other.join().unwrap(), Some(Busy::Dead));
    });
}
