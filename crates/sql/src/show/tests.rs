//! What SHOW answers.

use sql_parser::ast::Statement;
use sqltype::Datum;

use super::{Listing, filter, list};
use crate::catalog::harness::{Harness, texts};

#[track_caller]
fn show(harness: &mut Harness, sql: &str) -> Listing {
    try_show(harness, sql).unwrap_or_else(|code| panic!("{sql}: {code}"))
}

fn try_show(harness: &mut Harness, sql: &str) -> Result<Listing, u16> {
    let statement = sql_parser::parse(sql.as_bytes(), Default::default()).unwrap();
    let Statement::Show(show) = statement else { panic!("{sql} is no SHOW") };
    harness
        .wait(async |session| {
            let (mut listing, condition, pattern) = list(session, &show).await?;
            filter::apply(session, &mut listing, condition, pattern)?;
            Ok(listing)
        })
        .map_err(|error: sql_expression::SqlError| error.code())
}

fn headings(listing: &Listing) -> Vec<&str> {
    listing.columns.iter().map(|(name, _)| name.as_str()).collect()
}

fn filled() -> Harness {
    let mut harness = Harness::new();
    harness.ok(
        "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY COMMENT 'key', name VARCHAR(20) UNIQUE, \
         n INT DEFAULT 5, KEY k (n, name(4))) COMMENT 'things'",
    );
    harness.ok("CREATE TABLE u (a INT)");
    harness
}

#[test]
fn databases_and_tables() {
    let mut harness = filled();
    let listing = show(&mut harness, "SHOW DATABASES");
    let all = ["d", "information_schema", "performance_schema"];
    assert_eq!(texts(&listing.rows, 0), all);
    let listing = show(&mut harness, "SHOW DATABASES LIKE 'inf%'");
    assert_eq!(headings(&listing), ["Database (inf%)"]);
    assert_eq!(texts(&listing.rows, 0), ["information_schema"]);
    let listing = show(&mut harness, "SHOW FULL TABLES");
    assert_eq!(headings(&listing), ["Tables_in_d", "Table_type"]);
    assert_eq!(texts(&listing.rows, 0), ["t", "u"]);
    let listing = show(&mut harness, "SHOW TABLES LIKE 'T'");
    assert_eq!(headings(&listing), ["Tables_in_d (T)"]);
    assert!(listing.rows.is_empty(), "letter case counts");
    let listing = show(&mut harness, "SHOW TABLES WHERE Tables_in_d > 't'");
    assert_eq!(texts(&listing.rows, 0), ["u"]);
    assert_eq!(try_show(&mut harness, "SHOW TABLES FROM nosuch").unwrap_err(), 1049);
    assert_eq!(try_show(&mut harness, "SHOW TABLES WHERE nosuch = 1").unwrap_err(), 1054);
    assert!(!show(&mut harness, "SHOW TABLES FROM INFORMATION_SCHEMA").rows.is_empty());
}

#[test]
fn columns_and_indexes() {
    let mut harness = filled();
    let listing = show(&mut harness, "SHOW FULL COLUMNS FROM t");
    let all =
        ["Field", "Type", "Collation", "Null", "Key", "Default", "Extra", "Privileges", "Comment"];
    assert_eq!(headings(&listing), all);
    assert_eq!(texts(&listing.rows, 1), ["int", "varchar(20)", "int"]);
    assert_eq!(texts(&listing.rows, 2), ["NULL", "utf8mb4_0900_ai_ci", "NULL"]);
    assert_eq!(texts(&listing.rows, 4), ["PRI", "UNI", "MUL"]);
    assert_eq!(texts(&listing.rows, 5), ["NULL", "NULL", "5"]);
    assert_eq!(texts(&listing.rows, 6), ["auto_increment", "", ""]);
    let listing = show(&mut harness, "SHOW COLUMNS FROM t LIKE 'N%'");
    assert_eq!(texts(&listing.rows, 0), ["name", "n"]);
    let listing = show(&mut harness, "SHOW COLUMNS FROM t WHERE `Key` = 'PRI'");
    assert_eq!(texts(&listing.rows, 0), ["id"]);
    let listing = show(&mut harness, "SHOW INDEX FROM t");
    assert_eq!(texts(&listing.rows, 2), ["PRIMARY", "name", "k", "k"]);
    assert_eq!(texts(&listing.rows, 4), ["id", "name", "n", "name"]);
    assert_eq!(listing.rows[3][7], Datum::Int(4));
    let listing = show(&mut harness, "SHOW KEYS FROM t WHERE Non_unique = 0");
    assert_eq!(texts(&listing.rows, 2), ["PRIMARY", "name"]);
    assert_eq!(try_show(&mut harness, "SHOW COLUMNS FROM nosuch").unwrap_err(), 1146);
    assert!(!show(&mut harness, "SHOW COLUMNS FROM information_schema.tables").rows.is_empty());
}

