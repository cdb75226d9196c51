//! SELECT … INTO OUTFILE and DUMPFILE: rows into a file of the server's.
//!
//! # Owns
//! [`Form`], how FIELDS and LINES write a row, so that LOAD DATA with the same words reads it.
//! # Guarantees
//! The file is never in memory as a whole. A statement that fails leaves no file.
//! # Not here
//! The file itself (`files`); reading one (`execute::load`).

use std::borrow::Cow;
use std::rc::Rc;

use collation::Charset;
use sql_expression::SqlError;
use sql_parser::ast::{FileFormat, IntoTarget};
use sqltype::{Datum, SqlType, TypeKind};

use crate::catalog::option;
use crate::execute::run::Run;
use crate::execute::separators::Separators;
use crate::execute::{check_pushdown, cursor, snapshot};
use crate::files::Output;
use crate::plan::operator::QueryPlan;
use crate::result::Outcome;
use crate::session::Session;
use crate::variables;

/// Bytes that are given to the host together.
const PART_BYTES: usize = 128 << 10;

/// How the values of a row are written.
enum Form {
    Lines(Lines),
    /// DUMPFILE: the values as they are, one behind the other.
    Bare,
}

/// What FIELDS and LINES say.
struct Lines {
    separators: Separators,
    /// Only texts are enclosed.
    only_texts: bool,
    /// What texts are written in; none for that of their column.
    charset: Option<Charset>,
}

/// Runs a query and writes its rows to a file.
///
/// # Errors
/// Those of the query; 1172 for a DUMPFILE of several rows; what the host says of the file.
pub(crate) async fn into_file(
    session: &mut Session,
    plan: &Rc<QueryPlan>,
    parameters: &[Datum],
    target: &IntoTarget,
) -> Result<Outcome, SqlError> {
    let server = session.shared.admission.server_files()?;
    let (path, form) = match target {
        IntoTarget::Dumpfile(path) => (path, Form::Bare),
        IntoTarget::Outfile { path, charset, format } => {
            let charset = charset
                .as_ref()
                .map(|named| option::named_charset(named, session.default_database_collation()));
            (path, Form::Lines(Lines::new(format, charset.transpose()?)?))
        }
        IntoTarget::Variables(_) => unreachable!("variables are no file"),
    };
    check_pushdown(session, plan, parameters)?;
    let switch = variables::registry::find("select_into_disk_sync").expect("it is in the table");
    let synced = variables::session::shown_text(session, switch, false).as_deref() == Some("ON");
    let held = snapshot::hold(session, plan).await?;
    let mut run = Run::new(session, parameters);
    run.add_subplans(&plan.subqueries);
    let mut output = Output::create(&*server, path);
    let written = write(&mut run, plan, &form, &mut output).await;
    let kernel = run.session.kernel.clone();
    run.finish();
    snapshot::release(session, held);
    let written = written?;
    output.finish(&kernel, synced).await?;
    if written == 0 && matches!(form, Form::Bare) {
        session.note_warning(SqlError::of::<1329>(&[]));
    }
    session.found_rows = written;
    Ok(Outcome::affected(written))
}

/// Writes all rows; how many there were.
async fn write(
    run: &mut Run<'_>,
    plan: &QueryPlan,
    form: &Form,
    output: &mut Output,
) -> Result<u64, SqlError> {
    let types: Vec<&SqlType> = plan.results.iter().map(|result| &result.sql_type).collect();
    let kernel = run.session.kernel.clone();
    let mut cursor = cursor::open(&plan.root);
    let (mut part, mut written) = (Vec::new(), 0);
    while let Some(rows) = cursor.next(run).await? {
        for row in rows {
            written += 1;
            match form {
                Form::Bare if written > 1 => return Err(SqlError::of::<1172>(&[])),
                Form::Bare => row.iter().zip(&types).for_each(|(value, sql_type)| {
                    part.extend_from_slice(&stored(value, sql_type, None).unwrap_or_default());
                }),
                Form::Lines(lines) => lines.row(&mut part, &row, &types),
            }
            if part.len() >= PART_BYTES {
                output.write(&kernel, std::mem::take(&mut part)).await?;
            }
            run.worked(1).await?;
        }
    }
    if !part.is_empty() {
        output.write(&kernel, part).await?;
    }
    Ok(written)
}

