//! What a command is: the file that its name stands for, the one that the kernel loads for it, and whether a preloaded
//! image reaches that.
//!
//! Files are looked at as bytes that anybody may have written. Must never execute one, nor fail where one is damaged:
//! the kernel and the loader have the last word.

use crate::image::IMAGE;
use crate::os::launch::{c_path, has_capabilities, may_execute, mount, user};
use clockwise_core::kernel::Errno;
use object::elf::{
    DT_NEEDED, DT_SONAME, DT_STRTAB, FileHeader32, FileHeader64, PT_INTERP, PT_LOAD,
};
use object::endian::Endianness;
use object::read::elf::{Dyn, FileHeader, ProgramHeader, SectionHeader};
use object::{ReadCache, ReadRef};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Why a command cannot be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// No such file.
    NotFound,
    /// The file is there, and what it names to load or run it is not.
    NoInterpreter,
    /// It may not be executed, for this reason.
    NotExecutable(Errno),
}

impl Missing {
    /// The exit status of a shell, and of `env`.
    pub const fn status(self) -> u8 {
        match self {
            Self::NotFound | Self::NoInterpreter => 127,
            Self::NotExecutable(_) => 126,
        }
    }

    /// In words.
    pub fn sentence(self, name: &OsStr) -> String {
        let name = name.display();
        match self {
            Self::NotFound if name.to_string().contains('/') => format!("there is no file {name}"),
            Self::NotFound => format!(
                "there is no program `{name}` on the PATH; write a file's name with a slash, as in ./{name}"
            ),
            Self::NoInterpreter => format!(
                "{name} is there, but not what it is to be run by: see its first line if it is a script, or \
                 install its loader (file {name} names it)"
            ),
            Self::NotExecutable(Errno(libc::EACCES)) => {
                format!(
                    "{name} may not be executed: see its mode (chmod +x) and how it is mounted (noexec)"
                )
            }
            Self::NotExecutable(errno) => format!("{name} cannot be executed: {errno}"),
        }
    }
}

impl From<Errno> for Missing {
    fn from(errno: Errno) -> Self {
        match errno.0 {
            libc::ENOENT | libc::ENOTDIR => Self::NotFound,
            _ => Self::NotExecutable(errno),
        }
    }
}

/// The file that `execvp` would execute: `name` itself if there is a slash in it, else the first on the path.
///
/// # Errors
/// Why there is none.
pub fn find(name: &OsStr, path: Option<&OsStr>) -> Result<PathBuf, Missing> {
    let bytes = name.as_bytes();
    if bytes.is_empty() {
        return Err(Missing::NotFound);
    }
    if bytes.contains(&b'/') {
        executable(Path::new(name))?;
        return Ok(PathBuf::from(name));
    }
    // What the C library assumes where there is no PATH.
    let path = path.unwrap_or_else(|| OsStr::new("/bin:/usr/bin"));
    let mut missing = Missing::NotFound;
    for folder in path.as_bytes().split(|&byte| byte == b':') {
        // An empty entry is the current folder.
        let candidate = Path::new(OsStr::from_bytes(folder)).join(name);
        match executable(&candidate).map_err(Missing::from) {
            Ok(()) => return Ok(candidate),
            // It goes on, and remembers that there was something.
            Err(why @ Missing::NotExecutable(Errno(libc::EACCES))) => missing = why,
            Err(_) => {}
        }
    }
    Err(missing)
}

fn executable(path: &Path) -> Result<(), Errno> {
    may_execute(&c_path(path)?)?;
    match std::fs::metadata(path) {
        // A folder may be "executed", a pipe could have the bit.
        Ok(there) if !there.is_file() => Err(Errno(libc::EACCES)),
        _ => Ok(()),
    }
}

/// Whether a preloaded image reaches a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Whatever it asks of libc.
    Whole,
    /// In part: this is not.
    Part(String),
    /// Not at all, for this reason.
    Not(String),
    /// The file cannot be looked at, for this reason; most can be reached.
    Unknown(String),
    /// What it is to be run by cannot be, so neither can it.
    Missing(Missing),
}

/// How many interpreters the kernel follows.
const CHAIN_MAX: usize = 5;
/// As much of a file's first line as the kernel looks at.
const LINE_MAX: usize = 256;