#[test]
fn create_statements() {
    let mut harness = filled();
    harness.ok("INSERT INTO t (name) VALUES ('x')");
    let listing = show(&mut harness, "SHOW CREATE TABLE t");
    assert_eq!(headings(&listing), ["Table", "Create Table"]);
    let expected = "CREATE TABLE `t` (\n  `id` int NOT NULL AUTO_INCREMENT COMMENT 'key',\n  \
                    `name` varchar(20) DEFAULT NULL,\n  `n` int DEFAULT '5',\n  \
                    PRIMARY KEY (`id`),\n  UNIQUE KEY `name` (`name`),\n  \
                    KEY `k` (`n`,`name`(4))\n) ENGINE=NDBCLUSTER AUTO_INCREMENT=2 \
                    DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci COMMENT='things'";
    assert_eq!(texts(&listing.rows, 1), [expected]);
    harness.ok("SET sql_quote_show_create = 0");
    let listing = show(&mut harness, "SHOW CREATE TABLE u");
    assert!(texts(&listing.rows, 1)[0].starts_with("CREATE TABLE u (\n  a int"));
    harness.ok("SET sql_quote_show_create = 1, sql_mode = ANSI_QUOTES");
    let listing = show(&mut harness, "SHOW CREATE TABLE u");
    assert!(texts(&listing.rows, 1)[0].starts_with("CREATE TABLE \"u\" (\n  \"a\" int"));
    let listing = show(&mut harness, "SHOW CREATE DATABASE d");
    assert!(texts(&listing.rows, 1)[0].starts_with("CREATE DATABASE `d` /*!40100 DEFAULT"));
    assert_eq!(try_show(&mut harness, "SHOW CREATE TABLE nosuch").unwrap_err(), 1146);
    assert_eq!(try_show(&mut harness, "SHOW CREATE VIEW t").unwrap_err(), 1347);
    assert_eq!(try_show(&mut harness, "SHOW CREATE PROCEDURE p").unwrap_err(), 1305);
}

#[test]
fn timestamps_are_shown_in_the_sessions_zone() {
    let mut harness = Harness::new();
    harness.ok("SET time_zone = '+02:00'");
    harness.ok("CREATE TABLE t (a TIMESTAMP DEFAULT '2020-01-01 12:00:00')");
    let shown =
        |harness: &mut Harness| texts(&show(harness, "SHOW CREATE TABLE t").rows, 1)[0].clone();
    assert!(shown(&mut harness).contains("DEFAULT '2020-01-01 12:00:00'"));
    harness.ok("SET time_zone = '+00:00'");
    assert!(shown(&mut harness).contains("DEFAULT '2020-01-01 10:00:00'"));
}

#[test]
fn variables_and_status() {
    let mut harness = Harness::new();
    let listing = show(&mut harness, "SHOW VARIABLES LIKE 'lower_case%'");
    assert_eq!(headings(&listing), ["Variable_name", "Value"]);
    assert_eq!(texts(&listing.rows, 0), ["lower_case_file_system", "lower_case_table_names"]);
    let sql = "SHOW SESSION VARIABLES WHERE Variable_name IN ('autocommit', 'port')";
    let listing = show(&mut harness, sql);
    assert_eq!(texts(&listing.rows, 1), ["ON", "3306"]);
    let listing = show(&mut harness, "SHOW GLOBAL VARIABLES LIKE 'timestamp'");
    assert!(listing.rows.is_empty());
    let listing = show(&mut harness, "SHOW STATUS LIKE 'Uptime'");
    assert_eq!(texts(&listing.rows, 0), ["Uptime"]);
    let names = texts(&show(&mut harness, "SHOW GLOBAL STATUS").rows, 0);
    assert!(names.is_sorted() && names.contains(&"Com_select".to_owned()));
}

#[test]
fn every_other_form_answers() {
    let mut harness = filled();
    for (sql, first) in [
        ("SHOW TABLE STATUS", "Name"),
        ("SHOW OPEN TABLES", "Database"),
        ("SHOW TRIGGERS LIKE 't'", "Trigger"),
        ("SHOW EVENTS", "Db"),
        ("SHOW FUNCTION STATUS", "Db"),
        ("SHOW PROCEDURE STATUS WHERE Db = 'd'", "Db"),
        ("SHOW ENGINES", "Engine"),
        ("SHOW ENGINE innodb STATUS", "Type"),
        ("SHOW PLUGINS", "Name"),
        ("SHOW CHARSET LIKE 'utf8%'", "Charset"),
        ("SHOW COLLATION WHERE `Default` = 'Yes'", "Collation"),
        ("SHOW FULL PROCESSLIST", "Id"),
        ("SHOW GRANTS", "Grants for root@localhost"),
        ("SHOW PRIVILEGES", "Privilege"),
        ("SHOW WARNINGS LIMIT 1", "Level"),
        ("SHOW ERRORS", "Level"),
        ("SHOW COUNT(*) WARNINGS", "@@session.warning_count"),
        ("SHOW MASTER STATUS", "File"),
        ("SHOW BINLOG EVENTS", "Log_name"),
        ("SHOW REPLICA STATUS", "Replica_IO_State"),
        ("SHOW REPLICAS", "Server_Id"),
        ("SHOW PROFILES", "Query_ID"),
        ("SHOW CREATE USER root@localhost", "CREATE USER for root@localhost"),
    ] {
        assert_eq!(headings(&show(&mut harness, sql))[0], first, "{sql}");
    }
    assert_eq!(try_show(&mut harness, "SHOW BINARY LOGS").unwrap_err(), 1381);
    assert_eq!(try_show(&mut harness, "SHOW GRANTS FOR nobody").unwrap_err(), 1141);
}

#[test]
fn warnings_are_listed() {
    let mut harness = Harness::new();
    harness.ok("DROP TABLE IF EXISTS x, y");
    let listing = show(&mut harness, "SHOW WARNINGS");
    assert_eq!(texts(&listing.rows, 0), ["Note", "Note"]);
    assert_eq!(texts(&listing.rows, 2)[1], "Unknown table 'd.y'");
    assert_eq!(show(&mut harness, "SHOW WARNINGS LIMIT 1, 1").rows.len(), 1);
    let listing = show(&mut harness, "SHOW COUNT(*) WARNINGS");
    assert_eq!(listing.rows[0], [Datum::UInt(2)]);
}
