//! Whole values in and out, on the control log's own state machine; parts are counted.

use client::ClientOperation;
use wire::Projection;

use super::*;
use crate::access::{ReadMode, Reader, Values};
use crate::catalog::harness::Harness;
use crate::result::Outcome;

const TABLE: &str = "CREATE TABLE t (id INT PRIMARY KEY, n INT, b LONGBLOB, m TEXT, KEY (n))";

fn harness() -> Harness {
    let mut harness = Harness::new();
    harness.ok(TABLE);
    harness
}

fn reader(harness: &Harness) -> Reader {
    Reader {
        kernel: harness.session.kernel.clone(),
        table: harness.table("d.t"),
        mode: ReadMode::Committed,
        projection: Projection::All,
    }
}

/// The rows as a reader sees them, by key.
fn rows(harness: &mut Harness) -> Vec<Values> {
    let (reader, rows) = (reader(harness), harness.rows("d.t"));
    let completed = harness.wait(async |_| reader.complete(rows).await).unwrap();
    let mut rows: Vec<Values> = completed.into_iter().filter_map(|row| row.values).collect();
    rows.sort_by_key(|row| format!("{:?}", row[0]));
    rows
}

/// How many parts there are; each of them belongs to a row.
#[track_caller]
fn parts(harness: &Harness) -> usize {
    let table = harness.table("d.t");
    let large = table.large.clone().unwrap();
    let parts = harness.world.rows.get(&large.parts).cloned().unwrap_or_default();
    let mut named = 0;
    for row in harness.rows("d.t") {
        for reference in decode(&table, &row[usize::from(large.references.0)]).unwrap() {
            for part in 0..reference.parts() {
                let key = reference.key(&row[..1], part);
                assert!(parts.iter().any(|row| row[..3] == key), "{key:?} is missing");
                named += 1;
            }
        }
    }
    assert_eq!(parts.len(), named, "parts without a row");
    named
}

fn large(byte: u8, size: usize) -> Value {
    Value::Bytes(vec![byte; size].into())
}

#[test]
fn references_are_read_as_written_and_nothing_else_is() {
    let harness = harness();
    let table = harness.table("d.t");
    let reference = |column, value, size| Reference { column: ColumnId(column), value, size };
    for references in [vec![], vec![reference(2, u64::MAX, 1), reference(3, 7, 1 << 30)]] {
        assert_eq!(decode(&table, &encode(&references)).unwrap(), references);
    }
    assert_eq!(size_of(&encode(&[reference(2, 1, 9), reference(3, 2, 1 << 30)])), (1 << 30) + 9);
    for bad in [&[][..], &[2], &[1, 0], &[1; 14], &[1; 16]] {
        assert!(decode(&table, &Value::Bytes(bad.into())).is_err(), "{bad:?}");
    }
}

#[test]
fn values_up_to_the_room_of_a_row_lie_in_it() {
    let mut harness = harness();
    harness.ok("INSERT INTO t VALUES (1, 1, REPEAT('a', 8000), REPEAT('b', 8000))");
    assert_eq!(parts(&harness), 0);
    harness.ok("INSERT INTO t VALUES (2, 2, REPEAT('a', 8001), '')");
    assert_eq!(parts(&harness), 1);
    harness.ok("INSERT INTO t VALUES (3, 3, REPEAT('a', 57000), REPEAT('b', 57001))");
    assert_eq!(parts(&harness), 1 + 1 + 2);
    let rows = rows(&mut harness);
    assert_eq!(rows[0][2], large(b'a', 8_000));
    assert_eq!(rows[1][2], large(b'a', 8_001));
    assert_eq!((&rows[2][2], &rows[2][3]), (&large(b'a', 57_000), &large(b'b', 57_001)));
    assert!(rows.iter().all(|row| row[4] == Value::Null), "references are nobody else's business");
}

#[test]
fn changes_of_rows_leave_no_part_behind() {
    let mut harness = harness();
    for (statement, expected) in [
        ("INSERT INTO t VALUES (1, 1, REPEAT('a', 200000), REPEAT('b', 9000))", 5),
        ("UPDATE t SET n = 5 WHERE id = 1", 5),
        ("UPDATE t SET b = REPEAT('c', 150000) WHERE id = 1", 4),
        ("UPDATE t SET b = 'small' WHERE id = 1", 1),
        ("UPDATE t SET b = REPEAT('d', 100000), m = NULL WHERE id = 1", 2),
        ("UPDATE t SET id = 2 WHERE id = 1", 2),
        ("REPLACE INTO t VALUES (2, 5, REPEAT('e', 200000), '')", 4),
        ("REPLACE INTO t VALUES (3, 5, '', REPEAT('f', 10000))", 5),
        ("INSERT INTO t VALUES (3, 9, '', '') ON DUPLICATE KEY UPDATE b = REPEAT('g', 60000)", 7),
        ("INSERT INTO t VALUES (3, 9, '', '') ON DUPLICATE KEY UPDATE id = 4, m = ''", 6),
        ("INSERT IGNORE INTO t VALUES (4, 4, REPEAT('h', 99999), ''), (5, 6, '', '')", 6),
        ("DELETE FROM t WHERE id = 5", 6),
        ("DELETE FROM t", 0),
    ] {
        harness.ok(statement);
        assert_eq!(parts(&harness), expected, "{statement}");
        if statement.contains("id = 4") {
            let row = rows(&mut harness).remove(1);
            assert_eq!((&row[0], &row[2]), (&Value::Int(4), &large(b'g', 60_000)));
        }
    }
}

