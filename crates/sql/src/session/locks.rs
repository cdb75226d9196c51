//! Named locks of the cluster: GET_LOCK and its kin.
//!
//! A lock is a row in a kernel table of ours: its name, the connection that holds it, and the claim
//! of that connection's session ([`Session::claim_temporaries`]), which ends with the session's
//! process.
//!
//! # Owns
//! The table, getting and giving up locks, taking over those of the dead.
//! # Guarantees
//! Two sessions of the cluster never both get a lock, unless the first has lost its claim and no
//! SQL node has known its connection for [`GRACE`].
//! # Failure
//! The locks of an SQL node that dies are free [`GRACE`] after somebody wanted them first. A
//! session that is cut off from the cluster so long that others take its lock over finds out at its
//! next statement.
//! # Not here
//! Deadlocks among waiters: they end by their time-outs.

use client::{ClientOperation, OperationAnswer};
use model::{ColumnType, ErrorCode, TableId, Value};
use sql_expression::{DeferredFunction, SqlError};
use sqltype::Datum;
use stdx::Duration;
use wire::{LockMode, WaitPolicy};

use crate::kernel::{Failure, Kernel};
use crate::own_table::{OwnTable, is_elsewhere, steadily};
use crate::peers::{self, Known};
use crate::session::Session;
use crate::temporary::CLAIMS;

/// The kernel table.
const TABLE: &str = "#named_locks";
/// Longest name, in bytes.
const NAME_MAX: usize = 256;
/// How long a holder has been unknown before a lock of it is free.
const GRACE: Duration = Duration::from_millis(2_000);
/// The shortest and the longest pause of a waiter between two looks.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(160));
/// How often a waiter looks whether the holder is alive.
const SUSPECTS_EVERY: u32 = 4;

/// Who holds a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Holder {
    connection: u32,
    claim: u64,
}

impl Session {
    /// GET_LOCK and its kin.
    pub(crate) async fn named_lock(
        &mut self,
        function: DeferredFunction,
        arguments: &[Datum],
    ) -> Result<Datum, SqlError> {
        if function == DeferredFunction::ReleaseAllLocks {
            return Ok(Datum::Int(self.release_locks().await as i64));
        }
        let name = match arguments.first() {
            Some(Datum::Bytes(name)) if !name.is_empty() && name.len() <= NAME_MAX => {
                String::from_utf8_lossy(name).to_lowercase()
            }
            _ => {
                let text = "Incorrect user-level lock name.";
                return Err(SqlError::new(3057, "42000", text));
            }
        };
        Ok(match function {
            DeferredFunction::IsFreeLock => {
                Datum::Int(self.open_holder(&name).await?.is_none().into())
            }
            DeferredFunction::IsUsedLock => {
                let holder = self.open_holder(&name).await?;
                holder.map_or(Datum::Null, |holder| Datum::UInt(holder.connection.into()))
            }
            DeferredFunction::ReleaseLock => self.release_lock(&name).await?,
            _ => {
                let got = self.get_lock(&name, patience(arguments.get(1))).await?;
                Datum::Int(got.into())
            }
        })
    }

    /// Waits for a lock by looking again: they are rare, and held for long.
    async fn get_lock(&mut self, name: &str, patience: Option<Duration>) -> Result<bool, SqlError> {
        if let Some(count) = self.named_locks.0.get_mut(name) {
            *count += 1;
            return Ok(true);
        }
        // Others know by it whether this session lives.
        if !self.holds_claim() {
            self.claim_temporaries().await?;
        }
        let began = self.kernel.now();
        let mut pause = PAUSES.0;
        for look in 0_u32.. {
            let Some(holder) = self.take_lock(name).await? else {
                self.named_locks.0.insert(name.to_owned(), 1);
                return Ok(true);
            };
            if look.is_multiple_of(SUSPECTS_EVERY) && self.take_over(name, holder).await? {
                self.named_locks.0.insert(name.to_owned(), 1);
                return Ok(true);
            }
            let waited = self.kernel.now().since(began);
            if patience.is_some_and(|patience| waited >= patience) {
                return Ok(false);
            }
            let left = patience.map_or(pause, |patience| {
                Duration::from_nanos(patience.as_nanos().saturating_sub(waited.as_nanos()))
            });
            self.kernel.sleep(pause.min(left)).await?;
            pause = (pause + pause).min(PAUSES.1);
        }
        Ok(false)
    }

