//! CREATE TABLE: columns, constraints, options.

use super::{Parser, Result};
use crate::ast::{
    CheckConstraint, ColumnAttributes, ColumnDefault, ColumnDefinition, CreateSelect, CreateTable,
    DropTable, ForeignKey, ForeignKeyMatch, GeneratedColumn, Ident, IndexDefinition, IndexKind,
    IndexOptions, References, ReferentialAction, Statement, TableBody, TableConstraint,
    TableDefinition, TableOption,
};
use crate::keyword::Keyword as K;
use crate::lexer::Kind;

impl Parser<'_> {
    /// After CREATE, at TABLE or TEMPORARY.
    pub(super) fn create_table(&mut self) -> Result<Statement> {
        let temporary = self.eat_word(K::Temporary);
        self.expect_word(K::Table)?;
        let if_not_exists = self.if_not_exists()?;
        let name = self.object_name()?;
        let definition = self.table_definition()?;
        let table = CreateTable { temporary, if_not_exists, name, definition };
        Ok(Statement::CreateTable(Box::new(table)))
    }

    fn table_definition(&mut self) -> Result<TableDefinition> {
        if self.eat_word(K::Like) {
            return Ok(TableDefinition::Like(self.object_name()?));
        }
        if self.at(Kind::Open) && self.peek().keyword == K::Like {
            self.advance();
            self.advance();
            let name = self.object_name()?;
            self.expect(Kind::Close)?;
            return Ok(TableDefinition::Like(name));
        }
        let mut body = TableBody::default();
        let has_elements = self.at(Kind::Open) && !self.at_query_or_parenthesis();
        if has_elements {
            self.advance();
            self.list(|parser| parser.table_element(&mut body))?;
            self.expect(Kind::Close)?;
        }
        self.table_options(&mut body.options)?;
        if self.at_word(K::Partition) {
            body.partitioning = Some(Box::new(self.partitioning()?));
        }
        let duplicates = self.duplicates();
        let said = self.eat_word(K::As);
        if self.at_query_or_parenthesis() {
            body.query = Some(CreateSelect { duplicates, query: Box::new(self.query()?) });
        } else if said || duplicates.is_some() || !has_elements {
            return Err(self.error());
        }
        Ok(TableDefinition::Columns(Box::new(body)))
    }

    fn table_element(&mut self, body: &mut TableBody) -> Result<()> {
        if self.at_table_constraint() {
            body.constraints.push(self.table_constraint()?)
        } else {
            body.columns.push(self.column_definition()?)
        }
        Ok(())
    }

    /// Whether a key, foreign key or check begins here rather than a column.
    pub(super) fn at_table_constraint(&self) -> bool {
        matches!(
            self.token.keyword,
            K::Primary
                | K::Unique
                | K::Key
                | K::Index
                | K::Fulltext
                | K::Spatial
                | K::Foreign
                | K::Check
                | K::Constraint
        )
    }

    pub(super) fn column_definition(&mut self) -> Result<ColumnDefinition> {
        let name = self.ident()?;
        self.column_definition_after(name)
    }

    /// The type and attributes of a column whose name was read.
    pub(super) fn column_definition_after(&mut self, name: Ident) -> Result<ColumnDefinition> {
        let data_type = self.data_type()?;
        let mut attributes = ColumnAttributes::default();
        // COLLATE may stand between the type and GENERATED.
        if self.eat_word(K::Collate) {
            attributes.collation = Some(self.collation_name()?);
        }
        if self.at_word(K::Generated) || self.at_word(K::As) {
            if self.eat_word(K::Generated) {
                self.expect_word(K::Always)?;
            }
            self.expect_word(K::As)?;
            let expr = self.parenthesised_expr()?;
            let stored = match self.eat_any(&[K::Stored, K::Virtual]) {
                Some(word) => word == K::Stored,
                None => false,
            };
            attributes.generated = Some(GeneratedColumn { expr, stored });
        }
        while self.column_attribute(&mut attributes)? {}
        if self.at_word(K::References) {
            attributes.references = Some(Box::new(self.references()?));
        }
        Ok(ColumnDefinition { name, data_type, attributes })
    }

    /// `(expression)`.
    pub(super) fn parenthesised_expr(&mut self) -> Result<crate::ast::Expr> {
        self.expect(Kind::Open)?;
        let expr = self.expr()?;
        self.expect(Kind::Close)?;
        Ok(expr)
    }

    /// One attribute of a column; false where there is no more.
    fn column_attribute(&mut self, attributes: &mut ColumnAttributes) -> Result<bool> {
        match self.token.keyword {
            K::Null => {
                self.advance();
                attributes.nullable = Some(true);
            }
            K::Not => {
                self.advance();
                match self.eat_any(&[K::Null, K::Secondary]) {
                    Some(K::Null) => attributes.nullable = Some(false),
                    Some(_) => attributes.not_secondary = true,
                    None => return Err(self.error()),
                }
            }
            K::Default => {
                self.advance();
                attributes.default = Some(self.column_default()?);
            }
            K::On => {
                self.advance();
                self.expect_word(K::Update)?;
                attributes.on_update = Some(self.current_timestamp()?);
            }
            K::AutoIncrement => {
                self.advance();
                attributes.auto_increment = true;
            }
            K::Serial => {
                self.advance();
                self.expect_words(&[K::Default, K::Value])?;
                attributes.auto_increment = true;
                attributes.nullable = Some(false);
                attributes.unique = true;
            }
            K::Primary => {
                self.advance();
                self.expect_word(K::Key)?;
                attributes.primary_key = true;
            }
            K::Key => {
                self.advance();
                attributes.primary_key = true;
            }
            K::Unique => {
                self.advance();
                self.eat_word(K::Key);
                attributes.unique = true;
            }
            K::Comment => {
                self.advance();
                attributes.comment = Some(self.text()?);
            }
            K::Collate => {
                self.advance();
                attributes.collation = Some(self.collation_name()?);
            }
            K::Visible | K::Invisible => {
                attributes.visible = Some(self.at_word(K::Visible));
                self.advance();
            }
            K::Check | K::Constraint => {
                let check = self.column_check()?;
                attributes.checks.push(check);
            }
            _ => return self.rare_column_attribute(attributes),
        }
        Ok(true)
    }

    fn rare_column_attribute(&mut self, attributes: &mut ColumnAttributes) -> Result<bool> {
        match self.token.keyword {
            K::ColumnFormat => {
                self.advance();
                attributes.column_format =
                    Some(self.one_of(&[K::Default, K::Fixed, K::Dynamic])?);
            }
            K::Storage => {
                self.advance();
                attributes.storage = Some(self.one_of(&[K::Default, K::Disk, K::Memory])?);
            }
            K::Srid => {
                self.advance();
                attributes.srid = Some(self.length()?);
            }
            K::EngineAttribute => {
                self.advance();
                self.eat(Kind::Equal);
                attributes.engine_attribute = Some(self.text()?);
            }
            K::SecondaryEngineAttribute => {
                self.advance();
                self.eat(Kind::Equal);
                attributes.secondary_engine_attribute = Some(self.text()?);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// One of these words, as text in lower case.
    pub(super) fn one_of(&mut self, words: &[K]) -> Result<Box<str>> {
        match self.eat_any(words) {
            Some(word) => Ok(word.text().to_ascii_lowercase().into()),
            None => Err(self.error()),
        }
    }

    pub(super) fn column_default(&mut self) -> Result<ColumnDefault> {
        if self.at(Kind::Open) {
            return self.parenthesised_expr().map(ColumnDefault::Expr);
        }
        if self.at_current_timestamp() {
            return self.current_timestamp().map(ColumnDefault::CurrentTimestamp);
        }
        // MariaDB shows calls without parentheses around them: `DEFAULT uuid()`.
        if self.at(Kind::Word) && self.next_is(Kind::Open, b'(') {
            return self.primary().map(ColumnDefault::Expr);
        }
        self.signed_literal().map(ColumnDefault::Literal)
    }

    fn at_current_timestamp(&self) -> bool {
        match self.token.keyword {
            K::CurrentTimestamp | K::Localtime | K::Localtimestamp => true,
            K::Now => self.calls(self.token),
            _ => false,
        }
    }

    /// CURRENT_TIMESTAMP or a synonym, with its fractional digits.
    fn current_timestamp(&mut self) -> Result<u32> {
        if !self.at_current_timestamp() {
            return Err(self.error());
        }
        let needs_parentheses = self.at_word(K::Now);
        self.advance();
        if !needs_parentheses && !self.at(Kind::Open) {
            return Ok(0);
        }
        self.expect(Kind::Open)?;
        let digits = if self.at(Kind::Close) { 0 } else { self.length()? };
        self.expect(Kind::Close)?;
        Ok(digits)
    }

    fn column_check(&mut self) -> Result<CheckConstraint> {
        let mut name = None;
        if self.eat_word(K::Constraint) && !self.at_word(K::Check) {
            name = Some(self.ident()?);
        }
        self.check_constraint(name)
    }

    /// At CHECK.
    fn check_constraint(&mut self, name: Option<Ident>) -> Result<CheckConstraint> {
        self.expect_word(K::Check)?;
        let expr = self.parenthesised_expr()?;
        Ok(CheckConstraint { name, expr, enforced: self.enforced().unwrap_or(true) })
    }

    /// \[NOT\] ENFORCED, if it is next.
    pub(super) fn enforced(&mut self) -> Option<bool> {
        if self.eat_word(K::Enforced) {
            return Some(true);
        }
        self.eat_words(&[K::Not, K::Enforced]).then_some(false)
    }

    /// A key, foreign key or check.
    pub(super) fn table_constraint(&mut self) -> Result<TableConstraint> {
        let (mut name, mut named) = (None, false);
        if self.eat_word(K::Constraint) {
            named = true;
            if self.at_ident() {
                name = Some(self.ident()?);
            }
        }
        match self.token.keyword {
            K::Check => self.check_constraint(name).map(TableConstraint::Check),
            K::Foreign => self.foreign_key(name),
            K::Primary => {
                self.advance();
                self.expect_word(K::Key)?;
                self.table_index(IndexKind::Primary, name)
            }
            K::Unique => {
                self.advance();
                self.eat_any(&[K::Key, K::Index]);
                self.table_index(IndexKind::Unique, name)
            }
            K::Key | K::Index if !named => {
                self.advance();
                self.table_index(IndexKind::Plain, None)
            }
            K::Fulltext | K::Spatial if !named => {
                let is_fulltext = self.at_word(K::Fulltext);
                self.advance();
                self.eat_any(&[K::Key, K::Index]);
                let kind = if is_fulltext { IndexKind::Fulltext } else { IndexKind::Spatial };
                self.table_index(kind, None)
            }
            _ => Err(self.error()),
        }
    }

    fn table_index(
        &mut self,
        kind: IndexKind,
        constraint: Option<Ident>,
    ) -> Result<TableConstraint> {
        let own = if self.at_ident() { Some(self.ident()?) } else { None };
        let mut options = IndexOptions { method: self.index_method()?, ..IndexOptions::default() };
        let parts = self.index_parts()?;
        self.index_options(&mut options)?;
        let name = own.or(constraint);
        Ok(TableConstraint::Index(IndexDefinition { kind, name, parts, options }))
    }

    fn foreign_key(&mut self, constraint: Option<Ident>) -> Result<TableConstraint> {
        self.advance();
        self.expect_word(K::Key)?;
        let index = if self.at_ident() { Some(self.ident()?) } else { None };
        let columns = self.ident_list()?;
        let references = self.references()?;
        let key = ForeignKey { constraint, index, columns, references };
        Ok(TableConstraint::ForeignKey(Box::new(key)))
    }

    fn references(&mut self) -> Result<References> {
        self.expect_word(K::References)?;
        let table = self.object_name()?;
        let columns = self.optional_ident_list()?;
        let matching = if self.eat_word(K::Match) {
            match self.eat_any(&[K::Full, K::Partial, K::Simple]) {
                Some(K::Full) => Some(ForeignKeyMatch::Full),
                Some(K::Partial) => Some(ForeignKeyMatch::Partial),
                Some(_) => Some(ForeignKeyMatch::Simple),
                None => return Err(self.error()),
            }
        } else {
            None
        };
        let (mut on_delete, mut on_update) = (None, None);
        while self.at_word(K::On) {
            self.advance();
            let slot = match self.eat_any(&[K::Delete, K::Update]) {
                Some(K::Delete) => &mut on_delete,
                Some(_) => &mut on_update,
                None => return Err(self.error()),
            };
            if slot.is_some() {
                return Err(self.error_before());
            }
            *slot = Some(self.referential_action()?);
        }
        Ok(References { table, columns, matching, on_delete, on_update })
    }

    fn referential_action(&mut self) -> Result<ReferentialAction> {
        match self.eat_any(&[K::Restrict, K::Cascade, K::Set, K::No]) {
            Some(K::Restrict) => Ok(ReferentialAction::Restrict),
            Some(K::Cascade) => Ok(ReferentialAction::Cascade),
            Some(K::Set) => match self.eat_any(&[K::Null, K::Default]) {
                Some(K::Null) => Ok(ReferentialAction::SetNull),
                Some(_) => Ok(ReferentialAction::SetDefault),
                None => Err(self.error()),
            },
            Some(_) => {
                self.expect_word(K::Action)?;
                Ok(ReferentialAction::NoAction)
            }
            None => Err(self.error()),
        }
    }

    /// Options of a table, between which commas may stand.
    fn table_options(&mut self, options: &mut Vec<TableOption>) -> Result<()> {
        while let Some(option) = self.table_option()? {
            options.push(option);
            let comma = self.eat(Kind::Comma);
            if comma && !self.at_table_option() {
                return Err(self.error());
            }
        }
        Ok(())
    }

    /// Options that MariaDB shows and that MySQL has not, each with a number: they are of engines
    /// that are not here.
    fn mariadb_option(&self) -> Option<&'static str> {
        ["page_checksum", "transactional"].into_iter().find(|name| self.at_text(name))
    }

    /// Whether the word in hand begins an option of a table.
    pub(super) fn at_table_option(&self) -> bool {
        self.mariadb_option().is_some()
            || matches!(
                self.token.keyword,
                K::AutoIncrement
                    | K::AutoextendSize
                    | K::AvgRowLength
                    | K::Char
                    | K::Character
                    | K::Charset
                    | K::Checksum
                    | K::Collate
                    | K::Comment
                    | K::Compression
                    | K::Connection
                    | K::Data
                    | K::Default
                    | K::DelayKeyWrite
                    | K::Encryption
                    | K::Engine
                    | K::EngineAttribute
                    | K::Index
                    | K::InsertMethod
                    | K::KeyBlockSize
                    | K::MaxRows
                    | K::MinRows
                    | K::Nodegroup
                    | K::PackKeys
                    | K::Password
                    | K::RowFormat
                    | K::SecondaryEngine
                    | K::SecondaryEngineAttribute
                    | K::StatsAutoRecalc
                    | K::StatsPersistent
                    | K::StatsSamplePages
                    | K::Storage
                    | K::TableChecksum
                    | K::Tablespace
                    | K::Union
            )
    }

    /// An option of a table, if one is next.
    pub(super) fn table_option(&mut self) -> Result<Option<TableOption>> {
        if self.at_word(K::Default) {
            let next = self.peek().keyword;
            if !matches!(next, K::Charset | K::Character | K::Char | K::Collate) {
                return Ok(None);
            }
            self.advance();
        }
        if self.eat_charset()? {
            self.eat(Kind::Equal);
            return Ok(Some(TableOption::Charset(self.charset_or_default()?)));
        }
        let word = self.token.keyword;
        let option = match word {
            K::Collate => {
                self.option_word();
                TableOption::Collate(self.collation_name()?)
            }
            K::Engine => {
                self.option_word();
                TableOption::Engine(self.ident_or_text()?)
            }
            K::SecondaryEngine => {
                self.option_word();
                let none = self.eat_word(K::Null);
                TableOption::SecondaryEngine(if none { None } else { Some(self.ident_or_text()?) })
            }
            K::AutoIncrement => {
                self.option_word();
                TableOption::AutoIncrement(self.number()?)
            }
            K::Comment => {
                self.option_word();
                TableOption::Comment(self.text()?)
            }
            K::RowFormat => {
                self.option_word();
                const FORMATS: &[K] =
                    &[K::Default, K::Fixed, K::Dynamic, K::Compressed, K::Redundant, K::Compact];
                TableOption::RowFormat(self.one_of(FORMATS)?)
            }
            K::Union => {
                self.option_word();
                self.expect(Kind::Open)?;
                let empty = self.at(Kind::Close);
                let tables = if empty { Vec::new() } else { self.list(Self::object_name)? };
                self.expect(Kind::Close)?;
                TableOption::Union(tables)
            }
            K::Tablespace => {
                self.option_word();
                TableOption::Tablespace(self.ident()?)
            }
            K::Storage => {
                self.option_word();
                TableOption::Storage(self.one_of(&[K::Disk, K::Memory])?)
            }
            _ => return self.plain_table_option(word),
        };
        Ok(Some(option))
    }

    /// Consumes an option's word and the `=` that may follow.
    fn option_word(&mut self) {
        self.advance();
        self.eat(Kind::Equal);
    }

    /// An option that is kept as a number or a text.
    fn plain_table_option(&mut self, word: K) -> Result<Option<TableOption>> {
        let mut name = word.text().to_ascii_lowercase();
        match word {
            K::MaxRows
            | K::MinRows
            | K::AvgRowLength
            | K::KeyBlockSize
            | K::Checksum
            | K::TableChecksum
            | K::DelayKeyWrite
            | K::PackKeys
            | K::StatsAutoRecalc
            | K::StatsPersistent
            | K::StatsSamplePages
            | K::AutoextendSize
            | K::Nodegroup => {
                self.option_word();
                let value = if self.eat_word(K::Default) {
                    None
                } else if word == K::AutoextendSize {
                    Some(self.size()?)
                } else {
                    Some(self.number()?)
                };
                Ok(Some(TableOption::Number { name: name.into(), value }))
            }
            K::InsertMethod => {
                self.option_word();
                let value = if self.at_text("FIRST") || self.at_text("LAST") || self.at_text("NO") {
                    self.take_lower_ident()?
                } else {
                    return Err(self.error());
                };
                let value = value.as_str().into();
                Ok(Some(TableOption::Text { name: name.into(), value }))
            }
            K::Connection
            | K::Password
            | K::Compression
            | K::Encryption
            | K::EngineAttribute
            | K::SecondaryEngineAttribute => {
                self.option_word();
                Ok(Some(TableOption::Text { name: name.into(), value: self.text()? }))
            }
            K::Data | K::Index if self.peek().keyword == K::Directory => {
                self.advance();
                self.option_word();
                name.push_str(" directory");
                Ok(Some(TableOption::Text { name: name.into(), value: self.text()? }))
            }
            _ => match self.mariadb_option() {
                Some(name) => {
                    self.option_word();
                    let value = Some(self.number()?);
                    Ok(Some(TableOption::Number { name: name.into(), value }))
                }
                None => Ok(None),
            },
        }
    }

    /// A number, or a name like `4M`.
    fn size(&mut self) -> Result<u64> {
        if let Some(number) = self.number_in_hand() {
            self.advance();
            return Ok(number);
        }
        let text = self.bytes(self.token);
        let (digits, unit) = text.split_at(text.len().saturating_sub(1));
        let shift = match unit {
            b"k" | b"K" => 10,
            b"m" | b"M" => 20,
            b"g" | b"G" => 30,
            _ => return Err(self.error()),
        };
        let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
        let number = is_number.then(|| super::parse_integer(digits)).flatten();
        match number.filter(|number| *number < 1 << 30) {
            Some(number) => {
                self.advance();
                Ok(number << shift)
            }
            None => Err(self.error()),
        }
    }

    /// After DROP, at TABLE or TEMPORARY.
    pub(super) fn drop_table(&mut self) -> Result<Statement> {
        let temporary = self.eat_word(K::Temporary);
        if self.eat_any(&[K::Table, K::Tables]).is_none() {
            return Err(self.error());
        }
        let if_exists = self.if_exists()?;
        let tables = self.list(Self::object_name)?;
        self.eat_any(&[K::Restrict, K::Cascade]);
        Ok(Statement::DropTable(DropTable { temporary, if_exists, tables }))
    }
}
