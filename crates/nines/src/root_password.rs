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
use std::sync::{Arc, Mutex};

use model::NodeId;
use sql::PasswordFile;

use crate::{complain, tell};

/// Where a process writes what it has to say.
pub(crate) type Log = Arc<dyn Fn(&str) + Send + Sync>;

/// The line that says that a process is ready. It is told when clients are served and the password
/// of `root` can be read: whoever waits for the line logs in next.
#[derive(Clone, Default)]
pub(crate) struct Announcement(Arc<Mutex<Announced>>);

#[derive(Default)]
struct Announced {
    /// The line, when clients are served and it waits for the password.
    waits: Option<String>,
    /// There is nothing to wait for.
    is_settled: bool,
}

impl Announcement {
    /// Of a process without a password for `root`.
    pub(crate) fn at_once() -> Self {
        let announcement = Self::default();
        announcement.settle(|_| ());
        announcement
    }

    /// Clients are served: tells the line, or keeps it until there is nothing to wait for.
    pub(crate) fn serve(&self, line: &str, tell: impl FnOnce(&str)) {
        let mut announced = self.0.lock().expect("nobody panics while holding it");
        if announced.is_settled {
            tell(line);
        } else {
            announced.waits = Some(line.to_owned());
        }
    }

    /// There is nothing to wait for: tells the line if it waits.
    pub(crate) fn settle(&self, tell: impl FnOnce(&str)) {
        let mut announced = self.0.lock().expect("nobody panics while holding it");
        announced.is_settled = true;
        if let Some(line) = announced.waits.take() {
            tell(&line);
        }
    }
}

/// The file of an SQL node.
pub(crate) struct RootPasswordFile {
    directory: PathBuf,
    /// Where a password is until `root` has it: nodes may share a directory.
    pending: PathBuf,
    published: PathBuf,
    log: Log,
    announcement: Announcement,
}

impl fmt::Debug for RootPasswordFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RootPasswordFile").field(&self.published).finish()
    }
}

impl RootPasswordFile {
    pub(crate) fn new(
        directory: &Path,
        node: NodeId,
        log: Log,
        announcement: Announcement,
    ) -> Self {
        let directory = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
        let pending = directory.join(format!(".root-password-{}.new", node.0));
        let published = directory.join("root-password");
        Self { directory, pending, published, log, announcement }
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

    fn settle(&self) {
        self.announcement.settle(tell);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_password_is_shown_when_it_is_good_and_to_its_owner_alone() {
        let directory = std::env::temp_dir().join(format!("nines-root-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let said = Arc::new(Mutex::new(Vec::new()));
        let log = said.clone();
        let log: Log = Arc::new(move |line: &str| log.lock().unwrap().push(line.to_owned()));
        let announcement = Announcement::default();
        let file = RootPasswordFile::new(&directory, NodeId(51), log.clone(), announcement);
        let other = RootPasswordFile::new(&directory, NodeId(52), log, Announcement::at_once());
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

    #[test]
    fn a_process_is_ready_when_the_password_can_be_read() {
        let told = Mutex::new(Vec::new());
        let tell = |line: &str| told.lock().unwrap().push(line.to_owned());
        let announcement = Announcement::default();
        announcement.serve("ready: one", tell);
        assert!(told.lock().unwrap().is_empty());
        announcement.settle(tell);
        announcement.settle(tell);
        assert_eq!(told.lock().unwrap().split_off(0), ["ready: one"]);
        let announcement = Announcement::default();
        announcement.settle(tell);
        announcement.serve("ready: two", tell);
        Announcement::at_once().serve("ready: three", tell);
        assert_eq!(*told.lock().unwrap(), ["ready: two", "ready: three"]);
    }
}
