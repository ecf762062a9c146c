//! Spans of time on the command line: `500ms`, `0.5s`, `18h`, `1h30m`, `2d`; exact, in nanoseconds.

use anyhow::{Result, bail};
use std::time::Duration;

const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

/// Reads a span; `None` if it is none, or does not fit.
pub fn parse(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let mut sum = 0u64;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (digits, after) = rest.split_at(number);
        let end = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (name, more) = after.split_at(end);
        let (_, unit) = UNITS.into_iter().find(|&(unit, _)| unit == name)?;
        sum = sum.checked_add(times(digits, unit)?)?;
        rest = more.trim_start();
    }
    Some(Duration::from_nanos(sum))
}

/// A decimal number of units; what is below a nanosecond is dropped.
fn times(digits: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() || digits.ends_with('.') || fraction.contains('.') || fraction.len() > 18 {
        return None;
    }
    let whole = whole.parse::<u64>().ok()?.checked_mul(unit)?;
    let scale = 10u128.pow(fraction.len() as u32);
    let part = if fraction.is_empty() { 0 } else { fraction.parse::<u128>().ok()? };
    whole.checked_add(u64::try_from(part * u128::from(unit) / scale).ok()?)
}

/// For how long: from `least` to a year. The first of the examples has the unit that a bare number most likely means.
pub fn within(text: &str, least: Duration, as_in: &str) -> Result<Duration, String> {
    let span = parse(text).ok_or_else(|| refusal(text.trim(), as_in))?;
    if span.is_zero() {
        return Err(format!("no time at all; write it as in {as_in}"));
    }
    if span < least {
        let least = humantime::format_duration(least);
        return Err(format!("too short to tell anything; give at least {least}"));
    }
    if span > Duration::from_secs(366 * 86_400) {
        return Err("more than a year; give less".to_owned());
    }
    Ok(span)
}

/// Why that is no span.
fn refusal(text: &str, as_in: &str) -> String {
    let unit = as_in.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let unit = unit.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    match parse(&format!("{text}{unit}")) {
        // Only the unit is missing.
        Some(span) if !span.is_zero() => format!("write a unit, as in {text}{unit}"),
        Some(_) => format!("no time at all; write it as in {as_in}"),
        None => format!("not a duration; write it as in {as_in}"),
    }
}

/// From sample to sample: `default` where nothing is `given`, which may be longer than the whole run.
pub fn step(given: Option<Duration>, default: Duration, whole: Duration) -> Result<Duration> {
    if let Some(step) = given.filter(|&step| step > whole) {
        let [step, whole] = [step, whole].map(humantime::format_duration);
        bail!(
            "--every {step} is longer than --for {whole}: nothing would be taken in between; give less"
        );
    }
    Ok(given.unwrap_or(default))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_exact() {
        for (text, ns) in [
            ("50ns", 50),
            ("0.5s", 500_000_000),
            ("1.5s", 1_500_000_000),
            ("0.1ms", 100_000),
            ("18h", 64_800_000_000_000),
            ("1h30m", 5_400_000_000_000),
            ("2d", 172_800_000_000_000),
            ("1m 1s", 61_000_000_000),
            ("0.0000000019s", 1),
            ("0ns", 0),
        ] {
            assert_eq!(parse(text), Some(Duration::from_nanos(ns)), "{text}");
        }
    }

    #[test]
    fn what_is_no_span_is_refused() {
        for text in [
            "",
            " ",
            "5",
            "s",
            "-1s",
            "1.s",
            ".5s",
            "1..2s",
            "1x",
            "1e3s",
            "nan",
            "1h30",
            "1 s",
            "99999999999999999999s",
            "9999999999h",
            "0.0000000000000000001s",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn no_time_and_too_little_are_refused_in_words() {
        let told = |text| within(text, Duration::from_millis(10), "10s or 18h").unwrap_err();
        assert!(told("0").contains("no time at all; write it as in 10s or 18h"));
        for (text, part) in [("5", "write a unit, as in 5s"), ("0.5", "write a unit, as in 0.5s")] {
            assert_eq!(told(text), part);
        }
        for text in ["", "-5", "soon", "5 parsecs"] {
            assert!(told(text).contains("not a duration; write it as in 10s"), "{text}");
        }
        let limit = |text| within(text, Duration::from_nanos(1), "50ns or 2us").unwrap_err();
        assert_eq!(limit("50"), "write a unit, as in 50ns");
        assert!(told("0s").contains("no time at all"));
        assert!(told("1ms").contains("at least 10ms"));
        assert!(told("400d").contains("more than a year"));
    }

    #[test]
    fn a_step_that_was_asked_for_is_not_longer_than_the_whole() {
        let [short, long] = [10, 20].map(Duration::from_millis);
        assert_eq!(step(None, long, short).unwrap(), long, "nobody has asked for it");
        assert_eq!(step(Some(short), long, short).unwrap(), short);
        let told = step(Some(long), short, short).unwrap_err().to_string();
        assert!(told.contains("--every 20ms is longer than --for 10ms"), "{told}");
    }
}
