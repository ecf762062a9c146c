//! What programs ask of the clocks, counted by a tracer: in programs that know how often they ask.
//!
//! Needs gcc. What else is not installed (musl-gcc, go) is named as not tried, and is a failure where
//! `CLOCKWISE_ALL_PROGRAMS` is set, as `.ci/run` does.

#[path = "../common/mod.rs"]
#[expect(dead_code, reason = "what the other tests need")]
mod common;

mod attach;
mod counts;
mod harm;
mod refusals;
mod support;
