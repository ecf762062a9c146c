//! What is counted stands in the file, also where there is no room, where threads follow each other, and where somebody
//! scribbles.

extern crate std;

use super::*;
use std::collections::BTreeMap;
use std::vec::Vec;

/// A file with so many blocks.
fn file(blocks: usize) -> Vec<AtomicU64> {
    let mut words: Vec<AtomicU64> = (0..HEAD + blocks * BLOCK).map(|_| AtomicU64::new(0)).collect();
    words[0] = AtomicU64::new(MARK);
    words
}

fn bytes(words: &[AtomicU64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.load(Relaxed).to_ne_bytes()).collect()
}

fn begin(words: &[AtomicU64]) -> Counting<'_> {
    let sites = Sites::new(words).unwrap();
    let number = sites.take_process().unwrap();
    sites.process(number).unwrap()
}

fn whom(tid: u64) -> impl FnOnce() -> Who {
    move || Who { tid, expected: tid, name: *b"worker\0\0\0\0\0\0\0\0\0\0" }
}

const CALL: Call = Call::ClockGettime(1);

#[test]
fn every_call_has_a_word_of_its_own() {
    let calls = [Call::Gettimeofday, Call::Time, Call::ClockGetres(1), Call::TimespecGet(1)];
    let ids = [0, 1, 11, -6, i32::MIN, i32::MAX].map(Call::ClockGettime);
    let words: Vec<u64> = calls.iter().chain(&ids).map(|call| call.to_word()).collect();
    for (call, &word) in calls.iter().chain(&ids).zip(&words) {
        assert_eq!(Call::from_word(word), Some(*call));
        assert_eq!(words.iter().filter(|&&other| other == word).count(), 1);
    }
    assert_eq!(Call::from_word(0), None);
}

#[test]
fn calls_are_counted_by_place_and_by_thread() {
    let words = file(64);
    let process = begin(&words);
    process.tell(321, 0, *b"redis-server\0\0\0\0");
    let mut expected = BTreeMap::new();
    for thread in [10, 11, 12] {
        let counts = process.add_thread(thread << 12, whom(thread)).unwrap();
        for (address, times) in [(0x1000, 3), (0x2000, 700 * thread), (0x1000, 1)] {
            for _ in 0..times {
                let site = process.site(CALL, address).unwrap();
                let _ = counts.count(site);
                *expected.entry((thread, address)).or_insert(0) += 1;
            }
        }
        assert!(process.thread(thread << 12, || thread).is_some());
        assert!(process.thread(thread << 12, || 99).is_none(), "another thread has the key now");
    }
    assert!(process.thread(7 << 12, || 7).is_none());
    let bytes = bytes(&words);
    let told = read(&bytes).unwrap();
    let processes: Vec<_> = told.processes().collect();
    assert_eq!(processes.len(), 1);
    let process = processes[0];
    assert_eq!((process.process, process.parent, process.lost), (321, 0, 0));
    assert_eq!(&process.name, b"redis-server\0\0\0\0");
    let mut found = BTreeMap::new();
    for thread in process.threads() {
        assert!(&thread.name[..6] == b"worker" && !thread.is_rest);
        for site in process.sites() {
            assert_eq!(site.call, CALL);
            found.insert((thread.tid, site.address), thread.count(site.index));
        }
    }
    assert_eq!(found, expected);
    assert_eq!(told.missed, 0);
}

#[test]
fn threads_that_follow_each_other_under_one_key_are_told_apart() {
    let words = file(64);
    let process = begin(&words);
    for tid in 1..=20 {
        assert!(process.thread(0x7000, || tid).is_none());
        let counts = process.add_thread(0x7000, whom(tid)).unwrap();
        let _ = counts.count(process.site(CALL, 5).unwrap());
        assert!(process.thread(0x7000, || tid).is_some());
    }
    let bytes = bytes(&words);
    let process = read(&bytes).unwrap().processes().next().unwrap();
    let site = process.sites().next().unwrap();
    let tids: Vec<_> = process.threads().map(|thread| thread.tid).collect();
    assert_eq!(tids, (1..=20).collect::<Vec<_>>());
    assert!(process.threads().all(|thread| thread.count(site.index) == 1));
}

