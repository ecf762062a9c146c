//! `clockwise run`: a program whose clocks are read from the counter, though nobody changed it.
//!
//! Must do little before the program begins: it is what the user waits for.

use crate::args::{Form, Run};
use crate::cache::{self, Counted, Unlaid};
use crate::cmd::Answer;
use crate::image::IMAGE;
use crate::launch::{End, Launch};
use crate::os::launch::Started;
use crate::outlook::{self, Outlook};
use crate::program::{self, Missing, Reach};
use crate::render::{self, Style};
use crate::save::Save;
use crate::tally;
use anyhow::{Result, anyhow, bail};
use clockwise_core::board;
use clockwise_core::kernel::Errno;
use clockwise_core::settings::Choice;
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};

/// What came of it, where this process did not become the program.
pub enum Ran {
    /// Something to say.
    Answer(Answer),
    /// The program ended, and this process is to end likewise.
    Ended(End),
}

/// Standard error, for what has to be said before the program begins and after it has ended.
pub struct Aside<'a> {
    /// Where it is written to.
    pub err: &'a mut dyn Write,
    /// The columns of its terminal, if it is one.
    pub columns: Option<usize>,
    /// Of tables on it.
    pub style: Style,
}

impl Aside<'_> {
    /// Says something, with its reason.
    pub fn say(&mut self, head: &str, reason: &str) {
        self.write(&render::remark(head, reason, self.columns));
    }

    /// Writes text as it is.
    pub fn write(&mut self, text: &str) {
        // There is nobody to tell if that is closed.
        let _ = self.err.write_all(text.as_bytes());
    }
}

/// Runs it.
///
/// # Errors
/// In one sentence, with the remedy.
pub fn run(args: &Run, style: Style, mut aside: Aside<'_>) -> Result<Ran> {
    // Before anything is changed.
    let started = Started::look();
    if args.format == Form::Json && !(args.stats || args.dry_run || args.print_image) {
        bail!("--format json has nothing to print: give --stats, --dry-run or --print-image too");
    }
    if args.print_image {
        return print_image(args).map(Ran::Answer);
    }
    if args.dry_run {
        return Ok(Ran::Answer(dry_run(args, style)));
    }
    let Some(name) = args.command.first() else { bail!("give a program to run") };
    let path = match program::find(name, std::env::var_os("PATH").as_deref()) {
        Ok(path) => path,
        Err(missing) => return Ok(Ran::Answer(unstarted(missing, name))),
    };
    // Told now: the work of hours should not end at a folder that is not there.
    let save = args.stats_file.as_deref().map(|file| Save::promise(file, "--stats-file"));
    let save = save.transpose()?;
    let mut launch = Launch::new(&path, &args.command, started)
        .map_err(|errno| anyhow!("{} cannot be called like this: {errno}", name.display()))?;
    let plain = match obstacle(args, &path, launch.preloaded(), &mut aside) {
        Some(obstacle) if !args.force => Some(obstacle),
        _ => None,
    };
    let laid = match &plain {
        Some(_) => None,
        None => match Laid::new(args) {
            Ok(laid) => Some(laid),
            Err(Unlaid::Unable(why)) if !args.force => {
                aside.say(&plainly(&path), &why);
                None
            }
            Err(why) => return Err(why.into()),
        },
    };
    if let Some(laid) = &laid {
        let image = laid.image();
        launch.preload(image).map_err(|errno| anyhow!("{}: {errno}", image.display()))?;
    }
    if !args.stats {
        return Ok(Ran::Answer(unstarted(refused(launch.replace(), &path), name)));
    }
    let end = match launch.watch() {
        Ok(end) => end,
        Err(errno) => return Ok(Ran::Answer(unstarted(refused(errno, &path), name))),
    };
    let board = laid.as_ref().and_then(Laid::board);
    drop(laid);
    let tally = tally::of(board.as_deref(), plain);
    let text = match args.format {
        Form::Text => {
            render::tally::text(&tally, if save.is_some() { Style::FILE } else { aside.style })
        }
        Form::Json => render::json(&tally),
    };
    match save {
        Some(save) => {
            if let Err(why) = save.finish(&text) {
                aside.say(&format!("{why:#}"), "");
            }
        }
        None => aside.write(&text),
    }
    Ok(Ran::Ended(end))
}

/// What was laid in the cache for this run.
enum Laid {
    /// For any run.
    Plain(PathBuf),
    /// For this one alone.
    Counted(Counted),
}

impl Laid {
    fn new(args: &Run) -> Result<Self, Unlaid> {
        let choice = choice(args);
        if args.stats {
            Counted::new(IMAGE, &choice, &board::header(), board::SIZE).map(Self::Counted)
        } else {
            cache::lay(&choice).map(Self::Plain)
        }
    }

    fn image(&self) -> &Path {
        match self {
            Self::Plain(image) => image,
            Self::Counted(counted) => &counted.image,
        }
    }

    fn board(&self) -> Option<Vec<u8>> {
        match self {
            Self::Plain(_) => None,
            Self::Counted(counted) => counted.read().ok(),
        }
    }
}

/// What the flags say to the image.
fn choice(args: &Run) -> Choice<'static> {
    Choice {
        relaxed: args.order == crate::args::Order::Relaxed,
        max_age_ns: args.max_age.unwrap_or(0),
        board: None,
    }
}

/// What is said of a program that is not preloaded.
fn plainly(path: &Path) -> String {
    format!("{} starts with the kernel's clock", path.display())
}

/// Why the program had better be started plainly, said once.
fn obstacle(args: &Run, path: &Path, preloaded: &[u8], aside: &mut Aside<'_>) -> Option<String> {
    let name = path.display();
    let (why, is_reached) = match program::reach(path, preloaded) {
        Reach::Not(why) => (why, false),
        // It cannot be started, and the system will say so.
        Reach::Missing(_) => return None,
        reach => {
            if let Reach::Part(why) = reach {
                aside.say(&format!("{name} is reached in part"), &why);
            }
            (outlook::useless(args.order)?, true)
        }
    };
    let head = match (args.force, is_reached) {
        (false, _) => plainly(path),
        (true, true) => format!("{name} is preloaded all the same (--force)"),
        (true, false) => {
            format!("{name} is not reached; LD_PRELOAD is set for what it starts (--force)")
        }
    };
    aside.say(&head, &why);
    Some(why)
}

/// Why the system has not started a file that it would execute.
pub fn refused(errno: Errno, path: &Path) -> Missing {
    match Missing::from(errno) {
        Missing::NotFound if path.exists() => Missing::NoInterpreter,
        missing => missing,
    }
}

/// The answer where a program cannot be started.
pub fn unstarted(missing: Missing, name: &OsStr) -> Answer {
    Answer { text: String::new(), warnings: vec![missing.sentence(name)], status: missing.status() }
}

fn print_image(args: &Run) -> Result<Answer> {
    let image = cache::lay(&choice(args))?;
    let path = image.to_str().ok_or_else(|| {
        anyhow!("{} is not UTF-8, set XDG_CACHE_HOME to a folder that is", image.display())
    })?;
    let text = match args.format {
        Form::Text => format!("{path}\n"),
        Form::Json => render::json(&serde_json::json!({ "image": path })),
    };
    Ok(Answer { text, warnings: Vec::new(), status: 0 })
}

fn dry_run(args: &Run, style: Style) -> Answer {
    let outlook = Outlook::look(args, cache::place(&choice(args)));
    let text = match args.format {
        Form::Text => render::outlook::text(&outlook, style),
        Form::Json => render::json(&outlook),
    };
    Answer { text, warnings: Vec::new(), status: outlook.status() }
}
