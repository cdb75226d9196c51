//! Change streams: which committed changes data nodes keep for those who fetch them.
//!
//! # Owns
//! [`Stream`] and which tables it has.
//! # Not here
//! What is kept, and for how long: `datanode::participant::streams`.

use serde::{Deserialize, Serialize};

use super::ClusterState;
use crate::ids::{StreamId, TableId};
use crate::schema::Table;

/// Most change streams of a cluster.
pub const STREAMS_MAX: usize = 16;

/// The names of the streams that a binary log is made of: with JSON in MySQL's binary form, and
/// with JSON as text. A cluster has one of them. Nobody acknowledges what their readers have: they
/// are kept for a time.
pub const BINLOG_STREAMS: [&str; 2] = ["#binlog", "#binlog-text"];

/// What the names of the streams of change feeds begin with. They are kept for as long as those of
/// a binary log; who writes a feed to files acknowledges what is written.
pub const CHANGEFEED_STREAMS: &str = "changefeed ";

/// Whether the stream of a name is kept for a time, and not for so many epochs.
pub fn is_kept_for_a_time(name: &str) -> bool {
    BINLOG_STREAMS.contains(&name) || name.starts_with(CHANGEFEED_STREAMS)
}

/// A change stream. Its identity is new each time that one of its name begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stream {
    /// Identity; never reused.
    pub id: StreamId,
    /// The tables that it has, ascending; empty for all tables, those that are yet to be made too.
    pub tables: Vec<TableId>,
}

impl Stream {
    /// Whether it has the changes of a table: of one that it names, or of the parts of its large
    /// values. What follows from other rows it does not have: entries of unique indexes, journals.
    pub fn has(&self, state: &ClusterState, table: &Table) -> bool {
        let base = match table.hidden_behind.map(|base| state.tables.get(&base)) {
            None => table,
            Some(Some(base)) if base.large.as_ref().is_some_and(|l| l.parts == table.id) => base,
            Some(_) => return false,
        };
        self.tables.is_empty() || self.tables.binary_search(&base.id).is_ok()
    }
}
