//! System variables, and SET.
//!
//! A variable's value is text, as SHOW VARIABLES prints it; of those that statements ask for all
//! the time the meaning is kept beside it, in fields. A session begins with the server's values,
//! given by SET GLOBAL and SET PERSIST, which all SQL nodes share.
//!
//! # Owns
//! [`SessionVariables`], which changes of variables the client is told of.
//! # Guarantees
//! A field and the text of its variable never disagree: both change in one place.
//! # Not here
//! The table of variables (`registry`), what values they take (`value`), SET (`set`), the values
//! that SQL nodes share (`settings`), those that are found when they are asked for (`computed`),
//! hints (`hint`), which values are refused because
//! nothing does what they promise (`promise`), what a session sees (`session`).

pub(crate) mod choice;
pub(crate) mod compression;
pub(crate) mod computed;
pub(crate) mod hint;
pub(crate) mod hintable;
pub(crate) mod promise;
pub(crate) mod registry;
pub(crate) mod session;
pub(crate) mod settings;
pub(crate) mod value;

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use collation::{Charset, CollationId};
use sql_expression::{BlockEncryption, SqlError, SqlMode};
use sql_parser::ast::ExplainFormat;
use sqltype::zone::TimeZone;
use stdx::FixedHasher;

use choice::{Durability, Isolation};
use registry::{Scope, Variable};

/// VERSION(). Clients read the numbers at its beginning to know what they may ask for.
pub const VERSION: &str = concat!("8.4.0-nines-", env!("CARGO_PKG_VERSION"));

/// A session's system variables.
#[derive(Clone, Debug)]
pub(crate) struct SessionVariables {
    /// `autocommit`.
    pub autocommit: bool,
    /// `transaction_isolation`.
    pub isolation: Isolation,
    /// `transaction_read_only`.
    pub transaction_read_only: bool,
    /// `sql_mode`.
    pub sql_mode: SqlMode,
    /// `time_zone`.
    pub time_zone: TimeZone,
    /// `character_set_client`.
    pub client_charset: Charset,
    /// `character_set_results`; none when results are not converted.
    pub results_charset: Option<Charset>,
    /// `collation_connection`.
    pub connection_collation: CollationId,
    /// `collation_server`.
    pub server_collation: CollationId,
    /// `auto_increment_increment`.
    pub auto_increment_increment: u64,
    /// `auto_increment_offset`.
    pub auto_increment_offset: u64,
    /// `block_encryption_mode`.
    pub block_encryption: BlockEncryption,
    /// `cte_max_recursion_depth`.
    pub cte_max_recursion_depth: u64,
    /// `default_week_format`.
    pub default_week_format: u8,
    /// `div_precision_increment`.
    pub div_precision_increment: u8,
    /// `foreign_key_checks`.
    pub foreign_key_checks: bool,
    /// `group_concat_max_len`.
    pub group_concat_max_len: u64,
    /// `interactive_timeout`, in seconds.
    pub interactive_timeout: u64,
    /// `innodb_lock_wait_timeout`: how long a row's lock is waited for, in seconds.
    pub row_lock_wait: u64,
    /// `lock_wait_timeout`: how long a table that is being rebuilt is waited for, in seconds.
    pub lock_wait_timeout: u64,
    /// `long_query_time`, in microseconds.
    pub long_query_time: u64,
    /// `max_allowed_packet`.
    pub max_allowed_packet: u64,
    /// `max_error_count`.
    pub max_error_count: u64,
    /// Whether queries in FROM become parts of their blocks, by `optimizer_switch`.
    pub derived_merge: bool,
    /// `max_execution_time`, in milliseconds; zero for no limit.
    pub max_execution_time: u64,
    /// `nines_durability`.
    pub durability: Durability,
    /// `nines_analytic_snapshot`: queries over large tables read a snapshot.
    pub analytic_snapshot: bool,
    /// `nines_column_rows`: joins and groups of tables of so many rows are made on columns.
    pub column_rows: u64,
    /// `nines_pushed_join_rows`: data nodes look rows up for about so many rows of a scan or more.
    pub pushed_join_rows: u64,
    /// `nines_pushed_join_work`: that is so many times the work, at most, of other ways.
    pub pushed_join_work: u64,
    /// `connection_memory_limit`: bytes that the statements of the session may keep.
    pub connection_memory_limit: u64,
    /// `nines_operator_memory`: bytes that a sort, a join or groups may keep.
    pub operator_memory: u64,
    /// `nines_temp_space`: bytes that a statement may have in temporary files.
    pub temp_space: u64,
    /// `nines_auto_statistics`: tables that queries join are sampled without being asked for.
    pub auto_statistics: bool,
    /// `nines_pushdown`: data nodes filter and group the rows of scans.
    pub pushdown: bool,
    /// `nines_require_pushdown`: queries are refused of which they do not.
    pub require_pushdown: bool,
    /// `explain_format`.
    pub explain_format: ExplainFormat,
    /// `net_read_timeout`, in seconds.
    pub net_read_timeout: u64,
    /// `net_write_timeout`, in seconds.
    pub net_write_timeout: u64,
    /// `resultset_metadata`: results come with descriptions of their columns.
    pub describes_results: bool,
    /// `session_track_schema`.
    pub session_track_schema: bool,
    /// `session_track_state_change`.
    pub session_track_state_change: bool,
    /// `sql_auto_is_null`.
    pub sql_auto_is_null: bool,
    /// `sql_notes`.
    pub sql_notes: bool,
    /// `sql_quote_show_create`.
    pub sql_quote_show_create: bool,
    /// `sql_require_primary_key`.
    pub sql_require_primary_key: bool,
    /// `sql_safe_updates`.
    pub sql_safe_updates: bool,
    /// `sql_select_limit`.
    pub sql_select_limit: u64,
    /// `sql_warnings`: counts of INSERT name warnings.
    pub sql_warnings: bool,
    /// `timestamp`: what NOW() is instead of the clock, in microseconds since 1970 UTC.
    pub timestamp: Option<i64>,
    /// `unique_checks`.
    pub unique_checks: bool,
    /// `updatable_views_with_limit`.
    pub wait_timeout: u64,
    /// `insert_id`: the next generated value, once.
    pub insert_id: Option<u64>,
    /// Of all values: what depends on variables is stale when it differs. Sessions of equal values
    /// have the same, as they share plans.
    pub version: u64,
    /// Values that differ from the initial ones; none is NULL.
    values: BTreeMap<&'static str, Option<String>>,
    /// `session_track_system_variables`.
    tracked: String,
    /// Changed since the client was told; a later change of the same variable wins.
    changes: BTreeMap<&'static str, String>,
}

