//! One transaction of a build: lock some rows, add their entries, look at entries that exist.

use actor::{Ctx, fault_point, probe};
use model::{ColumnId, ErrorCode, Refusal, Value};
use wire::LockMode;

use super::{BATCH_ROWS_MAX, IndexBuilder, PAUSE, Stage, entry_of, find};
use crate::event::{ClientResult, OperationAnswer, Token};
use crate::request::ClientOperation;

/// How far the transaction is.
#[derive(Debug)]
pub(super) enum Batch {
    /// There is none.
    Idle,
    /// Rows are being locked and read.
    Locking { token: Token, keys: Vec<Vec<Value>> },
    /// Entries are being added for the locked rows.
    Adding { token: Token, keys: Vec<Vec<Value>>, entries: Vec<Vec<Value>> },
    /// Entries that exist already are being read.
    Comparing { token: Token, keys: Vec<Vec<Value>>, entries: Vec<Vec<Value>> },
    /// The transaction is being committed.
    Committing { token: Token, keys: Vec<Vec<Value>> },
}

type Answers = Vec<Result<OperationAnswer, Refusal>>;

impl Batch {
    /// Whether no transaction is under way.
    pub(super) fn idle(&self) -> bool {
        matches!(self, Batch::Idle)
    }

    /// Whether this is the request that the transaction waits for.
    pub(super) fn awaits(&self, asked: Token) -> bool {
        match self {
            Batch::Idle => false,
            Batch::Locking { token, .. }
            | Batch::Adding { token, .. }
            | Batch::Comparing { token, .. }
            | Batch::Committing { token, .. } => *token == asked,
        }
    }

    fn into_keys(self) -> Vec<Vec<Value>> {
        match self {
            Batch::Idle => Vec::new(),
            Batch::Locking { keys, .. }
            | Batch::Adding { keys, .. }
            | Batch::Comparing { keys, .. }
            | Batch::Committing { keys, .. } => keys,
        }
    }
}

/// What follows from the answers of a step.
enum Next {
    Commit,
    Add(Vec<Vec<Value>>),
    Compare(Vec<Vec<Value>>),
    Violated,
    Again,
}

impl IndexBuilder {
    /// Locks and reads the next rows.
    pub(super) fn start_batch(&mut self, ctx: &mut Ctx<'_>) {
        let Some(job) = &mut self.job else { return };
        let Stage::Filling(filling) = &mut job.stage else { return };
        let count = filling.batch_rows.min(filling.keys.len());
        let keys: Vec<Vec<Value>> = filling.keys.drain(..count).collect();
        let lock = |key: &Vec<Value>| {
            ClientOperation::read_locked(job.table, key.clone(), LockMode::Shared)
        };
        let operations = keys.iter().map(lock).collect();
        let token = self.client.execute(ctx, job.writer, operations, false);
        filling.batch = Batch::Locking { token, keys };
    }

    /// Takes the answer to the transaction's last request.
    pub(super) fn batch_moved(&mut self, ctx: &mut Ctx<'_>, result: ClientResult) {
        let Some(job) = &mut self.job else { return };
        let Stage::Filling(filling) = &mut job.stage else { return };
        let batch = std::mem::replace(&mut filling.batch, Batch::Idle);
        if matches!(batch, Batch::Committing { .. })
            && matches!(result, ClientResult::Committed { .. })
        {
            filling.batch_rows = (filling.batch_rows * 2).min(BATCH_ROWS_MAX);
            return self.fill(ctx);
        }
        let ClientResult::Executed(answers) = result else {
            return self.batch_failed(ctx, batch);
        };
        let next = match &batch {
            Batch::Locking { .. } => self.locked(ctx, answers),
            Batch::Adding { entries, .. } => added(entries, answers),
            Batch::Comparing { entries, .. } => compared(entries, answers),
            Batch::Idle | Batch::Committing { .. } => Next::Again,
        };
        self.batch_next(ctx, batch, next);
    }

