//! The image that the tool carries: built by `build.rs` from `preload/`.
//!
//! Must never be changed here: a copy is, by [`configure`](clockwise_core::settings::configure).

/// The shared library; empty for processors and systems for which there is none.
pub const IMAGE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/clockwise.so"));

#[cfg(test)]
mod tests {
    use super::IMAGE;
    use clockwise_core::settings::{Choice, configure};
    use object::{Object, ObjectSymbol};

    #[test]
    fn the_image_has_the_record_that_this_version_writes() {
        let mut image = IMAGE.to_vec();
        configure(&mut image, &Choice { relaxed: true, ..Choice::default() }).unwrap();
        let changed = image.iter().zip(IMAGE).filter(|(new, old)| new != old).count();
        assert_eq!(changed, 1, "one bit of its mode");
    }

    /// An import of `abort` would be a panic that can be reached; one that is not weak, a libc that must have it.
    #[test]
    fn the_image_exports_and_imports_exactly_what_is_listed() {
        let file = object::File::parse(IMAGE).unwrap();
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
        let found: String = symbols.iter().map(|(name, kind)| format!("{kind} {name}\n")).collect();
        assert_eq!(found, include_str!("../../preload/symbols.txt"));
    }

    /// A program or a library before it may define the same names.
    #[test]
    fn what_the_image_asks_of_itself_nobody_comes_between() {
        use object::read::ObjectSymbol;
        use object::{ObjectSymbolTable, RelocationTarget};
        let file = object::File::parse(IMAGE).unwrap();
        let table = file.dynamic_symbol_table().unwrap();
        for (at, relocation) in file.dynamic_relocations().unwrap() {
            if let RelocationTarget::Symbol(index) = relocation.target() {
                let symbol = table.symbol_by_index(index).unwrap();
                assert!(symbol.is_undefined(), "{:?} at {at:x}", symbol.name());
            }
        }
    }

    #[test]
    fn the_image_is_small() {
        assert!(IMAGE.len() <= 32 * 1024, "{} bytes", IMAGE.len());
    }

    #[test]
    fn the_image_needs_no_library_no_thread_local_memory_and_no_relocation_of_its_code() {
        use object::elf::{DT_NEEDED, DT_TEXTREL, PF_W, PF_X, PT_DYNAMIC, PT_LOAD, PT_TLS};
        use object::read::elf::{Dyn, ElfFile64, FileHeader, ProgramHeader};
        let file = ElfFile64::<object::Endianness>::parse(IMAGE).unwrap();
        let endian = file.endian();
        for segment in file.elf_header().program_headers(endian, IMAGE).unwrap() {
            assert_ne!(segment.p_type(endian), PT_TLS);
            let both = PF_W | PF_X;
            let is_both =
                segment.p_type(endian) == PT_LOAD && segment.p_flags(endian) & both == both;
            assert!(!is_both, "writable and executable");
            if segment.p_type(endian) == PT_DYNAMIC {
                let entries = segment.dynamic(endian, IMAGE).unwrap().unwrap();
                let tags: Vec<_> = entries.iter().map(|entry| entry.d_tag(endian)).collect();
                assert!(!tags.contains(&DT_NEEDED), "{tags:?}");
                assert!(!tags.contains(&DT_TEXTREL), "{tags:?}");
            }
        }
    }
}
