//! A definition in the making: what CREATE TABLE says, or what ALTER TABLE changes.
//!
//! # Owns
//! [`Draft`], its reading from a syntax tree, and the checks of a table as a whole.
//! # Guarantees
//! A complete definition is one the kernel takes, within the limits that are known here.
//! # Not here
//! Columns and keys one by one (`column`, `key`), options (`option`).

use std::collections::BTreeSet;

use collation::CollationId;
use sql_expression::{SqlError, same_name};
use sql_parser::ast::{self, TableBody, TableConstraint};
use sqltype::{SqlType, TypeKind};

use super::foreign_key::{self, ForeignKeyDraft};
use super::key::{self, KeyDraft};
use super::rules::Rules;
use super::{
    CheckDefinition, ColumnDefault, ColumnDefinition, Complete, KeyDefinition, TableDefinition,
    TableOptions, column, error, expression, hidden, option,
};

/// Most columns of a table.
const COLUMNS_MAX: usize = model::schema::COLUMNS_MAX - 2;
/// Longest row of MySQL, texts and blobs left out.
const ROW_SIZE_MAX: usize = 65_535;

/// A definition in the making. Keys name their columns, so columns may come, go and move.
#[derive(Clone, Debug, Default)]
pub(crate) struct Draft {
    pub(crate) columns: Vec<ColumnDefinition>,
    pub(crate) keys: Vec<KeyDraft>,
    pub(crate) checks: Vec<CheckDraft>,
    pub(crate) foreign_keys: Vec<ForeignKeyDraft>,
    pub(crate) options: TableOptions,
}

/// A CHECK constraint in the making.
#[derive(Clone, Debug)]
pub(crate) struct CheckDraft {
    /// The name; generated if there is none.
    pub(crate) name: Option<String>,
    /// The condition.
    pub(crate) expression: Box<ast::Expr>,
    /// NOT ENFORCED is false.
    pub(crate) enforced: bool,
    /// The column it was declared at.
    pub(crate) of_column: Option<String>,
}

/// Under which names of columns are the same (`same_name`).
const NAMES: CollationId = CollationId::UTF8MB3_GENERAL_CI;

impl Draft {
    /// What a CREATE TABLE says; `of_database` is the collation of a table that names none.
    pub(crate) fn read(
        body: &TableBody,
        of_database: CollationId,
        rules: &mut Rules<'_>,
    ) -> Result<Self, SqlError> {
        let options = option::define(&body.options, of_database, rules)?;
        let mut draft = Self { options, ..Self::default() };
        // A table may have thousands of columns: names are not compared with each other.
        let mut names = BTreeSet::new();
        for declared in &body.columns {
            let column = column::define(declared, draft.options.collation.0, rules)?;
            let mut name = Vec::new();
            collation::sort_key(NAMES, column.name.as_bytes(), &mut name);
            if !names.insert(name) {
                return Err(error::duplicate_column(&column.name));
            }
            draft.columns.push(column);
            draft.add_column_constraints(declared, rules)?;
        }
        for constraint in &body.constraints {
            draft.add_constraint(constraint, rules)?;
        }
        if let Some(partitioning) = &body.partitioning {
            draft.options.partitioning = Some(option::partitioning(partitioning, rules)?);
        }
        Ok(draft)
    }

    /// What a table is now, to be altered.
    pub(crate) fn of(definition: &TableDefinition) -> Self {
        let checks = definition.checks.iter().map(|check| CheckDraft {
            name: Some(check.name.clone()),
            expression: check.expression.clone(),
            enforced: check.enforced,
            of_column: None,
        });
        let columns = &definition.columns;
        let foreign_key = |key| ForeignKeyDraft::of(key, columns);
        Self {
            foreign_keys: definition.foreign_keys.iter().map(foreign_key).collect(),
            keys: definition.keys.iter().map(|key| KeyDraft::of(key, columns)).collect(),
            checks: checks.collect(),
            columns: definition.visible_columns().to_vec(),
            options: definition.options.clone(),
        }
    }

    /// Adds a column with the keys and checks said at it; at the end if no position is given.
    pub(crate) fn add_column(
        &mut self,
        declared: &ast::ColumnDefinition,
        position: Option<usize>,
        rules: &mut Rules<'_>,
    ) -> Result<(), SqlError> {
        let column = column::define(declared, self.options.collation.0, rules)?;
        if super::column_named(&self.columns, &column.name).is_some() {
            return Err(error::duplicate_column(&column.name));
        }
        let at = position.unwrap_or(self.columns.len()).min(self.columns.len());
        self.columns.insert(at, column);
        self.add_column_constraints(declared, rules)
    }

