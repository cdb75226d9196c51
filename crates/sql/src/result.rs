//! What a statement answers: rows as packets, or counts.
//!
//! # Owns
//! [`ResultWriter`], which encodes rows in the text or the binary protocol straight into the
//! connection's output; [`ResultColumn`], a column as clients see it; [`Outcome`].
//! # Guarantees
//! A value is encoded once. Nothing is written before the first row or the end of rows is known to
//! come, so a statement that fails early is answered with its error alone.
//! # Not here
//! Back-pressure beyond asking for it ([`ResultWriter::drain`]), what becomes of rows that a client
//! fetches (`cursor`).

pub(crate) mod cursor;

use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;

use collation::{Charset, CollationId};
use mysql_wire::constants::{column, flag};
use mysql_wire::{Channel, answer};
use sql_expression::Pauses;
use sqltype::{Datum, SqlType, TypeKind, format};

use crate::insert_id::InsertId;
use crate::link::Link;
use crate::result::cursor::CursorRows;

/// How a statement ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The writer has got columns and rows.
    Rows,
    /// No rows.
    Done {
        /// Rows affected.
        affected: u64,
        /// What it tells of the ids of its rows.
        id: InsertId,
        /// A line for people: `Rows matched: 1  Changed: 1  Warnings: 0`.
        info: String,
    },
}

impl Default for Outcome {
    fn default() -> Self {
        Self::affected(0)
    }
}

impl Outcome {
    /// So many rows, and nothing else to say.
    pub(crate) fn affected(affected: u64) -> Self {
        Self::with_info(affected, String::new())
    }

    /// So many rows, and a line for people.
    pub(crate) fn with_info(affected: u64, info: String) -> Self {
        Self::Done { affected, id: InsertId::default(), info }
    }
}

/// A column of a result.
#[derive(Clone, Debug)]
pub(crate) struct ResultColumn {
    /// The database of its table; empty for expressions.
    pub database: String,
    /// Its table's alias.
    pub table: String,
    /// Its table.
    pub org_table: String,
    /// The name it is shown under.
    pub name: String,
    /// Its name in the table.
    pub org_name: String,
    /// Its type.
    pub sql_type: SqlType,
    /// `constants::flag`s of its place in keys and the like.
    pub flags: u16,
}

impl ResultColumn {
    /// A column that belongs to no table.
    pub(crate) fn new(name: &str, sql_type: SqlType) -> Self {
        Self {
            database: String::new(),
            table: String::new(),
            org_table: String::new(),
            name: name.to_owned(),
            org_name: String::new(),
            sql_type,
            flags: 0,
        }
    }
}

/// Whether rows are texts or binary values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// COM_QUERY.
    Text,
    /// COM_STMT_EXECUTE.
    Binary,
}

/// A value of a row that is written.
pub(crate) enum Given<'r> {
    /// A text as the client gets it.
    Text(&'r [u8]),
    /// Any value.
    Datum(Cow<'r, Datum>),
}

/// About what a packet of a row has beside its values.
const ROW_BYTES: usize = 8;
/// Room that is made for rows at most: the client takes some of them before there are more.
const ROOM_MAX: usize = 64 << 10;

/// Bytes of a row that take long to write.
const LARGE: usize = 1 << 20;

/// The columns of a result that is sent again and again, and their packets as they were sent last.
#[derive(Debug)]
pub(crate) struct KeptColumns {
    columns: Vec<ResultColumn>,
    types: Rc<[SqlType]>,
    packets: RefCell<Packets>,
}

/// Packets, and what they depend on.
#[derive(Debug, Default)]
struct Packets {
    of: Option<HeadForm>,
    bytes: Vec<u8>,
}

/// What comes before rows, beside their columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeadForm {
    /// What text columns are said to be in: `character_set_results`.
    pub(crate) collation: CollationId,
    /// EOF ends the columns.
    pub(crate) has_eof: bool,
    /// Whether the columns are described.
    pub(crate) described: answer::Described,
}

