//! Groups and their aggregates.

mod hashed;
mod keys;

use std::ops::Range;
use std::rc::Rc;

use collation::CollationId;

use crate::block::Block;
use crate::evaluate::{Batch, Inexact};
use crate::group::keys::{GroupKeys, KeyColumns};
use crate::program::{Aggregate, AggregateFunction, GroupKey};
use crate::vector::{Decimals, Kind, ScalarRef, Values, Vector};

/// The groups met so far.
#[derive(Debug)]
pub(crate) struct Groups {
    keys: GroupKeys,
    states: Vec<State>,
    /// What no sum of each aggregate is beyond, as far as its numbers tell.
    reach: Vec<Reach>,
    /// Which group each row of a batch belongs to.
    of_row: Vec<u32>,
}

/// A bound of the sums of an aggregate, of whole numbers and of floats.
#[derive(Clone, Copy, Debug, Default)]
struct Reach {
    whole: u128,
    float: f64,
}

/// An aggregate of all groups.
#[derive(Debug)]
enum State {
    Count(Vec<i64>),
    Whole {
        sums: Vec<i128>,
        any: Vec<bool>,
    },
    Float {
        sums: Vec<f64>,
        any: Vec<bool>,
    },
    /// MIN and MAX of numbers.
    Extreme {
        values: Vector,
        largest: bool,
    },
    /// MIN and MAX of texts.
    Text {
        values: Vec<Option<Box<[u8]>>>,
        largest: bool,
        id: CollationId,
        bytes: usize,
    },
    First(Vector),
}

impl State {
    /// Of an aggregate over a node of this kind.
    fn new(aggregate: &Aggregate, kind: Option<Kind>) -> Self {
        let largest = aggregate.function == AggregateFunction::Max;
        match (aggregate.function, kind) {
            (AggregateFunction::Count, _) | (_, None) => State::Count(Vec::new()),
            (AggregateFunction::Sum, Some(Kind::Float)) => {
                State::Float { sums: Vec::new(), any: Vec::new() }
            }
            (AggregateFunction::Sum, _) => State::Whole { sums: Vec::new(), any: Vec::new() },
            (AggregateFunction::Min | AggregateFunction::Max, Some(Kind::Bytes)) => {
                let (values, id) = (Vec::new(), CollationId(aggregate.collation));
                State::Text { values, largest, id, bytes: 0 }
            }
            (AggregateFunction::Min | AggregateFunction::Max, Some(kind)) => {
                State::Extreme { values: Vector::new(kind), largest }
            }
            (AggregateFunction::First, Some(kind)) => State::First(Vector::new(kind)),
        }
    }

    /// Makes room for groups up to this number of them.
    fn grow(&mut self, groups: usize) {
        match self {
            State::Count(counts) => counts.resize(groups, 0),
            State::Whole { sums, any } => {
                sums.resize(groups, 0);
                any.resize(groups, false);
            }
            State::Float { sums, any } => {
                sums.resize(groups, 0.0);
                any.resize(groups, false);
            }
            State::Extreme { values, .. } => {
                (values.len()..groups).for_each(|_| values.push_null());
            }
            State::Text { values, .. } => values.resize(groups, None),
            // Filled by the first row of a group, which is met in the order of the groups.
            State::First(_) => {}
        }
    }

