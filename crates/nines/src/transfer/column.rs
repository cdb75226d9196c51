//! The columns of a table, and what their values are in statements and in files.
//!
//! # Owns
//! [`Table`], as an SQL node describes it; literals of values ([`Column::literal`]) and expressions
//! that show them ([`Column::shown`]).
//! # Guarantees
//! Whatever a value is, its literal is one literal: nothing of a file is read as SQL.
//! # Not here
//! How records are written (`record`).

use mysql_client::{QueryError, Session};

use super::record::{Field, Shown};

/// How bytes are shown in texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binary {
    Hex,
    Base64,
}

/// What a column holds, as far as that matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Texts, dates, and all that the server makes of texts.
    Text,
    Number,
    Json,
    Bytes,
    /// BIT, which is shown as a number.
    Bits,
}

/// How exact numbers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Precision {
    Exact,
    /// FLOAT, of which some servers show six digits and have more.
    Single,
    Double,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) kind: Kind,
    /// Its value is computed, and nobody gives it one.
    pub(super) is_generated: bool,
    /// Its numbers are shown with zeros before them, which numbers of JSON have not.
    pub(super) is_filled: bool,
    pub(super) precision: Precision,
}

/// A table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) database: String,
    pub(super) name: String,
    pub(super) columns: Vec<Column>,
    /// The columns of its primary key; empty if it has none.
    pub(super) key: Vec<String>,
}

/// A name as SQL has it.
pub(crate) fn name(text: &str) -> String {
    format!("`{}`", text.replace('`', "``"))
}

/// A text as SQL has it, where backslashes escape.
pub(super) fn text(value: &str) -> String {
    let mut literal = String::with_capacity(value.len() + 2);
    literal.push('\'');
    for letter in value.chars() {
        match letter {
            '\'' => literal.push_str("''"),
            '\\' => literal.push_str("\\\\"),
            '\0' => literal.push_str("\\0"),
            other => literal.push(other),
        }
    }
    literal.push('\'');
    literal
}

impl Table {
    /// The table `DATABASE.TABLE` as a server describes it.
    pub(super) fn describe(session: &mut Session, full: &str) -> Result<Self, String> {
        let (database, table) =
            full.split_once('.').ok_or_else(|| format!("`{full}` is no DATABASE.TABLE"))?;
        Self::describe_of(session, database, table)
    }

    /// The table of a database, as a server describes it.
    pub(super) fn describe_of(
        session: &mut Session,
        database: &str,
        table: &str,
    ) -> Result<Self, String> {
        let full = format!("{database}.{table}");
        let of = format!("table_schema = {} AND table_name = {}", text(database), text(table));
        let said = |why: QueryError| format!("{full}: {why}");
        let rows = session
            .query(&format!(
                "SELECT column_name, data_type, extra, column_type FROM information_schema.columns \
                 WHERE {of} ORDER BY ordinal_position"
            ))
            .map_err(said)?;
        if rows.is_empty() {
            return Err(format!("{full}: no such table is there, or not for this account"));
        }
        let part =
            |row: &[Option<String>], at: usize| row.get(at).cloned().flatten().unwrap_or_default();
        let columns = rows.iter().map(|row| {
            let extra = part(row, 2).to_ascii_uppercase();
            Column {
                name: part(row, 0),
                kind: kind(&part(row, 1)),
                is_generated: extra.contains("VIRTUAL GENERATED")
                    || extra.contains("STORED GENERATED"),
                is_filled: part(row, 3).to_ascii_lowercase().contains("zerofill"),
                precision: precision(&part(row, 1)),
            }
        });
        let columns = columns.collect();
        let rows = session
            .query(&format!(
                "SELECT column_name FROM information_schema.statistics WHERE {of} AND \
                 index_name = 'PRIMARY' ORDER BY seq_in_index"
            ))
            .map_err(said)?;
        let key = rows.iter().map(|row| part(row, 0)).collect();
        Ok(Self { database: database.to_owned(), name: table.to_owned(), columns, key })
    }

