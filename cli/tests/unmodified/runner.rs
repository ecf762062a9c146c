//! Runs a program with and without the image, under a watchdog. What a run means is for the tests to say.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{LazyLock, Mutex};

/// After so long a run is killed with all its children: it hangs.
pub const WATCHDOG_SECONDS: u32 = 60;

/// How far a reading may be from the kernel's clock where the program cannot ask: no sample wider than this is used. As
/// its readings are compared with those of another process, milliseconds away, a narrower bound would tell nothing.
pub const BOUND_NS: i64 = 100_000;

/// What is preloaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Image {
    /// Nothing.
    None,
    /// The image with ordered reads, as `clockwise run` lays it.
    Causal,
    /// The image with relaxed reads.
    Relaxed,
    /// A library that is none: `faults.rs`.
    Other(PathBuf),
}

impl Image {
    pub const ALL: [Self; 3] = [Self::None, Self::Causal, Self::Relaxed];
    pub const BOTH: [Self; 2] = [Self::Causal, Self::Relaxed];

    /// The file to preload.
    pub fn path(&self) -> Option<&Path> {
        static LAID: LazyLock<[PathBuf; 2]> = LazyLock::new(|| [laid("causal"), laid("relaxed")]);
        match self {
            Self::None => None,
            Self::Causal => Some(&LAID[0]),
            Self::Relaxed => Some(&LAID[1]),
            Self::Other(path) => Some(path),
        }
    }
}

/// Where the tool lays the image for reads in this order, in a cache of the tests' own.
fn laid(order: &str) -> PathBuf {
    let mut tool = Command::new(env!("CARGO_BIN_EXE_clockwise"));
    tool.args(["run", "--print-image", "--order", order]);
    let output = tool.env("XDG_CACHE_HOME", temporary("cache")).output().expect("the tool starts");
    assert!(output.status.success(), "{tool:?}: {output:?}");
    let path = PathBuf::from(String::from_utf8(output.stdout).expect("UTF-8").trim_end());
    assert!(path.is_file(), "{path:?} is what {tool:?} printed");
    path
}

/// A program to run, and in what circumstances.
#[derive(Clone, Debug)]
pub struct Program {
    words: Vec<OsString>,
    before: Vec<PathBuf>,
    after: Vec<PathBuf>,
    variables: Vec<(String, OsString)>,
    user: Option<u32>,
    seconds: u32,
}

impl Program {
    pub fn new(path: impl AsRef<OsStr>) -> Self {
        Self {
            words: vec![path.as_ref().to_owned()],
            before: vec![],
            after: vec![],
            variables: vec![],
            user: None,
            seconds: WATCHDOG_SECONDS,
        }
    }

