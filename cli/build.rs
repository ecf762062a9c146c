//! Builds the image (`preload/`) and the one that counts (`preload/profile/`), so that they travel inside the tool: one
//! file to install, and all always fit.
//!
//! In folders of their own and free of this build's flags: what they must be is stated in their `Cargo.toml` alone.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() -> Result<(), String> {
    let preload = Path::new(&variable("CARGO_MANIFEST_DIR")).join("../preload");
    for watched in
        ["src", "build.rs", "Cargo.toml", "Cargo.lock", "../core/src", "../core/Cargo.toml"]
    {
        println!("cargo::rerun-if-changed={}", preload.join(watched).display());
    }
    let profile = preload.join("profile");
    for watched in ["src", "Cargo.toml", "Cargo.lock"] {
        println!("cargo::rerun-if-changed={}", profile.join(watched).display());
    }
    println!("cargo::rerun-if-changed=build.rs");
    build(&preload, "libclockwise_preload.so", "clockwise.so")?;
    build(&profile, "libclockwise_profile.so", "profile.so")
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_default()
}

/// Builds the package in `source`, whose library has the name `built`, and lays that as `placed`.
fn build(source: &Path, built: &str, placed: &str) -> Result<(), String> {
    let place = PathBuf::from(variable("OUT_DIR")).join(placed);
    if variable("CARGO_CFG_TARGET_OS") != "linux" || !has_image(&variable("CARGO_CFG_TARGET_ARCH"))
    {
        // The tool says that it has none.
        return put(&place, b"");
    }
    // Of whatever libc the tool is, the image needs none; and its kind of target can make shared libraries.
    let target = variable("TARGET").replace("-musl", "-gnu");
    let folder = PathBuf::from(variable("OUT_DIR")).join("image");
    let mut cargo = Command::new(variable("CARGO"));
    cargo.args(["build", "--release", "--locked", "--offline", "--quiet", "--target", &target]);
    cargo.arg("--target-dir").arg(&folder).current_dir(source);
    let foreign = |name: &str| {
        name.starts_with("CARGO_PROFILE_")
            || name.starts_with("CARGO_FEATURE_")
            || name.starts_with("CARGO_CFG_")
            || matches!(name, "RUSTFLAGS" | "CARGO_ENCODED_RUSTFLAGS" | "CARGO_BUILD_TARGET")
            || matches!(name, "RUSTC_WRAPPER" | "RUSTC_WORKSPACE_WRAPPER" | "CARGO_MAKEFLAGS")
    };
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(foreign) {
            cargo.env_remove(name);
        }
    }
    let status = cargo.status();
    if !status.as_ref().is_ok_and(|status| status.success()) {
        return Err(format!("{built} was not built for {target} from {source:?}: {status:?}"));
    }
    let image = folder.join(&target).join("release").join(built);
    let bytes = std::fs::read(&image).map_err(|error| format!("{}: {error}", image.display()))?;
    put(&place, &bytes)
}

/// The processors that core can make system calls on.
fn has_image(processor: &str) -> bool {
    matches!(processor, "x86_64" | "aarch64")
}

fn put(place: &Path, bytes: &[u8]) -> Result<(), String> {
    std::fs::write(place, bytes).map_err(|error| format!("{}: {error}", place.display()))
}
