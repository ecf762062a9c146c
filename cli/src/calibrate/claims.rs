//! What others say of the counter's frequency, each beside the measurement.
//!
//! Must never be used for anything but to be shown: a claim more than 1000 ppm off is refused in words.

use crate::machine::{Fact, Machine, Root, words};
use crate::pair::Rate;
use serde::Serialize;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;

/// A claim beyond this is refused.
const REFUSED_PPM: f64 = 1_000.0;
/// The kernel's log is read so far: its ring is smaller as a rule.
const LOG_RECORDS_MAX: usize = 65_536;

/// A claim.
#[derive(Clone, Debug, Serialize)]
pub struct Claim {
    /// Who says so.
    pub who: &'static str,
    /// Where it was read.
    pub source: String,
    /// What is claimed.
    pub hz: Option<f64>,
    /// How far the claim is from the measurement.
    pub off_ppm: Option<f64>,
    /// Whether it is more than 1000 ppm off.
    pub refused: Option<bool>,
    /// Why there is no claim.
    pub reason: Option<String>,
}

/// All of them. The kernel's own belief is the rate of MONOTONIC_RAW, if that is computed from the counter.
pub fn all(root: &Root, machine: &Machine, rate: Option<Rate>) -> Vec<Claim> {
    let measured = rate.map(|rate| rate.hz());
    let claim = |who, source: &str, told: Result<f64, String>| {
        let off =
            told.as_ref().ok().zip(measured).map(|(hz, measured)| (hz / measured - 1.0) * 1e6);
        Claim {
            who,
            source: source.to_owned(),
            hz: told.as_ref().ok().copied(),
            off_ppm: off,
            refused: off.map(|off| off.abs() > REFUSED_PPM),
            reason: told.err(),
        }
    };
    let cpuid = machine.claimed_hz.map(|hz| hz as f64).ok_or_else(|| {
        machine.frequency_claimed.reason.clone().unwrap_or_else(|| "not told".to_owned())
    });
    let path = "/sys/devices/system/cpu/cpu0/tsc_freq_khz";
    let sysfs = root.read(path);
    vec![
        claim("the processor", &machine.frequency_claimed.source, cpuid),
        claim("sysfs", path, kilohertz(&sysfs)),
        claim("the kernel's log", "/dev/kmsg", log().and_then(|text| from_log(&text))),
    ]
}

/// Zero means "not told".
fn kilohertz(fact: &Fact) -> Result<f64, String> {
    let Some(text) = &fact.value else {
        return Err(fact.reason.clone().unwrap_or_else(|| "not told".to_owned()));
    };
    match text.parse::<u64>() {
        Ok(0) => Err("not told (0)".to_owned()),
        Ok(khz) => Ok(khz as f64 * 1e3),
        Err(_) => Err("not a number".to_owned()),
    }
}

/// What the kernel has logged about the counter, a record a line.
fn log() -> Result<String, String> {
    let mut options = std::fs::OpenOptions::new();
    let file = options.read(true).custom_flags(libc::O_NONBLOCK).open("/dev/kmsg");
    let mut file = file.map_err(|error| words(&error))?;
    let mut text = String::new();
    let mut record = [0; 8_192];
    for _ in 0..LOG_RECORDS_MAX {
        match file.read(&mut record) {
            Ok(0) => break,
            Ok(length) => {
                let line = String::from_utf8_lossy(&record[..length]);
                if line.contains("tsc: ") {
                    text.push_str(&line);
                    text.push('\n');
                }
            }
            // A record was overwritten while it was to be read; the next one is not.
            Err(error) if error.raw_os_error() == Some(libc::EPIPE) => {}
            // The end, for the time being.
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(words(&error)),
        }
    }
    Ok(text)
}

/// The last of the lines `tsc: Refined TSC clocksource calibration: 2299.998 MHz`, or of `tsc: Detected 2300.000 MHz
/// processor`, which is of the counter too.
fn from_log(text: &str) -> Result<f64, String> {
    let last = |what: &str, more: &str| {
        text.lines().rfind(|line| line.contains(what) && line.contains(more))
    };
    let line = last("tsc: Refined TSC", "").or(last("tsc: Detected", "TSC"));
    let line = line.or(last("tsc: Detected", ""));
    let line = line.ok_or("not in the log (any more)")?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let unit = words.iter().position(|word| word.starts_with("MHz")).filter(|&at| at > 0);
    let mhz = unit.and_then(|at| words[at - 1].parse::<f64>().ok()).filter(|mhz| *mhz > 0.0);
    mhz.filter(|mhz| mhz.is_finite()).map(|mhz| mhz * 1e6).ok_or("not understood".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_refined_figure_of_the_log_is_preferred() {
        let detected = "6,100,0,-;tsc: Detected 2300.000 MHz processor\n";
        let counter = "6,101,0,-;tsc: Detected 2100.000 MHz TSC\n";
        let refined = "6,300,9,-;tsc: Refined TSC clocksource calibration: 2299.998 MHz\n";
        assert_eq!(from_log(&[detected, refined].concat()), Ok(2_299_998_000.0));
        assert_eq!(from_log(&[detected, counter].concat()), Ok(2_100_000_000.0));
        assert_eq!(from_log(detected), Ok(2_300_000_000.0));
        assert!(from_log("").unwrap_err().contains("not in the log"));
        for wrong in ["tsc: Detected MHz processor", "tsc: Detected x MHz", "tsc: Detected 0 MHz"] {
            assert_eq!(from_log(wrong), Err("not understood".to_owned()), "{wrong}");
        }
    }

    #[test]
    fn zeros_are_not_told_and_nonsense_is_not_believed() {
        let told = |text: &str| kilohertz(&Fact::new(text, "x"));
        assert_eq!(told("2299998"), Ok(2_299_998_000.0));
        assert!(told("0").unwrap_err().contains("not told"));
        assert!(told("-1").is_err() && told("").is_err());
        assert_eq!(kilohertz(&Fact::missing("x", "not there")), Err("not there".to_owned()));
    }

    #[test]
    fn a_claim_more_than_a_thousand_ppm_off_is_refused() {
        let root = Root::at(std::path::Path::new("/nonexistent"));
        let world = crate::simulated::Simulated::new(7);
        let mut machine = crate::world::World::machine(&world).clone();
        let rate = Rate { least_hz: 999_999.0, most_hz: 1_000_001.0 };
        for (claimed, refused) in
            [(1_000_999, false), (1_001_001, true), (998_999, true), (1, true)]
        {
            machine.claimed_hz = Some(claimed);
            let claim = &all(&root, &machine, Some(rate))[0];
            assert_eq!(claim.refused, Some(refused), "{claimed}");
        }
        machine.claimed_hz = None;
        let claim = &all(&root, &machine, Some(rate))[0];
        assert!(claim.hz.is_none() && claim.off_ppm.is_none() && claim.reason.is_some());
        machine.claimed_hz = Some(5);
        assert_eq!(all(&root, &machine, None)[0].refused, None, "nothing was measured");
    }
}
