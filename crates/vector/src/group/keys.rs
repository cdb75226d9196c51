//! Which group a row belongs to: equality of what rows are grouped by.
//!
//! NULL is equal to NULL, and texts to those that their collation says. Most texts that are equal
//! have the same bytes, so where a collation takes others for equal too, rows are looked for by
//! their bytes first: weights are computed once for each spelling, not once for each row.

use std::rc::Rc;

use collation::{CollationId, Pad};

use crate::group::hashed::HashedRows;
use crate::join::mixed;
use crate::vector::{Kind, Texts, Values, Vector};

/// Most rows that are remembered for their spelling.
const SPELLINGS_MAX: usize = 65_536;
/// The word of a NULL in a hash.
const NULL: u64 = 0x5851_F42D_4C95_7F2D;
const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

/// What rows are grouped by, a column with its collation each.
pub(super) type KeyColumns = [(Rc<Vector>, CollationId)];

/// The groups by the values of their first rows.
#[derive(Debug)]
pub(super) struct GroupKeys {
    /// These values, a row for each group.
    firsts: Vec<Vector>,
    groups: HashedRows,
    /// Values as they were spelled, if others can be equal to them.
    spellings: Option<Spellings>,
    /// The hashes of the rows of a batch.
    hashes: Vec<u64>,
}

/// Rows of which no two are the same byte for byte, and their groups.
#[derive(Debug)]
struct Spellings {
    values: Vec<Vector>,
    rows: HashedRows,
    groups: Vec<u32>,
}

impl GroupKeys {
    /// No groups, by columns of these kinds and collations.
    pub(super) fn new(columns: &[(Kind, CollationId)]) -> Self {
        let values = || columns.iter().map(|(kind, _)| Vector::new(*kind)).collect();
        let has_others = |(kind, id): &(Kind, CollationId)| {
            *kind == Kind::Bytes && collation::pad_of_bytes(*id).is_none()
        };
        let spellings = columns.iter().any(has_others).then(|| Spellings {
            values: values(),
            rows: HashedRows::default(),
            groups: Vec::new(),
        });
        Self { firsts: values(), groups: HashedRows::default(), spellings, hashes: Vec::new() }
    }

    /// Number of groups.
    pub(super) fn len(&self) -> usize {
        self.groups.len()
    }

    /// About how many bytes they take.
    pub(super) fn memory_bytes(&self) -> usize {
        let of = |values: &[Vector]| values.iter().map(Vector::memory_bytes).sum::<usize>();
        let spellings = self.spellings.as_ref().map_or(0, |spellings| {
            of(&spellings.values) + spellings.rows.memory_bytes() + 4 * spellings.groups.len()
        });
        of(&self.firsts) + self.groups.memory_bytes() + spellings
    }

    /// The values of the first rows.
    pub(super) fn into_values(self) -> Vec<Vector> {
        self.firsts
    }

    /// Finds the group of each row of a batch. `begin` is told of the rows that begin a new one.
    pub(super) fn find(
        &mut self,
        by: &KeyColumns,
        rows: usize,
        of_row: &mut Vec<u32>,
        mut begin: impl FnMut(usize),
    ) {
        if by.is_empty() {
            // One group of all rows, if there are any.
            if rows > 0 && self.len() == 0 {
                self.begin(by, 0, 0);
                begin(0);
            }
            of_row.clear();
            of_row.resize(rows, 0);
            return;
        }
        let mut hashes = std::mem::take(&mut self.hashes);
        hash_all(&mut hashes, by, rows);
        of_row.clear();
        of_row.reserve(rows);
        for (at, hash) in hashes.iter().enumerate() {
            let (group, is_new) = if self.spellings.is_some() {
                self.group_of_spelling(by, at, *hash)
            } else {
                self.group_of_bytes(by, at, *hash)
            };
            if is_new {
                begin(at);
            }
            of_row.push(group);
        }
        self.hashes = hashes;
    }

    /// The group of a row where bytes alone decide, and whether it is new.
    #[inline]
    fn group_of_bytes(&mut self, by: &KeyColumns, at: usize, hash: u64) -> (u32, bool) {
        let firsts = &self.firsts;
        match self.groups.find(hash, |first| same_bytes(firsts, first, by, at)) {
            Some(group) => (group as u32, false),
            None => (self.begin(by, at, hash), true),
        }
    }