    /// Takes the rows of a batch: the value of each, and its group. Sums are known to fit.
    fn take(&mut self, values: Option<&Vector>, of_row: &[u32]) {
        let Some(vector) = values else {
            if let State::Count(counts) = self {
                of_row.iter().for_each(|group| counts[*group as usize] += 1);
            }
            return;
        };
        let rows = of_row.iter().map(|group| *group as usize).enumerate();
        let rows = rows.filter(|(at, _)| !vector.is_null(*at));
        match self {
            State::Count(counts) => rows.for_each(|(_, group)| counts[group] += 1),
            State::Whole { sums, any } => {
                let (nulls, any) = (&vector.nulls, &mut any[..]);
                match &vector.values {
                    Values::Int(list) => add_all(sums, any, list, nulls, of_row),
                    Values::UInt(list) => add_all(sums, any, list, nulls, of_row),
                    Values::Decimal(list) => add_all(sums, any, &list.0, nulls, of_row),
                    _ => unreachable!("checked to be whole"),
                }
            }
            State::Float { sums, any } => {
                let Values::Float(list) = &vector.values else { unreachable!("checked") };
                for (at, group) in rows {
                    any[group] = true;
                    sums[group] += list[at];
                }
            }
            State::Extreme { values, largest } => {
                for (at, group) in rows {
                    values.improve(group, vector.get(at), *largest);
                }
            }
            State::Text { values, largest, id, bytes } => {
                let Values::Bytes(list) = &vector.values else { unreachable!("checked") };
                for (at, group) in rows {
                    let text = list.get(at);
                    let better = values[group].as_deref().is_none_or(|best| {
                        let order = collation::compare(*id, text, best);
                        if *largest { order.is_gt() } else { order.is_lt() }
                    });
                    if better {
                        *bytes += text.len();
                        values[group] = Some(text.into());
                    }
                }
            }
            State::First(_) => {}
        }
    }

    fn memory_bytes(&self) -> usize {
        match self {
            State::Count(counts) => 8 * counts.len(),
            State::Whole { sums, .. } => 17 * sums.len(),
            State::Float { sums, .. } => 9 * sums.len(),
            State::Extreme { values, .. } | State::First(values) => values.memory_bytes(),
            State::Text { values, bytes, .. } => 16 * values.len() + bytes,
        }
    }

    /// The results, group by group.
    fn finish(self) -> Vector {
        let missing = |any: Vec<bool>| {
            if any.contains(&false) {
                any.into_iter().map(|any| !any).collect()
            } else {
                Vec::new()
            }
        };
        match self {
            State::Count(counts) => Vector { values: Values::Int(counts), nulls: Vec::new() },
            State::Whole { sums, any } => {
                Vector { values: Values::Decimal(Decimals(sums)), nulls: missing(any) }
            }
            State::Float { sums, any } => {
                Vector { values: Values::Float(sums), nulls: missing(any) }
            }
            State::Extreme { values, .. } | State::First(values) => values,
            State::Text { values, .. } => {
                let mut vector = Vector::new(Kind::Bytes);
                let scalar = |text: &Option<Box<[u8]>>| match text {
                    Some(text) => vector.push(ScalarRef::Bytes(text)),
                    None => vector.push_null(),
                };
                values.iter().for_each(scalar);
                vector
            }
        }
    }
}

/// Adds numbers to the sums of their groups, and notes that these have some.
fn add_all<T: Copy + Into<i128>>(
    sums: &mut [i128],
    any: &mut [bool],
    list: &[T],
    nulls: &[bool],
    of_row: &[u32],
) {
    let mut add = |group: u32, value: T| {
        sums[group as usize] += value.into();
        any[group as usize] = true;
    };
    let rows = of_row.iter().zip(list);
    match nulls {
        [] => rows.for_each(|(group, value)| add(*group, *value)),
        nulls => {
            let known = rows.zip(nulls).filter(|(_, null)| !**null);
            known.for_each(|((group, value), _)| add(*group, *value));
        }
    }
}

impl Vector {
    /// Puts a number in the place of another if that is NULL or worse.
    fn improve(&mut self, at: usize, value: ScalarRef<'_>, largest: bool) {
        let was_null = self.is_null(at);
        fn better<T: PartialOrd>(new: &T, old: &T, largest: bool) -> bool {
            if largest { new > old } else { new < old }
        }
        macro_rules! improve {
            ($list:expr, $new:expr) => {
                if was_null || better(&$new, &$list[at], largest) {
                    $list[at] = $new;
                }
            };
        }
        match (&mut self.values, value) {
            (Values::Int(list), ScalarRef::Int(v)) => improve!(list, v),
            (Values::UInt(list), ScalarRef::UInt(v)) => improve!(list, v),
            (Values::Float(list), ScalarRef::Float(v)) => improve!(list, v),
            (Values::Decimal(list), ScalarRef::Decimal(v)) => improve!(list.0, v),
            _ => unreachable!("a number of the vector's kind"),
        }
        if was_null {
            self.nulls[at] = false;
        }
    }
}

