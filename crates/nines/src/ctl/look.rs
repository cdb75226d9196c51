//! What the workers of data nodes told: memory, transactions, locks.
//!
//! # Owns
//! The rows of `wire::Inspection` with names, as JSON and as text.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::table::{Table, bytes, micros};
use crate::role::request::{Sight, WorkerSight};
use crate::role::status::list;

/// The memory of a data node, over all its workers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct NodeMemory {
    pub(super) node: u16,
    pub(super) used: u64,
    pub(super) limit: u64,
    pub(super) percent: u64,
    /// The fullest of its workers, each of which has its own part.
    pub(super) fullest_worker_percent: u64,
    /// What takes how much, by name.
    pub(super) pools: BTreeMap<String, u64>,
}

/// An open transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct OpenTransaction {
    pub(super) node: u16,
    pub(super) worker: u8,
    pub(super) transaction: String,
    pub(super) state: String,
    pub(super) client_node: Option<u64>,
    pub(super) operations: u64,
    pub(super) waits: u64,
    pub(super) idle_us: u64,
}

/// A lock that is held or waited for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Lock {
    pub(super) node: u16,
    pub(super) worker: u8,
    pub(super) table_id: u64,
    pub(super) partition: u64,
    pub(super) key_hash: String,
    pub(super) transaction: String,
    pub(super) mode: String,
    pub(super) granted: bool,
}

/// What was told under names, with who did not answer.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Told<T> {
    pub(super) rows: Vec<T>,
    /// Data nodes of which some worker did not answer in time.
    pub(super) silent: Vec<u16>,
}

fn number(row: &[Value], at: usize) -> Option<u64> {
    row.get(at).and_then(Value::as_u64)
}

fn word(row: &[Value], at: usize) -> String {
    row.get(at).and_then(Value::as_str).unwrap_or_default().to_string()
}

/// Every row with a name, of every worker.
fn rows<T>(sight: Sight, make: impl Fn(&WorkerSight, &[Value]) -> T) -> Told<T> {
    let of = |worker: &WorkerSight| worker.rows.iter().map(|row| make(worker, row)).collect();
    let rows = sight.workers.iter().flat_map(|worker| -> Vec<T> { of(worker) });
    Told { rows: rows.collect(), silent: sight.silent }
}

/// Memory by node.
pub(super) fn memory(sight: &Sight, only: Option<u16>) -> Told<NodeMemory> {
    let mut nodes: Vec<NodeMemory> = Vec::new();
    let of_interest = |node: u16| only.is_none_or(|only| only == node);
    for WorkerSight { node, rows, .. } in sight.workers.iter().filter(|w| of_interest(w.node)) {
        if nodes.last().is_none_or(|last| last.node != *node) {
            let (used, limit, percent, fullest_worker_percent) = (0, 0, 0, 0);
            let pools = BTreeMap::new();
            let node = *node;
            nodes.push(NodeMemory { node, used, limit, percent, fullest_worker_percent, pools });
        }
        let Some(sum) = nodes.last_mut() else { continue };
        for row in rows {
            let (name, used) = (word(row, 0), number(row, 1).unwrap_or(0));
            match number(row, 2) {
                Some(limit) => {
                    sum.used += used;
                    sum.limit += limit;
                    let percent = percent_of(used, limit);
                    sum.fullest_worker_percent = sum.fullest_worker_percent.max(percent);
                }
                None => *sum.pools.entry(name).or_default() += used,
            }
        }
        sum.percent = percent_of(sum.used, sum.limit);
    }
    let silent = sight.silent.iter().copied().filter(|node| of_interest(*node)).collect();
    Told { rows: nodes, silent }
}

fn percent_of(used: u64, limit: u64) -> u64 {
    (u128::from(used) * 100).checked_div(u128::from(limit)).unwrap_or(0) as u64
}

/// Open transactions.
pub(super) fn transactions(sight: Sight) -> Told<OpenTransaction> {
    rows(sight, |worker, row| OpenTransaction {
        node: worker.node,
        worker: worker.worker,
        transaction: word(row, 0),
        state: word(row, 1),
        client_node: number(row, 2),
        operations: number(row, 3).unwrap_or(0),
        waits: number(row, 4).unwrap_or(0),
        idle_us: number(row, 5).unwrap_or(0),
    })
}

/// Locks.
pub(super) fn locks(sight: Sight) -> Told<Lock> {
    rows(sight, |worker, row| Lock {
        node: worker.node,
        worker: worker.worker,
        table_id: number(row, 0).unwrap_or(0),
        partition: number(row, 1).unwrap_or(0),
        key_hash: word(row, 2),
        transaction: word(row, 3),
        mode: word(row, 4),
        granted: word(row, 5) == "YES",
    })
}

/// How far the copying of rows to a node is, in words.
pub(super) fn copied(sight: &Sight, to: u16) -> Option<String> {
    let rows = sight.workers.iter().flat_map(|worker| &worker.rows);
    let to_it = |row: &&Vec<Value>| number(row, 2) == Some(to.into()) && word(row, 3) == "copying";
    let rows: Vec<&Vec<Value>> = rows.filter(to_it).collect();
    let sum = |at: usize| rows.iter().filter_map(|row| number(row, at)).sum::<u64>();
    let (slots, done, sent) = (sum(4), sum(5), sum(7));
    let left = rows.iter().filter_map(|row| number(row, 9)).max();
    let left = left.map(|left| format!(", about {} left", micros(left))).unwrap_or_default();
    (slots > 0).then(|| format!("{} %, {} sent{left}", percent_of(done, slots), bytes(sent)))
}

