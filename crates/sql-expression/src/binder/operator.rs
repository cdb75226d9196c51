//! Operators: logic, comparison, arithmetic, LIKE, CASE, COLLATE.

use collation::CollationId;
use sql_parser::ast::{BinaryOp, Case as CaseSyntax, Expr, Ident, Literal, Truth, UnaryOp};
use sqltype::{Date, DateTime, Datum, TypeKind};

use super::literal::whole_number;
use super::{Binder, ComparedParameter};
use crate::comparison::Comparison;
use crate::error::SqlError;
use crate::expression::{
    Arithmetic, Between, Branch, Case, Compare, Constancy, Expression, InList, Like, Node,
};
use crate::function::signature;
use crate::print;
use crate::result_type::{Coercibility, ResultType};
use crate::sql_mode::SqlMode;

impl Binder<'_, '_> {
    /// The operators, apart from those with a query as operand.
    pub(super) fn operator(&mut self, expr: &Expr) -> Result<Expression, SqlError> {
        match expr {
            Expr::Unary { op, operand } => self.unary(*op, operand),
            Expr::Binary { op, left, right } => self.binary(*op, left, right),
            Expr::IsNull { operand, negated } => {
                let operand = self.value(operand)?;
                let is_null = self.is_null(operand);
                Ok(if *negated { self.not(is_null) } else { is_null })
            }
            Expr::IsTruth { operand, value, negated } => self.is_truth(operand, *value, *negated),
            Expr::Like { operand, pattern, escape, negated } => {
                self.like(operand, pattern, escape.as_deref(), *negated)
            }
            Expr::Between { operand, low, high, negated } => {
                self.between(operand, low, high, *negated)
            }
            Expr::InList { operand, list, negated } => self.in_list(operand, list, *negated),
            Expr::Case(case) => self.case(case),
            Expr::Collate { operand, collation } => self.collate(operand, collation),
            _ => Err(SqlError::internal("not an operator")),
        }
    }

    fn unary(&mut self, op: UnaryOp, operand: &Expr) -> Result<Expression, SqlError> {
        // The smallest integer is written as the negation of a number beyond the largest.
        if op == UnaryOp::Minus
            && let Expr::Literal(Literal::Integer(number)) = operand
            && *number <= 1 << 63
        {
            let value = Datum::Int((*number as i64).wrapping_neg());
            let digits = number.checked_ilog10().map_or(1, |log| log + 1);
            let sql_type = sqltype::SqlType::new(TypeKind::BigInt, digits + 1);
            return Ok(Expression::constant(value, whole_number(sql_type)));
        }
        match op {
            UnaryOp::Not => {
                let operand = self.value(operand)?;
                Ok(self.not(operand))
            }
            UnaryOp::Minus => {
                let operand = signature::number_of(self.value(operand)?);
                let result = signature::negated(&operand);
                Ok(self.fold(Expression { node: Node::Negate(Box::new(operand)), result }))
            }
            UnaryOp::BitNot => {
                let operand = self.value(operand)?;
                self.known_call("~", vec![operand])
            }
        }
    }

    pub(super) fn not(&self, operand: Expression) -> Expression {
        let result = ResultType::truth(operand.result.nullable);
        // A negated predicate is a predicate of its own where there is one.
        let node = match operand.node {
            Node::InList(mut list) => {
                list.negated = !list.negated;
                Node::InList(list)
            }
            Node::Between(mut between) => {
                between.negated = !between.negated;
                Node::Between(between)
            }
            Node::Like(mut like) => {
                like.negated = !like.negated;
                Node::Like(like)
            }
            _ => Node::Not(Box::new(operand)),
        };
        self.fold(Expression { node, result })
    }

