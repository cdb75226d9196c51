//! `nines inspect`: what is in the files of a data directory, and whether it is sound.
//!
//! # Owns
//! Which files are looked at, the lines about them, the verdict.
//! # Guarantees
//! Nothing is changed, and nothing is locked: a directory in use shows what is on disk so far. What
//! a crash leaves (a torn end of the log, a file that was not finished) is told and is no fault;
//! what a disk must not do to synced bytes is one.
//! # Not here
//! The formats: `ondisk`, `control::journal`.

mod worker;

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use control::journal;
use ondisk::{IDENTITY_FILE, Identity, WATERMARK_FILE, Watermarks};

use worker::WorkerFiles;

/// The options of `nines inspect`.
#[derive(Clone, Debug)]
pub(crate) struct InspectOptions {
    /// Files and directories.
    pub(crate) paths: Vec<PathBuf>,
    /// Show every record, slot and entry.
    pub(crate) all: bool,
}

/// Looks at files and tells what is in them; an error when something is broken.
pub(crate) fn run(options: &InspectOptions, out: &mut dyn Write) -> Result<(), String> {
    let mut inspection = Inspection { out, all: options.all, files: 0, broken: 0, closed: false };
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
            let bytes = fs::read(path).map_err(|error| refused(path, &error))?;
            self.files += 1;
            match Identity::decode(&bytes) {
                Ok(identity) => self.line(path, &identity.to_string()),
                Err(damage) => self.broken(path, &damage.to_string()),
            }
        } else if name == WATERMARK_FILE {
            self.watermark(path)?;
        } else if journal::number(name).is_some() {
            let bytes = fs::read(path).map_err(|error| refused(path, &error))?;
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
        let bytes = fs::read(path).map_err(|error| refused(path, &error))?;
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
fn read_pieces(path: &Path, mut take: impl FnMut(&[u8]) -> bool) -> Result<(), String> {
    let mut read = || -> io::Result<()> {
        let mut file = File::open(path)?;
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
