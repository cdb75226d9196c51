//! `nines export`: the rows of a table, as records of text files.
//!
//! A table with a primary key of one integer is cut into ranges of it, each a file of its own,
//! which several connections read at a time.
//!
//! # Guarantees
//! A file has its name when it is whole. The rows of a file are of one moment; all rows are of one
//! moment if there is one file.
//! # Failure
//! A file that meets a failing node is written again. One that has its name stays: so an export
//! that was ended goes on where it was.
//! # Not here
//! Records (`record`), values (`column`), the command line (`command`).

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use mysql_client::{QueryError, Session};

use super::column::{Binary, Column, Kind, Table, name};
use super::record::{self, Form, Shape, Shown};
use super::{Server, is_temporary, shown};

/// How often a file is written.
const ATTEMPTS: u32 = 10;
/// The pause before it is written again.
const PAUSE: Duration = Duration::from_secs(1);
/// Bytes that are written at once.
const PORTION: usize = 256 << 10;
/// The plan of an export, in its directory.
const PLAN: &str = "export.json";

/// What is exported, and how.
#[derive(Clone, Debug)]
pub(super) struct Export {
    pub(super) server: Server,
    pub(super) table: String,
    /// A directory; none for standard output.
    pub(super) into: Option<PathBuf>,
    pub(super) shape: Shape,
    pub(super) binary: Binary,
    pub(super) has_head: bool,
    pub(super) columns: Option<Vec<String>>,
    /// A condition of SQL.
    pub(super) condition: Option<String>,
    pub(super) jobs: usize,
    /// Files, where the primary key can be cut.
    pub(super) files: usize,
    pub(super) resume: bool,
}

/// Exports; a line that tells how it went.
pub(super) fn run(export: &Export) -> Result<String, String> {
    let began = Instant::now();
    let mut session = export.server.connect()?;
    let table = Table::describe(&mut session, &export.table)?;
    let columns = columns(export, &table)?;
    let work = Work { export, table: &table, columns: &columns, rows: AtomicU64::new(0) };
    let Some(directory) = &export.into else {
        let mut out = io::BufWriter::new(io::stdout().lock());
        work.write(&mut session, None, &mut out).map_err(|why| why.to_string())?;
        out.flush().map_err(|why| format!("standard output: {why}"))?;
        return Ok(String::new());
    };
    let ranges = work.planned(&mut session, directory)?;
    drop(session);
    let (next, failure) = (AtomicUsize::new(0), Mutex::new(None));
    thread::scope(|scope| {
        for _ in 0..export.jobs.min(ranges.len()) {
            let (work, ranges, next, failure) = (&work, &ranges, &next, &failure);
            scope.spawn(move || {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(range) = ranges.get(at) else { return };
                    if let Err(why) = work.file(directory, at, range.as_deref()) {
                        // Nobody begins another one.
                        next.store(ranges.len(), Ordering::Relaxed);
                        failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
                        return;
                    }
                }
            });
        }
    });
    if let Some(why) = failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(format!("{why} (--resume goes on after the files that are whole)"));
    }
    let plan = directory.join(PLAN);
    fs::remove_file(&plan).map_err(|why| format!("{}: {why}", plan.display()))?;
    let (rows, files) = (work.rows.load(Ordering::Relaxed), ranges.len());
    let seconds = began.elapsed().as_secs_f64();
    Ok(format!(
        "{rows} rows of {} exported into {files} files in {}, in {seconds:.1} s",
        export.table,
        directory.display()
    ))
}

/// The columns that are exported, in their order.
fn columns(export: &Export, table: &Table) -> Result<Vec<Column>, String> {
    let Some(names) = &export.columns else {
        // What is computed is computed again.
        return Ok(table.columns.iter().filter(|column| !column.is_generated).cloned().collect());
    };
    let find = |name: &String| {
        let column = table.column(name).cloned();
        column.ok_or_else(|| format!("{} has no column `{name}`", export.table))
    };
    names.iter().map(find).collect()
}

struct Work<'a> {
    export: &'a Export,
    table: &'a Table,
    columns: &'a [Column],
    rows: AtomicU64,
}

/// Why a file is not written.
enum NotWritten {
    Server(QueryError),
    File(io::Error),
}

impl std::fmt::Display for NotWritten {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Server(why) => f.write_str(&shown(why)),
            Self::File(why) => why.fmt(f),
        }
    }
}

impl From<QueryError> for NotWritten {
    fn from(why: QueryError) -> Self {
        Self::Server(why)
    }
}

