//! Databases, tables, columns and keys, as information_schema describes them.
//!
//! # Owns
//! SCHEMATA, TABLES, COLUMNS, STATISTICS, constraints, PARTITIONS.
//! # Not here
//! SHOW's layouts of the same facts (`show`).

use std::rc::Rc;
use std::sync::Arc;

use model::{ClusterState, PartitionId, PartitionIndex, Table};
use sql_expression::SqlError;
use sqltype::{Datum, Json, SqlType, TimeZone, TypeKind};

use super::Sequences;
use crate::catalog::foreign_key::referred_key;
use crate::catalog::names::TableName;
use crate::catalog::view::is_view;
use crate::catalog::{
    ColumnDefault, ColumnDefinition, DatabaseOptions, KeyDefinition, KeyKind, KeyMethod,
    TableDefinition, names, text as printed,
};
use crate::information::virtual_table::{
    Hints, Kind, Rows, Source, VirtualTable, column, information, nullable, optional, text, yes_no,
};
use crate::logical::shape;
use crate::session::Session;
use crate::statistics::json::histogram;
use crate::statistics::store::Known;
use crate::statistics::{Size, Sizes};

const NAME: Kind = Kind::Text(64);
const CATALOG: &str = "def";

pub(super) static TABLES: &[VirtualTable] = &[
    information(
        "SCHEMATA",
        &[
            column("CATALOG_NAME", NAME),
            column("SCHEMA_NAME", NAME),
            column("DEFAULT_CHARACTER_SET_NAME", NAME),
            column("DEFAULT_COLLATION_NAME", NAME),
            nullable("SQL_PATH", Kind::Text(0)),
            column("DEFAULT_ENCRYPTION", Kind::Text(3)),
        ],
        Source::Here(schemata),
    ),
    information(
        "TABLES",
        &[
            column("TABLE_CATALOG", NAME),
            column("TABLE_SCHEMA", NAME),
            column("TABLE_NAME", NAME),
            column("TABLE_TYPE", Kind::Text(11)),
            nullable("ENGINE", NAME),
            nullable("VERSION", Kind::Int),
            nullable("ROW_FORMAT", Kind::Text(10)),
            nullable("TABLE_ROWS", Kind::UBigInt),
            nullable("AVG_ROW_LENGTH", Kind::UBigInt),
            nullable("DATA_LENGTH", Kind::UBigInt),
            nullable("MAX_DATA_LENGTH", Kind::UBigInt),
            nullable("INDEX_LENGTH", Kind::UBigInt),
            nullable("DATA_FREE", Kind::UBigInt),
            nullable("AUTO_INCREMENT", Kind::UBigInt),
            nullable("CREATE_TIME", Kind::Timestamp),
            nullable("UPDATE_TIME", Kind::DateTime),
            nullable("CHECK_TIME", Kind::DateTime),
            nullable("TABLE_COLLATION", NAME),
            nullable("CHECKSUM", Kind::BigInt),
            nullable("CREATE_OPTIONS", Kind::Text(256)),
            nullable("TABLE_COMMENT", Kind::LongText),
        ],
        Source::Sequences(tables),
    ),
    information(
        "COLUMNS",
        &[
            column("TABLE_CATALOG", NAME),
            column("TABLE_SCHEMA", NAME),
            column("TABLE_NAME", NAME),
            nullable("COLUMN_NAME", NAME),
            column("ORDINAL_POSITION", Kind::UInt),
            nullable("COLUMN_DEFAULT", Kind::LongText),
            column("IS_NULLABLE", Kind::Text(3)),
            nullable("DATA_TYPE", Kind::LongText),
            nullable("CHARACTER_MAXIMUM_LENGTH", Kind::BigInt),
            nullable("CHARACTER_OCTET_LENGTH", Kind::BigInt),
            nullable("NUMERIC_PRECISION", Kind::UBigInt),
            nullable("NUMERIC_SCALE", Kind::UBigInt),
            nullable("DATETIME_PRECISION", Kind::UInt),
            nullable("CHARACTER_SET_NAME", NAME),
            nullable("COLLATION_NAME", NAME),
            column("COLUMN_TYPE", Kind::LongText),
            column("COLUMN_KEY", Kind::Text(3)),
            nullable("EXTRA", Kind::Text(256)),
            nullable("PRIVILEGES", Kind::Text(154)),
            column("COLUMN_COMMENT", Kind::LongText),
            column("GENERATION_EXPRESSION", Kind::LongText),
            nullable("SRS_ID", Kind::UInt),
        ],
        Source::Here(columns),
    ),
    information(
        "STATISTICS",
        &[
            column("TABLE_CATALOG", NAME),
            column("TABLE_SCHEMA", NAME),
            column("TABLE_NAME", NAME),
            column("NON_UNIQUE", Kind::Int),
            column("INDEX_SCHEMA", NAME),
            nullable("INDEX_NAME", NAME),
            column("SEQ_IN_INDEX", Kind::UInt),
            nullable("COLUMN_NAME", NAME),
            nullable("COLLATION", Kind::Text(1)),
            nullable("CARDINALITY", Kind::BigInt),
            nullable("SUB_PART", Kind::BigInt),
            nullable("PACKED", Kind::Text(0)),
            column("NULLABLE", Kind::Text(3)),
            column("INDEX_TYPE", Kind::Text(11)),
            column("COMMENT", Kind::Text(8)),
            column("INDEX_COMMENT", Kind::Text(2048)),
            column("IS_VISIBLE", Kind::Text(3)),
            nullable("EXPRESSION", Kind::LongText),
        ],
        Source::Values(statistics),
    ),
    information(
        "COLUMN_STATISTICS",
        &[
            column("SCHEMA_NAME", Kind::Text(64)),
            column("TABLE_NAME", Kind::Text(64)),
            column("COLUMN_NAME", Kind::Text(64)),
            column("HISTOGRAM", Kind::Json),
        ],
        Source::Values(column_statistics),
    ),
    information(
        "KEY_COLUMN_USAGE",
        &[
            column("CONSTRAINT_CATALOG", NAME),
            column("CONSTRAINT_SCHEMA", NAME),
            nullable("CONSTRAINT_NAME", NAME),
            column("TABLE_CATALOG", NAME),
            column("TABLE_SCHEMA", NAME),
            column("TABLE_NAME", NAME),
            nullable("COLUMN_NAME", NAME),
            column("ORDINAL_POSITION", Kind::UInt),
            nullable("POSITION_IN_UNIQUE_CONSTRAINT", Kind::UInt),
            nullable("REFERENCED_TABLE_SCHEMA", NAME),
            nullable("REFERENCED_TABLE_NAME", NAME),
            nullable("REFERENCED_COLUMN_NAME", NAME),
        ],
        Source::Here(key_column_usage),
    ),
    information(
        "TABLE_CONSTRAINTS",
        &[
            column("CONSTRAINT_CATALOG", NAME),
            column("CONSTRAINT_SCHEMA", NAME),
            nullable("CONSTRAINT_NAME", NAME),
            column("TABLE_SCHEMA", NAME),
            column("TABLE_NAME", NAME),
            column("CONSTRAINT_TYPE", Kind::Text(11)),
            column("ENFORCED", Kind::Text(3)),
        ],
        Source::Here(table_constraints),
    ),
    information(
        "REFERENTIAL_CONSTRAINTS",
        &[
            column("CONSTRAINT_CATALOG", NAME),
            column("CONSTRAINT_SCHEMA", NAME),
            nullable("CONSTRAINT_NAME", NAME),
            column("UNIQUE_CONSTRAINT_CATALOG", NAME),
            column("UNIQUE_CONSTRAINT_SCHEMA", NAME),
            nullable("UNIQUE_CONSTRAINT_NAME", NAME),
            column("MATCH_OPTION", Kind::Text(7)),
            column("UPDATE_RULE", Kind::Text(11)),
            column("DELETE_RULE", Kind::Text(11)),
            column("TABLE_NAME", NAME),
            column("REFERENCED_TABLE_NAME", NAME),
        ],
        Source::Here(referential_constraints),
    ),
    information(
        "CHECK_CONSTRAINTS",
        &[
            column("CONSTRAINT_CATALOG", NAME),
            column("CONSTRAINT_SCHEMA", NAME),
            column("CONSTRAINT_NAME", NAME),
            column("CHECK_CLAUSE", Kind::LongText),
        ],
        Source::Here(check_constraints),
    ),
    information(
        "PARTITIONS",
        &[
            column("TABLE_CATALOG", NAME),
            column("TABLE_SCHEMA", NAME),
            column("TABLE_NAME", NAME),
            nullable("PARTITION_NAME", NAME),
            nullable("SUBPARTITION_NAME", NAME),
            nullable("PARTITION_ORDINAL_POSITION", Kind::UInt),
            nullable("SUBPARTITION_ORDINAL_POSITION", Kind::UInt),
            nullable("PARTITION_METHOD", Kind::Text(13)),
            nullable("SUBPARTITION_METHOD", Kind::Text(13)),
            nullable("PARTITION_EXPRESSION", Kind::Text(2048)),
            nullable("SUBPARTITION_EXPRESSION", Kind::Text(2048)),
            nullable("PARTITION_DESCRIPTION", Kind::LongText),
            nullable("TABLE_ROWS", Kind::UBigInt),
            nullable("AVG_ROW_LENGTH", Kind::UBigInt),
            nullable("DATA_LENGTH", Kind::UBigInt),
            nullable("MAX_DATA_LENGTH", Kind::UBigInt),
            nullable("INDEX_LENGTH", Kind::UBigInt),
            nullable("DATA_FREE", Kind::UBigInt),
            nullable("CREATE_TIME", Kind::Timestamp),
            nullable("UPDATE_TIME", Kind::DateTime),
            nullable("CHECK_TIME", Kind::DateTime),
            nullable("CHECKSUM", Kind::BigInt),
            column("PARTITION_COMMENT", Kind::LongText),
            nullable("NODEGROUP", Kind::Text(256)),
            nullable("TABLESPACE_NAME", Kind::Text(268)),
        ],
        Source::Sizes(partitions),
    ),
];

