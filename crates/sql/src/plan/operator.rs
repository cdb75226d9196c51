//! What a query is made of: operators over the rows of a query block.
//!
//! The row of a block is the columns of all its tables, one table after the other, at places that
//! do not depend on the order of joins: a table's operator fills its part, the others are NULL
//! until theirs have. Behind the columns stand the results of aggregates.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

use model::{ColumnId, IndexId};
use sql_expression::{AggregateCall, Expression, Node, ResultType, SubqueryId, WindowCall};
use sqltype::SqlType;
use wire::{LockMode, Projection, WaitPolicy};

use crate::catalog::TableDefinition;
use crate::information::virtual_table::VirtualTable;
use crate::large::add_needed;
use crate::logical::formula::{Bounds, Formula, SetKind, SortBy};
use crate::logical::json_levels::JsonTable;
use crate::plan::estimate::Expected;
use crate::plan::operator_id::{IdSlot, OperatorId, SeeSlot};
use crate::result::{KeptColumns, ResultColumn};

/// A query: its operators and what it yields.
#[derive(Debug)]
pub(crate) struct QueryPlan {
    /// What clients see of the result's columns.
    pub(crate) columns: Vec<ResultColumn>,
    pub(crate) root: PlanNode,
    /// The subqueries that expressions of this query use.
    pub(crate) subqueries: Vec<Subplan>,
    /// SQL_CALC_FOUND_ROWS: the limit, counted without.
    pub(crate) counts_found_rows: bool,
    /// The types of its columns, as expressions over them see it.
    pub(crate) results: Vec<ResultType>,
    /// It uses columns of enclosing blocks.
    pub(crate) correlated: bool,
    /// What was expected of it when it was planned.
    pub(crate) expected: OnceCell<Expected>,
    /// The packets of `columns`, once they have been sent.
    pub(crate) kept: OnceCell<KeptColumns>,
}

impl QueryPlan {
    /// What clients see of the result's columns, in packets that are made once.
    pub(crate) fn kept_columns(&self) -> &KeptColumns {
        self.kept.get_or_init(|| KeptColumns::new(self.columns.clone()))
    }

    /// The same for what stores its rows in columns, which take more digits of a quotient than its
    /// type has.
    pub(crate) fn with_all_digits(mut self) -> Self {
        if let Some(expressions) = self.root.keep_digits(&|_| true) {
            for (result, formula) in self.results.iter_mut().zip(expressions) {
                result.sql_type = formula.expression.sql_type().clone();
            }
        }
        self
    }

    /// A query without subqueries.
    pub(crate) fn new(
        columns: Vec<ResultColumn>,
        root: impl Into<PlanNode>,
        results: Vec<ResultType>,
        correlated: bool,
    ) -> Self {
        Self {
            columns,
            root: root.into(),
            subqueries: Vec::new(),
            counts_found_rows: false,
            results,
            correlated,
            expected: OnceCell::new(),
            kept: OnceCell::new(),
        }
    }
}

/// A subquery of a query.
#[derive(Clone, Debug)]
pub(crate) struct Subplan {
    pub(crate) id: SubqueryId,
    pub(crate) plan: Rc<QueryPlan>,
    /// How many rows are enough: 1 for EXISTS, 2 for a scalar, to see that there is a second.
    pub(crate) enough: Option<usize>,
    /// How to get its rows for all rows of the enclosing block at once.
    pub(crate) keyed: Option<Rc<Keyed>>,
    /// How to find out whether it has some value.
    pub(crate) search: Option<Rc<Search>>,
    /// Of a subquery of IN: why it has no search.
    pub(crate) whole: Option<&'static str>,
}

/// An operator of a plan, with its identity.
#[derive(Debug)]
pub(crate) struct PlanNode {
    slot: IdSlot,
    pub(crate) operator: Operator,
}

