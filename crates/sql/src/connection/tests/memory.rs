//! Whatever holds rows is refused too many, and gives back what it had.

use super::*;

/// Two hundred rows; two of them without a condition are forty thousand.
pub(super) const NUMBERS: &str =
    "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 200) ";

/// Statements that keep more than two megabytes, and what of.
const TOO_MUCH: [(&str, &str); 22] = [
    ("SELECT a.i, b.i FROM n a, n b ORDER BY b.i, a.i", "the rows of a sort"),
    ("SELECT a.i, b.i FROM n a, n b ORDER BY b.i + a.i, a.i LIMIT 100000", "the rows of a sort"),
    ("SELECT DISTINCT a.i, b.i FROM n a, n b LIMIT 39000, 1", "the rows of DISTINCT"),
    ("SELECT DISTINCT a.i, b.i FROM n a, n b ORDER BY a.i, b.i", "the rows of a sort"),
    ("SELECT a.i, b.i, COUNT(*) FROM n a, n b GROUP BY a.i, b.i", "groups"),
    ("SELECT a.i, COUNT(*) FROM n a, n b GROUP BY a.i, b.i WITH ROLLUP", "groups"),
    ("SELECT GROUP_CONCAT(a.i, b.i ORDER BY b.i) FROM n a, n b", "groups"),
    ("SELECT COUNT(DISTINCT a.i * 1000 + b.i) FROM n a, n b", "groups"),
    ("SELECT JSON_ARRAYAGG(a.i) FROM n a, n b", "groups"),
    ("SELECT JSON_OBJECTAGG(a.i, b.i) FROM n a, n b", "groups"),
    ("SELECT MAX(REPEAT('m', 9000)) FROM n a, n b GROUP BY a.i, b.i % 2", "groups"),
    (
        "SELECT COUNT(*) FROM (SELECT a.i AS x, b.i AS y FROM n a, n b LIMIT 100000) t",
        "the rows of a subquery",
    ),
    ("SELECT 0 IN (SELECT a.i * 1000 + b.i FROM n a, n b)", "the rows of a subquery"),
    ("SELECT a.i, b.i FROM n a, n b UNION SELECT 1, 2", "the rows of an operator"),
    ("SELECT a.i, b.i FROM n a, n b EXCEPT SELECT 1, 2", "the rows of an operator"),
    ("SELECT ROW_NUMBER() OVER (ORDER BY a.i), b.i FROM n a, n b", "the rows of window functions"),
    (
        "SELECT COUNT(*) FROM n c, LATERAL (SELECT a.i + c.i AS x FROM n a LIMIT 500) t",
        "the rows of a",
    ),
    (
        "SELECT * FROM n a LEFT JOIN (SELECT i, REPEAT('r', 20000) r FROM n LIMIT 300) b \
         ON a.i = b.i",
        "the rows of a subquery",
    ),
    ("SELECT REPEAT('x', 3000000)", "the values of an expression"),
    (
        "SELECT LENGTH(CONCAT(REPEAT('x', 1000000), REPEAT('y', 999999)))",
        "the values of an expression",
    ),
    ("SELECT REPEAT('a', 1500000), REPEAT('b', 1500000)", "the values of a row"),
    (
        "SELECT COUNT(*) FROM JSON_TABLE(CONCAT('[0', REPEAT(',0', 60000), ']'), '$[*]' \
         COLUMNS (x INT PATH '$')) t",
        "the rows of JSON_TABLE",
    ),
];

/// Statements that keep little, however many rows pass by.
const LITTLE: [&str; 6] = [
    "SELECT DISTINCT a.i % 9, b.i % 9 FROM n a, n b ORDER BY 1, 2",
    "SELECT COUNT(*), MAX(a.i + b.i) FROM n a, n b",
    "SELECT a.i, b.i FROM n a, n b ORDER BY b.i DESC, a.i LIMIT 5",
    "SELECT COUNT(*) FROM n a, n b WHERE LENGTH(REPEAT('x', 70000)) = a.i",
    "SELECT LENGTH(REPEAT('x', 1500000)) + LENGTH(REPEAT('y', 1500000))",
    "SELECT GROUP_CONCAT(a.i, b.i) FROM n a, n b",
];

pub(super) fn logged_in(shared: &World, number: u32) -> Client {
    let mut client = Client::connect(shared, number, UNIX);
    client.log_in(UTF8, b"root", b"", b"");
    assert_eq!(client.packet()[0], 0);
    client
}

pub(super) fn with_numbers(query: &str) -> String {
    format!("{NUMBERS}{query}")
}

#[test]
fn whatever_holds_rows_is_refused_too_many() {
    let shared = world();
    let memory = shared.directory.memory();
    let mut client = logged_in(&shared, 1);
    client.query("SET connection_memory_limit = 2097152");
    for (query, what) in TOO_MUCH {
        let answer = client.query(&with_numbers(query));
        let expected = format!("Memory capacity of 2097152 bytes for 'the connection, by {what}");
        let of_values = format!("bytes for '{what}' exceeded");
        let is_refused = answer.contains(&expected) || answer.contains(&of_values);
        assert!(is_refused, "{query}: {}", &answer[..answer.len().min(300)]);
        assert_eq!(memory.used(), 0, "{query}");
        let used = client.query("SHOW STATUS LIKE 'Nines_query_memory_used'");
        assert!(used.contains("\u{1}0"), "{query}: {used}");
    }
    assert_eq!(memory.refused(), 20, "values are refused by the expressions themselves");
    for query in LITTLE {
        let answer = client.query(&with_numbers(query));
        assert!(!answer.contains("#HY000"), "{query}: {answer}");
        assert_eq!(memory.used(), 0, "{query}");
    }
}

