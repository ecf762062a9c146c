//! What to know beside the figures: an enum, so that every note has one place, one text and a test.
//!
//! A note says what was seen and what to do. Must never repeat a figure without saying what it means.

use crate::evaluate::TOO_FEW;
use crate::measure::{OVER, Plan};
use crate::report::{CounterRate, NoteText, Row, Settings, dropped_percent};
use crate::sources::Promises;
use crate::world::World;

/// Something a reader of the figures should know.
#[derive(Clone, Debug, PartialEq)]
pub enum Note {
    /// The process may not read the counter.
    CounterForbidden(String),
    /// CPUID is caught by a hypervisor.
    CpuidTraps { ns: f64 },
    /// libc costs as much as a system call although there is a vDSO, or there is none.
    ReadsAreSystemCalls { libc_ns: f64, clocksource: String },
    /// MONOTONIC_RAW costs much more than MONOTONIC.
    RawIsSlow { ratio: f64 },
    /// A sandbox denies some rows.
    Denied { rows: usize, example: String },
    /// Two threads cannot be compared on one processor.
    OneProcessor,
    /// Threads cannot be started or kept where they should be.
    NoThreads(String),
    /// Whether the kernel trusts the counter is not known.
    ClocksourceUnknown(String),
    /// Many batches did not count.
    Disturbed { percent: f64 },
    /// The thread did not have its processor for much of the time.
    Starved { percent: f64 },
    /// The budget ended before every source had its turn.
    TooShort { rows: usize },
    /// Some figures rest on very few batches.
    FewBatches { rows: usize },
    /// The budget ended before something beside the cost was looked at.
    Skipped { rows: usize },
    /// No row has a figure.
    NothingMeasured { example: String },
    /// A signal ended the run.
    Interrupted { rounds: u64 },
    /// The counter is not the kernel's clocksource: across threads it promises nothing here.
    CounterNotTrusted { clocksource: String },
    /// The claimed frequency is not the measured one.
    ClaimRefused { claimed_hz: u64, measured_hz: f64 },
    /// A clock went back in one thread though it promises not to.
    WentBack { row: String, count: u64, worst_ns: f64 },
    /// A clock showed one thread a time before one that it had seen from another.
    NotCausal { row: String, per_million: f64, worst_ns: f64, promised: bool },
}

impl Note {
    /// Whether the machine breaks a promise of its own.
    pub fn is_fault(&self) -> bool {
        matches!(self, Self::WentBack { .. } | Self::NotCausal { promised: true, .. })
    }

    /// Whether something that was asked could not be told.
    pub fn is_unanswered(&self) -> bool {
        matches!(self, Self::Interrupted { .. } | Self::NothingMeasured { .. })
    }

