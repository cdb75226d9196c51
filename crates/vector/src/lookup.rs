//! Joins by lookups: beside the rows of a scan, rows of other tables that are found by their keys,
//! or that came with the plan.
//!
//! # Owns
//! [`JoinPlan`], what is looked up for the rows of a scan and what is made of the joined rows;
//! [`LookupJoin`], which computes keys, puts found rows beside those they were looked up for, and
//! keeps what becomes groups, or is among the first rows in an order; `range`, the same where a key
//! has many rows; `given`, rows that come with the plan.
//! # Guarantees
//! 1. A lookup by a whole key finds one row at most, so joined rows never become more; of those
//!    with the beginning of a key, or with rows that came with the plan, a bounded number is made
//!    at a time. Memory is that of the rows that came in and of those of the plan, and of groups,
//!    or of the first rows in an order.
//! 2. A plan that [`LookupJoin::new`] accepts runs on any rows to the end. What it cannot compute
//!    exactly is an error before anything is made of the rows at hand.
//! # Not here
//! Reading the rows (`client::Joiner`); which joins of a query are made so (`sql`).

mod given;
mod range;

use std::rc::Rc;
use std::sync::Arc;

use codec::Codec;
use model::{ColumnType, IndexId, Table, TableId, Value};
use stdx::HashMap;

use crate::block::Block;
use crate::computer::{Computer, FirstRows, GroupTable};
use crate::evaluate::Inexact;
use crate::program::{Bad, Input, Program, Yield, lies_so};
use crate::vector::{Kind, ScalarRef, Vector};

pub use given::{GIVEN_BYTES_MAX, GIVEN_ROWS_MAX, Given, GivenKey};
pub use range::RangeJoin;

use given::GivenRows;

/// Most lookups of a plan: with the table that is scanned 32 tables, as in NDB.
pub const LOOKUPS_MAX: usize = 31;
/// Most columns of a joined row.
const COLUMNS_MAX: usize = 4_096;

/// What is looked up for each row of a scan, and what is made of the joined rows.
///
/// The columns of a joined row are those that the scan's program yields, then those of each lookup.
/// Programs read them as inputs whose [`Input::column`] is the place in the joined row.
#[doc(alias = "SPJ")]
#[derive(Clone, Debug, PartialEq, Codec)]
pub struct JoinPlan {
    /// In this order, [`LOOKUPS_MAX`] at most.
    pub lookups: Vec<Lookup>,
    /// What comes of joined rows: which pass, and what they yield.
    pub result: Program,
}

/// Looks for the one row of a table with some key, or for all with the beginning of one; or for all
/// with some key among rows that come with the plan.
#[derive(Clone, Debug, PartialEq, Codec)]
pub struct Lookup {
    /// The table.
    pub table: TableId,
    /// The version of its definition that the plan was made for.
    pub version: u32,
    /// The unique index whose key it is; the primary key if none. Of rows with the beginning of a
    /// key the ordered index: who does not know of these finds no unique index of that name, and
    /// refuses the plan.
    pub index: Option<IndexId>,
    /// The key's values, in its order; or those of the first columns of the ordered index.
    pub key: Vec<KeyPart>,
    /// The columns of the row found that become those of the joined row.
    pub columns: Vec<Input>,
    /// What must be true of the joined row for the two to belong together: its filter counts.
    pub conditions: Program,
    /// What becomes of rows with a match and without.
    pub matching: Matching,
    /// There are many rows with the key: how they are read.
    #[codec(since = 13)]
    pub range: Option<Range>,
    /// The rows, if nothing is read: then there is no table ([`NO_TABLE`]), and who does not know
    /// of these refuses the plan.
    #[codec(since = 13)]
    pub given: Option<Given>,
}

/// The table of a lookup that reads none.
pub const NO_TABLE: TableId = TableId(0);

