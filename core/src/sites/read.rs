//! What stands in a file of [`Sites`](super::Sites), from its bytes.
//!
//! Must never trust them: any of the processes may have written anything.

use super::{
    BLOCK, BLOCKS, CHAIN_WORDS, CHAINS, COUNTS, Call, DEPTH, ENTRY_HEAD, HEAD, KEY, Kind, LOST,
    MARK, MISSED, MODULE_HEAD, MODULE_WORDS, MODULES_LOST, NAME, NUMBER, OWNERS, PARENT, PATH_MAX,
    PLACES, SITE_WORDS, SITES, TAKEN, THREAD_NAME, TID,
};

/// What stands in a file.
#[derive(Clone, Copy, Debug)]
pub struct Contents<'a> {
    bytes: &'a [u8],
    /// Calls of processes that found no room.
    pub missed: u64,
}

/// A process that counted.
#[derive(Clone, Copy, Debug)]
pub struct Process<'a> {
    contents: Contents<'a>,
    block: usize,
    /// Its number among those that counted.
    pub own: u64,
    /// That of the process that forked it; 0: it came by exec.
    pub parent: u64,
    /// The kernel's number of it; 0: it was forked and did not tell.
    pub process: u64,
    /// Its name, ended by zeros.
    pub name: [u8; 16],
    /// Calls whose place or thread found no room.
    pub lost: u64,
    /// Modules that found no room.
    pub modules_lost: u64,
}

/// A place from which calls were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// Its number in its process.
    pub index: usize,
    /// What was called.
    pub call: Call,
    /// To where the call returned.
    pub address: u64,
    /// Of how many calls the chain was looked at.
    pub samples: u64,
}

/// Callers of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The place.
    pub site: usize,
    /// How often they were found.
    pub samples: u64,
    /// To where they return, the innermost first; unused ones are 0.
    pub outer: [u64; DEPTH],
}

/// A thread that counted.
#[derive(Clone, Copy, Debug)]
pub struct Thread<'a> {
    contents: Contents<'a>,
    block: usize,
    /// The kernel's number of it; 0: not known.
    pub tid: u64,
    /// Its name when it was first seen, ended by zeros.
    pub name: [u8; 16],
    /// Whether it stands for all threads that found no room of their own.
    pub is_rest: bool,
}

/// An executable mapping.
#[derive(Clone, Copy, Debug)]
pub struct Module {
    /// Its first address.
    pub start: u64,
    /// One past its last.
    pub end: u64,
    /// Where in the file it begins.
    pub offset: u64,
    path: [u8; PATH_MAX],
    length: usize,
}

impl Module {
    /// What is mapped, as the kernel names it; empty: nothing that has a name.
    #[must_use]
    pub fn path(&self) -> &[u8] {
        self.path.get(..self.length).unwrap_or_default()
    }
}

/// The first bytes of a new file; the rest of its [`SIZE`](super::SIZE) is zeros.
#[must_use]
pub const fn header() -> [u8; 8] {
    MARK.to_ne_bytes()
}

/// Reads the bytes of a file; `None` if they are none.
#[must_use]
pub fn read(bytes: &[u8]) -> Option<Contents<'_>> {
    let contents = Contents { bytes, missed: 0 };
    if bytes.len() < HEAD * 8 || contents.word(0) != MARK {
        return None;
    }
    Some(Contents { missed: contents.word(MISSED), ..contents })
}

/// The number of what begins with that block.
const fn number(block: usize) -> u64 {
    (HEAD + block * BLOCK) as u64
}

fn name(contents: Contents<'_>, at: usize) -> [u8; 16] {
    let name = u128::from(contents.word(at)) | u128::from(contents.word(at + 1)) << 64;
    name.to_le_bytes()
}

impl<'a> Contents<'a> {
    fn word(self, index: usize) -> u64 {
        let eight = self.bytes.get(index * 8..).and_then(|bytes| bytes.first_chunk());
        eight.map_or(0, |eight| u64::from_ne_bytes(*eight))
    }

