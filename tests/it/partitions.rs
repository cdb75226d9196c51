//! Conditions that fix the distribution key: fewer partitions are asked, and the answers are those
//! of a table with one partition.
//!
//! # Owns
//! Partition pruning with real processes: the answers of generated conditions, the messages that
//! statements take, and what EXPLAIN says.

use tests::{Server, Session, TextRow, number};

/// SplitMix64.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }
}

fn ask(session: &mut Session, statement: &str) -> Vec<TextRow> {
    session.query(statement).unwrap_or_else(|error| panic!("{statement}: {error}"))
}

/// A kind of distribution key: the type of its column, stored values, and what they are compared
/// with: values that are equal to stored ones in other words, and to none.
struct Kind {
    name: &'static str,
    definition: &'static str,
    stored: &'static [&'static str],
    others: &'static [&'static str],
}

const KINDS: &[Kind] = &[
    Kind {
        name: "i",
        definition: "INT",
        stored: &["-2147483648", "-3", "0", "1", "2", "3", "4", "5", "6", "7"],
        others: &[
            "'1'",
            "'2x'",
            "' 3'",
            "4.0",
            "4.5",
            "5e0",
            "1+1",
            "NULL",
            "9999999999",
            "'abc'",
            "TRUE",
            "(SELECT 6)",
            "@one",
        ],
    },
    Kind {
        name: "u",
        definition: "BIGINT UNSIGNED",
        stored: &["0", "1", "9007199254740993", "18446744073709551615", "12", "13", "14"],
        others: &["-1", "9007199254740992e0", "'18446744073709551615'", "1.0", "NULL", "@one"],
    },
    Kind {
        name: "c",
        definition: "VARCHAR(20) COLLATE utf8mb4_0900_ai_ci",
        stored: &["'apple'", "'pear'", "'straße'", "''", "'1'", "'01'", "'b '", "'x'"],
        others: &[
            "'APPLE'",
            "'Péar'",
            "'STRASSE'",
            "1",
            "'b'",
            "'apple ' COLLATE utf8mb4_bin",
            "NULL",
            "_latin1'PEAR'",
            "'a text that is longer than the column is'",
            "BINARY 'apple'",
        ],
    },
    Kind {
        name: "p",
        definition: "CHAR(10) COLLATE utf8mb4_general_ci",
        stored: &["'apple'", "'Pear'", "''", "'q'", "'r'", "'s'"],
        others: &["'APPLE  '", "'pear'", "' '", "'Q' COLLATE utf8mb4_bin", "0", "NULL"],
    },
    Kind {
        name: "d",
        definition: "DATE",
        stored: &["'2024-02-29'", "'1999-12-31'", "'2000-01-01'", "'2001-01-01'", "'2002-02-02'"],
        others: &[
            "20240229",
            "'2024-2-29'",
            "'1999-12-31 00:00:00'",
            "'1999-12-31 00:00:01'",
            "DATE'2000-01-01'",
            "TIMESTAMP'2001-01-01 00:00:00'",
            "NULL",
        ],
    },
    Kind {
        name: "n",
        definition: "DECIMAL(8,2)",
        stored: &["0", "1.50", "-2.25", "100000.01", "3", "4"],
        others: &["1.5", "1.500", "'1.50'", "15e-1", "1.505", "-2.25e0", "0.000", "NULL", "-0.0"],
    },
    Kind {
        name: "f",
        definition: "DOUBLE",
        stored: &["0", "-0.5", "1.5", "3", "1e100", "7"],
        others: &["-0e0", "0.0", "'1.5'", "3", "-0.50", "NULL", "'-0'"],
    },
    Kind {
        name: "s",
        definition: "TIMESTAMP",
        stored: &["'2024-02-29 10:00:00'", "'2001-01-01 00:00:00'", "'2010-06-01 12:30:00'"],
        others: &["20010101000000", "'2010-06-01 12:30'", "DATE'2001-01-01'", "NULL"],
    },
    Kind {
        name: "e",
        definition: "ENUM('b','a','c')",
        stored: &["'a'", "'b'", "'c'"],
        others: &["1", "'A'", "'z'", "NULL", "'2'"],
    },
];

