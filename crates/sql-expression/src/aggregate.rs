//! Aggregates: their types, and the state machines that compute them.
//!
//! # Owns
//! [`AggregateCall`], what the binder lists for a query block; [`Accumulator`], one group's state.
//! # Guarantees
//! Accumulators of parts of a group can be merged, and give what one over all rows gives; only the
//! order within GROUP_CONCAT and JSON_ARRAYAGG without ORDER BY depends on the order of the rows.
//! # Not here
//! Groups (`sql`).

mod kept;
mod state;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use collation::CollationId;
use sql_parser::ast::AggregateFunction;
use sqltype::{Datum, Decimal, SqlType, TypeKind};

use crate::context::{EvalContext, SessionFacts};
use crate::error::SqlError;
use crate::expression::Expression;
use crate::function::signature::{
    Domain, decimal_digits, decimal_type, domain_of, double_type, fixed_digits, number_of,
};
use crate::key::push_group_key;
use crate::result_type::{Coercibility, Collating, ResultType, merge_collations};
use state::State;

/// A key of a sort.
#[derive(Clone, Debug, PartialEq)]
pub struct SortKey {
    /// By what.
    pub expression: Expression,
    /// From the largest to the smallest.
    pub descending: bool,
}

/// An aggregate with its arguments.
#[derive(Clone, Debug, PartialEq)]
pub struct AggregateCall {
    /// Which.
    pub function: AggregateFunction,
    /// Each value counts once.
    pub distinct: bool,
    /// The arguments; none for `COUNT(*)`.
    pub values: Vec<Expression>,
    /// ORDER BY of GROUP_CONCAT.
    pub order_by: Vec<SortKey>,
    /// SEPARATOR of GROUP_CONCAT.
    pub separator: Box<[u8]>,
    /// The type of the result.
    pub result: ResultType,
    /// GROUPING: which of the values a super-aggregate row is not grouped by, as bits, the last one
    /// the lowest. No rows are aggregated: whoever makes the groups knows it.
    pub grouping: bool,
    /// Quotients are summed with all the digits that they are computed with. MySQL does so where
    /// all rows are one group; of groups it keeps sums of rounded values in a table.
    pub exact: bool,
}

/// The state of an aggregate over the rows of a group.
#[derive(Clone, Debug)]
pub struct Accumulator {
    state: State,
    /// With DISTINCT: the values seen, by their keys.
    seen: Option<BTreeMap<Vec<u8>, Vec<Datum>>>,
}

impl AggregateCall {
    /// An aggregate whose arguments are bound already.
    pub fn derive(
        function: AggregateFunction,
        distinct: bool,
        values: Vec<Expression>,
        order_by: Vec<SortKey>,
        separator: Option<Box<[u8]>>,
        facts: &SessionFacts,
    ) -> Result<Self, SqlError> {
        use AggregateFunction as A;
        let values: Vec<Expression> = match function {
            A::Count | A::Min | A::Max | A::GroupConcat | A::JsonArrayAgg | A::JsonObjectAgg => {
                values
            }
            _ => values.into_iter().map(number_of).collect(),
        };
        let wanted = match function {
            A::Count if distinct => 1..=usize::MAX,
            A::Count => 0..=1,
            A::GroupConcat => 1..=usize::MAX,
            A::JsonObjectAgg => 2..=2,
            _ => 1..=1,
        };
        if !wanted.contains(&values.len()) {
            return Err(SqlError::of::<1582>(&[&function.name()]));
        }
        let result = result_of(function, &values, facts)?;
        // DISTINCT changes nothing for these.
        let distinct = distinct && !matches!(function, A::Min | A::Max | A::BitAnd | A::BitOr);
        let separator = separator.unwrap_or_else(|| Box::from(*b","));
        let grouping = false;
        let exact = false;
        Ok(Self { function, distinct, values, order_by, separator, result, grouping, exact })
    }

    /// GROUPING of these values.
    pub fn grouping(values: Vec<Expression>) -> Self {
        Self {
            function: AggregateFunction::Count,
            distinct: false,
            values,
            order_by: Vec::new(),
            separator: Box::default(),
            result: ResultType::of(SqlType::big_int(), false),
            grouping: true,
            exact: false,
        }
    }

    /// Every expression that is evaluated for a row: arguments and sort keys.
    pub fn arguments(&self) -> impl Iterator<Item = &Expression> {
        self.values.iter().chain(self.order_by.iter().map(|key| &key.expression))
    }

    /// As [`AggregateCall::arguments`], to change them.
    pub fn arguments_mut(&mut self) -> impl Iterator<Item = &mut Expression> {
        self.values.iter_mut().chain(self.order_by.iter_mut().map(|key| &mut key.expression))
    }

    fn value_type(&self) -> &SqlType {
        self.values[0].sql_type()
    }
}