/// What the flags of `optimizer_switch` say of `derived_merge`, the last one of several.
fn merges_derived(flags: &str) -> bool {
    let flags = flags.to_ascii_lowercase();
    let mut said = flags.rsplit(',').filter_map(|flag| flag.trim().strip_prefix("derived_merge="));
    said.next() != Some("off")
}

impl SessionVariables {
    /// What a session begins with, where SET GLOBAL has left these values.
    pub(crate) fn new(globals: &BTreeMap<String, String>) -> Self {
        let mut variables = Self::blank();
        for variable in registry::all().iter().filter(|variable| variable.scope != Scope::Global) {
            let global = globals.get(variable.name).map(String::as_str);
            if let Some(text) = global {
                variables.values.insert(variable.name, Some(text.to_owned()));
            }
            if let Some(text) = global.or(variable.initial) {
                variables.refresh(variable.name, Some(text));
            }
        }
        variables.version = variables.fingerprint();
        variables
    }

    fn blank() -> Self {
        Self {
            autocommit: true,
            isolation: Isolation::default(),
            transaction_read_only: false,
            sql_mode: SqlMode::DEFAULT,
            time_zone: TimeZone::UTC,
            client_charset: Charset::Utf8mb4,
            results_charset: Some(Charset::Utf8mb4),
            connection_collation: CollationId::DEFAULT,
            server_collation: CollationId::DEFAULT,
            auto_increment_increment: 1,
            auto_increment_offset: 1,
            block_encryption: BlockEncryption::DEFAULT,
            cte_max_recursion_depth: 0,
            default_week_format: 0,
            div_precision_increment: 0,
            foreign_key_checks: true,
            group_concat_max_len: 0,
            interactive_timeout: 0,
            row_lock_wait: 0,
            lock_wait_timeout: 0,
            long_query_time: 0,
            max_allowed_packet: 0,
            max_error_count: 0,
            derived_merge: true,
            max_execution_time: 0,
            durability: Durability::default(),
            analytic_snapshot: true,
            column_rows: 1_000,
            pushed_join_rows: 100,
            pushed_join_work: 1,
            connection_memory_limit: u64::MAX,
            operator_memory: 1 << 30,
            temp_space: 16 << 30,
            auto_statistics: true,
            pushdown: true,
            require_pushdown: false,
            explain_format: ExplainFormat::Traditional,
            net_read_timeout: 0,
            net_write_timeout: 0,
            describes_results: true,
            session_track_schema: true,
            session_track_state_change: false,
            sql_auto_is_null: false,
            sql_notes: true,
            sql_quote_show_create: true,
            sql_require_primary_key: false,
            sql_safe_updates: false,
            sql_select_limit: u64::MAX,
            sql_warnings: false,
            timestamp: None,
            unique_checks: true,
            wait_timeout: 0,
            insert_id: None,
            version: 0,
            values: BTreeMap::new(),
            tracked: String::new(),
            changes: BTreeMap::new(),
        }
    }

