//! Rows to be stored: defaults, conversion to column types, generated columns, constraints.
//!
//! # Owns
//! [`RowMaker`], what a statement has to know of a table to write rows of it.
//! # Guarantees
//! A row that leaves here fits its table: what does not fit is MySQL's error, or its warning where
//! the SQL mode or IGNORE asks for one.

use std::collections::BTreeSet;
use std::rc::Rc;

use model::Value;
use sql_expression::{
    Binder, Clause, ErrorText, Expression, Level, Node, ResultType, Scope, ScopeTable, SqlError,
    SqlMode,
};
use sqltype::{Converter, Datum, Place, Problem, Problems, SqlType, StoreMode, TypeKind, storage};

use crate::catalog::Hidden;
use crate::catalog::default::{implicit_default, literal_bits};
use crate::catalog::{ColumnDefault, ColumnDefinition, KeyDefinition, TableDefinition};
use crate::execute::reference::Links;
use crate::execute::run::Run;
use crate::logical::binder::QueryBinder;
use crate::logical::formula::Formula;
use crate::logical::from::definition_columns;
use crate::logical::from_table::ViewCheck;
use crate::rows::Row;

/// What is needed to write rows of a table.
#[derive(Debug)]
pub(crate) struct RowMaker {
    pub(crate) definition: Rc<TableDefinition>,
    defaults: Vec<Default>,
    generated: Vec<(usize, Formula)>,
    /// Columns that hold the beginnings of others.
    hidden: Vec<(usize, Hidden)>,
    checks: Vec<(String, Formula)>,
    /// What a view asks for that rows are written through.
    pub(crate) view_check: Option<Rc<ViewCheck>>,
    /// What its foreign keys ask for, and those that refer to it.
    pub(crate) links: Rc<Links>,
    /// IGNORE: what does not fit is made to fit, with a warning.
    pub(crate) ignore: bool,
    /// Columns of unique keys, which messages about duplicates show.
    in_messages: BTreeSet<usize>,
    /// The kernel's columns that the definition does not have.
    kernel_only: Vec<usize>,
}

/// What a column gets that is not given.
#[derive(Debug)]
enum Default {
    None,
    Value(Datum),
    Formula(Formula),
    Now(u8),
}

impl RowMaker {
    /// Binds what the table's definition says by expressions.
    pub(crate) fn new(
        binding: &mut QueryBinder<'_>,
        definition: &Rc<TableDefinition>,
        ignore: bool,
    ) -> Result<Self, SqlError> {
        let mut scope = Scope::new(None);
        let schema = Some(definition.database.as_str().into());
        let columns = definition_columns(definition, &definition.name);
        let name = definition.name.as_str().into();
        scope.add(ScopeTable { schema, name, columns, offset: 0 });
        let mut binder = Binder::new(&scope, binding);
        let (mut defaults, mut generated) = (Vec::new(), Vec::new());
        for (at, column) in definition.columns.iter().enumerate() {
            defaults.push(match &column.default {
                ColumnDefault::None if column.nullable && !column.is_computed() => {
                    Default::Value(Datum::Null)
                }
                // MySQL takes the first member, and says nothing.
                ColumnDefault::None if is_enum(&column.sql_type) => {
                    Default::Value(implicit_default(&column.sql_type))
                }
                ColumnDefault::None => Default::None,
                ColumnDefault::Value(value) => Default::Value(value.clone()),
                ColumnDefault::Now(digits) => Default::Now(*digits),
                ColumnDefault::Expression(expr) => {
                    Default::Formula(Formula::new(binder.bind(expr, Clause::Definition)?))
                }
            });
            if let Some(of) = &column.generated {
                let formula = Formula::new(binder.bind(&of.expression, Clause::Definition)?);
                generated.push((at, formula));
            }
        }
        let mut checks = Vec::new();
        for check in definition.checks.iter().filter(|check| check.enforced) {
            let formula = Formula::new(binder.bind(&check.expression, Clause::Check)?);
            checks.push((check.name.clone(), formula));
        }
        let links = Links::planned(binding, definition)?;
        let columns = definition.columns.iter().enumerate();
        let beginnings = columns.filter_map(|(at, column)| Some((at, column.hidden?)));
        let hidden = beginnings.filter(|(_, hidden)| *hidden != Hidden::Expression).collect();
        let unique = definition.keys.iter().filter(|key| key.is_unique());
        let in_messages = unique.flat_map(|key| &key.columns).map(|part| part.decides).collect();
        let mut known = vec![false; definition.table.columns.len()];
        definition.columns.iter().for_each(|column| known[usize::from(column.column.0)] = true);
        let kernel_only = (0..known.len()).filter(|at| !known[*at]).collect();
        Ok(Self {
            definition: definition.clone(),
            defaults,
            generated,
            hidden,
            checks,
            view_check: None,
            links,
            ignore,
            in_messages,
            kernel_only,
        })
    }

