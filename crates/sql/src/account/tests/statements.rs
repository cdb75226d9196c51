//! What statements about accounts do, and what they refuse.

use sqltype::Datum;

use crate::account::AccountName;
use crate::account::rights::given;
use crate::account::session::role_rules;
use crate::account::show;
use crate::admission::ClientHost;
use crate::catalog::harness::Harness;

fn name(user: &str) -> AccountName {
    AccountName::new(user, "%")
}

/// SHOW GRANTS of an account.
fn grants(harness: &Harness, user: &str, using: &[&str]) -> Vec<String> {
    let session = &harness.session;
    let book = session.shared.accounts.book(&session.kernel);
    let record = book.find(&name(user)).unwrap().unwrap();
    let given = given(&book, &record, &role_rules(session));
    let using: Vec<AccountName> = using.iter().map(|role| name(role)).collect();
    show::grants(&book, &name(user), &given, &using).unwrap()
}

fn show_create(harness: &Harness, user: &str) -> String {
    let session = &harness.session;
    let book = session.shared.accounts.book(&session.kernel);
    show::create_user(&name(user), &book.find(&name(user)).unwrap().unwrap(), false)
}

/// The rows of a computed table, as texts.
fn rows(harness: &mut Harness, schema: &str, table: &str) -> Vec<String> {
    let table = crate::information::table(schema, table).unwrap();
    let rows = harness.wait(async |session| table.rows(session).await).unwrap();
    let text = |datum: &Datum| match datum {
        Datum::Bytes(text) => String::from_utf8_lossy(text).into_owned(),
        other => format!("{other:?}"),
    };
    rows.iter().map(|row| row.iter().map(text).collect::<Vec<_>>().join("|")).collect()
}

fn root() -> Harness {
    let mut harness = Harness::new();
    harness.said("CREATE TABLE t (a INT PRIMARY KEY, b INT)");
    harness
}

#[test]
fn the_first_account_is_root_until_somebody_changes_accounts() {
    let mut harness = root();
    assert_eq!(rows(&mut harness, "mysql", "user").len(), 1);
    harness.said("CREATE USER u");
    assert_eq!(rows(&mut harness, "mysql", "user").len(), 2);
    harness.said("DROP USER u, root@localhost");
    assert!(rows_as_nobody(&mut harness).is_empty(), "root does not come back");
}

/// The names there are, although the session's own account is gone.
fn rows_as_nobody(harness: &mut Harness) -> Vec<AccountName> {
    let session = &harness.session;
    session.shared.accounts.book(&session.kernel).names()
}