/// Whether the program that begins with the file can be reached. `preloaded` is what `LD_PRELOAD` has already.
pub fn reach(path: &Path, preloaded: &[u8]) -> Reach {
    let mut path = path.to_owned();
    let mut script = String::new();
    for _ in 0..CHAIN_MAX {
        let (file, head) = match begin(&path) {
            Ok(begun) => begun,
            Err(error) => {
                let why = crate::machine::words(&error);
                return Reach::Unknown(format!("{} cannot be read: {why}", path.display()));
            }
        };
        let next = match interpreter(&head) {
            Some(next) => next,
            None if head.starts_with(b"\x7fELF") => {
                let reach = elf_reach(&path, file, &head, preloaded);
                return if script.is_empty() { reach } else { reach.of_interpreter(&path) };
            }
            // As `execvp` and shells do it.
            None => PathBuf::from("/bin/sh"),
        };
        if let Err(errno) = executable(&next) {
            return Reach::Missing(match Missing::from(errno) {
                Missing::NotFound => Missing::NoInterpreter,
                missing => missing,
            });
        }
        script = path.display().to_string();
        path = next;
    }
    Reach::Unknown(format!("{script} is a script of a script, too deep for the kernel"))
}

impl Reach {
    fn of_interpreter(self, path: &Path) -> Self {
        let say = |why: String| format!("its interpreter is {}, and {why}", path.display());
        match self {
            Self::Whole | Self::Missing(_) => self,
            Self::Part(why) => Self::Part(say(why)),
            Self::Not(why) => Self::Not(say(why)),
            Self::Unknown(why) => Self::Unknown(say(why)),
        }
    }
}

fn begin(path: &Path) -> std::io::Result<(File, Vec<u8>)> {
    let mut file = File::open(path)?;
    let mut head = Vec::with_capacity(LINE_MAX);
    file.by_ref().take(LINE_MAX as u64).read_to_end(&mut head)?;
    Ok((file, head))
}

/// The interpreter that a script's first line names.
fn interpreter(head: &[u8]) -> Option<PathBuf> {
    let line = head.strip_prefix(b"#!")?.split(|&byte| byte == b'\n' || byte == 0).next()?;
    let mut words = line.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty());
    // A script that names none is executed by the shell.
    Some(PathBuf::from(OsString::from(OsStr::from_bytes(words.next()?))))
}

/// What is said where the loader drops the preload.
fn secure(path: &Path) -> Option<&'static str> {
    const SET_USER: u32 = 0o4000;
    // Without the bit to execute for the group it means a kind of lock.
    const SET_GROUP: u32 = 0o2010;
    let there = std::fs::metadata(path).ok()?;
    let (real, group, _) = user();
    let c_path = c_path(path).ok()?;
    let reason = if there.mode() & SET_USER != 0 && there.uid() != real {
        "it runs as its owner (set-uid)"
    } else if there.mode() & SET_GROUP == SET_GROUP && there.gid() != group {
        "it runs as its group (set-gid)"
    // Root has them all: nothing is granted, and the loader keeps the preload.
    } else if real != 0 && has_capabilities(&c_path) {
        "it has file capabilities"
    } else {
        return None;
    };
    // There the kernel ignores all three.
    (!mount(&c_path).unwrap_or_default().nosuid).then_some(reason)
}

fn elf_reach(path: &Path, file: File, head: &[u8], preloaded: &[u8]) -> Reach {
    // Class, byte order; then the processor.
    let differs = |range: Range<usize>| head.get(range.clone()) != IMAGE.get(range);
    if differs(4..6) || differs(18..20) {
        return Reach::Not("it is made for another processor or for 32 bits".to_owned());
    }
    if let Some(reason) = secure(path) {
        return Reach::Not(format!("{reason}, and then the loader drops what is preloaded"));
    }
    let cache = ReadCache::new(file);
    let facts = match head[4] {
        1 => Facts::read::<FileHeader32<Endianness>, _>(&cache),
        _ => Facts::read::<FileHeader64<Endianness>, _>(&cache),
    };
    let Some(facts) = facts else { return Reach::Unknown("its ELF file is damaged".to_owned()) };
    facts.reach(preloaded)
}

/// What the file tells of how it is loaded.
#[derive(Debug, Default)]
struct Facts {
    /// It asks for a loader.
    has_interpreter: bool,
    /// It is a library: the loader itself, if it is executed.
    is_library: bool,
    needs_asan: bool,
    is_go: bool,
}

/// Larger tables are no program's.
const TABLE_MAX: u64 = 1 << 20;

