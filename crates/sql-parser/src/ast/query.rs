//! SELECT and what can stand in its place.

use super::{BlockNumber, Expr, Hints, Ident, ObjectName, SourceText};

/// A query expression with everything around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// WITH.
    pub with: Option<With>,
    /// The rows.
    pub body: QueryBody,
    /// ORDER BY.
    pub order_by: Vec<OrderItem>,
    /// LIMIT.
    pub limit: Option<Limit>,
    /// FOR UPDATE, FOR SHARE, LOCK IN SHARE MODE.
    pub locking: Vec<Locking>,
    /// INTO, wherever it stood.
    pub into: Option<IntoTarget>,
}

/// Where rows come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueryBody {
    /// SELECT.
    Select(Box<Select>),
    /// UNION, EXCEPT, INTERSECT.
    SetOperation(Box<SetOperation>),
    /// `VALUES ROW(…), ROW(…)`.
    Values(Vec<Vec<Expr>>),
    /// `TABLE t`.
    Table(ObjectName),
    /// A query in parentheses with an ORDER BY, LIMIT or the like of its own.
    Nested(Box<Query>),
}

/// Operands of one level of precedence, to be combined from left to right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetOperation {
    /// The first operand.
    pub first: QueryBody,
    /// The others, at least one.
    pub rest: Vec<SetOperand>,
}

/// An operand with the operator before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetOperand {
    /// The operator.
    pub op: SetOp,
    /// ALL, else DISTINCT.
    pub all: bool,
    /// The operand.
    pub body: QueryBody,
}

/// How two sets of rows are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetOp {
    /// UNION.
    Union,
    /// EXCEPT.
    Except,
    /// INTERSECT, which binds tighter than the others.
    Intersect,
}

/// WITH.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct With {
    /// RECURSIVE.
    pub recursive: bool,
    /// The common table expressions, in order.
    pub tables: Vec<CommonTable>,
}

/// A common table expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommonTable {
    /// Its name.
    pub name: Ident,
    /// Names of its columns, if given.
    pub columns: Vec<Ident>,
    /// Its rows.
    pub query: Query,
}

/// SELECT without what follows a whole query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Select {
    /// Which of the statement's blocks it is.
    pub block: BlockNumber,
    /// `/*+ … */`, if it has hints.
    pub hints: Option<Box<Hints>>,
    /// DISTINCT or DISTINCTROW.
    pub distinct: bool,
    /// The words between SELECT and the list.
    pub options: SelectOptions,
    /// The list.
    pub items: Vec<SelectItem>,
    /// FROM; empty when missing and for DUAL.
    pub from: Vec<TableReference>,
    /// WHERE.
    pub filter: Option<Expr>,
    /// GROUP BY.
    pub group_by: Vec<Expr>,
    /// WITH ROLLUP.
    pub rollup: bool,
    /// HAVING.
    pub having: Option<Expr>,
    /// WINDOW.
    pub windows: Vec<NamedWindow>,
}

impl Select {
    /// SELECT * FROM a table.
    pub fn all_of(table: TableReference) -> Self {
        Self { items: vec![SelectItem::Wildcard], from: vec![table], ..Self::default() }
    }
}

/// The words between SELECT and its list, apart from DISTINCT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SelectOptions {
    /// HIGH_PRIORITY.
    pub high_priority: bool,
    /// STRAIGHT_JOIN.
    pub straight_join: bool,
    /// SQL_SMALL_RESULT.
    pub small_result: bool,
    /// SQL_BIG_RESULT.
    pub big_result: bool,
    /// SQL_BUFFER_RESULT.
    pub buffer_result: bool,
    /// SQL_NO_CACHE.
    pub no_cache: bool,
    /// SQL_CALC_FOUND_ROWS.
    pub calc_found_rows: bool,
}

/// An element of the select list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelectItem {
    /// `*`.
    Wildcard,
    /// `t.*`, `db.t.*`.
    QualifiedWildcard(ObjectName),
    /// An expression.
    Expr {
        /// The value.
        expr: Expr,
        /// AS.
        alias: Option<Ident>,
        /// The expression as written, at most 256 bytes of it: the column's name where there is no
        /// alias.
        text: SourceText,
    },
}

