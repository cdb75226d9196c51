//! What is different in a cluster state from an earlier one.
//!
//! # Owns
//! [`StateChange`], by which those who follow the state of another process are told of the next
//! one: its size depends on what has changed, not on how much there is.
//! # Guarantees
//! A change made of two states makes the second of the first, and of no other state anything.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use stdx::{Change, SharedMap};

use super::{ClusterState, Configured, SchemaAnswer};
use crate::ids::{ClusterId, ControlIndex, NodeId, SessionId, TableId};
use crate::schema::{Description, Table};

/// A table that one of two states has, or both with different definitions.
pub type TableChange<'a> = Change<'a, TableId, Arc<Table>>;

/// What makes a cluster state of an earlier one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StateChange {
    /// The state that it can be applied to.
    since: ControlIndex,
    /// The later state, without its catalog and the answers to schema changes.
    rest: ClusterState,
    /// Tables that are different; none for those that are gone.
    tables: Vec<(TableId, Option<Arc<Table>>)>,
    /// Names that are different; none for those that are gone.
    names: Vec<(Arc<str>, Option<TableId>)>,
    /// Databases that are different; none for those that are gone.
    databases: Vec<(Arc<str>, Option<Description>)>,
    /// Accounts that are different; none for those that are gone.
    #[serde(default)]
    accounts: Vec<(Arc<str>, Option<Description>)>,
    /// The configuration, if it is different; none that is different does not occur.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    configured: Option<Configured>,
    /// Sessions with another answer, in the order of the later state; none for those forgotten.
    answers: Vec<(SessionId, Option<SchemaAnswer>)>,
}

impl ClusterState {
    /// The tables that are different from those in the state `before`, by identity. What the two
    /// states share is not looked at.
    pub fn table_changes<'a>(
        &'a self,
        before: &'a Self,
    ) -> impl Iterator<Item = TableChange<'a>> + use<'a> {
        self.tables.changes_since(&before.tables, Arc::ptr_eq)
    }

    /// Whether replicas lie elsewhere, or have other duties, than in the state `before`.
    pub fn places_differ(&self, before: &Self) -> bool {
        self.id != before.id
            || self.slots != before.slots
            || self.members != before.members
            || self.layouts != before.layouts
    }

    /// Whether the replicas of partitions that both states have lie elsewhere, or have other
    /// duties, than in the state `before`. A member in no slot changes nothing of them.
    pub fn duties_differ(&self, before: &Self) -> bool {
        let workers = |state: &Self, node| state.members.get(&node).map(|member| member.workers);
        let mut nodes = self.slots.iter().flat_map(|slot| &slot.replicas).map(|r| r.node);
        self.id != before.id
            || self.slots != before.slots
            || nodes.any(|node| workers(self, node) != workers(before, node))
    }

    /// Whether the node holds other slots than in the state `before`, or with other workers, so
    /// that partitions come and go.
    pub fn held_slots_differ(&self, before: &Self, node: NodeId) -> bool {
        let workers = |state: &Self| state.members.get(&node).map(|member| member.workers);
        let held = |state: &Self| -> Vec<bool> {
            state.slots.iter().map(|s| s.replicas.iter().any(|r| r.node == node)).collect()
        };
        self.id != before.id || workers(self) != workers(before) || held(self) != held(before)
    }

    /// The state without tables, databases, accounts, configuration and answers to schema changes.
    fn without_catalog(&self) -> Self {
        Self {
            tables: SharedMap::new(),
            table_names: SharedMap::new(),
            databases: SharedMap::new(),
            accounts: SharedMap::new(),
            configured: None,
            schema_answers: SharedMap::new(),
            schema_sessions: Default::default(),
            ..self.clone()
        }
    }
}

impl StateChange {
    /// What makes `after` of `before`, an earlier state of the same cluster.
    pub fn between(before: &ClusterState, after: &ClusterState) -> Self {
        let answers = after.schema_answers.changes_since(&before.schema_answers, |a, b| a == b);
        let (given, forgotten): (Vec<_>, Vec<_>) =
            answers.map(|c| (*c.key, c.after.copied())).partition(|(_, answer)| answer.is_some());
        let given: SharedMap<_, _> = given.into_iter().collect();
        // Who was answered since stands at the end of the list, in this order.
        let sessions = after.schema_sessions.iter().rev().take(given.len()).rev();
        let given = sessions.map(|session| (*session, given.get(session).copied().flatten()));
        let tables = after.table_changes(before);
        let version = |state: &ClusterState| state.configured.as_ref().map(Configured::version);
        let other = version(after) != version(before);
        Self {
            configured: after.configured.clone().filter(|_| other),
            since: before.index,
            rest: after.without_catalog(),
            tables: tables.map(|c| (*c.key, c.after.cloned())).collect(),
            names: list(&before.table_names, &after.table_names),
            databases: list(&before.databases, &after.databases),
            accounts: list(&before.accounts, &after.accounts),
            answers: forgotten.into_iter().chain(given).collect(),
        }
    }

    /// The cluster whose state it changes.
    pub fn id(&self) -> ClusterId {
        self.rest.id
    }

    /// The index of the state that it makes.
    pub fn index(&self) -> ControlIndex {
        self.rest.index
    }

    /// The same without what changes in the catalog. Tests lose it so.
    #[must_use]
    pub fn without_tables(&self) -> Self {
        Self { tables: Vec::new(), names: Vec::new(), ..self.clone() }
    }

    /// The state that it makes of `before`; none if it was made for another state.
    pub fn apply(&self, before: &ClusterState) -> Option<ClusterState> {
        if before.index != self.since || before.id != self.rest.id {
            return None;
        }
        let mut after = ClusterState {
            tables: before.tables.clone(),
            table_names: before.table_names.clone(),
            databases: before.databases.clone(),
            accounts: before.accounts.clone(),
            configured: self.configured.clone().or_else(|| before.configured.clone()),
            schema_answers: before.schema_answers.clone(),
            schema_sessions: before.schema_sessions.clone(),
            ..self.rest.clone()
        };
        put(&mut after.tables, &self.tables);
        put(&mut after.table_names, &self.names);
        put(&mut after.databases, &self.databases);
        put(&mut after.accounts, &self.accounts);
        put(&mut after.schema_answers, &self.answers);
        let changed: SharedMap<_, ()> = self.answers.iter().map(|(of, _)| (*of, ())).collect();
        after.schema_sessions.retain(|session| !changed.contains_key(session));
        let given = self.answers.iter().filter(|(_, answer)| answer.is_some());
        after.schema_sessions.extend(given.map(|(session, _)| *session));
        Some(after)
    }
}

fn list<K: Ord + Clone, V: PartialEq + Clone>(
    before: &SharedMap<K, V>,
    after: &SharedMap<K, V>,
) -> Vec<(K, Option<V>)> {
    let changes = after.changes_since(before, |a, b| a == b);
    changes.map(|change| (change.key.clone(), change.after.cloned())).collect()
}

fn put<K: Ord + Clone, V: Clone>(map: &mut SharedMap<K, V>, changes: &[(K, Option<V>)]) {
    for (key, value) in changes {
        match value {
            Some(value) => map.insert(key.clone(), value.clone()),
            None => map.remove(key),
        };
    }
}
