//! Foreign keys: from a declaration to a checked key of the table that refers.
//!
//! # Owns
//! What can be said of one table alone: names, columns, actions, the key that supports it. Whether
//! a column can refer to another, and which key of the other table is referred to.
//! # Not here
//! Whether the other table is there (`ddl::foreign_key`), who refers to a table (`referrers`),
//! rows (`execute::reference`).

use collation::CollationId;
use model::IndexId;
use sql_expression::{SqlError, same_name};
use sql_parser::ast::{self, ForeignKeyMatch};
use sqltype::{TypeKind, storage};

use super::definition::{ForeignKeyDefinition, Rule};
use super::key::{KeyDraft, PartDraft};
use super::names::TableName;
use super::names::check_length;
use super::rules::Rules;
use super::{
    ColumnDefinition, KeyDefinition, KeyKind, KeyMethod, TableDefinition, column_named, error,
    expression,
};

/// A foreign key in the making; it names its columns.
#[derive(Clone, Debug)]
pub(crate) struct ForeignKeyDraft {
    /// The name; generated if there is none.
    pub(crate) name: Option<String>,
    /// The name of the key that supports it, should one have to be made.
    pub(crate) index: Option<String>,
    pub(crate) columns: Vec<String>,
    pub(crate) parent: TableName,
    pub(crate) parent_columns: Vec<String>,
    pub(crate) on_delete: Rule,
    pub(crate) on_update: Rule,
    /// The table has it already.
    pub(crate) exists: bool,
}

impl ForeignKeyDraft {
    /// What a declaration means.
    pub(crate) fn read(declared: &ast::ForeignKey, rules: &Rules<'_>) -> Result<Self, SqlError> {
        let references = &declared.references;
        let text = |name: &ast::Ident| name.as_str().to_owned();
        let database = references.table.schema.as_ref().map(text);
        let parent = TableName {
            database: database.unwrap_or_else(|| rules.database.to_owned()),
            name: text(&references.table.name),
        };
        let name = declared.constraint.as_ref().map(text);
        if let Some(name) = &name {
            check_length(name)?;
        }
        let draft = Self {
            index: name.clone().or_else(|| declared.index.as_ref().map(text)),
            name,
            columns: declared.columns.iter().map(text).collect(),
            parent,
            parent_columns: references.columns.iter().map(text).collect(),
            on_delete: Rule::read(references.on_delete)?,
            on_update: Rule::read(references.on_update)?,
            exists: false,
        };
        if draft.parent_columns.len() != draft.columns.len() {
            let name = draft.name.as_deref().unwrap_or("foreign key without name");
            return Err(error::wrong_foreign_key(name));
        }
        match references.matching {
            // With one column all three are the same.
            None | Some(ForeignKeyMatch::Simple) => Ok(draft),
            Some(_) if draft.columns.len() == 1 => Ok(draft),
            Some(ForeignKeyMatch::Full) => Err(error::unsupported("MATCH FULL")),
            Some(ForeignKeyMatch::Partial) => Err(error::unsupported("MATCH PARTIAL")),
        }
    }

    /// A foreign key as it is.
    pub(crate) fn of(key: &ForeignKeyDefinition, columns: &[ColumnDefinition]) -> Self {
        Self {
            name: Some(key.name.clone()),
            index: None,
            columns: key.columns.iter().map(|at| columns[*at].name.clone()).collect(),
            parent: key.parent.clone(),
            parent_columns: key.parent_columns.clone(),
            on_delete: key.on_delete,
            on_update: key.on_update,
            exists: true,
        }
    }

    /// Whether a key begins with its columns, so that the rows that refer are found by it.
    pub(crate) fn is_supported_by(&self, key: &KeyDraft) -> bool {
        let is_ordered = key.method != Some(KeyMethod::Hash) || key.kind == KeyKind::Ordinary;
        let begins = |part: &PartDraft, column: &String| {
            part.prefix_length.is_none() && same_name(&part.column, column)
        };
        is_ordered
            && key.parts.len() >= self.columns.len()
            && key.parts.iter().zip(&self.columns).all(|(part, column)| begins(part, column))
    }
}

