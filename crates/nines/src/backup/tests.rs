//! Backups of a few rows, and what is noticed of damage to them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sql::{BackupKey, Contents, SavedTable};

use super::format::{CHECK, MANIFEST};
use super::place::Place;
use super::prune::{self, Retention};
use super::reader::{self, Backup};
use super::rework::{self, Change};
use super::writer::Writer;

/// A directory of a test; removed when it is over.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("nines-backup-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn at(directory: &Path) -> Place {
    Place::Directory(directory.to_path_buf())
}

fn create(directory: &Path, key: &BackupKey) -> Result<Writer, String> {
    Writer::create(at(directory), key)
}

fn contents() -> Contents {
    let table = |name: &str, rows| SavedTable {
        database: "d".into(),
        name: name.into(),
        rows,
        ..SavedTable::default()
    };
    Contents { epoch: 7, tables: vec![table("a", 3), table("b", 0)], ..Contents::default() }
}

fn write(directory: &Path, key: &BackupKey) {
    let mut writer = create(directory, key).unwrap();
    writer.table(0).unwrap();
    writer.rows(b"rows that are replaced").unwrap();
    writer.table(0).unwrap();
    writer.rows(b"the first portion").unwrap();
    writer.rows(&[5; 3_000]).unwrap();
    writer.table(1).unwrap();
    writer.finish(&contents()).unwrap();
}

/// All of a backup, checked before.
fn read(directory: &Path, key: &BackupKey) -> Result<Vec<Vec<u8>>, String> {
    let mut backup = Backup::open(&at(directory), key)?;
    backup.verify()?;
    assert_eq!(backup.contents, contents());
    let mut portions = Vec::new();
    for table in 0..2 {
        backup.rewind(table)?;
        while let Some(portion) = backup.next()? {
            portions.push(portion);
        }
    }
    Ok(portions)
}

fn keys(scratch: &Scratch) -> [BackupKey; 3] {
    let file = scratch.at("key");
    fs::write(&file, "0123456789abcdef0123456789abcdef\n").unwrap();
    [
        BackupKey::None,
        BackupKey::File(file.display().to_string()),
        BackupKey::Passphrase(b"correct horse"[..].into()),
    ]
}

#[test]
fn what_was_written_is_read_with_its_key_alone() {
    let scratch = Scratch::new("keys");
    let keys = keys(&scratch);
    for (at, key) in keys.iter().enumerate() {
        let directory = scratch.at(&at.to_string());
        write(&directory, key);
        assert_eq!(read(&directory, key).unwrap(), [b"the first portion".to_vec(), vec![5; 3_000]]);
        for other in keys.iter().filter(|other| *other != key) {
            assert!(read(&directory, other).is_err(), "{key:?} and {other:?}");
        }
        let names = fs::read_dir(&directory).unwrap().count();
        assert_eq!(names, 5, "replaced rows are gone");
    }
    let wrong = BackupKey::Passphrase(b"wrong"[..].into());
    assert!(read(&scratch.at("2"), &wrong).unwrap_err().contains("the passphrase is wrong"));
    let listed = reader::list(&at(&scratch.0)).unwrap();
    let states: Vec<_> = listed.iter().map(|one| (one.is_encrypted, one.state.as_str())).collect();
    assert_eq!(states, [(false, "complete"), (true, "complete"), (true, "complete")]);
}

