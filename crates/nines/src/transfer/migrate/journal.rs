//! What an import from a server has made, in a file: so that it can be undone and begun again, and
//! nothing else is.
//!
//! # Guarantees
//! A table stands in the journal before it is made. The file is replaced as a whole and synced, so
//! that it is never cut.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::source::Position;

/// What is known of an import.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entries {
    /// The source, and what of it is imported.
    pub(super) what: String,
    /// Databases that were not there before.
    pub(super) databases: Vec<String>,
    /// Tables and views that were not there before, by database.
    pub(super) tables: Vec<(String, String)>,
    pub(super) views: Vec<(String, String)>,
    /// All rows are there, as they were at this place in the log of the source.
    pub(super) copied: Option<Copied>,
}

/// A copy that is whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Copied {
    /// None if the source has no log.
    pub(super) position: Option<Position>,
    pub(super) rows: u64,
}

/// A journal.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    pub(super) entries: Entries,
}

impl Journal {
    /// Begins a journal for `what`, or reads the one that is there.
    ///
    /// # Errors
    /// If there is one and nobody has said to go on, if it is of something else, or if there is
    /// none to go on with.
    pub(super) fn open(path: &Path, what: &str, resumes: bool) -> Result<Self, String> {
        let shown = path.display();
        let there = match fs::read(path) {
            Ok(text) => Some(text),
            Err(why) if why.kind() == std::io::ErrorKind::NotFound => None,
            Err(why) => return Err(format!("{shown}: {why}")),
        };
        let entries = match (there, resumes) {
            (Some(_), false) => {
                return Err(format!(
                    "{shown} is there: an import from this server was ended. Say --resume to go \
                     on, or remove it and what that import has made, to begin anew"
                ));
            }
            (None, true) => {
                return Err(format!(
                    "{shown} is not there, so there is nothing to go on with: leave --resume out, \
                     or say --journal FILE"
                ));
            }
            (None, false) => Entries { what: what.to_owned(), ..Entries::default() },
            (Some(text), true) => {
                let entries: Entries =
                    serde_json::from_slice(&text).map_err(|why| format!("{shown}: {why}"))?;
                if entries.what != what {
                    return Err(format!(
                        "{shown} is of another import (`{}`, and this is `{what}`): give the same \
                         address and options",
                        entries.what
                    ));
                }
                entries
            }
        };
        Ok(Self { path: path.to_owned(), entries })
    }

    /// Writes down what is known.
    pub(super) fn save(&self) -> Result<(), String> {
        let said = |why: std::io::Error| format!("{}: {why}", self.path.display());
        let text = serde_json::to_vec_pretty(&self.entries).map_err(|why| why.to_string())?;
        let mut aside = self.path.clone().into_os_string();
        aside.push(".new");
        let mut file = File::create(&aside).map_err(said)?;
        file.write_all(&text).and_then(|()| file.sync_all()).map_err(said)?;
        fs::rename(&aside, &self.path).map_err(said)
    }

    /// Whether there is a file to go on with.
    pub(super) fn is_there(&self) -> bool {
        self.path.exists()
    }

    /// Removes the file: nothing is left to go on with.
    pub(super) fn remove(&self) {
        // Whoever finds it is told what it is of.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_goes_on_for_the_same_import_only() {
        let path = std::env::temp_dir().join(format!("nines-journal-{}", std::process::id()));
        let _ = fs::remove_file(&path);
        assert!(Journal::open(&path, "a", true).unwrap_err().contains("nothing to go on"));
        let mut journal = Journal::open(&path, "a", false).expect("there is none");
        journal.entries.tables.push(("d".to_owned(), "t`\n".to_owned()));
        journal.save().expect("it is written");
        assert!(Journal::open(&path, "a", false).unwrap_err().contains("--resume"));
        assert!(Journal::open(&path, "b", true).unwrap_err().contains("another import"));
        let again = Journal::open(&path, "a", true).expect("it is the same");
        assert_eq!(again.entries, journal.entries);
        fs::write(&path, b"{").expect("it is written");
        assert!(Journal::open(&path, "a", true).is_err());
        again.remove();
        assert!(!path.exists());
    }
}
