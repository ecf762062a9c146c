//! The initramfs: a cpio archive ("newc"), as the kernel unpacks it.

use std::collections::BTreeSet;
use std::fs;
use std::io::Result;
use std::path::Path;

/// An archive that grows.
#[derive(Default)]
pub struct Archive {
    bytes: Vec<u8>,
    known: BTreeSet<String>,
}

const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;

impl Archive {
    /// A folder and those above it.
    pub fn folder(&mut self, path: &str) {
        let mut above = String::new();
        for part in path.split('/').filter(|part| !part.is_empty()) {
            if !above.is_empty() {
                above.push('/');
            }
            above.push_str(part);
            if self.known.insert(above.clone()) {
                self.entry(&above, FOLDER, &[]);
            }
        }
    }

    /// A file that can be executed, unless one of this name is there.
    pub fn file(&mut self, path: &str, content: &[u8]) {
        let path = path.trim_start_matches('/');
        if let Some((folder, _)) = path.rsplit_once('/') {
            self.folder(folder);
        }
        if self.known.insert(path.to_owned()) {
            self.entry(path, PROGRAM, content);
        }
    }

    /// A file of the host.
    ///
    /// # Errors
    /// The host's.
    pub fn copy(&mut self, from: &Path, path: &str) -> Result<()> {
        self.file(path, &fs::read(from)?);
        Ok(())
    }

    /// The archive, closed.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn entry(&mut self, name: &str, mode: u32, content: &[u8]) {
        let number = self.known.len() as u32;
        let (size, length) = (content.len() as u32, name.len() as u32 + 1);
        // Inode, mode, owner, group, links, time, size, four numbers of devices, length of the name, no checksum.
        let fields = [number, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, length, 0];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08X}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.align();
        self.bytes.extend_from_slice(content);
        self.align();
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_entry_is_aligned_and_each_folder_comes_once_before_its_files() {
        let mut archive = Archive::default();
        archive.file("/a/b/c", b"12345");
        archive.file("a/b/d", b"");
        archive.file("a/b/d", b"again");
        let bytes = archive.finish();
        assert_eq!(bytes.len() % 4, 0);
        let (mut names, mut at) = (Vec::new(), 0);
        while at < bytes.len() {
            assert_eq!(&bytes[at..at + 6], b"070701");
            let field = |index: usize| {
                let digits = &bytes[at + 6 + 8 * index..at + 14 + 8 * index];
                usize::from_str_radix(str::from_utf8(digits).unwrap(), 16).unwrap()
            };
            let (size, length) = (field(6), field(11));
            let name = &bytes[at + 110..at + 110 + length - 1];
            names.push(format!("{} {size}", str::from_utf8(name).unwrap()));
            at = (at + 110 + length).next_multiple_of(4) + size.next_multiple_of(4);
        }
        assert_eq!(names, ["a 0", "a/b 0", "a/b/c 5", "a/b/d 0", "TRAILER!!! 0"]);
    }
}
