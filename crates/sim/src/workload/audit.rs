//! The last look: everything is read once more and compared with the books.

use std::collections::BTreeMap;
use std::rc::Rc;

use client::ScanSpec;
use model::{TableId, Value};

use super::levels::Level;
use super::{Load, bank, families, int, large, levels, lists, ring};
use crate::lab::Lab;
use crate::session::{Session, is_passing};

/// Reads all rows of a table, however long that takes.
async fn all_rows(session: &Session, lab: &Rc<Lab>, name: &'static str) -> Vec<Vec<Value>> {
    all_rows_of(session, lab.table(name)).await
}

async fn all_rows_of(session: &Session, table: TableId) -> Vec<Vec<Value>> {
    loop {
        match session.scan(ScanSpec::heap(table)).await {
            Ok(rows) => return rows,
            Err(refusal) => assert!(is_passing(&refusal), "reading {table}: {refusal}"),
        }
        session.pause(50).await;
    }
}

/// Compares all tables with the books.
pub(super) async fn audit(session: &Session, lab: &Rc<Lab>, load: &Load) {
    let accounts = all_rows(session, lab, "bank").await;
    let balances: BTreeMap<i64, i64> =
        accounts.iter().map(|row| (int(&row[0]), int(&row[1]))).collect();
    let sum: i64 = balances.values().sum();
    let opening = bank::OPENING_BALANCE * load.accounts as i64;
    assert_eq!(sum, opening, "the sum of all balances at the end");
    let cluster = session.cluster();
    lab.bank.borrow().check(&cluster, &balances);
    let rows = all_rows(session, lab, "lists").await;
    lists::check(&lab.lists.borrow(), &cluster, &rows);
    if load.levels {
        for level in [Level::RepeatableRead, Level::Serializable] {
            let lists = levels::lists_of(&all_rows(session, lab, level.table()).await);
            levels::check(&lab.levels.borrow(), &cluster, level, lists);
        }
    }
    super::storm::check("at the end", &all_rows(session, lab, "storm").await);
    if load.sweeps {
        super::sweeps::check("at the end", &all_rows(session, lab, "sweeps").await);
    }
    let rows = all_rows(session, lab, "counters").await;
    lab.counters.borrow().check(&cluster, &rows);
    let rows = all_rows(session, lab, "singles").await;
    lab.singles.borrow().check(&cluster, &rows);
    let rows = all_rows(session, lab, "ledger").await;
    lab.ledger.borrow_mut().check(&cluster, &rows);
    let rows = all_rows(session, lab, "ring").await;
    ring::check("at the end", load, &rows);
    let parents = all_rows(session, lab, "parents").await;
    let children = all_rows(session, lab, "children").await;
    families::check("at the end", &parents, &children);
    let rows = all_rows(session, lab, "large").await;
    let parts = session.definition(lab.table("large")).and_then(|table| table.large.clone());
    let parts = all_rows_of(session, parts.expect("made so").parts).await;
    large::check("at the end", &rows, &parts);
}
