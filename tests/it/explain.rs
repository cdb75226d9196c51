//! EXPLAIN tells what runs where and why, ANALYZE what came of it, and `nines_require_pushdown`
//! refuses what should be elsewhere; queries over large tables see whole transactions.
//!
//! Estimates are compared where only the sizes of tables decide them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tests::{QueryError, Server, Session, TextRow};

const TABLES: &str = "CREATE DATABASE d; \
    CREATE TABLE d.items (id INT PRIMARY KEY, name VARCHAR(20), price DECIMAL(10,2), \
     KEY n (name)); \
    CREATE TABLE d.orders (id INT PRIMARY KEY, item INT, qty INT, KEY k (item, qty)); \
    INSERT INTO d.items VALUES (1, 'nut', 0.50), (2, 'bolt', 1.25), (3, 'nail', 0.10); \
    INSERT INTO d.orders VALUES (1, 1, 5), (2, 2, 1), (3, 1, 7), (4, 3, 2)";

fn ask(session: &mut Session, statement: &str) -> Vec<TextRow> {
    session.query(statement).unwrap_or_else(|error| panic!("{statement}: {error}"))
}

fn refused(session: &mut Session, statement: &str) -> (u16, String) {
    match session.query(statement) {
        Err(QueryError::Refused(number, message)) => (number, message),
        other => panic!("{statement}: {other:?}"),
    }
}

fn session_of(server: &Server) -> Session {
    let mut session = server.session().unwrap_or_else(|error| panic!("{error}"));
    ask(&mut session, "USE d");
    session
}

/// The lines of a table without its estimates: id, select_type, table, partitions, type,
/// possible_keys, key, key_len, ref, Extra.
fn lines(session: &mut Session, statement: &str) -> Vec<String> {
    let shown = |row: TextRow| {
        let mut row: Vec<String> =
            row.into_iter().map(|value| value.unwrap_or_else(|| "-".to_owned())).collect();
        row.drain(9..11);
        row.join(" | ")
    };
    ask(session, &format!("EXPLAIN {statement}")).into_iter().map(shown).collect()
}

/// The lines of a tree without costs, times and ends of lines.
fn tree(session: &mut Session, statement: &str) -> Vec<String> {
    let text = ask(session, statement)[0][0].clone().unwrap_or_default();
    text.lines().map(without_costs).collect()
}

/// A line without what is in parentheses after `(cost` and `(actual time`.
pub(super) fn without_costs(line: &str) -> String {
    let mut line = line.to_owned();
    for (from, to) in [("  (cost=", ")"), (" (actual time=", " rows=")] {
        if let Some(at) = line.find(from) {
            let end = line[at..].find(to).map_or(line.len(), |end| at + end + 1);
            let rest = if to == ")" { &line[end..] } else { &line[end - 1..] };
            let kept = if to == ")" { "" } else { " (actual" };
            line = format!("{}{kept}{rest}", &line[..at]);
        }
    }
    line.trim_end().to_owned()
}

#[test]
fn a_table_is_explained_by_the_size_that_it_has() {
    let server = Server::start(&["--workers=2"]);
    let mut session = server.session().unwrap_or_else(|error| panic!("{error}"));
    ask(&mut session, "CREATE DATABASE d");
    ask(&mut session, "CREATE TABLE d.t (id INT PRIMARY KEY, a INT, KEY (a))");
    let rows = |session: &mut Session, statement: &str| {
        let lines = ask(session, &format!("EXPLAIN {statement}"));
        lines[0][9].clone().expect("a number of rows")
    };
    ask(&mut session, "INSERT INTO d.t VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, 5)");
    // Nobody has asked for its size before.
    assert_eq!(rows(&mut session, "SELECT * FROM d.t"), "5");
    for id in 6..=40 {
        ask(&mut session, &format!("INSERT INTO d.t VALUES ({id}, {id})"));
    }
    for statement in ["SELECT * FROM d.t", "UPDATE d.t SET a = 0", "DELETE FROM d.t"] {
        assert_eq!(rows(&mut session, statement), "40", "{statement}");
    }
    let tree = ask(&mut session, "EXPLAIN FORMAT=TREE SELECT * FROM d.t WHERE id = 3");
    assert!(tree[0][0].as_ref().is_some_and(|text| text.contains("rows=1)")), "{tree:?}");
}

