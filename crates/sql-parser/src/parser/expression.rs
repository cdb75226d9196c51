//! Operators: MySQL's precedence, and what may follow what.
//!
//! # Invariants
//! 1. Levels are those of MySQL's grammar, which is not one ladder of precedence: the operand of
//!    LIKE is narrower than that of REGEXP, and nothing compares the outcome of IS TRUE.

use super::{Parser, Result};
use crate::ast::{
    BinaryOp, Expr, FunctionCall, Ident, IntervalUnit, Quantifier, Query, Truth, UnaryOp,
};
use crate::keyword::Keyword as K;
use crate::lexer::Kind;

/// How tightly an operator binds. An operand is parsed with the loosest level it may contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Level {
    Or,
    Xor,
    And,
    Not,
    /// IS TRUE and its kin, which nothing but AND, OR, XOR follows.
    Truth,
    /// `=`, `<`, IS NULL, from left to right.
    Comparison,
    /// LIKE, IN, BETWEEN, REGEXP, none of which follows another.
    Predicate,
    BitOr,
    BitAnd,
    Shift,
    Add,
    Multiply,
    BitXor,
    /// `||` with PIPES_AS_CONCAT.
    Concat,
    /// Only operands with their signs.
    Operand,
}

impl Level {
    /// The next tighter level.
    fn tighter(self) -> Self {
        use Level::*;
        const LEVELS: [Level; 15] = [
            Or, Xor, And, Not, Truth, Comparison, Predicate, BitOr, BitAnd, Shift, Add, Multiply,
            BitXor, Concat, Operand,
        ];
        LEVELS[(self as usize + 1).min(LEVELS.len() - 1)]
    }
}

/// What stands between parentheses in an expression.
pub(super) enum Parenthesised {
    Query(Box<Query>),
    List(Vec<Expr>),
}

impl Parenthesised {
    pub(super) fn into_expr(self) -> Expr {
        match self {
            Self::Query(query) => Expr::Subquery(query),
            Self::List(mut list) if list.len() == 1 => list.remove(0),
            Self::List(list) => Expr::Row(list),
        }
    }
}

