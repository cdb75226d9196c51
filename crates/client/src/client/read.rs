//! Committed reads by key, straight at replicas: one request per replica and round.
//!
//! A read by a unique key takes two rounds: the index entry, then the row. The row must still
//! have the key, as it can have changed in between; if not, the entry is read again.

use std::sync::Arc;

use actor::{Ctx, probe};
use model::{
    Address, ClusterState, Epoch, ErrorCode, IndexId, IndexState, PartitionId, Refusal, Row,
    SessionId, Table, UniqueIndexDef, Value,
};
use stdx::Few;
use wire::{KeyRead, Message, ParticipantMessage, Projection, ReadRequest};

use super::Client;
use super::call::{Call, Work};
use super::encode::{self, Decoders, RowDecoder};
use super::route::Life;
use crate::event::{ClientResult, SessionNumber, Token};
use crate::request::{ClientRead, ReadKey};

/// How often a unique entry is read again because its row had changed, before the client pauses.
const RECHECKS_MAX: u32 = 4;

/// Reads under way.
#[derive(Debug)]
pub(super) struct ReadCall {
    snapshot: Option<Epoch>,
    keys: Few<KeyState>,
    parts: Few<Part>,
}

#[derive(Debug)]
struct KeyState {
    read: ClientRead,
    /// By unique key: the primary key that the index entry names.
    entry: Option<Vec<Value>>,
    rechecks: u32,
    answer: Option<Option<Vec<Value>>>,
}

/// What was asked of one replica.
#[derive(Debug)]
struct Part {
    address: Address,
    life: Life,
    /// Positions of the keys, with what reads their answers.
    keys: Few<(usize, Plan)>,
    answered: bool,
}

/// What one key asks for in this round.
#[derive(Debug)]
struct Plan {
    decoder: Arc<RowDecoder>,
    goal: Goal,
}

#[derive(Debug)]
enum Goal {
    /// The row itself.
    Row,
    /// The entry of a unique index: its table's columns that make the base table's primary key.
    Entry { primary_key: Vec<usize> },
    /// The row an entry has named.
    Named { table: Arc<Table>, index: IndexId },
}

impl ReadCall {
    /// Whose answers are awaited.
    pub(super) fn awaited(&self) -> Vec<Life> {
        self.parts.iter().filter(|part| !part.answered).map(|part| part.life).collect()
    }
}

fn work(call: &mut Call) -> &mut ReadCall {
    match &mut call.work {
        Work::Read(work) => work,
        other => panic!("a read, not {other:?}"),
    }
}

/// Refusals after which a read is tried again, elsewhere or by newer state.
fn read_again(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::NodeFailed
            | ErrorCode::NotServing
            | ErrorCode::StaleRoute
            | ErrorCode::SchemaChanged
            | ErrorCode::ShuttingDown
    )
}

impl Client {
    /// Reads rows as committed, or as of a snapshot the session holds; outside any transaction.
    ///
    /// Ends in `Read` with one row or none per key, or in `Failed` for all. The rows of one
    /// request without a snapshot need not belong to one moment.
    pub fn read(
        &mut self,
        ctx: &mut Ctx<'_>,
        session: SessionNumber,
        reads: Vec<ClientRead>,
        snapshot: Option<Epoch>,
    ) -> Token {
        let (token, admitted) = self.begin_call(ctx, session, false);
        if !admitted {
            return token;
        }
        let limit = ctx.config().batch_max;
        if reads.len() > limit as usize {
            let refusal = Refusal::new(ErrorCode::BatchLimit, format!("at most {limit}"));
            self.emit(session, token, ClientResult::Failed(refusal));
        } else {
            let new = |read| KeyState { read, entry: None, rechecks: 0, answer: None };
            let keys = reads.into_iter().map(new).collect();
            let work = Work::Read(Box::new(ReadCall { snapshot, keys, parts: Few::new() }));
            self.send_reads(ctx, token, Call::new(session, work));
        }
        self.arm(ctx);
        token
    }

