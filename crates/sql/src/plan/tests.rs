//! Which plans are kept, and for which parameters they are good.

mod hints;

use collation::CollationId;
use sql_parser::ast;
use sqltype::{Datum, Decimal};

use crate::catalog::harness::Harness;
use crate::execute;
use crate::execute::statement_plan::{PlanKind, StatementPlan};
use crate::plan::estimate::Estimates;
use crate::plan::operator::{AccessPath, Operator, QueryPlan};
use crate::plan::planner::Planner;

fn harness() -> Harness {
    let mut harness = Harness::new();
    harness.ok("CREATE TABLE t (id INT PRIMARY KEY, k INT, u INT UNIQUE, c VARCHAR(20))");
    harness
}

/// A query, read as the session reads it.
fn parsed(harness: &Harness, sql: &str) -> ast::Query {
    let mode = harness.session.variables.parser_mode();
    let parsed = sql_parser::parse_at(sql.as_bytes(), 0, mode).unwrap();
    let ast::Statement::Query(query) = parsed.statement else { panic!("{sql}: no query") };
    *query
}

/// The plan of a query without parameters.
fn planned_query(harness: &Harness, sql: &str) -> QueryPlan {
    Planner::new(&harness.session, &[]).query(&parsed(harness, sql)).unwrap()
}

/// The plan of a change with these parameters, and whether it is kept.
fn planned(harness: &Harness, sql: &str, parameters: &[Datum]) -> (StatementPlan, bool) {
    let mode = harness.session.variables.parser_mode();
    let parsed = sql_parser::parse_at(sql.as_bytes(), 0, mode).unwrap();
    StatementPlan::of_change(&harness.session, &parsed.statement, parameters)
        .unwrap_or_else(|error| panic!("{sql}: {error}"))
}

fn one() -> Datum {
    Datum::Int(1)
}

fn decimal(digits: &str) -> Datum {
    Datum::Decimal(Decimal::parse(digits.as_bytes()).unwrap())
}

#[test]
fn changes_are_kept_unless_they_are_bound_to_values() {
    let harness = harness();
    let text = || Datum::text("x");
    for (sql, parameters, kept) in [
        ("UPDATE t SET c = ? WHERE id = ?", vec![text(), one()], true),
        ("UPDATE t SET k = k + ? WHERE id = ?", vec![decimal("1.5"), one()], true),
        ("UPDATE t SET k = @x WHERE id = ?", vec![one()], false),
        ("UPDATE t SET k = 1 WHERE id = ?", vec![Datum::text("7")], true),
        ("UPDATE t SET k = 1 WHERE id = ?", vec![Datum::text("7.5")], false),
        ("INSERT INTO t VALUES (?, ?, 3, ?)", vec![one(), decimal("1.5"), text()], true),
        ("INSERT INTO t (id, k) VALUES (?, @@port)", vec![one()], false),
        ("INSERT INTO t (id) SELECT ?", vec![one()], true),
    ] {
        assert_eq!(planned(&harness, sql, &parameters).1, kept, "{sql} {parameters:?}");
    }
}

#[test]
fn changes_of_one_row_by_key_have_a_form_of_their_own() {
    let harness = harness();
    for (sql, own) in [
        ("UPDATE t SET k = 1 WHERE id = 1", true),
        ("UPDATE t SET k = k + 1, c = 'x' WHERE id = 1", true),
        ("UPDATE t SET k = 1, c = k WHERE id = 1", false),
        ("UPDATE t SET u = 1 WHERE id = 1", false),
        ("UPDATE t SET id = 2 WHERE id = 1", false),
        ("UPDATE t SET k = 1 WHERE id = 1 AND k = 2", false),
        ("UPDATE t SET k = 1 WHERE u = 1", false),
        ("UPDATE t SET k = 1 WHERE id = 1 LIMIT 1", false),
        ("UPDATE t SET k = DEFAULT WHERE id = 1", false),
        ("DELETE FROM t WHERE id = 1", true),
        ("DELETE FROM t WHERE id IN (1, 2)", false),
        ("DELETE FROM t WHERE id = 1 ORDER BY k", false),
    ] {
        let kind = planned(&harness, sql, &[]).0.kind;
        assert_eq!(!matches!(kind, PlanKind::General), own, "{sql}");
    }
}

