//! Columns of a query as columns of a table: for views and CREATE TABLE … AS.

use std::sync::Arc;

use model::Table;
use mysql_wire::constants::flag;
use sql_expression::SqlError;
use sql_parser::ast::ObjectName;
use sqltype::{Datum, SqlType, TypeKind};

use crate::catalog::default::{has_no_default, implicit_default};
use crate::catalog::names::TableName;
use crate::catalog::{ColumnDefault, ColumnDefinition, TableDefinition, error};
use crate::logical::binder::QueryBinder;
use crate::result::ResultColumn;
use crate::session::Session;

/// A view as a table with the columns that it has now, for SHOW and information_schema.
pub(crate) fn shape(session: &Session, name: &TableName) -> Result<TableDefinition, SqlError> {
    let cluster = session.kernel.cluster();
    let table = cluster.table_named(&name.full());
    let table = table.ok_or_else(|| error::no_such_table(&name.database, &name.name))?;
    let object =
        ObjectName { schema: Some(name.database.as_str().into()), name: name.name.as_str().into() };
    let query = QueryBinder::new(session, &[]).view(&object)?;
    let query =
        query.ok_or_else(|| SqlError::of::<1347>(&[&name.database, &name.name, &"VIEW"]))?;
    let columns: Result<Vec<ColumnDefinition>, SqlError> =
        query.columns.iter().map(|column| selected(session, column)).collect();
    Ok(TableDefinition { columns: columns?, ..without_columns(name, table) })
}

/// As [`shape`]; of a view whose tables are gone no column is known.
pub(crate) fn shape_or_none(
    session: &Session,
    name: &TableName,
    table: &Arc<Table>,
) -> TableDefinition {
    shape(session, name).unwrap_or_else(|_| without_columns(name, table))
}

fn without_columns(name: &TableName, table: &Arc<Table>) -> TableDefinition {
    TableDefinition {
        computed: Vec::new(),
        table: table.clone(),
        database: name.database.clone(),
        name: name.name.clone(),
        columns: Vec::new(),
        hidden_key: None,
        keys: Vec::new(),
        checks: Vec::new(),
        foreign_keys: Vec::new(),
        options: Default::default(),
    }
}

/// The column that a column of a query makes.
pub(crate) fn selected(
    session: &Session,
    column: &ResultColumn,
) -> Result<ColumnDefinition, SqlError> {
    crate::catalog::column::check_name(&column.name)?;
    let source = source_of(session, column);
    let nullable = column.flags & flag::NOT_NULL == 0;
    let default = match &source {
        _ if nullable => ColumnDefault::Value(Datum::Null),
        Some(source) if source.auto_increment => zero(&column.sql_type),
        Some(source) => source.default.clone(),
        None => zero(&column.sql_type),
    };
    Ok(ColumnDefinition {
        name: column.name.clone(),
        column: model::ColumnId(0),
        sql_type: stored_type(&column.sql_type, source.is_some()),
        explicit_collation: false,
        nullable,
        default,
        on_update_now: None,
        auto_increment: false,
        generated: None,
        hidden: None,
        invisible: false,
        comment: source.map(|source| source.comment).unwrap_or_default(),
    })
}

/// The column of a table that a column of a query shows as it is.
fn source_of(session: &Session, column: &ResultColumn) -> Option<ColumnDefinition> {
    if column.org_table.is_empty() || column.org_name.is_empty() {
        return None;
    }
    let name = TableName { database: column.database.clone(), name: column.org_table.clone() };
    let definition = session.definition_named(&name).ok()?;
    definition.column(&column.org_name).map(|(_, column)| column.clone())
}

/// The default of a column that was computed and is never NULL: its type's zero.
fn zero(sql_type: &SqlType) -> ColumnDefault {
    match &sql_type.kind {
        TypeKind::Date | TypeKind::DateTime | TypeKind::Timestamp => ColumnDefault::None,
        kind if has_no_default(kind) => ColumnDefault::None,
        _ => ColumnDefault::Value(implicit_default(sql_type)),
    }
}

/// The type of a column for values of an expression.
fn stored_type(sql_type: &SqlType, of_table: bool) -> SqlType {
    let width = u32::from(sql_type.collation.charset().max_len());
    match sql_type.kind {
        _ if of_table => sql_type.clone(),
        TypeKind::Null => SqlType::new(TypeKind::Char, 0),
        // As wide as its digits need.
        TypeKind::BigInt if sql_type.length < 10 => {
            let length = if sql_type.unsigned { 10 } else { 11 };
            SqlType { kind: TypeKind::Int, length, ..sql_type.clone() }
        }
        TypeKind::VarChar | TypeKind::Char if sql_type.length.saturating_mul(width) > 65_535 => {
            SqlType { kind: TypeKind::LongText, length: u32::MAX, ..sql_type.clone() }
        }
        _ => sql_type.clone(),
    }
}