    /// The same where rows can be equal that are spelled in other ways.
    fn group_of_spelling(&mut self, by: &KeyColumns, at: usize, hash: u64) -> (u32, bool) {
        if let Some(known) = self.spellings.as_ref().and_then(|all| all.group(by, at, hash)) {
            return (known, false);
        }
        let by_weights = hash_of_weights(by, at);
        let firsts = &self.firsts;
        let (group, is_new) =
            match self.groups.find(by_weights, |first| are_equal(firsts, first, by, at)) {
                Some(group) => (group as u32, false),
                None => (self.begin(by, at, by_weights), true),
            };
        if let Some(spellings) = &mut self.spellings {
            spellings.remember(by, at, hash, group);
        }
        (group, is_new)
    }

    fn begin(&mut self, by: &KeyColumns, at: usize, hash: u64) -> u32 {
        let group = self.groups.len() as u32;
        push_row(&mut self.firsts, by, at);
        self.groups.add(hash);
        group
    }
}

impl Spellings {
    #[inline]
    fn group(&self, by: &KeyColumns, at: usize, hash: u64) -> Option<u32> {
        let row = self.rows.find(hash, |row| same_bytes(&self.values, row, by, at))?;
        Some(self.groups[row])
    }

    /// Remembers a row that is not known yet, unless there are very many.
    fn remember(&mut self, by: &KeyColumns, at: usize, hash: u64, group: u32) {
        if self.groups.len() < SPELLINGS_MAX {
            push_row(&mut self.values, by, at);
            self.rows.add(hash);
            self.groups.push(group);
        }
    }
}

fn push_row(values: &mut [Vector], by: &KeyColumns, at: usize) {
    for (values, (vector, _)) in values.iter_mut().zip(by) {
        values.push(vector.get(at));
    }
}

/// Whether a kept row is the same as another, whose texts differ at most in spaces that do not
/// count.
#[inline]
fn same_bytes(kept: &[Vector], row: usize, by: &KeyColumns, at: usize) -> bool {
    let same_text = |a: &[u8], b: &[u8], id| match (a, b) {
        // Flags and states: one byte is compared in place.
        ([a], [b]) if a == b => true,
        _ => a == b || counted(a, id) == counted(b, id),
    };
    kept.iter()
        .zip(by)
        .all(|(kept, (vector, id))| same_value(kept, row, vector, at, |a, b| same_text(a, b, *id)))
}

/// Whether a kept row is equal to another.
fn are_equal(kept: &[Vector], row: usize, by: &KeyColumns, at: usize) -> bool {
    kept.iter().zip(by).all(|(kept, (vector, id))| {
        same_value(kept, row, vector, at, |a, b| collation::equal(*id, a, b))
    })
}

#[inline]
fn same_value(
    kept: &Vector,
    row: usize,
    vector: &Vector,
    at: usize,
    same_text: impl Fn(&[u8], &[u8]) -> bool,
) -> bool {
    if kept.is_null(row) || vector.is_null(at) {
        return kept.is_null(row) && vector.is_null(at);
    }
    match (&kept.values, &vector.values) {
        (Values::Int(a), Values::Int(b)) => a[row] == b[at],
        (Values::UInt(a), Values::UInt(b)) => a[row] == b[at],
        (Values::Float(a), Values::Float(b)) => float_bits(a[row]) == float_bits(b[at]),
        (Values::Decimal(a), Values::Decimal(b)) => a.0[row] == b.0[at],
        (Values::Bytes(a), Values::Bytes(b)) => same_text(a.get(row), b.get(at)),
        _ => unreachable!("keys of one kind"),
    }
}

/// Both zeros are equal.
fn float_bits(number: f64) -> u64 {
    (number + 0.0).to_bits()
}

/// What counts of a text where its bytes decide; all of it where they do not.
fn counted(text: &[u8], id: CollationId) -> &[u8] {
    match collation::pad_of_bytes(id) {
        Some(Pad::Space) => without_spaces(text),
        Some(Pad::None) | None => text,
    }
}

