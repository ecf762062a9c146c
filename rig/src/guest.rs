//! [`Guest`]: a machine that boots, runs its programs and is gone.

use crate::cpio::Archive;
use crate::kernel::Kernel;
use crate::machine::{Counter, Machine};
use crate::script::{self, Act};
use crate::snapshot;
use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// A boot that has not come up by then never will: about one in a hundred. Most take three seconds; where instructions are
/// counted, and the host does other work, twenty.
const UP: Duration = Duration::from_secs(45);
const POLL: Duration = Duration::from_millis(10);

/// Between the outputs of two programs; no text holds it.
const SEPARATOR: char = '\u{1e}';

/// A machine to run programs in.
#[derive(Clone, Debug)]
pub struct Guest {
    kernel: Kernel,
    init: PathBuf,
    processors: u32,
    counter: Counter,
    settles: bool,
    words: String,
    options: Vec<String>,
    files: Vec<(PathBuf, String)>,
    script: Vec<Act>,
    seconds: u64,
}

impl fmt::Display for Guest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (version, words) = (&self.kernel.version, self.words.trim_start());
        write!(f, "kernel {version} on {}: {words}", self.processors)?;
        match self.counter {
            Counter::Invariant => {}
            Counter::Promiseless => f.write_str("; no invariant TSC")?,
            Counter::Hertz(hertz) => write!(f, "; {hertz} Hz")?,
        }
        if !self.settles {
            f.write_str("; at once")?;
        }
        self.options.iter().try_for_each(|option| write!(f, " {option}"))?;
        self.script.iter().try_for_each(|act| write!(f, "; {act}"))
    }
}

/// A program of the host's, and how it is called in a guest.
#[derive(Clone, Debug)]
pub struct Program {
    file: PathBuf,
    args: Vec<String>,
    variables: Vec<(String, String)>,
}

impl Program {
    /// Without arguments, in an empty environment.
    #[must_use]
    pub fn new(file: &Path) -> Self {
        Self { file: file.to_owned(), args: vec![], variables: vec![] }
    }

    /// More arguments.
    #[must_use]
    pub fn args<'a>(mut self, args: impl IntoIterator<Item = &'a str>) -> Self {
        self.args.extend(args.into_iter().map(str::to_owned));
        self
    }

    /// In its environment.
    #[must_use]
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Where it lies in the guest: a folder for each, so that each keeps its name.
    fn place(&self, index: usize) -> String {
        let name = self.file.file_name().unwrap_or_default().to_string_lossy();
        format!("/programs/{index}/{name}")
    }

    /// For the first process, words that end with a zero byte each: how many follow, the environment, how many
    /// follow, the program and its arguments.
    fn words(&self, index: usize) -> String {
        let variables = self.variables.iter().map(|(name, value)| format!("{name}={value}"));
        let call = [self.place(index)].into_iter().chain(self.args.iter().cloned());
        let counts = [self.variables.len(), 1 + self.args.len()].map(|count| count.to_string());
        let [first, second] = counts.map(std::iter::once);
        let words = first.chain(variables).chain(second).chain(call);
        words.map(|word| word + "\0").collect()
    }
}

/// How a program ended.
#[derive(Clone, Debug)]
pub struct Ran {
    /// Its exit status; 128 and the signal, if one ended it.
    pub status: i32,
    /// Its output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl Guest {
    /// With one processor, whose counter promises a constant rate. `init` is this crate's program of that name.
    #[must_use]
    pub fn new(kernel: &Kernel, init: &Path) -> Self {
        Self {
            kernel: kernel.clone(),
            init: init.to_owned(),
            processors: 1,
            counter: Counter::Invariant,
            settles: true,
            words: String::new(),
            options: vec![],
            files: vec![],
            script: vec![],
            seconds: 30,
        }
    }

    /// With so many.
    #[must_use]
    pub fn processors(mut self, processors: u32) -> Self {
        self.processors = processors;
        self
    }

    /// The machine that it is.
    #[must_use]
    pub fn machine(&self) -> Machine {
        self.kernel.machine
    }

    /// The processor makes no promise about its counter. On a PC only: the other's always do.
    #[must_use]
    pub fn not_invariant(mut self) -> Self {
        self.counter = Counter::Promiseless;
        self
    }