/// The users' databases, by name, with those of the system.
pub(crate) fn databases(session: &Session) -> Vec<String> {
    let cluster = session.kernel.cluster();
    let mut names: Vec<String> = cluster.databases.keys().map(|name| name.to_string()).collect();
    names.extend(crate::catalog::system::schemas().iter().map(|schema| (*schema).to_owned()));
    names.sort_unstable();
    names.dedup();
    names.retain(|name| session.sees_database(name));
    names
}

/// Calls `visit` for each user table that is wanted.
fn each_table(
    session: &Session,
    hints: &Hints,
    mut visit: impl FnMut(&ClusterState, &Rc<TableDefinition>),
) -> Result<(), SqlError> {
    let cluster = session.kernel.cluster();
    let mut look = |database: &str, name: &str, table: &Arc<Table>| {
        if !session.sees_table(database, name) {
            return Ok(());
        }
        let definition = if is_view(table) {
            let name = TableName { database: database.to_owned(), name: name.to_owned() };
            Rc::new(shape::shape_or_none(session, &name, table))
        } else {
            session.shared.definitions.of(table)?
        };
        visit(&cluster, &definition);
        Ok(())
    };
    if let Some(wanted) = &hints.table {
        return tables_called(session, &cluster, hints, wanted)
            .iter()
            .try_for_each(|(database, name, table)| look(database, name, table));
    }
    for database in cluster.databases.keys().filter(|name| hints.wants_database(name)) {
        for (name, table) in names::tables_of(&cluster, database) {
            look(database, name, table)?;
        }
    }
    Ok(())
}

