//! JSON_TABLE: what its clauses say, with names and types resolved.
//!
//! # Owns
//! [`JsonTable`], the levels of paths and the columns at each; the conversion of a JSON value to
//! the value of a column, which a default needs when it is planned.
//! # Guarantees
//! Paths are parsed and defaults fit their columns before the first row is read.
//! # Not here
//! Making rows of a document (`execute::json_table`).

use std::sync::Arc;

use collation::CollationId;
use sql_expression::{Binder, Clause, ResultType, Scope, SessionFacts, SqlError, json_scalar};
use sql_parser::ast;
use sqltype::json::{Json, JsonPath};
use sqltype::{Converter, Datum, Place, Problem, Problems, SqlType, StoreMode, TypeKind};

use crate::catalog::column;
use crate::catalog::rules::Rules;
use crate::logical::binder::QueryBinder;
use crate::logical::bound::{BoundQuery, Relation};
use crate::logical::formula::Formula;
use crate::logical::json_levels::{JsonColumn, JsonColumnKind, JsonTable, Level, Response};
use crate::result::ResultColumn;

/// Why a JSON value does not become the value of a column.
pub(crate) enum Misfit {
    /// It is an array or an object, and the column is not of type JSON.
    Structure,
    /// The column's type refuses it.
    Problem(Problem),
}

/// Binds a call as a query that sees `parent`: the tables before it in FROM, and enclosing blocks.
pub(crate) fn bind(
    binding: &mut QueryBinder<'_>,
    table: &ast::JsonTable,
    parent: Option<&Scope<'_>>,
) -> Result<BoundQuery, SqlError> {
    binding.enclosed(|binding| {
        let scope = Scope::new(parent);
        let mut binder = Binder::new(&scope, binding);
        let document = binder.bind(&table.document, Clause::TableFunction)?;
        if document.width() != 1 {
            return Err(SqlError::operand_columns(1));
        }
        if binder.bound_to_session {
            binding.once = true;
        }
        let mut clauses = Clauses {
            rules: binding.session.definition_rules(table.alias.as_str()),
            collation: binding.facts().collation,
            facts: binding.facts(),
            now: binding.settings.now,
            columns: Vec::new(),
        };
        let rows = clauses.level(&table.path, &table.columns)?;
        let columns = clauses.columns;
        let results: Vec<ResultType> =
            columns.iter().map(|column| ResultType::column(column.1.clone(), true)).collect();
        let table = JsonTable { document: Formula::new(document), rows, width: columns.len() };
        Ok(BoundQuery::new(
            columns.into_iter().map(|(name, of)| ResultColumn::new(&name, of)).collect(),
            Relation::JsonTable(Box::new(table)),
            results,
            !scope.outer_columns().is_empty(),
        ))
    })
}

/// The clauses of a call while they are resolved.
struct Clauses<'f> {
    rules: Rules<'f>,
    /// The collation of texts that name none.
    collation: CollationId,
    facts: &'f Arc<SessionFacts>,
    now: i64,
    /// Names and types of the columns so far, in the order in which they are written.
    columns: Vec<(String, SqlType)>,
}

impl Clauses<'_> {
    fn level(&mut self, path: &str, declared: &[ast::JsonTableColumn]) -> Result<Level, SqlError> {
        let path = parsed(path)?;
        let (mut columns, mut nested) = (Vec::new(), Vec::new());
        for column in declared {
            match column {
                ast::JsonTableColumn::Ordinality(name) => {
                    let sql_type = SqlType { unsigned: true, ..SqlType::new(TypeKind::Int, 10) };
                    columns.push(self.column(name, sql_type, JsonColumnKind::Ordinality)?);
                }
                ast::JsonTableColumn::Value(value) => columns.push(self.value(value)?),
                ast::JsonTableColumn::Nested { path, columns } => {
                    nested.push(self.level(path, columns)?);
                }
            }
        }
        Ok(Level { path, columns, nested })
    }

    fn column(
        &mut self,
        name: &ast::Ident,
        sql_type: SqlType,
        kind: JsonColumnKind,
    ) -> Result<JsonColumn, SqlError> {
        column::check_name(name.as_str())?;
        let place = self.columns.len();
        self.columns.push((name.as_str().to_owned(), sql_type.clone()));
        Ok(JsonColumn { place, name: name.as_str().to_owned(), sql_type, kind })
    }

    fn value(&mut self, value: &ast::JsonTableValue) -> Result<JsonColumn, SqlError> {
        let name = value.name.as_str();
        let collate = value.collation.as_ref();
        let sql_type =
            column::type_of(name, &value.data_type, collate, self.collation, &mut self.rules)?;
        let path = parsed(&value.path)?;
        let kind = if value.exists {
            JsonColumnKind::Exists(path)
        } else {
            JsonColumnKind::Value {
                path,
                on_empty: self.response(name, &sql_type, value.on_empty.as_ref())?,
                on_error: self.response(name, &sql_type, value.on_error.as_ref())?,
            }
        };
        self.column(&value.name, sql_type, kind)
    }

    fn response(
        &self,
        name: &str,
        sql_type: &SqlType,
        declared: Option<&ast::JsonTableResponse>,
    ) -> Result<Response, SqlError> {
        let text = match declared {
            None | Some(ast::JsonTableResponse::Null) => return Ok(Response::Value(Datum::Null)),
            Some(ast::JsonTableResponse::Error) => return Ok(Response::Error),
            Some(ast::JsonTableResponse::Default(text)) => text,
        };
        let invalid = || SqlError::of::<1067>(&[&name]);
        let json = Json::parse(text).map_err(|_| invalid())?;
        let value = converted(&json, name, sql_type, 1, self.facts, self.now);
        value.map(Response::Value).map_err(|_| invalid())
    }
}

fn parsed(path: &str) -> Result<JsonPath, SqlError> {
    JsonPath::parse(path).map_err(|position| SqlError::of::<3143>(&[&position]))
}

/// The value of a column, named and typed, that a JSON value becomes in the row of this number.
pub(crate) fn converted(
    json: &Json,
    name: &str,
    sql_type: &SqlType,
    row: u64,
    facts: &SessionFacts,
    now: i64,
) -> Result<Datum, Misfit> {
    if sql_type.kind == TypeKind::Json {
        return Ok(Datum::Json(json.encode()));
    }
    let (value, from) = match json {
        Json::Null => return Ok(Datum::Null),
        Json::Array(_) | Json::Object(_) => return Err(Misfit::Structure),
        Json::Bool(truth) if sql_type.kind.is_number() || sql_type.kind == TypeKind::Bit => {
            (Datum::truth(*truth), SqlType::big_int())
        }
        scalar => json_scalar(scalar),
    };
    // What does not fit is a misfit, whatever the SQL mode; ON ERROR says what becomes of it.
    let mode = StoreMode {
        strict: true,
        no_zero_date: false,
        no_zero_in_date: false,
        truncate_fractions: false,
    };
    let mut problems = Problems::new();
    let mut converter = Converter { mode, zone: &facts.time_zone, now, problems: &mut problems };
    let place = Place { table: "", column: name, row };
    converter.store(value, &from, sql_type, place).map_err(Misfit::Problem)
}
