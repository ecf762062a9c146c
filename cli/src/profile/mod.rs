//! How often a program asks for the time, which clock, from where, and what that costs.
//!
//! `calls` is what was counted, whoever counted it: the image (`counted`) or a tracer (`traced`). `resolve` gives addresses their names,
//! `costs` calls their price, `report` is the result as data. Must never measure while the program runs.

pub mod calls;
pub mod costs;
pub mod counted;
pub mod folded;
pub mod report;
pub mod resolve;
#[cfg(test)]
mod tests;
pub mod traced;

use calls::Process;

/// A program that was watched.
#[derive(Debug, Default)]
pub struct Observed {
    /// Its processes, in the order in which they came.
    pub processes: Vec<Process>,
    /// The CPU time of all that were waited for, in nanoseconds.
    pub cpu_ns: Option<u64>,
    /// How long it was watched, in nanoseconds.
    pub wall_ns: u64,
    /// Calls of processes that found no room.
    pub missed: u64,
    /// Who counted: `image` or `tracer`.
    pub counted_by: &'static str,
    /// Whether `clockwise run` would reach it.
    pub is_reached: bool,
    /// Why nothing was counted, if that is known.
    pub nothing: Option<String>,
    /// What else there is to know.
    pub notes: Vec<String>,
}
