//! Finds a symbol in an ELF image given as bytes: the vDSO.
//!
//! Safe code over a slice: every field is read through a checked range, so that no image, however
//! mangled, can do more than give an error or no symbol. Both classes and both byte orders, or [`Native`] alone.
//!
//! Must never trust a count or an offset from the image, nor loop more often than the image has bytes.

use core::fmt;

/// Why an image could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElfError {
    /// It does not begin with `\x7fELF` and a known class and byte order.
    NotElf,
    /// A table or string lies outside the image.
    Truncated,
    /// There is no loadable segment or no dynamic section with symbols.
    NoSymbols,
}

impl fmt::Display for ElfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotElf => "not an ELF image",
            Self::Truncated => "a table of the ELF image lies outside it",
            Self::NoSymbols => "the ELF image has no dynamic symbols",
        })
    }
}

impl core::error::Error for ElfError {}

/// The class and the byte order of an image: 64 bits or 32, the lowest byte first or last.
trait Format: Copy {
    /// What the two bytes of the header name.
    fn named(class: u8, order: u8) -> Option<Self>;
    fn is_wide(self) -> bool;
    fn is_little(self) -> bool;
}

/// Any of the four; known when the header is read.
#[derive(Clone, Copy)]
pub struct Any {
    wide: bool,
    little: bool,
}

impl Format for Any {
    fn named(class: u8, order: u8) -> Option<Self> {
        let known = matches!(class, 1 | 2) && matches!(order, 1 | 2);
        known.then_some(Self { wide: class == 2, little: order == 1 })
    }

    fn is_wide(self) -> bool {
        self.wide
    }

    fn is_little(self) -> bool {
        self.little
    }
}

/// That of this program and of its vDSO, known when it is compiled: a third of the code.
#[derive(Clone, Copy)]
pub struct Native;

impl Format for Native {
    fn named(class: u8, order: u8) -> Option<Self> {
        let is_own = (class == 2) == Self.is_wide() && (order == 1) == Self.is_little();
        Any::named(class, order).filter(|_| is_own).map(|_| Self)
    }

    fn is_wide(self) -> bool {
        cfg!(target_pointer_width = "64")
    }

    fn is_little(self) -> bool {
        cfg!(target_endian = "little")
    }
}

/// The bytes of an image. Reading outside them gives `None`.
#[derive(Clone, Copy)]
struct Bytes<'a, F> {
    bytes: &'a [u8],
    format: F,
}

impl<'a, F: Format> Bytes<'a, F> {
    fn new(bytes: &'a [u8]) -> Result<Self, ElfError> {
        let format = match bytes {
            [0x7f, b'E', b'L', b'F', class, order, ..] => F::named(*class, *order),
            _ => None,
        };
        format.map(|format| Self { bytes, format }).ok_or(ElfError::NotElf)
    }

    fn array<const N: usize>(self, at: usize) -> Option<[u8; N]> {
        self.bytes.get(at..)?.first_chunk().copied()
    }

    fn half(self, at: usize) -> Option<usize> {
        let bytes = self.array(at)?;
        Some(usize::from(if self.format.is_little() {
            u16::from_le_bytes(bytes)
        } else {
            u16::from_be_bytes(bytes)
        }))
    }

    fn word(self, at: usize) -> Option<u32> {
        let bytes = self.array(at)?;
        Some(if self.format.is_little() {
            u32::from_le_bytes(bytes)
        } else {
            u32::from_be_bytes(bytes)
        })
    }

    /// A field of the image's own address size.
    fn address(self, at: usize) -> Option<u64> {
        if !self.format.is_wide() {
            return self.word(at).map(u64::from);
        }
        let bytes = self.array(at)?;
        Some(if self.format.is_little() {
            u64::from_le_bytes(bytes)
        } else {
            u64::from_be_bytes(bytes)
        })
    }

    fn offset(self, at: usize) -> Option<usize> {
        usize::try_from(self.address(at)?).ok()
    }

    /// The entry `i` of a table of 32-bit words.
    fn entry(self, table: usize, i: usize) -> Option<usize> {
        self.word(table.checked_add(i.checked_mul(4)?)?).map(|word| word as usize)
    }

    /// `narrow` in a 32-bit image, `wide` in a 64-bit one.
    fn by_class(self, narrow: usize, wide: usize) -> usize {
        if self.format.is_wide() { wide } else { narrow }
    }

    /// The name that begins at `at` is exactly `name`.
    fn is_name(self, at: usize, name: &[u8]) -> bool {
        let rest = self.bytes.get(at..).and_then(|rest| rest.strip_prefix(name));
        rest.is_some_and(|rest| rest.first() == Some(&0))
    }

