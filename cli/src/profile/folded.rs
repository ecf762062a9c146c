//! Stacks for flame graphs, a line each, as `flamegraph.pl`, inferno and speedscope read them.
//!
//! Must never write a name in which a `;` or the end of a line would be taken for the format's own.

use crate::profile::Observed;
use crate::profile::report::{Place, base, called, clock};
use crate::profile::resolve::{Frame, Resolver};
use serde::Serialize;
use std::collections::BTreeMap;

/// A stack, as data.
#[derive(Clone, Debug, Serialize)]
pub struct Stack {
    /// The program, its functions from the outermost to the innermost, the call.
    pub frames: Vec<String>,
    /// How often.
    pub calls: u64,
}

/// All of them as data, the most frequent first.
pub fn list(observed: &Observed, resolver: &Resolver<'_>) -> Vec<Stack> {
    let stacks = added_up(observed, resolver).into_iter();
    let mut stacks: Vec<_> = stacks.map(|(frames, calls)| Stack { frames, calls }).collect();
    stacks.sort_by_key(|stack| std::cmp::Reverse(stack.calls));
    stacks
}

/// All of them as lines.
pub fn lines(observed: &Observed, resolver: &Resolver<'_>) -> String {
    let line = |(frames, calls): (Vec<String>, u64)| {
        let frames: Vec<String> = frames.iter().map(|name| unfolded(name)).collect();
        format!("{} {calls}\n", frames.join(";"))
    };
    added_up(observed, resolver).into_iter().map(line).collect()
}

fn added_up(observed: &Observed, resolver: &Resolver<'_>) -> BTreeMap<Vec<String>, u64> {
    let mut stacks: BTreeMap<Vec<String>, u64> = BTreeMap::new();
    for process in &observed.processes {
        for site in &process.sites {
            let mut names = vec![match clock(site.call) {
                Some(clock) => format!("{}({clock})", called(site.call)),
                None => called(site.call).to_owned(),
            }];
            for &address in &site.chain {
                // What is in no module is no code: a frame pointer led astray there.
                match resolver.frames(process, address) {
                    Some(frames) => names.extend(frames.into_iter().map(in_stack)),
                    None if names.len() == 1 => names.push(format!("{address:#x}")),
                    None => break,
                }
            }
            names.push(base(&process.program).to_owned());
            names.reverse();
            let sum = stacks.entry(names).or_default();
            *sum = sum.saturating_add(site.count);
        }
    }
    stacks
}

/// A function by its name; by its module, where it has none.
fn in_stack(frame: Frame) -> String {
    let place = Place::of(frame);
    match (&place.function, place.module_name()) {
        (None, Some(module)) => format!("[{module}]"),
        _ => place.function(),
    }
}

/// A name in which nothing ends it, and nothing that a terminal would obey.
fn unfolded(name: &str) -> String {
    let letter = |letter: char| match letter {
        ';' | '\n' => ':',
        letter if letter.is_control() => '?',
        letter => letter,
    };
    name.chars().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::calls::{Call, Process, Site};
    use crate::profile::resolve::Files;

    #[test]
    fn addresses_without_a_module_end_a_stack_and_names_cannot_break_a_line() {
        let site = |chain: &[u64], count| Site { call: Call::Time, chain: chain.into(), count };
        let process = Process {
            pid: 1,
            program: "a;b\nc".to_owned(),
            modules: Vec::new(),
            threads: Vec::new(),
            sites: vec![site(&[0x10, 0x20], 3), site(&[0x10], 4)],
            lost: 0,
            cpu_ns: None,
            wall_ns: 1,
        };
        let observed = Observed { processes: vec![process], ..Observed::default() };
        let files = Files::default();
        assert_eq!(lines(&observed, &Resolver::new(&files)), "a:b:c;0x10;time 7\n");
        let list = list(&observed, &Resolver::new(&files));
        assert_eq!((list.len(), list[0].calls), (1, 7));
        assert_eq!(list[0].frames, ["a;b\nc", "0x10", "time"]);
    }
}
