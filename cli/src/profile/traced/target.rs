//! The process that is to be watched while it runs: whether it can be, and where its vDSO has the functions that tell
//! the time.
//!
//! Must never change anything of it.

use super::{Refusal, proc};
use crate::arch::{self, Function};
use crate::os::trace;
use clockwise_core::elf::{self, Image};
use clockwise_core::kernel::Errno;
use std::fs::File;
use std::io::{ErrorKind, Read};

/// No vDSO is near this size; a header that says more is not one.
const VDSO_MAX: u64 = 1 << 20;

/// A process, and its vDSO.
pub struct Target {
    pub process: i32,
    /// The functions, each with its address.
    pub functions: Vec<(Function, u64)>,
    /// Where the vDSO lies.
    pub start: u64,
    /// All of it.
    pub image: Vec<u8>,
    /// It has an image of ours, as `cache.rs` names it.
    pub has_image: bool,
}

fn told(why: String) -> Refusal {
    Refusal::Told(why)
}

/// Finds the functions of a process.
///
/// # Errors
/// [`Refusal`] for what is no process, or not one with functions to be found.
pub fn find(process: i32) -> Result<Target, Refusal> {
    let mapped = look(process)?;
    let vdso = mapped.iter().find(|mapping| mapping.module.path == proc::VDSO);
    let Some(vdso) = vdso.map(|mapping| &mapping.module) else {
        return Err(told(format!(
            "process {process} has no vDSO, so each of its questions for the time is a system call: count them with \
             strace -cfp {process}, or start the program anew under `clockwise profile`"
        )));
    };
    let size = (vdso.end - vdso.start).min(VDSO_MAX);
    let mut image = vec![0; size as usize];
    match trace::read(process, vdso.start, &mut image) {
        Ok(read) if read as u64 == size => {}
        Ok(_) | Err(Errno(libc::ESRCH)) => return Err(gone(process)),
        Err(_) => return Err(forbidden(process)),
    }
    let functions = functions(&image, vdso.start);
    if functions.is_empty() {
        return Err(told(format!(
            "the vDSO of process {process} has no functions that tell the time; its calls cannot be counted"
        )));
    }
    let names = mapped.iter().filter_map(|mapping| mapping.module.path.rsplit('/').next());
    let has_image = names
        .into_iter()
        .any(|name| name.strip_suffix(".so").is_some_and(|name| name.starts_with("clockwise-")));
    Ok(Target { process, functions, start: vdso.start, image, has_image })
}

/// Watches all threads of a process.
///
/// # Errors
/// [`Refusal`] if it may not be watched; then none is.
pub fn seize(process: i32) -> Result<Vec<i32>, Refusal> {
    let seized = seize_threads(process)?;
    if seized.is_empty() { Err(gone(process)) } else { Ok(seized) }
}

/// Watches the processes that have the memory of one that is watched, and so run into what is planted there: a child of
/// `vfork` has it until it is another program. Those that it makes meanwhile are watched already.
///
/// # Errors
/// [`Refusal`] if one may not be watched.
pub fn seize_sharers(process: i32) -> Result<Vec<i32>, Refusal> {
    let mut sharers = Vec::new();
    loop {
        let before = sharers.len();
        let shares = |other: &i32| trace::share_memory(process, *other) == Some(true);
        for other in proc::all().into_iter().filter(|&other| other != process).filter(shares) {
            if !sharers.contains(&other) && !seize_threads(other)?.is_empty() {
                sharers.push(other);
            }
        }
        if sharers.len() == before {
            return Ok(sharers);
        }
    }
}

fn seize_threads(process: i32) -> Result<Vec<i32>, Refusal> {
    let mut seized = Vec::new();
    // Those that begin meanwhile are watched if the one that made them was. The last look finds no other.
    loop {
        let before = seized.len();
        for thread in proc::threads(process) {
            if seized.contains(&thread) {
                continue;
            }
            match trace::seize_other(thread) {
                Err(Errno(libc::ESRCH)) => continue,
                Err(_) if !is_ours(thread) => return Err(forbidden(process)),
                _ => seized.push(thread),
            }
        }
        if seized.len() == before {
            return Ok(seized);
        }
    }
}

