//! Functions: those of the tables, those with a syntax of their own, CAST.

use collation::{Charset, CollationId};
use sql_parser::ast::{
    CastKind, CastTarget, CharacterSet, Expr, FormatKind, FunctionCall, IntervalUnit, JsonValue,
    JsonValueResponse, TrimSide,
};
use sqltype::{Datum, Decimal, SqlType, TypeKind};

use super::Binder;
use crate::comparison::Comparison;
use crate::error::SqlError;
use crate::expression::{Branch, Case, Deferred, DeferredFunction, Expression, Node};
use crate::function::{Function, MANY, signature, synonym};
use crate::result_type::{Coercibility, Collating, ResultType};

/// Aggregates and the like as their names come from plain calls: not functions of ours.
const UNSUPPORTED: [(&str, &str); 3] =
    [("load_file", "LOAD_FILE"), ("extractvalue", "EXTRACTVALUE"), ("updatexml", "UPDATEXML")];

impl Binder<'_, '_> {
    /// Everything that is a call in one way or another.
    pub(super) fn call(&mut self, expr: &Expr) -> Result<Expression, SqlError> {
        match expr {
            Expr::Function(call) => self.function(call),
            Expr::MemberOf { operand, array } => self.call_of("member of", &[operand, array]),
            Expr::Cast { operand, target } => self.cast(operand, target),
            Expr::ConvertUsing { operand, charset } => {
                let operand = self.value(operand)?;
                let collation = self.charset(charset)?;
                let length = operand.result.text_length();
                Ok(self.cast_text(operand, length, collation, TypeKind::LongText))
            }
            Expr::DateArithmetic { operand, subtract, amount, unit } => {
                let name = if *subtract { "date_sub" } else { "date_add" };
                self.call_with_unit(name, &[operand, amount], *unit)
            }
            Expr::TimestampAdd { unit, amount, operand } => {
                self.call_with_unit("date_add", &[operand, amount], *unit)
            }
            Expr::TimestampDiff { unit, from, to } => {
                self.call_with_unit("timestampdiff", &[from, to], *unit)
            }
            Expr::Extract { unit, operand } => self.call_with_unit("extract", &[operand], *unit),
            Expr::GetFormat { kind, locale } => {
                let kind = match kind {
                    FormatKind::Date => "date",
                    FormatKind::Time => "time",
                    FormatKind::DateTime => "datetime",
                };
                let locale = self.value(locale)?;
                self.known_call("get_format", vec![self.text_constant(kind), locale])
            }
            Expr::Trim { side, pattern, operand } => {
                let name = match side {
                    TrimSide::Both => "trim",
                    TrimSide::Leading => "trim leading",
                    TrimSide::Trailing => "trim trailing",
                };
                let mut arguments = vec![self.value(operand)?];
                if let Some(pattern) = pattern {
                    arguments.push(self.value(pattern)?);
                }
                self.known_call(name, arguments)
            }
            Expr::Char { arguments, charset } => {
                let collation = match charset {
                    Some(charset) => self.charset(charset)?,
                    None => CollationId::BINARY,
                };
                let mut values = vec![number(collation.0.into())];
                for argument in arguments {
                    values.push(signature::number_of(self.value(argument)?));
                }
                self.known_call("char", values)
            }
            Expr::WeightString { operand, length } => {
                let mut arguments = vec![self.value(operand)?];
                if let Some((length, is_binary)) = length {
                    arguments.extend([number((*length).into()), number(i64::from(*is_binary))]);
                }
                self.known_call("weight_string", arguments)
            }
            Expr::JsonValue(json) => self.json_value(json),
            Expr::Match(_) => Err(SqlError::not_supported("FULLTEXT search")),
            _ => Err(SqlError::internal("an expression of no known kind")),
        }
    }

    fn call_of(&mut self, name: &'static str, list: &[&Expr]) -> Result<Expression, SqlError> {
        let arguments = list.iter().map(|expr| self.value(expr)).collect::<Result<_, _>>()?;
        self.known_call(name, arguments)
    }

