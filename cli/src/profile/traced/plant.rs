//! What is written into a running process while it is watched: at each function of its vDSO that tells the time an
//! instruction that stops, and in the unused end of the vDSO a stub for each that makes the system call instead.
//!
//! No thread has to stand still for it: the one instruction changes at once, and nobody runs in the unused end.
//!
//! Must never change any other byte, and never stay: what was there is put back, also if this tool fails.

use super::target::Target;
use crate::arch::{self, Function};
use crate::os::trace;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Room for a stub.
const STUB_BYTES: u64 = 16;

/// One function.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    pub function: Function,
    pub entry: u64,
    /// The stub, and its last instruction.
    pub stub: u64,
    pub ret: u64,
}

/// Where a thread is.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// It has run into the instruction that stops.
    Stopped(Point),
    /// In a stub.
    Stub(Point),
}

/// Bytes at an address, and what was there before.
struct Patch {
    address: u64,
    before: Vec<u8>,
    after: Vec<u8>,
}

/// What is planted, in the process and in those that were forked from it.
pub struct Plant {
    pub points: Vec<Point>,
    stubs: Vec<Patch>,
    breaks: Vec<Patch>,
    processes: Vec<i32>,
}

impl Plant {
    /// Prepares it; nothing is written yet. `None` if the vDSO has no unused end.
    pub fn prepare(target: &Target) -> Option<Self> {
        let room = STUB_BYTES * target.functions.len() as u64;
        // The last byte of what is there may be a zero.
        let end = target.image.len().checked_sub(usize::try_from(room).ok()?)?;
        let is_unused = target.image.get(end.checked_sub(8)?..)?.iter().all(|&byte| byte == 0);
        let mut plant =
            Self { points: vec![], stubs: vec![], breaks: vec![], processes: vec![target.process] };
        for (index, &(function, entry)) in target.functions.iter().enumerate() {
            let (_, number) = arch::CALLS.iter().find(|&&(called, _)| called == function)?;
            let code = arch::stub(*number);
            let stub = target.start + end as u64 + STUB_BYTES * index as u64;
            let at = usize::try_from(entry - target.start).ok()?;
            let before = target.image.get(at..at + arch::BREAK.len())?.to_vec();
            plant.points.push(Point { function, entry, stub, ret: stub + code.ret });
            plant.stubs.push(Patch {
                address: stub,
                before: vec![0; code.code.len()],
                after: code.code,
            });
            plant.breaks.push(Patch { address: entry, before, after: arch::BREAK.to_vec() });
        }
        is_unused.then_some(plant)
    }

    /// Writes it.
    pub fn plant(&self) -> io::Result<()> {
        for &process in &self.processes {
            let memory = File::options().write(true).open(format!("/proc/{process}/mem"))?;
            for patch in self.stubs.iter().chain(&self.breaks) {
                memory.write_all_at(&patch.after, patch.address)?;
            }
        }
        Ok(())
    }

    /// Another process was forked, which has it all.
    pub fn inherited_by(&mut self, process: i32) {
        if !self.processes.contains(&process) {
            self.processes.push(process);
        }
    }

    /// A process has ended, or become another program, and has nothing of it.
    pub fn lost_by(&mut self, process: i32) {
        self.processes.retain(|&other| other != process);
    }

    /// Puts back what was at the functions. Threads may still be in a stub.
    pub fn open(&self) {
        self.put_back(&self.breaks);
    }

    /// Puts back the rest: nobody is in a stub any more.
    pub fn clear(&self) {
        self.put_back(&self.stubs);
    }

    fn put_back(&self, patches: &[Patch]) {
        for process in &self.processes {
            // One that has ended needs nothing.
            let Ok(memory) = File::options().write(true).open(format!("/proc/{process}/mem"))
            else {
                continue;
            };
            for patch in patches {
                let mut now = vec![0; patch.after.len()];
                let is_ours =
                    trace::read(*process, patch.address, &mut now).is_ok() && now == patch.after;
                if is_ours {
                    let _ = memory.write_all_at(&patch.before, patch.address);
                }
            }
        }
    }

    /// Where an instruction pointer leads.
    pub fn place(&self, ip: u64) -> Option<Place> {
        let stopped = self.points.iter().find(|point| point.entry + arch::AFTER_BREAK == ip);
        let stopped = stopped.copied().map(Place::Stopped);
        let in_stub = |point: &&Point| (point.stub..=point.ret).contains(&ip);
        stopped.or_else(|| self.points.iter().find(in_stub).copied().map(Place::Stub))
    }
}

impl Drop for Plant {
    fn drop(&mut self) {
        self.open();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(image: Vec<u8>) -> Target {
        let start = 0x7000;
        let functions = vec![(Function::ClockGettime, start), (Function::Gettimeofday, start + 64)];
        Target { process: -1, functions, start, image, has_image: false }
    }

    #[test]
    fn places_are_the_entries_and_the_stubs_and_nothing_else() {
        let plant = Plant::prepare(&target([vec![0x90; 128], vec![0; 128]].concat())).unwrap();
        let [first, second] = plant.points[..] else { panic!("{:?}", plant.points) };
        assert_eq!((first.entry, second.entry), (0x7000, 0x7040));
        assert!(first.stub >= 0x7080 && second.ret < 0x7100 && first.ret < second.stub);
        for point in [first, second] {
            let stopped = plant.place(point.entry + arch::AFTER_BREAK);
            assert!(matches!(stopped, Some(Place::Stopped(there)) if there.entry == point.entry));
            for ip in point.stub..=point.ret {
                assert!(
                    matches!(plant.place(ip), Some(Place::Stub(there)) if there.stub == point.stub)
                );
            }
            assert!(plant.place(point.ret + 1).is_none());
            assert!(plant.place(point.entry + 2).is_none());
        }
    }

    #[test]
    fn a_vdso_without_an_unused_end_has_no_room() {
        assert!(Plant::prepare(&target(vec![0x90; 256])).is_none());
        let mut image = [vec![0x90; 128], vec![0; 128]].concat();
        image[256 - 33] = 1;
        assert!(Plant::prepare(&target(image)).is_none(), "another's stubs, or a byte too few");
        assert!(Plant::prepare(&target(vec![0; 8])).is_none());
    }
}
