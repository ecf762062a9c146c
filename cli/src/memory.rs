//! Memory for evicting the caches: as much as is wanted, unless that would hurt.
//!
//! Must never take what the machine, the cgroup or the process's own limit does not have: the kernel would
//! kill the tool, or another process.

use crate::machine::Root;
use crate::os;

/// Memory of this size, all of it touched: pages only reserved would all be the one page of zeros.
///
/// # Errors
/// In words, if it is more than half of what is there.
pub fn taken(root: &Root, bytes: u64) -> Result<Vec<u64>, String> {
    can_be_taken(root, bytes)?;
    let refused =
        || format!("evicting the caches takes {} MB, which the kernel refused", bytes >> 20);
    let words = usize::try_from(bytes / 8).map_err(|_| refused())?;
    let mut memory = Vec::new();
    memory.try_reserve_exact(words).map_err(|_| refused())?;
    memory.extend(0..words as u64);
    Ok(memory)
}

/// Whether that is no more than half of what is there.
///
/// # Errors
/// In words, if it is more.
pub fn can_be_taken(root: &Root, bytes: u64) -> Result<(), String> {
    let room = available(root, os::address_space_limit());
    if bytes <= room / 2 {
        return Ok(());
    }
    let (takes, has) = (bytes >> 20, room >> 20);
    Err(format!("evicting the caches takes {takes} MB, and there are {has} to take half of"))
}

/// What may still be taken, in bytes: of the machine's memory, of the cgroup's, of the process's limit.
fn available(root: &Root, own_limit: Option<u64>) -> u64 {
    let meminfo = root.read("/proc/meminfo").value.unwrap_or_default();
    let machine = field(&meminfo, "MemAvailable:").map(|kilobytes| kilobytes * 1024);
    let cgroups = own_cgroups(root).into_iter().flat_map(|folder| {
        [("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")]
            .map(|(limit, used)| left_in_cgroup(root, &folder, limit, used))
    });
    cgroups.chain([own_limit, machine]).flatten().min().unwrap_or(0)
}

/// The number after `name`, whatever its unit.
fn field(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(name));
    lines.next()?.split_whitespace().next()?.parse().ok()
}

/// The limit less what is used; of that, pages of files that nobody uses are given back on demand.
fn left_in_cgroup(root: &Root, folder: &str, limit: &str, used: &str) -> Option<u64> {
    let number = |name: &str| root.read(&format!("{folder}/{name}")).value?.parse::<u64>().ok();
    let limit = number(limit)?;
    let stat = root.read(&format!("{folder}/memory.stat")).value.unwrap_or_default();
    let reclaimable = field(&stat, "inactive_file ").unwrap_or(0);
    Some(limit.saturating_sub(number(used).unwrap_or(0).saturating_sub(reclaimable)))
}

/// The folders of the memory cgroups that the process may be in, of both versions: in a container its own is
/// the root that it sees.
fn own_cgroups(root: &Root) -> Vec<String> {
    let text = root.read("/proc/self/cgroup").value.unwrap_or_default();
    let mut folders = vec!["/sys/fs/cgroup".to_owned(), "/sys/fs/cgroup/memory".to_owned()];
    for line in text.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next().unwrap_or(""), parts.next().unwrap_or("/"));
        match controllers {
            "" => folders.push(format!("/sys/fs/cgroup{path}")),
            some if some.split(',').any(|name| name == "memory") => {
                folders.push(format!("/sys/fs/cgroup/memory{path}"));
            }
            _ => {}
        }
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEGABYTE: u64 = 1 << 20;

    /// A folder that is there as long as the test.
    struct Folder(std::path::PathBuf);

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// A machine with these files.
    fn machine(name: &str, files: &[(&str, &str)]) -> (Root, Folder) {
        let folder = std::env::temp_dir().join(format!("clockwise-{}-{name}", std::process::id()));
        for (path, text) in files {
            let path = folder.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        (Root::at(&folder), Folder(folder))
    }

    const MEMINFO: (&str, &str) = (
        "proc/meminfo",
        "MemTotal:       24000000 kB\nMemFree:  10 kB\nMemAvailable:    1048576 kB\n",
    );

    #[test]
    fn a_machine_without_limits_has_what_is_available() {
        assert_eq!(available(&machine("memory_plain", &[MEMINFO]).0, None), 1024 * MEGABYTE);
    }

    #[test]
    fn the_least_of_the_limits_counts() {
        let version_2 = [
            MEMINFO,
            ("proc/self/cgroup", "0::/box\n"),
            ("sys/fs/cgroup/box/memory.max", "209715200\n"),
            ("sys/fs/cgroup/box/memory.current", "104857600\n"),
            ("sys/fs/cgroup/box/memory.stat", "anon 5\ninactive_file 52428800\n"),
        ];
        assert_eq!(available(&machine("memory_v2", &version_2).0, None), 150 * MEGABYTE);
        let version_1 = [
            MEMINFO,
            ("proc/self/cgroup", "5:cpu,memory:/box\n0::/\n"),
            ("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "209715200"),
            ("sys/fs/cgroup/memory/box/memory.usage_in_bytes", "104857600"),
        ];
        let (root, _folder) = machine("memory_v1", &version_1);
        assert_eq!(available(&root, None), 100 * MEGABYTE);
        assert_eq!(available(&root, Some(60 * MEGABYTE)), 60 * MEGABYTE);
        assert!(taken(&root, 51 * MEGABYTE).unwrap_err().contains("takes 51 MB"));
        let few = taken(&root, MEGABYTE).unwrap();
        assert_eq!((few.len(), few[1000]), (131_072, 1000));
    }

    #[test]
    fn a_cgroup_without_a_limit_limits_nothing() {
        let files = [
            MEMINFO,
            ("sys/fs/cgroup/memory.max", "max\n"),
            ("sys/fs/cgroup/memory.current", "104857600\n"),
        ];
        assert_eq!(available(&machine("memory_max", &files).0, None), 1024 * MEGABYTE);
    }

    #[test]
    fn where_nothing_is_told_nothing_is_taken() {
        let (root, _folder) = machine("memory_none", &[("empty", "")]);
        assert_eq!(available(&root, None), 0);
        assert!(taken(&root, 8).is_err());
    }
}
