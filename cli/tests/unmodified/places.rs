//! Places where a program has less than elsewhere, or another time: namespaces, sandboxes, a changed root, limits, a full
//! disk, another user. Nothing of the host is altered: what is mounted is mounted in a namespace that ends with it.

use crate::runner::{Image, Program, can_unshare, compiled, is_root, not_tried};
use crate::survival::{answered, judge};
use std::path::{Path, PathBuf};

pub const NOBODY: u32 = 65_534;

/// A folder that another user can enter, which the one of the build may not be.
pub struct Open(pub PathBuf);

impl Open {
    pub fn new(name: &str) -> Self {
        let folder = format!("clockwise-unmodified-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        std::fs::create_dir(&folder).expect("a fresh folder for temporary files");
        set_mode(&folder, 0o755);
        Self(folder)
    }

    pub fn copy(&self, file: &Path, name: &str, mode: u32) -> PathBuf {
        let to = self.0.join(name);
        std::fs::copy(file, &to).expect("a copy");
        set_mode(&to, mode);
        to
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("our own file");
}

/// Runs a shell's line with a program's path as `$1`, in a mount namespace of its own.
fn in_mounts(line: &str, program: &Path) -> Program {
    let words = ["-c", line, "sh"].map(Path::new);
    Program::new("sh").args(words).args([program]).by(["unshare", "-m"])
}

#[test]
fn clocks_follow_into_time_namespaces() {
    if !can_unshare("time namespaces") {
        return;
    }
    let enter = judge("namespaces").args(["enter"]);
    enter.tells_the_same(&Image::ALL);
    let offsets =
        |monotonic, boottime| ["unshare", "-T", "--monotonic", monotonic, "--boottime", boottime];
    enter.clone().by(offsets("100000", "200000")).tells_the_same(&Image::ALL);
    judge("namespaces").by(offsets("-3", "5")).tells_the_same(&Image::ALL);
    // Nested, by exec.
    let nested = judge("clocks").args(["fork"]).by(offsets("7", "7")).by(offsets("100", "100"));
    nested.tells_the_same(&Image::ALL);
}

#[test]
fn the_image_adds_no_thread() {
    let grep = Program::new("grep").args(["-x", "Threads:.1", "/proc/self/status"]);
    grep.tells_the_same(&Image::ALL);
    // Which a process with a thread beside it cannot do; nor can all users on every machine.
    let unshare = Program::new("true").by(["unshare", "-U", "-T"]);
    if !unshare.run(&Image::None).status.success() {
        return not_tried("a user namespace", "this machine allows none");
    }
    unshare.tells_the_same(&Image::ALL);
}

/// All that a filter does, with the first reading before and after it, and behind one that was there at the start.
pub const SANDBOXES: [[&str; 2]; 7] = [
    ["kill", "late"],
    ["all", "late"],
    ["refuse", "late"],
    ["refuse", "early"],
    ["kill", "early"],
    ["all", "early"],
    ["clocks", "exec"],
];

#[test]
fn clocks_answer_behind_a_filter_that_was_set_after_the_first_reading() {
    for sandbox in &SANDBOXES[..3] {
        judge("sandbox").args(sandbox).tells_the_same(&Image::ALL);
    }
}

#[test]
fn clocks_answer_behind_a_filter_that_was_set_before_the_first_reading() {
    for sandbox in &SANDBOXES[3..] {
        judge("sandbox").args(sandbox).tells_the_same(&Image::ALL);
    }
}

#[test]
fn clocks_answer_without_proc_and_sys_and_in_a_changed_root() {
    if !can_unshare("a changed root") {
        return;
    }
    let root = Open::new("root");
    let root_is = format!("root={}", root.0.display());
    judge("clocks").args([root_is.as_str(), "fork"]).tells_the_same(&Image::ALL);
    let line = "mount -t tmpfs none /sys && mount -t tmpfs none /proc && exec \"$1\" fork";
    in_mounts(line, &compiled("clocks", &[])).tells_the_same(&Image::ALL);
}

/// From libc always; from the image too where a mount namespace can be had.
#[test]
fn clocks_answer_where_the_vdso_is_hidden() {
    let hide = compiled("hide-vdso", &[]);
    let hidden = judge("clocks").args(["no-vdso", "fork"]).by([&hide]);
    let told = hidden.tells_the_same(&Image::ALL);
    if can_unshare("a vDSO that is hidden from the image") {
        assert_eq!(told, "hidden from all\nheld\n");
    }
}

#[test]
fn clocks_answer_under_limits() {
    for limit in ["no-descriptors", "no-memory", "no-locked-memory", "no-file-size"] {
        judge("clocks").args([limit]).tells_the_same(&Image::ALL);
    }
    // With nothing open, the image's own files get the numbers of the standard ones. It ends with 0 if all held.
    let line = "exec \"$1\" fork <&- >&- 2>&-";
    let words = ["-c", line, "sh"].map(Path::new);
    let closed = Program::new("sh").args(words).args([compiled("clocks", &[])]);
    assert_eq!(closed.tells_the_same(&Image::ALL), "");
    let small_stack = judge("clocks").args(["fork"]).by(["prlimit", "--stack=131072"]);
    small_stack.tells_the_same(&Image::ALL);
}

#[test]
fn a_full_disk_stops_no_program_whose_image_is_laid() {
    if !can_unshare("a full disk") {
        return;
    }
    // The tool has laid the image in its cache there; then the disk is filled.
    for order in ["causal", "relaxed"] {
        let line = "mount -t tmpfs -o size=1m none /mnt && cd /mnt && export XDG_CACHE_HOME=/mnt \
            && \"$2\" run --order \"$3\" --print-image > /dev/null \
            && ! cat /dev/zero > rest && ! /bin/echo word > word \
            && exec \"$2\" run --order \"$3\" --force -- \"$1\" tell fork";
        let program = in_mounts(line, &compiled("clocks", &[]));
        let program = program.args([env!("CARGO_BIN_EXE_clockwise"), order]);
        let ran = program.run(&Image::None).holds();
        assert_eq!(ran.stdout, answered(), "{ran:#?}");
    }
}

#[test]
fn a_set_uid_program_runs_as_if_there_were_no_image() {
    if !is_root() {
        return not_tried("a set-uid program", "only root can run one as another user");
    }
    let folder = Open::new("setuid");
    let clocks = compiled("clocks", &[]);
    let (plain, raised) =
        (folder.copy(&clocks, "plain", 0o755), folder.copy(&clocks, "raised", 0o4755));
    for image in Image::BOTH {
        let image = Image::Other(folder.copy(image.path().expect("a path"), "image.so", 0o755));
        let run = |program: &Path| {
            let program = Program::new(program).args(["tell", "fork"]).owned_by(NOBODY);
            program.run(&image).holds().stdout
        };
        // The loader drops it there, and takes it for the same program without the bit.
        assert_eq!(run(&plain), answered());
        let told = run(&raised);
        if told == answered() {
            return not_tried(
                "a set-uid program",
                "the folder for temporary files ignores the bit",
            );
        }
        assert_eq!(told, "raised\nlibc answers\nheld\n");
    }
}
