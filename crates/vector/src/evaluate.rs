//! Nodes over a batch of rows.
//!
//! A node is computed once for a batch, when something asks for it. The values of NULLs are those
//! that their operands happen to have: no problem of such a value counts.

use std::rc::Rc;

use collation::CollationId;
use model::Comparison;

use crate::program::{DatePart, Node, NodeNumber};
use crate::vector::{Decimals, Kind, Scalar, Texts, Values, Vector};

/// Something cannot be computed exactly: a number out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inexact;

/// The nodes of a batch, as far as they have been computed.
pub(crate) struct Batch<'a> {
    nodes: &'a [Node],
    kinds: &'a [Kind],
    /// Of all rows.
    inputs: Vec<Rc<Vector>>,
    /// The rows that are left; none if all are.
    places: Option<Vec<u32>>,
    rows: usize,
    known: Vec<Option<Rc<Vector>>>,
}

/// The values of an operand: one for all rows, or one for each.
enum Operand<'a, T> {
    One(T),
    Many(&'a [T]),
}

impl<T: Copy> Operand<'_, T> {
    #[inline]
    fn get(&self, at: usize) -> T {
        match self {
            Operand::One(value) => *value,
            Operand::Many(values) => values[at],
        }
    }
}

/// Numbers with checked arithmetic.
trait Number: Copy + Default + PartialOrd {
    fn apply(op: Operation, a: Self, b: Self) -> Option<Self>;
}

#[derive(Clone, Copy)]
enum Operation {
    Add,
    Subtract,
    Multiply,
}

macro_rules! whole_number {
    ($($number:ty),*) => {$(
        impl Number for $number {
            #[inline]
            fn apply(op: Operation, a: Self, b: Self) -> Option<Self> {
                match op {
                    Operation::Add => a.checked_add(b),
                    Operation::Subtract => a.checked_sub(b),
                    Operation::Multiply => a.checked_mul(b),
                }
            }
        }
    )*};
}

whole_number!(i64, u64, i128);

impl Number for f64 {
    #[inline]
    fn apply(op: Operation, a: Self, b: Self) -> Option<Self> {
        let value = match op {
            Operation::Add => a + b,
            Operation::Subtract => a - b,
            Operation::Multiply => a * b,
        };
        value.is_finite().then_some(value)
    }
}

