//! Any bytes as an ELF image: an error, or symbols that lie inside it.
#![no_main]

use clockwise_core::elf::{Image, extent};
use libfuzzer_sys::fuzz_target;

/// Those of the seeds, which the ELF tests have written, and those of real images.
const NAMES: [&[u8]; 5] = [b"global", b"twice", b"__vdso_clock_gettime", b"V_1", b""];
const VERSIONS: [&[u8]; 4] = [b"V_1", b"V_2", b"LINUX_2.6", b""];

fuzz_target!(|bytes: &[u8]| {
    // Any result will do, but there must be one.
    let _ = extent(bytes);
    let Ok(image) = Image::parse(bytes) else { return };
    for name in NAMES {
        for version in VERSIONS {
            if let Some(offset) = image.symbol(name, version) {
                assert!(offset < bytes.len());
            }
        }
    }
});
