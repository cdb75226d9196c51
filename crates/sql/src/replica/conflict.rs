//! Changes of a source that a conflict function decides about, and what becomes of those that it
//! refuses.
//!
//! # Guarantees
//! A change is made if and only if its function lets it through, decided under the lock of the row.
//! One that is refused is counted, and stands in the table's exceptions table, if there is one, in
//! the same transaction as the changes around it.
//! # Not here
//! Rules and decision tables (`replication::conflict`), changes that nothing decides about
//! (`apply`).

use sql_expression::SqlError;
use sqltype::{Datum, TypeKind};

use super::Applier;
use super::apply::{Target, Values, Verb};
use crate::catalog::names::TableName;
use crate::catalog::text::quoted;
use crate::catalog::{ColumnDefinition, TableDefinition};
use crate::prepared::Prepared;
use crate::replication::conflict::{Condition, Function, Operation, Resolution};

/// How the name of a table's exceptions table ends.
const EXCEPTIONS: &str = "$EX";
/// What the names of columns that are not of the table begin with.
const PREFIX: &str = "NDB$";
/// Columns of an exceptions table that need not have the prefix: the first ones.
const UNPREFIXED: usize = 4;
/// Numbers of conflicts that a part of a transaction has.
const PER_PART: u64 = 1 << 20;

/// The function of a table, and the place of its column among those of the source.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resolved {
    pub(super) function: Function,
    column: usize,
}

/// Why a change is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Missing,
    Exists,
    Differs,
}

impl Cause {
    fn name(self) -> &'static str {
        match self {
            Self::Missing => "ROW_DOES_NOT_EXIST",
            Self::Exists => "ROW_ALREADY_EXISTS",
            Self::Differs => "DATA_IN_CONFLICT",
        }
    }
}

fn name_of(operation: Operation) -> &'static str {
    match operation {
        Operation::Write => "WRITE_ROW",
        Operation::Update => "UPDATE_ROW",
        Operation::Delete => "DELETE_ROW",
    }
}

impl Target {
    /// Gives the table a function.
    ///
    /// # Errors
    /// 1296 for a table that it does not fit.
    pub(super) fn resolve(&mut self, by: &Resolution) -> Result<(), SqlError> {
        let TableDefinition { database, name, .. } = &*self.definition;
        let refused = |why: &str| {
            let text = format!(
                "{}({}) of mysql.ndb_replication does not fit table {database}.{name}: {why}",
                by.function.name(),
                by.column
            );
            SqlError::new(1296, "HY000", text)
        };
        if self.key.is_empty() {
            return Err(refused("it needs a primary key"));
        }
        let is_named = |at: &usize| {
            self.column(*at).is_some_and(|column| column.name.eq_ignore_ascii_case(&by.column))
        };
        let Some(at) = (0..self.places.len()).find(is_named) else {
            return Err(refused("there is no such column"));
        };
        let is_fit = self.column(at).is_some_and(|column| {
            let is_whole = matches!(
                column.sql_type.kind,
                TypeKind::TinyInt
                    | TypeKind::SmallInt
                    | TypeKind::MediumInt
                    | TypeKind::Int
                    | TypeKind::BigInt
            );
            is_whole && !column.nullable
        });
        if !is_fit || self.key.contains(&at) {
            return Err(refused("the column has to be an integer NOT NULL beside the key"));
        }
        self.resolved = Some(Resolved { function: by.function, column: at });
        Ok(())
    }

    /// What lets a change through beside the key: a condition, and the value that it compares with.
    fn decided_by(
        &self,
        operation: Operation,
        by: Resolved,
        images: (&Values, &Values),
    ) -> (String, Option<Datum>) {
        let (before, after) = images;
        let name = self.quoted(by.column);
        let value = |image: &Values| image.get(by.column).cloned().flatten();
        match by.function.condition(operation) {
            Condition::Fits => (String::new(), None),
            Condition::AsBefore => (format!(" AND {name} = ?"), value(before)),
            Condition::Below => (format!(" AND {name} < ?"), value(after)),
        }
    }

    /// The condition that finds a row by its key.
    fn by_key(&self) -> String {
        self.condition(&self.key)
    }

    fn key_of(&self, image: &Values) -> Vec<Datum> {
        self.key.iter().map(|at| image.get(*at).cloned().flatten().unwrap_or(Datum::Null)).collect()
    }
}

