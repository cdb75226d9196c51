//! Keys: from a declaration to a checked key over columns.
//!
//! # Owns
//! MySQL's limits of keys, names of keys that were given none, the order keys are listed in.
//! # Not here
//! The kernel's indexes behind them (`kernel_form`).

use model::schema::{INDEXES_MAX, KEY_SIZE_MAX};
use sql_expression::{SqlError, same_name};
use sql_parser::ast::{Expr, IndexDefinition, IndexKind, IndexMethod, IndexTarget};
use sqltype::TypeKind;

use super::column::{COMMENT_LENGTH_MAX, unqualify};
use super::names::check_length;
use super::rules::Rules;
use super::{
    ColumnDefault, ColumnDefinition, KeyDefinition, KeyKind, KeyMethod, KeyPart, column_named,
    error, hidden,
};

/// Most columns of a key.
const PARTS_MAX: usize = 16;
/// Longest key, in bytes of its columns as they are declared.
const DECLARED_SIZE_MAX: usize = 3_072;
/// The name of primary keys, and of no other.
pub(crate) const PRIMARY: &str = "PRIMARY";
/// The name of keys over expressions that were given none.
pub(crate) const FUNCTIONAL: &str = "functional_index";

/// A key in the making; it names its columns.
#[derive(Clone, Debug)]
pub(crate) struct KeyDraft {
    /// The name; generated if there is none.
    pub(crate) name: Option<String>,
    pub(crate) kind: KeyKind,
    pub(crate) parts: Vec<PartDraft>,
    pub(crate) method: Option<KeyMethod>,
    pub(crate) comment: String,
    pub(crate) invisible: bool,
    /// The table has it already.
    pub(crate) exists: bool,
}

/// A column of a key in the making.
#[derive(Clone, Debug)]
pub(crate) struct PartDraft {
    /// Nothing for an expression.
    pub(crate) column: String,
    pub(crate) expression: Option<Box<Expr>>,
    pub(crate) prefix_length: Option<u32>,
    pub(crate) descending: bool,
}

impl PartDraft {
    /// A whole column, or none for an expression.
    pub(crate) fn of_column(column: &str) -> Self {
        let (prefix_length, descending) = (None, false);
        Self { column: column.to_owned(), expression: None, prefix_length, descending }
    }
}

impl KeyDraft {
    /// The key said at a column.
    pub(crate) fn of_column(column: &str, kind: KeyKind) -> Self {
        let part = PartDraft::of_column(column);
        let (name, method, comment, invisible) = (None, None, String::new(), false);
        Self { name, kind, parts: vec![part], method, comment, invisible, exists: false }
    }

    /// A key as it is.
    pub(crate) fn of(key: &KeyDefinition, columns: &[ColumnDefinition]) -> Self {
        let part = |part: &KeyPart| {
            let expression = part.expression(columns).map(|expr| Box::new(expr.clone()));
            let column = match expression {
                Some(_) => String::new(),
                None => columns[part.declared].name.clone(),
            };
            let (prefix_length, descending) = (part.prefix_length, part.descending);
            PartDraft { column, expression, prefix_length, descending }
        };
        Self {
            name: Some(key.name.clone()),
            kind: key.kind,
            parts: key.columns.iter().map(part).collect(),
            method: key.method,
            comment: key.comment.clone(),
            invisible: key.invisible,
            exists: true,
        }
    }

    /// The key that a declaration means.
    pub(crate) fn read(index: &IndexDefinition, rules: &mut Rules<'_>) -> Result<Self, SqlError> {
        let kind = match index.kind {
            IndexKind::Primary => KeyKind::Primary,
            IndexKind::Unique => KeyKind::Unique,
            IndexKind::Plain => KeyKind::Ordinary,
            IndexKind::Fulltext => return Err(error::table_too_fulltext()),
            IndexKind::Spatial => return Err(error::unsupported("SPATIAL INDEX")),
        };
        let name = index.name.as_ref().map(|name| name.as_str().to_owned());
        if let Some(name) = name.as_deref().filter(|_| kind != KeyKind::Primary) {
            check_key_name(name)?;
        }
        let method = match index.options.method {
            Some(IndexMethod::Btree) => Some(KeyMethod::Btree),
            Some(IndexMethod::Hash) => Some(KeyMethod::Hash),
            Some(IndexMethod::Rtree) => return Err(error::unsupported("USING RTREE")),
            None => None,
        };
        let mut parts = Vec::with_capacity(index.parts.len());
        for part in &index.parts {
            let mut draft = match &part.target {
                IndexTarget::Column(column, prefix_length) => {
                    let prefix_length = *prefix_length;
                    PartDraft { prefix_length, ..PartDraft::of_column(column.as_str()) }
                }
                IndexTarget::Expr(expr) => {
                    let mut expression = Box::new(expr.clone());
                    unqualify(&mut expression, rules)?;
                    PartDraft { expression: Some(expression), ..PartDraft::of_column("") }
                }
            };
            draft.descending = part.descending;
            parts.push(draft);
        }
        let comment = index.options.comment.as_deref().unwrap_or_default().to_owned();
        if comment.chars().count() > COMMENT_LENGTH_MAX {
            let shown = name.as_deref().unwrap_or(PRIMARY);
            return Err(SqlError::new(
                1688,
                "HY000",
                format!("Comment for index '{shown}' is too long (max = {COMMENT_LENGTH_MAX})"),
            ));
        }
        let invisible = index.options.visible == Some(false);
        if invisible && kind == KeyKind::Primary {
            return Err(error::primary_key_invisible());
        }
        let name = name.filter(|_| kind != KeyKind::Primary);
        if kind == KeyKind::Ordinary && method == Some(KeyMethod::Hash) {
            // Such a key is for ranges: it is ordered, as NDB does it.
            rules.note(SqlError::new(
                3502,
                "HY000",
                "This storage engine does not support the HASH index algorithm, storage engine \
                 default was used instead.",
            ));
        }
        Ok(Self { name, kind, parts, method, comment, invisible, exists: false })
    }
}