#[test]
fn grants_are_shown_as_they_were_given() {
    let mut harness = root();
    for sql in [
        "CREATE USER u, v",
        "GRANT SELECT, INSERT ON *.* TO u",
        "GRANT ALL ON d.* TO u WITH GRANT OPTION",
        "GRANT SELECT (a), UPDATE (b), DELETE ON d.t TO u",
        "GRANT BACKUP_ADMIN, CONNECTION_ADMIN ON *.* TO u",
        "GRANT ROLE_ADMIN ON *.* TO u WITH GRANT OPTION",
        "CREATE ROLE r, s",
        "GRANT DROP ON e.* TO r",
        "GRANT r TO u",
        "GRANT s TO u WITH ADMIN OPTION",
    ] {
        harness.said(sql);
    }
    assert_eq!(
        grants(&harness, "u", &[]),
        [
            "GRANT SELECT, INSERT ON *.* TO `u`@`%` WITH GRANT OPTION",
            "GRANT BACKUP_ADMIN,CONNECTION_ADMIN ON *.* TO `u`@`%`",
            "GRANT ROLE_ADMIN ON *.* TO `u`@`%` WITH GRANT OPTION",
            "GRANT ALL PRIVILEGES ON `d`.* TO `u`@`%` WITH GRANT OPTION",
            "GRANT SELECT (`a`), UPDATE (`b`), DELETE ON `d`.`t` TO `u`@`%`",
            "GRANT `r`@`%` TO `u`@`%`",
            "GRANT `s`@`%` TO `u`@`%` WITH ADMIN OPTION",
        ]
    );
    let with_role = grants(&harness, "u", &["r"]);
    assert!(with_role.contains(&"GRANT DROP ON `e`.* TO `u`@`%`".to_owned()), "{with_role:?}");
    for sql in [
        "REVOKE INSERT, GRANT OPTION ON *.* FROM u",
        "REVOKE ALL ON d.* FROM u",
        "REVOKE GRANT OPTION ON d.* FROM u",
        "REVOKE UPDATE (b), DELETE ON d.t FROM u",
        "REVOKE ROLE_ADMIN, BACKUP_ADMIN ON *.* FROM u",
        "REVOKE r, s FROM u",
    ] {
        harness.said(sql);
    }
    assert_eq!(
        grants(&harness, "u", &[]),
        [
            "GRANT SELECT ON *.* TO `u`@`%`",
            "GRANT CONNECTION_ADMIN ON *.* TO `u`@`%`",
            "GRANT SELECT (`a`) ON `d`.`t` TO `u`@`%`",
        ]
    );
    harness.said("REVOKE ALL PRIVILEGES, GRANT OPTION FROM u");
    assert_eq!(grants(&harness, "u", &[]), ["GRANT USAGE ON *.* TO `u`@`%`"]);
}

#[test]
fn what_show_grants_says_can_be_said_again() {
    let mut harness = root();
    for sql in [
        "CREATE USER u, v",
        "CREATE ROLE r",
        "GRANT SELECT, SHOW DATABASES, CREATE ROLE ON *.* TO u",
        "GRANT ALL ON `d%`.* TO u",
        "GRANT INSERT (a, b), SELECT ON d.t TO u WITH GRANT OPTION",
        "GRANT XA_RECOVER_ADMIN ON *.* TO u",
        "GRANT r TO u",
    ] {
        harness.said(sql);
    }
    let said = grants(&harness, "u", &[]);
    for line in &said {
        harness.said(&line.replace("`u`@", "`v`@"));
    }
    let of_other: Vec<String> =
        grants(&harness, "v", &[]).iter().map(|line| line.replace("`v`@", "`u`@")).collect();
    assert_eq!(of_other, said);
}

/// As `pt-show-grants` saves accounts: made without anything, then altered to what is shown.
#[test]
fn accounts_are_altered_to_what_is_shown() {
    let mut harness = root();
    harness.said("CREATE USER u WITH MAX_USER_CONNECTIONS 3");
    let shown = show_create(&harness, "u");
    let altered = shown.replace("CREATE USER `u`@", "ALTER USER `w`@");
    for _ in 0..2 {
        harness.said("CREATE USER IF NOT EXISTS w");
        harness.said(&altered);
        assert_eq!(show_create(&harness, "w"), shown.replace("`u`@", "`w`@"));
    }
    harness.said("ALTER USER w IDENTIFIED WITH caching_sha2_password");
    assert!(show_create(&harness, "w").contains(" PASSWORD EXPIRE ACCOUNT UNLOCK"));
}

