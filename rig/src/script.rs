//! What happens to a guest from outside while its program runs.

use std::fmt;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

/// One thing to do, or to wait for.
#[derive(Clone, Debug)]
pub enum Act {
    /// Until the program's output holds this.
    Wait(String),
    /// So many milliseconds of the host's.
    Sleep(u64),
    /// A command to QEMU's monitor: `stop`, `cont`, `savevm x`, `loadvm x`, `system_wakeup`.
    Monitor(String),
    /// QEMU itself is stopped (SIGSTOP) for so many milliseconds: the guest's counter goes on.
    Freeze(u64),
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wait(text) => write!(f, "wait for {text:?}"),
            Self::Sleep(milliseconds) => write!(f, "sleep {milliseconds} ms"),
            Self::Monitor(command) => f.write_str(command),
            Self::Freeze(milliseconds) => write!(f, "SIGSTOP for {milliseconds} ms"),
        }
    }
}

const POLL: Duration = Duration::from_millis(10);
const PROMPT: &str = "(qemu) ";

/// Does all of it, as long as the machine runs. `folder` is the machine's.
///
/// # Errors
/// What could not be done.
pub fn run(
    acts: &[Act],
    folder: &Path,
    qemu: &mut Child,
    mut is_late: impl FnMut() -> bool,
) -> Result<(), String> {
    let mut monitor: Option<UnixStream> = None;
    for act in acts {
        match act {
            Act::Wait(text) => {
                let said = || fs::read(folder.join("stdout")).unwrap_or_default();
                while !said().windows(text.len()).any(|part| part == text.as_bytes()) {
                    if is_late() || !matches!(qemu.try_wait(), Ok(None)) {
                        return Err(format!("the guest ended and never said {text:?}"));
                    }
                    thread::sleep(POLL);
                }
            }
            Act::Sleep(milliseconds) => thread::sleep(Duration::from_millis(*milliseconds)),
            Act::Freeze(milliseconds) => {
                signal(qemu, "-STOP")?;
                thread::sleep(Duration::from_millis(*milliseconds));
                signal(qemu, "-CONT")?;
            }
            Act::Monitor(command) => {
                let stream = match &mut monitor {
                    Some(stream) => stream,
                    None => monitor.insert(connect(folder)?),
                };
                let reply = ask(stream, command);
                let reply = reply.map_err(|error| format!("{command}: {error}"))?;
                if reply.contains("Error") || reply.contains("unknown command") {
                    return Err(format!("{command}: {reply}"));
                }
            }
        }
    }
    Ok(())
}

fn signal(qemu: &Child, name: &str) -> Result<(), String> {
    let sent = Command::new("kill").args([name, &qemu.id().to_string()]).status();
    match sent {
        Ok(status) if status.success() => Ok(()),
        other => Err(format!("kill {name}: {other:?}")),
    }
}

fn connect(folder: &Path) -> Result<UnixStream, String> {
    let mut stream = UnixStream::connect(folder.join("monitor")).map_err(|e| e.to_string())?;
    stream.set_read_timeout(Some(Duration::from_secs(20))).map_err(|e| e.to_string())?;
    until_prompt(&mut stream).map_err(|e| e.to_string())?;
    Ok(stream)
}

fn ask(stream: &mut UnixStream, command: &str) -> std::io::Result<String> {
    stream.write_all(format!("{command}\n").as_bytes())?;
    until_prompt(stream)
}

fn until_prompt(stream: &mut UnixStream) -> std::io::Result<String> {
    let (mut reply, mut room) = (Vec::new(), [0; 512]);
    while !reply.ends_with(PROMPT.as_bytes()) {
        let length = stream.read(&mut room)?;
        if length == 0 {
            break;
        }
        reply.extend_from_slice(&room[..length]);
    }
    Ok(String::from_utf8_lossy(&reply).into_owned())
}
