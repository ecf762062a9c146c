//! How the image is linked: with nothing, to nothing, and so that a loader may put it anywhere at any time.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let arguments = [
        // No start files: they would import functions of the C library's own.
        "-nostartfiles",
        "-nostdlib",
        // Its first function is run by DT_INIT, for which nothing has to be relocated.
        "-Wl,-init=clockwise_start",
        "-Wl,-soname=libclockwise.so",
        // Bound when it is loaded, never unloaded: a thread may be in it, and nothing is left to be undone.
        "-Wl,-z,now,-z,relro,-z,nodelete,-z,noexecstack",
        // What one function asks of another is its own: a program or a library before it may define the same names.
        "-Wl,-Bsymbolic",
        // Old loaders know one table of symbols, new ones the other.
        "-Wl,--hash-style=both",
        "-Wl,--build-id=none",
    ];
    for argument in arguments {
        println!("cargo::rustc-cdylib-link-arg={argument}");
    }
}
