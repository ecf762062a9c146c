//! The kernel's command line, reduced to what it says of time.

/// What was asked for at the boot. The last word of a kind counts, as in the kernel.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommandLine {
    /// `clocksource=X`.
    pub clocksource: Option<String>,
    /// The words `notsc` and `tsc=X`, as they stand.
    pub tsc: Vec<String>,
    /// `vdso=0`.
    pub no_vdso: bool,
    /// `nohpet` or `hpet=disable`.
    pub no_hpet: bool,
    /// `highres=off` or `nohz=off`.
    pub low_resolution: Option<String>,
}

/// Words by which one of these begins are of interest.
const BEGINNINGS: [&str; 10] = [
    "clocksource=",
    "tsc=",
    "notsc",
    "vdso",
    "nohpet",
    "hpet=",
    "highres=",
    "nohz",
    "isolcpus=",
    "no-kvmclock",
];

impl CommandLine {
    /// Reads a command line.
    pub fn parse(text: &str) -> Self {
        let mut found = Self::default();
        for word in words(text) {
            match word.split_once('=').unwrap_or((word, "")) {
                ("clocksource", name) => found.clocksource = Some(name.to_owned()),
                ("notsc", _) | ("tsc", _) => found.tsc.push(word.to_owned()),
                ("vdso", value) => found.no_vdso = value == "0",
                ("nohpet", _) => found.no_hpet = true,
                ("hpet", value) => found.no_hpet = value == "disable",
                ("highres" | "nohz", "off" | "no" | "n" | "0") => {
                    found.low_resolution = Some(word.to_owned());
                }
                _ => {}
            }
        }
        found
    }

    /// The word that has the kernel give the TSC up, if there is one.
    pub fn against_tsc(&self) -> Option<&str> {
        self.tsc.iter().map(String::as_str).find(|word| matches!(*word, "notsc" | "tsc=unstable"))
    }
}

/// The words of a command line that are of interest: nobody needs to see the others.
pub fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_short = |word: &&str| word.len() <= 100;
    text.split_whitespace()
        .filter(is_short)
        .filter(|word| BEGINNINGS.iter().any(|beginning| word.starts_with(beginning)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_about_time_are_found_and_others_left_alone() {
        let text = "console=ttyS0 root=/dev/sda password=secret clocksource=tsc tsc=reliable clocksource=hpet vdso=0\n";
        let line = CommandLine::parse(text);
        assert_eq!(line.clocksource.as_deref(), Some("hpet"));
        assert_eq!(line.tsc, ["tsc=reliable"]);
        assert!(line.no_vdso && !line.no_hpet && line.against_tsc().is_none());
        let kept: Vec<_> = words(text).collect();
        assert_eq!(kept, ["clocksource=tsc", "tsc=reliable", "clocksource=hpet", "vdso=0"]);
        assert_eq!(CommandLine::parse("notsc").against_tsc(), Some("notsc"));
        assert_eq!(CommandLine::parse("tsc=unstable").against_tsc(), Some("tsc=unstable"));
        assert!(CommandLine::parse("hpet=disable").no_hpet && CommandLine::parse("nohpet").no_hpet);
        assert_eq!(CommandLine::parse("\0\u{fffd} = == clocksource"), CommandLine::default());
    }
}
