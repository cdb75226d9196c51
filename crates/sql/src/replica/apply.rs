//! Rows of a source made here: inserts, updates and deletions by key, as statements that were
//! planned once for each form.
//!
//! # Guarantees
//! A row that is not there, or is there already, is an error that names table, key and place in the
//! log, unless the channel runs in IDEMPOTENT mode. All columns that the source has told are as the
//! source has them: nothing is computed here but generated columns.
//! # Not here
//! Transactions and places (`replica`), values (`cell`).

use std::collections::BTreeMap;
use std::rc::Rc;

use collation::CollationId;
use mysql_wire::binlog::image::{Cell, Images, Rows, RowsKind};
use mysql_wire::binlog::rows::{NO_FOREIGN_KEY_CHECKS, TableMap};
use sql_expression::SqlError;
use sqltype::{Datum, TypeKind};

use super::conflict::Resolved;
use super::{Applier, cell, statement};
use crate::catalog::TableDefinition;
use crate::catalog::names::TableName;
use crate::catalog::text::quoted;
use crate::dispatch;
use crate::prepared::Prepared;
use crate::replication::conflict::resolution;
use crate::result::Outcome;
use crate::session::Session;

/// Rows of one INSERT, the most first: each size is planned once.
const BATCHES: [usize; 3] = [64, 8, 1];
/// Most forms of statements that are kept for a table.
const FORMS_MAX: usize = 64;
/// Characters of a value in an error.
const SHOWN_MAX: usize = 64;

