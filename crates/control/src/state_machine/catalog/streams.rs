//! Change streams: their beginning and their end.
//!
//! # Owns
//! The effect of `SchemaChange::{KeepStream, DropStream}`.
//! # Guarantees
//! Who asks for a stream again gets the one that is there. A stream of a table that is dropped goes
//! on with the others.
//! # Not here
//! What data nodes keep for a stream (`datanode`).

use model::cluster::{STREAMS_MAX, Stream};
use model::{ClusterState, ErrorCode, StreamId, TableId};

use super::{NO_TABLE, base_table, check_name, take_id};

/// Begins a stream.
pub(super) fn keep(
    state: &mut ClusterState,
    name: &str,
    tables: &[TableId],
) -> Result<TableId, ErrorCode> {
    check_name(name)?;
    let mut tables = tables.to_vec();
    tables.sort_unstable();
    tables.dedup();
    if let Some(known) = state.streams.get(name) {
        let same = known.tables == tables;
        return if same { Ok(TableId(known.id.0)) } else { Err(ErrorCode::TableExists) };
    }
    for table in &tables {
        base_table(state, *table)?;
    }
    if state.streams.len() >= STREAMS_MAX {
        return Err(ErrorCode::BadDefinition);
    }
    let id = StreamId(take_id(state));
    state.streams.insert(name.into(), Stream { id, tables });
    Ok(TableId(id.0))
}

/// Ends a stream.
pub(super) fn end(state: &mut ClusterState, name: &str) -> Result<TableId, ErrorCode> {
    state.streams.remove(name);
    Ok(NO_TABLE)
}