#[test]
fn a_kept_plan_is_for_its_kinds_of_parameters() {
    let harness = harness();
    let date = |text: &str| Datum::text(text);
    let (update, insert, find) = (
        "UPDATE t SET k = k + ? WHERE id = 1",
        "INSERT INTO t (id, k) VALUES (1, ?)",
        "UPDATE t SET k = 1 WHERE c = ?",
    );
    for (sql, first, other, fits) in [
        (update, one(), Datum::Int(-7), true),
        (update, one(), Datum::Null, false),
        (update, decimal("1.5"), decimal("2.5"), true),
        (update, decimal("1.5"), decimal("2.55"), false),
        (update, decimal("1.5"), decimal("12345.5"), true),
        (update, decimal("1.5"), decimal("123456789012345678.5"), false),
        (update, decimal("1.5"), Datum::text("1.5"), false),
        (insert, decimal("1.5"), decimal("22.55"), true),
        (insert, decimal("1.5"), one(), false),
        (find, date("x"), date("longer"), true),
        (find, date("x"), Datum::Bytes(vec![b'y'; 20_000].into()), false),
        (find, date("x"), date("12"), false),
        (find, date("2024-02-29"), date("2023-02-28"), true),
        (find, date("2024-02-29"), date("2023-02-29"), false),
    ] {
        let (plan, _) = planned(&harness, sql, std::slice::from_ref(&first));
        assert!(plan.is_current(&harness.session, std::slice::from_ref(&first)), "{sql} {first:?}");
        let is_current = plan.is_current(&harness.session, std::slice::from_ref(&other));
        assert_eq!(is_current, fits, "{sql} {first:?} {other:?}");
        assert!(!plan.is_current(&harness.session, &[]));
    }
}

#[test]
fn a_kept_plan_that_locks_is_for_transactions_or_for_single_statements() {
    let mut harness = harness();
    let of = |harness: &Harness, sql: &str| {
        let query = parsed(harness, sql);
        execute::plan_query(&harness.session, &query, &[one()]).unwrap().1.expect("a kept plan")
    };
    for (sql, depends) in [
        ("SELECT k FROM t WHERE id = ? FOR UPDATE", true),
        ("SELECT k FROM t WHERE k > ? FOR SHARE", true),
        ("SELECT k FROM t WHERE id = ? AND k IN (SELECT k FROM t FOR UPDATE)", true),
        ("SELECT k FROM t WHERE id = ?", false),
    ] {
        let single = of(&harness, sql);
        assert!(single.is_current(&harness.session, &[one()]), "{sql}");
        harness.session.variables.autocommit = false;
        assert_eq!(!single.is_current(&harness.session, &[one()]), depends, "{sql}");
        let inside = of(&harness, sql);
        assert!(inside.is_current(&harness.session, &[one()]), "{sql}");
        harness.session.variables.autocommit = true;
        assert_eq!(!inside.is_current(&harness.session, &[one()]), depends, "{sql}");
    }
    let point = of(&harness, "SELECT k FROM t WHERE id = ? FOR UPDATE");
    assert!(matches!(point.kind, PlanKind::Point(_)));
}

