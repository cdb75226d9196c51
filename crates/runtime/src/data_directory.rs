//! Whose data directory it is, and who may use it.
//!
//! # Owns
//! The lock (`lock`), the identity (`node`) and the keys (`keys`) in a node's data directory.
//! # Guarantees
//! 1. One process at a time uses a directory; the lock ends with the process, however that ends.
//! 2. A directory of another node, of a newer version, one that is none, or whose keys cannot be
//!    opened, is refused and left as it was.
//! 3. Every life of a node has a larger incarnation than those before; it is on the disk before the
//!    life begins.
//! # Not here
//! What actors keep in it (`ondisk`), and how (`disk`).

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use model::{Incarnation, NodeId};
use ondisk::{Damage, IDENTITY_FILE, Identity};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::encryption::{Encryption, KEYS_FILE, KeyRing, MasterKeys, data_key_of};

/// A lock that a process holds on a directory until it ends.
#[derive(Debug)]
pub struct DirectoryLock {
    /// Closing it ends the lock.
    _file: File,
}

/// A node's data directory, locked.
#[derive(Debug)]
pub struct DataDirectory {
    path: PathBuf,
    node: NodeId,
    /// What is in it, if it has been used before.
    identity: Option<Identity>,
    keys: Option<Arc<KeyRing>>,
    /// What wraps the keys.
    master: Option<MasterKeys>,
    _lock: DirectoryLock,
}

/// Why a directory cannot be used.
#[derive(Debug)]
pub enum DirectoryError {
    /// Another process holds its lock: what that has written about itself.
    InUse(PathBuf, String),
    /// It has files in it and does not say whose they are.
    Foreign(PathBuf),
    /// What it says of itself cannot be used.
    Identity(PathBuf, Damage),
    /// It belongs to another node.
    OtherNode(PathBuf, NodeId),
    /// It is encrypted, or is to be, and its keys cannot be opened: all about it.
    Keys(String),
    /// The system refuses something.
    System(PathBuf, io::Error),
}

impl fmt::Display for DirectoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DirectoryError::InUse(path, who) => {
                let who = who.trim();
                let space = if who.is_empty() { "" } else { " " };
                write!(f, "{} is in use by another process{space}{who}", path.display())
            }
            DirectoryError::Foreign(path) => write!(
                f,
                "{} has files in it and no valid file `{IDENTITY_FILE}`: it is not the data \
                 directory of a node, or it is damaged; choose an empty one",
                path.display()
            ),
            DirectoryError::Identity(path, damage) => {
                write!(f, "{} cannot be used: {damage}", path.join(IDENTITY_FILE).display())
            }
            DirectoryError::OtherNode(path, node) => {
                write!(f, "{} is the data directory of node {}", path.display(), node.0)
            }
            DirectoryError::Keys(why) => f.write_str(why),
            DirectoryError::System(path, error) => {
                write!(f, "cannot use {}: {error}", path.display())
            }
        }
    }
}

impl std::error::Error for DirectoryError {}

/// How often a lock is tried again that somebody has, and after how long.
const LOCK_TRIES: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

impl DirectoryLock {
    /// Takes the lock on a directory, which is made if it is not there.
    pub fn take(directory: &Path) -> Result<DirectoryLock, DirectoryError> {
        let failed = |error: io::Error| DirectoryError::System(directory.to_path_buf(), error);
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
        let path = directory.join(LOCK_FILE);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(&path).map_err(|e| DirectoryError::System(path.clone(), e))?;
        let mut locked = flock(&file, FlockOperation::NonBlockingLockExclusive);
        // A child that is just being begun has what its parent had open, for a moment longer.
        for _ in 0..LOCK_TRIES {
            if locked != Err(Errno::WOULDBLOCK) {
                break;
            }
            std::thread::sleep(LOCK_PAUSE);
            locked = flock(&file, FlockOperation::NonBlockingLockExclusive);
        }
        match locked {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let mut who = String::new();
                // Without it the message says less.
                let _ = file.read_to_string(&mut who);
                return Err(DirectoryError::InUse(directory.to_path_buf(), who));
            }
            Err(error) => return Err(DirectoryError::System(path, error.into())),
        }
        let who = format!("{}\n", std::process::id());
        let written = file.set_len(0).and_then(|()| file.write_all(who.as_bytes()));
        written.map_err(|error| DirectoryError::System(path, error))?;
        Ok(DirectoryLock { _file: file })
    }
}

impl DataDirectory {
    /// Takes a node's data directory, which is made if it is not there.
    pub fn open(
        path: &Path,
        node: NodeId,
        encryption: &Encryption,
    ) -> Result<DataDirectory, DirectoryError> {
        let lock = DirectoryLock::take(path)?;
        Self::open_locked(path, node, encryption, lock)
    }

