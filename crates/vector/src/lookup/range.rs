//! Lookups that find many rows for a key: the rows of an ordered index that begin with it, or those
//! that came with the plan.
//!
//! # Owns
//! [`RangeJoin`]: rows whose matches come piece by piece, in any order, and which of them have met
//! one.
//! # Guarantees
//! What is made at a time is bounded in rows and bytes, however many rows meet.
//! # Not here
//! Reading the rows (`client::Joiner`).

use std::rc::Rc;

use collation::CollationId;
use model::{ColumnType, Table};

use super::{JoinedRows, KeyPart, Lookup, LookupJoin, Matching, Range};
use crate::block::Block;
use crate::evaluate::Inexact;
use crate::join::{JoinTable, KeyColumn, ProbePlace};
use crate::program::{Bad, Yield};
use crate::vector::{Kind, Texts, Values, Vector};

/// Rows and pairs of rows that are looked at at a time.
const PAIRS_MAX: usize = 4_096;
/// Bytes of pairs that are made at a time, but for one pair.
const PAIRS_BYTES_MAX: usize = 1 << 20;
/// What a value takes that lies in a vector of fixed width, at most.
const VALUE_BYTES: usize = 16;

/// Rows that are joined with those that begin with their key, or are given.
#[derive(Debug)]
pub struct RangeJoin {
    lookup: usize,
    rows: JoinedRows,
    /// These by their keys; or what is given, if the rows are those that look.
    table: Rc<JoinTable>,
    rows_look: bool,
    /// Of each column of the key how it lies, and what makes texts in it equal.
    keys: Vec<(Kind, CollationId)>,
    /// Which of the rows have met a match.
    matched: Vec<bool>,
    piece: Option<Piece>,
}

/// Some of the rows that were found.
#[derive(Debug)]
struct Piece {
    found: JoinedRows,
    /// The keys of the side that looks for the other.
    keys: Vec<KeyColumn>,
    /// How far that is.
    place: ProbePlace,
    /// Pairs that are next: rows of the piece, and those that they meet.
    pairs: (Vec<u32>, Vec<u32>),
}

impl Range {
    /// Whether it fits its lookup, the table, and the columns of these kinds that there are.
    pub(super) fn check(&self, lookup: &Lookup, table: &Table, rows: &[Kind]) -> Result<(), Bad> {
        let kinds = self.program.check(table)?;
        if self.program.top.is_some() || self.program.references.is_some() {
            return Err(Bad("rows of a join have no order and no references"));
        }
        let Yield::Rows(nodes) = &self.program.yields else {
            return Err(Bad("rows are joined, not groups"));
        };
        let yields: Vec<Kind> = nodes.iter().map(|node| kinds[usize::from(*node)]).collect();
        let columns = lookup.columns.iter().map(|input| input.kind);
        if !columns.clone().eq(yields.iter().copied().take(columns.len())) {
            return Err(Bad("the columns of a lookup are of other kinds"));
        }
        let index = lookup.index.and_then(|index| table.ordered_index(index));
        let of_index = index.map_or(&[][..], |index| &index.columns);
        let mut of_key = self.key.iter();
        for (part, column) in lookup.key.iter().zip(of_index) {
            let KeyPart::Place(place) = part else { continue };
            // Two zeros are equal, and have two keys.
            if table.columns[usize::from(column.0)].column_type == ColumnType::Float {
                return Err(Bad("no rows begin with a number of this kind"));
            }
            let yielded = of_key.next().and_then(|at| yields.get(usize::from(*at)));
            if yielded.is_none() || yielded != rows.get(usize::from(*place)) {
                return Err(Bad("the key is not among what is yielded"));
            }
        }
        match of_key.next() {
            None => Ok(()),
            Some(_) => Err(Bad("the key has another number of columns")),
        }
    }
}

/// The collation under which values of a column are equal.
fn collation_of(column: ColumnType) -> CollationId {
    match column {
        ColumnType::Text { collation, .. } => collation,
        _ => CollationId::BINARY,
    }
}

