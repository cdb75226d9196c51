//! Databases: their options, kept as the text of SHOW CREATE DATABASE.
//!
//! # Owns
//! [`DatabaseOptions`], their reading from a statement and from the catalog, and their text.
//! # Not here
//! Which databases there are (`names`).

use collation::CollationId;
use model::Description;
use sql_expression::SqlError;
use sql_parser::ast::{DatabaseOption, Statement};

use super::column::{check_pair, collation};
use super::option::named_charset;
use super::{error, text};

/// What is said about a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DatabaseOptions {
    /// The collation of tables that name none; tells the character set too.
    pub(crate) collation: CollationId,
    /// It was asked for encryption. Where that is granted, everything is encrypted.
    pub(crate) encrypted: bool,
}

impl Default for DatabaseOptions {
    fn default() -> Self {
        Self::of(CollationId::UTF8MB4_0900_AI_CI)
    }
}

impl DatabaseOptions {
    /// A database of which nothing but its collation is said.
    pub(crate) fn of(collation: CollationId) -> Self {
        Self { collation, encrypted: false }
    }

    /// The options as a statement leaves them. DEFAULT means `of_server`; `is_encrypted` says
    /// whether files are.
    pub(crate) fn altered(
        self,
        options: &[DatabaseOption],
        of_server: CollationId,
        is_encrypted: bool,
    ) -> Result<Self, SqlError> {
        let (mut charset, mut chosen) = (None, None);
        let mut encrypted = self.encrypted;
        for option in options {
            match option {
                DatabaseOption::Charset(set) => charset = Some(named_charset(set, of_server)?),
                DatabaseOption::Collate(name) => chosen = Some(collation(name.as_str())?),
                DatabaseOption::Encryption(word) => match &**word {
                    "N" | "n" => encrypted = false,
                    "Y" | "y" if is_encrypted => encrypted = true,
                    "Y" | "y" => {
                        let what = "ENCRYPTION without EncryptedFileSystem=1 for all nodes";
                        return Err(error::unsupported(what));
                    }
                    _ => {
                        let message = "Incorrect argument (should be Y or N) value";
                        return Err(SqlError::new(1525, "HY000", format!("{message}: '{word}'")));
                    }
                },
                DatabaseOption::ReadOnly(None | Some(false)) => {}
                DatabaseOption::ReadOnly(Some(true)) => {
                    return Err(error::unsupported("READ ONLY"));
                }
            }
        }
        let collation = match (charset, chosen) {
            (Some(charset), Some(collation)) => {
                check_pair(charset, collation)?;
                collation
            }
            (Some(charset), None) => charset.default_collation(),
            (None, Some(collation)) => collation,
            (None, None) => self.collation,
        };
        Ok(Self { collation, encrypted })
    }

    /// What the catalog keeps about a database; the defaults where that cannot be read.
    pub(crate) fn read(description: &Description) -> Self {
        let parsed = sql_parser::parse(description, sql_parser::SqlMode::default());
        match parsed {
            Ok(Statement::CreateDatabase(create)) => {
                let default = Self::default();
                // It was granted when it was stored.
                default.altered(&create.options, default.collation, true).unwrap_or(default)
            }
            _ => Self::default(),
        }
    }

    /// What the catalog keeps: the statement that makes the database.
    pub(crate) fn description(self, name: &str) -> Description {
        self.create_statement(name, false).into_bytes().into()
    }

    /// The text of SHOW CREATE DATABASE.
    pub(crate) fn create_statement(self, name: &str, if_not_exists: bool) -> String {
        let condition = if if_not_exists { "/*!32312 IF NOT EXISTS*/ " } else { "" };
        let charset = self.collation.charset().name();
        let mut options = format!("DEFAULT CHARACTER SET {charset}");
        if text::must_name_collation(self.collation) {
            options.push_str(" COLLATE ");
            options.push_str(self.collation.name());
        }
        let name = text::quoted(name);
        let encryption = if self.encrypted { 'Y' } else { 'N' };
        format!(
            "CREATE DATABASE {condition}{name} /*!40100 {options} */ \
             /*!80016 DEFAULT ENCRYPTION='{encryption}' */"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_read_again() {
        for name in ["utf8mb4_0900_ai_ci", "utf8mb4_bin", "latin1_swedish_ci", "latin1_bin"] {
            let plain = DatabaseOptions::of(CollationId::by_name(name).unwrap());
            for options in [plain, DatabaseOptions { encrypted: true, ..plain }] {
                assert_eq!(DatabaseOptions::read(&options.description("a`b")), options, "{name}");
            }
        }
        assert_eq!(DatabaseOptions::read(&Description::default()), DatabaseOptions::default());
    }

    #[test]
    fn the_statement_is_mysqls() {
        let shown = |name: &str| {
            let collation = CollationId::by_name(name).unwrap();
            DatabaseOptions::of(collation).create_statement("d", false)
        };
        assert_eq!(
            shown("utf8mb4_0900_ai_ci"),
            "CREATE DATABASE `d` /*!40100 DEFAULT CHARACTER SET utf8mb4 COLLATE \
             utf8mb4_0900_ai_ci */ /*!80016 DEFAULT ENCRYPTION='N' */"
        );
        assert_eq!(
            shown("latin1_swedish_ci"),
            "CREATE DATABASE `d` /*!40100 DEFAULT CHARACTER SET latin1 */ \
             /*!80016 DEFAULT ENCRYPTION='N' */"
        );
    }
}