/// How the rows are read that have the beginning of a key of an ordered index.
#[derive(Clone, Debug, PartialEq, Codec)]
pub struct Range {
    /// What is made of them where they are: which pass, and of these first the columns of the
    /// lookup. It yields rows.
    pub program: Program,
    /// Where among what it yields the columns are that have to be as the key's places say, in the
    /// order of these.
    pub key: Vec<u16>,
    /// One match is as good as many: a semi-join, if the lookup is an inner one. The columns of the
    /// lookup are NULL then.
    pub any: bool,
}

/// A value of a key.
#[derive(Clone, Debug, PartialEq, Codec)]
pub enum KeyPart {
    /// The value at this place of the joined row. NULL has no match.
    Place(u16),
    /// The same for all rows.
    Constant(Value),
}

/// Which rows of a join stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Codec)]
pub enum Matching {
    /// Rows with a match; as a semi-join too, where there is never a second match.
    Inner,
    /// All; where there is no match, the columns of the lookup are NULL.
    Left,
    /// Rows without a match; the columns of the lookup are NULL.
    Anti,
}

/// Joined rows, as far as they are.
#[derive(Clone, Debug)]
pub struct JoinedRows {
    count: usize,
    columns: Vec<Rc<Vector>>,
}

impl JoinedRows {
    /// The rows of a scan.
    pub fn new(block: Block) -> Self {
        let count = block.rows();
        Self { count, columns: block.into_columns().into_iter().map(Rc::new).collect() }
    }

    /// No rows of no columns.
    fn none() -> Self {
        Self { count: 0, columns: Vec::new() }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn gather(&self, places: &[u32]) -> Self {
        let columns = self.columns.iter().map(|column| Rc::new(column.gather(places))).collect();
        Self { count: places.len(), columns }
    }

    /// With columns of NULLs behind.
    fn padded(mut self, kinds: impl Iterator<Item = Kind>) -> Self {
        for kind in kinds {
            let mut nulls = Vector::new(kind);
            (0..self.count).for_each(|_| nulls.push_null());
            self.columns.push(Rc::new(nulls));
        }
        self
    }

    /// With other rows of the same columns behind.
    fn followed_by(mut self, other: &Self) -> Self {
        if other.count > 0 {
            for (column, more) in self.columns.iter_mut().zip(&other.columns) {
                Rc::make_mut(column).append(more);
            }
            self.count += other.count;
        }
        self
    }
}

/// The keys that some rows ask for, each once.
#[derive(Debug)]
pub struct LookupKeys {
    /// In the order in which rows ask for them.
    pub keys: Vec<Vec<Value>>,
    /// Which of them each row asks for; nothing if it can have no match.
    of_row: Vec<Option<u32>>,
}

/// A plan at work.
#[derive(Debug)]
pub struct LookupJoin {
    plan: Arc<JoinPlan>,
    /// For each lookup the types of its key's columns; of rows that are given none.
    key_types: Vec<Vec<ColumnType>>,
    /// For each lookup the rows that are given, if they are.
    given: Vec<Option<GivenRows>>,
    conditions: Vec<Computer>,
    result: Computer,
    kept: Kept,
}

/// What is kept of joined rows until it is taken.
#[derive(Debug)]
enum Kept {
    Nothing,
    Groups(GroupTable),
    First(FirstRows),
}

impl Kept {
    /// Nothing yet of what a program keeps.
    fn of(result: &Computer) -> Self {
        match (result.groups(), result.first_rows()) {
            (Some(groups), _) => Self::Groups(groups),
            (None, Some(first)) => Self::First(first),
            (None, None) => Self::Nothing,
        }
    }
}

impl LookupJoin {
    /// For rows that a scan's program yields, in columns of these kinds.
    ///
    /// # Errors
    /// What is wrong with the plan: a table that is not there, or has another version; columns it
    /// does not have; programs that do not fit together.
    pub fn new<'t>(
        plan: Arc<JoinPlan>,
        scanned: &[Kind],
        table_of: impl Fn(TableId) -> Option<&'t Table>,
    ) -> Result<Self, Bad> {
        if plan.lookups.len() > LOOKUPS_MAX {
            return Err(Bad("too many lookups"));
        }
        let mut kinds = scanned.to_vec();
        let (mut key_types, mut conditions) = (Vec::new(), Vec::new());
        given::check_sizes(&plan)?;
        for lookup in &plan.lookups {
            key_types.push(match &lookup.given {
                Some(given) => given.check(lookup, &kinds).map(|()| Vec::new())?,
                None => lookup.check(table_of(lookup.table), &kinds)?,
            });
            kinds.extend(lookup.columns.iter().map(|input| input.kind));
            if lookup.conditions.top.is_some() {
                return Err(Bad("conditions have no order"));
            }
            conditions.push(computer_over(&lookup.conditions, &kinds)?);
        }
        if kinds.len() > COLUMNS_MAX {
            return Err(Bad("too many columns"));
        }
        let result = computer_over(&plan.result, &kinds)?;
        let kept = Kept::of(&result);
        let given = plan.lookups.iter().map(GivenRows::of).collect();
        Ok(Self { plan, key_types, given, conditions, result, kept })
    }

