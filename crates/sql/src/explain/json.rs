//! The form of JSON: MySQL's query blocks, with what it has no words for under `nines`.

use crate::execute::dry_run::Site;
use crate::explain::table_reads::TableRead;
use crate::explain::tree::times;
use crate::explain::{Block, Explanation, Step};
use crate::plan::operator::Operator;

/// A value.
enum Json {
    Text(String),
    /// As it is written.
    Plain(String),
    List(Vec<Json>),
    Object(Fields),
}

/// Members of an object, in their order.
type Fields = Vec<(&'static str, Json)>;

/// The whole text.
pub(super) fn text(explanation: &Explanation<'_>) -> String {
    let block = &explanation.block;
    let mut fields = fields_of(block);
    if let Some((word, name)) = explanation.into {
        let values = matches!(block.root.operator, Operator::Rows(rows) if rows.is_empty());
        let table = Json::Object(vec![
            (if *word == "REPLACE" { "replace" } else { "insert" }, Json::yes(true)),
            ("table_name", Json::text(name)),
            ("access_type", Json::text("ALL")),
        ]);
        let from = fields.split_off(2);
        fields.push(("table", table));
        if !values {
            fields.push(("insert_from", Json::Object(from)));
        }
    }
    let whole = Json::Object(vec![("query_block", Json::Object(fields))]);
    let mut out = String::new();
    whole.write(0, &mut out);
    out
}

impl Json {
    fn text(text: &str) -> Self {
        Self::Text(text.to_owned())
    }

    fn yes(yes: bool) -> Self {
        Self::Plain(yes.to_string())
    }

    fn number(number: impl ToString) -> Self {
        Self::Plain(number.to_string())
    }

    fn texts(list: &[String]) -> Self {
        Self::List(list.iter().map(|text| Self::text(text)).collect())
    }

    fn write(&self, depth: usize, out: &mut String) {
        let indent = |depth: usize, out: &mut String| {
            out.push('\n');
            out.push_str(&"  ".repeat(depth));
        };
        match self {
            Self::Text(text) => write_text(text, out),
            Self::Plain(text) => out.push_str(text),
            Self::List(list) if list.is_empty() => out.push_str("[]"),
            Self::List(list) => {
                out.push('[');
                for (at, value) in list.iter().enumerate() {
                    out.push_str(if at > 0 { "," } else { "" });
                    indent(depth + 1, out);
                    value.write(depth + 1, out);
                }
                indent(depth, out);
                out.push(']');
            }
            Self::Object(fields) => {
                out.push('{');
                for (at, (name, value)) in fields.iter().enumerate() {
                    out.push_str(if at > 0 { "," } else { "" });
                    indent(depth + 1, out);
                    write_text(name, out);
                    out.push_str(": ");
                    value.write(depth + 1, out);
                }
                indent(depth, out);
                out.push('}');
            }
        }
    }
}

fn write_text(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
}

fn fields_of(block: &Block<'_>) -> Fields {
    let cost = vec![("query_cost", Json::Text(cost(block.root.estimate.cost)))];
    let mut fields = vec![("select_id", Json::number(block.id)), ("cost_info", Json::Object(cost))];
    fields.extend(of_step(&block.root));
    if !block.subqueries.is_empty() {
        let subqueries = block.subqueries.iter().map(|subquery| {
            let mut fields = vec![
                ("dependent", Json::yes(subquery.correlated)),
                ("cacheable", Json::yes(!subquery.correlated)),
                ("query_block", Json::Object(fields_of(&subquery.block))),
            ];
            let by_value = subquery.by_value.iter().map(|step| ("for_single_values", step));
            let at_once = subquery.at_once.iter().map(|step| ("for_all_rows_at_once", step));
            let plans = by_value.chain(at_once);
            fields.extend(plans.map(|(name, step)| (name, Json::Object(of_step(step)))));
            if subquery.looked_up {
                fields.push(("looked_up_by", Json::text("data nodes")));
            }
            if let Some(why) = subquery.whole {
                fields.push(("runs_once_because", Json::text(why)));
            }
            Json::Object(fields)
        });
        fields.push(("attached_subqueries", Json::List(subqueries.collect())));
    }
    fields
}

fn cost(cost: f64) -> String {
    format!("{cost:.2}")
}

/// What an operator adds to the object of what is above it.
fn of_step(step: &Step<'_>) -> Fields {
    let inputs = || step.inputs.iter().flat_map(of_step);
    let under = |name: &'static str, mut fields: Fields| -> Fields {
        fields.push(("nines", nines(step)));
        fields.extend(inputs());
        vec![(name, Json::Object(fields))]
    };
    match step.operator {
        Operator::Nothing { .. } | Operator::Rows(_) => {
            vec![("message", Json::text("No tables used")), ("nines", nines(step))]
        }
        Operator::Scan(_)
        | Operator::Virtual(_)
        | Operator::JsonTable(_)
        | Operator::WorkTable { .. } => {
            vec![("table", Json::Object(table(step, step.tables.first(), None)))]
        }
        Operator::Derived(_) => vec![("table", Json::Object(table(step, None, None)))],
        Operator::Edges { .. } => {
            let of = |read: &TableRead<'_>| {
                let mut fields = table(step, Some(read), None);
                fields.push(("edge", Json::text(read.edge())));
                Json::Object(vec![("table", Json::Object(fields))])
            };
            vec![("nested_loop", Json::List(step.tables.iter().map(of).collect()))]
        }
        Operator::Lookup { .. }
        | Operator::Lateral { .. }
        | Operator::HashJoin { .. }
        | Operator::LoopJoin { .. } => {
            let mut list = Vec::new();
            nested(step, None, &mut list);
            vec![("nested_loop", Json::List(list))]
        }
        Operator::Filter { .. } => {
            under("filter", vec![("attached_condition", Json::Text(step.words.join(" and ")))])
        }
        Operator::Aggregate(_) => {
            let pushed = step.site == Site::DataNodes;
            let temporary = !step.words.is_empty() && !pushed;
            let mut fields = vec![("using_temporary_table", Json::yes(temporary))];
            if !step.words.is_empty() {
                fields.push(("group_by", Json::texts(&step.words)));
            }
            under("grouping_operation", fields)
        }
        Operator::Window(windows) => {
            let functions = Json::number(windows.results);
            under("windowing", vec![("functions", functions)])
        }
        Operator::Sort { .. } => {
            let keys = Json::texts(&step.words);
            let fields = vec![("using_filesort", Json::yes(true)), ("order_by", keys)];
            under("ordering_operation", fields)
        }
        Operator::Distinct { .. } => {
            under("duplicates_removal", vec![("using_temporary_table", Json::yes(true))])
        }
        Operator::Project { .. } => inputs().collect(),
        Operator::Limit { .. } => under("limit", Vec::new()),
        Operator::Recursive(_) => {
            let parts = step.inputs.iter().map(|input| Json::Object(of_step(input)));
            vec![("recursive", Json::List(parts.collect()))]
        }
        Operator::Set { .. } => {
            vec![("union_result", Json::Object(union(step)))]
        }
    }
}

