//! What the files that a program has mapped tell of their functions: how to unwind them, and which of them stand
//! between a caller and the clock.
//!
//! Files are looked at as bytes that anybody may have written. Must never fail where one is damaged or gone: then it
//! tells nothing.

use super::proc::{self, Mapping};
use framehop::ExplicitModuleSectionInfo;
use gimli::{BaseAddresses, EhFrame, NativeEndian, UnwindSection};
use object::elf::{PF_X, STT_GNU_IFUNC};
use object::read::elf::{ElfFile64, SectionHeader, Sym};
use object::{Endianness, Object, ObjectSection, ObjectSegment, ReadCache, ReadRef, SegmentFlags};
use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

/// Functions through which a program asks for the time, so that the one who asks is their caller: C's, and what Go has
/// between its programs and the kernel.
const BETWEEN: [&str; 21] = [
    "clock_gettime",
    "__clock_gettime",
    "__clock_gettime64",
    "gettimeofday",
    "__gettimeofday",
    "__gettimeofday64",
    "time",
    "__time64",
    "timespec_get",
    "__timespec_get64",
    "clock_getres",
    "__clock_getres",
    "__clock_getres64",
    "runtime.nanotime1.abi0",
    "runtime.nanotime1",
    "runtime.nanotime",
    "runtime.walltime.abi0",
    "runtime.walltime",
    "time.now",
    "time.Now",
    "time.Since",
];

/// A section: where it is to be loaded, and its bytes.
type Section = Option<(Range<u64>, Arc<[u8]>)>;

/// One file.
pub struct Mapped {
    file: File,
    /// Offset in the file, and address, of what is to be executed.
    segments: Vec<(Range<u64>, u64)>,
    eh_frame: Section,
    eh_frame_hdr: Section,
    text: Option<Range<u64>>,
    got: Option<Range<u64>>,
    between: Vec<Between>,
    /// The names of those that the loader chooses one of several functions for, which have no names.
    chosen: Vec<&'static str>,
}

/// A function between a caller and the clock.
struct Between {
    range: Range<u64>,
    /// There is a table by which it can be unwound.
    has_table: bool,
}

/// One of those in [`BETWEEN`], as a file has it.
struct Function {
    name: &'static str,
    range: Range<u64>,
    /// The loader chooses one of several for it.
    is_chosen: bool,
}

/// All of them in a file. The names are read at once: a thread stands still meanwhile, and a file has any number of them.
fn functions<'a, R: ReadRef<'a>>(elf: &ElfFile64<'a, Endianness, R>) -> Vec<Function> {
    let endian = elf.endian();
    let mut found = Vec::new();
    for table in [elf.elf_symbol_table(), elf.elf_dynamic_symbol_table()] {
        let section = elf.elf_section_table().section(table.string_section());
        let names = section.and_then(|section| section.data(endian, elf.data()));
        let Ok(names) = names else { continue };
        for symbol in table.iter().filter(|symbol| !symbol.is_undefined(endian)) {
            let name = names.get(symbol.st_name(endian) as usize..).unwrap_or_default();
            let is_it = |known: &str| {
                name.strip_prefix(known.as_bytes()).is_some_and(|rest| rest.first() == Some(&0))
            };
            let Some(&name) = BETWEEN.iter().find(|known| is_it(known)) else { continue };
            let start = symbol.st_value(endian);
            found.push(Function {
                name,
                range: start..start.saturating_add(symbol.st_size(endian)),
                is_chosen: symbol.st_type() == STT_GNU_IFUNC,
            });
        }
    }
    found
}

impl Mapped {
    fn read(path: &Path) -> Option<Self> {
        let file = File::open(path).ok()?;
        let cache = ReadCache::new(file.try_clone().ok()?);
        let elf = ElfFile64::<Endianness, _>::parse(&cache).ok()?;
        let segments = elf.segments().filter(
            |segment| matches!(segment.flags(), SegmentFlags::Elf { p_flags, .. } if p_flags.contains(PF_X)),
        );
        let segments = segments.map(|segment| {
            let (offset, size) = segment.file_range();
            (offset..offset.saturating_add(size), segment.address())
        });
        let range = |name| {
            let section = elf.section_by_name(name)?;
            Some(section.address()..section.address().checked_add(section.size())?)
        };
        let section = |name| -> Section {
            let data = elf.section_by_name(name)?.data().ok()?;
            Some((range(name)?, data.into()))
        };
        let mut read = Self {
            segments: segments.collect(),
            between: Vec::new(),
            chosen: Vec::new(),
            eh_frame: section(".eh_frame"),
            eh_frame_hdr: section(".eh_frame_hdr"),
            text: range(".text"),
            got: range(".got"),
            file,
        };
        for function in functions(&elf) {
            if function.is_chosen {
                read.chosen.push(function.name);
            } else if read.between.iter().all(|other| other.range != function.range) {
                let has_table = read.has_table(function.range.start);
                read.between.push(Between { range: function.range, has_table });
            }
        }
        Some(read)
    }

    fn has_table(&self, address: u64) -> bool {
        let Some((place, bytes)) = &self.eh_frame else { return false };
        let mut bases = BaseAddresses::default().set_eh_frame(place.start);
        if let Some(text) = &self.text {
            bases = bases.set_text(text.start);
        }
        let table = EhFrame::new(bytes, NativeEndian);
        table.fde_for_address(&bases, address, EhFrame::cie_from_offset).is_ok()
    }

