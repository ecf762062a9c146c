//! Writes small ELF images of every kind, with the tables that a linker would give them.

/// Which hash tables an image has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Hash {
    Sysv,
    Gnu,
    Both,
}

/// The kind of an image.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) wide: bool,
    pub(crate) little: bool,
    pub(crate) hash: Hash,
    pub(crate) versions: bool,
    pub(crate) load: u64,
    /// The processor's number; 22 (S/390) has 64-bit entries in the old hash table.
    pub(crate) machine: u16,
}

/// One entry of the symbol table; its value is an offset in the code.
#[derive(Clone, Copy)]
pub(crate) struct Symbol {
    name: &'static str,
    info: u8,
    section: u16,
    value: u64,
    version: u16,
}

impl Symbol {
    pub(crate) const fn function(name: &'static str, value: u64, version: u16) -> Self {
        Self { name, info: 0x12, section: 1, value, version }
    }

    fn is_exported(&self) -> bool {
        self.section != 0 && self.info >> 4 != 0
    }
}

/// Functions that are to be found and entries that are not. Version 2 is `V_1`, 3 is `V_2`.
pub(crate) fn symbols(versions: bool) -> Vec<Symbol> {
    let function = Symbol::function;
    let mut symbols = vec![
        Symbol { info: 0x02, ..function("local", 0, 0) },
        Symbol { section: 0, ..function("undefined", 0, 2) },
        function("global", 0, 2),
        Symbol { info: 0x22, ..function("weak", 4, 2) },
        Symbol { info: 0x10, ..function("untyped", 8, 2) },
        Symbol { info: 0x11, ..function("object", 0, 2) },
        function("hidden", 12, 0x8003),
        function("unversioned", 24, 1),
        function("outside", 1 << 20, 2),
        Symbol { info: 0x11, section: 0xfff1, ..function("V_1", 0, 2) },
    ];
    if versions {
        symbols.extend([function("twice", 16, 2), function("twice", 20, 0x8003)]);
    }
    symbols
}

/// The bytes of code at the end of an image.
const TEXT: usize = 64;

/// The offset of the code's byte `offset` in an image.
pub(crate) fn text_at(image: &[u8], offset: usize) -> usize {
    image.len() - TEXT + offset
}

