//! One joined scan of one partition: what is scanned, looked up and ready.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use model::{Address, ClusterState, Epoch, ErrorCode, PartitionId, Refusal, Table, Value};
use vector::{
    Bad, Block, GROUPS_BYTES_MAX, Inexact, JoinedRows, Kind, Lookup, LookupJoin, LookupKeys,
    Program, RangeJoin, Yield,
};
use wire::{Projection, ScanBatch, ScanId, ScanRequest, ScanRows, ScanStatus};

use super::Key;
use crate::event::Token;
use crate::request::{ClientRead, ReadKey, ScanRange, ScanSpec};

/// Bytes of blocks after which a batch is sent.
const BATCH_BYTES: usize = 64 << 10;
/// The protocol version that brought lookups of many rows, and rows that come with a plan.
const RANGES_SINCE: u16 = 13;
/// Keys that one scan looks for, and what their values may take.
const SCAN_KEYS_MAX: usize = 1_024;
const SCAN_KEYS_BYTES_MAX: usize = 64 << 10;
/// Scans for one lookup at a time.
const SCANS_AT_ONCE: usize = 8;
/// What a step of a lookup of many rows counts as.
const RANGE_STEP_ROWS: usize = 1_024;
/// Rows that are joined before others have a turn.
const TURN_ROWS: usize = 16_384;

