//! The tables of generated queries: every type, and values at the edges of each.
//!
//! # Owns
//! [`TABLES`] and the statements that make and fill them; what a query can name.

use super::draw::Draw;
use super::tree::Kind;

/// A column: its name, its definition, what it is in an expression, and values to fill it with.
pub(super) struct Column {
    pub(super) name: &'static str,
    definition: &'static str,
    pub(super) kind: Kind,
    values: &'static [&'static str],
}

/// A table; each also has `id`, a primary key, and `k` and `w`, by which tables are joined.
pub(super) struct Table {
    pub(super) name: &'static str,
    pub(super) columns: &'static [Column],
    keys: &'static str,
}

const fn column(
    name: &'static str,
    definition: &'static str,
    kind: Kind,
    values: &'static [&'static str],
) -> Column {
    Column { name, definition, kind, values }
}

/// What every table has, beside `id`.
pub(super) const COMMON: [Column; 2] = [
    column("k", "INT", Kind::Integer, &["0", "1", "2", "3", "4", "5", "7", "NULL"]),
    column(
        "w",
        "VARCHAR(12) COLLATE utf8mb4_bin",
        Kind::Text,
        &["'apple'", "'Apple'", "'pear'", "''", "'été'", "NULL"],
    ),
];

/// The tables.
pub(super) const TABLES: [Table; 3] = [
    Table {
        name: "n",
        columns: NUMBERS,
        keys: "KEY (k), KEY (i), KEY (d, k), UNIQUE KEY (ub, id)",
    },
    Table { name: "s", columns: TEXTS, keys: "KEY (k, w), KEY (g), KEY (e), UNIQUE KEY (bn, id)" },
    Table {
        name: "d",
        columns: DATES,
        keys: "KEY (w), KEY (da, k), KEY (ti), UNIQUE KEY (dt, id)",
    },
];

const NUMBERS: &[Column] = &[
    column("t8", "TINYINT", Kind::Integer, &["-128", "127", "0", "1", "-1", "NULL"]),
    column("u8", "TINYINT UNSIGNED", Kind::Integer, &["0", "255", "7", "1", "NULL"]),
    column("s16", "SMALLINT", Kind::Integer, &["-32768", "32767", "0", "12", "NULL"]),
    column("u24", "MEDIUMINT UNSIGNED", Kind::Integer, &["0", "16777215", "3", "NULL"]),
    column("i", "INT", Kind::Integer, &["-2147483648", "2147483647", "0", "5", "-7", "42", "NULL"]),
    column("ui", "INT UNSIGNED NOT NULL", Kind::Integer, &["0", "4294967295", "5", "11"]),
    column(
        "b",
        "BIGINT",
        Kind::Integer,
        &["-9223372036854775808", "9223372036854775807", "0", "9", "-20", "NULL"],
    ),
    column(
        "ub",
        "BIGINT UNSIGNED",
        Kind::Integer,
        &["0", "18446744073709551615", "9", "100", "NULL"],
    ),
    column("y", "YEAR", Kind::Integer, &["1999", "2024", "1901", "2155", "NULL"]),
    column(
        "d",
        "DECIMAL(12,3)",
        Kind::Decimal,
        &["-999999999.999", "0", "0.005", "1.500", "-2.25", "12.345", "NULL"],
    ),
    column(
        "dw",
        "DECIMAL(30,10)",
        Kind::Decimal,
        &["-12345678901234567890.1234567891", "0.5", "7", "3.3333333333", "NULL"],
    ),
    column("d0", "DECIMAL(10,0) NOT NULL", Kind::Decimal, &["0", "999999999", "-5", "17"]),
    column("f", "FLOAT", Kind::Double, &["0", "-1.5", "0.25", "1024", "NULL"]),
    column("g", "DOUBLE", Kind::Double, &["0", "-2.5", "1e15", "0.125", "3", "-7", "NULL"]),
];

const TEXTS: &[Column] = &[
    column(
        "g",
        "VARCHAR(30) COLLATE utf8mb4_general_ci",
        Kind::Text,
        &[
            "'apple'",
            "'APPLE pie'",
            "''",
            "'été'",
            "'ETE'",
            "'12abc'",
            "'7'",
            "'a_b'",
            "'50%'",
            "' x '",
            "'Straße'",
            "NULL",
        ],
    ),
    column(
        "bn",
        "VARCHAR(30) COLLATE utf8mb4_bin",
        Kind::Text,
        &[
            "'apple'",
            "'Apple'",
            "''",
            "'été'",
            "'zebra'",
            "'-3.5'",
            "'2024-02-29'",
            "'日本'",
            "NULL",
        ],
    ),
    column(
        "u",
        "VARCHAR(30) COLLATE utf8mb4_unicode_ci",
        Kind::Text,
        &["'apple'", "'Äpfel'", "'STRASSE'", "'Straße'", "''", "'10:11:12'", "NULL"],
    ),
    column(
        "l",
        "VARCHAR(30) CHARACTER SET latin1",
        Kind::Text,
        &["'apple'", "'Été'", "'Äpfel'", "'1e2'", "''", "NULL"],
    ),
    column(
        "c",
        "CHAR(8) COLLATE utf8mb4_bin",
        Kind::Text,
        &["'AbC'", "'abc'", "''", "'12345678'", "NULL"],
    ),
    column(
        "tx",
        "TEXT COLLATE utf8mb4_bin",
        Kind::Text,
        &["'a,b,c'", "'The quick brown fox'", "'apple,pear'", "''", "NULL"],
    ),
    column(
        "e",
        "ENUM('b','a','c d') COLLATE utf8mb4_bin",
        Kind::Text,
        &["'a'", "'b'", "'c d'", "NULL"],
    ),
    column(
        "st",
        "SET('x','y','z') COLLATE utf8mb4_bin NOT NULL",
        Kind::Text,
        &["'x,z'", "''", "'y'", "'x,y,z'"],
    ),
    column("n", "INT", Kind::Integer, &["1", "2", "3", "-4", "NULL"]),
];