impl KeptColumns {
    /// Of these columns; no packets yet.
    pub(crate) fn new(columns: Vec<ResultColumn>) -> Self {
        let types = columns.iter().map(|column| column.sql_type.clone()).collect();
        Self { columns, types, packets: RefCell::default() }
    }
}

/// Encodes the rows of one statement.
#[derive(Debug)]
pub(crate) struct ResultWriter {
    link: Link,
    channel: Rc<RefCell<Channel>>,
    capabilities: u32,
    encoding: Encoding,
    types: Option<Rc<[SqlType]>>,
    started: bool,
    scratch: String,
    form: HeadForm,
    /// Others have a turn after a row that is large.
    pauses: Pauses,
    /// Where the rows go that the client will fetch.
    cursor: Option<Rc<RefCell<CursorRows>>>,
}

impl ResultWriter {
    pub(crate) fn new(
        link: Link,
        channel: Rc<RefCell<Channel>>,
        capabilities: u32,
        encoding: Encoding,
        form: HeadForm,
        pauses: Pauses,
    ) -> Self {
        Self {
            link,
            channel,
            capabilities,
            encoding,
            types: None,
            started: false,
            scratch: String::new(),
            form,
            pauses,
            cursor: None,
        }
    }

    /// The same with rows that the client will fetch. No EOF ends its columns: what says that it is
    /// open comes in its place.
    pub(crate) fn into_cursor(self, rows: Rc<RefCell<CursorRows>>) -> Self {
        let form = HeadForm { has_eof: false, ..self.form };
        Self { cursor: Some(rows), form, ..self }
    }

    /// Whether something has been written: the statement cannot be run again.
    pub(crate) fn is_started(&self) -> bool {
        self.started
    }

    /// Whether both sides are capable of something.
    pub(crate) fn has(&self, capability: u32) -> bool {
        self.capabilities & capability != 0
    }

    /// The connection, for what is no row: the file of LOAD DATA LOCAL.
    pub(crate) fn link(&self) -> (&Link, &Rc<RefCell<Channel>>) {
        (&self.link, &self.channel)
    }

    /// Begins a result with these columns.
    pub(crate) fn columns(&mut self, columns: &[ResultColumn]) {
        self.started = true;
        self.types = Some(columns.iter().map(|column| column.sql_type.clone()).collect());
        if let Some(rows) = &self.cursor {
            let head = &mut rows.borrow_mut().head;
            return write_head(&mut Channel::new(0), head, columns, self.form);
        }
        let mut channel = self.channel.borrow_mut();
        self.link.with_output(|out| write_head(&mut channel, out, columns, self.form));
    }

    /// The same for columns that are kept: their packets are made once.
    pub(crate) fn kept_columns(&mut self, kept: &KeptColumns) {
        self.started = true;
        self.types = Some(kept.types.clone());
        let mut packets = kept.packets.borrow_mut();
        if packets.of != Some(self.form) {
            packets.of = Some(self.form);
            packets.bytes.clear();
            // Numbers are given when they are sent.
            let mut channel = Channel::new(0);
            write_head(&mut channel, &mut packets.bytes, &kept.columns, self.form);
        }
        if let Some(rows) = &self.cursor {
            return rows.borrow_mut().head.clone_from(&packets.bytes);
        }
        let mut channel = self.channel.borrow_mut();
        self.link.with_output(|out| channel.write_again(out, &packets.bytes));
    }

    /// Writes a row; as many values as columns.
    pub(crate) fn row(&mut self, row: &[Datum]) {
        if !self.converts() {
            return self.row_of(|at| Given::Datum(Cow::Borrowed(&row[at])));
        }
        let types = self.types.as_deref().unwrap_or_default();
        let row = in_charset(row, types, self.form.collation.charset());
        self.row_of(|at| Given::Datum(Cow::Borrowed(&row[at])));
    }

