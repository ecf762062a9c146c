//! [`Settings`]: how an image behaves, as a record inside it; [`configure`] fills it in a copy of the image's bytes.
//!
//! An image reads no environment and no file of its own accord: whoever starts a program writes into the copy that it
//! lays out for it. The layout is shared by the image and its launcher, which are built together. Must never change
//! an image in which the record is not found exactly once.

use core::fmt;

/// Longest path of a board, with the zero that ends it.
pub const PATH_MAX: usize = 256;

/// By this the record is found in the bytes of an image.
const MARK: [u8; 16] = *b"clockwise\0set\x01\xb7\x0d";
const MODE_AT: usize = MARK.len();
const MAX_AGE_AT: usize = MODE_AT + 8;
const BOARD_AT: usize = MAX_AGE_AT + 8;

/// The record. An image reads its fields as volatile: they are not what they were when it was compiled.
#[derive(Debug)]
#[repr(C, align(8))]
pub struct Settings {
    mark: [u8; 16],
    /// Bits: [`RELAXED`](Self::RELAXED), [`COUNTED`](Self::COUNTED).
    pub mode: u64,
    /// For how long a line holds, in nanoseconds; 0: as the machine is.
    pub max_age_ns: u64,
    /// The path of the [`Board`](crate::board::Board), ended by a zero; empty: none.
    pub board: [u8; PATH_MAX],
}

const _: () = assert!(core::mem::offset_of!(Settings, mode) == MODE_AT);
const _: () = assert!(core::mem::offset_of!(Settings, max_age_ns) == MAX_AGE_AT);
const _: () = assert!(core::mem::offset_of!(Settings, board) == BOARD_AT);
const _: () = assert!(size_of::<Settings>() == BOARD_AT + PATH_MAX);

impl Settings {
    /// Reads are unordered.
    pub const RELAXED: u64 = 1;
    /// Reads are counted on the board.
    pub const COUNTED: u64 = 2;

    /// Ordered reads, nothing counted: an image that is used as it was built.
    #[must_use]
    pub const fn as_built() -> Self {
        Self { mark: MARK, mode: 0, max_age_ns: 0, board: [0; PATH_MAX] }
    }
}

/// What whoever starts a program may choose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Choice<'a> {
    /// Unordered reads, as [`Clock::now_relaxed`](crate::clock::Clock::now_relaxed).
    pub relaxed: bool,
    /// For how long a line holds, in nanoseconds, from 1 ms to 250 ms; 0: 4 ms, longer where the kernel is slow to read.
    pub max_age_ns: u64,
    /// The absolute path of the file that holds the board; `None`: nothing is counted.
    pub board: Option<&'a [u8]>,
}

/// Why an image cannot be configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingsError {
    /// Its record was found so many times.
    Records(usize),
    /// The path of the board is empty, has a zero in it, or leaves no room for one.
    Path,
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Records(found) => {
                write!(
                    f,
                    "not an image of this version: it has {found} records of settings, not one"
                )
            }
            Self::Path => {
                write!(f, "the board's path must have 1 to {} bytes, none of them 0", PATH_MAX - 1)
            }
        }
    }
}

impl core::error::Error for SettingsError {}

/// Writes `choice` into the record of `image`, which is left alone where that fails.
///
/// # Errors
/// [`SettingsError`].
pub fn configure(image: &mut [u8], choice: &Choice) -> Result<(), SettingsError> {
    let board = choice.board.unwrap_or_default();
    let is_path = !board.is_empty() && board.len() < PATH_MAX && !board.contains(&0);
    if choice.board.is_some() && !is_path {
        return Err(SettingsError::Path);
    }
    let places = || image.windows(BOARD_AT + PATH_MAX).enumerate();
    let mut found = places().filter(|(_, bytes)| bytes.starts_with(&MARK)).map(|(at, _)| at);
    let (Some(at), None) = (found.next(), found.next()) else {
        return Err(SettingsError::Records(places().filter(|(_, b)| b.starts_with(&MARK)).count()));
    };
    let record = &mut image[at..at + BOARD_AT + PATH_MAX];
    let relaxed = if choice.relaxed { Settings::RELAXED } else { 0 };
    let counted = if choice.board.is_some() { Settings::COUNTED } else { 0 };
    record[MODE_AT..MAX_AGE_AT].copy_from_slice(&(relaxed | counted).to_ne_bytes());
    record[MAX_AGE_AT..BOARD_AT].copy_from_slice(&choice.max_age_ns.to_ne_bytes());
    record[BOARD_AT..].fill(0);
    record[BOARD_AT..BOARD_AT + board.len()].copy_from_slice(board);
    Ok(())
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::vec;
    use std::vec::Vec;

    fn image(records: usize) -> Vec<u8> {
        let mut bytes = vec![7; 100];
        for _ in 0..records {
            bytes.extend(MARK);
            bytes.extend(vec![0; 16 + PATH_MAX]);
            bytes.extend([9; 50]);
        }
        bytes
    }

    #[test]
    fn what_is_chosen_stands_in_the_record_and_nothing_else_changes() {
        let (was, mut bytes) = (image(1), image(1));
        let choice = Choice { relaxed: true, max_age_ns: 0x0102, board: Some(b"/a/b") };
        configure(&mut bytes, &choice).unwrap();
        assert_eq!(bytes[116..124], 3u64.to_ne_bytes());
        assert_eq!(bytes[124..132], 0x0102u64.to_ne_bytes());
        assert_eq!(bytes[132..137], *b"/a/b\0");
        assert_eq!((&bytes[..116], &bytes[388..]), (&was[..116], &was[388..]));
        configure(&mut bytes, &Choice::default()).unwrap();
        assert_eq!(bytes, was, "and can be chosen again");
    }

    #[test]
    fn an_image_without_the_record_or_with_two_is_left_alone() {
        for records in [0, 2] {
            let mut bytes = image(records);
            let result = configure(&mut bytes, &Choice { relaxed: true, ..Choice::default() });
            assert_eq!(result, Err(SettingsError::Records(records)));
            assert_eq!(bytes, image(records));
        }
        let mut cut = image(1);
        cut.truncate(200);
        assert_eq!(configure(&mut cut, &Choice::default()), Err(SettingsError::Records(0)));
    }

    #[test]
    fn a_path_that_does_not_fit_is_refused() {
        let long = vec![b'a'; PATH_MAX];
        for path in [&b""[..], b"/a\0b", &long] {
            let mut bytes = image(1);
            let choice = Choice { board: Some(path), ..Choice::default() };
            assert_eq!(configure(&mut bytes, &choice), Err(SettingsError::Path));
            assert_eq!(bytes, image(1));
        }
        let choice = Choice { board: Some(&long[1..]), ..Choice::default() };
        assert_eq!(configure(&mut image(1), &choice), Ok(()));
    }
}
