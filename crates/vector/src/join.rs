//! The rows of one side of a join, found by their keys.

use std::hash::Hasher;
use std::ops::Range;
use std::rc::Rc;

use collation::CollationId;
use stdx::FixedHasher;

use crate::group::{push_key, whole_numbers};
use crate::vector::{Texts, Vector};

/// One column of the key of rows.
#[derive(Clone, Debug)]
pub struct KeyColumn {
    /// Its values.
    pub vector: Rc<Vector>,
    /// The collation under which texts are equal.
    pub collation: CollationId,
}

/// Rows by key, for joins by equality. A NULL in a key is equal to nothing.
#[derive(Debug)]
pub struct JoinTable {
    /// By the low bits of a key's hash: one more than the number of the first row.
    heads: Vec<u32>,
    /// For each row one more than the number of the next with the same bits; 0 at the end.
    next: Vec<u32>,
    keys: Keys,
}

/// How far the rows that look for others are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProbePlace {
    /// The row that is next.
    pub row: usize,
    /// One more than the number of the first row of the table that it has not met; 0 if it has met
    /// none yet.
    rest: u32,
}

/// Pairs that have been found.
#[derive(Default)]
struct Pairs {
    probing: Vec<u32>,
    found: Vec<u32>,
    /// How much more may be looked at.
    left: usize,
    /// Where a row goes on: as in [`ProbePlace`].
    rest: u32,
}

/// The keys of rows.
#[derive(Debug)]
enum Keys {
    /// Of one whole number each.
    Numbers(Vec<u64>),
    /// Of anything else, with their hashes.
    Bytes(Vec<u64>, Texts),
}

/// A hash of a number, good in all its bits.
pub(crate) fn mixed(number: u64) -> u64 {
    // The finalizer of D. Stafford's variant 13 of MurmurHash3.
    let mut hash = number ^ number >> 30;
    hash = hash.wrapping_mul(0xBF58_476D_1CE4_E5B9);
    hash ^= hash >> 27;
    hash = hash.wrapping_mul(0x94D0_49BB_1331_11EB);
    hash ^ hash >> 31
}

fn hash_of(key: &[u8]) -> u64 {
    let mut hasher = FixedHasher::default();
    hasher.write(key);
    hasher.finish()
}

/// The number that is the key of a row, if keys are of one whole number.
fn numbers(keys: &[KeyColumn]) -> Option<impl Fn(usize) -> u64 + '_> {
    let [KeyColumn { vector, .. }] = keys else { return None };
    whole_numbers(&vector.values)
}

fn has_null(keys: &[KeyColumn], at: usize) -> bool {
    keys.iter().any(|key| key.vector.is_null(at))
}

fn write_key(into: &mut Vec<u8>, keys: &[KeyColumn], at: usize) {
    into.clear();
    for KeyColumn { vector, collation } in keys {
        push_key(into, vector.get(at), *collation);
    }
}

/// A table in the making: of many rows that takes long, and others may have a turn.
#[derive(Debug)]
pub struct JoinTableMaker<'k> {
    table: JoinTable,
    of_keys: &'k [KeyColumn],
    rows: usize,
    /// Rows whose keys have been read.
    read: usize,
    /// Rows that have not been entered, the first ones.
    left: usize,
}

impl<'k> JoinTableMaker<'k> {
    /// For so many rows with these keys.
    pub fn new(of_keys: &'k [KeyColumn], rows: usize) -> Self {
        let size = rows.next_power_of_two().max(16) * 2;
        let keys = match numbers(of_keys) {
            Some(_) => Keys::Numbers(Vec::with_capacity(rows)),
            None => Keys::Bytes(Vec::with_capacity(rows), Texts::default()),
        };
        let table = JoinTable { heads: vec![0; size], next: vec![0; rows], keys };
        Self { table, of_keys, rows, read: 0, left: rows }
    }