    pub fn args<T: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = T>) -> Self {
        self.words.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Runs it by another program, which gets the image too.
    pub fn by<T: AsRef<OsStr>>(mut self, launcher: impl IntoIterator<Item = T>) -> Self {
        let launcher = launcher.into_iter().map(|word| word.as_ref().to_owned());
        self.words = launcher.chain(self.words).collect();
        self
    }

    /// Preloads another library before the image.
    pub fn before_image(mut self, library: &Path) -> Self {
        self.before.push(library.to_owned());
        self
    }

    /// Preloads another library after the image.
    pub fn after_image(mut self, library: &Path) -> Self {
        self.after.push(library.to_owned());
        self
    }

    pub fn variable(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.variables.push((name.to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Runs it as another user, which only root can.
    pub fn owned_by(mut self, user: u32) -> Self {
        self.user = Some(user);
        self
    }

    /// Has the watchdog wait for so long only, where a hang is what is expected.
    pub fn for_at_most(mut self, seconds: u32) -> Self {
        self.seconds = seconds;
        self
    }

    /// Runs it to its end.
    pub fn run(&self, image: &Image) -> Ran {
        let mut command = Command::new("timeout");
        // It leads a group of processes, which the signal goes to.
        command.args(["--signal=KILL", &self.seconds.to_string(), "env"]);
        let preloaded = self.before.iter().map(PathBuf::as_path).chain(image.path());
        let preloaded: Vec<_> =
            preloaded.chain(self.after.iter().map(PathBuf::as_path)).map(Path::as_os_str).collect();
        if !preloaded.is_empty() {
            let mut variable = OsString::from("LD_PRELOAD=");
            variable.push(preloaded.join(OsStr::new(" ")));
            command.arg(variable);
        }
        command.args(&self.words).stdin(Stdio::null()).env_remove("LD_PRELOAD");
        command.env("LC_ALL", "C").env("TZ", "UTC");
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        if let Some(user) = self.user {
            command.uid(user).gid(user).current_dir("/");
        }
        let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Ran {
            what: format!("{:?} with {image:?}", self.words),
            status: output.status,
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Runs it with each of these images; each must end well and tell the same. Gives what they told.
    #[track_caller]
    pub fn tells_the_same(&self, images: &[Image]) -> String {
        let told: Vec<_> = images.iter().map(|image| self.run(image).holds().stdout).collect();
        for (image, other) in images.iter().zip(&told) {
            assert_eq!(&told[0], other, "{:?}: {:?} and {image:?} differ", self.words, images[0]);
        }
        told.into_iter().next().expect("there are images")
    }
}

/// How a run ended.
#[derive(Debug)]
pub struct Ran {
    pub what: String,
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    /// Checks that it ended well, and that the loader took all that was preloaded.
    #[track_caller]
    pub fn holds(self) -> Self {
        assert!(self.status.success(), "{self:#?}");
        for refusal in ["ld.so: object", "Error loading shared library"] {
            assert!(!self.stderr.contains(refusal), "{self:#?}");
        }
        self
    }
}

/// The kernel's wall clock and monotonic clock, in nanoseconds, read by a process of its own.
pub fn kernel_now() -> [i64; 2] {
    let told = Program::new(compiled("now", &[])).run(&Image::None).holds().stdout;
    let mut numbers = told.split_whitespace().map(|number| number.parse().expect("a number"));
    [(); 2].map(|()| numbers.next().expect("two numbers"))
}

/// A program of the distribution; `None`, and words on standard error, if it is not installed and need not be.
pub fn installed(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // The distribution's own before what may be a wrapper of it.
    let folders = [PathBuf::from("/usr/bin")].into_iter().chain(std::env::split_paths(&path));
    let sbin = ["/usr/sbin", "/usr/lib/postgresql/15/bin"].map(PathBuf::from);
    let found = folders.chain(sbin).map(|folder| folder.join(name)).find(|file| file.is_file());
    if found.is_none() {
        not_installed(name);
    }
    found
}

/// A shared library of the distribution, by the name of its file.
pub fn installed_library(name: &str) -> Option<PathBuf> {
    let folder = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    let folders = [&folder, "/usr/lib64", "/usr/lib"].map(PathBuf::from);
    let found = folders.into_iter().map(|folder| folder.join(name)).find(|file| file.is_file());
    if found.is_none() {
        not_installed(name);
    }
    found
}

/// Whether this is root.
pub fn is_root() -> bool {
    Program::new("id").args(["-u"]).run(&Image::None).holds().stdout == "0\n"
}

/// Whether namespaces can be made here, of mounts and of time; without them it is not tried.
pub fn can_unshare(what: &str) -> bool {
    let can = Program::new("true").by(["unshare", "-m", "-T"]).run(&Image::None).status.success();
    if !can {
        not_tried(what, "only root can, where the container allows it");
    }
    can
}

/// Says why something is not tried: this machine or this user cannot.
pub fn not_tried(what: &str, why: &str) {
    say(&format!("not tried here: {what}: {why}"));
}

/// Says that a program is not tried, or fails where all are to be.
fn not_installed(name: &str) {
    assert!(std::env::var_os("CLOCKWISE_ALL_PROGRAMS").is_none(), "{name} is not installed");
    not_tried(name, "it is not installed");
}

/// Says something on the tests' own standard error: not captured, unlike what is printed, for it should be seen.
pub fn say(words: &str) {
    let _ = writeln!(std::io::stderr(), "{words}");
}

/// A folder of the tests' own for things of this name; it stays.
pub fn temporary(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("unmodified").join(name);
    std::fs::create_dir_all(&folder).expect("the folder for temporary files can be written");
    folder
}

/// A file beside this one, in `programs`.
pub fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/unmodified/programs").join(name)
}

/// `programs/NAME.c` as a program, compiled once for each set of options.
pub fn compiled(name: &str, options: &[&str]) -> PathBuf {
    compiled_by("gcc", name, options)
}

/// The same by another compiler. With `-shared` among the options it is a library.
pub fn compiled_by(compiler: &str, name: &str, options: &[&str]) -> PathBuf {
    static DONE: LazyLock<Mutex<HashMap<String, PathBuf>>> = LazyLock::new(Mutex::default);
    let label = format!("{compiler} {name} {}", options.join(" "));
    // One compiler at a time is enough for a small machine.
    let mut done = DONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let path = done.entry(label).or_insert_with_key(|label| {
        let mut hasher = DefaultHasher::new();
        label.hash(&mut hasher);
        let path = temporary("built").join(format!("{name}-{:x}", hasher.finish()));
        // Another run of the tests may be using the one that is there.
        let fresh = path.with_extension(std::process::id().to_string());
        let mut command = Command::new(compiler);
        command.args(["-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]).arg(&fresh);
        command.arg(source(&format!("{name}.c"))).args(options);
        let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        assert!(
            output.status.success(),
            "{command:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        std::fs::rename(&fresh, &path).expect("a file can be renamed in its folder");
        path
    });
    path.clone()
}
