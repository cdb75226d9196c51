//! Transactions, variables, SHOW and the rest of what a session says about itself and the server.

use super::{Account, CharacterSet, Expr, Ident, ObjectName, Statement, VariableScope};

/// START TRANSACTION, BEGIN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StartTransaction {
    /// WITH CONSISTENT SNAPSHOT.
    pub consistent_snapshot: bool,
    /// READ ONLY is true, READ WRITE false, if said.
    pub read_only: Option<bool>,
}

/// What follows COMMIT and ROLLBACK.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransactionEnd {
    /// AND \[NO\] CHAIN, if said.
    pub chain: Option<bool>,
    /// \[NO\] RELEASE, if said.
    pub release: Option<bool>,
}

/// SET TRANSACTION.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetTransaction {
    /// For whom; only the next transaction if not said.
    pub scope: Option<VariableScope>,
    /// ISOLATION LEVEL.
    pub isolation: Option<IsolationLevel>,
    /// READ ONLY is true, READ WRITE false.
    pub read_only: Option<bool>,
}

/// RESET PERSIST.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResetPersist {
    /// IF EXISTS.
    pub if_exists: bool,
    /// The variable; all of them if none is named.
    pub variable: Option<Ident>,
}

/// PURGE BINARY LOGS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PurgeBinaryLogs {
    /// TO: the files before this one.
    To(Box<str>),
    /// BEFORE: the files that end before this time.
    Before(Expr),
}

/// The isolation levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IsolationLevel {
    /// READ UNCOMMITTED.
    ReadUncommitted,
    /// READ COMMITTED.
    ReadCommitted,
    /// REPEATABLE READ.
    RepeatableRead,
    /// SERIALIZABLE.
    Serializable,
}

/// A table of LOCK TABLES.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableLock {
    /// The table.
    pub table: ObjectName,
    /// AS.
    pub alias: Option<Ident>,
    /// How.
    pub kind: TableLockKind,
}

/// How LOCK TABLES locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableLockKind {
    /// READ.
    Read,
    /// READ LOCAL.
    ReadLocal,
    /// WRITE, also LOW_PRIORITY WRITE.
    Write,
}

/// An element of SET.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetItem {
    /// `@name = value`.
    User(Ident, Expr),
    /// A system variable, or one of a routine; value [`Expr::DefaultValue`] for DEFAULT.
    /// A bare word as value, as in `SET x = on`, is a column.
    Variable(VariableTarget, Expr),
    /// `NEW.column` or `OLD.column` in a trigger.
    TriggerColumn(Ident, Ident, Expr),
    /// NAMES.
    Names(CharacterSet, Option<Ident>),
    /// CHARACTER SET.
    Charset(CharacterSet),
}

/// A variable that is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariableTarget {
    /// The scope, if said. Without one, `SET x` may also be a variable of a routine.
    pub scope: Option<VariableScope>,
    /// Written `@@x`: not a variable of a routine.
    pub system: bool,
    /// What stands before the dot: a component or the name of a key cache.
    pub component: Option<Ident>,
    /// The name, lower case.
    pub name: Ident,
}

