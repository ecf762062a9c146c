//! The files that the doctor reads, of this machine or of a recording of another.
//!
//! Must never hang, follow a recording out of its folder, or read more of a file than it has room for: a recording comes
//! from anywhere.

use crate::machine::{Fact, words};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// More than the largest of them is on a machine of a thousand processors.
const BYTES_MAX: u64 = 4 << 20;
/// What a fact shows of a file.
const SHOWN_MAX: usize = 200;

/// A folder that stands for `/`.
pub struct Tree {
    root: PathBuf,
    is_live: bool,
}

impl Tree {
    /// This machine's own.
    pub fn live() -> Self {
        Self { root: PathBuf::from("/"), is_live: true }
    }

    /// A recording.
    ///
    /// # Errors
    /// If there is no such folder.
    pub fn at(folder: &Path) -> io::Result<Self> {
        let root = fs::canonicalize(folder)?;
        fs::read_dir(&root)?;
        Ok(Self { root, is_live: false })
    }

    /// Whether it is this machine's.
    pub fn is_live(&self) -> bool {
        self.is_live
    }

    /// A file's bytes, as far as there is room.
    pub fn bytes(&self, path: &str) -> io::Result<Vec<u8>> {
        let mut path = self.root.join(path.trim_start_matches('/'));
        if !self.is_live {
            path = fs::canonicalize(path)?;
            if !path.starts_with(&self.root) {
                return Err(io::Error::other("a link that leads out of the recording"));
            }
        }
        let file = open(&path)?;
        let mut bytes = Vec::new();
        file.take(BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// A file's text, whatever it is.
    pub fn text(&self, path: &str) -> io::Result<String> {
        Ok(String::from_utf8_lossy(&self.bytes(path)?).into_owned())
    }

    /// A small file as a fact.
    pub fn fact(&self, path: &str) -> Fact {
        match self.text(path) {
            Ok(text) => Fact::new(shown(&text), path),
            Err(error) => Fact::missing(path, words(&error)),
        }
    }

    /// A small file's text, trimmed, if it can be read and is not empty.
    pub fn word(&self, path: &str) -> Option<String> {
        let text = self.text(path).ok()?;
        Some(shown(&text)).filter(|text| !text.is_empty())
    }
}

/// A plain file, or one that the kernel makes up: a pipe would never end.
fn open(path: &Path) -> io::Result<File> {
    // To open a device may do something already.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("not a plain file"));
    }
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("not a plain file")) }
}

/// What a person is shown of a text: printable, on one line, not long.
pub fn shown(text: &str) -> String {
    let is_plain = |c: char| if c.is_control() { ' ' } else { c };
    let text: String = text.trim().chars().take(SHOWN_MAX).map(is_plain).collect();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_one_line_and_short() {
        assert_eq!(shown(" tsc \n hpet\0\u{1b}[31m \n"), "tsc hpet [31m");
        assert_eq!(shown(&"x".repeat(5_000)).len(), SHOWN_MAX);
    }

    #[test]
    fn a_recording_that_is_not_there_is_an_error() {
        assert!(Tree::at(Path::new("/nonexistent")).is_err());
        assert!(Tree::at(Path::new("/proc/self/status")).is_err(), "no folder");
    }

    #[test]
    fn files_of_this_machine_are_read() {
        let tree = Tree::live();
        assert!(tree.word("/proc/self/status").is_some_and(|text| text.starts_with("Name:")));
        assert_eq!(tree.fact("/nonexistent").reason.as_deref(), Some("not there"));
        assert!(tree.bytes("/proc").is_err(), "a folder");
        assert!(tree.bytes("/dev/zero").is_err(), "a device");
    }
}
