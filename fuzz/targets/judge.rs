//! Any two texts as the kernel's clocksources: what is fit has the counter's name in it, as a whole word.
#![no_main]

use clockwise_core::trust::judge;
use libfuzzer_sys::fuzz_target;

const COUNTERS: [&str; 3] = ["tsc", "tsc-early", "arch_sys_counter"];

fuzz_target!(|bytes: &[u8]| {
    // The first 0 ends the first text.
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    let (current, rest) = bytes.split_at(end);
    let available = rest.get(1..).unwrap_or_default();
    let has_counter = |text: &[u8]| {
        let text = String::from_utf8_lossy(text);
        text.split([' ', '\t', '\n', '\r', '\x0c']).any(|word| COUNTERS.contains(&word))
    };
    for invariant in [false, true] {
        let mut asked = false;
        let verdict = judge(current, available, || {
            asked = true;
            invariant
        });
        if verdict.is_ok() {
            assert!(has_counter(current) || has_counter(available) && asked && invariant);
        }
        if let Err(reason) = verdict {
            assert!(!reason.to_string().is_empty());
        }
    }
});
