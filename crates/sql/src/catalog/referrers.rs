//! Which foreign keys refer to a table.
//!
//! A foreign key is part of the table that refers, and of no other: what refers to a table is found
//! by looking at all definitions of a cluster state. So parent and children never contradict each
//! other; [decision 17](../../../../docs/decisions/0017-foreign-keys.md) says how a state that is
//! not the newest does no harm.
//!
//! # Owns
//! [`Referrers`], the list of all foreign keys by the table they refer to, of the newest state that
//! was asked for.
//! # Not here
//! What follows for rows (`execute::reference`) and for definitions (`ddl::foreign_key`).

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use model::{ClusterState, Table, TableId};
use sql_expression::SqlError;

use super::ForeignKeyDefinition;
use super::view::is_view;
use super::{Definitions, TableDefinition};

/// A foreign key, seen from the table it refers to.
#[derive(Clone, Debug)]
pub(crate) struct Referrer {
    /// The table that refers.
    pub(crate) child: Rc<TableDefinition>,
    /// Which of its foreign keys.
    pub(crate) at: usize,
}

impl Referrer {
    /// The foreign key.
    pub(crate) fn key(&self) -> &ForeignKeyDefinition {
        &self.child.foreign_keys[self.at]
    }
}

/// All foreign keys of a cluster state.
#[derive(Debug, Default)]
pub(super) struct Referrers {
    of: Option<Arc<ClusterState>>,
    by_parent: BTreeMap<String, Vec<Referrer>>,
    /// The tables that have foreign keys.
    children: BTreeMap<TableId, Rc<TableDefinition>>,
}

/// What every description with a foreign key has in it. A comment may have it too: then the
/// definition is read for nothing.
const MARK: &str = "FOREIGN KEY";

impl Definitions {
    /// The foreign keys that refer to the table of this full name, which need not be there, in the
    /// order in which they are carried out: by database and name.
    pub(crate) fn referrers(
        &self,
        cluster: &Arc<ClusterState>,
        full_name: &str,
    ) -> Result<Vec<Referrer>, SqlError> {
        let is_known = |of: &Arc<ClusterState>| Arc::ptr_eq(of, cluster);
        if !self.referrers.borrow().of.as_ref().is_some_and(is_known) {
            self.list_referrers(cluster)?;
        }
        Ok(self.referrers.borrow().by_parent.get(full_name).cloned().unwrap_or_default())
    }

    fn list_referrers(&self, cluster: &Arc<ClusterState>) -> Result<(), SqlError> {
        // An error leaves an empty list of no state behind: whoever asks next begins anew.
        let mut referrers = std::mem::take(&mut *self.referrers.borrow_mut());
        let before = referrers.of.take().unwrap_or_default();
        for change in cluster.table_changes(&before) {
            referrers.remove(*change.key);
            let table = change.after.filter(|table| table.hidden_behind.is_none());
            if let Some(table) = table.filter(|table| has_foreign_key(table) && !is_view(table)) {
                referrers.add(self.of(table)?);
            }
        }
        referrers.of = Some(cluster.clone());
        *self.referrers.borrow_mut() = referrers;
        Ok(())
    }
}

impl Referrers {
    /// Lists the foreign keys of a table.
    fn add(&mut self, child: Rc<TableDefinition>) {
        for (at, key) in child.foreign_keys.iter().enumerate() {
            let list = self.by_parent.entry(key.parent.full()).or_default();
            list.push(Referrer { child: child.clone(), at });
            list.sort_by_cached_key(|of| {
                (of.child.database.clone(), of.key().name.to_lowercase(), of.child.table.id)
            });
        }
        if !child.foreign_keys.is_empty() {
            self.children.insert(child.table.id, child);
        }
    }

    /// Takes the foreign keys of a table off the list, if it has any.
    fn remove(&mut self, table: TableId) {
        let Some(child) = self.children.remove(&table) else { return };
        for key in &child.foreign_keys {
            let parent = key.parent.full();
            let Some(list) = self.by_parent.get_mut(&parent) else { continue };
            list.retain(|of| of.child.table.id != table);
            if list.is_empty() {
                self.by_parent.remove(&parent);
            }
        }
    }
}

fn has_foreign_key(table: &Table) -> bool {
    std::str::from_utf8(&table.description).is_ok_and(|text| text.contains(MARK))
}