    /// Its name as SQL has it.
    pub(super) fn quoted(&self) -> String {
        format!("{}.{}", name(&self.database), name(&self.name))
    }

    /// The column of a name.
    pub(super) fn column(&self, given: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name.eq_ignore_ascii_case(given))
    }
}

fn kind(data_type: &str) -> Kind {
    match data_type.to_ascii_lowercase().as_str() {
        "binary" | "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob" | "vector" => {
            Kind::Bytes
        }
        "bit" => Kind::Bits,
        "json" => Kind::Json,
        "tinyint" | "smallint" | "mediumint" | "int" | "bigint" | "decimal" | "float"
        | "double" => Kind::Number,
        _ => Kind::Text,
    }
}

fn precision(data_type: &str) -> Precision {
    match data_type.to_ascii_lowercase().as_str() {
        "float" => Precision::Single,
        "double" => Precision::Double,
        _ => Precision::Exact,
    }
}

impl Column {
    /// The expression that shows its value in a file.
    pub(super) fn shown(&self, binary: Binary) -> String {
        let name = name(&self.name);
        match (self.kind, binary) {
            (Kind::Bytes, Binary::Hex) => format!("HEX({name})"),
            // The server breaks lines, which nothing needs.
            (Kind::Bytes, Binary::Base64) => format!("REPLACE(TO_BASE64({name}), '\\n', '')"),
            (Kind::Bits, _) => format!("{name} + 0"),
            _ => name,
        }
    }

    /// How its value is shown in JSON.
    pub(super) fn in_json(&self) -> Shown {
        match self.kind {
            Kind::Number if self.is_filled => Shown::Text,
            Kind::Number | Kind::Json | Kind::Bits => Shown::Raw,
            Kind::Text | Kind::Bytes => Shown::Text,
        }
    }

    /// A value of a file as a literal of SQL.
    ///
    /// # Errors
    /// Why it cannot be one.
    pub(super) fn literal(&self, field: &Field, binary: Binary) -> Result<String, String> {
        let is_json = self.kind == Kind::Json;
        let bytes = match field {
            Field::Null => return Ok("NULL".to_owned()),
            Field::JsonBool(value) if is_json => return Ok(text(&value.to_string())),
            Field::JsonBool(value) => return Ok(u8::from(*value).to_string()),
            // In a column of JSON a string is one of JSON.
            Field::JsonText(value) if is_json => {
                return Ok(text(&serde_json::Value::String(value.clone()).to_string()));
            }
            Field::JsonText(value) => value.as_bytes(),
            Field::Text(bytes) => bytes,
        };
        let of_column = |why: String| format!("column {}: {why}", self.name);
        match self.kind {
            Kind::Bytes => {
                let bytes = match binary {
                    Binary::Hex => unhex(bytes),
                    Binary::Base64 => unbase64(bytes),
                };
                Ok(bytes_literal(&bytes.map_err(of_column)?))
            }
            Kind::Bits => {
                if bytes.is_empty() || !bytes.iter().all(u8::is_ascii_digit) {
                    Err(of_column("BIT takes a number without a sign".to_owned()))
                } else {
                    Ok(String::from_utf8_lossy(bytes).into_owned())
                }
            }
            Kind::Text | Kind::Number | Kind::Json => {
                let value = std::str::from_utf8(bytes);
                let value = value.map_err(|why| {
                    of_column(format!(
                        "byte {} of the value is no UTF-8: say --encoding",
                        why.valid_up_to() + 1
                    ))
                })?;
                Ok(text(value))
            }
        }
    }
}

/// Bytes as a literal of SQL.
pub(super) fn bytes_literal(bytes: &[u8]) -> String {
    if bytes.is_empty() { "''".to_owned() } else { format!("x'{}'", runtime::hex(bytes)) }
}

fn unhex(text: &[u8]) -> Result<Vec<u8>, String> {
    let digit = |byte: u8| (byte as char).to_digit(16);
    let text = text.strip_prefix(b"0x").unwrap_or(text);
    let pair = |pair: &[u8]| match pair {
        [high, low] => Some((digit(*high)? * 16 + digit(*low)?) as u8),
        _ => None,
    };
    let bytes: Option<Vec<u8>> = text.chunks(2).map(pair).collect();
    bytes.ok_or_else(|| "bytes are given as pairs of hexadecimal digits: see --binary".to_owned())
}

