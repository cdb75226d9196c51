//! Backups of a few rows, and what is noticed of damage to them.

use std::fs;
use std::path::{Path, PathBuf};

use sql::{BackupKey, Contents, SavedTable};

use super::format::{CHECK, MANIFEST};
use super::reader::{self, Backup};
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
    let mut writer = Writer::create(directory, key).unwrap();
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
    let mut backup = Backup::open(directory, key)?;
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
    let listed = reader::list(&scratch.0).unwrap();
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
        fs::read_to_string(first.join(MANIFEST)).unwrap().replace("\"form\": 1", "\"form\": 2");
    fs::write(first.join(CHECK), super::format::check_of(newer.as_bytes(), None)).unwrap();
    fs::write(first.join(MANIFEST), newer).unwrap();
    assert!(read(&first, &key).unwrap_err().contains("this version of Nines does not know"));
}

#[test]
fn what_is_not_finished_leaves_nothing() {
    let scratch = Scratch::new("unfinished");
    let directory = scratch.at("b");
    let mut writer = Writer::create(&directory, &BackupKey::None).unwrap();
    writer.table(0).unwrap();
    writer.rows(b"rows").unwrap();
    assert!(reader::list(&scratch.0).unwrap()[0].state.starts_with("incomplete"));
    assert!(Writer::create(&directory, &BackupKey::None).is_err(), "it is not empty");
    drop(writer);
    assert!(!directory.exists());
    fs::create_dir(&directory).unwrap();
    drop(Writer::create(&directory, &BackupKey::None).unwrap());
    let missing = BackupKey::File("/nowhere/key".into());
    assert!(Writer::create(&directory, &missing).is_err_and(|why| why.contains("/nowhere/key")));
    assert!(!directory.exists());
    fs::write(&directory, "a file").unwrap();
    assert!(Writer::create(&directory, &BackupKey::None).is_err());
    assert!(Writer::create(&scratch.at("no/parent"), &BackupKey::None).is_err());
}
