//! SET and the values that are read back.

use sql_expression::BlockEncryption;
use sql_parser::ast::{Ident, SystemVariable, VariableScope};
use sqltype::Datum;

use super::registry::{self, Kind, Scope};
use super::session::lookup;
use super::{SessionVariables, value};
use crate::catalog::harness::Harness;

fn read(harness: &Harness, scope: Option<VariableScope>, name: &str) -> Result<Datum, u16> {
    let reference = SystemVariable { scope, component: None, name: Ident::from(name) };
    lookup(&harness.session, &reference).map(|(value, _)| value).map_err(|error| error.code())
}

#[test]
fn initial_values_are_values() {
    for variable in registry::all() {
        let Some(initial) = variable.initial else { continue };
        let given = match variable.kind {
            Kind::Integer(..) => Datum::UInt(initial.parse().unwrap()),
            Kind::Signed(..) => Datum::Int(initial.parse().unwrap()),
            Kind::Real(..) => Datum::Double(initial.parse().unwrap()),
            _ => Datum::text(initial),
        };
        let mut notes = Vec::new();
        let text = value::checked(variable, &given, true, &mut notes).unwrap();
        assert_eq!(text.as_deref(), Some(initial), "{}", variable.name);
        assert!(notes.is_empty(), "{}", variable.name);
    }
}

#[test]
fn what_is_set_is_read() {
    let int = Datum::Int;
    let cases = [
        ("SET autocommit = 0", "autocommit", int(0)),
        ("SET autocommit = on", "autocommit", int(1)),
        ("SET @@session.autocommit = OFF", "autocommit", int(0)),
        ("SET SESSION wait_timeout = 60", "wait_timeout", Datum::UInt(60)),
        ("SET sql_mode = ''", "sql_mode", Datum::text("")),
        (
            "SET sql_mode = 'ansi_quotes,strict_all_tables'",
            "sql_mode",
            Datum::text("ANSI_QUOTES,STRICT_ALL_TABLES"),
        ),
        ("SET time_zone = '+2:00'", "time_zone", Datum::text("+02:00")),
        ("SET character_set_results = NULL", "character_set_results", Datum::Null),
        ("SET NAMES latin1", "character_set_client", Datum::text("latin1")),
        ("SET NAMES latin1", "collation_connection", Datum::text("latin1_swedish_ci")),
        (
            "SET NAMES utf8mb4 COLLATE utf8mb4_bin",
            "collation_connection",
            Datum::text("utf8mb4_bin"),
        ),
        ("SET NAMES 'utf8'", "character_set_results", Datum::text("utf8mb3")),
        ("SET CHARACTER SET latin1", "character_set_connection", Datum::text("utf8mb4")),
        (
            "SET collation_connection = latin1_bin",
            "character_set_connection",
            Datum::text("latin1"),
        ),
        ("SET collation_connection = 46", "collation_connection", Datum::text("utf8mb4_bin")),
        ("SET long_query_time = 0.5", "long_query_time", Datum::Double(0.5)),
        ("SET foreign_key_checks = 0, unique_checks = 0", "unique_checks", int(0)),
        (
            "SET transaction_isolation = 'repeatable-read'",
            "transaction_isolation",
            Datum::text("REPEATABLE-READ"),
        ),
        (
            "SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED, READ ONLY",
            "transaction_isolation",
            Datum::text("READ-UNCOMMITTED"),
        ),
        ("SET SESSION TRANSACTION READ ONLY", "transaction_read_only", int(1)),
        (
            "SET block_encryption_mode = 'AES-256-cfb128'",
            "block_encryption_mode",
            Datum::text("aes-256-cfb128"),
        ),
        ("SET block_encryption_mode = 5", "block_encryption_mode", Datum::text("aes-256-cbc")),
        ("SET last_insert_id = 9", "identity", Datum::UInt(9)),
        ("SET group_concat_max_len = 1", "group_concat_max_len", Datum::UInt(4)),
        ("SET timestamp = 1000.25", "timestamp", Datum::Double(1000.25)),
        ("SET completion_type = 1", "completion_type", Datum::text("CHAIN")),
        ("SET default_storage_engine = innodb", "default_storage_engine", Datum::text("InnoDB")),
        ("SET optimizer_trace_offset = -3", "optimizer_trace_offset", int(-3)),
        (
            "SET sql_mode = concat(@@sql_mode, ',ANSI_QUOTES'), wait_timeout = 1 + 1",
            "wait_timeout",
            Datum::UInt(2),
        ),
    ];
    for (sql, name, expected) in cases {
        let mut harness = Harness::new();
        harness.ok(sql);
        assert_eq!(read(&harness, None, name), Ok(expected), "{sql}");
    }
}