impl<'a> Batch<'a> {
    /// A batch of so many rows with these inputs. Nodes and kinds are those of a program that was
    /// checked.
    pub(crate) fn new(
        nodes: &'a [Node],
        kinds: &'a [Kind],
        inputs: Vec<Rc<Vector>>,
        rows: usize,
    ) -> Self {
        Self { nodes, kinds, inputs, places: None, rows, known: vec![None; nodes.len()] }
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// The rows for which these conditions are true. What a later condition makes of a row that an
    /// earlier one has dropped does not count.
    pub(crate) fn filtered(mut self, conditions: &[NodeNumber]) -> Result<Self, Inexact> {
        for condition in conditions {
            if self.rows == 0 {
                break;
            }
            self.keep_passing(*condition)?;
        }
        Ok(self)
    }

    fn keep_passing(&mut self, condition: NodeNumber) -> Result<(), Inexact> {
        let truth = self.value(condition)?;
        let list = ints_of(&truth);
        let passes = |at: &usize| list[*at] != 0 && !truth.is_null(*at);
        if (0..list.len()).all(|at| passes(&at)) {
            return Ok(());
        }
        let passing: Vec<u32> = (0..list.len()).filter(passes).map(|at| at as u32).collect();
        self.keep(&passing);
        Ok(())
    }

    /// Goes on with some of the rows that are left.
    pub(crate) fn keep(&mut self, kept: &[u32]) {
        let places: Vec<u32> = match &self.places {
            Some(before) => kept.iter().map(|at| before[*at as usize]).collect(),
            None => kept.to_vec(),
        };
        self.rows = places.len();
        self.places = Some(places);
        self.known.fill(None);
    }

    /// The places of the rows that are left; nothing if all are.
    pub(crate) fn into_places(self) -> Option<Vec<u32>> {
        self.places
    }

    /// The values of a node.
    pub(crate) fn value(&mut self, node: NodeNumber) -> Result<Rc<Vector>, Inexact> {
        let at = usize::from(node);
        if let Some(known) = &self.known[at] {
            return Ok(known.clone());
        }
        let nodes = self.nodes;
        let vector = match &nodes[at] {
            Node::Input(place) => {
                let input = &self.inputs[usize::from(*place)];
                match &self.places {
                    Some(places) => Rc::new(input.gather(places)),
                    None => input.clone(),
                }
            }
            other => Rc::new(self.compute(other, self.kinds[at])?),
        };
        self.known[at] = Some(vector.clone());
        Ok(vector)
    }

    fn compute(&mut self, node: &Node, kind: Kind) -> Result<Vector, Inexact> {
        Ok(match node {
            Node::Input(_) => unreachable!("taken as it is"),
            Node::Constant(value) => repeated(value, self.rows),
            Node::Null(_) => {
                let mut vector = Vector::new(kind);
                (0..self.rows).for_each(|_| vector.push_null());
                vector
            }
            Node::Compare { order, left, right, collation } => {
                self.compare(*order, *left, *right, CollationId(*collation))?
            }
            Node::In { operand, list, with_null, collation } => {
                let operand = self.value(*operand)?;
                let found = find(&operand, list, CollationId(*collation));
                let mut nulls = operand.nulls.clone();
                if *with_null {
                    nulls.resize(found.len(), false);
                    nulls.iter_mut().zip(&found).for_each(|(null, found)| *null |= *found == 0);
                }
                Vector { values: Values::Int(found), nulls }
            }
            Node::Like { operand, pattern, escape, collation } => {
                let operand = self.value(*operand)?;
                let texts = texts_of(&operand);
                let (id, escape) = (CollationId(*collation), escape.and_then(char::from_u32));
                let pattern = collation::Pattern::new(id, pattern, escape);
                let like = |at| i64::from(pattern.matches(texts.get(at)));
                let values = Values::Int((0..texts.len()).map(like).collect());
                Vector { values, nulls: operand.nulls.clone() }
            }
            Node::And(parts) => self.combine(parts, false)?,
            Node::Or(parts) => self.combine(parts, true)?,
            Node::Not(operand) => {
                let operand = self.value(*operand)?;
                let list = ints_of(&operand).iter().map(|v| i64::from(*v == 0)).collect();
                Vector { values: Values::Int(list), nulls: operand.nulls.clone() }
            }
            Node::IsNull(operand) => {
                let operand = self.value(*operand)?;
                let null = |at| i64::from(operand.is_null(at));
                let values = Values::Int((0..operand.len()).map(null).collect());
                Vector { values, nulls: Vec::new() }
            }
            Node::Add(left, right) => self.arithmetic(Operation::Add, *left, *right)?,
            Node::Subtract(left, right) => self.arithmetic(Operation::Subtract, *left, *right)?,
            Node::Multiply(left, right) => self.arithmetic(Operation::Multiply, *left, *right)?,
            Node::Scale { operand, .. }
            | Node::Float(operand)
            | Node::Midnight(operand)
            | Node::Part { operand, .. } => converted(node, &*self.value(*operand)?)?,
            Node::Case { branches, otherwise } => self.case(branches, *otherwise, kind)?,
        })
    }

    /// A constant operand, to be compared or computed with as such.
    fn constant(&self, node: NodeNumber) -> Option<&'a Scalar> {
        let nodes = self.nodes;
        match &nodes[usize::from(node)] {
            Node::Constant(value) => Some(value),
            _ => None,
        }
    }