impl Kind {
    fn value(&self, draw: &mut Draw) -> &'static str {
        match draw.below(3) {
            0 => draw.one(self.others),
            _ => draw.one(self.stored),
        }
    }

    /// The table that is spread by `a`, its twin of one partition, and their keys.
    fn tables(&self) -> [(String, String); 2] {
        let key = match self.name {
            "u" | "e" => "PRIMARY KEY (a, b) USING HASH",
            _ => "PRIMARY KEY (a, b)",
        };
        ["", "_one"].map(|suffix| {
            let name = format!("t_{}{suffix}", self.name);
            let partitions = if suffix.is_empty() { 13 } else { 1 };
            let definition = format!(
                "CREATE TABLE {name} (b INT, a {} NOT NULL, v INT, w VARCHAR(10), {key}, \
                 KEY (v, b), UNIQUE KEY (w, a)) PARTITION BY KEY (a) PARTITIONS {partitions}",
                self.definition
            );
            (name, definition)
        })
    }
}

/// A condition that most often says something of `a`. `t.` stands before columns.
fn condition(draw: &mut Draw, kind: &Kind, depth: u32) -> String {
    let value = |draw: &mut Draw| kind.value(draw);
    match draw.below(if depth == 0 { 11 } else { 8 }) {
        0..=2 => format!("t.a = {}", value(draw)),
        3 => format!("{} = t.a", value(draw)),
        4 => {
            let count = 1 + draw.below(5);
            let list: Vec<&str> = (0..count).map(|_| value(draw)).collect();
            let not = if draw.below(6) == 0 { "NOT " } else { "" };
            format!("t.a {not}IN ({})", list.join(", "))
        }
        5 => format!("t.a <=> {}", value(draw)),
        6 => format!("t.b {} {}", draw.one(&["<", ">=", "=", "<>"]), draw.below(12)),
        7 => match draw.below(4) {
            0 => format!("t.v = {}", draw.below(4)),
            1 => "t.w IS NULL".to_owned(),
            2 => format!("t.a >= {}", value(draw)),
            _ => format!("t.a BETWEEN {0} AND {0}", value(draw)),
        },
        8 => format!(
            "({} OR {})",
            conditions(draw, kind, depth + 1),
            conditions(draw, kind, depth + 1)
        ),
        9 => format!(
            "(t.a, t.b) IN (({}, {}), ({}, {}))",
            value(draw),
            draw.below(12),
            value(draw),
            draw.below(12)
        ),
        _ => format!("NOT ({})", condition(draw, kind, depth + 1)),
    }
}

fn conditions(draw: &mut Draw, kind: &Kind, depth: u32) -> String {
    let count = 1 + draw.below(3);
    let all: Vec<String> = (0..count).map(|_| condition(draw, kind, depth)).collect();
    format!("({})", all.join(" AND "))
}

/// A query over a table named `$T`; its rows come in a certain order.
fn query(draw: &mut Draw, kind: &Kind) -> String {
    let (holds, name) = (conditions(draw, kind, 0), kind.name);
    let (probes, tied) = ("FROM probes k", format!("t.a = k.{name} AND {holds}"));
    match draw.below(8) {
        0 => format!("SELECT COUNT(*), SUM(t.v), MIN(t.b), MAX(t.b) FROM $T t WHERE {holds}"),
        1 => format!("SELECT t.b, t.v FROM $T t WHERE {holds} ORDER BY t.b, t.v LIMIT 4"),
        2 => format!("SELECT t.v, COUNT(*) FROM $T t WHERE {holds} GROUP BY t.v ORDER BY t.v"),
        3 => format!(
            "SELECT k.id, COUNT(t.b), SUM(t.v) {probes} LEFT JOIN $T t ON {tied} \
             GROUP BY k.id ORDER BY k.id"
        ),
        4 => format!(
            "SELECT k.id, t.b, t.v {probes} STRAIGHT_JOIN $T t WHERE {tied} \
             ORDER BY k.id, t.b, t.v, HEX(t.a)"
        ),
        5 => format!(
            "SELECT k.id {probes} WHERE EXISTS (SELECT 1 FROM $T t WHERE {tied}) ORDER BY k.id"
        ),
        _ => format!("SELECT t.b, HEX(t.a), t.v, t.w FROM $T t WHERE {holds} ORDER BY 1, 2, 3, 4"),
    }
}

