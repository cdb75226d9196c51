//! Types of results, derived from the types of operands as MySQL derives them.
//!
//! # Owns
//! [`Signature`], by which a function says what it gives; the types of arithmetic; the type that
//! takes several others (CASE, COALESCE, UNION).

use collation::{Charset, CollationId};
use sql_parser::ast::BinaryOp;
use sqltype::temporal::{parse_date_time, parse_time};
use sqltype::{Datum, Decimal, SqlType, TypeKind};

use super::Function;
use crate::binder::BindSettings;
use crate::error::SqlError;
use crate::expression::{Expression, Node};
use crate::result_type::{Coercibility, Collating, ResultType, illegal_mix, merge_collations};

/// A call whose type is being derived.
pub(crate) struct Signature<'s> {
    pub(crate) name: &'static str,
    pub(crate) arguments: &'s mut Vec<Expression>,
    pub(crate) settings: &'s BindSettings,
    /// The collation in which the function will compare its arguments.
    pub(crate) collation: CollationId,
}

/// Refuses a constant with characters that the common character set does not have.
pub(crate) fn check_constants(
    operation: &str,
    operands: &[&Expression],
    collatings: &[Collating],
    merged: Collating,
) -> Result<(), SqlError> {
    let charset = merged.collation.charset();
    let fits = |operand: &&Expression| match operand.as_constant() {
        Some(Datum::Bytes(text)) if operand.sql_type().collation != CollationId::BINARY => {
            charset == Charset::Binary || collation::unrepresentable_at(charset, text).is_none()
        }
        _ => true,
    };
    if operands.iter().all(fits) { Ok(()) } else { Err(illegal_mix(operation, collatings)) }
}

/// As what numbers are computed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Domain {
    /// 64 bits, with or without sign.
    Integer,
    Decimal,
    Double,
}

impl<'s> Signature<'s> {
    pub(crate) fn new(
        function: &'static Function,
        arguments: &'s mut Vec<Expression>,
        settings: &'s BindSettings,
    ) -> Self {
        Self { name: function.name, arguments, settings, collation: CollationId::BINARY }
    }

    pub(crate) fn connection(&self) -> CollationId {
        self.settings.facts.collation
    }

    pub(crate) fn argument(&self, at: usize) -> &ResultType {
        &self.arguments[at].result
    }

    /// Whether any argument can be NULL.
    pub(crate) fn nullable(&self) -> bool {
        self.arguments.iter().any(|argument| argument.result.nullable)
    }

    /// A whole number of so many digits.
    pub(crate) fn integer(&self, digits: u32) -> Result<ResultType, SqlError> {
        Ok(ResultType::of(SqlType::new(TypeKind::BigInt, digits), self.nullable()))
    }

    /// A whole number that NULL arguments do not make NULL.
    pub(crate) fn certain_integer(&self, digits: u32) -> Result<ResultType, SqlError> {
        Ok(ResultType::of(SqlType::new(TypeKind::BigInt, digits), false))
    }

    /// A whole number, or NULL also where no argument is.
    pub(crate) fn maybe_integer(&self, digits: u32) -> Result<ResultType, SqlError> {
        Ok(ResultType::of(SqlType::new(TypeKind::BigInt, digits), true))
    }

    pub(crate) fn unsigned(&self) -> Result<ResultType, SqlError> {
        Ok(ResultType::of(SqlType::unsigned_big_int(), self.nullable()))
    }

    pub(crate) fn maybe_unsigned(&self) -> Result<ResultType, SqlError> {
        Ok(ResultType::of(SqlType::unsigned_big_int(), true))
    }

    pub(crate) fn double(&self) -> Result<ResultType, SqlError> {
        Ok(ResultType::of(SqlType::double(), self.nullable()))
    }

    /// A floating-point number, or NULL also where no argument is.
    pub(crate) fn maybe_double(&self) -> Result<ResultType, SqlError> {
        Ok(ResultType::of(SqlType::double(), true))
    }

    /// A value of this type.
    pub(crate) fn of(&self, sql_type: SqlType, nullable: bool) -> Result<ResultType, SqlError> {
        Ok(ResultType::of(sql_type, nullable))
    }

    /// A temporal value with these digits of a second; NULL for what is out of range.
    pub(crate) fn temporal(&self, kind: TypeKind, digits: u8) -> Result<ResultType, SqlError> {
        let sql_type = SqlType { decimals: digits.min(6), ..SqlType::new(kind, 0) };
        Ok(ResultType::of(sql_type, true))
    }

