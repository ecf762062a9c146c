//! The ELF reader against the real vDSO, against images built here for every class and byte order,
//! against an exact look-up that shares no code with it, and against images that were damaged.

mod build;
mod exact;

use build::{Hash, Shape, Symbol};
use clockwise_core::elf::{ElfError, Image, extent, native_extent};
use exact::Exact;
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::mpsc;
use std::time::Duration;

/// Says on standard error, which the test runner does not hide, what could not be judged here.
macro_rules! not_judged {
    ($($words:tt)*) => {{
        use std::io::Write;
        drop(writeln!(std::io::stderr(), "not judged: {}", format_args!($($words)*)));
    }};
}

/// The vDSO of this process, all of its mapping, read without a pointer; `Err` says why not.
fn vdso() -> Result<Vec<u8>, String> {
    let maps = fs::read_to_string("/proc/self/maps").map_err(|error| error.to_string())?;
    let line = maps.lines().find(|line| line.ends_with("[vdso]"));
    let range = line.and_then(|line| line.split(' ').next()).ok_or("no vDSO is mapped here")?;
    let (start, end) = range.split_once('-').ok_or("an unreadable line in /proc/self/maps")?;
    let [start, end] = [start, end].map(|hex| u64::from_str_radix(hex, 16).unwrap());
    let mut bytes = vec![0; usize::try_from(end - start).unwrap()];
    let memory = File::open("/proc/self/mem").map_err(|error| error.to_string())?;
    memory.read_exact_at(&mut bytes, start).map_err(|error| error.to_string())?;
    // An emulator may show its own addresses in one file and the host's memory in the other.
    if bytes.starts_with(b"\x7fELF") { Ok(bytes) } else { Err("not the memory it names".into()) }
}

/// The vDSO, or `None` after saying that `what` cannot be judged.
fn vdso_or_say(what: &str) -> Option<Vec<u8>> {
    vdso().map_err(|why| not_judged!("{what}: {why}")).ok()
}

/// The version and the functions of the vDSO of the processor that an image is for, by `vdso(7)`.
fn promised(image: &[u8]) -> Option<(&'static [u8], &'static [&'static [u8]])> {
    let machine = if image[5] == 1 { image[18] } else { image[19] };
    Some(match machine {
        3 | 62 => (
            b"LINUX_2.6",
            &[
                b"__vdso_clock_gettime",
                b"__vdso_gettimeofday",
                b"__vdso_time",
                b"__vdso_clock_getres",
            ],
        ),
        183 => (
            b"LINUX_2.6.39",
            &[b"__kernel_clock_gettime", b"__kernel_gettimeofday", b"__kernel_clock_getres"],
        ),
        _ => return None,
    })
}

fn page_size() -> usize {
    const AT_PAGESZ: usize = 6;
    let vector = fs::read("/proc/self/auxv").unwrap();
    let word = |bytes: &[u8]| usize::from_ne_bytes(bytes.try_into().unwrap());
    let words: Vec<_> = vector.chunks_exact(size_of::<usize>()).map(word).collect();
    words.chunks_exact(2).find(|pair| pair[0] == AT_PAGESZ).unwrap()[1]
}

/// Runs `work`, and fails instead of waiting for ever: no time is measured, only endlessness found.
fn ends(work: impl FnOnce() + Send + 'static) {
    let (done, ended) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        work();
        done.send(()).ok();
    });
    if ended.recv_timeout(Duration::from_secs(120)) == Err(mpsc::RecvTimeoutError::Timeout) {
        panic!("still looking after two minutes");
    }
    thread.join().unwrap();
}

#[test]
fn the_real_vdso_has_the_functions_that_its_processor_promises() {
    let Some(bytes) = vdso_or_say("the functions of the real vDSO") else { return };
    let image = Image::parse(&bytes).unwrap();
    let Some((version, names)) = promised(&bytes) else {
        return not_judged!("no promise is known for this processor's vDSO");
    };
    for name in names {
        let text = String::from_utf8_lossy(name);
        let offset = image.symbol(name, version).unwrap_or_else(|| panic!("{text} not found"));
        assert!(offset > 0 && offset < extent(&bytes).unwrap(), "{text} at {offset}");
        for wrong in [&b"LINUX_2.5"[..], b"LINUX_2.6.399", b"LINUX_", b"linux-vdso.so.1", b""] {
            assert_eq!(image.symbol(name, wrong), None, "{text} with a version it does not have");
        }
    }
    for unknown in [&b"__vdso_nothing"[..], b"__vdso_clock_gettim", b"__vdso_clock_gettime2", b""] {
        assert_eq!(image.symbol(unknown, version), None, "{}", String::from_utf8_lossy(unknown));
    }
}

