//! The report from computed pairs, to the last character.

use super::claims::Claim;
use super::report::{Against, Report, Settings, Steering};
use super::stability::{self, Phase};
use super::{CLOCKS, Track, text};
use crate::pair::{Pair, Rate};
use crate::render::Style;
use crate::simulated::Simulated;
use crate::world::World;

/// A counter of 2300.000023 MHz, read in brackets of 60 ticks, for so many tenths of a second; MONOTONIC goes 5 ppm
/// faster than MONOTONIC_RAW.
fn report(slots: u64) -> Report {
    let mut state = 7u64;
    let mut tracks =
        CLOCKS.map(|clock| Track { clock, first: None, last: None, phase: Phase::new(0.1) });
    for slot in 0..slots {
        for (track, ppm) in tracks.iter_mut().zip([0, 5]) {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let raw_ns = slot * 100_000_000;
            let ticks = u128::from(raw_ns) * 2_300_000_023 / 1_000_000_000;
            let before = u64::try_from(ticks).unwrap() + 1_000 - (state >> 60) % 8;
            let nanos = (raw_ns + raw_ns / 1_000_000 * ppm).cast_signed() + 13;
            let pair = Pair { before, nanos, after: before + 60 };
            track.first = track.first.or(Some(pair));
            track.last = Some(pair);
            track.phase.see(slot, &pair);
        }
    }
    let claim =
        |who, source: &str, hz: Option<f64>, off: Option<f64>, reason: Option<&str>| Claim {
            who,
            source: source.to_owned(),
            hz,
            off_ppm: off,
            refused: off.map(|off| off.abs() > 1_000.0),
            reason: reason.map(str::to_owned),
        };
    let claims = vec![
        claim("the processor", "CPUID leaf 0x15", Some(2.3e9), Some(-0.01), None),
        claim("sysfs", "/sys/devices/tsc_freq_khz", Some(4.6e9), Some(1e6), None),
        claim("the kernel's log", "/dev/kmsg", None, None, Some("no permission")),
    ];
    let settings = Settings {
        for_ns: 10_000_000_000,
        every_ns: 100_000_000,
        cpu: None,
        elapsed_ns: slots * 100_000_000,
        interrupted: slots < 100,
    };
    let against = tracks.each_ref().map(Against::of);
    let steering = Steering::of(Some(4.99), &tracks);
    let stability = stability::table(tracks.each_ref().map(|track| &track.phase));
    let machine = Simulated::new(7).machine().clone();
    Report::new(settings, machine, against, steering, claims, stability)
}

const PLAIN: Style = Style { colored: false, width: 100 };

#[test]
fn the_text_and_the_json_are_those_of_the_snapshots() {
    let report = report(100);
    insta::assert_snapshot!("calibrate_text", text::text(&report, PLAIN));
    insta::assert_snapshot!("calibrate_json", crate::render::json(&report));
    assert_eq!(report.status(), 0);
    let warnings = report.warnings();
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].contains("sysfs claims 4600.000 MHz"), "{warnings:?}");
    assert!(text::text(&report, PLAIN).lines().all(|line| line.chars().count() <= 100));
}

#[test]
fn a_narrow_terminal_breaks_remarks_at_spaces() {
    let report = report(100);
    let shown = |width| text::text(&report, Style { width, ..PLAIN });
    let words = |text: &str| {
        let mut words: Vec<_> = text.split_whitespace().map(str::to_owned).collect();
        words.sort();
        words
    };
    for width in [80, 85, 90] {
        let narrow = shown(width);
        assert!(narrow.lines().all(|line| line.chars().count() <= width), "{narrow}");
        assert_eq!(words(&narrow), words(&shown(100)), "{narrow}");
    }
    insta::assert_snapshot!("calibrate_narrow", shown(80));
}

#[test]
fn a_steering_within_its_uncertainty_is_none() {
    let mut report = report(100);
    let told = |report: &Report| text::text(report, PLAIN).replace('\n', " ");
    let about = |ppm| Steering {
        measured_ppm: Some(ppm),
        uncertainty_ppm: Some(0.027),
        kernel_ppm: Some(-0.000_01),
    };
    for (ppm, part) in [
        (-0.027, "goes as fast as MONOTONIC_RAW, the same within ±0.0270 ppm; the kernel"),
        (-0.028, "goes 0.0280 ppm slower than MONOTONIC_RAW (±0.0270)"),
        (0.028, "goes 0.0280 ppm faster than MONOTONIC_RAW (±0.0270)"),
    ] {
        report.steering = about(ppm);
        let told = told(&report);
        assert!(told.contains(part) && told.contains("that it corrects by nothing."), "{told}");
    }
}

#[test]
fn a_run_without_two_samples_has_reasons_and_no_figures() {
    let report = report(1);
    assert_eq!(report.status(), 2);
    assert!(report.raw.frequency_hz.is_none() && report.raw.reason.is_some());
    assert!(report.steering.measured_ppm.is_none() && report.stability.is_empty());
    let shown = text::text(&report, PLAIN);
    assert!(shown.lines().all(|line| line.chars().count() <= 100), "{shown}");
    insta::assert_snapshot!("calibrate_nothing", shown);
}

#[test]
fn the_measured_steering_is_that_of_the_clocks() {
    let steering = report(100).steering;
    let off = (steering.measured_ppm.unwrap() - 5.0).abs();
    assert!(off <= steering.uncertainty_ppm.unwrap(), "{steering:?}");
}

#[test]
fn beside_the_bar_stands_what_is_known() {
    let rate = Rate { least_hz: 2.299_999e9, most_hz: 2.300_001e9 };
    assert_eq!(
        text::progress(Some(rate), 3_210_000_000),
        "2300.000000 MHz ± 0.4348 ppm after 3.2 s"
    );
    assert_eq!(text::progress(None, 0), "no figure after 0.0 s");
}
