//! Writes a file whole or not at all: beside its place first, then renamed.
//!
//! Must never touch what is there already before the new content is complete and on the disk, nor leave
//! anything behind while it is only promised.

use crate::machine::words;
use anyhow::{Context, Result, anyhow};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A file that can be written.
pub struct Save {
    beside: PathBuf,
    place: PathBuf,
}

impl Save {
    /// Tells at once whether the file can be written: minutes of work should not end at a folder that is
    /// not there.
    pub fn promise(place: &Path, flag: &str) -> Result<Self> {
        let remedy = format!("give {flag} a file in a folder that you may write to");
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
        let save = Self { beside: place.with_file_name(beside), place };
        save.try_out().map_err(|error| {
            anyhow!("{} cannot be written: {}; {remedy}", save.place.display(), words(&error))
        })?;
        Ok(save)
    }

    /// A file beside the place can be made, and what is there may be written to.
    fn try_out(&self) -> io::Result<()> {
        if self.place.exists() {
            OpenOptions::new().write(true).open(&self.place)?;
        }
        File::create_new(&self.beside)?;
        fs::remove_file(&self.beside)
    }

    /// Writes the content and puts the file in its place.
    pub fn finish(self, content: &str) -> Result<()> {
        let written = self.write(content);
        if written.is_err() {
            // Nothing can be done about a file that cannot be removed.
            let _ = fs::remove_file(&self.beside);
        }
        written
            .map_err(|error| anyhow!("{} was not written: {}", self.place.display(), words(&error)))
    }

    fn write(&self, content: &str) -> io::Result<()> {
        let mut file = File::create_new(&self.beside)?;
        if let Ok(there) = fs::metadata(&self.place) {
            file.set_permissions(there.permissions())?;
        }
        file.write_all(content.as_bytes())?;
        file.sync_all()?;
        fs::rename(&self.beside, &self.place)
    }
}
