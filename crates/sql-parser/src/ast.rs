//! The syntax tree of MySQL statements: what was said, before anybody asks whether it makes sense.
//!
//! # Owns
//! [`Statement`] and everything below it, all of it owned data without lifetimes, so that a tree
//! can be kept in a plan cache or a catalog.
//! # Invariants
//! 1. What MySQL's own parser rewrites is rewritten here: `a->'$.b'` is a call of `json_extract`,
//!    `a REGEXP b` one of `regexp_like`, `MOD(a, b)` is `a % b`, `DATE_ADD` is interval arithmetic.
//!    A binder meets each meaning in one form.
//! 2. The height of a tree is at most [`crate::TREE_HEIGHT_MAX`]: recursion over it is safe.
//! 3. Two trees are equal when they mean the same; how something was written ([`SourceText`]) does
//!    not count.
//! # Not here
//! Names are not resolved, types not checked; printing is in `printer`.

mod account;
mod administration;
mod backup;
mod changefeed;
mod data_type;
mod expression;
mod hint;
mod manipulation;
mod query;
mod replication;
mod schema;
mod table;

use std::fmt;

pub use account::*;
pub use administration::*;
pub use backup::*;
pub use changefeed::*;
pub use data_type::*;
pub use expression::*;
pub use hint::*;
pub use manipulation::*;
pub use query::*;
pub use replication::*;
pub use schema::*;
pub use table::*;

/// An identifier as written, without its quotes. Whether case counts depends on what it names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ident(Box<str>);

