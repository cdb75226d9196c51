//! Foreign keys: no child is without its parent, whoever makes and removes either; what cascades
//! goes whole.

use super::{Failure, Mysql, snapshot};

const PARENTS: u64 = 8;
const CHILDREN: u64 = 40;

pub(super) const TABLES: &[&str] = &[
    "CREATE TABLE sq.parents (id INT PRIMARY KEY, code INT NOT NULL UNIQUE)",
    "CREATE TABLE sq.children (id INT PRIMARY KEY, parent INT, code INT, \
     FOREIGN KEY (parent) REFERENCES sq.parents (id), \
     FOREIGN KEY (code) REFERENCES sq.parents (code) ON UPDATE CASCADE ON DELETE SET NULL)",
    "CREATE TABLE sq.toys (id INT PRIMARY KEY, parent INT NOT NULL, \
     FOREIGN KEY (parent) REFERENCES sq.parents (id) ON DELETE CASCADE)",
];

pub(super) async fn round(mysql: &Mysql) -> Result<(), Failure> {
    if mysql.percent(20) {
        return check(mysql).await;
    }
    let several = mysql.percent(30);
    if several {
        mysql.query("BEGIN").await?;
    }
    for _ in 0..if several { 1 + mysql.below(3) } else { 1 } {
        let statement = draw(mysql);
        match mysql.query(&statement).await {
            // A child refers to it, no such parent, there is one.
            Err(failure) if [1451, 1452, 1062].contains(&failure.code()) => {}
            other => drop(other?),
        }
    }
    if several {
        mysql.query(if mysql.percent(80) { "COMMIT" } else { "ROLLBACK" }).await?;
    }
    Ok(())
}

fn draw(mysql: &Mysql) -> String {
    let (parent, child, code) =
        (mysql.below(PARENTS), mysql.below(CHILDREN), mysql.below(2 * PARENTS));
    match mysql.below(10) {
        0..2 => format!("INSERT INTO parents VALUES ({parent}, {code})"),
        2 => format!("DELETE FROM parents WHERE id = {parent}"),
        3 => format!("UPDATE parents SET code = {code} WHERE id = {parent}"),
        4..6 => format!("REPLACE INTO children VALUES ({child}, {parent}, {code})"),
        6 => format!("INSERT INTO children VALUES ({child}, {parent}, NULL)"),
        7 => format!("DELETE FROM children WHERE parent = {parent}"),
        8 => format!("UPDATE children SET code = {code} WHERE id = {child}"),
        _ => format!("INSERT INTO toys VALUES ({child}, {parent})"),
    }
}

/// In any snapshot every child has its parents.
pub(super) async fn check(mysql: &Mysql) -> Result<(), Failure> {
    let [orphans, others, toys] = snapshot(
        mysql,
        [
            "SELECT c.id, c.parent FROM children c LEFT JOIN parents p ON p.id = c.parent \
             WHERE c.parent IS NOT NULL AND p.id IS NULL",
            "SELECT c.id, c.code FROM children c LEFT JOIN parents p ON p.code = c.code \
             WHERE c.code IS NOT NULL AND p.id IS NULL",
            "SELECT t.id, t.parent FROM toys t LEFT JOIN parents p ON p.id = t.parent \
             WHERE p.id IS NULL",
        ],
    )
    .await?;
    for (what, answer) in [("id", orphans), ("code", others), ("toys", toys)] {
        assert!(answer.rows.is_empty(), "children without a parent, by {what}: {:?}", answer.rows);
    }
    Ok(())
}