/// The users' tables of this name in the databases that are wanted: database, name, table, in the
/// order of databases and names.
fn tables_called(
    session: &Session,
    cluster: &Arc<ClusterState>,
    hints: &Hints,
    wanted: &str,
) -> Vec<(String, String, Arc<Table>)> {
    let mut found = Vec::new();
    for full in session.shared.definitions.spelt(cluster, wanted) {
        let Some((database, name)) = full.split_once('.') else { continue };
        let is_user_s = cluster.databases.contains_key(database) && !names::is_hidden(name);
        if is_user_s
            && hints.wants_database(database)
            && hints.wants_table(name)
            && let Some(table) = cluster.table_named(&full)
        {
            found.push((database.to_owned(), name.to_owned(), table.clone()));
        }
    }
    found
}

/// The users' tables that are wanted, if the hints name one.
pub(super) fn tables_wanted(session: &Session, hints: &Hints) -> Option<Vec<Arc<Table>>> {
    let wanted = hints.table.as_ref()?;
    let cluster = session.kernel.cluster();
    let tables = tables_called(session, &cluster, hints, wanted).into_iter();
    Some(tables.map(|(.., table)| table).filter(|table| !is_view(table)).collect())
}

/// The system's own tables that are wanted.
fn system_tables(session: &Session, hints: &Hints) -> impl Iterator<Item = &'static VirtualTable> {
    let wanted = |table: &&VirtualTable| {
        hints.wants_database(table.schema)
            && hints.wants_table(table.name)
            && session.sees_table(table.schema, table.name)
    };
    super::all().filter(wanted)
}