    /// What has to be added to an address of the file for where it is mapped.
    pub fn bias(&self, mapping: &Mapping) -> Option<u64> {
        let offset = mapping.module.offset;
        // A mapping begins at a page, which has 64 KiB at most.
        let begins = |range: &Range<u64>| (range.start & !0xffff..range.end).contains(&offset);
        let (range, address) = self.segments.iter().rfind(|(range, _)| begins(range))?;
        let there = address.wrapping_add(offset).wrapping_sub(range.start);
        Some(mapping.module.start.wrapping_sub(there))
    }

    fn between(&self, address: u64) -> Option<&Between> {
        self.between.iter().find(|between| between.range.contains(&address))
    }

    /// Whether an address of the file lies in a function that stands between a caller and the clock.
    pub fn is_between(&self, address: u64) -> bool {
        self.between(address).is_some()
    }

    /// Where such a function begins, if it cannot be unwound by a table.
    pub fn without_table(&self, address: u64) -> Option<u64> {
        self.between(address)
            .filter(|between| !between.has_table)
            .map(|between| between.range.start)
    }

    /// Whether the function of that name is one of several, that have no names.
    pub fn is_chosen(&self, name: &str) -> bool {
        self.chosen.contains(&name)
    }

    /// The eight bytes before an address of the file.
    pub fn code_before(&self, address: u64) -> Option<[u8; 8]> {
        let at = address.checked_sub(8)?;
        let within = |&(ref range, start): &(Range<u64>, u64)| {
            let offset = range.start.checked_add(at.checked_sub(start)?)?;
            (offset < range.end).then_some(offset)
        };
        let offset = self.segments.iter().find_map(within)?;
        let mut code = [0; 8];
        self.file.read_exact_at(&mut code, offset).ok()?;
        Some(code)
    }

    /// For the unwinder.
    pub fn sections(&self) -> ExplicitModuleSectionInfo<Arc<[u8]>> {
        let (eh_frame_svma, eh_frame) = self.eh_frame.clone().unzip();
        let (eh_frame_hdr_svma, eh_frame_hdr) = self.eh_frame_hdr.clone().unzip();
        ExplicitModuleSectionInfo {
            text_svma: self.text.clone(),
            got_svma: self.got.clone(),
            eh_frame_svma,
            eh_frame,
            eh_frame_hdr_svma,
            eh_frame_hdr,
            ..ExplicitModuleSectionInfo::default()
        }
    }
}

/// The files that were asked for, each read once, however many processes have mapped it.
#[derive(Default)]
pub struct Files(HashMap<(String, String), Option<Rc<Mapped>>>);

impl Files {
    /// The file of a mapping; `None` if there is none, or it tells nothing.
    pub fn of(&mut self, process: i32, mapping: &Mapping) -> Option<Rc<Mapped>> {
        let path = &mapping.module.path;
        if !path.starts_with('/') {
            return None;
        }
        let key = (path.clone(), mapping.file.clone());
        let read = || Mapped::read(&proc::within(process, path)).map(Rc::new);
        self.0.entry(key).or_insert_with(read).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::io::{Cursor, Read, Result, Seek, SeekFrom};

    /// A file that counts how often it is read from.
    struct Counted<'a>(Cursor<Vec<u8>>, &'a Cell<usize>);

    impl Read for Counted<'_> {
        fn read(&mut self, bytes: &mut [u8]) -> Result<usize> {
            self.1.set(self.1.get() + 1);
            self.0.read(bytes)
        }
    }

    impl Seek for Counted<'_> {
        fn seek(&mut self, to: SeekFrom) -> Result<u64> {
            self.0.seek(to)
        }
    }

    #[test]
    fn a_file_is_read_in_few_pieces_however_many_names_it_has() {
        let reads = Cell::new(0);
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let cache = ReadCache::new(Counted(Cursor::new(own), &reads));
        let elf = ElfFile64::<Endianness, _>::parse(&cache).unwrap();
        assert!(elf.symbols().count() > 1000, "as each program has that tests another");
        assert!(functions(&elf).is_empty(), "the time is asked for in libc");
        assert!(reads.get() < 50, "{}", reads.get());
    }

    #[test]
    fn the_functions_of_libc_that_ask_for_the_time_are_found() {
        let maps = proc::executable(std::process::id().cast_signed()).unwrap();
        let is_libc = |path: &str| path.contains("/libc.so") || path.contains("/ld-musl");
        let libc = maps.iter().map(|mapping| &mapping.module.path).find(|path| is_libc(path));
        let read = Mapped::read(Path::new(libc.unwrap())).unwrap();
        let is_found = |name| {
            let cache = ReadCache::new(File::open(libc.unwrap()).unwrap());
            let elf = ElfFile64::<Endianness, _>::parse(&cache).unwrap();
            functions(&elf).into_iter().any(|function| {
                let is_there = function.is_chosen || read.is_between(function.range.start);
                function.name == name && is_there
            })
        };
        for name in ["clock_gettime", "gettimeofday", "time", "clock_getres"] {
            assert!(is_found(name), "{name}");
        }
        assert!(!is_found("runtime.nanotime"));
    }
}
