//! Definitions: what CREATE TABLE means, what SHOW CREATE TABLE prints, what is refused.

use std::sync::Arc;

use model::Table;

use super::harness::Harness;
use super::kernel_form::HIDDEN_KEY;
use super::text::{Style, create_table};
use super::{ColumnDefault, KeyKind};

/// SHOW CREATE TABLE of `d.t`.
#[track_caller]
fn shown(harness: &Harness) -> String {
    let definition = harness.session.shared.definitions.of(&harness.table("d.t")).unwrap();
    let style = Style::catalog(&definition.options);
    create_table(&definition.name, definition.parts(), &style)
}

const END: &str = "\n) ENGINE=NDBCLUSTER DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci";

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn columns_are_shown_as_mysql_shows_them() {
    let cases = [
        ("a INT", "`a` int DEFAULT NULL"),
        ("a INTEGER(11) UNSIGNED NOT NULL", "`a` int unsigned NOT NULL"),
        ("a INT(5) ZEROFILL", "`a` int(5) unsigned zerofill DEFAULT NULL"),
        ("a TINYINT(1) NOT NULL DEFAULT 0", "`a` tinyint(1) NOT NULL DEFAULT '0'"),
        ("a BOOL DEFAULT TRUE", "`a` tinyint(1) DEFAULT '1'"),
        ("a BIGINT DEFAULT -5", "`a` bigint DEFAULT '-5'"),
        ("a DECIMAL", "`a` decimal(10,0) DEFAULT NULL"),
        ("a NUMERIC(12,2) NOT NULL DEFAULT 1.5", "`a` decimal(12,2) NOT NULL DEFAULT '1.50'"),
        ("a FLOAT", "`a` float DEFAULT NULL"),
        ("a FLOAT(30)", "`a` double DEFAULT NULL"),
        ("a FLOAT(7,4)", "`a` float(7,4) DEFAULT NULL"),
        ("a DOUBLE PRECISION DEFAULT 1.5", "`a` double DEFAULT '1.5'"),
        ("a BIT(4) DEFAULT b'101'", "`a` bit(4) DEFAULT b'101'"),
        ("a CHAR", "`a` char(1) DEFAULT NULL"),
        ("a VARCHAR(20) NOT NULL DEFAULT ''", "`a` varchar(20) NOT NULL DEFAULT ''"),
        ("a VARCHAR(9) DEFAULT 'it''s \\\\ b'", "`a` varchar(9) DEFAULT 'it''s \\\\ b'"),
        ("a VARCHAR(9) DEFAULT 'x\\ny'", "`a` varchar(9) DEFAULT 'x\\ny'"),
        ("a BINARY(3)", "`a` binary(3) DEFAULT NULL"),
        ("a VARBINARY(3) DEFAULT 0xFF", "`a` varbinary(3) DEFAULT 0xFF"),
        ("a TEXT", "`a` text"),
        ("a TEXT NOT NULL", "`a` text NOT NULL"),
        ("a TEXT(100)", "`a` text"),
        ("a TEXT(10)", "`a` tinytext"),
        ("a BLOB(70000)", "`a` mediumblob"),
        ("a LONGBLOB", "`a` longblob"),
        ("a JSON", "`a` json DEFAULT NULL"),
        ("a DATE", "`a` date DEFAULT NULL"),
        ("a DATE DEFAULT '2024-02-29'", "`a` date DEFAULT '2024-02-29'"),
        ("a TIME(3) DEFAULT '01:02:03.5'", "`a` time(3) DEFAULT '01:02:03.500'"),
        ("a YEAR(4) DEFAULT 2020", "`a` year DEFAULT '2020'"),
        (
            "a DATETIME(6) DEFAULT NOW(6) ON UPDATE NOW(6)",
            "`a` datetime(6) DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6)",
        ),
        ("a TIMESTAMP", "`a` timestamp NULL DEFAULT NULL"),
        (
            "a TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP",
            "`a` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP",
        ),
        (
            "a TIMESTAMP DEFAULT '2020-01-02 03:04:05'",
            "`a` timestamp NULL DEFAULT '2020-01-02 03:04:05'",
        ),
        ("a ENUM('x','y') NOT NULL DEFAULT 'y'", "`a` enum('x','y') NOT NULL DEFAULT 'y'"),
        ("a ENUM('x','y') DEFAULT 1", "`a` enum('x','y') DEFAULT 'x'"),
        ("a SET('x','y','z') DEFAULT 'x,z'", "`a` set('x','y','z') DEFAULT 'x,z'"),
        (
            "a VARCHAR(5) CHARACTER SET latin1",
            "`a` varchar(5) CHARACTER SET latin1 COLLATE latin1_swedish_ci DEFAULT NULL",
        ),
        (
            "a VARCHAR(5) COLLATE utf8mb4_bin",
            "`a` varchar(5) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT NULL",
        ),
        ("a CHAR(5) BINARY", "`a` char(5) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT NULL"),
        ("a VARCHAR(5) CHARACTER SET binary", "`a` varbinary(5) DEFAULT NULL"),
        ("a INT COMMENT 'it''s'", "`a` int DEFAULT NULL COMMENT 'it''s'"),
        (
            "a INT, b INT INVISIBLE",
            "`a` int DEFAULT NULL,\n  `b` int DEFAULT NULL /*!80023 INVISIBLE */",
        ),
        ("a INT DEFAULT (1 + 2)", "`a` int DEFAULT ((1 + 2))"),
        ("a VARCHAR(36) DEFAULT (uuid())", "`a` varchar(36) DEFAULT (uuid())"),
        (
            "a INT, b INT AS (t.a + 1) STORED NOT NULL COMMENT 'sum'",
            "`a` int DEFAULT NULL,\n  `b` int \
         GENERATED ALWAYS AS ((`a` + 1)) STORED NOT NULL COMMENT 'sum'",
        ),
        (
            "a INT, b VARCHAR(9) GENERATED ALWAYS AS (concat(a, 'x')) VIRTUAL",
            "`a` int DEFAULT NULL,\n  `b` varchar(9) \
         GENERATED ALWAYS AS (concat(`a`,_utf8mb4'x')) VIRTUAL",
        ),
    ];
    for (declared, expected) in cases {
        let mut harness = Harness::new();
        harness.ok(&format!("CREATE TABLE t ({declared})"));
        assert_eq!(shown(&harness), format!("CREATE TABLE `t` (\n  {expected}{END}"), "{declared}");
    }
}