/// The table, and who is not in it.
fn finish(table: &Table, silent: &[u16], none: bool, what: &str) -> String {
    let mut text = if none { format!("no {what}\n") } else { table.text(0) };
    if !silent.is_empty() {
        text += &format!("no answer in time from {}\n", list(silent));
    }
    text
}

pub(super) fn memory_text(told: &Told<NodeMemory>) -> String {
    let mut table = Table::new(
        &["node", "used", "limit", "", "fullest worker", "most of it"],
        &[0, 1, 2, 3, 4],
    );
    for node in &told.rows {
        let mut pools: Vec<(&String, &u64)> =
            node.pools.iter().filter(|pool| *pool.1 > 0).collect();
        pools.sort_by_key(|pool| std::cmp::Reverse(pool.1));
        let pools = pools.iter().take(3).map(|(name, used)| format!("{name} {}", bytes(**used)));
        table.row([
            node.node.to_string(),
            bytes(node.used),
            bytes(node.limit),
            format!("{} %", node.percent),
            format!("{} %", node.fullest_worker_percent),
            pools.collect::<Vec<String>>().join(", "),
        ]);
    }
    finish(&table, &told.silent, told.rows.is_empty(), "data node has answered")
}

pub(super) fn transactions_text(told: &Told<OpenTransaction>) -> String {
    let head = ["transaction", "coordinator", "state", "client", "operations", "waits", "idle"];
    let mut table = Table::new(&head, &[4, 5, 6]);
    for open in &told.rows {
        table.row([
            open.transaction.clone(),
            format!("node {} worker {}", open.node, open.worker),
            open.state.clone(),
            open.client_node.map_or(String::new(), |node| format!("node {node}")),
            open.operations.to_string(),
            open.waits.to_string(),
            micros(open.idle_us),
        ]);
    }
    finish(&table, &told.silent, told.rows.is_empty(), "open transaction")
}

pub(super) fn locks_text(told: &Told<Lock>) -> String {
    let head = ["where", "table", "partition", "key hash", "transaction", "mode", ""];
    let mut table = Table::new(&head, &[1, 2]);
    for lock in &told.rows {
        table.row([
            format!("node {} worker {}", lock.node, lock.worker),
            lock.table_id.to_string(),
            lock.partition.to_string(),
            lock.key_hash.clone(),
            lock.transaction.clone(),
            lock.mode.clone(),
            if lock.granted { "held".into() } else { "waits".into() },
        ]);
    }
    finish(&table, &told.silent, told.rows.is_empty(), "lock is held or waited for")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sight(rows: &[(u16, u8, Value)], silent: &[u16]) -> Sight {
        let worker = |(node, worker, rows): &(u16, u8, Value)| WorkerSight {
            node: *node,
            worker: *worker,
            rows: serde_json::from_value(rows.clone()).unwrap(),
        };
        Sight { workers: rows.iter().map(worker).collect(), silent: silent.to_vec() }
    }

    #[test]
    fn memory_is_summed_by_node() {
        let rows = |used: u64| json!([["data memory", used, 1000], ["rows", used, null]]);
        let sight = sight(&[(1, 0, rows(100)), (1, 1, rows(500)), (2, 0, rows(0))], &[3]);
        let told = memory(&sight, None);
        let first = &told.rows[0];
        assert_eq!((first.used, first.limit, first.percent), (600, 2000, 30));
        assert_eq!(first.fullest_worker_percent, 50);
        assert_eq!(
            memory_text(&told),
            "node   used   limit        fullest worker  most of it
   1  600 B   1.9 K  30 %            50 %  rows 600 B
   2    0 B  1000 B   0 %             0 %
no answer in time from node 3
"
        );
        assert_eq!(memory(&sight, Some(2)).rows.len(), 1);
        assert!(memory(&sight, Some(2)).silent.is_empty());
    }

    #[test]
    fn copies_under_way() {
        let row = |to: u64, state: &str| json!([7, 0, to, state, 200, 50, 5, 2048, 10, 1_500_000]);
        let sight = sight(&[(1, 0, json!([row(2, "copying"), row(3, "copying")]))], &[]);
        assert_eq!(copied(&sight, 2), Some("25 %, 2.0 K sent, about 1.5 s left".into()));
        assert_eq!(copied(&sight, 4), None);
    }

    #[test]
    fn transactions_and_locks() {
        let of = json!([["n60#1:7", "open", 60, 3, 0, 1_500_000]]);
        let told = transactions(sight(&[(1, 0, of)], &[]));
        assert_eq!(
            transactions_text(&told),
            "transaction  coordinator      state  client   operations  waits   idle
n60#1:7      node 1 worker 0  open   node 60           3      0  1.5 s
"
        );
        let of = json!([[7, 3, "00ff", "n60#1:7", "exclusive", "NO"], [1]]);
        let told = locks(sight(&[(2, 1, of)], &[]));
        assert!(locks_text(&told).contains("node 2 worker 1      7          3  00ff"));
        assert!(locks_text(&told).contains("exclusive  waits"));
        assert_eq!(locks_text(&locks(sight(&[], &[]))), "no lock is held or waited for\n");
    }
}