/// A joined scan of a partition.
#[derive(Debug)]
pub(super) struct Join {
    reply_to: Address,
    snapshot: Option<Epoch>,
    plan: LookupJoin,
    scan: Scan,
    /// Scanned, and not begun with.
    blocks: VecDeque<Block>,
    /// What is made of rows of lookups that find many, one for each lookup.
    programs: Vec<Option<Arc<Program>>>,
    /// Rows on their way through the lookups: those of an entry have come of the one before, which
    /// goes on when they are through.
    levels: Vec<Level>,
    /// Rows that were joined since others had a turn.
    turn_rows: usize,
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
struct Level {
    /// Which lookup is next, or under way.
    lookup: usize,
    work: Work,
}

/// How far rows are with a lookup.
#[derive(Debug)]
enum Work {
    /// Nothing has been done for them.
    Begin(JoinedRows),
    /// Rows by whole keys are looked up.
    Single(JoinedRows, UnderWay),
    /// Rows that begin with keys are looked for, or are given.
    Range(Box<RangeWork>),
}

/// A lookup of many rows under way.
#[derive(Debug)]
struct RangeWork {
    join: RangeJoin,
    /// What has not been asked for.
    keys: VecDeque<KeysOfScan>,
    /// The scans that were opened, each with whether it was asked for rows.
    open: BTreeMap<Token, bool>,
    /// Found, and not joined.
    found: VecDeque<Block>,
}

/// Keys that one scan looks for, and where if that is one partition.
#[derive(Debug, Default)]
struct KeysOfScan {
    partition_key: Option<Vec<Value>>,
    keys: Vec<Vec<Value>>,
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
    /// Open a scan for a lookup.
    Open(Box<ScanSpec>),
    /// Ask such a scan for more.
    More(Token),
    /// Others have a turn first.
    Again,
    /// Send the client this.
    Send { to: Address, batch: ScanBatch },
    /// It cannot go on.
    Fail(Refusal),
}

impl Join {
    /// A join for a request; the request becomes that of the scan without it.
    pub(super) fn new(
        cluster: &ClusterState,
        protocol: u16,
        request: &mut ScanRequest,
    ) -> Result<Self, Refusal> {
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
        let is_of_many = |lookup: &Lookup| lookup.range.is_some() || lookup.given.is_some();
        let ranges = plan.lookups.iter().any(is_of_many);
        if ranges && protocol < RANGES_SINCE {
            return Err(ErrorCode::OlderNode.into());
        }
        let program =
            |lookup: &Lookup| lookup.range.as_ref().map(|range| Arc::new(range.program.clone()));
        let programs = plan.lookups.iter().map(program).collect();
        let scanned: Vec<Kind> = nodes.iter().map(|node| kinds[usize::from(*node)]).collect();
        Ok(Self {
            reply_to: request.reply_to,
            snapshot: request.snapshot,
            plan: LookupJoin::new(plan, &scanned, table_of).map_err(refused)?,
            scan: Scan::Asked,
            blocks: VecDeque::new(),
            programs,
            levels: Vec::new(),
            turn_rows: 0,
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

    /// The scans that were opened for lookups.
    pub(super) fn scans(&self) -> impl Iterator<Item = Token> + '_ {
        self.levels.iter().flat_map(|level| match &level.work {
            Work::Range(work) => work.open.keys().copied().collect(),
            _ => Vec::new(),
        })
    }

    /// A request for keys of the lookup under way has been sent, or a scan for it opened.
    pub(super) fn awaits(&mut self, token: Token) {
        match self.levels.last_mut().map(|level| &mut level.work) {
            Some(Work::Single(_, under_way)) => {
                under_way.found.insert(token, None);
            }
            Some(Work::Range(work)) => {
                work.open.insert(token, true);
            }
            _ => panic!("keys are looked up"),
        }
    }

    /// Takes what has been found; whether that was all.
    pub(super) fn found(
        &mut self,
        cluster: &ClusterState,
        token: Token,
        rows: Vec<Option<Vec<Value>>>,
    ) -> Result<bool, Refusal> {
        let level = self.levels.last_mut().expect("keys are looked up");
        // They were decoded by the definition that there is now.
        unchanged(cluster, &self.plan.lookups()[level.lookup])?;
        let Work::Single(_, under_way) = &mut level.work else { panic!("keys are looked up") };
        under_way.found.insert(token, Some(rows));
        Ok(under_way.found.values().all(Option::is_some))
    }

    /// Takes what a scan for a lookup has found.
    pub(super) fn found_many(
        &mut self,
        token: Token,
        blocks: Vec<Block>,
        finished: bool,
        examined: u64,
    ) {
        self.examined += examined;
        let works = self.levels.iter_mut().rev().filter_map(|level| match &mut level.work {
            Work::Range(work) => Some(work),
            _ => None,
        });
        let work = works.into_iter().find(|work| work.open.contains_key(&token));
        let work = work.expect("the scan was opened for a lookup");
        work.found.extend(blocks);
        if finished {
            work.open.remove(&token)
        } else {
            work.open.insert(token, false)
        };
    }

    /// A message has come: what is done for it is a turn.
    pub(super) fn begin_turn(&mut self) {
        self.turn_rows = 0;
    }

    /// What is to be done now. A batch that is to be sent is taken out.
    pub(super) fn next(&mut self, cluster: &ClusterState, key: Key) -> Next {
        loop {
            if self.ready_bytes >= BATCH_BYTES {
                return if self.asked {
                    self.send(key.0, key.1, ScanStatus::More)
                } else {
                    Next::Wait
                };
            }
            if self.turn_rows >= TURN_ROWS {
                return Next::Again;
            }
            if let Some(level) = self.levels.pop() {
                match self.advance(cluster, level) {
                    Ok(Some(next)) => return next,
                    Ok(None) => continue,
                    Err(Stop::Inexact) => {
                        let detail = "a value of the join cannot be computed";
                        return Next::Fail(Refusal::new(ErrorCode::NotPushed, detail));
                    }
                    Err(Stop::Refused(refusal)) => return Next::Fail(refusal),
                }
            }
            if let Some(block) = self.blocks.pop_front() {
                self.levels.push(Level::new(0, JoinedRows::new(block)));
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
                    return if self.asked {
                        self.send(key.0, key.1, ScanStatus::Finished)
                    } else {
                        Next::Wait
                    };
                }
            }
        }
    }

    /// Brings the newest rows a step further; nothing if that needs nobody else.
    fn advance(&mut self, cluster: &ClusterState, level: Level) -> Result<Option<Next>, Stop> {
        let lookup = level.lookup;
        match level.work {
            Work::Begin(rows) => self.begin(cluster, lookup, rows),
            Work::Single(rows, under_way) => {
                if !under_way.found.values().all(Option::is_some) {
                    let work = Work::Single(rows, under_way);
                    self.levels.push(Level { lookup, work });
                    return Ok(Some(Next::Wait));
                }
                let UnderWay { keys, found } = under_way;
                let found: Vec<_> = found.into_values().flatten().flatten().collect();
                let rows = self.plan.join(lookup, rows, &keys, &found)?;
                self.levels.push(Level::new(lookup + 1, rows));
                Ok(None)
            }
            Work::Range(work) => self.go_on(cluster, lookup, work),
        }
    }

    /// Begins a lookup, or makes the result of rows for which all has been looked up.
    fn begin(
        &mut self,
        cluster: &ClusterState,
        at: usize,
        rows: JoinedRows,
    ) -> Result<Option<Next>, Stop> {
        self.turn_rows += rows.len();
        if rows.is_empty() {
            return Ok(None);
        }
        let Some(lookup) = self.plan.lookups().get(at) else {
            if let Some(block) = self.plan.finish(&rows)? {
                self.give(block);
            }
            if self.plan.kept_bytes() >= GROUPS_BYTES_MAX {
                self.give_kept();
            }
            return Ok(None);
        };
        let (open, found) = (BTreeMap::new(), VecDeque::new());
        if lookup.given.is_some() {
            let (join, keys) = (self.plan.with_given(at, rows), VecDeque::new());
            let work = Work::Range(Box::new(RangeWork { join, keys, open, found }));
            self.levels.push(Level { lookup: at, work });
            return Ok(None);
        }
        let mut keys = self.plan.keys(at, &rows);
        let wanted = std::mem::take(&mut keys.keys);
        if lookup.range.is_none() {
            let reads = reads_of(lookup, wanted);
            let asks = !reads.is_empty();
            let work = Work::Single(rows, UnderWay { keys, found: BTreeMap::new() });
            self.levels.push(Level { lookup: at, work });
            return Ok(asks.then_some(Next::LookUp { reads, snapshot: self.snapshot }));
        }
        let keys = keys_of_scans(unchanged(cluster, lookup)?, lookup, wanted);
        let join = self.plan.range(at, rows);
        let work = Work::Range(Box::new(RangeWork { join, keys, open, found }));
        self.levels.push(Level { lookup: at, work });
        Ok(None)
    }

    /// Goes on with a lookup of many rows.
    fn go_on(
        &mut self,
        cluster: &ClusterState,
        at: usize,
        mut work: Box<RangeWork>,
    ) -> Result<Option<Next>, Stop> {
        let mut next = None;
        let mut made = None;
        if !work.join.is_free() {
            made = self.plan.next_of_range(&mut work.join)?;
            self.turn_rows += RANGE_STEP_ROWS;
        } else if let Some(block) = work.found.pop_front() {
            self.turn_rows += block.rows();
            let bad = |Bad(why): Bad| Refusal::new(ErrorCode::NotPushed, why);
            self.plan.take_of_range(&mut work.join, block).map_err(bad)?;
        } else if work.open.len() < SCANS_AT_ONCE
            && let Some(keys) = work.keys.pop_front()
        {
            next = Some(Next::Open(Box::new(self.scan_of(cluster, at, keys)?)));
        } else if let Some((token, asked)) = work.open.iter_mut().find(|(_, asked)| !**asked) {
            *asked = true;
            next = Some(Next::More(*token));
        } else if !work.open.is_empty() {
            next = Some(Next::Wait);
        } else {
            let rows = self.plan.rest_of_range(work.join);
            self.levels.push(Level::new(at + 1, rows));
            return Ok(None);
        }
        self.levels.push(Level { lookup: at, work: Work::Range(work) });
        if let Some(rows) = made {
            self.levels.push(Level::new(at + 1, rows));
        }
        Ok(next)
    }

    /// The scan for some keys of a lookup.
    fn scan_of(
        &self,
        cluster: &ClusterState,
        at: usize,
        keys: KeysOfScan,
    ) -> Result<ScanSpec, Refusal> {
        let lookup = &self.plan.lookups()[at];
        unchanged(cluster, lookup)?;
        let (Some(index), Some(program)) = (lookup.index, &self.programs[at]) else {
            panic!("a lookup of many rows has an index and a program");
        };
        let columns = program.inputs.iter().map(|input| input.column);
        Ok(ScanSpec {
            range: ScanRange::Keys { index, keys: keys.keys },
            projection: Projection::of(columns.collect()),
            partition_keys: keys.partition_key.map(|key| vec![key]),
            snapshot: self.snapshot,
            program: Some(program.clone()),
            ..ScanSpec::heap(lookup.table)
        })
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
        if bytes <= BATCH_BYTES {
            self.ready.push_back(block)
        } else {
            self.ready.extend(block.pieces(usize::MAX, BATCH_BYTES))
        }
    }

    /// A batch of what is ready. It has this status if nothing is left.
    fn send(&mut self, scan: ScanId, partition: PartitionId, if_last: ScanStatus) -> Next {
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

/// Why a join cannot go on.
enum Stop {
    Inexact,
    Refused(Refusal),
}

impl From<Inexact> for Stop {
    fn from(_: Inexact) -> Self {
        Self::Inexact
    }
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl Level {
    /// Rows that come to a lookup, or to the end.
    fn new(lookup: usize, rows: JoinedRows) -> Self {
        Self { lookup, work: Work::Begin(rows) }
    }
}

/// The table of a lookup, if it is still the one that the plan was made for.
fn unchanged<'c>(cluster: &'c ClusterState, lookup: &Lookup) -> Result<&'c Table, Refusal> {
    let table = cluster.tables.get(&lookup.table);
    let table = table.filter(|table| table.version == lookup.version);
    table.map(|table| &**table).ok_or(Refusal::new(ErrorCode::SchemaChanged, "a table of a join"))
}

/// The keys of a lookup by the scans that look for them. Where the key says in which partition its
/// rows are, they are looked for there alone.
fn keys_of_scans(table: &Table, lookup: &Lookup, keys: Vec<Vec<Value>>) -> VecDeque<KeysOfScan> {
    let index = lookup.index.and_then(|index| table.ordered_index(index));
    let columns = index.map_or(&[][..], |index| &index.columns[..lookup.key.len()]);
    let place = |column| columns.iter().position(|of| of == column);
    let places: Option<Vec<usize>> = table.distribution_key.iter().map(place).collect();
    let mut by_partition: BTreeMap<_, KeysOfScan> = BTreeMap::new();
    for key in keys {
        let of_partition: Option<Vec<Value>> = places
            .as_ref()
            .and_then(|places| places.iter().map(|at| key.get(*at).cloned()).collect());
        let hash = of_partition.as_deref().and_then(|key| table.partition_of_distribution(key));
        let of = by_partition.entry(hash).or_default();
        of.partition_key = of_partition.filter(|_| hash.is_some());
        of.keys.push(key);
    }
    by_partition.into_values().flat_map(KeysOfScan::pieces).collect()
}

impl KeysOfScan {
    /// The same in several scans, where they are many.
    fn pieces(self) -> Vec<Self> {
        let mut pieces: Vec<Self> = Vec::new();
        let mut bytes = SCAN_KEYS_BYTES_MAX;
        for key in self.keys {
            let size: usize = key.iter().map(size_of_value).sum();
            let fits = |piece: &&mut Self| {
                piece.keys.len() < SCAN_KEYS_MAX && bytes + size <= SCAN_KEYS_BYTES_MAX
            };
            match pieces.last_mut().filter(fits) {
                Some(piece) => piece.keys.push(key),
                None => {
                    bytes = 0;
                    let partition_key = self.partition_key.clone();
                    pieces.push(Self { partition_key, keys: vec![key] });
                }
            }
            bytes += size;
        }
        pieces
    }
}

/// About how many bytes a value takes in a key.
fn size_of_value(value: &Value) -> usize {
    match value {
        Value::Bytes(bytes) => 16 + bytes.len(),
        _ => 16,
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
