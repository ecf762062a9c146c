//! The calls of one program while they are counted.
//!
//! Must never grow without a bound.

use super::frames::Frames;
use super::proc;
use crate::profile::calls::{Call, Process, Site, Thread};
use std::collections::HashMap;

/// Places that are told apart in one program; of more calls it is not known whence they come.
const SITES_MAX: usize = 1 << 16;
/// Threads that are told apart.
const THREADS_MAX: usize = 1 << 16;

/// A program, and what it has called.
#[derive(Clone)]
pub struct Book {
    pub pid: i32,
    program: String,
    pub frames: Frames,
    threads: HashMap<i32, (Option<String>, u64)>,
    sites: HashMap<(Call, Vec<u64>), u64>,
    pub lost: u64,
    pub cpu_ns: Option<u64>,
    began_ns: u64,
    ended_ns: Option<u64>,
}

impl Book {
    /// Of a program that has begun.
    pub fn new(pid: i32, now_ns: u64) -> Self {
        Self {
            pid,
            program: proc::program(pid),
            frames: Frames::default(),
            threads: HashMap::new(),
            sites: HashMap::new(),
            lost: 0,
            cpu_ns: None,
            began_ns: now_ns,
            ended_ns: None,
        }
    }

    /// Of a process that was forked: the same program.
    pub fn forked(&self, pid: i32, now_ns: u64) -> Self {
        let (program, frames) = (self.program.clone(), self.frames.clone());
        Self { program, frames, ..Self::new(pid, now_ns) }
    }

    /// Counts a call.
    pub fn count(&mut self, thread: i32, call: Call, chain: Vec<u64>) {
        let room = self.threads.len() < THREADS_MAX || self.threads.contains_key(&thread);
        if room {
            let pid = self.pid;
            let named = || (proc::name(pid, thread), 0);
            self.threads.entry(thread).or_insert_with(named).1 += 1;
        }
        let key = (call, chain);
        if self.sites.len() < SITES_MAX || self.sites.contains_key(&key) {
            *self.sites.entry(key).or_default() += 1;
        } else {
            self.lost += 1;
        }
    }

    /// The name of a thread, as it is now.
    pub fn rename(&mut self, thread: i32, name: Option<String>) {
        if let (Some(counted), Some(name)) = (self.threads.get_mut(&thread), name) {
            counted.0 = Some(name);
        }
    }

    /// Whether it has called at all.
    pub fn is_empty(&self) -> bool {
        self.sites.is_empty() && self.lost == 0
    }

    /// It has ended, or is watched no longer.
    pub fn end(&mut self, now_ns: u64) {
        self.ended_ns.get_or_insert(now_ns);
    }

    /// The result; the most frequent first.
    pub fn close(mut self, now_ns: u64) -> Process {
        self.end(now_ns);
        let number = |number: i32| u64::try_from(number).unwrap_or_default();
        let thread = |(tid, (name, calls))| Thread { tid: number(tid), name, calls };
        let site = |((call, chain), count)| Site { call, chain, count };
        let modules = self.frames.modules();
        let mut threads: Vec<_> = self.threads.into_iter().map(thread).collect();
        let mut sites: Vec<_> = self.sites.into_iter().map(site).collect();
        threads.sort_by_key(|thread| (std::cmp::Reverse(thread.calls), thread.tid));
        sites.sort_by(|a, b| {
            b.count.cmp(&a.count).then_with(|| (a.call, &a.chain).cmp(&(b.call, &b.chain)))
        });
        Process {
            pid: number(self.pid),
            program: self.program,
            modules,
            threads,
            sites,
            lost: self.lost,
            cpu_ns: self.cpu_ns,
            wall_ns: self.ended_ns.unwrap_or(now_ns).saturating_sub(self.began_ns),
        }
    }
}
