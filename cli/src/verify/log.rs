//! `--log`: a file to which JSON lines are appended, each by one call, so that a crash costs no more than the last.
//!
//! Must never end a verification: a disk that fills up is told once, and tried again with every line.

use crate::machine::words;
use anyhow::{Result, anyhow};
use serde_json::Value;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// The file is brought to the disk after so many lines; a step or a violation, at once.
const LINES_A_SYNC: u32 = 20;

/// The log.
pub struct Log {
    file: File,
    path: PathBuf,
    /// The file does not end with a whole line.
    torn: bool,
    failed: bool,
    lines: u32,
}

impl Log {
    /// Opens it and writes the first line: hours of work should not end at a disk without room.
    ///
    /// # Errors
    /// In a sentence with the remedy.
    pub fn begin(path: &Path, first: &Value) -> Result<Self> {
        let remedy = "give --log a file that you may write to";
        let wrong = |why: &str| anyhow!("{} cannot be written: {why}; {remedy}", path.display());
        if let Ok(there) = path.metadata() {
            let kind = there.file_type();
            if kind.is_dir() || kind.is_fifo() || kind.is_socket() {
                return Err(anyhow!("{} is not a plain file; {remedy}", path.display()));
            }
        }
        let file = OpenOptions::new().append(true).create(true).open(path);
        let file = file.map_err(|error| wrong(&words(&error)))?;
        let torn = is_torn(path).unwrap_or(false);
        let mut log = Self { file, path: path.to_owned(), torn, failed: false, lines: 0 };
        log.append(first).map_err(|error| wrong(&words(&error)))?;
        log.sync();
        Ok(log)
    }

    /// Appends a line; the first time that this fails, a sentence.
    pub fn line(&mut self, value: &Value) -> Option<String> {
        match self.append(value) {
            Ok(()) => {
                self.lines += 1;
                if self.lines >= LINES_A_SYNC {
                    self.sync();
                }
                None
            }
            Err(_) if self.failed => None,
            Err(error) => {
                self.failed = true;
                let (path, why) = (self.path.display(), words(&error));
                Some(format!("{path} was not written: {why}; verification goes on without"))
            }
        }
    }

    /// Whether lines are missing.
    pub fn is_incomplete(&self) -> bool {
        self.failed
    }

    /// Brings what is written to the disk.
    pub fn sync(&mut self) {
        self.lines = 0;
        // A device that cannot be synchronised has no disk behind it.
        let _ = self.file.sync_data();
    }

    fn append(&mut self, value: &Value) -> std::io::Result<()> {
        let start = if self.torn { "\n" } else { "" };
        let line = format!("{start}{value}\n");
        let written = loop {
            match self.file.write(line.as_bytes()) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                written => break written?,
            }
        };
        if written < line.len() {
            self.torn = true;
            return Err(ErrorKind::StorageFull.into());
        }
        self.torn = false;
        Ok(())
    }
}

/// Whether the last line of the file was cut off, by a crash or a full disk.
fn is_torn(path: &Path) -> std::io::Result<bool> {
    let mut file = File::open(path)?;
    if !file.metadata()?.is_file() || file.metadata()?.len() == 0 {
        return Ok(false);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn place(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("clockwise-log-{}-{name}", std::process::id()))
    }

    #[test]
    fn lines_are_appended_and_a_torn_one_is_closed_first() {
        let path = place("torn");
        std::fs::write(&path, "{\"a\":1}\n{\"b\":").unwrap();
        let mut log = Log::begin(&path, &json!({ "c": 2 })).unwrap();
        assert_eq!(log.line(&json!({ "d": 3 })), None);
        drop(log);
        drop(Log::begin(&path, &json!({ "e": 4 })).unwrap());
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(text, "{\"a\":1}\n{\"b\":\n{\"c\":2}\n{\"d\":3}\n{\"e\":4}\n");
    }

    #[test]
    fn a_place_that_cannot_be_written_is_told_before() {
        for (path, why) in [
            ("/nonexistent/a.log", "not there"),
            ("/", "not a plain file"),
            ("/dev/full", "No space left"),
        ] {
            let error = Log::begin(Path::new(path), &json!({})).err().unwrap().to_string();
            assert!(error.contains(why) && error.contains("give --log"), "{error}");
        }
    }

    #[test]
    fn a_disk_that_fills_up_is_told_once() {
        let mut log = Log::begin(Path::new("/dev/null"), &json!({})).unwrap();
        log.file = OpenOptions::new().append(true).open("/dev/full").unwrap();
        let told = log.line(&json!({})).unwrap();
        assert!(told.contains("/dev/null was not written") && told.contains("goes on"), "{told}");
        assert_eq!(log.line(&json!({})), None);
        assert!(log.is_incomplete());
    }
}