/// Adds the keys that foreign keys need and the table has not.
pub(crate) fn add_keys(keys: &mut Vec<KeyDraft>, foreign_keys: &[ForeignKeyDraft]) {
    for foreign in foreign_keys {
        if keys.iter().any(|key| foreign.is_supported_by(key)) {
            continue;
        }
        let part = |column: &String| PartDraft {
            column: column.clone(),
            expression: None,
            prefix_length: None,
            descending: false,
        };
        keys.push(KeyDraft {
            name: foreign.index.clone(),
            kind: KeyKind::Ordinary,
            parts: foreign.columns.iter().map(part).collect(),
            method: None,
            comment: String::new(),
            invisible: false,
            exists: false,
        });
    }
}

/// Between the table's name and the number in the name of a foreign key that was given none.
const NAME_INFIX: &str = "_ibfk_";

/// The name of a foreign key that was given none.
pub(crate) fn generated_name(table: &str, ordinal: u32) -> String {
    format!("{table}{NAME_INFIX}{ordinal}")
}

/// The number in the generated name of a foreign key of this table.
pub(crate) fn generated_ordinal(name: &str, table: &str) -> Option<u32> {
    name.strip_prefix(table)?.strip_prefix(NAME_INFIX)?.parse().ok()
}

/// Names, checks and sorts the foreign keys of a table.
pub(crate) fn complete(
    columns: &[ColumnDefinition],
    drafts: Vec<ForeignKeyDraft>,
    rules: &Rules<'_>,
) -> Result<Vec<ForeignKeyDefinition>, SqlError> {
    let ordinals = drafts.iter().filter_map(|d| generated_ordinal(d.name.as_deref()?, rules.table));
    let mut ordinal = ordinals.max().unwrap_or(0);
    let mut keys: Vec<ForeignKeyDefinition> = Vec::with_capacity(drafts.len());
    for draft in drafts {
        let name = draft.name.clone().unwrap_or_else(|| {
            ordinal += 1;
            generated_name(rules.table, ordinal)
        });
        check_length(&name)?;
        if keys.iter().any(|key| same_name(&key.name, &name)) {
            return Err(error::duplicate_foreign_key(&name));
        }
        let mut positions: Vec<usize> = Vec::with_capacity(draft.columns.len());
        for column in &draft.columns {
            let found = column_named(columns, column);
            let (at, _) = found.ok_or_else(|| error::unknown_key_column(column))?;
            if positions.contains(&at) {
                return Err(error::duplicate_column(column));
            }
            positions.push(at);
        }
        let key = ForeignKeyDefinition {
            name,
            columns: positions,
            parent: draft.parent,
            parent_columns: draft.parent_columns,
            on_delete: draft.on_delete,
            on_update: draft.on_update,
        };
        if !rules.from_catalog {
            check_actions(columns, &key)?;
        }
        keys.push(key);
    }
    // As MySQL lists them, and carries them out.
    keys.sort_by_cached_key(|key| key.name.to_lowercase());
    Ok(keys)
}

/// Refuses actions that the columns cannot take.
fn check_actions(columns: &[ColumnDefinition], key: &ForeignKeyDefinition) -> Result<(), SqlError> {
    let rules = [key.on_delete, key.on_update];
    let sets_null = rules.contains(&Rule::SetNull);
    let changes = sets_null || key.on_update == Rule::Cascade;
    for at in &key.columns {
        let column = &columns[*at];
        if sets_null && !column.nullable {
            return Err(error::foreign_key_not_null(&column.name, &key.name));
        }
        match &column.generated {
            Some(generated) if !generated.stored => {
                return Err(error::foreign_key_virtual(&key.name, &column.name));
            }
            Some(_) if key.on_update == Rule::Cascade => {
                return Err(error::foreign_key_generated("ON UPDATE CASCADE"));
            }
            Some(_) if key.on_update == Rule::SetNull => {
                return Err(error::foreign_key_generated("ON UPDATE SET NULL"));
            }
            Some(_) if key.on_delete == Rule::SetNull => {
                return Err(error::foreign_key_generated("ON DELETE SET NULL"));
            }
            _ => {}
        }
        let computes = |other: &ColumnDefinition| {
            let generated = other.generated.as_ref().filter(|generated| generated.stored);
            generated.is_some_and(|g| expression::reads(&g.expression, &column.name))
        };
        let acts = changes || key.on_delete == Rule::Cascade;
        if acts && columns.iter().any(computes) {
            return Err(error::foreign_key_base_of_stored());
        }
    }
    Ok(())
}

