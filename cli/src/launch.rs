//! Starts a program in this process's place, or as its child: then this process is a shadow that is stopped, goes on
//! and ends as the child does.
//!
//! Must never change anything that the program could see but `LD_PRELOAD`. The process must have one thread.

use crate::cache;
use crate::os::launch::{
    self, Change, Signals, Started, c_path, change, environment, exec, send, stop_by,
};
use crate::os::{in_child, keep_children, pipe};
use clockwise_core::kernel::{ClockId, Errno, System};
use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const PRELOAD: &[u8] = b"LD_PRELOAD=";

/// A program that is ready to be started.
pub struct Launch {
    path: CString,
    args: Vec<CString>,
    environment: Vec<CString>,
    started: Started,
}

/// How a program ended that was waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With this status.
    Exited(i32),
    /// By this signal.
    Killed(i32),
}

/// A program that was watched to its end.
#[derive(Clone, Copy, Debug)]
pub struct Watched {
    /// How it ended.
    pub end: End,
    /// How long it was there, in nanoseconds.
    pub wall_ns: u64,
    /// Whether it was told to end here.
    pub is_stopped: bool,
}

impl Launch {
    /// The program `path`, called as `args` says, in the environment as it is. `started` is how this process was.
    ///
    /// # Errors
    /// `EINVAL` for what has a zero in it, which no command line has.
    pub fn new(path: &Path, args: &[OsString], started: Started) -> Result<Self, Errno> {
        let c_string = |arg: &OsString| CString::new(arg.as_bytes()).map_err(|_| Errno::INVAL);
        let args = args.iter().map(c_string).collect::<Result<_, _>>()?;
        Ok(Self { path: c_path(path)?, args, environment: environment(), started })
    }

    /// What is preloaded already.
    pub fn preloaded(&self) -> &[u8] {
        // The loader goes by the last.
        let mut entries = self.environment.iter().rev();
        entries.find_map(|entry| entry.as_bytes().strip_prefix(PRELOAD)).unwrap_or_default()
    }

    /// Adds an image, an absolute path, to what is preloaded.
    ///
    /// It comes last: a library that is there already and defines the same functions (a faked time) keeps its say, and
    /// finds the image where it asks for the next; AddressSanitizer insists on being first; an allocator that reads
    /// the clock is served in either order, since the image calls nothing. An image that another run has put there is
    /// replaced: the inner run decides.
    pub fn preload(&mut self, image: &Path) -> Result<(), Errno> {
        let entry = [PRELOAD, &with_image(self.preloaded(), image)].concat();
        let entry = CString::new(entry).map_err(|_| Errno::INVAL)?;
        self.environment.retain(|entry| !entry.as_bytes().starts_with(PRELOAD));
        self.environment.push(entry);
        Ok(())
    }

    /// Becomes the program. Comes back only where the system refuses.
    pub fn replace(&self) -> Errno {
        self.started.restore();
        let errno = exec(&self.path, &self.args, &self.environment);
        if errno.0 != libc::ENOEXEC {
            return errno;
        }
        // A script without a first line that names an interpreter: what `execvp` and shells do.
        let shell = c"/bin/sh".to_owned();
        let args = [&shell, &self.path].into_iter().chain(self.args.iter().skip(1));
        let args: Vec<CString> = args.cloned().collect();
        exec(&shell, &args, &self.environment)
    }

    /// Starts the program as a child, waits for it, and does meanwhile as it does. Why the system refuses, otherwise.
    pub fn watch(&self) -> Result<End, Errno> {
        self.watch_for(None).map(|watched| watched.end)
    }

    /// The same; a program that still runs after so many nanoseconds is told to end.
    pub fn watch_for(&self, window_ns: Option<u64>) -> Result<Watched, Errno> {
        keep_children();
        // From here on nothing is lost: what comes early waits.
        let signals = Signals::hold();
        let (refusal, refused) = pipe()?;
        let mut refused = Some(File::from(refused));
        let begun_ns = now_ns();
        let child = in_child(|| {
            let errno = self.replace();
            if let Some(mut pipe) = refused.take() {
                // The other end waits for it.
                let _ = pipe.write_all(&errno.0.to_le_bytes());
            }
        })?;
        drop(refused);
        let mut errno = [0; 4];
        // It ends without a word when the program begins.
        let refused = File::from(refusal).read_exact(&mut errno).is_ok();
        let mut stop = window_ns.map(|window_ns| Stop {
            signals: &[libc::SIGTERM, libc::SIGKILL],
            at_ns: begun_ns.saturating_add(window_ns),
        });
        let end = shadow(child, &signals, stop.as_mut());
        let is_stopped = stop.is_some_and(|stop| stop.signals.len() < 2);
        let wall_ns = now_ns().saturating_sub(begun_ns);
        if refused {
            return Err(Errno(i32::from_le_bytes(errno)));
        }
        Ok(Watched { end: end?, wall_ns, is_stopped })
    }
}

