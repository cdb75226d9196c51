//! Rows with numbers by AUTO_INCREMENT, some of which clients choose themselves: no number is given
//! twice, what was acknowledged is there, and nothing is there twice.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::{Ended, Failure, Mysql, ended};
use crate::lab::Lab;

pub(super) const TABLES: &[&str] =
    &["CREATE TABLE sq.tickets (id BIGINT AUTO_INCREMENT PRIMARY KEY, n INT NOT NULL, KEY (n))"];

/// What was inserted.
#[derive(Debug, Default)]
pub(super) struct Tickets {
    /// Names given so far.
    count: i64,
    /// By name: the number, if it was acknowledged, and the restart of the whole cluster since
    /// which it must be there.
    made: BTreeMap<i64, Option<(i64, usize)>>,
    /// Who has which number.
    numbers: BTreeMap<i64, i64>,
    /// The highest number that a client has chosen itself.
    highest: i64,
}

/// Names that are remembered.
const KEPT: usize = 200;

pub(super) async fn round(mysql: &Mysql, lab: &Rc<Lab>, _task: usize) -> Result<(), Failure> {
    for _ in 0..=mysql.below(3) {
        let name = {
            let tickets = &mut lab.sql.borrow_mut().tickets;
            tickets.count += 1;
            tickets.made.insert(tickets.count, None);
            if tickets.made.len() > KEPT {
                tickets.made.pop_first();
            }
            tickets.count
        };
        let generation = mysql.generation();
        let own = mysql.percent(5).then(|| own_number(mysql, lab));
        let insert = match own {
            Some(number) => format!("INSERT INTO tickets (id, n) VALUES ({number}, {name})"),
            None => format!("INSERT INTO tickets (n) VALUES ({name})"),
        };
        let answer = mysql.query(&insert).await;
        let book = &mut lab.sql.borrow_mut().tickets;
        match (ended(&answer), &answer) {
            (Ended::Committed, Ok(inserted)) => {
                let number = own.unwrap_or(inserted.last_id as i64);
                book.made.insert(name, Some((number, generation)));
                // What a restart of the whole cluster has undone may be given again.
                let other = book.numbers.insert(number, name);
                let twice = other.filter(|_| mysql.generation() == 0);
                assert_eq!(twice, None, "number {number} is given twice");
            }
            (Ended::Aborted, _) => {
                book.made.remove(&name);
            }
            _ => {}
        }
        answer?;
    }
    let name = {
        let book = lab.sql.borrow();
        let at = mysql.below(book.tickets.made.len().max(1) as u64) as usize;
        book.tickets.made.keys().nth(at).copied()
    };
    match name {
        Some(name) => look(mysql, lab, name).await,
        None => Ok(()),
    }
}

/// A number that no SQL node has reserved: later ones are given above it.
fn own_number(mysql: &Mysql, lab: &Rc<Lab>) -> i64 {
    let tickets = &mut lab.sql.borrow_mut().tickets;
    let highest = tickets.numbers.keys().next_back().copied().unwrap_or_default();
    tickets.highest = highest.max(tickets.highest) + 10_000 + mysql.below(1_000) as i64;
    tickets.highest
}

/// Looks for the rows of a name.
async fn look(mysql: &Mysql, lab: &Rc<Lab>, name: i64) -> Result<(), Failure> {
    let made = lab.sql.borrow().tickets.made.get(&name).copied().flatten();
    let found = mysql.query(&format!("SELECT id FROM tickets WHERE n = {name}")).await?;
    assert!(found.rows.len() <= 1, "ticket {name} is there {} times", found.rows.len());
    if let Some((number, generation)) = made
        && mysql.generation() == generation
    {
        assert_eq!(found.rows.len(), 1, "ticket {name} was acknowledged");
        assert_eq!(found.int(0, 0), number, "the number of ticket {name}");
    }
    Ok(())
}

pub(super) async fn check(mysql: &Mysql, lab: &Rc<Lab>) -> Result<(), Failure> {
    let names: Vec<i64> = lab.sql.borrow().tickets.made.keys().copied().collect();
    for name in names {
        look(mysql, lab, name).await?;
    }
    Ok(())
}
