//! From the registers at a call to the chain of those who called: by the unwinding tables of the files, by frame
//! pointers where there are none.
//!
//! Must never be without an answer: the innermost address is always there.

use super::Asked;
use super::files::{Files, Mapped};
use super::proc::{self, Mapping};
use crate::arch::{self, Registers};
use crate::profile::calls::Module;
use framehop::{FrameAddress, Unwinder};
use std::rc::Rc;

/// Return addresses in a chain, at most.
pub const DEPTH: usize = 32;

/// What one process executes.
#[derive(Clone, Default)]
pub struct Frames {
    unwinder: arch::Unwinder,
    known: Vec<Known>,
    /// How many chains with unknown addresses are let pass before what is mapped is looked at again.
    patience: u32,
    passed: u32,
}

/// Something that it has mapped.
#[derive(Clone)]
struct Known {
    mapping: Mapping,
    file: Option<(Rc<Mapped>, u64)>,
}

/// What is shared by all processes: the files, and how an address was unwound last.
#[derive(Default)]
pub struct Shared {
    files: Files,
    cache: arch::Cache,
}

impl Frames {
    /// All that was ever mapped, to be executed.
    pub fn modules(&self) -> Vec<Module> {
        self.known.iter().map(|known| known.mapping.module.clone()).collect()
    }

    /// The chain from these registers on, without the functions that stand between the caller and the clock. `read`
    /// reads the stack.
    pub fn chain(
        &mut self,
        process: i32,
        asked: Asked,
        at: Registers,
        shared: &mut Shared,
        mut read: impl FnMut(u64) -> Option<u64>,
    ) -> Vec<u64> {
        if self.known.is_empty() {
            self.look(process, shared);
        }
        let mut chain = self.unwind(at, shared, &mut read);
        // Something may have been loaded meanwhile. A register that holds no frame pointer leads nowhere too, again and
        // again.
        if chain.iter().any(|&address| self.at(address).is_none()) {
            self.passed += 1;
            if self.passed > self.patience {
                let has_changed = self.look(process, shared);
                (self.patience, self.passed) =
                    if has_changed { (0, 0) } else { (self.patience * 2 + 1, 0) };
                if has_changed {
                    chain = self.unwind(at, shared, &mut read);
                }
            }
        }
        // An address that lies nowhere is no return address, nor is what comes after it.
        let known = chain.iter().take_while(|&&address| self.at(address).is_some()).count();
        chain.truncate(known.max(1));
        let chosen =
            usize::from(asked.is_system_call && self.is_chosen(at.ip, asked.function.name()));
        let between = chain.iter().skip(chosen).take_while(|&&address| self.is_between(address));
        let between = chosen + between.count();
        // The outermost stays, whatever it is.
        chain.drain(..between.min(chain.len() - 1));
        chain
    }

    /// Whether a system call is made by one of the functions that the loader chooses for C's function of that name.
    fn is_chosen(&self, address: u64, name: &str) -> bool {
        let file = self.at(address).and_then(|known| known.file.as_ref());
        file.is_some_and(|(file, _)| file.is_chosen(name))
    }

    /// Looks at what the process has mapped. Whether that has changed.
    fn look(&mut self, process: i32, shared: &mut Shared) -> bool {
        let before = self.known.len();
        for mapping in proc::executable(process).unwrap_or_default() {
            if self.known.iter().any(|known| known.mapping.is(&mapping)) {
                continue;
            }
            let (start, end) = (mapping.module.start, mapping.module.end);
            let file = shared.files.of(process, &mapping);
            let file = file.and_then(|file| Some((Rc::clone(&file), file.bias(&mapping)?)));
            // What was there before is not there any more.
            let over = |known: &Known| {
                known.mapping.module.start < end && start < known.mapping.module.end
            };
            for gone in self.known.iter().filter(|known| over(known)) {
                self.unwinder.remove_module(gone.mapping.module.start);
            }
            if let Some((file, bias)) = &file {
                let path = mapping.module.path.clone();
                let module = framehop::Module::new(path, start..end, *bias, file.sections());
                self.unwinder.add_module(module);
            }
            self.known.push(Known { mapping, file });
        }
        self.known.len() > before
    }

