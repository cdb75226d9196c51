//! Transactions, prepared statements, EXPLAIN, KILL, FLUSH, table maintenance.

use super::{Parser, Result};
use crate::ast::{
    Describe, Execute, Explain, ExplainFormat, ExplainTarget, Flush, FlushTarget, Histogram, Kill,
    MaintenanceOperation, Prepare, PrepareSource, PurgeBinaryLogs, ResetPersist, StartTransaction,
    Statement, TableLock, TableLockKind, TableMaintenance, TransactionEnd,
};
use crate::keyword::Keyword as K;
use crate::lexer::Kind;

impl Parser<'_> {
    /// After START, at TRANSACTION.
    pub(super) fn start_transaction(&mut self) -> Result<Statement> {
        self.advance();
        let mut start = StartTransaction::default();
        let mut any = false;
        loop {
            if self.eat_word(K::With) {
                self.expect_words(&[K::Consistent, K::Snapshot])?;
                start.consistent_snapshot = true;
            } else if self.eat_word(K::Read) {
                match self.eat_any(&[K::Only, K::Write]) {
                    Some(word) if start.read_only.is_none() => {
                        start.read_only = Some(word == K::Only);
                    }
                    Some(_) => return Err(self.error_before()),
                    None => return Err(self.error()),
                }
            } else if any {
                return Err(self.error());
            } else {
                break;
            }
            any = true;
            if !self.eat(Kind::Comma) {
                break;
            }
        }
        Ok(Statement::StartTransaction(start))
    }

    /// After COMMIT or ROLLBACK.
    pub(super) fn transaction_end(&mut self) -> Result<TransactionEnd> {
        self.eat_word(K::Work);
        let mut end = TransactionEnd::default();
        if self.eat_word(K::And) {
            end.chain = Some(!self.eat_word(K::No));
            self.expect_word(K::Chain)?;
        }
        if self.eat_word(K::Release) {
            end.release = Some(true);
        } else if self.eat_words(&[K::No, K::Release]) {
            end.release = Some(false);
        }
        match (end.chain, end.release) {
            (Some(true), Some(true)) => Err(self.error_before()),
            _ => Ok(end),
        }
    }

    /// At ROLLBACK.
    pub(super) fn rollback(&mut self) -> Result<Statement> {
        self.advance();
        let to_savepoint =
            self.at_word(K::To) || (self.at_word(K::Work) && self.peek().keyword == K::To);
        if !to_savepoint {
            return self.transaction_end().map(Statement::Rollback);
        }
        self.eat_word(K::Work);
        self.advance();
        if self.at_word(K::Savepoint) && self.is_ident(self.peek()) {
            self.advance();
        }
        self.ident().map(Statement::RollbackToSavepoint)
    }

    /// After LOCK, at TABLES.
    pub(super) fn lock_tables(&mut self) -> Result<Statement> {
        self.advance();
        let tables = self.list(|parser| {
            let table = parser.object_name()?;
            let alias = parser.table_alias()?;
            let kind = match parser.eat_any(&[K::Read, K::Write, K::LowPriority]) {
                Some(K::Read) if parser.eat_word(K::Local) => TableLockKind::ReadLocal,
                Some(K::Read) => TableLockKind::Read,
                Some(K::Write) => TableLockKind::Write,
                Some(_) => {
                    parser.expect_word(K::Write)?;
                    TableLockKind::Write
                }
                None => return Err(parser.error()),
            };
            Ok(TableLock { table, alias, kind })
        })?;
        Ok(Statement::LockTables(tables))
    }

    /// At PREPARE.
    pub(super) fn prepare(&mut self) -> Result<Statement> {
        self.advance();
        let name = self.ident()?;
        self.expect_word(K::From)?;
        let source = if self.at(Kind::Variable) {
            PrepareSource::Variable(self.user_variable()?)
        } else {
            PrepareSource::Text(self.string()?)
        };
        Ok(Statement::Prepare(Prepare { name, source }))
    }

    /// At EXECUTE.
    pub(super) fn execute(&mut self) -> Result<Statement> {
        self.advance();
        let name = self.ident()?;
        let variables =
            if self.eat_word(K::Using) { self.list(Self::user_variable)? } else { Vec::new() };
        Ok(Statement::Execute(Execute { name, variables }))
    }

    /// After DEALLOCATE or DROP, at PREPARE.
    pub(super) fn deallocate(&mut self) -> Result<Statement> {
        self.expect_word(K::Prepare)?;
        self.ident().map(Statement::Deallocate)
    }

    /// At KILL.
    pub(super) fn kill(&mut self) -> Result<Statement> {
        self.advance();
        let follows = !matches!(self.peek().kind, Kind::End | Kind::Semicolon);
        let word = if follows { self.eat_any(&[K::Connection, K::Query]) } else { None };
        Ok(Statement::Kill(Kill { query: word == Some(K::Query), id: self.expr()? }))
    }

    /// At PURGE BINARY.
    pub(super) fn purge(&mut self) -> Result<Statement> {
        self.advance();
        self.advance();
        self.expect_word(K::Logs)?;
        let purge = if self.eat_word(K::To) {
            PurgeBinaryLogs::To(self.text()?)
        } else {
            self.expect_word(K::Before)?;
            PurgeBinaryLogs::Before(self.expr()?)
        };
        Ok(Statement::PurgeBinaryLogs(purge))
    }

    /// At RESET PERSIST.
    pub(super) fn reset_persist(&mut self) -> Result<Statement> {
        self.advance();
        self.expect_word(K::Persist)?;
        let if_exists = self.if_exists()?;
        let ends = matches!(self.token.kind, Kind::End | Kind::Semicolon);
        let variable = if ends && !if_exists { None } else { Some(self.ident()?) };
        Ok(Statement::ResetPersist(ResetPersist { if_exists, variable }))
    }

    /// At EXPLAIN, DESCRIBE or DESC.
    pub(super) fn explain(&mut self) -> Result<Statement> {
        self.advance();
        let analyze = self.eat_word(K::Analyze);
        let mut explain =
            Explain { analyze, format: None, into: None, target: ExplainTarget::Connection(0) };
        if self.at_word(K::Format) && self.peek().kind == Kind::Equal {
            self.advance();
            self.advance();
            explain.format = Some(self.explain_format()?);
        }
        if self.eat_word(K::Into) {
            explain.into = Some(self.user_variable()?);
        }
        if self.eat_words(&[K::For, K::Connection]) {
            explain.target = ExplainTarget::Connection(self.number()?);
            return Ok(Statement::Explain(Box::new(explain)));
        }
        if self.at_explainable() {
            let entered = self.enter()?;
            let statement = self.statement()?;
            self.leave(entered)?;
            explain.target = ExplainTarget::Statement(Box::new(statement));
            return Ok(Statement::Explain(Box::new(explain)));
        }
        if analyze || explain.format.is_some() || explain.into.is_some() {
            return Err(self.error());
        }
        let table = self.object_name()?;
        let column = match self.token.kind {
            Kind::String => Some(self.text()?),
            _ if self.at_ident() => Some(self.ident()?.as_str().into()),
            _ => None,
        };
        Ok(Statement::Describe(Describe { table, column }))
    }

    fn at_explainable(&self) -> bool {
        matches!(self.token.keyword, K::Insert | K::Replace | K::Update | K::Delete)
            || self.at_query_or_parenthesis()
    }

    fn explain_format(&mut self) -> Result<ExplainFormat> {
        let name = self.ident_or_text()?;
        match name.as_str().to_ascii_lowercase().as_str() {
            "traditional" => Ok(ExplainFormat::Traditional),
            "json" => Ok(ExplainFormat::Json),
            "tree" => Ok(ExplainFormat::Tree),
            _ => Err(crate::ParseError::unknown_explain_format(name.as_str())),
        }
    }

    /// At FLUSH.
    pub(super) fn flush(&mut self) -> Result<Statement> {
        self.advance();
        let local = self.eat_any(&[K::NoWriteToBinlog, K::Local]).is_some();
        if self.eat_any(&[K::Tables, K::Table]).is_some() {
            let mut tables = Vec::new();
            if self.at_ident() || self.at(Kind::Dot) {
                tables = self.list(Self::object_name)?;
            }
            let read_lock = self.eat_words(&[K::With, K::Read, K::Lock]);
            let export = !tables.is_empty() && self.eat_words(&[K::For, K::Export]);
            let what = FlushTarget::Tables { tables, read_lock, export };
            return Ok(Statement::Flush(Flush { local, what }));
        }
        let options = self.list(Self::flush_option)?;
        Ok(Statement::Flush(Flush { local, what: FlushTarget::Options(options) }))
    }

    fn flush_option(&mut self) -> Result<Box<str>> {
        const LOGS: &[K] = &[K::Binary, K::Engine, K::Error, K::General, K::Relay, K::Slow];
        const PLAIN: &[K] =
            &[K::Hosts, K::Logs, K::OptimizerCosts, K::Privileges, K::Status, K::UserResources];
        if let Some(word) = self.eat_any(LOGS) {
            self.expect_word(K::Logs)?;
            let mut text = format!("{} LOGS", word.text());
            if word == K::Relay && self.eat_words(&[K::For, K::Channel]) {
                text.push_str(&format!(" FOR CHANNEL {}", self.ident_or_text()?));
            }
            return Ok(text.into());
        }
        match self.eat_any(PLAIN) {
            Some(word) => Ok(word.text().into()),
            None => Err(self.error()),
        }
    }

    /// At ANALYZE, CHECK, CHECKSUM, OPTIMIZE or REPAIR.
    pub(super) fn table_maintenance(&mut self) -> Result<Statement> {
        use MaintenanceOperation::{Analyze, Check, Checksum, Optimize, Repair};
        let operation = match self.token.keyword {
            K::Analyze => Analyze,
            K::Check => Check,
            K::Checksum => Checksum,
            K::Optimize => Optimize,
            K::Repair => Repair,
            _ => return Err(self.error()),
        };
        self.advance();
        let local = matches!(operation, Analyze | Optimize | Repair)
            && self.eat_any(&[K::NoWriteToBinlog, K::Local]).is_some();
        if self.eat_any(&[K::Table, K::Tables]).is_none() {
            return Err(self.error());
        }
        let tables = self.list(Self::object_name)?;
        let mut maintenance =
            TableMaintenance { operation, local, tables, options: Vec::new(), histogram: None };
        let words: &[K] = match operation {
            Check => &[K::Quick, K::Fast, K::Medium, K::Extended, K::Changed],
            Checksum => &[K::Quick, K::Extended],
            Repair => &[K::Quick, K::Extended, K::UseFrm],
            Analyze | Optimize => &[],
        };
        loop {
            if let Some(word) = self.eat_any(words) {
                maintenance.options.push(word.text().into());
            } else if operation == Check && self.eat_words(&[K::For, K::Upgrade]) {
                maintenance.options.push("FOR UPGRADE".into());
            } else {
                break;
            }
        }
        if operation == Analyze {
            maintenance.histogram = self.histogram()?;
        }
        Ok(Statement::TableMaintenance(maintenance))
    }

    fn histogram(&mut self) -> Result<Option<Histogram>> {
        let Some(word) = self.eat_any(&[K::Update, K::Drop]) else { return Ok(None) };
        self.expect_words(&[K::Histogram, K::On])?;
        let columns = self.list(Self::ident)?;
        let (mut buckets, mut data) = (None, None);
        if word == K::Update {
            if self.eat_word(K::With) {
                buckets = Some(self.number()?);
                self.expect_word(K::Buckets)?;
            } else if self.eat_words(&[K::Using, K::Data]) {
                data = Some(self.text()?);
            }
        }
        Ok(Some(Histogram { drop: word == K::Drop, columns, buckets, data }))
    }
}