#[test]
fn keys_and_checks_are_shown_as_mysql_shows_them() {
    let columns = "`a` int NOT NULL,\n  `b` varchar(50) DEFAULT NULL,\n  `c` int DEFAULT NULL,\n  ";
    let cases = [
        ("PRIMARY KEY (a)", "PRIMARY KEY (`a`)"),
        ("PRIMARY KEY USING HASH (a)", "PRIMARY KEY (`a`) USING HASH"),
        ("UNIQUE (b)", "UNIQUE KEY `b` (`b`)"),
        ("UNIQUE INDEX u USING HASH (b, c)", "UNIQUE KEY `u` (`b`,`c`) USING HASH"),
        ("KEY k (b(10), c DESC) COMMENT 'x'", "KEY `k` (`b`(10),`c` DESC) COMMENT 'x'"),
        ("KEY (b(50))", "KEY `b` (`b`)"),
        ("INDEX (c), INDEX (c, a)", "KEY `c` (`c`),\n  KEY `c_2` (`c`,`a`)"),
        ("KEY k (c) INVISIBLE", "KEY `k` (`c`) /*!80000 INVISIBLE */"),
        (
            "KEY k (c), UNIQUE n (b), UNIQUE o (a), PRIMARY KEY (a)",
            "PRIMARY KEY (`a`),\n  UNIQUE KEY `o` (`a`),\n  UNIQUE KEY `n` (`b`),\n  KEY `k` (`c`)",
        ),
        ("CHECK (c > 0)", "CONSTRAINT `t_chk_1` CHECK ((`c` > 0))"),
        (
            "CONSTRAINT pos CHECK (c > 0) NOT ENFORCED, CHECK (a <> c)",
            "CONSTRAINT `pos` CHECK ((`c` > 0)) /*!80016 NOT ENFORCED */,\n  \
             CONSTRAINT `t_chk_1` CHECK ((`a` <> `c`))",
        ),
    ];
    for (declared, expected) in cases {
        let mut harness = Harness::new();
        harness.ok(&format!("CREATE TABLE t (a INT NOT NULL, b VARCHAR(50), c INT, {declared})"));
        let expected = format!("CREATE TABLE `t` (\n  {columns}{expected}{END}");
        assert_eq!(shown(&harness), expected, "{declared}");
    }
}