#[test]
fn places_beyond_the_room_are_told_and_none_is_mistaken_for_another() {
    let words = file(64);
    let process = begin(&words);
    let counts = process.add_thread(1, whom(1)).unwrap();
    let mut placed = 0;
    for address in 1..=2 * SITES as u64 {
        match process.site(CALL, address << 4) {
            Some(site) => {
                let _ = counts.count(site);
                placed += 1;
            }
            None => process.lose(),
        }
    }
    let bytes = bytes(&words);
    let told = read(&bytes).unwrap().processes().next().unwrap();
    assert!(placed > SITES * 9 / 10 && placed <= SITES, "{placed}");
    assert_eq!(told.sites().count(), placed);
    assert_eq!(told.lost, (2 * SITES - placed) as u64);
    let thread = told.threads().next().unwrap();
    assert!(told.sites().all(|site| thread.count(site.index) == 1));
}

#[test]
fn threads_beyond_the_room_share_counts_and_lose_none() {
    let words = file(1024);
    let process = begin(&words);
    let site = process.site(CALL, 1).unwrap();
    for tid in 1..=2 * THREADS as u64 {
        let counts = process.thread(tid << 12, || tid);
        let counts = counts.or_else(|| process.add_thread(tid << 12, whom(tid))).unwrap();
        let _ = counts.count(site);
    }
    let bytes = bytes(&words);
    let told = read(&bytes).unwrap().processes().next().unwrap();
    let sum: u64 = told.threads().map(|thread| thread.count(site)).sum();
    assert_eq!(sum, 2 * THREADS as u64);
    let rest: Vec<_> = told.threads().filter(|thread| thread.is_rest).collect();
    assert_eq!(rest.len(), 1);
    assert!(rest[0].count(site) >= THREADS as u64 && rest[0].tid == 0);
}

#[test]
fn a_file_without_room_says_so() {
    let words = file(PROCESS_BLOCKS + 1);
    let process = begin(&words);
    let sites = Sites::new(&words).unwrap();
    assert!(process.add_thread(1, whom(1)).is_some());
    assert!(process.add_thread(2, whom(2)).is_none());
    assert!(sites.take_process().is_none());
    for number in [words.len() as u64, 1 << 55, u64::MAX] {
        assert!(sites.process(number).is_none(), "{number} is no process's");
    }
    sites.miss();
    assert!(!process.sample(0, &[1, 2]), "there is no room for chains");
    process.add_module(1, 2, 0, b"x");
    let bytes = bytes(&words);
    let told = read(&bytes).unwrap();
    assert_eq!(told.missed, 1);
    assert_eq!(told.processes().next().unwrap().modules_lost, 1);
    assert!(Sites::new(&words[..HEAD - 1]).is_none());
}

#[test]
fn chains_are_kept_with_how_often_they_were_seen() {
    let words = file(64);
    let process = begin(&words);
    let site = process.site(CALL, 0x10).unwrap();
    let deep: Vec<u64> = (1..=100).collect();
    assert!(process.sample(site, &[7, 8]));
    assert!(!process.sample(site, &[7, 8]));
    assert!(process.sample(site, &[7]));
    assert!(process.sample(site, &deep));
    assert!(!process.sample(site, &[]));
    for chain in 0..2 * CHAINS as u64 {
        process.sample(site, &[chain + 1000]);
    }
    let bytes = bytes(&words);
    let told = read(&bytes).unwrap().processes().next().unwrap();
    let chains: Vec<_> = told.chains().collect();
    let samples = |outer: &[u64]| {
        let found = chains.iter().find(|chain| {
            chain.outer.starts_with(outer)
                && chain.outer.get(outer.len()).is_none_or(|&end| end == 0)
        });
        found.map(|chain| chain.samples)
    };
    assert_eq!(samples(&[7, 8]), Some(2));
    assert_eq!(samples(&[7]), Some(1));
    assert_eq!(samples(&deep[..DEPTH]), Some(1));
    assert!(chains.len() > CHAINS / 2 && chains.len() <= CHAINS);
    assert_eq!(told.sites().next().unwrap().samples, 5 + 2 * CHAINS as u64);
}

