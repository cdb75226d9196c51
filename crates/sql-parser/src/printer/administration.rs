//! Transactions, variables, SHOW, EXPLAIN, maintenance.

use super::Printer;
use super::expression::scope_text;
use crate::ast::{
    CreatedObject, Describe, EngineReport, Execute, Explain, ExplainFormat, ExplainTarget, Flush,
    FlushTarget, Ident, IsolationLevel, Kill, MaintenanceOperation, Prepare, PrepareSource,
    PurgeBinaryLogs, ResetPersist, SetItem, SetTransaction, Show, ShowFilter, StartTransaction,
    TableLock, TableLockKind, TableMaintenance, TransactionEnd, VariableTarget,
};

impl Printer<'_> {
    pub(super) fn start_transaction(&mut self, start: &StartTransaction) {
        self.put("START TRANSACTION");
        self.put_if(start.consistent_snapshot, " WITH CONSISTENT SNAPSHOT");
        let Some(read_only) = start.read_only else { return };
        self.put_if(start.consistent_snapshot, ",");
        self.put(if read_only { " READ ONLY" } else { " READ WRITE" });
    }

    pub(super) fn transaction_end(&mut self, word: &str, end: &TransactionEnd) {
        self.put(word);
        match end.chain {
            None => {}
            Some(true) => self.put(" AND CHAIN"),
            Some(false) => self.put(" AND NO CHAIN"),
        }
        match end.release {
            None => {}
            Some(true) => self.put(" RELEASE"),
            Some(false) => self.put(" NO RELEASE"),
        }
    }

    pub(super) fn purge(&mut self, purge: &PurgeBinaryLogs) {
        self.put("PURGE BINARY LOGS");
        match purge {
            PurgeBinaryLogs::To(file) => self.text_clause(" TO ", Some(file)),
            PurgeBinaryLogs::Before(time) => {
                self.put(" BEFORE ");
                self.expr(time);
            }
        }
    }

    pub(super) fn reset_persist(&mut self, reset: &ResetPersist) {
        self.put("RESET PERSIST");
        if reset.if_exists {
            self.put(" IF EXISTS");
        }
        if let Some(variable) = &reset.variable {
            self.put(" ");
            self.ident(variable);
        }
    }

    pub(super) fn set_transaction(&mut self, set: &SetTransaction) {
        self.put("SET ");
        if let Some(scope) = set.scope {
            self.put(scope_text(scope));
            self.put(" ");
        }
        self.put("TRANSACTION");
        if let Some(isolation) = set.isolation {
            self.put(match isolation {
                IsolationLevel::ReadUncommitted => " ISOLATION LEVEL READ UNCOMMITTED",
                IsolationLevel::ReadCommitted => " ISOLATION LEVEL READ COMMITTED",
                IsolationLevel::RepeatableRead => " ISOLATION LEVEL REPEATABLE READ",
                IsolationLevel::Serializable => " ISOLATION LEVEL SERIALIZABLE",
            });
        }
        let Some(read_only) = set.read_only else { return };
        self.put_if(set.isolation.is_some(), ",");
        self.put(if read_only { " READ ONLY" } else { " READ WRITE" });
    }

    pub(super) fn lock_tables(&mut self, locks: &[TableLock]) {
        self.put("LOCK TABLES ");
        self.list(locks, ", ", |printer, lock| {
            printer.object_name(&lock.table);
            if let Some(alias) = &lock.alias {
                printer.put(" AS ");
                printer.ident(alias);
            }
            printer.put(match lock.kind {
                TableLockKind::Read => " READ",
                TableLockKind::ReadLocal => " READ LOCAL",
                TableLockKind::Write => " WRITE",
            });
        });
    }

    pub(super) fn set(&mut self, items: &[SetItem]) {
        self.put("SET ");
        self.list(items, ", ", |printer, item| match item {
            SetItem::User(name, value) => {
                printer.user_variable(name);
                printer.put(" = ");
                printer.expr(value);
            }
            SetItem::Variable(target, value) => {
                printer.variable_target(target);
                printer.put(" = ");
                printer.expr(value);
            }
            SetItem::TriggerColumn(row, column, value) => {
                printer.put(row.as_str());
                printer.put(".");
                printer.ident(column);
                printer.put(" = ");
                printer.expr(value);
            }
            SetItem::Names(charset, collation) => {
                printer.put("NAMES ");
                printer.charset(charset);
                if let Some(collation) = collation {
                    printer.put(" COLLATE ");
                    printer.collation(collation);
                }
            }
            SetItem::Charset(charset) => {
                printer.put("CHARACTER SET ");
                printer.charset(charset);
            }
        });
    }

    fn variable_target(&mut self, target: &VariableTarget) {
        self.put_if(target.system, "@@");
        if let Some(scope) = target.scope {
            self.put(scope_text(scope));
            self.put(if target.system { "." } else { " " });
        }
        match &target.component {
            Some(component) if component.as_str() == "default" => self.put("default."),
            Some(component) => {
                self.ident(component);
                self.put(".");
            }
            None => {}
        }
        self.ident(&target.name);
    }

    fn filter(&mut self, filter: &ShowFilter) {
        match filter {
            ShowFilter::None => {}
            ShowFilter::Like(pattern) => {
                self.put(" LIKE ");
                self.bytes(pattern);
            }
            ShowFilter::Where(condition) => self.clause(" WHERE ", Some(condition)),
        }
    }

    fn filtered(&mut self, words: &str, filter: &ShowFilter) {
        self.put(words);
        self.filter(filter);
    }

    fn filtered_in(&mut self, words: &str, schema: Option<&Ident>, filter: &ShowFilter) {
        self.put(words);
        if let Some(schema) = schema {
            self.put(" FROM ");
            self.ident(schema);
        }
        self.filter(filter);
    }

    #[expect(clippy::too_many_lines, reason = "one line or two for each form")]
    pub(super) fn show(&mut self, show: &Show) {
        self.put("SHOW ");
        match show {
            Show::Databases(filter) => self.filtered("DATABASES", filter),
            Show::Tables { full, extended, schema, filter } => {
                self.put_if(*extended, "EXTENDED ");
                self.put_if(*full, "FULL ");
                self.filtered_in("TABLES", schema.as_ref(), filter);
            }
            Show::TableStatus { schema, filter } => {
                self.filtered_in("TABLE STATUS", schema.as_ref(), filter);
            }
            Show::OpenTables { schema, filter } => {
                self.filtered_in("OPEN TABLES", schema.as_ref(), filter);
            }
            Show::Columns { full, extended, table, filter } => {
                self.put_if(*extended, "EXTENDED ");
                self.put_if(*full, "FULL ");
                self.put("COLUMNS FROM ");
                self.object_name(table);
                self.filter(filter);
            }
            Show::Indexes { extended, table, filter } => {
                self.put_if(*extended, "EXTENDED ");
                self.put("INDEX FROM ");
                self.object_name(table);
                self.clause(" WHERE ", filter.as_ref());
            }
            Show::Triggers { full, schema, filter } => {
                self.put_if(*full, "FULL ");
                self.filtered_in("TRIGGERS", schema.as_ref(), filter);
            }
            Show::Events { schema, filter } => {
                self.filtered_in("EVENTS", schema.as_ref(), filter);
            }
            Show::CreateDatabase { if_not_exists, name } => {
                self.put("CREATE DATABASE ");
                self.put_if(*if_not_exists, "IF NOT EXISTS ");
                self.ident(name);
            }
            Show::Create(object, name) => {
                self.put(match object {
                    CreatedObject::Table => "CREATE TABLE ",
                    CreatedObject::View => "CREATE VIEW ",
                    CreatedObject::Procedure => "CREATE PROCEDURE ",
                    CreatedObject::Function => "CREATE FUNCTION ",
                    CreatedObject::Trigger => "CREATE TRIGGER ",
                    CreatedObject::Event => "CREATE EVENT ",
                });
                self.object_name(name);
            }
            Show::CreateUser(account) => {
                self.put("CREATE USER ");
                self.account(account);
            }
            Show::Variables(scope, filter) => {
                self.put(scope.map_or("", scope_text));
                self.filtered(" VARIABLES", filter);
            }
            Show::Status(scope, filter) => {
                self.put(scope.map_or("", scope_text));
                self.filtered(" STATUS", filter);
            }
            Show::Warnings(limit) => {
                self.put("WARNINGS");
                self.limit(limit.as_ref());
            }
            Show::Errors(limit) => {
                self.put("ERRORS");
                self.limit(limit.as_ref());
            }
            Show::WarningCount => self.put("COUNT(*) WARNINGS"),
            Show::ErrorCount => self.put("COUNT(*) ERRORS"),
            Show::Engines => self.put("ENGINES"),
            Show::Engine { name, what } => {
                self.put("ENGINE ");
                match name {
                    Some(name) => self.ident(name),
                    None => self.put("ALL"),
                }
                self.put(match what {
                    EngineReport::Status => " STATUS",
                    EngineReport::Mutex => " MUTEX",
                    EngineReport::Logs => " LOGS",
                });
            }
            Show::Plugins => self.put("PLUGINS"),
            Show::CharacterSets(filter) => self.filtered("CHARACTER SET", filter),
            Show::Collations(filter) => self.filtered("COLLATION", filter),
            Show::ProcessList(full) => {
                self.put(if *full { "FULL PROCESSLIST" } else { "PROCESSLIST" });
            }
            Show::Grants { account, using } => {
                self.put("GRANTS");
                if let Some(account) = account {
                    self.put(" FOR ");
                    self.account(account);
                }
                if !using.is_empty() {
                    self.put(" USING ");
                    self.accounts(using);
                }
            }
            Show::Privileges => self.put("PRIVILEGES"),
            Show::FunctionStatus(filter) => self.filtered("FUNCTION STATUS", filter),
            Show::ProcedureStatus(filter) => self.filtered("PROCEDURE STATUS", filter),
            Show::RoutineCode(function, name) => {
                self.put(if *function { "FUNCTION CODE " } else { "PROCEDURE CODE " });
                self.object_name(name);
            }
            Show::BinaryLogStatus => self.put("MASTER STATUS"),
            Show::BinaryLogs => self.put("BINARY LOGS"),
            Show::LogEvents { relay, file, position, limit, channel } => {
                self.put(if *relay { "RELAYLOG EVENTS" } else { "BINLOG EVENTS" });
                self.text_clause(" IN ", file.as_deref());
                if let Some(position) = position {
                    self.put(&format!(" FROM {position}"));
                }
                self.limit(limit.as_ref());
                self.text_clause(" FOR CHANNEL ", channel.as_deref());
            }
            Show::ReplicaStatus(channel) => {
                self.put("REPLICA STATUS");
                self.text_clause(" FOR CHANNEL ", channel.as_deref());
            }
            Show::Backups(place) => {
                self.put("BACKUPS IN ");
                self.bytes(place);
            }
            Show::BackupJobs => self.put("BACKUP JOBS"),
            Show::Archives => self.put("ARCHIVES"),
            Show::Changefeeds => self.put("CHANGEFEEDS"),
            Show::Replicas => self.put("REPLICAS"),
            Show::Profiles => self.put("PROFILES"),
            Show::Profile { kinds, query, limit } => {
                self.put("PROFILE ");
                self.list(kinds, ", ", |printer, kind| printer.put(kind));
                if let Some(query) = query {
                    self.put(&format!(" FOR QUERY {query}"));
                }
                self.limit(limit.as_ref());
            }
        }
    }

    pub(super) fn describe(&mut self, describe: &Describe) {
        self.put("DESCRIBE ");
        self.object_name(&describe.table);
        self.text_clause(" ", describe.column.as_deref());
    }

    pub(super) fn explain(&mut self, explain: &Explain) {
        self.put("EXPLAIN ");
        self.put_if(explain.analyze, "ANALYZE ");
        self.put(match explain.format {
            None => "",
            Some(ExplainFormat::Traditional) => "FORMAT=TRADITIONAL ",
            Some(ExplainFormat::Json) => "FORMAT=JSON ",
            Some(ExplainFormat::Tree) => "FORMAT=TREE ",
        });
        if let Some(variable) = &explain.into {
            self.put("INTO ");
            self.user_variable(variable);
            self.put(" ");
        }
        match &explain.target {
            ExplainTarget::Statement(statement) => self.statement(statement),
            ExplainTarget::Connection(id) => self.put(&format!("FOR CONNECTION {id}")),
        }
    }

    pub(super) fn kill(&mut self, kill: &Kill) {
        self.put(if kill.query { "KILL QUERY " } else { "KILL CONNECTION " });
        self.expr(&kill.id);
    }

    pub(super) fn prepare(&mut self, prepare: &Prepare) {
        self.put("PREPARE ");
        self.ident(&prepare.name);
        self.put(" FROM ");
        match &prepare.source {
            PrepareSource::Text(text) => self.bytes(text),
            PrepareSource::Variable(name) => self.user_variable(name),
        }
    }

    pub(super) fn execute(&mut self, execute: &Execute) {
        self.put("EXECUTE ");
        self.ident(&execute.name);
        if !execute.variables.is_empty() {
            self.put(" USING ");
            self.list(&execute.variables, ", ", Self::user_variable);
        }
    }

    pub(super) fn flush(&mut self, flush: &Flush) {
        self.put("FLUSH ");
        self.put_if(flush.local, "LOCAL ");
        match &flush.what {
            FlushTarget::Tables { tables, read_lock, export } => {
                self.put("TABLES ");
                self.object_names(tables);
                self.put_if(*read_lock, " WITH READ LOCK");
                self.put_if(*export, " FOR EXPORT");
            }
            FlushTarget::Options(options) => {
                self.list(options, ", ", |printer, option| printer.put(option));
            }
        }
    }

    pub(super) fn table_maintenance(&mut self, maintenance: &TableMaintenance) {
        self.put(match maintenance.operation {
            MaintenanceOperation::Analyze => "ANALYZE ",
            MaintenanceOperation::Check => "CHECK ",
            MaintenanceOperation::Checksum => "CHECKSUM ",
            MaintenanceOperation::Optimize => "OPTIMIZE ",
            MaintenanceOperation::Repair => "REPAIR ",
        });
        self.put_if(maintenance.local, "LOCAL ");
        self.put("TABLE ");
        self.object_names(&maintenance.tables);
        for option in &maintenance.options {
            self.put(" ");
            self.put(option);
        }
        let Some(histogram) = &maintenance.histogram else { return };
        self.put(if histogram.drop { " DROP HISTOGRAM ON " } else { " UPDATE HISTOGRAM ON " });
        self.idents(&histogram.columns);
        if let Some(buckets) = histogram.buckets {
            self.put(&format!(" WITH {buckets} BUCKETS"));
        }
        self.text_clause(" USING DATA ", histogram.data.as_deref());
    }
}