    /// Whether rows are stored as given: nothing is computed, and no CHECK is looked at.
    pub(crate) fn is_plain(&self) -> bool {
        self.generated.is_empty()
            && self.hidden.is_empty()
            && self.checks.is_empty()
            && self.view_check.is_none()
            && self.definition.columns.iter().all(|column| column.on_update_now.is_none())
    }

    fn column(&self, at: usize) -> &ColumnDefinition {
        &self.definition.columns[at]
    }

    /// Fills the columns that were not given: first those whose default is a value, then those with
    /// an expression, which may read any of the others.
    pub(crate) async fn add_defaults(
        &self,
        run: &mut Run<'_>,
        row: &mut Row,
        given: &[bool],
    ) -> Result<(), SqlError> {
        let is_formula = |at: &usize| matches!(self.defaults[*at], Default::Formula(_));
        let missing = || (0..self.defaults.len()).filter(|at| !given[*at]);
        for at in missing().filter(|at| !is_formula(at)) {
            row[at] = self.default(run, at, row).await?;
        }
        for at in missing().filter(is_formula) {
            row[at] = self.default(run, at, row).await?;
        }
        Ok(())
    }

    /// What a column is before the statement says its value: its default, or its type's zero.
    pub(crate) async fn initial(
        &self,
        run: &mut Run<'_>,
        at: usize,
        row: &[Datum],
    ) -> Result<Datum, SqlError> {
        match self.defaults[at] {
            Default::None => Ok(implicit_default(&self.column(at).sql_type)),
            _ => self.default(run, at, row).await,
        }
    }

    /// The value of a column that was not given.
    pub(crate) async fn default(
        &self,
        run: &mut Run<'_>,
        at: usize,
        row: &[Datum],
    ) -> Result<Datum, SqlError> {
        let column = self.column(at);
        match &self.defaults[at] {
            Default::Value(value) => {
                let zone = &run.context.facts.time_zone;
                Ok(crate::catalog::default::in_zone(value, &column.sql_type, zone))
            }
            Default::Now(digits) => Ok(Datum::DateTime(now(run).truncate(*digits))),
            Default::Formula(formula) => {
                let value = run.unrounded(formula, row).await?;
                self.store_result(run, at, value, &formula.expression.result)
            }
            Default::None if column.auto_increment || column.is_computed() => Ok(Datum::Null),
            Default::None => {
                let missing = SqlError::of::<1364>(&[&column.name]);
                if run.context.strict && !self.ignore {
                    return Err(missing);
                }
                run.context.note(Level::Warning, missing);
                Ok(implicit_default(&column.sql_type))
            }
        }
    }

    /// The value as the column stores it. NULL passes: see [`RowMaker::complete`].
    pub(crate) fn store(
        &self,
        run: &mut Run<'_>,
        at: usize,
        value: Datum,
        of: &SqlType,
    ) -> Result<Datum, SqlError> {
        if value.is_null() {
            return Ok(value);
        }
        let column = self.column(at);
        let mode = run.context.facts.sql_mode;
        let store_mode = StoreMode {
            strict: run.context.strict && !self.ignore,
            no_zero_date: mode.contains(SqlMode::NO_ZERO_DATE),
            no_zero_in_date: mode.contains(SqlMode::NO_ZERO_IN_DATE),
            truncate_fractions: mode.contains(SqlMode::TIME_TRUNCATE_FRACTIONAL),
        };
        let facts = run.context.facts.clone();
        let mut problems = Problems::new();
        let mut converter = Converter {
            mode: store_mode,
            zone: &facts.time_zone,
            now: run.context.now,
            problems: &mut problems,
        };
        let place = Place {
            table: &self.definition.name,
            column: &column.name,
            row: run.context.row_number,
        };
        let stored = converter.store(value, of, &column.sql_type, place);
        for problem in problems.list() {
            let level = if problem.is_note { Level::Note } else { Level::Warning };
            run.context.note(level, of_problem(problem));
        }
        stored.map_err(|problem| of_problem(&problem))
    }

