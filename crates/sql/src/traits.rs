//! What is true of each kind of statement: one exhaustive match.
//!
//! # Owns
//! [`Traits`], and [`StatementTraits::traits`]. A new kind of statement does not compile before
//! it is said here how it is counted, who runs it and what it does to transactions; what privileges
//! it needs is said in `authorize`, in a match of the same form.
//! # Not here
//! Running statements (`dispatch`).

use sql_parser::ast::{
    ChangefeedAction, ExplainTarget, Granted, MaintenanceOperation, ReplicaAction, Show, Statement,
};

/// What is true of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Traits {
    /// The name it is counted under, as in `Com_select`.
    pub(crate) counter: &'static str,
    /// Who runs it.
    pub(crate) place: Place,
    /// A transaction that is open ends with a commit before it.
    pub(crate) commits: bool,
    /// Whether a transaction that only reads may have it.
    pub(crate) writes: Writes,
    /// It may be prepared.
    pub(crate) is_preparable: bool,
    /// It reports on the last statement, and therefore begins no new diagnostics area.
    pub(crate) is_diagnostic: bool,
    /// It runs a query and nothing else: `max_execution_time` holds for it.
    pub(crate) is_query: bool,
    /// It may run while the session's password has expired.
    pub(crate) despite_expiry: bool,
}

/// Who runs a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// `plan` and `execute`, by a plan that is kept.
    Planned,
    /// `execute`, without a plan of its own.
    Execute,
    /// `ddl`.
    Definition,
    /// `account`.
    Account,
    /// `dispatch`: transactions.
    Transaction,
    /// `variables`.
    Variables,
    /// `show`.
    Show,
    /// `administration`.
    Administration,
}

/// What a statement writes, as far as transactions that only read ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writes {
    /// Nothing, or nothing that counts.
    Nothing,
    /// Rows.
    Rows,
    /// Definitions or accounts: refused before the transaction is ended.
    Definitions,
}

impl Traits {
    const fn new(counter: &'static str, place: Place) -> Self {
        Self {
            counter,
            place,
            commits: false,
            writes: Writes::Nothing,
            is_preparable: true,
            is_diagnostic: false,
            is_query: false,
            despite_expiry: false,
        }
    }

    /// Of a text that is no statement.
    pub(crate) const fn unknown() -> Self {
        Self::new("error", Place::Administration)
    }

    /// Of a statement that changes rows by a plan.
    const fn change(counter: &'static str) -> Self {
        Self { writes: Writes::Rows, ..Self::new(counter, Place::Planned) }
    }

    /// Of a statement that changes definitions.
    const fn definition(counter: &'static str) -> Self {
        let traits = Self::new(counter, Place::Definition);
        Self { commits: true, writes: Writes::Definitions, ..traits }
    }

    /// Of a statement that concerns temporary tables only, which are nobody else's business.
    const fn temporary(counter: &'static str) -> Self {
        Self::new(counter, Place::Definition)
    }

    /// Of a statement that changes accounts.
    const fn account(counter: &'static str) -> Self {
        let traits = Self::new(counter, Place::Account);
        Self { commits: true, writes: Writes::Definitions, ..traits }
    }

    const fn transaction(counter: &'static str) -> Self {
        Self::new(counter, Place::Transaction)
    }

    const fn administration(counter: &'static str) -> Self {
        Self::new(counter, Place::Administration)
    }

    const fn committing(self) -> Self {
        Self { commits: true, ..self }
    }

    const fn unprepared(self) -> Self {
        Self { is_preparable: false, ..self }
    }

    const fn despite_expiry(self) -> Self {
        Self { despite_expiry: true, ..self }
    }
}

/// What is true of a statement, by its kind.
pub(crate) trait StatementTraits {
    /// What is true of the statement.
    fn traits(&self) -> Traits;
}

