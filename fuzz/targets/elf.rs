//! Any bytes as an ELF image: an error, or symbols that lie inside it.
#![no_main]

use clockwise_core::elf::{ElfError, Image, extent, native_extent};
use libfuzzer_sys::fuzz_target;

/// Those of the seeds, which the ELF tests have written, and those of real images.
const NAMES: [&[u8]; 5] = [b"global", b"twice", b"__vdso_clock_gettime", b"V_1", b""];
const VERSIONS: [&[u8]; 4] = [b"V_1", b"V_2", b"LINUX_2.6", b""];

fuzz_target!(|bytes: &[u8]| {
    // Any result will do, but there must be one.
    let extent = extent(bytes);
    // The reader of this program's own format says the same of such an image, and of any other that it is none.
    assert!(native_extent(bytes) == extent || native_extent(bytes) == Err(ElfError::NotElf));
    let native = Image::parse_native(bytes);
    let Ok(image) = Image::parse(bytes) else { return };
    for name in NAMES {
        for version in VERSIONS {
            let found = image.symbol(name, version);
            assert!(found.is_none_or(|offset| offset < bytes.len()));
            if let Ok(native) = native {
                assert_eq!(native.symbol(name, version), found);
            }
        }
    }
});
