//! The manual pages, of the tool and of each of its commands.
//!
//! Must never know a flag by itself: all come from the definition of the command line.

use crate::args::Cli;
use anyhow::{Result, anyhow};
use clap::{Arg, ArgAction, Command, CommandFactory};
use clap_mangen::Man;

/// The page of the tool, or of one of its commands.
///
/// # Errors
/// If there is no such command.
pub fn page(command: Option<&str>) -> Result<Vec<u8>> {
    let mut cli = Cli::command();
    cli.build();
    let page = match command {
        None => cli,
        Some(name) => cli
            .find_subcommand(name)
            .cloned()
            .ok_or_else(|| anyhow!("there is no command `{name}`; see clockwise --help"))?,
    };
    let synopsis = synopsis(&page);
    let mut text = Vec::new();
    // A command has no version of its own: it is the tool's.
    let source = format!("clockwise {}", env!("CARGO_PKG_VERSION"));
    // An empty date would be left out, and the version stand in its place.
    Man::new(page).date(" ").source(source).manual("Clockwise").render(&mut text)?;
    let text = with_synopsis(&String::from_utf8(text)?, &synopsis);
    Ok(with_examples(&text).into_bytes())
}

/// How it is called, every option with its value, which the generator leaves out.
fn synopsis(command: &Command) -> String {
    let mut text = bold(command.get_bin_name().unwrap_or_else(|| command.get_name()));
    let shown = || command.get_arguments().filter(|arg| !arg.is_hide_set());
    for option in shown().filter(|arg| !arg.is_positional()) {
        let short = option.get_short().map(|short| bold(&format!("-{short}")));
        let long = option.get_long().map(|long| bold(&format!("--{long}")));
        let names: Vec<String> = short.into_iter().chain(long).collect();
        let mut word = names.join("|");
        if option.get_action().takes_values() {
            word.push(' ');
            word.push_str(&value(option));
        }
        text.push_str(&bracketed(option, &word));
    }
    for positional in shown().filter(|arg| arg.is_positional()) {
        text.push_str(&bracketed(positional, &value(positional)));
    }
    if command.has_subcommands() {
        text.push_str(&format!(" {}", italic("COMMAND")));
    }
    text
}

fn value(arg: &Arg) -> String {
    let names = arg.get_value_names().unwrap_or_default();
    italic(&names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(" "))
}

/// With what says whether it may be left out, or given again.
fn bracketed(arg: &Arg, word: &str) -> String {
    let many = matches!(arg.get_action(), ArgAction::Append)
        || arg.get_num_args().is_some_and(|range| range.max_values() > 1);
    let dots = if many { "..." } else { "" };
    if arg.is_required_set() { format!(" {word}{dots}") } else { format!(" [{word}]{dots}") }
}

fn bold(text: &str) -> String {
    format!("\\fB{}\\fR", text.replace('-', "\\-"))
}

fn italic(text: &str) -> String {
    format!("\\fI{}\\fR", text.replace('-', "\\-"))
}

fn with_synopsis(page: &str, synopsis: &str) -> String {
    let Some((before, rest)) = page.split_once(".SH SYNOPSIS\n") else { return page.to_owned() };
    let after = rest.find(".SH ").map_or("", |end| &rest[end..]);
    format!("{before}.SH SYNOPSIS\n{synopsis}\n{after}")
}

/// The page with what stands below the options: examples as they are written, sentences filled.
fn with_examples(page: &str) -> String {
    let Some((before, rest)) = page.split_once(".SH EXTRA\n") else { return page.to_owned() };
    let (extra, after) = match rest.find("\n.SH ") {
        Some(end) => rest.split_at(end),
        None => (rest.trim_end(), ""),
    };
    let paragraphs = extra.trim_end().split("\n\n").map(|paragraph| {
        let has_examples = paragraph.lines().any(|line| line.starts_with(' '));
        if has_examples { format!(".nf\n{paragraph}\n.fi") } else { paragraph.to_owned() }
    });
    let text = paragraphs.collect::<Vec<_>>().join("\n.PP\n");
    format!("{before}.SH NOTES\n{text}{after}\n")
}
