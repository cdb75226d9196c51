//! TPC-H's queries are answered as MariaDB answers them, digit by digit.
//!
//! Data of scale factor 0.01, the statements of `bench/tpch`. The queries run twice here, with
//! primary keys only, and with the indexes that a row store is given for them, so that plans of
//! both kinds are tried.

#![expect(clippy::print_stdout, reason = "how long queries take is told")]

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use tests::mariadb::MariaDb;
use tests::{Server, Session, TextRow, succeed, temporary_directory, workspace};
use tpchgen::generators as tpch;

use super::explain::{crossed, without_costs};

const SCALE: f64 = 0.01;

/// How long a query may take, in seconds; its neighbours take milliseconds.
const LIMIT: u64 = 60;

/// Parameters that have no answer in so little data are exchanged for some that have.
const EXCHANGED: [(usize, &str, &str); 1] = [(17, "'MED BOX'", "'LG BOX'")];

#[test]
fn queries_are_answered_as_mariadb_does() {
    let files = Files::generate();
    let (server, other) = (Server::start(&[]), MariaDb::start());
    files.load(server.client("mysql"));
    files.load(other.client());
    let mut session = server.session().unwrap_or_else(|error| panic!("{error}"));
    let mut expected = other.session().unwrap_or_else(|error| panic!("{error}"));
    ask(&mut session, &format!("SET SESSION max_execution_time = {}", LIMIT * 1000));
    ask(&mut session, "USE tpch");
    // Plans are compared with and without statistics of values.
    ask(&mut session, "SET SESSION nines_auto_statistics = OFF");
    ask(&mut expected, "USE tpch");
    let expected: Vec<Vec<TextRow>> =
        (1..=22).map(|number| ask(&mut expected, &query(number))).collect();
    for (number, rows) in (1..).zip(&expected) {
        assert!(rows.iter().flatten().any(Option::is_some), "Q{number} has nothing to compare");
    }
    // Until the sizes of tables are asked for again.
    std::thread::sleep(Duration::from_secs(11));
    compare("primary keys", &mut session, &expected);
    compare_plans(&mut session, "plans.txt", &EXPLAINED);
    for table in TABLES {
        ask(&mut session, &format!("ANALYZE TABLE {table}"));
    }
    compare("primary keys and statistics", &mut session, &expected);
    let all: Vec<usize> = (1..=22).collect();
    compare_plans(&mut session, "analyzed.txt", &all);
    let before = crossed(&mut session);
    ask(&mut session, &query(1));
    let [bytes, _, examined, _] = crossed(&mut session);
    let (bytes, examined) = (bytes - before[0], examined - before[2]);
    println!("Q1: {bytes} bytes of {examined} rows crossed to the SQL node");
    assert!(bytes < 10_000, "{bytes} bytes came to the SQL node for Q1");
    assert_eq!(examined, 60_175);
    for statement in statements("indexes.sql") {
        ask(&mut session, &statement);
    }
    compare("indexes", &mut session, &expected);
    // Less than most of them need: what does not fit goes to temporary files.
    let little = "SET SESSION connection_memory_limit = 2097152, nines_operator_memory = 1048576";
    ask(&mut session, little);
    compare("little memory", &mut session, &expected);
    ask(&mut session, "SET SESSION nines_pushdown = OFF");
    compare("little memory, row by row", &mut session, &expected);
    let written = &ask(&mut session, "SHOW STATUS LIKE 'Nines_temp_space_written'")[0][1];
    let written: u64 = written.as_deref().and_then(|text| text.parse().ok()).unwrap_or(0);
    println!("{written} bytes went to temporary files");
    assert!(written > 10_000_000, "{written} bytes went to temporary files");
}

/// Asks everything; all that is wrong is told at once.
fn compare(keys: &str, session: &mut Session, expected: &[Vec<TextRow>]) {
    let mut wrong = Vec::new();
    for (number, expected) in (1..).zip(expected) {
        let began = Instant::now();
        match session.query(&query(number)) {
            Ok(rows) if rows == *expected => {}
            Ok(rows) => wrong.push(format!("Q{number}: {rows:?}\ninstead of {expected:?}")),
            Err(error) => wrong.push(format!("Q{number}: {error}")),
        }
        println!("{keys}: Q{number} {} ms", began.elapsed().as_millis());
    }
    assert!(wrong.is_empty(), "with {keys}:\n{}", wrong.join("\n"));
}

/// Queries whose plans are in a file: all that is said of them but costs and estimates.
const EXPLAINED: [usize; 7] = [1, 3, 4, 6, 9, 13, 17];

const TABLES: [&str; 8] =
    ["region", "nation", "part", "supplier", "partsupp", "customer", "orders", "lineitem"];

