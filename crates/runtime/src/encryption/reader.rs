//! Reads the contents of a file from its beginning to its end, encrypted or not.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::Path;

use super::{FileCipher, HEADER, KeyRing, StreamCipher};

/// The contents of a file.
#[derive(Debug)]
pub struct FileReader {
    source: Source,
}

#[derive(Debug)]
enum Source {
    /// What has been read already, then the rest.
    Plain(io::Chain<Cursor<Vec<u8>>, File>),
    Stream {
        file: File,
        cipher: StreamCipher,
        offset: u64,
        /// See [`StreamCipher::decrypt`].
        behind_hole: bool,
    },
    /// Such files are small.
    Whole(Cursor<Vec<u8>>),
}

impl FileReader {
    /// Opens a file. `keys` are those of its directory, if it has some.
    pub fn open(path: &Path, keys: Option<&KeyRing>) -> io::Result<FileReader> {
        let mut file = File::open(path)?;
        let mut beginning = Vec::new();
        (&mut file).take(HEADER).read_to_end(&mut beginning)?;
        let cipher = keys.map(|keys| keys.cipher(&beginning)).transpose();
        let source = match cipher.map_err(io::Error::other)?.flatten() {
            None => Source::Plain(Cursor::new(beginning).chain(file)),
            Some(FileCipher::Stream(cipher)) => {
                Source::Stream { file, cipher, offset: 0, behind_hole: true }
            }
            Some(FileCipher::Blocks(cipher)) => {
                let mut blocks = Vec::new();
                file.read_to_end(&mut blocks)?;
                Source::Whole(Cursor::new(cipher.open_all(&blocks)))
            }
        };
        Ok(FileReader { source })
    }
}

impl Read for FileReader {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match &mut self.source {
            Source::Plain(file) => file.read(bytes),
            Source::Whole(contents) => contents.read(bytes),
            Source::Stream { file, cipher, offset, behind_hole } => {
                let count = file.read(bytes)?;
                *behind_hole = cipher.decrypt(*offset, &mut bytes[..count], *behind_hole);
                *offset += count as u64;
                Ok(count)
            }
        }
    }
}