#[test]
fn subqueries_of_in_are_asked_for_values_where_these_decide() {
    let harness = harness();
    let search = |condition: &str| {
        let sql = format!("SELECT id FROM t WHERE {condition}");
        let plan = planned_query(&harness, &sql);
        let subplan = &plan.subqueries[0];
        match &subplan.search {
            Some(search) => {
                let keyed = search.subplan.keyed.is_some();
                Ok((search.by_index, keyed, search.only_true, search.nulls.is_some()))
            }
            None => Err(subplan.whole),
        }
    };
    let more = Err(Some("it is more than rows of tables"));
    for (condition, expected) in [
        ("k IN (SELECT id FROM t)", Ok((true, true, true, false))),
        ("k = ANY (SELECT u FROM t WHERE k > 3)", Ok((true, true, true, false))),
        ("k NOT IN (SELECT id FROM t)", Ok((true, true, false, false))),
        ("k NOT IN (SELECT u FROM t)", Ok((true, true, false, true))),
        ("k IN (SELECT u FROM t) OR id = 1", Ok((true, true, false, true))),
        ("k IN (SELECT k FROM t)", Ok((false, true, true, false))),
        ("(k, id) IN (SELECT u, k FROM t)", Ok((true, true, true, false))),
        ("k IN (SELECT DISTINCT u FROM t)", Ok((true, true, true, false))),
        ("k IN (SELECT u FROM t AS i WHERE i.k = t.id)", Ok((true, true, true, false))),
        // Subqueries inside would be run anew for each value.
        ("k IN (SELECT id FROM t WHERE k IN (SELECT u FROM t))", Ok((false, true, true, false))),
        ("(k, id) NOT IN (SELECT u, k FROM t)", Err(Some("a NULL among its rows would count"))),
        ("k IN (SELECT MAX(id) FROM t GROUP BY k)", more),
        ("k IN (SELECT id FROM t GROUP BY id HAVING SUM(k) > 1)", Ok((true, false, true, false))),
        ("k NOT IN (SELECT u FROM t GROUP BY u)", Ok((true, false, false, true))),
        ("(k, id) IN (SELECT u, k FROM t GROUP BY u, k)", Ok((true, false, true, false))),
        ("k IN (SELECT id + 1 FROM t GROUP BY id)", more),
        (
            "c IN (SELECT c FROM t GROUP BY c)",
            Err(Some("no index has the values, and none can be told")),
        ),
        ("c COLLATE utf8mb4_bin IN (SELECT c FROM t GROUP BY c)", more),
        ("k IN (SELECT id FROM t GROUP BY id WITH ROLLUP)", more),
        ("k IN (SELECT id FROM t GROUP BY id LIMIT 1)", more),
        ("k IN (SELECT id FROM (SELECT id FROM t) AS d)", Ok((true, true, true, false))),
        ("k IN (SELECT id FROM (SELECT id FROM t LIMIT 5) AS d)", more),
        ("k IN (SELECT id FROM t UNION SELECT 1)", more),
        ("k IN (SELECT id FROM t WHERE k > RAND())", more),
        ("5 IN (SELECT id FROM t)", Err(Some("what is looked for is no value of the row alone"))),
        ("k > ANY (SELECT id FROM t)", Err(None)),
        ("EXISTS (SELECT id FROM t)", Err(None)),
    ] {
        assert_eq!(search(condition), expected, "{condition}");
    }
}

/// Queries of FROM that are left in a plan.
fn derived(operator: &Operator) -> usize {
    let inputs = operator.inputs();
    let own = matches!(operator, Operator::Derived(_) | Operator::Lateral { .. });
    usize::from(own) + inputs.into_iter().map(|input| derived(input)).sum::<usize>()
}

#[test]
fn queries_in_from_become_parts_of_their_block() {
    let mut harness = harness();
    harness.ok("CREATE VIEW plain AS SELECT id, k * 2 AS n FROM t WHERE k > 0");
    harness.ok("CREATE ALGORITHM=TEMPTABLE VIEW kept AS SELECT id, k * 2 AS n FROM t WHERE k > 0");
    let left = |sql: &str| derived(&planned_query(&harness, sql).root);
    for (sql, expected) in [
        ("SELECT n FROM (SELECT id, k + 1 AS n FROM t WHERE k > 2) d WHERE n = 7", 0),
        ("SELECT n, COUNT(*) FROM (SELECT k + 1 AS n FROM t) d GROUP BY n HAVING n > 2", 0),
        ("SELECT n FROM plain WHERE id = 7", 0),
        ("SELECT n FROM kept WHERE id = 7", 1),
        ("SELECT n FROM (SELECT n FROM (SELECT k + 1 AS n FROM t) d) e", 0),
        ("WITH d AS (SELECT id FROM t) SELECT a.id FROM d a, d b WHERE a.id = b.id", 0),
        ("SELECT COUNT(*) FROM (SELECT a.id FROM t a LEFT JOIN t b ON a.k = b.id) d", 0),
        ("SELECT id FROM (SELECT id FROM t ORDER BY k) d LIMIT 3", 0),
        // Where a row is missing, a column of it is NULL, and what is computed of it may not be.
        ("SELECT d.k FROM t LEFT JOIN (SELECT id, k FROM t WHERE k > 1) d ON d.id = t.k", 0),
        ("SELECT d.n FROM t LEFT JOIN (SELECT id, k <=> 1 AS n FROM t) d ON d.id = t.k", 1),
        ("SELECT d.id FROM t LEFT JOIN (SELECT id, k <=> 1 AS n FROM t) d ON d.id = t.k", 0),
        ("SELECT d.n FROM (SELECT id, k <=> 1 AS n FROM t) d LEFT JOIN t ON d.id = t.k", 0),
        ("SELECT k, COUNT(*) FROM (SELECT k FROM t) d GROUP BY k WITH ROLLUP", 0),
        ("SELECT n, COUNT(*) FROM (SELECT 1 AS n FROM t) d GROUP BY n WITH ROLLUP", 1),
        // Rows that are more than rows of tables, or come in an order.
        ("SELECT n FROM (SELECT COUNT(*) AS n FROM t) d", 1),
        ("SELECT k FROM (SELECT k FROM t GROUP BY k) d", 1),
        ("SELECT k FROM (SELECT DISTINCT k FROM t) d", 1),
        ("SELECT k FROM (SELECT k FROM t LIMIT 5) d", 1),
        ("SELECT n FROM (SELECT ROW_NUMBER() OVER () AS n FROM t) d", 1),
        ("SELECT k FROM (SELECT k FROM t UNION SELECT 1) d", 1),
        ("SELECT n FROM (SELECT 1 AS n) d", 1),
        ("SELECT d.k FROM (SELECT k FROM t ORDER BY id) d, t", 1),
        ("SELECT @n := k FROM (SELECT k FROM t ORDER BY id) d", 1),
        // What has effects, differs from row to row, or waits for something.
        ("SELECT n FROM (SELECT RAND() AS n FROM t) d", 1),
        ("SELECT n FROM (SELECT @n := k AS n FROM t) d", 1),
        ("SELECT k FROM (SELECT k FROM t FOR UPDATE SKIP LOCKED) d", 1),
        ("SELECT k FROM (SELECT k FROM t WHERE id IN (SELECT k FROM t)) d", 1),
        ("SELECT k FROM (SELECT k FROM t) d WHERE EXISTS (SELECT 1 FROM t WHERE t.id = d.k)", 1),
        ("SELECT e.n FROM (SELECT k FROM t) d, LATERAL (SELECT d.k + 1 AS n) e", 2),
    ] {
        assert_eq!(left(sql), expected, "{sql}");
    }
}

