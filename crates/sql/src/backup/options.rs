//! WITH of BACKUP, RESTORE and START ARCHIVE.

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
    /// How far an archive may be behind: seconds.
    pub(super) lag: u64,
    /// How often an archive has a new full backup: seconds.
    pub(super) full_every: u64,
}

/// How far an archive may be behind unless it is said: seconds.
const LAG: u64 = 10;
/// The least and most of that.
const LAG_MIN: u64 = 2;
const LAG_MAX: u64 = 3_600;
/// How often an archive has a new full backup unless it is said: seconds.
const FULL_EVERY: u64 = 24 * 60 * 60;
/// The least of that.
const FULL_EVERY_MIN: u64 = 60;

impl Options {
    /// What START ARCHIVE says.
    ///
    /// # Errors
    /// For a name that is not known, a value that is missing or too much, a passphrase.
    pub(super) fn of_archive(given: &[BackupOption]) -> Result<Self, SqlError> {
        let mut options = Self { lag: LAG, full_every: FULL_EVERY, ..Self::default() };
        for BackupOption { name, value } in given {
            let name = name.as_str().to_ascii_lowercase();
            match (name.as_str(), value) {
                ("key_file", Some(BackupValue::Text(path))) if !path.is_empty() => {
                    options.key = BackupKey::File(String::from_utf8_lossy(path).into_owned());
                }
                ("passphrase", _) => {
                    return Err(failed(
                        "an archive goes on when its SQL node dies, so its key is in a file that \
                         each SQL node's host has: say key_file = '…'",
                    ));
                }
                ("accounts", None) => options.accounts = true,
                ("max_rate", Some(value)) => options.max_rate = Some(rate(value)?),
                ("max_lag", Some(value)) => {
                    options.lag = span(value, LAG_MIN, LAG_MAX).ok_or_else(|| {
                        failed("max_lag is how far the archive may be behind: '2s' to '1h'")
                    })?;
                }
                ("full_every", Some(value)) => {
                    let most = u64::from(u32::MAX);
                    options.full_every = span(value, FULL_EVERY_MIN, most).ok_or_else(|| {
                        failed("full_every is a span such as '12h' or '7d', a minute or more")
                    })?;
                }
                _ => {
                    return Err(failed(&format!(
                        "the option {name} is not known, or has no such value: there are key_file \
                         = '…', accounts, max_rate = …, max_lag = '10s', full_every = '1d'"
                    )));
                }
            }
        }
        Ok(options)
    }

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

/// Seconds, as a number or a text such as `12h`, within bounds.
fn span(value: &BackupValue, least: u64, most: u64) -> Option<u64> {
    let seconds = match value {
        BackupValue::Number(seconds) => *seconds,
        BackupValue::Text(text) => {
            let text = std::str::from_utf8(text).ok()?.trim();
            let (digits, unit) = match text.as_bytes().last()?.to_ascii_lowercase() {
                b's' => (&text[..text.len() - 1], 1),
                b'm' => (&text[..text.len() - 1], 60),
                b'h' => (&text[..text.len() - 1], 60 * 60),
                b'd' => (&text[..text.len() - 1], 24 * 60 * 60),
                _ => (text, 1),
            };
            digits.trim_end().parse::<u64>().ok()?.checked_mul(unit)?
        }
    };
    (least..=most).contains(&seconds).then_some(seconds)
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
    fn spans_have_units_and_bounds() {
        let text = |text: &str| BackupValue::Text(text.as_bytes().into());
        assert_eq!(span(&text("12h"), 1, 1 << 20), Some(43_200));
        assert_eq!(span(&text("7 d"), 1, 1 << 20), Some(604_800));
        assert_eq!(span(&BackupValue::Number(5), 1, 10), Some(5));
        for wrong in [text("0s"), text("11"), text("x"), text(""), text("99999999999999999999d")] {
            assert_eq!(span(&wrong, 1, 10), None, "{wrong:?}");
        }
    }

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
