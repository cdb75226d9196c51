//! Expressions.
//!
//! # Invariants
//! 1. Parentheses are not kept: the tree says what belongs together.
//! 2. Names of functions and system variables are in lower case, other names as written.
//! 3. AND and OR are lists, as long chains of them are written by programs.

use super::{CharacterSet, DataType, Ident, ObjectName, OrderItem, Query, WindowSpec};

/// An expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expr {
    /// A constant.
    Literal(Literal),
    /// A column: `c`, `t.c`, `db.t.c`.
    Column(ColumnRef),
    /// The parameter `?` with this number, counted from 0 in the order of the text.
    Parameter(u32),
    /// `@name`, also `` @`name` `` and `@'name'`.
    UserVariable(Ident),
    /// `@@name`, `@@global.name`.
    SystemVariable(Box<SystemVariable>),
    /// `@name := value`.
    Assign {
        /// The user variable.
        variable: Ident,
        /// What it is set to, and the value of the whole.
        value: Box<Expr>,
    },
    /// The word DEFAULT as a whole value: in VALUES, in SET of INSERT, UPDATE and variables.
    DefaultValue,
    /// `DEFAULT(column)`.
    DefaultOf(ColumnRef),
    /// `VALUES(column)` in ON DUPLICATE KEY UPDATE.
    ValuesOf(ColumnRef),

    /// An operator before its operand.
    Unary {
        /// Which.
        op: UnaryOp,
        /// On what.
        operand: Box<Expr>,
    },
    /// An operator between its operands.
    Binary {
        /// Which.
        op: BinaryOp,
        /// Left operand.
        left: Box<Expr>,
        /// Right operand.
        right: Box<Expr>,
    },
    /// Two or more operands of AND.
    And(Vec<Expr>),
    /// Two or more operands of OR.
    Or(Vec<Expr>),
    /// `IS [NOT] NULL`.
    IsNull {
        /// What is asked about.
        operand: Box<Expr>,
        /// With NOT.
        negated: bool,
    },
    /// `IS [NOT] TRUE`, FALSE or UNKNOWN.
    IsTruth {
        /// What is asked about.
        operand: Box<Expr>,
        /// The truth value compared with.
        value: Truth,
        /// With NOT.
        negated: bool,
    },
    /// `[NOT] LIKE … [ESCAPE …]`.
    Like {
        /// What is matched.
        operand: Box<Expr>,
        /// The pattern.
        pattern: Box<Expr>,
        /// The escape character, if not the default.
        escape: Option<Box<Expr>>,
        /// With NOT.
        negated: bool,
    },
    /// `[NOT] BETWEEN low AND high`.
    Between {
        /// What is compared.
        operand: Box<Expr>,
        /// Lower bound, inclusive.
        low: Box<Expr>,
        /// Upper bound, inclusive.
        high: Box<Expr>,
        /// With NOT.
        negated: bool,
    },
    /// `[NOT] IN (value, …)`.
    InList {
        /// What is searched.
        operand: Box<Expr>,
        /// Where, at least one value.
        list: Vec<Expr>,
        /// With NOT.
        negated: bool,
    },
    /// `[NOT] IN (SELECT …)`.
    InQuery {
        /// What is searched.
        operand: Box<Expr>,
        /// Where.
        query: Box<Query>,
        /// With NOT.
        negated: bool,
    },
    /// `= ANY (SELECT …)`, `> ALL (SELECT …)`.
    Quantified {
        /// The comparison, one of [`BinaryOp::is_comparison`].
        op: BinaryOp,
        /// Left operand.
        operand: Box<Expr>,
        /// ANY (SOME) or ALL.
        quantifier: Quantifier,
        /// The rows compared with.
        query: Box<Query>,
    },
    /// `value MEMBER OF (array)`.
    MemberOf {
        /// The value searched.
        operand: Box<Expr>,
        /// The JSON array.
        array: Box<Expr>,
    },
    /// `EXISTS (SELECT …)`.
    Exists(Box<Query>),
    /// `(SELECT …)` as a value or a row.
    Subquery(Box<Query>),
    /// `(a, b)` or `ROW(a, b)`, at least two values.
    Row(Vec<Expr>),
    /// CASE, both kinds.
    Case(Box<Case>),
    /// `CAST(a AS type)`, `CONVERT(a, type)`, `BINARY a`.
    Cast {
        /// What is converted.
        operand: Box<Expr>,
        /// To what.
        target: Box<CastTarget>,
    },
    /// `CONVERT(a USING charset)`.
    ConvertUsing {
        /// What is converted.
        operand: Box<Expr>,
        /// To which character set.
        charset: CharacterSet,
    },
    /// `a COLLATE collation`.
    Collate {
        /// The text.
        operand: Box<Expr>,
        /// The name of the collation.
        collation: Ident,
    },
    /// `a + INTERVAL 1 DAY`, `INTERVAL 1 DAY + a`, `DATE_ADD`, `DATE_SUB`, `ADDDATE`, `SUBDATE`.
    DateArithmetic {
        /// The date.
        operand: Box<Expr>,
        /// Subtract instead of add.
        subtract: bool,
        /// How many units.
        amount: Box<Expr>,
        /// The unit.
        unit: IntervalUnit,
    },
    /// `EXTRACT(unit FROM a)`.
    Extract {
        /// Which part.
        unit: IntervalUnit,
        /// Of what.
        operand: Box<Expr>,
    },
    /// `TIMESTAMPADD(unit, amount, a)`.
    TimestampAdd {
        /// The unit.
        unit: IntervalUnit,
        /// How many units.
        amount: Box<Expr>,
        /// The date.
        operand: Box<Expr>,
    },
    /// `TIMESTAMPDIFF(unit, from, to)`.
    TimestampDiff {
        /// The unit of the result.
        unit: IntervalUnit,
        /// The earlier date, where the result is positive.
        from: Box<Expr>,
        /// The later date.
        to: Box<Expr>,
    },
    /// `GET_FORMAT(kind, locale)`.
    GetFormat {
        /// Of which type of value.
        kind: FormatKind,
        /// For which locale: 'EUR', 'ISO' and so on.
        locale: Box<Expr>,
    },
    /// `TRIM([BOTH | LEADING | TRAILING] [what] FROM a)`.
    Trim {
        /// On which side.
        side: TrimSide,
        /// What is cut off; a space if not given.
        pattern: Option<Box<Expr>>,
        /// From what.
        operand: Box<Expr>,
    },
    /// `CHAR(n, … [USING charset])`.
    Char {
        /// The numbers of the bytes.
        arguments: Vec<Expr>,
        /// The result's character set; binary if not given.
        charset: Option<Box<CharacterSet>>,
    },
    /// `WEIGHT_STRING(a [AS CHAR(n) | BINARY(n)])`.
    WeightString {
        /// The text.
        operand: Box<Expr>,
        /// The length in characters and whether of the form AS BINARY.
        length: Option<(u32, bool)>,
    },
    /// `JSON_VALUE(document, path …)`.
    JsonValue(Box<JsonValue>),
    /// `MATCH (columns) AGAINST (query mode)`.
    Match(Box<MatchAgainst>),
    /// A call of a function whose arguments are an ordinary list.
    Function(Box<FunctionCall>),
    /// An aggregate, also as a window function.
    Aggregate(Box<AggregateCall>),
    /// A function that only exists with OVER.
    Window(Box<WindowCall>),
}

