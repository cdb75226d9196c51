//! From tokens to a tree: a recursive descent with one token in hand.
//!
//! # Owns
//! The cursor, the elements every statement is made of (names, numbers, lists), the entry points.
//! # Invariants
//! 1. The cursor never goes back over what it has consumed; a decision looks ahead at most two
//!    tokens, or over a run of parentheses.
//! 2. Recursion is counted: `enter` refuses what is too deep before the stack could end.
//! 3. A refusal points at the first token that does not fit, as MySQL's does.
//!
//! One file for each family of statements; `expression.rs` holds the operators and their
//! precedence, `operand.rs` what stands between them.

mod account;
mod administration;
mod alter;
mod backup;
mod changefeed;
mod data_type;
mod expression;
mod from;
mod function;
mod hint;
mod index;
mod load;
mod manipulation;
mod operand;
mod partition;
mod query;
mod replication;
mod routine;
mod schema;
mod set;
mod show;
mod statement;
mod table;
mod window;

use crate::ast::{
    CharacterSet, ColumnRef, Expr, HintedBlock, Ident, Limit, ObjectName, OrderItem, SourceText,
    Statement,
};
use crate::error::ParseError;
use crate::keyword::{Class, Keyword};
use crate::lexer::literal::unquote;
use crate::lexer::{Kind, Lexer, SqlMode, Token, is_space};
use crate::parameterise::rows::RowsPlace;
use crate::parameterise::{LiteralSpan, Literals};
use crate::{NESTING_MAX, TREE_HEIGHT_MAX};

/// A statement that was parsed out of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// The statement.
    pub statement: Statement,
    /// How many parameters `?` it has.
    pub parameter_count: u32,
    /// The optimizer hints of its query blocks.
    pub hints: Vec<HintedBlock>,
    /// Where the statement's own text ends: at its semicolon or the end of all.
    pub end: usize,
    /// Where the next statement begins, if there is more than white space and comments.
    pub next: Option<usize>,
    /// Where comments begin behind the last semicolon: a statement that does nothing, for clients
    /// that send several statements at once.
    pub remark: Option<usize>,
}

/// Parses the statement that begins at the byte `at`.
///
/// The text is UTF-8, except in string literals, which may hold any bytes: what a client sent in
/// another character set is converted before.
pub fn parse_at(sql: &[u8], at: usize, mode: SqlMode) -> Result<Parsed, ParseError> {
    parse_at_looking(sql, at, mode, &|| true)
}

/// The same; calls `look` after some hundred tokens, again and again, and ends with
/// error 1317 when that is false.
pub fn parse_at_looking(
    sql: &[u8],
    at: usize,
    mode: SqlMode,
    look: Look<'_>,
) -> Result<Parsed, ParseError> {
    let mut parser = Parser::new(sql, at, mode)?;
    parser.look = Some(look);
    let statement = parser.whole_statement();
    let statement = parser.unless_stopped(statement)?;
    let end = parser.token.start as usize;
    let (mut next, mut remark) = (None, None);
    if parser.eat(Kind::Semicolon) {
        // Empty statements between semicolons are nothing, as a client's last `;` is.
        let mut start = end + 1;
        while parser.at(Kind::Semicolon) {
            start = parser.token.end as usize;
            parser.advance();
        }
        let is_last = parser.at(Kind::End);
        next = (!is_last).then_some(start);
        let is_blank = |byte: &u8| *byte == b';' || is_space(*byte);
        remark = (is_last && !sql[end + 1..].iter().all(is_blank)).then_some(end + 1);
    }
    let (parameter_count, hints) = (parser.parameters, parser.hinted);
    Ok(Parsed { statement, parameter_count, hints, end, next, remark })
}

/// Parses a text that is one statement, with or without a semicolon at its end.
pub fn parse(sql: &[u8], mode: SqlMode) -> Result<Statement, ParseError> {
    let parsed = parse_at(sql, 0, mode)?;
    match parsed.next {
        None => Ok(parsed.statement),
        Some(next) => {
            let mut lexer = Lexer::new(sql, next, mode);
            Err(ParseError::syntax(sql, lexer.next().start as usize))
        }
    }
}

/// Parses an expression alone: what a catalog keeps of a default, a check, a generated column.
pub fn parse_expression(sql: &[u8], mode: SqlMode) -> Result<Expr, ParseError> {
    let mut parser = Parser::new(sql, 0, mode)?;
    let expr = parser.expr()?;
    if parser.at(Kind::End) { Ok(expr) } else { Err(parser.error()) }
}

