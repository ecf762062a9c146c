//! The result: calls by clock, by caller, by thread and by process, what they cost, and what they would cost otherwise.
//!
//! Must never claim more than was counted: what callers do with a time cannot be seen from outside.

use crate::profile::Observed;
use crate::profile::calls::{Call, Process};
use crate::profile::costs::{self, Cost};
use crate::profile::folded::{self, Stack};
use crate::profile::resolve::{Frame, Resolver};
use clockwise_core::kernel::ClockId;
use serde::Serialize;
use std::collections::BTreeMap;

/// Version of the schema.
const VERSION: u32 = 1;

/// The whole.
#[derive(Debug, Serialize)]
pub struct Report {
    /// `clockwise.profile`.
    pub schema: &'static str,
    /// Its version.
    pub version: u32,
    /// What was started or watched.
    pub command: String,
    /// `image` or `tracer`.
    pub counted_by: &'static str,
    /// How long it was watched.
    pub wall_ns: u64,
    /// The CPU time of all its processes meanwhile.
    pub cpu_ns: Option<u64>,
    /// All calls whose place is known.
    pub total: Figures,
    /// Calls that found no room in a table, places and threads unknown.
    pub lost: u64,
    /// Why nothing was counted, if nothing was.
    pub nothing: Option<String>,
    /// By what was called.
    pub clocks: Vec<Clock>,
    /// By who called.
    pub callers: Vec<Caller>,
    /// By stack, as far as it is known.
    pub stacks: Vec<Stack>,
    /// By thread.
    pub threads: Vec<Thread>,
    /// By process.
    pub processes: Vec<Told>,
    /// What the calls cost and would cost.
    pub outlook: Outlook,
    /// What follows from it.
    pub advice: Vec<String>,
    /// What else there is to know.
    pub notes: Vec<String>,
}

/// What is told of any group of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// How many.
    pub calls: u64,
    /// In a second of the time that was watched.
    pub calls_per_second: Option<f64>,
    /// Their cost: the calls by the price of one, as measured afterwards.
    pub cost_ns: Option<f64>,
    /// That as a share of the CPU time.
    pub cpu_percent: Option<f64>,
}

/// One call, of one clock.
#[derive(Clone, Debug, Serialize)]
pub struct Clock {
    /// The function of C.
    pub call: &'static str,
    /// The clock, or the base of `timespec_get`.
    pub clock: Option<String>,
    /// What one call costs.
    pub each_ns: Option<f64>,
    /// All of them.
    #[serde(flatten)]
    pub figures: Figures,
}

/// One place that calls.
#[derive(Clone, Debug, Serialize)]
pub struct Caller {
    /// The function.
    #[serde(flatten)]
    pub place: Place,
    /// What it calls.
    pub call: &'static str,
    /// Of which clock.
    pub clock: Option<String>,
    /// How often.
    #[serde(flatten)]
    pub figures: Figures,
}

/// A place in a program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Place {
    /// The file that it is in.
    pub module: Option<String>,
    /// The function.
    pub function: Option<String>,
    /// The source file.
    pub file: Option<String>,
    /// The line.
    pub line: Option<u32>,
    /// The address in the file, where there is no function to name; in the process, where there is no file.
    pub address: Option<u64>,
}

/// A thread.
#[derive(Clone, Debug, Serialize)]
pub struct Thread {
    /// The place of its process in the list.
    #[serde(skip)]
    pub place: usize,
    /// Its process; `null`: it was forked and did not tell.
    pub process: Option<u64>,
    /// Its number.
    pub thread: Option<u64>,
    /// Its name.
    pub name: Option<String>,
    /// Its calls.
    pub calls: u64,
    /// In a second.
    pub calls_per_second: Option<f64>,
}

/// A process.
#[derive(Clone, Debug, Serialize)]
pub struct Told {
    /// Its number.
    pub process: Option<u64>,
    /// What it ran.
    pub program: String,
    /// Its calls.
    #[serde(flatten)]
    pub figures: Figures,
    /// Its CPU time, if that is known apart.
    pub cpu_ns: Option<u64>,
}

impl Told {
    /// The program without its folders.
    pub fn name(&self) -> &str {
        base(&self.program)
    }
}

