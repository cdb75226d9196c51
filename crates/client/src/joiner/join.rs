//! One joined scan of one partition: what is scanned, looked up and ready.

use std::collections::{BTreeMap, VecDeque};

use model::{Address, ClusterState, Epoch, ErrorCode, Refusal, Value};
use vector::{
    Bad, Block, GROUPS_BYTES_MAX, Inexact, JoinedRows, Kind, Lookup, LookupJoin, LookupKeys, Yield,
};
use wire::{Projection, ScanBatch, ScanRequest, ScanRows, ScanStatus};

use super::Key;
use crate::event::Token;
use crate::request::{ClientRead, ReadKey};

/// Bytes of blocks after which a batch is sent.
const BATCH_BYTES: usize = 64 << 10;

/// A joined scan of a partition.
#[derive(Debug)]
pub(super) struct Join {
    reply_to: Address,
    snapshot: Option<Epoch>,
    plan: LookupJoin,
    scan: Scan,
    /// Scanned, and not begun with.
    blocks: VecDeque<Block>,
    work: Option<Work>,
    /// Ready for the client.
    ready: VecDeque<Block>,
    ready_bytes: usize,
    /// Rows that were scanned for what has not been sent.
    examined: u64,
    /// The client awaits a batch.
    asked: bool,
}

/// How far the participant is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scan {
    /// It was asked for a batch.
    Asked,
    /// It has more when asked.
    More,
    /// It has sent all.
    Finished,
}

/// Rows on their way through the lookups.
#[derive(Debug)]
struct Work {
    rows: JoinedRows,
    /// Which lookup is next, or under way.
    lookup: usize,
    under_way: Option<UnderWay>,
}

/// A lookup for some rows.
#[derive(Debug)]
struct UnderWay {
    keys: LookupKeys,
    /// What has been found, by request; these are in the order of the keys.
    found: BTreeMap<Token, Option<Vec<Option<Vec<Value>>>>>,
}

/// What is to be done for a join.
pub(super) enum Next {
    /// Nothing until a message comes.
    Wait,
    /// Ask the participant for a batch.
    Scan,
    /// Look these up.
    LookUp { reads: Vec<ClientRead>, snapshot: Option<Epoch> },
    /// Send the client this.
    Send { to: Address, batch: ScanBatch },
    /// It cannot go on.
    Fail(Refusal),
}

impl Join {
    /// A join for a request; the request becomes that of the scan without it.
    pub(super) fn new(cluster: &ClusterState, request: &mut ScanRequest) -> Result<Self, Refusal> {
        let refused = |Bad(why): Bad| Refusal::new(ErrorCode::NotPushed, why);
        let (plan, program) = match (request.join.take(), &request.program) {
            (Some(plan), Some(program)) => (plan, program),
            _ => return Err(refused(Bad("a joined scan has a plan and a program"))),
        };
        let table_of = |id| cluster.tables.get(&id).map(|table| &**table);
        let Some(table) = table_of(request.partition.table) else {
            return Err(ErrorCode::UnknownTable.into());
        };
        let kinds = program.check(table).map_err(refused)?;
        let Yield::Rows(nodes) = &program.yields else {
            return Err(refused(Bad("rows are joined, not groups")));
        };
        let scanned: Vec<Kind> = nodes.iter().map(|node| kinds[usize::from(*node)]).collect();
        Ok(Self {
            reply_to: request.reply_to,
            snapshot: request.snapshot,
            plan: LookupJoin::new(plan, &scanned, table_of).map_err(refused)?,
            scan: Scan::Asked,
            blocks: VecDeque::new(),
            work: None,
            ready: VecDeque::new(),
            ready_bytes: 0,
            examined: 0,
            asked: true,
        })
    }

    /// Where batches go.
    pub(super) fn reply_to(&self) -> Address {
        self.reply_to
    }

    /// Whether the participant has forgotten the scan.
    pub(super) fn is_scanned(&self) -> bool {
        self.scan == Scan::Finished
    }

    /// The client awaits a batch.
    pub(super) fn ask(&mut self) {
        self.asked = true;
    }

    /// Takes what has been scanned.
    pub(super) fn take(&mut self, batch: ScanBatch) -> Result<(), Refusal> {
        self.scan = match batch.status {
            ScanStatus::More => Scan::More,
            ScanStatus::Finished => Scan::Finished,
            ScanStatus::Failed(refusal) => {
                self.scan = Scan::Finished;
                return Err(refusal);
            }
        };
        if !batch.rows.is_empty() {
            return Err(Refusal::new(ErrorCode::NotPushed, "rows that cannot be computed with"));
        }
        self.examined += batch.examined;
        self.blocks.extend(batch.blocks);
        Ok(())
    }

    /// A request for keys of the lookup under way has been sent.
    pub(super) fn awaits(&mut self, token: Token) {
        let under_way = self.work.as_mut().and_then(|work| work.under_way.as_mut());
        under_way.expect("keys are looked up").found.insert(token, None);
    }

