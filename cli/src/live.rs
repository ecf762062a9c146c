//! What a long run shows while it lasts: lines on standard output, and a bar on standard error that makes way for them.
//!
//! Must never print by itself: both writers are handed in. What cannot be written is remembered, not lost.

use crate::machine::words;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{self, Write};

const STEPS: u64 = 1_000;

/// Where a run shows itself.
pub struct Live<'a> {
    out: &'a mut dyn Write,
    err: &'a mut dyn Write,
    bar: Option<ProgressBar>,
    failed: Option<io::Error>,
}

impl<'a> Live<'a> {
    /// `draw`: standard error is a terminal, and reading the time to draw is safe.
    pub fn new(out: &'a mut dyn Write, err: &'a mut dyn Write, draw: bool) -> Self {
        let bar = draw.then(|| {
            // The bar is there for the eye; what stands beside it is not to be cut.
            let columns =
                console::Term::stderr().size_checked().map_or(100, |(_, columns)| columns);
            let length = if columns < 100 { 6 } else { 24 };
            let template = format!("{{bar:{length}.cyan}} {{percent:>3}} %  {{wide_msg}}");
            let style = ProgressStyle::with_template(&template);
            let bar = ProgressBar::new(STEPS);
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        Self { out, err, bar, failed: None }
    }

    /// Lines for standard output, whole and at once.
    pub fn print(&mut self, lines: &str) {
        let Self { out, bar, failed, .. } = self;
        let mut write = || out.write_all(lines.as_bytes()).and_then(|()| out.flush());
        let written = match bar {
            // Both may be the same terminal.
            Some(bar) => bar.suspend(write),
            None => write(),
        };
        *failed = failed.take().or(written.err());
    }

    /// A sentence for standard error; there is nobody to tell if that is closed.
    pub fn warn(&mut self, text: &str) {
        let Self { err, bar, .. } = self;
        let mut write = || {
            let _ = writeln!(err, "clockwise: {text}");
        };
        match bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// How far the run is, from 0 to 1, and what there is so far.
    pub fn progress(&mut self, share: f64, message: impl FnOnce() -> String) {
        if let Some(bar) = &self.bar {
            bar.set_message(message());
            bar.set_position((share * STEPS as f64) as u64);
        }
    }

    /// Whether nobody can be shown anything any more.
    pub fn is_deaf(&self) -> bool {
        self.failed.is_some()
    }

    /// Takes the bar away. Why a line could not be printed, unless the reader had seen enough.
    pub fn end(self) -> Option<String> {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        let error = self.failed.filter(|error| error.kind() != io::ErrorKind::BrokenPipe)?;
        Some(format!("the result cannot be printed: {}", words(&error)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device without room.
    struct Full(io::ErrorKind);

    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_cannot_be_written_is_told_unless_the_reader_left() {
        for (kind, is_told) in
            [(io::ErrorKind::StorageFull, true), (io::ErrorKind::BrokenPipe, false)]
        {
            let (mut out, mut err) = (Full(kind), Vec::new());
            let mut live = Live::new(&mut out, &mut err, false);
            live.print("a\n");
            live.warn("b");
            assert!(live.is_deaf());
            assert_eq!(live.end().is_some(), is_told);
            assert_eq!(err, b"clockwise: b\n");
        }
    }

    #[test]
    fn lines_are_written_as_they_are() {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut live = Live::new(&mut out, &mut err, false);
        live.print("a\n");
        live.progress(0.5, || unreachable!("there is no bar"));
        live.print("b\n");
        assert!(!live.is_deaf() && live.end().is_none());
        assert_eq!((&out[..], &err[..]), (&b"a\nb\n"[..], &b""[..]));
    }
}
