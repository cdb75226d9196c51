//! The traditional form: a line for each table.

use sqltype::{Datum, SqlType};

use crate::execute::dry_run::Site;
use crate::explain::table_reads::TableRead;
use crate::explain::{Block, Explanation, Step};
use crate::plan::operator::Operator;
use crate::result::ResultColumn;

/// What Extra says of a side of a join that data nodes make with its rows.
const SENT: &str = "Rows sent to data nodes";

/// A line.
#[derive(Default)]
struct Line {
    id: Option<u32>,
    select_type: &'static str,
    table: Option<String>,
    partitions: Option<String>,
    kind: Option<&'static str>,
    possible_keys: Option<String>,
    key: Option<String>,
    key_length: Option<String>,
    compared: Option<String>,
    rows: Option<u64>,
    filtered: Option<f64>,
    extra: Vec<String>,
}

/// Columns and rows.
pub(super) fn rows(explanation: &Explanation<'_>) -> (Vec<ResultColumn>, Vec<Vec<Datum>>) {
    let text = |name: &str| ResultColumn::new(name, SqlType::text(4_096));
    let number = |name: &str| ResultColumn::new(name, SqlType::big_int());
    let filtered = SqlType { decimals: 2, ..SqlType::double() };
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
        ResultColumn::new("filtered", filtered),
        text("Extra"),
    ];
    let mut lines = Vec::new();
    if let Some((word, table)) = explanation.into {
        lines.push(Line {
            id: Some(explanation.block.id),
            select_type: word,
            table: Some(table.clone()),
            kind: Some("ALL"),
            ..Line::default()
        });
    }
    let values =
        matches!(&explanation.block.root.operator, Operator::Rows(rows) if rows.is_empty());
    if explanation.into.is_none() || !values {
        block_lines(&explanation.block, &mut lines);
    }
    (columns, lines.into_iter().map(Line::into_row).collect())
}

impl Line {
    fn into_row(self) -> Vec<Datum> {
        let text = |text: Option<String>| text.map_or(Datum::Null, |text| Datum::text(&text));
        let extra = (!self.extra.is_empty()).then(|| self.extra.join("; "));
        vec![
            self.id.map_or(Datum::Null, |id| Datum::UInt(id.into())),
            Datum::text(self.select_type),
            text(self.table),
            text(self.partitions),
            self.kind.map_or(Datum::Null, Datum::text),
            text(self.possible_keys),
            text(self.key),
            text(self.key_length),
            text(self.compared),
            self.rows.map_or(Datum::Null, Datum::UInt),
            self.filtered.map_or(Datum::Null, Datum::Double),
            text(extra),
        ]
    }
}

fn block_lines(block: &Block<'_>, lines: &mut Vec<Line>) {
    let mut blocks = Vec::new();
    let mut extra = Vec::new();
    step_lines(&block.root, (block.id, block.kind), &mut extra, lines, &mut blocks);
    blocks.into_iter().for_each(|block| block_lines(block, lines));
    if let Some(ids) = union_of(&block.root) {
        let ids: Vec<String> =
            std::iter::once(block.id).chain(ids).map(|id| id.to_string()).collect();
        lines.push(Line {
            select_type: "UNION RESULT",
            table: Some(format!("<union{}>", ids.join(","))),
            kind: Some("ALL"),
            extra: vec!["Using temporary".to_owned()],
            ..Line::default()
        });
    }
    block.subqueries.iter().for_each(|subquery| block_lines(&subquery.block, lines));
}

/// The numbers of the parts of a set operation that is more than one part after the other.
fn union_of(step: &Step<'_>) -> Option<Vec<u32>> {
    use crate::logical::formula::SetKind;
    match step.operator {
        Operator::Set { rest, .. } if rest.iter().any(|(kind, _)| *kind != SetKind::UnionAll) => {
            Some(step.blocks.iter().map(|block| block.id).collect())
        }
        Operator::Sort { .. } | Operator::Limit { .. } | Operator::Project { .. } => {
            step.inputs.first().and_then(union_of)
        }
        _ => None,
    }
}

