//! Expressions as programs over columns, which data nodes run where the rows are.
//!
//! # Owns
//! [`ProgramBuilder`]: the translation of conditions, values and aggregates into nodes of a
//! [`vector::Program`], and what its results mean in SQL ([`Form`]).
//! # Guarantees
//! What is translated has the value there that evaluation gives here, for every row for which the
//! program computes one; where evaluation would be an error or leave a warning, it computes none.
//! When in doubt there is no translation.
//! # Not here
//! Which part of a query becomes a program (`sql`); the simpler conditions that come with reads and
//! changes by key (`kernel`).

mod form;
mod obstacle;
mod prefix;

use collation::CollationId;
use model::ColumnId;
use sql_parser::ast::{AggregateFunction, IntervalUnit, Truth};
use sqltype::storage;
use sqltype::{Datum, SqlType, TypeKind};
use vector::{
    Aggregate, DatePart, GroupKey, Input, NODES_MAX, Node as Step, NodeNumber, PARTS_MAX, Program,
    Scalar, Top, TopKey, Whole, Yield,
};

use crate::aggregate::AggregateCall;
use crate::comparison::Comparison;
use crate::context::EvalContext;
use crate::expression::{
    Arithmetic, BinaryOp, Branch, Call, Case, Compare, Constancy, Expression, InList, Needs, Node,
};
use crate::function::unit_of;

use form::kind_of_form;
use obstacle::why_not;

pub use form::{Form, datum_of, kind_of};
pub use obstacle::{Obstacle, short_text};

/// A column of the row that programs can read.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgramColumn {
    /// Its number in the kernel's table.
    pub column: ColumnId,
    /// Its type.
    pub sql_type: SqlType,
}

/// Digits that every number of 128 bits has room for.
const DIGITS_MAX: u32 = 38;

/// A node with its meaning.
#[derive(Clone, Copy)]
struct Value {
    node: NodeNumber,
    form: Form,
}

/// Makes a program, part by part. A part that has no translation leaves nothing behind that counts.
pub struct ProgramBuilder<'c> {
    columns: &'c [Option<ProgramColumn>],
    context: &'c EvalContext,
    program: Program,
    /// How many parts its nodes have.
    parts: usize,
    /// It is to say why something has no translation.
    explains: bool,
    obstacle: Option<Obstacle>,
}

impl<'c> ProgramBuilder<'c> {
    /// An empty program over rows whose places these columns are, which are its inputs in this
    /// order. Parameters must have been replaced by their values.
    pub fn new(columns: &'c [Option<ProgramColumn>], context: &'c EvalContext) -> Self {
        let inputs = columns
            .iter()
            .flatten()
            .map(|column| Input { column: column.column, kind: kind_of(&column.sql_type) });
        let yields = Yield::Rows(Vec::new());
        let (nodes, filter) = (Vec::new(), Vec::new());
        let (inputs, members) = (inputs.collect(), Vec::new());
        let program =
            Program { inputs, references: None, nodes, filter, yields, members, top: None };
        Self { columns, context, program, parts: 0, explains: false, obstacle: None }
    }

    /// Has it remember why something has no translation, which costs a text for each time.
    pub fn explaining(mut self, explains: bool) -> Self {
        self.explains = explains;
        self
    }

    /// Why the last part that was refused has no translation, if it was to remember that.
    pub fn take_obstacle(&mut self) -> Option<Obstacle> {
        self.obstacle.take()
    }

    /// Remembers why an expression has no translation, unless it is known of a part of it.
    fn blame(&mut self, expression: &Expression) {
        if self.explains && self.obstacle.is_none() {
            let why = why_not(expression);
            self.obstacle = Some(Obstacle { part: Some(short_text(expression)), why });
        }
    }

    /// Remembers why an aggregate has no translation, unless it is known of an argument.
    fn blame_aggregate<T>(&mut self, why: &'static str) -> Option<T> {
        if self.explains && self.obstacle.is_none() {
            self.obstacle = Some(Obstacle::because(why));
        }
        None
    }

