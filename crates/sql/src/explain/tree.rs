//! The form of a tree: a line for each operator, those that give it rows below it.

use crate::execute::dry_run::Site;
use crate::execute::observe::Done;
use crate::execute::scan::listed::Listed;
use crate::explain::table_reads::TableRead;
use crate::explain::{Block, Explanation, Step, number};
use crate::logical::formula::SetKind;
use crate::plan::operator::{AccessPath, Operator};

/// The whole text.
pub(super) fn text(explanation: &Explanation<'_>) -> String {
    let mut text = String::new();
    match explanation.into {
        Some((word, table)) => {
            let word = if *word == "REPLACE" { "Replace" } else { "Insert" };
            line(&mut text, 0, &format!("{word} into {table}"));
            let values =
                matches!(explanation.block.root.operator, Operator::Rows(rows) if rows.is_empty());
            if !values {
                block(&explanation.block, 1, &mut text);
            }
        }
        None => block(&explanation.block, 0, &mut text),
    }
    text
}

fn line(text: &mut String, depth: usize, what: &str) {
    text.push_str(&"    ".repeat(depth));
    text.push_str("-> ");
    text.push_str(what);
    text.push('\n');
}

fn block(block: &Block<'_>, depth: usize, text: &mut String) {
    step(&block.root, depth, text);
    for subquery in &block.subqueries {
        let searched = subquery.by_value.is_some() || subquery.at_once.is_some();
        let runs = match (subquery.correlated, &subquery.at_once, subquery.whole) {
            _ if subquery.looked_up => "looked up there by the data nodes".to_owned(),
            (false, _, _) if searched => "runs once unless few values are asked for".to_owned(),
            (false, _, Some(why)) => format!("runs once: {why}"),
            (false, _, None) => "runs once".to_owned(),
            (true, None, _) => "dependent, runs for each row".to_owned(),
            (true, Some(_), _) => "dependent, runs for each row while these are few".to_owned(),
        };
        line(
            text,
            depth,
            &format!("Select #{} (subquery in condition; {runs})", subquery.block.id),
        );
        if subquery.looked_up {
            // What finds the rows of the value, if it is asked for one.
            let plan = subquery.by_value.as_ref().unwrap_or(&subquery.block.root);
            step(plan, depth + 1, text);
            continue;
        }
        self::block(&subquery.block, depth + 1, text);
        let plans =
            [("single values", &subquery.by_value), ("all rows at once", &subquery.at_once)];
        for (what, plan) in plans {
            if let Some(plan) = plan {
                line(text, depth, &format!("Select #{} for {what}", subquery.block.id));
                step(plan, depth + 1, text);
            }
        }
    }
}

fn step(of: &Step<'_>, depth: usize, text: &mut String) {
    // What only puts values in another place is not worth a line.
    if let (Operator::Project { .. }, [input]) = (of.operator, of.inputs.as_slice()) {
        return step(input, depth, text);
    }
    let mut depth = depth;
    // Conditions of a table that are left to the SQL node, as an operator above its reading.
    if let [read] = of.tables.as_slice()
        && !read.kept.is_empty()
    {
        let conditions: Vec<&str> = read.kept.iter().map(|(text, _)| text.as_str()).collect();
        let mut whys: Vec<String> = Vec::new();
        for (condition, why) in &read.kept {
            let why = why.strip_prefix(condition.as_str()).unwrap_or(why).trim_start_matches(": ");
            if !whys.iter().any(|known| known == why) {
                whys.push(why.to_owned());
            }
        }
        let conditions = conditions.join(" and ");
        line(text, depth, &format!("Filter: {conditions} [SQL node: {}]", whys.join("; ")));
        depth += 1;
    }
    let sent = if of.sent { " [SQL node: rows sent to the data nodes]" } else { "" };
    let what = format!("{}{}{sent}{}{}", title(of), place(of), estimate(of), actual(of));
    line(text, depth, &what);
    if matches!(of.operator, Operator::Edges { .. }) {
        for read in &of.tables {
            let reading = reading(read);
            line(text, depth + 1, &format!("{}: {reading} [data nodes]", read.edge()));
        }
    }
    of.inputs.iter().for_each(|input| step(input, depth + 1, text));
    of.blocks.iter().for_each(|inner| block(inner, depth + 1, text));
}

