//! Tables for people: one unit a column, four digits, columns dropped where the terminal is narrow.

use crate::render::Style;
use comfy_table::{CellAlignment, ContentArrangement, Table as Comfy};

/// A column of a table.
pub struct Column {
    head: String,
    cells: Vec<String>,
    left: bool,
    /// Dropped first where it is highest; never dropped at 0.
    drop: u8,
    /// What the legend says of it.
    about: &'static str,
}

impl Column {
    /// A column of words.
    pub fn words(head: &str, cells: impl IntoIterator<Item = String>) -> Self {
        Self {
            head: head.to_owned(),
            cells: cells.into_iter().collect(),
            left: true,
            drop: 0,
            about: "",
        }
    }

    /// A column of plain numbers or short texts, to the right.
    pub fn right(head: &str, drop: u8, cells: impl IntoIterator<Item = String>) -> Self {
        Self {
            head: head.to_owned(),
            cells: cells.into_iter().collect(),
            left: false,
            drop,
            about: "",
        }
    }

    /// The same with a word for the legend.
    #[must_use]
    pub fn about(self, about: &'static str) -> Self {
        Self { about, ..self }
    }

    /// A column of figures without a unit.
    pub fn figures(head: &str, drop: u8, values: impl IntoIterator<Item = Option<f64>>) -> Self {
        Self::right(head, drop, values.into_iter().map(|value| value.map_or(DASH.into(), digits)))
    }

    /// A column of times in `unit`, which the head names.
    pub fn times(
        head: &str,
        drop: u8,
        unit: TimeUnit,
        ns: impl IntoIterator<Item = Option<f64>>,
    ) -> Self {
        Self::times_bare(&format!("{head} {}", unit.name), drop, unit, ns)
    }

    /// The same, where the unit stands in the title of the table.
    pub fn times_bare(
        head: &str,
        drop: u8,
        unit: TimeUnit,
        ns: impl IntoIterator<Item = Option<f64>>,
    ) -> Self {
        Self::figures(head, drop, ns.into_iter().map(|ns| ns.map(|ns| ns / unit.ns)))
    }
}

/// What stands where there is no figure.
pub const DASH: &str = "-";

/// A unit of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeUnit {
    /// Its name.
    pub name: &'static str,
    /// Its length.
    pub ns: f64,
}

impl TimeUnit {
    /// The unit in which the middle one of the times has one to three digits before the point.
    pub fn of(ns: impl IntoIterator<Item = Option<f64>>) -> Self {
        let times: Vec<f64> = ns.into_iter().flatten().collect();
        match crate::stats::median(&times).unwrap_or(0.0) {
            ns if ns < 1e3 => Self { name: "ns", ns: 1.0 },
            ns if ns < 1e6 => Self { name: "us", ns: 1e3 },
            ns if ns < 1e9 => Self { name: "ms", ns: 1e6 },
            _ => Self { name: "s", ns: 1e9 },
        }
    }
}

/// A number with four significant digits, or all digits before the point.
pub fn digits(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 999.95 => 0,
        size if size >= 99.995 => 1,
        size if size >= 9.9995 => 2,
        size if size >= 0.99995 || size == 0.0 => 3,
        _ => 4,
    };
    let text = format!("{value:.decimals$}");
    // Figures below the last digit are zero to the reader.
    if value == 0.0 || text.trim_matches(['0', '.', '-']).is_empty() {
        "0".to_owned()
    } else {
        text
    }
}

/// The table, with the columns that fit, and a legend of those. A line whose `mark` is set is coloured so.
pub fn render(mut columns: Vec<Column>, marks: &[Option<console::Color>], style: Style) -> String {
    // A column without any figure tells nothing.
    columns.retain(|column| column.left || column.cells.iter().any(|cell| cell != DASH));
    let mut dropped: Vec<String> = Vec::new();
    let mut text = loop {
        let text = draw(&columns, marks, style);
        let widest = text.lines().map(console::measure_text_width).max().unwrap_or(0);
        let droppable = columns.iter().enumerate().filter(|(_, column)| column.drop > 0);
        match droppable.max_by_key(|(_, column)| column.drop).map(|(at, _)| at) {
            Some(at) if widest > style.width => dropped.push(columns.remove(at).head),
            _ => break text,
        }
    };
    let told = columns.iter().filter(|column| !column.about.is_empty());
    let mut legend: Vec<String> =
        told.map(|column| format!("{}: {}", column.head, column.about)).collect();
    if !dropped.is_empty() {
        legend
            .push(format!("for want of width without {} (see --format json)", dropped.join(", ")));
    }
    if !legend.is_empty() {
        for line in wrapped(&format!("{}.", legend.join("; ")), style.width) {
            text.push_str(&dim(&line, style));
            text.push('\n');
        }
    }
    text
}

