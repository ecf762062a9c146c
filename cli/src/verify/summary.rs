//! The result of a verification as data: what both formats are made from, and the verdict.
//!
//! Field names carry their unit last. A figure that does not exist is `null`; where that could surprise, a reason stands
//! beside it.

use super::judge::{Broken, Count};
use super::tally::{STRETCHES_MIN, Tally};
use crate::machine::Machine;
use clockwise::Status;
use serde::Serialize;
use std::time::Duration;

/// Version of the schema.
pub const VERSION: u32 = 1;

/// A whole verification.
#[derive(Debug, Serialize)]
pub struct Summary {
    /// `clockwise.verify`.
    pub schema: &'static str,
    /// [`VERSION`].
    pub version: u32,
    /// Version of the tool.
    pub tool_version: &'static str,
    /// What was verified, and how.
    pub settings: Settings,
    /// Everything that the figures must be read with.
    pub machine: Machine,
    /// `held`, `broken` or `not_verified`.
    pub verdict: Verdict,
    /// The same in a sentence.
    pub verdict_text: String,
    /// For how long it was verified.
    pub elapsed_ns: u64,
    /// It was ended early.
    pub interrupted: bool,
    /// Readings, half of them with their bound.
    pub readings: u64,
    /// Those with their bound.
    pub readings_with_bound: u64,
    /// Of those, computed from the counter.
    pub from_counter: u64,
    /// Times of other threads that were seen just before a reading; none for a clock that can be set.
    pub handed_over: u64,
    /// How the difference grows.
    pub drift: Trend,
    /// How far readings are from the middle of narrow brackets.
    pub distance: Distance,
    /// The reading that was surely farthest: beyond its bracket by so much, later than the kernel if positive.
    pub provable: At,
    /// What was broken, and how often; with the user's limit if there is one.
    pub laws: Vec<LawRow>,
    /// Readings that a step explains, which count nowhere else.
    pub excused: u64,
    /// What the subject says of itself.
    pub subject: Option<Own>,
    /// What the kernel says of itself.
    pub kernel: Kernels,
    /// By thread.
    pub readers: Vec<Row>,
    /// Events that came too fast to be written down.
    pub events_lost: u64,
    /// Lines are missing in the log.
    pub log_incomplete: bool,
}

/// What came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Every reading obeyed.
    Held,
    /// One did not, or the kernel contradicted itself.
    Broken,
    /// No reading came from the counter.
    NotVerified,
}

/// What was asked for.
#[derive(Clone, Debug, Serialize)]
pub struct Settings {
    /// The kernel's name of the clock.
    pub clock: String,
    /// Somebody can set it: it may go back by a step, and is not asked for causality.
    pub settable: bool,
    /// What was verified, in words.
    pub subject: String,
    /// For how long.
    pub for_ns: u64,
    /// From line to line.
    pub every_ns: u64,
    /// The user's limit.
    pub max_error_ns: Option<u64>,
}

/// A slope.
#[derive(Debug, Default, Serialize)]
pub struct Trend {
    /// Parts per million; ours gains on the kernel if positive.
    pub ppm: Option<f64>,
    /// Either way: twice the standard error, and what the brackets leave open.
    pub uncertainty_ppm: Option<f64>,
    /// Why there is none.
    pub reason: Option<String>,
}

/// A distribution. A percentile is `null` where fewer than ten readings lie beyond it.
#[derive(Debug, Default, Serialize)]
pub struct Distance {
    /// Readings in narrow brackets.
    pub count: u64,
    /// Half of them are nearer.
    pub p50_ns: Option<u64>,
    /// 90 %.
    pub p90_ns: Option<u64>,
    /// 99 %.
    pub p99_ns: Option<u64>,
    /// 99.9 %.
    pub p99_9_ns: Option<u64>,
    /// 99.99 %.
    pub p99_99_ns: Option<u64>,
    /// The earliest, signed.
    pub least_ns: Option<i64>,
    /// The latest, signed.
    pub most_ns: Option<i64>,
}

impl Distance {
    /// Of a tally.
    pub fn of(tally: &Tally) -> Self {
        let extremes = tally.extremes();
        Self {
            count: tally.narrow_count(),
            p50_ns: tally.distance_at(0.5),
            p90_ns: tally.distance_at(0.9),
            p99_ns: tally.distance_at(0.99),
            p99_9_ns: tally.distance_at(0.999),
            p99_99_ns: tally.distance_at(0.9999),
            least_ns: extremes.map(|(least, _)| least),
            most_ns: extremes.map(|(_, most)| most),
        }
    }
}

impl Trend {
    /// Of a tally.
    pub fn of(tally: &Tally) -> Self {
        match tally.drift_ppm() {
            Some((ppm, uncertainty_ppm)) => {
                Self { ppm: Some(ppm), uncertainty_ppm: Some(uncertainty_ppm), reason: None }
            }
            None => Self {
                reason: Some(format!(
                    "fewer than {STRETCHES_MIN} quarters of a second with readings in narrow brackets"
                )),
                ..Self::default()
            },
        }
    }
}

/// A reading that stands out.
#[derive(Debug, Default, Serialize)]
pub struct At {
    /// By so much.
    pub by_ns: i64,
    /// When, since the beginning.
    pub elapsed_ns: i64,
}

/// A law, or the user's limit.
#[derive(Debug, Serialize)]
pub struct LawRow {
    /// `monotonic`, `causal`, `bounded`, `steady` or `max_error`.
    pub name: &'static str,
    /// Whether it was asked: a reading has to come from the counter, for causality a time of another thread has to be seen,
    /// and a limit to be given.
    pub asked: bool,
    /// How often it was broken.
    pub violations: u64,
    /// By how much at most.
    pub worst_ns: Option<u64>,
}

