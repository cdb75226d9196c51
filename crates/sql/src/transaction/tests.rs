//! What a session waits for when its commits are to be on disk; what its snapshots have.

use std::task::{Context, Waker};

use client::ClientOperation;
use model::{Epoch, SchemaChange, TableId};
use sql_parser::ast::{Ident, SystemVariable};
use sqltype::Datum;

use crate::catalog::harness::Harness;
use crate::kernel::{Ask, Lane};
use crate::variables::choice::Durability;
use crate::variables::session::lookup;

/// A session in a cluster with disks and a table.
fn harness() -> Harness {
    let mut harness = Harness::new();
    harness.world.exchange.borrow_mut().has_disk = true;
    harness.ok("CREATE TABLE t (a INT PRIMARY KEY)");
    harness
}

impl Harness {
    fn receipt(&mut self) -> Datum {
        self.wait(async |session| session.commit_receipt().await).unwrap()
    }

    /// Inserts a row in a transaction of its own, as the end of a statement does.
    fn commit_row(&mut self, beside: bool) {
        let table = self.table("d.t").id;
        let number = self.rows("d.t").len() as i64;
        let operations = vec![ClientOperation::insert(table, vec![model::Value::Int(number)])];
        self.wait(async |session| {
            let kernel = if beside { session.kernel.beside() } else { session.kernel.clone() };
            kernel.execute_and_commit(operations).await.unwrap();
            session.secure().await.unwrap();
        });
    }
}

#[test]
fn only_commits_for_the_disk_wait_for_it() {
    let mut harness = harness();
    harness.commit_row(false);
    assert_eq!(harness.world.saved, 0);
    harness.ok("SET nines_durability = 'disk'");
    assert_eq!(harness.session.variables.durability, Durability::Disk);
    harness.commit_row(false);
    assert_eq!(harness.world.saved, 1);
    // All epochs are alike in this harness: the next commit is on disk already.
    harness.commit_row(false);
    assert_eq!(harness.world.saved, 1);
    harness.ok("SET nines_durability = DEFAULT");
    assert_eq!(harness.session.variables.durability, Durability::Memory);
}

/// Statements after it have nothing to do with a commit that may not be on disk.
#[test]
fn a_commit_that_may_not_be_on_disk_is_told_of_once() {
    let mut harness = harness();
    harness.ok("SET nines_durability = 'disk'");
    harness.world.disks_are_silent = true;
    let table = harness.table("d.t").id;
    let operations = vec![ClientOperation::insert(table, vec![model::Value::Int(1)])];
    let result = harness.wait(async |session| {
        session.kernel.execute_and_commit(operations).await.unwrap();
        session.secure().await
    });
    assert_eq!(result.unwrap_err().code(), 1180);
    harness.ok("SET @a = 1");
    assert!(harness.wait(async |session| session.secure().await).is_ok());
    harness.ok("SET nines_durability = 'memory'");
}

#[test]
fn what_is_done_beside_a_transaction_is_waited_for_too() {
    let mut harness = harness();
    harness.ok("SET nines_durability = disk");
    harness.commit_row(true);
    assert_eq!(harness.world.saved, 1);
    assert_eq!(harness.receipt(), Datum::Null);
}

#[test]
fn the_epoch_of_the_last_commit_is_a_variable() {
    let mut harness = harness();
    let epoch = |harness: &mut Harness| {
        let name = Ident::from("nines_last_commit_epoch");
        let variable = SystemVariable { scope: None, component: None, name };
        lookup(&harness.session, &variable).unwrap().0
    };
    assert_eq!(epoch(&mut harness), Datum::UInt(0));
    harness.commit_row(false);
    assert_eq!(epoch(&mut harness), Datum::UInt(1));
    let error = harness.run("SET SESSION nines_last_commit_epoch = 7").unwrap_err();
    assert_eq!(error.code(), 1238);
}

#[test]
fn a_receipt_says_how_far_the_last_commit_is() {
    let mut harness = harness();
    assert_eq!(harness.receipt(), Datum::Null);
    harness.commit_row(false);
    assert_eq!(harness.receipt(), Datum::text("memory"));
    harness.world.durable = Epoch(1);
    assert_eq!(harness.receipt(), Datum::text("disk"));
    // It is remembered.
    harness.world.durable = Epoch(0);
    assert_eq!(harness.receipt(), Datum::text("disk"));
}