    /// Has rows left alone in which the column `references` is not NULL; these are the inputs
    /// that they need besides.
    pub fn leave(&mut self, references: ColumnId, inputs: Vec<Input>) {
        self.program.references = Some(references);
        self.program.inputs.extend(inputs);
    }

    /// Adds a condition that rows must meet; false if it has no translation.
    pub fn filter(&mut self, condition: &Expression) -> bool {
        self.obstacle = None;
        let before = (self.program.nodes.len(), self.parts);
        let Some(node) = self.truth(condition) else {
            // What a part of it has added is room for others.
            self.program.nodes.truncate(before.0);
            self.parts = before.1;
            return false;
        };
        self.program.filter.push(node);
        true
    }

    /// Adds a column of the result: the values of a column as they are stored.
    pub fn give_column(&mut self, place: usize) -> Option<()> {
        let node = self.column(place)?.node;
        let Yield::Rows(nodes) = &mut self.program.yields else { return None };
        nodes.push(node);
        Some(())
    }

    /// Adds a column of the result: the values of an expression, in this form.
    pub fn give_value(&mut self, expression: &Expression) -> Option<Form> {
        let Value { node, form } = self.value(expression)?;
        let Yield::Rows(nodes) = &mut self.program.yields else { return None };
        nodes.push(node);
        Some(form)
    }

    /// Has so many rows given at least that come first in this order, each value with whether its
    /// largest comes first. False if something has no translation.
    pub fn first_rows(&mut self, keys: &[(&Expression, bool)], rows: u32) -> bool {
        let mut top = Vec::with_capacity(keys.len());
        for (expression, descending) in keys {
            let (node, collation) = match self.value(expression) {
                Some(Value { form: Form::Stored, .. }) | None => return false,
                Some(Value { node, form: Form::Text(id) }) => (node, id),
                Some(value) => (value.node, CollationId::BINARY),
            };
            top.push(TopKey { node, descending: *descending, collation: collation.0 });
        }
        self.program.top = Some(Top { keys: top, rows });
        true
    }

    /// Has rows grouped by these values, from now on. The forms of the keys, which are the first
    /// columns of the result.
    pub fn group(&mut self, keys: &[&Expression]) -> Option<Vec<Form>> {
        let (mut group, mut forms) = (Vec::with_capacity(keys.len()), Vec::new());
        self.obstacle = None;
        for key in keys {
            let Value { node, form } = self.value(key)?;
            let collation = match form {
                Form::Text(id) => id,
                _ => CollationId::BINARY,
            };
            group.push(GroupKey { node, collation: collation.0 });
            forms.push(form);
        }
        self.program.yields = Yield::Groups { keys: group, aggregates: Vec::new() };
        Some(forms)
    }

    /// Adds a column of the result of groups: the value of a column in some row of the group.
    pub fn give_first(&mut self, place: usize) -> Option<()> {
        let node = self.column(place)?.node;
        self.aggregate(vector::AggregateFunction::First, Some(node), CollationId::BINARY)
    }

