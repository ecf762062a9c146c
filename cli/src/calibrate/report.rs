//! The result of a calibration as data. A figure that does not exist is `null` beside a reason.

use super::Track;
use super::claims::Claim;
use super::stability::Row;
use crate::machine::Machine;
use crate::pair::Rate;
use serde::Serialize;

/// Version of the schema.
pub const VERSION: u32 = 1;
/// A rate that is known less well than this is none.
const UNCERTAINTY_MAX_PPM: f64 = 1_000.0;
/// One that is known less well than this is called so.
const CERTAIN_PPM: f64 = 1.0;

/// A whole calibration.
#[derive(Debug, Serialize)]
pub struct Report {
    /// `clockwise.calibrate`.
    pub schema: &'static str,
    /// [`VERSION`].
    pub version: u32,
    /// Version of the tool.
    pub tool_version: &'static str,
    /// How it was made.
    pub settings: Settings,
    /// Everything that the figures must be read with.
    pub machine: Machine,
    /// Against MONOTONIC_RAW, which is not steered.
    pub raw: Against,
    /// Against MONOTONIC, which is.
    pub monotonic: Against,
    /// How much faster MONOTONIC goes than MONOTONIC_RAW.
    pub steering: Steering,
    /// What others say.
    pub claims: Vec<Claim>,
    /// By averaging time.
    pub stability: Vec<Row>,
    /// Why there is no stability.
    pub stability_reason: Option<&'static str>,
}

/// How it was made.
#[derive(Debug, Serialize)]
pub struct Settings {
    /// Time asked for.
    pub for_ns: u64,
    /// From sample to sample.
    pub every_ns: u64,
    /// The processor, if one was given.
    pub cpu: Option<usize>,
    /// Time taken.
    pub elapsed_ns: u64,
    /// It was ended early.
    pub interrupted: bool,
}

/// The counter's rate against a clock.
#[derive(Debug, Serialize)]
pub struct Against {
    /// The kernel's name of the clock.
    pub clock: String,
    /// Ticks per second.
    pub frequency_hz: Option<f64>,
    /// Either way, for sure: what the brackets leave open.
    pub uncertainty_ppm: Option<f64>,
    /// Known to better than a millionth.
    pub certain: Option<bool>,
    /// Why there is none.
    pub reason: Option<&'static str>,
}

/// The rates that are good enough to be told.
fn told(rate: Option<Rate>) -> Result<Rate, &'static str> {
    let rate = rate.ok_or("too short a run, or no advance")?;
    if rate.uncertainty_ppm() > UNCERTAINTY_MAX_PPM {
        return Err("too short a run: not known to 1000 ppm");
    }
    Ok(rate)
}

impl Against {
    pub(super) fn of(track: &Track) -> Self {
        let clock = format!("CLOCK_{}", track.clock.name().unwrap_or("?"));
        match told(track.rate()) {
            Ok(rate) => Self {
                clock,
                frequency_hz: Some(rate.hz()),
                uncertainty_ppm: Some(rate.uncertainty_ppm()),
                certain: Some(rate.uncertainty_ppm() <= CERTAIN_PPM),
                reason: None,
            },
            Err(reason) => Self {
                clock,
                frequency_hz: None,
                uncertainty_ppm: None,
                certain: None,
                reason: Some(reason),
            },
        }
    }
}

/// What NTP does to MONOTONIC.
#[derive(Debug, Serialize)]
pub struct Steering {
    /// Measured: the counter's rate against RAW over that against MONOTONIC.
    pub measured_ppm: Option<f64>,
    /// The uncertainties of both.
    pub uncertainty_ppm: Option<f64>,
    /// What the kernel says that it corrects (`adjtimex`), slews not included.
    pub kernel_ppm: Option<f64>,
}

impl Steering {
    pub(super) fn of(kernel_ppm: Option<f64>, [raw, monotonic]: &[Track; 2]) -> Self {
        let both = told(raw.rate()).ok().zip(told(monotonic.rate()).ok());
        Self {
            measured_ppm: both.map(|(raw, monotonic)| (raw.hz() / monotonic.hz() - 1.0) * 1e6),
            uncertainty_ppm: both
                .map(|(raw, monotonic)| raw.uncertainty_ppm() + monotonic.uncertainty_ppm()),
            kernel_ppm,
        }
    }
}

impl Report {
    pub(super) fn new(
        settings: Settings,
        machine: Machine,
        [raw, monotonic]: [Against; 2],
        steering: Steering,
        claims: Vec<Claim>,
        stability: Vec<Row>,
    ) -> Self {
        let stability_reason = stability.is_empty().then_some(
            "fewer than five samples: give more time with --for, or take them more often with --every",
        );
        Self {
            schema: "clockwise.calibrate",
            version: VERSION,
            tool_version: env!("CARGO_PKG_VERSION"),
            settings,
            machine,
            raw,
            monotonic,
            steering,
            claims,
            stability,
            stability_reason,
        }
    }

    /// The exit status.
    pub fn status(&self) -> u8 {
        if self.raw.frequency_hz.or(self.monotonic.frequency_hz).is_some() { 0 } else { 2 }
    }

    /// For standard error.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.settings.interrupted {
            warnings.push("interrupted: the figures are of a shorter run than asked".to_owned());
        }
        for against in [&self.raw, &self.monotonic] {
            if let Some(reason) = against.reason {
                warnings.push(format!("no frequency against {}: {reason}", against.clock));
            }
        }
        for claim in self.claims.iter().filter(|claim| claim.refused == Some(true)) {
            if let (Some(hz), Some(off)) = (claim.hz, claim.off_ppm) {
                warnings.push(format!(
                    "{} claims {:.3} MHz, which is {off:+.0} ppm off the measurement: not believed",
                    claim.who,
                    hz / 1e6
                ));
            }
        }
        warnings
    }
}
