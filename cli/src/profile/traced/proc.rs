//! What /proc tells of a process: what it is, what it has mapped, its threads and their names.
//!
//! Must never fail where a process is gone, or hides: then there is nothing to tell.

use crate::profile::calls::Module;
use std::fs;
use std::path::{Path, PathBuf};

/// The name of the vDSO among what is mapped.
pub const VDSO: &str = "[vdso]";

/// A mapping that may be executed, with what tells its file from another of the same name.
#[derive(Clone, Debug)]
pub struct Mapping {
    /// As it is reported.
    pub module: Module,
    /// Device and inode.
    pub file: String,
}

impl Mapping {
    /// Whether it is the same, and not another that has come to its place.
    pub fn is(&self, other: &Self) -> bool {
        let place =
            |mapping: &Self| (mapping.module.start, mapping.module.end, mapping.module.offset);
        place(self) == place(other)
            && self.module.path == other.module.path
            && self.file == other.file
    }
}

/// What a process may execute, as /proc/PID/maps has it.
pub fn executable(process: i32) -> std::io::Result<Vec<Mapping>> {
    let maps = fs::read(format!("/proc/{process}/maps"))?;
    Ok(mappings(&String::from_utf8_lossy(&maps)))
}

fn mappings(maps: &str) -> Vec<Mapping> {
    maps.lines().filter_map(mapping).collect()
}

/// `start-end rwxp offset device inode   path`.
fn mapping(line: &str) -> Option<Mapping> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let hexadecimal = |word: &str| u64::from_str_radix(word, 16).ok();
    let (start, end) = (hexadecimal(start)?, hexadecimal(end)?);
    let mode = words.next()?;
    let offset = hexadecimal(words.next()?)?;
    let file = format!("{} {}", words.next()?, words.next()?);
    let path = words.next().unwrap_or_default().trim_start().to_owned();
    let module = Module { start, end, offset, path };
    (mode.as_bytes().get(2) == Some(&b'x')).then_some(Mapping { module, file })
}

/// Where the process itself finds a file that it has mapped, whatever is mounted for it.
pub fn within(process: i32, path: &str) -> PathBuf {
    let path = path.strip_prefix('/').unwrap_or(path);
    Path::new(&format!("/proc/{process}/root")).join(path)
}

/// The file that a process executes; its name if that may not be known.
pub fn program(process: i32) -> String {
    match fs::read_link(format!("/proc/{process}/exe")) {
        Ok(path) => path.display().to_string(),
        Err(_) => name(process, process).unwrap_or_else(|| process.to_string()),
    }
}

/// The name of a thread.
pub fn name(process: i32, thread: i32) -> Option<String> {
    let name = fs::read(format!("/proc/{process}/task/{thread}/comm")).ok()?;
    Some(String::from_utf8_lossy(&name).trim_end_matches('\n').to_owned())
}

/// The threads of a process; none if it is gone.
pub fn threads(process: i32) -> Vec<i32> {
    numbers(&format!("/proc/{process}/task"))
}

/// All processes.
pub fn all() -> Vec<i32> {
    numbers("/proc")
}

fn numbers(folder: &str) -> Vec<i32> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// A field of /proc/PID/status.
pub fn field(process: i32, field: &str) -> Option<String> {
    let status = fs::read(format!("/proc/{process}/status")).ok()?;
    let status = String::from_utf8_lossy(&status);
    let value = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    value.map(|value| value.trim().to_owned())
}

/// What a thread does: `R` for running, `S` for waiting, ...
pub fn state(thread: i32) -> Option<char> {
    field(thread, "State")?.chars().next()
}

/// The instruction pointer of a thread that waits in the kernel; `None` of one that runs.
pub fn waits_from(thread: i32) -> Option<u64> {
    let call = fs::read_to_string(format!("/proc/{thread}/syscall")).ok()?;
    // The number and the arguments, where it waits in a system call; the stack pointer, the instruction pointer.
    let ip = call.trim_end().rsplit_once(' ')?.1.strip_prefix("0x")?;
    u64::from_str_radix(ip, 16).ok()
}

/// The process that a thread belongs to.
pub fn process_of(thread: i32) -> Option<i32> {
    field(thread, "Tgid")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executable_mappings_are_read_and_others_are_not() {
        let maps = "\
55d0-55d4 r--p 00000000 fe:00 12                         /usr/bin/a b
55d4-55d9 r-xp 00004000 fe:00 12                         /usr/bin/a b
7f00-7f10 r-xp 00000000 00:00 0 
7ffd-7fff r-xp 00000000 00:00 0                          [vdso]
rubbish
7f-zz r-xp 0 0 0 0
";
        let module =
            |start, end, offset, path: &str| Module { start, end, offset, path: path.into() };
        let found: Vec<_> = mappings(maps).into_iter().map(|mapping| mapping.module).collect();
        let expected = [
            module(0x55d4, 0x55d9, 0x4000, "/usr/bin/a b"),
            module(0x7f00, 0x7f10, 0, ""),
            module(0x7ffd, 0x7fff, 0, VDSO),
        ];
        assert_eq!(format!("{found:?}"), format!("{expected:?}"));
        assert_eq!(mappings(maps)[0].file, "fe:00 12");
    }

    #[test]
    fn this_process_is_found_in_proc() {
        let own = i32::try_from(std::process::id()).unwrap();
        assert_eq!(process_of(own), Some(own));
        assert!(threads(own).contains(&own) && all().contains(&own));
        assert!(executable(own).unwrap().iter().any(|mapping| mapping.module.path == VDSO));
        assert_eq!(program(own), std::env::current_exe().unwrap().display().to_string());
        assert_eq!(threads(-1), [0; 0]);
    }
}
