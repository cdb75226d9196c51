//! Foreign keys in definitions: what is shown, what is refused, what follows a change.

use crate::catalog::harness::Harness;
use crate::catalog::text::{Style, create_table};

fn parents() -> Harness {
    let mut harness = Harness::new();
    harness
        .ok("CREATE TABLE p (id INT PRIMARY KEY, u INT, v VARCHAR(20), n INT, UNIQUE KEY uu (u), \
                UNIQUE KEY uv (u, v), KEY nn (n))");
    harness
}

/// What SHOW CREATE TABLE shows of foreign keys and of the keys behind them.
#[track_caller]
fn shown(harness: &Harness, full: &str) -> Vec<String> {
    let definition = harness.session.shared.definitions.of(&harness.table(full)).unwrap();
    let database = Some(definition.database.clone());
    let style = Style { database, ..Style::catalog(&definition.options) };
    let text = create_table(&definition.name, definition.parts(), &style);
    let lines = text.lines().map(|line| line.trim().trim_end_matches(',').to_owned());
    lines.filter(|line| line.starts_with("CONSTRAINT") || line.starts_with("KEY")).collect()
}

fn version(harness: &Harness, full: &str) -> u32 {
    harness.table(full).version
}

#[test]
fn a_foreign_key_is_named_supported_and_shown_as_in_mysql() {
    let cases: [(&str, &[&str]); 9] = [
        (
            "a INT, FOREIGN KEY (a) REFERENCES p (id)",
            &["KEY `a` (`a`)", "CONSTRAINT `t_ibfk_1` FOREIGN KEY (`a`) REFERENCES `p` (`id`)"],
        ),
        (
            "a INT, CONSTRAINT f FOREIGN KEY i (a) REFERENCES p (id) \
             ON UPDATE CASCADE ON DELETE SET NULL",
            &[
                "KEY `f` (`a`)",
                "CONSTRAINT `f` FOREIGN KEY (`a`) REFERENCES `p` (`id`) ON DELETE SET NULL \
                 ON UPDATE CASCADE",
            ],
        ),
        (
            "a INT, FOREIGN KEY i (a) REFERENCES p (id) ON DELETE RESTRICT ON UPDATE NO ACTION",
            &[
                "KEY `i` (`a`)",
                "CONSTRAINT `t_ibfk_1` FOREIGN KEY (`a`) REFERENCES `p` (`id`) ON DELETE RESTRICT",
            ],
        ),
        (
            "a INT, b INT, KEY x (a, b), FOREIGN KEY (a) REFERENCES p (id)",
            &["KEY `x` (`a`,`b`)", "CONSTRAINT `t_ibfk_1` FOREIGN KEY (`a`) REFERENCES `p` (`id`)"],
        ),
        (
            "a INT PRIMARY KEY, FOREIGN KEY (a) REFERENCES p (u)",
            &["CONSTRAINT `t_ibfk_1` FOREIGN KEY (`a`) REFERENCES `p` (`u`)"],
        ),
        (
            "a INT, UNIQUE h (a) USING HASH, FOREIGN KEY (a) REFERENCES p (id)",
            &["KEY `a` (`a`)", "CONSTRAINT `t_ibfk_1` FOREIGN KEY (`a`) REFERENCES `p` (`id`)"],
        ),
        (
            "a INT, b VARCHAR(9), FOREIGN KEY (a, b) REFERENCES p (u, v)",
            &[
                "KEY `a` (`a`,`b`)",
                "CONSTRAINT `t_ibfk_1` FOREIGN KEY (`a`, `b`) REFERENCES `p` (`u`, `v`)",
            ],
        ),
        (
            "a INT PRIMARY KEY, b INT, CONSTRAINT zz FOREIGN KEY (b) REFERENCES t (a), \
             FOREIGN KEY (b) REFERENCES d.p (id) MATCH SIMPLE",
            &[
                "KEY `zz` (`b`)",
                "CONSTRAINT `t_ibfk_1` FOREIGN KEY (`b`) REFERENCES `p` (`id`)",
                "CONSTRAINT `zz` FOREIGN KEY (`b`) REFERENCES `t` (`a`)",
            ],
        ),
        // At a column it is read and forgotten.
        ("a INT REFERENCES nosuch (x)", &[]),
    ];
    for (definition, expected) in cases {
        let mut harness = parents();
        harness.ok(&format!("CREATE TABLE t ({definition})"));
        assert_eq!(shown(&harness, "d.t"), expected, "{definition}");
    }
    let mut harness = parents();
    harness.ok("CREATE DATABASE e");
    harness.ok("CREATE TABLE e.t (a INT, FOREIGN KEY (a) REFERENCES d.p (id))");
    let expected = "CONSTRAINT `t_ibfk_1` FOREIGN KEY (`a`) REFERENCES `d`.`p` (`id`)";
    assert_eq!(shown(&harness, "e.t")[1], expected);
    assert_eq!(harness.error("DROP DATABASE d").0, 3730);
    harness.ok("DROP DATABASE e");
    harness.ok("DROP DATABASE d");
}