    /// The lookups.
    pub fn lookups(&self) -> &[Lookup] {
        &self.plan.lookups
    }

    /// What rows ask for in a lookup.
    pub fn keys(&self, lookup: usize, rows: &JoinedRows) -> LookupKeys {
        let parts = &self.plan.lookups[lookup].key;
        let types = &self.key_types[lookup];
        let mut known: HashMap<Box<[u8]>, u32> = HashMap::default();
        let (mut keys, mut of_row) = (Vec::new(), Vec::with_capacity(rows.count));
        let mut name = Vec::new();
        for at in 0..rows.count {
            name.clear();
            let can_match = parts.iter().zip(types).all(|(part, column_type)| match part {
                KeyPart::Constant(value) => !value.as_ref().is_null(),
                KeyPart::Place(place) => {
                    let value = rows.columns[usize::from(*place)].get(at);
                    push_name(value, &mut name);
                    may_be_stored(value, *column_type)
                }
            });
            if !can_match {
                of_row.push(None);
                continue;
            }
            if let Some(number) = known.get(&name[..]) {
                of_row.push(Some(*number));
                continue;
            }
            let value = |(part, column_type): (&KeyPart, &ColumnType)| match part {
                KeyPart::Constant(value) => value.clone(),
                KeyPart::Place(place) => {
                    let size = column_type.fixed_size().unwrap_or(0);
                    rows.columns[usize::from(*place)].get(at).stored(size)
                }
            };
            let number = keys.len() as u32;
            keys.push(parts.iter().zip(types).map(value).collect());
            known.insert(name.as_slice().into(), number);
            of_row.push(Some(number));
        }
        LookupKeys { keys, of_row }
    }

    /// Puts beside each row what its key has found: for each key the columns of the lookup, as they
    /// are stored.
    ///
    /// # Errors
    /// A condition cannot be computed exactly.
    pub fn join(
        &self,
        lookup: usize,
        rows: JoinedRows,
        keys: &LookupKeys,
        found: &[Option<Vec<Value>>],
    ) -> Result<JoinedRows, Inexact> {
        let step = &self.plan.lookups[lookup];
        let kinds = || step.columns.iter().map(|input| input.kind);
        let mut right: Vec<Vector> = kinds().map(Vector::new).collect();
        let mut place_of_key = Vec::with_capacity(found.len());
        let mut places = 0..;
        for row in found {
            place_of_key.push(row.as_ref().and_then(|_| places.next()));
            for (vector, value) in right.iter_mut().zip(row.iter().flatten()) {
                vector.push_stored(value.as_ref());
            }
        }
        let (mut of_left, mut of_right) = (Vec::new(), Vec::new());
        for (at, key) in keys.of_row.iter().enumerate() {
            if let Some(place) = key.and_then(|key| *place_of_key.get(key as usize)?) {
                of_left.push(at as u32);
                of_right.push(place);
            }
        }
        let mut pairs =
            if of_left.len() == rows.count { rows.clone() } else { rows.gather(&of_left) };
        pairs.columns.extend(right.iter().map(|column| Rc::new(column.gather(&of_right))));
        let conditions = &self.conditions[lookup];
        if let Some(places) = conditions.select(pairs.inputs(conditions), pairs.count)? {
            pairs = pairs.gather(&places);
            of_left = places.iter().map(|place| of_left[*place as usize]).collect();
        }
        if step.matching == Matching::Inner {
            return Ok(pairs);
        }
        let mut matched = vec![false; rows.count];
        of_left.iter().for_each(|at| matched[*at as usize] = true);
        let without = (0..rows.count as u32).filter(|at| !matched[*at as usize]);
        let without: Vec<u32> = without.collect();
        let alone = rows.gather(&without).padded(kinds());
        Ok(match step.matching {
            Matching::Left => pairs.followed_by(&alone),
            Matching::Anti | Matching::Inner => alone,
        })
    }