    /// Adds the columns of the result that an aggregate takes: the count of its values, and for all
    /// but COUNT the form of the second column. Its parts are put together by
    /// [`Accumulator::of_part`](crate::Accumulator::of_part).
    pub fn give_aggregate(&mut self, call: &AggregateCall) -> Option<Option<Form>> {
        use vector::AggregateFunction as A;
        self.obstacle = None;
        let exact = call.exact && call.values.iter().any(Expression::holds_quotient);
        let why = match call {
            AggregateCall { distinct: true, .. } => "DISTINCT compares the values of all rows",
            AggregateCall { grouping: true, .. } => "GROUPING is of the groups, not of rows",
            _ if !call.order_by.is_empty() => "ORDER BY is over the rows of a whole group",
            _ if exact => "quotients are summed with all their digits",
            _ => "",
        };
        if !why.is_empty() {
            return self.blame_aggregate(why);
        }
        let value = match call.values.as_slice() {
            [] => None,
            [value] => Some(self.value(value)?),
            _ => return self.blame_aggregate("it has several arguments"),
        };
        let node = value.map(|value| value.node);
        let (function, collation) = match (call.function, value) {
            (AggregateFunction::Count, _) => {
                self.aggregate(A::Count, node, CollationId::BINARY)?;
                return Some(None);
            }
            (AggregateFunction::Sum | AggregateFunction::Avg, Some(Value { form, .. })) => {
                let is_double = call.result.sql_type.kind == TypeKind::Double;
                let fits = match form {
                    Form::Float => is_double,
                    Form::Int | Form::UInt | Form::Decimal(_) => !is_double,
                    _ => false,
                };
                if !fits {
                    return self.blame_aggregate("data nodes add numbers only");
                }
                (A::Sum, CollationId::BINARY)
            }
            (AggregateFunction::Min | AggregateFunction::Max, Some(Value { form, .. })) => {
                let collation = match form {
                    Form::Stored => {
                        return self.blame_aggregate("data nodes do not compare this type");
                    }
                    Form::Text(_) => call.result.sql_type.collation,
                    _ => CollationId::BINARY,
                };
                let is_min = call.function == AggregateFunction::Min;
                (if is_min { A::Min } else { A::Max }, collation)
            }
            _ => return self.blame_aggregate("data nodes have COUNT, SUM, AVG, MIN and MAX only"),
        };
        self.aggregate(A::Count, node, CollationId::BINARY)?;
        self.aggregate(function, node, collation)?;
        Some(value.map(|value| value.form))
    }

    /// Adds a column of the result to this program and to the one for the rows of the other side of
    /// a join: what is equal there is equal under the comparison. The collation under which texts
    /// are. The other side is a column; if this one is too, there is always a value.
    pub fn give_key(
        &mut self,
        other: &mut Self,
        left: &Expression,
        right: &Expression,
        comparison: Comparison,
    ) -> Option<CollationId> {
        let (a, b) = (self.value(left)?, other.column(right.as_column()? as usize)?);
        let (a, b, collation) = match comparison {
            Comparison::Text(id) => match (a.form, b.form) {
                (Form::Text(_), Form::Text(_)) => (a.node, b.node, id),
                _ => return None,
            },
            _ if a.form == b.form && !matches!(a.form, Form::Stored | Form::Text(_)) => {
                (a.node, b.node, CollationId::BINARY)
            }
            Comparison::Int | Comparison::Decimal => {
                let scale = a.form.scale()?.max(b.form.scale()?);
                let fits = |side: &Expression, form: Form| {
                    let digits =
                        if side.sql_type().kind.is_integer() { 20 } else { side.sql_type().length };
                    digits + u32::from(scale - form.scale().unwrap_or(0)) <= DIGITS_MAX
                };
                if !fits(left, a.form) || !fits(right, b.form) {
                    return None;
                }
                (self.scaled(a, scale)?, other.scaled(b, scale)?, CollationId::BINARY)
            }
            Comparison::Double => (self.float(a)?, other.float(b)?, CollationId::BINARY),
            Comparison::DateTime => match (a.form, b.form) {
                (Form::Date, Form::DateTime) => {
                    (self.add(Step::Midnight(a.node))?, b.node, CollationId::BINARY)
                }
                (Form::DateTime, Form::Date) => {
                    (a.node, other.add(Step::Midnight(b.node))?, CollationId::BINARY)
                }
                _ => return None,
            },
            Comparison::Time | Comparison::Json => return None,
        };
        for (builder, node) in [(self, a), (other, b)] {
            let Yield::Rows(nodes) = &mut builder.program.yields else { return None };
            nodes.push(node);
        }
        Some(collation)
    }

    /// The program; nothing if it is larger than data nodes take.
    pub fn finish(self) -> Option<Program> {
        (self.program.nodes.len() <= NODES_MAX).then_some(self.program)
    }

