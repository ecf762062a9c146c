//! What a read costs: loops in batches of 0.1 ms, all subjects in turns, in a new order each round.
//!
//! * Each loop is a function of its own that is never inlined; what the reads give is summed up and handed to a black
//!   box (where it is no number, each result is handed to the box: std).
//! * The place of a loop in memory is worth a cycle (0.3 ns): `rdtsc` takes 9.69 or 10.01 ns by it. So each is
//!   compiled [`COPIES`] times, 16 bytes further into a cache line of code each time, and its best copy counts.
//!   All copies stand in the record.
//! * No loop is unrolled: that would make a load half as dear again as it is beside anything else.
//! * A batch that was disturbed is long, and moves neither the minimum nor much of the median.
//! * Refreshes of ours fall into one batch of forty, and so into the mean alone.

#![expect(unsafe_code, reason = "padding before a loop, nothing within it")]

use crate::os;
use crate::subjects::{self as s, Read};
use serde::Serialize;
use std::arch::asm;
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Copies of each loop.
pub const COPIES: usize = 4;
/// How long a batch lasts, about.
pub const BATCH_NS: u64 = 100_000;

/// A subject's loops: so many reads.
struct Subject {
    name: &'static str,
    of: &'static str,
    turns: [fn(u64) -> u64; COPIES],
}

#[inline(never)]
fn turn<R: Read, const PAD: usize>(calls: u64) -> u64 {
    let state = R::prepare();
    // SAFETY: instructions that do nothing. The compiler itself puts a loop's head at a multiple of 16 bytes.
    unsafe {
        asm!(".p2align 6", ".nops {pad}", pad = const PAD, options(nomem, nostack, preserves_flags));
    }
    let mut sum = 0u64;
    for _ in 0..calls {
        sum = sum.wrapping_add(R::read(state));
        // SAFETY: no instruction at all. Keeps the compiler from unrolling the loops of the cheapest reads alone.
        unsafe { asm!("", options(nomem, nostack, preserves_flags)) };
    }
    black_box(sum)
}

fn subject<R: Read>() -> Subject {
    let turns = [turn::<R, 1>, turn::<R, 17>, turn::<R, 33>, turn::<R, 49>];
    Subject { name: R::NAME, of: R::CRATE, turns }
}

fn subjects() -> Vec<Subject> {
    vec![
        subject::<s::Rdtsc>(),
        subject::<s::Rdtscp>(),
        subject::<s::LfenceRdtsc>(),
        subject::<s::AtomicLoad>(),
        subject::<s::LibcMonotonic>(),
        subject::<s::LibcRealtime>(),
        subject::<s::StdInstant>(),
        subject::<s::StdSystemTime>(),
        subject::<s::OurInstant>(),
        subject::<s::OurRelaxed>(),
        subject::<s::OurSystemTime>(),
        subject::<s::OurSystemTimeRelaxed>(),
        subject::<s::OurBoottime>(),
        subject::<s::OurBound>(),
        subject::<s::OurRecent>(),
        subject::<s::OurCoarse>(),
        subject::<s::QuantaClock>(),
        subject::<s::QuantaInstant>(),
        subject::<s::QuantaRecent>(),
        subject::<s::Minstant>(),
        subject::<s::Fastant>(),
        subject::<s::Coarsetime>(),
        subject::<s::CoarsetimeRecent>(),
    ]
}

/// The batches of one copy of a loop, in nanoseconds a read.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Batches {
    /// The best batch.
    pub min_ns: f64,
    /// The middle one.
    pub median_ns: f64,
    /// 99 % of them were no longer.
    pub p99_ns: f64,
    /// All together, disturbed ones included.
    pub mean_ns: f64,
}

/// What a read of one subject costs.
#[derive(Clone, Debug, Serialize)]
pub struct Cost {
    /// The call.
    pub name: &'static str,
    /// Whose it is; empty for the machine's own.
    #[serde(rename = "crate")]
    pub of: &'static str,
    /// The smallest of each figure over the copies.
    #[serde(flatten)]
    pub best: Batches,
    /// Minimum by that of `rdtsc`.
    pub x_rdtsc: f64,
    /// Median by that of `rdtsc`.
    pub x_rdtsc_median: f64,
    /// Minimum by that of the cheaper of `rdtscp` and `lfence;rdtsc`.
    pub x_ordered: f64,
    /// Minimum by that of an atomic load.
    pub x_load: f64,
    /// Every copy.
    pub copies: [Batches; COPIES],
}

/// All subjects, with so many threads that read at once.
#[derive(Debug, Serialize)]
pub struct Costs {
    /// How many threads each execute a batch of the same loop at the same time.
    pub threads: usize,
    /// Batches of each copy and thread.
    pub rounds: usize,
    /// Which order the rounds had.
    pub seed: u64,
    /// Aim of the length of a batch.
    pub batch_ns: u64,
    /// The figures.
    pub reads: Vec<Cost>,
}

/// Threads that begin together: a barrier that does not sleep.
struct Start {
    arrived: AtomicUsize,
    threads: usize,
}

