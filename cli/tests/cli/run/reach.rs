//! Which programs a preloaded image reaches: the others are named before they start, and start plainly.

use super::{chmod, compiled, forced, launch, places, script, text};
use crate::common::process::is_root;
use crate::common::terminal::run_on_terminals;
use crate::common::{not_tried, run};
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::Command;

const HELLO: &str = "#include <stdio.h>\n#include <stdlib.h>\nint main(void) {\n\
    char *preload = getenv(\"LD_PRELOAD\"); puts(preload ? preload : \"\"); return 6; }";

/// Starts it: it is not preloaded, with this sentence; by `--force` it is.
#[track_caller]
fn is_not_reached(cache: &Path, program: &Path, parts: &[&str]) {
    for flags in [&[][..], &["--stats"]] {
        let ran = run(&mut launch(cache, &[flags, &["--", text(program)]].concat())).exits(6);
        assert_eq!(ran.stdout, "\n");
        let said: Vec<&str> = ran.stderr.lines().collect();
        let head = format!("clockwise: {} starts with the kernel's clock:", text(program));
        assert_eq!(said[0], head);
        assert!(said[1].starts_with("  it"), "{said:?}");
        ran.says(parts);
    }
    let ran = run(&mut forced(cache, &["--", text(program)]));
    assert!(ran.stdout.contains("clockwise-"), "{ran:?}");
    let head = format!("{} is not reached; LD_PRELOAD is set for what it starts", text(program));
    ran.exits(6).says(parts).says(&[&head, "(--force)"]);
    let ran = run(&mut launch(cache, &["--dry-run", "--format", "json", text(program)])).exits(1);
    let told = &ran.json()["program"];
    assert_eq!(told["reach"], "not");
    for part in parts {
        assert!(told["reason"].as_str().unwrap().contains(part), "{told}");
    }
}

/// How `--dry-run` tells what it thinks of a program.
fn told(cache: &Path, program: &Path) -> (String, String) {
    let ran = run(&mut launch(cache, &["--dry-run", "--format", "json", text(program)]));
    let told = &ran.json()["program"];
    let word = |name: &str| told[name].as_str().unwrap_or_default().to_owned();
    (word("reach"), word("reason"))
}

#[test]
fn a_static_program_is_not_reached_and_neither_is_a_script_of_one() {
    let (folder, cache) = places("static");
    for (name, flags) in [("static", &["-static"][..]), ("static-pie", &["-static-pie"])] {
        let program = compiled(&folder, name, HELLO, flags);
        is_not_reached(&cache, &program, &["linked statically"]);
        let outer = folder.join("script");
        script(&outer, format!("#! \t{} with an argument\n", text(&program)).as_bytes());
        is_not_reached(&cache, &outer, &["its interpreter", "linked statically"]);
        let outermost = folder.join("script of a script");
        script(&outermost, format!("#!{}", text(&outer)).as_bytes());
        is_not_reached(&cache, &outermost, &["its interpreter", "linked statically"]);
    }
}

#[test]
fn a_dynamic_program_is_reached_and_nothing_is_said() {
    let (folder, cache) = places("dynamic");
    for (name, flags) in [("pie", &[][..]), ("no-pie", &["-no-pie"]), ("stripped", &["-s"])] {
        let program = compiled(&folder, name, HELLO, flags);
        let ran = run(&mut forced(&cache, &[text(&program)])).exits(6);
        assert!(ran.stdout.contains("clockwise-") && !ran.stderr.contains("reached"), "{ran:?}");
        assert_eq!(told(&cache, &program), ("whole".to_owned(), String::new()));
    }
}

#[test]
fn the_loader_itself_is_no_static_program() {
    let (folder, cache) = places("loader");
    let program = compiled(&folder, "program", HELLO, &[]);
    let bytes = std::fs::read(&program).unwrap();
    // The path of the loader as the program names it.
    let at = bytes.windows(5).position(|part| part == b"/lib6" || part == b"/lib/").unwrap();
    let end = bytes[at..].iter().position(|&byte| byte == 0).unwrap();
    let loader = std::str::from_utf8(&bytes[at..at + end]).unwrap();
    assert_eq!(told(&cache, Path::new(loader)).0, "whole", "{loader}");
    let ran = run(&mut forced(&cache, &[loader, text(&program)])).exits(6);
    assert!(ran.stdout.contains("clockwise-"), "{ran:?}");
}

