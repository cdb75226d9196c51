//! Temporary files: without a name, gone with the process that made them.
//!
//! # Owns
//! [`TemporaryDirectory`], where they are made; [`TemporaryFile`], which is written at its end and
//! read anywhere.
//! # Guarantees
//! 1. A file has no name (`O_TMPFILE`). Where the file system has no such files its name is taken
//!    away before the first byte is written; what a process that was killed in between has left is
//!    empty, and removed at the next start. So nothing of the contents outlives the process.
//! 2. Files are for their owner alone (0600), the directory too (0700) if it was made here.
//! 3. What is read is what was written, or an error: each piece has a checksum. In encrypted files
//!    it is authentic: AES-256-GCM with a random key of the file that is in memory only.
//! # Not here
//! What is written, and how much may be (`sql`).

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use rustix::fs::{Mode, OFlags, fstatvfs};
use rustix::io::Errno;

use crate::encryption::random;

/// What names begin with, where files need one for a moment.
const PREFIX: &str = "nines-spill-";
/// One part in so many of a disk is not used for temporary files.
const RESERVED: u64 = 20;
/// Bytes of a checksum, and of what makes a piece authentic.
const CHECKSUM: usize = 4;
const TAG: usize = 16;

/// Tells names of one process apart.
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// A directory for temporary files.
#[derive(Clone, Debug)]
pub struct TemporaryDirectory {
    path: PathBuf,
    encrypts: bool,
}

/// Why a temporary file cannot be used; the text names the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemporaryError {
    /// The disk, or what the user may have of it, is full.
    Full(String),
    /// Anything else.
    Failed(String),
}

/// A file without a name.
#[derive(Debug)]
pub struct TemporaryFile {
    file: File,
    /// For errors.
    directory: PathBuf,
    /// Where the next piece begins.
    end: u64,
    key: Option<LessSafeKey>,
}

impl TemporaryDirectory {
    /// Takes a directory, which is made if it is not there, and removes what processes have left
    /// that were killed. With `encrypts` files are encrypted.
    ///
    /// # Errors
    /// No file can be made in it: a line that says why.
    pub fn open(path: &Path, encrypts: bool) -> Result<Self, String> {
        let failed = |error: io::Error| {
            format!(
                "cannot use directory {} for temporary files: {error}; name one that can be \
                 written by TempDir or --temp-dir",
                path.display()
            )
        };
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
        for entry in fs::read_dir(path).map_err(failed)?.flatten() {
            if entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
                // Its maker may be alive and take the name away itself.
                let _ = fs::remove_file(entry.path());
            }
        }
        let directory = Self { path: path.to_owned(), encrypts };
        directory.open_file().map_err(failed)?;
        Ok(directory)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A new file.
    ///
    /// # Errors
    /// The directory is gone or full, or the process has too many files.
    pub fn create(&self) -> Result<TemporaryFile, TemporaryError> {
        let file = self.open_file().map_err(|error| of_io(&self.path, &error))?;
        let key = self.encrypts.then(|| {
            let key = UnboundKey::new(&AES_256_GCM, &random::<32>());
            LessSafeKey::new(key.expect("a key of this length"))
        });
        Ok(TemporaryFile { file, directory: self.path.clone(), end: 0, key })
    }

    fn open_file(&self) -> io::Result<File> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::EXCL;
        match rustix::fs::open(&self.path, flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => Ok(File::from(file)),
            // The file system or the system has no files without names.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => self.open_named(),
            Err(error) => Err(error.into()),
        }
    }

    fn open_named(&self) -> io::Result<File> {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = self.path.join(format!("{PREFIX}{}-{number}", std::process::id()));
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        match fs::remove_file(&path) {
            // Another process that begins has removed it already.
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(file),
        }
    }
}

impl TemporaryFile {
    /// Appends bytes as one piece; where it begins.
    ///
    /// # Errors
    /// The disk is full or fails. The file can be used on.
    pub fn append(&mut self, bytes: &[u8]) -> Result<u64, TemporaryError> {
        self.check_space()?;
        let at = self.end;
        let mut piece = bytes.to_vec();
        match &self.key {
            Some(key) => {
                let sealed = key.seal_in_place_append_tag(nonce(at), Aad::empty(), &mut piece);
                sealed.expect("a piece is short enough");
            }
            None => piece.extend(crc32c::crc32c(bytes).to_le_bytes()),
        }
        // Also after a failure no other bytes are ever encrypted for this place.
        self.end += piece.len() as u64;
        self.file.write_all_at(&piece, at).map_err(|error| of_io(&self.directory, &error))?;
        Ok(at)
    }

    /// Leaves some of the disk to others, who may be data nodes that write their log.
    fn check_space(&self) -> Result<(), TemporaryError> {
        let space = fstatvfs(&self.file);
        let space = space.map_err(|error| of_io(&self.directory, &error.into()))?;
        if space.f_blocks > 0 && space.f_bavail < space.f_blocks / RESERVED {
            let directory = self.directory.display();
            let text = format!("{directory}: one part in {RESERVED} is left for others");
            Err(TemporaryError::Full(text))
        } else {
            Ok(())
        }
    }