/// Text that explains and is not to be read first.
pub fn dim(text: &str, style: Style) -> String {
    let paint = console::Style::new().force_styling(style.colored);
    paint.fg(console::Color::Color256(8)).apply_to(text).to_string()
}

/// Longer than any path that is printed whole.
const WORD_MAX: usize = 70;

/// Text broken at spaces to lines of at most `width`; a word that is no path for its length is broken too.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let mut letters = word.chars().count();
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + letters <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => {
                let (mut rest, room) = (word, width.max(WORD_MAX));
                while letters > room {
                    let end = rest.char_indices().nth(room).map_or(rest.len(), |(end, _)| end);
                    lines.push(rest[..end].to_owned());
                    (rest, letters) = (&rest[end..], letters - room);
                }
                lines.push(rest.to_owned());
            }
        }
    }
    lines
}

fn draw(columns: &[Column], marks: &[Option<console::Color>], style: Style) -> String {
    let painted = |text: &str, color: Option<console::Color>, bold: bool| {
        let mut paint = console::Style::new().force_styling(style.colored);
        if let Some(color) = color {
            paint = paint.fg(color);
        }
        if bold {
            paint = paint.bold();
        }
        paint.apply_to(text).to_string()
    };
    let mut table = Comfy::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(columns.iter().map(|column| painted(&column.head, None, true)));
    for line in 0..columns.first().map_or(0, |column| column.cells.len()) {
        let mark = marks.get(line).copied().flatten();
        table.add_row(columns.iter().map(|column| painted(&column.cells[line], mark, false)));
    }
    for (column, shape) in columns.iter().zip(table.column_iter_mut()) {
        shape.set_padding((0, 1));
        shape.set_cell_alignment(if column.left {
            CellAlignment::Left
        } else {
            CellAlignment::Right
        });
    }
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_four_digits_and_never_lose_whole_ones() {
        let cases = [
            (0.0, "0"),
            (0.00001, "0"),
            (0.29876, "0.2988"),
            (0.99999, "1.000"),
            (9.6123, "9.612"),
            (9.99996, "10.00"),
            (21.456, "21.46"),
            (168.04, "168.0"),
            (999.96, "1000"),
            (24_012.7, "24013"),
        ];
        for (value, text) in cases {
            assert_eq!(digits(value), text);
        }
    }

    #[test]
    fn the_unit_of_a_column_follows_its_middle() {
        let unit = |ns: &[f64]| TimeUnit::of(ns.iter().copied().map(Some)).name;
        assert_eq!(unit(&[0.3, 21.0, 24_000.0]), "ns");
        assert_eq!(unit(&[12_000.0, 24_000.0]), "us");
        assert_eq!(unit(&[4e6, 4e6, 1e9]), "ms");
        assert_eq!(unit(&[1e9]), "s");
        assert_eq!(unit(&[]), "ns");
    }

    #[test]
    fn a_narrow_terminal_loses_the_least_needed_columns_first() {
        let columns = || {
            vec![
                Column::words("source", ["libc/monotonic".to_owned()]),
                Column::figures("median", 0, [Some(21.0)]),
                Column::figures("rarely", 2, [Some(1.0)]),
                Column::figures("needed", 1, [Some(2.0)]),
            ]
        };
        let at = |width| render(columns(), &[], Style { colored: false, width });
        assert!(at(100).contains("rarely") && at(100).contains("needed"));
        let table = |width| at(width).lines().next().unwrap_or_default().to_owned();
        assert!(!table(30).contains("rarely") && table(30).contains("needed"));
        assert!(!table(10).contains("needed") && table(10).contains("median"));
        let words = |width| at(width).replace('\n', " ");
        assert!(!words(100).contains("for want of width"));
        assert!(words(30).contains("without rarely (see"), "{}", words(30));
    }

    #[test]
    fn a_column_without_any_figure_is_left_out() {
        let columns = vec![
            Column::words("source", ["a".to_owned(), "b".to_owned()]),
            Column::figures("empty", 0, [None, None]).about("nothing"),
            Column::figures("half", 0, [None, Some(1.0)]),
        ];
        let text = render(columns, &[], Style { colored: false, width: 100 });
        assert!(!text.contains("empty") && !text.contains("nothing") && text.contains("half"));
    }

    #[test]
    fn without_colours_there_is_no_escape_sequence() {
        let table = |colored| {
            let columns = vec![Column::words("a", ["b".to_owned()])];
            render(columns, &[Some(console::Color::Red)], Style { colored, width: 80 })
        };
        assert!(!table(false).contains('\x1b'));
        assert!(table(true).contains('\x1b'));
    }
}