/// `UPDATE=1` writes the plans into the file: read what changes before you keep it.
fn compare_plans(session: &mut Session, file: &str, numbers: &[usize]) {
    let path = workspace().join("tests/it/tpch").join(file);
    let mut text = String::new();
    for number in numbers {
        let rows = ask(session, &format!("EXPLAIN FORMAT=TREE {}", query(*number)));
        let tree = rows[0][0].clone().unwrap_or_default();
        text += &format!("Q{number}\n");
        tree.lines().for_each(|line| text += &format!("{}\n", without_costs(line)));
        text += "\n";
    }
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &text).unwrap_or_else(|error| panic!("{error}"));
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let different = text.lines().zip(kept.lines()).find(|(now, then)| now != then);
    assert!(text == kept, "{}: {different:?}\n{text}", path.display());
}

fn ask(session: &mut Session, statement: &str) -> Vec<TextRow> {
    session.query(statement).unwrap_or_else(|error| panic!("{statement}: {error}"))
}

fn folder() -> PathBuf {
    workspace().join("bench/tpch")
}

/// The statements of a file, whose comments are whole lines.
fn statements(file: &str) -> Vec<String> {
    let path = folder().join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|_| panic!("{}", path.display()));
    let lines = text.lines().filter(|line| !line.starts_with("--"));
    let text = lines.collect::<Vec<_>>().join("\n");
    text.split(';').map(|statement| statement.trim().to_owned()).filter(|s| !s.is_empty()).collect()
}

fn query(number: usize) -> String {
    let mut text = statements(&format!("queries/q{number:02}.sql")).remove(0);
    text = text.replace("FRACTION", &format!("{}", 0.0001 / SCALE));
    for (_, from, to) in EXCHANGED.iter().filter(|(of, _, _)| *of == number) {
        assert!(text.contains(from), "Q{number} has no {from}");
        text = text.replace(from, to);
    }
    text
}

/// The rows as text, in a directory that goes with the value.
struct Files(PathBuf);

impl Files {
    fn generate() -> Self {
        let files = Self(temporary_directory());
        files.write("region", tpch::RegionGenerator::new(SCALE, 1, 1).iter());
        files.write("nation", tpch::NationGenerator::new(SCALE, 1, 1).iter());
        files.write("part", tpch::PartGenerator::new(SCALE, 1, 1).iter());
        files.write("supplier", tpch::SupplierGenerator::new(SCALE, 1, 1).iter());
        files.write("partsupp", tpch::PartSuppGenerator::new(SCALE, 1, 1).iter());
        files.write("customer", tpch::CustomerGenerator::new(SCALE, 1, 1).iter());
        files.write("orders", tpch::OrderGenerator::new(SCALE, 1, 1).iter());
        files.write("lineitem", tpch::LineItemGenerator::new(SCALE, 1, 1).iter());
        files
    }

    fn path(&self, table: &str) -> PathBuf {
        self.0.join(table).with_extension("tbl")
    }

    fn write(&self, table: &str, rows: impl Iterator<Item = impl std::fmt::Display>) {
        let file = File::create(self.path(table)).expect("the temporary directory is writable");
        let mut file = BufWriter::new(file);
        for row in rows {
            writeln!(file, "{row}").expect("the temporary directory is writable");
        }
        file.flush().expect("the temporary directory is writable");
    }

    /// Makes and fills the tables.
    fn load(&self, mut client: Command) {
        let mut script = String::from(
            "SET GLOBAL local_infile = 1; \
             CREATE DATABASE tpch CHARACTER SET utf8mb4 COLLATE utf8mb4_bin; USE tpch;\n",
        );
        for statement in statements("schema.sql") {
            script += &format!("{statement};\n");
        }
        for (table, rows) in ROWS {
            let path: &Path = &self.path(table);
            script += &format!(
                "LOAD DATA LOCAL INFILE '{}' INTO TABLE {table} FIELDS TERMINATED BY '|' \
                 LINES TERMINATED BY '|\\n';\nSELECT '{table}', COUNT(*) = {rows} FROM {table};\n",
                path.display()
            );
        }
        client.args(["--local-infile=1", "--batch", "--skip-column-names", "-e", &script]);
        let expected: String = ROWS.iter().map(|(table, _)| format!("{table}\t1\n")).collect();
        assert_eq!(succeed(client), expected);
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The tables, and how many rows they have at this scale.
const ROWS: [(&str, u32); 8] = [
    ("region", 5),
    ("nation", 25),
    ("part", 2_000),
    ("supplier", 100),
    ("partsupp", 8_000),
    ("customer", 1_500),
    ("orders", 15_000),
    ("lineitem", 60_175),
];
