//! The rules for source files that no lint knows: who uses whom, where a processor may be named,
//! where `unsafe` may stand, how long a file may be, how it opens.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The files, or the folders of files, that may hold `unsafe` code. A line here is a decision.
const MAY_BE_UNSAFE: [(&str, &str); 18] = [
    ("core/src/arch/", "instructions: the counter, its fences, the system call"),
    ("core/src/kernel/system.rs", "system calls"),
    ("core/src/kernel/vdso.rs", "the functions of the vDSO"),
    ("preload/src/", "C's functions and symbols, and the memory that its board is mapped to"),
    ("preload/profile/src/", "the same of the image that counts, and who called it"),
    ("core/src/kernel/pass.rs", "C's calls, handed on with their pointers"),
    ("clockwise/tests/common/allocator.rs", "an allocator that counts"),
    ("clockwise/tests/common/early.rs", "code that runs before main"),
    ("clockwise/tests/common/process.rs", "forks, filters, signals: the tests' processes"),
    ("cli/src/os.rs", "what the tool asks of the system: affinity, priority, signals"),
    (
        "cli/src/os/",
        "what it takes to become, to wait for or to watch another program: exec, signals, ptrace",
    ),
    ("bench/library/src/os.rs", "what the benchmark asks of libc"),
    ("bench/library/src/first.rs", "the kernel's clock, in a program with nothing else"),
    ("bench/library/src/subjects.rs", "the bare instructions, and a peer's opaque time"),
    ("bench/library/src/cost.rs", "padding before a loop, nothing within it"),
    ("rig/src/bin/init.rs", "a guest's first process: mounts, and the end of the machine"),
    ("rig/src/bin/judge/system.rs", "sets a guest's clock, and finds the image's functions"),
    ("cli/tests/common/", "the tool's tests set up processes that std cannot"),
];

const LINES_MAX: usize = 500;

/// A Rust file of the workspace.
struct Source {
    /// From the workspace's root, with `/`.
    path: String,
    text: String,
    /// The text without comments, and with nothing in its strings and characters.
    code: String,
}

impl Source {
    /// The words of the code, each with its line.
    fn words(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code.lines().enumerate().flat_map(|(line, code)| {
            let words = code.split(|letter: char| !is_of_word(letter));
            words.filter(|word| !word.is_empty()).map(move |word| (line + 1, word))
        })
    }

    /// Where `word` stands in the code, as `file:line`.
    fn places(&self, word: &str) -> Vec<String> {
        let lines = self.words().filter(|&(_, other)| other == word);
        lines.map(|(line, _)| format!("{}:{line}", self.path)).collect()
    }
}

fn is_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// All Rust files of the crates; the tool's are missing where only the library was unpacked.
fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = Vec::new();
    let folders = ["core", "clockwise", "preload", "cli", "rig", "fuzz", "bench/library"]
        .map(|name| root.join(name));
    for folder in folders.into_iter().filter(|at| at.exists()) {
        collect(&folder, &mut files);
    }
    files.sort();
    let source = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        let parts = path.strip_prefix(root).unwrap().components();
        let parts: Vec<_> = parts.map(|part| part.as_os_str().to_str().unwrap()).collect();
        Source { path: parts.join("/"), code: code_of(&text), text }
    };
    let sources: Vec<_> = files.into_iter().map(source).collect();
    assert!(sources.iter().any(|source| source.path == "core/src/lib.rs"), "looked in {root:?}");
    sources
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            if !path.ends_with("target") {
                collect(&path, files);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// `text` without its comments and without what stands in its strings; lines stay lines.
fn code_of(text: &str) -> String {
    let mut code = String::new();
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let in_word = code.chars().next_back().is_some_and(is_of_word);
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            comment_length(rest)
        } else if let Some(length) = raw_string_length(rest).filter(|_| !in_word) {
            length
        } else if letter == '"' {
            quoted_length(rest, '"')
        } else if letter == '\'' && is_character(rest) {
            quoted_length(rest, '\'')
        } else {
            code.push(letter);
            rest = &rest[letter.len_utf8()..];
            continue;
        };
        code.push(' ');
        code.extend(rest[..length].chars().filter(|&letter| letter == '\n'));
        rest = &rest[length..];
    }
    code
}

/// The comment `/* ... */` that `text` begins with; they nest.
fn comment_length(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        if text[at..].starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if text[at..].starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                break;
            }
        } else {
            at += text[at..].chars().next().unwrap().len_utf8();
        }
    }
    at
}

/// The string `r"..."`, `br#"..."#` or the like that `text` begins with, if it does.
fn raw_string_length(text: &str) -> Option<usize> {
    let start = text.trim_start_matches(['b', 'c']).strip_prefix('r')?;
    let open = start.trim_start_matches('#');
    let hashes = start.len() - open.len();
    let body = open.strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    Some(text.len() - body.len() + body.find(&end)? + end.len())
}

