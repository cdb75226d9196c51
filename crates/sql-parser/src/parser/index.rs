//! Indexes: their parts and options, CREATE INDEX and DROP INDEX.

use super::{Parser, Result};
use crate::ast::{
    AlterAlgorithm, AlterLock, CreateIndex, DropIndex, IndexDefinition, IndexKind, IndexMethod,
    IndexOptions, IndexPart, IndexTarget, Statement,
};
use crate::keyword::Keyword as K;
use crate::lexer::Kind;

impl Parser<'_> {
    /// After CREATE, at the words before INDEX.
    pub(super) fn create_index(&mut self) -> Result<Statement> {
        let kind = match self.eat_any(&[K::Unique, K::Fulltext, K::Spatial]) {
            Some(K::Unique) => IndexKind::Unique,
            Some(K::Fulltext) => IndexKind::Fulltext,
            Some(_) => IndexKind::Spatial,
            None => IndexKind::Plain,
        };
        self.expect_word(K::Index)?;
        let name = Some(self.ident()?);
        let mut options = IndexOptions { method: self.index_method()?, ..IndexOptions::default() };
        self.expect_word(K::On)?;
        let table = self.object_name()?;
        let parts = self.index_parts()?;
        self.index_options(&mut options)?;
        let (algorithm, lock) = self.algorithm_and_lock()?;
        let index = IndexDefinition { kind, name, parts, options };
        Ok(Statement::CreateIndex(Box::new(CreateIndex { table, index, algorithm, lock })))
    }

    /// After DROP, at INDEX.
    pub(super) fn drop_index(&mut self) -> Result<Statement> {
        self.advance();
        let name = if self.at_word(K::Primary) { self.take_ident()? } else { self.ident()? };
        self.expect_word(K::On)?;
        let table = self.object_name()?;
        let (algorithm, lock) = self.algorithm_and_lock()?;
        Ok(Statement::DropIndex(DropIndex { name, table, algorithm, lock }))
    }

    fn algorithm_and_lock(&mut self) -> Result<(Option<AlterAlgorithm>, Option<AlterLock>)> {
        let (mut algorithm, mut lock) = (None, None);
        loop {
            if let Some(found) = self.alter_algorithm()? {
                algorithm = Some(found);
            } else if let Some(found) = self.alter_lock()? {
                lock = Some(found);
            } else {
                return Ok((algorithm, lock));
            }
        }
    }

    /// `ALGORITHM = …`, if it is next.
    pub(super) fn alter_algorithm(&mut self) -> Result<Option<AlterAlgorithm>> {
        if !self.eat_word(K::Algorithm) {
            return Ok(None);
        }
        self.eat(Kind::Equal);
        let algorithm = if self.eat_word(K::Default) {
            AlterAlgorithm::Default
        } else if self.eat_text("INSTANT") {
            AlterAlgorithm::Instant
        } else if self.eat_text("INPLACE") {
            AlterAlgorithm::Inplace
        } else if self.eat_text("COPY") {
            AlterAlgorithm::Copy
        } else {
            return Err(self.error());
        };
        Ok(Some(algorithm))
    }

    /// `LOCK = …`, if it is next.
    pub(super) fn alter_lock(&mut self) -> Result<Option<AlterLock>> {
        if !self.eat_word(K::Lock) {
            return Ok(None);
        }
        self.eat(Kind::Equal);
        let lock = if self.eat_word(K::Default) {
            AlterLock::Default
        } else if self.eat_word(K::NoneWord) {
            AlterLock::None
        } else if self.eat_text("SHARED") {
            AlterLock::Shared
        } else if self.eat_text("EXCLUSIVE") {
            AlterLock::Exclusive
        } else {
            return Err(self.error());
        };
        Ok(Some(lock))
    }

    /// `(part, …)`.
    pub(super) fn index_parts(&mut self) -> Result<Vec<IndexPart>> {
        self.parenthesised_list(|parser| {
            let target = if parser.eat(Kind::Open) {
                let expr = parser.expr()?;
                parser.expect(Kind::Close)?;
                IndexTarget::Expr(expr)
            } else {
                let column = parser.ident()?;
                IndexTarget::Column(column, parser.optional_length()?)
            };
            Ok(IndexPart { target, descending: parser.descending() })
        })
    }

    /// USING or TYPE, if it is next.
    pub(super) fn index_method(&mut self) -> Result<Option<IndexMethod>> {
        if self.eat_any(&[K::Using, K::Type]).is_none() {
            return Ok(None);
        }
        match self.eat_any(&[K::Btree, K::Hash, K::Rtree]) {
            Some(K::Btree) => Ok(Some(IndexMethod::Btree)),
            Some(K::Hash) => Ok(Some(IndexMethod::Hash)),
            Some(_) => Ok(Some(IndexMethod::Rtree)),
            None => Err(self.error()),
        }
    }

    pub(super) fn index_options(&mut self, options: &mut IndexOptions) -> Result<()> {
        loop {
            match self.token.keyword {
                K::Using | K::Type => options.method = self.index_method()?,
                K::KeyBlockSize => {
                    self.advance();
                    self.eat(Kind::Equal);
                    options.key_block_size = Some(self.number()?);
                }
                K::Comment => {
                    self.advance();
                    options.comment = Some(self.text()?);
                }
                K::With => {
                    self.advance();
                    self.expect_word(K::Parser)?;
                    options.parser = Some(self.ident()?);
                }
                K::Visible | K::Invisible => {
                    options.visible = Some(self.at_word(K::Visible));
                    self.advance();
                }
                K::EngineAttribute => {
                    self.advance();
                    self.eat(Kind::Equal);
                    options.engine_attribute = Some(self.text()?);
                }
                K::SecondaryEngineAttribute => {
                    self.advance();
                    self.eat(Kind::Equal);
                    options.secondary_engine_attribute = Some(self.text()?);
                }
                _ => return Ok(()),
            }
        }
    }
}
