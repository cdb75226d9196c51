//! What a simulated disk holds: contents and names, each as programs see it and as it is durable.
//!
//! # Owns
//! Files, directories, and what a power loss leaves of them.
//! # Guarantees
//! 1. What was written before a `sync` began is durable when it has ended; names likewise, with
//!    `sync_directory`. Nothing else is: of what was written later any part may survive, torn at
//!    sectors or in the middle of one, and names may be as before, or as after, or some of each.
//! 2. A directory whose own name is not durable is lost with all that is in it.
//! 3. A rename is never seen half way. Bytes that a write does not touch keep their value.
//! 4. A file is written once, from its beginning to its end, unless it is one that is written in
//!    place: whoever writes other bytes where some have been written before, lost ones among them,
//!    or leaves a gap, ends the run. The encryption of the real host rests on it.
//! 5. Where a `sync` fails, some of the unsynced writes are lost at once, and a later `sync` does
//!    not bring them back.
//! # Not here
//! When things happen and what they cost (`disk`).

use std::collections::{BTreeMap, BTreeSet};

use actor::DiskErrorKind;
use ondisk::is_written_in_place;
use stdx::Prng;

/// Bytes that a disk writes at once, or not at all, if it is a good one.
pub(super) const SECTOR: usize = 512;

/// Orders what has been done to the files.
pub(super) type Mark = u64;

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    Directory,
    File(u64),
}

/// A change of names that is not durable yet.
#[derive(Clone, Debug)]
enum NameChange {
    Make { path: String, entry: Entry },
    Remove { path: String, entry: Entry },
    Rename { from: String, to: String, entry: Entry },
}

impl NameChange {
    fn path(&self) -> &str {
        match self {
            NameChange::Make { path, .. } | NameChange::Remove { path, .. } => path,
            NameChange::Rename { to, .. } => to,
        }
    }

    fn entry(&self) -> Entry {
        match self {
            NameChange::Make { entry, .. }
            | NameChange::Remove { entry, .. }
            | NameChange::Rename { entry, .. } => *entry,
        }
    }

    fn apply(&self, names: &mut BTreeMap<String, Entry>) {
        match self {
            NameChange::Make { path, entry } => {
                names.insert(path.clone(), *entry);
            }
            NameChange::Remove { path, entry } => {
                if names.get(path) == Some(entry) {
                    names.remove(path);
                }
            }
            NameChange::Rename { from, to, entry } => {
                if names.get(from) == Some(entry) {
                    names.remove(from);
                }
                names.insert(to.clone(), *entry);
            }
        }
    }
}

/// Bytes written and not yet durable.
#[derive(Clone, Debug)]
struct Written {
    mark: Mark,
    offset: usize,
    bytes: Vec<u8>,
}

#[derive(Clone, Debug, Default)]
struct File {
    contents: Vec<u8>,
    durable: Vec<u8>,
    writes: Vec<Written>,
    /// What has been written, also what was lost.
    ever: Vec<u8>,
    reserved: u64,
    /// Something has changed its bytes behind the back of whoever wrote them.
    damaged: bool,
    /// Reading it fails.
    unreadable: bool,
}

impl File {
    /// Checks that the file is written once, and notes what is written.
    fn note(&mut self, path: &str, offset: usize, bytes: &[u8]) {
        let end = self.ever.len();
        assert!(offset <= end, "{path}: a gap from {end} to {offset}");
        let (again, more) = bytes.split_at(bytes.len().min(end - offset));
        let before = &self.ever[offset..offset + again.len()];
        assert!(before == again, "{path}: other bytes than before are written at {offset}");
        self.ever.extend_from_slice(more);
    }

    fn size(&self) -> u64 {
        self.reserved.max(self.contents.len() as u64)
    }
}

/// What happens to bytes at rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// A bit has another value.
    BitFlip,
    /// A sector is all zeros.
    ZeroSector,
    /// A sector was written over that belongs to something else.
    MisdirectedWrite,
    /// The file cannot be read.
    Unreadable,
    /// The file ends earlier.
    Truncated,
    /// The file is gone.
    Removed,
}

/// What a power loss took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lost {
    /// Writes of which nothing is left.
    pub(super) writes_lost: u64,
    /// Writes of which a part is left.
    pub(super) writes_torn: u64,
    /// Writes that were not synced and are there all the same.
    pub(super) writes_kept: u64,
    /// Files made, renamed or removed, as if they had not been.
    pub(super) names_undone: u64,
}