#[test]
fn accounts_are_shown_as_they_were_made() {
    let mut harness = root();
    harness.said("CREATE ROLE r");
    harness.said(
        "CREATE USER u DEFAULT ROLE r REQUIRE SUBJECT '/CN=u' AND CIPHER 'X' WITH \
         MAX_QUERIES_PER_HOUR 10 MAX_USER_CONNECTIONS 3 PASSWORD EXPIRE INTERVAL 30 DAY PASSWORD \
         HISTORY 5 PASSWORD REUSE INTERVAL 7 DAY PASSWORD REQUIRE CURRENT OPTIONAL \
         FAILED_LOGIN_ATTEMPTS 3 PASSWORD_LOCK_TIME UNBOUNDED ACCOUNT LOCK COMMENT 'it''s'",
    );
    let shown = show_create(&harness, "u");
    assert_eq!(
        shown,
        "CREATE USER `u`@`%` IDENTIFIED WITH 'caching_sha2_password' DEFAULT ROLE `r`@`%` REQUIRE \
         SUBJECT '/CN=u' CIPHER 'X' WITH MAX_QUERIES_PER_HOUR 10 MAX_USER_CONNECTIONS 3 PASSWORD \
         EXPIRE INTERVAL 30 DAY ACCOUNT LOCK PASSWORD HISTORY 5 PASSWORD REUSE INTERVAL 7 DAY \
         PASSWORD REQUIRE CURRENT OPTIONAL FAILED_LOGIN_ATTEMPTS 3 PASSWORD_LOCK_TIME UNBOUNDED \
         ATTRIBUTE '{\"comment\": \"it''s\"}'"
    );
    harness.said(&shown.replace("`u`@", "`w`@"));
    assert_eq!(show_create(&harness, "w"), shown.replace("`u`@", "`w`@"));
    assert_eq!(
        show_create(&harness, "r"),
        "CREATE USER `r`@`%` IDENTIFIED WITH 'caching_sha2_password' REQUIRE NONE PASSWORD EXPIRE \
         ACCOUNT LOCK PASSWORD HISTORY DEFAULT PASSWORD REUSE INTERVAL DEFAULT PASSWORD REQUIRE \
         CURRENT DEFAULT"
    );
    harness
        .said("ALTER USER u REQUIRE NONE ACCOUNT UNLOCK ATTRIBUTE '{\"comment\": null, \"x\": 1}'");
    assert!(show_create(&harness, "u").ends_with("ATTRIBUTE '{\"x\": 1}'"));
}

#[test]
fn statements_about_accounts_that_cannot_be() {
    let mut harness = root();
    harness.said("CREATE USER u");
    harness.said("CREATE ROLE r, s");
    harness.said("GRANT r TO s");
    let long = "x".repeat(33);
    for (sql, code) in [
        ("CREATE USER u", 1396),
        ("CREATE USER new, u", 1396),
        ("DROP USER nosuch", 1396),
        ("ALTER USER nosuch ACCOUNT LOCK", 1396),
        ("RENAME USER u TO r", 1396),
        ("RENAME USER nosuch TO x", 1396),
        ("CREATE ROLE r", 1396),
        ("DROP ROLE nosuch", 1396),
        ("GRANT SELECT ON *.* TO nosuch", 1410),
        ("GRANT SELECT ON d.nosuch TO u", 1146),
        ("GRANT SELECT (nosuch) ON d.t TO u", 1054),
        ("GRANT SELECT (a) ON d.* TO u", 1221),
        ("GRANT DELETE (a) ON d.t TO u", 1221),
        ("GRANT RELOAD ON d.* TO u", 1221),
        ("GRANT RELOAD ON d.t TO u", 1144),
        ("GRANT BACKUP_ADMIN ON d.* TO u", 3619),
        ("GRANT NO_SUCH_ADMIN ON *.* TO u", 3929),
        ("GRANT EXECUTE ON FUNCTION d.f TO u", 1305),
        ("GRANT PROXY ON u TO r", 1235),
        ("GRANT nosuch TO u", 3523),
        ("GRANT r TO nosuch", 3523),
        ("GRANT s TO r", 3573),
        ("GRANT r TO r", 3573),
        ("REVOKE SELECT ON *.* FROM nosuch", 1141),
        ("REVOKE SELECT ON d.* FROM u", 1141),
        ("REVOKE SELECT ON d.t FROM u", 1147),
        ("REVOKE r FROM u", 3530),
        ("REVOKE ALL PRIVILEGES, GRANT OPTION FROM nosuch", 1269),
        ("SET ROLE r", 3530),
        ("SET DEFAULT ROLE r TO u", 3530),
        ("SET PASSWORD FOR nosuch = 'x'", 1133),
        ("CREATE USER x IDENTIFIED WITH nosuch", 1524),
        ("CREATE USER x IDENTIFIED WITH mysql_native_password BY 'x'", 1524),
        ("CREATE USER x IDENTIFIED WITH caching_sha2_password AS 'x'", 1827),
    ] {
        assert_eq!(harness.refused(sql), code, "{sql}");
    }
    assert_eq!(harness.refused(&format!("CREATE USER {long}")), 1470);
    assert!(!rows(&mut harness, "mysql", "user").iter().any(|row| row.contains("new")));
    for (sql, code) in [
        ("CREATE USER IF NOT EXISTS u", 3163),
        ("DROP USER IF EXISTS nosuch", 3162),
        ("ALTER USER IF EXISTS nosuch ACCOUNT LOCK", 3162),
        ("CREATE ROLE IF NOT EXISTS r", 3163),
        ("REVOKE IF EXISTS SELECT ON d.t FROM u", 1147),
        ("REVOKE SELECT ON *.* FROM nosuch IGNORE UNKNOWN USER", 3162),
        ("REVOKE IF EXISTS r FROM u", 3530),
    ] {
        harness.said(sql);
        assert_eq!(harness.warnings(), [code], "{sql}");
    }
}

