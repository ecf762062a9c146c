//! The batches of one source in one mode: which of them count.
//!
//! A batch is dropped for what happened to the thread meanwhile, never for its value.

use crate::stats::Reservoir;
use crate::world::Batch;

/// Wall time beyond CPU time that is not yet called stolen: a share of the batch, and an amount.
const STOLEN_SHARE: f64 = 0.02;
const STOLEN_NS: f64 = 1_000.0;

/// Batches of one mode of one source.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// Per call, of the batches that count.
    pub wall_ns: Reservoir,
    /// Per call, of the same.
    pub ticks: Reservoir,
    /// CPU time per call, of all batches: it does not run while another thread does.
    pub cpu_ns: Reservoir,
    /// Calls in one batch.
    pub calls_per_batch: u64,
    /// Batches that do not count: the processor was taken away,
    pub preempted: u64,
    /// or another one used at the end,
    pub migrated: u64,
    /// or more time passed than the thread used.
    pub stolen: u64,
    /// Time of all batches.
    pub total_ns: f64,
}

impl Samples {
    /// Adds a batch to those that count, or to those that do not.
    pub fn add(&mut self, batch: &Batch) {
        let calls = batch.calls as f64;
        self.calls_per_batch = batch.calls;
        self.total_ns += batch.wall_ns;
        let stolen = batch.cpu_ns.is_some_and(|cpu_ns| {
            batch.wall_ns - cpu_ns > STOLEN_NS + STOLEN_SHARE * batch.wall_ns
        });
        if let Some(cpu_ns) = batch.cpu_ns {
            self.cpu_ns.add(cpu_ns / calls);
        }
        // Each batch is dropped for one reason, the surest first.
        if batch.preempted {
            self.preempted += 1;
        } else if batch.migrated {
            self.migrated += 1;
        } else if stolen {
            self.stolen += 1;
        } else {
            self.wall_ns.add(batch.wall_ns / calls);
            if let Some(ticks) = batch.ticks {
                self.ticks.add(ticks / calls);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(wall_ns: f64, cpu_ns: f64) -> Batch {
        let ticks = Some(2.0 * wall_ns);
        Batch { calls: 10, wall_ns, ticks, cpu_ns: Some(cpu_ns), preempted: false, migrated: false }
    }

    #[test]
    fn disturbed_batches_are_counted_once_and_do_not_count() {
        let mut samples = Samples::default();
        samples.add(&batch(100_000.0, 100_000.0));
        samples.add(&batch(102_900.0, 100_000.0));
        samples.add(&batch(104_000.0, 100_000.0));
        samples.add(&Batch { preempted: true, migrated: true, ..batch(9e6, 1e5) });
        samples.add(&Batch { migrated: true, ..batch(9e6, 1e5) });
        assert_eq!(samples.wall_ns.kept(), [10_000.0, 10_290.0]);
        assert_eq!(samples.ticks.kept(), [20_000.0, 20_580.0]);
        assert_eq!((samples.preempted, samples.migrated, samples.stolen), (1, 1, 1));
        assert_eq!((samples.cpu_ns.seen(), 5 * samples.calls_per_batch), (5, 50));
    }

    #[test]
    fn without_a_cpu_clock_no_batch_is_called_stolen() {
        let mut samples = Samples::default();
        samples.add(&Batch { cpu_ns: None, ..batch(100_000.0, 0.0) });
        assert_eq!((samples.wall_ns.seen(), samples.stolen, samples.cpu_ns.seen()), (1, 0, 0));
    }
}