    /// What lies at an address; of two that were there one after the other, the later.
    fn at(&self, address: u64) -> Option<&Known> {
        let lies = |known: &&Known| {
            (known.mapping.module.start..known.mapping.module.end).contains(&address)
        };
        self.known.iter().rev().find(lies)
    }

    fn is_between(&self, address: u64) -> bool {
        let file = self.at(address).and_then(|known| known.file.as_ref());
        // The call itself, which may be the last instruction of its function.
        file.is_some_and(|(file, bias)| file.is_between(address.wrapping_sub(*bias) - 1))
    }

    /// Who has called a function between the caller and the clock for which there is no table (all of musl's): the first
    /// word of the stack that comes after a call of just this function. And the registers there.
    fn caller_without_table(
        &self,
        at: Registers,
        stack: &mut impl FnMut(u64) -> Result<u64, ()>,
    ) -> Option<(FrameAddress, Registers)> {
        const WORDS: u64 = 64;
        let file = |address| self.at(address)?.file.as_ref();
        let (asking, bias) = file(at.ip)?;
        let function = asking.without_table(at.ip.wrapping_sub(*bias) - 1)?.wrapping_add(*bias);
        (0..WORDS).find_map(|word| {
            let place = at.sp + 8 * word;
            let address = stack(place).ok()?;
            let (calling, bias) = file(address)?;
            let code = calling.code_before(address.wrapping_sub(*bias))?;
            let has_called = arch::called(code, address)? == function;
            // A function that keeps a frame has put the caller's pointer below the return address.
            let fp = if at.fp.wrapping_add(8) == place { stack(at.fp).ok()? } else { at.fp };
            let after = Registers { ip: address, sp: place + 8, link: address, fp, ..at };
            let caller = FrameAddress::from_return_address(address)?;
            has_called.then_some((caller, after))
        })
    }

    fn unwind(
        &self,
        at: Registers,
        shared: &mut Shared,
        read: &mut impl FnMut(u64) -> Option<u64>,
    ) -> Vec<u64> {
        let mut chain = vec![at.ip];
        let mut registers = arch::unwound(at);
        let mut address = FrameAddress::from_instruction_pointer(at.ip);
        let mut stack = |address| read(address).ok_or(());
        let mut at = at;
        while let Some((caller, after)) = self.caller_without_table(at, &mut stack) {
            chain.push(after.ip);
            (at, registers, address) = (after, arch::unwound(after), caller);
            if chain.len() == DEPTH {
                break;
            }
        }
        while chain.len() < DEPTH {
            let unwound =
                self.unwinder.unwind_frame(address, &mut registers, &mut shared.cache, &mut stack);
            match unwound {
                Ok(Some(caller)) => {
                    chain.push(caller);
                    let Some(next) = FrameAddress::from_return_address(caller) else { break };
                    address = next;
                }
                Ok(None) => break,
                // As where a runtime has changed to another stack for the call: Go does.
                Err(_) => {
                    let rest = linked(arch::frame_pointer(&registers), &mut stack);
                    chain.extend(rest.into_iter().take(DEPTH - chain.len()));
                    break;
                }
            }
        }
        chain
    }
}

/// The return addresses to which frame pointers lead.
fn linked(mut fp: u64, stack: &mut impl FnMut(u64) -> Result<u64, ()>) -> Vec<u64> {
    let mut links = Vec::new();
    while links.len() < DEPTH {
        let (Ok(next), Ok(link)) = (stack(fp), stack(fp.wrapping_add(8))) else { break };
        links.push(link);
        // Callers' frames lie higher.
        if next <= fp {
            break;
        }
        fp = next;
    }
    links
}