fn schemata(session: &Session, hints: &Hints) -> Result<Rows, SqlError> {
    let wanted = databases(session).into_iter().filter(|name| hints.wants_database(name));
    Ok(wanted
        .map(|name| {
            let DatabaseOptions { collation, encrypted } = session.database_options(&name);
            vec![
                text(CATALOG),
                text(&name),
                text(collation.charset().name()),
                text(collation.name()),
                Datum::Null,
                text(if encrypted { "YES" } else { "NO" }),
            ]
        })
        .collect())
}

fn tables(
    session: &Session,
    hints: &Hints,
    sizes: &Sizes,
    sequences: &Sequences,
) -> Result<Rows, SqlError> {
    let mut rows = Vec::new();
    each_table(session, hints, |_, definition| {
        let (kind, facts) = if is_view(&definition.table) {
            ("VIEW", view_facts())
        } else {
            ("BASE TABLE", table_facts(definition, sizes, sequences))
        };
        let mut row =
            vec![text(CATALOG), text(&definition.database), text(&definition.name), text(kind)];
        row.extend(facts);
        rows.push(row);
    })?;
    for table in system_tables(session, hints) {
        let mut row =
            vec![text(CATALOG), text(table.schema), text(table.name), text("SYSTEM VIEW")];
        row.extend(system_table_facts());
        rows.push(row);
    }
    Ok(rows)
}

/// ENGINE to TABLE_COMMENT of a table; in SHOW TABLE STATUS too.
pub(crate) fn table_facts(
    definition: &TableDefinition,
    sizes: &Sizes,
    sequences: &Sequences,
) -> Facts {
    let options = &definition.options;
    let mut create_options = printed::create_options(options).trim_start().to_lowercase();
    if options.partitioning.is_some() {
        create_options = match create_options.as_str() {
            "" => "partitioned".to_owned(),
            others => format!("{others} partitioned"),
        };
    }
    let mut facts = vec![text("ndbcluster"), Datum::Int(10), text(row_format(definition))];
    facts.extend(size_facts(sizes.table(&definition.table)));
    facts.extend([
        sequences.next(definition).map_or(Datum::Null, Datum::UInt),
        Datum::Null,
        Datum::Null,
        Datum::Null,
        text(definition.collation().name()),
        Datum::Null,
        text(create_options),
        text(&options.comment),
    ]);
    facts
}

/// TABLE_ROWS to DATA_FREE. What indexes take is part of DATA_LENGTH, and INDEX_LENGTH zero, so
/// that those who add both up are right.
fn size_facts(size: Option<Size>) -> [Datum; 6] {
    let Some(Size { rows, bytes }) = size else { return [const { Datum::Null }; 6] };
    [rows, bytes.checked_div(rows).unwrap_or(0), bytes, 0, 0, 0].map(Datum::UInt)
}

/// The values of one row.
type Facts = Vec<Datum>;

fn row_format(definition: &TableDefinition) -> &'static str {
    match definition.options.row_format.as_deref() {
        Some("FIXED") => "Fixed",
        Some("COMPACT") => "Compact",
        Some("REDUNDANT") => "Redundant",
        Some("COMPRESSED") => "Compressed",
        _ => "Dynamic",
    }
}

/// As [`table_facts`], of a view.
pub(crate) fn view_facts() -> Facts {
    let mut facts = vec![Datum::Null; 17];
    facts[16] = text("VIEW");
    facts
}

