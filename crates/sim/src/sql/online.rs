//! Indexes and columns that come and go, and copies of the table, while others change, delete and
//! insert rows: every row is found by every way, as of any moment.

use super::{Failure, Mysql, ended, snapshot};

/// Rows of the table; each has `b = -a`. A row has one of two numbers, which are this far apart.
const ROWS: u64 = 60;

pub(super) const TABLES: &[&str] = &[
    "CREATE TABLE sq.wide (id INT PRIMARY KEY AUTO_INCREMENT, a INT NOT NULL, b INT NOT NULL)",
    "INSERT INTO sq.wide (a, b) WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n \
     WHERE i < 60) SELECT i, -i FROM n WHERE NOT EXISTS (SELECT * FROM sq.wide)",
];

pub(super) async fn round(mysql: &Mysql) -> Result<(), Failure> {
    match mysql.below(12) {
        0..2 => change_table(mysql).await,
        2..5 => check(mysql).await,
        5..9 => move_row(mysql).await,
        _ => {
            let (id, a) = (1 + mysql.below(ROWS), mysql.below(1_000));
            let to = id + mysql.below(5);
            let update =
                format!("UPDATE wide SET a = {a}, b = -{a} WHERE id BETWEEN {id} AND {to}");
            mysql.query(&update).await.map(drop)
        }
    }
}

/// Deletes a row and inserts one in its place, in a transaction that may take a while.
async fn move_row(mysql: &Mysql) -> Result<(), Failure> {
    let (low, a) = (1 + mysql.below(ROWS), mysql.below(1_000));
    let high = low + ROWS;
    mysql.query("BEGIN").await?;
    let lock = format!("SELECT id FROM wide WHERE id IN ({low}, {high}) FOR UPDATE");
    let found = mysql.query(&lock).await?;
    if found.rows.len() != 1 {
        // Another one has moved it between the locks.
        return mysql.query("ROLLBACK").await.map(drop);
    }
    let id = found.int(0, 0) as u64;
    let other = low + high - id;
    let deleted = mysql.query(&format!("DELETE FROM wide WHERE id = {id}")).await?.changed;
    assert_eq!(deleted, 1, "row {id}, which is locked");
    if mysql.percent(50) {
        mysql.pause(10).await;
    }
    let insert = format!("INSERT INTO wide (id, a, b) VALUES ({other}, {a}, -{a})");
    mysql.query(&insert).await?;
    mysql.query(if mysql.percent(80) { "COMMIT" } else { "ROLLBACK" }).await.map(drop)
}

async fn change_table(mysql: &Mysql) -> Result<(), Failure> {
    let statement = match mysql.below(8) {
        0 => "CREATE INDEX ia ON wide (a)",
        1 => "DROP INDEX ia ON wide",
        2 => "ALTER TABLE wide ADD COLUMN x INT DEFAULT 5",
        3 => "ALTER TABLE wide DROP COLUMN x",
        4 => "ALTER TABLE wide MODIFY a BIGINT NOT NULL",
        5..7 => "OPTIMIZE TABLE wide",
        _ => "ALTER TABLE wide MODIFY a INT NOT NULL",
    };
    let answer = mysql.query(statement).await;
    match &answer {
        // There is one, there is none, or another one changes the table.
        // Of two copies at a time one may find that of the other.
        Err(failure) if [1061, 1091, 1060, 1054, 1050].contains(&failure.code()) => Ok(()),
        _ => {
            let _ended = ended(&answer);
            answer.map(drop)
        }
    }
}

pub(super) async fn check(mysql: &Mysql) -> Result<(), Failure> {
    let all = "SELECT COUNT(*), SUM(a + b), SUM(a) FROM wide";
    // By the index, where there is one.
    let by_value = "SELECT COUNT(*), SUM(a + b), SUM(a) FROM wide WHERE a >= 0 AND a < 100000";
    let [all, by_value] = snapshot(mysql, [all, by_value]).await?;
    assert_eq!((all.int(0, 0), all.int(0, 1)), (ROWS as i64, 0), "rows, and a + b");
    assert_eq!(all.rows, by_value.rows, "by the primary key, and by value");
    Ok(())
}