/// A set operation: its first part has no number of its own.
fn union(step: &Step<'_>) -> Fields {
    let inputs = step.inputs.iter().flat_map(of_step).collect();
    let first = Json::Object(vec![("query_block", Json::Object(inputs))]);
    let rest = step
        .blocks
        .iter()
        .map(|block| Json::Object(vec![("query_block", Json::Object(fields_of(block)))]));
    let specifications = std::iter::once(first).chain(rest).collect();
    vec![("nines", nines(step)), ("query_specifications", Json::List(specifications))]
}

/// The tables of joins, in the order of work; `join` is what the one above says of the last.
fn nested(step: &Step<'_>, join: Option<&Step<'_>>, list: &mut Vec<Json>) {
    let object = |fields: Fields| Json::Object(fields);
    match step.operator {
        Operator::HashJoin { .. } | Operator::LoopJoin { .. } => {
            nested(&step.inputs[0], None, list);
            nested(&step.inputs[1], Some(step), list);
        }
        Operator::Lookup { .. } | Operator::Lateral { .. } => {
            nested(&step.inputs[0], None, list);
            let fields = table(step, step.tables.first(), join);
            list.push(object(vec![("table", object(fields))]));
        }
        Operator::Scan(_) | Operator::Derived(_) | Operator::Virtual(_) => {
            let fields = table(step, step.tables.first(), join);
            list.push(object(vec![("table", object(fields))]));
        }
        _ => {
            let mut fields = of_step(step);
            fields.extend(join.map(|join| ("joined", nines(join))));
            list.push(object(fields));
        }
    }
}

