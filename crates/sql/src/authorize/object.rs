//! Whether definitions, databases and the server may be changed and looked at.

use sql_expression::SqlError;
use sql_parser::ast::{
    self, AlterAction, FlushTarget, Ident, MaintenanceOperation, ObjectName, SetItem, ShowFilter,
    TableConstraint, TableDefinition, TableMaintenance, VariableScope,
};

use super::Checking;
use crate::account::privilege::{Dynamic, Privileges as P};
use crate::account::{AccountName, error};
use crate::audit;
use crate::catalog::names::TableName;
use crate::variables::registry;

/// Variables of a session that concern others too, or what is kept of the session's doings.
const RESTRICTED: [&str; 9] = [
    "binlog_direct_non_transactional_updates",
    "binlog_format",
    "binlog_row_image",
    "default_collation_for_utf8mb4",
    "gtid_next",
    "original_commit_timestamp",
    "pseudo_thread_id",
    "sql_log_bin",
    "transaction_write_set_extraction",
];

impl Checking<'_> {
    /// Static privileges everywhere; CREATE USER stands for those for roles.
    pub(super) fn global(&self, needed: P) -> Result<(), SqlError> {
        if self.rights.global.has(needed) { Ok(()) } else { Err(error::needs(&needed.to_string())) }
    }

    /// CREATE USER, or what changes the tables that accounts would be kept in.
    pub(super) fn accounts(&self, instead: P) -> Result<(), SqlError> {
        let of_tables = self.rights.of_database("mysql");
        if self.rights.global.has(P::CREATE_USER) || of_tables.has(instead) {
            Ok(())
        } else {
            Err(error::needs("CREATE USER"))
        }
    }

    /// A static privilege, or CREATE USER.
    pub(super) fn one_of(&self, needed: P, text: &str) -> Result<(), SqlError> {
        if self.rights.global.meets(needed | P::CREATE_USER) {
            Ok(())
        } else {
            Err(error::needs(text))
        }
    }

    /// A dynamic privilege.
    pub(super) fn dynamic(&self, needed: Dynamic) -> Result<(), SqlError> {
        if self.rights.has_dynamic(needed) { Ok(()) } else { Err(error::needs(needed.name())) }
    }

    /// What writes or reads backups, also those of accounts.
    pub(super) fn backup(&self, options: &[ast::BackupOption], needed: P) -> Result<(), SqlError> {
        self.dynamic(Dynamic::BACKUP_ADMIN)?;
        self.global(needed)?;
        let of_accounts =
            |option: &ast::BackupOption| option.name.as_str().eq_ignore_ascii_case("accounts");
        if options.iter().any(of_accounts) {
            self.global(P::SUPER | P::CREATE_USER)
        } else {
            Ok(())
        }
    }

    /// A dynamic privilege, or SUPER.
    pub(super) fn administers(&self, needed: Dynamic) -> Result<(), SqlError> {
        if self.rights.administers(needed) {
            Ok(())
        } else {
            Err(error::needs(&format!("SUPER or {}", needed.name())))
        }
    }

    /// Values of the server's variables.
    pub(super) fn variables(&self) -> Result<(), SqlError> {
        self.administers(Dynamic::SYSTEM_VARIABLES_ADMIN)
    }

    fn name(&self, name: &ObjectName) -> Result<TableName, SqlError> {
        self.session.table_name(name)
    }

    /// Privileges for a table that is there, or is to be made.
    pub(super) fn table(&self, name: &ObjectName, needed: P) -> Result<(), SqlError> {
        let table = self.name(name)?;
        if self.session.temporary.has(&table) {
            return Ok(());
        }
        self.permanent(&table, needed)
    }

    fn permanent(&self, table: &TableName, needed: P) -> Result<(), SqlError> {
        let lacking = needed - self.rights.of_table(&table.database, &table.name);
        if lacking.is_empty() {
            Ok(())
        } else {
            Err(error::table_denied(lacking, self.who(), &table.name))
        }
    }

    /// Something in a table must be allowed.
    pub(super) fn sees_table(&self, name: &ObjectName, verb: &str) -> Result<(), SqlError> {
        let table = self.name(name)?;
        let is_public = table.database == "information_schema";
        let sees = self.rights.sees_table(&table.database, &table.name);
        if sees || is_public || self.session.temporary.has(&table) {
            Ok(())
        } else {
            Err(error::table_denied(verb, self.who(), &table.name))
        }
    }

    /// SHOW CREATE TABLE, which shows views too.
    pub(super) fn shows_create_table(&self, name: &ObjectName) -> Result<(), SqlError> {
        match self.session.view_named(&self.name(name)?)? {
            Some(_) => self.table(name, P::SELECT | P::SHOW_VIEW),
            None => self.sees_table(name, "SHOW"),
        }
    }

    /// Privileges for all of a database.
    pub(super) fn database(&self, name: &str, needed: P) -> Result<(), SqlError> {
        if self.rights.of_database(name).has(needed) {
            Ok(())
        } else {
            Err(error::database_denied(self.who(), name))
        }
    }

    /// The same of the database that is named, or the default one.
    pub(super) fn database_or_current(
        &self,
        name: Option<&Ident>,
        needed: P,
    ) -> Result<(), SqlError> {
        match name {
            Some(name) => self.database(name.as_str(), needed),
            None => self.database(self.session.current_database()?, needed),
        }
    }

    /// The same of the database that something is in.
    pub(super) fn database_of(&self, name: &ObjectName, needed: P) -> Result<(), SqlError> {
        self.database(&self.name(name)?.database, needed)
    }

    /// A database that becomes the default one, or is looked into.
    pub(super) fn enters(&self, name: &str) -> Result<(), SqlError> {
        let is_public = crate::catalog::system::schema(name) == Some("information_schema")
            || crate::catalog::system::schema(name) == Some("performance_schema");
        let shown = self.session.database_name(name);
        if is_public || self.rights.enters_database(&shown) {
            Ok(())
        } else {
            Err(error::database_denied(self.who(), name))
        }
    }

    /// LOCK TABLES is a privilege of databases.
    pub(super) fn lock_tables(&self, name: &ObjectName) -> Result<(), SqlError> {
        let table = self.name(name)?;
        if self.session.temporary.has(&table) {
            Ok(())
        } else {
            self.database(&table.database, P::LOCK_TABLES)
        }
    }

    /// A routine. Until there are routines, privileges for a whole database are all there are.
    pub(super) fn routine(&self, name: &ObjectName, needed: P, verb: &str) -> Result<(), SqlError> {
        let routine = self.name(name)?;
        if self.rights.of_database(&routine.database).has(needed) {
            Ok(())
        } else {
            Err(error::routine_denied(verb, self.who(), &routine.full()))
        }
    }

    /// The account that something is to be used as.
    pub(super) fn definer(&self, definer: Option<&ast::Account>) -> Result<(), SqlError> {
        let Some(definer) = definer.and_then(AccountName::stated) else { return Ok(()) };
        if definer != *self.who() && !self.rights.has_dynamic(Dynamic::SET_ANY_DEFINER) {
            return Err(error::needs("SUPER or SET_ANY_DEFINER"));
        }
        self.above(&definer)
    }

    /// An account with SYSTEM_USER is touched by such accounts only.
    fn above(&self, account: &AccountName) -> Result<(), SqlError> {
        let book = self.session.shared.accounts.book(&self.session.kernel);
        let is_system = match book.find(account)? {
            Some(record) => record.has_dynamic(Dynamic::SYSTEM_USER.name()),
            None => false,
        };
        if is_system && *account != *self.who() {
            self.dynamic(Dynamic::SYSTEM_USER)
        } else {
            Ok(())
        }
    }

    pub(super) fn create_view(&self, create: &ast::CreateView) -> Result<(), SqlError> {
        self.definer(create.definer.as_ref())?;
        let replaces = create.or_replace || create.alter;
        let needed = if replaces { P::CREATE_VIEW | P::DROP } else { P::CREATE_VIEW };
        self.permanent(&self.name(&create.name)?, needed)?;
        self.rows(|walk| walk.query(&create.query))
    }

    pub(super) fn create_table(&self, create: &ast::CreateTable) -> Result<(), SqlError> {
        let table = self.name(&create.name)?;
        let query = match &create.definition {
            TableDefinition::Like(_) => None,
            TableDefinition::Columns(body) => body.query.as_ref(),
        };
        if create.temporary {
            self.database(&table.database, P::CREATE_TEMPORARY)?;
        } else {
            let replaces =
                query.is_some_and(|query| query.duplicates == Some(ast::LoadDuplicates::Replace));
            let mut needed = P::CREATE;
            needed |= if query.is_some() { P::INSERT } else { P::NONE };
            needed |= if replaces { P::DELETE } else { P::NONE };
            self.permanent(&table, needed)?;
        }
        match &create.definition {
            TableDefinition::Like(name) => self.table(name, P::SELECT),
            TableDefinition::Columns(body) => {
                for column in &body.columns {
                    self.references(column.attributes.references.as_deref())?;
                }
                body.constraints.iter().try_for_each(|one| self.constraint(one))?;
                query.map_or(Ok(()), |query| self.rows(|walk| walk.query(&query.query)))
            }
        }
    }

    fn constraint(&self, constraint: &TableConstraint) -> Result<(), SqlError> {
        match constraint {
            TableConstraint::ForeignKey(key) => self.references(Some(&key.references)),
            TableConstraint::Index(_) | TableConstraint::Check(_) => Ok(()),
        }
    }

    /// REFERENCES of the columns of another table.
    fn references(&self, references: Option<&ast::References>) -> Result<(), SqlError> {
        let Some(references) = references else { return Ok(()) };
        self.rows(|walk| {
            let parent = walk.name(&references.table)?;
            let used = walk.uses.of(&parent);
            used.needed |= P::REFERENCES;
            let names = references.columns.iter().map(|column| column.as_str().to_owned());
            used.referred.names.extend(names);
            Ok(())
        })
    }

    pub(super) fn alter_table(&self, alter: &ast::AlterTable) -> Result<(), SqlError> {
        let mut needed = P::ALTER | P::CREATE | P::INSERT;
        for action in &alter.actions {
            match action {
                AlterAction::RenameTable(name) => {
                    self.permanent(&self.name(name)?, P::CREATE | P::INSERT)?;
                    needed |= P::DROP;
                }
                AlterAction::DropPartitions(_)
                | AlterAction::TruncatePartitions(_)
                | AlterAction::ExchangePartition(_, _) => needed |= P::DROP,
                AlterAction::AddConstraint(constraint) => self.constraint(constraint)?,
                AlterAction::AddColumn(column, _)
                | AlterAction::ChangeColumn(_, column, _)
                | AlterAction::ModifyColumn(column, _) => {
                    self.references(column.attributes.references.as_deref())?;
                }
                _ => {}
            }
        }
        self.table(&alter.table, needed)
    }

    pub(super) fn maintenance(&self, work: &TableMaintenance) -> Result<(), SqlError> {
        work.tables.iter().try_for_each(|name| match work.operation {
            MaintenanceOperation::Analyze
            | MaintenanceOperation::Optimize
            | MaintenanceOperation::Repair => self.table(name, P::SELECT | P::INSERT),
            MaintenanceOperation::Checksum => self.table(name, P::SELECT),
            MaintenanceOperation::Check => self.sees_table(name, "SELECT"),
        })
    }

    pub(super) fn filter(&self, filter: &ShowFilter) -> Result<(), SqlError> {
        match filter {
            ShowFilter::Where(expr) => self.exprs(std::slice::from_ref(expr)),
            ShowFilter::None | ShowFilter::Like(_) => Ok(()),
        }
    }

    pub(super) fn set(&self, item: &SetItem) -> Result<(), SqlError> {
        match item {
            SetItem::User(_, value) | SetItem::TriggerColumn(_, _, value) => {
                self.exprs(std::slice::from_ref(value))
            }
            SetItem::Variable(target, value) => {
                self.exprs(std::slice::from_ref(value))?;
                let name = target.name.as_str();
                match target.scope {
                    Some(VariableScope::Global | VariableScope::Persist) => {
                        self.variables()?;
                        if audit::is_of_log(name) {
                            self.administers(Dynamic::AUDIT_ADMIN)
                        } else {
                            Ok(())
                        }
                    }
                    Some(VariableScope::PersistOnly) => {
                        self.variables()?;
                        self.dynamic(Dynamic::PERSIST_RO_VARIABLES_ADMIN)
                    }
                    Some(VariableScope::Session) | None => self.session_variable(name),
                }
            }
            SetItem::Names(_, _) | SetItem::Charset(_) => Ok(()),
        }
    }

    fn session_variable(&self, name: &str) -> Result<(), SqlError> {
        let is_restricted = RESTRICTED.contains(&name);
        let may = self.rights.administers(Dynamic::SYSTEM_VARIABLES_ADMIN)
            || self.rights.has_dynamic(Dynamic::SESSION_VARIABLES_ADMIN);
        if is_restricted && registry::find(name).is_some() && !may {
            Err(error::needs("SUPER, SYSTEM_VARIABLES_ADMIN or SESSION_VARIABLES_ADMIN"))
        } else {
            Ok(())
        }
    }

    pub(super) fn flush(&self, what: &FlushTarget) -> Result<(), SqlError> {
        let one = |dynamic: Dynamic| {
            let may = self.rights.global.has(P::RELOAD) || self.rights.has_dynamic(dynamic);
            if may {
                return Ok(());
            }
            Err(error::needs(&format!("RELOAD or {}", dynamic.name())))
        };
        match what {
            FlushTarget::Tables { tables, read_lock, export } => {
                one(Dynamic::FLUSH_TABLES)?;
                if *read_lock || *export {
                    for name in tables {
                        self.lock_tables(name)?;
                        self.table(name, P::SELECT)?;
                    }
                }
                Ok(())
            }
            FlushTarget::Options(options) => {
                options.iter().try_for_each(|option| match &**option {
                    "STATUS" => one(Dynamic::FLUSH_STATUS),
                    "USER_RESOURCES" => one(Dynamic::FLUSH_USER_RESOURCES),
                    "OPTIMIZER_COSTS" => one(Dynamic::FLUSH_OPTIMIZER_COSTS),
                    "PRIVILEGES" => one(Dynamic::FLUSH_PRIVILEGES),
                    _ => self.global(P::RELOAD),
                })
            }
        }
    }
}
