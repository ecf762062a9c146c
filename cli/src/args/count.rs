//! `clockwise count-calls`: hidden, the counting of `profile` as it is where no image reaches.

use clap::Args;
use std::ffi::OsString;
use std::time::Duration;

/// `clockwise count-calls`.
#[derive(Debug, Args)]
pub struct Count {
    /// A process that runs already
    #[arg(long, conflicts_with = "command")]
    pub pid: Option<i32>,
    /// For so long, as in 10s
    #[arg(long = "for", value_name = "TIME", value_parser = humantime::parse_duration)]
    pub limit: Option<Duration>,
    /// Write the result to a file
    #[arg(long)]
    pub save: Option<std::path::PathBuf>,
    /// Make this file when counting begins
    #[arg(long)]
    pub began: Option<std::path::PathBuf>,
    /// A program to start
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required_unless_present = "pid")]
    pub command: Vec<OsString>,
}
