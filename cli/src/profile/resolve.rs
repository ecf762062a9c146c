//! Addresses as functions: by the modules of a process and what their files tell of themselves, long after it has ended.
//!
//! Files are read as bytes that anybody may have written. Must never execute one, nor fail where one is missing, damaged
//! or not what it was: an address without a name stays an address.

use crate::profile::calls::{Module, Process};
use addr2line::gimli::{self, EndianSlice, RunTimeEndian};
use addr2line::{Context, LookupResult};
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, SymbolKind};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A larger file is not read.
const FILE_MAX: u64 = 2 << 30;

/// A function on the way to a call.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Frame {
    /// The file that it is in, as it was mapped; empty: none.
    pub module: String,
    /// Its name; `None`: the file tells none.
    pub function: Option<String>,
    /// The source file, where debug information tells.
    pub file: Option<String>,
    /// And the line of the call.
    pub line: Option<u32>,
    /// The address in the file, by which other tools find it; in the process, where there is no file.
    pub address: u64,
}

/// The bytes of all files that are needed.
#[derive(Default)]
pub struct Files(BTreeMap<String, Vec<Vec<u8>>>);

impl Files {
    /// Reads the files of modules from which somebody called, with their debug information where it lies apart.
    pub fn of(processes: &[Process]) -> Self {
        let mut paths = BTreeSet::new();
        for process in processes {
            for &address in process.sites.iter().flat_map(|site| &site.chain) {
                paths.extend(module_at(&process.modules, address).map(|module| &module.path));
            }
        }
        // What was replaced meanwhile is not what ran.
        let is_there = |path: &&&String| path.starts_with('/') && !path.ends_with(" (deleted)");
        let paths = paths.iter().filter(is_there);
        Self(paths.map(|&path| (path.clone(), read(Path::new(path)))).collect())
    }
}

fn read(path: &Path) -> Vec<Vec<u8>> {
    let bytes = |path: &Path| {
        let there = std::fs::metadata(path).ok()?;
        let is_right = there.is_file() && there.len() <= FILE_MAX;
        is_right.then(|| std::fs::read(path).ok()).flatten()
    };
    let Some(own) = bytes(path) else { return Vec::new() };
    let debug = object::File::parse(&*own).ok().and_then(|file| {
        let id: String = file.build_id().ok()??.iter().map(|byte| format!("{byte:02x}")).collect();
        let (folder, name) = id.split_at_checked(2)?;
        let folder = Path::new("/usr/lib/debug/.build-id").join(folder);
        bytes(&folder.join(format!("{name}.debug")))
    });
    [Some(own), debug].into_iter().flatten().collect()
}

type Bytes<'a> = EndianSlice<'a, RunTimeEndian>;

/// What one file tells of its addresses.
struct Image<'a> {
    /// Segments: where in the file, how long, at which address.
    segments: Vec<(u64, u64, u64)>,
    /// Functions: address, size, name; in order.
    symbols: Vec<(u64, u64, &'a str)>,
    debug: Option<Context<Bytes<'a>>>,
}

/// Finds functions.
pub struct Resolver<'a> {
    images: BTreeMap<&'a str, Image<'a>>,
}

/// The module that has the address; of several at different times the last.
fn module_at(modules: &[Module], address: u64) -> Option<&Module> {
    modules.iter().rev().find(|module| (module.start..module.end).contains(&address))
}

impl<'a> Resolver<'a> {
    /// Of these files.
    pub fn new(files: &'a Files) -> Self {
        let images = files.0.iter().map(|(path, bytes)| (path.as_str(), Image::new(bytes)));
        Self { images: images.collect() }
    }

    /// The functions at a return address, the innermost first: more than one where one is inlined into another. `None`
    /// if the address is in no module, and so is none of code.
    pub fn frames(&self, process: &Process, returns_to: u64) -> Option<Vec<Frame>> {
        // A call may be a function's last instruction.
        let at = returns_to.saturating_sub(1);
        let module = module_at(&process.modules, at)?;
        let image = self.images.get(module.path.as_str());
        let address = image.and_then(|image| image.address(module, at));
        let frame = Frame {
            module: module.path.clone(),
            function: None,
            file: None,
            line: None,
            address: address.unwrap_or(at),
        };
        let (Some(image), Some(address)) = (image, address) else { return Some(vec![frame]) };
        let mut frames = image.inlined(address, &frame);
        if frames.iter().all(|frame| frame.function.is_none()) {
            let told = frames.pop().unwrap_or(frame);
            frames = vec![Frame { function: image.symbol(address), ..told }];
        }
        Some(frames)
    }
}

