//! What a way to read a clock in a language is, and which ways there are: the language's own calls, ours, the system's clocks
//! that it has no call for.

use super::clocks::{self, Clock, ours, relaxed};
use super::lines::{C, GO, JAVA, NODE, PYTHON, RUST};
use clap::ValueEnum;
use serde::Serialize;

/// A language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// C, and what calls its functions
    C,
    /// Rust
    Rust,
    /// Python 3
    Python,
    /// Go
    Go,
    /// Java
    Java,
    /// Node.js
    Node,
}

impl Language {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::C, Self::Rust, Self::Python, Self::Go, Self::Java, Self::Node];

    /// As people write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::C => "C",
            Self::Rust => "Rust",
            Self::Python => "Python",
            Self::Go => "Go",
            Self::Java => "Java",
            Self::Node => "Node.js",
        }
    }

    /// As the command line has it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::C => "c",
            Self::Rust => "rust",
            Self::Python => "python",
            Self::Go => "go",
            Self::Java => "java",
            Self::Node => "node",
        }
    }

    /// Whether what is measured is the whole price: elsewhere the language adds its own.
    pub const fn is_bare(self) -> bool {
        matches!(self, Self::C | Self::Rust | Self::Go)
    }
}

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// The system: libc, the vDSO, the language's own library.
    System,
    /// Our library.
    Library,
    /// Our image, under `clockwise run`.
    Run,
    /// Our image, under `clockwise run --order relaxed`.
    RunRelaxed,
}

impl By {
    /// Whether it is one of ours.
    pub const fn is_ours(self) -> bool {
        !matches!(self, Self::System)
    }

    /// What to put before the program.
    pub const fn launcher(self) -> Option<&'static str> {
        match self {
            Self::System | Self::Library => None,
            Self::Run => Some("clockwise run -- CMD"),
            Self::RunRelaxed => Some("clockwise run --order relaxed -- CMD"),
        }
    }
}

/// A way to read a clock in a language.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Call {
    /// What the call is called.
    #[serde(rename = "call")]
    pub name: &'static str,
    /// The clock, as this call shows it.
    #[serde(flatten)]
    pub clock: Clock,
    /// Who answers.
    pub by: By,
    /// What has to be at the top of the file; empty where nothing.
    pub import: &'static str,
    /// The line. Empty where the language has none.
    pub code: &'static str,
    /// The rows that its price is the sum of: of `sources.rs`, or of `choose/rows.rs`.
    pub rows: &'static [&'static str],
}

impl Call {
    /// A call that goes by the clock's own name.
    pub const fn new(
        clock: Clock,
        code: &'static str,
        import: &'static str,
        rows: &'static [&'static str],
    ) -> Self {
        Self::named(clock.name, clock, code, import, rows)
    }

    pub const fn named(
        name: &'static str,
        clock: Clock,
        code: &'static str,
        import: &'static str,
        rows: &'static [&'static str],
    ) -> Self {
        Self { name, clock, by: By::System, import, code, rows }
    }

    pub const fn library(
        name: &'static str,
        clock: Clock,
        code: &'static str,
        rows: &'static [&'static str],
    ) -> Self {
        Self { name, clock, by: By::Library, import: "", code, rows }
    }

    /// With this at the top of the file.
    pub const fn importing(self, import: &'static str) -> Self {
        Self { import, ..self }
    }

    /// A clock that nothing here reads: none of the needs is for it, or the language cannot.
    pub const fn without(clock: Clock) -> Self {
        Self::new(clock, "", "", &[])
    }

    /// The same line in a program that the image answers, ordered and relaxed.
    fn under_run(self) -> Option<[Self; 2]> {
        let rows: [&'static [&'static str]; 2] = match self.rows {
            ["libc/monotonic"] => [&["run/monotonic"], &["run/monotonic_relaxed"]],
            ["libc/realtime" | "libc/gettimeofday"] => {
                [&["run/realtime"], &["run/realtime_relaxed"]]
            }
            ["libc/boottime"] => [&["run/boottime"], &["run/boottime_relaxed"]],
            ["libc/monotonic_raw"] => [&["run/monotonic_raw"], &["run/monotonic_raw_relaxed"]],
            _ => return None,
        };
        let Self { clock, .. } = self;
        // What the language cuts off stays cut, and what it hides hidden.
        let same = |answered: Clock| Clock { grain: clock.grain, shared: clock.shared, ..answered };
        let [by_run, by_relaxed] = rows;
        Some([
            Self { by: By::Run, rows: by_run, clock: same(ours(clock)), ..self },
            Self { by: By::RunRelaxed, rows: by_relaxed, clock: same(relaxed(clock)), ..self },
        ])
    }

    /// Whether it is a way to read the clock at all, and not only a clock that `language` cannot reach.
    pub fn is_reachable(&self, language: Language) -> bool {
        !self.code.is_empty()
            || match language {
                Language::C => true,
                Language::Rust => !self.name.ends_with("()"),
                Language::Python | Language::Go => self.name.starts_with("CLOCK_"),
                Language::Java | Language::Node => false,
            }
    }

    /// The name, and who answers where that is not the system.
    pub fn label(&self) -> String {
        match self.by {
            By::System => self.name.to_owned(),
            By::Library => format!("clockwise {}", self.name),
            By::Run => format!("{} (clockwise run)", self.name),
            By::RunRelaxed => format!("{} (run --order relaxed)", self.name),
        }
    }
}

/// All ways to read a clock in `language`, the preferred first, and then the clocks that it has no line for.
pub fn calls(language: Language) -> Vec<Call> {
    let own: &[Call] = match language {
        Language::C => &C,
        Language::Rust => &RUST,
        Language::Python => &PYTHON,
        Language::Go => &GO,
        Language::Java => &JAVA,
        Language::Node => &NODE,
    };
    let mut all = own.to_vec();
    // Rust has the library; Go asks the kernel past libc, where no image can answer.
    if !matches!(language, Language::Rust | Language::Go) {
        all.extend(own.iter().filter_map(|call| call.under_run()).flatten());
    }
    let reads = |clock: &Clock| own.iter().any(|call| call.clock.name == clock.name);
    all.extend(clocks::SYSTEM.into_iter().filter(|clock| !reads(clock)).map(Call::without));
    all
}