/// Parses a statement with the given literals as parameters, in their order.
///
/// None where one of them does not stand for a value, so that the statement has no such form. Rows
/// that were taken out as a whole become [`ast::InsertSource::Literals`].
pub fn parse_parameterised(
    sql: &[u8],
    mode: SqlMode,
    literals: &Literals,
    look: Look<'_>,
) -> Result<Option<Statement>, ParseError> {
    let mut parser = Parser::new(sql, 0, mode)?;
    parser.look = Some(look);
    parser.literals = literals.spans();
    parser.rows = literals.rows_place();
    let statement = parser.whole_statement();
    let statement = parser.unless_stopped(statement)?;
    parser.eat(Kind::Semicolon);
    let complete = parser.literals.is_empty() && parser.rows.is_none() && parser.at(Kind::End);
    Ok(complete.then_some(statement))
}

/// What is called now and then; false ends the work.
pub type Look<'l> = &'l dyn Fn() -> bool;

/// Tokens, or pieces of 64 bytes of them, between two looks.
const LOOK_TOKENS: u32 = 256;

/// The cursor and its limits.
struct Parser<'a> {
    sql: &'a [u8],
    mode: SqlMode,
    lexer: Lexer<'a>,
    /// The token in hand, not yet consumed.
    token: Token,
    /// Start and end of the last consumed token.
    previous: usize,
    consumed: usize,
    /// How many calls of `enter` are open.
    depth: u32,
    /// Upper bound of the height of what was parsed since the last `enter`.
    height: u32,
    /// Parameters so far.
    parameters: u32,
    /// Literals that are to become parameters, those not met yet.
    literals: &'a [LiteralSpan],
    /// Rows of literals that are left out of the tree, if they have not been met yet.
    rows: Option<RowsPlace>,
    /// How many query blocks have a number.
    blocks: u32,
    /// The number that the next block has.
    reserved: Option<u32>,
    /// Hints so far.
    hinted: Vec<HintedBlock>,
    /// What is called after so many tokens, counted down.
    look: Option<Look<'a>>,
    tokens: u32,
    /// It was told to end: what follows is read as the end of the text.
    stopped: bool,
}

type Result<T, E = ParseError> = std::result::Result<T, E>;

/// Longest text that a column without an alias is named by; MySQL's limit of an alias.
const COLUMN_TEXT_SIZE_MAX: usize = 256;

/// What `enter` gives to `leave`.
struct Entered {
    height: u32,
}

impl<'a> Parser<'a> {
    fn new(sql: &'a [u8], at: usize, mode: SqlMode) -> Result<Self> {
        if u32::try_from(sql.len()).is_err() {
            return Err(ParseError::too_deep(sql, 0));
        }
        let mut lexer = Lexer::new(sql, at, mode);
        let token = lexer.next();
        Ok(Self {
            sql,
            mode,
            lexer,
            token,
            previous: at,
            consumed: at,
            depth: 0,
            height: 0,
            parameters: 0,
            literals: &[],
            rows: None,
            blocks: 0,
            reserved: None,
            hinted: Vec::new(),
            look: None,
            tokens: LOOK_TOKENS,
            stopped: false,
        })
    }

    fn whole_statement(&mut self) -> Result<Statement> {
        if let Some(nothing) = self.nothing() {
            return nothing;
        }
        let statement = self.statement()?;
        match self.token.kind {
            Kind::End | Kind::Semicolon => Ok(statement),
            _ => Err(self.error()),
        }
    }

    /// What a text without a statement is, if this is one: comments are a statement that does
    /// nothing, white space and semicolons are an error.
    fn nothing(&self) -> Option<Result<Statement>> {
        if !self.at(Kind::End) && !self.at(Kind::Semicolon) {
            return None;
        }
        let is_blank = |byte: &u8| *byte == b';' || is_space(*byte);
        let text = &self.sql[self.consumed..];
        let written = text.iter().rposition(|byte| !is_blank(byte)).map_or(0, |last| last + 1);
        if (self.token.start as usize) < self.consumed + written {
            return None;
        }
        Some(if written == 0 { Err(ParseError::empty()) } else { Ok(Statement::Empty) })
    }

    // Limits.

    /// Goes one level deeper; everything recursive does.
    fn enter(&mut self) -> Result<Entered> {
        self.depth += 1;
        if self.depth > NESTING_MAX {
            return Err(self.too_deep());
        }
        Ok(Entered { height: std::mem::take(&mut self.height) })
    }