#[test]
fn roles_go_with_their_names() {
    let mut harness = root();
    for sql in [
        "CREATE USER u",
        "CREATE ROLE r, s",
        "GRANT r, s TO u",
        "SET DEFAULT ROLE r, s TO u",
        "RENAME USER r TO q",
        "DROP ROLE s",
    ] {
        harness.said(sql);
    }
    assert_eq!(rows(&mut harness, "mysql", "role_edges"), ["%|q|%|u|N"]);
    assert_eq!(rows(&mut harness, "mysql", "default_roles"), ["%|u|%|q"]);
}

#[test]
fn roles_bring_what_was_given_to_them() {
    let mut harness = root();
    for sql in [
        "CREATE USER u",
        "CREATE ROLE r, inner_role",
        "GRANT SELECT ON d.* TO inner_role",
        "GRANT inner_role TO r",
        "GRANT r TO u",
        "GRANT INSERT ON d.* TO u",
    ] {
        harness.said(sql);
    }
    harness.log_in("u", "10.0.0.1");
    assert_eq!(harness.refused("SELECT * FROM t"), 1142);
    harness.said("INSERT INTO t VALUES (1, 1)");
    assert_eq!(&*harness.session.facts().current_role, "NONE");
    harness.said("SET ROLE ALL");
    harness.said("SELECT * FROM t");
    assert_eq!(&*harness.session.facts().current_role, "`r`@`%`");
    harness.said("SET ROLE NONE");
    assert_eq!(harness.refused("SELECT * FROM t"), 1142);
    harness.said("SET DEFAULT ROLE ALL TO CURRENT_USER");
    harness.log_in("u", "10.0.0.1");
    harness.said("SELECT * FROM t");
    harness.said("SET ROLE ALL EXCEPT r");
    assert_eq!(harness.refused("SELECT * FROM t"), 1142);
    harness.said("SET ROLE DEFAULT");
    harness.said("SELECT * FROM t");
    assert_eq!(harness.refused("GRANT r TO u"), 1227);
}

#[test]
fn mandatory_roles_are_everybodys() {
    let mut harness = root();
    for sql in [
        "CREATE USER u",
        "CREATE ROLE r",
        "GRANT SELECT ON d.* TO r",
        "SET GLOBAL mandatory_roles = 'r, `nosuch`@`%`'",
        "SET GLOBAL activate_all_roles_on_login = ON",
    ] {
        harness.said(sql);
    }
    assert_eq!(harness.refused("DROP ROLE r"), 3628);
    assert_eq!(harness.refused("REVOKE r FROM u"), 3628);
    harness.log_in("u", "%");
    harness.said("SELECT * FROM t");
}

