//! What a participant tells of its replicas, locks, copies and disk when figures are asked for.
//!
//! # Guarantees
//! Nothing changes. The cost does not depend on how many replicas there are (see `census`).

use actor::{Figures, Metric, Shared};

use model::{ActorKind, Address};

use super::Participant;
use super::census::Sums;

impl Participant {
    /// Adds what is held and under way at this moment.
    pub(super) fn tell_figures(&self, shared: &Shared, figures: &mut Figures) {
        figures.add(Metric::ScansOpen, &[], self.scans.len() as u64);
        let sums = self.sums(address(shared));
        figures.add(Metric::LockedRows, &[], sums.locked_rows);
        figures.add(Metric::LockWaitsOpen, &[], self.waits.iter().count() as u64);
        figures.add(Metric::ReadWaitsOpen, &[], self.doubts.waiting() as u64);
        figures.add(Metric::Copies, &[], self.copies.source_count() as u64);
        let left = self.copies.sent().filter(|(_, _, sent)| sent.ended.is_none());
        let left = left.map(|(_, _, sent)| u64::from(sent.slots.saturating_sub(sent.looked_at)));
        figures.add(Metric::CopySlots, &[], left.sum());
        self.tell_memory(shared, figures);
        self.tell_replicas(shared, figures);
        self.tell_disk(shared, figures);
    }

    fn tell_memory(&self, shared: &Shared, figures: &mut Figures) {
        let pools = self.memory_pools(address(shared));
        let used = pools.limited();
        let limit = shared.config.data_memory;
        figures.add(Metric::DataMemoryUsed, &[], used);
        figures.add(Metric::DataMemoryLimit, &[], limit);
        let percent = used.saturating_mul(100) / limit.max(1);
        figures.add(Metric::DataMemoryFullest, &[], percent);
        for (kind, bytes) in pools.by_name() {
            figures.add(Metric::Memory, &[kind], bytes);
        }
    }

    fn tell_replicas(&self, shared: &Shared, figures: &mut Figures) {
        let Sums { rows, primaries, backups, copying, .. } = self.sums(address(shared));
        figures.add(Metric::Rows, &[], rows);
        for (state, count) in [("primary", primaries), ("backup", backups), ("copying", copying)] {
            figures.add(Metric::Replicas, &[state], count);
        }
    }

    fn tell_disk(&self, shared: &Shared, figures: &mut Figures) {
        let Some(disk) = &self.disk else { return };
        let (done, total) = disk.reading().map_or((0, 0), |(step, _)| (step.done, step.total));
        figures.add(Metric::RestoreDone, &[], done);
        figures.add(Metric::RestoreTotal, &[], total);
        figures.add(Metric::DamagedFiles, &[], disk.damaged_files());
        figures.add(Metric::DiskRefusesWrites, &[], disk.is_full().into());
        let Some(log) = disk.log_state() else { return };
        figures.add(Metric::EpochSaved, &[], log.saved.0);
        figures.add(Metric::EpochDurable, &[], log.durable.0);
        figures.add(Metric::RedoBytes, &[], log.logged);
        figures.add(Metric::RedoWaiting, &[], log.unwritten);
        figures.add(Metric::RedoSegments, &[], log.segments);
        let exposed = log.exposed_since.map(|since| shared.now.since(since));
        figures.add_time(Metric::Exposed, &[], exposed.unwrap_or_default());
    }
}

fn address(shared: &Shared) -> Address {
    Address { node: shared.node, worker: shared.worker, actor: ActorKind::Participant }
}