/// As [`table_facts`], of a table that is computed.
pub(crate) fn system_table_facts() -> Facts {
    let mut facts = vec![Datum::Null; 17];
    facts[1] = Datum::Int(10);
    facts[3] = Datum::UInt(0);
    facts[15] = text("");
    facts[16] = text("");
    facts
}

fn columns(session: &Session, hints: &Hints) -> Result<Rows, SqlError> {
    let zone = session.variables.time_zone.clone();
    let mut rows = Vec::new();
    each_table(session, hints, |_, definition| {
        for (at, column) in definition.visible_columns().iter().enumerate() {
            let TableDefinition { database, name, .. } = &**definition;
            if let Some(allowed) = session.column_privileges(database, name, &column.name) {
                rows.push(column_row(definition, at, column, &allowed, &zone));
            }
        }
    })?;
    for table in system_tables(session, hints) {
        for (at, column) in table.columns.iter().enumerate() {
            let sql_type = column.sql_type();
            let mut row = vec![
                text(CATALOG),
                text(table.schema),
                text(table.name),
                text(column.name),
                Datum::UInt(at as u64 + 1),
                Datum::Null,
                yes_no(column.nullable),
            ];
            row.extend(type_facts(&sql_type));
            row.extend(["", "", "select", "", ""].map(text));
            row.push(Datum::Null);
            rows.push(row);
        }
    }
    Ok(rows)
}

fn column_row(
    definition: &TableDefinition,
    at: usize,
    column: &ColumnDefinition,
    allowed: &str,
    zone: &TimeZone,
) -> Vec<Datum> {
    let generated = column.generated.as_ref();
    let expression = generated.map(|generated| printed::expression(&generated.expression));
    let mut row = vec![
        text(CATALOG),
        text(&definition.database),
        text(&definition.name),
        text(&column.name),
        Datum::UInt(at as u64 + 1),
        optional(default_text(column, zone)),
        yes_no(column.nullable),
    ];
    row.extend(type_facts(&column.sql_type));
    row.push(text(column_key(definition, at)));
    row.push(text(extra(column)));
    row.push(text(allowed));
    row.push(text(&column.comment));
    row.push(text(expression.unwrap_or_default()));
    row.push(Datum::Null);
    row
}

/// A column's default as text; none for NULL and for none.
pub(crate) fn default_text(column: &ColumnDefinition, zone: &TimeZone) -> Option<String> {
    match &column.default {
        ColumnDefault::None => None,
        ColumnDefault::Value(Datum::UInt(bits)) if column.sql_type.kind == TypeKind::Bit => {
            Some(format!("b'{bits:b}'"))
        }
        ColumnDefault::Value(Datum::Bytes(bytes)) if std::str::from_utf8(bytes).is_err() => {
            Some(printed::hexadecimal(bytes))
        }
        ColumnDefault::Value(_) => printed::default_text(column, zone),
        ColumnDefault::Expression(expr) => Some(printed::expression(expr)),
        ColumnDefault::Now(digits) => Some(printed::current_timestamp(*digits)),
    }
}

/// EXTRA of a column.
pub(crate) fn extra(column: &ColumnDefinition) -> String {
    let mut words: Vec<String> = Vec::new();
    if column.auto_increment {
        words.push("auto_increment".to_owned());
    }
    match &column.generated {
        Some(generated) if generated.stored => words.push("STORED GENERATED".to_owned()),
        Some(_) => words.push("VIRTUAL GENERATED".to_owned()),
        None => {}
    }
    if matches!(column.default, ColumnDefault::Expression(_) | ColumnDefault::Now(_)) {
        words.push("DEFAULT_GENERATED".to_owned());
    }
    if let Some(digits) = column.on_update_now {
        words.push(format!("on update {}", printed::current_timestamp(digits)));
    }
    if column.invisible {
        words.push("INVISIBLE".to_owned());
    }
    words.join(" ")
}

