//! EXPLAIN: which path each table is read by, and what runs at the data nodes.

use sql_expression::{EvalContext, SqlError};
use sql_parser::ast::{self, ExplainFormat, Statement};
use sqltype::{Datum, SqlType};

use crate::execute::pushdown;
use crate::plan::Planner;
use crate::plan::operator::{AccessPath, Aggregate, Edge, Formula, Operator, QueryPlan, TableScan};
use crate::result::ResultColumn;
use crate::session::Session;

/// A line of the traditional form.
struct Line {
    id: u64,
    select_type: &'static str,
    table: String,
    partitions: String,
    kind: &'static str,
    key: Option<String>,
    extra: Vec<&'static str>,
}

/// Columns and rows of EXPLAIN.
pub(crate) fn rows(
    session: &Session,
    statement: &Statement,
    format: Option<ExplainFormat>,
    parameters: &[Datum],
) -> Result<(Vec<ResultColumn>, Vec<Vec<Datum>>), SqlError> {
    let query = match statement {
        Statement::Query(query) => (**query).clone(),
        Statement::Update(update) => {
            let with = update.with.clone();
            search(with, &update.tables, update.filter.clone(), &update.order_by, &update.limit)
        }
        Statement::Delete(delete) => {
            let from = match &delete.target {
                ast::DeleteTarget::Multi { from, .. } => from.clone(),
                ast::DeleteTarget::Single { table, alias, .. } => {
                    vec![ast::TableReference::named(table.clone(), alias.clone())]
                }
            };
            let with = delete.with.clone();
            search(with, &from, delete.filter.clone(), &delete.order_by, &delete.limit)
        }
        Statement::Insert(insert) => match &insert.source {
            ast::InsertSource::Query(query) => (**query).clone(),
            ast::InsertSource::Values(_) => {
                return Err(SqlError::not_supported("EXPLAIN INSERT ... VALUES"));
            }
        },
        _ => return Err(SqlError::not_supported("EXPLAIN of this statement")),
    };
    let plan = Planner::new(session, parameters).query(&query)?;
    match format {
        Some(ExplainFormat::Json) => Err(SqlError::not_supported("EXPLAIN FORMAT=JSON")),
        Some(ExplainFormat::Tree) => {
            let mut text = String::new();
            tree(&plan.root, 0, &mut text);
            let columns = vec![ResultColumn::new("EXPLAIN", SqlType::text(65_535))];
            Ok((columns, vec![vec![Datum::text(&text)]]))
        }
        None | Some(ExplainFormat::Traditional) => Ok(table(&plan)),
    }
}

fn search(
    with: Option<ast::With>,
    from: &[ast::TableReference],
    filter: Option<ast::Expr>,
    order_by: &[ast::OrderItem],
    limit: &Option<ast::Limit>,
) -> ast::Query {
    let items = vec![ast::SelectItem::Wildcard];
    let select = ast::Select { items, from: from.to_vec(), filter, ..ast::Select::default() };
    ast::Query {
        with,
        body: ast::QueryBody::Select(Box::new(select)),
        order_by: order_by.to_vec(),
        limit: limit.clone(),
        locking: Vec::new(),
        into: None,
    }
}

fn table(plan: &QueryPlan) -> (Vec<ResultColumn>, Vec<Vec<Datum>>) {
    let text = |name: &str| ResultColumn::new(name, SqlType::text(255));
    let number = |name: &str| ResultColumn::new(name, SqlType::big_int());
    let columns = vec![
        number("id"),
        text("select_type"),
        text("table"),
        text("partitions"),
        text("type"),
        text("possible_keys"),
        text("key"),
        text("key_len"),
        text("ref"),
        number("rows"),
        ResultColumn::new("filtered", SqlType::double()),
        text("Extra"),
    ];
    let mut lines = Vec::new();
    let mut next = 1;
    query_lines(plan, "SIMPLE", &mut next, &mut lines);
    if lines.len() > 1 && next > 2 {
        lines.iter_mut().filter(|line| line.id == 1).for_each(|line| line.select_type = "PRIMARY");
    }
    let optional = |value: Option<&str>| value.map_or(Datum::Null, Datum::text);
    let rows = lines
        .into_iter()
        .map(|line| {
            let key = line.key.as_deref();
            let extra = (!line.extra.is_empty()).then(|| line.extra.join("; "));
            vec![
                Datum::UInt(line.id),
                Datum::text(line.select_type),
                Datum::text(&line.table),
                Datum::text(&line.partitions),
                Datum::text(line.kind),
                optional(key),
                optional(key),
                Datum::Null,
                Datum::Null,
                Datum::Null,
                Datum::Null,
                optional(extra.as_deref()),
            ]
        })
        .collect();
    (columns, rows)
}