    pub(crate) fn json(&self) -> Result<ResultType, SqlError> {
        Ok(ResultType::of(SqlType::new(TypeKind::Json, u32::MAX), true))
    }

    /// An ASCII text of the connection's collation.
    pub(crate) fn ascii(&self, length: u32) -> Result<ResultType, SqlError> {
        let collating = Collating::literal(self.connection(), true);
        Ok(ResultType::text(length, collating, self.nullable()))
    }

    /// An ASCII text, or NULL also where no argument is.
    pub(crate) fn maybe_ascii(&self, length: u32) -> Result<ResultType, SqlError> {
        Ok(ResultType { nullable: true, ..self.ascii(length)? })
    }

    /// Bytes, or NULL also where no argument is.
    pub(crate) fn maybe_binary(&self, length: u32) -> Result<ResultType, SqlError> {
        let collating = Collating::literal(CollationId::BINARY, false);
        Ok(ResultType::text(length, collating, true))
    }

    /// A text in the common collation of these arguments.
    pub(crate) fn text_of(&self, which: &[usize], length: u64) -> Result<ResultType, SqlError> {
        let collating = self.merge(which, false)?;
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        Ok(ResultType::text(length, collating, self.nullable()))
    }

    /// As [`Signature::text_of`], or NULL also where no argument is.
    pub(crate) fn maybe_text_of(
        &self,
        which: &[usize],
        length: u64,
    ) -> Result<ResultType, SqlError> {
        Ok(ResultType { nullable: true, ..self.text_of(which, length)? })
    }

    /// A text in the common collation of all arguments.
    pub(crate) fn text(&self, length: u64) -> Result<ResultType, SqlError> {
        let all: Vec<usize> = (0..self.arguments.len()).collect();
        self.text_of(&all, length)
    }

    /// Most characters of an argument as text.
    pub(crate) fn length(&self, at: usize) -> u64 {
        self.argument(at).text_length().into()
    }

    /// Most bytes of an argument as text of its character set.
    pub(crate) fn byte_length(&self, at: usize) -> u64 {
        let charset = self.argument(at).collating(self.connection()).collation.charset();
        self.length(at) * u64::from(charset.max_len())
    }

    /// The common collation of these arguments.
    pub(crate) fn merge(&self, which: &[usize], comparison: bool) -> Result<Collating, SqlError> {
        let connection = self.connection();
        let collating = |at: &usize| self.arguments[*at].result.collating(connection);
        let collatings: Vec<Collating> = which.iter().map(collating).collect();
        let mut merged = merge_collations(self.name, &collatings, comparison)?;
        let operands: Vec<&Expression> = which.iter().map(|at| &self.arguments[*at]).collect();
        check_constants(self.name, &operands, &collatings, merged)?;
        if merged.coercibility == Coercibility::Ignorable {
            merged = Collating::literal(connection, true);
        }
        Ok(merged)
    }

    /// The arguments are compared as texts, and in this collation.
    pub(crate) fn compare(&mut self, which: &[usize]) -> Result<(), SqlError> {
        self.collation = self.merge(which, true)?.collation;
        Ok(())
    }

    /// Digits of a second that an argument has, as a temporal value.
    pub(crate) fn fraction(&self, at: usize) -> u8 {
        fraction_of(self.argument(at), &self.arguments[at])
    }

    /// The constant whole number that an argument is.
    pub(crate) fn constant_integer(&self, at: usize) -> Option<i64> {
        match self.arguments.get(at)?.as_constant()? {
            Datum::Int(value) => Some(*value),
            Datum::UInt(value) => i64::try_from(*value).ok(),
            _ => None,
        }
    }
}

/// Digits of a second that a value has when it is taken as a temporal one; of a text that is a
/// constant as many as it has, else as many as it could have.
fn fraction_of(result: &ResultType, expression: &Expression) -> u8 {
    match (&result.sql_type.kind, expression.as_constant()) {
        (_, Some(Datum::Bytes(text))) => {
            let moment = parse_date_time(text).map(|parsed| parsed.digits);
            let digits = moment.or_else(|| parse_time(text).map(|parsed| parsed.digits));
            digits.unwrap_or(6).min(6)
        }
        (TypeKind::Float | TypeKind::Double | TypeKind::Json, _) => 6,
        (_, _) if result.is_text() => 6,
        _ => result.sql_type.decimals.min(6),
    }
}

/// The number that the last eight bytes are.
fn low_bits(bytes: &[u8]) -> u64 {
    let from = bytes.len().saturating_sub(8);
    bytes[from..].iter().fold(0u64, |number, byte| number << 8 | u64::from(*byte))
}

