//! What becomes of the subject: its status, looked at again and again, as events.
//!
//! Must never judge: a distrusted counter is no fault of the clock.

use super::judge::Finding;
use clockwise::Status;
use clockwise_core::trust::Unfit;

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The kernel's clock was set, as its other clocks show.
    KernelStepped {
        /// How far.
        by_ns: i64,
    },
    /// The subject has noticed that the kernel's clock or the counter was set.
    Stepped {
        /// The clock's time after the last one.
        at_ns: Option<i64>,
        /// How far that went; 0 where it cannot tell.
        by_ns: Option<i64>,
        /// How many since the last look.
        times: u64,
    },
    /// The kernel has changed its rate.
    Slewed {
        /// How many since the last look.
        times: u64,
        /// Kernel minus prediction.
        residual_ns: i64,
    },
    /// The subject was ahead, and goes slower until both meet.
    Ahead {
        /// How many since the last look.
        times: u64,
        /// Kernel minus prediction.
        residual_ns: i64,
    },
    /// The counter is distrusted.
    Distrusted {
        /// Why, and what to do.
        reason: Unfit,
    },
    /// It is trusted again.
    Trusted,
    /// The subject was compared with the kernel.
    Refreshed {
        /// How many times since the last look: more than one were missed.
        times: u64,
        /// Kernel minus prediction, at the last of them.
        residual_ns: i64,
    },
    /// The system call and the vDSO disagree.
    KernelDisagrees {
        /// What the system call said before.
        before_ns: i64,
        /// What the vDSO said.
        vdso_ns: i64,
        /// What the system call said after.
        after_ns: i64,
    },
    /// The tool itself did not run.
    Paused {
        /// For how long.
        ns: i64,
    },
    /// A reader is no longer on its processor.
    Moved {
        /// Where it was.
        cpu: usize,
        /// Why.
        reason: String,
    },
    /// Something was broken.
    Broken(Finding),
    /// The subject or the kernel could not be read any more.
    Failed {
        /// In words.
        reason: String,
    },
}

/// The last look at the status.
#[derive(Default)]
pub struct Watch {
    last: Option<Status>,
}

impl Watch {
    /// Looks at the status and tells what has changed.
    pub fn look(&mut self, status: &Status, tell: &mut impl FnMut(Event)) {
        let last = self.last.replace(*status);
        let (reason, residual_ns) = (status.unfit, status.residual_ns);
        match (last.and_then(|last| last.unfit), reason) {
            (None, Some(reason)) => tell(Event::Distrusted { reason }),
            (Some(_), None) => tell(Event::Trusted),
            _ => {}
        }
        // What came before the first look is no event, but counts in the summary.
        let Some(last) = last else { return };
        let more = |of: fn(&Status) -> u64| {
            Some(of(status).saturating_sub(of(&last))).filter(|&times| times > 0)
        };
        if let Some(times) = more(|status| status.steps) {
            let step = status.last_steps.first().copied().flatten();
            let (at_ns, by_ns) = (step.map(|step| step.at_ns), step.map(|step| step.by_ns));
            tell(Event::Stepped { at_ns, by_ns, times });
        }
        if let Some(times) = more(|status| status.slews) {
            tell(Event::Slewed { times, residual_ns });
        }
        if let Some(times) = more(|status| status.aheads) {
            tell(Event::Ahead { times, residual_ns });
        }
        if let Some(times) = more(|status| status.refreshes) {
            tell(Event::Refreshed { times, residual_ns });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clockwise::Clock;

    /// A status with nothing in it: only the library can make one.
    fn status() -> Status {
        Clock::boottime().status().expect("BOOTTIME is followed")
    }

    fn events(watch: &mut Watch, status: &Status) -> Vec<Event> {
        let mut events = Vec::new();
        watch.look(status, &mut |event| events.push(event));
        events
    }

    #[test]
    fn each_change_of_the_status_is_told_once() {
        let (mut watch, mut now) = (Watch::default(), status());
        assert_eq!(events(&mut watch, &now), []);
        (now.refreshes, now.residual_ns) = (now.refreshes + 1, -7);
        assert_eq!(events(&mut watch, &now), [Event::Refreshed { times: 1, residual_ns: -7 }]);
        assert_eq!(events(&mut watch, &now), []);
        (now.slews, now.aheads) = (now.slews + 2, now.aheads + 1);
        let both = [
            Event::Slewed { times: 2, residual_ns: -7 },
            Event::Ahead { times: 1, residual_ns: -7 },
        ];
        assert_eq!(events(&mut watch, &now), both);
        now.steps += 1;
        assert_eq!(events(&mut watch, &now).len(), 1);
        now.unfit = Some(Unfit::Unsteady);
        assert_eq!(events(&mut watch, &now), [Event::Distrusted { reason: Unfit::Unsteady }]);
        now.unfit = None;
        assert_eq!(events(&mut watch, &now), [Event::Trusted]);
    }

    #[test]
    fn a_counter_that_is_unfit_from_the_start_is_told() {
        let mut unfit = status();
        unfit.unfit = Some(Unfit::Rejected);
        let told = events(&mut Watch::default(), &unfit);
        assert_eq!(told, [Event::Distrusted { reason: Unfit::Rejected }]);
    }
}