#[test]
fn expressions_go_by_the_block_encryption_mode_of_now() {
    let mut harness = Harness::new();
    assert_eq!(harness.session.facts().block_encryption, BlockEncryption::DEFAULT);
    harness.ok("SET block_encryption_mode = 'aes-192-cfb1'");
    let expected = BlockEncryption::by_name("aes-192-cfb1");
    assert_eq!(Some(harness.session.facts().block_encryption), expected);
}

#[test]
fn what_cannot_be_set_is_refused_with_its_number() {
    let cases = [
        ("SET nosuch = 1", 1193),
        ("SET @@global.nosuch = 1", 1193),
        ("SET validate_password.policy = 1", 1229),
        ("SET version = 'x'", 1238),
        ("SET GLOBAL port = 1", 1238),
        ("SET max_connections = 5", 1229),
        ("SET GLOBAL timestamp = 5", 1228),
        ("SET max_allowed_packet = 1024", 1621),
        ("SET autocommit = 2", 1231),
        ("SET autocommit = 'maybe'", 1231),
        ("SET autocommit = 0.5", 1232),
        ("SET wait_timeout = 'x'", 1232),
        ("SET wait_timeout = 1.5", 1232),
        ("SET sql_mode = 'NOSUCH'", 1231),
        ("SET sql_mode = NULL", 1231),
        ("SET block_encryption_mode = 'aes-128-gcm'", 1231),
        ("SET block_encryption_mode = 18", 1231),
        ("SET time_zone = 'Nowhere/City'", 1298),
        ("SET NAMES nosuch", 1115),
        ("SET NAMES ucs2", 1231),
        ("SET NAMES utf8mb4 COLLATE latin1_bin", 1253),
        ("SET collation_connection = nosuch", 1273),
        ("SET character_set_client = NULL", 1231),
        ("SET lc_time_names = 'xx_XX'", 1649),
        ("SET default_storage_engine = nosuch", 1286),
        ("SET transaction_isolation = 'nosuch'", 1231),
        ("SET last_insert_id = DEFAULT", 1230),
    ];
    for (sql, code) in cases {
        let mut harness = Harness::new();
        let (found, message) = harness.error(sql);
        assert_eq!(found, code, "{sql}: {message}");
    }
}

#[test]
fn nothing_is_assigned_when_something_is_refused() {
    let mut harness = Harness::new();
    harness.error("SET wait_timeout = 5, sql_mode = 'NOSUCH'");
    assert_eq!(read(&harness, None, "wait_timeout"), Ok(Datum::UInt(28_800)));
}

#[test]
fn numbers_beyond_the_limits_are_moved_there() {
    let mut harness = Harness::new();
    harness.ok("SET max_error_count = 99999");
    assert_eq!(harness.warnings(), [1292]);
    assert_eq!(harness.session.variables.max_error_count, 65_535);
    harness.ok("SET sql_mode = STRICT_ALL_TABLES");
    assert_eq!(harness.error("SET max_error_count = 99999").0, 1231);
    harness.ok("SET sql_mode = DEFAULT");
    harness.ok("SET GLOBAL max_allowed_packet = 5000");
    assert_eq!(harness.warnings(), [1292]);
    let global = Some(VariableScope::Global);
    assert_eq!(read(&harness, global, "max_allowed_packet"), Ok(Datum::UInt(4096)));
}