    /// The parser's part of `sql_mode`.
    pub(crate) fn parser_mode(&self) -> sql_parser::SqlMode {
        self.sql_mode.of_parser()
    }

    /// What text columns of results are said to be in.
    pub(crate) fn results_collation(&self) -> CollationId {
        match self.results_charset {
            Some(charset) if charset == self.connection_collation.charset() => {
                self.connection_collation
            }
            Some(charset) => charset.default_collation(),
            None => CollationId::DEFAULT,
        }
    }

    /// What a client named in its handshake, or SET NAMES: character sets of statements and
    /// results, and the collation of literals.
    pub(crate) fn set_client_collation(&mut self, collation: CollationId) {
        let charset = collation.charset().name();
        self.assign("character_set_client", Some(charset.to_owned()));
        self.assign("character_set_results", Some(charset.to_owned()));
        self.assign("collation_connection", Some(collation.name().to_owned()));
    }

    /// The variables the client is to be told of, with their values; each is told once.
    pub(crate) fn take_changes(&mut self) -> Vec<(&'static str, String)> {
        if self.changes.is_empty() {
            return Vec::new();
        }
        std::mem::take(&mut self.changes).into_iter().collect()
    }

    /// The session's value of a variable; none for NULL.
    pub(crate) fn text(&self, variable: &Variable) -> Option<&str> {
        match self.values.get(variable.name) {
            Some(value) => value.as_deref(),
            None => variable.initial,
        }
    }

    /// Gives a variable a value that `value` has checked, and those that go with it.
    pub(crate) fn assign(&mut self, name: &'static str, text: Option<String>) {
        self.assign_alone(name, text);
        match name {
            "character_set_connection" => {
                let collation = Charset::by_name(self.own("character_set_connection"));
                let collation = collation.map(|charset| self.default_collation(charset));
                let name = collation.unwrap_or(CollationId::DEFAULT).name();
                self.assign_alone("collation_connection", Some(name.to_owned()));
            }
            "collation_connection" => {
                let charset = self.connection_collation.charset().name();
                self.assign_alone("character_set_connection", Some(charset.to_owned()));
            }
            "character_set_server" => {
                let charset = Charset::by_name(self.own("character_set_server"));
                let collation = charset.map(|charset| self.default_collation(charset));
                let name = collation.unwrap_or(CollationId::DEFAULT).name();
                self.assign_alone("collation_server", Some(name.to_owned()));
            }
            "collation_server" => {
                let charset = self.server_collation.charset().name();
                self.assign_alone("character_set_server", Some(charset.to_owned()));
            }
            _ => {}
        }
    }

    /// The same without a word to the client.
    fn assign_untold(&mut self, name: &'static str, text: Option<String>) {
        let changes = self.changes.clone();
        self.assign(name, text);
        self.changes = changes;
    }

    /// The collation that a character set alone means: `default_collation_for_utf8mb4` has a say.
    pub(crate) fn default_collation(&self, charset: Charset) -> CollationId {
        if charset == Charset::Utf8mb4 {
            let named = CollationId::by_name(self.own("default_collation_for_utf8mb4"));
            return named.unwrap_or(CollationId::DEFAULT);
        }
        charset.default_collation()
    }

    /// The session's value of a variable that is never NULL.
    fn own(&self, name: &str) -> &str {
        registry::find(name).and_then(|variable| self.text(variable)).unwrap_or_default()
    }

    fn assign_alone(&mut self, name: &'static str, text: Option<String>) {
        self.refresh(name, text.as_deref());
        if self.is_tracked(name) {
            self.changes.insert(name, text.clone().unwrap_or_default());
        }
        self.values.insert(name, text);
        self.version = self.fingerprint();
    }

    /// Stands for the values; those that are the initial ones do not count.
    fn fingerprint(&self) -> u64 {
        let mut hasher = FixedHasher::default();
        for (name, value) in &self.values {
            let initial = registry::find(name).and_then(|variable| variable.initial);
            if value.as_deref() != initial {
                (name, value).hash(&mut hasher);
            }
        }
        hasher.finish()
    }

    fn is_tracked(&self, name: &str) -> bool {
        let mut names = self.tracked.split(',').map(str::trim);
        names.any(|tracked| tracked == "*" || tracked.eq_ignore_ascii_case(name))
    }

