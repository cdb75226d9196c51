//! FROM: tables, derived tables, joins and how they nest.

use super::{Parser, Result};
use crate::ast::{
    DerivedTable, Ident, IndexHint, IndexHintKind, IndexHintScope, Join, JoinCondition, JoinKind,
    JsonTable, JsonTableColumn, JsonTableResponse, JsonTableValue, Query, TableFactor,
    TableReference,
};
use crate::error::ParseError;
use crate::keyword::Keyword as K;
use crate::lexer::Kind;

/// A join while it is parsed. What stands in parentheses is a leaf.
enum Tree {
    Leaf(TableReference),
    Join(Box<Branch>),
}

struct Branch {
    left: Tree,
    right: Tree,
    kind: JoinKind,
    condition: JoinCondition,
}

/// What stands in parentheses in FROM.
enum Inside {
    Query(Box<Query>),
    Tables(TableReference),
}

impl Tree {
    /// The tree with `left` joined, without a condition, before its first leaf: in `a JOIN b JOIN c
    /// ON …` the condition belongs to the second join, whose left side is `a JOIN b`. Also gives
    /// how deep `left` went.
    fn joined_after(self, left: Tree, kind: JoinKind) -> (Tree, u32) {
        let mut path = Vec::new();
        let mut tree = self;
        while let Tree::Join(branch) = tree {
            let Branch { left, right, kind, condition } = *branch;
            path.push((right, kind, condition));
            tree = left;
        }
        let mut tree = Tree::Join(Box::new(Branch {
            left,
            right: tree,
            kind,
            condition: JoinCondition::None,
        }));
        let depth = path.len() as u32;
        for (right, kind, condition) in path.into_iter().rev() {
            tree = Tree::Join(Box::new(Branch { left: tree, right, kind, condition }));
        }
        (tree, depth)
    }

    fn into_reference(self) -> TableReference {
        match self {
            Tree::Leaf(leaf) => leaf,
            Tree::Join(branch) => {
                let Branch { left, right, kind, condition } = *branch;
                let (left, right) = (left.into_reference(), right.into_reference());
                TableReference::Join(Box::new(Join { left, right, kind, condition }))
            }
        }
    }
}