#[test]
fn foreign_keys_that_mysql_refuses() {
    let cases = [
        ("a INT, FOREIGN KEY (a) REFERENCES nosuch (id)", 1824),
        ("a INT, FOREIGN KEY (b) REFERENCES p (id)", 1072),
        ("a INT, FOREIGN KEY (a, a) REFERENCES p (u, v)", 1060),
        ("a INT, FOREIGN KEY (a) REFERENCES p (u, v)", 1239),
        ("a INT, FOREIGN KEY (a) REFERENCES p", 1239),
        ("a INT, FOREIGN KEY (a) REFERENCES p (nosuch)", 3734),
        ("a INT, FOREIGN KEY (a) REFERENCES p (n)", 6125),
        ("a INT, b INT, FOREIGN KEY (a, b) REFERENCES p (id, u)", 6125),
        ("a VARCHAR(9), b INT, FOREIGN KEY (a, b) REFERENCES p (v, u)", 6125),
        ("a BIGINT, FOREIGN KEY (a) REFERENCES p (id)", 3780),
        ("a INT UNSIGNED, FOREIGN KEY (a) REFERENCES p (id)", 3780),
        ("a INT, b VARCHAR(9) COLLATE utf8mb4_bin, FOREIGN KEY (a, b) REFERENCES p (u, v)", 3780),
        ("a INT NOT NULL, FOREIGN KEY (a) REFERENCES p (id) ON DELETE SET NULL", 1830),
        ("a INT NOT NULL, FOREIGN KEY (a) REFERENCES p (id) ON UPDATE SET NULL", 1830),
        ("a INT, FOREIGN KEY (a) REFERENCES p (id) ON DELETE SET DEFAULT", 1215),
        ("a INT, b INT AS (a) VIRTUAL, FOREIGN KEY (b) REFERENCES p (id)", 3733),
        ("a INT, b INT AS (a) STORED, FOREIGN KEY (b) REFERENCES p (id) ON UPDATE CASCADE", 3104),
        ("a INT, b INT AS (a) STORED, FOREIGN KEY (a) REFERENCES p (id) ON DELETE CASCADE", 3192),
        ("a INT CHECK (a > 0), FOREIGN KEY (a) REFERENCES p (id) ON UPDATE CASCADE", 3823),
        ("a TEXT, FOREIGN KEY (a) REFERENCES p (v)", 1170),
        ("a INT, b VARCHAR(9), FOREIGN KEY (a, b) REFERENCES p (u, v) MATCH FULL", 1235),
        (
            "a INT, CONSTRAINT f FOREIGN KEY (a) REFERENCES p (id), \
             CONSTRAINT F FOREIGN KEY (a) REFERENCES p (u)",
            1826,
        ),
    ];
    for (definition, code) in cases {
        let mut harness = parents();
        let (found, message) = harness.error(&format!("CREATE TABLE t ({definition})"));
        assert_eq!(found, code, "{definition}: {message}");
    }
    let mut harness = parents();
    harness.ok("CREATE TABLE c (a INT, CONSTRAINT f FOREIGN KEY (a) REFERENCES p (id))");
    let again = "CREATE TABLE t (a INT, CONSTRAINT f FOREIGN KEY (a) REFERENCES p (id))";
    assert_eq!(harness.error(again).0, 1826, "names are unique in a database");
}