#[test]
fn a_line_for_each_table() {
    let server = Server::start(&[]);
    server.sql(TABLES);
    let session = &mut session_of(&server);
    for (statement, expected) in [
        (
            "SELECT name FROM items WHERE id = 2",
            &["1 | SIMPLE | items | p1 | const | PRIMARY | PRIMARY | 4 | const | -"][..],
        ),
        (
            "SELECT * FROM orders WHERE item = 1 AND qty > 4",
            &["1 | SIMPLE | orders | p0,p1,p2,p3 | range | k | k | 10 | - | -"],
        ),
        (
            "SELECT * FROM items WHERE price > 1 AND SUBSTR(name, 1, 1) = 'n'",
            &["1 | SIMPLE | items | p0,p1,p2,p3 | ALL | - | - | - | - | Using pushed condition \
               (items.price > 1); Using where (not pushed: (substring(items.name,1,1) = 'n'): \
               substring(items.name,1,1): data nodes do not have this function)"],
        ),
        (
            "SELECT item, SUM(qty) FROM orders GROUP BY item",
            &["1 | SIMPLE | orders | p0,p1,p2,p3 | ALL | - | - | - | - | Pushed aggregate"],
        ),
        (
            "SELECT GROUP_CONCAT(qty) FROM orders",
            &["1 | SIMPLE | orders | p0,p1,p2,p3 | ALL | - | - | - | - | Using temporary \
               (aggregate not pushed: data nodes have COUNT, SUM, AVG, MIN and MAX only)"],
        ),
        (
            "SELECT qty FROM orders ORDER BY qty * 2 DESC LIMIT 3",
            &["1 | SIMPLE | orders | p0,p1,p2,p3 | ALL | - | - | - | - | Using filesort (data \
               nodes send the first rows)"],
        ),
        (
            "SELECT 1 UNION SELECT 2",
            &[
                "1 | PRIMARY | - | - | - | - | - | - | - | No tables used",
                "2 | UNION | - | - | - | - | - | - | - | No tables used",
                "- | UNION RESULT | <union1,2> | - | ALL | - | - | - | - | Using temporary",
            ],
        ),
        (
            "UPDATE orders SET qty = 0 WHERE id = 3",
            &["1 | UPDATE | orders | p3 | const | PRIMARY | PRIMARY | 4 | const | -"],
        ),
        (
            "INSERT INTO orders SELECT * FROM orders WHERE id = 3",
            &[
                "1 | INSERT | orders | - | ALL | - | - | - | - | -",
                "1 | SIMPLE | orders | p3 | const | PRIMARY | PRIMARY | 4 | const | -",
            ],
        ),
        (
            "REPLACE INTO orders VALUES (1, 2, 3)",
            &["1 | REPLACE | orders | - | ALL | - | - | - | - | -"],
        ),
    ] {
        let shown = lines(session, statement);
        assert_eq!(shown, expected, "{statement}");
    }
    let described = ask(session, "DESC SELECT name FROM items WHERE id = 2");
    assert_eq!(described, ask(session, "EXPLAIN SELECT name FROM items WHERE id = 2"));
    for statement in [
        "EXPLAIN FOR CONNECTION 1",
        "EXPLAIN ANALYZE UPDATE orders SET qty = 0",
        "EXPLAIN ANALYZE FORMAT=TRADITIONAL SELECT 1",
        "EXPLAIN FORMAT=JSON INTO @x SELECT 1",
    ] {
        assert_eq!(refused(session, statement).0, 1235, "{statement}");
    }
}

