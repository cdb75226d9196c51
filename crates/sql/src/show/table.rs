//! SHOW of databases, tables, columns, keys and what belongs to them.
//!
//! # Owns
//! Their layouts.

use std::rc::Rc;

use model::Table;
use sql_expression::SqlError;
use sql_parser::ast::{Ident, ObjectName};
use sqltype::{Datum, SqlType};

use super::{Listing, long_text, text, unsigned};
use crate::catalog::names::TableName;
use crate::catalog::view::is_view;
use crate::catalog::{TableDefinition, error, names, text as printed};
use crate::information::schema::{
    column_key, databases as database_names, default_text, extra, index_rows, system_table_facts,
    table_facts, view_facts,
};
use crate::information::virtual_table;
use crate::information::{self, Sequences};
use crate::logical::shape;
use crate::session::Session;
use crate::statistics::Sizes;
use crate::statistics::store::Known;

/// What is computed and can be used, but is not listed: tools that save all databases they see
/// would make its tables when they load them again.
const NOT_LISTED: [&str; 3] = ["mysql", "nines", "sys"];

/// SHOW DATABASES.
pub(super) fn databases(session: &Session) -> Listing {
    let mut listing = Listing::of_texts(&["Database"]);
    for name in database_names(session) {
        if NOT_LISTED.contains(&name.as_str()) {
            continue;
        }
        listing.push(vec![Datum::text(&name)]);
    }
    listing
}

/// The database a SHOW is about: the named one, or the default.
fn database_of(session: &Session, schema: Option<&Ident>) -> Result<String, SqlError> {
    let name = match schema {
        Some(schema) => session.database_name(schema.as_str()),
        None => session.current_database()?.to_owned(),
    };
    session.check_database(&name)?;
    Ok(name)
}

