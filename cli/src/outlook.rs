//! What `clockwise run` would gain here: `--dry-run`, as data.
//!
//! Must never start or lay anything.

use crate::args::{Order, Run};
use crate::cache::{Place, Unlaid};
use crate::prices::{self, Price};
use crate::program::{self, Reach};
use clockwise_core::timebase::PERIOD_NS;
use serde::Serialize;
use std::path::Path;

/// Version of the schema.
const VERSION: u32 = 1;

/// The whole.
#[derive(Debug, Serialize)]
pub struct Outlook {
    /// `clockwise.run.dry_run`.
    pub schema: &'static str,
    /// Its version.
    pub version: u32,
    /// Whether the counter may stand in for the kernel.
    pub fit: bool,
    /// Why not.
    pub unfit: Option<String>,
    /// What a read costs and, as a prediction, would cost; nothing if there is no program to start.
    pub prices: Vec<Price>,
    /// As `--order` says.
    pub order: &'static str,
    /// As `--max-age` says.
    pub max_age_ns: u64,
    /// Where the image would lie.
    pub image: Option<String>,
    /// Whether it lies there.
    pub image_is_there: bool,
    /// Why it cannot.
    pub image_refused: Option<String>,
    /// The program.
    pub program: Option<Program>,
    /// Whether `run` would preload the image.
    pub would_preload: Option<bool>,
    /// In a sentence.
    pub verdict: String,
}

/// Whether the program can be reached.
#[derive(Debug, Serialize)]
pub struct Program {
    /// As it was named.
    pub name: String,
    /// The file.
    pub path: Option<String>,
    /// `whole`, `part`, `not`, `unknown` or `missing`.
    pub reach: &'static str,
    /// Why not, or which part is not.
    pub reason: Option<String>,
}

impl Program {
    /// Whether there is nothing to start.
    pub fn is_missing(&self) -> bool {
        self.reach == "missing"
    }

    fn look(args: &Run) -> Option<Self> {
        let name = args.command.first()?;
        let lossy = |text: &Path| text.display().to_string();
        let found = program::find(name, std::env::var_os("PATH").as_deref());
        let (path, reach, reason) = match found {
            Err(missing) => (None, "missing", Some(missing.sentence(name))),
            Ok(path) => {
                let preloaded = std::env::var_os("LD_PRELOAD").unwrap_or_default();
                let (reach, reason) = match program::reach(&path, preloaded.as_encoded_bytes()) {
                    Reach::Whole => ("whole", None),
                    Reach::Part(why) => ("part", Some(why)),
                    Reach::Not(why) => ("not", Some(why)),
                    Reach::Unknown(why) => ("unknown", Some(why)),
                    Reach::Missing(missing) => ("missing", Some(missing.sentence(name))),
                };
                (Some(lossy(&path)), reach, reason)
            }
        };
        Some(Self { name: lossy(Path::new(name)), path, reach, reason })
    }
}

impl Outlook {
    /// Looks, and measures for some tens of milliseconds.
    pub fn look(args: &Run, place: Result<Place, Unlaid>) -> Self {
        let fit = prices::fit();
        let program = Program::look(args);
        let is_missing = program.as_ref().is_some_and(Program::is_missing);
        let prices = if is_missing { Vec::new() } else { prices::all(fit) };
        let (image, image_is_there, image_refused) = match place {
            Ok(place) => (Some(place.path.display().to_string()), place.is_there, None),
            Err(why) => (None, false, Some(why.to_string())),
        };
        let mut outlook = Self {
            schema: "clockwise.run.dry_run",
            version: VERSION,
            fit: fit.is_ok(),
            unfit: fit.err().map(|why| why.to_string()),
            prices,
            order: args.order.name(),
            max_age_ns: args.max_age.unwrap_or(PERIOD_NS),
            image,
            image_is_there,
            image_refused,
            program,
            would_preload: None,
            verdict: String::new(),
        };
        (outlook.would_preload, outlook.verdict) = outlook.judge(args);
        outlook
    }

    fn judge(&self, args: &Run) -> (Option<bool>, String) {
        let program = self.program.as_ref();
        let name = program.map_or("a program", |program| program.name.as_str());
        if let Some(missing) = program.filter(|program| program.is_missing()) {
            return (None, missing.reason.clone().unwrap_or_default());
        }
        if let Some(refused) = &self.image_refused {
            return (None, refused.clone());
        }
        let price = self.prices.iter().find(|price| price.clock == "CLOCK_MONOTONIC");
        let kernel_ns = price.and_then(|price| price.kernel_ns);
        let ours_ns = price.and_then(|price| match args.order {
            Order::Causal => price.ordered_ns,
            Order::Relaxed => price.relaxed_ns,
        });
        let both = kernel_ns.zip(ours_ns);
        let against = if let Some(not) = program.filter(|program| program.reach == "not") {
            Some(not.reason.clone().unwrap_or_default())
        } else if let Some(unfit) = &self.unfit {
            Some(unfit.clone())
        } else {
            let nothing = both.filter(|(kernel_ns, ours_ns)| ours_ns >= kernel_ns);
            nothing.map(|(kernel_ns, ours_ns)| no_gain(args.order, kernel_ns, ours_ns))
        };
        if let Some(why) = against {
            let verdict = if args.force {
                format!("{name} would be preloaded by --force alone: {why}")
            } else {
                format!("{name} would start with the kernel's clock: {why}")
            };
            return (Some(args.force), verdict);
        }
        let order = match args.order {
            Order::Causal => "ordered",
            Order::Relaxed => "relaxed",
        };
        let verdict = match both {
            None => format!("{name} would be preloaded; what a read costs could not be measured"),
            Some((kernel_ns, ours_ns)) => format!(
                "{name} would be preloaded: {order} reads of a followed clock should cost {:.0} % of the kernel's, \
                 a factor of {:.1}",
                100.0 * ours_ns / kernel_ns,
                kernel_ns / ours_ns
            ),
        };
        (Some(true), verdict)
    }

    /// 0 it would read the counter, 1 it would not, 2 that cannot be told.
    pub const fn status(&self) -> u8 {
        match self.would_preload {
            Some(true) => 0,
            Some(false) => 1,
            None => 2,
        }
    }
}

/// Why nothing is to be gained on this machine, if that is so.
pub fn useless(order: Order) -> Option<String> {
    if let Err(unfit) = prices::fit() {
        return Some(unfit.to_string());
    }
    let (kernel_ns, ours_ns) = prices::at_a_glance(order == Order::Relaxed)?;
    (ours_ns >= kernel_ns).then(|| no_gain(order, kernel_ns, ours_ns))
}

fn no_gain(order: Order, kernel_ns: f64, ours_ns: f64) -> String {
    let remedy = match order {
        Order::Causal => "; --order relaxed may gain",
        Order::Relaxed => "",
    };
    format!(
        "the kernel's clock is as cheap here as the counter ({kernel_ns:.0} ns against some {ours_ns:.0}){remedy}"
    )
}