#[test]
fn a_tree_with_what_was_done() {
    let server = Server::start(&[]);
    server.sql(TABLES);
    let session = &mut session_of(&server);
    let grouped = "SELECT item, SUM(qty) FROM orders WHERE qty * 2 > 2 GROUP BY item";
    assert_eq!(
        tree(session, &format!("EXPLAIN FORMAT=TREE {grouped}")),
        [
            "-> Merge of pushed aggregates: orders.item [data nodes, SQL node]",
            "    -> Table scan on orders, pushed condition: ((orders.qty * 2) > 2) [data nodes: \
             all of p0-p3; grouped there]",
        ]
    );
    let analyzed = tree(session, &format!("EXPLAIN ANALYZE {grouped}"));
    // Four rows were looked at; how many groups travel depends on where rows lie.
    assert!(analyzed[0].contains("(actual rows=2 loops=1) (data nodes: read 4 rows; sent "));
    assert!(analyzed[1].ends_with("(see above)"), "{}", analyzed[1]);
    let dependent = "EXPLAIN ANALYZE SELECT id FROM items i WHERE price > 0.2 AND (SELECT \
                     SUM(qty) FROM orders o WHERE o.item = i.id) > 3";
    let dependent = tree(session, dependent).join("\n");
    for part in
        ["[SQL node: it waits for a subquery]", "Select #2 (subquery in condition; dependent"]
    {
        assert!(dependent.contains(part), "{part} in\n{dependent}");
    }
    let lookup = tree(session, "EXPLAIN ANALYZE SELECT name FROM items WHERE id = 2").join("\n");
    assert!(lookup.contains("Single-row lookup on items using PRIMARY (id=const) [data nodes: p1"));
    assert!(lookup.contains("(actual rows=1 loops=1) (data nodes: sent 1 rows, "), "{lookup}");
    let nothing = tree(session, "EXPLAIN ANALYZE SELECT * FROM items WHERE 1 = 0 LIMIT 0");
    assert!(nothing.iter().any(|line| line.contains("never executed")), "{nothing:?}");
    // Times end it as they end a query, and its rows go nowhere.
    ask(session, "SET max_execution_time = 200");
    let slow = "EXPLAIN ANALYZE SELECT SLEEP(5) FROM orders";
    assert_eq!(refused(session, slow).0, 3024);
    ask(session, "SET max_execution_time = 0, explain_format = 'TREE'");
    assert!(tree(session, "EXPLAIN SELECT * FROM items")[0].starts_with("-> Table scan on items"));
}