    /// Reads the keys of the next rows, or enters some whose keys have been read, at most so many;
    /// false if there is nothing more to do.
    pub fn go_on(&mut self, rows_max: usize) -> bool {
        if self.read < self.rows {
            let end = self.rows.min(self.read.saturating_add(rows_max));
            self.table.keys.read(self.of_keys, self.read..end);
            self.read = end;
            return true;
        }
        // Backwards, so that the rows of a key are met in their order.
        let first = self.left.saturating_sub(rows_max);
        let mask = self.table.heads.len() - 1;
        for at in (first..self.left).rev().filter(|at| !has_null(self.of_keys, *at)) {
            let hash = match &self.table.keys {
                Keys::Numbers(all) => mixed(all[at]),
                Keys::Bytes(hashes, _) => hashes[at],
            };
            self.table.enter(at, hash as usize & mask);
        }
        self.left = first;
        first > 0
    }

    /// The table, of all rows.
    pub fn finish(mut self) -> JoinTable {
        while self.go_on(usize::MAX) {}
        self.table
    }
}

impl Keys {
    /// Reads those of the next rows.
    fn read(&mut self, of_keys: &[KeyColumn], rows: Range<usize>) {
        match (self, numbers(of_keys)) {
            (Self::Numbers(all), Some(number)) => all.extend(rows.map(number)),
            (Self::Bytes(hashes, texts), _) => {
                let mut key = Vec::new();
                for at in rows {
                    write_key(&mut key, of_keys, at);
                    hashes.push(hash_of(&key));
                    texts.push(&key);
                }
            }
            (Self::Numbers(_), None) => unreachable!("keys of another kind"),
        }
    }
}

/// Where the next probing rows begin in a table. They are looked up together: each lies anywhere in
/// memory, and a processor waits for many of them at once if nothing else is between.
#[derive(Default)]
struct Ahead {
    /// The probing row of the first of these.
    from: usize,
    firsts: Vec<u32>,
}

impl Ahead {
    /// Probing rows that are looked up together.
    const ROWS: usize = 128;

    /// What `first_of` gives for the row `at`; of rows before `end` it is asked in advance.
    #[inline]
    fn first(&mut self, at: usize, end: usize, first_of: impl Fn(usize) -> u32) -> u32 {
        if at >= self.from + self.firsts.len() {
            self.from = at;
            self.firsts.clear();
            self.firsts.extend((at..end.min(at + Self::ROWS)).map(first_of));
        }
        self.firsts[at - self.from]
    }
}

impl JoinTable {
    /// So many rows with these keys.
    pub fn new(keys: &[KeyColumn], rows: usize) -> Self {
        JoinTableMaker::new(keys, rows).finish()
    }

    fn enter(&mut self, at: usize, place: usize) {
        self.next[at] = self.heads[place];
        self.heads[place] = at as u32 + 1;
    }

    /// The pairs of rows with these keys, from a place to before `rows`, and the rows of the table
    /// with the same ones: the numbers of both, ordered by the first. Ends after `pairs_max` rows
    /// and pairs; the place of what comes next. The keys are of the kinds of the table's.
    pub fn probe(
        &self,
        keys: &[KeyColumn],
        from: ProbePlace,
        rows: usize,
        pairs_max: usize,
    ) -> (Vec<u32>, Vec<u32>, ProbePlace) {
        assert!(pairs_max > 1, "a row is one, what it meets another");
        let mut pairs = Pairs { left: pairs_max, rest: from.rest, ..Pairs::default() };
        let number = numbers(keys);
        let (mut key, mut ahead) = (Vec::new(), Ahead::default());
        let first_of = |hash: u64| self.heads[hash as usize & (self.heads.len() - 1)];
        for at in from.row..rows {
            if pairs.left == 0 {
                return (pairs.probing, pairs.found, ProbePlace { row: at, rest: pairs.rest });
            }
            if has_null(keys, at) {
                pairs.left -= 1;
                continue;
            }
            match (&self.keys, &number) {
                (Keys::Numbers(all), Some(number)) => {
                    let wanted = number(at);
                    let first = ahead
                        .first(at, rows.min(at + pairs.left), |at| first_of(mixed(number(at))));
                    self.find(first, |row| all[row] == wanted, at, &mut pairs);
                }
                (Keys::Bytes(hashes, texts), None) => {
                    write_key(&mut key, keys, at);
                    let hash = hash_of(&key);
                    let is_same = |row: usize| hashes[row] == hash && texts.get(row) == key;
                    self.find(first_of(hash), is_same, at, &mut pairs);
                }
                _ => unreachable!("keys of other kinds"),
            }
            if pairs.rest != 0 {
                return (pairs.probing, pairs.found, ProbePlace { row: at, rest: pairs.rest });
            }
        }
        (pairs.probing, pairs.found, ProbePlace { row: rows, rest: 0 })
    }