/// All files of a disk.
#[derive(Clone, Debug, Default)]
pub(super) struct Files {
    files: BTreeMap<u64, File>,
    next_file: u64,
    names: BTreeMap<String, Entry>,
    durable_names: BTreeMap<String, Entry>,
    changes: Vec<(Mark, NameChange)>,
    mark: Mark,
}

/// The directory of a path; empty for the root.
fn directory_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

fn is_root(path: &str) -> bool {
    path.is_empty() || path == "."
}

impl Files {
    /// The point reached: what comes later has a larger mark.
    pub(super) fn mark(&self) -> Mark {
        self.mark
    }

    fn change(&mut self, change: NameChange) {
        self.mark += 1;
        change.apply(&mut self.names);
        self.changes.push((self.mark, change));
    }

    fn file_number(&self, path: &str) -> Result<u64, DiskErrorKind> {
        match self.names.get(path) {
            Some(Entry::File(number)) => Ok(*number),
            Some(Entry::Directory) => Err(DiskErrorKind::Failed),
            None => Err(DiskErrorKind::Missing),
        }
    }

    fn file(&self, path: &str) -> Result<&File, DiskErrorKind> {
        Ok(&self.files[&self.file_number(path)?])
    }

    fn file_mut(&mut self, path: &str) -> Result<&mut File, DiskErrorKind> {
        let number = self.file_number(path)?;
        Ok(self.files.get_mut(&number).expect("a name stands for a file"))
    }

    fn has_directory(&self, path: &str) -> bool {
        is_root(path) || self.names.get(path) == Some(&Entry::Directory)
    }

    /// The file, which is made if it is not there.
    fn make(&mut self, path: &str) -> Result<&mut File, DiskErrorKind> {
        if !self.has_directory(directory_of(path)) {
            return Err(DiskErrorKind::Missing);
        }
        if !self.names.contains_key(path) {
            let entry = Entry::File(self.next_file);
            self.files.insert(self.next_file, File::default());
            self.next_file += 1;
            self.change(NameChange::Make { path: path.into(), entry });
        }
        self.file_mut(path)
    }

    pub(super) fn create_directory(&mut self, path: &str) -> Result<(), DiskErrorKind> {
        if self.has_directory(path) {
            return Ok(());
        }
        if !self.has_directory(directory_of(path)) {
            return Err(DiskErrorKind::Missing);
        }
        self.change(NameChange::Make { path: path.into(), entry: Entry::Directory });
        Ok(())
    }

    /// How much more space the disk must have for a file of this length.
    pub(super) fn growth(&self, path: &str, length: u64) -> u64 {
        length.saturating_sub(self.file(path).map_or(0, File::size))
    }

    pub(super) fn write(
        &mut self,
        path: &str,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), DiskErrorKind> {
        let mark = self.mark + 1;
        self.mark = mark;
        let file = self.make(path)?;
        let offset = usize::try_from(offset).expect("simulated files are small");
        if !is_written_in_place(path) {
            file.note(path, offset, bytes);
        }
        overwrite(&mut file.contents, offset, bytes);
        file.writes.push(Written { mark, offset, bytes: bytes.to_vec() });
        Ok(())
    }

    pub(super) fn reserve(&mut self, path: &str, length: u64) -> Result<(), DiskErrorKind> {
        let file = self.make(path)?;
        file.reserved = file.reserved.max(length);
        Ok(())
    }

    pub(super) fn sync(&mut self, path: &str, until: Mark) -> Result<(), DiskErrorKind> {
        let file = self.file_mut(path)?;
        let later = file.writes.iter().position(|write| write.mark > until);
        let later = file.writes.split_off(later.unwrap_or(file.writes.len()));
        for write in std::mem::replace(&mut file.writes, later) {
            overwrite(&mut file.durable, write.offset, &write.bytes);
        }
        Ok(())
    }

    /// A sync has failed: of what was not durable, some is and the rest never will be.
    pub(super) fn fail_sync(&mut self, path: &str, prng: &mut Prng) {
        let mut lost = Lost::default();
        if let Ok(file) = self.file_mut(path) {
            survive(file, prng, &mut lost);
        }
    }

