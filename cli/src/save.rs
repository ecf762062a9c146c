//! Writes a file whole or not at all: beside its place first, then renamed.
//!
//! Must never touch what is there already before the new content is complete and on the disk.

use crate::machine::words;
use anyhow::{Context, Result, anyhow};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// A file on its way.
pub struct Save {
    file: File,
    beside: PathBuf,
    place: PathBuf,
    finished: bool,
}

impl Save {
    /// Makes the file beside its place, which tells at once whether it can be written.
    pub fn create(place: &Path) -> Result<Self> {
        let remedy = "give --save a file in a folder that you may write to";
        // A link stays: what it names is replaced.
        let place = fs::canonicalize(place).unwrap_or_else(|_| place.to_owned());
        if place.is_dir() {
            return Err(anyhow!("{} is a folder; {remedy}", place.display()));
        }
        // A device or a pipe would be replaced by a plain file, for everybody.
        if place.exists() && !place.is_file() {
            return Err(anyhow!("{} is not a plain file; {remedy}", place.display()));
        }
        let name = place
            .file_name()
            .with_context(|| format!("`{}` names no file; {remedy}", place.display()))?;
        let mut beside = name.to_owned();
        beside.push(format!(".{}.part", std::process::id()));
        let beside = place.with_file_name(beside);
        let file = File::create_new(&beside).map_err(|error| {
            anyhow!("{} cannot be written: {}; {remedy}", place.display(), words(&error))
        })?;
        Ok(Self { file, beside, place, finished: false })
    }

    /// Writes the content and puts the file in its place.
    pub fn finish(mut self, content: &str) -> Result<()> {
        let written = self
            .file
            .write_all(content.as_bytes())
            .and_then(|()| self.file.sync_all())
            .and_then(|()| fs::rename(&self.beside, &self.place));
        written.map_err(|error| {
            anyhow!("{} was not written: {}", self.place.display(), words(&error))
        })?;
        self.finished = true;
        Ok(())
    }
}

impl Drop for Save {
    fn drop(&mut self) {
        if !self.finished {
            // Nothing can be done about a file that cannot be removed.
            let _ = fs::remove_file(&self.beside);
        }
    }
}
