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

use super::archive::{CHAIN, CHAIN_CHECK, beginning_of, segment_number};
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
    if at.has(CHAIN)? || at.has(CHAIN_CHECK)? {
        return Err(format!("{} is one chain: name the archive that it is in", at.shown()));
    }
    let Found { sets, leftovers } = find(at, out)?;
    prune_chains(at, retention, out)?;
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

/// A full backup of a chain.
struct Base {
    /// The place of its chain in the list, and its own place.
    chain: usize,
    place: Place,
    epoch: u64,
    began: i64,
    stays: bool,
}

/// Removes full backups of archives that are not needed, and the changes before those that stay. A
/// moment that is not older than asked for can be restored still: the newest full backup before it
/// stays too.
fn prune_chains(at: &Place, retention: &Retention, out: &mut impl Write) -> Result<(), String> {
    let told = |why: std::io::Error| why.to_string();
    let mut clusters: BTreeMap<String, Vec<(i64, String, Place)>> = BTreeMap::new();
    for name in at.names()?.iter().filter(|name| name.starts_with("chain-") && name.ends_with('/'))
    {
        let place = at.below(name);
        match beginning_of(&place) {
            Ok(start) => {
                let of_cluster = clusters.entry(start.cluster).or_default();
                of_cluster.push((start.began, start.id, place));
            }
            Err(why) => writeln!(out, "keeps   {}: {why}", place.shown()).map_err(told)?,
        }
    }
    clusters.into_values().try_for_each(|chains| prune_cluster(chains, retention, out))
}

/// The same for the chains of one cluster: when each was begun, what tells it from others, and
/// where it is.
fn prune_cluster(
    mut chains: Vec<(i64, String, Place)>,
    retention: &Retention,
    out: &mut impl Write,
) -> Result<(), String> {
    let told = |why: std::io::Error| why.to_string();
    chains.sort_by_key(|(began, ..)| *began);
    let mut bases = Vec::new();
    for (chain, (_, id, place)) in chains.iter().enumerate() {
        // What cannot be read may be what others need: then nothing is removed.
        for name in place.names()?.iter().filter(|name| name.starts_with("base-")) {
            let place = place.below(name);
            if !place.has(MANIFEST)? {
                continue;
            }
            let (manifest, _) = reader::manifest(&place)?;
            if manifest.set == super::archive::set_of(id) {
                let (epoch, began) = (manifest.epoch, manifest.began);
                bases.push(Base { chain, place, epoch, began, stays: false });
            } else {
                writeln!(out, "keeps   {}: it is of another chain", place.shown()).map_err(told)?;
            }
        }
    }
    bases.sort_by_key(|base| std::cmp::Reverse((base.began, base.epoch)));
    let age = i64::try_from(retention.older_than.as_micros()).unwrap_or(i64::MAX);
    let before = now().saturating_sub(age);
    // Of those that are older than asked for the newest one is what younger moments are made of.
    let needed = bases.iter().position(|base| base.began <= before).unwrap_or(bases.len());
    for (at, base) in bases.iter_mut().enumerate() {
        base.stays = at < retention.keep.max(1) || at <= needed;
        let (shown, time) = (base.place.shown(), sql::shown_time(base.began));
        let verb = if base.stays { "keeps  " } else { "removes" };
        writeln!(out, "{verb} {shown}: {time}, a full backup of a chain").map_err(told)?;
        if !base.stays && !retention.is_rehearsal {
            let names = base.place.names()?;
            remove(&base.place, &names)?;
        }
    }
    for (at, (_, _, place)) in chains.iter().enumerate() {
        let of_chain = |base: &&Base| base.chain == at;
        let is_newest = at + 1 == chains.len();
        let had = bases.iter().any(|base| of_chain(&base));
        let oldest = bases.iter().filter(of_chain).filter(|base| base.stays);
        match oldest.map(|base| base.epoch).min() {
            Some(oldest) => {
                let count = prune_segments(place, oldest, retention.is_rehearsal)?;
                if count > 0 {
                    let shown = place.shown();
                    writeln!(out, "removes {shown}: {count} segments before epoch {oldest}")
                        .map_err(told)?;
                }
            }
            // One that has just begun has none yet; of others nothing can be restored.
            None if is_newest => {
                writeln!(out, "keeps   {}: no full backup yet", place.shown()).map_err(told)?;
            }
            None if had || retention.incomplete.is_some() => {
                writeln!(out, "removes {}", place.shown()).map_err(told)?;
                if !retention.is_rehearsal {
                    remove_chain(place)?;
                }
            }
            None => {
                writeln!(out, "keeps   {}: no full backup", place.shown()).map_err(told)?;
            }
        }
    }
    Ok(())
}

/// Removes the segments that have no epoch behind one, oldest first; how many there are.
fn prune_segments(place: &Place, through: u64, is_rehearsal: bool) -> Result<u64, String> {
    let mut numbers: Vec<u64> =
        place.names()?.iter().filter_map(|name| segment_number(name)).collect();
    numbers.sort_unstable();
    // The last one stays: the next is written behind it.
    numbers.pop();
    let mut count = 0;
    for number in numbers {
        // The one behind says where this one ends.
        match super::archive::first_epoch(place, number + 1)? {
            Some(next) if next <= through.saturating_add(1) => {}
            _ => break,
        }
        count += 1;
        if !is_rehearsal {
            place.remove(&super::archive::segment_name(number))?;
        }
    }
    Ok(count)
}

/// Removes a chain, of which nothing can be restored.
fn remove_chain(place: &Place) -> Result<(), String> {
    place.remove(CHAIN)?;
    place.settle()?;
    for name in place.names()? {
        if name.starts_with("base-") && name.ends_with('/') {
            let base = place.below(&name);
            let names = base.names()?;
            if names.iter().all(|name| is_own(name)) {
                remove(&base, &names)?;
            }
        } else if segment_number(name.trim_end_matches(".new")).is_some() || name == CHAIN_CHECK {
            place.remove(&name)?;
        }
    }
    place.leave();
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
