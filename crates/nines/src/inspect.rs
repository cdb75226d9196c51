//! `nines inspect`: what is in the files of a data directory, and whether it is sound.
//!
//! # Owns
//! Which files are looked at, the lines about them, which of them are encrypted, the verdict.
//! # Guarantees
//! Nothing is changed, and nothing is locked: a directory in use shows what is on disk so far. What
//! a crash leaves (a torn end of the log, a file that was not finished) is told and is no fault;
//! what a disk must not do to synced bytes is one.
//! # Not here
//! The formats: `ondisk`, `control::journal`.

mod worker;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use control::journal;
use ondisk::{IDENTITY_FILE, Identity, WATERMARK_FILE, Watermarks};
use runtime::{FileReader, KeyRing, MasterKeys, data_key_of, describe_keys};

use crate::encryption::KeyOptions;
use worker::WorkerFiles;

/// The options of `nines inspect`.
#[derive(Clone, Debug)]
pub(crate) struct InspectOptions {
    /// Files and directories.
    pub(crate) paths: Vec<PathBuf>,
    /// Show every record, slot and entry.
    pub(crate) all: bool,
    /// Where the master key of encrypted directories comes from.
    pub(crate) keys: KeyOptions,
}

/// Looks at files and tells what is in them; an error when something is broken.
pub(crate) fn run(options: &InspectOptions, out: &mut dyn Write) -> Result<(), String> {
    let source = options.keys.source()?;
    let mut inspection = Inspection {
        out,
        all: options.all,
        files: 0,
        broken: 0,
        closed: false,
        master: source.as_ref().map(runtime::KeySource::read).transpose()?,
        rings: BTreeMap::new(),
    };
    for path in &options.paths {
        inspection.path(path, true)?;
    }
    let Inspection { files, broken, .. } = inspection;
    match broken {
        0 => Ok(()),
        _ => Err(format!("{broken} of {files} files are broken")),
    }
}

/// An inspection under way.
struct Inspection<'a> {
    out: &'a mut dyn Write,
    all: bool,
    files: u64,
    broken: u64,
    /// Nobody reads on.
    closed: bool,
    master: Option<MasterKeys>,
    /// The keys of directories that have some, or that have none.
    rings: BTreeMap<PathBuf, Option<Rc<KeyRing>>>,
}

