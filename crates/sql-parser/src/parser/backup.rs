//! BACKUP, RESTORE, CANCEL BACKUP JOB, and SHOW of backups.

use super::{Parser, Result};
use crate::ast::{Backup, BackupOption, BackupSubject, BackupValue, Show, Statement};
use crate::keyword::Keyword as K;
use crate::lexer::Kind;

impl Parser<'_> {
    /// At BACKUP.
    pub(super) fn backup(&mut self) -> Result<Statement> {
        self.advance();
        let subject = self.backup_subject(false)?;
        self.expect_word(K::Into)?;
        Ok(Statement::Backup(Box::new(self.backup_rest(subject)?)))
    }

    /// At RESTORE.
    pub(super) fn restore(&mut self) -> Result<Statement> {
        self.advance();
        let subject = self.backup_subject(true)?;
        self.expect_word(K::From)?;
        Ok(Statement::Restore(Box::new(self.backup_rest(subject)?)))
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
            return match self.eat_text("JOBS") {
                true => Ok(Show::BackupJobs),
                false => Err(self.error()),
            };
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

    fn backup_rest(&mut self, subject: BackupSubject) -> Result<Backup> {
        let place = self.string()?;
        let options = match self.eat_word(K::With) {
            true => self.list(Self::backup_option)?,
            false => Vec::new(),
        };
        Ok(Backup { subject, place, options })
    }

    fn backup_option(&mut self) -> Result<BackupOption> {
        let name = self.ident()?;
        let value = match self.eat(Kind::Equal) {
            false => None,
            true if self.at(Kind::String) => Some(BackupValue::Text(self.string()?)),
            true => Some(BackupValue::Number(self.number()?)),
        };
        Ok(BackupOption { name, value })
    }
}