    /// Sends the next round, or ends the call when all keys are answered.
    pub(super) fn send_reads(&mut self, ctx: &mut Ctx<'_>, token: Token, mut call: Call) {
        let session = call.session;
        let request = call.request(token);
        let preference = session.0.wrapping_add(call.retries);
        // Most often there is one; there are never more than workers in the cluster.
        let mut messages: Few<(Part, Vec<KeyRead>)> = Few::new();
        let snapshot = work(&mut call).snapshot;
        for (at, key) in work(&mut call).keys.iter().enumerate() {
            if key.answer.is_some() {
                continue;
            }
            let planned = plan(ctx.cluster(), &mut self.decoders, key);
            let planned = planned.and_then(|(partition, read, plan)| {
                let reader = self.choose_reader(ctx, partition, preference);
                let nobody = || Refusal::new(ErrorCode::NotServing, partition.to_string());
                Ok((reader.ok_or_else(nobody)?, read, plan))
            });
            let ((address, life), read, plan) = match planned {
                Ok(planned) => planned,
                Err(refusal) => return self.read_refused(ctx, token, call, refusal),
            };
            match messages.iter_mut().find(|(part, _)| part.address == address) {
                Some((part, reads)) => {
                    part.keys.push((at, plan));
                    reads.push(read);
                }
                None => {
                    let part = Part { address, life, keys: Few::one((at, plan)), answered: false };
                    messages.push((part, vec![read]));
                }
            }
        }
        let id = self.session_mut(session).id;
        let mut parts = Few::new();
        for (part, reads) in messages {
            let message = ReadRequest { session: id, request, snapshot, reads };
            let message = ParticipantMessage::Read(Box::new(message));
            ctx.send(part.address, Message::Participant(message));
            parts.push(part);
        }
        if parts.is_empty() {
            let Work::Read(work) = call.work else { panic!("a read") };
            let answers = work.keys.into_iter().map(|key| key.answer.expect("all are answered"));
            return self.finish(token, session, ClientResult::Read(answers.collect()));
        }
        work(&mut call).parts = parts;
        self.put_sent(ctx, token, call);
    }

    /// Takes a replica's answer.
    pub(super) fn read_reply(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Address,
        session: SessionId,
        request: u64,
        result: Result<Vec<Option<Row>>, Refusal>,
    ) {
        let Some(number) = self.session_named(session) else { return };
        let Some((token, mut call)) = self.take_numbered(request, number) else { return };
        let cluster = ctx.cluster().clone();
        let taken = match result {
            Ok(rows) => work(&mut call).answer(&cluster, from, rows),
            Err(refusal) => {
                self.avoid_refuser(ctx, from, &refusal);
                Err(refusal)
            }
        };
        if let Err(refusal) = taken {
            return self.read_refused(ctx, token, call, refusal);
        }
        let work = work(&mut call);
        if work.parts.iter().any(|part| !part.answered) {
            return self.put_back(token, call);
        }
        work.parts = Few::new();
        let unsteady = work.keys.iter().any(|key| key.rechecks > RECHECKS_MAX);
        if unsteady {
            probe!(ctx, "client: row behind a unique entry kept changing");
            for key in work.keys.iter_mut() {
                key.rechecks = 0;
            }
            let refusal = Refusal::new(ErrorCode::LockTimeout, "the row kept changing");
            return self.retry_read(ctx, token, call, refusal);
        }
        call.attempt = call.attempt.wrapping_add(1);
        self.send_reads(ctx, token, call);
    }

    fn read_refused(&mut self, ctx: &mut Ctx<'_>, token: Token, call: Call, refusal: Refusal) {
        if read_again(refusal.code) {
            self.retry_read(ctx, token, call, refusal);
        } else {
            self.finish(token, call.session, ClientResult::Failed(refusal));
        }
    }

    fn retry_read(&mut self, ctx: &mut Ctx<'_>, token: Token, mut call: Call, refusal: Refusal) {
        if !self.may_retry(ctx, &call) {
            return self.finish(token, call.session, ClientResult::Failed(refusal));
        }
        probe!(ctx, "client: read tried again");
        // Keys that are answered stay so; answers still on their way are asked for again.
        work(&mut call).parts = Few::new();
        self.put_retry(ctx, token, call);
    }

    /// Some answers will not come: other replicas have the rows too.
    pub(super) fn reads_lost(&mut self, ctx: &mut Ctx<'_>, token: Token, call: Call) {
        let refusal = Refusal::new(ErrorCode::NodeFailed, "a replica that was read from");
        self.retry_read(ctx, token, call, refusal);
    }
}

impl ReadCall {
    /// Takes the rows one replica has answered.
    fn answer(
        &mut self,
        cluster: &ClusterState,
        from: Address,
        rows: Vec<Option<Row>>,
    ) -> Result<(), Refusal> {
        let asked = |part: &&mut Part| part.address == from && !part.answered;
        let Some(part) = self.parts.iter_mut().find(asked) else { return Ok(()) };
        if rows.len() != part.keys.len() {
            let detail = format!("{} answers to {} keys", rows.len(), part.keys.len());
            return Err(Refusal::new(ErrorCode::Internal, detail));
        }
        part.answered = true;
        let snapshot = self.snapshot.is_some();
        for ((at, plan), row) in part.keys.iter().zip(rows) {
            let values = row.map(|row| plan.decoder.decode(cluster, &row)).transpose()?;
            self.keys[*at].take(&plan.goal, values, snapshot)?;
        }
        Ok(())
    }
}

