//! SET in all its meanings.

use super::{Parser, Result, lower};
use crate::ast::{
    ColumnRef, Expr, Ident, IsolationLevel, SetItem, SetTransaction, Statement, VariableScope,
    VariableTarget,
};
use crate::keyword::Keyword as K;
use crate::lexer::Kind;

impl Parser<'_> {
    /// At SET.
    pub(super) fn set(&mut self) -> Result<Statement> {
        self.advance();
        let next = self.peek();
        match self.token.keyword {
            K::Password if next.keyword == K::For || next.keyword == K::To => {
                return self.set_password();
            }
            K::Password if matches!(next.kind, Kind::Equal | Kind::Assign) => {
                return self.set_password();
            }
            K::Default if next.keyword == K::Role => return self.set_default_role(),
            K::Role if !matches!(next.kind, Kind::Equal | Kind::Assign | Kind::Dot) => {
                self.advance();
                return self.role_choice(true).map(Statement::SetRole);
            }
            K::Resource if next.keyword == K::Group => {
                return Ok(self.unsupported("SET RESOURCE GROUP"));
            }
            K::Transaction if matches!(next.keyword, K::Isolation | K::Read) => {
                return self.set_transaction(None);
            }
            K::Global | K::Session | K::Local if next.keyword == K::Transaction => {
                if matches!(self.peek_second().keyword, K::Isolation | K::Read) {
                    let scope = self.variable_scope();
                    self.advance();
                    return self.set_transaction(scope);
                }
            }
            _ => {}
        }
        let mut scope = None;
        let items = self.list(|parser| parser.set_item(&mut scope))?;
        Ok(Statement::Set(items))
    }

    /// At TRANSACTION.
    fn set_transaction(&mut self, scope: Option<VariableScope>) -> Result<Statement> {
        self.advance();
        let mut set = SetTransaction { scope, isolation: None, read_only: None };
        loop {
            if self.eat_word(K::Isolation) && set.isolation.is_none() {
                self.expect_word(K::Level)?;
                set.isolation = Some(self.isolation_level()?);
            } else if self.eat_word(K::Read) && set.read_only.is_none() {
                set.read_only = Some(match self.eat_any(&[K::Only, K::Write]) {
                    Some(word) => word == K::Only,
                    None => return Err(self.error()),
                });
            } else {
                return Err(self.error());
            }
            if !self.eat(Kind::Comma) {
                return Ok(Statement::SetTransaction(set));
            }
        }
    }

    fn isolation_level(&mut self) -> Result<IsolationLevel> {
        match self.eat_any(&[K::Read, K::Repeatable, K::Serializable]) {
            Some(K::Read) => match self.eat_any(&[K::Uncommitted, K::Committed]) {
                Some(K::Uncommitted) => Ok(IsolationLevel::ReadUncommitted),
                Some(_) => Ok(IsolationLevel::ReadCommitted),
                None => Err(self.error()),
            },
            Some(K::Repeatable) => {
                self.expect_word(K::Read)?;
                Ok(IsolationLevel::RepeatableRead)
            }
            Some(_) => Ok(IsolationLevel::Serializable),
            None => Err(self.error()),
        }
    }

    /// One assignment. A scope that is said holds for those after it that say none.
    fn set_item(&mut self, scope: &mut Option<VariableScope>) -> Result<SetItem> {
        if self.at(Kind::Variable) {
            let name = self.user_variable()?;
            self.assignment_sign()?;
            return Ok(SetItem::User(name, self.expr()?));
        }
        if self.at(Kind::At) {
            return self.set_system_variable();
        }
        let next = self.peek();
        let assigned = matches!(next.kind, Kind::Equal | Kind::Assign);
        if self.at_word(K::Names) && !assigned {
            return self.set_names();
        }
        if self.eat_charset()? {
            return self.charset_or_default().map(SetItem::Charset);
        }
        if matches!(self.token.keyword, K::New | K::Old) && next.kind == Kind::Dot {
            let row = self.take_lower_ident()?;
            self.advance();
            let column = self.ident_after_dot()?;
            self.assignment_sign()?;
            return Ok(SetItem::TriggerColumn(row, column, self.set_value()?));
        }
        if let Some(said) = self.variable_scope()
            && !assigned
            && next.kind != Kind::Dot
        {
            self.advance();
            *scope = Some(said);
        }
        let target = self.variable_target(*scope, false)?;
        self.assignment_sign()?;
        Ok(SetItem::Variable(target, self.set_value()?))
    }

    /// At `@@`.
    fn set_system_variable(&mut self) -> Result<SetItem> {
        self.advance();
        let mut scope = None;
        if self.peek().kind == Kind::Dot && self.variable_scope().is_some() {
            scope = self.variable_scope();
            self.advance();
            self.advance();
        }
        let target = self.variable_target(scope, true)?;
        self.assignment_sign()?;
        Ok(SetItem::Variable(target, self.set_value()?))
    }

    fn variable_target(
        &mut self,
        scope: Option<VariableScope>,
        system: bool,
    ) -> Result<VariableTarget> {
        // `SET DEFAULT.key_buffer_size` is the default key cache.
        let first = if self.at_word(K::Default) && self.peek().kind == Kind::Dot {
            self.take_lower_ident()?
        } else {
            lower(&self.ident()?)
        };
        let (component, name) =
            if self.eat(Kind::Dot) { (Some(first), self.lower_word()?) } else { (None, first) };
        Ok(VariableTarget { scope, system, component, name })
    }

    fn assignment_sign(&mut self) -> Result<()> {
        if self.eat(Kind::Assign) { Ok(()) } else { self.expect(Kind::Equal) }
    }

    fn set_names(&mut self) -> Result<SetItem> {
        self.advance();
        let charset = self.charset_or_default()?;
        let collation = if self.eat_word(K::Collate) { Some(self.collation_name()?) } else { None };
        Ok(SetItem::Names(charset, collation))
    }

    /// An expression, DEFAULT, or a reserved word that is the name of a value.
    fn set_value(&mut self) -> Result<Expr> {
        let ends = matches!(self.peek().kind, Kind::End | Kind::Semicolon | Kind::Comma);
        match self.token.keyword {
            K::Default if ends => {
                self.advance();
                Ok(Expr::DefaultValue)
            }
            K::On | K::All | K::Binary | K::Row | K::System if ends => {
                let column: Ident = self.take_ident()?;
                Ok(Expr::Column(ColumnRef { table: None, column }))
            }
            _ => self.expr(),
        }
    }
}
