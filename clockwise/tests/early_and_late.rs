//! Reads before `main`, in a thread's last moments, and while the process exits.

#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

mod common;
#[path = "common/early.rs"]
mod early;

use clockwise::{ClockId, Instant, SystemTime};
use common::process::{at_exit, leave, tell};
use std::cell::Cell;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

const CHILD: &str = "CLOCKWISE_TEST_EXITS";

#[test]
fn a_read_before_main_is_right() {
    for (clock, places) in ["MONOTONIC", "REALTIME"].into_iter().zip(&early::READ) {
        let [before, ours, after] = places.each_ref().map(|place| place.load(Relaxed));
        assert_ne!(before, 0, "{clock}: nothing was read before main");
        // The first read is the kernel's own.
        assert!(before <= ours && ours <= after, "{clock}: {before} <= {ours} <= {after}");
    }
    assert!(Instant::now().as_nanos() >= i128::from(early::READ[0][1].load(Relaxed)));
    common::brackets().unwrap();
}

static DESTROYED: AtomicU32 = AtomicU32::new(0);

struct ReadsAtItsEnd(Cell<Option<Instant>>);

impl Drop for ReadsAtItsEnd {
    fn drop(&mut self) {
        let first = self.0.get().unwrap();
        let right = common::brackets().is_ok() && Instant::now() >= first;
        DESTROYED.fetch_add(if right { 1 } else { 1_000 }, Relaxed);
    }
}

thread_local! {
    static LAST: ReadsAtItsEnd = const { ReadsAtItsEnd(Cell::new(None)) };
}

#[test]
fn a_read_in_the_destructor_of_a_thread_is_right() {
    const THREADS: u32 = 50;
    let threads = (0..THREADS)
        .map(|_| std::thread::spawn(|| LAST.with(|last| last.0.set(Some(Instant::now())))));
    // The destructors have run when a thread is joined.
    threads.for_each(|thread| thread.join().unwrap());
    assert_eq!(DESTROYED.load(Relaxed), THREADS);
}

extern "C" fn exits() {
    let later = Instant::now() >= Instant::from_nanos(early::READ[0][1].load(Relaxed));
    let wall = SystemTime::now() > clockwise::UNIX_EPOCH;
    match common::brackets() {
        Ok(()) if later && wall => leave(42),
        Ok(()) => tell("went back at the exit"),
        Err(words) => tell(&words),
    }
    leave(1)
}

#[test]
fn a_read_while_the_process_exits_is_right() {
    if std::env::var_os(CHILD).is_some() {
        at_exit(exits);
        assert!(common::kernel(ClockId::MONOTONIC) > 0);
        std::process::exit(0);
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "a_read_while_the_process_exits_is_right", "--nocapture"]);
    let output = child.env(CHILD, "1").output().unwrap();
    assert_eq!(output.status.code(), Some(42), "{output:?}");
}
