//! Functions that are words of the grammar: those with a syntax of their own, those whose name is
//! reserved, aggregates, and the ones MySQL knows by several names.

use super::expression::call;
use super::{Parser, Result};
use crate::ast::{
    AggregateCall, AggregateFunction as Aggregate, BinaryOp, CastKind, CastTarget, CharacterSet,
    Expr, FormatKind, FunctionCall, Ident, IntervalUnit, JsonValue, JsonValueResponse, Literal,
    TrimSide, UnaryOp, WindowCall, WindowFunction as Window,
};
use crate::keyword::{Class, Keyword as K};
use crate::lexer::Kind;

impl Parser<'_> {
    /// At a word: the call it begins, if it is a function of the grammar.
    pub(super) fn special_function(&mut self, word: K) -> Result<Option<Expr>> {
        let is_call = match word.class() {
            Some(Class::Function) => self.calls(self.token),
            _ => self.next_is(Kind::Open, b'('),
        };
        if !is_call {
            return self.function_without_arguments(word);
        }
        if let Some(function) = aggregate_of(word) {
            return self.aggregate(function).map(Some);
        }
        if let Some(function) = window_of(word) {
            return self.window_function(function).map(Some);
        }
        if let Some(name) = renamed(word) {
            self.advance();
            return self.call_by_name(None, Ident::from(name)).map(Some);
        }
        let parse: fn(&mut Self) -> Result<Expr> = match word {
            K::Cast => Self::cast,
            K::Convert => Self::convert,
            K::Char => Self::char_function,
            K::Extract => Self::extract,
            K::Trim => Self::trim,
            K::Position => Self::position,
            K::Substr | K::Substring | K::Mid => Self::substring,
            K::DateAdd => |parser| parser.date_function(false, false),
            K::DateSub => |parser| parser.date_function(true, false),
            K::Adddate => |parser| parser.date_function(false, true),
            K::Subdate => |parser| parser.date_function(true, true),
            K::Timestampadd => Self::timestamp_add,
            K::Timestampdiff => Self::timestamp_diff,
            K::GetFormat => Self::get_format,
            K::WeightString => Self::weight_string,
            K::JsonValue => Self::json_value,
            K::Mod => Self::modulo,
            _ => return Ok(None),
        };
        self.advance();
        self.expect(Kind::Open)?;
        let expr = parse(self)?;
        self.expect(Kind::Close)?;
        Ok(Some(expr))
    }

    /// CURRENT_DATE and its kin, which need no parentheses.
    fn function_without_arguments(&mut self, word: K) -> Result<Option<Expr>> {
        let is_bare = matches!(
            word,
            K::CurrentDate
                | K::CurrentTime
                | K::CurrentTimestamp
                | K::CurrentUser
                | K::Localtime
                | K::Localtimestamp
                | K::UtcDate
                | K::UtcTime
                | K::UtcTimestamp
        );
        let Some(name) = renamed(word).filter(|_| is_bare) else { return Ok(None) };
        self.advance();
        Ok(Some(call(name, Vec::new())))
    }

    /// At the parenthesis after a function's name in lower case.
    pub(super) fn call_by_name(&mut self, schema: Option<Ident>, name: Ident) -> Result<Expr> {
        let arguments = self.arguments()?;
        Ok(Expr::Function(Box::new(FunctionCall { schema, name, arguments })))
    }

    /// `(a, …)`, also empty.
    pub(super) fn arguments(&mut self) -> Result<Vec<Expr>> {
        self.expect(Kind::Open)?;
        if self.eat(Kind::Close) {
            return Ok(Vec::new());
        }
        let arguments = self.list(Self::expr)?;
        self.expect(Kind::Close)?;
        Ok(arguments)
    }

    fn cast(&mut self) -> Result<Expr> {
        let operand = self.boxed_expr()?;
        let mut time_zone = None;
        // AT LOCAL means the session's zone, where a TIMESTAMP is already.
        if self.eat_text("AT") && !self.eat_word(K::Local) {
            self.expect_words(&[K::Time, K::Zone])?;
            self.eat_word(K::Interval);
            time_zone = Some(match self.text()? {
                zone if zone.eq_ignore_ascii_case("UTC") => "+00:00".into(),
                zone => zone,
            });
        }
        self.expect_word(K::As)?;
        let kind = self.cast_kind()?;
        let array = self.eat_word(K::Array);
        Ok(Expr::Cast { operand, target: Box::new(CastTarget { kind, array, time_zone }) })
    }

    fn convert(&mut self) -> Result<Expr> {
        let operand = self.boxed_expr()?;
        if self.eat_word(K::Using) {
            return Ok(Expr::ConvertUsing { operand, charset: self.charset_or_default()? });
        }
        self.expect(Kind::Comma)?;
        let kind = self.cast_kind()?;
        let target = Box::new(CastTarget { kind, array: false, time_zone: None });
        Ok(Expr::Cast { operand, target })
    }

    pub(super) fn cast_kind(&mut self) -> Result<CastKind> {
        let word = self.token.keyword;
        if let Some(kind) = self.geometry_kind() {
            return Ok(CastKind::Geometry(kind));
        }
        self.advance();
        Ok(match word {
            K::Binary => CastKind::Binary(self.optional_length()?),
            K::Char | K::Character => {
                let length = self.optional_length()?;
                CastKind::Char(length, self.cast_charset()?)
            }
            K::Nchar => self.national_cast()?,
            K::National => {
                if self.eat_any(&[K::Char, K::Character]).is_none() {
                    return Err(self.error());
                }
                self.national_cast()?
            }
            K::Signed => {
                self.eat_any(&[K::Int, K::Integer]);
                CastKind::Signed
            }
            K::Unsigned => {
                self.eat_any(&[K::Int, K::Integer]);
                CastKind::Unsigned
            }
            K::Date => CastKind::Date,
            K::Time => CastKind::Time(self.optional_length()?),
            K::Datetime => CastKind::DateTime(self.optional_length()?),
            K::Year => CastKind::Year,
            K::Decimal | K::Dec => CastKind::Decimal(self.cast_precision()?),
            K::Float => CastKind::Float(self.optional_length()?),
            K::Double => {
                self.eat_word(K::Precision);
                CastKind::Double
            }
            K::Real => CastKind::Real,
            K::Json => CastKind::Json,
            _ => return Err(self.error_before()),
        })
    }

    /// CHAR of a CAST: the character set, in each of its spellings.
    fn cast_charset(&mut self) -> Result<Option<CharacterSet>> {
        let name = match self.token.keyword {
            K::Ascii => "latin1",
            K::Unicode => "ucs2",
            K::Byte => "binary",
            _ => {
                return if self.eat_charset()? {
                    self.charset_or_default().map(Some)
                } else {
                    Ok(None)
                };
            }
        };
        self.advance();
        Ok(Some(CharacterSet::Name(Ident::from(name))))
    }

    fn national_cast(&mut self) -> Result<CastKind> {
        let length = self.optional_length()?;
        Ok(CastKind::Char(length, Some(CharacterSet::Name(Ident::from("utf8mb3")))))
    }

    fn cast_precision(&mut self) -> Result<Option<(u32, u32)>> {
        if !self.eat(Kind::Open) {
            return Ok(None);
        }
        let precision = self.length()?;
        let scale = if self.eat(Kind::Comma) { self.length()? } else { 0 };
        self.expect(Kind::Close)?;
        Ok(Some((precision, scale)))
    }

    fn char_function(&mut self) -> Result<Expr> {
        let arguments = self.list(Self::expr)?;
        let charset =
            if self.eat_word(K::Using) { Some(Box::new(self.charset_or_default()?)) } else { None };
        Ok(Expr::Char { arguments, charset })
    }

    fn extract(&mut self) -> Result<Expr> {
        let unit = self.interval_unit()?;
        self.expect_word(K::From)?;
        Ok(Expr::Extract { unit, operand: self.boxed_expr()? })
    }

    fn trim(&mut self) -> Result<Expr> {
        let side = match self.eat_any(&[K::Both, K::Leading, K::Trailing]) {
            Some(K::Leading) => Some(TrimSide::Leading),
            Some(K::Trailing) => Some(TrimSide::Trailing),
            Some(_) => Some(TrimSide::Both),
            None => None,
        };
        let bare = side.is_some() && self.eat_word(K::From);
        let first = self.boxed_expr()?;
        let (pattern, operand) = match self.at_word(K::From) {
            true if !bare => {
                self.advance();
                (Some(first), self.boxed_expr()?)
            }
            _ if bare || side.is_none() => (None, first),
            _ => return Err(self.error()),
        };
        Ok(Expr::Trim { side: side.unwrap_or(TrimSide::Both), pattern, operand })
    }

    fn position(&mut self) -> Result<Expr> {
        let part = self.bit_expr()?;
        self.expect_word(K::In)?;
        let whole = self.expr()?;
        Ok(call("locate", vec![part, whole]))
    }

    /// SUBSTRING with commas, or with FROM and FOR.
    fn substring(&mut self) -> Result<Expr> {
        let mut arguments = vec![self.expr()?];
        let words = self.eat_word(K::From);
        if !words {
            self.expect(Kind::Comma)?;
        }
        arguments.push(self.expr()?);
        let more = if words { self.eat_word(K::For) } else { self.eat(Kind::Comma) };
        if more {
            arguments.push(self.expr()?);
        }
        Ok(call("substr", arguments))
    }

    /// DATE_ADD and its kin; with `days` a plain number is one of days.
    fn date_function(&mut self, subtract: bool, days: bool) -> Result<Expr> {
        let operand = self.boxed_expr()?;
        self.expect(Kind::Comma)?;
        if days && !self.at_word(K::Interval) {
            let amount = self.boxed_expr()?;
            return Ok(Expr::DateArithmetic { operand, subtract, amount, unit: IntervalUnit::Day });
        }
        let (amount, unit) = self.plain_interval()?;
        Ok(Expr::DateArithmetic { operand, subtract, amount, unit })
    }

    fn timestamp_add(&mut self) -> Result<Expr> {
        let unit = self.timestamp_unit()?;
        self.expect(Kind::Comma)?;
        let amount = self.boxed_expr()?;
        self.expect(Kind::Comma)?;
        Ok(Expr::TimestampAdd { unit, amount, operand: self.boxed_expr()? })
    }

    fn timestamp_diff(&mut self) -> Result<Expr> {
        let unit = self.timestamp_unit()?;
        self.expect(Kind::Comma)?;
        let from = self.boxed_expr()?;
        self.expect(Kind::Comma)?;
        Ok(Expr::TimestampDiff { unit, from, to: self.boxed_expr()? })
    }

    fn get_format(&mut self) -> Result<Expr> {
        let kind = match self.eat_any(&[K::Date, K::Time, K::Datetime, K::Timestamp]) {
            Some(K::Date) => FormatKind::Date,
            Some(K::Time) => FormatKind::Time,
            Some(_) => FormatKind::DateTime,
            None => return Err(self.error()),
        };
        self.expect(Kind::Comma)?;
        Ok(Expr::GetFormat { kind, locale: self.boxed_expr()? })
    }

    fn weight_string(&mut self) -> Result<Expr> {
        let operand = self.boxed_expr()?;
        if !self.eat_word(K::As) {
            return Ok(Expr::WeightString { operand, length: None });
        }
        let binary = match self.eat_any(&[K::Char, K::Binary]) {
            Some(word) => word == K::Binary,
            None => return Err(self.error()),
        };
        match self.optional_length()? {
            Some(length) => Ok(Expr::WeightString { operand, length: Some((length, binary)) }),
            None => Err(self.error()),
        }
    }

    fn json_value(&mut self) -> Result<Expr> {
        let document = self.expr()?;
        self.expect(Kind::Comma)?;
        let path = self.text()?;
        let returning = if self.eat_word(K::Returning) {
            Some(CastTarget { kind: self.cast_kind()?, array: false, time_zone: None })
        } else {
            None
        };
        let mut value = JsonValue { document, path, returning, on_empty: None, on_error: None };
        while !self.at(Kind::Close) {
            let response = self.json_value_response()?;
            self.expect_word(K::On)?;
            let (slot, late) = match self.eat_any(&[K::Empty, K::Error]) {
                Some(K::Empty) => (&mut value.on_empty, value.on_error.is_some()),
                Some(_) => (&mut value.on_error, false),
                None => return Err(self.error()),
            };
            if slot.is_some() || late {
                return Err(self.error_before());
            }
            *slot = Some(response);
        }
        Ok(Expr::JsonValue(Box::new(value)))
    }

    fn json_value_response(&mut self) -> Result<JsonValueResponse> {
        match self.eat_any(&[K::Error, K::Null, K::Default]) {
            Some(K::Error) => Ok(JsonValueResponse::Error),
            Some(K::Null) => Ok(JsonValueResponse::Null),
            Some(_) => Ok(JsonValueResponse::Default(self.signed_literal()?)),
            None => Err(self.error()),
        }
    }

    /// A literal, with its sign.
    pub(super) fn signed_literal(&mut self) -> Result<Expr> {
        let minus = self.eat(Kind::Minus);
        if !minus {
            self.eat(Kind::Plus);
        }
        let expr = self.primary()?;
        if !matches!(expr, Expr::Literal(_)) {
            return Err(self.error_before());
        }
        Ok(if minus { Expr::Unary { op: UnaryOp::Minus, operand: Box::new(expr) } } else { expr })
    }

    fn modulo(&mut self) -> Result<Expr> {
        let left = self.boxed_expr()?;
        self.expect(Kind::Comma)?;
        Ok(Expr::Binary { op: BinaryOp::Modulo, left, right: self.boxed_expr()? })
    }

    /// At an aggregate's name.
    fn aggregate(&mut self, function: Aggregate) -> Result<Expr> {
        self.advance();
        self.expect(Kind::Open)?;
        let mut call = AggregateCall {
            function,
            distinct: false,
            arguments: Vec::new(),
            order_by: Vec::new(),
            separator: None,
            over: None,
        };
        if function == Aggregate::Count && self.eat(Kind::Star) {
            // No arguments.
        } else {
            let may_be_distinct = !matches!(
                function,
                Aggregate::BitAnd
                    | Aggregate::BitOr
                    | Aggregate::BitXor
                    | Aggregate::JsonArrayAgg
                    | Aggregate::JsonObjectAgg
            );
            call.distinct = may_be_distinct && self.eat_word(K::Distinct);
            if !call.distinct && !matches!(function, Aggregate::GroupConcat) {
                self.eat_word(K::All);
            }
            call.arguments.push(self.expr()?);
            self.further_arguments(&mut call)?;
        }
        self.expect(Kind::Close)?;
        if self.at_word(K::Over) {
            call.over = Some(self.over()?);
        }
        Ok(Expr::Aggregate(Box::new(call)))
    }

    fn further_arguments(&mut self, call: &mut AggregateCall) -> Result<()> {
        match call.function {
            Aggregate::JsonObjectAgg => {
                self.expect(Kind::Comma)?;
                call.arguments.push(self.expr()?);
            }
            Aggregate::Count if call.distinct => {
                while self.eat(Kind::Comma) {
                    call.arguments.push(self.expr()?);
                }
            }
            Aggregate::GroupConcat => {
                while self.eat(Kind::Comma) {
                    call.arguments.push(self.expr()?);
                }
                call.order_by = self.order_by()?;
                if self.eat_word(K::Separator) {
                    call.separator = Some(self.string_or_bits()?);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// A string, also one written as hexadecimal or bits.
    pub(super) fn string_or_bits(&mut self) -> Result<Box<[u8]>> {
        match self.token.kind {
            Kind::Hex | Kind::Bit => match self.literal()? {
                Expr::Literal(Literal::Hex(bytes) | Literal::Bit(bytes)) => Ok(bytes),
                _ => Err(self.error_before()),
            },
            _ => self.string(),
        }
    }

    /// At a window function's name.
    fn window_function(&mut self, function: Window) -> Result<Expr> {
        self.advance();
        let arguments = self.arguments()?;
        let fits = match function {
            Window::FirstValue | Window::LastValue | Window::Ntile => arguments.len() == 1,
            Window::Lag | Window::Lead => (1..=3).contains(&arguments.len()),
            Window::NthValue => arguments.len() == 2,
            _ => arguments.is_empty(),
        };
        if !fits {
            return Err(self.error_before());
        }
        let mut from_last = false;
        if function == Window::NthValue && self.eat_word(K::From) {
            from_last = match self.eat_any(&[K::First, K::Last]) {
                Some(word) => word == K::Last,
                None => return Err(self.error()),
            };
        }
        let treats_nulls = matches!(
            function,
            Window::FirstValue | Window::LastValue | Window::NthValue | Window::Lag | Window::Lead
        );
        let mut ignore_nulls = false;
        if treats_nulls && let Some(word) = self.eat_any(&[K::Respect, K::Ignore]) {
            ignore_nulls = word == K::Ignore;
            self.expect_word(K::Nulls)?;
        }
        let over = self.over()?;
        let call = WindowCall { function, arguments, from_last, ignore_nulls, over };
        Ok(Expr::Window(Box::new(call)))
    }

    /// The unit of an interval.
    pub(super) fn interval_unit(&mut self) -> Result<IntervalUnit> {
        use IntervalUnit::*;
        let unit = match self.token.keyword {
            K::SecondMicrosecond => SecondMicrosecond,
            K::MinuteMicrosecond => MinuteMicrosecond,
            K::MinuteSecond => MinuteSecond,
            K::HourMicrosecond => HourMicrosecond,
            K::HourSecond => HourSecond,
            K::HourMinute => HourMinute,
            K::DayMicrosecond => DayMicrosecond,
            K::DaySecond => DaySecond,
            K::DayMinute => DayMinute,
            K::DayHour => DayHour,
            K::YearMonth => YearMonth,
            _ => return self.timestamp_unit(),
        };
        self.advance();
        Ok(unit)
    }

    /// A unit that is one part of a date; SQL_TSI_ may stand before some.
    fn timestamp_unit(&mut self) -> Result<IntervalUnit> {
        use IntervalUnit::*;
        let unit = match self.token.keyword {
            K::Microsecond => Microsecond,
            K::Second | K::SqlTsiSecond => Second,
            K::Minute | K::SqlTsiMinute => Minute,
            K::Hour | K::SqlTsiHour => Hour,
            K::Day | K::SqlTsiDay => Day,
            K::Week | K::SqlTsiWeek => Week,
            K::Month | K::SqlTsiMonth => Month,
            K::Quarter | K::SqlTsiQuarter => Quarter,
            K::Year | K::SqlTsiYear => Year,
            _ => return Err(self.error()),
        };
        self.advance();
        Ok(unit)
    }
}

/// The one name of functions that have several, and of those whose name is reserved.
fn renamed(word: K) -> Option<&'static str> {
    Some(match word {
        K::Now | K::CurrentTimestamp | K::Localtime | K::Localtimestamp => "now",
        K::Curdate | K::CurrentDate => "curdate",
        K::Curtime | K::CurrentTime => "curtime",
        K::Sysdate => "sysdate",
        K::UtcDate => "utc_date",
        K::UtcTime => "utc_time",
        K::UtcTimestamp => "utc_timestamp",
        K::CurrentUser => "current_user",
        K::User | K::SessionUser | K::SystemUser => "user",
        K::Database | K::Schema => "database",
        K::If => "if",
        K::Insert => "insert",
        K::Left => "left",
        K::Right => "right",
        K::Repeat => "repeat",
        K::Replace => "replace",
        K::Grouping => "grouping",
        _ => return None,
    })
}

fn aggregate_of(word: K) -> Option<Aggregate> {
    Some(match word {
        K::Avg => Aggregate::Avg,
        K::BitAnd => Aggregate::BitAnd,
        K::BitOr => Aggregate::BitOr,
        K::BitXor => Aggregate::BitXor,
        K::Count => Aggregate::Count,
        K::GroupConcat => Aggregate::GroupConcat,
        K::JsonArrayagg => Aggregate::JsonArrayAgg,
        K::JsonObjectagg => Aggregate::JsonObjectAgg,
        K::Max => Aggregate::Max,
        K::Min => Aggregate::Min,
        K::StCollect => Aggregate::StCollect,
        K::Std | K::Stddev | K::StddevPop => Aggregate::StddevPop,
        K::StddevSamp => Aggregate::StddevSamp,
        K::Sum => Aggregate::Sum,
        K::Variance | K::VarPop => Aggregate::VarPop,
        K::VarSamp => Aggregate::VarSamp,
        _ => return None,
    })
}

fn window_of(word: K) -> Option<Window> {
    Some(match word {
        K::CumeDist => Window::CumeDist,
        K::DenseRank => Window::DenseRank,
        K::FirstValue => Window::FirstValue,
        K::Lag => Window::Lag,
        K::LastValue => Window::LastValue,
        K::Lead => Window::Lead,
        K::NthValue => Window::NthValue,
        K::Ntile => Window::Ntile,
        K::PercentRank => Window::PercentRank,
        K::Rank => Window::Rank,
        K::RowNumber => Window::RowNumber,
        _ => return None,
    })
}