/// What stands between two `quote`s, them included.
fn quoted_length(text: &str, quote: char) -> usize {
    let mut escaped = false;
    let end = text.char_indices().skip(1).find(|&(_, letter)| {
        let ends = letter == quote && !escaped;
        escaped = letter == '\\' && !escaped;
        ends
    });
    end.map_or(text.len(), |(at, _)| at + 1)
}

/// `'x'` or `'\n'`, and not the lifetime `'x`.
fn is_character(text: &str) -> bool {
    text.starts_with("'\\") || text.chars().nth(2) == Some('\'')
}

/// The modules of the crate that `code` names by `crate::x` or in `crate::{x, y::z}`.
fn modules_used(code: &str) -> BTreeSet<String> {
    let word = |text: &str| -> String { text.chars().take_while(|&c| is_of_word(c)).collect() };
    let mut used = BTreeSet::new();
    for (at, path) in code.match_indices("crate::") {
        let rest = &code[at + path.len()..];
        let Some(group) = rest.strip_prefix('{') else {
            used.insert(word(rest));
            continue;
        };
        let (mut depth, mut starts) = (0, true);
        for (at, letter) in group.char_indices() {
            match letter {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => starts = true,
                _ if starts && is_of_word(letter) => {
                    used.insert(word(&group[at..]));
                    starts = false;
                }
                _ => {}
            }
        }
    }
    used
}

/// The names of the modules that `code` declares, in its order.
fn modules_declared(code: &str) -> Vec<String> {
    let lines = code.lines().filter_map(|line| line.trim().strip_suffix(';'));
    let named =
        lines.filter_map(|line| line.strip_prefix("pub ").unwrap_or(line).strip_prefix("mod "));
    named.map(str::to_owned).collect()
}

#[test]
fn a_module_of_the_library_uses_only_modules_declared_above_it() {
    let sources = sources();
    let lib = sources.iter().find(|source| source.path == "core/src/lib.rs").unwrap();
    let order = modules_declared(&lib.code);
    assert!(order.len() >= 5, "{order:?}");
    for source in sources.iter().filter(|source| source.path != lib.path) {
        let Some(inside) = source.path.strip_prefix("core/src/") else { continue };
        let own = inside.split(['/', '.']).next().unwrap();
        let place = order.iter().position(|module| module == own);
        let place = place.unwrap_or_else(|| panic!("lib.rs does not declare {own}"));
        for used in modules_used(&source.code) {
            let above = order[..=place].contains(&used);
            assert!(above, "{} uses {used}, which is not above {own} in lib.rs", source.path);
        }
    }
}

#[test]
fn only_the_files_of_a_processor_ask_which_processor_it_is() {
    for source in sources() {
        let is_src = source.path.contains("/src/");
        if is_src && !source.path.contains("/src/arch/") {
            assert_eq!(source.places("target_arch"), [""; 0], "cfg(target_arch) outside arch/");
        }
    }
}

#[test]
fn unsafe_code_stands_only_where_it_was_decided() {
    for source in sources() {
        let decided = MAY_BE_UNSAFE.iter().any(|(path, _)| match path.strip_suffix('/') {
            Some(_) => source.path.starts_with(path),
            None => source.path == *path,
        });
        if !decided {
            assert_eq!(source.places("unsafe"), [""; 0], "not in the list of core/tests/tidy.rs");
        }
    }
}

#[test]
fn no_file_is_longer_than_can_be_read_at_once() {
    for source in sources() {
        let lines = source.text.lines().count();
        assert!(lines <= LINES_MAX, "{} has {lines} lines, of {LINES_MAX} allowed", source.path);
    }
}

#[test]
fn every_source_file_opens_with_what_it_holds() {
    for source in sources().iter().filter(|source| source.path.contains("/src/")) {
        assert!(source.text.starts_with("//! "), "{} does not open with //!", source.path);
    }
}

#[test]
fn the_rules_see_code_and_not_comments_or_strings() {
    let text = "a /* unsafe /* */ unsafe */ b // unsafe\nc \"unsafe \\\" unsafe\" r#\"unsafe \" \"# d \
                'e' '\"' '\\'' \"unsafe\" &'f g<'h> for\"\nunsafe\"i br\"unsafe\" unsafe_code unsafe";
    let source = Source { path: "x".into(), text: text.into(), code: code_of(text) };
    let words: Vec<_> = source.words().map(|(_, word)| word).collect();
    let expected = ["a", "b", "c", "d", "f", "g", "h", "for", "i", "unsafe_code", "unsafe"];
    assert_eq!(words, expected);
    assert_eq!(source.places("unsafe"), ["x:3"]);
    let used =
        modules_used("use crate::a; use crate::{b, c::{d, e}, f as g}; crate::h::i(); pub(crate)");
    assert!(used.iter().eq(&["a", "b", "c", "f", "h"]), "{used:?}");
    assert_eq!(modules_declared("pub mod a;\nmod b;\nmod tests {\n"), ["a", "b"]);
}
