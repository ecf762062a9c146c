//! `clockwise profile`: how often a program asks for the time, from where, and what that costs.
//!
//! Must never measure a price before the program has ended.

use crate::args::{Profile, ProfileForm};
use crate::cache::Counted;
use crate::cmd::Answer;
use crate::cmd::run::{Aside, Ran, refused, unstarted};
use crate::image::COUNTING;
use crate::launch::{End, Launch, Watched};
use crate::os::launch::{Started, children_cpu_ns};
use crate::profile::report::Report;
use crate::profile::resolve::{Files, Resolver};
use crate::profile::traced::{self, Refusal};
use crate::profile::{Observed, costs, counted, folded};
use crate::program::{self, Reach};
use crate::render::{self, Style};
use crate::save::Save;
use anyhow::{Result, anyhow, bail};
use clockwise_core::kernel::Errno;
use clockwise_core::settings::Choice;
use clockwise_core::sites;

/// Runs it.
///
/// # Errors
/// In one sentence, with the remedy.
pub fn run(args: &Profile, mut aside: Aside<'_>) -> Result<Ran> {
    // Before anything is changed.
    let started = Started::look();
    let Some(name) = args.command.first() else { bail!("give a program to profile") };
    let path = match program::find(name, std::env::var_os("PATH").as_deref()) {
        Ok(path) => path,
        Err(missing) => return Ok(Ran::Answer(unstarted(missing, name))),
    };
    // Told now: the work of hours should not end at a folder that is not there.
    let save = args.save.as_deref().map(|file| Save::promise(file, "--save")).transpose()?;
    let launch = Launch::new(&path, &args.command, started)
        .map_err(|errno| anyhow!("{} cannot be called like this: {errno}", name.display()))?;
    let run = match program::reach(&path, launch.preloaded()) {
        Reach::Not(why) | Reach::Part(why) => by_tracer(&launch, window_ns(args), &why)?,
        Reach::Whole | Reach::Unknown(_) | Reach::Missing(_) => by_image(launch, window_ns(args))?,
    };
    let (observed, end) = match run {
        Ok(run) => run,
        Err(errno) => return Ok(Ran::Answer(unstarted(refused(errno, &path), name))),
    };
    let style = if save.is_some() { Style::FILE } else { aside.style };
    let text = text(args, name.display().to_string(), &observed, style);
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

/// Counts what a running process asks; `passed` is told which share of the time has passed. To be called in
/// [`traced::apart`].
///
/// # Errors
/// In one sentence, with the remedy.
pub fn attached(
    args: &Profile,
    style: Style,
    passed: &mut (dyn FnMut(f64) + Send),
) -> Result<Answer> {
    let Some(pid) = args.pid else { bail!("give a process to count with --pid") };
    let save = args.save.as_deref().map(|file| Save::promise(file, "--save")).transpose()?;
    let window_ns = window_ns(args);
    let counted = traced::attach(pid.cast_signed(), window_ns, &mut |passed_ns| {
        if let Some(window_ns) = window_ns {
            passed(passed_ns as f64 / window_ns as f64);
        }
    })?;
    // Started anew, it would be as a rule.
    let observed = Observed { is_reached: true, ..of_tracer(counted) };
    let command = observed.processes.first().map(|process| process.program.clone());
    let command = command.unwrap_or_else(|| format!("process {pid}"));
    let style = if save.is_some() { Style::FILE } else { style };
    let text = text(args, command, &observed, style);
    let text = match save {
        None => text,
        Some(save) => save.finish(&text).map(|()| String::new())?,
    };
    Ok(Answer { text, warnings: Vec::new(), status: 0 })
}

fn window_ns(args: &Profile) -> Option<u64> {
    // A year fits.
    args.time.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

/// What was counted and how the program ended, or why the system does not start it.
type Run = std::result::Result<(Observed, End), Errno>;

fn by_image(mut launch: Launch, window_ns: Option<u64>) -> Result<Run> {
    let laid = Counted::new(COUNTING, &Choice::default(), &sites::header(), sites::SIZE)?;
    let image = &laid.image;
    launch.preload(image).map_err(|errno| anyhow!("{}: {errno}", image.display()))?;
    let cpu_before_ns = children_cpu_ns();
    let watched = match launch.watch_for(window_ns) {
        Ok(watched) => watched,
        Err(errno) => return Ok(Err(errno)),
    };
    let cpu_ns = children_cpu_ns().zip(cpu_before_ns).map(|(after, before)| after - before);
    let board = laid.read().ok();
    let end = if watched.is_stopped { End::Exited(0) } else { watched.end };
    Ok(Ok((of_image(board.as_deref(), &watched, cpu_ns), end)))
}

fn by_tracer(launch: &Launch, window_ns: Option<u64>, why: &str) -> Result<Run> {
    let counted = match traced::launch(launch, window_ns) {
        Ok(counted) => counted,
        Err(Refusal::Exec(errno)) => return Ok(Err(errno)),
        Err(refusal @ Refusal::Told(_)) => return Err(refusal.into()),
    };
    let end = match counted.end {
        Some(end) if !counted.is_stopped => end,
        _ => End::Exited(0),
    };
    let mut observed = of_tracer(counted);
    observed.notes.insert(0, format!("counted by a tracer, not by an image: {why}"));
    Ok(Ok((observed, end)))
}

/// What a tracer has counted.
fn of_tracer(counted: traced::Counted) -> Observed {
    let processes = counted.processes;
    let calls = processes.iter().flat_map(|process| &process.sites).any(|site| site.count > 0);
    Observed {
        // Of all of them, or of none.
        cpu_ns: processes.iter().map(|process| process.cpu_ns).sum(),
        wall_ns: processes.iter().map(|process| process.wall_ns).max().unwrap_or(0),
        missed: 0,
        counted_by: "tracer",
        is_reached: false,
        nothing: (!calls).then(|| "the program did not ask while it was watched".to_owned()),
        notes: counted.remarks,
        processes,
    }
}

/// What the image has counted.
fn of_image(board: Option<&[u8]>, watched: &Watched, cpu_ns: Option<u64>) -> Observed {
    let mut notes = Vec::new();
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
        is_reached: true,
        nothing,
        notes,
    }
}

fn text(args: &Profile, command: String, observed: &Observed, style: Style) -> String {
    let files = Files::of(&observed.processes);
    let resolver = Resolver::new(&files);
    if args.format == ProfileForm::Folded {
        return folded::lines(observed, &resolver);
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
