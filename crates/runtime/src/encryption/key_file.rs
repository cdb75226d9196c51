//! The file `keys` of a data directory: its data keys, wrapped by a master key.
//!
//! # Guarantees
//! Data keys are encrypted and authenticated (AES-256-GCM) together with their numbers, the node
//! and the name of the master key. The name says which master key it is, and nothing else about it.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use model::NodeId;

use super::master::{KeyName, MasterKey};
use super::{DATA_KEYS_MAX, DataKeys, KEY, MasterKeys, SALT, derive, random};

/// The name of the file.
pub(crate) const KEYS_FILE: &str = "keys";
const MAGIC: &[u8; 8] = b"NINESKEY";
/// The newest version of the format.
const VERSION: u32 = 1;
/// Magic, version, node, name of the master key, salt, number of data keys.
const HEAD: usize = 8 + 4 + 2 + 8 + SALT + 4;
const TAG: usize = 16;
/// The number of a data key, and the key.
const ENTRY: usize = 4 + KEY;

/// The content of the file.
pub(super) struct Wrapped {
    node: NodeId,
    master: KeyName,
    head: [u8; HEAD],
    /// Entries and a tag.
    sealed: Vec<u8>,
}

impl Wrapped {
    /// Has the first of the master keys wrap data keys.
    pub(super) fn of(node: NodeId, keys: &DataKeys, master: &MasterKeys) -> Self {
        let master = master.newest();
        let salt: [u8; SALT] = random();
        let mut head = Vec::with_capacity(HEAD);
        head.extend_from_slice(MAGIC);
        head.extend_from_slice(&VERSION.to_le_bytes());
        head.extend_from_slice(&node.0.to_le_bytes());
        head.extend_from_slice(&master.name().0);
        head.extend_from_slice(&salt);
        head.extend_from_slice(&(keys.0.len() as u32).to_le_bytes());
        let head: [u8; HEAD] = head.try_into().expect("all parts of a head");
        let mut sealed = Vec::new();
        for (number, key) in &keys.0 {
            sealed.extend_from_slice(&number.to_le_bytes());
            sealed.extend_from_slice(key);
        }
        let (key, nonce) = wrapping(master, &head);
        let tag = key.seal_in_place_separate_tag(nonce, Aad::from(head), &mut sealed);
        sealed.extend_from_slice(tag.expect("a short file").as_ref());
        Self { node, master: master.name(), head, sealed }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = self.head.to_vec();
        out.extend_from_slice(&self.sealed);
        let checksum = crc32c::crc32c(&out);
        out.extend_from_slice(&checksum.to_le_bytes());
        out
    }

    /// Reads the content of the file, without any key.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, String> {
        let damaged = || "it is damaged".to_string();
        if bytes.get(..8) != Some(MAGIC) {
            return Err("it is no file of keys, or damaged".into());
        }
        let number = |at: usize| {
            let four = bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
            four.map(u32::from_le_bytes).ok_or_else(damaged)
        };
        let version = number(8)?;
        if version > VERSION {
            return Err(format!("it has format {version}, written by a newer version"));
        }
        let (content, checksum) = bytes.split_last_chunk::<4>().ok_or_else(damaged)?;
        if crc32c::crc32c(content).to_le_bytes() != *checksum {
            return Err(damaged());
        }
        let (head, sealed) = content.split_first_chunk::<HEAD>().ok_or_else(damaged)?;
        let count = number(HEAD - 4)? as usize;
        if !(1..=DATA_KEYS_MAX).contains(&count) || sealed.len() != count * ENTRY + TAG {
            return Err(damaged());
        }
        let node = NodeId(u16::from_le_bytes([head[12], head[13]]));
        let master = KeyName(head[14..22].try_into().expect("eight bytes"));
        Ok(Self { node, master, head: *head, sealed: sealed.to_vec() })
    }

    /// The node whose keys they are.
    pub(super) fn node(&self) -> NodeId {
        self.node
    }

    /// The data keys, and whether the newest of the master keys has wrapped them.
    pub(super) fn open(&self, master: Option<&MasterKeys>) -> Result<(DataKeys, bool), String> {
        let wanted = self.master.to_string();
        let Some(keys) = master else {
            return Err(format!(
                "the directory is encrypted, and master key {wanted} is needed: name its file, or \
                 a command that prints it, or set {}; nothing was changed",
                super::master::VARIABLE
            ));
        };
        let Some(key) = keys.find(self.master) else {
            return Err(format!(
                "the directory is encrypted with master key {wanted}, and {keys} has {}: give the \
                 right one; nothing was changed",
                keys.names()
            ));
        };
        let mut opened = self.sealed.clone();
        let (wrapping, nonce) = wrapping(key, &self.head);
        let entries = wrapping
            .open_in_place(nonce, Aad::from(self.head), &mut opened)
            .map_err(|_| format!("it is damaged, or master key {wanted} is another one"))?;
        let entries = entries.chunks_exact(ENTRY).map(|entry| {
            let (number, key) = entry.split_at(4);
            let number = u32::from_le_bytes(number.try_into().expect("four bytes"));
            (number, key.try_into().expect("the rest is the key"))
        });
        let by_newest = key.name() == keys.newest().name();
        Ok((DataKeys(entries.collect()), by_newest))
    }
}

impl fmt::Display for Wrapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (node, master) = (self.node.0, self.master);
        let count = self.sealed.len() / ENTRY;
        let plural = if count == 1 { "" } else { "s" };
        write!(f, "keys of node {node}: {count} data key{plural}, wrapped by master key {master}")
    }
}

/// What wraps the data keys: used once, as each file has a salt of its own.
fn wrapping(master: &MasterKey, head: &[u8; HEAD]) -> (LessSafeKey, Nonce) {
    let salt = &head[HEAD - 4 - SALT..HEAD - 4];
    let key = derive(master.bytes(), salt, b"nines keys, 1");
    let key = UnboundKey::new(&AES_256_GCM, &key).expect("a key of this length");
    (LessSafeKey::new(key), Nonce::assume_unique_for_key([0; 12]))
}
