//! Many rows changed by one statement: by INSERT … SELECT, REPLACE, ON DUPLICATE KEY UPDATE,
//! UPDATE, DELETE and LOAD DATA. The rows of a part are changed together, and a row of another
//! table says how many there are.
//!
//! The table is partitioned by the part, so that a query for one part reads one partition.

use std::rc::Rc;

use super::{Failure, Mysql, snapshot};
use crate::lab::Lab;

const PARTS: u64 = 4;
/// Rows of a part that is not empty.
const ROWS: i64 = 40;
/// Rows of a file that a statement stores by itself.
const LOADED: i64 = 300;

pub(super) const TABLES: &[&str] = &[
    "CREATE TABLE sq.numbers (i INT PRIMARY KEY)",
    "INSERT IGNORE INTO sq.numbers WITH RECURSIVE n AS (SELECT 0 AS i UNION ALL SELECT i + 1 \
     FROM n WHERE i < 39) SELECT i FROM n",
    "CREATE TABLE sq.parts (id INT PRIMARY KEY, n INT NOT NULL, era INT NOT NULL)",
    "INSERT IGNORE INTO sq.parts VALUES (0, 0, 0), (1, 0, 0), (2, 0, 0), (3, 0, 0)",
    "CREATE TABLE sq.bulk (part INT NOT NULL, i INT NOT NULL, era INT NOT NULL, note VARCHAR(40), \
     PRIMARY KEY (part, i), KEY (era)) PARTITION BY KEY (part)",
    "CREATE TABLE sq.loads (id BIGINT NOT NULL, i INT NOT NULL, note VARCHAR(40), \
     PRIMARY KEY (id, i))",
    "CREATE OR REPLACE VIEW sq.sums AS SELECT p.id AS id, p.n AS said, p.era AS era, \
     COUNT(b.i) AS n, MIN(b.era) AS low, MAX(b.era) AS high FROM sq.parts p \
     LEFT JOIN sq.bulk b ON b.part = p.id GROUP BY p.id, p.n, p.era",
];

pub(super) async fn round(mysql: &Mysql, lab: &Rc<Lab>) -> Result<(), Failure> {
    match mysql.below(10) {
        0..3 => check(mysql).await,
        3..5 => load_whole(mysql, lab).await,
        _ => change(mysql).await,
    }
}

/// Changes all rows of a part, and what is said of it.
async fn change(mysql: &Mysql) -> Result<(), Failure> {
    let part = mysql.below(PARTS);
    let way = mysql.below(6);
    if way == 5 {
        allow_files(mysql).await?;
    }
    mysql.query("BEGIN").await?;
    let lock = format!("SELECT n, era FROM parts WHERE id = {part} FOR UPDATE");
    let said = mysql.query(&lock).await?;
    let (n, era) = (said.int(0, 0), said.int(0, 1) + 1);
    let select = format!("SELECT {part}, i, {era}, CONCAT('row ', i) FROM numbers");
    let after = match way {
        0 if n == 0 => {
            mysql.query(&format!("INSERT INTO bulk {select}")).await?;
            ROWS
        }
        0 | 1 => {
            mysql.query(&format!("REPLACE INTO bulk {select}")).await?;
            ROWS
        }
        2 => {
            let insert = format!("INSERT INTO bulk {select} ON DUPLICATE KEY UPDATE era = {era}");
            mysql.query(&insert).await?;
            ROWS
        }
        3 => {
            let update = format!("UPDATE bulk SET era = {era} WHERE part = {part}");
            let changed = mysql.query(&update).await?.changed;
            assert_eq!(changed as i64, n, "rows of part {part} that are updated");
            n
        }
        4 => {
            let deleted = mysql.query(&format!("DELETE FROM bulk WHERE part = {part}")).await?;
            assert_eq!(deleted.changed as i64, n, "rows of part {part} that are deleted");
            0
        }
        _ => {
            let rows = (0..ROWS).map(|i| format!("{part}\t{i}\t{era}\n")).collect();
            let load = "LOAD DATA LOCAL INFILE 'f' REPLACE INTO TABLE bulk (part, i, era)";
            mysql.load(load, &file_parts(mysql, rows)).await?;
            ROWS
        }
    };
    let say = format!("UPDATE parts SET n = {after}, era = {era} WHERE id = {part}");
    mysql.query(&say).await?;
    mysql.query(if mysql.percent(85) { "COMMIT" } else { "ROLLBACK" }).await?;
    Ok(())
}

/// Has SQL nodes take files, also after a restart of the whole cluster, which ends what is GLOBAL.
async fn allow_files(mysql: &Mysql) -> Result<(), Failure> {
    mysql.query("SET PERSIST local_infile = ON").await.map(drop)
}

/// Lines as parts of a file, cut anywhere.
fn file_parts(mysql: &Mysql, lines: Vec<String>) -> Vec<String> {
    let text = lines.concat();
    let mut parts = Vec::new();
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let length = rest.len().min(1 + mysql.below(text.len() as u64) as usize);
        let (part, more) = rest.split_at(length);
        parts.push(part.to_string());
        rest = more;
    }
    parts
}

/// A file that a statement stores by itself is there wholly, or not at all.
async fn load_whole(mysql: &Mysql, lab: &Rc<Lab>) -> Result<(), Failure> {
    allow_files(mysql).await?;
    let id = lab.number();
    let generation = mysql.generation();
    let lines = (0..LOADED).map(|i| format!("{id}\t{i}\tline {i}\n")).collect();
    let load = "LOAD DATA LOCAL INFILE 'f' INTO TABLE loads (id, i, note)";
    mysql.load(load, &file_parts(mysql, lines)).await?;
    let count = mysql.query(&format!("SELECT COUNT(*) FROM loads WHERE id = {id}")).await?;
    if mysql.generation() == generation {
        assert_eq!(count.int(0, 0), LOADED, "rows of a file that was acknowledged");
    }
    // Some stay, so that the table has something in it.
    if mysql.percent(70) {
        mysql.query(&format!("DELETE FROM loads WHERE id = {id}")).await?;
    }
    Ok(())
}

/// Every part is as is said of it, by every way to its rows, and files are whole.
pub(super) async fn check(mysql: &Mysql) -> Result<(), Failure> {
    let part = mysql.below(PARTS);
    let one = format!("SELECT COUNT(*), SUM(i) FROM bulk WHERE part = {part}");
    let same = format!("SELECT COUNT(*), SUM(i) FROM bulk WHERE part + 0 = {part}");
    let torn = format!("SELECT id, COUNT(*) FROM loads GROUP BY id HAVING COUNT(*) <> {LOADED}");
    let sums = "SELECT id, said, era, n, low, high FROM sums";
    let [sums, one, same, torn] = snapshot(mysql, [sums, &one, &same, &torn]).await?;
    assert_eq!(sums.rows.len(), PARTS as usize, "parts");
    for row in 0..sums.rows.len() {
        let (said, found) = (sums.int(row, 1), sums.int(row, 3));
        assert_eq!(found, said, "rows of part {}", sums.int(row, 0));
        if said > 0 {
            let eras = [2, 4, 5].map(|column| sums.int(row, column));
            assert_eq!(eras, [eras[0]; 3], "eras of part {}", sums.int(row, 0));
        }
        if sums.int(row, 0) == part as i64 {
            assert_eq!(one.int(0, 0), said, "rows of part {part} by its partition");
        }
    }
    assert_eq!(one.rows, same.rows, "part {part} by its partition and by all");
    assert!(torn.rows.is_empty(), "files that are there in part: {:?}", torn.rows);
    Ok(())
}
