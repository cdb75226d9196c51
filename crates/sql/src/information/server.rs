//! What the server is made of and what it is doing: engines, character sets, keywords, connections,
//! counters.
//!
//! # Owns
//! ENGINES, PLUGINS, CHARACTER_SETS, COLLATIONS, KEYWORDS, PROCESSLIST, the counters of SHOW
//! STATUS.
//! # Not here
//! Variables (`variables`), accounts (`account`).

use collation::{COLLATIONS, Charset, Pad};
use sql_expression::SqlError;
use sqltype::Datum;

use crate::account::privilege::Privileges;
use crate::directory::CONFLICT_FUNCTIONS;
use crate::information::virtual_table::{
    Hints, Kind, Rows, Source, VirtualTable, column, information, nullable, optional, text,
};
use crate::peers;
use crate::session::Session;

const NAME: Kind = Kind::Text(64);

pub(super) static TABLES: &[VirtualTable] = &[
    information(
        "ENGINES",
        &[
            column("ENGINE", NAME),
            column("SUPPORT", Kind::Text(8)),
            column("COMMENT", Kind::Text(80)),
            nullable("TRANSACTIONS", Kind::Text(3)),
            nullable("XA", Kind::Text(3)),
            nullable("SAVEPOINTS", Kind::Text(3)),
        ],
        Source::Here(|_, _| Ok(texts(&ENGINES))),
    ),
    information(
        "PLUGINS",
        &[
            column("PLUGIN_NAME", NAME),
            column("PLUGIN_VERSION", Kind::Text(20)),
            column("PLUGIN_STATUS", Kind::Text(10)),
            column("PLUGIN_TYPE", Kind::Text(80)),
            column("PLUGIN_TYPE_VERSION", Kind::Text(20)),
            nullable("PLUGIN_LIBRARY", NAME),
            nullable("PLUGIN_LIBRARY_VERSION", Kind::Text(20)),
            nullable("PLUGIN_AUTHOR", NAME),
            nullable("PLUGIN_DESCRIPTION", Kind::LongText),
            nullable("PLUGIN_LICENSE", Kind::Text(80)),
            column("LOAD_OPTION", NAME),
        ],
        Source::Here(plugins),
    ),
    information(
        "CHARACTER_SETS",
        &[
            column("CHARACTER_SET_NAME", NAME),
            column("DEFAULT_COLLATE_NAME", NAME),
            column("DESCRIPTION", Kind::Text(2048)),
            column("MAXLEN", Kind::UInt),
        ],
        Source::Here(|_, _| Ok(character_sets())),
    ),
    information(
        "COLLATIONS",
        &[
            column("COLLATION_NAME", NAME),
            column("CHARACTER_SET_NAME", NAME),
            column("ID", Kind::UBigInt),
            column("IS_DEFAULT", Kind::Text(3)),
            column("IS_COMPILED", Kind::Text(3)),
            column("SORTLEN", Kind::UInt),
            column("PAD_ATTRIBUTE", Kind::Text(9)),
        ],
        Source::Here(|_, _| Ok(collations())),
    ),
    information(
        "COLLATION_CHARACTER_SET_APPLICABILITY",
        &[column("COLLATION_NAME", NAME), column("CHARACTER_SET_NAME", NAME)],
        Source::Here(|_, _| Ok(collations().into_iter().map(|row| row[..2].to_vec()).collect())),
    ),
    information(
        "KEYWORDS",
        &[nullable("WORD", Kind::Text(128)), nullable("RESERVED", Kind::Int)],
        Source::Here(keywords),
    ),
    information(
        "PROCESSLIST",
        &[
            column("ID", Kind::UBigInt),
            column("USER", Kind::Text(32)),
            column("HOST", Kind::Text(261)),
            nullable("DB", NAME),
            column("COMMAND", Kind::Text(16)),
            column("TIME", Kind::Int),
            nullable("STATE", NAME),
            nullable("INFO", Kind::LongText),
        ],
        Source::Connections,
    ),
];

/// Storage engines: name, support, comment, transactions, XA, savepoints. The engine answers to
/// three names, as programs ask for these.
pub(crate) const ENGINES: [[&str; 6]; 2] = [
    ["ndbcluster", "DEFAULT", "Clustered, fault-tolerant, in-memory tables", "YES", "NO", "YES"],
    ["InnoDB", "YES", "Accepted as a name of ndbcluster", "YES", "NO", "YES"],
];