/// DATA_TYPE to COLUMN_TYPE.
fn type_facts(sql_type: &SqlType) -> Vec<Datum> {
    let (characters, bytes) = text_lengths(sql_type);
    let (precision, scale) = numeric_facts(sql_type);
    let digits = match sql_type.kind {
        TypeKind::Time | TypeKind::DateTime | TypeKind::Timestamp => {
            Datum::UInt(sql_type.decimals.into())
        }
        _ => Datum::Null,
    };
    let collation = sql_type.has_charset().then_some(sql_type.collation);
    let number = |value: Option<u64>| value.map_or(Datum::Null, Datum::UInt);
    let signed = |value: Option<u64>| value.map_or(Datum::Null, |value| Datum::Int(value as i64));
    vec![
        text(data_type(sql_type)),
        signed(characters),
        signed(bytes),
        number(precision),
        number(scale),
        digits,
        optional(collation.map(|collation| collation.charset().name())),
        optional(collation.map(|collation| collation.name())),
        text(sql_type.sql_name()),
    ]
}

/// The type's name without its length and attributes.
pub(crate) fn data_type(sql_type: &SqlType) -> String {
    let name = sql_type.sql_name();
    let end = name.find([' ', '(']).unwrap_or(name.len());
    name[..end].to_owned()
}

/// The longest value in characters and in bytes.
fn text_lengths(sql_type: &SqlType) -> (Option<u64>, Option<u64>) {
    let width = u64::from(sql_type.collation.charset().max_len());
    let length = u64::from(sql_type.length);
    match sql_type.kind {
        TypeKind::Char | TypeKind::VarChar | TypeKind::Enum(_) | TypeKind::Set(_) => {
            (Some(length), Some(length * width))
        }
        TypeKind::TinyText => (Some(0xFF), Some(0xFF)),
        TypeKind::Text => (Some(0xFFFF), Some(0xFFFF)),
        TypeKind::MediumText => (Some(0xFF_FFFF), Some(0xFF_FFFF)),
        TypeKind::LongText => (Some(u32::MAX.into()), Some(u32::MAX.into())),
        _ => (None, None),
    }
}

/// NUMERIC_PRECISION and NUMERIC_SCALE.
fn numeric_facts(sql_type: &SqlType) -> (Option<u64>, Option<u64>) {
    let fixed = sql_type.decimals < SqlType::NOT_FIXED;
    match sql_type.kind {
        TypeKind::TinyInt => (Some(3), Some(0)),
        TypeKind::SmallInt => (Some(5), Some(0)),
        TypeKind::MediumInt => (Some(7), Some(0)),
        TypeKind::Int => (Some(10), Some(0)),
        TypeKind::BigInt => (Some(if sql_type.unsigned { 20 } else { 19 }), Some(0)),
        TypeKind::Decimal => (Some(sql_type.length.into()), Some(sql_type.decimals.into())),
        TypeKind::Float if !fixed => (Some(12), None),
        TypeKind::Double if !fixed => (Some(22), None),
        TypeKind::Float | TypeKind::Double => {
            (Some(sql_type.length.into()), Some(sql_type.decimals.into()))
        }
        TypeKind::Bit => (Some(sql_type.length.into()), None),
        _ => (None, None),
    }
}

/// COLUMN_KEY: `PRI`, `UNI`, `MUL` or nothing.
pub(crate) fn column_key(definition: &TableDefinition, at: usize) -> &'static str {
    let has = |key: &KeyDefinition| key.columns.iter().any(|part| part.declared == at);
    let begins = |key: &KeyDefinition| key.columns[0].declared == at;
    if definition.identifying_key().is_some_and(has) {
        return "PRI";
    }
    let mut beginning = definition.keys.iter().filter(|key| begins(key)).peekable();
    if beginning.peek().is_none() {
        return "";
    }
    if beginning.any(|key| key.kind == KeyKind::Unique && key.columns.len() == 1) {
        "UNI"
    } else {
        "MUL"
    }
}

fn statistics(
    session: &Session,
    hints: &Hints,
    sizes: &Sizes,
    known: &Known,
) -> Result<Rows, SqlError> {
    let mut rows = Vec::new();
    each_table(session, hints, |_, definition| {
        for facts in index_rows(definition, sizes, known) {
            let mut row = vec![text(CATALOG), text(&definition.database), text(&definition.name)];
            let mut facts = facts.into_iter();
            row.extend(facts.next());
            row.push(text(&definition.database));
            row.extend(facts);
            rows.push(row);
        }
    })?;
    Ok(rows)
}