#[test]
fn the_extent_of_the_real_vdso_is_its_mapping() {
    let Some(bytes) = vdso_or_say("the extent of the real vDSO") else { return };
    let page = page_size();
    let size = extent(&bytes[..4096]).unwrap();
    let rounded = size.next_multiple_of(page);
    // Section headers, where a kernel keeps them, follow the segment and may need one page more.
    let mapped = bytes.len();
    assert!(rounded == mapped || rounded + page == mapped, "{size} in a mapping of {mapped}");
}

#[test]
fn the_real_vdso_and_an_exact_look_up_agree_on_every_name_and_version() {
    let Some(bytes) = vdso_or_say("agreement on the real vDSO") else { return };
    assert!(agrees(&bytes) > 0);
}

/// Compares the two on every name and version that `bytes` could mean; how many functions it has.
fn agrees(bytes: &[u8]) -> usize {
    let exact = Exact::new(bytes);
    let image = Image::parse(bytes).unwrap();
    let native = Image::parse_native(bytes).ok();
    let strings = exact.strings();
    // A name may begin inside another: linkers merge the tails.
    let ends = (0..strings.len()).map(|at| strings[at..].split(|&byte| byte == 0).next().unwrap());
    let mut found = 0;
    for name in ends {
        for version in strings.split(|&byte| byte == 0).chain([&b"V"[..]]) {
            let told = image.symbol(name, version);
            let text = [name, version].map(String::from_utf8_lossy);
            assert_eq!(told, exact.symbol(name, version), "{} version {}", text[0], text[1]);
            if let Some(native) = native {
                assert_eq!(told, native.symbol(name, version), "{} version {}", text[0], text[1]);
            }
            found += usize::from(told.is_some());
        }
    }
    found
}

#[test]
fn every_class_byte_order_and_hash_gives_the_right_functions() {
    for shape in Shape::all() {
        let bytes = shape.build(&build::symbols(shape.versions));
        let image = Image::parse(&bytes).unwrap_or_else(|error| panic!("{shape:?}: {error}"));
        let at = |name: &str, version: &str| image.symbol(name.as_bytes(), version.as_bytes());
        assert_eq!(extent(&bytes), Ok(bytes.len()), "{shape:?}");
        assert_eq!(at("global", "V_1"), Some(build::text_at(&bytes, 0)), "{shape:?}");
        assert_eq!(at("weak", "V_1"), Some(build::text_at(&bytes, 4)), "{shape:?}");
        assert_eq!(at("untyped", "V_1"), Some(build::text_at(&bytes, 8)), "{shape:?}");
        assert_eq!(at("hidden", "V_2"), Some(build::text_at(&bytes, 12)), "{shape:?}");
        for name in ["local", "undefined", "object", "outside", "absent", "glob", "globally", ""] {
            assert_eq!(at(name, "V_1"), None, "{name} in {shape:?}");
        }
        if shape.versions {
            assert_eq!(at("twice", "V_1"), Some(build::text_at(&bytes, 16)), "{shape:?}");
            assert_eq!(at("twice", "V_2"), Some(build::text_at(&bytes, 20)), "{shape:?}");
            let wrong = [("global", "V_2"), ("hidden", "V_1"), ("global", "base.so")];
            for (name, version) in wrong.into_iter().chain([("unversioned", "base.so")]) {
                assert_eq!(at(name, version), None, "{name} version {version} in {shape:?}");
            }
        } else {
            // Without the tables there is nothing to tell versions apart by.
            assert_eq!(at("global", "anything"), at("global", "V_1"), "{shape:?}");
        }
        assert!(agrees(&bytes) > 0, "{shape:?}");
        let is_native = shape.wide == cfg!(target_pointer_width = "64")
            && shape.little == cfg!(target_endian = "little");
        let native = if is_native { Ok(bytes.len()) } else { Err(ElfError::NotElf) };
        assert_eq!(native_extent(&bytes), native, "{shape:?}");
        assert_eq!(Image::parse_native(&bytes).err(), native.err(), "{shape:?}");
    }
}

#[test]
fn what_is_not_an_image_is_refused_with_its_reason() {
    let shape = Shape { load: 0, ..Shape::all().next().unwrap() };
    let bytes = shape.build(&build::symbols(true));
    let parse = |bytes: &[u8]| Image::parse(bytes).err();
    for (at, value) in [(0, 0), (3, b'f'), (4, 0), (4, 3), (5, 0), (5, 3)] {
        let mut bytes = bytes.clone();
        bytes[at] = value;
        assert_eq!(parse(&bytes), Some(ElfError::NotElf), "byte {at} is {value}");
        assert_eq!(extent(&bytes), Err(ElfError::NotElf), "byte {at} is {value}");
    }
    assert_eq!(parse(b""), Some(ElfError::NotElf));
    assert_eq!(parse(&bytes[..6]), Some(ElfError::Truncated));
    assert_eq!(parse(&bytes[..60]), Some(ElfError::Truncated));
    assert_eq!(parse(&shape.without_segments()), Some(ElfError::NoSymbols));
    assert_eq!(extent(&shape.without_segments()), Err(ElfError::NoSymbols));
}

