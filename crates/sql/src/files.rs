//! Files of the server that statements read and write: SELECT … INTO OUTFILE, LOAD DATA INFILE.
//!
//! # Owns
//! [`ServerFiles`], the host's side; what statements are told when a file cannot be read, or not be
//! written.
//! # Guarantees
//! A worker never waits for a file: the host works aside, and whoever waits lets others in.
//! # Not here
//! Which files there are, and how it is made sure that no other ones are touched: the host. The
//! form of what is in them: `execute::outfile`, `execute::load`.

use std::fmt;

use sql_expression::SqlError;
use stdx::Duration;

use crate::kernel::Kernel;

/// How long a statement waits before it looks again whether the host has come further.
const LOOK_AGAIN: Duration = Duration::from_micros(200);

/// The host's files below one directory.
pub trait ServerFiles: fmt::Debug + Send + Sync {
    /// The directory: `@@secure_file_priv`.
    fn directory(&self) -> &str;

    /// Begins a file, which must not be there yet. What goes wrong is told by the next call.
    fn create(&self, path: &str) -> Box<dyn NewFile>;

    /// Begins a file in the place of one that may be there. What goes wrong is told by the next
    /// call.
    fn replace(&self, path: &str) -> Box<dyn NewFile>;

    /// Begins to give a file another name, in the same directory, in the place of one that may be
    /// there; on the disk when it is done. It is done before if only the other name is there.
    fn rename(&self, from: &str, to: &str) -> Box<dyn Renaming>;

    /// Begins to read a file.
    fn open(&self, path: &str) -> Box<dyn FileParts>;
}

/// A file that is being written. Dropped before its end it is removed.
pub trait NewFile: fmt::Debug + Send {
    /// Takes bytes. Gives them back if too many wait to be written.
    fn write(&mut self, bytes: Vec<u8>) -> Result<Option<Vec<u8>>, FileError>;

    /// Ends the file, on the disk if `synced`. True once that is done.
    fn finish(&mut self, synced: bool) -> Result<bool, FileError>;
}

/// A file that gets another name.
pub trait Renaming: fmt::Debug + Send {
    /// True once that is done.
    fn is_done(&mut self) -> Result<bool, FileError>;
}

/// A file that is being read.
pub trait FileParts: fmt::Debug + Send {
    /// What comes next.
    fn next(&mut self) -> Result<FilePart, FileError>;
}

/// A part of a file.
#[derive(Debug)]
pub enum FilePart {
    /// Some bytes.
    Bytes(Vec<u8>),
    /// They are not there yet.
    Later,
    /// There are no more.
    End,
}

/// Why a file cannot be read or written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    /// What is wrong.
    pub kind: FileErrorKind,
    /// The number of the system's error; 0 if it is none of the system's.
    pub number: i32,
    /// What the system says, or what is asked for instead.
    pub text: String,
}

/// What may be wrong with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileErrorKind {
    /// It is not below the directory, or a way to it leads through a link, or it is no plain file.
    Forbidden,
    /// It is there already.
    Exists,
    /// It cannot be made.
    NotMade,
    /// It cannot be opened.
    NotFound,
    /// It cannot be read.
    NotRead,
    /// It cannot be written to its end.
    NotWritten,
}

/// What a statement is told.
fn told(path: &str, error: &FileError) -> SqlError {
    let FileError { kind, number, text } = error;
    let (code, text) = match kind {
        FileErrorKind::Forbidden => (1290, format!("'{path}' is no file for statements: {text}")),
        FileErrorKind::Exists => (1086, format!("File '{path}' already exists")),
        FileErrorKind::NotMade => {
            (1004, format!("Can't create file '{path}' (errno: {number} - {text})"))
        }
        FileErrorKind::NotFound => {
            (29, format!("File '{path}' not found (OS errno {number} - {text})"))
        }
        FileErrorKind::NotRead => {
            (1024, format!("Error reading file '{path}' (errno: {number} - {text})"))
        }
        FileErrorKind::NotWritten => {
            (1026, format!("Error writing file '{path}' (errno: {number} - {text})"))
        }
    };
    SqlError::new(code, "HY000", text)
}

/// A file that a statement writes.
#[derive(Debug)]
pub(crate) struct Output {
    path: String,
    file: Box<dyn NewFile>,
}

impl Output {
    pub(crate) fn create(files: &dyn ServerFiles, path: &str) -> Self {
        Self { path: path.to_owned(), file: files.create(path) }
    }

    /// A file in the place of one that may be there.
    pub(crate) fn replace(files: &dyn ServerFiles, path: &str) -> Self {
        Self { path: path.to_owned(), file: files.replace(path) }
    }

    /// Gives bytes to the host, when it has room for them.
    pub(crate) async fn write(&mut self, kernel: &Kernel, bytes: Vec<u8>) -> Result<(), SqlError> {
        let mut rest = Some(bytes);
        while let Some(bytes) = rest {
            rest = self.file.write(bytes).map_err(|error| told(&self.path, &error))?;
            if rest.is_some() {
                kernel.sleep(LOOK_AGAIN).await?;
            }
        }
        Ok(())
    }

    /// Waits until everything is written.
    pub(crate) async fn finish(mut self, kernel: &Kernel, synced: bool) -> Result<(), SqlError> {
        while !self.file.finish(synced).map_err(|error| told(&self.path, &error))? {
            kernel.sleep(LOOK_AGAIN).await?;
        }
        Ok(())
    }
}

/// Gives a file another name, and waits until that is on the disk.
pub(crate) async fn rename(
    kernel: &Kernel,
    files: &dyn ServerFiles,
    from: &str,
    to: &str,
) -> Result<(), SqlError> {
    let mut renaming = files.rename(from, to);
    while !renaming.is_done().map_err(|error| told(to, &error))? {
        kernel.sleep(LOOK_AGAIN).await?;
    }
    Ok(())
}

/// A file that a statement reads.
#[derive(Debug)]
pub(crate) struct Input {
    path: String,
    file: Box<dyn FileParts>,
}

impl Input {
    pub(crate) fn open(files: &dyn ServerFiles, path: &str) -> Self {
        Self { path: path.to_owned(), file: files.open(path) }
    }

    /// The next bytes; none at the end.
    pub(crate) async fn next(&mut self, kernel: &Kernel) -> Result<Vec<u8>, SqlError> {
        loop {
            match self.file.next().map_err(|error| told(&self.path, &error))? {
                FilePart::Bytes(bytes) => return Ok(bytes),
                FilePart::End => return Ok(Vec::new()),
                FilePart::Later => kernel.sleep(LOOK_AGAIN).await?,
            }
        }
    }
}