#[test]
fn every_byte_counts() {
    let scratch = Scratch::new("bytes");
    let [none, file, _] = keys(&scratch);
    for (name, key) in [("plain", none), ("sealed", file)] {
        let directory = scratch.at(name);
        write(&directory, &key);
        let names: Vec<PathBuf> =
            fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
        for path in names {
            let whole = fs::read(&path).unwrap();
            for at in 0..whole.len() {
                let mut damaged = whole.clone();
                damaged[at] ^= 1 << (at % 8);
                fs::write(&path, &damaged).unwrap();
                let why = read(&directory, &key).expect_err("a bit is another");
                assert!(why.contains(&directory.display().to_string()), "{why}");
                fs::write(&path, &whole[..at]).unwrap();
                assert!(read(&directory, &key).is_err(), "{} cut at {at}", path.display());
            }
            fs::write(&path, [&whole[..], b"more"].concat()).unwrap();
            assert!(read(&directory, &key).is_err(), "{} and more", path.display());
            fs::remove_file(&path).unwrap();
            let why = read(&directory, &key).expect_err("a file is missing");
            assert!(why.contains(path.file_name().unwrap().to_str().unwrap()), "{why}");
            fs::write(&path, &whole).unwrap();
        }
        assert!(read(&directory, &key).is_ok());
    }
}

#[test]
fn files_of_another_backup_or_version_are_refused() {
    let scratch = Scratch::new("mixed");
    let [_, key, _] = keys(&scratch);
    let [first, second] = ["first", "second"].map(|name| scratch.at(name));
    write(&first, &key);
    write(&second, &key);
    let swap = |name: &str| fs::copy(second.join(name), first.join(name)).unwrap();
    let own = fs::read(first.join("000002.rows")).unwrap();
    swap("000002.rows");
    assert!(read(&first, &key).unwrap_err().contains("000002.rows"));
    fs::write(first.join("000002.rows"), own).unwrap();
    assert!(read(&first, &key).is_ok());
    let newer =
        fs::read_to_string(first.join(MANIFEST)).unwrap().replace("\"form\": 1", "\"form\": 99");
    fs::write(first.join(CHECK), super::format::check_of(newer.as_bytes(), None)).unwrap();
    fs::write(first.join(MANIFEST), newer).unwrap();
    assert!(read(&first, &key).unwrap_err().contains("this version of Nines does not know"));
}

#[test]
fn what_is_not_finished_leaves_nothing() {
    let scratch = Scratch::new("unfinished");
    let directory = scratch.at("b");
    let mut writer = create(&directory, &BackupKey::None).unwrap();
    writer.table(0).unwrap();
    writer.rows(b"rows").unwrap();
    assert!(reader::list(&at(&scratch.0)).unwrap()[0].state.starts_with("incomplete"));
    assert!(create(&directory, &BackupKey::None).is_err(), "it is not empty");
    drop(writer);
    assert!(!directory.exists());
    fs::create_dir(&directory).unwrap();
    drop(create(&directory, &BackupKey::None).unwrap());
    let missing = BackupKey::File("/nowhere/key".into());
    assert!(create(&directory, &missing).is_err_and(|why| why.contains("/nowhere/key")));
    assert!(!directory.exists());
    fs::write(&directory, "a file").unwrap();
    assert!(create(&directory, &BackupKey::None).is_err());
    assert!(create(&scratch.at("no/parent"), &BackupKey::None).is_err());
}

fn change(
    directory: &Path,
    change: Change,
    old: &BackupKey,
    new: &BackupKey,
) -> Result<(), String> {
    rework::change(&at(directory), None, change, old, new)
}