type Owner = (u32, &'static str);

fn step_lines<'s, 'p>(
    step: &'s Step<'p>,
    owner: Owner,
    extra: &mut Vec<String>,
    lines: &mut Vec<Line>,
    blocks: &mut Vec<&'s Block<'p>>,
) {
    let line = |table: String, kind, more: Vec<String>| Line {
        id: Some(owner.0),
        select_type: owner.1,
        table: Some(table),
        kind: Some(kind),
        extra: more,
        ..Line::default()
    };
    match step.operator {
        Operator::Nothing { .. } | Operator::Rows(_) => {
            let mut all = vec!["No tables used".to_owned()];
            all.append(extra);
            let (id, select_type) = (Some(owner.0), owner.1);
            lines.push(Line { id, select_type, extra: all, ..Line::default() });
        }
        Operator::Scan(_) => {
            let read = &step.tables[0];
            let mut all = notes(step, read);
            all.append(extra);
            lines.push(table_line(step, read, owner, all));
        }
        Operator::Edges { .. } => {
            for read in &step.tables {
                let mut all = vec![read.edge().to_owned()];
                all.append(extra);
                lines.push(table_line(step, read, owner, all));
            }
        }
        Operator::Lookup { .. } => {
            step_lines(&step.inputs[0], owner, extra, lines, blocks);
            let read = &step.tables[0];
            let mut all = notes(step, read);
            all.push("Batched lookups".to_owned());
            lines.push(table_line(step, read, owner, all));
        }
        Operator::Virtual(_) | Operator::JsonTable(_) | Operator::WorkTable { .. } => {
            let (table, note) = match step.operator {
                Operator::Virtual(scan) => (scan.alias.clone(), "Computed"),
                Operator::JsonTable(_) => (String::new(), "Table function: json_table"),
                _ => ("<recursive>".to_owned(), "Recursive"),
            };
            let mut all = vec![note.to_owned()];
            all.append(extra);
            lines.push(line(table, "ALL", all));
        }
        Operator::Derived(scan) => {
            let rows = Some(step.estimate.rows.round() as u64);
            extra.extend(step.sent.then(|| SENT.to_owned()));
            extra.extend(step.same_as.map(|id| format!("Same query as id {id}")));
            let of_table = line(format!("<{}>", scan.alias), "ALL", std::mem::take(extra));
            lines.push(Line { rows, ..of_table });
            blocks.extend(&step.blocks);
        }
        Operator::Lateral { scan, .. } => {
            step_lines(&step.inputs[0], owner, extra, lines, blocks);
            lines.push(line(format!("<{}>", scan.alias), "ALL", vec!["Lateral".to_owned()]));
            blocks.extend(&step.blocks);
        }
        Operator::HashJoin { .. } | Operator::LoopJoin { .. } => {
            step_lines(&step.inputs[0], owner, extra, lines, blocks);
            let note = note_of_join(step).to_owned();
            step_lines(&step.inputs[1], owner, &mut vec![note], lines, blocks);
        }
        _ => {
            extra.extend(note_of(step));
            let inputs = step.inputs.iter();
            inputs.for_each(|input| step_lines(input, owner, extra, lines, blocks));
            blocks.extend(&step.blocks);
        }
    }
}

/// What Extra says of the second table of a join.
fn note_of_join(step: &Step<'_>) -> &'static str {
    match step.operator {
        Operator::HashJoin { .. } if step.is_joined_by_keys() => "Batched lookups",
        Operator::HashJoin { .. } => "Using join buffer (hash join)",
        _ => "Using join buffer",
    }
}

fn table_line(step: &Step<'_>, read: &TableRead<'_>, owner: Owner, extra: Vec<String>) -> Line {
    let list = |list: &[String]| (!list.is_empty()).then(|| list.join(","));
    let partitions = &read.partitions;
    let partitions = match partitions.len() {
        0..=8 => partitions.join(","),
        count => format!("{} to {}", partitions[0], partitions[count - 1]),
    };
    Line {
        id: Some(owner.0),
        select_type: owner.1,
        table: Some(read.scan.alias.clone()),
        partitions: Some(partitions),
        kind: Some(read.access),
        possible_keys: list(&read.possible_keys),
        key: read.key.clone(),
        key_length: read.key_length.map(|length| length.to_string()),
        compared: list(&read.compared),
        rows: Some(step.estimate.examined.round().max(1.0) as u64),
        filtered: Some((step.estimate.share * 10_000.0).round() / 100.0),
        extra,
    }
}

/// What Extra says of the reading of a table.
fn notes(step: &Step<'_>, read: &TableRead<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    if !read.pushed.is_empty() {
        notes.push(match read.pushed.as_slice() {
            [one] if one.starts_with('(') => format!("Using pushed condition {one}"),
            all => format!("Using pushed condition ({})", all.join(" and ")),
        });
    }
    if !read.kept.is_empty() {
        let by_key = read.joined || matches!(read.access, "const" | "eq_ref");
        let why = |(text, why): &(String, String)| {
            if why.starts_with(text.as_str()) { why.clone() } else { format!("{text}: {why}") }
        };
        notes.push(if by_key {
            "Using where".to_owned()
        } else {
            let whys: Vec<String> = read.kept.iter().map(why).collect();
            format!("Using where (not pushed: {})", whys.join(", "))
        });
    }
    if read.is_limited() {
        notes.push("Pushed limit".to_owned());
    }
    if !read.key_filters.is_empty() {
        notes.push(format!("Keys of a join told ({})", read.key_filters.join(",")));
    }
    match (step.site, step.operator, &step.obstacle) {
        (Site::Columns, ..) => notes.push("On columns".to_owned()),
        (Site::Joined, ..) => notes.push("Pushed join".to_owned()),
        (_, Operator::Lookup { .. }, Some(why)) => notes.push(format!("Join not pushed: {why}")),
        _ => {}
    }
    if step.sent {
        notes.push(SENT.to_owned());
    }
    notes
}

/// What Extra says of an operator over one input.
fn note_of(step: &Step<'_>) -> Option<String> {
    let word = match step.operator {
        Operator::Aggregate(_) if step.site == Site::DataNodes => "Pushed aggregate",
        Operator::Aggregate(_) => {
            return Some(match &step.obstacle {
                Some(why) => format!("Using temporary (aggregate not pushed: {why})"),
                None => "Using temporary".to_owned(),
            });
        }
        Operator::Window(_) => "Using temporary; Using filesort",
        Operator::Filter { .. } => "Using where",
        Operator::Sort { .. } if step.site == Site::DataNodes => {
            "Using filesort (data nodes send the first rows)"
        }
        Operator::Sort { .. } => "Using filesort",
        Operator::Distinct { .. } => "Distinct",
        _ => return None,
    };
    Some(word.to_owned())
}
