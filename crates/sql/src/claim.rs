//! Claims: what one session at a time may do, and nobody any more when its process is dead.
//!
//! A claim is a row in a kernel table of ours, locked in a transaction that stays open as long as
//! the claim is held. It ends with that transaction, so also with the process of its holder.
//!
//! # Owns
//! The tables of claims, and getting one; when those who hold claims for as long as they run let
//! go of them, so that the table of these claims can be moved ([`Way`]).
//! # Failure
//! A claim is lost with the data node that coordinates its transaction.
//! # Not here
//! What is claimed: tables that are rebuilt (`ddl::rebuild`), temporary tables (`temporary`).

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use client::{ClientOperation, OperationAction};
use model::{ClusterState, ColumnType, ErrorCode, TableId, Value};
use stdx::{Duration, Instant};
use wire::{LockMode, Projection, WaitPolicy};

use crate::kernel::{Failure, Kernel};
use crate::own_table::{OwnTable, steadily};

/// The claims on tables that are being rebuilt.
pub(crate) const ALTERATIONS: Claims =
    Claims { table: "#alterations", column: "table_id", width: 4 };
/// The claim among them of whoever moves tables to other node groups: no table has this identity.
pub(crate) const MOVER: u64 = 0;

/// For how long nobody has a claim that something waits for: whoever moves tables looks at each of
/// them about every second, and a group is held a second time some seconds after the first.
const WAY: Duration = Duration::from_secs(8);
/// How often that is so, while it still waits: who has a claim works in between.
const WAY_EVERY: Duration = Duration::from_secs(40);

/// A kernel table of claims, each on a number.
pub(crate) struct Claims {
    /// Its name, without a database, so that no user sees it.
    pub table: &'static str,
    /// What the numbers are.
    pub column: &'static str,
    /// Bytes of a number.
    pub width: u8,
}

impl Claims {
    /// Locks the row of a number for as long as the transaction of `kernel` is open, which has done
    /// nothing else yet.
    pub(crate) async fn hold(
        &self,
        kernel: &Kernel,
        number: u64,
        wait: WaitPolicy,
    ) -> Result<(), Failure> {
        steadily(kernel, async || {
            let held = self.hold_now(kernel, number, wait).await;
            if held.is_err() {
                kernel.abort().await;
            }
            held
        })
        .await
    }

    /// As [`Claims::hold`] by a kernel that may hold the claim already. A transaction that was lost
    /// took its claim with it, and its first statement is told of that: the claim is taken again.
    pub(crate) async fn keep(
        &self,
        kernel: &Kernel,
        number: u64,
        wait: WaitPolicy,
    ) -> Result<(), Failure> {
        match self.hold(kernel, number, wait).await {
            Ok(()) => Ok(()),
            Err(_) => self.hold(kernel, number, wait).await,
        }
    }

