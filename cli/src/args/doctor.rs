//! `clockwise doctor`.

use super::{Form, pattern};
use clap::Args;
use std::path::PathBuf;

/// `clockwise doctor`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  clockwise doctor                             every check, in two seconds
  clockwise doctor --only 'clocksource/*'      why the TSC is not used; nothing is measured
  clockwise doctor --only vdso/cost --only ntp/sync
  clockwise doctor --list                      the checks, and what each asks
  clockwise doctor --format json               for a program
  clockwise doctor --record web1               what the checks read here, for somebody else
  clockwise doctor --root web1                 the verdict on such a recording

A recording is a folder with copies of the files below /proc and /sys that the findings name, with
`dmesg` (the kernel's log) and `measured.json` (what no file tells; without it, what was not
measured cannot be told). --record writes one, with the lines that matter and no others.

Nothing on the machine is changed. Root is not needed: what it would add stands beside the check.

Exit status: 0 nothing is bad, warnings included; 1 something is bad; 2 nothing is bad, but a check
that --list marks, or one that was chosen by --only, could not be told; or wrong usage.")]
pub struct Doctor {
    /// Only the checks whose name matches, as in 'tsc/*'; may be given more than once
    #[arg(long, value_name = "CHECK", value_parser = pattern)]
    pub only: Vec<glob::Pattern>,
    /// Only say what the checks are
    #[arg(long)]
    pub list: bool,
    /// Judge a recording instead of this machine
    #[arg(long, value_name = "DIR", conflicts_with = "list")]
    pub root: Option<PathBuf>,
    /// Also write what the checks read here to a new folder
    #[arg(long, value_name = "DIR", conflicts_with_all = ["root", "list"])]
    pub record: Option<PathBuf>,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Form::Text)]
    pub format: Form,
}