    /// Whether texts go out in another character set than the one they are kept in.
    pub(crate) fn converts(&self) -> bool {
        !matches!(
            self.form.collation.charset(),
            Charset::Utf8mb4 | Charset::Utf8mb3 | Charset::Binary
        )
    }

    /// Makes room for rows that take about so many bytes, so that the output does not grow by and
    /// by.
    pub(crate) fn make_room(&self, rows: usize, bytes: usize) {
        let room = (bytes + rows * ROW_BYTES).min(ROOM_MAX);
        self.link.with_output(|out| out.reserve(room));
    }

    /// Writes a row of what `value` gives for each column, where nothing is
    /// [converted](Self::converts).
    pub(crate) fn row_of<'r>(&mut self, value: impl Fn(usize) -> Given<'r>) {
        let types = self.types.as_deref().unwrap_or_default();
        let (scratch, encoding) = (&mut self.scratch, self.encoding);
        let body = |out: &mut Vec<u8>| {
            let bits = match encoding {
                Encoding::Text => 0,
                Encoding::Binary => answer::binary_row(out, types.len()),
            };
            for (at, sql_type) in types.iter().enumerate() {
                let datum = match value(at) {
                    Given::Text(text) => {
                        answer::lenenc_bytes(out, text);
                        continue;
                    }
                    Given::Datum(datum) => datum,
                };
                match (encoding, &*datum) {
                    (Encoding::Text, datum) => push_text(out, datum, sql_type, scratch),
                    (Encoding::Binary, Datum::Null) => answer::binary_null(out, bits, at),
                    (Encoding::Binary, datum) => push_binary(out, datum, sql_type, scratch),
                }
            }
        };
        let size = match &self.cursor {
            None => self.link.with_output(|out| {
                let before = out.len();
                self.channel.borrow_mut().write(out, body);
                out.len() - before
            }),
            Some(rows) => {
                let mut packets = Vec::new();
                Channel::new(0).write(&mut packets, body);
                let size = packets.len();
                rows.borrow_mut().push(packets);
                size
            }
        };
        if size > LARGE {
            // A statement that is to end hears it elsewhere.
            let _ = self.pauses.look();
        }
    }

    /// Whether the client should take some of the rows before there are more.
    pub(crate) fn is_full(&self) -> bool {
        match &self.cursor {
            None => self.link.is_full(),
            Some(rows) => rows.borrow().is_full(),
        }
    }

    /// Waits until the client has taken enough of the rows.
    pub(crate) async fn drain(&self) {
        match &self.cursor {
            None => self.link.drain().await,
            Some(rows) => cursor::drained(rows).await,
        }
    }

    /// Whether nobody wants more rows: the client has closed its cursor.
    pub(crate) fn is_unwanted(&self) -> bool {
        self.cursor.as_ref().is_some_and(|rows| rows.borrow().is_dropped())
    }
}

/// A row with its texts in a character set other than the one they are kept in.
fn in_charset(row: &[Datum], types: &[SqlType], charset: Charset) -> Vec<Datum> {
    let convert = |(datum, sql_type): (&Datum, &SqlType)| match datum {
        Datum::Bytes(text) if sql_type.collation != CollationId::BINARY => {
            Datum::Bytes(collation::from_utf8(charset, text).bytes.into_owned().into())
        }
        other => other.clone(),
    };
    row.iter().zip(types).map(convert).collect()
}

/// Writes what comes before the rows: the number of columns, the columns, perhaps their end.
fn write_head(channel: &mut Channel, out: &mut Vec<u8>, columns: &[ResultColumn], form: HeadForm) {
    channel.write(out, |out| answer::column_count(out, columns.len(), form.described));
    if form.described != Some(false) {
        write_definitions(channel, out, columns, form.collation);
    }
    if form.has_eof {
        channel.write(out, |out| answer::eof(out, 0, 0));
    }
}

