//! What is to be made of rows: nodes that compute columns from columns.

use codec::Codec;
use collation::CollationId;
use model::{ColumnId, ColumnType, Comparison, Table};

use crate::key_set::KeySet;
use crate::top::{TOP_KEYS_MAX, TOP_ROWS_MAX, Top, TopKey};
use crate::vector::{Kind, Scalar};

/// Most nodes of a program.
pub const NODES_MAX: usize = 512;
/// Most parts of AND, OR, CASE and IN together.
pub const PARTS_MAX: usize = 65_536;
/// Longest constant text.
const CONSTANT_SIZE_MAX: usize = 4_096;

/// Which node, in the order of the program.
pub type NodeNumber = u16;

/// A program over the rows of a table.
#[derive(Clone, Debug, PartialEq, Codec)]
pub struct Program {
    /// The columns that are read, each with how it lies in a vector. What cannot be computed is
    /// given out as rows of these columns.
    pub inputs: Vec<Input>,
    /// A column that is NULL where all values of a row lie in it. Nothing is computed with other
    /// rows: they are given out.
    pub references: Option<ColumnId>,
    /// What is computed. A node refers to those before it.
    pub nodes: Vec<Node>,
    /// Truth values, all of which must be true of a row.
    pub filter: Vec<NodeNumber>,
    /// What comes of the rows that pass.
    pub yields: Yield,
    /// Rows are dropped first that have none of these keys. A help only: who does not know it reads
    /// on, and whoever asked must do without.
    #[codec(since = 4)]
    pub members: Vec<KeySet>,
    /// Only the first rows are wanted, where the program yields rows.
    #[codec(since = 5)]
    pub top: Option<Top>,
}

/// A column that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Codec)]
pub struct Input {
    /// Which.
    pub column: ColumnId,
    /// How it lies in a vector. A fixed column may be a decimal, or bytes.
    pub kind: Kind,
}

/// What comes of the rows that pass.
#[derive(Clone, Debug, PartialEq, Codec)]
pub enum Yield {
    /// These nodes of each row.
    Rows(Vec<NodeNumber>),
    /// A row for each group: what it is grouped by, then the aggregates, in order.
    Groups {
        /// Rows for which all of these are equal are a group; without any all rows are one.
        keys: Vec<GroupKey>,
        /// What is computed of each group.
        aggregates: Vec<Aggregate>,
    },
}

/// What rows are grouped by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Codec)]
pub struct GroupKey {
    /// The value.
    pub node: NodeNumber,
    /// The number of the collation under which texts are equal.
    pub collation: u16,
}

/// An aggregate of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Codec)]
pub struct Aggregate {
    /// Which.
    pub function: AggregateFunction,
    /// Of what; nothing for the number of rows.
    pub node: Option<NodeNumber>,
    /// The number of the collation by which texts are ordered.
    pub collation: u16,
}

/// Kinds of aggregate. NULL counts for none but `First`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Codec)]
pub enum AggregateFunction {
    /// How many: an `Int`.
    Count,
    /// Their sum: a `Decimal` of whole numbers and decimals, or a `Float`; NULL of nothing.
    Sum,
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// The value of some row of the group, NULL too.
    First,
}

