//! Which statement it is.

use super::Printer;
use crate::ast::{Ident, Statement};

impl Printer<'_> {
    #[expect(clippy::too_many_lines, reason = "one line for each kind of statement")]
    pub(super) fn statement(&mut self, statement: &Statement) {
        match statement {
            Statement::Query(query) => self.query(query),
            Statement::Insert(insert) => self.insert(insert),
            Statement::Update(update) => self.update(update),
            Statement::Delete(delete) => self.delete(delete),
            Statement::LoadData(load) => self.load_data(load),
            Statement::Truncate(table) => {
                self.put("TRUNCATE TABLE ");
                self.object_name(table);
            }
            Statement::Call(call) => self.call(call),
            Statement::Do(values) => {
                self.put("DO ");
                self.exprs(values);
            }
            Statement::CreateTable(create) => self.create_table(create),
            Statement::AlterTable(alter) => self.alter_table(alter),
            Statement::DropTable(drop) => self.drop_table(drop),
            Statement::RenameTable(pairs) => {
                self.put("RENAME TABLE ");
                self.list(pairs, ", ", |printer, (old, new)| {
                    printer.object_name(old);
                    printer.put(" TO ");
                    printer.object_name(new);
                });
            }
            Statement::CreateIndex(create) => self.create_index(create),
            Statement::DropIndex(drop) => self.drop_index(drop),
            Statement::CreateDatabase(create) => self.create_database(create),
            Statement::AlterDatabase(alter) => self.alter_database(alter),
            Statement::DropDatabase(drop) => self.drop_database(drop),
            Statement::CreateView(view) => self.create_view(view),
            Statement::DropView(drop) => self.drop_view(drop),
            Statement::CreateTrigger(trigger) => self.create_trigger(trigger),
            Statement::DropTrigger(drop) => self.drop_object("DROP TRIGGER ", drop),
            Statement::CreateRoutine(routine) => self.create_routine(routine),
            Statement::DropRoutine(drop) => self.drop_routine(drop),
            Statement::CreateEvent(event) => self.create_event(event),
            Statement::DropEvent(drop) => self.drop_object("DROP EVENT ", drop),
            Statement::CreateUser(create) => self.create_user(create),
            Statement::AlterUser(alter) => self.alter_user(alter),
            Statement::DropUser(drop) => self.drop_user("DROP USER ", drop),
            Statement::RenameUser(pairs) => {
                self.put("RENAME USER ");
                self.list(pairs, ", ", |printer, (old, new)| {
                    printer.account(old);
                    printer.put(" TO ");
                    printer.account(new);
                });
            }
            Statement::CreateRole(create) => self.create_role(create),
            Statement::DropRole(drop) => self.drop_user("DROP ROLE ", drop),
            Statement::Grant(grant) => self.grant(grant),
            Statement::Revoke(revoke) => self.revoke(revoke),
            Statement::SetPassword(set) => self.set_password(set),
            Statement::SetRole(roles) => {
                self.put("SET ROLE ");
                self.role_choice(roles);
            }
            Statement::SetDefaultRole(set) => self.set_default_role(set),
            Statement::StartTransaction(start) => self.start_transaction(start),
            Statement::Commit(end) => self.transaction_end("COMMIT", end),
            Statement::Rollback(end) => self.transaction_end("ROLLBACK", end),
            Statement::Savepoint(name) => self.with_name("SAVEPOINT ", name),
            Statement::RollbackToSavepoint(name) => {
                self.with_name("ROLLBACK TO SAVEPOINT ", name);
            }
            Statement::ReleaseSavepoint(name) => self.with_name("RELEASE SAVEPOINT ", name),
            Statement::SetTransaction(set) => self.set_transaction(set),
            Statement::LockTables(locks) => self.lock_tables(locks),
            Statement::UnlockTables => self.put("UNLOCK TABLES"),
            Statement::LockInstance => self.put("LOCK INSTANCE FOR BACKUP"),
            Statement::UnlockInstance => self.put("UNLOCK INSTANCE"),
            Statement::ReloadTls(keeps_nothing) => {
                self.put("ALTER INSTANCE RELOAD TLS");
                if *keeps_nothing {
                    self.put(" NO ROLLBACK ON ERROR");
                }
            }
            Statement::Set(items) => self.set(items),
            Statement::Show(show) => self.show(show),
            Statement::Describe(describe) => self.describe(describe),
            Statement::Explain(explain) => self.explain(explain),
            Statement::Use(name) => self.with_name("USE ", name),
            Statement::Kill(kill) => self.kill(kill),
            Statement::ResetPersist(reset) => self.reset_persist(reset),
            Statement::PurgeBinaryLogs(purge) => self.purge(purge),
            Statement::Prepare(prepare) => self.prepare(prepare),
            Statement::Execute(execute) => self.execute(execute),
            Statement::Deallocate(name) => self.with_name("DEALLOCATE PREPARE ", name),
            Statement::Flush(flush) => self.flush(flush),
            Statement::TableMaintenance(maintenance) => self.table_maintenance(maintenance),
            Statement::Backup(backup) => self.backup("BACKUP ", " INTO ", backup),
            Statement::Restore(backup) => self.backup("RESTORE ", " FROM ", backup),
            Statement::CancelBackup(job) => self.put(&format!("CANCEL BACKUP JOB {job}")),
            Statement::StartArchive(archive) => self.start_archive(archive),
            Statement::StopArchive(None) => self.put("STOP ARCHIVE"),
            Statement::StopArchive(Some(number)) => self.put(&format!("STOP ARCHIVE {number}")),
            Statement::CreateChangefeed(create) => self.create_changefeed(create),
            Statement::Changefeed(command) => self.changefeed(command),
            Statement::StreamChangefeed(stream) => self.stream_changefeed(stream),
            Statement::ChangeSource(change) => self.change_source(change),
            Statement::ChangeFilter(change) => self.change_filter(change),
            Statement::Replica(command) => self.replica(command),
            Statement::Help(topic) => {
                self.put("HELP ");
                self.text(topic);
            }
            Statement::Shutdown => self.put("SHUTDOWN"),
            Statement::Empty => self.put("/* */"),
            Statement::Restart => self.put("RESTART"),
            Statement::Unsupported { feature } => self.put(feature),
        }
    }

    fn with_name(&mut self, words: &str, name: &Ident) {
        self.put(words);
        self.ident(name);
    }
}
