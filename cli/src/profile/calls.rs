//! What a program asked of the clocks, as whoever counted it found it: the image, or a tracer.
//!
//! Data only. Must never resolve, judge or print.

pub use clockwise_core::sites::Call;

/// A place from which a call was made, and how often.
#[derive(Clone, Debug)]
pub struct Site {
    /// What.
    pub call: Call,
    /// Return addresses, the innermost first; the first is always there, the others as far as frame pointers lead.
    pub chain: Vec<u64>,
    /// How often.
    pub count: u64,
}

/// A thread that called.
#[derive(Clone, Debug)]
pub struct Thread {
    /// Its number.
    pub tid: u64,
    /// Its name, if it lived long enough to be asked.
    pub name: Option<String>,
    /// Its calls.
    pub calls: u64,
}

/// A mapped file (or vDSO, or anonymous memory), as /proc/PID/maps has it.
#[derive(Clone, Debug)]
pub struct Module {
    /// The addresses.
    pub start: u64,
    /// One past them.
    pub end: u64,
    /// Where in the file they begin.
    pub offset: u64,
    /// The file; `[vdso]`, or nothing where no file is mapped.
    pub path: String,
}

/// One process, or one program that a process became by exec.
#[derive(Clone, Debug)]
pub struct Process {
    /// Its number.
    pub pid: u64,
    /// What it ran.
    pub program: String,
    /// Executable mappings.
    pub modules: Vec<Module>,
    /// Threads.
    pub threads: Vec<Thread>,
    /// Places.
    pub sites: Vec<Site>,
    /// Calls that found no room in a table: counted, their place not known.
    pub lost: u64,
    /// CPU time that the process took meanwhile, in nanoseconds.
    pub cpu_ns: Option<u64>,
    /// How long it was watched, in nanoseconds.
    pub wall_ns: u64,
}
