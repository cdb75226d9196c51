//! Records of text files: CSV, TSV and JSON lines, read and written.
//!
//! CSV is that of RFC 4180: values with a delimiter, a quote or the end of a line in them are
//! quoted, and a quote in them is doubled. A value without quotes that is the text for NULL is
//! NULL; a quoted one never is. TSV is that of MySQL: `\N` is NULL, and `\t`, `\n`, `\r`, `\0`,
//! `\\` stand for bytes. A line of JSON is an object, whose members are columns.
//!
//! # Owns
//! [`Reader`], [`Form`] and how a record is written.
//! # Guarantees
//! Any bytes are records or an error with the line at which it was noticed. No more than a record
//! is in memory, of [`RECORD_MAX`] bytes at most.
//! # Not here
//! What columns there are and what their values mean (`column`).

use std::io::BufRead;

use serde_json::Value;

/// Most bytes of a record.
pub(super) const RECORD_MAX: usize = 64 << 20;

/// The form of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Csv,
    Tsv,
    JsonLines,
}

/// What else is to be known of a form.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) form: Form,
    /// Between two values of CSV.
    pub(super) delimiter: u8,
    /// What is NULL in CSV when it is not quoted.
    pub(super) null: Vec<u8>,
}

/// A value of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Null,
    /// A value, or a part of JSON as it is written.
    Text(Vec<u8>),
    /// What a string of JSON says.
    JsonText(String),
    /// `true` or `false` of JSON.
    JsonBool(bool),
}

/// What is in a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fields {
    /// Values by place.
    Placed(Vec<Field>),
    /// Values by name.
    Named(Vec<(String, Field)>),
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// The line at which it begins, from 1.
    pub(super) line: u64,
    /// Where the next record begins, in bytes of the file as it was decoded.
    pub(super) end: u64,
    pub(super) fields: Fields,
}

/// Reads records.
pub(super) struct Reader<R> {
    input: R,
    shape: Shape,
    line: u64,
    at: u64,
}

const QUOTE: u8 = b'"';

impl<R: BufRead> Reader<R> {
    pub(super) fn new(input: R, shape: Shape) -> Self {
        Self { input, shape, line: 1, at: 0 }
    }

    /// The next record; none at the end.
    ///
    /// # Errors
    /// The line, and what is wrong there.
    pub(super) fn next(&mut self) -> Result<Option<Record>, (u64, String)> {
        loop {
            let line = self.line;
            let Some(text) = self.record().map_err(|why| (line, why))? else { return Ok(None) };
            let fields = match self.shape.form {
                Form::Csv => self.csv(&text).map(Fields::Placed),
                Form::Tsv => Ok(Fields::Placed(tsv(&text))),
                // An empty line is none.
                Form::JsonLines if text.trim_ascii().is_empty() => continue,
                Form::JsonLines => json(&text).map(Fields::Named),
            };
            let fields = fields.map_err(|why| (line, why))?;
            return Ok(Some(Record { line, end: self.at, fields }));
        }
    }

    /// The bytes of a record without the end of its last line.
    fn record(&mut self) -> Result<Option<Vec<u8>>, String> {
        let mut text = Vec::new();
        let mut quotes = 0;
        loop {
            let before = text.len();
            let limit = (RECORD_MAX + 2 - before) as u64;
            let read = std::io::Read::take(&mut self.input, limit).read_until(b'\n', &mut text);
            let read = read.map_err(|why| why.to_string())?;
            self.at += read as u64;
            if read == 0 {
                return match quotes % 2 {
                    _ if text.is_empty() => Ok(None),
                    0 => Ok(Some(text)),
                    _ => Err("a quote is opened and never closed".to_owned()),
                };
            }
            let is_whole = text.ends_with(b"\n");
            if !is_whole && text.len() > RECORD_MAX {
                return Err(format!("a record has more than {RECORD_MAX} bytes"));
            }
            self.line += u64::from(is_whole);
            if self.shape.form == Form::Csv {
                quotes += text[before..].iter().filter(|byte| **byte == QUOTE).count();
            }
            if quotes % 2 == 0 {
                if is_whole {
                    text.pop();
                    if text.ends_with(b"\r") {
                        text.pop();
                    }
                }
                return Ok(Some(text));
            }
        }
    }

    fn csv(&self, text: &[u8]) -> Result<Vec<Field>, String> {
        let Shape { delimiter, null, .. } = &self.shape;
        let mut fields = Vec::new();
        let mut rest = text;
        loop {
            let (field, after) = match rest.first() {
                Some(&QUOTE) => quoted(&rest[1..])?,
                _ => {
                    let end = rest.iter().position(|byte| byte == delimiter);
                    let (plain, after) = rest.split_at(end.unwrap_or(rest.len()));
                    if plain.contains(&QUOTE) {
                        let why = "a quote in a value that does not begin with one";
                        return Err(format!("value {}: {why}", fields.len() + 1));
                    }
                    if plain == null.as_slice() {
                        (Field::Null, after)
                    } else {
                        (Field::Text(plain.to_vec()), after)
                    }
                }
            };
            fields.push(field);
            match after.split_first() {
                None => return Ok(fields),
                Some((byte, more)) if byte == delimiter => rest = more,
                Some(_) => {
                    return Err(format!("value {}: more after its last quote", fields.len()));
                }
            }
        }
    }
}

