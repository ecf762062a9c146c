//! Finds a symbol in an ELF image given as bytes: the vDSO.
//!
//! Safe code over a slice: every field is read through a checked range, so that no image, however
//! mangled, can do more than give an error or no symbol. Both classes and both byte orders.
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

/// The bytes with the class and byte order that their header names.
#[derive(Clone, Copy)]
struct Bytes<'a> {
    bytes: &'a [u8],
    wide: bool,
    little: bool,
}

impl<'a> Bytes<'a> {
    fn new(bytes: &'a [u8]) -> Result<Self, ElfError> {
        match bytes {
            [0x7f, b'E', b'L', b'F', class @ 1..=2, order @ 1..=2, ..] => {
                Ok(Self { bytes, wide: *class == 2, little: *order == 1 })
            }
            _ => Err(ElfError::NotElf),
        }
    }

    fn array<const N: usize>(self, at: usize) -> Result<[u8; N], ElfError> {
        let end = at.checked_add(N).ok_or(ElfError::Truncated)?;
        let slice = self.bytes.get(at..end).ok_or(ElfError::Truncated)?;
        slice.try_into().map_err(|_| ElfError::Truncated)
    }

    fn half(self, at: usize) -> Result<usize, ElfError> {
        let bytes = self.array(at)?;
        Ok(usize::from(if self.little {
            u16::from_le_bytes(bytes)
        } else {
            u16::from_be_bytes(bytes)
        }))
    }

    fn word(self, at: usize) -> Result<u32, ElfError> {
        let bytes = self.array(at)?;
        Ok(if self.little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) })
    }

    /// A field of the image's own address size.
    fn address(self, at: usize) -> Result<u64, ElfError> {
        if !self.wide {
            return self.word(at).map(u64::from);
        }
        let bytes = self.array(at)?;
        Ok(if self.little { u64::from_le_bytes(bytes) } else { u64::from_be_bytes(bytes) })
    }

    fn offset(self, at: usize) -> Result<usize, ElfError> {
        usize::try_from(self.address(at)?).map_err(|_| ElfError::Truncated)
    }

    /// `narrow` in a 32-bit image, `wide` in a 64-bit one.
    fn by_class(self, narrow: usize, wide: usize) -> usize {
        if self.wide { wide } else { narrow }
    }

    /// The name that begins at `at` is exactly `name`.
    fn is_name(self, at: usize, name: &[u8]) -> bool {
        let Some(rest) = self.bytes.get(at..) else { return false };
        rest.get(..name.len()) == Some(name) && rest.get(name.len()) == Some(&0)
    }

    /// The address at which the program header `i` begins.
    fn segment(self, i: usize) -> Result<usize, ElfError> {
        let table = self.offset(self.by_class(28, 32))?;
        let size = self.half(self.by_class(42, 54))?;
        i.checked_mul(size).and_then(|at| at.checked_add(table)).ok_or(ElfError::Truncated)
    }

    /// No more than the image has bytes, whatever the header says.
    fn segments(self) -> Result<usize, ElfError> {
        Ok(self.half(self.by_class(44, 56))?.min(self.bytes.len()))
    }

    /// The entry `i` of a `DT_HASH` table: 32 bits, but for the two processors whose binary
    /// interface has 64 there.
    fn hash_entry(self, table: usize, i: usize) -> Result<usize, ElfError> {
        const S390: usize = 22;
        const ALPHA: usize = 0x9026;
        if self.wide && matches!(self.half(18)?, S390 | ALPHA) {
            return self.offset(table.saturating_add(i.saturating_mul(8)));
        }
        Ok(self.word(table.saturating_add(i.saturating_mul(4)))? as usize)
    }
}

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;

/// How many bytes of memory an image occupies, from its header and program headers alone.
///
/// `head` must hold the header and the program headers, which for a vDSO lie in its first page.
///
/// # Errors
/// [`ElfError`] if `head` is not the beginning of an ELF image with a loadable segment.
pub fn extent(head: &[u8]) -> Result<usize, ElfError> {
    let elf = Bytes::new(head)?;
    let (mut low, mut high) = (u64::MAX, 0);
    for i in 0..elf.segments()? {
        let at = elf.segment(i)?;
        if elf.word(at)? == PT_LOAD {
            let start = elf.address(at.saturating_add(elf.by_class(8, 16)))?;
            let size = elf.address(at.saturating_add(elf.by_class(20, 40)))?;
            low = low.min(start);
            high = high.max(start.checked_add(size).ok_or(ElfError::Truncated)?);
        }
    }
    let size = high.checked_sub(low).ok_or(ElfError::NoSymbols)?;
    usize::try_from(size).map_err(|_| ElfError::Truncated)
}

/// An image with the tables that name its symbols; all offsets are from the image's first byte.
#[derive(Clone, Copy)]
pub struct Image<'a> {
    elf: Bytes<'a>,
    /// The address at which the image was meant to be loaded.
    load: u64,
    symbols: usize,
    strings: usize,
    count: usize,
    versions: Option<(usize, usize)>,
}

