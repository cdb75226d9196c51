//! Databases, views, triggers, routines and events.

use super::{Account, CharacterSet, Ident, ObjectName, Query, SourceText};

/// CREATE DATABASE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateDatabase {
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// The database.
    pub name: Ident,
    /// Options in order; a later one wins.
    pub options: Vec<DatabaseOption>,
}

/// ALTER DATABASE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterDatabase {
    /// The database; the current one if not given.
    pub name: Option<Ident>,
    /// Options in order; a later one wins.
    pub options: Vec<DatabaseOption>,
}

/// An option of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DatabaseOption {
    /// \[DEFAULT\] CHARACTER SET.
    Charset(CharacterSet),
    /// \[DEFAULT\] COLLATE.
    Collate(Ident),
    /// \[DEFAULT\] ENCRYPTION.
    Encryption(Box<str>),
    /// READ ONLY; none for DEFAULT.
    ReadOnly(Option<bool>),
}

/// DROP DATABASE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropDatabase {
    /// IF EXISTS.
    pub if_exists: bool,
    /// The database.
    pub name: Ident,
}

/// CREATE VIEW or ALTER VIEW.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateView {
    /// OR REPLACE.
    pub or_replace: bool,
    /// ALTER VIEW: there must be one already.
    pub alter: bool,
    /// ALGORITHM.
    pub algorithm: Option<ViewAlgorithm>,
    /// DEFINER.
    pub definer: Option<Account>,
    /// SQL SECURITY INVOKER is true, DEFINER false, if said.
    pub invoker: Option<bool>,
    /// The view.
    pub name: ObjectName,
    /// Names of its columns, if given.
    pub columns: Vec<Ident>,
    /// Its rows.
    pub query: Box<Query>,
    /// The query as written.
    pub text: SourceText,
    /// WITH CHECK OPTION.
    pub check_option: Option<CheckOption>,
}

/// ALGORITHM of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewAlgorithm {
    /// UNDEFINED.
    Undefined,
    /// MERGE.
    Merge,
    /// TEMPTABLE.
    Temptable,
}

/// WITH CHECK OPTION.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckOption {
    /// CASCADED, also when not said.
    Cascaded,
    /// LOCAL.
    Local,
}

/// DROP VIEW.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropView {
    /// IF EXISTS.
    pub if_exists: bool,
    /// The views.
    pub views: Vec<ObjectName>,
}

/// DROP of a trigger or an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropObject {
    /// IF EXISTS.
    pub if_exists: bool,
    /// Which.
    pub name: ObjectName,
}

/// CREATE TRIGGER.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateTrigger {
    /// DEFINER.
    pub definer: Option<Account>,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// The trigger.
    pub name: ObjectName,
    /// AFTER, else BEFORE.
    pub after: bool,
    /// Which change.
    pub event: TriggerEvent,
    /// The table.
    pub table: ObjectName,
    /// FOLLOWS (true) or PRECEDES another trigger.
    pub order: Option<(bool, Ident)>,
    /// The text of the body.
    pub body: Box<str>,
}

/// What fires a trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriggerEvent {
    /// INSERT.
    Insert,
    /// UPDATE.
    Update,
    /// DELETE.
    Delete,
}

/// CREATE PROCEDURE or CREATE FUNCTION.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateRoutine {
    /// A function, else a procedure.
    pub function: bool,
    /// DEFINER.
    pub definer: Option<Account>,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// The routine.
    pub name: ObjectName,
    /// Everything from the parameters on, as written: parameters, characteristics, body.
    pub body: Box<str>,
}

/// DROP PROCEDURE or DROP FUNCTION.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropRoutine {
    /// A function, else a procedure.
    pub function: bool,
    /// IF EXISTS.
    pub if_exists: bool,
    /// The routine.
    pub name: ObjectName,
}

/// CREATE EVENT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateEvent {
    /// DEFINER.
    pub definer: Option<Account>,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// The event.
    pub name: ObjectName,
    /// Everything from ON SCHEDULE on, as written.
    pub body: Box<str>,
}