fn query_lines(plan: &QueryPlan, kind: &'static str, next: &mut u64, lines: &mut Vec<Line>) {
    let id = *next;
    *next += 1;
    let mut derived: Vec<&QueryPlan> = Vec::new();
    let mut extra = Vec::new();
    operator_lines(&plan.root, id, kind, &mut extra, lines, &mut derived);
    for plan in derived {
        query_lines(plan, "DERIVED", next, lines);
    }
    for subplan in &plan.subqueries {
        let kind = if subplan.plan.correlated { "DEPENDENT SUBQUERY" } else { "SUBQUERY" };
        query_lines(&subplan.plan, kind, next, lines);
    }
}

fn operator_lines<'p>(
    operator: &'p Operator,
    id: u64,
    kind: &'static str,
    extra: &mut Vec<&'static str>,
    lines: &mut Vec<Line>,
    derived: &mut Vec<&'p QueryPlan>,
) {
    let mut line = |table: &str, partitions: &str, access, key, more: Vec<&'static str>| {
        let mut extra = std::mem::take(extra);
        extra.splice(0..0, more);
        lines.push(Line {
            id,
            select_type: kind,
            table: table.to_owned(),
            partitions: partitions.to_owned(),
            kind: access,
            key,
            extra,
        });
    };
    match operator {
        Operator::Nothing { .. } | Operator::Rows(_) => {
            line("", "", "", None, vec!["No tables used"]);
        }
        Operator::Scan(scan) => {
            let (access, key, more) = scan_facts(scan, false);
            line(&scan.alias, &partitions(scan), access, key, more);
        }
        Operator::Edges { edges, .. } => {
            for Edge { scan, .. } in edges {
                let (access, key, _) = scan_facts(scan, false);
                line(&scan.alias, &partitions(scan), access, key, vec![edge_note(scan)]);
            }
        }
        Operator::Virtual(scan) => line(&scan.alias, "", "ALL", None, vec!["Computed"]),
        Operator::JsonTable(_) => line("", "", "ALL", None, vec!["Table function: json_table"]),
        Operator::WorkTable { .. } => line("<recursive>", "", "ALL", None, vec!["Recursive"]),
        Operator::Lateral { input, scan, .. } => {
            operator_lines(input, id, kind, extra, lines, derived);
            let (table, partitions) = (format!("<{}>", scan.alias), String::new());
            let (kind, select_type, key, extra) = ("ALL", kind, None, vec!["Lateral"]);
            lines.push(Line { id, select_type, table, partitions, kind, key, extra });
            derived.push(&scan.plan);
        }
        Operator::Derived(scan) => {
            line(&format!("<{}>", scan.alias), "", "ALL", None, Vec::new());
            derived.push(&scan.plan);
        }
        Operator::Lookup { input, scan, .. } => {
            operator_lines(input, id, kind, extra, lines, derived);
            let (select_type, (kind, key, extra)) = (kind, scan_facts(scan, true));
            let (table, partitions) = (scan.alias.clone(), partitions(scan));
            lines.push(Line { id, select_type, table, partitions, kind, key, extra });
        }
        Operator::HashJoin { left, right, .. } | Operator::LoopJoin { left, right, .. } => {
            let hash = matches!(operator, Operator::HashJoin { .. });
            operator_lines(left, id, kind, extra, lines, derived);
            let note = if hash { "Using join buffer (hash join)" } else { "Using join buffer" };
            operator_lines(right, id, kind, &mut vec![note], lines, derived);
        }
        Operator::Aggregate(_)
        | Operator::Window(_)
        | Operator::Filter { .. }
        | Operator::Sort { .. }
        | Operator::Distinct { .. }
        | Operator::Project { .. }
        | Operator::Limit { .. }
        | Operator::Recursive(_)
        | Operator::Set { .. } => {
            extra.extend(note_of(operator));
            let mut kind = kind;
            for input in operator.inputs() {
                operator_lines(input, id, kind, extra, lines, derived);
                kind = "UNION";
            }
        }
    }
}

