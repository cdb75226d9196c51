//! EXPLAIN: how a statement is run, what of it at the data nodes, and why not the rest.
//!
//! # Owns
//! [`Explanation`], the plan with everything that is told of it; its three forms are below: a
//! table, a tree, JSON.
//! # Guarantees
//! What runs where, and the reasons, are those of the executors (`execute::dry_run`).
//! # Not here
//! Running it (`execute::observe` counts what ANALYZE shows).

mod json;
mod table;
mod table_reads;
mod tree;

use std::collections::BTreeMap;

use model::TableId;
use sql_expression::{Expression, Node, SqlError, SubqueryId};
use sql_parser::ast::{self, ExplainFormat, Statement};
use sqltype::{Datum, SqlType};

use crate::execute::dry_run::{DryRun, Site};
use crate::execute::observe::{Done, Observer};
use crate::execute::run::Run;
use crate::execute::update;
use crate::execute::{cursor, snapshot};
use crate::explain::table_reads::TableRead;
use crate::plan::estimate::{Estimate, Estimates};
use crate::plan::operator::{Operator, PlanNode, QueryPlan};
use crate::plan::operator_id::PerOperator;
use crate::plan::planner::Planner;
use crate::result::{Outcome, ResultColumn, ResultWriter};
use crate::session::Session;

/// EXPLAIN.
pub(crate) async fn run(
    session: &mut Session,
    statement: &ast::Explain,
    parameters: &[Datum],
    out: &mut ResultWriter,
) -> Result<Outcome, SqlError> {
    let ast::ExplainTarget::Statement(target) = &statement.target else {
        return Err(SqlError::not_supported("EXPLAIN FOR CONNECTION"));
    };
    if statement.into.is_some() {
        return Err(SqlError::not_supported("EXPLAIN INTO"));
    }
    let format = match (statement.format, statement.analyze) {
        (Some(ExplainFormat::Traditional), true) => {
            return Err(SqlError::not_supported("EXPLAIN ANALYZE with TRADITIONAL format"));
        }
        (Some(format), _) => format,
        (None, analyze) => match session.variables.explain_format {
            ExplainFormat::Traditional if analyze => ExplainFormat::Tree,
            format => format,
        },
    };
    // Which tables a statement uses is known when it is planned. Whoever asks for a plan is told
    // the sizes of this moment.
    let mut subject = Subject::new(session, target, parameters)?;
    let tables = std::mem::take(&mut subject.tables);
    if !tables.is_empty() && session.count_rows(tables).await {
        subject = Subject::new(session, target, parameters)?;
    }
    let observed = match (statement.analyze, &**target) {
        (false, _) => None,
        (true, Statement::Query(_)) => Some(analyze(session, &subject, parameters).await?),
        (true, _) => return Err(SqlError::not_supported("EXPLAIN ANALYZE of a change")),
    };
    let (columns, rows) = rows(session, &subject, format, parameters, observed.as_ref());
    out.columns(&columns);
    for row in &rows {
        out.row(row);
    }
    out.drain().await;
    Ok(Outcome::Rows)
}

