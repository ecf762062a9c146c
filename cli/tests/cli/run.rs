//! `clockwise run`: the program that is started does not notice, and whoever starts it is told what matters.

mod cache;
mod outlook;
mod reach;
mod start;
mod stats;
mod terminal;

use crate::common::{folder, tool};
use std::path::{Path, PathBuf};
use std::process::Command;

/// `clockwise run` with a cache of this test alone.
fn launch(cache: &Path, args: &[&str]) -> Command {
    let mut command = tool(&["run"]);
    command.args(args).env("XDG_CACHE_HOME", cache).env_remove("LD_PRELOAD");
    command
}

/// The same, where the image is preloaded whatever is to be gained: a build for tests gains nothing.
fn forced(cache: &Path, args: &[&str]) -> Command {
    launch(cache, &[&["--force"], args].concat())
}

/// A program made from C.
pub fn compiled(folder: &Path, name: &str, source: &str, flags: &[&str]) -> PathBuf {
    let (code, program) = (folder.join(format!("{name}.c")), folder.join(name));
    std::fs::write(&code, source).unwrap();
    let mut gcc = Command::new("gcc");
    let output = gcc.arg("-o").arg(&program).arg(&code).args(flags).output().expect("gcc is there");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// An executable file with this content.
fn script(path: &Path, content: &[u8]) {
    std::fs::write(path, content).unwrap();
    chmod(path, 0o755);
}

fn chmod(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// A folder of this test, and a cache in it.
fn places(test: &str) -> (PathBuf, PathBuf) {
    let folder = folder(&format!("run_{test}"));
    let cache = folder.join("cache");
    (folder, cache)
}

pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