#[test]
fn a_program_for_another_processor_is_not_reached() {
    let (folder, cache) = places("foreign_elf");
    let program = compiled(&folder, "program", HELLO, &[]);
    let good = std::fs::read(&program).unwrap();
    // The class, the byte order, the processor.
    for (at, byte) in [(4, good[4] ^ 3), (5, good[5] ^ 3), (18, 8)] {
        let mut bytes = good.clone();
        bytes[at] = byte;
        script(&program, &bytes);
        let (reach, reason) = told(&cache, &program);
        assert_eq!(reach, "not", "byte {at}");
        assert!(reason.contains("another processor or for 32 bits"), "{reason}");
        let ran = run(&mut launch(&cache, &[text(&program)]));
        ran.says(&[text(&program), "starts with the kernel's clock:\n  it is made for another"]);
    }
}

#[test]
fn a_program_that_changes_its_user_is_not_reached() {
    let (folder, cache) = places("set_uid");
    let program = compiled(&folder, "program", HELLO, &[]);
    if !is_root() {
        return not_tried("set-uid programs", "only root may give files away");
    }
    chown(&program, Some(60_111), Some(60_112)).unwrap();
    chmod(&program, 0o4755);
    let mount = Command::new("findmnt").args(["-n", "-o", "OPTIONS", "-T"]).arg(&program).output();
    if mount.is_ok_and(|told| String::from_utf8_lossy(&told.stdout).contains("nosuid")) {
        return not_tried("set-uid programs", "the folder for temporary files is mounted nosuid");
    }
    is_not_reached_as_loaded(&cache, &program, "set-uid");
    chmod(&program, 0o2755);
    is_not_reached_as_loaded(&cache, &program, "set-gid");
    // Without the right to execute for the group it is no set-gid program.
    chmod(&program, 0o2745);
    assert_eq!(told(&cache, &program).0, "whole");
    // Set to whom it is already: nothing changes, and the loader keeps the preload.
    chown(&program, Some(0), Some(0)).unwrap();
    chmod(&program, 0o6755);
    let ran = run(&mut forced(&cache, &[text(&program)])).exits(6);
    assert!(!ran.stderr.contains("is not reached"), "{ran:?}");
}

/// As `is_not_reached`; the loader removes the variable, whoever sets it.
#[track_caller]
fn is_not_reached_as_loaded(cache: &Path, program: &Path, part: &str) {
    let ran = run(&mut launch(cache, &[text(program)])).exits(6);
    assert_eq!(ran.stdout, "\n");
    ran.says(&[text(program), part, "starts with the kernel's clock:\n"]);
    let ran = run(&mut forced(cache, &[text(program)])).exits(6).says(&[part, "--force"]);
    assert_eq!(ran.stdout, "\n", "the loader has kept it: the sentence is wrong");
}

#[test]
fn capabilities_of_a_file_count_for_all_but_root() {
    let (folder, cache) = places("capabilities");
    let program = compiled(&folder, "program", HELLO, &[]);
    if !is_root() {
        return not_tried("file capabilities", "only root may grant them");
    }
    // Revision 2, effective, CAP_NET_BIND_SERVICE: as setcap writes it, which is not installed everywhere.
    let mut value = [0_u8; 20];
    (value[0], value[3], value[5]) = (1, 2, 4);
    let hex: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
    let python = "import os, sys; os.setxattr(sys.argv[1], 'security.capability', bytes.fromhex(sys.argv[2]))";
    let set = Command::new("python3").args(["-c", python, text(&program), &hex]).output().unwrap();
    if !set.status.success() {
        let why = String::from_utf8_lossy(&set.stderr);
        return not_tried("file capabilities", why.lines().last().unwrap_or("no reason"));
    }
    assert_eq!(told(&cache, &program).0, "whole", "root has them all");
    let theirs = folder.join("theirs");
    std::fs::create_dir(&theirs).unwrap();
    chown(&theirs, Some(60_111), Some(60_111)).unwrap();
    let mut command = launch(&theirs, &["--dry-run", "--format", "json", text(&program)]);
    std::os::unix::process::CommandExt::uid(&mut command, 60_111);
    let output = match command.output() {
        Ok(output) if !output.stdout.is_empty() => output,
        other => return not_tried("file capabilities", &format!("as another user: {other:?}")),
    };
    let told = crate::common::Ran::from(output).json();
    assert_eq!(told["program"]["reach"], "not", "{told}");
    assert!(told["program"]["reason"].as_str().unwrap().contains("file capabilities"), "{told}");
}