/// A form of a statement: what it does, of how many rows, and with which columns.
type Form = (Verb, usize, Vec<bool>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verb {
    Insert,
    Replace,
    Update,
    Delete,
    /// Under the condition of a conflict function.
    UpdateIf,
    DeleteIf,
    /// Looks whether there is a row.
    Touch,
}

/// A table here that rows of a table of the source go to.
#[derive(Debug)]
pub(super) struct Target {
    map: TableMap,
    pub(super) definition: Rc<TableDefinition>,
    /// Of each column of the source the place of the column here; none for one that is computed.
    pub(super) places: Vec<Option<usize>>,
    /// The columns of the source that tell a row; none of them where only the whole row does.
    pub(super) key: Vec<usize>,
    /// What decides about conflicts.
    pub(super) resolved: Option<Resolved>,
    forms: BTreeMap<Form, Prepared>,
}

/// A row for a statement: values in the order of the columns of the source.
pub(super) type Values = Vec<Option<Datum>>;

impl Target {
    /// Finds the table that rows go to.
    ///
    /// # Errors
    /// 1146 if it is not there, 1535 if it has other columns, 1677 if one has another type.
    fn of(session: &Session, map: &TableMap, name: &TableName) -> Result<Self, SqlError> {
        let definition = session.permanent_named(name)?;
        let columns = definition.visible_columns();
        let full = name.full();
        let named = map.columns.iter().all(|column| !column.name.is_empty());
        let mut places = Vec::with_capacity(map.columns.len());
        for (at, of_source) in map.columns.iter().enumerate() {
            let found = if named {
                definition.column(&of_source.name).map(|(place, _)| place)
            } else {
                (at < columns.len()).then_some(at)
            };
            let Some(place) = found else {
                let missing = if named {
                    format!("column {} is not there", of_source.name)
                } else {
                    format!("{} columns at the source, {} here", map.columns.len(), columns.len())
                };
                let text = format!(
                    "Table definition on source and replica does not match: table {full}: {missing}"
                );
                return Err(SqlError::new(1535, "HY000", text));
            };
            let column = &columns[place];
            if column.is_computed() {
                places.push(None);
                continue;
            }
            if let Err(from) = cell::fits(of_source, column) {
                let text = format!(
                    "Column {at} of table '{full}' cannot be converted from type '{from}' to type \
                     '{}'",
                    cell::name_here(column)
                );
                return Err(SqlError::new(1677, "HY000", text));
            }
            places.push(Some(place));
        }
        let key = definition.identifying_key().filter(|key| !key.has_prefix());
        let of_source = |part: &crate::catalog::KeyPart| {
            places.iter().position(|place| *place == Some(part.declared))
        };
        let key: Option<Vec<usize>> =
            key.and_then(|key| key.columns.iter().map(of_source).collect());
        let key = key.unwrap_or_default();
        let (map, forms) = (map.clone(), BTreeMap::new());
        Ok(Self { map, definition, places, key, resolved: None, forms })
    }

    /// The column here that a column of the source goes to.
    pub(super) fn column(&self, at: usize) -> Option<&crate::catalog::ColumnDefinition> {
        self.places.get(at).copied().flatten().map(|place| &self.definition.columns[place])
    }

    pub(super) fn quoted(&self, at: usize) -> String {
        quoted(self.column(at).map_or("", |column| &column.name))
    }

    pub(super) fn table(&self) -> String {
        format!("{}.{}", quoted(&self.definition.database), quoted(&self.definition.name))
    }

    /// The values of an image.
    fn values(&self, cells: &[Cell<'_>]) -> Result<Values, SqlError> {
        let value = |(at, of): (usize, &Cell<'_>)| match self.column(at) {
            None => Ok(None),
            Some(column) => cell::datum(of, &self.map.columns[at], column)
                .map_err(|why| damaged(&self.table(), &column.name, &why)),
        };
        cells.iter().enumerate().map(value).collect()
    }

    /// The columns by which a row is found, with how each is compared: the key where the image has
    /// it, else all that can be compared.
    fn finding(&self, before: &Values) -> Vec<usize> {
        let has = |at: &usize| before.get(*at).is_some_and(Option::is_some);
        if !self.key.is_empty() && self.key.iter().all(has) {
            return self.key.clone();
        }
        let is_comparable = |at: &usize| {
            self.column(*at).is_some_and(|column| column.sql_type.kind != TypeKind::Json)
        };
        (0..before.len()).filter(has).filter(is_comparable).collect()
    }

    /// The condition that finds a row by these columns.
    pub(super) fn condition(&self, columns: &[usize]) -> String {
        let by_key = columns == self.key.as_slice();
        let one = |at: &usize| {
            let name = self.quoted(*at);
            let collation = self.column(*at).map(|column| column.sql_type.collation);
            match collation.filter(|_| !by_key) {
                // Texts that compare alike are others.
                Some(collation) if collation != CollationId::BINARY => {
                    let binary = collation.charset().binary_collation().name();
                    format!("{name} COLLATE {binary} <=> ?")
                }
                _ if by_key => format!("{name} = ?"),
                _ => format!("{name} <=> ?"),
            }
        };
        let all: Vec<String> = columns.iter().map(one).collect();
        if all.is_empty() { "TRUE".to_owned() } else { all.join(" AND ") }
    }

    /// A key as errors name it.
    fn shown(&self, columns: &[usize], values: &Values) -> String {
        let one = |at: &usize| {
            let name = self.column(*at).map_or("", |column| column.name.as_str());
            let value = values.get(*at).and_then(Option::as_ref);
            let mut text = value.map_or_else(|| "?".to_owned(), shown);
            text.truncate(text.floor_char_boundary(SHOWN_MAX));
            format!("{name} = {text}")
        };
        let all: Vec<String> = columns.iter().take(8).map(one).collect();
        all.join(", ")
    }

    /// The statement of a form, planned before or now.
    pub(super) fn form(
        &mut self,
        session: &Session,
        form: Form,
        text: impl FnOnce(&Self) -> String,
    ) -> Result<Prepared, SqlError> {
        if let Some(found) = self.forms.get(&form) {
            return Ok(found.clone());
        }
        if self.forms.len() >= FORMS_MAX {
            self.forms.clear();
        }
        let text = text(self);
        let parsed = session.parse_at(text.as_bytes(), 0);
        let parsed = parsed.map_err(|error| crate::error::of_parser(&error))?;
        let prepared = Prepared::of_parsed(parsed);
        self.forms.insert(form, prepared.clone());
        Ok(prepared)
    }
}

fn shown(value: &Datum) -> String {
    match value {
        Datum::Null => "NULL".to_owned(),
        Datum::Int(number) => number.to_string(),
        Datum::UInt(number) => number.to_string(),
        Datum::Double(number) => number.to_string(),
        Datum::Decimal(number) => number.to_string(),
        Datum::Bytes(bytes) | Datum::Json(bytes) => {
            format!("'{}'", String::from_utf8_lossy(bytes))
        }
        Datum::Date(date) => date.to_string(),
        Datum::DateTime(time) => time.to_text(0),
        Datum::Time(time) => time.to_text(0),
    }
}

fn damaged(table: &str, column: &str, why: &str) -> SqlError {
    let text = format!("a value of column {column} of table {table} cannot be stored: {why}");
    SqlError::new(1610, "HY000", text)
}

/// Which columns have a value.
fn present(values: &Values) -> Vec<bool> {
    values.iter().map(Option::is_some).collect()
}

impl Applier {
    /// Makes the changes of an event of rows.
    ///
    /// # Errors
    /// Of a row that cannot be changed: the error names it.
    pub(super) async fn apply_rows(
        &mut self,
        map: &TableMap,
        mut rows: Rows<'_>,
        kind: RowsKind,
    ) -> Result<(), SqlError> {
        let database = self.filter.rewritten(&map.database).to_owned();
        if !self.filter.takes_database(&database)
            || !self.filter.takes_table(&database, &map.name)
            || statement::is_of_server(&database)
        {
            return Ok(());
        }
        let name = TableName { database, name: map.name.clone() };
        let mut target = self.target(map, &name).await?;
        let checks = rows.flags & NO_FOREIGN_KEY_CHECKS == 0;
        self.set_foreign_key_checks(checks);
        let mut inserts: Vec<Values> = Vec::new();
        while let Some(images) = rows.next_row(map).map_err(|_| malformed(map))? {
            self.rows += 1;
            match kind {
                RowsKind::Write => {
                    inserts.push(target.values(&images.after)?);
                    if inserts.len() == BATCHES[0] {
                        self.insert(&mut target, &mut inserts).await?;
                    }
                }
                RowsKind::Update => self.update(&mut target, &images).await?,
                RowsKind::Delete => self.delete(&mut target, &images).await?,
            }
        }
        self.insert(&mut target, &mut inserts).await?;
        self.targets.insert(name.full(), target);
        Ok(())
    }

    /// The table that rows go to, with the statements that it has been given.
    async fn target(&mut self, map: &TableMap, name: &TableName) -> Result<Target, SqlError> {
        if let Some(known) = self.targets.remove(&name.full()) {
            let now = self.session.permanent_named(name);
            let same = now.is_ok_and(|now| {
                now.table.version == known.definition.table.version
                    && now.table.id == known.definition.table.id
            });
            if same && known.map.columns == map.columns {
                return Ok(known);
            }
        }
        if let Ok(target) = self.new_target(map, name) {
            return Ok(target);
        }
        // Another SQL node may have changed it a moment ago.
        self.session.catch_up().await;
        self.new_target(map, name)
    }

    fn new_target(&self, map: &TableMap, name: &TableName) -> Result<Target, SqlError> {
        let mut target = Target::of(&self.session, map, name)?;
        let by = resolution(&self.rules, &name.database, &name.name, self.own_server);
        if let Some(by) = by {
            target.resolve(by)?;
        }
        Ok(target)
    }

    /// Inserts rows, all with values of the same columns.
    async fn insert(
        &mut self,
        target: &mut Target,
        rows: &mut Vec<Values>,
    ) -> Result<(), SqlError> {
        let replaces = self.is_idempotent && target.resolved.is_none();
        let verb = if replaces { Verb::Replace } else { Verb::Insert };
        let mut rest = std::mem::take(rows).into_iter().peekable();
        while let Some(first) = rest.peek() {
            let columns = present(first);
            let left = rest.len();
            let size = BATCHES.into_iter().find(|size| *size <= left).unwrap_or(1);
            let form = (verb, size, columns.clone());
            let prepared = target.form(&self.session, form, |target| {
                let chosen = (0..columns.len()).filter(|at| columns[*at]);
                let names: Vec<String> = chosen.map(|at| target.quoted(at)).collect();
                let row = format!("({})", vec!["?"; names.len()].join(","));
                let word = if verb == Verb::Replace { "REPLACE" } else { "INSERT" };
                let rows = vec![row; size].join(",");
                format!("{word} INTO {} ({}) VALUES {rows}", target.table(), names.join(","))
            })?;
            let batch: Vec<Values> = rest.by_ref().take(size).collect();
            let parameters: Vec<Datum> = batch.iter().flatten().flatten().cloned().collect();
            let done = self.run(&prepared, &parameters).await;
            if let (Err(error), Some(by)) = (&done, target.resolved)
                && error.code() == 1062
            {
                for row in batch {
                    self.insert_or_resolve(target, by, row).await?;
                }
                continue;
            }
            done.map_err(|error| self.could_not("Write_rows", target, &error))?;
        }
        Ok(())
    }

    async fn update(&mut self, target: &mut Target, images: &Images<'_>) -> Result<(), SqlError> {
        let before = target.values(&images.before)?;
        let after = target.values(&images.after)?;
        if let Some(by) = target.resolved {
            return self.update_or_refuse(target, by, (&before, &after)).await;
        }
        let finding = target.finding(&before);
        // What has changed; and what would change by itself otherwise.
        let is_set = |at: usize| {
            let has_changed =
                after[at].is_some() && before.get(at).is_none_or(|before| *before != after[at]);
            let column = target.column(at);
            after[at].is_some()
                && (has_changed || column.is_some_and(|column| column.on_update_now.is_some()))
        };
        let mut columns: Vec<bool> = (0..after.len()).map(is_set).collect();
        if !columns.contains(&true) {
            return Ok(());
        }
        let set: Vec<usize> = (0..after.len()).filter(|at| columns[*at]).collect();
        let by: Vec<bool> = (0..before.len()).map(|at| finding.contains(&at)).collect();
        columns.extend(by);
        let prepared = target.form(&self.session, (Verb::Update, 1, columns), |target| {
            let one = |at: &usize| format!("{} = ?", target.quoted(*at));
            let assignments: Vec<String> = set.iter().map(one).collect();
            let limit = if finding == target.key { "" } else { " LIMIT 1" };
            let (table, condition) = (target.table(), target.condition(&finding));
            format!("UPDATE {table} SET {} WHERE {condition}{limit}", assignments.join(", "))
        })?;
        let assigned = set.iter().filter_map(|at| after[*at].clone());
        let found = finding.iter().filter_map(|at| before[*at].clone());
        let parameters: Vec<Datum> = assigned.chain(found).collect();
        match self.run(&prepared, &parameters).await {
            Ok(0) if self.is_idempotent => Ok(()),
            Ok(0) => Err(self.not_found("Update_rows", target, &finding, &before)),
            Ok(_) => Ok(()),
            Err(error) if error.code() == 1062 && self.is_idempotent => {
                // What is in the way goes, as does the row itself.
                self.delete_found(target, &finding, &before).await?;
                if after
                    .iter()
                    .zip(&target.places)
                    .any(|(value, place)| value.is_none() && place.is_some())
                {
                    return Err(self.could_not("Update_rows", target, &error));
                }
                self.insert(target, &mut vec![after]).await
            }
            Err(error) => Err(self.could_not("Update_rows", target, &error)),
        }
    }

    async fn delete(&mut self, target: &mut Target, images: &Images<'_>) -> Result<(), SqlError> {
        let before = target.values(&images.before)?;
        if let Some(by) = target.resolved {
            return self.delete_or_refuse(target, by, &before).await;
        }
        let finding = target.finding(&before);
        match self.delete_found(target, &finding, &before).await {
            Ok(0) if !self.is_idempotent => {
                Err(self.not_found("Delete_rows", target, &finding, &before))
            }
            Ok(_) => Ok(()),
            Err(error) => Err(self.could_not("Delete_rows", target, &error)),
        }
    }

    async fn delete_found(
        &mut self,
        target: &mut Target,
        finding: &[usize],
        before: &Values,
    ) -> Result<u64, SqlError> {
        let columns: Vec<bool> = (0..before.len()).map(|at| finding.contains(&at)).collect();
        let prepared = target.form(&self.session, (Verb::Delete, 1, columns), |target| {
            let limit = if finding == target.key { "" } else { " LIMIT 1" };
            format!("DELETE FROM {} WHERE {}{limit}", target.table(), target.condition(finding))
        })?;
        let parameters: Vec<Datum> = finding.iter().filter_map(|at| before[*at].clone()).collect();
        self.run(&prepared, &parameters).await
    }

    /// Runs a statement; the rows that it has found.
    pub(super) async fn run(
        &mut self,
        prepared: &Prepared,
        parameters: &[Datum],
    ) -> Result<u64, SqlError> {
        let mut out = self.writer();
        let outcome =
            dispatch::run(&mut self.session, prepared, parameters, &mut out, None).await?;
        match outcome {
            Outcome::Done { affected, .. } => Ok(affected),
            Outcome::Rows => Ok(0),
        }
    }

    fn not_found(
        &self,
        event: &str,
        target: &Target,
        finding: &[usize],
        before: &Values,
    ) -> SqlError {
        let why = format!(
            "Can't find record in '{}' with {}",
            target.definition.name,
            target.shown(finding, before)
        );
        self.could_not(event, target, &SqlError::new(1032, "HY000", why))
    }

    /// The same error, with what was to be done and where that stands in the log of the source.
    pub(super) fn could_not(&self, event: &str, target: &Target, error: &SqlError) -> SqlError {
        let TableDefinition { database, name, .. } = &*target.definition;
        let text = format!(
            "Could not execute {event} event on table {database}.{name}; {}, Error_code: {}; the \
             event's source log {}, end_log_pos {}",
            error.message(),
            error.code(),
            self.at.file,
            self.at.end
        );
        SqlError::new(error.code(), "HY000", text)
    }
}

fn malformed(map: &TableMap) -> SqlError {
    let text = format!("an event of rows of table {}.{} is damaged", map.database, map.name);
    SqlError::new(1610, "HY000", text)
}