impl Parser<'_> {
    /// Table references between commas.
    pub(super) fn table_references(&mut self) -> Result<Vec<TableReference>> {
        self.list(Self::table_reference)
    }

    fn table_reference(&mut self) -> Result<TableReference> {
        if self.at(Kind::OpenBrace) {
            return self.odbc_join();
        }
        Ok(self.join_tree(None)?.into_reference())
    }

    /// `{OJ a LEFT JOIN b ON …}`.
    fn odbc_join(&mut self) -> Result<TableReference> {
        let entered = self.enter()?;
        self.advance();
        self.ident()?;
        let table = self.table_reference()?;
        self.expect(Kind::CloseBrace)?;
        self.leave(entered)?;
        Ok(table)
    }

    /// Joins as far as they go; `first` is a leaf that was parsed already.
    fn join_tree(&mut self, first: Option<TableReference>) -> Result<Tree> {
        let entered = self.enter()?;
        let mut left = Tree::Leaf(match first {
            Some(first) => first,
            None => self.table_factor()?,
        });
        while let Some((kind, natural)) = self.join_operator()? {
            self.grow()?;
            if natural {
                let right = Tree::Leaf(self.table_factor()?);
                let condition = JoinCondition::Natural;
                left = Tree::Join(Box::new(Branch { left, right, kind, condition }));
                continue;
            }
            let right = self.join_tree(None)?;
            let condition = if self.eat_word(K::On) {
                JoinCondition::On(self.expr()?)
            } else if self.eat_word(K::Using) {
                JoinCondition::Using(self.ident_list()?)
            } else if matches!(kind, JoinKind::Left | JoinKind::Right) {
                return Err(self.error());
            } else {
                let depth;
                (left, depth) = right.joined_after(left, kind);
                self.height += depth;
                self.check_height()?;
                continue;
            };
            left = Tree::Join(Box::new(Branch { left, right, kind, condition }));
        }
        self.leave(entered)?;
        Ok(left)
    }

    /// The operator of a join, and whether it is NATURAL.
    fn join_operator(&mut self) -> Result<Option<(JoinKind, bool)>> {
        let natural = self.eat_word(K::Natural);
        let kind = match self.token.keyword {
            K::Join => JoinKind::Inner,
            K::Inner => {
                self.advance();
                JoinKind::Inner
            }
            K::Cross if !natural => {
                self.advance();
                JoinKind::Inner
            }
            K::StraightJoin if !natural => JoinKind::Straight,
            K::Left | K::Right => {
                let kind = if self.at_word(K::Left) { JoinKind::Left } else { JoinKind::Right };
                self.advance();
                self.eat_word(K::Outer);
                kind
            }
            _ if natural => return Err(self.error()),
            _ => return Ok(None),
        };
        self.expect_word(if kind == JoinKind::Straight { K::StraightJoin } else { K::Join })?;
        Ok(Some((kind, natural)))
    }

    fn table_factor(&mut self) -> Result<TableReference> {
        if self.at(Kind::Open) {
            return match self.parenthesised_tables()? {
                Inside::Query(query) => self.derived_table(false, query),
                Inside::Tables(tables) => Ok(tables),
            };
        }
        if self.eat_word(K::Lateral) {
            let query = self.subquery()?;
            return self.derived_table(true, query);
        }
        if self.at_word(K::JsonTable) {
            return self.json_table();
        }
        let name = self.object_name()?;
        let partitions = self.partition_list()?;
        let alias = self.table_alias()?;
        let index_hints = self.index_hints()?;
        let table = TableFactor { name, partitions, alias, index_hints };
        Ok(TableReference::Table(Box::new(table)))
    }

    fn parenthesised_tables(&mut self) -> Result<Inside> {
        let entered = self.enter()?;
        self.expect(Kind::Open)?;
        let inside = if self.at_query() {
            Inside::Query(Box::new(self.query()?))
        } else if self.at(Kind::Open) {
            match self.parenthesised_tables()? {
                Inside::Query(query) if self.at_query_continuation() => {
                    Inside::Query(Box::new(self.query_from(query)?))
                }
                Inside::Query(query) if self.at(Kind::Close) => Inside::Query(query),
                Inside::Query(query) => {
                    let first = self.derived_table(false, query)?;
                    Inside::Tables(self.tables_from(Some(first))?)
                }
                Inside::Tables(first) => Inside::Tables(self.tables_from(Some(first))?),
            }
        } else {
            Inside::Tables(self.tables_from(None)?)
        };
        self.expect(Kind::Close)?;
        self.leave(entered)?;
        Ok(inside)
    }

    /// A list of tables in parentheses is their inner join.
    fn tables_from(&mut self, first: Option<TableReference>) -> Result<TableReference> {
        let mut tables = match first {
            None if self.at(Kind::OpenBrace) => self.odbc_join()?,
            first => self.join_tree(first)?.into_reference(),
        };
        while self.eat(Kind::Comma) {
            self.grow()?;
            let (left, right) = (tables, self.table_reference()?);
            let (kind, condition) = (JoinKind::Inner, JoinCondition::None);
            tables = TableReference::Join(Box::new(Join { left, right, kind, condition }));
        }
        Ok(tables)
    }

    fn derived_table(&mut self, lateral: bool, query: Box<Query>) -> Result<TableReference> {
        let Some(alias) = self.table_alias()? else {
            return Err(ParseError::derived_without_alias());
        };
        let columns = self.optional_ident_list()?;
        let table = DerivedTable { lateral, query: *query, alias, columns };
        Ok(TableReference::Derived(Box::new(table)))
    }

    /// PARTITION (…), if it is next.
    pub(super) fn partition_list(&mut self) -> Result<Vec<Ident>> {
        if self.eat_word(K::Partition) { self.ident_list() } else { Ok(Vec::new()) }
    }

    /// AS, if it is next; the word itself may be left out.
    pub(super) fn table_alias(&mut self) -> Result<Option<Ident>> {
        if self.eat_word(K::As) || self.at_ident() { self.ident().map(Some) } else { Ok(None) }
    }

    fn index_hints(&mut self) -> Result<Vec<IndexHint>> {
        let mut hints = Vec::new();
        loop {
            let kind = match self.token.keyword {
                K::Use => IndexHintKind::Use,
                K::Force => IndexHintKind::Force,
                K::Ignore if matches!(self.peek().keyword, K::Index | K::Key) => {
                    IndexHintKind::Ignore
                }
                _ => return Ok(hints),
            };
            self.advance();
            if self.eat_any(&[K::Index, K::Key]).is_none() {
                return Err(self.error());
            }
            let scope = if self.eat_word(K::For) { Some(self.index_hint_scope()?) } else { None };
            self.expect(Kind::Open)?;
            let empty = kind == IndexHintKind::Use && self.at(Kind::Close);
            let indexes = if empty { Vec::new() } else { self.list(Self::index_name)? };
            self.expect(Kind::Close)?;
            hints.push(IndexHint { kind, scope, indexes });
        }
    }

    /// The name of an index, of which PRIMARY is one.
    fn index_name(&mut self) -> Result<Ident> {
        if self.at_word(K::Primary) { self.take_ident() } else { self.ident() }
    }

    fn index_hint_scope(&mut self) -> Result<IndexHintScope> {
        let scope = match self.eat_any(&[K::Join, K::Order, K::Group]) {
            Some(K::Join) => return Ok(IndexHintScope::Join),
            Some(K::Order) => IndexHintScope::OrderBy,
            Some(_) => IndexHintScope::GroupBy,
            None => return Err(self.error()),
        };
        self.expect_word(K::By)?;
        Ok(scope)
    }

    fn json_table(&mut self) -> Result<TableReference> {
        self.advance();
        self.expect(Kind::Open)?;
        let document = self.expr()?;
        self.expect(Kind::Comma)?;
        let path = self.text()?;
        let columns = self.json_columns()?;
        self.expect(Kind::Close)?;
        let Some(alias) = self.table_alias()? else {
            return Err(ParseError::table_function_without_alias());
        };
        let table = JsonTable { document, path, columns, alias };
        Ok(TableReference::JsonTable(Box::new(table)))
    }

    fn json_columns(&mut self) -> Result<Vec<JsonTableColumn>> {
        let entered = self.enter()?;
        self.expect_word(K::Columns)?;
        let columns = self.parenthesised_list(Self::json_column)?;
        self.leave(entered)?;
        Ok(columns)
    }

    fn json_column(&mut self) -> Result<JsonTableColumn> {
        if self.at_word(K::Nested)
            && (self.peek().keyword == K::Path || self.peek().kind == Kind::String)
        {
            self.advance();
            self.eat_word(K::Path);
            let path = self.text()?;
            return Ok(JsonTableColumn::Nested { path, columns: self.json_columns()? });
        }
        let name = self.ident()?;
        if self.eat_word(K::For) {
            self.expect_word(K::Ordinality)?;
            return Ok(JsonTableColumn::Ordinality(name));
        }
        let data_type = self.data_type()?;
        let collation = if self.eat_word(K::Collate) { Some(self.collation_name()?) } else { None };
        let exists = self.eat_word(K::Exists);
        self.expect_word(K::Path)?;
        let path = self.text()?;
        let (mut on_empty, mut on_error) = (None, None);
        while !exists && self.at_json_response() {
            let response = self.json_response()?;
            self.expect_word(K::On)?;
            match self.eat_any(&[K::Empty, K::Error]) {
                Some(K::Empty) if on_empty.is_none() && on_error.is_none() => {
                    on_empty = Some(response);
                }
                Some(K::Error) if on_error.is_none() => on_error = Some(response),
                Some(_) => return Err(self.error_before()),
                None => return Err(self.error()),
            }
        }
        let value = JsonTableValue { name, data_type, collation, exists, path, on_empty, on_error };
        Ok(JsonTableColumn::Value(Box::new(value)))
    }

    fn at_json_response(&self) -> bool {
        matches!(self.token.keyword, K::Error | K::Null | K::Default)
    }

    fn json_response(&mut self) -> Result<JsonTableResponse> {
        match self.eat_any(&[K::Error, K::Null, K::Default]) {
            Some(K::Error) => Ok(JsonTableResponse::Error),
            Some(K::Null) => Ok(JsonTableResponse::Null),
            Some(_) => Ok(JsonTableResponse::Default(self.string()?)),
            None => Err(self.error()),
        }
    }
}
