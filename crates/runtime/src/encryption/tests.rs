//! Keys of directories: made, wrong, rotated; where master keys come from.

use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicU32, Ordering};

use model::Incarnation;

use super::master::VARIABLE;
use super::*;
use crate::data_directory::DataDirectory;

struct Place(PathBuf);

impl Place {
    fn new() -> Place {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("nines-encryption-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Place(path)
    }

    /// A life of node 3, with these master keys.
    fn live(&self, encrypts: bool, master: &[u8], life: u64) -> Result<DataDirectory, String> {
        let master = (!master.is_empty()).then(|| MasterKeys::of_bytes(master));
        let encryption = Encryption { encrypts, master };
        let opened = DataDirectory::open(&self.0, NodeId(3), &encryption);
        let mut directory = opened.map_err(|error| error.to_string())?;
        directory.begin_life(Incarnation(life), 2).unwrap();
        Ok(directory)
    }

    /// What a start says that must fail; it changes nothing.
    fn refusal(&self, encrypts: bool, master: &[u8]) -> String {
        let before = self.files();
        let refusal = self.live(encrypts, master, 1_000).unwrap_err();
        assert_eq!(self.files(), before, "{refusal}");
        refusal
    }

    /// All files but the lock.
    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let entries = fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().path());
        let entries = entries.filter(|path| path.file_name().unwrap() != "lock");
        let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_string();
        entries.map(|path| (name(&path), fs::read(&path).unwrap())).collect()
    }

    fn file(&self, name: &str, contents: &str, mode: u32) -> KeySource {
        let path = self.0.join(name);
        fs::write(&path, contents).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        KeySource::File(path)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn name_of(master: u8) -> String {
    MasterKeys::of_bytes(&[master]).newest_name()
}

#[test]
fn a_directory_is_encrypted_from_its_first_life_on() {
    let place = Place::new();
    drop(place.live(true, b"a", 1).unwrap());
    let files = place.files();
    assert_eq!(files.keys().collect::<Vec<_>>(), ["keys", "node"]);
    assert!(!files["node"].windows(8).any(|bytes| bytes == b"NINESDIR"));
    let directory = place.live(true, b"a", 2).unwrap();
    assert_eq!((directory.workers(), directory.last_life()), (Some(2), Some(Incarnation(2))));
    assert_eq!(place.files()["keys"], files["keys"], "nothing about the keys has changed");
    drop(directory);
    let other = DataDirectory::open(
        &place.0,
        NodeId(4),
        &Encryption { encrypts: true, master: Some(MasterKeys::of_bytes(b"a")) },
    );
    assert!(other.unwrap_err().to_string().ends_with("keys has the keys of node 3"));
}

#[test]
fn a_wrong_key_is_refused_and_harms_nothing() {
    let place = Place::new();
    let refusal = place.refusal(true, b"");
    assert!(refusal.contains("there is no key"), "{refusal}");
    drop(place.live(true, b"a", 1).unwrap());
    let keys = place.0.join("keys").display().to_string();
    for encrypts in [false, true] {
        let refusal = place.refusal(encrypts, b"bc");
        for part in [&keys, &name_of(b'a'), &name_of(b'b'), "nothing was changed"] {
            assert!(refusal.contains(part), "{part}: {refusal}");
        }
        let refusal = place.refusal(encrypts, b"");
        for part in [&keys, &name_of(b'a'), "is needed", VARIABLE] {
            assert!(refusal.contains(part), "{part}: {refusal}");
        }
    }
    drop(place.live(true, b"a", 2).unwrap());
    // Damage is told from a wrong key.
    let whole = place.files()["keys"].clone();
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        fs::write(place.0.join("keys"), &damaged).unwrap();
        let refusal = place.refusal(true, b"a");
        assert!(refusal.contains("damaged") || refusal.contains("format"), "{at}: {refusal}");
    }
    for len in 0..whole.len() {
        fs::write(place.0.join("keys"), &whole[..len]).unwrap();
        place.refusal(true, b"a");
    }
    fs::remove_file(place.0.join("keys")).unwrap();
    for encrypts in [false, true] {
        let refusal = place.refusal(encrypts, b"a");
        assert!(refusal.contains("keys is missing: put it back"), "{refusal}");
    }
    fs::write(place.0.join("keys"), &whole).unwrap();
    place.live(true, b"a", 3).unwrap();
}

