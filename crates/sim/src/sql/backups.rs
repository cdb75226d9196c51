//! Backups and restores while all others work: what comes back is of one moment, and is there at
//! once or not at all.
//!
//! A backup of all tables is restored into another database. There the rules of the bank, of the
//! families and of the table with changing indexes hold, and each counter says what it has been
//! between the beginning and the end of the backup.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::{Failure, Mysql, bank, families, files, online};
use crate::lab::Lab;

/// Clients that make backups.
pub(super) const CLIENTS: usize = 2;
/// Tables of the database that is saved, at least: those that are looked at in the copy. Others are
/// dropped and made while the backup is.
const TABLES: i64 = 8;

/// What the refusal says of a backup that found other definitions at each of its attempts.
const CHANGING: &str = "definitions change all the time";

/// What is known of the counters at a moment: the restarts of the whole cluster so far; of each
/// counter that, the least and the most that it may say.
struct Moment {
    generation: usize,
    counters: BTreeMap<usize, (usize, i64, i64)>,
}

impl Moment {
    fn now(mysql: &Mysql, lab: &Rc<Lab>) -> Self {
        let book = lab.sql.borrow();
        let counters = book.counters.iter().map(|(task, count)| (*task, count.bounds())).collect();
        Self { generation: mysql.generation(), counters }
    }
}

/// Whether a failure is one of those that a backup or a restore may end with at any time.
pub(super) fn passes(failure: &Failure) -> bool {
    let Failure::Error(error) = failure else { return true };
    let may_be = [files::FULL, CHANGING, "the cluster has been restarted meanwhile"];
    error.code == 1105 && may_be.iter().any(|text| error.text.contains(text))
}

pub(super) async fn round(mysql: &Mysql, lab: &Rc<Lab>, task: usize) -> Result<(), Failure> {
    let name = format!("restored{task}");
    // What a restore has left that was looked at in part, or whose end is not known.
    look(mysql, &name).await?;
    drop_database(mysql, &name).await?;
    let host = lab.sql.borrow().files.clone();
    let place = format!("/{}", lab.number());
    let result = save_and_restore(mysql, lab, &host, &place, &name).await;
    host.remove(&place);
    match result {
        // Where definitions change all the time, images of rows are kept for a moment only, or each
        // attempt is killed, no backup succeeds: it was told, and nothing is left.
        Err(Failure::Error(error))
            if error.text.contains(CHANGING) || matches!(error.code, 1297 | 1317) =>
        {
            mysql.pause(200).await;
            return Ok(());
        }
        result => result?,
    }
    drop_database(mysql, &name).await?;
    mysql.pause(200).await;
    Ok(())
}

async fn drop_database(mysql: &Mysql, name: &str) -> Result<(), Failure> {
    mysql.query("USE sq").await?;
    mysql.query(&format!("DROP DATABASE IF EXISTS {name}")).await.map(drop)
}

async fn save_and_restore(
    mysql: &Mysql,
    lab: &Rc<Lab>,
    host: &files::Host,
    place: &str,
    name: &str,
) -> Result<(), Failure> {
    let before = Moment::now(mysql, lab);
    if let Err(failure) = mysql.query(&format!("BACKUP DATABASE sq INTO '{place}'")).await {
        let is_told = matches!(failure, Failure::Error(_));
        assert!(!is_told || !host.has(place), "something is left of a backup: {failure}");
        return Err(failure);
    }
    let after = Moment::now(mysql, lab);
    let restore = format!("RESTORE DATABASE sq AS {name} FROM '{place}'");
    if let Err(failure) = mysql.query(&restore).await {
        if matches!(&failure, Failure::Error(error) if error.code == 1105) {
            assert_eq!(tables(mysql, name).await?, 0, "tables of a restore: {failure}");
        }
        return Err(failure);
    }
    assert!(look(mysql, name).await?, "what is restored is there");
    counters(mysql, name, &before, &after).await
}

/// The tables of a database that are seen.
async fn tables(mysql: &Mysql, name: &str) -> Result<i64, Failure> {
    let count =
        format!("SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = '{name}'");
    Ok(mysql.query(&count).await?.int(0, 0))
}

/// Looks at a database that is restored: nothing of it is there, or all, as of one moment. Whether
/// it is.
pub(super) async fn look(mysql: &Mysql, name: &str) -> Result<bool, Failure> {
    match tables(mysql, name).await? {
        0 => return Ok(false),
        count => assert!(count >= TABLES, "{count} tables of {name}"),
    }
    mysql.query(&format!("USE {name}")).await?;
    bank::check(mysql).await?;
    families::check(mysql).await?;
    online::check(mysql).await?;
    Ok(true)
}

/// Counters are what they were between two moments.
async fn counters(
    mysql: &Mysql,
    name: &str,
    before: &Moment,
    after: &Moment,
) -> Result<(), Failure> {
    let answer = mysql.query(&format!("SELECT id, n FROM {name}.counters")).await?;
    if before.generation != after.generation {
        return Ok(());
    }
    let found: BTreeMap<usize, i64> = (0..answer.rows.len())
        .map(|row| (answer.int(row, 0) as usize, answer.int(row, 1)))
        .collect();
    for (task, (generation, _, most)) in &after.counters {
        let least = match before.counters.get(task) {
            Some((same, least, _)) if same == generation => *least,
            _ => 0,
        };
        if *generation == after.generation {
            let found = found.get(task).copied().unwrap_or(0);
            let range = least..=*most;
            assert!(range.contains(&found), "counter {task} is {found} in a backup, not {range:?}");
        }
    }
    Ok(())
}

/// After all others: backups in a calm cluster come back. Those of whose ends nothing is known are
/// looked at.
pub(super) async fn check(mysql: &Mysql, lab: &Rc<Lab>, first: usize) -> Result<(), Failure> {
    for task in first..first + CLIENTS {
        match round(mysql, lab, task).await {
            Err(Failure::Error(error)) if passes(&Failure::Error(error.clone())) => {}
            result => result?,
        }
    }
    Ok(())
}