    /// As [`RowMaker::store`], for what an expression came to. The type of a parameter is its
    /// value's: the plan may have been made for another.
    pub(crate) fn store_value(
        &self,
        run: &mut Run<'_>,
        at: usize,
        value: Datum,
        of: &Expression,
    ) -> Result<Datum, SqlError> {
        if matches!(of.node, Node::Parameter(_)) {
            let of = run.session.type_of(&value).sql_type;
            return self.store(run, at, value, &of);
        }
        self.store_result(run, at, value, &of.result)
    }

    /// As [`RowMaker::store`], for a result: a hexadecimal or bit literal is a number in a column
    /// of numbers.
    pub(crate) fn store_result(
        &self,
        run: &mut Run<'_>,
        at: usize,
        value: Datum,
        of: &ResultType,
    ) -> Result<Datum, SqlError> {
        if of.bits {
            let (value, of) = literal_bits(value, of.sql_type.clone(), &self.column(at).sql_type);
            self.store(run, at, value, &of)
        } else {
            self.store(run, at, value, &of.sql_type)
        }
    }

    /// Computes generated columns and checks NOT NULL and CHECK. A NULL that is not allowed becomes
    /// the type's zero with a warning where `lenient` or IGNORE says so.
    pub(crate) async fn complete(
        &self,
        run: &mut Run<'_>,
        row: &mut Row,
        lenient: bool,
    ) -> Result<(), SqlError> {
        for (at, formula) in &self.generated {
            let value = run.unrounded(formula, row).await?;
            row[*at] = self.store_result(run, *at, value, &formula.expression.result)?;
        }
        for (at, value) in row.iter_mut().enumerate() {
            let column = &self.definition.columns[at];
            if value.is_null() && !column.nullable && column.hidden.is_none() {
                let error = SqlError::of::<1048>(&[&column.name]);
                if !self.ignore && !lenient {
                    return Err(error);
                }
                run.context.note(Level::Warning, error);
                *value = implicit_default(&column.sql_type);
            }
        }
        for (at, hidden) in &self.hidden {
            if let Some(value) = hidden.value(row) {
                row[*at] = value;
            }
        }
        for (name, formula) in &self.checks {
            if !formula.is_ready() {
                run.prepare(&formula.expression, row).await?;
            }
            if formula.expression.truth(row, &mut run.context)? == Some(false) {
                return Err(SqlError::of::<3819>(&[name]));
            }
        }
        if let Some(check) = &self.view_check
            && !run.all_hold(&check.conditions, row).await?
        {
            let message = format!("CHECK OPTION failed '{}'", check.view);
            return Err(SqlError::new(1369, "HY000", message));
        }
        Ok(())
    }

    /// Whether a row is left out for this error, and the others are stored: IGNORE, over a CHECK or
    /// the CHECK OPTION of a view.
    pub(crate) fn leaves_out(&self, error: &SqlError) -> bool {
        self.ignore && matches!(error.code(), 1369 | 3819)
    }

    /// The row as the kernel stores it: one value for each of its columns.
    pub(crate) fn kernel_row(&self, run: &Run<'_>, row: &[Datum], hidden_key: u64) -> Vec<Value> {
        let mut values = self.kernel_defaults();
        for (column, datum) in self.definition.columns.iter().zip(row) {
            values[usize::from(column.column.0)] = kernel_value(run, datum, &column.sql_type);
        }
        self.set_hidden_key(&mut values, hidden_key);
        values
    }

    /// As [`RowMaker::kernel_row`], of a row that is of no more use than for messages: texts that
    /// are in no unique key are moved, not copied.
    pub(crate) fn moved_kernel_row(
        &self,
        run: &Run<'_>,
        row: &mut Row,
        hidden_key: u64,
    ) -> Vec<Value> {
        let mut values = self.kernel_defaults();
        for (at, (column, datum)) in self.definition.columns.iter().zip(row).enumerate() {
            values[usize::from(column.column.0)] = match datum {
                Datum::Bytes(_) | Datum::Json(_) if !self.in_messages.contains(&at) => {
                    storage::into_value(std::mem::replace(datum, Datum::Null), &column.sql_type)
                }
                _ => kernel_value(run, datum, &column.sql_type),
            };
        }
        self.set_hidden_key(&mut values, hidden_key);
        values
    }