impl Ident {
    /// An identifier of this name.
    pub fn new(name: impl Into<Box<str>>) -> Self {
        Self(name.into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether both name the same where ASCII case does not count: keywords, functions, variables.
    pub fn eq_ignore_ascii_case(&self, other: &str) -> bool {
        self.0.eq_ignore_ascii_case(other)
    }
}

impl fmt::Display for Ident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for Ident {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Ident {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

/// A name with an optional schema: `db.t` or `t`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectName {
    /// The schema (database), if written.
    pub schema: Option<Ident>,
    /// The object's own name.
    pub name: Ident,
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.schema {
            Some(schema) => write!(f, "{schema}.{}", self.name),
            None => write!(f, "{}", self.name),
        }
    }
}

/// The text something was parsed from. Compares equal to every other: the way a thing was written
/// is no part of what it means.
#[derive(Clone, Debug, Default)]
pub struct SourceText(Box<str>);

impl SourceText {
    /// A piece of a statement's text.
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// The text, without surrounding white space.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl PartialEq for SourceText {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for SourceText {}

/// One statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Statement {
    /// SELECT, UNION and its kin, VALUES, TABLE, all with their WITH.
    Query(Box<Query>),
    /// INSERT or REPLACE.
    Insert(Box<Insert>),
    /// UPDATE of one table or many.
    Update(Box<Update>),
    /// DELETE from one table or many.
    Delete(Box<Delete>),
    /// LOAD DATA.
    LoadData(Box<LoadData>),
    /// TRUNCATE TABLE.
    Truncate(ObjectName),
    /// CALL of a stored procedure.
    Call(Call),
    /// DO: evaluate and forget.
    Do(Vec<Expr>),

    /// CREATE TABLE in all its forms.
    CreateTable(Box<CreateTable>),
    /// ALTER TABLE.
    AlterTable(Box<AlterTable>),
    /// DROP TABLE.
    DropTable(DropTable),
    /// RENAME TABLE, pairs of old and new name, done in this order.
    RenameTable(Vec<(ObjectName, ObjectName)>),
    /// CREATE INDEX.
    CreateIndex(Box<CreateIndex>),
    /// DROP INDEX.
    DropIndex(DropIndex),
    /// CREATE DATABASE.
    CreateDatabase(CreateDatabase),
    /// ALTER DATABASE.
    AlterDatabase(AlterDatabase),
    /// DROP DATABASE.
    DropDatabase(DropDatabase),
    /// CREATE VIEW, with or without OR REPLACE, and ALTER VIEW.
    CreateView(Box<CreateView>),
    /// DROP VIEW.
    DropView(DropView),
    /// CREATE TRIGGER.
    CreateTrigger(Box<CreateTrigger>),
    /// DROP TRIGGER.
    DropTrigger(DropObject),
    /// CREATE PROCEDURE or CREATE FUNCTION with a body in SQL.
    CreateRoutine(Box<CreateRoutine>),
    /// DROP PROCEDURE or DROP FUNCTION.
    DropRoutine(DropRoutine),
    /// CREATE EVENT.
    CreateEvent(Box<CreateEvent>),
    /// DROP EVENT.
    DropEvent(DropObject),

    /// CREATE USER.
    CreateUser(Box<CreateUser>),
    /// ALTER USER.
    AlterUser(Box<AlterUser>),
    /// DROP USER.
    DropUser(DropUser),
    /// RENAME USER, pairs of old and new account.
    RenameUser(Vec<(Account, Account)>),
    /// CREATE ROLE.
    CreateRole(CreateRole),
    /// DROP ROLE.
    DropRole(DropUser),
    /// GRANT of privileges or roles.
    Grant(Box<Grant>),
    /// REVOKE of privileges or roles.
    Revoke(Box<Revoke>),
    /// SET PASSWORD.
    SetPassword(Box<SetPassword>),
    /// SET ROLE.
    SetRole(RoleChoice),
    /// SET DEFAULT ROLE.
    SetDefaultRole(SetDefaultRole),

    /// START TRANSACTION or BEGIN.
    StartTransaction(StartTransaction),
    /// COMMIT.
    Commit(TransactionEnd),
    /// ROLLBACK of the whole transaction.
    Rollback(TransactionEnd),
    /// SAVEPOINT.
    Savepoint(Ident),
    /// ROLLBACK TO \[SAVEPOINT\].
    RollbackToSavepoint(Ident),
    /// RELEASE SAVEPOINT.
    ReleaseSavepoint(Ident),
    /// SET \[GLOBAL | SESSION\] TRANSACTION.
    SetTransaction(SetTransaction),
    /// LOCK TABLES.
    LockTables(Vec<TableLock>),
    /// UNLOCK TABLES.
    UnlockTables,
    /// LOCK INSTANCE FOR BACKUP.
    LockInstance,
    /// UNLOCK INSTANCE.
    UnlockInstance,
    /// ALTER INSTANCE RELOAD TLS; true for NO ROLLBACK ON ERROR.
    ReloadTls(bool),

    /// SET of variables, in the order written.
    Set(Vec<SetItem>),
    /// RESET PERSIST.
    ResetPersist(ResetPersist),
    /// PURGE BINARY LOGS.
    PurgeBinaryLogs(PurgeBinaryLogs),
    /// SHOW.
    Show(Box<Show>),
    /// DESCRIBE of a table: `DESC t [column or pattern]`.
    Describe(Describe),
    /// EXPLAIN of a statement.
    Explain(Box<Explain>),
    /// USE.
    Use(Ident),
    /// KILL.
    Kill(Kill),
    /// PREPARE.
    Prepare(Prepare),
    /// EXECUTE.
    Execute(Execute),
    /// DEALLOCATE or DROP PREPARE.
    Deallocate(Ident),
    /// FLUSH.
    Flush(Flush),
    /// ANALYZE, CHECK, OPTIMIZE, REPAIR or CHECKSUM TABLE.
    TableMaintenance(TableMaintenance),
    /// BACKUP.
    Backup(Box<Backup>),
    /// RESTORE.
    Restore(Box<Backup>),
    /// CANCEL BACKUP JOB, by its number.
    CancelBackup(u64),
    /// START ARCHIVE.
    StartArchive(Box<StartArchive>),
    /// STOP ARCHIVE, by its number; the only one if none is given.
    StopArchive(Option<u64>),
    /// CREATE CHANGEFEED.
    CreateChangefeed(Box<CreateChangefeed>),
    /// PAUSE, RESUME or DROP CHANGEFEED.
    Changefeed(ChangefeedCommand),
    /// STREAM CHANGEFEED.
    StreamChangefeed(StreamChangefeed),
    /// CHANGE REPLICATION SOURCE.
    ChangeSource(Box<ChangeSource>),
    /// CHANGE REPLICATION FILTER.
    ChangeFilter(Box<ChangeFilter>),
    /// START, STOP or RESET REPLICA.
    Replica(ReplicaCommand),
    /// HELP.
    Help(Box<str>),
    /// SHUTDOWN.
    Shutdown,
    /// RESTART.
    Restart,
    /// Nothing but comments.
    Empty,
    /// A statement the grammar knows and the tree does not model: answer with error 1235.
    Unsupported {
        /// The statement's name, upper case, as it stands in an error: `XA`, `INSTALL PLUGIN`.
        feature: Box<str>,
    },
}