#[test]
fn what_a_foreign_key_needs_stays() {
    let mut harness = parents();
    harness.ok("CREATE TABLE c (id INT PRIMARY KEY, a INT, b INT, KEY own (a), \
                CONSTRAINT f FOREIGN KEY (a) REFERENCES p (id), \
                CONSTRAINT g FOREIGN KEY (b) REFERENCES p (u) ON DELETE SET NULL)");
    for (sql, code) in [
        ("DROP TABLE p", 3730),
        ("TRUNCATE p", 1701),
        ("ALTER TABLE p DROP KEY uu", 1553),
        ("ALTER TABLE p DROP PRIMARY KEY", 1553),
        ("ALTER TABLE p DROP COLUMN u", 1829),
        ("ALTER TABLE p MODIFY u BIGINT", 1833),
        ("ALTER TABLE c DROP KEY own", 1553),
        ("DROP INDEX own ON c", 1553),
        ("ALTER TABLE c DROP COLUMN a", 1828),
        ("ALTER TABLE c MODIFY a BIGINT", 1832),
        ("ALTER TABLE c MODIFY b INT NOT NULL", 1830),
        ("ALTER TABLE c DROP FOREIGN KEY nosuch", 1091),
    ] {
        let (found, message) = harness.error(sql);
        assert_eq!(found, code, "{sql}: {message}");
    }
    harness.ok("ALTER TABLE c ADD KEY other (a, id), DROP KEY own");
    harness.ok("ALTER TABLE c DROP FOREIGN KEY f, DROP COLUMN a");
    harness.ok("ALTER TABLE c DROP CONSTRAINT g");
    harness.ok("DROP TABLE p");
}

#[test]
fn children_and_parents_go_together() {
    let mut harness = parents();
    harness.ok("CREATE TABLE c (a INT, FOREIGN KEY (a) REFERENCES p (id))");
    harness.ok("DROP TABLE p, c");
    harness.ok("SET foreign_key_checks = 0");
    harness.ok("CREATE TABLE c (a INT, FOREIGN KEY (a) REFERENCES p (id))");
    // A parent that comes later has to fit.
    assert_eq!(harness.error("CREATE TABLE p (id BIGINT PRIMARY KEY)").0, 3780);
    assert_eq!(harness.error("CREATE TABLE p (id INT)").0, 6125);
    let before = version(&harness, "d.c");
    harness.ok("CREATE TABLE p (id INT PRIMARY KEY)");
    assert_eq!(version(&harness, "d.c"), before + 1, "its statements are planned anew");
    harness.ok("TRUNCATE p");
    assert_eq!(version(&harness, "d.c"), before + 2);
    harness.ok("DROP TABLE p");
    assert_eq!(shown(&harness, "d.c").len(), 2);
}

#[test]
fn both_ends_of_a_new_foreign_key_get_another_version() {
    let mut harness = parents();
    harness.ok("CREATE TABLE c (id INT PRIMARY KEY, a INT)");
    let p = version(&harness, "d.p");
    harness.ok("CREATE TABLE c2 (a INT, FOREIGN KEY (a) REFERENCES p (id))");
    assert_eq!(version(&harness, "d.p"), p + 1);
    harness.ok("ALTER TABLE c ADD FOREIGN KEY (a) REFERENCES p (id)");
    // When the copy begins to refer to it, and when that takes the table's place.
    assert_eq!(version(&harness, "d.p"), p + 3);
    let c = harness.table("d.c");
    harness.ok("ALTER TABLE p FORCE");
    assert_eq!(harness.table("d.c").version, c.version + 1);
    harness.ok("SET foreign_key_checks = 0");
    let p = harness.table("d.p");
    harness.ok("ALTER TABLE c ADD FOREIGN KEY (a) REFERENCES p (u)");
    assert_eq!((harness.table("d.p").id, harness.table("d.p").version), (p.id, p.version + 1));
    assert_eq!(harness.table("d.c").id, c.id, "nothing is checked, so nothing is copied");
    harness.ok("TRUNCATE c2");
    assert_eq!(harness.table("d.p").version, p.version + 2);
}

