//! Commands that run statements: texts, prepared statements, COM_FIELD_LIST.

use std::collections::BTreeMap;
use std::mem;

use mysql_wire::constants::{capability, cursor};
use mysql_wire::{ParameterType, QueryText, answer, parse_execute};
use sql_expression::SqlError;
use sqltype::{Datum, SqlType};

use super::cursor::OpenCursor;
use super::{Connection, End};
use crate::dispatch;
use crate::memory::{Account, Held};
use crate::prepared::{self, Prepared};
use crate::result::{Encoding, HeadForm, ResultColumn, ResultWriter, write_definitions};

/// The statements a client has prepared, by number.
#[derive(Debug, Default)]
pub(super) struct Statements {
    by_number: BTreeMap<u32, Entry>,
    last: u32,
}

#[derive(Debug)]
struct Entry {
    prepared: Prepared,
    types: Vec<ParameterType>,
    /// Parameters that come in pieces; an error to be told at the next execution.
    long_data: Vec<Option<Vec<u8>>>,
    /// What these take.
    held: Option<Held>,
    refused: Option<SqlError>,
    cursor: Option<OpenCursor>,
}

impl Statements {
    /// COM_STMT_SEND_LONG_DATA: has no answer, so an error waits for the execution.
    pub(super) fn long_data(
        &mut self,
        account: &Account,
        number: u32,
        parameter: u16,
        data: &[u8],
        most: usize,
    ) {
        let Some(entry) = self.by_number.get_mut(&number) else { return };
        let count = entry.prepared.parameter_count();
        let at = usize::from(parameter);
        if at >= count {
            let text = "Incorrect arguments to mysqld_stmt_send_long_data";
            entry.refused = Some(SqlError::new(1210, "HY000", text));
            return;
        }
        entry.long_data.resize(count, None);
        let collected = entry.long_data[at].get_or_insert_default();
        if collected.len() + data.len() > most {
            let text = "Parameter of prepared statement which is set through \
                        mysql_send_long_data() is longer than 'max_allowed_packet' bytes";
            entry.refused = Some(SqlError::new(4016, "HY000", text));
            return;
        }
        let held = entry.held.get_or_insert_with(|| account.hold("parameters that are sent"));
        match held.add(data.len()) {
            Ok(()) => collected.extend_from_slice(data),
            Err(error) => entry.refused = Some(error),
        }
    }

    pub(super) fn close(&mut self, number: u32) {
        self.by_number.remove(&number);
    }

    pub(super) fn reset(&mut self, number: u32) -> Result<(), SqlError> {
        let entry = self.by_number.get_mut(&number);
        let entry = entry.ok_or_else(|| unknown(number, "mysqld_stmt_reset"))?;
        entry.long_data.clear();
        entry.held = None;
        entry.refused = None;
        entry.cursor = None;
        Ok(())
    }

    /// Whether some statement has a cursor, or parameters that have been sent for it.
    pub(super) fn is_begun(&self) -> bool {
        self.by_number.values().any(|of| of.cursor.is_some() || !of.long_data.is_empty())
    }

    /// Takes the cursor of a statement, if it has one; none if there is no such statement.
    pub(super) fn cursor(&mut self, number: u32) -> Option<Option<OpenCursor>> {
        self.by_number.get_mut(&number).map(|entry| entry.cursor.take())
    }

    /// A statement has a cursor from now on.
    pub(super) fn open_cursor(&mut self, number: u32, cursor: OpenCursor) {
        if let Some(entry) = self.by_number.get_mut(&number) {
            entry.cursor = Some(cursor);
        }
    }
}

pub(super) fn unknown(number: u32, function: &str) -> SqlError {
    let text = format!("Unknown prepared statement handler ({number}) given to {function}");
    SqlError::new(1243, "HY000", text)
}

impl Connection {
    pub(super) fn writer(&self, encoding: Encoding) -> ResultWriter {
        let collation = self.session.variables.results_collation();
        let form = HeadForm {
            collation,
            has_eof: !self.wire.has(capability::DEPRECATE_EOF),
            described: self.described(),
        };
        let wire = &self.wire;
        ResultWriter::new(
            wire.link.clone(),
            wire.channel.clone(),
            wire.capabilities,
            encoding,
            form,
            self.session.pauses.clone(),
        )
    }

    /// Whether results come with descriptions of their columns.
    fn described(&self) -> answer::Described {
        let may_ask = self.wire.has(capability::OPTIONAL_RESULTSET_METADATA);
        may_ask.then_some(self.session.variables.describes_results)
    }

    /// COM_QUERY: one statement after the other, until the first error.
    pub(super) async fn query(&mut self, query: QueryText) {
        let text = self.session.decode_text(query.text);
        self.session.attach(query.attributes);
        let mut at = 0;
        loop {
            let mut out = self.writer(Encoding::Text);
            let (result, next) = dispatch::run_text(&mut self.session, &text, at, &mut out).await;
            let many = self.wire.has(capability::MULTI_STATEMENTS);
            let next = next.filter(|_| result.is_ok());
            if let Some(next) = next
                && !many
            {
                let error = crate::error::unexpected(&text[next..]);
                return self.answer(Err(error), false);
            }
            self.answer(result, next.is_some());
            match next {
                Some(next) => at = next,
                None => return,
            }
            self.wire.link.drain().await;
        }
    }