impl<'a> Image<'a> {
    /// Reads the tables of an image that is laid out in `bytes` as it would be in memory.
    ///
    /// # Errors
    /// [`ElfError`] if it is not one, or has no dynamic symbols.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ElfError> {
        let elf = Bytes::new(bytes)?;
        let (mut load, mut dynamic) = (None, None);
        for i in 0..elf.segments()? {
            let at = elf.segment(i)?;
            let address = elf.address(at.saturating_add(elf.by_class(8, 16)))?;
            match elf.word(at)? {
                PT_LOAD => load = Some(load.map_or(address, |lowest: u64| lowest.min(address))),
                PT_DYNAMIC => {
                    let size = elf.offset(at.saturating_add(elf.by_class(20, 40)))?;
                    dynamic = Some((address, size));
                }
                _ => {}
            }
        }
        let load = load.ok_or(ElfError::NoSymbols)?;
        let (dynamic, size) = dynamic.ok_or(ElfError::NoSymbols)?;
        let start = distance(dynamic, load)?;
        let end = start.saturating_add(size).min(bytes.len());

        let (mut symbols, mut strings, mut hash, mut gnu_hash) = (None, None, None, None);
        let (mut versym, mut verdef) = (None, None);
        let field = elf.by_class(4, 8);
        for at in (start..end).step_by(2 * field) {
            let value = elf.address(at.saturating_add(field))?;
            let slot = match elf.address(at)? {
                0 => break,
                4 => &mut hash,
                5 => &mut strings,
                6 => &mut symbols,
                0x6fff_fef5 => &mut gnu_hash,
                0x6fff_fff0 => &mut versym,
                0x6fff_fffc => &mut verdef,
                _ => continue,
            };
            *slot = Some(distance(value, load)?);
        }
        let count = match (hash, gnu_hash) {
            (Some(hash), _) => elf.hash_entry(hash, 1)?,
            (None, Some(gnu)) => gnu_count(elf, gnu)?,
            (None, None) => return Err(ElfError::NoSymbols),
        };
        let symbols = symbols.ok_or(ElfError::NoSymbols)?;
        let strings = strings.ok_or(ElfError::NoSymbols)?;
        Ok(Self { elf, load, symbols, strings, count, versions: versym.zip(verdef) })
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
            let at = self.symbols.checked_add(i.checked_mul(size)?)?;
            let name_at = self.strings.checked_add(elf.word(at).ok()? as usize)?;
            if !elf.is_name(name_at, name) {
                return None;
            }
            if let Some((versym, index)) = wanted {
                // The top bit says "hidden" (not the default version).
                let own = elf.half(versym.checked_add(i.checked_mul(2)?)?).ok()? & 0x7fff;
                if own != index {
                    return None;
                }
            }
            let [info] = elf.array(at.checked_add(elf.by_class(12, 4))?).ok()?;
            let section = elf.half(at.checked_add(elf.by_class(14, 6))?).ok()?;
            let value = elf.address(at.checked_add(elf.by_class(4, 8))?).ok()?;
            // Defined; global or weak; a function, or without a type (older arm64 images).
            let callable = section != 0 && matches!(info >> 4, 1 | 2) && matches!(info & 15, 0 | 2);
            let offset = distance(value, self.load).ok()?;
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
            let is_base = elf.half(at.checked_add(2)?).ok()? & 1 == 1;
            let index = elf.half(at.checked_add(4)?).ok()? & 0x7fff;
            let names = at.checked_add(elf.word(at.checked_add(12)?).ok()? as usize)?;
            let name = self.strings.checked_add(elf.word(names).ok()? as usize)?;
            if !is_base && elf.is_name(name, version) {
                return Some(index);
            }
            match elf.word(at.checked_add(16)?).ok()? {
                0 => break,
                next => at = at.checked_add(next as usize)?,
            }
        }
        None
    }
}

fn distance(address: u64, load: u64) -> Result<usize, ElfError> {
    usize::try_from(address.wrapping_sub(load)).map_err(|_| ElfError::Truncated)
}

/// How many symbols a GNU hash table covers: one more than the last of its longest chain.
fn gnu_count(elf: Bytes<'_>, table: usize) -> Result<usize, ElfError> {
    let buckets = elf.word(table)? as usize;
    let first = elf.word(table.saturating_add(4))? as usize;
    let bloom = elf.word(table.saturating_add(8))? as usize;
    let buckets_at =
        table.saturating_add(16).saturating_add(bloom.saturating_mul(elf.by_class(4, 8)));
    let chains_at = buckets_at.saturating_add(buckets.saturating_mul(4));
    let mut last = 0;
    for i in 0..buckets.min(elf.bytes.len()) {
        last = last.max(elf.word(buckets_at.saturating_add(i.saturating_mul(4)))? as usize);
    }
    if last < first {
        return Ok(first);
    }
    // The chain of the highest bucket is the last one; its end has the lowest bit set.
    for i in last - first..elf.bytes.len() {
        if elf.word(chains_at.saturating_add(i.saturating_mul(4)))? & 1 == 1 {
            return Ok(first.saturating_add(i).saturating_add(1));
        }
    }
    Err(ElfError::Truncated)
}