    /// `operand IS NULL` as a condition: of a DATE or DATETIME column that is NOT NULL it finds the
    /// zero dates, for ODBC's sake.
    pub(super) fn null_or_zero_date(&self, operand: Expression) -> Expression {
        let kind = &operand.result.sql_type.kind;
        let is_date = matches!(kind, TypeKind::Date | TypeKind::DateTime);
        if !is_date || operand.result.nullable || operand.as_column().is_none() {
            return self.is_null(operand);
        }
        let zero = match kind {
            TypeKind::Date => Datum::Date(Date::default()),
            _ => Datum::DateTime(DateTime::default()),
        };
        let of = ResultType::of(operand.result.sql_type.clone(), false);
        let (op, comparison) = (BinaryOp::Equal, Comparison::DateTime);
        let right = Expression::constant(zero, of);
        let node = Node::Compare(Box::new(Compare { op, comparison, left: operand, right }));
        Expression { node, result: ResultType::truth(false) }
    }

    fn is_null(&self, operand: Expression) -> Expression {
        let node = Node::IsNull(Box::new(operand));
        self.fold(Expression { node, result: ResultType::truth(false) })
    }

    fn is_truth(
        &mut self,
        operand: &Expr,
        value: Truth,
        negated: bool,
    ) -> Result<Expression, SqlError> {
        let operand = self.value(operand)?;
        if value == Truth::Unknown {
            let is_null = self.is_null(operand);
            return Ok(if negated { self.not(is_null) } else { is_null });
        }
        let node = Node::IsTruth { operand: Box::new(operand), value, negated };
        Ok(self.fold(Expression { node, result: ResultType::truth(false) }))
    }

    /// AND and OR. Operands that decide nothing are left out, so that `1 = 1 AND …` costs nothing.
    pub(super) fn logical(
        &mut self,
        list: &[Expr],
        is_and: bool,
        is_condition: bool,
    ) -> Result<Expression, SqlError> {
        let mut parts = Vec::with_capacity(list.len());
        for expr in list {
            self.is_condition = is_condition;
            let part = self.value(expr)?;
            match part.as_constant().map(truth_of_number) {
                Some(Some(truth)) if truth == is_and => {}
                _ => parts.push(part),
            }
        }
        Ok(self.combine(parts, is_and))
    }

    /// The AND or OR of operands already bound; without operands it is what decides nothing.
    pub(super) fn combine(&self, parts: Vec<Expression>, is_and: bool) -> Expression {
        if parts.is_empty() {
            return Expression::constant(Datum::truth(is_and), ResultType::truth(false));
        }
        let result = ResultType::truth(parts.iter().any(|part| part.result.nullable));
        let settled = |part: &Expression| part.as_constant().and_then(truth_of_number);
        if parts.iter().any(|part| settled(part) == Some(!is_and)) {
            return Expression::constant(Datum::truth(!is_and), result);
        }
        let list = parts.into_boxed_slice();
        let node = if is_and { Node::And(list) } else { Node::Or(list) };
        self.fold(Expression { node, result })
    }

    fn binary(&mut self, op: BinaryOp, left: &Expr, right: &Expr) -> Result<Expression, SqlError> {
        let (left, right) = (self.expr(left)?, self.expr(right)?);
        if op.is_comparison() {
            return self.compare(op, left, right);
        }
        if left.width() != 1 || right.width() != 1 {
            return Err(SqlError::operand_columns(1));
        }
        let function = match op {
            BinaryOp::Xor => "xor",
            BinaryOp::BitAnd => "&",
            BinaryOp::BitOr => "|",
            BinaryOp::BitXor => "^",
            BinaryOp::ShiftLeft => "<<",
            BinaryOp::ShiftRight => ">>",
            _ => return Ok(self.arithmetic(op, left, right)),
        };
        self.known_call(function, vec![left, right])
    }

    pub(super) fn arithmetic(
        &self,
        op: BinaryOp,
        left: Expression,
        right: Expression,
    ) -> Expression {
        let (left, right) = (signature::number_of(left), signature::number_of(right));
        let facts = &self.settings.facts;
        let signed = facts.sql_mode.contains(SqlMode::NO_UNSIGNED_SUBTRACTION);
        let increment = facts.div_precision_increment;
        let result = signature::arithmetic(op, &left.result, &right.result, increment, signed);
        let node = Node::Arithmetic(Box::new(Arithmetic { op, left, right }));
        self.fold(Expression { node, result })
    }