    /// A statement that a command stands for.
    pub(super) async fn run_text(&mut self, text: &str) {
        let query = QueryText { text: text.into(), attributes: Vec::new() };
        self.query(query).await;
    }

    /// COM_STMT_PREPARE.
    pub(super) async fn prepare(&mut self, text: Vec<u8>) {
        let text = self.text(text);
        self.session.diagnostics.clear();
        let prepared = prepared::session::parse(&self.session, &text);
        let described = match prepared {
            Ok(prepared) => {
                let columns = dispatch::describe(&mut self.session, &prepared).await;
                columns.map(|columns| (prepared, columns))
            }
            Err(error) => Err(error),
        };
        let (prepared, columns) = match described {
            Ok(described) => described,
            Err(error) => return self.answer(Err(error), false),
        };
        let count = prepared.parameter_count();
        let (Ok(parameter_count), Ok(column_count)) =
            (u16::try_from(count), u16::try_from(columns.len()))
        else {
            let text = "Prepared statement contains too many placeholders";
            return self.answer(Err(SqlError::new(1390, "HY000", text)), false);
        };
        self.statements.last = self.statements.last.wrapping_add(1).max(1);
        let number = self.statements.last;
        let (types, long_data) = (Vec::new(), Vec::new());
        let entry = Entry { prepared, types, long_data, held: None, refused: None, cursor: None };
        self.statements.by_number.insert(number, entry);
        let status = self.status(false);
        let warnings = self.warnings();
        let (wire, results) = (&self.wire, self.session.variables.results_collation());
        let described = self.described();
        let head = answer::PreparedHead {
            statement: number,
            columns: column_count,
            parameters: parameter_count,
            warnings,
            described,
        };
        wire.write(|out| answer::prepared(out, &head));
        let parameter = ResultColumn::new("?", SqlType::binary(0));
        let parameters = vec![parameter; count];
        for definitions in [&parameters, &columns] {
            if definitions.is_empty() {
                continue;
            }
            let mut channel = wire.channel.borrow_mut();
            wire.link.with_output(|out| {
                if described != Some(false) {
                    write_definitions(&mut channel, out, definitions, results);
                }
                if !wire.has(capability::DEPRECATE_EOF) {
                    channel.write(out, |out| answer::eof(out, warnings, status));
                }
            });
        }
    }

    /// COM_STMT_EXECUTE.
    pub(super) async fn execute(
        &mut self,
        number: u32,
        flags: u8,
        payload: &[u8],
    ) -> Result<(), End> {
        let Some(entry) = self.statements.by_number.get_mut(&number) else {
            self.answer(Err(unknown(number, "mysqld_stmt_execute")), false);
            return Ok(());
        };
        entry.cursor = None;
        let prepared = entry.prepared.clone();
        let long_data = mem::take(&mut entry.long_data);
        // The values of the statement, until it has ended.
        let _held = entry.held.take();
        if let Some(refused) = entry.refused.take() {
            self.answer(Err(refused), false);
            return Ok(());
        }
        let (count, attributes) =
            (prepared.parameter_count(), self.wire.has(capability::QUERY_ATTRIBUTES));
        let (parsed, attributes) =
            parse_execute(payload, count, flags, &mut entry.types, &long_data, attributes)?;
        let (session, types) = (&self.session, &entry.types);
        let value = |(at, parameter)| session.parameter(parameter, types.get(at));
        let parameters: Vec<Datum> = parsed.into_iter().enumerate().map(value).collect();
        self.session.attach(attributes);
        if flags & cursor::READ_ONLY != 0 {
            return Box::pin(self.execute_with_cursor(number, &prepared, &parameters)).await;
        }
        let mut out = self.writer(Encoding::Binary);
        let shown = Some(prepared.text().as_bytes());
        let session = &mut self.session;
        let result = dispatch::run(session, &prepared, &parameters, &mut out, shown).await;
        self.answer(result, false);
        Ok(())
    }

    /// COM_FIELD_LIST: the columns of a table, for completion in the command-line client.
    pub(super) async fn field_list(&mut self, table: Vec<u8>, pattern: Vec<u8>) {
        let table = self.text(table).replace('`', "``");
        let pattern = self.text(pattern);
        let text = format!("SELECT * FROM `{table}` LIMIT 0");
        let columns = match prepared::session::parse(&self.session, &text) {
            Ok(prepared) => dispatch::describe(&mut self.session, &prepared).await,
            Err(error) => Err(error),
        };
        let columns = match columns {
            Ok(columns) => columns,
            Err(error) => return self.answer(Err(error), false),
        };
        let results = self.session.variables.results_collation();
        let wanted = |name: &str| {
            pattern.is_empty()
                || collation::like(
                    collation::CollationId::UTF8MB4_GENERAL_CI,
                    name.as_bytes(),
                    pattern.as_bytes(),
                    Some('\\'),
                )
        };
        for column in columns.iter().filter(|column| wanted(&column.name)) {
            self.wire.write(|out| {
                let definition = crate::result::definition_of(column, results);
                answer::column_definition(out, &definition);
                // The default, as text: unknown.
                answer::text_null(out);
            });
        }
        self.end_of_rows(false);
    }
}