fn title(of: &Step<'_>) -> String {
    let words = |joiner: &str| of.words.join(joiner);
    let with = |title: &str, joiner: &str| {
        if of.words.is_empty() { title.to_owned() } else { format!("{title}: {}", words(joiner)) }
    };
    let side = |outer: bool| if outer { "left" } else { "inner" };
    match of.operator {
        Operator::Nothing { .. } | Operator::Rows(_) => "Rows fetched before execution".to_owned(),
        Operator::Scan(_) => reading(&of.tables[0]),
        Operator::Edges { .. } => "Aggregate at the edge of indexes".to_owned(),
        Operator::Virtual(scan) => with(&format!("Computed table {}", scan.alias), " and "),
        Operator::JsonTable(_) => "Materialize table function: json_table".to_owned(),
        Operator::WorkTable { .. } => "Scan new records of the recursive table".to_owned(),
        Operator::Recursive(_) => "Repeat until convergence".to_owned(),
        Operator::Lateral { scan, join, .. } => {
            format!("Nested loop {} join: {} for each row", side(join.outer), scan.alias)
        }
        Operator::Derived(scan) => {
            let elsewhere = of.same_as.map_or("", |_| " (query plan printed elsewhere)");
            let what = format!("Table {} materialized{elsewhere}", scan.alias);
            if of.words.is_empty() { what } else { with(&format!("{what}, filter"), " and ") }
        }
        Operator::Lookup { join, .. } => {
            let reading = reading(&of.tables[0]);
            format!("Nested loop {} join: {reading}, in batches", side(join.outer))
        }
        Operator::HashJoin { join, .. } => {
            if of.is_joined_by_keys() {
                format!("Nested loop {} join", side(join.outer))
            } else {
                with(&format!("Hash {} join", side(join.outer)), " and ")
            }
        }
        Operator::LoopJoin { join, .. } => {
            with(&format!("Block {} join", side(join.outer)), " and ")
        }
        Operator::Filter { .. } => with("Filter", " and "),
        Operator::Aggregate(_) => match of.site {
            Site::DataNodes => with("Merge of pushed aggregates", ", "),
            _ if of.words.is_empty() => "Aggregate".to_owned(),
            _ => with("Group aggregate", ", "),
        },
        Operator::Window(windows) => {
            let sorts = windows.steps.iter().filter(|step| step.sort.is_some()).count();
            format!("Window functions: {} with {sorts} sorts", windows.results)
        }
        Operator::Project { .. } => "Project".to_owned(),
        Operator::Sort { limit, .. } => {
            let limited = if limit.is_some() { ", limit input" } else { "" };
            let word = if of.site != Site::Rows { "Sort of first rows" } else { "Sort" };
            format!("{}{limited}", with(word, ", "))
        }
        Operator::Distinct { .. } => "Remove duplicates".to_owned(),
        Operator::Limit { bounds, .. } => {
            let count = bounds.count.as_ref().and_then(|count| count.expression.as_constant());
            count.map_or("Limit".to_owned(), |count| {
                let shown = format!("{count:?}");
                let digits: String = shown.chars().filter(char::is_ascii_digit).collect();
                format!("Limit: {digits} row(s)")
            })
        }
        Operator::Set { rest, .. } => match rest.first().map(|(kind, _)| *kind) {
            Some(SetKind::UnionAll) => "Union all".to_owned(),
            Some(SetKind::Except | SetKind::ExceptAll) => "Except".to_owned(),
            Some(SetKind::Intersect | SetKind::IntersectAll) => "Intersect".to_owned(),
            _ => "Union with deduplication".to_owned(),
        },
    }
}

/// Where an operator runs.
fn place(of: &Step<'_>) -> String {
    let why = match &of.obstacle {
        Some(why) => format!("; not pushed: {why}"),
        None => String::new(),
    };
    match (of.operator, of.site) {
        (Operator::Scan(_), site) => {
            let partitions = partitions(&of.tables[0]);
            let site = match site {
                Site::Rows => "rows",
                Site::Columns => "columns",
                Site::DataNodes => "grouped there",
                Site::Joined => "joined there",
            };
            format!(" [data nodes: {partitions}; {site}]")
        }
        (Operator::Lookup { .. }, site) => {
            let partitions = partitions(&of.tables[0]);
            match site {
                Site::Joined => format!(" [data nodes: {partitions}; joined there]"),
                _ => format!(" [data nodes: {partitions}; SQL node joins rows{why}]"),
            }
        }
        (Operator::HashJoin { .. }, Site::Joined) if of.is_joined_by_hash() => {
            " [data nodes; joined there]".to_owned()
        }
        (Operator::Filter { .. } | Operator::HashJoin { .. }, Site::Joined) => {
            " [data nodes]".to_owned()
        }
        (Operator::Sort { .. }, Site::Columns) => " [SQL node: columns]".to_owned(),
        (Operator::Aggregate(_), Site::DataNodes) => " [data nodes, SQL node]".to_owned(),
        (Operator::Aggregate(_) | Operator::HashJoin { .. } | Operator::LoopJoin { .. }, site)
        | (Operator::Filter { .. }, site) => match site {
            Site::Columns => format!(" [SQL node: columns{why}]"),
            _ => format!(" [SQL node: rows{why}]"),
        },
        _ => " [SQL node]".to_owned(),
    }
}

