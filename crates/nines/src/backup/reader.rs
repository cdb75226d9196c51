//! A backup that is read.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use aws_lc_rs::digest;
use runtime::hex;
use sql::{BackupKey, Contents, ListedBackup};

use super::format::{
    CHECK, DEFINITIONS, DataKey, FORM, FileEntry, HEAD, MANIFEST, Manifest, Place, check_of, open,
    stored_length,
};
use super::key;

/// Largest manifest.
const MANIFEST_MAX: u64 = 256 << 20;

/// A backup.
pub(super) struct Backup {
    directory: PathBuf,
    pub(super) manifest: Manifest,
    key: Option<DataKey>,
    /// What is in it, but for its rows.
    pub(super) contents: Contents,
    /// The file that is read.
    current: Option<Portions>,
}

/// A file that is read portion by portion.
struct Portions {
    path: PathBuf,
    file: BufReader<File>,
    number: u32,
    left: u64,
    portion: u64,
    sum: digest::Context,
    sha256: String,
}

/// The manifest of a directory, checked as far as that goes without a key; with its text.
pub(super) fn manifest(directory: &Path) -> Result<(Manifest, Vec<u8>), String> {
    let path = directory.join(MANIFEST);
    let text = match small(&path) {
        Ok(text) => text,
        Err(why) if why.kind() == io::ErrorKind::NotFound => {
            return Err(format!("{} is no backup: it has no {MANIFEST}", directory.display()));
        }
        Err(why) => return Err(format!("{}: {why}", path.display())),
    };
    let check = small(&directory.join(CHECK));
    let check = check.map_err(|why| format!("{}: {why}", directory.join(CHECK).display()))?;
    // The first line is the checksum; a second one needs the key.
    if !check.starts_with(check_of(&text, None).as_bytes()) {
        return Err(format!("{} is damaged: it does not fit {CHECK}", path.display()));
    }
    let unreadable = |why| format!("{}: {why}", path.display());
    // The form comes first: another version may have other fields.
    let value: serde_json::Value = serde_json::from_slice(&text).map_err(unreadable)?;
    let form = value.get("form").and_then(serde_json::Value::as_u64);
    if form != Some(FORM.into()) {
        return Err(format!(
            "{} is of a form that this version of Nines does not know: use the version that wrote \
             it, {}",
            directory.display(),
            value.get("program").and_then(|program| program.as_str()).unwrap_or("a newer one")
        ));
    }
    let manifest: Manifest = serde_json::from_value(value).map_err(unreadable)?;
    let is_encrypted = manifest.encryption.is_some();
    if check.iter().filter(|byte| **byte == b'\n').count() != 1 + usize::from(is_encrypted) {
        return Err(format!("{} is damaged", directory.join(CHECK).display()));
    }
    let is_name = |name: &String| !name.contains('/') && !name.starts_with('.');
    if !manifest.files.keys().all(is_name) {
        return Err(format!("{} names files elsewhere", path.display()));
    }
    Ok((manifest, text))
}