#[test]
fn a_backup_gets_a_key_and_another_and_none() {
    let scratch = Scratch::new("rework");
    let [none, file, passphrase] = keys(&scratch);
    let directory = scratch.at("b");
    write(&directory, &none);
    let before = read(&directory, &none).unwrap();
    let id = reader::manifest(&at(&directory)).unwrap().0.id;
    assert!(change(&directory, Change::Rekey, &none, &file).unwrap_err().contains("not encrypted"));
    // An earlier call was killed: before the exchange, and after it.
    let aside = scratch.at(".b.nines-rework");
    fs::create_dir(&aside).unwrap();
    fs::write(aside.join("000001.rows"), "half of it").unwrap();
    change(&directory, Change::Encrypt, &none, &file).unwrap();
    write(&aside, &none);
    assert_eq!(reader::list(&at(&scratch.0)).unwrap().len(), 1, "what is aside is no backup");
    assert!(change(&directory, Change::Encrypt, &none, &file).unwrap_err().contains("rekey"));
    let rows = fs::read(directory.join("000002.rows")).unwrap_or_default();
    let why = change(&directory, Change::Rekey, &passphrase, &file).unwrap_err();
    assert!(why.contains("key file"), "{why}");
    assert_eq!(read(&directory, &file).unwrap(), before);
    change(&directory, Change::Rekey, &file, &passphrase).unwrap();
    assert!(!aside.exists());
    assert_eq!(fs::read(directory.join("000002.rows")).unwrap_or_default(), rows, "as it was");
    assert!(read(&directory, &file).is_err());
    assert_eq!(read(&directory, &passphrase).unwrap(), before);
    // A damaged one stays as it is.
    let damaged = directory.join("000001.rows");
    let whole = fs::read(&damaged).unwrap();
    fs::write(&damaged, &whole[..whole.len() - 1]).unwrap();
    let why = change(&directory, Change::Decrypt, &passphrase, &none).unwrap_err();
    assert!(why.contains("000001.rows") && !aside.exists(), "{why}");
    fs::write(&damaged, &whole).unwrap();
    let other = scratch.at("other");
    rework::change(&at(&directory), Some(&at(&other)), Change::Decrypt, &passphrase, &none)
        .unwrap();
    assert_eq!(read(&other, &none).unwrap(), before);
    change(&directory, Change::Decrypt, &passphrase, &none).unwrap();
    assert_eq!(read(&directory, &none).unwrap(), before);
    assert_eq!(reader::manifest(&at(&directory)).unwrap().0.id, id, "it is the same backup");
}

/// A backup of a set, begun at a day before today.
fn write_of(directory: &Path, subject: &str, days_ago: i64) {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let began = since.as_micros() as i64 - days_ago * 86_400_000_000;
    let mut writer = create(directory, &BackupKey::None).unwrap();
    writer.finish(&Contents { began, subject: subject.into(), ..Contents::default() }).unwrap();
}