#[test]
fn rows_are_found_by_an_index_where_that_is_less() {
    let server = Server::start(&[]);
    server.sql(
        "CREATE DATABASE d; CREATE TABLE d.l (id INT PRIMARY KEY, k INT); \
         CREATE TABLE d.r (id INT PRIMARY KEY, l BIGINT, v INT, KEY by_l (l))",
    );
    let session = &mut session_of(&server);
    let insert = |table: &str, row: fn(u32) -> String| {
        let rows: Vec<String> = (0..3_000).map(row).collect();
        format!("INSERT INTO {table} VALUES {}", rows.join(","))
    };
    ask(session, &insert("l", |id| format!("({id}, {})", id % 1_000)));
    ask(session, &insert("r", |id| format!("({id}, {}, 1)", id / 2)));
    let outer = "SELECT l.id, COUNT(v) FROM l LEFT JOIN r ON r.l = l.id";
    let many = lines(session, &format!("{outer} GROUP BY l.id"));
    assert!(many[1].contains(" | r | ") && many[1].contains(" | ALL | "), "{many:?}");
    assert!(many[1].contains("hash join"), "{many:?}");
    let few = "SELECT l.id, v FROM l LEFT JOIN r ON r.l = l.id WHERE l.id = 7";
    let few = lines(session, few);
    assert!(few[1].contains(" | ref | by_l | by_l | "), "{few:?}");
    let counts = ask(
        session,
        &format!(
            "SELECT n, COUNT(*) FROM ({outer} AND v < 2 GROUP BY l.id) \
         AS t (id, n) GROUP BY n ORDER BY n"
        ),
    );
    let row = |values: [&str; 2]| values.map(|value| Some(value.to_owned())).to_vec();
    assert_eq!(counts, [row(["0", "1500"]), row(["2", "1500"])]);
    // Who reads `r` is told three keys, or those of a dozen rows, and looks them up.
    let joined = "SELECT SUM(v) FROM l JOIN r ON r.l = l.id WHERE k = 5";
    let analyzed = tree(session, &format!("EXPLAIN ANALYZE {joined}")).join("\n");
    assert!(analyzed.contains("Table scan on r, keys of a join told: l "), "{analyzed}");
    assert!(analyzed.contains("rows=1 loops=1) (data nodes: read 4 rows; sent "), "{analyzed}");
    assert_eq!(ask(session, joined), [vec![Some("4".to_owned())]]);
    let dependent = "SELECT COUNT(*) FROM l WHERE k IN (5, 6, 7, 8) AND \
                     2 = (SELECT SUM(v) FROM r WHERE r.l = l.id)";
    let analyzed = tree(session, &format!("EXPLAIN ANALYZE {dependent}")).join("\n");
    let at_once = analyzed.split("for all rows at once").nth(1).unwrap_or_default();
    assert!(at_once.contains("rows=8 loops=1) (data nodes: read 16 rows; "), "{analyzed}");
    assert_eq!(ask(session, dependent), [vec![Some("8".to_owned())]]);
    // What the transaction has put there itself is seen too.
    ask(session, "BEGIN");
    ask(session, "INSERT INTO r VALUES (5000, 5, 10)");
    assert_eq!(ask(session, joined), [vec![Some("14".to_owned())]]);
    assert_eq!(ask(session, dependent), [vec![Some("7".to_owned())]]);
    ask(session, "ROLLBACK");
    assert_eq!(ask(session, joined), [vec![Some("4".to_owned())]]);
}

/// Common tables that use each other twice are used 2^49 times.
#[test]
fn a_query_that_is_used_in_many_places_is_explained_once() {
    let server = Server::start(&[]);
    server.sql(TABLES);
    let mut session = session_of(&server);
    let twice = "WITH c AS (SELECT DISTINCT qty FROM orders) SELECT 1 FROM c x JOIN c y";
    let found = tree(&mut session, &format!("EXPLAIN FORMAT=TREE {twice}"));
    let of = |alias: &str| {
        let of = format!("Table {alias} materialized");
        found.iter().filter(|line| line.contains(&of)).cloned().collect::<Vec<_>>()
    };
    let elsewhere = |lines: &[String]| {
        lines.iter().filter(|line| line.contains("(query plan printed elsewhere)")).count()
    };
    assert_eq!((of("x").len(), of("y").len()), (1, 1), "{found:#?}");
    assert_eq!(elsewhere(&of("x")) + elsewhere(&of("y")), 1, "{found:#?}");
    let scans = found.iter().filter(|line| line.contains("orders")).count();
    assert_eq!(scans, 1, "{found:#?}");
    let table = lines(&mut session, twice);
    let same = table.iter().filter(|line| line.contains("Same query as id 2")).count();
    assert_eq!((table.len(), same), (3, 1), "{table:#?}");

    let mut common = "WITH w0 AS (SELECT DISTINCT qty FROM orders WHERE qty < 0)".to_owned();
    for at in 1..50 {
        let of = at - 1;
        common = format!("{common}, w{at} AS (SELECT DISTINCT a.qty FROM w{of} a JOIN w{of} b)");
    }
    let query = format!("{common} SELECT * FROM w49");
    let inside = format!("SELECT (SELECT MAX(q.qty) FROM ({query}) q) FROM orders");
    for format in ["TRADITIONAL", "TREE", "JSON"] {
        ask(&mut session, &format!("EXPLAIN FORMAT={format} {query}"));
        ask(&mut session, &format!("EXPLAIN FORMAT={format} {inside}"));
    }
    ask(&mut session, "SET nines_require_pushdown = ON");
    assert!(ask(&mut session, &query).is_empty());
}