impl Groups {
    /// No groups by these keys, for aggregates over nodes of these kinds.
    pub(crate) fn new(keys: &[GroupKey], aggregates: &[Aggregate], kinds: &[Kind]) -> Self {
        let kind = |aggregate: &Aggregate| aggregate.node.map(|node| kinds[usize::from(node)]);
        let column = |key: &GroupKey| (kinds[usize::from(key.node)], CollationId(key.collation));
        Self {
            keys: GroupKeys::new(&keys.iter().map(column).collect::<Vec<_>>()),
            states: aggregates.iter().map(|a| State::new(a, kind(a))).collect(),
            reach: vec![Reach::default(); aggregates.len()],
            of_row: Vec::new(),
        }
    }

    /// Adds the rows of a batch. When something cannot be computed, none has been added.
    pub(crate) fn take(
        &mut self,
        batch: &mut Batch<'_>,
        keys: &[GroupKey],
        aggregates: &[Aggregate],
    ) -> Result<(), Inexact> {
        if batch.rows() == 0 {
            return Ok(());
        }
        let mut values: Vec<Option<Rc<Vector>>> = Vec::with_capacity(aggregates.len());
        for aggregate in aggregates {
            values.push(aggregate.node.map(|node| batch.value(node)).transpose()?);
        }
        let mut by: Vec<(Rc<Vector>, CollationId)> = Vec::with_capacity(keys.len());
        for key in keys {
            by.push((batch.value(key.node)?, CollationId(key.collation)));
        }
        if !self.sums_fit(&values, batch.rows()) {
            return Err(Inexact);
        }
        self.find_groups(&by, batch.rows(), &values);
        let groups = self.len();
        for (state, values) in self.states.iter_mut().zip(&values) {
            state.grow(groups);
            state.take(values.as_deref(), &self.of_row);
        }
        Ok(())
    }

    /// Whether no sum can leave its range by these rows, whatever their groups.
    fn sums_fit(&mut self, values: &[Option<Rc<Vector>>], rows: usize) -> bool {
        let aggregates = self.states.iter().zip(values).zip(&mut self.reach);
        aggregates.into_iter().all(|((state, vector), reach)| match (state, vector.as_deref()) {
            (State::Whole { sums, .. }, Some(vector)) => {
                let largest = match &vector.values {
                    Values::Int(_) | Values::UInt(_) => u128::from(u64::MAX),
                    Values::Decimal(list) => reach_of(&list.0),
                    _ => 0,
                };
                let more = largest.checked_mul(rows as u128);
                let after = |before: u128| {
                    more.and_then(|more| before.checked_add(more))
                        .filter(|after| *after <= i128::MAX as u128)
                };
                // The sums themselves are asked only when the bound says too little.
                let after = after(reach.whole).or_else(|| after(reach_of(sums)));
                reach.whole = after.unwrap_or(reach.whole);
                after.is_some()
            }
            (State::Float { sums, .. }, Some(vector)) => {
                let Values::Float(list) = &vector.values else { return true };
                let largest = |list: &[f64]| list.iter().fold(0.0_f64, |max, v| max.max(v.abs()));
                let more = largest(list) * rows as f64;
                let after = match reach.float + more {
                    after if after.is_finite() => after,
                    _ => largest(sums) + more,
                };
                if after.is_finite() {
                    reach.float = after;
                }
                after.is_finite()
            }
            _ => true,
        })
    }