/// Refuses names of keys that MySQL refuses.
pub(crate) fn check_key_name(name: &str) -> Result<(), SqlError> {
    if name.is_empty() || name.ends_with(' ') || same_name(name, PRIMARY) {
        return Err(error::wrong_index_name(name));
    }
    check_length(name)
}

/// Columns of a primary key are NOT NULL, said or not.
pub(crate) fn make_primary_not_null(columns: &mut [ColumnDefinition], keys: &[KeyDraft]) {
    let primary = keys.iter().filter(|key| key.kind == KeyKind::Primary);
    for part in primary.flat_map(|key| &key.parts) {
        let named = columns.iter_mut().find(|column| same_name(&column.name, &part.column));
        let Some(column) = named else { continue };
        if column.nullable {
            column.nullable = false;
            // It was implied by being nullable.
            if column.default == ColumnDefault::Value(sqltype::Datum::Null) {
                column.default = ColumnDefault::None;
            }
        }
    }
}

/// Names, checks and sorts the keys of a table.
pub(crate) fn complete(
    columns: &[ColumnDefinition],
    drafts: Vec<KeyDraft>,
    rules: &mut Rules<'_>,
) -> Result<Vec<KeyDefinition>, SqlError> {
    if drafts.iter().filter(|draft| draft.kind == KeyKind::Primary).count() > 1 {
        return Err(error::multiple_primary_key());
    }
    // Two of the kernel's indexes stand behind a unique key.
    let indexes = |draft: &KeyDraft| if draft.kind == KeyKind::Unique { 2 } else { 1 };
    if drafts.iter().map(indexes).sum::<usize>() > INDEXES_MAX {
        return Err(error::too_many_keys(INDEXES_MAX));
    }
    let mut keys: Vec<KeyDefinition> = Vec::with_capacity(drafts.len());
    let exists: Vec<bool> = drafts.iter().map(|draft| draft.exists).collect();
    for draft in drafts {
        let parts = parts(columns, &draft)?;
        let name = match (draft.kind, draft.name) {
            (KeyKind::Primary, _) => PRIMARY.to_owned(),
            (_, Some(name)) => name,
            (_, None) => match parts[0].expression(columns) {
                Some(_) => generated_name(FUNCTIONAL, &keys),
                None => generated_name(&columns[parts[0].declared].name, &keys),
            },
        };
        if keys.iter().any(|key| same_name(&key.name, &name)) {
            return Err(error::duplicate_key_name(&name));
        }
        keys.push(KeyDefinition {
            name,
            kind: draft.kind,
            columns: parts,
            ordered: None,
            unique: None,
            method: draft.method,
            comment: draft.comment,
            invisible: draft.invisible,
        });
    }
    // Of what is there already its maker has been told.
    for at in (0..keys.len()).filter(|at| !exists[*at]) {
        note_duplicate(&keys, at, rules);
    }
    let rank = |key: &KeyDefinition| match key.kind {
        KeyKind::Primary => 0,
        KeyKind::Unique if key.columns.iter().all(|part| !columns[part.column].nullable) => 1,
        KeyKind::Unique => 2,
        KeyKind::Ordinary => 3,
    };
    // As MySQL lists them; those of one rank stay in the order they were declared.
    keys.sort_by_key(rank);
    Ok(keys)
}

fn note_duplicate(keys: &[KeyDefinition], at: usize, rules: &mut Rules<'_>) {
    let key = &keys[at];
    let same = |other: &KeyDefinition| {
        other.kind == key.kind
            && other.method == key.method
            && other.columns == key.columns
            && other.invisible == key.invisible
    };
    if !rules.from_catalog && keys[..at].iter().any(same) {
        let note = error::duplicate_index(&key.name, rules.database, rules.table);
        rules.note(note);
    }
}

