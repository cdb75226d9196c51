//! What the data nodes are asked about sizes: of the tables that are wanted, some at a time.

use wire::Inspection;

use super::*;
use crate::catalog::harness::Harness;

/// Tables `t0` to `t399`, of two partitions each.
fn many() -> Harness {
    let mut harness = Harness::new();
    for number in 0..400 {
        harness.ok(&format!("CREATE TABLE t{number} (id INT PRIMARY KEY, v INT)"));
    }
    harness.world.inspected.clear();
    harness
}

fn asked(harness: &mut Harness) -> Vec<(TableId, TableId)> {
    let asked = std::mem::take(&mut harness.world.inspected);
    let tables = |what| match what {
        Inspection::ReplicasOf { tables } => tables,
        other => panic!("{other:?} is about everything"),
    };
    asked.into_iter().map(tables).collect()
}

fn partitions(harness: &Harness, first: TableId, last: TableId) -> usize {
    let tables = harness.world.state.tables.iter();
    let of_range = tables.filter(|(id, _)| (first..=last).contains(id));
    of_range.map(|(_, table)| usize::from(table.partition_count)).sum()
}

#[test]
fn all_tables_are_asked_about_some_at_a_time() {
    let mut harness = many();
    harness.wait(async |session| Sizes::of(&session.kernel, None).await);
    let asked = asked(&mut harness);
    assert_eq!(asked.len(), 4, "800 partitions: {asked:?}");
    let of_ranges: Vec<usize> =
        asked.iter().map(|(first, last)| partitions(&harness, *first, *last)).collect();
    assert!(of_ranges.iter().all(|count| *count <= PARTITIONS_ASKED), "{of_ranges:?}");
    assert_eq!(of_ranges.iter().sum::<usize>(), 800, "each once");
    assert!(asked.is_sorted_by(|a, b| a.1 < b.0), "{asked:?}");
}

#[test]
fn tables_far_apart_are_asked_about_alone() {
    let mut harness = many();
    let tables: Vec<Arc<Table>> =
        ["d.t399", "d.t1", "d.t0"].into_iter().map(|name| harness.table(name)).collect();
    harness.wait(async |session| Sizes::of(&session.kernel, Some(&tables)).await);
    let [last, first, before] = [0, 1, 2].map(|at: usize| tables[at].id);
    assert_eq!(asked(&mut harness), [(before, first), (last, last)]);
}

#[test]
fn a_join_asks_about_its_own_tables_once() {
    let mut harness = many();
    let of = |harness: &Harness, name| harness.table(name).id;
    let (a, b) = (of(&harness, "d.t5"), of(&harness, "d.t300"));
    let mut join = |sql: &str| {
        let query = match sql_parser::parse(sql.as_bytes(), Default::default()).unwrap() {
            sql_parser::ast::Statement::Query(query) => query,
            other => panic!("{other:?}"),
        };
        harness.wait(async |session| {
            session.refresh_statistics(&query).await;
            crate::execute::plan_by_sizes(session, &query, &[]).await.map(|_| ()).unwrap();
        });
        asked(&mut harness)
    };
    let sql = "SELECT * FROM t5 JOIN t300 ON t5.v = t300.id";
    assert_eq!(join(sql), [(a, a), (b, b)]);
    assert_eq!(join(sql), [], "what was asked is kept for a while");
    assert_eq!(join("SELECT * FROM t7 WHERE id = 1"), [], "the plan depends on no size");
}