/// A value of each row.
#[derive(Clone, Debug, PartialEq, Codec)]
pub enum Node {
    /// An input, by its place in the program's list.
    Input(u16),
    /// The same value in each row.
    Constant(Scalar),
    /// NULL in each row, of some kind.
    Null(Kind),
    /// Truth: a comparison of two nodes of one kind; NULL if one is.
    Compare {
        /// Which order makes it true.
        order: Comparison,
        /// Left operand.
        left: NodeNumber,
        /// Right operand.
        right: NodeNumber,
        /// The number of the collation by which texts are compared.
        collation: u16,
    },
    /// Truth: whether the value is one of these, which are of its kind.
    In {
        /// What is looked for.
        operand: NodeNumber,
        /// Where.
        list: Vec<Scalar>,
        /// NULL is in the list too: what is not found is unknown then.
        with_null: bool,
        /// The number of the collation under which texts are equal.
        collation: u16,
    },
    /// Truth: whether a text matches a pattern.
    Like {
        /// The text.
        operand: NodeNumber,
        /// The pattern.
        pattern: Box<[u8]>,
        /// The character that takes the meaning from `%` and `_`, as a code point.
        escape: Option<u32>,
        /// The number of the collation.
        collation: u16,
    },
    /// Truth: all are true, or one is false.
    And(Vec<NodeNumber>),
    /// Truth: one is true, or all are false.
    Or(Vec<NodeNumber>),
    /// Truth: the other one; NULL stays.
    Not(NodeNumber),
    /// Truth, never NULL: whether the value is NULL.
    IsNull(NodeNumber),
    /// Sum of two nodes of one kind of number.
    Add(NodeNumber, NodeNumber),
    /// Difference, likewise.
    Subtract(NodeNumber, NodeNumber),
    /// Product, likewise. The point of a product of decimals is that of both together.
    Multiply(NodeNumber, NodeNumber),
    /// A whole number or decimal times a power of ten, as a decimal.
    Scale {
        /// What.
        operand: NodeNumber,
        /// The exponent, 0 to 38.
        by: u8,
    },
    /// A whole number as floating-point number.
    Float(NodeNumber),
    /// A stored date as a stored date with time, at midnight.
    Midnight(NodeNumber),
    /// A part of a stored date, or of one with time, as `Int`.
    Part {
        /// The date.
        operand: NodeNumber,
        /// Which part.
        part: DatePart,
        /// It has a time.
        timed: bool,
    },
    /// The value after the first condition that is true; all values are of one kind.
    Case {
        /// Conditions and values.
        branches: Vec<(NodeNumber, NodeNumber)>,
        /// The value if none is.
        otherwise: NodeNumber,
    },
}

/// A part of a date.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Codec)]
pub enum DatePart {
    /// 0 to 9999.
    Year,
    /// 0 to 12.
    Month,
    /// 0 to 31.
    Day,
}

/// Why a program cannot be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bad(pub &'static str);

impl Program {
    /// Whether the program can be run on rows of a table: columns it has, nodes that refer to
    /// earlier ones and fit together, known collations. The kinds of the nodes.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self, table: &Table) -> Result<Vec<Kind>, Bad> {
        for input in &self.inputs {
            let column = table.columns.get(usize::from(input.column.0));
            let column = column.ok_or(Bad("no such column"))?;
            if !lies_so(column.column_type, input.kind) {
                return Err(Bad("a column is of another kind"));
            }
        }
        if self.references.is_some_and(|c| usize::from(c.0) >= table.columns.len()) {
            return Err(Bad("no such column"));
        }
        self.check_nodes()
    }

    /// Whether everything can be computed exactly of any rows.
    pub fn is_exact(&self) -> bool {
        let computes = |node: &Node| {
            matches!(
                node,
                Node::Add(..) | Node::Subtract(..) | Node::Multiply(..) | Node::Scale { .. }
            )
        };
        let sums = match &self.yields {
            Yield::Rows(_) => false,
            Yield::Groups { aggregates, .. } => {
                aggregates.iter().any(|a| a.function == AggregateFunction::Sum)
            }
        };
        !sums && !self.nodes.iter().any(computes)
    }

    /// For each input, whether the filter asks for it. The nodes have been found good.
    pub(crate) fn inputs_of_filter(&self) -> Vec<bool> {
        let mut inputs = vec![false; self.inputs.len()];
        let mut wanted = vec![false; self.nodes.len()];
        self.filter.iter().for_each(|node| wanted[usize::from(*node)] = true);
        // A node refers to those before it.
        for (at, node) in self.nodes.iter().enumerate().rev() {
            if !wanted[at] {
                continue;
            }
            match node {
                Node::Input(place) => inputs[usize::from(*place)] = true,
                other => other.operands(&mut |operand| wanted[usize::from(operand)] = true),
            }
        }
        inputs
    }

    /// Likewise, whatever its inputs are read from.
    pub(crate) fn check_nodes(&self) -> Result<Vec<Kind>, Bad> {
        if self.nodes.len() > NODES_MAX {
            return Err(Bad("too many nodes"));
        }
        for set in &self.members {
            let input = self.inputs.get(usize::from(set.input)).ok_or(Bad("no such input"))?;
            if !matches!(input.kind, Kind::Int | Kind::UInt) {
                return Err(Bad("a set of keys is of whole numbers"));
            }
        }
        let mut kinds = Vec::with_capacity(self.nodes.len());
        let mut parts = 0;
        for node in &self.nodes {
            parts += node.part_count();
            if parts > PARTS_MAX {
                return Err(Bad("too many parts"));
            }
            let kind = Checked { inputs: &self.inputs, kinds: &kinds }.kind_of(node)?;
            kinds.push(kind);
        }
        let checked = Checked { inputs: &self.inputs, kinds: &kinds };
        self.filter.iter().try_for_each(|node| checked.truth(*node))?;
        if let Some(top) = &self.top {
            checked.top(top)?;
        }
        match &self.yields {
            Yield::Rows(nodes) => {
                nodes.iter().try_for_each(|node| checked.kind(*node).map(|_| ()))?;
            }
            Yield::Groups { .. } if self.top.is_some() => {
                return Err(Bad("only rows have an order"));
            }
            Yield::Groups { keys, aggregates } => {
                for key in keys {
                    let kind = checked.kind(key.node)?;
                    known_collation(kind, key.collation)?;
                }
                for aggregate in aggregates {
                    checked.aggregate(aggregate)?;
                }
            }
        }
        Ok(kinds)
    }
}

