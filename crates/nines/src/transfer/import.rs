//! `nines import`: the records of text files, as rows of a table that is there.
//!
//! One thread reads the files and makes batches of rows; others send each batch as one statement,
//! which is one transaction. What is done is noted beside the first file, so that an import that
//! was ended goes on where it was.
//!
//! # Guarantees
//! A row is imported once, also when the import is ended and resumed: a batch of which nobody knows
//! whether it was committed is written again over what is there, by the primary key. Errors name
//! the file and the line.
//! # Not here
//! Records (`record`), values (`column`), the command line (`command`).

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use mysql_client::{QueryError, Session};

use super::column::{Binary, Column, Table, name};
use super::decode::{Decoder, Encoding};
use super::journal::{Journal, State};
use super::record::{Field, Fields, Form, Reader, Record, Shape};
use super::{Server, is_temporary, shown};

/// Bytes of a statement after which a batch ends.
pub(super) const BATCH_BYTES: usize = 1 << 20;
/// How often a batch is tried that others are in the way of, or that meets a failing node.
pub(super) const ATTEMPTS: u32 = 120;
/// The pause before it is tried again.
pub(super) const PAUSE: Duration = Duration::from_millis(500);
/// Errors that are shown of rows that are left out.
const SHOWN_MAX: usize = 20;
/// The error of a commit that nobody knows whether it took place.
pub(super) const OUTCOME_UNKNOWN: u16 = 1296;

/// What is done with a row whose key is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Duplicate {
    Refuse,
    Ignore,
    Replace,
}

/// What is imported, and how.
#[derive(Clone, Debug)]
pub(super) struct Import {
    pub(super) server: Server,
    pub(super) table: String,
    pub(super) files: Vec<PathBuf>,
    pub(super) shape: Shape,
    pub(super) encoding: Encoding,
    pub(super) binary: Binary,
    /// The first record of each file names its columns.
    pub(super) has_head: bool,
    /// The columns that values are for.
    pub(super) columns: Option<Vec<String>>,
    pub(super) duplicate: Duplicate,
    pub(super) jobs: usize,
    pub(super) batch: usize,
    /// Rows that may be left out because the server refuses them.
    pub(super) errors_max: u64,
    pub(super) resume: bool,
}

/// Rows that are sent at once.
struct Batch {
    file: usize,
    /// Where its first record begins.
    from: u64,
    columns: std::sync::Arc<Vec<String>>,
    /// The line and the values of each.
    rows: Vec<(u64, String)>,
    bytes: usize,
    /// An import that was ended has sent it, and was not answered.
    is_doubtful: bool,
}

/// What the threads share.
struct Work<'a> {
    import: &'a Import,
    table: &'a Table,
    journal: Option<Mutex<Journal>>,
    rows: AtomicU64,
    left_out: Mutex<LeftOut>,
    /// Why it ends before its end.
    failure: Mutex<Option<String>>,
    ends: AtomicBool,
    /// Of some rows nobody knows whether they were committed.
    is_unknown: AtomicBool,
}

#[derive(Default)]
struct LeftOut {
    count: u64,
    shown: Vec<String>,
}

