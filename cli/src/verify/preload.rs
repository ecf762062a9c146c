//! The image as the subject: the tool starts itself anew with it preloaded, and then asks its own process.
//!
//! Must never trust the environment: what counts is which functions this process has.

use super::subject::{Subject, Told};
use crate::image::IMAGE;
use crate::os::{self, Image};
use anyhow::{Context, Error, Result, anyhow, bail};
use clockwise::{ClockId, Errno, Status};
use std::fs::File;
use std::io::Write;
use std::os::fd::IntoRawFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// Lays the image where the loader of the tool's next self finds it: in memory, so that nothing stays behind.
fn lay() -> Result<PathBuf> {
    if IMAGE.is_empty() {
        bail!("there is none for this processor; give --in-process");
    }
    let mut file = File::from(os::memory_file(c"clockwise.so").context("no room for it")?);
    file.write_all(IMAGE).context("no room for it")?;
    // Kept open across the exec: the path is that of the descriptor.
    Ok(PathBuf::from(format!("/proc/self/fd/{}", file.into_raw_fd())))
}

/// Starts the tool anew, with the image. Comes back only with what went wrong.
pub fn restart() -> Error {
    let image = match lay() {
        Ok(image) => image,
        Err(error) => return error.context("the image cannot be preloaded"),
    };
    let mut preload = image.into_os_string();
    // What is preloaded already stays so, after ours.
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
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
