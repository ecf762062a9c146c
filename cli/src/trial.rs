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
    /// The child ended, and nobody says how.
    Lost,
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
    outcomes_within(PATIENCE_MS, tasks)
}

fn outcomes_within(patience_ms: i32, tasks: &[Task<'_>]) -> Vec<Outcome> {
    os::keep_children();
    let mut outcomes = Vec::with_capacity(tasks.len());
    while outcomes.len() < tasks.len() {
        let rest = &tasks[outcomes.len()..];
        match in_one_child(patience_ms, rest) {
            Ok(tried) => outcomes.extend(tried),
            Err(_) => outcomes.extend(rest.iter().map(|task| match task() {
                Ok(()) => Outcome::Worked,
                Err(errno) => Outcome::Failed(errno),
            })),
        }
    }
    outcomes
}

/// Tries `tasks` until one does not come back; an outcome for each one tried. An error if there is
/// no child.
fn in_one_child(patience_ms: i32, tasks: &[Task<'_>]) -> Result<Vec<Outcome>, Errno> {
    let (reading, writing) = os::pipe()?;
    let child = {
        let writing: OwnedFd = writing;
        os::in_child(|| report(tasks, File::from(writing)))?
        // Here the parent's copy of the writing end is closed, so that the end of the child shows.
    };
    let mut results = File::from(reading);
    let mut outcomes = Vec::with_capacity(tasks.len());
    let mut hung = false;
    while outcomes.len() < tasks.len() {
        if !os::is_readable(results.as_raw_fd(), patience_ms) {
            hung = true;
            os::kill(child);
            break;
        }
        let mut result = [0; 4];
        if results.read_exact(&mut result).is_err() {
            break;
        }
        outcomes.push(match i32::from_le_bytes(result) {
            0 => Outcome::Worked,
            PANICKED => Outcome::Panicked,
            errno => Outcome::Failed(Errno(errno)),
        });
    }
    let end = os::wait(child);
    if outcomes.len() < tasks.len() {
        outcomes.push(match end {
            _ if hung => Outcome::Hung,
            Ok(End::Killed(signal)) => Outcome::Killed(signal),
            Ok(End::Exited) | Err(_) => Outcome::Lost,
        });
    }
    Ok(outcomes)
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

#[cfg(test)]
mod tests {
    use super::*;

    const WORKS: Task<'_> = &|| Ok(());

    /// What each of `tasks` gives, with one that works after each.
    fn among_others(patience_ms: i32, tasks: &[Task<'_>]) -> Vec<Outcome> {
        let all: Vec<Task<'_>> = tasks.iter().flat_map(|&task| [task, WORKS]).collect();
        let outcomes = outcomes_within(patience_ms, &all);
        assert_eq!(outcomes.len(), all.len());
        let (odd, even): (Vec<_>, Vec<_>) = outcomes.chunks(2).map(|two| (two[0], two[1])).unzip();
        assert!(even.iter().all(|&outcome| outcome == Outcome::Worked), "{even:?}");
        odd
    }

    #[test]
    fn each_end_of_a_task_is_told_and_those_after_it_are_still_tried() {
        let fails: Task<'_> = &|| Err(Errno::INVAL);
        let fails_without_number: Task<'_> = &|| Err(Errno(0));
        let panics: Task<'_> = &|| panic!("this panic belongs to a test");
        let is_killed: Task<'_> = &|| std::process::abort();
        let exits: Task<'_> = &|| std::process::exit(0);
        let outcomes =
            among_others(60_000, &[WORKS, fails, fails_without_number, panics, is_killed, exits]);
        let expected = [
            Outcome::Worked,
            Outcome::Failed(Errno::INVAL),
            Outcome::Failed(Errno(1)),
            Outcome::Panicked,
            Outcome::Killed(libc::SIGABRT),
            Outcome::Lost,
        ];
        assert_eq!(outcomes, expected);
    }

    #[test]
    fn a_task_that_does_not_come_back_is_given_up() {
        let hangs: Task<'_> = &|| loop {
            std::thread::park();
        };
        assert_eq!(
            among_others(PATIENCE_MS, &[hangs, WORKS, hangs]),
            [Outcome::Hung, Outcome::Worked, Outcome::Hung]
        );
    }

    #[test]
    fn what_a_task_changes_stays_in_the_child() {
        let changed = std::cell::Cell::new(false);
        let changes: Task<'_> = &|| {
            changed.set(true);
            Ok(())
        };
        assert_eq!(outcomes(&[changes]), [Outcome::Worked]);
        assert!(!changed.get());
        assert!(outcomes(&[]).is_empty());
    }
}