/// Whether a stored column can lie in a vector so.
pub(crate) fn lies_so(column: ColumnType, kind: Kind) -> bool {
    match column {
        ColumnType::Int(_) => kind == Kind::Int,
        ColumnType::UInt(_) => kind == Kind::UInt,
        ColumnType::Float => kind == Kind::Float,
        ColumnType::Fixed(size) => kind == Kind::Bytes || kind == Kind::Decimal && size <= 16,
        ColumnType::Variable(_) | ColumnType::Text { .. } => kind == Kind::Bytes,
    }
}

pub(crate) fn known_collation(kind: Kind, number: u16) -> Result<(), Bad> {
    if kind == Kind::Bytes && CollationId(number).get().is_none() {
        Err(Bad("no such collation"))
    } else {
        Ok(())
    }
}

impl Node {
    /// Calls `each` with the nodes it is computed from.
    fn operands(&self, each: &mut dyn FnMut(NodeNumber)) {
        match self {
            Node::Input(_) | Node::Constant(_) | Node::Null(_) => {}
            Node::Compare { left, right, .. }
            | Node::Add(left, right)
            | Node::Subtract(left, right)
            | Node::Multiply(left, right) => [*left, *right].into_iter().for_each(each),
            Node::In { operand, .. }
            | Node::Like { operand, .. }
            | Node::Not(operand)
            | Node::IsNull(operand)
            | Node::Scale { operand, .. }
            | Node::Float(operand)
            | Node::Midnight(operand)
            | Node::Part { operand, .. } => each(*operand),
            Node::And(parts) | Node::Or(parts) => parts.iter().copied().for_each(each),
            Node::Case { branches, otherwise } => {
                branches.iter().flat_map(|(a, b)| [*a, *b]).for_each(&mut *each);
                each(*otherwise);
            }
        }
    }

    /// How many parts it has: branches, elements of a list.
    pub fn part_count(&self) -> usize {
        match self {
            Node::And(parts) | Node::Or(parts) => parts.len(),
            Node::In { list, .. } => list.len(),
            Node::Case { branches, .. } => branches.len(),
            _ => 1,
        }
    }
}

/// Nodes that have been found good.
struct Checked<'a> {
    inputs: &'a [Input],
    kinds: &'a [Kind],
}

