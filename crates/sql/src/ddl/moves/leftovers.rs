//! What nobody uses any more in node groups that are to be dropped.
//!
//! Temporary tables do not move, nor do copies that are to take a table's place: they go with their
//! session, or their statement. Those of dead ones go when somebody looks, and nobody may connect.
//!
//! # Owns
//! The task that looks as long as there are such tables in a group that is drained.
//! # Guarantees
//! Tables of living sessions stay: whether a session lives its claim tells.
//! # Not here
//! Who counts as dead, and what is taken away (`temporary`, `rebuild::leftovers`).

use std::rc::Rc;

use model::ClusterState;
use stdx::Duration;

use crate::ddl::sweep_copies;
use crate::kernel::Kernel;
use crate::session::{Origin, Session, Shared};

/// The pause between two looks: a claim has to be free for longer.
const PAUSE: Duration = Duration::from_secs(60);

/// Whether a table that goes by itself is in a group that is to be dropped.
pub(crate) fn are_in_the_way(cluster: &ClusterState) -> bool {
    let mut named = cluster.table_names.iter().filter(|_| !cluster.retired.is_empty());
    named.any(|(name, table)| {
        let table = cluster.tables.get(table).filter(|_| ClusterState::goes_by_itself(name));
        let is_in = |group: &u16| table.is_some_and(|table| cluster.is_in_group(table, *group));
        cluster.retired.iter().any(is_in)
    })
}

/// Looks for such tables while there are any.
pub(crate) async fn sweep(kernel: Kernel, shared: Rc<Shared>, clock_base: i64) {
    while are_in_the_way(&kernel.cluster()) {
        let origin = Origin { number: 0, seed: kernel.draw(), clock_base };
        let mut session = Session::new(kernel.clone(), shared.clone(), origin);
        session.sweep_temporaries().await;
        sweep_copies(&session).await;
        session.rollback().await;
        if kernel.sleep(PAUSE).await.is_err() {
            return;
        }
    }
}