    /// The entry `i` of a `DT_HASH` table: 32 bits, but for the two processors whose binary
    /// interface has 64 there.
    fn hash_entry(self, table: usize, i: usize) -> Option<usize> {
        const S390: usize = 22;
        const ALPHA: usize = 0x9026;
        if self.format.is_wide() && matches!(self.half(18)?, S390 | ALPHA) {
            return self.offset(table.checked_add(i.checked_mul(8)?)?);
        }
        self.entry(table, i)
    }

    /// What the program headers tell; `None` if they lie outside.
    fn segments(self) -> Option<Segments> {
        let table = self.offset(self.by_class(28, 32))?;
        let size = self.half(self.by_class(42, 54))?;
        let mut segments = Segments { low: u64::MAX, high: 0, dynamic: None };
        // No more than the image has bytes, whatever the header says.
        for i in 0..self.half(self.by_class(44, 56))?.min(self.bytes.len()) {
            let at = table.checked_add(i.checked_mul(size)?)?;
            let start = self.address(at.checked_add(self.by_class(8, 16))?)?;
            let size = self.address(at.checked_add(self.by_class(20, 40))?)?;
            match self.word(at)? {
                PT_LOAD => {
                    segments.low = segments.low.min(start);
                    segments.high = segments.high.max(start.checked_add(size)?);
                }
                PT_DYNAMIC => segments.dynamic = Some((start, size)),
                _ => {}
            }
        }
        Some(segments)
    }

    fn extent(self) -> Result<usize, ElfError> {
        let segments = self.segments().ok_or(ElfError::Truncated)?;
        let size = segments.high.checked_sub(segments.low).ok_or(ElfError::NoSymbols)?;
        usize::try_from(size).map_err(|_| ElfError::Truncated)
    }

    /// Where the dynamic section of this address and size says that the symbols, the strings, the hash tables (old and
    /// GNU) and the versions (of symbols, and by name) lie; `None` if it lies outside.
    fn tables(self, load: u64, dynamic: (u64, u64)) -> Option<[Option<usize>; 6]> {
        const TAGS: [u64; 6] = [6, 5, 4, 0x6fff_fef5, 0x6fff_fff0, 0x6fff_fffc];
        let start = distance(dynamic.0, load)?;
        let end = start.saturating_add(usize::try_from(dynamic.1).ok()?).min(self.bytes.len());
        let mut tables = [None; 6];
        let field = self.by_class(4, 8);
        for at in (start..end).step_by(2 * field) {
            let tag = self.address(at)?;
            if tag == 0 {
                break;
            }
            let value = self.address(at.checked_add(field)?)?;
            for (table, _) in tables.iter_mut().zip(TAGS).filter(|&(_, known)| known == tag) {
                *table = Some(distance(value, load)?);
            }
        }
        Some(tables)
    }

    /// How many symbols a GNU hash table covers: one more than the last of its longest chain.
    fn gnu_count(self, table: usize) -> Option<usize> {
        let (buckets, first) = (self.entry(table, 0)?, self.entry(table, 1)?);
        let bloom_size = self.entry(table, 2)?.checked_mul(self.by_class(4, 8))?;
        let buckets_at = table.checked_add(16)?.checked_add(bloom_size)?;
        let chains_at = buckets_at.checked_add(buckets.checked_mul(4)?)?;
        let mut last = 0;
        for i in 0..buckets.min(self.bytes.len()) {
            last = last.max(self.entry(buckets_at, i)?);
        }
        if last < first {
            return Some(first);
        }
        // The chain of the highest bucket is the last one; its end has the lowest bit set.
        for i in last - first..self.bytes.len() {
            if self.entry(chains_at, i)? & 1 == 1 {
                return first.checked_add(i)?.checked_add(1);
            }
        }
        None
    }
}

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;

/// Where an image was meant to be loaded, and its dynamic section.
struct Segments {
    /// The lowest address of a loadable segment, and the end of the highest; if there is none, `low` is above `high`.
    low: u64,
    high: u64,
    /// Address and size.
    dynamic: Option<(u64, u64)>,
}

/// How many bytes of memory an image occupies, from its header and program headers alone.
///
/// `head` must hold the header and the program headers, which for a vDSO lie in its first page.
///
/// # Errors
/// [`ElfError`] if `head` is not the beginning of an ELF image with a loadable segment.
pub fn extent(head: &[u8]) -> Result<usize, ElfError> {
    Bytes::<Any>::new(head)?.extent()
}

/// As [`extent`], for images of this program's own format.
///
/// # Errors
/// As for [`extent`]; [`ElfError::NotElf`] for any other format.
pub fn native_extent(head: &[u8]) -> Result<usize, ElfError> {
    Bytes::<Native>::new(head)?.extent()
}

