//! What the server answers: payloads, to be written through [`Channel::write`](crate::Channel).

use crate::constants::{capability, status};

/// Appends a length-encoded integer.
pub fn lenenc(out: &mut Vec<u8>, value: u64) {
    match value {
        0..=250 => out.push(value as u8),
        251..=0xFFFF => {
            out.push(252);
            out.extend_from_slice(&(value as u16).to_le_bytes());
        }
        0x1_0000..=0xFF_FFFF => {
            out.push(253);
            out.extend_from_slice(&(value as u32).to_le_bytes()[..3]);
        }
        _ => {
            out.push(254);
            out.extend_from_slice(&value.to_le_bytes());
        }
    }
}

/// Appends bytes behind their length.
pub fn lenenc_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    lenenc(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// A change of session state that the client is told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateChange {
    /// A tracked variable has a new value.
    Variable(String, String),
    /// The default database.
    Schema(String),
}

/// An OK packet's content.
#[derive(Clone, Debug, Default)]
pub struct Ok<'a> {
    /// Rows affected.
    pub affected: u64,
    /// First generated key.
    pub last_insert_id: u64,
    /// Status flags.
    pub status: u16,
    /// Number of warnings.
    pub warnings: u16,
    /// Text for people.
    pub info: &'a str,
    /// What has changed in the session.
    pub changes: &'a [StateChange],
}

/// Appends an OK packet's payload.
pub fn ok(out: &mut Vec<u8>, ok: &Ok<'_>, capabilities: u32) {
    out.push(0);
    ok_body(out, ok, capabilities);
}

/// Appends what ends rows: an OK packet with EOF's first byte, or an EOF packet.
pub fn end_of_rows(out: &mut Vec<u8>, ok: &Ok<'_>, capabilities: u32) {
    out.push(0xFE);
    if capabilities & capability::DEPRECATE_EOF != 0 {
        ok_body(out, ok, capabilities);
    } else {
        out.extend_from_slice(&ok.warnings.to_le_bytes());
        out.extend_from_slice(&ok.status.to_le_bytes());
    }
}

fn ok_body(out: &mut Vec<u8>, ok: &Ok<'_>, capabilities: u32) {
    lenenc(out, ok.affected);
    lenenc(out, ok.last_insert_id);
    let tracks = capabilities & capability::SESSION_TRACK != 0;
    let changed = tracks && !ok.changes.is_empty();
    let flags = ok.status | if changed { status::SESSION_STATE_CHANGED } else { 0 };
    out.extend_from_slice(&flags.to_le_bytes());
    out.extend_from_slice(&ok.warnings.to_le_bytes());
    if !ok.info.is_empty() || changed {
        lenenc_bytes(out, ok.info.as_bytes());
    }
    if changed {
        let mut all = Vec::new();
        for change in ok.changes {
            let mut body = Vec::new();
            let kind = match change {
                StateChange::Variable(name, value) => {
                    lenenc_bytes(&mut body, name.as_bytes());
                    lenenc_bytes(&mut body, value.as_bytes());
                    0
                }
                StateChange::Schema(name) => {
                    lenenc_bytes(&mut body, name.as_bytes());
                    1
                }
            };
            all.push(kind);
            lenenc_bytes(&mut all, &body);
        }
        lenenc_bytes(out, &all);
    }
}

/// Appends an error packet's payload. The text is cut to MySQL's 512 bytes. A client whose
/// capabilities are not known yet might not know SQLSTATEs: the first packet of all has none.
pub fn error(out: &mut Vec<u8>, code: u16, state: &str, message: &str, capabilities: u32) {
    let mut end = message.len().min(511);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    out.push(0xFF);
    out.extend_from_slice(&code.to_le_bytes());
    if capabilities & capability::PROTOCOL_41 != 0 {
        out.push(b'#');
        out.extend_from_slice(state.as_bytes());
    }
    out.extend_from_slice(&message.as_bytes()[..end]);
}

/// Appends an EOF packet's payload.
pub fn eof(out: &mut Vec<u8>, warnings: u16, status: u16) {
    out.push(0xFE);
    out.extend_from_slice(&warnings.to_le_bytes());
    out.extend_from_slice(&status.to_le_bytes());
}

/// A column of a result, or of a prepared statement.
#[derive(Clone, Debug, Default)]
pub struct ColumnDefinition<'a> {
    /// The database of its table.
    pub database: &'a str,
    /// Its table's alias.
    pub table: &'a str,
    /// Its table.
    pub org_table: &'a str,
    /// Its alias.
    pub name: &'a str,
    /// Its name.
    pub org_name: &'a str,
    /// The collation's number.
    pub collation: u16,
    /// Longest value in bytes.
    pub length: u32,
    /// Column type.
    pub kind: u8,
    /// Flags.
    pub flags: u16,
    /// Digits after the point; 31 for floats.
    pub decimals: u8,
}

/// Appends a column definition's payload.
pub fn column_definition(out: &mut Vec<u8>, column: &ColumnDefinition<'_>) {
    for part in
        ["def", column.database, column.table, column.org_table, column.name, column.org_name]
    {
        lenenc_bytes(out, part.as_bytes());
    }
    out.push(0x0C);
    out.extend_from_slice(&column.collation.to_le_bytes());
    out.extend_from_slice(&column.length.to_le_bytes());
    out.push(column.kind);
    out.extend_from_slice(&column.flags.to_le_bytes());
    out.push(column.decimals);
    out.extend_from_slice(&[0, 0]);
}

