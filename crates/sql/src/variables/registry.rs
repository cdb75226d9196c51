//! All system variables: names, scopes, kinds of value, initial values.
//!
//! Clients and tools ask for many of MySQL's variables and set some of them before they begin.
//! Those without a meaning here are accepted and kept, so that what was set is read again; their
//! values say what is true of this server (`log_bin` is OFF, `performance_schema` too).
//!
//! # Owns
//! The table of variables.
//! # Not here
//! Values of a session or the server (`variables`), what a value means (`value`).

use sql_expression::BlockEncryption;

use super::compression;
use crate::audit::CLASSES;

/// A system variable.
#[derive(Debug)]
pub(crate) struct Variable {
    /// The name, lower case.
    pub(crate) name: &'static str,
    /// Where it has values.
    pub(crate) scope: Scope,
    /// Whether SET may change it.
    pub(crate) is_dynamic: bool,
    /// What its values are.
    pub(crate) kind: Kind,
    /// What a server begins with; none for NULL, and where the value is found when it is asked for.
    pub(crate) initial: Option<&'static str>,
}

/// Where a variable has values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// One value for the server.
    Global,
    /// One for each session, and none for the server.
    Session,
    /// One for each session; sessions begin with the server's.
    Both,
}

/// What the values of a variable are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    /// ON or OFF.
    Switch,
    /// A number from the first to the second; what is beyond is moved there, with a warning.
    Integer(u64, u64),
    /// As `Integer`, with a sign.
    Signed(i64, i64),
    /// A number with a fraction.
    Real(f64, f64),
    /// Any text.
    Text,
    /// Any text, or NULL.
    NullableText,
    /// One of these words, or its number counted from 0.
    Choice(&'static [&'static str]),
    /// Some of these words, or their bits.
    Flags(&'static [&'static str]),
    /// A character set, by name or by the number of a collation.
    Charset,
    /// A character set, or NULL.
    NullableCharset,
    /// A collation, by name or number.
    Collation,
    /// A list of SQL modes, or their bits.
    SqlMode,
    /// `SYSTEM`, `+02:00`, or the name of a zone.
    TimeZone,
    /// An isolation level as `READ-COMMITTED`.
    Isolation,
    /// The name of a storage engine.
    Engine,
    /// A locale: there is only `en_US`.
    Locale,
    /// Seconds since 1970 with a fraction; 0 for the clock.
    Timestamp,
}

/// The variable of this name in lower case. `tx_isolation` and the like are gone with MySQL 8.0.3.
pub(crate) fn find(name: &str) -> Option<&'static Variable> {
    let at = VARIABLES.binary_search_by(|variable| variable.name.cmp(name)).ok()?;
    Some(&VARIABLES[at])
}

/// All variables, by name.
pub(crate) fn all() -> &'static [Variable] {
    VARIABLES
}

const GLOBAL: Scope = Scope::Global;
const SESSION: Scope = Scope::Session;
const BOTH: Scope = Scope::Both;
const DYNAMIC: bool = true;
const FIXED: bool = false;