#[test]
fn a_session_has_what_its_account_has_now() {
    let mut harness = root();
    harness.said("CREATE USER u");
    let root = std::mem::take(&mut harness.session.login);
    harness.log_in("u", "%");
    assert_eq!(harness.refused("SELECT a FROM t"), 1142);
    let user = std::mem::replace(&mut harness.session.login, root);
    harness.said("GRANT SELECT ON d.t TO u");
    let root = std::mem::replace(&mut harness.session.login, user);
    harness.said("SELECT a FROM t");
    harness.said("SELECT a FROM t");
    let user = std::mem::replace(&mut harness.session.login, root);
    harness.said("REVOKE SELECT ON d.t FROM u");
    let root = std::mem::replace(&mut harness.session.login, user);
    assert_eq!(harness.refused("SELECT a FROM t"), 1142);
    let user = std::mem::replace(&mut harness.session.login, root);
    harness.said("DROP USER u");
    harness.session.login = user;
    assert_eq!(harness.refused("SELECT 1"), 1045);
}

#[test]
fn columns_are_asked_one_by_one() {
    let mut harness = root();
    for sql in [
        "CREATE TABLE s (a INT PRIMARY KEY, c INT)",
        "CREATE USER u",
        "GRANT SELECT (a), INSERT (a), UPDATE (b) ON d.t TO u",
        "GRANT SELECT ON d.s TO u",
    ] {
        harness.said(sql);
    }
    harness.log_in("u", "%");
    for sql in [
        "SELECT a FROM t",
        "SELECT t.a FROM t WHERE a > 1 ORDER BY a",
        "SELECT COUNT(*) FROM t",
        "SELECT x.a FROM t x JOIN s ON s.a = x.a",
        "SELECT (SELECT MAX(c) FROM s WHERE s.a = t.a) FROM t",
        "SELECT a AS b FROM t ORDER BY b",
        "INSERT INTO t (a) VALUES (5)",
        "UPDATE t SET b = 1 WHERE a = 1",
        "UPDATE t SET b = 1",
        "WITH w AS (SELECT a FROM t) SELECT * FROM w",
        "SELECT * FROM (SELECT a FROM t) x",
        "SELECT a FROM t NATURAL JOIN (SELECT 1 AS a) x",
    ] {
        harness.said(sql);
    }
    for (sql, code) in [
        ("SELECT * FROM t", 1142),
        ("SELECT b FROM t", 1143),
        ("SELECT a FROM t WHERE b = 1", 1143),
        ("SELECT a FROM t ORDER BY b", 1143),
        ("SELECT a FROM t GROUP BY a HAVING MAX(b) > 1", 1143),
        ("SELECT s.a FROM s JOIN t ON t.b = s.a", 1143),
        ("SELECT s.a FROM s WHERE EXISTS (SELECT 1 FROM t WHERE b = c)", 1143),
        ("SELECT a, SUM(a) OVER (ORDER BY b) FROM t", 1143),
        ("SELECT T.B FROM t", 1143),
        ("SELECT a FROM t NATURAL JOIN (SELECT 1 AS b) x", 1143),
        ("SELECT a FROM t NATURAL JOIN (SELECT 1) x (b)", 1143),
        ("WITH w AS (SELECT 1 AS b) SELECT a FROM t NATURAL JOIN w", 1142),
        ("SELECT a FROM t JOIN (SELECT 1 AS b) x USING (b)", 1143),
        ("INSERT INTO t (a, b) VALUES (1, 2)", 1143),
        ("INSERT INTO t VALUES (1, 2)", 1142),
        ("UPDATE t SET a = 1", 1143),
        ("UPDATE t SET b = b + 1", 1143),
        ("DELETE FROM t", 1142),
        ("TABLE t", 1142),
        ("INSERT INTO t (a) SELECT b FROM t", 1143),
        ("TRUNCATE t", 1142),
    ] {
        assert_eq!(harness.refused(sql), code, "{sql}");
    }
    let shown = rows(&mut harness, "information_schema", "COLUMNS");
    let of_table: Vec<&String> = shown.iter().filter(|row| row.contains("|d|t|")).collect();
    assert_eq!(of_table.len(), 2, "{of_table:?}");
    assert!(of_table[0].contains("select,insert|"), "{of_table:?}");
}