    /// A value for each column of the kernel's: its default, if no column of the definition has it.
    fn kernel_defaults(&self) -> Vec<Value> {
        let mut values = vec![Value::Null; self.definition.table.columns.len()];
        for at in &self.kernel_only {
            values[*at] = self.definition.table.columns[*at].default.clone();
        }
        values
    }

    fn set_hidden_key(&self, values: &mut [Value], hidden_key: u64) {
        if let Some(key) = self.definition.hidden_key {
            values[usize::from(key.0)] = Value::UInt(hidden_key);
        }
    }

    /// The primary key of a row as the kernel has it.
    pub(crate) fn primary_key(&self, values: &[Value]) -> Vec<Value> {
        self.definition.key_of(values)
    }

    /// Whether the kernel's name of a unique index (nothing for the primary key) is that of the
    /// last unique key, in the order in which MySQL looks at them: the primary key, keys without
    /// NULL, all others.
    pub(crate) fn is_last_unique_key(&self, index: Option<&str>) -> bool {
        let of_index = self.unique_key(index);
        let unique = self.definition.keys.iter().filter(|key| key.is_unique());
        let may_be_null =
            |key: &KeyDefinition| key.columns.iter().any(|part| self.column(part.decides).nullable);
        let last = unique.max_by_key(|key| (key.unique.is_some(), may_be_null(key)));
        last.zip(of_index).is_some_and(|(last, of_index)| last.name == of_index.name)
    }

    /// The key with the kernel's name of a unique index; nothing for the primary key.
    fn unique_key(&self, index: Option<&str>) -> Option<&KeyDefinition> {
        let Some(name) = index else { return self.definition.primary_key() };
        // The kernel names the index with its table.
        let table = &self.definition.table;
        let own = name.strip_prefix(&table.name).and_then(|rest| rest.strip_prefix('.'));
        let name = own.unwrap_or(name);
        let index = table.unique_indexes.iter().find(|index| index.name == name)?.id;
        self.definition.keys.iter().find(|key| key.unique == Some(index))
    }

    /// Error 1062 for a row that the kernel refused; `index` is the kernel's name of the unique
    /// index, nothing for the primary key.
    pub(crate) fn duplicate(&self, index: Option<&str>, row: &[Datum]) -> SqlError {
        let key = self.unique_key(index);
        let name = key.map_or("PRIMARY", |key| key.name.as_str());
        let parts = key.map(|key| key.columns.as_slice()).unwrap_or_default();
        let texts: Vec<String> = parts
            .iter()
            .map(|part| {
                let sql_type = &self.column(part.decides).sql_type;
                shown(&row[part.decides], sql_type)
            })
            .collect();
        let key = format!("{}.{name}", self.definition.name);
        SqlError::of::<1062>(&[&texts.join("-"), &key])
    }
}

/// A problem of a value as an error: its SQLSTATE is the table's.
pub(crate) fn of_problem(problem: &Problem) -> SqlError {
    let state = ErrorText::of(problem.code)
        .map_or("HY000", |entry| std::str::from_utf8(entry.state).unwrap_or("HY000"));
    SqlError::new(problem.code, state, problem.message.clone())
}

/// A value in a message.
pub(crate) fn shown(datum: &Datum, sql_type: &SqlType) -> String {
    match datum {
        Datum::Null => "NULL".to_owned(),
        Datum::Bytes(text) | Datum::Json(text) => String::from_utf8_lossy(text).into_owned(),
        other => {
            let mut text = String::new();
            sqltype::format::push_text(&mut text, other, sql_type);
            text
        }
    }
}

/// A value as the kernel stores it: timestamps in UTC.
pub(crate) fn kernel_value(run: &Run<'_>, datum: &Datum, sql_type: &SqlType) -> Value {
    match (datum, &sql_type.kind) {
        (Datum::DateTime(local), TypeKind::Timestamp) => {
            let moment = run.context.facts.time_zone.moment(*local);
            Value::UInt(moment.and_then(|micros| u64::try_from(micros).ok()).unwrap_or(0))
        }
        _ => storage::to_value(datum, sql_type),
    }
}

/// NOW() in the session's time zone.
pub(crate) fn now(run: &Run<'_>) -> sqltype::DateTime {
    run.context.facts.time_zone.local(run.context.now)
}

/// Whether a column has a default though none was declared: the first member.
pub(crate) fn is_enum(sql_type: &SqlType) -> bool {
    matches!(sql_type.kind, TypeKind::Enum(_))
}
