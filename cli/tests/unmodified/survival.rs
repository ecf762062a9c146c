//! What an image must survive, one program in C for each: allocators, constructors, signals, forks, deadlines, any clock
//! number, threads, late loading. Each program judges itself by system calls and says in words what did not hold.

use crate::runner::{
    Image, Program, can_unshare, compiled, installed, not_tried, say, source, temporary,
};
use clockwise_core::counter::{Counter, SharedHardware};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// A program of `programs`, which judges itself.
pub fn judge(name: &str) -> Program {
    Program::new(compiled(name, &[]))
}

/// An allocator that reads clocks while it holds its lock.
pub fn allocator() -> PathBuf {
    compiled("allocator", &["-shared", "-fPIC", "-fno-builtin"])
}

/// A program whose library reads clocks when it is loaded and unloaded.
pub fn early() -> Program {
    let library = compiled("early", &["-shared", "-fPIC", "-DLIBRARY"]);
    let library = library.to_str().expect("a path in words");
    Program::new(compiled("early", &[library]))
}

/// What `clocks` tells with the image.
pub fn answered() -> &'static str {
    static WORDS: LazyLock<&str> = LazyLock::new(|| match SharedHardware.fit() {
        Ok(()) => "the counter answers\nheld\n",
        Err(why) => {
            say(&format!("the kernel answers all reads here: {why}"));
            "the kernel answers\nheld\n"
        }
    });
    &WORDS
}

#[test]
fn every_clock_is_the_kernels_within_its_bound() {
    for image in Image::BOTH {
        let told = judge("clocks").args(["tell", "fork"]).run(&image).holds().stdout;
        assert_eq!(told, answered());
    }
    let told = judge("clocks").args(["tell", "fork"]).run(&Image::None).holds().stdout;
    assert_eq!(told, "libc answers\nheld\n");
}

#[test]
fn no_wait_until_a_deadline_ends_early() {
    judge("waits").tells_the_same(&Image::ALL);
}

#[test]
fn an_allocator_may_read_clocks_while_it_holds_its_lock() {
    let program = judge("allocating");
    let (first, last) =
        (program.clone().before_image(&allocator()), program.after_image(&allocator()));
    first.tells_the_same(&Image::ALL);
    last.tells_the_same(&Image::ALL);
}

#[test]
fn clocks_answer_before_every_constructor_and_after_every_destructor() {
    early().tells_the_same(&Image::ALL);
    for (shell, words) in [("sh", "-c :"), ("bash", "-c :"), ("env", "true")] {
        Program::new(shell).args(words.split(' ')).tells_the_same(&Image::ALL);
    }
}

#[test]
fn signal_handlers_read_clocks_within_clock_calls() {
    judge("storm").tells_the_same(&Image::ALL);
}

#[test]
fn children_by_fork_vfork_and_spawn_have_right_clocks() {
    judge("family").tells_the_same(&Image::ALL);
}

/// Readers that are killed, in a mount namespace where what they leave can be seen.
pub fn killed() -> Program {
    let family = compiled("family", &[]);
    let script = source("killed.sh");
    Program::new("sh").args([script.as_path(), &family]).by(["unshare", "-m"])
}

#[test]
fn killed_programs_leave_nothing_behind() {
    if !can_unshare("what killed programs leave behind") {
        return;
    }
    let hidden = Image::BOTH.iter().filter_map(Image::path).any(|path| path.starts_with("/tmp"));
    if hidden || temporary("").starts_with("/tmp") {
        return not_tried("what killed programs leave in /tmp", "the tests run from there");
    }
    assert_eq!(killed().tells_the_same(&Image::ALL), "/dev/shm:\n\n/tmp:\n");
}

#[test]
fn every_clock_number_is_answered_as_without_the_image() {
    let told = judge("ids").tells_the_same(&Image::ALL);
    assert!(told.lines().count() > 70 && !told.contains("WRONG"), "{told}");
}

#[test]
fn each_function_keeps_its_contract_to_the_letter() {
    let told = judge("contract").tells_the_same(&Image::ALL);
    assert!(told.contains("zone 0 0\n") && told.contains("bad pointer 11"), "{told}");
}

/// Two threads that hand each other readings, on two processors; `None`, and words, where there is one only.
pub fn mixed(order: &str) -> Option<Program> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    if processors < 2 {
        not_tried("readings that threads hand over", "there is one processor only");
        return None;
    }
    Some(judge("mixed").args([order]))
}

#[test]
fn readings_of_three_ways_can_be_mixed_between_threads() {
    for image in Image::ALL {
        let order = if image == Image::Relaxed { "relaxed" } else { "causal" };
        let Some(program) = mixed(order) else { return };
        program.run(&image).holds();
    }
}

#[test]
fn a_new_thread_reads_clocks_without_allocating_on_a_small_stack() {
    judge("threads").tells_the_same(&Image::ALL);
}

#[test]
fn the_image_can_be_loaded_late_and_closed() {
    for image in Image::BOTH {
        let path = image.path().expect("a path");
        judge("threads").args([path]).run(&Image::None).holds();
        // And where one was preloaded: closing the other must not take that away.
        let preloaded = if image == Image::Causal { Image::Relaxed } else { Image::Causal };
        judge("threads").args([path]).run(&preloaded).holds();
    }
}

/// Whether a library has thread-local data, by what readelf prints.
pub fn has_thread_local_data(library: &Path) -> bool {
    let told =
        Program::new("readelf").args(["-lW"]).args([library]).run(&Image::None).holds().stdout;
    assert!(told.contains(" LOAD "), "{told}");
    told.contains(" TLS ")
}

#[test]
fn the_image_has_no_thread_local_data() {
    for image in Image::BOTH {
        assert!(!has_thread_local_data(image.path().expect("a path")));
    }
}

#[test]
fn clocks_answer_while_the_counter_is_forbidden() {
    for image in Image::BOTH {
        judge("forbidden").run(&image).holds();
    }
}

#[test]
fn files_and_clocks_agree_on_their_order() {
    let folder = temporary("files");
    // At the same time: they wait for the second most of it.
    std::thread::scope(|scope| {
        for image in Image::ALL {
            let folder = folder.join(format!("{image:?}"));
            scope.spawn(move || {
                std::fs::create_dir_all(&folder).expect("a folder");
                judge("files").args([folder]).run(&image).holds();
            });
        }
    });
}

#[test]
fn clocks_answer_under_tracers() {
    let clocks = judge("clocks").args(["fork"]);
    for image in Image::BOTH {
        if let Some(strace) = installed("strace") {
            let by = [strace.to_str().expect("a path in words"), "-f", "-o", "/dev/null"];
            clocks.clone().by(by).run(&image).holds();
        }
        // Which hides the vDSO, and would see the image touch what is not its own.
        if let Some(valgrind) = installed("valgrind") {
            let by = [valgrind.to_str().expect("a path in words"), "-q", "--error-exitcode=9"];
            clocks.clone().by(by).run(&image).holds();
        }
    }
}
