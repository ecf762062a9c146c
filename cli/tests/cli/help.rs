//! Help, manual page and completions: made from one definition, so all name every flag.

use crate::common::clockwise;

const FLAGS: [&str; 14] = [
    "--quick",
    "--time",
    "--only",
    "--seed",
    "--threads",
    "--cold",
    "--cpus",
    "--rate",
    "--format",
    "-n",
    "--save",
    "--forbid-counter",
    "--color",
    "--help",
];

const FORMATS: [&str; 6] = ["text", "json", "csv", "repnop", "bench_time", "timetest"];

#[test]
fn the_help_names_every_flag_and_format_and_shows_examples() {
    for long in ["-h", "--help"] {
        let help = clockwise(&["bench", long]).exits(0).stdout;
        for word in FLAGS.iter().chain(&FORMATS) {
            assert!(help.contains(word), "{long} does not name {word}");
        }
        for part in ["Examples:", "clockwise bench --quick --only '*/monotonic'", "WAY/CLOCK"] {
            assert!(help.contains(part), "{long} lacks {part}");
        }
    }
    let help = clockwise(&["--help"]).exits(0).stdout;
    assert!(help.contains("bench") && help.contains("Exit status: 0 yes"), "{help}");
}

#[test]
fn the_examples_of_the_help_are_accepted() {
    let help = clockwise(&["bench", "--help"]).stdout;
    let examples: Vec<&str> =
        help.lines().filter_map(|line| line.strip_prefix("  clockwise ")).collect();
    assert!(examples.len() >= 5, "{help}");
    for example in examples {
        // The remark is set off by two spaces or more, or one after a long command.
        let words = example.split("  ").next().unwrap().split_whitespace();
        let flags = words.take_while(|word| word.starts_with(['-', '\'', 'b']) || is_value(word));
        let args: Vec<String> = flags.map(|word| word.replace('\'', "")).collect();
        let mut args: Vec<&str> = args.iter().map(String::as_str).collect();
        args.extend(["--simulate", "1"]);
        if let Some(at) = args.iter().position(|&arg| arg == "--save") {
            args.drain(at..at + 2);
        }
        clockwise(&args).exits(0);
    }
}

/// Whether an example's word is the value of a flag.
fn is_value(word: &str) -> bool {
    FORMATS.contains(&word) || word.contains(|c: char| c.is_ascii_digit()) || word == "a.json"
}

#[test]
fn the_hidden_switch_is_in_no_help_and_no_manual() {
    for args in [&["bench", "--help"][..], &["man", "bench"]] {
        assert!(!clockwise(args).exits(0).stdout.contains("simulate"), "{args:?}");
    }
}

#[test]
fn the_manual_page_of_bench_names_every_flag_and_format() {
    let page = clockwise(&["man", "bench"]).exits(0).stdout;
    assert!(page.contains(".TH"), "{page}");
    // In a manual page a hyphen is escaped.
    let page = page.replace("\\-", "-");
    for word in FLAGS.iter().chain(&FORMATS) {
        assert!(page.contains(word), "no {word} in {page}");
    }
    assert!(page.contains("clockwise bench --quick"), "no examples in {page}");
}

#[test]
fn the_manual_page_of_the_tool_names_its_commands() {
    let page = clockwise(&["man"]).exits(0).stdout;
    for word in [".TH", "bench", "completions", "man"] {
        assert!(page.contains(word), "no {word} in {page}");
    }
    clockwise(&["man", "nothing"]).exits(2).says_only(&["`nothing`", "clockwise --help"]);
}

