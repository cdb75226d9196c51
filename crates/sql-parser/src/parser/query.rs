//! SELECT, set operations, VALUES, TABLE, WITH, and the clauses around a query.

use super::{Parser, Result};
use crate::ast::{
    BlockNumber, CommonTable, Expr, FileFormat, Ident, IntoTarget, IntoVariable, LockStrength,
    LockWait, Locking, ObjectName, Query, QueryBody, Select, SelectItem, SelectOptions, SetOp,
    SetOperand, SetOperation, With,
};
use crate::error::ParseError;
use crate::keyword::Keyword as K;
use crate::lexer::Kind;

impl Parser<'_> {
    /// Whether a query without parentheses begins here.
    pub(super) fn at_query(&self) -> bool {
        match self.token.keyword {
            K::Select | K::With | K::Table => true,
            K::Values => self.peek().keyword == K::Row,
            _ => false,
        }
    }

    /// Whether a query begins here, also in parentheses, however many.
    pub(super) fn at_query_or_parenthesis(&self) -> bool {
        if !self.at(Kind::Open) {
            return self.at_query();
        }
        let mut lexer = self.lexer;
        let mut token = lexer.next();
        while token.kind == Kind::Open {
            token = lexer.next();
        }
        match token.keyword {
            K::Select | K::With | K::Table => true,
            K::Values => lexer.next().keyword == K::Row,
            _ => false,
        }
    }

    /// After a query in parentheses: whether it goes on as a part of a larger one.
    pub(super) fn at_query_continuation(&self) -> bool {
        match self.token.keyword {
            K::Union | K::Except | K::Intersect | K::Order | K::Limit | K::Into => true,
            K::For => matches!(self.peek().keyword, K::Update | K::Share),
            K::Lock => self.peek().keyword == K::In,
            _ => false,
        }
    }

    /// A query with everything around it.
    pub(super) fn query(&mut self) -> Result<Query> {
        let entered = self.enter()?;
        let with = self.with()?;
        let query = self.query_after_with(with)?;
        self.leave(entered)?;
        Ok(query)
    }

    /// A query whose WITH was parsed already.
    pub(super) fn query_after_with(&mut self, with: Option<With>) -> Result<Query> {
        let mut into = None;
        let first = self.query_operand(&mut into)?;
        self.query_rest(with, first, into)
    }

    /// A query whose first operand, in parentheses, was parsed already.
    pub(super) fn query_from(&mut self, first: Box<Query>) -> Result<Query> {
        let entered = self.enter()?;
        let query = self.query_rest(None, QueryBody::Nested(first), None)?;
        self.leave(entered)?;
        Ok(query)
    }

    /// WITH, if it is next.
    pub(super) fn with(&mut self) -> Result<Option<With>> {
        if !self.eat_word(K::With) {
            return Ok(None);
        }
        let recursive = self.eat_word(K::Recursive);
        // The query that WITH is for comes first.
        let block = self.next_block();
        let tables = self.list(|parser| {
            let name = parser.ident()?;
            let columns = parser.optional_ident_list()?;
            parser.expect_word(K::As)?;
            Ok(CommonTable { name, columns, query: *parser.subquery()? })
        })?;
        self.reserved = Some(block);
        Ok(Some(With { recursive, tables }))
    }

    fn query_rest(
        &mut self,
        with: Option<With>,
        first: QueryBody,
        into: Option<IntoTarget>,
    ) -> Result<Query> {
        let mut into = into;
        let first = self.intersections(first, &mut into)?;
        let mut rest = Vec::new();
        while let Some(word) = self.eat_any(&[K::Union, K::Except]) {
            let op = if word == K::Union { SetOp::Union } else { SetOp::Except };
            let all = self.all_or_distinct();
            let operand = self.query_operand(&mut into)?;
            rest.push(SetOperand { op, all, body: self.intersections(operand, &mut into)? });
        }
        let body = combined(first, rest);
        let order_by = self.order_by()?;
        let limit = self.limit()?;
        let mut locking = Vec::new();
        if into.is_none() {
            into = self.into()?;
        }
        while let Some(clause) = self.locking()? {
            locking.push(clause);
        }
        if into.is_none() {
            into = self.into()?;
        }
        let plain = order_by.is_empty() && limit.is_none() && locking.is_empty() && into.is_none();
        match body {
            // `((SELECT 1))` is `SELECT 1`.
            QueryBody::Nested(inner) if plain && with.is_none() => Ok(*inner),
            body => {
                let body = unwrapped(body);
                Ok(Query { with, body, order_by, limit, locking, into })
            }
        }
    }

    /// INTERSECT, which binds tighter than UNION and EXCEPT.
    fn intersections(
        &mut self,
        first: QueryBody,
        into: &mut Option<IntoTarget>,
    ) -> Result<QueryBody> {
        let mut rest = Vec::new();
        while self.eat_word(K::Intersect) {
            let all = self.all_or_distinct();
            rest.push(SetOperand { op: SetOp::Intersect, all, body: self.query_operand(into)? });
        }
        Ok(combined(first, rest))
    }

    fn all_or_distinct(&mut self) -> bool {
        let all = self.eat_word(K::All);
        if !all {
            self.eat_word(K::Distinct);
        }
        all
    }

    fn query_operand(&mut self, into: &mut Option<IntoTarget>) -> Result<QueryBody> {
        match self.token.keyword {
            K::Select => self.select(into),
            K::Table => {
                self.advance();
                Ok(QueryBody::Table(self.object_name()?))
            }
            K::Values => {
                self.advance();
                let rows = self.list(|parser| {
                    parser.expect_word(K::Row)?;
                    parser.value_row()
                })?;
                Ok(QueryBody::Values(rows))
            }
            _ if self.at(Kind::Open) => Ok(QueryBody::Nested(self.subquery()?)),
            _ => Err(self.error()),
        }
    }

    /// `(value, …)`, also empty.
    pub(super) fn value_row(&mut self) -> Result<Vec<Expr>> {
        self.expect(Kind::Open)?;
        if self.eat(Kind::Close) {
            return Ok(Vec::new());
        }
        let row = self.list(Self::value)?;
        self.expect(Kind::Close)?;
        Ok(row)
    }

    fn select(&mut self, into: &mut Option<IntoTarget>) -> Result<QueryBody> {
        let block = self.next_block();
        let hints = self.hints(block, true);
        self.expect_word(K::Select)?;
        let mut select = Select { block: BlockNumber(block), hints, ..Select::default() };
        self.select_options(&mut select)?;
        select.items = self.select_items()?;
        if into.is_none() {
            *into = self.into()?;
        }
        if self.eat_word(K::From) && !self.eat_word(K::Dual) {
            select.from = self.table_references()?;
        }
        select.filter = self.filter()?;
        if self.eat_words(&[K::Group, K::By]) {
            select.group_by = self.list(Self::expr)?;
            select.rollup = self.eat_words(&[K::With, K::Rollup]);
        }
        if self.eat_word(K::Having) {
            select.having = Some(self.expr()?);
        }
        if self.eat_word(K::Window) {
            select.windows = self.list(Self::named_window)?;
        }
        Ok(QueryBody::Select(Box::new(select)))
    }

    /// WHERE, if it is next.
    pub(super) fn filter(&mut self) -> Result<Option<Expr>> {
        if self.eat_word(K::Where) { self.expr().map(Some) } else { Ok(None) }
    }

    fn select_options(&mut self, select: &mut Select) -> Result<()> {
        let SelectOptions {
            high_priority,
            straight_join,
            small_result,
            big_result,
            buffer_result,
            no_cache,
            calc_found_rows,
        } = &mut select.options;
        let mut all = false;
        loop {
            let option = match self.token.keyword {
                K::All => &mut all,
                K::Distinct | K::Distinctrow => &mut select.distinct,
                K::HighPriority => &mut *high_priority,
                K::StraightJoin => &mut *straight_join,
                K::SqlSmallResult => &mut *small_result,
                K::SqlBigResult => &mut *big_result,
                K::SqlBufferResult => &mut *buffer_result,
                K::SqlNoCache => &mut *no_cache,
                K::SqlCalcFoundRows => &mut *calc_found_rows,
                _ => break,
            };
            *option = true;
            self.advance();
        }
        if all && select.distinct {
            Err(ParseError::incorrect_usage("ALL", "DISTINCT"))
        } else {
            Ok(())
        }
    }

    fn select_items(&mut self) -> Result<Vec<SelectItem>> {
        // A star alone can only be the first.
        let mut items = if self.eat(Kind::Star) {
            vec![SelectItem::Wildcard]
        } else {
            vec![self.select_item()?]
        };
        while self.eat(Kind::Comma) {
            items.push(self.select_item()?);
        }
        Ok(items)
    }

    fn select_item(&mut self) -> Result<SelectItem> {
        if let Some(table) = self.qualified_wildcard()? {
            return Ok(SelectItem::QualifiedWildcard(table));
        }
        let start = self.token.start as usize;
        let expr = self.expr()?;
        let text = self.column_text_since(start);
        let alias = self.select_alias()?;
        Ok(SelectItem::Expr { expr, alias, text })
    }

    /// `t.*` or `db.t.*`, if it is next.
    fn qualified_wildcard(&mut self) -> Result<Option<ObjectName>> {
        if !self.at_ident() || !self.next_is(Kind::Dot, b'.') {
            return Ok(None);
        }
        let mut lexer = self.lexer;
        let (mut names, mut token) = (1, lexer.next());
        while token.kind == Kind::Dot {
            token = lexer.next();
            if token.kind == Kind::Star {
                let name = self.object_name_parts(names)?;
                self.expect(Kind::Star)?;
                return Ok(Some(name));
            }
            names += 1;
            token = lexer.next();
        }
        Ok(None)
    }

    /// One or two names, each with a dot behind it.
    fn object_name_parts(&mut self, count: usize) -> Result<ObjectName> {
        let first = self.ident()?;
        self.expect(Kind::Dot)?;
        match count {
            1 => Ok(ObjectName { schema: None, name: first }),
            2 => {
                let name = self.ident_after_dot()?;
                self.expect(Kind::Dot)?;
                Ok(ObjectName { schema: Some(first), name })
            }
            _ => Err(self.error()),
        }
    }

    fn select_alias(&mut self) -> Result<Option<Ident>> {
        let said = self.eat_word(K::As);
        match self.token.kind {
            Kind::String => Ok(Some(Ident::new(self.text()?))),
            _ if said || self.at_ident() => self.ident().map(Some),
            _ => Ok(None),
        }
    }

    /// FOR UPDATE, FOR SHARE, LOCK IN SHARE MODE, if they are next.
    fn locking(&mut self) -> Result<Option<Locking>> {
        if self.eat_words(&[K::Lock, K::In]) {
            self.expect_words(&[K::Share, K::Mode])?;
            let (strength, wait) = (LockStrength::Share, LockWait::Wait);
            return Ok(Some(Locking { strength, tables: Vec::new(), wait }));
        }
        let strength = match self.token.keyword {
            K::For => match self.peek().keyword {
                K::Update => LockStrength::Update,
                K::Share => LockStrength::Share,
                _ => return Ok(None),
            },
            _ => return Ok(None),
        };
        self.advance();
        self.advance();
        let tables = if self.eat_word(K::Of) { self.list(Self::object_name)? } else { Vec::new() };
        let wait = if self.eat_word(K::Nowait) {
            LockWait::NoWait
        } else if self.eat_word(K::Skip) {
            self.expect_word(K::Locked)?;
            LockWait::SkipLocked
        } else {
            LockWait::Wait
        };
        Ok(Some(Locking { strength, tables, wait }))
    }

    /// INTO, if it is next.
    fn into(&mut self) -> Result<Option<IntoTarget>> {
        if !self.eat_word(K::Into) {
            return Ok(None);
        }
        match self.eat_any(&[K::Outfile, K::Dumpfile]) {
            Some(K::Outfile) => {
                let path = self.text()?;
                let charset =
                    if self.eat_charset()? { Some(self.charset_or_default()?) } else { None };
                let mut format = FileFormat::default();
                self.file_format(&mut format)?;
                Ok(Some(IntoTarget::Outfile { path, charset, format: Box::new(format) }))
            }
            Some(_) => Ok(Some(IntoTarget::Dumpfile(self.text()?))),
            None => {
                let variables = self.list(|parser| {
                    if parser.at(Kind::Variable) {
                        parser.user_variable().map(IntoVariable::User)
                    } else {
                        parser.ident().map(IntoVariable::Local)
                    }
                })?;
                Ok(Some(IntoTarget::Variables(variables)))
            }
        }
    }
}

/// The body of a query in parentheses that has nothing else.
fn unwrapped(body: QueryBody) -> QueryBody {
    match body {
        QueryBody::Nested(inner) if is_bare(&inner) => inner.body,
        body => body,
    }
}

fn is_bare(query: &Query) -> bool {
    query.with.is_none()
        && query.order_by.is_empty()
        && query.limit.is_none()
        && query.locking.is_empty()
        && query.into.is_none()
}

fn combined(first: QueryBody, rest: Vec<SetOperand>) -> QueryBody {
    if rest.is_empty() {
        return first;
    }
    let bare = |body| match unwrapped(body) {
        // The grouping of set operations is theirs.
        inner @ QueryBody::SetOperation(_) => {
            let (order_by, locking) = (Vec::new(), Vec::new());
            let query =
                Query { with: None, body: inner, order_by, limit: None, locking, into: None };
            QueryBody::Nested(Box::new(query))
        }
        inner => inner,
    };
    let rest = rest.into_iter().map(|operand| SetOperand { body: bare(operand.body), ..operand });
    QueryBody::SetOperation(Box::new(SetOperation { first: bare(first), rest: rest.collect() }))
}