#[test]
fn a_shared_address_sanitizer_must_come_first() {
    let (folder, cache) = places("asan");
    let library = folder.join("libasan.so.8");
    let stand_in = compiled(
        &folder,
        "asan.so",
        "int asan;",
        &["-shared", "-fPIC", "-Wl,-soname,libasan.so.8"],
    );
    std::fs::rename(stand_in, &library).unwrap();
    let path = format!("-Wl,-rpath,{}", text(&folder));
    let flags = ["-Wl,--no-as-needed", text(&library), &path];
    let program = compiled(&folder, "program", HELLO, &flags);
    is_not_reached(&cache, &program, &["AddressSanitizer", "libasan.so"]);
    // Where the user has seen to that, the image comes after it.
    let mut command = forced(&cache, &[text(&program)]);
    let ran = run(command.env("LD_PRELOAD", &library)).exits(6);
    assert!(ran.stdout.starts_with(text(&library)) && ran.stdout.contains("clockwise-"), "{ran:?}");
    assert!(!ran.stderr.contains("AddressSanitizer"), "{ran:?}");
}

#[test]
fn a_dynamic_go_program_is_reached_in_part() {
    let (folder, cache) = places("go");
    for section in [".go.buildinfo", ".note.go.buildid"] {
        let mark =
            format!("__attribute__((section(\"{section}\"), used)) static int mark = 1;\n{HELLO}");
        let program = compiled(&folder, "program", &mark, &[]);
        let (reach, reason) = told(&cache, &program);
        assert_eq!(reach, "part", "{section}");
        assert!(reason.contains("made by Go"), "{reason}");
        let ran = run(&mut forced(&cache, &[text(&program)])).exits(6);
        assert!(ran.stdout.contains("clockwise-"), "{ran:?}");
        ran.says(&[text(&program), "is reached in part", "made by Go"]);
        let program = compiled(&folder, "static", &mark, &["-static"]);
        let (reach, reason) = told(&cache, &program);
        assert!(reach == "not" && reason.contains("made by Go"), "{reason}");
    }
}

#[test]
fn damaged_files_are_looked_at_without_harm() {
    let (folder, cache) = places("damaged");
    let program = compiled(&folder, "program", HELLO, &[]);
    let good = std::fs::read(&program).unwrap();
    let file = folder.join("damaged");
    let started = |bytes: &[u8], what: &str| {
        script(&file, bytes);
        let ran = run(&mut launch(&cache, &["--", text(&file)]));
        // What the kernel says of it: it may even start.
        assert!(!ran.stderr.contains("panicked") && ran.code != Some(101), "{what}: {ran:?}");
        assert!(
            ran.code.is_some() || ran.signal.is_some_and(|signal| signal != libc::SIGABRT),
            "{what}: {ran:?}"
        );
    };
    for length in [0, 1, 3, 4, 5, 19, 20, 52, 63, 64, 65, 100, good.len() / 2, good.len() - 1] {
        started(&good[..length], &format!("{length} bytes"));
    }
    // Every field of the header, as the largest number and as zero.
    for at in 16..64 {
        for byte in [0, 0xff] {
            let mut bytes = good.clone();
            bytes[at] = byte;
            started(&bytes, &format!("byte {at} is {byte}"));
        }
    }
    for head in ["#!", "#!\n", "#! \t \n/bin/sh", "#!/bin/sh"] {
        started(head.as_bytes(), head);
    }
}

#[test]
fn what_is_said_of_a_program_fits_the_terminal() {
    let (folder, cache) = places("columns");
    let program = compiled(&folder, "s", HELLO, &["-static"]);
    let link = Path::new("/tmp").join(format!("clockwise-{}", std::process::id()));
    std::os::unix::fs::symlink(&program, &link).unwrap();
    let ran = run_on_terminals(launch(&cache, &["--", text(&link)]), 60).exits(6);
    std::fs::remove_file(&link).unwrap();
    assert!(ran.stderr.lines().count() > 2, "{}", ran.stderr);
    for (at, line) in ran.stderr.lines().enumerate() {
        assert!(line.len() <= 60, "{line}");
        assert!(line.starts_with(if at == 0 { "clockwise: " } else { "  " }), "{line}");
    }
}

#[test]
fn a_script_of_itself_ends() {
    let (folder, cache) = places("loop");
    let file = folder.join("loop");
    script(&file, format!("#!{}\n", text(&file)).as_bytes());
    assert_eq!(told(&cache, &file).0, "unknown");
    run(&mut forced(&cache, &["--", text(&file)])).exits(126).says(&[text(&file)]);
}
