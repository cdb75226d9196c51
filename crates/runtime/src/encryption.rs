//! Encryption at rest: the keys of a data directory, and how its files are encrypted.
//!
//! # Owns
//! [`KeyRing`], the data keys of a directory; the header of an encrypted file.
//! # Guarantees
//! 1. Data keys are on the disk only as a master key has wrapped them (`key_file`). A new file is
//!    encrypted with the newest data key; files of older ones stay readable.
//! 2. Each file has a key of its own, derived from a data key and the file's salt, so that two
//!    files never share a key stream.
//! 3. A master key that does not fit is found out before anything is written.
//! # Not here
//! Which bytes are written when: `disk`. Where a master key comes from: `master`.

mod blocks;
mod key_file;
mod master;
mod reader;
mod stream;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use aws_lc_rs::rand;
use model::NodeId;

pub(crate) use blocks::{BLOCK, BlockCipher};
pub(crate) use key_file::KEYS_FILE;
use key_file::Wrapped;
pub use master::{KeySource, MasterKeys};
pub use reader::FileReader;
pub(crate) use stream::{AES, StreamCipher};

/// Bytes of every key: AES-256.
const KEY: usize = 32;
const SALT: usize = 32;
/// Bytes before the contents of an encrypted file. They are a block of the disk, so that contents
/// begin at the beginning of a block too.
pub(crate) const HEADER: u64 = 4_096;
/// The header is there twice: damage to one does not take the whole file with it.
const COPIES: [usize; 2] = [0, HEADER as usize / 2];
const MAGIC: &[u8; 8] = b"NINESENC";
/// The newest version of the format of encrypted files.
const VERSION: u32 = 1;
const COPY: usize = 8 + 4 + 4 + 4 + CHECK + SALT + 4;
/// Bytes by which a data key is told from another one of the same number.
const CHECK: usize = 8;

/// What a node is told about the encryption of its directory.
#[derive(Clone, Debug, Default)]
pub struct Encryption {
    /// What is written from now on is encrypted.
    pub encrypts: bool,
    /// The keys that wrap the keys of the directory.
    pub master: Option<MasterKeys>,
}

/// The data keys of a directory.
pub struct KeyRing {
    path: PathBuf,
    node: NodeId,
    encrypts: bool,
    keys: RwLock<DataKeys>,
    /// One change of the file at a time.
    saving: Mutex<()>,
    /// What is in memory is not in the file yet.
    unsaved: AtomicBool,
    /// There was no file.
    is_new: bool,
}

/// Data keys by their numbers, the newest last.
#[derive(Clone, Default)]
struct DataKeys(BTreeMap<u32, [u8; KEY]>);

/// What came of a rotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rotated {
    /// The number of the data key that new files get.
    pub data_key: u32,
    /// The name of the master key that wraps all data keys now.
    pub master_key: String,
}

/// How the contents of a file are encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// A key stream: no byte of the file is ever written twice with different values.
    Stream,
    /// Blocks, each with another key each time it is written.
    Blocks,
}

/// The cipher of one file.
#[derive(Debug)]
pub(crate) enum FileCipher {
    Stream(StreamCipher),
    Blocks(BlockCipher),
}

/// What the header of a file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    layout: Layout,
    data_key: u32,
    check: [u8; CHECK],
    salt: [u8; SALT],
}

/// What a file is by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beginning {
    /// Of a file that is not encrypted, or whose header is lost.
    Plain,
    Encrypted(Header),
    /// Of a version that is not known.
    Newer(u32),
}

impl KeyRing {
    /// Opens the keys of a node's directory, or makes some, which are not written yet. None where
    /// nothing is encrypted.
    pub(crate) fn open(
        directory: &Path,
        node: NodeId,
        encryption: &Encryption,
    ) -> Result<Option<Arc<KeyRing>>, String> {
        let master = encryption.master.as_ref();
        let encrypts = encryption.encrypts;
        if let Some(ring) = Self::open_to_read(directory, master)? {
            if ring.node != node {
                let (path, of) = (ring.path.display(), ring.node.0);
                return Err(format!("{path} has the keys of node {of}"));
            }
            return Ok(Some(Arc::new(KeyRing { encrypts, ..ring })));
        }
        if !encrypts {
            return Ok(None);
        }
        if master.is_none() {
            return Err(format!(
                "{} is to be encrypted, and there is no key: name its file, or a command that \
                 prints it, or set {}",
                directory.display(),
                master::VARIABLE
            ));
        }
        let mut keys = DataKeys::default();
        keys.add();
        let ring = KeyRing {
            path: directory.join(KEYS_FILE),
            node,
            encrypts,
            keys: RwLock::new(keys),
            saving: Mutex::default(),
            unsaved: AtomicBool::new(true),
            is_new: true,
        };
        Ok(Some(Arc::new(ring)))
    }

