//! Which indexes are used under hints, and in which order tables are joined.

use sql_parser::ast::Statement;

use crate::catalog::harness::Harness;
use crate::hint::StatementHints;
use crate::plan::operator::{AccessPath, Operator, TableScan};
use crate::plan::planner::Planner;

fn harness() -> Harness {
    let mut harness = Harness::new();
    harness.ok("CREATE TABLE a (id INT PRIMARY KEY, n INT, m INT, KEY n (n), KEY m (m))");
    harness.ok("CREATE TABLE b (id INT PRIMARY KEY, a INT, c INT)");
    harness.ok("CREATE TABLE c (id INT PRIMARY KEY, n INT)");
    harness
}

/// The tables that a statement reads, in this order, each with the index that finds its rows; in
/// parentheses those of a query that is computed apart.
fn reads(harness: &mut Harness, sql: &str) -> String {
    let parsed = sql_parser::parse_at(sql.as_bytes(), 0, Default::default()).unwrap();
    harness.session.hints = StatementHints::of(&parsed.hints, &parsed.statement);
    let mut planner = Planner::new(&harness.session, &[]);
    let plan = match &parsed.statement {
        Statement::Query(query) => planner.query(query).unwrap(),
        change => crate::execute::update::search_of(&mut planner, change).unwrap(),
    };
    let mut shown = Vec::new();
    show(&plan.root, &mut shown);
    for subplan in &plan.subqueries {
        show(&subplan.plan.root, &mut shown);
    }
    shown.join(" ")
}

fn show(operator: &Operator, shown: &mut Vec<String>) {
    operator.inputs().into_iter().for_each(|input| show(input, shown));
    match operator {
        Operator::Scan(scan) | Operator::Lookup { scan, .. } => shown.push(show_scan(scan)),
        Operator::Derived(scan) => {
            let mut inside = Vec::new();
            show(&scan.plan.root, &mut inside);
            shown.push(format!("({})", inside.join(" ")));
        }
        _ => {}
    }
}

fn show_scan(scan: &TableScan) -> String {
    let index = match &scan.path {
        AccessPath::Primary { .. } => "PRIMARY",
        AccessPath::Unique { name, .. } | AccessPath::Ranges { name, .. } => name,
        AccessPath::Full => return scan.alias.clone(),
    };
    format!("{}.{index}", scan.alias)
}

#[test]
fn indexes_are_used_or_not() {
    let mut harness = harness();
    for (sql, expected) in [
        ("SELECT id FROM a WHERE n = 5 AND m = 6", "a.n"),
        ("SELECT /*+ INDEX(A M) */ id FROM a WHERE n = 5 AND m = 6", "a.m"),
        ("SELECT /*+ INDEX(a) */ id FROM a WHERE n = 5 AND m = 6", "a.n"),
        ("SELECT /*+ INDEX(a nothing) */ id FROM a WHERE n = 5 AND m = 6", "a.n"),
        ("SELECT /*+ NO_INDEX(a nothing, n) */ id FROM a WHERE n = 5 AND m = 6", "a.m"),
        ("SELECT /*+ NO_INDEX(a n, m) */ id FROM a WHERE n = 5 AND m = 6", "a"),
        ("SELECT /*+ NO_INDEX(a) */ id FROM a WHERE id = 5", "a"),
        ("SELECT /*+ NO_INDEX(a PRIMARY) */ id FROM a WHERE id = 5", "a"),
        ("SELECT /*+ NO_INDEX(x) */ id FROM a WHERE id = 5", "a.PRIMARY"),
        ("SELECT /*+ JOIN_INDEX(a m) */ id FROM a FORCE INDEX (n) WHERE n = 5 AND m = 6", "a.m"),
        ("SELECT /*+ MRR(a m) */ id FROM a FORCE INDEX (n) WHERE n = 5 AND m = 6", "a.n"),
        ("UPDATE /*+ NO_INDEX(x n) */ a AS x SET m = 1 WHERE n = 5", "x"),
        ("DELETE /*+ NO_INDEX(a n) */ FROM a WHERE n = 5 AND m = 6", "a.m"),
        (
            "SELECT /*+ INDEX(x@q m) */ 1 FROM (SELECT /*+ QB_NAME(q) */ id FROM a AS x \
             WHERE n = 5 AND m = 6) AS d",
            "x.m",
        ),
        (
            "SELECT /*+ INDEX(@`select#2` a m) */ 1 FROM b WHERE id < (SELECT MAX(id) FROM a \
             WHERE n = 5 AND m = 6)",
            "b a.m",
        ),
    ] {
        assert_eq!(reads(&mut harness, sql), expected, "{sql}");
    }
}