#[test]
fn no_damage_to_an_image_makes_the_reader_panic_or_point_outside() {
    let mut images: Vec<_> =
        Shape::all().map(|shape| shape.build(&build::symbols(shape.versions))).collect();
    let real = vdso_or_say("damage to the real vDSO").into_iter().collect::<Vec<_>>();
    // The real one gets as many turns as all the others.
    let turns = images.len();
    images.extend(real.iter().cycle().take(turns * real.len()).cloned());
    ends(move || {
        let images: Vec<_> =
            images.iter().map(|image| (image.as_slice(), Exact::new(image).tables())).collect();
        let (parsed, found) = (0..210_000).fold((0, 0), |(parsed, found), turn| {
            let (image, areas) = &images[turn % images.len()];
            let (ok, some) = survives(image, areas, &mut Dice(turn as u64));
            (parsed + usize::from(ok), found + usize::from(some))
        });
        // Damage that is always noticed at once would prove little of what lies behind the door.
        assert!(parsed > 20_000 && found > 5_000, "{parsed} parsed, {found} with a function");
    });
}

/// Knuth's linear congruential generator: the same numbers on every machine.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // The high bits are the good ones; the remainder's bias does not matter here.
        (self.0 >> 33) as usize % limit
    }
}

/// Damages `image` in one to four places and asks it everything; whether it could be read, and
/// whether it still had a function.
fn survives(image: &[u8], areas: &[Range<usize>], dice: &mut Dice) -> (bool, bool) {
    let mut bytes = image.to_vec();
    let mut end = bytes.len();
    for _ in 0..=dice.below(4) {
        let area = &areas[dice.below(areas.len())];
        let at = (area.start + dice.below(area.len())).min(bytes.len() - 8);
        let width = [1, 2, 4, 8][dice.below(4)];
        match dice.below(7) {
            0 | 1 => bytes[at] ^= 1 << dice.below(8),
            2 => bytes[at..at + width].fill(0xff),
            3 => bytes[at..at + width].fill(0),
            4 => bytes[at] = dice.below(256) as u8,
            5 => {
                let from = dice.below(bytes.len() - width);
                bytes.copy_within(from..from + width, at);
            }
            _ => end = [at, dice.below(bytes.len()), bytes.len()][dice.below(3)],
        }
    }
    let bytes = &bytes[..end];
    extent(bytes).ok();
    let Ok(image) = Image::parse(bytes) else { return (false, false) };
    let mut some = false;
    for name in ["global", "twice", "", "__vdso_time", "__kernel_clock_gettime"] {
        for version in ["V_1", "LINUX_2.6"] {
            if let Some(offset) = image.symbol(name.as_bytes(), version.as_bytes()) {
                assert!(offset < bytes.len(), "{name} at {offset} of {}", bytes.len());
                some = true;
            }
        }
    }
    (true, some)
}

#[test]
fn tables_that_never_end_are_walked_once_and_not_for_each_symbol() {
    // Two hundred thousand versions that lead from one to the next, and a symbol count beyond the
    // image: a walk for each symbol would be 10^10 steps.
    let shape = Shape { hash: Hash::Sysv, versions: true, ..Shape::all().next().unwrap() };
    let mut bytes = shape.build(&build::symbols(true));
    let (count_at, last_version) = Exact::new(&bytes).count_and_last_version();
    let order = |word: usize| {
        let word = u32::try_from(word).unwrap();
        if shape.little { word.to_le_bytes() } else { word.to_be_bytes() }
    };
    let end = bytes.len();
    bytes.resize(4 << 20, 0);
    bytes[count_at..count_at + 4].copy_from_slice(&[0xff; 4]);
    bytes[last_version + 16..last_version + 20].copy_from_slice(&order(end - last_version));
    for at in (end..bytes.len() - 40).step_by(20) {
        bytes[at + 4..at + 6].fill(7);
        bytes[at + 16..at + 20].copy_from_slice(&order(20));
    }
    ends(move || {
        let image = Image::parse(&bytes).unwrap();
        assert_eq!(image.symbol(b"", b"V_1"), None);
        assert_eq!(image.symbol(b"absent", b"V_3"), None);
    });
    let mut bytes = shape.build(&[Symbol::function("only", 1, 2)]);
    // As many program headers as the field can say, each of no size, so all of them the first.
    let fields = if shape.wide { 54..58 } else { 42..46 };
    bytes[fields].copy_from_slice(&[0, 0, 0xff, 0xff]);
    assert_eq!(Image::parse(&bytes).err(), Some(ElfError::NoSymbols));
}