/// Produces rows.
#[derive(Debug)]
pub(crate) enum Operator {
    /// These rows of expressions: SELECT without FROM, VALUES.
    Rows(Vec<Vec<Formula>>),
    /// A block without tables: one row without columns, as wide as is told.
    Nothing { width: usize },
    /// Rows of a table.
    Scan(Box<TableScan>),
    /// Rows of a table that is computed: information_schema and the like.
    Virtual(VirtualScan),
    /// The rows that JSON_TABLE makes of a document.
    JsonTable(Box<JsonTable>),
    /// Rows of a query in FROM.
    Derived(DerivedScan),
    /// For each row of the input the rows of a query that sees it: LATERAL.
    Lateral { input: Box<PlanNode>, scan: DerivedScan, join: JoinSpec },
    /// Rows of a table that refers to itself.
    Recursive(Box<Recursion>),
    /// The newest rows of such a table, as its parts see them.
    WorkTable { number: u32 },
    /// For each row of the input the matching rows of a table, found by key.
    Lookup { input: Box<PlanNode>, scan: Box<TableScan>, join: JoinSpec },
    /// Rows of two inputs that agree in their keys; the right one is kept in memory.
    HashJoin { left: Box<PlanNode>, right: Box<PlanNode>, keys: Vec<HashKey>, join: JoinSpec },
    /// Every row of one input with every row of the other; the right one is kept in memory.
    LoopJoin { left: Box<PlanNode>, right: Box<PlanNode>, join: JoinSpec },
    /// Rows for which all of these are true.
    Filter { input: Box<PlanNode>, conditions: Vec<Formula> },
    /// Groups, with aggregates behind the columns of their first row.
    Aggregate(Box<Aggregate>),
    /// One row: behind so many columns MIN and MAX, each from the first row of a scan in the order
    /// of an index.
    Edges { width: usize, edges: Vec<Edge> },
    /// Window functions, with their results behind the columns of the row.
    Window(Box<Windows>),
    /// Rows in another shape: what these expressions yield.
    Project { input: Box<PlanNode>, expressions: Vec<Formula> },
    /// Rows in order; only the first of them, if so told.
    Sort { input: Box<PlanNode>, keys: Vec<SortBy>, limit: Option<Bounds> },
    /// Every row once.
    Distinct { input: Box<PlanNode>, types: Vec<SqlType> },
    /// Some of the rows.
    Limit { input: Box<PlanNode>, bounds: Bounds },
    /// UNION and its kin.
    Set { first: Box<PlanNode>, rest: Vec<(SetKind, PlanNode)>, types: Vec<SqlType> },
}

/// How rows of two inputs are combined.
#[derive(Debug)]
pub(crate) struct JoinSpec {
    /// Rows of the left input without a match are kept.
    pub(crate) outer: bool,
    /// What must be true of a match.
    pub(crate) conditions: Vec<Formula>,
    /// The parts of the row that the right side fills: places from and to before.
    pub(crate) right_places: Vec<(usize, usize)>,
}

/// One column of the key of a hash join.
#[derive(Debug)]
pub(crate) struct HashKey {
    pub(crate) left: Formula,
    pub(crate) right: Formula,
    pub(crate) comparison: sql_expression::Comparison,
    /// NULL matches NULL.
    pub(crate) null_safe: bool,
}

/// A MIN or MAX that an index has at its edge.
#[derive(Debug)]
pub(crate) struct Edge {
    /// Gives the row that has it first.
    pub(crate) scan: TableScan,
    /// Its place in that row.
    pub(crate) place: usize,
}

/// GROUP BY with its aggregates.
#[derive(Debug)]
pub(crate) struct Aggregate {
    pub(crate) input: PlanNode,
    pub(crate) group: Vec<Formula>,
    pub(crate) calls: Vec<AggregateCall>,
    /// Columns of the row before the aggregates.
    pub(crate) width: usize,
    /// Which of them something uses beside the aggregates.
    pub(crate) shown: Vec<usize>,
    /// WITH ROLLUP.
    pub(crate) rollup: bool,
    /// No GROUP BY: there is a row even of nothing.
    pub(crate) whole: bool,
}

