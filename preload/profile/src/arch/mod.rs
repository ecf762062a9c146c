//! What the counting image needs of each processor beyond what the image does: who called, and on which thread. To add
//! one: a file with these names, and its `cfg` at the two places below.
//!
//! * `with_caller!(n, function)`: all of a naked function of `n` arguments, which hands them on to `function` with two
//!   more: the address to which the call returns, and the caller's frame pointer, whatever that register holds;
//! * `thread_pointer()`: what tells a thread from all others that live;
//! * `memmove`, in assembly, as the image has its kin;
//! * `NEAR`: where from there a C library keeps its own record of the thread, in bytes.
//!
//! Must never look at what the frame pointer points to.

#[cfg(target_arch = "aarch64")]
#[path = "aarch64.rs"]
mod this;
#[cfg(target_arch = "x86_64")]
#[path = "x86_64.rs"]
mod this;

#[path = "../../../src/arch/mod.rs"]
mod shared;

pub(crate) use shared::weak;
pub(crate) use this::{NEAR, thread_pointer, with_caller};
