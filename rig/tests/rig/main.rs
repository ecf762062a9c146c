//! Our clocks in machines to which everything happens that must not happen to the one that runs the tests.
//!
//! Each guest runs this crate's judge, which reads our clocks between readings of the kernel's and sets the kernel's
//! meanwhile; what it found must be nothing. A law that is broken here is to be broken in `core/tests/sim` first, and
//! then mended.

mod advice;
mod arm;
mod boots;
mod common;
mod events;
mod long;
mod outside;
mod prices;