    fn batch_next(&mut self, ctx: &mut Ctx<'_>, batch: Batch, next: Next) {
        let cluster = ctx.cluster().clone();
        let Some(job) = &mut self.job else { return };
        let Some((_, _, hidden)) = find(&cluster, job.table, job.index) else { return };
        let Stage::Filling(filling) = &mut job.stage else { return };
        match next {
            Next::Again => self.batch_failed(ctx, batch),
            Next::Violated => self.violated(ctx),
            Next::Commit => {
                fault_point!(ctx, "builder: before entries are committed");
                let token = self.client.commit(ctx, job.writer);
                filling.batch = Batch::Committing { token, keys: batch.into_keys() };
            }
            Next::Add(entries) => {
                let add = |entry: &Vec<Value>| ClientOperation::insert(hidden.id, entry.clone());
                let operations = entries.iter().map(add).collect();
                let token = self.client.execute(ctx, job.writer, operations, false);
                filling.batch = Batch::Adding { token, keys: batch.into_keys(), entries };
            }
            Next::Compare(entries) => {
                probe!(ctx, "builder: entry exists already");
                let read = |entry: &Vec<Value>| {
                    let column = |column: &ColumnId| entry[usize::from(column.0)].clone();
                    let key = hidden.primary_key.iter().map(column).collect();
                    ClientOperation::read_locked(hidden.id, key, LockMode::Shared)
                };
                let operations = entries.iter().map(read).collect();
                let token = self.client.execute(ctx, job.writer, operations, false);
                filling.batch = Batch::Comparing { token, keys: batch.into_keys(), entries };
            }
        }
    }

    /// The entries of the locked rows. Rows that are gone need none.
    fn locked(&self, ctx: &Ctx<'_>, answers: Answers) -> Next {
        let job = self.job.as_ref().expect("a job that goes on");
        let Some((table, index, _)) = find(ctx.cluster(), job.table, job.index) else {
            return Next::Again;
        };
        let mut entries = Vec::with_capacity(answers.len());
        for answer in answers {
            match answer {
                Ok(OperationAnswer::Row(row)) => {
                    entries.extend(entry_of(table, index, &row));
                }
                Err(refusal) if refusal.code == ErrorCode::RowNotFound => {}
                Ok(OperationAnswer::Written(_)) | Err(_) => return Next::Again,
            }
        }
        if entries.is_empty() { Next::Commit } else { Next::Add(entries) }
    }

    /// The transaction is given up; its rows are looked at again after a moment, fewer at a time.
    fn batch_failed(&mut self, ctx: &mut Ctx<'_>, batch: Batch) {
        probe!(ctx, "builder: transaction runs again");
        let Some(job) = &mut self.job else { return };
        let Stage::Filling(filling) = &mut job.stage else { return };
        for key in batch.into_keys().into_iter().rev() {
            filling.keys.push_front(key);
        }
        filling.batch_rows = 1;
        // Closing aborts what may still be open.
        self.client.close_session(ctx, job.writer);
        let writer = self.client.open_session(ctx);
        job.writer = writer.expect("a session was closed just now");
        ctx.set_timer(actor::Timer::BuilderTick, PAUSE);
    }
}

/// Entries that were there already are to be compared.
fn added(entries: &[Vec<Value>], answers: Answers) -> Next {
    let mut existing = Vec::new();
    for (entry, answer) in entries.iter().zip(answers) {
        match answer {
            Ok(_) => {}
            Err(refusal) if refusal.code == ErrorCode::RowExists => existing.push(entry.clone()),
            Err(_) => return Next::Again,
        }
    }
    if existing.is_empty() { Next::Commit } else { Next::Compare(existing) }
}

/// Entries that name another row have taken the key.
fn compared(entries: &[Vec<Value>], answers: Answers) -> Next {
    for (entry, answer) in entries.iter().zip(answers) {
        match answer {
            Ok(OperationAnswer::Row(found)) if found == *entry => {}
            Ok(OperationAnswer::Row(_)) => return Next::Violated,
            Ok(OperationAnswer::Written(_)) | Err(_) => return Next::Again,
        }
    }
    Next::Commit
}
