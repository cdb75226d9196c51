//! Answers to questions about the worker: memory, locks, replicas, messages, the flight recorder.
//!
//! # Guarantees
//! Nothing changes. A digest looks at some thousand rows at a time, a sample at some hundred,
//! everything else is small.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use actor::Ctx;
use model::{Address, Epoch, IndexId, NodeId, PartitionId, RowId, SessionId, TableId, Value, key};
use stdx::{Duration, Instant};
use store::lock_table::{LockOwner, Mode as LockMode};
use wire::inspect::{ROWS_MAX, SAMPLE_BYTES_MAX, SAMPLE_SLOTS_MAX};
use wire::{InspectMessage, Inspection, Message};

use super::Participant;
use super::copy::Sent;
use super::disk::Disk;
use super::leg::{FOREIGN_OWNERS, LegHandle};
use super::replica::Replica;

/// Rows that a digest looks at in one turn.
const DIGEST_ROWS: u64 = 2_048;

type Rows = Vec<Vec<Value>>;

impl Participant {
    /// Answers a client's question.
    pub(super) fn inspect(
        &self,
        ctx: &mut Ctx<'_>,
        from: Address,
        session: SessionId,
        request: u64,
        what: Inspection,
    ) {
        let mut rows = match what {
            Inspection::Memory => self.memory_rows(ctx),
            Inspection::Locks => self.lock_rows(),
            Inspection::Replicas => self.replica_rows(ctx, PartitionId::FIRST..=PartitionId::LAST),
            Inspection::ReplicasOf { tables: (first, last) } => {
                let (first, last) = (PartitionId::all_of(first), PartitionId::all_of(last));
                self.replica_rows(ctx, *first.start()..=*last.end())
            }
            Inspection::Disk => self.disk.iter().map(|disk| disk_row(disk, ctx.now())).collect(),
            Inspection::Copies => self.sent_rows(ctx.now()),
            Inspection::IndexBuilds => self.index_build_rows(),
            Inspection::SlowSteps => slow_steps(ctx),
            Inspection::Epochs => ended_epochs(ctx),
            Inspection::Messages => messages(ctx),
            Inspection::Recorder => recorder(ctx),
            Inspection::Digest { partition, epoch, after } => {
                self.digest_rows(ctx, partition, epoch, after).into_iter().collect()
            }
            Inspection::Sample { partition, from, step } => {
                self.sampled_rows(partition, from, step)
            }
            // A coordinator is asked for these, or the host.
            Inspection::Transactions | Inspection::Figures => Rows::new(),
        };
        rows.truncate(ROWS_MAX);
        let answer = InspectMessage::Answer { session, request, rows };
        ctx.send(from, Message::Inspect(Box::new(answer)));
    }

    fn memory_rows(&self, ctx: &Ctx<'_>) -> Rows {
        let pools = self.memory_pools(ctx.me());
        let used = pools.limited();
        let total = vec![
            Value::text("data memory"),
            Value::UInt(used),
            Value::UInt(ctx.config().data_memory),
        ];
        let part = |(name, used): (&str, u64)| {
            vec![Value::text(&name.replace('_', " ")), Value::UInt(used), Value::Null]
        };
        std::iter::once(total).chain(pools.by_name().into_iter().map(part)).collect()
    }

    fn lock_rows(&self) -> Rows {
        let of_replica = |(partition, replica): (&PartitionId, &Replica)| {
            let row = |(key, owner, mode, granted): (_, LockOwner, _, bool)| {
                let store::lock_table::LockKey(hash) = key;
                vec![
                    Value::UInt(partition.table.0.into()),
                    Value::UInt(partition.index.0.into()),
                    Value::text(&format!("{hash:016x}")),
                    Value::text(&self.owner_name(owner)),
                    Value::text(if mode == LockMode::Exclusive { "exclusive" } else { "shared" }),
                    Value::text(if granted { "YES" } else { "NO" }),
                ]
            };
            replica.locks.requests().take(ROWS_MAX).map(row).collect::<Rows>()
        };
        let replicas = self.replicas.iter().map(|(partition, replica)| (partition, &**replica));
        replicas.flat_map(of_replica).take(ROWS_MAX).collect()
    }

    fn owner_name(&self, owner: LockOwner) -> String {
        match self.legs.get(LegHandle(owner.0)) {
            _ if owner.0 >= FOREIGN_OWNERS => "replica copy".to_owned(),
            Some(leg) => leg.transaction.to_string(),
            None => String::new(),
        }
    }

    fn replica_rows(&self, ctx: &Ctx<'_>, of: RangeInclusive<PartitionId>) -> Rows {
        let row = |(partition, replica): (&PartitionId, &Replica)| {
            let primary = replica.chain.first() == Some(&ctx.me());
            vec![
                Value::UInt(partition.table.0.into()),
                Value::UInt(partition.index.0.into()),
                Value::text(if primary { "primary" } else { "backup" }),
                Value::text(if replica.syncing { "YES" } else { "NO" }),
                Value::UInt(replica.partition.row_count()),
                Value::UInt(replica.partition.slot_count().into()),
                Value::UInt(replica.partition.memory_bytes()),
            ]
        };
        let replicas = if of.is_empty() { None } else { Some(self.replicas.range(of)) };
        let replicas = replicas.into_iter().flatten().take(ROWS_MAX);
        replicas.map(|(partition, replica)| (partition, &**replica)).map(row).collect()
    }

