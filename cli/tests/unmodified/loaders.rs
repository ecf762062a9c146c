//! Other loaders, other libraries beside the image: musl, static programs, allocators that are preloaded, sanitizers.

use crate::runner::{Image, Program, compiled, compiled_by, installed, installed_library};
use crate::survival::{answered, judge};

const WORDS: [&str; 2] = ["tell", "fork"];

#[test]
fn a_program_of_musl_takes_its_time_from_the_image() {
    let Some(compiler) = installed("musl-gcc") else { return };
    let compiler = compiler.to_str().expect("a path in words");
    for image in Image::BOTH {
        let clocks = Program::new(compiled_by(compiler, "clocks", &[])).args(WORDS);
        assert_eq!(clocks.run(&image).holds().stdout, answered());
        Program::new(compiled_by(compiler, "family", &[])).args(["short"]).run(&image).holds();
    }
    // It asks for resolutions by system call, which knows fewer clocks than the vDSO.
    Program::new(compiled_by(compiler, "ids", &[])).tells_the_same(&Image::ALL);
}

#[test]
fn a_program_with_a_clock_of_its_own_is_not_called_back() {
    assert_eq!(judge("own").tells_the_same(&Image::ALL), "held\n");
}

#[test]
fn a_static_program_is_not_touched() {
    let program = Program::new(compiled("clocks", &["-static"])).args(WORDS);
    assert_eq!(program.tells_the_same(&Image::ALL), "libc answers\nheld\n");
}

#[test]
fn allocators_are_preloaded_on_either_side() {
    for name in ["libjemalloc.so.2", "libtcmalloc_minimal.so.4"] {
        let Some(library) = installed_library(name) else { continue };
        for program in
            [judge("allocating"), judge("family").args(["short"]), judge("clocks").args(["fork"])]
        {
            // In which order it reads makes no difference to an allocator.
            program.clone().before_image(&library).run(&Image::Causal).holds();
            program.after_image(&library).run(&Image::Causal).holds();
        }
    }
}

#[test]
fn a_program_with_an_address_sanitizer_runs() {
    // The sanitizer wants to come first, unless it is part of the program.
    let library = Program::new("gcc").args(["-print-file-name=libasan.so"]);
    let library = library.run(&Image::None).holds().stdout;
    for (name, words) in [("clocks", &WORDS[..]), ("allocating", &[]), ("family", &["short"])] {
        let expected = if name == "clocks" { answered() } else { "held\n" };
        let beside = Program::new(compiled(name, &["-fsanitize=address"])).args(words);
        let beside = beside.before_image(library.trim_end().as_ref());
        assert_eq!(beside.run(&Image::Causal).holds().stdout, expected);
        let within = compiled(name, &["-fsanitize=address", "-static-libasan"]);
        let within = Program::new(within).args(words);
        assert_eq!(within.run(&Image::Causal).holds().stdout, expected);
    }
}
