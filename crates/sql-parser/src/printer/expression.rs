//! Expressions and types.

use super::Printer;
use crate::ast::{
    AggregateCall, AggregateFunction, BinaryOp, Case, CastKind, CastTarget, CharacterAttributes,
    CharacterSet, DataType, Expr, FormatKind, FunctionCall, Ident, IntervalUnit, JsonValue,
    JsonValueResponse, Literal, LobSize, MatchAgainst, NumericAttributes, Over, Quantifier,
    SystemVariable, TemporalKind, TrimSide, Truth, UnaryOp, VariableScope, WindowCall,
};
use crate::keyword::{Class, Keyword as K};

impl Printer<'_> {
    pub(super) fn exprs(&mut self, exprs: &[Expr]) {
        self.list(exprs, ",", Self::expr);
    }

    #[expect(clippy::too_many_lines, reason = "one line for each kind of expression")]
    pub(super) fn expr(&mut self, expr: &Expr) {
        match expr {
            Expr::Literal(literal) => self.literal(literal),
            Expr::Column(column) => self.column_ref(column),
            Expr::Parameter(_) => self.put("?"),
            Expr::UserVariable(name) => self.user_variable(name),
            Expr::SystemVariable(variable) => self.system_variable(variable),
            Expr::Assign { variable, value } => {
                self.put("(");
                self.user_variable(variable);
                self.put(":=");
                self.expr(value);
                self.put(")");
            }
            Expr::DefaultValue => self.put("default"),
            Expr::DefaultOf(column) => {
                self.put("default(");
                self.column_ref(column);
                self.put(")");
            }
            Expr::ValuesOf(column) => {
                self.put("values(");
                self.column_ref(column);
                self.put(")");
            }
            Expr::Unary { op, operand } => self.unary(*op, operand),
            Expr::Binary { op, left, right } => self.infix(left, binary_text(*op), right),
            Expr::And(list) => self.chain(list, " and "),
            Expr::Or(list) => self.chain(list, " or "),
            Expr::IsNull { operand, negated } => {
                self.put("(");
                self.expr(operand);
                self.put(if *negated { " is not null)" } else { " is null)" });
            }
            Expr::IsTruth { operand, value, negated } => {
                self.put("(");
                self.expr(operand);
                self.put(if *negated { " is not " } else { " is " });
                self.put(match value {
                    Truth::True => "true)",
                    Truth::False => "false)",
                    Truth::Unknown => "unknown)",
                });
            }
            Expr::Like { operand, pattern, escape, negated } => {
                self.put("(");
                self.expr(operand);
                self.put(if *negated { " not like " } else { " like " });
                self.expr(pattern);
                if let Some(escape) = escape {
                    self.put(" escape ");
                    self.expr(escape);
                }
                self.put(")");
            }
            Expr::Between { operand, low, high, negated } => {
                self.put("(");
                self.expr(operand);
                self.put(if *negated { " not between " } else { " between " });
                self.expr(low);
                self.put(" and ");
                self.expr(high);
                self.put(")");
            }
            Expr::InList { operand, list, negated } => {
                self.put("(");
                self.expr(operand);
                self.put(if *negated { " not in (" } else { " in (" });
                self.exprs(list);
                self.put("))");
            }
            Expr::InQuery { operand, query, negated } => {
                self.put("(");
                self.expr(operand);
                self.put(if *negated { " not in (" } else { " in (" });
                self.query(query);
                self.put("))");
            }
            Expr::Quantified { op, operand, quantifier, query } => {
                self.put("(");
                self.expr(operand);
                self.put(binary_text(*op));
                self.put(if *quantifier == Quantifier::Any { "any (" } else { "all (" });
                self.query(query);
                self.put("))");
            }
            Expr::MemberOf { operand, array } => {
                self.put("(");
                self.expr(operand);
                self.put(" member of (");
                self.expr(array);
                self.put("))");
            }
            Expr::Exists(query) => {
                self.put("exists(");
                self.query(query);
                self.put(")");
            }
            Expr::Subquery(query) => {
                self.put("(");
                self.query(query);
                self.put(")");
            }
            Expr::Row(list) => {
                self.put("(");
                self.exprs(list);
                self.put(")");
            }
            Expr::Case(case) => self.case(case),
            Expr::Cast { operand, target } => self.cast(operand, target),
            Expr::Collate { operand, collation } => {
                // COLLATE binds tighter than a sign before it.
                let signed = matches!(**operand, Expr::Unary { op, .. } if op != UnaryOp::Not);
                self.put(if signed { "((" } else { "(" });
                self.expr(operand);
                self.put_if(signed, ")");
                self.put(" collate ");
                self.collation(collation);
                self.put(")");
            }
            Expr::DateArithmetic { operand, subtract, amount, unit } => {
                self.put("(");
                self.expr(operand);
                self.put(if *subtract { " - " } else { " + " });
                self.interval(amount, *unit);
                self.put(")");
            }
            Expr::Aggregate(call) => self.aggregate(call),
            Expr::Window(call) => self.window_call(call),
            Expr::Match(matching) => self.match_against(matching),
            Expr::JsonValue(value) => self.json_value(value),
            Expr::Function(call) => self.function(call),
            _ => self.special_function(expr),
        }
    }

    /// Functions with a syntax of their own.
    fn special_function(&mut self, expr: &Expr) {
        match expr {
            Expr::ConvertUsing { operand, charset } => {
                self.put("convert(");
                self.expr(operand);
                self.put(" using ");
                self.charset(charset);
            }
            Expr::Extract { unit, operand } => {
                self.put("extract(");
                self.put(unit.name());
                self.put(" from ");
                self.expr(operand);
            }
            Expr::TimestampAdd { unit, amount, operand } => {
                self.unit_call("timestampadd(", *unit, amount, operand);
            }
            Expr::TimestampDiff { unit, from, to } => {
                self.unit_call("timestampdiff(", *unit, from, to);
            }
            Expr::GetFormat { kind, locale } => {
                self.put(match kind {
                    FormatKind::Date => "get_format(DATE, ",
                    FormatKind::Time => "get_format(TIME, ",
                    FormatKind::DateTime => "get_format(DATETIME, ",
                });
                self.expr(locale);
            }
            Expr::Trim { side, pattern, operand } => self.trim(*side, pattern.as_deref(), operand),
            Expr::Char { arguments, charset } => {
                self.put("char(");
                self.exprs(arguments);
                if let Some(charset) = charset {
                    self.put(" using ");
                    self.charset(charset);
                }
            }
            Expr::WeightString { operand, length } => {
                self.put("weight_string(");
                self.expr(operand);
                if let Some((length, binary)) = length {
                    self.put(if *binary { " as binary(" } else { " as char(" });
                    self.number(length);
                    self.put(")");
                }
            }
            _ => unreachable!("`expr` prints every other kind"),
        }
        self.put(")");
    }

    fn trim(&mut self, side: TrimSide, pattern: Option<&Expr>, operand: &Expr) {
        self.put("trim(");
        match side {
            TrimSide::Both if pattern.is_none() => {}
            TrimSide::Both => self.put("both "),
            TrimSide::Leading => self.put("leading "),
            TrimSide::Trailing => self.put("trailing "),
        }
        if let Some(pattern) = pattern {
            self.expr(pattern);
            self.put(" ");
        }
        self.put_if(pattern.is_some() || side != TrimSide::Both, "from ");
        self.expr(operand);
    }

    fn unit_call(&mut self, name: &str, unit: IntervalUnit, first: &Expr, second: &Expr) {
        self.put(name);
        self.put(unit.name());
        self.put(",");
        self.expr(first);
        self.put(",");
        self.expr(second);
    }

    pub(super) fn interval(&mut self, amount: &Expr, unit: IntervalUnit) {
        self.put("interval ");
        self.expr(amount);
        self.put(" ");
        self.put(unit.name());
    }

    fn infix(&mut self, left: &Expr, op: &str, right: &Expr) {
        self.put("(");
        self.expr(left);
        self.put(op);
        self.expr(right);
        self.put(")");
    }

    fn chain(&mut self, list: &[Expr], word: &str) {
        self.put("(");
        self.list(list, word, Self::expr);
        self.put(")");
    }

    fn unary(&mut self, op: UnaryOp, operand: &Expr) {
        let is_number = matches!(
            operand,
            Expr::Literal(Literal::Integer(_) | Literal::Decimal(_) | Literal::Float(_))
        );
        match op {
            UnaryOp::Minus if is_number => {
                self.put("-");
                self.expr(operand);
                return;
            }
            UnaryOp::Minus => self.put("-("),
            UnaryOp::BitNot => self.put("~("),
            UnaryOp::Not => self.put("(not("),
        }
        self.expr(operand);
        self.put(if op == UnaryOp::Not { "))" } else { ")" });
    }

    pub(super) fn literal(&mut self, literal: &Literal) {
        match literal {
            Literal::Null => self.put("NULL"),
            Literal::Bool(value) => self.put(if *value { "true" } else { "false" }),
            Literal::Integer(number) => self.number(number),
            Literal::Decimal(text) | Literal::Float(text) => self.put(text),
            Literal::String(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => {
                    if let Some(charset) = self.charset {
                        self.out.push('_');
                        self.out.push_str(charset);
                    }
                    self.text(text);
                }
                Err(_) => {
                    self.put("_binary ");
                    self.hex(bytes);
                }
            },
            Literal::National(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => {
                    self.put("N");
                    self.text(text);
                }
                Err(_) => {
                    self.put("_utf8mb3 ");
                    self.hex(bytes);
                }
            },
            Literal::Introduced(literal) => {
                self.put("_");
                self.put(literal.charset.as_str());
                match std::str::from_utf8(&literal.value) {
                    Ok(text) => self.text(text),
                    Err(_) => {
                        self.put(" ");
                        self.hex(&literal.value);
                    }
                }
            }
            Literal::Hex(bytes) if bytes.is_empty() => self.put("x''"),
            Literal::Hex(bytes) => {
                self.put("0x");
                bytes.iter().for_each(|byte| self.put(&format!("{byte:02X}")));
            }
            Literal::Bit(bytes) => {
                self.put("b'");
                bytes.iter().for_each(|byte| self.put(&format!("{byte:08b}")));
                self.put("'");
            }
            Literal::Temporal(kind, text) => {
                self.put(match kind {
                    TemporalKind::Date => "DATE",
                    TemporalKind::Time => "TIME",
                    TemporalKind::Timestamp => "TIMESTAMP",
                });
                self.text(text);
            }
        }
    }

    pub(super) fn user_variable(&mut self, name: &Ident) {
        self.put("@");
        // A name may be empty, which backquotes may not.
        match name.as_str() {
            "" => self.put("''"),
            name => self.quoted_name(name),
        }
    }

    fn system_variable(&mut self, variable: &SystemVariable) {
        self.put("@@");
        if let Some(scope) = variable.scope {
            self.put(scope_text(scope));
            self.put(".");
        }
        if let Some(component) = &variable.component {
            self.ident(component);
            self.put(".");
        }
        self.ident(&variable.name);
    }

    fn case(&mut self, case: &Case) {
        self.put("(case");
        if let Some(operand) = &case.operand {
            self.put(" ");
            self.expr(operand);
        }
        for (when, then) in &case.branches {
            self.put(" when ");
            self.expr(when);
            self.put(" then ");
            self.expr(then);
        }
        if let Some(otherwise) = &case.otherwise {
            self.put(" else ");
            self.expr(otherwise);
        }
        self.put(" end)");
    }

    fn cast(&mut self, operand: &Expr, target: &CastTarget) {
        self.put("cast(");
        self.expr(operand);
        if let Some(zone) = &target.time_zone {
            self.put(" at time zone ");
            self.text(zone);
        }
        self.put(" as ");
        self.cast_kind(&target.kind);
        self.put_if(target.array, " array");
        self.put(")");
    }

    fn cast_kind(&mut self, kind: &CastKind) {
        match kind {
            CastKind::Binary(length) => self.sized("binary", *length),
            CastKind::Char(length, charset) => {
                self.sized("char", *length);
                if let Some(charset) = charset {
                    self.put(" charset ");
                    self.charset(charset);
                }
            }
            CastKind::Signed => self.put("signed"),
            CastKind::Unsigned => self.put("unsigned"),
            CastKind::Date => self.put("date"),
            CastKind::Time(digits) => self.sized("time", *digits),
            CastKind::DateTime(digits) => self.sized("datetime", *digits),
            CastKind::Year => self.put("year"),
            CastKind::Decimal(None) => self.put("decimal"),
            CastKind::Decimal(Some((precision, scale))) => {
                self.put(&format!("decimal({precision},{scale})"));
            }
            CastKind::Float(precision) => self.sized("float", *precision),
            CastKind::Double => self.put("double"),
            CastKind::Real => self.put("real"),
            CastKind::Json => self.put("json"),
            CastKind::Geometry(kind) => self.data_type(kind),
        }
    }

    fn sized(&mut self, name: &str, size: Option<u32>) {
        self.put(name);
        if let Some(size) = size {
            self.put(&format!("({size})"));
        }
    }

    fn json_value(&mut self, value: &JsonValue) {
        self.put("json_value(");
        self.expr(&value.document);
        self.put(", ");
        self.text(&value.path);
        if let Some(target) = &value.returning {
            self.put(" returning ");
            self.cast_kind(&target.kind);
        }
        for (response, event) in [(&value.on_empty, " on empty"), (&value.on_error, " on error")] {
            match response {
                None => continue,
                Some(JsonValueResponse::Error) => self.put(" error"),
                Some(JsonValueResponse::Null) => self.put(" null"),
                Some(JsonValueResponse::Default(literal)) => {
                    self.put(" default ");
                    self.expr(literal);
                }
            }
            self.put(event);
        }
        self.put(")");
    }

    fn match_against(&mut self, matching: &MatchAgainst) {
        self.put("match (");
        self.list(&matching.columns, ",", Self::column_ref);
        self.put(") against (");
        self.expr(&matching.query);
        self.put_if(matching.boolean, " in boolean mode");
        self.put_if(matching.expansion, " with query expansion");
        self.put(")");
    }

    fn function(&mut self, call: &FunctionCall) {
        if let Some(schema) = &call.schema {
            self.ident(schema);
            self.put(".");
        }
        let name = call.name.as_str();
        if call.schema.is_none() && is_plain_function(name, call.arguments.len()) {
            self.put(name)
        } else {
            self.quoted_name(name)
        }
        self.put("(");
        self.exprs(&call.arguments);
        self.put(")");
    }

    fn aggregate(&mut self, call: &AggregateCall) {
        self.put(call.function.name());
        self.put("(");
        self.put_if(call.distinct, "distinct ");
        match call.function {
            AggregateFunction::Count if call.arguments.is_empty() => self.put("*"),
            _ => self.exprs(&call.arguments),
        }
        self.order_by(&call.order_by);
        if let Some(separator) = &call.separator {
            self.put(" separator ");
            self.bytes(separator);
        }
        self.put(")");
        if let Some(over) = &call.over {
            self.over(over);
        }
    }

    fn window_call(&mut self, call: &WindowCall) {
        self.put(call.function.name());
        self.put("(");
        self.exprs(&call.arguments);
        self.put(")");
        self.put_if(call.from_last, " from last");
        self.put_if(call.ignore_nulls, " ignore nulls");
        self.over(&call.over);
    }

    fn over(&mut self, over: &Over) {
        self.put(" over ");
        match over {
            Over::Name(name) => self.ident(name),
            Over::Spec(spec) => self.window_spec(spec),
        }
    }

    pub(super) fn data_type(&mut self, data_type: &DataType) {
        match data_type {
            DataType::Integer { size, width, numeric } => {
                let name = match size {
                    1 => "tinyint",
                    2 => "smallint",
                    3 => "mediumint",
                    4 => "int",
                    _ => "bigint",
                };
                self.sized(name, *width);
                self.numeric(*numeric);
            }
            DataType::Decimal { precision, scale, numeric } => {
                self.digits("decimal", *precision, *scale);
                self.numeric(*numeric);
            }
            DataType::Float { precision, scale, numeric } => {
                self.digits("float", *precision, *scale);
                self.numeric(*numeric);
            }
            DataType::Double { digits, real, numeric } => {
                let name = if *real { "real" } else { "double" };
                self.digits(name, digits.map(|digits| digits.0), digits.map(|digits| digits.1));
                self.numeric(*numeric);
            }
            DataType::Bit(length) => self.sized("bit", *length),
            DataType::Char(length, attributes) => {
                self.sized("char", *length);
                self.character_attributes(attributes);
            }
            DataType::Varchar(length, attributes) => {
                self.sized("varchar", Some(*length));
                self.character_attributes(attributes);
            }
            DataType::Binary(length) => self.sized("binary", *length),
            DataType::Varbinary(length) => self.sized("varbinary", Some(*length)),
            DataType::Text(size, length, attributes) => {
                self.put(lob_prefix(*size));
                self.sized("text", *length);
                self.character_attributes(attributes);
            }
            DataType::Blob(size, length) => {
                self.put(lob_prefix(*size));
                self.sized("blob", *length);
            }
            DataType::Date => self.put("date"),
            DataType::Time(digits) => self.sized("time", *digits),
            DataType::DateTime(digits) => self.sized("datetime", *digits),
            DataType::Timestamp(digits) => self.sized("timestamp", *digits),
            DataType::Year(width) => self.sized("year", *width),
            DataType::Enum(members, attributes) => self.members("enum(", members, attributes),
            DataType::Set(members, attributes) => self.members("set(", members, attributes),
            DataType::Json => self.put("json"),
            DataType::Geometry(kind) => self.put(kind.name()),
            DataType::Serial => self.put("serial"),
        }
    }

    fn members(&mut self, name: &str, members: &[Box<[u8]>], attributes: &CharacterAttributes) {
        self.put(name);
        self.list(members, ",", |printer, member| printer.bytes(member));
        self.put(")");
        self.character_attributes(attributes);
    }

    fn digits(&mut self, name: &str, precision: Option<u32>, scale: Option<u32>) {
        self.put(name);
        match (precision, scale) {
            (Some(precision), Some(scale)) => self.put(&format!("({precision},{scale})")),
            (Some(precision), None) => self.put(&format!("({precision})")),
            (None, _) => {}
        }
    }

    fn numeric(&mut self, numeric: NumericAttributes) {
        self.put_if(numeric.unsigned, " unsigned");
        self.put_if(numeric.zerofill, " zerofill");
    }

    fn character_attributes(&mut self, attributes: &CharacterAttributes) {
        if let Some(CharacterSet::Name(name)) = &attributes.charset {
            self.put(" CHARACTER SET ");
            self.charset(&CharacterSet::Name(name.clone()));
        }
        self.put_if(attributes.binary, " binary");
    }
}