/// The name of a key that was given none: its first column's, with a number if that is taken.
fn generated_name(column: &str, keys: &[KeyDefinition]) -> String {
    let free = |name: &str| {
        !same_name(name, PRIMARY) && !keys.iter().any(|key| same_name(&key.name, name))
    };
    if free(column) {
        return column.to_owned();
    }
    let numbered = (2..).map(|number| format!("{column}_{number}"));
    numbered.into_iter().find(|name| free(name)).expect("one of endlessly many is free")
}

/// Resolves and checks the columns of a key.
fn parts(columns: &[ColumnDefinition], draft: &KeyDraft) -> Result<Vec<KeyPart>, SqlError> {
    if draft.parts.len() > PARTS_MAX {
        return Err(error::too_many_key_parts(PARTS_MAX));
    }
    let mut parts: Vec<KeyPart> = Vec::with_capacity(draft.parts.len());
    for part in &draft.parts {
        let found = match &part.expression {
            Some(expr) => hidden::of_expression(columns, expr).map(|at| (at, &columns[at])),
            None => column_named(columns, &part.column),
        };
        let (at, column) = found.ok_or_else(|| error::unknown_key_column(&part.column))?;
        if parts.iter().any(|other| other.declared == at) {
            return Err(error::duplicate_column(&column.name));
        }
        let prefix_length = prefix(column, part.prefix_length)?;
        let is_virtual = column.generated.as_ref().is_some_and(|generated| !generated.stored);
        if is_virtual && draft.kind == KeyKind::Primary {
            let what = "Defining a virtual generated column as primary key";
            return Err(error::unsupported_on_generated(what));
        }
        let (column, declared, decides) = (at, at, at);
        let descending = part.descending;
        parts.push(KeyPart { column, declared, decides, prefix_length, descending });
    }
    check_size(columns, &parts)?;
    Ok(parts)
}

/// Checks the length of a prefix; none when it is the whole column.
fn prefix(column: &ColumnDefinition, length: Option<u32>) -> Result<Option<u32>, SqlError> {
    let sql_type = &column.sql_type;
    if sql_type.kind == TypeKind::Json {
        return Err(error::json_key(&column.name));
    }
    if length == Some(0) {
        return Err(error::key_part_zero(&column.name));
    }
    match (sql_type.kind.is_lob(), length) {
        (true, None) => Err(error::key_without_length(&column.name)),
        (true, Some(length)) => Ok(Some(length)),
        (false, None) => Ok(None),
        (false, Some(length)) => match sql_type.kind {
            TypeKind::Char | TypeKind::VarChar if length < sql_type.length => Ok(Some(length)),
            TypeKind::Char | TypeKind::VarChar if length == sql_type.length => Ok(None),
            _ => Err(error::wrong_prefix_key()),
        },
    }
}

/// Refuses keys that are too long: by MySQL's count of what is indexed, and where the kernel must
/// index it, by the kernel's.
fn check_size(columns: &[ColumnDefinition], parts: &[KeyPart]) -> Result<(), SqlError> {
    let too_long = || Err(error::key_too_long(DECLARED_SIZE_MAX));
    let declared: usize = parts.iter().map(|part| declared_size(columns, part)).sum();
    if declared > DECLARED_SIZE_MAX {
        return too_long();
    }
    // What is held of prefixes is looked at when that is known.
    let is_whole = parts.iter().all(|part| part.prefix_length.is_none());
    if is_whole && kernel_size(columns, parts) > KEY_SIZE_MAX { too_long() } else { Ok(()) }
}

fn declared_size(columns: &[ColumnDefinition], part: &KeyPart) -> usize {
    let sql_type = &columns[part.declared].sql_type;
    let width = usize::from(sql_type.collation.charset().max_len());
    match (part.prefix_length, &sql_type.kind) {
        (Some(length), _) => length as usize * width,
        (None, TypeKind::Char | TypeKind::VarChar) => sql_type.length as usize * width,
        (None, _) => 8,
    }
}

/// Refuses keys over prefixes that the kernel cannot keep, though MySQL would.
pub(crate) fn check_held(
    columns: &[ColumnDefinition],
    keys: &[KeyDefinition],
) -> Result<(), SqlError> {
    let too_long = |key: &&KeyDefinition| {
        let decides = |part: &KeyPart| KeyPart { column: part.decides, ..*part };
        let decisive: Vec<KeyPart> = key.columns.iter().map(decides).collect();
        key.kind != KeyKind::Ordinary && kernel_size(columns, &decisive) > KEY_SIZE_MAX
            || kernel_size(columns, &key.columns) > KEY_SIZE_MAX
    };
    match keys.iter().filter(|key| key.has_prefix()).find(too_long) {
        Some(_) => Err(error::key_too_long(DECLARED_SIZE_MAX)),
        None => Ok(()),
    }
}

/// The most bytes of an encoded key over these columns; see `model::key`.
pub(crate) fn kernel_size(columns: &[ColumnDefinition], parts: &[KeyPart]) -> usize {
    let size = |part: &KeyPart| {
        let column = &columns[part.column];
        let size = sqltype::storage::storage_type(&column.sql_type).key_size_max();
        size + usize::from(column.nullable)
    };
    parts.iter().map(size).sum()
}