/// Reading a table.
#[derive(Debug)]
pub(crate) struct TableScan {
    /// Which scan of the statement it is.
    pub(crate) slot: IdSlot,
    pub(crate) definition: Rc<TableDefinition>,
    /// What it is called in the query, for EXPLAIN.
    pub(crate) alias: String,
    /// Where its first column stands in the row, and how wide the row is.
    pub(crate) offset: usize,
    pub(crate) width: usize,
    /// Which columns are fetched: positions in the definition.
    pub(crate) wanted: Vec<usize>,
    pub(crate) path: AccessPath,
    /// The distribution keys that its rows can have, each in the order of that key: other
    /// partitions are not asked. All are, if none are named.
    pub(crate) distribution: Option<Vec<Vec<Expression>>>,
    /// What must be true of a row, of this table and those before: all of it is checked here; what
    /// the kernel can evaluate is checked there first.
    pub(crate) conditions: Vec<Formula>,
    pub(crate) lock: Option<(LockMode, WaitPolicy)>,
    /// Rows wanted of this scan at most, when nothing behind it drops any.
    pub(crate) limit: Option<Bounds>,
    /// Rows must come in the order of the path's index.
    pub(crate) ordered: Option<wire::ScanOrder>,
    /// The conditions say what the path says and nothing more.
    pub(crate) covered: bool,
    /// About how many rows the path finds each time: of ranges, in a table of
    /// [`ROWS_UNKNOWN`](super::cost::ROWS_UNKNOWN).
    pub(crate) found: f64,
    /// The keys of the definition that could be used, a bit for each of the first 64.
    pub(crate) usable: u64,
    /// Those that the statement allows, as far as that matters.
    pub(crate) allowed: u64,
    /// Where the hidden key of a table without PRIMARY KEY is put, for changes of its rows.
    pub(crate) hidden: Option<usize>,
}

impl TableScan {
    /// Which scan of the statement it is; known when the plan is finished.
    pub(crate) fn id(&self) -> OperatorId {
        self.slot.id()
    }

    /// The kernel's columns that are fetched: the wanted ones come first.
    pub(crate) fn kernel_columns(&self) -> Vec<ColumnId> {
        let hidden = self.hidden.and(self.definition.hidden_key);
        let wanted = self.wanted.iter().map(|at| self.definition.columns[*at].column);
        let mut columns = wanted.chain(hidden).collect();
        add_needed(&self.definition.table, &mut columns);
        columns
    }

    /// The same as it is asked for.
    pub(crate) fn projection(&self) -> Projection {
        Projection::of(self.kernel_columns())
    }
}

/// How rows of a table are found.
#[derive(Clone, Debug)]
pub(crate) enum AccessPath {
    /// By primary key; one list of key values for each row wanted.
    Primary { keys: Vec<Vec<Expression>> },
    /// By a unique key.
    Unique { index: IndexId, name: String, keys: Vec<Vec<Expression>> },
    /// Ranges of an ordered index: equal in the first columns, between bounds in the next.
    Ranges { index: IndexId, name: String, columns: Vec<usize>, ranges: Vec<IndexRange> },
    /// All rows.
    Full,
}

impl AccessPath {
    /// Whether it stands for scans of the kernel, and not for keys: all of them are opened at once,
    /// so they see the changes of their transaction up to the same operation.
    pub(crate) fn is_scan(&self) -> bool {
        matches!(self, Self::Full | Self::Ranges { .. })
    }
}

/// A range of an ordered index. `columns` of the path are positions in the definition.
#[derive(Clone, Debug, Default)]
pub(crate) struct IndexRange {
    pub(crate) equal: Vec<EqualTo>,
    /// Bounds of the next column, and whether they are part of the range.
    pub(crate) low: Option<(Expression, bool)>,
    pub(crate) high: Option<(Expression, bool)>,
    /// What the next column, a text, is LIKE; there are no bounds then.
    pub(crate) like: Option<Pattern>,
    /// The next column is not NULL.
    pub(crate) not_null: bool,
}

impl IndexRange {
    /// Whether nothing bounds the column behind the equal ones.
    pub(crate) fn is_fixed(&self) -> bool {
        self.low.is_none() && self.high.is_none() && self.like.is_none() && !self.not_null
    }
}

/// What a column of an index is equal to.
#[derive(Clone, Debug)]
pub(crate) struct EqualTo {
    pub(crate) value: Expression,
    /// NULL is equal to NULL, and not to nothing.
    pub(crate) null_safe: bool,
}

/// A pattern of LIKE.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    pub(crate) value: Expression,
    pub(crate) escape: Option<char>,
}

/// A computed table.
#[derive(Debug)]
pub(crate) struct VirtualScan {
    pub(crate) table: &'static VirtualTable,
    pub(crate) alias: String,
    pub(crate) offset: usize,
    pub(crate) width: usize,
    pub(crate) conditions: Vec<Formula>,
}