impl Inspection<'_> {
    /// Looks at a file, or at all below a directory.
    fn path(&mut self, path: &Path, asked_for: bool) -> Result<(), String> {
        let about = fs::metadata(path).map_err(|error| refused(path, &error))?;
        if !about.is_dir() {
            return self.file(path, asked_for);
        }
        let mut below = Vec::new();
        for entry in fs::read_dir(path).map_err(|error| refused(path, &error))? {
            below.push(entry.map_err(|error| refused(path, &error))?.path());
        }
        below.sort();
        let mut worker = WorkerFiles::default();
        for path in below {
            if path.is_dir() {
                self.path(&path, false)?;
            } else if !self.worker_file(&path, &mut worker)? {
                self.file(&path, false)?;
            }
        }
        let gaps = worker.gaps();
        for (path, why) in gaps {
            self.broken(&path, &why);
        }
        Ok(())
    }

    /// Looks at a file, by its name.
    fn file(&mut self, path: &Path, asked_for: bool) -> Result<(), String> {
        if self.worker_file(path, &mut WorkerFiles::default())? {
            return Ok(());
        }
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let in_control = path.parent().is_some_and(|parent| parent.ends_with(journal::DIRECTORY));
        if name == IDENTITY_FILE {
            let bytes = self.whole(path)?;
            self.files += 1;
            match Identity::decode(&bytes) {
                Ok(identity) => self.line(path, &identity.to_string()),
                Err(damage) => self.broken(path, &damage.to_string()),
            }
        } else if name == WATERMARK_FILE {
            self.watermark(path)?;
        } else if let Some(described) = describe_keys(path) {
            self.files += 1;
            match described {
                Ok(what) => self.line(path, &what),
                Err(why) => self.broken(path, &why),
            }
        } else if journal::number(name).is_some() {
            let bytes = self.whole(path)?;
            self.files += 1;
            self.control_log(path, &bytes);
        } else if name.ends_with(".new") || in_control {
            self.line(path, "not finished, and ignored by a restart");
        } else if asked_for {
            return Err(format!("{} is no file that holds data of Nines", path.display()));
        }
        Ok(())
    }

    /// The file that says which epoch was durable.
    fn watermark(&mut self, path: &Path) -> Result<(), String> {
        let bytes = self.whole(path)?;
        self.files += 1;
        let Watermarks { newest, damage } = Watermarks::read(&bytes);
        match (newest, damage) {
            (Some(newest), None) => self.line(path, &newest.to_string()),
            (Some(newest), Some(damage)) => {
                self.line(path, &format!("{newest}; one of two slots is not sound: {damage}"));
            }
            (None, damage) => {
                let what = damage.map(|damage| damage.to_string()).unwrap_or_default();
                self.broken(path, &what);
            }
        }
        Ok(())
    }

    fn control_log(&mut self, path: &Path, bytes: &[u8]) {
        let mut end = 0;
        for (offset, records) in journal::frames(bytes) {
            end = offset;
            if self.all {
                for record in records {
                    self.detail(offset as u64, &format!("{record:?}"));
                }
            }
        }
        match journal::read(bytes) {
            Ok(stored) => {
                let journal::Stored { cluster, voter, last, term, entries, .. } = stored;
                let summary = format!(
                    "control log of {cluster}, voter {voter}, term {term}: state at {}, {} entries \
                     after it, last frame at {end}",
                    last.index,
                    entries.len()
                );
                self.line(path, &summary);
            }
            Err(error) => self.broken(path, &error.to_string()),
        }
    }

    /// The keys of the node's directory that a file is in, if it has some.
    fn ring(&mut self, path: &Path) -> Result<Option<Rc<KeyRing>>, String> {
        // A file of a node is in its directory, or in one below that.
        for directory in path.ancestors().skip(1).take(2) {
            if !self.rings.contains_key(directory) {
                let ring = KeyRing::open_to_read(directory, self.master.as_ref())?;
                self.rings.insert(directory.to_path_buf(), ring.map(Rc::new));
            }
            if let Some(Some(ring)) = self.rings.get(directory) {
                return Ok(Some(ring.clone()));
            }
        }
        Ok(None)
    }

    /// Opens a file, encrypted or not, and says which if its directory has keys.
    fn open(&mut self, path: &Path) -> Result<FileReader, String> {
        let ring = self.ring(path)?;
        let mut beginning = Vec::new();
        let file = File::open(path).and_then(|file| file.take(4_096).read_to_end(&mut beginning));
        file.map_err(|error| refused(path, &error))?;
        match (&ring, data_key_of(&beginning)) {
            (None, Some(_)) => {
                return Err(format!(
                    "{} is encrypted, and its directory has no file `keys`",
                    path.display()
                ));
            }
            (Some(_), Some(key)) => self.line(path, &format!("encrypted with data key {key}")),
            (Some(_), None) if !beginning.is_empty() => self.line(path, "not encrypted"),
            _ => {}
        }
        FileReader::open(path, ring.as_deref()).map_err(|error| refused(path, &error))
    }

    /// All that a file holds.
    fn whole(&mut self, path: &Path) -> Result<Vec<u8>, String> {
        let mut bytes = Vec::new();
        let read = self.open(path)?.read_to_end(&mut bytes);
        read.map_err(|error| refused(path, &error))?;
        Ok(bytes)
    }

    /// Says what a file is.
    fn line(&mut self, path: &Path, what: &str) {
        self.write(format_args!("{}: {what}\n", path.display()));
    }

    /// Says what is wrong with a file.
    fn broken(&mut self, path: &Path, what: &str) {
        self.broken += 1;
        self.write(format_args!("{}: BROKEN: {what}\n", path.display()));
    }

    /// Shows a part of a file.
    fn detail(&mut self, offset: u64, what: &str) {
        self.write(format_args!("  {offset}: {what}\n"));
    }

    fn write(&mut self, text: std::fmt::Arguments<'_>) {
        // Who has seen enough closes the pipe; the verdict is still asked for.
        self.closed |= !self.closed && self.out.write_fmt(text).is_err();
    }
}

/// Reads a file piece by piece; ends early when `take` has had enough.
fn read_pieces(
    path: &Path,
    mut file: FileReader,
    mut take: impl FnMut(&[u8]) -> bool,
) -> Result<(), String> {
    let mut read = || -> io::Result<()> {
        let mut piece = vec![0; PIECE];
        loop {
            let count = file.read(&mut piece)?;
            if count == 0 || !take(&piece[..count]) {
                return Ok(());
            }
        }
    };
    read().map_err(|error| refused(path, &error))
}

fn refused(path: &Path, error: &io::Error) -> String {
    format!("cannot read {}: {error}", path.display())
}

/// Bytes that are read at a time.
const PIECE: usize = 1 << 20;

#[cfg(test)]
mod tests;