/// What Extra says of an operator over one input.
fn note_of(operator: &Operator) -> Option<&'static str> {
    match operator {
        Operator::Aggregate(aggregate) if pushes(aggregate) => Some("Pushed aggregate"),
        Operator::Aggregate(_) => Some("Using temporary"),
        Operator::Window(_) => Some("Using temporary; Using filesort"),
        Operator::Filter { .. } => Some("Using where"),
        Operator::Sort { .. } => Some("Using filesort"),
        Operator::Distinct { .. } => Some("Distinct"),
        _ => None,
    }
}

/// What Extra says of a scan that ends with its first row.
fn edge_note(scan: &TableScan) -> &'static str {
    match scan.ordered {
        Some(wire::ScanOrder::Descending) => "Last entry of index",
        _ => "First entry of index",
    }
}

fn partitions(scan: &TableScan) -> String {
    let count = scan.definition.table.partition_count;
    match (&scan.path, count) {
        (AccessPath::Primary { keys }, _) if keys.len() == 1 => "1 by key".to_owned(),
        (_, 1) => "p0".to_owned(),
        (_, 2..=8) => (0..count).map(|p| format!("p{p}")).collect::<Vec<_>>().join(","),
        (_, count) => format!("p0 to p{}", count.saturating_sub(1)),
    }
}

fn scan_facts(scan: &TableScan, joined: bool) -> (&'static str, Option<String>, Vec<&'static str>) {
    let mut extra = Vec::new();
    let (access, key) = match &scan.path {
        AccessPath::Primary { keys } => {
            let one = if joined { "eq_ref" } else { "const" };
            (if keys.len() == 1 { one } else { "range" }, Some("PRIMARY".to_owned()))
        }
        AccessPath::Unique { name, keys, .. } => {
            let one = if joined { "eq_ref" } else { "const" };
            (if keys.len() == 1 { one } else { "range" }, Some(name.clone()))
        }
        AccessPath::Ranges { name, ranges, .. } => {
            let first = &ranges[0];
            let bounded = first.low.is_some() || first.high.is_some() || first.like.is_some();
            let access = match (ranges.len() == 1 && !bounded, first.equal.is_empty()) {
                (true, true) => "index",
                (true, false) => "ref",
                _ => "range",
            };
            (access, Some(name.clone()))
        }
        AccessPath::Full => ("ALL", None),
    };
    let scans = matches!(scan.path, AccessPath::Ranges { .. } | AccessPath::Full);
    // What the range says of every row is not checked again.
    if !scan.conditions.is_empty() && !scan.covered {
        let columns = crate::execute::scan::kernel_columns(scan);
        let simple = |condition: &Formula| {
            sql_expression::to_kernel(&condition.expression, &columns).is_some()
        };
        let computed = || {
            let plain = scan.lock.is_none() && scan.ordered.is_none();
            plain && pushdown::conditions(&nothing_known(), scan).is_some()
        };
        let pushed = scans && !joined && (scan.conditions.iter().any(simple) || computed());
        extra.push(if pushed { "Using where with pushed condition" } else { "Using where" });
    }
    if scan.limit.is_some() && scans {
        extra.push("Pushed limit");
    }
    if joined {
        extra.push("Batched lookups");
    }
    (access, key, extra)
}

/// The context of a plan that is not run.
fn nothing_known() -> EvalContext {
    EvalContext::new(Default::default(), 0, 0)
}

