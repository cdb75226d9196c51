//! BACKUP, RESTORE, START ARCHIVE.

use super::{Ident, ObjectName};

/// What is saved, or taken back from what was saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackupSubject {
    /// ALL.
    All,
    /// DATABASE, with the names that they get; BACKUP has none.
    Databases(Vec<(Ident, Option<Ident>)>),
    /// TABLE, with the names that they get; BACKUP has none.
    Tables(Vec<(ObjectName, Option<ObjectName>)>),
}

/// BACKUP or RESTORE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// What.
    pub subject: BackupSubject,
    /// INTO or FROM: a place.
    pub place: Box<[u8]>,
    /// UNTIL, of RESTORE.
    pub until: Option<Until>,
    /// WITH, in the order written.
    pub options: Vec<BackupOption>,
}

/// UNTIL: the moment whose state is restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Until {
    /// A time, as text.
    Time(Box<[u8]>),
    /// EPOCH, by its number.
    Epoch(u64),
}

/// START ARCHIVE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartArchive {
    /// INTO: a place.
    pub place: Box<[u8]>,
    /// WITH, in the order written.
    pub options: Vec<BackupOption>,
}

/// `name`, or `name = value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupOption {
    /// The name.
    pub name: Ident,
    /// The value, if there is one.
    pub value: Option<BackupValue>,
}

/// The value of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackupValue {
    /// A string.
    Text(Box<[u8]>),
    /// A number.
    Number(u64),
}