/// Writes column definitions, a packet each.
pub(crate) fn write_definitions(
    channel: &mut Channel,
    out: &mut Vec<u8>,
    columns: &[ResultColumn],
    results: CollationId,
) {
    for column in columns {
        channel.write(out, |out| {
            answer::column_definition(out, &definition_of(column, results));
        });
    }
}

/// The wire's description of a column.
pub(crate) fn definition_of(
    result: &ResultColumn,
    results: CollationId,
) -> answer::ColumnDefinition<'_> {
    let sql_type = &result.sql_type;
    let binary = sql_type.collation == CollationId::BINARY;
    let (kind, length, more) = wire_type(sql_type, results, binary);
    let is_text = sql_type.kind.is_string();
    let json = sql_type.kind == TypeKind::Json;
    let collation = if (is_text && !binary) || json { results } else { CollationId::BINARY };
    let unsigned = if sql_type.unsigned { flag::UNSIGNED } else { 0 };
    let zerofill = if sql_type.zerofill { flag::ZEROFILL } else { 0 };
    answer::ColumnDefinition {
        database: &result.database,
        table: &result.table,
        org_table: &result.org_table,
        name: &result.name,
        org_name: &result.org_name,
        collation: collation.0,
        length,
        kind,
        flags: result.flags | more | unsigned | zerofill,
        decimals: match sql_type.kind {
            TypeKind::Float | TypeKind::Double | TypeKind::Decimal => sql_type.decimals,
            TypeKind::Time | TypeKind::DateTime | TypeKind::Timestamp => sql_type.decimals,
            _ if is_text => SqlType::NOT_FIXED,
            _ => 0,
        },
    }
}

/// Column type, longest value, flags.
fn wire_type(sql_type: &SqlType, results: CollationId, binary: bool) -> (u8, u32, u16) {
    let width = if binary { 1 } else { u32::from(results.charset().max_len()) };
    let in_bytes = |characters: u32| characters.saturating_mul(width);
    let fraction = match sql_type.decimals {
        0 => 0,
        digits => u32::from(digits.min(6)) + 1,
    };
    // Also text that compares by the bytes of its characters.
    let bytes = if sql_type.collation.is_binary() { flag::BINARY } else { 0 };
    match &sql_type.kind {
        TypeKind::Null => (column::NULL, 0, flag::BINARY),
        TypeKind::TinyInt => (column::TINY, sql_type.length.max(1), 0),
        TypeKind::SmallInt => (column::SHORT, sql_type.length.max(1), 0),
        TypeKind::MediumInt => (column::INT24, sql_type.length.max(1), 0),
        TypeKind::Int => (column::LONG, sql_type.length.max(1), 0),
        TypeKind::BigInt => (column::LONGLONG, sql_type.length.max(1), 0),
        TypeKind::Decimal => {
            let sign = u32::from(!sql_type.unsigned);
            let point = u32::from(sql_type.decimals > 0);
            (column::NEWDECIMAL, sql_type.length + sign + point, 0)
        }
        TypeKind::Float => (column::FLOAT, sql_type.length, 0),
        TypeKind::Double => (column::DOUBLE, sql_type.length, 0),
        TypeKind::Bit => (column::BIT, sql_type.length, flag::UNSIGNED),
        TypeKind::Year => (column::YEAR, 4, flag::UNSIGNED | flag::ZEROFILL),
        TypeKind::Date => (column::DATE, 10, flag::BINARY),
        TypeKind::Time => (column::TIME, 10 + fraction, flag::BINARY),
        TypeKind::DateTime => (column::DATETIME, 19 + fraction, flag::BINARY),
        TypeKind::Timestamp => (column::TIMESTAMP, 19 + fraction, flag::BINARY),
        TypeKind::Char => (column::STRING, in_bytes(sql_type.length), bytes),
        TypeKind::VarChar => (column::VAR_STRING, in_bytes(sql_type.length), bytes),
        TypeKind::TinyText => (column::BLOB, in_bytes(255), flag::BLOB | bytes),
        TypeKind::Text => (column::BLOB, in_bytes(65_535), flag::BLOB | bytes),
        TypeKind::MediumText => (column::BLOB, in_bytes(16_777_215), flag::BLOB | bytes),
        TypeKind::LongText => (column::BLOB, u32::MAX, flag::BLOB | bytes),
        TypeKind::Enum(members) => {
            let longest = members.iter().map(|m| m.chars().count()).max().unwrap_or(0);
            (column::STRING, in_bytes(longest as u32), flag::ENUM | bytes)
        }
        TypeKind::Set(members) => {
            let all: usize = members.iter().map(|m| m.chars().count() + 1).sum();
            (column::STRING, in_bytes(all.saturating_sub(1) as u32), flag::SET | bytes)
        }
        TypeKind::Json => (column::JSON, u32::MAX, flag::BLOB | flag::BINARY),
    }
}