#[test]
fn every_manual_page_has_the_version_and_a_synopsis_with_values() {
    for (command, parts) in [
        ("", &["[--color WHEN]", "COMMAND"][..]),
        ("bench", &["[--time BUDGET]", "[--only GLOB]...", "[-n|--calls N]", "[--cold]"]),
        ("run", &["[--order ORDER]", "[--max-age TIME]", "[--stats]", "[CMD]..."]),
        ("profile", &["[--top N]", "[--for TIME]", "[--pid PID]", "[--save FILE]", "[CMD]..."]),
        ("verify", &["[--for TIME]", "[--every TIME]", "[--clock CLOCK]", "[--ns]"]),
        ("calibrate", &["[--for TIME]", "[--every TIME]", "[--cpu N]"]),
        (
            "choose",
            &["[--for PURPOSE]", "[--precision TIME]", "[--follows-ntp YES/NO]", "[--explain]"],
        ),
        ("completions", &[" SHELL"]),
        ("man", &["[COMMAND]"]),
    ] {
        let args = ["man", command];
        let args = if command.is_empty() { &args[..1] } else { &args[..] };
        let page = clockwise(args).exits(0).stdout.replace("\\-", "-");
        let name = if command.is_empty() { "clockwise" } else { &format!("clockwise-{command}") };
        let version = env!("CARGO_PKG_VERSION");
        let title = format!(".TH {name} 1 \" \" \"clockwise {version}\" Clockwise\n");
        assert!(page.contains(&title), "no {title} in {page}");
        let (_, rest) = page.split_once(".SH SYNOPSIS\n").unwrap();
        let synopsis = rest.lines().next().unwrap();
        let plain = ["\\fB", "\\fI", "\\fR"]
            .iter()
            .fold(synopsis.to_owned(), |text, font| text.replace(font, ""));
        for part in parts {
            assert!(plain.contains(part), "no `{part}` in {plain}");
        }
        assert!(!plain.contains("simulate") && !plain.contains("preloaded"), "{plain}");
        // Examples keep their lines; sentences are as wide as the reader's terminal.
        let kept = page.split(".nf\n").skip(1).filter_map(|rest| rest.split(".fi\n").next());
        assert!(kept.into_iter().all(|lines| !lines.contains("Exit status")), "{page}");
        assert_eq!(rest.lines().nth(1), Some(".SH DESCRIPTION"));
    }
}

#[test]
fn the_completions_of_each_shell_name_every_flag() {
    for shell in ["bash", "zsh", "fish"] {
        let text = clockwise(&["completions", shell]).exits(0).stdout;
        for flag in FLAGS {
            // fish names a flag without its hyphens.
            let fish = match flag.strip_prefix("--") {
                Some(long) => format!("-l {long}"),
                None => format!("-s {}", &flag[1..]),
            };
            let flag = if shell == "fish" { &fish } else { flag };
            assert!(text.contains(flag), "{shell} lacks {flag}");
        }
        for format in FORMATS {
            assert!(text.contains(format), "{shell} lacks {format}");
        }
    }
}

#[test]
fn the_help_and_the_manual_page_of_run_name_every_flag() {
    let help = clockwise(&["run", "--help"]).exits(0).stdout;
    let page = clockwise(&["man", "run"]).exits(0).stdout.replace("\\-", "-");
    for flag in
        ["order", "max-age", "stats", "stats-file", "force", "dry-run", "print-image", "format"]
    {
        for text in [&help, &page] {
            assert!(text.contains(&format!("--{flag}")), "no --{flag} in {text}");
        }
    }
    for part in
        ["Examples:", "clockwise run --dry-run", "1ms to 250ms", "127", "126", "standard error"]
    {
        assert!(help.contains(part), "no {part} in {help}");
    }
    assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
}

#[test]
fn a_command_s_own_flags_come_before_those_of_all_commands() {
    for command in ["bench", "run", "profile", "verify", "calibrate", "choose", "doctor"] {
        let help = clockwise(&[command, "-h"]).exits(0).stdout;
        let flags = help.lines().filter_map(|line| {
            line.split("--").nth(1).filter(|_| line.trim_start().starts_with('-'))
        });
        let flags: Vec<&str> = flags.filter_map(|flag| flag.split_whitespace().next()).collect();
        assert!(flags.len() > 4 && flags.ends_with(&["color", "help"]), "{flags:?}");
        // As it is written: a line too long would be broken where nobody would break it.
        let end = help.split("Exit status:").nth(1).unwrap();
        let lines: Vec<&str> = end.lines().collect();
        assert!(lines[..lines.len() - 1].iter().all(|line| line.len() > 60), "{end}");
    }
}

#[test]
fn the_other_commands_name_their_flags_in_help_and_manual() {
    let verify = "--for --every --clock --max-error --ns --in-process --preload --log --refreshes --cpus --format";
    let choose = "--for --precision --counts-suspend --causal --follows-ntp --across-processes --allow-thread \
                  --language --from --format --explain";
    let profile = "--top --for --pid --format --save text json folded";
    let calibrate = "--for --every --cpu --format";
    for (command, flags) in
        [("verify", verify), ("calibrate", calibrate), ("choose", choose), ("profile", profile)]
    {
        let help = clockwise(&[command, "--help"]).exits(0).stdout;
        let page = clockwise(&["man", command]).exits(0).stdout.replace("\\-", "-");
        for word in flags.split(' ').chain(["Examples:", "Exit status:"]) {
            assert!(help.contains(word), "no {word} in {help}");
            assert!(page.contains(word), "no {word} in {page}");
        }
        assert!(!help.contains("--preloaded"), "a hidden flag is shown: {help}");
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
        let overview = clockwise(&["--help"]).exits(0).stdout;
        assert!(overview.contains(command), "{overview}");
    }
}