#[test]
fn json_is_json() {
    let server = Server::start(&[]);
    server.sql(TABLES);
    let session = &mut session_of(&server);
    for statement in [
        "SELECT 1",
        "SELECT name FROM items WHERE id = 2 OR name = 'a\"\\\\b'",
        "SELECT i.name, SUM(o.qty) s FROM orders o JOIN items i ON i.id = o.item WHERE i.price > 0 \
         AND i.id IN (SELECT item FROM orders) GROUP BY i.name HAVING s > 1 ORDER BY s LIMIT 2",
        "SELECT * FROM (SELECT DISTINCT qty FROM orders) t UNION SELECT 1 ORDER BY 1",
        "SELECT *, RANK() OVER (ORDER BY qty) FROM orders LEFT JOIN items USING (id)",
        "WITH RECURSIVE r AS (SELECT 1 n UNION ALL SELECT n + 1 FROM r WHERE n < 3) TABLE r",
        "SELECT MIN(id), MAX(id) FROM orders",
        "SELECT * FROM items i, LATERAL (SELECT COUNT(*) FROM orders o WHERE o.item = i.id) l",
        "SELECT COUNT(*) FROM information_schema.tables",
    ] {
        for what in ["FORMAT=JSON", "ANALYZE FORMAT=JSON", "FORMAT=TREE", "ANALYZE", ""] {
            let rows = ask(session, &format!("EXPLAIN {what} {statement}"));
            if !what.contains("JSON") {
                continue;
            }
            let json = rows[0][0].clone().unwrap_or_default();
            let quoted = json.replace('\\', "\\\\").replace('\'', "\\'");
            let check = format!(
                "SELECT JSON_VALID('{quoted}'), JSON_EXTRACT('{quoted}', '$.query_block.select_id')"
            );
            let answer = ask(session, &check);
            assert_eq!(answer[0], [Some("1".into()), Some("1".into())], "{statement}\n{json}");
            assert_eq!(json.contains("actual_rows"), what.contains("ANALYZE"), "{json}");
        }
    }
    let change = ask(session, "EXPLAIN FORMAT=JSON DELETE FROM orders WHERE qty + 1 > 2");
    let change = change[0][0].clone().unwrap_or_default();
    assert!(change.contains("\"why_not\": \"its rows are locked\""), "{change}");
}

#[test]
fn what_is_not_pushed_is_refused_if_so_asked() {
    let server = Server::start(&[]);
    server.sql(TABLES);
    let session = &mut session_of(&server);
    ask(session, "SET nines_require_pushdown = 1");
    for (statement, part) in [
        ("SELECT BIT_XOR(qty) FROM orders", "aggregate over table orders: data nodes have"),
        (
            "SELECT * FROM items WHERE price > 0 AND SUBSTR(name, 1, 1) = 'n'",
            "condition (substring(items.name,1,1) = 'n') of table items",
        ),
        (
            "SELECT * FROM items WHERE id IN (SELECT item FROM orders WHERE SUBSTR(qty, 1, 1) = 1)",
            "of table items: it waits for a subquery",
        ),
        ("SELECT * FROM (SELECT GROUP_CONCAT(qty) FROM orders) t", "aggregate over table orders"),
    ] {
        let (number, message) = refused(session, statement);
        assert!(number == 1296 && message.contains("1016 ") && message.contains(part), "{message}");
    }
    for statement in [
        "SELECT item, SUM(qty) FROM orders WHERE qty > 1 GROUP BY item",
        "SELECT * FROM items WHERE id = 1 AND SUBSTR(name, 1, 1) = 'n'",
        "SELECT i.name, COUNT(DISTINCT o.qty) FROM orders o JOIN items i ON i.id = item GROUP BY 1",
        "EXPLAIN SELECT BIT_XOR(qty) FROM orders",
    ] {
        ask(session, statement);
    }
    ask(session, "SET nines_require_pushdown = OFF");
    ask(session, "SELECT BIT_XOR(qty) FROM orders");
}