const DATES: &[Column] = &[
    column(
        "da",
        "DATE",
        Kind::Date,
        &["'1998-12-01'", "'2024-02-29'", "'1000-01-01'", "'9999-12-31'", "'2023-01-31'", "NULL"],
    ),
    column(
        "db",
        "DATE NOT NULL",
        Kind::Date,
        &["'1970-01-01'", "'2024-02-29'", "'2000-03-01'", "'2025-06-15'"],
    ),
    column(
        "dt",
        "DATETIME",
        Kind::Moment,
        &["'2024-02-29 23:59:59'", "'1998-12-01 00:00:00'", "'2001-09-09 01:46:40'", "NULL"],
    ),
    column(
        "d3",
        "DATETIME(3)",
        Kind::Moment,
        &["'2024-02-29 23:59:59.999'", "'2010-10-10 10:10:10.005'", "NULL"],
    ),
    column(
        "d6",
        "DATETIME(6)",
        Kind::Moment,
        &["'2024-12-31 23:59:59.999999'", "'2015-05-05 00:00:00.000001'", "NULL"],
    ),
    column(
        "ts",
        "TIMESTAMP NULL",
        Kind::Moment,
        &["'2024-02-29 23:59:59'", "'1990-01-01 12:00:00'", "'2038-01-19 03:14:07'", "NULL"],
    ),
    column(
        "ti",
        "TIME",
        Kind::Time,
        &["'-400:00:01'", "'12:00:00'", "'00:00:01'", "'25:30:15'", "NULL"],
    ),
    column(
        "t3",
        "TIME(3)",
        Kind::Time,
        &["'10:11:12.345'", "'-00:00:00.500'", "'23:59:59.999'", "NULL"],
    ),
    column("x", "INT", Kind::Integer, &["0", "1", "30", "365", "-1", "NULL"]),
];

/// Rows of a table.
const ROWS: u64 = 28;

/// The statements that make the tables, and fill them with what the seed draws.
pub(super) fn script(draw: &mut Draw) -> Vec<String> {
    let mut script = vec![
        "DROP DATABASE IF EXISTS wide".to_owned(),
        "CREATE DATABASE wide".to_owned(),
        "USE wide".to_owned(),
    ];
    for table in &TABLES {
        let all = || COMMON.iter().chain(table.columns);
        let columns: Vec<String> =
            all().map(|column| format!("{} {}", column.name, column.definition)).collect();
        script.push(format!(
            "CREATE TABLE {} (id INT NOT NULL PRIMARY KEY, {}, {}) DEFAULT CHARSET utf8mb4",
            table.name,
            columns.join(", "),
            table.keys
        ));
        for id in 0..ROWS {
            let values: Vec<&str> = all().map(|column| draw.pick(column.values)).collect();
            script.push(format!("INSERT INTO {} VALUES ({id}, {})", table.name, values.join(", ")));
        }
    }
    script
}

/// The statements that copy the tables without their secondary keys.
pub(super) fn script_without_keys() -> Vec<String> {
    let mut script = vec!["CREATE OR REPLACE DATABASE plain".to_owned(), "USE plain".to_owned()];
    for Table { name, .. } in &TABLES {
        script.push(format!("CREATE TABLE {name} AS SELECT * FROM wide.{name}"));
    }
    script
}

/// What both servers are told of a session, so that they mean the same.
pub(super) const SETTINGS: [&str; 3] = [
    "SET NAMES utf8mb4 COLLATE utf8mb4_general_ci",
    "SET time_zone = '+00:00', timestamp = 1718454896.5, group_concat_max_len = 100000",
    "SET sql_mode = 'STRICT_TRANS_TABLES,ONLY_FULL_GROUP_BY,NO_ZERO_IN_DATE,NO_ZERO_DATE,\
     ERROR_FOR_DIVISION_BY_ZERO'",
];

/// What takes MariaDB's rewriting of queries away, as far as it goes.
pub(super) const SETTINGS_WITHOUT_REWRITING: [&str; 2] = [
    "SET join_cache_level = 0, optimizer_use_condition_selectivity = 1",
    "SET optimizer_switch = 'derived_merge=off,derived_with_keys=off,semijoin=off,\
     materialization=off,subquery_cache=off,table_elimination=off,exists_to_in=off,\
     orderby_uses_equalities=off,condition_pushdown_for_derived=off,split_materialized=off,\
     condition_pushdown_for_subquery=off,condition_pushdown_from_having=off,rowid_filter=off,\
     index_condition_pushdown=off'",
];

/// What only MariaDB needs: MySQL rounds digits of a second that do not fit.
pub(super) const SETTINGS_OF_MARIADB: [&str; 1] =
    ["SET sql_mode = CONCAT(@@sql_mode, ',TIME_ROUND_FRACTIONAL')"];