    pub(super) fn sync_directory(&mut self, path: &str, until: Mark) -> Result<(), DiskErrorKind> {
        if !self.has_directory(path) {
            return Err(DiskErrorKind::Missing);
        }
        let path = if is_root(path) { "" } else { path };
        let durable_names = &mut self.durable_names;
        self.changes.retain(|(mark, change)| {
            let done = *mark <= until && directory_of(change.path()) == path;
            if done {
                change.apply(durable_names);
            }
            !done
        });
        self.collect();
        Ok(())
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskErrorKind> {
        if directory_of(from) != directory_of(to) {
            return Err(DiskErrorKind::Failed);
        }
        let entry = *self.names.get(from).ok_or(DiskErrorKind::Missing)?;
        self.change(NameChange::Rename { from: from.into(), to: to.into(), entry });
        Ok(())
    }

    pub(super) fn remove(&mut self, path: &str) -> Result<(), DiskErrorKind> {
        match self.names.get(path) {
            None => Ok(()),
            Some(Entry::Directory) => Err(DiskErrorKind::Failed),
            Some(entry @ Entry::File(_)) => {
                self.change(NameChange::Remove { path: path.into(), entry: *entry });
                self.collect();
                Ok(())
            }
        }
    }

    pub(super) fn read(
        &self,
        path: &str,
        offset: u64,
        length: u64,
    ) -> Result<Vec<u8>, DiskErrorKind> {
        let file = self.file(path)?;
        if file.unreadable {
            return Err(DiskErrorKind::Failed);
        }
        let end = file.contents.len() as u64;
        let from = offset.min(end) as usize;
        let to = offset.saturating_add(length).min(end) as usize;
        Ok(file.contents[from..to].to_vec())
    }

    /// Files of a directory with their lengths, in the order of their names.
    pub(super) fn list(&self, directory: &str) -> Vec<(String, u64)> {
        let directory = if is_root(directory) { "" } else { directory };
        let within = self.names.iter().filter(|(path, _)| directory_of(path) == directory);
        let files = within.filter_map(|(path, entry)| match entry {
            Entry::File(number) => {
                let name = path.rsplit('/').next().expect("a path has an end");
                Some((name.to_string(), self.files[number].contents.len() as u64))
            }
            Entry::Directory => None,
        });
        files.collect()
    }

    /// The paths of all files.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        let files = self.names.iter().filter(|(_, entry)| **entry != Entry::Directory);
        files.map(|(path, _)| path.as_str())
    }

    /// Bytes that files take, or have set aside.
    pub(super) fn used(&self) -> u64 {
        let sizes = self.names.values().map(|entry| match entry {
            Entry::File(number) => self.files[number].size(),
            Entry::Directory => 0,
        });
        sizes.sum()
    }

    /// Whether a file that is there, or may be there after a power loss, is not what was written.
    pub(super) fn is_damaged(&self) -> bool {
        self.files.values().any(|file| file.damaged || file.unreadable)
    }

    /// Whether something was written that is not durable.
    pub(super) fn has_unsynced(&self) -> bool {
        self.files.values().any(|file| !file.writes.is_empty())
    }

    /// Damages a file before its byte `below`; whether anything has changed.
    pub(super) fn damage(
        &mut self,
        path: &str,
        damage: Damage,
        below: usize,
        prng: &mut Prng,
    ) -> bool {
        let stray: Vec<u8> = (0..SECTOR).map(|_| prng.next_u64() as u8).collect();
        let Ok(file) = self.file_mut(path) else { return false };
        if damage == Damage::Unreadable {
            file.unreadable = true;
            return true;
        }
        if damage == Damage::Removed {
            self.lose(path);
            return true;
        }
        let before = file.contents.clone();
        if before.is_empty() {
            return false;
        }
        let below = below.min(before.len());
        let at = prng.index(below);
        let sector = at / SECTOR * SECTOR;
        for bytes in [&mut file.contents, &mut file.durable] {
            let Some(end) = (at < bytes.len()).then(|| bytes.len().min(below).min(sector + SECTOR))
            else {
                continue;
            };
            match damage {
                Damage::BitFlip => bytes[at] ^= 1 << (at % 8),
                Damage::Truncated => bytes.truncate(at),
                Damage::Unreadable | Damage::Removed => {}
                Damage::ZeroSector => bytes[sector..end].fill(0),
                Damage::MisdirectedWrite => {
                    bytes[sector..end].copy_from_slice(&stray[..end - sector]);
                }
            }
        }
        let changed = file.contents != before;
        file.damaged |= changed;
        changed
    }

    /// The file is not there any more, and never was as far as a power loss is concerned.
    pub(super) fn lose(&mut self, path: &str) {
        self.changes.retain(|(_, change)| change.path() != path);
        self.names.remove(path);
        self.durable_names.remove(path);
        self.collect();
    }

