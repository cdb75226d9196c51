//! What statements go by of variables whose values are words.

/// Isolation levels as the user names them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Isolation {
    /// Runs as READ COMMITTED.
    ReadUncommitted,
    /// Each statement sees what is committed when it reads.
    #[default]
    ReadCommitted,
    /// Plain reads see one snapshot, with the transaction's own changes.
    RepeatableRead,
    /// What is read stays as it is until the transaction ends.
    Serializable,
}

/// What an acknowledged commit has reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Durability {
    /// The memory of all live replicas.
    #[default]
    Memory,
    /// Their disks too.
    Disk,
}