    fn sent_rows(&self, now: Instant) -> Rows {
        let row = |(partition, to, sent): (PartitionId, NodeId, &Sent)| {
            vec![
                Value::UInt(partition.table.0.into()),
                Value::UInt(partition.index.0.into()),
                Value::UInt(to.0.into()),
                Value::text(if sent.ended.is_some() { "ended" } else { "copying" }),
                Value::UInt(sent.slots.into()),
                Value::UInt(sent.looked_at.into()),
                Value::UInt(sent.changed),
                Value::UInt(sent.bytes),
                micros(sent.taken(now)),
                sent.left(now).map_or(Value::Null, micros),
            ]
        };
        self.copies.sent().map(row).collect()
    }

    fn index_build_rows(&self) -> Rows {
        let mut builds: BTreeMap<(TableId, IndexId), (u64, u64)> = BTreeMap::new();
        for (partition, replica) in &self.replicas {
            for (index, slots, left) in replica.partition.index_builds() {
                let build = builds.entry((partition.table, index)).or_default();
                *build = (build.0 + slots, build.1 + left);
            }
        }
        let row = |((table, index), (slots, left)): ((TableId, IndexId), (u64, u64))| {
            vec![
                Value::UInt(table.0.into()),
                Value::UInt(index.0.into()),
                Value::UInt(slots),
                Value::UInt(slots - left),
            ]
        };
        builds.into_iter().map(row).collect()
    }

    fn digest_rows(
        &self,
        ctx: &Ctx<'_>,
        partition: PartitionId,
        epoch: Epoch,
        mut after: Option<RowId>,
    ) -> Option<Vec<Value>> {
        let replica = self.replicas.get(&partition).filter(|replica| !replica.syncing)?;
        self.check_snapshot(ctx, replica, epoch).ok()?;
        let (mut count, mut sum) = (0, 0u64);
        while count < DIGEST_ROWS {
            let Some((row_id, row)) = replica.partition.next_slot_at(after, epoch) else {
                return Some(vec![Value::Null, Value::UInt(count), Value::UInt(sum)]);
            };
            after = Some(row_id);
            count += 1;
            // The order of rows is of no matter, so that it may differ.
            sum = sum.wrapping_add(key::local_hash(row));
        }
        let next = after.map_or(Value::Null, |row_id| Value::UInt(row_id.0.into()));
        Some(vec![next, Value::UInt(count), Value::UInt(sum)])
    }

    /// Rows of every so many slots.
    fn sampled_rows(&self, partition: PartitionId, from: RowId, step: u32) -> Rows {
        let Some(replica) = self.replicas.get(&partition).filter(|of| !of.syncing) else {
            return Rows::new();
        };
        let (mut next, mut bytes, mut rows) = (from.0, 0, vec![vec![Value::Null]]);
        for _ in 0..SAMPLE_SLOTS_MAX {
            if next >= replica.partition.slot_count() {
                return rows;
            }
            if let Some(row) = replica.partition.row(RowId(next)) {
                bytes += row.len();
                rows.push(vec![Value::Bytes(row.into())]);
            }
            let Some(following) = next.checked_add(step.max(1)) else { return rows };
            next = following;
            if bytes > SAMPLE_BYTES_MAX {
                break;
            }
        }
        rows[0] = vec![Value::UInt(next.into())];
        rows
    }
}

fn micros(span: Duration) -> Value {
    Value::UInt(span.as_nanos() / 1_000)
}

fn disk_row(disk: &Disk, now: Instant) -> Vec<Value> {
    let or_null = |number: Option<u64>| number.map_or(Value::Null, Value::UInt);
    let (reading, log) = (disk.reading(), disk.log_state());
    let left = reading.and_then(|(progress, began)| progress.left(now.since(began)));
    vec![
        Value::text(disk.stage_name()),
        or_null(reading.map(|(progress, _)| progress.done)),
        or_null(reading.map(|(progress, _)| progress.total)),
        left.map_or(Value::Null, micros),
        or_null(log.as_ref().map(|log| log.saved.0)),
        or_null(log.as_ref().map(|log| log.durable.0)),
        or_null(log.as_ref().map(|log| log.unwritten)),
        or_null(log.as_ref().map(|log| log.segments)),
        Value::UInt(disk.damaged_files()),
    ]
}

fn messages(ctx: &Ctx<'_>) -> Rows {
    let counts = ctx.view().messages.by_name().into_iter();
    counts
        .map(|count| {
            vec![Value::text(count.name), Value::UInt(count.sent), Value::UInt(count.handled)]
        })
        .collect()
}

/// When epochs ended, told by one worker of the cluster.
fn ended_epochs(ctx: &Ctx<'_>) -> Rows {
    if ctx.me().worker.0 != 0 || ctx.cluster().driver() != Some(ctx.node()) {
        return Rows::new();
    }
    let ended = ctx.view().epochs.ended.iter();
    ended.map(|(epoch, at)| vec![Value::UInt(epoch.0), Value::UInt(*at)]).collect()
}

fn slow_steps(ctx: &Ctx<'_>) -> Rows {
    let steps = ctx.view().schedule.slow_steps();
    steps
        .map(|(name, slow)| {
            vec![
                Value::text(name),
                Value::UInt(slow.count),
                micros(slow.total),
                micros(slow.longest),
            ]
        })
        .collect()
}

fn recorder(ctx: &Ctx<'_>) -> Rows {
    let events = ctx.view().recorder.events();
    events
        .map(|(at, event)| {
            vec![Value::UInt(at.as_nanos() / 1_000), Value::text(&event.to_string())]
        })
        .collect()
}
