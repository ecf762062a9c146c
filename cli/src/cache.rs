//! The cache: a folder of the user's own, in which the configured image lies for programs to load.
//!
//! What lies there is executed by every program that is started with it. Must never lay or use a file in a folder that
//! somebody else can write to, nor use one that is not exactly ours.

use crate::image::IMAGE;
use crate::machine::words;
use crate::os::launch::{c_path, lock, mount, refuse_sizes, reserve, user};
use clockwise_core::settings::{Choice, SettingsError, configure};
use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Why there is no image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unlaid {
    /// What is there is not ours: nothing may be started with it.
    Refused(String),
    /// There is no place for it.
    Unable(String),
}

impl fmt::Display for Unlaid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Refused(why) | Self::Unable(why)) = self;
        f.write_str(why)
    }
}

impl std::error::Error for Unlaid {}

const ANOTHER: &str = "set XDG_CACHE_HOME to a folder of your own";

/// Lays the image with these settings, if it does not lie there already. Its absolute path.
///
/// # Errors
/// In one sentence, with the remedy.
pub fn lay(choice: &Choice<'_>) -> Result<PathBuf, Unlaid> {
    let folder = Folder::find()?;
    folder.lay(&configured(IMAGE, choice)?)
}

/// Where an image lies, or would.
#[derive(Debug)]
pub struct Place {
    /// Its absolute path.
    pub path: PathBuf,
    /// Whether it lies there.
    pub is_there: bool,
}

/// Where [`lay`] would lay the image; makes the folder, to see whether it can be made.
///
/// # Errors
/// As for [`lay`].
pub fn place(choice: &Choice<'_>) -> Result<Place, Unlaid> {
    Folder::find()?.place(&configured(IMAGE, choice)?)
}

/// An image with these settings.
fn configured(image: &[u8], choice: &Choice<'_>) -> Result<Vec<u8>, Unlaid> {
    if image.is_empty() {
        let why = "this build has no image: there is none for this processor or system, and programs can only start \
                   with the kernel's clock";
        return Err(Unlaid::Unable(why.to_owned()));
    }
    let mut image = image.to_vec();
    configure(&mut image, choice).map_err(|error| match error {
        SettingsError::Path => {
            Unlaid::Unable(format!("the path of the cache is too long; {ANOTHER}"))
        }
        SettingsError::Records(_) => Unlaid::Refused(error.to_string()),
    })?;
    Ok(image)
}