/// Conditions that are checked of rows of queries of FROM, and whether one of these looks up rows
/// of a table by a key or a range inside.
fn checked_above(operator: &Operator) -> (usize, bool) {
    let mut inputs: Vec<(usize, bool)> =
        operator.inputs().into_iter().map(|input| checked_above(input)).collect();
    let own = match operator {
        Operator::Derived(scan) => {
            inputs.push((0, checked_above(&scan.plan.root).1));
            scan.conditions.len()
        }
        Operator::Filter { conditions, .. } => conditions.len(),
        Operator::HashJoin { join, .. } | Operator::LoopJoin { join, .. } => join.conditions.len(),
        _ => 0,
    };
    let finds = matches!(operator, Operator::Scan(scan) if !matches!(scan.path, AccessPath::Full));
    let sum = inputs.iter().map(|(count, _)| count).sum::<usize>();
    (own + sum, finds || inputs.iter().any(|(_, finds)| *finds))
}

#[test]
fn conditions_go_into_queries_in_from() {
    let mut harness = harness();
    harness.ok("CREATE TABLE u (id INT PRIMARY KEY, c VARCHAR(20), f DOUBLE, KEY (c), KEY (f))");
    harness.ok("CREATE VIEW grouped AS SELECT id, SUM(k) AS n FROM t GROUP BY id");
    let above = |sql: &str| checked_above(&planned_query(&harness, sql).root);
    let (inside, stays) = ((0, true), (1, false));
    for (sql, expected) in [
        ("SELECT * FROM grouped WHERE id = 7", inside),
        ("SELECT * FROM grouped WHERE id + 1 = 7", (0, false)),
        ("SELECT * FROM grouped WHERE n = 7", stays),
        ("SELECT * FROM grouped WHERE id = 7 AND n = 7", (1, true)),
        ("SELECT * FROM grouped WHERE id = 7 OR n = 7", stays),
        ("SELECT * FROM (SELECT * FROM grouped LIMIT 5) d WHERE id = 7", stays),
        ("SELECT * FROM (SELECT id, n FROM grouped WHERE n > 1) d WHERE id = 7", (1, true)),
        ("SELECT * FROM (SELECT DISTINCT id, n FROM grouped) d WHERE id = 7", inside),
        ("SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM t) d WHERE n > 7", stays),
        (
            "SELECT * FROM (SELECT id, COUNT(*) FROM t GROUP BY id WITH ROLLUP) d WHERE id = 7",
            stays,
        ),
        ("SELECT * FROM (SELECT id, SUM(k) OVER (PARTITION BY id) FROM t) d WHERE id = 7", inside),
        ("SELECT * FROM (SELECT id, SUM(k) OVER () FROM t) d WHERE id = 7", stays),
        ("SELECT * FROM (SELECT id, @x := k AS x FROM t) d WHERE id = 7", stays),
        ("SELECT * FROM (SELECT id, RAND() AS x FROM t) d WHERE id = 7", stays),
        // What subqueries of the query or the block use stays as it is; conditions go by.
        ("SELECT * FROM (SELECT id FROM t WHERE k IN (SELECT k FROM t)) d WHERE id = 7", inside),
        ("SELECT * FROM grouped WHERE id IN (SELECT k FROM t)", stays),
        // Set operations take a condition if all of their parts do.
        ("SELECT * FROM (SELECT id FROM t UNION SELECT id FROM u) d WHERE id = 7", inside),
        ("SELECT * FROM (SELECT id FROM t EXCEPT SELECT id FROM grouped) d WHERE id = 7", inside),
        (
            "SELECT * FROM (SELECT id FROM t UNION ALL (SELECT id FROM u LIMIT 1)) d WHERE id = 7",
            stays,
        ),
        ("SELECT * FROM (SELECT c FROM u UNION SELECT id FROM t) d WHERE c = '7'", (0, true)),
        // Equal values need not look the same.
        ("SELECT * FROM (SELECT c, COUNT(*) FROM u GROUP BY c) d WHERE c = 'x'", inside),
        ("SELECT * FROM (SELECT c, COUNT(*) FROM u GROUP BY c) d WHERE c IN ('x', 'y')", inside),
        (
            "SELECT * FROM (SELECT c, COUNT(*) FROM u GROUP BY c) d WHERE c BETWEEN 'x' AND 'y'",
            inside,
        ),
        ("SELECT * FROM (SELECT c, COUNT(*) FROM u GROUP BY c) d WHERE c IS NULL", inside),
        ("SELECT * FROM (SELECT c, COUNT(*) FROM u GROUP BY c) d WHERE LENGTH(c) = 1", stays),
        ("SELECT * FROM (SELECT c, COUNT(*) FROM u GROUP BY c) d WHERE BINARY c = 'x'", stays),
        ("SELECT * FROM (SELECT c, COUNT(*) FROM u GROUP BY c) d WHERE c LIKE 'x%'", stays),
        ("SELECT * FROM (SELECT c FROM u UNION ALL SELECT c FROM t) d WHERE c LIKE 'x%'", inside),
        ("SELECT * FROM (SELECT f, COUNT(*) FROM u GROUP BY f) d WHERE f = 1", inside),
        ("SELECT * FROM (SELECT f, COUNT(*) FROM u GROUP BY f) d WHERE CONCAT(f) = '0'", stays),
        // Digits of a quotient are cut off when rows are read.
        ("SELECT * FROM (SELECT id / 3 AS q FROM t GROUP BY q) d WHERE q = 0.3333", stays),
        // Joins.
        ("SELECT * FROM t JOIN grouped g ON g.id = t.k AND g.id > 7", inside),
        ("SELECT * FROM t LEFT JOIN grouped g ON g.id = t.k AND g.id > 7", inside),
        ("SELECT * FROM t LEFT JOIN grouped g ON g.id = t.k WHERE g.id > 7", stays),
        ("SELECT * FROM grouped g LEFT JOIN t ON g.id = t.k WHERE g.id > 7", inside),
        ("SELECT * FROM grouped g LEFT JOIN t ON g.id = t.k AND g.id > 7", stays),
        // What another table's column is equal to.
        ("SELECT g.n FROM u JOIN grouped g ON g.id = u.id WHERE u.id = 7", inside),
        ("SELECT g.n FROM u JOIN grouped g ON g.id = u.id WHERE LENGTH(u.c) = 7", (0, false)),
    ] {
        assert_eq!(above(sql), expected, "{sql}");
    }
}

