//! Our clocks, by the ways in which programs come to them. Another way of loading the image is one more [`Subject`].

use crate::system::{self, Image};
use clockwise::{Clock, ClockId, Errno, Origin, Status};

/// A reading, and what is told with it.
#[derive(Clone, Copy, Debug)]
pub struct Told {
    pub nanos: i64,
    pub error_ns: u64,
    pub steady_error_ns: u64,
    pub is_from_counter: bool,
}

/// What is judged.
pub enum Subject {
    /// The library, ordered reads.
    Library,
    /// The library, unordered reads.
    Relaxed,
    /// libc's functions with the image preloaded.
    Image(Image),
    /// None of ours: every few readings one is a millisecond old, for a judge that must notice.
    Wrong,
}

impl Subject {
    /// By its name on the command line.
    pub fn find(name: &str) -> Result<Self, String> {
        Ok(match name {
            "library" => Self::Library,
            "relaxed" => Self::Relaxed,
            "wrong" => Self::Wrong,
            "image" => Self::Image(Image::find().ok_or("the image is not loaded, or not first")?),
            _ => return Err(format!("no subject {name:?}")),
        })
    }

    /// The name by which it was found.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Library => "library",
            Self::Relaxed => "relaxed",
            Self::Image(_) => "image",
            Self::Wrong => "wrong",
        }
    }

    /// Whether its readings are never older than what their thread has seen of others.
    pub fn is_ordered(&self) -> bool {
        !matches!(self, Self::Relaxed)
    }

    /// A plain reading.
    #[inline]
    pub fn now(&self, clock: ClockId) -> Result<i64, Errno> {
        match self {
            Self::Library => Clock::new(clock).now(),
            Self::Wrong => Ok(self.told(clock)?.nanos),
            Self::Relaxed => Clock::new(clock).now_relaxed(),
            Self::Image(_) => system::clock_gettime(clock),
        }
    }

    /// A reading with its bound.
    pub fn told(&self, clock: ClockId) -> Result<Told, Errno> {
        if let Self::Image(image) = self {
            let [nanos, error_ns, steady_error_ns, is_from_counter] = image.reading(clock)?;
            let is_from_counter = is_from_counter == 1;
            return Ok(Told { nanos: nanos as i64, error_ns, steady_error_ns, is_from_counter });
        }
        let reading = Clock::new(clock).now_with_bound()?;
        let is_wrong = matches!(self, Self::Wrong) && reading.nanos % 8 == 0;
        Ok(Told {
            nanos: if is_wrong { reading.nanos - 1_000_000 } else { reading.nanos },
            error_ns: reading.error_ns,
            steady_error_ns: reading.steady_error_ns,
            is_from_counter: reading.origin == Origin::Counter,
        })
    }

    /// What became of the clock so far.
    pub fn status(&self, clock: ClockId) -> Option<Status> {
        match self {
            Self::Image(image) => image.status(clock).map(|words| Status::from_words(&words)),
            _ => Clock::new(clock).status(),
        }
    }
}