/// The folder. It is the caller's, and only the caller can write to it.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// The folder that the environment names, made if it is missing; one of the user's own in /tmp or /var/tmp where
    /// the environment names none, or one whose path cannot stand in `LD_PRELOAD`.
    ///
    /// # Errors
    /// As for [`lay`].
    pub fn find() -> Result<Self, Unlaid> {
        let absolute = |name| {
            let path = PathBuf::from(std::env::var_os(name)?);
            path.is_absolute().then_some(path)
        };
        // A `sudo` that keeps HOME means another user's.
        let is_own = |home: &PathBuf| fs::metadata(home).is_ok_and(|home| home.uid() == user().2);
        let home = || absolute("HOME").filter(is_own).map(|home| home.join(".cache"));
        let cache = absolute("XDG_CACHE_HOME").or_else(home);
        let resolved = |path: &PathBuf| fs::canonicalize(path).unwrap_or_else(|_| path.clone());
        if let Some(cache) = cache.filter(|cache| is_loadable(&resolved(cache))) {
            return Self::at(&cache, "clockwise");
        }
        let own = format!("clockwise-{}", user().2);
        // Of two failures the first is told: it is of the place that people look at.
        Self::at("/tmp".as_ref(), &own)
            .or_else(|why| Self::at("/var/tmp".as_ref(), &own).map_err(|_| why))
    }

    /// The folder `name` in `place`, made if it is missing.
    fn at(place: &Path, name: &str) -> Result<Self, Unlaid> {
        let unable = |what: &Path, error: &io::Error| {
            Unlaid::Unable(format!(
                "the cache {} cannot be used: {}; {ANOTHER}",
                what.display(),
                words(error)
            ))
        };
        // Before anything is made: in somebody else's home it would be in the way of its owner.
        if let Some(there) = place.ancestors().find(|folder| folder.exists()) {
            check_way(&fs::canonicalize(there).map_err(|error| unable(there, &error))?)?;
        }
        let mut make = DirBuilder::new();
        make.mode(0o700).recursive(true);
        make.create(place).map_err(|error| unable(place, &error))?;
        // The way is followed once and for all: nobody can lead it elsewhere later.
        let place = fs::canonicalize(place).map_err(|error| unable(place, &error))?;
        check_way(&place)?;
        let folder = place.join(name);
        match make.recursive(false).create(&folder) {
            // Whatever mask this process has; a folder that was there is as its user wants it.
            Ok(()) => fs::set_permissions(&folder, Permissions::from_mode(0o700))
                .map_err(|error| unable(&folder, &error))?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(unable(&folder, &error)),
        }
        let there = fs::symlink_metadata(&folder).map_err(|error| unable(&folder, &error))?;
        let fault = if there.is_symlink() {
            "is a symbolic link"
        } else if !there.is_dir() {
            "is not a folder"
        } else if there.uid() != user().2 {
            "belongs to somebody else"
        } else if there.mode() & 0o022 != 0 {
            "can be written to by others"
        } else {
            ""
        };
        if !fault.is_empty() {
            let folder = folder.display();
            return Err(Unlaid::Refused(format!(
                "the cache {folder} {fault}, so what lies there is not to be trusted: remove it, or {ANOTHER}"
            )));
        }
        if !is_loadable(&folder) {
            let folder = folder.display();
            return Err(Unlaid::Unable(format!(
                "the cache {folder} cannot stand in LD_PRELOAD, which ends a path at a space or a colon; {ANOTHER}"
            )));
        }
        let mounted = c_path(&folder).and_then(|path| mount(&path)).unwrap_or_default();
        if mounted.noexec {
            let folder = folder.display();
            return Err(Unlaid::Unable(format!(
                "the cache {folder} is mounted noexec, so no program can load from it; {ANOTHER} where \
                 execution is allowed"
            )));
        }
        Ok(Self(folder))
    }

    /// Where the image has its place; it is not used if something else is there.
    fn place(&self, image: &[u8]) -> Result<Place, Unlaid> {
        let version = env!("CARGO_PKG_VERSION");
        let path = self.0.join(format!("clockwise-{version}-{:016x}.so", hash(image)));
        match is_ours(&path, image) {
            Ok(is_there) => Ok(Place { path, is_there }),
            Err(fault) => {
                let path = path.display();
                Err(Unlaid::Refused(format!(
                    "{path} {fault}, so it is not loaded: remove it, and it is laid anew"
                )))
            }
        }
    }

    fn lay(&self, image: &[u8]) -> Result<PathBuf, Unlaid> {
        let place = self.place(image)?;
        if !place.is_there {
            self.write(&place.path, image)?;
        }
        Ok(place.path)
    }

    /// Writes a file beside its place and renames it: whoever looks sees all of it or nothing.
    fn write(&self, path: &Path, content: &[u8]) -> Result<(), Unlaid> {
        refuse_sizes();
        let (mut file, beside) = self.create("part", 0o700)?;
        let written = file
            .write_all(content)
            // Once in the life of a version: a file cut short by a crash would be refused for ever.
            .and_then(|()| file.sync_all())
            .and_then(|()| fs::rename(&beside, path));
        written.map_err(|error| {
            // Nothing can be done about a file that cannot be removed.
            let _ = fs::remove_file(&beside);
            self.unwritable(&error)
        })
    }

    /// A new file of this process alone, named by its number and `kind`.
    fn create(&self, kind: &str, mode: u32) -> Result<(File, PathBuf), Unlaid> {
        let mut tries = 0;
        loop {
            let path = self.0.join(format!("run-{}-{tries}.{kind}", std::process::id()));
            let mut options = OpenOptions::new();
            options.read(true).write(true).create_new(true).mode(mode);
            match options.open(&path) {
                Ok(file) => {
                    // Whatever mask this process has.
                    let all = file.set_permissions(Permissions::from_mode(mode));
                    return all.map(|()| (file, path)).map_err(|error| self.unwritable(&error));
                }
                // Of a process that had our number and was killed.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < 100 => {
                    tries += 1;
                }
                Err(error) => return Err(self.unwritable(&error)),
            }
        }
    }

    fn unwritable(&self, error: &io::Error) -> Unlaid {
        let folder = self.0.display();
        let (why, remedy) = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                ("its disk is full".to_owned(), format!("make room, or {ANOTHER} elsewhere"))
            }
            io::ErrorKind::ReadOnlyFilesystem => ("it is read-only".to_owned(), ANOTHER.to_owned()),
            _ => (words(error), ANOTHER.to_owned()),
        };
        Unlaid::Unable(format!("the cache {folder} cannot be written to: {why}; {remedy}"))
    }
}

/// Who owns a folder on the way to the cache, or may write to it, can put another cache in its place.
fn check_way(place: &Path) -> Result<(), Unlaid> {
    // In a container whose root is not the machine's, the owner of `/` has no number of its own.
    let system = fs::metadata("/").map_or(0, |root| root.uid());
    for folder in place.ancestors() {
        let Ok(there) = fs::symlink_metadata(folder) else { continue };
        let is_sticky = there.mode() & 0o1000 != 0;
        let fault = if ![0, system, user().2].contains(&there.uid()) {
            "belongs to somebody else"
        } else if there.mode() & 0o002 != 0 && !is_sticky {
            "can be written to by everybody"
        // A user's own group is that user, as many systems set it up.
        } else if there.mode() & 0o020 != 0 && !is_sticky && ![0, user().1].contains(&there.gid()) {
            "can be written to by a group"
        } else {
            continue;
        };
        let (place, folder) = (place.display(), folder.display());
        return Err(Unlaid::Refused(format!(
            "there is no safe cache in {place}, because {folder} {fault}; {ANOTHER}"
        )));
    }
    Ok(())
}

