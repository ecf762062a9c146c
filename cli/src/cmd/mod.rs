//! One file a command: from its flags to its answer. None of them prints but to a writer that it is handed.

pub mod bench;
pub mod calibrate;
pub mod choose;
pub mod count;
pub mod doctor;
pub mod profile;
pub mod run;
pub mod verify;

/// What a command has to say.
pub struct Answer {
    /// For standard output.
    pub text: String,
    /// For standard error, a line each.
    pub warnings: Vec<String>,
    /// The exit status: 0 yes, 1 found a fault, 2 cannot tell.
    pub status: u8,
}