/// A query in FROM.
#[derive(Debug)]
pub(crate) struct DerivedScan {
    pub(crate) plan: Rc<QueryPlan>,
    /// How many blocks further out it was defined.
    pub(crate) out: usize,
    pub(crate) alias: String,
    pub(crate) offset: usize,
    pub(crate) width: usize,
    pub(crate) conditions: Vec<Formula>,
}

impl From<Operator> for PlanNode {
    fn from(operator: Operator) -> Self {
        Self { slot: IdSlot::default(), operator }
    }
}

impl From<Operator> for Box<PlanNode> {
    fn from(operator: Operator) -> Self {
        Box::new(operator.into())
    }
}

/// A node can stand wherever its identity does not matter.
impl Deref for PlanNode {
    type Target = Operator;

    fn deref(&self) -> &Operator {
        &self.operator
    }
}

impl DerefMut for PlanNode {
    fn deref_mut(&mut self) -> &mut Operator {
        &mut self.operator
    }
}

impl PlanNode {
    /// Which operator of the statement it is; known when the plan is finished.
    pub(crate) fn id(&self) -> OperatorId {
        self.slot().id()
    }

    /// The same, if the plan is finished.
    pub(super) fn id_if_finished(&self) -> Option<OperatorId> {
        self.slot().get()
    }

    /// An operator that is a scan and nothing else has the id of that scan.
    fn slot(&self) -> &IdSlot {
        match &self.operator {
            Operator::Scan(scan) => &scan.slot,
            _ => &self.slot,
        }
    }

    /// Calls `see` with the slot of each operator and each scan from here on, subqueries of
    /// expressions excepted, in the order of EXPLAIN. Where `see` says no, nothing below is
    /// visited; whether it said yes here.
    pub(super) fn for_each_slot(&self, see: &mut SeeSlot<'_>) -> bool {
        if !see(self.slot()) {
            return false;
        }
        match &self.operator {
            Operator::Lookup { scan, .. } => {
                see(&scan.slot);
            }
            Operator::Edges { edges, .. } => edges.iter().for_each(|edge| {
                see(&edge.scan.slot);
            }),
            _ => {}
        }
        for input in self.inputs() {
            input.for_each_slot(see);
        }
        if let Operator::Derived(scan) | Operator::Lateral { scan, .. } = &self.operator {
            scan.plan.for_each_slot(see);
        }
        true
    }
}

impl QueryPlan {
    /// Calls `see` with the slot of each operator and each scan, those of subqueries included. A
    /// plan is visited once: where `see` knows its root, nothing of the plan is visited again.
    pub(super) fn for_each_slot(&self, see: &mut SeeSlot<'_>) {
        if self.root.for_each_slot(see) {
            self.subqueries.iter().for_each(|subplan| subplan.for_each_slot(see));
        }
    }
}

impl Subplan {
    /// The same for all plans of a subquery.
    pub(super) fn for_each_slot(&self, see: &mut SeeSlot<'_>) {
        self.plan.for_each_slot(see);
        if let Some(search) = &self.search {
            search.subplan.for_each_slot(see);
            search.nulls.iter().for_each(|plan| plan.for_each_slot(see));
        }
        if let Some(keyed) = &self.keyed {
            keyed.plan.for_each_slot(see);
        }
    }
}

impl Operator {
    /// Has its results at these places have all digits of quotients, if it computes them: all
    /// results are returned.
    pub(crate) fn keep_digits(&mut self, at: &dyn Fn(usize) -> bool) -> Option<&[Formula]> {
        match self {
            Self::Limit { input, .. } => input.keep_digits(at),
            Self::Project { expressions, .. } => {
                let chosen = expressions.iter_mut().enumerate().filter(|(place, _)| at(*place));
                chosen.for_each(|(_, formula)| formula.expression.keep_digits());
                Some(expressions)
            }
            _ => None,
        }
    }

    /// The inputs of an operator.
    pub(crate) fn inputs(&self) -> Vec<&PlanNode> {
        match self {
            Self::Rows(_)
            | Self::Nothing { .. }
            | Self::Scan(_)
            | Self::Virtual(_)
            | Self::JsonTable(_)
            | Self::Derived(_)
            | Self::WorkTable { .. }
            | Self::Edges { .. } => Vec::new(),
            Self::Recursive(recursion) => {
                let parts = recursion.parts.iter().map(|(part, _)| part);
                std::iter::once(&recursion.first).chain(parts).collect()
            }
            Self::Lookup { input, .. }
            | Self::Lateral { input, .. }
            | Self::Filter { input, .. }
            | Self::Project { input, .. }
            | Self::Sort { input, .. }
            | Self::Distinct { input, .. }
            | Self::Limit { input, .. } => vec![input],
            Self::HashJoin { left, right, .. } | Self::LoopJoin { left, right, .. } => {
                vec![left, right]
            }
            Self::Aggregate(aggregate) => vec![&aggregate.input],
            Self::Window(windows) => vec![&windows.input],
            Self::Set { first, rest, .. } => {
                std::iter::once(&**first).chain(rest.iter().map(|(_, operator)| operator)).collect()
            }
        }
    }