/// The object of a table.
fn table(step: &Step<'_>, read: Option<&TableRead<'_>>, join: Option<&Step<'_>>) -> Fields {
    let name = match (step.operator, read) {
        (_, Some(read)) => read.scan.alias.clone(),
        (Operator::Derived(scan) | Operator::Lateral { scan, .. }, _) => scan.alias.clone(),
        (Operator::Virtual(scan), _) => scan.alias.clone(),
        (Operator::JsonTable(_), _) => "json_table".to_owned(),
        _ => "<recursive>".to_owned(),
    };
    let mut fields = vec![("table_name", Json::Text(name))];
    if let Some(read) = read {
        fields.push(("partitions", Json::texts(&read.partitions)));
    }
    fields.push(("access_type", Json::text(read.map_or("ALL", |read| read.access))));
    if let Some(read) = read {
        if !read.possible_keys.is_empty() {
            fields.push(("possible_keys", Json::texts(&read.possible_keys)));
        }
        if let Some(key) = &read.key {
            fields.push(("key", Json::text(key)));
            fields.push(("used_key_parts", Json::texts(&read.parts)));
        }
        if let Some(length) = read.key_length {
            fields.push(("key_length", Json::Text(length.to_string())));
        }
        if !read.compared.is_empty() {
            fields.push(("ref", Json::texts(&read.compared)));
        }
    }
    let estimate = step.estimate;
    fields.push(("rows_examined_per_scan", Json::number(estimate.examined.round().max(1.0))));
    fields.push(("rows_produced_per_join", Json::number(estimate.rows.round().max(1.0))));
    fields.push(("filtered", Json::Text(format!("{:.2}", estimate.share * 100.0))));
    let by_hash = |join: &&Step<'_>| join.site != Site::Joined || join.is_joined_by_hash();
    if let Some(join) = join.filter(by_hash) {
        let hash = matches!(join.operator, Operator::HashJoin { .. });
        fields.push(("using_join_buffer", Json::text(if hash { "hash join" } else { "all rows" })));
    }
    let prefix = Json::Text(cost(join.map_or(estimate.cost, |join| join.estimate.cost)));
    fields.push(("cost_info", Json::Object(vec![("prefix_cost", prefix)])));
    if let Some(read) = read {
        let columns = &read.scan.definition.columns;
        let used: Vec<String> =
            read.scan.wanted.iter().map(|at| columns[*at].name.clone()).collect();
        fields.push(("used_columns", Json::texts(&used)));
        let kept = read.kept.iter().map(|(text, _)| text);
        let all: Vec<&str> = read.pushed.iter().chain(kept).map(String::as_str).collect();
        if !all.is_empty() {
            fields.push(("attached_condition", Json::Text(all.join(" and "))));
        }
    }
    fields.push(("nines", nines(step)));
    fields.extend(join.map(|join| ("joined", nines(join))));
    if let Some(block) = step.blocks.first() {
        let block = vec![("query_block", Json::Object(fields_of(block)))];
        fields.push(("materialized_from_subquery", Json::Object(block)));
    }
    if let Some(id) = step.same_as {
        let same = vec![("select_id", Json::number(id))];
        let same = vec![("same_query_as", Json::Object(same))];
        fields.push(("materialized_from_subquery", Json::Object(same)));
    }
    fields
}

/// What MySQL has no words for.
fn nines(step: &Step<'_>) -> Json {
    let mut fields: Fields = Vec::new();
    let reads = matches!(step.operator, Operator::Scan(_) | Operator::Edges { .. });
    let place = match step.operator {
        _ if reads || matches!(step.site, Site::DataNodes | Site::Joined) => "data nodes",
        Operator::Lookup { .. } => "data nodes, joined in the SQL node",
        _ => "SQL node",
    };
    fields.push(("runs_on", Json::text(place)));
    let site = match step.site {
        Site::Rows => "rows",
        Site::Columns => "columns",
        Site::DataNodes => "grouped in data nodes",
        Site::Joined => "joined in data nodes",
    };
    fields.push(("manner", Json::text(site)));
    if step.sent {
        fields.push(("rows_sent_to", Json::text("data nodes")));
    }
    let is_join = matches!(step.operator, Operator::HashJoin { .. } | Operator::LoopJoin { .. });
    if is_join && !step.words.is_empty() {
        fields.push(("condition", Json::Text(step.words.join(" and "))));
    }
    if let [read] = step.tables.as_slice() {
        if !read.implied.is_empty() {
            fields.push(("range", Json::texts(&read.implied)));
        }
        if !read.pushed.is_empty() {
            fields.push(("pushed_conditions", Json::texts(&read.pushed)));
        }
        let kept = read.kept.iter().map(|(text, why)| {
            Json::Object(vec![("condition", Json::text(text)), ("why_not", Json::text(why))])
        });
        if !read.kept.is_empty() {
            fields.push(("not_pushed", Json::List(kept.collect())));
        }
        if !read.key_filters.is_empty() {
            fields.push(("keys_told", Json::texts(&read.key_filters)));
        }
        if read.is_limited() {
            fields.push(("pushed_limit", Json::yes(true)));
        }
    }
    if let Some(why) = &step.obstacle {
        fields.push(("why_not_pushed", Json::text(why)));
    }
    fields.extend(actual(step));
    Json::Object(fields)
}

fn actual(step: &Step<'_>) -> Fields {
    let Some(Some(done)) = step.done else { return Vec::new() };
    let (first, last) = times(&done);
    let mut fields = vec![
        ("actual_rows", Json::number(done.rows as f64 / done.loops.max(1) as f64)),
        ("actual_loops", Json::number(done.loops)),
        ("actual_first_row_ms", Json::Plain(first)),
        ("actual_last_row_ms", Json::Plain(last)),
    ];
    if done.traffic.messages > 0 {
        let traffic = vec![
            ("rows_read_in_data_nodes", Json::number(done.traffic.examined)),
            ("rows_sent", Json::number(done.traffic.rows)),
            ("bytes_sent", Json::number(done.traffic.bytes)),
            ("messages", Json::number(done.traffic.messages)),
        ];
        fields.push(("data_nodes", Json::Object(traffic)));
    }
    if let [read] = step.tables.as_slice()
        && read.key_sets > 0
    {
        fields.push(("key_sets_told", Json::number(read.key_sets)));
    }
    if done.spilled > 0 {
        fields.push(("temporary_file_bytes", Json::number(done.spilled)));
    }
    fields
}