/// A path without its folders.
pub fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Shares of the CPU time, in percent, and what they are made of.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Outlook {
    /// As it is.
    pub now: Way,
    /// Under `clockwise run`, if that reaches the program.
    pub run: Way,
    /// Under `clockwise run --order relaxed`.
    pub relaxed: Way,
    /// Were coarse clocks asked wherever there is one.
    pub coarse: Way,
    /// How far apart the times of a coarse clock are.
    pub coarse_step_ns: Option<u64>,
}

/// One way.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Way {
    /// All calls.
    pub cost_ns: Option<f64>,
    /// As a share of the CPU time that there would be then.
    pub cpu_percent: Option<f64>,
}

/// The name of a call.
pub const fn called(call: Call) -> &'static str {
    match call {
        Call::ClockGettime(_) => "clock_gettime",
        Call::Gettimeofday => "gettimeofday",
        Call::Time => "time",
        Call::TimespecGet(_) => "timespec_get",
        Call::ClockGetres(_) => "clock_getres",
    }
}

/// The clock that is named in a call, as C names it.
pub fn clock(call: Call) -> Option<String> {
    let named = |id: i32| match ClockId(id).name() {
        Some(name) => format!("CLOCK_{name}"),
        // The kernel's way to name another's CPU time, or an open clock device.
        None if id < 0 && id & 7 == 3 => format!("device {id}"),
        None if id < 0 => "CPU time of one".to_owned(),
        None => format!("clock {id}"),
    };
    match call {
        Call::ClockGettime(id) | Call::ClockGetres(id) => Some(named(id)),
        Call::TimespecGet(1) => Some("TIME_UTC".to_owned()),
        Call::TimespecGet(base) => Some(format!("base {base}")),
        Call::Gettimeofday | Call::Time => None,
    }
}

/// Adds up calls with what they cost.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    calls: u64,
    cost_ns: Option<f64>,
}

impl Sum {
    fn add(&mut self, calls: u64, each_ns: Option<f64>) {
        self.calls = self.calls.saturating_add(calls);
        if let Some(each_ns) = each_ns {
            *self.cost_ns.get_or_insert(0.0) += calls as f64 * each_ns;
        }
    }

    fn figures(self, seconds: f64, cpu_ns: Option<u64>) -> Figures {
        let cpu_ns = cpu_ns.filter(|&cpu_ns| cpu_ns > 0);
        Figures {
            calls: self.calls,
            calls_per_second: rate(self.calls, seconds),
            cost_ns: self.cost_ns,
            cpu_percent: self.cost_ns.zip(cpu_ns).map(|(cost, cpu)| 100.0 * cost / cpu as f64),
        }
    }
}

fn rate(calls: u64, seconds: f64) -> Option<f64> {
    (seconds > 0.0).then(|| calls as f64 / seconds)
}

