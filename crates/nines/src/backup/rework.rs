//! Backups that are written again: with a key, without one, with another.
//!
//! # Guarantees
//! Every byte is checked before something is replaced. A directory is replaced by one exchange of
//! names: whoever is killed in the middle has left the old backup or the new one under its name,
//! complete, and beside it a directory `.NAME.nines-rework`, which the next call removes.
//! # Not here
//! Which keys there are (`key`).

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use sql::BackupKey;

use super::format::{CHECK, MANIFEST, check_of};
use super::key;
use super::place::{Place, sync_directory};
use super::reader::{self, Backup};
use super::writer::Writer;

/// What is behind the name of a directory in that of the one that is to replace it.
const ASIDE: &str = ".nines-rework";

/// What becomes of a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// It gets a key.
    Encrypt,
    /// It has a key, and is to have none.
    Decrypt,
    /// It gets another key: the one of its rows stays, and is wrapped by the new one.
    Rekey,
}

/// Writes a backup again, in its place or into a new one.
///
/// # Errors
/// When the backup is damaged, the key is wrong, or the change does not fit it.
pub(super) fn change(
    at: &Place,
    into: Option<&Place>,
    change: Change,
    old: &BackupKey,
    new: &BackupKey,
) -> Result<(), String> {
    let (manifest, _) = reader::manifest(at)?;
    match (change, manifest.encryption.is_some()) {
        (Change::Encrypt, true) => {
            return Err(format!("{} is encrypted already: rekey gives it another key", at.shown()));
        }
        (Change::Decrypt | Change::Rekey, false) => {
            return Err(format!("{} is not encrypted", at.shown()));
        }
        _ => {}
    }
    if let Some(into) = into {
        return copy(at, into, old, new);
    }
    let Place::Directory(path) = at else {
        return Err(format!(
            "{} is in an object store, where nothing can be exchanged at once: write it to \
             another place by --into",
            at.shown()
        ));
    };
    let path = fs::canonicalize(path).map_err(|why| format!("{}: {why}", path.display()))?;
    let aside = aside(&path)?;
    // What an earlier call has left: the old backup, or a part of a new one. The one that counts is
    // complete, which was looked at.
    discard(&aside)?;
    let at = Place::Directory(path.clone());
    let made = match change {
        Change::Rekey => rewrap(&at, &aside, old, new),
        Change::Encrypt | Change::Decrypt => copy(&at, &Place::Directory(aside.clone()), old, new),
    };
    let exchanged = made.and_then(|()| exchange(&path, &aside));
    let discarded = discard(&aside);
    exchanged.and(discarded)
}

/// The directory that is to replace another.
fn aside(path: &Path) -> Result<PathBuf, String> {
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| format!("{} has no name of its own", path.display()))?;
    Ok(path.with_file_name(format!(".{name}{ASIDE}")))
}

/// Whether a directory has the name of one that is to replace another, or was replaced.
pub(super) fn is_aside(name: &str) -> bool {
    name.starts_with('.') && name.trim_end_matches('/').ends_with(ASIDE)
}

/// Removes a directory aside, the manifest first: what is left is no backup.
pub(super) fn discard(aside: &Path) -> Result<(), String> {
    let failed = |why: std::io::Error| format!("{}: {why}", aside.display());
    match fs::symlink_metadata(aside) {
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(why) => return Err(failed(why)),
        Ok(kind) if !kind.is_dir() => return Err(failed(std::io::Error::other("no directory"))),
        Ok(_) => {}
    }
    Place::Directory(aside.to_path_buf()).remove(MANIFEST)?;
    sync_directory(aside)?;
    fs::remove_dir_all(aside).map_err(failed)
}

/// Writes all of a backup into another place by another key.
fn copy(at: &Place, into: &Place, old: &BackupKey, new: &BackupKey) -> Result<(), String> {
    let mut backup = Backup::open(at, old)?;
    backup.verify()?;
    let mut writer = Writer::create(into.clone(), new)?;
    for table in 0..backup.contents.tables.len() {
        backup.rewind(table)?;
        writer.table(table)?;
        while let Some(rows) = backup.next()? {
            writer.rows(&rows)?;
        }
    }
    let (id, set) = (backup.manifest.id.clone(), backup.manifest.set.clone());
    writer.finish_as(&backup.contents, id, set).map(|_| ())
}

/// Makes a directory with the same files and another wrapped key.
fn rewrap(at: &Place, aside: &Path, old: &BackupKey, new: &BackupKey) -> Result<(), String> {
    let Place::Directory(path) = at else { return Err("it is in no directory".to_owned()) };
    let mut backup = Backup::open(at, old)?;
    backup.verify()?;
    let mut manifest = backup.manifest.clone();
    let stored = manifest.encryption.as_ref().ok_or("it is not encrypted")?;
    let (data, encryption) = key::rewrap(old, stored, new)?;
    manifest.encryption = Some(encryption);
    let unwritable = |why| format!("the manifest cannot be written: {why}");
    let mut text = serde_json::to_vec_pretty(&manifest).map_err(unwritable)?;
    text.push(b'\n');
    let target = Place::Directory(aside.to_path_buf());
    target.begin()?;
    for name in manifest.files.keys() {
        let linked = fs::hard_link(path.join(name), aside.join(name));
        linked.map_err(|why| format!("{}: {why}", aside.join(name).display()))?;
    }
    target.publish(CHECK, check_of(&text, Some(&data)).as_bytes())?;
    target.publish(MANIFEST, &text)?;
    // What took its place is read once more, by its new key.
    Backup::open(&target, new).map(|_| ())
}

/// Has two directories of one parent exchange their names.
fn exchange(path: &Path, aside: &Path) -> Result<(), String> {
    let parent = path.parent().ok_or("the directory has no parent")?;
    sync_directory(parent)?;
    let exchanged = renameat_with(CWD, path, CWD, aside, RenameFlags::EXCHANGE);
    exchanged.map_err(|why| {
        format!(
            "{}: the file system cannot exchange two directories ({why}): write the backup to \
             another place by --into",
            path.display()
        )
    })?;
    sync_directory(parent)
}
