//! Rows whose versions only grow, changed and read by sessions of SQL in all ways: the histories
//! are judged as those of applications that use the client library (`workload::registers`).

use std::collections::BTreeMap;
use std::rc::Rc;

use super::{Ended, Failure, Mysql, ended};
use crate::lab::Lab;
use crate::workload::registers::{Change, PASSING, PASSING_READ, SHARED};

pub(super) const TABLES: &[&str] = &[
    "CREATE TABLE sq.registers (id BIGINT PRIMARY KEY, n BIGINT NOT NULL, kind INT NOT NULL \
     DEFAULT 0, KEY (kind))",
    "INSERT IGNORE INTO sq.registers (id, n) VALUES (0, 0), (1, 0), (2, 0), (3, 0)",
];

/// The row that a session makes and removes: its number, its version, and the restart of the whole
/// cluster that it belongs to.
pub(super) type Own = Option<(i64, i64, usize)>;

/// One change or one look.
pub(super) async fn round(mysql: &Mysql, lab: &Rc<Lab>, own: &mut Own) -> Result<(), Failure> {
    match mysql.below(20) {
        0..4 => change(mysql, lab, vec![Change::Add(shared(mysql))], own).await,
        4..7 => {
            let mut changes = vec![Change::Add(shared(mysql)), Change::Add(shared(mysql))];
            changes.sort_unstable_by_key(|change| change.id());
            changes.dedup_by_key(|change| change.id());
            change(mysql, lab, changes, own).await
        }
        7..10 => {
            let next = next(mysql, lab, own);
            change(mysql, lab, vec![next], own).await
        }
        10..13 => lock(mysql, lab).await,
        13..18 => read(mysql, lab).await,
        _ => inside(mysql, lab).await,
    }
}

fn shared(mysql: &Mysql) -> i64 {
    mysql.below(SHARED as u64) as i64
}

fn next(mysql: &Mysql, lab: &Rc<Lab>, own: &mut Own) -> Change {
    let generation = mysql.generation();
    let last = own.filter(|(_, _, of)| *of == generation);
    let (id, version, _) =
        last.unwrap_or_else(|| (PASSING + i64::from(lab.number()), 0, generation));
    *own = Some((id, version + 1, generation));
    Change::Make(id, version + 1)
}

fn statement(change: Change) -> String {
    match change {
        Change::Add(id) => format!("UPDATE registers SET n = n + 1 WHERE id = {id}"),
        Change::Make(id, version) if version % 2 == 1 => {
            format!("INSERT INTO registers (id, n) VALUES ({id}, {version})")
        }
        Change::Make(id, _) => format!("DELETE FROM registers WHERE id = {id}"),
    }
}

/// Notes the end of a transaction.
fn note(mysql: &Mysql, lab: &Rc<Lab>, asked: usize, changes: &[Change], ended: Ended) {
    let book = &mut lab.sql.borrow_mut().registers;
    let counts = book.counts(mysql.generation(), asked);
    match ended {
        Ended::Committed if counts => book.end(changes, true),
        Ended::Aborted if counts => book.end(changes, false),
        // Begun for ever.
        _ => {}
    }
}

/// Changes rows, in one statement or in a transaction.
async fn change(
    mysql: &Mysql,
    lab: &Rc<Lab>,
    changes: Vec<Change>,
    own: &mut Own,
) -> Result<(), Failure> {
    let asked = mysql.generation();
    lab.sql.borrow_mut().registers.begin(&changes);
    let answer = match changes[..] {
        [one] if mysql.percent(70) => mysql.query(&statement(one)).await,
        [Change::Add(one), Change::Add(other)] if mysql.percent(50) => {
            let both = format!("UPDATE registers SET n = n + 1 WHERE id = {one} OR id = {other}");
            mysql.query(&both).await
        }
        _ => {
            let statements = changes.iter().map(|change| statement(*change)).collect();
            by_transaction(mysql, statements).await
        }
    };
    note(mysql, lab, asked, &changes, ended(&answer));
    let makes = changes.iter().any(|change| matches!(change, Change::Make(..)));
    if makes && answer.is_err() {
        *own = None;
    }
    match answer {
        // After a restart of the whole cluster it may be there again.
        Err(failure) if makes && mysql.generation() > 0 && failure.code() == 1062 => Ok(()),
        other => other.map(drop),
    }
}

/// Statements that are one transaction. What fails before COMMIT has surely not committed.
async fn by_transaction(mysql: &Mysql, statements: Vec<String>) -> Result<super::Answer, Failure> {
    let begun = async {
        mysql.query("BEGIN").await?;
        for statement in &statements {
            mysql.query(statement).await?;
        }
        Ok(())
    };
    if let Err(failure) = begun.await {
        return Err(undone(failure));
    }
    mysql.query("COMMIT").await
}

/// The failure of a statement in a transaction: whatever became of the statement, the transaction
/// has not committed.
fn undone(failure: Failure) -> Failure {
    match failure {
        Failure::Lost => Failure::Error(super::protocol::ServerError {
            code: 1317,
            text: "the connection is lost, and with it the transaction".into(),
        }),
        other => other,
    }
}

/// Rows of an answer with a number and a version each.
fn versions(answer: &super::Answer) -> Vec<(i64, i64)> {
    (0..answer.rows.len()).map(|row| (answer.int(row, 0), answer.int(row, 1))).collect()
}

/// The row that an answer has, if it is there.
fn version(answer: &super::Answer, id: i64) -> Option<i64> {
    versions(answer).iter().find(|(found, _)| *found == id).map(|(_, version)| *version)
}