    fn call_with_unit(
        &mut self,
        name: &'static str,
        list: &[&Expr],
        unit: IntervalUnit,
    ) -> Result<Expression, SqlError> {
        let arguments: Result<Vec<Expression>, SqlError> =
            list.iter().map(|expr| self.value(expr)).collect();
        let mut arguments = arguments?;
        arguments.push(number(crate::function::unit_number(unit)));
        self.known_call(name, arguments)
    }

    fn function(&mut self, call: &FunctionCall) -> Result<Expression, SqlError> {
        let written = call.name.as_str();
        let name = synonym(written);
        if let Some(schema) = &call.schema {
            return Err(self.no_such_function(Some(schema.as_str()), written));
        }
        let count = call.arguments.len();
        let wrong_count = || SqlError::of::<1582>(&[&written]);
        if let Some((function, wanted)) = DeferredFunction::by_name(name) {
            if count != wanted {
                return Err(wrong_count());
            }
            return self.deferred(function, &call.arguments);
        }
        if let Some((_, feature)) = UNSUPPORTED.iter().find(|(known, _)| *known == name) {
            return Err(SqlError::not_supported(feature));
        }
        match (name, call.arguments.as_slice()) {
            // As many as a number has bits.
            ("grouping", arguments @ [_, ..]) if count <= 64 => return self.grouping(arguments),
            ("if", [condition, then, otherwise]) => {
                let when = self.value(condition)?;
                let then = self.value(then)?;
                let otherwise = self.value(otherwise)?;
                return self.choose(when, then, otherwise, "if");
            }
            ("nullif", [value, other]) => {
                let value = self.value(value)?;
                let other = self.value(other)?;
                let same = self.compare(sql_parser::ast::BinaryOp::Equal, value.clone(), other)?;
                let result = Self::nullable(value.result.clone());
                let chosen = self.choose(same, Expression::null(), value, "nullif")?;
                return Ok(Expression { result, ..chosen });
            }
            ("isnull", [operand]) => {
                let operand = Box::new(self.value(operand)?);
                let result = ResultType::truth(false);
                return Ok(self.fold(Expression { node: Node::IsNull(operand), result }));
            }
            ("if" | "nullif" | "isnull", _) => return Err(wrong_count()),
            ("last_insert_id", [id]) => return self.call_of("last_insert_id(n)", &[id]),
            ("mod", [left, right]) => {
                let (left, right) = (self.value(left)?, self.value(right)?);
                return Ok(self.arithmetic(sql_parser::ast::BinaryOp::Modulo, left, right));
            }
            _ => {}
        }
        // Names with spaces and symbols belong to the grammar.
        let function = Function::by_name(name)
            .filter(|_| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'))
            .ok_or_else(|| self.no_such_function(None, written))?;
        let (min, max) = function.arity;
        if count < usize::from(min) || (max != MANY && count > usize::from(max)) {
            return Err(wrong_count());
        }
        let arguments = self.values(&call.arguments)?;
        self.finish_call(function, arguments)
    }

    /// `IF(when, then, otherwise)`.
    fn choose(
        &mut self,
        when: Expression,
        then: Expression,
        otherwise: Expression,
        operation: &str,
    ) -> Result<Expression, SqlError> {
        let types = [&then.result, &otherwise.result];
        let result = signature::common_type(operation, &types, self.connection())?;
        let branches = Box::new([Branch { when, comparison: Comparison::Int, then }]);
        let case = Case { operand: None, branches, otherwise: Some(otherwise) };
        Ok(self.fold(Expression { node: Node::Case(Box::new(case)), result }))
    }

    fn no_such_function(&self, schema: Option<&str>, name: &str) -> SqlError {
        let schema = schema.or(self.settings.facts.database.as_deref());
        match schema {
            Some(schema) => SqlError::of::<1305>(&[&"FUNCTION", &format_args!("{schema}.{name}")]),
            None => SqlError::of::<1305>(&[&"FUNCTION", &name]),
        }
    }

    fn deferred(
        &mut self,
        function: DeferredFunction,
        list: &[Expr],
    ) -> Result<Expression, SqlError> {
        let arguments = self.values(list)?.into_boxed_slice();
        let slot = self.environment.next_number();
        let sql_type = match function {
            DeferredFunction::ReleaseAllLocks | DeferredFunction::IsUsedLock => {
                SqlType::unsigned_big_int()
            }
            DeferredFunction::CommitReceipt => SqlType::text(6),
            _ => SqlType::new(TypeKind::BigInt, 1),
        };
        let deferred = Deferred { slot, function, arguments };
        let result = ResultType::of(sql_type, true);
        Ok(Expression { node: Node::Deferred(Box::new(deferred)), result })
    }

    fn charset(&self, charset: &CharacterSet) -> Result<CollationId, SqlError> {
        match charset {
            CharacterSet::Default => Ok(CollationId::DEFAULT),
            CharacterSet::Name(name) => {
                let set = Charset::by_name(name.as_str());
                let set = set.ok_or_else(|| SqlError::of::<1115>(&[name]))?;
                Ok(if set == self.connection().charset() {
                    self.connection()
                } else {
                    set.default_collation()
                })
            }
        }
    }

    fn cast(&mut self, operand: &Expr, target: &CastTarget) -> Result<Expression, SqlError> {
        if target.array {
            return Err(SqlError::not_supported("CAST-ing data to array of type"));
        }
        if target.time_zone.is_some() {
            return Err(SqlError::not_supported("CAST ... AT TIME ZONE"));
        }
        let operand = self.value(operand)?;
        self.cast_to(operand, &target.kind)
    }

    fn cast_to(&mut self, operand: Expression, kind: &CastKind) -> Result<Expression, SqlError> {
        let operand_length = operand.result.text_length();
        let operand_size = if operand.result.is_text() {
            let charset = operand.result.sql_type.collation.charset();
            operand_length.saturating_mul(charset.max_len().into())
        } else {
            operand_length
        };
        let text = match kind {
            CastKind::Binary(Some(length)) => {
                Some((operand, *length, CollationId::BINARY, TypeKind::Char))
            }
            CastKind::Binary(None) => {
                Some((operand, operand_size, CollationId::BINARY, TypeKind::LongText))
            }
            CastKind::Char(length, charset) => {
                let collation = match charset {
                    Some(charset) => self.charset(charset)?,
                    None => self.connection(),
                };
                let kind = match length {
                    Some(_) => TypeKind::VarChar,
                    None => TypeKind::LongText,
                };
                Some((operand, length.unwrap_or(operand_length), collation, kind))
            }
            _ => {
                let sql_type = self.cast_type(kind, &operand)?;
                let may_fail = !matches!(
                    sql_type.kind,
                    TypeKind::BigInt | TypeKind::Decimal | TypeKind::Double | TypeKind::Float
                );
                let result = ResultType::of(sql_type, operand.result.nullable || may_fail);
                let operand = match result.sql_type.kind {
                    TypeKind::Json => operand,
                    _ => signature::number_of(operand),
                };
                let node = Node::Cast(Box::new(operand));
                return Ok(self.fold(Expression { node, result }));
            }
        };
        match text {
            Some((operand, length, collation, kind)) => {
                Ok(self.cast_text(operand, length, collation, kind))
            }
            None => Err(SqlError::internal("not a cast to text")),
        }
    }

    /// CHAR and BINARY; a `kind` of LONGTEXT stands for a length that nobody has given.
    fn cast_text(
        &self,
        operand: Expression,
        length: u32,
        collation: CollationId,
        kind: TypeKind,
    ) -> Expression {
        // What is in ASCII now counts as any text of the character set: beside a column of another
        // one it is not the column's that the result has.
        let ascii = collation.charset() == Charset::Ascii;
        let collating = Collating { collation, coercibility: Coercibility::Implicit, ascii };
        let mut result = ResultType::text(length, collating, operand.result.nullable);
        match kind {
            // As long as it happens to be.
            TypeKind::LongText => result.sql_type.length = length.max(result.sql_type.length),
            kind => result.sql_type.kind = kind,
        }
        if operand.result.sql_type.collation == CollationId::BINARY {
            // Bytes may be no text of the character set.
            result.nullable |= operand.result.is_text() && collation != CollationId::BINARY;
        }
        let node = Node::Cast(Box::new(operand));
        self.fold(Expression { node, result })
    }

    fn cast_type(&self, kind: &CastKind, operand: &Expression) -> Result<SqlType, SqlError> {
        let fraction = |kind: TypeKind, digits: &Option<u32>, name: &str| {
            let digits = digits.unwrap_or(0);
            match u8::try_from(digits) {
                Ok(decimals @ 0..=6) => Ok(SqlType { decimals, ..SqlType::new(kind, 0) }),
                _ => Err(SqlError::of::<1426>(&[&digits, &name, &6])),
            }
        };
        Ok(match kind {
            CastKind::Signed => SqlType::big_int(),
            CastKind::Unsigned => SqlType::unsigned_big_int(),
            CastKind::Date => SqlType::new(TypeKind::Date, 0),
            CastKind::Time(digits) => fraction(TypeKind::Time, digits, "CAST")?,
            CastKind::DateTime(digits) => fraction(TypeKind::DateTime, digits, "CAST")?,
            CastKind::Year => SqlType::new(TypeKind::Year, 4),
            CastKind::Decimal(digits) => {
                let (precision, scale) = digits.unwrap_or((10, 0));
                let precision = if precision == 0 { 10 } else { precision };
                if scale > Decimal::SCALE_MAX.into() {
                    return Err(SqlError::of::<1425>(&[&scale, operand, &Decimal::SCALE_MAX]));
                }
                if precision > Decimal::PRECISION_MAX {
                    let max = Decimal::PRECISION_MAX;
                    return Err(SqlError::of::<1426>(&[&precision, operand, &max]));
                }
                if scale > precision {
                    return Err(SqlError::of::<1427>(&[operand]));
                }
                SqlType::decimal(precision, scale as u8)
            }
            CastKind::Float(Some(precision)) if *precision > 53 => {
                return Err(SqlError::of::<1426>(&[precision, operand, &53]));
            }
            CastKind::Float(precision) => match precision {
                Some(25..) => SqlType::double(),
                _ => SqlType { kind: TypeKind::Float, length: 12, ..SqlType::double() },
            },
            CastKind::Double | CastKind::Real => SqlType::double(),
            CastKind::Json => SqlType::new(TypeKind::Json, u32::MAX),
            CastKind::Geometry(_) => return Err(SqlError::not_supported("spatial types")),
            CastKind::Binary(_) | CastKind::Char(..) => {
                return Err(SqlError::internal("a cast to text"));
            }
        })
    }

    /// JSON_VALUE: document, path, and for both misfortunes what happens and the default value.
    fn json_value(&mut self, json: &JsonValue) -> Result<Expression, SqlError> {
        let document = self.value(&json.document)?;
        let path = self.text_constant(&json.path);
        // Without a character set it is case-sensitive, as JSON is.
        let collating = Collating {
            collation: CollationId::UTF8MB4_0900_BIN,
            coercibility: Coercibility::Implicit,
            ascii: false,
        };
        let result = match &json.returning {
            None => ResultType::text(512, collating, true),
            Some(target) => {
                let mut sample = self.cast_to(Expression::null(), &target.kind)?.result;
                if matches!(target.kind, CastKind::Char(_, None)) {
                    sample.sql_type.collation = collating.collation;
                    sample.coercibility = collating.coercibility;
                }
                Self::nullable(sample)
            }
        };
        let mut arguments = vec![document, path];
        for response in [&json.on_empty, &json.on_error] {
            let (action, value) = match response {
                None | Some(JsonValueResponse::Null) => (0, Expression::null()),
                Some(JsonValueResponse::Error) => (1, Expression::null()),
                Some(JsonValueResponse::Default(expr)) => (2, self.value(expr)?),
            };
            arguments.extend([number(action), value]);
        }
        let call = self.typed_call(Function::known("json_value"), arguments)?;
        Ok(self.fold(Expression { result, ..call }))
    }
}

pub(super) fn number(value: i64) -> Expression {
    Expression::constant(Datum::Int(value), ResultType::of(SqlType::big_int(), false))
}
