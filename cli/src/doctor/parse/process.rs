//! The files of /proc/self: the auxiliary vector, what is mapped, the time namespace, the control group.

/// What the auxiliary vector tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Auxv {
    /// Where the vDSO is (`AT_SYSINFO_EHDR`).
    pub vdso: Option<u64>,
    /// Width of a word.
    pub bits: u32,
}

impl Auxv {
    /// Reads the vector, of words of 64 or of 32 bits in this processor's order; `None` if it is none.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        Self::of_width(bytes, 8).or_else(|| Self::of_width(bytes, 4))
    }

    fn of_width(bytes: &[u8], width: usize) -> Option<Self> {
        const AT_PAGESZ: u64 = 6;
        const AT_SYSINFO_EHDR: u64 = 33;
        let word = |bytes: &[u8]| match width {
            8 => bytes.try_into().map_or(0, u64::from_ne_bytes),
            _ => bytes.try_into().map_or(0, u32::from_ne_bytes).into(),
        };
        let (mut vdso, mut is_one) = (None, false);
        for pair in bytes.chunks_exact(2 * width) {
            let (name, value) = (word(&pair[..width]), word(&pair[width..]));
            match name {
                // It ends here. Every process is told the size of a page.
                0 => return is_one.then_some(Self { vdso, bits: width as u32 * 8 }),
                AT_PAGESZ => is_one = value.is_power_of_two() && value >= 4096,
                AT_SYSINFO_EHDR => vdso = Some(value).filter(|&at| at != 0),
                _ => {}
            }
        }
        None
    }
}

/// What is mapped into a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Maps {
    /// From where to where the kernel's vDSO is.
    pub vdso: Option<(u64, u64)>,
    /// The libraries' files, each once.
    pub libraries: Vec<String>,
}

const LIBRARIES_MAX: usize = 256;

impl Maps {
    /// Reads /proc/PID/maps.
    pub fn parse(text: &str) -> Self {
        let mut maps = Self::default();
        for line in text.lines() {
            let mut fields = line.split_whitespace();
            let range = fields.next().and_then(|range| range.split_once('-'));
            let path = fields.skip(4).collect::<Vec<_>>().join(" ");
            if path == "[vdso]" {
                let address = |text: &str| u64::from_str_radix(text, 16).ok();
                maps.vdso = range.and_then(|(from, to)| Some((address(from)?, address(to)?)));
            } else if is_library(&path)
                && maps.libraries.len() < LIBRARIES_MAX
                && !maps.libraries.contains(&path)
            {
                maps.libraries.push(path);
            }
        }
        maps
    }
}

fn is_library(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    path.starts_with('/') && (name.ends_with(".so") || name.contains(".so."))
}

/// Whether a recording should keep the line of /proc/PID/maps.
pub fn is_mapped_library(line: &str) -> bool {
    line.ends_with("[vdso]") || line.split_whitespace().nth(5).is_some_and(is_library)
}

/// The offsets of a time namespace in nanoseconds: of MONOTONIC and of BOOTTIME.
pub fn timens_offsets(text: &str) -> Option<(i128, i128)> {
    let (mut monotonic, mut boottime) = (None, None);
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let clock = words.next()?;
        let mut number = || words.next()?.parse::<i64>().ok();
        let ns = i128::from(number()?) * 1_000_000_000 + i128::from(number()?);
        match clock {
            "monotonic" | "1" => monotonic = Some(ns),
            "boottime" | "7" => boottime = Some(ns),
            _ => return None,
        }
    }
    monotonic.zip(boottime)
}

/// A field of /proc/PID/status.
pub fn status_field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let mut fields = text.lines().filter_map(|line| line.split_once(':'));
    fields.find(|(name, _)| *name == key).map(|(_, value)| value.trim())
}

/// Whether a recording should keep the line of /proc/PID/status.
pub fn is_of_interest(line: &str) -> bool {
    ["Seccomp:", "TracerPid:", "Cpus_allowed_list:"].iter().any(|key| line.starts_with(key))
}

/// Where the file `name` of this process's own group of the controller for CPU time may be, the likeliest first.
pub fn cgroup_files(cgroup: &str, mountinfo: &str, name: [&str; 2]) -> Vec<String> {
    let mut files = Vec::new();
    for mount in mountinfo.lines().filter_map(Mount::parse).take(4_096) {
        for line in cgroup.lines().take(64) {
            let mut fields = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
            let file = match mount.kind {
                "cgroup2" if controllers.is_empty() => name[0],
                "cgroup" if is_cpu(controllers) && is_cpu(mount.options) => name[1],
                _ => continue,
            };
            // In a namespace of its own the mount shows only what is below the group that it was made in.
            let below = path.strip_prefix(mount.root.as_str()).unwrap_or(path).trim_matches('/');
            let folder = if below.is_empty() || path.contains("..") {
                mount.point.clone()
            } else {
                format!("{}/{below}", mount.point)
            };
            files.push(format!("{}/{file}", folder.trim_end_matches('/')));
        }
    }
    files.truncate(8);
    files
}

fn is_cpu(list: &str) -> bool {
    list.split(',').any(|word| word == "cpu")
}

/// A line of mountinfo.
struct Mount<'a> {
    root: String,
    point: String,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (head, tail) = line.split_once(" - ")?;
        let mut head = head.split(' ').skip(3);
        let (root, point) = (head.next()?, head.next()?);
        let mut tail = tail.split(' ');
        let kind = tail.next()?;
        let options = tail.nth(1).unwrap_or_default();
        let root = unescaped(root);
        let root = if root == "/" { String::new() } else { root };
        let point = unescaped(point);
        // The kernel writes whole paths: another one leads out of a recording.
        let is_whole = point.starts_with('/') && point.split('/').all(|part| part != "..");
        is_whole.then_some(Self { root, point, kind, options })
    }
}