#[test]
fn what_ties_a_subquery_to_its_row_goes_into_queries_in_from() {
    let mut harness = harness();
    harness.ok("CREATE VIEW grouped AS SELECT id, SUM(k) AS n FROM t GROUP BY id");
    harness.ok("CREATE VIEW nested AS SELECT DISTINCT id, n FROM grouped");
    let subquery = |sql: &str| {
        let sql = format!("SELECT ({sql}) FROM t");
        let plan = planned_query(&harness, &sql);
        let subplan = &plan.subqueries[0];
        let patience = subplan.keyed.as_ref().map(|keyed| keyed.patience > 1);
        (checked_above(&subplan.plan.root), patience)
    };
    for (sql, expected) in [
        ("SELECT n FROM grouped g WHERE g.id = t.k", ((0, true), Some(true))),
        ("SELECT n FROM nested g WHERE g.id = t.k", ((0, true), Some(true))),
        ("SELECT n FROM grouped g WHERE g.id > t.k LIMIT 1", ((0, true), None)),
        ("SELECT n FROM grouped g WHERE g.n = t.k", ((1, false), Some(false))),
        (
            "SELECT id FROM (SELECT id FROM t UNION SELECT k FROM t) d WHERE d.id = t.k",
            ((0, true), Some(true)),
        ),
        (
            "WITH d AS (SELECT id FROM t GROUP BY id) SELECT d.id FROM d WHERE d.id = t.k",
            ((0, true), Some(true)),
        ),
    ] {
        assert_eq!(subquery(sql), expected, "{sql}");
    }
}