/// What a statement answers, or the number of its error.
fn answer(session: &mut Session, statement: &str) -> Result<Vec<TextRow>, String> {
    session.query(statement).map_err(|error| error.to_string())
}

/// A table that is spread over partitions, its twin that is not, and what they are compared by.
struct Twins<'s> {
    session: &'s mut Session,
    kind: &'static Kind,
    pruned: String,
    whole: String,
}

impl Twins<'_> {
    fn fill(&mut self, draw: &mut Draw) {
        let [(pruned, define), (whole, define_whole)] = self.kind.tables();
        ask(self.session, &define);
        ask(self.session, &define_whole);
        for value in self.kind.stored {
            for b in 0..12 {
                let row = format!("({b}, {value}, {}, 'w{b}')", draw.below(4));
                ask(self.session, &format!("INSERT IGNORE INTO {pruned} VALUES {row}"));
            }
        }
        ask(self.session, &format!("UPDATE {pruned} SET w = NULL WHERE b > 9"));
        ask(self.session, &format!("INSERT INTO {whole} SELECT * FROM {pruned}"));
        (self.pruned, self.whole) = (pruned, whole);
    }

    /// What both answer, which must be the same.
    fn both(&mut self, statement: &str) -> Result<Vec<TextRow>, String> {
        let of = |table: &str| statement.replace("$T", table);
        let found = answer(self.session, &of(&self.pruned));
        assert_eq!(found, answer(self.session, &of(&self.whole)), "{}", of(&self.pruned));
        found
    }

    /// Whether EXPLAIN says that fewer partitions are asked.
    fn is_pruned(&mut self, query: &str) -> bool {
        let explain = format!("EXPLAIN {}", query.replace("$T", &self.pruned));
        let asked =
            |line: &TextRow| line[2].as_deref() == Some("t") && told_partitions(line, 13) < 13;
        answer(self.session, &explain).is_ok_and(|lines| lines.iter().any(asked))
    }

    /// A prepared statement, whose parameters are known when it runs.
    fn prepared(&mut self, draw: &mut Draw) {
        let (value, b) = (self.kind.value(draw), draw.below(12));
        ask(self.session, &format!("SET @a = {value}, @b = {b}"));
        let mut found = Vec::new();
        for table in [&self.pruned, &self.whole] {
            let text = "SELECT b, HEX(a), v FROM $T WHERE a = ? AND b <= ? \
                        UNION ALL SELECT b, HEX(a), v FROM $T WHERE a IN (?, ?) AND b > ? \
                        ORDER BY 1, 2, 3";
            ask(self.session, &format!("PREPARE p FROM '{}'", text.replace("$T", table)));
            found.push(answer(self.session, "EXECUTE p USING @a, @b, @a, @one, @b"));
        }
        assert_eq!(found[0], found[1], "{} {value} {b}", self.kind.name);
    }

    /// Reads: also in a transaction with changes of its own, and with locks.
    fn read(&mut self, draw: &mut Draw) {
        let (mut some, mut fewer) = (0, 0);
        for round in 0..90 {
            match round {
                60 => {
                    ask(self.session, "BEGIN");
                    let changed = self.both("UPDATE $T SET v = v + 1 WHERE b < 6");
                    assert!(changed.is_ok(), "{changed:?}");
                }
                75 => drop(ask(self.session, "ROLLBACK")),
                _ => {}
            }
            let mut query = query(draw, self.kind);
            if round >= 75 && !query.contains("GROUP") && !query.contains("COUNT") {
                query.push_str(" FOR UPDATE");
            }
            some += usize::from(self.both(&query).is_ok_and(|rows| rows.len() > 1));
            fewer += usize::from(self.is_pruned(&query));
            if round % 3 == 0 {
                self.prepared(draw);
            }
        }
        let name = self.kind.name;
        assert!(some > 30 && (fewer > 25 || name == "e"), "{name}: {some}, {fewer}");
    }

    fn change(&mut self, draw: &mut Draw) {
        for round in 0..30 {
            let holds = conditions(draw, self.kind, 0);
            let change = match draw.below(3) {
                0 => "DELETE t FROM $T t WHERE",
                1 => "UPDATE $T t SET t.v = t.v + 1, t.w = CONCAT('x', t.b) WHERE",
                _ => "UPDATE probes k JOIN $T t ON t.b = k.id SET t.v = 9 WHERE",
            };
            ask(self.session, "BEGIN");
            let _ = self.both(&format!("{change} {holds}"));
            let left = self.both("SELECT b, HEX(a), v, w FROM $T ORDER BY 1, 2, 3, 4");
            assert!(left.is_ok(), "{left:?}");
            ask(self.session, if round % 5 == 0 { "COMMIT" } else { "ROLLBACK" });
        }
    }
}