#[test]
fn scopes_are_kept_apart() {
    let mut harness = Harness::new();
    let (global, session) = (Some(VariableScope::Global), Some(VariableScope::Session));
    harness.ok("SET GLOBAL wait_timeout = 77");
    assert_eq!(read(&harness, global, "wait_timeout"), Ok(Datum::UInt(77)));
    assert_eq!(read(&harness, session, "wait_timeout"), Ok(Datum::UInt(28_800)));
    harness.ok("SET wait_timeout = DEFAULT");
    assert_eq!(read(&harness, session, "wait_timeout"), Ok(Datum::UInt(77)));
    harness.ok("SET GLOBAL wait_timeout = DEFAULT");
    assert_eq!(read(&harness, global, "wait_timeout"), Ok(Datum::UInt(28_800)));
    assert_eq!(read(&harness, session, "port"), Err(1238));
    assert_eq!(read(&harness, global, "timestamp"), Err(1238));
    assert_eq!(read(&harness, None, "port"), Ok(Datum::UInt(3306)));
    assert_eq!(read(&harness, None, "nosuch"), Err(1193));
    harness.ok("SET GLOBAL max_execution_time = 5");
    let globals = harness.session.shared.directory.lock().globals.clone();
    assert_eq!(SessionVariables::new(&globals).max_execution_time, 5);
}

#[test]
fn persisted_values_are_the_clusters_and_can_be_forgotten() {
    let mut harness = Harness::new();
    let global = Some(VariableScope::Global);
    harness.ok("SET PERSIST wait_timeout = 5, PERSIST_ONLY max_execution_time = 7");
    assert_eq!(read(&harness, global, "wait_timeout"), Ok(Datum::UInt(5)));
    assert_eq!(read(&harness, global, "max_execution_time"), Ok(Datum::UInt(0)));
    let kept = |harness: &Harness| {
        let cluster = harness.session.kernel.cluster();
        let text =
            |(name, value): (&str, Option<&str>)| format!("{name}={}", value.unwrap_or("NULL"));
        cluster.settings.kept().map(text).collect::<Vec<_>>()
    };
    assert_eq!(kept(&harness), ["max_execution_time=7", "wait_timeout=5"]);
    harness.ok("SET GLOBAL wait_timeout = 6");
    assert_eq!(read(&harness, global, "wait_timeout"), Ok(Datum::UInt(6)));
    harness.ok("RESET PERSIST IF EXISTS wait_timeout");
    assert_eq!(read(&harness, global, "wait_timeout"), Ok(Datum::UInt(6)));
    assert_eq!(kept(&harness), ["max_execution_time=7"]);
    assert_eq!(harness.error("RESET PERSIST wait_timeout").0, 3615);
    harness.ok("RESET PERSIST IF EXISTS wait_timeout");
    assert_eq!(harness.warnings(), [3615]);
    harness.ok("RESET PERSIST");
    assert!(kept(&harness).is_empty());
    // Files of a host are no other host's.
    assert_eq!(harness.error("SET PERSIST ssl_cert = '/a'").0, 1235);
    harness.ok("SET GLOBAL ssl_cert = '/a'");
    assert_eq!(read(&harness, global, "ssl_cert"), Ok(Datum::text("/a")));
    assert_eq!(harness.session.kernel.cluster().settings.values(0).count(), 1);
    // All values together are bounded.
    let long = "x".repeat(70_000);
    let (code, message) = harness.error(&format!("SET GLOBAL init_file = '{long}'"));
    assert_eq!(code, 1238, "{message}");
    let (code, message) = harness.error(&format!("SET PERSIST ft_boolean_syntax = '{long}'"));
    assert_eq!((code, message.contains("RESET PERSIST gives room")), (1105, true), "{message}");
}

#[test]
fn while_a_node_is_too_old_global_values_are_one_sql_nodes() {
    let mut harness = Harness::new();
    harness.world.exchange.borrow_mut().protocol = 15;
    harness.ok("SET GLOBAL wait_timeout = 6");
    assert_eq!(harness.warnings(), [1105]);
    let global = Some(VariableScope::Global);
    assert_eq!(read(&harness, global, "wait_timeout"), Ok(Datum::UInt(6)));
    assert_eq!(harness.error("SET PERSIST wait_timeout = 7").0, 1235);
}

