//! BACKUP, RESTORE.

use super::Printer;
use crate::ast::{Backup, BackupOption, BackupSubject, BackupValue};

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
        if !backup.options.is_empty() {
            self.put(" WITH ");
            self.list(&backup.options, ", ", Self::backup_option);
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