    async fn hold_now(
        &self,
        kernel: &Kernel,
        number: u64,
        wait: WaitPolicy,
    ) -> Result<(), Failure> {
        loop {
            let table = self.table(kernel).await?;
            match lock(kernel, table, number, wait).await {
                Err(Failure::Refused(refusal)) if refusal.code == ErrorCode::RowNotFound => {}
                other => return other,
            }
            // Nobody has claimed it before. The row is made in a transaction that ends at once.
            kernel.abort().await;
            let insert = ClientOperation::insert(table, vec![Value::UInt(number)]);
            match kernel.execute_and_commit(vec![insert]).await {
                Ok(_) => {}
                Err(Failure::Aborted(refusal)) if refusal.code == ErrorCode::RowExists => {}
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Whether a claim that somebody has had before is free; the transaction of `kernel` has it
    /// then. Nobody is waited for.
    pub(crate) async fn is_free(&self, kernel: &Kernel, number: u64) -> bool {
        let table = kernel.cluster().table_named(self.table).map(|table| table.id);
        match table {
            Some(table) => lock(kernel, table, number, WaitPolicy::Refuse).await.is_ok(),
            None => false,
        }
    }

    /// Whether the table is to be moved to other node groups, and all tables of users have been:
    /// whoever moves tables comes to it now.
    fn is_to_be_moved(&self, cluster: &ClusterState) -> bool {
        let to_be_moved = |name: &str, table| cluster.is_to_be_moved(name, table);
        cluster.reorganizing
            && cluster.table_named(self.table).is_some_and(|own| to_be_moved(self.table, own.id))
            && !cluster
                .table_names
                .iter()
                .any(|(name, table)| !name.starts_with('#') && to_be_moved(name, *table))
    }

    /// Deletes the row of a number whose claim the transaction of `kernel` holds, and ends it.
    pub(crate) async fn forget(&self, kernel: &Kernel, number: u64) -> Result<(), Failure> {
        let table = self.table(kernel).await?;
        let delete = ClientOperation::delete(table, vec![Value::UInt(number)]);
        kernel.execute_and_commit(vec![delete]).await.map(|_| ())
    }

    /// The kernel table; made by the first who needs it.
    async fn table(&self, kernel: &Kernel) -> Result<TableId, Failure> {
        let columns = &[(self.column, ColumnType::UInt(self.width))];
        OwnTable { name: self.table, columns, key_columns: 1, ordered: false }.get(kernel).await
    }
}

/// What a worker knows of what waits until nobody has a claim: a table of claims that is to be
/// moved, and primaries of a node group that are to go back to the nodes they belong to. Some
/// claims are held for as long as a process runs: of archives, of channels, of change feeds. All
/// who hold such claims let go of them for a while, at about the same time, as all SQL nodes see
/// the same state of the cluster.
#[derive(Debug, Default)]
pub(crate) struct Way {
    /// Since when tables of claims are to be moved.
    moves: RefCell<BTreeMap<&'static str, Instant>>,
    /// When a group was held last.
    held: Cell<Option<Instant>>,
}

impl Way {
    /// Whether nobody is to have a claim of a table now. Who has one ends, as if it was lost, and
    /// somebody begins anew later: another one may have had the claim meanwhile.
    pub(crate) fn is_given(&self, claims: &Claims, kernel: &Kernel) -> bool {
        let (now, cluster) = (kernel.now(), kernel.cluster());
        let waits = cluster.held.is_some() || cluster.group_to_spread().is_some();
        let was_held = self.held.get().is_some_and(|held| now.since(held) < WAY);
        waits && was_held || self.is_open(claims, claims.is_to_be_moved(&cluster), now)
    }

    /// Whether a table of claims is to be moved, and now is the time to let go of them: in all SQL
    /// nodes alike, as all learn at about the same time that the table is to be moved.
    fn is_open(&self, claims: &Claims, is_to_be_moved: bool, now: Instant) -> bool {
        let mut moves = self.moves.borrow_mut();
        if !is_to_be_moved {
            moves.remove(claims.table);
            return false;
        }
        let since = now.since(*moves.entry(claims.table).or_insert(now));
        since.as_nanos() % WAY_EVERY.as_nanos() < WAY.as_nanos()
    }

    /// Takes note of a state of the cluster. A group that is held for its primaries to move is let
    /// go when transactions stay open, and held again soon after: by then claims are free.
    pub(crate) fn look(&self, before: &ClusterState, after: &ClusterState, now: Instant) {
        if after.held.is_some() && after.held != before.held {
            self.held.set(Some(now));
        }
    }
}

/// Locks the row of a claim that is there.
pub(crate) async fn lock(
    kernel: &Kernel,
    table: TableId,
    number: u64,
    wait: WaitPolicy,
) -> Result<(), Failure> {
    let (lock, projection) = (LockMode::Exclusive, Projection::Nothing);
    let key = vec![Value::UInt(number)];
    let action = OperationAction::Read { key, lock, wait, projection, snapshot: None };
    let read = ClientOperation { table, version: None, action };
    match kernel.execute(vec![read]).await?.into_iter().next() {
        Some(Err(refusal)) => Err(Failure::Refused(refusal)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use model::ControlIndex;
    use model::cluster::HeldGroup;

    use super::*;

    const OTHERS: Claims = Claims { table: "#others", column: "n", width: 4 };

    #[test]
    fn way_is_given_for_a_while_now_and_then() {
        let way = Way::default();
        let at = |second| Instant::ZERO + Duration::from_secs(second);
        let open = |second| way.is_open(&ALTERATIONS, true, at(second));
        assert!(!way.is_open(&ALTERATIONS, false, at(90)));
        assert!(open(100) && open(107));
        assert!(!open(108) && !open(139));
        // Looked at late: the times are those of all the same.
        assert!(open(143) && !open(148) && !open(179) && open(180));
        // Those of other claims are their own, and what comes next is no part of what was before.
        assert!(way.is_open(&OTHERS, true, at(190)) && !open(190));
        assert!(!way.is_open(&ALTERATIONS, false, at(191)));
        assert!(open(192));
    }

    #[test]
    fn claims_are_let_go_after_a_group_was_held() {
        let way = Way::default();
        let held = Some(HeldGroup { group: 0, since: ControlIndex(7) });
        let held = ClusterState { held, ..ClusterState::default() };
        let free = ClusterState::default();
        let at = |second| Instant::ZERO + Duration::from_secs(second);
        way.look(&free, &free, at(1));
        assert_eq!(way.held.get(), None);
        way.look(&free, &held, at(2));
        way.look(&held, &held, at(3));
        way.look(&held, &free, at(4));
        assert_eq!(way.held.get(), Some(at(2)));
    }
}