#[test]
fn views_are_used_with_the_rights_of_their_definers() {
    let mut harness = root();
    for sql in [
        "CREATE USER u, definer",
        "CREATE VIEW of_definer AS SELECT a FROM t",
        "CREATE SQL SECURITY INVOKER VIEW of_invoker AS SELECT a FROM t",
        "CREATE DEFINER = definer VIEW of_other AS SELECT a FROM t",
        "CREATE DEFINER = nosuch VIEW of_nobody AS SELECT a FROM t",
        "GRANT SELECT ON d.of_definer TO u",
        "GRANT SELECT ON d.of_invoker TO u",
        "GRANT SELECT ON d.of_other TO u",
        "GRANT SELECT ON d.of_nobody TO u",
    ] {
        harness.said(sql);
    }
    let root = std::mem::take(&mut harness.session.login);
    harness.log_in("u", "%");
    harness.said("SELECT * FROM of_definer");
    assert_eq!(harness.refused("SELECT * FROM of_invoker"), 1356);
    assert_eq!(harness.refused("SELECT * FROM of_other"), 1356);
    assert_eq!(harness.refused("SELECT * FROM of_nobody"), 1449);
    assert_eq!(harness.refused("EXPLAIN SELECT * FROM of_definer"), 1345);
    assert_eq!(harness.refused("SHOW CREATE VIEW of_definer"), 1142);
    let user = std::mem::replace(&mut harness.session.login, root);
    harness.said("GRANT SELECT ON d.t TO definer");
    harness.session.login = user;
    harness.said("SELECT * FROM of_other");
}

#[test]
fn what_may_not_be_seen_does_not_show() {
    let mut harness = root();
    for sql in [
        "CREATE DATABASE e",
        "CREATE TABLE e.x (a INT PRIMARY KEY)",
        "CREATE TABLE e.y (a INT PRIMARY KEY)",
        "CREATE USER u",
        "GRANT SELECT ON e.x TO u",
    ] {
        harness.said(sql);
    }
    harness.log_in("u", "%");
    let names = |harness: &mut Harness, table: &str, at: usize| -> Vec<String> {
        let rows = rows(harness, "information_schema", table);
        rows.iter().map(|row| row.split('|').nth(at).unwrap().to_owned()).collect()
    };
    let schemas = names(&mut harness, "SCHEMATA", 1);
    assert_eq!(schemas, ["e", "information_schema", "performance_schema"]);
    let tables = names(&mut harness, "TABLES", 2);
    assert!(tables.contains(&"x".to_owned()));
    assert!(!tables.contains(&"y".to_owned()) && !tables.contains(&"t".to_owned()));
    assert_eq!(names(&mut harness, "STATISTICS", 2), ["x"]);
    assert_eq!(harness.refused("USE d"), 1044);
    assert_eq!(harness.refused("SHOW TABLES FROM d"), 1044);
    assert_eq!(harness.refused("SHOW CREATE TABLE e.y"), 1142);
    assert_eq!(harness.refused("SELECT * FROM mysql.user"), 1142);
    harness.said("SHOW CREATE TABLE e.x");
    harness.said("USE e");
    let grantees = names(&mut harness, "USER_PRIVILEGES", 0);
    assert_eq!(grantees, ["'u'@'%'"]);
}