impl Checked<'_> {
    fn kind(&self, node: NodeNumber) -> Result<Kind, Bad> {
        let kind = self.kinds.get(usize::from(node)).copied();
        kind.ok_or(Bad("a node refers to one that is not before it"))
    }

    fn truth(&self, node: NodeNumber) -> Result<(), Bad> {
        match self.kind(node)? {
            Kind::Int => Ok(()),
            _ => Err(Bad("a condition is no truth value")),
        }
    }

    fn top(&self, top: &Top) -> Result<(), Bad> {
        if !(1..=TOP_ROWS_MAX).contains(&top.rows) || top.keys.len() > TOP_KEYS_MAX {
            return Err(Bad("too many rows are to be kept in order, or none"));
        }
        let known = |key: &TopKey| known_collation(self.kind(key.node)?, key.collation);
        top.keys.iter().try_for_each(known)
    }

    fn same(&self, left: NodeNumber, right: NodeNumber) -> Result<Kind, Bad> {
        let (left, right) = (self.kind(left)?, self.kind(right)?);
        if left == right { Ok(left) } else { Err(Bad("operands of different kinds")) }
    }

    fn number(&self, left: NodeNumber, right: NodeNumber) -> Result<Kind, Bad> {
        match self.same(left, right)? {
            Kind::Bytes => Err(Bad("arithmetic on texts")),
            kind => Ok(kind),
        }
    }

    fn whole(&self, operand: NodeNumber, also: Kind) -> Result<(), Bad> {
        let kind = self.kind(operand)?;
        if kind == also || matches!(kind, Kind::Int | Kind::UInt) {
            Ok(())
        } else {
            Err(Bad("an operand of another kind of number is needed"))
        }
    }

    fn stored_date(&self, operand: NodeNumber) -> Result<(), Bad> {
        match self.kind(operand)? {
            Kind::UInt => Ok(()),
            _ => Err(Bad("a stored date is needed")),
        }
    }

    /// The kind of a node whose operands are checked.
    fn kind_of(&self, node: &Node) -> Result<Kind, Bad> {
        Ok(match node {
            Node::Input(place) => {
                let input = self.inputs.get(usize::from(*place));
                input.ok_or(Bad("no such input"))?.kind
            }
            Node::Constant(Scalar::Bytes(text)) if text.len() > CONSTANT_SIZE_MAX => {
                return Err(Bad("a constant is too long"));
            }
            Node::Constant(value) => value.kind(),
            Node::Null(kind) => *kind,
            Node::Compare { left, right, collation, .. } => {
                known_collation(self.same(*left, *right)?, *collation)?;
                Kind::Int
            }
            Node::In { operand, list, collation, .. } => {
                let kind = self.kind(*operand)?;
                if list.iter().any(|element| element.kind() != kind) {
                    return Err(Bad("a list of another kind"));
                }
                known_collation(kind, *collation)?;
                Kind::Int
            }
            Node::Like { operand, escape, collation, .. } => {
                let kind = self.kind(*operand)?;
                let strange = escape.is_some_and(|escape| char::from_u32(escape).is_none());
                if kind != Kind::Bytes || strange {
                    return Err(Bad("LIKE is for texts"));
                }
                known_collation(kind, *collation)?;
                Kind::Int
            }
            Node::And(parts) | Node::Or(parts) => {
                parts.iter().try_for_each(|part| self.truth(*part))?;
                Kind::Int
            }
            Node::Not(operand) => {
                self.truth(*operand)?;
                Kind::Int
            }
            Node::IsNull(operand) => {
                self.kind(*operand)?;
                Kind::Int
            }
            Node::Add(left, right) | Node::Subtract(left, right) | Node::Multiply(left, right) => {
                self.number(*left, *right)?
            }
            Node::Scale { .. } | Node::Float(_) | Node::Midnight(_) | Node::Part { .. } => {
                self.conversion(node)?
            }
            Node::Case { branches, otherwise } => {
                for (condition, value) in branches {
                    self.truth(*condition)?;
                    self.same(*value, *otherwise)?;
                }
                self.kind(*otherwise)?
            }
        })
    }

    /// Likewise, of a node that makes something else of its only operand.
    fn conversion(&self, node: &Node) -> Result<Kind, Bad> {
        Ok(match node {
            Node::Scale { operand, by } => {
                self.whole(*operand, Kind::Decimal)?;
                if *by > 38 {
                    return Err(Bad("a power of ten beyond 38"));
                }
                Kind::Decimal
            }
            Node::Float(operand) => {
                self.whole(*operand, Kind::Float)?;
                Kind::Float
            }
            Node::Midnight(operand) => {
                self.stored_date(*operand)?;
                Kind::UInt
            }
            Node::Part { operand, .. } => {
                self.stored_date(*operand)?;
                Kind::Int
            }
            _ => return Err(Bad("no conversion")),
        })
    }

    fn aggregate(&self, aggregate: &Aggregate) -> Result<(), Bad> {
        let Some(node) = aggregate.node else {
            return match aggregate.function {
                AggregateFunction::Count => Ok(()),
                _ => Err(Bad("an aggregate of nothing")),
            };
        };
        let kind = self.kind(node)?;
        match aggregate.function {
            AggregateFunction::Sum if kind == Kind::Bytes => Err(Bad("a sum of texts")),
            AggregateFunction::Min | AggregateFunction::Max => {
                known_collation(kind, aggregate.collation)
            }
            _ => Ok(()),
        }
    }
}
