//! What `nines config parameters` says about what can be written in a configuration.

use std::fmt::Write;

use cluster_config::SectionKind;
use cluster_config::parameter::{Kind, Parameter, Status};
use serde_json::{Value, json};

use super::Form;

/// One parameter, or all.
pub(super) fn text(name: Option<&str>, form: Form) -> Result<String, String> {
    let Some(name) = name else {
        return Ok(match form {
            Form::Text => list(),
            Form::Json => json_of(Parameter::all()),
            Form::Markdown => Parameter::reference_page(),
        });
    };
    let mut found = Parameter::named(name).peekable();
    if found.peek().is_none() {
        return Err(match Parameter::nearest(name, SectionKind::Data) {
            Some(nearest) => format!("there is no parameter {name}; did you mean {nearest}?"),
            None => format!("there is no parameter {name}; `nines config parameters` lists all"),
        });
    }
    Ok(match form {
        Form::Json => json_of(found),
        Form::Text | Form::Markdown => found.map(explanation).collect::<Vec<_>>().join("\n"),
    })
}

fn list() -> String {
    let mut rows =
        vec![["name", "sections", "default", "restart", "status"].map(str::to_string).to_vec()];
    for parameter in Parameter::all() {
        rows.push(vec![
            parameter.name.to_string(),
            parameter.sections.to_string(),
            parameter.default_text(),
            parameter.restart.to_string(),
            parameter.status.name().to_string(),
        ]);
    }
    columns(&rows, &[])
}

fn explanation(parameter: &Parameter) -> String {
    let mut text = format!("{}: {}\n", parameter.name, parameter.about);
    let mut line = |what: &str, value: &str| {
        let _ = writeln!(text, "  {what:<9} {value}");
    };
    if !parameter.aliases.is_empty() {
        line("also", &parameter.aliases.join(", "));
    }
    line("sections", &parameter.sections.to_string());
    line("values", &parameter.values_text());
    let default = match parameter.default_ndb_text() {
        Some(ndb) => format!("{} (NDB: {ndb})", parameter.default_text()),
        None => parameter.default_text(),
    };
    line("default", &default);
    line("restart", &format!("{}: {}", parameter.restart, parameter.restart.instruction()));
    match parameter.status {
        Status::Honoured => line("status", "honoured"),
        Status::Later => line("status", "accepted, and not in effect yet"),
        Status::Meaningless(why) => line("status", &format!("accepted without effect: {why}")),
    }
    text
}

fn json_of<'a>(parameters: impl Iterator<Item = &'a Parameter>) -> String {
    let list: Vec<Value> = parameters.map(of_one).collect();
    format!("{:#}\n", Value::Array(list))
}

fn of_one(parameter: &Parameter) -> Value {
    let mut value = json!({
        "name": parameter.name,
        "aliases": parameter.aliases,
        "sections": parameter.sections.iter().map(SectionKind::name).collect::<Vec<_>>(),
        "all_alike": parameter.sections.alike(),
        "values": parameter.values_text(),
        "default": parameter.default_text(),
        "default_ndb": parameter.default_ndb_text(),
        "restart": parameter.restart.name(),
        "status": parameter.status.name(),
        "about": parameter.about,
    });
    if let Kind::Number { unit, min, max, .. } = parameter.kind {
        value["unit"] = json!(unit.name());
        value["min"] = json!(min);
        value["max"] = json!(max);
    }
    if let Status::Meaningless(why) = parameter.status {
        value["why"] = json!(why);
    }
    value
}

/// A table whose columns are as wide as what is in them; those of numbers are aligned right.
pub(super) fn columns(rows: &[Vec<String>], right: &[usize]) -> String {
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = width(column).unwrap_or(0);
            let gap = if column == 0 { "" } else { "  " };
            let _ = if right.contains(&column) {
                write!(line, "{gap}{cell:>width$}")
            } else {
                write!(line, "{gap}{cell:<width$}")
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