    /// Adds the keys and checks that are said at a column.
    pub(crate) fn add_column_constraints(
        &mut self,
        declared: &ast::ColumnDefinition,
        rules: &mut Rules<'_>,
    ) -> Result<(), SqlError> {
        let name = declared.name.as_str();
        let attributes = &declared.attributes;
        if attributes.primary_key {
            self.keys.push(KeyDraft::of_column(name, super::KeyKind::Primary));
        }
        if attributes.unique || declared.data_type == ast::DataType::Serial {
            self.keys.push(KeyDraft::of_column(name, super::KeyKind::Unique));
        }
        for check in &attributes.checks {
            self.add_check(check, Some(name), rules)?;
        }
        Ok(())
    }

    /// Adds a key, a foreign key or a check.
    pub(crate) fn add_constraint(
        &mut self,
        constraint: &TableConstraint,
        rules: &mut Rules<'_>,
    ) -> Result<(), SqlError> {
        match constraint {
            TableConstraint::Index(index) => {
                self.keys.push(KeyDraft::read(index, rules)?);
                Ok(())
            }
            TableConstraint::Check(check) => self.add_check(check, None, rules),
            TableConstraint::ForeignKey(declared) => {
                self.foreign_keys.push(ForeignKeyDraft::read(declared, rules)?);
                Ok(())
            }
        }
    }

    fn add_check(
        &mut self,
        check: &ast::CheckConstraint,
        of_column: Option<&str>,
        rules: &Rules<'_>,
    ) -> Result<(), SqlError> {
        let name = check.name.as_ref().map(|name| name.as_str().to_owned());
        if let Some(name) = &name {
            super::names::check_length(name)?;
        }
        let mut expression = Box::new(check.expr.clone());
        column::unqualify(&mut expression, rules)?;
        let of_column = of_column.map(str::to_owned);
        self.checks.push(CheckDraft { name, expression, enforced: check.enforced, of_column });
        Ok(())
    }

    /// The position of a column.
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        super::column_named(&self.columns, name).map(|(at, _)| at)
    }

    /// Resolves and checks the whole.
    pub(crate) fn complete(mut self, rules: &mut Rules<'_>) -> Result<Complete, SqlError> {
        self.check_columns()?;
        key::make_primary_not_null(&mut self.columns, &self.keys);
        let foreign_keys = foreign_key::complete(&self.columns, self.foreign_keys.clone(), rules)?;
        foreign_key::add_keys(&mut self.keys, &self.foreign_keys);
        hidden::add_expressions(&mut self.columns, &self.keys, rules.table)?;
        let mut keys = key::complete(&self.columns, self.keys, rules)?;
        hidden::hold_prefixes(&mut self.columns, &mut keys);
        key::check_held(&self.columns, &keys)?;
        if self.columns.len() > COLUMNS_MAX {
            return Err(error::too_many_columns());
        }
        check_auto_increment(&self.columns, &keys)?;
        option::check_partitioning(&self.options, &self.columns, &keys)?;
        check_dependencies(&self.columns)?;
        let checks = complete_checks(&self.columns, self.checks, rules.table)?;
        if !rules.from_catalog {
            foreign_key::check_checks(&self.columns, &foreign_keys, &checks)?;
            expression::bind(rules.table, &self.columns, &checks, &rules.context)?;
        }
        let (columns, options) = (self.columns, self.options);
        Ok(Complete { columns, keys, checks, foreign_keys, options })
    }

    fn check_columns(&self) -> Result<(), SqlError> {
        if self.columns.is_empty() {
            return Err(error::no_columns());
        }
        if self.columns.len() > COLUMNS_MAX {
            return Err(error::too_many_columns());
        }
        if self.columns.iter().all(|column| column.invisible) {
            return Err(error::no_visible_column());
        }
        check_row_size(&self.columns)
    }
}

/// Refuses rows longer than MySQL's limit, or than the kernel's where MySQL counts less.
fn check_row_size(columns: &[ColumnDefinition]) -> Result<(), SqlError> {
    let nullable = columns.iter().filter(|column| column.nullable).count();
    let declared: usize = columns.iter().map(|column| packed_size(&column.sql_type)).sum();
    if declared + nullable.div_ceil(8) > ROW_SIZE_MAX {
        return Err(error::row_too_large(ROW_SIZE_MAX));
    }
    let stored = |column: &ColumnDefinition| {
        sqltype::storage::storage_type(&column.sql_type).size_in_fixed_part()
    };
    let stored: usize = columns.iter().map(stored).sum();
    if 16 + stored + nullable.div_ceil(8) > model::schema::ROW_SIZE_MAX {
        Err(error::row_too_large(model::schema::ROW_SIZE_MAX))
    } else {
        Ok(())
    }
}