/// Who watches a thread, if anybody does.
fn tracer(thread: i32) -> Option<i32> {
    proc::field(thread, "TracerPid")?.parse().ok().filter(|&tracer| tracer != 0)
}

fn is_ours(thread: i32) -> bool {
    let own = std::process::id().cast_signed();
    tracer(thread).and_then(proc::process_of) == Some(own)
}

/// A process that is not there any more.
fn gone(process: i32) -> Refusal {
    told(format!("process {process} has ended"))
}

/// Why a process may not be watched, and what to do.
fn forbidden(process: i32) -> Refusal {
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    if let Some(tracer) = tracer(process) {
        let name = proc::program(tracer);
        return told(format!(
            "process {process} is watched already, by process {tracer} ({name}): end that first"
        ));
    }
    match scope.trim() {
        "1" => told(format!(
            "kernel.yama.ptrace_scope is 1 here, by which only root may watch process {process}: try as root, or \
             sysctl kernel.yama.ptrace_scope=0"
        )),
        "2" => told(format!(
            "kernel.yama.ptrace_scope is 2 here, by which only root may watch process {process}: try as root"
        )),
        "3" => told(
            "kernel.yama.ptrace_scope is 3 here, by which nobody may watch a process until the machine is started \
             anew: start the program itself anew with the image, by `clockwise profile -- CMD`"
                .into(),
        ),
        _ => told(format!(
            "process {process} may not be watched: it belongs to another user, or has privileges, so try as root; or a \
             sandbox forbids ptrace (docker run --cap-add SYS_PTRACE)"
        )),
    }
}

/// Why nothing can be written into a process that is watched.
pub fn unwritable(process: i32, error: &std::io::Error) -> Refusal {
    told(format!(
        "nothing can be written to the memory of process {process} ({}), as a debugger would: start the program anew \
         under `clockwise profile`",
        crate::machine::words(error)
    ))
}

/// The functions of an image that lies at this address; the same under two names is one.
fn functions(image: &[u8], start: u64) -> Vec<(Function, u64)> {
    let size = elf::native_extent(image).unwrap_or_default();
    let bytes = image.get(..size).unwrap_or(image);
    let Ok(tables) = Image::parse_native(bytes) else { return Vec::new() };
    let names = arch::VDSO.functions.iter();
    let all = names.filter_map(|&(function, name)| {
        let offset = tables.symbol(name, arch::VDSO.version)?;
        Some((function, start + offset as u64))
    });
    let mut found: Vec<(Function, u64)> = Vec::new();
    for (function, address) in all {
        if found.iter().all(|&(_, other)| other != address) {
            found.push((function, address));
        }
    }
    found
}

/// What it may execute; why it cannot be watched, otherwise.
fn look(process: i32) -> Result<Vec<proc::Mapping>, Refusal> {
    let Some(state) = proc::field(process, "State") else {
        return Err(told(format!("there is no process {process}: see its number in ps")));
    };
    let of = proc::process_of(process);
    if let Some(of) = of.filter(|&of| of != process) {
        return Err(told(format!("{process} is a thread of process {of}: give --pid {of}")));
    }
    if state.starts_with(['Z', 'X']) {
        return Err(told(format!(
            "process {process} has ended already, and waits for its parent to notice"
        )));
    }
    if proc::field(process, "VmSize").is_none() {
        return Err(told(format!(
            "{process} is a thread of the kernel: it asks no clock as a program does"
        )));
    }
    let mapped = proc::executable(process).map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => forbidden(process),
        _ => gone(process),
    })?;
    if is_narrow(process) == Some(true) {
        return Err(told(format!(
            "process {process} is a 32-bit program, whose calls cannot be counted: run a 64-bit build of it"
        )));
    }
    // Found out now: what another has planted is no vDSO to begin with.
    if mapped.is_empty() || tracer(process).is_some() {
        return Err(forbidden(process));
    }
    Ok(mapped)
}

/// Whether it is a 32-bit program.
fn is_narrow(process: i32) -> Option<bool> {
    const CLASS: usize = 4;
    const NARROW: u8 = 1;
    let mut head = [0; 8];
    File::open(format!("/proc/{process}/exe")).ok()?.read_exact(&mut head).ok()?;
    Some(head[CLASS] == NARROW)
}
