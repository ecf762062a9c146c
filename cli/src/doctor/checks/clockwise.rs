//! Clockwise's own verdict on the counter, by the judge that its clocks ask.

use super::cause;
use crate::doctor::facts::{AVAILABLE, CURRENT, Facts};
use crate::doctor::finding::Finding;
use crate::machine::Fact;
use crate::prices;
use clockwise_core::kernel::Errno;
use clockwise_core::trust::{NoCounter, Unfit, judge};

/// Whether Clockwise's clocks read the counter here.
pub fn fit(facts: &Facts) -> Finding {
    let is_live = facts.tree.is_live();
    if let Some(reason) = &facts.measured.counter_is_deadly {
        return Finding::unknown(format!("Clockwise asks whether it may read the counter: {reason}"))
            .from(Fact::missing("prctl(PR_GET_TSC)", reason.clone()))
            .remedy("allow prctl(PR_GET_TSC) in the sandbox's filter; until then nothing of Clockwise runs there");
    }
    let verdict = if is_live { prices::fit() } else { judged(facts) };
    let source =
        if is_live { "clockwise_core::trust::assess" } else { "clockwise_core::trust::judge" };
    let read = [CURRENT, AVAILABLE].map(|path| facts.tree.fact(path));
    match verdict {
        Ok(()) => Finding::good("the library, `clockwise run` and `verify` read the counter here")
            .from(Fact::new("fit", source))
            .with(read),
        Err(unfit) => {
            let text = unfit.to_string();
            // Each reason ends with what to do.
            let (why, remedy) = text.split_once(": ").unwrap_or((&text, "see clocksource/current"));
            // Why the kernel does not use the counter may be known better.
            let cause = match (unfit, facts.current()) {
                (Unfit::Rejected, Some(current)) => Some(cause::of(facts, &current)),
                _ => None,
            };
            let remedy = cause.as_ref().map_or(remedy, |cause| &cause.remedy);
            Finding::warning(format!(
                "Clockwise's clocks follow the kernel here, no faster than it: {why}"
            ))
            .from(Fact::new(format!("unfit: {}", name(unfit)), source))
            .with(read)
            .with(cause.iter().flat_map(|cause| cause.evidence.clone()))
            .remedy(remedy)
        }
    }
}

/// The same of a recording.
fn judged(facts: &Facts) -> Result<(), Unfit> {
    if facts.measured.counter_allowed.get() == Ok(&false) {
        return Err(Unfit::NoCounter(NoCounter::Forbidden));
    }
    let read = |path: &str| {
        facts.tree.bytes(path).map_err(|error| {
            // As the kernel would say it.
            Unfit::Unreadable(Errno(error.raw_os_error().unwrap_or(libc::EIO)))
        })
    };
    let current = read(CURRENT)?;
    let available = facts.tree.bytes(AVAILABLE).unwrap_or_default();
    let by_cpuid = facts.measured.processor.get().ok().and_then(|cpu| cpu.invariant);
    let invariant = by_cpuid.or_else(|| facts.cpu.is_invariant()).unwrap_or(false);
    judge(&current, &available, || invariant)
}

fn name(unfit: Unfit) -> String {
    match unfit {
        Unfit::NoCounter(NoCounter::Forbidden) => "the counter is forbidden".to_owned(),
        Unfit::NoCounter(NoCounter::NotThisProcessor) => "no counter".to_owned(),
        Unfit::Unreadable(errno) => format!("unreadable ({errno})"),
        other => format!("{other:?}"),
    }
}