impl Applier {
    /// Inserts a row, or decides between it and the one that is there.
    pub(super) async fn insert_or_resolve(
        &mut self,
        target: &mut Target,
        by: Resolved,
        row: Values,
    ) -> Result<(), SqlError> {
        let has: Vec<usize> = (0..row.len()).filter(|at| row[*at].is_some()).collect();
        let columns: Vec<bool> = row.iter().map(Option::is_some).collect();
        let insert = target.form(&self.session, (Verb::Insert, 1, columns), |target| {
            let names: Vec<String> = has.iter().map(|at| target.quoted(*at)).collect();
            let values = vec!["?"; names.len()].join(",");
            format!("INSERT INTO {} ({}) VALUES ({values})", target.table(), names.join(","))
        })?;
        let values: Vec<Datum> = row.iter().flatten().cloned().collect();
        let duplicate = match self.run(&insert, &values).await {
            Ok(_) => return Ok(()),
            Err(error) if error.code() == 1062 => error,
            Err(error) => return Err(self.could_not("Write_rows", target, &error)),
        };
        if by.function.decides_insertions() {
            // Against a row that is there an insertion is an update.
            let update = Operation::Update;
            if self.change(target, by, update, (&row, &row)).await? {
                return Ok(());
            }
        }
        if !self.exists(target, by, &row).await? {
            // Another row has a unique value of this one.
            return Err(self.could_not("Write_rows", target, &duplicate));
        }
        self.refuse(target, by, (Operation::Write, Cause::Exists), (None, Some(&row))).await
    }

    /// Changes a row if its function lets the change through.
    pub(super) async fn update_or_refuse(
        &mut self,
        target: &mut Target,
        by: Resolved,
        images: (&Values, &Values),
    ) -> Result<(), SqlError> {
        self.change_or_refuse(target, by, Operation::Update, images).await
    }

    /// Deletes a row if its function lets that through.
    pub(super) async fn delete_or_refuse(
        &mut self,
        target: &mut Target,
        by: Resolved,
        before: &Values,
    ) -> Result<(), SqlError> {
        self.change_or_refuse(target, by, Operation::Delete, (before, &Vec::new())).await
    }

    async fn change_or_refuse(
        &mut self,
        target: &mut Target,
        by: Resolved,
        operation: Operation,
        images: (&Values, &Values),
    ) -> Result<(), SqlError> {
        let (before, after) = images;
        if self.change(target, by, operation, images).await? {
            return Ok(());
        }
        let exists = self.exists(target, by, before).await?;
        let cause = if exists { Cause::Differs } else { Cause::Missing };
        let after = (operation == Operation::Update).then_some(after);
        self.refuse(target, by, (operation, cause), (Some(before), after)).await
    }

    /// Updates or deletes a row under the condition of a function; whether that was so.
    async fn change(
        &mut self,
        target: &mut Target,
        by: Resolved,
        operation: Operation,
        images: (&Values, &Values),
    ) -> Result<bool, SqlError> {
        let (before, after) = images;
        let (condition, compared) = target.decided_by(operation, by, images);
        let is_deletion = operation == Operation::Delete;
        // All of the row: what differs here in other columns is decided with it.
        let is_told = |at: &usize| {
            let stays = target.key.contains(at) && before.get(*at) == after.get(*at);
            after[*at].is_some() && !stays
        };
        let set: Vec<usize> = (0..after.len()).filter(is_told).collect();
        let columns: Vec<bool> = (0..after.len()).map(|at| set.contains(&at)).collect();
        let verb = if is_deletion { Verb::DeleteIf } else { Verb::UpdateIf };
        let prepared = target.form(&self.session, (verb, 1, columns), |target| {
            let (table, key) = (target.table(), target.by_key());
            if is_deletion {
                return format!("DELETE FROM {table} WHERE {key}{condition}");
            }
            let one = |at: &usize| format!("{} = ?", target.quoted(*at));
            let set: Vec<String> = set.iter().map(one).collect();
            format!("UPDATE {table} SET {} WHERE {key}{condition}", set.join(", "))
        })?;
        let assigned = set.iter().filter_map(|at| after[*at].clone());
        let parameters: Vec<Datum> =
            assigned.chain(target.key_of(before)).chain(compared).collect();
        let event = if is_deletion { "Delete_rows" } else { "Update_rows" };
        let found = self.run(&prepared, &parameters).await;
        Ok(found.map_err(|error| self.could_not(event, target, &error))? > 0)
    }

    /// Whether there is a row of this key. It is locked, and stays as it is.
    async fn exists(
        &mut self,
        target: &mut Target,
        by: Resolved,
        image: &Values,
    ) -> Result<bool, SqlError> {
        let prepared = target.form(&self.session, (Verb::Touch, 1, Vec::new()), |target| {
            let (table, name) = (target.table(), target.quoted(by.column));
            format!("UPDATE {table} SET {name} = {name} WHERE {}", target.by_key())
        })?;
        let found = self.run(&prepared, &target.key_of(image)).await;
        Ok(found.map_err(|error| self.could_not("Update_rows", target, &error))? > 0)
    }