impl KeyState {
    /// Takes what this round has found.
    fn take(
        &mut self,
        goal: &Goal,
        values: Option<Vec<Value>>,
        snapshot: bool,
    ) -> Result<(), Refusal> {
        match (goal, values) {
            (Goal::Row, row) => self.answer = Some(row),
            (Goal::Entry { .. }, None) => self.answer = Some(None),
            (Goal::Entry { primary_key }, Some(entry)) => {
                self.entry = Some(primary_key.iter().map(|at| entry[*at].clone()).collect());
            }
            (Goal::Named { table, index }, row) => {
                let fits = |row: &Vec<Value>| self.has_key(table, *index, row);
                match row.filter(fits) {
                    Some(row) => self.answer = Some(Some(project(row, &self.read.projection))),
                    None if snapshot => {
                        let detail = format!("{}: entry without its row", table.name);
                        return Err(Refusal::new(ErrorCode::Internal, detail));
                    }
                    None => {
                        self.entry = None;
                        self.rechecks += 1;
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether a row has the unique key that is looked for.
    fn has_key(&self, table: &Table, index: IndexId, row: &[Value]) -> bool {
        let (ReadKey::Unique { key, .. }, Some(index)) =
            (&self.read.key, table.unique_index(index))
        else {
            return false;
        };
        let found: Vec<Value> =
            index.columns.iter().map(|column| row[usize::from(column.0)].clone()).collect();
        // Compared encoded: values of different kinds can be equal.
        let found = table.key_of_values(&index.columns, &found);
        found.is_some() && found == table.key_of_values(&index.columns, key)
    }
}

/// What to read next for a key, and where.
fn plan(
    cluster: &ClusterState,
    decoders: &mut Decoders,
    key: &KeyState,
) -> Result<(PartitionId, KeyRead, Plan), Refusal> {
    let table = encode::table_of(cluster, key.read.table)?;
    let (read_from, values, projection, goal) = match (&key.read.key, &key.entry) {
        (ReadKey::Primary(values), _) => (table, values, &key.read.projection, Goal::Row),
        (ReadKey::Unique { index, key: values }, None) => {
            let definition = online(table, *index)?;
            let hidden = encode::table_of(cluster, definition.table)?;
            // Refuses a bad projection before anything is read.
            RowDecoder::of(decoders, table, &key.read.projection)?;
            let primary_key = primary_key_in_entry(table, hidden)?;
            (hidden, values, &Projection::All, Goal::Entry { primary_key })
        }
        (ReadKey::Unique { index, .. }, Some(primary_key)) => {
            online(table, *index)?;
            let goal = Goal::Named { table: table.clone(), index: *index };
            (table, primary_key, &Projection::All, goal)
        }
    };
    let decoder = RowDecoder::of(decoders, read_from, projection)?;
    let (partition, encoded) = encode::key_of(read_from, values)?;
    let read = KeyRead { partition, key: encoded, projection: projection.clone() };
    Ok((partition, read, Plan { decoder, goal }))
}

fn online(table: &Table, index: IndexId) -> Result<&UniqueIndexDef, Refusal> {
    let definition = table.unique_index(index).filter(|def| def.state == IndexState::Online);
    definition.ok_or_else(|| Refusal::new(ErrorCode::UnknownIndex, index.to_string()))
}

/// The columns of an index's table that make the base table's primary key. Columns of the two
/// tables correspond by name.
pub(crate) fn primary_key_in_entry(table: &Table, hidden: &Table) -> Result<Vec<usize>, Refusal> {
    let position = |name: &str| hidden.columns.iter().position(|column| column.name == name);
    let columns: Option<Vec<usize>> = table
        .primary_key
        .iter()
        .map(|column| position(&table.columns[usize::from(column.0)].name))
        .collect();
    columns.ok_or_else(|| Refusal::new(ErrorCode::Internal, hidden.name.clone()))
}

fn project(row: Vec<Value>, projection: &Projection) -> Vec<Value> {
    match projection {
        Projection::All => row,
        Projection::Nothing => Vec::new(),
        Projection::Columns(columns) => {
            columns.iter().map(|column| row[usize::from(column.0)].clone()).collect()
        }
    }
}