    fn aggregate(
        &mut self,
        function: vector::AggregateFunction,
        node: Option<NodeNumber>,
        collation: CollationId,
    ) -> Option<()> {
        let Yield::Groups { aggregates, .. } = &mut self.program.yields else { return None };
        aggregates.push(Aggregate { function, node, collation: collation.0 });
        Some(())
    }

    /// The number of a node, which is added if there is none like it.
    fn add(&mut self, step: Step) -> Option<NodeNumber> {
        let known = self.program.nodes.iter().position(|node| *node == step);
        if let Some(at) = known {
            return NodeNumber::try_from(at).ok();
        }
        // Data nodes refuse more.
        self.parts += step.part_count();
        if self.program.nodes.len() >= NODES_MAX || self.parts > PARTS_MAX {
            return None;
        }
        self.program.nodes.push(step);
        NodeNumber::try_from(self.program.nodes.len() - 1).ok()
    }

    fn column(&mut self, place: usize) -> Option<Value> {
        let column = self.columns.get(place)?.as_ref()?;
        let input = self.columns[..place].iter().flatten().count();
        let node = self.add(Step::Input(u16::try_from(input).ok()?))?;
        Some(Value { node, form: Form::of(&column.sql_type) })
    }

    fn value(&mut self, expression: &Expression) -> Option<Value> {
        let value = self.value_of(expression);
        if value.is_none() {
            self.blame(expression);
        }
        value
    }

    fn value_of(&mut self, expression: &Expression) -> Option<Value> {
        // It has more digits for what takes it than as a value.
        if expression.holds_quotient() {
            return None;
        }
        if expression.constancy() < Constancy::Row {
            return self.constant(expression);
        }
        match &expression.node {
            Node::Column { index, .. } => self.column(*index as usize),
            Node::Arithmetic(both) => self.arithmetic(expression, both),
            Node::Negate(operand) => self.negate(expression, operand),
            Node::Case(case) => self.case(expression, case),
            Node::Call(call) => self.call(call),
            Node::And(_)
            | Node::Or(_)
            | Node::Not(_)
            | Node::IsNull(_)
            | Node::IsTruth { .. }
            | Node::Compare(_)
            | Node::Between(_)
            | Node::InList(_)
            | Node::Like(_) => Some(Value { node: self.truth(expression)?, form: Form::Int }),
            _ => None,
        }
    }

    /// A value that is compared as it is shown.
    fn compared(&mut self, expression: &Expression) -> Option<Value> {
        if expression.holds_quotient() && expression.constancy() < Constancy::Row {
            self.constant(expression)
        } else {
            self.value(expression)
        }
    }

    /// The value of an expression that is the same for all rows.
    fn constant(&mut self, expression: &Expression) -> Option<Value> {
        let (scalar, form) = self.scalar(expression)?;
        let step = match scalar {
            Some(scalar) => Step::Constant(scalar),
            None => Step::Null(kind_of_form(form)),
        };
        Some(Value { node: self.add(step)?, form })
    }

    /// Likewise, as a value; nothing inside for NULL.
    fn scalar(&self, expression: &Expression) -> Option<(Option<Scalar>, Form)> {
        if expression.needs() != Needs::default() {
            return None;
        }
        let datum = match &expression.node {
            Node::Constant(value) => value.clone(),
            _ => {
                let mut context = self.context.clone();
                let before = context.warnings.count;
                let value = expression.eval(&[], &mut context).ok()?;
                // A warning is for each row.
                if context.warnings.count != before {
                    return None;
                }
                value
            }
        };
        let sql_type = expression.sql_type();
        let stored = |kind| match storage::to_value(&datum, &SqlType::new(kind, 0)) {
            model::Value::UInt(number) => Some(Scalar::UInt(number)),
            _ => None,
        };
        let (scalar, form) = match &datum {
            Datum::Null => return Some((None, Form::of(sql_type))),
            Datum::Int(number) => (Scalar::Int(*number), Form::Int),
            Datum::UInt(number) => (Scalar::UInt(*number), Form::UInt),
            Datum::Double(number) => (Scalar::Float(*number), Form::Float),
            Datum::Decimal(number) => {
                let whole = Whole(number.to_unscaled()?);
                (Scalar::Decimal(whole), Form::Decimal(number.scale()))
            }
            Datum::Bytes(text) if expression.result.is_text() => {
                (Scalar::Bytes(text.clone()), Form::Text(sql_type.collation))
            }
            Datum::Date(_) => (stored(TypeKind::Date)?, Form::Date),
            Datum::DateTime(_) => (stored(TypeKind::DateTime)?, Form::DateTime),
            Datum::Time(time) => (Scalar::Int(time.micros), Form::Time),
            Datum::Bytes(_) | Datum::Json(_) => return None,
        };
        Some((Some(scalar), form))
    }