    fn compare(
        &mut self,
        order: Comparison,
        left: NodeNumber,
        right: NodeNumber,
        id: CollationId,
    ) -> Result<Vector, Inexact> {
        if let Some(constant) = self.constant(right) {
            let operand = self.value(left)?;
            return Ok(compared_with(&operand, constant, order, id));
        }
        if let Some(constant) = self.constant(left) {
            let operand = self.value(right)?;
            return Ok(compared_with(&operand, constant, turned(order), id));
        }
        let (left, right) = (self.value(left)?, self.value(right)?);
        let list = match (&left.values, &right.values) {
            (Values::Int(a), Values::Int(b)) => ordered(a, &Operand::Many(b), order),
            (Values::UInt(a), Values::UInt(b)) => ordered(a, &Operand::Many(b), order),
            (Values::Float(a), Values::Float(b)) => ordered(a, &Operand::Many(b), order),
            (Values::Decimal(a), Values::Decimal(b)) => {
                ordered(&a.0, &Operand::Many(b.0.as_slice()), order)
            }
            (Values::Bytes(a), Values::Bytes(b)) => {
                let of = |at| order.holds(collation::compare(id, a.get(at), b.get(at)));
                (0..a.len()).map(|at| i64::from(of(at))).collect()
            }
            _ => unreachable!("operands of one kind"),
        };
        Ok(Vector { values: Values::Int(list), nulls: either(&left, &right) })
    }

    /// AND or OR: `deciding` is the truth value that settles the whole.
    fn combine(&mut self, parts: &[NodeNumber], deciding: bool) -> Result<Vector, Inexact> {
        let mut settled = vec![false; self.rows];
        let mut unknown = vec![false; self.rows];
        for part in parts {
            let truth = self.value(*part)?;
            let list = ints_of(&truth);
            for at in 0..self.rows {
                let null = truth.is_null(at);
                unknown[at] |= null;
                settled[at] |= !null && (list[at] != 0) == deciding;
            }
        }
        let value = |settled: &bool| i64::from(*settled == deciding);
        let list = settled.iter().map(value).collect();
        let nulls: Vec<bool> = unknown.iter().zip(&settled).map(|(u, s)| *u && !*s).collect();
        let nulls = if nulls.contains(&true) { nulls } else { Vec::new() };
        Ok(Vector { values: Values::Int(list), nulls })
    }

    fn arithmetic(
        &mut self,
        op: Operation,
        left: NodeNumber,
        right: NodeNumber,
    ) -> Result<Vector, Inexact> {
        let (left, right) = (self.value(left)?, self.value(right)?);
        let nulls = either(&left, &right);
        let values = match (&left.values, &right.values) {
            (Values::Int(a), Values::Int(b)) => Values::Int(computed(op, a, b, &nulls)?),
            (Values::UInt(a), Values::UInt(b)) => Values::UInt(computed(op, a, b, &nulls)?),
            (Values::Float(a), Values::Float(b)) => Values::Float(computed(op, a, b, &nulls)?),
            (Values::Decimal(a), Values::Decimal(b)) => {
                Values::Decimal(Decimals(computed(op, &a.0, &b.0, &nulls)?))
            }
            _ => unreachable!("numbers of one kind"),
        };
        Ok(Vector { values, nulls })
    }

    fn case(
        &mut self,
        branches: &[(NodeNumber, NodeNumber)],
        otherwise: NodeNumber,
        kind: Kind,
    ) -> Result<Vector, Inexact> {
        let mut conditions = Vec::with_capacity(branches.len());
        let mut values = Vec::with_capacity(branches.len());
        for (condition, value) in branches {
            conditions.push(self.value(*condition)?);
            values.push(self.value(*value)?);
        }
        let otherwise = self.value(otherwise)?;
        let mut vector = Vector::new(kind);
        for at in 0..self.rows {
            let holds = |truth: &Rc<Vector>| ints_of(truth)[at] != 0 && !truth.is_null(at);
            let chosen = conditions.iter().position(holds).map_or(&otherwise, |n| &values[n]);
            vector.push(chosen.get(at));
        }
        Ok(vector)
    }
}

