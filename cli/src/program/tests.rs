//! Files that nobody would write, and what is made of them. Whole programs are in `cli/tests/cli/run/reach.rs`.

use super::*;

fn facts(bytes: &[u8]) -> Option<Facts> {
    Facts::read::<FileHeader64<Endianness>, _>(bytes)
}

#[test]
fn the_image_itself_is_a_library_that_asks_for_no_loader() {
    let facts = facts(IMAGE).unwrap();
    assert!(!facts.has_interpreter && !facts.needs_asan && !facts.is_go, "{facts:?}");
    // What this test runs in is a program.
    let own = std::fs::read("/proc/self/exe").unwrap();
    let own = Facts::read::<FileHeader64<Endianness>, _>(&own[..]).unwrap();
    assert!(own.has_interpreter && !own.is_library && !own.is_go, "{own:?}");
}

#[test]
fn no_damage_is_more_than_damage() {
    let mut random = fastrand::Rng::with_seed(1);
    for length in 0..IMAGE.len().min(3_000) {
        facts(&IMAGE[..length]);
    }
    let mut bytes = IMAGE.to_vec();
    for _ in 0..20_000 {
        let was: Vec<(usize, u8)> = (0..random.usize(1..8))
            .map(|_| {
                // Headers are more telling than code.
                let reach = if random.bool() { 600 } else { bytes.len() };
                let at = random.usize(..reach);
                (at, std::mem::replace(&mut bytes[at], random.u8(..)))
            })
            .collect();
        facts(&bytes);
        Facts::read::<FileHeader32<Endianness>, _>(&bytes[..]);
        for &(at, byte) in was.iter().rev() {
            bytes[at] = byte;
        }
    }
    assert!(bytes == IMAGE, "every damage was undone");
}

#[test]
fn an_interpreter_is_the_first_word_behind_the_mark() {
    let named = |head: &str| interpreter(head.as_bytes());
    let path = |path: &str| Some(PathBuf::from(path));
    assert_eq!(named("#!/bin/sh\n"), path("/bin/sh"));
    assert_eq!(named("#! \t/usr/bin/env python3 -u\nx"), path("/usr/bin/env"));
    assert_eq!(named("#!/bin/sh"), path("/bin/sh"));
    assert_eq!(named("#!relative\0/x\n"), path("relative"));
    for none in ["", "#", "#!", "#!\n/bin/sh", "#! \t\n", " #!/bin/sh", "\x7fELF"] {
        assert_eq!(named(none), None, "{none:?}");
    }
}

#[test]
fn what_is_preloaded_first_is_what_the_loader_takes_first() {
    assert_eq!(first_of(b""), None);
    assert_eq!(first_of(b" : "), None);
    assert_eq!(first_of(b":/a/libasan.so.8 b"), Some(&b"/a/libasan.so.8"[..]));
    assert!(is_asan(b"/usr/lib/libasan.so.8") && is_asan(b"libclang_rt.asan-x86_64.so"));
    assert!(!is_asan(b"/libasan.so/x") && !is_asan(b"libtsan.so.2"));
}

#[test]
fn what_cannot_be_executed_has_the_status_of_a_shell() {
    for errno in [libc::ENOENT, libc::ENOTDIR] {
        assert_eq!(Missing::from(Errno(errno)).status(), 127);
    }
    for errno in [libc::EACCES, libc::ENOEXEC, libc::ELOOP, libc::E2BIG] {
        assert_eq!(Missing::from(Errno(errno)).status(), 126);
    }
}