impl<'a> Image<'a> {
    fn new(files: &'a [Vec<u8>]) -> Self {
        let parsed = files.iter().filter_map(|bytes| object::File::parse(&**bytes).ok());
        let parsed: Vec<object::File<'a>> = parsed.collect();
        let segments = parsed.first().into_iter().flat_map(|file| file.segments());
        let segments = segments.map(|segment| {
            let (offset, size) = segment.file_range();
            (offset, size, segment.address())
        });
        let mut symbols: Vec<_> = parsed
            .iter()
            .flat_map(|file| file.symbols().chain(file.dynamic_symbols()))
            .filter(|symbol| symbol.is_definition() && symbol.kind() == SymbolKind::Text)
            .filter_map(|symbol| Some((symbol.address(), symbol.size(), symbol.name().ok()?)))
            .collect();
        symbols.sort_unstable();
        symbols.dedup();
        Self {
            segments: segments.collect(),
            symbols,
            debug: parsed.iter().rev().find_map(|file| debug(file)),
        }
    }

    /// The address in the file of an address in the process.
    fn address(&self, module: &Module, at: u64) -> Option<u64> {
        let offset = (at - module.start).checked_add(module.offset)?;
        let holds = |&&(begin, size, _): &&(u64, u64, u64)| {
            offset.checked_sub(begin).is_some_and(|inside| inside < size)
        };
        let (begin, _, address) = self.segments.iter().find(holds)?;
        address.checked_add(offset - begin)
    }

    /// What debug information tells; nothing if there is none.
    fn inlined(&self, address: u64, frame: &Frame) -> Vec<Frame> {
        let mut frames = Vec::new();
        let Some(debug) = &self.debug else { return frames };
        // Debug information that was split off into further files is done without.
        let LookupResult::Output(Ok(mut found)) = debug.find_frames(address) else { return frames };
        while let Ok(Some(inner)) = found.next() {
            let name = inner.function.as_ref();
            let name = name.and_then(|name| Some(demangled(name.raw_name().ok()?, name.language)));
            let location = inner.location.as_ref();
            frames.push(Frame {
                function: name.map(|name| plain(&name)),
                file: location.and_then(|location| location.file).map(str::to_owned),
                line: location.and_then(|location| location.line),
                ..frame.clone()
            });
        }
        frames
    }

    /// The symbol that has the address.
    fn symbol(&self, address: u64) -> Option<String> {
        let after = self.symbols.partition_point(|&(begin, ..)| begin <= address);
        let (begin, size, _) = *self.symbols.get(after.checked_sub(1)?)?;
        // One without a size, as of assembly, reaches to the next. Of several names of an address the shortest.
        if size != 0 && address - begin >= size {
            return None;
        }
        let same = self.symbols[..after].iter().rev().take_while(|symbol| symbol.0 == begin);
        let (_, _, name) = same.min_by_key(|symbol| (symbol.2.len(), symbol.2))?;
        Some(plain(&demangled((*name).into(), None)))
    }
}