/// A value after its first quote, and what follows its last one.
fn quoted(text: &[u8]) -> Result<(Field, &[u8]), String> {
    let mut value = Vec::new();
    let mut rest = text;
    loop {
        let end = rest.iter().position(|byte| *byte == QUOTE);
        let end = end.ok_or_else(|| "a quote is opened and never closed".to_owned())?;
        value.extend_from_slice(&rest[..end]);
        rest = &rest[end + 1..];
        if rest.first() != Some(&QUOTE) {
            return Ok((Field::Text(value), rest));
        }
        value.push(QUOTE);
        rest = &rest[1..];
    }
}

fn tsv(text: &[u8]) -> Vec<Field> {
    text.split(|byte| *byte == b'\t').map(unescaped).collect()
}

fn unescaped(text: &[u8]) -> Field {
    if text == b"\\N" {
        return Field::Null;
    }
    let mut value = Vec::with_capacity(text.len());
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        value.push(match byte {
            b'\\' => match bytes.next() {
                Some(b't') => b'\t',
                Some(b'n') => b'\n',
                Some(b'r') => b'\r',
                Some(b'0') => 0,
                Some(other) => *other,
                None => b'\\',
            },
            other => *other,
        });
    }
    Field::Text(value)
}

/// The members of an object. Numbers stay the texts that they are.
fn json(text: &[u8]) -> Result<Vec<(String, Field)>, String> {
    let said = |why: serde_json::Error| why.to_string();
    let text = std::str::from_utf8(text).map_err(|why| why.to_string())?.trim();
    // What follows looks at whole JSON only.
    serde_json::from_str::<serde::de::IgnoredAny>(text).map_err(said)?;
    let members = text.strip_prefix('{').ok_or("a line is an object with the values of a row")?;
    let mut members = members.trim_start();
    let mut found = Vec::new();
    while !members.starts_with('}') {
        let (name, rest) = members.split_at(json_end(members));
        let rest = rest.trim_start().strip_prefix(':').ok_or("a member has no value")?;
        let rest = rest.trim_start();
        let (value, rest) = rest.split_at(json_end(rest));
        let field = match value {
            "null" => Field::Null,
            "true" => Field::JsonBool(true),
            "false" => Field::JsonBool(false),
            text if text.starts_with('"') => {
                Field::JsonText(serde_json::from_str(text).map_err(said)?)
            }
            // A number, or what goes into a column of type JSON.
            text => Field::Text(text.as_bytes().to_vec()),
        };
        found.push((serde_json::from_str(name).map_err(said)?, field));
        let rest = rest.trim_start();
        members = rest.strip_prefix(',').unwrap_or(rest).trim_start();
    }
    Ok(found)
}

/// How long the value is that a text of JSON begins with.
fn json_end(text: &str) -> usize {
    let (mut depth, mut is_in_text, mut is_escaped) = (0_usize, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_in_text => is_escaped = true,
            b'"' => {
                is_in_text = !is_in_text;
                if !is_in_text && depth == 0 {
                    return at + 1;
                }
            }
            _ if is_in_text => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 0 => return at,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            b',' | b' ' | b'\t' | b'\n' | b'\r' if depth == 0 => return at,
            _ => {}
        }
    }
    text.len()
}

/// How a value is shown in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// As a string.
    Text,
    /// As it is: a number, or JSON.
    Raw,
}

/// Adds the head of a file: the names of its columns.
pub(super) fn write_head(shape: &Shape, names: &[&str], out: &mut Vec<u8>) {
    if shape.form != Form::JsonLines {
        let names: Vec<Option<&str>> = names.iter().copied().map(Some).collect();
        write_values(shape, &names, out);
    }
}

/// Adds a record.
pub(super) fn write(
    shape: &Shape,
    columns: &[(&str, Shown)],
    values: &[Option<&str>],
    out: &mut Vec<u8>,
) {
    if shape.form != Form::JsonLines {
        return write_values(shape, values, out);
    }
    let quoted = |text: &str| Value::String(text.to_owned()).to_string();
    out.push(b'{');
    for (at, ((name, shown), value)) in columns.iter().zip(values).enumerate() {
        if at > 0 {
            out.push(b',');
        }
        out.extend(quoted(name).bytes());
        out.push(b':');
        match (value, shown) {
            (None, _) => out.extend(b"null"),
            (Some(text), Shown::Raw) => out.extend(text.bytes()),
            (Some(text), Shown::Text) => out.extend(quoted(text).bytes()),
        }
    }
    out.extend(b"}\n");
}

