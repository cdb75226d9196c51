//! Changing JSON documents.

use sqltype::Datum;
use sqltype::json::{Change, Json, Leg};

use super::{checked_json, document, element, single_path};
use crate::error::SqlError;
use crate::function::{Evaluated, Frame, Stop};

pub(super) fn set(f: &mut Frame<'_, '_>) -> Evaluated {
    change(f, Change::Set)
}

pub(super) fn insert(f: &mut Frame<'_, '_>) -> Evaluated {
    change(f, Change::Insert)
}

pub(super) fn replace(f: &mut Frame<'_, '_>) -> Evaluated {
    change(f, Change::Replace)
}

/// Paths and values in turn.
fn check_pairs(f: &Frame<'_, '_>) -> Result<(), Stop> {
    match f.len() % 2 {
        1 => Ok(()),
        _ => Err(SqlError::of::<1582>(&[&f.call.function.name]).into()),
    }
}

fn change(f: &mut Frame<'_, '_>, change: Change) -> Evaluated {
    check_pairs(f)?;
    let mut document = document(f, 0)?;
    for at in (1..f.len()).step_by(2) {
        let path = single_path(f, at)?;
        let value = element(f, at + 1)?;
        document.change(&path, value, change);
    }
    Ok(checked_json(&document, f.context)?)
}

pub(super) fn remove(f: &mut Frame<'_, '_>) -> Evaluated {
    let mut document = document(f, 0)?;
    for at in 1..f.len() {
        let path = single_path(f, at)?;
        if path.legs.is_empty() {
            return Err(SqlError::of::<3153>(&[]).into());
        }
        document.remove(&path);
    }
    Ok(checked_json(&document, f.context)?)
}

pub(super) fn append(f: &mut Frame<'_, '_>) -> Evaluated {
    check_pairs(f)?;
    let mut document = document(f, 0)?;
    for at in (1..f.len()).step_by(2) {
        let path = single_path(f, at)?;
        let value = element(f, at + 1)?;
        document.append(&path, value);
    }
    Ok(checked_json(&document, f.context)?)
}

pub(super) fn array_insert(f: &mut Frame<'_, '_>) -> Evaluated {
    check_pairs(f)?;
    let mut document = document(f, 0)?;
    for at in (1..f.len()).step_by(2) {
        let path = single_path(f, at)?;
        if !matches!(path.legs.last(), Some(Leg::Cell(_))) {
            return Err(SqlError::of::<3165>(&[]).into());
        }
        let value = element(f, at + 1)?;
        document.insert_cell(&path, value);
    }
    Ok(checked_json(&document, f.context)?)
}

pub(super) fn merge_preserve(f: &mut Frame<'_, '_>) -> Evaluated {
    let mut merged = document(f, 0)?;
    for at in 1..f.len() {
        merged = merged.merge_preserve(document(f, at)?);
    }
    Ok(checked_json(&merged, f.context)?)
}

/// An argument that is NULL makes the result NULL, unless a later one replaces everything.
pub(super) fn merge_patch(f: &mut Frame<'_, '_>) -> Evaluated {
    let mut merged: Option<Json> = None;
    for at in 0..f.len() {
        let patch = match document(f, at) {
            Ok(patch) => Some(patch),
            Err(Stop::Null) => None,
            Err(error) => return Err(error),
        };
        merged = match (merged, patch) {
            (_, None) => None,
            (None, Some(patch)) if at > 0 && matches!(patch, Json::Object(_)) => None,
            (None, Some(patch)) => Some(patch),
            (Some(merged), Some(patch)) => Some(merged.merge_patch(patch)),
        };
    }
    match merged {
        Some(merged) => Ok(checked_json(&merged, f.context)?),
        None => Ok(Datum::Null),
    }
}