fn partitions(read: &TableRead<'_>) -> String {
    match read.partitions.as_slice() {
        [] => "no partition".to_owned(),
        [one] => one.clone(),
        [first, .., last] => {
            let all = usize::from(read.scan.definition.table.partition_count);
            if read.partitions.len() == all {
                format!("all of {first}-{last}")
            } else {
                read.partitions.join(",")
            }
        }
    }
}

/// How a table is read.
fn reading(read: &TableRead<'_>) -> String {
    let (name, key) = (&read.scan.alias, read.key.as_deref().unwrap_or_default());
    let mut what = match read.access {
        "const" | "eq_ref" => format!("Single-row lookup on {name} using {key}"),
        "ref" => format!("Index lookup on {name} using {key}"),
        "index" => format!("Index scan on {name} using {key}"),
        "range" => format!("Index range scan on {name} using {key}"),
        _ => format!("Table scan on {name}"),
    };
    if !read.compared.is_empty() {
        let pairs = read.parts.iter().zip(&read.compared);
        let pairs: Vec<String> = pairs.map(|(part, value)| format!("{part}={value}")).collect();
        what.push_str(&format!(" ({})", pairs.join(", ")));
    }
    let ranged = matches!(read.scan.path, AccessPath::Ranges { .. });
    if !read.implied.is_empty() && ranged {
        what.push_str(&format!(", range is {}", read.implied.join(" and ")));
    }
    if !read.pushed.is_empty() {
        what.push_str(&format!(", pushed condition: {}", read.pushed.join(" and ")));
    }
    if !read.key_filters.is_empty() {
        what.push_str(&format!(", keys of a join told: {}", read.key_filters.join(", ")));
    }
    if let Some(listed) = Listed::of(read.scan) {
        let index = listed.index_name(read.scan);
        what.push_str(&format!(", by {index} for the values of a subquery while these are few"));
    }
    if read.is_limited() {
        what.push_str(", pushed limit");
    }
    what
}

fn estimate(of: &Step<'_>) -> String {
    format!("  (cost={} rows={})", number(of.estimate.cost), number(of.estimate.rows))
}

/// What it has done.
fn actual(of: &Step<'_>) -> String {
    let Some(done) = of.done else { return String::new() };
    let Some(done) = done else {
        // What data nodes do for the operator above is told there.
        let below = match of.site {
            Site::DataNodes => matches!(of.operator, Operator::Scan(_)),
            site => site == Site::Joined,
        };
        return if below { " (see above)" } else { " (never executed)" }.to_owned();
    };
    let loops = done.loops.max(1);
    let rows = number(done.rows as f64 / loops as f64);
    let (first, last) = times(&done);
    let mut text = format!(" (actual time={first}..{last} rows={rows} loops={})", done.loops);
    let traffic = done.traffic;
    if traffic.messages > 0 {
        let read = match traffic.examined {
            0 => String::new(),
            examined => format!("read {examined} rows; "),
        };
        text.push_str(&format!(
            " (data nodes: {read}sent {} rows, {} bytes in {} messages)",
            traffic.rows, traffic.bytes, traffic.messages
        ));
    }
    if let [read] = of.tables.as_slice()
        && read.key_sets > 0
    {
        text.push_str(&format!(" (told {} sets of keys)", read.key_sets));
    }
    if done.spilled > 0 {
        text.push_str(&format!(" (temporary files: {} bytes)", done.spilled));
    }
    text
}

/// Milliseconds until the first row and until the last, of a loop on average.
pub(super) fn times(done: &Done) -> (String, String) {
    let of_loop = |time: stdx::Duration| {
        let micros = time.as_micros() as f64 / done.loops.max(1) as f64;
        format!("{:.3}", micros / 1_000.0)
    };
    (of_loop(done.first), of_loop(done.last))
}