#[test]
fn options_are_shown_as_mysql_shows_them() {
    let cases = [
        ("ENGINE=InnoDB", " ENGINE=NDBCLUSTER DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci"),
        ("CHARSET latin1", " ENGINE=NDBCLUSTER DEFAULT CHARSET=latin1"),
        (
            "COLLATE utf8mb4_general_ci COMMENT 'c''s' ROW_FORMAT=DYNAMIC \
         KEY_BLOCK_SIZE=8 MAX_ROWS=9",
            " ENGINE=NDBCLUSTER DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci MAX_ROWS=9 \
             ROW_FORMAT=DYNAMIC KEY_BLOCK_SIZE=8 COMMENT='c''s'",
        ),
        (
            "AUTO_INCREMENT=5",
            " ENGINE=NDBCLUSTER AUTO_INCREMENT=5 \
         DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci",
        ),
        (
            "PARTITION BY KEY (a) PARTITIONS 4",
            " ENGINE=NDBCLUSTER DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci\n\
             /*!50100 PARTITION BY KEY (a)\nPARTITIONS 4 */",
        ),
    ];
    for (declared, expected) in cases {
        let mut harness = Harness::new();
        harness.ok(&format!("CREATE TABLE t (a INT PRIMARY KEY) {declared}"));
        let head = "CREATE TABLE `t` (\n  `a` int NOT NULL,\n  PRIMARY KEY (`a`)\n)";
        assert_eq!(shown(&harness), format!("{head}{expected}"), "{declared}");
    }
}

#[test]
fn columns_inherit_collations() {
    let mut harness = Harness::new();
    harness.ok("CREATE DATABASE l CHARACTER SET latin1");
    harness.ok(
        "CREATE TABLE l.t (a CHAR(1), b CHAR(1) COLLATE latin1_bin, c CHAR(1) CHARSET utf8mb4)",
    );
    let definition = harness.session.shared.definitions.of(&harness.table("l.t")).unwrap();
    let names: Vec<&str> =
        definition.columns.iter().map(|column| column.sql_type.collation.name()).collect();
    assert_eq!(names, ["latin1_swedish_ci", "latin1_bin", "utf8mb4_0900_ai_ci"]);
    assert_eq!(definition.collation().name(), "latin1_swedish_ci");
    harness.ok("ALTER DATABASE l COLLATE utf8mb4_bin");
    harness.ok("CREATE TABLE l.u (a CHAR(1))");
    let definition = harness.session.shared.definitions.of(&harness.table("l.u")).unwrap();
    assert_eq!(definition.columns[0].sql_type.collation.name(), "utf8mb4_bin");
}

#[test]
fn the_kernel_gets_keys_and_their_ordered_twins() {
    let mut harness = Harness::new();
    harness.ok("CREATE TABLE t (a INT, b INT, c TEXT, id BIGINT UNSIGNED AUTO_INCREMENT, \
         PRIMARY KEY (id, a), UNIQUE u (b), UNIQUE h USING HASH (b, a), KEY k (a), KEY p (c(10))) \
         PARTITION BY KEY (a) PARTITIONS 3");
    let table = harness.table("d.t");
    let ordered: Vec<&str> = table.ordered_indexes.iter().map(|x| x.name.as_str()).collect();
    let unique: Vec<&str> = table.unique_indexes.iter().map(|x| x.name.as_str()).collect();
    assert_eq!(ordered, ["PRIMARY", "u#o", "k", "p"]);
    assert_eq!(unique, ["u", "h"]);
    assert_eq!(table.primary_key.iter().map(|c| c.0).collect::<Vec<u16>>(), [3, 0]);
    assert_eq!(table.distribution_key.iter().map(|c| c.0).collect::<Vec<u16>>(), [0]);
    assert_eq!(table.partition_count, 3);
    let definition = harness.session.shared.definitions.of(&table).unwrap();
    assert_eq!(definition.hidden_key, None);
    for key in &definition.keys {
        assert_eq!(key.unique.is_some(), key.kind == KeyKind::Unique, "{}", key.name);
        let has_ordered = key.name != "h";
        assert_eq!(key.ordered.is_some(), has_ordered, "{}", key.name);
    }
}

#[test]
fn a_table_without_primary_key_has_a_hidden_one() {
    let mut harness = Harness::new();
    harness.ok("CREATE TABLE t (a INT)");
    let table = harness.table("d.t");
    let definition = harness.session.shared.definitions.of(&table).unwrap();
    assert_eq!(definition.hidden_key, Some(table.primary_key[0]));
    assert_eq!(table.columns[usize::from(table.primary_key[0].0)].name, HIDDEN_KEY);
    assert_eq!(definition.columns.len(), 1);
}

