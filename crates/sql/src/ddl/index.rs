//! CREATE INDEX and DROP INDEX: ALTER TABLE in other words.
//!
//! # Owns
//! The translation.

use sql_expression::SqlError;
use sql_parser::ast::{AlterAction, AlterTable, CreateIndex, DropIndex, TableConstraint};

use super::alter;
use crate::result::Outcome;
use crate::session::Session;

pub(super) async fn create(
    session: &mut Session,
    create: &CreateIndex,
) -> Result<Outcome, SqlError> {
    let statement = AlterTable {
        table: create.table.clone(),
        actions: vec![AlterAction::AddConstraint(TableConstraint::Index(create.index.clone()))],
        algorithm: create.algorithm,
        lock: create.lock,
        validation: None,
    };
    alter::run(session, &statement).await
}

pub(super) async fn drop(session: &mut Session, drop: &DropIndex) -> Result<Outcome, SqlError> {
    let statement = AlterTable {
        table: drop.table.clone(),
        actions: vec![AlterAction::DropIndex(drop.name.clone())],
        algorithm: drop.algorithm,
        lock: drop.lock,
        validation: None,
    };
    alter::run(session, &statement).await
}