/// Whether descriptions of columns follow, to be told to a client that can do without.
pub type Described = Option<bool>;

/// Appends how many columns a result has.
pub fn column_count(out: &mut Vec<u8>, columns: usize, described: Described) {
    out.extend(described.map(u8::from));
    lenenc(out, columns as u64);
}

/// What COM_STMT_PREPARE is answered first.
#[derive(Clone, Copy, Debug)]
pub struct PreparedHead {
    /// The statement's number.
    pub statement: u32,
    /// How many columns its result has.
    pub columns: u16,
    /// How many parameters it has.
    pub parameters: u16,
    /// Number of warnings.
    pub warnings: u16,
    /// Whether definitions of parameters and columns follow.
    pub described: Described,
}

/// Appends the answer to COM_STMT_PREPARE; definitions of parameters and columns follow.
pub fn prepared(out: &mut Vec<u8>, head: &PreparedHead) {
    let PreparedHead { statement, columns, parameters, warnings, described } = *head;
    out.push(0);
    out.extend_from_slice(&statement.to_le_bytes());
    out.extend_from_slice(&columns.to_le_bytes());
    out.extend_from_slice(&parameters.to_le_bytes());
    out.push(0);
    out.extend_from_slice(&warnings.to_le_bytes());
    out.extend(described.map(u8::from));
}

/// Appends the wish for a file of the client's; its packets follow, an empty one ends them.
pub fn local_infile(out: &mut Vec<u8>, path: &[u8]) {
    out.push(0xFB);
    out.extend_from_slice(path);
}

/// Appends the wish for another plugin.
pub fn auth_switch(out: &mut Vec<u8>, plugin: &str, nonce: &[u8; 20]) {
    out.push(0xFE);
    out.extend_from_slice(plugin.as_bytes());
    out.push(0);
    out.extend_from_slice(nonce);
    out.push(0);
}

/// Appends a plugin's own data, as [`FULL`](crate::auth::sha2::FULL).
pub fn auth_more(out: &mut Vec<u8>, data: &[u8]) {
    out.push(1);
    out.extend_from_slice(data);
}

/// Appends NULL to a text row.
pub fn text_null(out: &mut Vec<u8>) {
    out.push(0xFB);
}

/// Appends a signed integer to a text row.
pub fn text_int(out: &mut Vec<u8>, value: i64) {
    let mut digits = [0u8; 20];
    let start = write_digits(&mut digits, value.unsigned_abs());
    let negative = value < 0;
    out.push((digits.len() - start + usize::from(negative)) as u8);
    if negative {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[start..]);
}

/// Appends an unsigned integer to a text row.
pub fn text_uint(out: &mut Vec<u8>, value: u64) {
    let mut digits = [0u8; 20];
    let start = write_digits(&mut digits, value);
    out.push((digits.len() - start) as u8);
    out.extend_from_slice(&digits[start..]);
}

fn write_digits(digits: &mut [u8; 20], mut value: u64) -> usize {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            return at;
        }
    }
}

/// Begins a binary row of `columns`; gives where its NULL bits are, for [`binary_null`].
pub fn binary_row(out: &mut Vec<u8>, columns: usize) -> usize {
    out.push(0);
    let bits = out.len();
    out.resize(bits + (columns + 2).div_ceil(8), 0);
    bits
}

/// Marks a column of a binary row as NULL.
pub fn binary_null(out: &mut [u8], bits: usize, column: usize) {
    let bit = column + 2;
    out[bits + bit / 8] |= 1 << (bit % 8);
}

/// Appends a date or a date with time to a binary row, as short as it can be.
pub fn binary_date_time(out: &mut Vec<u8>, date: (u16, u8, u8), time: (u8, u8, u8), micros: u32) {
    let length = match (date, time, micros) {
        ((0, 0, 0), (0, 0, 0), 0) => 0,
        (_, (0, 0, 0), 0) => 4,
        (_, _, 0) => 7,
        _ => 11,
    };
    out.push(length);
    if length >= 4 {
        out.extend_from_slice(&date.0.to_le_bytes());
        out.extend_from_slice(&[date.1, date.2]);
    }
    if length >= 7 {
        out.extend_from_slice(&[time.0, time.1, time.2]);
    }
    if length >= 11 {
        out.extend_from_slice(&micros.to_le_bytes());
    }
}

/// Appends a span of time to a binary row, as short as it can be.
pub fn binary_time(out: &mut Vec<u8>, negative: bool, hours: u32, rest: (u8, u8), micros: u32) {
    let length = match (hours, rest, micros) {
        (0, (0, 0), 0) => 0,
        (_, _, 0) => 8,
        _ => 12,
    };
    out.push(length);
    if length >= 8 {
        out.push(negative.into());
        out.extend_from_slice(&(hours / 24).to_le_bytes());
        out.extend_from_slice(&[(hours % 24) as u8, rest.0, rest.1]);
    }
    if length >= 12 {
        out.extend_from_slice(&micros.to_le_bytes());
    }
}
