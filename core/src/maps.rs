//! [`Maps`]: the executable mappings that `/proc/PID/maps` tells of, as it is read piece by piece.
//!
//! No memory but what it is given: the lines are found in a buffer of the caller's. Must never trust the text.

/// An executable mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping<'a> {
    /// Its first address.
    pub start: u64,
    /// One past its last.
    pub end: u64,
    /// Where in the file it begins.
    pub offset: u64,
    /// The file, as the kernel writes it; empty: none.
    pub path: &'a [u8],
}

/// What is left of the text that has come so far.
#[derive(Debug)]
pub struct Maps<const ROOM: usize> {
    room: [u8; ROOM],
    filled: usize,
    /// The line before has no room, and what is left of it is passed over.
    skips: bool,
}

impl<const ROOM: usize> Default for Maps<ROOM> {
    fn default() -> Self {
        Self { room: [0; ROOM], filled: 0, skips: false }
    }
}

impl<const ROOM: usize> Maps<ROOM> {
    /// Where the next piece of the text is to be put; never empty.
    pub fn room(&mut self) -> &mut [u8] {
        self.room.get_mut(self.filled..).unwrap_or_default()
    }

    /// So many bytes were put there: tells each line that is whole now. A line longer than the room has its path cut.
    pub fn put(&mut self, bytes: usize, mut tell: impl FnMut(Mapping<'_>)) {
        self.filled = self.filled.saturating_add(bytes).min(ROOM);
        let mut begin = 0;
        let text = self.room.get(..self.filled).unwrap_or_default();
        while let Some((line, _)) = split(text.get(begin..).unwrap_or_default()) {
            if !core::mem::take(&mut self.skips) {
                parse(line).into_iter().for_each(&mut tell);
            }
            begin += line.len() + 1;
        }
        if begin == 0 && self.filled == ROOM {
            if !core::mem::replace(&mut self.skips, true) {
                parse(text).into_iter().for_each(tell);
            }
            begin = ROOM;
        }
        self.room.copy_within(begin.min(self.filled)..self.filled, 0);
        self.filled -= begin.min(self.filled);
    }
}

/// The first line and what comes after its end; `None` if it is not whole.
fn split(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = text.iter().position(|&byte| byte == b'\n')?;
    Some((text.get(..end)?, text.get(end + 1..)?))
}

/// `start-end rwxp offset dev inode   path`; `None` for what is not executable, or no such line.
fn parse(line: &[u8]) -> Option<Mapping<'_>> {
    let (start, rest) = hexadecimal(line)?;
    let (end, rest) = hexadecimal(rest.strip_prefix(b"-")?)?;
    let mut fields = rest.strip_prefix(b" ")?.splitn(5, |&byte| byte == b' ');
    let rights = fields.next()?;
    let (offset, _) = hexadecimal(fields.next()?)?;
    let (_device, _inode) = (fields.next()?, fields.next()?);
    let path = fields.next().unwrap_or_default().trim_ascii_start();
    (rights.get(2) == Some(&b'x')).then_some(Mapping { start, end, offset, path })
}

fn hexadecimal(text: &[u8]) -> Option<(u64, &[u8])> {
    let digit = |byte: u8| (byte as char).to_digit(16);
    let mut value = 0u64;
    let mut length = 0;
    while let Some(more) = text.get(length).and_then(|&byte| digit(byte)) {
        if length == 16 {
            return None;
        }
        value = value << 4 | u64::from(more);
        length += 1;
    }
    (length > 0).then_some((value, text.get(length..)?))
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::string::{String, ToString};
    use std::vec::Vec;

    const TEXT: &str = "\
55d0c4e00000-55d0c4e02000 r--p 00000000 fe:00 1234                       /usr/bin/true
55d0c4e02000-55d0c4e06000 r-xp 00002000 fe:00 1234                       /usr/bin/true
7f0000000000-7f0000001000 rwxp 00000000 00:00 0 
7f0000002000-7f0000004000 r-xp 00001000 fe:00 77                         /a folder/lib x.so (deleted)
7ffd4a1c6000-7ffd4a1c8000 r-xp 00000000 00:00 0                          [vdso]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
";

    fn told<const ROOM: usize>(text: &[u8], piece: usize) -> Vec<(u64, u64, u64, String)> {
        let (mut maps, mut told) = (Maps::<ROOM>::default(), Vec::new());
        let mut rest = text;
        while !rest.is_empty() {
            let room = maps.room();
            let bytes = piece.min(room.len()).min(rest.len());
            assert!(bytes > 0);
            room[..bytes].copy_from_slice(&rest[..bytes]);
            rest = &rest[bytes..];
            maps.put(bytes, |it| {
                let path = String::from_utf8_lossy(it.path).to_string();
                told.push((it.start, it.end, it.offset, path));
            });
        }
        told
    }

    #[test]
    fn executable_mappings_are_told_however_the_text_is_cut() {
        let whole = told::<1024>(TEXT.as_bytes(), 1024);
        let paths: Vec<_> = whole.iter().map(|it| it.3.as_str()).collect();
        let expected =
            ["/usr/bin/true", "", "/a folder/lib x.so (deleted)", "[vdso]", "[vsyscall]"];
        assert_eq!(paths, expected);
        assert_eq!(
            (whole[0].0, whole[0].1, whole[0].2),
            (0x55d0_c4e0_2000, 0x55d0_c4e0_6000, 0x2000)
        );
        for piece in 1..200 {
            assert_eq!(told::<256>(TEXT.as_bytes(), piece), whole, "pieces of {piece}");
        }
    }

    #[test]
    fn a_line_without_room_loses_the_end_of_its_path_only() {
        let cut = told::<100>(TEXT.as_bytes(), 33);
        let whole = told::<1024>(TEXT.as_bytes(), 33);
        assert_eq!(cut.len(), whole.len());
        for (cut, whole) in cut.iter().zip(&whole) {
            assert_eq!((cut.0, cut.1, cut.2), (whole.0, whole.1, whole.2));
            assert!(whole.3.starts_with(&cut.3), "{cut:?}");
        }
    }

    #[test]
    fn rubbish_tells_nothing_and_harms_nothing() {
        for text in [
            "",
            "\n\n",
            "-",
            "1-2",
            "1-2 r-xp",
            "zz-1 r-xp 0 0 0 a\n",
            "11112222333344445-2 r-xp 0 0 0\n",
        ] {
            assert_eq!(told::<128>(text.as_bytes(), 7), [], "{text}");
        }
        let noise: Vec<u8> =
            (0..10_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for piece in [1, 5, 128] {
            told::<128>(&noise, piece);
        }
    }
}