/// `\040` is a space.
fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        out.push_str(before);
        let code = after.get(..3).and_then(|code| u8::from_str_radix(code, 8).ok());
        match code {
            Some(code) => {
                out.push(char::from(code));
                rest = &after[3..];
            }
            None => {
                out.push('\\');
                rest = after;
            }
        }
    }
    out + rest
}

/// How many processors' time a group may use: `cpu.max` (`QUOTA PERIOD`). `None` if it is not limited.
pub fn cpu_max(text: &str) -> Option<f64> {
    let mut words = text.split_whitespace();
    share(words.next()?, words.next()?)
}

/// The same by the two files of the older kind.
pub fn share(quota: &str, period: &str) -> Option<f64> {
    let [quota, period] = [quota, period].map(|text| text.trim().parse::<f64>());
    let share = quota.ok()? / period.ok()?;
    (share.is_finite() && share > 0.0).then_some(share)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector(pairs: &[(u64, u64)]) -> Vec<u8> {
        pairs
            .iter()
            .flat_map(|&(name, value)| [name.to_ne_bytes(), value.to_ne_bytes()].concat())
            .collect()
    }

    #[test]
    fn the_vdso_is_found_in_vectors_of_both_widths() {
        let wide = vector(&[(33, 0x7fff_0000), (6, 4096), (0, 0), (33, 1)]);
        assert_eq!(Auxv::parse(&wide), Some(Auxv { vdso: Some(0x7fff_0000), bits: 64 }));
        let narrow: Vec<u8> = [33u32, 0xf7f0_0000, 6, 4096, 0, 0]
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .collect();
        assert_eq!(Auxv::parse(&narrow), Some(Auxv { vdso: Some(0xf7f0_0000), bits: 32 }));
        assert_eq!(Auxv::parse(&vector(&[(6, 4096), (0, 0)])), Some(Auxv { vdso: None, bits: 64 }));
        for wrong in [&[][..], &[0; 64], &[0xff; 64], &wide[..20]] {
            assert_eq!(Auxv::parse(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn libraries_and_the_vdso_are_found_among_what_is_mapped() {
        let text = "7f00-7f10 r--p 00000000 08:01 5   /usr/lib/x86_64-linux-gnu/libc.so.6\n\
                    7f10-7f20 r-xp 00000000 08:01 5   /usr/lib/x86_64-linux-gnu/libc.so.6\n\
                    7f20-7f30 r-xp 00000000 08:01 5   /opt/with space/libfaketime.so.1\n\
                    7f30-7f40 r-xp 00000000 08:01 5   /usr/bin/program\n\
                    7ffc0000-7ffc1000 r-xp 00000000 00:00 0   [vdso]\nrubbish\n";
        let maps = Maps::parse(text);
        assert_eq!(maps.vdso, Some((0x7ffc_0000, 0x7ffc_1000)));
        assert_eq!(
            maps.libraries,
            ["/usr/lib/x86_64-linux-gnu/libc.so.6", "/opt/with space/libfaketime.so.1"]
        );
    }

    #[test]
    fn offsets_of_a_time_namespace_do_not_overflow() {
        let text = "monotonic           86400         0\nboottime          -5  999999999\n";
        assert_eq!(timens_offsets(text), Some((86_400_000_000_000, -4_000_000_001)));
        assert!(
            timens_offsets("monotonic 9223372036854775807 9223372036854775807\nboottime 0 0")
                .is_some()
        );
        for wrong in ["", "monotonic 0 0", "monotonic x 0\nboottime 0 0", "moon 0 0", "\n"] {
            assert_eq!(timens_offsets(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_group_s_files_are_found_below_their_mount() {
        let names = ["cpu.max", "cpu.cfs_quota_us"];
        let two = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
        assert_eq!(cgroup_files("0::/a/b\n", two, names), ["/sys/fs/cgroup/a/b/cpu.max"]);
        assert_eq!(cgroup_files("0::/\n", two, names), ["/sys/fs/cgroup/cpu.max"]);
        let container = "30 23 0:26 /docker/x /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
        assert_eq!(cgroup_files("0::/docker/x", container, names), ["/sys/fs/cgroup/cpu.max"]);
        let one = "31 23 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n";
        let expected = ["/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us"];
        assert_eq!(cgroup_files("4:cpu,cpuacct:/x\n3:memory:/y\n", one, names), expected);
        assert!(cgroup_files("rubbish", "rubbish - - -", names).is_empty());
        for point in ["/sys/../root", "sys", "/sys/.."] {
            let mounts = format!("60 23 0:26 / {point} rw - cgroup2 cgroup2 rw");
            assert!(cgroup_files("0::/\n", &mounts, names).is_empty(), "{point}");
        }
        assert_eq!(unescaped("a\\040b\\x\\"), "a b\\x\\");
    }

    #[test]
    fn a_share_of_the_processors_is_a_number_or_none() {
        assert_eq!(cpu_max("50000 100000\n"), Some(0.5));
        for none in ["max 100000", "", "1 0", "-1 100000", "x y"] {
            assert_eq!(cpu_max(none), None, "{none}");
        }
        assert_eq!(share("-1\n", "100000\n"), None);
    }
}