/// What a mutex holds, also behind a thread that has panicked: that thread is told of elsewhere.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Imports; a line that tells how it went.
pub(super) fn run(import: &Import) -> Result<String, String> {
    let began = Instant::now();
    let mut session = import.server.connect()?;
    let table = Table::describe(&mut session, &import.table)?;
    drop(session);
    let is_stdin = import.files.iter().any(|file| file.as_os_str() == "-");
    let journal = match (is_stdin, import.resume) {
        (true, true) => return Err("what comes from standard input cannot be resumed".to_owned()),
        (true, false) => None,
        (false, _) => Some(Mutex::new(journal(import)?)),
    };
    let work = Work {
        import,
        table: &table,
        journal,
        rows: AtomicU64::new(0),
        left_out: Mutex::default(),
        failure: Mutex::default(),
        ends: AtomicBool::new(false),
        is_unknown: AtomicBool::new(false),
    };
    let (sender, receiver) = sync_channel(import.jobs);
    let receiver = Mutex::new(receiver);
    thread::scope(|scope| {
        let (work, receiver) = (&work, &receiver);
        let senders: Vec<_> =
            (0..import.jobs).map(|_| scope.spawn(move || work.send_batches(receiver))).collect();
        if let Err(why) = work.read_files(&sender) {
            work.fail(why);
        }
        drop(sender);
        for sender in senders {
            // A panic is told by its thread; what it was at work on is not done.
            if sender.join().is_err() {
                work.fail("a thread of the import has ended".to_owned());
            }
        }
    });
    let rows = work.rows.load(Ordering::Relaxed);
    let left_out = work.left_out.into_inner().unwrap_or_else(PoisonError::into_inner);
    for why in &left_out.shown {
        eprintln_line(&format!("left out: {why}"));
    }
    let failure = work.failure.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(why) = failure {
        let journal =
            work.journal.map(|it| it.into_inner().unwrap_or_else(PoisonError::into_inner));
        let is_unknown = work.is_unknown.load(Ordering::Relaxed);
        let Some(journal) = journal else {
            return Err(format!("{why} ({rows} rows were imported before)"));
        };
        if rows == 0 && !is_unknown && journal.is_new() {
            journal.remove();
            return Err(format!("{why} (nothing was imported)"));
        }
        return Err(format!(
            "{why} ({rows} rows were imported before; --resume goes on after what is there)"
        ));
    }
    if let Some(journal) = work.journal {
        journal.into_inner().unwrap_or_else(PoisonError::into_inner).remove();
    }
    let skipped = match left_out.count {
        0 => String::new(),
        count => format!(", {count} left out"),
    };
    let seconds = began.elapsed().as_secs_f64();
    Ok(format!("{rows} rows imported into {}{skipped}, in {seconds:.1} s", import.table))
}

/// What an import before has noted, or a new journal.
fn journal(import: &Import) -> Result<Journal, String> {
    let mut what = format!(
        "{} {:?} {:?} {} {:?}",
        import.table, import.shape.form, import.encoding, import.batch, import.has_head
    );
    for file in &import.files {
        let size = std::fs::metadata(file).map_err(|why| format!("{}: {why}", file.display()))?;
        what += &format!(" {}={}", file.display(), size.len());
    }
    let mut beside = import.files[0].clone().into_os_string();
    beside.push(".nines-import");
    Journal::open(Path::new(&beside), &what, import.resume)
}