/// [`Status`] at the end.
#[derive(Debug, Serialize)]
pub struct Own {
    pub frequency_hz: Option<u64>,
    pub period_ns: Option<u64>,
    pub refreshes: u64,
    pub kernel_answers: u64,
    pub slews: u64,
    pub aheads: u64,
    pub steps: u64,
    pub distrusts: u64,
    pub residual_max_ns: u64,
    pub unfit: Option<String>,
}

impl From<&Status> for Own {
    fn from(status: &Status) -> Self {
        let known = |figure: u64| Some(figure).filter(|&figure| figure > 0);
        Self {
            frequency_hz: known(status.frequency_hz),
            period_ns: known(status.period_ns),
            refreshes: status.refreshes,
            kernel_answers: status.kernel_answers,
            slews: status.slews,
            aheads: status.aheads,
            steps: status.steps,
            distrusts: status.distrusts,
            residual_max_ns: status.residual_max_ns,
            unfit: status.unfit.map(|reason| reason.to_string()),
        }
    }
}

/// The reference.
#[derive(Debug, Default, Serialize)]
pub struct Kernels {
    /// Whether it was read through the vDSO.
    pub vdso: bool,
    /// How often vDSO and system call were compared.
    pub compared: u64,
    /// How often the vDSO was not between two system calls.
    pub disagreed: u64,
    /// How often its clock was set.
    pub steps: u64,
}

/// One thread.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Its processor; `null` for the one that takes the lines, on any.
    pub cpu: Option<usize>,
    /// Its readings.
    pub readings: u64,
    /// As for all.
    pub distance: Distance,
    /// As for all.
    pub provable_ns: i64,
    /// What was broken there.
    pub violations: u64,
    /// It did not stay on its processor: why.
    pub moved: Option<String>,
}

/// The rows of the laws.
///
/// Of a clock that was the kernel's own all the time nothing is asked: it would be compared with itself.
pub fn laws(counts: &[Count; 5], from_counter: u64, handed_over: u64, limit: bool) -> Vec<LawRow> {
    let rows = Broken::ALL.into_iter().zip(counts).map(|(broken, count)| LawRow {
        name: broken.name(),
        asked: match broken.name() {
            _ if count.times > 0 => true,
            _ if from_counter == 0 => false,
            "causal" => handed_over > 0,
            "max_error" => limit,
            _ => true,
        },
        violations: count.times,
        worst_ns: (count.times > 0).then_some(count.worst_ns),
    });
    rows.collect()
}

impl Summary {
    /// Whether nothing came from the counter and nothing was found either: then there are no figures to tell.
    pub fn verified_nothing(&self) -> bool {
        self.from_counter == 0 && self.verdict != Verdict::Broken
    }

    /// The exit status.
    pub fn status(&self) -> u8 {
        match self.verdict {
            Verdict::Held => 0,
            Verdict::Broken => 1,
            Verdict::NotVerified => 2,
        }
    }

    /// Comes to the verdict.
    pub fn judge(&mut self) {
        let broken: Vec<String> = self.broken();
        let clock = &self.settings.clock;
        let time = span(self.elapsed_ns);
        (self.verdict, self.verdict_text) = if !broken.is_empty() {
            (Verdict::Broken, format!("Broken: {}.", broken.join("; ")))
        } else if self.from_counter == 0 {
            let unfit = self.subject.as_ref().and_then(|own| own.unfit.clone());
            let why = unfit.unwrap_or_else(|| {
                "there was no time for a line (the first 1.2 ms of reading are the kernel's)".into()
            });
            let text = format!("Nothing was verified: the readings are the kernel's own: {why}.");
            (Verdict::NotVerified, text)
        } else {
            let far = match self.provable.by_ns.unsigned_abs() {
                0 => "none was provably off the kernel's clock".to_owned(),
                ns => format!("the farthest was provably {ns} ns off the kernel's clock"),
            };
            let readings = grouped(self.readings);
            let doubt = self.doubt();
            let text = format!(
                "Held: {readings} readings of {clock} in {time} obey its laws; {far}{doubt}."
            );
            (Verdict::Held, text)
        };
    }

    /// What the verdict rests on the subject's own word for.
    fn doubt(&self) -> &'static str {
        let steps = self.subject.as_ref().map_or(0, |own| own.steps);
        if self.excused > 0 && steps > self.kernel.steps {
            "; but some were off until the clock noticed a step that the kernel's other clocks do not show: a step of the \
             counter (a migration), or a fault"
        } else {
            ""
        }
    }

    fn broken(&self) -> Vec<String> {
        let sentence = |row: &LawRow| {
            let broken = Broken::ALL.into_iter().find(|broken| broken.name() == row.name)?;
            let worst = broken.words(row.worst_ns?);
            Some(match row.violations {
                1 => worst,
                times => format!("{worst} at most ({} times)", grouped(times)),
            })
        };
        let mut all: Vec<String> = self.laws.iter().filter_map(sentence).collect();
        if self.kernel.disagreed > 0 {
            let times = grouped(self.kernel.disagreed);
            all.push(format!("the kernel's vDSO contradicts its system call ({times} times)"));
        }
        all
    }
}

/// A span of time in words, not finer than anybody asks.
pub fn span(ns: u64) -> String {
    let ms = ns / 1_000_000;
    let ms = if ms < 10_000 { ms } else { ms / 1_000 * 1_000 };
    humantime::format_duration(Duration::from_millis(ms)).to_string()
}

/// Digits in groups of three.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped_from_the_right() {
        for (number, text) in
            [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567"), (12_345, "12,345")]
        {
            assert_eq!(grouped(number), text);
        }
    }
}
