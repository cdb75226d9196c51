//! CREATE, PAUSE, RESUME, DROP and STREAM CHANGEFEED.

use super::{BackupOption, Expr, Ident, ObjectName};

/// CREATE CHANGEFEED.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateChangefeed {
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// The name.
    pub name: Ident,
    /// FOR TABLE.
    pub tables: Vec<ObjectName>,
    /// WHERE: a condition over the columns of each of the tables.
    pub condition: Option<Expr>,
    /// INTO: `sql`, or an address.
    pub target: Box<[u8]>,
    /// WITH, in the order written.
    pub options: Vec<BackupOption>,
}

/// PAUSE, RESUME or DROP CHANGEFEED.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangefeedCommand {
    /// What is to happen.
    pub action: ChangefeedAction,
    /// The name.
    pub name: Ident,
}

/// What is to happen to a change feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangefeedAction {
    /// PAUSE.
    Pause,
    /// RESUME.
    Resume,
    /// DROP, with IF EXISTS or without.
    Drop {
        /// IF EXISTS.
        if_exists: bool,
    },
}

/// STREAM CHANGEFEED.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamChangefeed {
    /// The name.
    pub name: Ident,
    /// FROM: the position behind which it begins.
    pub from: Option<Box<[u8]>>,
}
