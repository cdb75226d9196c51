//! WITH of BACKUP and RESTORE.

use sql_expression::SqlError;
use sql_parser::ast::{BackupOption, BackupValue};

use crate::backup_jobs::host::{BackupKey, failed};

/// The options of a statement.
#[derive(Debug, Default)]
pub(super) struct Options {
    /// By what the backup is encrypted.
    pub(super) key: BackupKey,
    /// Accounts too.
    pub(super) accounts: bool,
    /// Definitions without rows.
    pub(super) structure_only: bool,
    /// What is restored takes the place of what has its name.
    pub(super) overwrite: bool,
    /// Tables keep the definitions that they have, and get the rows of the backup.
    pub(super) data_only: bool,
    /// Nobody waits for it: the answer is the number of its job.
    pub(super) detached: bool,
    /// Bytes of rows in a second; 0 for no limit.
    pub(super) max_rate: Option<u64>,
}

impl Options {
    /// What a statement says: RESTORE if it `restores`, else BACKUP.
    ///
    /// # Errors
    /// For a name that is not known, a value that is missing or too much, two keys.
    pub(super) fn read(given: &[BackupOption], restores: bool) -> Result<Self, SqlError> {
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
                ("detached", None) => options.detached = true,
                ("overwrite", None) if restores => options.overwrite = true,
                ("data_only", None) if restores => options.data_only = true,
                ("max_rate", Some(value)) => options.max_rate = Some(rate(value)?),
                (
                    "passphrase" | "key_file" | "accounts" | "structure_only" | "max_rate"
                    | "detached" | "overwrite" | "data_only",
                    _,
                ) => {
                    return Err(failed(&format!(
                        "the option {name} has no such value, or no place here"
                    )));
                }
                _ => {
                    return Err(failed(&format!(
                        "the option {name} is not known: there are passphrase = '…', key_file = \
                         '…', accounts, structure_only, max_rate = …, detached, and for RESTORE \
                         overwrite, data_only"
                    )));
                }
            }
        }
        if options.data_only && (!options.overwrite || options.structure_only) {
            return Err(failed(
                "data_only gives tables that are there the rows of the backup in place of theirs: \
                 say overwrite too, and not structure_only",
            ));
        }
        Ok(options)
    }
}

/// The least rate: a portion of rows is let through within seconds.
const RATE_MIN: u64 = 256 << 10;

/// Bytes in a second; 0 for no limit.
fn rate(value: &BackupValue) -> Result<u64, SqlError> {
    let rate = match value {
        BackupValue::Number(rate) => Some(*rate),
        BackupValue::Text(text) => size(text),
    };
    rate.filter(|rate| *rate == 0 || *rate >= RATE_MIN).ok_or_else(|| {
        failed(
            "max_rate is bytes in a second, as a number or a text such as '20M': 256K or more, or \
                0 for no limit",
        )
    })
}

/// A number of bytes: `20M`.
fn size(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?.trim();
    let (digits, unit) = match text.as_bytes().last()?.to_ascii_uppercase() {
        b'K' => (&text[..text.len() - 1], 1 << 10),
        b'M' => (&text[..text.len() - 1], 1 << 20),
        b'G' => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    digits.trim_end().parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, expected) in
            [("20M", Some(20 << 20)), ("7", Some(7)), ("1 k", Some(1_024)), ("3G", Some(3 << 30))]
        {
            assert_eq!(size(text.as_bytes()), expected, "{text}");
        }
        for text in ["", "M", "-1", "1T", "99999999999G", "ü"] {
            assert_eq!(size(text.as_bytes()), None, "{text}");
        }
    }
}
