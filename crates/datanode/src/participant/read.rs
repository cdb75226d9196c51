//! Committed reads straight from a client: no transaction, no locks, newest rows or a snapshot.

use std::collections::BTreeMap;

use actor::{Ctx, Tally, probe};
use model::{Address, ClusterState, Epoch, ErrorCode, PartitionId, Refusal, Row, key};
use wire::{ClientReply, KeyRead, Message, ReadRequest};

use super::Participant;
use super::evaluate::Projector;
use super::replica::Replica;

impl Participant {
    /// Answers a client's reads, all of them or none: now, or when none of the rows that they are
    /// for is in doubt any more.
    pub(super) fn read(&mut self, ctx: &mut Ctx<'_>, from: Address, request: Box<ReadRequest>) {
        ctx.shared().tallies.add(Tally::Read, request.reads.len() as u64);
        let request = if self.doubts.any() {
            match self.read_in_doubt(ctx, from, request) {
                Some(request) => request,
                None => return,
            }
        } else {
            request
        };
        let result = self.read_rows(ctx, &request);
        answer(ctx, from, &request, result);
    }

    /// Has reads wait if a row of theirs is in doubt; gives those back that are answered now.
    fn read_in_doubt(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Address,
        request: Box<ReadRequest>,
    ) -> Option<Box<ReadRequest>> {
        if admit(ctx, &request).is_err() {
            return Some(request);
        }
        if let Err(refusal) = self.has_room_to_wait(ctx) {
            answer(ctx, from, &request, Err(refusal));
            return None;
        }
        self.park_reads(ctx, from, request)
    }

    /// The rows as they are now, if they can be had.
    pub(super) fn read_rows(
        &mut self,
        ctx: &mut Ctx<'_>,
        request: &ReadRequest,
    ) -> Result<Vec<Option<Row>>, Refusal> {
        admit(ctx, request)?;
        let mut rows = Vec::with_capacity(request.reads.len());
        for read in &request.reads {
            rows.push(self.read_row(ctx, read, request.snapshot)?);
        }
        Ok(rows)
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

/// Whether the node may answer so many reads now.
#[inline]
fn admit(ctx: &mut Ctx<'_>, request: &ReadRequest) -> Result<(), Refusal> {
    if !ctx.may_serve() {
        probe!(ctx, "participant: read refused without a lease");
        return Err(Refusal::new(ErrorCode::NotServing, ctx.node().to_string()));
    }
    let limit = ctx.config().batch_max as usize;
    if request.reads.len() > limit {
        let detail = format!("{} of at most {limit}", request.reads.len());
        return Err(Refusal::new(ErrorCode::BatchLimit, detail));
    }
    Ok(())
}

/// Tells a client what has come of its reads.
pub(super) fn answer(
    ctx: &mut Ctx<'_>,
    to: Address,
    request: &ReadRequest,
    result: Result<Vec<Option<Row>>, Refusal>,
) {
    let (session, request) = (request.session, request.request);
    ctx.send(to, Message::Reply(ClientReply::Read { session, request, result }));
}

/// As [`Participant::serving`], for who changes something else meanwhile.
fn serving<'r>(
    replicas: &'r BTreeMap<PartitionId, Box<Replica>>,
    ctx: &Ctx<'_>,
    partition: PartitionId,
) -> Result<&'r Replica, Refusal> {
    let replica = replicas.get(&partition).filter(|replica| replica.readable);
    replica.map(|replica| &**replica).ok_or_else(|| not_here(ctx.cluster(), partition))
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
