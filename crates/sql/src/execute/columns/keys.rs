//! The keys of both sides of a join.

use collation::CollationId;
use sql_expression::{Expression, Form, ProgramBuilder, kind_of};
use vector::{Computer, Inexact, KeyColumn, Kind};

use crate::execute::columns::batch::ColumnBatch;
use crate::execute::columns::shape::Shape;
use crate::execute::run::{Run, with_parameters};
use crate::plan::operator::HashKey;

/// Programs for the keys of both sides.
pub(super) struct Keys {
    left: Computer,
    right: Computer,
    collations: Vec<CollationId>,
    /// The places of those that are columns of whole numbers as they are, of the right side.
    pub(super) places: Vec<Option<usize>>,
}

impl Keys {
    /// For sides of these shapes; none if something of the keys has no translation.
    pub(super) fn new(
        run: &Run<'_>,
        keys: &[HashKey],
        left: &Shape,
        right: &Shape,
    ) -> Option<Self> {
        let mut of_left = ProgramBuilder::new(left, &run.context);
        let mut of_right = ProgramBuilder::new(right, &run.context);
        let (mut collations, mut places) = (Vec::new(), Vec::new());
        for key in keys {
            if key.null_safe || !key.left.is_ready() || !key.right.is_ready() {
                return None;
            }
            let left = with_parameters(&run.context, &key.left.expression);
            let right = &key.right.expression;
            collations.push(of_left.give_key(&mut of_right, &left, right, key.comparison)?);
            places.push(place_as_it_is(&left, right));
        }
        let left = Computer::new(of_left.finish()?).ok()?;
        let right = Computer::new(of_right.finish()?).ok()?;
        Some(Self { left, right, collations, places })
    }

    pub(super) fn of_left(&self, batch: &ColumnBatch) -> Result<Vec<KeyColumn>, Inexact> {
        self.of(&self.left, batch)
    }

    pub(super) fn of_right(&self, batch: &ColumnBatch) -> Result<Vec<KeyColumn>, Inexact> {
        self.of(&self.right, batch)
    }

    fn of(&self, program: &Computer, batch: &ColumnBatch) -> Result<Vec<KeyColumn>, Inexact> {
        let columns = program.columns(batch.inputs(), batch.rows())?;
        let column = |(vector, collation)| KeyColumn { vector, collation };
        Ok(columns.into_iter().zip(self.collations.iter().copied()).map(column).collect())
    }
}

/// The places of the right side of a join to which the keys of the left side are pushed down as
/// filters.
pub(crate) fn key_filter_places<'k>(
    run: &Run<'_>,
    keys: &'k [HashKey],
) -> impl Iterator<Item = usize> + use<'k> {
    let context = run.context.clone();
    keys.iter().filter_map(move |key| {
        let left = with_parameters(&context, &key.left.expression);
        place_as_it_is(&left, &key.right.expression)
    })
}

/// The place of the right side, if both are compared as they are stored, as whole numbers.
pub(super) fn place_as_it_is(left: &Expression, right: &Expression) -> Option<usize> {
    let (a, b) = (left.sql_type(), right.sql_type());
    let same = Form::of(a) == Form::of(b) && matches!(kind_of(b), Kind::Int | Kind::UInt);
    right.as_column().map(|place| place as usize).filter(|_| same)
}