/// A constant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Literal {
    /// NULL, also `\N`.
    Null,
    /// TRUE or FALSE.
    Bool(bool),
    /// A whole number; one beyond 64 bits is a [`Literal::Decimal`].
    Integer(u64),
    /// A number with a decimal point or too many digits, as written.
    Decimal(Box<str>),
    /// A number with an exponent, as written.
    Float(Box<str>),
    /// A string in the connection's character set, escapes resolved, neighbours joined.
    String(Box<[u8]>),
    /// `N'text'`, a string of the national character set (utf8mb3).
    National(Box<[u8]>),
    /// `_charset'text'`, `_charset x'00'`.
    Introduced(Box<IntroducedLiteral>),
    /// `x'4D'`, `0x4D`.
    Hex(Box<[u8]>),
    /// `b'01'`, `0b01`: the bits as bytes, the last bit last.
    Bit(Box<[u8]>),
    /// `DATE '2020-01-01'`, also `{d '2020-01-01'}`.
    Temporal(TemporalKind, Box<str>),
}

/// A literal whose character set is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntroducedLiteral {
    /// Name of the character set, lower case, without the underscore.
    pub charset: Ident,
    /// The bytes, which are not converted.
    pub value: Box<[u8]>,
}

/// The type of a temporal literal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemporalKind {
    /// DATE.
    Date,
    /// TIME.
    Time,
    /// TIMESTAMP, whose value is a DATETIME.
    Timestamp,
}

/// A column's name with what qualifies it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnRef {
    /// The table or alias, with its schema, if written.
    pub table: Option<Box<ObjectName>>,
    /// The column.
    pub column: Ident,
}

/// `@@name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemVariable {
    /// The scope, if written.
    pub scope: Option<VariableScope>,
    /// What stands before the dot: a component or the name of a key cache.
    pub component: Option<Ident>,
    /// The name, lower case.
    pub name: Ident,
}

/// Where a system variable is read or set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableScope {
    /// GLOBAL.
    Global,
    /// SESSION or LOCAL.
    Session,
    /// PERSIST.
    Persist,
    /// PERSIST_ONLY.
    PersistOnly,
}

