//! What is done to the kernel's clock while the readers read. Refuses on a machine that is not a guest of this rig.

use crate::reader::{Moved, Window, kernel, may_be_set};
use crate::system::{self, timex};
use clockwise::ClockId;
use std::fs;
use std::str::FromStr;
use std::thread;
use std::time::Duration;

const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
/// A change of the rate takes effect at the next tick of the kernel's, of which there are 250 in a second.
const TICK_NS: i64 = 4_000_000;
/// A clock that was set is followed within this time of the kernel's.
const SET_WITHIN_NS: i64 = 5_000_000;
/// Another length of the kernel's tick, which is more than a slew: two periods.
const TICK_WITHIN_NS: i64 = 10_000_000;

/// One thing to do.
#[derive(Clone, Debug)]
pub enum Act {
    /// Let the readers read for so many milliseconds.
    Read(u64),
    /// Let the readers read but now and then for so many milliseconds.
    Rest(u64),
    /// Say a word, for the script outside to wait for.
    Say(String),
    /// Tell the status of all clocks, under this name.
    Note(String),
    /// Step the wall clock by so many nanoseconds (`clock_settime`).
    Step(i64),
    /// The same by adjtimex (`ADJ_SETOFFSET`).
    SetOffset(i64),
    /// Set the wall clock to this second.
    Set(i64),
    /// Slew by so many ppm for good.
    Frequency(i64),
    /// So many microseconds to a tick of 10 ms.
    Tick(i64),
    /// Slew by so many microseconds in all (adjtime).
    Adjtime(i64),
    /// The same by the kernel's phase-locked loop.
    Offset(i64),
    /// A leap second at the end of the day, which is made to be near: 1 inserted, -1 deleted.
    Leap(i64),
    /// TAI is so many seconds ahead of UTC.
    Tai(i64),
    /// Another clocksource.
    Source(String),
    /// Read until the kernel has changed to this clocksource by itself.
    Await(String),
    /// Suspend to memory for so many seconds.
    Suspend(u64),
}

/// Of words like `step=1000000`.
impl FromStr for Act {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let (name, value) = word.split_once('=').ok_or(format!("{word:?} is not NAME=VALUE"))?;
        let number = || value.parse::<i64>().map_err(|error| format!("{word}: {error}"));
        Ok(match name {
            "read" => Self::Read(number()?.unsigned_abs()),
            "rest" => Self::Rest(number()?.unsigned_abs()),
            "say" => Self::Say(value.to_owned()),
            "note" => Self::Note(value.to_owned()),
            "step" => Self::Step(number()?),
            "setoffset" => Self::SetOffset(number()?),
            "set" => Self::Set(number()?),
            "frequency" => Self::Frequency(number()?),
            "tick" => Self::Tick(number()?),
            "adjtime" => Self::Adjtime(number()?),
            "offset" => Self::Offset(number()?),
            "leap" => Self::Leap(number()?),
            "tai" => Self::Tai(number()?),
            "source" => Self::Source(value.to_owned()),
            "await" => Self::Await(value.to_owned()),
            "suspend" => Self::Suspend(number()?.unsigned_abs()),
            _ => return Err(format!("no act {name:?}")),
        })
    }
}

impl Act {
    /// Does it. Gives when the kernel's time was moved by it, if it was.
    ///
    /// # Errors
    /// The kernel's.
    pub fn perform(&self) -> Result<Option<Window>, String> {
        if self.is_event() {
            let words = fs::read_to_string("/proc/cmdline").unwrap_or_default();
            if !words.split_whitespace().any(|word| word == "clockwise-rig") {
                return Err("this machine is no guest: its clock is left alone".to_owned());
            }
        }
        let from_ns = monotonic()?;
        let done = self.perform_now();
        let to_ns = monotonic()?;
        done.map_err(|error| format!("{self:?}: {error}"))?;
        Ok(match self {
            Self::Step(_) | Self::SetOffset(_) | Self::Set(_) | Self::Tai(_) => {
                Some(Window::new(from_ns, to_ns, Moved::Set, SET_WITHIN_NS))
            }
            // One percent is ten times what a bound covers.
            Self::Tick(_) => {
                Some(Window::new(from_ns, to_ns + TICK_NS, Moved::Steered, TICK_WITHIN_NS))
            }
            // The kernel reads one after the other, and loses what passes in between: 50 us here.
            Self::Source(_) => Some(Window::new(from_ns, to_ns, Moved::All, SET_WITHIN_NS)),
            Self::Await(name) => Some(changed(name)?),
            Self::Leap(seconds) => Some(leap(*seconds)?),
            _ => None,
        })
    }