#[test]
fn sizes_of_tables_say_how_many_rows_are_looked_up() {
    let mut harness = harness();
    harness.ok("CREATE TABLE region (id INT PRIMARY KEY, name VARCHAR(20))");
    harness.ok(
        "CREATE TABLE nation (id INT PRIMARY KEY, region INT, day DATE, KEY (region), KEY (day))",
    );
    for (table, rows) in [("d.region", 5), ("d.nation", 40)] {
        harness.session.shared.statistics.set_rows(harness.table(table).id, rows);
    }
    for (sql, expected) in [
        // The path alone would say one row in a hundred.
        ("SELECT * FROM region r JOIN nation n ON n.region = r.id WHERE r.name = 'x'", 8.0),
        ("SELECT * FROM nation WHERE day BETWEEN DATE'2020-01-01' AND DATE'2020-12-31'", 6.0),
        ("SELECT * FROM nation WHERE day >= DATE'2020-01-01' AND day < DATE'2021-01-01'", 6.0),
        ("SELECT * FROM nation WHERE day >= DATE'2020-01-01'", 10.0),
    ] {
        let plan = planned_query(&harness, sql);
        let rows = Estimates::new(&harness.session).of(&plan.root).rows;
        assert!((rows - expected).abs() < 0.01, "{rows} of {sql}");
    }
}

#[test]
fn a_whole_key_of_many_columns_finds_one_row() {
    let mut harness = harness();
    harness.ok("CREATE TABLE w (a INT, b INT, c INT, d INT, PRIMARY KEY (a, b, c, d))");
    harness
        .ok("CREATE TABLE x (id INT PRIMARY KEY, a INT NOT NULL, b INT NOT NULL, c INT NOT NULL, \
         UNIQUE KEY (a, b, c))");
    let path = |sql: &str| {
        let plan = planned_query(&harness, sql);
        let Operator::Project { input, .. } = &plan.root.operator else { panic!("{sql}") };
        let Operator::Scan(scan) = &input.operator else { panic!("{sql}") };
        scan.path.clone()
    };
    // Four columns of an index are thought to leave less than a row.
    let whole = path("SELECT * FROM w WHERE a = 1 AND b = 2 AND c = 3 AND d = 4");
    assert!(matches!(whole, AccessPath::Primary { .. }), "{whole:?}");
    let whole = path("SELECT * FROM x WHERE a = 1 AND b = 2 AND c = 3");
    assert!(matches!(whole, AccessPath::Unique { .. }), "{whole:?}");
    let some = path("SELECT * FROM w WHERE a = 1 AND b = 2 AND c = 3");
    assert!(matches!(some, AccessPath::Ranges { .. }), "{some:?}");
}