#[test]
fn tables_are_joined_in_the_order_that_is_asked_for() {
    let mut harness = harness();
    let from = "FROM a, b, c WHERE b.a = a.id AND b.c = c.id";
    for (hint, expected) in [
        ("JOIN_FIXED_ORDER()", "a b c"),
        ("JOIN_ORDER(c, b, a)", "c b a"),
        ("JOIN_ORDER(c, b, nothing)", "a b c"),
        ("JOIN_ORDER(c, b) JOIN_ORDER(b, c)", "c b a"),
        ("JOIN_PREFIX(c)", "c b a"),
        ("JOIN_PREFIX(b, c)", "b c a"),
        ("JOIN_SUFFIX(c)", "a b c"),
        ("JOIN_SUFFIX(a, b)", "c a b"),
        ("JOIN_PREFIX(c) JOIN_SUFFIX(b)", "c a b"),
        ("JOIN_PREFIX()", "a b c"),
    ] {
        let sql = format!("SELECT /*+ {hint} */ 1 {from}");
        let read = reads(&mut harness, &sql);
        assert_eq!(read.replace(".PRIMARY", ""), expected, "{sql}");
    }
    for (sql, expected) in [
        ("SELECT STRAIGHT_JOIN 1 FROM c, b, a WHERE b.a = a.id AND b.c = c.id", "c b a"),
        ("SELECT 1 FROM c STRAIGHT_JOIN a STRAIGHT_JOIN b ON b.a = a.id AND b.c = c.id", "c a b"),
        (
            "SELECT /*+ JOIN_ORDER(c, d) */ 1 FROM c, (SELECT b.c FROM b, a WHERE b.a = a.id) AS d \
             WHERE d.c = c.id",
            "c b a",
        ),
        (
            "SELECT /*+ JOIN_ORDER(d, c) */ 1 FROM c, (SELECT b.c FROM b, a WHERE b.a = a.id) AS d \
             WHERE d.c = c.id",
            "b a c",
        ),
        (
            "SELECT /*+ JOIN_ORDER(@q c, b) */ 1 FROM a, (SELECT /*+ QB_NAME(q) */ b.a FROM b, c \
             WHERE b.c = c.id) AS d WHERE d.a = a.id",
            "c b a",
        ),
        ("UPDATE /*+ JOIN_ORDER(c, b) */ b, c SET b.a = 1 WHERE b.c = c.id", "c b"),
        // What cannot be is not asked for.
        ("SELECT /*+ JOIN_PREFIX(b) */ 1 FROM a LEFT JOIN b ON b.a = a.id JOIN c ON 1", "a b c"),
        ("SELECT /*+ JOIN_PREFIX(d) */ 1 FROM a, LATERAL (SELECT a.id FROM c) AS d", "a"),
    ] {
        let read = reads(&mut harness, sql);
        assert_eq!(read.replace(".PRIMARY", ""), expected, "{sql}");
    }
}

#[test]
fn queries_are_merged_or_not() {
    let mut harness = harness();
    harness.ok("CREATE VIEW v AS SELECT id, n FROM a WHERE m > 0");
    let d = "(SELECT id, n FROM a WHERE m > 0) AS d";
    for (sql, expected) in [
        (format!("SELECT n FROM {d} WHERE id = 1"), "a.PRIMARY"),
        (format!("SELECT /*+ NO_MERGE(d) */ n FROM {d} WHERE id = 1"), "(a.PRIMARY)"),
        (format!("SELECT /*+ NO_MERGE() */ n FROM {d} WHERE id = 1"), "(a.PRIMARY)"),
        (format!("SELECT /*+ NO_MERGE() MERGE(d) */ n FROM {d} WHERE id = 1"), "a.PRIMARY"),
        ("SELECT n FROM v WHERE id = 1".into(), "v.PRIMARY"),
        ("SELECT /*+ NO_MERGE(v) */ n FROM v WHERE id = 1".into(), "(a.PRIMARY)"),
        ("UPDATE /*+ NO_MERGE(v) */ v SET n = 1 WHERE id = 1".into(), "v.PRIMARY"),
        (
            "WITH w AS (SELECT id FROM a) SELECT /*+ NO_MERGE(w) */ id FROM w WHERE id = 1".into(),
            "(a.PRIMARY)",
        ),
    ] {
        assert_eq!(reads(&mut harness, &sql), expected, "{sql}");
    }
    harness.ok("SET optimizer_switch = 'index_merge=on,derived_merge=off'");
    for (hint, expected) in [("", "(a.PRIMARY)"), ("/*+ MERGE(d) */", "a.PRIMARY")] {
        let sql = format!("SELECT {hint} n FROM {d} WHERE id = 1");
        assert_eq!(reads(&mut harness, &sql), expected, "{sql}");
    }
    harness.ok("SET optimizer_switch = 'derived_merge=off,derived_merge=on'");
    assert_eq!(reads(&mut harness, "SELECT n FROM v WHERE id = 1"), "v.PRIMARY");
}
