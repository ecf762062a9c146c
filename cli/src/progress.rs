//! What the user sees and can do meanwhile: a bar on standard error, and a signal to end it early.
//!
//! Drawn only when asked to between batches: a thread that redraws would disturb the measurement.

use crate::measure::Watch;
use indicatif::{ProgressBar, ProgressStyle};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const STEPS: u64 = 1_000;

/// A bar, where there is a terminal, and the flag that a signal sets.
pub struct Progress {
    bar: Option<ProgressBar>,
    interrupted: Arc<AtomicBool>,
    shown: u64,
}

impl Progress {
    /// `draw`: there is a terminal, and reading the time to draw is safe.
    pub fn new(draw: bool, interrupted: Arc<AtomicBool>) -> Self {
        let bar = draw.then(|| {
            let bar = ProgressBar::new(STEPS);
            let style =
                ProgressStyle::with_template("{msg:12} {bar:40.cyan} {percent:>3} %  {eta} left");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        Self { bar, interrupted, shown: 0 }
    }
}

impl Watch for Progress {
    fn stage(&mut self, name: &'static str) {
        if let Some(bar) = &self.bar {
            bar.set_message(name);
        }
    }

    fn done(&mut self, share: f64) {
        let step = (share * STEPS as f64) as u64;
        // Twenty times a second is plenty, and nothing is drawn between two batches of a kind.
        if let Some(bar) = &self.bar
            && step > self.shown
        {
            self.shown = step;
            bar.set_position(step.min(STEPS));
        }
    }

    fn interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