    fn own_holder(&self) -> Holder {
        Holder { connection: self.id, claim: self.temporary.owner() }
    }

    /// Gets a lock that is free; else who holds it.
    async fn take_lock(&self, name: &str) -> Result<Option<Holder>, Failure> {
        if let Some(holder) = self.holder(name).await? {
            return Ok(Some(holder).filter(|holder| *holder != self.own_holder()));
        }
        let row = row(name, self.own_holder());
        let inserted = steadily(&self.kernel, async || {
            let insert = ClientOperation::insert(table(&self.kernel).await?, row.clone());
            self.kernel.beside().execute_and_commit(vec![insert]).await
        });
        match inserted.await {
            Ok(_) => Ok(None),
            // Somebody else was faster. Who has given it up since is asked the next time.
            Err(Failure::Aborted(refusal)) if refusal.code == ErrorCode::RowExists => {
                let holder = self.holder(name).await?;
                Ok(Some(holder.unwrap_or(Holder { connection: 0, claim: 0 })))
            }
            Err(failure) => Err(failure),
        }
    }

    /// Takes a lock over whose holder has gone, or has been silent for a while.
    async fn take_over(&self, name: &str, holder: Holder) -> Result<bool, Failure> {
        let suspects = &self.shared.suspects;
        let now = self.kernel.now();
        let known = peers::known(self, holder.connection).await?;
        if known == Known::Open {
            suspects.see(holder.claim, false, now);
            return Ok(false);
        }
        let beside = self.kernel.beside();
        let is_free = CLAIMS.hold(&beside, holder.claim, WaitPolicy::Refuse).await.is_ok();
        let since = suspects.see(holder.claim, is_free, now);
        let grace = if known == Known::Gone { Duration::ZERO } else { GRACE };
        if since.is_none_or(|since| now.since(since) < grace) {
            beside.abort().await;
            return Ok(false);
        }
        // As long as its claim is held here, the holder cannot get it again. The claim is of this
        // transaction: where the table has moved meanwhile, the next look tries again.
        let table = table(&self.kernel).await?;
        let key = vec![Value::text(name)];
        let read = ClientOperation::read_locked(table, key.clone(), LockMode::Exclusive);
        let taken = async {
            let found = first_row(beside.execute(vec![read]).await?)?;
            if found.as_deref().and_then(holder_of) != Some(holder) {
                return Ok(false);
            }
            let upsert = ClientOperation::upsert(table, row(name, self.own_holder()));
            beside.execute_and_commit(vec![upsert]).await.map(|_| true)
        };
        match taken.await {
            Ok(true) => Ok(true),
            Err(failure) if !is_elsewhere(&failure) => Err(failure),
            Ok(false) | Err(_) => {
                beside.abort().await;
                Ok(false)
            }
        }
    }

    /// Who holds a lock.
    async fn holder(&self, name: &str) -> Result<Option<Holder>, Failure> {
        steadily(&self.kernel, async || {
            let table = table(&self.kernel).await?;
            let beside = self.kernel.beside();
            let read = ClientOperation::read(table, vec![Value::text(name)]);
            let row = first_row(beside.execute(vec![read]).await?)?;
            beside.abort().await;
            Ok(row.as_deref().and_then(holder_of))
        })
        .await
    }

    /// Who holds a lock, unless that connection has gone.
    async fn open_holder(&self, name: &str) -> Result<Option<Holder>, Failure> {
        let Some(holder) = self.holder(name).await? else { return Ok(None) };
        let gone = peers::known(self, holder.connection).await? == Known::Gone;
        Ok(Some(holder).filter(|_| !gone))
    }

    /// RELEASE_LOCK: 1, 0 if somebody else has the lock, NULL if nobody has it.
    async fn release_lock(&mut self, name: &str) -> Result<Datum, SqlError> {
        match self.named_locks.0.get_mut(name) {
            Some(count) if *count > 1 => {
                *count -= 1;
                Ok(Datum::Int(1))
            }
            Some(_) => {
                self.delete_lock(name).await?;
                self.named_locks.0.remove(name);
                Ok(Datum::Int(1))
            }
            None => Ok(self.open_holder(name).await?.map_or(Datum::Null, |_| Datum::Int(0))),
        }
    }

