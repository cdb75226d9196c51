//! For how long one statement keeps the worker from the others, whatever it is and however large.
//!
//! The server counts the steps of its workers that take long, in processor time: a machine that is
//! busy with something else does not lengthen them. `NINES_SLICES=name` prints what one statement
//! does, `NINES_SLICES=all` what each does.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use tests::{Server, all, number};

/// Most processor time of a step: others wait for a step that runs. Twice what is wanted, as a busy
/// machine has its caches full of something else.
const STEP_MAX: Duration = Duration::from_millis(200);

/// A statement, and what is to be there before.
struct Case {
    name: &'static str,
    before: Vec<String>,
    statement: String,
    how: How,
    /// It is known to keep the worker for longer where texts are large: what is in it has no look
    /// (decision 43).
    is_known: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    /// As a text.
    Text,
    /// It is prepared, and not run.
    Prepared,
    /// It is refused.
    Refused,
}

fn case(name: &'static str, statement: impl Into<String>) -> Case {
    Case { name, before: Vec::new(), statement: statement.into(), how: How::Text, is_known: false }
}

impl Case {
    fn after(mut self, before: impl Into<String>) -> Self {
        self.before.push(before.into());
        self
    }

    fn prepared(self) -> Self {
        Self { how: How::Prepared, ..self }
    }

    fn refused(self) -> Self {
        Self { how: How::Refused, ..self }
    }

    fn known(self) -> Self {
        Self { is_known: true, ..self }
    }
}

fn listed(count: usize, separator: &str, part: impl Fn(usize) -> String) -> String {
    (0..count).map(part).collect::<Vec<_>>().join(separator)
}

