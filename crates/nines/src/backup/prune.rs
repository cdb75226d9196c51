//! Removes old backups.
//!
//! # Guarantees
//! What is removed is a complete backup of a set that has newer ones, and older than asked for: the
//! newest of a set always stays. Whatever else is there stays too: damaged and incomplete backups
//! unless that is said, links, directories with other files in them. A backup that is removed is
//! none from the first step on.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::time::{Duration, SystemTime};

use super::format::{CHECK, DEFINITIONS, MANIFEST};
use super::place::{Place, sync_directory};
use super::reader::{self, is_rows};
use super::rework::is_aside;

/// Which backups stay.
#[derive(Clone, Debug)]
pub(super) struct Retention {
    /// The newest of each set that stay in any case.
    pub(super) keep: usize,
    /// Younger ones stay too.
    pub(super) older_than: Duration,
    /// What is no complete backup goes too, when nobody has written to it for so long.
    pub(super) incomplete: Option<Duration>,
    /// Nothing is removed.
    pub(super) is_rehearsal: bool,
}

/// A backup that may go.
struct Candidate {
    place: Place,
    began: i64,
    names: Vec<String>,
}

/// What is in a place.
#[derive(Default)]
struct Found {
    /// Complete backups by set.
    sets: BTreeMap<String, Vec<Candidate>>,
    /// What is left of backups that are none, with its files.
    leftovers: Vec<(Place, Vec<String>)>,
}

/// Whether a file has the name of one of a backup.
fn is_own(name: &str) -> bool {
    let of_manifest = |name: &str| name == MANIFEST || name == CHECK;
    let is_begun = name.strip_suffix(".new").is_some_and(of_manifest);
    is_rows(name) || of_manifest(name) || name == DEFINITIONS || is_begun
}

/// Looks what is in a place, and says what stays in any case.
fn find(at: &Place, out: &mut impl Write) -> Result<Found, String> {
    let told = |why: std::io::Error| why.to_string();
    let mut found = Found::default();
    for name in at.names()?.iter().filter(|name| name.ends_with('/')) {
        let place = at.below(name);
        let names = place.names()?;
        if is_aside(name) && names.iter().all(|name| is_own(name)) {
            found.leftovers.push((place, names));
            continue;
        }
        if !names.iter().any(|name| is_own(name)) {
            continue;
        }
        if let Some(other) = names.iter().find(|name| !is_own(name)) {
            writeln!(out, "keeps   {}: there is {other} in it", place.shown()).map_err(told)?;
            continue;
        }
        if !names.iter().any(|name| name == MANIFEST) {
            found.leftovers.push((place, names));
            continue;
        }
        let shown = place.shown();
        match reader::manifest(&place) {
            Ok((manifest, _)) if manifest.files.keys().all(|name| names.contains(name)) => {
                let candidate = Candidate { place, began: manifest.began, names };
                // Without a set it is one of its own.
                let set = if manifest.set.is_empty() { manifest.id } else { manifest.set };
                found.sets.entry(set).or_default().push(candidate);
            }
            Ok(_) => writeln!(out, "keeps   {shown}: files are missing").map_err(told)?,
            Err(why) => writeln!(out, "keeps   {shown}: {why}").map_err(told)?,
        }
    }
    Ok(found)
}

/// Removes what may go, and says what becomes of each backup in a place.
///
/// # Errors
/// When the place cannot be read, or something cannot be removed.
pub(super) fn run(at: &Place, retention: &Retention, out: &mut impl Write) -> Result<(), String> {
    let told = |why: std::io::Error| why.to_string();
    let Found { sets, leftovers } = find(at, out)?;
    let age = i64::try_from(retention.older_than.as_micros()).unwrap_or(i64::MAX);
    let before = now().saturating_sub(age);
    for (set, mut backups) in sets {
        backups.sort_by_key(|backup| std::cmp::Reverse(backup.began));
        for (at, backup) in backups.iter().enumerate() {
            let stays = at < retention.keep.max(1) || backup.began > before;
            let (shown, time) = (backup.place.shown(), sql::shown_time(backup.began));
            let verb = if stays { "keeps  " } else { "removes" };
            writeln!(out, "{verb} {shown}: {time}, set {set}").map_err(told)?;
            if !stays && !retention.is_rehearsal {
                remove(&backup.place, &backup.names)?;
            }
        }
    }
    for (place, names) in leftovers {
        let is_old = retention.incomplete.is_some_and(|age| is_untouched(&place, age));
        let (shown, verb) = (place.shown(), if is_old { "removes" } else { "keeps  " });
        writeln!(out, "{verb} {shown}: incomplete").map_err(told)?;
        if is_old && !retention.is_rehearsal {
            remove(&place, &names)?;
        }
    }
    Ok(())
}

/// Removes the files that are named, the manifest first, and the directory.
fn remove(place: &Place, names: &[String]) -> Result<(), String> {
    place.remove(MANIFEST)?;
    place.settle()?;
    for name in names.iter().filter(|name| *name != MANIFEST) {
        place.remove(name)?;
    }
    if let Place::Directory(path) = place {
        fs::remove_dir(path).map_err(|why| format!("{}: {why}", path.display()))?;
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            sync_directory(parent)?;
        }
    }
    Ok(())
}

/// Whether nobody has changed anything in a directory for so long. Of objects that is not known.
fn is_untouched(place: &Place, age: Duration) -> bool {
    let Place::Directory(path) = place else { return false };
    let is_old = |path: &std::path::Path| {
        let changed = fs::symlink_metadata(path).and_then(|kind| kind.modified());
        let since = changed.ok().and_then(|at| SystemTime::now().duration_since(at).ok());
        since.is_some_and(|since| since >= age)
    };
    let Ok(mut entries) = fs::read_dir(path) else { return false };
    is_old(path) && entries.all(|entry| entry.is_ok_and(|entry| is_old(&entry.path())))
}

/// Microseconds since 1970 UTC.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