const fn first(initial: &[&'static str]) -> Option<&'static str> {
    match initial {
        [] => None,
        [initial, ..] => Some(*initial),
    }
}

/// One variable per entry: name, scope, whether it can be set, kind, initial value.
macro_rules! variables {
    ($(
        $name:ident $(. $part:ident)?,
        $scope:ident, $is_dynamic:ident, $kind:expr $(, $initial:literal)?;
    )*) => {
        static VARIABLES: &[Variable] = {
            use Kind::*;
            &[$(Variable {
                name: concat!(stringify!($name) $(, ".", stringify!($part))?),
                scope: $scope,
                is_dynamic: $is_dynamic,
                kind: $kind,
                initial: first(&[$($initial)?]),
            }),*]
        };
    };
}

variables! {
    activate_all_roles_on_login, GLOBAL, DYNAMIC, Switch, "OFF";
    admin_address, GLOBAL, FIXED, Text, "";
    admin_port, GLOBAL, FIXED, Integer(0, 65_535), "33062";
    audit_log_buffer_size, GLOBAL, FIXED, Integer(4_096, 4_294_967_295), "1048576";
    audit_log_exclude_accounts, GLOBAL, DYNAMIC, Text, "";
    audit_log_file, GLOBAL, FIXED, Text, "";
    audit_log_flush, GLOBAL, DYNAMIC, Switch, "OFF";
    audit_log_format, GLOBAL, FIXED, Choice(&["JSON"]), "JSON";
    audit_log_include_accounts, GLOBAL, DYNAMIC, Text, "";
    audit_log_include_databases, GLOBAL, DYNAMIC, Text, "";
    audit_log_max_size, GLOBAL, DYNAMIC, Integer(0, u64::MAX), "0";
    audit_log_policy, GLOBAL, DYNAMIC, Choice(&["ALL", "LOGINS", "QUERIES", "NONE"]), "ALL";
    audit_log_rotate_on_size, GLOBAL, DYNAMIC, Integer(0, u64::MAX), "0";
    audit_log_strategy, GLOBAL, DYNAMIC,
        Choice(&["ASYNCHRONOUS", "PERFORMANCE", "SEMISYNCHRONOUS", "SYNCHRONOUS"]), "ASYNCHRONOUS";
    authentication_policy, GLOBAL, DYNAMIC, Text, "*,,";
    auto_generate_certs, GLOBAL, FIXED, Switch, "ON";
    auto_increment_increment, BOTH, DYNAMIC, Integer(1, 65_535), "1";
    auto_increment_offset, BOTH, DYNAMIC, Integer(1, 65_535), "1";
    autocommit, BOTH, DYNAMIC, Switch, "ON";
    automatic_sp_privileges, GLOBAL, DYNAMIC, Switch, "ON";
    avoid_temporal_upgrade, GLOBAL, DYNAMIC, Switch, "OFF";
    back_log, GLOBAL, FIXED, Integer(1, 65_535), "151";
    basedir, GLOBAL, FIXED, Text;
    big_tables, BOTH, DYNAMIC, Switch, "OFF";
    bind_address, GLOBAL, FIXED, Text, "*";
    binlog_cache_size, GLOBAL, DYNAMIC, Integer(4_096, 18_446_744_073_709_547_520), "32768";
    binlog_checksum, GLOBAL, DYNAMIC, Choice(&["NONE", "CRC32"]), "CRC32";
    binlog_direct_non_transactional_updates, BOTH, DYNAMIC, Switch, "OFF";
    binlog_encryption, GLOBAL, DYNAMIC, Switch, "OFF";
    binlog_error_action, GLOBAL, DYNAMIC, Choice(&["IGNORE_ERROR", "ABORT_SERVER"]), "ABORT_SERVER";
    binlog_expire_logs_auto_purge, GLOBAL, DYNAMIC, Switch, "ON";
    binlog_expire_logs_seconds, GLOBAL, DYNAMIC, Integer(0, 4_294_967_295), "2592000";
    binlog_format, BOTH, DYNAMIC, Choice(&["MIXED", "STATEMENT", "ROW"]), "ROW";
    binlog_group_commit_sync_delay, GLOBAL, DYNAMIC, Integer(0, 1_000_000), "0";
    binlog_gtid_simple_recovery, GLOBAL, FIXED, Switch, "ON";
    binlog_order_commits, GLOBAL, DYNAMIC, Switch, "ON";
    binlog_row_event_max_size, GLOBAL, FIXED, Integer(256, u64::MAX), "8192";
    binlog_row_image, BOTH, DYNAMIC, Choice(&["MINIMAL", "NOBLOB", "FULL"]), "FULL";
    binlog_row_metadata, GLOBAL, FIXED, Choice(&["MINIMAL", "FULL"]), "FULL";
    binlog_row_value_options, BOTH, DYNAMIC, Text, "";
    binlog_rows_query_log_events, BOTH, DYNAMIC, Switch, "OFF";
    binlog_stmt_cache_size, GLOBAL, DYNAMIC, Integer(4_096, 18_446_744_073_709_547_520), "32768";
    binlog_transaction_compression, BOTH, DYNAMIC, Switch, "OFF";
    block_encryption_mode, BOTH, DYNAMIC, Choice(&BlockEncryption::NAMES), "aes-128-ecb";
    bulk_insert_buffer_size, BOTH, DYNAMIC, Integer(0, u64::MAX), "8388608";
    caching_sha2_password_auto_generate_rsa_keys, GLOBAL, FIXED, Switch, "ON";
    caching_sha2_password_digest_rounds, GLOBAL, FIXED, Integer(5_000, 4_095_000), "5000";
    caching_sha2_password_private_key_path, GLOBAL, FIXED, Text, "private_key.pem";
    caching_sha2_password_public_key_path, GLOBAL, FIXED, Text, "public_key.pem";
    character_set_client, BOTH, DYNAMIC, Charset, "utf8mb4";
    character_set_connection, BOTH, DYNAMIC, Charset, "utf8mb4";
    character_set_database, BOTH, DYNAMIC, Charset, "utf8mb4";
    character_set_filesystem, BOTH, DYNAMIC, Charset, "binary";
    character_set_results, BOTH, DYNAMIC, NullableCharset, "utf8mb4";
    character_set_server, BOTH, DYNAMIC, Charset, "utf8mb4";
    character_set_system, GLOBAL, FIXED, Text, "utf8mb3";
    character_sets_dir, GLOBAL, FIXED, Text, "";
    check_proxy_users, GLOBAL, DYNAMIC, Switch, "OFF";
    collation_connection, BOTH, DYNAMIC, Collation, "utf8mb4_0900_ai_ci";
    collation_database, BOTH, DYNAMIC, Collation, "utf8mb4_0900_ai_ci";
    collation_server, BOTH, DYNAMIC, Collation, "utf8mb4_0900_ai_ci";
    completion_type, BOTH, DYNAMIC, Choice(&["NO_CHAIN", "CHAIN", "RELEASE"]), "NO_CHAIN";
    concurrent_insert, GLOBAL, DYNAMIC, Choice(&["NEVER", "AUTO", "ALWAYS"]), "AUTO";
    connect_timeout, GLOBAL, DYNAMIC, Integer(2, 31_536_000), "10";
    connection_memory_limit, BOTH, DYNAMIC, Integer(2_097_152, u64::MAX), "18446744073709551615";
    core_file, GLOBAL, FIXED, Switch, "OFF";
    create_admin_listener_thread, GLOBAL, FIXED, Switch, "OFF";
    cte_max_recursion_depth, BOTH, DYNAMIC, Integer(0, 4_294_967_295), "1000";
    datadir, GLOBAL, FIXED, Text;
    debug_sync, SESSION, DYNAMIC, Text, "";
    default_authentication_plugin, GLOBAL, FIXED, Text, "caching_sha2_password";
    default_collation_for_utf8mb4, BOTH, DYNAMIC,
        Choice(&["utf8mb4_0900_ai_ci", "utf8mb4_general_ci"]), "utf8mb4_0900_ai_ci";
    default_password_lifetime, GLOBAL, DYNAMIC, Integer(0, 65_535), "0";
    default_storage_engine, BOTH, DYNAMIC, Engine, "ndbcluster";
    default_table_encryption, BOTH, DYNAMIC, Switch, "OFF";
    default_tmp_storage_engine, BOTH, DYNAMIC, Engine, "ndbcluster";
    default_week_format, BOTH, DYNAMIC, Integer(0, 7), "0";
    delay_key_write, GLOBAL, DYNAMIC, Choice(&["OFF", "ON", "ALL"]), "ON";
    delayed_insert_limit, GLOBAL, DYNAMIC, Integer(1, u64::MAX), "100";
    delayed_insert_timeout, GLOBAL, DYNAMIC, Integer(1, 31_536_000), "300";
    delayed_queue_size, GLOBAL, DYNAMIC, Integer(1, u64::MAX), "1000";
    disabled_storage_engines, GLOBAL, FIXED, Text, "";
    disconnect_on_expired_password, GLOBAL, FIXED, Switch, "ON";
    div_precision_increment, BOTH, DYNAMIC, Integer(0, 30), "4";
    end_markers_in_json, BOTH, DYNAMIC, Switch, "OFF";
    enforce_gtid_consistency, GLOBAL, DYNAMIC, Choice(&["OFF", "ON", "WARN"]), "OFF";
    eq_range_index_dive_limit, BOTH, DYNAMIC, Integer(0, 4_294_967_295), "200";
    error_count, SESSION, FIXED, Integer(0, u64::MAX);
    event_scheduler, GLOBAL, DYNAMIC, Choice(&["OFF", "ON", "DISABLED"]), "OFF";
    expire_logs_days, GLOBAL, DYNAMIC, Integer(0, 99), "0";
    explain_format, BOTH, DYNAMIC,
        Choice(&["TRADITIONAL", "TRADITIONAL_STRICT", "TREE", "JSON"]), "TRADITIONAL";
    explicit_defaults_for_timestamp, BOTH, DYNAMIC, Switch, "ON";
    external_user, SESSION, FIXED, NullableText;
    flush, GLOBAL, DYNAMIC, Switch, "OFF";
    flush_time, GLOBAL, DYNAMIC, Integer(0, 31_536_000), "0";
    foreign_key_checks, BOTH, DYNAMIC, Switch, "ON";
    ft_boolean_syntax, GLOBAL, DYNAMIC, Text, "+ -><()~*:\"\"&|";
    ft_max_word_len, GLOBAL, FIXED, Integer(10, 84), "84";
    ft_min_word_len, GLOBAL, FIXED, Integer(1, 82), "4";
    ft_query_expansion_limit, GLOBAL, FIXED, Integer(0, 1_000), "20";
    ft_stopword_file, GLOBAL, FIXED, Text, "(built-in)";
    general_log, GLOBAL, DYNAMIC, Switch, "OFF";
    general_log_file, GLOBAL, DYNAMIC, Text, "";
    generated_random_password_length, BOTH, DYNAMIC, Integer(5, 255), "20";
    global_connection_memory_limit, GLOBAL, DYNAMIC, Integer(16_777_216, u64::MAX);
    group_concat_max_len, BOTH, DYNAMIC, Integer(4, u64::MAX), "1024";
    group_replication_consistency, BOTH, DYNAMIC,
        Choice(&["EVENTUAL", "BEFORE_ON_PRIMARY_FAILOVER", "BEFORE", "AFTER", "BEFORE_AND_AFTER"]),
        "EVENTUAL";
    gtid_executed, GLOBAL, FIXED, Text, "";
    gtid_executed_compression_period, GLOBAL, DYNAMIC, Integer(0, 4_294_967_295), "0";
    gtid_mode, GLOBAL, DYNAMIC, Choice(&["OFF", "OFF_PERMISSIVE", "ON_PERMISSIVE", "ON"]), "OFF";
    gtid_next, SESSION, DYNAMIC, Text, "AUTOMATIC";
    gtid_owned, BOTH, FIXED, Text, "";
    gtid_purged, GLOBAL, DYNAMIC, Text, "";
    have_compress, GLOBAL, FIXED, Text, "YES";
    have_dynamic_loading, GLOBAL, FIXED, Text, "NO";
    have_geometry, GLOBAL, FIXED, Text, "NO";
    have_openssl, GLOBAL, FIXED, Text;
    have_profiling, GLOBAL, FIXED, Text, "NO";
    have_query_cache, GLOBAL, FIXED, Text, "NO";
    have_rtree_keys, GLOBAL, FIXED, Text, "NO";
    have_ssl, GLOBAL, FIXED, Text;
    have_statement_timeout, GLOBAL, FIXED, Text, "YES";
    have_symlink, GLOBAL, FIXED, Text, "DISABLED";
    high_priority_updates, BOTH, DYNAMIC, Switch, "OFF";
    histogram_generation_max_mem_size, BOTH, DYNAMIC, Integer(1_000_000, u64::MAX), "20000000";
    host_cache_size, GLOBAL, DYNAMIC, Integer(0, 65_536), "279";
    hostname, GLOBAL, FIXED, Text;
    identity, SESSION, DYNAMIC, Integer(0, u64::MAX);
    immediate_server_version, SESSION, DYNAMIC, Integer(0, 999_999), "999999";
    information_schema_stats_expiry, BOTH, DYNAMIC, Integer(0, 31_536_000), "86400";
    init_connect, GLOBAL, DYNAMIC, Text, "";
    init_file, GLOBAL, FIXED, Text, "";
    init_replica, GLOBAL, DYNAMIC, Text, "";
    init_slave, GLOBAL, DYNAMIC, Text, "";
    innodb_autoinc_lock_mode, GLOBAL, FIXED, Integer(0, 2), "2";
    innodb_checksum_algorithm, GLOBAL, DYNAMIC,
        Choice(&["CRC32", "STRICT_CRC32", "INNODB", "STRICT_INNODB", "NONE", "STRICT_NONE"]),
        "CRC32";
    innodb_default_row_format, GLOBAL, DYNAMIC,
        Choice(&["REDUNDANT", "COMPACT", "DYNAMIC"]), "DYNAMIC";
    innodb_file_per_table, GLOBAL, DYNAMIC, Switch, "ON";
    innodb_flush_log_at_trx_commit, GLOBAL, DYNAMIC, Integer(0, 2), "0";
    innodb_ft_enable_stopword, BOTH, DYNAMIC, Switch, "ON";
    innodb_lock_wait_timeout, BOTH, DYNAMIC, Integer(1, 1_073_741_824), "50";
    innodb_online_alter_log_max_size, GLOBAL, DYNAMIC, Integer(65_536, u64::MAX), "134217728";
    innodb_page_size, GLOBAL, FIXED, Integer(4_096, 65_536), "16384";
    innodb_print_all_deadlocks, GLOBAL, DYNAMIC, Switch, "OFF";
    innodb_read_only, GLOBAL, FIXED, Switch, "OFF";
    innodb_rollback_on_timeout, GLOBAL, FIXED, Switch, "OFF";
    innodb_stats_on_metadata, GLOBAL, DYNAMIC, Switch, "OFF";
    innodb_strict_mode, BOTH, DYNAMIC, Switch, "ON";
    innodb_table_locks, BOTH, DYNAMIC, Switch, "ON";
    insert_id, SESSION, DYNAMIC, Integer(0, u64::MAX), "0";
    interactive_timeout, BOTH, DYNAMIC, Integer(1, 31_536_000), "28800";
    internal_tmp_mem_storage_engine, BOTH, DYNAMIC, Choice(&["MEMORY", "TempTable"]), "TempTable";
    join_buffer_size, BOTH, DYNAMIC, Integer(128, 18_446_744_073_709_551_488), "262144";
    keep_files_on_create, BOTH, DYNAMIC, Switch, "OFF";
    key_buffer_size, GLOBAL, DYNAMIC, Integer(0, u64::MAX), "8388608";
    key_cache_age_threshold, GLOBAL, DYNAMIC, Integer(100, 18_446_744_073_709_551_516), "300";
    key_cache_block_size, GLOBAL, DYNAMIC, Integer(512, 16_384), "1024";
    key_cache_division_limit, GLOBAL, DYNAMIC, Integer(1, 100), "100";
    keyring_operations, GLOBAL, DYNAMIC, Switch, "ON";
    large_files_support, GLOBAL, FIXED, Switch, "ON";
    large_page_size, GLOBAL, FIXED, Integer(0, u64::MAX), "0";
    large_pages, GLOBAL, FIXED, Switch, "OFF";
    last_insert_id, SESSION, DYNAMIC, Integer(0, u64::MAX);
    lc_messages, BOTH, DYNAMIC, Text, "en_US";
    lc_messages_dir, GLOBAL, FIXED, Text, "";
    lc_time_names, BOTH, DYNAMIC, Locale, "en_US";
    license, GLOBAL, FIXED, Text, "Apache-2.0";
    local_infile, GLOBAL, DYNAMIC, Switch, "OFF";
    lock_wait_timeout, BOTH, DYNAMIC, Integer(1, 31_536_000), "31536000";
    locked_in_memory, GLOBAL, FIXED, Switch, "OFF";
    log_bin, GLOBAL, DYNAMIC, Switch, "OFF";
    log_bin_basename, GLOBAL, FIXED, NullableText;
    log_bin_index, GLOBAL, FIXED, NullableText;
    log_bin_trust_function_creators, GLOBAL, DYNAMIC, Switch, "OFF";
    log_bin_use_v1_row_events, GLOBAL, DYNAMIC, Switch, "OFF";
    log_error, GLOBAL, FIXED, Text, "stderr";
    log_error_services, GLOBAL, DYNAMIC, Text, "log_filter_internal; log_sink_internal";
    log_error_suppression_list, GLOBAL, DYNAMIC, Text, "";
    log_error_verbosity, GLOBAL, DYNAMIC, Integer(1, 3), "2";
    log_output, GLOBAL, DYNAMIC, Flags(&["NONE", "FILE", "TABLE"]), "FILE";
    log_queries_not_using_indexes, GLOBAL, DYNAMIC, Switch, "OFF";
    log_raw, GLOBAL, DYNAMIC, Switch, "OFF";
    log_replica_updates, GLOBAL, DYNAMIC, Switch, "ON";
    log_slave_updates, GLOBAL, FIXED, Switch, "ON";
    log_slow_admin_statements, GLOBAL, DYNAMIC, Switch, "OFF";
    log_statements_unsafe_for_binlog, GLOBAL, DYNAMIC, Switch, "ON";
    log_throttle_queries_not_using_indexes, GLOBAL, DYNAMIC, Integer(0, 4_294_967_295), "0";
    log_timestamps, GLOBAL, DYNAMIC, Choice(&["UTC", "SYSTEM"]), "UTC";
    long_query_time, BOTH, DYNAMIC, Real(0.0, 31_536_000.0), "10.000000";
    low_priority_updates, BOTH, DYNAMIC, Switch, "OFF";
    lower_case_file_system, GLOBAL, FIXED, Switch, "OFF";
    lower_case_table_names, GLOBAL, FIXED, Integer(0, 2), "0";
    mandatory_roles, GLOBAL, DYNAMIC, Text, "";
    master_info_repository, GLOBAL, DYNAMIC, Choice(&["FILE", "TABLE"]), "TABLE";
    master_verify_checksum, GLOBAL, DYNAMIC, Switch, "OFF";
    max_allowed_packet, BOTH, DYNAMIC, Integer(1_024, 1_073_741_824), "67108864";
    max_binlog_cache_size, GLOBAL, DYNAMIC,
        Integer(4_096, 18_446_744_073_709_547_520), "18446744073709547520";
    max_binlog_size, GLOBAL, DYNAMIC, Integer(4_096, 1_073_741_824), "1073741824";
    max_binlog_stmt_cache_size, GLOBAL, DYNAMIC,
        Integer(4_096, 18_446_744_073_709_547_520), "18446744073709547520";
    max_connect_errors, GLOBAL, DYNAMIC, Integer(1, u64::MAX), "100";
    max_connections, GLOBAL, DYNAMIC, Integer(1, 100_000), "65536";
    max_delayed_threads, BOTH, DYNAMIC, Integer(0, 16_384), "20";
    max_digest_length, GLOBAL, FIXED, Integer(0, 1_048_576), "1024";
    max_error_count, BOTH, DYNAMIC, Integer(0, 65_535), "1024";
    max_execution_time, BOTH, DYNAMIC, Integer(0, 4_294_967_295), "0";
    max_heap_table_size, BOTH, DYNAMIC, Integer(16_384, 18_446_744_073_709_550_592), "16777216";
    max_insert_delayed_threads, BOTH, DYNAMIC, Integer(0, 16_384), "20";
    max_join_size, BOTH, DYNAMIC, Integer(1, u64::MAX), "18446744073709551615";
    max_length_for_sort_data, BOTH, DYNAMIC, Integer(4, 8_388_608), "4096";
    max_points_in_geometry, BOTH, DYNAMIC, Integer(3, 1_048_576), "65536";
    max_prepared_stmt_count, GLOBAL, DYNAMIC, Integer(0, 4_194_304), "16382";
    max_relay_log_size, GLOBAL, DYNAMIC, Integer(0, 1_073_741_824), "0";
    max_seeks_for_key, BOTH, DYNAMIC, Integer(1, u64::MAX), "18446744073709551615";
    max_sort_length, BOTH, DYNAMIC, Integer(4, 8_388_608), "1024";
    max_sp_recursion_depth, BOTH, DYNAMIC, Integer(0, 255), "0";
    max_user_connections, BOTH, DYNAMIC, Integer(0, 4_294_967_295), "0";
    max_write_lock_count, GLOBAL, DYNAMIC, Integer(1, u64::MAX), "18446744073709551615";
    min_examined_row_limit, BOTH, DYNAMIC, Integer(0, u64::MAX), "0";
    mysql_native_password, GLOBAL, FIXED, Switch;
    mysql_native_password_proxy_users, GLOBAL, DYNAMIC, Switch, "OFF";
    ndb_allow_copying_alter_table, BOTH, DYNAMIC, Switch, "ON";
    ndb_autoincrement_prefetch_sz, BOTH, DYNAMIC, Integer(1, 65_536), "512";
    ndb_batch_size, BOTH, DYNAMIC, Integer(0, 2_147_483_648), "32768";
    ndb_force_send, BOTH, DYNAMIC, Switch, "ON";
    ndb_index_stat_enable, BOTH, DYNAMIC, Switch, "ON";
    ndb_join_pushdown, BOTH, DYNAMIC, Switch, "ON";
    ndb_table_no_logging, SESSION, DYNAMIC, Switch, "OFF";
    ndb_table_temporary, SESSION, DYNAMIC, Switch, "OFF";
    ndb_use_transactions, BOTH, DYNAMIC, Switch, "ON";
    net_buffer_length, BOTH, DYNAMIC, Integer(1_024, 1_048_576), "16384";
    net_read_timeout, BOTH, DYNAMIC, Integer(1, 31_536_000), "30";
    net_retry_count, BOTH, DYNAMIC, Integer(1, u64::MAX), "10";
    net_write_timeout, BOTH, DYNAMIC, Integer(1, 31_536_000), "60";
    new, BOTH, DYNAMIC, Switch, "OFF";
    nines_analytic_snapshot, BOTH, DYNAMIC, Switch, "ON";
    nines_audit_log_statements, GLOBAL, DYNAMIC, Flags(&CLASSES),
        "READ,WRITE,DEFINITION,ACCOUNT,TRANSACTION,ADMINISTRATION";
    nines_auto_statistics, BOTH, DYNAMIC, Switch, "ON";
    nines_binlog_json, GLOBAL, DYNAMIC, Choice(&["BINARY", "TEXT"]), "BINARY";
    nines_column_rows, BOTH, DYNAMIC, Integer(0, u64::MAX), "1000";
    nines_durability, BOTH, DYNAMIC, Choice(&["memory", "disk"]), "memory";
    nines_ignore_unsupported, BOTH, DYNAMIC, Switch, "OFF";
    nines_last_commit_epoch, SESSION, FIXED, Integer(0, u64::MAX);
    nines_operator_memory, BOTH, DYNAMIC, Integer(1_048_576, 3_221_225_472), "1073741824";
    nines_pushdown, BOTH, DYNAMIC, Switch, "ON";
    nines_pushed_join_rows, BOTH, DYNAMIC, Integer(0, u64::MAX), "100";
    nines_pushed_join_work, BOTH, DYNAMIC, Integer(0, u64::MAX), "1";
    nines_require_pushdown, BOTH, DYNAMIC, Switch, "OFF";
    nines_temp_space, BOTH, DYNAMIC, Integer(0, u64::MAX), "17179869184";
    offline_mode, GLOBAL, DYNAMIC, Switch, "OFF";
    old, GLOBAL, FIXED, Switch, "OFF";
    old_alter_table, BOTH, DYNAMIC, Switch, "OFF";
    open_files_limit, GLOBAL, FIXED, Integer(0, u64::MAX);
    optimizer_max_subgraph_pairs, BOTH, DYNAMIC, Integer(1, 2_147_483_647), "100000";
    optimizer_prune_level, BOTH, DYNAMIC, Integer(0, 1), "1";
    optimizer_search_depth, BOTH, DYNAMIC, Integer(0, 62), "62";
    optimizer_switch, BOTH, DYNAMIC, Text, "";
    optimizer_trace, BOTH, DYNAMIC, Text, "enabled=off,one_line=off";
    optimizer_trace_features, BOTH, DYNAMIC,
        Text, "greedy_search=on,range_optimizer=on,dynamic_range=on,repeated_subselect=on";
    optimizer_trace_limit, BOTH, DYNAMIC, Integer(0, 2_147_483_647), "1";
    optimizer_trace_max_mem_size, BOTH, DYNAMIC, Integer(0, 4_294_967_295), "1048576";
    optimizer_trace_offset, BOTH, DYNAMIC, Signed(-2_147_483_647, 2_147_483_647), "-1";
    original_commit_timestamp, SESSION, DYNAMIC, Integer(0, u64::MAX), "36028797018963968";
    original_server_version, SESSION, DYNAMIC, Integer(0, 999_999), "999999";
    parser_max_mem_size, BOTH, DYNAMIC, Integer(10_000_000, u64::MAX), "18446744073709551615";
    partial_revokes, GLOBAL, DYNAMIC, Switch, "OFF";
    password_history, GLOBAL, DYNAMIC, Integer(0, 4_294_967_295), "0";
    password_require_current, GLOBAL, DYNAMIC, Switch, "OFF";
    password_reuse_interval, GLOBAL, DYNAMIC, Integer(0, 4_294_967_295), "0";
    performance_schema, GLOBAL, FIXED, Switch, "OFF";
    performance_schema_max_digest_length, GLOBAL, FIXED, Integer(0, 1_048_576), "1024";
    performance_schema_session_connect_attrs_size, GLOBAL, FIXED, Signed(-1, 1048576), "512";
    persist_only_admin_x509_subject, GLOBAL, FIXED, Text, "";
    persisted_globals_load, GLOBAL, FIXED, Switch, "OFF";
    pid_file, GLOBAL, FIXED, Text;
    plugin_dir, GLOBAL, FIXED, Text, "";
    port, GLOBAL, FIXED, Integer(0, u64::MAX);
    preload_buffer_size, BOTH, DYNAMIC, Integer(1_024, 1_073_741_824), "32768";
    print_identified_with_as_hex, BOTH, DYNAMIC, Switch, "OFF";
    profiling, BOTH, DYNAMIC, Switch, "OFF";
    profiling_history_size, BOTH, DYNAMIC, Integer(0, 100), "15";
    protocol_compression_algorithms, GLOBAL, DYNAMIC,
        Flags(&compression::ALGORITHMS), "zlib,uncompressed";
    protocol_version, GLOBAL, FIXED, Integer(0, 4_294_967_295), "10";
    proxy_user, SESSION, FIXED, NullableText;
    pseudo_replica_mode, SESSION, DYNAMIC, Switch, "OFF";
    pseudo_slave_mode, SESSION, DYNAMIC, Switch, "OFF";
    pseudo_thread_id, SESSION, DYNAMIC, Integer(0, u64::MAX);
    query_alloc_block_size, BOTH, DYNAMIC, Integer(1_024, 4_294_966_272), "8192";
    query_prealloc_size, BOTH, DYNAMIC, Integer(8_192, 18_446_744_073_709_550_592), "8192";
    rand_seed1, SESSION, DYNAMIC, Integer(0, 4_294_967_295), "0";
    rand_seed2, SESSION, DYNAMIC, Integer(0, 4_294_967_295), "0";
    range_alloc_block_size, BOTH, DYNAMIC, Integer(4_096, 18_446_744_073_709_550_592), "4096";
    range_optimizer_max_mem_size, BOTH, DYNAMIC, Integer(0, u64::MAX), "8388608";
    rbr_exec_mode, SESSION, DYNAMIC, Choice(&["STRICT", "IDEMPOTENT"]), "STRICT";
    read_buffer_size, BOTH, DYNAMIC, Integer(8_192, 2_147_479_552), "131072";
    read_only, GLOBAL, DYNAMIC, Switch, "OFF";
    read_rnd_buffer_size, BOTH, DYNAMIC, Integer(1, 2_147_483_647), "262144";
    regexp_stack_limit, GLOBAL, DYNAMIC, Integer(0, 2_147_483_647), "8000000";
    regexp_time_limit, GLOBAL, DYNAMIC, Integer(0, 2_147_483_647), "32";
    relay_log, GLOBAL, FIXED, Text, "";
    relay_log_info_repository, GLOBAL, DYNAMIC, Choice(&["FILE", "TABLE"]), "TABLE";
    relay_log_purge, GLOBAL, DYNAMIC, Switch, "ON";
    relay_log_recovery, GLOBAL, FIXED, Switch, "OFF";
    relay_log_space_limit, GLOBAL, FIXED, Integer(0, u64::MAX), "0";
    replica_exec_mode, GLOBAL, DYNAMIC, Choice(&["STRICT", "IDEMPOTENT"]), "STRICT";
    replica_net_timeout, GLOBAL, DYNAMIC, Integer(1, 31_536_000), "60";
    replica_transaction_retries, GLOBAL, DYNAMIC, Integer(0, u64::MAX), "10";
    report_host, GLOBAL, FIXED, Text, "";
    report_password, GLOBAL, FIXED, Text, "";
    report_port, GLOBAL, FIXED, Integer(0, u64::MAX);
    report_user, GLOBAL, FIXED, Text, "";
    require_row_format, SESSION, DYNAMIC, Switch, "OFF";
    require_secure_transport, GLOBAL, DYNAMIC, Switch, "OFF";
    restrict_fk_on_non_standard_key, BOTH, DYNAMIC, Switch, "ON";
    resultset_metadata, SESSION, DYNAMIC, Choice(&["NONE", "FULL"]), "FULL";
    rpl_read_size, GLOBAL, DYNAMIC, Integer(8_192, 4_294_959_104), "8192";
    rpl_stop_slave_timeout, GLOBAL, DYNAMIC, Integer(2, 31_536_000), "31536000";
    schema_definition_cache, GLOBAL, DYNAMIC, Integer(256, 524_288), "256";
    secondary_engine_cost_threshold, SESSION, DYNAMIC, Real(0.0, f64::MAX), "100000.000000";
    secure_file_priv, GLOBAL, FIXED, NullableText;
    select_into_buffer_size, BOTH, DYNAMIC, Integer(8_192, 2_147_479_552), "131072";
    select_into_disk_sync, BOTH, DYNAMIC, Switch, "OFF";
    server_id, GLOBAL, DYNAMIC, Integer(0, 4_294_967_295), "1";
    server_id_bits, GLOBAL, FIXED, Integer(7, 32), "32";
    server_uuid, GLOBAL, FIXED, Text;
    session_track_gtids, BOTH, DYNAMIC, Choice(&["OFF", "OWN_GTID", "ALL_GTIDS"]), "OFF";
    session_track_schema, BOTH, DYNAMIC, Switch, "ON";
    session_track_state_change, BOTH, DYNAMIC, Switch, "OFF";
    session_track_system_variables, BOTH, DYNAMIC,
        Text,
        "time_zone,autocommit,character_set_client,character_set_results,character_set_connection";
    session_track_transaction_info, BOTH, DYNAMIC,
        Choice(&["OFF", "STATE", "CHARACTERISTICS"]), "OFF";
    sha256_password_auto_generate_rsa_keys, GLOBAL, FIXED, Switch, "ON";
    sha256_password_proxy_users, GLOBAL, DYNAMIC, Switch, "OFF";
    show_create_table_skip_secondary_engine, SESSION, DYNAMIC, Switch, "OFF";
    show_create_table_verbosity, BOTH, DYNAMIC, Switch, "OFF";
    show_gipk_in_create_table_and_information_schema, BOTH, DYNAMIC, Switch, "ON";
    show_old_temporals, BOTH, DYNAMIC, Switch, "OFF";
    skip_external_locking, GLOBAL, FIXED, Switch, "ON";
    skip_name_resolve, GLOBAL, FIXED, Switch, "ON";
    skip_networking, GLOBAL, FIXED, Switch, "OFF";
    skip_replica_start, GLOBAL, FIXED, Switch, "OFF";
    skip_show_database, GLOBAL, FIXED, Switch, "OFF";
    skip_slave_start, GLOBAL, FIXED, Switch, "OFF";
    slave_net_timeout, GLOBAL, DYNAMIC, Integer(1, 31_536_000), "60";
    slow_launch_time, GLOBAL, DYNAMIC, Integer(0, 31_536_000), "2";
    slow_query_log, GLOBAL, DYNAMIC, Switch, "OFF";
    slow_query_log_file, GLOBAL, DYNAMIC, Text, "";
    socket, GLOBAL, FIXED, Text;
    sort_buffer_size, BOTH, DYNAMIC, Integer(32_768, u64::MAX), "262144";
    source_verify_checksum, GLOBAL, DYNAMIC, Switch, "OFF";
    sql_auto_is_null, BOTH, DYNAMIC, Switch, "OFF";
    sql_big_selects, BOTH, DYNAMIC, Switch, "ON";
    sql_buffer_result, BOTH, DYNAMIC, Switch, "OFF";
    sql_generate_invisible_primary_key, BOTH, DYNAMIC, Switch, "OFF";
    sql_log_bin, SESSION, DYNAMIC, Switch, "ON";
    sql_log_off, BOTH, DYNAMIC, Switch, "OFF";
    sql_mode, BOTH, DYNAMIC,
        SqlMode,
        "ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,\
        ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION";
    sql_notes, BOTH, DYNAMIC, Switch, "ON";
    sql_quote_show_create, BOTH, DYNAMIC, Switch, "ON";
    sql_replica_skip_counter, GLOBAL, DYNAMIC, Integer(0, 4_294_967_295), "0";
    sql_require_primary_key, BOTH, DYNAMIC, Switch, "OFF";
    sql_safe_updates, BOTH, DYNAMIC, Switch, "OFF";
    sql_select_limit, BOTH, DYNAMIC, Integer(0, u64::MAX), "18446744073709551615";
    sql_slave_skip_counter, GLOBAL, DYNAMIC, Integer(0, 4_294_967_295), "0";
    sql_warnings, BOTH, DYNAMIC, Switch, "OFF";
    ssl_ca, GLOBAL, DYNAMIC, Text, "";
    ssl_capath, GLOBAL, FIXED, Text, "";
    ssl_cert, GLOBAL, DYNAMIC, Text, "";
    ssl_cipher, GLOBAL, DYNAMIC, Text, "";
    ssl_crl, GLOBAL, FIXED, Text, "";
    ssl_crlpath, GLOBAL, FIXED, Text, "";
    ssl_fips_mode, GLOBAL, FIXED, Choice(&["OFF", "ON", "STRICT"]), "OFF";
    ssl_key, GLOBAL, DYNAMIC, Text, "";
    statement_id, SESSION, FIXED, Integer(0, u64::MAX);
    stored_program_cache, GLOBAL, DYNAMIC, Integer(16, 524_288), "256";
    stored_program_definition_cache, GLOBAL, DYNAMIC, Integer(256, 524_288), "256";
    super_read_only, GLOBAL, DYNAMIC, Switch, "OFF";
    sync_binlog, GLOBAL, DYNAMIC, Integer(0, 4_294_967_295), "1";
    sync_frm, GLOBAL, DYNAMIC, Switch, "ON";
    system_time_zone, GLOBAL, FIXED, Text;
    table_definition_cache, GLOBAL, DYNAMIC, Integer(400, 524_288), "2000";
    table_encryption_privilege_check, GLOBAL, DYNAMIC, Switch, "OFF";
    table_open_cache, GLOBAL, DYNAMIC, Integer(1, 524_288), "4000";
    table_open_cache_instances, GLOBAL, FIXED, Integer(1, 64), "16";
    tablespace_definition_cache, GLOBAL, DYNAMIC, Integer(256, 524_288), "256";
    temptable_max_mmap, GLOBAL, DYNAMIC, Integer(0, u64::MAX), "1073741824";
    temptable_max_ram, GLOBAL, DYNAMIC, Integer(2_097_152, u64::MAX), "1073741824";
    temptable_use_mmap, GLOBAL, DYNAMIC, Switch, "ON";
    terminology_use_previous, BOTH, DYNAMIC, Choice(&["NONE", "BEFORE_8_0_26"]), "NONE";
    thread_cache_size, GLOBAL, DYNAMIC, Integer(0, 16_384), "9";
    thread_handling, GLOBAL, FIXED,
        Choice(&["one-thread-per-connection", "no-threads", "loaded-dynamically"]),
        "one-thread-per-connection";
    thread_stack, GLOBAL, FIXED, Integer(131_072, 18_446_744_073_709_550_592), "1048576";
    time_zone, BOTH, DYNAMIC, TimeZone, "SYSTEM";
    timestamp, SESSION, DYNAMIC, Timestamp;
    tls_ciphersuites, GLOBAL, DYNAMIC, NullableText;
    tls_version, GLOBAL, DYNAMIC, Text, "TLSv1.2,TLSv1.3";
    tmp_table_size, BOTH, DYNAMIC, Integer(1_024, u64::MAX), "16777216";
    tmpdir, GLOBAL, FIXED, Text, "/tmp";
    transaction_alloc_block_size, BOTH, DYNAMIC, Integer(1_024, 131_072), "8192";
    transaction_allow_batching, SESSION, DYNAMIC, Switch, "OFF";
    transaction_isolation, BOTH, DYNAMIC, Isolation, "READ-COMMITTED";
    transaction_prealloc_size, BOTH, DYNAMIC, Integer(1_024, 131_072), "4096";
    transaction_read_only, BOTH, DYNAMIC, Switch, "OFF";
    transaction_write_set_extraction, BOTH, DYNAMIC,
        Choice(&["OFF", "MURMUR32", "XXHASH64"]), "XXHASH64";
    unique_checks, BOTH, DYNAMIC, Switch, "ON";
    updatable_views_with_limit, BOTH, DYNAMIC, Switch, "ON";
    use_secondary_engine, SESSION, DYNAMIC, Choice(&["OFF", "ON", "FORCED"]), "ON";
    validate_password.check_user_name, GLOBAL, DYNAMIC, Switch, "ON";
    validate_password.dictionary_file, GLOBAL, FIXED, Text, "";
    validate_password.length, GLOBAL, DYNAMIC, Integer(0, 2_147_483_647), "8";
    validate_password.mixed_case_count, GLOBAL, DYNAMIC, Integer(0, 2_147_483_647), "1";
    validate_password.number_count, GLOBAL, DYNAMIC, Integer(0, 2_147_483_647), "1";
    validate_password.policy, GLOBAL, DYNAMIC, Choice(&["LOW", "MEDIUM", "STRONG", "OFF"]), "OFF";
    validate_password.special_char_count, GLOBAL, DYNAMIC, Integer(0, 2_147_483_647), "1";
    version, GLOBAL, FIXED, Text;
    version_comment, GLOBAL, FIXED, Text;
    version_compile_machine, GLOBAL, FIXED, Text;
    version_compile_os, GLOBAL, FIXED, Text;
    version_compile_zlib, GLOBAL, FIXED, Text, "";
    wait_timeout, BOTH, DYNAMIC, Integer(1, 31_536_000), "28800";
    warning_count, SESSION, FIXED, Integer(0, u64::MAX);
    windowing_use_high_precision, BOTH, DYNAMIC, Switch, "ON";
    xa_detach_on_prepare, BOTH, DYNAMIC, Switch, "ON";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted() {
        assert!(VARIABLES.is_sorted_by(|one, other| one.name < other.name));
    }
}