/// Conditions and other trees with a hundred thousand parts.
#[expect(clippy::too_many_lines, reason = "a list of statements")]
fn trees() -> Vec<Case> {
    let pairs = listed(50_000, ",", |at| format!("({},{at})", at + 10_000));
    let values = listed(200_000, ",", |at| (at + 10_000).to_string());
    let strings = listed(200_000, ",", |at| format!("'v{at}'"));
    let mixed = listed(100_000, ",", |at| format!("{at},'{at}',{at}.5"));
    let ands = vec!["id > 0"; 100_000].join(" AND ");
    let ors = listed(100_000, " OR ", |at| format!("n = {}", at + 10_000));
    let whens = listed(50_000, " ", |at| format!("WHEN n = {at} THEN {at}"));
    let columns = listed(4_000, ",", |at| format!("n + {at} c{at}"));
    let unions = listed(2_000, " UNION ALL ", |at| format!("SELECT {at} x"));
    let keys = listed(100_000, ",", |at| at.to_string());
    let ranges = listed(50_000, " OR ", |at| format!("id BETWEEN {} AND {}", at * 3, at * 3 + 1));
    let sum = |many| vec!["1"; many].join("+");
    let likes = listed(100, " OR ", |at| format!("word LIKE '%{at}q%'"));
    let nested = format!("{}word{}", "REPLACE(".repeat(60), ",'w','w')".repeat(60));
    vec![
        case(
            "LIKE words",
            format!(
                "SELECT COUNT(*) FROM d.t a, d.t b WHERE b.id < 3 AND (a.n + b.n < 0 OR {})",
                likes.replace("word", "a.word")
            ),
        ),
        case("nested calls", format!("SELECT COUNT(*) FROM d.t WHERE LENGTH({nested}) < n")),
        case("pairs", format!("SELECT COUNT(*) FROM d.t WHERE (id, n) IN ({pairs}) AND id < 50")),
        case("values", format!("SELECT COUNT(*) FROM d.t WHERE n IN ({values}) AND id < 100")),
        case("strings", format!("SELECT COUNT(*) FROM d.t WHERE word IN ({strings})")),
        case("mixed", format!("SELECT COUNT(*) FROM d.t WHERE n IN ({mixed})")),
        case("keys", format!("SELECT COUNT(*) FROM d.t WHERE id IN ({keys})")),
        case("ranges", format!("SELECT COUNT(*) FROM d.t WHERE id < 300 AND ({ranges})")),
        case("ands", format!("SELECT COUNT(*) FROM d.t WHERE id < 100 AND {ands}")),
        case("ors", format!("SELECT COUNT(*) FROM d.t WHERE id < 200 AND ({ors})")),
        case("case", format!("SELECT MAX(CASE {whens} END) FROM d.t WHERE id < 10")),
        case("columns", format!("SELECT {columns} FROM d.t WHERE id < 10")),
        case("unions", format!("SELECT COUNT(*) FROM ({unions}) u")),
        case(
            "calls",
            format!("SELECT CONCAT({}) FROM d.t WHERE id < 10", vec!["n"; 100_000].join(",")),
        ),
        case("do", format!("DO {}", vec!["1+1"; 300_000].join(","))),
        case("sums", format!("SELECT {}", vec![sum(50); 4_000].join(","))),
        case("greatest", format!("SELECT GREATEST({values})")),
        case("unknown", format!("SELECT COUNT(*) FROM d.t WHERE {ands} AND nosuch")).refused(),
        case("broken", format!("SELECT COUNT(*) FROM d.t WHERE {ands} AND (")).refused(),
        case("explain", format!("EXPLAIN SELECT COUNT(*) FROM d.t WHERE n IN ({values})")),
        case("update", format!("UPDATE d.t SET n = n WHERE n IN ({values})")),
        case("delete", format!("DELETE FROM d.t WHERE n IN ({values})")),
        case("prepared conditions", format!("SELECT COUNT(*) FROM d.t WHERE {ands}")).prepared(),
        case("prepared values", format!("SELECT COUNT(*) FROM d.t WHERE n IN ({values})"))
            .prepared(),
        case("PREPARE", "PREPARE p FROM @text")
            .after(format!("SET @text = 'SELECT COUNT(*) FROM d.t WHERE {ands}'")),
        case("EXECUTE", "EXECUTE p")
            .after(format!("SET @text = 'SELECT COUNT(*) FROM d.t WHERE n IN ({values})'"))
            .after("PREPARE p FROM @text"),
        case("DEALLOCATE", "DEALLOCATE PREPARE p")
            .after(format!("SET @text = 'SELECT COUNT(*) FROM d.t WHERE n IN ({values})'"))
            .after("PREPARE p FROM @text"),
        case("view", format!("CREATE VIEW d.v AS SELECT n FROM d.t WHERE n IN ({keys})")),
        case(
            "row literals",
            format!(
                "INSERT INTO d.w VALUES {}",
                listed(250_000, ",", |at| format!("({at},{at},'a{at}',NULL)"))
            ),
        )
        .after("CREATE TABLE d.w (id INT, n INT, word VARCHAR(20), m INT)"),
        case(
            "row expressions",
            format!(
                "INSERT INTO d.w VALUES {}",
                listed(200_000, ",", |at| format!("({at}+0,{at},'a{at}',ABS({at}))"))
            ),
        )
        .after("CREATE TABLE d.w (id INT, n INT, word VARCHAR(20), m INT)"),
        case(
            "VALUES",
            format!(
                "SELECT COUNT(*) FROM (VALUES {}) v",
                listed(100_000, ",", |at| format!("ROW({at},'{at}')"))
            ),
        ),
        case(
            "table",
            format!("CREATE TABLE d.wide ({})", listed(4_000, ",", |at| format!("c{at} INT"))),
        ),
        case(
            "partitions",
            format!("CREATE TABLE d.e (a ENUM({}))", listed(60_000, ",", |at| format!("'{at}'"))),
        ),
    ]
}

/// So much of what it would be: a part of it, unless all is to be seen.
fn part_of(whole: usize) -> usize {
    if std::env::var("NINES_SLICES").is_ok() { whole } else { whole / 5 }
}