    /// The counter says that it has this rate, in Hz. On Arm only: a PC's is the host's.
    #[must_use]
    pub fn counts(mut self, hertz: u64) -> Self {
        self.counter = Counter::Hertz(hertz);
        self
    }

    /// The first program starts at once, while the kernel is still measuring its counter (the first second or two).
    #[must_use]
    pub fn unsettled(mut self) -> Self {
        self.settles = false;
        self
    }

    /// More words on the kernel's command line.
    #[must_use]
    pub fn boots_with(mut self, words: &str) -> Self {
        self.words = format!("{} {words}", self.words);
        self
    }

    /// More options of QEMU's.
    #[must_use]
    pub fn options(mut self, options: &[&str]) -> Self {
        self.options.extend(options.iter().map(|&option| option.to_owned()));
        self
    }

    /// A file of the host's, there as `path`; with the libraries it needs, if it is a program.
    #[must_use]
    pub fn file(mut self, from: &Path, path: &str) -> Self {
        self.files.push((from.to_owned(), path.to_owned()));
        self
    }

    /// What is done to the machine meanwhile. `savevm` finds a disk to save to.
    #[must_use]
    pub fn script(mut self, script: impl IntoIterator<Item = Act>) -> Self {
        self.script.extend(script);
        self
    }

    /// How long the programs may take once the machine is up.
    #[must_use]
    pub fn seconds(mut self, seconds: u64) -> Self {
        self.seconds = seconds;
        self
    }

