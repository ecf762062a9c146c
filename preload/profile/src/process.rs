//! This process: the file that it counts in, its room there, its number and its modules, and whether it may make system
//! calls of its own.
//!
//! Must never be the reason that a program fails: a file that cannot be mapped is done without, and a process that has
//! its system calls filtered is asked nothing more.

use clockwise_core::kernel::{
    SharedLinux, copy_own, each_executable_mapping, is_filtered, map_shared, thread_number, who,
};
use clockwise_core::page::Page;
use clockwise_core::settings::Settings;
use clockwise_core::sites::{Counting, SIZE, Sites};
use core::ffi::CStr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicIsize, AtomicU64, AtomicUsize};

/// The record; whoever lays the image out for a program writes into the file.
#[used]
static SETTINGS: Settings = Settings::as_built();

/// Where the file is mapped; 0: not yet, or not at all.
static FILE: AtomicUsize = AtomicUsize::new(0);
/// The number of the process that a child inherits the knowledge of: its parent's.
static LAST: AtomicU64 = AtomicU64::new(0);
/// No system call of its own any more; children inherit it as they do a filter.
static QUIET: AtomicBool = AtomicBool::new(false);
/// Where from the thread pointer libc keeps a thread's number; 0: not known.
static NUMBER_AT: AtomicIsize = AtomicIsize::new(0);

/// Word 0 is this process's number in the file; 0 in one that has none yet, such as a child that was just forked.
static OWN: Page = Page::new();
const NONE_LEFT: u64 = u64::MAX;

/// Run by the loader (DT_INIT): maps the file, takes room, and looks at the modules that are there.
pub extern "C" fn start() {
    SharedLinux::find();
    // The compiler must not take what it sees for what the file says.
    let settings = core::hint::black_box(&SETTINGS);
    if settings.mode & Settings::COUNTED == 0 || FILE.load(Relaxed) != 0 {
        return;
    }
    let Ok(path) = CStr::from_bytes_until_nul(&settings.board) else { return };
    let Some(address) = map_shared(path, SIZE) else { return };
    if Sites::new(words(address as usize)).is_none() {
        return;
    }
    FILE.store(address as usize, Release);
    QUIET.store(is_filtered(), Relaxed);
    // Where it cannot, children count with their parents.
    let _ = OWN.wipe_on_fork();
    if let Some(process) = file().and_then(own) {
        let (number, name) = who();
        process.tell(number, 0, name);
        if !is_quiet() {
            find_number(number);
            look(&process);
        }
    }
}

/// The file.
#[inline(always)]
pub fn file() -> Option<Sites<'static>> {
    let address = FILE.load(Acquire);
    (address != 0).then(|| Sites::again(words(address)))
}

/// The words of the file that is mapped there.
#[inline(always)]
fn words(address: usize) -> &'static [AtomicU64] {
    // SAFETY: the address of a mapping of that size, which is never taken away; words that all may write to are atomics.
    unsafe { core::slice::from_raw_parts(address as *const AtomicU64, SIZE / 8) }
}

/// The room of this process.
#[inline(always)]
pub fn own(file: Sites<'static>) -> Option<Counting<'static>> {
    match OWN.load(0) {
        0 => take(file),
        number => file.process(number),
    }
}

/// Room for this process; of threads that come at once one keeps what it takes, and the others' stays empty.
#[cold]
#[inline(never)]
fn take(file: Sites<'static>) -> Option<Counting<'static>> {
    let number = file.take_process().unwrap_or(NONE_LEFT);
    if OWN.replace(0, 0, number) {
        let parent = LAST.swap(number, Relaxed);
        if let Some(process) = file.process(number) {
            let (number, name) = if is_quiet() { (0, [0; 16]) } else { who() };
            process.tell(number, if parent == NONE_LEFT { 0 } else { parent }, name);
        }
    }
    file.process(OWN.load(0))
}

/// Whether system calls had better not be made.
pub fn is_quiet() -> bool {
    QUIET.load(Relaxed)
}

/// From now on no system call is made for counting.
pub fn be_quiet() {
    QUIET.store(true, Relaxed);
}

/// Notes the executable mappings that are there.
#[cold]
#[inline(never)]
pub fn look(process: &Counting<'_>) {
    each_executable_mapping(|mapping| {
        process.add_module(mapping.start, mapping.end, mapping.offset, mapping.path);
    });
}

/// Looks for the number of this thread, which is the process's first, in libc's record of the thread: glibc and musl keep
/// it there, each in its own place. Each later thread is asked whether it is right.
#[cold]
#[inline(never)]
fn find_number(process: u64) {
    const PIECE: usize = 32;
    let (pointer, tid) = (crate::arch::thread_pointer(), thread_number());
    let (mut at, end) = crate::arch::NEAR;
    while at < end {
        let mut words = [0; PIECE];
        let copied = copy_own(process, pointer.wrapping_add_signed(at as i64), &mut words);
        for (index, word) in words.iter().enumerate().take(copied) {
            for (half, number) in [word & 0xffff_ffff, word >> 32].into_iter().enumerate() {
                let offset = at + (index * 8 + half * 4) as isize;
                if number == tid && offset != 0 {
                    return NUMBER_AT.store(offset, Relaxed);
                }
            }
        }
        at += (PIECE * 8) as isize;
    }
}

/// The number that libc's record of the thread has, if it can be told; as the kernel reads it.
pub fn recorded_number(process: u64, pointer: u64) -> Option<u64> {
    let at = NUMBER_AT.load(Relaxed);
    let address = pointer.wrapping_add_signed(at as i64);
    let mut word = [0];
    let is_there = at != 0 && copy_own(process, address & !7, &mut word) == 1;
    is_there.then(|| word[0] >> (address % 8 * 8) & 0xffff_ffff)
}

/// The same, of a thread for which [`recorded_number`] has told one.
#[inline(always)]
pub fn number(pointer: u64) -> u64 {
    let address = pointer.wrapping_add_signed(NUMBER_AT.load(Relaxed) as i64) as *const u32;
    // SAFETY: it was read there before, in the record of the calling thread, which is there as long as the thread. Volatile:
    // the kernel writes it, and another thread that gets the record.
    u64::from(unsafe { address.read_volatile() })
}