/// Texts of tens of megabytes.
#[expect(clippy::too_many_lines, reason = "a list of statements")]
fn texts() -> Vec<Case> {
    let long = |text: &str| text.repeat(part_of(30 << 20) / text.len());
    let repeated = format!("REPEAT('abcdefghi ', {})", part_of(5_000_000));
    let literal = long("x");
    let value = |name, expression: &str| {
        case(name, format!("SELECT LENGTH({expression})")).after(format!("SET @x = {repeated}"))
    };
    let item = r#"{"a": [1, 2.5, "text", null, true]},"#;
    let items = part_of(800_000);
    let document = format!("SET @j = CONCAT('[', REPEAT('{item}', {items}), '1]')");
    let document = document.as_str();
    let json =
        |name, expression: &str| case(name, format!("SELECT LENGTH({expression})")).after(document);
    vec![
        case("literal", format!("SELECT LENGTH('{literal}')")),
        case("literal unicode", format!("SELECT LENGTH('{}')", long("ä€"))),
        case("literal escapes", format!("SELECT LENGTH('{}')", long("\\'"))),
        case("literal hex", format!("SELECT LENGTH(x'{}')", "4".repeat(part_of(30 << 20)))),
        case("comment", format!("SELECT /* {literal} */ 1")),
        case("spaces", format!("SELECT {} 1", long(" "))),
        case("names", format!("SELECT `{literal}` FROM d.t")).refused().known(),
        case("brackets", format!("SELECT {}", long("("))).refused(),
        case("garbage", long("\u{1}")).refused(),
        case("digits", format!("SELECT {}", long("1"))),
        case("stored literal", format!("INSERT INTO d.l VALUES ('{literal}')"))
            .after("CREATE TABLE d.l (a LONGTEXT)"),
        case("stored value", "SELECT LENGTH(a), MD5(a) FROM d.l")
            .after("CREATE TABLE d.l (a LONGTEXT)")
            .after(format!("INSERT INTO d.l SELECT LEFT({repeated}, 30000000)")),
        case("sent value", "SELECT @x").after(format!("SET @x = {repeated}")),
        case("variable", "SET @y = @x").after(format!("SET @x = {repeated}")),
        case("repeat", format!("SELECT LENGTH({repeated})")),
        value("UPPER", "UPPER(@x)"),
        value("REVERSE", "REVERSE(@x)").known(),
        value("CONCAT", "CONCAT(@x, 'a')"),
        value("REPLACE", "REPLACE(@x, 'a', 'b')"),
        value("SUBSTRING_INDEX", "SUBSTRING_INDEX(@x, 'c', -100)").known(),
        value("LOCATE", "LOCATE('none', @x)").known(),
        value("LIKE", "@x LIKE '%none%'").known(),
        value("LIKE many", "@x LIKE '%i%d%none%'").known(),
        value("equal", "@x = CONCAT(@x, '')"),
        value("less", "CONCAT(@x, 'a') < CONCAT(@x, 'b') COLLATE utf8mb4_0900_ai_ci"),
        value("MD5", "MD5(@x)"),
        value("SHA2", "SHA2(@x, 512)").known(),
        value("CRC32", "CRC32(@x)").known(),
        value("HEX", "HEX(LEFT(@x, 30000000))").known(),
        value("UNHEX", "UNHEX(REPEAT('41', 3000000))").known(),
        value("TO_BASE64", "TO_BASE64(LEFT(@x, 40000000))").known(),
        value("FROM_BASE64", "FROM_BASE64(TO_BASE64(LEFT(@x, 30000000)))").known(),
        value("COMPRESS", "COMPRESS(@x)"),
        value("UNCOMPRESS", "UNCOMPRESS(COMPRESS(@x))").known(),
        value("AES", "AES_DECRYPT(AES_ENCRYPT(@x, 'k'), 'k')").known(),
        value("CONVERT", "CONVERT(@x USING latin1)").known(),
        value("CHAR_LENGTH", "CHAR_LENGTH(@x)").known(),
        value("QUOTE", "QUOTE(@x)").known(),
        value("TRIM", "TRIM(BOTH 'a' FROM @x)").known(),
        value("SOUNDEX", "SOUNDEX(@x)").known(),
        value("FIND_IN_SET", "FIND_IN_SET('none', @x)").known(),
        value("LPAD", "LPAD('a', 10000000, 'bcd')").known(),
        value("WEIGHT_STRING", "WEIGHT_STRING(LEFT(@x, 10000000))").known(),
        value("INSERT", "INSERT(@x, 4000000, 5, 'abc')").known(),
        value("CAST", "CAST(@x AS BINARY)").known(),
        value("REGEXP", "@x REGEXP 'none$'").known(),
        value("REGEXP classes", "@x REGEXP '[a-z]+ [0-9]+'").known(),
        value("REGEXP_REPLACE", "REGEXP_REPLACE(@x, 'a.c', 'b')").known(),
        value("REGEXP_INSTR", "REGEXP_INSTR(@x, '[a-z]+', 1, 200000)").known(),
        value("REGEXP nested", "@x REGEXP '((a|b)*c?d+)*none'").known(),
        json("JSON_VALID", "JSON_VALID(@j)"),
        json("JSON cast", "CAST(@j AS JSON)"),
        json("JSON_EXTRACT", "JSON_EXTRACT(@j, '$[70000].a[2]')").known(),
        json("JSON paths", "JSON_EXTRACT(@j, '$[*].a[2]')").known(),
        json("JSON_LENGTH", "JSON_LENGTH(@j)").known(),
        json("JSON_PRETTY", "JSON_PRETTY(@j)").known(),
        json("JSON_SEARCH", "JSON_SEARCH(@j, 'all', 'none')").known(),
        json("JSON_SET", "JSON_SET(@j, '$[5]', 1)"),
        json("JSON_CONTAINS", "JSON_CONTAINS(@j, '17')").known(),
        json("JSON_UNQUOTE", "JSON_UNQUOTE(JSON_QUOTE(@j))").known(),
        json("JSON_MERGE", "JSON_MERGE_PRESERVE(@j, '[1]')"),
        case(
            "JSON_TABLE",
            "SELECT COUNT(*), MAX(b) FROM JSON_TABLE(@j, '$[*]' COLUMNS (b TEXT PATH '$.a[2]')) x",
        )
        .after(document),
        case("JSON stored", "INSERT INTO d.j SELECT @j")
            .after("CREATE TABLE d.j (a JSON)")
            .after(document),
        case("deep JSON", format!("SELECT JSON_VALID('{}')", "[".repeat(part_of(10 << 20)))),
    ]
}

