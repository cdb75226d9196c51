//! CREATE, PAUSE, RESUME, DROP and STREAM CHANGEFEED.

use super::{Parser, Result};
use crate::ast::{
    ChangefeedAction, ChangefeedCommand, CreateChangefeed, Statement, StreamChangefeed,
};
use crate::keyword::Keyword as K;
use crate::lexer::Kind;

/// The word that these statements have in common; it is no keyword.
const CHANGEFEED: &str = "CHANGEFEED";

impl Parser<'_> {
    /// After CREATE, at CHANGEFEED.
    pub(super) fn create_changefeed(&mut self) -> Result<Statement> {
        self.advance();
        let if_not_exists = self.if_not_exists()?;
        let name = self.ident()?;
        self.expect_words(&[K::For, K::Table])?;
        let tables = self.list(Self::object_name)?;
        let condition = self.eat_word(K::Where).then(|| self.expr()).transpose()?;
        self.expect_word(K::Into)?;
        let target = self.string()?;
        let options = if self.eat_word(K::With) {
            if self.eat(Kind::Open) {
                let options = self.list(Self::backup_option)?;
                self.expect(Kind::Close)?;
                options
            } else {
                self.list(Self::backup_option)?
            }
        } else {
            Vec::new()
        };
        let create = CreateChangefeed { if_not_exists, name, tables, condition, target, options };
        Ok(Statement::CreateChangefeed(Box::new(create)))
    }

    /// Whether the word behind this one is CHANGEFEED.
    pub(super) fn is_changefeed_next(&self) -> bool {
        let next = self.peek();
        next.kind == Kind::Word && self.bytes(next).eq_ignore_ascii_case(CHANGEFEED.as_bytes())
    }

    /// Whether this word is CHANGEFEED.
    pub(super) fn at_changefeed(&self) -> bool {
        self.at_text(CHANGEFEED)
    }

    /// At the word before CHANGEFEED: STREAM, PAUSE or RESUME.
    pub(super) fn changefeed_statement(&mut self) -> Result<Statement> {
        let action = if self.at_text("PAUSE") {
            ChangefeedAction::Pause
        } else if self.at_text("RESUME") {
            ChangefeedAction::Resume
        } else if self.at_text("STREAM") {
            return self.stream_changefeed();
        } else {
            return self.unmodelled_statement();
        };
        self.advance();
        self.advance();
        Ok(Statement::Changefeed(ChangefeedCommand { action, name: self.ident()? }))
    }

    /// After DROP, at CHANGEFEED.
    pub(super) fn drop_changefeed(&mut self) -> Result<Statement> {
        self.advance();
        let action = ChangefeedAction::Drop { if_exists: self.if_exists()? };
        Ok(Statement::Changefeed(ChangefeedCommand { action, name: self.ident()? }))
    }

    /// At STREAM, before CHANGEFEED.
    fn stream_changefeed(&mut self) -> Result<Statement> {
        self.advance();
        self.advance();
        let name = self.ident()?;
        let from = self.eat_word(K::From).then(|| self.string()).transpose()?;
        Ok(Statement::StreamChangefeed(StreamChangefeed { name, from }))
    }
}
