//! `nines.moves`: the tables that are to be moved to the node groups that new tables use.
//!
//! # Owns
//! How far each of them is. All of this follows from what the cluster knows: a table under way has
//! a copy, whose rows are counted, and who moves is in the list of connections.
//! # Guarantees
//! The same on all SQL nodes, whoever moves.

use std::sync::Arc;

use model::{ClusterState, Table};
use sql_expression::SqlError;
use sqltype::Datum;
use stdx::Duration;

use super::virtual_table::{Rows, text};
use crate::catalog::names;
use crate::mover;
use crate::own_table;
use crate::peers::{self, Listed};
use crate::session::Session;
use crate::statistics::Sizes;

/// A table that is to be moved, and what takes its place, as far as that is there.
struct Move {
    table: Arc<Table>,
    copy: Option<Arc<Table>>,
}

pub(super) async fn rows(session: &Session) -> Result<Rows, SqlError> {
    let cluster = session.kernel.cluster();
    let named = cluster.table_names.iter();
    let left = named.filter(|(name, table)| cluster.is_to_be_moved(name, **table));
    let left: Vec<Move> = left.filter_map(|(_, id)| move_of(&cluster, *id)).collect();
    if left.is_empty() {
        return Ok(Vec::new());
    }
    let counted = left.iter().filter(|of| of.copy.is_some());
    let counted = counted.flat_map(|of| [Some(&of.table), of.copy.as_ref()]);
    let counted: Vec<Arc<Table>> = counted.flatten().cloned().collect();
    let sizes = Sizes::of(&session.kernel, Some(&counted)).await;
    let mut movers = peers::connections(session).await?;
    movers.retain(|listed| listed.user == mover::USER && listed.command == mover::COMMAND);
    Ok(left.iter().map(|of| row(&cluster, of, &sizes, &movers)).collect())
}

fn move_of(cluster: &ClusterState, id: model::TableId) -> Option<Move> {
    let table = cluster.tables.get(&id)?.clone();
    let copy = match table.name.split_once('.') {
        Some((database, _)) => format!("{database}.{}", names::copy_name(id)),
        None => own_table::copy_name(id),
    };
    let copy = cluster.table_named(&copy).and_then(|copy| cluster.tables.get(&copy.id)).cloned();
    Some(Move { table, copy })
}

fn row(cluster: &ClusterState, of: &Move, sizes: &Sizes, movers: &[Listed]) -> Vec<Datum> {
    let (database, name) = names::shown_name(&of.table.name);
    let shown = |listed: &Listed| listed.statement.clone().unwrap_or_default();
    let at_work = movers.iter().find(|listed| mover::is_moving(&shown(listed), &of.table.name));
    let error = movers.iter().find_map(|listed| {
        mover::failure_of(&shown(listed), &of.table.name).map(ToOwned::to_owned)
    });
    let state = match (&of.copy, at_work) {
        (Some(_), _) if of.table.writes_blocked => "blocking",
        (Some(_), _) => "copying",
        (None, Some(_)) => "beginning",
        (None, None) => "waiting",
    };
    let rows = |table: &Table| sizes.table(table).map(|size| size.rows);
    let done = of.copy.as_ref().and_then(|copy| rows(copy));
    let total = of.copy.as_ref().and_then(|_| rows(&of.table));
    let elapsed = at_work.map(|listed| listed.elapsed);
    let number = |number: Option<u64>| number.map_or(Datum::Null, Datum::UInt);
    let groups = 0..cluster.groups.len() as u16;
    let from = groups.clone().filter(|group| cluster.is_in_group(&of.table, *group));
    let to = groups.filter(|group| cluster.is_open(*group));
    vec![
        text(&*database),
        text(&*name),
        Datum::UInt(of.table.id.0.into()),
        text(listed(from)),
        text(listed(to)),
        text(state),
        number(at_work.map(|listed| listed.id & 0xff)),
        number(at_work.map(|listed| listed.id)),
        number(done),
        number(total),
        number(elapsed.map(|elapsed| elapsed.as_micros())),
        number(time_left(done, total, elapsed)),
        error.map_or(Datum::Null, text),
    ]
}

/// Numbers of node groups, as `0,1`.
fn listed(groups: impl Iterator<Item = u16>) -> String {
    groups.map(|group| group.to_string()).collect::<Vec<_>>().join(",")
}

/// How long a copy will take at the pace it has had, in microseconds.
fn time_left(done: Option<u64>, total: Option<u64>, elapsed: Option<Duration>) -> Option<u64> {
    let (done, total, elapsed) = (done.filter(|done| *done > 0)?, total?, elapsed?);
    let left = u128::from(total.saturating_sub(done)) * u128::from(elapsed.as_micros());
    u64::try_from(left / u128::from(done)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_follows_from_the_pace() {
        let second = Some(Duration::from_secs(1));
        assert_eq!(time_left(Some(250), Some(1_000), second), Some(3_000_000));
        // More rows than there were: it is about to end.
        assert_eq!(time_left(Some(1_100), Some(1_000), second), Some(0));
        for (done, total, elapsed) in
            [(None, Some(1), second), (Some(0), Some(1), second), (Some(1), None, second)]
        {
            assert_eq!(time_left(done, total, elapsed), None);
        }
    }
}