/// Many rows in the SQL node.
fn rows() -> Vec<Case> {
    let many = format!(
        "(SELECT a.id * 4000 + b.id i, CONCAT(a.word, b.id) w FROM d.t a, d.t b \
         WHERE a.id <= {}) m",
        part_of(100)
    );
    let over = |name, query: &str| case(name, query.replace("MANY", &many));
    let wide = listed(4_000, ",", |at| format!("REPEAT('x', 2000) c{at}"));
    let long = "SET group_concat_max_len = 60000000";
    let stored = "CREATE TABLE d.w (i INT PRIMARY KEY, w VARCHAR(300))";
    let some = format!("INSERT INTO d.w SELECT i, w FROM {many} LIMIT 100000");
    let recursion = "WITH RECURSIVE c AS (SELECT 1 i UNION SELECT i + 1 FROM c WHERE i < 400000) \
                     SELECT COUNT(*) FROM c";
    let by_number = "SELECT MAX(i) FROM (SELECT i FROM MANY ORDER BY -i LIMIT 1000000) s";
    let numbered = "SELECT ROW_NUMBER() OVER (ORDER BY w DESC) r FROM MANY";
    let ordered = "SELECT LENGTH(GROUP_CONCAT(w ORDER BY w DESC)) FROM MANY";
    let repeated = "SELECT LENGTH(GROUP_CONCAT(REPEAT(word, 100))) FROM d.t";
    let temporary = "CREATE TEMPORARY TABLE d.q AS SELECT i, w FROM MANY LIMIT 100000";
    vec![
        over("sort", "SELECT MAX(i) FROM (SELECT i FROM MANY ORDER BY w DESC LIMIT 1000000) s"),
        over("sort of numbers", by_number),
        over("distinct", "SELECT COUNT(DISTINCT w) FROM MANY"),
        over("groups", "SELECT MAX(c) FROM (SELECT w, COUNT(*) c FROM MANY GROUP BY w) g"),
        over("window", &format!("SELECT MAX(r) FROM ({numbered}) x")),
        over("union", "SELECT COUNT(*) FROM (SELECT w FROM MANY UNION SELECT w FROM MANY) u"),
        over("in query", "SELECT COUNT(*) FROM d.t WHERE word IN (SELECT w FROM MANY)"),
        over("hash join", "SELECT COUNT(*) FROM d.t LEFT JOIN MANY ON m.w = word"),
        over("GROUP_CONCAT", "SELECT LENGTH(GROUP_CONCAT(w)) FROM MANY").after(long),
        over("GROUP_CONCAT ordered", ordered).after(long),
        over("GROUP_CONCAT distinct", "SELECT LENGTH(GROUP_CONCAT(DISTINCT w)) FROM MANY")
            .after(long),
        over("JSON_ARRAYAGG", "SELECT LENGTH(JSON_ARRAYAGG(w)) FROM MANY"),
        over("JSON_OBJECTAGG", "SELECT LENGTH(JSON_OBJECTAGG(i, w)) FROM MANY"),
        over("GROUP_CONCAT long", repeated).after(long),
        over("recursion", recursion).after("SET cte_max_recursion_depth = 1000000"),
        over("rows", "SELECT * FROM MANY"),
        case("wide rows", format!("SELECT {wide} FROM d.t WHERE id < 5")),
        over("insert of many", "INSERT INTO d.w SELECT i, w FROM MANY").after(stored),
        over("rollback", "ROLLBACK").after(stored).after("BEGIN").after(some),
        over("temporary", temporary),
    ]
}

