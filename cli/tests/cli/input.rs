//! What a user can get wrong: exit status 2, one sentence with the remedy, nothing on standard
//! output.

use crate::common::{Ran, clockwise};

/// A run that clap refuses: it prints the sentence with the usage below.
fn refused(args: &[&str], parts: &[&str]) {
    let ran: Ran = clockwise(&[&["bench", "--simulate", "1"], args].concat()).exits(2);
    assert_eq!(ran.stdout, "", "{args:?}");
    assert!(ran.stderr.starts_with("error: "), "{}", ran.stderr);
    ran.says(parts);
}

#[test]
fn a_flag_that_does_not_exist_is_refused_with_the_way_to_help() {
    refused(&["--fast"], &["--fast", "--help"]);
    let ran = clockwise(&["bench", "--qick"]).exits(2);
    ran.says(&["--qick", "--quick"]);
    clockwise(&["measure"]).exits(2).says(&["measure", "--help"]);
}

#[test]
fn no_command_at_all_gets_the_help() {
    let ran = clockwise(&[]).exits(2);
    assert_eq!(ran.stdout, "");
    ran.says(&["bench", "Usage:"]);
}

#[test]
fn a_number_of_calls_of_0_or_over_2_to_the_63_is_refused() {
    let format = ["--format", "bench_time", "-n"];
    for (calls, part) in [
        ("0", "give 1 or more"),
        ("9223372036854775809", "more than 2^63; give less"),
        ("99999999999999999999", "between 1 and 2^63"),
        ("1e6", "between 1 and 2^63"),
        ("", "between 1 and 2^63"),
    ] {
        refused(&[&format[..], &[calls]].concat(), &["--calls <N>", part]);
    }
    refused(&["--format", "bench_time", "-n=-1"], &["between 1 and 2^63"]);
}

#[test]
fn calls_without_a_format_that_counts_them_are_refused() {
    for format in ["text", "json", "csv", "repnop"] {
        let ran = clockwise(&["bench", "--simulate", "1", "--format", format, "-n", "5"]);
        ran.exits(2).says_only(&["-n goes with --format bench_time", "--time"]);
    }
}

#[test]
fn flags_that_a_counting_format_cannot_heed_are_refused() {
    for flag in ["--only=*", "--threads=2", "--cold", "--quick", "--time=1s", "--rate=5"] {
        let ran = clockwise(&["bench", "--simulate", "1", "--format", "timetest", flag]);
        let name = flag.split('=').next().unwrap();
        ran.exits(2).says_only(&[name, "give -n N"]);
    }
}

#[test]
fn a_budget_of_nothing_or_nonsense_is_refused() {
    for (time, part) in [
        ("0", "at least 1ms"),
        ("0s", "at least 1ms"),
        ("1us", "at least 1ms"),
        ("soon", "as in 500ms, 5s or 2m"),
        ("5", "as in 500ms, 5s or 2m"),
        ("10days", "give less"),
    ] {
        refused(&["--time", time, "--format", "text"], &["--time <BUDGET>", part]);
    }
    refused(&["--time=-1s"], &["--time <BUDGET>", "as in 500ms, 5s or 2m"]);
    refused(&["--time", "1s", "--quick"], &["--time <BUDGET>", "--quick"]);
}

#[test]
fn a_pattern_without_a_match_or_malformed_is_refused_with_an_example() {
    let ran = clockwise(&["bench", "--simulate", "1", "--only", "monotonic"]);
    ran.exits(2).says_only(&["no source matches `monotonic`", "*/monotonic"]);
    let args = ["bench", "--simulate", "1", "--only", "libc/*", "--only", "x"];
    clockwise(&args).exits(2).says_only(&["no source matches `x`"]);
    refused(&["--only", "[a"], &["--only <GLOB>", "not a pattern", "'vdso/*'"]);
    refused(&["--only", "***"], &["--only <GLOB>", "not a pattern"]);
}

#[test]
fn threads_that_are_none_or_no_number_are_refused() {
    for threads in ["0", "1,0", "65536", "two", "1,,2", ""] {
        refused(&["--threads", threads], &["--threads <1,2,...>"]);
    }
}

#[test]
fn processors_that_are_no_list_are_refused() {
    for cpus in ["", "a", "1-", "3-1", "0,,1", "0;1", "0-99999999999"] {
        refused(&["--cpus", cpus], &["--cpus <LIST>", "as in 0,2-3"]);
    }
}

#[test]
fn processors_that_are_not_there_are_refused_with_those_that_are() {
    // Far beyond any machine, beyond the kernel's set, and a list with holes among them.
    for cpus in ["1023", "65535", "0,900-901"] {
        let ran = clockwise(&["bench", "--quick", "--cpus", cpus]);
        ran.exits(2).says_only(&["is not allowed here", "--cpus takes some of"]);
    }
}

#[test]
fn rates_seeds_formats_and_colours_that_are_none_are_refused() {
    for rate in ["0", "-5", "nan", "inf", "1G", "1e400"] {
        refused(&[&format!("--rate={rate}")], &["--rate <N>", "as in 50000, 50k or 1M"]);
    }
    refused(&["--seed", "x"], &["--seed <N>"]);
    refused(&["--format", "xml"], &["--format", "text, json, csv, repnop, bench_time, timetest"]);
    refused(&["--color", "green"], &["--color", "auto, always, never"]);
}