    /// Whether it does something to the kernel.
    pub fn is_event(&self) -> bool {
        !matches!(
            self,
            Self::Read(_) | Self::Rest(_) | Self::Say(_) | Self::Note(_) | Self::Await(_)
        )
    }

    fn perform_now(&self) -> std::io::Result<()> {
        let mut change = timex();
        match self {
            Self::Read(milliseconds) => thread::sleep(Duration::from_millis(*milliseconds)),
            Self::Rest(_) | Self::Say(_) | Self::Note(_) | Self::Leap(_) | Self::Await(_) => {}
            Self::Step(nanos) => system::set_realtime(realtime()? + nanos)?,
            Self::Set(second) => system::set_realtime(second * 1_000_000_000)?,
            Self::Source(name) => fs::write(SOURCE, name)?,
            Self::Suspend(seconds) => {
                // In seconds of the clock on the board.
                fs::write("/sys/class/rtc/rtc0/wakealarm", format!("+{seconds}"))?;
                fs::write("/sys/power/state", "mem")?;
            }
            Self::SetOffset(nanos) => {
                change.modes = libc::ADJ_SETOFFSET | libc::ADJ_NANO;
                change.time.tv_sec = nanos.div_euclid(1_000_000_000);
                change.time.tv_usec = nanos.rem_euclid(1_000_000_000);
            }
            Self::Frequency(ppm) => {
                change.modes = libc::ADJ_FREQUENCY;
                change.freq = ppm << 16;
            }
            Self::Tick(micros) => {
                change.modes = libc::ADJ_TICK;
                change.tick = *micros;
            }
            Self::Adjtime(micros) => {
                change.modes = libc::ADJ_OFFSET_SINGLESHOT;
                change.offset = *micros;
            }
            Self::Offset(micros) => {
                change.modes = libc::ADJ_OFFSET | libc::ADJ_STATUS | libc::ADJ_MICRO;
                change.status = libc::STA_PLL;
                change.offset = *micros;
            }
            Self::Tai(seconds) => {
                change.modes = libc::ADJ_TAI;
                change.constant = *seconds;
            }
        }
        if change.modes != 0 {
            system::adjtimex(&mut change)?;
        }
        Ok(())
    }
}

/// Waits for the kernel to have changed to a clocksource by itself; when that was.
fn changed(name: &str) -> Result<Window, String> {
    let (begin_ns, mut from_ns) = (monotonic()?, monotonic()?);
    loop {
        let current = fs::read_to_string(SOURCE).map_err(|error| error.to_string())?;
        let to_ns = monotonic()?;
        if current.trim() == name {
            return Ok(Window::new(from_ns, to_ns, Moved::All, SET_WITHIN_NS));
        }
        if to_ns - begin_ns > 10_000_000_000 {
            return Err(format!("the kernel stays on {current}"));
        }
        from_ns = to_ns;
        thread::sleep(Duration::from_millis(1));
    }
}

/// Lives through a leap second: sets the clock to two seconds before the end of a day, which must have been done by a
/// `set` before, and sees when the kernel inserts or deletes one.
fn leap(seconds: i64) -> Result<Window, String> {
    let mut change = timex();
    change.modes = libc::ADJ_STATUS;
    change.status = if seconds > 0 { libc::STA_INS } else { libc::STA_DEL };
    system::adjtimex(&mut change).map_err(|error| error.to_string())?;
    let distance = || -> Result<(i64, i64, i64), String> {
        let from_ns = monotonic()?;
        let wall = realtime().map_err(|error| error.to_string())?;
        Ok((from_ns, wall - from_ns, monotonic()?))
    };
    let (begin_ns, begin, _) = distance()?;
    let mut last_ns = begin_ns;
    loop {
        let (from_ns, now, to_ns) = distance()?;
        // Both readings within a moment, or else the thread was stopped between them.
        if to_ns - from_ns < 1_000_000 {
            if (now - begin + seconds * 1_000_000_000).abs() < 100_000_000 {
                return Ok(Window::new(last_ns, to_ns, Moved::Set, SET_WITHIN_NS));
            }
            last_ns = from_ns;
        }
        thread::sleep(Duration::from_micros(200));
        if to_ns - begin_ns > 10_000_000_000 {
            return Err("no leap second came".to_owned());
        }
    }
}

fn monotonic() -> Result<i64, String> {
    kernel(ClockId::MONOTONIC).map_err(|errno| errno.to_string())
}

fn realtime() -> std::io::Result<i64> {
    debug_assert!(may_be_set(ClockId::REALTIME));
    kernel(ClockId::REALTIME).map_err(|errno| std::io::Error::from_raw_os_error(errno.0))
}