/// The operator with its operands exchanged.
fn turned(order: Comparison) -> Comparison {
    match order {
        Comparison::Less => Comparison::Greater,
        Comparison::LessOrEqual => Comparison::GreaterOrEqual,
        Comparison::Greater => Comparison::Less,
        Comparison::GreaterOrEqual => Comparison::LessOrEqual,
        same => same,
    }
}

/// The values of a node that makes something else of each value of its only operand.
fn converted(node: &Node, operand: &Vector) -> Result<Vector, Inexact> {
    let values = match node {
        Node::Scale { by, .. } => return scaled(operand, 10_i128.pow(u32::from(*by))),
        Node::Float(_) => Values::Float(match &operand.values {
            Values::Int(list) => list.iter().map(|v| *v as f64).collect(),
            Values::UInt(list) => list.iter().map(|v| *v as f64).collect(),
            Values::Float(list) => list.clone(),
            _ => unreachable!("checked"),
        }),
        Node::Midnight(_) => {
            Values::UInt(uints_of(operand).iter().map(|date| date << TIME_BITS).collect())
        }
        Node::Part { part, timed, .. } => {
            let bits = if *timed { TIME_BITS } else { 0 };
            let of = |stored: &u64| {
                let date = stored >> bits;
                let part = match part {
                    DatePart::Year => date >> 9,
                    DatePart::Month => date >> 5 & 15,
                    DatePart::Day => date & 31,
                };
                part as i64
            };
            Values::Int(uints_of(operand).iter().map(of).collect())
        }
        _ => unreachable!("a conversion"),
    };
    Ok(Vector { values, nulls: operand.nulls.clone() })
}

fn repeated(value: &Scalar, rows: usize) -> Vector {
    let values = match value {
        Scalar::Int(v) => Values::Int(vec![*v; rows]),
        Scalar::UInt(v) => Values::UInt(vec![*v; rows]),
        Scalar::Float(v) => Values::Float(vec![*v; rows]),
        Scalar::Decimal(v) => Values::Decimal(Decimals(vec![v.0; rows])),
        Scalar::Bytes(v) => {
            let mut texts = Texts::default();
            (0..rows).for_each(|_| texts.push(v));
            Values::Bytes(texts)
        }
    };
    Vector { values, nulls: Vec::new() }
}

fn ints_of(vector: &Vector) -> &[i64] {
    match &vector.values {
        Values::Int(list) => list,
        _ => unreachable!("checked to be truth values"),
    }
}

fn uints_of(vector: &Vector) -> &[u64] {
    match &vector.values {
        Values::UInt(list) => list,
        _ => unreachable!("checked to be stored dates"),
    }
}

fn texts_of(vector: &Vector) -> &Texts {
    match &vector.values {
        Values::Bytes(list) => list,
        _ => unreachable!("checked to be texts"),
    }
}

/// NULL where one of both is.
fn either(left: &Vector, right: &Vector) -> Vec<bool> {
    match (left.nulls.is_empty(), right.nulls.is_empty()) {
        (true, _) => right.nulls.clone(),
        (_, true) => left.nulls.clone(),
        _ => left.nulls.iter().zip(&right.nulls).map(|(a, b)| *a || *b).collect(),
    }
}