    /// A comparison of two values or two rows.
    pub(super) fn compare(
        &mut self,
        op: BinaryOp,
        left: Expression,
        right: Expression,
    ) -> Result<Expression, SqlError> {
        if left.width() != right.width() {
            return Err(SqlError::operand_columns(left.width()));
        }
        if left.width() > 1 {
            return self.compare_rows(op, left, right);
        }
        self.compare_values(op, left, right)
    }

    pub(super) fn compare_values(
        &mut self,
        op: BinaryOp,
        mut left: Expression,
        mut right: Expression,
    ) -> Result<Expression, SqlError> {
        self.infer_parameter(&mut left, &mut right);
        let symbol = print::binary_symbol(op);
        let comparison = self.comparison(symbol, &mut left, &mut right)?;
        let nullable = match op {
            BinaryOp::NullSafeEqual => false,
            _ => {
                left.result.nullable
                    || right.result.nullable
                    || comparison.may_be_unknown(&left.result, &right.result)
            }
        };
        let node = Node::Compare(Box::new(Compare { op, comparison, left, right }));
        Ok(self.fold(Expression { node, result: ResultType::truth(nullable) }))
    }

    /// As what two operands are compared; constants become values of that kind.
    pub(super) fn comparison(
        &mut self,
        operation: &str,
        left: &mut Expression,
        right: &mut Expression,
    ) -> Result<Comparison, SqlError> {
        let mut exact = [None, None];
        for (operand, exact) in [&mut *left, &mut *right].into_iter().zip(&mut exact) {
            let taken = std::mem::replace(operand, Expression::null());
            *exact = taken.holds_quotient().then(|| taken.clone());
            *operand = self.settle(taken);
        }
        self.fix_parameters(left, right);
        self.fix_parameters(right, left);
        let mut context = self.folding_context();
        let comparison =
            Comparison::derive(operation, left, right, self.connection(), &mut context)?;
        // These see all digits of a quotient.
        let sees_all = match comparison {
            Comparison::Double => true,
            Comparison::Decimal => matches!(operation, "between" | "case"),
            _ => false,
        };
        for (operand, exact) in [left, right].into_iter().zip(exact) {
            if let Some(exact) = exact.filter(|_| sees_all) {
                *operand = exact;
            }
        }
        Ok(comparison)
    }

    /// Beside a date, a time or a year a constant is read as one. If it is computed of parameters,
    /// it is computed here.
    fn fix_parameters(&mut self, constant: &mut Expression, other: &Expression) {
        let kind = &other.result.sql_type.kind;
        if !kind.is_temporal() && *kind != TypeKind::Year
            || constant.constancy() != Constancy::Execution
            || matches!(constant.node, Node::Parameter(_))
        {
            return;
        }
        constant.visit_mut(&mut |part| {
            if let Node::Parameter(number) = part.node
                && let Some(value) = self.environment.fixed_parameter(number)
            {
                part.node = value.node;
            }
        });
        let taken = std::mem::replace(constant, Expression::null());
        *constant = self.settle(taken);
    }

    /// A variable whose text says what a column holds is compared as the column is.
    fn infer_variable(&mut self, variable: &mut Expression, column: &Expression) {
        let Node::UserVariable(name) = &variable.node else { return };
        let is_column = matches!(column.node, Node::Column { .. } | Node::Outer { .. });
        if is_column && self.environment.is_variable_as(name, column.sql_type()) {
            variable.result = ResultType { nullable: true, ..column.result.clone() };
        }
    }

    /// Settles as what a parameter or a variable is compared with what is none.
    fn infer_parameter(&mut self, left: &mut Expression, right: &mut Expression) {
        let (parameter, other) = match (&left.node, &right.node) {
            (Node::Parameter(_), Node::Parameter(_)) => return,
            (Node::Parameter(_), _) => (left, right),
            (_, Node::Parameter(_)) => (right, left),
            (Node::UserVariable(_), Node::UserVariable(_)) => return,
            (Node::UserVariable(_), _) => return self.infer_variable(left, right),
            (_, Node::UserVariable(_)) => return self.infer_variable(right, left),
            _ => return,
        };
        let Node::Parameter(number) = parameter.node else { return };
        match self.environment.compared_parameter(number, other.sql_type()) {
            ComparedParameter::AsItIs => {}
            ComparedParameter::AsTheOther => {
                parameter.result = ResultType { nullable: true, ..other.result.clone() };
            }
            ComparedParameter::Constant(value) => *parameter = value,
        }
    }