impl LookupJoin {
    /// Begins to join rows with those that a lookup finds for them.
    pub fn range(&self, lookup: usize, rows: JoinedRows) -> RangeJoin {
        let parts = self.plan.lookups[lookup].key.iter().zip(&self.key_types[lookup]);
        let (mut keys, mut columns) = (Vec::new(), Vec::new());
        for (part, column_type) in parts {
            if let KeyPart::Place(place) = part {
                let (vector, collation) =
                    (rows.columns[usize::from(*place)].clone(), collation_of(*column_type));
                keys.push((vector.kind(), collation));
                columns.push(KeyColumn { vector, collation });
            }
        }
        let table = Rc::new(JoinTable::new(&columns, rows.count));
        let matched = vec![false; rows.count];
        RangeJoin { lookup, rows, table, rows_look: false, keys, matched, piece: None }
    }

    /// Takes rows that were found, when the last ones have been joined.
    ///
    /// # Errors
    /// They are not as the lookup says.
    pub fn take_of_range(&self, range: &mut RangeJoin, block: Block) -> Result<(), Bad> {
        assert!(range.piece.is_none(), "piece by piece");
        let lookup = &self.plan.lookups[range.lookup];
        let mut found = JoinedRows::new(block);
        let places = lookup.range.iter().flat_map(|range| &range.key);
        let of_piece = |place: &u16| found.columns.get(usize::from(*place)).cloned();
        let vectors: Option<Vec<Rc<Vector>>> = places.map(of_piece).collect();
        let vectors = vectors.ok_or(Bad("columns are missing"))?;
        let mut kinds = found.columns.iter().map(|column| column.kind());
        let as_told = lookup.columns.iter().all(|input| kinds.next() == Some(input.kind));
        let of_keys = range.keys.iter().map(|(kind, _)| *kind);
        if !as_told || !vectors.iter().map(|vector| vector.kind()).eq(of_keys) {
            return Err(Bad("columns of other kinds"));
        }
        let of = vectors.into_iter().zip(&range.keys);
        let keys = of.map(|(vector, (_, collation))| KeyColumn { vector, collation: *collation });
        let keys = keys.collect();
        found.columns.truncate(lookup.columns.len());
        let (place, pairs) = (ProbePlace::default(), (Vec::new(), Vec::new()));
        range.piece = Some(Piece { found, keys, place, pairs });
        Ok(())
    }

    /// The next rows that come of what was found so far; none at all where it makes no rows, or
    /// conditions leave none. Nothing when all of it has been joined.
    ///
    /// # Errors
    /// A condition cannot be computed exactly.
    pub fn next_of_range(&self, range: &mut RangeJoin) -> Result<Option<JoinedRows>, Inexact> {
        let lookup = &self.plan.lookups[range.lookup];
        let Some((of_piece, of_rows, found)) = range.next_pairs() else { return Ok(None) };
        let rows = &range.rows;
        let pairs = |(of_rows, of_piece): (&[u32], &[u32])| {
            let mut pairs =
                if is_each(of_rows, rows.count) { rows.clone() } else { rows.gather(of_rows) };
            pairs.columns.extend(found.gather(of_piece).columns);
            pairs
        };
        let conditions = &self.conditions[range.lookup];
        let column = |place: usize| match rows.columns.get(place) {
            Some(column) => Rc::new(column.gather(&of_rows)),
            None => Rc::new(found.columns[place - rows.columns.len()].gather(&of_piece)),
        };
        let inputs = conditions.inputs().iter();
        let inputs = inputs.map(|input| column(usize::from(input.column.0)));
        let passing = if lookup.conditions.filter.is_empty() {
            None
        } else {
            conditions.select(inputs.collect(), of_rows.len())?
        };
        let chosen = |places: &[u32], list: &[u32]| -> Vec<u32> {
            places.iter().map(|place| list[*place as usize]).collect()
        };
        let (of_rows, of_piece) = match &passing {
            None => (of_rows, of_piece),
            Some(places) => (chosen(places, &of_rows), chosen(places, &of_piece)),
        };
        let makes_rows = !lookup.finds_any() && lookup.matching != Matching::Anti;
        let made = if makes_rows { pairs((&of_rows, &of_piece)) } else { JoinedRows::none() };
        of_rows.iter().for_each(|at| range.matched[*at as usize] = true);
        Ok(Some(made))
    }