#[test]
fn a_cluster_in_memory_promises_no_disk() {
    let mut harness = harness();
    harness.world.exchange.borrow_mut().has_disk = false;
    for scope in ["", "GLOBAL "] {
        let error = harness.run(&format!("SET {scope}nines_durability = disk")).unwrap_err();
        assert_eq!(error.code(), 1231);
        assert!(error.message().contains("start it with a data directory"), "{error:?}");
        harness.ok(&format!("SET {scope}nines_durability = memory"));
    }
    harness.commit_row(false);
    harness.world.durable = Epoch(9);
    assert_eq!(harness.receipt(), Datum::text("memory"));
}

#[test]
fn a_copied_table_takes_its_place_when_its_rows_are_on_disk() {
    let mut harness = harness();
    harness.commit_row(false);
    harness.ok("ALTER TABLE t MODIFY a BIGINT");
    assert_eq!(harness.world.saved, 1);
    let replaced = |change: &&SchemaChange| match change {
        SchemaChange::Together { changes, .. } => {
            changes.iter().any(|change| matches!(change, SchemaChange::ReplaceTable { .. }))
        }
        _ => false,
    };
    assert_eq!(harness.world.changes.iter().filter(replaced).count(), 1);
    harness.world.exchange.borrow_mut().has_disk = false;
    harness.ok("ALTER TABLE t MODIFY a INT");
    assert_eq!(harness.world.saved, 1);
}

/// A table without indexes has the last number that was given.
#[test]
fn a_snapshot_has_the_table_that_was_made_last_before_it() {
    let mut harness = harness();
    harness.ok("CREATE TABLE newest (a INT, PRIMARY KEY (a) USING HASH)");
    let newest = harness.table("d.newest").id;
    assert_eq!(newest.0, harness.world.state.next_id);
    harness.ok("SET transaction_isolation = 'REPEATABLE-READ'");
    harness.ok("SET autocommit = 0");
    let mut read = |table| harness.wait(async |session| session.read_snapshot(&[table]).await);
    assert_eq!(read(newest).unwrap(), Some(Epoch(1)));
    assert_eq!(read(TableId(newest.0 + 1)).unwrap_err().code(), 1412, "it is younger");
}

/// Whoever goes on after a statement that failed would commit a transaction without its beginning.
#[test]
fn a_transaction_that_is_gone_is_told_of_once_and_to_who_goes_on() {
    let mut harness = harness();
    harness.said("BEGIN");
    harness.session.lose_transaction();
    // What says nothing of rows goes on.
    harness.said("SET @a = 1");
    harness.said("SHOW WARNINGS");
    assert_eq!(harness.refused("INSERT INTO t VALUES (1)"), 1297);
    assert_eq!(harness.rows("d.t").len(), 0);
    harness.said("INSERT INTO t VALUES (1)");
    harness.session.lose_transaction();
    assert_eq!(harness.refused("COMMIT"), 1297);
    harness.session.lose_transaction();
    harness.said("ROLLBACK");
    harness.said("INSERT INTO t VALUES (2)");
    assert_eq!(harness.rows("d.t").len(), 2);
}

/// The first request of a transaction may be under way before the transaction has a name: what it
/// does must not become part of what the session does next.
#[test]
fn a_request_under_way_goes_with_the_statement_that_was_interrupted() {
    let mut harness = harness();
    harness.said("BEGIN");
    harness.said("SAVEPOINT s");
    let mark = harness.session.mark();
    let kernel = harness.session.kernel.clone();
    let table = harness.table("d.t").id;
    let insert = vec![ClientOperation::insert(table, vec![model::Value::Int(1)])];
    let mut statement = Box::pin(kernel.execute_all(insert, false));
    let polled = statement.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending());
    drop(statement);
    assert!(kernel.transaction().is_none() && kernel.is_in_transaction());
    assert!(harness.session.abandon(mark), "nothing but the statement has gone");
    assert!(!kernel.is_in_transaction());
    let asks = &harness.world.exchange.borrow().asks;
    let last = asks.back().map(|queued| (queued.lane, &queued.ask));
    assert!(matches!(last, Some((Lane::User, Ask::Abandon))), "{asks:?}");
    // The user's transaction goes on as it was begun.
    assert!(harness.session.in_transaction());
    assert_eq!(harness.session.transaction.savepoints.len(), 1);
}
