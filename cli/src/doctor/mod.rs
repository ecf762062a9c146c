//! `clockwise doctor`: whether time on this machine is slow, wrong or unsafe, why, and what to do.
//!
//! ```text
//!  files ----> tree --+--> parse --+
//!  kernel ---> probe -+            +--> facts --> checks (one table) --> report --> text, JSON
//!  loops ----> measure --> measured+
//!                a recording: the same files, dmesg and measured.json below a folder
//! ```
//!
//! [`Facts`] is the door: the checks know nothing of the machine but what comes through it, so a recording of another
//! machine is judged as that machine would be. Must never change anything on the machine.

pub mod checks;
mod facts;
mod finding;
mod measure;
mod measured;
mod parse;
mod probe;
mod record;
mod report;
pub mod text;
mod tree;

pub use facts::Facts;
pub use record::Recording;
pub use report::Report;
