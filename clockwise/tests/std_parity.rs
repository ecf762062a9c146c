//! [`Instant`] and [`SystemTime`] against the standard library's, method by method: same arithmetic, same ends of the
//! range, same words.

use clockwise::{Instant, OutOfRange, SystemTime, Timespec, UNIX_EPOCH};
use std::cell::Cell;
use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::time::{self, Duration};

/// Whether the standard library's times reach as far as ours: 64-bit seconds, nanoseconds below 10^9.
const SAME_RANGE: bool = cfg!(all(target_os = "linux", target_pointer_width = "64"));

/// The standard library has no such time: so it may be where its range is another.
fn lacks_range(what: &str) {
    if SAME_RANGE {
        panic!("{what}: {OutOfRange}");
    }
}

const LATEST: Timespec = Timespec { sec: i64::MAX, nsec: 999_999_999 };
const EARLIEST: Timespec = Timespec { sec: i64::MIN, nsec: 0 };

/// Durations at the edges of all that may overflow or carry.
fn durations() -> Vec<Duration> {
    let seconds = [
        0,
        1,
        59,
        86_400,
        i32::MAX as u64,
        u64::from(u32::MAX),
        u64::from(u32::MAX) + 1,
        // 64-bit nanoseconds, signed and not.
        9_223_372_036,
        18_446_744_073,
        1 << 62,
        i64::MAX as u64 - 1,
        i64::MAX as u64,
        i64::MAX as u64 + 1,
        u64::MAX - 1,
        u64::MAX,
    ];
    let nanos = [0, 1, 499_999_999, 500_000_000, 999_999_998, 999_999_999];
    seconds.iter().flat_map(|&sec| nanos.map(|nanos| Duration::new(sec, nanos))).collect()
}

/// A small generator (xorshift*), for pairs that nobody thought of.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Of any magnitude.
    fn duration(&mut self) -> Duration {
        let bits = self.next() % 65;
        let sec = if bits == 0 { 0 } else { self.next() >> (64 - bits) };
        Duration::new(sec, (self.next() % 1_000_000_000) as u32)
    }
}

/// What came of `work`, or the words of its panic.
fn outcome<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| match panic.downcast::<String>() {
        Ok(words) => *words,
        Err(panic) => panic.downcast_ref::<&str>().expect("a panic has words").to_string(),
    })
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Panics are expected here by the thousand, and need not be told.
fn quietly(work: impl FnOnce()) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                hook(info);
            }
        }));
    });
    QUIET.set(true);
    let result = outcome(work);
    QUIET.set(false);
    result.unwrap_or_else(|words| panic!("{words}"));
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Both libraries' times as numbers: what they are to each other shows without knowing their insides.
trait Time: Copy + Debug + Ord + Hash {
    fn add_checked(self, duration: Duration) -> Option<Self>;
    fn sub_checked(self, duration: Duration) -> Option<Self>;
    fn add_or_panic(self, duration: Duration) -> Self;
    fn sub_or_panic(self, duration: Duration) -> Self;
    fn add_assigned(self, duration: Duration) -> Self;
    fn sub_assigned(self, duration: Duration) -> Self;
    /// All the ways to take a difference.
    fn differences(self, earlier: Self) -> Vec<Result<Duration, (Duration, String)>>;
}

macro_rules! arithmetic {
    () => {
        fn add_checked(self, duration: Duration) -> Option<Self> {
            self.checked_add(duration)
        }

        fn sub_checked(self, duration: Duration) -> Option<Self> {
            self.checked_sub(duration)
        }

        fn add_or_panic(self, duration: Duration) -> Self {
            self + duration
        }

        fn sub_or_panic(self, duration: Duration) -> Self {
            self - duration
        }

        fn add_assigned(mut self, duration: Duration) -> Self {
            self += duration;
            self
        }

        fn sub_assigned(mut self, duration: Duration) -> Self {
            self -= duration;
            self
        }
    };
}

macro_rules! instant {
    ($type:ty) => {
        impl Time for $type {
            arithmetic!();

            fn differences(self, earlier: Self) -> Vec<Result<Duration, (Duration, String)>> {
                let checked = self.checked_duration_since(earlier);
                vec![
                    checked.ok_or_else(|| (Duration::ZERO, String::new())),
                    Ok(self.duration_since(earlier)),
                    Ok(self.saturating_duration_since(earlier)),
                    Ok(self - earlier),
                ]
            }
        }
    };
}

macro_rules! system_time {
    ($type:ty) => {
        impl Time for $type {
            arithmetic!();

            fn differences(self, earlier: Self) -> Vec<Result<Duration, (Duration, String)>> {
                let told = self.duration_since(earlier);
                vec![told.map_err(|error| (error.duration(), error.to_string()))]
            }
        }
    };
}