    fn at(self, block: usize, word: usize) -> u64 {
        self.word(HEAD + block * BLOCK + word)
    }

    /// The first of the blocks of that kind, of one process or all.
    fn owned(self, kind: Kind, process: Option<u64>) -> impl Iterator<Item = usize> + 'a {
        let taken = self.word(TAKEN).min(BLOCKS as u64) as usize;
        (0..taken).filter(move |&block| {
            let owner = self.word(OWNERS + block);
            let is_owner = process.is_none_or(|process| owner & 0xffff_ffff == process);
            owner >> 32 == kind as u64 && is_owner
        })
    }

    /// The processes that counted, in the order in which they came.
    pub fn processes(self) -> impl Iterator<Item = Process<'a>> + 'a {
        self.owned(Kind::Process, None).map(move |block| Process {
            contents: self,
            block,
            own: number(block),
            parent: self.at(block, PARENT),
            process: self.at(block, NUMBER),
            name: name(self, HEAD + block * BLOCK + NAME),
            lost: self.at(block, LOST),
            modules_lost: self.at(block, MODULES_LOST),
        })
    }
}

impl<'a> Process<'a> {
    /// The places from which it called. One may stand there twice; each has its own counts.
    pub fn sites(self) -> impl Iterator<Item = Site> + 'a {
        (0..SITES).filter_map(move |index| {
            let word = |at| self.contents.at(self.block, PLACES + index * SITE_WORDS + at);
            Some(Site {
                index,
                call: Call::from_word(word(1))?,
                address: Some(word(0)).filter(|&address| address != 0)?,
                samples: word(2),
            })
        })
    }

    /// The callers that were found beyond the places.
    pub fn chains(self) -> impl Iterator<Item = Chain> + 'a {
        let contents = self.contents;
        contents.owned(Kind::Chains, Some(self.own)).flat_map(move |block| {
            (0..CHAINS).filter_map(move |index| {
                let word = |at| contents.at(block, index * CHAIN_WORDS + at);
                let depth = (word(1) >> 32) as usize;
                let outer = |at| if at < depth { word(3 + at) } else { 0 };
                // 0: nothing; 1: it was being written.
                (word(0) > 1).then(|| Chain {
                    site: word(1) as u32 as usize,
                    samples: word(2),
                    outer: core::array::from_fn(outer),
                })
            })
        })
    }

    /// The threads that called.
    pub fn threads(self) -> impl Iterator<Item = Thread<'a>> + 'a {
        let contents = self.contents;
        contents.owned(Kind::Thread, Some(self.own)).map(move |block| Thread {
            contents,
            block,
            tid: contents.at(block, TID),
            name: name(contents, HEAD + block * BLOCK + THREAD_NAME),
            is_rest: contents.at(block, KEY) == 0,
        })
    }

    /// The executable mappings, in the order in which they were found.
    pub fn modules(self) -> impl Iterator<Item = Module> + 'a {
        let contents = self.contents;
        contents.owned(Kind::Modules, Some(self.own)).flat_map(move |block| {
            let mut at = MODULE_HEAD;
            core::iter::from_fn(move || {
                let word = |index: usize| contents.at(block, at + index);
                let length = usize::try_from(word(0)).ok()?;
                if length < ENTRY_HEAD || at + length > MODULE_WORDS {
                    return None;
                }
                let mut path = [0; PATH_MAX];
                for (index, eight) in path.chunks_mut(8).enumerate().take(length - ENTRY_HEAD) {
                    eight.copy_from_slice(&word(ENTRY_HEAD + index).to_le_bytes());
                }
                let bytes = (word(4) as usize).min(PATH_MAX);
                let module =
                    Module { start: word(1), end: word(2), offset: word(3), path, length: bytes };
                at += length;
                Some(module)
            })
        })
    }
}

impl Thread<'_> {
    /// How often it called from that place.
    #[must_use]
    pub fn count(&self, site: usize) -> u64 {
        if site < SITES { self.contents.at(self.block, COUNTS + site) } else { 0 }
    }
}
