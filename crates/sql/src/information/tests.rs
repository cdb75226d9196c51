//! The rows of computed tables.

use sqltype::Datum;

use super::{Hints, all, table};
use crate::catalog::harness::{Harness, texts};

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
fn hints_leave_out_other_tables() {
    let mut harness = filled();
    harness.ok("CREATE TABLE u (a INT)");
    let hints = Hints { database: Some("d".to_owned()), table: Some("u".to_owned()) };
    let found = table("information_schema", "COLUMNS").unwrap();
    let rows = harness.wait(async |session| found.rows_like(session, &hints).await.unwrap());
    assert_eq!(texts(&rows, 3), ["a"]);
}
