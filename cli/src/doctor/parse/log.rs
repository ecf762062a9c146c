//! The kernel's log, reduced to what it says of time.
//!
//! Lines may come from dmesg, from /dev/kmsg or from a journal; what stands before the message is taken off.

/// What a line says of time.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The kernel has given the TSC up, for this reason.
    Unstable(String),
    /// The watchdog has found this clocksource to go differently from the one that it is compared with.
    Skewed(String),
    /// Comparing took so long that nothing could be told: the host or the firmware took the processor away.
    ReadBack,
    /// The kernel keeps time by this clocksource from then on.
    Switched(String),
    /// Somebody asked for a clocksource that the kernel refuses.
    Refused,
    /// The counter's rate in megahertz as the boot found it.
    Detected(f64),
    /// The same, measured again later.
    Refined(f64),
    /// Processors' counters disagreed when they were started.
    Warp,
    /// The firmware has written to a processor's counter.
    Adjusted,
    /// The hypervisor's name.
    Hypervisor(String),
    /// The machine went to sleep and woke up.
    Suspended,
    /// A leap second.
    Leap,
    /// The kernel is gVisor's.
    GVisor,
}

/// What the log says of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Log {
    /// Each with its line, in the log's order.
    pub events: Vec<(Event, String)>,
    /// Whether the log still reaches back to the boot: older lines are overwritten.
    pub from_boot: bool,
    /// Lines that were read.
    pub lines: usize,
}

/// A log that complains all the time says the same.
const EVENTS_MAX: usize = 512;
/// Longer than any line that is understood.
const LINE_MAX: usize = 400;
/// What a line has to have in it to be of interest, in lower case.
const WORDS: [&str; 12] = [
    "tsc",
    "clock",
    "hypervisor",
    "hpet",
    "pm: suspend",
    "leap second",
    "gvisor",
    "linux version",
    "rtc",
    "timekeeping",
    "jiffies",
    "paravirtual",
];

impl Log {
    /// Reads a whole log.
    pub fn parse(text: &str) -> Self {
        let mut log = Self::default();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let (at_s, message) = message(line);
            if log.lines == 0 {
                log.from_boot = at_s.is_some_and(|at_s| at_s < 1.0);
            }
            log.lines += 1;
            if log.events.len() < EVENTS_MAX
                && let Some(event) = event(message)
            {
                log.events.push((event, clipped(message).to_owned()));
            }
        }
        log
    }

    /// The last line that is of the kind.
    pub fn last(&self, is_kind: impl Fn(&Event) -> bool) -> Option<&(Event, String)> {
        self.events.iter().rev().find(|(event, _)| is_kind(event))
    }

    /// How many are of the kind.
    pub fn count(&self, is_kind: impl Fn(&Event) -> bool) -> usize {
        self.events.iter().filter(|(event, _)| is_kind(event)).count()
    }
}

/// Whether a recording should keep the line.
pub fn is_of_interest(line: &str) -> bool {
    // A command line may hold anything.
    let line = line.to_ascii_lowercase();
    !line.contains("command line:") && WORDS.iter().any(|word| line.contains(word))
}