/// Truth values of a comparison, without a branch in the loop.
fn ordered<T: Copy + PartialOrd>(
    left: &[T],
    right: &Operand<'_, T>,
    order: Comparison,
) -> Vec<i64> {
    fn each<T: Copy>(left: &[T], right: &Operand<'_, T>, holds: impl Fn(T, T) -> bool) -> Vec<i64> {
        match right {
            Operand::One(b) => left.iter().map(|a| i64::from(holds(*a, *b))).collect(),
            Operand::Many(b) => {
                left.iter().zip(*b).map(|(a, b)| i64::from(holds(*a, *b))).collect()
            }
        }
    }
    match order {
        Comparison::Equal => each(left, right, |a, b| a == b),
        Comparison::NotEqual => each(left, right, |a, b| a != b),
        Comparison::Less => each(left, right, |a, b| a < b),
        Comparison::LessOrEqual => each(left, right, |a, b| a <= b),
        Comparison::Greater => each(left, right, |a, b| a > b),
        Comparison::GreaterOrEqual => each(left, right, |a, b| a >= b),
    }
}

fn compared_with(
    operand: &Vector,
    constant: &Scalar,
    order: Comparison,
    id: CollationId,
) -> Vector {
    let list = match (&operand.values, constant) {
        (Values::Int(list), Scalar::Int(v)) => ordered(list, &Operand::One(*v), order),
        (Values::UInt(list), Scalar::UInt(v)) => ordered(list, &Operand::One(*v), order),
        (Values::Float(list), Scalar::Float(v)) => ordered(list, &Operand::One(*v), order),
        (Values::Decimal(list), Scalar::Decimal(v)) => ordered(&list.0, &Operand::One(v.0), order),
        (Values::Bytes(list), Scalar::Bytes(v)) => {
            let of = |at| order.holds(collation::compare(id, list.get(at), v));
            (0..list.len()).map(|at| i64::from(of(at))).collect()
        }
        _ => unreachable!("operands of one kind"),
    };
    Vector { values: Values::Int(list), nulls: operand.nulls.clone() }
}

/// Whether each value is in a list.
fn find(operand: &Vector, list: &[Scalar], id: CollationId) -> Vec<i64> {
    let found = |at: usize| {
        list.iter().any(|element| match (&operand.values, element) {
            (Values::Int(list), Scalar::Int(v)) => list[at] == *v,
            (Values::UInt(list), Scalar::UInt(v)) => list[at] == *v,
            (Values::Float(list), Scalar::Float(v)) => list[at] == *v,
            (Values::Decimal(list), Scalar::Decimal(v)) => list.0[at] == v.0,
            (Values::Bytes(list), Scalar::Bytes(v)) => collation::equal(id, list.get(at), v),
            _ => unreachable!("a list of the operand's kind"),
        })
    };
    (0..operand.len()).map(|at| i64::from(found(at))).collect()
}

fn computed<T: Number>(
    op: Operation,
    left: &[T],
    right: &[T],
    nulls: &[bool],
) -> Result<Vec<T>, Inexact> {
    let right = Operand::Many(right);
    let mut values = Vec::with_capacity(left.len());
    for (at, a) in left.iter().enumerate() {
        values.push(match T::apply(op, *a, right.get(at)) {
            Some(value) => value,
            None if nulls.get(at).copied().unwrap_or(false) => T::default(),
            None => return Err(Inexact),
        });
    }
    Ok(values)
}

fn scaled(operand: &Vector, factor: i128) -> Result<Vector, Inexact> {
    let times = |(at, value): (usize, i128)| match value.checked_mul(factor) {
        Some(value) => Ok(value),
        None if operand.is_null(at) => Ok(0),
        None => Err(Inexact),
    };
    let list: Result<Vec<i128>, Inexact> = match &operand.values {
        Values::Int(list) => list.iter().map(|v| i128::from(*v)).enumerate().map(times).collect(),
        Values::UInt(list) => list.iter().map(|v| i128::from(*v)).enumerate().map(times).collect(),
        Values::Decimal(list) => list.0.iter().copied().enumerate().map(times).collect(),
        _ => unreachable!("checked to be whole"),
    };
    Ok(Vector { values: Values::Decimal(Decimals(list?)), nulls: operand.nulls.clone() })
}

/// Bits of a stored date with time below those of its date.
const TIME_BITS: u32 = 37;
