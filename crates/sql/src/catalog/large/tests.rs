//! The room of large columns, and what is added in place.

use super::*;
use crate::catalog::harness::Harness;

/// A table's columns, and how many bytes of each large value lie in the row.
fn rooms(harness: &Harness) -> Vec<usize> {
    let table = harness.table("d.t");
    let Some(large) = &table.large else { return Vec::new() };
    let room = |column: &ColumnId| {
        table.columns[usize::from(column.0)].column_type.variable_max().map_or(0, usize::from)
    };
    large.columns.iter().map(room).collect()
}

#[test]
fn texts_share_what_other_columns_leave() {
    let texts: Vec<String> = (0..100).map(|at| format!("t{at} TEXT")).collect();
    for (columns, expected) in [
        ("a INT, b TINYTEXT, c TINYBLOB, d VARCHAR(100)", vec![]),
        ("a TEXT, b JSON, c LONGBLOB, d VARCHAR(100)", vec![ROOM_MAX; 3]),
        ("a VARBINARY(50000), b TEXT, c MEDIUMTEXT", vec![7_655; 2]),
        // Nothing is left beside the references to two values.
        ("a VARBINARY(65500), b BLOB, c BLOB", vec![3; 2]),
        (texts.join(",").as_str(), vec![641; 100]),
    ] {
        let mut harness = Harness::new();
        harness.ok(&format!("CREATE TABLE t ({columns})"));
        assert_eq!(rooms(&harness), expected, "{columns}");
        // Whatever the values are, they fit a row.
        let table = harness.table("d.t");
        let longest = |c: &Column| c.column_type.variable_max().map_or(0, usize::from);
        let variable: usize = table.columns.iter().map(longest).sum();
        assert!(variable <= VARIABLE_MAX);
        assert!(variable + table.layout().fixed_size() <= ROW_SIZE_MAX);
    }
}

#[test]
fn a_table_has_4096_columns() {
    let columns = |count| {
        let columns: Vec<String> = (0..count).map(|at| format!("c{at} BLOB")).collect();
        format!("CREATE TABLE t ({})", columns.join(","))
    };
    let mut harness = Harness::new();
    assert_eq!(harness.error(&columns(4_097)).0, 1117);
    harness.ok(&columns(4_096));
    assert_eq!(rooms(&harness), [1; 4_096]);
}

#[test]
fn texts_are_added_in_place_while_there_is_room() {
    let mut harness = Harness::new();
    harness.ok("CREATE TABLE t (a INT PRIMARY KEY, b VARBINARY(1000))");
    let id = harness.table("d.t").id;
    harness.ok("ALTER TABLE t ADD c TEXT, ADD d INT, ADD e JSON");
    harness.ok("ALTER TABLE t ADD f LONGTEXT FIRST");
    assert_eq!((rooms(&harness), harness.table("d.t").id), (vec![ROOM_MAX; 3], id));
    for at in 3..=9 {
        assert_eq!(harness.table("d.t").id, id, "{at}");
        harness.ok(&format!("ALTER TABLE t ADD t{at} TEXT"));
    }
    // The last one found no room: rows have been copied, to share it anew.
    assert_ne!(harness.table("d.t").id, id);
    assert!(rooms(&harness).windows(2).all(|two| two[0] == two[1]));
}

#[test]
fn the_longest_key_leaves_parts_one_of_theirs() {
    let mut harness = Harness::new();
    for key in ["VARCHAR(768)", "VARCHAR(3072) CHARACTER SET latin1", "VARBINARY(3072)"] {
        harness.ok(&format!("CREATE TABLE t (a {key} PRIMARY KEY, b TEXT)"));
        assert_eq!(rooms(&harness), [ROOM_MAX], "{key}");
        harness.ok("DROP TABLE t");
        harness.ok(&format!("CREATE TABLE t (a {key} PRIMARY KEY)"));
        harness.ok("ALTER TABLE t ADD c TEXT");
        assert_eq!(rooms(&harness), [ROOM_MAX], "{key}");
        harness.ok("DROP TABLE t");
    }
}