/// Runs a query for what its operators do; its rows go nowhere.
async fn analyze(
    session: &mut Session,
    subject: &Subject,
    parameters: &[Datum],
) -> Result<Observer, SqlError> {
    let plan = &subject.plan;
    let held = snapshot::hold(session, plan).await?;
    let mut run = Run::new(session, parameters);
    run.watch();
    run.add_subplans(&plan.subqueries);
    let mut cursor = cursor::open(&plan.root);
    let result = loop {
        match cursor.next(&mut run).await {
            Ok(Some(_)) => {}
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    drop(cursor);
    let observer = run.observer.take();
    run.finish();
    snapshot::release(session, held);
    result?;
    Ok(observer.map(|observer| observer.into_inner()).unwrap_or_default())
}

/// A statement's plan, with what it changes.
pub(crate) struct Subject {
    pub(crate) plan: QueryPlan,
    /// SIMPLE for queries; else UPDATE, DELETE.
    kind: &'static str,
    /// INSERT or REPLACE, and the table that rows are put into.
    into: Option<(&'static str, String)>,
    /// The stored tables that the plan depends on.
    pub(crate) tables: Vec<TableId>,
}

impl Subject {
    /// Plans what a statement does, but for the changes themselves.
    pub(crate) fn new(
        session: &Session,
        statement: &Statement,
        parameters: &[Datum],
    ) -> Result<Self, SqlError> {
        let mut planner = Planner::new(session, parameters);
        let (mut kind, mut into) = ("SIMPLE", None);
        let plan = match statement {
            Statement::Query(query) => planner.query(query)?,
            Statement::Update(_) | Statement::Delete(_) => {
                kind = if matches!(statement, Statement::Update(_)) { "UPDATE" } else { "DELETE" };
                update::search_of(&mut planner, statement)?
            }
            Statement::Insert(insert) => {
                let word = if insert.replace { "REPLACE" } else { "INSERT" };
                let name = planner.binding.definition(&insert.table)?.name.clone();
                into = Some((word, name));
                match &insert.source {
                    ast::InsertSource::Query(query) => planner.query(query)?,
                    ast::InsertSource::Values(_) | ast::InsertSource::Literals(_) => {
                        let rows = Operator::Rows(Vec::new());
                        let plan = QueryPlan::new(Vec::new(), rows, Vec::new(), false);
                        planner.identify(&plan);
                        plan
                    }
                }
            }
            _ => return Err(SqlError::not_supported("EXPLAIN of this statement")),
        };
        let tables = planner.binding.tables.iter().map(|(table, _)| *table).collect();
        Ok(Self { plan, kind, into, tables })
    }
}

/// What is told of a plan.
struct Explanation<'p> {
    block: Block<'p>,
    into: Option<&'p (&'static str, String)>,
}

/// A query block, or a part of a set operation.
struct Block<'p> {
    id: u32,
    kind: &'static str,
    root: Step<'p>,
    subqueries: Vec<Subquery<'p>>,
}

/// A subquery of a block's expressions.
struct Subquery<'p> {
    correlated: bool,
    /// Data nodes look up whether it has rows, as a part of a join.
    looked_up: bool,
    block: Block<'p>,
    /// How it is asked for single values.
    by_value: Option<Step<'p>>,
    /// How it is run for all rows of the enclosing block at once.
    at_once: Option<Step<'p>>,
    /// Why all of its rows are read for whatever values.
    whole: Option<&'static str>,
}

/// An operator with what is told of it.
struct Step<'p> {
    operator: &'p Operator,
    site: Site,
    estimate: Estimate,
    /// With ANALYZE: what it has done; nothing inside if it was not begun.
    done: Option<Option<Done>>,
    /// Of operators that read tables.
    tables: Vec<TableRead<'p>>,
    /// Conditions, keys and the like, as text.
    words: Vec<String>,
    /// Why the data nodes do not make the groups.
    obstacle: Option<String>,
    /// Its rows are sent to the data nodes, which join them.
    sent: bool,
    inputs: Vec<Step<'p>>,
    /// Parts of a set operation after the first, and queries in FROM.
    blocks: Vec<Block<'p>>,
    /// Of a query in FROM that is explained as another block, the number of that block.
    same_as: Option<u32>,
}

/// Makes an explanation.
struct Explainer<'a> {
    dry_run: &'a DryRun,
    observer: Option<&'a Observer>,
    next: u32,
    /// The numbers of the blocks of subqueries.
    numbers: BTreeMap<SubqueryId, u32>,
    /// The numbers of the blocks of queries in FROM. A query is explained once, in however many
    /// places it is used: common tables may use each other so often that no memory holds all uses.
    derived: PerOperator<u32>,
    estimates: Estimates<'a>,
}

