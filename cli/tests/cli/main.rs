//! The built tool from outside: what it prints, what it refuses, what it survives.
//!
//! Formats are snapshots of the computed machine (`--simulate`). Of the real machine only relations
//! are asserted, and never a duration.

#[path = "../common/mod.rs"]
mod common;

mod calibrate;
mod choose;
mod denied;
mod doctor;
mod formats;
mod help;
mod input;
mod json;
mod old;
mod output;
mod profile;
mod run;
mod scarce;
mod signals;
mod verify;
