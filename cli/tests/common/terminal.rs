//! A terminal of a given width for the tool to print on.
//!
//! # Safety
//!
//! The calls take integers and local variables; the descriptors that they give are then owned here.

#![expect(unsafe_code, reason = "std opens no terminals")]

use super::Ran;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

/// Both ends of a new terminal: the one to look at, the one to print on. Children that other tests start at the same
/// time inherit neither: they would keep it open.
fn open(columns: u16) -> (File, OwnedFd) {
    let checked = |result: i32| {
        let error = std::io::Error::last_os_error();
        assert!(result >= 0, "a terminal can be had: {error}");
        result
    };
    let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
    // SAFETY: takes and gives integers.
    let ours = checked(unsafe { libc::posix_openpt(flags) });
    // SAFETY: takes integers; the descriptor is open.
    checked(unsafe { libc::unlockpt(ours) });
    // SAFETY: as above.
    let theirs = checked(unsafe { libc::ioctl(ours, libc::TIOCGPTPEER, flags) });
    // SAFETY: a fresh descriptor that nobody else owns.
    let ours = unsafe { File::from_raw_fd(ours) };
    // SAFETY: as above.
    let theirs = unsafe { OwnedFd::from_raw_fd(theirs) };
    resize(&ours, 50, columns);
    (ours, theirs)
}

fn resize(terminal: &File, rows: u16, columns: u16) {
    let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: reads one size; the descriptor is open.
    let result = unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
    assert_eq!(result, 0, "the terminal has a size");
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

/// A session whose controlling terminal is ours to look at and to type on.
pub struct Session {
    terminal: File,
    child: std::process::Child,
    seen: String,
}

impl Session {
    /// Starts the leader of a session.
    pub fn start(mut command: Command) -> Self {
        let (terminal, theirs) = open(100);
        command.env("TERM", "dumb").stdin(theirs.try_clone().unwrap());
        command.stdout(theirs.try_clone().unwrap()).stderr(theirs);
        let lead = || {
            for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT] {
                // SAFETY: no handler is installed. A parent in the background may have them ignored.
                unsafe { libc::signal(signal, libc::SIG_DFL) };
            }
            // SAFETY: takes nothing and gives an integer.
            let session = unsafe { libc::setsid() };
            // SAFETY: takes integers; descriptor 0 is the terminal.
            let owned = unsafe { libc::ioctl(0, libc::TIOCSCTTY, 0) };
            if session < 0 || owned < 0 {
                return Err(std::io::Error::last_os_error());
            }
            Ok(())
        };
        // SAFETY: the hook makes system calls only.
        unsafe { std::os::unix::process::CommandExt::pre_exec(&mut command, lead) };
        let child = command.spawn().expect("the session starts");
        // It holds the other ends.
        drop(command);
        Self { terminal, child, seen: String::new() }
    }

    /// Waits until `text` is printed. Gives what was printed before it, since the last call.
    #[track_caller]
    pub fn expect(&mut self, text: &str) -> String {
        loop {
            if let Some(at) = self.seen.find(text) {
                let rest = self.seen.split_off(at + text.len());
                let mut before = std::mem::replace(&mut self.seen, rest);
                before.truncate(at);
                return before;
            }
            let mut bytes = [0; 4096];
            match self.terminal.read(&mut bytes) {
                Ok(size) if size > 0 => self.seen += &String::from_utf8_lossy(&bytes[..size]),
                _ => panic!("`{text}` was not printed, but: {}", self.seen),
            }
        }
    }

    /// Types.
    pub fn write(&mut self, keys: &str) {
        std::io::Write::write_all(&mut self.terminal, keys.as_bytes()).expect("it can be typed");
    }

    /// Gives the terminal another size.
    pub fn resize(&self, rows: u16, columns: u16) {
        resize(&self.terminal, rows, columns);
    }

    /// Waits for the leader to end, and tells how it did.
    pub fn end(mut self) -> std::process::ExitStatus {
        read(self.terminal);
        self.child.wait().expect("the session ends")
    }

    /// Takes the terminal away, and waits for the leader to end.
    pub fn hang_up(self) {
        let Self { terminal, mut child, .. } = self;
        drop(terminal);
        child.wait().expect("the session ends");
    }
}