    /// Counts a change that is not made, and writes it down.
    async fn refuse(
        &mut self,
        target: &Target,
        by: Resolved,
        why: (Operation, Cause),
        images: (Option<&Values>, Option<&Values>),
    ) -> Result<(), SqlError> {
        let at = Function::ALL.iter().position(|function| *function == by.function);
        if let Some(count) = at.and_then(|at| self.conflicts.get_mut(at)) {
            *count += 1;
        }
        self.conflict_number += 1;
        let TableDefinition { database, name, .. } = &*target.definition;
        let of = |ending: &str| TableName {
            database: database.clone(),
            name: format!("{name}{ending}"),
        };
        let found = [EXCEPTIONS, "$ex"]
            .iter()
            .find_map(|ending| self.session.permanent_named(&of(ending)).ok());
        let Some(exceptions) = found else { return Ok(()) };
        let mut names = Vec::new();
        let mut values = Vec::new();
        for (place, column) in exceptions.visible_columns().iter().enumerate() {
            if let Some(value) = self.told(target, (place, column), why, images) {
                names.push(quoted(&column.name));
                values.push(value);
            }
        }
        let table = format!("{}.{}", quoted(database), quoted(&exceptions.name));
        let marks = vec!["?"; names.len()].join(",");
        let text = format!("INSERT INTO {table} ({}) VALUES ({marks})", names.join(","));
        let parsed = self.session.parse_at(text.as_bytes(), 0);
        let parsed = parsed.map_err(|error| crate::error::of_parser(&error))?;
        let written = self.run(&Prepared::of_parsed(parsed), &values).await;
        written.map(drop).map_err(|error| {
            let why = format!(
                "a conflict cannot be written to {}.{}: {}",
                exceptions.database,
                exceptions.name,
                error.message()
            );
            self.could_not("Write_rows", target, &SqlError::new(error.code(), "HY000", why))
        })
    }

    /// What a column of an exceptions table says; none for one that keeps its default.
    fn told(
        &self,
        target: &Target,
        of: (usize, &ColumnDefinition),
        why: (Operation, Cause),
        images: (Option<&Values>, Option<&Values>),
    ) -> Option<Datum> {
        let ((place, column), (operation, cause), (before, after)) = (of, why, images);
        if column.is_computed() {
            return None;
        }
        let text = |text: &str| Datum::Bytes(text.as_bytes().into());
        let upper = column.name.to_uppercase();
        let bare = upper.strip_prefix(PREFIX);
        let part = self.place.parts * PER_PART;
        let server = self.place.origin.map_or(0, |origin| origin.server);
        match bare.or((place < UNPREFIXED).then_some(upper.as_str())) {
            Some("SERVER_ID") => return Some(Datum::UInt(self.own_server.into())),
            Some("SOURCE_SERVER_ID" | "MASTER_SERVER_ID") => {
                return Some(Datum::UInt(server.into()));
            }
            Some("SOURCE_EPOCH" | "MASTER_EPOCH") => {
                return Some(Datum::UInt(self.source_number()));
            }
            Some("COUNT") => return Some(Datum::UInt(part + self.conflict_number)),
            Some("OP_TYPE") if bare.is_some() => return Some(text(name_of(operation))),
            Some("CFT_CAUSE") if bare.is_some() => return Some(text(cause.name())),
            Some("ORIG_TRANSID") if bare.is_some() => {
                return Some(if column.nullable { Datum::Null } else { Datum::UInt(0) });
            }
            _ => {}
        }
        let of = |image: Option<&Values>, name: &str| -> Option<Datum> {
            let is_named = |at: &usize| {
                target.column(*at).is_some_and(|column| column.name.eq_ignore_ascii_case(name))
            };
            let at = (0..target.places.len()).find(is_named)?;
            image?.get(at).cloned().flatten()
        };
        let ending = |ending: &str| {
            let bare = upper.strip_suffix(ending)?;
            Some(&column.name[..bare.len()])
        };
        if let Some(name) = ending("$OLD") {
            return of(before, name);
        }
        if let Some(name) = ending("$NEW") {
            return of(after, name);
        }
        of(before.or(after), &column.name)
    }

    /// What tells a transaction of the source from others: the number of its GTID, or its place.
    fn source_number(&self) -> u64 {
        let digits = self.at.file.rsplit('.').next().and_then(|digits| digits.parse::<u64>().ok());
        let place = digits.unwrap_or(0) << 32 | self.at.end;
        self.group.number().unwrap_or(place)
    }
}
