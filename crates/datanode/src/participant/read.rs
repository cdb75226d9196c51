//! Committed reads straight from a client: no transaction, no locks, newest rows or a snapshot.

use std::collections::BTreeMap;

use actor::{Ctx, Tally, probe};
use model::{Address, ClusterState, Epoch, ErrorCode, PartitionId, Refusal, Row, key};
use wire::{ClientReply, KeyRead, Message, ReadRequest};

use super::Participant;
use super::evaluate::Projector;
use super::replica::Replica;

impl Participant {
    /// Answers a client's reads, all of them or none.
    pub(super) fn read(&mut self, ctx: &mut Ctx<'_>, from: Address, request: &ReadRequest) {
        ctx.shared().tallies.add(Tally::Read, request.reads.len() as u64);
        let result = self.read_rows(ctx, request);
        let (session, request) = (request.session, request.request);
        ctx.send(from, Message::Reply(ClientReply::Read { session, request, result }));
    }

    fn read_rows(
        &mut self,
        ctx: &mut Ctx<'_>,
        request: &ReadRequest,
    ) -> Result<Vec<Option<Row>>, Refusal> {
        if !ctx.may_serve() {
            probe!(ctx, "participant: read refused without a lease");
            return Err(Refusal::new(ErrorCode::NotServing, ctx.node().to_string()));
        }
        let limit = ctx.config().batch_max as usize;
        if request.reads.len() > limit {
            let detail = format!("{} of at most {limit}", request.reads.len());
            return Err(Refusal::new(ErrorCode::BatchLimit, detail));
        }
        request.reads.iter().map(|read| self.read_row(ctx, read, request.snapshot)).collect()
    }

    fn read_row(
        &mut self,
        ctx: &Ctx<'_>,
        read: &KeyRead,
        snapshot: Option<Epoch>,
    ) -> Result<Option<Row>, Refusal> {
        let replica = serving(&self.replicas, ctx, read.partition)?;
        let table = replica.partition.table();
        let projector = Projector::of(&mut self.projectors, table, &read.projection)?;
        let hash = key::local_hash(&read.key.0);
        let row = match snapshot {
            Some(epoch) => {
                self.check_snapshot(ctx, replica, epoch)?;
                let row = replica.partition.read_at(&read.key.0, hash, epoch);
                row.map_err(|_| Refusal::new(ErrorCode::SnapshotTooOld, epoch.to_string()))?
            }
            None => {
                let place = replica.partition.find(&read.key.0, hash);
                place.and_then(|row_id| replica.partition.row(row_id))
            }
        };
        row.map(|row| projector.project(table, row)).transpose()
    }

    /// The replica of a partition, if it is complete and this worker's to serve.
    pub(super) fn serving(
        &self,
        ctx: &Ctx<'_>,
        partition: PartitionId,
    ) -> Result<&Replica, Refusal> {
        serving(&self.replicas, ctx, partition)
    }

    /// Whether the old images a snapshot needs are all here.
    pub(super) fn check_snapshot(
        &self,
        ctx: &Ctx<'_>,
        replica: &Replica,
        epoch: Epoch,
    ) -> Result<(), Refusal> {
        let kept = ctx.view().epochs.retained.contains(&epoch);
        if !kept || epoch < replica.partition.snapshot_floor() {
            return Err(Refusal::new(ErrorCode::SnapshotTooOld, epoch.to_string()));
        }
        Ok(())
    }
}

/// As [`Participant::serving`], for who changes something else meanwhile.
fn serving<'r>(
    replicas: &'r BTreeMap<PartitionId, Replica>,
    ctx: &Ctx<'_>,
    partition: PartitionId,
) -> Result<&'r Replica, Refusal> {
    let replica = replicas.get(&partition).filter(|replica| replica.readable);
    replica.ok_or_else(|| not_here(ctx.cluster(), partition))
}

/// Why a partition cannot be served here.
pub(super) fn not_here(cluster: &ClusterState, partition: PartitionId) -> Refusal {
    match cluster.tables.get(&partition.table) {
        None => ErrorCode::UnknownTable.into(),
        Some(table) if partition.index.0 >= table.partition_count => {
            Refusal::new(ErrorCode::BadRequest, "no such partition")
        }
        Some(_) => Refusal::new(ErrorCode::StaleRoute, partition.to_string()),
    }
}
