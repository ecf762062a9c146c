//! What the tool has to know of a processor to watch another program on it; selects the file for this target.
//!
//! Every file provides the same names:
//!
//! * `CALLS`: the system calls that ask for the time, with their numbers; `AUDIT`: how a seccomp filter tells this
//!   processor's calls from another's;
//! * `VDSO`: the names of the vDSO's functions;
//! * `registers(words)`: from the general registers as `PTRACE_GETREGSET` gives them; `None` if they are not those of
//!   a 64-bit program;
//! * `IP`, `SP`, `RESULT`: which of those words are the instruction and the stack pointer, and what a function gives back;
//! * `BREAK`, `AFTER_BREAK`: an instruction that stops a program, and how far it is then;
//! * `stub(number)`: a function that makes a system call and no more;
//! * `returned(registers, read)`: as they will be when a function, at its first instruction, has returned;
//! * `called(code, address)`: which address is called by the instruction that the code before an address ends with, if it
//!   is a call that names it;
//! * `Unwinder`, `Cache`, `unwound(registers)`, `frame_pointer(...)`: the unwinder for this processor, what it begins
//!   with, and the frame pointer that it has come to.
//!
//! With core's the only module that may contain `cfg(target_arch)`. Must never make a system call.

use crate::profile::calls::Call;

#[cfg(all(target_arch = "x86_64", target_pointer_width = "64"))]
#[path = "x86_64.rs"]
mod this;
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
#[path = "aarch64.rs"]
mod this;
#[cfg(not(any(
    all(target_arch = "x86_64", target_pointer_width = "64"),
    all(target_arch = "aarch64", target_endian = "little")
)))]
#[path = "none.rs"]
mod this;

pub use this::*;

/// The registers that matter here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    /// Of the next instruction.
    pub ip: u64,
    /// The stack pointer.
    pub sp: u64,
    /// The frame pointer, if the program keeps one there.
    pub fp: u64,
    /// The return address, on processors that have a register for it.
    pub link: u64,
    /// The number of the system call, where the program is in one.
    pub number: u64,
    /// The first argument of a call.
    pub argument: u64,
    /// The second.
    pub second: u64,
}

/// A function that makes a system call with the arguments that it gets, and gives back what that gives.
pub struct Stub {
    /// The instructions.
    pub code: Vec<u8>,
    /// Where the last of them lies, which returns.
    pub ret: u64,
}

/// What is asked for the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// `clock_gettime`
    ClockGettime,
    /// `gettimeofday`
    Gettimeofday,
    /// `time`
    Time,
    /// `clock_getres`
    ClockGetres,
}

impl Function {
    /// Its name, in C and as a system call.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ClockGettime => "clock_gettime",
            Self::Gettimeofday => "gettimeofday",
            Self::Time => "time",
            Self::ClockGetres => "clock_getres",
        }
    }

    /// The call of it with this first argument, of which C's `int` is looked at.
    pub const fn call(self, argument: u64) -> Call {
        let clock = argument as u32 as i32;
        match self {
            Self::ClockGettime => Call::ClockGettime(clock),
            Self::Gettimeofday => Call::Gettimeofday,
            Self::Time => Call::Time,
            Self::ClockGetres => Call::ClockGetres(clock),
        }
    }
}

/// The functions of the vDSO, and the version of their symbols.
pub struct Names {
    /// The version.
    pub version: &'static [u8],
    /// The names.
    pub functions: &'static [(Function, &'static [u8])],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_of_the_vdso_has_a_system_call_and_a_stub_that_returns_last() {
        for &(function, _) in VDSO.functions {
            let number = CALLS.iter().find(|&&(called, _)| called == function).unwrap().1;
            let Stub { code, ret } = stub(number);
            assert!(ret < code.len() as u64 && code.len() <= 16, "{function:?}");
            assert!(AFTER_BREAK <= BREAK.len() as u64);
        }
    }

    #[test]
    fn a_call_tells_where_it_goes() {
        // To its own address, in either processor's instructions: 5 bytes back, or none.
        #[cfg(target_arch = "x86_64")]
        let (code, other) =
            ([0, 0, 0, 0xe8, 0xfb, 0xff, 0xff, 0xff], [0, 0, 0, 0xff, 0x15, 0, 0, 0]);
        #[cfg(target_arch = "aarch64")]
        let (code, other) = ([0, 0, 0, 0, 0, 0, 0, 0x94], [0, 0, 0, 0, 0, 0, 0x3f, 0xd6]);
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        {
            let length = if cfg!(target_arch = "x86_64") { 5 } else { 4 };
            assert_eq!(called(code, 0x1000), Some(0x1000 - length));
            assert_eq!(called(other, 0x1000), None);
        }
    }

    #[test]
    fn registers_of_another_format_are_none() {
        assert_eq!(registers(&[0; 17]), None);
        assert_eq!(registers(&[]), None);
    }
}
