//! Reads counted on the board of whoever started the program (`clockwise run --stats`), where the record names one.
//!
//! Must never be the reason that a program fails: a board that cannot be mapped is done without.

use crate::process::{CLOCK, board_path, mode, read};
use clockwise_core::board::{Board, COARSE, OTHER, SIZE, Slot};
use clockwise_core::clock::followed;
use clockwise_core::kernel::{ClockId, Errno, map_shared, who};
use clockwise_core::page::Page;
use clockwise_core::settings::Settings;
use core::ffi::CStr;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Where the board is mapped; 0: not yet, or not at all.
static BOARD: AtomicUsize = AtomicUsize::new(0);
/// The slot that a child inherits the knowledge of: its parent's, from 1 on.
static LAST: AtomicUsize = AtomicUsize::new(0);

/// Word 0 is this process's slot from 1 on; 0 in one that has none yet, such as a child that was just forked.
static OWN: Page = Page::new();
const NONE_LEFT: u64 = u64::MAX;

fn board() -> Option<&'static Board> {
    let address = BOARD.load(Acquire) as *const Board;
    // SAFETY: null, or a mapping of a board's size that is never taken away; a board is made of atomics.
    unsafe { address.as_ref() }
}

/// Maps the board, and takes a slot.
pub fn start() {
    if mode() & Settings::COUNTED == 0 || board().is_some() {
        return;
    }
    let Ok(path) = CStr::from_bytes_until_nul(board_path()) else { return };
    let Some(address) = map_shared(path, SIZE) else { return };
    BOARD.store(address as usize, Release);
    if !board().is_some_and(Board::is_one) {
        BOARD.store(0, Relaxed);
        return;
    }
    // Where it cannot, children count with their parents.
    let _ = OWN.wipe_on_fork();
    if let Some(slot) = own() {
        let (process, name) = who();
        slot.tell(process, 0, name);
    }
}

/// The slot of this process.
fn own() -> Option<&'static Slot> {
    let board = board()?;
    match OWN.load(0) {
        0 => take(board),
        NONE_LEFT => None,
        number => board.slot(number as usize - 1),
    }
}

/// A slot for this process; of threads that come at once one keeps what it takes, and the others' stay empty.
#[cold]
fn take(board: &'static Board) -> Option<&'static Slot> {
    let number = board.claim().map_or(NONE_LEFT, |index| index as u64 + 1);
    if OWN.replace(0, 0, number) {
        let parent = LAST.swap(number as usize, Relaxed);
        if let Some(slot) = board.slot(number.wrapping_sub(1) as usize) {
            slot.tell(0, parent as u64, [0; 16]);
        }
    }
    match OWN.load(0) {
        NONE_LEFT | 0 => None,
        number => board.slot(number as usize - 1),
    }
}

/// A read of a clock that is followed, counted.
#[cold]
pub fn now(clock: ClockId) -> Result<i64, Errno> {
    let (Some(index), Some(slot)) = (followed(clock), own()) else { return read(clock) };
    slot.count(index);
    let before = CLOCK.progress(index);
    let told = read(clock);
    let is_first = CLOCK.unfit().is_some() && slot.count_unfit(index);
    if is_first || CLOCK.progress(index) != before {
        CLOCK.status(clock).iter().for_each(|status| slot.note(index, status));
    }
    told
}

/// A read of another clock.
#[cold]
pub fn count_other(clock: ClockId) {
    let is_coarse = matches!(clock, ClockId::REALTIME_COARSE | ClockId::MONOTONIC_COARSE);
    if let Some(slot) = own() {
        slot.count(if is_coarse { COARSE } else { OTHER });
    }
}