    /// Adds the pairs of a row, or as many as are wanted. `first` is the first row of the table
    /// whose key may be the same, counted from 1, or 0.
    #[inline]
    fn find(&self, first: u32, is_same: impl Fn(usize) -> bool, at: usize, pairs: &mut Pairs) {
        let mut row = match std::mem::take(&mut pairs.rest) {
            0 => first as usize,
            rest => rest as usize,
        };
        pairs.left = pairs.left.saturating_sub(1);
        while row != 0 {
            if pairs.left == 0 {
                pairs.rest = row as u32;
                return;
            }
            pairs.left -= 1;
            if is_same(row - 1) {
                pairs.probing.push(at as u32);
                pairs.found.push(row as u32 - 1);
            }
            row = self.next[row - 1] as usize;
        }
    }

    /// About how many bytes it takes, beside the columns.
    pub fn memory_bytes(&self) -> usize {
        let keys = match &self.keys {
            Keys::Numbers(list) => 8 * list.len(),
            Keys::Bytes(hashes, texts) => 12 * hashes.len() + texts.byte_count(),
        };
        4 * (self.heads.len() + self.next.len()) + keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vector::ScalarRef;

    fn column(values: &[ScalarRef<'_>], kind: crate::Kind) -> KeyColumn {
        let mut vector = Vector::new(kind);
        values.iter().for_each(|value| vector.push(*value));
        KeyColumn { vector: Rc::new(vector), collation: CollationId::DEFAULT }
    }

    #[test]
    fn rows_meet_those_with_their_key_in_order() {
        use ScalarRef::{Int, Null};
        let table = [Int(7), Int(3), Null, Int(7), Int(-1)];
        let table = [column(&table, crate::Kind::Int)];
        let probe = [Int(7), Null, Int(5), Int(-1)];
        let probe = [column(&probe, crate::Kind::Int)];
        let table = JoinTable::new(&table, 5);
        let from = ProbePlace::default();
        let all = table.probe(&probe, from, 4, 100);
        assert_eq!(all, (vec![0, 0, 3], vec![0, 3, 4], ProbePlace { row: 4, rest: 0 }));
        for pairs_max in 2..9 {
            let (mut place, mut pairs, mut steps) = (from, (Vec::new(), Vec::new()), 0);
            while place.row < 4 {
                let (a, b, next) = table.probe(&probe, place, 4, pairs_max);
                assert!(a.len() < pairs_max && next != place, "{pairs_max} {place:?}");
                pairs.0.extend(a);
                pairs.1.extend(b);
                (place, steps) = (next, steps + 1);
            }
            assert_eq!((&pairs.0, &pairs.1), (&all.0, &all.1), "{pairs_max}");
            assert!(steps > 1 || pairs_max > 6, "{steps} of {pairs_max}");
        }
    }

    #[test]
    fn without_keys_every_row_meets_every_row() {
        let end = ProbePlace { row: 2, rest: 0 };
        let pairs = JoinTable::new(&[], 2).probe(&[], ProbePlace::default(), 2, 100);
        assert_eq!(pairs, (vec![0, 0, 1, 1], vec![0, 1, 0, 1], end));
    }

    #[test]
    fn texts_are_equal_as_their_collation_has_it_and_all_columns_count() {
        use ScalarRef::{Bytes, Decimal, Null};
        let texts = [Bytes(b"a"), Bytes(b"A"), Bytes(b"b"), Null];
        let table = [
            column(&texts, crate::Kind::Bytes),
            column(&[Decimal(1), Decimal(2), Decimal(1), Decimal(1)], crate::Kind::Decimal),
        ];
        let probe = [
            column(&[Bytes(b"A"), Bytes(b"B"), Null], crate::Kind::Bytes),
            column(&[Decimal(1), Decimal(1), Decimal(1)], crate::Kind::Decimal),
        ];
        let pairs = JoinTable::new(&table, 4).probe(&probe, ProbePlace::default(), 3, 100);
        assert_eq!(pairs, (vec![0, 1], vec![0, 2], ProbePlace { row: 3, rest: 0 }));
    }
}
