//! SHOW.

use super::{Parser, Result};
use crate::ast::{
    CreatedObject, EngineReport, Ident, ObjectName, Show, ShowFilter, Statement, VariableScope,
};
use crate::keyword::Keyword as K;
use crate::lexer::Kind;

impl Parser<'_> {
    /// At SHOW.
    pub(super) fn show(&mut self) -> Result<Statement> {
        self.advance();
        let show = match self.token.keyword {
            K::Global | K::Session | K::Local | K::Variables | K::Status => {
                self.show_variables()?
            }
            K::Full
            | K::Extended
            | K::Tables
            | K::Columns
            | K::Fields
            | K::Triggers
            | K::Processlist => self.show_with_full()?,
            K::Index | K::Indexes | K::Keys => self.show_indexes(false)?,
            K::Create => self.show_create()?,
            K::Count => self.show_count()?,
            K::Engine => self.show_engine()?,
            K::Binary
            | K::Master
            | K::Binlog
            | K::Relaylog
            | K::Slave
            | K::Replica
            | K::Replicas => {
                return self.show_replication();
            }
            K::Procedure | K::Function => self.show_routine()?,
            K::Profile => self.show_profile()?,
            K::Grants => self.show_grants()?,
            K::Table | K::Open => {
                let open = self.at_word(K::Open);
                self.advance();
                self.expect_word(if open { K::Tables } else { K::Status })?;
                let schema = self.show_schema()?;
                let filter = self.show_filter()?;
                if open {
                    Show::OpenTables { schema, filter }
                } else {
                    Show::TableStatus { schema, filter }
                }
            }
            K::Events => {
                self.advance();
                let schema = self.show_schema()?;
                Show::Events { schema, filter: self.show_filter()? }
            }
            K::Backup => self.show_backups()?,
            _ if self.at_text("BACKUPS") => self.show_backups()?,
            _ if self.at_text("ARCHIVES") => {
                self.advance();
                Show::Archives
            }
            _ if self.at_text("CHANGEFEEDS") => {
                self.advance();
                Show::Changefeeds
            }
            _ => self.plain_show()?,
        };
        Ok(Statement::Show(Box::new(show)))
    }

    /// The forms that are a word or two, and a filter.
    fn plain_show(&mut self) -> Result<Show> {
        if self.eat_charset()? {
            return self.show_filter().map(Show::CharacterSets);
        }
        let word = self.token.keyword;
        self.advance();
        match word {
            K::Databases | K::Schemas => self.show_filter().map(Show::Databases),
            K::Collation => self.show_filter().map(Show::Collations),
            K::Warnings => self.limit().map(Show::Warnings),
            K::Errors => self.limit().map(Show::Errors),
            K::Engines => Ok(Show::Engines),
            K::Storage => self.expect_word(K::Engines).map(|()| Show::Engines),
            K::Plugins => Ok(Show::Plugins),
            K::Privileges => Ok(Show::Privileges),
            K::Profiles => Ok(Show::Profiles),
            _ => Err(self.error_before()),
        }
    }

    fn show_filter(&mut self) -> Result<ShowFilter> {
        if self.eat_word(K::Like) {
            return self.string().map(ShowFilter::Like);
        }
        if self.eat_word(K::Where) {
            self.expr().map(ShowFilter::Where)
        } else {
            Ok(ShowFilter::None)
        }
    }

    /// FROM or IN a schema, if it is next.
    fn show_schema(&mut self) -> Result<Option<Ident>> {
        if self.eat_any(&[K::From, K::In]).is_some() { self.ident().map(Some) } else { Ok(None) }
    }

    /// FROM a table, and a second FROM for its schema.
    fn show_table(&mut self) -> Result<ObjectName> {
        if self.eat_any(&[K::From, K::In]).is_none() {
            return Err(self.error());
        }
        let table = self.object_name()?;
        match self.show_schema()? {
            Some(schema) => Ok(ObjectName { schema: Some(schema), name: table.name }),
            None => Ok(table),
        }
    }

    fn show_variables(&mut self) -> Result<Show> {
        let scope = match self.eat_any(&[K::Global, K::Session, K::Local]) {
            Some(K::Global) => Some(VariableScope::Global),
            Some(_) => Some(VariableScope::Session),
            None => None,
        };
        let word = self.eat_any(&[K::Variables, K::Status]);
        match word {
            Some(K::Variables) => Ok(Show::Variables(scope, self.show_filter()?)),
            Some(_) => Ok(Show::Status(scope, self.show_filter()?)),
            None => Err(self.error()),
        }
    }

    /// The forms that may begin with EXTENDED and FULL.
    fn show_with_full(&mut self) -> Result<Show> {
        let extended = self.eat_word(K::Extended);
        let full = self.eat_word(K::Full);
        let word = self.token.keyword;
        match word {
            K::Index | K::Indexes | K::Keys if extended && !full => return self.show_indexes(true),
            K::Tables | K::Columns | K::Fields => {}
            K::Triggers | K::Processlist if !extended => {}
            _ => return Err(self.error()),
        }
        self.advance();
        match word {
            K::Tables => {
                let schema = self.show_schema()?;
                Ok(Show::Tables { full, extended, schema, filter: self.show_filter()? })
            }
            K::Triggers => {
                let schema = self.show_schema()?;
                Ok(Show::Triggers { full, schema, filter: self.show_filter()? })
            }
            K::Processlist => Ok(Show::ProcessList(full)),
            _ => {
                let table = self.show_table()?;
                Ok(Show::Columns { full, extended, table, filter: self.show_filter()? })
            }
        }
    }

    /// At INDEX, INDEXES or KEYS.
    fn show_indexes(&mut self, extended: bool) -> Result<Show> {
        self.advance();
        let table = self.show_table()?;
        Ok(Show::Indexes { extended, table, filter: self.filter()? })
    }

    fn show_create(&mut self) -> Result<Show> {
        self.advance();
        let object = match self.token.keyword {
            K::Database | K::Schema => {
                self.advance();
                let if_not_exists = self.if_not_exists()?;
                return Ok(Show::CreateDatabase { if_not_exists, name: self.ident()? });
            }
            K::User => {
                self.advance();
                return self.account().map(Show::CreateUser);
            }
            K::Table => CreatedObject::Table,
            K::View => CreatedObject::View,
            K::Procedure => CreatedObject::Procedure,
            K::Function => CreatedObject::Function,
            K::Trigger => CreatedObject::Trigger,
            K::Event => CreatedObject::Event,
            _ => return Err(self.error()),
        };
        self.advance();
        Ok(Show::Create(object, self.object_name()?))
    }

    /// `COUNT(*) WARNINGS`, `COUNT(*) ERRORS`.
    fn show_count(&mut self) -> Result<Show> {
        self.advance();
        self.expect(Kind::Open)?;
        self.expect(Kind::Star)?;
        self.expect(Kind::Close)?;
        match self.eat_any(&[K::Warnings, K::Errors]) {
            Some(K::Warnings) => Ok(Show::WarningCount),
            Some(_) => Ok(Show::ErrorCount),
            None => Err(self.error()),
        }
    }

    fn show_engine(&mut self) -> Result<Show> {
        self.advance();
        let name = if self.eat_word(K::All) { None } else { Some(self.ident_or_text()?) };
        let what = match self.eat_any(&[K::Status, K::Mutex, K::Logs]) {
            Some(K::Status) => EngineReport::Status,
            Some(K::Mutex) => EngineReport::Mutex,
            Some(_) => EngineReport::Logs,
            None => return Err(self.error()),
        };
        Ok(Show::Engine { name, what })
    }

    fn show_routine(&mut self) -> Result<Show> {
        let function = self.at_word(K::Function);
        self.advance();
        match self.eat_any(&[K::Status, K::Code]) {
            Some(K::Status) if function => self.show_filter().map(Show::FunctionStatus),
            Some(K::Status) => self.show_filter().map(Show::ProcedureStatus),
            Some(_) => Ok(Show::RoutineCode(function, self.object_name()?)),
            None => Err(self.error()),
        }
    }

    fn show_grants(&mut self) -> Result<Show> {
        self.advance();
        let (mut account, mut using) = (None, Vec::new());
        if self.eat_word(K::For) {
            account = Some(self.account()?);
            if self.eat_word(K::Using) {
                using = self.list(Self::account)?;
            }
        }
        Ok(Show::Grants { account, using })
    }

    fn show_profile(&mut self) -> Result<Show> {
        self.advance();
        let mut kinds = Vec::new();
        if !matches!(self.token.keyword, K::For | K::Limit) && self.at(Kind::Word) {
            kinds = self.list(|parser| {
                let kind = match parser.token.keyword {
                    K::All | K::Cpu | K::Ipc | K::Memory | K::Source | K::Swaps => {
                        parser.token.keyword.text()
                    }
                    K::Block if parser.peek().keyword == K::Io => "BLOCK IO",
                    K::Context if parser.peek().keyword == K::Switches => "CONTEXT SWITCHES",
                    K::Page if parser.peek().keyword == K::Faults => "PAGE FAULTS",
                    _ => return Err(parser.error()),
                };
                if kind.contains(' ') {
                    parser.advance();
                }
                parser.advance();
                Ok(kind.into())
            })?;
        }
        let query = if self.eat_words(&[K::For, K::Query]) { Some(self.number()?) } else { None };
        Ok(Show::Profile { kinds, query, limit: self.limit()? })
    }

    /// What is about logs and replicas.
    fn show_replication(&mut self) -> Result<Statement> {
        let word = self.token.keyword;
        self.advance();
        let show = match word {
            K::Binary if self.eat_text("LOG") => {
                self.expect_word(K::Status)?;
                Show::BinaryLogStatus
            }
            K::Binary => {
                self.expect_word(K::Logs)?;
                Show::BinaryLogs
            }
            K::Master => match self.eat_any(&[K::Logs, K::Status]) {
                Some(K::Logs) => Show::BinaryLogs,
                Some(_) => Show::BinaryLogStatus,
                None => return Err(self.error()),
            },
            K::Replicas => Show::Replicas,
            K::Slave if self.eat_word(K::Hosts) => Show::Replicas,
            K::Slave | K::Replica => {
                self.expect_word(K::Status)?;
                Show::ReplicaStatus(self.channel()?)
            }
            _ => {
                self.expect_word(K::Events)?;
                let file = if self.eat_word(K::In) { Some(self.text()?) } else { None };
                let position = if self.eat_word(K::From) { Some(self.number()?) } else { None };
                let limit = self.limit()?;
                let relay = word == K::Relaylog;
                let channel = if relay { self.channel()? } else { None };
                Show::LogEvents { relay, file, position, limit, channel }
            }
        };
        Ok(Statement::Show(Box::new(show)))
    }

    pub(super) fn channel(&mut self) -> Result<Option<Box<str>>> {
        if self.eat_words(&[K::For, K::Channel]) { self.text().map(Some) } else { Ok(None) }
    }
}
