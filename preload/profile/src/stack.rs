//! The callers of a caller, by frame pointers that may be none: most programs are compiled without, and the register
//! holds whatever it holds.
//!
//! So nothing is followed: each frame is copied by the kernel, which says so where there is none. Must never read what a
//! frame pointer points to in any other way.

use clockwise_core::kernel::copy_own;

/// A frame is no larger; what says so is none.
const FRAME_MAX: u64 = 1 << 20;
/// No code is so low.
const CODE_MIN: u64 = 4096;
/// Nor so high: the kernel's half begins there at the latest.
const CODE_MAX: u64 = 1 << 56;
/// How much of a stack is copied at once, in words.
const PIECE: usize = 64;
/// And how often.
const COPIES_MAX: u32 = 8;

/// The return addresses beyond the innermost, as far as frames lead from `frame` upwards; how many there are.
pub fn walk(process: u64, frame: u64, addresses: &mut [u64]) -> usize {
    let mut words = [0; PIECE];
    let (mut begin, mut copied, mut copies) = (0, 0, 0);
    // The frames are above what is here; all that comes later above that.
    let mut below = &raw const words as u64;
    let mut at = frame;
    let mut depth = 0;
    for address in addresses {
        let is_frame = at > below && at - below < FRAME_MAX && at.is_multiple_of(16);
        if !is_frame {
            break;
        }
        let mut index = (at.wrapping_sub(begin) / 8) as usize;
        if copies == 0 || index + 2 > copied {
            if copies == COPIES_MAX {
                break;
            }
            (begin, index, copies) = (at, 0, copies + 1);
            copied = copy_own(process, at, &mut words);
        }
        let frame = words.get(..copied).and_then(|words| words.get(index..));
        let Some([next, returns_to, ..]) = frame else { break };
        if !(CODE_MIN..CODE_MAX).contains(returns_to) {
            break;
        }
        *address = *returns_to;
        depth += 1;
        (below, at) = (at, *next);
    }
    depth
}
