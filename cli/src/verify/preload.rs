//! The image as the subject: the tool starts itself anew with it preloaded, and then asks its own process.
//!
//! Must never trust the environment: what counts is which functions this process has.

use super::subject::{Subject, Told};
use crate::cache;
use crate::launch::with_image;
use crate::os::{self, Image};
use anyhow::{Context, Error, Result, anyhow};
use clockwise::{ClockId, Errno, Status};
use clockwise_core::settings::Choice;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Starts the tool anew, with the image as `clockwise run` lays it. Comes back only with what went wrong.
pub fn restart() -> Error {
    let image = match cache::lay(&Choice::default()) {
        Ok(image) => image,
        Err(why) => return anyhow!("the image cannot be preloaded: {why}; or give --in-process"),
    };
    // What is preloaded already comes first, as in the programs that `run` starts.
    let before = std::env::var_os("LD_PRELOAD").unwrap_or_default();
    let preload = OsString::from_vec(with_image(before.as_bytes(), &image));
    let args = std::env::args_os().skip(1);
    let mut again = Command::new("/proc/self/exe");
    again.args(args).arg("--preloaded").env("LD_PRELOAD", preload);
    anyhow!("the tool cannot start itself anew: {}", again.exec())
}

/// The image of this process, and what libc answers through it.
pub struct Preloaded {
    image: Image,
    clock: ClockId,
}

impl Preloaded {
    /// Finds it.
    ///
    /// # Errors
    /// If this process has none.
    pub fn find(clock: ClockId) -> Result<Self> {
        let image = os::image().context(
            "the image is not active in this process: the loader did not preload it (a static or set-uid build of the \
             tool, or another library in LD_PRELOAD that comes first); give --in-process",
        )?;
        Ok(Self { image, clock })
    }
}

impl Subject for Preloaded {
    fn name(&self) -> &'static str {
        "libc with the image preloaded"
    }

    #[inline]
    fn now(&self) -> Result<i64, Errno> {
        os::clock_gettime(self.clock).map(|time| time.nanos_i64())
    }

    fn told(&self) -> Result<Told, Errno> {
        let [nanos, error_ns, _, from_counter] = self.image.reading(self.clock)?;
        Ok(Told { nanos: nanos as i64, error_ns, from_counter: from_counter == 1 })
    }

    fn status(&self) -> Option<Status> {
        self.image.status(self.clock).ok().map(|words| Status::from_words(&words))
    }
}
