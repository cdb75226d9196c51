//! BACKUP, RESTORE, START ARCHIVE.

use super::Printer;
use crate::ast::{Backup, BackupOption, BackupSubject, BackupValue, StartArchive, Until};

impl Printer<'_> {
    /// BACKUP … INTO, RESTORE … FROM.
    pub(super) fn backup(&mut self, word: &str, preposition: &str, backup: &Backup) {
        self.put(word);
        match &backup.subject {
            BackupSubject::All => self.put("ALL"),
            BackupSubject::Databases(names) => {
                self.put("DATABASE ");
                self.list(names, ", ", |printer, (name, renamed)| {
                    printer.ident(name);
                    if let Some(renamed) = renamed {
                        printer.put(" AS ");
                        printer.ident(renamed);
                    }
                });
            }
            BackupSubject::Tables(names) => {
                self.put("TABLE ");
                self.list(names, ", ", |printer, (name, renamed)| {
                    printer.object_name(name);
                    if let Some(renamed) = renamed {
                        printer.put(" AS ");
                        printer.object_name(renamed);
                    }
                });
            }
        }
        self.put(preposition);
        self.bytes(&backup.place);
        match &backup.until {
            None => {}
            Some(Until::Epoch(epoch)) => self.put(&format!(" UNTIL EPOCH {epoch}")),
            Some(Until::Time(time)) => {
                self.put(" UNTIL ");
                self.bytes(time);
            }
        }
        self.backup_options(&backup.options);
    }

    /// START ARCHIVE.
    pub(super) fn start_archive(&mut self, archive: &StartArchive) {
        self.put("START ARCHIVE INTO ");
        self.bytes(&archive.place);
        self.backup_options(&archive.options);
    }

    pub(super) fn backup_options(&mut self, options: &[BackupOption]) {
        if !options.is_empty() {
            self.put(" WITH ");
            self.list(options, ", ", Self::backup_option);
        }
    }

    fn backup_option(&mut self, option: &BackupOption) {
        self.ident(&option.name);
        match &option.value {
            None => {}
            Some(BackupValue::Text(text)) => {
                self.put(" = ");
                self.bytes(text);
            }
            Some(BackupValue::Number(number)) => self.put(&format!(" = {number}")),
        }
    }
}