    fn leave(&mut self, entered: Entered) -> Result<()> {
        self.depth -= 1;
        self.height = entered.height.max(self.height + 1);
        self.check_height()
    }

    /// What was just parsed has become the child of a new node.
    fn grow(&mut self) -> Result<()> {
        self.height += 1;
        self.check_height()
    }

    fn check_height(&self) -> Result<()> {
        if self.height > TREE_HEIGHT_MAX { Err(self.too_deep()) } else { Ok(()) }
    }

    fn too_deep(&self) -> ParseError {
        ParseError::too_deep(self.sql, self.token.start as usize)
    }

    // The cursor.

    fn advance(&mut self) {
        self.previous = self.token.start as usize;
        self.consumed = self.token.end as usize;
        self.token = self.lexer.next();
        let bytes = self.token.end - self.token.start;
        match self.tokens.checked_sub(1 + bytes / 64) {
            Some(left) => self.tokens = left,
            None => self.look(),
        }
    }

    #[cold]
    fn look(&mut self) {
        self.tokens = LOOK_TOKENS;
        if self.look.is_some_and(|look| !look()) {
            self.stopped = true;
            let end = self.sql.len() as u32;
            self.token = Token { kind: Kind::End, start: end, end, ..self.token };
            self.token.keyword = Keyword::None;
            self.lexer = Lexer::new(self.sql, self.sql.len(), self.mode);
        }
    }

    /// What was parsed, unless the work was ended.
    fn unless_stopped<T>(&self, parsed: Result<T>) -> Result<T> {
        if self.stopped { Err(ParseError::interrupted()) } else { parsed }
    }

    /// Takes what lies between the token in hand and a place of the text as consumed.
    fn go_behind(&mut self, end: usize) {
        self.previous = self.token.start as usize;
        self.consumed = end;
        self.lexer = Lexer::new(self.sql, end, self.mode);
        self.token = self.lexer.next();
    }

    /// The token after the one in hand.
    fn peek(&self) -> Token {
        let mut lexer = self.lexer;
        lexer.next()
    }

    /// Whether the next token is this one, which is a single byte: cheaper than to look at it.
    fn next_is(&self, kind: Kind, byte: u8) -> bool {
        let rest = &self.sql[self.token.end as usize..];
        match rest.iter().find(|byte| !is_space(**byte)) {
            // A comment may come first.
            Some(b'/' | b'#' | b'-' | b'*') => self.peek().kind == kind,
            found => found == Some(&byte),
        }
    }

    /// The token after the next.
    fn peek_second(&self) -> Token {
        let mut lexer = self.lexer;
        lexer.next();
        lexer.next()
    }