impl Work<'_> {
    fn fail(&self, why: String) {
        self.ends.store(true, Ordering::Relaxed);
        locked(&self.failure).get_or_insert(why);
    }

    fn ends(&self) -> bool {
        self.ends.load(Ordering::Relaxed)
    }

    /// Reads all files, and hands batches over.
    fn read_files(&self, batches: &SyncSender<Batch>) -> Result<(), String> {
        let mut progress = Progress::new(self.import);
        for (at, path) in self.import.files.iter().enumerate() {
            let shown = path.display().to_string();
            let file: Box<dyn Read> = if path.as_os_str() == "-" {
                Box::new(io::stdin())
            } else {
                Box::new(File::open(path).map_err(|why| format!("{shown}: {why}"))?)
            };
            let decoded = Decoder::new(BufReader::new(file), self.import.encoding);
            let reader = Reader::new(BufReader::new(decoded), self.import.shape.clone());
            let read = self.read_file(at, reader, batches, &mut progress);
            read.map_err(|(line, why)| format!("{shown}, line {line}: {why}"))?;
        }
        progress.end();
        Ok(())
    }

    fn read_file<R: io::BufRead>(
        &self,
        file: usize,
        mut reader: Reader<R>,
        batches: &SyncSender<Batch>,
        progress: &mut Progress,
    ) -> Result<(), (u64, String)> {
        let mut from = 0;
        let mut columns = self.import.columns.clone();
        if self.import.has_head && self.import.shape.form != Form::JsonLines {
            let Some(head) = reader.next()? else { return Ok(()) };
            from = head.end;
            let names = names(&head).map_err(|why| (head.line, why))?;
            columns.get_or_insert(names);
        }
        let mut shape = match (columns, self.import.shape.form) {
            (Some(columns), _) => Some(self.placed(&columns).map_err(|why| (1, why))?),
            (None, Form::JsonLines) => None,
            (None, _) => {
                let all = self.table.columns.iter().filter(|column| !column.is_generated);
                let all: Vec<String> = all.map(|column| column.name.clone()).collect();
                Some(self.placed(&all).map_err(|why| (1, why))?)
            }
        };
        let mut batch: Option<Batch> = None;
        while let Some(record) = reader.next()? {
            if self.ends() {
                return Ok(());
            }
            let (line, end) = (record.line, record.end);
            let at_line = |why: String| (line, why);
            // Each line of JSON may have other members.
            let needed = match &record.fields {
                Fields::Named(members) => {
                    let mut names: Vec<String> =
                        members.iter().map(|(name, _)| name.clone()).collect();
                    names.sort_unstable();
                    match &shape {
                        Some((known, _)) if **known == names => None,
                        _ if self.import.columns.is_some() => None,
                        _ => Some(self.placed(&names).map_err(at_line)?),
                    }
                }
                Fields::Placed(_) => None,
            };
            if let Some(needed) = needed {
                if let Some(batch) = batch.take() {
                    self.hand_over(batch, batches);
                }
                shape = Some(needed);
            }
            let (names, columns) = shape.as_ref().expect("a record has columns");
            let row = self.row(names, columns, record.fields).map_err(at_line)?;
            let current = batch.get_or_insert_with(|| Batch {
                file,
                from,
                columns: names.clone(),
                rows: Vec::new(),
                bytes: 0,
                is_doubtful: false,
            });
            current.bytes += row.len();
            current.rows.push((line, row));
            if current.rows.len() >= self.import.batch || current.bytes >= BATCH_BYTES {
                let batch = batch.take().expect("it was just there");
                self.hand_over(batch, batches);
            }
            from = end;
            progress.tell(file, end, self.rows.load(Ordering::Relaxed));
        }
        if let Some(batch) = batch {
            self.hand_over(batch, batches);
        }
        Ok(())
    }

    /// The columns of these names.
    fn placed(&self, names: &[String]) -> Result<Shaped, String> {
        let mut columns = Vec::new();
        for name in names {
            let column = self.table.column(name).ok_or_else(|| {
                let known: Vec<&str> =
                    self.table.columns.iter().map(|column| column.name.as_str()).collect();
                let (table, known) = (&self.import.table, known.join(", "));
                format!("{table} has no column `{name}`: it has {known}")
            })?;
            if column.is_generated {
                return Err(format!("column {name} is computed: leave it out, see --columns"));
            }
            if columns.contains(column) {
                return Err(format!("column {name} is there twice"));
            }
            columns.push(column.clone());
        }
        Ok((std::sync::Arc::new(names.to_vec()), columns))
    }

    /// The values of a row as SQL has them.
    fn row(&self, names: &[String], columns: &[Column], fields: Fields) -> Result<String, String> {
        let fields: Vec<Option<Field>> = match fields {
            Fields::Placed(fields) if fields.len() == columns.len() => {
                fields.into_iter().map(Some).collect()
            }
            Fields::Placed(fields) => {
                let (found, wanted) = (fields.len(), columns.len());
                return Err(format!("{found} values for {wanted} columns ({})", names.join(", ")));
            }
            Fields::Named(members) => {
                let mut members: BTreeMap<String, Field> = members.into_iter().collect();
                names.iter().map(|name| members.remove(name)).collect()
            }
        };
        let mut row = String::from("(");
        for (at, (column, field)) in columns.iter().zip(&fields).enumerate() {
            if at > 0 {
                row.push(',');
            }
            match field {
                Some(field) => row += &column.literal(field, self.import.binary)?,
                None => row += "DEFAULT",
            }
        }
        row.push(')');
        Ok(row)
    }

    /// Hands a batch to the next thread that is free, unless it is done.
    fn hand_over(&self, mut batch: Batch, batches: &SyncSender<Batch>) {
        if let Some(journal) = &self.journal {
            match locked(journal).state(batch.file, batch.from) {
                State::New => {}
                State::Begun => batch.is_doubtful = true,
                State::Done => return,
            }
        }
        // Nobody takes it when all have ended, which is told elsewhere.
        let _ = batches.send(batch);
    }

    /// Sends batches until there are no more.
    fn send_batches(&self, batches: &Mutex<Receiver<Batch>>) {
        let mut session = None;
        loop {
            let next = locked(batches).recv();
            let Ok(batch) = next else { return };
            // What is read already is thrown away, so that the reader ends.
            if self.ends() {
                continue;
            }
            if let Err(why) = self.send_batch(&mut session, &batch) {
                self.fail(why);
            }
        }
    }

    fn send_batch(&self, session: &mut Option<Session>, batch: &Batch) -> Result<(), String> {
        let note = |done: bool| match &self.journal {
            Some(journal) => locked(journal).note(batch.file, batch.from, done),
            None => Ok(()),
        };
        note(false)?;
        self.send_rows(session, batch, &batch.rows, batch.is_doubtful)?;
        note(true)
    }

    /// Sends rows as one statement; in halves when the server refuses one of them.
    fn send_rows(
        &self,
        session: &mut Option<Session>,
        batch: &Batch,
        rows: &[(u64, String)],
        was_doubtful: bool,
    ) -> Result<(), String> {
        let mut is_doubtful = was_doubtful;
        for attempt in 1.. {
            let result = self.attempt(session, batch, rows, is_doubtful)?;
            let Err(error) = result else {
                self.rows.fetch_add(rows.len() as u64, Ordering::Relaxed);
                return Ok(());
            };
            let is_unknown = error.code().is_none() || error.code() == Some(OUTCOME_UNKNOWN);
            is_doubtful |= is_unknown;
            self.is_unknown.fetch_or(is_unknown, Ordering::Relaxed);
            if error.code().is_none() {
                *session = None;
            }
            if is_unknown || is_temporary(&error) {
                if attempt == ATTEMPTS || self.ends() {
                    return Err(format!("{}: {}", self.shown(batch, rows), shown(&error)));
                }
                thread::sleep(PAUSE);
                continue;
            }
            if rows.len() == 1 {
                return self.leave_out(format!("{}: {}", self.shown(batch, rows), shown(&error)));
            }
            let (first, second) = rows.split_at(rows.len() / 2);
            self.send_rows(session, batch, first, is_doubtful)?;
            return self.send_rows(session, batch, second, is_doubtful);
        }
        unreachable!("attempts have an end")
    }

    /// One try. The inner error is the server's.
    fn attempt(
        &self,
        session: &mut Option<Session>,
        batch: &Batch,
        rows: &[(u64, String)],
        is_doubtful: bool,
    ) -> Result<Result<(), QueryError>, String> {
        let open = match session {
            Some(open) => open,
            None => match self.import.server.connect() {
                Ok(opened) => session.insert(opened),
                Err(why) => {
                    return Ok(Err(QueryError::Lost(io::Error::other(why))));
                }
            },
        };
        let given = |key: &String| batch.columns.iter().any(|name| name.eq_ignore_ascii_case(key));
        let verb = match self.import.duplicate {
            Duplicate::Ignore => "INSERT IGNORE",
            Duplicate::Replace => "REPLACE",
            Duplicate::Refuse if !is_doubtful => "INSERT",
            Duplicate::Refuse if !self.table.key.is_empty() && self.table.key.iter().all(given) => {
                "REPLACE"
            }
            Duplicate::Refuse => {
                return Err(format!(
                    "{}: nobody knows whether these rows were imported, and without values for a \
                     primary key they cannot be told apart: look for them, and import the rest \
                     from a file of its own",
                    self.shown(batch, rows)
                ));
            }
        };
        let columns: Vec<String> = batch.columns.iter().map(|column| name(column)).collect();
        let values: Vec<&str> = rows.iter().map(|(_, row)| row.as_str()).collect();
        let statement = format!(
            "{verb} INTO {} ({}) VALUES {}",
            self.table.quoted(),
            columns.join(", "),
            values.join(",")
        );
        Ok(open.execute(&statement).map(|_| ()))
    }

    /// The file and the lines of rows.
    fn shown(&self, batch: &Batch, rows: &[(u64, String)]) -> String {
        let file = self.import.files[batch.file].display();
        match (rows.first(), rows.last()) {
            (Some((first, _)), Some((last, _))) if first != last => {
                format!("{file}, lines {first} to {last}")
            }
            (Some((line, _)), _) => format!("{file}, line {line}"),
            _ => file.to_string(),
        }
    }

    fn leave_out(&self, why: String) -> Result<(), String> {
        let mut left_out = locked(&self.left_out);
        if left_out.count >= self.import.errors_max {
            return Err(why);
        }
        left_out.count += 1;
        if left_out.shown.len() < SHOWN_MAX {
            left_out.shown.push(why);
        }
        Ok(())
    }
}