instant!(Instant);
instant!(time::Instant);
system_time!(SystemTime);
system_time!(time::SystemTime);

/// The same time in both libraries.
type Pair<S, O> = (S, O);

/// The same of two results, where the standard library's range reaches.
fn both<S, O>(what: &str, std: Option<S>, ours: Option<O>) -> Option<Pair<S, O>> {
    if SAME_RANGE {
        assert_eq!(std.is_some(), ours.is_some(), "{what}");
    }
    std.zip(ours)
}

/// Where the standard library panics, so do ours, with the same words.
fn panics_alike<S, O>(what: &str, std: impl FnOnce() -> S, ours: impl FnOnce() -> O) {
    let (std, ours) = (outcome(std).err(), outcome(ours).err());
    if SAME_RANGE || std.is_none() {
        assert_eq!(std, ours, "{what}");
    }
}

/// All of a time and a duration, and the sums for more.
fn sums<S: Time, O: Time>(at: Pair<S, O>, duration: Duration) -> Vec<Pair<S, O>> {
    let (std, ours) = at;
    let what = format!("{std:?} and {ours:?} with {duration:?}");
    let later = both(&what, std.add_checked(duration), ours.add_checked(duration));
    let earlier = both(&what, std.sub_checked(duration), ours.sub_checked(duration));
    panics_alike(&what, || std.add_or_panic(duration), || ours.add_or_panic(duration));
    panics_alike(&what, || std.sub_or_panic(duration), || ours.sub_or_panic(duration));
    panics_alike(&what, || std.add_assigned(duration), || ours.add_assigned(duration));
    panics_alike(&what, || std.sub_assigned(duration), || ours.sub_assigned(duration));
    if let Some((std, ours)) = later {
        assert_eq!(std, at.0.add_or_panic(duration), "{what}");
        assert_eq!(ours, at.1.add_or_panic(duration), "{what}");
        assert_eq!(ours, at.1.add_assigned(duration), "{what}");
        assert_eq!(ours.sub_checked(duration), Some(at.1), "{what}");
    }
    if let Some((_, ours)) = earlier {
        assert_eq!(ours, at.1.sub_or_panic(duration), "{what}");
        assert_eq!(ours, at.1.sub_assigned(duration), "{what}");
        assert_eq!(ours.add_checked(duration), Some(at.1), "{what}");
    }
    later.into_iter().chain(earlier).collect()
}

/// All of two times.
fn differences<S: Time, O: Time>(a: Pair<S, O>, b: Pair<S, O>) {
    let what = format!("{:?} and {:?}; {:?} and {:?}", a.0, a.1, b.0, b.1);
    assert_eq!(a.0.differences(b.0), a.1.differences(b.1), "{what}");
    assert_eq!(a.0.cmp(&b.0), a.1.cmp(&b.1), "{what}");
    assert_eq!(a.0.partial_cmp(&b.0), a.1.partial_cmp(&b.1), "{what}");
    assert_eq!(a.0 == b.0, a.1 == b.1, "{what}");
    assert_eq!(a.0.max(b.0) == a.0, a.1.max(b.1) == a.1, "{what}");
    if a.1 == b.1 {
        assert_eq!(hash(&a.1), hash(&b.1), "{what}");
    }
}

/// Everything, from these starts on: the table's durations, then random ones. Returns how many sums there were.
fn compare<S: Time, O: Time>(starts: &[Pair<S, O>], seed: u64) -> usize {
    let mut times = starts.to_vec();
    let mut count = 0;
    for &start in starts {
        for duration in durations().into_iter().chain([Duration::MAX]) {
            times.extend(sums(start, duration));
            count += 1;
        }
    }
    let mut random = Random(seed);
    for _ in 0..5_000 {
        let at = times[random.next() as usize % times.len()];
        times.extend(sums(at, random.duration()));
        count += 1;
    }
    for &start in starts {
        times.iter().for_each(|&time| {
            differences(start, time);
            differences(time, start);
        });
    }
    for _ in 0..50_000 {
        let [a, b] = [(); 2].map(|()| times[random.next() as usize % times.len()]);
        differences(a, b);
    }
    // Equal times are one key.
    let (std, ours): (HashSet<S>, HashSet<O>) = times.iter().copied().unzip();
    assert_eq!(std.len(), ours.len());
    count
}

/// The last time that `next` reaches from `from`, by ever smaller durations.
fn last<T: Copy>(from: T, next: impl Fn(T, Duration) -> Option<T>) -> T {
    let mut at = from;
    for sec in (0..64).rev() {
        at = next(at, Duration::from_secs(1 << sec)).unwrap_or(at);
    }
    for bit in (0..30).rev() {
        at = next(at, Duration::from_nanos(1 << bit)).unwrap_or(at);
    }
    at
}

