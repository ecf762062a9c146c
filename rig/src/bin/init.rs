//! The first process of a guest: runs the programs that are there, and tells over a serial port how they ended.
//!
//! `/command` holds words that end with a zero byte each: `settle` or `start`; then for each program how many variables, the
//! variables, how many words, its path and its arguments. Outputs are parted by a byte that no text holds.
//! Must never end before the machine does: the kernel would panic.
//!
//! # Safety
//!
//! Calls of libc with strings and structures of its own.

#![expect(unsafe_code, reason = "std mounts nothing, and knows no serial port")]

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::time::Duration;

const SOURCES: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";

fn main() {
    for (kind, place) in
        [(c"proc", c"/proc"), (c"sysfs", c"/sys"), (c"devtmpfs", c"/dev"), (c"tmpfs", c"/tmp")]
    {
        // SAFETY: strings that end with zero; no data.
        unsafe { libc::mount(kind.as_ptr(), place.as_ptr(), kind.as_ptr(), 0, std::ptr::null()) };
    }
    let [Ok(stdout), Ok(stderr), Ok(mut control)] = ["1", "2", "3"].map(port) else { leave() };
    let _ = writeln!(control, "up");
    if let Err(error) = run_all([stdout, stderr], &mut control) {
        let _ = writeln!(control, "not run: {error}");
    }
    // The last one that closes a port waits until all is sent.
    drop(control);
    leave();
}

/// A serial port that passes bytes as they are.
fn port(number: &str) -> std::io::Result<File> {
    let file = File::options().write(true).open(format!("/dev/ttyS{number}"))?;
    let mut settings = std::mem::MaybeUninit::<libc::termios>::zeroed();
    // SAFETY: fills one structure.
    unsafe { libc::tcgetattr(file.as_raw_fd(), settings.as_mut_ptr()) };
    // SAFETY: all zeros, or filled: integers either way.
    let mut settings = unsafe { settings.assume_init() };
    // SAFETY: changes one structure.
    unsafe { libc::cfmakeraw(&raw mut settings) };
    // SAFETY: reads one structure.
    unsafe { libc::tcsetattr(file.as_raw_fd(), libc::TCSANOW, &raw const settings) };
    Ok(file)
}

fn run_all(mut outputs: [File; 2], control: &mut File) -> std::io::Result<()> {
    let words = fs::read_to_string("/command")?;
    let mut words = words.split_terminator('\0');
    if words.next() == Some("settle") {
        settle();
    }
    while let Some(variables) = counted(&mut words) {
        let call = counted(&mut words).unwrap_or_default();
        let status = match run(&variables, &call, &outputs) {
            Ok(status) => status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)),
            Err(error) => {
                writeln!(outputs[1], "not started: {call:?}: {error}")?;
                127
            }
        };
        for output in &mut outputs {
            output.write_all(b"\x1e")?;
        }
        writeln!(control, "rc {status}")?;
    }
    writeln!(control, "down")
}

/// A number, and so many words.
fn counted<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<Vec<&'a str>> {
    let count = words.next()?.parse().ok()?;
    Some(words.take(count).collect())
}

fn run(variables: &[&str], call: &[&str], outputs: &[File; 2]) -> std::io::Result<ExitStatus> {
    let [program, args @ ..] = call else { return Err(std::io::ErrorKind::InvalidInput.into()) };
    let mut command = Command::new(program);
    command.env_clear().envs(variables.iter().filter_map(|variable| variable.split_once('=')));
    let [stdout, stderr] = outputs;
    command.args(args).stdout(stdout.try_clone()?).stderr(stderr.try_clone()?).status()
}

/// The kernel measures its counter anew in the first second or two, and changes over: all that was told to its clock
/// until then is forgotten.
fn settle() {
    for _ in 0..500 {
        match fs::read_to_string(SOURCES) {
            Ok(sources) if sources.contains("tsc-early") => {}
            _ => return,
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Ends the machine.
fn leave() -> ! {
    // The emulator's way out of a PC, at once; elsewhere nothing listens there.
    if let Ok(ports) = File::options().write(true).open("/dev/port") {
        let _ = ports.write_at(&[0], 0xf4);
    }
    // SAFETY: takes an integer; nothing is lost, for there are no disks.
    unsafe { libc::reboot(libc::RB_POWER_OFF) };
    loop {
        std::thread::park();
    }
}