    /// Empties a node's data directory, and takes it. Nothing of it has to be readable, but it must
    /// be this node's as far as it says whose it is.
    pub fn empty(
        path: &Path,
        node: NodeId,
        encryption: &Encryption,
    ) -> Result<DataDirectory, DirectoryError> {
        let lock = DirectoryLock::take(path)?;
        match KeyRing::owner(path) {
            Some(owner) if owner != node => {
                return Err(DirectoryError::OtherNode(path.to_path_buf(), owner));
            }
            // Its keys may be lost: then this is how the node comes back.
            Some(_) => {}
            None => drop(Self::look(path, node, None)?),
        }
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            let entry = entry.path();
            let name = entry.file_name().unwrap_or_default().to_string_lossy();
            // Who it is on the network is not what it has on its disk.
            if name == LOCK_FILE || is_of_certificates(&name) {
                continue;
            }
            let gone =
                if entry.is_dir() { fs::remove_dir_all(&entry) } else { fs::remove_file(&entry) };
            gone.map_err(|error| DirectoryError::System(entry, error))?;
        }
        Self::open_locked(path, node, encryption, lock)
    }

    fn open_locked(
        path: &Path,
        node: NodeId,
        encryption: &Encryption,
        lock: DirectoryLock,
    ) -> Result<DataDirectory, DirectoryError> {
        let keys = KeyRing::open(path, node, encryption).map_err(DirectoryError::Keys)?;
        let identity = Self::look(path, node, keys.as_deref())?;
        let (path, master) = (path.to_path_buf(), encryption.master.clone());
        Ok(DataDirectory { path, node, identity, keys, master, _lock: lock })
    }

    /// Whose directory it is; none for a new one. An error if it is not this node's.
    fn look(
        path: &Path,
        node: NodeId,
        keys: Option<&KeyRing>,
    ) -> Result<Option<Identity>, DirectoryError> {
        let failed = |error: io::Error| DirectoryError::System(path.to_path_buf(), error);
        let identity = match fs::read(path.join(IDENTITY_FILE)) {
            Ok(bytes) => {
                let damaged = |damage| DirectoryError::Identity(path.to_path_buf(), damage);
                let bytes = opened(path, bytes, keys)?;
                Some(Identity::decode(&bytes).map_err(damaged)?)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(error)),
        };
        match &identity {
            Some(identity) if identity.node != node => {
                return Err(DirectoryError::OtherNode(path.to_path_buf(), identity.node));
            }
            Some(_) => {}
            None if is_blank(path).map_err(failed)? => {}
            None => return Err(DirectoryError::Foreign(path.to_path_buf())),
        }
        Ok(identity)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The keys that its files are encrypted with, if there are some.
    pub fn keys(&self) -> Option<&Arc<KeyRing>> {
        self.keys.as_ref()
    }

    /// The number of workers whose files are in it; none if it is new.
    pub fn workers(&self) -> Option<u8> {
        self.identity.map(|identity| identity.workers)
    }

    /// The newest life that has used it; none if it is new.
    pub fn last_life(&self) -> Option<Incarnation> {
        self.identity.map(|identity| identity.incarnation)
    }

    fn save_keys(&self) -> io::Result<()> {
        match (&self.keys, &self.master) {
            (Some(keys), Some(master)) => keys.save(master),
            _ => Ok(()),
        }
    }

    /// A new life of the node begins: says so in the directory, durably.
    pub fn begin_life(
        &mut self,
        incarnation: Incarnation,
        workers: u8,
    ) -> Result<(), DirectoryError> {
        assert!(self.last_life().is_none_or(|last| last < incarnation), "lives grow");
        assert!(self.workers().is_none_or(|before| before == workers), "workers stay");
        let identity = Identity { node: self.node, workers, incarnation };
        let written = self.save_keys().and_then(|()| {
            let bytes = identity.encode();
            let bytes = match self.keys.as_ref().filter(|keys| keys.encrypts()) {
                Some(keys) => keys.seal(&bytes),
                None => bytes,
            };
            replace(&self.path, IDENTITY_FILE, &bytes)
        });
        written.map_err(|error| DirectoryError::System(self.path.clone(), error))?;
        self.identity = Some(identity);
        Ok(())
    }
}

/// What is in the file of an identity.
fn opened(
    directory: &Path,
    bytes: Vec<u8>,
    keys: Option<&KeyRing>,
) -> Result<Vec<u8>, DirectoryError> {
    let path = || directory.join(IDENTITY_FILE).display().to_string();
    match keys.filter(|keys| !keys.is_new()) {
        Some(keys) => keys
            .open_file(bytes)
            .map_err(|why| DirectoryError::Keys(format!("{} cannot be used: {why}", path()))),
        None if data_key_of(&bytes).is_some() => Err(DirectoryError::Keys(format!(
            "{} is encrypted, and {} is missing: put it back; nothing was changed",
            path(),
            directory.join(KEYS_FILE).display()
        ))),
        None => Ok(bytes),
    }
}

/// Replaces a file by another one, of which either all is there after a loss of power or nothing.
pub fn replace(directory: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let unfinished = directory.join(format!("{name}{UNFINISHED}"));
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&unfinished, directory.join(name))?;
    File::open(directory)?.sync_all()?;
    // The directory itself may be new.
    match directory.parent() {
        Some(parent) if parent != Path::new("") => File::open(parent)?.sync_all(),
        _ => Ok(()),
    }
}