#[test]
fn modules_are_noted_once_and_known_by_their_addresses() {
    let words = file(64);
    let process = begin(&words);
    assert!(!process.knows(0x1000));
    let path = |at: u64| std::format!("/usr/lib/lib{at}{}.so", "x".repeat(at as usize % 700));
    for _ in 0..2 {
        for at in 1..100 {
            process.add_module(at << 12, (at + 1) << 12, at, path(at).as_bytes());
        }
    }
    assert!(process.knows(0x1000) && process.knows(0x1fff) && process.knows(0x63fff));
    assert!(!process.knows(0x64000) && !process.knows(0xfff));
    let bytes = bytes(&words);
    let told = read(&bytes).unwrap().processes().next().unwrap();
    let mut modules: Vec<_> = told.modules().collect();
    modules.sort_by_key(|module| module.start);
    assert_eq!(modules.len(), 99);
    for (module, at) in modules.iter().zip(1..) {
        assert_eq!((module.start, module.end, module.offset), (at << 12, (at + 1) << 12, at));
        let path = path(at);
        assert_eq!(module.path(), &path.as_bytes()[..path.len().min(PATH_MAX)]);
    }
    assert_eq!((0..100).filter(|_| process.may_look(u64::MAX)).count(), LOOKS_MAX as usize);
}

#[test]
fn one_call_in_so_many_is_sampled_the_first_always_and_no_period_escapes() {
    let words = file(64);
    let process = begin(&words);
    let counts = process.add_thread(1, whom(1)).unwrap();
    let site = process.site(CALL, 1).unwrap();
    assert!(counts.count(site));
    for period in [2u64, 3, 4, 7, 16, 100] {
        let mut sampled = std::vec![0u64; period as usize];
        let calls = period * SAMPLED * 40;
        for call in 0..calls {
            sampled[(call % period) as usize] += u64::from(counts.count(site));
        }
        for &times in &sampled {
            assert!((20..=60).contains(&times), "period {period}: {sampled:?}");
        }
    }
}

#[test]
fn threads_count_at_once_and_lose_nothing() {
    const CALLS: u64 = 20_000;
    let words = file(64);
    let process = begin(&words);
    std::thread::scope(|scope| {
        for tid in 1..=4 {
            scope.spawn(move || {
                for call in 0..CALLS {
                    let counts = process.thread(tid << 6, || tid);
                    let counts = counts.or_else(|| process.add_thread(tid << 6, whom(tid)));
                    let _ = counts.unwrap().count(process.site(CALL, 1 + call % 50).unwrap());
                    process.sample(3, &[1 + call % 7]);
                }
            });
        }
    });
    let bytes = bytes(&words);
    let told = read(&bytes).unwrap().processes().next().unwrap();
    let mut by_address = BTreeMap::new();
    for site in told.sites() {
        let count: u64 = told.threads().map(|thread| thread.count(site.index)).sum();
        *by_address.entry(site.address).or_insert(0) += count;
    }
    assert_eq!(by_address, (1..=50).map(|address| (address, 4 * CALLS / 50)).collect());
    let samples: u64 = told.chains().map(|chain| chain.samples).sum();
    assert_eq!(samples, 4 * CALLS);
}

#[test]
fn rubbish_in_a_file_is_read_and_counted_on_without_harm() {
    assert!(read(&[]).is_none());
    for (seed, step) in [(1u64, GOLDEN), (u64::MAX, 0), (3, 1)] {
        let words = file(40);
        for (index, word) in words.iter().enumerate().skip(1) {
            word.store(seed.wrapping_add(step.wrapping_mul(index as u64)), Relaxed);
        }
        let bytes = bytes(&words);
        let told = read(&bytes).unwrap();
        for process in told.processes().take(10) {
            let figures = process.sites().count() + process.chains().count();
            let paths: usize = process.modules().map(|module| module.path().len()).sum();
            assert!(figures <= SITES + BLOCKS * CHAINS && paths < bytes.len() * PATH_MAX);
            process.threads().take(10).for_each(|thread| assert!(thread.count(SITES) == 0));
        }
        let sites = Sites::new(&words).unwrap();
        for number in [1, 2, 40, 41, u64::MAX] {
            if let Some(process) = sites.process(number) {
                process.knows(5);
                process.add_module(1, 2, 3, b"path");
                process.sample(7, &[1]);
                let counts = process.add_thread(5, whom(5));
                if let (Some(counts), Some(site)) = (counts, process.site(CALL, 9)) {
                    let _ = counts.count(site);
                }
            }
        }
        assert!(read(&bytes[..64]).is_none());
    }
}