#[test]
fn what_crosses_is_counted() {
    let server = Server::start(&[]);
    server.sql(TABLES);
    let session = &mut session_of(&server);
    let mut counted = |statement: &str| {
        let before = crossed(session);
        ask(session, statement);
        let after = crossed(session);
        std::array::from_fn(|at| after[at] - before[at])
    };
    let [bytes, messages, examined, received] = counted("SELECT * FROM orders");
    assert!((received, examined) == (4, 4) && messages >= 4 && bytes >= 4 * 12, "{bytes}");
    let [bytes, messages, examined, received] = counted("SELECT * FROM orders WHERE qty > 6");
    assert!((received, examined) == (1, 4) && messages >= 4 && bytes < 40, "{bytes}");
    let [_, _, examined, received] = counted("SELECT name FROM items WHERE id IN (1, 2, 9)");
    assert_eq!((received, examined), (2, 0));
    let nothing: [u64; 4] = counted("SELECT 1");
    assert_eq!(nothing, [0; 4]);
    let sum = crossed(session);
    let global = ask(session, "SHOW GLOBAL STATUS LIKE 'Nines_data_bytes_received'");
    let global: u64 = global[0][1].as_deref().unwrap_or_default().parse().expect("a number");
    assert!(global >= sum[0], "{global}");
}

/// Bytes and messages received, rows examined and received, by this session.
pub(super) fn crossed(session: &mut Session) -> [u64; 4] {
    let rows = ask(session, "SHOW SESSION STATUS LIKE 'Nines_data_%'");
    let number = |row: &TextRow| row[1].as_deref().and_then(|text| text.parse().ok());
    let numbers: Vec<u64> = rows.iter().filter_map(number).collect();
    numbers.try_into().expect("four counters")
}

/// Money is moved between rows of all partitions; its sum never changes for who reads all rows.
#[test]
fn a_query_over_all_rows_sees_whole_transactions() {
    let server = Server::start(&[]);
    server.sql(
        "CREATE DATABASE d; CREATE TABLE d.accounts (id INT PRIMARY KEY, money INT); \
         SET GLOBAL nines_column_rows = 100",
    );
    let rows: Vec<String> = (0..500).map(|id| format!("({id}, 100)")).collect();
    server.sql(&format!("INSERT INTO d.accounts VALUES {}", rows.join(",")));
    let ends = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..2_u32)
        .map(|writer| {
            let (mut session, ends) = (session_of(&server), ends.clone());
            thread::spawn(move || {
                let mut at = writer * 7;
                while !ends.load(Ordering::Relaxed) {
                    let (from, to) = (at % 500, (at * 31 + 11) % 500);
                    at += 13;
                    // Whoever meets the other writer leaves it.
                    let moved = [
                        "BEGIN",
                        &format!("UPDATE accounts SET money = money - 5 WHERE id = {from}"),
                        &format!("UPDATE accounts SET money = money + 5 WHERE id = {to}"),
                        "COMMIT",
                    ]
                    .iter()
                    .all(|statement| session.query(statement).is_ok());
                    if !moved {
                        let _ = session.query("ROLLBACK");
                    }
                }
            })
        })
        .collect();
    let session = &mut session_of(&server);
    for at in 0..300 {
        let query = match at % 3 {
            0 => "SELECT SUM(money) FROM accounts",
            1 => "SELECT SUM(a.money) FROM accounts a JOIN accounts b USING (id)",
            _ => "SELECT SUM(money) FROM (SELECT money FROM accounts ORDER BY money) t",
        };
        let sum = ask(session, query);
        assert_eq!(sum[0][0].as_deref(), Some("50000"), "{query}, the {at}th time");
    }
    ends.store(true, Ordering::Relaxed);
    writers.into_iter().for_each(|writer| writer.join().expect("a writer does not panic"));
}