    /// Takes what has been found; whether that was all.
    pub(super) fn found(
        &mut self,
        cluster: &ClusterState,
        token: Token,
        rows: Vec<Option<Vec<Value>>>,
    ) -> Result<bool, Refusal> {
        let work = self.work.as_mut().expect("keys are looked up");
        let lookup = &self.plan.lookups()[work.lookup];
        // They were decoded by the definition that there is now.
        let table = cluster.tables.get(&lookup.table);
        if table.is_none_or(|table| table.version != lookup.version) {
            return Err(Refusal::new(ErrorCode::SchemaChanged, "a table of a join"));
        }
        let found = &mut work.under_way.as_mut().expect("keys are looked up").found;
        found.insert(token, Some(rows));
        Ok(found.values().all(Option::is_some))
    }

    /// What is to be done now. A batch that is to be sent is taken out.
    pub(super) fn next(&mut self, key: Key) -> Next {
        loop {
            if self.asked && self.ready_bytes >= BATCH_BYTES {
                return self.send(key, ScanStatus::More);
            }
            if let Some(work) = self.work.take() {
                match self.advance(work) {
                    Ok(Some(next)) => return next,
                    Ok(None) => continue,
                    Err(Inexact) => {
                        let detail = "a value of the join cannot be computed";
                        return Next::Fail(Refusal::new(ErrorCode::NotPushed, detail));
                    }
                }
            }
            if self.ready_bytes >= BATCH_BYTES {
                return Next::Wait;
            }
            if let Some(block) = self.blocks.pop_front() {
                let rows = JoinedRows::new(block);
                self.work = Some(Work { rows, lookup: 0, under_way: None });
                continue;
            }
            match self.scan {
                Scan::Asked => return Next::Wait,
                Scan::More => {
                    self.scan = Scan::Asked;
                    return Next::Scan;
                }
                Scan::Finished => {
                    self.give_kept();
                    return match self.asked {
                        true => self.send(key, ScanStatus::Finished),
                        false => Next::Wait,
                    };
                }
            }
        }
    }

    /// Brings rows a step further; nothing if that needs nobody else.
    fn advance(&mut self, mut work: Work) -> Result<Option<Next>, Inexact> {
        if let Some(UnderWay { keys, found }) = work.under_way.take() {
            if !found.values().all(Option::is_some) {
                work.under_way = Some(UnderWay { keys, found });
                self.work = Some(work);
                return Ok(Some(Next::Wait));
            }
            let found: Vec<_> = found.into_values().flatten().flatten().collect();
            work.rows = self.plan.join(work.lookup, work.rows, &keys, &found)?;
            work.lookup += 1;
        }
        let Some(lookup) = self.plan.lookups().get(work.lookup).filter(|_| !work.rows.is_empty())
        else {
            if let Some(block) = self.plan.finish(&work.rows)? {
                self.give(block);
            }
            if self.plan.kept_bytes() >= GROUPS_BYTES_MAX {
                self.give_kept();
            }
            return Ok(None);
        };
        let mut keys = self.plan.keys(work.lookup, &work.rows);
        let reads = reads_of(lookup, std::mem::take(&mut keys.keys));
        let asks = !reads.is_empty();
        work.under_way = Some(UnderWay { keys, found: BTreeMap::new() });
        self.work = Some(work);
        Ok(asks.then_some(Next::LookUp { reads, snapshot: self.snapshot }))
    }

    /// Makes ready what has been kept: groups, or the first rows.
    fn give_kept(&mut self) {
        if let Some(block) = self.plan.take_kept() {
            self.give(block);
        }
    }

    /// Makes a block ready, in pieces that fit a batch.
    fn give(&mut self, block: Block) {
        let bytes = block.memory_bytes();
        self.ready_bytes += bytes;
        match bytes <= BATCH_BYTES {
            true => self.ready.push_back(block),
            false => self.ready.extend(block.pieces(usize::MAX, BATCH_BYTES)),
        }
    }

    /// A batch of what is ready. It has this status if nothing is left.
    fn send(&mut self, (scan, partition): Key, if_last: ScanStatus) -> Next {
        let (mut blocks, mut bytes) = (Vec::new(), 0);
        while bytes < BATCH_BYTES
            && let Some(block) = self.ready.pop_front()
        {
            bytes += block.memory_bytes();
            blocks.push(block);
        }
        self.ready_bytes = self.ready.iter().map(Block::memory_bytes).sum();
        let status = if self.ready.is_empty() { if_last } else { ScanStatus::More };
        self.asked = false;
        let examined = std::mem::take(&mut self.examined);
        let rows = ScanRows::default();
        let batch = ScanBatch { scan, partition, rows, status, blocks, examined };
        Next::Send { to: self.reply_to, batch }
    }
}

/// The reads of a lookup.
fn reads_of(lookup: &Lookup, keys: Vec<Vec<Value>>) -> Vec<ClientRead> {
    let columns = lookup.columns.iter().map(|input| input.column);
    let projection = Projection::of(columns.collect());
    let read = |key| ClientRead {
        table: lookup.table,
        key: match lookup.index {
            None => ReadKey::Primary(key),
            Some(index) => ReadKey::Unique { index, key },
        },
        projection: projection.clone(),
    };
    keys.into_iter().map(read).collect()
}