    /// The rows that come of it when all has been found: those without a match of an outer join or
    /// an anti-join, those with one of a semi-join.
    pub fn rest_of_range(&self, range: RangeJoin) -> JoinedRows {
        assert!(range.piece.is_none(), "all has been joined");
        let lookup = &self.plan.lookups[range.lookup];
        let wanted = match lookup.matching {
            Matching::Inner if lookup.finds_any() => true,
            Matching::Inner => return JoinedRows::none(),
            Matching::Left | Matching::Anti => false,
        };
        let places = (0..range.rows.count as u32).zip(&range.matched);
        let places = places.filter(|(_, matched)| **matched == wanted);
        let places: Vec<u32> = places.map(|(at, _)| at).collect();
        range.rows.gather(&places).padded(lookup.columns.iter().map(|input| input.kind))
    }
}

impl Lookup {
    /// Whether one match is as good as many, and only whether there is one is asked.
    fn finds_any(&self) -> bool {
        let any = self.range.as_ref().is_some_and(|range| range.any);
        any && self.matching == Matching::Inner
    }
}

impl RangeJoin {
    /// Rows with these keys that look for given ones in a table of all of them.
    pub(super) fn over_given(
        lookup: usize,
        rows: JoinedRows,
        found: JoinedRows,
        table: Rc<JoinTable>,
        keys: Vec<KeyColumn>,
    ) -> Self {
        let (place, pairs) = (ProbePlace::default(), (Vec::new(), Vec::new()));
        let piece = Some(Piece { found, keys, place, pairs });
        let matched = vec![false; rows.count];
        Self { lookup, rows, table, rows_look: true, keys: Vec::new(), matched, piece }
    }

    /// The rows that are joined.
    pub fn rows(&self) -> &JoinedRows {
        &self.rows
    }

    /// Whether what was found last has been joined.
    pub fn is_free(&self) -> bool {
        self.piece.is_none()
    }

    /// The next pairs: rows of the piece, those that they meet, and the piece. Nothing at its end.
    fn next_pairs(&mut self) -> Option<(Vec<u32>, Vec<u32>, JoinedRows)> {
        let piece = self.piece.as_mut()?;
        while piece.pairs.0.is_empty() {
            let looking = if self.rows_look { self.rows.count } else { piece.found.count };
            if piece.place.row >= looking {
                self.piece = None;
                return None;
            }
            let (look, meet, next) = self.table.probe(&piece.keys, piece.place, looking, PAIRS_MAX);
            piece.pairs = if self.rows_look { (meet, look) } else { (look, meet) };
            piece.place = next;
        }
        let (found, met) = &mut piece.pairs;
        let (of_piece, of_rows) = (texts_of(&piece.found), texts_of(&self.rows));
        let fixed = VALUE_BYTES * (piece.found.columns.len() + self.rows.columns.len());
        let size = |texts: &[&Texts], at: u32| -> usize {
            texts.iter().map(|texts| texts.size_at(at as usize)).sum()
        };
        let mut bytes = 0;
        let mut fits = |(in_piece, in_rows): (&u32, &u32)| {
            bytes += fixed + size(&of_piece, *in_piece) + size(&of_rows, *in_rows);
            bytes <= PAIRS_BYTES_MAX
        };
        let most = found.iter().zip(&*met).take_while(|pair| fits(*pair)).count().max(1);
        let (later_found, later_met) = (found.split_off(most), met.split_off(most));
        let these = (std::mem::replace(found, later_found), std::mem::replace(met, later_met));
        Some((these.0, these.1, piece.found.clone()))
    }
}

/// Whether places are those of so many rows, in order.
fn is_each(places: &[u32], rows: usize) -> bool {
    places.len() == rows && places.iter().zip(0..).all(|(place, at)| *place == at)
}

/// The columns of texts.
fn texts_of(rows: &JoinedRows) -> Vec<&Texts> {
    let columns = rows.columns.iter();
    columns
        .filter_map(|column| match &column.values {
            Values::Bytes(texts) => Some(texts),
            _ => None,
        })
        .collect()
}
