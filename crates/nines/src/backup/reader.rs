//! A backup that is read.

use std::io::Read;

use aws_lc_rs::digest;
use runtime::hex;
use sql::{BackupKey, Contents, ListedBackup};

use super::format::{
    CHECK, DEFINITIONS, DataKey, FORM, FORM_OF_CHAINS, FileEntry, HEAD, MANIFEST, Manifest,
    Position, check_of, open, stored_length,
};
use super::key;
use super::place::Place;
use super::rework::is_aside;

/// Largest manifest.
const MANIFEST_MAX: u64 = 256 << 20;

/// A backup.
pub(super) struct Backup {
    place: Place,
    pub(super) manifest: Manifest,
    key: Option<DataKey>,
    /// What is in it, but for its rows.
    pub(super) contents: Contents,
    /// The file that is read.
    current: Option<Portions>,
}

/// A file that is read portion by portion.
struct Portions {
    shown: String,
    file: Box<dyn Read>,
    number: u32,
    left: u64,
    portion: u64,
    sum: digest::Context,
    sha256: String,
}

/// The manifest of a place, checked as far as that goes without a key; with its text.
pub(super) fn manifest(at: &Place) -> Result<(Manifest, Vec<u8>), String> {
    let shown = at.shown_file(MANIFEST);
    let Some(text) = at.small(MANIFEST, MANIFEST_MAX)? else {
        return Err(format!("{} is no backup: it has no {MANIFEST}", at.shown()));
    };
    let check = check(at)?;
    // The first line is the checksum; a second one needs the key.
    if !check.starts_with(check_of(&text, None).as_bytes()) {
        return Err(format!("{shown} is damaged: it does not fit {CHECK}"));
    }
    let unreadable = |why| format!("{shown}: {why}");
    // The form comes first: another version may have other fields.
    let value: serde_json::Value = serde_json::from_slice(&text).map_err(unreadable)?;
    let form = value.get("form").and_then(serde_json::Value::as_u64);
    if form != Some(FORM.into()) && form != Some(FORM_OF_CHAINS.into()) {
        return Err(format!(
            "{} is of a form that this version of Nines does not know: use the version that wrote \
             it, {}",
            at.shown(),
            value.get("program").and_then(|program| program.as_str()).unwrap_or("a newer one")
        ));
    }
    let manifest: Manifest = serde_json::from_value(value).map_err(unreadable)?;
    let is_encrypted = manifest.encryption.is_some();
    if check.iter().filter(|byte| **byte == b'\n').count() != 1 + usize::from(is_encrypted) {
        return Err(format!("{} is damaged", at.shown_file(CHECK)));
    }
    let is_name = |name: &String| !name.contains('/') && !name.starts_with('.');
    if !manifest.files.keys().all(is_name) {
        return Err(format!("{shown} names files elsewhere"));
    }
    Ok((manifest, text))
}

fn check(at: &Place) -> Result<Vec<u8>, String> {
    let check = at.small(CHECK, MANIFEST_MAX)?;
    check.ok_or_else(|| format!("{}: it is missing", at.shown_file(CHECK)))
}

impl Backup {
    /// Opens a backup and reads its definitions.
    pub(super) fn open(at: &Place, given: &BackupKey) -> Result<Self, String> {
        let (manifest, text) = manifest(at)?;
        let of_backup = |why: String| format!("{}: {why}", at.shown());
        let key = key::find(given, manifest.encryption.as_ref()).map_err(of_backup)?;
        if check(at)? != check_of(&text, key.as_ref()).as_bytes() {
            return Err(format!(
                "{} was changed by somebody who does not have the key",
                at.shown_file(MANIFEST)
            ));
        }
        let mut backup =
            Self { place: at.clone(), manifest, key, contents: Contents::default(), current: None };
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
                    self.place.shown()
                ));
            }
        }
        Ok(())
    }

    fn of_file(&self, name: &str, why: &str) -> String {
        format!("{}: {why}", self.place.shown_file(name))
    }

    fn portions(&self, name: &str, entry: &FileEntry) -> Result<Portions, String> {
        let opened = self.place.open(name)?;
        let (file, size) = opened.ok_or_else(|| self.of_file(name, "it is missing"))?;
        if size != entry.bytes {
            return Err(self.of_file(
                name,
                &format!("it is damaged: it has {size} bytes, and not {}", entry.bytes),
            ));
        }
        Ok(Portions {
            shown: self.place.shown_file(name),
            file,
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
        let shown = &self.shown;
        let damaged = |at: u64| format!("{shown} is damaged: portion {at}");
        if self.left == 0 {
            let sum = hex(self.sum.clone().finish().as_ref());
            return if sum == self.sha256 {
                Ok(None)
            } else {
                Err(format!("{shown} is damaged: its checksum is another"))
            };
        }
        let mut head = [0; HEAD];
        let cut = |why: std::io::Error| format!("{}: {why}", damaged(self.portion));
        self.file.read_exact(&mut head).map_err(cut)?;
        let length = stored_length(head);
        let Some(left) = self.left.checked_sub((HEAD + length) as u64) else {
            return Err(damaged(self.portion));
        };
        let mut stored = vec![0; length];
        self.file.read_exact(&mut stored).map_err(cut)?;
        self.sum.update(&head);
        self.sum.update(&stored);
        let place = Position { file: self.number, portion: self.portion };
        let raw = open(head, stored, place, key);
        let raw = raw.map_err(|why| format!("{}: {why}", damaged(self.portion)))?;
        (self.left, self.portion) = (left, self.portion + 1);
        Ok(Some(raw))
    }
}

/// The backups in a place, and in those that are in it, by name.
pub(super) fn list(at: &Place) -> Result<Vec<ListedBackup>, String> {
    Ok(places(at)?.iter().map(listed).collect())
}

/// Where there are backups, or what is left of some: a place, or those that are in it, by name.
pub(super) fn places(at: &Place) -> Result<Vec<Place>, String> {
    let names = at.names()?;
    if names.iter().any(|name| name == MANIFEST) {
        return Ok(vec![at.clone()]);
    }
    let mut places = Vec::new();
    for name in names.iter().filter(|name| name.ends_with('/') && !is_aside(name)) {
        let place = at.below(name);
        // What others may not look into is none of theirs.
        let Ok(names) = place.names() else { continue };
        let is_own = |name: &String| is_rows(name) || name == MANIFEST || name == CHECK;
        if names.iter().any(is_own) {
            places.push(place);
        }
    }
    Ok(places)
}

/// Whether a file has the name of one with rows.
pub(super) fn is_rows(name: &str) -> bool {
    let digits = name.strip_suffix(".rows").unwrap_or_default();
    digits.len() >= 6 && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn listed(at: &Place) -> ListedBackup {
    let place = at.shown();
    match manifest(at) {
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
            let state = match at.has(MANIFEST) {
                Ok(false) => "incomplete: it is being written, or its SQL node has died".to_owned(),
                _ => why,
            };
            ListedBackup { place, began: 0, epoch: 0, bytes: 0, is_encrypted: false, state }
        }
    }
}
