//! /proc/cpuinfo, reduced to what it says of the counter.

/// The flags that tell of the counter, and whether there is a hypervisor.
pub const FLAGS: [&str; 9] = [
    "tsc",
    "rdtscp",
    "constant_tsc",
    "nonstop_tsc",
    "tsc_known_freq",
    "tsc_reliable",
    "tsc_adjust",
    "art",
    "hypervisor",
];

/// What the processors say of themselves.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cpuinfo {
    /// How many are listed.
    pub processors: usize,
    /// The first one's name.
    pub model: Option<String>,
    /// Those of [`FLAGS`] that all of them have.
    pub flags: Vec<&'static str>,
    /// Those that only some have.
    pub uneven: Vec<&'static str>,
    /// They are ARM's, whose counter is constant by the architecture.
    pub is_arm: bool,
}

impl Cpuinfo {
    /// Reads the file.
    pub fn parse(text: &str) -> Self {
        let mut found = Self::default();
        let (mut listed, mut has) = (0usize, [0usize; FLAGS.len()]);
        for line in text.lines() {
            let Some((key, value)) = line.split_once(':') else { continue };
            match key.trim() {
                "processor" => found.processors += 1,
                "model name" | "Model" if found.model.is_none() => {
                    let name = value.trim();
                    let end = name.char_indices().nth(100).map_or(name.len(), |(end, _)| end);
                    found.model = Some(name[..end].to_owned()).filter(|name| !name.is_empty());
                }
                "CPU implementer" => found.is_arm = true,
                "flags" => {
                    listed += 1;
                    for (flag, count) in FLAGS.iter().zip(&mut has) {
                        *count += usize::from(value.split_whitespace().any(|word| word == *flag));
                    }
                }
                _ => {}
            }
        }
        for (flag, count) in FLAGS.into_iter().zip(has) {
            match count {
                0 => {}
                _ if count == listed => found.flags.push(flag),
                _ => found.uneven.push(flag),
            }
        }
        found
    }

    /// Whether all processors have the flag.
    pub fn has(&self, flag: &str) -> bool {
        self.flags.contains(&flag)
    }

    /// Whether the counter keeps its rate in all states: `None` if nothing is told.
    pub fn is_invariant(&self) -> Option<bool> {
        if self.is_arm {
            return Some(true);
        }
        let is_told = self.has("tsc") || !self.flags.is_empty() || !self.uneven.is_empty();
        is_told.then(|| self.has("constant_tsc") && self.has("nonstop_tsc"))
    }
}

/// Whether a recording should keep the line.
pub fn is_of_interest(line: &str) -> bool {
    let key = line.split(':').next().unwrap_or_default().trim();
    [
        "processor",
        "vendor_id",
        "model name",
        "Model",
        "flags",
        "Features",
        "CPU implementer",
        "CPU part",
        "",
    ]
    .contains(&key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_all_and_of_some_processors_are_told_apart() {
        let one =
            "processor\t: 0\nmodel name\t: X\nflags\t\t: fpu tsc constant_tsc nonstop_tsc\n\n";
        let other = "processor\t: 1\nmodel name\t: Y\nflags\t\t: fpu tsc constant_tsc\n";
        let both = Cpuinfo::parse(&[one, other].concat());
        assert_eq!((both.processors, both.model.as_deref()), (2, Some("X")));
        assert_eq!(both.flags, ["tsc", "constant_tsc"]);
        assert_eq!(both.uneven, ["nonstop_tsc"]);
        assert_eq!(both.is_invariant(), Some(false));
        assert_eq!(Cpuinfo::parse(one).is_invariant(), Some(true));
        assert_eq!(
            Cpuinfo::parse("processor : 0\nCPU implementer\t: 0x41\n").is_invariant(),
            Some(true)
        );
        assert_eq!(Cpuinfo::parse("rubbish\n:::\n").is_invariant(), None);
    }
}