/// An operator before its operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnaryOp {
    /// `-`.
    Minus,
    /// `~`.
    BitNot,
    /// `NOT` and `!`.
    Not,
}

/// An operator between two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryOp {
    /// `+`.
    Add,
    /// `-`.
    Subtract,
    /// `*`.
    Multiply,
    /// `/`.
    Divide,
    /// `DIV`.
    IntegerDivide,
    /// `%`, `MOD`.
    Modulo,
    /// `|`.
    BitOr,
    /// `&`.
    BitAnd,
    /// `^`.
    BitXor,
    /// `<<`.
    ShiftLeft,
    /// `>>`.
    ShiftRight,
    /// `=`.
    Equal,
    /// `<=>`.
    NullSafeEqual,
    /// `<>`, `!=`.
    NotEqual,
    /// `<`.
    Less,
    /// `<=`.
    LessOrEqual,
    /// `>`.
    Greater,
    /// `>=`.
    GreaterOrEqual,
    /// `XOR`.
    Xor,
}

impl BinaryOp {
    /// Whether the result is the outcome of comparing two values.
    pub fn is_comparison(self) -> bool {
        use BinaryOp::*;
        matches!(
            self,
            Equal | NullSafeEqual | NotEqual | Less | LessOrEqual | Greater | GreaterOrEqual
        )
    }
}

/// What `IS` compares with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truth {
    /// TRUE.
    True,
    /// FALSE.
    False,
    /// UNKNOWN.
    Unknown,
}

/// How a comparison with the rows of a query is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantifier {
    /// ANY or SOME.
    Any,
    /// ALL.
    All,
}

/// `CASE [operand] WHEN … THEN … [ELSE …] END`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// What each WHEN is compared with; without it each WHEN is a condition.
    pub operand: Option<Expr>,
    /// WHEN and THEN, at least one pair.
    pub branches: Vec<(Expr, Expr)>,
    /// ELSE.
    pub otherwise: Option<Expr>,
}

/// The type of a CAST.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CastTarget {
    /// The type.
    pub kind: CastKind,
    /// With ARRAY: for indexes on the members of JSON arrays.
    pub array: bool,
    /// AT TIME ZONE with this offset; `UTC` is `+00:00`.
    pub time_zone: Option<Box<str>>,
}

/// The types CAST knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CastKind {
    /// BINARY, with its length.
    Binary(Option<u32>),
    /// CHAR or NCHAR, with its length and character set.
    Char(Option<u32>, Option<CharacterSet>),
    /// SIGNED.
    Signed,
    /// UNSIGNED.
    Unsigned,
    /// DATE.
    Date,
    /// TIME with its fractional digits.
    Time(Option<u32>),
    /// DATETIME with its fractional digits.
    DateTime(Option<u32>),
    /// YEAR.
    Year,
    /// DECIMAL with precision and scale.
    Decimal(Option<(u32, u32)>),
    /// FLOAT with its precision, in which case it may be a DOUBLE.
    Float(Option<u32>),
    /// DOUBLE.
    Double,
    /// REAL.
    Real,
    /// JSON.
    Json,
    /// A spatial type.
    Geometry(DataType),
}

/// The unit of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is named by what it is")]
pub enum IntervalUnit {
    Microsecond,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
    SecondMicrosecond,
    MinuteMicrosecond,
    MinuteSecond,
    HourMicrosecond,
    HourSecond,
    HourMinute,
    DayMicrosecond,
    DaySecond,
    DayMinute,
    DayHour,
    YearMonth,
}

impl IntervalUnit {
    /// The unit's keyword, lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Microsecond => "microsecond",
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Quarter => "quarter",
            Self::Year => "year",
            Self::SecondMicrosecond => "second_microsecond",
            Self::MinuteMicrosecond => "minute_microsecond",
            Self::MinuteSecond => "minute_second",
            Self::HourMicrosecond => "hour_microsecond",
            Self::HourSecond => "hour_second",
            Self::HourMinute => "hour_minute",
            Self::DayMicrosecond => "day_microsecond",
            Self::DaySecond => "day_second",
            Self::DayMinute => "day_minute",
            Self::DayHour => "day_hour",
            Self::YearMonth => "year_month",
        }
    }
}

/// What GET_FORMAT answers for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormatKind {
    /// DATE.
    Date,
    /// TIME.
    Time,
    /// DATETIME or TIMESTAMP.
    DateTime,
}

/// Where TRIM cuts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrimSide {
    /// Both ends, also when not said.
    Both,
    /// LEADING.
    Leading,
    /// TRAILING.
    Trailing,
}

/// `MATCH … AGAINST`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchAgainst {
    /// The columns of the full-text index.
    pub columns: Vec<ColumnRef>,
    /// The words.
    pub query: Expr,
    /// IN BOOLEAN MODE.
    pub boolean: bool,
    /// WITH QUERY EXPANSION.
    pub expansion: bool,
}

