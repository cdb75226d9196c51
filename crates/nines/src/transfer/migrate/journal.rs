//! What an import from a server has made, in a file: so that it can be undone and begun again, and
//! nothing else is.
//!
//! # Guarantees
//! 1. A table stands in the journal from just before it is made, and no longer when making it was
//!    refused.
//! 2. The file is replaced as a whole and synced with its directory, so that it is never cut.
//! 3. One import at a time has it: the file is locked as long as the import runs.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
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
    /// The channel was made: it is not to be made again.
    #[serde(default)]
    pub(super) channel_made: bool,
}

impl Entries {
    /// Whether there is nothing to undo or to go on with.
    fn is_empty(&self) -> bool {
        self.databases.is_empty()
            && self.tables.is_empty()
            && self.views.is_empty()
            && self.copied.is_none()
    }
}

/// A copy that is whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Copied {
    /// None if the source has no log.
    pub(super) position: Option<Position>,
    pub(super) rows: u64,
}

/// A journal, which is locked as long as the value lives.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    /// The file that has the lock.
    file: File,
    pub(super) entries: Entries,
}

impl Journal {
    /// Begins a journal for `what`, or reads the one that is there.
    ///
    /// # Errors
    /// If there is one and nobody has said to go on, if it is of something else, if another import
    /// has it, or if there is none to go on with.
    pub(super) fn open(path: &Path, what: &str, resumes: bool) -> Result<Self, String> {
        if resumes { Self::read(path, what) } else { Self::begin(path, what) }
    }

    fn begin(path: &Path, what: &str) -> Result<Self, String> {
        let shown = path.display();
        let file = OpenOptions::new().write(true).create_new(true).open(path);
        let file = file.map_err(|why| match why.kind() {
            io::ErrorKind::AlreadyExists => format!(
                "{shown} is there: another import from this server is under way, or was ended. If \
                 it was ended, say --resume to go on, or remove the file and what that import has \
                 made, to begin anew; if it is under way, wait for it, or give this one another \
                 --journal (and --channel)"
            ),
            _ => format!("{shown}: {why}"),
        })?;
        lock(&file, path)?;
        let entries = Entries { what: what.to_owned(), ..Entries::default() };
        let mut journal = Self { path: path.to_owned(), file, entries };
        journal.save()?;
        Ok(journal)
    }

    fn read(path: &Path, what: &str) -> Result<Self, String> {
        let shown = path.display();
        let mut file = File::open(path).map_err(|why| match why.kind() {
            io::ErrorKind::NotFound => format!(
                "{shown} is not there, so there is nothing to go on with: leave --resume out, or \
                 say --journal FILE"
            ),
            _ => format!("{shown}: {why}"),
        })?;
        lock(&file, path)?;
        // Between opening it and the lock another import may have replaced it.
        if !is_of(&file, path) {
            return Err(another(path));
        }
        let said = |why: io::Error| format!("{shown}: {why}");
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(said)?;
        let entries: Entries = serde_json::from_slice(&text)
            .map_err(|why| format!("{shown}: {why}: remove it and what that import has made"))?;
        if entries.what != what {
            return Err(format!(
                "{shown} is of another import (`{}`, and this is `{what}`): give the same address \
                 and options",
                entries.what
            ));
        }
        Ok(Self { path: path.to_owned(), file, entries })
    }

    /// Writes down what is known.
    pub(super) fn save(&mut self) -> Result<(), String> {
        let said = |why: io::Error| format!("{}: {why}", self.path.display());
        let text = serde_json::to_vec_pretty(&self.entries).map_err(|why| why.to_string())?;
        let mut aside = self.path.clone().into_os_string();
        aside.push(".new");
        let mut file = File::create(&aside).map_err(said)?;
        // Before it has the name that others look for.
        lock(&file, &self.path)?;
        file.write_all(&text).and_then(|()| file.sync_all()).map_err(said)?;
        fs::rename(&aside, &self.path).map_err(said)?;
        let directory = match self.path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        File::open(directory).and_then(|directory| directory.sync_all()).map_err(said)?;
        self.file = file;
        Ok(())
    }

    /// Whether there is a file to go on with.
    pub(super) fn is_there(&self) -> bool {
        self.path.exists()
    }

    /// Removes the file: nothing is left to go on with.
    pub(super) fn remove(self) {
        self.remove_file();
    }

    fn remove_file(&self) {
        // Whoever finds it is told what it is of. A file that is another's by now stays.
        if is_of(&self.file, &self.path) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // Nothing was made, or all is taken away again.
        if self.entries.is_empty() {
            self.remove_file();
        }
    }
}

/// Locks a file for as long as it is open.
fn lock(file: &File, path: &Path) -> Result<(), String> {
    let shown = path.display();
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(another(path)),
        Err(TryLockError::Error(why)) => Err(format!("{shown}: {why}")),
    }
}

fn another(path: &Path) -> String {
    format!(
        "another import is at work on {}: wait for it, or give this one another --journal (and \
         --channel)",
        path.display()
    )
}

/// Whether the name is that of the file that is open.
fn is_of(file: &File, path: &Path) -> bool {
    let key = |data: fs::Metadata| (data.dev(), data.ino());
    let named = fs::metadata(path).map(key);
    matches!((file.metadata().map(key), named), (Ok(own), Ok(named)) if own == named)
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
        let why = Journal::open(&path, "a", true).unwrap_err();
        assert!(why.contains("another import is at work"), "{why}");
        let entries = journal.entries.clone();
        drop(journal);
        assert!(Journal::open(&path, "b", true).unwrap_err().contains("another import"));
        let again = Journal::open(&path, "a", true).expect("it is the same");
        assert_eq!(again.entries, entries);
        again.remove();
        assert!(!path.exists());
        fs::write(&path, b"{").expect("it is written");
        assert!(Journal::open(&path, "a", true).is_err());
        fs::remove_file(&path).expect("it is there");
        drop(Journal::open(&path, "a", false).expect("there is none"));
        assert!(!path.exists(), "nothing was made");
    }
}