/// The number that the bytes of a hexadecimal or bit literal are where it is stored as a number:
/// more than 64 bits are beyond every range.
pub fn number_of_bits(bytes: &[u8]) -> Datum {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    match bytes.len() - zeros {
        0..=8 => Datum::UInt(low_bits(bytes)),
        _ => Datum::Double(f64::INFINITY),
    }
}

/// An operand where a number is wanted: hexadecimal literals become numbers.
pub(crate) fn number_of(mut operand: Expression) -> Expression {
    if operand.result.bits
        && let Node::Constant(Datum::Bytes(bytes)) = &operand.node
    {
        let number = low_bits(bytes);
        operand.node = Node::Constant(Datum::UInt(number));
        operand.result = ResultType::of(SqlType::unsigned_big_int(), false);
    }
    operand
}

/// As what an operand is computed with.
pub(crate) fn domain_of(result: &ResultType) -> Domain {
    match &result.sql_type.kind {
        kind if kind.is_integer() => Domain::Integer,
        TypeKind::Bit | TypeKind::Year | TypeKind::Date => Domain::Integer,
        TypeKind::Decimal => Domain::Decimal,
        TypeKind::Time | TypeKind::DateTime | TypeKind::Timestamp => {
            match result.sql_type.decimals {
                0 => Domain::Integer,
                _ => Domain::Decimal,
            }
        }
        _ if result.bits => Domain::Integer,
        _ => Domain::Double,
    }
}

/// Whether the numbers of an operand have no sign.
pub(crate) fn is_unsigned(result: &ResultType) -> bool {
    let sql_type = &result.sql_type;
    sql_type.unsigned || matches!(sql_type.kind, TypeKind::Bit | TypeKind::Year) || result.bits
}

/// Digits before and after the point that an operand needs as a decimal.
pub(crate) fn decimal_digits(result: &ResultType) -> (u32, u32) {
    let sql_type = &result.sql_type;
    let whole = match &sql_type.kind {
        TypeKind::TinyInt => 3,
        TypeKind::SmallInt => 5,
        TypeKind::MediumInt => 7 + u32::from(sql_type.unsigned),
        TypeKind::Int => 10,
        TypeKind::BigInt => match sql_type.length {
            1..=19 => sql_type.length,
            _ => 19 + u32::from(sql_type.unsigned),
        },
        TypeKind::Decimal => {
            return (
                sql_type.length.saturating_sub(sql_type.decimals.into()),
                sql_type.decimals.into(),
            );
        }
        TypeKind::Bit => 20,
        TypeKind::Year => 4,
        TypeKind::Date => 8,
        TypeKind::Time => return (7, sql_type.decimals.into()),
        TypeKind::DateTime | TypeKind::Timestamp => return (14, sql_type.decimals.into()),
        TypeKind::Null => 1,
        _ => return (35, 30),
    };
    (whole, 0)
}

/// A DECIMAL with these digits, cut to what there is.
pub(crate) fn decimal_type(whole: u32, scale: u32) -> SqlType {
    let scale = scale.min(Decimal::SCALE_MAX.into());
    let precision = (whole + scale).clamp(1, Decimal::PRECISION_MAX);
    SqlType::decimal(precision, scale as u8)
}

/// Digits after the point with which an operand is shown; [`SqlType::NOT_FIXED`] where that
/// depends on its value.
pub(crate) fn fixed_digits(result: &ResultType) -> u8 {
    match domain_of(result) {
        Domain::Double if !matches!(result.sql_type.kind, TypeKind::Float | TypeKind::Double) => {
            SqlType::NOT_FIXED
        }
        Domain::Integer => 0,
        _ => result.sql_type.decimals,
    }
}

/// A DOUBLE shown with so many digits after the point.
pub(crate) fn double_type(digits: u8) -> SqlType {
    SqlType { decimals: digits.min(SqlType::NOT_FIXED), ..SqlType::double() }
}

