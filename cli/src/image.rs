//! The images that the tool carries: built by `build.rs` from `preload/` and `preload/profile/`.
//!
//! Must never be changed here: a copy is, by [`configure`](clockwise_core::settings::configure).

/// The shared library; empty for processors and systems for which there is none.
pub const IMAGE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/clockwise.so"));

/// The one that counts who asks, for `clockwise profile`; empty as above.
pub const COUNTING: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/profile.so"));

#[cfg(test)]
mod tests {
    use super::{COUNTING, IMAGE};
    use clockwise_core::settings::{Choice, configure};
    use object::{Object, ObjectSymbol};

    const BOTH: [&[u8]; 2] = [IMAGE, COUNTING];

    #[test]
    fn each_image_has_the_record_that_this_version_writes() {
        for bytes in BOTH {
            let mut image = bytes.to_vec();
            configure(&mut image, &Choice { relaxed: true, ..Choice::default() }).unwrap();
            let changed = image.iter().zip(bytes).filter(|(new, old)| new != old).count();
            assert_eq!(changed, 1, "one bit of its mode");
        }
    }

    /// An import of `abort` would be a panic that can be reached; one that is not weak, a libc that must have it.
    #[test]
    fn each_image_exports_and_imports_exactly_what_is_listed() {
        let lists = [
            include_str!("../../preload/symbols.txt"),
            include_str!("../../preload/profile/symbols.txt"),
        ];
        for (image, list) in BOTH.into_iter().zip(lists) {
            let file = object::File::parse(image).unwrap();
            let mut symbols: Vec<(String, char)> = file
                .dynamic_symbols()
                .map(|symbol| {
                    let kind = match (symbol.is_undefined(), symbol.is_weak()) {
                        (true, true) => 'w',
                        (true, false) => 'U',
                        (false, _) => 'T',
                    };
                    (symbol.name().unwrap().to_owned(), kind)
                })
                .collect();
            symbols.sort();
            let found: String =
                symbols.iter().map(|(name, kind)| format!("{kind} {name}\n")).collect();
            assert_eq!(found, list);
        }
    }

    /// A program or a library before it may define the same names.
    #[test]
    fn what_an_image_asks_of_itself_nobody_comes_between() {
        use object::read::ObjectSymbol;
        use object::{ObjectSymbolTable, RelocationTarget};
        for image in BOTH {
            let file = object::File::parse(image).unwrap();
            let table = file.dynamic_symbol_table().unwrap();
            for (at, relocation) in file.dynamic_relocations().unwrap() {
                if let RelocationTarget::Symbol(index) = relocation.target() {
                    let symbol = table.symbol_by_index(index).unwrap();
                    assert!(symbol.is_undefined(), "{:?} at {at:x}", symbol.name());
                }
            }
        }
    }

    #[test]
    fn the_images_are_small() {
        for image in BOTH {
            assert!(image.len() <= 32 * 1024, "{} bytes", image.len());
        }
    }

    #[test]
    fn an_image_needs_no_library_no_thread_local_memory_and_no_relocation_of_its_code() {
        use object::elf::{DT_NEEDED, DT_TEXTREL, PF_W, PF_X, PT_DYNAMIC, PT_LOAD, PT_TLS};
        use object::read::elf::{Dyn, ElfFile64, FileHeader, ProgramHeader};
        for image in BOTH {
            let file = ElfFile64::<object::Endianness>::parse(image).unwrap();
            let endian = file.endian();
            for segment in file.elf_header().program_headers(endian, image).unwrap() {
                assert_ne!(segment.p_type(endian), PT_TLS);
                let both = PF_W | PF_X;
                let is_both =
                    segment.p_type(endian) == PT_LOAD && segment.p_flags(endian) & both == both;
                assert!(!is_both, "writable and executable");
                if segment.p_type(endian) == PT_DYNAMIC {
                    let entries = segment.dynamic(endian, image).unwrap().unwrap();
                    let tags: Vec<_> = entries.iter().map(|entry| entry.d_tag(endian)).collect();
                    assert!(!tags.contains(&DT_NEEDED), "{tags:?}");
                    assert!(!tags.contains(&DT_TEXTREL), "{tags:?}");
                }
            }
        }
    }
}
