//! Tries things in a child process first: a forbidden counter, a seccomp filter or a missing
//! instruction then kills the child and not the tool.
//!
//! Must run before the tool starts a thread (see `os::in_child`), and must never decide what an
//! outcome means.

use crate::os::{self, End};
use clockwise_core::kernel::Errno;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};

/// How a thing ended that was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It worked.
    Worked,
    /// It gave an error.
    Failed(Errno),
    /// It panicked.
    Panicked,
    /// This signal killed the child.
    Killed(i32),
    /// It did not come back for five seconds.
    Hung,
}

/// A thing to try.
pub type Task<'a> = &'a dyn Fn() -> Result<(), Errno>;

const PATIENCE_MS: i32 = 5_000;
const PANICKED: i32 = -1;

/// Tries each task once, in children: one child for all that come back, one more after each that
/// does not. Where no child can be made they are tried in this process.
pub fn outcomes(tasks: &[Task<'_>]) -> Vec<Outcome> {
    let mut outcomes = Vec::with_capacity(tasks.len());
    while outcomes.len() < tasks.len() {
        let rest = &tasks[outcomes.len()..];
        match in_one_child(rest, &mut outcomes) {
            Ok(()) => {}
            Err(_) => outcomes.extend(rest.iter().map(|task| match task() {
                Ok(()) => Outcome::Worked,
                Err(errno) => Outcome::Failed(errno),
            })),
        }
    }
    outcomes
}

/// Tries `tasks` until one does not come back; adds an outcome for each one tried.
fn in_one_child(tasks: &[Task<'_>], outcomes: &mut Vec<Outcome>) -> Result<(), Errno> {
    let (reading, writing) = os::pipe()?;
    let mut done = 0;
    let child = {
        let writing: OwnedFd = writing;
        os::in_child(|| report(tasks, File::from(writing)))?
        // Here the parent's copy of the writing end is closed, so that the end of the child shows.
    };
    let mut results = File::from(reading);
    let mut hung = false;
    while done < tasks.len() {
        if !os::is_readable(results.as_raw_fd(), PATIENCE_MS) {
            hung = true;
            break;
        }
        let mut result = [0; 4];
        if results.read_exact(&mut result).is_err() {
            break;
        }
        done += 1;
        outcomes.push(match i32::from_le_bytes(result) {
            0 => Outcome::Worked,
            PANICKED => Outcome::Panicked,
            errno => Outcome::Failed(Errno(errno)),
        });
    }
    if done < tasks.len() {
        if hung {
            os::kill(child);
        }
        outcomes.push(match os::wait(child)? {
            _ if hung => Outcome::Hung,
            End::Killed(signal) => Outcome::Killed(signal),
            End::Exited => Outcome::Panicked,
        });
        return Ok(());
    }
    os::wait(child).map(|_| ())
}

/// In the child: tries each task and writes four bytes for it.
fn report(tasks: &[Task<'_>], mut results: File) {
    std::panic::set_hook(Box::new(|_| {}));
    for task in tasks {
        let result = match std::panic::catch_unwind(std::panic::AssertUnwindSafe(task)) {
            Ok(Ok(())) => 0,
            Ok(Err(errno)) => errno.0.max(1),
            Err(_) => PANICKED,
        };
        if results.write_all(&result.to_le_bytes()).is_err() {
            return;
        }
    }
}