/// The longest steps of the server: how long, of which node, what they did.
fn longest_steps(port: u16) -> Vec<(Duration, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        .expect("it reads");
    let mut page = String::new();
    stream.read_to_string(&mut page).expect("it answers");
    let samples = page.lines().filter(|line| line.starts_with("nines_slow_step_longest_seconds{"));
    let mut steps: Vec<(Duration, String)> = samples
        .map(|line| {
            let (labels, value) = line.rsplit_once(' ').expect("a sample has a value");
            let seconds: f64 = value.parse().expect("a number");
            (Duration::from_secs_f64(seconds), labels.to_owned())
        })
        .collect();
    steps.sort();
    steps.reverse();
    steps
}

fn server() -> (Server, u16) {
    let server = Server::start(&["--workers=1", "--data-memory=1G", "--http-port=0"]);
    let line = server.greeting.iter().find(|line| line.contains("/metrics"));
    let port = line.and_then(|line| line.rsplit(':').next()?.split('/').next()?.parse().ok());
    server.sql(
        "CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, n INT, word VARCHAR(200)); SET \
         cte_max_recursion_depth = 10000; INSERT INTO d.t WITH RECURSIVE c AS (SELECT 1 AS i UNION \
         ALL SELECT i + 1 FROM c WHERE i < 4000) SELECT i, i, REPEAT('w', 100) FROM c",
    );
    (server, port.expect("it tells its port"))
}

/// What statements make.
const LEFT: [&str; 2] =
    ["DROP TABLE IF EXISTS d.w, d.l, d.j, d.wide, d.e", "DROP VIEW IF EXISTS d.v"];

/// Runs a statement while another client reads; the longest step since the server began.
fn run(case: &Case, server: &Server, port: u16) -> Option<(Duration, String)> {
    let mut reader = server.session().expect("it is served");
    let mut session = server.session().expect("it is served");
    all(&mut session, &LEFT);
    for before in &case.before {
        session.query(before).unwrap_or_else(|error| panic!("{}: {error}", case.name));
    }
    let steps_before = longest_steps(port);
    let (statement, how) = (case.statement.clone(), case.how);
    let began = Instant::now();
    let running = thread::spawn(move || {
        let result = match how {
            How::Text | How::Refused => session.query(&statement).map(drop),
            How::Prepared => session.prepare(&statement).map(drop),
        };
        let took = began.elapsed();
        // What it has left is given back, too.
        drop(session);
        (result, took)
    });
    let (mut reads, mut longest) = (0, Duration::ZERO);
    while !running.is_finished() {
        let asked = Instant::now();
        assert_eq!(number(&mut reader, "SELECT n FROM d.t WHERE id = 3"), 3);
        longest = longest.max(asked.elapsed());
        reads += 1;
    }
    let (result, took) = running.join().expect("it ends");
    let asked = Instant::now();
    assert_eq!(number(&mut reader, "SELECT n FROM d.t WHERE id = 3"), 3);
    longest = longest.max(asked.elapsed());
    match result {
        Ok(()) => assert!(how != How::Refused, "{} is refused", case.name),
        Err(error) => {
            let shown: String = error.to_string().chars().take(200).collect();
            assert!(how == How::Refused && error.code().is_some(), "{}: {shown}", case.name);
        }
    }
    let step = longest_steps(port).into_iter().find(|step| !steps_before.contains(step));
    let of_step = step.as_ref().and_then(|(_, labels)| labels.split("step=").nth(1));
    let _told = writeln!(
        std::io::stdout(),
        "{:24} took {:7.3} s, {reads:6} reads, longest wait {:7.1} ms, longest step {:7.1} ms {}",
        case.name,
        took.as_secs_f64(),
        longest.as_secs_f64() * 1e3,
        step.as_ref().map_or(0.0, |(time, _)| time.as_secs_f64() * 1e3),
        of_step.unwrap_or_default(),
    );
    step
}

/// The longest step that the server has had names the statement that it belongs to, as all are run
/// one after the other.
#[test]
fn no_statement_keeps_the_worker_from_others() {
    let wanted = std::env::var("NINES_SLICES").ok();
    let (mut server, mut port) = server();
    let mut cases: Vec<Case> = trees().into_iter().chain(texts()).chain(rows()).collect();
    // Behind a long step none that is shorter is seen.
    cases.sort_by_key(|case| case.is_known);
    for case in cases {
        if let Some(wanted) = &wanted {
            if wanted != "all" && !wanted.split(',').any(|name| case.name == name) {
                continue;
            }
            // So that its own longest step is seen.
            (server, port) = self::server();
        }
        if let Some((time, step)) = run(&case, &server, port)
            && wanted.is_none()
            && !case.is_known
        {
            assert!(time < STEP_MAX, "{}: {time:?} in {step}", case.name);
        }
    }
}