#[test]
fn a_recursive_table_without_end_is_refused() {
    let shared = world();
    let mut client = logged_in(&shared, 1);
    client.query("SET connection_memory_limit = 4194304, cte_max_recursion_depth = 4294967295");
    for union in ["UNION ALL", "UNION"] {
        let query = format!(
            "WITH RECURSIVE r AS (SELECT 1 AS i {union} SELECT i + 1 FROM r) SELECT * FROM r"
        );
        let answer = client.query(&query);
        assert!(answer.contains("4194304 bytes for 'the connection, by the rows"), "{answer}");
        assert_eq!(shared.directory.memory().used(), 0);
    }
    // One that fits has been at work before.
    assert!(shared.directory.memory().peak() > 3 << 20);
}

#[test]
fn user_variables_are_bounded_together() {
    let shared = world();
    let mut client = logged_in(&shared, 1);
    client.query("SET connection_memory_limit = 2097152");
    let answer = client.query("SET @a = REPEAT('a', 1500000)");
    assert!(!answer.contains("#HY000"), "{answer}");
    let answer = client.query("SET @b = REPEAT('b', 1500000)");
    assert!(answer.contains("bytes for 'user variables' exceeded"), "{answer}");
    client.query("SET @a = ''");
    let answer = client.query("SET @b = REPEAT('b', 1500000)");
    assert!(!answer.contains("#HY000"), "{answer}");
}

#[test]
fn the_budget_of_the_node_is_for_all_connections() {
    let shared = world();
    let memory = shared.directory.memory();
    let mut one = logged_in(&shared, 1);
    let mut other = logged_in(&shared, 2);
    // It stops where its client does not take the rows, with all of them sorted.
    let sorted = "SELECT a.i, b.i, REPEAT('x', 20) x FROM n a, n b WHERE b.i < 120 ORDER BY x, a.i";
    one.query(&with_numbers(sorted));
    let of_one = memory.used();
    assert!(of_one > 2 << 20, "{of_one} bytes");
    memory.configure(of_one + (1 << 20));
    let answer = other.query(&with_numbers(sorted));
    let expected = format!("{} bytes for 'all statements of the SQL node, by", of_one + (1 << 20));
    assert!(answer.contains(&expected), "{answer}");
    // A small one is served, and the first one's end gives back what it had.
    let answer = other.query(&with_numbers("SELECT i FROM n ORDER BY i DESC LIMIT 1"));
    assert!(answer.contains("200"), "{answer}");
    drop(one);
    assert_eq!(memory.used(), 0);
    memory.configure(memory.peak() + (1 << 20));
    let answer = other.query(&with_numbers(sorted));
    assert!(memory.used() > 2 << 20, "{}", &answer[..answer.len().min(300)]);
}

#[test]
fn the_budget_can_be_changed_and_is_shown() {
    let shared = world();
    shared.directory.memory().configure(64 << 20);
    let mut client = logged_in(&shared, 1);
    let shown = client.query("SELECT @@global_connection_memory_limit");
    assert!(shown.contains("67108864"), "{shown}");
    client.query("SET GLOBAL global_connection_memory_limit = 33554432");
    let shown = client.query("SHOW STATUS LIKE 'Nines_query_memory_limit'");
    assert!(shown.contains("33554432"), "{shown}");
    client.query("SET GLOBAL global_connection_memory_limit = DEFAULT");
    assert_eq!(shared.directory.memory().limit(), 64 << 20);
}

#[test]
fn a_killed_statement_gives_back_what_it_had() {
    let shared = world();
    let mut client = logged_in(&shared, 1);
    let sorted = "SELECT a.i, b.i FROM n a, n b ORDER BY b.i, a.i";
    client.exchange.borrow_mut().interrupt(crate::kernel::Interrupt::Killed);
    client.query(&with_numbers(sorted));
    assert!(shared.directory.memory().used() > 0);
    // It waits for its client; the next rows are not asked for.
    client.link.borrow_mut().killed = Some(Goodbye::Killed);
    client.run();
    assert!(client.over);
    drop(client);
    assert_eq!(shared.directory.memory().used(), 0);
}

#[test]
fn parameters_that_are_sent_are_held() {
    let shared = world();
    let memory = shared.directory.memory();
    memory.configure(2 << 20);
    let mut client = logged_in(&shared, 1);
    // COM_STMT_PREPARE, COM_STMT_SEND_LONG_DATA.
    assert_eq!(client.command(b"\x16SELECT LENGTH(?)")[0], 0);
    client.link.borrow_mut().output.clear();
    let mut long = vec![b'x'; 1 << 20];
    long.splice(0..0, *b"\x18\x01\0\0\0\0\0");
    client.sequence = 0;
    client.send(&long);
    assert!(memory.used() > 512 << 10, "{}", memory.used());
    for _ in 0..2 {
        client.sequence = 0;
        client.send(&long);
    }
    assert_eq!(memory.refused(), 1);
    // COM_STMT_RESET.
    client.command(b"\x1A\x01\0\0\0");
    assert_eq!(memory.used(), 0);
}