/// Names of the tables in a database, and their kind.
fn table_names(
    session: &Session,
    database: &str,
    only: Option<&str>,
) -> Vec<(String, &'static str)> {
    if crate::catalog::system::schema(database).is_some() {
        let kind = match database {
            "information_schema" => "SYSTEM VIEW",
            _ => "BASE TABLE",
        };
        let seen = |name: &str| session.sees_table(database, name);
        let mut found: Vec<(String, &'static str)> = information::all()
            .filter(|table| table.schema == database && seen(table.name))
            .map(|table| (table.name.to_owned(), kind))
            .collect();
        found.sort_unstable();
        return found;
    }
    let cluster = session.kernel.cluster();
    let kind = |table: &Table| if is_view(table) { "VIEW" } else { "BASE TABLE" };
    if let Some(name) = only.filter(|name| !name.starts_with(names::ALTER_PREFIX)) {
        let table = cluster.table_named(&format!("{database}.{name}"));
        let table = table.filter(|_| session.sees_table(database, name));
        return table.map(|table| (name.to_owned(), kind(table))).into_iter().collect();
    }
    let tables = names::tables_of(&cluster, database);
    let seen = tables.filter(|(name, _)| session.sees_table(database, name));
    seen.map(|(name, table)| (name.to_owned(), kind(table))).collect()
}

/// SHOW [FULL] TABLES.
pub(super) fn tables(
    session: &Session,
    schema: Option<&Ident>,
    full: bool,
    only: Option<&str>,
) -> Result<Listing, SqlError> {
    let database = database_of(session, schema)?;
    let heading = format!("Tables_in_{database}");
    let headings: &[&str] = if full { &[&heading, "Table_type"] } else { &[&heading] };
    let mut listing = Listing::of_texts(headings);
    for (name, kind) in table_names(session, &database, only) {
        let mut row = vec![Datum::text(&name)];
        if full {
            row.push(Datum::text(kind));
        }
        listing.push(row);
    }
    Ok(listing)
}

/// SHOW TABLE STATUS.
pub(super) async fn status(
    session: &Session,
    schema: Option<&Ident>,
    only: Option<&str>,
) -> Result<Listing, SqlError> {
    let database = database_of(session, schema)?;
    let time = || SqlType::new(sqltype::TypeKind::DateTime, 19);
    let mut listing = Listing::new([
        ("Name", text(64)),
        ("Engine", text(64)),
        ("Version", SqlType::new(sqltype::TypeKind::Int, 11)),
        ("Row_format", text(10)),
        ("Rows", unsigned()),
        ("Avg_row_length", unsigned()),
        ("Data_length", unsigned()),
        ("Max_data_length", unsigned()),
        ("Index_length", unsigned()),
        ("Data_free", unsigned()),
        ("Auto_increment", unsigned()),
        ("Create_time", time()),
        ("Update_time", time()),
        ("Check_time", time()),
        ("Collation", text(64)),
        ("Checksum", SqlType::big_int()),
        ("Create_options", text(256)),
        ("Comment", long_text()),
    ]);
    let tables = only.map(|name| {
        let cluster = session.kernel.cluster();
        let table = cluster.table_named(&format!("{database}.{name}"));
        table.into_iter().cloned().collect::<Vec<_>>()
    });
    let sizes = Sizes::of(&session.kernel, tables.as_deref()).await;
    let sequences = Sequences::of(session, tables.as_deref()).await?;
    for (name, kind) in table_names(session, &database, only) {
        let mut row = vec![Datum::text(&name)];
        if crate::catalog::system::schema(&database).is_some() {
            row.extend(system_table_facts());
        } else if kind == "VIEW" {
            row.extend(view_facts());
        } else {
            let name = TableName { database: database.clone(), name };
            // A table may have gone while its sequence was read.
            let Ok(definition) = session.permanent_named(&name) else { continue };
            row.extend(table_facts(&definition, &sizes, &sequences));
        }
        listing.push(row);
    }
    Ok(listing)
}

/// SHOW OPEN TABLES: none is ever open longer than a statement.
pub(super) fn open_tables(session: &Session, schema: Option<&Ident>) -> Result<Listing, SqlError> {
    if schema.is_some() {
        database_of(session, schema)?;
    }
    let text = |name| (name, text(64));
    let count = |name| (name, SqlType::big_int());
    Ok(Listing::new([text("Database"), text("Table"), count("In_use"), count("Name_locked")]))
}

/// SHOW [FULL] COLUMNS, and DESCRIBE.
pub(super) async fn columns(
    session: &Session,
    name: &ObjectName,
    full: bool,
) -> Result<Listing, SqlError> {
    let mut headings = vec![("Field", text(64)), ("Type", long_text())];
    if full {
        headings.push(("Collation", text(64)));
    }
    headings.extend([
        ("Null", text(3)),
        ("Key", text(3)),
        ("Default", long_text()),
        ("Extra", text(256)),
    ]);
    if full {
        headings.extend([("Privileges", text(154)), ("Comment", long_text())]);
    }
    let mut listing = Listing::new(headings);
    let table = session.table_name(name)?;
    if table.is_system() {
        let found = information::table(&table.database, &table.name);
        let found = found.ok_or_else(|| error::no_such_table(&table.database, &table.name))?;
        for column in found.columns {
            let facts = Facts {
                name: column.name,
                sql_type: column.sql_type(),
                nullable: column.nullable,
                key: "",
                default: None,
                extra: String::new(),
                privileges: "select".to_owned(),
                comment: "",
            };
            listing.push(facts.row(full));
        }
        return Ok(listing);
    }
    let definition = match session.view_named(&table)? {
        Some(_) => Rc::new(shape::shape(session, &table)?),
        None => session.definition_named(&table)?,
    };
    for at in 0..definition.visible_columns().len() {
        if let Some(facts) = user_column(session, &table, &definition, at) {
            listing.push(facts.row(full));
        }
    }
    Ok(listing)
}

/// A column as SHOW COLUMNS shows it.
struct Facts<'a> {
    name: &'a str,
    sql_type: SqlType,
    nullable: bool,
    key: &'a str,
    default: Option<String>,
    extra: String,
    privileges: String,
    comment: &'a str,
}

impl Facts<'_> {
    fn row(self, full: bool) -> Vec<Datum> {
        let mut row = vec![Datum::text(self.name), Datum::text(&self.sql_type.sql_name())];
        if full {
            let collation = self.sql_type.has_charset().then(|| self.sql_type.collation.name());
            row.push(collation.map_or(Datum::Null, Datum::text));
        }
        row.push(Datum::text(if self.nullable { "YES" } else { "NO" }));
        row.push(Datum::text(self.key));
        row.push(self.default.map_or(Datum::Null, |default| Datum::text(&default)));
        row.push(Datum::text(&self.extra));
        if full {
            row.push(Datum::text(&self.privileges));
            row.push(Datum::text(self.comment));
        }
        row
    }
}