impl Report {
    /// Puts it together. `costs` has a price for each call that was made.
    pub fn new(
        command: String,
        observed: &Observed,
        resolver: &Resolver<'_>,
        costs: &BTreeMap<Call, Cost>,
    ) -> Self {
        let seconds = observed.wall_ns as f64 / 1e9;
        let cpu_ns = observed.cpu_ns;
        let each_ns = |call: Call| costs.get(&call).and_then(|cost| cost.kernel_ns);
        let mut total = Sum::default();
        let mut by_call: BTreeMap<Call, Sum> = BTreeMap::new();
        let mut by_caller: BTreeMap<(Place, Call), Sum> = BTreeMap::new();
        let (mut threads, mut processes) = (Vec::new(), Vec::new());
        for (place, process) in observed.processes.iter().enumerate() {
            let number = Some(process.pid).filter(|&pid| pid != 0);
            let mut own = Sum::default();
            for site in &process.sites {
                let caller = caller(process, site.chain.first().copied(), resolver);
                let sums = [
                    &mut total,
                    &mut own,
                    by_call.entry(site.call).or_default(),
                    by_caller.entry((caller, site.call)).or_default(),
                ];
                sums.into_iter().for_each(|sum| sum.add(site.count, each_ns(site.call)));
            }
            let seconds = process.wall_ns as f64 / 1e9;
            threads.extend(process.threads.iter().map(|thread| Thread {
                place,
                process: number,
                thread: Some(thread.tid).filter(|&tid| tid != 0),
                name: thread.name.clone(),
                calls: thread.calls,
                calls_per_second: rate(thread.calls, seconds),
            }));
            processes.push(Told {
                process: number,
                program: process.program.clone(),
                figures: own.figures(seconds, process.cpu_ns),
                cpu_ns: process.cpu_ns,
            });
        }
        let clocks = by_call.iter().map(|(&call, sum)| Clock {
            call: called(call),
            clock: clock(call),
            each_ns: each_ns(call),
            figures: sum.figures(seconds, cpu_ns),
        });
        let callers = by_caller.into_iter().map(|((place, call), sum)| Caller {
            place,
            call: called(call),
            clock: clock(call),
            figures: sum.figures(seconds, cpu_ns),
        });
        let (mut clocks, mut callers): (Vec<_>, Vec<_>) = (clocks.collect(), callers.collect());
        clocks.sort_by_key(|clock| std::cmp::Reverse(clock.figures.calls));
        callers.sort_by_key(|caller| std::cmp::Reverse(caller.figures.calls));
        threads.sort_by_key(|thread| std::cmp::Reverse(thread.calls));
        let lost = observed.processes.iter().map(|process| process.lost);
        let mut report = Self {
            schema: "clockwise.profile",
            version: VERSION,
            command,
            counted_by: observed.counted_by,
            wall_ns: observed.wall_ns,
            cpu_ns,
            total: total.figures(seconds, cpu_ns),
            lost: lost.fold(observed.missed, u64::saturating_add),
            nothing: observed.nothing.clone(),
            clocks,
            callers,
            stacks: folded::list(observed, resolver),
            threads,
            processes,
            outlook: outlook(&by_call, costs, observed),
            advice: Vec::new(),
            notes: observed.notes.clone(),
        };
        report.advice = report.advise();
        report.notes.extend(report.interpreters());
        report.notes.extend(report.stripped());
        report
    }

    /// What can be known. Whether a coarse clock would do is not among it.
    fn advise(&self) -> Vec<String> {
        let mut advice = Vec::new();
        let Some(now) = self.outlook.now.cpu_percent else { return advice };
        if self.total.calls == 0 {
            return advice;
        }
        // What found no room costs too: as much as the others do, as far as is known.
        let all = now * (1.0 + self.lost as f64 / self.total.calls as f64);
        if all < 1.0 {
            let all = if all < 0.01 { "less than 0.01".to_owned() } else { format!("{all:.2}") };
            return vec![format!(
                "reading clocks takes {all} % of its CPU time: no other clock would be felt"
            )];
        }
        if self.lost >= self.total.calls / 100 && self.lost > 0 {
            advice.push(format!(
                "costs and shares leave out the {} calls that found no room: with them reading clocks takes some {all:.1} %",
                self.lost
            ));
        }
        if let (Some(run), Some(relaxed)) =
            (self.outlook.run.cpu_percent, self.outlook.relaxed.cpu_percent)
        {
            let gains = |then: f64| now - then >= 0.05 * now;
            let from = format!("from {now:.1} % of its CPU time");
            if gains(run) {
                advice.push(format!(
                    "clockwise run would take it {from} to {run:.1} %, with --order relaxed to {relaxed:.1} %"
                ));
            } else if gains(relaxed) {
                advice.push(format!(
                    "clockwise run --order relaxed would take it {from} to {relaxed:.1} %; ordered reads gain little here"
                ));
            }
        }
        let dearest = self.callers.iter().max_by(|a, b| {
            let cost = |caller: &Caller| caller.figures.cost_ns.unwrap_or(0.0);
            cost(a).total_cmp(&cost(b))
        });
        if let Some((caller, percent)) = dearest
            .and_then(|caller| Some((caller, caller.figures.cpu_percent?)))
            .filter(|&(_, percent)| percent >= 0.5 * now)
        {
            let clock =
                caller.clock.as_ref().map_or_else(String::new, |clock| format!("({clock})"));
            advice.push(format!(
                "{percent:.1} % goes to {}{clock} from {}: see whether it must ask so often",
                caller.call,
                caller.place.short()
            ));
        }
        let step_ms = self.outlook.coarse_step_ns.map(|step_ns| step_ns as f64 / 1e6);
        if let Some((coarse, step_ms)) = self.outlook.coarse.cpu_percent.zip(step_ms)
            && coarse < 0.8 * now
        {
            advice.push(format!(
                "coarse clocks would take {coarse:.1} %, in steps of {} ms; whether that is fine enough only its \
                 callers know",
                crate::render::table::digits(step_ms)
            ));
        }
        advice
    }

