//! Throw-away virtual machines: what must not be done to the machine that runs the tests is done to a guest.
//!
//! QEMU emulates a whole machine in software; a distribution's kernel boots in it with an initramfs made for the run,
//! which holds the programs with their libraries. Their output, standard error and exit status come back over serial
//! ports, so that the guest needs no disk, no network and no driver beyond them. A script beside it stops,
//! saves or freezes the machine at a word of the program's.
//!
//! Only tests use this. Must never set anything of the host: no clock, no kernel, nothing outside its own folder.

mod cpio;
mod guest;
mod kernel;
mod machine;
mod script;
mod snapshot;

pub use guest::{Guest, Program, Ran};
pub use kernel::{Kernel, installed};
pub use machine::Machine;
pub use script::Act;
