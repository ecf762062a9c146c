//! The programs that go into a guest, built once for each kind of machine, as they are now.

use clockwise_rig::Machine;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// The programs, optimised: emulated debug builds would take minutes.
pub struct Built {
    pub init: PathBuf,
    pub judge: PathBuf,
    /// `None` for Arm: the compiler that there is for it is too old for the tool.
    pub tool: Option<PathBuf>,
    pub image: PathBuf,
}

/// Those for a machine. Where they cannot be built, [`missing`] says so.
pub fn built(machine: Machine) -> &'static Built {
    static PC: LazyLock<Built> = LazyLock::new(native);
    static ARM: LazyLock<Built> = LazyLock::new(foreign);
    match machine {
        Machine::Pc => &PC,
        Machine::Arm => &ARM,
    }
}

/// The folder of this machine's programs; the tests' own is beside it.
fn target() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it is in the target folder")
}

/// Cargo with the workspace's root, or a folder in it, as its place.
fn build(folder: &str) -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--release", "--locked", "--quiet"]);
    cargo.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder));
    cargo
}

#[track_caller]
fn succeed(cargo: &mut Command) {
    assert!(cargo.status().is_ok_and(|status| status.success()), "{cargo:?}");
}

fn native() -> Built {
    let mut cargo = build(".");
    cargo.args(["--bins", "-p", "clockwise-rig", "-p", "clockwise-cli"]);
    succeed(cargo.arg("--target-dir").arg(target()));
    let program = |name: &str| target().join("release").join(name);
    let path = program("clockwise");
    let mut tool = Command::new(&path);
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("rig-cache");
    tool.args(["run", "--print-image"]).env("XDG_CACHE_HOME", cache);
    let output = tool.output().expect("the tool starts");
    assert!(output.status.success(), "{tool:?}: {output:?}");
    let image = String::from_utf8(output.stdout).expect("UTF-8").trim_end().into();
    let (init, judge) = (program("clockwise-rig-init"), program("clockwise-rig-judge"));
    Built { init, judge, tool: Some(path), image }
}

const ARM: &str = "aarch64-unknown-linux-gnu";

/// With the compiler that `.ci/cross --compiler` has unpacked, in a folder of its own. The tool is not needed, so the image
/// is built by itself.
fn foreign() -> Built {
    let to = target().join("rig-arm");
    let foreign = |cargo: &mut Command| {
        cargo.arg("--target").arg(ARM).arg("--target-dir").arg(&to).env("RUSTC", compiler());
        cargo.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", LINKER);
        succeed(cargo);
    };
    let mut programs = build(".");
    programs.args(["--bins", "-p", "clockwise-rig"]);
    // A link-time optimisation takes a minute, and no law asks for it.
    programs.env("CARGO_PROFILE_RELEASE_LTO", "off");
    programs.env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
    foreign(&mut programs);
    foreign(&mut build("preload"));
    let program = |name: &str| to.join(ARM).join("release").join(name);
    let image = program("libclockwise_preload.so");
    let (init, judge) = (program("clockwise-rig-init"), program("clockwise-rig-judge"));
    Built { init, judge, tool: None, image }
}

const LINKER: &str = "aarch64-linux-gnu-gcc";

fn compiler() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let kept = std::env::var_os("CLOCKWISE_CROSS_DIR").map(PathBuf::from);
    let version = concat!("rust-", env!("CARGO_PKG_RUST_VERSION"), "/rustc");
    kept.unwrap_or_else(|| root.join("target/cross")).join(version)
}

/// What is missing to build for Arm, in a sentence.
pub fn missing() -> Option<String> {
    let is_there = compiler().is_file() && Path::new("/usr/bin").join(LINKER).is_file();
    (!is_there).then(|| "there is no compiler for aarch64: .ci/cross --compiler".to_owned())
}