    /// Makes the result of rows for which all has been looked up, or of none: a block of it, unless
    /// they become part of what is kept or none passes.
    ///
    /// # Errors
    /// Something cannot be computed exactly; nothing has been made of the rows then.
    pub fn finish(&mut self, rows: &JoinedRows) -> Result<Option<Block>, Inexact> {
        // Where there are none, lookups may have been left out, and their columns.
        if rows.is_empty() {
            return Ok(None);
        }
        let inputs = rows.inputs(&self.result);
        match &mut self.kept {
            Kept::Nothing => {}
            Kept::Groups(groups) => {
                self.result.group(groups, inputs, rows.count)?;
                return Ok(None);
            }
            Kept::First(first) => {
                self.result.take_first(first, inputs, rows.count)?;
                return Ok(None);
            }
        }
        let passing = self.result.select(rows.inputs(&self.result), rows.count)?;
        let chosen;
        let rows = match &passing {
            None => rows,
            Some(places) if places.is_empty() => return Ok(None),
            Some(places) => {
                chosen = rows.gather(places);
                &chosen
            }
        };
        let columns = self.result.columns(rows.inputs(&self.result), rows.count)?;
        let columns = columns.iter().map(|column| Vector::clone(column)).collect();
        Ok(Some(Block::new(rows.count, columns)))
    }

    /// About how many bytes the groups or the first rows take.
    pub fn kept_bytes(&self) -> usize {
        match &self.kept {
            Kept::Nothing => 0,
            Kept::Groups(groups) => groups.memory_bytes(),
            Kept::First(first) => first.memory_bytes(),
        }
    }

    /// Takes the groups, or the first rows, of those so far; they are begun anew. Nothing if there
    /// is none.
    pub fn take_kept(&mut self) -> Option<Block> {
        let block = match std::mem::replace(&mut self.kept, Kept::of(&self.result)) {
            Kept::Nothing => return None,
            Kept::Groups(groups) => groups.finish(),
            Kept::First(first) => self.result.finish_first(first),
        };
        (block.rows() > 0).then_some(block)
    }
}

impl JoinedRows {
    /// The columns that a program reads.
    fn inputs(&self, program: &Computer) -> Vec<Rc<Vector>> {
        let inputs = program.inputs().iter();
        inputs.map(|input| self.columns[usize::from(input.column.0)].clone()).collect()
    }
}

impl Lookup {
    /// Whether it fits the table that it names and columns of these kinds; the types of the columns
    /// of its key.
    fn check(&self, table: Option<&Table>, kinds: &[Kind]) -> Result<Vec<ColumnType>, Bad> {
        let table = table.filter(|table| table.version == self.version);
        let table = table.ok_or(Bad("a table of the join has changed"))?;
        let types = self.key_types(table, kinds)?;
        if let Some(range) = &self.range {
            range.check(self, table, kinds)?;
        }
        for input in &self.columns {
            let column = table.columns.get(usize::from(input.column.0));
            let column = column.ok_or(Bad("no such column"))?;
            if !lies_so(column.column_type, input.kind) {
                return Err(Bad("a column is of another kind"));
            }
        }
        Ok(types)
    }