    /// Where the callers are an interpreter's own functions.
    fn interpreters(&self) -> Option<String> {
        const NAMES: [&str; 8] =
            ["python", "libpython", "node", "libjvm", "perl", "ruby", "php", "lua"];
        let modules = self.callers.iter().filter_map(|caller| caller.place.module_name());
        let mut found: Vec<&str> =
            modules.filter(|module| NAMES.iter().any(|name| module.starts_with(name))).collect();
        found.sort_unstable();
        found.dedup();
        (!found.is_empty()).then(|| {
            format!(
                "callers in {} are functions of the interpreter: which line of a script asked is not seen",
                found.join(", ")
            )
        })
    }

    /// Where files do not name their functions.
    fn stripped(&self) -> Option<String> {
        let unnamed = self.callers.iter().filter(|caller| caller.place.function.is_none());
        let mut files: Vec<&str> = unnamed
            .filter(|caller| caller.figures.calls * 100 >= self.total.calls)
            .filter_map(|caller| caller.place.module_name().filter(|name| !name.starts_with('[')))
            .collect();
        files.sort_unstable();
        files.dedup();
        (!files.is_empty()).then(|| {
            format!(
                "{} has no names for some of its functions: its symbols were stripped, which a package of debug \
                 symbols has",
                files.join(", ")
            )
        })
    }
}

/// The function to which a call returned.
fn caller(process: &Process, address: Option<u64>, resolver: &Resolver<'_>) -> Place {
    let frames = address.and_then(|address| resolver.frames(process, address));
    match frames.and_then(|frames| frames.into_iter().next()) {
        Some(frame) => Place::of(frame),
        None => Place { module: None, function: None, file: None, line: None, address },
    }
}

impl Place {
    /// Of a frame.
    pub fn of(frame: Frame) -> Self {
        let address = Some(frame.address).filter(|_| frame.function.is_none());
        Self {
            module: Some(frame.module).filter(|module| !module.is_empty()),
            function: frame.function,
            file: frame.file,
            line: frame.line,
            address,
        }
    }

    /// The module without its folders.
    pub fn module_name(&self) -> Option<&str> {
        self.module.as_deref().map(base)
    }

    /// The function, or the address.
    pub fn function(&self) -> String {
        match (&self.function, self.address) {
            (Some(function), _) => function.clone(),
            (None, Some(address)) => format!("{address:#x}"),
            (None, None) => "?".to_owned(),
        }
    }

    /// The source file without its folders, and the line.
    pub fn line(&self) -> Option<String> {
        let file = base(self.file.as_deref()?);
        Some(self.line.map_or_else(|| file.to_owned(), |line| format!("{file}:{line}")))
    }

    fn short(&self) -> String {
        let line = self.line().map_or_else(String::new, |line| format!(" ({line})"));
        let module = self.module_name().map_or_else(String::new, |module| format!(" in {module}"));
        format!("{}{line}{module}", self.function())
    }
}

fn outlook(
    by_call: &BTreeMap<Call, Sum>,
    costs: &BTreeMap<Call, Cost>,
    observed: &Observed,
) -> Outlook {
    let sum = |figure: fn(&Cost) -> Option<f64>| {
        let each =
            by_call.iter().map(|(call, sum)| Some(sum.calls as f64 * figure(costs.get(call)?)?));
        each.sum::<Option<f64>>()
    };
    let now_ns = sum(|cost| cost.kernel_ns);
    let way = |cost_ns: Option<f64>| {
        // What is saved is missing from the whole too.
        let whole = |cost_ns: f64| Some(observed.cpu_ns? as f64 - now_ns? + cost_ns);
        let whole = cost_ns.and_then(whole).filter(|&whole| whole > 0.0);
        Way { cost_ns, cpu_percent: cost_ns.zip(whole).map(|(cost, whole)| 100.0 * cost / whole) }
    };
    Outlook {
        now: way(now_ns),
        run: way(sum(|cost| cost.ordered_ns).filter(|_| observed.is_reached)),
        relaxed: way(sum(|cost| cost.relaxed_ns).filter(|_| observed.is_reached)),
        coarse: way(sum(|cost| cost.coarse_ns)),
        coarse_step_ns: costs::coarse_step_ns(),
    }
}