fn lob_prefix(size: LobSize) -> &'static str {
    match size {
        LobSize::Tiny => "tiny",
        LobSize::Normal => "",
        LobSize::Medium => "medium",
        LobSize::Long => "long",
    }
}

pub(super) fn scope_text(scope: VariableScope) -> &'static str {
    match scope {
        VariableScope::Global => "global",
        VariableScope::Session => "session",
        VariableScope::Persist => "persist",
        VariableScope::PersistOnly => "persist_only",
    }
}

fn binary_text(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Add => " + ",
        BinaryOp::Subtract => " - ",
        BinaryOp::Multiply => " * ",
        BinaryOp::Divide => " / ",
        BinaryOp::IntegerDivide => " DIV ",
        BinaryOp::Modulo => " % ",
        BinaryOp::BitOr => " | ",
        BinaryOp::BitAnd => " & ",
        BinaryOp::BitXor => " ^ ",
        BinaryOp::ShiftLeft => " << ",
        BinaryOp::ShiftRight => " >> ",
        BinaryOp::Equal => " = ",
        BinaryOp::NullSafeEqual => " <=> ",
        BinaryOp::NotEqual => " <> ",
        BinaryOp::Less => " < ",
        BinaryOp::LessOrEqual => " <= ",
        BinaryOp::Greater => " > ",
        BinaryOp::GreaterOrEqual => " >= ",
        BinaryOp::Xor => " xor ",
    }
}

/// Whether a function's name without quotes is read as this very function of so many arguments.
fn is_plain_function(name: &str, arguments: usize) -> bool {
    let bytes = name.as_bytes();
    let is_word = bytes.first().is_some_and(u8::is_ascii_lowercase)
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let keyword = K::of(bytes);
    is_word
        && match keyword {
            K::Avg
            | K::GetFormat
            | K::JsonValue
            | K::Timestampadd
            | K::Timestampdiff
            | K::WeightString => false,
            K::Substr => (2..=3).contains(&arguments),
            _ => match keyword.class() {
                Some(Class::Reserved | Class::Function) => WORD_FUNCTIONS.contains(&name),
                _ => true,
            },
        }
}

/// Functions whose name is a word of the grammar and whose arguments are a plain list.
const WORD_FUNCTIONS: [&str; 18] = [
    "curdate",
    "current_user",
    "curtime",
    "database",
    "grouping",
    "if",
    "insert",
    "interval",
    "left",
    "now",
    "repeat",
    "replace",
    "right",
    "substr",
    "sysdate",
    "utc_date",
    "utc_time",
    "utc_timestamp",
];