/// Refuses a CHECK that reads a column which a foreign key changes by itself.
pub(crate) fn check_checks(
    columns: &[ColumnDefinition],
    keys: &[ForeignKeyDefinition],
    checks: &[super::CheckDefinition],
) -> Result<(), SqlError> {
    for key in keys {
        let changes = key.on_update == Rule::Cascade
            || [key.on_delete, key.on_update].contains(&Rule::SetNull);
        for at in key.columns.iter().filter(|_| changes) {
            let name = &columns[*at].name;
            if let Some(check) = checks.iter().find(|c| expression::reads(&c.expression, name)) {
                return Err(error::check_of_foreign_key(name, &check.name, &key.name));
            }
        }
    }
    Ok(())
}

/// Whether the values of a column can be keys of another: stored alike, equal if the other says so.
pub(crate) fn is_compatible(child: &ColumnDefinition, parent: &ColumnDefinition) -> bool {
    let (child, parent) = (&child.sql_type, &parent.sql_type);
    let same_kind = std::mem::discriminant(&child.kind) == std::mem::discriminant(&parent.kind);
    let is_text = |kind: &TypeKind| matches!(kind, TypeKind::Char | TypeKind::VarChar);
    match (&child.kind, &parent.kind) {
        (a, b) if is_text(a) && is_text(b) => {
            // BINARY is filled up with zero bytes, which count.
            let filled = |sql_type: &sqltype::SqlType| {
                sql_type.collation == CollationId::BINARY && sql_type.kind == TypeKind::Char
            };
            child.collation == parent.collation
                && (!filled(child) && !filled(parent) || same_kind && child.length == parent.length)
        }
        (TypeKind::Decimal, TypeKind::Decimal) => {
            (child.length, child.decimals) == (parent.length, parent.decimals)
        }
        (TypeKind::Bit, TypeKind::Bit) => child.length == parent.length,
        _ => same_kind && storage::storage_type(child) == storage::storage_type(parent),
    }
}

/// How the row that a foreign key refers to is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParentKey {
    /// By the primary key.
    Primary,
    /// By this unique index.
    Unique(IndexId),
}

/// The key of a table that is over exactly these columns, in this order, and has no two rows alike.
pub(crate) fn referred_key<'a>(
    keys: &'a [KeyDefinition],
    columns: &[ColumnDefinition],
    names: &[String],
) -> Option<&'a KeyDefinition> {
    keys.iter().filter(|key| key.is_unique() && key.columns.len() == names.len()).find(|key| {
        let alike = |(part, name): (&super::KeyPart, &String)| {
            part.prefix_length.is_none() && same_name(&columns[part.column].name, name)
        };
        key.columns.iter().zip(names).all(alike)
    })
}

impl TableDefinition {
    /// The key that a foreign key over these columns refers to.
    pub(crate) fn parent_key(&self, names: &[String]) -> Option<ParentKey> {
        let key = referred_key(&self.keys, &self.columns, names)?;
        match key.kind {
            KeyKind::Primary => Some(ParentKey::Primary),
            _ => key.unique.map(ParentKey::Unique),
        }
    }

    /// The ordered index by which the rows are found that refer by a foreign key of this table.
    pub(crate) fn referring_index(&self, key: &ForeignKeyDefinition) -> Option<IndexId> {
        let begins = |other: &&KeyDefinition| {
            other.columns.len() >= key.columns.len()
                && other
                    .columns
                    .iter()
                    .zip(&key.columns)
                    .all(|(part, at)| part.column == *at && part.prefix_length.is_none())
        };
        self.keys.iter().filter(|key| key.ordered.is_some()).find(begins)?.ordered
    }
}