/// What would protect, place or keep something is not taken as if it did.
#[test]
fn what_promises_more_than_there_is_is_refused_unless_it_is_to_be_ignored() {
    let mut harness = Harness::new();
    let refused = [
        "SET GLOBAL read_only = 1",
        "SET GLOBAL super_read_only = ON",
        "SET GLOBAL offline_mode = ON",
        "SET GLOBAL innodb_flush_log_at_trx_commit = 1",
        "SET GLOBAL init_connect = 'SELECT 1'",
        "SET default_table_encryption = ON",
        "SET sql_generate_invisible_primary_key = ON",
        "CREATE TABLE a (i INT) TABLESPACE ts STORAGE DISK",
        "CREATE TABLE b (i INT STORAGE DISK)",
        "CREATE TABLE c (i INT) STORAGE DISK",
        "CREATE TABLE e (i INT) ENCRYPTION = 'Y'",
        "CREATE TABLE f (i INT) DATA DIRECTORY = '/fast'",
        "CREATE TABLE g (i INT PRIMARY KEY) PARTITION BY KEY () (PARTITION p NODEGROUP = 1)",
        "CREATE TABLE h (i INT PRIMARY KEY) PARTITION BY KEY () (PARTITION p TABLESPACE = ts)",
        "ALTER TABLE there TABLESPACE ts",
        "ALTER TABLE there STORAGE DISK",
    ];
    harness.ok("CREATE TABLE there (i INT) STORAGE MEMORY ENCRYPTION = 'N'");
    for sql in refused {
        let (code, message) = harness.error(sql);
        assert_eq!(code, 1235, "{sql}: {message}");
        assert!(message.contains("SET nines_ignore_unsupported = ON"), "{sql}: {message}");
    }
    assert_eq!(read(&harness, Some(VariableScope::Global), "read_only"), Ok(Datum::Int(0)));
    for harmless in ["SET GLOBAL read_only = OFF", "SET GLOBAL require_secure_transport = 1"] {
        harness.ok(harmless);
        assert!(harness.warnings().is_empty(), "{harmless}");
    }
    harness.ok("SET nines_ignore_unsupported = ON");
    for sql in refused {
        harness.ok(sql);
        let warnings = harness.warnings();
        assert!(!warnings.is_empty() && warnings.iter().all(|code| *code == 1235), "{sql}");
    }
}

#[test]
fn the_next_transaction_alone() {
    let mut harness = Harness::new();
    harness.ok("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY");
    assert_eq!(
        harness.session.transaction.isolation_once,
        Some(crate::variables::choice::Isolation::RepeatableRead)
    );
    assert_eq!(harness.session.transaction.read_only_once, Some(true));
    assert_eq!(read(&harness, None, "transaction_isolation"), Ok(Datum::text("READ-COMMITTED")));
    harness.session.transaction.explicit = true;
    assert_eq!(harness.error("SET TRANSACTION READ ONLY").0, 1568);
    harness.ok("SET SESSION TRANSACTION READ ONLY");
}

#[test]
fn the_client_is_told_of_what_it_follows() {
    let mut harness = Harness::new();
    harness.session.variables.take_changes();
    harness.ok("SET NAMES latin1, wait_timeout = 5, time_zone = '+01:00'");
    let names: Vec<&str> =
        harness.session.variables.take_changes().into_iter().map(|(name, _)| name).collect();
    let followed =
        ["character_set_client", "character_set_connection", "character_set_results", "time_zone"];
    assert_eq!(names, followed);
    harness.ok("SET session_track_system_variables = '*', wait_timeout = 6");
    let changes = harness.session.variables.take_changes();
    assert!(changes.contains(&("wait_timeout", "6".to_owned())));
}

#[test]
fn user_variables_take_the_values_before_them() {
    let mut harness = Harness::new();
    harness.ok("SET @a = 2, @b = @a + 1");
    assert_eq!(harness.session.user_variables["b"].value, Datum::Int(3));
}

#[test]
fn every_session_variable_has_a_value() {
    let harness = Harness::new();
    for variable in registry::all() {
        let scope = match variable.scope {
            Scope::Global => Some(VariableScope::Global),
            Scope::Session | Scope::Both => None,
        };
        read(&harness, scope, variable.name).unwrap_or_else(|_| panic!("{}", variable.name));
    }
}

#[test]
fn the_version_stands_for_the_values() {
    let version = |statements: &[&str]| {
        let mut harness = Harness::new();
        statements.iter().for_each(|sql| drop(harness.ok(sql)));
        harness.session.variables.version
    };
    let (one, two) = ("SET div_precision_increment = 1", "SET div_precision_increment = 2");
    assert_ne!(version(&[one]), version(&[two]));
    assert_ne!(version(&[one]), version(&["SET sql_mode = ''"]));
    assert_eq!(version(&[two, one]), version(&[one]));
    assert_eq!(version(&[one, "SET div_precision_increment = 4"]), version(&[]));
}
