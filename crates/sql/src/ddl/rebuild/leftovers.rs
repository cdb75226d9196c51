//! What copies have left whose processes died while writers went on.
//!
//! Nothing keeps writers of such a table waiting, so none of them finds what was left; but each of
//! their changes goes into a journal that nobody reads. So every worker looks now and then for
//! tables with a journal whose claim nobody holds.
//!
//! # Failure
//! A claim is lost with the data node that coordinates it, and renewed by whoever copies within a
//! few seconds (`online`). Only who finds a claim free for long takes it for one of the dead.

use std::collections::BTreeMap;

use model::TableId;
use wire::WaitPolicy;

use super::{CLAIMS, undo};
use crate::catalog::names::shown_name;
use crate::kernel::Kernel;
use crate::session::Session;

/// Undoes what copies have left whose processes are gone. Errors are for the next who looks.
pub(crate) async fn sweep_copies(session: &Session) {
    let abandoned = &session.shared.abandoned;
    let cluster = session.kernel.cluster();
    let journaled: BTreeMap<TableId, TableId> =
        cluster.tables.values().filter_map(|table| Some((table.journal?, table.id))).collect();
    abandoned.forget_journals(|journal| journaled.contains_key(&journal));
    for (journal, table) in journaled {
        let beside = session.kernel.beside();
        look_at(session, &beside, journal, table).await;
        beside.abort().await;
    }
}

async fn look_at(session: &Session, beside: &Kernel, journal: TableId, table: TableId) {
    let claimed = CLAIMS.hold(beside, table.0.into(), WaitPolicy::Refuse).await;
    let now = session.kernel.now();
    if !session.shared.abandoned.is_given_up(journal, claimed.is_ok(), now) {
        return;
    }
    let cluster = session.kernel.cluster();
    let known = cluster.tables.get(&table).filter(|table| table.journal == Some(journal));
    if let Some(known) = known {
        let (database, _) = shown_name(&known.name);
        let _ = undo(beside, table, &database).await;
    }
}
