//! What a check has found.

use crate::machine::Fact;
use serde::Serialize;

/// Good or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Verdict {
    /// Slow, wrong or unsafe.
    #[serde(rename = "bad")]
    Bad,
    /// To be known.
    #[serde(rename = "warning")]
    Warning,
    /// It could not be found out.
    #[serde(rename = "cannot tell")]
    Unknown,
    /// As it should be.
    #[serde(rename = "good")]
    Good,
}

impl Verdict {
    /// As it is printed.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bad => "bad",
            Self::Warning => "warning",
            Self::Unknown => "cannot tell",
            Self::Good => "good",
        }
    }
}

/// What a check has found.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// Its name in the table.
    pub check: &'static str,
    /// Good or not.
    pub verdict: Verdict,
    /// Whether it matters so much that it must be told: if not, the whole cannot be told.
    pub essential: bool,
    /// In a sentence.
    pub says: String,
    /// What was read or measured, and where.
    pub evidence: Vec<Fact>,
    /// What to do.
    pub remedy: Option<String>,
    /// What root would add.
    pub as_root: Option<String>,
}

impl Finding {
    fn new(verdict: Verdict, says: impl Into<String>) -> Self {
        let (evidence, remedy, as_root) = (Vec::new(), None, None);
        Self { check: "", verdict, essential: false, says: says.into(), evidence, remedy, as_root }
    }

    /// Without what would steer a terminal: a recording may say anything.
    #[must_use]
    pub fn printable(mut self) -> Self {
        let texts = [Some(&mut self.says), self.remedy.as_mut()].into_iter().flatten();
        let facts = self.evidence.iter_mut();
        let facts = facts
            .flat_map(|fact| [Some(&mut fact.source), fact.value.as_mut(), fact.reason.as_mut()]);
        for text in texts.chain(facts.flatten()) {
            if text.contains(char::is_control) {
                *text = text.replace(char::is_control, " ");
            }
        }
        self
    }

    /// All is well.
    pub fn good(says: impl Into<String>) -> Self {
        Self::new(Verdict::Good, says)
    }

    /// To be known.
    pub fn warning(says: impl Into<String>) -> Self {
        Self::new(Verdict::Warning, says)
    }

    /// Something is wrong.
    pub fn bad(says: impl Into<String>) -> Self {
        Self::new(Verdict::Bad, says)
    }

    /// It could not be found out.
    pub fn unknown(says: impl Into<String>) -> Self {
        Self::new(Verdict::Unknown, says)
    }

    /// What it rests on.
    #[must_use]
    pub fn from(mut self, fact: Fact) -> Self {
        self.evidence.push(fact);
        self
    }

    /// What it rests on.
    #[must_use]
    pub fn with(mut self, facts: impl IntoIterator<Item = Fact>) -> Self {
        self.evidence.extend(facts);
        self
    }

    /// What to do.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// What root would add.
    #[must_use]
    pub fn root_adds(mut self, adds: Option<&str>) -> Self {
        self.as_root = adds.map(str::to_owned);
        self
    }
}