fn unbase64(text: &[u8]) -> Result<Vec<u8>, String> {
    let wrong = || "bytes are given in base64: see --binary".to_owned();
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let text: Vec<u8> = text.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    if !text.len().is_multiple_of(4) {
        return Err(wrong());
    }
    let count = text.len() / 4;
    for (at, four) in text.chunks(4).enumerate() {
        let padding = four.iter().rev().take_while(|byte| **byte == b'=').count();
        if padding > 2 || padding > 0 && at + 1 < count {
            return Err(wrong());
        }
        let mut word = 0;
        for byte in &four[..4 - padding] {
            let six = match byte {
                b'A'..=b'Z' => byte - b'A',
                b'a'..=b'z' => byte - b'a' + 26,
                b'0'..=b'9' => byte - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                _ => return Err(wrong()),
            };
            word = word << 6 | u32::from(six);
        }
        word <<= 6 * padding;
        bytes.extend_from_slice(&word.to_be_bytes()[1..4 - padding]);
    }
    Ok(bytes)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A column `c` of a kind, for tests.
    pub(in crate::transfer) fn column(kind: Kind) -> Column {
        let name = "c".to_owned();
        Column { name, kind, is_generated: false, is_filled: false, precision: Precision::Exact }
    }

    #[test]
    fn literals_are_one_literal() {
        let of = |kind, value: &[u8]| {
            column(kind).literal(&Field::Text(value.to_vec()), Binary::Hex).unwrap()
        };
        assert_eq!(of(Kind::Text, b"it's \\ \"q\"\0\n"), "'it''s \\\\ \"q\"\\0\n'");
        assert_eq!(of(Kind::Number, b"1); DROP TABLE t"), "'1); DROP TABLE t'");
        assert_eq!(of(Kind::Bytes, b"00fF"), "x'00ff'");
        assert_eq!(of(Kind::Bytes, b""), "''");
        assert_eq!(of(Kind::Bits, b"5"), "5");
        assert_eq!(column(Kind::Text).literal(&Field::Null, Binary::Hex).unwrap(), "NULL");
        for (kind, bad) in [
            (Kind::Bits, &b"1 OR 1"[..]),
            (Kind::Bits, b""),
            (Kind::Bytes, b"abc"),
            (Kind::Bytes, b"x'"),
            (Kind::Text, b"\xFF"),
        ] {
            let refused = column(kind).literal(&Field::Text(bad.to_vec()), Binary::Hex);
            assert!(refused.is_err(), "{kind:?} {bad:?}");
        }
        let of = |kind, field: Field| column(kind).literal(&field, Binary::Hex).unwrap();
        assert_eq!(of(Kind::Json, Field::JsonText("N\"".to_owned())), r#"'"N\\""'"#);
        assert_eq!(of(Kind::Text, Field::JsonText("N\"".to_owned())), r#"'N"'"#);
        assert_eq!(of(Kind::Bytes, Field::JsonText("4e".to_owned())), "x'4e'");
        assert_eq!(of(Kind::Json, Field::JsonBool(true)), "'true'");
        assert_eq!(of(Kind::Number, Field::JsonBool(true)), "1");
        assert_eq!(name("a`b"), "`a``b`");
    }

    #[test]
    fn base64_is_read_and_nothing_else() {
        for (text, bytes) in [
            ("", &b""[..]),
            ("AA==", b"\0"),
            ("AAE=", b"\0\x01"),
            ("AAH/", b"\0\x01\xFF"),
            ("bGluZSBv\nZiB0ZXh0", b"line of text"),
        ] {
            assert_eq!(unbase64(text.as_bytes()).as_deref(), Ok(bytes), "{text}");
        }
        for bad in ["A", "AA=", "A===", "AA==AAAA", "A?==", "===="] {
            assert!(unbase64(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