#[test]
fn serial_is_what_it_stands_for() {
    let mut harness = Harness::new();
    harness.ok("CREATE TABLE t (id SERIAL)");
    let expected = "CREATE TABLE `t` (\n  `id` bigint unsigned NOT NULL AUTO_INCREMENT,\n  \
                    UNIQUE KEY `id` (`id`)";
    assert_eq!(shown(&harness), format!("{expected}{END}"));
}

#[test]
fn a_dropped_default_stays_dropped() {
    let mut harness = Harness::new();
    harness.ok("CREATE TABLE t (a INT, b TEXT)");
    harness.ok("ALTER TABLE t ALTER a DROP DEFAULT");
    assert_eq!(shown(&harness), format!("CREATE TABLE `t` (\n  `a` int,\n  `b` text{END}"));
    let definition = harness.session.shared.definitions.of(&harness.table("d.t")).unwrap();
    assert_eq!(definition.columns[0].default, ColumnDefault::None);
    assert_eq!(definition.columns[1].default, ColumnDefault::Value(sqltype::Datum::Null));
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn what_mysql_refuses_is_refused_with_its_number() {
    let long = "x".repeat(65);
    let long_enum = format!("a ENUM('{}')", "x".repeat(256));
    let long_name = format!("{long} INT");
    let wide: Vec<String> = (0..9).map(|n| format!("c{n} VARCHAR(2000)")).collect();
    let wide = wide.join(",");
    let cases: &[(&str, u16)] = &[
        ("a INT, A INT", 1060),
        ("a INT, KEY k (a), KEY K (a)", 1061),
        ("a INT AUTO_INCREMENT", 1075),
        ("a INT AUTO_INCREMENT KEY, b INT AUTO_INCREMENT UNIQUE", 1075),
        ("a CHAR(1) AUTO_INCREMENT KEY", 1063),
        ("a FLOAT(54)", 1063),
        ("a INT DEFAULT 'x'", 1067),
        ("a INT NOT NULL DEFAULT NULL", 1067),
        ("a TINYINT DEFAULT 300", 1067),
        ("a DATE DEFAULT '2023-02-30'", 1067),
        ("a DATETIME DEFAULT '0000-00-00 00:00:00'", 1067),
        ("a DATETIME(3) DEFAULT NOW()", 1067),
        ("a INT DEFAULT NOW()", 1067),
        ("a INT AUTO_INCREMENT KEY DEFAULT 1", 1067),
        ("a INT ON UPDATE NOW()", 1294),
        ("a INT PRIMARY KEY, b INT PRIMARY KEY", 1068),
        ("a INT, KEY (b)", 1072),
        ("a INT, KEY (a, a)", 1060),
        ("a CHAR(256)", 1074),
        ("a VARCHAR(20000)", 1074),
        ("a INT, KEY (a(3))", 1089),
        ("a VARCHAR(5), KEY (a(6))", 1089),
        ("a VARCHAR(5), KEY (a(0))", 1391),
        ("a TEXT DEFAULT 'x'", 1101),
        ("a JSON DEFAULT 'x'", 1101),
        (&wide, 1118),
        ("`a ` INT", 1166),
        (&long_name, 1059),
        ("a TEXT, KEY (a)", 1170),
        ("a INT NULL PRIMARY KEY", 1171),
        ("a VARCHAR(800), KEY (a)", 1071),
        ("a VARCHAR(2000), PRIMARY KEY (a)", 1071),
        ("a CHAR(1) CHARACTER SET nosuch", 1115),
        ("a CHAR(1) COLLATE nosuch", 1273),
        ("a CHAR(1) CHARACTER SET latin1 COLLATE utf8mb4_bin", 1253),
        ("a INT, KEY `PRIMARY` (a)", 1280),
        ("a ENUM('x','X')", 1291),
        ("a SET('a,b')", 1367),
        (&long_enum, 3505),
        ("a DECIMAL(10,31)", 1425),
        ("a DECIMAL(66,2)", 1426),
        ("a DATETIME(7)", 1426),
        ("a DECIMAL(5,6)", 1427),
        ("a INT(256)", 1439),
        ("a BIT(65)", 1439),
        ("a YEAR(2)", 1818),
        ("a JSON, KEY (a)", 3152),
        ("a INT INVISIBLE", 4028),
        ("a INT, b INT AS (nosuch + 1)", 1054),
        ("a INT, b INT AS (c + 1), c INT AS (a + 1)", 3107),
        ("a INT AUTO_INCREMENT KEY, b INT AS (a + 1)", 3109),
        ("a INT, b INT AS (rand())", 3763),
        ("a INT, b INT AS (@x)", 3765),
        ("a INT, b INT AS ((SELECT 1))", 3102),
        ("a INT DEFAULT (@x)", 3772),
        ("a INT DEFAULT (sleep(1))", 3770),
        ("a INT CHECK (b > 0), b INT", 3813),
        ("a INT, CHECK (nosuch > 0)", 3820),
        ("a INT, CHECK (a > rand())", 3814),
        ("a INT, CHECK (a > @x)", 3816),
        ("a INT, CHECK (a + 1)", 3812),
        ("a INT, CHECK (nosuch(a) > 1)", 1305),
        ("a INT, b INT AS (left(a))", 1582),
        ("a INT AUTO_INCREMENT KEY, CHECK (a > 1)", 3818),
        ("a INT, CONSTRAINT c CHECK (a > 0), CONSTRAINT C CHECK (a > 1)", 3822),
        ("a INT, FULLTEXT (a)", 1214),
        ("a INT, FOREIGN KEY (a) REFERENCES u (a)", 1824),
        ("a VARCHAR(50), UNIQUE (a(0))", 1391),
        ("a VARCHAR(800), UNIQUE (a(769))", 1071),
        ("a INT, KEY ((a))", 3762),
        ("a INT, KEY ((b + 1))", 1054),
        ("a INT, KEY ((a = (1, 2)))", 1241),
        ("a INT, KEY ((a + @x))", 3758),
        ("a JSON, KEY ((a->'$.b'))", 3753),
        ("a JSON, KEY ((a->>'$.b'))", 3757),
        ("a INT, PRIMARY KEY ((a + 1))", 3756),
        ("a INT AUTO_INCREMENT PRIMARY KEY, KEY ((a + 1))", 3754),
        ("a POINT", 1235),
    ];
    for (declared, code) in cases {
        let mut harness = Harness::new();
        let (found, message) = harness.error(&format!("CREATE TABLE t ({declared})"));
        assert_eq!(found, *code, "{declared}: {message}");
    }
}

#[test]
fn tables_and_databases_are_refused_by_name() {
    let cases = [
        ("CREATE TABLE nosuch.t (a INT)", 1049),
        ("CREATE TABLE `t ` (a INT)", 1103),
        ("CREATE TABLE t (a INT) PARTITION BY HASH (a)", 1235),
        ("CREATE TABLE t (a INT PRIMARY KEY, b INT) PARTITION BY KEY (b)", 1503),
        ("CREATE TABLE t (a INT PRIMARY KEY) PARTITION BY KEY (a) PARTITIONS 0", 1504),
        ("CREATE TABLE t (a INT PRIMARY KEY) PARTITION BY KEY (a) PARTITIONS 9999", 1499),
        ("CREATE TABLE t (a INT) CHARSET utf8mb4 CHARSET latin1", 1302),
        ("CREATE TABLE information_schema.t (a INT)", 1044),
        ("CREATE TABLE t LIKE nosuch", 1146),
        ("CREATE DATABASE d", 1007),
        ("CREATE DATABASE `a.b`", 1102),
        ("CREATE DATABASE mysql", 1007),
        ("DROP DATABASE nosuch", 1008),
        ("DROP DATABASE mysql", 3552),
        ("ALTER DATABASE nosuch COLLATE utf8mb4_bin", 1049),
        ("DROP TABLE nosuch", 1051),
        ("RENAME TABLE nosuch TO t", 1146),
        ("TRUNCATE TABLE nosuch", 1146),
        ("ALTER TABLE nosuch ADD a INT", 1146),
        ("CREATE INDEX i ON nosuch (a)", 1146),
    ];
    for (sql, code) in cases {
        let mut harness = Harness::new();
        let (found, message) = harness.error(sql);
        assert_eq!(found, code, "{sql}: {message}");
    }
}

#[test]
fn a_row_of_the_kernel_without_definition_is_an_error() {
    let mut harness = Harness::new();
    harness.ok("CREATE TABLE t (a INT)");
    let table = harness.table("d.t");
    for description in ["", "CREATE TABLE t LIKE u", "CREATE TABLE `t` (`b` int)", "SELECT 1"] {
        let table = Table { description: description.as_bytes().into(), ..Table::clone(&table) };
        let error = super::kernel_form::read(&Arc::new(table)).unwrap_err();
        assert_eq!(error.code(), 1815, "{description}");
    }
}
