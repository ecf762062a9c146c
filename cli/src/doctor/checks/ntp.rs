//! Whether the wall clock is right, and who sees to it.

use crate::doctor::facts::Facts;
use crate::doctor::finding::Finding;
use crate::doctor::parse::discipline::{Leap, Sync, Timex};
use crate::machine::Fact;
use crate::render::table::digits;

const SOURCE: &str = "adjtimex(2)";
const DAEMON: &str = "run chrony, ntpd or systemd-timesyncd";
/// 2024-01-01: no machine that has this tool lives before it.
const EARLIEST_NS: i64 = 1_704_067_200_000_000_000;

fn timex(facts: &Facts) -> Result<(Timex, Fact), Finding> {
    match facts.measured.discipline.get() {
        Ok(told) => {
            let timex =
                Timex { state: told.state, status: told.status, max_error_us: told.max_error_us };
            let fact = Fact::new(
                format!(
                    "state {}, status {:#x} ({}), maximum error {} us, frequency {:+.3} ppm",
                    told.state,
                    told.status,
                    timex.names(),
                    told.max_error_us,
                    told.frequency_ppm
                ),
                SOURCE,
            );
            Ok((timex, fact))
        }
        Err(reason) => Err(Finding::unknown(format!(
            "the kernel does not say whether its clock is kept: {reason}"
        ))
        .from(Fact::missing(SOURCE, reason))
        .remedy("outside the sandbox: chronyc tracking, or timedatectl")),
    }
}

/// systemd-timesyncd asks every half hour, by when the kernel adds a second to what it thinks possible.
const FAR_US: u64 = 5_000_000;

/// Whether somebody keeps the wall clock right.
pub fn sync(facts: &Facts) -> Finding {
    if let Ok(clocks) = facts.measured.clocks.get()
        && clocks.realtime_ns < EARLIEST_NS
    {
        let seconds = clocks.realtime_ns / 1_000_000_000;
        return Finding::bad("the wall clock was never set: it is before 2024")
            .from(Fact::new(format!("REALTIME {seconds} s"), "clock_gettime(2)"))
            .remedy(format!("{DAEMON}; until then nothing that checks a date works"));
    }
    let (timex, fact) = match timex(facts) {
        Ok(told) => told,
        Err(finding) => return finding,
    };
    match timex.sync() {
        Sync::Within(us) if us <= FAR_US => {
            let (size, unit) = match us {
                ..10_000 => (us as f64, "us"),
                10_000..1_000_000 => (us as f64 / 1e3, "ms"),
                _ => (us as f64 / 1e6, "s"),
            };
            Finding::good(format!("the wall clock is kept, within {} {unit} of UTC", digits(size))).from(fact)
        }
        Sync::Within(us) => {
            Finding::warning(format!("the wall clock may be {} s off, though it is kept", digits(us as f64 / 1e6)))
                .from(fact)
                .remedy("see what the time daemon follows: chronyc sources, ntpq -p, timedatectl timesync-status")
        }
        Sync::Free => {
            let remedy = if facts.is_guest() {
                format!("{DAEMON} in the guest, best with the host's clock (/dev/ptp0, where there is one); a daemon \
                         that sets the clock from the host unseen by the kernel also looks like this")
            } else {
                DAEMON.to_owned()
            };
            Finding::warning("nobody keeps the wall clock: the kernel does not vouch for it, and it drifts")
                .from(fact)
                .remedy(remedy)
        }
    }
}

/// Whether a leap second is to come.
pub fn leap(facts: &Facts) -> Finding {
    let (timex, fact) = match timex(facts) {
        Ok(told) => told,
        Err(finding) => return finding,
    };
    let what = match timex.leap() {
        Leap::None => return Finding::good("no leap second is to come").from(fact),
        Leap::Insert => {
            "a leap second is to be inserted at the end of the day (UTC): REALTIME will go back by a second"
        }
        Leap::Delete => {
            "a leap second is to be left out at the end of the day (UTC): REALTIME will skip a second"
        }
        Leap::Now => "a leap second is happening or just over",
    };
    Finding::warning(what)
        .from(fact)
        .remedy("measure intervals with MONOTONIC, or have the daemon smear the second")
}

/// Whether CLOCK_TAI tells TAI.
pub fn tai(facts: &Facts) -> Finding {
    match facts.measured.discipline.get() {
        Ok(told) => {
            let fact = Fact::new(format!("TAI offset {} s", told.tai_offset_s), SOURCE);
            match told.tai_offset_s {
                0 => Finding::warning("nobody has told the kernel the leap seconds: CLOCK_TAI is UTC, 37 s behind TAI")
                    .from(fact)
                    .remedy("only if CLOCK_TAI is used: chrony with `leapsectz right/UTC` or `leapseclist`, or ntpd with a leapfile"),
                offset => Finding::good(format!("CLOCK_TAI is UTC + {offset} s")).from(fact),
            }
        }
        Err(reason) => Finding::unknown(format!("the TAI offset is not told: {reason}"))
            .from(Fact::missing(SOURCE, reason)),
    }
}

