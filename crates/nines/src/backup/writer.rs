//! A backup that is written.

use std::collections::BTreeMap;

use aws_lc_rs::digest;
use runtime::{hex, sha256_hex};
use sql::{BackupKey, Contents};

use super::archive;
use super::format::{
    CHECK, DEFINITIONS, DEFINITIONS_NUMBER, DataKey, Encryption, FORM, FORM_OF_CHAINS, FileEntry,
    MANIFEST, Manifest, Position, check_of, seal,
};
use super::key;
use super::place::{NewFile, Place};

/// Bytes of the definitions in one portion.
const DEFINITIONS_PORTION: usize = 1 << 20;
/// Bytes after which what was written is sent to the disk, so that the end does not take long.
const SYNC_BYTES: u64 = 64 << 20;

/// A backup under way. What is not finished when it is dropped is removed.
pub(super) struct Writer {
    place: Place,
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
    file: NewFile,
    sum: digest::Context,
    bytes: u64,
    unsynced: u64,
    portions: u64,
}

impl Writer {
    /// Begins a backup in a place that is not there, or empty; its parent is there.
    pub(super) fn create(place: Place, given: &BackupKey) -> Result<Self, String> {
        place.begin()?;
        let made = key::make(given);
        let (key, encryption) = match made {
            Ok(made) => made.unzip(),
            Err(why) => {
                // Nothing is in it yet.
                place.leave();
                return Err(why);
            }
        };
        Ok(Self {
            place,
            key,
            encryption,
            files: BTreeMap::new(),
            made: Vec::new(),
            current: None,
            last: DEFINITIONS_NUMBER,
            is_finished: false,
        })
    }

    fn begin(&mut self, name: &str, number: u32, table: Option<usize>) -> Result<(), String> {
        self.end()?;
        let file = self.place.create(name)?;
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
        let Some(mut current) = self.current.take() else { return Ok(()) };
        current.file.end()?;
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
            self.place.remove(&name)?;
        }
        self.last += 1;
        let number = self.last;
        self.begin(&format!("{number:06}.rows"), number, Some(table))
    }

    /// Adds a portion to the file that is written.
    pub(super) fn rows(&mut self, rows: &[u8]) -> Result<(), String> {
        let current = self.current.as_mut().ok_or("rows of no table")?;
        let place = Position { file: current.number, portion: current.portions };
        let portion = seal(rows, place, self.key.as_ref())?;
        current.file.write(&portion)?;
        current.sum.update(&portion);
        current.portions += 1;
        current.bytes += portion.len() as u64;
        current.unsynced += portion.len() as u64;
        if current.unsynced >= SYNC_BYTES {
            current.file.sync()?;
            current.unsynced = 0;
        }
        Ok(())
    }

    /// Completes the backup; its size.
    pub(super) fn finish(&mut self, contents: &Contents) -> Result<u64, String> {
        let id = hex(&key::random::<16>()?);
        self.finish_as(contents, id, set_of(contents))
    }

    /// The same for what was in another backup: it keeps its id and its set.
    pub(super) fn finish_as(
        &mut self,
        contents: &Contents,
        id: String,
        set: String,
    ) -> Result<u64, String> {
        let unwritable = |why| format!("the definitions cannot be written: {why}");
        let text = serde_json::to_vec(contents).map_err(unwritable)?;
        self.begin(DEFINITIONS, DEFINITIONS_NUMBER, None)?;
        for portion in text.chunks(DEFINITIONS_PORTION) {
            self.rows(portion)?;
        }
        self.end()?;
        let manifest = Manifest {
            form: if contents.chain.is_some() { FORM_OF_CHAINS } else { FORM },
            program: contents.version.clone(),
            epoch: contents.epoch,
            began: contents.began,
            ended: contents.ended,
            id,
            set,
            encryption: self.encryption.clone(),
            files: self.files.clone(),
        };
        let mut text = serde_json::to_vec_pretty(&manifest).map_err(unwritable)?;
        text.push(b'\n');
        let check = check_of(&text, self.key.as_ref());
        self.made.push(CHECK.to_owned());
        self.place.publish(CHECK, check.as_bytes())?;
        self.made.push(MANIFEST.to_owned());
        self.place.publish(MANIFEST, &text)?;
        self.is_finished = true;
        let files: u64 = self.files.values().map(|entry| entry.bytes).sum();
        Ok(files + text.len() as u64)
    }
}

/// Backups of one set stand for each other: they are of the same cluster and the same subject.
fn set_of(contents: &Contents) -> String {
    if let Some(chain) = &contents.chain {
        return archive::set_of(chain);
    }
    let text = format!("{}\n{}", contents.cluster, contents.subject);
    sha256_hex(text.as_bytes())[..16].to_owned()
}

impl Drop for Writer {
    fn drop(&mut self) {
        if self.is_finished {
            return;
        }
        // The manifest first: what is left, if anything, is no backup.
        for name in self.made.iter().rev() {
            let _ = self.place.remove(name);
        }
        self.place.leave();
    }
}
