//! Temporary tables: each session has its own, which hides a table of the same name, and goes with
//! the session.

use super::{Failure, Mysql};

pub(super) const TABLES: &[&str] = &[
    "CREATE TABLE sq.scratch (id INT PRIMARY KEY, v INT NOT NULL)",
    "INSERT IGNORE INTO sq.scratch VALUES (1, -1)",
];

pub(super) async fn round(mysql: &Mysql) -> Result<(), Failure> {
    let generation = mysql.generation();
    match work(mysql, generation).await {
        // Temporary tables do not outlive a restart of the whole cluster.
        Err(failure) if failure.code() == 1146 && mysql.generation() > generation => Ok(()),
        done => done,
    }
}

async fn work(mysql: &Mysql, generation: usize) -> Result<(), Failure> {
    mysql.query("DROP TEMPORARY TABLE IF EXISTS scratch").await?;
    expect(mysql, generation, (1, -1)).await?;
    let create = "CREATE TEMPORARY TABLE scratch (id INT AUTO_INCREMENT PRIMARY KEY, \
                  v INT NOT NULL, KEY (v))";
    mysql.query(create).await?;
    let count = 1 + mysql.below(30) as i64;
    let insert = format!("INSERT INTO scratch (v) SELECT i FROM numbers WHERE i < {count}");
    mysql.query(&insert).await?;
    let sum = count * (count - 1) / 2;
    expect(mysql, generation, (count, sum)).await?;
    mysql.query("BEGIN").await?;
    mysql.query("UPDATE scratch SET v = v + 1").await?;
    expect(mysql, generation, (count, sum + count)).await?;
    let kept = mysql.percent(50);
    mysql.query(if kept { "COMMIT" } else { "ROLLBACK" }).await?;
    let sum = if kept { sum + count } else { sum };
    expect(mysql, generation, (count, sum)).await?;
    mysql.query("DELETE FROM scratch WHERE v > 10").await?;
    let joined = "SELECT COUNT(*) FROM scratch s JOIN numbers n ON n.i = s.v";
    let found = mysql.query(joined).await?.int(0, 0);
    let first = i64::from(kept);
    let expected = (first..first + count).filter(|v| *v <= 10).count() as i64;
    if mysql.generation() == generation {
        assert_eq!(found, expected, "rows of a temporary table of {count}");
    }
    if mysql.percent(70) {
        mysql.query("DROP TEMPORARY TABLE scratch").await?;
    }
    Ok(())
}

/// What is in the table, unless a restart of the whole cluster has undone something since.
async fn expect(mysql: &Mysql, generation: usize, expected: (i64, i64)) -> Result<(), Failure> {
    let found = mysql.query("SELECT COUNT(*), SUM(v) FROM scratch").await?;
    if mysql.generation() != generation {
        return Ok(());
    }
    assert_eq!((found.int(0, 0), found.int(0, 1)), expected, "a table that is the session's own");
    Ok(())
}
