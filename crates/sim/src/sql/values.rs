//! Values in parts beside their rows: each is whole, and is that of its row.

use super::{Failure, Mysql, snapshot};

const ROWS: u64 = 6;
/// How often a value repeats its version at most: usually, and sometimes.
const REPEATED_MAX: u64 = 9_000;
const REPEATED_OFTEN: u64 = 40_000;

pub(super) const TABLES: &[&str] = &[
    "CREATE TABLE sq.notes (id INT PRIMARY KEY, version INT NOT NULL, body LONGTEXT)",
    "INSERT IGNORE INTO sq.notes VALUES (0, 1, '1,'), (1, 1, '1,'), (2, 1, '1,'), (3, 1, '1,'), \
     (4, 1, '1,'), (5, 1, '1,')",
];

pub(super) async fn round(mysql: &Mysql) -> Result<(), Failure> {
    let most = if mysql.percent(10) { REPEATED_OFTEN } else { REPEATED_MAX };
    let (id, repeated) = (mysql.below(ROWS), mysql.below(most));
    // Assignments are made from left to right.
    let update = format!(
        "UPDATE notes SET version = version + 1, body = REPEAT(CONCAT(version, ','), {repeated}) \
         WHERE id = {id}"
    );
    match mysql.below(10) {
        0..4 => check(mysql).await,
        4..8 => mysql.query(&update).await.map(drop),
        8 => {
            let append = "UPDATE notes SET body = CONCAT(body, version, ',') WHERE id >= 3";
            mysql.query(append).await.map(drop)
        }
        _ => {
            let replace =
                format!("REPLACE INTO notes SELECT id, version + 1, '' FROM notes WHERE id = {id}");
            mysql.query("BEGIN").await?;
            mysql.query(&replace).await?;
            mysql.query(&update).await?;
            mysql.query(if mysql.percent(50) { "COMMIT" } else { "ROLLBACK" }).await.map(drop)
        }
    }
}

/// Every value repeats the version of its row, from its beginning to its end.
pub(super) async fn check(mysql: &Mysql) -> Result<(), Failure> {
    let rows = if mysql.percent(50) {
        let [rows] = snapshot(mysql, ["SELECT id, version, body FROM notes"]).await?;
        assert_eq!(rows.rows.len(), ROWS as usize, "rows with values");
        rows
    } else {
        let id = mysql.below(ROWS);
        mysql.query(&format!("SELECT id, version, body FROM notes WHERE id = {id}")).await?
    };
    for row in 0..rows.rows.len() {
        let (id, version, body) = (rows.int(row, 0), rows.int(row, 1), rows.text(row, 2));
        let piece = format!("{version},");
        let whole = piece.repeat(body.len() / piece.len());
        assert!(body == whole, "value of row {id} at version {version}: {} bytes", body.len());
    }
    Ok(())
}