#[test]
fn one_statement_changes_a_row_twice() {
    let mut harness = Harness::new();
    harness.ok("CREATE TABLE t (id INT PRIMARY KEY, b LONGBLOB)");
    harness.ok("REPLACE INTO t VALUES (1, REPEAT('a', 60000)), (1, REPEAT('b', 70000)), (2, 'c')");
    assert_eq!(parts_of_two(&harness), 2);
    let rows = rows(&mut harness);
    assert_eq!((&rows[0][1], &rows[1][1]), (&large(b'b', 70_000), &Value::text("c")));
}

/// Nothing of them has parts, so they are sent with the commit; the refusal is all that comes back.
#[test]
fn one_refused_of_many_is_named_whatever_follows() {
    let mut harness = harness();
    harness.ok("INSERT INTO t VALUES (1, 1, 'a', ''), (2, 2, 'b', ''), (3, 3, 'c', '')");
    let (table, rows) = (harness.table("d.t").id, harness.rows("d.t"));
    let operations = vec![
        ClientOperation::upsert(table, rows[0].clone()),
        ClientOperation::insert(table, rows[1].clone()),
        ClientOperation::upsert(table, rows[2].clone()),
    ];
    let result = harness.wait(async |session| session.kernel.execute_all(operations, true).await);
    let rejected = result.expect_err("a row is there already");
    assert_eq!(rejected.at, Some(1), "{:?}", rejected.failure);
    assert_eq!(harness.rows("d.t"), rows);
}

/// The coordinator has died with the answer: that all is committed had to be asked for.
#[test]
fn a_commit_whose_answer_was_lost_is_no_error() {
    let mut harness = harness();
    harness.ok("CREATE TABLE s (id INT PRIMARY KEY, n INT NOT NULL, b VARCHAR(9), m VARCHAR(9))");
    harness.world.loses_answers = true;
    for table in ["t", "s"] {
        for (statement, expected, left) in [
            ("INSERT INTO @ VALUES (1, 1, 'a', ''), (2, 2, 'b', '')", 2, 2),
            ("INSERT INTO @ VALUES (3, 3, 'c', '')", 1, 3),
            ("UPDATE @ SET n = n + 1 WHERE id = 1", 1, 3),
            ("UPDATE @ SET b = 'd' WHERE id = 1", 1, 3),
            ("DELETE FROM @ WHERE id = 1", 1, 2),
            ("REPLACE INTO @ VALUES (4, 4, 'e', '')", 1, 3),
        ] {
            let statement = statement.replace('@', table);
            let Outcome::Done { affected, .. } = harness.ok(&statement) else {
                panic!("{statement}")
            };
            let rows = harness.rows(&format!("d.{table}")).len();
            assert_eq!((affected, rows), (expected, left), "{statement}");
        }
    }
}

fn parts_of_two(harness: &Harness) -> usize {
    let parts = harness.table("d.t").large.clone().unwrap().parts;
    harness.world.rows.get(&parts).map_or(0, Vec::len)
}

#[test]
fn a_table_that_goes_takes_its_parts_along() {
    let mut harness = harness();
    harness.ok("INSERT INTO t VALUES (1, 1, REPEAT('a', 200000), '')");
    harness.ok("ALTER TABLE t ADD x INT FIRST");
    let row = rows(&mut harness).remove(0);
    assert!(row.contains(&large(b'a', 200_000)));
    harness.ok("RENAME TABLE t TO u, u TO t");
    let before = harness.table("d.t").large.clone().unwrap().parts;
    harness.ok("TRUNCATE TABLE t");
    let after = harness.table("d.t").large.clone().unwrap().parts;
    assert!(!harness.world.state.tables.contains_key(&before));
    assert!(!harness.world.rows.contains_key(&after));
    harness.ok("DROP TABLE t");
    assert!(!harness.world.state.tables.contains_key(&after));
}

#[test]
fn a_row_that_was_changed_meanwhile_is_read_again() {
    let mut harness = harness();
    harness.ok("INSERT INTO t VALUES (1, 1, REPEAT('a', 200000), ''), (2, 2, '', '')");
    harness.ok("INSERT INTO t VALUES (3, 3, REPEAT('c', 9000), '')");
    let (reader, old) = (reader(&harness), harness.rows("d.t"));
    harness.ok("UPDATE t SET b = REPEAT('b', 100000) WHERE id = 1");
    harness.ok("DELETE FROM t WHERE id = 3");
    let completed = harness.wait(async |_| reader.complete(old).await).unwrap();
    assert!(completed[0].is_newer && !completed[1].is_newer);
    assert_eq!(completed[0].values.as_ref().unwrap()[2], large(b'b', 100_000));
    assert_eq!(completed[2].values, None);
}

#[test]
fn a_row_is_not_written_with_references_of_another() {
    let mut harness = harness();
    harness.ok("INSERT INTO t VALUES (1, 1, REPEAT('a', 200000), '')");
    let mut row = harness.rows("d.t").remove(0);
    row[0] = Value::Int(2);
    let insert = ClientOperation::insert(harness.table("d.t").id, row);
    let result = harness.wait(async |session| session.kernel.execute(vec![insert]).await);
    assert!(
        matches!(result, Err(Failure::Refused(refusal)) if refusal.code == ErrorCode::Internal)
    );
}
