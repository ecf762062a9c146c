//! [`Word`] and [`fence`] as loom explores them, with a [`Fault`] to order: what the code owes to each of its
//! orderings is seen when the real code runs without it.

extern crate std;

use core::sync::atomic::Ordering;
use loom::sync::atomic::{self, AtomicU64};
use std::cell::Cell;
use std::thread_local;

/// Which ordering is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// All acquire fences: the readers'.
    AcquireFence,
    /// All release fences: the writer's.
    ReleaseFence,
    /// The load-acquires.
    AcquireLoad,
    /// One of two store-releases in turn: a `put` has two.
    ReleaseStore(u32),
    /// The acquire half of the exchanges.
    AcquireExchange,
    /// The release half of the exchanges.
    ReleaseExchange,
}

thread_local! {
    // Loom's threads all run on that of the test.
    static FAULT: Cell<Option<Fault>> = const { Cell::new(None) };
    static STORES: Cell<u32> = const { Cell::new(0) };
}

/// From here on the thread's words have that fault, and no other.
pub(crate) fn set_fault(fault: Option<Fault>) {
    FAULT.set(fault);
    STORES.set(0);
}

fn has(fault: Fault) -> bool {
    FAULT.get() == Some(fault)
}

pub(crate) fn fence(order: Ordering) {
    let left_out = match order {
        Ordering::Acquire => has(Fault::AcquireFence),
        _ => has(Fault::ReleaseFence),
    };
    if !left_out {
        atomic::fence(order);
    }
}

/// The methods are those of `AtomicU64`.
#[derive(Debug)]
pub(crate) struct Word(AtomicU64);

impl Word {
    pub(crate) fn new(value: u64) -> Self {
        Self(AtomicU64::new(value))
    }

    pub(crate) fn load(&self, order: Ordering) -> u64 {
        let left_out = order == Ordering::Acquire && has(Fault::AcquireLoad);
        self.0.load(if left_out { Ordering::Relaxed } else { order })
    }

    pub(crate) fn store(&self, value: u64, order: Ordering) {
        let mut left_out = false;
        if order == Ordering::Release {
            let store = STORES.replace(STORES.get() + 1);
            left_out = has(Fault::ReleaseStore(store % 2));
        }
        self.0.store(value, if left_out { Ordering::Relaxed } else { order });
    }

    pub(crate) fn compare_exchange(
        &self,
        old: u64,
        new: u64,
        order: Ordering,
        failed: Ordering,
    ) -> Result<u64, u64> {
        let acquire = matches!(order, Ordering::Acquire | Ordering::AcqRel);
        let release = matches!(order, Ordering::Release | Ordering::AcqRel);
        let order = match (
            acquire && !has(Fault::AcquireExchange),
            release && !has(Fault::ReleaseExchange),
        ) {
            (true, true) => Ordering::AcqRel,
            (true, false) => Ordering::Acquire,
            (false, true) => Ordering::Release,
            (false, false) => Ordering::Relaxed,
        };
        self.0.compare_exchange(old, new, order, failed)
    }
}
