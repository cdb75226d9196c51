//! What is restored: a backup, or the state of a moment from an archive.

use std::collections::BTreeSet;

use model::TableId;
use sql_expression::SqlError;

use super::until::{Archive, Chosen, Moment};
use crate::backup_jobs::host::{
    BackupFiles, BackupKey, BackupReply, BackupRequest, Contents, SavedTable, done, failed,
};
use crate::kernel::Kernel;

/// A place, and the key of what is there.
#[derive(Clone, Copy)]
pub(super) struct At<'a> {
    pub(super) place: &'a str,
    pub(super) key: &'a BackupKey,
}

/// What is restored.
pub(super) struct Source {
    /// What is in it, as of the moment.
    pub(super) contents: Contents,
    /// The tables of the full backup whose rows are read.
    tables: Vec<SavedTable>,
    /// Of the tables of the moment, their places among those.
    places: Vec<Option<usize>>,
    /// Tables of which changes were lost.
    pub(super) lost: BTreeSet<TableId>,
    /// The changes up to the moment.
    pub(super) chosen: Option<Chosen>,
}

impl Source {
    fn new(contents: Contents, tables: Vec<SavedTable>) -> Self {
        let id = |table: &SavedTable| table.raw.as_ref().map(|raw| raw.id);
        let place = |(at, table): (usize, &SavedTable)| match id(table) {
            None => Some(at),
            own => tables.iter().position(|base| id(base) == own),
        };
        let places = contents.tables.iter().enumerate().map(place).collect();
        Self { contents, tables, places, lost: BTreeSet::new(), chosen: None }
    }

    /// Whether its rows are those of the kernel.
    pub(super) fn is_raw(&self) -> bool {
        self.contents.chain.is_some()
    }

    /// The place of the table with this identity.
    pub(super) fn at(&self, id: TableId) -> Option<usize> {
        let is_it = |table: &SavedTable| table.raw.as_ref().is_some_and(|raw| raw.id == id.0);
        self.contents.tables.iter().position(is_it)
    }

    /// What the full backup has of the table at a place, and where; nothing of a later one.
    pub(super) fn base(&self, at: usize) -> Option<(usize, &SavedTable)> {
        let place = self.places.get(at).copied().flatten()?;
        Some((place, self.tables.get(place)?))
    }
}

/// A backup, whose every byte was checked.
pub(super) async fn of_backup(
    kernel: &Kernel,
    files: &dyn BackupFiles,
    at: At<'_>,
) -> Result<Source, SqlError> {
    let contents = opened(kernel, files, at).await?;
    let tables = contents.tables.clone();
    Ok(Source::new(contents, tables))
}

/// The state of a moment, from an archive whose every byte that counts was checked.
pub(super) async fn of_moment(
    archive: &Archive<'_>,
    files: &dyn BackupFiles,
    at: At<'_>,
    moment: Moment,
) -> Result<Source, SqlError> {
    let chosen = archive.choose(at, moment).await?;
    let base = &chosen.base;
    let contents = opened(&archive.kernel, files, At { place: &base.place, ..at }).await?;
    if contents.chain.as_ref() != Some(&chosen.id) || contents.epoch != base.epoch {
        return Err(failed(&format!("{} is no full backup of this chain", base.place)));
    }
    let (defined, lost) = archive.defined(&chosen, &contents).await?;
    let tables = contents.tables.clone();
    let contents = Contents {
        epoch: chosen.epoch,
        databases: defined.databases,
        tables: defined.tables,
        views: defined.views,
        accounts: defined.accounts,
        ..contents
    };
    let mut source = Source::new(contents, tables);
    // What is done is told by rows of the full backup.
    for at in 0..source.contents.tables.len() {
        let rows = source.base(at).map_or(0, |(_, saved)| saved.rows);
        source.contents.tables[at].rows = rows;
    }
    (source.lost, source.chosen) = (lost, Some(chosen));
    Ok(source)
}

async fn opened(
    kernel: &Kernel,
    files: &dyn BackupFiles,
    at: At<'_>,
) -> Result<Contents, SqlError> {
    let open = BackupRequest::Open { place: at.place.to_owned(), key: at.key.clone() };
    match done(kernel, files, open).await? {
        BackupReply::Contents(contents) => Ok(*contents),
        _ => Err(failed("the host does not say what is in the backup")),
    }
}