impl StatementTraits for Statement {
    #[expect(clippy::too_many_lines, reason = "an arm for each kind of statement")]
    fn traits(&self) -> Traits {
        match self {
            Self::Query(_) => Traits { is_query: true, ..Traits::new("select", Place::Planned) },
            Self::Insert(insert) if insert.replace => Traits::change("replace"),
            Self::Insert(_) => Traits::change("insert"),
            Self::Update(_) => Traits::change("update"),
            Self::Delete(_) => Traits::change("delete"),
            Self::LoadData(_) => {
                let traits = Traits::new("load", Place::Execute).unprepared();
                Traits { writes: Writes::Rows, ..traits }
            }
            Self::Call(_) => Traits::administration("call_procedure"),
            Self::Do(_) => Traits::new("do", Place::Execute),
            Self::Explain(explain) => {
                let is_query =
                    explain.analyze && matches!(explain.target, ExplainTarget::Statement(_));
                Traits { is_query, ..Traits::new("explain_other", Place::Execute) }
            }
            Self::Describe(_) => Traits::new("show", Place::Show),
            Self::Show(show) => of_show(show),
            Self::Set(_) => Traits::new("set_option", Place::Variables).despite_expiry(),
            Self::PurgeBinaryLogs(_) => Traits::administration("purge"),
            Self::SetTransaction(_) | Self::ResetPersist(_) => {
                Traits::new("set_option", Place::Variables)
            }
            Self::Truncate(_)
            | Self::CreateTable(_)
            | Self::AlterTable(_)
            | Self::DropTable(_)
            | Self::RenameTable(_)
            | Self::CreateIndex(_)
            | Self::DropIndex(_)
            | Self::CreateDatabase(_)
            | Self::AlterDatabase(_)
            | Self::DropDatabase(_)
            | Self::CreateView(_)
            | Self::DropView(_) => of_definition(self),
            Self::CreateTrigger(_) => Traits::administration("create_trigger").committing(),
            Self::DropTrigger(_) => Traits::administration("drop_trigger").committing(),
            Self::CreateRoutine(routine) => Traits::administration(if routine.function {
                "create_function"
            } else {
                "create_procedure"
            })
            .committing(),
            Self::DropRoutine(routine) => Traits::administration(if routine.function {
                "drop_function"
            } else {
                "drop_procedure"
            })
            .committing(),
            Self::CreateEvent(_) => Traits::administration("create_event").committing(),
            Self::DropEvent(_) => Traits::administration("drop_event").committing(),
            Self::CreateUser(_)
            | Self::AlterUser(_)
            | Self::DropUser(_)
            | Self::RenameUser(_)
            | Self::CreateRole(_)
            | Self::DropRole(_)
            | Self::Grant(_)
            | Self::Revoke(_)
            | Self::SetPassword(_)
            | Self::SetRole(_)
            | Self::SetDefaultRole(_) => of_account(self),
            Self::StartTransaction(_) => Traits::transaction("begin"),
            Self::Commit(_) => Traits::transaction("commit"),
            Self::Rollback(_) => Traits::transaction("rollback"),
            Self::Savepoint(_) => Traits::transaction("savepoint"),
            Self::RollbackToSavepoint(_) => Traits::transaction("rollback_to_savepoint"),
            Self::ReleaseSavepoint(_) => Traits::transaction("release_savepoint"),
            Self::LockTables(_) => Traits::administration("lock_tables").committing(),
            Self::UnlockTables => Traits::administration("unlock_tables"),
            Self::LockInstance => Traits::administration("lock_instance"),
            Self::UnlockInstance => Traits::administration("unlock_instance"),
            Self::Use(_) => Traits::administration("change_db"),
            Self::Kill(_) => Traits::administration("kill"),
            Self::Prepare(_) => Traits::administration("prepare_sql").unprepared(),
            Self::Execute(_) => Traits::administration("execute_sql").unprepared(),
            Self::Deallocate(_) => Traits::administration("dealloc_sql").unprepared(),
            Self::ReloadTls(_) => Traits::administration("alter_instance"),
            Self::Flush(_) => Traits::administration("flush").committing(),
            Self::TableMaintenance(work) => Traits::administration(match work.operation {
                MaintenanceOperation::Analyze => "analyze",
                MaintenanceOperation::Check => "check",
                MaintenanceOperation::Checksum => "checksum",
                MaintenanceOperation::Optimize => "optimize",
                MaintenanceOperation::Repair => "repair",
            })
            .committing(),
            Self::Backup(_) => Traits::administration("backup").committing().unprepared(),
            Self::Restore(_) => {
                let traits = Traits::administration("restore").committing().unprepared();
                Traits { writes: Writes::Definitions, ..traits }
            }
            Self::CancelBackup(_) => Traits::administration("cancel_backup"),
            Self::StartArchive(_) => Traits::administration("start_archive").unprepared(),
            Self::StopArchive(_) => Traits::administration("stop_archive").unprepared(),
            Self::CreateChangefeed(_) => {
                Traits::administration("create_changefeed").committing().unprepared()
            }
            Self::Changefeed(command) => Traits::administration(match command.action {
                ChangefeedAction::Pause => "pause_changefeed",
                ChangefeedAction::Resume => "resume_changefeed",
                ChangefeedAction::Drop { .. } => "drop_changefeed",
            })
            .committing()
            .unprepared(),
            Self::StreamChangefeed(_) => {
                Traits::administration("stream_changefeed").committing().unprepared()
            }
            Self::ChangeSource(_) => {
                Traits::administration("change_master").committing().unprepared()
            }
            Self::ChangeFilter(_) => {
                Traits::administration("change_replication_filter").committing().unprepared()
            }
            Self::Replica(command) => Traits::administration(match command.action {
                ReplicaAction::Start => "replica_start",
                ReplicaAction::Stop => "replica_stop",
                ReplicaAction::Reset | ReplicaAction::ResetAll => "reset",
            })
            .committing(),
            Self::Help(_) => Traits::administration("help"),
            Self::Shutdown => Traits::administration("shutdown"),
            Self::Empty => Traits::administration("empty_query").unprepared(),
            Self::Restart => Traits::administration("restart"),
            Self::Unsupported { .. } => Traits::administration("other"),
        }
    }
}

