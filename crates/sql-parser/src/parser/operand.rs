//! What stands between operators: literals, names, variables, and the ways into functions.

use super::expression::call;
use super::{Parser, Result, lower, parse_integer};
use crate::ast::{
    Case, CastKind, CastTarget, ColumnRef, Expr, Ident, IntroducedLiteral, Literal, MatchAgainst,
    ObjectName, SystemVariable, TemporalKind, UnaryOp, VariableScope,
};
use crate::keyword::Keyword as K;
use crate::lexer::{Kind, literal};

impl Parser<'_> {
    /// An operand with its signs and its COLLATE.
    pub(super) fn operand(&mut self) -> Result<Expr> {
        let op = match self.token.kind {
            Kind::Minus => Some(UnaryOp::Minus),
            Kind::Tilde => Some(UnaryOp::BitNot),
            Kind::Bang => Some(UnaryOp::Not),
            Kind::Plus => None,
            Kind::Word if self.at_word(K::Binary) => None,
            // Only with HIGH_NOT_PRECEDENCE does NOT get here.
            Kind::Word if self.at_word(K::Not) && self.mode.high_not_precedence => {
                Some(UnaryOp::Not)
            }
            _ => {
                let primary = self.primary()?;
                return self.collated(primary);
            }
        };
        let entered = self.enter()?;
        let is_cast = self.at_word(K::Binary);
        self.advance();
        let operand = self.operand()?;
        self.leave(entered)?;
        let operand = match op {
            Some(op) => Expr::Unary { op, operand: Box::new(operand) },
            None if is_cast => {
                let kind = CastKind::Binary(None);
                let target = Box::new(CastTarget { kind, array: false, time_zone: None });
                Expr::Cast { operand: Box::new(operand), target }
            }
            None => operand,
        };
        Ok(operand)
    }

    /// An operand without sign and COLLATE.
    pub(super) fn primary(&mut self) -> Result<Expr> {
        match self.token.kind {
            Kind::Integer
            | Kind::Decimal
            | Kind::Float
            | Kind::String
            | Kind::National
            | Kind::Hex
            | Kind::Bit
            | Kind::NullEscape => self.literal(),
            Kind::Word => self.word_operand(),
            Kind::Quoted => self.name_operand(),
            Kind::Introducer => match self.introduced_literal()? {
                Some(literal) => Ok(Expr::Literal(literal)),
                None => self.name_operand(),
            },
            Kind::Open => Ok(self.parenthesised()?.into_expr()),
            Kind::Parameter => {
                self.advance();
                Ok(self.new_parameter())
            }
            Kind::Variable => self.variable_operand(),
            Kind::At => self.system_variable(),
            Kind::OpenBrace => self.braces(),
            _ => Err(self.error()),
        }
    }

    fn new_parameter(&mut self) -> Expr {
        self.parameters += 1;
        Expr::Parameter(self.parameters - 1)
    }

    /// A value in a row of VALUES or an assignment: an expression or DEFAULT.
    pub(super) fn value(&mut self) -> Result<Expr> {
        match self.token.kind {
            // Rows of literals are what long statements consist of.
            Kind::Integer | Kind::Decimal | Kind::Float | Kind::String => {
                let literal = self.literal()?;
                match self.token.kind {
                    Kind::Comma | Kind::Close => Ok(literal),
                    _ => self.expr_from(literal),
                }
            }
            Kind::Word if self.at_word(K::Default) && !self.next_is(Kind::Open, b'(') => {
                self.advance();
                Ok(Expr::DefaultValue)
            }
            _ => self.expr(),
        }
    }

    /// At a literal that has no words: its value, or the parameter that replaces it.
    pub(super) fn literal(&mut self) -> Result<Expr> {
        if let Some((span, rest)) = self.literals.split_first()
            && span.start == self.token.start
        {
            self.literals = rest;
            self.advance();
            return Ok(self.new_parameter());
        }
        let bytes = self.bytes(self.token);
        let literal = match self.token.kind {
            Kind::Integer => match parse_integer(bytes) {
                Some(number) => Literal::Integer(number),
                None => Literal::Decimal(ascii(bytes)),
            },
            Kind::Decimal => Literal::Decimal(ascii(bytes)),
            Kind::Float => Literal::Float(ascii(bytes)),
            Kind::String => return Ok(Expr::Literal(Literal::String(self.string()?))),
            Kind::National => return Ok(Expr::Literal(Literal::National(self.string()?))),
            Kind::Hex => Literal::Hex(literal::hex(digits(bytes)).into()),
            Kind::Bit => Literal::Bit(literal::bits(digits(bytes)).into()),
            Kind::NullEscape => Literal::Null,
            _ => return Err(self.error()),
        };
        self.advance();
        Ok(Expr::Literal(literal))
    }

    /// At `_name`: the literal whose character set it is; none if it is a plain identifier.
    fn introduced_literal(&mut self) -> Result<Option<Literal>> {
        let name = &self.bytes(self.token)[1..];
        let Some(charset) = CHARSETS.iter().find(|set| name.eq_ignore_ascii_case(set.as_bytes()))
        else {
            return Ok(None);
        };
        let next = self.peek();
        if !matches!(next.kind, Kind::String | Kind::Hex | Kind::Bit) {
            return Ok(None);
        }
        self.advance();
        let bytes = self.bytes(self.token);
        let value = match self.token.kind {
            Kind::String => self.string()?,
            kind => {
                self.advance();
                match kind {
                    Kind::Hex => literal::hex(digits(bytes)).into(),
                    _ => literal::bits(digits(bytes)).into(),
                }
            }
        };
        let charset = Ident::from(if *charset == "utf8" { "utf8mb3" } else { *charset });
        Ok(Some(Literal::Introduced(Box::new(IntroducedLiteral { charset, value }))))
    }

    /// At a word.
    fn word_operand(&mut self) -> Result<Expr> {
        let word = self.token.keyword;
        let literal = match word {
            K::None => return self.name_operand(),
            K::Null => Some(Literal::Null),
            K::True => Some(Literal::Bool(true)),
            K::False => Some(Literal::Bool(false)),
            _ => None,
        };
        if let Some(literal) = literal {
            self.advance();
            return Ok(Expr::Literal(literal));
        }
        match word {
            K::Case => return self.case(),
            K::Exists => {
                self.advance();
                return Ok(Expr::Exists(self.subquery()?));
            }
            K::Row if self.next_is(Kind::Open, b'(') => return self.row(),
            K::Interval => return self.interval_operand(),
            K::Match => return self.match_against(),
            K::Default | K::Values => return self.column_function(word),
            K::Date | K::Time | K::Timestamp if self.peek().kind == Kind::String => {
                return self.temporal_literal(word);
            }
            _ => {}
        }
        match self.special_function(word)? {
            Some(expr) => Ok(expr),
            None => self.name_operand(),
        }
    }

    fn row(&mut self) -> Result<Expr> {
        self.advance();
        let list = self.parenthesised_list(Self::expr)?;
        match list.len() {
            1 => Err(self.error()),
            _ => Ok(Expr::Row(list)),
        }
    }

    /// `DEFAULT(column)` and `VALUES(column)`.
    fn column_function(&mut self, word: K) -> Result<Expr> {
        self.advance();
        self.expect(Kind::Open)?;
        let column = self.column_ref()?;
        self.expect(Kind::Close)?;
        Ok(if word == K::Default { Expr::DefaultOf(column) } else { Expr::ValuesOf(column) })
    }

    fn temporal_literal(&mut self, word: K) -> Result<Expr> {
        self.advance();
        let kind = match word {
            K::Date => TemporalKind::Date,
            K::Time => TemporalKind::Time,
            _ => TemporalKind::Timestamp,
        };
        Ok(Expr::Literal(Literal::Temporal(kind, self.text()?)))
    }

    fn case(&mut self) -> Result<Expr> {
        self.advance();
        let operand = if self.at_word(K::When) { None } else { Some(self.expr()?) };
        let mut branches = Vec::new();
        while self.eat_word(K::When) {
            let when = self.expr()?;
            self.expect_word(K::Then)?;
            branches.push((when, self.expr()?));
        }
        if branches.is_empty() {
            return Err(self.error());
        }
        let otherwise = if self.eat_word(K::Else) { Some(self.expr()?) } else { None };
        self.expect_word(K::End)?;
        Ok(Expr::Case(Box::new(Case { operand, branches, otherwise })))
    }

    fn match_against(&mut self) -> Result<Expr> {
        self.advance();
        let columns = if self.at(Kind::Open) {
            self.parenthesised_list(Self::column_ref)?
        } else {
            self.list(Self::column_ref)?
        };
        self.expect_word(K::Against)?;
        self.expect(Kind::Open)?;
        let query = self.bit_expr()?;
        let (mut boolean, mut expansion) = (false, false);
        // `IN` after the words would have been an operator of a wider expression.
        if self.eat_words(&[K::In, K::Boolean, K::Mode]) {
            boolean = true;
        } else {
            self.eat_words(&[K::In, K::Natural, K::Language, K::Mode]);
            expansion = self.eat_words(&[K::With, K::Query, K::Expansion]);
        }
        self.expect(Kind::Close)?;
        Ok(Expr::Match(Box::new(MatchAgainst { columns, query, boolean, expansion })))
    }

    /// `@name`, or `@name := value`.
    fn variable_operand(&mut self) -> Result<Expr> {
        let variable = self.user_variable()?;
        if self.eat(Kind::Assign) {
            Ok(Expr::Assign { variable, value: self.boxed_expr()? })
        } else {
            Ok(Expr::UserVariable(variable))
        }
    }

    fn system_variable(&mut self) -> Result<Expr> {
        self.expect(Kind::At)?;
        let scope = match self.peek().kind {
            Kind::Dot => self.variable_scope(),
            _ => None,
        };
        if scope.is_some() {
            self.advance();
            self.expect(Kind::Dot)?;
        }
        let mut name = self.lower_word()?;
        let mut component = None;
        if self.eat(Kind::Dot) {
            component = Some(name);
            name = self.lower_word()?;
        }
        Ok(Expr::SystemVariable(Box::new(SystemVariable { scope, component, name })))
    }

    /// The scope that the word in hand is; it is not consumed.
    pub(super) fn variable_scope(&self) -> Option<VariableScope> {
        match self.token.keyword {
            K::Global => Some(VariableScope::Global),
            K::Session | K::Local => Some(VariableScope::Session),
            K::Persist => Some(VariableScope::Persist),
            K::PersistOnly => Some(VariableScope::PersistOnly),
            _ => None,
        }
    }

    /// A name of any kind, reserved words too, in lower case.
    pub(super) fn lower_word(&mut self) -> Result<Ident> {
        Ok(lower(&self.ident_after_dot()?))
    }

    /// `{d '2020-01-01'}`, `{fn now()}`.
    fn braces(&mut self) -> Result<Expr> {
        let entered = self.enter()?;
        self.advance();
        let word = self.lower_word()?;
        let kind = match word.as_str() {
            "d" => Some(TemporalKind::Date),
            "t" => Some(TemporalKind::Time),
            "ts" => Some(TemporalKind::Timestamp),
            _ => None,
        };
        let expr = match kind {
            Some(kind) if self.at(Kind::String) => {
                Expr::Literal(Literal::Temporal(kind, self.text()?))
            }
            _ => self.expr()?,
        };
        self.expect(Kind::CloseBrace)?;
        self.leave(entered)?;
        Ok(expr)
    }

    /// A column, a call by name, or a path into a JSON column.
    fn name_operand(&mut self) -> Result<Expr> {
        let first = self.ident()?;
        if self.at(Kind::Open) {
            return self.call_by_name(None, lower(&first));
        }
        let column = self.column_ref_after(first)?;
        if self.at(Kind::Open) {
            return match column.table {
                Some(table) if table.schema.is_none() => {
                    let ObjectName { name: schema, .. } = *table;
                    self.call_by_name(Some(schema), lower(&column.column))
                }
                _ => Err(self.error()),
            };
        }
        self.json_path(column)
    }

    /// A column, and what `->` or `->>` takes out of it.
    fn json_path(&mut self, column: ColumnRef) -> Result<Expr> {
        let unquote = match self.token.kind {
            Kind::Arrow => false,
            Kind::LongArrow => true,
            _ => return Ok(Expr::Column(column)),
        };
        self.advance();
        if !self.at(Kind::String) {
            return Err(self.error());
        }
        let path = Expr::Literal(Literal::String(self.string()?));
        self.grow()?;
        let extracted = call("json_extract", vec![Expr::Column(column), path]);
        if !unquote {
            return Ok(extracted);
        }
        self.grow()?;
        Ok(call("json_unquote", vec![extracted]))
    }
}

fn ascii(bytes: &[u8]) -> Box<str> {
    String::from_utf8_lossy(bytes).into()
}

/// The digits of `x'4D'`, `0x4D`, `b'01'`, `0b01`.
fn digits(bytes: &[u8]) -> &[u8] {
    match bytes[1] {
        b'\'' => &bytes[2..bytes.len() - 1],
        _ => &bytes[2..],
    }
}

/// The character sets of MySQL 8.0: `_name` before a literal is only one of these.
const CHARSETS: [&str; 42] = [
    "utf8mb4", "utf8mb3", "utf8", "binary", "latin1", "ascii", "armscii8", "big5", "cp1250",
    "cp1251", "cp1256", "cp1257", "cp850", "cp852", "cp866", "cp932", "dec8", "eucjpms", "euckr",
    "gb18030", "gb2312", "gbk", "geostd8", "greek", "hebrew", "hp8", "keybcs2", "koi8r", "koi8u",
    "latin2", "latin5", "latin7", "macce", "macroman", "sjis", "swe7", "tis620", "ucs2", "ujis",
    "utf16", "utf16le", "utf32",
];
