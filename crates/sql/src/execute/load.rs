//! LOAD DATA: rows out of a file of the client's, or of the server's.
//!
//! # Owns
//! Splitting a stream of bytes into lines and fields as FIELDS and LINES say.
//! # Guarantees
//! The file is never in memory as a whole: it is read in packets and inserted in batches, in one
//! statement. With LOCAL or IGNORE what does not fit a column is made to fit with a warning, and a
//! row that cannot be stored is left out; otherwise that is an error, in strict mode, and ends the
//! statement.
//! # Not here
//! Which files of the server there are, and who may read them (`files`, `account`).

use std::cell::RefCell;
use std::rc::Rc;

use actor::Mutation;
use client::{ClientOperation, OperationAnswer};
use collation::Charset;
use model::{ErrorCode, Value};
use mysql_wire::constants::capability;
use mysql_wire::{Channel, answer};
use sql_expression::{Binder, Clause, Level, Pauses, Scope, ScopeTable, SqlError};
use sql_parser::ast::{self, LoadColumn, LoadDuplicates};
use sqltype::{Datum, SqlType};
use wire::{Effect, LockMode, Projection, WaitPolicy};

use crate::access::{ReadMode, Reader};
use crate::catalog::column_at;
use crate::catalog::default::implicit_default;
use crate::catalog::option;
use crate::execute::generate::{generate, take};
use crate::execute::insert::BATCH;
use crate::execute::reference;
use crate::execute::reference::batch::Batch;
use crate::execute::reference::children::{Cascade, before_delete};
use crate::execute::row::RowMaker;
use crate::execute::run::Run;
use crate::execute::separators::Separators;
use crate::files::Input;
use crate::insert_id::{InsertId, RowId, StoredIds};
use crate::kernel::Kernel;
use crate::link::Link;
use crate::link::packet::packet_of_file;
use crate::logical::binder::QueryBinder;
use crate::logical::formula::Formula;
use crate::logical::from::definition_columns;
use crate::memory::Held;
use crate::result::{Outcome, ResultWriter};
use crate::rows::Row;
use crate::sequences::Spacing;
use crate::session::Session;
use crate::variables;

/// Bytes of fields that are as much work as a row.
const WORK_BYTES: usize = 1_024;
/// Bytes of a line between two looks at the time.
const LOOK_BYTES: usize = 16 << 10;

/// Where a field goes.
enum Target {
    Column(usize),
    Variable(String),
}

/// Runs LOAD DATA.
pub(crate) async fn load_data(
    session: &mut Session,
    load: &ast::LoadData,
    out: &mut ResultWriter,
) -> Result<Outcome, SqlError> {
    check_allowed(session, load, out)?;
    let charset = charset_of(session, load)?;
    let mut binding = QueryBinder::new(session, &[]);
    let definition = binding.insertable(&load.table, "LOAD")?;
    let lenient = load.local || load.duplicates == Some(LoadDuplicates::Ignore);
    let maker = RowMaker::new(&mut binding, &definition, lenient)?;
    let targets = targets_of(&definition, &load.columns)?;
    let mut scope = Scope::new(None);
    let schema = Some(definition.database.as_str().into());
    let columns = definition_columns(&definition, &definition.name);
    scope.add(ScopeTable { schema, name: definition.name.as_str().into(), columns, offset: 0 });
    let mut binder = Binder::new(&scope, &mut binding);
    let mut assignments = Vec::new();
    for assignment in &load.assignments {
        let at = column_at(&definition, assignment.column.column.as_str())?;
        let value = binder.bind(&assignment.value, Clause::FieldList)?;
        assignments.push((at, Formula::new(value)));
    }
    let mut source = Source::begin(session, load, out)?;
    let mut run = Run::new(session, &[]);
    run.context.strict = !lenient && run.context.facts.sql_mode.is_strict();
    run.session.wrote(definition.table.id);
    let mut loader = Loader {
        maker,
        targets,
        assignments,
        replace: load.duplicates == Some(LoadDuplicates::Replace),
        charset,
        lenient,
        undecoded: Vec::new(),
        batch: Vec::new(),
        counts: Counts::default(),
        ids: StoredIds::default(),
    };
    let mut splitter = Splitter::new(&load.format, load.ignore_lines, &run);
    let mut failed = None;
    loop {
        let part = match source.next(&run.session.kernel).await {
            Ok(part) => part,
            Err(error) => {
                run.finish();
                return Err(error);
            }
        };
        let last = part.is_empty();
        // After an error the rest of the file is read and dropped: the client sends it anyway.
        if failed.is_none() {
            let result = loader.take(&mut run, &mut splitter, &part, last).await;
            failed = result.err();
            if failed.is_none() && run.session.kernel.mutated(Mutation::SqlLoadsInParts) {
                loader.send(&mut run).await?;
                run.session.kernel.commit().await?;
            }
        }
        if last || failed.is_some() && !load.local {
            break;
        }
    }
    let warnings = run.context.warnings.count;
    run.finish();
    if let Some(error) = failed {
        return Err(error);
    }
    let Counts { records, deleted, skipped } = loader.counts;
    let id = InsertId::of_load(loader.ids);
    let info =
        format!("Records: {records}  Deleted: {deleted}  Skipped: {skipped}  Warnings: {warnings}");
    let affected = records - skipped + deleted;
    Ok(Outcome::Done { affected, id, info })
}