/// How long a program has to end after it was told to.
const GRACE_NS: u64 = 5_000_000_000;

/// How a program is ended that lasts too long.
#[derive(Debug)]
pub struct Stop {
    /// One after the other.
    signals: &'static [i32],
    /// When the next is due.
    at_ns: u64,
}

impl Stop {
    /// Sends what is due, and tells how long it is until the next; `None` if there is no next.
    fn press(&mut self, child: i32) -> Option<u64> {
        let now_ns = now_ns();
        if let [signal, rest @ ..] = self.signals
            && now_ns >= self.at_ns
        {
            send(child, *signal);
            (self.signals, self.at_ns) = (rest, now_ns.saturating_add(GRACE_NS));
        }
        (!self.signals.is_empty()).then(|| self.at_ns.saturating_sub(now_ns))
    }
}

/// MONOTONIC, by a way that no process is forbidden.
fn now_ns() -> u64 {
    let now = System.clock_gettime(ClockId::MONOTONIC);
    now.ok().and_then(|time| u64::try_from(time.nanos()).ok()).unwrap_or(0)
}

/// Does as the child does until it ends, and hands on what is sent to this process alone.
pub fn shadow(child: i32, signals: &Signals, mut stop: Option<&mut Stop>) -> Result<End, Errno> {
    loop {
        // Asked before waiting: the child may have ended already.
        while let Some(change) = change(child)? {
            match change {
                Change::Exited(status) => return Ok(End::Exited(status)),
                Change::Killed(signal) => return Ok(End::Killed(signal)),
                Change::Stopped(signal) => {
                    stop_by(signal);
                    // Whoever let this process go on meant the program.
                    send(child, libc::SIGCONT);
                }
            }
        }
        let arrived = match stop.as_deref_mut().and_then(|stop| stop.press(child)) {
            None => signals.next(),
            Some(left_ns) => match signals.next_within(left_ns) {
                Some(arrived) => arrived,
                None => continue,
            },
        };
        // What a terminal sends, the child has got too: it is in the same group.
        if !arrived.by_kernel && arrived.signal != libc::SIGCHLD {
            send(child, arrived.signal);
        }
    }
}

/// What `LD_PRELOAD` has had, and the image; instead of another one from the same cache.
pub fn with_image(preloaded: &[u8], image: &Path) -> Vec<u8> {
    let others = preloaded.split(|byte| matches!(byte, b' ' | b':'));
    let folder = image.parent().unwrap_or_else(|| Path::new("/"));
    let others = others.filter(|path| !path.is_empty() && !cache::is_image(path, folder));
    let all: Vec<&[u8]> = others.chain([image.as_os_str().as_bytes()]).collect();
    all.join(&b':')
}

/// Ends this process as the program ended.
pub fn end_as(end: End) -> i32 {
    match end {
        End::Exited(status) => status,
        End::Killed(signal) => launch::end_by(signal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_comes_after_what_is_preloaded_already_and_replaces_another() {
        let image = Path::new("/c/clockwise/b.so");
        let with = |before: &str| String::from_utf8(with_image(before.as_bytes(), image)).unwrap();
        assert_eq!(with(""), "/c/clockwise/b.so");
        assert_eq!(with("libfaketime.so.1"), "libfaketime.so.1:/c/clockwise/b.so");
        assert_eq!(with("/a.so /b.so:"), "/a.so:/b.so:/c/clockwise/b.so");
        assert_eq!(with("/c/clockwise/a.so:/x.so"), "/x.so:/c/clockwise/b.so");
        assert_eq!(with("/c/other/a.so"), "/c/other/a.so:/c/clockwise/b.so");
    }
}