/// The parts of a table's keys: NON_UNIQUE, INDEX_NAME and the rest; SHOW INDEX shows the same.
pub(crate) fn index_rows(definition: &TableDefinition, sizes: &Sizes, known: &Known) -> Rows {
    let all = sizes.table(&definition.table).map(|size| size.rows as i64);
    let mut rows = Vec::new();
    for key in &definition.keys {
        let is_ordered = key.method != Some(KeyMethod::Hash) || key.kind == KeyKind::Ordinary;
        for (at, part) in key.columns.iter().enumerate() {
            let column = &definition.columns[part.declared];
            let expression = part.expression(&definition.columns);
            // A unique key has as many values as the table has rows; of others a sample tells.
            let is_whole = key.is_unique() && at + 1 == key.columns.len() && !column.nullable;
            let begins = key.columns[..=at].iter();
            let begins = begins.map(|part| definition.columns[part.declared].column);
            let sampled = || {
                let values = known.values(definition.table.id)?;
                let distinct = values.distinct(&begins.collect::<Vec<_>>())?;
                Some((distinct.round() as i64).min(all?))
            };
            let cardinality = if is_whole { all } else { sampled() };
            let direction = if part.descending { "D" } else { "A" };
            rows.push(vec![
                Datum::Int((!key.is_unique()).into()),
                text(&key.name),
                Datum::UInt(at as u64 + 1),
                match expression {
                    Some(_) => Datum::Null,
                    None => text(&column.name),
                },
                optional(is_ordered.then_some(direction)),
                cardinality.map_or(Datum::Null, Datum::Int),
                part.prefix_length.map_or(Datum::Null, |length| Datum::Int(length.into())),
                Datum::Null,
                text(if column.nullable { "YES" } else { "" }),
                text(if is_ordered { "BTREE" } else { "HASH" }),
                text(""),
                text(&key.comment),
                yes_no(!key.invisible),
                optional(expression.map(printed::expression)),
            ]);
        }
    }
    rows
}

/// COLUMN_STATISTICS: the histograms that somebody has asked for, as in MySQL.
fn column_statistics(
    session: &Session,
    hints: &Hints,
    _: &Sizes,
    known: &Known,
) -> Result<Rows, SqlError> {
    let mut rows = Vec::new();
    each_table(session, hints, |_, definition| {
        let Some(values) = known.values(definition.table.id) else { return };
        for column in values.columns.iter().filter(|column| column.asked.is_some()) {
            let of = definition.columns.iter().find(|of| of.column == column.column);
            rows.extend(of.map(|of| {
                let json = Json::parse(histogram(values, column, &of.sql_type).as_bytes());
                vec![
                    text(&definition.database),
                    text(&definition.name),
                    text(&of.name),
                    json.map_or(Datum::Null, |json| Datum::Json(json.encode())),
                ]
            }));
        }
    })?;
    Ok(rows)
}

fn key_column_usage(session: &Session, hints: &Hints) -> Result<Rows, SqlError> {
    let mut rows = Vec::new();
    each_table(session, hints, |_, definition| {
        for key in definition.keys.iter().filter(|key| key.is_unique()) {
            let columns = key.columns.iter().enumerate();
            let named = columns.filter(|(_, part)| part.expression(&definition.columns).is_none());
            for (at, part) in named {
                rows.push(vec![
                    text(CATALOG),
                    text(&definition.database),
                    text(&key.name),
                    text(CATALOG),
                    text(&definition.database),
                    text(&definition.name),
                    text(&definition.columns[part.declared].name),
                    Datum::UInt(at as u64 + 1),
                    Datum::Null,
                    Datum::Null,
                    Datum::Null,
                    Datum::Null,
                ]);
            }
        }
        for key in &definition.foreign_keys {
            for (at, column) in key.columns.iter().enumerate() {
                rows.push(vec![
                    text(CATALOG),
                    text(&definition.database),
                    text(&key.name),
                    text(CATALOG),
                    text(&definition.database),
                    text(&definition.name),
                    text(&definition.columns[*column].name),
                    Datum::UInt(at as u64 + 1),
                    Datum::UInt(at as u64 + 1),
                    text(&key.parent.database),
                    text(&key.parent.name),
                    text(&key.parent_columns[at]),
                ]);
            }
        }
    })?;
    Ok(rows)
}

