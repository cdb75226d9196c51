//! An archive while all others work: what is restored from it is the state of an epoch, and of no
//! other.
//!
//! The client inserts rows, each in a transaction of its own whose epoch it asks for. All tables
//! are restored into another database until one of these epochs: exactly the rows of this epoch and
//! of those before are there, and the rules of the bank, of the families and of the table with
//! changing indexes hold.

use std::collections::BTreeMap;
use std::rc::Rc;

use model::Epoch;
use stdx::Duration;

use super::{Ended, Failure, Mysql, backups, ended, files};
use crate::lab::Lab;

/// The number of the client.
pub(super) const TASK: usize = 110;
/// The place of the archive, and the database that is restored.
const PLACE: &str = "/archive";
const COPY: &str = "archived";
/// What the refusal says of a moment that is not archived, yet or any more.
const OUTSIDE: &str = "has no state of";
/// What the refusal says of a moment at which definitions were changed.
const UNKNOWN: &str = "the archive does not know when";
/// How often the audit looks whether the archive has come to an epoch, and the pause before.
const LOOKS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(200);

/// Rows that were inserted: the epoch, where that is known; in doubt where not.
#[derive(Debug, Default)]
pub(super) struct Book {
    last: i64,
    rows: BTreeMap<i64, Option<u64>>,
}

/// Whether a failure is one of those that a restore may end with at any time.
pub(super) fn passes(failure: &Failure) -> bool {
    let Failure::Error(error) = failure else { return true };
    let may_be = [
        files::FULL,
        OUTSIDE,
        "goes to",
        "the cluster has been restarted meanwhile",
        "was dropped",
        UNKNOWN,
    ];
    error.code == 1105 && may_be.iter().any(|text| error.text.contains(text))
}

pub(super) async fn round(mysql: &Mysql, lab: &Rc<Lab>) -> Result<(), Failure> {
    start(mysql).await?;
    for _ in 0..=mysql.below(3) {
        insert(mysql, lab).await?;
    }
    let known: Vec<u64> = lab.sql.borrow().archive.rows.values().flatten().copied().collect();
    if !known.is_empty() && mysql.percent(30) {
        let epoch = mysql.pick(&known);
        restore(mysql, lab, epoch).await?;
    }
    mysql.pause(100).await;
    Ok(())
}

async fn start(mysql: &Mysql) -> Result<(), Failure> {
    let create = "CREATE TABLE IF NOT EXISTS sq.archived (n BIGINT PRIMARY KEY, t MEDIUMTEXT)";
    mysql.query(create).await?;
    match mysql.query(&format!("START ARCHIVE INTO '{PLACE}' WITH max_lag = 2")).await {
        Err(Failure::Error(error)) if error.text.contains("goes to") => Ok(()),
        answer => answer.map(drop),
    }
}

/// Inserts a row; its epoch, if that is known.
async fn insert(mysql: &Mysql, lab: &Rc<Lab>) -> Result<Option<u64>, Failure> {
    let number = {
        let book = &mut lab.sql.borrow_mut().archive;
        book.last += 1;
        book.rows.insert(book.last, None);
        book.last
    };
    let length = if number % 5 == 0 { 70_000 } else { 10 };
    let text = format!("INSERT INTO sq.archived VALUES ({number}, REPEAT('{number}', {length}))");
    let answer = mysql.query(&text).await;
    if ended(&answer) == Ended::Aborted {
        lab.sql.borrow_mut().archive.rows.remove(&number);
    }
    answer?;
    let epoch = mysql.query("SELECT @@nines_last_commit_epoch").await?.int(0, 0) as u64;
    let epoch = Some(epoch).filter(|epoch| *epoch > 0);
    lab.sql.borrow_mut().archive.rows.insert(number, epoch);
    Ok(epoch)
}

/// Restores the state of an epoch, and looks at it.
async fn restore(mysql: &Mysql, lab: &Rc<Lab>, epoch: u64) -> Result<(), Failure> {
    drop_copy(mysql).await?;
    let text = format!("RESTORE DATABASE sq AS {COPY} FROM '{PLACE}' UNTIL EPOCH {epoch}");
    mysql.query(&text).await?;
    assert!(backups::look(mysql, COPY).await?, "what is restored is there");
    let answer = mysql.query(&format!("SELECT n, LENGTH(t) FROM {COPY}.archived")).await?;
    let found: BTreeMap<i64, i64> =
        (0..answer.rows.len()).map(|row| (answer.int(row, 0), answer.int(row, 1))).collect();
    for (number, of) in &lab.sql.borrow().archive.rows {
        let is_there = found.contains_key(number);
        // A restart of the whole cluster between them may have lost it, if it was not durable.
        let generation = |epoch: u64| Epoch(epoch).generation();
        let may_be_lost = |of: u64| generation(of) < generation(epoch) && !is_there;
        let is_right = of.is_none_or(|of| is_there == (of <= epoch) || may_be_lost(of));
        assert!(is_right, "row {number} of epoch {of:?} in a state of epoch {epoch}: {is_there}");
    }
    for (number, length) in found {
        let digits = number.to_string().len() as i64;
        let expected = digits * if number % 5 == 0 { 70_000 } else { 10 };
        assert_eq!(length, expected, "the text of row {number}");
        assert!(lab.sql.borrow().archive.rows.contains_key(&number), "row {number} is nobody's");
    }
    drop_copy(mysql).await
}

async fn drop_copy(mysql: &Mysql) -> Result<(), Failure> {
    mysql.query("USE sq").await?;
    mysql.query(&format!("DROP DATABASE IF EXISTS {COPY}")).await.map(drop)
}

/// After all others: in a calm cluster the archive comes to each epoch, and its state is there.
/// Where `ample`, data nodes keep changes for as long as it takes.
/// The archive is stopped whatever was found: nobody archives in a cluster at rest.
pub(super) async fn check(mysql: &Mysql, lab: &Rc<Lab>, ample: bool) -> Result<(), Failure> {
    come_to_now(mysql, lab, ample).await?;
    match mysql.query("STOP ARCHIVE").await {
        Err(failure @ Failure::Error(_)) if failure.code() == 1105 => Ok(()),
        answer => answer.map(drop),
    }
}

/// Waits until the archive has the state of this moment, and looks at that.
async fn come_to_now(mysql: &Mysql, lab: &Rc<Lab>, ample: bool) -> Result<(), Failure> {
    match start(mysql).await {
        Err(failure) if passes(&failure) => return Ok(()),
        result => result?,
    }
    let Some(mut epoch) = insert(mysql, lab).await? else { return Ok(()) };
    for look in 0..LOOKS {
        match restore(mysql, lab, epoch).await {
            Err(Failure::Error(error)) if error.text.contains(OUTSIDE) => {
                assert!(look + 1 < LOOKS || !ample, "{}", error.text);
            }
            // Definitions changed while the archive was behind: a later moment has them.
            Err(Failure::Error(error)) if error.text.contains(UNKNOWN) => {
                epoch = insert(mysql, lab).await?.unwrap_or(epoch);
            }
            Err(failure) if passes(&failure) => return Ok(()),
            result => {
                result?;
                break;
            }
        }
        mysql.sleep(PAUSE).await;
        // A chain that has begun meanwhile has later states.
        if look % 20 == 19 {
            epoch = insert(mysql, lab).await?.unwrap_or(epoch);
        }
    }
    Ok(())
}
