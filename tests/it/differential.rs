//! Generated statements against this server and against MariaDB: both must answer alike.
//!
//! Statements are drawn from a grammar that stays inside what both servers promise to answer the
//! same; accepted differences are listed in `docs/compatibility/differences.md` and kept out here.
//! The seed is fixed, so a failure comes back; `NINES_DIFFERENTIAL_SEED` draws others.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use tests::{Server, run};

/// A MariaDB server of its own, gone with the value.
struct MariaDb {
    process: Child,
    directory: PathBuf,
}

impl MariaDb {
    fn start() -> Self {
        let name = format!("nines-mariadb-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let data = directory.join("data");
        std::fs::create_dir_all(&data).expect("the temporary directory is writable");
        let mut install = Command::new("mariadb-install-db");
        install.args(["--no-defaults", "--auth-root-authentication-method=normal", "--user=root"]);
        install.arg(format!("--datadir={}", data.display()));
        let output = run(install);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let process = Command::new("/usr/sbin/mariadbd")
            .args(["--no-defaults", "--user=root", "--skip-networking", "--skip-log-bin"])
            .args(["--character-set-server=utf8mb4", "--collation-server=utf8mb4_bin"])
            .args([
                "--transaction-isolation=READ-COMMITTED",
                "--sql-mode=STRICT_TRANS_TABLES,\
                    ONLY_FULL_GROUP_BY,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO",
            ])
            .arg(format!("--datadir={}", data.display()))
            .arg(format!("--socket={}", directory.join("sock").display()))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("mariadbd is installed by `cargo xtask test`");
        let server = Self { process, directory };
        for _ in 0..600 {
            let mut ping = server.client();
            ping.args(["-e", "SELECT 1"]).stdout(Stdio::null()).stderr(Stdio::null());
            if ping.status().is_ok_and(|status| status.success()) {
                return server;
            }
            thread::sleep(Duration::from_millis(100));
        }
        panic!("MariaDB does not start");
    }

    fn client(&self) -> Command {
        let mut client = Command::new("mysql");
        client.args(["--no-defaults", "--user=root"]);
        client.arg(format!("--socket={}", self.directory.join("sock").display()));
        client
    }
}

impl Drop for MariaDb {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// SplitMix64: small, and the same for ever.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len() as u64) as usize]
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

const SCHEMA: &str = "
DROP DATABASE IF EXISTS diff; CREATE DATABASE diff; USE diff;
SET NAMES utf8mb4;
SET SESSION sql_mode = 'STRICT_TRANS_TABLES,ONLY_FULL_GROUP_BY,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO';
CREATE TABLE a (id INT NOT NULL PRIMARY KEY, i INT, u BIGINT UNSIGNED, d DECIMAL(12,3), f DOUBLE,
  s VARCHAR(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci, day DATE, at DATETIME, KEY (i), KEY (s), KEY (day, i));
CREATE TABLE b (x INT NOT NULL, y INT NOT NULL, i INT, s VARCHAR(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  d DECIMAL(12,3), PRIMARY KEY (x, y), UNIQUE KEY (i), KEY (s, d));
CREATE TABLE c (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, a_id INT, n SMALLINT NOT NULL DEFAULT 7, t TEXT, KEY (a_id));
";

/// Draws statements.
struct Generator {
    draw: Draw,
}

impl Generator {
    fn int(&mut self) -> String {
        match self.draw.below(12) {
            0 => "NULL".into(),
            1 => "0".into(),
            2 => format!("-{}", self.draw.below(50)),
            3 => self.draw.below(100_000).to_string(),
            _ => self.draw.below(60).to_string(),
        }
    }

    fn text(&mut self) -> String {
        let words = [
            "'apple'",
            "'Apple'",
            "'APPLE pie'",
            "''",
            "'pear'",
            "'plum'",
            "'été'",
            "'zebra'",
            "'12abc'",
            "'7'",
            "'a_b'",
            "'50%'",
            "NULL",
        ];
        self.draw.pick(&words).to_owned()
    }

    fn decimal(&mut self) -> String {
        if self.draw.chance(8) {
            return "NULL".into();
        }
        let sign = if self.draw.chance(30) { "-" } else { "" };
        format!("{sign}{}.{}", self.draw.below(2000), self.draw.below(1000))
    }

    fn day(&mut self) -> String {
        if self.draw.chance(8) {
            return "NULL".into();
        }
        format!(
            "'20{:02}-{:02}-{:02}'",
            self.draw.below(40),
            1 + self.draw.below(12),
            1 + self.draw.below(28)
        )
    }

    fn number(&mut self, depth: u32) -> String {
        if depth == 0 || self.draw.chance(40) {
            return match self.draw.below(5) {
                0 => "a.i".into(),
                1 => "a.id".into(),
                2 => "a.d".into(),
                3 => self.decimal(),
                _ => self.int(),
            };
        }
        let (l, r) = (self.number(depth - 1), self.number(depth - 1));
        match self.draw.below(14) {
            0 => format!("({l} + {r})"),
            1 => format!("({l} - {r})"),
            2 => format!("({l} * {r})"),
            3 => format!("({l} / {r})"),
            4 => format!("({l} DIV NULLIF({r}, 0))"),
            5 => format!("({l} % {r})"),
            6 => format!("ABS({l})"),
            7 => format!("COALESCE({l}, {r})"),
            8 => format!("IF({}, {l}, {r})", self.condition(depth - 1)),
            9 => format!("GREATEST({l}, {r})"),
            10 => format!("ROUND({l}, 1)"),
            11 => format!("FLOOR({l})"),
            12 => format!("CASE WHEN {} THEN {l} ELSE {r} END", self.condition(depth - 1)),
            _ => format!("LENGTH({})", self.string(depth - 1)),
        }
    }

    fn string(&mut self, depth: u32) -> String {
        if depth == 0 || self.draw.chance(40) {
            return if self.draw.chance(50) { "a.s".into() } else { self.text() };
        }
        let (l, r) = (self.string(depth - 1), self.string(depth - 1));
        match self.draw.below(10) {
            0 => format!("CONCAT({l}, {r})"),
            1 => format!("UPPER({l})"),
            2 => format!("LOWER({l})"),
            3 => format!("SUBSTRING({l}, {}, {})", 1 + self.draw.below(4), self.draw.below(5)),
            4 => format!("REPLACE({l}, 'p', 'q')"),
            5 => format!("TRIM({l})"),
            6 => format!("LPAD({l}, 8, '*')"),
            7 => format!("REVERSE({l})"),
            8 => format!("COALESCE({l}, {r})"),
            _ => format!("LEFT({l}, {})", self.draw.below(6)),
        }
    }

    fn condition(&mut self, depth: u32) -> String {
        let compare = ["=", "<>", "<", "<=", ">", ">=", "<=>"];
        if depth == 0 || self.draw.chance(50) {
            return match self.draw.below(10) {
                0 => format!("a.i {} {}", self.draw.pick(&compare), self.int()),
                1 => format!("a.id BETWEEN {} AND {}", self.draw.below(40), self.draw.below(80)),
                2 => format!("a.i IN ({}, {}, {})", self.int(), self.int(), self.int()),
                3 => format!("a.s {} {}", self.draw.pick(&compare), self.text()),
                4 => format!(
                    "a.s LIKE {}",
                    self.draw.pick(&["'a%'", "'%p%'", "'_ear'", "'A%'", "'%\\_%'"])
                ),
                5 => "a.s IS NULL".into(),
                6 => format!("a.day {} {}", self.draw.pick(&compare), self.day()),
                7 => format!("a.d {} {}", self.draw.pick(&compare), self.decimal()),
                8 => "a.i IS NOT NULL".into(),
                _ => format!("{} {} {}", self.number(1), self.draw.pick(&compare), self.number(1)),
            };
        }
        let (l, r) = (self.condition(depth - 1), self.condition(depth - 1));
        match self.draw.below(4) {
            0 => format!("({l} OR {r})"),
            1 => format!("NOT ({l})"),
            _ => format!("({l} AND {r})"),
        }
    }

    fn change(&mut self) -> String {
        let (id, x, y) = (self.draw.below(80), self.draw.below(12), self.draw.below(12));
        match self.draw.below(13) {
            0..=2 => {
                let verb = self.draw.pick(&["INSERT", "INSERT", "REPLACE", "INSERT IGNORE"]);
                let (i, u, d) = (self.int(), self.draw.below(1 << 40), self.decimal());
                let (s, day) = (self.text(), self.day());
                let f = format!("{}.5", self.draw.below(99));
                let at = "'2024-05-06 07:08:09'";
                format!("{verb} INTO a VALUES ({id}, {i}, {u}, {d}, {f}, {s}, {day}, {at})")
            }
            3 | 4 => {
                let verb = self.draw.pick(&["INSERT", "INSERT IGNORE", "REPLACE"]);
                let (i, s, d) = (self.int(), self.text(), self.decimal());
                let (x2, y2) = (self.draw.below(12), self.draw.below(12));
                format!(
                    "{verb} INTO b VALUES ({x}, {y}, {i}, {s}, {d}), ({x2}, {y2}, NULL, {s}, {d})"
                )
            }
            5 => {
                let (i, s) = (self.int(), self.text());
                format!(
                    "INSERT INTO b (x, y, i, s) VALUES ({x}, {y}, {i}, {s}) ON DUPLICATE KEY UPDATE s = CONCAT(s, '+'), d = COALESCE(d, 0) + 1"
                )
            }
            6 => format!(
                "INSERT INTO c (a_id, t) SELECT id, s FROM a WHERE {} ORDER BY id LIMIT 5",
                self.condition(1)
            ),
            7 => format!("UPDATE a SET i = i + 1, s = {} WHERE {}", self.text(), self.condition(1)),
            8 => format!("UPDATE a SET d = d * 2, f = f + id WHERE id = {id}"),
            9 => format!(
                "UPDATE b SET d = {}, y = y + 100 WHERE x = {x} AND y = {y}",
                self.decimal()
            ),
            10 => format!("DELETE FROM a WHERE {} AND id > 60", self.condition(1)),
            11 => format!(
                "UPDATE a JOIN c ON c.a_id = a.id SET c.n = c.n + 1 WHERE {}",
                self.condition(1)
            ),
            _ => format!("DELETE FROM b WHERE x = {x} AND y > {y}"),
        }
    }

    fn query(&mut self) -> String {
        let condition = self.condition(2);
        match self.draw.below(12) {
            0 | 1 => format!("SELECT id, i, u, d, s, day, at FROM a WHERE {condition} ORDER BY id"),
            2 => format!("SELECT id, {} FROM a WHERE {condition} ORDER BY id", self.number(2)),
            3 => format!("SELECT id, {} FROM a WHERE {condition} ORDER BY id", self.string(2)),
            4 => format!(
                "SELECT COUNT(*), COUNT(i), SUM(i), MIN(d), MAX(day), AVG(d) FROM a WHERE {condition}"
            ),
            5 => format!(
                "SELECT i, COUNT(*), SUM(d), MAX(s) IS NULL FROM a WHERE {condition} GROUP BY i ORDER BY i"
            ),
            6 => format!(
                "SELECT i, COUNT(*) AS n FROM a WHERE {condition} GROUP BY i HAVING n > 1 ORDER BY n DESC, i"
            ),
            7 => format!(
                "SELECT a.id, b.x, b.y, b.s FROM a JOIN b ON b.i = a.i WHERE {condition} ORDER BY a.id, b.x, b.y"
            ),
            8 => format!(
                "SELECT a.id, c.n FROM a LEFT JOIN c ON c.a_id = a.id WHERE {condition} ORDER BY a.id, c.id"
            ),
            9 => format!(
                "SELECT id, s FROM a WHERE {condition} ORDER BY i DESC, id LIMIT {} OFFSET {}",
                self.draw.below(8),
                self.draw.below(4)
            ),
            10 => format!(
                "SELECT DISTINCT i FROM a WHERE {condition} AND id IN (SELECT a_id FROM c) ORDER BY i"
            ),
            _ => format!(
                "SELECT id FROM a WHERE {condition} AND EXISTS (SELECT 1 FROM b WHERE b.x = a.i) UNION SELECT x FROM b WHERE y < 4 ORDER BY 1"
            ),
        }
    }

    fn script(&mut self, count: u32) -> Vec<String> {
        let mut statements = Vec::new();
        for number in 0..count {
            let changes = number < count / 4 || self.draw.chance(25);
            statements.push(if changes { self.change() } else { self.query() });
            if number % 200 == 199 {
                for all in ["a", "b", "c"] {
                    statements.push(format!("SELECT * FROM {all} ORDER BY 1, 2"));
                }
            }
        }
        statements
    }
}

/// What a server said to each statement: its rows, or its error's number.
fn answers(mut client: Command, statements: &[String]) -> Vec<String> {
    let mut script = String::from(SCHEMA);
    for (number, statement) in statements.iter().enumerate() {
        // One line each, so that errors can be told by their line.
        writeln!(script, "SELECT '@@{number}'; {statement};").expect("a String takes any text");
    }
    let first_line = SCHEMA.lines().count();
    client.args(["--batch", "--skip-column-names", "--force", "--default-character-set=utf8mb4"]);
    client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = client.spawn().expect("the mysql client is installed by `cargo xtask test`");
    let mut input = child.stdin.take().expect("its input is piped");
    let writer = thread::spawn(move || input.write_all(script.as_bytes()));
    let output = child.wait_with_output().expect("it is our child");
    writer.join().expect("writing does not panic").expect("the client reads all statements");
    let mut all = vec![String::new(); statements.len()];
    let mut current = None;
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        match line.strip_prefix("@@") {
            Some(number) => current = number.parse::<usize>().ok(),
            None => {
                if let Some(at) = current {
                    all[at].push_str(line);
                    all[at].push('\n');
                }
            }
        }
    }
    for line in String::from_utf8_lossy(&output.stderr).lines() {
        // ERROR 1062 (23000) at line 12: …
        let parts: Vec<&str> = line.split_whitespace().collect();
        let at = parts.iter().position(|part| *part == "line").and_then(|at| parts.get(at + 1));
        let at = at.and_then(|text| text.trim_end_matches(':').parse::<usize>().ok());
        match at.and_then(|at| at.checked_sub(first_line + 1)).and_then(|at| all.get_mut(at)) {
            Some(answer) => *answer = format!("error {}", parts.get(1).unwrap_or(&"?")),
            None => panic!("an error outside the statements: {line}"),
        }
    }
    all
}

#[test]
fn generated_statements_are_answered_as_mariadb_does() {
    let seed = std::env::var("NINES_DIFFERENTIAL_SEED").ok().and_then(|s| s.parse().ok());
    let mut generator = Generator { draw: Draw(seed.unwrap_or(20_261_121)) };
    let statements = generator.script(3000);
    let other = MariaDb::start();
    let server = Server::start(&[]);
    let expected = answers(other.client(), &statements);
    let found = answers(server.client("mysql"), &statements);
    let mut differences = String::new();
    let mut count = 0;
    for (at, statement) in statements.iter().enumerate() {
        if expected[at] != found[at] {
            count += 1;
            if count <= 20 {
                let (e, f) = (first_lines(&expected[at]), first_lines(&found[at]));
                write!(differences, "\n{at}: {statement}\n  MariaDB: {e}\n  Nines:   {f}").unwrap();
            }
        }
    }
    assert!(count == 0, "{count} of {} statements differ:{differences}", statements.len());
}

fn first_lines(text: &str) -> String {
    text.lines().take(4).collect::<Vec<_>>().join(" | ")
}
