//! A table that is emptied, dropped, made anew and exchanged for another one while others add rows:
//! a row is there until the table is cleared after the row was acknowledged, and then it is gone.

use std::collections::BTreeMap;
use std::rc::Rc;

use stdx::{Duration, Instant};

use super::{Answer, Ended, Failure, Mysql, ended};
use crate::lab::Lab;

pub(super) const TABLES: &[&str] =
    &["CREATE TABLE sq.hall (n BIGINT PRIMARY KEY, v INT NOT NULL, KEY (v))"];

/// How long a statement whose connection was lost may still take effect.
const DOUBT: Duration = Duration::from_secs(20);

/// What is known of the rows.
#[derive(Debug, Default)]
pub(super) struct Hall {
    /// Clearings that have begun.
    begun: u64,
    /// The newest clearing that was acknowledged.
    cleared: u64,
    /// Somebody clears the table.
    clearing: bool,
    /// Until when a clearing may be done of which nobody knows how it ended.
    doubtful_until: Instant,
    /// Acknowledged rows, and the clearings that had begun by then.
    rows: BTreeMap<i64, u64>,
    /// The restart of the whole cluster that this is known since.
    generation: usize,
}

impl Hall {
    fn enter(&mut self, generation: usize) -> bool {
        if generation > self.generation {
            self.generation = generation;
            self.rows.clear();
        }
        generation == self.generation
    }

    /// Rows that must be there, and rows that must not, for whoever looks now.
    fn expected(&self, now: Instant) -> (Vec<i64>, Vec<i64>) {
        let is_sure = !self.clearing && now > self.doubtful_until;
        let of = |period: &dyn Fn(u64) -> bool| -> Vec<i64> {
            self.rows.iter().filter(|(_, at)| period(**at)).map(|(n, _)| *n).collect()
        };
        (of(&|at| is_sure && at == self.begun), of(&|at| at < self.cleared))
    }
}

pub(super) async fn round(mysql: &Mysql, lab: &Rc<Lab>) -> Result<(), Failure> {
    let done = match mysql.below(20) {
        0 => clear(mysql, lab).await,
        1..8 => look(mysql, lab).await,
        _ => insert(mysql, lab).await,
    };
    match done {
        // It is made anew, or was when the statement was planned; or what somebody asked for whose
        // connection was lost is done meanwhile.
        Err(failure) if [1050, 1146].contains(&failure.code()) => Ok(()),
        done => done,
    }
}

async fn insert(mysql: &Mysql, lab: &Rc<Lab>) -> Result<(), Failure> {
    let n = i64::from(lab.number());
    let generation = mysql.generation();
    let (begun, was_clearing) = {
        let hall = &lab.sql.borrow().hall;
        (hall.begun, hall.clearing)
    };
    let answer = mysql.query(&format!("INSERT INTO hall VALUES ({n}, {})", n % 7)).await;
    let hall = &mut lab.sql.borrow_mut().hall;
    let is_same = mysql.generation() == generation && hall.enter(generation);
    let is_calm = hall.begun == begun && !was_clearing && mysql.now() > hall.doubtful_until;
    if ended(&answer) == Ended::Committed && is_same && is_calm {
        hall.rows.insert(n, begun);
    }
    answer.map(drop)
}

async fn look(mysql: &Mysql, lab: &Rc<Lab>) -> Result<(), Failure> {
    let generation = mysql.generation();
    let (begun, (there, gone)) = {
        let hall = &mut lab.sql.borrow_mut().hall;
        hall.enter(generation);
        (hall.begun, hall.expected(mysql.now()))
    };
    let select = match mysql.below(3) {
        0 => "SELECT n FROM hall FORCE INDEX (v) WHERE v >= 0",
        _ => "SELECT n FROM hall",
    };
    let answer: Answer = mysql.query(select).await?;
    let found: Vec<i64> = (0..answer.rows.len()).map(|row| answer.int(row, 0)).collect();
    let hall = &lab.sql.borrow().hall;
    if mysql.generation() != generation || hall.generation != generation {
        return Ok(());
    }
    if hall.begun == begun {
        let missing: Vec<i64> = there.into_iter().filter(|n| !found.contains(n)).collect();
        assert!(missing.is_empty(), "rows that nobody has cleared are gone: {missing:?}");
    }
    let back: Vec<i64> = gone.into_iter().filter(|n| found.contains(n)).collect();
    assert!(back.is_empty(), "rows of a table that was cleared: {back:?}");
    Ok(())
}

/// Empties the table in one of the ways.
async fn clear(mysql: &Mysql, lab: &Rc<Lab>) -> Result<(), Failure> {
    let (number, generation) = {
        let hall = &mut lab.sql.borrow_mut().hall;
        if std::mem::replace(&mut hall.clearing, true) {
            return Ok(());
        }
        hall.begun += 1;
        (hall.begun, mysql.generation())
    };
    let done = statements(mysql).await;
    let hall = &mut lab.sql.borrow_mut().hall;
    hall.clearing = false;
    match &done {
        Ok(()) if mysql.generation() == generation && hall.enter(generation) => {
            hall.cleared = number;
            hall.rows.retain(|_, at| *at + 3 > number);
        }
        _ => hall.doubtful_until = mysql.now() + DOUBT,
    }
    done
}

async fn statements(mysql: &Mysql) -> Result<(), Failure> {
    let create = "CREATE TABLE IF NOT EXISTS hall (n BIGINT PRIMARY KEY, v INT NOT NULL, KEY (v))";
    mysql.query(create).await?;
    match mysql.below(4) {
        0..2 => mysql.query("TRUNCATE TABLE hall").await.map(drop),
        2 => {
            mysql.query("DROP TABLE hall").await?;
            mysql.query(create).await.map(drop)
        }
        _ => {
            mysql.query("DROP TABLE IF EXISTS hall_new, hall_old").await?;
            mysql.query("CREATE TABLE hall_new LIKE hall").await?;
            mysql.query("RENAME TABLE hall TO hall_old, hall_new TO hall").await?;
            mysql.query("DROP TABLE hall_old").await.map(drop)
        }
    }
}