    /// A whole number or decimal as decimal of this scale.
    fn scaled(&mut self, value: Value, scale: u8) -> Option<NodeNumber> {
        let Value { node, form } = value;
        let has = match form {
            Form::Int | Form::UInt => 0,
            Form::Decimal(has) if has == scale => return Some(node),
            Form::Decimal(has) => has,
            _ => return None,
        };
        let by = scale.checked_sub(has)?;
        if let Step::Constant(constant) = &self.program.nodes[usize::from(node)] {
            let number = match constant {
                Scalar::Int(number) => i128::from(*number),
                Scalar::UInt(number) => i128::from(*number),
                Scalar::Decimal(number) => number.0,
                _ => return None,
            };
            let number = number.checked_mul(10_i128.checked_pow(by.into())?)?;
            return self.add(Step::Constant(Scalar::Decimal(Whole(number))));
        }
        self.add(Step::Scale { operand: node, by })
    }

    /// A number as floating-point number; a decimal is not rounded here as it is there.
    fn float(&mut self, value: Value) -> Option<NodeNumber> {
        match value.form {
            Form::Float => Some(value.node),
            Form::Int | Form::UInt => self.add(Step::Float(value.node)),
            _ => None,
        }
    }

    /// Two whole numbers in a kind that both have.
    fn whole(&mut self, a: Value, b: Value) -> Option<(NodeNumber, NodeNumber)> {
        let (a, b) = match (a.form, b.form) {
            (Form::Int, Form::UInt) => (self.without_sign(a), b),
            (Form::UInt, Form::Int) => (a, self.without_sign(b)),
            _ => (a, b),
        };
        match (a.form, b.form) {
            (Form::Int, Form::Int) | (Form::UInt, Form::UInt) => Some((a.node, b.node)),
            _ => Some((self.scaled(a, 0)?, self.scaled(b, 0)?)),
        }
    }

    /// A constant that is not negative as unsigned integer; everything else as it is.
    fn without_sign(&mut self, value: Value) -> Value {
        if let Step::Constant(Scalar::Int(number)) = self.program.nodes[usize::from(value.node)]
            && let Ok(number) = u64::try_from(number)
            && let Some(node) = self.add(Step::Constant(Scalar::UInt(number)))
        {
            return Value { node, form: Form::UInt };
        }
        value
    }

    fn arithmetic(&mut self, whole: &Expression, both: &Arithmetic) -> Option<Value> {
        let (left, right) = (self.value(&both.left)?, self.value(&both.right)?);
        let step = |left, right| match both.op {
            BinaryOp::Add => Some(Step::Add(left, right)),
            BinaryOp::Subtract => Some(Step::Subtract(left, right)),
            BinaryOp::Multiply => Some(Step::Multiply(left, right)),
            _ => None,
        };
        let sql_type = &whole.result.sql_type;
        let (step, form) = match sql_type.kind {
            TypeKind::Double => (step(self.float(left)?, self.float(right)?)?, Form::Float),
            TypeKind::Decimal => {
                let (a, b) = (left.form.scale()?, right.form.scale()?);
                let (scale, to) = match both.op {
                    BinaryOp::Multiply => (a.checked_add(b)?, (a, b)),
                    _ => (a.max(b), (a.max(b), a.max(b))),
                };
                // Otherwise the result is rounded.
                if scale != sql_type.decimals {
                    return None;
                }
                (step(self.scaled(left, to.0)?, self.scaled(right, to.1)?)?, Form::Decimal(scale))
            }
            TypeKind::BigInt | TypeKind::Int | TypeKind::MediumInt => {
                let (form, kind) = if sql_type.unsigned {
                    (Form::UInt, Form::UInt)
                } else {
                    (Form::Int, Form::Int)
                };
                let (left, right) = if sql_type.unsigned {
                    (self.without_sign(left), self.without_sign(right))
                } else {
                    (left, right)
                };
                if left.form != kind || right.form != kind {
                    return None;
                }
                (step(left.node, right.node)?, form)
            }
            _ => return None,
        };
        Some(Value { node: self.add(step)?, form })
    }