#[test]
fn patterns_of_databases() {
    let mut harness = root();
    for sql in [
        "CREATE DATABASE ab",
        "CREATE DATABASE a_b",
        "CREATE TABLE ab.t (a INT PRIMARY KEY)",
        "CREATE TABLE a_b.t (a INT PRIMARY KEY)",
        "CREATE USER u, w",
        r"GRANT SELECT ON `a\_b`.* TO u",
        "GRANT SELECT ON `a%`.* TO w",
    ] {
        harness.said(sql);
    }
    harness.log_in("u", "%");
    harness.said("SELECT * FROM a_b.t");
    assert_eq!(harness.refused("SELECT * FROM ab.t"), 1142);
    harness.log_in("w", "%");
    harness.said("SELECT * FROM a_b.t");
    harness.said("SELECT * FROM ab.t");
    assert_eq!(harness.refused("SELECT * FROM d.t"), 1142);
}

#[test]
fn partial_revokes_keep_databases_back() {
    let mut harness = root();
    for sql in [
        "SET GLOBAL partial_revokes = ON",
        "CREATE DATABASE e",
        "CREATE TABLE e.x (a INT PRIMARY KEY)",
        "CREATE USER u, w",
        "GRANT SELECT ON *.* TO u WITH GRANT OPTION",
        "REVOKE SELECT ON e.* FROM u",
    ] {
        harness.said(sql);
    }
    assert_eq!(
        grants(&harness, "u", &[]),
        ["GRANT SELECT ON *.* TO `u`@`%` WITH GRANT OPTION", "REVOKE SELECT ON `e`.* FROM `u`@`%`",]
    );
    harness.log_in("u", "%");
    harness.said("SELECT * FROM d.t");
    assert_eq!(harness.refused("SELECT * FROM e.x"), 1142);
    harness.said("GRANT SELECT ON *.* TO w");
    harness.log_in("w", "%");
    assert_eq!(harness.refused("SELECT * FROM e.x"), 1142, "it is kept back from those too");
}

#[test]
fn passwords_follow_the_rules() {
    let mut harness = root();
    harness.said("CREATE USER u IDENTIFIED BY 'first' PASSWORD HISTORY 2");
    assert_eq!(harness.refused("ALTER USER u IDENTIFIED BY 'first'"), 3638);
    harness.said("ALTER USER u IDENTIFIED BY 'second'");
    assert_eq!(harness.refused("SET PASSWORD FOR u = 'first'"), 3638);
    harness.said("ALTER USER u IDENTIFIED BY 'third'");
    harness.said("ALTER USER u IDENTIFIED BY 'first' RETAIN CURRENT PASSWORD");
    let secrets = |harness: &mut Harness| {
        let session = &harness.session;
        session.login_account("u", &ClientHost::named("%")).unwrap().unwrap().account.secrets
    };
    assert_eq!(secrets(&mut harness).len(), 2);
    harness.said("ALTER USER u DISCARD OLD PASSWORD");
    assert_eq!(secrets(&mut harness).len(), 1);
    assert_eq!(rows(&mut harness, "mysql", "password_history").len(), 2);
    harness.said("SET GLOBAL validate_password.policy = MEDIUM");
    assert_eq!(harness.refused("CREATE USER w IDENTIFIED BY 'weak'"), 1819);
    harness.said("CREATE USER w IDENTIFIED BY 'Str0ng!enough'");
    harness.said("CREATE USER x IDENTIFIED BY RANDOM PASSWORD");
    harness.said("SET GLOBAL validate_password.policy = OFF");
    harness.said("ALTER USER w PASSWORD EXPIRE");
    harness.log_in("w", "%");
    assert_eq!(harness.refused("SELECT 1"), 1820);
    assert_eq!(harness.refused("SET PASSWORD = 'n' REPLACE 'wrong'"), 3891);
    harness.said("SET PASSWORD = 'new' REPLACE 'Str0ng!enough'");
    harness.said("SELECT 1");
    assert_eq!(harness.refused("ALTER USER u IDENTIFIED BY 'x'"), 1227);
    assert_eq!(harness.refused("SET PASSWORD FOR u = 'x'"), 1044);
}