/// The bytes of a column in MySQL's row, which its limit counts.
fn packed_size(sql_type: &SqlType) -> usize {
    let width = usize::from(sql_type.collation.charset().max_len());
    let digits = usize::from(sql_type.decimals.min(6)).div_ceil(2);
    match &sql_type.kind {
        TypeKind::Null => 0,
        TypeKind::TinyInt | TypeKind::Year => 1,
        TypeKind::SmallInt => 2,
        TypeKind::MediumInt | TypeKind::Date => 3,
        TypeKind::Int | TypeKind::Float => 4,
        TypeKind::BigInt | TypeKind::Double => 8,
        TypeKind::Decimal => sql_type.length as usize / 2 + 1,
        TypeKind::Bit => (sql_type.length as usize).div_ceil(8),
        TypeKind::Time => 3 + digits,
        TypeKind::DateTime => 5 + digits,
        TypeKind::Timestamp => 4 + digits,
        TypeKind::Char => sql_type.length as usize * width,
        TypeKind::VarChar => {
            let size = sql_type.length as usize * width;
            size + if size > 255 { 2 } else { 1 }
        }
        TypeKind::TinyText => 9,
        TypeKind::Text => 10,
        TypeKind::MediumText => 11,
        TypeKind::LongText | TypeKind::Json => 12,
        TypeKind::Enum(members) => {
            if members.len() > 255 {
                2
            } else {
                1
            }
        }
        TypeKind::Set(members) => match members.len() {
            0..=8 => 1,
            9..=16 => 2,
            17..=24 => 3,
            25..=32 => 4,
            _ => 8,
        },
    }
}

/// At most one AUTO_INCREMENT column, and it begins a key.
fn check_auto_increment(
    columns: &[ColumnDefinition],
    keys: &[KeyDefinition],
) -> Result<(), SqlError> {
    let mut automatic = columns.iter().enumerate().filter(|(_, column)| column.auto_increment);
    let Some((at, _)) = automatic.next() else { return Ok(()) };
    let begins_key = keys.iter().any(|key| key.columns[0].declared == at);
    if begins_key && automatic.next().is_none() { Ok(()) } else { Err(error::wrong_auto_column()) }
}

/// Columns in expressions of columns exist, and are computed before they are read.
fn check_dependencies(columns: &[ColumnDefinition]) -> Result<(), SqlError> {
    for (at, column) in columns.iter().enumerate() {
        let (expr, is_generated) = match (&column.generated, &column.default) {
            (Some(generated), _) => (&generated.expression, true),
            (None, ColumnDefault::Expression(expr)) => (expr, false),
            _ => continue,
        };
        for name in expression::columns(expr) {
            let Some((other_at, other)) = super::column_named(columns, name) else {
                let clause = if is_generated {
                    "generated column function"
                } else {
                    "default value expression"
                };
                return Err(error::unknown_column(name, clause));
            };
            let computed =
                other.generated.is_some() || matches!(other.default, ColumnDefault::Expression(_));
            if is_generated && other.auto_increment {
                return Err(error::generated_of_auto_increment(&column.name));
            }
            if is_generated && other.generated.is_some() && other_at >= at {
                return Err(error::generated_not_prior());
            }
            if !is_generated && other.auto_increment {
                return Err(error::default_of_auto_increment(&column.name));
            }
            if !is_generated && computed && other_at >= at {
                return Err(error::default_not_prior(&column.name));
            }
        }
    }
    Ok(())
}

/// Names and checks CHECK constraints.
fn complete_checks(
    columns: &[ColumnDefinition],
    drafts: Vec<CheckDraft>,
    table: &str,
) -> Result<Vec<CheckDefinition>, SqlError> {
    let mut ordinal = drafts
        .iter()
        .filter_map(|draft| generated_ordinal(draft.name.as_deref()?, table))
        .max()
        .unwrap_or(0);
    let mut checks: Vec<CheckDefinition> = Vec::with_capacity(drafts.len());
    for draft in drafts {
        let name = draft.name.unwrap_or_else(|| {
            ordinal += 1;
            generated_check_name(table, ordinal)
        });
        if checks.iter().any(|check| same_name(&check.name, &name)) {
            return Err(error::duplicate_check(&name));
        }
        expression::check(expression::Place::Check(&name), &draft.expression)?;
        for column in expression::columns(&draft.expression) {
            let Some((_, found)) = super::column_named(columns, column) else {
                return Err(error::check_of_unknown_column(&name, column));
            };
            if found.auto_increment {
                return Err(error::check_of_auto_increment(&name));
            }
            if draft.of_column.as_ref().is_some_and(|own| !same_name(own, column)) {
                return Err(error::check_of_other_column(&name));
            }
        }
        checks.push(CheckDefinition {
            name,
            expression: draft.expression,
            enforced: draft.enforced,
        });
    }
    Ok(checks)
}

/// Between the table's name and the number in the name of a CHECK that was given none.
const CHECK_NAME_INFIX: &str = "_chk_";

/// The name of a check that was given none.
pub(crate) fn generated_check_name(table: &str, ordinal: u32) -> String {
    format!("{table}{CHECK_NAME_INFIX}{ordinal}")
}

/// The number in the generated name of a check of this table.
pub(crate) fn generated_ordinal(name: &str, table: &str) -> Option<u32> {
    name.strip_prefix(table)?.strip_prefix(CHECK_NAME_INFIX)?.parse().ok()
}