/// Whether a file of a node's directory is about its identity on the network: it may be there
/// before the node has begun its first life, and outlives everything else.
pub fn is_of_certificates(name: &str) -> bool {
    let name = name.strip_suffix(UNFINISHED).unwrap_or(name);
    CERTIFICATE_FILES.contains(&name)
}

/// Whether nothing is in a directory but certificates, and what a first start leaves that was
/// interrupted.
fn is_blank(directory: &Path) -> io::Result<bool> {
    let (identity, keys) =
        (format!("{IDENTITY_FILE}{UNFINISHED}"), format!("{KEYS_FILE}{UNFINISHED}"));
    let left = [LOCK_FILE, KEYS_FILE, identity.as_str(), keys.as_str()];
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        let name = name.to_str().unwrap_or_default();
        if !left.contains(&name) && !is_of_certificates(name) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Keys and certificates, tokens, and what is kept of them.
const CERTIFICATE_FILES: [&str; 9] = [
    "node-ca.pem",
    "node-cert.pem",
    "node-key.pem",
    "node-revoked.txt",
    "node-token.txt",
    "cluster-ca.pem",
    "cluster-ca-key.pem",
    "certificates.json",
    "http-token.txt",
];
const LOCK_FILE: &str = "lock";
/// What the name of a file ends with that is being written.
const UNFINISHED: &str = ".new";

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    struct Place(PathBuf);

    impl Place {
        fn new() -> Place {
            static COUNT: AtomicU32 = AtomicU32::new(0);
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let name = format!("nines-directory-{}-{number}", std::process::id());
            Place(std::env::temp_dir().join(name))
        }

        fn open(&self, node: u16) -> Result<DataDirectory, DirectoryError> {
            DataDirectory::open(&self.0, NodeId(node), &Encryption::default())
        }

        fn refusal(&self, node: u16) -> String {
            self.open(node).unwrap_err().to_string()
        }

        fn write(&self, name: &str, bytes: &[u8]) {
            fs::write(self.0.join(name), bytes).unwrap();
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_directory_remembers_its_node_and_its_lives() {
        let place = Place::new();
        let mut directory = place.open(3).unwrap();
        assert_eq!((directory.workers(), directory.last_life()), (None, None));
        directory.begin_life(Incarnation(5), 2).unwrap();
        drop(directory);
        let mut directory = place.open(3).unwrap();
        assert_eq!((directory.workers(), directory.last_life()), (Some(2), Some(Incarnation(5))));
        directory.begin_life(Incarnation(6), 2).unwrap();
        drop(directory);
        let refusal = place.refusal(4);
        assert!(refusal.ends_with("is the data directory of node 3"), "{refusal}");
    }

    #[test]
    fn one_process_uses_it() {
        let place = Place::new();
        let directory = place.open(1).unwrap();
        let refusal = place.refusal(1);
        let me = std::process::id();
        assert!(refusal.ends_with(&format!("is in use by another process {me}")), "{refusal}");
        drop(directory);
        place.open(1).unwrap();
    }

    #[test]
    fn a_first_start_that_was_interrupted_is_begun_again() {
        let place = Place::new();
        drop(place.open(1).unwrap());
        place.write("node.new", b"half");
        place.open(1).unwrap().begin_life(Incarnation(1), 1).unwrap();
        assert_eq!(place.open(1).unwrap().workers(), Some(1));
    }

    #[test]
    fn a_node_may_have_joined_before_its_first_life() {
        let place = Place::new();
        drop(place.open(1).unwrap());
        for name in ["node-ca.pem", "node-cert.pem", "node-key.pem", "node-cert.pem.new"] {
            place.write(name, b"x");
        }
        place.open(1).unwrap().begin_life(Incarnation(1), 1).unwrap();
    }

    #[test]
    fn what_is_not_known_is_left_alone() {
        let place = Place::new();
        place.open(1).unwrap().begin_life(Incarnation(1), 1).unwrap();
        let bytes = fs::read(place.0.join("node")).unwrap();
        let mut newer = bytes.clone();
        newer[8] = 200;
        place.write("node", &newer);
        let refusal = place.refusal(1);
        assert!(refusal.contains("format version 200"), "{refusal}");
        let mut damaged = bytes.clone();
        *damaged.last_mut().unwrap() ^= 1;
        place.write("node", &damaged);
        assert!(place.refusal(1).contains("checksum"));
        place.write("node", &bytes[..7]);
        assert!(matches!(place.open(1), Err(DirectoryError::Identity(..))));
        fs::remove_file(place.0.join("node")).unwrap();
        place.open(1).unwrap();
        place.write("diary", b"dear");
        let refusal = place.refusal(1);
        assert!(refusal.contains("choose an empty one"), "{refusal}");
        assert_eq!(fs::read(place.0.join("diary")).unwrap(), b"dear");
        place.write("file", b"");
        let refusal = DataDirectory::open(&place.0.join("file"), NodeId(1), &Encryption::default())
            .unwrap_err();
        assert!(matches!(refusal, DirectoryError::System(..)), "{refusal}");
    }
}
