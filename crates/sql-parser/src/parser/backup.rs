//! BACKUP, RESTORE, CANCEL BACKUP JOB, START and STOP ARCHIVE, and SHOW of them.

use super::{Parser, Result};
use crate::ast::{
    Backup, BackupOption, BackupSubject, BackupValue, Show, StartArchive, Statement, Until,
};
use crate::keyword::Keyword as K;
use crate::lexer::Kind;

impl Parser<'_> {
    /// At BACKUP.
    pub(super) fn backup(&mut self) -> Result<Statement> {
        self.advance();
        let subject = self.backup_subject(false)?;
        self.expect_word(K::Into)?;
        Ok(Statement::Backup(Box::new(self.backup_rest(subject, false)?)))
    }

    /// At RESTORE.
    pub(super) fn restore(&mut self) -> Result<Statement> {
        self.advance();
        let subject = self.backup_subject(true)?;
        self.expect_word(K::From)?;
        Ok(Statement::Restore(Box::new(self.backup_rest(subject, true)?)))
    }

    /// Whether the word behind this one is ARCHIVE.
    pub(super) fn is_archive_next(&self) -> bool {
        let next = self.peek();
        next.kind == Kind::Word && self.bytes(next).eq_ignore_ascii_case(b"ARCHIVE")
    }

    /// At START, before ARCHIVE.
    pub(super) fn start_archive(&mut self) -> Result<Statement> {
        self.advance();
        self.advance();
        self.expect_word(K::Into)?;
        let place = self.string()?;
        let options = self.backup_options()?;
        Ok(Statement::StartArchive(Box::new(StartArchive { place, options })))
    }

    /// At STOP, before ARCHIVE.
    pub(super) fn stop_archive(&mut self) -> Result<Statement> {
        self.advance();
        self.advance();
        let number = self.at(Kind::Integer).then(|| self.number()).transpose()?;
        Ok(Statement::StopArchive(number))
    }

    /// At CANCEL.
    pub(super) fn cancel_backup(&mut self) -> Result<Statement> {
        self.advance();
        self.expect_word(K::Backup)?;
        if !self.eat_text("JOB") {
            return Err(self.error());
        }
        Ok(Statement::CancelBackup(self.number()?))
    }

    /// After SHOW, at BACKUP or BACKUPS.
    pub(super) fn show_backups(&mut self) -> Result<Show> {
        if self.eat_word(K::Backup) {
            return if self.eat_text("JOBS") { Ok(Show::BackupJobs) } else { Err(self.error()) };
        }
        self.advance();
        if self.eat_any(&[K::From, K::In]).is_none() {
            return Err(self.error());
        }
        self.string().map(Show::Backups)
    }

    fn backup_subject(&mut self, renames: bool) -> Result<BackupSubject> {
        if self.eat_word(K::All) {
            return Ok(BackupSubject::All);
        }
        match self.eat_any(&[K::Database, K::Schema, K::Table]) {
            Some(K::Table) => {
                let names = self.list(|parser| {
                    let name = parser.object_name()?;
                    let is_renamed = renames && parser.eat_word(K::As);
                    Ok((name, is_renamed.then(|| parser.object_name()).transpose()?))
                })?;
                Ok(BackupSubject::Tables(names))
            }
            Some(_) => {
                let names = self.list(|parser| {
                    let name = parser.ident()?;
                    let is_renamed = renames && parser.eat_word(K::As);
                    Ok((name, is_renamed.then(|| parser.ident()).transpose()?))
                })?;
                Ok(BackupSubject::Databases(names))
            }
            None => Err(self.error()),
        }
    }

    fn backup_rest(&mut self, subject: BackupSubject, restores: bool) -> Result<Backup> {
        let place = self.string()?;
        let until = if restores && self.eat_word(K::Until) {
            if self.eat_text("EPOCH") {
                Some(Until::Epoch(self.number()?))
            } else {
                Some(Until::Time(self.string()?))
            }
        } else {
            None
        };
        let options = self.backup_options()?;
        Ok(Backup { subject, place, until, options })
    }

    fn backup_options(&mut self) -> Result<Vec<BackupOption>> {
        if self.eat_word(K::With) { self.list(Self::backup_option) } else { Ok(Vec::new()) }
    }

    pub(super) fn backup_option(&mut self) -> Result<BackupOption> {
        let name = self.ident()?;
        let value = if self.eat(Kind::Equal) {
            if self.at(Kind::String) {
                Some(BackupValue::Text(self.string()?))
            } else {
                Some(BackupValue::Number(self.number()?))
            }
        } else {
            None
        };
        Ok(BackupOption { name, value })
    }
}