    fn between(
        &mut self,
        operand: &Expr,
        low: &Expr,
        high: &Expr,
        negated: bool,
    ) -> Result<Expression, SqlError> {
        let (operand, low, high) = (self.expr(operand)?, self.expr(low)?, self.expr(high)?);
        if operand.width() != low.width() || operand.width() != high.width() {
            return Err(SqlError::operand_columns(operand.width()));
        }
        if operand.width() > 1 {
            let above = self.compare(BinaryOp::GreaterOrEqual, operand.clone(), low)?;
            let below = self.compare(BinaryOp::LessOrEqual, operand, high)?;
            let both = self.combine(vec![above, below], true);
            return Ok(if negated { self.not(both) } else { both });
        }
        let (mut operand, mut low, mut high) = (operand, low, high);
        self.infer_parameter(&mut operand, &mut low);
        self.infer_parameter(&mut operand, &mut high);
        let mut bounds = [low, high];
        // Of three texts one collation is chosen, not one for each bound.
        let each = self.comparisons("between", &mut operand, &mut bounds)?;
        let [low, high] = bounds;
        let comparisons = Comparison::of_three(each[0], each[1]);
        let nullable = operand.result.nullable
            || low.result.nullable
            || high.result.nullable
            || comparisons[0].may_be_unknown(&operand.result, &low.result)
            || comparisons[1].may_be_unknown(&operand.result, &high.result);
        let between = Between { comparisons, operand, low, high, negated };
        let node = Node::Between(Box::new(between));
        Ok(self.fold(Expression { node, result: ResultType::truth(nullable) }))
    }

    fn in_list(
        &mut self,
        operand: &Expr,
        list: &[Expr],
        negated: bool,
    ) -> Result<Expression, SqlError> {
        let operand = self.expr(operand)?;
        if operand.width() > 1 {
            return self.row_in_list(operand, list, negated);
        }
        let mut operand = operand;
        let mut values = self.values(list)?;
        for value in &mut values {
            self.step()?;
            self.infer_parameter(&mut operand, value);
        }
        let comparisons = self.comparisons("in", &mut operand, &mut values)?;
        let unknown = |(value, comparison): (&Expression, &Comparison)| {
            value.result.nullable || comparison.may_be_unknown(&operand.result, &value.result)
        };
        let nullable = operand.result.nullable || values.iter().zip(&comparisons).any(unknown);
        let elements: Vec<_> = values.into_iter().zip(comparisons).collect();
        let set = Default::default();
        let list = InList { operand, list: elements.into(), negated, set };
        let node = Node::InList(Box::new(list));
        Ok(self.fold(Expression { node, result: ResultType::truth(nullable) }))
    }

    /// As what an operand is compared with each of several others. Texts among themselves have one
    /// collation.
    fn comparisons(
        &mut self,
        operation: &str,
        operand: &mut Expression,
        others: &mut [Expression],
    ) -> Result<Vec<Comparison>, SqlError> {
        let all_text = Comparison::is_of_text(&operand.result)
            && others.iter().all(|other| Comparison::is_of_text(&other.result));
        if all_text && others.len() > 1 {
            let all: Vec<&Expression> = [&*operand].into_iter().chain(&*others).collect();
            let merged = self.merge(operation, &all, true)?;
            return Ok(vec![Comparison::Text(merged.collation); others.len()]);
        }
        let mut comparisons = Vec::with_capacity(others.len());
        for other in others {
            self.step()?;
            comparisons.push(self.comparison(operation, operand, other)?);
        }
        Ok(comparisons)
    }

