//! What a guest needs of the host: QEMU, and the kernels that `rig/fetch` has unpacked.

use std::env;
use std::path::{Path, PathBuf};

/// A kernel to boot.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Its version, as in `6.1`.
    pub version: String,
    /// The file.
    pub image: PathBuf,
}

/// The kernel of that version, if it and QEMU are there; `None` where they are not, after `say` was told so. Where
/// nothing may be left out (`CLOCKWISE_ALL_PROGRAMS`), that is a failure.
///
/// # Panics
/// As said.
pub fn installed(version: &str, say: impl FnOnce(&str)) -> Option<Kernel> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
    let image = root.join("target/kernels").join(version).join("vmlinuz");
    let path = env::var_os("PATH").unwrap_or_default();
    let has_qemu = env::split_paths(&path).any(|at| at.join(QEMU).is_file());
    let missing = if !has_qemu {
        format!("{QEMU} is not installed: apt-get install qemu-system-x86")
    } else if !image.is_file() {
        format!("no kernel {version} in target/kernels: rig/fetch {version}")
    } else {
        return Some(Kernel { version: version.to_owned(), image });
    };
    assert!(env::var_os("CLOCKWISE_ALL_PROGRAMS").is_none(), "{missing}");
    say(&format!("not tried here: virtual machines: {missing}"));
    None
}

/// The emulator.
pub const QEMU: &str = "qemu-system-x86_64";