/// Where the file is.
enum Source {
    Client { link: Link, channel: Rc<RefCell<Channel>> },
    Server(Input),
}

impl Source {
    /// Asks the client for the file, or the host.
    fn begin(
        session: &Session,
        load: &ast::LoadData,
        out: &mut ResultWriter,
    ) -> Result<Self, SqlError> {
        if !load.local {
            let files = session.shared.admission.server_files()?;
            return Ok(Source::Server(Input::open(&*files, &load.path)));
        }
        let (link, channel) = out.link();
        link.with_output(|bytes| {
            let ask = |bytes: &mut Vec<u8>| answer::local_infile(bytes, load.path.as_bytes());
            channel.borrow_mut().write(bytes, ask);
        });
        Ok(Source::Client { link: link.clone(), channel: channel.clone() })
    }

    /// The next bytes; none at the end.
    async fn next(&mut self, kernel: &Kernel) -> Result<Vec<u8>, SqlError> {
        match self {
            Source::Client { link, channel } => packet_of_file(link, channel).await,
            Source::Server(input) => input.next(kernel).await,
        }
    }
}

/// Whether another row had to go for one that is stored.
fn is_replaced(answer: &OperationAnswer) -> bool {
    matches!(answer, OperationAnswer::Written(Effect::Changed))
}

/// Whether the client offers files and the server takes them.
fn check_allowed(
    session: &Session,
    load: &ast::LoadData,
    out: &ResultWriter,
) -> Result<(), SqlError> {
    if load.xml {
        return Err(SqlError::not_supported("LOAD XML"));
    }
    if !load.local {
        return Ok(());
    }
    let switch = variables::registry::find("local_infile").expect("it is in the table");
    let is_off = variables::session::shown_text(session, switch, true).as_deref() == Some("OFF");
    if is_off || !out.has(capability::LOCAL_FILES) {
        return Err(SqlError::of::<3948>(&[]));
    }
    Ok(())
}

/// The character set of the file: the one that is named, or that of the default database.
fn charset_of(session: &Session, load: &ast::LoadData) -> Result<Charset, SqlError> {
    let around = session.default_database_collation();
    match &load.charset {
        Some(named) => option::named_charset(named, around),
        None => Ok(around.charset()),
    }
}

/// Whether an error is about one row, which LOCAL leaves out.
fn is_of_row(error: &SqlError) -> bool {
    error.code() == 1062 || reference::leaves_out(error)
}

fn targets_of(
    definition: &crate::catalog::TableDefinition,
    columns: &[LoadColumn],
) -> Result<Vec<Target>, SqlError> {
    if columns.is_empty() {
        let visible = definition.columns.iter().enumerate().filter(|(_, column)| !column.invisible);
        return Ok(visible.map(|(at, _)| Target::Column(at)).collect());
    }
    let target = |column: &LoadColumn| match column {
        LoadColumn::Column(name) => column_at(definition, name.column.as_str()).map(Target::Column),
        LoadColumn::Variable(name) => Ok(Target::Variable(name.as_str().to_lowercase())),
    };
    columns.iter().map(target).collect()
}

