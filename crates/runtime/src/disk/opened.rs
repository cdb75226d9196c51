//! A file that is open: what actors write into it and read from it, encrypted or as it is.
//!
//! # Guarantees
//! 1. What was written before is not touched by a write that comes after it, torn or whole: the
//!    file of a key stream is only ever appended to, and a block is written as a whole.
//! 2. No two different bytes are encrypted for one place of a key stream: a write to where
//!    something was written before is compared with that, and refused unless it is the same.
//! 3. Where new files are to be encrypted, nothing is written into one that is not.
//! # Failure
//! A file whose header is lost counts as one that is not encrypted: what it holds is no log and no
//! checkpoint then, as after any other damage to its beginning.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use ondisk::is_written_in_place;
use rustix::fs::{FallocateFlags, fallocate, fstatvfs};
use rustix::io::Errno;

use crate::encryption::{
    AES, BLOCK, BlockCipher, FileCipher, HEADER, KeyRing, Layout, StreamCipher,
};

/// An open file.
#[derive(Debug)]
pub(super) struct OpenFile {
    file: Arc<File>,
    /// The keys that encrypt what is written; none where it is written as it is.
    keys: Option<Arc<KeyRing>>,
    layout: Layout,
    /// Not known of an empty file that is to be encrypted: the first write says so. None inside for
    /// a file that is not encrypted.
    cipher: OnceLock<Option<FileCipher>>,
    /// Up to here something has been encrypted with the key stream, or may have been.
    touched: AtomicU64,
}

impl OpenFile {
    /// Takes a file; `keys` are those of its directory.
    pub(super) fn new(file: File, path: &str, keys: Option<&Arc<KeyRing>>) -> io::Result<Self> {
        let layout = if is_written_in_place(path) { Layout::Blocks } else { Layout::Stream };
        let writing = keys.filter(|keys| keys.encrypts()).cloned();
        let opened = Self {
            file: Arc::new(file),
            keys: writing,
            layout,
            cipher: OnceLock::new(),
            touched: AtomicU64::new(0),
        };
        let Some(keys) = keys else {
            opened.know(None);
            return Ok(opened);
        };
        let length = opened.file.metadata()?.len();
        if length > 0 {
            let beginning = read_at(&opened.file, 0, HEADER as usize)?;
            opened.know(keys.cipher(&beginning).map_err(io::Error::other)?);
            opened.touched.store(length.saturating_sub(HEADER), Ordering::Relaxed);
        } else if opened.keys.is_none() {
            opened.know(None);
        }
        Ok(opened)
    }

    fn know(&self, cipher: Option<FileCipher>) {
        self.cipher.set(cipher).expect("it is found out once");
    }

    /// The file itself.
    pub(super) fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// The length of what it holds.
    pub(super) fn length(&self) -> io::Result<u64> {
        let length = self.file.metadata()?.len();
        match self.cipher.get() {
            None | Some(None) => Ok(length),
            Some(Some(FileCipher::Stream(_))) => Ok(length.saturating_sub(HEADER)),
            Some(Some(FileCipher::Blocks(cipher))) => {
                let blocks = length.saturating_sub(HEADER).div_ceil(BLOCK as u64);
                let Some(last) = blocks.checked_sub(1) else { return Ok(0) };
                Ok(last * BLOCK as u64 + self.block(cipher, last)?.len() as u64)
            }
        }
    }

