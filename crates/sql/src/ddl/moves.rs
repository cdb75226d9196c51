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
//! again after the others. So is one whose move a KILL has ended. Why is shown in the list of
//! connections, until the table is moved or nobody wants it to be.
//! # Not here
//! The copy (`rebuild`, and [`own`] for tables that the SQL layer keeps for itself); when tables
//! are to be moved, and when that is over (`control`); tables that nobody moves ([`leftovers`]).

pub(crate) mod leftovers;
mod own;

use std::collections::BTreeMap;
use std::rc::Rc;

use model::{SchemaChange, TableId};
use sql_expression::SqlError;
use sql_parser::ast::{AlterAction, AlterTable, Ident, ObjectName};
use stdx::Duration;
use wire::WaitPolicy;

use super::alter;
use crate::catalog::view::is_view;
use crate::claim::{ALTERATIONS, MOVER};
use crate::directory::Process;
use crate::kernel::Kernel;
use crate::mover::{COMMAND, USER, shown, statement_of};
use crate::session::{Origin, Session, Shared};

/// The pause before somebody looks again whether there is something to do.
const PAUSE: Duration = Duration::from_millis(1_000);

/// Moves tables as long as the cluster wants it. `number` is that of a connection that is no
/// client's: it is in the list of connections while this goes on.
pub(crate) async fn run(kernel: Kernel, shared: Rc<Shared>, clock_base: i64, number: u32) {
    let listed = Listed { kernel: kernel.clone(), shared: shared.clone(), number };
    let mut failed = BTreeMap::new();
    while kernel.cluster().reorganizing {
        // A KILL ends one move, and no other one.
        kernel.clear_interrupt();
        // The transactions of the work are others: they end, and this one is held.
        let claim = kernel.keeper();
        if ALTERATIONS.hold(&claim, MOVER, WaitPolicy::Refuse).await.is_ok() {
            let mut moved = None;
            while let Some((name, table)) = next(&kernel, moved.as_deref()) {
                let seed = kernel.draw();
                let origin = Origin { number: 0, seed, clock_base };
                let mut session = Session::new(kernel.clone(), shared.clone(), origin);
                listed.show("moving", shown(&statement_of(&name), &failed));
                let done = if name.starts_with('#') {
                    // A table of claims waits until nobody has one.
                    let done = own::move_table(&kernel.beside(), &claim, table).await;
                    done.map_err(SqlError::from)
                } else {
                    let done = move_one(&mut session, &name, table).await;
                    session.rollback().await;
                    done
                };
                match done {
                    Ok(()) => failed.remove(&name),
                    Err(error) => failed.insert(name.clone(), error.message().to_owned()),
                };
                let is_own = name.starts_with('#');
                if name == ALTERATIONS.table || is_own && kernel.interrupted().is_some() {
                    // The claim was in the table that was moved, or a request of its transaction
                    // is under way.
                    break;
                }
                kernel.clear_interrupt();
                moved = Some(name);
            }
        } else {
            // Another one moves them, and says what it meets.
            failed.clear();
        }
        if kernel.interrupted().is_some() {
            claim.abandon()
        } else {
            claim.abort().await
        }
        kernel.clear_interrupt();
        let cluster = kernel.cluster();
        failed.retain(|name, _| {
            cluster.table_named(name).is_some_and(|table| cluster.is_to_be_moved(name, table.id))
        });
        listed.show("waiting", shown("", &failed));
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

/// The mover's place in the list of connections.
struct Listed {
    kernel: Kernel,
    shared: Rc<Shared>,
    number: u32,
}

impl Listed {
    fn show(&self, state: &'static str, info: String) {
        let process = Process {
            id: self.number,
            user: USER.to_owned(),
            command: COMMAND,
            since: self.kernel.now(),
            state,
            info,
            ..Process::default()
        };
        self.shared.ledger.lock().processes.insert(self.number, process);
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.shared.ledger.lock().processes.remove(&self.number);
    }
}

/// # Errors
/// The table stays where it is.
async fn move_one(session: &mut Session, full: &str, table: TableId) -> Result<(), SqlError> {
    let cluster = session.kernel.cluster();
    let Some(known) = cluster.tables.get(&table) else { return Ok(()) };
    if is_view(known) {
        let again = SchemaChange::TruncateTable { table };
        return Ok(session.kernel.beside().change_schema(again).await.map(drop)?);
    }
    let Some((database, name)) = full.split_once('.') else { return Ok(()) };
    let statement = AlterTable {
        table: ObjectName { schema: Some(Ident::from(database)), name: Ident::from(name) },
        actions: vec![AlterAction::ReorganizePartitions(Vec::new(), Vec::new())],
        algorithm: None,
        lock: None,
        validation: None,
    };
    Box::pin(alter::run(session, &statement)).await.map(drop)
}
