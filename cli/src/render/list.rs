//! What the sources are: the table of `sources.rs` for a reader.

use crate::render::Style;
use crate::render::table::{dim, wrapped};
use crate::sources::Source;
use serde::Serialize;

/// A row for programs.
#[derive(Serialize)]
pub struct Entry<'a> {
    name: &'a str,
    clock: &'a str,
    clock_id: Option<i32>,
    how: &'a str,
    guarantee: &'a str,
    caveat: &'a str,
}

/// The rows for programs.
pub fn entries<'a>(sources: &[&'a Source]) -> Vec<Entry<'a>> {
    let entry = |source: &&'a Source| Entry {
        name: &source.name,
        clock: &source.clock,
        clock_id: source.clock_id.map(|clock| clock.0),
        how: &source.how,
        guarantee: source.guarantee,
        caveat: source.caveat,
    };
    sources.iter().map(entry).collect()
}

/// The rows for people: the name and the call, then what it guarantees and what to know.
pub fn text(sources: &[&Source], style: Style) -> String {
    const INDENT: usize = 25;
    let mut out = String::new();
    for source in sources {
        let mut lines = wrapped(&source.how, style.width - INDENT).into_iter();
        out.push_str(&format!("{:INDENT$}{}\n", source.name, lines.next().unwrap_or_default()));
        let caveat = if source.caveat.is_empty() { "" } else { "; " };
        let about = format!("{}{caveat}{}", source.guarantee, source.caveat);
        lines.chain(wrapped(&about, style.width - INDENT)).for_each(|line| {
            out.push_str(&format!("{:INDENT$}{}\n", "", dim(&line, style)));
        });
    }
    out
}
