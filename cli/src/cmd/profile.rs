//! `clockwise profile`: how often a program asks for the time, from where, and what that costs.
//!
//! Must never measure a price before the program has ended.

use crate::args::{Profile, ProfileForm};
use crate::cache::Counted;
use crate::cmd::run::{Aside, Ran, refused, unstarted};
use crate::image::COUNTING;
use crate::launch::{Launch, Watched};
use crate::os::launch::{Started, children_cpu_ns};
use crate::profile::report::Report;
use crate::profile::resolve::{Files, Resolver};
use crate::profile::{Observed, costs, counted, folded};
use crate::program::{self, Reach};
use crate::render::{self, Style};
use crate::save::Save;
use anyhow::{Result, anyhow, bail};
use clockwise_core::settings::Choice;
use clockwise_core::sites;
use std::path::Path;

/// Runs it.
///
/// # Errors
/// In one sentence, with the remedy.
pub fn run(args: &Profile, mut aside: Aside<'_>) -> Result<Ran> {
    // Before anything is changed.
    let started = Started::look();
    if args.pid.is_some() {
        bail!(
            "a process that runs already cannot be counted by this build; give a program to start, as in -- CMD"
        );
    }
    let Some(name) = args.command.first() else { bail!("give a program to profile") };
    let path = match program::find(name, std::env::var_os("PATH").as_deref()) {
        Ok(path) => path,
        Err(missing) => return Ok(Ran::Answer(unstarted(missing, name))),
    };
    // Told now: the work of hours should not end at a folder that is not there.
    let save = args.save.as_deref().map(|file| Save::promise(file, "--save")).transpose()?;
    let mut launch = Launch::new(&path, &args.command, started)
        .map_err(|errno| anyhow!("{} cannot be called like this: {errno}", name.display()))?;
    let mut notes = Vec::new();
    match program::reach(&path, launch.preloaded()) {
        Reach::Not(why) => bail!("{} cannot be counted: {why}", path.display()),
        Reach::Part(why) => notes.push(format!("{} is counted in part: {why}", path.display())),
        Reach::Whole | Reach::Unknown(_) | Reach::Missing(_) => {}
    }
    let laid = Counted::new(COUNTING, &Choice::default(), &sites::header(), sites::SIZE)?;
    let image = &laid.image;
    launch.preload(image).map_err(|errno| anyhow!("{}: {errno}", image.display()))?;
    let cpu_before_ns = children_cpu_ns();
    let window_ns = args.time.map(|time| u64::try_from(time.as_nanos())).transpose()?;
    let watched = match launch.watch_for(window_ns) {
        Ok(watched) => watched,
        Err(errno) => return Ok(Ran::Answer(unstarted(refused(errno, &path), name))),
    };
    let cpu_ns = children_cpu_ns().zip(cpu_before_ns).map(|(after, before)| after - before);
    let board = laid.read().ok();
    drop(laid);
    let observed = observed(board.as_deref(), &watched, cpu_ns, notes);
    let command = command(&args.command);
    let text =
        text(args, command, &observed, if save.is_some() { Style::FILE } else { aside.style });
    match save {
        Some(save) => {
            if let Err(why) = save.finish(&text) {
                aside.say(&format!("{why:#}"), "");
            }
        }
        None => aside.write(&text),
    }
    Ok(Ran::Ended(if watched.is_stopped { crate::launch::End::Exited(0) } else { watched.end }))
}

fn command(words: &[std::ffi::OsString]) -> String {
    let name = words.first().map(|name| Path::new(name).display().to_string());
    name.unwrap_or_default()
}

/// What the image has counted.
fn observed(
    board: Option<&[u8]>,
    watched: &Watched,
    cpu_ns: Option<u64>,
    mut notes: Vec<String>,
) -> Observed {
    let read = board.and_then(|bytes| counted::read(bytes, watched.wall_ns));
    let is_there = read.is_some();
    let counted = read.unwrap_or_default();
    let mut processes = counted.processes;
    if let [only] = &mut processes[..] {
        only.cpu_ns = cpu_ns;
    }
    if counted.modules_lost > 0 {
        notes.push("some modules found no room: callers in them have no name".to_owned());
    }
    let calls = processes.iter().flat_map(|process| &process.sites).any(|site| site.count > 0);
    let lost = counted.missed > 0 || processes.iter().any(|process| process.lost > 0);
    let nothing = if calls || lost {
        None
    } else if !is_there {
        Some("the counts were written over by one of the processes".to_owned())
    } else if processes.is_empty() {
        Some(
            "no process loaded the image, as where the program clears LD_PRELOAD, or runs where the cache cannot be \
             read (another user, a chroot)"
                .to_owned(),
        )
    } else {
        Some(
            "the program never asks, asks the kernel past libc (as programs in Go do), or was answered by a library \
             before the image in LD_PRELOAD"
                .to_owned(),
        )
    };
    Observed {
        processes,
        cpu_ns,
        wall_ns: watched.wall_ns,
        missed: counted.missed,
        counted_by: "image",
        nothing,
        notes,
    }
}

fn text(args: &Profile, command: String, observed: &Observed, style: Style) -> String {
    let files = Files::of(&observed.processes);
    let resolver = Resolver::new(&files);
    if args.format == ProfileForm::Folded {
        return folded::stacks(observed, &resolver);
    }
    let sites = observed.processes.iter().flat_map(|process| &process.sites);
    let costs = costs::measure(sites.map(|site| site.call));
    let report = Report::new(command, observed, &resolver, &costs);
    match args.format {
        ProfileForm::Json => render::json(&report),
        ProfileForm::Text | ProfileForm::Folded => {
            render::profile::text(&report, usize::from(args.top), style)
        }
    }
}