fn without_spaces(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| *byte != b' ').map_or(0, |at| at + 1);
    &text[..end]
}

/// The hashes of rows: the same for rows that are the same as [`same_bytes`] has it.
fn hash_all(hashes: &mut Vec<u64>, by: &KeyColumns, rows: usize) {
    hashes.clear();
    hashes.resize(rows, 0);
    for (vector, id) in by {
        let nulls = &vector.nulls[..];
        match &vector.values {
            Values::Int(list) => add_words(hashes, nulls, |at| list[at] as u64),
            Values::UInt(list) => add_words(hashes, nulls, |at| list[at]),
            Values::Float(list) => add_words(hashes, nulls, |at| float_bits(list[at])),
            Values::Decimal(list) => add_words(hashes, nulls, |at| word_of_decimal(list.0[at])),
            Values::Bytes(list) => add_texts(hashes, nulls, list, *id),
        }
    }
    hashes.iter_mut().for_each(|hash| *hash = mixed(*hash));
}

fn add_texts(hashes: &mut [u64], nulls: &[bool], list: &Texts, id: CollationId) {
    match collation::pad_of_bytes(id) {
        Some(Pad::Space) => add_words(hashes, nulls, |at| word_of(without_spaces(list.get(at)))),
        Some(Pad::None) | None => add_words(hashes, nulls, |at| word_of(list.get(at))),
    }
}

#[inline]
fn add_words(hashes: &mut [u64], nulls: &[bool], word: impl Fn(usize) -> u64) {
    match nulls {
        [] => {
            for (at, hash) in hashes.iter_mut().enumerate() {
                *hash = combined(*hash, word(at));
            }
        }
        nulls => {
            for (at, (hash, is_null)) in hashes.iter_mut().zip(nulls).enumerate() {
                *hash = combined(*hash, if *is_null { NULL } else { word(at) });
            }
        }
    }
}

/// The hash of a row: the same for rows that are equal.
fn hash_of_weights(by: &KeyColumns, at: usize) -> u64 {
    let word = |vector: &Vector, id| match &vector.values {
        _ if vector.is_null(at) => NULL,
        Values::Int(list) => list[at] as u64,
        Values::UInt(list) => list[at],
        Values::Float(list) => float_bits(list[at]),
        Values::Decimal(list) => word_of_decimal(list.0[at]),
        Values::Bytes(list) => collation::hash(id, list.get(at)),
    };
    mixed(by.iter().fold(0, |hash, (vector, id)| combined(hash, word(vector, *id))))
}

#[inline]
fn combined(hash: u64, word: u64) -> u64 {
    (hash.rotate_left(23) ^ word).wrapping_mul(MULTIPLIER)
}

fn word_of_decimal(number: i128) -> u64 {
    number as u64 ^ ((number >> 64) as u64).rotate_left(32)
}