/// SHOW.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Show {
    /// DATABASES, SCHEMAS.
    Databases(ShowFilter),
    /// TABLES.
    Tables {
        /// FULL.
        full: bool,
        /// EXTENDED.
        extended: bool,
        /// FROM.
        schema: Option<Ident>,
        /// LIKE, WHERE.
        filter: ShowFilter,
    },
    /// TABLE STATUS.
    TableStatus {
        /// FROM.
        schema: Option<Ident>,
        /// LIKE, WHERE.
        filter: ShowFilter,
    },
    /// OPEN TABLES.
    OpenTables {
        /// FROM.
        schema: Option<Ident>,
        /// LIKE, WHERE.
        filter: ShowFilter,
    },
    /// COLUMNS, FIELDS.
    Columns {
        /// FULL.
        full: bool,
        /// EXTENDED.
        extended: bool,
        /// FROM; a second FROM is its schema.
        table: ObjectName,
        /// LIKE, WHERE.
        filter: ShowFilter,
    },
    /// INDEX, INDEXES, KEYS.
    Indexes {
        /// EXTENDED.
        extended: bool,
        /// FROM; a second FROM is its schema.
        table: ObjectName,
        /// WHERE.
        filter: Option<Expr>,
    },
    /// TRIGGERS.
    Triggers {
        /// FULL.
        full: bool,
        /// FROM.
        schema: Option<Ident>,
        /// LIKE, WHERE.
        filter: ShowFilter,
    },
    /// EVENTS.
    Events {
        /// FROM.
        schema: Option<Ident>,
        /// LIKE, WHERE.
        filter: ShowFilter,
    },
    /// CREATE DATABASE.
    CreateDatabase {
        /// IF NOT EXISTS.
        if_not_exists: bool,
        /// The database.
        name: Ident,
    },
    /// CREATE TABLE, VIEW, PROCEDURE, FUNCTION, TRIGGER, EVENT.
    Create(CreatedObject, ObjectName),
    /// CREATE USER.
    CreateUser(Account),
    /// VARIABLES.
    Variables(Option<VariableScope>, ShowFilter),
    /// STATUS.
    Status(Option<VariableScope>, ShowFilter),
    /// BACKUPS of a place.
    Backups(Box<[u8]>),
    /// BACKUP JOBS.
    BackupJobs,
    /// ARCHIVES.
    Archives,
    /// CHANGEFEEDS.
    Changefeeds,
    /// WARNINGS.
    Warnings(Option<super::Limit>),
    /// ERRORS.
    Errors(Option<super::Limit>),
    /// COUNT(*) WARNINGS.
    WarningCount,
    /// COUNT(*) ERRORS.
    ErrorCount,
    /// \[STORAGE\] ENGINES.
    Engines,
    /// ENGINE x STATUS, MUTEX, LOGS.
    Engine {
        /// Its name; none for ALL.
        name: Option<Ident>,
        /// What of it.
        what: EngineReport,
    },
    /// PLUGINS.
    Plugins,
    /// CHARACTER SET, CHARSET.
    CharacterSets(ShowFilter),
    /// COLLATION.
    Collations(ShowFilter),
    /// PROCESSLIST; true for FULL.
    ProcessList(bool),
    /// GRANTS.
    Grants {
        /// FOR; oneself if not given.
        account: Option<Account>,
        /// USING.
        using: Vec<Account>,
    },
    /// PRIVILEGES.
    Privileges,
    /// FUNCTION STATUS.
    FunctionStatus(ShowFilter),
    /// PROCEDURE STATUS.
    ProcedureStatus(ShowFilter),
    /// FUNCTION CODE is true, PROCEDURE CODE false.
    RoutineCode(bool, ObjectName),
    /// MASTER STATUS, BINARY LOG STATUS.
    BinaryLogStatus,
    /// BINARY LOGS, MASTER LOGS.
    BinaryLogs,
    /// BINLOG EVENTS is false, RELAYLOG EVENTS true.
    LogEvents {
        /// RELAYLOG.
        relay: bool,
        /// IN.
        file: Option<Box<str>>,
        /// FROM.
        position: Option<u64>,
        /// LIMIT.
        limit: Option<super::Limit>,
        /// FOR CHANNEL.
        channel: Option<Box<str>>,
    },
    /// REPLICA STATUS, with the channel.
    ReplicaStatus(Option<Box<str>>),
    /// REPLICAS.
    Replicas,
    /// PROFILES.
    Profiles,
    /// PROFILE.
    Profile {
        /// The kinds, upper case.
        kinds: Vec<Box<str>>,
        /// FOR QUERY.
        query: Option<u64>,
        /// LIMIT.
        limit: Option<super::Limit>,
    },
}

