//! The questions of `clockwise choose`, where nobody says what the time is for: a line each, with a default.
//!
//! Must never go on with an answer that it did not understand: the question is put again.

use super::calls::Language;
use super::clocks::Shared;
use super::needs::{Needs, Purpose, exactly};
use crate::args::{Choose, precision};
use anyhow::{Result, bail};
use std::io::{BufRead, Write};

/// Whom to ask.
pub struct Asking<'a> {
    /// Answers, a line each.
    pub input: &'a mut dyn BufRead,
    /// Where questions are put.
    pub output: &'a mut dyn Write,
}

impl Asking<'_> {
    /// What is not said by flags. The answers as flags are told at the end.
    ///
    /// # Errors
    /// If the answers end before the questions.
    pub fn needs(&mut self, args: &Choose) -> Result<Needs> {
        self.say("Which clock? A few questions; Return takes what is in brackets.")?;
        let mut needs = args.needs_for(self.purpose()?);
        if args.precision.is_none() {
            let question = format!("How fine, as in 10ms? [{}] ", exactly(needs.precision_ns));
            needs.precision_ns = self.answer(&question, needs.precision_ns, precision)?;
        }
        let elapsed = matches!(needs.purpose, Purpose::Elapsed | Purpose::Deadline);
        if elapsed && !needs.counts_suspend {
            let question = "Must it count while the machine is suspended? y/n [n] ";
            needs.counts_suspend = self.answer(question, false, yes)?;
        }
        let cpu = matches!(needs.purpose, Purpose::CpuThread | Purpose::CpuProcess);
        if !cpu && !needs.causal {
            let question = "Do threads compare their times? y/n [y] ";
            needs.causal = self.answer(question, true, yes)?;
        }
        if !cpu && needs.across_processes.is_none() {
            let question = "Do processes compare theirs? y/n [n] ";
            let compared = self.answer(question, false, yes)?;
            needs.across_processes = compared.then_some(Shared::Namespace);
        }
        if args.language.is_none() {
            let names = Language::ALL.map(Language::word).join(", ");
            let question = format!("In which language: {names}? [c] ");
            needs.language = self.answer(&question, Language::C, |text| {
                let all = Language::ALL.into_iter();
                let named = |language: &Language| {
                    [language.word(), language.name()]
                        .iter()
                        .any(|name| name.eq_ignore_ascii_case(text))
                };
                all.clone().find(named).ok_or_else(|| format!("say one of {names}"))
            })?;
        }
        self.say(&format!("\nThe same by flags: clockwise choose {}\n", needs.flags().join(" ")))?;
        Ok(needs)
    }

    fn purpose(&mut self) -> Result<Purpose> {
        for (number, purpose) in (1..).zip(Purpose::ALL) {
            self.say(&format!("  {number}  {:12} {}", purpose.word(), purpose.words()))?;
        }
        self.answer("What is the time for? [2] ", Purpose::Elapsed, |text| {
            let number = text.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
            let by_number = number.and_then(|number| Purpose::ALL.get(number).copied());
            let by_word = || Purpose::ALL.into_iter().find(|purpose| purpose.word() == text);
            by_number
                .or_else(by_word)
                .ok_or_else(|| "say a number from 1 to 6, or a word".to_owned())
        })
    }

    /// Puts a question until it is answered.
    fn answer<T: Copy>(
        &mut self,
        question: &str,
        default: T,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T> {
        loop {
            self.output.write_all(question.as_bytes())?;
            self.output.flush()?;
            let mut line = String::new();
            if self.input.read_line(&mut line)? == 0 {
                self.say("")?;
                bail!(
                    "the answers ended before the questions; say it by flags, as in --for elapsed"
                );
            }
            match line.trim() {
                "" => return Ok(default),
                text => match read(text) {
                    Ok(answer) => return Ok(answer),
                    Err(remedy) => self.say(&format!("  `{text}` is none: {remedy}"))?,
                },
            }
        }
    }

    fn say(&mut self, line: &str) -> Result<()> {
        Ok(writeln!(self.output, "{line}")?)
    }
}

fn yes(text: &str) -> Result<bool, String> {
    match text.to_lowercase().as_str() {
        "y" | "yes" => Ok(true),
        "n" | "no" => Ok(false),
        _ => Err("say y or n".to_owned()),
    }
}