/// Columns and rows of EXPLAIN.
pub(crate) fn rows(
    session: &mut Session,
    subject: &Subject,
    format: ExplainFormat,
    parameters: &[Datum],
    observer: Option<&Observer>,
) -> (Vec<ResultColumn>, Vec<Vec<Datum>>) {
    let mut run = Run::new(session, parameters);
    let dry_run = DryRun::new(&mut run, &subject.plan);
    run.dismiss();
    let dry_run = &dry_run;
    let mut explainer = Explainer {
        dry_run,
        observer,
        next: 1,
        numbers: BTreeMap::new(),
        derived: PerOperator::default(),
        estimates: Estimates::new(session),
    };
    let mut block = explainer.block(&subject.plan, subject.kind);
    if subject.kind == "SIMPLE" && explainer.next > 2 {
        block.kind = "PRIMARY";
    }
    let explanation = Explanation { block, into: subject.into.as_ref() };
    let text = |text: String| {
        let columns = vec![ResultColumn::new("EXPLAIN", SqlType::text(65_535))];
        (columns, vec![vec![Datum::text(&text)]])
    };
    match format {
        ExplainFormat::Traditional => table::rows(&explanation),
        ExplainFormat::Tree => text(tree::text(&explanation)),
        ExplainFormat::Json => text(json::text(&explanation)),
    }
}

impl Step<'_> {
    /// Whether data nodes make a join by hash, with the rows of one of its sides.
    fn is_joined_by_hash(&self) -> bool {
        self.site == Site::Joined && self.inputs.iter().any(|input| input.sent)
    }

    /// Whether data nodes make a join, and look rows up for it.
    fn is_joined_by_keys(&self) -> bool {
        self.site == Site::Joined && !self.is_joined_by_hash()
    }
}