/// Reads rows by key or all rows, in a statement of its own or as the first of a transaction.
async fn read(mysql: &Mysql, lab: &Rc<Lab>) -> Result<(), Failure> {
    let begin = [
        "",
        "",
        "",
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
    ];
    let begin = mysql.pick(&begin);
    if !begin.is_empty() {
        mysql.query(begin).await?;
        mysql.query("BEGIN").await?;
    }
    let asked = mysql.generation();
    let known = lab.sql.borrow_mut().registers.asked(asked);
    match mysql.below(6) {
        0..4 => by_key(mysql, lab, asked, &known).await?,
        way => {
            let (how, select) = match way {
                4 => ("scan", "SELECT id, n FROM registers"),
                _ => {
                    let by_index = "SELECT id, n FROM registers FORCE INDEX (kind) WHERE kind = 0";
                    ("scan by index", by_index)
                }
            };
            let answer = mysql.query(select).await?;
            let book = &mut lab.sql.borrow_mut().registers;
            if book.counts(mysql.generation(), asked) {
                book.scanned(how, &versions(&answer), &known);
            }
        }
    }
    if !begin.is_empty() {
        mysql.query("COMMIT").await?;
    }
    Ok(())
}

async fn by_key(
    mysql: &Mysql,
    lab: &Rc<Lab>,
    asked: usize,
    known: &BTreeMap<i64, i64>,
) -> Result<(), Failure> {
    let passing = known.keys().rev().take(PASSING_READ).copied().filter(|id| *id >= PASSING);
    let all: Vec<i64> = passing.chain(0..SHARED).collect();
    let ids: Vec<i64> = (0..1 + mysql.below(2)).map(|_| mysql.pick(&all)).collect();
    let select = match ids[..] {
        [id] => format!("SELECT id, n FROM registers WHERE id = {id}"),
        _ => format!("SELECT id, n FROM registers WHERE id IN ({}, {})", ids[0], ids[1]),
    };
    let answer = mysql.query(&select).await?;
    let book = &mut lab.sql.borrow_mut().registers;
    if book.counts(mysql.generation(), asked) {
        for id in ids {
            book.found("read", id, version(&answer, id), known);
        }
    }
    Ok(())
}

/// Locks a row, lets it go again, with the version that was read and one more or as it is, and
/// reads it as everybody does.
async fn lock(mysql: &Mysql, lab: &Rc<Lab>) -> Result<(), Failure> {
    let id = shared(mysql);
    let exclusive = mysql.percent(60);
    mysql.query("BEGIN").await?;
    let asked = mysql.generation();
    let known = lab.sql.borrow_mut().registers.asked(asked);
    let mode = if exclusive { "FOR UPDATE" } else { "FOR SHARE" };
    let select = format!("SELECT id, n FROM registers WHERE id = {id} {mode}");
    let found = version(&mysql.query(&select).await?, id);
    {
        let book = &mut lab.sql.borrow_mut().registers;
        if !book.counts(mysql.generation(), asked) {
            return Ok(());
        }
        book.found("locking read", id, found, &known);
    }
    let changes = if exclusive && mysql.percent(70) { vec![Change::Add(id)] } else { vec![] };
    lab.sql.borrow_mut().registers.begin(&changes);
    let mut ended_as = Ended::Aborted;
    let mut answer = Ok(());
    if let (Some(found), false) = (found, changes.is_empty()) {
        let write = format!("UPDATE registers SET n = {} WHERE id = {id}", found + 1);
        answer = mysql.query(&write).await.map(drop);
    }
    if answer.is_ok() {
        let committed = mysql.query("COMMIT").await;
        ended_as = ended(&committed);
        answer = committed.map(drop);
    }
    note(mysql, lab, asked, &changes, ended_as);
    answer?;
    let known = lab.sql.borrow_mut().registers.asked(asked);
    let again = mysql.query(&format!("SELECT id, n FROM registers WHERE id = {id}")).await?;
    let book = &mut lab.sql.borrow_mut().registers;
    if book.counts(mysql.generation(), asked) {
        book.found("read after a lock", id, version(&again, id), &known);
    }
    Ok(())
}

/// Reads without a lock in a transaction that has written.
async fn inside(mysql: &Mysql, lab: &Rc<Lab>) -> Result<(), Failure> {
    let asked = mysql.generation();
    let changes = [Change::Add(shared(mysql))];
    lab.sql.borrow_mut().registers.begin(&changes);
    let looked = async {
        mysql.query("BEGIN").await?;
        mysql.query(&statement(changes[0])).await?;
        let known = lab.sql.borrow_mut().registers.asked(mysql.generation());
        let found = versions(&mysql.query("SELECT id, n FROM registers WHERE id < 1000").await?);
        let book = &mut lab.sql.borrow_mut().registers;
        if book.counts(mysql.generation(), asked) {
            for (id, version) in found.iter().filter(|(id, _)| *id != changes[0].id()) {
                book.found("read in a transaction", *id, Some(*version), &known);
            }
        }
        Ok::<(), Failure>(())
    };
    let mut ended_as = Ended::Aborted;
    let mut answer = looked.await.map_err(undone);
    if answer.is_ok() {
        let committed = mysql.query("COMMIT").await;
        ended_as = ended(&committed);
        answer = committed.map(drop);
    }
    note(mysql, lab, asked, &changes, ended_as);
    answer
}

/// The rows that are there from the beginning have what was acknowledged.
pub(super) async fn check(mysql: &Mysql, lab: &Rc<Lab>) -> Result<(), Failure> {
    let asked = mysql.generation();
    let known = lab.sql.borrow_mut().registers.asked(asked);
    let answer = mysql.query("SELECT id, n FROM registers").await?;
    let book = &mut lab.sql.borrow_mut().registers;
    if book.counts(mysql.generation(), asked) {
        book.scanned("at the end", &versions(&answer), &known);
    }
    Ok(())
}