/// The type of `a op b` for the operators of arithmetic. `signed` says that a difference of
/// unsigned integers is signed.
pub(crate) fn arithmetic(
    op: BinaryOp,
    a: &ResultType,
    b: &ResultType,
    division_increment: u8,
    signed: bool,
) -> ResultType {
    let mut domain = domain_of(a).max(domain_of(b));
    let divides = matches!(op, BinaryOp::Divide | BinaryOp::IntegerDivide | BinaryOp::Modulo);
    let nullable = divides || a.nullable || b.nullable;
    if op == BinaryOp::IntegerDivide {
        let sql_type = SqlType { unsigned: is_unsigned(a) || is_unsigned(b), ..SqlType::big_int() };
        return ResultType::of(sql_type, nullable);
    }
    if op == BinaryOp::Divide && domain == Domain::Integer {
        domain = Domain::Decimal;
    }
    let ((whole_a, scale_a), (whole_b, scale_b)) = (decimal_digits(a), decimal_digits(b));
    let sql_type = match (domain, op) {
        (Domain::Double, op) => {
            let more = if op == BinaryOp::Divide { division_increment } else { 0 };
            double_type(fixed_digits(a).max(fixed_digits(b)).saturating_add(more))
        }
        (Domain::Decimal, BinaryOp::Multiply) => decimal_type(whole_a + whole_b, scale_a + scale_b),
        (Domain::Decimal, BinaryOp::Divide) => {
            let scale = (scale_a + u32::from(division_increment)).min(Decimal::SCALE_MAX.into());
            decimal_type(whole_a + scale_b, scale)
        }
        (Domain::Decimal, BinaryOp::Modulo) => {
            decimal_type(whole_a.max(whole_b), scale_a.max(scale_b))
        }
        (Domain::Decimal, _) => decimal_type(whole_a.max(whole_b) + 1, scale_a.max(scale_b)),
        (Domain::Integer, _) => {
            let unsigned = match op {
                BinaryOp::Modulo => is_unsigned(a),
                BinaryOp::Subtract if signed => false,
                _ => is_unsigned(a) || is_unsigned(b),
            };
            let digits = match op {
                BinaryOp::Multiply => whole_a + whole_b,
                BinaryOp::Modulo => whole_a.max(whole_b),
                _ => whole_a.max(whole_b) + 1,
            };
            SqlType { unsigned, ..SqlType::new(TypeKind::BigInt, digits.min(20)) }
        }
    };
    ResultType::of(sql_type, nullable)
}

/// The type of `-operand`. A constant whose negation fits no integer becomes a decimal.
pub(crate) fn negated(operand: &Expression) -> ResultType {
    let a = &operand.result;
    let (whole, scale) = decimal_digits(a);
    let sql_type = match (domain_of(a), operand.as_constant()) {
        (Domain::Double, _) => double_type(fixed_digits(a)),
        (Domain::Decimal, _) => decimal_type(whole, scale),
        (Domain::Integer, Some(Datum::Int(i64::MIN))) => decimal_type(19, 0),
        (Domain::Integer, Some(Datum::UInt(number))) if *number > 1 << 63 => decimal_type(20, 0),
        (Domain::Integer, _) => SqlType::new(TypeKind::BigInt, whole.min(20)),
    };
    ResultType::of(sql_type, a.nullable)
}

/// The type that takes values of all these types, for the operation of this name.
pub fn common_type(
    operation: &str,
    types: &[&ResultType],
    connection: CollationId,
) -> Result<ResultType, SqlError> {
    let nullable = types.iter().any(|one| one.nullable);
    let known: Vec<&ResultType> =
        types.iter().copied().filter(|one| one.sql_type.kind != TypeKind::Null).collect();
    let Some(first) = known.first() else { return Ok(ResultType::null()) };
    let kinds = known.iter().map(|one| &one.sql_type);
    let same_kind = kinds.clone().all(|sql_type| sql_type.kind == first.sql_type.kind);
    let is_temporal = |sql_type: &SqlType| {
        matches!(sql_type.kind, TypeKind::Date | TypeKind::DateTime | TypeKind::Timestamp)
    };
    let is_number = |one: &&ResultType| {
        let kind = &one.sql_type.kind;
        domain_of(one) != Domain::Double && !is_temporal(&one.sql_type) && *kind != TypeKind::Time
            || matches!(kind, TypeKind::Float | TypeKind::Double)
    };
    let decimals = kinds.clone().map(|sql_type| sql_type.decimals.min(6)).max().unwrap_or(0);
    if known.iter().all(is_number) {
        return Ok(ResultType::of(common_number(&known), nullable));
    }
    if kinds.clone().all(|sql_type| sql_type.kind == TypeKind::Json) {
        return Ok(ResultType::of(first.sql_type.clone(), nullable));
    }
    if same_kind && !first.is_text() {
        let sql_type = SqlType { decimals, ..first.sql_type.clone() };
        return Ok(ResultType::of(sql_type, nullable));
    }
    if kinds.clone().all(is_temporal) {
        let sql_type = SqlType { decimals, ..SqlType::new(TypeKind::DateTime, 0) };
        return Ok(ResultType::of(sql_type, nullable));
    }
    let collatings: Vec<Collating> = known.iter().map(|one| one.collating(connection)).collect();
    let mut collating = merge_collations(operation, &collatings, false)?;
    if collating.coercibility >= Coercibility::Numeric {
        collating.coercibility = Coercibility::Coercible;
    }
    let length = known.iter().map(|one| one.text_length()).max().unwrap_or(0);
    let is_blob = known.iter().any(|one| {
        one.sql_type.kind.is_string()
            && matches!(
                one.sql_type.kind,
                TypeKind::Text | TypeKind::MediumText | TypeKind::LongText
            )
    });
    let mut result = ResultType::text(length, collating, nullable);
    if is_blob && result.sql_type.kind == TypeKind::VarChar {
        result.sql_type.kind = TypeKind::Text;
    }
    Ok(result)
}

