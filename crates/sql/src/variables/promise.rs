//! What statements may ask for that would protect, place or keep something, and that nothing here
//! does: such a request is refused, so that nobody relies on it.
//!
//! # Owns
//! The variables of this kind with the only value that is true, the error, and
//! `nines_ignore_unsupported`, with which a dump that names them is loaded all the same.
//! # Not here
//! Variables without effect that promise nothing (`registry`): they are kept and read again.

use sql_expression::SqlError;

use super::registry::Variable;
use crate::error::{IGNORE_UNSUPPORTED, unkept_promise};
use crate::session::{Level, Session};

/// Why tables are not encrypted one by one.
const OWN_KEYS: &str =
    "tables have no keys of their own: EncryptedFileSystem encrypts all files, or none";

/// A variable, the value that says what is true here, and what another value would promise.
const PROMISES: [(&str, Option<&str>, &str); 13] = [
    ("binlog_checksum", Some("CRC32"), "all events have checksums"),
    ("binlog_encryption", Some("OFF"), "the binary log is kept in memory"),
    ("binlog_format", Some("ROW"), "changes of rows are logged as rows"),
    (
        "binlog_row_image",
        Some("FULL"),
        "images have all columns, but for large values that were not changed",
    ),
    ("default_table_encryption", Some("OFF"), OWN_KEYS),
    ("group_replication_consistency", Some("EVENTUAL"), "there is no group replication"),
    ("init_connect", Some(""), "nothing is run when a client connects"),
    (
        "innodb_flush_log_at_trx_commit",
        Some("0"),
        "set nines_durability to have commits wait for the disk",
    ),
    ("offline_mode", Some("OFF"), "clients are not refused"),
    ("read_only", Some("OFF"), "writes are not refused"),
    (
        "sql_generate_invisible_primary_key",
        Some("OFF"),
        "no invisible column is added to tables without PRIMARY KEY",
    ),
    ("super_read_only", Some("OFF"), "writes are not refused"),
    ("table_encryption_privilege_check", Some("OFF"), OWN_KEYS),
];

impl Session {
    /// Whether promises are taken that nothing keeps.
    pub(crate) fn ignores_promises(&self) -> bool {
        let variable = super::registry::find(IGNORE_UNSUPPORTED);
        variable.and_then(|variable| self.variables.text(variable)) == Some("ON")
    }

    /// Refuses to give a variable a value that promises what nothing keeps; with
    /// `nines_ignore_unsupported` that is a warning.
    pub(crate) fn check_promise(
        &mut self,
        variable: &Variable,
        text: Option<&str>,
    ) -> Result<(), SqlError> {
        let known = PROMISES.iter().find(|(name, ..)| *name == variable.name);
        let Some((name, truth, why)) = known else { return Ok(()) };
        if *truth == text {
            return Ok(());
        }
        self.promised(&format!("{name}={}", text.unwrap_or("NULL")), why)
    }

    /// Refuses what promises something that nothing keeps, or warns.
    pub(crate) fn promised(&mut self, what: &str, why: &str) -> Result<(), SqlError> {
        let refusal = unkept_promise(what, why);
        if !self.ignores_promises() {
            return Err(refusal);
        }
        let kept_max = self.variables.max_error_count as usize;
        self.diagnostics.push(Level::Warning, refusal, kept_max);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variables::registry;

    #[test]
    fn promises_are_of_variables_and_their_first_values_are_true() {
        for (name, truth, _) in PROMISES {
            let variable = registry::find(name).unwrap_or_else(|| panic!("no variable {name}"));
            assert!(variable.is_dynamic, "{name}: nobody can set it");
            assert_eq!(variable.initial, truth, "{name}");
        }
        assert!(PROMISES.is_sorted_by_key(|(name, ..)| *name));
    }
}