impl Parser<'_> {
    /// An expression.
    pub(super) fn expr(&mut self) -> Result<Expr> {
        self.operators(Level::Or, None)
    }

    /// An expression whose first operand was parsed already.
    pub(super) fn expr_from(&mut self, first: Expr) -> Result<Expr> {
        self.operators(Level::Or, Some(first))
    }

    /// What MySQL's grammar calls `bit_expr`.
    pub(super) fn bit_expr(&mut self) -> Result<Expr> {
        self.operators(Level::BitOr, None)
    }

    /// What MySQL's grammar calls `simple_expr`.
    pub(super) fn simple_expr(&mut self) -> Result<Expr> {
        self.operators(Level::Concat, None)
    }

    pub(super) fn boxed_expr(&mut self) -> Result<Box<Expr>> {
        self.expr().map(Box::new)
    }

    /// Operators of `min` and tighter levels, and their operands.
    fn operators(&mut self, min: Level, first: Option<Expr>) -> Result<Expr> {
        let entered = self.enter()?;
        // Operators of a tighter level than this cannot follow: they would have been taken.
        let mut max = Level::Concat;
        let mut left = match first {
            Some(first) => self.collated(first)?,
            None if self.at_word(K::Not) && !self.mode.high_not_precedence => {
                if min > Level::Not {
                    return Err(self.error());
                }
                max = Level::And;
                self.negation()?
            }
            None => self.operand()?,
        };
        while let Some(level) = self.level_in_hand() {
            if level < min || level > max {
                break;
            }
            self.grow()?;
            left = match level {
                Level::Or | Level::And => self.logical_chain(level, left)?,
                Level::Truth => {
                    max = Level::And;
                    self.is(left)?
                }
                Level::Comparison => {
                    max = Level::Comparison;
                    self.comparison(left)?
                }
                Level::Predicate => {
                    max = Level::Comparison;
                    self.predicate(left)?
                }
                _ => self.binary(left, level)?,
            };
        }
        self.leave(entered)?;
        Ok(left)
    }

    /// The level of the operator in hand, if it is one.
    fn level_in_hand(&self) -> Option<Level> {
        Some(match self.token.kind {
            Kind::Word => match self.token.keyword {
                K::Or => Level::Or,
                K::Xor => Level::Xor,
                K::And => Level::And,
                K::Is => self.level_of_is(),
                K::Between | K::In | K::Like | K::Regexp | K::Rlike => Level::Predicate,
                K::Member if self.at_member_of() => Level::Predicate,
                K::Sounds if self.peek().keyword == K::Like => Level::Predicate,
                K::Not => match self.peek().keyword {
                    K::Between | K::In | K::Like | K::Regexp | K::Rlike => Level::Predicate,
                    _ => return None,
                },
                K::Div | K::Mod => Level::Multiply,
                _ => return None,
            },
            Kind::Pipes if self.mode.pipes_as_concat => Level::Concat,
            Kind::Pipes => Level::Or,
            Kind::Ampersands => Level::And,
            Kind::Equal
            | Kind::NullSafeEqual
            | Kind::NotEqual
            | Kind::Less
            | Kind::LessOrEqual
            | Kind::Greater
            | Kind::GreaterOrEqual => Level::Comparison,
            Kind::Pipe => Level::BitOr,
            Kind::Ampersand => Level::BitAnd,
            Kind::ShiftLeft | Kind::ShiftRight => Level::Shift,
            Kind::Plus | Kind::Minus => Level::Add,
            Kind::Star | Kind::Slash | Kind::Percent => Level::Multiply,
            Kind::Caret => Level::BitXor,
            _ => return None,
        })
    }

    fn level_of_is(&self) -> Level {
        let next = match self.peek().keyword {
            K::Not => self.peek_second().keyword,
            word => word,
        };
        if next == K::Null { Level::Comparison } else { Level::Truth }
    }

    /// `MEMBER OF (`, or `MEMBER (`: MEMBER alone is an identifier.
    fn at_member_of(&self) -> bool {
        let next = self.peek();
        next.keyword == K::Of || next.kind == Kind::Open
    }

    fn negation(&mut self) -> Result<Expr> {
        self.advance();
        let operand = Box::new(self.operators(Level::Not, None)?);
        Ok(Expr::Unary { op: UnaryOp::Not, operand })
    }

    /// All operands of one level at once: beside each other they do not make the tree higher.
    fn logical_chain(&mut self, level: Level, first: Expr) -> Result<Expr> {
        let mut list = vec![first];
        while self.level_in_hand() == Some(level) {
            self.advance();
            list.push(self.operators(level.tighter(), None)?);
        }
        Ok(if level == Level::Or { Expr::Or(list) } else { Expr::And(list) })
    }

    /// `left IS …`, all kinds.
    fn is(&mut self, left: Expr) -> Result<Expr> {
        self.expect_word(K::Is)?;
        let negated = self.eat_word(K::Not);
        let operand = Box::new(left);
        if self.eat_word(K::Null) {
            return Ok(Expr::IsNull { operand, negated });
        }
        let value = match self.token.keyword {
            K::True => Truth::True,
            K::False => Truth::False,
            K::Unknown => Truth::Unknown,
            _ => return Err(self.error()),
        };
        self.advance();
        Ok(Expr::IsTruth { operand, value, negated })
    }

    fn comparison(&mut self, left: Expr) -> Result<Expr> {
        if self.at_word(K::Is) {
            return self.is(left);
        }
        let op = match self.token.kind {
            Kind::Equal => BinaryOp::Equal,
            Kind::NullSafeEqual => BinaryOp::NullSafeEqual,
            Kind::NotEqual => BinaryOp::NotEqual,
            Kind::Less => BinaryOp::Less,
            Kind::LessOrEqual => BinaryOp::LessOrEqual,
            Kind::Greater => BinaryOp::Greater,
            Kind::GreaterOrEqual => BinaryOp::GreaterOrEqual,
            _ => return Err(self.error()),
        };
        self.advance();
        let quantifier = match self.token.keyword {
            K::All => Some(Quantifier::All),
            K::Any | K::Some if self.next_is(Kind::Open, b'(') => Some(Quantifier::Any),
            _ => None,
        };
        let Some(quantifier) = quantifier else {
            let right = Box::new(self.operators(Level::Predicate, None)?);
            return Ok(Expr::Binary { op, left: Box::new(left), right });
        };
        self.advance();
        let query = self.subquery()?;
        Ok(Expr::Quantified { op, operand: Box::new(left), quantifier, query })
    }

    /// `left [NOT] IN …` and the others of its level.
    fn predicate(&mut self, left: Expr) -> Result<Expr> {
        let negated = self.eat_word(K::Not);
        let word = self.token.keyword;
        self.advance();
        let operand = Box::new(left);
        match word {
            K::In => match self.parenthesised()? {
                Parenthesised::Query(query) => Ok(Expr::InQuery { operand, query, negated }),
                Parenthesised::List(list) => Ok(Expr::InList { operand, list, negated }),
            },
            K::Between => {
                let low = Box::new(self.bit_expr()?);
                self.expect_word(K::And)?;
                let high = Box::new(self.operators(Level::Predicate, None)?);
                Ok(Expr::Between { operand, low, high, negated })
            }
            K::Like => {
                let pattern = Box::new(self.simple_expr()?);
                let escape = if self.eat_word(K::Escape) {
                    Some(Box::new(self.simple_expr()?))
                } else {
                    None
                };
                Ok(Expr::Like { operand, pattern, escape, negated })
            }
            K::Regexp | K::Rlike => {
                let pattern = self.bit_expr()?;
                let matched = call("regexp_like", vec![*operand, pattern]);
                Ok(if negated {
                    Expr::Unary { op: UnaryOp::Not, operand: Box::new(matched) }
                } else {
                    matched
                })
            }
            K::Sounds => {
                self.expect_word(K::Like)?;
                let other = self.bit_expr()?;
                let left = Box::new(call("soundex", vec![*operand]));
                let right = Box::new(call("soundex", vec![other]));
                self.grow()?;
                Ok(Expr::Binary { op: BinaryOp::Equal, left, right })
            }
            _ => {
                self.eat_word(K::Of);
                self.expect(Kind::Open)?;
                let array = Box::new(self.simple_expr()?);
                self.expect(Kind::Close)?;
                Ok(Expr::MemberOf { operand, array })
            }
        }
    }

    /// The operators that are two operands and nothing else.
    fn binary(&mut self, left: Expr, level: Level) -> Result<Expr> {
        let op = match (self.token.kind, self.token.keyword) {
            (_, K::Xor) => BinaryOp::Xor,
            (_, K::Div) => BinaryOp::IntegerDivide,
            (_, K::Mod) | (Kind::Percent, _) => BinaryOp::Modulo,
            (Kind::Pipe, _) => BinaryOp::BitOr,
            (Kind::Ampersand, _) => BinaryOp::BitAnd,
            (Kind::ShiftLeft, _) => BinaryOp::ShiftLeft,
            (Kind::ShiftRight, _) => BinaryOp::ShiftRight,
            (Kind::Plus, _) => BinaryOp::Add,
            (Kind::Minus, _) => BinaryOp::Subtract,
            (Kind::Star, _) => BinaryOp::Multiply,
            (Kind::Slash, _) => BinaryOp::Divide,
            (Kind::Caret, _) => BinaryOp::BitXor,
            (Kind::Pipes, _) => {
                self.advance();
                let right = self.operators(Level::Operand, None)?;
                return Ok(call("concat", vec![left, right]));
            }
            _ => return Err(self.error()),
        };
        self.advance();
        if level == Level::Add && self.at_word(K::Interval) {
            return self.add_interval(left, op);
        }
        let right = Box::new(self.operators(level.tighter(), None)?);
        Ok(Expr::Binary { op, left: Box::new(left), right })
    }

    /// After `left +` or `left -`, at INTERVAL: an interval, or the function of this name.
    fn add_interval(&mut self, left: Expr, op: BinaryOp) -> Result<Expr> {
        let left = Box::new(left);
        match self.interval()? {
            Interval::Amount(amount, unit) => Ok(Expr::DateArithmetic {
                operand: left,
                subtract: op == BinaryOp::Subtract,
                amount,
                unit,
            }),
            Interval::Function(call) => {
                let right = Box::new(self.operators(Level::Multiply, Some(call))?);
                Ok(Expr::Binary { op, left, right })
            }
        }
    }

    /// At INTERVAL where an operand is expected: `INTERVAL 1 DAY + date`, or the function.
    pub(super) fn interval_operand(&mut self) -> Result<Expr> {
        match self.interval()? {
            Interval::Function(call) => Ok(call),
            Interval::Amount(amount, unit) => {
                self.expect(Kind::Plus)?;
                let operand = Box::new(self.operators(Level::Not, None)?);
                Ok(Expr::DateArithmetic { operand, subtract: false, amount, unit })
            }
        }
    }

    fn interval(&mut self) -> Result<Interval> {
        self.expect_word(K::Interval)?;
        let amount = if self.at(Kind::Open) {
            match self.parenthesised()? {
                Parenthesised::List(list) if list.len() > 1 => {
                    return Ok(Interval::Function(call("interval", list)));
                }
                first => self.expr_from(first.into_expr())?,
            }
        } else {
            self.expr()?
        };
        Ok(Interval::Amount(Box::new(amount), self.interval_unit()?))
    }

    /// `INTERVAL amount unit`, where nothing else can stand.
    pub(super) fn plain_interval(&mut self) -> Result<(Box<Expr>, IntervalUnit)> {
        self.expect_word(K::Interval)?;
        let amount = self.boxed_expr()?;
        Ok((amount, self.interval_unit()?))
    }

    /// At `(`: a query, one expression, or several.
    pub(super) fn parenthesised(&mut self) -> Result<Parenthesised> {
        let entered = self.enter()?;
        self.expect(Kind::Open)?;
        let inside = if self.at_query() {
            Parenthesised::Query(Box::new(self.query()?))
        } else if self.at(Kind::Open) {
            match self.parenthesised()? {
                Parenthesised::Query(query) if self.at_query_continuation() => {
                    Parenthesised::Query(Box::new(self.query_from(query)?))
                }
                Parenthesised::Query(query) if self.at(Kind::Close) => Parenthesised::Query(query),
                first => {
                    let first = self.expr_from(first.into_expr())?;
                    Parenthesised::List(self.list_from(first)?)
                }
            }
        } else {
            let first = self.expr()?;
            Parenthesised::List(self.list_from(first)?)
        };
        self.expect(Kind::Close)?;
        self.leave(entered)?;
        Ok(inside)
    }

    fn list_from(&mut self, first: Expr) -> Result<Vec<Expr>> {
        let mut list = vec![first];
        while self.eat(Kind::Comma) {
            list.push(self.expr()?);
        }
        Ok(list)
    }

    /// `(SELECT …)`, where nothing but a query can stand.
    pub(super) fn subquery(&mut self) -> Result<Box<Query>> {
        match self.parenthesised()? {
            Parenthesised::Query(query) => Ok(query),
            Parenthesised::List(_) => Err(self.error()),
        }
    }

    /// `operand COLLATE name`, as often as it is there.
    pub(super) fn collated(&mut self, mut operand: Expr) -> Result<Expr> {
        while self.eat_word(K::Collate) {
            self.grow()?;
            let collation = self.collation_name()?;
            operand = Expr::Collate { operand: Box::new(operand), collation };
        }
        Ok(operand)
    }
}

enum Interval {
    Amount(Box<Expr>, IntervalUnit),
    Function(Expr),
}

/// A call of a function by its name in lower case.
pub(super) fn call(name: &str, arguments: Vec<Expr>) -> Expr {
    Expr::Function(Box::new(FunctionCall { schema: None, name: Ident::from(name), arguments }))
}
