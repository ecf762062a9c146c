//! What the counting image has counted, as calls: from the bytes of its file.
//!
//! Must never trust them: any of the processes may have written anything.

use crate::profile::calls::{Call, Module, Process, Site, Thread};
use clockwise_core::sites;
use std::collections::{BTreeMap, HashMap};

/// All of it.
#[derive(Debug, Default)]
pub struct Counted {
    /// In the order in which they came.
    pub processes: Vec<Process>,
    /// Calls of processes that found no room.
    pub missed: u64,
    /// Modules that found no room.
    pub modules_lost: u64,
}

/// What stands in a file; `None` if one of the processes has written over it.
pub fn read(bytes: &[u8], wall_ns: u64) -> Option<Counted> {
    let contents = sites::read(bytes)?;
    let all: Vec<sites::Process<'_>> = contents.processes().collect();
    let by_number: HashMap<u64, usize> =
        all.iter().enumerate().map(|(at, process)| (process.own, at)).collect();
    let mut counted = Counted { missed: contents.missed, ..Counted::default() };
    for process in &all {
        // What a child that could not tell has of its parents. No circle, whatever stands there.
        let mut line = vec![process];
        while let Some(parent) = by_number.get(&line[line.len() - 1].parent) {
            if line.len() > all.len() {
                break;
            }
            line.push(&all[*parent]);
        }
        let named = line.iter().find(|process| process.name[0] != 0);
        let modules = line.iter().map(|process| modules(process)).find(|found| !found.is_empty());
        counted.modules_lost = counted.modules_lost.saturating_add(process.modules_lost);
        counted.processes.push(Process {
            pid: process.process,
            program: named.and_then(|process| name(process.name)).unwrap_or_default(),
            modules: modules.unwrap_or_default(),
            threads: threads(process),
            sites: places(process),
            lost: process.lost,
            cpu_ns: None,
            wall_ns,
        });
    }
    Some(counted)
}

/// A name that can be printed: whoever has it chose it.
fn name(name: [u8; 16]) -> Option<String> {
    let name = String::from_utf8_lossy(&name);
    let name = name.trim_end_matches('\0');
    let printable = |letter: char| if letter.is_control() { '?' } else { letter };
    (!name.is_empty()).then(|| name.chars().map(printable).collect())
}

fn modules(process: &sites::Process<'_>) -> Vec<Module> {
    let module = |module: sites::Module| Module {
        start: module.start,
        end: module.end,
        offset: module.offset,
        path: String::from_utf8_lossy(module.path()).into_owned(),
    };
    process.modules().map(module).collect()
}

fn threads(process: &sites::Process<'_>) -> Vec<Thread> {
    let mut threads: Vec<Thread> = Vec::new();
    for thread in process.threads() {
        let calls = process.sites().map(|site| thread.count(site.index));
        let calls = calls.fold(0, u64::saturating_add);
        // A signal in a thread's first call may have it counted in two places.
        let same = |other: &&mut Thread| thread.tid != 0 && other.tid == thread.tid;
        if let Some(same) = threads.iter_mut().find(same) {
            same.calls = same.calls.saturating_add(calls);
        } else if calls > 0 {
            let name = if thread.is_rest { Some("others".to_owned()) } else { name(thread.name) };
            threads.push(Thread { tid: thread.tid, name, calls });
        }
    }
    threads
}

/// The places, each as often as it has chains: its count is exact, and divided as its samples are.
fn places(process: &sites::Process<'_>) -> Vec<Site> {
    let mut chains: HashMap<usize, Vec<(Vec<u64>, u64)>> = HashMap::new();
    for chain in process.chains() {
        let outer = chain.outer.into_iter().take_while(|&address| address != 0).collect();
        chains.entry(chain.site).or_default().push((outer, chain.samples));
    }
    let mut merged: BTreeMap<(Call, Vec<u64>), u64> = BTreeMap::new();
    for site in process.sites() {
        let count = process.threads().map(|thread| thread.count(site.index));
        let count = count.fold(0, u64::saturating_add);
        let mut seen = chains.remove(&site.index).unwrap_or_default();
        let sampled = seen.iter().map(|&(_, samples)| samples).fold(0, u64::saturating_add);
        // Samples beyond which no frame pointer led, or whose chain found no room.
        let alone = site.samples.saturating_sub(sampled);
        if alone > 0 || seen.is_empty() {
            seen.push((Vec::new(), alone.max(1)));
        }
        let shares: Vec<u64> = seen.iter().map(|&(_, samples)| samples).collect();
        for ((outer, _), share) in seen.into_iter().zip(divided(count, &shares)) {
            if share > 0 {
                let chain = [vec![site.address], outer].concat();
                let sum = merged.entry((site.call, chain)).or_default();
                *sum = sum.saturating_add(share);
            }
        }
    }
    merged.into_iter().map(|((call, chain), count)| Site { call, chain, count }).collect()
}

/// A count divided in proportion; the parts add up to it.
fn divided(count: u64, shares: &[u64]) -> Vec<u64> {
    // No program lives to be sampled so often, and no product is too large.
    let shares = shares.iter().map(|&share| u128::from(share.min(1 << 48)));
    let sum = shares.clone().sum::<u128>().max(1);
    let (mut before, mut done) = (0, 0);
    let part = |share: u128| {
        before += share;
        // Rounded where the running sum is, so that nothing is lost on the way.
        let upto = ((u128::from(count) * before + sum / 2) / sum) as u64;
        let part = upto - done;
        done = upto;
        part
    };
    shares.map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_divided_without_remainder() {
        assert_eq!(divided(10, &[1, 1, 1]), [3, 4, 3]);
        assert_eq!(divided(7, &[0, 5]), [0, 7]);
        assert_eq!(divided(1, &[1, 1, 1, 1, 1]).iter().sum::<u64>(), 1);
        assert_eq!(
            divided(u64::MAX, &[u64::MAX; 256]).iter().map(|&part| u128::from(part)).sum::<u128>(),
            u128::from(u64::MAX)
        );
        assert_eq!(divided(0, &[3, 4]), [0, 0]);
    }

    /// The content of a new file.
    fn blank() -> Vec<u8> {
        let mut bytes = vec![0; sites::SIZE];
        bytes[..8].copy_from_slice(&sites::header());
        bytes
    }

    #[test]
    fn a_blank_file_has_nobody_and_rubbish_is_added_up_without_harm() {
        let mut bytes = blank();
        assert!(read(&bytes, 1).unwrap().processes.is_empty());
        bytes[0] ^= 1;
        assert!(read(&bytes, 1).is_none());
        assert!(read(&[], 1).is_none());
        for (at, byte) in bytes.iter_mut().enumerate().take(1 << 20) {
            *byte = (at.wrapping_mul(2_654_435_761) >> 11) as u8;
        }
        bytes[..8].copy_from_slice(&sites::header());
        let counted = read(&bytes, 1).unwrap();
        for process in &counted.processes {
            assert!(!process.program.contains('\u{1b}'));
        }
    }
}
