//! The system's allocator, which counts what each thread asks of it.
//!
//! # Safety
//!
//! Hands every call on to the system's allocator, whose rules are the caller's.

#![expect(unsafe_code, reason = "an allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// See the module.
pub struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// How often the calling thread has asked for memory or given it back.
pub fn count() -> u64 {
    COUNT.with(Cell::get)
}

fn one_more() {
    COUNT.with(|count| count.set(count.get() + 1));
}

// SAFETY: the system's allocator keeps the rules, and the counting touches no memory of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        one_more();
        // SAFETY: the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        one_more();
        // SAFETY: the caller's.
        unsafe { System.dealloc(pointer, layout) }
    }
}