/// The same instants in both: the standard library does not tell its nanoseconds, but its latest time is ours.
fn instants() -> Vec<Pair<time::Instant, Instant>> {
    let std = time::Instant::now();
    if !SAME_RANGE {
        // Any two will do, as long as nothing comes near an end.
        let ours = Instant::from_nanos(1 << 50);
        let second = Duration::from_secs(1);
        return vec![(std, ours), (std + second, ours + second)];
    }
    let latest = last(std, |at, duration| at.checked_add(duration));
    let earliest = last(std, |at, duration| at.checked_sub(duration));
    let ours =
        |time: time::Instant| Instant::from_timespec(LATEST).unwrap() - latest.duration_since(time);
    assert_eq!(ours(earliest), Instant::from_timespec(EARLIEST).unwrap(), "the same range");
    let zero = latest - Duration::new(i64::MAX as u64, 999_999_999);
    assert_eq!(ours(zero).as_nanos(), 0);
    let nano = Duration::from_nanos(1);
    [std, zero, zero - nano, latest, latest - nano, earliest, earliest + nano]
        .map(|time| (time, ours(time)))
        .into()
}

#[test]
fn instants_are_the_standard_librarys() {
    quietly(|| {
        let count = compare(&instants(), 1);
        assert!(count > 5_000);
    });
}

#[test]
fn system_times_are_the_standard_librarys() {
    let pair = |time: time::SystemTime| (time, SystemTime::from(time));
    let nano = Duration::from_nanos(1);
    let epoch = time::UNIX_EPOCH;
    let mut starts = vec![epoch, time::SystemTime::now()];
    if SAME_RANGE {
        let latest = last(epoch, |at, duration| at.checked_add(duration));
        let earliest = last(epoch, |at, duration| at.checked_sub(duration));
        assert_eq!(SystemTime::from(latest), SystemTime::from_timespec(LATEST).unwrap());
        assert_eq!(SystemTime::from(earliest), SystemTime::from_timespec(EARLIEST).unwrap());
        starts.extend([latest, latest - nano, earliest, earliest + nano, epoch - nano]);
    }
    let starts: Vec<_> = starts.into_iter().map(pair).collect();
    assert_eq!(starts[0].1, UNIX_EPOCH);
    assert_eq!(SystemTime::UNIX_EPOCH, UNIX_EPOCH);
    assert_eq!(UNIX_EPOCH.as_nanos(), 0);
    quietly(|| {
        let count = compare(&starts, 2);
        assert!(count > 5_000);
    });
}

#[test]
fn elapsed_is_from_a_time_to_now_and_what_lies_ahead_is_zero_or_an_error() {
    let hour = Duration::from_secs(3600);
    let (earlier, earlier_std) = (Instant::now() - hour, time::Instant::now() - hour);
    assert!(earlier.elapsed() >= hour && earlier_std.elapsed() >= hour);
    assert_eq!((Instant::now() + hour).elapsed(), (time::Instant::now() + hour).elapsed());

    let (wall, wall_std) = (SystemTime::now() - hour, time::SystemTime::now() - hour);
    // Whoever sets the clock back by an hour in between has to run this again.
    assert!(wall.elapsed().unwrap() > hour / 2 && wall_std.elapsed().unwrap() > hour / 2);
    let ours = (SystemTime::now() + hour).elapsed().unwrap_err();
    let std = (time::SystemTime::now() + hour).elapsed().unwrap_err();
    assert_eq!(ours.to_string(), std.to_string());
    assert!(ours.duration() > hour / 2 && ours.duration() <= hour * 2);
    assert_eq!(ours.clone(), ours);
    let source: &dyn std::error::Error = &ours;
    assert!(source.source().is_none() && !format!("{ours:?}").is_empty());
}

#[test]
fn times_convert_to_the_standard_librarys_and_back() {
    let mut random = Random(3);
    for _ in 0..10_000 {
        let nanos = random.next() as i64;
        let ours = SystemTime::from_nanos(nanos);
        assert_eq!(ours.as_nanos(), i128::from(nanos));
        if let Ok(std) = time::SystemTime::try_from(ours) {
            assert_eq!(SystemTime::from(std), ours, "{nanos}");
            let since = std.duration_since(time::UNIX_EPOCH);
            let since =
                since.map_or_else(|e| -(e.duration().as_nanos() as i128), |d| d.as_nanos() as i128);
            assert_eq!(since, i128::from(nanos));
        } else {
            lacks_range(&format!("{nanos} ns"));
        }
    }
    for end in [LATEST, EARLIEST] {
        let ours = SystemTime::from_timespec(end).unwrap();
        match time::SystemTime::try_from(ours) {
            Ok(std) => assert_eq!(SystemTime::from(std), ours),
            Err(OutOfRange) => lacks_range("an end"),
        }
    }
}