    /// Deletes the row of a lock, if it is still this session's.
    async fn delete_lock(&self, name: &str) -> Result<(), Failure> {
        steadily(&self.kernel, async || {
            let table = table(&self.kernel).await?;
            let beside = self.kernel.beside();
            let key = vec![Value::text(name)];
            let read = ClientOperation::read_locked(table, key.clone(), LockMode::Exclusive);
            let found = first_row(beside.execute(vec![read]).await?)?;
            if found.as_deref().and_then(holder_of) != Some(self.own_holder()) {
                beside.abort().await;
                return Ok(());
            }
            beside.execute_and_commit(vec![ClientOperation::delete(table, key)]).await.map(|_| ())
        })
        .await
    }

    /// Gives up all named locks; how often they had been got.
    pub(crate) async fn release_locks(&mut self) -> u64 {
        let mut released = 0;
        for (name, count) in std::mem::take(&mut self.named_locks.0) {
            // Whoever wants the lock takes it over from a session that could not give it up.
            if self.delete_lock(&name).await.is_ok() {
                released += u64::from(count);
            }
        }
        released
    }

    /// Forgets the named locks that others have taken over, after the claim may have been lost.
    pub(crate) async fn check_locks(&mut self) {
        let names: Vec<String> = self.named_locks.0.keys().cloned().collect();
        for name in names {
            let holder = self.holder(&name).await;
            if holder.is_ok_and(|holder| holder != Some(self.own_holder())) {
                self.named_locks.0.remove(&name);
            }
        }
    }
}

/// How long GET_LOCK waits; none for ever.
fn patience(seconds: Option<&Datum>) -> Option<Duration> {
    let seconds = match seconds {
        Some(Datum::Int(seconds)) => *seconds as f64,
        Some(Datum::UInt(seconds)) => *seconds as f64,
        Some(Datum::Decimal(seconds)) => seconds.to_f64(),
        Some(Datum::Double(seconds)) => *seconds,
        _ => return None,
    };
    // Longer than a century is for ever.
    let is_bounded = (0.0..3.2e9).contains(&seconds);
    is_bounded.then(|| Duration::from_nanos((seconds * 1e9) as u64))
}

fn row(name: &str, holder: Holder) -> Vec<Value> {
    let Holder { connection, claim } = holder;
    vec![Value::text(name), Value::UInt(connection.into()), Value::UInt(claim)]
}

fn holder_of(row: &[Value]) -> Option<Holder> {
    match row {
        [_, Value::UInt(connection), Value::UInt(claim)] => {
            Some(Holder { connection: u32::try_from(*connection).ok()?, claim: *claim })
        }
        _ => None,
    }
}

/// The row that the first of some operations has read; none if there is no such row.
fn first_row(
    answers: Vec<Result<OperationAnswer, model::Refusal>>,
) -> Result<Option<Vec<Value>>, Failure> {
    match answers.into_iter().next() {
        Some(Ok(OperationAnswer::Row(row))) => Ok(Some(row)),
        Some(Err(refusal)) if refusal.code == ErrorCode::RowNotFound => Ok(None),
        Some(Err(refusal)) => Err(Failure::Refused(refusal)),
        Some(Ok(OperationAnswer::Written(_))) | None => {
            Err(Failure::Refused(ErrorCode::Internal.into()))
        }
    }
}

/// The kernel table; made by the first who needs it.
async fn table(kernel: &Kernel) -> Result<TableId, Failure> {
    let columns = &[
        ("name", ColumnType::Variable(NAME_MAX as u16 * 3)),
        ("connection", ColumnType::UInt(4)),
        ("claim", ColumnType::UInt(8)),
    ];
    OwnTable { name: TABLE, columns, key_columns: 1, ordered: false }.get(kernel).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_of_less_than_nothing_has_no_end() {
        assert_eq!(patience(Some(&Datum::Int(-1))), None);
        assert_eq!(patience(Some(&Datum::Null)), None);
        assert_eq!(patience(Some(&Datum::Double(1e300))), None);
        assert_eq!(patience(Some(&Datum::Int(0))), Some(Duration::ZERO));
        assert_eq!(patience(Some(&Datum::Double(1.5))), Some(Duration::from_millis(1_500)));
    }
}
