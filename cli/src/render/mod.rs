//! A result in, text out: one file a format. None of them measures, and none prints.

pub mod csv;
pub mod list;
pub mod old;
pub mod outlook;
pub mod repnop;
pub mod table;
pub mod tally;
pub mod text;

use serde::Serialize;

/// Colours and width.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// Colours may be used.
    pub colored: bool,
    /// Columns of text.
    pub width: usize,
}

/// The result as JSON, one line a field. Numbers that are not finite cannot occur: serde_json would
/// make them `null`.
pub fn json(result: &impl Serialize) -> String {
    // Strings, numbers, lists and structures: nothing that could fail to be written.
    let mut text = serde_json::to_string_pretty(result).unwrap_or_default();
    text.push('\n');
    text
}