#[test]
fn a_plain_directory_becomes_an_encrypted_one_and_plain_again() {
    let place = Place::new();
    drop(place.live(false, b"", 1).unwrap());
    assert_eq!(place.files().len(), 1);
    let directory = place.live(true, b"a", 2).unwrap();
    assert!(directory.keys().is_some_and(|keys| keys.encrypts()));
    drop(directory);
    let encrypted = place.files()["node"].clone();
    assert_eq!(data_key_of(&encrypted), Some(1));
    let directory = place.live(false, b"a", 3).unwrap();
    assert!(directory.keys().is_some_and(|keys| !keys.encrypts()));
    assert_eq!(data_key_of(&place.files()["node"]), None);
}

#[test]
fn an_empty_directory_takes_no_key_of_before() {
    let place = Place::new();
    drop(place.live(true, b"a", 1).unwrap());
    fs::create_dir(place.0.join("worker-0")).unwrap();
    let empty = |node, master: &[u8]| {
        let master = Some(MasterKeys::of_bytes(master));
        DataDirectory::empty(&place.0, NodeId(node), &Encryption { encrypts: true, master })
    };
    assert!(empty(4, b"b").unwrap_err().to_string().ends_with("directory of node 3"));
    let mut directory = empty(3, b"b").unwrap();
    assert_eq!(directory.workers(), None);
    directory.begin_life(Incarnation(9), 1).unwrap();
    assert_eq!(place.files().len(), 2);
    drop(directory);
    place.refusal(true, b"a");
}

#[test]
fn keys_are_rotated() {
    let place = Place::new();
    let directory = place.live(true, b"a", 1).unwrap();
    let keys = directory.keys().unwrap();
    let old = keys.seal(b"old");
    assert_eq!(data_key_of(&old), Some(1));
    // The master key of before is among the new ones: it opens, and the first one wraps.
    let rotated = keys.rotate(&MasterKeys::of_bytes(b"ba")).unwrap();
    assert_eq!(rotated, Rotated { data_key: 2, master_key: name_of(b'b') });
    let new = keys.seal(b"new");
    assert_eq!(data_key_of(&new), Some(2));
    // Somebody else's key changes nothing.
    let before = place.files();
    assert!(keys.rotate(&MasterKeys::of_bytes(b"c")).unwrap_err().contains(&name_of(b'b')));
    assert_eq!(place.files(), before);
    drop(directory);
    place.refusal(true, b"a");
    let directory = place.live(true, b"b", 2).unwrap();
    let keys = directory.keys().unwrap();
    assert_eq!(keys.open_file(old).unwrap(), b"old");
    assert_eq!(keys.open_file(new.clone()).unwrap(), b"new");
    drop(directory);
    // A key of the same number is another one.
    let other = Place::new();
    let foreign = other.live(true, b"a", 1).unwrap();
    foreign.keys().unwrap().rotate(&MasterKeys::of_bytes(b"a")).unwrap();
    let why = foreign.keys().unwrap().open_file(new).unwrap_err();
    assert!(why.contains("a data key 2 that"), "{why}");
    // A start wraps with the first key as well, without a new data key.
    let directory = place.live(true, b"cb", 3).unwrap();
    assert_eq!(data_key_of(&directory.keys().unwrap().seal(b"")), Some(2));
    drop(directory);
    place.refusal(true, b"b");
    place.live(true, b"c", 4).unwrap();
}

#[test]
fn the_key_stream_is_aes_256_in_counter_mode() {
    // Bytes come in any pieces at any place.
    let cipher = StreamCipher::new(&[7; KEY]);
    let text: Vec<u8> = (0..1_000_u32).map(|n| (n % 253) as u8).collect();
    let mut whole = text.clone();
    cipher.apply(0, &mut whole);
    assert_ne!(whole, text);
    let mut prng = stdx::Prng::new(3);
    for _ in 0..2_000 {
        let from = prng.index(text.len());
        let to = from + prng.index(text.len() - from + 1);
        let mut piece = text[from..to].to_vec();
        cipher.apply(from as u64, &mut piece);
        assert_eq!(piece, whole[from..to], "{from}..{to}");
        cipher.decrypt(from as u64, &mut piece, true);
        assert_eq!(piece, text[from..to], "{from}..{to}");
    }
    // The first block is the encryption of zero: of all zeros it is the key stream itself.
    let mut zeros = [0; 16];
    StreamCipher::new(&[0; KEY]).apply(0, &mut zeros);
    let known = 0xdc95_c078_a240_8989_ad48_a214_9284_2087_u128;
    assert_eq!(u128::from_be_bytes(zeros), known, "AES-256 of a zero block with a zero key");
}