    /// Opens the keys of a directory to read its files. None where it has none.
    pub fn open_to_read(
        directory: &Path,
        master: Option<&MasterKeys>,
    ) -> Result<Option<KeyRing>, String> {
        let path = directory.join(KEYS_FILE);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(format!("cannot read {}: {error}", path.display())),
        };
        let name = path.display();
        let wrapped =
            Wrapped::decode(&bytes).map_err(|why| format!("{name} cannot be used: {why}"))?;
        let (keys, by_newest) = wrapped.open(master).map_err(|why| format!("{name}: {why}"))?;
        Ok(Some(KeyRing {
            node: wrapped.node(),
            encrypts: false,
            keys: RwLock::new(keys),
            saving: Mutex::default(),
            unsaved: AtomicBool::new(!by_newest),
            is_new: false,
            path,
        }))
    }

    /// The node whose directory has this file of keys; none if it has none that can be read.
    pub(crate) fn owner(directory: &Path) -> Option<NodeId> {
        let bytes = fs::read(directory.join(KEYS_FILE)).ok()?;
        Wrapped::decode(&bytes).ok().map(|wrapped| wrapped.node())
    }

    /// Whether the directory had no keys before.
    pub(crate) fn is_new(&self) -> bool {
        self.is_new
    }

    /// Whether new files are to be encrypted.
    pub(crate) fn encrypts(&self) -> bool {
        self.encrypts
    }

    /// Writes the file unless it is as it must be: the keys are new, or an older master key had
    /// wrapped them.
    pub(crate) fn save(&self, master: &MasterKeys) -> io::Result<()> {
        if self.unsaved.load(Ordering::SeqCst) {
            let _one = self.saving.lock().unwrap_or_else(PoisonError::into_inner);
            self.write(&self.keys(), master)?;
            self.unsaved.store(false, Ordering::SeqCst);
        }
        Ok(())
    }

    /// Makes a new data key for files that are begun from now on, and has the first of the master
    /// keys wrap all data keys.
    pub fn rotate(&self, master: &MasterKeys) -> Result<Rotated, String> {
        let _one = self.saving.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever gives a master key that never opened this file has the wrong file of keys.
        let bytes = fs::read(&self.path);
        let bytes =
            bytes.map_err(|error| format!("cannot read {}: {error}", self.path.display()))?;
        let path = self.path.display();
        let wrapped =
            Wrapped::decode(&bytes).map_err(|why| format!("{path} cannot be used: {why}"))?;
        wrapped.open(Some(master)).map_err(|why| format!("{path}: {why}"))?;
        let mut keys = self.keys();
        if keys.0.len() >= DATA_KEYS_MAX {
            return Err(format!("{path} has {DATA_KEYS_MAX} data keys, which is the most"));
        }
        let data_key = keys.add();
        self.write(&keys, master).map_err(|error| format!("cannot write {path}: {error}"))?;
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = keys;
        Ok(Rotated { data_key, master_key: master.newest_name() })
    }

    fn write(&self, keys: &DataKeys, master: &MasterKeys) -> io::Result<()> {
        let bytes = Wrapped::of(self.node, keys, master).encode();
        let directory = self.path.parent().unwrap_or(Path::new("."));
        crate::data_directory::replace(directory, KEYS_FILE, &bytes)
    }

    fn keys(&self) -> DataKeys {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Begins a new file: its header, and its cipher.
    pub(crate) fn new_file(&self, layout: Layout) -> (Vec<u8>, FileCipher) {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        let (data_key, key) = keys.newest();
        let header = Header { layout, data_key, check: check(key), salt: random() };
        (header.encode(), header.cipher(key))
    }

    /// The cipher of a file that begins so; none for one that is not encrypted.
    pub(crate) fn cipher(&self, beginning: &[u8]) -> Result<Option<FileCipher>, String> {
        let header = match Beginning::of(beginning) {
            Beginning::Plain => return Ok(None),
            Beginning::Newer(version) => {
                return Err(format!("it is encrypted in format {version}, by a newer version"));
            }
            Beginning::Encrypted(header) => header,
        };
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        let number = header.data_key;
        let key = keys.0.get(&number).filter(|key| check(key) == header.check);
        let key = key.ok_or_else(|| {
            format!("it is encrypted with a data key {number} that {} lacks", self.path.display())
        })?;
        Ok(Some(header.cipher(key)))
    }

    /// A whole small file: all of `contents`, encrypted.
    pub(crate) fn seal(&self, contents: &[u8]) -> Vec<u8> {
        let (mut file, cipher) = self.new_file(Layout::Blocks);
        let FileCipher::Blocks(cipher) = cipher else { panic!("asked for above") };
        assert!(contents.len() <= BLOCK, "{} bytes are more than a small file", contents.len());
        file.extend_from_slice(&cipher.seal(0, contents).expect("small files fit"));
        file
    }

    /// The contents of a whole file, encrypted or not.
    pub fn open_file(&self, file: Vec<u8>) -> Result<Vec<u8>, String> {
        let header = (HEADER as usize).min(file.len());
        let Some(cipher) = self.cipher(&file[..header])? else { return Ok(file) };
        let mut contents = file;
        contents.drain(..header);
        match cipher {
            FileCipher::Stream(cipher) => {
                cipher.decrypt(0, &mut contents, true);
                Ok(contents)
            }
            FileCipher::Blocks(cipher) => Ok(cipher.open_all(&contents)),
        }
    }
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyRing").field("path", &self.path).finish_non_exhaustive()
    }
}