    fn like(
        &mut self,
        operand: &Expr,
        pattern: &Expr,
        escape: Option<&Expr>,
        negated: bool,
    ) -> Result<Expression, SqlError> {
        let (operand, pattern) = (self.value(operand)?, self.value(pattern)?);
        let collation = self.merge("like", &[&operand, &pattern], true)?.collation;
        let escape = match escape {
            None if self.settings.facts.sql_mode.contains(SqlMode::NO_BACKSLASH_ESCAPES) => None,
            None => Some('\\'),
            Some(escape) => {
                let escape = self.value(escape)?;
                escape_character(&escape).ok_or_else(|| SqlError::wrong_arguments("ESCAPE"))?
            }
        };
        let nullable = operand.result.nullable || pattern.result.nullable;
        let node = Node::Like(Box::new(Like { operand, pattern, escape, collation, negated }));
        Ok(self.fold(Expression { node, result: ResultType::truth(nullable) }))
    }

    fn case(&mut self, case: &CaseSyntax) -> Result<Expression, SqlError> {
        let mut operand = case.operand.as_ref().map(|operand| self.value(operand)).transpose()?;
        let mut whens = Vec::with_capacity(case.branches.len());
        let mut thens = Vec::with_capacity(case.branches.len());
        for (when, then) in &case.branches {
            whens.push(self.value(when)?);
            thens.push(self.value(then)?);
        }
        let comparisons = match &mut operand {
            Some(operand) => self.comparisons("case", operand, &mut whens)?,
            None => vec![Comparison::Int; whens.len()],
        };
        let branches: Vec<Branch> = (whens.into_iter().zip(thens).zip(comparisons))
            .map(|((when, then), comparison)| Branch { when, comparison, then })
            .collect();
        let otherwise = match &case.otherwise {
            Some(otherwise) => Some(self.value(otherwise)?),
            None => None,
        };
        let results: Vec<&Expression> =
            branches.iter().map(|branch| &branch.then).chain(&otherwise).collect();
        let mut result = self.common_type("case", &results)?;
        result.nullable |= otherwise.is_none();
        let case = Case { operand, branches: branches.into(), otherwise };
        Ok(self.fold(Expression { node: Node::Case(Box::new(case)), result }))
    }

    /// The type that takes all of these: of CASE, IF, COALESCE.
    fn common_type(
        &self,
        operation: &str,
        results: &[&Expression],
    ) -> Result<ResultType, SqlError> {
        let types: Vec<&ResultType> = results.iter().map(|part| &part.result).collect();
        signature::common_type(operation, &types, self.connection())
    }

    fn collate(&mut self, operand: &Expr, collation: &Ident) -> Result<Expression, SqlError> {
        let operand = self.value(operand)?;
        let name = collation.as_str();
        let id = CollationId::by_name(name).ok_or_else(|| SqlError::of::<1273>(&[&name]))?;
        let charset = if operand.result.is_text() {
            operand.result.sql_type.collation.charset()
        } else {
            self.connection().charset()
        };
        if operand.result.sql_type.kind != TypeKind::Null && charset != id.charset() {
            return Err(SqlError::of::<1253>(&[&name, &charset.name()]));
        }
        let mut result = operand.result.clone();
        if !result.is_text() {
            let length = result.text_length();
            result.sql_type = crate::result_type::text_type(length, id);
        }
        result.sql_type.collation = id;
        result.coercibility = Coercibility::Explicit;
        if let Node::Constant(value @ (Datum::Bytes(_) | Datum::Null)) = operand.node {
            return Ok(Expression::constant(value, result));
        }
        Ok(Expression { node: Node::Cast(Box::new(operand)), result })
    }
}

/// The truth of a constant that is a number; nothing for others.
fn truth_of_number(value: &Datum) -> Option<bool> {
    match value {
        Datum::Int(value) => Some(*value != 0),
        Datum::UInt(value) => Some(*value != 0),
        _ => None,
    }
}

/// One character, or none for the empty text; nothing for what cannot be an escape.
fn escape_character(escape: &Expression) -> Option<Option<char>> {
    match escape.as_constant()? {
        Datum::Null => Some(Some('\\')),
        Datum::Bytes(text) => {
            let mut chars = std::str::from_utf8(text).ok()?.chars();
            let first = chars.next();
            chars.next().is_none().then_some(first)
        }
        _ => None,
    }
}