#[test]
fn a_block_that_was_begun_is_no_hole() {
    // Of some block the first byte is encrypted as zero: it was written, and all behind it was not.
    let cipher = StreamCipher::new(&[7; KEY]);
    let mut met = 0;
    for number in 1..2_000_usize {
        let text = vec![b'a'; number * AES + 1];
        let mut file = text.clone();
        cipher.apply(0, &mut file);
        met += u32::from(file.last() == Some(&0));
        file.resize(text.len() + 5 * AES, 0);
        let mut whole = file.clone();
        assert!(cipher.decrypt(0, &mut whole, true));
        assert_eq!(whole[..text.len()], text);
        let behind = (number + 2) * AES;
        assert!(whole[behind..].iter().all(|byte| *byte == 0));
        // A read that begins there has to be told what is before.
        for from in [number * AES - 3, number * AES, behind] {
            let mut part = file[from..].to_vec();
            let before = StreamCipher::block_before(from as u64, &part);
            let behind_hole = before.is_none_or(|at| file[at as usize..][..AES] == [0; AES]);
            cipher.decrypt(from as u64, &mut part, behind_hole);
            assert_eq!(part, whole[from..]);
        }
    }
    assert!(met > 0, "one block in 256");
}

#[test]
fn blocks_are_authentic_or_nothing() {
    let cipher = BlockCipher::new([9; KEY]);
    let sealed = cipher.seal(4, b"contents").unwrap();
    assert_eq!(cipher.open(4, &sealed).as_deref(), Some(&b"contents"[..]));
    assert_eq!(cipher.open(5, &sealed), None, "it belongs elsewhere");
    for at in (0..sealed.len()).filter(|at| !(SALT + 20..SALT + 32).contains(at)) {
        let mut changed = sealed.clone();
        changed[at] ^= 1;
        assert_eq!(cipher.open(4, &changed), None, "byte {at}");
    }
    for len in 0..sealed.len() {
        assert_eq!(cipher.open(4, &sealed[..len]), None, "cut at {len}");
    }
    assert_ne!(cipher.seal(4, b"contents").unwrap(), sealed, "each time with another key");
    let mut zeros = vec![0; BLOCK];
    assert_eq!(cipher.open(0, &cipher.seal(0, &zeros).unwrap()), Some(zeros.clone()));
    zeros[BLOCK - 1] = 1;
    assert_eq!(cipher.seal(0, &zeros), None, "no room");
}

#[test]
fn any_bytes_can_be_a_file_of_keys() {
    let mut prng = stdx::Prng::new(1);
    for _ in 0..2_000 {
        let mut bytes: Vec<u8> = (0..prng.below(400)).map(|_| prng.next_u64() as u8).collect();
        if prng.percent(50) && bytes.len() > 12 {
            bytes[..8].copy_from_slice(b"NINESKEY");
            bytes[8..12].copy_from_slice(&1_u32.to_le_bytes());
        }
        assert!(Wrapped::decode(&bytes).is_err());
    }
}

#[test]
fn master_keys_are_read_from_files_and_commands() {
    let place = Place::new();
    let hex = "00".repeat(31) + "fF";
    let text = format!("# keys\n\n {hex} \nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n");
    let keys = place.file("good", &text, 0o600).read().unwrap();
    let command = KeySource::Command(format!("echo {hex}"));
    assert_eq!(keys.newest_name(), command.read().unwrap().newest_name());
    assert_eq!(keys.names().split(", ").nth(1), Some(&*name_of(0)), "base64 of zeros");
    assert!(!format!("{keys:?}").contains("ff"), "keys are not printed: {keys:?}");
    let wrong = [
        (place.file("open", &hex, 0o644), "others than its owner may use the key"),
        (place.file("short", &hex[2..], 0o600), "a line that is no key"),
        (place.file("none", "# nothing\n", 0o600), "has no key in it"),
        (KeySource::File(place.0.join("missing")), "No such file"),
        (KeySource::Command("echo no luck >&2; exit 3".into()), "no luck"),
        (KeySource::Command("kill -9 $$".into()), "it has failed"),
        (KeySource::Command("echo".into()), "has no key in it"),
        (KeySource::Command("printf '\\377'".into()), "no text"),
    ];
    for (source, part) in wrong {
        let why = source.read().unwrap_err();
        assert!(why.contains(part) && why.lines().count() == 1, "{part}: {why}");
    }
    let both = KeySource::choose(Some("file".into()), Some("command".into()));
    assert!(both.unwrap_err().contains("not from both"));
}