/// Names of columns, and the columns.
type Shaped = (std::sync::Arc<Vec<String>>, Vec<Column>);

/// The names that the first record of a file gives.
fn names(head: &Record) -> Result<Vec<String>, String> {
    let Fields::Placed(fields) = &head.fields else { return Ok(Vec::new()) };
    let name = |field: &Field| match field {
        Field::Text(text) if !text.is_empty() => {
            String::from_utf8(text.clone()).map_err(|_| "a name is no UTF-8".to_owned())
        }
        _ => Err("a column has no name: without names in the first line say --no-head".to_owned()),
    };
    fields.iter().map(name).collect()
}

fn eprintln_line(line: &str) {
    // Whoever does not read it does not want to know.
    let _ = writeln!(io::stderr(), "nines: {line}");
}

/// Tells how far it is, where somebody looks.
struct Progress {
    is_shown: bool,
    began: Instant,
    told: Instant,
    /// Bytes of the files before each, and of all; none if that is not known.
    before: Vec<u64>,
    all: Option<u64>,
}

impl Progress {
    fn new(import: &Import) -> Self {
        let size = |file: &PathBuf| std::fs::metadata(file).ok().map(|data| data.len());
        let sizes: Option<Vec<u64>> = import.files.iter().map(size).collect();
        let mut sum = 0;
        let mut before = Vec::new();
        for size in sizes.iter().flatten() {
            before.push(sum);
            sum += size;
        }
        let now = Instant::now();
        let is_utf8 = import.encoding == Encoding::Utf8;
        let all = sizes.filter(|_| is_utf8 && sum > 0).map(|_| sum);
        Self { is_shown: io::stderr().is_terminal(), began: now, told: now, before, all }
    }

    fn tell(&mut self, file: usize, at: u64, rows: u64) {
        if !self.is_shown || self.told.elapsed() < Duration::from_secs(1) {
            return;
        }
        self.told = Instant::now();
        let seconds = self.began.elapsed().as_secs_f64();
        let pace = rows as f64 / seconds;
        let share = self.all.map(|all| (self.before[file] + at) as f64 / all as f64);
        let left = share.filter(|share| *share > 0.0).map(|share| {
            let left = seconds / share - seconds;
            format!(", {:.0} %, {left:.0} s left", share * 100.0)
        });
        let line = format!("\r{rows} rows, {pace:.0} a second{}   ", left.unwrap_or_default());
        let _ = io::stderr().write_all(line.as_bytes());
    }

    fn end(&self) {
        if self.is_shown && self.told > self.began {
            let _ = io::stderr().write_all(b"\n");
        }
    }
}
