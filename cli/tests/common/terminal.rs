//! A terminal of a given width for the tool to print on.
//!
//! # Safety
//!
//! `openpty` fills two descriptors, which are then owned here.

#![expect(unsafe_code, reason = "std opens no terminals")]

use super::Ran;
use std::fs::File;
use std::io::Read;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

/// Both ends of a new terminal: the one to look at, the one to print on.
fn open(columns: u16) -> (File, OwnedFd) {
    let size = libc::winsize { ws_row: 50, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    let (mut ours, mut theirs) = (-1, -1);
    let (no_name, no_modes) = (std::ptr::null_mut(), std::ptr::null());
    // SAFETY: fills two integers, reads one size, and takes null for the name and the modes.
    let result = unsafe {
        libc::openpty(&raw mut ours, &raw mut theirs, no_name, no_modes, &raw const size)
    };
    assert_eq!(result, 0, "a terminal can be had: {}", std::io::Error::last_os_error());
    // SAFETY: a fresh descriptor that nobody else owns.
    let ours = unsafe { File::from_raw_fd(ours) };
    // SAFETY: as above.
    let theirs = unsafe { OwnedFd::from_raw_fd(theirs) };
    (ours, theirs)
}

/// Everything that is printed until the last process lets go of the terminal.
fn read(mut terminal: File) -> String {
    let mut bytes = Vec::new();
    // The end shows as an error here, after all that was printed.
    let _ = terminal.read_to_end(&mut bytes);
    String::from_utf8(bytes).expect("UTF-8 was printed").replace("\r\n", "\n")
}

/// Runs a command whose standard output and error are two terminals of this many columns.
pub fn run_on_terminals(mut command: Command, columns: u16) -> Ran {
    command.env("TERM", "xterm").env_remove("CLICOLOR").env_remove("COLUMNS");
    let (out, out_theirs) = open(columns);
    let (err, err_theirs) = open(columns);
    command.stdout(Stdio::from(out_theirs)).stderr(Stdio::from(err_theirs));
    let mut child = command.spawn().expect("the tool starts");
    // It holds the other ends.
    drop(command);
    let err = std::thread::spawn(move || read(err));
    let stdout = read(out);
    let stderr = err.join().expect("the reader ends");
    let status = child.wait().expect("the tool ends");
    Ran { code: status.code(), signal: status.signal(), stdout, stderr }
}