impl Work<'_> {
    /// The condition of each file, as the plan has it that is there, or as the keys are now.
    fn planned(
        &self,
        session: &mut Session,
        directory: &Path,
    ) -> Result<Vec<Option<String>>, String> {
        let said = |path: &Path, why: io::Error| format!("{}: {why}", path.display());
        let path = directory.join(PLAN);
        let what = format!(
            "{} {:?} {:?} {:?} {:?}",
            self.export.table,
            self.export.shape.form,
            self.export.binary,
            self.export.columns,
            self.export.condition
        );
        if self.export.resume {
            let text = fs::read(&path).map_err(|why| said(&path, why))?;
            let plan: (String, Vec<Option<String>>) = serde_json::from_slice(&text)
                .map_err(|why| format!("{}: {why}", path.display()))?;
            return if plan.0 == what {
                Ok(plan.1)
            } else {
                Err(format!(
                    "{} is of another export (`{}`): give the same table and options",
                    path.display(),
                    plan.0
                ))
            };
        }
        fs::create_dir_all(directory).map_err(|why| said(directory, why))?;
        let mut there = fs::read_dir(directory).map_err(|why| said(directory, why))?;
        if there.next().is_some() {
            return Err(format!(
                "{} is not empty: choose another directory, or say --resume",
                directory.display()
            ));
        }
        let ranges = self.ranges(session)?;
        let text = serde_json::to_vec(&(&what, &ranges)).map_err(|why| why.to_string())?;
        fs::write(&path, text).map_err(|why| said(&path, why))?;
        Ok(ranges)
    }

    /// Cuts the primary key, if it is one integer.
    fn ranges(&self, session: &mut Session) -> Result<Vec<Option<String>>, String> {
        let whole = vec![None];
        let [key] = &self.table.key[..] else { return Ok(whole) };
        let is_number = self.table.column(key).is_some_and(|column| column.kind == Kind::Number);
        if !is_number || self.export.files <= 1 {
            return Ok(whole);
        }
        let key = name(key);
        let rows = session
            .query(&format!("SELECT MIN({key}), MAX({key}) FROM {}", self.table.quoted()))
            .map_err(|why| why.to_string())?;
        let bound = |at: usize| rows.first()?.get(at)?.as_ref()?.parse::<i128>().ok();
        // An empty table, or a key with a point.
        let (Some(least), Some(most)) = (bound(0), bound(1)) else { return Ok(whole) };
        let files = (most - least + 1).min(self.export.files as i128);
        let cut = |at: i128| least + (most - least + 1) * at / files;
        // Who is below the first or above the last by then is in them too.
        let range = |at: i128| match (at, at == files - 1) {
            (0, true) => None,
            (0, false) => Some(format!("{key} < {}", cut(1))),
            (_, true) => Some(format!("{key} >= {}", cut(at))),
            (_, false) => Some(format!("{key} >= {} AND {key} < {}", cut(at), cut(at + 1))),
        };
        Ok((0..files).map(range).collect())
    }

    /// Writes a file, unless it is there.
    fn file(&self, directory: &Path, at: usize, range: Option<&str>) -> Result<(), String> {
        let ending = match self.export.shape.form {
            Form::Csv => "csv",
            Form::Tsv => "tsv",
            Form::JsonLines => "jsonl",
        };
        // A name of SQL may have bytes in it that a name of a file may not.
        let stem: String = self.export.table.replace(['/', '\0'], "_");
        let path = directory.join(format!("{stem}.{:05}.{ending}", at + 1));
        if path.exists() {
            return Ok(());
        }
        let aside = directory.join(format!("{stem}.{:05}.{ending}.part", at + 1));
        let shown = path.display();
        for attempt in 1.. {
            match self.try_file(&aside, range) {
                Ok(rows) => {
                    fs::rename(&aside, &path).map_err(|why| format!("{shown}: {why}"))?;
                    self.rows.fetch_add(rows, Ordering::Relaxed);
                    return Ok(());
                }
                Err(NotWritten::Server(why))
                    if attempt < ATTEMPTS && (why.code().is_none() || is_temporary(&why)) =>
                {
                    thread::sleep(PAUSE);
                }
                Err(why) => return Err(format!("{shown}: {why}")),
            }
        }
        unreachable!("attempts have an end")
    }

    fn try_file(&self, path: &Path, range: Option<&str>) -> Result<u64, NotWritten> {
        let connected = self.export.server.connect();
        let mut session =
            connected.map_err(|why| NotWritten::Server(QueryError::Lost(io::Error::other(why))))?;
        let mut file = File::create(path).map_err(NotWritten::File)?;
        let rows = self.write(&mut session, range, &mut file)?;
        file.sync_all().map_err(NotWritten::File)?;
        Ok(rows)
    }

    /// Writes the rows of a range; how many.
    fn write(
        &self,
        session: &mut Session,
        range: Option<&str>,
        out: &mut impl Write,
    ) -> Result<u64, NotWritten> {
        let shape = &self.export.shape;
        let shown: Vec<String> =
            self.columns.iter().map(|column| column.shown(self.export.binary)).collect();
        let condition = self.export.condition.as_ref().map(|condition| format!("({condition})"));
        let conditions: Vec<String> =
            range.map(str::to_owned).into_iter().chain(condition).collect();
        let filter = if conditions.is_empty() {
            String::new()
        } else {
            format!(" WHERE {}", conditions.join(" AND "))
        };
        let statement = format!("SELECT {} FROM {}{filter}", shown.join(", "), self.table.quoted());
        let columns: Vec<(&str, Shown)> =
            self.columns.iter().map(|column| (column.name.as_str(), column.in_json())).collect();
        let mut portion = Vec::new();
        if self.export.has_head {
            let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
            record::write_head(shape, &names, &mut portion);
        }
        session.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")?;
        let (mut rows, mut unwritten) = (0, None);
        let asked = session.each_row(&statement, |row| {
            let values: Vec<Option<&str>> = row.iter().map(Option::as_deref).collect();
            record::write(shape, &columns, &values, &mut portion);
            rows += 1;
            if portion.len() >= PORTION {
                let written = out.write_all(&portion);
                portion.clear();
                return written.map_err(|why| {
                    unwritten = Some(why);
                    io::ErrorKind::Other.into()
                });
            }
            Ok(())
        });
        if let Some(why) = unwritten {
            return Err(NotWritten::File(why));
        }
        asked?;
        out.write_all(&portion).map_err(NotWritten::File)?;
        session.execute("COMMIT")?;
        Ok(rows)
    }
}