/// The number type that takes values of all these.
fn common_number(types: &[&ResultType]) -> SqlType {
    let domain = types.iter().map(|one| domain_of(one)).max().unwrap_or(Domain::Integer);
    let all_unsigned = types.iter().all(|one| is_unsigned(one));
    let any_unsigned_big = types.iter().any(|one| {
        is_unsigned(one) && matches!(one.sql_type.kind, TypeKind::BigInt | TypeKind::Bit)
    });
    match domain {
        Domain::Double => {
            // As many digits are shown as any of them has, if all have so many and no more.
            let digits = types.iter().map(|one| fixed_digits(one)).max().unwrap_or_default();
            // Whole numbers of up to three bytes become FLOATs, though these show six digits.
            let is_small = |kind: &TypeKind| {
                use TypeKind::{Float, MediumInt, SmallInt, TinyInt, Year};
                matches!(kind, Float | TinyInt | SmallInt | MediumInt | Year)
            };
            let float = types.iter().find(|one| one.sql_type.kind == TypeKind::Float);
            let all_small = types.iter().all(|one| is_small(&one.sql_type.kind));
            match float.filter(|_| all_small) {
                Some(float) => SqlType { unsigned: all_unsigned, ..float.sql_type.clone() },
                None => double_type(digits),
            }
        }
        Domain::Integer if any_unsigned_big && !all_unsigned => {
            // Neither BIGINT holds them all.
            let digits = types.iter().map(|one| decimal_digits(one).0).max().unwrap_or(20);
            decimal_type(digits.max(20), 0)
        }
        Domain::Integer => {
            let widest =
                types.iter().map(|one| &one.sql_type).max_by_key(|sql_type| match sql_type.kind {
                    TypeKind::TinyInt => (1, sql_type.length),
                    TypeKind::SmallInt | TypeKind::Year => (2, sql_type.length),
                    TypeKind::MediumInt => (3, sql_type.length),
                    TypeKind::Int => (4, sql_type.length),
                    _ => (8, sql_type.length),
                });
            let same = types.iter().all(|one| one.sql_type.kind == types[0].sql_type.kind);
            let mut sql_type = widest.cloned().unwrap_or_else(SqlType::big_int);
            sql_type.zerofill = false;
            let mixed = types.iter().any(|one| is_unsigned(one)) && !all_unsigned;
            if matches!(sql_type.kind, TypeKind::Bit) && !same || mixed {
                sql_type = SqlType::new(TypeKind::BigInt, 20);
            }
            if matches!(sql_type.kind, TypeKind::Bit | TypeKind::Year) && !same {
                sql_type = SqlType::big_int();
            }
            if sql_type.kind == TypeKind::BigInt {
                // A constant is a BIGINT of its own digits: others may have more.
                let digits = types.iter().map(|one| decimal_digits(one).0).max().unwrap_or(0);
                sql_type.length = sql_type.length.max(digits);
            }
            sql_type.unsigned = all_unsigned;
            sql_type
        }
        Domain::Decimal => {
            let digits = types.iter().map(|one| decimal_digits(one));
            let (whole, scale) =
                digits.fold((0, 0), |(w, s), (whole, scale)| (w.max(whole), s.max(scale)));
            SqlType { unsigned: all_unsigned, ..decimal_type(whole, scale) }
        }
    }
}

/// The character set's bytes of a text that is stored as UTF-8.
pub(crate) fn bytes_in(charset: Charset, text: &[u8]) -> std::borrow::Cow<'_, [u8]> {
    match charset {
        Charset::Binary | Charset::Ascii | Charset::Utf8mb3 | Charset::Utf8mb4 => text.into(),
        _ => collation::from_utf8(charset, text).bytes,
    }
}