    /// A stable name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::CounterForbidden(_) => "counter_forbidden",
            Self::CpuidTraps { .. } => "cpuid_traps",
            Self::ReadsAreSystemCalls { .. } => "reads_are_system_calls",
            Self::RawIsSlow { .. } => "raw_is_slow",
            Self::Denied { .. } => "denied",
            Self::OneProcessor => "one_processor",
            Self::NoThreads(_) => "no_threads",
            Self::ClocksourceUnknown(_) => "clocksource_unknown",
            Self::Disturbed { .. } => "disturbed",
            Self::Starved { .. } => "starved",
            Self::TooShort { .. } => "too_short",
            Self::FewBatches { .. } => "few_batches",
            Self::Skipped { .. } => "skipped",
            Self::NothingMeasured { .. } => "nothing_measured",
            Self::Interrupted { .. } => "interrupted",
            Self::CounterNotTrusted { .. } => "counter_not_trusted",
            Self::ClaimRefused { .. } => "claim_refused",
            Self::WentBack { .. } => "went_back",
            Self::NotCausal { .. } => "not_causal",
        }
    }

    /// In words, with the remedy.
    pub fn text(&self) -> String {
        match self {
            Self::CounterForbidden(reason) => format!("{reason}; the rest was measured"),
            Self::CpuidTraps { ns } => format!(
                "cpuid costs {ns:.0} ns: a hypervisor catches it; compare with the ordered counter \
                 instead"
            ),
            Self::ReadsAreSystemCalls { libc_ns, clocksource } => format!(
                "reading the time is a system call here ({libc_ns:.0} ns): clocksource {clocksource} \
                 cannot be read by the vDSO, or there is none"
            ),
            Self::RawIsSlow { ratio } => format!(
                "MONOTONIC_RAW costs {ratio:.1} times MONOTONIC: use MONOTONIC, or a newer kernel \
                 (5.3)"
            ),
            Self::Denied { rows, example } => {
                format!("{rows} rows are denied here, {example}; run outside the sandbox for them")
            }
            Self::OneProcessor => {
                "causality was not tried: it needs two processors and this process \
                                   may use one (see taskset, --cpus)"
                    .to_owned()
            }
            Self::NoThreads(reason) => {
                format!("causality was not tried: {reason}; allow threads and try again")
            }
            Self::ClocksourceUnknown(reason) => format!(
                "the clocksource cannot be read ({reason}), so whether the kernel trusts the counter \
                 is not known; run where /sys can be read"
            ),
            Self::Disturbed { percent } => format!(
                "{percent:.0} % of the batches were disturbed and do not count: the machine is busy; \
                 trust CPU time and minima, or run again when it is idle"
            ),
            Self::Starved { percent } => format!(
                "the measuring thread had a processor for {percent:.0} % of the time: the machine is \
                 busy; trust CPU time and minima, or run again when it is idle"
            ),
            Self::FewBatches { rows } => format!(
                "{rows} rows rest on fewer than 6 batches, and their medians on luck; give more with \
                 --time"
            ),
            Self::Skipped { rows } => format!(
                "the time ended before steps, causality, threads or first calls of {rows} rows were \
                 looked at; give more with --time"
            ),
            Self::TooShort { rows } => {
                format!("{rows} rows have no figure: the time was too short; give more with --time")
            }
            Self::NothingMeasured { example } if example.ends_with(OVER) => {
                format!("nothing was measured: {example}; give more with --time")
            }
            Self::NothingMeasured { example } => {
                format!("nothing was measured: {example}; choose other sources with --only")
            }
            Self::Interrupted { rounds } => {
                format!("interrupted: the figures are of {rounds} complete rounds")
            }
            Self::CounterNotTrusted { clocksource } => format!(
                "the kernel uses {clocksource}, not the counter: across processors the counter \
                 promises nothing here"
            ),
            Self::ClaimRefused { claimed_hz, measured_hz } => format!(
                "the processor claims {:.3} MHz for its counter and {:.3} MHz were measured: the \
                 claim is not used",
                *claimed_hz as f64 / 1e6,
                measured_hz / 1e6
            ),
            Self::WentBack { row, count, worst_ns } => format!(
                "{row} went back {count} times in one thread, by {worst_ns:.0} ns at most: it must \
                 not; if the syscall rows do not, something was preloaded (LD_PRELOAD), else see the \
                 kernel's log"
            ),
            Self::NotCausal { row, per_million, worst_ns, promised } => {
                let verdict = if *promised {
                    "it must not: the processors' clocks disagree; see the kernel's log"
                } else {
                    "it promises no order: use an ordered read across threads"
                };
                format!(
                    "{row}: after {per_million:.0} of a million hand-overs the receiving thread read an \
                     older time than it had been given, by up to {worst_ns:.0} ns; {verdict}"
                )
            }
        }
    }
}

impl From<&Note> for NoteText {
    fn from(note: &Note) -> Self {
        Self { name: note.name(), text: note.text(), is_fault: note.is_fault() }
    }
}

