//! A second reader of ELF images: it goes through the hash tables, as a dynamic linker does, and
//! not over the symbols. Slow, and it trusts the image: for whole ones only.

use crate::build::{gnu_hash, sysv_hash};
use std::collections::BTreeMap;
use std::ops::Range;

pub(crate) struct Exact<'a> {
    image: &'a [u8],
    little: bool,
    /// The size of an address.
    address: usize,
    load: u64,
    dynamic: Range<usize>,
    tags: BTreeMap<u64, u64>,
    versions: BTreeMap<u64, &'a [u8]>,
}

impl<'a> Exact<'a> {
    pub(crate) fn new(image: &'a [u8]) -> Self {
        let (little, address) = (image[5] == 1, if image[4] == 2 { 8 } else { 4 });
        let (load, dynamic) = (0, 0..0);
        let (tags, versions) = (BTreeMap::new(), BTreeMap::new());
        let mut exact = Self { image, little, address, load, dynamic, tags, versions };
        let wide = address == 8;
        let table = exact.number(if wide { 32 } else { 28 }, address) as usize;
        let (size_at, count_at) = if wide { (54, 56) } else { (42, 44) };
        let (size, count) = (exact.number(size_at, 2) as usize, exact.number(count_at, 2) as usize);
        for at in (0..count).map(|i| table + i * size) {
            let value = exact.number(at + if wide { 16 } else { 8 }, address);
            match exact.number(at, 4) {
                1 => exact.load = value,
                2 => {
                    let length = exact.number(at + if wide { 40 } else { 20 }, address) as usize;
                    let start = (value - exact.load) as usize;
                    exact.dynamic = start..start + length;
                }
                _ => {}
            }
        }
        let pairs = exact.dynamic.clone().step_by(2 * address);
        let pairs =
            pairs.map(|at| (exact.number(at, address), exact.number(at + address, address)));
        exact.tags = pairs.take_while(|&(tag, _)| tag != 0).collect();
        let mut entry = exact.table(0x6fff_fffc);
        while let Some(at) = entry {
            if exact.number(at + 2, 2) & 1 == 0 {
                let names = at + exact.number(at + 12, 4) as usize;
                let name = exact.name(exact.number(names, 4));
                exact.versions.insert(exact.number(at + 4, 2), name);
            }
            let next = exact.number(at + 16, 4) as usize;
            entry = (next != 0).then_some(at + next);
        }
        exact
    }

    /// The unsigned number of `size` bytes at `at`.
    fn number(&self, at: usize, size: usize) -> u64 {
        let add = |number: u64, &byte: &u8| number << 8 | u64::from(byte);
        let bytes = &self.image[at..at + size];
        if self.little { bytes.iter().rev().fold(0, add) } else { bytes.iter().fold(0, add) }
    }

    fn table(&self, tag: u64) -> Option<usize> {
        self.tags.get(&tag).map(|address| (address - self.load) as usize)
    }

    /// All bytes of the string table.
    pub(crate) fn strings(&self) -> &'a [u8] {
        let at = self.table(5).unwrap();
        &self.image[at..at + self.tags[&10] as usize]
    }

    fn name(&self, at: u64) -> &'a [u8] {
        self.strings()[at as usize..].split(|&byte| byte == 0).next().unwrap()
    }

    /// The header, the program headers, and every table that the dynamic section names.
    pub(crate) fn tables(&self) -> Vec<Range<usize>> {
        let end = self.image.len();
        let starts = self.tags.values().filter_map(|address| address.checked_sub(self.load));
        let starts = starts.map(|at| at as usize).filter(|&at| at < end);
        let tables = starts.map(|at| at..(at + 96).min(end));
        [0..64, 64..176.min(end), self.dynamic.clone()].into_iter().chain(tables).collect()
    }

    /// Where the old hash table says how many symbols there are, and where the last version begins.
    pub(crate) fn count_and_last_version(&self) -> (usize, usize) {
        let mut at = self.table(0x6fff_fffc).unwrap();
        while self.number(at + 16, 4) != 0 {
            at += self.number(at + 16, 4) as usize;
        }
        (self.table(4).unwrap() + 4, at)
    }

    /// The numbers of the symbols that have the hash of `name`, and perhaps others.
    fn candidates(&self, name: &[u8]) -> Vec<u64> {
        let mut candidates = Vec::new();
        if let Some(table) = self.table(0x6fff_fef5) {
            let word = |i: u64| self.number(table + 4 * i as usize, 4);
            let (buckets, first) = (word(0), word(1));
            let buckets_at = 4 + word(2) * self.address as u64 / 4;
            let mut i = word(buckets_at + u64::from(gnu_hash(name)) % buckets);
            while i != 0 {
                candidates.push(i);
                let ends = word(buckets_at + buckets + i - first) & 1 == 1;
                i = if ends { 0 } else { i + 1 };
            }
        } else {
            let table = self.table(4).unwrap();
            let machine = self.number(18, 2);
            let size = if self.address == 8 && machine == 22 { 8 } else { 4 };
            let entry = |i: u64| self.number(table + size * i as usize, size);
            let mut i = entry(2 + u64::from(sysv_hash(name)) % entry(0));
            while i != 0 {
                candidates.push(i);
                i = entry(2 + entry(0) + i);
            }
        }
        candidates
    }

    /// The offset of the function `name` of `version`.
    pub(crate) fn symbol(&self, name: &[u8], version: &[u8]) -> Option<usize> {
        let wide = self.address == 8;
        let fits = |&i: &u64| {
            let versym = self.table(0x6fff_fff0).map(|at| self.number(at + 2 * i as usize, 2));
            let known = versym.map(|own| self.versions.get(&(own & 0x7fff)));
            known.is_none_or(|known| known == Some(&version))
        };
        let offset = |i: u64| {
            let at = self.table(6).unwrap() + i as usize * if wide { 24 } else { 16 };
            let [info, section, value] =
                if wide { [(4, 1), (6, 2), (8, 8)] } else { [(12, 1), (14, 2), (4, 4)] }
                    .map(|(field, size)| self.number(at + field, size));
            let callable = [0x10, 0x12, 0x20, 0x22].contains(&info) && section != 0;
            let inside = value >= self.load && value - self.load < self.image.len() as u64;
            let same = self.name(self.number(at, 4)) == name;
            (same && callable && inside).then(|| (value - self.load) as usize)
        };
        self.candidates(name).into_iter().filter(fits).find_map(offset)
    }
}
