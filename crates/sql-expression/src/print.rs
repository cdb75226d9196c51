//! Expressions as text, in the words MySQL uses in its messages and in EXPLAIN.

use std::fmt::{self, Display, Write};

use sql_parser::ast::Truth;
use sqltype::{Datum, SqlType};

use crate::convert;
use crate::expression::{
    BinaryOp, Case, ColumnName, Expression, Node, RowQuantifier, SubqueryKind, SubqueryUse,
};

/// The symbol of an operator.
pub(crate) fn binary_symbol(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Add => "+",
        BinaryOp::Subtract => "-",
        BinaryOp::Multiply => "*",
        BinaryOp::Divide => "/",
        BinaryOp::IntegerDivide => "DIV",
        BinaryOp::Modulo => "%",
        BinaryOp::BitOr => "|",
        BinaryOp::BitAnd => "&",
        BinaryOp::BitXor => "^",
        BinaryOp::ShiftLeft => "<<",
        BinaryOp::ShiftRight => ">>",
        BinaryOp::Equal => "=",
        BinaryOp::NullSafeEqual => "<=>",
        BinaryOp::NotEqual => "<>",
        BinaryOp::Less => "<",
        BinaryOp::LessOrEqual => "<=",
        BinaryOp::Greater => ">",
        BinaryOp::GreaterOrEqual => ">=",
        BinaryOp::Xor => "xor",
    }
}

/// The comparison that holds for exchanged operands.
pub(crate) fn reversed(op: BinaryOp) -> BinaryOp {
    match op {
        BinaryOp::Less => BinaryOp::Greater,
        BinaryOp::LessOrEqual => BinaryOp::GreaterOrEqual,
        BinaryOp::Greater => BinaryOp::Less,
        BinaryOp::GreaterOrEqual => BinaryOp::LessOrEqual,
        other => other,
    }
}

impl Display for ColumnName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [&self.schema, &self.table, &self.column];
        for (at, part) in parts.into_iter().filter(|part| !part.is_empty()).enumerate() {
            let dot = if at > 0 { "." } else { "" };
            write!(f, "{dot}`{}`", part.replace('`', "``"))?;
        }
        Ok(())
    }
}

impl Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.node {
            Node::Constant(value) => write_constant(f, value, &self.result.sql_type),
            Node::Column { name, .. } | Node::Outer { name, .. } => write!(f, "{name}"),
            Node::Parameter(_) => f.write_char('?'),
            Node::UserVariable(name) => write!(f, "(@`{name}`)"),
            Node::Assign { name, value } => write!(f, "(@`{name}`:={value})"),
            Node::Inserted { name, .. } => write!(f, "values({name})"),
            Node::Aggregate(slot) => write!(f, "<aggregate {slot}>"),
            Node::Window(slot) => write!(f, "<window {slot}>"),
            Node::Row(list) => write_list(f, "", list, ","),
            Node::Subquery(subquery) => write_subquery(f, subquery),
            Node::Deferred(call) => write_list(f, call.function.name(), &call.arguments, ","),
            Node::And(list) => write_list(f, "", list, " and "),
            Node::Or(list) => write_list(f, "", list, " or "),
            Node::Not(operand) => write!(f, "(not({operand}))"),
            Node::IsNull(operand) => write!(f, "({operand} is null)"),
            Node::Compare(_)
            | Node::Between(_)
            | Node::InList(_)
            | Node::Like(_)
            | Node::IsTruth { .. } => write_predicate(f, &self.node),
            Node::Case(case) => write_case(f, case),
            Node::Arithmetic(both) => {
                write!(f, "({} {} {})", both.left, binary_symbol(both.op), both.right)
            }
            Node::Negate(operand) => write!(f, "-({operand})"),
            Node::Cast(operand) => write!(f, "cast({operand} as {})", cast_name(self.sql_type())),
            Node::Call(call) => match (call.function.name, &*call.arguments) {
                (name @ ("&" | "|" | "^" | "<<" | ">>" | "xor"), [left, right]) => {
                    write!(f, "({left} {name} {right})")
                }
                ("~", [operand]) => write!(f, "~({operand})"),
                (name, arguments) => write_list(f, name, arguments, ","),
            },
        }
    }
}