    fn bytes(&self, token: Token) -> &'a [u8] {
        &self.sql[token.start as usize..token.end as usize]
    }

    /// The text from `start` to the end of what was consumed.
    fn text_since(&self, start: usize) -> SourceText {
        let end = self.consumed.max(start);
        SourceText::new(String::from_utf8_lossy(&self.sql[start..end]))
    }

    /// The same as the name of a column, which has a limit.
    fn column_text_since(&self, start: usize) -> SourceText {
        let end = self.consumed.clamp(start, start + COLUMN_TEXT_SIZE_MAX);
        // No character is cut in two.
        let is_inside = |at: &usize| self.sql.get(*at).is_some_and(|byte| byte & 0xC0 == 0x80);
        let end = (start..=end).rev().find(|at| *at == self.consumed || !is_inside(at));
        let end = end.unwrap_or(start);
        SourceText::new(String::from_utf8_lossy(&self.sql[start..end]))
    }

    /// The rest of the text, white space at its end left out, without a semicolon at its end; the
    /// cursor goes to the end. For bodies that are kept as they are.
    fn rest_of_text(&mut self) -> Box<str> {
        let rest = String::from_utf8_lossy(&self.sql[self.token.start as usize..]);
        let rest = rest.trim_end_matches(|c: char| c == ';' || c.is_whitespace());
        let text = Box::from(rest);
        self.token = Token {
            kind: Kind::End,
            start: self.sql.len() as u32,
            end: self.sql.len() as u32,
            ..self.token
        };
        self.lexer = Lexer::new(self.sql, self.sql.len(), self.mode);
        text
    }

    fn error(&self) -> ParseError {
        ParseError::syntax(self.sql, self.token.start as usize)
    }

    /// The token consumed last does not fit.
    fn error_before(&self) -> ParseError {
        ParseError::syntax(self.sql, self.previous)
    }

    fn at(&self, kind: Kind) -> bool {
        self.token.kind == kind
    }

    fn eat(&mut self, kind: Kind) -> bool {
        let found = self.at(kind);
        if found {
            self.advance();
        }
        found
    }

    fn expect(&mut self, kind: Kind) -> Result<()> {
        if self.eat(kind) { Ok(()) } else { Err(self.error()) }
    }

    fn at_word(&self, word: Keyword) -> bool {
        self.token.keyword == word
    }

    fn eat_word(&mut self, word: Keyword) -> bool {
        let found = self.at_word(word);
        if found {
            self.advance();
        }
        found
    }

    fn expect_word(&mut self, word: Keyword) -> Result<()> {
        if self.eat_word(word) { Ok(()) } else { Err(self.error()) }
    }

    /// Consumes all these words, or none.
    fn eat_words(&mut self, words: &[Keyword]) -> bool {
        let mut lexer = self.lexer;
        let mut token = self.token;
        for word in words {
            if token.keyword != *word {
                return false;
            }
            token = lexer.next();
        }
        for _ in words {
            self.advance();
        }
        true
    }

    fn expect_words(&mut self, words: &[Keyword]) -> Result<()> {
        words.iter().try_for_each(|word| self.expect_word(*word))
    }

    /// Consumes one of these words and tells which.
    fn eat_any(&mut self, words: &[Keyword]) -> Option<Keyword> {
        let word = self.token.keyword;
        let found = word != Keyword::None && words.contains(&word);
        found.then(|| {
            self.advance();
            word
        })
    }

    /// A word that the list of keywords does not have, in any case.
    fn at_text(&self, text: &str) -> bool {
        self.at(Kind::Word) && self.bytes(self.token).eq_ignore_ascii_case(text.as_bytes())
    }

    fn eat_text(&mut self, text: &str) -> bool {
        let found = self.at_text(text);
        if found {
            self.advance();
        }
        found
    }

    fn if_exists(&mut self) -> Result<bool> {
        if self.eat_word(Keyword::If) {
            self.expect_word(Keyword::Exists).map(|()| true)
        } else {
            Ok(false)
        }
    }

    fn if_not_exists(&mut self) -> Result<bool> {
        if self.eat_word(Keyword::If) {
            self.expect_words(&[Keyword::Not, Keyword::Exists]).map(|()| true)
        } else {
            Ok(false)
        }
    }

    // Names.

    /// Whether a token can be an identifier where none is asked for by a dot.
    fn is_ident(&self, token: Token) -> bool {
        match token.kind {
            Kind::Quoted | Kind::Introducer => true,
            Kind::Word => match token.keyword.class() {
                Some(Class::Reserved) => false,
                // `count(` is the function's name, never a column's.
                Some(Class::Function) => !self.calls(token),
                _ => true,
            },
            _ => false,
        }
    }

    fn at_ident(&self) -> bool {
        self.is_ident(self.token)
    }

    /// Whether `(` follows a built-in function's name as closely as it must.
    fn calls(&self, token: Token) -> bool {
        let end = token.end as usize;
        if self.mode.ignore_space {
            let rest = &self.sql[end..];
            let space = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            return rest.get(space) == Some(&b'(');
        }
        self.sql.get(end) == Some(&b'(')
    }

    fn ident(&mut self) -> Result<Ident> {
        if self.at_ident() { self.take_ident() } else { Err(self.error()) }
    }

    /// An identifier after a dot, where reserved words are names too.
    fn ident_after_dot(&mut self) -> Result<Ident> {
        match self.token.kind {
            Kind::Word | Kind::Quoted | Kind::Introducer => self.take_ident(),
            _ => Err(self.error()),
        }
    }

    /// The token in hand as an identifier, whatever word it is.
    fn take_ident(&mut self) -> Result<Ident> {
        let bytes = self.bytes(self.token);
        let ident = match self.token.kind {
            Kind::Quoted => {
                let mut name = Vec::new();
                unquote(bytes, false, &mut name);
                if name.is_empty() {
                    return Err(self.error());
                }
                let name = String::from_utf8(name);
                Ident::new(name.map_err(|error| ParseError::invalid_name(error.as_bytes()))?)
            }
            _ => {
                Ident::new(std::str::from_utf8(bytes).map_err(|_| ParseError::invalid_name(bytes))?)
            }
        };
        self.advance();
        Ok(ident)
    }

    /// The token in hand as a name in lower case: of functions and variables.
    fn take_lower_ident(&mut self) -> Result<Ident> {
        let ident = self.take_ident()?;
        Ok(lower(&ident))
    }

    /// An identifier or a string.
    fn ident_or_text(&mut self) -> Result<Ident> {
        if self.at(Kind::String) { Ok(Ident::new(self.text()?)) } else { self.ident() }
    }

    /// `name` or `schema.name`.
    fn object_name(&mut self) -> Result<ObjectName> {
        if self.eat(Kind::Dot) {
            return Ok(ObjectName { schema: None, name: self.ident_after_dot()? });
        }
        let first = self.ident()?;
        if self.eat(Kind::Dot) {
            Ok(ObjectName { schema: Some(first), name: self.ident_after_dot()? })
        } else {
            Ok(ObjectName { schema: None, name: first })
        }
    }

    /// `column`, `table.column` or `schema.table.column`.
    fn column_ref(&mut self) -> Result<ColumnRef> {
        let first = self.ident()?;
        self.column_ref_after(first)
    }

    fn column_ref_after(&mut self, first: Ident) -> Result<ColumnRef> {
        if !self.eat(Kind::Dot) {
            return Ok(ColumnRef { table: None, column: first });
        }
        let second = self.ident_after_dot()?;
        if !self.eat(Kind::Dot) {
            let table = ObjectName { schema: None, name: first };
            return Ok(ColumnRef { table: Some(Box::new(table)), column: second });
        }
        let table = ObjectName { schema: Some(first), name: second };
        Ok(ColumnRef { table: Some(Box::new(table)), column: self.ident_after_dot()? })
    }

    /// `(name, …)`.
    fn ident_list(&mut self) -> Result<Vec<Ident>> {
        self.parenthesised_list(Self::ident)
    }

    fn optional_ident_list(&mut self) -> Result<Vec<Ident>> {
        if self.at(Kind::Open) { self.ident_list() } else { Ok(Vec::new()) }
    }

    // Values.

    /// The bytes of the string in hand and of those that follow it.
    fn string(&mut self) -> Result<Box<[u8]>> {
        if !matches!(self.token.kind, Kind::String | Kind::National) {
            return Err(self.error());
        }
        let mut value = Vec::new();
        self.append_string(&mut value);
        while self.at(Kind::String) {
            self.append_string(&mut value);
        }
        Ok(value.into_boxed_slice())
    }

    fn append_string(&mut self, value: &mut Vec<u8>) {
        let mut quoted = self.bytes(self.token);
        if self.at(Kind::National) {
            quoted = &quoted[1..];
        }
        if self.token.plain {
            value.extend_from_slice(&quoted[1..quoted.len() - 1])
        } else {
            unquote(quoted, !self.mode.no_backslash_escapes, value)
        }
        self.advance();
    }

    /// A string that is text for us: a path, a comment. What is not UTF-8 is replaced.
    fn text(&mut self) -> Result<Box<str>> {
        let bytes = self.string()?;
        Ok(String::from_utf8_lossy(&bytes).into())
    }

    /// The name of `@name`, in hand.
    fn user_variable(&mut self) -> Result<Ident> {
        if !self.at(Kind::Variable) {
            return Err(self.error());
        }
        let bytes = &self.bytes(self.token)[1..];
        let mut name = Vec::new();
        match bytes.first() {
            Some(b'\'' | b'"') => unquote(bytes, !self.mode.no_backslash_escapes, &mut name),
            Some(b'`') => unquote(bytes, false, &mut name),
            _ => name.extend_from_slice(bytes),
        }
        let name = String::from_utf8(name);
        let name = name.map_err(|error| ParseError::invalid_name(error.as_bytes()))?;
        self.advance();
        Ok(Ident::new(name))
    }

    /// A whole number; more than 64 bits is not one.
    fn number(&mut self) -> Result<u64> {
        let number = self.number_in_hand();
        match number {
            Some(number) => {
                self.advance();
                Ok(number)
            }
            None => Err(self.error()),
        }
    }

    fn number_in_hand(&self) -> Option<u64> {
        let bytes = self.bytes(self.token);
        match self.token.kind {
            Kind::Integer => parse_integer(bytes),
            Kind::Hex if bytes.starts_with(b"0x") && bytes.len() <= 18 => {
                u64::from_str_radix(std::str::from_utf8(&bytes[2..]).ok()?, 16).ok()
            }
            _ => None,
        }
    }

    /// A length or precision. One that is absurdly large stays so, for the check that refuses it.
    fn length(&mut self) -> Result<u32> {
        if !self.at(Kind::Integer) {
            return Err(self.error());
        }
        let number = self.number_in_hand().unwrap_or(u64::MAX);
        self.advance();
        Ok(u32::try_from(number).unwrap_or(u32::MAX))
    }

    /// `(length)`, if there is one.
    fn optional_length(&mut self) -> Result<Option<u32>> {
        if !self.eat(Kind::Open) {
            return Ok(None);
        }
        let length = self.length()?;
        self.expect(Kind::Close)?;
        Ok(Some(length))
    }

    /// The name of a character set, or DEFAULT.
    fn charset_or_default(&mut self) -> Result<CharacterSet> {
        if self.eat_word(Keyword::Default) {
            Ok(CharacterSet::Default)
        } else {
            self.charset_name().map(CharacterSet::Name)
        }
    }

    fn charset_name(&mut self) -> Result<Ident> {
        if self.eat_word(Keyword::Binary) {
            return Ok(Ident::from("binary"));
        }
        Ok(lower(&self.ident_or_text()?))
    }

    /// The name of a collation.
    fn collation_name(&mut self) -> Result<Ident> {
        self.charset_name()
    }

    /// CHARSET or CHARACTER SET, if they are next.
    fn eat_charset(&mut self) -> Result<bool> {
        if self.eat_word(Keyword::Charset) {
            return Ok(true);
        }
        let is_char = matches!(self.token.keyword, Keyword::Character | Keyword::Char);
        if is_char && self.peek().keyword == Keyword::Set {
            self.advance();
            self.advance();
            return Ok(true);
        }
        Ok(false)
    }

    // Lists.

    /// One or more elements between commas.
    fn list<T>(&mut self, mut element: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut elements = vec![element(self)?];
        while self.eat(Kind::Comma) {
            elements.push(element(self)?);
        }
        Ok(elements)
    }

    fn parenthesised_list<T>(
        &mut self,
        element: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        self.expect(Kind::Open)?;
        let elements = self.list(element)?;
        self.expect(Kind::Close)?;
        Ok(elements)
    }

    /// ORDER BY, if it is next.
    fn order_by(&mut self) -> Result<Vec<OrderItem>> {
        if self.eat_word(Keyword::Order) {
            self.expect_word(Keyword::By)?;
            self.list(Self::order_item)
        } else {
            Ok(Vec::new())
        }
    }

    fn order_item(&mut self) -> Result<OrderItem> {
        let expr = self.expr()?;
        Ok(OrderItem { expr, descending: self.descending() })
    }

    /// ASC or DESC, if they are next.
    fn descending(&mut self) -> bool {
        !self.eat_word(Keyword::Asc) && self.eat_word(Keyword::Desc)
    }

    /// LIMIT, if it is next.
    fn limit(&mut self) -> Result<Option<Limit>> {
        if !self.eat_word(Keyword::Limit) {
            return Ok(None);
        }
        let first = self.limit_value()?;
        if self.eat(Kind::Comma) {
            return Ok(Some(Limit { count: self.limit_value()?, offset: Some(first) }));
        }
        let offset = if self.eat_word(Keyword::Offset) { Some(self.limit_value()?) } else { None };
        Ok(Some(Limit { count: first, offset }))
    }

    /// LIMIT without an offset: of UPDATE and DELETE.
    fn simple_limit(&mut self) -> Result<Option<Limit>> {
        if self.eat_word(Keyword::Limit) {
            Ok(Some(Limit { count: self.limit_value()?, offset: None }))
        } else {
            Ok(None)
        }
    }

    fn limit_value(&mut self) -> Result<Expr> {
        match self.token.kind {
            Kind::Integer if self.number_in_hand().is_none() => Err(self.error()),
            Kind::Integer | Kind::Parameter => self.primary(),
            _ if self.at_ident() => {
                let column = self.ident()?;
                Ok(Expr::Column(ColumnRef { table: None, column }))
            }
            _ => Err(self.error()),
        }
    }
}

#[cfg(test)]
mod tests;

/// The value of digits, unless 64 bits are too few.
pub(crate) fn parse_integer(digits: &[u8]) -> Option<u64> {
    if digits.len() < 19 {
        return Some(digits.iter().fold(0, |n, digit| n * 10 + u64::from(digit - b'0')));
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn lower(ident: &Ident) -> Ident {
    if ident.as_str().bytes().any(|byte| byte.is_ascii_uppercase()) {
        Ident::new(ident.as_str().to_ascii_lowercase())
    } else {
        ident.clone()
    }
}