/// A correction beyond this is no crystal's fault, but one of what the kernel believes.
const FAR_PPM: f64 = 200.0;

/// How much the clock's rate is corrected.
pub fn rate(facts: &Facts) -> Finding {
    let told = facts.measured.discipline.get().ok().map(|told| told.frequency_ppm);
    let (measured, evidence) = match facts.measured.rate.get() {
        Ok(rate) => {
            let (ppm, error) = (rate.steering_ppm, rate.steering_uncertainty_ppm);
            (
                Ok(ppm),
                Facts::measurement(format!(
                    "MONOTONIC {ppm:+.3} ppm (±{error:.2}) to MONOTONIC_RAW"
                )),
            )
        }
        Err(reason) => (Err(reason), Fact::missing("measured", reason)),
    };
    let since_boot = facts.measured.clocks.get().ok().and_then(|clocks| {
        let raw = clocks.monotonic_raw_ns as f64;
        let monotonic = clocks.monotonic_ns as f64;
        // RAW and MONOTONIC are shifted alike by a time namespace, and both begin at the boot.
        (raw > 3.6e12).then(|| (monotonic - raw) / raw * 1e6)
    });
    let ppm = match (measured, told) {
        (Ok(ppm), _) | (Err(_), Some(ppm)) => ppm,
        (Err(reason), None) => {
            return Finding::unknown(format!("how the rate is corrected is not known: {reason}"))
                .from(evidence);
        }
    };
    let facts_of = |finding: Finding| {
        finding
            .from(evidence)
            .with(told.map(|ppm| Fact::new(format!("frequency {ppm:+.3} ppm"), SOURCE)))
            .with(since_boot.map(|ppm| {
                Fact::new(format!("{ppm:+.1} ppm since the boot"), "MONOTONIC - MONOTONIC_RAW")
            }))
    };
    let uncertainty = facts.measured.rate.get().map_or(0.0, |rate| rate.steering_uncertainty_ppm);
    if ppm.abs() > FAR_PPM + uncertainty {
        return facts_of(
            Finding::warning(format!("MONOTONIC is made to go {ppm:+.0} ppm differently from the counter: the kernel's idea of its rate is wrong, or a large offset is being made up for"))
                .remedy("if it stays so: reboot, so that the kernel measures the counter anew, or tell it (tsc_early_khz=); and see the time daemon's log"),
        );
    }
    facts_of(Finding::good(if ppm.abs() < 0.005 || ppm.abs() < uncertainty && told == Some(0.0) {
        "MONOTONIC goes at the counter's own rate: nobody corrects it".to_owned()
    } else {
        format!("MONOTONIC is corrected by {ppm:+.2} ppm")
    }))
}

/// Where the hardware's clock is read.
const RTC: &str = "/sys/class/rtc/rtc0/since_epoch";

/// How far the wall clock is from the hardware's.
pub fn rtc(facts: &Facts) -> Finding {
    let fact = facts.tree.fact(RTC);
    let Some(text) = &fact.value else {
        let why = fact.reason.clone().unwrap_or_default();
        let says = if why == "not there" {
            "there is no real-time clock to compare with, as in many guests and containers"
                .to_owned()
        } else {
            format!("the real-time clock cannot be read: {why}")
        };
        return Finding::unknown(says).from(fact);
    };
    let realtime = facts.measured.clocks.get().map(|clocks| clocks.realtime_ns / 1_000_000_000);
    let (rtc, realtime) = match (text.parse::<i64>(), realtime) {
        (Ok(rtc), Ok(realtime)) => (rtc, realtime),
        (Err(_), _) => return Finding::unknown("the real-time clock tells nonsense").from(fact),
        (_, Err(reason)) => {
            return Finding::unknown(format!("the wall clock was not read: {reason}")).from(fact);
        }
    };
    let off = i128::from(realtime) - i128::from(rtc);
    let read = Fact::new(format!("{realtime} s"), "REALTIME");
    let apart = format!("{} s {}", off.unsigned_abs(), if off < 0 { "ahead of" } else { "behind" });
    let finding = match off.unsigned_abs() {
        0..=2 => Finding::good("the wall clock and the hardware's agree to the second"),
        3..=30 => Finding::good(format!(
            "the hardware's clock is {apart} the wall clock: it drifts when nobody sets it"
        )),
        size if size % 1_800 <= 30 || size % 1_800 >= 1_770 => Finding::warning(format!(
            "the hardware's clock is {apart} the wall clock: it tells local time, it seems"
        ))
        .remedy("timedatectl set-local-rtc 0, or live with it beside another system"),
        _ => Finding::warning(format!(
            "the hardware's clock is {apart} the wall clock: one of them is wrong"
        ))
        .remedy(
            "if ntp/sync is good, the hardware's is: hwclock --systohc; else see to ntp/sync first",
        ),
    };
    finding.from(fact).from(read)
}
