//! Moving tables to the node groups that new tables use, one after the other.
//!
//! The cluster says that tables are to be moved (`ClusterState::reorganizing`). An SQL node copies
//! each of them as ALTER TABLE … REORGANIZE PARTITION does; a view has no rows and only gets a new
//! identity. Which tables are left follows from the cluster's state, so whoever goes on begins with
//! what is left.
//!
//! # Guarantees
//! One SQL node moves at a time: it holds a claim. Another goes on when it has ended.
//! # Failure
//! A table that cannot be moved now stays where it is, as a copy that fails leaves it; it is tried
//! again after the others.
//! # Not here
//! The copy (`rebuild`, and [`own`] for tables that the SQL layer keeps for itself); when tables
//! are to be moved, and when that is over (`control`).

mod own;

use std::rc::Rc;

use model::{SchemaChange, TableId};
use sql_parser::ast::{AlterAction, AlterTable, Ident, ObjectName};
use stdx::Duration;
use wire::WaitPolicy;

use super::alter;
use crate::catalog::view::is_view;
use crate::claim::{ALTERATIONS, MOVER};
use crate::kernel::Kernel;
use crate::session::{Origin, Session, Shared};

/// The pause before somebody looks again whether there is something to do.
const PAUSE: Duration = Duration::from_millis(1_000);

/// Moves tables as long as the cluster wants it.
pub(crate) async fn run(kernel: Kernel, shared: Rc<Shared>, clock_base: i64) {
    while kernel.cluster().reorganizing {
        // The transactions of the work are others: they end, and this one is held.
        let claim = kernel.keeper();
        if ALTERATIONS.hold(&claim, MOVER, WaitPolicy::Refuse).await.is_ok() {
            let mut moved = None;
            while let Some((name, table)) = next(&kernel, moved.as_deref()) {
                let seed = kernel.draw();
                let origin = Origin { number: 0, seed, clock_base };
                let mut session = Session::new(kernel.clone(), shared.clone(), origin);
                if name.starts_with('#') {
                    // A table of claims waits until nobody has one.
                    let _ = own::move_table(&kernel.beside(), &claim, table).await;
                } else {
                    move_one(&mut session, &name, table).await;
                    session.rollback().await;
                }
                if name == ALTERATIONS.table {
                    // The claim was in the table that was moved.
                    break;
                }
                moved = Some(name);
            }
        }
        claim.abort().await;
        // Others moved meanwhile, or some table could not be moved now.
        if kernel.sleep(PAUSE).await.is_err() {
            return;
        }
    }
}

/// The first table behind a name that lies elsewhere than a new one would; none when no more are to
/// be moved.
fn next(kernel: &Kernel, behind: Option<&str>) -> Option<(String, TableId)> {
    let cluster = kernel.cluster();
    let from = behind.unwrap_or_default();
    let mut named = cluster
        .table_names
        .iter_from(from)
        .filter(|(name, table)| &***name != from && cluster.is_to_be_moved(name, **table));
    let found = named.next().filter(|_| cluster.reorganizing);
    found.map(|(name, table)| (name.to_string(), *table))
}

async fn move_one(session: &mut Session, full: &str, table: TableId) {
    let cluster = session.kernel.cluster();
    let Some(known) = cluster.tables.get(&table) else { return };
    if is_view(known) {
        let again = SchemaChange::TruncateTable { table };
        let _ = session.kernel.beside().change_schema(again).await;
        return;
    }
    let Some((database, name)) = full.split_once('.') else { return };
    let statement = AlterTable {
        table: ObjectName { schema: Some(Ident::from(database)), name: Ident::from(name) },
        actions: vec![AlterAction::ReorganizePartitions(Vec::new(), Vec::new())],
        algorithm: None,
        lock: None,
        validation: None,
    };
    // What hinders it now is tried again later; nobody is there to be told.
    let _ = Box::pin(alter::run(session, &statement)).await;
}
