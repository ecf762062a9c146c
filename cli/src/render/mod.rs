//! A result in, text out: one file a format. None of them measures, and none prints.

pub mod csv;
pub mod list;
pub mod old;
pub mod outlook;
pub mod profile;
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

impl Style {
    /// For a file.
    pub const FILE: Self = Self { colored: false, width: 100 };
}

/// What is said on standard error, with its reason on lines of their own if there is one; broken as a terminal of
/// `width` columns would have it, or not at all.
pub fn remark(head: &str, reason: &str, width: Option<usize>) -> String {
    let colon = if reason.is_empty() { "" } else { ":" };
    let head = format!("clockwise: {head}{colon}");
    let broken = |text: &str| match width {
        Some(width) => table::wrapped(text, width.saturating_sub(INDENT.len())),
        None => vec![text.to_owned()],
    };
    let mut lines = broken(&head);
    if !reason.is_empty() {
        lines.extend(broken(reason));
    }
    lines.join(&format!("\n{INDENT}")) + "\n"
}

/// Before all lines of a remark but the first.
const INDENT: &str = "  ";

/// The result as JSON, one line a field. Numbers that are not finite cannot occur: serde_json would
/// make them `null`.
pub fn json(result: &impl Serialize) -> String {
    // Strings, numbers, lists and structures: nothing that could fail to be written.
    let mut text = serde_json::to_string_pretty(result).unwrap_or_default();
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::remark;

    #[test]
    fn remarks_fit_a_terminal_and_are_lines_elsewhere() {
        assert_eq!(remark("no such thing", "", None), "clockwise: no such thing\n");
        assert_eq!(remark("it is so", "for this", None), "clockwise: it is so:\n  for this\n");
        let words = ["word"; 40].join(" ");
        assert_eq!(remark(&words, &words, None).lines().count(), 2);
        for width in 20..100 {
            let text = remark(&words, &words, Some(width));
            assert!(text.lines().all(|line| line.len() <= width), "{text}");
            assert!(text.lines().skip(1).all(|line| line.starts_with("  word")), "{text}");
            assert_eq!(text.matches("word").count(), 80, "{text}");
        }
    }
}
