//! What `adjtimex(2)` tells, in words.

/// The fields that are asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timex {
    /// `TIME_OK` (0) .. `TIME_ERROR` (5).
    pub state: i32,
    /// `STA_*`.
    pub status: i32,
    /// How far the wall clock may be off, in microseconds.
    pub max_error_us: i64,
}

/// What the kernel knows of the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// Nobody has told it the time for so long that it does not vouch for it.
    Free,
    /// Told, and off by this at most, in microseconds.
    Within(u64),
}

/// A leap second that is to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leap {
    /// None.
    None,
    /// To be inserted at the end of the day (UTC).
    Insert,
    /// To be left out.
    Delete,
    /// Happening now, or just over.
    Now,
}

const STA_UNSYNC: i32 = 0x40;
const TIME_ERROR: i32 = 5;
const NAMES: [(i32, &str); 10] = [
    (0x0001, "PLL"),
    (0x0002, "PPSFREQ"),
    (0x0004, "PPSTIME"),
    (0x0008, "FLL"),
    (0x0010, "INS"),
    (0x0020, "DEL"),
    (STA_UNSYNC, "UNSYNC"),
    (0x0080, "FREQHOLD"),
    (0x1000, "CLOCKERR"),
    (0x2000, "NANO"),
];

impl Timex {
    /// Whether somebody keeps it right.
    pub fn sync(&self) -> Sync {
        if self.state == TIME_ERROR || self.status & STA_UNSYNC != 0 {
            return Sync::Free;
        }
        Sync::Within(u64::try_from(self.max_error_us).unwrap_or(0))
    }

    /// A leap second.
    pub fn leap(&self) -> Leap {
        match self.state {
            1 => Leap::Insert,
            2 => Leap::Delete,
            3 | 4 => Leap::Now,
            // While it is not synchronised the state does not say.
            _ if self.status & 0x10 != 0 => Leap::Insert,
            _ if self.status & 0x20 != 0 => Leap::Delete,
            _ => Leap::None,
        }
    }

    /// The status as the kernel's names.
    pub fn names(&self) -> String {
        let names: Vec<&str> =
            NAMES.iter().filter(|(bit, _)| self.status & bit != 0).map(|(_, name)| *name).collect();
        if names.is_empty() { "none set".to_owned() } else { names.join("+") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_nobody_keeps_is_told_from_one_that_is_kept() {
        let timex = |state, status, max_error_us| Timex { state, status, max_error_us };
        assert_eq!(timex(5, 0x40, 16_000_000).sync(), Sync::Free);
        assert_eq!(timex(0, 0x40, 0).sync(), Sync::Free);
        assert_eq!(timex(0, 0x2001, 250).sync(), Sync::Within(250));
        assert_eq!(timex(0, 1, i64::MIN).sync(), Sync::Within(0));
        assert_eq!(timex(1, 0x11, 1).leap(), Leap::Insert);
        assert_eq!(timex(5, 0x60, 1).leap(), Leap::Delete);
        assert_eq!(timex(3, 1, 1).leap(), Leap::Now);
        assert_eq!(timex(0, 1, 1).leap(), Leap::None);
        assert_eq!(timex(0, 0x2001, 1).names(), "PLL+NANO");
        assert_eq!(timex(0, 0, 1).names(), "none set");
    }
}
