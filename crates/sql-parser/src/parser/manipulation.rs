//! INSERT, REPLACE, UPDATE, DELETE, CALL, DO.

use super::{Parser, Result};
use crate::ast::{
    Assignment, Call, Delete, DeleteTarget, Expr, Insert, InsertAlias, InsertPriority,
    InsertSource, ObjectName, Statement, TableReference, Update, With,
};
use crate::error::ParseError;
use crate::keyword::Keyword as K;
use crate::lexer::Kind;

impl Parser<'_> {
    /// At INSERT or REPLACE.
    pub(super) fn insert(&mut self) -> Result<Statement> {
        let hints = self.hints_of_change();
        let replace = self.at_word(K::Replace);
        self.advance();
        let priority = match self.token.keyword {
            K::LowPriority => Some(InsertPriority::Low),
            K::HighPriority if !replace => Some(InsertPriority::High),
            K::Delayed => Some(InsertPriority::Delayed),
            _ => None,
        };
        if priority.is_some() {
            self.advance();
        }
        let ignore = !replace && self.eat_word(K::Ignore);
        self.eat_word(K::Into);
        let table = self.object_name()?;
        let partitions = self.partition_list()?;
        let mut insert = Insert {
            replace,
            ignore,
            priority,
            hints,
            table,
            partitions,
            columns: None,
            source: InsertSource::Values(Vec::new()),
            alias: None,
            on_duplicate: Vec::new(),
        };
        self.insert_source(&mut insert)?;
        if !replace && self.eat_words(&[K::On, K::Duplicate, K::Key]) {
            self.expect_word(K::Update)?;
            insert.on_duplicate = self.list(Self::assignment)?;
        }
        Ok(Statement::Insert(Box::new(insert)))
    }

    fn insert_source(&mut self, insert: &mut Insert) -> Result<()> {
        if self.eat_word(K::Set) {
            let (mut columns, mut row) = (Vec::new(), Vec::new());
            for Assignment { column, value } in self.list(Self::assignment)? {
                columns.push(column);
                row.push(value);
            }
            insert.columns = Some(columns);
            insert.source = InsertSource::Values(vec![row]);
            return self.insert_alias(insert);
        }
        if self.at(Kind::Open) && !self.at_query_or_parenthesis() {
            self.advance();
            let columns =
                if self.at(Kind::Close) { Vec::new() } else { self.list(Self::column_ref)? };
            self.expect(Kind::Close)?;
            insert.columns = Some(columns);
        }
        let is_values = match self.token.keyword {
            K::Value => true,
            K::Values => self.peek().keyword != K::Row,
            _ => false,
        };
        if !is_values {
            if !self.at_query_or_parenthesis() {
                return Err(self.error());
            }
            insert.source = InsertSource::Query(Box::new(self.query()?));
            return Ok(());
        }
        self.advance();
        insert.source = match self.rows.take_if(|rows| rows.start == self.token.start as usize) {
            Some(rows) => {
                self.go_behind(rows.end);
                InsertSource::Literals(rows.width)
            }
            None => InsertSource::Values(self.list(Self::value_row)?),
        };
        self.insert_alias(insert)
    }

    fn insert_alias(&mut self, insert: &mut Insert) -> Result<()> {
        if !insert.replace && self.eat_word(K::As) {
            let table = self.ident()?;
            let columns = self.optional_ident_list()?;
            insert.alias = Some(InsertAlias { table, columns });
        }
        Ok(())
    }

    /// `column = value`, also with `:=`.
    pub(super) fn assignment(&mut self) -> Result<Assignment> {
        let column = self.column_ref()?;
        if !self.eat(Kind::Assign) {
            self.expect(Kind::Equal)?;
        }
        Ok(Assignment { column, value: self.value()? })
    }

    /// At UPDATE.
    pub(super) fn update(&mut self, with: Option<With>) -> Result<Statement> {
        let hints = self.hints_of_change();
        self.next_block();
        self.expect_word(K::Update)?;
        let low_priority = self.eat_word(K::LowPriority);
        let ignore = self.eat_word(K::Ignore);
        let tables = self.table_references()?;
        self.expect_word(K::Set)?;
        let assignments = self.list(Self::assignment)?;
        let filter = self.filter()?;
        let order_by = self.order_by()?;
        let limit = self.simple_limit()?;
        if !matches!(tables[..], [TableReference::Table(_)]) {
            refuse_order(&order_by, limit.is_some(), "UPDATE")?;
        }
        Ok(Statement::Update(Box::new(Update {
            with,
            low_priority,
            ignore,
            hints,
            tables,
            assignments,
            filter,
            order_by,
            limit,
        })))
    }

    /// At DELETE.
    pub(super) fn delete(&mut self, with: Option<With>) -> Result<Statement> {
        let hints = self.hints_of_change();
        self.next_block();
        self.expect_word(K::Delete)?;
        let (mut low_priority, mut quick, mut ignore) = (false, false, false);
        loop {
            let option = match self.token.keyword {
                K::LowPriority => &mut low_priority,
                K::Quick => &mut quick,
                K::Ignore => &mut ignore,
                _ => break,
            };
            *option = true;
            self.advance();
        }
        let target = self.delete_target()?;
        let filter = self.filter()?;
        let (mut order_by, mut limit) = (Vec::new(), None);
        if matches!(target, DeleteTarget::Single { .. }) {
            order_by = self.order_by()?;
            limit = self.simple_limit()?;
        }
        Ok(Statement::Delete(Box::new(Delete {
            with,
            low_priority,
            quick,
            ignore,
            hints,
            target,
            filter,
            order_by,
            limit,
        })))
    }

    fn delete_target(&mut self) -> Result<DeleteTarget> {
        if !self.eat_word(K::From) {
            let tables = self.list(Self::wild_table_name)?;
            self.expect_word(K::From)?;
            return Ok(DeleteTarget::Multi { tables, from: self.table_references()? });
        }
        let first = self.wild_table_name()?;
        let mut tables = vec![first];
        while self.eat(Kind::Comma) {
            tables.push(self.wild_table_name()?);
        }
        if self.eat_word(K::Using) {
            return Ok(DeleteTarget::Multi { tables, from: self.table_references()? });
        }
        let alias = self.table_alias()?;
        let partitions = self.partition_list()?;
        match (tables.pop(), tables.is_empty()) {
            (Some(table), true) => Ok(DeleteTarget::Single { table, alias, partitions }),
            _ => Err(self.error()),
        }
    }

    /// `t`, `db.t`, `t.*`, `db.t.*`.
    fn wild_table_name(&mut self) -> Result<ObjectName> {
        let first = self.ident()?;
        let mut name = ObjectName { schema: None, name: first };
        while self.eat(Kind::Dot) {
            if self.eat(Kind::Star) {
                break;
            }
            if name.schema.is_some() {
                return Err(self.error());
            }
            name = ObjectName { schema: Some(name.name), name: self.ident_after_dot()? };
        }
        Ok(name)
    }

    /// At CALL.
    pub(super) fn call_statement(&mut self) -> Result<Statement> {
        self.advance();
        let name = self.object_name()?;
        let arguments = if self.at(Kind::Open) { self.arguments()? } else { Vec::new() };
        Ok(Statement::Call(Call { name, arguments }))
    }

    /// At DO.
    pub(super) fn do_statement(&mut self) -> Result<Statement> {
        self.advance();
        let values = self.list(|parser| {
            let expr: Expr = parser.expr()?;
            if parser.eat_word(K::As) {
                parser.ident_or_text()?;
            }
            Ok(expr)
        })?;
        Ok(Statement::Do(values))
    }
}

/// MySQL refuses ORDER BY and LIMIT where several tables change.
fn refuse_order<T>(order_by: &[T], limit: bool, statement: &str) -> Result<()> {
    if !order_by.is_empty() {
        return Err(ParseError::incorrect_usage(statement, "ORDER BY"));
    }
    if limit { Err(ParseError::incorrect_usage(statement, "LIMIT")) } else { Ok(()) }
}