/// An element of FROM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableReference {
    /// A table or a view.
    Table(Box<TableFactor>),
    /// A subquery.
    Derived(Box<DerivedTable>),
    /// `JSON_TABLE(…)`.
    JsonTable(Box<JsonTable>),
    /// A join; its operands tell how joins nest. `(t1, t2)` in parentheses is an inner join.
    Join(Box<Join>),
}

/// A table in FROM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableFactor {
    /// The table.
    pub name: ObjectName,
    /// PARTITION.
    pub partitions: Vec<Ident>,
    /// AS.
    pub alias: Option<Ident>,
    /// USE, FORCE, IGNORE INDEX.
    pub index_hints: Vec<IndexHint>,
}

impl TableReference {
    /// A table by nothing but its name, and what it is called here.
    pub fn named(name: ObjectName, alias: Option<Ident>) -> Self {
        let (partitions, index_hints) = (Vec::new(), Vec::new());
        Self::Table(Box::new(TableFactor { name, partitions, alias, index_hints }))
    }
}

/// USE, FORCE or IGNORE INDEX.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexHint {
    /// Which.
    pub kind: IndexHintKind,
    /// FOR, if given.
    pub scope: Option<IndexHintScope>,
    /// The indexes; USE INDEX may have none.
    pub indexes: Vec<Ident>,
}

/// What an index hint asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexHintKind {
    /// USE.
    Use,
    /// FORCE.
    Force,
    /// IGNORE.
    Ignore,
}

/// What an index hint is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexHintScope {
    /// FOR JOIN.
    Join,
    /// FOR ORDER BY.
    OrderBy,
    /// FOR GROUP BY.
    GroupBy,
}

/// A subquery in FROM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DerivedTable {
    /// LATERAL.
    pub lateral: bool,
    /// The rows.
    pub query: Query,
    /// Its name.
    pub alias: Ident,
    /// Names of its columns, if given.
    pub columns: Vec<Ident>,
}

/// `JSON_TABLE(document, path COLUMNS (…)) AS alias`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonTable {
    /// The document.
    pub document: Expr,
    /// The path of the rows.
    pub path: Box<str>,
    /// The columns.
    pub columns: Vec<JsonTableColumn>,
    /// Its name.
    pub alias: Ident,
}

/// A column of JSON_TABLE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JsonTableColumn {
    /// `name FOR ORDINALITY`.
    Ordinality(Ident),
    /// `name type PATH path …`, or EXISTS PATH.
    Value(Box<JsonTableValue>),
    /// `NESTED PATH path COLUMNS (…)`.
    Nested {
        /// The path.
        path: Box<str>,
        /// The columns.
        columns: Vec<JsonTableColumn>,
    },
}

/// A value column of JSON_TABLE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonTableValue {
    /// Its name.
    pub name: Ident,
    /// Its type.
    pub data_type: super::DataType,
    /// COLLATE.
    pub collation: Option<Ident>,
    /// EXISTS PATH: whether there is such a value.
    pub exists: bool,
    /// The path.
    pub path: Box<str>,
    /// ON EMPTY.
    pub on_empty: Option<JsonTableResponse>,
    /// ON ERROR.
    pub on_error: Option<JsonTableResponse>,
}

/// What JSON_TABLE gives where there is no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JsonTableResponse {
    /// An error.
    Error,
    /// NULL.
    Null,
    /// This JSON text.
    Default(Box<[u8]>),
}

/// A join of two table references.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Join {
    /// Left operand.
    pub left: TableReference,
    /// Right operand.
    pub right: TableReference,
    /// Inner or outer.
    pub kind: JoinKind,
    /// Which rows belong together.
    pub condition: JoinCondition,
}

/// The kind of a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinKind {
    /// JOIN, INNER JOIN, CROSS JOIN.
    Inner,
    /// STRAIGHT_JOIN: inner, and the left table is read first.
    Straight,
    /// LEFT JOIN.
    Left,
    /// RIGHT JOIN.
    Right,
}

/// Which rows of a join belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JoinCondition {
    /// All with all.
    None,
    /// ON.
    On(Expr),
    /// USING.
    Using(Vec<Ident>),
    /// NATURAL: all columns of the same name.
    Natural,
}

