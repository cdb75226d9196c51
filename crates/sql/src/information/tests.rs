//! The rows of computed tables.

use client::Inspected;
use model::{NodeId, Value, WorkerId};
use sqltype::Datum;
use wire::Inspection;

use super::all;
use super::table;
use crate::catalog::harness::{Harness, texts};
use crate::information::virtual_table::Hints;

fn rows(harness: &mut Harness, schema: &str, name: &str) -> Vec<Vec<Datum>> {
    let found = table(schema, name).unwrap_or_else(|| panic!("no {schema}.{name}"));
    harness.wait(async |session| found.rows(session).await.unwrap())
}

/// The values of some columns in the rows about the database `d`.
fn of_d(harness: &mut Harness, name: &str, columns: &[&str]) -> Vec<Vec<String>> {
    let found = table("information_schema", name).unwrap();
    let place = |name: &str| found.columns.iter().position(|c| c.name == name).unwrap();
    let schema = found.columns.iter().position(|c| c.name.ends_with("_SCHEMA")).unwrap();
    let mut rows = rows(harness, "information_schema", name);
    rows.retain(|row| row[schema] == Datum::text("d"));
    let picked: Vec<Vec<String>> =
        columns.iter().map(|column| texts(&rows, place(column))).collect();
    (0..rows.len()).map(|at| picked.iter().map(|column| column[at].clone()).collect()).collect()
}

fn filled() -> Harness {
    let mut harness = Harness::new();
    harness.ok("CREATE TABLE t (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, \
         name VARCHAR(20) NOT NULL, price DECIMAL(10,2) DEFAULT 0, at DATETIME(3) DEFAULT NOW(3), \
         len INT AS (length(name)) STORED, UNIQUE u (name), CHECK (price > 0))");
    harness
}

#[test]
fn every_table_has_rows_as_wide_as_itself_or_refuses() {
    let mut harness = filled();
    for table in all() {
        let rows = harness.wait(async |session| table.rows(session).await);
        match rows {
            Ok(rows) => {
                let width = table.columns.len();
                let wrong = rows.iter().find(|row| row.len() != width);
                assert_eq!(wrong, None, "{}.{} has {width} columns", table.schema, table.name);
                let nulls = rows.iter().flat_map(|row| row.iter().zip(table.columns));
                for (value, column) in nulls {
                    let fits = column.nullable || !value.is_null();
                    assert!(fits, "{}.{}.{}", table.schema, table.name, column.name);
                }
            }
            Err(error) => assert_eq!(error.code(), 1235, "{}.{}", table.schema, table.name),
        }
    }
}

#[test]
fn names_are_found_in_any_letter_case() {
    assert!(table("INFORMATION_SCHEMA", "tables").is_some());
    assert!(table("information_schema", "Tables").is_some());
    assert!(table("d", "tables").is_none());
    assert!(table("information_schema", "nosuch").is_none());
}

#[test]
fn columns_are_described() {
    let mut harness = filled();
    let columns = ["COLUMN_NAME", "DATA_TYPE", "COLUMN_TYPE", "IS_NULLABLE", "COLUMN_KEY", "EXTRA"];
    let found = of_d(&mut harness, "COLUMNS", &columns);
    let expected = [
        ["id", "bigint", "bigint unsigned", "NO", "PRI", "auto_increment"],
        ["name", "varchar", "varchar(20)", "NO", "UNI", ""],
        ["price", "decimal", "decimal(10,2)", "YES", "", ""],
        ["at", "datetime", "datetime(3)", "YES", "", "DEFAULT_GENERATED"],
        ["len", "int", "int", "YES", "", "STORED GENERATED"],
    ];
    assert_eq!(found, expected);
    let columns = ["COLUMN_DEFAULT", "CHARACTER_SET_NAME", "GENERATION_EXPRESSION"];
    let found = of_d(&mut harness, "COLUMNS", &columns);
    let expected = [
        ["NULL", "NULL", ""],
        ["NULL", "utf8mb4", ""],
        ["0.00", "NULL", ""],
        ["CURRENT_TIMESTAMP(3)", "NULL", ""],
        ["NULL", "NULL", "length(`name`)"],
    ];
    assert_eq!(found, expected);
}

#[test]
fn keys_and_constraints_are_described() {
    let mut harness = filled();
    let found = of_d(&mut harness, "STATISTICS", &["INDEX_NAME", "COLUMN_NAME", "INDEX_TYPE"]);
    assert_eq!(found, [["PRIMARY", "id", "BTREE"], ["u", "name", "BTREE"]]);
    let found = of_d(&mut harness, "TABLE_CONSTRAINTS", &["CONSTRAINT_NAME", "CONSTRAINT_TYPE"]);
    assert_eq!(found, [["PRIMARY", "PRIMARY KEY"], ["u", "UNIQUE"], ["t_chk_1", "CHECK"]]);
    let found = of_d(&mut harness, "KEY_COLUMN_USAGE", &["CONSTRAINT_NAME", "COLUMN_NAME"]);
    assert_eq!(found, [["PRIMARY", "id"], ["u", "name"]]);
    let found = of_d(&mut harness, "CHECK_CONSTRAINTS", &["CONSTRAINT_NAME", "CHECK_CLAUSE"]);
    assert_eq!(found, [["t_chk_1", "(`price` > 0)"]]);
    let found = of_d(&mut harness, "TABLES", &["TABLE_NAME", "TABLE_TYPE", "ENGINE"]);
    assert_eq!(found, [["t", "BASE TABLE", "ndbcluster"]]);
}