fn of_show(show: &Show) -> Traits {
    let is_diagnostic =
        matches!(show, Show::Warnings(_) | Show::Errors(_) | Show::WarningCount | Show::ErrorCount);
    Traits { is_diagnostic, ..Traits::new("show", Place::Show) }
}

fn of_definition(statement: &Statement) -> Traits {
    match statement {
        Statement::Truncate(_) => Traits::definition("truncate"),
        Statement::CreateTable(create) if create.temporary => Traits::temporary("create_table"),
        Statement::CreateTable(_) => Traits::definition("create_table"),
        Statement::AlterTable(_) => Traits::definition("alter_table"),
        Statement::DropTable(drop) if drop.temporary => Traits::temporary("drop_table"),
        Statement::DropTable(_) => Traits::definition("drop_table"),
        Statement::RenameTable(_) => Traits::definition("rename_table"),
        Statement::CreateIndex(_) => Traits::definition("create_index"),
        Statement::DropIndex(_) => Traits::definition("drop_index"),
        Statement::CreateDatabase(_) => Traits::definition("create_db"),
        Statement::AlterDatabase(_) => Traits::definition("alter_db"),
        Statement::DropDatabase(_) => Traits::definition("drop_db"),
        Statement::CreateView(_) => Traits::definition("create_view"),
        Statement::DropView(_) => Traits::definition("drop_view"),
        _ => unreachable!("the caller lists the same kinds"),
    }
}

fn of_account(statement: &Statement) -> Traits {
    match statement {
        Statement::CreateUser(_) => Traits::account("create_user"),
        Statement::AlterUser(_) => Traits::account("alter_user").despite_expiry(),
        Statement::DropUser(_) => Traits::account("drop_user"),
        Statement::RenameUser(_) => Traits::account("rename_user"),
        Statement::CreateRole(_) => Traits::account("create_role"),
        Statement::DropRole(_) => Traits::account("drop_role"),
        Statement::Grant(grant) => Traits::account(match grant.what {
            Granted::Roles(_) => "grant_roles",
            _ => "grant",
        }),
        Statement::Revoke(revoke) => Traits::account(match revoke.what {
            Granted::Roles(_) => "revoke_roles",
            Granted::Everything => "revoke_all",
            Granted::Privileges { .. } | Granted::Proxy(_) => "revoke",
        }),
        Statement::SetPassword(_) => Traits::account("set_password").despite_expiry(),
        Statement::SetRole(_) => Traits::new("set_role", Place::Account),
        Statement::SetDefaultRole(_) => Traits::account("alter_user_default_role"),
        _ => unreachable!("the caller lists the same kinds"),
    }
}