    /// Reads a piece of so many bytes.
    ///
    /// # Errors
    /// The disk fails, or has other bytes than were written.
    pub fn read(&self, at: u64, length: usize) -> Result<Vec<u8>, TemporaryError> {
        let more = if self.key.is_some() { TAG } else { CHECKSUM };
        let mut piece = vec![0; length + more];
        let read = self.file.read_exact_at(&mut piece, at);
        read.map_err(|error| of_io(&self.directory, &error))?;
        let is_whole = match &self.key {
            Some(key) => key.open_in_place(nonce(at), Aad::empty(), &mut piece).is_ok(),
            None => {
                let (bytes, sum) = piece.split_at(length);
                crc32c::crc32c(bytes).to_le_bytes() == sum
            }
        };
        if !is_whole {
            let directory = self.directory.display();
            let why = format!("a file in {directory} has other bytes than were written");
            return Err(TemporaryError::Failed(why));
        }
        piece.truncate(length);
        Ok(piece)
    }
}

/// The number that is used once for a key: no two pieces of a file begin at one place.
fn nonce(at: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[..8].copy_from_slice(&at.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

fn of_io(directory: &Path, error: &io::Error) -> TemporaryError {
    let text = format!("{}: {error}", directory.display());
    let full = [Errno::NOSPC, Errno::DQUOT, Errno::FBIG].map(Errno::raw_os_error);
    match error.raw_os_error() {
        Some(code) if full.contains(&code) => TemporaryError::Full(text),
        _ => TemporaryError::Failed(text),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("nines-test-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        path
    }

    #[test]
    fn pieces_come_back_and_nothing_is_left() {
        let path = directory("pieces");
        for encrypts in [false, true] {
            let directory = TemporaryDirectory::open(&path, encrypts).unwrap();
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
            let mut file = directory.create().unwrap();
            assert_eq!(file.file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
            let pieces: Vec<Vec<u8>> =
                (0..50_u8).map(|at| vec![b'n'; usize::from(at) * 999]).collect();
            let places: Vec<u64> = pieces.iter().map(|piece| file.append(piece).unwrap()).collect();
            for (at, piece) in places.iter().zip(&pieces).rev() {
                assert_eq!(file.read(*at, piece.len()).as_ref(), Ok(piece));
            }
            let mut raw = vec![0; 1_000];
            file.file.read_exact_at(&mut raw, places[3]).unwrap();
            assert_eq!(raw.windows(8).any(|bytes| bytes == b"nnnnnnnn"), !encrypts);
            assert_eq!(fs::read_dir(&path).unwrap().count(), 0, "files have no names");
        }
        fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn other_bytes_than_were_written_are_an_error() {
        let path = directory("damage");
        for encrypts in [false, true] {
            let mut file = TemporaryDirectory::open(&path, encrypts).unwrap().create().unwrap();
            let at = file.append(&[7; 5_000]).unwrap();
            let mut byte = [0];
            file.file.read_exact_at(&mut byte, at + 1_234).unwrap();
            file.file.write_all_at(&[byte[0] ^ 1], at + 1_234).unwrap();
            let error = file.read(at, 5_000).unwrap_err();
            assert!(format!("{error:?}").contains("other bytes"), "{error:?}");
            assert!(file.read(at + 5_000, 5_000).is_err());
        }
        fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn names_that_a_killed_process_has_left_are_removed() {
        let path = directory("left");
        fs::create_dir_all(&path).unwrap();
        let (left, other) = (path.join(format!("{PREFIX}4711-0")), path.join("other"));
        fs::write(&left, []).unwrap();
        fs::write(&other, []).unwrap();
        let directory = TemporaryDirectory::open(&path, false).unwrap();
        assert!(!left.exists() && other.exists());
        let mut file = TemporaryFile {
            file: directory.open_named().unwrap(),
            directory: path.clone(),
            end: 0,
            key: None,
        };
        assert!(fs::read_dir(&path).unwrap().count() == 1, "only the other one has a name");
        let at = file.append(b"text").unwrap();
        assert_eq!(file.read(at, 4), Ok(b"text".to_vec()));
        fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn a_full_disk_is_told_from_one_that_fails() {
        let full = File::options().write(true).read(true).open("/dev/full").unwrap();
        let mut file =
            TemporaryFile { file: full, directory: "/dev/full".into(), end: 0, key: None };
        let error = file.append(b"text").unwrap_err();
        assert!(matches!(&error, TemporaryError::Full(text) if text.contains("/dev/full")));
        let error = TemporaryDirectory::open(Path::new("/dev/null/tmp"), false).unwrap_err();
        assert!(error.contains("/dev/null/tmp") && error.contains("TempDir"), "{error}");
    }
}