    /// Calls `see` with each plan of FROM below, and how many blocks further in it is planned.
    pub(crate) fn for_each_plan(&self, see: &mut dyn FnMut(&QueryPlan, isize)) {
        match self {
            Self::Derived(scan) => see(&scan.plan, -isize::try_from(scan.out).unwrap_or(0)),
            Self::Lateral { scan, .. } => see(&scan.plan, 1),
            _ => {}
        }
        self.inputs().into_iter().for_each(|input| input.for_each_plan(see));
    }

    /// Calls `see` with each expression of this operator and those below.
    pub(crate) fn for_each_expression(&self, see: &mut dyn FnMut(&Expression)) {
        let mut all = |formulas: &[Formula]| {
            formulas.iter().for_each(|formula| see(&formula.expression));
        };
        match self {
            Self::Nothing { .. }
            | Self::Set { .. }
            | Self::Distinct { .. }
            | Self::WorkTable { .. } => {}
            Self::Recursive(recursion) => {
                recursion.bounds.iter().for_each(|bounds| bounds.for_each_expression(see));
            }
            Self::Lateral { scan, join, .. } => {
                all(&scan.conditions);
                all(&join.conditions);
            }
            Self::JsonTable(table) => see(&table.document.expression),
            Self::Rows(rows) => rows.iter().for_each(|row| all(row)),
            Self::Scan(scan) => {
                all(&scan.conditions);
                scan.path.for_each_expression(see);
            }
            Self::Edges { edges, .. } => {
                for Edge { scan, .. } in edges {
                    scan.conditions.iter().for_each(|formula| see(&formula.expression));
                    scan.path.for_each_expression(see);
                }
            }
            Self::Virtual(scan) => all(&scan.conditions),
            Self::Derived(scan) => all(&scan.conditions),
            Self::Lookup { scan, join, .. } => {
                all(&scan.conditions);
                all(&join.conditions);
                scan.path.for_each_expression(see);
            }
            Self::HashJoin { keys, join, .. } => {
                all(&join.conditions);
                for key in keys {
                    see(&key.left.expression);
                    see(&key.right.expression);
                }
            }
            Self::LoopJoin { join, .. } => all(&join.conditions),
            Self::Filter { conditions, .. } => all(conditions),
            Self::Project { expressions, .. } => all(expressions),
            Self::Aggregate(aggregate) => {
                all(&aggregate.group);
                for call in &aggregate.calls {
                    call.arguments().for_each(&mut *see);
                }
            }
            Self::Window(windows) => {
                all(&windows.computed);
                let calls = windows.steps.iter().flat_map(|step| &step.calls);
                calls.for_each(|(_, call)| call.expressions().for_each(&mut *see));
            }
            Self::Sort { keys, limit, .. } => {
                keys.iter().for_each(|key| see(&key.formula.expression));
                limit.iter().for_each(|bounds| bounds.for_each_expression(see));
            }
            Self::Limit { bounds, .. } => bounds.for_each_expression(see),
        }
        self.inputs().into_iter().for_each(|input| input.for_each_expression(see));
    }
}

impl AccessPath {
    /// Calls `see` with each value that rows are found by.
    pub(crate) fn for_each_expression(&self, see: &mut dyn FnMut(&Expression)) {
        match self {
            Self::Full => {}
            Self::Primary { keys } | Self::Unique { keys, .. } => {
                keys.iter().flatten().for_each(see);
            }
            Self::Ranges { ranges, .. } => {
                for range in ranges {
                    range.equal.iter().for_each(|equal| see(&equal.value));
                    range.like.iter().for_each(|pattern| see(&pattern.value));
                    let ends = range.low.iter().chain(&range.high);
                    ends.for_each(|(expression, _)| see(expression));
                }
            }
        }
    }
}