/// A text as one word, which other texts seldom are.
#[inline]
fn word_of(text: &[u8]) -> u64 {
    let mut hash = text.len() as u64;
    let (words, rest) = text.as_chunks::<8>();
    for word in words {
        hash = combined(hash, u64::from_le_bytes(*word));
    }
    let mut last = 0;
    for (at, byte) in rest.iter().enumerate() {
        last |= u64::from(*byte) << (8 * at);
    }
    combined(hash, last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vector::ScalarRef::{self, Bytes, Decimal, Float, Int, Null};

    const CI: CollationId = CollationId::UTF8MB4_0900_AI_CI;
    /// `utf8mb4_bin`, where spaces at the end do not count.
    const BIN: CollationId = CollationId(46);

    fn vector(kind: Kind, values: &[ScalarRef<'_>]) -> Rc<Vector> {
        let mut vector = Vector::new(kind);
        values.iter().for_each(|value| vector.push(*value));
        Rc::new(vector)
    }

    /// The groups of the rows of some columns, which come in batches of so many.
    fn grouped(columns: &KeyColumns, rows: usize, batch: usize) -> (Vec<u32>, Vec<usize>) {
        let kinds: Vec<_> = columns.iter().map(|(vector, id)| (vector.kind(), *id)).collect();
        let mut keys = GroupKeys::new(&kinds);
        let (mut all, mut firsts, mut of_row) = (Vec::new(), Vec::new(), Vec::new());
        for from in (0..rows).step_by(batch) {
            let end = rows.min(from + batch);
            let places: Vec<u32> = (from as u32..end as u32).collect();
            let part: Vec<_> =
                columns.iter().map(|(v, id)| (Rc::new(v.gather(&places)), *id)).collect();
            keys.find(&part, end - from, &mut of_row, |at| firsts.push(from + at));
            all.extend_from_slice(&of_row);
        }
        assert_eq!(keys.len(), firsts.len());
        for (values, (vector, _)) in keys.into_values().iter().zip(columns) {
            let shown = (0..values.len()).map(|at| values.get(at));
            assert!(shown.eq(firsts.iter().map(|first| vector.get(*first))));
        }
        (all, firsts)
    }

    #[test]
    fn equal_texts_are_one_group_as_their_collation_has_it() {
        let texts = [
            Bytes(b"a"),
            Bytes(b"A"),
            Null,
            Bytes(b"a "),
            Bytes(b""),
            Bytes(b"A"),
            Bytes(b" "),
            Null,
            Bytes("\u{e1}".as_bytes()),
        ];
        let of = |id| {
            let columns = [(vector(Kind::Bytes, &texts), id)];
            let all = grouped(&columns, texts.len(), 100);
            assert_eq!(grouped(&columns, texts.len(), 2), all);
            all.0
        };
        assert_eq!(of(CI), [0, 0, 1, 2, 3, 0, 4, 1, 0]);
        assert_eq!(of(BIN), [0, 1, 2, 0, 3, 1, 3, 2, 4]);
        assert_eq!(of(CollationId::BINARY), [0, 1, 2, 3, 4, 1, 5, 2, 6]);
    }

    #[test]
    fn all_columns_count_and_their_bounds() {
        let columns = [
            (vector(Kind::Bytes, &[Bytes(b"ab"), Bytes(b"a"), Bytes(b"ab"), Null]), BIN),
            (vector(Kind::Bytes, &[Bytes(b"c"), Bytes(b"bc"), Bytes(b"c"), Bytes(b"abc")]), BIN),
            (vector(Kind::Decimal, &[Decimal(-1), Decimal(-1), Decimal(-1), Null]), BIN),
        ];
        assert_eq!(grouped(&columns, 4, 4), (vec![0, 1, 0, 2], vec![0, 1, 3]));
    }

    #[test]
    fn zeros_are_one_number_and_decimals_count_whole() {
        let floats = [Float(0.0), Float(1.5), Float(-0.0), Null];
        let columns = [(vector(Kind::Float, &floats), BIN)];
        assert_eq!(grouped(&columns, 4, 4).0, [0, 1, 0, 2]);
        let decimals = [Decimal(1), Decimal(1 << 32), Decimal(1 << 64), Decimal(1)];
        let columns = [(vector(Kind::Decimal, &decimals), BIN)];
        assert_eq!(grouped(&columns, 4, 4).0, [0, 1, 2, 0]);
    }

    #[test]
    fn no_columns_make_one_group_if_there_are_rows() {
        assert_eq!(grouped(&[], 5, 2), (vec![0; 5], vec![0]));
        assert_eq!(grouped(&[], 0, 2), (vec![], vec![]));
    }

    #[test]
    fn more_spellings_than_are_remembered_have_their_groups() {
        let texts: Vec<String> = (0..SPELLINGS_MAX as u32 + 1_000)
            .map(|n| {
                // Which of 17 letters are capital is the spelling.
                let letter = |bit: u32| if n >> bit & 1 == 1 { 'A' } else { 'a' };
                (0..17).map(letter).collect()
            })
            .collect();
        let values: Vec<_> = texts.iter().map(|text| Bytes(text.as_bytes())).collect();
        let numbers: Vec<_> = (0..texts.len() as i64).map(|n| Int(n % 3)).collect();
        let columns = [(vector(Kind::Bytes, &values), CI), (vector(Kind::Int, &numbers), BIN)];
        let (groups, firsts) = grouped(&columns, texts.len(), 1_024);
        assert_eq!(firsts, [0, 1, 2]);
        assert!(groups.iter().enumerate().all(|(at, group)| *group as usize == at % 3));
    }
}
