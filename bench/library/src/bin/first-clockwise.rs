//! The first read of a process: ours; then, how long until the counter answers, and what the kernel was asked.

#[path = "../first.rs"]
mod first;

use clockwise::{Clock, ClockId, Engine, Errno, Instant, Kernel, Timespec};
use clockwise_core::counter::SharedHardware;
use clockwise_core::kernel::SharedLinux;
use std::cell::Cell;

/// The kernel, counted.
struct Counted(Cell<u64>);

impl Kernel for &Counted {
    fn now(&self, clock: ClockId) -> Result<Timespec, Errno> {
        self.0.set(self.0.get() + 1);
        SharedLinux.now(clock)
    }
}

const PATIENCE_NS: i64 = 1_000_000_000;

fn main() {
    first::tell(Instant::now, |begin| {
        let clock = Clock::monotonic();
        let mut reads = 1u64;
        while !clock.is_fast() && first::monotonic() - begin < PATIENCE_NS {
            std::hint::black_box(Instant::now());
            reads += 1;
        }
        let fast_ns = first::monotonic() - begin;
        let status = clock.status();
        let answers = status.map_or(0, |status| status.kernel_answers);
        let unfit = status.and_then(|status| status.unfit).map(|unfit| unfit.to_string());
        // The process's own clock cannot be counted: this is another one of the same parts.
        let counted = Counted(Cell::new(0));
        let engine = Engine::new(SharedHardware, &counted);
        let _ = std::hint::black_box(engine.now(ClockId::MONOTONIC));
        let asked = counted.0.get();
        format!(
            r#", "fast": {}, "fast_ns": {fast_ns}, "fast_reads": {reads}, "kernel_answers": {answers}, "kernel_reads": {asked}, "unfit": {}"#,
            clock.is_fast(),
            unfit.map_or("null".to_owned(), |reason| format!("{reason:?}")),
        )
    });
}
