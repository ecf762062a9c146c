//! What the kernel writes, read: its log, and the files of /proc that the doctor asks.
//!
//! Any bytes may come in. Must never panic, never allocate more than a small multiple of what came in, and use nothing
//! of the rest of the tool: the fuzzer takes this folder as it is.

pub mod boot;
pub mod cpu;
pub mod discipline;
pub mod log;
pub mod process;