fn write_values(shape: &Shape, values: &[Option<&str>], out: &mut Vec<u8>) {
    let is_csv = shape.form == Form::Csv;
    for (at, value) in values.iter().enumerate() {
        if at > 0 {
            out.push(if is_csv { shape.delimiter } else { b'\t' });
        }
        match value.map(str::as_bytes) {
            None if is_csv => out.extend(&shape.null),
            None => out.extend(b"\\N"),
            Some(text) if !is_csv => text.iter().for_each(|byte| match byte {
                b'\t' => out.extend(b"\\t"),
                b'\n' => out.extend(b"\\n"),
                b'\r' => out.extend(b"\\r"),
                0 => out.extend(b"\\0"),
                b'\\' => out.extend(b"\\\\"),
                other => out.push(*other),
            }),
            Some(text) => {
                let is_special =
                    |byte: &u8| matches!(byte, b'\n' | b'\r' | &QUOTE) || *byte == shape.delimiter;
                if text != shape.null.as_slice() && !text.iter().any(is_special) {
                    out.extend(text);
                    continue;
                }
                out.push(QUOTE);
                for byte in text {
                    if *byte == QUOTE {
                        out.push(QUOTE);
                    }
                    out.push(*byte);
                }
                out.push(QUOTE);
            }
        }
    }
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(form: Form) -> Shape {
        Shape { form, delimiter: b',', null: Vec::new() }
    }

    fn records(form: Form, text: &[u8]) -> Result<Vec<Record>, (u64, String)> {
        let mut reader = Reader::new(text, shape(form));
        let mut records = Vec::new();
        while let Some(record) = reader.next()? {
            records.push(record);
        }
        Ok(records)
    }

    fn text(text: &str) -> Field {
        Field::Text(text.as_bytes().to_vec())
    }

    #[test]
    fn records_of_csv_have_quotes_and_lines_in_them() {
        let found = records(Form::Csv, b"a,\"b\"\"c\",,\"\"\r\n\"two\nlines\",x\nend").unwrap();
        let fields: Vec<Fields> = found.iter().map(|record| record.fields.clone()).collect();
        assert_eq!(fields[0], Fields::Placed(vec![text("a"), text("b\"c"), Field::Null, text("")]));
        assert_eq!(fields[1], Fields::Placed(vec![text("two\nlines"), text("x")]));
        assert_eq!(fields[2], Fields::Placed(vec![text("end")]));
        let places: Vec<(u64, u64)> = found.iter().map(|found| (found.line, found.end)).collect();
        assert_eq!(places, [(1, 14), (2, 28), (4, 31)]);
        for (bad, line) in [("a\nb,\"c", 2), ("a\"b", 1), ("x\n\"a\"b,c\n", 2)] {
            assert_eq!(records(Form::Csv, bad.as_bytes()).unwrap_err().0, line, "{bad}");
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let values =
            [Some("plain"), None, Some(""), Some("a,\"b\"\n\t\\\r\u{0}"), Some("\\N"), Some("é")];
        let names: Vec<String> = (0..values.len()).map(|at| format!("c{at}")).collect();
        let columns: Vec<(&str, Shown)> = names.iter().map(|n| (n.as_str(), Shown::Text)).collect();
        let expected = |form: Form| -> Vec<Field> {
            let shown = |value: &str| match form {
                Form::JsonLines => Field::JsonText(value.to_owned()),
                Form::Csv | Form::Tsv => text(value),
            };
            values.iter().map(|value| value.map_or(Field::Null, shown)).collect()
        };
        for form in [Form::Csv, Form::Tsv, Form::JsonLines] {
            let mut out = Vec::new();
            write(&shape(form), &columns, &values, &mut out);
            let found = records(form, &out).unwrap();
            assert_eq!(found.len(), 1, "{form:?}");
            let fields = match &found[0].fields {
                Fields::Placed(fields) => fields.clone(),
                Fields::Named(named) => named.iter().map(|(_, field)| field.clone()).collect(),
            };
            assert_eq!(fields, expected(form), "{form:?}");
        }
    }

    #[test]
    fn numbers_of_json_stay_as_they_are() {
        let line = br#" {"a": 12345678901234567890.10, "b":{"x": [1,"}\""]} , "c":true,"d" :null}"#;
        let found = records(Form::JsonLines, &[b"\n", &line[..], b"\n"].concat()).unwrap();
        let expected = [
            ("a", text("12345678901234567890.10")),
            ("b", text("{\"x\": [1,\"}\\\"\"]}")),
            ("c", Field::JsonBool(true)),
            ("d", Field::Null),
        ];
        let expected = expected.map(|(name, field)| (name.to_owned(), field)).to_vec();
        assert_eq!(found[0].fields, Fields::Named(expected));
        assert_eq!(found[0].line, 2);
        assert_eq!(records(Form::JsonLines, b"{ }").unwrap()[0].fields, Fields::Named(vec![]));
        for bad in ["[1]", "{\"a\":", "{\"a\":1} x", "\u{0}", "7", "\"{\""] {
            assert!(records(Form::JsonLines, bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
