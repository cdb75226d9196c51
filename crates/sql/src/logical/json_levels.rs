//! JSON_TABLE as an operator: levels of paths, and the columns at each.

use sqltype::json::JsonPath;
use sqltype::{Datum, SqlType};

use crate::logical::formula::Formula;

/// A call of JSON_TABLE.
#[derive(Clone, Debug)]
pub(crate) struct JsonTable {
    pub(crate) document: Formula,
    /// The path of its rows.
    pub(crate) rows: Level,
    /// Columns of all levels.
    pub(crate) width: usize,
}

/// A path with the columns of the rows that it leads to: the table itself, or NESTED PATH.
#[derive(Clone, Debug)]
pub(crate) struct Level {
    pub(crate) path: JsonPath,
    pub(crate) columns: Vec<JsonColumn>,
    pub(crate) nested: Vec<Level>,
}

/// A column.
#[derive(Clone, Debug)]
pub(crate) struct JsonColumn {
    /// Its place in the row.
    pub(crate) place: usize,
    pub(crate) name: String,
    pub(crate) sql_type: SqlType,
    pub(crate) kind: JsonColumnKind,
}

/// Where a column has its value from.
#[derive(Clone, Debug)]
pub(crate) enum JsonColumnKind {
    /// FOR ORDINALITY: the number of the row within its level.
    Ordinality,
    /// EXISTS PATH: whether the path leads anywhere.
    Exists(JsonPath),
    /// PATH: what the path leads to.
    Value { path: JsonPath, on_empty: Response, on_error: Response },
}

/// What a column shows where it has no value, or one that does not fit.
#[derive(Clone, Debug)]
pub(crate) enum Response {
    /// An error.
    Error,
    /// This value; NULL unless another default was given.
    Value(Datum),
}
