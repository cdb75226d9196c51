//! CHANGE REPLICATION SOURCE, CHANGE REPLICATION FILTER, START, STOP and RESET REPLICA.

use super::{Ident, ObjectName};

/// CHANGE REPLICATION SOURCE TO, or CHANGE MASTER TO.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeSource {
    /// In the order written.
    pub options: Vec<SourceOption>,
    /// FOR CHANNEL.
    pub channel: Option<Box<str>>,
}

/// `SOURCE_HOST = 'a'`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceOption {
    /// The name in upper case, `MASTER` in it written as `SOURCE`.
    pub name: Box<str>,
    /// What it is set to.
    pub value: SourceValue,
}

/// The value of an option of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceValue {
    /// A string.
    Text(Box<[u8]>),
    /// A number, as it was written.
    Number(Box<str>),
    /// A word: `NULL`, `OFF`, `slave_pos`.
    Word(Ident),
    /// Numbers in parentheses.
    Numbers(Vec<u64>),
}

/// CHANGE REPLICATION FILTER.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeFilter {
    /// In the order written.
    pub rules: Vec<FilterRule>,
    /// FOR CHANNEL.
    pub channel: Option<Box<str>>,
}

/// A rule of a filter, with what it lists; nothing if it is to be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilterRule {
    /// REPLICATE_DO_DB.
    DoDatabases(Vec<Ident>),
    /// REPLICATE_IGNORE_DB.
    IgnoreDatabases(Vec<Ident>),
    /// REPLICATE_DO_TABLE.
    DoTables(Vec<ObjectName>),
    /// REPLICATE_IGNORE_TABLE.
    IgnoreTables(Vec<ObjectName>),
    /// REPLICATE_WILD_DO_TABLE.
    DoPatterns(Vec<Box<[u8]>>),
    /// REPLICATE_WILD_IGNORE_TABLE.
    IgnorePatterns(Vec<Box<[u8]>>),
    /// REPLICATE_REWRITE_DB: from a database to another one.
    RewriteDatabases(Vec<(Ident, Ident)>),
}

/// START REPLICA, STOP REPLICA or RESET REPLICA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaCommand {
    /// What is to happen.
    pub action: ReplicaAction,
    /// FOR CHANNEL.
    pub channel: Option<Box<str>>,
}

/// What is to happen to a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaAction {
    /// START.
    Start,
    /// STOP.
    Stop,
    /// RESET: the place in the log of the source is forgotten.
    Reset,
    /// RESET … ALL: the source is forgotten too.
    ResetAll,
}
