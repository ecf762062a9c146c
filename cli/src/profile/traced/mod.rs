//! Counting the calls of programs that no preloaded image reaches: static ones, those that make the calls themselves, and
//! those that run already.
//!
//! [`launch`] starts a program without a vDSO, so that every question for the time is a system call, and has each stop for
//! this process, which notes who asked. [`attach`] has a running process stop where its vDSO's functions begin, until it
//! leaves it as it was.
//!
//! Must never print.

mod answer;
mod attach;
mod book;
mod family;
mod files;
mod frames;
mod launch;
mod memory;
mod plant;
mod proc;
mod target;

use super::calls::Process;
use crate::arch::Function;
use crate::instruments::Instruments;
use crate::launch::End;
pub use attach::{apart, attach};
use clockwise_core::kernel::{Errno, Linux};
pub use launch::launch;
use std::fmt;

/// What was counted.
#[derive(Debug)]
pub struct Counted {
    /// The programs that called, the first one first; and that one in any case.
    pub processes: Vec<Process>,
    /// What has to be known beside it, a sentence each.
    pub remarks: Vec<String>,
    /// How a program that was launched ended.
    pub end: Option<End>,
    /// Whether it was told to, since the time was over.
    pub is_stopped: bool,
}

/// Why nothing can be counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The program cannot be executed.
    Exec(Errno),
    /// Anything else, in a sentence with the remedy.
    Told(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exec(errno) => write!(f, "the program cannot be executed: {errno}"),
            Self::Told(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Refusal {}

/// What was asked: which function, and whether by a system call.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    pub function: Function,
    pub is_system_call: bool,
}

/// For how long was watched, by the kernel's clock: it must be one that a sandbox of this process lets it read.
struct Watch(Instruments);

impl Watch {
    fn new() -> Self {
        let reference = Linux::find();
        Self(Instruments { reference, counter: None, cpu_time: false, preemptions: false })
    }

    fn now_ns(&self) -> u64 {
        self.0.now_ns()
    }
}

/// A sentence that is said once, however often there is reason for it.
#[derive(Debug, Default)]
struct Remarks(Vec<String>);

impl Remarks {
    fn add(&mut self, remark: String) {
        // A program could start any number of others.
        const MOST: usize = 20;
        if self.0.len() < MOST && !self.0.contains(&remark) {
            self.0.push(remark);
        }
    }
}