#[test]
fn subqueries_say_for_which_rows_they_run() {
    let server = Server::start(&[]);
    server.sql(
        "CREATE DATABASE d; CREATE TABLE d.l (id INT PRIMARY KEY, k INT, v INT); \
         CREATE TABLE d.r (id INT PRIMARY KEY, l INT NOT NULL, v INT, KEY by_l (l))",
    );
    let session = &mut session_of(&server);
    let rows: Vec<String> = (0..3_000).map(|id| format!("({id}, {}, 1)", id / 2)).collect();
    for table in ["l", "r"] {
        ask(session, &format!("INSERT INTO {table} VALUES {}", rows.join(",")));
    }
    let of = "(SELECT l FROM r WHERE v < 9)";
    let (in_few, not_in) = (
        format!("SELECT id FROM l WHERE id IN (3, 5) AND k IN {of}"),
        format!("SELECT id FROM l WHERE id BETWEEN 3 AND 40 AND k NOT IN {of}"),
    );
    let first = "SELECT l.id, r.v FROM l JOIN r ON r.l = l.k ORDER BY r.v LIMIT 3";
    for (statement, parts) in [
        (
            format!("EXPLAIN FORMAT=TREE {in_few}"),
            &[
                "Select #2 (subquery in condition; runs once unless few values are asked for)",
                "Select #2 for single values",
                "Index lookup on r using by_l (l=const)",
                "Select #2 for all rows at once",
                "keys of a join told: l",
            ][..],
        ),
        (
            format!("EXPLAIN ANALYZE {in_few}"),
            &[
                "Table scan on r, pushed condition: (r.v < 9) [data \
          nodes: all of p0-p3; rows] (never executed)",
                "loops=2",
            ],
        ),
        (format!("EXPLAIN ANALYZE {not_in}"), &["(never executed)", "read 38 rows"]),
        (
            "EXPLAIN FORMAT=TREE SELECT id FROM l WHERE k IN (SELECT MAX(l) FROM r GROUP BY v)"
                .into(),
            &["(subquery in condition; runs once: it is more than rows of tables)"],
        ),
        (
            format!("EXPLAIN FORMAT=TREE DELETE FROM l WHERE id IN {of}"),
            &["by PRIMARY for the values of a subquery while these are few"],
        ),
        (
            format!("EXPLAIN FORMAT=TREE {first}"),
            &["Sort of first rows: r.v, limit input [SQL node: columns]"],
        ),
    ] {
        let shown = tree(session, &statement).join("\n");
        for part in parts {
            assert!(shown.contains(part), "{part} in\n{statement}\n{shown}");
        }
    }
    // What a joined scan of the data nodes is asked for in an order. A table whose size is not
    // known is thought to be large.
    ask(session, "CREATE TABLE m (id INT PRIMARY KEY, v INT)");
    ask(session, "INSERT INTO m SELECT id, v FROM l");
    ask(session, "SET nines_pushed_join_rows = 0");
    let joined = "SELECT r.id, m.v FROM r JOIN m ON m.id = r.id WHERE r.l = 700 \
                  ORDER BY m.v, r.id DESC LIMIT 1";
    let shown = tree(session, &format!("EXPLAIN FORMAT=TREE {joined}")).join("\n");
    assert!(shown.contains("joined there"), "{shown}");
    assert!(
        shown.contains("Sort of first rows: m.v, r.id DESC, limit input [SQL node]"),
        "{shown}"
    );
    let rows = ask(session, joined);
    let ids: Vec<_> = rows.into_iter().map(|row| row[0].clone()).collect();
    assert_eq!(ids, [Some("1401".to_owned())]);
}