fn clipped(text: &str) -> &str {
    match text.char_indices().nth(LINE_MAX) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

/// The message of a line, and its time in seconds since the boot, if that is told.
fn message(line: &str) -> (Option<f64>, &str) {
    let (mut at_s, mut rest) = (None, line.trim());
    // A record of /dev/kmsg: priority, number, microseconds, flags; message.
    if let Some((head, message)) = rest.split_once(';')
        && head.starts_with(|c: char| c.is_ascii_digit())
        && head.split(',').count() >= 3
    {
        at_s = head.split(',').nth(2).and_then(|us| us.parse::<f64>().ok()).map(|us| us / 1e6);
        rest = message;
    } else if let Some((_, message)) = rest.split_once(" kernel: ") {
        rest = message;
    }
    if let Some((level, message)) = rest.strip_prefix('<').and_then(|rest| rest.split_once('>'))
        && !level.is_empty()
        && level.bytes().all(|byte| byte.is_ascii_digit())
    {
        rest = message.trim_start();
    }
    // The time, as seconds or as a date; and who has written it, where the kernel is built to tell.
    while let Some((inside, message)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'))
    {
        let inside = inside.trim();
        let seconds = inside.parse::<f64>().ok().filter(|seconds| seconds.is_finite());
        let is_caller = inside.len() > 1
            && inside.starts_with(['T', 'C'])
            && inside[1..].bytes().all(|byte| byte.is_ascii_digit());
        let is_date = inside.split_whitespace().count() == 5 && inside.contains(':');
        if seconds.is_none() && !is_caller && !is_date {
            break;
        }
        at_s = at_s.or(seconds);
        rest = message.trim_start();
    }
    (at_s, rest)
}

/// What a message says of time, in the words of the kernels from 3.10 on.
fn event(message: &str) -> Option<Event> {
    let after = |words: &str| message.split_once(words).map(|(_, rest)| rest.trim());
    if let Some(why) = after("Marking TSC unstable due to ") {
        return Some(Event::Unstable(clipped(why).to_owned()));
    }
    if message.contains("read-back delay") {
        return Some(Event::ReadBack);
    }
    let quoted = |rest: &str| rest.split('\'').nth(1).map(|name| clipped(name).to_owned());
    if let Some(rest) = after("Marking clocksource ") {
        return quoted(rest).map(Event::Skewed);
    }
    // Linux 3.10.
    if message.starts_with("Clocksource ") && message.contains("unstable (delta") {
        let name = message.split_whitespace().nth(1)?;
        return Some(Event::Skewed(clipped(name).to_owned()));
    }
    if let Some(name) = after("Switched to clocksource ").or(after("Switching to clocksource ")) {
        return Some(Event::Switched(clipped(name).to_owned()));
    }
    if message.contains("Override clocksource ") {
        return Some(Event::Refused);
    }
    if let Some(rest) = after("Refined TSC clocksource calibration:") {
        return megahertz(rest).map(Event::Refined);
    }
    if let Some(rest) = after("tsc: Detected ") {
        return megahertz(rest).map(Event::Detected);
    }
    if message.contains("TSC warp between CPUs") || message.contains("TSC ADJUST compensate") {
        return Some(Event::Warp);
    }
    if message.contains("TSC ADJUST") {
        return Some(Event::Adjusted);
    }
    if let Some(name) = after("Hypervisor detected: ") {
        return Some(Event::Hypervisor(clipped(name).to_owned()));
    }
    if let Some(name) = after("Booting paravirtualized kernel on ") {
        let is_bare = name.starts_with("bare");
        return (!is_bare).then(|| Event::Hypervisor(clipped(name).to_owned()));
    }
    if message.starts_with("PM: suspend exit") {
        return Some(Event::Suspended);
    }
    if message.contains("leap second") {
        return Some(Event::Leap);
    }
    message.contains("Starting gVisor").then_some(Event::GVisor)
}

/// `2299.998 MHz processor`.
fn megahertz(text: &str) -> Option<f64> {
    let (number, _) = text.split_once("MHz")?;
    number.trim().parse::<f64>().ok().filter(|mhz| mhz.is_finite() && *mhz > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_before_a_message_is_taken_off() {
        for (line, at_s) in [
            ("[    1.500000] tsc: x", Some(1.5)),
            ("<6>[    1.500000] tsc: x", Some(1.5)),
            ("6,100,1500000,-;tsc: x", Some(1.5)),
            ("[    1.500000][    T1] tsc: x", Some(1.5)),
            ("[Tue Sep 23 21:33:08 2025] tsc: x", None),
            ("Sep 23 21:33:08 host kernel: tsc: x", None),
            ("Sep 23 21:33:08 host kernel: [    1.500000] tsc: x", Some(1.5)),
            ("tsc: x", None),
        ] {
            assert_eq!(message(line), (at_s, "tsc: x"), "{line}");
        }
        let bug = "[Firmware Bug]: TSC ADJUST: CPU0: -5 force to 0";
        assert_eq!(message(&format!("[    0.1] {bug}")), (Some(0.1), bug));
    }

    #[test]
    fn each_kind_of_line_is_understood() {
        let name = |name: &str| name.to_owned();
        for (text, expected) in [
            (
                "tsc: Marking TSC unstable due to clocksource watchdog",
                Event::Unstable(name("clocksource watchdog")),
            ),
            (
                "Marking TSC unstable due to TSCs unsynchronized",
                Event::Unstable(name("TSCs unsynchronized")),
            ),
            (
                "clocksource: timekeeping watchdog on CPU2: Marking clocksource 'tsc' as unstable because the skew is too large:",
                Event::Skewed(name("tsc")),
            ),
            ("Clocksource tsc unstable (delta = -131624372 ns)", Event::Skewed(name("tsc"))),
            (
                "clocksource: timekeeping watchdog on CPU6: hpet read-back delay of 52520ns, attempt 4, marking unstable",
                Event::ReadBack,
            ),
            ("clocksource: Switched to clocksource hpet", Event::Switched(name("hpet"))),
            ("tsc: Refined TSC clocksource calibration: 2299.998 MHz", Event::Refined(2299.998)),
            ("tsc: Detected 2300.000 MHz processor", Event::Detected(2300.0)),
            ("Measured 1234 cycles TSC warp between CPUs, turning off TSC clock.", Event::Warp),
            (
                "[Firmware Bug]: TSC ADJUST differs: CPU15 45960750 --> 78394770. Restoring",
                Event::Adjusted,
            ),
            ("TSC ADJUST compensate: CPU1 observed 123 warp. Adjust: 45", Event::Warp),
            ("Hypervisor detected: Xen HVM", Event::Hypervisor(name("Xen HVM"))),
            ("PM: suspend exit", Event::Suspended),
            ("Clock: inserting leap second 23:59:60 UTC", Event::Leap),
            (
                "clocksource: Override clocksource tsc is unstable and not HRT compatible",
                Event::Refused,
            ),
        ] {
            assert_eq!(event(text), Some(expected), "{text}");
        }
        for text in [
            "",
            "tsc: Detected MHz",
            "tsc: Detected nan MHz",
            "Booting paravirtualized kernel on bare hardware",
        ] {
            assert_eq!(event(text), None, "{text}");
        }
    }

    #[test]
    fn a_log_whose_beginning_is_gone_does_not_reach_back_to_the_boot() {
        assert!(Log::parse("[    0.000000] Linux version 6.1\n").from_boot);
        assert!(!Log::parse("[  999.000000] usb\n[  999.1] x\n").from_boot);
        assert!(!Log::parse("").from_boot);
    }

    #[test]
    fn endless_complaints_are_bounded() {
        let line = "tsc: Marking TSC unstable due to ".to_owned() + &"x".repeat(5_000) + "\n";
        let log = Log::parse(&line.repeat(1_000));
        assert_eq!((log.events.len(), log.lines), (EVENTS_MAX, 1_000));
        assert!(log.events.iter().all(|(_, line)| line.chars().count() <= LINE_MAX));
    }
}
