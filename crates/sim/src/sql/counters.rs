//! Counters that one client adds to by prepared statements that commit by themselves: what was
//! acknowledged counts, and counts once.

use std::rc::Rc;

use super::{Ended, Failure, Mysql, ended};
use crate::lab::Lab;

pub(super) const TABLES: &[&str] =
    &["CREATE TABLE sq.counters (id INT PRIMARY KEY, n BIGINT NOT NULL)"];

/// What a counter must say.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Count {
    /// The restart of the whole cluster since which it is so.
    generation: usize,
    /// What was read then, with what was acknowledged since.
    least: i64,
    /// Additions whose end is not known.
    doubtful: i64,
}

impl Count {
    /// The restart since which it is so, the least and the most that the counter may say.
    pub(super) fn bounds(&self) -> (usize, i64, i64) {
        (self.generation, self.least, self.least + self.doubtful)
    }
}

pub(super) async fn round(mysql: &Mysql, lab: &Rc<Lab>, task: usize) -> Result<(), Failure> {
    read(mysql, lab, task).await?;
    let text = "INSERT INTO counters (id, n) VALUES (?, 1) ON DUPLICATE KEY UPDATE n = n + 1";
    let statement = mysql.prepare(text).await?;
    for _ in 0..=mysql.below(4) {
        let generation = mysql.generation();
        edit(lab, task, |count| count.doubtful += 1);
        let answer = mysql.execute(statement, &[task as i64]).await;
        let ended = ended(&answer);
        edit(lab, task, |count| {
            let same = count.generation == generation && mysql.generation() == generation;
            if ended == Ended::Aborted || (ended == Ended::Committed && same) {
                count.doubtful -= 1;
                count.least += i64::from(ended == Ended::Committed);
            }
        });
        answer?;
    }
    mysql.forget(statement).await;
    read(mysql, lab, task).await
}

fn edit(lab: &Rc<Lab>, task: usize, change: impl FnOnce(&mut Count)) {
    change(lab.sql.borrow_mut().counters.entry(task).or_default());
}

/// What is there is what was acknowledged, and at most what is in doubt beside it.
async fn read(mysql: &Mysql, lab: &Rc<Lab>, task: usize) -> Result<(), Failure> {
    let generation = mysql.generation();
    let answer = mysql.query(&format!("SELECT n FROM counters WHERE id = {task}")).await?;
    let found = if answer.rows.is_empty() { 0 } else { answer.int(0, 0) };
    if mysql.generation() != generation {
        return Ok(());
    }
    edit(lab, task, |count| {
        let most = count.least + count.doubtful;
        if count.generation == generation {
            let range = count.least..=most;
            assert!(range.contains(&found), "counter {task} is {found}, not of {range:?}");
        } else {
            assert!(found <= most, "counter {task} is {found} after a restart, at most {most}");
            *count = Count { generation, least: found, doubtful: 0 };
        }
    });
    Ok(())
}

pub(super) async fn check(mysql: &Mysql, lab: &Rc<Lab>) -> Result<(), Failure> {
    let tasks: Vec<usize> = lab.sql.borrow().counters.keys().copied().collect();
    for task in tasks {
        read(mysql, lab, task).await?;
    }
    Ok(())
}