impl Start {
    fn together(&self, turn: usize) {
        self.arrived.fetch_add(1, Ordering::AcqRel);
        let mut waited = 0u32;
        while self.arrived.load(Ordering::Acquire) < (turn + 1) * self.threads {
            waited += 1;
            // The other one may need this processor.
            if waited.is_multiple_of(10_000) { thread::yield_now() } else { spin_loop() }
        }
    }
}

fn timed(turn: fn(u64) -> u64, calls: u64) -> u64 {
    let begin = os::monotonic();
    black_box(turn(black_box(calls)));
    os::monotonic().abs_diff(begin)
}

/// How many reads make a batch.
fn calls(subject: &Subject) -> u64 {
    let mut calls = 64;
    loop {
        let taken = (0..3).map(|_| timed(subject.turns[0], calls)).min().unwrap_or(0).max(1);
        if taken >= BATCH_NS / 4 {
            return (calls * BATCH_NS / taken).max(1);
        }
        calls *= 2;
        assert!(calls < 1 << 32, "the compiler has removed the loop of {}", subject.name);
    }
}

/// Measures for about `seconds`; `watch` is told which share is done.
pub fn measure(threads: usize, seconds: f64, seed: u64, watch: &(dyn Fn(f64) + Sync)) -> Costs {
    let subjects = subjects();
    let calls: Vec<u64> = subjects.iter().map(calls).collect();
    let turns: Vec<(usize, usize)> =
        (0..subjects.len()).flat_map(|at| (0..COPIES).map(move |copy| (at, copy))).collect();
    let round_s = turns.len() as f64 * BATCH_NS as f64 * 1e-9;
    let rounds = ((seconds / round_s) as usize).max(5);
    let start = Start { arrived: AtomicUsize::new(0), threads };
    let processors = os::processors();
    let work = &|index: usize| {
        if let Some(&cpu) = processors.get(index) {
            os::bind(&[cpu]);
        }
        let mut taken = vec![Vec::with_capacity(rounds); turns.len()];
        // The same seed, so that all threads have the same turns.
        let mut random = fastrand::Rng::with_seed(seed);
        let mut order: Vec<usize> = (0..turns.len()).collect();
        for round in 0..rounds {
            random.shuffle(&mut order);
            for (place, &at) in order.iter().enumerate() {
                let (subject, copy) = turns[at];
                start.together(round * turns.len() + place);
                let ns = timed(subjects[subject].turns[copy], calls[subject]);
                taken[at].push(ns as f64 / calls[subject] as f64);
            }
            if index == 0 {
                watch((round + 1) as f64 / rounds as f64);
            }
        }
        taken
    };
    let taken = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|index| scope.spawn(move || work(index))).collect();
        workers.into_iter().filter_map(|worker| worker.join().ok()).collect::<Vec<_>>()
    });
    let of_turn =
        |at: usize| batches(taken.iter().flat_map(|thread| &thread[at]).copied().collect());
    let copies: Vec<[Batches; COPIES]> = (0..subjects.len())
        .map(|subject| std::array::from_fn(|copy| of_turn(subject * COPIES + copy)))
        .collect();
    Costs { threads, rounds, seed, batch_ns: BATCH_NS, reads: costs(&subjects, &copies) }
}

fn batches(mut taken: Vec<f64>) -> Batches {
    taken.sort_by(f64::total_cmp);
    let at = |share: f64| taken[((taken.len() - 1) as f64 * share).round() as usize];
    let mean_ns = taken.iter().sum::<f64>() / taken.len() as f64;
    Batches { min_ns: at(0.0), median_ns: at(0.5), p99_ns: at(0.99), mean_ns }
}

fn costs(subjects: &[Subject], copies: &[[Batches; COPIES]]) -> Vec<Cost> {
    let best = |copies: &[Batches; COPIES]| {
        let least =
            |figure: fn(&Batches) -> f64| copies.iter().map(figure).fold(f64::INFINITY, f64::min);
        Batches {
            min_ns: least(|b| b.min_ns),
            median_ns: least(|b| b.median_ns),
            p99_ns: least(|b| b.p99_ns),
            mean_ns: least(|b| b.mean_ns),
        }
    };
    let of = |name: &str| {
        let at = subjects.iter().position(|subject| subject.name == name && subject.of.is_empty());
        at.map_or(copies[0][0], |at| best(&copies[at]))
    };
    let (bare, load) = (of("rdtsc"), of("an atomic load"));
    let ordered_ns = of("rdtscp").min_ns.min(of("lfence;rdtsc").min_ns);
    let cost = |(subject, copies): (&Subject, &[Batches; COPIES])| {
        let best = best(copies);
        Cost {
            name: subject.name,
            of: subject.of,
            best,
            x_rdtsc: best.min_ns / bare.min_ns,
            x_rdtsc_median: best.median_ns / bare.median_ns,
            x_ordered: best.min_ns / ordered_ns,
            x_load: best.min_ns / load.min_ns,
            copies: *copies,
        }
    };
    subjects.iter().zip(copies).map(cost).collect()
}