#[derive(Clone, Copy, Default)]
struct Counts {
    records: u64,
    deleted: u64,
    skipped: u64,
}

struct Loader {
    maker: RowMaker,
    targets: Vec<Target>,
    assignments: Vec<(usize, Formula)>,
    replace: bool,
    /// The character set of the file.
    charset: Charset,
    /// What cannot be stored as it is, is changed or left out, with a warning.
    lenient: bool,
    /// The first bytes of a character whose others are not there yet.
    undecoded: Vec<u8>,
    batch: Vec<Row>,
    counts: Counts,
    /// Those of the rows that are stored.
    ids: StoredIds,
}

/// A row to be stored.
struct New {
    values: Vec<Value>,
    /// What messages show.
    row: Row,
    id: RowId,
}

impl Loader {
    async fn take(
        &mut self,
        run: &mut Run<'_>,
        splitter: &mut Splitter,
        bytes: &[u8],
        last: bool,
    ) -> Result<(), SqlError> {
        self.undecoded.extend_from_slice(bytes);
        let (text, end) = collation::to_utf8_in_parts(self.charset, &self.undecoded, last);
        splitter.feed(&text)?;
        self.undecoded.drain(..end);
        while let Some(fields) = splitter.next(last)? {
            self.counts.records += 1;
            let bytes: usize = fields.iter().flatten().map(Vec::len).sum();
            run.worked(1 + bytes / WORK_BYTES).await?;
            run.context.row_number = self.counts.records;
            let row = self.row(run, fields).await?;
            self.batch.push(row);
            if self.batch.len() >= run.portion(BATCH) {
                self.send(run).await?;
            }
        }
        if last {
            self.send(run).await?;
        }
        Ok(())
    }

    async fn row(&self, run: &mut Run<'_>, fields: Vec<Option<Vec<u8>>>) -> Result<Row, SqlError> {
        let width = self.maker.definition.columns.len();
        let (mut row, mut given) = (vec![Datum::Null; width], vec![false; width]);
        let missing = self.targets.len() > fields.len();
        let text = SqlType::text(u32::MAX);
        // A separator behind the last field begins no other.
        let surplus = match fields.get(self.targets.len()..).unwrap_or_default() {
            [] => false,
            [Some(last)] => !last.is_empty(),
            _ => true,
        };
        let mut fields = fields.into_iter();
        for target in &self.targets {
            let field = fields.next();
            let is_there = field.is_some();
            let datum = field.flatten().map_or(Datum::Null, |bytes| Datum::Bytes(bytes.into()));
            match target {
                Target::Column(_) if !is_there => {}
                Target::Column(at) => {
                    row[*at] = if datum.is_null() {
                        self.null(run, *at)?
                    } else {
                        self.maker.store(run, *at, datum, &text)?
                    };
                    given[*at] = true;
                }
                Target::Variable(name) => {
                    let collation = text.collation;
                    let variable = crate::session::evaluation::user_variable(datum, collation);
                    run.context.user_variables.insert(name.clone(), variable);
                }
            }
        }
        let line = self.counts.records;
        if missing {
            self.complain(run, SqlError::of::<1261>(&[&line]))?;
        }
        if surplus {
            self.complain(run, SqlError::of::<1262>(&[&line]))?;
        }
        for (at, _) in &self.assignments {
            if !std::mem::replace(&mut given[*at], true) {
                row[*at] = self.maker.initial(run, *at, &row).await?;
            }
        }
        self.maker.add_defaults(run, &mut row, &given).await?;
        for (at, formula) in &self.assignments {
            let value = run.unrounded(formula, &row).await?;
            row[*at] = self.maker.store_value(run, *at, value, &formula.expression)?;
        }
        Ok(row)
    }