/// An image with the tables that name its symbols; all offsets are from the image's first byte.
#[derive(Clone, Copy)]
pub struct Image<'a, F> {
    elf: Bytes<'a, F>,
    /// The address at which the image was meant to be loaded.
    load: u64,
    symbols: usize,
    strings: usize,
    count: usize,
    versions: Option<(usize, usize)>,
}

impl<'a> Image<'a, Any> {
    /// Reads the tables of an image that is laid out in `bytes` as it would be in memory.
    ///
    /// # Errors
    /// [`ElfError`] if it is not one, or has no dynamic symbols.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ElfError> {
        Self::read(bytes)
    }
}

impl<'a> Image<'a, Native> {
    /// As [`parse`](Image::parse), for images of this program's own format.
    ///
    /// # Errors
    /// As for [`parse`](Image::parse); [`ElfError::NotElf`] for any other format.
    pub fn parse_native(bytes: &'a [u8]) -> Result<Self, ElfError> {
        Self::read(bytes)
    }
}

#[expect(private_bounds, reason = "there are no formats but the two above")]
impl<'a, F: Format> Image<'a, F> {
    fn read(bytes: &'a [u8]) -> Result<Self, ElfError> {
        let elf = Bytes::<F>::new(bytes)?;
        let Segments { low: load, high, dynamic } = elf.segments().ok_or(ElfError::Truncated)?;
        let dynamic = dynamic.filter(|_| load <= high).ok_or(ElfError::NoSymbols)?;
        let tables = elf.tables(load, dynamic).ok_or(ElfError::Truncated)?;
        let [symbols, strings, hash, gnu_hash, versym, verdef] = tables;
        let count = match (hash, gnu_hash) {
            (Some(hash), _) => elf.hash_entry(hash, 1),
            (None, Some(gnu)) => elf.gnu_count(gnu),
            (None, None) => return Err(ElfError::NoSymbols),
        };
        Ok(Self {
            elf,
            load,
            symbols: symbols.ok_or(ElfError::NoSymbols)?,
            strings: strings.ok_or(ElfError::NoSymbols)?,
            count: count.ok_or(ElfError::Truncated)?,
            versions: versym.zip(verdef),
        })
    }

    /// The offset from the image's start at which the function `name` with `version` begins.
    ///
    /// An image without version tables is taken at its word.
    #[must_use]
    pub fn symbol(&self, name: &[u8], version: &[u8]) -> Option<usize> {
        let elf = self.elf;
        let size = elf.by_class(16, 24);
        let wanted = match self.versions {
            Some((versym, verdef)) => Some((versym, self.version_index(verdef, version)?)),
            None => None,
        };
        // No more symbols than bytes, whatever the table says.
        (0..self.count.min(elf.bytes.len() / size)).find_map(|i| {
            let at = self.symbols.checked_add(i * size)?;
            if !elf.is_name(self.strings.checked_add(elf.entry(at, 0)?)?, name) {
                return None;
            }
            if let Some((versym, index)) = wanted {
                // The top bit says "hidden" (not the default version).
                let own = elf.half(versym.checked_add(i * 2)?)? & 0x7fff;
                if own != index {
                    return None;
                }
            }
            let [info] = elf.array(at.checked_add(elf.by_class(12, 4))?)?;
            let section = elf.half(at.checked_add(elf.by_class(14, 6))?)?;
            let value = elf.address(at.checked_add(elf.by_class(4, 8))?)?;
            // Defined; global or weak; a function, or without a type (older arm64 images).
            let callable = section != 0 && matches!(info >> 4, 1 | 2) && matches!(info & 15, 0 | 2);
            let offset = distance(value, self.load)?;
            (callable && offset < elf.bytes.len()).then_some(offset)
        })
    }

    /// The number under which the image defines `version`; looked up once, so that the search over
    /// the symbols stays a walk over the image and not a walk for each of them.
    fn version_index(&self, verdef: usize, version: &[u8]) -> Option<usize> {
        let elf = self.elf;
        let mut at = verdef;
        // Each entry has 20 bytes at least, so there are not more than that.
        for _ in 0..elf.bytes.len() / 20 {
            let is_base = elf.half(at.checked_add(2)?)? & 1 == 1;
            let index = elf.half(at.checked_add(4)?)? & 0x7fff;
            let names = at.checked_add(elf.entry(at, 3)?)?;
            let name = self.strings.checked_add(elf.entry(names, 0)?)?;
            if !is_base && elf.is_name(name, version) {
                return Some(index);
            }
            match elf.entry(at, 4)? {
                0 => break,
                next => at = at.checked_add(next)?,
            }
        }
        None
    }
}

fn distance(address: u64, load: u64) -> Option<usize> {
    usize::try_from(address.wrapping_sub(load)).ok()
}
