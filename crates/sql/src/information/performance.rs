//! What clients read of performance_schema: variables, counters, attributes of connections.
//!
//! # Owns
//! These few tables. The instruments of performance_schema are not there, and its variable is OFF.
//! # Not here
//! Values of variables (`variables`), of counters (`server`).

use sqltype::Datum;

use super::server;
use crate::information::virtual_table::{
    Kind, Rows, Source, VirtualColumn, VirtualTable, column, nullable, optional, text,
};
use crate::session::Session;
use crate::variables::registry::{self, Scope};
use crate::variables::session::shown_text;

const fn performance(
    name: &'static str,
    columns: &'static [VirtualColumn],
    source: Source,
) -> VirtualTable {
    VirtualTable { schema: "performance_schema", name, columns, source }
}

static PAIR: &[VirtualColumn] =
    &[column("VARIABLE_NAME", Kind::Text(64)), nullable("VARIABLE_VALUE", Kind::Text(1024))];

static ATTRIBUTES: &[VirtualColumn] = &[
    column("PROCESSLIST_ID", Kind::UBigInt),
    column("ATTR_NAME", Kind::Text(32)),
    nullable("ATTR_VALUE", Kind::Text(1024)),
    nullable("ORDINAL_POSITION", Kind::Int),
];

pub(super) static TABLES: &[VirtualTable] = &[
    performance("session_variables", PAIR, Source::Here(|s, _| Ok(variables(s, false)))),
    performance("global_variables", PAIR, Source::Here(|s, _| Ok(variables(s, true)))),
    performance("persisted_variables", PAIR, Source::Empty),
    performance("session_status", PAIR, Source::Here(|s, _| Ok(status(s, false)))),
    performance("global_status", PAIR, Source::Here(|s, _| Ok(status(s, true)))),
    performance(
        "session_account_connect_attrs",
        ATTRIBUTES,
        Source::Here(|s, _| Ok(attributes(s, Some(s.own_name())))),
    ),
    performance("session_connect_attrs", ATTRIBUTES, Source::Here(|s, _| Ok(attributes(s, None)))),
    performance(
        "user_variables_by_thread",
        &[
            column("THREAD_ID", Kind::UBigInt),
            column("VARIABLE_NAME", Kind::Text(64)),
            nullable("VARIABLE_VALUE", Kind::LongText),
        ],
        Source::Empty,
    ),
    performance(
        "processlist",
        &[
            column("ID", Kind::UBigInt),
            nullable("USER", Kind::Text(32)),
            nullable("HOST", Kind::Text(255)),
            nullable("DB", Kind::Text(64)),
            nullable("COMMAND", Kind::Text(16)),
            nullable("TIME", Kind::BigInt),
            nullable("STATE", Kind::Text(64)),
            nullable("INFO", Kind::LongText),
        ],
        Source::Connections,
    ),
    performance(
        "metadata_locks",
        &[
            column("OBJECT_TYPE", Kind::Text(64)),
            nullable("OBJECT_SCHEMA", Kind::Text(64)),
            nullable("OBJECT_NAME", Kind::Text(64)),
            nullable("COLUMN_NAME", Kind::Text(64)),
            column("OBJECT_INSTANCE_BEGIN", Kind::UBigInt),
            column("LOCK_TYPE", Kind::Text(32)),
            column("LOCK_DURATION", Kind::Text(32)),
            column("LOCK_STATUS", Kind::Text(32)),
            nullable("SOURCE", Kind::Text(64)),
            nullable("OWNER_THREAD_ID", Kind::UBigInt),
            nullable("OWNER_EVENT_ID", Kind::UBigInt),
        ],
        Source::Empty,
    ),
    performance(
        "keyring_keys",
        &[
            column("KEY_ID", Kind::Text(255)),
            nullable("KEY_OWNER", Kind::Text(255)),
            nullable("BACKEND_KEY_ID", Kind::Text(255)),
        ],
        Source::Empty,
    ),
];

/// Variables by name, as SHOW VARIABLES lists them.
pub(crate) fn variables(session: &Session, global: bool) -> Rows {
    let listed = registry::all().iter().filter(|variable| match variable.scope {
        Scope::Session => !global,
        _ => true,
    });
    listed
        .map(|variable| {
            let of_server = global || variable.scope == Scope::Global;
            let value = shown_text(session, variable, of_server).unwrap_or_default();
            vec![text(variable.name), text(value)]
        })
        .collect()
}

/// Counters by name, as SHOW STATUS lists them.
pub(crate) fn status(session: &Session, global: bool) -> Rows {
    let list = server::status(session, global).into_iter();
    list.map(|(name, value)| vec![text(name), text(value)]).collect()
}

/// What clients have said of themselves: those of all connections, or of a user's.
fn attributes(session: &Session, user: Option<&str>) -> Rows {
    let processes = session.shared.directory.lock().processes();
    let listed = processes.iter().filter(|process| user.is_none_or(|user| process.user == user));
    let rows = listed.flat_map(|process| {
        process.attributes.iter().enumerate().map(|(at, (name, value))| {
            vec![
                Datum::UInt(process.id.into()),
                text(name),
                optional(Some(value)),
                Datum::Int(at as i64),
            ]
        })
    });
    rows.collect()
}