/// A name as it was written. Names of C are left alone: a demangler takes `h` for C++'s `unsigned char`.
fn demangled(name: Cow<'_, str>, language: Option<gimli::DwLang>) -> Cow<'_, str> {
    const MANGLED: [&str; 4] = ["_Z", "__Z", "_R", "__R"];
    if MANGLED.iter().any(|&start| name.starts_with(start)) {
        addr2line::demangle_auto(name, language)
    } else {
        name
    }
}

/// A name without what the compiler added, nor anything that a terminal would obey.
fn plain(name: &str) -> String {
    let is_hash = |end: &str| end.len() == 16 && end.bytes().all(|byte| byte.is_ascii_hexdigit());
    let name = match name.rsplit_once("::h") {
        Some((name, end)) if is_hash(end) => name,
        _ => name,
    };
    name.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

fn debug<'a>(file: &object::File<'a>) -> Option<Context<Bytes<'a>>> {
    file.section_by_name(".debug_info")?;
    let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let load = |id: gimli::SectionId| -> Result<Bytes<'a>, gimli::Error> {
        let section = file.section_by_name(id.name());
        // Compressed ones are not read: their bytes are no DWARF.
        let plain = section.filter(|section| {
            let range = section.compressed_file_range();
            range.is_ok_and(|range| range.format == object::CompressionFormat::None)
        });
        let bytes = plain.and_then(|section| section.data().ok());
        Ok(EndianSlice::new(bytes.unwrap_or_default(), endian))
    };
    Context::from_dwarf(gimli::Dwarf::load(load).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::COUNTING;

    fn process(path: &str, end: u64) -> Process {
        let module = Module { start: 0x1000, end, offset: 0, path: path.to_owned() };
        Process {
            pid: 1,
            program: "p".to_owned(),
            modules: vec![module],
            threads: Vec::new(),
            sites: Vec::new(),
            lost: 0,
            cpu_ns: None,
            wall_ns: 0,
        }
    }

    fn files(bytes: &[u8]) -> Files {
        Files(BTreeMap::from([("/a.so".to_owned(), vec![bytes.to_vec()])]))
    }

    #[test]
    fn an_address_is_told_as_far_as_it_is_known() {
        let files = files(COUNTING);
        let resolver = Resolver::new(&files);
        let file = object::File::parse(COUNTING).unwrap();
        let symbol = file.dynamic_symbols().find(|it| it.name() == Ok("gettimeofday")).unwrap();
        let process = process("/a.so", 0x100_0000);
        // The text segment of this file lies at the offset that its address has.
        let offset = file.segments().find_map(|segment| {
            let inside = symbol.address().checked_sub(segment.address())?;
            (inside < segment.size()).then(|| segment.file_range().0 + inside)
        });
        let frames = resolver.frames(&process, 0x1000 + offset.unwrap() + 4).unwrap();
        assert_eq!(frames[0].function.as_deref(), Some("gettimeofday"));
        assert_eq!((frames[0].address, frames.len()), (symbol.address() + 3, 1));
        assert_eq!(resolver.frames(&process, 0x1001).unwrap()[0].function, None, "its header");
        assert_eq!(resolver.frames(&process, 0x1000), None, "before it");
        assert_eq!(resolver.frames(&process, 0), None);
        let elsewhere = self::process("/b.so", 0x2000);
        assert_eq!(resolver.frames(&elsewhere, 0x1800).unwrap()[0].address, 0x17ff);
    }

    #[test]
    fn names_lose_what_the_compiler_added() {
        assert_eq!(plain("timer::now::h0123456789abcdef"), "timer::now");
        assert_eq!(plain("timer::now::hello"), "timer::now::hello");
        assert_eq!(plain("a\u{1b}[0m"), "a?[0m");
    }

    #[test]
    fn names_are_demangled_if_they_are_mangled() {
        let (cpp, rust) = (Some(gimli::DW_LANG_C_plus_plus), Some(gimli::DW_LANG_Rust));
        for language in [None, Some(gimli::DW_LANG_C), cpp, rust] {
            for name in ["h", "i", "f", "c", "v", "Dn", "main", "time", "R", ""] {
                assert_eq!(demangled(name.into(), language), name, "{language:?}");
            }
        }
        assert_eq!(demangled("_Z1hv".into(), None), "h()");
        assert_eq!(demangled("_Z1hv".into(), cpp), "h()");
        assert_eq!(demangled("_RNvC1a1b".into(), rust), "a::b");
    }

    #[test]
    fn damaged_files_tell_something_or_nothing() {
        let process = process("/a.so", u64::MAX);
        let mut state = 1u32;
        for round in 0..300 {
            let mut bytes = COUNTING.to_vec();
            for _ in 0..20 {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                // Where the headers and tables are, mostly.
                let near = if round % 2 == 0 { 4096 } else { bytes.len() };
                bytes[state as usize / 7 % near] ^= (state >> 24) as u8;
            }
            bytes.truncate(bytes.len() - round * 50);
            let files = files(&bytes);
            let resolver = Resolver::new(&files);
            for address in [0x1001, 0x2f00, 0x3000, 0x9000, u64::MAX - 1, u64::MAX] {
                resolver.frames(&process, address);
            }
        }
    }
}