impl Explainer<'_> {
    fn block<'p>(&mut self, plan: &'p QueryPlan, kind: &'static str) -> Block<'p> {
        let id = self.number();
        for subplan in &plan.subqueries {
            let number = self.number();
            self.numbers.insert(subplan.id, number);
        }
        let root = self.step(&plan.root);
        let subqueries = plan.subqueries.iter().map(|subplan| {
            let correlated = subplan.plan.correlated;
            let kind = if correlated { "DEPENDENT SUBQUERY" } else { "SUBQUERY" };
            let next = std::mem::replace(&mut self.next, self.numbers[&subplan.id]);
            let mut block = self.block_from(&subplan.plan, kind, next);
            block.kind = kind;
            let search = subplan.search.as_deref();
            let asked = search.filter(|search| search.by_index || correlated);
            let by_value = asked.map(|search| self.step(&search.subplan.plan.root));
            let keyed = search.map_or(&subplan.keyed, |search| &search.subplan.keyed);
            let at_once = keyed.as_ref().map(|keyed| self.step(&keyed.plan.root));
            let looked_up = self.dry_run.is_looked_up(subplan.id);
            Subquery { correlated, looked_up, block, by_value, at_once, whole: subplan.whole }
        });
        let subqueries = subqueries.collect();
        Block { id, kind, root, subqueries }
    }

    /// A block whose number was given before; those in it are numbered from `next` on.
    fn block_from<'p>(&mut self, plan: &'p QueryPlan, kind: &'static str, next: u32) -> Block<'p> {
        let id = std::mem::replace(&mut self.next, next);
        let mut block = self.block(plan, kind);
        block.id = id;
        block
    }

    fn number(&mut self) -> u32 {
        self.next += 1;
        self.next - 1
    }

    fn step<'p>(&mut self, node: &'p PlanNode) -> Step<'p> {
        let operator = &node.operator;
        let tables = match operator {
            Operator::Scan(scan) => vec![TableRead::new(self, scan, false)],
            Operator::Lookup { scan, .. } => vec![TableRead::new(self, scan, true)],
            Operator::Edges { edges, .. } => {
                edges.iter().map(|edge| TableRead::new(self, &edge.scan, false)).collect()
            }
            _ => Vec::new(),
        };
        let (mut blocks, mut same_as) = (Vec::new(), None);
        let inputs: Vec<&PlanNode> = match operator {
            Operator::Set { first, rest, .. } => {
                for (_, part) in rest {
                    let id = self.number();
                    let root = self.step(part);
                    blocks.push(Block { id, kind: "UNION", root, subqueries: Vec::new() });
                }
                vec![first]
            }
            Operator::Derived(scan) => {
                let root = scan.plan.root.id();
                same_as = self.derived.get(root).copied();
                if same_as.is_none() {
                    self.derived.insert(root, self.next);
                    blocks.push(self.block(&scan.plan, "DERIVED"));
                }
                Vec::new()
            }
            Operator::Lateral { input, scan, .. } => {
                blocks.push(self.block(&scan.plan, "DEPENDENT DERIVED"));
                vec![input]
            }
            _ => operator.inputs(),
        };
        let inputs = inputs.into_iter().map(|input| self.step(input)).collect();
        let obstacle = self.dry_run.obstacle(node);
        Step {
            operator,
            site: self.dry_run.site(node).unwrap_or(Site::Rows),
            estimate: self.estimates.of(operator),
            done: self.observer.map(|observer| observer.of(node)),
            tables,
            words: self.words(operator),
            obstacle: obstacle.map(|obstacle| plain(&obstacle.to_string())),
            sent: self.dry_run.is_sent(node),
            inputs,
            blocks,
            same_as,
        }
    }

    /// What an operator's expressions say, as text.
    fn words(&self, operator: &Operator) -> Vec<String> {
        let formulas = |formulas: &[crate::logical::formula::Formula]| -> Vec<String> {
            formulas.iter().map(|formula| self.text(&formula.expression)).collect()
        };
        match operator {
            Operator::Filter { conditions, .. } => formulas(conditions),
            Operator::LoopJoin { join, .. } => formulas(&join.conditions),
            Operator::HashJoin { keys, join, .. } => {
                let key = |key: &crate::plan::operator::HashKey| {
                    let op = if key.null_safe { "<=>" } else { "=" };
                    let (left, right) = (&key.left.expression, &key.right.expression);
                    format!("({} {op} {})", self.text(left), self.text(right))
                };
                keys.iter().map(key).chain(formulas(&join.conditions)).collect()
            }
            Operator::Aggregate(aggregate) => formulas(&aggregate.group),
            Operator::Sort { keys, .. } => {
                let key = |key: &crate::logical::formula::SortBy| {
                    let descending = if key.descending { " DESC" } else { "" };
                    format!("{}{descending}", self.text(&key.formula.expression))
                };
                keys.iter().map(key).collect()
            }
            Operator::Derived(scan) | Operator::Lateral { scan, .. } => formulas(&scan.conditions),
            Operator::Virtual(scan) => formulas(&scan.conditions),
            _ => Vec::new(),
        }
    }

    /// An expression as it is shown: columns without their database, subqueries by the numbers of
    /// their blocks.
    fn text(&self, expression: &Expression) -> String {
        let mut shown = expression.clone();
        shown.visit_mut(&mut |part| {
            if let Node::Subquery(subquery) = &mut part.node
                && let Some(number) = self.numbers.get(&subquery.id)
            {
                subquery.id = SubqueryId(*number);
            }
            if let Node::Column { name, .. } | Node::Outer { name, .. } = &mut part.node {
                let mut own = (**name).clone();
                own.schema = Box::default();
                if own.column.is_empty() {
                    own.column = "<computed>".into();
                }
                *name = own.into();
            }
        });
        plain(&shown.to_string())
    }
}

/// A text without the quotes around names.
fn plain(text: &str) -> String {
    text.replace('`', "")
}

/// A number of rows or a cost: whole where it is large.
fn number(value: f64) -> String {
    match value {
        _ if value >= 10.0 => format!("{value:.0}"),
        _ => {
            let text = format!("{value:.2}");
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
    }
}
