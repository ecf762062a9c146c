//! What the image needs of each processor beyond core: the address of a symbol that need not exist, and symbols that
//! nobody outside sees. To add one: a file with these names, and its `cfg` at the two places below.
//!
//! * `weak!(name)`: the address of a symbol of the program's, 0 if there is none. Stable Rust has no weak imports; the
//!   assembler has.
//! * in assembly, since Rust exports whatever has a name: `clockwise_start`, the image's first function, and `memcpy`,
//!   `memset`, `bcmp`, `memcmp`, which the compiler calls of its own accord. The libc's own would do, but for programs
//!   in which they are watched (AddressSanitizer's, before they are ready);
//! * `rust_eh_personality`, which what is left of the standard library may name: whoever unwinds goes on.
//!
//! Must never be exported: a program would take our `memcpy` for its own.

#[cfg(target_arch = "aarch64")]
#[path = "aarch64.rs"]
mod this;
#[cfg(target_arch = "x86_64")]
#[path = "x86_64.rs"]
mod this;

pub(crate) use this::weak;