#[test]
fn the_most_specific_account_is_found() {
    let mut harness = root();
    for sql in [
        "CREATE USER u@'%', u@'10.0.0.%', u@'10.0.0.0/255.255.255.0', ''@'10.0.0.1'",
        "CREATE USER ''@localhost",
    ] {
        harness.said(sql);
    }
    let find = |harness: &Harness, user: &str, from: &str| {
        let found = harness.session.login_account(user, &ClientHost::named(from)).unwrap();
        found.map(|found| found.name.plain())
    };
    for (user, from, expected) in [
        ("u", "10.0.0.1", "@10.0.0.1"),
        ("u", "10.0.0.2", "u@10.0.0.0/255.255.255.0"),
        ("u", "10.0.1.2", "u@%"),
        ("u", "localhost", "@localhost"),
        ("root", "localhost", "root@localhost"),
        ("x", "localhost", "@localhost"),
    ] {
        assert_eq!(find(&harness, user, from).as_deref(), Some(expected), "{user} {from}");
    }
    assert_eq!(find(&harness, "x", "10.9.9.9"), None);
    assert_eq!(find(&harness, "root", "10.9.9.9"), None);
}

#[test]
fn accounts_with_system_user_are_touched_by_such_only() {
    let mut harness = root();
    for sql in [
        "CREATE USER admin, u",
        "GRANT CREATE USER, SELECT ON *.* TO u WITH GRANT OPTION",
        "GRANT SYSTEM_USER ON *.* TO admin",
    ] {
        harness.said(sql);
    }
    harness.log_in("u", "%");
    for sql in [
        "DROP USER admin",
        "ALTER USER admin ACCOUNT LOCK",
        "SET PASSWORD FOR admin = 'x'",
        "RENAME USER admin TO x",
        "GRANT SELECT ON *.* TO admin",
        "REVOKE ALL PRIVILEGES, GRANT OPTION FROM admin",
    ] {
        assert_eq!(harness.refused(sql), 1227, "{sql}");
    }
}

#[test]
fn a_change_is_made_again_when_others_were_faster() {
    let mut harness = root();
    harness.said("CREATE USER u");
    // The worker has not heard of this one.
    let behind = harness.world.state.clone();
    harness.said("GRANT SELECT ON *.* TO u");
    let ahead = std::mem::replace(&mut harness.world.state, behind);
    harness.world.overtaken = Some(ahead);
    harness.said("GRANT INSERT ON *.* TO u");
    assert_eq!(grants(&harness, "u", &[]), ["GRANT SELECT, INSERT ON *.* TO `u`@`%`"]);
}

#[test]
fn failed_logins_are_counted_and_forgiven_as_accounts_say() {
    let mut harness = root();
    harness.said("CREATE USER u, v FAILED_LOGIN_ATTEMPTS 2 PASSWORD_LOCK_TIME 1");
    let count = |harness: &Harness, user: &str, proven: bool| {
        let session = &harness.session;
        let found = session.login_account(user, &ClientHost::named("localhost")).unwrap().unwrap();
        session.count_attempt(&found, user, "localhost", proven).map_err(|error| error.code())
    };
    let block = |harness: &Harness, user: &str| {
        assert_eq!(count(harness, user, false), Ok(()));
        assert_eq!(count(harness, user, false), Err(3955));
        assert_eq!(count(harness, user, true), Err(3955));
    };
    block(&harness, "u");
    block(&harness, "v");
    // What has nothing to do with it changes nothing.
    harness.said("ALTER USER u COMMENT 'x'");
    assert_eq!(count(&harness, "u", true), Err(3955));
    harness.said("ALTER USER u ACCOUNT UNLOCK");
    assert_eq!((count(&harness, "u", true), count(&harness, "v", true)), (Ok(()), Err(3955)));
    harness.said("FLUSH PRIVILEGES");
    assert_eq!(count(&harness, "v", true), Ok(()));
    // Both numbers have to be there.
    harness.said("ALTER USER u, v PASSWORD_LOCK_TIME 0");
    (0..5).for_each(|_| assert_eq!(count(&harness, "u", false), Ok(())));
}