#[test]
fn conditions_that_fix_the_distribution_key_name_its_values() {
    let mut harness = harness();
    harness
        .ok("CREATE TABLE s (a INT, b INT, c INT, v VARCHAR(10), PRIMARY KEY (a, b, c), KEY (c)) \
         PARTITION BY KEY (a, b) PARTITIONS 4");
    let keys = |sql: &str| {
        let plan = planned_query(&harness, &format!("SELECT * FROM s WHERE {sql}"));
        let Operator::Project { input, .. } = &plan.root.operator else { panic!("{sql}") };
        let Operator::Scan(scan) = &input.operator else { panic!("{sql}") };
        scan.distribution.as_ref().map(Vec::len)
    };
    for (sql, expected) in [
        ("a = 1 AND b = 2", Some(1)),
        ("a = 1 AND b IN (2, 3) AND c > 5", Some(2)),
        ("a IN (1, 2) AND b IN (2, 3) AND v = 'x'", Some(4)),
        ("c > 3 AND a <=> 1 AND b = 2", Some(1)),
        ("b = 2 AND (a = 1 AND c = 5 OR a = 2 AND c > 3)", Some(2)),
        ("(a, b) IN ((1, 2), (3, 4), (5, 6))", Some(3)),
        ("a = 1", None),
        ("a = 1 AND b > 2", None),
        ("a = 1 AND (b = 2 OR c = 3)", None),
        ("a = 1 AND NOT b = 2", None),
        ("a = b AND b = 2", None),
        ("a = 1 AND b = 2 OR c = 4", None),
        // These leave hardly any partition out.
        ("a = 1 AND b IN (1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17)", None),
    ] {
        assert_eq!(keys(sql), expected, "{sql}");
    }
}

#[test]
fn a_kept_plan_is_for_its_definitions() {
    let mut harness = harness();
    let (plan, _) = planned(&harness, "DELETE FROM t WHERE id = ?", &[one()]);
    assert!(plan.is_current(&harness.session, &[one()]));
    harness.ok("ALTER TABLE t ADD COLUMN v INT");
    assert!(!plan.is_current(&harness.session, &[one()]));
}

#[test]
fn columns_are_described_as_mysql_does() {
    use mysql_wire::constants::flag::*;
    let mut harness = Harness::new();
    harness.ok(
        "CREATE TABLE f (id INT UNSIGNED AUTO_INCREMENT PRIMARY KEY, a INT NOT NULL, u INT UNIQUE, \
         m VARCHAR(10) NOT NULL DEFAULT '', z INT(5) ZEROFILL, fl FLOAT(8,2), db DOUBLE, \
         de DECIMAL(10,2), ts TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE \
         CURRENT_TIMESTAMP, dt DATETIME, b VARBINARY(5), t TEXT, e ENUM('x','yy'), s SET('a','b'), \
         bn VARCHAR(3) COLLATE utf8mb4_bin, KEY (m, a))",
    );
    harness.ok("CREATE TABLE g (k INT NOT NULL UNIQUE, n INT NOT NULL)");
    let expected = [
        ("id", NOT_NULL | PRI_KEY | UNSIGNED | AUTO_INCREMENT | PART_KEY, 10, 0),
        ("a", NOT_NULL | NO_DEFAULT | PART_KEY, 11, 0),
        ("u", UNIQUE_KEY | PART_KEY, 11, 0),
        ("m", NOT_NULL | MULTIPLE_KEY | PART_KEY, 40, 31),
        ("z", UNSIGNED | ZEROFILL, 5, 0),
        ("fl", 0, 8, 2),
        ("db", 0, 22, 31),
        ("de", 0, 12, 2),
        ("ts", NOT_NULL | BINARY | TIMESTAMP | ON_UPDATE_NOW, 19, 0),
        ("dt", BINARY, 19, 0),
        ("b", BINARY, 5, 31),
        ("t", BLOB, 262_140, 31),
        ("e", ENUM, 8, 31),
        ("s", SET, 12, 31),
        ("bn", BINARY, 12, 31),
        // A unique key without NULLs stands in for the primary key.
        ("k", NOT_NULL | PRI_KEY | NO_DEFAULT | PART_KEY, 11, 0),
        ("n", NOT_NULL | NO_DEFAULT, 11, 0),
    ];
    let plan = planned_query(&harness, "SELECT f.*, g.* FROM f, g");
    assert_eq!(plan.columns.len(), expected.len());
    for (column, (name, flags, length, decimals)) in plan.columns.iter().zip(expected) {
        let found = crate::result::definition_of(column, CollationId::DEFAULT);
        let found = (found.name, found.flags, found.length, found.decimals);
        assert_eq!(found, (name, flags, length, decimals), "flags {:#x} {flags:#x}", found.1);
    }
    let expected = [
        ("1", NOT_NULL | BINARY),
        ("'x'", NOT_NULL),
        ("NULL", BINARY),
        ("NOW()", NOT_NULL | BINARY),
        ("id + 1", NOT_NULL | BINARY | UNSIGNED),
        ("u * 1.5", BINARY),
        ("m", NOT_NULL | MULTIPLE_KEY | PART_KEY),
        ("CONCAT(m, m)", NOT_NULL),
        ("BINARY m", NOT_NULL | BINARY),
    ];
    for (expression, flags) in expected {
        let plan = planned_query(&harness, &format!("SELECT {expression} FROM f"));
        let found = crate::result::definition_of(&plan.columns[0], CollationId::DEFAULT).flags;
        assert_eq!(found, flags, "{expression}: {found:#x} instead of {flags:#x}");
    }
}