    /// Adds some of the groups that another has made with the same keys and aggregates. When a sum
    /// could leave its range, none has been added.
    pub(crate) fn merge(
        &mut self,
        keys: &[GroupKey],
        block: &Block,
        rows: Range<usize>,
    ) -> Result<(), Inexact> {
        let places: Vec<u32> = (rows.start as u32..rows.end as u32).collect();
        let column = |vector: &Vector| Rc::new(vector.gather(&places));
        let (of_keys, rest) = block.columns().split_at(keys.len());
        let by: Vec<(Rc<Vector>, CollationId)> = of_keys
            .iter()
            .zip(keys)
            .map(|(vector, key)| (column(vector), CollationId(key.collation)))
            .collect();
        let values: Vec<Option<Rc<Vector>>> =
            rest.iter().map(|vector| Some(column(vector))).collect();
        if !self.sums_fit(&values, places.len()) {
            return Err(Inexact);
        }
        self.find_groups(&by, places.len(), &values);
        let groups = self.len();
        for (state, values) in self.states.iter_mut().zip(&values) {
            state.grow(groups);
            match (state, values.as_deref().map(|vector| &vector.values)) {
                (State::Count(counts), Some(Values::Int(list))) => {
                    let of_row = self.of_row.iter();
                    of_row.zip(list).for_each(|(group, more)| counts[*group as usize] += more);
                }
                (state, _) => state.take(values.as_deref(), &self.of_row),
            }
        }
        Ok(())
    }

    /// Finds the group of each row, making those that are new.
    fn find_groups(&mut self, by: &KeyColumns, rows: usize, values: &[Option<Rc<Vector>>]) {
        let Self { keys, states, of_row, .. } = self;
        keys.find(by, rows, of_row, |at| {
            for (state, values) in states.iter_mut().zip(values) {
                if let (State::First(firsts), Some(values)) = (state, values) {
                    firsts.push(values.get(at));
                }
            }
        });
    }

    /// About how many bytes the groups take.
    pub(crate) fn memory_bytes(&self) -> usize {
        let states: usize = self.states.iter().map(State::memory_bytes).sum();
        self.keys.memory_bytes() + states
    }

    /// Number of groups.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// A row for each group: what it is grouped by, then the aggregates.
    pub(crate) fn finish(self) -> Block {
        let (count, keys) = (self.len(), self.keys.into_values());
        let states = self.states.into_iter().map(State::finish);
        Block::new(count, keys.into_iter().chain(states).collect())
    }
}

/// The numbers of a list of whole numbers, as 64 bits.
pub(crate) fn whole_numbers(values: &Values) -> Option<impl Fn(usize) -> u64 + Copy + '_> {
    if !matches!(values, Values::Int(_) | Values::UInt(_)) {
        return None;
    }
    Some(move |at: usize| match values {
        Values::Int(list) => list[at] as u64,
        Values::UInt(list) => list[at],
        _ => 0,
    })
}

/// What no number of a list is beyond, and one of them is beyond half of. Without a branch.
fn reach_of(list: &[i128]) -> u128 {
    list.iter().fold(0, |all, number| all | (number ^ number >> 127) as u128) + 1
}

/// Appends the key of a value: the same bytes for equal values, and no key is the beginning of
/// another of its column.
pub(crate) fn push_key(key: &mut Vec<u8>, value: ScalarRef<'_>, id: CollationId) {
    key.push(u8::from(value != ScalarRef::Null));
    match value {
        ScalarRef::Null => {}
        ScalarRef::Int(v) => key.extend(v.to_be_bytes()),
        ScalarRef::UInt(v) => key.extend(v.to_be_bytes()),
        // Both zeros are equal.
        ScalarRef::Float(v) => key.extend((v + 0.0).to_bits().to_be_bytes()),
        ScalarRef::Decimal(v) => key.extend(v.to_be_bytes()),
        ScalarRef::Bytes(v) => {
            let start = key.len();
            key.extend([0; 4]);
            collation::sort_key(id, v, key);
            let size = (key.len() - start - 4) as u32;
            key[start..start + 4].copy_from_slice(&size.to_be_bytes());
        }
    }
}
