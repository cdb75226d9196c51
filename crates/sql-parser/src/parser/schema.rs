//! Databases and views.

use super::{Parser, Result};
use crate::ast::{
    Account, AlterDatabase, CheckOption, CreateDatabase, CreateView, DatabaseOption, DropDatabase,
    DropObject, DropView, Statement, ViewAlgorithm,
};
use crate::keyword::Keyword as K;
use crate::lexer::Kind;

/// The words between CREATE and VIEW.
#[derive(Default)]
pub(super) struct ViewPrefix {
    pub(super) or_replace: bool,
    pub(super) algorithm: Option<ViewAlgorithm>,
    pub(super) definer: Option<Account>,
    pub(super) invoker: Option<bool>,
}

impl Parser<'_> {
    /// After CREATE, at DATABASE or SCHEMA.
    pub(super) fn create_database(&mut self) -> Result<Statement> {
        self.advance();
        let if_not_exists = self.if_not_exists()?;
        let name = self.ident()?;
        let options = self.database_options()?;
        Ok(Statement::CreateDatabase(CreateDatabase { if_not_exists, name, options }))
    }

    /// After ALTER, at DATABASE or SCHEMA.
    pub(super) fn alter_database(&mut self) -> Result<Statement> {
        self.advance();
        // An option may follow at once; its words are no reserved ones, but a name comes first.
        let has_name = self.at_ident() && !self.at_database_option();
        let name = if has_name { Some(self.ident()?) } else { None };
        let options = self.database_options()?;
        if options.is_empty() {
            Err(self.error())
        } else {
            Ok(Statement::AlterDatabase(AlterDatabase { name, options }))
        }
    }

    fn at_database_option(&self) -> bool {
        let next = self.peek();
        match self.token.keyword {
            K::Charset | K::Encryption => {
                !matches!(next.keyword, K::Charset | K::Character | K::Collate | K::Default)
            }
            _ => false,
        }
    }

    fn database_options(&mut self) -> Result<Vec<DatabaseOption>> {
        let mut options = Vec::new();
        loop {
            let said_default = self.eat_word(K::Default);
            if self.eat_charset()? {
                self.eat(Kind::Equal);
                options.push(DatabaseOption::Charset(self.charset_or_default()?));
            } else if self.eat_word(K::Collate) {
                self.eat(Kind::Equal);
                options.push(DatabaseOption::Collate(self.collation_name()?));
            } else if self.eat_word(K::Encryption) {
                self.eat(Kind::Equal);
                options.push(DatabaseOption::Encryption(self.text()?));
            } else if !said_default && self.eat_word(K::Read) {
                self.expect_word(K::Only)?;
                self.eat(Kind::Equal);
                let value = if self.eat_word(K::Default) {
                    None
                } else {
                    match self.number()? {
                        number @ (0 | 1) => Some(number == 1),
                        _ => return Err(self.error_before()),
                    }
                };
                options.push(DatabaseOption::ReadOnly(value));
            } else if said_default {
                return Err(self.error());
            } else {
                return Ok(options);
            }
        }
    }

    /// After DROP, at DATABASE or SCHEMA.
    pub(super) fn drop_database(&mut self) -> Result<Statement> {
        self.advance();
        let if_exists = self.if_exists()?;
        Ok(Statement::DropDatabase(DropDatabase { if_exists, name: self.ident()? }))
    }

    /// `ALGORITHM = …`, `DEFINER = …`, `SQL SECURITY …`, as far as they are there.
    pub(super) fn view_prefix(&mut self, or_replace: bool) -> Result<ViewPrefix> {
        let mut prefix = ViewPrefix { or_replace, ..ViewPrefix::default() };
        if self.eat_word(K::Algorithm) {
            self.expect(Kind::Equal)?;
            prefix.algorithm = Some(match self.eat_any(&[K::Undefined, K::Merge, K::Temptable]) {
                Some(K::Undefined) => ViewAlgorithm::Undefined,
                Some(K::Merge) => ViewAlgorithm::Merge,
                Some(_) => ViewAlgorithm::Temptable,
                None => return Err(self.error()),
            });
        }
        prefix.definer = self.definer()?;
        if self.at_word(K::Sql) {
            self.advance();
            self.expect_word(K::Security)?;
            prefix.invoker = Some(match self.eat_any(&[K::Definer, K::Invoker]) {
                Some(word) => word == K::Invoker,
                None => return Err(self.error()),
            });
        }
        Ok(prefix)
    }

    /// `DEFINER = user`, if it is next. Without a host it is the user of any host.
    fn definer(&mut self) -> Result<Option<Account>> {
        if !self.eat_word(K::Definer) {
            return Ok(None);
        }
        self.expect(Kind::Equal)?;
        let mut account = self.account()?;
        if let Account::Name { host, .. } = &mut account {
            host.get_or_insert_with(|| "%".into());
        }
        Ok(Some(account))
    }

    /// At VIEW.
    pub(super) fn create_view(&mut self, prefix: ViewPrefix, alter: bool) -> Result<Statement> {
        self.expect_word(K::View)?;
        let ViewPrefix { or_replace, algorithm, definer, invoker } = prefix;
        let name = self.object_name()?;
        let columns = self.optional_ident_list()?;
        self.expect_word(K::As)?;
        let start = self.token.start as usize;
        if !self.at_query_or_parenthesis() {
            return Err(self.error());
        }
        let query = Box::new(self.query()?);
        let text = self.text_since(start);
        let mut check_option = None;
        if self.eat_word(K::With) {
            check_option = match self.eat_any(&[K::Cascaded, K::Local]) {
                Some(K::Local) => Some(CheckOption::Local),
                _ => Some(CheckOption::Cascaded),
            };
            self.expect_words(&[K::Check, K::Option])?;
        }
        Ok(Statement::CreateView(Box::new(CreateView {
            or_replace,
            alter,
            algorithm,
            definer,
            invoker,
            name,
            columns,
            query,
            text,
            check_option,
        })))
    }

    /// After DROP, at VIEW.
    pub(super) fn drop_view(&mut self) -> Result<Statement> {
        self.advance();
        let if_exists = self.if_exists()?;
        let views = self.list(Self::object_name)?;
        self.eat_any(&[K::Restrict, K::Cascade]);
        Ok(Statement::DropView(DropView { if_exists, views }))
    }

    /// After DROP TRIGGER, DROP EVENT.
    pub(super) fn drop_object(&mut self) -> Result<DropObject> {
        let if_exists = self.if_exists()?;
        Ok(DropObject { if_exists, name: self.object_name()? })
    }
}