impl Facts {
    /// `None` if the file is damaged.
    fn read<'data, Elf, R>(data: R) -> Option<Self>
    where
        Elf: FileHeader<Endian = Endianness>,
        R: ReadRef<'data>,
    {
        let header = Elf::parse(data).ok()?;
        let endian = header.endian().ok()?;
        let mut facts = Self::default();
        let at = header.e_phoff(endian).into();
        let count = usize::from(header.e_phnum(endian));
        let segments = data.read_slice_at::<Elf::ProgramHeader>(at, count).ok()?;
        facts.has_interpreter = segments.iter().any(|segment| segment.p_type(endian) == PT_INTERP);
        // What follows is told where it can be read; a program lives without it.
        facts.read_dynamic::<Elf, R>(data, endian, segments);
        facts.read_sections::<Elf, R>(data, endian, header);
        Some(facts)
    }

    fn read_dynamic<'data, Elf, R>(
        &mut self,
        data: R,
        endian: Endianness,
        segments: &[Elf::ProgramHeader],
    ) -> Option<()>
    where
        Elf: FileHeader<Endian = Endianness>,
        R: ReadRef<'data>,
    {
        let is_small = |segment: &&Elf::ProgramHeader| segment.p_filesz(endian).into() <= TABLE_MAX;
        let mut segments_small = segments.iter().filter(is_small);
        let entries =
            segments_small.find_map(|segment| segment.dynamic(endian, data).ok().flatten())?;
        let entries = entries.iter().map(|entry| (entry.tag(endian), entry.val(endian)));
        let entries: Vec<_> = entries.take_while(|(tag, _)| tag.0 != 0).collect();
        self.is_library = entries.iter().any(|&(tag, _)| tag == DT_SONAME);
        let (_, strings) = *entries.iter().find(|(tag, _)| *tag == DT_STRTAB)?;
        let offset = segments.iter().find_map(|segment| {
            let into = strings.checked_sub(segment.p_vaddr(endian).into())?;
            let holds = segment.p_type(endian) == PT_LOAD && into < segment.p_filesz(endian).into();
            if holds { into.checked_add(segment.p_offset(endian).into()) } else { None }
        })?;
        let needed = entries.iter().filter(|(tag, _)| *tag == DT_NEEDED);
        self.needs_asan = needed.filter_map(|&(_, at)| offset.checked_add(at)).any(|at| {
            [&b"libasan.so"[..], b"libclang_rt.asan"]
                .iter()
                .any(|name| data.read_bytes_at(at, name.len() as u64) == Ok(name))
        });
        Some(())
    }

    fn read_sections<'data, Elf, R>(
        &mut self,
        data: R,
        endian: Endianness,
        header: &Elf,
    ) -> Option<()>
    where
        Elf: FileHeader<Endian = Endianness>,
        R: ReadRef<'data>,
    {
        let count = usize::from(header.e_shnum(endian));
        let at = header.e_shoff(endian).into();
        let sections = data.read_slice_at::<Elf::SectionHeader>(at, count).ok()?;
        let names = sections.get(usize::from(header.e_shstrndx(endian).0))?;
        let size = names.sh_size(endian).into().min(TABLE_MAX);
        let names = data.read_bytes_at(names.sh_offset(endian).into(), size).ok()?;
        self.is_go = sections.iter().any(|section| {
            let name = names.get(section.sh_name(endian) as usize..).unwrap_or_default();
            [&b".note.go.buildid\0"[..], b".go.buildinfo\0"].iter().any(|go| name.starts_with(go))
        });
        Some(())
    }

    fn reach(&self, preloaded: &[u8]) -> Reach {
        if !self.has_interpreter && !self.is_library {
            let go = if self.is_go { " (made by Go)" } else { "" };
            return Reach::Not(format!(
                "it is linked statically{go}, and nothing can be preloaded into it"
            ));
        }
        if self.needs_asan && !first_of(preloaded).is_some_and(is_asan) {
            return Reach::Not(
                "it is made with a shared AddressSanitizer, which refuses to start unless it is loaded first: \
                 preload libasan.so yourself, and the image comes after it"
                    .to_owned(),
            );
        }
        if self.is_go {
            return Reach::Part(
                "it is made by Go, which asks the kernel for the time past libc; only what it calls in C \
                 reads the counter"
                    .to_owned(),
            );
        }
        Reach::Whole
    }
}

/// The first library of an `LD_PRELOAD`.
fn first_of(preloaded: &[u8]) -> Option<&[u8]> {
    preloaded.split(|byte| matches!(byte, b' ' | b':')).find(|path| !path.is_empty())
}

fn is_asan(path: &[u8]) -> bool {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    name.starts_with(b"libasan.so") || name.starts_with(b"libclang_rt.asan")
}

#[cfg(test)]
mod tests;
