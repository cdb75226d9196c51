//! Triggers, procedures, functions and events: their heads, and their bodies as text.
//!
//! A body is the rest of the text: with several statements in one text, a routine is the last.

use super::schema::ViewPrefix;
use super::{Parser, Result};
use crate::ast::{CreateEvent, CreateRoutine, CreateTrigger, DropRoutine, Statement, TriggerEvent};
use crate::keyword::Keyword as K;
use crate::lexer::Kind;

impl Parser<'_> {
    /// After `CREATE [DEFINER = …]`, at TRIGGER.
    pub(super) fn create_trigger(&mut self, prefix: ViewPrefix) -> Result<Statement> {
        self.advance();
        let if_not_exists = self.if_not_exists()?;
        let name = self.object_name()?;
        let after = match self.eat_any(&[K::Before, K::After]) {
            Some(word) => word == K::After,
            None => return Err(self.error()),
        };
        let event = match self.eat_any(&[K::Insert, K::Update, K::Delete]) {
            Some(K::Insert) => TriggerEvent::Insert,
            Some(K::Update) => TriggerEvent::Update,
            Some(_) => TriggerEvent::Delete,
            None => return Err(self.error()),
        };
        self.expect_word(K::On)?;
        let table = self.object_name()?;
        self.expect_words(&[K::For, K::Each, K::Row])?;
        let order = match self.eat_any(&[K::Follows, K::Precedes]) {
            Some(word) => Some((word == K::Follows, self.ident_or_text()?)),
            None => None,
        };
        let body = self.body()?;
        let definer = prefix.definer;
        Ok(Statement::CreateTrigger(Box::new(CreateTrigger {
            definer,
            if_not_exists,
            name,
            after,
            event,
            table,
            order,
            body,
        })))
    }

    /// After `CREATE [DEFINER = …]`, at PROCEDURE or FUNCTION.
    pub(super) fn create_routine(&mut self, prefix: ViewPrefix) -> Result<Statement> {
        let function = self.at_word(K::Function);
        self.advance();
        let if_not_exists = self.if_not_exists()?;
        let name = self.object_name()?;
        if function && self.at_word(K::Returns) {
            return Ok(self.unsupported("CREATE FUNCTION ... SONAME"));
        }
        if !self.at(Kind::Open) {
            return Err(self.error());
        }
        let body = self.body()?;
        let definer = prefix.definer;
        let routine = CreateRoutine { function, definer, if_not_exists, name, body };
        Ok(Statement::CreateRoutine(Box::new(routine)))
    }

    /// After `CREATE [DEFINER = …]`, at EVENT.
    pub(super) fn create_event(&mut self, prefix: ViewPrefix) -> Result<Statement> {
        self.advance();
        let if_not_exists = self.if_not_exists()?;
        let name = self.object_name()?;
        if !self.at_word(K::On) {
            return Err(self.error());
        }
        let body = self.body()?;
        let definer = prefix.definer;
        Ok(Statement::CreateEvent(Box::new(CreateEvent { definer, if_not_exists, name, body })))
    }

    fn body(&mut self) -> Result<Box<str>> {
        if self.at(Kind::End) || self.at(Kind::Semicolon) {
            Err(self.error())
        } else {
            Ok(self.rest_of_text())
        }
    }

    /// After DROP, at PROCEDURE or FUNCTION.
    pub(super) fn drop_routine(&mut self) -> Result<Statement> {
        let function = self.at_word(K::Function);
        self.advance();
        let if_exists = self.if_exists()?;
        let name = self.object_name()?;
        Ok(Statement::DropRoutine(DropRoutine { function, if_exists, name }))
    }
}