/// A column of a user's table; none if it may not be seen.
fn user_column<'a>(
    session: &Session,
    table: &TableName,
    definition: &'a TableDefinition,
    at: usize,
) -> Option<Facts<'a>> {
    let column = &definition.columns[at];
    let privileges = if session.temporary.has(table) {
        "select,insert,update,references".to_owned()
    } else {
        session.column_privileges(&table.database, &table.name, &column.name)?
    };
    Some(Facts {
        name: &column.name,
        sql_type: column.sql_type.clone(),
        nullable: column.nullable,
        key: column_key(definition, at),
        default: default_text(column, &session.variables.time_zone),
        extra: extra(column),
        privileges,
        comment: &column.comment,
    })
}

/// SHOW INDEX.
pub(super) async fn indexes(session: &Session, name: &ObjectName) -> Result<Listing, SqlError> {
    let mut listing = Listing::new([
        ("Table", text(64)),
        ("Non_unique", SqlType::new(sqltype::TypeKind::Int, 1)),
        ("Key_name", text(64)),
        ("Seq_in_index", SqlType::new(sqltype::TypeKind::Int, 10)),
        ("Column_name", text(64)),
        ("Collation", text(1)),
        ("Cardinality", SqlType::big_int()),
        ("Sub_part", SqlType::big_int()),
        ("Packed", text(0)),
        ("Null", text(3)),
        ("Index_type", text(11)),
        ("Comment", text(8)),
        ("Index_comment", text(2048)),
        ("Visible", text(3)),
        ("Expression", long_text()),
    ]);
    let table = session.table_name(name)?;
    if table.is_system() {
        let found = information::table(&table.database, &table.name);
        found.ok_or_else(|| error::no_such_table(&table.database, &table.name))?;
        return Ok(listing);
    }
    if session.view_named(&table)?.is_some() {
        return Ok(listing);
    }
    let definition = session.definition_named(&table)?;
    let tables = [definition.table.clone()];
    let sizes = Sizes::of(&session.kernel, Some(&tables)).await;
    let known = Known::of(&session.kernel, Some(&tables)).await?;
    for facts in index_rows(&definition, &sizes, &known) {
        let mut row = vec![Datum::text(&definition.name)];
        row.extend(facts);
        listing.push(row);
    }
    Ok(listing)
}

/// SHOW TRIGGERS: there are none.
pub(super) fn triggers(session: &Session, schema: Option<&Ident>) -> Result<Listing, SqlError> {
    database_of(session, schema)?;
    Ok(Listing::of_texts(&[
        "Trigger",
        "Event",
        "Table",
        "Statement",
        "Timing",
        "Created",
        "sql_mode",
        "Definer",
        "character_set_client",
        "collation_connection",
        "Database Collation",
    ]))
}

/// SHOW EVENTS: there are none.
pub(super) fn events(session: &Session, schema: Option<&Ident>) -> Result<Listing, SqlError> {
    database_of(session, schema)?;
    Ok(Listing::of_texts(&[
        "Db",
        "Name",
        "Definer",
        "Time zone",
        "Type",
        "Execute at",
        "Interval value",
        "Interval field",
        "Starts",
        "Ends",
        "Status",
        "Originator",
        "character_set_client",
        "collation_connection",
        "Database Collation",
    ]))
}

/// The CREATE TABLE statement of a computed table, as MySQL shows that of its own.
pub(super) fn create_system_table(table: &virtual_table::VirtualTable) -> String {
    let mut elements = Vec::new();
    for column in table.columns {
        let null = if column.nullable { "DEFAULT NULL" } else { "NOT NULL" };
        let name = printed::quoted(column.name);
        elements.push(format!("  {name} {} {null}", column.sql_type().sql_name()));
    }
    let name = printed::quoted(table.name);
    let list = elements.join(",\n");
    format!("CREATE TEMPORARY TABLE {name} (\n{list}\n) ENGINE=MEMORY DEFAULT CHARSET=utf8mb3")
}