#[test]
fn sizes_are_those_of_all_primary_replicas() {
    let mut harness = filled();
    let table = harness.table("d.t");
    let (id, partitions) = (u64::from(table.id.0), u64::from(table.partition_count));
    let replica = |at: u64, role: &str, rows: u64| {
        let role = Value::text(role);
        let (id, at, copied) = (Value::UInt(id), Value::UInt(at), Value::text("NO"));
        vec![id, at, role, copied, Value::UInt(rows), Value::UInt(rows), Value::UInt(100 * rows)]
    };
    let told =
        |rows: Vec<Vec<Value>>| vec![Inspected { node: NodeId(1), worker: WorkerId(0), rows }];
    let sizes = ["TABLE_ROWS", "AVG_ROW_LENGTH", "DATA_LENGTH", "INDEX_LENGTH", "DATA_FREE"];
    let unknown = [["NULL"; 5]];
    assert_eq!(of_d(&mut harness, "TABLES", &sizes), unknown);
    // Backups say the same, and count once.
    harness.world.told = told(
        (0..partitions)
            .flat_map(|at| [replica(at, "primary", 10), replica(at, "backup", 9)])
            .collect(),
    );
    let all = (10 * partitions).to_string();
    let bytes = (1_000 * partitions).to_string();
    let number = |number: &str| format!("UInt({number})");
    let expected = [&*all, "100", &*bytes, "0", "0"].map(number);
    assert_eq!(of_d(&mut harness, "TABLES", &sizes), [expected]);
    let found = of_d(&mut harness, "PARTITIONS", &["TABLE_ROWS", "DATA_LENGTH"]);
    assert_eq!(found, vec![["10", "1000"].map(number); partitions as usize]);
    let found = of_d(&mut harness, "STATISTICS", &["INDEX_NAME", "CARDINALITY"]);
    assert_eq!(found, [["PRIMARY", &*format!("Int({all})")], ["u", &*format!("Int({all})")]]);
    // A table of which a part is unknown has no size.
    harness.world.told[0].rows.remove(0);
    assert_eq!(of_d(&mut harness, "TABLES", &sizes), unknown);
    let found = of_d(&mut harness, "PARTITIONS", &["TABLE_ROWS", "DATA_LENGTH"]);
    assert_eq!(found[0], ["NULL", "NULL"]);
}

#[test]
fn hints_leave_out_other_tables() {
    let mut harness = filled();
    harness.ok("CREATE TABLE u (a INT)");
    let hints = Hints { database: Some("d".to_owned()), table: Some("u".to_owned()) };
    let found = table("information_schema", "COLUMNS").unwrap();
    let rows = harness.wait(async |session| found.rows_like(session, &hints).await.unwrap());
    assert_eq!(texts(&rows, 3), ["a"]);
}

#[test]
fn one_table_is_asked_about_alone() {
    let mut harness = filled();
    harness.ok("CREATE TABLE u (a INT)");
    let (of_u, last) =
        (harness.table("d.u").id, *harness.world.state.tables.keys().last().unwrap());
    let first = *harness.world.state.tables.keys().next().unwrap();
    let found = table("information_schema", "TABLES").unwrap();
    for (wanted, tables) in [(Some("U"), (of_u, of_u)), (None, (first, last))] {
        let asked = Inspection::ReplicasOf { tables };
        harness.world.inspected.clear();
        let hints =
            Hints { database: Some("d".to_owned()), table: wanted.map(|name| name.to_owned()) };
        harness.wait(async |session| found.rows_like(session, &hints).await.unwrap());
        assert_eq!(harness.world.inspected, [asked], "{wanted:?}");
    }
}

#[test]
fn a_hint_finds_what_the_column_equals() {
    let mut harness = filled();
    for name in ["Ä", "b"] {
        harness.ok(&format!("CREATE TABLE `{name}` (a INT)"));
    }
    let found = table("information_schema", "COLUMNS").unwrap();
    for (wanted, names) in [("a", vec!["Ä"]), ("B", vec!["b"]), ("B ", vec!["b"]), ("c", vec![])] {
        let hints = Hints { database: Some("D".to_owned()), table: Some(wanted.to_owned()) };
        let rows = harness.wait(async |session| found.rows_like(session, &hints).await.unwrap());
        assert_eq!(texts(&rows, 2), names, "{wanted}");
    }
}
