//! The image in programs that were never built for it: small ones in C that try one thing each, and real ones from the
//! distribution. Each runs with and without the image, and what it tells must be the same. And the lines of code that
//! `clockwise choose` offers, likewise.
//!
//! Needs gcc for the programs in C. A real program that is not installed is named as not tried, and is a failure where
//! `CLOCKWISE_ALL_PROGRAMS` is set, as `.ci/run` does.

mod faults;
mod languages;
mod lines;
mod loaders;
mod places;
mod profiled;
mod runner;
mod servers;
mod survival;
