//! Events of rows: TABLE_MAP, and WRITE_ROWS, UPDATE_ROWS and DELETE_ROWS of version 2.
//!
//! # Not here
//! Values: whoever knows types gives them as bytes.

use crate::answer::lenenc;

/// Types of columns.
pub mod column {
    #![allow(missing_docs, reason = "the names of the protocol")]
    pub const TINY: u8 = 1;
    pub const SHORT: u8 = 2;
    pub const LONG: u8 = 3;
    pub const FLOAT: u8 = 4;
    pub const DOUBLE: u8 = 5;
    pub const LONGLONG: u8 = 8;
    pub const INT24: u8 = 9;
    pub const DATE: u8 = 10;
    pub const YEAR: u8 = 13;
    pub const VARCHAR: u8 = 15;
    pub const BIT: u8 = 16;
    pub const TIMESTAMP2: u8 = 17;
    pub const DATETIME2: u8 = 18;
    pub const TIME2: u8 = 19;
    pub const JSON: u8 = 245;
    pub const NEWDECIMAL: u8 = 246;
    pub const ENUM: u8 = 247;
    pub const SET: u8 = 248;
    pub const BLOB: u8 = 252;
    pub const STRING: u8 = 254;
}

/// Rows end a statement: tables are forgotten.
pub const STATEMENT_ENDS: u16 = 1;
/// What rows refer to is not checked: what follows from foreign keys is in the log too.
pub const NO_FOREIGN_KEY_CHECKS: u16 = 2;

/// A column as TABLE_MAP has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapColumn {
    /// One of [`column`].
    pub kind: u8,
    /// What the kind needs to be read: bytes, as the protocol says for each.
    pub detail: Vec<u8>,
    /// Whether NULL may be there.
    pub nullable: bool,
    /// For numbers: whether there is no sign.
    pub unsigned: Option<bool>,
    /// For texts: the number of the collation.
    pub collation: Option<u16>,
    /// Its name.
    pub name: String,
    /// Of ENUM and SET, in the column's character set.
    pub members: Vec<Vec<u8>>,
}

/// A table as TABLE_MAP has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableMap {
    /// Names it in the events of rows behind it. 48 bits.
    pub id: u64,
    /// Its database.
    pub database: String,
    /// Its name.
    pub name: String,
    /// Its columns.
    pub columns: Vec<MapColumn>,
    /// Positions of the columns of the primary key, and of how many characters of each it is; 0 of
    /// all.
    pub primary_key: Vec<(usize, u32)>,
}

/// The body of TABLE_MAP.
pub fn table_map(out: &mut Vec<u8>, map: &TableMap) {
    out.extend(&map.id.to_le_bytes()[..6]);
    out.extend(1u16.to_le_bytes());
    for name in [&map.database, &map.name] {
        let name = &name.as_bytes()[..name.len().min(255)];
        out.push(name.len() as u8);
        out.extend(name);
        out.push(0);
    }
    lenenc(out, map.columns.len() as u64);
    out.extend(map.columns.iter().map(|column| match column.kind {
        // Told apart by what their kind needs.
        column::ENUM | column::SET => column::STRING,
        kind => kind,
    }));
    let details: Vec<u8> = map.columns.iter().flat_map(|column| column.detail.clone()).collect();
    lenenc(out, details.len() as u64);
    out.extend(details);
    let nullable: Vec<bool> = map.columns.iter().map(|column| column.nullable).collect();
    out.extend(bits(&nullable));
    optional(out, map);
}

/// What TABLE_MAP says beyond what it takes to apply rows.
fn optional(out: &mut Vec<u8>, map: &TableMap) {
    let mut field = |kind: u8, body: Vec<u8>| {
        if !body.is_empty() {
            out.push(kind);
            lenenc(out, body.len() as u64);
            out.extend(body);
        }
    };
    let numbers: Vec<bool> = map.columns.iter().filter_map(|column| column.unsigned).collect();
    // The first column has the highest bit.
    let signs = bits(&numbers).into_iter().map(u8::reverse_bits).collect();
    field(1, signs);
    let collations = |wanted: fn(&MapColumn) -> bool| {
        let mut body = Vec::new();
        for column in map.columns.iter().filter(|column| wanted(column)) {
            if let Some(collation) = column.collation {
                lenenc(&mut body, collation.into());
            }
        }
        body
    };
    let is_listed = |column: &MapColumn| matches!(column.kind, column::ENUM | column::SET);
    field(3, collations(|column| !matches!(column.kind, column::ENUM | column::SET)));
    let mut names = Vec::new();
    for column in &map.columns {
        text(&mut names, column.name.as_bytes());
    }
    field(4, names);
    for (kind, listed) in [(5, column::SET), (6, column::ENUM)] {
        let mut members = Vec::new();
        for column in map.columns.iter().filter(|column| column.kind == listed) {
            lenenc(&mut members, column.members.len() as u64);
            column.members.iter().for_each(|member| text(&mut members, member));
        }
        field(kind, members);
    }
    let mut key = Vec::new();
    let has_prefix = map.primary_key.iter().any(|(_, characters)| *characters > 0);
    for (at, characters) in &map.primary_key {
        lenenc(&mut key, *at as u64);
        if has_prefix {
            lenenc(&mut key, (*characters).into());
        }
    }
    field(if has_prefix { 9 } else { 8 }, key);
    field(11, collations(is_listed));
}

/// The body of an event of rows up to the rows: the columns that they have, of updates before and
/// after.
pub fn rows_head(out: &mut Vec<u8>, table: u64, flags: u16, present: &[&[bool]]) {
    out.extend(&table.to_le_bytes()[..6]);
    out.extend(flags.to_le_bytes());
    // Nothing more is said.
    out.extend(2u16.to_le_bytes());
    lenenc(out, present.first().map_or(0, |columns| columns.len() as u64));
    present.iter().for_each(|columns| out.extend(bits(columns)));
}

/// One image of a row: the values that it has, none for NULL.
pub fn row_image<'v>(out: &mut Vec<u8>, values: impl Iterator<Item = Option<&'v [u8]>> + Clone) {
    let nulls: Vec<bool> = values.clone().map(|value| value.is_none()).collect();
    out.extend(bits(&nulls));
    values.flatten().for_each(|value| out.extend(value));
}

/// Bits from the lowest of the first byte on.
fn bits(flags: &[bool]) -> Vec<u8> {
    let byte = |flags: &[bool]| {
        flags.iter().enumerate().fold(0, |byte, (at, flag)| byte | u8::from(*flag) << at)
    };
    flags.chunks(8).map(byte).collect()
}

fn text(out: &mut Vec<u8>, text: &[u8]) {
    lenenc(out, text.len() as u64);
    out.extend(text);
}