    fn negate(&mut self, whole: &Expression, operand: &Expression) -> Option<Value> {
        let Value { node, form } = self.value(operand)?;
        let zero = match (form, &whole.result.sql_type.kind) {
            (Form::Int, TypeKind::BigInt) if !whole.result.sql_type.unsigned => Scalar::Int(0),
            (Form::Decimal(_), TypeKind::Decimal) => Scalar::Decimal(Whole(0)),
            _ => return None,
        };
        let zero = self.add(Step::Constant(zero))?;
        Some(Value { node: self.add(Step::Subtract(zero, node))?, form })
    }

    fn call(&mut self, call: &Call) -> Option<Value> {
        let (part, date) = match (call.function.name, &call.arguments[..]) {
            ("year", [date]) => (DatePart::Year, date),
            ("month", [date]) => (DatePart::Month, date),
            ("day" | "dayofmonth", [date]) => (DatePart::Day, date),
            ("extract", [date, unit]) => {
                let Some(Datum::Int(unit)) = unit.as_constant() else { return None };
                let part = match unit_of(Some(*unit)) {
                    IntervalUnit::Year => DatePart::Year,
                    IntervalUnit::Month => DatePart::Month,
                    IntervalUnit::Day => DatePart::Day,
                    _ => return None,
                };
                (part, date)
            }
            _ => return None,
        };
        let Value { node: operand, form } = self.value(date)?;
        let timed = match form {
            Form::Date => false,
            Form::DateTime => true,
            _ => return None,
        };
        Some(Value { node: self.add(Step::Part { operand, part, timed })?, form: Form::Int })
    }

    fn case(&mut self, whole: &Expression, case: &Case) -> Option<Value> {
        let form = Form::of(&whole.result.sql_type);
        // CASE compares quotients with all their digits.
        let whens = case.branches.iter().map(|branch| &branch.when);
        if case.operand.iter().chain(whens).any(Expression::holds_quotient) {
            return None;
        }
        let mut branches = Vec::with_capacity(case.branches.len());
        for Branch { when, comparison, then } in &case.branches {
            let condition = match &case.operand {
                None => self.truth(when)?,
                Some(operand) => self.compare(BinaryOp::Equal, *comparison, operand, when)?,
            };
            branches.push((condition, self.value_as(then, form)?));
        }
        let otherwise = match &case.otherwise {
            Some(value) => self.value_as(value, form)?,
            None => self.add(Step::Null(kind_of_form(form)))?,
        };
        Some(Value { node: self.add(Step::Case { branches, otherwise })?, form })
    }

    /// A value in the form of another that it is a case of.
    fn value_as(&mut self, expression: &Expression, form: Form) -> Option<NodeNumber> {
        let is_null = matches!(expression.node, Node::Constant(Datum::Null));
        if is_null {
            return self.add(Step::Null(kind_of_form(form)));
        }
        let value = self.value(expression)?;
        match form {
            Form::Decimal(scale) => self.scaled(value, scale),
            Form::Float => self.float(value),
            Form::Text(_) if matches!(value.form, Form::Text(_)) => Some(value.node),
            Form::Int | Form::UInt | Form::Date | Form::DateTime | Form::Time
                if value.form == form =>
            {
                Some(value.node)
            }
            _ => None,
        }
    }