fn result_of(
    function: AggregateFunction,
    values: &[Expression],
    facts: &SessionFacts,
) -> Result<ResultType, SqlError> {
    use AggregateFunction as A;
    Ok(match function {
        A::Count => ResultType::of(SqlType::big_int(), false),
        A::Sum | A::Avg => {
            let argument = &values[0].result;
            let (whole, scale) = decimal_digits(argument);
            let increment = u32::from(facts.div_precision_increment);
            let sql_type = match (domain_of(argument), function) {
                (Domain::Double, A::Sum) => double_type(fixed_digits(argument)),
                (Domain::Double, _) => {
                    double_type(fixed_digits(argument).saturating_add(increment as u8))
                }
                (_, A::Sum) => decimal_type(whole + 22, scale),
                _ => decimal_type(whole, (scale + increment).min(Decimal::SCALE_MAX.into())),
            };
            ResultType::of(sql_type, true)
        }
        A::BitAnd | A::BitOr | A::BitXor => {
            let argument = &values[0].result;
            if is_binary_string(argument) {
                if argument.text_length() > BIT_STRING_MAX {
                    return Err(SqlError::of::<3514>(&[]));
                } else {
                    let coercibility = Coercibility::Implicit;
                    let collation = CollationId::BINARY;
                    let collating = Collating { collation, coercibility, ascii: false };
                    ResultType::text(argument.text_length(), collating, false)
                }
            } else {
                ResultType::of(SqlType::unsigned_big_int(), false)
            }
        }
        A::StddevPop | A::StddevSamp | A::VarPop | A::VarSamp => {
            ResultType::of(SqlType::double(), true)
        }
        A::Min | A::Max => {
            let mut result = ResultType { nullable: true, ..values[0].result.clone() };
            if matches!(result.sql_type.kind, TypeKind::Enum(_) | TypeKind::Set(_)) {
                let length = result.text_length();
                let collation = result.sql_type.collation;
                result.sql_type = crate::result_type::text_type(length, collation);
            }
            result
        }
        A::GroupConcat => {
            let collatings: Vec<Collating> =
                values.iter().map(|value| value.result.collating(facts.collation)).collect();
            let mut collating = merge_collations("group_concat", &collatings, false)?;
            if collating == Collating::IGNORABLE {
                collating = Collating::literal(facts.collation, true);
            }
            let per_character = u64::from(collating.collation.charset().max_len());
            let length = (facts.group_concat_max_len / per_character).min(u32::MAX.into());
            let mut result = ResultType::text(length as u32, collating, true);
            if length > 512 {
                result.sql_type.kind = TypeKind::Text;
            }
            result
        }
        A::JsonArrayAgg | A::JsonObjectAgg => {
            ResultType::of(SqlType::new(TypeKind::Json, u32::MAX), true)
        }
        A::StCollect => return Err(SqlError::not_supported("spatial functions")),
    })
}

/// Bytes of the longest binary strings whose bits are aggregated.
const BIT_STRING_MAX: u32 = 511;

fn is_binary_string(result: &ResultType) -> bool {
    result.is_text() && result.sql_type.collation == CollationId::BINARY && !result.bits
}

/// About what a value of DISTINCT takes beside its bytes.
const SEEN_BYTES: usize = 64;

impl Accumulator {
    /// The state before any row.
    pub fn new(call: &AggregateCall) -> Self {
        Self { state: State::new(call), seen: call.distinct.then(BTreeMap::new) }
    }

    /// The state after rows that somebody else has looked at: so many values that count, and what
    /// they come to, which is their sum for SUM and AVG, the smallest or largest for MIN and MAX.
    /// `None` for other aggregates, and with DISTINCT.
    pub fn of_part(call: &AggregateCall, count: u64, value: Datum) -> Option<Self> {
        let state = State::of_part(call, count, value).filter(|_| !call.distinct)?;
        Some(Self { state, seen: None })
    }

    /// Takes a row. What it keeps of it is added to `context.kept_bytes`.
    pub fn update(
        &mut self,
        call: &AggregateCall,
        row: &[Datum],
        context: &mut EvalContext,
    ) -> Result<(), SqlError> {
        if call.values.is_empty() {
            self.state.count();
            return Ok(());
        }
        let skips_null = call.function != AggregateFunction::JsonArrayAgg
            && call.function != AggregateFunction::JsonObjectAgg;
        if let ([value], [], None) = (call.values.as_slice(), call.order_by.as_slice(), &self.seen)
        {
            if call.exact && value.holds_quotient() {
                return match value.exact_decimal(row, context)? {
                    Some(number) => self.state.take(call, &Datum::Decimal(number), context),
                    None => Ok(()),
                };
            }
            let value = value.operand(row, context)?;
            if value.is_null() && skips_null {
                return Ok(());
            }
            return self.state.take(call, &value, context);
        }
        let mut values = Vec::with_capacity(call.values.len() + call.order_by.len());
        for value in &call.values {
            let value = value.eval(row, context)?;
            if value.is_null() && skips_null {
                return Ok(());
            }
            values.push(value);
        }
        let Some(seen) = &mut self.seen else {
            for key in &call.order_by {
                values.push(key.expression.eval(row, context)?);
            }
            return self.state.take_all(call, values, context);
        };
        let mut key = Vec::new();
        for (value, expression) in values.iter().zip(&call.values) {
            push_group_key(value, expression.sql_type(), &mut key);
        }
        if let Entry::Vacant(place) = seen.entry(key) {
            for key in &call.order_by {
                values.push(key.expression.eval(row, context)?);
            }
            let of_values: u64 = values.iter().map(state::size_of_value).sum();
            context.kept_bytes += (SEEN_BYTES + place.key().len()) as u64 + of_values;
            place.insert(values);
        }
        Ok(())
    }

    /// Takes what another accumulator of the same group and call has taken.
    pub fn merge(
        &mut self,
        other: Accumulator,
        call: &AggregateCall,
        context: &mut EvalContext,
    ) -> Result<(), SqlError> {
        if let (Some(seen), Some(others)) = (&mut self.seen, other.seen) {
            for (key, values) in others {
                seen.entry(key).or_insert(values);
            }
            return Ok(());
        }
        self.state.merge(other.state, call, context)
    }

    /// The result.
    pub fn finish(
        self,
        call: &AggregateCall,
        context: &mut EvalContext,
    ) -> Result<Datum, SqlError> {
        let mut state = self.state;
        for (_, values) in self.seen.into_iter().flatten() {
            state.take_all(call, values, context)?;
        }
        state.finish(call, context)
    }
}

#[cfg(test)]
mod tests;