/// The places of the row that expressions use; none if it cannot be told.
pub(crate) fn places_of<'e>(
    expressions: impl IntoIterator<Item = &'e Expression>,
) -> Option<BTreeSet<usize>> {
    let mut places = BTreeSet::new();
    let mut is_known = true;
    for expression in expressions {
        expression.visit(&mut |part| match &part.node {
            Node::Column { index, .. } => {
                places.insert(*index as usize);
            }
            Node::Subquery(subquery) if subquery.correlated => is_known = false,
            _ => {}
        });
    }
    is_known.then_some(places)
}

/// The rows of a correlated subquery for all rows of the enclosing block at once.
#[derive(Debug)]
pub(crate) struct Keyed {
    /// The subquery without what ties it to the enclosing row: the right sides of the keys, then
    /// the subquery's columns, then what `residual` uses.
    pub(crate) plan: QueryPlan,
    /// What ties it: the left side over the enclosing row, the right one over a row of the plan.
    pub(crate) keys: Vec<HashKey>,
    /// Where its columns stand in a row of the plan.
    pub(crate) outputs: (usize, usize),
    /// What must be true of a row too: over a row of the plan, with the enclosing row outside.
    pub(crate) residual: Vec<Formula>,
    /// It has a row for every key: aggregates of nothing, if there are no rows.
    pub(crate) whole: bool,
    /// How often it is run row by row before this is begun.
    pub(crate) patience: u32,
}

/// How to find out whether values are among the rows of a subquery without all of its rows.
#[derive(Debug)]
pub(crate) struct Search {
    /// The rows of the subquery that have the value of the enclosing row, of which one is enough.
    pub(crate) subplan: Subplan,
    /// The enclosing row helps to find the rows of `subplan`, so that a row is found soon.
    pub(crate) by_index: bool,
    /// The rows of the subquery that have a NULL for a value, if there may be any and they count.
    pub(crate) nulls: Option<Rc<QueryPlan>>,
    /// It does not matter whether IN is false or unknown.
    pub(crate) only_true: bool,
}

/// A table that begins with the rows of one query, and grows by what others make of its newest rows
/// until they make nothing.
#[derive(Debug)]
pub(crate) struct Recursion {
    /// By this number the parts find the rows of the last round.
    pub(crate) number: u32,
    pub(crate) first: PlanNode,
    /// The parts that refer to the table, with the types of what they yield.
    pub(crate) parts: Vec<(PlanNode, Vec<SqlType>)>,
    /// Every row once.
    pub(crate) distinct: bool,
    /// Names and types of the columns: the first part's.
    pub(crate) columns: Vec<(String, SqlType)>,
    /// With enough rows it ends.
    pub(crate) bounds: Option<Bounds>,
}

/// Window functions over the rows of a block, once these are grouped and filtered.
///
/// Behind the first `width` columns of a row stand the results of the functions, and behind those
/// what is computed before: arguments and keys that are no columns.
#[derive(Debug)]
pub(crate) struct Windows {
    pub(crate) input: PlanNode,
    /// Columns of the row before the results.
    pub(crate) width: usize,
    /// How many results there are.
    pub(crate) results: usize,
    pub(crate) computed: Vec<Formula>,
    pub(crate) steps: Vec<WindowStep>,
}

/// Functions whose windows have the same partitions and the same order.
#[derive(Debug)]
pub(crate) struct WindowStep {
    /// By what rows are sorted: the partition's columns, then the order's. Nothing: they are in
    /// this order already, by an earlier step.
    pub(crate) sort: Option<Vec<SortBy>>,
    /// Columns of the row that are the same in a partition.
    pub(crate) partition: Vec<SortBy>,
    /// The functions, and the place of each result in the row.
    pub(crate) calls: Vec<(usize, WindowCall)>,
}

/// The columns of the row that expressions above the groups use.
pub(super) fn shown(above: &[&Expression], width: usize) -> Vec<usize> {
    let mut places = BTreeSet::new();
    for expression in above {
        expression.visit(&mut |part| match &part.node {
            Node::Column { index, .. } => {
                places.insert(*index as usize);
            }
            // What it uses of the row is in its own plan.
            Node::Subquery(subquery) if subquery.correlated => places.extend(0..width),
            _ => {}
        });
    }
    places.into_iter().filter(|place| *place < width).collect()
}
