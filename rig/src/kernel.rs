//! What a guest needs of the host: QEMU, and the kernels that `rig/fetch` has unpacked.

use crate::machine::Machine;
use std::env;
use std::path::{Path, PathBuf};

/// A kernel to boot.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Its version, as in `6.1` or `6.1-arm64`.
    pub version: String,
    /// What it runs on.
    pub machine: Machine,
    /// The file.
    pub image: PathBuf,
}

/// The kernel of that version.
///
/// # Errors
/// In a sentence what is missing, it or QEMU, and how to come by it.
pub fn installed(version: &str) -> Result<Kernel, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
    let image = root.join("target/kernels").join(version).join("vmlinuz");
    let machine = if version.ends_with("-arm64") { Machine::Arm } else { Machine::Pc };
    let (emulator, package) = machine.emulator();
    let path = env::var_os("PATH").unwrap_or_default();
    if !env::split_paths(&path).any(|at| at.join(emulator).is_file()) {
        Err(format!("{emulator} is not installed: apt-get install {package}"))
    } else if !image.is_file() {
        Err(format!("no kernel {version} in target/kernels: rig/fetch {version}"))
    } else {
        Ok(Kernel { version: version.to_owned(), machine, image })
    }
}