/// The bytes of a small file.
fn small(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MANIFEST_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

impl Backup {
    /// Opens a backup and reads its definitions.
    pub(super) fn open(directory: &Path, given: &BackupKey) -> Result<Self, String> {
        let (manifest, text) = manifest(directory)?;
        let of_backup = |why: String| format!("{}: {why}", directory.display());
        let key = key::find(given, manifest.encryption.as_ref()).map_err(of_backup)?;
        let check = small(&directory.join(CHECK)).map_err(|why| of_backup(why.to_string()))?;
        if check != check_of(&text, key.as_ref()).as_bytes() {
            return Err(format!(
                "{} was changed by somebody who does not have the key",
                directory.join(MANIFEST).display()
            ));
        }
        let mut backup = Self {
            directory: directory.to_path_buf(),
            manifest,
            key,
            contents: Contents::default(),
            current: None,
        };
        let entry = backup.manifest.files.get(DEFINITIONS).cloned();
        let entry = entry.ok_or_else(|| of_backup("it has no definitions".to_owned()))?;
        let mut portions = backup.portions(DEFINITIONS, &entry)?;
        let mut text = Vec::new();
        while let Some(mut portion) = portions.next(backup.key.as_ref())? {
            text.append(&mut portion);
        }
        let contents = serde_json::from_slice(&text);
        backup.contents = contents.map_err(|why| of_backup(format!("{DEFINITIONS}: {why}")))?;
        Ok(backup)
    }

    /// Reads all files, and checks every byte.
    pub(super) fn verify(&mut self) -> Result<(), String> {
        let tables = self.contents.tables.len();
        for (name, entry) in self.manifest.files.clone() {
            if entry.table.is_some_and(|table| table >= tables) {
                return Err(self.of_file(&name, "it is of no table"));
            }
            let mut portions = self.portions(&name, &entry)?;
            while portions.next(self.key.as_ref())?.is_some() {}
        }
        let rows_of =
            |at: usize| self.manifest.files.values().filter(|e| e.table == Some(at)).count();
        for (at, table) in self.contents.tables.iter().enumerate() {
            if rows_of(at) > 1 || rows_of(at) == 0 && table.rows > 0 {
                let (database, name) = (&table.database, &table.name);
                return Err(format!(
                    "{}: the rows of {database}.{name} are missing",
                    self.directory.display()
                ));
            }
        }
        Ok(())
    }

    fn of_file(&self, name: &str, why: &str) -> String {
        format!("{}: {why}", self.directory.join(name).display())
    }

    fn portions(&self, name: &str, entry: &FileEntry) -> Result<Portions, String> {
        let path = self.directory.join(name);
        let file = File::open(&path).map_err(|why| self.of_file(name, &why.to_string()))?;
        let size = file.metadata().map_err(|why| self.of_file(name, &why.to_string()))?.len();
        if size != entry.bytes {
            return Err(self.of_file(
                name,
                &format!("it is damaged: it has {size} bytes, and not {}", entry.bytes),
            ));
        }
        Ok(Portions {
            path,
            file: BufReader::with_capacity(1 << 20, file),
            number: entry.number,
            left: size,
            portion: 0,
            sum: digest::Context::new(&digest::SHA256),
            sha256: entry.sha256.clone(),
        })
    }

    /// Begins with the rows of a table.
    pub(super) fn rewind(&mut self, table: usize) -> Result<(), String> {
        let mut files = self.manifest.files.iter();
        let found = files.find(|(_, entry)| entry.table == Some(table));
        self.current = found.map(|(name, entry)| self.portions(name, entry)).transpose()?;
        Ok(())
    }

    /// The next rows of the table; none after the last.
    pub(super) fn next(&mut self) -> Result<Option<Vec<u8>>, String> {
        match &mut self.current {
            Some(portions) => portions.next(self.key.as_ref()),
            None => Ok(None),
        }
    }
}

impl Portions {
    fn next(&mut self, key: Option<&DataKey>) -> Result<Option<Vec<u8>>, String> {
        let shown = self.path.display().to_string();
        let damaged = |at: u64| format!("{shown} is damaged: portion {at}");
        if self.left == 0 {
            let sum = hex(self.sum.clone().finish().as_ref());
            return match sum == self.sha256 {
                true => Ok(None),
                false => Err(format!("{shown} is damaged: its checksum is another")),
            };
        }
        let mut head = [0; HEAD];
        self.file.read_exact(&mut head).map_err(|_| damaged(self.portion))?;
        let length = stored_length(head);
        let Some(left) = self.left.checked_sub((HEAD + length) as u64) else {
            return Err(damaged(self.portion));
        };
        let mut stored = vec![0; length];
        self.file.read_exact(&mut stored).map_err(|_| damaged(self.portion))?;
        self.sum.update(&head);
        self.sum.update(&stored);
        let place = Place { file: self.number, portion: self.portion };
        let raw = open(head, stored, place, key);
        let raw = raw.map_err(|why| format!("{}: {why}", damaged(self.portion)))?;
        (self.left, self.portion) = (left, self.portion + 1);
        Ok(Some(raw))
    }
}

/// The backups in a directory, and in those that are in it, by name.
pub(super) fn list(directory: &Path) -> Result<Vec<ListedBackup>, String> {
    let failed = |why| format!("{}: {why}", directory.display());
    if directory.join(MANIFEST).exists() {
        return Ok(vec![listed(directory)]);
    }
    let mut places = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            places.push(path);
        }
    }
    places.sort();
    let is_backup = |path: &PathBuf| {
        let named = |name: &str| path.join(name).exists();
        named(MANIFEST) || named(CHECK) || named("000001.rows")
    };
    Ok(places.iter().filter(|path| is_backup(path)).map(|path| listed(path)).collect())
}

fn listed(directory: &Path) -> ListedBackup {
    let place = directory.display().to_string();
    match manifest(directory) {
        Ok((manifest, text)) => ListedBackup {
            place,
            began: manifest.began,
            epoch: manifest.epoch,
            bytes: manifest.files.values().map(|entry| entry.bytes).sum::<u64>()
                + text.len() as u64,
            is_encrypted: manifest.encryption.is_some(),
            state: "complete".to_owned(),
        },
        Err(why) => {
            let state = match directory.join(MANIFEST).exists() {
                true => why,
                false => "incomplete: it is being written, or its SQL node has died".to_owned(),
            };
            ListedBackup { place, began: 0, epoch: 0, bytes: 0, is_encrypted: false, state }
        }
    }
}
