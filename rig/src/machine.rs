//! The machines that QEMU emulates: what differs between them, and nothing else.

use std::io::Result;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Kinds of machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// An x86-64 PC.
    Pc,
    /// An aarch64 machine as it exists in QEMU only (`virt`).
    Arm,
}

/// What the processor's counter is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Counter {
    /// It promises a constant rate, whichever that is.
    Invariant,
    /// It promises nothing.
    Promiseless,
    /// It promises this one, in Hz.
    Hertz(u64),
}

/// Where Debian's cross compilers have the libraries of a foreign machine.
const SYSROOT: &str = "/usr/aarch64-linux-gnu";

impl Machine {
    /// QEMU's program for it, and the package that this is from.
    #[must_use]
    pub const fn emulator(self) -> (&'static str, &'static str) {
        match self {
            Self::Pc => ("qemu-system-x86_64", "qemu-system-x86"),
            Self::Arm => ("qemu-system-aarch64", "qemu-system-arm"),
        }
    }

    /// The terminal that is the first serial port.
    pub(crate) const fn console(self) -> &'static str {
        match self {
            Self::Pc => "ttyS0",
            Self::Arm => "ttyAMA0",
        }
    }

    /// QEMU's options for the processor, the way out, and the four serial ports: the console, then `ttyS1` and further.
    pub(crate) fn options(self, counter: Counter) -> Vec<String> {
        let processor = match (self, counter) {
            // The emulator's counter keeps its rate, which it does not say unless it is made to.
            (Self::Pc, Counter::Invariant) => "qemu64,+invtsc,x-force-features=on".to_owned(),
            (Self::Pc, _) => "qemu64".to_owned(),
            (Self::Arm, Counter::Hertz(hertz)) => format!("cortex-a72,cntfrq={hertz}"),
            (Self::Arm, _) => "cortex-a72".to_owned(),
        };
        let others: &[&str] = match self {
            Self::Pc => &[
                "-device",
                "isa-debug-exit,iobase=0xf4,iosize=1",
                "-serial",
                "chardev:console",
                "-serial",
                "chardev:stdout",
                "-serial",
                "chardev:stderr",
                "-serial",
                "chardev:control",
            ],
            Self::Arm => &[
                "-M",
                "virt",
                "-serial",
                "chardev:console",
                "-device",
                "pci-serial-4x,chardev2=stdout,chardev3=stderr,chardev4=control",
            ],
        };
        let others = others.iter().map(|&word| word.to_owned());
        ["-cpu".to_owned(), processor].into_iter().chain(others).collect()
    }

    /// The libraries of a program with its loader, each with its place in the guest; none of a static one.
    pub(crate) fn libraries(self, program: &Path) -> Result<Vec<(PathBuf, String)>> {
        match self {
            Self::Pc => {
                let output = Command::new("ldd").arg(program).output()?;
                let text = String::from_utf8_lossy(&output.stdout);
                let paths = text.split_whitespace().filter(|word| word.starts_with('/'));
                let files = paths.filter(|path| Path::new(path).is_file());
                Ok(files.map(|path| (path.into(), path.to_owned())).collect())
            }
            // Its loader does not run here: all that a program of Rust's can need.
            Self::Arm => {
                let names = ["ld-linux-aarch64.so.1", "libc.so.6", "libgcc_s.so.1"];
                let place =
                    |name| (Path::new(SYSROOT).join("lib").join(name), format!("lib/{name}"));
                Ok(names.map(place).into())
            }
        }
    }
}
