//! A call counted: by what was called, to where it returns, and on which thread. In one of some hundreds the callers'
//! callers too.
//!
//! Must never make a system call but where something is seen for the first time, or sampled.

use crate::arch::thread_pointer;
use crate::process::{file, is_quiet, look, number, own, recorded_number};
use crate::stack;
use clockwise_core::kernel::{thread_number, who};
use clockwise_core::sites::{Call, Counting, Counts, DEPTH, Sites, Who};

/// How often new modules are looked for because a caller's caller is in none: that address may be no one's.
const LOOKS_FOR_OUTER: u64 = 16;

/// Counts a call that returns to `address`, in a caller whose frame pointer may be `frame`.
#[inline(always)]
pub fn count(call: Call, address: u64, frame: u64) {
    let Some(file) = file() else { return };
    let Some(process) = own(file) else { return missed(file) };
    let key = thread_pointer();
    let known = process.thread(key, || number(key));
    let Some(counts) = known.or_else(|| new_thread(&process, key)) else { return lost(&process) };
    let Some(site) = process.site(call, address) else { return lost(&process) };
    if counts.count(site) {
        sample(&process, site, address, frame);
    }
}

#[cold]
#[inline(never)]
fn missed(file: Sites<'_>) {
    file.miss();
}

#[cold]
#[inline(never)]
fn lost(process: &Counting<'_>) {
    process.lose();
}

#[cold]
#[inline(never)]
fn new_thread<'a>(process: &Counting<'a>, key: u64) -> Option<Counts<'a>> {
    process.add_thread(key, || {
        if is_quiet() {
            return Who::default();
        }
        let tid = thread_number();
        let recorded = recorded_number(process.process(), key);
        let expected = if recorded == Some(tid) { tid } else { 0 };
        Who { tid, expected, name: who().1 }
    })
}

#[cold]
#[inline(never)]
fn sample(process: &Counting<'_>, site: usize, address: u64, frame: u64) {
    let mut outer = [0; DEPTH];
    let mut depth = 0;
    if !is_quiet() {
        if !process.knows(address) && process.may_look(u64::MAX) {
            look(process);
        }
        depth = stack::walk(process.process(), frame, &mut outer);
        depth = known(process, outer.get(..depth).unwrap_or_default());
    }
    process.sample(site, outer.get(..depth).unwrap_or_default());
}

/// How many of the addresses are in modules: a register that holds something else leads astray.
fn known(process: &Counting<'_>, addresses: &[u64]) -> usize {
    let first_unknown = || addresses.iter().position(|&address| !process.knows(address));
    match first_unknown() {
        None => addresses.len(),
        Some(_) if process.may_look(LOOKS_FOR_OUTER) => {
            look(process);
            first_unknown().unwrap_or(addresses.len())
        }
        Some(known) => known,
    }
}