    /// A condition: a node whose values are truth values.
    fn truth(&mut self, expression: &Expression) -> Option<NodeNumber> {
        let truth = self.truth_of(expression);
        if truth.is_none() {
            self.blame(expression);
        }
        truth
    }

    fn truth_of(&mut self, expression: &Expression) -> Option<NodeNumber> {
        let all = |builder: &mut Self, list: &[Expression]| {
            list.iter().map(|part| builder.truth(part)).collect::<Option<Vec<_>>>()
        };
        if expression.constancy() < Constancy::Row {
            return self.nonzero(expression);
        }
        let (step, negated) = match &expression.node {
            Node::And(list) => (Step::And(all(self, list)?), false),
            Node::Or(list) => (Step::Or(all(self, list)?), false),
            Node::Not(operand) => (Step::Not(self.truth(operand)?), false),
            Node::IsNull(operand) => (Step::IsNull(self.value(operand)?.node), false),
            Node::IsTruth { operand, value, negated } => {
                let mut truth = self.truth(operand)?;
                let null = self.add(Step::IsNull(truth))?;
                let known = self.add(Step::Not(null))?;
                if *value == Truth::False {
                    truth = self.add(Step::Not(truth))?;
                }
                (Step::And(vec![known, truth]), *negated)
            }
            Node::Compare(compare) => {
                let Compare { op, comparison, left, right } = &**compare;
                return self.compare(*op, *comparison, left, right);
            }
            Node::Between(between) => {
                let [first, second] = between.comparisons;
                let (operand, low, high) = (&between.operand, &between.low, &between.high);
                if [operand, low, high].into_iter().any(Expression::holds_quotient) {
                    return None;
                }
                let above = self.compare(BinaryOp::GreaterOrEqual, first, operand, low)?;
                let below = self.compare(BinaryOp::LessOrEqual, second, operand, high)?;
                (Step::And(vec![above, below]), between.negated)
            }
            Node::InList(list) => (self.in_list(list)?, list.negated),
            Node::Like(like) => {
                let Value { node: operand, form } = self.value(&like.operand)?;
                let (pattern, of) = self.scalar(&like.pattern)?;
                let (Form::Text(_), Form::Text(_), Some(Scalar::Bytes(pattern))) =
                    (form, of, pattern)
                else {
                    return None;
                };
                let (escape, collation) = (like.escape.map(u32::from), like.collation.0);
                (Step::Like { operand, pattern, escape, collation }, like.negated)
            }
            _ => return self.nonzero(expression),
        };
        let node = self.add(step)?;
        if negated { self.add(Step::Not(node)) } else { Some(node) }
    }

    /// Whether a number is not zero.
    fn nonzero(&mut self, expression: &Expression) -> Option<NodeNumber> {
        let Value { node: left, form } = self.value(expression)?;
        let zero = match form {
            Form::Int => Scalar::Int(0),
            Form::UInt => Scalar::UInt(0),
            Form::Decimal(_) => Scalar::Decimal(Whole(0)),
            Form::Float => Scalar::Float(0.0),
            _ => return None,
        };
        let right = self.add(Step::Constant(zero))?;
        let (order, collation) = (model::Comparison::NotEqual, CollationId::BINARY.0);
        self.add(Step::Compare { order, left, right, collation })
    }

