//! The newest durable epoch as this node knows it, on its disk: a witness apart from all logs.
//!
//! # Owns
//! What the disk said at the beginning of this life; the file `durable` beside the control log.
//! # Guarantees
//! The file is never above an epoch that the driver of epochs has called durable. It is written at
//! most once a second, so it may lag behind what clients were told: exact are the watermarks of
//! workers. It is there for the case that those are lost, or that all data directories were
//! replaced by older copies: management nodes keep one too.
//! # Failure
//! A full disk is tried again; another failure of the disk ends the node.
//! # Not here
//! Watermarks of workers (`datanode::participant`), what a restart makes of it (`restart`).

use actor::{Ctx, DiskAnswer, DiskError, DiskErrorKind, DiskOperation, Halt, probe};
use model::{ClusterId, Epoch, NodeRole};
use ondisk::{WATERMARK_FILE, Watermark, Watermarks};
use stdx::{Duration, Instant};

use super::Control;
use crate::journal;

/// The lane of the file.
const LANE: u8 = 1;
/// The request that reads the file.
pub(super) const READ: u64 = 1 << 63;
/// The request that writes it.
pub(super) const WRITE: u64 = READ + 1;
/// How often it is written at most.
const INTERVAL: Duration = Duration::from_secs(1);

/// The witness of this node.
#[derive(Debug, Default)]
pub(super) struct Witness {
    /// What an earlier life has left is known.
    read: bool,
    /// What it says.
    stored: Option<(ClusterId, Epoch)>,
    /// What is wrong with it.
    damage: Option<String>,
    /// The newest durable epoch of the present cluster that this life has heard of.
    known: Epoch,
    /// The file of this life says this.
    noted: Option<Epoch>,
    slot: usize,
    /// What is being written, and since when.
    in_flight: Option<Epoch>,
    began_at: Instant,
}

impl Witness {
    /// Whether what an earlier life has left is known.
    pub(super) fn is_read(&self) -> bool {
        self.read
    }

    /// What is wrong with the file that an earlier life has left.
    pub(super) fn damage(&self) -> Option<&str> {
        self.damage.as_deref()
    }

    /// The newest durable epoch that this life has heard of.
    pub(super) fn known(&self) -> Epoch {
        self.known
    }

    /// Somebody knows that an epoch of the present cluster is durable.
    pub(super) fn hear(&mut self, epoch: Epoch) {
        self.known = self.known.max(epoch);
    }
}

impl Control {
    /// The path of the file.
    fn watermark_path() -> String {
        format!("{}/{WATERMARK_FILE}", journal::DIRECTORY)
    }

    /// The directory is known: reads the file if it is there.
    pub(super) fn look_for_watermark(&mut self, ctx: &mut Ctx<'_>, length: Option<u64>) {
        match length {
            Some(length) => {
                let path = Self::watermark_path();
                ctx.disk(LANE, READ, vec![DiskOperation::Read { path, offset: 0, length }]);
            }
            None => self.witness.read = true,
        }
    }

    /// The disk has answered a request of this file.
    pub(super) fn watermark_answered(
        &mut self,
        ctx: &mut Ctx<'_>,
        token: u64,
        result: Result<Vec<DiskAnswer>, DiskError>,
    ) {
        if token == READ {
            self.watermark_read(result);
            return self.begin(ctx);
        }
        let epoch = self.witness.in_flight.take().expect("it was asked for");
        match result {
            Ok(_) => self.witness.noted = Some(epoch),
            Err(error) if error.kind == DiskErrorKind::Full => {
                probe!(ctx, "control: no space for the watermark");
            }
            Err(error) => self.halt(ctx, Halt::DiskFailed(error.to_string())),
        }
    }

    fn watermark_read(&mut self, result: Result<Vec<DiskAnswer>, DiskError>) {
        self.witness.read = true;
        let path = Self::watermark_path();
        let bytes = match result.map(|mut answers| answers.pop()) {
            Ok(Some(DiskAnswer::Bytes(bytes))) => bytes,
            Ok(_) => panic!("a read is answered with bytes"),
            Err(error) => {
                self.witness.damage = Some(format!("{path}: it cannot be read: {error}"));
                return;
            }
        };
        let Watermarks { newest, damage } = Watermarks::read(&bytes);
        match newest {
            Some(found) if found.node == self.node && found.worker.is_none() => {
                self.witness.stored = Some((found.cluster, found.epoch));
            }
            Some(found) => {
                self.witness.damage = Some(format!("{path}: it is of another node: {found}"));
            }
            // One slot that is not sound may be what a crash has left of a write.
            None => {
                let what = damage.map(|damage| damage.to_string()).unwrap_or_default();
                self.witness.damage = Some(format!("{path}: {what}"));
            }
        }
    }

    /// Writes what is newer than the file says, if it is time.
    pub(super) fn write_watermark(&mut self, ctx: &mut Ctx<'_>) {
        let has_log = self.durable.as_ref().is_some_and(|durable| durable.has_file());
        let witness = &self.witness;
        let due = witness.noted.is_none() || ctx.now().since(witness.began_at) >= INTERVAL;
        let newer = witness.noted.is_none_or(|noted| witness.known > noted);
        let member = self.own_member().is_some() && self.state.started;
        if !has_log || !member || !due || !newer || witness.in_flight.is_some() {
            return;
        }
        let epoch = witness.known.max(self.stored_watermark().unwrap_or(Epoch(0)));
        let (cluster, node) = (self.state.id, self.node);
        let watermark = Watermark { cluster, node, worker: None, epoch, held: Epoch(0) };
        let path = Self::watermark_path();
        let operations = if self.witness.noted.is_none() {
            let (new, bytes) = (format!("{path}.new"), watermark.file());
            vec![
                DiskOperation::Remove { path: new.clone() },
                DiskOperation::Write { path: new.clone(), offset: 0, bytes },
                DiskOperation::Sync { path: new.clone() },
                DiskOperation::Rename { from: new, to: path },
                DiskOperation::SyncDirectory { path: journal::DIRECTORY.to_string() },
            ]
        } else {
            self.witness.slot += 1;
            let (offset, bytes) = watermark.encode(self.witness.slot);
            let write = DiskOperation::Write { path: path.clone(), offset, bytes };
            vec![write, DiskOperation::Sync { path }]
        };
        self.witness.in_flight = Some(epoch);
        self.witness.began_at = ctx.now();
        ctx.disk(LANE, WRITE, operations);
    }

    /// What the file of an earlier life says of the present cluster, as far as it still counts.
    fn stored_watermark(&self) -> Option<Epoch> {
        let stored = self.witness.stored.filter(|(cluster, _)| *cluster == self.state.id);
        stored.map(|(_, epoch)| self.state.restorable(epoch))
    }

    /// The newest epoch that this node's disk says was durable, and in which cluster: of the one
    /// that its control log belongs to, if it has one.
    pub(super) fn durable_evidence(&self) -> Option<(ClusterId, Epoch)> {
        let known = (self.witness.known > Epoch(0)).then_some((self.state.id, self.witness.known));
        let workers = self.restore.found().filter_map(|found| found.durable);
        let all = workers.chain(self.witness.stored).chain(known);
        // Of another cluster only when nothing is known of the present one.
        all.max_by_key(|(cluster, epoch)| (*cluster == self.state.id, *epoch))
    }

    /// A worker of this node has noted that an epoch is durable.
    pub(super) fn receive_worker_durable(&mut self, epoch: Epoch) {
        if self.role == NodeRole::Data {
            self.witness.hear(epoch);
        }
    }
}
