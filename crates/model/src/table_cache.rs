//! What is made of tables for requests that come again and again, kept.
//!
//! # Owns
//! [`TableCache`].
//! # Guarantees
//! What is given out was made of the very definition it is asked for by. Of each table only so much
//! is kept, the oldest goes first.

use std::fmt;
use std::sync::Arc;

use stdx::HashMap;

use crate::cluster::ClusterState;
use crate::ids::TableId;
use crate::schema::Table;

/// Things made of a table, by a key that says what was asked for. Few keys are expected: they are
/// compared one by one.
pub struct TableCache<K, T>(HashMap<TableId, Known<K, T>>);

/// Those of one definition of a table, oldest first.
struct Known<K, T> {
    table: Arc<Table>,
    made: Vec<(K, Arc<T>)>,
}

/// Things that are kept of a table.
const KEPT_MAX: usize = 16;

impl<K: Clone + PartialEq, T> TableCache<K, T> {
    /// What was made of the table for this key, or is now.
    ///
    /// # Errors
    /// Those of `make`; nothing is kept then.
    pub fn get<E>(
        &mut self,
        table: &Arc<Table>,
        key: &K,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<Arc<T>, E> {
        let new = || Known { table: table.clone(), made: Vec::new() };
        let known = self.0.entry(table.id).or_insert_with(new);
        if !Arc::ptr_eq(&known.table, table) {
            *known = new();
        }
        let made = &mut known.made;
        if let Some((_, thing)) = made.iter().find(|(of, _)| of == key) {
            return Ok(thing.clone());
        }
        let thing = Arc::new(make()?);
        if made.len() == KEPT_MAX {
            made.remove(0);
        }
        made.push((key.clone(), thing.clone()));
        Ok(thing)
    }

    /// Forgets what is of tables that have changed since `before`, or are gone.
    pub fn follow(&mut self, before: &ClusterState, cluster: &ClusterState) {
        for change in cluster.table_changes(before) {
            self.0.remove(change.key);
        }
    }
}

impl<K, T> Default for TableCache<K, T> {
    fn default() -> Self {
        Self(HashMap::default())
    }
}

impl<K, T> fmt::Debug for TableCache<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TableCache of {} tables", self.0.len())
    }
}
