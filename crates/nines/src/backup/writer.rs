//! A backup that is written.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use aws_lc_rs::digest;
use runtime::hex;
use sql::{BackupKey, Contents};

use super::format::{
    CHECK, DEFINITIONS, DEFINITIONS_NUMBER, DataKey, Encryption, FORM, FileEntry, MANIFEST,
    Manifest, Place, check_of, seal,
};
use super::key;

/// Bytes of the definitions in one portion.
const DEFINITIONS_PORTION: usize = 1 << 20;
/// Bytes after which what was written is sent to the disk, so that the end does not take long.
const SYNC_BYTES: u64 = 64 << 20;

/// A backup under way. What is not finished when it is dropped is removed.
pub(super) struct Writer {
    directory: PathBuf,
    key: Option<DataKey>,
    encryption: Option<Encryption>,
    /// Files that are complete or replaced.
    files: BTreeMap<String, FileEntry>,
    /// The names of all files that were made.
    made: Vec<String>,
    current: Option<Current>,
    last: u32,
    is_finished: bool,
}

/// The file that is written.
struct Current {
    name: String,
    number: u32,
    table: Option<usize>,
    file: File,
    sum: digest::Context,
    bytes: u64,
    unsynced: u64,
    portions: u64,
}

impl Writer {
    /// Begins a backup in a directory that is not there, or empty; its parent is there.
    pub(super) fn create(directory: &Path, given: &BackupKey) -> Result<Self, String> {
        let shown = directory.display();
        match DirBuilder::new().mode(0o700).create(directory) {
            Ok(()) => {}
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {
                let kind =
                    fs::symlink_metadata(directory).map_err(|why| format!("{shown}: {why}"))?;
                if !kind.is_dir() {
                    return Err(format!("{shown} is no directory"));
                }
                let mut entries =
                    fs::read_dir(directory).map_err(|why| format!("{shown}: {why}"))?;
                if entries.next().is_some() {
                    return Err(format!("{shown} is not empty: name a directory of its own"));
                }
            }
            Err(why) => return Err(format!("the directory {shown} cannot be made: {why}")),
        }
        let made = key::make(given);
        let (key, encryption) = match made {
            Ok(made) => made.unzip(),
            Err(why) => {
                // Nothing is in it yet.
                let _ = fs::remove_dir(directory);
                return Err(why);
            }
        };
        Ok(Self {
            directory: directory.to_path_buf(),
            key,
            encryption,
            files: BTreeMap::new(),
            made: Vec::new(),
            current: None,
            last: DEFINITIONS_NUMBER,
            is_finished: false,
        })
    }

    fn new_file(&self, name: &str) -> Result<File, String> {
        let path = self.directory.join(name);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        file.map_err(|why| format!("{}: {why}", path.display()))
    }

    fn begin(&mut self, name: &str, number: u32, table: Option<usize>) -> Result<(), String> {
        self.end()?;
        let file = self.new_file(name)?;
        self.made.push(name.to_owned());
        self.current = Some(Current {
            name: name.to_owned(),
            number,
            table,
            file,
            sum: digest::Context::new(&digest::SHA256),
            bytes: 0,
            unsynced: 0,
            portions: 0,
        });
        Ok(())
    }

    /// Completes the file that is written.
    fn end(&mut self) -> Result<(), String> {
        let Some(current) = self.current.take() else { return Ok(()) };
        let synced = current.file.sync_all();
        synced.map_err(|why| format!("{}: {why}", self.directory.join(&current.name).display()))?;
        let entry = FileEntry {
            number: current.number,
            bytes: current.bytes,
            sha256: hex(current.sum.finish().as_ref()),
            table: current.table,
        };
        self.files.insert(current.name, entry);
        Ok(())
    }

    /// The rows of a table follow. Those that were written of it before are removed.
    pub(super) fn table(&mut self, table: usize) -> Result<(), String> {
        self.end()?;
        let of_table = |entry: &FileEntry| entry.table == Some(table);
        let before = self.files.iter().find(|(_, entry)| of_table(entry));
        if let Some(name) = before.map(|(name, _)| name.clone()) {
            self.files.remove(&name);
            let path = self.directory.join(&name);
            fs::remove_file(&path).map_err(|why| format!("{}: {why}", path.display()))?;
        }
        self.last += 1;
        let number = self.last;
        self.begin(&format!("{number:06}.rows"), number, Some(table))
    }

    /// Adds a portion to the file that is written.
    pub(super) fn rows(&mut self, rows: &[u8]) -> Result<(), String> {
        let current = self.current.as_mut().ok_or("rows of no table")?;
        let place = Place { file: current.number, portion: current.portions };
        let portion = seal(rows, place, self.key.as_ref())?;
        let failed = |why| format!("{}: {why}", self.directory.join(&current.name).display());
        current.file.write_all(&portion).map_err(failed)?;
        current.sum.update(&portion);
        current.portions += 1;
        current.bytes += portion.len() as u64;
        current.unsynced += portion.len() as u64;
        if current.unsynced >= SYNC_BYTES {
            current.file.sync_data().map_err(failed)?;
            current.unsynced = 0;
        }
        Ok(())
    }

    /// Completes the backup; its size.
    pub(super) fn finish(&mut self, contents: &Contents) -> Result<u64, String> {
        let unwritable = |why| format!("the definitions cannot be written: {why}");
        let text = serde_json::to_vec(contents).map_err(unwritable)?;
        self.begin(DEFINITIONS, DEFINITIONS_NUMBER, None)?;
        for portion in text.chunks(DEFINITIONS_PORTION) {
            self.rows(portion)?;
        }
        self.end()?;
        let manifest = Manifest {
            form: FORM,
            program: contents.version.clone(),
            epoch: contents.epoch,
            began: contents.began,
            ended: contents.ended,
            id: hex(&key::random::<16>()?),
            encryption: self.encryption.clone(),
            files: self.files.clone(),
        };
        let mut text = serde_json::to_vec_pretty(&manifest).map_err(unwritable)?;
        text.push(b'\n');
        let check = check_of(&text, self.key.as_ref());
        self.write(CHECK, check.as_bytes())?;
        // The name appears when all else is on the disk.
        let aside = format!("{MANIFEST}.new");
        self.write(&aside, &text)?;
        self.sync_directory()?;
        let rename = fs::rename(self.directory.join(&aside), self.directory.join(MANIFEST));
        rename.map_err(|why| format!("{}: {why}", self.directory.display()))?;
        self.made.push(MANIFEST.to_owned());
        self.sync_directory()?;
        self.is_finished = true;
        let files: u64 = self.files.values().map(|entry| entry.bytes).sum();
        Ok(files + text.len() as u64)
    }

    fn write(&mut self, name: &str, bytes: &[u8]) -> Result<(), String> {
        let mut file = self.new_file(name)?;
        self.made.push(name.to_owned());
        let written = file.write_all(bytes).and_then(|()| file.sync_all());
        written.map_err(|why| format!("{}: {why}", self.directory.join(name).display()))
    }

    fn sync_directory(&self) -> Result<(), String> {
        let synced = File::open(&self.directory).and_then(|directory| directory.sync_all());
        synced.map_err(|why| format!("{}: {why}", self.directory.display()))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if self.is_finished {
            return;
        }
        // The manifest first: what is left, if anything, is no backup.
        for name in self.made.iter().rev() {
            let _ = fs::remove_file(self.directory.join(name));
        }
        let _ = fs::remove_dir(&self.directory);
    }
}
