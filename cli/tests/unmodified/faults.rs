//! What has a fault is seen to have it: each line is a fault of `programs/faulty.c` and the program that must notice.

use crate::places::SANDBOXES;
use crate::runner::{Image, Program, WATCHDOG_SECONDS, can_unshare, compiled, temporary};
use crate::survival::{allocator, early, has_thread_local_data, judge, killed, mixed};
use std::path::PathBuf;

/// The faults by which a program hangs, and how long it is given then.
const HANG: [&str; 3] = ["LOCKS", "OTHER_EPOCH", "KEEPS_OFFSETS"];
const HANGS_SECONDS: u32 = 4;

fn faulty(fault: &str) -> PathBuf {
    compiled("faulty", &["-shared", "-fPIC", &format!("-D{fault}")])
}

/// Whether a program fails, or tells something else than without a fault.
fn notices(program: &Program, fault: &str) -> bool {
    let seconds = if HANG.contains(&fault) { HANGS_SECONDS } else { WATCHDOG_SECONDS };
    let ran = program.clone().for_at_most(seconds).run(&Image::Other(faulty(fault)));
    assert_ne!(ran.status.code(), Some(77), "it could not be tried: {ran:#?}");
    // Most say no more than that all held.
    let says_what_it_should =
        || ran.stdout == "held\n" || ran.stdout == program.run(&Image::None).holds().stdout;
    !ran.status.success() || !says_what_it_should()
}

/// Three at a time: most of them wait, those that hang for seconds.
fn all_notice(pairs: &[(&str, Program)]) {
    for three in pairs.chunks(3) {
        std::thread::scope(|scope| {
            for (fault, program) in three {
                scope.spawn(move || {
                    assert!(notices(program, fault), "{fault} goes unnoticed by {program:?}");
                });
            }
        });
    }
}

/// Without a fault, system calls are as good an answer as any, but where a program asks for more.
#[test]
fn what_has_no_fault_passes() {
    let programs = "clocks waits allocating storm family ids contract threads";
    for program in programs.split(' ').map(judge).chain([early()]).chain(mixed("causal")) {
        assert!(!notices(&program, "NONE"), "{program:?}");
    }
}

#[test]
fn locks_allocations_and_errno_are_noticed() {
    all_notice(&[
        ("LOCKS", judge("storm")),
        ("LOCKS", judge("family")),
        ("ALLOCATES", judge("storm")),
        ("ALLOCATES", judge("threads")),
        ("ALLOCATES", judge("allocating").before_image(&allocator())),
        ("ALLOCATES", judge("allocating").after_image(&allocator())),
        ("TOUCHES_ERRNO", judge("storm")),
        ("TOUCHES_ERRNO", judge("contract")),
        ("KEEPS_ZONE", judge("contract")),
        ("ANSWERS_EFAULT", judge("contract")),
        ("REFUSES_IDS", judge("ids")),
        ("LATE", early()),
    ]);
    assert!(
        has_thread_local_data(&faulty("THREAD_LOCAL")) && !has_thread_local_data(&faulty("NONE"))
    );
}

#[test]
fn wrong_times_are_noticed() {
    all_notice(&[
        ("BEHIND", judge("clocks")),
        ("BEHIND", judge("waits")),
        ("AHEAD", judge("waits")),
        ("AHEAD", judge("family")),
        ("OTHER_EPOCH", judge("waits")),
        ("DRIFTS", judge("clocks")),
        ("AHEAD", judge("ids")),
    ]);
    if let Some(mixed) = mixed("causal") {
        all_notice(&["DRIFTS", "SKEWED", "BEHIND"].map(|fault| (fault, mixed.clone())));
    }
}

#[test]
fn wrong_seconds_beside_files_are_noticed() {
    let files = |fault| (fault, judge("files").args([temporary(&format!("files-{fault}"))]));
    all_notice(&["EARLY_SECONDS", "BEHIND"].map(files));
}

#[test]
fn system_calls_and_threads_of_an_image_are_noticed() {
    all_notice(&SANDBOXES.map(|sandbox| ("NONE", judge("sandbox").args(sandbox))));
    let one_thread = Program::new("grep").args(["-x", "Threads:.1", "/proc/self/status"]);
    all_notice(&[("HELPER_THREAD", one_thread)]);
    if can_unshare("faults in namespaces") {
        all_notice(&[
            ("HELPER_THREAD", Program::new("true").by(["unshare", "-U", "-T"])),
            ("KEEPS_OFFSETS", judge("namespaces").args(["enter"])),
            ("LEAVES_A_FILE", killed()),
        ]);
    }
}