/// Plugins: name, status, type.
pub(crate) fn plugins_of(session: &Session) -> [[&'static str; 3]; 6] {
    let status = |is_on: bool| if is_on { "ACTIVE" } else { "DISABLED" };
    let native = status(session.shared.admission.native_password);
    [
        ["mysql_native_password", native, "AUTHENTICATION"],
        ["caching_sha2_password", "ACTIVE", "AUTHENTICATION"],
        ["auth_socket", "ACTIVE", "AUTHENTICATION"],
        ["audit_log", status(session.shared.audit.is_some()), "AUDIT"],
        ["ndbcluster", "ACTIVE", "STORAGE ENGINE"],
        ["InnoDB", "ACTIVE", "STORAGE ENGINE"],
    ]
}

/// The licence of everything here.
pub(crate) const LICENSE: &str = "Apache-2.0";

fn texts<const N: usize>(rows: &[[&str; N]]) -> Rows {
    rows.iter().map(|row| row.map(text).to_vec()).collect()
}

fn plugins(session: &Session, _: &Hints) -> Result<Rows, SqlError> {
    let row = |[name, status, kind]: &[&str; 3]| {
        vec![
            text(name),
            text("1.0"),
            text(status),
            text(kind),
            text("80400.0"),
            Datum::Null,
            Datum::Null,
            text("Nines"),
            text(name),
            text(LICENSE),
            text("FORCE"),
        ]
    };
    Ok(plugins_of(session).iter().map(row).collect())
}

/// Rows of CHARACTER_SETS; SHOW CHARACTER SET has the same in another order.
pub(crate) fn character_sets() -> Rows {
    let row = |charset: Charset| {
        vec![
            text(charset.name()),
            text(charset.default_collation().name()),
            text(charset.description()),
            Datum::UInt(charset.max_len().into()),
        ]
    };
    Charset::ALL.into_iter().map(row).collect()
}

/// Rows of COLLATIONS, by name.
pub(crate) fn collations() -> Rows {
    let mut all: Vec<_> = COLLATIONS.iter().collect();
    all.sort_by_key(|collation| collation.name);
    let rows = all.into_iter().map(|collation| {
        vec![
            text(collation.name),
            text(collation.charset.name()),
            Datum::UInt(collation.id.0.into()),
            text(if collation.is_default { "Yes" } else { "" }),
            text("Yes"),
            Datum::UInt(collation.sort_len.into()),
            text(if collation.pad == Pad::Space { "PAD SPACE" } else { "NO PAD" }),
        ]
    });
    rows.collect()
}

fn keywords(_: &Session, _: &Hints) -> Result<Rows, SqlError> {
    let row =
        |(word, reserved): (&'static str, bool)| vec![text(word), Datum::Int(reserved.into())];
    Ok(sql_parser::keywords().map(row).collect())
}

/// The connections of all SQL nodes, with the columns of PROCESSLIST.
pub(crate) async fn processes(session: &Session) -> Result<Rows, SqlError> {
    let sees_all = session.rights().is_ok_and(|rights| rights.global.has(Privileges::PROCESS));
    let all = peers::connections(session).await?;
    let seen = all.iter().filter(|listed| sees_all || listed.user == session.own_name());
    let rows = seen.map(|listed| {
        vec![
            Datum::UInt(listed.id),
            text(&listed.user),
            text(&listed.host),
            optional(listed.database.as_ref()),
            text(&listed.command),
            Datum::Int((listed.elapsed.as_millis() / 1_000) as i64),
            text(&listed.state),
            optional(listed.statement.as_ref()),
        ]
    });
    Ok(rows.collect())
}

/// The counters of SHOW STATUS by name; `global` for those of the server, else with the session's
/// own where it has such.
#[expect(clippy::too_many_lines, reason = "a line for each counter")]
pub(crate) fn status(session: &Session, global: bool) -> Vec<(String, String)> {
    let registry = session.shared.directory.lock();
    let counters = registry.counters();
    let own = if global { &counters } else { &session.counters };
    let uptime = session.kernel.now().since(registry.started).as_millis() / 1_000;
    let mut list: Vec<(String, String)> = COMMANDS
        .iter()
        .map(|command| (format!("Com_{command}"), own.commands.of(command).to_string()))
        .collect();
    let (connected, running) = registry.connection_counts();
    let mut add = |name: &str, value: String| list.push((name.to_owned(), value));
    add("Aborted_clients", counters.aborted_clients.to_string());
    add("Aborted_connects", counters.aborted_connects.to_string());
    add("Bytes_received", own.bytes_received.to_string());
    add("Bytes_sent", own.bytes_sent.to_string());
    add("Connections", counters.connections.to_string());
    let memory = session.shared.directory.memory();
    add("Global_connection_memory", memory.used().to_string());
    add("Nines_query_memory_limit", memory.limit().to_string());
    let (used, peak) = if global {
        (memory.used(), memory.peak())
    } else {
        (session.memory.used(), session.memory.peak())
    };
    add("Nines_query_memory_used", used.to_string());
    add("Nines_query_memory_peak", peak.to_string());
    add("Nines_query_memory_refused", memory.refused().to_string());
    let space = memory.temp_space();
    let spilled = if global { space.totals() } else { session.memory.temp().totals() };
    add("Created_tmp_disk_tables", spilled.files.to_string());
    add("Sort_merge_passes", spilled.merge_passes.to_string());
    add("Nines_temp_space_limit", space.limit().to_string());
    add("Nines_temp_space_peak", space.peak().to_string());
    add("Nines_temp_space_used", space.used().to_string());
    add("Nines_temp_space_written", spilled.written.to_string());
    add("Max_used_connections", registry.connections_peak.to_string());
    let mut traffic = session.kernel.traffic();
    if global {
        traffic = counters.traffic;
    }
    add("Nines_data_bytes_received", traffic.bytes.to_string());
    add("Nines_data_messages_received", traffic.messages.to_string());
    add("Nines_data_rows_examined", traffic.examined.to_string());
    add("Nines_data_rows_received", traffic.rows.to_string());
    add("Questions", own.questions.to_string());
    add("Queries", counters.questions.to_string());
    add("Prepared_stmt_count", session.shared.directory.prepared().to_string());
    add("Slow_queries", own.slow_queries.to_string());
    add("Threads_cached", "0".to_owned());
    add("Threads_connected", connected.to_string());
    add("Threads_created", counters.connections.to_string());
    add("Threads_running", running.to_string());
    add("Uptime", uptime.to_string());
    add("Uptime_since_flush_status", uptime.to_string());
    let cluster = session.kernel.cluster();
    add("Ndb_number_of_data_nodes", cluster.data_members().count().to_string());
    let ready = cluster.data_members().filter(|(_, member)| {
        matches!(member.status, model::MemberStatus::Active | model::MemberStatus::Leaving)
    });
    add("Ndb_number_of_ready_data_nodes", ready.count().to_string());
    for (name, count) in CONFLICTS.into_iter().zip(session.shared.directory.conflicts()) {
        add(name, count.to_string());
    }
    add("Open_tables", cluster.table_names.len().to_string());
    for name in ZEROS {
        add(name, "0".to_owned());
    }
    add("Last_query_cost", "0.000000".to_owned());
    drop(registry);
    let encryption = super::encryption::status(session, global);
    let compression = crate::variables::session::compression_status(session);
    let told =
        encryption.into_iter().chain(crate::audit::session::status(session)).chain(compression);
    list.extend(told.map(|(name, value)| (name.to_owned(), value)));
    list.sort_unstable();
    list
}

/// Changes from elsewhere that conflict functions have refused, in the order in which they are
/// counted.
const CONFLICTS: [&str; CONFLICT_FUNCTIONS] = [
    "Ndb_conflict_fn_max",
    "Ndb_conflict_fn_old",
    "Ndb_conflict_fn_max_del_win",
    "Ndb_conflict_fn_max_ins",
    "Ndb_conflict_fn_max_del_win_ins",
];

/// Counters that monitoring asks for and that count nothing here.
const ZEROS: [&str; 27] = [
    "Binlog_cache_disk_use",
    "Binlog_cache_use",
    "Created_tmp_files",
    "Created_tmp_tables",
    "Flush_commands",
    "Handler_commit",
    "Handler_delete",
    "Handler_read_first",
    "Handler_read_key",
    "Handler_read_next",
    "Handler_read_rnd",
    "Handler_read_rnd_next",
    "Handler_rollback",
    "Handler_update",
    "Handler_write",
    "Open_files",
    "Opened_tables",
    "Select_full_join",
    "Select_range",
    "Select_scan",
    "Sort_range",
    "Sort_rows",
    "Sort_scan",
    "Table_locks_immediate",
    "Table_locks_waited",
    "Table_open_cache_hits",
    "Table_open_cache_misses",
];

/// Commands whose counts are listed though there were none.
const COMMANDS: [&str; 64] = [
    "admin_commands",
    "alter_db",
    "alter_table",
    "alter_user",
    "alter_user_default_role",
    "analyze",
    "begin",
    "change_db",
    "check",
    "checksum",
    "commit",
    "create_db",
    "create_index",
    "create_role",
    "create_table",
    "create_user",
    "create_view",
    "dealloc_sql",
    "delete",
    "do",
    "drop_db",
    "drop_index",
    "drop_role",
    "drop_table",
    "drop_user",
    "drop_view",
    "empty_query",
    "execute_sql",
    "explain_other",
    "flush",
    "grant",
    "grant_roles",
    "insert",
    "kill",
    "load",
    "lock_tables",
    "optimize",
    "prepare_sql",
    "release_savepoint",
    "rename_table",
    "rename_user",
    "repair",
    "replace",
    "revoke",
    "revoke_all",
    "revoke_roles",
    "rollback",
    "rollback_to_savepoint",
    "savepoint",
    "select",
    "set_option",
    "set_password",
    "set_role",
    "show",
    "stmt_close",
    "stmt_execute",
    "stmt_fetch",
    "stmt_prepare",
    "stmt_reprepare",
    "stmt_reset",
    "stmt_send_long_data",
    "truncate",
    "unlock_tables",
    "update",
];