    /// What a column gets of which the file says that it is NULL.
    fn null(&self, run: &mut Run<'_>, at: usize) -> Result<Datum, SqlError> {
        let column = &self.maker.definition.columns[at];
        if column.nullable || column.auto_increment || column.is_computed() {
            return Ok(Datum::Null);
        }
        let row = run.context.row_number;
        self.complain(run, SqlError::of::<1263>(&[&column.name, &row]))?;
        Ok(implicit_default(&column.sql_type))
    }

    /// What is wrong with a row, and can be put right: a warning, or an error in strict mode.
    fn complain(&self, run: &mut Run<'_>, what: SqlError) -> Result<(), SqlError> {
        if run.context.strict && !self.lenient {
            return Err(what);
        }
        run.context.note(Level::Warning, what);
        Ok(())
    }

    async fn send(&mut self, run: &mut Run<'_>) -> Result<(), SqlError> {
        let mut rows = std::mem::take(&mut self.batch);
        if rows.is_empty() {
            return Ok(());
        }
        let ids = generate(run, &self.maker, &mut rows).await?;
        let definition = self.maker.definition.clone();
        let table = definition.table.id;
        let hidden = match definition.hidden_key {
            Some(_) => take(run, &self.maker, rows.len() as u64, Spacing::default()).await?,
            None => 0,
        };
        let mut complete = Vec::with_capacity(rows.len());
        for (number, mut row) in rows.into_iter().enumerate() {
            self.maker.complete(run, &mut row, true).await?;
            let id = ids.of(number, &row);
            let values = self.maker.moved_kernel_row(run, &mut row, hidden + number as u64);
            complete.push(New { values, row, id });
            run.worked_to_write().await?;
        }
        if !self.maker.links.is_empty() {
            return self.send_one_by_one(run, complete).await;
        }
        let (operations, complete): (Vec<_>, Vec<_>) = complete
            .into_iter()
            .map(|New { values, row, id }| {
                let operation = if self.replace {
                    ClientOperation::upsert(table, values)
                } else {
                    ClientOperation::insert(table, values)
                };
                (operation.of_version(definition.table.version), (row, id))
            })
            .unzip();
        let answers = run.session.kernel.execute(operations).await?;
        for ((row, id), answer) in complete.iter().zip(answers) {
            match answer {
                Ok(answer) => {
                    self.counts.deleted += u64::from(is_replaced(&answer));
                    self.ids.add(*id);
                }
                Err(refusal) => {
                    let index = match refusal.code {
                        ErrorCode::RowExists => None,
                        ErrorCode::UniqueViolation => Some(refusal.detail.as_str()),
                        _ => return Err(crate::error::of_refusal(&refusal)),
                    };
                    let duplicate = self.maker.duplicate(index, row);
                    if !self.lenient {
                        return Err(duplicate);
                    }
                    run.context.note(Level::Warning, duplicate);
                    self.counts.skipped += 1;
                }
            }
        }
        Ok(())
    }