#[test]
fn queries_in_each_other_are_planned_a_few_times_each() {
    let mut harness = Harness::new();
    harness.ok("CREATE TABLE e (id INT PRIMARY KEY, k INT, KEY (k))");
    let levels = 12;
    // Each level takes a condition of the level around it, and may be run for all of its rows.
    let mut correlated = "SELECT k, id AS n FROM e GROUP BY k, id".to_owned();
    for at in 0..levels {
        correlated = format!(
            "SELECT o{at}.k, \
             (SELECT MAX(d.n) FROM ({correlated}) d WHERE d.k > 1 AND d.n >= o{at}.id) AS n \
             FROM e o{at} GROUP BY o{at}.k, o{at}.id"
        );
    }
    // Each table is used twice, with another condition in each place.
    let mut common = "WITH w0 AS (SELECT DISTINCT k AS g FROM e)".to_owned();
    for at in 1..levels {
        let of = at - 1;
        common = format!(
            "{common}, w{at} AS (SELECT DISTINCT a.g + b.g AS g FROM w{of} a JOIN w{of} b \
             WHERE a.g > 1 AND b.g > 2)"
        );
    }
    let common = format!("{common} SELECT * FROM w{}", levels - 1);
    for sql in [correlated, common] {
        let mut planner = Planner::new(&harness.session, &[]);
        planner.query(&parsed(&harness, &sql)).unwrap();
        let planned = planner.plans.len();
        assert!(planned <= levels * levels, "{planned} plans of queries in FROM: {sql}");
    }
}

#[test]
fn common_tables_that_use_each_other_are_looked_at_once() {
    let harness = harness();
    let levels = 50;
    let mut common = "WITH w0 AS (SELECT DISTINCT k FROM t)".to_owned();
    for at in 1..levels {
        let of = at - 1;
        common = format!("{common}, w{at} AS (SELECT DISTINCT a.k FROM w{of} a JOIN w{of} b)");
    }
    let last = levels - 1;
    planned_query(&harness, &format!("{common} SELECT * FROM w{last}"));
    let inside = format!("SELECT (SELECT MAX(q.k) FROM ({common} SELECT * FROM w{last}) q) FROM t");
    planned_query(&harness, &inside);
    let tied = format!("{common} SELECT (SELECT MAX(k) FROM w{last} WHERE w{last}.k = t.k) FROM t");
    planned_query(&harness, &tied);
}

#[test]
fn changes_ask_subqueries_for_values_too() {
    let mut harness = harness();
    harness.ok("CREATE TABLE s (id INT PRIMARY KEY)");
    for sql in [
        "UPDATE t SET c = 'z' WHERE k IN (SELECT id FROM s)",
        "DELETE FROM t WHERE k IN (SELECT id FROM s)",
    ] {
        let mode = harness.session.variables.parser_mode();
        let statement = sql_parser::parse_at(sql.as_bytes(), 0, mode).unwrap().statement;
        let mut planner = Planner::new(&harness.session, &[]);
        let plan = execute::update::search_of(&mut planner, &statement).unwrap();
        assert!(plan.subqueries[0].search.is_some(), "{sql}");
    }
}

#[test]
fn more_rows_than_can_be_counted_are_joined() {
    let harness = harness();
    let product = (0..7).fold("WITH w0 AS (SELECT DISTINCT id FROM t)".to_owned(), |with, at| {
        let next = at + 1;
        format!("{with}, w{next} AS (SELECT DISTINCT a.id FROM w{at} a, w{at} b, w{at} c)")
    });
    let sql = format!(
        "{product} SELECT (SELECT MAX(a.id) FROM w7 a, w7 b WHERE a.id = t.id) FROM t, w7 \
         WHERE w7.id < 0"
    );
    planned_query(&harness, &sql);
}