#[test]
fn instants_convert_to_the_standard_librarys_within_a_bracket() {
    let hour = Duration::from_secs(3600);
    for shift in [Duration::ZERO, Duration::from_nanos(1), hour] {
        for _ in 0..200 {
            // Between the reads of a conversion time passes; not more than all of it took.
            let start = time::Instant::now();
            let before = (Instant::now(), time::Instant::now());
            let ours = [Instant::from(before.1 + shift), Instant::from(before.1 - shift)];
            let std = [(before.0 + shift).to_std(), (before.0 - shift).to_std()];
            let spent = start.elapsed();
            let [later, earlier] = std.map(Option::unwrap);
            // Ours is read before the standard library's, whose own error against the kernel is none.
            let near = |a: Duration| a <= spent + Duration::from_micros(5);
            assert!(near(ours[0].saturating_duration_since(before.0 + shift)), "{ours:?}");
            assert!(near((before.0 + shift).saturating_duration_since(ours[0])), "{ours:?}");
            assert!(near(ours[1].saturating_duration_since(before.0 - shift)), "{ours:?}");
            assert!(near((before.0 - shift).saturating_duration_since(ours[1])), "{ours:?}");
            assert!(near(later.saturating_duration_since(before.1 + shift)), "{std:?}");
            assert!(near((before.1 + shift).saturating_duration_since(later)), "{std:?}");
            assert!(near(earlier.saturating_duration_since(before.1 - shift)), "{std:?}");
            assert!(near((before.1 - shift).saturating_duration_since(earlier)), "{std:?}");
        }
    }
}

#[test]
fn the_ends_of_the_standard_librarys_range_convert_without_a_panic() {
    let now = time::Instant::now();
    let ends = [
        last(now, |at, duration| at.checked_add(duration)),
        last(now, |at, duration| at.checked_sub(duration)),
    ];
    let [latest, earliest] = ends.map(Instant::from);
    assert!(latest > Instant::now() && earliest < Instant::now());
    let end = |time| Instant::from_timespec(time).unwrap();
    // What has no counterpart is said, not moved.
    let to_std = [end(LATEST).to_std(), end(EARLIEST).to_std()];
    assert!(to_std.iter().flatten().count() <= 1, "{to_std:?}");
}

#[test]
fn times_convert_to_timespecs_and_back() {
    let mut random = Random(4);
    let edges = [EARLIEST, LATEST].map(|time| (time.sec, time.nsec));
    let odd = [(-1, 999_999_999), (0, 0), (-1, 0), (i64::MIN, 1)];
    let times = (0..10_000).map(|_| (random.next() as i64, (random.next() % 1_000_000_000) as i64));
    for (sec, nsec) in edges.into_iter().chain(odd).chain(times.collect::<Vec<_>>()) {
        let time = Timespec { sec, nsec };
        assert_eq!(Instant::from_timespec(time).unwrap().to_timespec(), time);
        assert_eq!(SystemTime::from_timespec(time).unwrap().to_timespec(), time);
        let nanos = i128::from(sec) * 1_000_000_000 + i128::from(nsec);
        assert_eq!(Instant::from_timespec(time).unwrap().as_nanos(), nanos);
    }
    for nsec in [-1, 1_000_000_000, i64::MIN, i64::MAX] {
        assert_eq!(Instant::from_timespec(Timespec { sec: 0, nsec }), None);
        assert_eq!(SystemTime::from_timespec(Timespec { sec: 0, nsec }), None);
    }
}

#[test]
fn times_show_something_and_go_wherever_the_standard_librarys_go() {
    fn is_plain<T: Copy + Debug + Send + Sync + Unpin + Hash + Ord + 'static>() {}
    fn is_plain_at_panics<T: std::panic::UnwindSafe + std::panic::RefUnwindSafe>() {}
    is_plain::<Instant>();
    is_plain::<SystemTime>();
    is_plain_at_panics::<Instant>();
    is_plain_at_panics::<SystemTime>();
    assert_eq!(format!("{:?}", Instant::from_nanos(1_000_000_001)), "Instant(1.000000001)");
    assert_eq!(format!("{:?}", SystemTime::from_nanos(0)), "SystemTime(0.000000000)");
    for time in [EARLIEST, LATEST, Timespec { sec: -1, nsec: 5 }] {
        assert!(!format!("{:?}", Instant::from_timespec(time).unwrap()).is_empty());
        assert!(!format!("{:?}", SystemTime::from_timespec(time).unwrap()).is_empty());
    }
}
