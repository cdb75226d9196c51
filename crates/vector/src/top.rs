//! The first rows in an order, of all that pass.
//!
//! # Guarantees
//! No row is dropped that so many others do not come before. More rows than asked for may be given
//! out: whoever asked orders them anyway, and cuts.

use std::cmp::Ordering;
use std::rc::Rc;

use codec::Codec;
use collation::CollationId;

use crate::block::Block;
use crate::evaluate::{Batch, Inexact};
use crate::program::NodeNumber;
use crate::vector::{Kind, ScalarRef, Vector};

/// Most rows that are kept in order.
pub const TOP_ROWS_MAX: u32 = 10_000;
/// Most keys of an order.
pub(crate) const TOP_KEYS_MAX: usize = 64;
/// Rows beyond those asked for that are taken before some are dropped.
const SLACK: usize = 512;

/// How many rows are wanted, and in which order. A help only: who does not know it gives out all
/// rows.
#[derive(Clone, Debug, PartialEq, Codec)]
pub struct Top {
    /// By what they are ordered, the first first.
    pub keys: Vec<TopKey>,
    /// How many, [`TOP_ROWS_MAX`] at most.
    pub rows: u32,
}

/// What rows are ordered by. NULL comes before all else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Codec)]
pub struct TopKey {
    /// The value.
    pub node: NodeNumber,
    /// The largest comes first, and NULL last.
    pub descending: bool,
    /// The number of the collation by which texts are ordered.
    pub collation: u16,
}

/// The first rows of those met so far, and some others.
#[derive(Debug)]
pub(crate) struct Best {
    /// What is given out of them.
    block: Block,
    /// Their keys.
    keys: Vec<Vector>,
    /// The last of so many rows as are wanted: what comes behind it is dropped.
    last: Option<u32>,
}

impl Best {
    /// No rows, for a program's nodes of these kinds.
    pub(crate) fn new(top: &Top, nodes: &[NodeNumber], kinds: &[Kind]) -> Self {
        let kind = |node: NodeNumber| kinds[usize::from(node)];
        Self {
            block: Block::empty(nodes.iter().map(|node| kind(*node))),
            keys: top.keys.iter().map(|key| Vector::new(kind(key.node))).collect(),
            last: None,
        }
    }

    /// Adds the rows of a batch, as far as they may be wanted.
    pub(crate) fn take(
        &mut self,
        batch: &mut Batch<'_>,
        nodes: &[NodeNumber],
        top: &Top,
    ) -> Result<(), Inexact> {
        let values = |batch: &mut Batch<'_>| -> Result<Vec<Rc<Vector>>, Inexact> {
            top.keys.iter().map(|key| batch.value(key.node)).collect()
        };
        let mut keys = values(batch)?;
        if let Some(last) = self.last {
            let before = |at: &u32| {
                let pairs = keys.iter().zip(&self.keys);
                let pairs = pairs.map(|(new, old)| (new.get(*at as usize), old.get(last as usize)));
                compared(pairs, &top.keys).is_lt()
            };
            let places: Vec<u32> = (0..batch.rows() as u32).filter(before).collect();
            if places.is_empty() {
                return Ok(());
            }
            batch.keep(&places);
            keys = values(batch)?;
        }
        let columns: Result<Vec<Rc<Vector>>, Inexact> =
            nodes.iter().map(|node| batch.value(*node)).collect();
        self.block.append(batch.rows(), &columns?);
        for (to, from) in self.keys.iter_mut().zip(&keys) {
            to.append(from);
        }
        if self.block.rows() >= top.rows as usize + SLACK.max(top.rows as usize) {
            self.cut(top);
        }
        Ok(())
    }

    /// Drops all rows but so many as are wanted.
    fn cut(&mut self, top: &Top) {
        let wanted = top.rows as usize;
        if self.block.rows() <= wanted {
            return;
        }
        let keys = &self.keys;
        let order = |a: &u32, b: &u32| {
            let pairs = keys.iter().map(|key| (key.get(*a as usize), key.get(*b as usize)));
            compared(pairs, &top.keys).then(a.cmp(b))
        };
        let mut places: Vec<u32> = (0..self.block.rows() as u32).collect();
        let (_, last, _) = places.select_nth_unstable_by(wanted - 1, order);
        let last = *last;
        places.truncate(wanted);
        places.sort_unstable();
        self.last = places.binary_search(&last).ok().map(|at| at as u32);
        self.block = self.block.gather(&places);
        self.keys = self.keys.iter().map(|key| key.gather(&places)).collect();
    }

    /// About how many bytes they take.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.block.memory_bytes() + self.keys.iter().map(Vector::memory_bytes).sum::<usize>()
    }

    /// The rows wanted.
    pub(crate) fn finish(mut self, top: &Top) -> Block {
        self.cut(top);
        self.block
    }
}

/// The order of two rows by their keys.
fn compared<'v>(
    pairs: impl Iterator<Item = (ScalarRef<'v>, ScalarRef<'v>)>,
    keys: &[TopKey],
) -> Ordering {
    for ((a, b), key) in pairs.zip(keys) {
        let order = match (a, b) {
            (ScalarRef::Int(a), ScalarRef::Int(b)) => a.cmp(&b),
            (ScalarRef::UInt(a), ScalarRef::UInt(b)) => a.cmp(&b),
            (ScalarRef::Decimal(a), ScalarRef::Decimal(b)) => a.cmp(&b),
            // No value is not a number.
            (ScalarRef::Float(a), ScalarRef::Float(b)) => {
                a.partial_cmp(&b).unwrap_or(Ordering::Equal)
            }
            (ScalarRef::Bytes(a), ScalarRef::Bytes(b)) => {
                collation::compare(CollationId(key.collation), a, b)
            }
            (a, b) => (a != ScalarRef::Null).cmp(&(b != ScalarRef::Null)),
        };
        let order = if key.descending { order.reverse() } else { order };
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}