    /// Stores rows that refer to others, or are referred to. All of them at once, when nothing is
    /// in the way of any; otherwise one by one, and those that cannot be stored are left out.
    async fn send_one_by_one(&mut self, run: &mut Run<'_>, rows: Vec<New>) -> Result<(), SqlError> {
        let before = run.session.kernel.savepoint();
        match self.store(run, &rows).await {
            Ok(()) => return Ok(()),
            Err(error) if self.lenient && is_of_row(&error) => {
                run.session.kernel.rollback_to(before).await?
            }
            Err(error) => return Err(error),
        }
        for row in rows.chunks(1) {
            let before = run.session.kernel.savepoint();
            match self.store(run, row).await {
                Ok(()) => {}
                Err(error) if is_of_row(&error) => {
                    run.session.kernel.rollback_to(before).await?;
                    run.context.note(Level::Warning, error);
                    self.counts.skipped += 1;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Stores rows, all or none.
    async fn store(&mut self, run: &mut Run<'_>, rows: &[New]) -> Result<(), SqlError> {
        let definition = self.maker.definition.clone();
        let table = &definition.table;
        let links = self.maker.links.clone();
        if self.replace && links.has_children() {
            let mode = ReadMode::Locking(LockMode::Exclusive, WaitPolicy::Wait);
            let kernel = run.session.kernel.clone();
            let reader = Reader { kernel, table: table.clone(), mode, projection: Projection::All };
            let keys = rows.iter().map(|new| self.maker.primary_key(&new.values)).collect();
            let going: Vec<Vec<Value>> =
                reader.by_primary_key(keys).await?.into_iter().flatten().collect();
            let mut cascade = Cascade::default();
            before_delete(run, &links, &going, &mut cascade).await?;
        }
        let mut batch = Batch::default();
        for New { values, row, .. } in rows {
            let operation = if self.replace {
                ClientOperation::upsert(table.id, values.clone())
            } else {
                ClientOperation::insert(table.id, values.clone())
            };
            batch.push(operation.of_version(table.version), row.clone());
            batch.refer(&self.maker, values, None, &[])?;
        }
        let answers = batch.send(&run.session.kernel, &self.maker, false).await?;
        self.counts.deleted += answers.iter().filter(|answer| is_replaced(answer)).count() as u64;
        rows.iter().for_each(|new| self.ids.add(new.id));
        Ok(())
    }
}

/// Splits bytes into lines and fields.
#[derive(Debug)]
struct Splitter {
    buffer: Vec<u8>,
    at: usize,
    form: Separators,
    /// Bytes with which something begins that is not part of a field as it is.
    special: [bool; 256],
    ignored: u64,
    /// How long the rest must be before it is worth to look for the end of its first line: twice
    /// as long as when there was none, so that a line of any length is read two times at most.
    worth: usize,
    /// What the buffer takes.
    held: Held,
    /// What is called now and then.
    pauses: Pauses,
}

/// A line as far as it is there.
type Line = Option<(Vec<Option<Vec<u8>>>, usize)>;

impl Splitter {
    fn new(format: &ast::FileFormat, ignored: u64, run: &Run<'_>) -> Self {
        let held = run.hold("a line of LOAD DATA");
        Self::with(format, ignored, held, run.session.pauses.clone())
    }

    fn with(format: &ast::FileFormat, ignored: u64, held: Held, pauses: Pauses) -> Self {
        let form = Separators::of(format);
        let Separators { fields_end, enclosed, escaped, lines_end, .. } = &form;
        let mut special = [false; 256];
        let first = [fields_end.first().copied(), lines_end.first().copied()];
        for byte in first.into_iter().chain([*enclosed, *escaped]).flatten() {
            special[usize::from(byte)] = true;
        }
        Self { buffer: Vec::new(), at: 0, form, special, ignored, worth: 0, held, pauses }
    }

    /// Takes the next bytes of the file.
    ///
    /// # Errors
    /// 3170 if a line is too much for memory.
    fn feed(&mut self, bytes: &[u8]) -> Result<(), SqlError> {
        self.buffer.drain(..self.at);
        self.at = 0;
        self.held.set(self.buffer.len() + bytes.len())?;
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    /// The fields of the next line, when all of it is here; NULL for `\N`.
    fn next(&mut self, last: bool) -> Result<Option<Vec<Option<Vec<u8>>>>, SqlError> {
        loop {
            let rest = self.buffer.len() - self.at;
            if rest < self.worth && !last {
                return Ok(None);
            }
            let Some((fields, end)) = self.line(last)? else {
                self.worth = 2 * rest;
                return Ok(None);
            };
            self.worth = 0;
            self.at = end;
            if self.ignored > 0 {
                self.ignored -= 1;
                continue;
            }
            return Ok(Some(fields));
        }
    }

    /// The bytes from a place on that are part of a field as they are, and can be taken before the
    /// next look at the time.
    fn plain(&self, at: usize) -> &[u8] {
        let rest = &self.buffer[at..];
        let rest = &rest[..rest.len().min(LOOK_BYTES)];
        let end = rest.iter().position(|byte| self.special[usize::from(*byte)]);
        &rest[..end.unwrap_or(rest.len())]
    }

    fn line(&self, last: bool) -> Result<Line, SqlError> {
        let bytes = &self.buffer;
        let mut at = self.at;
        if at >= bytes.len() {
            return Ok(None);
        }
        if !self.form.lines_start.is_empty() {
            let Some(start) = find(&bytes[at..], &self.form.lines_start) else {
                return Ok(None);
            };
            at += start + self.form.lines_start.len();
        }
        let mut fields = Vec::new();
        let mut looked = at;
        loop {
            if at - looked >= LOOK_BYTES {
                looked = at;
                self.pauses.look()?;
            }
            let Some((field, next)) = self.field(at, last)? else { return Ok(None) };
            fields.push(field);
            at = next;
            let rest = &bytes[at..];
            let ends = |end: &[u8]| !end.is_empty() && rest.starts_with(end);
            // The end of a line may begin like that of a field: `|` and `|\n`. Alike, there is one
            // line. An end that is cut in two needs no care: without the rest no line comes out.
            if ends(&self.form.lines_end) && self.form.lines_end != self.form.fields_end {
                return Ok(Some((fields, at + self.form.lines_end.len())));
            } else if ends(&self.form.fields_end) {
                at += self.form.fields_end.len();
            } else if rest.is_empty() {
                return Ok(last.then_some((fields, at)));
            } else {
                // Bytes between a closing quote and the end of the field.
                at += 1;
            }
        }
    }

    /// A field and where it ends; none when more bytes are needed.
    fn field(&self, start: usize, last: bool) -> Result<Option<Field>, SqlError> {
        let bytes = &self.buffer;
        let (mut value, mut at) = (Vec::new(), start);
        let quoted = self.form.enclosed.filter(|quote| bytes.get(at) == Some(quote));
        at += usize::from(quoted.is_some());
        let mut is_null = false;
        let mut looked = at;
        loop {
            if at - looked >= LOOK_BYTES {
                looked = at;
                self.pauses.look()?;
            }
            let plain = self.plain(at);
            if !plain.is_empty() {
                value.extend_from_slice(plain);
                at += plain.len();
                continue;
            }
            let Some(byte) = bytes.get(at).copied() else {
                // A field that is never closed was not enclosed: its first byte is part of it.
                value.splice(0..0, quoted);
                return Ok(last.then_some((Some(value), at)));
            };
            if Some(byte) == self.form.escaped && self.form.escaped != self.form.enclosed {
                let next = match bytes.get(at + 1) {
                    Some(next) => *next,
                    None if last => return Ok(Some((Some(value), at + 1))),
                    None => return Ok(None),
                };
                is_null |= next == b'N' && at == start;
                value.push(match next {
                    b'0' => 0,
                    b'b' => 8,
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'Z' => 26,
                    other => other,
                });
                at += 2;
                continue;
            }
            if let Some(quote) = quoted {
                if byte == quote {
                    match bytes.get(at + 1) {
                        Some(next) if *next == quote => {
                            value.push(quote);
                            at += 2;
                            continue;
                        }
                        None if !last => return Ok(None),
                        _ => return Ok(Some((Some(value), at + 1))),
                    }
                }
            } else {
                let rest = &bytes[at..];
                let ends = |end: &[u8]| !end.is_empty() && rest.starts_with(end);
                if ends(&self.form.fields_end) || ends(&self.form.lines_end) {
                    let null = is_null && value == b"N";
                    return Ok(Some((if null { None } else { Some(value) }, at)));
                }
                // An end may be cut in two by the packet.
                let longest = self.form.fields_end.len().max(self.form.lines_end.len());
                let cut = rest.len() < longest && !last;
                let begins = |end: &[u8]| end.starts_with(rest) && end.len() > rest.len();
                if cut && (begins(&self.form.fields_end) || begins(&self.form.lines_end)) {
                    return Ok(None);
                }
            }
            value.push(byte);
            at += 1;
        }
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

/// A field as it is, none for NULL, and where the next one begins.
type Field = (Option<Vec<u8>>, usize);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Account, QueryMemory};

    fn all(format: &ast::FileFormat, text: &[u8], chunk: usize) -> Vec<Vec<Option<String>>> {
        let held = Account::new(&QueryMemory::default()).hold("a line");
        let mut splitter = Splitter::with(format, 0, held, Pauses::default());
        let mut lines = Vec::new();
        let mut collect = |splitter: &mut Splitter, last| {
            while let Some(fields) = splitter.next(last).unwrap() {
                let text = |field: Vec<u8>| String::from_utf8(field).unwrap();
                lines.push(fields.into_iter().map(|field| field.map(text)).collect());
            }
        };
        for part in text.chunks(chunk) {
            splitter.feed(part).unwrap();
            collect(&mut splitter, false);
        }
        splitter.feed(b"").unwrap();
        collect(&mut splitter, true);
        lines
    }

    #[test]
    fn fields_come_out_however_the_file_is_cut() {
        let csv = ast::FileFormat {
            fields_terminated: Some(b",".as_slice().into()),
            fields_enclosed: Some(b"\"".as_slice().into()),
            lines_terminated: Some(b"\r\n".as_slice().into()),
            ..ast::FileFormat::default()
        };
        let text = b"1,\"a, \"\"b\"\"\",\\N\r\n2,x\\ty,\r\n3,,last";
        let whole = all(&csv, text, text.len());
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(whole[0], [some("1"), some("a, \"b\""), None]);
        assert_eq!(whole[1], [some("2"), some("x\ty"), some("")]);
        assert_eq!(whole[2], [some("3"), some(""), some("last")]);
        for chunk in 1..text.len() {
            assert_eq!(all(&csv, text, chunk), whole, "chunks of {chunk}");
        }
        let open = all(&csv, b"1,\"a\r\n2,b\r\n", 4);
        assert_eq!(open, [[some("1"), some("\"a\r\n2,b\r\n")]], "an enclosed field without end");
        let plain = all(&ast::FileFormat::default(), b"a\tb\n\\N\tN\n", 3);
        assert_eq!(plain, [[some("a"), some("b")], [None, some("N")]]);
    }

    /// Bytes that the splitter looks at again and again would make a long line quadratic.
    #[test]
    fn a_line_of_any_length_is_read_a_few_times() {
        use std::cell::Cell;
        use std::rc::Rc;
        let looks_for = |length: usize| {
            let looks = Rc::new(Cell::new(0_u64));
            let counted = looks.clone();
            let pauses = Pauses::new(Rc::new(move || {
                counted.set(counted.get() + 1);
                Ok(())
            }));
            let held = Account::new(&QueryMemory::default()).hold("a line");
            let format = ast::FileFormat::default();
            let mut splitter = Splitter::with(&format, 0, held, pauses);
            let line = vec![b'a'; length];
            for part in line.chunks(16 << 10) {
                splitter.feed(part).unwrap();
                assert_eq!(splitter.next(false).unwrap(), None);
            }
            splitter.feed(b"").unwrap();
            assert_eq!(splitter.next(true).unwrap(), Some(vec![Some(line)]));
            looks.get()
        };
        let (short, long) = (looks_for(1 << 20), looks_for(4 << 20));
        assert!(short > 0 && long <= 5 * short, "{short} looks for 1 MB, {long} for 4 MB");
    }

    /// How files of TPC-H are read: each field has a separator after it, the last one too.
    #[test]
    fn a_line_ends_where_its_end_begins_like_that_of_a_field() {
        let ends = |fields: &[u8], lines: &[u8]| ast::FileFormat {
            fields_terminated: Some(fields.into()),
            fields_enclosed: Some(b"'".as_slice().into()),
            lines_terminated: Some(lines.into()),
            ..ast::FileFormat::default()
        };
        let some = |text: &str| Some(text.to_owned());
        let text = b"1|a|\n2|'b|'|\n3||\n";
        let expected = [[some("1"), some("a")], [some("2"), some("b|")], [some("3"), some("")]];
        for chunk in 1..=text.len() {
            assert_eq!(all(&ends(b"|", b"|\n"), text, chunk), expected, "chunks of {chunk}");
        }
        let alike = all(&ends(b"|", b"|"), b"1|2|3", 2);
        assert_eq!(alike, [[some("1"), some("2"), some("3")]]);
    }
}