impl DataKeys {
    /// Adds a new key; its number.
    fn add(&mut self) -> u32 {
        let number = self.0.last_key_value().map_or(1, |(last, _)| last + 1);
        self.0.insert(number, random());
        number
    }

    fn newest(&self) -> (u32, &[u8; KEY]) {
        let (number, key) = self.0.last_key_value().expect("there is a first data key");
        (*number, key)
    }
}

impl Header {
    fn encode(&self) -> Vec<u8> {
        let mut copy = Vec::with_capacity(COPY);
        copy.extend_from_slice(MAGIC);
        copy.extend_from_slice(&VERSION.to_le_bytes());
        let layout: u32 = match self.layout {
            Layout::Stream => 1,
            Layout::Blocks => 2,
        };
        copy.extend_from_slice(&layout.to_le_bytes());
        copy.extend_from_slice(&self.data_key.to_le_bytes());
        copy.extend_from_slice(&self.check);
        copy.extend_from_slice(&self.salt);
        let checksum = crc32c::crc32c(&copy);
        copy.extend_from_slice(&checksum.to_le_bytes());
        let mut header = vec![0; HEADER as usize];
        for at in COPIES {
            header[at..at + COPY].copy_from_slice(&copy);
        }
        header
    }

    fn cipher(&self, data_key: &[u8; KEY]) -> FileCipher {
        match self.layout {
            Layout::Stream => {
                let key = derive(data_key, &self.salt, b"nines file, key stream, 1");
                FileCipher::Stream(StreamCipher::new(&key))
            }
            Layout::Blocks => {
                let key = derive(data_key, &self.salt, b"nines file, blocks, 1");
                FileCipher::Blocks(BlockCipher::new(key))
            }
        }
    }
}

impl Beginning {
    /// What the first bytes of a file say: one sound copy of the header is enough.
    fn of(bytes: &[u8]) -> Self {
        let copies = COPIES.map(|at| bytes.get(at..at + COPY).map_or(Self::Plain, Self::of_copy));
        let [first, second] = copies;
        if first == Self::Plain { second } else { first }
    }

    fn of_copy(bytes: &[u8]) -> Self {
        let (content, checksum) = bytes.split_at(COPY - 4);
        if &content[..8] != MAGIC || crc32c::crc32c(content).to_le_bytes() != checksum {
            return Self::Plain;
        }
        let number = |at: usize| {
            let bytes = content[at..at + 4].try_into().expect("four bytes");
            u32::from_le_bytes(bytes)
        };
        let layout = match (number(8), number(12)) {
            (VERSION, 1) => Layout::Stream,
            (VERSION, 2) => Layout::Blocks,
            (version, _) => return Self::Newer(version),
        };
        let (check, salt) = content[20..].split_at(CHECK);
        let check = check.try_into().expect("eight bytes");
        let salt = salt.try_into().expect("the rest is the salt");
        Self::Encrypted(Header { layout, data_key: number(16), check, salt })
    }
}

/// The number of the data key that a file is encrypted with, by its first bytes; none for a file
/// that is not encrypted.
pub fn data_key_of(beginning: &[u8]) -> Option<u32> {
    match Beginning::of(beginning) {
        Beginning::Encrypted(header) => Some(header.data_key),
        Beginning::Plain | Beginning::Newer(_) => None,
    }
}

/// What the file of keys of a directory says of itself, which takes no key; none for another file.
pub fn describe_keys(path: &Path) -> Option<Result<String, String>> {
    if path.file_name()? != KEYS_FILE {
        return None;
    }
    let bytes = fs::read(path).map_err(|error| format!("it cannot be read: {error}"));
    Some(bytes.and_then(|bytes| Wrapped::decode(&bytes)).map(|wrapped| wrapped.to_string()))
}

/// What tells a data key from others, and nothing about it.
fn check(data_key: &[u8; KEY]) -> [u8; CHECK] {
    let derived = derive(data_key, b"", b"nines check of a data key, 1");
    derived[..CHECK].try_into().expect("some of its bytes")
}

/// A key from another one, by HKDF with SHA-256.
fn derive(from: &[u8], salt: &[u8], purpose: &[u8]) -> [u8; KEY] {
    let mut key = [0; KEY];
    let secret = Salt::new(HKDF_SHA256, salt).extract(from);
    let info = [purpose];
    let derived = secret.expand(&info, HKDF_SHA256).expect("one block of output");
    derived.fill(&mut key).expect("the length that was asked for");
    key
}

/// Bytes that nobody can guess.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    rand::fill(&mut bytes).expect("the system gives random bytes");
    bytes
}

/// Data keys that a directory can have: one for each rotation.
const DATA_KEYS_MAX: usize = 10_000;