/// The foreign keys, each with the key that it refers to.
fn referential_constraints(session: &Session, hints: &Hints) -> Result<Rows, SqlError> {
    let mut rows = Vec::new();
    each_table(session, hints, |cluster, definition| {
        for key in &definition.foreign_keys {
            let parent = cluster.table_named(&key.parent.full());
            let parent = parent.and_then(|parent| session.shared.definitions.of(parent).ok());
            let referred = parent.as_ref().and_then(|parent| {
                referred_key(&parent.keys, &parent.columns, &key.parent_columns)
            });
            rows.push(vec![
                text(CATALOG),
                text(&definition.database),
                text(&key.name),
                text(CATALOG),
                text(&key.parent.database),
                optional(referred.map(|key| key.name.as_str())),
                text("NONE"),
                text(key.on_update.word()),
                text(key.on_delete.word()),
                text(&definition.name),
                text(&key.parent.name),
            ]);
        }
    })?;
    Ok(rows)
}

fn table_constraints(session: &Session, hints: &Hints) -> Result<Rows, SqlError> {
    let mut rows = Vec::new();
    each_table(session, hints, |_, definition| {
        let mut push = |name: &str, kind: &str, enforced: bool| {
            rows.push(vec![
                text(CATALOG),
                text(&definition.database),
                text(name),
                text(&definition.database),
                text(&definition.name),
                text(kind),
                yes_no(enforced),
            ]);
        };
        for key in definition.keys.iter().filter(|key| key.is_unique()) {
            let primary = key.kind == KeyKind::Primary;
            push(&key.name, if primary { "PRIMARY KEY" } else { "UNIQUE" }, true);
        }
        for key in &definition.foreign_keys {
            push(&key.name, "FOREIGN KEY", true);
        }
        for check in &definition.checks {
            push(&check.name, "CHECK", check.enforced);
        }
    })?;
    Ok(rows)
}

fn check_constraints(session: &Session, hints: &Hints) -> Result<Rows, SqlError> {
    let mut rows = Vec::new();
    each_table(session, hints, |_, definition| {
        for check in &definition.checks {
            let clause = printed::expression(&check.expression);
            rows.push(vec![
                text(CATALOG),
                text(&definition.database),
                text(&check.name),
                text(clause),
            ]);
        }
    })?;
    Ok(rows)
}

fn partitions(session: &Session, hints: &Hints, sizes: &Sizes) -> Result<Rows, SqlError> {
    let mut rows = Vec::new();
    each_table(session, hints, |cluster, definition| {
        let columns = match &definition.options.partitioning {
            Some(partitioning) => {
                let names = partitioning.columns.iter().map(|name| printed::quoted(name));
                names.collect::<Vec<String>>().join(",")
            }
            None => String::new(),
        };
        for at in 0..definition.table.partition_count {
            let size = sizes.partition(&definition.table, PartitionIndex(at));
            rows.push(partition_row(cluster, definition, &columns, at, size));
        }
    })?;
    Ok(rows)
}

fn partition_row(
    cluster: &ClusterState,
    definition: &TableDefinition,
    columns: &str,
    at: u16,
    size: Option<Size>,
) -> Vec<Datum> {
    let mut row = vec![Datum::Null; 25];
    row[0] = text(CATALOG);
    row[1] = text(&definition.database);
    row[2] = text(&definition.name);
    row[3] = text(format!("p{at}"));
    row[5] = Datum::UInt(u64::from(at) + 1);
    row[7] = text("KEY");
    row[9] = text(columns);
    row[12..18].clone_from_slice(&size_facts(size));
    row[22] = text("");
    row[23] = text(node_group(cluster, &definition.table, at).to_string());
    row
}

/// The node group that holds a partition.
pub(crate) fn node_group(cluster: &ClusterState, table: &Table, at: u16) -> u16 {
    let partition = PartitionId { table: table.id, index: PartitionIndex(at) };
    if cluster.slots.is_empty() { 0 } else { cluster.slot_of(partition).group }
}