    /// The power fails: what was not durable survives in part.
    pub(super) fn power_loss(&mut self, prng: &mut Prng) -> Lost {
        let mut lost = Lost::default();
        let changes = std::mem::take(&mut self.changes);
        let all = changes.len();
        let (prefix, each) = match prng.below(4) {
            0 => (0, 0),
            1 => (all, 0),
            2 => (prng.index(all + 1), 0),
            _ => (0, 50),
        };
        for (at, (_, change)) in changes.into_iter().enumerate() {
            if at < prefix || prng.percent(each) {
                change.apply(&mut self.durable_names);
            } else {
                lost.names_undone += 1;
            }
        }
        // Parents sort before what is in them.
        let mut names: BTreeMap<String, Entry> = BTreeMap::new();
        for (path, entry) in &self.durable_names {
            let directory = directory_of(path);
            if is_root(directory) || names.get(directory) == Some(&Entry::Directory) {
                names.insert(path.clone(), *entry);
            }
        }
        self.durable_names = names.clone();
        self.names = names;
        self.collect();
        for file in self.files.values_mut() {
            survive(file, prng, &mut lost);
            if prng.percent(30) {
                file.reserved = file.contents.len() as u64;
            }
        }
        lost
    }

    /// Forgets files that no name stands for.
    fn collect(&mut self) {
        let named = self.names.values().chain(self.durable_names.values()).copied();
        let named = named.chain(self.changes.iter().map(|(_, change)| change.entry()));
        let kept: BTreeSet<u64> = named
            .filter_map(|entry| match entry {
                Entry::File(number) => Some(number),
                Entry::Directory => None,
            })
            .collect();
        self.files.retain(|number, _| kept.contains(number));
    }
}

/// Writes into bytes; a gap before it becomes zeros.
fn overwrite(bytes: &mut Vec<u8>, offset: usize, new: &[u8]) {
    if new.is_empty() {
        return;
    }
    let end = offset + new.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[offset..end].copy_from_slice(new);
}

/// The unsynced writes of a file survive or not; what does is durable.
fn survive(file: &mut File, prng: &mut Prng, lost: &mut Lost) {
    let writes = std::mem::take(&mut file.writes);
    let durable = &mut file.durable;
    let all = writes.len();
    let mode = prng.below(8);
    let prefix = match mode {
        0..2 => 0,
        2 => all,
        _ => prng.index(all + 1),
    };
    for (at, write) in writes.into_iter().enumerate() {
        let Written { offset, bytes, .. } = write;
        match mode {
            6.. => keep_sectors(durable, offset, &bytes, prng, lost),
            _ if at < prefix => {
                overwrite(durable, offset, &bytes);
                lost.writes_kept += 1;
            }
            3..6 if at == prefix => keep_beginning(durable, offset, &bytes, prng, lost),
            _ => lost.writes_lost += 1,
        }
    }
    file.contents = file.durable.clone();
}

/// Some sectors of a write survive.
fn keep_sectors(
    durable: &mut Vec<u8>,
    offset: usize,
    bytes: &[u8],
    prng: &mut Prng,
    lost: &mut Lost,
) {
    let (mut from, mut kept, mut gone) = (0, 0, 0);
    while from < bytes.len() {
        let to = bytes.len().min(((offset + from) / SECTOR + 1) * SECTOR - offset);
        if prng.percent(50) {
            overwrite(durable, offset + from, &bytes[from..to]);
            kept += 1;
        } else {
            gone += 1;
        }
        from = to;
    }
    match (kept, gone) {
        (_, 0) => lost.writes_kept += 1,
        (0, _) => lost.writes_lost += 1,
        _ => lost.writes_torn += 1,
    }
}

/// A write survives up to some byte, or up to the end of a sector. The file may have its new
/// length all the same, with zeros or something older in the place of what is lost.
fn keep_beginning(
    durable: &mut Vec<u8>,
    offset: usize,
    bytes: &[u8],
    prng: &mut Prng,
    lost: &mut Lost,
) {
    let mut to = prng.index(bytes.len() + 1);
    if prng.percent(50) {
        to = ((offset + to) / SECTOR * SECTOR).saturating_sub(offset);
    }
    overwrite(durable, offset, &bytes[..to]);
    let (known, end) = (durable.len(), offset + bytes.len());
    if known < end && prng.percent(30) {
        durable.resize(end, 0);
        if prng.percent(30) {
            durable[known..].fill_with(|| prng.next_u64() as u8);
        }
    }
    lost.writes_torn += 1;
}