impl Lines {
    /// # Errors
    /// 1235 for columns of a fixed width, and for character sets without ASCII.
    fn new(format: &FileFormat, charset: Option<Charset>) -> Result<Self, SqlError> {
        let separators = Separators::of(format);
        if separators.fields_end.is_empty() && separators.enclosed.is_none() {
            return Err(SqlError::not_supported("INTO OUTFILE without separators of fields"));
        }
        if charset.is_some_and(|charset| !has_ascii(charset)) {
            return Err(SqlError::not_supported("INTO OUTFILE in a character set without ASCII"));
        }
        let only_texts = format.optionally_enclosed;
        Ok(Self { separators, only_texts, charset })
    }

    fn row(&self, out: &mut Vec<u8>, row: &[Datum], types: &[&SqlType]) {
        out.extend_from_slice(&self.separators.lines_start);
        for (at, (value, sql_type)) in row.iter().zip(types).enumerate() {
            if at > 0 {
                out.extend_from_slice(&self.separators.fields_end);
            }
            self.field(out, value, sql_type);
        }
        out.extend_from_slice(&self.separators.lines_end);
    }

    fn field(&self, out: &mut Vec<u8>, value: &Datum, sql_type: &SqlType) {
        let Some(text) = sqltype::text(value, sql_type) else {
            match self.separators.escaped {
                Some(escape) => out.extend_from_slice(&[escape, b'N']),
                None => out.extend_from_slice(b"NULL"),
            }
            return;
        };
        let quote =
            self.separators.enclosed.filter(|_| !self.only_texts || !is_number(&sql_type.kind));
        out.extend(quote);
        let text = match self.separators.escaped {
            Some(escape) => Cow::Owned(self.with_escapes(&text, escape, quote)),
            None => text,
        };
        out.extend_from_slice(&converted(text, sql_type, self.charset));
        out.extend(quote);
    }

    /// A value in which nothing is left that would be taken for an end.
    fn with_escapes(&self, text: &[u8], escape: u8, quote: Option<u8>) -> Vec<u8> {
        let end = quote.or(self.separators.fields_end.first().copied());
        let line = self.separators.lines_end.first().copied();
        let mut safe = Vec::with_capacity(text.len());
        for byte in text {
            let is_end = Some(*byte) == end || Some(*byte) == line;
            if *byte == 0 {
                safe.extend_from_slice(&[escape, b'0']);
                continue;
            }
            if is_end && Some(*byte) == quote && b"ntrbZN0".contains(byte) {
                // Behind the escape it would mean something else; twice it means itself.
                safe.push(*byte);
            } else if is_end || *byte == escape {
                safe.push(escape);
            }
            safe.push(*byte);
        }
        safe
    }
}

/// Whether OPTIONALLY ENCLOSED leaves quotes out.
fn is_number(kind: &TypeKind) -> bool {
    kind.is_number() || matches!(kind, TypeKind::Year | TypeKind::Bit)
}

/// Whether ASCII is one byte each.
fn has_ascii(charset: Charset) -> bool {
    !matches!(charset, Charset::Ucs2 | Charset::Utf16 | Charset::Utf16le | Charset::Utf32)
}

/// A value as bytes of its column's character set, or of another one.
fn stored<'d>(value: &'d Datum, sql_type: &SqlType, to: Option<Charset>) -> Option<Cow<'d, [u8]>> {
    Some(converted(sqltype::text(value, sql_type)?, sql_type, to))
}

fn converted<'d>(text: Cow<'d, [u8]>, sql_type: &SqlType, to: Option<Charset>) -> Cow<'d, [u8]> {
    let own = sql_type.collation.charset();
    let to = to.filter(|_| own != Charset::Binary).unwrap_or(own);
    if matches!(to, Charset::Binary | Charset::Utf8mb4) || text.is_ascii() && has_ascii(to) {
        return text;
    }
    Cow::Owned(collation::from_utf8(to, &text).bytes.into_owned())
}
