//! Which statement it is: one look at the first word or two.

use super::{Parser, Result};
use crate::ast::Statement;
use crate::keyword::Keyword as K;
use crate::lexer::Kind;

impl Parser<'_> {
    pub(super) fn statement(&mut self) -> Result<Statement> {
        if self.at(Kind::Open) {
            return self.query_statement();
        }
        match self.token.keyword {
            K::Select | K::Values | K::Table => self.query_statement(),
            K::With => self.with_statement(),
            K::Insert | K::Replace => self.insert(),
            K::Update => self.update(None),
            K::Delete => self.delete(None),
            K::Call => self.call_statement(),
            K::Do => self.do_statement(),
            K::Truncate => {
                self.advance();
                self.eat_word(K::Table);
                self.object_name().map(Statement::Truncate)
            }
            K::Set => self.set(),
            K::Show => self.show(),
            K::Explain | K::Describe | K::Desc => self.explain(),
            K::Create => self.create(),
            K::Alter => self.alter(),
            K::Drop => self.drop(),
            K::Rename => match self.peek().keyword {
                K::Table | K::Tables => {
                    self.advance();
                    self.rename_table()
                }
                K::User => {
                    self.advance();
                    self.rename_user()
                }
                _ => self.refuse_after_first_word(),
            },
            K::Grant => self.grant(),
            K::Revoke => self.revoke(),
            K::Analyze | K::Check | K::Checksum | K::Optimize | K::Repair => {
                self.table_maintenance()
            }
            K::Load if matches!(self.peek().keyword, K::Data | K::Xml) => self.load_data(),
            _ => self.session_statement(),
        }
    }

    /// Transactions, prepared statements and the like.
    fn session_statement(&mut self) -> Result<Statement> {
        let word = self.token.keyword;
        match word {
            K::Begin => {
                self.advance();
                self.eat_word(K::Work);
                Ok(Statement::StartTransaction(Default::default()))
            }
            K::Start if self.peek().keyword == K::Transaction => {
                self.advance();
                self.start_transaction()
            }
            K::Commit => {
                self.advance();
                self.transaction_end().map(Statement::Commit)
            }
            K::Rollback => self.rollback(),
            K::Savepoint => {
                self.advance();
                self.ident().map(Statement::Savepoint)
            }
            K::Release => {
                self.advance();
                self.expect_word(K::Savepoint)?;
                self.ident().map(Statement::ReleaseSavepoint)
            }
            K::Lock | K::Unlock => self.lock_or_unlock(),
            K::Use => {
                self.advance();
                self.ident().map(Statement::Use)
            }
            K::Kill => self.kill(),
            K::Reset if self.peek().keyword == K::Persist => self.reset_persist(),
            K::Purge if matches!(self.peek().keyword, K::Binary | K::Master) => self.purge(),
            K::Prepare => self.prepare(),
            K::Execute => self.execute(),
            K::Deallocate => {
                self.advance();
                self.deallocate()
            }
            K::Flush => self.flush(),
            K::Help => {
                self.advance();
                Ok(Statement::Help(self.ident_or_text()?.as_str().into()))
            }
            K::Backup => self.backup(),
            K::Restore => self.restore(),
            K::Start if self.is_archive_next() => self.start_archive(),
            K::Stop if self.is_archive_next() => self.stop_archive(),
            K::Change if matches!(self.peek().keyword, K::Replication | K::Master) => {
                self.change_replication()
            }
            K::Start | K::Stop | K::Reset
                if matches!(self.peek().keyword, K::Replica | K::Slave) =>
            {
                self.replica_command()
            }
            _ if self.at_text("CANCEL") => self.cancel_backup(),
            _ if self.is_changefeed_next() => self.changefeed_statement(),
            K::Shutdown => {
                self.advance();
                Ok(Statement::Shutdown)
            }
            K::Restart => {
                self.advance();
                Ok(Statement::Restart)
            }
            _ => self.unmodelled_statement(),
        }
    }

    fn query_statement(&mut self) -> Result<Statement> {
        Ok(Statement::Query(Box::new(self.query()?)))
    }

    /// WITH begins a query, an UPDATE or a DELETE: the word behind the tables tells.
    fn with_statement(&mut self) -> Result<Statement> {
        let entered = self.enter()?;
        let with = self.with()?;
        let statement = match self.token.keyword {
            K::Update => self.update(with)?,
            K::Delete => self.delete(with)?,
            _ => Statement::Query(Box::new(self.query_after_with(with)?)),
        };
        self.leave(entered)?;
        Ok(statement)
    }

    fn lock_or_unlock(&mut self) -> Result<Statement> {
        let locks = self.at_word(K::Lock);
        self.advance();
        if self.eat_word(K::Instance) {
            if locks {
                self.expect_words(&[K::For, K::Backup])?;
                return Ok(Statement::LockInstance);
            }
            return Ok(Statement::UnlockInstance);
        }
        if !matches!(self.token.keyword, K::Table | K::Tables) {
            return Err(self.error());
        }
        if locks {
            return self.lock_tables();
        }
        self.advance();
        Ok(Statement::UnlockTables)
    }

    fn create(&mut self) -> Result<Statement> {
        self.advance();
        match self.token.keyword {
            K::Table | K::Temporary => return self.create_table(),
            K::Index | K::Unique | K::Fulltext => return self.create_index(),
            K::Spatial if self.peek().keyword == K::Index => return self.create_index(),
            K::Database | K::Schema => return self.create_database(),
            K::User => return self.create_user(),
            K::Role => return self.create_role(),
            _ if self.at_changefeed() => return self.create_changefeed(),
            _ => {}
        }
        let or_replace = self.eat_words(&[K::Or, K::Replace]);
        if or_replace && self.at_word(K::Spatial) {
            return self.create_unmodelled();
        }
        let prefix = self.view_prefix(or_replace)?;
        let is_plain = !or_replace && prefix.algorithm.is_none() && prefix.invoker.is_none();
        match self.token.keyword {
            K::View => self.create_view(prefix, false),
            K::Trigger if is_plain => self.create_trigger(prefix),
            K::Procedure | K::Function if is_plain => self.create_routine(prefix),
            K::Event if is_plain => self.create_event(prefix),
            _ if is_plain && prefix.definer.is_none() => self.create_unmodelled(),
            _ => Err(self.error()),
        }
    }

    /// What follows ALTER INSTANCE RELOAD TLS. There is one channel, as there is one port.
    fn reload_tls(&mut self) -> Result<Statement> {
        if self.eat_words(&[K::For, K::Channel]) && self.ident()?.as_str() != "mysql_main" {
            return Ok(self.unsupported("ALTER INSTANCE RELOAD TLS FOR CHANNEL"));
        }
        let keeps_nothing = self.eat_words(&[K::No, K::Rollback, K::On, K::Error]);
        Ok(Statement::ReloadTls(keeps_nothing))
    }

    fn create_unmodelled(&mut self) -> Result<Statement> {
        let feature = match (self.token.keyword, self.peek().keyword) {
            (K::Aggregate, K::Function) => "CREATE FUNCTION ... SONAME",
            (K::Logfile, K::Group) => "CREATE LOGFILE GROUP",
            (K::Resource, K::Group) => "CREATE RESOURCE GROUP",
            (K::Server, _) => "CREATE SERVER",
            (K::Spatial, _) => "CREATE SPATIAL REFERENCE SYSTEM",
            (K::Tablespace, _) => "CREATE TABLESPACE",
            (K::Undo, K::Tablespace) => "CREATE UNDO TABLESPACE",
            _ => return Err(self.error()),
        };
        Ok(self.unsupported(feature))
    }

    fn alter(&mut self) -> Result<Statement> {
        self.advance();
        match self.token.keyword {
            K::Table => return self.alter_table(),
            K::Database | K::Schema => return self.alter_database(),
            K::User => return self.alter_user(),
            _ => {}
        }
        if self.eat_words(&[K::Instance, K::Reload, K::Tls]) {
            return self.reload_tls();
        }
        let feature = match (self.token.keyword, self.peek().keyword) {
            (K::Event, _) => "ALTER EVENT",
            (K::Function, _) => "ALTER FUNCTION",
            (K::Procedure, _) => "ALTER PROCEDURE",
            (K::Instance, _) => "ALTER INSTANCE",
            (K::Logfile, K::Group) => "ALTER LOGFILE GROUP",
            (K::Resource, K::Group) => "ALTER RESOURCE GROUP",
            (K::Server, _) => "ALTER SERVER",
            (K::Tablespace, _) => "ALTER TABLESPACE",
            (K::Undo, K::Tablespace) => "ALTER UNDO TABLESPACE",
            _ => {
                let prefix = self.view_prefix(false)?;
                if self.at_word(K::Event) {
                    return Ok(self.unsupported("ALTER EVENT"));
                }
                return self.create_view(prefix, true);
            }
        };
        Ok(self.unsupported(feature))
    }

    fn drop(&mut self) -> Result<Statement> {
        self.advance();
        match self.token.keyword {
            K::Table | K::Tables | K::Temporary => return self.drop_table(),
            K::Index => return self.drop_index(),
            K::Database | K::Schema => return self.drop_database(),
            K::View => return self.drop_view(),
            K::Prepare => return self.deallocate(),
            K::User => return self.drop_user().map(Statement::DropUser),
            K::Role => return self.drop_user().map(Statement::DropRole),
            _ if self.at_changefeed() => return self.drop_changefeed(),
            K::Procedure | K::Function => return self.drop_routine(),
            K::Trigger => {
                self.advance();
                return self.drop_object().map(Statement::DropTrigger);
            }
            K::Event => {
                self.advance();
                return self.drop_object().map(Statement::DropEvent);
            }
            _ => {}
        }
        let feature = match (self.token.keyword, self.peek().keyword) {
            (K::Logfile, K::Group) => "DROP LOGFILE GROUP",
            (K::Resource, K::Group) => "DROP RESOURCE GROUP",
            (K::Server, _) => "DROP SERVER",
            (K::Spatial, _) => "DROP SPATIAL REFERENCE SYSTEM",
            (K::Tablespace, _) => "DROP TABLESPACE",
            (K::Undo, K::Tablespace) => "DROP UNDO TABLESPACE",
            _ => return Err(self.error()),
        };
        Ok(self.unsupported(feature))
    }

    /// Statements that exist and that the tree does not hold.
    pub(super) fn unmodelled_statement(&mut self) -> Result<Statement> {
        let next = self.peek().keyword;
        let feature = match (self.token.keyword, next) {
            (K::Binlog, _) => "BINLOG",
            (K::Cache, K::Index) => "CACHE INDEX",
            (K::Clone, _) => "CLONE",
            (K::Get, _) => "GET DIAGNOSTICS",
            (K::Handler, _) => "HANDLER",
            (K::Import, K::Table) => "IMPORT TABLE",
            (K::Install, K::Plugin) => "INSTALL PLUGIN",
            (K::Install, K::Component) => "INSTALL COMPONENT",
            (K::Load, K::Index) => "LOAD INDEX INTO CACHE",
            (K::Reset, K::Master | K::Binary) => "RESET MASTER",
            (K::Resignal, _) => "RESIGNAL",
            (K::Signal, _) => "SIGNAL",
            (K::Start, K::GroupReplication) => "START GROUP_REPLICATION",
            (K::Stop, K::GroupReplication) => "STOP GROUP_REPLICATION",
            (K::Uninstall, K::Plugin) => "UNINSTALL PLUGIN",
            (K::Uninstall, K::Component) => "UNINSTALL COMPONENT",
            (K::Xa, _) => "XA",
            (K::Change | K::Install | K::Load | K::Purge | K::Reset | K::Start | K::Stop, _)
            | (K::Uninstall | K::Import | K::Cache, _) => return self.refuse_after_first_word(),
            _ => return Err(self.error()),
        };
        Ok(self.unsupported(feature))
    }

    /// The first word begins a statement, the second does not go on.
    fn refuse_after_first_word(&mut self) -> Result<Statement> {
        self.advance();
        Err(self.error())
    }

    /// Goes to the end of a statement that is refused by its name.
    pub(super) fn unsupported(&mut self, feature: &str) -> Statement {
        while !matches!(self.token.kind, Kind::End | Kind::Semicolon) {
            self.advance();
        }
        Statement::Unsupported { feature: feature.into() }
    }
}
