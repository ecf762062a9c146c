//! The threads that are watched, each with its process and that process's book.
//!
//! Must never wait, or let a thread go on.

use super::book::Book;
use super::frames::Shared;
use super::memory::Memory;
use super::{Asked, Watch, proc};
use crate::arch::{self, Registers};
use crate::os::trace;
use crate::profile::calls::Process;
use std::collections::{BTreeMap, HashMap};

/// The place of the first program's book.
const FIRST: usize = 0;

/// All of them.
pub struct Family {
    threads: HashMap<i32, (i32, usize)>,
    books: BTreeMap<usize, Book>,
    next_book: usize,
    shared: Shared,
    pub watch: Watch,
}

impl Family {
    /// Of one process, with these threads.
    pub fn new(process: i32, threads: impl IntoIterator<Item = i32>) -> Self {
        let watch = Watch::new();
        Self {
            threads: threads.into_iter().map(|thread| (thread, (process, FIRST))).collect(),
            books: BTreeMap::from([(FIRST, Book::new(process, watch.now_ns()))]),
            next_book: FIRST + 1,
            shared: Shared::default(),
            watch,
        }
    }

    /// All that are watched.
    pub fn threads(&self) -> impl Iterator<Item = i32> {
        self.threads.keys().copied()
    }

    /// Whether a thread of that process is left.
    pub fn has(&self, process: i32) -> bool {
        self.threads.values().any(|&(of, _)| of == process)
    }

    /// The process that a thread belongs to, and its book. A new thread may be heard of before its maker tells.
    pub fn belongs(&mut self, thread: i32) -> (i32, usize) {
        if let Some(&belongs) = self.threads.get(&thread) {
            return belongs;
        }
        let process = proc::process_of(thread).unwrap_or(thread);
        let belongs = match self.threads.get(&process) {
            Some(&belongs) => belongs,
            None => (process, self.keep(Book::new(process, self.watch.now_ns()))),
        };
        self.threads.insert(thread, belongs);
        belongs
    }

    /// Keeps a book; its place.
    fn keep(&mut self, book: Book) -> usize {
        let place = self.next_book;
        self.next_book += 1;
        self.books.insert(place, book);
        place
    }

    /// The program of a book has ended.
    fn lay_aside(&mut self, place: usize) {
        let now_ns = self.watch.now_ns();
        let Some(book) = self.books.get_mut(&place) else { return };
        book.end(now_ns);
        // A shell starts any number of programs that never ask for the time.
        if place != FIRST && book.is_empty() {
            self.books.remove(&place);
        }
    }

    /// A thread has made another thread, or a process, whose number is given then.
    pub fn birth(&mut self, maker: i32) -> Option<i32> {
        let thread = trace::born(maker).ok()?;
        let (process, place) = self.belongs(maker);
        // A thread, or another process: the kernel's word for it, since a flag of `clone` decides.
        if proc::process_of(thread).is_none_or(|other| other == process) {
            self.threads.insert(thread, (process, place));
            return None;
        }
        let now_ns = self.watch.now_ns();
        let forked = self.books.get(&place)?.forked(thread, now_ns);
        match self.threads.get(&thread) {
            // It was heard of already, and stands still or has just begun.
            Some((_, fresh)) if self.books.get(fresh).is_some_and(Book::is_empty) => {
                self.books.insert(*fresh, forked);
            }
            Some(_) => {}
            None => {
                let place = self.keep(forked);
                self.threads.insert(thread, (thread, place));
            }
        }
        Some(thread)
    }

    /// A process has become another program, in the one thread that is left of it.
    pub fn exec(&mut self, thread: i32) {
        let (process, before) = self.belongs(thread);
        self.forget(process);
        self.lay_aside(before);
        let place = self.keep(Book::new(process, self.watch.now_ns()));
        self.threads.insert(thread, (process, place));
    }

    /// The first program begins now.
    pub fn begin(&mut self, process: i32) {
        self.books.insert(FIRST, Book::new(process, self.watch.now_ns()));
    }

    /// All other threads of a process are gone.
    pub fn forget_all_but(&mut self, process: i32, thread: i32) {
        self.threads.retain(|&other, &mut (of, _)| of != process || other == thread);
    }

    /// The threads of a process are watched no longer.
    fn forget(&mut self, process: i32) {
        self.threads.retain(|_, &mut (of, _)| of != process);
    }

    /// A thread has ended, or is watched no longer.
    pub fn ended(&mut self, thread: i32) {
        let Some((process, book)) = self.threads.remove(&thread) else { return };
        // The first thread of a process is heard of last.
        if thread == process {
            self.lay_aside(book);
        }
    }

    /// Has the name of a thread remembered.
    pub fn rename(&mut self, thread: i32) {
        let (process, book) = self.belongs(thread);
        if let Some(book) = self.books.get_mut(&book) {
            book.rename(thread, proc::name(process, thread));
        }
    }

    /// Counts a call that a stopped thread makes. `registers` are those in the function that asks by a system call, or those
    /// with which the vDSO's function will return.
    pub fn count(&mut self, thread: i32, asked: Asked, registers: Registers, argument: u64) {
        let (process, book) = self.belongs(thread);
        let Some(book) = self.books.get_mut(&book) else { return };
        let mut memory = Memory::of(process);
        let read = |address| memory.word(address);
        let chain = book.frames.chain(process, asked, registers, &mut self.shared, read);
        book.count(thread, asked.function.call(argument), chain);
    }

    /// The result: of the first program, and of those that have asked.
    pub fn close(self, now_ns: u64) -> Vec<Process> {
        let called =
            self.books.into_iter().filter(|(place, book)| *place == FIRST || !book.is_empty());
        called.map(|(_, book)| book.close(now_ns)).collect()
    }
}

/// The registers of a stopped thread; `None` of a 32-bit program.
pub fn registers(thread: i32) -> Option<Registers> {
    let mut words = [0; 64];
    trace::registers(thread, &mut words).ok().and_then(arch::registers)
}
