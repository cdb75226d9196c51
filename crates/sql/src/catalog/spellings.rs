//! Tables by names in which letter case does not count, as information_schema compares them.
//!
//! # Owns
//! [`Spellings`]: the names of the newest state that was asked for, by their hash in the collation
//! of names.
//! # Guarantees
//! A question costs what has changed since the one before, and the tables of that name; not what
//! other tables there are.
//! # Not here
//! Names as statements have them: in those letter case counts (`names`).

use std::sync::Arc;

use model::ClusterState;
use stdx::HashMap;

use super::Definitions;
use crate::catalog::system::NAMES_COLLATION;

/// The full names of a cluster state by the hash of the table's own name.
#[derive(Debug, Default)]
pub(super) struct Spellings {
    of: Option<Arc<ClusterState>>,
    by_hash: HashMap<u64, Vec<Arc<str>>>,
}

impl Definitions {
    /// The full names of the tables that may be called so in some letter case, in all databases, in
    /// the order of databases and names. Others may be among them.
    pub(crate) fn spelt(&self, cluster: &Arc<ClusterState>, name: &str) -> Vec<Arc<str>> {
        let mut spellings = self.spellings.borrow_mut();
        spellings.follow(cluster);
        let mut found = spellings.by_hash.get(&hash(name)).cloned().unwrap_or_default();
        found.sort_unstable_by(|a, b| a.split_once('.').cmp(&b.split_once('.')));
        found
    }
}

impl Spellings {
    fn follow(&mut self, cluster: &Arc<ClusterState>) {
        if self.of.as_ref().is_some_and(|of| Arc::ptr_eq(of, cluster)) {
            return;
        }
        let before = self.of.replace(cluster.clone()).unwrap_or_default();
        for change in cluster.table_names.changes_since(&before.table_names, |_, _| true) {
            let (_, name) = change.key.split_once('.').unwrap_or(("", change.key));
            let names = self.by_hash.entry(hash(name)).or_default();
            names.retain(|known| known != change.key);
            if change.after.is_some() {
                names.push(change.key.clone());
            } else if names.is_empty() {
                self.by_hash.remove(&hash(name));
            }
        }
    }
}

fn hash(name: &str) -> u64 {
    collation::hash(NAMES_COLLATION, name.as_bytes())
}

#[cfg(test)]
mod tests {
    use model::TableId;

    use super::*;

    #[test]
    fn names_are_found_in_any_letter_case_and_follow_the_state() {
        let state = |names: &[&str]| {
            let names = names.iter().zip(1..).map(|(name, id)| (Arc::from(*name), TableId(id)));
            Arc::new(ClusterState { table_names: names.collect(), ..ClusterState::default() })
        };
        let definitions = Definitions::default();
        let spelt = |state, name| -> Vec<String> {
            definitions.spelt(state, name).iter().map(|name| name.to_string()).collect()
        };
        let first = state(&["b.Orders", "a.orders", "a.other"]);
        assert_eq!(spelt(&first, "ORDERS"), ["a.orders", "b.Orders"]);
        assert_eq!(spelt(&first, "order"), Vec::<String>::new());
        let second = state(&["b.Orders", "a.ordérs", "a.other"]);
        assert_eq!(
            spelt(&second, "Orders"),
            ["a.ordérs", "b.Orders"],
            "accents do not count either"
        );
        assert_eq!(spelt(&first, "other"), ["a.other"], "also back to a state of before");
        assert_eq!(spelt(&first, "orders"), ["a.orders", "b.Orders"]);
    }
}