#[test]
fn names_follow() {
    let mut harness = parents();
    harness.ok("CREATE DATABASE e");
    harness.ok("CREATE TABLE c (id INT PRIMARY KEY, a INT, b INT, up INT, \
                FOREIGN KEY (a) REFERENCES p (id), \
                CONSTRAINT mine FOREIGN KEY (b) REFERENCES p (u), \
                FOREIGN KEY (up) REFERENCES c (id))");
    harness.ok("ALTER TABLE p RENAME COLUMN id TO ident, RENAME COLUMN u TO uniq");
    harness.ok("ALTER TABLE c RENAME COLUMN a TO aa, CHANGE id number INT");
    let keys = |harness: &Harness, full: &str| -> Vec<String> {
        shown(harness, full).into_iter().filter(|line| line.starts_with("CONSTRAINT")).collect()
    };
    assert_eq!(
        keys(&harness, "d.c"),
        [
            "CONSTRAINT `c_ibfk_1` FOREIGN KEY (`aa`) REFERENCES `p` (`ident`)",
            "CONSTRAINT `c_ibfk_2` FOREIGN KEY (`up`) REFERENCES `c` (`number`)",
            "CONSTRAINT `mine` FOREIGN KEY (`b`) REFERENCES `p` (`uniq`)",
        ]
    );
    harness.ok("RENAME TABLE p TO e.parent, c TO child");
    assert_eq!(
        keys(&harness, "d.child"),
        [
            "CONSTRAINT `child_ibfk_1` FOREIGN KEY (`aa`) REFERENCES `e`.`parent` (`ident`)",
            "CONSTRAINT `child_ibfk_2` FOREIGN KEY (`up`) REFERENCES `child` (`number`)",
            "CONSTRAINT `mine` FOREIGN KEY (`b`) REFERENCES `e`.`parent` (`uniq`)",
        ]
    );
    harness.ok("ALTER TABLE child RENAME TO e.child, ADD COLUMN x INT");
    assert_eq!(
        keys(&harness, "e.child")[0],
        "CONSTRAINT `child_ibfk_1` FOREIGN KEY (`aa`) REFERENCES `parent` (`ident`)"
    );
    assert_eq!(harness.error("DROP TABLE e.parent").0, 3730);
}

#[test]
fn a_table_comes_to_refer_to_itself() {
    let mut harness = Harness::new();
    harness.ok("CREATE TABLE t (id INT PRIMARY KEY, up INT)");
    harness.ok("INSERT INTO t VALUES (1, 2), (2, NULL)");
    harness.ok("ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY (up) REFERENCES t (id)");
    harness.ok("ALTER TABLE t FORCE");
    let expected = ["KEY `f` (`up`)", "CONSTRAINT `f` FOREIGN KEY (`up`) REFERENCES `t` (`id`)"];
    assert_eq!(shown(&harness, "d.t"), expected);
    harness.ok("TRUNCATE t");
}

#[test]
fn a_key_that_was_made_for_a_foreign_key_goes_when_there_is_another() {
    let mut harness = parents();
    harness.ok("CREATE TABLE c (id INT PRIMARY KEY, a INT, KEY mine (id), \
                CONSTRAINT f FOREIGN KEY (a) REFERENCES p (id))");
    harness.ok("ALTER TABLE c ADD KEY other (a)");
    let expected = [
        "KEY `mine` (`id`)",
        "KEY `other` (`a`)",
        "CONSTRAINT `f` FOREIGN KEY (`a`) REFERENCES `p` (`id`)",
    ];
    assert_eq!(shown(&harness, "d.c"), expected);
    assert_eq!(harness.table("d.c").ordered_indexes.len(), 3, "and the primary key's");
}

#[test]
fn like_copies_keys_and_no_foreign_keys() {
    let mut harness = parents();
    harness.ok("CREATE TABLE c (a INT, FOREIGN KEY (a) REFERENCES p (id))");
    harness.ok("CREATE TABLE t LIKE c");
    assert_eq!(shown(&harness, "d.t"), ["KEY `a` (`a`)"]);
}

#[test]
fn a_foreign_key_is_added_when_all_rows_have_their_parents() {
    let mut harness = parents();
    harness.ok("CREATE TABLE c (id INT PRIMARY KEY, a INT)");
    harness.ok("INSERT INTO p (id, u) VALUES (1, 10)");
    harness.ok("INSERT INTO c VALUES (1, 1), (2, NULL), (3, 7)");
    let add = "ALTER TABLE c ADD CONSTRAINT f FOREIGN KEY (a) REFERENCES p (id)";
    let (code, message) = harness.error(add);
    assert_eq!(code, 1452);
    let expected = "Cannot add or update a child row: a foreign key constraint fails (`d`.`c`, \
                    CONSTRAINT `f` FOREIGN KEY (`a`) REFERENCES `p` (`id`))";
    assert_eq!(message, expected);
    assert!(!harness.table("d.c").writes_blocked);
    assert_eq!(shown(&harness, "d.c"), [""; 0]);
    harness.ok("INSERT INTO p (id, u) VALUES (7, 70)");
    harness.ok(add);
    assert_eq!(harness.rows("d.c").len(), 3);
    assert_eq!(harness.error("INSERT INTO c VALUES (4, 8)").0, 1452);
    harness.ok("SET foreign_key_checks = 0");
    harness.ok("INSERT INTO c VALUES (5, 8)");
}
