//! No read allocates, nor gives memory back: counted by the program's own allocator.

#[path = "common/allocator.rs"]
mod allocator;
mod common;

use clockwise::{Clock, ClockId, Instant, SystemTime, UNIX_EPOCH, coarse};
use std::hint::black_box;
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: allocator::Counting = allocator::Counting;

/// Every way to read a time.
fn read_all() {
    let start = Instant::now();
    black_box((Instant::now_relaxed(), Instant::now_with_bound(), start.elapsed()));
    let wall = SystemTime::now();
    black_box((SystemTime::now_relaxed(), SystemTime::now_with_bound().utc(), wall.elapsed().ok()));
    black_box((clockwise::recent(), clockwise::recent_system_time()));
    black_box((coarse::monotonic(), coarse::realtime()));
    black_box((start + Duration::from_secs(1), wall.duration_since(UNIX_EPOCH).ok()));
    black_box((start.to_std(), std::time::SystemTime::try_from(wall).ok()));
    black_box(Instant::from(std::time::Instant::now()));
    for id in ClockId::ALL.into_iter().chain([-1, 10, 24, i32::MAX].map(ClockId)) {
        let clock = Clock::new(id);
        black_box((clock.now().ok(), clock.now_relaxed().ok(), clock.timespec().ok()));
        black_box((clock.now_with_bound().ok(), clock.status(), clock.is_fast()));
        black_box(clock.refresh().ok());
    }
}

#[test]
fn no_read_allocates() {
    let none = allocator::count();
    drop(black_box(Box::new(1)));
    assert_eq!(allocator::count(), none + 2, "the allocator counts");

    // The first reads of the process, then lines, refreshes, and readings of an idle clock.
    for pause in [0, 0, 2, 0, 5, 50, 0, 1] {
        let before = allocator::count();
        read_all();
        assert_eq!(allocator::count(), before, "before the pause of {pause} ms");
        std::thread::sleep(Duration::from_millis(pause));
    }
    let before = allocator::count();
    for _ in 0..20_000 {
        black_box((Instant::now(), SystemTime::now()));
    }
    assert_eq!(allocator::count(), before);
}