#[test]
fn only_old_backups_with_newer_ones_of_their_set_are_removed() {
    let scratch = Scratch::new("prune");
    for (name, subject, days) in [
        ("a1", "ALL", 1),
        ("a2", "ALL", 2),
        ("a3", "ALL", 40),
        ("a4", "ALL", 50),
        ("b1", "DATABASE x", 90),
        ("b2", "DATABASE x", 91),
    ] {
        write_of(&scratch.at(name), subject, days);
    }
    fs::create_dir(scratch.at("notes")).unwrap();
    fs::write(scratch.at("notes/manifest"), "mine").unwrap();
    fs::create_dir(scratch.at("half")).unwrap();
    fs::write(scratch.at("half/000001.rows"), "").unwrap();
    write_of(&scratch.at("mixed"), "ALL", 400);
    fs::write(scratch.at("mixed/notes.txt"), "mine").unwrap();
    write_of(&scratch.at("torn"), "ALL", 400);
    fs::write(scratch.at("torn/manifest.json"), "{}").unwrap();
    write_of(&scratch.at("gaps"), "ALL", 400);
    fs::remove_file(scratch.at("gaps/definitions")).unwrap();
    std::os::unix::fs::symlink(scratch.at("a4"), scratch.at("link")).unwrap();
    let names = || {
        let entries = fs::read_dir(&scratch.0).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names.join(" ")
    };
    let retention = |keep, days: u64, is_rehearsal| Retention {
        keep,
        older_than: Duration::from_secs(days * 86_400),
        incomplete: None,
        is_rehearsal,
    };
    let pruned = |retention: &Retention| {
        let mut out = Vec::new();
        prune::run(&at(&scratch.0), retention, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    let all = names();
    let text = pruned(&retention(1, 0, true));
    assert_eq!((names(), text.matches("removes").count()), (all, 4), "{text}");
    pruned(&retention(1, 45, false));
    assert_eq!(names(), "a1 a2 a3 b1 gaps half link mixed notes torn");
    pruned(&retention(2, 0, false));
    assert_eq!(names(), "a1 a2 b1 gaps half link mixed notes torn");
    pruned(&Retention { incomplete: Some(Duration::ZERO), ..retention(1, 0, false) });
    assert_eq!(names(), "a1 b1 gaps link mixed notes torn");
}

#[test]
fn only_plain_files_are_read() {
    let scratch = Scratch::new("plain");
    let directory = scratch.at("b");
    write(&directory, &BackupKey::None);
    let rows = directory.join("000002.rows");
    fs::rename(&rows, scratch.at("elsewhere")).unwrap();
    std::os::unix::fs::symlink(scratch.at("elsewhere"), &rows).unwrap();
    assert!(read(&directory, &BackupKey::None).unwrap_err().contains("symbolic link"));
    fs::remove_file(&rows).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&rows).status().unwrap();
    assert!(made.success());
    // Nobody writes to the pipe: who waited for it would wait for ever.
    assert!(read(&directory, &BackupKey::None).unwrap_err().contains("no plain file"));
    let pipe = BackupKey::File(rows.display().to_string());
    assert!(create(&scratch.at("c"), &pipe).is_err_and(|why| why.contains("no plain file")));
}

mod archives {
    use std::sync::Arc;

    use sql::{ChainStart, Segment, SegmentHead};

    use super::*;
    use crate::backup::archive::{Archive, ChainWriter, segment_name};

    fn segment(number: u64, first: u64, through: u64) -> Segment {
        let head = SegmentHead { number, first, through, ended: through * 1_000, end: None };
        let portions = vec![format!("changes of {number}").into_bytes(), vec![7; 500]];
        Segment { head, portions: Arc::new(portions) }
    }

    /// A chain of three segments with a full backup, of so many days ago; its place.
    fn chain(archive: &Path, key: &BackupKey, days_ago: i64) -> PathBuf {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let began = now.as_micros() as i64 - days_ago * 86_400_000_000;
        let start = ChainStart { first: 5, began, ..ChainStart::default() };
        let mut writer = ChainWriter::begin(&at(archive), key, &start).unwrap();
        let place = PathBuf::from(&writer.chain.place);
        for (number, first, through) in [(1, 5, 6), (2, 7, 9)] {
            writer.append(&segment(number, first, through)).unwrap();
        }
        let mut base = create(&place.join("base-1"), key).unwrap();
        base.table(0).unwrap();
        base.rows(b"rows").unwrap();
        base.table(1).unwrap();
        let (chain, epoch) = (Some(writer.chain.id.clone()), 8);
        base.finish(&Contents { chain, epoch, began, ..contents() }).unwrap();
        // Somebody else goes on.
        let mut writer = ChainWriter::resume(&at(&place), key).unwrap();
        assert_eq!((writer.chain.count, writer.chain.bases.len()), (2, 1));
        assert!(writer.append(&segment(4, 10, 11)).is_err(), "one is left out");
        assert!(writer.append(&segment(3, 11, 12)).is_err(), "an epoch is left out");
        writer.append(&segment(3, 10, 12)).unwrap();
        place
    }

    fn verify(archive: &Path, key: &BackupKey) -> Result<(u64, u64), String> {
        Archive::open(&at(archive), key)?.verify(key)
    }

    #[test]
    fn every_byte_of_an_archive_counts() {
        let scratch = Scratch::new("archive-bytes");
        for key in &keys(&scratch)[..2] {
            let archive = scratch.at("archive");
            fs::create_dir(&archive).unwrap();
            let place = chain(&archive, key, 0);
            assert!(verify(&archive, key).is_ok(), "{:?}", verify(&archive, key));
            let other = keys(&scratch).into_iter().find(|other| other != key).unwrap();
            assert!(verify(&archive, &other).is_err());
            let of = |path: &Path| fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
            for path in of(&place).chain(of(&place.join("base-1"))).filter(|path| path.is_file()) {
                let whole = fs::read(&path).unwrap();
                for at in 0..whole.len() {
                    let mut flipped = whole.clone();
                    flipped[at] ^= 1 << (at % 8);
                    for damaged in [&flipped[..], &whole[..at]] {
                        fs::write(&path, damaged).unwrap();
                        let found = verify(&archive, key);
                        assert!(found.is_err(), "{} at {at}", path.display());
                    }
                }
                fs::write(&path, &whole).unwrap();
            }
            // One in the middle that is missing, and one in the place of another.
            let (second, third) = (place.join(segment_name(2)), place.join(segment_name(3)));
            let whole = fs::read(&second).unwrap();
            fs::remove_file(&second).unwrap();
            assert!(verify(&archive, key).unwrap_err().contains("0000000002"));
            fs::copy(&third, &second).unwrap();
            assert!(verify(&archive, key).unwrap_err().contains("segment 3"));
            fs::write(&second, whole).unwrap();
            // The first ones, though a full backup needs them: it is of epoch 8.
            let (first, aside) = (place.join(segment_name(1)), scratch.at("aside"));
            fs::rename(&first, &aside).unwrap();
            assert!(verify(&archive, key).is_ok(), "as if pruned");
            let beside = scratch.at("beside");
            fs::rename(&second, &beside).unwrap();
            assert!(verify(&archive, key).unwrap_err().contains("0000000002"));
            fs::rename(&beside, &second).unwrap();
            fs::rename(&aside, &first).unwrap();
            // What nobody may write over.
            let mut late = ChainWriter::resume(&at(&place), key).unwrap();
            let mut early = ChainWriter::resume(&at(&place), key).unwrap();
            early.append(&segment(4, 13, 13)).unwrap();
            assert!(late.append(&segment(4, 13, 14)).unwrap_err().contains("it is there already"));
            assert!(verify(&archive, key).is_ok());
            // One of several chains without its beginning.
            let beginning = chain(&archive, key, 1).join("chain.json");
            assert!(verify(&archive, key).is_ok());
            fs::remove_file(beginning).unwrap();
            assert!(verify(&archive, key).unwrap_err().contains("no chain.json"));
            fs::remove_dir_all(&archive).unwrap();
        }
    }

    #[test]
    fn pruning_breaks_no_chain() {
        let scratch = Scratch::new("archive-prune");
        let archive = scratch.at("archive");
        fs::create_dir(&archive).unwrap();
        let key = BackupKey::None;
        let places =
            [chain(&archive, &key, 40), chain(&archive, &key, 9), chain(&archive, &key, 1)];
        let retention = |days: u64| Retention {
            keep: 1,
            older_than: Duration::from_secs(days * 86_400),
            incomplete: None,
            is_rehearsal: false,
        };
        let mut out = Vec::new();
        prune::run(&at(&archive), &retention(7), &mut out).unwrap();
        let text = String::from_utf8_lossy(&out);
        // The second one is what the moments of seven days ago are made of.
        let are_there = places.each_ref().map(|place| place.exists());
        assert_eq!(are_there, [false, true, true], "{text}");
        let has = |place: &Path, number| place.join(segment_name(number)).exists();
        // The full backup is of epoch 8: the segment of the epochs 7 to 9 is needed.
        assert_eq!([1, 2, 3].map(|number| has(&places[1], number)), [false, true, true], "{text}");
        assert!(verify(&archive, &key).is_ok(), "{:?}", verify(&archive, &key));
        assert!(ChainWriter::resume(&at(&places[2]), &key).is_ok());
        prune::run(&at(&archive), &retention(0), &mut out).unwrap();
        assert!(!places[1].exists() && places[2].exists());
    }
}