/// Comparisons and the like.
fn write_predicate(f: &mut fmt::Formatter<'_>, node: &Node) -> fmt::Result {
    match node {
        Node::IsTruth { operand, value, negated } => {
            let not = if *negated { " not" } else { "" };
            let value = if *value == Truth::True { "true" } else { "false" };
            write!(f, "({operand} is{not} {value})")
        }
        Node::Compare(compare) => {
            write!(f, "({} {} {})", compare.left, binary_symbol(compare.op), compare.right)
        }
        Node::Between(between) => {
            let not = if between.negated { "not " } else { "" };
            let (operand, low, high) = (&between.operand, &between.low, &between.high);
            write!(f, "({operand} {not}between {low} and {high})")
        }
        Node::InList(list) => {
            let not = if list.negated { "not " } else { "" };
            write!(f, "({} {not}in ", list.operand)?;
            for (at, (element, _)) in list.list.iter().enumerate() {
                write!(f, "{}{element}", if at > 0 { "," } else { "(" })?;
            }
            f.write_str("))")
        }
        Node::Like(like) => {
            let not = if like.negated { "not " } else { "" };
            write!(f, "({} {not}like {}", like.operand, like.pattern)?;
            match like.escape {
                Some('\\') => {}
                Some(escape) => write!(f, " escape '{escape}'")?,
                None => f.write_str(" escape ''")?,
            }
            f.write_char(')')
        }
        _ => Ok(()),
    }
}

fn write_case(f: &mut fmt::Formatter<'_>, case: &Case) -> fmt::Result {
    f.write_str("(case")?;
    if let Some(operand) = &case.operand {
        write!(f, " {operand}")?;
    }
    for branch in &case.branches {
        write!(f, " when {} then {}", branch.when, branch.then)?;
    }
    if let Some(otherwise) = &case.otherwise {
        write!(f, " else {otherwise}")?;
    }
    f.write_str(" end)")
}

fn write_list(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    list: &[Expression],
    separator: &str,
) -> fmt::Result {
    write!(f, "{name}(")?;
    for (at, part) in list.iter().enumerate() {
        write!(f, "{}{part}", if at > 0 { separator } else { "" })?;
    }
    f.write_char(')')
}

fn write_subquery(f: &mut fmt::Formatter<'_>, subquery: &SubqueryUse) -> fmt::Result {
    let id = subquery.id.0;
    match &subquery.kind {
        SubqueryKind::Scalar { .. } => write!(f, "(select #{id})"),
        SubqueryKind::Exists => write!(f, "exists(select #{id})"),
        SubqueryKind::Quantified { operand, op, quantifier, negated, .. } => {
            let word = match quantifier {
                RowQuantifier::Any => "any ",
                RowQuantifier::All => "all ",
                RowQuantifier::Only => "",
            };
            let not = if *negated { "not " } else { "" };
            let op = binary_symbol(*op);
            write!(f, "({not}{operand} {op} {word}(select #{id}))")
        }
    }
}

fn write_constant(f: &mut fmt::Formatter<'_>, value: &Datum, sql_type: &SqlType) -> fmt::Result {
    match value {
        Datum::Null => f.write_str("NULL"),
        Datum::Int(_) | Datum::UInt(_) | Datum::Double(_) | Datum::Decimal(_) => {
            f.write_str(&convert::shown(value, sql_type))
        }
        Datum::Date(_) => write!(f, "DATE'{}'", convert::shown(value, sql_type)),
        Datum::Time(_) => write!(f, "TIME'{}'", convert::shown(value, sql_type)),
        Datum::DateTime(_) => write!(f, "TIMESTAMP'{}'", convert::shown(value, sql_type)),
        Datum::Bytes(_) | Datum::Json(_) => {
            let text = convert::shown(value, sql_type);
            write!(f, "'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
        }
    }
}

/// The type of a CAST as it is written.
fn cast_name(sql_type: &SqlType) -> String {
    use sqltype::TypeKind;
    let digits = |name: &str| match sql_type.decimals {
        0 => name.to_owned(),
        digits => format!("{name}({digits})"),
    };
    match &sql_type.kind {
        TypeKind::BigInt if sql_type.unsigned => "unsigned".to_owned(),
        TypeKind::Decimal => format!("decimal({},{})", sql_type.length, sql_type.decimals),
        TypeKind::Float => "float".to_owned(),
        TypeKind::Double => "double".to_owned(),
        TypeKind::Year => "year".to_owned(),
        TypeKind::Date => "date".to_owned(),
        TypeKind::Time => digits("time"),
        TypeKind::DateTime | TypeKind::Timestamp => digits("datetime"),
        TypeKind::Json => "json".to_owned(),
        _ if sql_type.kind.is_string() => {
            let charset = sql_type.collation.charset();
            let length = match sql_type.length {
                u32::MAX => String::new(),
                length => format!("({length})"),
            };
            match charset {
                collation::Charset::Binary => format!("char{length} charset binary"),
                other => format!("char{length} charset {}", other.name()),
            }
        }
        _ => "signed".to_owned(),
    }
}