/// Whether the data nodes make the groups.
fn pushes(aggregate: &Aggregate) -> bool {
    match &aggregate.input {
        Operator::Scan(scan) => pushdown::groups(&nothing_known(), aggregate, scan).is_some(),
        _ => false,
    }
}

fn tree(operator: &Operator, depth: usize, text: &mut String) {
    let mut say = |what: &str| {
        text.push_str(&"    ".repeat(depth));
        text.push_str("-> ");
        text.push_str(what);
        text.push('\n');
    };
    let mut below = operator.inputs();
    match operator {
        Operator::Nothing { .. } | Operator::Rows(_) => say("Rows fetched before execution"),
        Operator::Scan(scan) => say(&scan_text(scan, false)),
        Operator::Edges { edges, .. } => {
            say("Aggregate at the edge of indexes");
            let mut say = |what: String| {
                text.push_str(&format!("{}-> {what}\n", "    ".repeat(depth + 1)));
            };
            edges.iter().for_each(|edge| {
                say(format!("{}: {}", edge_note(&edge.scan), scan_text(&edge.scan, false)));
            });
        }
        Operator::Virtual(scan) => say(&format!("Computed table {}", scan.alias)),
        Operator::JsonTable(_) => say("Materialize table function: json_table"),
        Operator::WorkTable { .. } => say("Scan new records of the recursive table"),
        Operator::Recursive(_) => say("Repeat until convergence"),
        Operator::Lateral { scan, join, .. } => {
            let kind = if join.outer { "left" } else { "inner" };
            say(&format!("Nested loop {kind} join: {} for each row", scan.alias));
            below.push(&scan.plan.root);
        }
        Operator::Derived(scan) => {
            say(&format!("Table {} materialized from", scan.alias));
            return tree(&scan.plan.root, depth + 1, text);
        }
        Operator::Lookup { scan, join, .. } => {
            let kind = if join.outer { "left" } else { "inner" };
            say(&format!("Nested loop {kind} join: {}", scan_text(scan, true)));
        }
        Operator::HashJoin { join, .. } => {
            say(&format!("Hash {} join", if join.outer { "left" } else { "inner" }));
        }
        Operator::LoopJoin { join, .. } => {
            say(&format!("Block {} join", if join.outer { "left" } else { "inner" }));
        }
        Operator::Filter { conditions, .. } => {
            say(&format!("Filter: {} conditions", conditions.len()));
        }
        Operator::Aggregate(aggregate) => {
            say(match (pushes(aggregate), aggregate.group.is_empty()) {
                (true, _) => "Merge of pushed aggregates",
                (false, true) => "Aggregate",
                (false, false) => "Aggregate using temporary table",
            });
        }
        Operator::Window(windows) => {
            let sorts = windows.steps.iter().filter(|step| step.sort.is_some()).count();
            say(&format!("Window functions: {} with {sorts} sorts", windows.results));
        }
        Operator::Project { input, .. } => return tree(input, depth, text),
        Operator::Sort { limit, .. } => {
            say(if limit.is_some() { "Sort, limit input" } else { "Sort" });
        }
        Operator::Distinct { .. } => say("Remove duplicates"),
        Operator::Limit { .. } => say("Limit"),
        Operator::Set { .. } => say("Set operation"),
    }
    below.into_iter().for_each(|operator| tree(operator, depth + 1, text));
}

fn scan_text(scan: &TableScan, joined: bool) -> String {
    let (access, key, extra) = scan_facts(scan, joined);
    let name = &scan.alias;
    let what = match (access, key) {
        ("const" | "eq_ref", Some(key)) => format!("Single-row lookup on {name} using {key}"),
        ("ref", Some(key)) => format!("Index lookup on {name} using {key}"),
        ("index", Some(key)) => format!("Index scan on {name} using {key}"),
        (_, Some(key)) => format!("Index range scan on {name} using {key}"),
        _ => format!("Table scan on {name}"),
    };
    let partitions = partitions(scan);
    match extra.is_empty() {
        true => format!("{what} (partitions {partitions})"),
        false => format!("{what} (partitions {partitions}; {})", extra.join("; ").to_lowercase()),
    }
}