/// `JSON_VALUE(document, path [RETURNING type] [… ON EMPTY] [… ON ERROR])`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonValue {
    /// The document.
    pub document: Expr,
    /// The path.
    pub path: Box<str>,
    /// RETURNING.
    pub returning: Option<CastTarget>,
    /// ON EMPTY.
    pub on_empty: Option<JsonValueResponse>,
    /// ON ERROR.
    pub on_error: Option<JsonValueResponse>,
}

/// What JSON_VALUE gives where there is no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JsonValueResponse {
    /// An error.
    Error,
    /// NULL.
    Null,
    /// This literal.
    Default(Expr),
}

/// A call of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionCall {
    /// The schema of a stored function, if written.
    pub schema: Option<Ident>,
    /// The name, lower case.
    pub name: Ident,
    /// The arguments.
    pub arguments: Vec<Expr>,
}

/// The aggregates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AggregateFunction {
    /// AVG.
    Avg,
    /// BIT_AND.
    BitAnd,
    /// BIT_OR.
    BitOr,
    /// BIT_XOR.
    BitXor,
    /// COUNT.
    Count,
    /// GROUP_CONCAT.
    GroupConcat,
    /// JSON_ARRAYAGG.
    JsonArrayAgg,
    /// JSON_OBJECTAGG.
    JsonObjectAgg,
    /// MAX.
    Max,
    /// MIN.
    Min,
    /// ST_COLLECT.
    StCollect,
    /// STD, STDDEV and STDDEV_POP.
    StddevPop,
    /// STDDEV_SAMP.
    StddevSamp,
    /// SUM.
    Sum,
    /// VAR_POP and VARIANCE.
    VarPop,
    /// VAR_SAMP.
    VarSamp,
}

impl AggregateFunction {
    /// The function's name, lower case, as MySQL prints it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Avg => "avg",
            Self::BitAnd => "bit_and",
            Self::BitOr => "bit_or",
            Self::BitXor => "bit_xor",
            Self::Count => "count",
            Self::GroupConcat => "group_concat",
            Self::JsonArrayAgg => "json_arrayagg",
            Self::JsonObjectAgg => "json_objectagg",
            Self::Max => "max",
            Self::Min => "min",
            Self::StCollect => "st_collect",
            Self::StddevPop => "std",
            Self::StddevSamp => "stddev_samp",
            Self::Sum => "sum",
            Self::VarPop => "variance",
            Self::VarSamp => "var_samp",
        }
    }
}

/// A call of an aggregate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AggregateCall {
    /// Which.
    pub function: AggregateFunction,
    /// DISTINCT.
    pub distinct: bool,
    /// The arguments; none for `COUNT(*)`.
    pub arguments: Vec<Expr>,
    /// ORDER BY inside GROUP_CONCAT.
    pub order_by: Vec<OrderItem>,
    /// SEPARATOR of GROUP_CONCAT.
    pub separator: Option<Box<[u8]>>,
    /// OVER, which makes it a window function.
    pub over: Option<Over>,
}

/// The functions that only exist with OVER.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowFunction {
    /// CUME_DIST.
    CumeDist,
    /// DENSE_RANK.
    DenseRank,
    /// FIRST_VALUE.
    FirstValue,
    /// LAG.
    Lag,
    /// LAST_VALUE.
    LastValue,
    /// LEAD.
    Lead,
    /// NTH_VALUE.
    NthValue,
    /// NTILE.
    Ntile,
    /// PERCENT_RANK.
    PercentRank,
    /// RANK.
    Rank,
    /// ROW_NUMBER.
    RowNumber,
}

impl WindowFunction {
    /// The function's name, lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::CumeDist => "cume_dist",
            Self::DenseRank => "dense_rank",
            Self::FirstValue => "first_value",
            Self::Lag => "lag",
            Self::LastValue => "last_value",
            Self::Lead => "lead",
            Self::NthValue => "nth_value",
            Self::Ntile => "ntile",
            Self::PercentRank => "percent_rank",
            Self::Rank => "rank",
            Self::RowNumber => "row_number",
        }
    }
}

/// A call of a function that only exists with OVER.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowCall {
    /// Which.
    pub function: WindowFunction,
    /// The arguments.
    pub arguments: Vec<Expr>,
    /// FROM LAST of NTH_VALUE.
    pub from_last: bool,
    /// IGNORE NULLS.
    pub ignore_nulls: bool,
    /// The window.
    pub over: Over,
}

/// What follows OVER.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Over {
    /// A window of the WINDOW clause.
    Name(Ident),
    /// A window of its own.
    Spec(WindowSpec),
}

const _: () = assert!(size_of::<Expr>() <= 40, "a row of literals should stay compact");