#[test]
fn pruned_reads_and_changes_are_those_of_a_table_with_one_partition() {
    let server = Server::start(&["--workers=2"]);
    let session = &mut server.session().unwrap_or_else(|error| panic!("{error}"));
    let mut draw = Draw(26);
    for statement in ["CREATE DATABASE d", "USE d", "SET sql_mode = ''", "SET @one = 1"] {
        ask(session, statement);
    }
    let columns: Vec<String> =
        KINDS.iter().map(|kind| format!("{} {} NULL", kind.name, kind.definition)).collect();
    ask(session, &format!("CREATE TABLE probes (id INT PRIMARY KEY, {})", columns.join(", ")));
    for id in 0..12 {
        let values: Vec<&str> = KINDS.iter().map(|kind| draw.one(kind.stored)).collect();
        ask(session, &format!("INSERT INTO probes VALUES ({id}, {})", values.join(", ")));
    }
    for kind in KINDS {
        let (pruned, whole) = (String::new(), String::new());
        let mut twins = Twins { session: &mut *session, kind, pruned, whole };
        twins.fill(&mut draw);
        twins.read(&mut draw);
        twins.change(&mut draw);
    }
}

/// How many partitions a line of EXPLAIN names, of so many.
fn told_partitions(line: &TextRow, all: usize) -> usize {
    match line[3].as_deref() {
        None | Some("") => 0,
        Some(of) if of == format!("p0 to p{}", all - 1) => all,
        Some(of) => of.split(',').count(),
    }
}

/// How many messages of data nodes answered a statement.
fn messages(session: &mut Session, statement: &str) -> i64 {
    let count = |session: &mut Session| {
        let row = ask(session, "SHOW SESSION STATUS LIKE 'Nines_data_messages_received'");
        row[0][1].as_ref().and_then(|count| count.parse().ok()).unwrap_or(0)
    };
    let before: i64 = count(session);
    ask(session, statement);
    count(session) - before
}

/// Statements, and how many of 16 partitions they ask.
const ASKED: &[(&str, i64)] = &[
    ("SELECT * FROM t WHERE a = 1", 1),
    ("SELECT * FROM t WHERE a = '1'", 1),
    ("SELECT * FROM t WHERE a = 1 AND b < 5", 1),
    ("SELECT * FROM t WHERE a = 1 AND b BETWEEN 2 AND 7 AND d = 0", 1),
    ("SELECT * FROM t WHERE a = 1 ORDER BY b LIMIT 3", 1),
    ("SELECT * FROM t WHERE a = 1 ORDER BY b DESC LIMIT 3", 1),
    ("SELECT * FROM t FORCE INDEX (c) WHERE a = 1 AND c = 3", 1),
    ("SELECT * FROM t WHERE a = 1 AND d = 0", 1),
    ("SELECT * FROM t WHERE a = 1 OR a = 1", 1),
    ("SELECT * FROM t WHERE (a = 1 AND b > 3) OR (a = 1 AND b < 2)", 1),
    ("SELECT SUM(b), COUNT(*) FROM t WHERE a = 1 AND d = 0", 1),
    ("SELECT MIN(b) FROM t WHERE a = 1", 1),
    ("SELECT MAX(b) FROM t WHERE a = 1", 1),
    ("SELECT b, COUNT(*) FROM t WHERE a = 1 GROUP BY b", 1),
    ("SELECT * FROM h WHERE a = 1", 1),
    ("SELECT * FROM h WHERE a = 1 AND b > 3", 1),
    ("SELECT * FROM t WHERE a = 1 AND b > 3 FOR UPDATE", 1),
    ("UPDATE t SET d = 1 WHERE a = 1 AND b > 7", 1),
    ("DELETE FROM t WHERE a = 9 AND b > 7", 1),
    ("DELETE FROM h WHERE a = 9", 1),
    ("SELECT * FROM t WHERE a = 1 AND a = 2 AND b > 1", 0),
    ("SELECT * FROM t WHERE a = NULL", 0),
    // None of its columns alone says where a row is.
    ("SELECT * FROM w WHERE a = 1", 16),
    ("SELECT * FROM w WHERE a = 1 AND (b = 2 OR b = 2)", 1),
    ("SELECT * FROM t WHERE b = 1", 16),
    ("SELECT * FROM t WHERE a > 1 AND a < 3", 16),
];