    /// The types of the columns of its key.
    fn key_types(&self, table: &Table, kinds: &[Kind]) -> Result<Vec<ColumnType>, Bad> {
        let columns = match (self.index, &self.range) {
            (Some(index), Some(_)) => {
                let columns = &table.ordered_index(index).ok_or(Bad("no such index"))?.columns;
                columns.get(..self.key.len()).unwrap_or(&[])
            }
            (None, Some(_)) => return Err(Bad("a range of no index")),
            (None, None) => &table.primary_key,
            (Some(index), None) => {
                &table.unique_index(index).ok_or(Bad("no such unique index"))?.columns
            }
        };
        if columns.len() != self.key.len() || columns.is_empty() {
            return Err(Bad("the key has another number of columns"));
        }
        let mut types = Vec::with_capacity(columns.len());
        for (part, column) in self.key.iter().zip(columns) {
            let column_type = table.columns[usize::from(column.0)].column_type;
            if let KeyPart::Place(place) = part {
                let kind = kinds.get(usize::from(*place));
                if !kind.is_some_and(|kind| lies_so(column_type, *kind)) {
                    return Err(Bad("a key of another kind"));
                }
            }
            types.push(column_type);
        }
        Ok(types)
    }
}

/// A program over joined rows of these columns.
fn computer_over(program: &Program, kinds: &[Kind]) -> Result<Computer, Bad> {
    let fits = |input: &Input| kinds.get(usize::from(input.column.0)) == Some(&input.kind);
    if !program.inputs.iter().all(fits) {
        return Err(Bad("no such column of the joined row"));
    }
    if program.references.is_some() || !program.members.is_empty() {
        return Err(Bad("joined rows have no references and no sets of keys"));
    }
    if matches!(&program.yields, Yield::Rows(nodes) if nodes.len() > COLUMNS_MAX) {
        return Err(Bad("too many columns"));
    }
    Computer::new(program.clone())
}

/// Whether some stored value of a column can be equal.
fn may_be_stored(value: ScalarRef<'_>, column_type: ColumnType) -> bool {
    let has_bits =
        |number: i128, bits: u32| (-(1 << (bits - 1))..1 << (bits - 1)).contains(&number);
    match (value, column_type) {
        (ScalarRef::Int(number), ColumnType::Int(size)) => {
            has_bits(number.into(), 8 * u32::from(size))
        }
        (ScalarRef::UInt(number), ColumnType::UInt(size)) => {
            u128::from(number) < 1 << (8 * u32::from(size))
        }
        (ScalarRef::Float(_), ColumnType::Float) => true,
        (ScalarRef::Decimal(number), ColumnType::Fixed(size)) => {
            size == 16 || has_bits(number, 8 * u32::from(size))
        }
        (ScalarRef::Bytes(bytes), ColumnType::Fixed(size)) => bytes.len() == usize::from(size),
        (ScalarRef::Bytes(bytes), ColumnType::Variable(max))
        | (ScalarRef::Bytes(bytes), ColumnType::Text { max_bytes: max, .. }) => {
            bytes.len() <= usize::from(max)
        }
        _ => false,
    }
}

/// Adds bytes that name a value among those of one column, as it is stored: two zeros of a float
/// or two texts that compare as equal are two keys to be looked up, other than in `push_key` of
/// groups.
fn push_name(value: ScalarRef<'_>, name: &mut Vec<u8>) {
    match value {
        ScalarRef::Null => {}
        ScalarRef::Int(number) => name.extend(number.to_le_bytes()),
        ScalarRef::UInt(number) => name.extend(number.to_le_bytes()),
        ScalarRef::Float(number) => name.extend(number.to_bits().to_le_bytes()),
        ScalarRef::Decimal(number) => name.extend(number.to_le_bytes()),
        ScalarRef::Bytes(bytes) => {
            name.extend((bytes.len() as u32).to_le_bytes());
            name.extend(bytes);
        }
    }
}

#[cfg(test)]
mod tests;
