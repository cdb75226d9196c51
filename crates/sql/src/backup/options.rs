//! WITH of BACKUP and RESTORE.

use sql_expression::SqlError;
use sql_parser::ast::{BackupOption, BackupValue};

use super::host::{BackupKey, failed};

/// The options of a statement.
#[derive(Debug, Default)]
pub(super) struct Options {
    /// By what the backup is encrypted.
    pub(super) key: BackupKey,
    /// Accounts too.
    pub(super) accounts: bool,
    /// Definitions without rows.
    pub(super) structure_only: bool,
}

impl Options {
    /// What a statement says.
    ///
    /// # Errors
    /// For a name that is not known, a value that is missing or too much, two keys.
    pub(super) fn read(given: &[BackupOption]) -> Result<Self, SqlError> {
        let mut options = Self::default();
        for BackupOption { name, value } in given {
            let name = name.as_str().to_ascii_lowercase();
            match (name.as_str(), value) {
                ("passphrase" | "key_file", _) if options.key != BackupKey::None => {
                    return Err(failed("a backup has one key: a passphrase or a key file"));
                }
                ("passphrase", Some(BackupValue::Text(text))) if !text.is_empty() => {
                    options.key = BackupKey::Passphrase(text.clone());
                }
                ("key_file", Some(BackupValue::Text(path))) if !path.is_empty() => {
                    options.key = BackupKey::File(String::from_utf8_lossy(path).into_owned());
                }
                ("accounts", None) => options.accounts = true,
                ("structure_only", None) => options.structure_only = true,
                ("passphrase" | "key_file" | "accounts" | "structure_only", _) => {
                    return Err(failed(&format!("the option {name} has no such value")));
                }
                _ => {
                    return Err(failed(&format!(
                        "the option {name} is not known: there are passphrase = '…', key_file = \
                         '…', accounts, structure_only"
                    )));
                }
            }
        }
        Ok(options)
    }
}