/// What SHOW CREATE shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreatedObject {
    /// TABLE.
    Table,
    /// VIEW.
    View,
    /// PROCEDURE.
    Procedure,
    /// FUNCTION.
    Function,
    /// TRIGGER.
    Trigger,
    /// EVENT.
    Event,
}

/// What SHOW ENGINE shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineReport {
    /// STATUS.
    Status,
    /// MUTEX.
    Mutex,
    /// LOGS.
    Logs,
}

/// LIKE or WHERE of SHOW.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ShowFilter {
    /// Everything.
    #[default]
    None,
    /// LIKE.
    Like(Box<[u8]>),
    /// WHERE.
    Where(Expr),
}

/// DESCRIBE of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Describe {
    /// The table.
    pub table: ObjectName,
    /// A column's name or a pattern.
    pub column: Option<Box<str>>,
}

/// EXPLAIN of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explain {
    /// ANALYZE.
    pub analyze: bool,
    /// FORMAT, if said.
    pub format: Option<ExplainFormat>,
    /// INTO a user variable.
    pub into: Option<Ident>,
    /// Of what.
    pub target: ExplainTarget,
}

/// FORMAT of EXPLAIN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExplainFormat {
    /// TRADITIONAL.
    Traditional,
    /// JSON.
    Json,
    /// TREE.
    Tree,
}

/// What EXPLAIN explains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExplainTarget {
    /// A query, INSERT, REPLACE, UPDATE or DELETE.
    Statement(Box<Statement>),
    /// FOR CONNECTION.
    Connection(u64),
}

/// KILL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kill {
    /// QUERY, else the connection.
    pub query: bool,
    /// Which connection.
    pub id: Expr,
}

/// PREPARE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepare {
    /// The statement's name.
    pub name: Ident,
    /// Its text.
    pub source: PrepareSource,
}

/// The text of a prepared statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PrepareSource {
    /// A string.
    Text(Box<[u8]>),
    /// A user variable.
    Variable(Ident),
}

/// EXECUTE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Execute {
    /// The statement's name.
    pub name: Ident,
    /// USING these user variables.
    pub variables: Vec<Ident>,
}

/// FLUSH.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flush {
    /// NO_WRITE_TO_BINLOG, LOCAL.
    pub local: bool,
    /// What.
    pub what: FlushTarget,
}

/// What FLUSH flushes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlushTarget {
    /// TABLES.
    Tables {
        /// Which; all if empty.
        tables: Vec<ObjectName>,
        /// WITH READ LOCK.
        read_lock: bool,
        /// FOR EXPORT.
        export: bool,
    },
    /// PRIVILEGES, STATUS, LOGS and so on, each in upper case.
    Options(Vec<Box<str>>),
}

/// ANALYZE TABLE and its kin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableMaintenance {
    /// Which.
    pub operation: MaintenanceOperation,
    /// NO_WRITE_TO_BINLOG, LOCAL.
    pub local: bool,
    /// The tables.
    pub tables: Vec<ObjectName>,
    /// Further words, each in upper case: `QUICK`, `FOR UPGRADE`.
    pub options: Vec<Box<str>>,
    /// UPDATE or DROP HISTOGRAM.
    pub histogram: Option<Histogram>,
}

/// What is done to a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaintenanceOperation {
    /// ANALYZE.
    Analyze,
    /// CHECK.
    Check,
    /// CHECKSUM.
    Checksum,
    /// OPTIMIZE.
    Optimize,
    /// REPAIR.
    Repair,
}

/// HISTOGRAM of ANALYZE TABLE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// DROP, else UPDATE.
    pub drop: bool,
    /// The columns.
    pub columns: Vec<Ident>,
    /// WITH n BUCKETS.
    pub buckets: Option<u64>,
    /// USING DATA.
    pub data: Option<Box<str>>,
}