/// Everything that a run gives reason to say.
pub fn raise(
    world: &dyn World,
    plan: &Plan,
    rows: &[Row],
    counter: &CounterRate,
    settings: &Settings,
    cpuid_ns: Option<f64>,
) -> Vec<Note> {
    let machine = world.machine();
    let median = |name: &str| {
        rows.iter().find(|row| row.name == name).and_then(|row| row.throughput.median_ns)
    };
    let clocksource = || machine.clocksource.text();
    let mut notes = Vec::new();

    if settings.interrupted {
        notes.push(Note::Interrupted { rounds: settings.rounds });
    }
    notes.extend(machine.counter.reason.clone().map(Note::CounterForbidden));
    // An unvirtualised cpuid takes some 100 cycles; a trap to a hypervisor takes thousands.
    let shows_cpuid = rows.iter().any(|row| row.name.starts_with("counter/cpuid"));
    let trapped_ns = cpuid_ns.filter(|&ns| shows_cpuid && ns > 1_000.0);
    notes.extend(trapped_ns.map(|ns| Note::CpuidTraps { ns }));
    if let (Some(libc_ns), Some(system_ns)) =
        (median("libc/monotonic"), median("syscall/monotonic"))
        && libc_ns > 0.8 * system_ns
    {
        notes.push(Note::ReadsAreSystemCalls { libc_ns, clocksource: clocksource() });
    }
    if let (Some(raw), Some(plain)) = (median("libc/monotonic_raw"), median("libc/monotonic"))
        && raw > 3.0 * plain
    {
        notes.push(Note::RawIsSlow { ratio: raw / plain });
    }
    let denied: Vec<&Row> = rows.iter().filter(|row| is_denied(row)).collect();
    if let Some(first) = denied.first() {
        let reason = first.reason.as_deref().unwrap_or("without a reason");
        let example = format!("e.g. {} {reason}", first.name);
        notes.push(Note::Denied { rows: denied.len(), example });
    }
    if let Err(reason) = world.pairs() {
        notes.push(match world.processors() {
            0 | 1 => Note::OneProcessor,
            _ => Note::NoThreads(reason),
        });
    }
    let disturbed_percent = dropped_percent(rows.iter().flat_map(Row::costs));
    if disturbed_percent > 20.0 {
        notes.push(Note::Disturbed { percent: disturbed_percent });
    }
    let unmeasured = rows.iter().filter(|row| row.status == "no sample").count();
    if let Some(first) = rows.first().filter(|_| rows.iter().all(|row| row.status != "measured")) {
        let reason = first.reason.as_deref().unwrap_or("without a reason");
        notes.push(Note::NothingMeasured { example: format!("{}: {reason}", first.name) });
    }
    if unmeasured > 0 {
        notes.push(Note::TooShort { rows: unmeasured });
    }
    notes.extend(thin(rows, settings));
    let reads_counter =
        rows.iter().any(|row| row.quality.steps.iter().any(|s| s.step_ticks.is_some()));
    if let Some(reason) = machine.clocksource.reason.clone() {
        notes.push(Note::ClocksourceUnknown(reason));
    } else if reads_counter && !machine.counter_trusted {
        notes.push(Note::CounterNotTrusted { clocksource: clocksource() });
    }
    if let (Some(claimed_hz), Some(measured_hz), Some(false)) =
        (counter.claimed_hz, counter.frequency_hz, counter.claim_agrees)
    {
        notes.push(Note::ClaimRefused { claimed_hz, measured_hz });
    }
    for row in rows {
        let source = plan.selected.iter().map(|&source| &world.sources()[source]);
        let promises =
            source.filter(|source| source.name == row.name).map(|source| source.promises);
        let mut promises = promises.last().unwrap_or(Promises { monotonic: false, causal: false });
        if row.via == crate::sources::Via::Counter && !machine.counter_trusted {
            promises = Promises { monotonic: false, causal: false };
        }
        notes.extend(broken(row, promises));
    }
    notes
}

/// What rests on too little.
fn thin(rows: &[Row], settings: &Settings) -> Vec<Note> {
    let mut notes = Vec::new();
    let starved = settings.cpu_share_percent.filter(|&percent| percent < 80.0);
    notes.extend(starved.map(|percent| Note::Starved { percent }));
    let measured = || rows.iter().filter(|row| row.status == "measured");
    let few = measured().filter(|row| row.throughput.batches < 6).count();
    if few > 0 {
        notes.push(Note::FewBatches { rows: few });
    }
    let is_over = |reason: &Option<String>| {
        reason.as_deref().is_some_and(|reason| reason == OVER || reason.ends_with(TOO_FEW))
    };
    let skipped = measured()
        .filter(|row| {
            is_over(&row.quality.reason)
                || is_over(&row.quality.causality.reason)
                || row.threads.iter().any(|crowd| is_over(&crowd.reason))
                || row.cold.as_ref().is_some_and(|cold| is_over(&cold.reason))
        })
        .count();
    // Of a run that was ended early that is no news.
    if skipped > 0 && !settings.interrupted {
        notes.push(Note::Skipped { rows: skipped });
    }
    notes
}

fn is_denied(row: &Row) -> bool {
    let reason = row.reason.as_deref().unwrap_or_default();
    row.status == "unavailable" && reason.contains("seccomp")
}

/// What a row shows against its promises.
fn broken(row: &Row, promises: Promises) -> Vec<Note> {
    let mut notes = Vec::new();
    let back = row.quality.backward.filter(|&count| count > 0 && promises.monotonic);
    if let (Some(count), Some(worst_ns)) = (back, row.quality.backward_worst_ns) {
        notes.push(Note::WentBack { row: row.name.clone(), count, worst_ns });
    }
    let causality = &row.quality.causality;
    let some = causality.violations_per_million.filter(|&violations| violations > 0.0);
    if let (Some(per_million), Some(worst_ns)) = (some, causality.worst_ns) {
        let promised = promises.causal;
        notes.push(Note::NotCausal { row: row.name.clone(), per_million, worst_ns, promised });
    }
    notes
}

#[cfg(test)]
mod tests;