    /// Reads the field that belongs to a variable from its text.
    #[expect(clippy::too_many_lines, reason = "an arm for each variable")]
    fn refresh(&mut self, name: &str, text: Option<&str>) {
        let value = text.unwrap_or_default();
        let on = value == "ON";
        let number = value.parse::<u64>().unwrap_or_default();
        match name {
            "autocommit" => self.autocommit = on,
            "auto_increment_increment" => self.auto_increment_increment = number,
            "auto_increment_offset" => self.auto_increment_offset = number,
            "block_encryption_mode" => {
                self.block_encryption =
                    BlockEncryption::by_name(value).unwrap_or(self.block_encryption);
            }
            "character_set_client" => {
                self.client_charset = Charset::by_name(value).unwrap_or(self.client_charset);
            }
            "character_set_results" => self.results_charset = text.and_then(Charset::by_name),
            "collation_connection" => {
                self.connection_collation =
                    CollationId::by_name(value).unwrap_or(self.connection_collation);
            }
            "collation_server" => {
                self.server_collation = CollationId::by_name(value).unwrap_or(CollationId::DEFAULT);
            }
            "cte_max_recursion_depth" => self.cte_max_recursion_depth = number,
            "default_week_format" => self.default_week_format = number as u8,
            "div_precision_increment" => self.div_precision_increment = number as u8,
            "foreign_key_checks" => self.foreign_key_checks = on,
            "group_concat_max_len" => self.group_concat_max_len = number,
            "insert_id" => self.insert_id = (number > 0).then_some(number),
            "interactive_timeout" => self.interactive_timeout = number,
            "long_query_time" => {
                self.long_query_time = (value.parse::<f64>().unwrap_or_default() * 1e6) as u64;
            }
            "max_allowed_packet" => self.max_allowed_packet = number,
            "max_error_count" => self.max_error_count = number,
            "max_execution_time" => self.max_execution_time = number,
            "optimizer_switch" => self.derived_merge = merges_derived(value),
            "net_read_timeout" => self.net_read_timeout = number,
            "net_write_timeout" => self.net_write_timeout = number,
            "nines_durability" => {
                self.durability = match value {
                    "disk" => Durability::Disk,
                    _ => Durability::Memory,
                };
            }
            "nines_analytic_snapshot" => self.analytic_snapshot = on,
            "nines_column_rows" => self.column_rows = number,
            "nines_pushed_join_rows" => self.pushed_join_rows = number,
            "nines_pushed_join_work" => self.pushed_join_work = number,
            "connection_memory_limit" => self.connection_memory_limit = number,
            "nines_operator_memory" => self.operator_memory = number,
            "nines_temp_space" => self.temp_space = number,
            "nines_auto_statistics" => self.auto_statistics = on,
            "nines_pushdown" => self.pushdown = on,
            "nines_require_pushdown" => self.require_pushdown = on,
            "sql_mode" => self.sql_mode = SqlMode::parse(value).unwrap_or(self.sql_mode),
            "sql_select_limit" => self.sql_select_limit = number,
            "time_zone" => {
                self.time_zone = value::time_zone(value).unwrap_or(TimeZone::UTC);
            }
            "timestamp" => {
                self.timestamp = text.and_then(value::timestamp_micros);
            }
            "transaction_isolation" => {
                self.isolation = value::isolation(value).unwrap_or_default();
            }
            "transaction_read_only" => self.transaction_read_only = on,
            "wait_timeout" => self.wait_timeout = number,
            "innodb_lock_wait_timeout" => self.row_lock_wait = number,
            "lock_wait_timeout" => self.lock_wait_timeout = number,
            _ => self.refresh_switch(name, on, value),
        }
    }

    fn refresh_switch(&mut self, name: &str, on: bool, value: &str) {
        match name {
            "explain_format" => {
                self.explain_format = match value {
                    "TREE" => ExplainFormat::Tree,
                    "JSON" => ExplainFormat::Json,
                    _ => ExplainFormat::Traditional,
                };
            }
            "resultset_metadata" => self.describes_results = value == "FULL",
            "session_track_schema" => self.session_track_schema = on,
            "session_track_state_change" => self.session_track_state_change = on,
            "session_track_system_variables" => value.clone_into(&mut self.tracked),
            "sql_auto_is_null" => self.sql_auto_is_null = on,
            "sql_notes" => self.sql_notes = on,
            "sql_quote_show_create" => self.sql_quote_show_create = on,
            "sql_require_primary_key" => self.sql_require_primary_key = on,
            "sql_safe_updates" => self.sql_safe_updates = on,
            "sql_warnings" => self.sql_warnings = on,
            "unique_checks" => self.unique_checks = on,
            _ => {}
        }
    }
}

/// 1193.
pub(crate) fn unknown(name: &str) -> SqlError {
    SqlError::new(1193, "HY000", format!("Unknown system variable '{name}'"))
}

#[cfg(test)]
mod tests;