    /// Writes at an offset.
    pub(super) fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        match self.begun()? {
            None if self.keys.is_some() => Err(refused("it is not encrypted, and is to be")),
            None => self.file.write_all_at(bytes, offset),
            Some(FileCipher::Stream(cipher)) => self.append(cipher, offset, bytes),
            Some(FileCipher::Blocks(cipher)) => self.replace(cipher, offset, bytes),
        }
    }

    /// The cipher; a file that is to be encrypted gets its header.
    fn begun(&self) -> io::Result<Option<&FileCipher>> {
        if self.cipher.get().is_none() {
            let keys = self.keys.as_ref().expect("a file is plain where nothing is encrypted");
            let (header, cipher) = keys.new_file(self.layout);
            self.file.write_all_at(&header, 0)?;
            self.know(Some(cipher));
        }
        Ok(self.cipher.get().expect("it is known now").as_ref())
    }

    fn append(&self, cipher: &StreamCipher, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let touched = self.touched.load(Ordering::Relaxed);
        if offset > touched {
            return Err(refused("it would have a gap in it"));
        }
        let again = (touched - offset).min(bytes.len() as u64) as usize;
        if again > 0 {
            // What the disk had no space for is written again.
            let mut there = read_at(&self.file, HEADER + offset, again)?;
            self.decrypt_stream(cipher, offset, &mut there)?;
            if there != bytes[..there.len()] {
                return Err(refused("other bytes are in this place already"));
            }
        }
        let mut encrypted = bytes.to_vec();
        cipher.apply(offset, &mut encrypted);
        self.touch(offset + bytes.len() as u64);
        self.file.write_all_at(&encrypted, HEADER + offset)
    }

    fn touch(&self, end: u64) {
        self.touched.fetch_max(end, Ordering::Relaxed);
    }

    /// Writes into blocks, each of which is read before.
    fn replace(&self, cipher: &BlockCipher, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut written = 0;
        while written < bytes.len() {
            let at = offset + written as u64;
            let (index, within) = (at / BLOCK as u64, (at % BLOCK as u64) as usize);
            let count = (BLOCK - within).min(bytes.len() - written);
            let mut block = self.block(cipher, index)?;
            if block.len() < within + count {
                block.resize(within + count, 0);
            }
            block[within..within + count].copy_from_slice(&bytes[written..written + count]);
            let sealed = cipher.seal(index, &block).ok_or_else(|| refused("a block is full"))?;
            self.file.write_all_at(&sealed, HEADER + index * BLOCK as u64)?;
            written += count;
        }
        Ok(())
    }

    /// The contents of a block: zeros where it is damaged, nothing behind the end of the file.
    fn block(&self, cipher: &BlockCipher, index: u64) -> io::Result<Vec<u8>> {
        let block = read_at(&self.file, HEADER + index * BLOCK as u64, BLOCK)?;
        if block.is_empty() {
            return Ok(block);
        }
        Ok(cipher.open(index, &block).unwrap_or_else(|| vec![0; BLOCK]))
    }

    /// Reads from an offset; fewer bytes at the end.
    pub(super) fn read(&self, offset: u64, length: u64) -> io::Result<Vec<u8>> {
        if let Some((at, length)) = self.readable(offset, length)? {
            let mut bytes = read_at(&self.file, at, length)?;
            self.decrypt(offset, &mut bytes)?;
            return Ok(bytes);
        }
        let Some(Some(FileCipher::Blocks(cipher))) = self.cipher.get() else {
            return Ok(Vec::new());
        };
        let end = self.length()?.min(offset.saturating_add(length));
        let mut bytes = Vec::new();
        let mut at = offset;
        while at < end {
            let (index, within) = (at / BLOCK as u64, (at % BLOCK as u64) as usize);
            let mut block = self.block(cipher, index)?;
            // Only the last one may be shorter.
            block.resize(BLOCK, 0);
            let count = (BLOCK - within).min((end - at) as usize);
            bytes.extend_from_slice(&block[within..within + count]);
            at += count as u64;
        }
        Ok(bytes)
    }

    /// Where in the file the bytes of a read begin, and how many of them are there. None where
    /// reading takes more than that.
    pub(super) fn readable(&self, offset: u64, length: u64) -> io::Result<Option<(u64, usize)>> {
        let before = match self.cipher.get() {
            Some(None) => 0,
            Some(Some(FileCipher::Stream(_))) => HEADER,
            None | Some(Some(FileCipher::Blocks(_))) => return Ok(None),
        };
        let at = offset.saturating_add(before);
        let there = self.file.metadata()?.len().saturating_sub(at);
        let length = usize::try_from(there.min(length)).map_err(|_| Errno::FBIG)?;
        Ok(Some((at, length)))
    }

    /// Decrypts what was read where [`OpenFile::readable`] said. Where a hole seems to begin with
    /// the bytes, the block before them is read.
    pub(super) fn decrypt(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        match self.cipher.get() {
            Some(Some(FileCipher::Stream(cipher))) => self.decrypt_stream(cipher, offset, bytes),
            _ => Ok(()),
        }
    }

    fn decrypt_stream(&self, cipher: &StreamCipher, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        let behind_hole = match StreamCipher::block_before(at, bytes) {
            None => true,
            Some(before) => read_at(&self.file, HEADER + before, AES)? == [0; AES],
        };
        cipher.decrypt(at, bytes, behind_hole);
        Ok(())
    }

    /// Makes bytes ready to be written by somebody else: encrypts them, and says where in the file
    /// they belong. None where more is to be done than that.
    pub(super) fn prepare(&self, offset: u64, bytes: &mut [u8]) -> Option<u64> {
        match self.cipher.get()? {
            None => self.keys.is_none().then_some(offset),
            Some(FileCipher::Stream(cipher)) => {
                if self.touched.load(Ordering::Relaxed) != offset {
                    return None;
                }
                cipher.apply(offset, bytes);
                self.touch(offset + bytes.len() as u64);
                Some(HEADER + offset)
            }
            Some(FileCipher::Blocks(_)) => None,
        }
    }

    /// Sets space aside. Where the file system cannot, at least there is as much free space now.
    pub(super) fn reserve(&self, length: u64) -> io::Result<()> {
        let file = self.file.as_ref();
        let length = if self.keys.is_some() { length.saturating_add(HEADER) } else { length };
        loop {
            match fallocate(file, FallocateFlags::KEEP_SIZE, 0, length) {
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                    let system = fstatvfs(file)?;
                    let free = system.f_bavail.saturating_mul(system.f_frsize);
                    let missing = length.saturating_sub(file.metadata()?.len());
                    return if missing > free { Err(Errno::NOSPC.into()) } else { Ok(()) };
                }
                other => return Ok(other?),
            }
        }
    }
}

/// Reads so many bytes, or as many as there are.
fn read_at(file: &File, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// An operation that an encrypted file does not allow.
fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}