#[test]
fn statements_ask_the_partitions_of_their_distribution_keys() {
    let server = Server::start(&["--workers=2"]);
    let session = &mut server.session().unwrap_or_else(|error| panic!("{error}"));
    for statement in [
        "CREATE DATABASE d",
        "USE d",
        "CREATE TABLE t (a INT, b INT, c INT, d INT, PRIMARY KEY (a, b), KEY (c)) \
         PARTITION BY KEY (a) PARTITIONS 16",
        "CREATE TABLE h (a INT, b INT, PRIMARY KEY (a, b) USING HASH) \
         PARTITION BY KEY (a) PARTITIONS 16",
        "CREATE TABLE k (id INT PRIMARY KEY, a INT)",
        "CREATE TABLE w (a INT, b INT, PRIMARY KEY (a, b)) PARTITION BY KEY () PARTITIONS 16",
        "INSERT INTO k VALUES (1, 5)",
    ] {
        ask(session, statement);
    }
    for a in 0..10 {
        for b in 0..10 {
            ask(session, &format!("INSERT INTO t VALUES ({a}, {b}, {b}, 0)"));
            ask(session, &format!("INSERT INTO h VALUES ({a}, {b})"));
            ask(session, &format!("INSERT INTO w VALUES ({a}, {b})"));
        }
    }
    // Sizes are known from here on.
    ask(session, "SELECT COUNT(*) FROM t JOIN k USING (a) JOIN h USING (a) JOIN w USING (a)");
    for (statement, expected) in ASKED.iter().copied() {
        let asked = messages(session, statement);
        let lines = ask(session, &format!("EXPLAIN {statement}"));
        let in_explain = told_partitions(&lines[0], 16);
        let asks_again = statement.starts_with("UPDATE") || statement.starts_with("DELETE");
        match expected {
            0 => assert!(asked <= 1, "{statement}: {asked}"),
            // Rows that are locked come a few at a time.
            _ if asks_again => assert!(asked < 8, "{statement}: {asked}"),
            _ => assert_eq!(asked, expected, "{statement}: {lines:?}"),
        }
        assert!(expected == 0 || in_explain as i64 == expected, "{statement}: {lines:?}");
    }
    // A text that is no number is compared as one: that is not what keys are made of.
    assert_eq!(messages(session, "SELECT * FROM t WHERE a = 'one'"), 16);
    // A list asks the partitions of its values, each once.
    let lines = ask(session, "EXPLAIN SELECT * FROM t WHERE a IN (1, 2, 3)");
    let listed = told_partitions(&lines[0], 16) as i64;
    assert!((1..=3).contains(&listed), "{lines:?}");
    assert_eq!(messages(session, "SELECT * FROM t WHERE a IN (1, 2, 3)"), 3);
    assert_eq!(messages(session, "SELECT * FROM h WHERE a IN (1, 2, 3)"), listed);
    // Values that are known when a statement runs.
    ask(session, "PREPARE p FROM 'SELECT * FROM t WHERE a = ? AND b > ?'");
    ask(session, "SET @a = 4, @b = 2");
    assert_eq!(messages(session, "EXECUTE p USING @a, @b"), 1);
    // A join that looks rows up by the distribution key.
    let joined = "SELECT * FROM k STRAIGHT_JOIN t ON t.a = k.a WHERE k.id = 1";
    // The row of k, and those of one partition of t.
    let asked = messages(session, joined);
    assert!((1..=2).contains(&asked), "{asked}");
    assert_eq!(number(session, "SELECT COUNT(*) FROM k STRAIGHT_JOIN t ON t.a = k.a"), 10);
    let lines = ask(session, &format!("EXPLAIN {joined}"));
    assert_eq!(told_partitions(&lines[1], 16), 1, "{lines:?}");
}
