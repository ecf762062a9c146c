//! Stacks for flame graphs, a line each, as `flamegraph.pl`, inferno and speedscope read them.
//!
//! Must never write a name in which a `;` or the end of a line would be taken for the format's own.

use crate::profile::Observed;
use crate::profile::report::{Place, base, called, clock};
use crate::profile::resolve::{Frame, Resolver};
use std::collections::BTreeMap;

/// All of them: the program, its functions from the outermost to the innermost, the call; and how often.
pub fn stacks(observed: &Observed, resolver: &Resolver<'_>) -> String {
    let mut stacks: BTreeMap<String, u64> = BTreeMap::new();
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
            let names: Vec<String> = names.iter().rev().map(|name| unfolded(name)).collect();
            let sum = stacks.entry(names.join(";")).or_default();
            *sum = sum.saturating_add(site.count);
        }
    }
    stacks.into_iter().map(|(stack, calls)| format!("{stack} {calls}\n")).collect()
}

/// A function by its name; by its module, where it has none.
fn in_stack(frame: Frame) -> String {
    let place = Place::of(frame);
    match (&place.function, place.module_name()) {
        (None, Some(module)) => format!("[{module}]"),
        _ => place.function(),
    }
}

/// A name in which nothing ends it.
fn unfolded(name: &str) -> String {
    name.chars().map(|letter| if letter == ';' || letter == '\n' { ':' } else { letter }).collect()
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
        assert_eq!(stacks(&observed, &Resolver::new(&files)), "a:b:c;0x10;time 7\n");
    }
}
