//! Changing values: JSON_SET and its kin, merging, removing.

use super::path::{JsonPath, Leg, Place};
use super::{Json, find_key};

/// What a change does with what is there, and what is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// JSON_SET: replaces what is there, inserts what is not.
    Set,
    /// JSON_INSERT: inserts only.
    Insert,
    /// JSON_REPLACE: replaces only.
    Replace,
}

impl Json {
    /// JSON_SET, JSON_INSERT or JSON_REPLACE at one path without wildcards.
    pub fn change(&mut self, path: &JsonPath, value: Json, change: Change) {
        let Some((last, before)) = path.legs.split_last() else {
            if change != Change::Insert {
                *self = value;
            }
            return;
        };
        let Some(parent) = self.seek_mut(before) else { return };
        match (last, parent) {
            (Leg::Member(key), Json::Object(members)) => match find_key(members, key) {
                Ok(at) if change != Change::Insert => members[at].1 = value,
                Err(at) if change != Change::Replace => members.insert(at, (key.clone(), value)),
                _ => {}
            },
            (Leg::Cell(place), Json::Array(items)) => match place.index(items.len()) {
                Ok(at) if change != Change::Insert => items[at] = value,
                Err(before) if change != Change::Replace => {
                    let at = if before { 0 } else { items.len() };
                    items.insert(at, value);
                }
                _ => {}
            },
            // Anything else is its own only element.
            (Leg::Cell(place), parent) => match place.index(1) {
                Ok(_) if change != Change::Insert => *parent = value,
                Err(before) if change != Change::Replace => {
                    let old = std::mem::replace(parent, Json::Null);
                    let items = if before { vec![value, old] } else { vec![old, value] };
                    *parent = Json::Array(items);
                }
                _ => {}
            },
            _ => {}
        }
    }

    /// JSON_ARRAY_APPEND at one path without wildcards: what is no array becomes the first element
    /// of one.
    pub fn append(&mut self, path: &JsonPath, value: Json) {
        match self.seek_mut(&path.legs) {
            Some(Json::Array(items)) => items.push(value),
            Some(found) => {
                let old = std::mem::replace(found, Json::Null);
                *found = Json::Array(vec![old, value]);
            }
            None => {}
        }
    }

    /// JSON_ARRAY_INSERT before the element that the path's last step, which must be a cell,
    /// names. Nothing happens when it is in no array; false when the last step is no cell.
    pub fn insert_cell(&mut self, path: &JsonPath, value: Json) -> bool {
        let Some((Leg::Cell(place), before)) = path.legs.split_last() else { return false };
        if let Some(Json::Array(items)) = self.seek_mut(before) {
            let at = match *place {
                Place::First(at) => (at as usize).min(items.len()),
                Place::Last(back) => items.len().saturating_sub(back as usize + 1),
            };
            items.insert(at, value);
        }
        true
    }

    /// JSON_REMOVE at one path without wildcards; false when the path is the whole value.
    pub fn remove(&mut self, path: &JsonPath) -> bool {
        let Some((last, before)) = path.legs.split_last() else { return false };
        match (last, self.seek_mut(before)) {
            (Leg::Member(key), Some(Json::Object(members))) => {
                if let Ok(at) = find_key(members, key) {
                    members.remove(at);
                }
            }
            (Leg::Cell(place), Some(Json::Array(items))) => {
                if let Ok(at) = place.index(items.len()) {
                    items.remove(at);
                }
            }
            _ => {}
        }
        true
    }

    /// The value at the end of steps without wildcards.
    fn seek_mut(&mut self, legs: &[Leg]) -> Option<&mut Json> {
        let mut value = self;
        for leg in legs {
            value = match (leg, value) {
                (Leg::Member(key), Json::Object(members)) => {
                    let at = find_key(members, key).ok()?;
                    &mut members[at].1
                }
                (Leg::Cell(place), Json::Array(items)) => {
                    let at = place.index(items.len()).ok()?;
                    &mut items[at]
                }
                (Leg::Cell(place), value) => {
                    place.index(1).ok()?;
                    value
                }
                _ => return None,
            };
        }
        Some(value)
    }

    /// JSON_MERGE_PRESERVE: arrays are joined, members of one name merged, everything else becomes
    /// elements of an array.
    pub fn merge_preserve(self, other: Json) -> Json {
        match (self, other) {
            (Json::Object(mut members), Json::Object(others)) => {
                for (key, value) in others {
                    match find_key(&members, &key) {
                        Ok(at) => {
                            let old = std::mem::replace(&mut members[at].1, Json::Null);
                            members[at].1 = old.merge_preserve(value);
                        }
                        Err(at) => members.insert(at, (key, value)),
                    }
                }
                Json::Object(members)
            }
            (Json::Array(mut items), Json::Array(others)) => {
                items.extend(others);
                Json::Array(items)
            }
            (Json::Array(mut items), other) => {
                items.push(other);
                Json::Array(items)
            }
            (value, Json::Array(mut items)) => {
                items.insert(0, value);
                Json::Array(items)
            }
            (value, other) => Json::Array(vec![value, other]),
        }
    }

    /// JSON_MERGE_PATCH (RFC 7396): members of the patch replace, `null` removes.
    pub fn merge_patch(self, patch: Json) -> Json {
        let Json::Object(changes) = patch else { return patch };
        let mut members = match self {
            Json::Object(members) => members,
            _ => Vec::new(),
        };
        for (key, value) in changes {
            match (find_key(&members, &key), value) {
                (Ok(at), Json::Null) => {
                    members.remove(at);
                }
                (Err(_), Json::Null) => {}
                (Ok(at), value) => {
                    let old = std::mem::replace(&mut members[at].1, Json::Null);
                    members[at].1 = old.merge_patch(value);
                }
                (Err(at), value) => {
                    let value = Json::Null.merge_patch(value);
                    members.insert(at, (key, value));
                }
            }
        }
        Json::Object(members)
    }
}