    /// Boots it and runs the programs to their ends, one after the other; a boot that never came up is tried once more.
    ///
    /// # Errors
    /// Why there is no status of each, with the end of the console.
    pub fn run<const COUNT: usize>(
        &self,
        programs: &[Program; COUNT],
    ) -> Result<[Ran; COUNT], String> {
        let _processors = Share::take(self.processors);
        static RUNS: AtomicU32 = AtomicU32::new(0);
        let number = RUNS.fetch_add(1, Ordering::Relaxed);
        let name = format!("clockwise-rig-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let mut tries = 0;
        let ran = loop {
            tries += 1;
            let made = self.lay(&folder, programs);
            made.map_err(|error| format!("{}: {error}", folder.display()))?;
            match self.boot(&folder) {
                Err(End::NeverUp(_)) if tries == 1 => {}
                Err(End::NeverUp(why) | End::Failed(why)) => break Err(why),
                Ok(ran) => break Ok(ran),
            }
        };
        let _ = fs::remove_dir_all(&folder);
        ran?.try_into().map_err(|ran| format!("the guest told of other programs: {ran:?}"))
    }

    /// Writes the initramfs and the files that QEMU fills.
    fn lay(&self, folder: &Path, programs: &[Program]) -> std::io::Result<()> {
        let mut archive = Archive::default();
        for name in ["proc", "sys", "dev", "tmp"] {
            archive.folder(name);
        }
        let places: Vec<_> =
            programs.iter().enumerate().map(|(index, program)| program.place(index)).collect();
        let programs = programs.iter().enumerate();
        let words = programs.clone().map(|(index, program)| program.words(index));
        let settles = if self.settles { "settle\0" } else { "start\0" };
        let words: String = std::iter::once(settles.to_owned()).chain(words).collect();
        archive.file("command", words.as_bytes());
        let programs = programs.map(|(index, program)| (&*program.file, &*places[index]));
        let files = self.files.iter().map(|(from, path)| (from.as_path(), path.as_str()));
        for (from, path) in [(&*self.init, "init")].into_iter().chain(programs).chain(files) {
            archive.copy(from, path)?;
            for (library, place) in self.kernel.machine.libraries(from)? {
                archive.copy(&library, &place)?;
            }
        }
        fs::create_dir_all(folder)?;
        fs::write(folder.join("initrd"), archive.finish())?;
        fs::write(folder.join("disk"), snapshot::empty())?;
        for name in ["console", "stdout", "stderr", "control"] {
            File::create(folder.join(name))?;
        }
        let _ = fs::remove_file(folder.join("monitor"));
        Ok(())
    }

    fn command(&self, folder: &Path) -> Command {
        let at = |name: &str| folder.join(name).display().to_string();
        let mut command = Command::new(self.kernel.machine.emulator().0);
        // Software emulation: nested virtualisation is not to be had everywhere, and has clocks of its own.
        command.args(["-accel", "tcg", "-m", "192", "-smp", &self.processors.to_string()]);
        command.args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]);
        command.args(self.kernel.machine.options(self.counter));
        for name in ["console", "stdout", "stderr", "control"] {
            command.args(["-chardev", &format!("file,id={name},path={}", at(name))]);
        }
        let monitor = format!("socket,id=monitor,path={},server=on,wait=off", at("monitor"));
        command.args(["-chardev", &monitor, "-mon", "chardev=monitor,mode=readline"]);
        let disk = format!("if=none,id=disk,format=qcow2,file={}", at("disk"));
        command
            .args(["-drive", &disk, "-initrd", &at("initrd")])
            .arg("-kernel")
            .arg(&self.kernel.image);
        let console = self.kernel.machine.console();
        let words = "quiet panic=-1 cryptomgr.notests random.trust_cpu=on clockwise-rig";
        let words = format!("console={console} {words}{}", self.words);
        command.args(["-append", &words]).args(&self.options);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    fn boot(&self, folder: &Path) -> Result<Vec<Ran>, End> {
        let log =
            File::create(folder.join("qemu")).map_err(|error| End::Failed(error.to_string()))?;
        let spawned = self.command(folder).stderr(log).spawn();
        let mut qemu = Killed(spawned.map_err(|error| End::Failed(format!("QEMU: {error}")))?);
        let read = |name: &str| {
            let text = fs::read(folder.join(name)).unwrap_or_default();
            String::from_utf8_lossy(&text).into_owned()
        };
        let why = |what: &str| {
            let end = |name: &str| {
                let bytes = fs::read(folder.join(name)).unwrap_or_default();
                let from = bytes.len().saturating_sub(2_000);
                String::from_utf8_lossy(&bytes[from..]).into_owned()
            };
            let names = ["control", "stdout", "stderr", "qemu", "console"];
            let ends = names.map(|name| format!("\n{name}: ...{}", end(name)));
            format!("{self}: {what}{}", ends.concat())
        };
        let (start, limit) = (Instant::now(), Duration::from_secs(self.seconds));
        while !read("control").contains("up") {
            if start.elapsed() > UP || !qemu.is_running() {
                return Err(End::NeverUp(why("the guest never came up")));
            }
            thread::sleep(POLL);
        }
        let start = Instant::now();
        let is_late = || start.elapsed() > limit;
        let acted = script::run(&self.script, folder, &mut qemu.0, is_late);
        while qemu.is_running() {
            if is_late() {
                return Err(End::Failed(why(&format!("the guest took over {limit:?}; {acted:?}"))));
            }
            thread::sleep(POLL);
        }
        acted.map_err(|what| End::Failed(why(&what)))?;
        let control = read("control");
        let statuses = control.lines().filter_map(|line| line.strip_prefix("rc ")?.parse().ok());
        let [stdout, stderr] = ["stdout", "stderr"].map(read);
        let texts = stdout.split(SEPARATOR).zip(stderr.split(SEPARATOR));
        let ran: Vec<_> = statuses
            .zip(texts)
            .map(|(status, (stdout, stderr))| Ran {
                status,
                stdout: stdout.to_owned(),
                stderr: stderr.to_owned(),
            })
            .collect();
        if !control.lines().any(|line| line == "down") {
            return Err(End::Failed(why("the guest ended before its programs did")));
        }
        Ok(ran)
    }
}

enum End {
    NeverUp(String),
    Failed(String),
}

/// QEMU, which does not outlive this.
struct Killed(Child);

impl Killed {
    fn is_running(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(None))
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Processors of the host that a machine occupies: machines wait for one another, since they are judged by how
/// their clocks run, not by how well they share.
struct Share(u32);

static FREE: Mutex<Option<u32>> = Mutex::new(None);
static FREED: Condvar = Condvar::new();

impl Share {
    fn take(processors: u32) -> Self {
        let all = thread::available_parallelism().map_or(1, |all| all.get() as u32);
        let wanted = processors.min(all);
        let free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        let is_short = |free: &mut Option<u32>| *free.get_or_insert(all) < wanted;
        let mut free = FREED.wait_while(free, is_short).unwrap_or_else(PoisonError::into_inner);
        *free = free.map(|free| free - wanted);
        Self(wanted)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        *free = free.map(|free| free + self.0);
        FREED.notify_all();
    }
}