    fn compare(
        &mut self,
        op: BinaryOp,
        comparison: Comparison,
        left: &Expression,
        right: &Expression,
    ) -> Option<NodeNumber> {
        let order = match op {
            BinaryOp::Equal | BinaryOp::NullSafeEqual => model::Comparison::Equal,
            BinaryOp::NotEqual => model::Comparison::NotEqual,
            BinaryOp::Less => model::Comparison::Less,
            BinaryOp::LessOrEqual => model::Comparison::LessOrEqual,
            BinaryOp::Greater => model::Comparison::Greater,
            BinaryOp::GreaterOrEqual => model::Comparison::GreaterOrEqual,
            _ => return None,
        };
        if comparison.sees_more_digits(left, right) {
            return None;
        }
        let (a, b) = (self.compared(left)?, self.compared(right)?);
        let (left, right, collation) = self.comparable(comparison, a, b)?;
        let compared = self.add(Step::Compare { order, left, right, collation })?;
        if op != BinaryOp::NullSafeEqual {
            return Some(compared);
        }
        let nulls = [self.add(Step::IsNull(left))?, self.add(Step::IsNull(right))?];
        let known = [self.add(Step::Not(nulls[0]))?, self.add(Step::Not(nulls[1]))?];
        let both_null = self.add(Step::And(nulls.to_vec()))?;
        let equal = self.add(Step::And(vec![known[0], known[1], compared]))?;
        self.add(Step::Or(vec![both_null, equal]))
    }

    /// Two values in one kind in which they compare as SQL compares them, and the collation.
    fn comparable(
        &mut self,
        comparison: Comparison,
        a: Value,
        b: Value,
    ) -> Option<(NodeNumber, NodeNumber, u16)> {
        let binary = CollationId::BINARY.0;
        let (a, b) = match comparison {
            Comparison::Int => self.whole(a, b)?,
            Comparison::Decimal => {
                let scale = a.form.scale()?.max(b.form.scale()?);
                (self.scaled(a, scale)?, self.scaled(b, scale)?)
            }
            Comparison::Double => (self.float(a)?, self.float(b)?),
            Comparison::Text(id) => match (a.form, b.form) {
                (Form::Text(_), Form::Text(_)) => return Some((a.node, b.node, id.0)),
                _ => return None,
            },
            Comparison::DateTime => match (a.form, b.form) {
                (Form::Date, Form::Date) | (Form::DateTime, Form::DateTime) => (a.node, b.node),
                (Form::Date, Form::DateTime) => (self.add(Step::Midnight(a.node))?, b.node),
                (Form::DateTime, Form::Date) => (a.node, self.add(Step::Midnight(b.node))?),
                _ => return None,
            },
            Comparison::Time => match (a.form, b.form) {
                (Form::Time, Form::Time) => (a.node, b.node),
                _ => return None,
            },
            Comparison::Json => return None,
        };
        Some((a, b, binary))
    }

    fn in_list(&mut self, list: &InList) -> Option<Step> {
        if let Some(step) = self.in_prefixes(list) {
            return Some(step);
        }
        if let Some(step) = self.in_constants(list) {
            return Some(step);
        }
        let mut parts = Vec::with_capacity(list.list.len());
        for (element, comparison) in &list.list {
            parts.push(self.compare(BinaryOp::Equal, *comparison, &list.operand, element)?);
        }
        Some(Step::Or(parts))
    }

    /// A list of constants that are of the operand's kind as they are.
    fn in_constants(&mut self, list: &InList) -> Option<Step> {
        let Value { node: operand, form } = self.value(&list.operand)?;
        let mut collation = CollationId::BINARY;
        let (mut scalars, mut with_null) = (Vec::with_capacity(list.list.len()), false);
        for (element, comparison) in &list.list {
            if element.constancy() == Constancy::Row {
                return None;
            }
            let same = match (comparison, form) {
                (Comparison::Int, Form::Int | Form::UInt)
                | (Comparison::DateTime, Form::Date | Form::DateTime)
                | (Comparison::Time, Form::Time) => true,
                (Comparison::Text(id), Form::Text(_)) => {
                    let first = scalars.is_empty() && !with_null;
                    let same = first || collation == *id;
                    collation = *id;
                    same
                }
                _ => false,
            };
            let (scalar, of) = self.scalar(element)?;
            let both_texts = matches!((of, form), (Form::Text(_), Form::Text(_)));
            match scalar {
                None => with_null = true,
                Some(scalar) if same && (of == form || both_texts) => scalars.push(scalar),
                Some(_) => return None,
            }
        }
        Some(Step::In { operand, list: scalars, with_null, collation: collation.0 })
    }
}

#[cfg(test)]
mod tests;
