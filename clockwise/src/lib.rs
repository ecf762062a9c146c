//! The kernel's time at the price of reading a counter.

#![deny(missing_docs)]

mod global;
mod instant;

pub use instant::Instant;