impl Shape {
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let bits = (0..8).map(|bits| [bits & 1 == 1, bits & 2 == 2, bits & 4 == 4]);
        let shapes = bits.flat_map(|[wide, little, versions]| {
            [Hash::Both, Hash::Sysv, Hash::Gnu].into_iter().map(move |hash| {
                // Half of them were linked for an address that is not zero.
                let load = match (wide, versions == little) {
                    (_, false) => 0,
                    (false, true) => 0xffff_0000,
                    (true, true) => 0xffff_ffff_ff70_0000,
                };
                Self { wide, little, hash, versions, load, machine: 0 }
            })
        });
        let s390 = Self {
            wide: true,
            little: false,
            hash: Hash::Sysv,
            versions: true,
            load: 0,
            machine: 22,
        };
        shapes.chain([s390])
    }

    /// A header that names no segment.
    pub(crate) fn without_segments(self) -> Vec<u8> {
        let mut bytes = self.build(&symbols(false));
        let count = if self.wide { 56 } else { 44 };
        bytes[count..count + 2].fill(0);
        bytes
    }

    pub(crate) fn build(self, symbols: &[Symbol]) -> Vec<u8> {
        const BUCKETS: u32 = 3;
        // The new hash table wants what it does not cover first and the rest by bucket.
        let mut symbols = symbols.to_vec();
        let key = |symbol: &Symbol| {
            symbol.is_exported().then(|| gnu_hash(symbol.name.as_bytes()) % BUCKETS)
        };
        symbols.sort_by_key(key);
        let first = 1 + symbols.iter().filter(|symbol| !symbol.is_exported()).count();

        let mut strings = vec![0];
        let mut name = |text: &str| {
            let at = strings.len();
            strings.extend(text.bytes().chain([0]));
            at as u32
        };
        let versions_of = [("base.so", 1, 1), ("V_1", 0, 2), ("V_2", 0, 3)];
        let mut verdef = self.table();
        for (i, (text, flags, index)) in versions_of.into_iter().enumerate() {
            let next = if i + 1 < versions_of.len() { 28 } else { 0 };
            verdef.halves(&[1, flags, index, 1]);
            verdef.words(&[sysv_hash(text.as_bytes()), 20, next, name(text), 0]);
        }
        let names: Vec<u32> = symbols.iter().map(|symbol| name(symbol.name)).collect();
        let mut versym = self.table();
        versym.halves(&[0]);
        versym.halves(&symbols.iter().map(|symbol| symbol.version).collect::<Vec<_>>());

        let (mut sysv, mut gnu) = (self.table(), self.table());
        let (mut heads, mut chains) = ([0; BUCKETS as usize], vec![0; symbols.len() + 1]);
        for (i, symbol) in symbols.iter().enumerate() {
            let head = &mut heads[(sysv_hash(symbol.name.as_bytes()) % BUCKETS) as usize];
            chains[i + 1] = std::mem::replace(head, i as u32 + 1);
        }
        for entry in [BUCKETS, chains.len() as u32].iter().chain(&heads).chain(&chains) {
            if self.machine == 22 { sysv.address(u64::from(*entry)) } else { sysv.words(&[*entry]) }
        }
        gnu.words(&[BUCKETS, first as u32, 1, 5]);
        gnu.address(u64::MAX);
        let hashes: Vec<u32> =
            symbols[first - 1..].iter().map(|symbol| gnu_hash(symbol.name.as_bytes())).collect();
        for bucket in 0..BUCKETS {
            let head = hashes.iter().position(|hash| hash % BUCKETS == bucket);
            gnu.words(&[head.map_or(0, |i| (first + i) as u32)]);
        }
        for (i, hash) in hashes.iter().enumerate() {
            let last = hashes.get(i + 1).is_none_or(|next| next % BUCKETS != hash % BUCKETS);
            gnu.words(&[hash & !1 | u32::from(last)]);
        }

        let (header, entry) = if self.wide { (64 + 2 * 56, 24) } else { (52 + 2 * 32, 16) };
        let mut end = header;
        let mut place = |size: usize| {
            let at = end;
            end = (at + size).next_multiple_of(8);
            at
        };
        let symbols_at = place(entry * chains.len());
        let strings_at = place(strings.len());
        let [sysv_at, gnu_at, versym_at, verdef_at] =
            [&sysv, &gnu, &versym, &verdef].map(|table| place(table.bytes.len()));
        let mut tags = vec![(5, strings_at), (6, symbols_at), (10, strings.len())];
        if self.hash != Hash::Gnu {
            tags.push((4, sysv_at));
        }
        if self.hash != Hash::Sysv {
            tags.push((0x6fff_fef5, gnu_at));
        }
        if self.versions {
            tags.extend([(0x6fff_fff0, versym_at), (0x6fff_fffc, verdef_at)]);
        }
        let dynamic_size = (tags.len() + 1) * if self.wide { 16 } else { 8 };
        let dynamic_at = place(dynamic_size);
        let text_at = place(TEXT);

        let mut image = self.header();
        image.segment(1, 0, self.load, end as u64);
        image.segment(2, dynamic_at, self.load + dynamic_at as u64, dynamic_size as u64);
        image.symbol(0, &Symbol { info: 0, section: 0, ..Symbol::function("", 0, 0) }, 0);
        for (symbol, name) in symbols.iter().zip(names) {
            image.symbol(name, symbol, self.load + text_at as u64 + symbol.value);
        }
        for (at, bytes) in [
            (strings_at, strings),
            (sysv_at, sysv.bytes),
            (gnu_at, gnu.bytes),
            (versym_at, versym.bytes),
            (verdef_at, verdef.bytes),
        ] {
            image.bytes.resize(at, 0);
            image.bytes.extend(bytes);
        }
        image.bytes.resize(dynamic_at, 0);
        for (tag, value) in tags {
            image.address(tag);
            // The length is the one value here that is not an address.
            image.address(if tag == 10 { value as u64 } else { self.load + value as u64 });
        }
        image.address(0);
        image.address(0);
        image.bytes.resize(end, 0);
        image.bytes
    }

    fn table(self) -> Table {
        Table { bytes: Vec::new(), shape: self }
    }

    fn header(self) -> Table {
        let mut image = self.table();
        let [class, order] = [1 + u8::from(self.wide), 2 - u8::from(self.little)];
        image.bytes.extend([0x7f, b'E', b'L', b'F', class, order, 1]);
        image.bytes.resize(16, 0);
        image.halves(&[3, self.machine]);
        image.words(&[1]);
        let (size, segment) = if self.wide { (64, 56) } else { (52, 32) };
        for address in [0, u64::from(size), 0] {
            image.address(address);
        }
        image.words(&[0]);
        image.halves(&[size, segment, 2, 0, 0, 0]);
        image
    }
}

/// Bytes in an image's own order.
struct Table {
    bytes: Vec<u8>,
    shape: Shape,
}

impl Table {
    /// The `size` low bytes of `value`.
    fn number(&mut self, value: u64, size: usize) {
        let bytes = value.to_le_bytes();
        if self.shape.little {
            self.bytes.extend(&bytes[..size]);
        } else {
            self.bytes.extend(bytes[..size].iter().rev());
        }
    }

    fn halves(&mut self, values: &[u16]) {
        values.iter().for_each(|&value| self.number(u64::from(value), 2));
    }

    fn words(&mut self, values: &[u32]) {
        values.iter().for_each(|&value| self.number(u64::from(value), 4));
    }

    fn address(&mut self, value: u64) {
        self.number(value, if self.shape.wide { 8 } else { 4 });
    }

    fn segment(&mut self, kind: u32, offset: usize, address: u64, size: u64) {
        let offset = offset as u64;
        self.words(&[kind]);
        if self.shape.wide {
            self.words(&[5]);
        }
        for value in [offset, address, address, size, size] {
            self.address(value);
        }
        if !self.shape.wide {
            self.words(&[5]);
        }
        self.address(8);
    }

    fn symbol(&mut self, name: u32, symbol: &Symbol, value: u64) {
        self.words(&[name]);
        if !self.shape.wide {
            self.address(value);
            self.words(&[4]);
        }
        self.bytes.extend([symbol.info, 0]);
        self.halves(&[symbol.section]);
        if self.shape.wide {
            self.address(value);
            self.address(4);
        }
    }
}

/// The hash of `DT_HASH`, as the System V binary interface gives it.
pub(crate) fn sysv_hash(name: &[u8]) -> u32 {
    name.iter().fold(0, |hash: u32, &byte| {
        let sum = (hash << 4).wrapping_add(u32::from(byte));
        let top = sum & 0xf000_0000;
        (sum ^ top >> 24) & !top
    })
}

/// The hash of `DT_GNU_HASH`.
pub(crate) fn gnu_hash(name: &[u8]) -> u32 {
    name.iter().fold(5381, |hash: u32, &byte| hash.wrapping_mul(33).wrapping_add(u32::from(byte)))
}