/// Whether the path can stand in `LD_PRELOAD`: the loader splits at spaces and colons, and expands `$ORIGIN`.
fn is_loadable(path: &Path) -> bool {
    let splits = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b':' | b'$' | 0x0b);
    !path.as_os_str().as_bytes().iter().any(splits)
}

/// Whether the file is there and has exactly these bytes; what is wrong with it otherwise.
fn is_ours(path: &Path, content: &[u8]) -> Result<bool, String> {
    // Neither follows a link nor waits for the other end of a pipe.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
            return Err("is a symbolic link".to_owned());
        }
        Err(error) => return Err(format!("cannot be read ({})", words(&error))),
    };
    let there = file.metadata().map_err(|error| format!("cannot be read ({})", words(&error)))?;
    if !there.is_file() {
        return Err("is not a plain file".to_owned());
    }
    if there.uid() != user().2 {
        return Err("belongs to somebody else".to_owned());
    }
    if there.mode() & 0o022 != 0 {
        return Err("can be written to by others".to_owned());
    }
    let mut bytes = Vec::with_capacity(content.len() + 1);
    let limit = content.len() as u64 + 1;
    let read = (&file).take(limit).read_to_end(&mut bytes);
    read.map_err(|error| format!("cannot be read ({})", words(&error)))?;
    if bytes == content { Ok(true) } else { Err("is not what this version lays there".to_owned()) }
}

/// FNV-1a. It names a content; what is loaded is compared byte by byte.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// Whether a path names an image in the folder: one that another run has preloaded.
pub fn is_image(path: &[u8], folder: &Path) -> bool {
    let path = Path::new(OsStr::from_bytes(path));
    path.parent() == Some(folder) && path.extension() == Some("so".as_ref())
}

/// What one run that is counted has in the cache: the board that its processes write to, and an image that knows of
/// it. Both vanish with this value; after a kill the next such run sweeps.
#[derive(Debug)]
pub struct Counted {
    board: PathBuf,
    /// The image.
    pub image: PathBuf,
    /// Its lock says that the run goes on.
    _lock: File,
}

impl Counted {
    /// Makes both, of this image; the board begins with `head`, and the rest of its `size` is zeros.
    ///
    /// # Errors
    /// As for [`lay`].
    pub fn new(
        image: &[u8],
        choice: &Choice<'_>,
        head: &[u8],
        size: usize,
    ) -> Result<Self, Unlaid> {
        let folder = Folder::find()?;
        folder.sweep();
        refuse_sizes();
        let (mut file, path) = folder.create("board", 0o600)?;
        let held = lock(&file) && fs::symlink_metadata(&path).is_ok();
        let written = if held {
            // Room for all of it: a program that finds the disk full when it counts would die. Zeros cost ten times as
            // long, and have to reach the disk before the image is safe there.
            file.write_all(head).and_then(|()| match reserve(&file, size) {
                true => Ok(()),
                false => file.write_all(&vec![0; size.saturating_sub(head.len())]),
            })
        } else {
            // Between the two lines above; nothing is lost, and the next attempt will do.
            Err(io::Error::other("another run has swept it at this moment; try again"))
        };
        let counted = Self { image: path.with_extension("so"), board: path, _lock: file };
        written.map_err(|error| folder.unwritable(&error))?;
        let choice = Choice { board: Some(counted.board.as_os_str().as_bytes()), ..*choice };
        folder.write(&counted.image, &configured(image, &choice)?)?;
        Ok(counted)
    }

    /// What the processes have written so far.
    pub fn read(&self) -> io::Result<Vec<u8>> {
        fs::read(&self.board)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        for path in [&self.image, &self.board] {
            // Somebody may have emptied the cache meanwhile.
            let _ = fs::remove_file(path);
        }
    }
}

impl Folder {
    /// Removes what runs that were killed have left.
    fn sweep(&self) {
        let Ok(entries) = fs::read_dir(&self.0) else { return };
        for entry in entries.flatten() {
            let path = entry.path();
            if path.extension() != Some("board".as_ref()) {
                continue;
            }
            let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
            let file = OpenOptions::new().read(true).custom_flags(flags).open(&path);
            if file.is_ok_and(|file| lock(&file)) {
                let _ = fs::remove_file(path.with_extension("so"));
                let _ = fs::remove_file(&path);
            }
        }
    }
}
