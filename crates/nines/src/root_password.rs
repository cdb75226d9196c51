//! The file with a password that the cluster has made for `root`.
//!
//! # Owns
//! [`RootPasswordFile`]: `root-password` in the directory of an SQL node's keys.
//! # Guarantees
//! Only the user whom the process runs as can read it, whatever the directory allows. A password
//! lies in a file of another name until `root` has it, so that the one in `root-password` is good.
//! # Not here
//! When there is such a password, and which: `sql`.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::NodeId;
use sql::PasswordFile;

use crate::complain;

/// Where a process writes what it has to say.
pub(crate) type Log = Arc<dyn Fn(&str) + Send + Sync>;

/// The file of an SQL node.
pub(crate) struct RootPasswordFile {
    directory: PathBuf,
    /// Where a password is until `root` has it: nodes may share a directory.
    pending: PathBuf,
    published: PathBuf,
    log: Log,
}

impl fmt::Debug for RootPasswordFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RootPasswordFile").field(&self.published).finish()
    }
}

impl RootPasswordFile {
    pub(crate) fn new(directory: &Path, node: NodeId, log: Log) -> Self {
        let directory = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
        let pending = directory.join(format!(".root-password-{}.new", node.0));
        let published = directory.join("root-password");
        Self { directory, pending, published, log }
    }

    fn write(&self, password: &str) -> io::Result<()> {
        // Whoever could read a file that is there could read what is written to it.
        match fs::remove_file(&self.pending) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(&self.pending)?;
        writeln!(file, "{password}")?;
        file.sync_all()?;
        self.sync_directory()
    }

    fn sync_directory(&self) -> io::Result<()> {
        File::open(&self.directory)?.sync_all()
    }
}

fn read(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim_end_matches('\n').to_owned())
}

impl PasswordFile for RootPasswordFile {
    fn pending(&self) -> Option<String> {
        read(&self.pending)
    }

    fn published(&self) -> Option<String> {
        read(&self.published)
    }

    fn keep(&self, password: &str) -> Result<(), String> {
        self.write(password).map_err(|error| {
            format!(
                "root gets no password, and nobody can log in, as {} cannot be written: {error}",
                self.pending.display()
            )
        })
    }

    fn publish(&self) -> Result<(), String> {
        let renamed = fs::rename(&self.pending, &self.published);
        renamed.and_then(|()| self.sync_directory()).map_err(|error| {
            format!(
                "the password of root is in {}, which cannot be renamed: {error}",
                self.pending.display()
            )
        })?;
        (self.log)(&format!(
            "the password of root@localhost is in {}: log in, change it, and delete the file",
            self.published.display()
        ));
        Ok(())
    }

    fn discard(&self) {
        // What remains is a password that nobody has.
        let _ = fs::remove_file(&self.pending);
    }

    fn complain(&self, why: &str) {
        complain(why);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn a_password_is_shown_when_it_is_good_and_to_its_owner_alone() {
        let directory = std::env::temp_dir().join(format!("nines-root-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let said = Arc::new(Mutex::new(Vec::new()));
        let log = said.clone();
        let log: Log = Arc::new(move |line: &str| log.lock().unwrap().push(line.to_owned()));
        let file = RootPasswordFile::new(&directory, NodeId(51), log.clone());
        let other = RootPasswordFile::new(&directory, NodeId(52), log);
        assert_eq!((file.pending(), file.published()), (None, None));
        file.keep("first").unwrap();
        other.keep("other").unwrap();
        file.keep("second").unwrap();
        assert_eq!((file.pending().as_deref(), file.published()), (Some("second"), None));
        other.discard();
        assert_eq!(other.pending(), None);
        assert!(said.lock().unwrap().is_empty());
        file.publish().unwrap();
        assert_eq!((file.pending(), file.published().as_deref()), (None, Some("second")));
        let shown = directory.join("root-password");
        assert_eq!(fs::metadata(&shown).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(said.lock().unwrap()[0].contains(&*shown.display().to_string()));
        assert!(file.publish().is_err(), "there is nothing to show");
        fs::remove_dir_all(&directory).unwrap();
    }
}