fn push_text(out: &mut Vec<u8>, datum: &Datum, sql_type: &SqlType, scratch: &mut String) {
    match datum {
        Datum::Null => answer::text_null(out),
        Datum::Int(v) if sql_type.kind != TypeKind::Year => answer::text_int(out, *v),
        Datum::UInt(v) if sql_type.kind == TypeKind::Bit => {
            answer::lenenc_bytes(out, &format::bit_bytes(*v, sql_type.length));
        }
        Datum::UInt(v) if !sql_type.zerofill => answer::text_uint(out, *v),
        Datum::Bytes(v) | Datum::Json(v) => answer::lenenc_bytes(out, v),
        other => {
            scratch.clear();
            format::push_text(scratch, other, sql_type);
            answer::lenenc_bytes(out, scratch.as_bytes());
        }
    }
}

fn push_binary(out: &mut Vec<u8>, datum: &Datum, sql_type: &SqlType, scratch: &mut String) {
    match (datum, &sql_type.kind) {
        (Datum::Int(_) | Datum::UInt(_), TypeKind::TinyInt) => out.push(bits_of(datum) as u8),
        (Datum::Int(_) | Datum::UInt(_), TypeKind::SmallInt | TypeKind::Year) => {
            out.extend_from_slice(&(bits_of(datum) as u16).to_le_bytes());
        }
        (Datum::Int(_) | Datum::UInt(_), TypeKind::Int | TypeKind::MediumInt) => {
            out.extend_from_slice(&(bits_of(datum) as u32).to_le_bytes());
        }
        (Datum::Int(_) | Datum::UInt(_), TypeKind::BigInt) => {
            out.extend_from_slice(&bits_of(datum).to_le_bytes());
        }
        (Datum::Double(v), TypeKind::Float) => out.extend_from_slice(&(*v as f32).to_le_bytes()),
        (Datum::Double(v), TypeKind::Double) => out.extend_from_slice(&v.to_le_bytes()),
        (Datum::Date(v), TypeKind::Date) => {
            answer::binary_date_time(out, (v.year, v.month, v.day), (0, 0, 0), 0);
        }
        (Datum::DateTime(v), TypeKind::DateTime | TypeKind::Timestamp) => {
            let date = (v.date.year, v.date.month, v.date.day);
            answer::binary_date_time(out, date, (v.hour, v.minute, v.second), v.micros);
        }
        (Datum::Time(v), TypeKind::Time) => {
            let (hours, minutes, seconds, micros) = v.parts();
            answer::binary_time(out, v.is_negative(), hours, (minutes, seconds), micros);
        }
        // Everything else is text behind its length; so is a value of another kind than its type's.
        _ => push_text(out, datum, sql_type, scratch),
    }
}

fn bits_of(datum: &Datum) -> u64 {
    match datum {
        Datum::Int(v) => *v as u64,
        Datum::UInt(v) => *v,
        _ => 0,
    }
}