/// An element of ORDER BY.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderItem {
    /// By what.
    pub expr: Expr,
    /// DESC.
    pub descending: bool,
}

/// LIMIT. Both are an integer literal, a parameter or the name of a routine's variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// How many rows at most.
    pub count: Expr,
    /// How many are left out before.
    pub offset: Option<Expr>,
}

/// FOR UPDATE and its kin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Locking {
    /// Shared or exclusive.
    pub strength: LockStrength,
    /// OF; empty for all tables. Aliases, or names with an optional schema.
    pub tables: Vec<ObjectName>,
    /// What to do about locked rows.
    pub wait: LockWait,
}

/// How rows are locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockStrength {
    /// FOR SHARE, LOCK IN SHARE MODE.
    Share,
    /// FOR UPDATE.
    Update,
}

/// What to do about rows that others have locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockWait {
    /// Wait.
    Wait,
    /// NOWAIT.
    NoWait,
    /// SKIP LOCKED.
    SkipLocked,
}

/// INTO of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IntoTarget {
    /// Variables.
    Variables(Vec<IntoVariable>),
    /// OUTFILE.
    Outfile {
        /// The file's name.
        path: Box<str>,
        /// CHARACTER SET.
        charset: Option<CharacterSet>,
        /// FIELDS and LINES.
        format: Box<FileFormat>,
    },
    /// DUMPFILE with the file's name.
    Dumpfile(Box<str>),
}

/// A variable that takes a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IntoVariable {
    /// `@name`.
    User(Ident),
    /// A variable of a stored routine.
    Local(Ident),
}

/// FIELDS and LINES of LOAD DATA and INTO OUTFILE; what is not given has MySQL's default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileFormat {
    /// FIELDS TERMINATED BY.
    pub fields_terminated: Option<Box<[u8]>>,
    /// FIELDS ENCLOSED BY.
    pub fields_enclosed: Option<Box<[u8]>>,
    /// OPTIONALLY ENCLOSED.
    pub optionally_enclosed: bool,
    /// FIELDS ESCAPED BY.
    pub fields_escaped: Option<Box<[u8]>>,
    /// LINES STARTING BY.
    pub lines_starting: Option<Box<[u8]>>,
    /// LINES TERMINATED BY.
    pub lines_terminated: Option<Box<[u8]>>,
}

/// The name of a character set, or a word that chooses one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CharacterSet {
    /// By name, lower case. `ASCII` is latin1, `UNICODE` is ucs2, `BYTE` and BINARY are binary.
    Name(Ident),
    /// DEFAULT.
    Default,
}

/// An element of WINDOW.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedWindow {
    /// Its name.
    pub name: Ident,
    /// What it is.
    pub spec: WindowSpec,
}

/// A window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WindowSpec {
    /// The window it is built on.
    pub base: Option<Ident>,
    /// PARTITION BY.
    pub partition_by: Vec<Expr>,
    /// ORDER BY.
    pub order_by: Vec<OrderItem>,
    /// The frame.
    pub frame: Option<WindowFrame>,
}

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowFrame {
    /// ROWS, RANGE or GROUPS.
    pub unit: FrameUnit,
    /// Where it begins.
    pub start: FrameBound,
    /// Where it ends; the current row if not given.
    pub end: Option<FrameBound>,
    /// EXCLUDE, if given.
    pub exclude: Option<FrameExclusion>,
}

/// In what a frame is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameUnit {
    /// ROWS.
    Rows,
    /// RANGE.
    Range,
    /// GROUPS.
    Groups,
}

/// An end of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameBound {
    /// UNBOUNDED PRECEDING.
    UnboundedPreceding,
    /// UNBOUNDED FOLLOWING.
    UnboundedFollowing,
    /// CURRENT ROW.
    CurrentRow,
    /// So many before.
    Preceding(FrameOffset),
    /// So many after.
    Following(FrameOffset),
}

/// A distance in a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameOffset {
    /// A number or a parameter.
    Value(Expr),
    /// `INTERVAL amount unit`.
    Interval(Expr, super::IntervalUnit),
}

/// EXCLUDE of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameExclusion {
    /// CURRENT ROW.
    CurrentRow,
    /// GROUP.
    Group,
    /// TIES.
    Ties,
    /// NO OTHERS.
    NoOthers,
}
